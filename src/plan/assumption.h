/* What a plan takes for granted of the extents: who makes a choice that is right at some of them only records
 * which, where it is made. Emitted functions ask for all of it before anything else, and say it in words.
 *
 * Each assumption is one sentence about a whole-number expression over indices and extents: none of its
 * values is below `least` or above `most`, and nothing on the way to them reaches 2^30.
 */
#ifndef HR_PLAN_ASSUMPTION_H
#define HR_PLAN_ASSUMPTION_H

#include "base/text.h"
#include "ir/graph.h"

typedef struct hr_assumption {
    const hr_expr *value;
    const hr_expr *least, *most; /* over extents; NULL = that nothing reaches 2^30 is enough */
    const struct hr_assumption *next;
} hr_assumption;

/* Adds to graph->assumptions, unless it holds at any extents or is there already. */
void hr_assume(hr_graph *graph, const hr_expr *value, const hr_expr *least, const hr_expr *most);
/* Lanes of 32 bits hold it, and all that it is computed from. */
void hr_assume_fits(hr_graph *graph, const hr_expr *value);

/* Each extent that a number stands for is that number. */
void hr_assume_fixed(hr_graph *graph);

/* Whether it holds at these extents; NULL = at any. */
bool hr_assumption_holds(const hr_function *function, const hr_assumption *assumption,
                         const int64_t *extents);
/* "every part of m * N + n stays below 2^30", "H // G stays from 0 to J - 1". */
void hr_assumption_words(const hr_function *function, const hr_assumption *assumption, hr_text *out);

#endif
