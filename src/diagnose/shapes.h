/* What an operator's shapes say of the work it launched.
 *
 * In: the lists of dimensions and dtypes as PyTorch writes them. Out: numbers. Operators that are not known
 * give nothing.
 */
#ifndef HR_DIAGNOSE_SHAPES_H
#define HR_DIAGNOSE_SHAPES_H

#include "diagnose/analysis.h"

enum { HR_SHAPE_TENSORS = 8, HR_SHAPE_DIMS = 8 };
typedef struct hr_shapes {
    int count; /* of arguments, scalars included as rank 0 */
    int rank[HR_SHAPE_TENSORS];
    int64_t dims[HR_SHAPE_TENSORS][HR_SHAPE_DIMS];
    int bytes[HR_SHAPE_TENSORS]; /* of an element, 0 = not known */
} hr_shapes;

/* Texts that were taken apart lately, by the number of the text. */
#define HR_SHAPES_KNOWN 1024
typedef struct hr_known_shapes {
    int32_t text, dtypes; /* into strings */
    bool tried, good;
    hr_shapes shapes;
} hr_known_shapes;

bool hr_shapes_parse(const char *dims, const char *dtypes, hr_shapes *out);
double hr_shapes_elements(const hr_shapes *shapes, int tensor); /* 0 for a scalar */

/* Sizes of a matrix product, batch x m x n x k. */
typedef struct hr_product {
    int64_t batch, m, n, k;
    int bytes; /* of an element */
} hr_product;
bool hr_shapes_product(const char *operator_name, const hr_shapes *shapes, hr_product *out);

/* Bytes that must move and operations, of one launch of that kind; 0 = not known. */
void hr_shapes_work(const char *operator_name, const hr_shapes *shapes, hr_time_kind kind, double *bytes,
                    double *flops);

/* The operator's shapes of a work's call. */
bool hr_work_shapes(const hr_analysis *analysis, int work, hr_shapes *out, const char **operator_name);

#endif
