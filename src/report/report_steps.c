/* How the steps of a lane differ, and what they leave of the trace. In: a lane. Out: words. */
#include "report/report_steps.h"
#include "report/report.h"

#include <stdio.h>
#include <string.h>

#define LEAST_OUTSIDE 0.02 /* of the trace: less is how a recording begins and ends */

const char *hr_modes_words(const hr_lane *lane, bool unicode, char *out, size_t size) {
    const hr_steps *steps = &lane->steps;
    const char *kind = hr_time_kind_words(lane->slow_kind);
    out[0] = 0;
    if (!steps->slow_count) return out;
    if (strncmp(kind, "idle: ", 6) == 0) kind += 6;
    snprintf(out, size, "%d take %s, %d take %s: %s more %s", steps->count - steps->first - steps->slow_count,
             hr_words_time(steps->usual, unicode).text, steps->slow_count,
             hr_words_time(steps->slow, unicode).text, hr_words_time(lane->slow_seconds, unicode).text, kind);
    return out;
}

static hr_words time_or_nothing(double seconds, bool unicode) {
    return seconds > 0 ? hr_words_time(seconds, unicode) : (hr_words){"nothing"};
}

const char *hr_outside_words(const hr_lane *lane, bool unicode, char *out, size_t size) {
    double outside = lane->before_steps + lane->after_steps;
    out[0] = 0;
    if (outside < LEAST_OUTSIDE * lane->trace_seconds || outside <= 0) return out;
    snprintf(out, size, "%.0f %% of the trace: %s before, %s behind; the device computes %.0f %% of it",
             100 * outside / lane->trace_seconds, time_or_nothing(lane->before_steps, unicode).text,
             time_or_nothing(lane->after_steps, unicode).text, 100 * lane->busy_outside / outside);
    return out;
}
