/* What a schedule says of its stage. In: a stage and how it is walked. Out: its name and why it has its
 * shape, in words. */
#include "plan/row_bounds.h"
#include "schedule/schedule_passes.h"

typedef struct words {
    const hr_plan *plan;
    const hr_function *function;
    hr_arena *arena;
} words;

static char *index_names(words *s, const int *set, int count) {
    char *names = hr_arena_format(s->arena, "%s", "");
    for (int i = 0; i < count; i++)
        names =
            hr_arena_format(s->arena, "%s%s%.20s", names, i ? ", " : "", s->function->indices[set[i]].name);
    return names;
}

/* The tensors that steps of a kind make, by name. */
typedef struct makers {
    int count;
    const char *names; /* "" = none */
    const char *verb;  /* the ending of a verb behind them */
} makers;

static makers makers_of(words *s, const hr_stage *stage, hr_step_kind kind) {
    makers all = {.names = ""};
    for (int i = 0; i < stage->step_count && all.count < 12; i++) {
        if (stage->steps[i].kind != kind) continue;
        const hr_tensor *tensor =
            &s->function->tensors[s->function->statements[stage->steps[i].statement].tensor];
        all.names = hr_arena_format(s->arena, "%s%s%.40s", all.names, all.count++ ? ", " : "", tensor->name);
    }
    all.verb = all.count > 1 ? "" : "s";
    return all;
}

/* Of a product whose numbers have a unit of their own. */
static const char *unit_name(const words *s, const hr_stage *stage) {
    const hr_device_limits *limits = &s->plan->limits;
    if (limits->dots_bytes && hr_contract_of_bytes(s->function, stage->contract))
        return ", all bytes: vectors multiply them in fours, exactly";
    if ((!limits->matrix_bf16 && !limits->dots_bf16) ||
        !hr_contract_fits(s->function, stage->contract, HR_BF16))
        return "";
    return limits->matrix_bf16 ? ", all bf16: the matrix unit multiplies them"
                               : ", all bf16: vectors multiply them in pairs";
}

static const char *why_map(words *s, const hr_cpu_walk *walk) {
    const char *axis =
        walk->written_out ? hr_arena_format(s->arena, ", all of axis %s at a time", walk->written_out) : "";
    return hr_arena_format(s->arena, "no reduction: one pass over the elements%s%s", axis,
                           walk->gathered ? "; each thread goes through its tasks in the order of the rows "
                                            "that they gather"
                                          : "");
}

static const char *why_of(words *s, const hr_stage *stage) {
    hr_arena *arena = s->arena;
    const makers rows = makers_of(s, stage, HR_STEP_REDUCE_ROW),
                 columns = makers_of(s, stage, HR_STEP_REDUCE_COLUMN),
                 totals = makers_of(s, stage, HR_STEP_REDUCE_ALL),
                 ordered = makers_of(s, stage, HR_STEP_ORDERED);
    const char *lanes = index_names(s, stage->row, stage->row_count);
    switch (stage->shape) {
    case HR_SHAPE_MAP:
        return why_map(s, hr_cpu_walk_of(stage));
    case HR_SHAPE_CONTRACT:
        if (stage->contract->group)
            return "a sum of products in which each row chooses its right operand; what follows it element "
                   "by "
                   "element is its epilogue";
        return hr_arena_format(arena,
                               "a sum of products of two operands with different free indices%s; what "
                               "follows it element by element is its epilogue",
                               unit_name(s, stage));
    case HR_SHAPE_DOTS:
        return "groups of products of bytes add up to whole numbers, exactly; lanes run along the results";
    case HR_SHAPE_SCATTER:
        if (s->function->statements[stage->steps[0].statement].store == HR_STORE_PLACE)
            return "each element is written to a place that its subscripts choose";
        return hr_cpu_walk_of(stage)->order != HR_ORDER_LYING
                   ? "several elements may add into one place: each thread owns its share of the places "
                     "and goes through them in order"
                   : "several elements may add into one place: each thread owns its share of the places";
    case HR_SHAPE_GENERIC:
        return "no index runs along memory in all of it: plain loops";
    case HR_SHAPE_COLUMN:
        if (hr_cpu_walk_of(stage)->strip)
            return hr_arena_format(arena, "%s add%s up over all tasks, a strip of columns at a time",
                                   columns.names, columns.verb);
        return hr_arena_format(arena,
                               "%s%s%s add up over all tasks: partial sums a thread, combined at the end",
                               columns.names, columns.count && totals.count ? ", " : "", totals.names);
    case HR_SHAPE_SCAN:
        return hr_arena_format(
            arena, "%s follows from the element before it along %s: each row is read once, in order",
            ordered.names, lanes);
    case HR_SHAPE_TOPK:
        return hr_arena_format(arena, "%s are the places of the largest along %s: each row is read once",
                               ordered.names, lanes);
    case HR_SHAPE_ROW:
        break;
    }
    hr_row_bounds bounds;
    if (hr_stage_row_bounds(s->plan, stage, &bounds))
        return hr_arena_format(arena,
                               "%s read%s of each row what data say, over %s: in one pass, from its first to "
                               "its last element that counts",
                               rows.names, rows.verb, lanes);
    const char *beside = columns.count ? hr_arena_format(arena, "; %s add%s up beside it in the same pass",
                                                         columns.names, columns.verb)
                                       : "";
    return hr_arena_format(
        arena, "%s need%s the whole row over %s: %d pass%s, a row stays in cache between them%s", rows.names,
        rows.verb, lanes, hr_stage_main_passes(stage), hr_stage_main_passes(stage) == 1 ? "" : "es", beside);
}

void hr_schedule_describe(hr_plan *plan, hr_stage *stage) {
    words s = {plan, plan->normal, plan->arena};
    const char *row = index_names(&s, stage->row, stage->row_count),
               *task = index_names(&s, stage->task, stage->task_count);
    stage->name = hr_arena_format(s.arena, "%s over %s%s%s%s", hr_shape_name(stage->shape),
                                  *row ? row : "one element", *task ? ", a task for each " : "", task,
                                  hr_stage_is_vector(stage) ? "" : ", scalar lanes");
    stage->why = why_of(&s, stage);
}

/* A plus stands between stages that go together. */
void hr_schedule_summarise(hr_plan *plan) {
    const char *shapes = "";
    for (int i = 0; i < plan->stage_count && i < 6; i++) {
        const char *between = plan->stages[i].schedule->joins ? " + " : ", ";
        shapes = hr_arena_format(plan->arena, "%s%s%s", shapes, i ? between : "",
                                 hr_shape_name(plan->stages[i].shape));
    }
    plan->summary =
        hr_arena_format(plan->arena, "%d stage%s: %s%s", plan->stage_count, plan->stage_count == 1 ? "" : "s",
                        shapes, plan->stage_count > 6 ? ", ..." : "");
}
