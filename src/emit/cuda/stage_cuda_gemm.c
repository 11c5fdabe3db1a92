/* The stage of a matrix product on the tensor cores as a CUDA kernel. In: a stage. Out: text. See
 * stage_cuda_gemm.h. */
#include "emit/cuda/stage_cuda_gemm.h"

#include "base/dtype.h"
#include "emit/cuda/gemm_partial_sums.h"
#include "emit/cuda/gemm_side.h"
#include "emit/cuda/gemm_walk_text.h"
#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_contract.h"

#include <inttypes.h>
#include <string.h>

const char *hr_cuda_gemm_size(hr_printer *p, const hr_stage *stage, const hr_cuda_gemm *gemm) {
    const hr_contract *c = stage->contract;
    const int columns = hr_gemm_right_columns(gemm, &gemm->tile);
    return hr_format(p, "(%s) * ((%s + %d) / %d) * ((%s + %d) / %d)",
                     hr_emit_points(p, c->batch, c->batch_count), hr_emit_points(p, c->m, c->m_count),
                     gemm->tile.m - 1, gemm->tile.m, hr_emit_points(p, c->n, c->n_count), columns - 1,
                     columns);
}

/* ---- results ---- */

static void print_store(void *context) {
    gemm_printer *g = context;
    hr_cuda_print_contract_epilogue(g->p, g->stage);
}

static void print_result_indices(gemm_printer *g, bool rows) {
    const hr_contract *c = g->contract;
    hr_cuda_print_digits(g->p, c->batch, c->batch_count, "batch");
    if (rows) hr_cuda_print_digits(g->p, c->m, c->m_count, "m");
    hr_cuda_print_digits(g->p, c->n, c->n_count, "n");
}

/* What the epilogue makes of a sum, not stored yet. What was found out for the whole tile has names. */
static void print_values(void *context) {
    gemm_printer *g = context;
    hr_printer *p = g->p;
    const hr_cuda_gemm *gemm = g->gemm;
    print_result_indices(g, true);
    for (int i = 0; i < gemm->column_count; i++)
        p->name[gemm->columns[i]->id] = hr_format(p, "column[%d]", i);
    if (gemm->staged_block) p->name[gemm->staged_block->id] = "staged";
    if (gemm->tile.splits > 1) hr_print(p, "e[0] = sum;");
    for (int r = 0; r < gemm->result_count && gemm->tile.splits <= 1; r++) {
        const hr_step *step = &g->stage->steps[gemm->result_steps[r]];
        hr_cuda_name_sums(p, g->contract, step);
        hr_print(p, "e[%d] = %s;", r, hr_expr_text(p, step->value));
    }
    hr_gemm_print_partial_values(g, gemm->result_count);
    for (int i = 0; i < gemm->column_count; i++)
        p->name[gemm->columns[i]->id] = NULL;
    if (gemm->staged_block) p->name[gemm->staged_block->id] = NULL;
    hr_cuda_forget_sums(p, g->contract);
}

static void print_columns(void *context) {
    gemm_printer *g = context;
    print_result_indices(g, false);
    for (int i = 0; i < g->gemm->column_count; i++)
        hr_print(g->p, "value[%d] = %s;", i, hr_expr_text(g->p, g->gemm->columns[i]));
}

static void print_conversions(gemm_printer *g) {
    hr_printer *p = g->p;
    const char *dtype = g->gemm->result_dtype == HR_BF16 ? "bf16" : "f16";
    if (g->gemm->result_dtype == HR_F32) return;
    hr_print(p, "    static __device__ inline uint32_t pair(float low, float high) {");
    hr_print(p, "        return %s_pair(low, high);", dtype);
    hr_print(p, "    }");
    if (!g->gemm->staged_block) return;
    hr_print(p, "    static __device__ inline void unpack(uint32_t word, float &low, float &high) {");
    hr_print(p, "        low = f32_from_%s((uint16_t)word);", dtype);
    hr_print(p, "        high = f32_from_%s((uint16_t)(word >> 16));", dtype);
    hr_print(p, "    }");
}

static void print_tile_values(gemm_printer *g) {
    hr_printer *p = g->p;
    const hr_cuda_gemm *gemm = g->gemm;
    if (gemm->column_count) {
        hr_print(
            p,
            "    static __device__ inline void column_values(const arguments &a, int64_t batch, int64_t n,");
        hr_print(p, "                                                float (&value)[%d]) {",
                 gemm->column_count);
        hr_print(p, "        stage_%d_columns(a, batch, n, value);", g->number);
        hr_print(p, "    }");
    }
    if (!gemm->staged_block) return;
    hr_print(p,
             "    static __device__ inline void load_staged(uint32_t to, const stage_%d_maps &maps, int n, "
             "int m, int batch,",
             g->number);
    hr_print(p, "                                               uint32_t barrier) {");
    hr_print(p, "        ptx_tensor_load_%dd(to, maps.staged, n, m%s, barrier);", gemm->staged_view.rank,
             hr_gemm_batch_coordinates(p, &gemm->staged_view, "batch"));
    hr_print(p, "    }");
}

/* Of the tensor cores. */
static const char *sum_type(const hr_cuda_gemm *gemm) {
    return hr_gemm_is_whole(gemm) ? "int32_t" : "float";
}

static void print_results(gemm_printer *g) {
    hr_printer *p = g->p;
    const hr_cuda_gemm *gemm = g->gemm;
    hr_print(p, "    static constexpr int results = %d, result_bytes = %d, columns = %d;", gemm->result_count,
             (int)hr_dtype_size(gemm->result_dtype), gemm->column_count);
    hr_print(p, "    static constexpr bool has_staged = %s, throttled = %s;",
             gemm->staged_block ? "true" : "false", gemm->throttled ? "true" : "false");
    hr_print(p,
             "    static __device__ inline void values(const arguments &a, int64_t batch, int64_t m, "
             "int64_t n, %s,",
             hr_cuda_sums_parameter(g->p, g->contract, sum_type(gemm)));
    hr_print(p,
             "                                         const float (&column)[%d], float staged, float "
             "(&e)[%d]) {",
             gemm->column_count ? gemm->column_count : 1, gemm->result_count + gemm->partial_count);
    hr_print(p, "        stage_%d_values(a, batch, m, n, sum, column, staged, e);", g->number);
    hr_print(p, "    }");
    print_conversions(g);
    print_tile_values(g);
    hr_gemm_print_box_stores(g);
}

/* ---- the kernel ---- */

static hr_tensor_type tensor_type(hr_dtype dtype) {
    switch (dtype) {
    case HR_F16:
        return HR_TENSOR_F16;
    case HR_F8E4M3:
        return HR_TENSOR_E4M3;
    case HR_F8E5M2:
        return HR_TENSOR_E5M2;
    case HR_I8:
        return HR_TENSOR_S8;
    case HR_U8:
        return HR_TENSOR_U8;
    default:
        return HR_TENSOR_BF16;
    }
}

hr_tensor_core hr_cuda_gemm_product(const hr_cuda_gemm *gemm) {
    hr_tensor_core product = {.threads = HR_TENSOR_WARP,
                              .a = tensor_type(gemm->left.dtype),
                              .b = tensor_type(gemm->right.dtype),
                              .sum = hr_gemm_is_whole(gemm) ? HR_TENSOR_SUM_S32 : HR_TENSOR_SUM_F32,
                              .columns = 8};
    if (gemm->mainloop != HR_GEMM_HOPPER) return product;
    product.threads = HR_TENSOR_WARPGROUP;
    product.columns = gemm->tile.n;
    product.a_place = hr_gemm_is_raw(gemm) ? HR_TENSOR_REGISTERS
                      : gemm->left.k_major ? HR_TENSOR_K_MAJOR
                                           : HR_TENSOR_MN_MAJOR;
    product.b_place = gemm->right.k_major ? HR_TENSOR_K_MAJOR : HR_TENSOR_MN_MAJOR;
    return product;
}

static const char *product_name(gemm_printer *g, const hr_cuda_gemm *gemm) {
    hr_tensor_core product = hr_cuda_gemm_product(gemm);
    char name[96];
    hr_tensor_core_name(&product, name, sizeof name);
    return hr_format(g->p, "%s", name);
}

static void print_right_batch(gemm_printer *g) {
    hr_printer *p = g->p;
    bool apart = false;
    for (int i = 0; i < g->gemm->rights; i++)
        apart = apart || hr_gemm_right(g->gemm, i)->choice;
    hr_print(p, "    static constexpr bool rights_apart = %s;", apart ? "true" : "false");
    hr_print(p, "    static __device__ inline right::batch_type right_batch(const arguments &a, int "
                "batch, int number) {");
    for (int i = 1; i < g->gemm->rights && apart; i++)
        hr_print(p, "        if (number == %d) return right_%d::batch_of(a, batch);", i, i);
    hr_print(p, "        return right::batch_of(a, batch);");
    hr_print(p, "    }");
}

static void print_hopper_members(gemm_printer *g) {
    hr_printer *p = g->p;
    const hr_cuda_gemm *c = g->gemm;
    hr_print(p, "    static constexpr int cluster = %d, pieces = %d, splits = %d;", c->tile.cluster,
             c->tile.pieces, c->tile.splits);
    hr_gemm_print_walk_members(g);
    unsigned left = 0, right = 0;
    for (int i = 0; i < c->pair_count; i++) {
        left |= (unsigned)c->pairs[i].left << 4 * i;
        right |= (unsigned)c->pairs[i].right << 4 * i;
    }
    hr_print(p, "    static constexpr int pairs = %d;", c->pair_count);
    hr_print(p, "    static constexpr unsigned left_parts = %#x, right_parts = %#x;", left, right);
    hr_print(p, "    static constexpr int producer_registers = %d, consumer_registers = %d;",
             c->producer_registers, c->consumer_registers);
    hr_print(p, "    static constexpr bool ping_pong = %s, stores_boxes = %s;",
             c->tile.roles == HR_GEMM_PING_PONG ? "true" : "false", c->result_count ? "true" : "false");
    hr_print(p, "    static constexpr int stream = %d, stream_clusters = %d;", c->tile.stream,
             c->tile.stream_clusters);
    if (c->tile.stream) {
        hr_print(p, "    static __device__ inline char *stream_sums(const arguments &a) {");
        hr_print(p, "        return a.scratch + %" PRId64 ";", c->stream_at);
        hr_print(p, "    }");
    }
    hr_print(p, "    static constexpr int chain = %d, left_rows = %d;", hr_gemm_chain(c), c->left_rows);
    hr_print(p, "    static constexpr int k_step = %d;", hr_gemm_step(c));
    hr_print(p, "    static constexpr bool scaled = %s, computes = %s;",
             hr_gemm_is_scaled(c) ? "true" : "false", hr_gemm_is_raw(c) ? "true" : "false");
    hr_print(p, "    static constexpr int left_row = %d, left_columns = %d, scale_k = %d, scales_apart = %d;",
             hr_gemm_is_raw(c) ? c->left.raw_bytes : 128, c->left_columns, c->scale_k,
             c->scale_k && c->scale_k < hr_gemm_step(c) ? c->scale_k : hr_gemm_step(c));
    if (hr_gemm_is_raw(c)) hr_gemm_print_raw_members(g);
    print_right_batch(g);
    if (hr_gemm_is_scaled(c)) {
        hr_gemm_print_scale_member(g, &c->left, "left");
        hr_gemm_print_scale_member(g, &c->right, "right");
    }
    hr_print(p, "    typedef %s sum_type;", sum_type(c));
    hr_print(p, "    static constexpr int n_run = %d;", c->n_run);
    hr_print(p,
             "    static __device__ inline void multiply(sum_type (&d)[tile_n / 2], %s, uint64_t b, "
             "int accumulate) {",
             hr_gemm_is_raw(c) ? "const uint32_t (&a)[4]" : "uint64_t a");
    hr_print(p, "        %s(d, a, b, accumulate);", product_name(g, c));
    hr_print(p, "    }");
    if (!c->result_count) {
        hr_print(p, "    static constexpr int results = 0, result_bytes = 2, columns = 0;");
        hr_print(p, "    static constexpr bool has_staged = false;");
        return;
    }
    print_results(g);
}

/* The stage's own store() takes whole sums in f64, as threads add them up. */
static void print_store_member(gemm_printer *g, const hr_cuda_gemm *gemm) {
    hr_printer *p = g->p;
    const bool converts = hr_gemm_is_whole(gemm) && gemm->rights > 1;
    const char *type = converts ? "int32_t" : hr_gemm_is_whole(gemm) ? "double" : "float", *sums = "sum";
    hr_print(p,
             "    static __device__ inline void store(const arguments &a, int64_t batch, int64_t m, "
             "int64_t n, %s) {",
             hr_cuda_sums_parameter(p, g->contract, type));
    if (converts) {
        const char *list = "(double)sum[0]";
        for (int i = 1; i < gemm->rights; i++)
            list = hr_format(p, "%s, (double)sum[%d]", list, i);
        hr_print(p, "        const double wide[%d] = {%s};", gemm->rights, list);
        sums = "wide";
    }
    hr_print(p, "        stage_%d_store(a, batch, %s, n, %s);", g->number,
             gemm->groups ? "((const int *)a.scratch)[m]" : "m", sums);
    hr_print(p, "    }");
}

/* `gemm`: a product of this stage by some main loop. */
static void print_shape(gemm_printer *g, const hr_cuda_gemm *gemm) {
    hr_printer *p = g->p;
    bool hopper = gemm->mainloop == HR_GEMM_HOPPER;
    hr_print(p, "struct stage_%d_%s {", g->number, hopper ? "hopper" : "ampere");
    hr_print(p, "    static constexpr int tile_m = %d, tile_n = %d, stages = %d, raster = %d;", gemm->tile.m,
             gemm->tile.n, gemm->tile.stages, gemm->tile.raster);
    hr_print(p, "    typedef stage_%d_left_side left;", g->number);
    hr_print(p, "    typedef stage_%d_right_side right;", g->number);
    for (int i = 1; i < gemm->rights; i++)
        hr_print(p, "    typedef stage_%d_right_%d_side right_%d;", g->number, i, i);
    hr_print(p, "    static constexpr int rights = %d, right_n = %d;", gemm->rights,
             hr_gemm_right_columns(gemm, &gemm->tile));
    hr_gemm_print_partial_members(g);
    if (hopper) {
        print_hopper_members(g);
    } else {
        hr_print(p, "    static constexpr int threads = %d, warps_m = %d;", gemm->threads, gemm->warps_m);
        hr_gemm_print_terms(p, g->number, "ampere");
        hr_print(p, "    static __device__ inline void multiply(float (&d)[4], const uint32_t (&a)[4], const "
                    "uint32_t (&b)[2]) {");
        hr_print(p, "        %s(d, a, b);", product_name(g, gemm));
        hr_print(p, "    }");
    }
    if (!hr_gemm_walk_is_term(p->plan, g->stage)) print_store_member(g, gemm);
    if (gemm->groups) {
        hr_print(p, "    static constexpr int groups = %" PRId64 ";", gemm->groups);
        hr_print(p, "    static __device__ inline int group(const arguments &a, int64_t m) {");
        hr_print(p, "        return stage_%d_group(a, m);", g->number);
        hr_print(p, "    }");
    }
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

static void print_size(gemm_printer *g, hr_stage_kernels others) {
    const hr_contract *c = g->contract;
    hr_cuda_print_overlap(g->p, g->number, others);
    hr_print(g->p, "const gemm_size size = {%s, %s, %s, %s};", hr_emit_points(g->p, c->batch, c->batch_count),
             hr_emit_points(g->p, c->m, c->m_count), hr_emit_points(g->p, c->n, c->n_count),
             hr_emit_points(g->p, c->k, c->k_count));
}

/* Of the kernel that multiplies. */
static void print_main_size(gemm_printer *g) {
    print_size(g, (hr_stage_kernels){.begin = g->gemm->lay_blocks || g->gemm->groups,
                                     .end = hr_cuda_gemm_folds(g->gemm)});
}

/* By the arithmetic of threads, all products of the walk. */
static void print_by_threads(gemm_printer *g, const char *type) {
    const hr_gemm_walk *walk = hr_gemm_walk_of(g->stage);
    hr_print(g->p, "gemm_plain<stage_%d_plain>(a, size, *(gemm_plain_tiles<%s> *)gemm_memory());", g->number,
             type);
    for (int i = 1; walk && i < walk->count && walk->kind != HR_GEMM_WALK_SUM; i++)
        hr_print(g->p,
                 "gemm_plain<stage_%d_plain>(a, stage_%d_size(a), *(gemm_plain_tiles<%s> *)gemm_memory());",
                 walk->stage[i], walk->stage[i], type);
}

/* Where some value has no parts, threads multiply; this kernel does, or it has nothing to do. */
static void print_flagged(gemm_printer *g, bool multiplies) {
    hr_printer *p = g->p;
    if (!hr_gemm_has_flags(g->gemm)) return;
    hr_print(p, "if (gemm_is_flagged((const int *)a.scratch, %" PRId64 ")) {", g->gemm->lay_blocks);
    p->indent++;
    if (multiplies) print_by_threads(g, "float");
    hr_print(p, "return;");
    p->indent--;
    hr_print(p, "}");
}

/* The list of a grouped product's tiles. */
static const char *tiles_text(gemm_printer *g) {
    return hr_format(g->p, "(const int4 *)(a.scratch + %" PRId64 ")", g->gemm->tiles_at);
}

/* All products of the walk: tiles of one have the numbers behind those of the one before. */
static void print_ampere(gemm_printer *g, bool chunks) {
    const hr_gemm_walk *walk = hr_gemm_walk_of(g->stage);
    const bool apart = walk && walk->kind != HR_GEMM_WALK_SUM;
    const char *form = chunks ? "true" : "false";
    if (g->gemm->groups) {
        hr_print(g->p, "gemm_grouped<stage_%d_ampere, %s>(a, size, %s);", g->number, form, tiles_text(g));
        return;
    }
    hr_print(g->p, "%sgemm_ampere<stage_%d_ampere, %s>(a, size, 0);", apart ? "int before = " : "", g->number,
             form);
    for (int i = 1; apart && i < walk->count; i++)
        hr_print(g->p, "%sgemm_ampere<stage_%d_ampere, %s>(a, stage_%d_size(a), before);",
                 i + 1 < walk->count ? "before = " : "", walk->stage[i], form, walk->stage[i]);
}

static void print_chunks(void *context) {
    gemm_printer *g = context;
    print_main_size(g);
    print_ampere(g, true);
}

/* The kernel before a grouped product. */
static void print_sort(void *context) {
    gemm_printer *g = context;
    print_size(g, (hr_stage_kernels){.end = true});
    hr_print(g->p,
             "gemm_sort<stage_%d_ampere>(a, size.m, (int *)a.scratch, (int4 *)(a.scratch + %" PRId64 "));",
             g->number, g->gemm->tiles_at);
}

static void print_elements(void *context) {
    gemm_printer *g = context;
    print_main_size(g);
    if (g->gemm->by_threads_unaligned)
        print_by_threads(g, hr_gemm_is_whole(g->gemm) ? "double" : "float");
    else
        print_ampere(g, false);
}

static void print_boxes(void *context) {
    gemm_printer *g = context;
    print_main_size(g);
    print_flagged(g, true);
    hr_print(g->p, "const stage_%d_maps maps = %s;", g->number, hr_gemm_maps_text(g));
    hr_print(g->p, "gemm_hopper<stage_%d_hopper>(a, size, maps);", g->number);
}

/* The kernel after it. */
static void print_fold(void *context) {
    gemm_printer *g = context;
    print_size(g, (hr_stage_kernels){.begin = true});
    print_flagged(g, false);
    if (g->gemm->tile.stream) {
        hr_print(g->p, "gemm_fold_stream<stage_%d_hopper>(a, size);", g->number);
        return;
    }
    hr_print(g->p, "gemm_fold<stage_%d_hopper>(a, size, (const float *)(a.scratch + %" PRId64 "));",
             g->number, g->gemm->results[0].offset);
}

/* `size`: of product `number`. */
static void print_lay_side(hr_printer *p, int number, const char *name, const hr_gemm_side *side,
                           const char *size) {
    if (!side->parts) return;
    hr_print(p,
             "good &= gemm_lay<stage_%d_%s_laid>(a, %s.batch, %s.%s, %s.k, %" PRId64
             ", (uint16_t *)(a.scratch + %" PRId64 "));",
             number, name, size, size, name[0] == 'l' ? "m" : "n", size, side->view.stride[1],
             side->view.offset);
}

/* Operands of product `i` of the walk, but those that were laid out with the first one's. */
static void print_lay_product(gemm_printer *g, const hr_gemm_walk *walk, int i) {
    const hr_cuda_gemm *gemm = walk ? &walk->gemm[i] : g->gemm;
    const int number = walk ? walk->stage[i] : g->number;
    const char *size = i ? hr_format(g->p, "size_%d", number) : "size";
    if (i) hr_print(g->p, "const gemm_size size_%d = stage_%d_size(a);", number, number);
    if (i) hr_print(g->p, "(void)size_%d;", number);
    if (!i || !hr_gemm_walk_shares_left(walk, i)) print_lay_side(g->p, number, "left", &gemm->left, size);
    for (int r = 0; r < gemm->rights && (!i || !hr_gemm_walk_shares_right(walk, i)); r++)
        print_lay_side(g->p, number, r ? hr_format(g->p, "right_%d", r) : "right", hr_gemm_right(gemm, r),
                       size);
}

/* The kernel before it. */
static void print_lay(void *context) {
    gemm_printer *g = context;
    const hr_gemm_walk *walk = hr_gemm_walk_of(g->stage);
    print_size(g, (hr_stage_kernels){.end = true});
    hr_print(g->p, "bool good = true;");
    for (int i = 0; i < (walk ? walk->count : 1); i++)
        print_lay_product(g, walk, i);
    if (hr_gemm_is_scaled(g->gemm))
        hr_print(g->p, "good &= gemm_scales_are_finite<stage_%d_hopper>(a, size);", g->number);
    if (!hr_gemm_has_flags(g->gemm)) return;
    hr_print(g->p, "const int bad = __syncthreads_or(!good);");
    hr_print(g->p, "if (threadIdx.x == 0) ((int *)a.scratch)[blockIdx.x] = bad;");
}

/* In place of those two where stage_N_unaligned multiplies. */
static void print_nothing(void *context) {
    gemm_printer *g = context;
    hr_cuda_print_overlap(g->p, g->number, (hr_stage_kernels){.begin = true});
}

static void print_kernel(gemm_printer *g, const char *suffix, int threads, const char *maps,
                         void (*print)(void *)) {
    hr_cuda_print_function(g->p,
                           hr_format(g->p,
                                     "%s void __launch_bounds__(%d, 1) stage_%d%s(%sconst "
                                     "__grid_constant__ arguments a)",
                                     g->p->kernel, threads, g->number, suffix, maps),
                           print, g);
}

static hr_visit is_wide(const hr_expr *node, const void *function) {
    const hr_function *f = function;
    return hr_visit_until(hr_op_is_dear(node->op) ||
                          (node->op == HR_OP_ELEMENT && hr_dtype_size(f->tensors[node->tensor].dtype) > 2));
}

/* Results of 16 bits, and sums of these: functions of f32 may be as exact as they are. */
static bool is_narrow(const hr_plan *plan, const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++) {
        const hr_statement *statement = &plan->normal->statements[stage->steps[i].statement];
        const hr_partial *partial = hr_partial_of(plan->graph, statement->tensor);
        if (partial && hr_expr_find(partial->body, is_wide, plan->normal)) return false;
        if (!partial && stage->steps[i].stored &&
            hr_dtype_size(plan->normal->tensors[statement->tensor].dtype) > 2)
            return false;
    }
    return true;
}

/* A kernel before it lays operands out, its own or others of its walk. */
static bool lays(const gemm_printer *g) {
    const hr_gemm_walk *walk = hr_gemm_walk_of(g->stage);
    return (walk ? &walk->gemm[0] : g->gemm)->lay_blocks > 0;
}

static void print_functions(gemm_printer *g) {
    hr_printer *p = g->p;
    const char *place = "const arguments &a, int64_t batch, int64_t m, int64_t n";
    const char *of_sum =
        hr_format(p, "%s, %s", place,
                  hr_cuda_sums_parameter(g->p, g->contract, hr_gemm_is_whole(g->gemm) ? "double" : "float"));
    const bool is_term = hr_gemm_walk_is_term(p->plan, g->stage);
    hr_gemm_print_size_function(g);
    if (!is_term)
        hr_cuda_print_function(
            g->p, hr_format(p, "static __device__ inline void stage_%d_store(%s)", g->number, of_sum),
            print_store, g);
    if (!is_term) hr_gemm_print_partials(g, of_sum);
    p->forms &= ~(unsigned)HR_FORM_FAST;
    if (g->gemm->by_threads_unaligned || lays(g)) hr_cuda_print_plain_product(p, g->number);
    hr_gemm_print_side(g, &g->gemm->left);
    for (int i = 0; i < g->gemm->rights; i++)
        hr_gemm_print_side(g, hr_gemm_right(g->gemm, i));
    hr_printer_form(p, HR_FORM_FAST, is_narrow(p->plan, g->stage));
    if (g->gemm->mainloop != HR_GEMM_HOPPER || !g->gemm->result_count) return;
    hr_gemm_print_result_places(g);
    hr_cuda_print_function(g->p,
                           hr_format(p,
                                     "static __device__ inline void stage_%d_values(%s, %s, const float "
                                     "(&column)[%d], float staged, "
                                     "float (&e)[%d])",
                                     g->number, place,
                                     hr_cuda_sums_parameter(g->p, g->contract, sum_type(g->gemm)),
                                     g->gemm->column_count ? g->gemm->column_count : 1,
                                     g->gemm->result_count + g->gemm->partial_count),
                           print_values, g);
    if (g->gemm->column_count)
        hr_cuda_print_function(
            g->p,
            hr_format(p,
                      "static __device__ inline void stage_%d_columns(const arguments &a, int64_t batch, "
                      "int64_t n, float (&value)[%d])",
                      g->number, g->gemm->column_count),
            print_columns, g);
}

/* All but kernels: what they are made of. */
static void print_product(gemm_printer *g, const hr_cuda_gemm *sibling) {
    hr_printer *p = g->p;
    const bool hopper = g->gemm->mainloop == HR_GEMM_HOPPER;
    hr_printer_stage(p, g->stage);
    p->vector = false;
    hr_printer_form(p, HR_FORM_FAST, is_narrow(p->plan, g->stage));
    p->lane = -1;
    p->outer_count = 0;
    hr_print(p, "/* %s", g->stage->name);
    hr_print(p, " * %s */", g->stage->why);
    if (hopper) hr_gemm_print_maps_struct(g);
    print_functions(g);
    if (g->gemm->groups) hr_gemm_print_group(g);
    if (hopper) print_shape(g, g->gemm);
    if (!g->gemm->by_threads_unaligned) print_shape(g, sibling);
}

static gemm_printer printer_of(hr_printer *p, int number, const hr_cuda_gemm *gemms) {
    const hr_stage *stage = &p->plan->stages[number];
    return (gemm_printer){
        .p = p, .stage = stage, .contract = stage->contract, .gemm = &gemms[number], .number = number};
}

hr_status hr_emit_gemm_cuda(hr_printer *p, int number, const hr_cuda_gemm *gemms,
                            const hr_cuda_gemm *siblings) {
    const hr_gemm_walk *walk = hr_gemm_walk_of(&p->plan->stages[number]);
    for (int i = walk ? walk->count - 1 : 0; i > 0; i--) { /* each names the one behind it */
        gemm_printer of = printer_of(p, walk->stage[i], gemms);
        print_product(&of, &siblings[walk->stage[i]]);
    }
    gemm_printer g = printer_of(p, number, gemms);
    const hr_cuda_gemm *gemm = g.gemm;
    const bool hopper = gemm->mainloop == HR_GEMM_HOPPER;
    print_product(&g, &siblings[number]);
    if (gemm->lay_blocks) {
        print_kernel(&g, "_begin", HR_GEMM_LAY_THREADS, "", print_lay);
        print_kernel(&g, "_begin_unaligned", HR_GEMM_LAY_THREADS, "", print_nothing);
    }
    if (gemm->groups) print_kernel(&g, "_begin", HR_GEMM_SORT_THREADS, "", print_sort);
    print_kernel(&g, "", gemm->threads, hopper ? hr_gemm_map_parameters(&g) : "",
                 hopper                                ? print_boxes
                 : hr_cuda_gemm_checks_alignment(gemm) ? print_chunks
                                                       : print_elements);
    if (hr_cuda_gemm_checks_alignment(gemm))
        print_kernel(&g, "_unaligned", gemm->threads, "", print_elements);
    if (hr_cuda_gemm_folds(gemm)) {
        print_kernel(&g, "_end", HR_GEMM_FOLD_THREADS, "", print_fold);
        print_kernel(&g, "_end_unaligned", HR_GEMM_FOLD_THREADS, "", print_nothing);
    }
    p->forms &= ~(unsigned)HR_FORM_FAST;
    return hr_text_status(p->out);
}
