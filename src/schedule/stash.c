/* See stash.h. */
#include "schedule/stash.h"
#include "base/memory.h"
#include "schedule/schedule.h"

#include "ir/visit.h"

#include <stdlib.h>

typedef struct counting {
    hr_stashing *stashing;
    int pass;
} counting;

static hr_visit count_pass(void *context, const hr_expr *node) {
    const counting *c = context;
    hr_stashing *s = c->stashing;
    if (s->passes[node->id] == c->pass + 1 || !hr_varies_by_lane(&s->depends, node)) return HR_VISIT_PAST;
    if (s->passes[node->id]) s->repeats[node->id]++;
    s->passes[node->id] = c->pass + 1;
    return HR_VISIT_ON;
}

static void count_all(hr_stashing *s) {
    const hr_stage *stage = s->stage;
    for (int pass = 0; pass < stage->pass_count; pass++)
        for (int i = 0; i < stage->step_count; i++)
            if (stage->steps[i].pass == pass && hr_step_is_emitted(&stage->steps[i]) &&
                stage->steps[i].kind != HR_STEP_ROW)
                hr_expr_visit(stage->steps[i].value, count_pass, &(counting){s, pass});
}

hr_status hr_stash_begin(hr_plan *plan, hr_stage *stage, const int64_t *extents, hr_stashing *out) {
    *out = (hr_stashing){.plan = plan, .stage = stage, .row = 1};
    for (int i = 0; i < stage->row_count; i++) {
        int64_t size;
        HR_TRY(hr_extent_value(plan->normal, plan->normal->indices[stage->row[i]].extent, extents, &size));
        out->row *= size;
    }
    size_t ids = (size_t)plan->normal->expr_count + 1;
    int *passes = hr_memory_zeros(ids * 2, sizeof *passes);
    if (!passes) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    hr_status status = hr_dependence_begin(plan, stage, &out->depends);
    if (status != HR_OK) {
        free(passes);
        return status;
    }
    out->passes = passes;
    out->repeats = passes + ids;
    count_all(out);
    return HR_OK;
}

void hr_stash_end(hr_stashing *s) {
    hr_dependence_end(&s->depends);
    free(s->passes);
}

void hr_stash_add(hr_stashing *s, hr_expr *node, bool once) {
    hr_stash_of(s->stage)->once[hr_stash_of(s->stage)->count] = once;
    hr_stash_of(s->stage)->value[hr_stash_of(s->stage)->count++] = node;
}

bool hr_stash_is_full(const hr_stashing *s) {
    return hr_stash_of(s->stage)->count >= HR_STASH_MAX;
}

static bool is_stashed(const hr_stage *stage, const hr_expr *node) {
    for (int i = 0; i < hr_stash_of(stage)->count; i++)
        if (hr_stash_of(stage)->value[i] == node) return true;
    return false;
}

void hr_stash_functions(hr_stashing *s, hr_expr *(*place)(const hr_stashing *s, hr_expr *node)) {
    const hr_graph *graph = s->plan->graph;
    for (int i = 0; i < graph->table_size && !hr_stash_is_full(s); i++) {
        hr_expr *node = graph->table[i];
        if (!node || node->type != HR_F32 || !hr_op_is_dear(node->op) || !s->repeats[node->id]) continue;
        hr_expr *stashed = place ? place(s, node) : node;
        if (!is_stashed(s->stage, stashed)) hr_stash_add(s, stashed, false);
    }
}
