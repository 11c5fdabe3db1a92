/* Extent expressions as text and as polynomials. In: shape expressions. Out: sameness, words. */
#include "ir/extent_form.h"
#include "ir/function_text.h"

#include <stdio.h>
#include <string.h>

#define TERMS_MAX  32
#define DEGREE_MAX 4

typedef struct term {
    int64_t coefficient;
    int degree, extents[DEGREE_MAX]; /* ascending */
} term;

typedef struct polynomial {
    bool unsure; /* not a polynomial, or too long for this table */
    int count;
    term terms[TERMS_MAX];
} polynomial;

static void add_term(polynomial *sum, term t) {
    for (int i = 0; i < sum->count; i++) {
        term *old = &sum->terms[i];
        if (old->degree != t.degree || memcmp(old->extents, t.extents, (size_t)t.degree * sizeof(int)) != 0)
            continue;
        sum->unsure |= __builtin_add_overflow(old->coefficient, t.coefficient, &old->coefficient);
        if (!old->coefficient) *old = sum->terms[--sum->count];
        return;
    }
    if (sum->count == TERMS_MAX)
        sum->unsure = true;
    else if (t.coefficient)
        sum->terms[sum->count++] = t;
}

static void add_product(polynomial *sum, const term *a, const term *b) {
    term t = {0};
    if (a->degree + b->degree > DEGREE_MAX ||
        __builtin_mul_overflow(a->coefficient, b->coefficient, &t.coefficient)) {
        sum->unsure = true;
        return;
    }
    for (int i = 0, j = 0; i < a->degree || j < b->degree;) {
        bool left = j == b->degree || (i < a->degree && a->extents[i] <= b->extents[j]);
        t.extents[t.degree++] = left ? a->extents[i++] : b->extents[j++];
    }
    add_term(sum, t);
}

static void expand(const hr_expr *expr, polynomial *out) {
    *out = (polynomial){0};
    if (expr->op == HR_OP_NUMBER) {
        add_term(out, (term){.coefficient = expr->whole});
        return;
    }
    if (expr->op == HR_OP_EXTENT) {
        add_term(out, (term){.coefficient = 1, .degree = 1, .extents = {expr->extent}});
        return;
    }
    polynomial a, b;
    if (expr->op == HR_OP_FLOORDIV) {
        out->unsure = true;
        return;
    }
    expand(expr->args[0], &a);
    expand(expr->args[1], &b);
    out->unsure = a.unsure || b.unsure;
    if (out->unsure) return;
    if (expr->op == HR_OP_MUL) {
        for (int i = 0; i < a.count; i++)
            for (int j = 0; j < b.count; j++)
                add_product(out, &a.terms[i], &b.terms[j]);
        return;
    }
    *out = a;
    for (int i = 0; i < b.count; i++) {
        if (expr->op == HR_OP_SUB) b.terms[i].coefficient = -b.terms[i].coefficient;
        add_term(out, b.terms[i]);
    }
}

bool hr_extent_identical(const hr_expr *a, const hr_expr *b) {
    if (a == b) return true;
    if (a->op != b->op || a->whole != b->whole || a->extent != b->extent) return false;
    for (int i = 0; i < a->arg_count; i++)
        if (!hr_extent_identical(a->args[i], b->args[i])) return false;
    return true;
}

hr_sameness hr_extent_compare(const hr_expr *a, const hr_expr *b) {
    if (hr_extent_identical(a, b)) return HR_SAME;
    polynomial left, right;
    expand(a, &left);
    expand(b, &right);
    if (left.unsure || right.unsure) return HR_UNSURE;
    for (int i = 0; i < right.count; i++) {
        right.terms[i].coefficient = -right.terms[i].coefficient;
        add_term(&left, right.terms[i]);
    }
    return left.unsure ? HR_UNSURE : left.count ? HR_DIFFERENT : HR_SAME;
}

/* ---- words ---- */

hr_extent_words hr_extent_text(const hr_function *function, const hr_expr *expr) {
    hr_extent_words words;
    hr_text text = {0};
    hr_extent_append(function, expr, sizeof words.text, &text);
    const bool is_long = text.length >= sizeof words.text - 3;
    snprintf(words.text, sizeof words.text, "%.*s%s", (int)sizeof words.text - 4, hr_text_data(&text),
             is_long ? "..." : "");
    hr_text_clear(&text);
    return words;
}
