/* A kernel of a text with arrays of its own, to ask the interpreter about. For tests only. */
#ifndef HR_TEST_SUPPORT_FIXTURE_H
#define HR_TEST_SUPPORT_FIXTURE_H

#include "lang/program.h"
#include "reference/reference.h"

typedef struct hr_fixture {
    hr_program *program;
    const hr_function *function;
    int64_t *extents;
    hr_operand *operands;                                    /* one a parameter; arrays row-major, owned */
    int64_t (*shapes)[HR_RANK_MAX], (*strides)[HR_RANK_MAX]; /* one a parameter or result */
    hr_reference *reference;
} hr_fixture;

/* `kernel` may be NULL. */
hr_status hr_fixture_open(const char *text, const char *kernel, hr_fixture *out);
void hr_fixture_close(hr_fixture *fixture);
/* -1 where there is none. */
int hr_fixture_tensor(const hr_fixture *fixture, const char *name);
void hr_fixture_extent(hr_fixture *fixture, const char *name, int64_t value);
/* Once the extents are known: shapes and zeroed arrays for every parameter; defaults for scalars. */
hr_status hr_fixture_allocate(hr_fixture *fixture);
int64_t hr_fixture_count(const hr_fixture *fixture, int tensor);
/* Row-major, stored in the parameter's dtype. */
void hr_fixture_set(hr_fixture *fixture, const char *name, const double *values);
void hr_fixture_set_scalar(hr_fixture *fixture, const char *name, double value);
/* An element by its row-major position; the interpreter is made on the first call. */
hr_status hr_fixture_value(hr_fixture *fixture, const char *name, int64_t position, hr_meaning *out);

#endif
