/* Matrix products in C: the text of the main loop, its choices, the scratch memory it needs. */
#ifndef HR_EMIT_EMIT_C_CONTRACT_H
#define HR_EMIT_EMIT_C_CONTRACT_H

#include "base/text.h"
#include "plan/plan.h"

/* Bytes of scratch memory, aligned to 64, that the stage's function needs; the emitted code computes the
 * same. */
hr_status hr_contract_scratch(const hr_plan *plan, const hr_stage *stage, const int64_t *extents, int threads,
                              int64_t *out);
/* Tunables worth measuring for the plan's contract stages, the plan's own default first. Returns how many. */
int hr_contract_candidates(const hr_plan *plan, const int64_t *extents, hr_tunables *out, int max);
/* Appends what all contract stages of a plan share: before the first stage's function, after the prelude. */
hr_status hr_contract_mainloop_append(const hr_plan *plan, hr_text *out);

#endif
