/* What a text asks for: bytes and operations, however they are computed. */
#ifndef HR_IR_COUNT_H
#define HR_IR_COUNT_H

#include "ir/function.h"

typedef struct hr_work {
    double bytes_read, bytes_written; /* each touched element of a parameter once; each result once */
    double tensor_flops;              /* 2 a multiply-add of a contraction */
    double products[HR_DTYPE_COUNT];  /* of these, by hr_product_dtype() of the operands */
    double vector_flops;
    double special[HR_SPECIAL_COUNT];
} hr_work;

/* What a product's operands have in common: the dtype of elements as they lie in memory or of values rounded
 * to it, which a unit for that dtype takes as they are; elsewhere f64 or f32, as they are computed. */
hr_dtype hr_product_dtype(const hr_function *function, const hr_expr *a, const hr_expr *b);

/* What the text asks for at these extents, however it is computed. */
hr_status hr_work_count(const hr_function *function, const int64_t *extents, hr_work *out);

#endif
