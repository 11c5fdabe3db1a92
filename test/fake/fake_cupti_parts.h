/* What the two halves of the fake CUPTI know of each other. */
#ifndef HR_TEST_FAKE_CUPTI_PARTS_H
#define HR_TEST_FAKE_CUPTI_PARTS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the launch under way is counted; it is one range then. */
bool fake_counts(void);
/* The recorder's clock. */
uint64_t fake_now(void);

#endif
