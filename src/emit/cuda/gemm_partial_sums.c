/* Sums over neighbours of a product's results, as text. See gemm_partial_sums.h. */
#include "emit/cuda/gemm_partial_sums.h"

#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_contract.h"
#include "emit/reduce.h"

typedef struct partial_printer {
    gemm_printer *g;
    int number; /* of the sum */
} partial_printer;

static const hr_step *step_of(const gemm_printer *g, int i) {
    return &g->stage->steps[g->gemm->partial_steps[i]];
}

static const hr_statement *statement_of(const gemm_printer *g, int i) {
    return &g->p->function->statements[step_of(g, i)->statement];
}

/* The neighbours are of a column: its numbers are the last index. */
static bool is_along_m(const gemm_printer *g, int i) {
    return statement_of(g, i)->domain[1] == g->contract->n[0];
}

void hr_gemm_print_partial_values(gemm_printer *g, int first) {
    for (int i = 0; i < g->gemm->partial_count; i++) {
        const hr_step *step = step_of(g, i);
        hr_cuda_name_sums(g->p, g->contract, step);
        hr_print(g->p, "e[%d] = %s;", first + i, hr_expr_text(g->p, step->value));
    }
    hr_cuda_forget_sums(g->p, g->contract);
}

static void print_values(void *context) {
    gemm_printer *g = context;
    const hr_contract *c = g->contract;
    hr_cuda_print_digits(g->p, c->batch, c->batch_count, "batch");
    hr_cuda_print_digits(g->p, c->m, c->m_count, "m");
    hr_cuda_print_digits(g->p, c->n, c->n_count, "n");
    hr_gemm_print_partial_values(g, 0);
}

static void print_store(void *context) {
    const partial_printer *t = context;
    hr_printer *p = t->g->p;
    const hr_statement *s = statement_of(t->g, t->number);
    const char *along = is_along_m(t->g, t->number) ? "m" : "n", *other = *along == 'm' ? "n" : "m";
    hr_cuda_print_digits(p, &s->domain[0], 1, hr_format(p, "%s / %d", along, HR_PARTIAL));
    hr_cuda_print_digits(p, &s->domain[1], 1, other);
    hr_print(p, "%s[%s] = value;", hr_emit_tensor(p, s->tensor),
             hr_emit_offset(p, s->tensor, s->subscripts, s->subscript_count));
}

static void print_partial(gemm_printer *g, int i) {
    hr_printer *p = g->p;
    const hr_op op = step_of(g, i)->reduce;
    partial_printer t = {g, i};
    hr_cuda_print_function(
        p,
        hr_format(p,
                  "static __device__ inline void stage_%d_partial_%d_store(const arguments &a, int64_t m, "
                  "int64_t n, float value)",
                  g->number, i),
        print_store, &t);
    hr_print(p, "struct stage_%d_partial_%d {", g->number, i);
    hr_print(p, "    static constexpr bool along_m = %s;", is_along_m(g, i) ? "true" : "false");
    hr_print(p, "    static __device__ inline float none() {");
    hr_print(p, "        return %s;", hr_reduce_identity(op, HR_F32));
    hr_print(p, "    }");
    hr_print(p, "    static __device__ inline float merge(float a, float b) {");
    hr_print(p, "        return %s;", hr_reduce_combine(p, op, HR_F32, "a", "b"));
    hr_print(p, "    }");
    hr_print(p, "    static __device__ inline void store(const arguments &a, int64_t m, int64_t n, float "
                "value) {");
    hr_print(p, "        stage_%d_partial_%d_store(a, m, n, value);", g->number, i);
    hr_print(p, "    }");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

void hr_gemm_print_partials(gemm_printer *g, const char *of_sum) {
    const int count = g->gemm->partial_count;
    if (!count) return;
    for (int i = 0; i < count; i++)
        print_partial(g, i);
    hr_cuda_print_function(
        g->p,
        hr_format(g->p, "static __device__ inline void stage_%d_partial_values(%s, float (&e)[%d])",
                  g->number, of_sum, count),
        print_values, g);
}

void hr_gemm_print_partial_members(gemm_printer *g) {
    hr_printer *p = g->p;
    const int count = g->gemm->partial_count;
    hr_print(p, "    static constexpr int partials = %d;", count);
    if (!count) return;
    for (int i = 0; i < count; i++)
        hr_print(p, "    typedef stage_%d_partial_%d partial_%d;", g->number, i, i);
    hr_print(p,
             "    static __device__ inline void partial_values(const arguments &a, int64_t batch, int64_t m, "
             "int64_t n, const float (&sums)[%d], float (&e)[%d]) {",
             g->gemm->rights, count);
    hr_print(p, "        stage_%d_partial_values(a, batch, m, n, sums%s, e);", g->number,
             g->gemm->rights == 1 ? "[0]" : "");
    hr_print(p, "    }");
}
