/* Attention on the tensor cores as a CUDA kernel. In: a region. Out: text. See stage_cuda_attention.h. */
#include "emit/cuda/stage_cuda_attention.h"

#include "base/dtype.h"
#include "emit/cuda/attention_side.h"
#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_classes.h"
#include "emit/cuda/stage_cuda_contract.h"

#include <inttypes.h>
#include <string.h>

typedef struct attention_printer {
    hr_printer *p;
    const hr_cuda_attention *attention;
    const hr_stage *first, *last;
    const hr_contract *scores, *values;
    int number; /* of the first stage */
} attention_printer;

static void print_function(attention_printer *t, const char *signature, void (*print)(void *)) {
    hr_cuda_print_function(t->p, signature, print, t);
}

static bool is_split(const attention_printer *t) {
    return t->attention->mainloop == HR_ATTENTION_SPLIT;
}

/* The copy engine brings what is read. */
static bool has_boxes(const attention_printer *t) {
    return !is_split(t) && !t->attention->widens;
}

/* Values' batches and keys bear the numbers that the first product's have. */
static void print_sides(attention_printer *t) {
    const hr_cuda_attention *a = t->attention;
    const hr_contract *c = t->scores, *v = t->values;
    const hr_gemm_indices batch = {c->batch_count, c->batch}, deep = {c->k_count, c->k};
    const hr_attention_side sides[] = {
        {c->left, a->dtype, batch, {c->m_count, c->m}, deep, &a->query, 1, a->query_load},
        {c->right, a->dtype, batch, {c->n_count, c->n}, deep, &a->key, a->key_group, a->key_load},
        {a->softmax.value,
         a->dtype,
         batch,
         {v->k_count, v->k},
         {v->n_count, v->n},
         &a->value,
         a->value_group,
         a->value_load}};
    static const char *const names[] = {"query", "key", "value"};
    for (int i = 0; i < 3; i++) {
        hr_attention_side side = sides[i];
        if (!has_boxes(t)) side.view = NULL;
        hr_cuda_print_attention_side(t->p, t->number, names[i], &side);
    }
}

/* ---- scores ---- */

static void print_indices(attention_printer *t) {
    hr_cuda_print_digits(t->p, t->scores->batch, t->scores->batch_count, "batch");
    hr_cuda_print_digits(t->p, t->scores->m, t->scores->m_count, "m");
    hr_cuda_print_digits(t->p, t->scores->n, t->scores->n_count, "n");
}

/* Without its scale, where that is a factor of the exponent. */
static void print_open(void *context) {
    attention_printer *t = context;
    hr_printer *p = t->p;
    if (t->attention->scale) {
        hr_print(p, "return sum;");
        return;
    }
    print_indices(t);
    p->value[t->scores->product] = "sum";
    if (t->attention->small)
        p->given_text = hr_format(p, "f32_of_small((int)%s)", hr_expr_text(p, t->attention->small->args[0]));
    p->given = t->attention->small;
    const char *text = hr_expr_text(p, t->attention->softmax.open);
    p->given = NULL;
    p->value[t->scores->product] = NULL;
    hr_print(p, "return %s;", text);
}

static void print_sees(void *context) {
    attention_printer *t = context;
    const hr_expr *mask = t->attention->softmax.mask;
    if (mask) print_indices(t);
    hr_attention_print_mask(t->p, mask);
}

static void print_bound(void *context) {
    attention_printer *t = context;
    hr_printer *p = t->p;
    const hr_stage *stage = t->first;
    if (!stage->mask_bound) {
        hr_print(p, "return %s;", hr_emit_points(p, t->scores->n, t->scores->n_count));
        return;
    }
    hr_cuda_print_digits(p, t->scores->batch, t->scores->batch_count, "batch");
    hr_cuda_print_digits(p, t->scores->m, t->scores->m_count, "m");
    hr_print(p, "return %s%s;", hr_expr_text(p, stage->mask_bound), stage->mask_bound_more ? " + 1" : "");
}

static void print_begin(void *context) {
    attention_printer *t = context;
    hr_printer *p = t->p;
    const hr_stage *stage = t->first;
    if (!stage->mask_begin) {
        hr_print(p, "return 0;");
        return;
    }
    hr_cuda_print_digits(p, t->scores->batch, t->scores->batch_count, "batch");
    hr_cuda_print_digits(p, t->scores->m, t->scores->m_count, "m");
    hr_print(p, "return %s%s;", hr_expr_text(p, stage->mask_begin), stage->mask_begin_more ? " + 1" : "");
}

static void print_unit(void *context) {
    attention_printer *t = context;
    const hr_expr *scale = t->attention->scale;
    hr_print(t->p, "return %s;", scale ? hr_expr_text(t->p, scale) : "1.0f");
}

static void print_scores(attention_printer *t) {
    hr_printer *p = t->p;
    const char *at = "const arguments &a, int64_t batch, int64_t m";
    const char *name = hr_format(p, "static __device__ inline float stage_%d", t->number);
    print_function(t, hr_format(p, "%s_open_score(%s, int64_t n, float sum)", name, at), print_open);
    print_function(t,
                   hr_format(p, "static __device__ inline bool stage_%d_sees(%s, int64_t n)", t->number, at),
                   print_sees);
    print_function(t, hr_format(p, "static __device__ inline int64_t stage_%d_bound(%s)", t->number, at),
                   print_bound);
    print_function(t, hr_format(p, "static __device__ inline int64_t stage_%d_begin(%s)", t->number, at),
                   print_begin);
    print_function(t, hr_format(p, "%s_unit(const arguments &a)", name), print_unit);
}

/* ---- results ---- */

static void print_store(void *context) {
    attention_printer *t = context;
    hr_printer_stage(t->p, t->last);
    t->p->vector = false;
    hr_cuda_print_contract_epilogue(t->p, t->last);
}

/* The only stored step. */
static const hr_step *stored_step(const attention_printer *t) {
    const hr_step *step = t->last->steps;
    while (!step->stored)
        step++;
    return step;
}

/* What is stored for one value. */
static void print_bits(void *context) {
    attention_printer *t = context;
    hr_printer *p = t->p;
    const hr_step *step = stored_step(t);
    const hr_contract *c = t->values;
    hr_printer_stage(p, t->last);
    p->vector = false;
    hr_cuda_print_digits(p, c->batch, c->batch_count, "batch");
    hr_cuda_print_digits(p, c->m, c->m_count, "m");
    hr_cuda_print_digits(p, c->n, c->n_count, "n");
    p->value[c->product] = "sum";
    const char *value = hr_expr_text(p, step->value);
    p->value[c->product] = NULL;
    const hr_statement *made = &p->function->statements[step->statement];
    hr_print(p, "return %s;",
             hr_emit_stored(p, value, step->value->type, p->function->tensors[made->tensor].dtype));
}

/* Where the first value of a row is stored. */
static void print_row_place(void *context) {
    attention_printer *t = context;
    hr_printer *p = t->p;
    const hr_contract *c = t->values;
    const hr_statement *made = &p->function->statements[stored_step(t)->statement];
    hr_printer_stage(p, t->last);
    p->vector = false;
    hr_cuda_print_digits(p, c->batch, c->batch_count, "batch");
    hr_cuda_print_digits(p, c->m, c->m_count, "m");
    hr_print(p, "const int64_t n = 0;");
    hr_cuda_print_digits(p, c->n, c->n_count, "n");
    hr_print(p, "return &%s[%s];", hr_emit_tensor(p, made->tensor),
             hr_emit_offset(p, made->tensor, made->subscripts, made->subscript_count));
}

/* Names for what the text has of a row, in its order. */
static void print_total(hr_printer *p, const hr_softmax_sums *sums) {
    const char *name = hr_format(p, "total_%d", sums->total);
    hr_print(p, "const float %s = sum * machine_exp2(fmaf(-(%s), 1.44269504088896341f, base));", name,
             hr_expr_text(p, sums->shift));
    p->value[sums->total] = name;
}

static void print_row_step(attention_printer *t, const hr_step *step) {
    hr_printer *p = t->p;
    const hr_softmax *softmax = &t->attention->softmax;
    const int tensor = p->function->statements[step->statement].tensor;
    if (step->kind == HR_STEP_ROW)
        hr_emit_step_value(p, step, hr_expr_text(p, step->value), step->value->type);
    for (int i = 0; i < softmax->count; i++)
        if (softmax->sums[i].shift && softmax->sums[i].total == tensor) print_total(p, &softmax->sums[i]);
}

static void print_row_values(attention_printer *t) {
    hr_printer *p = t->p;
    const hr_softmax *softmax = &t->attention->softmax;
    hr_cuda_print_digits(p, t->scores->batch, t->scores->batch_count, "batch");
    hr_cuda_print_digits(p, t->scores->m, t->scores->m_count, "m");
    for (int i = 0; i < softmax->count; i++) {
        const hr_softmax_sums *sums = &softmax->sums[i];
        if (sums->shift) continue;
        p->value[sums->peak] = "peak";
        if (sums->total >= 0) p->value[sums->total] = sums->replaced ? "total_replaced" : "total";
    }
    const hr_stage *first = p->stage;
    for (int k = t->attention->first + 1; k < t->attention->last; k++) {
        p->stage = &p->plan->stages[k]; /* a value is named by its place in it */
        for (int i = 0; i < p->stage->step_count; i++)
            print_row_step(t, &p->stage->steps[i]);
    }
    p->stage = first;
}

static void forget_row_values(attention_printer *t) {
    for (int k = t->attention->first + 1; k < t->attention->last; k++)
        for (int i = 0; i < t->p->plan->stages[k].step_count; i++)
            t->p->value[t->p->function->statements[t->p->plan->stages[k].steps[i].statement].tensor] = NULL;
}

/* Results of which there is one a row. */
static void print_row_steps(void *context) {
    attention_printer *t = context;
    hr_printer *p = t->p;
    print_row_values(t);
    for (int k = t->attention->first + 1; k < t->attention->last; k++)
        for (int i = 0; i < p->plan->stages[k].step_count; i++) {
            const hr_step *step = &p->plan->stages[k].steps[i];
            const hr_statement *made = &p->function->statements[step->statement];
            if (!step->stored || step->kind == HR_STEP_ELEMENT || hr_plan_is_in_blocks(p->plan, made->tensor))
                continue;
            hr_print(p, "%s%s[%s] = %s;", hr_emit_if_wanted(p, made->tensor), hr_emit_tensor(p, made->tensor),
                     hr_emit_offset(p, made->tensor, made->subscripts, made->subscript_count),
                     hr_emit_stored(p, p->value[made->tensor], step->value->type,
                                    p->function->tensors[made->tensor].dtype));
        }
    forget_row_values(t);
}

static const char *factors_text(hr_printer *p, const char *text, const char *operation,
                                const hr_softmax_factors *factors) {
    for (int i = 0; i < factors->count; i++)
        text = hr_format(p, "%s %s (%s)", text, operation, hr_expr_text(p, factors->factor[i]));
    return text;
}

/* What the sums of a row, whose exponents are relative to `base`, are multiplied by. */
static void print_row_weight(void *context) {
    attention_printer *t = context;
    hr_printer *p = t->p;
    const hr_softmax *softmax = &t->attention->softmax;
    print_row_values(t);
    const char *text = hr_format(p, "machine_exp2(fmaf(-(%s), 1.44269504088896341f, base))",
                                 hr_expr_text(p, softmax->shift));
    text = factors_text(p, text, "*", &softmax->times);
    hr_print(p, "return %s;", factors_text(p, text, "/", &softmax->over));
    forget_row_values(t);
}

/* Of a pair of query and key. */
static void print_pair_factor(void *context) {
    attention_printer *t = context;
    print_indices(t);
    const hr_softmax *softmax = &t->attention->softmax;
    for (int i = 0; i < softmax->conditions.count; i++)
        hr_print(t->p, "if (!(%s)) return 0.0f;", hr_expr_text(t->p, softmax->conditions.factor[i]));
    hr_print(t->p, "return %s;", factors_text(t->p, "1.0f", "*", &softmax->pairs));
}

static void print_results(attention_printer *t) {
    hr_printer *p = t->p;
    const char *row = "const arguments &a, int64_t batch, int64_t m, float peak, float total, float "
                      "total_replaced, float base, float sum";
    print_function(t, hr_format(p, "static __device__ inline void stage_%d_rows(%s)", t->number, row),
                   print_row_steps);
    if (!t->attention->softmax.normalised)
        print_function(t,
                       hr_format(p, "static __device__ inline float stage_%d_row_weight(%s)", t->number, row),
                       print_row_weight);
    if (hr_softmax_has_pairs(&t->attention->softmax))
        print_function(t,
                       hr_format(p,
                                 "static __device__ inline float stage_%d_pair_factor(const arguments &a, "
                                 "int64_t batch, int64_t m, int64_t n)",
                                 t->number),
                       print_pair_factor);
    print_function(
        t,
        hr_format(p,
                  "static __device__ inline void stage_%d_store(const arguments &a, int64_t batch, "
                  "int64_t m, int64_t n, float sum)",
                  t->number),
        print_store);
    if (!t->attention->leaves_rows) return;
    const char *at = "const arguments &a, int64_t batch, int64_t m";
    print_function(t,
                   hr_format(p, "static __device__ inline uint16_t stage_%d_bits(%s, int64_t n, float sum)",
                             t->number, at),
                   print_bits);
    print_function(t, hr_format(p, "static __device__ inline void *stage_%d_row(%s)", t->number, at),
                   print_row_place);
}

/* ---- the kernel ---- */

void hr_cuda_attention_products(const hr_cuda_attention *attention, hr_tensor_core *out) {
    if (attention->mainloop == HR_ATTENTION_SPLIT) {
        out[0] = out[1] = hr_attention_warp_product(attention->dtype);
        return;
    }
    hr_attention_products(attention->dtype, attention->tile_n, &attention->wide, 1, out);
}

/* One that calls the printed function of that name. */
static void print_member(attention_printer *t, const char *type, const char *name, const char *parameters,
                         const char *arguments) {
    hr_printer *p = t->p;
    hr_print(p, "    static __device__ inline %s %s(const arguments &a%s) {", type, name, parameters);
    hr_print(p, "        %sstage_%d_%s(a%s);", strcmp(type, "void") == 0 ? "" : "return ", t->number, name,
             arguments);
    hr_print(p, "    }");
}

static void print_products(attention_printer *t) {
    hr_printer *p = t->p;
    if (is_split(t)) {
        hr_attention_print_warp_product(p, t->attention->dtype);
    } else {
        hr_tensor_core products[HR_ATTENTION_PRODUCTS];
        hr_cuda_attention_products(t->attention, products);
        hr_attention_print_product(p, "scores", "tile_n", &products[0]);
        hr_attention_print_product(p, "values", "wide", &products[1]);
    }
    hr_print(p, "    static __device__ inline uint32_t pair(float low, float high) {");
    hr_print(p, "        return %s_pair(low, high);", hr_dtype_name(t->attention->dtype));
    hr_print(p, "    }");
    hr_print(p, "    static __device__ inline float number(uint16_t bits) {");
    hr_print(p, "        return f32_from_%s(bits);", hr_dtype_name(t->attention->dtype));
    hr_print(p, "    }");
}

static void print_shape(attention_printer *t) {
    hr_printer *p = t->p;
    const hr_cuda_attention *c = t->attention;
    const bool bounded = c->softmax.bounded || !c->softmax.mask;
    hr_print(p, "struct stage_%d_attention {", t->number);
    hr_print(p, "    static constexpr int tile_m = %d, tile_n = %d, deep = %d, wide = %d;", c->tile_m,
             c->tile_n, c->deep, c->wide);
    if (is_split(t))
        hr_print(p,
                 "    static constexpr int splits = %d, places = %d, warps = %d;\n    static constexpr bool "
                 "classed = %s;",
                 c->splits, c->places, c->threads / 32, c->class_bytes ? "true" : "false");
    else
        hr_print(
            p,
            "    static constexpr int query_places = %d, producer_registers = %d, consumer_registers = %d;",
            c->query_places, c->load_registers, c->multiply_registers);
    hr_print(p, "    static constexpr bool plain = %s, bounded = %s, begins = %s, leaves_rows = %s;",
             c->scale ? "true" : "false", bounded ? "true" : "false", t->first->mask_begin ? "true" : "false",
             c->leaves_rows ? "true" : "false");
    hr_print(p, "    static constexpr bool summed_under_mask = %s, listed = %s;",
             c->softmax.summed_under_mask ? "true" : "false", c->begin_blocks ? "true" : "false");
    hr_print(p, "    static constexpr bool normalised = %s, has_pairs = %s, reads_rows = %s;",
             c->softmax.normalised ? "true" : "false", hr_softmax_has_pairs(&c->softmax) ? "true" : "false",
             c->reads_rows ? "true" : "false");
    if (c->begin_blocks || c->class_bytes) hr_print(p, "    typedef stage_%d_classes classes_of;", t->number);
    hr_print(p, "    typedef stage_%d_query_side query;", t->number);
    hr_print(p, "    typedef stage_%d_key_side key;", t->number);
    hr_print(p, "    typedef stage_%d_value_side value;", t->number);
    print_products(t);
    hr_print(p, "    static __device__ inline float factor(const arguments &a) {");
    hr_print(p, "        return stage_%d_unit(a) * 1.44269504088896341f;", t->number);
    hr_print(p, "    }");
    const char *at = ", int64_t batch, int64_t m";
    print_member(t, "float", "unit", "", "");
    print_member(t, "int64_t", "run", "", "");
    print_member(t, "int64_t", "bound", at, ", batch, m");
    print_member(t, "int64_t", "begin", at, ", batch, m");
    print_member(t, "bool", "sees", hr_format(p, "%s, int64_t n", at), ", batch, m, n");
    print_member(t, "float", "open_score", hr_format(p, "%s, int64_t n, float sum", at),
                 ", batch, m, n, sum");
    const char *row = hr_format(p, "%s, float peak, float total, float total_replaced, float base, float sum",
                                at),
               *values = ", batch, m, peak, total, total_replaced, base, sum";
    print_member(t, "void", "rows", row, values);
    if (!c->softmax.normalised) print_member(t, "float", "row_weight", row, values);
    if (hr_softmax_has_pairs(&c->softmax))
        print_member(t, "float", "pair_factor", hr_format(p, "%s, int64_t n", at), ", batch, m, n");
    print_member(t, "void", "store", hr_format(p, "%s, int64_t n, float sum", at), ", batch, m, n, sum");
    if (c->leaves_rows) {
        print_member(t, "uint16_t", "bits", hr_format(p, "%s, int64_t n, float sum", at),
                     ", batch, m, n, sum");
        print_member(t, "void *", "row", at, ", batch, m");
    }
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

static void print_run(void *context) {
    attention_printer *t = context;
    hr_print(t->p, "return %s;", hr_emit_index_size(t->p, t->scores->m[t->scores->m_count - 1]));
}

static void print_size(attention_printer *t, hr_stage_kernels others) {
    hr_printer *p = t->p;
    const hr_contract *c = t->scores;
    hr_cuda_print_overlap(p, t->number, others);
    hr_print(p, "const attention_size size = {%s, %s, %s, %" PRId64 ", %s};",
             hr_emit_points(p, c->batch, c->batch_count), hr_emit_points(p, c->m, c->m_count),
             hr_emit_points(p, c->n, c->n_count), t->attention->section,
             t->attention->begin_blocks ? "(int *)a.scratch" : "nullptr");
}

static void print_call(attention_printer *t, bool boxes) {
    hr_printer *p = t->p;
    print_size(
        t, (hr_stage_kernels){.begin = t->attention->begin_blocks > 0, .end = t->attention->end_blocks > 0});
    if (is_split(t)) {
        hr_print(p, "attention_split<stage_%d_attention, %s>(a, size, (float *)a.scratch);", t->number,
                 boxes ? "true" : "false");
        return;
    }
    hr_print(p, "const stage_%d_maps maps = %s;", t->number,
             boxes && has_boxes(t) ? "{&query_map, &key_map, &value_map}" : "{}");
    hr_print(p, "attention_hopper<stage_%d_attention, %s>(a, size, maps);", t->number,
             boxes ? "true" : "false");
}

/* The kernel before it. */
static void print_begin_kernel(void *context) {
    attention_printer *t = context;
    print_size(t, (hr_stage_kernels){.end = true});
    hr_print(t->p, "attention_classify<stage_%d_attention>(a, size);", t->number);
}

/* The kernel after it. */
static void print_end(void *context) {
    attention_printer *t = context;
    print_size(t, (hr_stage_kernels){.begin = true});
    hr_print(t->p, "attention_split_end<stage_%d_attention>(a, size, (const float *)a.scratch);", t->number);
}

static void print_boxes(void *context) {
    attention_printer *t = context;
    print_call(t, true);
}

static void print_elements(void *context) {
    attention_printer *t = context;
    print_call(t, false);
}

static void print_kernel(attention_printer *t, const char *suffix, int threads, const char *maps,
                         void (*print)(void *)) {
    print_function(t,
                   hr_format(t->p,
                             "extern \"C\" __global__ void __launch_bounds__(%d, 1) stage_%d%s(%sconst "
                             "__grid_constant__ arguments a)",
                             threads, t->number, suffix, maps),
                   print);
}

static void stage_begin(hr_printer *p, const hr_stage *stage) {
    hr_printer_stage(p, stage);
    p->vector = false;
    p->forms &= ~(unsigned)HR_FORM_FAST;
    p->lane = -1;
    p->outer_count = 0;
}

hr_status hr_emit_attention_cuda(hr_printer *p, const hr_cuda_attention *attention) {
    const hr_stage *first = &p->plan->stages[attention->first], *last = &p->plan->stages[attention->last];
    attention_printer t = {.p = p,
                           .attention = attention,
                           .first = first,
                           .last = last,
                           .scores = first->contract,
                           .values = last->contract,
                           .number = attention->first};
    stage_begin(p, first);
    hr_print(p, "/* %s", first->name);
    hr_print(p, " * %s */", first->why);
    if (!is_split(&t)) {
        hr_print(p, "struct stage_%d_maps {", t.number);
        hr_print(p, "    const void *query, *key, *value;");
        hr_print(p, "};");
        hr_print(p, "%s", "");
    }
    print_sides(&t);
    print_scores(&t);
    print_function(
        &t, hr_format(p, "static __device__ inline int64_t stage_%d_run(const arguments &a)", t.number),
        print_run);
    print_results(&t);
    if (attention->begin_blocks || attention->class_bytes)
        hr_cuda_print_attention_classes(p, t.number, t.scores, attention->softmax.mask, &attention->classes);
    print_shape(&t);
    const char *map = "const __grid_constant__ tensor_map",
               *maps = hr_format(p, "%s query_map, %s key_map, %s value_map, ", map, map, map);
    print_kernel(&t, "", attention->threads, has_boxes(&t) ? maps : "", print_boxes);
    print_kernel(&t, "_unaligned", attention->threads, "", print_elements);
    if (attention->begin_blocks)
        print_kernel(&t, "_begin", HR_ATTENTION_BEGIN_THREADS, "", print_begin_kernel);
    if (attention->end_blocks) print_kernel(&t, "_end", HR_ATTENTION_END_THREADS, "", print_end);
    return hr_text_status(p->out);
}
