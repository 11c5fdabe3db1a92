/* A plan as one CUDA file. In: a plan and numbers for its extents. Out: the source, the header of its
 * launcher, and the launches of one execution.
 *
 * The file, top to bottom: what it is and how to call it, the arguments, the prelude's sections in use, the
 * kernels of each stage, and in source to paste the launcher. Extents of inner indices are numbers in it
 * (hr_cuda_is_constant), outer ones arguments.
 */
#include "base/dtype.h"
#include "emit/c/function_c.h"
#include "emit/cuda/gemm_maps.h"
#include "emit/cuda/launcher_maps.h"
#include "emit/cuda/launcher_text.h"
#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_attention.h"
#include "emit/cuda/stage_cuda_contract.h"
#include "emit/cuda/stage_cuda_gemm.h"
#include "emit/describe.h"
#include "emit/emit.h"
#include "emit/list_emit.h"
#include "emit/prelude.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CLEAR_WAVES = 8, PORTABLE_CLUSTER = 8, STAGE_LAUNCHES = 3 /* of a product, at most */ };

typedef struct emitter {
    const hr_plan *plan;
    const hr_function *function;
    const int64_t *extents;
    hr_printer printer;
    hr_printer *p;
    const char *name;               /* of the launcher */
    int declared;                   /* parameters and results */
    hr_cuda_gemm *gemms, *siblings; /* of the stages that are products */
    int64_t work_bytes;
} emitter;

/* It is part of a kernel for a whole region; NULL = it has kernels of its own. */
static const hr_cuda_attention *attention_of(const hr_stage *stage) {
    return stage->schedule->kind == HR_SCHEDULE_CUDA_ATTENTION ? stage->schedule->attention : NULL;
}

static bool is_product(const hr_stage *stage) {
    return stage->shape == HR_SHAPE_CONTRACT && !attention_of(stage);
}

/* Its kernel copies by tensor maps. */
static bool is_mapped(const emitter *e, int i) {
    const hr_stage *stage = &e->plan->stages[i];
    return attention_of(stage) || (is_product(stage) && e->gemms[i].mainloop == HR_GEMM_HOPPER);
}

/* Some kernel does; they are made for the extents of this source. */
static bool has_maps(const emitter *e) {
    for (int i = 0; i < e->plan->stage_count; i++)
        if (is_mapped(e, i)) return true;
    return false;
}

/* Some stage is launched without. */
static bool has_others(const emitter *e) {
    for (int i = 0; i < e->plan->stage_count; i++)
        if (!is_mapped(e, i)) return true;
    return false;
}

/* ---- how each stage lies on the device ---- */

static hr_status choose_gemms(emitter *e, hr_arena *arena) {
    const hr_plan *plan = e->plan;
    size_t size = (size_t)(plan->stage_count + 1) * sizeof *e->gemms;
    e->gemms = hr_arena_alloc(arena, size);
    e->siblings = hr_arena_alloc(arena, size);
    for (int i = 0; i < plan->stage_count; i++) {
        const hr_stage *stage = &plan->stages[i];
        if (!is_product(stage)) continue;
        HR_TRY(hr_cuda_gemm_choose(plan, stage, e->extents, HR_GEMM_HOPPER, &e->gemms[i]));
        HR_TRY(hr_cuda_gemm_sibling(plan, stage, e->extents, &e->gemms[i], &e->siblings[i]));
    }
    return HR_OK;
}

/* Of the scratch memory, what stages use one after the other. */
static hr_status work_bytes(const hr_plan *plan, const int64_t *extents, int64_t *most) {
    *most = 0;
    for (int i = 0; i < plan->stage_count; i++) {
        const hr_stage *stage = &plan->stages[i];
        hr_cuda_gemm gemm = {0};
        if (attention_of(stage)) continue;
        if (is_product(stage)) HR_TRY(hr_cuda_gemm_choose(plan, stage, extents, HR_GEMM_HOPPER, &gemm));
        int64_t bytes = is_product(stage) ? gemm.work_bytes : hr_grid_of(stage)->work_bytes;
        if (bytes > *most) *most = bytes;
    }
    return HR_OK;
}

/* ---- launches ---- */

/* ceil(total / run), at least `least` and at most `limit`, times `slices` */
typedef struct launch_shape {
    int64_t run, least, limit, slices;
    bool cluster; /* the slices are one */
} launch_shape;

static launch_shape shape_of(const hr_cuda_choice *c) {
    launch_shape s = {.run = (int64_t)c->block_rows * c->partners,
                      .least = c->columns || c->totals || c->once,
                      .limit = hr_cuda_parts_limit(c),
                      .slices = (int64_t)c->slices * c->partners,
                      .cluster = hr_cuda_cluster_blocks(c) > 1};
    if (c->flat) s.run = (int64_t)c->threads * c->groups * c->vector;
    return s;
}

static int64_t blocks_of(launch_shape s, int64_t total) {
    int64_t blocks = hr_divide_up(total, s.run);
    if (blocks < s.least) blocks = s.least;
    if (blocks > s.limit) blocks = s.limit;
    return hr_saturate_product(blocks, s.slices);
}

static launch_shape clear_shape(const hr_plan *plan) {
    return (launch_shape){HR_CUDA_CLEAR_THREADS, 0, (int64_t)plan->limits.threads * CLEAR_WAVES, 1, false};
}

static int64_t end_blocks(const hr_cuda_choice *c) {
    int width = hr_cuda_end_columns(c);
    int64_t columns = hr_saturate_product(c->columns, hr_divide_up(c->row, width));
    return columns > 1 ? columns : 1;
}

typedef struct grid_list {
    hr_launch *out;
    int max, count;
    int64_t work_bytes;
} grid_list;

static hr_status add_grid(grid_list *list, int stage, const char *suffix, int64_t blocks, int threads) {
    if (list->count == list->max)
        return hr_fail(HR_BAD_INPUT, "a kernel of more than %d launches", list->max);
    hr_launch *grid = &list->out[list->count];
    *grid =
        (hr_launch){.grid = {blocks, 1, 1}, .threads = threads, .cluster = 1, .overlaps = list->count > 0};
    snprintf(grid->entry, sizeof grid->entry, "stage_%d%s", stage, suffix);
    list->count++;
    return HR_OK;
}

/* A kernel that has nothing to do where a product's unaligned one runs. */
static hr_status add_side_grid(grid_list *list, int stage, const char *suffix, int64_t blocks, int threads) {
    HR_TRY(add_grid(list, stage, suffix, blocks, threads));
    hr_launch *launch = &list->out[list->count - 1];
    snprintf(launch->unaligned, sizeof launch->unaligned, "stage_%d%s_unaligned", stage, suffix);
    return HR_OK;
}

static hr_status add_product_grids(const hr_plan *plan, const int64_t *extents, int i, grid_list *list) {
    const hr_stage *stage = &plan->stages[i];
    hr_cuda_gemm gemm;
    HR_TRY(hr_cuda_gemm_choose(plan, stage, extents, HR_GEMM_HOPPER, &gemm));
    if (gemm.mainloop == HR_GEMM_PLAIN) {
        int64_t blocks;
        hr_sizes sizes = {0};
        HR_TRY(hr_size_value(hr_cuda_contract_size(&sizes, plan, stage), plan->normal, extents, &blocks));
        return add_grid(list, i, "", blocks, HR_CUDA_CONTRACT_THREADS);
    }
    if (gemm.lay_blocks) HR_TRY(add_side_grid(list, i, "_begin", gemm.lay_blocks, HR_GEMM_LAY_THREADS));
    HR_TRY(add_grid(list, i, "", gemm.blocks, gemm.threads));
    hr_launch *launch = &list->out[list->count - 1];
    launch->shared = gemm.shared_bytes;
    launch->cluster = gemm.tile.cluster;
    if (hr_cuda_gemm_asks(&gemm))
        snprintf(launch->unaligned, sizeof launch->unaligned, "stage_%d_unaligned", i);
    HR_TRY(hr_cuda_gemm_maps(plan, extents, &gemm, list->work_bytes, launch));
    if (!hr_cuda_gemm_folds(&gemm)) return HR_OK;
    return add_side_grid(list, i, "_end", gemm.fold_blocks, HR_GEMM_FOLD_THREADS);
}

static hr_status add_attention_grids(const hr_plan *plan, const int64_t *extents, int i, grid_list *list) {
    const hr_cuda_attention *attention = attention_of(&plan->stages[i]);
    if (i != attention->first) return HR_OK;
    HR_TRY(add_grid(list, i, "", attention->blocks, attention->threads));
    hr_launch *launch = &list->out[list->count - 1];
    launch->shared = attention->shared_bytes;
    snprintf(launch->unaligned, sizeof launch->unaligned, "stage_%d_unaligned", i);
    return hr_cuda_attention_maps(plan, extents, attention, list->work_bytes, launch);
}

/* What the kernel before a scatter clears. */
static const hr_size *cleared_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage) {
    const int tensor = plan->normal->statements[stage->steps[0].statement].tensor;
    return hr_size_elements(sizes, &plan->normal->tensors[tensor], 0, 1);
}

/* Of what blocks share out. */
static const hr_size *total_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage,
                                 const hr_cuda_choice *c) {
    return c->flat ? hr_size_points(sizes, plan->normal, c->order, c->order_count)
                   : hr_size_points(sizes, plan->normal, stage->task, stage->task_count);
}

static hr_status add_stage_grids(const hr_plan *plan, const int64_t *extents, int i, grid_list *list) {
    const hr_stage *stage = &plan->stages[i];
    hr_sizes sizes = {0};
    int64_t total;
    if (attention_of(stage)) return add_attention_grids(plan, extents, i, list);
    if (stage->shape == HR_SHAPE_CONTRACT) return add_product_grids(plan, extents, i, list);
    const hr_cuda_choice c = *hr_grid_of(stage);
    hr_stage_kernels kernels = hr_stage_kernels_of(plan, stage, &c);
    if (c.ring) HR_TRY(add_grid(list, i, "_begin", 1, HR_CUDA_CLEAR_THREADS));
    if (kernels.begin && !c.ring) {
        HR_TRY(hr_size_value(cleared_size(&sizes, plan, stage), plan->normal, extents, &total));
        HR_TRY(add_grid(list, i, "_begin", blocks_of(clear_shape(plan), total), HR_CUDA_CLEAR_THREADS));
    }
    HR_TRY(hr_size_value(total_size(&sizes, plan, stage, &c), plan->normal, extents, &total));
    HR_TRY(add_grid(list, i, "", blocks_of(shape_of(&c), total), c.threads));
    hr_launch *work = &list->out[list->count - 1];
    if (c.list) work->pieces = c.blocks_limit;
    work->cluster = hr_cuda_cluster_blocks(&c);
    work->shared = c.shared_bytes;
    if (hr_cuda_asks_before(&c)) snprintf(work->unaligned, sizeof work->unaligned, "stage_%d_unaligned", i);
    return kernels.end ? add_grid(list, i, "_end", end_blocks(&c), HR_CUDA_END_THREADS) : HR_OK;
}

hr_status hr_emit_cuda_launches(const hr_plan *plan, const int64_t *extents, hr_launch *out, int max,
                                int *count) {
    grid_list list = {.out = out, .max = max};
    HR_TRY(work_bytes(plan, extents, &list.work_bytes));
    for (int i = 0; i < plan->stage_count; i++)
        HR_TRY(add_stage_grids(plan, extents, i, &list));
    *count = list.count;
    return HR_OK;
}

void hr_emit_cuda_aligned(const hr_plan *plan, hr_tensor_set *out) {
    *out = (hr_tensor_set){0};
    for (int t = 0; t < hr_function_arguments(plan->source) && t < HR_LAUNCH_TENSORS_MAX; t++)
        if (hr_cuda_may_be_aligned(plan, t)) out->bits[t / 64] |= (uint64_t)1 << (t % 64);
}

/* ---- scratch: partial results first, which stages use one after the other, then locals ---- */

enum { LOCAL_MORE = 255, LOCAL_UNIT = 256 };

hr_status hr_cuda_locals_before(const hr_plan *plan, int tensor, const int64_t *extents, int64_t *out) {
    return hr_plan_locals_bytes(plan, tensor, extents, LOCAL_MORE, LOCAL_UNIT, out);
}

hr_status hr_emit_cuda_scratch(const hr_plan *plan, const int64_t *extents, int64_t *out) {
    int64_t locals;
    HR_TRY(work_bytes(plan, extents, out));
    HR_TRY(hr_cuda_locals_before(plan, plan->normal->tensor_count, extents, &locals));
    if (__builtin_add_overflow(*out, locals, out))
        return hr_fail(HR_BAD_INPUT, "kernel %.60s needs more memory than there are addresses",
                       plan->source->name);
    return HR_OK;
}

static const char *local_size(emitter *e, int tensor) {
    hr_sizes sizes = {0};
    return hr_size_text(e->p, hr_plan_local_size(&sizes, e->plan, tensor, LOCAL_MORE, LOCAL_UNIT));
}

static void print_runtime_extents(emitter *e, const char *text) {
    for (int i = 0; i < e->function->extent_count; i++) {
        const char *extent = hr_emit_extent(e->p, i);
        if (!hr_cuda_is_constant(e->plan, i) && hr_emit_occurs(text, extent))
            hr_print(e->p, "    const int64_t %s = a.%s;", extent, extent);
    }
}

static void print_places(emitter *e) {
    hr_printer *p = e->p;
    const char *place = hr_format(p, "%" PRId64, e->work_bytes);
    for (int t = e->declared; t < e->function->tensor_count; t++) {
        if (!hr_plan_is_scratch(e->plan, t)) continue;
        hr_print(p, "static __device__ inline int64_t %s_place(const arguments &a) {", hr_emit_tensor(p, t));
        print_runtime_extents(e, place);
        hr_print(p, "    (void)a;");
        hr_print(p, "    return %s;", place);
        hr_print(p, "}");
        hr_print(p, "%s", "");
        place = hr_format(p, "%s + %s", place, local_size(e, t));
    }
}

/* ---- the top of the file ---- */

static void print_constants(emitter *e) {
    hr_printer *p = e->p;
    for (int i = 0; i < e->function->extent_count; i++)
        if (hr_cuda_is_constant(e->plan, i))
            hr_print(p, "static constexpr int64_t %s = %" PRId64 ";", hr_emit_extent(p, i), e->extents[i]);
    hr_print(p, "%s", "");
}

/* In the order of hr_execution's words: pointers, scalars, extents, strides, scratch, fault. */
static void print_arguments(emitter *e) {
    hr_printer *p = e->p;
    hr_print(p, "struct arguments {");
    for (int t = 0; t < e->declared; t++) {
        const hr_tensor *tensor = &e->function->tensors[t];
        hr_print(p, "    %s%s *%s;", tensor->role == HR_ROLE_INPUT ? "const " : "",
                 hr_c_storage(tensor->dtype), hr_emit_tensor(p, t));
    }
    for (int t = 0; t < e->declared; t++)
        hr_print(p, "    double %s_value;", hr_emit_tensor(p, t));
    for (int i = 0; i < e->function->extent_count; i++)
        hr_print(p, "    int64_t %s;", hr_emit_extent(p, i));
    for (int t = 0; t < e->declared; t++)
        if (e->function->tensors[t].rank)
            hr_print(p, "    int64_t %s_strides[%d];", hr_emit_tensor(p, t), e->function->tensors[t].rank);
    hr_print(p, "    char *scratch;");
    hr_print(p, "    fault_record *fault;");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

/* ---- the launcher of source to paste ---- */

static void print_signature(emitter *e) {
    hr_printer *p = e->p;
    hr_text *out = p->out;
    hr_text_format(out, "int %s(void *stream, ", e->name);
    for (int i = 0; i < e->function->extent_count; i++)
        hr_text_format(out, "int64_t %s, ", hr_emit_extent(p, i));
    for (int t = 0; t < e->declared; t++) {
        const hr_tensor *tensor = &e->function->tensors[t];
        const char *name = hr_emit_tensor(p, t);
        if (hr_tensor_is_scalar(tensor))
            hr_text_format(out, "%s %s, ", hr_c_compute(hr_compute_type(tensor->dtype)), name);
        else
            hr_text_format(out, "%s%s *%s, ", tensor->role == HR_ROLE_INPUT ? "const " : "",
                           hr_c_storage(tensor->dtype), name);
        if (e->plan->layouts[t] == HR_LAYOUT_STRIDED)
            hr_text_format(out, "const int64_t *%s_strides, ", name);
    }
    hr_text_format(out, "void *scratch, void *fault)");
}

static void print_size_signature(emitter *e) {
    hr_text_format(e->p->out, "int64_t %s_scratch(", e->name);
    for (int i = 0; i < e->function->extent_count; i++)
        hr_text_format(e->p->out, "%sint64_t %s", i ? ", " : "", hr_emit_extent(e->p, i));
    hr_text_format(e->p->out, e->function->extent_count ? ")" : "void)");
}

/* `code`: the function, or a pointer to the one that these arrays can have. */
static void print_launch(emitter *e, const char *code, const char *total, launch_shape s, int threads,
                         int64_t shared) {
    hr_printer *p = e->p;
    hr_print(p, "blocks = blocks_of(%s, %" PRId64 ", %" PRId64 ", %" PRId64 ") * %" PRId64 ";", total, s.run,
             s.least, s.limit, s.slices);
    if (s.cluster && s.slices > PORTABLE_CLUSTER)
        hr_print(p, "cudaFuncSetAttribute(%s, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);", code);
    if (shared)
        hr_print(p, "cudaFuncSetAttribute(%s, cudaFuncAttributeMaxDynamicSharedMemorySize, %" PRId64 ");",
                 code, shared);
    hr_print(p, "if (blocks) %s<<<(unsigned)blocks, %d, %" PRId64 ", (cudaStream_t)stream>>>(a);", code,
             threads, shared);
}

static void print_product_launch(emitter *e, int i, const char *main, launch_shape one) {
    const hr_stage *stage = &e->plan->stages[i];
    const hr_cuda_gemm *gemm = &e->gemms[i];
    if (gemm->mainloop == HR_GEMM_PLAIN) {
        hr_sizes sizes = {0};
        print_launch(e, main, hr_size_text(e->p, hr_cuda_contract_size(&sizes, e->plan, stage)), one,
                     HR_CUDA_CONTRACT_THREADS, 0);
        return;
    }
    if (hr_cuda_gemm_asks(gemm)) {
        hr_print(e->p, "const auto stage_%d_for = aligned ? stage_%d : stage_%d_unaligned;", i, i, i);
        main = hr_format(e->p, "stage_%d_for", i);
    }
    print_launch(e, main, hr_cuda_gemm_size(e->p, stage, gemm), one, gemm->threads, gemm->shared_bytes);
}

/* With maps for the extents of this source; arrays that no map can begin at take the other kernel. */
static hr_status print_mapped_launch(emitter *e, int i) {
    hr_printer *p = e->p;
    hr_launch launches[STAGE_LAUNCHES], launch = {0};
    grid_list list = {.out = launches, .max = STAGE_LAUNCHES, .work_bytes = e->work_bytes};
    HR_TRY(add_stage_grids(e->plan, e->extents, i, &list));
    if (!list.count) return HR_OK; /* the region's first stage has its launch */
    for (int l = 0; l < list.count; l++)
        if (launches[l].map_count) launch = launches[l];
    bool asks = launch.unaligned[0] != 0;
    hr_print(p, asks ? "if (aligned) {" : "{");
    p->indent++;
    for (int l = 0; l < list.count; l++) {
        if (launches[l].map_count)
            hr_cuda_print_mapped_launch(p, &launches[l]);
        else
            hr_print(p, "%s<<<%" PRId64 ", %d, 0, (cudaStream_t)stream>>>(a);", launches[l].entry,
                     launches[l].grid[0], launches[l].threads);
    }
    p->indent--;
    hr_print(p, asks ? "} else {" : "}");
    if (!asks) return HR_OK;
    hr_print(p, "    cudaFuncSetAttribute(%s, cudaFuncAttributeMaxDynamicSharedMemorySize, %" PRId64 ");",
             launch.unaligned, launch.shared);
    hr_print(p, "    %s<<<%" PRId64 ", %d, %" PRId64 ", (cudaStream_t)stream>>>(a);", launch.unaligned,
             launch.grid[0], launch.threads, launch.shared);
    hr_print(p, "}");
    return HR_OK;
}

static hr_status print_stage_launches(emitter *e, int i) {
    const hr_stage *stage = &e->plan->stages[i];
    const hr_cuda_choice *c = hr_grid_of(stage);
    hr_sizes sizes = {0};
    launch_shape one = {1, 0, INT32_MAX, 1, false};
    const char *main = hr_format(e->p, "stage_%d", i), *begin = hr_format(e->p, "%s_begin", main);
    if (is_mapped(e, i)) return print_mapped_launch(e, i);
    if (stage->shape == HR_SHAPE_CONTRACT) {
        print_product_launch(e, i, main, one);
        return HR_OK;
    }
    hr_stage_kernels kernels = hr_stage_kernels_of(e->plan, stage, c);
    if (c->ring) print_launch(e, begin, "1", one, HR_CUDA_CLEAR_THREADS, 0);
    if (kernels.begin && !c->ring) {
        const char *size = hr_size_text(e->p, cleared_size(&sizes, e->plan, stage));
        print_launch(e, begin, size, clear_shape(e->plan), HR_CUDA_CLEAR_THREADS, 0);
    }
    const char *total = hr_size_text(e->p, total_size(&sizes, e->plan, stage, c));
    if (!c->flat && (c->few || !c->persistent))
        hr_print(e->p, "if (%s > %" PRId64 ") return (int)cudaErrorInvalidConfiguration; /* rows */", total,
                 c->few ? HR_CUDA_FEW_ROWS : c->blocks_limit * c->block_rows);
    if (hr_cuda_asks_before(c)) {
        hr_print(e->p, "const auto stage_%d_for = aligned ? stage_%d : stage_%d_unaligned;", i, i, i);
        main = hr_format(e->p, "stage_%d_for", i);
    }
    print_launch(e, main, total, shape_of(c), c->threads, c->shared_bytes);
    if (kernels.end)
        print_launch(e, hr_format(e->p, "stage_%d_end", i), hr_format(e->p, "%" PRId64, end_blocks(c)), one,
                     HR_CUDA_END_THREADS, 0);
    return HR_OK;
}

static void print_launcher_arguments(emitter *e) {
    hr_printer *p = e->p;
    hr_print(p, "arguments a = {};");
    for (int i = 0; i < e->function->extent_count; i++) {
        const char *extent = hr_emit_extent(p, i);
        const char *fixed = hr_cuda_is_constant(e->plan, i) ? hr_format(p, "::%s", extent)
                            : has_maps(e)                   ? hr_format(p, "%" PRId64, e->extents[i])
                                                            : NULL;
        if (fixed)
            hr_print(p,
                     "if (%s != %s) return (int)cudaErrorInvalidValue; /* this source is for that extent */",
                     extent, fixed);
        hr_print(p, "a.%s = %s;", extent, extent);
    }
    for (int t = 0; t < e->declared; t++) {
        const hr_tensor *tensor = &e->function->tensors[t];
        const char *name = hr_emit_tensor(p, t);
        hr_print(p, hr_tensor_is_scalar(tensor) ? "a.%s_value = (double)%s;" : "a.%s = %s;", name, name);
        for (int axis = 0; e->plan->layouts[t] == HR_LAYOUT_STRIDED && axis < tensor->rank; axis++)
            hr_print(p, "a.%s_strides[%d] = %s_strides[%d];", name, axis, name, axis);
    }
    hr_print(p, "a.scratch = (char *)scratch;");
    hr_print(p, "a.fault = (fault_record *)fault;");
}

static void print_alignment(emitter *e) {
    bool any = false;
    for (int i = 0; i < e->plan->stage_count; i++)
        any = any || (is_mapped(e, i) || is_product(&e->plan->stages[i])
                          ? is_mapped(e, i) || hr_cuda_gemm_asks(&e->gemms[i])
                          : hr_cuda_asks_before(hr_grid_of(&e->plan->stages[i])));
    if (any) hr_print(e->p, "const bool aligned = %s;", hr_cuda_aligned_condition(e->p));
}

static void print_scratch_size(emitter *e) {
    hr_printer *p = e->p;
    hr_text_format(p->out, "extern \"C\" ");
    print_size_signature(e);
    hr_text_format(p->out, " {\n");
    for (int i = 0; i < e->function->extent_count; i++)
        hr_print(p, "    (void)%s;", hr_emit_extent(p, i));
    const char *size = hr_format(p, "%" PRId64, e->work_bytes);
    for (int t = e->declared; t < e->function->tensor_count; t++)
        if (hr_plan_is_scratch(e->plan, t)) size = hr_format(p, "%s + %s", size, local_size(e, t));
    hr_print(p, "    return %s;", size);
    hr_print(p, "}");
    hr_print(p, "%s", "");
}

static void print_blocks_of(hr_printer *p) {
    hr_print(p, "static int64_t blocks_of(int64_t total, int64_t run, int64_t least, int64_t limit) {");
    hr_print(p, "    int64_t blocks = total / run + (total %% run > 0);");
    hr_print(p, "    return blocks < least ? least : blocks > limit ? limit : blocks;");
    hr_print(p, "}");
    hr_print(p, "%s", "");
}

static hr_status print_launcher(emitter *e) {
    hr_printer *p = e->p;
    print_scratch_size(e);
    if (has_maps(e)) hr_cuda_print_map_maker(p);
    if (has_others(e)) print_blocks_of(p);
    hr_text_format(p->out, "extern \"C\" ");
    print_signature(e);
    hr_text_format(p->out, " {\n");
    p->indent++;
    print_launcher_arguments(e);
    print_alignment(e);
    if (has_others(e)) hr_print(p, "int64_t blocks;");
    for (int i = 0; i < e->plan->stage_count; i++)
        HR_TRY(print_stage_launches(e, i));
    hr_print(p, "return (int)cudaGetLastError();");
    p->indent--;
    hr_print(p, "}");
    return HR_OK;
}

/* ---- the file ---- */

static void print_how_to_call(emitter *e) {
    hr_printer *p = e->p;
    hr_emit_describe(p, e->name);
    for (int i = 0; i < e->function->extent_count; i++)
        if (hr_cuda_is_constant(e->plan, i) || has_maps(e))
            hr_print(p, " * %s is %" PRId64 " in this source.", hr_emit_extent(p, i), e->extents[i]);
    hr_print(p,
             " * All pointers are the device's. scratch: %s_scratch(...) bytes aligned to 256, or NULL where "
             "that is 0.",
             e->name);
    hr_print(p, " * fault: 16 bytes of zeros, aligned to 16; the first 8 are not 0 afterwards where a "
                "subscript left its "
                "axis. Returns a");
    const char *isa = *e->plan->limits.isa ? e->plan->limits.isa : "sm_90a";
    const char *target = has_maps(e)
                             ? hr_format(p, "-gencode arch=compute_%s,code=%s", isa + strlen("sm_"), isa)
                             : hr_format(p, "-arch=%s", isa);
    hr_print(p, " * cudaError_t. Build: nvcc -O3 %s -c %s.cu */", target, e->name);
}

/* The instructions that multiply, once for all stages. */
static hr_status print_products(emitter *e, hr_text *stages) {
    int count = 0;
    hr_tensor_core *products =
        hr_arena_alloc(e->p->arena, (size_t)(e->plan->stage_count + 1) * 2 * sizeof *products);
    for (int i = 0; i < e->plan->stage_count; i++) {
        const hr_cuda_attention *attention = attention_of(&e->plan->stages[i]);
        if (attention && i == attention->first) {
            hr_cuda_attention_products(attention, products + count);
            count += HR_ATTENTION_PRODUCTS;
        }
        if (!is_product(&e->plan->stages[i]) || e->gemms[i].mainloop == HR_GEMM_PLAIN) continue;
        products[count++] = hr_cuda_gemm_product(&e->gemms[i]);
        if (e->siblings[i].mainloop != HR_GEMM_PLAIN)
            products[count++] = hr_cuda_gemm_product(&e->siblings[i]);
    }
    return hr_tensor_core_append(products, count, stages);
}

static hr_status print_stages(emitter *e, hr_text *stages) {
    e->p->out = stages;
    HR_TRY(print_products(e, stages));
    for (int i = 0; i < e->plan->stage_count; i++) {
        const hr_cuda_attention *attention = attention_of(&e->plan->stages[i]);
        if (attention && i == attention->first)
            HR_TRY(hr_emit_attention_cuda(e->p, attention));
        else if (attention)
            continue;
        else if (e->plan->stages[i].shape == HR_SHAPE_CONTRACT && e->gemms[i].mainloop != HR_GEMM_PLAIN)
            HR_TRY(hr_emit_gemm_cuda(e->p, i, &e->gemms[i], &e->siblings[i]));
        else if (e->plan->stages[i].shape == HR_SHAPE_CONTRACT)
            HR_TRY(hr_emit_contract_cuda(e->p, i));
        else
            HR_TRY(hr_emit_stage_cuda(e->p, i, e->extents, hr_grid_of(&e->plan->stages[i])));
    }
    return hr_text_status(stages);
}

static hr_status print_header(emitter *e, hr_text *out) {
    hr_printer *p = e->p;
    p->out = out;
    print_how_to_call(e);
    hr_print(p, "#ifndef HEADROOM_%s_H", e->name);
    hr_print(p, "#define HEADROOM_%s_H", e->name);
    hr_print(p, "#include <stdbool.h>\n#include <stdint.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif");
    print_size_signature(e);
    hr_text_format(out, ";\n");
    print_signature(e);
    hr_text_format(out, ";\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    return hr_text_status(out);
}

static hr_status print_file(emitter *e, const hr_emit_options *options, hr_emitted *out, hr_text *stages,
                            hr_text *body) {
    hr_printer *p = e->p;
    HR_TRY(print_stages(e, stages));
    p->out = body;
    p->indent = 0;
    p->lane = -1;
    print_places(e);
    hr_text_append(body, hr_text_data(stages), stages->length);
    if (options) HR_TRY(print_launcher(e));
    HR_TRY(hr_text_status(body));
    p->out = &out->source;
    print_how_to_call(e);
    if (options) hr_print(p, "#include \"%s\"", hr_emit_header(p, options));
    hr_text_format(p->out, "%s\n", (const char *)hr_cuda_file_head_text);
    print_constants(e);
    print_arguments(e);
    HR_TRY(hr_prelude_cuda_append(hr_text_data(body), &out->source));
    hr_text_append(&out->source, hr_text_data(body), body->length);
    HR_TRY(hr_text_status(&out->source));
    return print_header(e, &out->header);
}

/* `options`: NULL = for the driver. */
static hr_status emit(const hr_plan *plan, const int64_t *extents, const hr_emit_options *options,
                      hr_emitted *out) {
    emitter e = {.plan = plan, .function = plan->normal, .extents = extents, .p = &e.printer};
    e.declared = hr_function_arguments(plan->source);
    *out = (hr_emitted){0};
    if (options) HR_TRY(hr_emit_refuse_lists(plan));
    hr_arena *arena;
    HR_TRY(hr_names_create(&arena));
    hr_text stages = {0}, body = {0};
    hr_status status = choose_gemms(&e, arena);
    if (status == HR_OK) status = work_bytes(plan, extents, &e.work_bytes);
    if (status == HR_OK) status = hr_printer_begin(e.p, plan, arena, &stages);
    if (status == HR_OK) {
        /* What is pasted keeps its kernels to itself: several such files go into one program. What the driver
         * loads bears names that it can look up. */
        e.p->kernel = options ? "static __global__" : "extern \"C\" __global__";
        e.name = hr_emit_name(plan, options);
        status = print_file(&e, options, out, &stages, &body);
        if (status == HR_OK) status = hr_names_status(plan, arena);
        hr_printer_end(e.p);
    }
    hr_text_clear(&stages);
    hr_text_clear(&body);
    hr_arena_destroy(arena);
    if (status != HR_OK) hr_emitted_clear(out);
    return status;
}

hr_status hr_emit_cuda(const hr_plan *plan, const int64_t *extents, const hr_emit_options *options,
                       hr_emitted *out) {
    const hr_emit_options none = {.size = sizeof none};
    return emit(plan, extents, options ? options : &none, out);
}

hr_status hr_emit_cuda_loaded(const hr_plan *plan, const int64_t *extents, hr_emitted *out) {
    return emit(plan, extents, NULL, out);
}
