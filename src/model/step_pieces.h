/* Calls of a step's text in several pieces.
 *
 * In: the statement in hand. Out: one call of its kernel, or one for each part of a join that is not stored
 * in one piece, or one for each token, where the step asks for tokens as each would be computed alone.
 */
#ifndef HR_MODEL_STEP_PIECES_H
#define HR_MODEL_STEP_PIECES_H

#include "model/step_operands.h"

void hr_step_extent_set(struct hr_model *model, const char *name, hr_step_size value);
/* What calls take for tokens, for those before the step and in front of them, and for those that give logits.
 */
void hr_step_tokens_set(struct hr_model *model, int64_t before, int64_t tokens, int64_t answers);
hr_status hr_step_call_in_pieces(hr_step_builder *builder);
/* The statement in one piece: step.c. */
hr_status hr_step_call(hr_step_builder *builder);

#endif
