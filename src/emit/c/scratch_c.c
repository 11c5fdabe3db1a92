/* The scratch memory of emitted C. In: a plan. Out: sizes, as numbers and as text. See scratch_c.h. */
#include "emit/c/scratch_c.h"

#include "emit/c/attend_c.h"
#include "emit/c/emit_c_contract.h"
#include "emit/c/stage_area.h"
#include "emit/c/stage_order.h"
#include "emit/c/stage_scan.h"
#include "emit/c/stage_scatter.h"
#include "emit/emit.h"
#include "emit/templates/cpu/shares.h"

static int64_t sums_value(const void *nothing, const int64_t *args) {
    (void)nothing;
    return work_sums_of(args[0], args[1], args[2]);
}

static int64_t pieces_value(const void *nothing, const int64_t *args) {
    (void)nothing;
    return work_pieces_of(args[0], args[1]);
}

const hr_size *hr_c_pieces_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, bool sums,
                                int threads) {
    static const hr_size_function pieces = {.name = "work_pieces_of", .value = pieces_value},
                                  own_sums = {.name = "work_sums_of", .value = sums_value};
    const hr_size *tasks = hr_size_points(sizes, plan->normal, stage->task, stage->task_count),
                  *row = hr_size_points(sizes, plan->normal, stage->row, stage->row_count);
    const hr_size *all = hr_size_product(sizes, tasks, row), *word = hr_size_word(sizes, "threads", threads);
    if (!sums) return hr_size_call(sizes, &pieces, NULL, 2, (const hr_size *[]){all, word});
    return hr_size_call(sizes, &own_sums, NULL, 3,
                        (const hr_size *[]){all, hr_stage_thread_size(sizes, plan, stage), word});
}

/* Of what threads or pieces have for themselves. */
static const hr_size *areas_of(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, bool sums,
                               int threads) {
    const hr_size *area = hr_stage_thread_size(sizes, plan, stage), *count;
    if (hr_size_is_zero(area)) return area;
    count = hr_size_word(sizes, "threads", threads);
    if (sums) count = hr_size_product(sizes, count, hr_c_pieces_size(sizes, plan, stage, sums, threads));
    return hr_size_product(sizes, count, hr_size_brackets(sizes, area));
}

const hr_size *hr_c_work_size(hr_sizes *sizes, const hr_plan *plan, int number, bool sums, int threads) {
    const hr_stage *stage = &plan->stages[number];
    if (hr_schedule_attends(plan, number)) return hr_attend_size(sizes, plan, number, threads);
    if (stage->shape == HR_SHAPE_CONTRACT) return hr_contract_size(sizes, plan, number, threads);
    if (hr_stage_is_ordered(stage)) return hr_ordered_size(sizes, plan, stage, threads);
    if (hr_cpu_walk_of(stage)->order != HR_ORDER_LYING) return hr_order_size(sizes, plan, stage, threads);
    if (hr_scatter_may_be_totalled(plan, stage)) return hr_scatter_size(sizes, plan, stage, threads);
    return areas_of(sizes, plan, stage, sums, threads);
}

static hr_status work_bytes(const hr_plan *plan, int number, const int64_t *extents, int threads,
                            int64_t *out) {
    hr_sizes sizes = {0};
    const hr_stage *stage = &plan->stages[number];
    const bool sums = hr_stage_goes_in_pieces(plan, stage) && hr_stage_has_sums(stage);
    return hr_size_add(hr_c_work_size(&sizes, plan, number, sums, threads), plan->normal, extents, out);
}

hr_status hr_emit_c_scratch(const hr_plan *plan, const int64_t *extents, int threads, int64_t *out) {
    int64_t work = 0, together = 0; /* of the stages that go together */
    for (int i = 0; i < plan->stage_count; i++) {
        if (!plan->stages[i].schedule->joins) together = 0;
        HR_TRY(work_bytes(plan, i, extents, threads, &together));
        if (together > work) work = together;
    }
    HR_TRY(hr_plan_locals_bytes(plan, plan->normal->tensor_count, extents, HR_C_LOCAL_MORE, HR_C_LOCAL_UNIT,
                                out));
    if (__builtin_add_overflow(*out, work, out))
        return hr_fail(HR_BAD_INPUT, "kernel %.60s needs more memory than there are addresses",
                       plan->source->name);
    return HR_OK;
}
