/* The launcher of CUDA source to paste, as C++ of the host. In: a plan whose kernels are printed. Out: text.
 */
#include "emit/cuda/emit_cuda_parts.h"

#include "base/dtype.h"
#include "emit/assumptions.h"
#include "emit/cuda/launcher_text.h"
#include "emit/cuda/stage_cuda_contract.h"
#include "emit/cuda/stage_cuda_general.h"
#include "emit/cuda/stage_cuda_order.h"
#include "schedule/cuda/cuda_follow.h"

#include <inttypes.h>

enum { PORTABLE_CLUSTER = 8, STAGE_LAUNCHES = 4 /* of attention's gradients */ };

/* ---- launches with tensor maps ---- */

/* make_map(), once in front of the launcher. */
static void print_map_maker(hr_printer *p) {
    hr_text_format(p->out, "%s\n", (const char *)hr_cuda_launcher_maps_text);
}

static const char *numbers(hr_printer *p, const int64_t *list, int count) {
    const char *text = "";
    for (int i = 0; i < count; i++)
        text = hr_format(p, "%s%s%" PRId64, text, i ? ", " : "", list[i]);
    return text;
}

static void print_map(hr_printer *p, const hr_launch *launch, int number) {
    const hr_tensor_map *map = &launch->maps[number];
    int64_t box[HR_MAP_RANK_MAX];
    for (int axis = 0; axis < map->rank; axis++)
        box[axis] = map->box[axis];
    hr_print(p, "tensor_map map_%d;", number);
    hr_print(p, "const tensor_boxes boxes_%d = {%d, %d, {%s}, {%s}, {%s}, %d, %d, %d};", number, map->type,
             map->rank, numbers(p, map->dims, map->rank), numbers(p, map->strides, map->rank),
             numbers(p, box, map->rank), map->swizzle, map->promotion, map->fill);
    const char *base = map->tensor == HR_MAP_SCRATCH ? "scratch" : hr_emit_tensor(p, map->tensor);
    hr_print(p,
             "if (const int error = make_map(&map_%d, boxes_%d, (const char *)a.%s + %" PRId64
             ")) return error;",
             number, number, base, map->offset);
}

/* Makes the maps of the launch and launches `launch->entry`; returns from the launcher where that fails. */
static void print_launch_with_maps(hr_printer *p, const hr_launch *launch) {
    const char *maps = "";
    for (int i = 0; i < launch->map_count; i++) {
        print_map(p, launch, i);
        maps = hr_format(p, "%smap_%d, ", maps, i);
    }
    hr_print(p, "cudaFuncSetAttribute(%s, cudaFuncAttributeMaxDynamicSharedMemorySize, %" PRId64 ");",
             launch->entry, launch->shared);
    if (launch->cluster > PORTABLE_CLUSTER)
        hr_print(p, "cudaFuncSetAttribute(%s, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);",
                 launch->entry);
    hr_print(p, "cudaLaunchAttribute cluster = {};");
    hr_print(p, "cluster.id = cudaLaunchAttributeClusterDimension;");
    hr_print(p, "cluster.val.clusterDim = {%d, 1, 1};", launch->cluster);
    hr_print(p, "cudaLaunchConfig_t config = {};");
    hr_print(p, "config.gridDim = dim3(%" PRId64 ", %" PRId64 ", %" PRId64 ");", launch->grid[0],
             launch->grid[1], launch->grid[2]);
    hr_print(p, "config.blockDim = dim3(%d);", launch->threads);
    hr_print(p, "config.dynamicSmemBytes = %" PRId64 ";", launch->shared);
    hr_print(p, "config.stream = (cudaStream_t)stream;");
    hr_print(p, "config.attrs = &cluster;");
    hr_print(p, "config.numAttrs = 1;");
    hr_print(p, "const cudaError_t error = cudaLaunchKernelEx(&config, %s, %sa);", launch->entry, maps);
    hr_print(p, "if (error != cudaSuccess) return (int)error;");
}

/* Its kernel copies by tensor maps. */
static bool is_mapped(const hr_cuda_emitter *e, int i) {
    const hr_stage *stage = &e->plan->stages[i];
    return hr_cuda_is_joined(stage) || (hr_cuda_is_product(stage) && e->gemms[i].mainloop == HR_GEMM_HOPPER);
}

/* Some kernel does; they are made for the extents of this source. */
bool hr_cuda_has_maps(const hr_cuda_emitter *e) {
    for (int i = 0; i < e->plan->stage_count; i++)
        if (is_mapped(e, i)) return true;
    return false;
}

/* Its launches are for the extents of this source. */
static bool is_fixed(const hr_cuda_emitter *e, int i) {
    return is_mapped(e, i) || (hr_cuda_is_product(&e->plan->stages[i]) &&
                               (e->gemms[i].mainloop == HR_GEMM_THIN || e->gemms[i].groups ||
                                hr_gemm_walk_of(&e->plan->stages[i])));
}

bool hr_cuda_is_for_extents(const hr_cuda_emitter *e) {
    for (int i = 0; i < e->plan->stage_count; i++)
        if (is_fixed(e, i) || (hr_cuda_is_product(&e->plan->stages[i]) && e->gemms[i].work_bytes))
            return true;
    return false;
}

/* Some stage is launched without. */
static bool has_others(const hr_cuda_emitter *e) {
    for (int i = 0; i < e->plan->stage_count; i++)
        if (!is_fixed(e, i)) return true;
    return false;
}

/* ---- parameters ---- */

void hr_cuda_append_parameters(hr_cuda_emitter *e, hr_text *out) {
    hr_printer *p = e->p;
    hr_text_format(out, "void *stream, ");
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
        if (hr_layout_has_strides(e->plan->layouts[t]))
            hr_text_format(out, "const int64_t *%s_strides, ", name);
    }
    hr_text_format(out, "void *scratch, void *fault");
}

void hr_cuda_append_arguments(hr_cuda_emitter *e, hr_text *out) {
    hr_text_format(out, "stream, ");
    for (int i = 0; i < e->function->extent_count; i++)
        hr_text_format(out, "%s, ", hr_emit_extent(e->p, i));
    for (int t = 0; t < e->declared; t++) {
        const char *name = hr_emit_tensor(e->p, t);
        hr_text_format(out, "%s, ", name);
        if (hr_layout_has_strides(e->plan->layouts[t])) hr_text_format(out, "%s_strides, ", name);
    }
    hr_text_format(out, "scratch, fault");
}

static const char *extents_listed(hr_cuda_emitter *e, const char *type) {
    const char *list = "";
    for (int i = 0; i < e->function->extent_count; i++)
        list = hr_format(e->p, "%s%s%s%s", list, i ? ", " : "", type, hr_emit_extent(e->p, i));
    return list;
}

const char *hr_cuda_extents_declared(hr_cuda_emitter *e) {
    return extents_listed(e, "int64_t ");
}

const char *hr_cuda_extents_passed(hr_cuda_emitter *e) {
    return extents_listed(e, "");
}

/* ---- launches ---- */

/* `code`: the function, or a pointer to the one that these arrays can have. */
static void print_launch(hr_cuda_emitter *e, const char *code, const char *total, hr_launch_shape s,
                         int threads, int64_t shared) {
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

static void print_product_launch(hr_cuda_emitter *e, int i, const char *main, hr_launch_shape one) {
    const hr_stage *stage = &e->plan->stages[i];
    const hr_cuda_gemm *gemm = &e->gemms[i];
    if (gemm->mainloop == HR_GEMM_PLAIN) {
        hr_sizes sizes = {0};
        print_launch(e, main, hr_size_text(e->p, hr_cuda_contract_size(&sizes, e->plan, stage)), one,
                     HR_CUDA_CONTRACT_THREADS, 0);
        return;
    }
    if (hr_cuda_gemm_checks_alignment(gemm)) {
        hr_print(e->p, "const auto stage_%d_for = aligned ? stage_%d : stage_%d_unaligned;", i, i, i);
        main = hr_format(e->p, "stage_%d_for", i);
    }
    print_launch(e, main, hr_cuda_gemm_size(e->p, stage, gemm), one, gemm->threads, gemm->shared_bytes);
}

static void print_fixed_launch(hr_printer *p, const char *entry, const hr_launch *launch) {
    if (launch->shared)
        hr_print(p, "cudaFuncSetAttribute(%s, cudaFuncAttributeMaxDynamicSharedMemorySize, %" PRId64 ");",
                 entry, launch->shared);
    hr_print(p, "%s<<<%" PRId64 ", %d, %" PRId64 ", (cudaStream_t)stream>>>(a);", entry, launch->grid[0],
             launch->threads, launch->shared);
}

static void print_aligned_launch(hr_printer *p, const hr_launch *launch) {
    if (!launch->map_count) {
        print_fixed_launch(p, launch->entry, launch);
        return;
    }
    hr_print(p, "{");
    p->indent++;
    print_launch_with_maps(p, launch);
    p->indent--;
    hr_print(p, "}");
}

/* With maps, if any, for the extents of this source; arrays that begin anywhere take the other kernel. Beside
 * one with maps, kernels without have nothing to do then. */
static hr_status print_mapped_launch(hr_cuda_emitter *e, int i) {
    hr_printer *p = e->p;
    hr_launch launches[STAGE_LAUNCHES];
    int count;
    bool asks = false, maps = false;
    HR_TRY(hr_cuda_stage_launches(e->plan, e->extents, i, e->work_bytes, launches, STAGE_LAUNCHES, &count));
    if (!count) return HR_OK; /* the region's first stage has its launch */
    for (int l = 0; l < count; l++) {
        maps = maps || launches[l].map_count;
        asks = asks || (launches[l].unaligned[0] && launches[l].grid[0]);
    }
    hr_print(p, asks ? "if (aligned) {" : "{");
    p->indent++;
    for (int l = 0; l < count; l++)
        if (launches[l].grid[0]) print_aligned_launch(p, &launches[l]);
    p->indent--;
    hr_print(p, asks ? "} else {" : "}");
    if (!asks) return HR_OK;
    p->indent++;
    for (int l = 0; l < count; l++) {
        const char *entry = launches[l].unaligned[0] ? launches[l].unaligned : launches[l].entry;
        if (launches[l].grid[0] && (launches[l].map_count || !launches[l].unaligned[0] || !maps))
            print_fixed_launch(p, entry, &launches[l]);
    }
    p->indent--;
    hr_print(p, "}");
    return HR_OK;
}

static void print_general_launches(hr_cuda_emitter *e, int i, const char *main, const char *begin) {
    const hr_stage *stage = &e->plan->stages[i];
    hr_sizes sizes = {0};
    if (hr_cuda_general_begins(e->plan, stage))
        print_launch(e, begin, hr_size_text(e->p, hr_cuda_cleared_size(&sizes, e->plan, stage)),
                     hr_cuda_clear_shape(e->plan), HR_CUDA_GENERAL_THREADS, 0);
    print_launch(e, main, hr_size_text(e->p, hr_cuda_general_size(&sizes, e->plan, stage)),
                 hr_cuda_general_shape(e->plan, stage), HR_CUDA_GENERAL_THREADS, 0);
}

static hr_status print_stage_launches(hr_cuda_emitter *e, int i) {
    const hr_stage *stage = &e->plan->stages[i];
    const hr_cuda_choice *c = hr_grid_of(stage);
    hr_sizes sizes = {0};
    hr_launch_shape one = {1, 0, INT32_MAX, 1, false};
    const char *main = hr_format(e->p, "stage_%d", i), *begin = hr_format(e->p, "%s_begin", main);
    if (is_fixed(e, i)) return print_mapped_launch(e, i);
    if (stage->shape == HR_SHAPE_CONTRACT) {
        print_product_launch(e, i, main, one);
        return HR_OK;
    }
    if (hr_stage_is_ordered(stage)) {
        const char *rows = hr_size_text(e->p, hr_cuda_ordered_size(&sizes, e->plan, stage));
        const hr_launch_shape shape = hr_cuda_ordered_shape(e->plan, stage);
        const int threads = hr_cuda_ordered_threads(e->plan, stage);
        if (hr_cuda_ordered_parts(e->plan, stage) > 1) print_launch(e, begin, rows, shape, threads, 0);
        print_launch(e, main, rows, shape, threads, 0);
        return HR_OK;
    }
    if (e->plan->general) {
        print_general_launches(e, i, main, begin);
        return HR_OK;
    }
    if (hr_cuda_follows(stage)) return HR_OK;
    hr_stage_kernels kernels = hr_stage_kernels_of(e->plan, stage, c);
    if (c->rows == HR_CUDA_ROWS_RING) print_launch(e, begin, "1", one, HR_CUDA_CLEAR_THREADS, 0);
    if (kernels.begin && c->rows != HR_CUDA_ROWS_RING) {
        const char *size = hr_size_text(e->p, hr_cuda_cleared_size(&sizes, e->plan, stage));
        print_launch(e, begin, size, hr_cuda_clear_shape(e->plan), HR_CUDA_CLEAR_THREADS, 0);
    }
    const char *total = hr_size_text(e->p, hr_cuda_total_size(&sizes, e->plan, stage, c));
    if (hr_cuda_checks_alignment(c)) {
        hr_print(e->p, "const auto stage_%d_for = aligned ? stage_%d : stage_%d_unaligned;", i, i, i);
        main = hr_format(e->p, "stage_%d_for", i);
    }
    print_launch(e, main, total, hr_cuda_shape_of(c), c->threads, c->shared_bytes);
    if (kernels.end)
        print_launch(e, hr_format(e->p, "stage_%d_end", i),
                     hr_format(e->p, "%" PRId64, hr_cuda_end_blocks(c)), one, HR_CUDA_END_THREADS, 0);
    return HR_OK;
}

/* The part whose place this one takes may get NULL for the result, and this one reads it: it has a place
 * behind the locals then. */
static bool has_own_place(const hr_cuda_emitter *e, int tensor) {
    return e->fast && hr_plan_result_is_optional(e->fast, tensor) &&
           !hr_plan_result_is_optional(e->plan, tensor);
}

static const char *locals_size(hr_cuda_emitter *e) {
    const char *size = hr_format(e->p, "%" PRId64, e->work_bytes);
    for (int t = e->declared; t < e->function->tensor_count; t++)
        if (hr_plan_is_scratch(e->plan, t)) size = hr_format(e->p, "%s + %s", size, hr_cuda_local_size(e, t));
    return size;
}

static void print_spares(hr_cuda_emitter *e) {
    hr_printer *p = e->p;
    const char *place = locals_size(e);
    for (int t = 0; t < e->declared; t++) {
        const char *name = hr_emit_tensor(p, t);
        if (!has_own_place(e, t)) continue;
        hr_print(p, "if (!a.%s) a.%s = (%s *)(void *)(a.scratch + (%s));", name, name,
                 hr_c_storage(e->function->tensors[t].dtype), place);
        place = hr_format(p, "%s + %s", place, hr_cuda_local_size(e, t));
    }
}

static void print_launcher_arguments(hr_cuda_emitter *e) {
    hr_printer *p = e->p;
    hr_print(p, "arguments a = {};");
    for (int i = 0; i < e->function->extent_count; i++) {
        const char *extent = hr_emit_extent(p, i);
        hr_print(p, "a.%s = %s;", extent, extent);
    }
    for (int t = 0; t < e->declared; t++) {
        const hr_tensor *tensor = &e->function->tensors[t];
        const char *name = hr_emit_tensor(p, t);
        hr_print(p, hr_tensor_is_scalar(tensor) ? "a.%s_value = (double)%s;" : "a.%s = %s;", name, name);
        for (int axis = 0; hr_layout_has_strides(e->plan->layouts[t]) && axis < tensor->rank; axis++)
            hr_print(p, "a.%s_strides[%d] = %s_strides[%d];", name, axis, name, axis);
    }
    hr_print(p, "a.scratch = (char *)scratch;");
    print_spares(e);
    hr_print(p, "a.fault = (fault_record *)fault;");
}

static void print_alignment(hr_cuda_emitter *e) {
    bool any = false;
    for (int i = 0; i < e->plan->stage_count && !e->plan->general; i++)
        any = any || (is_fixed(e, i) || hr_cuda_is_product(&e->plan->stages[i])
                          ? is_fixed(e, i) || hr_cuda_gemm_checks_alignment(&e->gemms[i])
                          : !hr_stage_is_ordered(&e->plan->stages[i]) &&
                                hr_cuda_checks_alignment(hr_grid_of(&e->plan->stages[i])));
    if (any) hr_print(e->p, "const bool aligned = %s;", hr_cuda_aligned_condition(e->p));
}

static void print_scratch_size(hr_cuda_emitter *e) {
    hr_printer *p = e->p;
    hr_text_format(p->out, "static int64_t scratch_bytes(%s) {\n", hr_cuda_extents_declared(e));
    for (int i = 0; i < e->function->extent_count; i++)
        hr_print(p, "    (void)%s;", hr_emit_extent(p, i));
    const char *size = locals_size(e);
    for (int t = 0; t < e->declared; t++)
        if (has_own_place(e, t)) size = hr_format(p, "%s + %s", size, hr_cuda_local_size(e, t));
    hr_print(p, "    return %s;", size);
    hr_print(p, "}");
    hr_print(p, "%s", "");
}

/* ---- for which extents a part is ---- */

/* Of a stage without maps: its positions are as narrow as they were planned, and blocks suffice for its rows.
 */
static void print_stage_condition(hr_cuda_emitter *e, int i) {
    const hr_stage *stage = &e->plan->stages[i];
    const hr_cuda_choice *c = hr_grid_of(stage);
    hr_sizes sizes = {0};
    if (is_mapped(e, i) || stage->contract || hr_cuda_is_joined(stage)) return;
    const bool ordered = hr_stage_is_ordered(stage);
    const int64_t most = ordered ? hr_cuda_ordered_most(e->plan, stage) : hr_cuda_total_most(c);
    if (most == INT64_MAX) return;
    const char *total = hr_size_text(e->p, ordered ? hr_cuda_ordered_size(&sizes, e->plan, stage)
                                                   : hr_cuda_total_size(&sizes, e->plan, stage, c));
    hr_print(e->p, "if (%s > %" PRId64 ") return false;", total, most);
}

/* Numbers in the text are its extents; the others may have any value that its choices allow. */
static void print_holds(hr_cuda_emitter *e) {
    hr_printer *p = e->p;
    hr_text_format(p->out, "static bool holds(%s) {\n", hr_cuda_extents_declared(e));
    p->indent++;
    for (int i = 0; i < e->function->extent_count && !e->plan->general; i++)
        if (hr_cuda_is_constant(e->plan, i) || hr_cuda_is_for_extents(e))
            hr_print(p, "if (%s != %" PRId64 ") return false;", hr_emit_extent(p, i), e->extents[i]);
    hr_print(p, "if (!%s) return false;", hr_emit_assumptions_call(p, "", ""));
    for (int i = 0; i < e->plan->stage_count && !e->plan->general; i++)
        print_stage_condition(e, i);
    hr_print(p, "return true;");
    p->indent--;
    hr_text_format(p->out, "}\n\n");
}

static void print_blocks_of(hr_printer *p) {
    hr_print(p, "static int64_t blocks_of(int64_t total, int64_t run, int64_t least, int64_t limit) {");
    hr_print(p, "    int64_t blocks = total / run + (total %% run > 0);");
    hr_print(p, "    return blocks < least ? least : blocks > limit ? limit : blocks;");
    hr_print(p, "}");
    hr_print(p, "%s", "");
}

hr_status hr_cuda_print_launcher(hr_cuda_emitter *e) {
    hr_printer *p = e->p;
    print_scratch_size(e);
    if (hr_cuda_has_maps(e)) print_map_maker(p);
    if (has_others(e)) print_blocks_of(p);
    HR_TRY(hr_emit_assumptions(p));
    print_holds(e);
    hr_text_format(p->out, "static int launch(");
    hr_cuda_append_parameters(e, p->out);
    hr_text_format(p->out, ") {\n");
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
