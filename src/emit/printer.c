/* The printer of a plan's code: its tables, and lines. In: text. Out: lines. See printer.h. */
#include "emit/printer.h"
#include "base/memory.h"

#include "base/dtype.h"
#include "ir/graph.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* NAMES_RESERVE: for tables of nodes that a stage's printer makes; see STAGES_TIMES_NODES in plan.c. */
enum { NAMES_ROOM = 256 << 20, NAMES_RESERVE = 256 << 20, USED_BUCKETS = 64 };

typedef struct used_name {
    const char *name;
    struct used_name *next;
} used_name;

struct hr_used_names {
    used_name *buckets[USED_BUCKETS];
    hr_defined *defined; /* by the whole file */
};

hr_status hr_printer_begin(hr_printer *p, const hr_plan *plan, hr_arena *arena, hr_text *out) {
    size_t ids = (size_t)plan->normal->expr_count + 1, tensors = (size_t)plan->normal->tensor_count + 1;
    *p = (hr_printer){.plan = plan, .function = plan->normal, .arena = arena, .out = out, .lane = -1};
    p->level = hr_memory_take(ids);
    p->name = hr_memory_zeros(ids, sizeof *p->name);
    p->pointer = hr_memory_zeros(ids, sizeof *p->pointer);
    p->valid = hr_memory_zeros(ids, sizeof *p->valid);
    p->uses = hr_memory_zeros(ids, sizeof *p->uses);
    p->buffer = hr_memory_zeros(ids, sizeof *p->buffer);
    p->table = hr_memory_zeros(ids, sizeof *p->table);
    p->value = hr_memory_zeros(tensors, sizeof *p->value);
    p->tensor = hr_memory_zeros(tensors, sizeof *p->tensor);
    p->used = hr_arena_alloc(arena, sizeof *p->used);
    if (p->level && p->name && p->pointer && p->valid && p->uses && p->buffer && p->table && p->value &&
        p->tensor)
        return HR_OK;
    hr_printer_end(p);
    return hr_fail(HR_OUT_OF_MEMORY, "out of memory while printing kernel %.60s", plan->source->name);
}

/* ---- whether results are narrow ---- */

static hr_visit is_made_here(const hr_expr *node, const void *context) {
    const hr_printer *p = context;
    return hr_visit_until(node->op == HR_OP_ELEMENT && hr_stage_makes(p->plan, p->stage, node->tensor));
}

static bool takes_in_stage(const hr_printer *p, const hr_expr *value) {
    return hr_expr_find(value, is_made_here, p);
}

static bool is_wide_element(const hr_printer *p, const hr_step *step) {
    const hr_tensor *target = &p->function->tensors[p->function->statements[step->statement].tensor];
    return step->kind == HR_STEP_ELEMENT && step->stored && hr_dtype_size(target->dtype) > 2;
}

/* Whether wide elements of another stage, or products of theirs, take in what this one makes. */
static bool is_wide_user(hr_printer *p, const hr_stage *user) {
    bool wide = false;
    for (int i = 0; i < user->step_count; i++) {
        if (!is_wide_element(p, &user->steps[i])) continue;
        wide = true;
        if (takes_in_stage(p, user->steps[i].value)) return true;
    }
    const hr_contract *products = wide ? user->contract : NULL;
    return products && (takes_in_stage(p, products->left) || takes_in_stage(p, products->right));
}

/* Wide elements of another stage would show that this one's sums are of such exponentials and their own are
 * not. */
static bool is_narrow(hr_printer *p) {
    const hr_stage *stage = p->stage;
    bool sums = hr_stage_has(stage, HR_STEP_REDUCE_ROW) || hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) ||
                hr_stage_has(stage, HR_STEP_REDUCE_ALL);
    for (int i = 0; i < stage->step_count; i++)
        if (is_wide_element(p, &stage->steps[i])) return false;
    for (int s = 0; s < p->plan->stage_count && sums; s++)
        if (&p->plan->stages[s] != stage && is_wide_user(p, &p->plan->stages[s])) return false;
    return true;
}

void hr_printer_form(hr_printer *p, hr_form form, bool taken) {
    p->forms = taken ? p->forms | form : p->forms & ~(unsigned)form;
}

void hr_printer_stage(hr_printer *p, const hr_stage *stage) {
    size_t ids = (size_t)p->function->expr_count;
    p->stage = stage;
    hr_uses_begin(p);
    p->vector = hr_stage_is_vector(stage);
    p->lane = hr_stage_lane(stage);
    p->flat = NULL;
    p->outer = stage->row;
    p->outer_count = stage->row_count ? stage->row_count - 1 : 0;
    memset(p->level, -1, ids);
    memset(p->name, 0, ids * sizeof *p->name);
    memset(p->pointer, 0, ids * sizeof *p->pointer);
    memset(p->valid, 0, ids * sizeof *p->valid);
    memset(p->uses, 0, ids * sizeof *p->uses);
    memset(p->buffer, 0, ids * sizeof *p->buffer);
    memset(p->table, 0, ids * sizeof *p->table);
    memset(p->value, 0, (size_t)p->function->tensor_count * sizeof *p->value);
    p->value_read = hr_arena_alloc(p->arena, (size_t)p->function->tensor_count * sizeof *p->value_read);
    p->checks = false;
    p->begun = p->joined = -1;
    p->stash_even_odd = NULL;
    hr_printer_form(p, HR_FORM_NARROW, is_narrow(p));
    hr_printer_form(p, HR_FORM_CLEAN,
                    hr_stage_is_vector(stage) && hr_stage_is_bound_by_operations(p->plan, stage));
}

void hr_printer_end(hr_printer *p) {
    free(p->level);
    free(p->name);
    free(p->pointer);
    free(p->valid);
    free(p->uses);
    free(p->buffer);
    free(p->table);
    free(p->value);
    free(p->tensor);
    *p = (hr_printer){0};
}

hr_status hr_names_create(hr_arena **out) {
    return hr_arena_create(NAMES_ROOM + NAMES_RESERVE, out);
}

/* NULL where the kernel's names have become too many; then it stays so. */
static char *room_for_text(hr_printer *p, int length) {
    size_t room = hr_arena_room(p->arena), size = (size_t)length + 1;
    if (room >= size + 64 + NAMES_RESERVE) return hr_arena_alloc(p->arena, size);
    if (room > NAMES_RESERVE) hr_arena_alloc(p->arena, room - NAMES_RESERVE);
    return NULL;
}

hr_status hr_names_status(const hr_plan *plan, const hr_arena *arena) {
    return hr_arena_room(arena) > NAMES_RESERVE ? HR_OK : hr_graph_too_large(plan->graph);
}

void hr_printer_walked(hr_printer *p, hr_walk *walk) {
    if (hr_walk_end(walk) != HR_OK) p->out->failed = true;
}

void hr_print(hr_printer *p, const char *format, ...) {
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof line) { /* a long line is built where it fits */
        va_start(arguments, format);
        char *whole = room_for_text(p, length);
        if (whole) vsnprintf(whole, (size_t)length + 1, format, arguments);
        va_end(arguments);
        hr_text_format(p->out, "%*s%s\n", p->indent * 4, "", whole ? whole : "");
        return;
    }
    if (*line)
        hr_text_format(p->out, "%*s%s\n", p->indent * 4, "", line);
    else
        hr_text_append(p->out, "\n", 1);
}

void hr_print_open(hr_printer *p, const char *line) {
    hr_print(p, "%s", line);
    p->indent++;
}

void hr_print_close(hr_printer *p) {
    p->indent--;
    hr_print(p, "}");
}

const char *hr_format(hr_printer *p, const char *format, ...) {
    char small[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    char *text = room_for_text(p, length);
    if (!text) return "";
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

hr_text *hr_print_aside(hr_printer *p, hr_text *body) {
    hr_text *out = p->out;
    *body = (hr_text){0};
    p->out = body;
    p->indent++;
    return out;
}

void hr_print_back(hr_printer *p, hr_text *out) {
    p->out = out;
    p->indent--;
}

void hr_print_body(hr_printer *p, hr_text *body) {
    hr_text_append(p->out, hr_text_data(body), body->length);
    if (body->failed) p->out->failed = true;
    hr_text_clear(body);
}

/* ---- names that are declared before the body that uses them ---- */

static unsigned bucket_of(const char *name) {
    unsigned hash = 0;
    for (const char *c = name; *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    return hash % USED_BUCKETS;
}

bool hr_is_used(const hr_printer *p, const char *name) {
    for (const used_name *u = p->used->buckets[bucket_of(name)]; u; u = u->next)
        if (strcmp(u->name, name) == 0) return true;
    return false;
}

const char *hr_use(hr_printer *p, const char *name) {
    if (hr_is_used(p, name)) return name;
    used_name **bucket = &p->used->buckets[bucket_of(name)];
    used_name *added = (used_name *)(void *)room_for_text(p, sizeof *added);
    if (!added) return name;
    *added = (used_name){name, *bucket};
    *bucket = added;
    return name;
}

void hr_uses_begin(hr_printer *p) {
    *p->used = (struct hr_used_names){.defined = p->used->defined};
}

/* ---- names that a file defines, outside of all functions ---- */

const char *hr_define(hr_printer *p, hr_defined_kind kind, const char *name) {
    hr_defined *defined = (hr_defined *)(void *)room_for_text(p, sizeof *defined);
    if (!defined) return name;
    *defined = (hr_defined){name, kind, p->used->defined};
    p->used->defined = defined;
    return name;
}

const hr_defined *hr_last_defined(const hr_printer *p) {
    return p->used->defined;
}
