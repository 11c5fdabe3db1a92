/* A text, token by token.
 *
 * In: the tokens that it begins with, how to choose the next ones. Out: its continuation, as it comes.
 */
#include "model/draft.h"

#include "base/clock.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

#define HELD_MOST 16 /* bytes of a character that is not complete */

typedef struct speaking {
    hr_said_fn said;
    void *context;
    char held[HELD_MOST];
    size_t held_length;
} speaking;

/* How many of the last bytes begin a character that more bytes will end. */
static size_t unfinished(const char *text, size_t length) {
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        unsigned char byte = (unsigned char)text[length - back];
        if ((byte & 0xc0) == 0x80) continue;
        size_t whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        return whole > back ? back : 0;
    }
    return 0;
}

static bool say(speaking *speaking, hr_bytes bytes) {
    char joined[HELD_MOST + 256];
    if (!speaking->said) return true;
    while (bytes.length > 0) {
        size_t part = bytes.length < 256 ? bytes.length : 256, length = speaking->held_length + part;
        memcpy(joined, speaking->held, speaking->held_length);
        memcpy(joined + speaking->held_length, bytes.at, part);
        bytes = (hr_bytes){bytes.at + part, bytes.length - part};
        speaking->held_length = unfinished(joined, length);
        length -= speaking->held_length;
        memcpy(speaking->held, joined + length, speaking->held_length);
        if (length > 0 && !speaking->said(speaking->context, joined, length)) return false;
    }
    return true;
}

static bool say_rest(speaking *speaking) {
    return !speaking->said || speaking->held_length == 0 ||
           speaking->said(speaking->context, speaking->held, speaking->held_length);
}

/* Tokens that the context holds already; the last one is fed again, for its logits. */
static int64_t held_already(const struct hr_model *model, const int32_t *tokens, int64_t count) {
    int64_t same = 0;
    while (same < model->past && same < count - 1 && model->fed[same] == tokens[same])
        same++;
    return same;
}

/* One token more at this position, or why there is none. */
static hr_status next_token(struct hr_model *model, const hr_generate_options *options, const float *logits,
                            int64_t position, speaking *speaking, hr_generation *so_far, int32_t *token,
                            bool *ended) {
    HR_TRY(hr_model_sample(model, logits, &options->sampling, position, token));
    *ended = true;
    if (hr_model_token_ends(model, *token)) {
        so_far->end = HR_END_STOP;
        return HR_OK;
    }
    so_far->tokens++;
    hr_bytes bytes = {NULL, 0}; /* nobody hears it: the model needs no tokenizer */
    if (speaking->said) HR_TRY(hr_model_token_text(model, *token, &bytes.at, &bytes.length));
    if (!say(speaking, bytes))
        so_far->end = HR_END_CANCELLED;
    else if (so_far->tokens == options->most)
        so_far->end = HR_END_MOST;
    else if (position == model->context)
        so_far->end = HR_END_CONTEXT;
    else
        *ended = false;
    return HR_OK;
}

/* The text that is there already; its last token's logits. */
static hr_status text_feed(struct hr_model *model, const int32_t *tokens, int64_t count,
                           const hr_generate_options *options, const float **logits) {
    model->progress = options->progress;
    model->progress_context = options->progress_context;
    model->progress_from = model->past;
    model->progress_to = model->past + count;
    hr_status status = hr_model_advance(model, tokens, count, 1, logits);
    model->progress = NULL;
    return status == HR_CANCELLED ? hr_fail(status, "stopped while the text was read") : status;
}

/* Feeds the token, and guesses behind it; says what follows, as far as guesses were right. *token: the last
 * one that was said, which is not fed. */
static hr_status tokens_make(struct hr_model *model, const hr_generate_options *options, speaking *speaking,
                             hr_generation *so_far, int32_t *token, bool *ended) {
    int32_t fed[HR_MODEL_ANSWERS] = {*token};
    const int64_t from = model->past + 1;
    const float *logits;
    int64_t drafted, right = 0;
    hr_status status;
    HR_TRY(hr_draft_make(model, options, *token, fed + 1, &drafted));
    HR_TRY(hr_model_advance_each(model, fed, 1 + drafted, &logits));
    so_far->drafted += drafted;
    for (;; right++) {
        status = next_token(model, options, logits + right * model->vocabulary, from + right, speaking,
                            so_far, token, ended);
        if (status != HR_OK || *ended || right == drafted || *token != fed[1 + right]) break;
        so_far->accepted++;
    }
    /* What was guessed wrongly leaves the context, also where drawing a token failed. */
    model->past = from + right;
    return status;
}

/* What compiles goes before, and the times of reading the text are not those of making it. */
static hr_status tokens_ready(struct hr_model *model, const hr_generate_options *options) {
    HR_TRY(hr_model_step_ready(model, 1));
    if (options->draft > 0) HR_TRY(hr_model_step_ready(model, 1 + options->draft));
    hr_model_times_clear(model);
    return HR_OK;
}

static hr_status generate(struct hr_model *model, const int32_t *tokens, const hr_generate_options *options,
                          hr_generation *out) {
    speaking speaking = {.said = options->said, .context = options->said_context};
    const float *logits;
    int32_t token;
    bool ended;
    hr_model_times_clear(model);
    double begun = hr_clock_seconds();
    HR_TRY(text_feed(model, tokens, out->fed_tokens, options, &logits));
    HR_TRY(next_token(model, options, logits, model->past, &speaking, out, &token, &ended));
    out->prompt_seconds = hr_clock_seconds() - begun;
    if (!ended) HR_TRY(tokens_ready(model, options));
    double first = hr_clock_seconds();
    if (!ended) HR_TRY(hr_draft_read(model, options));
    while (!ended)
        HR_TRY(tokens_make(model, options, &speaking, out, &token, &ended));
    out->seconds = hr_clock_seconds() - first;
    if (out->end != HR_END_CANCELLED) say_rest(&speaking);
    return HR_OK;
}

hr_status hr_model_generate(hr_model *model, const int32_t *tokens, int64_t count,
                            const hr_generate_options *options, hr_generation *out) {
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    HR_TRY(hr_pointer_check(tokens, "tokens", __func__));
    HR_TRY(hr_pointer_check(options, "options", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (options->size < sizeof *options || options->most < 0)
        return hr_fail(HR_BAD_INPUT,
                       "the options of a text do not say their size, or ask for less than no token");
    HR_TRY(hr_draft_check(model, options));
    if (count < 1) return hr_fail(HR_BAD_INPUT, "a text begins with at least one token");
    if (count >= model->context)
        return hr_fail(HR_BAD_INPUT,
                       "the text of %" PRId64 " tokens leaves no room in the model's context of %" PRId64
                       "; shorten it, or ask for a larger context where the model has one",
                       count, model->context);
    hr_generation made = {.prompt_tokens = count};
    int64_t same = held_already(model, tokens, count);
    made.fed_tokens = count - same;
    HR_TRY(hr_model_keep(model, same));
    HR_TRY(generate(model, tokens + same, options, &made));
    *out = made;
    return HR_OK;
}
