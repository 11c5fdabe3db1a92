/* The gradients of attention as CUDA kernels. In: five products. Out: text. See stage_cuda_backward.h. */
#include "emit/cuda/stage_cuda_backward.h"

#include "base/dtype.h"
#include "emit/cuda/attention_side.h"
#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_contract.h"

#include <inttypes.h>

typedef struct backward_printer {
    hr_printer *p;
    const hr_cuda_backward *backward;
    const hr_contract *scores, *products;
    const hr_stage *stored; /* whose results are printed */
    int number;             /* of the last stage */
    bool keys, boxes;       /* of the kernel in hand */
    bool open;              /* of scores that the mask leaves */
} backward_printer;

static const hr_stage *stage_of(const backward_printer *t, hr_backward_stage which) {
    return &t->p->plan->stages[t->backward->text.stage[which]];
}

static void print_sides(backward_printer *t) {
    const hr_cuda_backward *b = t->backward;
    const hr_contract *s = t->scores, *p = t->products;
    const hr_gemm_indices batch = {s->batch_count, s->batch}, queries = {s->m_count, s->m},
                          keys = {s->n_count, s->n}, deep = {s->k_count, s->k}, wide = {p->k_count, p->k};
    const hr_attention_side query = {s->left, b->dtype, batch, queries, deep, &b->query, 1, HR_GEMM_ELEMENTS},
                            key = {s->right, b->dtype, batch, keys, deep, &b->key, 1, HR_GEMM_ELEMENTS},
                            given = {p->left, b->dtype, batch, queries, wide, &b->given, 1, HR_GEMM_ELEMENTS},
                            value = {p->right, b->dtype, batch, keys, wide, &b->value, 1, HR_GEMM_ELEMENTS};
    hr_cuda_print_attention_side(t->p, t->number, "query", &query);
    hr_cuda_print_attention_side(t->p, t->number, "key", &key);
    hr_cuda_print_attention_side(t->p, t->number, "given", &given);
    hr_cuda_print_attention_side(t->p, t->number, "value", &value);
}

/* ---- weights and gradients of scores ---- */

/* The value, where the mask leaves the score. */
static const hr_expr *open_value(const backward_printer *t, const hr_expr *value) {
    const bool masked = value->op == HR_OP_WHERE && value->args[0] == t->backward->text.mask;
    return t->open && masked ? value->args[1] : value;
}

/* What a stage of the two first keeps for others. */
static void print_steps(backward_printer *t, hr_backward_stage which) {
    hr_printer *p = t->p;
    const hr_stage *stage = stage_of(t, which), *walked = p->stage;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (!step->stored) continue;
        const char *text = hr_expr_text(p, open_value(t, step->value));
        p->stage = stage; /* the step's name has its number there */
        hr_emit_step_value(p, step, text, step->value->type);
        p->stage = walked;
    }
}

static void forget_steps(backward_printer *t, hr_backward_stage which) {
    const hr_stage *stage = stage_of(t, which);
    for (int i = 0; i < stage->step_count; i++)
        t->p->value[t->p->function->statements[stage->steps[i].statement].tensor] = NULL;
    t->p->value[stage->contract->product] = NULL;
}

static void print_indices(backward_printer *t) {
    hr_printer *p = t->p;
    hr_printer_stage(p, stage_of(t, HR_BACKWARD_SCORES));
    p->vector = false;
    p->forms |= HR_FORM_FAST; /* weights are rounded to 16 bits */
    hr_cuda_print_digits(p, t->scores->batch, t->scores->batch_count, "batch");
    hr_cuda_print_digits(p, t->scores->m, t->scores->m_count, "query");
    hr_cuda_print_digits(p, t->scores->n, t->scores->n_count, "key");
}

/* What is one for each query has its place in a list. */
static void name_of_query(backward_printer *t, bool named) {
    const hr_cuda_backward *b = t->backward;
    for (int i = 0; i < b->of_query_count; i++)
        t->p->value[b->of_query[i]->tensor] = named ? hr_format(t->p, "of_query[%d]", i) : NULL;
}

static void print_of_query(void *context) {
    backward_printer *t = context;
    const hr_cuda_backward *b = t->backward;
    hr_print(t->p, "const int64_t key = 0;");
    print_indices(t);
    for (int i = 0; i < b->of_query_count; i++)
        hr_print(t->p, "of_query[%d] = %s;", i, hr_expr_text(t->p, b->of_query[i]));
}

static void print_pair(void *context) {
    backward_printer *t = context;
    hr_printer *p = t->p;
    print_indices(t);
    name_of_query(t, true);
    p->value[t->scores->product] = "score";
    print_steps(t, HR_BACKWARD_SCORES);
    const char *weight = hr_expr_text(p, open_value(t, t->backward->text.weight));
    p->value[t->products->product] = "product";
    print_steps(t, HR_BACKWARD_PRODUCTS);
    const char *gradient = hr_expr_text(p, t->backward->text.gradient);
    hr_print(p, "const float weight = %s, gradient = %s;", weight, gradient);
    hr_print(p, "score = weight;");
    hr_print(p, "product = gradient;");
    forget_steps(t, HR_BACKWARD_PRODUCTS);
    forget_steps(t, HR_BACKWARD_SCORES);
    name_of_query(t, false);
}

static void print_place(backward_printer *t, const hr_expr *place, bool more, const char *none) {
    hr_printer *p = t->p;
    if (!place) {
        hr_print(p, "return %s;", none);
        return;
    }
    hr_cuda_print_digits(p, t->scores->batch, t->scores->batch_count, "batch");
    hr_cuda_print_digits(p, t->scores->m, t->scores->m_count, "m");
    hr_print(p, "return %s%s;", hr_expr_text(p, place), more ? " + 1" : "");
}

static void print_begin(void *context) {
    backward_printer *t = context;
    print_place(t, t->backward->bounds.begin, t->backward->bounds.begin_more, "0");
}

static void print_bound(void *context) {
    backward_printer *t = context;
    print_place(t, t->backward->bounds.bound, t->backward->bounds.bound_more,
                hr_emit_points(t->p, t->scores->n, t->scores->n_count));
}

/* ---- results ---- */

static void print_store(void *context) {
    backward_printer *t = context;
    hr_printer_stage(t->p, t->stored);
    t->p->vector = false;
    t->p->forms &= ~(unsigned)HR_FORM_FAST;
    hr_cuda_print_contract_epilogue(t->p, t->stored);
}

static void print_functions(backward_printer *t) {
    static const struct {
        const char *name;
        hr_backward_stage stage;
    } stores[] = {{"query", HR_BACKWARD_QUERY}, {"key", HR_BACKWARD_KEY}, {"value", HR_BACKWARD_VALUE}};
    hr_printer *p = t->p;
    const char *head = hr_format(p, "static __device__ inline void stage_%d", t->number);
    const char *range = hr_format(p, "static __device__ inline int64_t stage_%d", t->number);
    const int count = t->backward->of_query_count ? t->backward->of_query_count : 1;
    const char *at = "const arguments &a, int64_t batch, int64_t query";
    hr_cuda_print_function(p, hr_format(p, "%s_of_query(%s, float (&of_query)[%d])", head, at, count),
                           print_of_query, t);
    for (int open = 0; open < 2; open++) {
        t->open = open;
        hr_cuda_print_function(
            p,
            hr_format(p,
                      "%s_%spair(%s, int64_t key, const float (&of_query)[%d], float &score, float &product)",
                      head, open ? "open_" : "", at, count),
            print_pair, t);
    }
    hr_cuda_print_function(p, hr_format(p, "%s_begin(const arguments &a, int64_t batch, int64_t m)", range),
                           print_begin, t);
    hr_cuda_print_function(p, hr_format(p, "%s_bound(const arguments &a, int64_t batch, int64_t m)", range),
                           print_bound, t);
    for (int i = 0; i < 3; i++) {
        t->stored = stage_of(t, stores[i].stage);
        hr_cuda_print_function(
            p,
            hr_format(p, "%s_store_%s(const arguments &a, int64_t batch, int64_t m, int64_t n, float sum)",
                      head, stores[i].name),
            print_store, t);
    }
}

/* ---- the kernels ---- */

void hr_cuda_backward_products(const hr_cuda_backward *backward, hr_tensor_core *out) {
    const int widths[] = {backward->deep, backward->wide};
    hr_attention_products(backward->dtype, backward->tile_n, widths, 2, out);
}

static void print_products(backward_printer *t) {
    hr_printer *p = t->p;
    hr_tensor_core products[HR_BACKWARD_PRODUCT_KINDS];
    hr_cuda_backward_products(t->backward, products);
    hr_attention_print_product(p, "scores", "tile_n", &products[0]);
    hr_attention_print_product(p, "deep_sums", "deep", &products[1]);
    hr_attention_print_product(p, "wide_sums", "wide", &products[2]);
    hr_print(p, "    static __device__ inline uint32_t pair_bits(float low, float high) {");
    hr_print(p, "        return %s_pair(low, high);", hr_dtype_name(t->backward->dtype));
    hr_print(p, "    }");
}

/* One that calls the printed function of that name. */
static void print_member(backward_printer *t, const char *type, const char *member, const char *name,
                         const char *parameters, const char *arguments) {
    hr_printer *p = t->p;
    hr_print(p, "    static __device__ inline %s %s(const arguments &a, int64_t batch, %s) {", type, member,
             parameters);
    hr_print(p, "        %sstage_%d_%s(a, batch, %s);", *type == 'v' ? "" : "return ", t->number, name,
             arguments);
    hr_print(p, "    }");
}

static void print_shape(backward_printer *t) {
    hr_printer *p = t->p;
    const hr_cuda_backward *b = t->backward;
    const char *own[] = {"query", "given"}, *walk[] = {"key", "value"};
    hr_print(p, "struct stage_%d_%s {", t->number, t->keys ? "own_keys" : "own_queries");
    hr_print(p, "    static constexpr int tile_m = %d, tile_n = %d, own_places = %d, places = %d;", b->tile_m,
             b->tile_n, b->own_places, b->places);
    hr_print(p, "    static constexpr int deep = %d, wide = %d;", b->deep, b->wide);
    const bool waits = t->keys && b->waits, opens = !b->text.mask || b->bounds.whole;
    hr_print(p, "    static constexpr int producer_registers = %d, consumer_registers = %d;", waits ? 24 : 40,
             waits ? 240 : 232);
    hr_print(p, "    static constexpr bool keys = %s, masked = %s, open = %s, waits = %s;",
             t->keys ? "true" : "false", b->bounds.bound ? "true" : "false", opens ? "true" : "false",
             waits ? "true" : "false");
    for (int i = 0; i < 2; i++) {
        const char *kind = i ? "wide" : "deep";
        hr_print(p, "    typedef stage_%d_%s_side own_%s;", t->number, t->keys ? walk[i] : own[i], kind);
        hr_print(p, "    typedef stage_%d_%s_side walk_%s;", t->number, t->keys ? own[i] : walk[i], kind);
    }
    print_products(t);
    print_member(t, "int64_t", "begin", "begin", "int64_t m", "m");
    print_member(t, "int64_t", "bound", "bound", "int64_t m", "m");
    hr_print(p, "    static constexpr int of_query_count = %d;", b->of_query_count);
    const int count = b->of_query_count ? b->of_query_count : 1;
    print_member(t, "void", "of_query", "of_query",
                 hr_format(p, "int64_t query, float (&of_query)[%d]", count), "query, of_query");
    for (int open = 0; open < 2; open++)
        print_member(t, "void", open ? "open_pair" : "pair", open ? "open_pair" : "pair",
                     hr_format(p,
                               "int64_t query, int64_t key, const float (&of_query)[%d], float &score, float "
                               "&product",
                               count),
                     "query, key, of_query, score, product");
    print_member(t, "void", "store_deep", t->keys ? "store_key" : "store_query",
                 "int64_t m, int64_t n, float sum", "m, n, sum");
    if (t->keys)
        print_member(t, "void", "store_wide", "store_value", "int64_t m, int64_t n, float sum", "m, n, sum");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

static void print_call(void *context) {
    backward_printer *t = context;
    hr_printer *p = t->p;
    const hr_contract *c = t->scores;
    const char *queries = hr_emit_points(p, c->m, c->m_count), *keys = hr_emit_points(p, c->n, c->n_count);
    hr_cuda_print_overlap(p, t->number, (hr_stage_kernels){.end = !t->keys});
    hr_print(p, "const backward_size size = {%s, %s, %s, %" PRId64 "};",
             hr_emit_points(p, c->batch, c->batch_count), t->keys ? keys : queries, t->keys ? queries : keys,
             t->backward->section);
    hr_print(p, "const stage_%d_maps maps = %s;", t->number,
             t->boxes ? "{&own_deep, &own_wide, &walk_deep, &walk_wide}" : "{}");
    hr_print(p, "attention_backward<stage_%d_%s, %s>(a, size, maps);", t->number,
             t->keys ? "own_keys" : "own_queries", t->boxes ? "true" : "false");
}

static void print_kernel(backward_printer *t, bool boxes) {
    hr_printer *p = t->p;
    const char *map = "const __grid_constant__ tensor_map";
    const char *maps =
        hr_format(p, "%s own_deep, %s own_wide, %s walk_deep, %s walk_wide, ", map, map, map, map);
    t->boxes = boxes;
    hr_cuda_print_function(
        p,
        hr_format(p,
                  "extern \"C\" __global__ void __launch_bounds__(%d, 1) stage_%d%s%s(%sconst "
                  "__grid_constant__ arguments a)",
                  t->backward->threads, t->number, t->keys ? "_keys" : "", boxes ? "" : "_unaligned",
                  boxes ? maps : ""),
        print_call, t);
}

hr_status hr_emit_backward_cuda(hr_printer *p, const hr_cuda_backward *backward) {
    const int *stage = backward->text.stage;
    backward_printer t = {.p = p,
                          .backward = backward,
                          .scores = p->plan->stages[stage[HR_BACKWARD_SCORES]].contract,
                          .products = p->plan->stages[stage[HR_BACKWARD_PRODUCTS]].contract,
                          .number = backward->text.last};
    hr_printer_stage(p, stage_of(&t, HR_BACKWARD_SCORES));
    p->vector = false;
    p->forms &= ~(unsigned)HR_FORM_FAST;
    p->lane = -1;
    p->outer_count = 0;
    for (int i = 0; i < HR_BACKWARD_STAGES; i++)
        hr_print(p, "/* %s */", p->plan->stages[stage[i]].name);
    hr_print(p, "struct stage_%d_maps {", t.number);
    hr_print(p, "    const void *own_deep, *own_wide, *walk_deep, *walk_wide;");
    hr_print(p, "};");
    hr_print(p, "%s", "");
    print_sides(&t);
    print_functions(&t);
    for (int keys = 0; keys < 2; keys++) {
        t.keys = keys;
        print_shape(&t);
        print_kernel(&t, true);
        print_kernel(&t, false);
    }
    return hr_text_status(p->out);
}
