/* Guesses of tokens: by the words before, or by a smaller model. See draft.h. */
#include "model/draft.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what followed the same words before ---- */

/* The token at a place of the context, behind which `next` stands. */
static int32_t token_at(const struct hr_model *model, int64_t place, int32_t next) {
    return place < model->past ? model->fed[place] : next;
}

/* Whether the tokens that end at `place` are the last ones, so many of them. */
static bool is_same(const struct hr_model *model, int64_t place, int32_t next, int words) {
    for (int i = 0; i < words; i++)
        if (model->fed[place - i] != token_at(model, model->past - i, next)) return false;
    return true;
}

/* What followed the last words when they stood in the text before; where that is the end, it goes round. */
static int64_t words_guess(const struct hr_model *model, int32_t next, int64_t count, int32_t *out) {
    enum { WORDS_MOST = 3, WORDS_LEAST = 2 };
    for (int words = WORDS_MOST; words >= WORDS_LEAST; words--)
        for (int64_t place = model->past - 1; place >= words - 1; place--) {
            if (!is_same(model, place, next, words)) continue;
            const int64_t period = model->past - place;
            for (int64_t i = 0; i < count; i++)
                out[i] = token_at(model, place + 1 + i % period, next);
            return count;
        }
    return 0;
}

/* ---- what another model says ---- */

static hr_status tokens_check(const struct hr_model *model, const struct hr_model *drafter) {
    if (!model->tokenizer || !drafter->tokenizer)
        return model->vocabulary == drafter->vocabulary
                   ? HR_OK
                   : hr_fail(HR_BAD_INPUT,
                             "%s: knows %" PRId64 " tokens and %s %" PRId64 "; who guesses knows the same",
                             drafter->file->path, drafter->vocabulary, model->file->path, model->vocabulary);
    const int32_t count = hr_tokenizer_size(model->tokenizer), other = hr_tokenizer_size(drafter->tokenizer);
    int32_t same = 0;
    for (; same < count && same < other; same++) {
        const hr_bytes ours = hr_tokenizer_bytes(model->tokenizer, same),
                       theirs = hr_tokenizer_bytes(drafter->tokenizer, same);
        if (ours.length != theirs.length || memcmp(ours.at, theirs.at, ours.length) != 0) break;
    }
    if (same == count && same == other) return HR_OK;
    return hr_fail(HR_BAD_INPUT,
                   "%s: its token %" PRId32 " is not that of %s; who guesses knows the same tokens",
                   drafter->file->path, same, model->file->path);
}

hr_status hr_draft_check(const struct hr_model *model, const hr_generate_options *options) {
    const struct hr_model *drafter = options->draft_model;
    if (options->draft < 0 || options->draft >= HR_MODEL_ANSWERS)
        return hr_fail(HR_BAD_INPUT, "0 to %d tokens can be guessed at a time, not %" PRId64,
                       HR_MODEL_ANSWERS - 1, options->draft);
    if (!drafter) return HR_OK;
    HR_TRY(hr_handle_check(drafter, HR_HANDLE_MODEL, __func__));
    if (drafter == model)
        return hr_fail(HR_BAD_INPUT, "a model that guesses for itself is no faster: open a smaller one");
    return tokens_check(model, drafter);
}

/* Feeds the drafter what it lacks of the model's context, then `next`, a token that is none where it is -1.
 */
static hr_status drafter_feed(const struct hr_model *model, struct hr_model *drafter, int32_t next,
                              const float **logits) {
    int64_t same = 0;
    while (same < drafter->past && same < model->past && drafter->fed[same] == model->fed[same])
        same++;
    HR_TRY(hr_model_keep(drafter, same));
    const int64_t lacking = model->past - same, count = lacking + (next >= 0);
    if (count == 0) return HR_OK;
    int32_t *tokens = hr_memory_take((size_t)count * sizeof *tokens);
    if (!tokens) return hr_fail(HR_OUT_OF_MEMORY, "no memory for %" PRId64 " tokens", count);
    memcpy(tokens, model->fed + same, (size_t)lacking * sizeof *tokens);
    if (next >= 0) tokens[lacking] = next;
    hr_status status = hr_model_advance(drafter, tokens, count, 1, logits);
    free(tokens);
    return status;
}

hr_status hr_draft_read(const struct hr_model *model, const hr_generate_options *options) {
    struct hr_model *drafter = options->draft_model;
    if (!drafter || options->draft == 0 || model->past >= drafter->context) return HR_OK;
    HR_TRY(drafter_feed(model, drafter, -1, NULL));
    HR_TRY(hr_model_step_ready(drafter, 1));
    hr_model_times_clear(drafter);
    return HR_OK;
}

/* With the random numbers that the model will draw with, so that the two agree as often as they can. */
static hr_status model_guess(const struct hr_model *model, const hr_generate_options *options, int32_t next,
                             int64_t most, int32_t *out, int64_t *count) {
    struct hr_model *drafter = options->draft_model;
    const float *logits;
    *count = 0;
    if (model->past + 1 + most > drafter->context) return HR_OK;
    HR_TRY(drafter_feed(model, drafter, next, &logits));
    for (;;) {
        int32_t *guess = &out[*count];
        HR_TRY(hr_model_sample(drafter, logits, &options->sampling, model->past + 1 + *count, guess));
        if (*guess >= model->vocabulary) return HR_OK; /* a row of the embedding that is no token */
        if (++*count == most) return HR_OK;
        HR_TRY(hr_model_advance(drafter, guess, 1, 1, &logits));
    }
}

/* ---- either ---- */

hr_status hr_draft_make(const struct hr_model *model, const hr_generate_options *options, int32_t next,
                        int32_t *out, int64_t *count) {
    const int64_t most = options->draft;
    *count = 0;
    if (most < 1 || model->past + 1 + most > model->context) return HR_OK;
    if (options->draft_model) return model_guess(model, options, next, most, out, count);
    *count = words_guess(model, next, most, out);
    return HR_OK;
}
