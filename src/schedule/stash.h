/* Values that one pass over a row computes and a later one reads again from where they are stashed. In: a
 * stage whose lanes are chosen. Out: its stash. */
#ifndef HR_SCHEDULE_STASH_H
#define HR_SCHEDULE_STASH_H

#include "schedule/dependence.h"

typedef struct hr_stashing {
    hr_plan *plan;
    hr_stage *stage;
    hr_dependence depends;
    int64_t row;           /* elements of a row */
    int *passes, *repeats; /* by expr id: passes that use it, and those of them that are not the first */
} hr_stashing;

hr_status hr_stash_begin(hr_plan *plan, hr_stage *stage, const int64_t *extents, hr_stashing *out);
void hr_stash_end(hr_stashing *s);
/* `once`: the same for every task, stashed before the first. There must be room. */
void hr_stash_add(hr_stashing *s, hr_expr *node, bool once);
bool hr_stash_is_full(const hr_stashing *s);
/* Stashes exp and its kin that two passes need, or what `place` names in the stead of each; NULL = itself. */
void hr_stash_functions(hr_stashing *s, hr_expr *(*place)(const hr_stashing *s, hr_expr *node));

#endif
