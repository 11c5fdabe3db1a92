/* What the calls of a step are given: weights, caches, buffers, as their operands name them. See
 * step_operands.h. */
#include "model/step_operands.h"

#include <string.h>

/* Leading subscripts take a place; the last one may say where the array begins. */
static hr_status subscripts_apply(const hr_step_builder *builder, const hr_operand_text *text, int first,
                                  hr_operand *of) {
    for (int i = first; i < text->subscript_count; i++) {
        hr_sequence_array *array = &of->array;
        hr_step_size at, end, skipped;
        bool from = text->from && i == text->subscript_count - 1;
        if (array->rank == 0) return hr_step_wrong(builder, text->name, "has fewer axes than subscripts");
        HR_TRY(hr_step_evaluate(builder, text->subscripts[i], &at));
        HR_TRY(hr_step_located(builder, hr_step_sum(at, (hr_step_size){!from, 0}, &end)));
        if (!hr_step_is_at_most(builder, at, end) || !hr_step_is_at_most(builder, end, array->shape[0]))
            return hr_step_wrong(builder, text->name, "is shorter than the place that is named");
        HR_TRY(hr_step_elements(builder, array, 1, &skipped));
        HR_TRY(hr_step_located(builder, hr_step_product(at, skipped, &skipped)));
        HR_TRY(hr_step_located(builder, hr_step_sum(array->offset, skipped, &array->offset)));
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
static hr_status layer_find(const hr_step_builder *builder, const hr_operand_text *text, int64_t layers,
                            int64_t *out) {
    hr_step_size at;
    if (text->subscript_count < 1)
        return hr_step_wrong(builder, text->name, "has layers; say which one: NAME[l]");
    HR_TRY(hr_step_evaluate(builder, text->subscripts[0], &at));
    if (at.scaled || at.fixed < 0 || at.fixed >= layers)
        return hr_step_wrong(builder, text->name, "has no such layer");
    *out = at.fixed;
    return HR_OK;
}

hr_status hr_step_cache_take(const hr_step_builder *builder, const hr_operand_text *text,
                             const hr_model_cache *cache, hr_operand *out) {
    int64_t layer = 0, elements = 1;
    if (cache->layers > 0) HR_TRY(layer_find(builder, text, cache->layers, &layer));
    out->kind = HR_OPERAND_BEGIN;
    out->array = hr_step_array(builder->model->cache_dtype, cache->data);
    out->array.rank = cache->rank;
    for (int axis = 0; axis < cache->rank; axis++) {
        out->array.shape[axis] = (hr_step_size){cache->shape[axis], 0};
        elements *= cache->shape[axis];
    }
    out->array.offset.fixed = layer * elements;
    return subscripts_apply(builder, text, cache->layers > 0, out);
}

const hr_model_cache *hr_step_cache_named(const struct hr_model *model, const char *name) {
    for (int i = 0; i < model->text.cache_count; i++)
        if (strcmp(model->caches[i].name, name) == 0) return &model->caches[i];
    return NULL;
}

hr_named_buffer *hr_step_buffer_named(hr_step_builder *builder, const char *name) {
    for (int i = 0; i < builder->name_count; i++)
        if (strcmp(builder->names[i].name, name) == 0) return &builder->names[i];
    return NULL;
}

const hr_model_weight *hr_step_joined_named(const struct hr_model *model, const char *name) {
    for (int i = 0; i < model->text.join_count; i++)
        if (model->joined[i].layers > 0 && strcmp(model->joined[i].name, name) == 0) return &model->joined[i];
    return NULL;
}

const hr_model_weight *hr_step_weight_named(const struct hr_model *model, const char *name) {
    for (int i = 0; i < model->text.weight_count; i++)
        if (strcmp(model->weights[i].name, name) == 0) return &model->weights[i];
    return hr_step_joined_named(model, name);
}

hr_status hr_step_join_apart(hr_step_builder *builder, const hr_operand_text *text,
                             const hr_join_rule **out) {
    const struct hr_model *model = builder->model;
    const hr_model_weight *of = hr_step_joined_named(model, text->name);
    int64_t layer = 0;
    *out = NULL;
    if (!of || hr_step_buffer_named(builder, text->name)) return HR_OK;
    if (of->is_layered) HR_TRY(layer_find(builder, text, of->layers, &layer));
    if (!of->layer[layer]) *out = &model->text.joins[of - model->joined];
    return HR_OK;
}

hr_status hr_step_name_set(hr_step_builder *builder, const char *name, const hr_operand *operand) {
    hr_named_buffer *named = hr_step_buffer_named(builder, name);
    if (!named) {
        if (builder->name_count == HR_STEP_NAMES_MOST)
            return hr_step_wrong(builder, name, "is one name more than a step may have");
        named = &builder->names[builder->name_count++];
        named->name = name;
    }
    named->operand = *operand;
    return HR_OK;
}

bool hr_step_reads_cache(const hr_step_builder *builder) {
    const hr_model_statement *statement = builder->statement;
    for (int i = 0; i < statement->operand_count; i++)
        if (hr_step_cache_named(builder->model, statement->operands[i].name)) return true;
    return false;
}

/* The part of the token that the call is built for: each has as many elements. */
static hr_status token_take(const hr_step_builder *builder, const hr_operand_text *text, hr_operand *out) {
    hr_sequence_array *array = &out->array;
    hr_step_size elements;
    HR_TRY(hr_step_elements(builder, array, 0, &elements));
    if (elements.scaled || elements.fixed % builder->tokens)
        return hr_step_wrong(builder, text->name, "is no array of the step's tokens");
    array->rank = 1;
    array->shape[0] = (hr_step_size){elements.fixed / builder->tokens, 0};
    array->offset.fixed += builder->token * array->shape[0].fixed;
    return HR_OK;
}

hr_status hr_step_operand_take(hr_step_builder *builder, const hr_operand_text *text, hr_operand *out,
                               const hr_weight **weight) {
    struct hr_model *model = builder->model;
    const hr_named_buffer *buffer = hr_step_buffer_named(builder, text->name);
    *weight = NULL;
    if (buffer) {
        *out = buffer->operand;
        HR_TRY(subscripts_apply(builder, text, 0, out));
        return builder->token < 0 ? HR_OK : token_take(builder, text, out);
    }
    const hr_model_weight *of = hr_step_weight_named(model, text->name);
    if (of) {
        int64_t layer = 0;
        if (of->is_layered) HR_TRY(layer_find(builder, text, of->layers, &layer));
        *weight = of->layer[layer];
        return HR_OK;
    }
    for (int i = 0; i < model->text.number_count; i++)
        if (model->numbers[i].name && strcmp(model->numbers[i].name, text->name) == 0) {
            int64_t layer = 0;
            if (model->numbers[i].layers > 0)
                HR_TRY(layer_find(builder, text, model->numbers[i].layers, &layer));
            *out = (hr_operand){HR_OPERAND_EXACT, hr_step_array(HR_F64, &model->numbers[i].values[layer])};
            return HR_OK;
        }
    const hr_model_cache *cache = hr_step_cache_named(model, text->name);
    if (cache) return hr_step_cache_take(builder, text, cache, out);
    return hr_step_wrong(builder, text->name, "is no weight, cache, number or result of a call before");
}

hr_status hr_step_holds(hr_step_builder *builder, bool *out) {
    const hr_model_statement *statement = builder->statement;
    const hr_weight *weight;
    hr_operand number;
    *out = true;
    if (!statement->condition.name) return HR_OK;
    HR_TRY(hr_step_operand_take(builder, &statement->condition, &number, &weight));
    if (weight || number.array.dtype != HR_F64 || number.array.rank != 0)
        return hr_step_wrong(builder, statement->condition.name, "is no number of the model");
    *out = (*(const double *)number.array.data != 0) != statement->negated;
    return HR_OK;
}

int hr_step_view_count(const struct hr_model *model, const hr_weight *weight) {
    const hr_packed_weight *packed = hr_model_weight_packed(model, weight);
    return packed && !weight->data ? packed->count : weight->format->view_count;
}

void hr_step_view(const struct hr_model *model, const hr_weight *weight, int number, hr_operand *out) {
    hr_weight_view view;
    if (!weight->data) {
        *out = (hr_operand){HR_OPERAND_EXACT, hr_model_weight_packed(model, weight)->arrays[number]};
        return;
    }
    hr_weight_view_make(weight, number, &view);
    out->kind = HR_OPERAND_EXACT;
    out->array = hr_step_array(view.array.dtype, view.array.data);
    out->array.rank = view.array.rank;
    for (int axis = 0; axis < view.array.rank; axis++)
        out->array.shape[axis] = (hr_step_size){view.shape[axis], 0};
}

const char *hr_step_weight_suffix(const hr_weight *weight) {
    return weight->data ? weight->format->name : weight->format->form;
}
