/* The stage of a matrix product as a CUDA kernel. In: a stage. Out: text. See stage_cuda_contract.h. */
#include "emit/cuda/stage_cuda_contract.h"

#include "emit/cuda/stage_cuda.h"
#include "schedule/cuda/choose_gemm.h"

typedef struct contract_printer {
    hr_printer *p;
    const hr_stage *stage;
    const hr_contract *contract;
    int number;
    const char *type; /* float or double */
} contract_printer;

const hr_size *hr_cuda_contract_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage) {
    const hr_contract *c = stage->contract;
    const hr_size *batch = hr_size_points(sizes, plan->normal, c->batch, c->batch_count),
                  *m = hr_size_points(sizes, plan->normal, c->m, c->m_count),
                  *n = hr_size_points(sizes, plan->normal, c->n, c->n_count);
    const hr_size *rows = hr_size_product(sizes, hr_size_brackets(sizes, batch),
                                          hr_size_parts(sizes, m, HR_CUDA_CONTRACT_TILE));
    return hr_size_product(sizes, rows, hr_size_parts(sizes, n, HR_CUDA_CONTRACT_TILE));
}

static void print_body_function(contract_printer *c, const char *signature,
                                void (*print)(contract_printer *)) {
    hr_printer *p = c->p;
    hr_printer_forget(p, HR_AT_TASK);
    hr_text body, *out = hr_print_aside(p, &body);
    print(c);
    hr_print_back(p, out);
    hr_emit_kernel(p, signature, &body);
}

static void print_left(contract_printer *c) {
    const hr_contract *t = c->contract;
    hr_cuda_print_digits(c->p, t->batch, t->batch_count, "batch");
    hr_cuda_print_digits(c->p, t->m, t->m_count, "m");
    hr_cuda_print_digits(c->p, t->k, t->k_count, "k");
    const char *value = hr_expr_text(c->p, t->left);
    hr_print(c->p, "return %s;", value);
}

static void print_right(contract_printer *c) {
    const hr_contract *t = c->contract;
    hr_cuda_print_digits(c->p, t->batch, t->batch_count, "batch");
    hr_cuda_print_digits(c->p, t->n, t->n_count, "n");
    hr_cuda_print_digits(c->p, t->k, t->k_count, "k");
    const char *value = hr_expr_text(c->p, t->right);
    hr_print(c->p, "return %s;", value);
}

void hr_cuda_print_contract_epilogue(hr_printer *p, const hr_stage *stage) {
    const hr_contract *t = stage->contract;
    const hr_function *function = p->function;
    hr_cuda_print_digits(p, t->batch, t->batch_count, "batch");
    hr_cuda_print_digits(p, t->m, t->m_count, "m");
    hr_cuda_print_digits(p, t->n, t->n_count, "n");
    p->value[t->product] = "sum";
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (!step->stored) continue;
        const char *value = hr_expr_text(p, step->value);
        hr_print(p, "const %s e%d = %s;", hr_c_compute(step->value->type), i, value);
    }
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (!step->stored) continue;
        const hr_statement *statement = &function->statements[step->statement];
        hr_print(p, "%s[%s] = %s;", hr_emit_tensor(p, statement->tensor),
                 hr_emit_offset(p, statement->tensor, statement->subscripts, statement->subscript_count),
                 hr_emit_stored(p, hr_format(p, "e%d", i), step->value->type,
                                function->tensors[statement->tensor].dtype));
    }
    p->value[t->product] = NULL;
}

static void print_epilogue(contract_printer *c) {
    hr_cuda_print_contract_epilogue(c->p, c->stage);
}

/* A tile of an operand into shared memory; neighbouring threads read along memory. */
static void print_tile(contract_printer *c, const char *side, const char *free, bool k_runs) {
    hr_printer *p = c->p;
    hr_print(p, "    for (int e = (int)threadIdx.x; e < 1024; e += 256) {");
    hr_print(p, k_runs ? "        const int k = e %% 16, at = e / 16;"
                       : "        const int k = e / 64, at = e %% 64;");
    hr_print(p, "        const bool inside = %s_first + at < %s_size && k_first + k < k_size;", free, free);
    hr_print(p, "        %s_tile[k][at] = inside ? stage_%d_%s(a, batch, %s_first + at, k_first + k) : 0;",
             side, c->number, side, free);
    hr_print(p, "    }");
}

static void print_product(contract_printer *c) {
    hr_printer *p = c->p;
    const hr_contract *t = c->contract;
    hr_cuda_print_overlap(p, c->number, (hr_stage_kernels){0});
    hr_print(p, "__shared__ %s left_tile[16][68], right_tile[16][68];", c->type);
    hr_print(p, "const int64_t m_size = %s;", hr_emit_points(p, t->m, t->m_count));
    hr_print(p, "const int64_t n_size = %s;", hr_emit_points(p, t->n, t->n_count));
    hr_print(p, "const int64_t k_size = %s;", hr_emit_points(p, t->k, t->k_count));
    hr_print(p, "const int64_t m_tiles = (m_size + 63) / 64, n_tiles = (n_size + 63) / 64;");
    hr_print(p, "const int64_t batch = (int64_t)blockIdx.x / n_tiles / m_tiles;");
    hr_print(p, "const int64_t m_first = (int64_t)blockIdx.x / n_tiles %% m_tiles * 64;");
    hr_print(p, "const int64_t n_first = (int64_t)blockIdx.x %% n_tiles * 64;");
    hr_print(p, "const int m_thread = (int)threadIdx.x / 16 * 4, n_thread = (int)threadIdx.x %% 16 * 4;");
    hr_print(p, "%s sum[4][4] = {};", c->type);
    hr_print(p, "for (int64_t k_first = 0; k_first < k_size; k_first += 16) {");
    int last_k = t->k[t->k_count - 1];
    print_tile(c, "left", "m", hr_cuda_runs_along(p->function, t->left, last_k));
    print_tile(c, "right", "n", hr_cuda_runs_along(p->function, t->right, last_k));
    hr_print(p, "    __syncthreads();");
    hr_print(p, "#pragma unroll");
    hr_print(p, "    for (int k = 0; k < 16; k++)");
    hr_print(p, "#pragma unroll");
    hr_print(p, "        for (int m = 0; m < 4; m++)");
    hr_print(p, "#pragma unroll");
    hr_print(p, "            for (int n = 0; n < 4; n++)");
    hr_print(p, "                sum[m][n] += left_tile[k][m_thread + m] * right_tile[k][n_thread + n];");
    hr_print(p, "    __syncthreads();");
    hr_print(p, "}");
    hr_print(p, "#pragma unroll");
    hr_print(p, "for (int m = 0; m < 4; m++)");
    hr_print(p, "#pragma unroll");
    hr_print(p, "    for (int n = 0; n < 4; n++)");
    hr_print(p, "        if (m_first + m_thread + m < m_size && n_first + n_thread + n < n_size)");
    hr_print(
        p, "            stage_%d_store(a, batch, m_first + m_thread + m, n_first + n_thread + n, sum[m][n]);",
        c->number);
}

hr_status hr_emit_contract_cuda(hr_printer *p, int number) {
    const hr_stage *stage = &p->plan->stages[number];
    contract_printer c = {.p = p, .stage = stage, .contract = stage->contract, .number = number};
    c.type = hr_c_compute(stage->contract->left->type);
    hr_printer_stage(p, stage);
    p->vector = p->fast = false;
    p->lane = -1;
    p->outer_count = 0;
    hr_print(p, "/* %s", stage->name);
    hr_print(p, " * %s */", stage->why);
    const char *operand =
        "static __device__ inline %s stage_%d_%s(const arguments &a, int64_t batch, int64_t %s, int64_t k)";
    print_body_function(&c, hr_format(p, operand, c.type, number, "left", "m"), print_left);
    print_body_function(&c, hr_format(p, operand, c.type, number, "right", "n"), print_right);
    print_body_function(
        &c,
        hr_format(
            p,
            "static __device__ inline void stage_%d_store(const arguments &a, int64_t batch, int64_t m, "
            "int64_t n, %s sum)",
            number, c.type),
        print_epilogue);
    print_body_function(&c,
                        hr_format(p,
                                  "%s void __launch_bounds__(%d) stage_%d(const __grid_constant__ "
                                  "arguments a)",
                                  p->kernel, HR_CUDA_CONTRACT_THREADS, number),
                        print_product);
    return hr_text_status(p->out);
}
