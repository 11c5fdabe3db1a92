/* What no range says: which host time makes input, which kernels are the optimizer's.
 *
 * In: joined works and calls. Out: stretches of loaders, works of the kind of the optimizer.
 */
#include "diagnose/analysis.h"

#define INPUT_GAP_NS 1000000 /* host work of this length before input is copied is its making */
#define INPUT_BYTES  16384
#define UPDATE_RUN   24 /* elementwise kernels in a row, among them what optimizers compute */

static bool copies_input(const hr_analysis *analysis, int32_t call) {
    const hr_trace *trace = analysis->trace;
    if (analysis->calls[call].work < 0) return false;
    const hr_work *work = &analysis->works[analysis->calls[call].work];
    const hr_event *event = &trace->events.items[work->event];
    if (work->kind != HR_TIME_HOST_LINK || event->detail < 0 || event->detail >= trace->copies.count)
        return false;
    const hr_copy *copy = &trace->copies.items[event->detail];
    return copy->bytes >= INPUT_BYTES && copy->to == HR_MEMORY_DEVICE;
}

/* Where no range of the program says that it loads data: long host work that ends with a copy to the device.
 */
void hr_infer_loader(hr_analysis *analysis) {
    for (int i = 0; i < analysis->thread_count; i++)
        if (analysis->threads[i].loader_count) return;
    for (int i = 0; i < analysis->thread_count; i++) {
        hr_thread *thread = &analysis->threads[i];
        if (!thread->launches) continue;
        thread->loader = hr_arena_alloc(analysis->arena, (size_t)thread->call_count * sizeof(hr_stretch));
        for (int k = 0; k < thread->call_count; k++) {
            hr_host_call *call = &analysis->calls[thread->calls[k]];
            bool input = false;
            if (call->previous < 0 || call->gap - call->gap_first_use < INPUT_GAP_NS || call->gap_first_use)
                continue;
            for (int next = k; next < thread->call_count && next < k + 3; next++)
                input |= copies_input(analysis, thread->calls[next]);
            if (!input) continue;
            call->gap_loader = call->gap;
            thread->loader[thread->loader_count++] = (hr_stretch){call->start - call->gap, call->start};
        }
    }
}

/* Where no range says that it is the optimizer. */
void hr_infer_optimizer(hr_analysis *analysis) {
    size_t tracks = (size_t)analysis->trace->tracks.count, works = (size_t)analysis->work_count;
    int32_t *before = hr_arena_alloc(analysis->arena, works * sizeof *before);
    int32_t *last = hr_arena_alloc(analysis->arena, tracks * sizeof *last);
    int32_t *length = hr_arena_alloc(analysis->arena, tracks * sizeof *length);
    int32_t *updates = hr_arena_alloc(analysis->arena, tracks * sizeof *updates);
    for (int i = 0; i < analysis->work_count; i++)
        if (analysis->works[i].kind == HR_TIME_OPTIMIZER) return;
    for (size_t i = 0; i < tracks; i++)
        last[i] = -1;
    for (int32_t i = 0; i <= analysis->work_count; i++) {
        const hr_work *work = i < analysis->work_count ? &analysis->works[i] : NULL;
        size_t from = work ? (size_t)work->stream : 0, to = work ? from + 1 : tracks;
        for (size_t stream = from; stream < to; stream++) { /* at the end: what is open in all of them */
            if (work && (work->flags & HR_WORK_FUSABLE)) continue;
            for (int32_t k = last[stream]; updates[stream] >= 3 && length[stream] >= UPDATE_RUN && k >= 0;
                 k = before[k])
                analysis->works[k].kind = HR_TIME_OPTIMIZER;
            length[stream] = updates[stream] = 0;
            last[stream] = -1;
        }
        if (!work || !(work->flags & HR_WORK_FUSABLE)) continue;
        before[i] = last[from];
        last[from] = i;
        length[from]++;
        updates[from] += (work->flags & HR_WORK_STEPPING) != 0;
    }
}
