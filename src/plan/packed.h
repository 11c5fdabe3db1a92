/* A matrix of which a product of few vectors reads every number once: how its numbers lie in memory.
 *
 * In: an operand of a product and numbers for the extents. Out: whether it is an element of 16 bits, or a
 * whole number in 8 or 4 bits of a byte, times factors that are one for a group of neighbours along k; and
 * where the numbers of a row stand. That is found by evaluating the text, not by its form: any way to say
 * `q % 16` or `q >> 4` is the same.
 */
#ifndef HR_PLAN_PACKED_H
#define HR_PLAN_PACKED_H

#include "plan/plan.h"

enum { HR_PACKED_FACTORS_MAX = 4, HR_PACKED_UNIT_MAX = 32 };

typedef struct hr_packed {
    const hr_expr *element;                      /* the one that lies along k */
    const hr_expr *scale[HR_PACKED_FACTORS_MAX]; /* factors that are one for each group */
    int scale_count;
    int64_t group;     /* neighbours along k; where it is all of k, whole lines */
    int64_t row_bytes; /* of all k, without gaps */
    int word_numbers;  /* in 4 bytes of memory: 2, 4 or 8 */
    int unit_bytes;    /* 16, 8 or 4: four neighbouring units hold as many neighbours along k as they have
                        * numbers
                        */
    int apart;         /* along k, from a number of one unit to that of the next */
    int place[HR_PACKED_UNIT_MAX]; /* along k from the first of the four: of each number of the first unit,
                                      byte by byte, low bits first */
    int flip, bias;                /* a number is its bits, those of `flip` turned over, plus this */
} hr_packed;

/* Neighbours along the index, in runs from 0 on, for which the expression is one: INT64_MAX where it is not
 * there, d where it is counted as index // d alone, and else 1. */
int64_t hr_run_of(const hr_function *function, const int64_t *extents, const hr_expr *expr, int index);

/* The factors alone: out->scale, scale_count and group. Returns the one that has the innermost index of k,
 * NULL where that is not one. */
const hr_expr *hr_packed_factors(const hr_function *function, const int64_t *extents,
                                 const hr_contract *contract, const hr_expr *value, hr_packed *out);

/* Numbers of a unit. */
static inline int hr_packed_numbers(const hr_packed *packed) {
    return packed->unit_bytes / 4 * packed->word_numbers;
}

/* Numbers along k of a line of 128 bytes. */
static inline int hr_packed_line(const hr_packed *packed) {
    return 32 * packed->word_numbers;
}

/* `value`: an operand of the contract, whose last index along k is the innermost one. `dtype` (bf16 or f16):
 * in which it is multiplied, which holds all of its numbers. */
bool hr_packed_find(const hr_function *function, const int64_t *extents, const hr_contract *contract,
                    const hr_expr *value, hr_dtype dtype, hr_packed *out);
/* The same in units of 4 bytes, of numbers of 4 or 8 bits: groups of 16 bytes are enough. Rows have a
 * multiple of 32 numbers. */
bool hr_packed_words_find(const hr_function *function, const int64_t *extents, const hr_contract *contract,
                          const hr_expr *value, hr_dtype dtype, hr_packed *out);

/* A product of a packed matrix and vectors: few, or any number where its numbers have less than 16 bits. From
 * 9 vectors on tiles were faster for numbers of 16 bits (docs/facts.md). */
enum { HR_PACKED_VECTORS_FEW = 8, HR_PACKED_ROWS_LEAST = 64 };

typedef enum hr_operand_side { HR_OPERAND_LEFT, HR_OPERAND_RIGHT } hr_operand_side;

typedef struct hr_packed_product {
    hr_operand_side side; /* which operand the matrix is */
    hr_dtype dtype;       /* of both where they are multiplied: bf16 or f16 */
    hr_packed matrix;
} hr_packed_product;

bool hr_packed_product_find(const hr_function *function, const int64_t *extents, const hr_contract *contract,
                            hr_packed_product *out);

#endif
