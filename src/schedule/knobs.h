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

/* The values of knobs that are a choice, in the order of their words in knobs.def. 0 = the schedule's own. */
typedef enum hr_store_knob { HR_STORE_STREAMING = 1, HR_STORE_CACHED } hr_store_knob;
typedef enum hr_prefetch_knob {
    HR_PREFETCH_OFF = 1,
    HR_PREFETCH_2K,
    HR_PREFETCH_4K,
    HR_PREFETCH_8K,
    HR_PREFETCH_16K
} hr_prefetch_knob;
typedef enum hr_short_axis_knob { HR_SHORT_AXIS_LOOP = 1 } hr_short_axis_knob;
typedef enum hr_pipeline_knob { HR_PIPELINE_OFF = 1, HR_PIPELINE_ON } hr_pipeline_knob;
/* How far steps of passes side by side may begin before those ahead of them have ended. */
typedef enum hr_throttle {
    HR_THROTTLE_NONE = 1, /* as far as the core sees */
    HR_THROTTLE_ADDRESSES /* a step's addresses wait for what the step before it reads of memory */
} hr_throttle;
typedef enum hr_order_knob { HR_ORDER_AS_THEY_COME = 1, HR_ORDER_BY_ROW } hr_order_knob;
typedef enum hr_join_knob { HR_JOIN_OFF = 1, HR_JOIN_BLOCKS } hr_join_knob;
typedef enum hr_eviction_knob { HR_EVICTION_LAST = 1, HR_EVICTION_USUAL } hr_eviction_knob;
typedef enum hr_staging_knob {
    HR_STAGING_REGISTERS = 1,
    HR_STAGING_SHARED,
    HR_STAGING_AHEAD,
    HR_STAGING_DOUBLE,
    HR_STAGING_RING
} hr_staging_knob;

typedef struct hr_knobs {
#define NUMBER(name, schedules, least, most, label, words)        int name;
#define CHOICE(name, schedules, type, most, values, label, words) type name;
#include "schedule/knobs.def"
#undef NUMBER
#undef CHOICE
} hr_knobs;

enum {
#define NUMBER(name, schedules, least, most, label, words)        HR_KNOB_##name,
#define CHOICE(name, schedules, type, most, values, label, words) HR_KNOB_##name,
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
