/* The parts of the choice of how a stage lies on a CUDA device: each looks at one way and fills the choice
 * where it pays.
 */
#ifndef HR_SCHEDULE_CUDA_CUDA_CHOICE_PARTS_H
#define HR_SCHEDULE_CUDA_CUDA_CHOICE_PARTS_H

#include "schedule/cuda/cuda_choice.h"

/* SHARED_RESERVE: bytes of a block's shared memory for what is exchanged, and for the system. REGISTERS: of a
 * multiprocessor. NARROW_MAX: positions below it may be doubled and stay 32 bits wide. */
#define HR_CUDA_SHARED_RESERVE 3072
#define HR_CUDA_REGISTERS      65536
#define HR_CUDA_NARROW_MAX     (INT64_C(1) << 30)

enum { HR_CUDA_GROUP_BYTES = 16, HR_CUDA_STREAMED_MAX = 64 };

/* What is known of a stage while its choice `c` is made. */
typedef struct hr_cuda_chooser {
    const hr_plan *plan;
    const hr_function *function;
    const hr_stage *stage;
    const int64_t *extents;
    hr_cuda_choice *c;
    int tensor_count; /* that lanes read or write */
    int tensors[HR_CUDA_STREAMED_MAX];
    int streams;       /* of those, the ones that are read and as large as the largest */
    int staged_bytes;  /* of an element of all that is read whole */
    int bytes;         /* of an element of everything that is read along the lane */
    double read_bytes; /* of the streams */
    bool writes;       /* something as large as they are is written */
    int widest;        /* bytes of an element of the streams */
    int narrowest;     /* and of what is read whole; 0: nothing is */
    bool whole;        /* some of them are whole */
    bool shared;       /* something smaller is read beside them, the same for many rows */
} hr_cuda_chooser;

/* What lanes read and write, and the vector of their widest tensor. */
hr_status hr_cuda_survey(hr_cuda_chooser *s);
int64_t hr_cuda_index_size(const hr_cuda_chooser *s, int index);
double hr_cuda_elements_of(const hr_cuda_chooser *s, int tensor);
double hr_cuda_row_count(const hr_cuda_chooser *s);
/* Passes over a row, those that are made beside another left out. */
int hr_cuda_passes_of(const hr_cuda_chooser *s);
int64_t hr_cuda_power_up(int64_t x);

/* All indices as one long axis. */
void hr_cuda_choose_map(hr_cuda_chooser *s);
/* A map goes through tiles; changes the choice where it pays. */
void hr_cuda_choose_tile(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *choice);
/* Rows, held by one or several blocks. */
void hr_cuda_choose_rows(hr_cuda_chooser *s);
/* Rows with sums over rows beside them, of so many groups: each thread loads its groups of the rows to
 * come, in shared memory of its own, and keeps its sums in registers. False where that does not fit or the
 * tuner wants something else. */
bool hr_cuda_choose_columns(hr_cuda_chooser *s, int64_t groups);
/* A long row that is read several times waits in the shared memory of as many blocks as it takes. */
void hr_cuda_choose_shared(hr_cuda_chooser *s, int64_t groups);
/* Long rows pass through shared memory in a ring of places. In: a stage of rows that are walked more than
 * once, and how it would lie otherwise. Out: the same, or a ring. */
void hr_cuda_choose_ring(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *choice);
/* Decides whether the rows of a stage are staged, a block of them at a time; fills the choice if so. `choice`
 * has the order of indices, the row, and the vector of its widest tensors. */
bool hr_cuda_choose_staged_block(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                                 hr_cuda_choice *choice);

#endif
