/* The `model` section of a family's text, as rules.
 *
 * In: a text of kernels with one section `model NAME { ... }`. Out: which files are of this family, where its
 * numbers and weights stand in them, and the calls of a step. docs/models.md has the form. Expressions stay
 * text and are evaluated when the numbers that they name are known.
 */
#ifndef HR_MODEL_MODEL_TEXT_H
#define HR_MODEL_MODEL_TEXT_H

#include "base/arena.h"

#define HR_CHOICES_MOST    6
#define HR_AXES_MOST       4
#define HR_TARGETS_MOST    4
#define HR_OPERANDS_MOST   24
#define HR_FILE_NAMES      16
#define HR_RULES_MOST      64
#define HR_STATEMENTS_MOST 256
#define HR_JOINED_MOST     4

/* NAME = one | another: the first that the file knows. */
typedef struct hr_choices {
    int count;
    const char *texts[HR_CHOICES_MOST];
} hr_choices;

/* extent NAME = ..., number NAME = ..., number NAME[L] = ... */
typedef struct hr_number_rule {
    const char *name;
    const char *layers; /* NULL: one for all layers */
    bool is_extent;
    hr_choices choices;
    int line;
} hr_number_rule;

/* weight NAME[L][N, K] = ..., cache NAME[L][S, K, D] */
typedef struct hr_tensor_rule {
    const char *name;
    const char *layers; /* NULL: one for all layers */
    int rank;
    const char *axes[HR_AXES_MOST];
    hr_choices choices; /* none of a cache */
    int line;
} hr_tensor_rule;

/* join NAME = a b c: the rows of these weights behind each other, where they lie so */
typedef struct hr_join_rule {
    const char *name;
    int count;
    const char *parts[HR_JOINED_MOST];
    int line;
} hr_join_rule;

/* x, x[l], x[l, P ..] */
typedef struct hr_operand_text {
    const char *name;
    int subscript_count;
    const char *subscripts[HR_AXES_MOST];
    bool from; /* the last subscript is where the array begins, instead of a place that is taken */
} hr_operand_text;

typedef enum hr_model_statement_kind { HR_MODEL_CALL, HR_MODEL_FOR, HR_MODEL_END } hr_model_statement_kind;

typedef struct hr_model_statement {
    hr_model_statement_kind kind;
    int line;
    const char *name;          /* CALL: the kernel's; FOR: the index' */
    const char *bound;         /* FOR */
    hr_operand_text condition; /* CALL: a number; the call is made where it is not 0. No name: always */
    bool negated;              /* where it is 0 */
    int target_count, operand_count;
    hr_operand_text targets[HR_TARGETS_MOST], operands[HR_OPERANDS_MOST];
} hr_model_statement;

typedef struct hr_step_text {
    hr_model_statement statements[HR_STATEMENTS_MOST];
    int count; /* 0: the text has no such step */
} hr_step_text;

typedef struct hr_model_text {
    const char *path, *name;
    const char *gguf[HR_FILE_NAMES], *safetensors[HR_FILE_NAMES]; /* NULL behind the last */
    const char *refused[HR_FILE_NAMES];                           /* keys of what this family does not do */
    const char *ignored[HR_FILE_NAMES];  /* tensors that a file may hold and that no call needs */
    const char *prefixes[HR_FILE_NAMES]; /* with which names of tensors may begin in a file */
    hr_number_rule numbers[HR_RULES_MOST];
    hr_tensor_rule weights[HR_RULES_MOST], caches[HR_RULES_MOST];
    hr_join_rule joins[HR_RULES_MOST];
    hr_step_text step, alone, few, together; /* where the device does not see the host's memory; alone: of one
                                              * token, few: of few, where weights are in blocks, together: of
                                              * several, whose matrices are of f16 */
    int number_count, weight_count, cache_count, join_count;
} hr_model_text;

/* Strings lie in the arena. HR_BAD_INPUT names file and line. */
hr_status hr_model_text_read(const char *path, const char *text, size_t length, hr_arena *arena,
                             hr_model_text *out);

#endif
