/* Reports on generated texts: what a token costs, and where its time goes.
 *
 * In: counts and times of a generation, the sequence of a token's step. Out: lines, or a JSON object.
 */
#include "base/handle.h"
#include "base/memory.h"
#include "report/json_value.h"
#include "report/sheet.h"
#include "run/sequence.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All calls of one kernel. */
typedef struct kernel_time {
    const char *name;
    double calls, seconds, bytes, floor; /* of a step, or a token */
} kernel_time;

typedef struct step_times {
    kernel_time *kernels; /* the slowest first */
    int count;
    double seconds, bytes, floor;
    double graph;     /* seconds of all calls as one CUDA graph; 0 = not timed */
    int64_t meetings; /* of a CPU's threads */
} step_times;

static int by_falling_time(const void *a, const void *b) {
    double first = ((const kernel_time *)a)->seconds, second = ((const kernel_time *)b)->seconds;
    return (first < second) - (first > second);
}

static kernel_time *kernel_of(step_times *times, const char *name) {
    for (int i = 0; i < times->count; i++)
        if (strcmp(times->kernels[i].name, name) == 0) return &times->kernels[i];
    times->kernels[times->count] = (kernel_time){.name = name};
    return &times->kernels[times->count++];
}

static hr_status call_add(step_times *times, const hr_sequence *sequence, int i, double share,
                          const hr_roof *roof) {
    hr_call_info info;
    HR_TRY(hr_sequence_call_info(sequence, i, roof, &info));
    kernel_time *kernel = kernel_of(times, info.kernel);
    const double launches = (double)info.launches * share;
    kernel->calls += launches;
    kernel->seconds += info.seconds * share;
    kernel->bytes += info.bytes * launches;
    kernel->floor += info.floor.seconds * launches;
    times->seconds += info.seconds * share;
    times->bytes += info.bytes * launches;
    times->floor += info.floor.seconds * launches;
    return HR_OK;
}

/* The launches of all sequences, divided by `parts`: the steps or the tokens that they made. Free the kernels
 * after a failure, too. */
static hr_status times_make(const hr_sequence *const *sequences, int count, double parts, const hr_roof *roof,
                            step_times *out) {
    int calls = 0;
    for (int s = 0; s < count; s++)
        calls += hr_sequence_call_count(sequences[s]);
    *out = (step_times){.kernels = calloc((size_t)calls + 1, sizeof *out->kernels)};
    if (!out->kernels) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a report");
    for (int s = 0; s < count; s++)
        for (int i = 0; i < hr_sequence_call_count(sequences[s]); i++)
            HR_TRY(call_add(out, sequences[s], i, 1 / parts, roof));
    qsort(out->kernels, (size_t)out->count, sizeof *out->kernels, by_falling_time);
    return HR_OK;
}

/* ---- text ---- */

static void kernel_line(hr_sheet *paper, const kernel_time *kernel, const step_times *all, bool floors) {
    bool unicode = paper->style.unicode;
    hr_sheet_format(paper, HR_INK_PLAIN, "  %-16s %5.0f  %9s  %5.1f %%  %10s", kernel->name, kernel->calls,
                    hr_words_time(kernel->seconds, unicode).text, 100 * kernel->seconds / all->seconds,
                    hr_words_rate(kernel->bytes / kernel->seconds, "B/s").text);
    if (floors)
        hr_sheet_format(paper, HR_INK_PLAIN, "  %9s  %6s", hr_words_time(kernel->floor, unicode).text,
                        hr_words_ratio(kernel->seconds / kernel->floor, "x").text);
    hr_sheet_end_line(paper);
}

/* What copies take of a launch as a whole beyond its kernels: the rest goes on beside these. */
static void copies_line(hr_sheet *paper, const step_times *times) {
    double copies = 0;
    for (int i = 0; i < times->count; i++)
        if (strcmp(times->kernels[i].name, "copy") == 0) copies = times->kernels[i].seconds;
    if (copies <= 0 || times->graph <= 0) return;
    const double exposed = fmin(fmax(times->graph - (times->seconds - copies), 0), copies);
    const bool unicode = paper->style.unicode;
    hr_sheet_format(paper, HR_INK_PLAIN, "  copies take %s, %s of them exposed",
                    hr_words_time(copies, unicode).text,
                    exposed > 0 ? hr_words_time(exposed, unicode).text : "none");
    hr_sheet_end_line(paper);
}

static hr_status sequence_text(const step_times *times, bool floors, const hr_report_style *style,
                               char **out) {
    hr_sheet paper = hr_sheet_begin(style);
    hr_sheet_format(&paper, HR_INK_DIM, "  %-16s %5s  %9s  %7s  %10s", "kernel", "calls", "time", "share",
                    "bytes");
    if (floors) hr_sheet_format(&paper, HR_INK_DIM, "  %9s  %6s", "floor", "headroom");
    hr_sheet_end_line(&paper);
    for (int i = 0; i < times->count; i++)
        kernel_line(&paper, &times->kernels[i], times, floors);
    kernel_time all = {"a step", 0, times->seconds, times->bytes, times->floor};
    for (int i = 0; i < times->count; i++)
        all.calls += times->kernels[i].calls;
    kernel_line(&paper, &all, times, floors);
    if (times->graph > 0) {
        const kernel_time graph = {"as one graph", all.calls, times->graph, times->bytes, times->floor};
        kernel_line(&paper, &graph, times, floors);
    }
    if (times->meetings > 0) {
        hr_sheet_format(&paper, HR_INK_DIM, "  between calls threads wait for each other %" PRId64 " times",
                        times->meetings);
        hr_sheet_end_line(&paper);
    }
    copies_line(&paper, times);
    return hr_text_give(&paper.text, out);
}

hr_status hr_report_sequence_text(const hr_sequence *sequence, const hr_roof *roof,
                                  const hr_report_style *style, char **out) {
    HR_TRY(hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    step_times times;
    hr_sequence_info info;
    const double launches = (double)hr_sequence_launches(sequence);
    hr_status status = times_make(&sequence, 1, launches > 0 ? launches : 1, roof, &times);
    if (status == HR_OK) status = hr_sequence_info_get(sequence, &info);
    if (status == HR_OK && info.replays > 0) times.graph = info.seconds;
    if (status == HR_OK) times.meetings = info.meetings;
    if (status == HR_OK) status = sequence_text(&times, roof != NULL, style, out);
    free(times.kernels);
    return status;
}

static double rate(double count, double seconds) {
    return seconds > 0 ? count / seconds : NAN;
}

/* Tokens after the first, which the prompt's time ends with. */
static double later_tokens(const hr_generation *generation) {
    return generation->tokens > 1 ? (double)(generation->tokens - 1) : 0;
}

static void decode_line(hr_sheet *paper, const hr_generation_report *report, const step_times *times) {
    const hr_generation *made = &report->generation;
    double tokens = later_tokens(made), a_token = tokens > 0 ? made->seconds / tokens : 0;
    const char *dot = hr_sheet_dot(paper);
    hr_sheet_label(paper, "decode");
    hr_sheet_format(paper, HR_INK_PLAIN, "%" PRId64 " token%s", made->tokens, made->tokens == 1 ? "" : "s");
    if (tokens > 0)
        hr_sheet_format(paper, HR_INK_PLAIN, "%s%.1f tokens/s%s%s%s%s a token", dot,
                        rate(tokens, made->seconds), dot, hr_words_rate(times->bytes / a_token, "B/s").text,
                        dot, hr_words_time(a_token, paper->style.unicode).text);
    hr_sheet_end_line(paper);
    if (made->drafted > 0) {
        hr_sheet_label(paper, "draft");
        hr_sheet_format(paper, HR_INK_PLAIN, "%" PRId64 " of %" PRId64 " guessed tokens were right",
                        made->accepted, made->drafted);
        hr_sheet_end_line(paper);
    }
    if (!report->roof || tokens == 0) return;
    hr_sheet_label(paper, "floor");
    hr_sheet_format(paper, HR_INK_PLAIN, "%s a token: %s read and written",
                    hr_words_time(times->floor, paper->style.unicode).text,
                    hr_words_rate(times->bytes, "B").text);
    hr_sheet_end_line(paper);
    hr_sheet_label(paper, "headroom");
    hr_sheet_put(paper, HR_INK_BOLD, hr_words_ratio(a_token / times->floor, "x").text);
    hr_sheet_end_line(paper);
}

static hr_status generation_text(const hr_generation_report *report, const step_times *times,
                                 const hr_report_style *style, char **out) {
    const hr_generation *made = &report->generation;
    hr_sheet paper = hr_sheet_begin(style);
    hr_sheet_label(&paper, "prefill");
    hr_sheet_format(&paper, HR_INK_PLAIN, "%" PRId64 " token%s%s%.1f tokens/s%s%s to the first token",
                    made->fed_tokens, made->fed_tokens == 1 ? "" : "s", hr_sheet_dot(&paper),
                    rate((double)made->fed_tokens, made->prompt_seconds), hr_sheet_dot(&paper),
                    hr_words_time(made->prompt_seconds, paper.style.unicode).text);
    hr_sheet_end_line(&paper);
    decode_line(&paper, report, times);
    hr_sheet_label(&paper, "memory");
    hr_sheet_format(&paper, HR_INK_PLAIN, "weights %s%scontext %s for %" PRId64 " tokens%sstep %s",
                    hr_words_capacity(report->model.weight_bytes).text, hr_sheet_dot(&paper),
                    hr_words_capacity(report->model.cache_bytes).text, report->model.context,
                    hr_sheet_dot(&paper), hr_words_capacity(report->model.step_bytes).text);
    hr_sheet_end_line(&paper);
    return hr_text_give(&paper.text, out);
}

/* ---- JSON ---- */

static json_t *kernels_value(const step_times *times, bool floors) {
    json_t *list = json_array();
    for (int i = 0; i < times->count; i++) {
        const kernel_time *kernel = &times->kernels[i];
        json_t *value = json_object();
        hr_value_set_text(value, "name", kernel->name);
        hr_value_set_whole(value, "calls", llround(kernel->calls));
        hr_value_set_real(value, "seconds", kernel->seconds);
        hr_value_set_real(value, "bytes", kernel->bytes);
        hr_value_set_real(value, "floor_seconds", floors ? kernel->floor : NAN);
        hr_value_append(list, value);
    }
    return list;
}

static hr_status generation_json(const hr_generation_report *report, const step_times *times, char **out) {
    const hr_generation *made = &report->generation;
    const long before = hr_memory_wants();
    json_t *root = json_object(), *prefill = json_object(), *decode = json_object(), *memory = json_object();
    double tokens = later_tokens(made);
    hr_value_set_text(root, "file", report->file);
    hr_value_set_text(root, "family", report->model.family);
    hr_value_set_text(root, "device", report->device_name);
    hr_value_set_text(root, "text", report->text);
    hr_value_set_text(root, "end", hr_text_end_word(made->end));
    hr_value_set_whole(prefill, "tokens", made->fed_tokens);
    hr_value_set_real(prefill, "seconds", made->prompt_seconds);
    hr_value_set_real(prefill, "tokens_per_second", rate((double)made->fed_tokens, made->prompt_seconds));
    hr_value_set(root, "prefill", prefill);
    hr_value_set_whole(decode, "tokens", made->tokens);
    hr_value_set_whole(decode, "drafted", made->drafted);
    hr_value_set_whole(decode, "accepted", made->accepted);
    hr_value_set_real(decode, "seconds", made->seconds);
    hr_value_set_real(decode, "tokens_per_second", rate(tokens, made->seconds));
    hr_value_set_real(decode, "bytes_per_second", rate(tokens * times->bytes, made->seconds));
    hr_value_set_real(decode, "bytes", times->bytes);
    hr_value_set_real(decode, "floor_seconds", report->roof ? times->floor : NAN);
    hr_value_set_real(decode, "headroom",
                      report->roof ? rate(made->seconds / fmax(tokens, 1), times->floor) : NAN);
    hr_value_set(root, "decode", decode);
    hr_value_set_real(memory, "weights", report->model.weight_bytes);
    hr_value_set_real(memory, "context", report->model.cache_bytes);
    hr_value_set_real(memory, "step", report->model.step_bytes);
    hr_value_set(root, "memory", memory);
    hr_value_set(root, "kernels", kernels_value(times, report->roof != NULL));
    return hr_value_give(root, before, out);
}

/* ---- both ---- */

static hr_status report_check(const hr_generation_report *report, char **out, const char *function) {
    HR_TRY(hr_pointer_check(report, "report", function));
    HR_TRY(hr_pointer_check(out, "place for the result", function));
    if (report->size < sizeof *report) return hr_fail(HR_BAD_INPUT, "the report does not say its size");
    if (report->sequence_count < 1) return hr_fail(HR_BAD_INPUT, "the report has no sequence of a step");
    HR_TRY(hr_pointer_check(report->sequences, "sequences of the report", function));
    for (int i = 0; i < report->sequence_count; i++)
        HR_TRY(hr_handle_check(report->sequences[i], HR_HANDLE_SEQUENCE, function));
    return HR_OK;
}

/* A token's share: the one that ended the text was drawn, and is not counted among those that were made. */
static hr_status report_times(const hr_generation_report *report, step_times *out) {
    const hr_generation *made = &report->generation;
    const double drawn = later_tokens(made) + (made->end == HR_END_STOP);
    return times_make(report->sequences, report->sequence_count, fmax(drawn, 1), report->roof, out);
}

hr_status hr_report_generation_text(const hr_generation_report *report, const hr_report_style *style,
                                    char **out) {
    HR_TRY(report_check(report, out, __func__));
    step_times times;
    hr_status status = report_times(report, &times);
    if (status == HR_OK) status = generation_text(report, &times, style, out);
    free(times.kernels);
    return status;
}

hr_status hr_report_generation_json(const hr_generation_report *report, char **out) {
    HR_TRY(report_check(report, out, __func__));
    step_times times;
    hr_status status = report_times(report, &times);
    if (status == HR_OK) status = generation_json(report, &times, out);
    free(times.kernels);
    return status;
}
