/* Lanes of elements that do not lie side by side. In: an element. Out: text. See lane_gather.h. */
#include "emit/c/lane_gather.h"

#include "base/dtype.h"

#include <string.h>

/* The lane counts in the last subscript alone. */
static bool others_stand(hr_printer *p, const hr_expr *element) {
    for (int a = 0; a < p->function->tensors[element->tensor].rank - 1; a++)
        if (hr_expr_level(p, element->args[a]) == HR_AT_LANE) return false;
    return true;
}

/* Side by side after all, but for a condition or a check of each: so they are where all are on their axis. */
static bool is_row(hr_printer *p, const hr_expr *element) {
    int last = p->function->tensors[element->tensor].rank - 1;
    return hr_expr_is_lane_plus(p, element->args[last]) && others_stand(p, element);
}

/* Whether the subscripts beside the last are on their axes; NULL = they always are. */
static const char *others_inside(hr_printer *p, const hr_expr *element) {
    const hr_tensor *tensor = &p->function->tensors[element->tensor];
    const char *text = NULL;
    for (int a = 0; a < tensor->rank - 1; a++)
        if (!hr_subscript_is_safe(p->function, element->args[a], tensor->shape[a]))
            text = hr_format(p, "%s%s(uint64_t)(%s) < (uint64_t)(%s)", text ? text : "", text ? " && " : "",
                             hr_expr_text(p, element->args[a]), hr_emit_size(p, tensor->shape[a]));
    return text;
}

/* Where the row begins, of which the element is lane i. */
static const char *rest_of(hr_printer *p, const hr_expr *element) {
    return hr_emit_lane_rest(p, element->args[p->function->tensors[element->tensor].rank - 1]);
}

static const char *size_of(hr_printer *p, const hr_expr *element) {
    const hr_tensor *tensor = &p->function->tensors[element->tensor];
    return hr_emit_size(p, tensor->shape[tensor->rank - 1]);
}

/* Where the tensor's last axis begins. */
static const char *axis_of(hr_printer *p, const hr_expr *element) {
    const hr_tensor *tensor = &p->function->tensors[element->tensor];
    const char *above = hr_emit_offset(p, element->tensor, element->args, tensor->rank - 1);
    bool first = tensor->rank == 1 || strcmp(above, "0") == 0;
    return hr_format(p, "%s%s%s", hr_emit_tensor(p, element->tensor), first ? "" : " + ", first ? "" : above);
}

static const char *row_of(hr_printer *p, const hr_expr *element) {
    return hr_format(p, "%s + %s + i", axis_of(p, element), rest_of(p, element));
}

static const char *kind_of(const hr_expr *element) {
    return element->type == HR_F32 ? "vf" : "vi";
}

static const char *dtype_of(hr_printer *p, const hr_expr *element) {
    return hr_dtype_name(p->function->tensors[element->tensor].dtype);
}

static const char *load_of(hr_printer *p, const hr_expr *element) {
    return hr_format(p, "%s_load_%s", kind_of(element), dtype_of(p, element));
}

/* Prints the same expression for one lane, by names that are known outside of the lanes. */
static const char *print_one(hr_printer *p, const hr_expr *element) {
    hr_printer one;
    if (!hr_printer_beside(p, p->stage, &one)) return "0";
    one.vector = false;
    const char *text = hr_expr_text(&one, element);
    p->number = one.number;
    hr_printer_end(&one);
    return text;
}

static void print_lanes(hr_printer *p, const hr_expr *element, int number) {
    bool whole = element->type != HR_F32;
    hr_print(p, "_Alignas(64) %s lanes_%d[HR_LANES]%s;", whole ? "int32_t" : "float", number,
             p->body == HR_BODY_PART ? " = {0}" : "");
    hr_print(p, "const int64_t from_%d = i;", number);
    hr_print(p, "for (int lane = 0; lane < %s; lane++) {", p->body == HR_BODY_PART ? "lanes" : "HR_LANES");
    p->indent++;
    hr_print(p, "const int64_t i = from_%d + lane;", number);
    hr_print(p, "lanes_%d[lane] = %s;", number, print_one(p, element));
    p->indent--;
    hr_print(p, "}");
    hr_print(p, "g%d = %s(lanes_%d);", number, whole ? "vi_load_i32" : "vf_load_f32", number);
}

/* Whether the lane counts for nothing but what it is divided by, as in `scale[m, k // 32]`; then all lanes
 * are one element where these are equal for the first and the last of them, which `condition` says. */
typedef struct evenness {
    hr_printer *p;
    const char *condition;
} evenness;

/* Stops at what counts the lane otherwise. */
static hr_visit ask_even(void *context, const hr_expr *node) {
    evenness *even = context;
    hr_printer *p = even->p;
    if (hr_expr_level(p, node) != HR_AT_LANE) return HR_VISIT_PAST;
    if (node->op == HR_OP_FLOORDIV && hr_expr_is_lane_plus(p, node->args[0]) &&
        hr_expr_level(p, node->args[1]) != HR_AT_LANE) {
        const char *rest = hr_emit_lane_rest(p, node->args[0]), *by = hr_expr_text(p, node->args[1]);
        const char *first = strcmp(rest, "0") == 0 ? "i" : hr_format(p, "%s + i", rest);
        even->condition = hr_format(p, "%s%si64_floordiv(%s, %s) == i64_floordiv(%s + %s - 1, %s)",
                                    even->condition, *even->condition ? " && " : "", first, by, first,
                                    p->body == HR_BODY_PART ? "lanes" : "HR_LANES", by);
        return HR_VISIT_PAST;
    }
    return hr_visit_until(node->arg_count == 0);
}

static bool is_even(hr_printer *p, const hr_expr *element, const char **condition) {
    evenness even = {p, ""};
    hr_walk walk = {.enter = ask_even, .context = &even};
    const bool stopped = hr_walk_through(&walk, element);
    hr_printer_walked(p, &walk);
    *condition = even.condition;
    return !stopped;
}

static void print_even(hr_printer *p, const hr_expr *element, const char *condition, int number) {
    hr_print(p, "if (%s) {", condition);
    p->indent++;
    hr_print(p, "g%d = %s_of(%s);", number, kind_of(element), print_one(p, element));
    p->indent--;
    hr_print(p, "} else {");
    p->indent++;
    print_lanes(p, element, number);
    p->indent--;
    hr_print(p, "}");
}

/* Of `w[m, k // 2]` the lanes are half a vector of neighbours, each twice. */
static bool is_stretched(hr_printer *p, const hr_expr *element) {
    const hr_tensor *tensor = &p->function->tensors[element->tensor];
    const hr_expr *last = tensor->rank ? element->args[tensor->rank - 1] : NULL;
    if (p->body == HR_BODY_PART || !last || last->op != HR_OP_FLOORDIV) return false;
    if (hr_layout_has_strides(hr_plan_layout(p->plan, element->tensor))) return false;
    const hr_expr *by = last->args[1];
    return others_stand(p, element) && hr_expr_is_lane_plus(p, last->args[0]) && by->op == HR_OP_NUMBER &&
           (by->whole == 2 || by->whole == 4 || by->whole == 8) &&
           by->whole < hr_limits_lanes(&p->plan->limits);
}

static void print_stretched(hr_printer *p, const hr_expr *element, int number) {
    const hr_tensor *tensor = &p->function->tensors[element->tensor];
    const hr_expr *last = element->args[tensor->rank - 1];
    const int by = (int)last->args[1]->whole;
    const char *rest = hr_emit_lane_rest(p, last->args[0]), *others = others_inside(p, element);
    hr_print(p, "const int64_t at_%d = %s + i;", number, rest);
    hr_print(
        p,
        "if (HR_LANES %% %d == 0 && at_%d %% %d == 0 && row_inside(0, at_%d / %d, HR_LANES / %d, %s)%s%s) {",
        by, number, by, number, by, by, size_of(p, element), others ? " && " : "", others ? others : "");
    hr_print(p, "    g%d = %s_repeat(%s_load_part_%s(%s + at_%d / %d, HR_LANES / %d), %d);", number,
             kind_of(element), kind_of(element), dtype_of(p, element), axis_of(p, element), number, by, by,
             by);
    hr_print(p, "} else {");
    p->indent++;
    print_lanes(p, element, number);
    p->indent--;
    hr_print(p, "}");
}

/* Those lanes of a row that are on their axis; the others are asked one by one only where one counts. */
static void print_row_part(hr_printer *p, const hr_expr *element, int number) {
    const hr_tensor *tensor = &p->function->tensors[element->tensor];
    const char *others = others_inside(p, element), *count = p->body == HR_BODY_PART ? "lanes" : "HR_LANES";
    const char *wanted = hr_element_is_guarded(p->function, element)
                             ? hr_expr_lanes(p, element->args[tensor->rank])
                             : "vm_of(true)";
    hr_print(p, "const row_lanes there = lanes_there(%s, %s, i, %s, %s);", others ? others : "true",
             rest_of(p, element), count, size_of(p, element));
    hr_print(p, "if (lanes_missing(%s, there, %s)) {", wanted, count);
    p->indent++;
    print_lanes(p, element, number);
    p->indent--;
    hr_print(p, "} else {");
    p->indent++;
    hr_print(p, "_Alignas(64) %s row_%d[HR_LANES] = {0};", hr_c_storage(tensor->dtype), number);
    hr_print(p, "for (int lane = there.from; lane < there.to; lane++)");
    hr_print(p, "    row_%d[lane] = (%s)[lane];", number, row_of(p, element));
    hr_print(p, "g%d = %s(row_%d);", number, load_of(p, element), number);
    p->indent--;
    hr_print(p, "}");
}

static void print_row(hr_printer *p, const hr_expr *element, int number) {
    const char *load = load_of(p, element), *row = row_of(p, element), *others = others_inside(p, element);
    if ((p->known & HR_KNOWN_INSIDE)) {
        hr_print(p, "g%d = %s(%s);", number, load, row);
        return;
    }
    hr_print(p, "if (row_inside(%s, i, HR_LANES, %s)%s%s) {", rest_of(p, element), size_of(p, element),
             others ? " && " : "", others ? others : "");
    hr_print(p, "    g%d = %s(%s);", number, load, row);
    hr_print(p, "} else {");
    p->indent++;
    print_row_part(p, element, number);
    p->indent--;
    hr_print(p, "}");
}

const char *hr_lane_gather(hr_printer *p, const hr_expr *element) {
    int number = ++p->number, rank = p->function->tensors[element->tensor].rank;
    const char *even = "";
    bool row = is_row(p, element);
    if (row && !(p->known & HR_KNOWN_INSIDE) && hr_element_is_guarded(p->function, element))
        hr_expr_lanes(p, element->args[rank]); /* its lines come before the block */
    hr_print(p, "%s g%d;", kind_of(element), number);
    if (row) {
        print_row(p, element, number);
    } else if (is_stretched(p, element)) {
        hr_print(p, "{");
        p->indent++;
        print_stretched(p, element, number);
        p->indent--;
        hr_print(p, "}");
    } else if (is_even(p, element, &even)) {
        print_even(p, element, even, number);
    } else {
        hr_print(p, "{");
        p->indent++;
        print_lanes(p, element, number);
        p->indent--;
        hr_print(p, "}");
    }
    return element->type == HR_BOOL ? hr_format(p, "vm_from_vi(g%d)", number) : hr_format(p, "g%d", number);
}

/* ---- where all of them are side by side ---- */

typedef struct bounding {
    hr_printer *p;
    bool any;
} bounding;

static hr_visit print_bounds(void *context, const hr_expr *node) {
    bounding *bounds = context;
    hr_printer *p = bounds->p;
    if (hr_expr_level(p, node) != HR_AT_LANE || p->buffer[node->id]) return HR_VISIT_PAST;
    if (node->op != HR_OP_ELEMENT || p->value[node->tensor] || hr_expr_is_row_form(p, node))
        return HR_VISIT_ON;
    if (!is_row(p, node)) return HR_VISIT_PAST;
    const char *others = others_inside(p, node);
    if (!bounds->any) hr_print(p, "int64_t inside_from = 0, inside_to = INT64_MAX;");
    bounds->any = true;
    hr_print(p, "lanes_inside(%s, %s, %s, &inside_from, &inside_to);", others ? others : "true",
             rest_of(p, node), size_of(p, node));
    return HR_VISIT_PAST;
}

bool hr_lane_gather_bounds(hr_printer *p, const hr_lane_pass *pass) {
    bounding bounds = {.p = p};
    hr_walk walk = {.enter = print_bounds, .context = &bounds};
    for (int i = 0; i < pass->step_count && p->vector; i++)
        hr_walk_through(&walk, pass->steps[i].value);
    hr_printer_walked(p, &walk);
    return bounds.any;
}
