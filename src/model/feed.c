/* Tokens into a model's context, logits out of it.
 *
 * In: tokens. Out: the logits of the last ones. A long text goes in pieces of hr_model_chunk() tokens; the
 * sequence of a piece is kept for the next one of its size.
 */
#include "model/model.h"

#include "run/kernel.h"
#include "run/sequence.h"

#include <inttypes.h>
#include <string.h>

static hr_model_step *step_find(struct hr_model *model, int64_t tokens, int64_t answers, hr_token_order order,
                                bool paged) {
    for (int i = 0; i < model->step_count; i++)
        if (model->steps[i].tokens == tokens && model->steps[i].answers == answers &&
            model->steps[i].order == order && model->steps[i].paged == paged)
            return &model->steps[i];
    return NULL;
}

/* A free place, or that of the step which was not used for the longest time. */
static hr_model_step *step_place(struct hr_model *model) {
    if (model->step_count < HR_MODEL_STEPS_MOST) return &model->steps[model->step_count++];
    hr_model_step *oldest = &model->steps[0];
    for (int i = 1; i < model->step_count; i++)
        if (model->steps[i].used < oldest->used) oldest = &model->steps[i];
    hr_sequence_destroy(oldest->sequence);
    return oldest;
}

hr_status hr_model_step_get(struct hr_model *model, int64_t tokens, int64_t answers, hr_token_order order,
                            const hr_model_pages *pages, hr_model_step **out) {
    hr_model_step *found = step_find(model, tokens, answers, order, pages != NULL);
    if (!found) {
        hr_sequence *sequence;
        HR_TRY(hr_sequence_create(model->device, &sequence));
        hr_status status = hr_model_step_build(model, tokens, answers, order, pages, sequence);
        if (status != HR_OK) {
            hr_sequence_destroy(sequence);
            return status;
        }
        for (int i = 0; i < model->kernel_count; i++) {
            if (!model->kernels[i].kernel) continue;
            model->kernels[i].kernel->threads = model->threads;
            model->kernels[i].kernel->rows_alike = true;
        }
        found = step_place(model);
        *found = (hr_model_step){tokens, answers, order, pages != NULL, sequence, 0};
    }
    found->used = ++model->clock;
    *out = found;
    return HR_OK;
}

/* An hr_progress_fn over one step of a text that is read: what is not prepared yet has no time that can be
 * guessed. */
static bool step_progress(void *context, const char *what, double done, double total) {
    const struct hr_model *model = context;
    double tokens =
        (double)(model->past - model->progress_from) + done / total * (double)model->progress_step;
    if (strcmp(what, "preparing") == 0)
        return model->progress(model->progress_context, "preparing the kernels", 0, 0);
    return model->progress(model->progress_context, "reading the text", tokens,
                           (double)(model->progress_to - model->progress_from));
}

int64_t hr_model_chunk(const struct hr_model *model) {
    enum { OF_HOST = 512 };
    return hr_device_memory_is_host(model->device) ? OF_HOST : HR_MODEL_CHUNK;
}

enum { ALIGNED = 4 }; /* numbers of 16 bytes, at which kernels look for their arrays */

int32_t *hr_model_step_tokens(const struct hr_model *model) {
    return (int32_t *)(void *)model->tokens.host;
}

int32_t *hr_model_step_positions(const struct hr_model *model, int64_t tokens) {
    return hr_model_step_tokens(model) + (tokens + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* On a device that only queues launches, two in TIMED_EACH are waited for and timed: by their calls, and as a
 * whole. */
static hr_status step_launch(const struct hr_model *model, hr_sequence *sequence, int64_t size) {
    enum { TIMED_EACH = 64, BY_CALLS = 2, WHOLE = 3 };
    const int64_t at = hr_sequence_launches(sequence) % TIMED_EACH;
    if (hr_device_memory_is_host(model->device) || (at != BY_CALLS && at != WHOLE))
        return hr_sequence_launch(sequence, size);
    return hr_sequence_launch_timed(sequence, size, at == WHOLE ? HR_TIMING_WHOLE : HR_TIMING_CALLS);
}

hr_status hr_model_step_run(struct hr_model *model, const hr_model_step *step, int64_t size) {
    const char *end = (const char *)(hr_model_step_positions(model, step->tokens) + step->tokens);
    HR_TRY(hr_model_memory_send(model->device, &model->tokens, model->tokens.host,
                                (size_t)(end - model->tokens.host)));
    HR_TRY(step_launch(model, step->sequence, size));
    model->last = step->sequence;
    return HR_OK;
}

hr_status hr_model_logits_fetch(struct hr_model *model, int64_t answers) {
    return hr_model_memory_fetch(model->device, &model->logits, model->logits.host,
                                 (size_t)(answers * model->vocabulary) * sizeof(float));
}

static hr_status piece_feed(struct hr_model *model, const int32_t *tokens, int64_t count, int64_t answers,
                            hr_token_order order) {
    hr_model_step *step;
    HR_TRY(hr_model_step_get(model, count, answers, order, NULL, &step));
    memcpy(hr_model_step_tokens(model), tokens, (size_t)count * sizeof *tokens);
    for (int64_t i = 0; i < count; i++)
        hr_model_step_positions(model, count)[i] = (int32_t)(model->past + i);
    model->progress_step = count;
    hr_sequence_watch(step->sequence, model->progress ? step_progress : NULL, model);
    HR_TRY(hr_model_step_run(model, step, model->past));
    memcpy(model->fed + model->past, tokens, (size_t)count * sizeof *tokens);
    model->past += count;
    return HR_OK;
}

/* One token is one by itself. */
static hr_token_order order_of(int64_t tokens) {
    return tokens > 1 ? HR_TOKENS_EACH : HR_TOKENS_TOGETHER;
}

/* The first launch compiles. It runs at the place of the next tokens, which overwrite what these leave in the
 * caches. */
hr_status hr_model_step_ready(struct hr_model *model, int64_t tokens) {
    const int32_t any[HR_MODEL_ANSWERS] = {0};
    const hr_token_order order = order_of(tokens);
    if (step_find(model, tokens, tokens, order, false) || model->past + tokens > model->context) return HR_OK;
    HR_TRY(piece_feed(model, any, tokens, tokens, order));
    model->past -= tokens;
    hr_sequence_times_clear(model->last);
    return HR_OK;
}

static hr_status tokens_check(const struct hr_model *model, const int32_t *tokens, int64_t count,
                              int64_t answers) {
    if (count < 1 || answers < 0 || answers > count || answers > HR_MODEL_ANSWERS)
        return hr_fail(HR_BAD_INPUT,
                       "%" PRId64 " tokens cannot give %" PRId64 " rows of logits; up to %d of them can",
                       count, answers, HR_MODEL_ANSWERS);
    if (count > model->context - model->past)
        return hr_fail(HR_BAD_INPUT,
                       "%" PRId64 " tokens and %" PRId64
                       " before them are more than the model's context of %" PRId64,
                       count, model->past, model->context);
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= model->vocabulary)
            return hr_fail(HR_BAD_INPUT, "token %d is none of the vocabulary of %" PRId64, tokens[i],
                           model->vocabulary);
    return HR_OK;
}

hr_status hr_model_advance_each(struct hr_model *model, const int32_t *tokens, int64_t count,
                                const float **logits) {
    HR_TRY(tokens_check(model, tokens, count, count));
    HR_TRY(piece_feed(model, tokens, count, count, order_of(count)));
    *logits = (const float *)(const void *)model->logits.host;
    return HR_OK;
}

hr_status hr_model_advance(struct hr_model *model, const int32_t *tokens, int64_t count, int64_t answers,
                           const float **logits) {
    HR_TRY(tokens_check(model, tokens, count, answers));
    const int64_t chunk = hr_model_chunk(model);
    int64_t at = 0, needed = answers > 1 ? answers : 1;
    while (count - at > chunk) { /* the last piece gives all the answers */
        int64_t take = count - at - needed < chunk ? count - at - needed : chunk;
        HR_TRY(piece_feed(model, tokens + at, take, 1, HR_TOKENS_TOGETHER));
        at += take;
    }
    HR_TRY(piece_feed(model, tokens + at, count - at, needed, HR_TOKENS_TOGETHER));
    if (logits) *logits = (const float *)(const void *)model->logits.host;
    return HR_OK;
}

hr_status hr_model_feed(hr_model *model, const int32_t *tokens, int64_t count, int64_t answers,
                        const float **logits) {
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    HR_TRY(hr_pointer_check(tokens, "tokens", __func__));
    HR_TRY(hr_model_advance(model, tokens, count, answers, logits));
    return logits ? hr_model_logits_fetch(model, answers > 1 ? answers : 1) : HR_OK;
}

hr_status hr_model_keep(hr_model *model, int64_t tokens) {
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    if (tokens < 0 || tokens > model->past)
        return hr_fail(HR_BAD_INPUT, "the context holds %" PRId64 " tokens, and not %" PRId64, model->past,
                       tokens);
    model->past = tokens;
    return HR_OK;
}

/* Steps that ran since are found by their launches. */
void hr_model_times_clear(struct hr_model *model) {
    for (int i = 0; i < model->step_count; i++)
        hr_sequence_times_clear(model->steps[i].sequence);
}

int hr_model_sequences(const hr_model *model, const hr_sequence **out, int most) {
    int count = 0;
    if (hr_handle_check(model, HR_HANDLE_MODEL, __func__) != HR_OK ||
        hr_pointer_check(out, "place for sequences", __func__) != HR_OK)
        return 0;
    for (int i = 0; i < model->step_count && count < most; i++)
        if (hr_sequence_launches(model->steps[i].sequence) > 0) out[count++] = model->steps[i].sequence;
    return count;
}

hr_sequence *hr_model_sequence(const hr_model *model) {
    return hr_handle_check(model, HR_HANDLE_MODEL, __func__) == HR_OK ? model->last : NULL;
}
