/* Extent expressions as text and as polynomials. In: shape expressions. Out: whether two are the same number
 * whatever the extents are. */
#ifndef HR_IR_EXTENT_FORM_H
#define HR_IR_EXTENT_FORM_H

#include "ir/function.h"

typedef enum hr_sameness { HR_SAME, HR_DIFFERENT, HR_UNSURE } hr_sameness;

/* SAME: proven; DIFFERENT: polynomials that differ; UNSURE: only numbers can tell (`//`, very long ones). */
hr_sameness hr_extent_compare(const hr_expr *a, const hr_expr *b);

/* Written alike. */
bool hr_extent_identical(const hr_expr *a, const hr_expr *b);

typedef struct hr_extent_words {
    char text[96];
} hr_extent_words;

/* "2 * N", cut where it is long. */
hr_extent_words hr_extent_text(const hr_function *function, const hr_expr *expr);

#endif
