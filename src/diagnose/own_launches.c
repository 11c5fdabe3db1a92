/* Launches of headroom's own kernels on the host, in words: a processor's work leaves no records of a device,
 * but the ranges around the launches say what they must move.
 *
 * In: an analysis without works of a device. Out: a sentence.
 */
#include "diagnose/finding.h"

#include <stdio.h>
#include <string.h>

enum { KERNELS_MOST = 32, NAMED_MOST = 3 };

typedef struct own_kernel {
    const char *range, *bound; /* the range's name; where its bound begins */
    size_t length;             /* of the kernel's name at its front */
    double floor;              /* seconds */
    hr_tally tally;
} own_kernel;

static void add(own_kernel *kernels, int *count, const char *range, double seconds) {
    const char *words = strstr(range, HR_FLOOR_WORD);
    char bound[16];
    double floor;
    int at = 0;
    if (!words || sscanf(words, " floor=%lfus bound=%n%15s", &floor, &at, bound) != 2) return;
    int i = 0;
    while (i < *count && strcmp(kernels[i].range, range) != 0)
        i++;
    if (i == KERNELS_MOST) return;
    if (i == *count)
        kernels[(*count)++] = (own_kernel){
            .range = range, .bound = words + at, .length = (size_t)(words - range), .floor = floor * 1e-6};
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
        text = hr_draft_text(draft, "%s%s%.*s %s of %s on average, %.2f times its floor (%.*s)",
                             text ? text : "", text ? "; " : "", (int)one->length, one->range,
                             hr_count_text((double)one->tally.count, "launch", "launches").text,
                             hr_time_text(mean).text, one->floor > 0 ? mean / one->floor : 0,
                             (int)strcspn(one->bound, " "), one->bound);
        one->tally.seconds = -1;
    }
    return text && count > NAMED_MOST ? hr_draft_text(draft, "%s; and %d more", text, count - NAMED_MOST)
                                      : text;
}
