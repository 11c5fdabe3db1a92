/* Requests from a file: one JSON object a line.
 *
 * In: a path, what lines leave out. Out: requests with the tokens of their texts. A key that is not known is
 * an error, since a wrong spelling would change a text unseen.
 */
#include "model/model.h"

#include "base/json_read.h"
#include "base/mapping.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_MOST (1 << 20)

typedef struct requests_reader {
    const struct hr_model *model;
    const char *path;
    int line; /* from 1 */
    const hr_generate_options *defaults;
} requests_reader;

static hr_status wrong(const requests_reader *reader, const char *key, const char *what) {
    return hr_fail(HR_BAD_INPUT, "%s:%d: \"%.60s\" %s", reader->path, reader->line, key, what);
}

/* ---- tokens ---- */

static hr_status text_take(const requests_reader *reader, const char *text, hr_special_names names,
                           hr_request *out) {
    int32_t *tokens;
    size_t count;
    HR_TRY(hr_model_prompt(reader->model, text, strlen(text), names, &tokens, &count));
    out->tokens = tokens;
    out->count = (int64_t)count;
    return out->count > 0 ? HR_OK : wrong(reader, "prompt", "holds no text to go on with");
}

static hr_status chat_take(const requests_reader *reader, const char *text, hr_request *out) {
    const hr_chat_turn turn = {"user", text};
    char *whole;
    HR_TRY(hr_model_chat(reader->model, &turn, 1, &whole));
    hr_status status = text_take(reader, whole, HR_SPECIAL_AS_TOKENS, out);
    free(whole);
    return status;
}

/* ---- a line ---- */

static hr_status number_take(const requests_reader *reader, const char *key, const json_t *value, double most,
                             double *out) {
    *out = json_number_value(value);
    return json_is_number(value) && *out >= 0 && *out <= most
               ? HR_OK
               : wrong(reader, key, "is no number that it can be");
}

static hr_status whole_take(const requests_reader *reader, const char *key, const json_t *value,
                            int64_t *out) {
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0 ? HR_OK : wrong(reader, key, "is no whole number from 0 on");
}

static hr_status key_take(const requests_reader *reader, const char *key, const json_t *value,
                          hr_request *out) {
    hr_sampling *sampling = &out->sampling;
    const char *text = json_string_value(value);
    int64_t seed = 0;
    if (strcmp(key, "prompt") == 0 || strcmp(key, "chat") == 0) {
        if (!text) return wrong(reader, key, "is no text");
        if (out->tokens) return wrong(reader, key, "is a second text");
        return *key == 'p' ? text_take(reader, text, HR_SPECIAL_AS_TEXT, out) : chat_take(reader, text, out);
    }
    if (strcmp(key, "n") == 0) return whole_take(reader, key, value, &out->most);
    if (strcmp(key, "top_k") == 0) return whole_take(reader, key, value, &sampling->top_k);
    if (strcmp(key, "temperature") == 0) return number_take(reader, key, value, 100, &sampling->temperature);
    if (strcmp(key, "top_p") == 0) return number_take(reader, key, value, 1, &sampling->top_p);
    if (strcmp(key, "min_p") == 0) return number_take(reader, key, value, 1, &sampling->min_p);
    if (strcmp(key, "seed") != 0)
        return wrong(reader, key,
                     "is not known; a request has prompt or chat, n, temperature, top_k, top_p, min_p, seed");
    HR_TRY(whole_take(reader, key, value, &seed));
    sampling->seed = (uint64_t)seed;
    return HR_OK;
}

static hr_status line_take(const requests_reader *reader, const char *at, size_t length, hr_request *out) {
    json_t *line, *value;
    const char *key;
    hr_status status = HR_OK;
    HR_TRY(hr_json_read(at, length, reader->path, reader->line, &line));
    if (!json_is_object(line)) {
        json_decref(line);
        return hr_fail(HR_BAD_INPUT, "%s:%d: is no JSON object", reader->path, reader->line);
    }
    *out = (hr_request){
        .size = sizeof *out, .most = reader->defaults->most, .sampling = reader->defaults->sampling};
    out->sampling.seed += (uint64_t)(reader->line - 1);
    json_object_foreach(line, key, value) {
        if (status == HR_OK) status = key_take(reader, key, value, out);
    }
    if (status == HR_OK && !out->tokens) status = wrong(reader, "prompt", "is missing");
    json_decref(line);
    return status;
}

/* ---- the file ---- */

static bool is_blank(const char *at, size_t length) {
    while (length > 0 && (at[length - 1] == ' ' || at[length - 1] == '\r' || at[length - 1] == '\t'))
        length--;
    return length == 0;
}

static hr_status lines_take(requests_reader *reader, const hr_mapping *mapping, hr_request **requests,
                            int *count) {
    const char *at = mapping->data, *end = at + mapping->length;
    int room = 0;
    for (; at < end; reader->line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((newline ? newline : end) - at);
        if (!is_blank(at, length)) {
            if (*count == room) {
                if (room >= REQUESTS_MOST)
                    return hr_fail(HR_BAD_INPUT, "%s:%d: is beyond the %d requests of a file", reader->path,
                                   reader->line, (int)REQUESTS_MOST);
                room = room ? 2 * room : 64;
                hr_request *grown = hr_memory_resize(*requests, (size_t)room * sizeof *grown);
                if (!grown)
                    return hr_fail(HR_OUT_OF_MEMORY, "%s:%d: no memory for more requests", reader->path,
                                   reader->line);
                *requests = grown;
            }
            (*requests)[(*count)++] = (hr_request){0};
            HR_TRY(line_take(reader, at, length, &(*requests)[*count - 1]));
        }
        at += length + 1;
    }
    return *count > 0 ? HR_OK : hr_fail(HR_BAD_INPUT, "%s: holds no request", reader->path);
}

hr_status hr_requests_read(const hr_model *model, const char *path, const hr_generate_options *defaults,
                           hr_request **out, int *count) {
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    HR_TRY(hr_pointer_check(path, "path", __func__));
    HR_TRY(hr_pointer_check(defaults, "defaults", __func__));
    HR_TRY(hr_pointer_check(out, "place for requests", __func__));
    HR_TRY(hr_pointer_check(count, "place for their number", __func__));
    if (defaults->size < sizeof *defaults)
        return hr_fail(HR_BAD_INPUT, "the defaults of requests do not say their size");
    requests_reader reader = {model, path, 1, defaults};
    hr_mapping mapping;
    hr_request *requests = NULL;
    int made = 0;
    HR_TRY(hr_mapping_open(path, &mapping));
    hr_status status = lines_take(&reader, &mapping, &requests, &made);
    hr_mapping_close(&mapping);
    if (status != HR_OK) {
        hr_requests_destroy(requests, made);
        return status;
    }
    *out = requests;
    *count = made;
    return HR_OK;
}

void hr_requests_destroy(hr_request *requests, int count) {
    for (int i = 0; requests && i < count; i++)
        free((void *)(uintptr_t)requests[i].tokens);
    free(requests);
}
