/* Philox4x32-10 (Salmon et al., 2011): the counter-based generator behind `random`. */
#ifndef HR_REFERENCE_PHILOX_H
#define HR_REFERENCE_PHILOX_H

#include <stdint.h>

void hr_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* random(seed, counter) of the language: uniform in [0, 1), a multiple of 2^-24. */
double hr_philox_uniform(int64_t seed, int64_t counter);

#endif
