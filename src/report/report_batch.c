/* Reports on many texts at once: each as a line of JSON, all of them by rates and latencies.
 *
 * In: responses. Out: lines.
 */
#include "base/clock.h"
#include "base/handle.h"
#include "base/memory.h"
#include "report/json_value.h"
#include "report/sheet.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- one response ---- */

static hr_status tokens_text(const hr_model *model, const hr_response *response, hr_text *out) {
    for (int64_t i = 0; i < response->count; i++) {
        const char *text;
        size_t length;
        HR_TRY(hr_model_token_text(model, response->tokens[i], &text, &length));
        hr_text_append(out, text, length);
    }
    return hr_text_status(out);
}

hr_status hr_report_response_json(const hr_model *model, const hr_request *request,
                                  const hr_response *response, int number, char **out) {
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    HR_TRY(hr_pointer_check(request, "request", __func__));
    HR_TRY(hr_pointer_check(response, "response", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_text text = {0};
    hr_status status = tokens_text(model, response, &text);
    if (status == HR_OK) {
        const long before = hr_memory_wants();
        json_t *root = json_object();
        hr_value_set_whole(root, "request", number);
        hr_value_set_text(root, "text", hr_text_data(&text));
        hr_value_set_text(root, "end", hr_text_end_word(response->end));
        hr_value_set_whole(root, "prompt_tokens", request->count);
        hr_value_set_whole(root, "reused_tokens", response->reused);
        hr_value_set_whole(root, "tokens", response->count);
        hr_value_set_real(root, "log_probability", response->log_probability);
        hr_value_set_real(root, "first_seconds", response->first_seconds);
        hr_value_set_real(root, "seconds", response->seconds);
        status = hr_value_give_line(root, before, out);
    }
    hr_text_clear(&text);
    return status;
}

/* ---- all ---- */

/* The least time within which `share` of the responses were there. */
static double percentile(const double *sorted, int count, double share) {
    int place = (int)ceil(share * count) - 1;
    return sorted[place < 0 ? 0 : place];
}

static void latency_line(hr_sheet *paper, const char *label, double *times, int count) {
    const bool unicode = paper->style.unicode;
    qsort(times, (size_t)count, sizeof *times, hr_compare_doubles);
    hr_sheet_label(paper, label);
    hr_sheet_format(paper, HR_INK_PLAIN, "p50 %s%sp99 %s",
                    hr_words_time(percentile(times, count, 0.5), unicode).text, hr_sheet_dot(paper),
                    hr_words_time(percentile(times, count, 0.99), unicode).text);
    hr_sheet_end_line(paper);
}

static void totals_lines(hr_sheet *paper, int count, const hr_batch_totals *totals) {
    const char *dot = hr_sheet_dot(paper);
    hr_sheet_label(paper, "requests");
    hr_sheet_format(paper, HR_INK_PLAIN, "%d in %s%s%" PRId64 " tokens read, %" PRId64 " of them shared",
                    count, hr_words_time(totals->seconds, paper->style.unicode).text, dot,
                    totals->prompt_tokens, totals->reused);
    hr_sheet_end_line(paper);
    hr_sheet_label(paper, "written");
    hr_sheet_format(paper, HR_INK_PLAIN, "%" PRId64 " tokens%s%.1f tokens/s%s%.1f rows a step",
                    totals->tokens, dot, totals->seconds > 0 ? (double)totals->tokens / totals->seconds : 0,
                    dot, totals->steps > 0 ? (double)totals->rows / (double)totals->steps : 0);
    if (totals->preempted > 0)
        hr_sheet_format(paper, HR_INK_PLAIN, "%s%" PRId64 " times begun anew for want of pages", dot,
                        totals->preempted);
    hr_sheet_end_line(paper);
}

hr_status hr_report_batch_text(const hr_response *responses, int count, const hr_batch_totals *totals,
                               const hr_report_style *style, char **out) {
    HR_TRY(hr_pointer_check(responses, "responses", __func__));
    HR_TRY(hr_pointer_check(totals, "totals", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (count < 1) return hr_fail(HR_BAD_INPUT, "there are no responses to report");
    double *times = hr_memory_take((size_t)count * sizeof *times);
    if (!times) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a report");
    hr_sheet paper = hr_sheet_begin(style);
    totals_lines(&paper, count, totals);
    for (int i = 0; i < count; i++)
        times[i] = responses[i].first_seconds;
    latency_line(&paper, "first", times, count);
    for (int i = 0; i < count; i++)
        times[i] = responses[i].seconds;
    latency_line(&paper, "whole", times, count);
    free(times);
    return hr_text_give(&paper.text, out);
}
