/* Classes of tiles that a mask leaves. In: what is known of a mask. Out: text. See stage_cuda_classes.h. */
#include "emit/cuda/stage_cuda_classes.h"

#include "emit/cuda/stage_cuda.h"

#include <inttypes.h>

typedef struct class_printer {
    hr_printer *p;
    const hr_contract *scores;
    const hr_expr *condition;
    const hr_mask_classes *classes;
} class_printer;

static void print_batch(const class_printer *c) {
    hr_cuda_print_digits(c->p, c->classes->batch, c->classes->batch_count, "batch");
}

/* ---- numbers that data say ---- */

static void print_terms(hr_printer *p, const hr_expr *const *terms, int count) {
    for (int t = 0; t < count; t++)
        hr_print(p, "value[%d] = %s;", t, hr_expr_text(p, terms[t]));
}

static void print_of_query(void *context) {
    const class_printer *c = context;
    print_batch(c);
    hr_cuda_print_digits(c->p, c->scores->m, c->scores->m_count, "m");
    print_terms(c->p, c->classes->of_query, c->classes->query_count);
}

static void print_of_key(void *context) {
    const class_printer *c = context;
    print_batch(c);
    hr_cuda_print_digits(c->p, c->scores->n, c->scores->n_count, "n");
    print_terms(c->p, c->classes->of_key, c->classes->key_count);
}

/* ---- what follows from their ranges ---- */

static const char *print_range(const class_printer *c, const hr_expr *node);

static const char *print_place(const class_printer *c, const hr_expr *node) {
    hr_printer *p = c->p;
    const hr_contract *scores = c->scores;
    const char *inner = "1";
    if (node->index == scores->n[0]) return "class_range{n, n_last}";
    for (int i = scores->m_count - 1; scores->m[i] != node->index; i--)
        inner = hr_format(p, "%s * (%s)", inner, hr_emit_index_size(p, scores->m[i]));
    return hr_format(p, "class_place(m, m_last, %s, %s)", inner, hr_emit_index_size(p, node->index));
}

static const char *print_operation(const class_printer *c, const hr_expr *node) {
    static const struct {
        hr_op op;
        const char *function;
        bool swaps, negates;
    } operations[] = {
        {HR_OP_LT, "class_less", false, false},      {HR_OP_GT, "class_less", true, false},
        {HR_OP_LE, "class_no_more", false, false},   {HR_OP_GE, "class_no_more", true, false},
        {HR_OP_EQ, "class_same", false, false},      {HR_OP_NE, "class_same", false, true},
        {HR_OP_AND, "class_min", false, false},      {HR_OP_OR, "class_max", false, false},
        {HR_OP_NOT, "class_not", false, false},      {HR_OP_ADD, "class_add", false, false},
        {HR_OP_SUB, "class_subtract", false, false}, {HR_OP_NEG, "class_minus", false, false},
        {HR_OP_MIN, "class_min", false, false},      {HR_OP_MAX, "class_max", false, false},
    };
    hr_printer *p = c->p;
    int i = 0;
    while (operations[i].op != node->op)
        i++;
    const char *text = print_range(c, node->args[operations[i].swaps]);
    if (node->arg_count > 1)
        text = hr_format(p, "%s, %s", text, print_range(c, node->args[!operations[i].swaps]));
    text = hr_format(p, "%s(%s)", operations[i].function, text);
    if (operations[i].negates) return hr_format(p, "class_not(%s)", text);
    return node->type == HR_I32 ? hr_format(p, "class_narrow(%s)", text) : text;
}

static int place_of(const hr_expr *const *terms, const hr_expr *term) {
    int place = 0;
    while (terms[place] != term)
        place++;
    return place;
}

static const char *print_range(const class_printer *c, const hr_expr *node) {
    hr_printer *p = c->p;
    switch (hr_mask_part_of(p->plan, c->scores, node)) {
    case HR_MASK_NUMBER:
        return hr_format(p, "class_number(%s)", hr_expr_text(p, node));
    case HR_MASK_PLACE:
        return print_place(c, node);
    case HR_MASK_QUERIES:
        return hr_format(p, "queries[%d]", place_of(c->classes->of_query, node));
    case HR_MASK_KEYS:
        return hr_format(p, "keys[%d]", place_of(c->classes->of_key, node));
    case HR_MASK_OPERATION:
        return print_operation(c, node);
    default:
        return node->type == HR_BOOL ? "class_doubt()" : "class_unknown()";
    }
}

static void print_holds(void *context) {
    const class_printer *c = context;
    print_batch(c);
    hr_print(c->p, "return %s;", print_range(c, c->condition));
}

/* ---- which lists ---- */

/* The batches of the mask are those of the scores less the indices that it has not. */
static void print_list_batch(void *context) {
    const class_printer *c = context;
    hr_printer *p = c->p;
    const char *place = "0";
    hr_cuda_print_digits(p, c->scores->batch, c->scores->batch_count, "batch");
    for (int i = 0; i < c->classes->batch_count; i++)
        place = hr_format(p, "(%s) * %s + %s", place, hr_emit_index_size(p, c->classes->batch[i]),
                          hr_emit_index(p, c->classes->batch[i]));
    hr_print(p, "return %s;", place);
}

/* ---- the struct ---- */

static void print_numbers(const class_printer *c, int number, const char *name, int count) {
    hr_printer *p = c->p;
    hr_print(p, "    struct %s {", name);
    hr_print(p, "        static constexpr int count = %d, room = %d;", count, count ? count : 1);
    hr_print(p, "        static __device__ inline void read(const arguments &a, int64_t batch, int64_t at, "
                "int64_t *value) {");
    hr_print(p, "            stage_%d_%s(a, batch, at, value);", number, name);
    hr_print(p, "        }");
    hr_print(p, "    };");
}

void hr_cuda_print_attention_classes(hr_printer *p, int number, const hr_contract *scores,
                                     const hr_expr *condition, const hr_mask_classes *classes) {
    class_printer c = {p, scores, condition, classes};
    const char *function = hr_format(p, "static __device__ inline void stage_%d", number);
    const char *at = "const arguments &a, int64_t batch, int64_t",
               *ranges = "const class_range *queries, const class_range *keys";
    hr_cuda_print_function(p, hr_format(p, "%s_of_query(%s m, int64_t *value)", function, at), print_of_query,
                           &c);
    hr_cuda_print_function(p, hr_format(p, "%s_of_key(%s n, int64_t *value)", function, at), print_of_key,
                           &c);
    hr_cuda_print_function(
        p,
        hr_format(p,
                  "static __device__ inline class_range stage_%d_holds(%s m, int64_t m_last, int64_t n, "
                  "int64_t n_last, %s)",
                  number, at, ranges),
        print_holds, &c);
    hr_cuda_print_function(
        p,
        hr_format(p,
                  "static __device__ inline int64_t stage_%d_list_batch(const arguments &a, int64_t batch)",
                  number),
        print_list_batch, &c);
    hr_print(p, "struct stage_%d_classes {", number);
    print_numbers(&c, number, "of_query", classes->query_count);
    print_numbers(&c, number, "of_key", classes->key_count);
    hr_print(
        p, "    static __device__ inline class_range holds(%s m, int64_t m_last, int64_t n, int64_t n_last,",
        at);
    hr_print(p, "                                               %s) {", ranges);
    hr_print(p, "        return stage_%d_holds(a, batch, m, m_last, n, n_last, queries, keys);", number);
    hr_print(p, "    }");
    hr_print(p, "    static __device__ inline int64_t batch(const arguments &a, int64_t batch) {");
    hr_print(p, "        return stage_%d_list_batch(a, batch);", number);
    hr_print(p, "    }");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}
