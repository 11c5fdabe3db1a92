/* Element types: size, name, and exact conversion of one element from and to f64.
 *
 * The scalar conversions are the meaning that generated code is checked against: stores round to nearest
 * even, f8 saturates, a float into a whole-number dtype truncates and saturates (NaN to 0).
 */
#ifndef HR_BASE_DTYPE_H
#define HR_BASE_DTYPE_H

#include "headroom.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

size_t hr_dtype_size(hr_dtype dtype);
bool hr_dtype_is_float(hr_dtype dtype);
/* The distance from 1 to the next value, halved: 2^-24 for f32. 0 for whole numbers. */
double hr_dtype_rounding(hr_dtype dtype);
/* Reads element `i` of `data`. i64 beyond 2^53 is read exactly by hr_dtype_load_whole. */
double hr_dtype_load(hr_dtype dtype, const void *data, size_t i);
int64_t hr_dtype_load_whole(hr_dtype dtype, const void *data, size_t i);
void hr_dtype_store(hr_dtype dtype, void *data, size_t i, double value);
void hr_dtype_store_whole(hr_dtype dtype, void *data, size_t i, int64_t value);
/* The value after a store and a load. */
double hr_dtype_round(hr_dtype dtype, double value);
bool hr_dtype_parse(const char *name, size_t length, hr_dtype *out);

#endif
