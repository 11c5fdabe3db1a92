/* A launch as a range that profilers see: its kernel, its floor, the work that the text counts.
 *
 * In: a kernel, the state that is launched, at which extents. Out: a range "layernorm T=bf16 floor=12.3us
 * bound=memory bytes=... flops=..." around the launch, while a tool listens. */
#include "base/range.h"
#include "run/kernel.h"

#include <stdio.h>

void hr_annotate_begin(hr_kernel *kernel, const hr_prepared *prepared, const int64_t *extents) {
    if (!hr_range_heard()) return;
    char name[256];
    hr_work work;
    hr_floor floor;
    const char *function = kernel->function->title;
    bool known =
        hr_kernel_roof(kernel, NULL, NULL) == HR_OK && hr_plan_work(prepared->plan, extents, &work) == HR_OK;
    if (known) {
        hr_floor_of_state(kernel, prepared, &work, &floor);
        snprintf(name, sizeof name, "%s floor=%.3gus bound=%s bytes=%.0f flops=%.0f", function,
                 floor.seconds * 1e6, floor.bound, floor.bytes, floor.tensor_flops + floor.vector_flops);
    } else
        snprintf(name, sizeof name, "%s", function);
    hr_range_begin(name);
}

void hr_annotate_end(void) {
    hr_range_end();
}
