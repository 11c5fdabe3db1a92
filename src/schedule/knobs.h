/* The tunables: what a tuner or a caller may choose of one stage's schedule. knobs.def lists them; all else
 * follows. */
#ifndef HR_SCHEDULE_KNOBS_H
#define HR_SCHEDULE_KNOBS_H

#include "headroom.h"

#include <stdbool.h>
#include <stddef.h>

/* Which schedules obey a knob. */
typedef enum hr_knob_scope {
    HR_ON_CPU_WALK = 1 << 0,
    HR_ON_CPU_PRODUCT = 1 << 1,
    HR_ON_CUDA_GRID = 1 << 2,
    HR_ON_CUDA_PRODUCT = 1 << 3,
    HR_ON_CPU = HR_ON_CPU_WALK | HR_ON_CPU_PRODUCT
} hr_knob_scope;

/* The values of knobs that are a choice, from 1: HR_STORE_STREAMING, HR_STORE_CACHED, ... */
#define FIRST(constant, word) constant = 1,
#define NEXT(constant, word)  constant,
#define NUMBER(name, schedules, least, most, label, words)
#define CHOICE(name, schedules, type, label, words, values) typedef enum type { values HR_##name##_END } type;
#include "schedule/knobs.def"
#undef NUMBER
#undef CHOICE
#undef FIRST
#undef NEXT

typedef struct hr_knobs {
#define NUMBER(name, schedules, least, most, label, words)  int name;
#define CHOICE(name, schedules, type, label, words, values) type name;
#include "schedule/knobs.def"
#undef NUMBER
#undef CHOICE
} hr_knobs;

enum {
#define NUMBER(name, schedules, least, most, label, words)  HR_KNOB_##name,
#define CHOICE(name, schedules, type, label, words, values) HR_KNOB_##name,
#include "schedule/knobs.def"
#undef NUMBER
#undef CHOICE
    HR_KNOB_COUNT
};

/* A row of knobs.def. */
typedef struct hr_knob {
    const char *name, *label;
    const char *values; /* words separated by |, from 1; NULL = a number */
    const char *words;
    unsigned schedules; /* of hr_knob_scope */
    int least, most;
    size_t offset; /* in hr_knobs */
} hr_knob;

extern const hr_knob hr_knob_list[HR_KNOB_COUNT];

int hr_knob_get(const hr_knobs *knobs, int number);
void hr_knob_set(hr_knobs *knobs, int number, int value);
/* That of this name; -1 where there is none. */
int hr_knob_find(const char *name, size_t length);
/* HR_BAD_INPUT with a sentence where a value is out of its range, or values exclude each other. */
hr_status hr_knobs_check(const hr_knobs *knobs);
/* "stores streaming, jam 2": the knobs that are set, in words; "default" where none is. At most `size` bytes.
 */
void hr_knobs_label(const hr_knobs *knobs, char *label, size_t size);

#endif
