/* Text -> the words that a byte-level tokenizer merges within.
 *
 * In: UTF-8 (bytes that are none count as letters of no class) and the rules of a family, which the models
 * come with as regular expressions. Out: one word after the other; together they are the text.
 */
#ifndef HR_MODEL_SPLIT_H
#define HR_MODEL_SPLIT_H

#include <stddef.h>

typedef enum hr_split_style {
    HR_SPLIT_GPT2,   /* a space goes with the word, digits stay together */
    HR_SPLIT_LLAMA3, /* any sign goes with the word, numbers of up to three digits, newlines apart */
    HR_SPLIT_QWEN2,  /* the same with single digits */
    HR_SPLIT_SMOLLM  /* single digits are cut out first, then as GPT-2 */
} hr_split_style;

/* Bytes of the word that begins at `at`, of `left` that are there; 0 at the end. */
size_t hr_split_next(hr_split_style style, const char *at, size_t left);

#endif
