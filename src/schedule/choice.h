/* What is chosen of a plan by hand or by a tuner: knobs of some of its stages. All else the schedules choose
 * themselves. It is a value: copied by =, and equal choices are equal bytes. */
#ifndef HR_SCHEDULE_CHOICE_H
#define HR_SCHEDULE_CHOICE_H

#include "schedule/knobs.h"

/* One knob of one stage. */
typedef struct hr_setting {
    int stage, knob, value; /* knob: HR_KNOB_... */
} hr_setting;

enum { HR_SETTINGS_MAX = 16 };

typedef struct hr_choice {
    int count;                            /* 0 = the schedules' own */
    hr_setting settings[HR_SETTINGS_MAX]; /* by stage, then by knob; zeros behind the last */
} hr_choice;

/* Adds the knobs that are set, for a stage behind those that the choice has some for. False, and nothing is
 * added, where there is no room for them. */
bool hr_choice_add(hr_choice *choice, int stage, const hr_knobs *knobs);
/* That of one stage. */
hr_choice hr_choice_of(int stage, const hr_knobs *knobs);
hr_knobs hr_choice_knobs(const hr_choice *choice, int stage);
bool hr_choice_is(const hr_choice *a, const hr_choice *b);
/* HR_BAD_INPUT with a sentence where it is none for a plan of so many stages: a stage that is not there, a
 * value out of its range, values that exclude each other. */
hr_status hr_choice_check(const hr_choice *choice, int stages);
/* "stage 2: jam 2, stores cached; stage 3: prefetch off", without the stage where the plan has but one, and
 * "default" for none. At most `size` bytes. */
void hr_choice_label(const hr_choice *choice, int stages, char *label, size_t size);

#endif
