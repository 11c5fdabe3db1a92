/* The list of knobs, and what follows from it. In: knobs. Out: words, checks. */
#include "schedule/knobs.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

/* "streaming|cached" */
#define FIRST(constant, word) word
#define NEXT(constant, word)  "|" word

const hr_knob hr_knob_list[HR_KNOB_COUNT] = {
#define NUMBER(name, schedules, least, most, label, words)                                                   \
    {#name, label, NULL, words, schedules, least, most, offsetof(hr_knobs, name)},
#define CHOICE(name, schedules, type, label, words, values)                                                  \
    {#name, label, values, words, schedules, 1, HR_##name##_END - 1, offsetof(hr_knobs, name)},
#include "schedule/knobs.def"
#undef NUMBER
#undef CHOICE
};

/* All are numbers of one size: a set of them has no gaps, and is compared and kept as numbers. */
_Static_assert(sizeof(hr_knobs) == HR_KNOB_COUNT * sizeof(int), "a knob is no int");

int hr_knob_get(const hr_knobs *knobs, int number) {
    int value;
    memcpy(&value, (const char *)knobs + hr_knob_list[number].offset, sizeof value);
    return value;
}

void hr_knob_set(hr_knobs *knobs, int number, int value) {
    memcpy((char *)knobs + hr_knob_list[number].offset, &value, sizeof value);
}

/* Values that exclude each other, by their words in knobs.def. */
static hr_status check_together(const hr_knobs *knobs) {
    if (knobs->pipeline == HR_PIPELINE_OFF && knobs->throttle)
        return hr_fail(HR_BAD_INPUT, "tunable \"throttle\" is of a pipeline, and \"pipeline\" is off");
    if (knobs->pipeline > HR_PIPELINE_OFF && knobs->chunk)
        return hr_fail(HR_BAD_INPUT,
                       "tunable \"chunk\" cannot go with \"pipeline\": the rows in flight are one run "
                       "of tasks");
    if (knobs->jam > 1 && knobs->chunk)
        return hr_fail(HR_BAD_INPUT,
                       "tunable \"chunk\" cannot go with \"jam\": rows side by side are one run of tasks");
    return HR_OK;
}

int hr_knob_find(const char *name, size_t length) {
    for (int i = 0; i < HR_KNOB_COUNT; i++)
        if (strlen(hr_knob_list[i].name) == length && memcmp(hr_knob_list[i].name, name, length) == 0)
            return i;
    return -1;
}

hr_status hr_knobs_check(const hr_knobs *knobs) {
    for (int i = 0; i < HR_KNOB_COUNT; i++) {
        const hr_knob *knob = &hr_knob_list[i];
        const int value = hr_knob_get(knobs, i);
        if (value == 0) continue;
        if (value < knob->least || value > knob->most)
            return hr_fail(HR_BAD_INPUT,
                           "tunable \"%s\" is %d; it is from %d to %d, or 0 for the schedule's own choice",
                           knob->label, value, knob->least, knob->most);
    }
    return check_together(knobs);
}

/* The word of a value, and its length; NULL where there is none. */
static const char *word_of(const hr_knob *knob, int value, int *length) {
    const char *word = knob->values;
    for (int i = 1; word && i < value; i++) {
        word = strchr(word, '|');
        if (word) word++;
    }
    if (word) *length = (int)strcspn(word, "|");
    return word;
}

void hr_knobs_label(const hr_knobs *knobs, char *label, size_t size) {
    size_t used = 0;
    label[0] = 0;
    for (int i = 0; i < HR_KNOB_COUNT && used < size; i++) {
        const hr_knob *knob = &hr_knob_list[i];
        const int value = hr_knob_get(knobs, i);
        int length = 0;
        const char *word = word_of(knob, value, &length), *before = used ? ", " : "";
        if (value == 0) continue;
        int put = word ? snprintf(label + used, size - used, "%s%s %.*s", before, knob->label, length, word)
                       : snprintf(label + used, size - used, "%s%s %d", before, knob->label, value);
        if (put > 0) used += (size_t)put;
    }
    if (!used) snprintf(label, size, "default");
}

const char *hr_tuning_help(void) {
    static const char help[] = "What a tuner may choose of each stage, as labels of choices say it: \"jam "
                               "2\", and \"stage 2: jam 2\"\n"
                               "where a plan has several. Unset, a schedule chooses by itself.\n"
#define NUMBER(name, schedules, least, most, label, words)                                                   \
    "\n  " label " " #least "..." #most "\n      " words "\n"
#define CHOICE(name, schedules, type, label, words, values) "\n  " label " " values "\n      " words "\n"
#include "schedule/knobs.def"
#undef NUMBER
#undef CHOICE
        ;
    return help;
}
