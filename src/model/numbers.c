/* Arithmetic over extents, by recursive descent. In: a text. Out: its value. See numbers.h. */
#include "model/numbers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define BRACKETS_MOST 64

typedef struct evaluation {
    const hr_extents *extents;
    const char *text, *at;
    int depth; /* of brackets */
} evaluation;

int hr_extents_find(const hr_extents *extents, const char *name) {
    for (int i = 0; i < extents->count; i++)
        if (strcmp(extents->items[i].name, name) == 0) return i;
    return -1;
}

static hr_status no_size(void) {
    return hr_fail(HR_BAD_INPUT, "a size is larger than any memory");
}

hr_status hr_step_sum(hr_step_size a, hr_step_size b, hr_step_size *out) {
    bool beyond = __builtin_add_overflow(a.fixed, b.fixed, &out->fixed);
    beyond |= __builtin_add_overflow(a.scaled, b.scaled, &out->scaled);
    return beyond ? no_size() : HR_OK;
}

hr_status hr_step_product(hr_step_size a, hr_step_size b, hr_step_size *out) {
    const hr_step_size growing = a.scaled ? a : b;
    const int64_t factor = a.scaled ? b.fixed : a.fixed;
    if (a.scaled && b.scaled)
        return hr_fail(HR_BAD_INPUT, "a size is a product of two that grow from step to step");
    bool beyond = __builtin_mul_overflow(growing.fixed, factor, &out->fixed);
    beyond |= __builtin_mul_overflow(growing.scaled, factor, &out->scaled);
    return beyond ? no_size() : HR_OK;
}

int64_t hr_step_value(hr_step_size size, int64_t step) {
    int64_t value;
    bool beyond = __builtin_mul_overflow(size.scaled, step, &value);
    beyond |= __builtin_add_overflow(value, size.fixed, &value);
    return beyond || value < 0 ? -1 : value;
}

bool hr_step_equal(hr_step_size a, hr_step_size b) {
    return a.fixed == b.fixed && a.scaled == b.scaled;
}

static char peek(evaluation *e) {
    while (isspace((unsigned char)*e->at))
        e->at++;
    return *e->at;
}

static hr_status no_expression(const evaluation *e) {
    return hr_fail(HR_BAD_INPUT, "\"%s\" is no arithmetic (+ - * // %%) over extents that are known",
                   e->text);
}

static hr_status sum(evaluation *e, hr_step_size *out);

static hr_status name(evaluation *e, hr_step_size *out) {
    char word[64];
    size_t length = 0;
    while (isalnum((unsigned char)e->at[length]) || e->at[length] == '_')
        length++;
    if (length == 0 || length >= sizeof word) return no_expression(e);
    memcpy(word, e->at, length);
    word[length] = 0;
    int found = hr_extents_find(e->extents, word);
    if (found < 0 || !e->extents->items[found].known)
        return hr_fail(HR_BAD_INPUT, "\"%s\" names %s, which is not known", e->text, word);
    e->at += length;
    *out = e->extents->items[found].value;
    return HR_OK;
}

static hr_status term(evaluation *e, hr_step_size *out) {
    char first = peek(e);
    if (first == '(') {
        e->at++;
        if (++e->depth > BRACKETS_MOST) return no_expression(e);
        HR_TRY(sum(e, out));
        e->depth--;
        if (peek(e) != ')') return no_expression(e);
        e->at++;
        return HR_OK;
    }
    if (!isdigit((unsigned char)first)) return name(e, out);
    char *end;
    *out = (hr_step_size){strtoll(e->at, &end, 10), 0};
    e->at = end;
    return HR_OK;
}

static hr_status product(evaluation *e, hr_step_size *out) {
    hr_step_size right;
    HR_TRY(term(e, out));
    for (char sign = peek(e); sign && strchr("*/%", sign); sign = peek(e)) {
        if (sign == '/' && e->at[1] != '/') return no_expression(e);
        e->at += sign == '/' ? 2 : 1;
        HR_TRY(term(e, &right));
        if (sign == '*') {
            HR_TRY(hr_step_product(*out, right, out));
            continue;
        }
        if (out->scaled || right.scaled || right.fixed <= 0) return no_expression(e);
        out->fixed = sign == '/' ? out->fixed / right.fixed : out->fixed % right.fixed;
    }
    return HR_OK;
}

static hr_status sum(evaluation *e, hr_step_size *out) {
    hr_step_size right;
    HR_TRY(product(e, out));
    for (char sign = peek(e); sign == '+' || sign == '-'; sign = peek(e)) {
        e->at++;
        HR_TRY(product(e, &right));
        if (sign == '-') HR_TRY(hr_step_product(right, (hr_step_size){-1, 0}, &right));
        HR_TRY(hr_step_sum(*out, right, out));
    }
    return HR_OK;
}

hr_status hr_extents_evaluate(const hr_extents *extents, const char *text, hr_step_size *out) {
    evaluation e = {extents, text, text, 0};
    hr_step_size value;
    HR_TRY(sum(&e, &value));
    if (peek(&e)) return no_expression(&e);
    *out = value;
    return HR_OK;
}
