/* Splits texts into words, by the class of each character. In: UTF-8. Out: lengths of words. See split.h. */
#include "model/split.h"

#include "base/text.h"

#include <stdbool.h>
#include <string.h>

/* ---- classes of characters ---- */

typedef enum character_class { OTHER, LETTER, NUMBER, SPACE, NEWLINE, END } character_class;

static const struct {
    uint32_t first, last;
    character_class class;
} ranges[] = {
#define RANGE(first, last, class) {first, last, class},
#include "model/unicode_classes.def"
#undef RANGE
};

static const uint32_t spaces[] = {'\t',   0x0b,   0x0c,   ' ',    0x85,   0xa0,   0x1680, 0x2000,
                                  0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                  0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000};

static character_class class_of(uint32_t code) {
    if (code == '\n' || code == '\r') return NEWLINE;
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (spaces[i] == code) return SPACE;
    size_t low = 0, high = sizeof ranges / sizeof *ranges;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof ranges / sizeof *ranges && code >= ranges[low].first ? ranges[low].class : OTHER;
}

/* A place in the text, and what stands there. */
typedef struct cursor {
    const char *at;
    size_t left, length; /* length: bytes of the character */
    uint32_t code;
    character_class class;
} cursor;

static cursor cursor_at(const char *at, size_t left) {
    cursor here = {.at = at, .left = left, .class = END};
    if (left == 0) return here;
    here.length = hr_utf8_take(at, left, &here.code);
    here.class = here.length ? class_of(here.code) : OTHER;
    if (!here.length) here.length = 1;
    return here;
}

static cursor cursor_next(cursor here) {
    return cursor_at(here.at + here.length, here.left - here.length);
}

static bool is_space(cursor here) {
    return here.class == SPACE || here.class == NEWLINE;
}

/* ---- rules ---- */

typedef enum split_rule {
    CAPITALS = 1 << 0,     /* contractions have them, too: 'S as 's */
    SIGN_BEFORE = 1 << 1,  /* any sign goes with the letters behind it, not just a space */
    NEWLINES = 1 << 2,     /* go with signs before them, and end a run of spaces */
    DIGITS_FIRST = 1 << 3, /* cut out before all else */
} split_rule;

typedef struct split_rules {
    int digits;   /* of a number, at most; 0 = any, with a space before it */
    unsigned set; /* of split_rule */
} split_rules;

static const split_rules rules_of[] = {
    [HR_SPLIT_GPT2] = {0, 0},
    [HR_SPLIT_LLAMA3] = {3, CAPITALS | SIGN_BEFORE | NEWLINES},
    [HR_SPLIT_QWEN2] = {1, CAPITALS | SIGN_BEFORE | NEWLINES},
    [HR_SPLIT_SMOLLM] = {0, DIGITS_FIRST},
};

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* Bytes of 's 't 're 've 'm 'll 'd; 0 = there is none. */
static size_t contraction(const split_rules *rules, cursor here) {
    static const char *const words[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (here.code != '\'' || here.class == END) return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]), same = 0;
        while (same < length && same + 1 < here.left &&
               (rules->set & CAPITALS ? lower(here.at[1 + same]) : here.at[1 + same]) == words[i][same])
            same++;
        if (same == length) return length + 1;
    }
    return 0;
}

static cursor skip_class(cursor here, character_class class) {
    while (here.class == class)
        here = cursor_next(here);
    return here;
}

/* Past letters, with what may stand before them; where there are none, `here`. */
static cursor letters(const split_rules *rules, cursor here) {
    bool prefix = rules->set & SIGN_BEFORE ? here.class == OTHER || here.class == SPACE : here.code == ' ';
    cursor first = prefix && here.class != END ? cursor_next(here) : here;
    return first.class == LETTER ? skip_class(first, LETTER) : here;
}

static cursor numbers(const split_rules *rules, cursor here) {
    cursor first = rules->digits == 0 && here.class == SPACE && here.code == ' ' ? cursor_next(here) : here;
    if (first.class != NUMBER) return here;
    if (rules->digits == 0) return skip_class(first, NUMBER);
    for (int i = 0; i < rules->digits && first.class == NUMBER; i++)
        first = cursor_next(first);
    return first;
}

static cursor signs(const split_rules *rules, cursor here) {
    cursor first = here.class == SPACE && here.code == ' ' ? cursor_next(here) : here;
    if (first.class != OTHER) return here;
    first = skip_class(first, OTHER);
    return rules->set & NEWLINES ? skip_class(first, NEWLINE) : first;
}

/* A run of spaces: to its last newline, else without the one that goes with what follows. */
static cursor blanks(const split_rules *rules, cursor here) {
    cursor end = here, last = here, newline = here;
    for (; is_space(end); end = cursor_next(end)) {
        last = end;
        if (end.class == NEWLINE) newline = cursor_next(end);
    }
    if ((rules->set & NEWLINES) && newline.at != here.at) return newline;
    return end.class == END || last.at == here.at ? end : last;
}

static size_t word_length(const split_rules *rules, const char *at, size_t left) {
    cursor here = cursor_at(at, left), end;
    if (here.class == END) return 0;
    size_t length = contraction(rules, here);
    if (length) return length;
    end = letters(rules, here);
    if (end.at == at) end = numbers(rules, here);
    if (end.at == at) end = signs(rules, here);
    if (end.at == at) end = blanks(rules, here);
    return (size_t)(end.at - at);
}

size_t hr_split_next(hr_split_style style, const char *at, size_t left) {
    const split_rules *rules = &rules_of[style];
    if (!(rules->set & DIGITS_FIRST)) return word_length(rules, at, left);
    cursor here = cursor_at(at, left);
    if (here.class == NUMBER) return here.length;
    /* What follows the next digit does not count: a word is looked for in what stands before it. */
    size_t seen = word_length(rules, at, left);
    cursor end = here;
    while ((size_t)(end.at - at) < seen + 1 && end.class != NUMBER && end.class != END)
        end = cursor_next(end);
    return end.class == NUMBER ? word_length(rules, at, (size_t)(end.at - at)) : seen;
}
