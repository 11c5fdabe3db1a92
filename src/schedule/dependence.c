/* See dependence.h. */
#include "schedule/dependence.h"
#include "base/memory.h"

#include "ir/graph.h"
#include "ir/index_plus.h"

#include <stdlib.h>
#include <string.h>

hr_status hr_dependence_begin(const hr_plan *plan, const hr_stage *stage, hr_dependence *out) {
    size_t ids = (size_t)plan->normal->expr_count + 1;
    signed char *known = hr_memory_take(ids * 2);
    if (!known) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    memset(known, -1, ids * 2);
    *out = (hr_dependence){plan, stage, known, known + ids};
    return HR_OK;
}

void hr_dependence_end(hr_dependence *dependence) {
    free(dependence->lane);
}

static bool depends(const hr_expr *node, const int *indices, int count, signed char *known) {
    if (known[node->id] >= 0) return known[node->id];
    bool result = false;
    for (int i = 0; i < count && node->op == HR_OP_INDEX; i++)
        result = result || node->index == indices[i];
    for (int i = 0; i < node->arg_count; i++)
        if (depends(node->args[i], indices, count, known)) result = true;
    known[node->id] = result;
    return result;
}

bool hr_varies_by_lane(const hr_dependence *dependence, const hr_expr *node) {
    int lane = hr_stage_lane(dependence->stage);
    return depends(node, &lane, 1, dependence->lane);
}

bool hr_varies_by_task(const hr_dependence *dependence, const hr_expr *node) {
    const hr_stage *stage = dependence->stage;
    return depends(node, stage->task, stage->task_count, dependence->task);
}

static bool varies(const void *dependence, const hr_expr *node) {
    return hr_varies_by_lane(dependence, node);
}

bool hr_is_lane_plus(const hr_dependence *d, const hr_expr *e) {
    return hr_is_index_plus(e, hr_stage_lane(d->stage), varies, d);
}

bool hr_lies_along_lanes(const hr_dependence *d, const hr_expr *element) {
    const hr_function *function = d->plan->normal;
    const hr_tensor *tensor = &function->tensors[element->tensor];
    const int last = tensor->rank - 1;
    if (last < 0 || hr_layout_has_strides(hr_plan_layout(d->plan, element->tensor))) return false;
    if (!hr_is_lane_plus(d, element->args[last])) return false;
    if (!hr_expr_is_affine(element->args[last])) return false; /* each element is checked */
    for (int a = 0; a < element->arg_count; a++)
        if (a != last && hr_varies_by_lane(d, element->args[a])) return false;
    return !hr_element_is_guarded(function, element) ||
           hr_subscript_is_safe(function, element->args[last], tensor->shape[last]);
}
