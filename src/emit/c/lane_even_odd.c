/* How bf16 goes through a pass: in pairs of vectors, as even and odd lanes, as words. In: a pass. Out:
 * answers. See lane_even_odd.h. */
#include "emit/c/lane_even_odd.h"

#include "base/dtype.h"

#include <string.h>

bool hr_lane_is_paired(const hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    return p->vector && pass->ways % 2 == 0 && s->use == HR_LANE_STORE &&
           p->function->tensors[s->tensor].dtype == HR_BF16;
}

/* A column's sums may stand as even and odd lanes where all tasks walk the same pairs of vectors. */
static bool is_even_odd_column(const hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    if (s->use != HR_LANE_COLUMN || s->type != HR_F32 || p->outer_count || pass->shifts || pass->tile)
        return false;
    for (int i = 0; i < pass->step_count; i++)
        if (pass->steps[i].use == HR_LANE_STORE) return false;
    return s->id < HR_EVEN_ODD_MAX;
}

const hr_lane_step *hr_lane_rounded(hr_printer *p, const hr_lane_pass *pass, const hr_expr **rounding) {
    hr_expr *const *table = p->plan->graph->table;
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        for (int n = 0; n < p->plan->graph->table_size && hr_lane_is_paired(p, pass, s); n++) {
            if (!table[n] || !hr_expr_is_words(table[n]) || table[n]->args[0] != s->value) continue;
            for (int other = 0; other < pass->step_count; other++)
                if (hr_expr_contains(pass->steps[other].value, table[n])) {
                    *rounding = table[n];
                    return s;
                }
        }
    }
    return NULL;
}

/* A number of the tile, or what takes its place where it is compared. */
static bool is_drawn(const hr_printer *p, const hr_expr *node) {
    const bool compared = node->op == HR_OP_GE || node->op == HR_OP_LT;
    return node->op == HR_OP_RANDOM || (compared && p->buffer[node->id] && node->args[0]->op == HR_OP_RANDOM);
}

/* Whether all that a value is made of is bf16 elements and places to compare with the lane's, so that it does
 * not matter in which order the lanes of two vectors are walked. */
typedef struct even_odd_search {
    hr_printer *p;
    const hr_lane_pass *pass;
    const hr_expr *rounding;
} even_odd_search;

static hr_visit is_not_even_odd(const hr_expr *node, const void *context) {
    const even_odd_search *t = context;
    hr_printer *p = t->p;
    if (hr_expr_level(p, node) != HR_AT_LANE || (p->drawn == HR_ORDER_EVEN_ODD && is_drawn(p, node)))
        return HR_VISIT_PAST;
    if (p->buffer[node->id])
        return hr_expr_is_words(node) || node == p->stash_even_odd ? HR_VISIT_PAST : HR_VISIT_STOP;
    if (hr_expr_lane_match(p, node)) return HR_VISIT_PAST;
    if (node->op == HR_OP_INDEX || node->op == HR_OP_RANDOM) return HR_VISIT_STOP;
    for (int k = 0; k < t->pass->stash_count; k++)
        if (t->pass->stash[k] == node && node != t->rounding && node != p->stash_even_odd)
            return HR_VISIT_STOP;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    return p->function->tensors[node->tensor].dtype == HR_BF16 && hr_expr_is_row_form(p, node)
               ? HR_VISIT_PAST
               : HR_VISIT_STOP;
}

static bool is_even_odd(hr_printer *p, const hr_lane_pass *pass, const hr_expr *value,
                        const hr_expr *rounding) {
    return !hr_expr_find(value, is_not_even_odd, &(even_odd_search){p, pass, rounding});
}

bool hr_lane_is_even_odd(hr_printer *p, const hr_lane_pass *pass, const hr_expr *rounding) {
    if (pass->ways % 2) return false;
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (s->use != HR_LANE_REDUCE && !hr_lane_is_paired(p, pass, s) && !is_even_odd_column(p, pass, s))
            return false;
        if (s->use == HR_LANE_REDUCE && hr_op_finds_position(s->reduce)) return false;
    }
    bool even_odd = true;
    for (int i = 0; i < pass->step_count && even_odd; i++)
        even_odd = is_even_odd(p, pass, pass->steps[i].value, rounding);
    return even_odd;
}

/* Of the stage's only other pass that needs `stash`: whether it may do all by even and odd lanes. */
static bool is_even_odd_user(hr_printer *p, const hr_lane_pass *pass, const hr_expr *stash) {
    const hr_stage *stage = p->stage;
    int own = stage->steps[pass->steps[0].id].pass, user = -1, results = 0;
    for (int i = 0; i < stage->step_count; i++) {
        if (stage->steps[i].pass == own || !hr_expr_contains(stage->steps[i].value, stash)) continue;
        if (user >= 0 && user != stage->steps[i].pass) return false;
        user = stage->steps[i].pass;
    }
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        const hr_tensor *target = &p->function->tensors[p->function->statements[step->statement].tensor];
        if (step->pass != user || step->kind == HR_STEP_ROW) continue;
        if (step->kind != HR_STEP_ELEMENT || target->dtype != HR_BF16) return false;
        if (!is_even_odd(p, pass, step->value, NULL)) return false;
        results++;
    }
    return results == 1;
}

static bool may_stash_even_odd(hr_printer *p, const hr_lane_pass *pass) {
    return pass->stash_count == 1 && !pass->stash_done[0] && !hr_expr_is_words(pass->stash[0]) &&
           !p->stash_even_odd && p->vector && !p->outer_count && !pass->state && pass->ways >= 2 &&
           strcmp(pass->first, "0") == 0 && hr_limits_are_short(&p->plan->limits);
}

void hr_lane_stash_even_odd(hr_printer *p, const hr_lane_pass *pass) {
    bool stores = false;
    if (!may_stash_even_odd(p, pass)) return;
    for (int i = 0; i < pass->step_count; i++) {
        if (pass->steps[i].use != HR_LANE_REDUCE) return;
        stores = stores || hr_expr_contains(pass->steps[i].value, pass->stash[0]);
    }
    p->stash_even_odd = pass->stash[0];
    p->stash_even_odd_ways = pass->ways;
    if (!stores || !hr_lane_is_even_odd(p, pass, NULL) || !is_even_odd_user(p, pass, pass->stash[0]))
        p->stash_even_odd = NULL;
}

bool hr_lane_uses_even_odd(hr_printer *p, const hr_lane_pass *pass) {
    bool uses = false;
    for (int i = 0; i < pass->step_count && p->stash_even_odd && p->buffer[p->stash_even_odd->id]; i++) {
        uses = uses || hr_expr_contains(pass->steps[i].value, p->stash_even_odd);
    }
    return uses;
}

/* Values that are made by this stage (`here`) or before it, where scalars may be what they were. */
typedef struct nan_search {
    hr_printer *p;
    hr_walk values[2]; /* by `here`: all values that were looked at */
} nan_search;

static bool has_long_nan(nan_search *search, const hr_expr *value, bool here) {
    return hr_walk_through(&search->values[here], value);
}

static bool is_made_short(nan_search *search, int tensor, bool here) {
    const hr_printer *p = search->p;
    const hr_role role = p->function->tensors[tensor].role;
    bool made = false;
    here = here && hr_stage_makes(p->plan, p->stage, tensor);
    for (int i = 0; i < p->function->statement_count; i++) {
        const hr_statement *statement = &p->function->statements[i];
        if (statement->tensor != tensor) continue;
        if (has_long_nan(search, statement->value, here)) return false;
        made = true;
    }
    return made && (role == HR_ROLE_LOCAL || role == HR_ROLE_RESULT);
}

/* Arithmetic and functions make NaN of their own, which have one bit, or hand on those of an operand. */
static hr_visit is_long_nan(nan_search *search, const hr_expr *node, bool here) {
    hr_printer *p = search->p;
    if (!hr_dtype_is_float(node->type)) return HR_VISIT_PAST;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    hr_dtype dtype = p->function->tensors[node->tensor].dtype;
    const bool is_short =
        dtype == HR_BF16 ||
        (here && hr_expr_is_cleaned(p, node) && !hr_stage_makes(p->plan, p->stage, node->tensor)) ||
        (dtype == HR_F32 && is_made_short(search, node->tensor, here));
    return is_short ? HR_VISIT_PAST : HR_VISIT_STOP;
}

static hr_visit is_long_before(void *search, const hr_expr *node) {
    return is_long_nan(search, node, false);
}

static hr_visit is_long_here(void *search, const hr_expr *node) {
    return is_long_nan(search, node, true);
}

bool hr_lane_has_long_nan(hr_printer *p, const hr_lane_step *step) {
    nan_search search = {p, {{.enter = is_long_before}, {.enter = is_long_here}}};
    search.values[0].context = search.values[1].context = &search;
    const bool found = has_long_nan(&search, step->value, true);
    hr_walk_end(&search.values[0]);
    hr_walk_end(&search.values[1]);
    return found;
}

bool hr_lane_stores_between(const hr_printer *p, const hr_lane_pass *pass) {
    bool stores = false;
    for (int k = 0; k < pass->stash_count; k++)
        stores = stores || !p->buffer[pass->stash[k]->id];
    for (int i = 0; i < pass->step_count; i++)
        stores = stores || pass->steps[i].use == HR_LANE_COLUMN;
    return stores;
}
