/* Shapes of a step's operands, solved for the extents of the kernels that take them. See step_shapes.h. */
#include "model/step_shapes.h"

#include <string.h>

#define SHAPE_STEPS 32

hr_status hr_step_wrong(const hr_step_builder *builder, const char *name, const char *what) {
    return hr_fail(HR_BAD_INPUT, "%s:%d: `%s` %s", builder->model->text.path, builder->statement->line, name,
                   what);
}

hr_status hr_step_located(const hr_step_builder *builder, hr_status status) {
    return status == HR_OK
               ? HR_OK
               : hr_fail_context(status, "%s:%d", builder->model->text.path, builder->statement->line);
}

hr_status hr_step_evaluate(const hr_step_builder *builder, const char *text, hr_step_size *out) {
    return hr_step_located(builder, hr_extents_evaluate(&builder->model->extents, text, out));
}

hr_status hr_step_elements(const hr_step_builder *builder, const hr_sequence_array *array, int axis,
                           hr_step_size *out) {
    *out = (hr_step_size){1, 0};
    for (; axis < array->rank; axis++)
        HR_TRY(hr_step_located(builder, hr_step_product(*out, array->shape[axis], out)));
    return HR_OK;
}

bool hr_step_is_at_most(const hr_step_builder *builder, hr_step_size size, hr_step_size most) {
    const int64_t ends[] = {0, builder->step_most};
    for (int i = 0; i < 2; i++) {
        const int64_t value = hr_step_value(size, ends[i]);
        if (value < 0 || value > hr_step_value(most, ends[i])) return false;
    }
    return true;
}

hr_sequence_array hr_step_array(hr_dtype dtype, void *data) {
    return (hr_sequence_array){.size = sizeof(hr_sequence_array), .buffer = -1, .data = data, .dtype = dtype};
}

/* ---- shapes ---- */

hr_status hr_step_solving_begin(const hr_step_builder *builder, const hr_model_kernel *of,
                                hr_step_solving *out) {
    const hr_extents *known = &builder->model->extents;
    *out =
        (hr_step_solving){.builder = builder, .of = of, .extent_count = hr_kernel_extent_count(of->kernel)};
    if (out->extent_count > HR_STEP_EXTENTS_MOST)
        return hr_step_wrong(builder, of->name, "has more extents than a model's kernel");
    for (int i = 0; i < out->extent_count; i++) {
        out->extents[i].name = hr_kernel_extent_name(of->kernel, i);
        int found = of->of_family ? hr_extents_find(known, out->extents[i].name) : -1;
        if (found >= 0) out->extents[i] = known->items[found];
    }
    return HR_OK;
}

/* *a OP b. */
static hr_status step_apply(const hr_step_builder *builder, const hr_shape_step *step, hr_step_size *a,
                            hr_step_size b) {
    switch (step->op) {
    case HR_SHAPE_SUB:
        HR_TRY(hr_step_located(builder, hr_step_product(b, (hr_step_size){-1, 0}, &b)));
        return hr_step_located(builder, hr_step_sum(*a, b, a));
    case HR_SHAPE_MUL:
        return hr_step_located(builder, hr_step_product(*a, b, a));
    case HR_SHAPE_FLOORDIV:
        if (a->scaled || b.scaled)
            return hr_step_wrong(builder, builder->statement->name, "divides what grows");
        a->fixed = b.fixed > 0 ? a->fixed / b.fixed : 0;
        return HR_OK;
    default:
        return hr_step_located(builder, hr_step_sum(*a, b, a));
    }
}

/* An axis' size where its extents are known; where it is a single one that is not, that one's number. */
static hr_status axis_size(const hr_step_solving *solving, int argument, int axis, bool *known,
                           hr_step_size *size, int *unknown) {
    hr_shape_step steps[SHAPE_STEPS];
    hr_step_size stack[SHAPE_STEPS];
    int count, top = 0;
    HR_TRY(hr_argument_shape(solving->of->kernel, argument, axis, steps, SHAPE_STEPS, &count));
    *known = true;
    *unknown = -1;
    for (int i = 0; i < count; i++) {
        hr_step_size *a = &stack[top > 1 ? top - 2 : 0], b = stack[top > 0 ? top - 1 : 0];
        switch (steps[i].op) {
        case HR_SHAPE_NUMBER:
            stack[top++] = (hr_step_size){steps[i].value, 0};
            continue;
        case HR_SHAPE_EXTENT:
            stack[top++] = solving->extents[steps[i].value].value;
            *known &= solving->extents[steps[i].value].known;
            if (count == 1) *unknown = (int)steps[i].value;
            continue;
        default:
            HR_TRY(step_apply(solving->builder, &steps[i], a, b));
            top--;
        }
    }
    *size = stack[0];
    return HR_OK;
}

hr_status hr_step_solve(hr_step_solving *solving, int argument, int rank, const hr_operand *given) {
    hr_step_size others = {1, 0}, size, all;
    int missing = -1, missing_count = 0, unknown;
    bool known;
    for (int axis = 0; axis < rank; axis++) {
        HR_TRY(axis_size(solving, argument, axis, &known, &size, &unknown));
        if (known)
            HR_TRY(hr_step_located(solving->builder, hr_step_product(others, size, &others)));
        else if (unknown >= 0 && given->kind == HR_OPERAND_EXACT && axis < given->array.rank) {
            solving->extents[unknown].value = given->array.shape[axis];
            solving->extents[unknown].known = true;
        } else {
            missing_count++;
            missing = unknown;
        }
    }
    HR_TRY(hr_step_elements(solving->builder, &given->array, 0, &all));
    if (missing_count != 1 || missing < 0 || given->kind != HR_OPERAND_DENSE || others.scaled || all.scaled ||
        others.fixed <= 0)
        return HR_OK;
    solving->extents[missing].value = (hr_step_size){all.fixed / others.fixed, 0};
    solving->extents[missing].known = true;
    return HR_OK;
}

hr_status hr_step_shape(const hr_step_solving *solving, int argument, const hr_argument *declared,
                        hr_operand *given) {
    hr_sequence_array *array = &given->array;
    hr_step_size shape[HR_SEQUENCE_RANK], all = {1, 0}, has;
    int unknown;
    bool known, same = array->rank == declared->rank;
    if (declared->rank > HR_SEQUENCE_RANK)
        return hr_step_wrong(solving->builder, declared->name, "has too many axes");
    HR_TRY(hr_step_elements(solving->builder, array, 0, &has));
    for (int axis = 0; axis < declared->rank; axis++) {
        HR_TRY(axis_size(solving, argument, axis, &known, &shape[axis], &unknown));
        if (!known)
            return hr_step_wrong(solving->builder, declared->name, "has an axis whose length nothing says");
        HR_TRY(hr_step_located(solving->builder, hr_step_product(all, shape[axis], &all)));
        same = same && hr_step_equal(shape[axis], array->shape[axis]);
    }
    /* A weight's shape is what the family's text says of it: its kernels may cut its axes. */
    const bool cuts = solving->of->of_family && given->kind == HR_OPERAND_EXACT && hr_step_equal(all, has);
    bool fits = given->kind == HR_OPERAND_NEW || cuts ? true
                : given->kind == HR_OPERAND_EXACT     ? same
                : given->kind == HR_OPERAND_BEGIN     ? hr_step_is_at_most(solving->builder, all, has)
                                                      : hr_step_equal(all, has);
    if (!fits)
        return hr_fail(HR_BAD_INPUT,
                       "%s:%d: `%s` of kernel %s has another number of elements than what it is given",
                       solving->builder->model->text.path, solving->builder->statement->line, declared->name,
                       solving->of->name);
    array->rank = declared->rank;
    memcpy(array->shape, shape, sizeof shape);
    return HR_OK;
}
