/* Maps that read an array across the lanes: transposing copies, and whatever reads beside it.
 *
 * Why: where the lane is one of an array's outer axes and the task its last, each lane reads a line of memory
 * for one element. So a group of tasks, as many as a line holds elements, takes each block of lanes together:
 * the block is read as it lies, transposed in registers, and left in a tile of the first-level cache, from
 * which every task has its lanes side by side.
 */
#ifndef HR_EMIT_C_STAGE_TRANSPOSE_H
#define HR_EMIT_C_STAGE_TRANSPOSE_H

#include "emit/c/stage_parts.h"

/* The loop over tasks; `print_task` prints the passes over the lanes `first` to `last` of `task`. */
void hr_stage_transpose_loop(hr_stage_printer *s, void (*print_task)(hr_stage_printer *s));

#endif
