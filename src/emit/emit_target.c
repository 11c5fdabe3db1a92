/* What each target emits of a plan. In: a plan. Out: its target's source, scratch memory and launches.
 *
 * Who adds a target adds a row here, and one in schedule/target.c.
 */
#include "base/memory.h"
#include "emit/emit.h"
#include "schedule/cuda/launches_cuda.h"
#include "schedule/target.h"

typedef struct emit_target {
    hr_status (*source)(const hr_plan *plan, const int64_t *extents, const hr_emit_options *options,
                        hr_emitted *out);
    hr_status (*loaded)(const hr_plan *plan, const int64_t *extents, hr_emitted *out);
    hr_status (*scratch)(const hr_plan *plan, const int64_t *extents, int threads, int64_t *out);
    hr_status (*launches)(const hr_plan *plan, const int64_t *extents, hr_launch *out, int max, int *count);
    bool (*serves)(const hr_plan *plan, const int64_t *made, const int64_t *extents);
    void (*aligned)(const hr_plan *plan, hr_tensor_set *out);
    int64_t (*piece)(const hr_plan *plan);
} emit_target;

/* ---- a CPU: extents are arguments, hr_part() is all there is to call ---- */

static hr_status c_source(const hr_plan *plan, const int64_t *extents, const hr_emit_options *options,
                          hr_emitted *out) {
    const hr_emit_options none = {.size = sizeof none};
    if (!options) options = &none;
    return options->form == HR_SOURCE_THESE_EXTENTS ? hr_emit_c(plan, options, out)
                                                    : hr_emit_c_parts(plan, extents, options, out);
}

static hr_status c_loaded(const hr_plan *plan, const int64_t *extents, hr_emitted *out) {
    (void)extents;
    return hr_emit_c_loaded(plan, out);
}

static hr_status c_launches(const hr_plan *plan, const int64_t *extents, hr_launch *out, int max,
                            int *count) {
    (void)plan, (void)extents, (void)out, (void)max;
    *count = 0;
    return HR_OK;
}

static bool c_serves(const hr_plan *plan, const int64_t *made, const int64_t *extents) {
    (void)plan, (void)made, (void)extents;
    return true;
}

static void c_aligned(const hr_plan *plan, hr_tensor_set *out) {
    (void)plan, (void)out;
}

static int64_t c_piece(const hr_plan *plan) {
    enum { PIECE_ELEMENTS = 16384 };
    (void)plan;
    return PIECE_ELEMENTS;
}

/* ---- a CUDA device ---- */

static hr_status cuda_scratch(const hr_plan *plan, const int64_t *extents, int threads, int64_t *out) {
    (void)threads;
    return hr_cuda_scratch(plan, extents, out);
}

/* ---- the table ---- */

static const emit_target targets[HR_TARGET_COUNT] = {
    [HR_TARGET_CPU] = {c_source, c_loaded, hr_emit_c_scratch, c_launches, c_serves, c_aligned, c_piece},
    [HR_TARGET_CUDA] = {hr_emit_cuda, hr_emit_cuda_loaded, cuda_scratch, hr_cuda_launches, hr_cuda_serves,
                        hr_cuda_aligned, hr_cuda_piece},
};

static const emit_target *target_of(const hr_plan *plan) {
    return &targets[hr_target_of(&plan->limits)->kind];
}

/* A printer without memory may choose another way, or say that the text is too large. */
static hr_status without_wants(long before, hr_status status, hr_emitted *out) {
    const hr_status memory = hr_memory_status(before, "writing a kernel's source");
    if (memory == HR_OK) return status;
    if (status == HR_OK) hr_emitted_clear(out);
    return memory;
}

hr_status hr_emit_source(const hr_plan *plan, const int64_t *extents, const hr_emit_options *options,
                         hr_emitted *out) {
    const long before = hr_memory_wants();
    return without_wants(before, target_of(plan)->source(plan, extents, options, out), out);
}

hr_status hr_emit_loaded(const hr_plan *plan, const int64_t *extents, hr_emitted *out) {
    const long before = hr_memory_wants();
    return without_wants(before, target_of(plan)->loaded(plan, extents, out), out);
}

hr_status hr_emit_scratch(const hr_plan *plan, const int64_t *extents, int threads, int64_t *out) {
    return target_of(plan)->scratch(plan, extents, threads, out);
}

hr_status hr_emit_launches(const hr_plan *plan, const int64_t *extents, hr_launch *out, int max, int *count) {
    return target_of(plan)->launches(plan, extents, out, max, count);
}

bool hr_emit_serves(const hr_plan *plan, const int64_t *made, const int64_t *extents) {
    return target_of(plan)->serves(plan, made, extents);
}

void hr_emit_aligned(const hr_plan *plan, hr_tensor_set *out) {
    target_of(plan)->aligned(plan, out);
}

int64_t hr_emit_piece(const hr_plan *plan) {
    return target_of(plan)->piece(plan);
}
