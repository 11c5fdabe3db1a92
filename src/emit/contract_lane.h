/* Along which index an operand of a matrix product is evaluated while it is packed. */
#ifndef HR_EMIT_CONTRACT_LANE_H
#define HR_EMIT_CONTRACT_LANE_H

#include "plan/plan.h"

typedef struct hr_contract_lane {
    bool along_k; /* else along the last index of the operand's rows */
    bool vector;  /* by vectors of HR_LANES; otherwise scalars */
} hr_contract_lane;

/* `row_index`, `k_index`: the innermost indices of both groups. */
hr_status hr_contract_lane_of(const hr_plan *plan, const hr_expr *operand, int row_index, int k_index,
                              hr_contract_lane *out);

#endif
