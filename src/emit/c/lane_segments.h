/* Values that change their form along the lanes, run by run: see schedule/cpu/segments.c. What is known of a
 * segment's lanes is known to a printer of their own.
 */
#ifndef HR_EMIT_C_LANE_SEGMENTS_H
#define HR_EMIT_C_LANE_SEGMENTS_H

#include "emit/c/lane_pass.h"

typedef struct hr_segmented {
    hr_printer printer;
    const hr_segments *segments;
    int runs; /* the index that counts them; -1 = there is one */
} hr_segmented;

/* Prints what the segments of the printer's lane need once. Whether there was memory. */
bool hr_segmented_begin(hr_printer *printer, const hr_segments *segments, hr_segmented *out);
/* Prints what the run needs that begins at lane `at`, and prefetches what is read `ahead` lanes later.
 * `printer` comes back by hr_printer_switch_to(). */
hr_printer *hr_segmented_run(hr_printer *printer, hr_segmented *segmented, const char *at, const char *ahead);
/* The loop over a segment's lanes, `i`, from 0 on; closed by the caller. */
void hr_segmented_open(hr_segmented *segmented);
void hr_segmented_end(hr_segmented *segmented);
/* Whole runs of lanes whose values change their form within one. */
void hr_lane_runs(hr_printer *printer, const hr_lane_pass *pass, hr_segmented *segmented, const char *last);

#endif
