/* How many vectors a step of each pass takes. In: a stage whose loop is chosen. Out: `unroll`. */
#include "base/dtype.h"
#include "schedule/cpu/passes_cpu.h"

enum { ACCUMULATORS = 4, SPECIAL_VECTORS = 4, LINE_FLOATS = 16, LINE_VECTORS_MOST = 2 };

bool hr_cpu_step_is_of_lanes(const hr_plan *plan, const hr_stage *stage, const hr_step *step) {
    switch (step->kind) {
    case HR_STEP_ELEMENT:
        return step->stored && stage->row_count > 0;
    case HR_STEP_REDUCE_ROW:
        return !step->estimated;
    case HR_STEP_REDUCE_COLUMN:
        return !hr_cpu_walk_sums_apart(hr_cpu_walk_of(stage));
    case HR_STEP_REDUCE_ALL:
        return !hr_step_is_row_total(plan, stage, step);
    default:
        return false;
    }
}

/* What the lanes of a pass do. */
typedef struct work {
    bool reduces, finds, special; /* finds: a position */
    bool narrow;                  /* results of 16 bits, which leave two vectors at a time, */
    bool bf16;                    /* bf16 among them */
} work;

/* The sums of squares of variances that follow from sums of this pass are among it. */
static void add_squares(const hr_stage *stage, int pass, work *out) {
    for (int i = 0; i < stage->step_count; i++) {
        const hr_variance_sums *sums = stage->steps[i].variance;
        out->reduces = out->reduces || (sums && stage->steps[sums->sum].pass == pass);
    }
}

static work work_of(const hr_plan *plan, const hr_stage *stage, int pass) {
    work out = {0};
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->pass != pass || !hr_cpu_step_is_of_lanes(plan, stage, step)) continue;
        out.special = out.special || hr_expr_computes_special(step->value);
        if (step->kind != HR_STEP_ELEMENT) {
            out.reduces = true;
            out.finds =
                out.finds || (step->kind != HR_STEP_REDUCE_COLUMN && hr_op_finds_position(step->reduce));
            continue;
        }
        const hr_dtype dtype = plan->normal->tensors[plan->normal->statements[step->statement].tensor].dtype;
        out.bf16 = out.bf16 || dtype == HR_BF16;
        out.narrow = out.narrow || dtype == HR_BF16 || dtype == HR_F16;
    }
    add_squares(stage, pass, &out);
    return out;
}

/* Of a step that stores: what it prefetches and its own count are then once a line of results. */
static int vectors_of_line(const hr_plan *plan, const work *work) {
    int vectors = LINE_FLOATS / hr_limits_lanes(&plan->limits);
    if (vectors > LINE_VECTORS_MOST) vectors = LINE_VECTORS_MOST;
    return work->narrow ? 2 * vectors : vectors;
}

static int unroll_of(const hr_plan *plan, const hr_stage *stage, int pass) {
    const hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    const work work = work_of(plan, stage, pass);
    const int asked = hr_stage_knobs(stage)->accumulators;
    if (work.finds || !hr_stage_is_vector(stage)) return 1;
    if (work.reduces && asked) return asked;
    if (work.reduces && walk->accumulators == 1) return HR_UNROLL_PAIR;
    if (work.reduces) return walk->accumulators ? walk->accumulators : ACCUMULATORS;
    const bool dear = stage->shape == HR_SHAPE_MAP && (hr_limits_are_short(&plan->limits) || work.bf16);
    return dear && work.special ? SPECIAL_VECTORS : vectors_of_line(plan, &work);
}

void hr_pass_unroll(hr_plan *plan, hr_stage *stage) {
    int *unroll = hr_arena_alloc(plan->arena, (size_t)(stage->pass_count + 1) * sizeof *unroll);
    for (int pass = 0; pass < stage->pass_count; pass++)
        unroll[pass] = unroll_of(plan, stage, pass);
    hr_cpu_walk_of(stage)->unroll = unroll;
}
