/* Which products are one walk. In: a scheduled plan. Out: its walks. See gemm_walk.h.
 *
 * A stage goes to the place of another where nothing in between writes what it reads or writes, or reads what
 * it writes. Products whose tiles are of one kind may be a walk.
 */
#include "schedule/cuda/gemm_walk_parts.h"

#include "ir/visit.h"
#include "plan/passes.h"
#include "schedule/cuda/launches_cuda.h"

#include <string.h>

const hr_cuda_gemm *hr_gemm_walk_member(const hr_plan *plan, const hr_stage *stage) {
    const hr_gemm_walk *walk = hr_gemm_walk_of(stage);
    for (int i = 0; walk && i < walk->count; i++)
        if (stage == &plan->stages[walk->stage[i]]) return &walk->gemm[i];
    return NULL;
}

/* ---- stages and their places ---- */

static void mark_touched(const hr_walker *w, int number) {
    const hr_plan *plan = w->plan;
    const hr_stage *stage = &plan->stages[number];
    hr_walk_member *m = &w->members[number];
    bool *read = hr_arena_alloc(plan->arena, (size_t)plan->normal->tensor_count + 1);
    memset(read, 0, (size_t)plan->normal->tensor_count + 1);
    for (int i = 0; i < stage->step_count; i++) {
        const hr_statement *s = &plan->normal->statements[stage->steps[i].statement];
        hr_expr_mark_read(stage->steps[i].value, read);
        hr_expr_mark_read(s->value, read);
        for (int a = 0; a < s->subscript_count; a++)
            hr_expr_mark_read(s->subscripts[a], read);
        const hr_partial *partial = hr_partial_of(plan->graph, s->tensor);
        if (partial) hr_expr_mark_read(partial->body, read);
        m->written[plan->storage[s->tensor]] = true;
    }
    if (stage->contract) {
        hr_expr_mark_read(stage->contract->left, read);
        hr_expr_mark_read(stage->contract->right, read);
    }
    for (int t = 0; t < plan->normal->tensor_count; t++)
        if (read[t]) m->read[plan->storage[t]] = true;
}

/* Whose launch is it? */
static int place_of(const hr_plan *plan, int number) {
    const hr_stage *stage = &plan->stages[number];
    if (hr_cuda_attention_of(stage)) return hr_cuda_attention_of(stage)->first;
    if (hr_cuda_backward_of(stage)) return hr_cuda_backward_of(stage)->text.last;
    return hr_gemm_walk_of(stage) ? hr_gemm_walk_of(stage)->stage[0] : number;
}

/* One of them has to come before the other. */
static bool are_ordered(const hr_walker *w, int a, int b) {
    const hr_walk_member *x = &w->members[a], *y = &w->members[b];
    for (int t = 0; t < w->plan->normal->tensor_count; t++)
        if ((x->written[t] && (y->read[t] || y->written[t])) || (x->read[t] && y->written[t])) return true;
    return false;
}

/* It may be launched in the place of stage `to`, but for what `to` itself reads of it where `adds`. */
static bool can_move(const hr_walker *w, int number, int to, bool adds) {
    const int low = number < to ? number : to, high = number < to ? to : number;
    for (int s = 0; s < w->plan->stage_count; s++) {
        const int at = place_of(w->plan, s);
        if (s == number || at < low || at > high || (adds && s == to)) continue;
        if (are_ordered(w, number, s)) return false;
    }
    return true;
}

/* ---- operands ---- */

/* The subscript's index, by its group and its place in it; -1 = it is none of them. */
static int place_in(const hr_contract *c, const int *mn, int mn_count, const hr_expr *subscript) {
    if (subscript->op != HR_OP_INDEX) return -1;
    for (int i = 0; i < c->batch_count; i++)
        if (c->batch[i] == subscript->index) return i;
    for (int i = 0; i < mn_count; i++)
        if (mn[i] == subscript->index) return HR_AXES_MAX + i;
    for (int i = 0; i < c->k_count; i++)
        if (c->k[i] == subscript->index) return 2 * HR_AXES_MAX + i;
    return -1;
}

static bool have_same_indices(const hr_contract *a, const int *mn_a, const hr_contract *b, const int *mn_b,
                              int mn_count) {
    return memcmp(mn_a, mn_b, (size_t)mn_count * sizeof *mn_a) == 0 &&
           memcmp(a->k, b->k, (size_t)a->k_count * sizeof *a->k) == 0 &&
           memcmp(a->batch, b->batch, (size_t)a->batch_count * sizeof *a->batch) == 0;
}

/* The same elements in the same order, whatever their indices are called. */
static bool are_same_elements(const hr_contract *a, const hr_contract *b, bool right) {
    const hr_expr *x = right ? a->right : a->left, *y = right ? b->right : b->left;
    const int *mn_a = right ? a->n : a->m, *mn_b = right ? b->n : b->m;
    const int count_a = right ? a->n_count : a->m_count, count_b = right ? b->n_count : b->m_count;
    if (a->batch_count != b->batch_count || count_a != count_b || a->k_count != b->k_count) return false;
    if (x == y && have_same_indices(a, mn_a, b, mn_b, count_a)) return true;
    if (x->op != HR_OP_ELEMENT || y->op != HR_OP_ELEMENT || x->tensor != y->tensor ||
        x->arg_count != y->arg_count)
        return false;
    for (int i = 0; i < x->arg_count; i++) {
        const int at = place_in(a, mn_a, count_a, x->args[i]);
        if (at < 0 || at != place_in(b, mn_b, count_b, y->args[i])) return false;
    }
    return true;
}

/* Their tiles are of one kind. */
static bool go_together(const hr_cuda_gemm *a, const hr_cuda_gemm *b) {
    return a->mainloop == b->mainloop && a->dtype == b->dtype && a->left.dtype == b->left.dtype &&
           a->right.dtype == b->right.dtype && a->left.k_major == b->left.k_major &&
           a->right.k_major == b->right.k_major && a->pair_count == b->pair_count &&
           memcmp(a->pairs, b->pairs, (size_t)a->pair_count * sizeof *a->pairs) == 0 &&
           a->by_threads_unaligned == b->by_threads_unaligned && !a->staged_block == !b->staged_block;
}

static bool can_be_part(const hr_cuda_gemm *gemm) {
    return (gemm->mainloop == HR_GEMM_HOPPER || gemm->mainloop == HR_GEMM_AMPERE) && !gemm->groups &&
           !hr_gemm_is_raw(gemm) && !hr_gemm_is_scaled(gemm) && !gemm->left.choice && !gemm->right.choice;
}

static hr_status members_make(const hr_walker *w) {
    const size_t tensors = (size_t)w->plan->normal->tensor_count + 1;
    for (int i = 0; i < w->plan->stage_count; i++) {
        const hr_stage *stage = &w->plan->stages[i];
        hr_walk_member *m = &w->members[i];
        bool complete = true;
        *m = (hr_walk_member){.read = hr_arena_alloc(w->plan->arena, tensors),
                              .written = hr_arena_alloc(w->plan->arena, tensors)};
        memset(m->read, 0, tensors);
        memset(m->written, 0, tensors);
        mark_touched(w, i);
        if (stage->schedule->kind != HR_SCHEDULE_CUDA_PRODUCT) continue;
        HR_TRY(hr_gemm_prepare(w->plan, stage, w->extents, HR_GEMM_HOPPER, &m->sizes, &m->gemm, &complete));
        m->can = !complete && can_be_part(&m->gemm);
    }
    return HR_OK;
}

/* ---- walks ---- */

static const char *const kind_words[] = {
    [HR_GEMM_WALK_COLUMNS] = "products of one left operand",
    [HR_GEMM_WALK_ROWS] = "products of one right operand",
    [HR_GEMM_WALK_SUM] = "products that are added up",
};

static void explain(const hr_walker *w, const hr_gemm_walk *walk) {
    hr_plan *plan = w->plan;
    const char *list = "";
    for (int i = 1; i < walk->count; i++)
        list = hr_arena_format(plan->arena, "%s%s%d", list, i > 1 ? ", " : "", walk->stage[i] + 1);
    for (int i = 0; i < walk->count; i++) {
        hr_stage *stage = &plan->stages[walk->stage[i]];
        stage->why = i == 0 ? hr_arena_format(plan->arena, "%s; %s in one walk, with stage%s %s", stage->why,
                                              kind_words[walk->kind], walk->count > 2 ? "s" : "", list)
                            : hr_arena_format(plan->arena, "%s; in the walk of stage %d, %s", stage->why,
                                              walk->stage[0] + 1, kind_words[walk->kind]);
    }
}

/* Stages that stand one behind the other are told as one. */
static void join(const hr_walker *w, const hr_gemm_walk *walk) {
    int low = walk->stage[0], high = walk->stage[0];
    for (int i = 1; i < walk->count; i++) {
        if (walk->stage[i] < low) low = walk->stage[i];
        if (walk->stage[i] > high) high = walk->stage[i];
    }
    for (int s = low + 1; s <= high && high - low == walk->count - 1; s++)
        w->plan->stages[s].schedule->joins = true;
}

/* Why stage `number` is not in a walk with stage `other`, whose operand it shares. */
static void explain_apart(const hr_walker *w, int number, int other, hr_gemm_walk_kind kind,
                          const char *why) {
    hr_stage *stage = &w->plan->stages[number];
    stage->why = hr_arena_format(w->plan->arena,
                                 "%s; not in one walk with stage %d, which has the same %s operand: %s",
                                 stage->why, other + 1, kind == HR_GEMM_WALK_COLUMNS ? "left" : "right", why);
}

/* Takes the products as a walk, where that pays. */
static bool walk_take(const hr_walker *w, const hr_gemm_walk *found) {
    hr_gemm_walk *walk = hr_arena_alloc(w->plan->arena, sizeof *walk);
    *walk = *found;
    if (!hr_gemm_walk_multiply(w, walk)) return false;
    explain(w, walk);
    join(w, walk);
    for (int i = 0; i < walk->count; i++)
        w->plan->stages[walk->stage[i]].schedule->gemm_walk = walk;
    return true;
}

static bool is_free(const hr_walker *w, int number) {
    return w->members[number].can && !w->plan->stages[number].schedule->gemm_walk;
}

static bool are_as_many(const hr_walker *w, const int *a, const int *b, int count) {
    const hr_function *function = w->plan->normal;
    int64_t x, y;
    for (int i = 0; i < count; i++)
        if (hr_extent_value(function, function->indices[a[i]].extent, w->extents, &x) != HR_OK ||
            hr_extent_value(function, function->indices[b[i]].extent, w->extents, &y) != HR_OK || x != y)
            return false;
    return true;
}

/* They have an operand in common, and as many tiles across the walk. */
static bool shares(const hr_walker *w, int a, int b, hr_gemm_walk_kind kind) {
    const hr_contract *x = w->plan->stages[a].contract, *y = w->plan->stages[b].contract;
    const bool rows = kind == HR_GEMM_WALK_ROWS;
    if (rows && (x->stacked_count || y->stacked_count)) return false;
    return are_same_elements(x, y, rows) && are_as_many(w, x->batch, y->batch, x->batch_count) &&
           are_as_many(w, x->k, y->k, x->k_count) &&
           (rows ? are_as_many(w, x->n, y->n, x->n_count) : are_as_many(w, x->m, y->m, x->m_count));
}

/* The products that share an operand with stage `first`, launched in the place of stage `to`. */
static void walk_gather(const hr_walker *w, int first, int to, hr_gemm_walk *out) {
    out->count = 0;
    out->stage[out->count++] = to;
    for (int s = first; s < w->plan->stage_count && out->count < HR_GEMM_WALK_MOST; s++)
        if (s != to && is_free(w, s) && shares(w, s, to, out->kind) &&
            go_together(&w->members[s].gemm, &w->members[to].gemm) && can_move(w, s, to, false))
            out->stage[out->count++] = s;
}

/* Products that share an operand with that of stage `first`, in its place or that of the last of them. */
static void walk_find(const hr_walker *w, int first, hr_gemm_walk_kind kind) {
    hr_gemm_walk early = {.kind = kind}, late = {.kind = kind};
    int last = -1;
    for (int s = first + 1; s < w->plan->stage_count; s++)
        if (is_free(w, s) && shares(w, first, s, kind)) last = s;
    if (last < 0) return;
    walk_gather(w, first, first, &early);
    walk_gather(w, first, last, &late);
    const hr_gemm_walk *found = early.count >= late.count ? &early : &late;
    const bool some = found->count > 1;
    if (some) walk_take(w, found);
    for (int s = first + 1; s <= last; s++)
        if (is_free(w, s) && shares(w, first, s, kind))
            explain_apart(w, s, first, kind,
                          some ? "the model takes launches of their own for faster, or the walk is full"
                               : "it has to come later, or its tiles are of another kind");
}

/* ---- products that are added up ---- */

typedef struct addends {
    const hr_contract *contract; /* its product, and those that are added */
    unsigned met;                /* a bit each, the product's first */
    bool good;                   /* each is met once, and as an addend */
} addends;

static hr_visit is_made(const hr_expr *node, const void *contract) {
    return hr_visit_until(node->op == HR_OP_ELEMENT && hr_contract_makes(contract, node->tensor));
}

static void collect_addends(addends *a, const hr_expr *node) {
    const hr_contract *c = a->contract;
    if (node->op == HR_OP_ADD && node->type == HR_F32) {
        collect_addends(a, node->args[0]);
        collect_addends(a, node->args[1]);
        return;
    }
    if (!hr_expr_find(node, is_made, c)) return;
    unsigned bit = node->op == HR_OP_ELEMENT && node->tensor == c->product;
    for (int i = 0; i < c->added_count; i++)
        if (node->op == HR_OP_ELEMENT && node->tensor == c->added[i]) bit = 2u << i;
    a->good = a->good && bit && !(a->met & bit);
    a->met |= bit;
}

/* Sums of the contract's products are met in this value only as addends of one sum that has all of them. */
static bool only_adds(const hr_contract *contract, const hr_expr *value) {
    if (!hr_expr_find(value, is_made, contract)) return true;
    if (value->op == HR_OP_ADD && value->type == HR_F32) {
        addends a = {.contract = contract, .good = true};
        collect_addends(&a, value);
        if (a.good && a.met == (2u << contract->added_count) - 1) return true;
    }
    if (value->op == HR_OP_ELEMENT) return false;
    for (int i = 0; i < value->arg_count; i++)
        if (!only_adds(contract, value->args[i])) return false;
    return true;
}

/* Elements of a term's sum are read where the contract has its own: its indices, whatever they are called,
 * are the contract's in their order. */
typedef struct reading {
    const hr_contract *contract, *term;
    const hr_statement *made; /* the term's */
    bool same;
} reading;

static bool is_renamed(const reading *r, const hr_expr *element, const int *from, const int *to, int count) {
    for (int i = 0; i < count; i++) {
        bool found = false;
        for (int a = 0; a < r->made->domain_count; a++)
            found = found || (r->made->domain[a] == from[i] && element->args[a]->op == HR_OP_INDEX &&
                              element->args[a]->index == to[i]);
        if (!found) return false;
    }
    return true;
}

static hr_visit visit_reading(void *context, const hr_expr *node) {
    reading *r = context;
    const hr_contract *c = r->contract, *t = r->term;
    if (node->op != HR_OP_ELEMENT || node->tensor != t->product) return HR_VISIT_ON;
    r->same = r->same && node->arg_count == r->made->domain_count && c->batch_count == t->batch_count &&
              c->m_count == t->m_count && c->n_count == t->n_count &&
              is_renamed(r, node, t->batch, c->batch, c->batch_count) &&
              is_renamed(r, node, t->m, c->m, c->m_count) && is_renamed(r, node, t->n, c->n, c->n_count);
    return HR_VISIT_PAST;
}

/* Stage `number` makes nothing but the sum of its product, for stage `to` alone. */
static bool is_term(const hr_walker *w, int number, int to) {
    const hr_plan *plan = w->plan;
    const hr_stage *stage = &plan->stages[number];
    const hr_contract *c = stage->contract;
    if (!is_free(w, number) || stage->step_count != 1 || !stage->steps[0].stored || c->stacked_count ||
        c->added_count)
        return false;
    const hr_statement *made = &plan->normal->statements[stage->steps[0].statement];
    const hr_tensor *tensor = &plan->normal->tensors[made->tensor];
    if (made->tensor != c->product || tensor->role != HR_ROLE_LOCAL || tensor->dtype != HR_F32 ||
        plan->storage[made->tensor] != made->tensor)
        return false;
    for (int a = 0; a < made->domain_count; a++)
        if (made->subscripts[a]->op != HR_OP_INDEX || made->subscripts[a]->index != made->domain[a])
            return false;
    for (int s = 0; s < plan->stage_count; s++)
        if (s != number &&
            (w->members[s].read[made->tensor] != (s == to) || w->members[s].written[made->tensor]))
            return false;
    reading r = {plan->stages[to].contract, c, made, true};
    const hr_stage *reader = &plan->stages[to];
    for (int i = 0; i < reader->step_count; i++)
        if (reader->steps[i].stored) hr_expr_visit(reader->steps[i].value, visit_reading, &r);
    return r.same;
}

static bool only_adds_to(const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->stored && (step->value->op == HR_OP_REDUCE_SUM || !only_adds(stage->contract, step->value)))
            return false;
    }
    return true;
}

/* Terms that stage `to` adds to its own product become parts of that. */
static hr_status sum_find(const hr_walker *w, int to) {
    hr_plan *plan = w->plan;
    hr_stage *stage = &plan->stages[to];
    hr_contract *c = stage->contract;
    hr_gemm_walk walk = {.kind = HR_GEMM_WALK_SUM, .count = 1, .stage = {to}};
    bool complete;
    if (!is_free(w, to) || c->stacked_count) return HR_OK;
    for (int s = 0; s < to && walk.count < HR_GEMM_WALK_MOST; s++) {
        if (plan->stages[s].schedule->kind != HR_SCHEDULE_CUDA_PRODUCT || !is_term(w, s, to) ||
            !can_move(w, s, to, true))
            continue;
        c->added[c->added_count++] = plan->stages[s].contract->product;
        walk.stage[walk.count++] = s;
    }
    if (!c->added_count) return HR_OK;
    if (only_adds_to(stage)) {
        hr_walk_member *m = &w->members[to];
        HR_TRY(hr_gemm_prepare(plan, stage, w->extents, HR_GEMM_HOPPER, &m->sizes, &m->gemm, &complete));
        bool together = true;
        for (int i = 1; i < walk.count; i++) {
            hr_cuda_gemm term = w->members[walk.stage[i]].gemm;
            term.staged_block = m->gemm.staged_block;
            together = together && go_together(&m->gemm, &term);
        }
        if (together && walk_take(w, &walk)) {
            for (int i = 0; i < c->added_count; i++)
                plan->in_blocks[c->added[i]] = true;
            return HR_OK;
        }
    }
    c->added_count = 0;
    return hr_gemm_prepare(plan, stage, w->extents, HR_GEMM_HOPPER, &w->members[to].sizes,
                           &w->members[to].gemm, &complete);
}

hr_status hr_gemm_walks_find(hr_plan *plan, const int64_t *extents) {
    hr_walker w = {.plan = plan, .extents = extents};
    int products = 0;
    for (int i = 0; i < plan->stage_count; i++)
        products += plan->stages[i].schedule->kind == HR_SCHEDULE_CUDA_PRODUCT;
    if (products < 2 || plan->general) return HR_OK;
    w.members = hr_arena_alloc(plan->arena, (size_t)plan->stage_count * sizeof *w.members);
    HR_TRY(members_make(&w));
    for (int i = 0; i < plan->stage_count; i++)
        HR_TRY(sum_find(&w, i));
    for (int kind = HR_GEMM_WALK_COLUMNS; kind <= HR_GEMM_WALK_ROWS; kind++)
        for (int i = 0; i < plan->stage_count; i++)
            if (is_free(&w, i)) walk_find(&w, i, (hr_gemm_walk_kind)kind);
    return HR_OK;
}
