/* Maps whose arrays all lie as they are walked: their axes are one, of all elements.
 *
 * Why: a row's loop ends for nothing. What runs ahead of memory is lost there, a row's last lanes are a
 * vector's part, and a few long rows would leave threads idle.
 */
#ifndef HR_EMIT_C_STAGE_FLAT_H
#define HR_EMIT_C_STAGE_FLAT_H

#include "emit/c/stage_parts.h"

/* Whether the stage is one: then `p->flat` is the number of elements, and every index but the lane's is 0. */
bool hr_stage_flatten(hr_stage_printer *stage);
/* These indices. */
void hr_stage_flat_indices(hr_stage_printer *stage);

#endif
