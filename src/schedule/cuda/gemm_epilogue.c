/* What a product's epilogue reads and stores, and how. In: a stage. Out: the epilogue's part of hr_cuda_gemm.
 *
 * The copy engine stores results that it can walk. A value that is one for each column (a bias) is computed
 * once a tile, into shared memory, while the product runs. An element of a matrix that lies as the result
 * does (a residual) comes by the copy engine to where the first result will leave from.
 */
#include "base/dtype.h"
#include "ir/visit.h"
#include "schedule/cuda/choose_gemm.h"

static hr_gemm_indices batch_of(const hr_contract *c) {
    return (hr_gemm_indices){c->batch_count, c->batch};
}

static hr_gemm_indices m_of(const hr_contract *c) {
    return (hr_gemm_indices){c->m_count, c->m};
}

static hr_gemm_indices n_of(const hr_contract *c) {
    return (hr_gemm_indices){c->n_count, c->n};
}

/* ---- results ---- */

static bool is_storable(hr_dtype dtype) {
    return dtype == HR_BF16 || dtype == HR_F16 || dtype == HR_F32;
}

/* Whether the copy engine can store all of them. */
static hr_status results_make(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                              hr_cuda_gemm *out) {
    const hr_contract *c = stage->contract;
    int count = 0;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (!step->stored || step->kind == HR_STEP_PARTIAL) continue;
        const hr_statement *statement = &plan->normal->statements[step->statement];
        hr_dtype dtype = plan->normal->tensors[statement->tensor].dtype;
        if (count == HR_GEMM_RESULTS_MAX || step->value->type != HR_F32 || !is_storable(dtype) ||
            (count && dtype != out->result_dtype))
            return HR_OK;
        hr_gemm_view *view = &out->results[count];
        HR_TRY((hr_plan_layout(plan, statement->tensor) == HR_LAYOUT_MEMBERS ? hr_gemm_members_view_make
                                                                             : hr_gemm_view_make)(
            plan, extents, statement->tensor, statement->subscripts, n_of(c), m_of(c), batch_of(c), view));
        if (!view->rank) return HR_OK;
        out->result_dtype = dtype;
        out->result_steps[count++] = i;
    }
    out->result_count = count;
    return HR_OK;
}

/* ---- what it reads ---- */

typedef struct reader {
    const hr_plan *plan;
    const hr_contract *contract;
    const int64_t *extents;
    hr_cuda_gemm *gemm;
    bool matrices; /* something is left that is one for each element */
    hr_status status;
} reader;

static hr_visit is_of_group(const hr_expr *e, const void *group) {
    const hr_gemm_indices *g = group;
    bool found = false;
    for (int i = 0; i < g->count && e->op == HR_OP_INDEX; i++)
        found = found || e->index == g->index[i];
    return hr_visit_until(found);
}

static bool mentions(const hr_expr *e, hr_gemm_indices group) {
    return hr_expr_find(e, is_of_group, &group) != NULL;
}

static hr_visit is_element(const hr_expr *e, const void *context) {
    (void)context;
    return hr_visit_until(e->op == HR_OP_ELEMENT);
}

static bool is_known(const reader *r, const hr_expr *e) {
    for (int i = 0; i < r->gemm->column_count; i++)
        if (r->gemm->columns[i] == e) return true;
    return e == r->gemm->staged_block;
}

static bool reads_sums(const hr_contract *c, const hr_expr *e) {
    bool reads = hr_expr_reads(e, c->product);
    for (int i = 0; i < c->stacked_count; i++)
        reads = reads || hr_expr_reads(e, c->stacked[i].product);
    return reads;
}

/* One for each column: it is read of memory and depends on n, neither on m nor on the product. */
static bool is_column(const reader *r, const hr_expr *e) {
    return e->type == HR_F32 && hr_expr_find(e, is_element, NULL) && !reads_sums(r->contract, e) &&
           mentions(e, n_of(r->contract)) && !mentions(e, m_of(r->contract)) &&
           r->gemm->column_count < HR_GEMM_COLUMNS_MAX;
}

/* An element that lies in memory as the first result does. */
static hr_status find_staged(reader *r, const hr_expr *e) {
    hr_gemm_view view;
    hr_cuda_gemm *g = r->gemm;
    const hr_tensor *tensor = &r->plan->normal->tensors[e->tensor];
    if (g->staged_block || !g->result_count || e->arg_count != tensor->rank ||
        tensor->dtype != g->result_dtype || e->type != HR_F32)
        return HR_OK;
    for (int i = 0; i < e->arg_count; i++)
        if (e->args[i]->op != HR_OP_INDEX) return HR_OK;
    HR_TRY(hr_gemm_view_make(r->plan, r->extents, e->tensor, e->args, n_of(r->contract), m_of(r->contract),
                             batch_of(r->contract), &view));
    if (!view.rank || view.rank != g->results[0].rank) return HR_OK;
    for (int a = 0; a < view.rank; a++)
        if (view.size[a] != g->results[0].size[a]) return HR_OK;
    g->staged_block = e;
    g->staged_view = view;
    return HR_OK;
}

static hr_visit survey(void *context, const hr_expr *e) {
    reader *r = context;
    if (is_known(r, e)) return HR_VISIT_PAST;
    if (is_column(r, e)) {
        r->gemm->columns[r->gemm->column_count++] = e;
        return HR_VISIT_PAST;
    }
    if (e->op != HR_OP_ELEMENT || hr_contract_makes(r->contract, e->tensor) ||
        !mentions(e, n_of(r->contract)))
        return HR_VISIT_ON;
    if (r->status == HR_OK) r->status = find_staged(r, e);
    r->matrices |= r->gemm->staged_block != e;
    return HR_VISIT_PAST;
}

/* ---- what it computes ---- */

/* Of a partial sum: about 20 instructions for 8 elements of a thread, 4 of them shuffles. */
static const double partial_clocks = 3 / 128.0;

typedef struct counting {
    const hr_contract *contract;
    double clocks;
} counting;

/* Instructions of one element, roughly, in clocks of a multiprocessor: it issues 128 a clock, and 16 of the
 * units for special functions, of which a function takes two beside a dozen others. */
static hr_visit count_clocks(void *context, const hr_expr *e) {
    counting *c = context;
    if (e->op == HR_OP_ELEMENT) {
        c->clocks += hr_contract_makes(c->contract, e->tensor) ? 0 : 2 / 128.0;
        return HR_VISIT_PAST;
    }
    c->clocks += hr_op_is_dear(e->op) ? 14 / 128.0 + 2 / 16.0 : e->arg_count ? 1 / 128.0 : 0;
    return HR_VISIT_ON;
}

hr_status hr_gemm_epilogue(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                           hr_cuda_gemm *out) {
    reader r = {.plan = plan, .contract = stage->contract, .extents = extents, .gemm = out};
    counting c = {.contract = stage->contract};
    hr_walk walk = {.enter = count_clocks, .context = &c}; /* what several results share is computed once */
    HR_TRY(results_make(plan, stage, extents, out));
    out->partial_count = 0;
    for (int i = 0; i < stage->step_count; i++) {
        if (!stage->steps[i].stored) continue;
        if (out->result_count) hr_expr_visit(stage->steps[i].value, survey, &r);
        hr_walk_through(&walk, stage->steps[i].value);
        if (stage->steps[i].kind != HR_STEP_PARTIAL) continue;
        out->partial_steps[out->partial_count++] = i;
        out->epilogue_clocks += partial_clocks;
    }
    out->epilogue_clocks += c.clocks;
    HR_TRY(hr_walk_end(&walk));
    HR_TRY(r.status);
    /* Sums of a thread that leave it room, found by compiling such epilogues with each tile of the table. */
    bool several = out->result_count > 1;
    out->throttled = r.matrices || several;
    out->sums_most = r.matrices && several ? 64 : out->throttled ? 128 : HR_GEMM_SUMS_MOST;
    if (out->rights > 2 && out->sums_most < 96) out->sums_most = 96;
    if (out->partial_count && out->sums_most > 128) out->sums_most = 128;
    if (out->sums_most > hr_gemm_sums_most(out))
        out->sums_most = out->throttled && hr_gemm_chain(out) ? 64 : hr_gemm_sums_most(out);
    return HR_OK;
}
