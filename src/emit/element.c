/* How an element is addressed and loaded. In: a node. Out: lines and operands. See expression.h. */
#include "emit/element.h"

#include "base/dtype.h"
#include "emit/c/lane_gather.h"
#include "ir/index_plus.h"

#include <ctype.h>
#include <string.h>

/* ---- addresses ---- */

static bool is_strided(const hr_printer *p, int tensor) {
    return hr_layout_has_strides(hr_plan_layout(p->plan, tensor));
}

/* `text` as the left operand of a product. */
static const char *factor(hr_printer *p, const char *text) {
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_') return hr_format(p, "(%s)", text);
    return text;
}

const char *hr_emit_axis_offset(hr_printer *p, int tensor, int axis, const char *at) {
    const char *strides = hr_emit_strides(p, tensor);
    if (axis == 0 && hr_plan_layout(p->plan, tensor) == HR_LAYOUT_MEMBERS)
        return hr_format(p, "((const int64_t *)%s[0])[%s]", strides, at);
    return hr_format(p, "%s * %s[%d]", at, strides, axis);
}

const char *hr_emit_offset(hr_printer *p, int tensor, hr_expr *const *subscripts, int axes) {
    const hr_tensor *shape = &p->function->tensors[tensor];
    const char *sum = NULL;
    if (is_strided(p, tensor)) {
        for (int a = 0; a < axes; a++) {
            const char *text = hr_emit_axis_offset(p, tensor, a, hr_expr_text(p, subscripts[a]));
            sum = hr_format(p, "%s%s%s", sum ? sum : "", sum ? " + " : "", text);
        }
        return sum ? sum : "0";
    }
    for (int a = 0; a < axes; a++) { /* Horner: ((i * J + j) * K + k */
        const char *text = hr_expr_text(p, subscripts[a]);
        sum =
            sum ? hr_format(p, "%s * %s + %s", factor(p, sum), hr_emit_size(p, shape->shape[a]), text) : text;
    }
    if (!sum) return "0";
    for (int a = axes; a < shape->rank; a++)
        sum = hr_format(p, "%s * %s", factor(p, sum), hr_emit_size(p, shape->shape[a]));
    return sum;
}

static bool is_at_lane(const void *printer, const hr_expr *node) {
    return hr_expr_at_lane((hr_printer *)printer, node); /* which remembers what it finds */
}

bool hr_expr_is_lane_plus(hr_printer *p, const hr_expr *e) {
    return hr_is_index_plus(e, p->lane, is_at_lane, p);
}

const char *hr_emit_lane_rest(hr_printer *p, const hr_expr *e) {
    if (e->op == HR_OP_INDEX) return "0";
    bool first = hr_expr_at_lane(p, e->args[0]);
    const char *rest = hr_emit_lane_rest(p, e->args[first ? 0 : 1]),
               *other = hr_expr_text(p, e->args[first ? 1 : 0]);
    if (strcmp(rest, "0") == 0 && e->op == HR_OP_ADD) return other;
    return hr_format(p, "(%s %c %s)", rest, e->op == HR_OP_ADD ? '+' : '-', other);
}

bool hr_expr_is_row_form(hr_printer *p, const hr_expr *element) {
    const hr_tensor *tensor = &p->function->tensors[element->tensor];
    int rank = tensor->rank;
    if (rank == 0 || is_strided(p, element->tensor) || !hr_expr_is_lane_plus(p, element->args[rank - 1]))
        return false;
    if (!hr_expr_is_affine(element->args[rank - 1])) return false; /* each element is checked */
    for (int a = 0; a < element->arg_count; a++)
        if (a != rank - 1 && hr_expr_at_lane(p, element->args[a])) return false;
    return !hr_element_is_guarded(p->function, element) ||
           hr_subscript_is_safe(p->function, element->args[rank - 1], tensor->shape[rank - 1]);
}

hr_emit_level hr_element_pointer_level(hr_printer *p, const hr_expr *element) {
    hr_emit_level level = HR_AT_TASK;
    int last = p->function->tensors[element->tensor].rank - 1;
    for (int a = 0; a < element->arg_count; a++) {
        const hr_expr *part = element->args[a];
        while (a == last && part->op != HR_OP_INDEX && hr_expr_at_lane(p, part)) { /* lane + part */
            const hr_expr *other = part->args[hr_expr_at_lane(p, part->args[0]) ? 1 : 0];
            if (hr_expr_level(p, other) > level) level = hr_expr_level(p, other);
            part = part->args[hr_expr_at_lane(p, part->args[0]) ? 0 : 1];
        }
        if (a != last && hr_expr_level(p, part) > level) level = hr_expr_level(p, part);
    }
    return level;
}

/* Prints the comparison of the subscripts that could leave their axes; gives the flag's name. */
static const char *print_valid(hr_printer *p, const hr_expr *element, bool skip_lane_axis) {
    const hr_tensor *tensor = &p->function->tensors[element->tensor];
    bool guarded = hr_element_is_guarded(p->function, element);
    const char *condition = guarded ? hr_expr_text(p, element->args[tensor->rank]) : NULL;
    for (int a = 0; a < tensor->rank; a++) {
        const hr_expr *subscript = element->args[a];
        bool affine = !guarded && hr_expr_is_affine(subscript);
        if (affine || hr_subscript_is_safe(p->function, subscript, tensor->shape[a])) continue;
        if (skip_lane_axis && a == tensor->rank - 1) continue;
        condition =
            hr_format(p, "%s%sin_range(%s, %s, %d, %s)", condition ? condition : "", condition ? " && " : "",
                      hr_expr_text(p, subscript), hr_emit_size(p, tensor->shape[a]),
                      element->id * HR_AXES_MAX + a + 1, hr_emit_fault(p));
    }
    const char *name = hr_format(p, "ok%d", ++p->number);
    hr_print(p, "const bool %s = %s;", name, condition ? condition : "true");
    p->checks = true;
    return name;
}

const char *hr_expr_print_valid(hr_printer *p, const hr_expr *element) {
    return print_valid(p, element, false);
}

void hr_expr_print_pointer(hr_printer *p, const hr_expr *element) {
    const hr_tensor *tensor = &p->function->tensors[element->tensor];
    bool checked = hr_element_is_checked(p->function, element);
    if (p->pointer[element->id]) return;
    if (checked) p->valid[element->id] = print_valid(p, element, true);
    const char *offset =
        tensor->rank > 1 ? hr_emit_offset(p, element->tensor, element->args, tensor->rank - 1) : "0";
    const char *rest = hr_emit_lane_rest(p, element->args[tensor->rank - 1]);
    if (strcmp(rest, "0") != 0) offset = strcmp(offset, "0") ? hr_format(p, "%s + %s", offset, rest) : rest;
    if (checked) offset = hr_format(p, "(%s ? %s : 0)", p->valid[element->id], offset);
    if (strcmp(offset, "0") == 0) {
        p->pointer[element->id] = hr_emit_tensor_name(p, element->tensor);
        return;
    }
    const char *base = hr_emit_tensor(p, element->tensor);
    p->pointer[element->id] = hr_format(p, "p%d", ++p->number);
    hr_print(p, "const %s *const p%d = %s + %s;", hr_c_storage(tensor->dtype), p->number, base, offset);
}

const char *hr_expr_pointer(hr_printer *p, const hr_expr *element) {
    return hr_use(p, p->pointer[element->id]);
}

/* ---- loads ---- */

static const char *load_scalar(hr_printer *p, hr_dtype dtype, const char *place) {
    if (dtype == HR_BOOL) return hr_format(p, "(%s != 0)", place);
    return hr_compute_type(dtype) != dtype
               ? hr_format(p, "%s_from_%s(%s)", hr_type_prefix(hr_compute_type(dtype)), hr_dtype_name(dtype),
                           place)
               : place;
}

static const char *load_lanes(hr_printer *p, const hr_expr *element) {
    hr_dtype dtype = p->function->tensors[element->tensor].dtype;
    const char *kind = element->type == HR_F32 ? "vf" : "vi", *pointer = hr_expr_pointer(p, element);
    const char *text =
        p->body == HR_BODY_PART
            ? hr_format(p, "%s_load_part_%s(%s + i, lanes)", kind, hr_dtype_name(dtype), pointer)
        : p->order == HR_ORDER_EVEN_ODD
            ? hr_format(p, "%s_load_even_odd_%s(%s + i, %s)", kind, hr_dtype_name(dtype), pointer, p->way)
        : p->order == HR_ORDER_PAIRS && dtype == HR_BF16
            ? hr_format(p, "vf_load_pair_bf16(%s + i, %s)", pointer, p->way)
            : hr_format(p, "%s_load_%s(%s + i)", kind, hr_dtype_name(dtype), pointer);
    const char *valid = p->valid[element->id];
    if (valid) text = hr_format(p, "(%s ? %s : %s_of(0))", valid, text, kind);
    return element->type == HR_BOOL ? hr_format(p, "vm_from_vi(%s)", text) : text;
}

static bool is_overwritten(const hr_printer *p, int tensor) {
    for (int i = 0; i < p->stage->step_count; i++) {
        int made = p->function->statements[p->stage->steps[i].statement].tensor;
        if (made != p->plan->storage[made] && p->plan->storage[made] == p->plan->storage[tensor]) return true;
    }
    return false;
}

bool hr_expr_is_cleaned(hr_printer *p, const hr_expr *element) {
    return (p->forms & HR_FORM_CLEAN) && p->function->tensors[element->tensor].dtype == HR_F32 &&
           !hr_expr_at_lane(p, element);
}

const char *hr_element_text(hr_printer *p, const hr_expr *element) {
    const hr_tensor *tensor = &p->function->tensors[element->tensor];
    if (p->value[element->tensor]) return hr_emit_value(p, element->tensor);
    if (hr_tensor_is_scalar(tensor)) return hr_emit_tensor(p, element->tensor);
    if (hr_expr_at_lane(p, element) && hr_expr_is_row_form(p, element)) {
        hr_expr_print_pointer(
            p, element); /* its line is there already unless the pointer itself is of lane level */
        if (p->vector) return load_lanes(p, element);
        const char *text = load_scalar(p, tensor->dtype, hr_format(p, "%s[i]", hr_expr_pointer(p, element)));
        return p->valid[element->id] ? hr_format(p, "(%s ? %s : 0)", p->valid[element->id], text) : text;
    }
    if (hr_expr_is_vector(p, element)) return hr_lane_gather(p, element);
    const char *valid = hr_element_is_checked(p->function, element) ? print_valid(p, element, false) : NULL;
    const char *place = hr_format(p, "%s[%s]", hr_emit_tensor(p, element->tensor),
                                  hr_emit_offset(p, element->tensor, element->args, tensor->rank));
    const char *text = load_scalar(p, tensor->dtype, place);
    if (hr_expr_is_cleaned(p, element)) text = hr_format(p, "f32_short_nan(%s)", text);
    if (p->live && is_overwritten(p, element->tensor))
        valid = valid ? hr_format(p, "%s && %s", p->live, valid) : p->live;
    return valid ? hr_format(p, "(%s ? %s : 0)", valid, text) : text;
}

const char *hr_emit_scatter_condition(hr_printer *p, const hr_step *step, int axes) {
    const hr_statement *statement = &p->function->statements[step->statement];
    const hr_tensor *tensor = &p->function->tensors[statement->tensor];
    const char *condition = NULL;
    for (int a = 0; a < axes; a++) {
        const hr_expr *subscript = statement->subscripts[a];
        const bool leaves_out = hr_subscript_leaves_out(subscript);
        if (!leaves_out &&
            (hr_subscript_is_safe(p->function, subscript, tensor->shape[a]) || hr_expr_is_affine(subscript)))
            continue;
        condition = hr_format(p, "%s%s%s(%s, %s, %d, %s)", condition ? condition : "",
                              condition ? " && " : "", leaves_out ? "is_place" : "in_range",
                              hr_expr_text(p, subscript), hr_emit_size(p, tensor->shape[a]),
                              step->target->id * HR_AXES_MAX + a + 1, hr_emit_fault(p));
    }
    return condition;
}
