/* How many addends of f32 a stage adds up before a total of f64 takes them. In: a stage. Out: `chain`.
 *
 * Chains are ended outside of the loops that add: what that takes, some operations in some hundred vectors,
 * is less than memory leaves free. Rows whose length the text says, and that are shorter than a chain in each
 * lane, need no totals.
 */
#include "schedule/cpu/passes_cpu.h"

static bool is_short(const hr_plan *plan, const hr_stage *stage) {
    int64_t elements = 1;
    for (int i = 0; i < stage->row_count; i++) {
        const hr_expr *extent = plan->normal->indices[stage->row[i]].extent;
        if (extent->op != HR_OP_NUMBER || __builtin_mul_overflow(elements, extent->whole, &elements))
            return false;
    }
    return elements <= (int64_t)HR_CHAIN_ADDENDS * hr_limits_lanes(&plan->limits);
}

void hr_pass_chains(const hr_plan *plan, hr_stage *stage) {
    const bool sums_rows = hr_stage_has(stage, HR_STEP_REDUCE_ROW) || hr_stage_has(stage, HR_STEP_REDUCE_ALL);
    const bool sums_columns = hr_stage_has(stage, HR_STEP_REDUCE_COLUMN);
    const bool needs = sums_columns || (sums_rows && !is_short(plan, stage));
    stage->schedule->chain = needs ? HR_CHAIN_ADDENDS : 0;
}
