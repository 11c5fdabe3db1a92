/* The gradients of attention as CUDA kernels. In: five products. Out: text. See stage_cuda_backward.h. */
#include "emit/cuda/stage_cuda_backward.h"

#include "base/dtype.h"
#include "emit/cuda/attention_side.h"
#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_classes.h"
#include "emit/cuda/stage_cuda_contract.h"

#include <inttypes.h>

typedef struct backward_printer {
    hr_printer *p;
    const hr_cuda_backward *backward;
    const hr_contract *scores, *products;
    const hr_stage *stored; /* whose results are printed */
    int number;             /* of the last stage */
    bool keys, boxes;       /* of the kernel in hand */
} backward_printer;

static const hr_stage *stage_of(const backward_printer *t, hr_backward_stage which) {
    return &t->p->plan->stages[t->backward->text.stage[which]];
}

static bool is_hopper(const backward_printer *t) {
    return t->backward->mainloop != HR_BACKWARD_AMPERE;
}

static bool is_fused(const backward_printer *t) {
    return t->backward->mainloop == HR_BACKWARD_FUSED;
}

static void print_sides(backward_printer *t) {
    static const struct {
        const char *name;
        hr_backward_side side;
        bool keys, wide;
    } sides[] = {{"query", HR_BACKWARD_OF_QUERIES, false, false},
                 {"key", HR_BACKWARD_OF_KEYS, true, false},
                 {"given", HR_BACKWARD_GIVEN, false, true},
                 {"value", HR_BACKWARD_OF_VALUES, true, true}};
    const hr_cuda_backward *b = t->backward;
    const hr_contract *s = t->scores, *p = t->products;
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        const int at = sides[i].side;
        const hr_contract *c = sides[i].wide ? p : s;
        const hr_attention_side side = {.value = hr_cuda_backward_operand(t->p->plan, b, sides[i].side),
                                        .dtype = b->dtype,
                                        .batch = {s->batch_count, s->batch},
                                        .rows = sides[i].keys ? (hr_gemm_indices){s->n_count, s->n}
                                                              : (hr_gemm_indices){s->m_count, s->m},
                                        .columns = {c->k_count, c->k},
                                        .view = is_hopper(t) ? &b->view[at] : NULL,
                                        .group = b->group[at],
                                        .load = b->load[at]};
        hr_cuda_print_attention_side(t->p, t->number, sides[i].name, &side);
    }
}

/* ---- weights and gradients of scores ---- */

/* The value, where the mask leaves the score: elsewhere nobody asks. */
static const hr_expr *open_value(const backward_printer *t, const hr_expr *value) {
    const bool masked = value->op == HR_OP_WHERE && value->args[0] == t->backward->text.mask;
    return masked ? value->args[1] : value;
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

static void print_sees(void *context) {
    backward_printer *t = context;
    const hr_expr *mask = t->backward->text.mask;
    if (mask) print_indices(t);
    hr_attention_print_mask(t->p, mask);
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
    hr_cuda_print_function(
        p,
        hr_format(p, "%s_pair(%s, int64_t key, const float (&of_query)[%d], float &score, float &product)",
                  head, at, count),
        print_pair, t);
    hr_cuda_print_function(
        p, hr_format(p, "static __device__ inline bool stage_%d_sees(%s, int64_t key)", t->number, at),
        print_sees, t);
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
    const hr_backward_kernel *kernel = backward->kernel;
    const bool fused = backward->mainloop == HR_BACKWARD_FUSED;
    const int widths[] = {kernel[fused].deep_part, kernel[1].wide_part,
                          fused ? backward->query_columns : kernel[1].deep_part};
    if (backward->mainloop == HR_BACKWARD_AMPERE) {
        out[0] = out[1] = out[2] = out[3] = hr_attention_warp_product(backward->dtype);
        return;
    }
    hr_attention_products(backward->dtype, backward->tile_n, widths, 3, out);
    if (fused) out[3].a_place = HR_TENSOR_MN_MAJOR;
}

static void print_products(backward_printer *t) {
    hr_printer *p = t->p;
    if (is_hopper(t)) {
        hr_tensor_core products[HR_BACKWARD_PRODUCT_KINDS];
        hr_cuda_backward_products(t->backward, products);
        hr_attention_print_product(p, "scores", "tile_n", &products[0]);
        hr_attention_print_product(p, "deep_sums", "deep_part", &products[t->keys && !is_fused(t) ? 3 : 1]);
        hr_attention_print_product(p, "wide_sums", "wide_part", &products[2]);
        if (is_fused(t)) hr_attention_print_product(p, "query_sums", "query_columns", &products[3]);
    } else {
        hr_attention_print_warp_product(p, t->backward->dtype);
    }
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

/* What the mainloop asks for. */
static void print_numbers(backward_printer *t) {
    hr_printer *p = t->p;
    const hr_cuda_backward *b = t->backward;
    const hr_backward_kernel *kernel = &b->kernel[t->keys];
    const bool waits = t->keys && b->waits;
    hr_print(p, "    static constexpr int tile_m = %d, tile_n = %d, places = %d, deep = %d, wide = %d;",
             b->tile_m, b->tile_n, b->places, b->deep, b->wide);
    if (is_hopper(t))
        hr_print(
            p, "    static constexpr int own_places = %d, producer_registers = %d, consumer_registers = %d;",
            b->own_places, waits ? 24 : 40, waits ? 240 : 232);
    if (is_fused(t)) hr_print(p, "    static constexpr int query_columns = %d;", b->query_columns);
    hr_print(p, "    static constexpr int parts = %d, deep_part = %d, wide_part = %d;", kernel->parts,
             kernel->deep_part, kernel->wide_part);
    if (is_hopper(t))
        hr_print(p, "    static constexpr int deep_spans = %d, wide_spans = %d;", b->deep_spans,
                 b->wide_spans);
    else
        hr_print(p, "    static constexpr int warps = %d;", b->threads / 32);
    hr_print(p, "    static constexpr bool keys = %s, masked = %s, listed = %s, open = %s, waits = %s;",
             t->keys ? "true" : "false", b->bounds.bound ? "true" : "false", b->lists ? "true" : "false",
             !b->text.mask || b->bounds.whole || b->lists ? "true" : "false", waits ? "true" : "false");
    if (b->lists) hr_print(p, "    typedef stage_%d_classes classes_of;", t->number);
}

static void print_shape(backward_printer *t) {
    hr_printer *p = t->p;
    const hr_cuda_backward *b = t->backward;
    const char *own[] = {"query", "given"}, *walk[] = {"key", "value"};
    hr_print(p, "struct stage_%d_%s {", t->number, t->keys ? "own_keys" : "own_queries");
    print_numbers(t);
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
    print_member(
        t, "void", "pair", "pair",
        hr_format(p, "int64_t query, int64_t key, const float (&of_query)[%d], float &score, float &product",
                  count),
        "query, key, of_query, score, product");
    print_member(t, "bool", "sees", "sees", "int64_t query, int64_t key", "query, key");
    print_member(t, "void", "store_deep", t->keys ? "store_key" : "store_query",
                 "int64_t m, int64_t n, float sum", "m, n, sum");
    if (t->keys)
        print_member(t, "void", "store_wide", "store_value", "int64_t m, int64_t n, float sum", "m, n, sum");
    if (is_fused(t))
        print_member(t, "void", "store_query", "store_query", "int64_t m, int64_t n, float sum", "m, n, sum");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

static void print_size(backward_printer *t, hr_stage_kernels others) {
    hr_printer *p = t->p;
    const hr_contract *c = t->scores;
    const char *queries = hr_emit_points(p, c->m, c->m_count), *keys = hr_emit_points(p, c->n, c->n_count);
    hr_cuda_print_overlap(p, t->number, others);
    hr_print(p, "const backward_size size = {%s, %s, %s, %" PRId64 ", %s,",
             hr_emit_points(p, c->batch, c->batch_count), t->keys ? keys : queries, t->keys ? queries : keys,
             t->backward->section, t->backward->lists ? "(int *)a.scratch" : "nullptr");
    if (is_fused(t))
        hr_print(p,
                 "                            a.scratch + %" PRId64 ", (int *)(a.scratch + %" PRId64
                 "), (float *)(a.scratch + %" PRId64 ")};",
                 t->backward->adders_at, t->backward->turns_at, t->backward->sums_at);
    else
        hr_print(p, "                            nullptr, nullptr, nullptr};");
}

/* The kernel that lists tiles, or clears counts. */
static void print_begin_kernel(void *context) {
    backward_printer *t = context;
    print_size(t, (hr_stage_kernels){.begin = t->keys && !is_fused(t), .end = true});
    if (is_fused(t)) hr_print(t->p, "attention_backward_clear<stage_%d_own_keys>(size);", t->number);
    if (!t->backward->lists) return;
    hr_print(t->p, "attention_backward_classify<stage_%d_%s>(a, size);", t->number,
             t->keys ? "own_keys" : "own_queries");
}

/* The kernel that rounds the gradients of queries. */
static void print_end_kernel(void *context) {
    backward_printer *t = context;
    print_size(t, (hr_stage_kernels){.begin = true});
    hr_print(t->p, "attention_backward_round<stage_%d_own_keys>(a, size);", t->number);
}

static void print_call(void *context) {
    backward_printer *t = context;
    hr_printer *p = t->p;
    const char *shape = hr_format(p, "stage_%d_%s", t->number, t->keys ? "own_keys" : "own_queries"),
               *boxes = t->boxes ? "true" : "false";
    print_size(t, (hr_stage_kernels){.begin = t->backward->work_bytes > 0, .end = !t->keys || is_fused(t)});
    if (!is_hopper(t)) {
        hr_print(p, "attention_backward_ampere<%s, %s>(a, size);", shape, boxes);
        return;
    }
    hr_print(p, "const stage_%d_maps maps = %s;", t->number,
             t->boxes ? "{&own_deep, &own_wide, &walk_deep, &walk_wide}" : "{}");
    hr_print(p, "attention_backward%s<%s, %s>(a, size, maps);", is_fused(t) ? "_fused" : "", shape, boxes);
}

static void print_kernel(backward_printer *t, const char *suffix, int threads, const char *maps,
                         void (*print)(void *)) {
    hr_cuda_print_function(
        t->p,
        hr_format(t->p,
                  "extern \"C\" __global__ void __launch_bounds__(%d, 1) stage_%d%s%s(%sconst "
                  "__grid_constant__ arguments a)",
                  threads, t->number, t->keys ? "_keys" : "", suffix, maps),
        print, t);
}

/* That of the owners in hand. */
static void print_kernels(backward_printer *t) {
    const char *map = "const __grid_constant__ tensor_map",
               *maps = hr_format(t->p, "%s own_deep, %s own_wide, %s walk_deep, %s walk_wide, ", map, map,
                                 map, map);
    const int threads = t->backward->threads;
    print_shape(t);
    if (t->backward->work_bytes) print_kernel(t, "_begin", HR_BACKWARD_BEGIN_THREADS, "", print_begin_kernel);
    t->boxes = true;
    print_kernel(t, "", threads, is_hopper(t) ? maps : "", print_call);
    t->boxes = false;
    print_kernel(t, "_unaligned", threads, "", print_call);
    if (is_fused(t)) print_kernel(t, "_end", HR_BACKWARD_END_THREADS, "", print_end_kernel);
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
    if (is_hopper(&t)) {
        hr_print(p, "struct stage_%d_maps {", t.number);
        hr_print(p, "    const void *own_deep, *own_wide, *walk_deep, *walk_wide;");
        hr_print(p, "};");
        hr_print(p, "%s", "");
    }
    print_sides(&t);
    print_functions(&t);
    hr_printer_stage(p, stage_of(&t, HR_BACKWARD_SCORES));
    p->vector = false;
    p->forms &= ~(unsigned)HR_FORM_FAST;
    if (backward->lists)
        hr_cuda_print_attention_classes(p, t.number, t.scores, backward->text.mask, &backward->classes);
    for (int keys = is_fused(&t); keys < 2; keys++) {
        t.keys = keys;
        print_kernels(&t);
    }
    return hr_text_status(p->out);
}
