/* The stage of a matrix product on the tensor cores as a CUDA kernel. In: a stage. Out: text. See
 * stage_cuda_gemm.h. */
#include "emit/cuda/stage_cuda_gemm.h"

#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_contract.h"

#include <string.h>

typedef struct gemm_printer {
    hr_printer *p;
    const hr_stage *stage;
    const hr_contract *contract;
    const hr_cuda_gemm *gemm;
    const hr_gemm_side *side; /* the one that is printed */
    int number;
} gemm_printer;

bool hr_cuda_gemm_asks(const hr_cuda_gemm *gemm) {
    return gemm->left.load != HR_GEMM_ELEMENTS || gemm->right.load != HR_GEMM_ELEMENTS;
}

const char *hr_cuda_gemm_size(hr_printer *p, const hr_stage *stage, const hr_cuda_gemm *gemm) {
    const hr_contract *c = stage->contract;
    return hr_format(p, "(%s) * ((%s + %d) / %d) * ((%s + %d) / %d)",
                     hr_emit_points(p, c->batch, c->batch_count), hr_emit_points(p, c->m, c->m_count),
                     gemm->tile_m - 1, gemm->tile_m, hr_emit_points(p, c->n, c->n_count), gemm->tile_n - 1,
                     gemm->tile_n);
}

static bool is_left(const gemm_printer *g) {
    return g->side == &g->gemm->left;
}

static void print_function(gemm_printer *g, const char *signature, void (*print)(gemm_printer *)) {
    hr_printer *p = g->p;
    hr_printer_forget(p, HR_AT_TASK);
    hr_text body, *out = hr_print_aside(p, &body);
    print(g);
    hr_print_back(p, out);
    hr_emit_kernel(p, signature, &body);
}

/* ---- operands ---- */

static void print_side_indices(gemm_printer *g) {
    const hr_contract *c = g->contract;
    hr_cuda_print_digits(g->p, c->batch, c->batch_count, "batch");
    hr_cuda_print_digits(g->p, is_left(g) ? c->m : c->n, is_left(g) ? c->m_count : c->n_count, "mn");
    hr_cuda_print_digits(g->p, c->k, c->k_count, "k");
}

/* The bits of one value. An element of the operands' dtype is not taken out of them and put back. */
static void print_element(gemm_printer *g) {
    hr_printer *p = g->p;
    const hr_expr *value = g->side->value;
    print_side_indices(g);
    if (g->side->load != HR_GEMM_ELEMENTS)
        hr_print(p, "return %s[%s];", hr_emit_tensor(p, value->tensor),
                 hr_emit_offset(p, value->tensor, value->args, value->arg_count));
    else
        hr_print(p, "return %s;", hr_emit_stored(p, hr_expr_text(p, value), value->type, g->gemm->dtype));
}

static void print_place(gemm_printer *g) {
    hr_printer *p = g->p;
    const hr_expr *value = g->side->value;
    print_side_indices(g);
    hr_print(p, "return &%s[%s];", hr_emit_tensor(p, value->tensor),
             hr_emit_offset(p, value->tensor, value->args, value->arg_count));
}

static void print_side(gemm_printer *g, const hr_gemm_side *side) {
    hr_printer *p = g->p;
    g->side = side;
    const char *name = is_left(g) ? "left" : "right";
    bool chunks = side->load == HR_GEMM_CHUNKS;
    const char *arguments = "const arguments &a, int64_t batch, int64_t mn, int64_t k";
    print_function(
        g, hr_format(p, "static __device__ inline uint16_t stage_%d_%s(%s)", g->number, name, arguments),
        print_element);
    if (chunks)
        print_function(g,
                       hr_format(p, "static __device__ inline const void *stage_%d_%s_place(%s)", g->number,
                                 name, arguments),
                       print_place);
    hr_print(p, "struct stage_%d_%s_side {", g->number, name);
    hr_print(p, "    static constexpr bool k_major = %s, chunks = %s;", side->k_major ? "true" : "false",
             chunks ? "true" : "false");
    hr_print(p, "    static __device__ inline uint16_t element(%s) {", arguments);
    hr_print(p, "        return stage_%d_%s(a, batch, mn, k);", g->number, name);
    hr_print(p, "    }");
    if (chunks) {
        hr_print(p, "    static __device__ inline const void *place(%s) {", arguments);
        hr_print(p, "        return stage_%d_%s_place(a, batch, mn, k);", g->number, name);
        hr_print(p, "    }");
    }
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

/* ---- results ---- */

static void print_store(gemm_printer *g) {
    hr_cuda_print_contract_epilogue(g->p, g->stage);
}

/* ---- the kernel ---- */

static void print_shape(gemm_printer *g) {
    hr_printer *p = g->p;
    const hr_cuda_gemm *c = g->gemm;
    hr_print(p, "struct stage_%d_shape {", g->number);
    hr_print(p,
             "    static constexpr int tile_m = %d, tile_n = %d, stages = %d, threads = %d, warps_m = %d, "
             "raster = %d;",
             c->tile_m, c->tile_n, c->stages, c->threads, c->warps_m, c->raster);
    hr_print(p, "    static constexpr half_kind::kind kind = half_kind::%s;",
             c->dtype == HR_BF16 ? "bf16" : "f16");
    hr_print(p, "    typedef stage_%d_left_side left;", g->number);
    hr_print(p, "    typedef stage_%d_right_side right;", g->number);
    hr_print(p, "    static __device__ inline void store(const arguments &a, int64_t batch, int64_t m, "
                "int64_t n, float sum) {");
    hr_print(p, "        stage_%d_store(a, batch, m, n, sum);", g->number);
    hr_print(p, "    }");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

static void print_call(gemm_printer *g, const char *chunks) {
    hr_printer *p = g->p;
    const hr_contract *c = g->contract;
    hr_cuda_print_overlap(p, g->number, (hr_stage_kernels){0});
    hr_print(p, "const gemm_size size = {%s, %s, %s, %s};", hr_emit_points(p, c->batch, c->batch_count),
             hr_emit_points(p, c->m, c->m_count), hr_emit_points(p, c->n, c->n_count),
             hr_emit_points(p, c->k, c->k_count));
    hr_print(p, "gemm_ampere<stage_%d_shape, %s>(a, size);", g->number, chunks);
}

static void print_aligned(gemm_printer *g) {
    print_call(g, "true");
}

static void print_unaligned(gemm_printer *g) {
    print_call(g, "false");
}

static void print_kernel(gemm_printer *g, const char *suffix, void (*print)(gemm_printer *)) {
    print_function(g,
                   hr_format(g->p,
                             "extern \"C\" __global__ void __launch_bounds__(%d) stage_%d%s(const "
                             "__grid_constant__ arguments a)",
                             g->gemm->threads, g->number, suffix),
                   print);
}

hr_status hr_emit_gemm_cuda(hr_printer *p, int number, const hr_cuda_gemm *gemm) {
    const hr_stage *stage = &p->plan->stages[number];
    gemm_printer g = {.p = p, .stage = stage, .contract = stage->contract, .gemm = gemm, .number = number};
    hr_printer_stage(p, stage);
    p->vector = p->fast = false;
    p->lane = -1;
    p->outer_count = 0;
    hr_print(p, "/* %s", stage->name);
    hr_print(p, " * %s; %s */", stage->why, gemm->why);
    print_side(&g, &gemm->left);
    print_side(&g, &gemm->right);
    print_function(
        &g,
        hr_format(p,
                  "static __device__ inline void stage_%d_store(const arguments &a, int64_t batch, int64_t "
                  "m, int64_t n, float sum)",
                  number),
        print_store);
    print_shape(&g);
    print_kernel(&g, "", hr_cuda_gemm_asks(gemm) ? print_aligned : print_unaligned);
    if (hr_cuda_gemm_asks(gemm)) print_kernel(&g, "_unaligned", print_unaligned);
    return hr_text_status(p->out);
}
