/* Tokens that are guessed, to be checked by one step of the model together.
 *
 * In: a model's context, the token behind it. Out: what may follow: what followed the same words before, or
 * what a smaller model says. A guess is right where it is the token that is drawn there, so the text is that
 * without guesses.
 */
#ifndef HR_MODEL_DRAFT_H
#define HR_MODEL_DRAFT_H

#include "model/model.h"

/* HR_BAD_INPUT where the model that guesses is the same one, or does not know the same tokens. */
hr_status hr_draft_check(const struct hr_model *model, const hr_generate_options *options);
/* The text that the model holds, for a model that guesses. */
hr_status hr_draft_read(const struct hr_model *model, const hr_generate_options *options);
/* Up to options->draft tokens that may follow `next`, which the model is fed next; *count: how many. */
hr_status hr_draft_make(const struct hr_model *model, const hr_generate_options *options, int32_t next,
                        int32_t *out, int64_t *count);
#endif
