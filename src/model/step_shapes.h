/* What step.c builds a step with: operands of its calls, and the shapes that kernels declare for them. */
#ifndef HR_MODEL_STEP_SHAPES_H
#define HR_MODEL_STEP_SHAPES_H

#include "model/model.h"

#define HR_STEP_NAMES_MOST 64

typedef enum hr_operand_kind {
    HR_OPERAND_EXACT, /* as it lies */
    HR_OPERAND_DENSE, /* its elements, in any shape */
    HR_OPERAND_BEGIN, /* the same, or only the first of them */
    HR_OPERAND_NEW    /* a result that has no memory yet: any shape */
} hr_operand_kind;

typedef struct hr_operand {
    hr_operand_kind kind;
    hr_sequence_array array;
} hr_operand;

/* What a name stands for at present. */
typedef struct hr_named_buffer {
    const char *name;
    hr_operand operand;
} hr_named_buffer;

typedef struct hr_rounding hr_rounding; /* step.c */

typedef struct hr_step_builder {
    struct hr_model *model;
    hr_sequence *sequence;
    int64_t tokens, answers;
    int64_t step_most; /* of what the sequence's sizes grow with: tokens before the step's, or pages */
    const hr_step_text *text;
    const hr_model_statement *statement;
    hr_named_buffer names[HR_STEP_NAMES_MOST];
    int name_count;
    const hr_model_pages *pages; /* NULL: one text, whose tokens follow each other in the caches */
    hr_sequence_array rounded;   /* what is there in fewer bits; buffer -1 = nothing */
    const hr_rounding *rounded_by;
    hr_token_order order;
    int64_t token;                 /* that a call is built for by itself; -1: for all of the step */
    hr_operand whole;              /* the result of such calls, of all tokens */
    const hr_sequence_array *into; /* where a call's first result goes; NULL: to memory of its own */
} hr_step_builder;

#define HR_STEP_EXTENTS_MOST 16

typedef struct hr_step_solving {
    const hr_step_builder *builder;
    const hr_model_kernel *of;
    hr_named_extent extents[HR_STEP_EXTENTS_MOST];
    int extent_count;
} hr_step_solving;

/* HR_BAD_INPUT: `name` of the statement that is built, and what is wrong with it. */
hr_status hr_step_wrong(const hr_step_builder *builder, const char *name, const char *what);
/* The status, saying where in the text. */
hr_status hr_step_located(const hr_step_builder *builder, hr_status status);
hr_status hr_step_evaluate(const hr_step_builder *builder, const char *text, hr_step_size *out);
/* The elements along this axis and those behind it. */
hr_status hr_step_elements(const hr_step_builder *builder, const hr_sequence_array *array, int axis,
                           hr_step_size *out);
/* Whether `size` is one and at most `most` at every step: both grow evenly, so the ends tell. */
bool hr_step_is_at_most(const hr_step_builder *builder, hr_step_size size, hr_step_size most);
/* A scalar; its axes are for the caller to add. */
hr_sequence_array hr_step_array(hr_dtype dtype, void *data);

hr_status hr_step_solving_begin(const hr_step_builder *builder, const hr_model_kernel *of,
                                hr_step_solving *out);
/* What an operand says of the kernel's extents: axis by axis, or by its elements where one extent is missing.
 */
hr_status hr_step_solve(hr_step_solving *solving, int argument, int rank, const hr_operand *given);
/* The operand in the shape that the argument declares. */
hr_status hr_step_shape(const hr_step_solving *solving, int argument, const hr_argument *declared,
                        hr_operand *given);
#endif
