/* Tables of what lanes compute from a small number. In: a value. Out: text. See lane_table.h. */
#include "emit/c/lane_table.h"

#include "plan/whole_range.h"

#include <string.h>

enum { NODES_MOST = 32, OPERATIONS_LEAST = 2 };

typedef struct search {
    hr_printer *p;
    const hr_expr *seed;
    int nodes, operations, elements;
    hr_emit_level level; /* of what is no lane's own */
} search;

static bool is_whole(const hr_expr *node) {
    return node->type == HR_I32 || node->type == HR_I64;
}

/* All that varies with the lane goes through one small number. */
static bool leads_to_seed(search *s, const hr_expr *node) {
    hr_printer *p = s->p;
    int count;
    const hr_emit_level level = hr_expr_level(p, node);
    if (level != HR_AT_LANE) {
        if (level > s->level) s->level = level;
        return true;
    }
    if (++s->nodes > NODES_MOST || p->buffer[node->id] || node == p->given) return false;
    if (node->op == HR_OP_INDEX || node->op == HR_OP_RANDOM) return false;
    if (is_whole(node) && hr_whole_is_small(p->function, node, &count)) {
        if (s->seed && s->seed != node) return false;
        s->seed = node;
        return true;
    }
    const bool element = node->op == HR_OP_ELEMENT;
    if (element &&
        (p->value[node->tensor] || hr_expr_is_row_form(p, node) || !hr_element_is_small(p->function, node)))
        return false;
    s->elements += element;
    s->operations++;
    for (int i = 0; i < node->arg_count; i++)
        if (!leads_to_seed(s, node->args[i])) return false;
    return true;
}

/* Elements are read once a task, one after the other. Vectors of 16 lanes are the table; shorter ones pick
 * from two, or more, which takes as long as a few operations. */
static bool pays(const search *s) {
    if (s->elements) return s->level == HR_AT_TASK;
    return hr_limits_lanes(&s->p->plan->limits) == HR_SMALL && s->operations >= OPERATIONS_LEAST;
}

static void print_table(hr_printer *p, const hr_expr *node, const search *s) {
    const hr_expr *seed = s->seed;
    const char *name = hr_format(p, "table_%d", ++p->number);
    const bool reads = s->elements > 0;
    int count;
    hr_printer one;
    if (!hr_printer_beside(p, p->stage, &one)) return;
    hr_whole_is_small(p->function, seed, &count);
    hr_print(p, "_Alignas(64) float %s[%d]%s;", name, HR_SMALL, reads && count < HR_SMALL ? " = {0}" : "");
    if (reads)
        hr_print(p, "for (int lane = 0; lane < %d; lane++) {", count);
    else
        hr_print(p, "for (int lane = 0; lane < %d; lane += HR_LANES) {", HR_SMALL);
    one.vector = !reads;
    one.indent = p->indent + 1;
    one.given = seed;
    one.given_text = reads ? "lane" : "(vi_iota() + lane)";
    const char *text = hr_expr_text(&one, node);
    hr_print(&one, reads ? "%s[lane] = %s;" : "vf_store_f32(%s + lane, %s);", name, text);
    p->number = one.number;
    hr_print(p, "}");
    hr_printer_end(&one);
    hr_lane_table *table = hr_arena_alloc(p->arena, sizeof *table);
    *table = (hr_lane_table){.name = name, .seed = seed, .level = s->level};
    p->table[node->id] = table;
}

bool hr_lane_table_prepare(hr_printer *p, const hr_expr *node, hr_emit_level level, const hr_expr **seed) {
    search s = {.p = p, .level = HR_AT_TASK};
    if (!p->vector || node->type != HR_F32) return false;
    if (!leads_to_seed(&s, node) || !s.seed || !pays(&s)) return false;
    if (s.level == level && !p->table[node->id]) print_table(p, node, &s);
    *seed = s.seed;
    return true;
}

/* The last four bits pick the lane's value: more of them do no harm. */
static const char *place_text(hr_printer *p, const hr_expr *node) {
    if (p->name[node->id] || node == p->given || hr_expr_level(p, node) != HR_AT_LANE)
        return hr_expr_lanes(p, node);
    if (node->op == HR_OP_MOD && node->args[1]->op == HR_OP_NUMBER && node->args[1]->whole == HR_SMALL)
        return hr_expr_lanes(p, node->args[0]);
    if (node->op != HR_OP_WHERE) return hr_expr_lanes(p, node);
    const char *condition = hr_expr_lanes(p, node->args[0]), *first = place_text(p, node->args[1]);
    return hr_format(p, "vi_select(%s, %s, %s)", condition, first, place_text(p, node->args[2]));
}

const char *hr_lane_table_text(hr_printer *p, const hr_expr *node) {
    return hr_format(p, "vf_lookup(%s, %s)", p->table[node->id]->name,
                     place_text(p, p->table[node->id]->seed));
}
