/* Which of a family's step texts a step follows: by its tokens, the device and how the weights are stored.
 *
 * In: a step that is built. Out: its text.
 */
#ifndef HR_MODEL_STEP_TEXT_H
#define HR_MODEL_STEP_TEXT_H

#include "model/step_shapes.h"

#define HR_STEP_FEW_ROWS 8 /* up to which a product reads the blocks themselves */

/* What is cached goes to places that are data, and is read from there. */
bool hr_step_goes_by_place(const hr_step_builder *builder);

const hr_step_text *hr_step_text_choose(const hr_step_builder *builder);

#endif
