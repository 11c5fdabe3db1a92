/* The types that operations bring their arguments to, as docs/language.md says: one table for what is read,
 * what is written and what is built.
 *
 * A number of the text is weak: it takes the type of what it meets.
 */
#ifndef HR_IR_TYPES_H
#define HR_IR_TYPES_H

#include "ir/function.h"

enum { HR_ARGS_MOST = 3 }; /* of an operation that is no element */

/* An argument as it stands before it is brought to another type. */
typedef struct hr_argument_type {
    hr_dtype type;
    bool weak;
    int64_t whole; /* of a weak i64 */
} hr_argument_type;

hr_argument_type hr_argument_type_of(const hr_expr *expr);

typedef struct hr_op_types {
    hr_dtype args[HR_ARGS_MOST]; /* what each is brought to */
    hr_dtype result;
} hr_op_types;

/* Of operators, functions, reductions and softmax. Conditions are taken for conditions. */
hr_op_types hr_op_types_of(hr_op op, int count, const hr_argument_type *args);

static inline bool hr_type_is_float(hr_dtype type) {
    return type == HR_F32 || type == HR_F64;
}
/* Done at once where all arguments are numbers of the text. */
static inline bool hr_op_folds(hr_op op) {
    return op >= HR_OP_ADD && op <= HR_OP_POW;
}

#endif
