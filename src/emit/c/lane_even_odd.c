/* How bf16 goes through a pass: in pairs of vectors, in turns, as words. In: a pass. Out: answers. See
 * lane_even_odd.h. */
#include "emit/c/lane_even_odd.h"

#include "base/dtype.h"

#include <string.h>

bool hr_lane_is_paired(const hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    return p->vector && pass->ways % 2 == 0 && s->use == HR_LANE_STORE &&
           p->function->tensors[s->tensor].dtype == HR_BF16;
}

/* A column's sums may stand in the order of turns where all tasks walk the same pairs of vectors. */
static bool is_column_of_turns(const hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    if (s->use != HR_LANE_COLUMN || s->type != HR_F32 || p->outer_count || pass->whole || pass->tile)
        return false;
    for (int i = 0; i < pass->step_count; i++)
        if (pass->steps[i].use == HR_LANE_STORE) return false;
    return s->id < HR_TURNED_MAX;
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
typedef struct in_turns {
    hr_printer *p;
    const hr_lane_pass *pass;
    const hr_expr *rounding;
} in_turns;

static hr_visit is_not_of_turns(const hr_expr *node, const void *context) {
    const in_turns *t = context;
    hr_printer *p = t->p;
    if (hr_expr_level(p, node) != HR_AT_LANE || (p->drawn_in_turns && is_drawn(p, node)))
        return HR_VISIT_PAST;
    if (p->buffer[node->id])
        return hr_expr_is_words(node) || node == p->kept_turned ? HR_VISIT_PAST : HR_VISIT_STOP;
    if (hr_expr_lane_sought(p, node)) return HR_VISIT_PAST;
    if (node->op == HR_OP_INDEX || node->op == HR_OP_RANDOM) return HR_VISIT_STOP;
    for (int k = 0; k < t->pass->kept_count; k++)
        if (t->pass->kept[k] == node && node != t->rounding && node != p->kept_turned) return HR_VISIT_STOP;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    return p->function->tensors[node->tensor].dtype == HR_BF16 && hr_expr_is_row_form(p, node)
               ? HR_VISIT_PAST
               : HR_VISIT_STOP;
}

static bool is_of_turns(hr_printer *p, const hr_lane_pass *pass, const hr_expr *value,
                        const hr_expr *rounding) {
    return !hr_expr_find(value, is_not_of_turns, &(in_turns){p, pass, rounding});
}

bool hr_lane_takes_turns(hr_printer *p, const hr_lane_pass *pass, const hr_expr *rounding) {
    if (pass->ways % 2) return false;
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (s->use != HR_LANE_REDUCE && !hr_lane_is_paired(p, pass, s) && !is_column_of_turns(p, pass, s))
            return false;
        if (s->use == HR_LANE_REDUCE && hr_op_finds_position(s->reduce)) return false;
    }
    bool turns = true;
    for (int i = 0; i < pass->step_count && turns; i++)
        turns = is_of_turns(p, pass, pass->steps[i].value, rounding);
    return turns;
}

/* Of the stage's only other pass that needs `kept`: whether all that it does may be done in turns. */
static bool is_user_of_turns(hr_printer *p, const hr_lane_pass *pass, const hr_expr *kept) {
    const hr_stage *stage = p->stage;
    int own = stage->steps[pass->steps[0].id].pass, user = -1, results = 0;
    for (int i = 0; i < stage->step_count; i++) {
        if (stage->steps[i].pass == own || !hr_expr_contains(stage->steps[i].value, kept)) continue;
        if (user >= 0 && user != stage->steps[i].pass) return false;
        user = stage->steps[i].pass;
    }
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        const hr_tensor *target = &p->function->tensors[p->function->statements[step->statement].tensor];
        if (step->pass != user || step->kind == HR_STEP_ROW) continue;
        if (step->kind != HR_STEP_ELEMENT || target->dtype != HR_BF16) return false;
        if (!is_of_turns(p, pass, step->value, NULL)) return false;
        results++;
    }
    return results == 1;
}

static bool may_keep_in_turns(hr_printer *p, const hr_lane_pass *pass) {
    return pass->kept_count == 1 && !pass->kept_done[0] && !hr_expr_is_words(pass->kept[0]) &&
           !p->kept_turned && p->vector && !p->outer_count && !pass->state && pass->ways >= 2 &&
           strcmp(pass->first, "0") == 0 && hr_limits_are_short(&p->plan->limits);
}

void hr_lane_keep_in_turns(hr_printer *p, const hr_lane_pass *pass) {
    bool stores = false;
    if (!may_keep_in_turns(p, pass)) return;
    for (int i = 0; i < pass->step_count; i++) {
        if (pass->steps[i].use != HR_LANE_REDUCE) return;
        stores = stores || hr_expr_contains(pass->steps[i].value, pass->kept[0]);
    }
    p->kept_turned = pass->kept[0];
    p->kept_turned_ways = pass->ways;
    if (!stores || !hr_lane_takes_turns(p, pass, NULL) || !is_user_of_turns(p, pass, pass->kept[0]))
        p->kept_turned = NULL;
}

bool hr_lane_uses_turned(hr_printer *p, const hr_lane_pass *pass) {
    bool uses = false;
    for (int i = 0; i < pass->step_count && p->kept_turned && p->buffer[p->kept_turned->id]; i++) {
        uses = uses || hr_expr_contains(pass->steps[i].value, p->kept_turned);
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
    for (int k = 0; k < pass->kept_count; k++)
        stores = stores || !p->buffer[pass->kept[k]->id];
    for (int i = 0; i < pass->step_count; i++)
        stores = stores || pass->steps[i].use == HR_LANE_COLUMN;
    return stores;
}
