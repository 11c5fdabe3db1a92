/* A run of steps taken out of a long trace, so that what is replayed fits into memory.
 *
 * In: an analysis of the whole trace. Out: a trace of the events of some steps around the chosen one, with
 * the place of each in the whole; details, tracks and strings are shared with it.
 */
#ifndef HR_DIAGNOSE_EXCERPT_H
#define HR_DIAGNOSE_EXCERPT_H

#include "diagnose/analysis.h"

#define HR_EXCERPT_STEPS  8      /* fewer would not stand for the others */
#define HR_EXCERPT_EVENTS 600000 /* of one rank; longer traces with steps enough are replayed in part */

typedef struct hr_excerpt {
    hr_trace trace;  /* its table of events alone is its own */
    int32_t *places; /* an event's number in the whole trace; NULL = nothing was taken out */
    int64_t from;    /* ns: where the host began its first step */
} hr_excerpt;

/* Takes as many steps around the chosen one as have about `most` events. Nothing where the trace has no more
 * than that, or too few steps to choose from. Needs steps. */
hr_status hr_excerpt_make(const hr_analysis *analysis, int64_t most, hr_excerpt *out);
void hr_excerpt_clear(hr_excerpt *excerpt);

#endif
