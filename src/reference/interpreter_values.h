/* Single values of lanes, and what happens to them between instructions: faults, doubt, conversions.
 *
 * In and out: lanes (interpreter_lanes.h).
 */
#ifndef HR_REFERENCE_INTERPRETER_VALUES_H
#define HR_REFERENCE_INTERPRETER_VALUES_H

#include "reference/interpreter.h"

/* `bound` of a whole number is 0 or says that it is in doubt. */
typedef struct hr_element {
    double value, bound, noise;
    int64_t whole;
} hr_element;

/* Whether it becomes another whole number within its error. */
bool hr_element_truncates(hr_element from, hr_dtype dtype);
/* `type`: what it was computed as. A whole dtype may stay a float: inexact.c. */
hr_element hr_element_convert(hr_element from, hr_dtype type, hr_dtype dtype, bool to_whole);
hr_element hr_element_at(const hr_lanes *lanes, bool whole, int lane);
void hr_element_set(hr_lanes *lanes, bool whole, int lane, hr_element from);

/* The first n lanes of the arrays are the value. */
void hr_lanes_settle(hr_lanes *out, bool uniform, bool whole);
hr_status hr_lanes_copy(hr_reference *reference, hr_lanes *out, const hr_lanes *in, bool whole, int n);
hr_status hr_lanes_convert(hr_reference *reference, hr_lanes *out, hr_lanes *in, hr_dtype type,
                           hr_dtype dtype, bool to_whole, int count);
/* Faults of operands are the result's as well, and so is their doubt. */
hr_status hr_faults_carry(hr_reference *reference, hr_lanes *out, const hr_lanes *from, int n);
void hr_doubt_carry(hr_lanes *out, const hr_lanes *from, int n);
/* Of whole numbers that were set one by one. */
void hr_doubt_find(hr_lanes *out, bool whole, int n);

#endif
