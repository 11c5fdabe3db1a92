/* The stage of a packed matrix times few vectors as a CUDA kernel. In: a stage and how blocks walk the
 * matrix. Out: text: what src/emit/templates/cuda/gemm_thin.h asks for, and kernels that call it. */
#include "base/dtype.h"
#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_contract.h"
#include "emit/cuda/stage_cuda_gemm.h"

#include <inttypes.h>

typedef struct thin_printer {
    hr_printer *p;
    const hr_stage *stage;
    const hr_contract *contract;
    const hr_cuda_gemm *gemm;
    const hr_gemm_thin *thin;
    int number; /* of the stage */
} thin_printer;

static bool is_left(const thin_printer *t) {
    return t->thin->product.side == HR_OPERAND_LEFT;
}

/* ---- functions ---- */

static void print_digits(thin_printer *t, bool matrix) {
    const hr_contract *c = t->contract;
    const bool left = matrix == is_left(t);
    hr_cuda_print_digits(t->p, c->batch, c->batch_count, "batch");
    hr_cuda_print_digits(t->p, left ? c->m : c->n, left ? c->m_count : c->n_count, "mn");
    hr_cuda_print_digits(t->p, c->k, c->k_count, "k");
}

static const hr_expr *vectors_of(const thin_printer *t) {
    return is_left(t) ? t->contract->right : t->contract->left;
}

static const char *address(hr_printer *p, const hr_expr *element) {
    return hr_format(p, "&%s[%s]", hr_emit_tensor(p, element->tensor),
                     hr_emit_offset(p, element->tensor, element->args, element->arg_count));
}

static void print_place(void *context) {
    thin_printer *t = context;
    print_digits(t, true);
    hr_print(t->p, "return %s;", address(t->p, t->thin->product.matrix.element));
}

static void print_vector(void *context) {
    thin_printer *t = context;
    hr_printer *p = t->p;
    const hr_expr *value = vectors_of(t);
    print_digits(t, false);
    hr_print(p, "return %s;", hr_emit_stored(p, hr_expr_text(p, value), value->type, t->gemm->dtype));
}

static void print_vectors_at(void *context) {
    thin_printer *t = context;
    print_digits(t, false);
    hr_print(t->p, "return %s;", address(t->p, vectors_of(t)));
}

static void print_scale(void *context) {
    thin_printer *t = context;
    hr_printer *p = t->p;
    const hr_packed *matrix = &t->thin->product.matrix;
    print_digits(t, true);
    const char *text = hr_expr_text(p, matrix->scale[0]);
    for (int i = 1; i < matrix->scale_count; i++)
        text = hr_format(p, "(%s) * (%s)", text, hr_expr_text(p, matrix->scale[i]));
    hr_print(p, "return %s;", text);
}

static void print_scales(void *context) {
    thin_printer *t = context;
    print_digits(t, true);
    hr_print(t->p, "return %s;", address(t->p, t->thin->product.matrix.scale[0]));
}

static void print_store(void *context) {
    thin_printer *t = context;
    hr_cuda_print_contract_epilogue(t->p, t->stage);
}

static void print_one(thin_printer *t, const char *type, const char *name, void (*print)(void *)) {
    hr_cuda_print_function(
        t->p,
        hr_format(t->p,
                  "static __device__ inline %s stage_%d_%s(const arguments &a, int64_t batch, "
                  "int64_t mn, int64_t k)",
                  type, t->number, name),
        print, t);
}

static void print_functions(thin_printer *t) {
    const hr_gemm_thin *thin = t->thin;
    hr_cuda_print_function(
        t->p,
        hr_format(
            t->p,
            "static __device__ inline void stage_%d_store(const arguments &a, int64_t batch, int64_t m, "
            "int64_t n, float sum)",
            t->number),
        print_store, t);
    t->p->forms &= ~(unsigned)HR_FORM_FAST;
    hr_cuda_print_plain_product(t->p, t->number);
    print_one(t, "const void *", "place", print_place);
    print_one(t, "uint16_t", "vector", print_vector);
    if (thin->vectors_lie) print_one(t, "const void *", "vectors_at", print_vectors_at);
    if (thin->product.matrix.scale_count) print_one(t, "float", "scale", print_scale);
    if (thin->scale_run > 1) print_one(t, "const void *", "scales", print_scales);
}

/* ---- what the main loop asks for ---- */

static void print_member(thin_printer *t, const char *type, const char *name, bool matrix) {
    hr_printer *p = t->p;
    hr_print(p,
             "    static __device__ inline %s %s(const arguments &a, int64_t batch, int64_t %s, int64_t k) {",
             type, name, matrix ? "row" : "at");
    hr_print(p, "        return stage_%d_%s(a, batch, %s, k);", t->number, name, matrix ? "row" : "at");
    hr_print(p, "    }");
}

/* A function of a small number, known when it is compiled. */
static void print_table(thin_printer *t, const char *name, const int *values, int count) {
    hr_printer *p = t->p;
    const char *text = hr_format(p, "%d", values[count - 1]);
    for (int i = count - 2; i >= 0; i--)
        text = hr_format(p, "x == %d ? %d : %s", i, values[i], text);
    hr_print(p, "    static __device__ constexpr int %s(int x) {", name);
    hr_print(p, count > 1 ? "        return %s;" : "        return (void)x, %s;", text);
    hr_print(p, "    }");
}

static void print_order(thin_printer *t) {
    const hr_gemm_thin *thin = t->thin;
    int start[8], pick[8];
    bool in_order = thin->run > 1;
    print_table(t, "order", thin->order, 8);
    for (int i = 0; i < 8 && thin->run > 1; i++) {
        const int run = i / thin->run, here = thin->order[i];
        start[run] = here / thin->run * thin->run;
        pick[i] = run * thin->run + here - start[run];
        in_order = in_order && pick[i] == i;
    }
    hr_print(t->p, "    static constexpr bool in_order = %s;", in_order ? "true" : "false");
    if (thin->run == 1 || !thin->vectors_lie) return;
    print_table(t, "start", start, 8 / thin->run);
    print_table(t, "pick", pick, 8);
    print_member(t, "const void *", "vectors_at", false);
}

static void print_numbers(thin_printer *t) {
    hr_printer *p = t->p;
    const hr_packed *matrix = &t->thin->product.matrix;
    hr_print(p, "    static __device__ inline void numbers(uint32_t word, uint32_t (&r)[%d]) {",
             matrix->word_numbers / 2);
    if (matrix->word_numbers == 2)
        hr_print(p, "        r[0] = word;");
    else
        hr_print(p,
                 matrix->word_numbers == 8 ? "        thin_halves_%s<%d, %d>(word, r);"
                                           : "        thin_whole_%s<%d, %d>(word, r);",
                 hr_dtype_name(t->gemm->dtype), matrix->flip, matrix->bias);
    hr_print(p, "    }");
}

static void print_scale_members(thin_printer *t) {
    hr_printer *p = t->p;
    const hr_packed *matrix = &t->thin->product.matrix;
    if (!matrix->scale_count) return;
    print_member(t, "float", "scale", true);
    if (t->thin->scale_run == 1) return;
    const hr_dtype dtype = p->function->tensors[matrix->scale[0]->tensor].dtype;
    print_member(t, "const void *", "scales", true);
    hr_print(p, "    static __device__ inline void scale_of(const uint4 &x, float (&value)[%d]) {",
             t->thin->scale_run);
    hr_print(p, "        const uint32_t word[4] = {x.x, x.y, x.z, x.w};");
    for (int i = 0; i < t->thin->scale_run; i++)
        if (dtype == HR_F32)
            hr_print(p, "        value[%d] = f32_of_bits((int32_t)word[%d]);", i, i);
        else
            hr_print(p, "        value[%d] = f32_from_%s((uint16_t)(word[%d] >> %d));", i,
                     hr_dtype_name(dtype), i / 2, i % 2 * 16);
    hr_print(p, "    }");
}

static void print_sizes(thin_printer *t) {
    hr_printer *p = t->p;
    const hr_gemm_thin *thin = t->thin;
    const hr_packed *matrix = &thin->product.matrix;
    hr_print(p,
             "    static constexpr int splits = %d, vectors = %d, row_warps = %d, k_warps = %d, places = %d;",
             t->gemm->tile.splits, thin->vectors, thin->row_warps, thin->k_warps, thin->places);
    hr_print(p,
             "    static constexpr int part_lines = %d, rounds = %d, part_groups = %d, scale_pitch = %d, "
             "scale_run = %d;",
             thin->part_lines, thin->rounds, thin->part_groups, hr_gemm_thin_pitch(thin), thin->scale_run);
    hr_print(p,
             "    static constexpr int word_numbers = %d, unit_bytes = %d, apart = %d, piece_apart = %d, run "
             "= %d;",
             matrix->word_numbers, matrix->unit_bytes, matrix->apart, thin->piece_apart, thin->run);
    if (thin->ahead)
        hr_print(p, "    static constexpr int ahead = %d;\n    static constexpr bool waits = %s;",
                 thin->ahead, thin->early ? "true" : "false");
    hr_print(p, "    static constexpr bool is_left = %s, vectors_lie = %s;", is_left(t) ? "true" : "false",
             thin->vectors_lie ? "true" : "false");
    hr_print(p,
             "    static constexpr int64_t row_bytes = %" PRId64 ", group = %" PRId64 ", k = %" PRId64
             ", rows = %" PRId64 ", all_vectors = %" PRId64 ";",
             matrix->row_bytes, matrix->group, thin->k, thin->rows, thin->all_vectors);
}

static void print_shape(thin_printer *t) {
    hr_printer *p = t->p;
    const bool left = is_left(t);
    const hr_tensor_core product = hr_cuda_gemm_product(t->gemm);
    char name[96];
    hr_tensor_core_name(&product, name, sizeof name);
    hr_print(p, "struct stage_%d_thin {", t->number);
    print_sizes(t);
    print_order(t);
    print_numbers(t);
    hr_print(
        p, "    static __device__ inline void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t "
           "(&b)[2]) {");
    hr_print(p, "        %s(d, a, b);", name);
    hr_print(p, "    }");
    hr_print(
        p,
        "    static __device__ inline const void *place(const arguments &a, int64_t batch, int64_t row) {");
    hr_print(p, "        return stage_%d_place(a, batch, row, 0);", t->number);
    hr_print(p, "    }");
    print_member(t, "uint16_t", "vector", false);
    print_scale_members(t);
    hr_print(
        p,
        "    static __device__ inline float product(const arguments &a, int64_t batch, int64_t row, int64_t "
        "at, int64_t k) {");
    hr_print(p,
             "        return stage_%d_left_value(a, batch, %s, k) * stage_%d_right_value(a, batch, %s, k);",
             t->number, left ? "row" : "at", t->number, left ? "at" : "row");
    hr_print(p, "    }");
    hr_print(
        p,
        "    static __device__ inline void store(const arguments &a, int64_t batch, int64_t row, int64_t at, "
        "float sum) {");
    hr_print(p, "        stage_%d_store(a, batch, %s, sum);", t->number, left ? "row, at" : "at, row");
    hr_print(p, "    }");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

/* ---- kernels ---- */

static void print_size(thin_printer *t, hr_stage_kernels others) {
    const hr_contract *c = t->contract;
    hr_printer *p = t->p;
    hr_cuda_print_overlap(p, t->number, others);
    hr_print(p, "const gemm_size size = {%s, %s, %s, %s};", hr_emit_points(p, c->batch, c->batch_count),
             hr_emit_points(p, c->m, c->m_count), hr_emit_points(p, c->n, c->n_count),
             hr_emit_points(p, c->k, c->k_count));
}

static void print_direct(thin_printer *t, bool copies) {
    hr_cuda_print_next_start(t->p, t->number, (hr_stage_kernels){0});
    hr_print(t->p, "gemm_direct<stage_%d_thin, %s>(a);", t->number, copies ? "true" : "false");
}

static void print_main(thin_printer *t, bool copies) {
    if (t->thin->ahead) {
        print_direct(t, copies);
        return;
    }
    print_size(t, (hr_stage_kernels){.end = hr_cuda_gemm_folds(t->gemm)});
    hr_print(t->p, "gemm_thin<stage_%d_thin, %s>(a, size, (float *)a.scratch);", t->number,
             copies ? "true" : "false");
}

static void print_copies(void *context) {
    print_main(context, true);
}

static void print_elements(void *context) {
    print_main(context, false);
}

static void print_fold(void *context) {
    thin_printer *t = context;
    print_size(t, (hr_stage_kernels){.begin = true});
    hr_print(t->p, "thin_fold<stage_%d_thin>(a, size, (const float *)a.scratch);", t->number);
}

static void print_kernel(thin_printer *t, const char *suffix, int threads, void (*print)(void *)) {
    hr_cuda_print_function(
        t->p,
        hr_format(t->p, "%s void __launch_bounds__(%d, %d) stage_%d%s(const __grid_constant__ arguments a)",
                  t->p->kernel, threads, t->thin->ahead && !*suffix ? HR_GEMM_DIRECT_BLOCKS : 1, t->number,
                  suffix),
        print, t);
}

hr_status hr_emit_thin_cuda(hr_printer *p, int number, const hr_cuda_gemm *gemm) {
    const hr_stage *stage = &p->plan->stages[number];
    thin_printer t = {p, stage, stage->contract, gemm, &gemm->thin, number};
    hr_printer_stage(p, stage);
    p->vector = false;
    p->forms &= ~(unsigned)HR_FORM_FAST;
    p->lane = -1;
    p->outer_count = 0;
    hr_print(p, "/* %s", stage->name);
    hr_print(p, " * %s */", stage->why);
    print_functions(&t);
    print_shape(&t);
    print_kernel(&t, "", gemm->threads, print_copies);
    print_kernel(&t, "_unaligned", gemm->threads, print_elements);
    if (hr_cuda_gemm_folds(gemm)) print_kernel(&t, "_end", HR_GEMM_FOLD_THREADS, print_fold);
    return hr_text_status(p->out);
}
