/* Tokens from rows of logits. sample.c chooses those of a device that sees the host's memory; choose_tokens.c
 * the others.
 */
#ifndef HR_MODEL_CHOOSE_TOKENS_H
#define HR_MODEL_CHOOSE_TOKENS_H

#include "model/model.h"

/* Of a row: how its token is chosen, and what came of it. */
typedef struct hr_token_choice {
    const hr_sampling *sampling; /* NULL: nobody asks for this row's */
    int64_t position;
    int32_t token;
    double log_probability; /* at temperature 1 */
} hr_token_choice;

/* Of rows of logits that lie as hr_model_advance and steps leave them; up to HR_BATCH_MOST. */
hr_status hr_tokens_choose(struct hr_model *model, const float *logits, hr_token_choice *choices, int count);
/* The same where `logits` is memory of a device that does not see the host's. */
hr_status hr_tokens_choose_there(struct hr_model *model, void *logits, hr_token_choice *choices, int count);

/* What the random numbers are keyed by: a scalar is handed over as an f64. */
static inline int64_t hr_sampling_seed(const hr_sampling *sampling) {
    return (int64_t)(sampling->seed & INT64_MAX >> 10);
}

hr_status hr_choices_load(struct hr_model *model);
void hr_choices_release(struct hr_model *model);

#endif
