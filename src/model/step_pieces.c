/* Calls in several pieces: parts of a join that are not stored alike, tokens one by one. See step_pieces.h.
 */
#include "model/step_pieces.h"

#include "model/step_text.h"

#include <string.h>

/* ---- joins whose parts are not stored alike ---- */

/* Rows of a part of the join: of the layer that the operand names. */
static hr_status part_rows(hr_step_builder *builder, const hr_operand_text *text, int64_t *rows) {
    const hr_weight *weight;
    hr_operand operand;
    HR_TRY(hr_step_operand_take(builder, text, &operand, &weight));
    if (!weight || weight->rank != 2)
        return hr_step_wrong(builder, text->name, "is no matrix that is joined");
    *rows = weight->shape[0];
    return HR_OK;
}

/* Each part is multiplied by itself, into its part of the first result: of one token. */
static hr_status parts_call(hr_step_builder *builder, const hr_join_rule *join, int at) {
    const hr_model_statement *whole = builder->statement;
    const char *name = whole->targets[0].name;
    hr_model_statement statement = *whole;
    hr_operand_text *text = &statement.operands[at];
    hr_operand result = {HR_OPERAND_DENSE, hr_step_array(HR_F32, NULL)};
    int64_t rows[HR_JOINED_MOST];
    result.array.rank = 1;
    for (int i = 0; i < join->count; i++) {
        text->name = join->parts[i];
        HR_TRY(part_rows(builder, text, &rows[i]));
        result.array.shape[0].fixed += rows[i];
    }
    HR_TRY(hr_sequence_buffer(builder->sequence, name, (size_t)result.array.shape[0].fixed * sizeof(float),
                              &result.array.buffer));
    hr_sequence_array part = result.array;
    hr_status status = HR_OK;
    builder->statement = &statement;
    builder->into = &part;
    for (int i = 0; status == HR_OK && i < join->count; i++) {
        text->name = join->parts[i];
        status = hr_step_call(builder);
        part.offset.fixed += rows[i];
    }
    builder->statement = whole;
    builder->into = NULL;
    HR_TRY(status);
    return hr_step_name_set(builder, name, &result);
}

/* ---- tokens one by one ---- */

void hr_step_extent_set(struct hr_model *model, const char *name, hr_step_size value) {
    int found = hr_extents_find(&model->extents, name);
    if (found < 0) found = model->extents.count++;
    model->extents.items[found] = (hr_named_extent){name, value, true};
}

void hr_step_tokens_set(struct hr_model *model, int64_t before, int64_t tokens, int64_t answers) {
    hr_step_extent_set(model, "T", (hr_step_size){tokens, 0});
    hr_step_extent_set(model, "A", (hr_step_size){answers, 0});
    hr_step_extent_set(model, "P", (hr_step_size){before, 1});
}

/* Whether sums of the call have another order for several tokens than for one: those over a cache, and those
 * of a matrix that is not multiplied by whole-number dots. */
static hr_status is_for_each(hr_step_builder *builder, bool *out) {
    const hr_model_statement *statement = builder->statement;
    *out = false;
    if (builder->order != HR_TOKENS_EACH || hr_step_goes_by_place(builder) || statement->target_count != 1)
        return HR_OK;
    *out = hr_step_reads_cache(builder);
    for (int i = 0; i < statement->operand_count && strcmp(statement->name, "rows") != 0; i++) {
        const hr_packed_weight *packed;
        const hr_weight *weight;
        hr_operand operand;
        HR_TRY(hr_step_operand_take(builder, &statement->operands[i], &operand, &weight));
        if (!weight || weight->rank < 2) continue;
        HR_TRY(hr_model_weight_pack(builder->model, weight, &packed));
        *out |= !packed;
    }
    return HR_OK;
}

static hr_status each_call(hr_step_builder *builder) {
    hr_status status = HR_OK;
    const char *name = builder->statement->targets[0].name;
    for (int64_t token = 0; status == HR_OK && token < builder->tokens; token++) {
        builder->token = token;
        hr_step_tokens_set(builder->model, token, 1, 1);
        status = hr_step_call(builder);
    }
    builder->token = -1;
    hr_step_tokens_set(builder->model, 0, builder->tokens, builder->answers);
    HR_TRY(status);
    builder->whole.kind = HR_OPERAND_DENSE;
    return hr_step_cache_named(builder->model, name) || strcmp(name, "_") == 0
               ? HR_OK
               : hr_step_name_set(builder, name, &builder->whole);
}

hr_status hr_step_call_in_pieces(hr_step_builder *builder) {
    const hr_model_statement *statement = builder->statement;
    bool each;
    HR_TRY(is_for_each(builder, &each));
    if (each) return each_call(builder);
    for (int i = 0; i < statement->operand_count; i++) {
        const hr_join_rule *apart;
        HR_TRY(hr_step_join_apart(builder, &statement->operands[i], &apart));
        if (apart) return parts_call(builder, apart, i);
    }
    return hr_step_call(builder);
}
