/* What the calls of a step are given: weights, caches, buffers, as their operands name them.
 *
 * In: an operand of the family's text. Out: an array, or the weight that kernels are given as one or several.
 */
#ifndef HR_MODEL_STEP_OPERANDS_H
#define HR_MODEL_STEP_OPERANDS_H

#include "model/step_shapes.h"

/* NULL where none has this name. */
const hr_model_weight *hr_step_weight_named(const struct hr_model *model, const char *name);
const hr_model_cache *hr_step_cache_named(const struct hr_model *model, const char *name);
hr_named_buffer *hr_step_buffer_named(hr_step_builder *builder, const char *name);
/* The name means this from now on. */
hr_status hr_step_name_set(hr_step_builder *builder, const char *name, const hr_operand *operand);
/* Whether the statement is given a cache. */
bool hr_step_reads_cache(const hr_step_builder *builder);
/* Weights whose rows a text joins; a layer is NULL whose parts are not stored alike. */
const hr_model_weight *hr_step_joined_named(const struct hr_model *model, const char *name);
/* The join that the operand names, where its layer's parts are not stored alike; else NULL. */
hr_status hr_step_join_apart(hr_step_builder *builder, const hr_operand_text *text, const hr_join_rule **out);

/* A cache, or a layer of it, from the row that the operand names. */
hr_status hr_step_cache_take(const hr_step_builder *builder, const hr_operand_text *text,
                             const hr_model_cache *cache, hr_operand *out);
/* A weight in *weight, anything else in *out. */
hr_status hr_step_operand_take(hr_step_builder *builder, const hr_operand_text *text, hr_operand *out,
                               const hr_weight **weight);

/* Whether the statement's call is made: where its condition, a number of the model, is not 0. */
hr_status hr_step_holds(hr_step_builder *builder, bool *out);

/* The arrays as which kernels are given a weight: as it was packed for a device of its own memory, else over
 * its bytes. */
int hr_step_view_count(const struct hr_model *model, const hr_weight *weight);
void hr_step_view(const struct hr_model *model, const hr_weight *weight, int number, hr_operand *out);
/* How the names of kernels that read the weight end. */
const char *hr_step_weight_suffix(const hr_weight *weight);

#endif
