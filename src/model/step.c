/* A step of a model as a sequence: the calls of its text, bound to weights, caches and buffers.
 *
 * In: how many tokens there are, and how many of them give logits. Out: the calls. What a call names is given
 * to the kernel in the shape that its parameter declares: extents of the family's kernels are the model's by
 * name, those of models/weights.hr follow from what is given. A weight in blocks is given as arrays over
 * their bytes, to the kernel that bears the format's name: linear_q4_1. Where there is none, or many rows
 * share the work, the weight is written out as numbers first.
 */
#include "model/model.h"

#include "base/dtype.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define FEW_ROWS       8 /* up to which a product reads the blocks themselves */
#define EXTENTS_MOST   16
#define NAMES_MOST     64
#define ARGUMENTS_MOST 32
#define SHAPE_STEPS    32

typedef enum operand_kind {
    EXACT, /* as it lies */
    DENSE, /* its elements, in any shape */
    BEGIN, /* the same, or only the first of them */
    NEW    /* a result that has no memory yet: any shape */
} operand_kind;

typedef struct operand {
    operand_kind kind;
    hr_sequence_array array;
} operand;

/* What a name stands for at present. */
typedef struct named_buffer {
    const char *name;
    operand operand;
} named_buffer;

typedef struct builder {
    struct hr_model *model;
    hr_sequence *sequence;
    int64_t answers, past_most; /* past_most: tokens before the step's, at most */
    const hr_model_statement *statement;
    named_buffer names[NAMES_MOST];
    int name_count;
    hr_sequence_array quantised; /* what the buffers of quantised_names hold in 8 bits; buffer -1 = nothing */
} builder;

static hr_status wrong(const builder *builder, const char *name, const char *what) {
    return hr_fail(HR_BAD_INPUT, "%s:%d: `%s` %s", builder->model->text.path, builder->statement->line, name,
                   what);
}

/* The status, saying where in the text. */
static hr_status located(const builder *builder, hr_status status) {
    return status == HR_OK
               ? HR_OK
               : hr_fail_context(status, "%s:%d", builder->model->text.path, builder->statement->line);
}

static hr_status evaluate(const builder *builder, const char *text, hr_step_size *out) {
    return located(builder, hr_extents_evaluate(&builder->model->extents, text, out));
}

/* The elements along this axis and those behind it. */
static hr_status elements_from(const builder *builder, const hr_sequence_array *array, int axis,
                               hr_step_size *out) {
    *out = (hr_step_size){1, 0};
    for (; axis < array->rank; axis++)
        HR_TRY(located(builder, hr_step_product(*out, array->shape[axis], out)));
    return HR_OK;
}

/* Whether `size` is one and at most `most` at every step: both grow evenly, so the ends tell. */
static bool is_at_most(const builder *builder, hr_step_size size, hr_step_size most) {
    const int64_t ends[] = {0, builder->past_most};
    for (int i = 0; i < 2; i++) {
        const int64_t value = hr_step_value(size, ends[i]);
        if (value < 0 || value > hr_step_value(most, ends[i])) return false;
    }
    return true;
}

static hr_sequence_array array_of(hr_dtype dtype, void *data) {
    return (hr_sequence_array){.size = sizeof(hr_sequence_array), .buffer = -1, .data = data, .dtype = dtype};
}

/* ---- what a call is given ---- */

/* Leading subscripts take a place; the last one may say where the array begins. */
static hr_status subscripts_apply(const builder *builder, const hr_operand_text *text, int first,
                                  operand *of) {
    for (int i = first; i < text->subscript_count; i++) {
        hr_sequence_array *array = &of->array;
        hr_step_size at, end, skipped;
        bool from = text->from && i == text->subscript_count - 1;
        if (array->rank == 0) return wrong(builder, text->name, "has fewer axes than subscripts");
        HR_TRY(evaluate(builder, text->subscripts[i], &at));
        HR_TRY(located(builder, hr_step_sum(at, (hr_step_size){!from, 0}, &end)));
        if (!is_at_most(builder, at, end) || !is_at_most(builder, end, array->shape[0]))
            return wrong(builder, text->name, "is shorter than the place that is named");
        HR_TRY(elements_from(builder, array, 1, &skipped));
        HR_TRY(located(builder, hr_step_product(at, skipped, &skipped)));
        HR_TRY(located(builder, hr_step_sum(array->offset, skipped, &array->offset)));
        if (from) {
            array->shape[0].fixed -= at.fixed;
            array->shape[0].scaled -= at.scaled;
            continue;
        }
        memmove(array->shape, array->shape + 1, (size_t)(--array->rank) * sizeof *array->shape);
    }
    return HR_OK;
}

/* Which layer the first subscript means, of `layers`. */
static hr_status layer_find(const builder *builder, const hr_operand_text *text, int64_t layers,
                            int64_t *out) {
    hr_step_size at;
    if (text->subscript_count < 1) return wrong(builder, text->name, "has layers; say which one: NAME[l]");
    HR_TRY(evaluate(builder, text->subscripts[0], &at));
    if (at.scaled || at.fixed < 0 || at.fixed >= layers)
        return wrong(builder, text->name, "has no such layer");
    *out = at.fixed;
    return HR_OK;
}

static hr_status cache_take(const builder *builder, const hr_operand_text *text, const hr_model_cache *cache,
                            operand *out) {
    int64_t layer = 0, elements = 1;
    if (cache->layers > 0) HR_TRY(layer_find(builder, text, cache->layers, &layer));
    out->kind = BEGIN;
    out->array = array_of(HR_F32, cache->data);
    out->array.rank = cache->rank;
    for (int axis = 0; axis < cache->rank; axis++) {
        out->array.shape[axis] = (hr_step_size){cache->shape[axis], 0};
        elements *= cache->shape[axis];
    }
    out->array.offset.fixed = layer * elements;
    return subscripts_apply(builder, text, cache->layers > 0, out);
}

static const hr_model_cache *cache_named(const struct hr_model *model, const char *name) {
    for (int i = 0; i < model->text.cache_count; i++)
        if (strcmp(model->caches[i].name, name) == 0) return &model->caches[i];
    return NULL;
}

static named_buffer *buffer_named(builder *builder, const char *name) {
    for (int i = 0; i < builder->name_count; i++)
        if (strcmp(builder->names[i].name, name) == 0) return &builder->names[i];
    return NULL;
}

/* A weight in *weight, anything else in *out. */
static hr_status operand_take(builder *builder, const hr_operand_text *text, operand *out,
                              const hr_weight **weight) {
    struct hr_model *model = builder->model;
    const named_buffer *buffer = buffer_named(builder, text->name);
    *weight = NULL;
    if (buffer) {
        *out = buffer->operand;
        return subscripts_apply(builder, text, 0, out);
    }
    for (int i = 0; i < model->text.weight_count; i++) {
        const hr_model_weight *of = &model->weights[i];
        int64_t layer = 0;
        if (strcmp(of->name, text->name) != 0) continue;
        if (model->text.weights[i].layers) HR_TRY(layer_find(builder, text, of->layers, &layer));
        *weight = of->layer[layer];
        return HR_OK;
    }
    for (int i = 0; i < model->text.number_count; i++)
        if (model->numbers[i].name && strcmp(model->numbers[i].name, text->name) == 0) {
            *out = (operand){EXACT, array_of(HR_F64, &model->numbers[i].value)};
            return HR_OK;
        }
    const hr_model_cache *cache = cache_named(model, text->name);
    if (cache) return cache_take(builder, text, cache, out);
    return wrong(builder, text->name, "is no weight, cache, number or result of a call before");
}

static void view_operand(const hr_weight *weight, int number, operand *out) {
    hr_weight_view view;
    hr_weight_view_make(weight, number, &view);
    out->kind = EXACT;
    out->array = array_of(view.array.dtype, view.array.data);
    out->array.rank = view.array.rank;
    for (int axis = 0; axis < view.array.rank; axis++)
        out->array.shape[axis] = (hr_step_size){view.shape[axis], 0};
}

/* ---- shapes ---- */

typedef struct solving {
    const builder *builder;
    const hr_model_kernel *of;
    hr_named_extent extents[EXTENTS_MOST];
    int extent_count;
} solving;

static hr_status solving_begin(const builder *builder, const hr_model_kernel *of, solving *out) {
    const hr_extents *known = &builder->model->extents;
    *out = (solving){.builder = builder, .of = of, .extent_count = hr_kernel_extent_count(of->kernel)};
    if (out->extent_count > EXTENTS_MOST)
        return wrong(builder, of->name, "has more extents than a model's kernel");
    for (int i = 0; i < out->extent_count; i++) {
        out->extents[i].name = hr_kernel_extent_name(of->kernel, i);
        int found = of->of_family ? hr_extents_find(known, out->extents[i].name) : -1;
        if (found >= 0) out->extents[i] = known->items[found];
    }
    return HR_OK;
}

/* *a OP b. */
static hr_status step_apply(const builder *builder, const hr_shape_step *step, hr_step_size *a,
                            hr_step_size b) {
    switch (step->op) {
    case HR_SHAPE_SUB:
        HR_TRY(located(builder, hr_step_product(b, (hr_step_size){-1, 0}, &b)));
        return located(builder, hr_step_sum(*a, b, a));
    case HR_SHAPE_MUL:
        return located(builder, hr_step_product(*a, b, a));
    case HR_SHAPE_FLOORDIV:
        if (a->scaled || b.scaled) return wrong(builder, builder->statement->name, "divides what grows");
        a->fixed = b.fixed > 0 ? a->fixed / b.fixed : 0;
        return HR_OK;
    default:
        return located(builder, hr_step_sum(*a, b, a));
    }
}

/* An axis' size where its extents are known; where it is a single one that is not, that one's number. */
static hr_status axis_size(const solving *solving, int argument, int axis, bool *known, hr_step_size *size,
                           int *unknown) {
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

/* What an operand says of the kernel's extents: axis by axis, or by its elements where one extent is missing.
 */
static hr_status operand_solve(solving *solving, int argument, int rank, const operand *given) {
    hr_step_size others = {1, 0}, size, all;
    int missing = -1, missing_count = 0, unknown;
    bool known;
    for (int axis = 0; axis < rank; axis++) {
        HR_TRY(axis_size(solving, argument, axis, &known, &size, &unknown));
        if (known)
            HR_TRY(located(solving->builder, hr_step_product(others, size, &others)));
        else if (unknown >= 0 && given->kind == EXACT && axis < given->array.rank) {
            solving->extents[unknown].value = given->array.shape[axis];
            solving->extents[unknown].known = true;
        } else {
            missing_count++;
            missing = unknown;
        }
    }
    HR_TRY(elements_from(solving->builder, &given->array, 0, &all));
    if (missing_count != 1 || missing < 0 || given->kind != DENSE || others.scaled || all.scaled ||
        others.fixed <= 0)
        return HR_OK;
    solving->extents[missing].value = (hr_step_size){all.fixed / others.fixed, 0};
    solving->extents[missing].known = true;
    return HR_OK;
}

/* The operand in the shape that the argument declares. */
static hr_status operand_shape(const solving *solving, int argument, const hr_argument *declared,
                               operand *given) {
    hr_sequence_array *array = &given->array;
    hr_step_size shape[HR_SEQUENCE_RANK], all = {1, 0}, has;
    int unknown;
    bool known, same = array->rank == declared->rank;
    if (declared->rank > HR_SEQUENCE_RANK)
        return wrong(solving->builder, declared->name, "has too many axes");
    HR_TRY(elements_from(solving->builder, array, 0, &has));
    for (int axis = 0; axis < declared->rank; axis++) {
        HR_TRY(axis_size(solving, argument, axis, &known, &shape[axis], &unknown));
        if (!known) return wrong(solving->builder, declared->name, "has an axis whose length nothing says");
        HR_TRY(located(solving->builder, hr_step_product(all, shape[axis], &all)));
        same = same && hr_step_equal(shape[axis], array->shape[axis]);
    }
    bool fits = given->kind == NEW     ? true
                : given->kind == EXACT ? same
                : given->kind == BEGIN ? is_at_most(solving->builder, all, has)
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

/* ---- calls ---- */

/* A buffer for a result, which takes the name from what had it before. */
static hr_status result_make(builder *builder, const char *name, hr_dtype dtype, operand *out) {
    const int64_t logits = builder->answers * builder->model->vocabulary;
    hr_step_size elements;
    size_t bytes;
    HR_TRY(elements_from(builder, &out->array, 0, &elements));
    if (elements.scaled) return wrong(builder, name, "would grow from step to step; only caches do");
    if (elements.fixed < 0 || __builtin_mul_overflow((size_t)elements.fixed, hr_dtype_size(dtype), &bytes))
        return wrong(builder, name, "is larger than any memory");
    out->kind = DENSE;
    if (strcmp(name, "logits") != 0)
        HR_TRY(hr_sequence_buffer(builder->sequence, name, bytes, &out->array.buffer));
    else if (elements.fixed == logits && dtype == HR_F32)
        out->array.data = builder->model->logits;
    else
        return wrong(builder, name, "are not A rows of V numbers in f32");
    named_buffer *named = buffer_named(builder, name);
    if (!named) {
        if (builder->name_count == NAMES_MOST)
            return wrong(builder, name, "is one name more than a step may have");
        named = &builder->names[builder->name_count++];
        named->name = name;
    }
    named->operand = *out;
    return HR_OK;
}

/* Where a result goes: into a cache, nowhere, or into a buffer of its own. */
static hr_status result_place(builder *builder, const solving *solving, int argument,
                              const hr_argument *declared, const hr_operand_text *target, operand *out) {
    const hr_model_cache *cache = cache_named(builder->model, target->name);
    if (cache) {
        HR_TRY(cache_take(builder, target, cache, out));
        return operand_shape(solving, argument, declared, out);
    }
    *out = (operand){NEW, array_of(declared->dtype, NULL)};
    HR_TRY(operand_shape(solving, argument, declared, out));
    return strcmp(target->name, "_") == 0 ? HR_OK : result_make(builder, target->name, declared->dtype, out);
}

static hr_status call_add(builder *builder, const hr_model_kernel *of, operand *given, int given_count,
                          const hr_operand_text *targets, int target_count) {
    hr_sequence_array arrays[ARGUMENTS_MOST];
    int count = hr_kernel_argument_count(of->kernel);
    hr_argument argument;
    solving solving;
    if (count > ARGUMENTS_MOST || given_count + target_count != count)
        return hr_fail(HR_BAD_INPUT, "%s:%d: kernel %s has %d parameters and results; %d and %d are given",
                       builder->model->text.path, builder->statement->line, of->name, count, given_count,
                       target_count);
    HR_TRY(solving_begin(builder, of, &solving));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < given_count; i++) {
            HR_TRY(hr_kernel_argument(of->kernel, i, &argument));
            HR_TRY(operand_solve(&solving, i, argument.rank, &given[i]));
        }
    for (int i = 0; i < count; i++) {
        operand result;
        HR_TRY(hr_kernel_argument(of->kernel, i, &argument));
        if (i < given_count)
            HR_TRY(operand_shape(&solving, i, &argument, &given[i]));
        else
            HR_TRY(result_place(builder, &solving, i, &argument, &targets[i - given_count], &result));
        arrays[i] = i < given_count ? given[i].array : result.array;
    }
    return hr_sequence_call(builder->sequence, of->kernel, arrays, count);
}

/* The rows of a weight as numbers: rows_FORMAT over all of them. */
static hr_status weight_write_out(builder *builder, const hr_weight *weight, operand *out) {
    static const hr_operand_text target = {.name = "numbers"};
    const hr_model_kernel *of;
    operand given[1 + HR_BLOCK_VIEWS_MOST] = {{DENSE, array_of(HR_I32, builder->model->rows)}};
    HR_TRY(hr_model_kernel_of(builder->model, "rows", weight->format->name, &of));
    if (!of || weight->rank != 2)
        return wrong(builder, weight->name, "is stored in a way that no kernel reads");
    given[0].array.rank = 1;
    given[0].array.shape[0] = (hr_step_size){weight->shape[0], 0};
    for (int i = 0; i < weight->format->view_count; i++)
        view_operand(weight, i, &given[1 + i]);
    HR_TRY(call_add(builder, of, given, 1 + weight->format->view_count, &target, 1));
    *out = buffer_named(builder, target.name)->operand;
    out->kind = EXACT;
    out->array.rank = 2;
    out->array.shape[0] = (hr_step_size){weight->shape[0], 0};
    out->array.shape[1] = (hr_step_size){weight->shape[1], 0};
    return HR_OK;
}

/* No name of a text has spaces. */
static const hr_operand_text quantised_names[] = {{.name = "quantised"},
                                                  {.name = "quantised low"},
                                                  {.name = "quantised scales"},
                                                  {.name = "quantised sums"}};
enum { QUANTISED = sizeof quantised_names / sizeof *quantised_names };

/* The operand in 8 bits: of one that several weights share, once. */
static hr_status quantise(builder *builder, const operand *given, operand *out) {
    const hr_sequence_array *array = &given->array, *known = &builder->quantised;
    const hr_model_kernel *of;
    const bool again = array->buffer >= 0 && array->buffer == known->buffer &&
                       hr_step_equal(array->offset, known->offset) &&
                       hr_step_equal(array->shape[0], known->shape[0]);
    if (!again) {
        operand copy = {DENSE, *array};
        HR_TRY(hr_model_kernel_find(builder->model, "quantise", &of));
        HR_TRY(call_add(builder, of, &copy, 1, quantised_names, QUANTISED));
        builder->quantised = *array;
    }
    for (int i = 0; i < QUANTISED; i++)
        out[i] = buffer_named(builder, quantised_names[i].name)->operand;
    return HR_OK;
}

/* A weight times an operand by whole-number dots, where the weight can be packed for these. */
static hr_status packed_call(builder *builder, const hr_weight *weight, const operand *with, bool *done) {
    const hr_model_statement *statement = builder->statement;
    const hr_model_kernel *of;
    const hr_packed_weight *packed;
    operand given[HR_PACKED_MOST + QUANTISED];
    char name[64];
    *done = false;
    snprintf(name, sizeof name, "%s_packed", statement->name);
    HR_TRY(hr_model_kernel_of(builder->model, name, weight->format->name, &of));
    if (!of) return HR_OK;
    HR_TRY(hr_model_weight_pack(builder->model, weight, &packed));
    if (!packed) return HR_OK;
    for (int i = 0; i < packed->count; i++)
        given[i] = (operand){EXACT, packed->arrays[i]};
    HR_TRY(quantise(builder, with, given + packed->count));
    *done = true;
    return call_add(builder, of, given, packed->count + QUANTISED, statement->targets,
                    statement->target_count);
}

typedef struct call_operands {
    const hr_weight *weight; /* the one in blocks, NULL = there is none */
    int weight_at, count;
    operand items[HR_OPERANDS_MOST + HR_BLOCK_VIEWS_MOST];
    int64_t elements; /* of the first one that is neither weight nor number */
} call_operands;

static hr_status operands_take(builder *builder, call_operands *out) {
    const hr_model_statement *statement = builder->statement;
    *out = (call_operands){.count = statement->operand_count};
    for (int i = 0; i < statement->operand_count; i++) {
        const hr_weight *weight;
        HR_TRY(operand_take(builder, &statement->operands[i], &out->items[i], &weight));
        if (weight && weight->format->values == 1)
            view_operand(weight, 0, &out->items[i]);
        else if (weight && out->weight)
            return wrong(builder, statement->operands[i].name,
                         "is a second weight in blocks, and a call takes one");
        else if (weight) {
            out->weight = weight;
            out->weight_at = i;
        } else if (out->items[i].array.rank > 0 && out->elements == 0) {
            hr_step_size elements;
            HR_TRY(elements_from(builder, &out->items[i].array, 0, &elements));
            out->elements = elements.fixed;
        }
    }
    return HR_OK;
}

/* The blocks as arrays in the place of the weight. */
static void views_insert(call_operands *operands) {
    const hr_weight *weight = operands->weight;
    int more = weight->format->view_count - 1, at = operands->weight_at;
    memmove(&operands->items[at + 1 + more], &operands->items[at + 1],
            (size_t)(operands->count - at - 1) * sizeof *operands->items);
    for (int i = 0; i <= more; i++)
        view_operand(weight, i, &operands->items[at + i]);
    operands->count += more;
}

static hr_status statement_call(builder *builder) {
    const hr_model_statement *statement = builder->statement;
    struct hr_model *model = builder->model;
    const hr_model_kernel *plain, *special = NULL;
    const char *kind = model->file->kind == HR_WEIGHTS_GGUF ? "gguf" : "safetensors";
    call_operands operands;
    HR_TRY(operands_take(builder, &operands));
    HR_TRY(hr_model_kernel_find(model, statement->name, &plain));
    if (!plain) HR_TRY(hr_model_kernel_of(model, statement->name, kind, &plain));
    if (operands.weight)
        HR_TRY(hr_model_kernel_of(model, statement->name, operands.weight->format->name, &special));
    if (!plain && !special)
        return wrong(builder, statement->name, "is no kernel of this text or of models/weights.hr");
    if (operands.weight && operands.count == 2) {
        bool done;
        HR_TRY(packed_call(builder, operands.weight, &operands.items[1 - operands.weight_at], &done));
        if (done) return HR_OK;
    }
    bool few =
        operands.weight && operands.elements <= FEW_ROWS * operands.weight->shape[operands.weight->rank - 1];
    if (operands.weight && special && (few || strcmp(statement->name, "rows") == 0)) {
        views_insert(&operands);
        plain = special;
    } else if (operands.weight)
        HR_TRY(weight_write_out(builder, operands.weight, &operands.items[operands.weight_at]));
    return call_add(builder, plain, operands.items, operands.count, statement->targets,
                    statement->target_count);
}

/* ---- the step ---- */

static void extent_set(struct hr_model *model, const char *name, hr_step_size value) {
    int found = hr_extents_find(&model->extents, name);
    if (found < 0) found = model->extents.count++;
    model->extents.items[found] = (hr_named_extent){name, value, true};
}

static void tokens_name(builder *builder, const char *name, int32_t *data, int64_t tokens) {
    operand *operand = &builder->names[builder->name_count].operand;
    builder->names[builder->name_count++].name = name;
    operand->kind = DENSE;
    operand->array = array_of(HR_I32, data);
    operand->array.rank = 1;
    operand->array.shape[0] = (hr_step_size){tokens, 0};
}

static hr_status statements_build(builder *builder) {
    const hr_model_text *text = &builder->model->text;
    int64_t at = 0, bound = 0;
    int loop = -1;
    for (int i = 0; i < text->statement_count; i++) {
        const hr_model_statement *statement = builder->statement = &text->statements[i];
        if (statement->kind == HR_MODEL_CALL) {
            HR_TRY(statement_call(builder));
        } else if (statement->kind == HR_MODEL_FOR) {
            hr_step_size size;
            HR_TRY(evaluate(builder, statement->bound, &size));
            if (size.fixed < 1 || size.fixed > HR_MODEL_LAYERS_MOST || size.scaled)
                return wrong(builder, statement->name, "runs over nothing, or more layers than a model has");
            loop = i;
            at = 0;
            bound = size.fixed;
            extent_set(builder->model, statement->name, (hr_step_size){0, 0});
        } else if (++at < bound) {
            extent_set(builder->model, text->statements[loop].name, (hr_step_size){at, 0});
            i = loop;
        }
    }
    if (!buffer_named(builder, "logits")) return wrong(builder, "logits", "are given by no call of the step");
    return HR_OK;
}

hr_status hr_model_step_build(struct hr_model *model, int64_t tokens, int64_t answers, hr_sequence *out) {
    builder *builder = hr_memory_zeros(1, sizeof *builder);
    if (!builder) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a step of a model");
    builder->model = model;
    builder->sequence = out;
    builder->answers = answers;
    builder->quantised.buffer = -1;
    builder->past_most = model->context - tokens;
    builder->statement = model->text.statements;
    extent_set(model, "T", (hr_step_size){tokens, 0});
    extent_set(model, "A", (hr_step_size){answers, 0});
    extent_set(model, "P", (hr_step_size){0, 1});
    tokens_name(builder, "token", model->token, tokens);
    tokens_name(builder, "position", model->position, tokens);
    hr_status status = statements_build(builder);
    if (status == HR_OK) status = hr_sequence_plan(out);
    free(builder);
    return status;
}
