#include "model/numbers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct evaluation {
    const hr_extents *extents;
    const char *text, *at;
} evaluation;

int hr_extents_find(const hr_extents *extents, const char *name) {
    for (int i = 0; i < extents->count; i++)
        if (strcmp(extents->items[i].name, name) == 0) return i;
    return -1;
}

hr_step_size hr_step_product(hr_step_size a, hr_step_size b) {
    return (hr_step_size){a.fixed * b.fixed, a.fixed * b.scaled + a.scaled * b.fixed};
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
    return hr_fail(HR_BAD_INPUT, "\"%s\" is no arithmetic (+ - * //) over extents that are known", e->text);
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
        HR_TRY(sum(e, out));
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
    for (char sign = peek(e); sign == '*' || sign == '/'; sign = peek(e)) {
        if (sign == '/' && e->at[1] != '/') return no_expression(e);
        e->at += sign == '/' ? 2 : 1;
        HR_TRY(term(e, &right));
        if (sign == '*' && out->scaled && right.scaled) return no_expression(e);
        if (sign == '*')
            *out = hr_step_product(*out, right);
        else if (out->scaled || right.scaled || right.fixed <= 0)
            return no_expression(e);
        else
            out->fixed /= right.fixed;
    }
    return HR_OK;
}

static hr_status sum(evaluation *e, hr_step_size *out) {
    hr_step_size right;
    HR_TRY(product(e, out));
    for (char sign = peek(e); sign == '+' || sign == '-'; sign = peek(e)) {
        int factor = sign == '+' ? 1 : -1;
        e->at++;
        HR_TRY(product(e, &right));
        out->fixed += factor * right.fixed;
        out->scaled += factor * right.scaled;
    }
    return HR_OK;
}

hr_status hr_extents_evaluate(const hr_extents *extents, const char *text, hr_step_size *out) {
    evaluation e = {extents, text, text};
    hr_step_size value;
    HR_TRY(sum(&e, &value));
    if (peek(&e)) return no_expression(&e);
    *out = value;
    return HR_OK;
}
