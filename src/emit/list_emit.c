/* What emitted code for lists of arrays has in common on every device. In: a plan. Out: answers. */
#include "emit/list_emit.h"

#include "emit/emit.h"

bool hr_emit_is_list(const hr_printer *p, int tensor) {
    return p->plan->storage[tensor] == tensor && hr_plan_layout(p->plan, tensor) == HR_LAYOUT_LIST;
}

hr_status hr_emit_refuse_lists(const hr_plan *plan) {
    if (!hr_plan_has_lists(plan)) return HR_OK;
    return hr_fail(
        HR_BAD_INPUT,
        "kernel %.60s is bound to lists of arrays, and source to paste is for whole ones: load the "
        "kernel again for its source",
        plan->source->name);
}
