/* The stage of a matrix product as a CUDA kernel. In: a stage. Out: text. See stage_cuda_contract.h. */
#include "emit/cuda/stage_cuda_contract.h"

#include "emit/cuda/gemm_partial_sums.h"
#include "emit/cuda/gemm_walk_text.h"
#include "emit/cuda/stage_cuda.h"
#include "schedule/cuda/choose_gemm.h"

typedef struct contract_printer {
    hr_printer *p;
    const hr_stage *stage;
    const hr_contract *contract;
    int number;
    const hr_expr *right; /* the one that is printed */
    const char *type;     /* float or double */
} contract_printer;

/* One operand at (batch, mn, k). */
static void print_operand(const contract_printer *c, const hr_expr *value, const int *mn, int mn_count) {
    const hr_contract *t = c->contract;
    hr_cuda_print_digits(c->p, t->batch, t->batch_count, "batch");
    hr_cuda_print_digits(c->p, mn, mn_count, "mn");
    hr_cuda_print_digits(c->p, t->k, t->k_count, "k");
    hr_print(c->p, "return %s;", hr_expr_text(c->p, value));
}

static void print_left(void *context) {
    const contract_printer *c = context;
    print_operand(c, c->contract->left, c->contract->m, c->contract->m_count);
}

static void print_right(void *context) {
    const contract_printer *c = context;
    print_operand(c, c->right, c->contract->n, c->contract->n_count);
}

/* What a step reads of product `i`: rounded as a store into its dtype and a load would, but by the step that
 * stores it. */
static const char *read_sum(hr_printer *p, const hr_contract *c, int i, const hr_step *step) {
    const int tensor = i ? c->stacked[i - 1].product : c->product;
    const hr_dtype dtype = p->function->tensors[tensor].dtype, type = hr_compute_type(dtype);
    const char *sum = c->stacked_count ? hr_format(p, "sum[%d]", i) : "sum";
    /* Of bytes it is a whole number, in whatever the products were added up. */
    if (type == HR_I64) sum = hr_format(p, "(int64_t)%s", sum);
    if (dtype == type || type != HR_F32 || p->function->statements[step->statement].tensor == tensor)
        return sum;
    return hr_format(p, "f32_from_%s(%s)", hr_dtype_name(dtype), hr_emit_stored(p, sum, type, dtype));
}

const char *hr_cuda_sums_parameter(hr_printer *p, const hr_contract *c, const char *type) {
    return c->stacked_count ? hr_format(p, "const %s (&sum)[%d]", type, 1 + c->stacked_count)
                            : hr_format(p, "%s sum", type);
}

void hr_cuda_name_sums(hr_printer *p, const hr_contract *contract, const hr_step *step) {
    p->value[contract->product] = read_sum(p, contract, 0, step);
    for (int i = 0; i < contract->stacked_count; i++)
        p->value[contract->stacked[i].product] = read_sum(p, contract, i + 1, step);
    for (int i = 0; i < contract->added_count; i++) /* the sum holds it */
        p->value[contract->added[i]] = "0.f";
}

void hr_cuda_forget_sums(hr_printer *p, const hr_contract *contract) {
    p->value[contract->product] = NULL;
    for (int i = 0; i < contract->stacked_count; i++)
        p->value[contract->stacked[i].product] = NULL;
    for (int i = 0; i < contract->added_count; i++)
        p->value[contract->added[i]] = NULL;
}

void hr_cuda_print_contract_epilogue(hr_printer *p, const hr_stage *stage) {
    const hr_contract *t = stage->contract;
    const hr_function *function = p->function;
    hr_cuda_print_digits(p, t->batch, t->batch_count, "batch");
    hr_cuda_print_digits(p, t->m, t->m_count, "m");
    hr_cuda_print_digits(p, t->n, t->n_count, "n");
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (!step->stored || step->kind == HR_STEP_PARTIAL) continue;
        hr_cuda_name_sums(p, t, step);
        const char *value = hr_expr_text(p, step->value);
        hr_print(p, "const %s e%d = %s;", hr_c_compute(step->value->type), i, value);
    }
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (!step->stored || step->kind == HR_STEP_PARTIAL) continue;
        const hr_statement *statement = &function->statements[step->statement];
        hr_print(p, "%s[%s] = %s;", hr_emit_tensor(p, statement->tensor),
                 hr_emit_offset(p, statement->tensor, statement->subscripts, statement->subscript_count),
                 hr_emit_stored(p, hr_format(p, "e%d", i), step->value->type,
                                function->tensors[statement->tensor].dtype));
    }
    hr_cuda_forget_sums(p, t);
}

static void print_epilogue(void *context) {
    const contract_printer *c = context;
    hr_cuda_print_contract_epilogue(c->p, c->stage);
}

static void print_side(contract_printer *c, const char *name, const hr_expr *value, void (*print)(void *)) {
    const char *arguments = "const arguments &a, int64_t batch, int64_t mn, int64_t k";
    const hr_contract *t = c->contract;
    hr_printer *p = c->p;
    hr_cuda_print_function(c->p,
                           hr_format(p, "static __device__ inline %s stage_%d_%s_value(%s)", c->type,
                                     c->number, name, arguments),
                           print, c);
    hr_print(p, "struct stage_%d_%s_plain {", c->number, name);
    hr_print(p, "    static constexpr bool along_k = %s;",
             hr_cuda_runs_along(p->function, value, t->k[t->k_count - 1]) ? "true" : "false");
    hr_print(p, "    static __device__ inline %s value(%s) {", c->type, arguments);
    hr_print(p, "        return stage_%d_%s_value(a, batch, mn, k);", c->number, name);
    hr_print(p, "    }");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

/* Of the stage's sums over neighbours, whatever kernel it has. */
static hr_cuda_gemm partials_of(const hr_stage *stage) {
    hr_cuda_gemm gemm = {.rights = 1 + stage->contract->stacked_count};
    for (int i = 0; i < stage->step_count && gemm.partial_count < HR_PARTIALS_MOST; i++)
        if (stage->steps[i].stored && stage->steps[i].kind == HR_STEP_PARTIAL)
            gemm.partial_steps[gemm.partial_count++] = i;
    return gemm;
}

static gemm_printer partial_printer_of(const contract_printer *c, const hr_cuda_gemm *gemm) {
    return (gemm_printer){
        .p = c->p, .stage = c->stage, .contract = c->contract, .gemm = gemm, .number = c->number};
}

void hr_cuda_print_plain_product(hr_printer *p, int number) {
    const hr_stage *stage = &p->plan->stages[number];
    contract_printer c = {.p = p, .stage = stage, .contract = stage->contract, .number = number};
    c.type = hr_c_compute(stage->contract->left->type);
    print_side(&c, "left", c.contract->left, print_left);
    c.right = c.contract->right;
    print_side(&c, "right", c.right, print_right);
    for (int i = 0; i < c.contract->stacked_count; i++) {
        c.right = c.contract->stacked[i].right;
        print_side(&c, hr_format(p, "right_%d", i + 1), c.right, print_right);
    }
    const int rights = 1 + c.contract->stacked_count;
    hr_print(p, "struct stage_%d_plain {", number);
    hr_print(p, "    typedef stage_%d_left_plain left;", number);
    hr_print(p, "    typedef stage_%d_right_plain right;", number);
    for (int i = 1; i < rights; i++)
        hr_print(p, "    typedef stage_%d_right_%d_plain right_%d;", number, i, i);
    hr_print(p, "    static constexpr int rights = %d;", rights);
    hr_gemm_print_terms(p, number, "plain");
    if (hr_gemm_walk_is_term(p->plan, stage)) {
        hr_print(p, "};");
        hr_print(p, "%s", "");
        return;
    }
    const hr_cuda_gemm partials = partials_of(stage);
    gemm_printer g = partial_printer_of(&c, &partials);
    hr_gemm_print_partial_members(&g);
    hr_print(
        p,
        "    static __device__ inline void store(const arguments &a, int64_t batch, int64_t m, int64_t n, "
        "%s) {",
        hr_cuda_sums_parameter(p, c.contract, c.type));
    hr_print(p, "        stage_%d_store(a, batch, m, n, sum);", number);
    hr_print(p, "    }");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

static void print_product(void *context) {
    const contract_printer *c = context;
    hr_printer *p = c->p;
    const hr_contract *t = c->contract;
    hr_cuda_print_overlap(p, c->number, (hr_stage_kernels){0});
    hr_print(p, "__shared__ gemm_plain_tiles<%s> tiles;", c->type);
    hr_print(p, "const gemm_size size = {%s, %s, %s, %s};", hr_emit_points(p, t->batch, t->batch_count),
             hr_emit_points(p, t->m, t->m_count), hr_emit_points(p, t->n, t->n_count),
             hr_emit_points(p, t->k, t->k_count));
    hr_print(p, "gemm_plain_tile<stage_%d_plain>(a, size, blockIdx.x, tiles);", c->number);
}

hr_status hr_emit_contract_cuda(hr_printer *p, int number) {
    const hr_stage *stage = &p->plan->stages[number];
    contract_printer c = {.p = p, .stage = stage, .contract = stage->contract, .number = number};
    c.type = hr_c_compute(stage->contract->left->type);
    hr_printer_stage(p, stage);
    p->vector = false;
    p->forms &= ~(unsigned)HR_FORM_FAST;
    p->lane = -1;
    p->outer_count = 0;
    hr_print(p, "/* %s", stage->name);
    hr_print(p, " * %s */", stage->why);
    hr_cuda_print_function(
        p,
        hr_format(
            p,
            "static __device__ inline void stage_%d_store(const arguments &a, int64_t batch, int64_t m, "
            "int64_t n, %s)",
            number, hr_cuda_sums_parameter(p, c.contract, c.type)),
        print_epilogue, &c);
    const hr_cuda_gemm partials = partials_of(stage);
    gemm_printer g = partial_printer_of(&c, &partials);
    hr_gemm_print_partials(&g, hr_format(p, "const arguments &a, int64_t batch, int64_t m, int64_t n, %s",
                                         hr_cuda_sums_parameter(p, c.contract, c.type)));
    hr_cuda_print_plain_product(p, number);
    hr_cuda_print_function(p,
                           hr_format(p,
                                     "%s void __launch_bounds__(%d) stage_%d(const __grid_constant__ "
                                     "arguments a)",
                                     p->kernel, HR_CUDA_CONTRACT_THREADS, number),
                           print_product, &c);
    return hr_text_status(p->out);
}
