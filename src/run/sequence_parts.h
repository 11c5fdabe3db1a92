/* A sequence from within: sequence.c builds it, sequence_ready.c compiles for it, sequence_replay.c runs it,
 * sequence_own.c says what each thread does for itself. */
#ifndef HR_RUN_SEQUENCE_PARTS_H
#define HR_RUN_SEQUENCE_PARTS_H

#include "run/kernel.h"
#include "run/sequence.h"

typedef struct hr_sequence_place {
    char *name;
    size_t size;     /* bytes */
    size_t at[2];    /* in the arena, and in each thread's own */
    int first, last; /* items that use it; first = -1: none yet */
    bool own;        /* each thread has one of its own */
} hr_sequence_place;

/* A call of a kernel, or a copy. */
typedef struct hr_sequence_item {
    hr_kernel *kernel; /* NULL: a copy, of the second array to the first */
    int first, count;  /* its arrays */
    bool varies;       /* with the step */
    bool has_scalars;
    bool ran;       /* before: its kernel is compiled */
    double seconds; /* of the launches that were timed */
    int64_t launches, timed;
    bool each;         /* every thread does it for itself */
    bool set;          /* sequence_replay.c: the replay has it as it is at sequence->set_step */
    hr_shapes *shapes; /* that serve it there; NULL: none */
} hr_sequence_item;

/* Bytes that an array took in any step so far; begin = end: none. */
typedef struct hr_sequence_range {
    const char *begin, *end;
    bool written;
} hr_sequence_range;

struct hr_sequence {
    hr_handle handle;
    hr_device *device;
    hr_sequence_place *buffers;
    hr_sequence_item *items;
    hr_sequence_array *arrays;
    int buffer_count, item_count, array_count, copy_count;
    int buffer_room, item_room, array_room;
    void *arena;
    size_t arena_size;
    void *own;                 /* the first thread's own arena; the next ones' are behind it */
    size_t own_size, own_room; /* bytes of one, and of all */
    bool meets;                /* it is run by several threads */
    bool planned;
    bool made_ready; /* what its calls need was compiled, or tried */
    int64_t step;    /* of the last launch */
    int64_t launches, timed_whole, timed_calls;
    double whole_seconds, calls_seconds; /* of those that were timed */
    hr_progress_fn progress;
    void *progress_context;

    hr_replay *replay;         /* NULL until needed */
    hr_sequence_range *ranges; /* one an array, where it decides what waits for what */
    double *scalars;           /* one an array: what a scalar was when it was set */
    int64_t set_step;
    bool unordered; /* what waits for what is to be found anew */
    void *scratch;  /* of all calls, one after the other */
    size_t scratch_size;
    double *seconds;  /* room for the times of a launch, one an item */
    int64_t meetings; /* of threads, in the last launch */
};

typedef struct hr_sequence_arrays {
    hr_array arrays[HR_EXECUTE_ARGUMENTS];
    int64_t shapes[HR_EXECUTE_ARGUMENTS][HR_SEQUENCE_RANK];
} hr_sequence_arrays;

/* ---- sequence.c ---- */

/* Gives the buffers of one kind their places in at[own]; *size: what they take. */
hr_status hr_sequence_places_find(hr_sequence *sequence, bool own, size_t *size);
/* An arena of `size` bytes or more; *moved: what was in it is gone. */
hr_status hr_sequence_room(hr_sequence *sequence, size_t size, void **arena, size_t *room, bool *moved);

/* Those of an item at this step; HR_BAD_INPUT where one does not lie in its buffer, or where the sides of a
 * copy differ in their number of bytes. */
hr_status hr_sequence_arrays_make(const hr_sequence *sequence, const hr_sequence_item *item, int64_t step,
                                  hr_sequence_arrays *out);
/* "call 3 of the sequence, kernel norm", before the sentence of a failure. */
hr_status hr_sequence_item_fail(const hr_sequence *sequence, int i, hr_status status);
/* Whether who watches wants item `i`, too. */
bool hr_sequence_goes_on(const hr_sequence *sequence, int i);
/* Bytes from an array's first to past its last, 0 for an empty one. */
size_t hr_sequence_copy_bytes(const hr_array *array);
/* Whether an item writes its array `i`. */
bool hr_sequence_item_writes(const hr_sequence_item *item, int i);

/* ---- sequence_ready.c ---- */

/* Compiles what its calls need that never ran, on as many threads as there are processors. HR_CANCELLED where
 * who watches wants no more. */
hr_status hr_sequence_make_ready(hr_sequence *sequence, int64_t step);

/* ---- sequence_replay.c ---- */

hr_status hr_sequence_replay_prepare(hr_sequence *sequence, int64_t step);
hr_status hr_sequence_replay_launch(hr_sequence *sequence, int64_t step);
hr_status hr_sequence_replay_time(hr_sequence *sequence, int64_t step, hr_sequence_timing timing);
void hr_sequence_replay_counts(const hr_sequence *sequence, hr_replay_counts *out);
/* Items or places are others now. */
void hr_sequence_replay_drop(hr_sequence *sequence);

/* ---- sequence_own.c ---- */

/* Finds anew what each thread of a run does for itself, by the work of what serves the items. *changed:
 * others than before; their buffers have other places then, and all items are to be set again. */
hr_status hr_sequence_own_find(hr_sequence *sequence, bool *changed);
/* Whether the array lies in a buffer that each thread has of its own. */
bool hr_sequence_is_own(const hr_sequence *sequence, int array);

#endif
