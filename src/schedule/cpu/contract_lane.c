/* Chooses the lane of a product's operands: the index along which their elements lie side by side.
 *
 * In: the products of a plan. Out: of each operand an index and whether vectors can be loaded along it. Where
 * nothing can, the operand is evaluated element by element.
 */
#include "base/memory.h"
#include "ir/index_plus.h"
#include "ir/visit.h"
#include "plan/whole_range.h"
#include "schedule/cpu/passes_cpu.h"

#include <stdlib.h>
#include <string.h>

typedef struct lane_walk {
    const hr_plan *plan;
    const int64_t *extents;
    int lane;
    signed char *varies; /* by expr id: depends on the lane; -1 = not known */
    int rows;            /* elements read side by side */
    bool vector;         /* so far, all can be vectors */
    bool apart;          /* elements are read whose lanes do not lie side by side */
} lane_walk;

static bool varies(lane_walk *walk, const hr_expr *node) {
    if (walk->varies[node->id] >= 0) return walk->varies[node->id];
    bool result = node->op == HR_OP_INDEX && node->index == walk->lane;
    for (int i = 0; i < node->arg_count && !result; i++)
        result = varies(walk, node->args[i]);
    walk->varies[node->id] = result;
    return result;
}

static bool varies_by_lane(const void *walk, const hr_expr *node) {
    return varies((lane_walk *)walk, node); /* which remembers what it finds */
}

static bool is_lane_plus(lane_walk *walk, const hr_expr *node) {
    return hr_is_index_plus(node, walk->lane, varies_by_lane, walk);
}

static bool is_row(lane_walk *walk, const hr_expr *element) {
    const hr_function *function = walk->plan->normal;
    if (hr_layout_has_strides(hr_plan_layout(walk->plan, element->tensor))) return false;
    int last = function->tensors[element->tensor].rank - 1;
    if (last < 0 || !is_lane_plus(walk, element->args[last])) return false;
    for (int i = 0; i < element->arg_count; i++)
        if (i != last && varies(walk, element->args[i])) return false;
    return !hr_element_is_guarded(function, element) ||
           hr_subscript_is_safe(function, element->args[last],
                                function->tensors[element->tensor].shape[last]);
}

/* Stops at what counts the lane otherwise than divided by something. */
static hr_visit counts_lane(void *context, const hr_expr *node) {
    lane_walk *walk = context;
    if (!varies(walk, node)) return HR_VISIT_PAST;
    if (node->op == HR_OP_FLOORDIV && is_lane_plus(walk, node->args[0]) && !varies(walk, node->args[1]))
        return HR_VISIT_PAST;
    return hr_visit_until(node->arg_count == 0);
}

/* The lane counts for nothing but what it is divided by: neighbours are one element, or several lanes are. */
static bool is_shared(lane_walk *walk, const hr_expr *element) {
    hr_walk through = {.enter = counts_lane, .context = walk};
    const bool counts = hr_walk_through(&through, element);
    hr_walk_end(&through); /* what is asked twice is answered the same */
    return !counts;
}

/* One of few that registers hold, where what says which one can be vectors. */
static bool is_in_table(lane_walk *walk, const hr_expr *element) {
    const hr_function *function = walk->plan->normal;
    if (!hr_element_is_small(function, element)) return false;
    for (int i = 0; i < element->arg_count - 1; i++)
        if (varies(walk, element->args[i])) return false;
    return true;
}

/* Whether lanes of 32 bits hold it, or it stands beside them. */
static bool fits_lanes(const lane_walk *walk, const hr_expr *node) {
    if (node->type == HR_F64) return false;
    return node->type != HR_I64 || hr_whole_fits_lanes(walk->plan->graph, walk->extents, node);
}

static hr_visit look(void *context, const hr_expr *node) {
    lane_walk *walk = context;
    bool element = node->op == HR_OP_ELEMENT;
    if (!varies(walk, node)) {
        walk->vector = walk->vector && (node->type != HR_I64 || fits_lanes(walk, node));
        return HR_VISIT_PAST;
    }
    if (element && is_row(walk, node)) walk->rows++;
    if (element && !is_row(walk, node) && !is_shared(walk, node) && !is_in_table(walk, node))
        walk->apart = true;
    if (element ? node->type == HR_F64 || node->type == HR_I64 : !fits_lanes(walk, node))
        walk->vector = false;
    if ((node->op == HR_OP_CONVERT && node->dtype == HR_F64) || node->op == HR_OP_RANDOM)
        walk->vector = false;
    return element && !is_in_table(walk, node) ? HR_VISIT_PAST : HR_VISIT_ON;
}

/* How well an operand is read along an index: how many elements side by side, whether vectors can hold it,
 * and whether they pay. */
typedef struct reading {
    int rows;
    bool can, pays;
} reading;

static hr_status read_along(const hr_plan *plan, const int64_t *extents, const hr_expr *operand, int lane,
                            reading *out) {
    size_t ids = (size_t)plan->normal->expr_count + 1;
    lane_walk walk = {.plan = plan, .extents = extents, .lane = lane, .vector = true};
    hr_walk through = {.enter = look, .context = &walk};
    walk.varies = hr_memory_take(ids);
    if (!walk.varies) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning a matrix product");
    memset(walk.varies, -1, ids);
    hr_walk_through(&through, operand);
    out->rows = walk.rows;
    out->can = walk.vector && operand->type == HR_F32;
    out->pays = out->can && !walk.apart;
    free(walk.varies);
    return hr_walk_end(&through);
}

/* Along k, by segments where there are any: what is no whole run may take longer. */
static hr_status read_along_k(const hr_plan *plan, const int64_t *extents, const hr_expr *operand,
                              int k_index, const hr_segments *segments, reading *out) {
    reading all;
    HR_TRY(read_along(plan, extents, operand, k_index, &all));
    *out = all;
    for (int i = 0; i < segments->run / HR_SEGMENT; i++) {
        reading one;
        HR_TRY(read_along(plan, extents, segments->value[i], segments->lane, &one));
        out->pays = one.pays && all.can && (i == 0 || out->pays);
        if (one.rows > out->rows) out->rows = one.rows;
    }
    return HR_OK;
}

/* `row_index`, `k_index`: the innermost indices of both groups. */
static hr_status lane_of(const hr_plan *plan, const int64_t *extents, const hr_expr *operand, int row_index,
                         int k_index, hr_segments *segments, hr_contract_lane *out) {
    reading k, rows;
    const struct hr_assumption **assumptions = &plan->graph->assumptions, *before = *assumptions, *of_k;
    HR_TRY(read_along_k(plan, extents, operand, k_index, segments, &k));
    of_k = *assumptions;
    *assumptions = before;
    HR_TRY(read_along(plan, extents, operand, row_index, &rows));
    out->along_k = k.pays != rows.pays ? k.pays : k.rows >= rows.rows;
    out->vector = out->along_k ? k.pays : rows.pays;
    if (!out->vector)
        *assumptions = before;
    else if (out->along_k)
        *assumptions = of_k;
    if (!out->along_k || !out->vector) segments->run = 0;
    return HR_OK;
}

hr_status hr_pass_contract_lanes(const int64_t *extents, hr_plan *plan) {
    for (int i = 0; i < plan->stage_count; i++) {
        hr_contract *c = plan->stages[i].contract;
        if (!c) continue;
        const int k = c->k[c->k_count - 1];
        HR_TRY(lane_of(plan, extents, c->left, c->m[c->m_count - 1], k, &c->left_segments, &c->left_lane));
        HR_TRY(lane_of(plan, extents, c->right, c->n[c->n_count - 1], k, &c->right_segments, &c->right_lane));
        hr_segments none = {0};
        if (c->mask)
            HR_TRY(lane_of(plan, extents, c->mask, c->m[c->m_count - 1], c->n[c->n_count - 1], &none,
                           &c->mask_lane));
    }
    return HR_OK;
}
