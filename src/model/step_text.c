/* Which of a family's step texts a step follows. See step_text.h. */
#include "model/step_text.h"

#include "model/step_operands.h"

#include <string.h>

bool hr_step_goes_by_place(const hr_step_builder *builder) {
    return builder->pages || !hr_device_memory_is_host(builder->model->device);
}

static bool is_whole(const hr_model_weight *joined) {
    bool whole = joined != NULL;
    for (int l = 0; whole && l < joined->layers; l++)
        whole = joined->layer[l] != NULL;
    return whole;
}

/* Whether the text is there, and what it joins is stored alike. */
static bool can_follow(const struct hr_model *model, const hr_step_text *text) {
    for (int i = 0; i < text->count; i++)
        for (int j = 0; j < text->statements[i].operand_count; j++)
            for (int k = 0; k < model->text.join_count; k++) {
                const char *name = text->statements[i].operands[j].name;
                if (strcmp(name, model->text.joins[k].name) == 0 &&
                    !is_whole(hr_step_joined_named(model, name)))
                    return false;
            }
    return text->count > 0;
}

/* Whether all that the step multiplies with is of f16. */
static bool is_of_halves(const struct hr_model *model, const hr_step_text *text) {
    for (int i = 0; i < text->count; i++) {
        const hr_model_statement *statement = &text->statements[i];
        if (statement->kind != HR_MODEL_CALL || strcmp(statement->name, "rows") == 0) continue;
        for (int k = 0; k < statement->operand_count; k++) {
            const hr_model_weight *of = hr_step_weight_named(model, statement->operands[k].name);
            for (int l = 0; of && l < of->layers; l++)
                if (of->layer[l]->rank == 2 && strcmp(of->layer[l]->format->name, "f16") != 0) return false;
        }
    }
    return text->count > 0;
}

const hr_step_text *hr_step_text_choose(const hr_step_builder *builder) {
    const struct hr_model *model = builder->model;
    const bool place = hr_step_goes_by_place(builder) && !builder->pages;
    const hr_model_text *text = &model->text;
    if (place && !model->packed && builder->tokens == 1 && can_follow(model, &text->alone))
        return &text->alone;
    if (place && model->packed && builder->tokens <= HR_STEP_FEW_ROWS &&
        (can_follow(model, &text->few) || (builder->tokens == 1 && text->few.count > 0)))
        return &text->few;
    if (!hr_device_memory_is_host(model->device) && builder->tokens > HR_STEP_FEW_ROWS &&
        can_follow(model, &text->together) && is_of_halves(model, &text->together))
        return &text->together;
    return &text->step;
}
