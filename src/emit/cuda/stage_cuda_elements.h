/* The elements that a thread holds a group of at a time, by what is to be done with them. In: a stage. Out:
 * lists of elements. What is held in registers already is in none of them.
 */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_ELEMENTS_H
#define HR_EMIT_CUDA_STAGE_CUDA_ELEMENTS_H

#include "emit/cuda/stage_cuda.h"

enum { HR_CUDA_ELEMENTS_MAX = 256 };

typedef struct hr_cuda_element_list {
    int count;
    const hr_expr *element[HR_CUDA_ELEMENTS_MAX];
} hr_cuda_element_list;

/* Its lanes are neighbours in memory, and its place needs no check of its own. */
bool hr_cuda_is_grouped(const hr_cuda_stage *s, const hr_expr *e);
/* It, and the values of the task level that its place needs, are there before the first pass. */
bool hr_cuda_is_placeable(const hr_cuda_stage *s, const hr_expr *element);
bool hr_cuda_varies_by_task(const hr_cuda_stage *s, const hr_expr *element);
/* What a pass needs; a row that stays in registers is loaded as a whole before its first pass. What is the
 * same for every row is in cache, and is loaded where it is used. */
void hr_cuda_elements_of_pass(hr_cuda_stage *s, int pass, hr_cuda_element_list *out);
/* Of all passes. */
void hr_cuda_all_elements(hr_cuda_stage *s, hr_cuda_element_list *out);
/* `condition`, where group u of a thread may end after its row; u is a number once the loop is unrolled, so
 * that the other groups cost nothing. */
const char *hr_cuda_not_after(const hr_cuda_stage *s, const char *condition);
/* The same and `begins`, where it may begin before its row. */
const char *hr_cuda_not_outside(const hr_cuda_stage *s, const char *begins, const char *ends);

#endif
