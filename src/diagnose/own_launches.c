/* Launches of headroom's own kernels, which lie in ranges that say what they must move.
 *
 * In: a range's name; an analysis without works of a device. Out: its floor; a sentence about the launches on
 * the host, which leave no records of a device.
 */
#include "diagnose/finding.h"

#include <stdio.h>
#include <string.h>

enum { KERNELS_MOST = 32, NAMED_MOST = 3 };

bool hr_own_floor_read(const char *range, hr_own_floor *out) {
    const char *words = strstr(range, HR_FLOOR_WORD);
    if (!words || sscanf(words, HR_FLOOR_WORD "%lfus bound=%15s bytes=%lf flops=%lf", &out->seconds,
                         out->bound, &out->bytes, &out->flops) != 4)
        return false;
    out->seconds *= 1e-6;
    out->name_length = (int)(words - range);
    return true;
}

typedef struct own_kernel {
    const char *range;
    hr_own_floor floor;
    hr_tally tally;
} own_kernel;

static void add(own_kernel *kernels, int *count, const char *range, double seconds) {
    own_kernel one = {.range = range};
    if (!hr_own_floor_read(range, &one.floor)) return;
    int i = 0;
    while (i < *count && strcmp(kernels[i].range, range) != 0)
        i++;
    if (i == KERNELS_MOST) return;
    if (i == *count) kernels[(*count)++] = one;
    hr_tally_add(&kernels[i].tally, 0, seconds);
}

static own_kernel *longest(own_kernel *kernels, int count) {
    own_kernel *most = kernels;
    for (int i = 1; i < count; i++)
        if (kernels[i].tally.seconds > most->tally.seconds) most = &kernels[i];
    return most;
}

const char *hr_own_launches_text(hr_draft *draft) {
    const hr_trace *trace = draft->analysis->trace;
    own_kernel kernels[KERNELS_MOST];
    int count = 0;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (event->kind == HR_EVENT_RANGE)
            add(kernels, &count, hr_trace_string(trace, event->name), (double)event->duration * 1e-9);
    }
    const char *text = NULL;
    for (int named = 0; named < NAMED_MOST && named < count; named++) {
        own_kernel *one = longest(kernels, count);
        double mean = one->tally.seconds / (double)one->tally.count;
        text = hr_draft_text(draft, "%s%s%.*s %s of %s on average, %.2f times its floor (%s)",
                             text ? text : "", text ? "; " : "", one->floor.name_length, one->range,
                             hr_count_text((double)one->tally.count, "launch", "launches").text,
                             hr_time_text(mean).text, one->floor.seconds > 0 ? mean / one->floor.seconds : 0,
                             one->floor.bound);
        one->tally.seconds = -1;
    }
    return text && count > NAMED_MOST ? hr_draft_text(draft, "%s; and %d more", text, count - NAMED_MOST)
                                      : text;
}
