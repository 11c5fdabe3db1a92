/* Many texts at once: continuous batching.
 *
 * In: requests. Out: their tokens, when they came. Each step takes one token of every text that is written,
 * then as many of texts that are read as there is room for. Kernels compute each token by itself
 * (models/paged.hr), so a text does not depend on what shares its steps. On a device of its own memory
 * kernels do so for one number of rows: there steps that read and steps that write are apart, each of one
 * size. Where pages run out, the request that was admitted last gives its own up and is read again later.
 */
#include "model/choose_tokens.h"
#include "model/pages.h"

#include "base/clock.h"
#include "base/memory.h"
#include "run/sequence.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* WIDTH_LEAST: pages of a row of the table, so that scores are rows of 128 at least: shorter ones are added
 * up in another order, and a text would depend on how long those beside it are. */
enum { AT_ONCE = 16, CHUNK = 256, CHUNK_APART = 1024, WIDTH_LEAST = 8 };

typedef enum text_state { WAITING, RUNNING, ENDED } text_state;

/* A request on its way. */
typedef struct text {
    const hr_request *request;
    hr_response *out;
    text_state state;
    int32_t *tokens; /* the prompt, then what was generated */
    int64_t length, room;
    int64_t done; /* tokens whose keys and values lie in pages */
    int32_t *pages;
    int64_t page_count, page_room, filled; /* filled: full pages that others can find */
    int64_t admitted;                      /* when, in admissions */
    int64_t taken;                         /* tokens of the step that is built */
    bool began;                            /* some were computed since it was admitted */
    int place;                             /* among those that run */
} text;

typedef struct batch {
    struct hr_model *model;
    hr_page_pool pool;
    text *texts, *running[HR_BATCH_MOST];
    int count, running_count, ended, at_once;
    int64_t chunk, admissions, rows; /* rows: of the step that is built */
    bool apart, reads;               /* a step takes what is read or what is written; the last one read */
    int64_t width;                   /* pages of the longest text, on a device of its own memory; else 0 */
    double begun;
    hr_batch_totals *totals;
} batch;

/* ---- pages of a text ---- */

static void pages_give_up(batch *batch, text *text) {
    for (int64_t i = 0; i < text->page_count; i++)
        hr_page_give_up(&batch->pool, text->pages[i]);
    text->page_count = text->filled = text->done = 0;
}

static int64_t id_before(const batch *batch, const text *text, int64_t page) {
    return page > 0 ? batch->pool.pages[text->pages[page - 1]].id : 0;
}

/* What earlier texts brought of its beginning. One token at least is computed, for its logits; apart, all
 * that were not given. */
static void pages_find(batch *batch, text *text) {
    const int64_t given = text->request->count,
                  most = batch->apart && given < text->length ? given : text->length - 1;
    while ((text->page_count + 1) * HR_PAGE_TOKENS <= most) {
        const int64_t at = text->page_count;
        const int32_t found =
            hr_page_find(&batch->pool, id_before(batch, text, at), text->tokens + at * HR_PAGE_TOKENS);
        if (found < 0) break;
        text->pages[text->page_count++] = found;
    }
    text->filled = text->page_count;
    text->done = text->page_count * HR_PAGE_TOKENS;
}

/* Pages that became full can be found from now on. Apart, those of what is read: another may have it to read.
 */
static void pages_fill(batch *batch, text *text) {
    const int64_t most =
        batch->apart && text->request->count < text->done ? text->request->count : text->done;
    for (; (text->filled + 1) * HR_PAGE_TOKENS <= most; text->filled++)
        hr_page_fill(&batch->pool, text->pages[text->filled], id_before(batch, text, text->filled),
                     text->tokens + text->filled * HR_PAGE_TOKENS);
}

/* ---- joining and leaving ---- */

static void text_leave(batch *batch, text *text, text_state state) {
    pages_give_up(batch, text);
    text->state = state;
    batch->running[text->place] = batch->running[--batch->running_count];
    batch->running[text->place]->place = text->place;
}

static void text_end(batch *batch, text *text, hr_text_end end) {
    text->out->end = end;
    text->out->seconds = hr_clock_seconds() - batch->begun;
    batch->ended++;
    text_leave(batch, text, ENDED);
}

static void texts_admit(batch *batch) {
    for (int i = 0; i < batch->count && batch->running_count < batch->at_once; i++) {
        text *text = &batch->texts[i];
        if (text->state != WAITING) continue;
        text->state = RUNNING;
        const bool first = text->admitted == 0;
        text->admitted = ++batch->admissions;
        text->began = false;
        text->place = batch->running_count;
        batch->running[batch->running_count++] = text;
        pages_find(batch, text);
        if (first) text->out->reused = text->done;
    }
}

/* The one that was admitted last, of those that have no tokens in the step yet. */
static text *newest(const batch *batch) {
    text *found = NULL;
    for (int i = 0; i < batch->running_count; i++)
        if (batch->running[i]->taken == 0 && (!found || batch->running[i]->admitted > found->admitted))
            found = batch->running[i];
    return found;
}

/* Room for so many tokens more; takes the pages of younger texts where none are left. False: the text itself
 * was the youngest and waits again, or has to wait for those of the step. */
static bool pages_take(batch *batch, text *text, int64_t tokens) {
    const int64_t needed = (text->done + tokens + HR_PAGE_TOKENS - 1) / HR_PAGE_TOKENS;
    while (text->page_count < needed) {
        const int32_t page = hr_page_take(&batch->pool);
        if (page >= 0) {
            text->pages[text->page_count++] = page;
            continue;
        }
        struct text *younger = newest(batch);
        batch->totals->preempted += younger->began;
        text_leave(batch, younger, WAITING);
        if (younger == text) return false;
    }
    return true;
}

/* ---- a step ---- */

/* Tokens that a step may take of it. Apart, those that were written go one by one when they are read again,
 * as they went before. */
static int64_t tokens_left(const batch *batch, const text *text) {
    const int64_t given = text->request->count - text->done;
    return !batch->apart ? text->length - text->done : given > 0 ? given : 1;
}

static bool is_read(const batch *batch, const text *text) {
    return batch->apart ? text->done < text->request->count : text->length - text->done > 1;
}

static text *oldest_without(const batch *batch, bool reads, int64_t after) {
    text *found = NULL;
    for (int i = 0; i < batch->running_count; i++) {
        text *text = batch->running[i];
        if (text->taken == 0 && is_read(batch, text) == reads && text->admitted > after &&
            (!found || text->admitted < found->admitted))
            found = text;
    }
    return found;
}

/* Those of texts that are read, or of those that are written, the oldest first. */
static void tokens_take(batch *batch, bool reads) {
    int64_t after = 0;
    for (text *text; batch->rows < batch->chunk && (text = oldest_without(batch, reads, after));) {
        const int64_t left = tokens_left(batch, text), room = batch->chunk - batch->rows,
                      take = left < room ? left : room;
        after = text->admitted;
        if (!pages_take(batch, text, take)) continue;
        text->taken = take;
        batch->rows += take;
    }
}

/* Which tokens the step takes: those of texts that are written first. Apart, steps of either kind in turn. */
static void tokens_choose(batch *batch) {
    batch->rows = 0;
    if (!batch->apart) {
        tokens_take(batch, false);
        tokens_take(batch, true);
        return;
    }
    for (int tries = 0; tries < 2 && batch->rows == 0; tries++) {
        batch->reads = !batch->reads;
        tokens_take(batch, batch->reads);
    }
}

static int64_t power_of_two(int64_t least) {
    int64_t power = 1;
    while (power < least)
        power *= 2;
    return power;
}

/* Where each running text's pages begin; their width, a power of two so that few numbers of pages have code.
 * Where bounds that are data spare what lies behind them: that of the longest text from the beginning. */
static int64_t table_write(const batch *batch) {
    int64_t most = WIDTH_LEAST > batch->width ? WIDTH_LEAST : batch->width;
    for (int i = 0; i < batch->running_count; i++)
        if (batch->running[i]->page_count > most) most = batch->running[i]->page_count;
    const int64_t width = power_of_two(most);
    int32_t *row = batch->model->pages.row;
    memset(row, 0, (size_t)(HR_BATCH_MOST * width) * sizeof *row);
    for (int i = 0; i < batch->running_count; i++)
        for (int64_t page = 0; page < batch->running[i]->page_count; page++)
            row[i * width + page] = batch->running[i]->pages[page] * HR_PAGE_TOKENS;
    return width;
}

/* Token `at` of a step of `rows`. */
static void token_write(struct hr_model *model, int64_t rows, int64_t at, const text *text,
                        int64_t position) {
    hr_model_step_tokens(model)[at] = text->tokens[position];
    hr_model_step_positions(model, rows)[at] = (int32_t)position;
    model->pages.owner[at] = text->place;
    model->pages.seen[at] = (int32_t)position + 1;
    model->pages.place[at] =
        text->pages[position / HR_PAGE_TOKENS] * HR_PAGE_TOKENS + (int32_t)(position % HR_PAGE_TOKENS);
}

static bool answers(const text *text) {
    return text->taken > 0 && text->done + text->taken == text->length;
}

/* First what fills the step up, then tokens without an answer, then one a text that has one. */
static void tokens_write(const batch *batch, int64_t rows) {
    struct hr_model *model = batch->model;
    int64_t at = rows - batch->rows, answer = rows;
    for (int i = 0; i < batch->running_count; i++)
        answer -= answers(batch->running[i]);
    for (int i = 0; i < batch->running_count; i++) {
        const text *text = batch->running[i];
        const int64_t end = text->done + text->taken - answers(text);
        for (int64_t position = text->done; position < end; position++)
            token_write(model, rows, at++, text, position);
        if (answers(text)) token_write(model, rows, answer++, text, text->length - 1);
    }
    for (at = 0; at < rows - batch->rows; at++) {
        hr_model_step_tokens(model)[at] = hr_model_step_positions(model, rows)[at] = 0;
        model->pages.owner[at] = 0;
        model->pages.seen[at] = 1;
        model->pages.place[at] = -1;
    }
}

static void answer_take(batch *batch, text *text, const hr_token_choice *choice) {
    const int64_t limit = (int64_t)batch->pool.count * HR_PAGE_TOKENS, position = text->length;
    hr_response *out = text->out;
    out->log_probability += choice->log_probability;
    if (position == text->request->count) out->first_seconds = hr_clock_seconds() - batch->begun;
    if (hr_model_token_ends(batch->model, choice->token)) {
        text_end(batch, text, HR_END_STOP);
        return;
    }
    text->tokens[text->length++] = out->tokens[out->count++] = choice->token;
    batch->totals->tokens++;
    if (out->count == text->request->most)
        text_end(batch, text, HR_END_MOST);
    else if (position == limit)
        text_end(batch, text, HR_END_CONTEXT);
}

/* The last rows of logits are those of texts that have an answer, in the order of the list; what chooses
 * their tokens is given all rows, so that few numbers of them have code. Texts leave as they end, so the list
 * is walked from its end: what moves was seen. */
static hr_status answers_take(batch *batch, int64_t rows) {
    hr_token_choice choices[HR_BATCH_MOST] = {0};
    int64_t row = rows;
    for (int i = batch->running_count - 1; i >= 0; i--) {
        const text *text = batch->running[i];
        if (answers(text)) choices[--row] = (hr_token_choice){&text->request->sampling, text->length, 0, 0};
    }
    HR_TRY(hr_tokens_choose(batch->model, (const float *)(const void *)batch->model->logits.host, choices,
                            (int)rows));
    row = rows;
    for (int i = batch->running_count - 1; i >= 0; i--) {
        text *text = batch->running[i];
        const bool answered = answers(text);
        text->began = text->began || text->taken > 0;
        text->done += text->taken;
        text->taken = 0;
        pages_fill(batch, text);
        if (answered) answer_take(batch, text, &choices[--row]);
    }
    return HR_OK;
}

/* Rows of a step: few numbers have code. Apart there are two of them: products of other numbers of rows add
 * up in another order, and a token is always computed among as many. */
static int64_t step_rows(const batch *batch) {
    if (!batch->apart) return power_of_two(batch->rows);
    return power_of_two(batch->reads ? batch->chunk : batch->at_once);
}

/* The table of pages is as large as the longest text could have it; what is used of it lies in front. */
static hr_status pages_send(const struct hr_model *model, int64_t width) {
    const hr_model_pages *pages = &model->pages;
    const size_t places = (size_t)(pages->memory.host + pages->memory.bytes - (char *)pages->owner);
    HR_TRY(hr_model_memory_send(model->device, &pages->memory, pages->row,
                                (size_t)(HR_BATCH_MOST * width) * sizeof *pages->row));
    return hr_model_memory_send(model->device, &pages->memory, pages->owner, places);
}

static hr_status step_run(batch *batch) {
    struct hr_model *model = batch->model;
    hr_model_step *step;
    tokens_choose(batch);
    int64_t rows = step_rows(batch), most = power_of_two(batch->at_once), least;
    do { /* once more where building the first step says that it needs more rows */
        least = model->rows_least;
        rows = rows > least ? rows : least;
        most = most > least ? most : least;
        most = most < rows ? most : rows;
        HR_TRY(hr_model_step_get(model, rows, most, HR_TOKENS_TOGETHER, &model->pages, &step));
    } while (least < model->rows_least);
    const int64_t width = table_write(batch);
    tokens_write(batch, rows);
    HR_TRY(pages_send(model, width));
    HR_TRY(hr_model_step_run(model, step, width));
    batch->totals->steps++;
    batch->totals->rows += batch->rows;
    return answers_take(batch, most);
}

/* ---- the whole ---- */

static hr_status texts_make(batch *batch, const hr_request *requests, hr_response *out) {
    const int64_t limit = (int64_t)batch->pool.count * HR_PAGE_TOKENS;
    int64_t longest = 0;
    batch->texts = hr_memory_zeros((size_t)batch->count + 1, sizeof *batch->texts);
    if (!batch->texts) return hr_fail(HR_OUT_OF_MEMORY, "no memory for %d requests", batch->count);
    for (int i = 0; i < batch->count; i++) {
        const hr_request *request = &requests[i];
        text *text = &batch->texts[i];
        if (request->size < sizeof *request || request->most < 0 || request->count < 1 || !request->tokens)
            return hr_fail(HR_BAD_INPUT, "request %d does not say its size, or has no tokens", i);
        if (request->count >= limit)
            return hr_fail(HR_BAD_INPUT,
                           "request %d has %" PRId64
                           " tokens, which leaves no room in the context of %" PRId64,
                           i, request->count, limit);
        for (int64_t t = 0; t < request->count; t++)
            if (request->tokens[t] < 0 || request->tokens[t] >= batch->model->vocabulary)
                return hr_fail(HR_BAD_INPUT, "request %d: token %d is none of the vocabulary of %" PRId64, i,
                               request->tokens[t], batch->model->vocabulary);
        const int64_t left = limit + 1 - request->count,
                      more = request->most > 0 && request->most < left ? request->most : left;
        *text = (struct text){.request = request, .out = &out[i], .length = request->count};
        text->tokens = hr_memory_take((size_t)(request->count + more) * sizeof *text->tokens);
        text->pages = hr_memory_take((size_t)batch->pool.count * sizeof *text->pages);
        out[i].tokens = hr_memory_take((size_t)more * sizeof *out[i].tokens);
        if (!text->tokens || !text->pages || !out[i].tokens)
            return hr_fail(HR_OUT_OF_MEMORY, "no memory for request %d", i);
        memcpy(text->tokens, request->tokens, (size_t)request->count * sizeof *text->tokens);
        batch->totals->prompt_tokens += request->count;
        longest = request->count + more > longest ? request->count + more : longest;
    }
    if (!hr_device_memory_is_host(batch->model->device))
        batch->width = (longest < limit ? longest : limit) / HR_PAGE_TOKENS;
    return HR_OK;
}

/* The arrays that say where tokens lie, once a model. */
static hr_status places_take(struct hr_model *model, const hr_page_pool *pool) {
    hr_model_pages *pages = &model->pages;
    const int64_t most = pool->count > WIDTH_LEAST ? pool->count : WIDTH_LEAST;
    const size_t width = (size_t)power_of_two(most), tokens = HR_MODEL_CHUNK;
    if (pages->row) return HR_OK;
    HR_TRY(hr_model_memory_take(model->device, (HR_BATCH_MOST * width + 3 * tokens) * sizeof *pages->row,
                                &pages->memory));
    pages->row = (int32_t *)(void *)pages->memory.host;
    pages->owner = pages->row + HR_BATCH_MOST * width;
    pages->seen = pages->owner + tokens;
    pages->place = pages->seen + tokens;
    pages->most = (int64_t)width;
    return HR_OK;
}

void hr_model_pages_release(struct hr_model *model) {
    hr_model_memory_release(model->device, &model->pages.memory);
    model->pages = (hr_model_pages){0};
}

static hr_status batch_run(batch *batch, const hr_batch_options *options) {
    HR_TRY(places_take(batch->model, &batch->pool));
    batch->begun = hr_clock_seconds();
    while (batch->ended < batch->count) {
        if (options->progress &&
            !options->progress(options->progress_context, "generating", batch->ended, batch->count))
            return hr_fail(HR_CANCELLED, "stopped after %d of %d requests", batch->ended, batch->count);
        texts_admit(batch);
        HR_TRY(step_run(batch));
    }
    return HR_OK;
}

static hr_status options_check(const hr_batch_options *options) {
    if (options->size < sizeof *options)
        return hr_fail(HR_BAD_INPUT, "the options of a batch do not say their size");
    if (options->at_once < 0 || options->at_once > HR_BATCH_MOST || options->chunk < 0 ||
        options->chunk > HR_MODEL_CHUNK)
        return hr_fail(HR_BAD_INPUT, "up to %d requests share a step of up to %d tokens", HR_BATCH_MOST,
                       HR_MODEL_CHUNK);
    return HR_OK;
}

hr_status hr_model_respond(hr_model *model, const hr_request *requests, int count,
                           const hr_batch_options *options, hr_response *out, hr_batch_totals *totals) {
    static const hr_batch_options defaults = {.size = sizeof defaults};
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    HR_TRY(hr_pointer_check(requests, "requests", __func__));
    HR_TRY(hr_pointer_check(out, "place for responses", __func__));
    HR_TRY(hr_pointer_check(totals, "place for totals", __func__));
    if (!options) options = &defaults;
    HR_TRY(options_check(options));
    if (count < 0) return hr_fail(HR_BAD_INPUT, "there cannot be %d requests", count);
    const bool apart = !hr_device_memory_is_host(model->device);
    batch batch = {.model = model,
                   .count = count,
                   .at_once = options->at_once ? options->at_once : AT_ONCE,
                   .chunk = options->chunk ? options->chunk
                            : apart        ? CHUNK_APART
                                           : CHUNK,
                   .apart = apart,
                   .totals = totals};
    *totals = (hr_batch_totals){0};
    memset(out, 0, (size_t)count * sizeof *out);
    model->past = 0; /* its rows become pages */
    hr_model_times_clear(model);
    hr_status status = hr_page_pool_create(model->context, &batch.pool);
    if (status == HR_OK) status = texts_make(&batch, requests, out);
    if (status == HR_OK) status = batch_run(&batch, options);
    totals->seconds = hr_clock_seconds() - batch.begun;
    for (int i = 0; i < count; i++) {
        totals->reused += out[i].reused;
        if (batch.texts) free(batch.texts[i].tokens);
        if (batch.texts) free(batch.texts[i].pages);
    }
    free(batch.texts);
    hr_page_pool_clear(&batch.pool);
    if (status != HR_OK) hr_responses_destroy(out, count);
    return status;
}

void hr_responses_destroy(hr_response *responses, int count) {
    for (int i = 0; responses && i < count; i++) {
        free(responses[i].tokens);
        responses[i] = (hr_response){0};
    }
}
