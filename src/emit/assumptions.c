/* What a plan takes for granted of the extents. In: a plan. Out: text. See assumptions.h. */
#include "emit/assumptions.h"

#include "emit/prelude.h"
#include "plan/assumption.h"
#include "plan/whole_range.h"

#include <inttypes.h>

typedef struct asking {
    hr_printer *p;
    const char **name; /* by expr id: of its interval, once it has a line */
    int names;         /* given so far */
} asking;

/* ---- intervals ---- */

static const char *interval_text(asking *a, const hr_expr *node);

static const char *operation_text(asking *a, const hr_expr *node) {
    const int first = node->op == HR_OP_WHERE;
    const char *left = interval_text(a, node->args[first]);
    if (node->op == HR_OP_NEG) return hr_format(a->p, "interval_neg(%s)", left);
    const char *right = interval_text(a, node->args[first + 1]);
    return hr_format(a->p, "%s(%s, %s)", hr_interval_operation_of(node->op).name, left, right);
}

static const char *leaf_text(asking *a, const hr_expr *node) {
    hr_printer *p = a->p;
    interval range;
    switch (node->op) {
    case HR_OP_NUMBER:
        return hr_format(p, "interval_number(%" PRId64 ")", node->whole);
    case HR_OP_EXTENT:
        return hr_format(p, "interval_number(%s)", hr_emit_extent(p, node->extent));
    case HR_OP_INDEX:
        return hr_format(p, "interval_index(%s)", interval_text(a, p->function->indices[node->index].extent));
    default: /* an element of 8 bits */
        range = hr_interval_of_dtype(p->function->tensors[node->tensor].dtype);
        return hr_format(p, "interval_of(%" PRId64 ", %" PRId64 ")", range.low, range.high);
    }
}

/* Operations have a line each, so that what is shared is computed once. */
static const char *interval_text(asking *a, const hr_expr *node) {
    const bool leaf = node->op == HR_OP_ELEMENT || !node->arg_count;
    if (a->name[node->id]) return a->name[node->id];
    if (leaf) return leaf_text(a, node);
    const char *text = operation_text(a, node), *name = hr_format(a->p, "r%d", ++a->names);
    hr_print(a->p, "const interval %s = %s;", name, text);
    return a->name[node->id] = name;
}

static void print_assumption(asking *a, const hr_assumption *assumption) {
    const char *value = interval_text(a, assumption->value);
    if (!assumption->least) {
        hr_print(a->p, "if (!%s.known) return false;", value);
        return;
    }
    const char *least = interval_text(a, assumption->least), *most = interval_text(a, assumption->most);
    hr_print(a->p, "if (!interval_within(%s, %s, %s)) return false;", value, least, most);
}

/* ---- axes ---- */

static void print_divisor(void *context, const hr_expr *node) {
    hr_printer *p = context;
    if (node->op == HR_OP_FLOORDIV && node->args[1]->op != HR_OP_NUMBER)
        hr_print(p, "if (%s == 0) return false;", hr_emit_size(p, node->args[1]));
}

static hr_visit subtracts(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_SUB || node->op == HR_OP_NEG);
}

/* `walk` has entered the axes before this one. */
static void print_axis(hr_printer *p, hr_walk *walk, const hr_expr *axis) {
    hr_walk_through(walk, axis);
    if (hr_expr_find(axis, subtracts, NULL)) hr_print(p, "if (%s < 0) return false;", hr_emit_size(p, axis));
}

static void print_axes(hr_printer *p) {
    hr_walk walk = {.leave = print_divisor, .context = p};
    for (int e = 0; e < p->function->extent_count; e++)
        hr_print(p, "if (%s < 0) return false;", hr_emit_extent(p, e));
    for (int t = 0; t < hr_function_arguments(p->plan->source); t++)
        for (int a = 0; a < p->function->tensors[t].rank; a++)
            print_axis(p, &walk, p->function->tensors[t].shape[a]);
    hr_printer_walked(p, &walk);
}

/* ---- the function ---- */

static void print_parameters(hr_printer *p) {
    for (int e = 0; e < p->function->extent_count; e++)
        hr_text_format(p->out, "%sint64_t %s", e ? ", " : "", hr_emit_extent(p, e));
    if (!p->function->extent_count) hr_text_append(p->out, "void", 4);
}

static void print_function(hr_printer *p) {
    const size_t ids = (size_t)p->function->expr_count + 1;
    asking a = {.p = p, .name = hr_arena_alloc(p->arena, ids * sizeof *a.name)};
    for (size_t i = 0; i < ids; i++)
        a.name[i] = NULL;
    hr_text_format(p->out, "static bool %s(", hr_define(p, HR_IDENTIFIER, "extents_hold"));
    print_parameters(p);
    hr_text_format(p->out, ") {\n");
    p->indent++;
    print_axes(p);
    for (const hr_assumption *one = p->plan->graph->assumptions; one; one = one->next)
        print_assumption(&a, one);
    hr_print(p, "return true;");
    p->indent--;
    hr_text_format(p->out, "}\n\n");
}

hr_status hr_emit_assumptions(hr_printer *p) {
    hr_text function = {0}, *out = p->out;
    p->out = &function;
    print_function(p);
    p->out = out;
    hr_status status = hr_text_status(&function);
    if (status == HR_OK && p->plan->graph->assumptions)
        status = hr_prelude_append(HR_PRELUDE_INTERVAL, hr_text_data(&function), p, out);
    hr_text_append(out, hr_text_data(&function), function.length);
    hr_text_clear(&function);
    return status;
}

const char *hr_emit_assumptions_call(hr_printer *p, const char *suffix, const char *source) {
    const char *list = "";
    for (int e = 0; e < p->function->extent_count; e++)
        list = hr_format(p, "%s%s%s%s", list, e ? ", " : "", source, hr_emit_extent(p, e));
    return hr_format(p, "extents_hold%s(%s)", suffix, list);
}

void hr_emit_assumptions_words(hr_printer *p) {
    for (const hr_assumption *one = p->plan->graph->assumptions; one; one = one->next) {
        hr_text words = {0};
        hr_assumption_words(p->function, one, &words);
        hr_print(p, " *   %s", hr_text_data(&words));
        hr_text_clear(&words);
    }
}
