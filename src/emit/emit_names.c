/* What tensors, extents, indices and sizes are called in C, and its types. In: what they are. Out: text. See
 * expression.h. */
#include "emit/expression.h"

#include <inttypes.h>
#include <string.h>

enum { NAME_SHOWN = 40 };

static const char *safe_name(hr_printer *p, const char *prefix, const char *name, int id, bool numbered) {
    if (numbered || strlen(name) > NAME_SHOWN) return hr_format(p, "%s%.*s_%d", prefix, NAME_SHOWN, name, id);
    return hr_format(p, "%s%s", prefix, name);
}

const char *hr_emit_tensor_name(hr_printer *p, int tensor) {
    int memory = p->plan->storage[tensor];
    bool declared = memory < hr_function_arguments(p->plan->source);
    if (!p->tensor[memory])
        p->tensor[memory] =
            safe_name(p, declared ? "t_" : "v_", p->function->tensors[memory].name, memory, !declared);
    return p->tensor[memory];
}

const char *hr_emit_tensor(hr_printer *p, int tensor) {
    return hr_use(p, hr_emit_tensor_name(p, tensor));
}

const char *hr_emit_strides(hr_printer *p, int tensor) {
    return hr_use(p, hr_format(p, "%s_strides", hr_emit_tensor_name(p, tensor)));
}

const char *hr_emit_fault(hr_printer *p) {
    return hr_use(p, "fault");
}

bool hr_emit_is_list(const hr_printer *p, int tensor) {
    return p->plan->storage[tensor] == tensor && hr_plan_layout(p->plan, tensor) == HR_LAYOUT_LIST;
}

const char *hr_emit_if_wanted(hr_printer *p, int tensor) {
    if (!hr_plan_result_is_optional(p->plan, tensor)) return "";
    return hr_format(p, "if (%s) ", hr_emit_tensor(p, tensor));
}

const char *hr_emit_extent_name(hr_printer *p, int extent) {
    return safe_name(p, "n_", p->function->extents[extent], extent, false);
}

const char *hr_emit_extent(hr_printer *p, int extent) {
    return hr_use(p, hr_emit_extent_name(p, extent));
}

/* Among so many indices. */
static bool is_namesake(const hr_printer *p, int index, const int *others, int count) {
    const hr_index *indices = p->function->indices;
    for (int i = 0; i < count; i++)
        if (others[i] != index && strcmp(indices[others[i]].name, indices[index].name) == 0) return true;
    return false;
}

/* Another index of the stage has its name. */
static bool has_namesake(const hr_printer *p, int index) {
    const hr_stage *stage = p->stage;
    for (int i = 0; i < stage->dots_count; i++)
        if (is_namesake(p, index, stage->dots[i].words, stage->dots[i].word_count)) return true;
    return is_namesake(p, index, stage->task, stage->task_count) ||
           is_namesake(p, index, stage->row, stage->row_count);
}

const char *hr_emit_index(hr_printer *p, int index) {
    if (index == p->lane) return "i";
    if (p->next_task && index == p->stage->task[0]) return "next";
    return safe_name(p, "i_", p->function->indices[index].name, index, p->stage && has_namesake(p, index));
}

const char *hr_emit_size(hr_printer *p, const hr_expr *e) {
    static const char *const symbols[] = {[HR_OP_ADD] = "+", [HR_OP_SUB] = "-", [HR_OP_MUL] = "*"};
    if (e->op == HR_OP_NUMBER) return hr_format(p, "%" PRId64, e->whole);
    if (e->op == HR_OP_EXTENT) return hr_emit_extent(p, e->extent);
    if (e->op == HR_OP_NEG) return hr_format(p, "(-%s)", hr_emit_size(p, e->args[0]));
    const char *a = hr_emit_size(p, e->args[0]), *b = hr_emit_size(p, e->args[1]);
    if (e->op == HR_OP_FLOORDIV) return hr_format(p, "i64_floordiv(%s, %s)", a, b);
    return hr_format(p, "(%s %s %s)", a, symbols[e->op], b);
}

static const char *extent_text(void *printer, const hr_expr *extent) {
    return hr_emit_size(printer, extent);
}

const char *hr_size_text(hr_printer *p, const hr_size *size) {
    hr_text text = {0};
    hr_size_append(size, &(hr_size_names){extent_text, p}, &text);
    const char *kept = hr_format(p, "%s", hr_text_data(&text));
    if (text.failed) p->out->failed = true;
    hr_text_clear(&text);
    return kept;
}

const char *hr_emit_index_size(hr_printer *p, int index) {
    return hr_emit_size(p, p->function->indices[index].extent);
}

const char *hr_emit_lane_count(hr_printer *p) {
    return p->flat ? p->flat : hr_emit_index_size(p, p->lane);
}

const char *hr_emit_points(hr_printer *p, const int *indices, int count) {
    hr_sizes sizes = {0};
    return hr_size_text(p, hr_size_points(&sizes, p->function, indices, count));
}

void hr_emit_indices(hr_printer *p, const char *declared, const int *indices, int count) {
    for (int i = count - 1; i >= 0; i--) {
        const char *index = hr_emit_index(p, indices[i]), *size = i ? hr_emit_index_size(p, indices[i]) : "";
        hr_print(p, i ? "%s%s = rest %% %s;" : "%s%s = rest;", declared, index, size);
        if (i) hr_print(p, "rest /= %s;", size);
    }
}

const char *hr_emit_outer(hr_printer *p) {
    const char *flat = NULL;
    for (int i = 0; i < p->outer_count; i++) {
        const char *index = hr_emit_index(p, p->outer[i]);
        flat = flat ? hr_format(p, "(%s) * %s + %s", flat, hr_emit_index_size(p, p->outer[i]), index) : index;
    }
    return flat;
}

const char *hr_c_storage(hr_dtype dtype) {
    static const char *const names[] = {"double",  "float",   "uint16_t", "uint16_t", "uint8_t", "uint8_t",
                                        "int64_t", "int32_t", "int16_t",  "int8_t",   "uint8_t", "uint8_t"};
    return names[dtype];
}

const char *hr_c_compute(hr_dtype type) {
    switch (type) {
    case HR_F64:
        return "double";
    case HR_F32:
        return "float";
    case HR_I64:
        return "int64_t";
    case HR_I32:
        return "int32_t";
    default:
        return "bool";
    }
}

const char *hr_type_prefix(hr_dtype type) {
    switch (type) {
    case HR_F64:
        return "f64";
    case HR_F32:
        return "f32";
    case HR_I64:
        return "i64";
    case HR_I32:
        return "i32";
    default:
        return "b";
    }
}

const char *hr_lane_prefix(hr_dtype type) {
    return type == HR_BOOL ? "vm" : type == HR_F32 ? "vf" : "vi";
}
