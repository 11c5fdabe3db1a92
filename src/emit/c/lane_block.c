/* Blocks of steps, at whose end results leave that waited. In: a pass. Out: text. See lane_block.h. */
#include "emit/c/lane_block.h"

#include "base/dtype.h"
#include "emit/c/lane_even_odd.h"

#include <string.h>

/* Leaves as whole vectors of 32-bit words. */
static bool is_of_words(const hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    return hr_dtype_size(p->function->tensors[s->tensor].dtype) == 4 || hr_lane_is_paired(p, pass, s);
}

static bool is_late(const hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    if (!s->stream || !is_of_words(p, pass, s)) return false;
    for (const hr_lane_step *before = pass->steps; before < s; before++)
        if (before->stream && before->tensor != s->tensor) return true;
    return false;
}

bool hr_lane_has_late(const hr_printer *p, const hr_lane_pass *pass) {
    bool late = false;
    if (pass->ways < 2 || pass->unit < pass->ways || pass->state || pass->block ||
        p->stage->shape != HR_SHAPE_MAP || !hr_limits_are_short(&p->plan->limits))
        return false;
    for (int i = 0; i < pass->step_count; i++) {
        if (pass->steps[i].use != HR_LANE_STORE) return false;
        late = late || is_late(p, pass, &pass->steps[i]);
    }
    return late;
}

const hr_lane_step *hr_lane_begin_block(hr_printer *p, const hr_lane_pass *pass, const char *last,
                                        int count) {
    size_t size = (size_t)pass->step_count * sizeof *pass->steps;
    hr_lane_step *steps = hr_arena_alloc(p->arena, size);
    int most = count * pass->ways;
    memcpy(steps, pass->steps, size);
    hr_print(p, "const int64_t block = i, rest = %s - i, step = %d * HR_LANES, most = %d * HR_LANES;", last,
             pass->ways, most);
    hr_print(p, "const int64_t until = i + (rest < most ? rest / step * step : most);");
    for (int i = 0; i < pass->step_count; i++) {
        steps[i].late = is_late(p, pass, &pass->steps[i]);
        if (steps[i].late)
            hr_print(p, "_Alignas(64) %s late_%d[%d * HR_LANES];",
                     hr_c_storage(p->function->tensors[steps[i].tensor].dtype), steps[i].id, most);
    }
    return steps;
}

void hr_lane_end_block(hr_printer *p, const hr_lane_pass *pass) {
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (!s->late) continue;
        hr_print(p, "stream_late(q%d + block, late_%d, (until - block) * %d, %s);", s->id, s->id,
                 (int)hr_dtype_size(p->function->tensors[s->tensor].dtype),
                 p->whole ? "true" : hr_format(p, "aligned_%d", s->id));
    }
}

const char *hr_lane_target(hr_printer *p, const hr_lane_step *s) {
    return hr_format(p, s->late ? "late_%d + (i - block)" : "q%d + i", s->id);
}
