/* A choice of knobs for the stages of a plan. In: settings. Out: a stage's knobs, words, checks. */
#include "schedule/choice.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

bool hr_choice_add(hr_choice *choice, int stage, const hr_knobs *knobs) {
    hr_choice longer = *choice;
    for (int i = 0; i < HR_KNOB_COUNT; i++) {
        const int value = hr_knob_get(knobs, i);
        if (value == 0) continue;
        if (longer.count == HR_SETTINGS_MAX) return false;
        longer.settings[longer.count++] = (hr_setting){stage, i, value};
    }
    *choice = longer;
    return true;
}

hr_choice hr_choice_of(int stage, const hr_knobs *knobs) {
    hr_choice choice = {0};
    hr_choice_add(&choice, stage, knobs);
    return choice;
}

hr_knobs hr_choice_knobs(const hr_choice *choice, int stage) {
    hr_knobs knobs = {0};
    for (int i = 0; i < choice->count; i++)
        if (choice->settings[i].stage == stage)
            hr_knob_set(&knobs, choice->settings[i].knob, choice->settings[i].value);
    return knobs;
}

bool hr_choice_is(const hr_choice *a, const hr_choice *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

static bool is_in_order(const hr_setting *before, const hr_setting *next) {
    return before->stage < next->stage || (before->stage == next->stage && before->knob < next->knob);
}

hr_status hr_choice_check(const hr_choice *choice, int stages) {
    for (int i = 0; i < choice->count; i++) {
        const hr_setting *setting = &choice->settings[i];
        if (setting->stage < 0 || setting->stage >= stages)
            return hr_fail(HR_BAD_INPUT, "a tunable is set for stage %d of a plan that has %d",
                           setting->stage + 1, stages);
        if (i && !is_in_order(setting - 1, setting))
            return hr_fail(HR_BAD_INPUT, "tunable \"%s\" of stage %d is set twice, or out of order",
                           hr_knob_list[setting->knob].label, setting->stage + 1);
        if (i && setting[-1].stage == setting->stage) continue; /* all of a stage are looked at together */
        const hr_knobs knobs = hr_choice_knobs(choice, setting->stage);
        HR_TRY(hr_knobs_check(&knobs));
    }
    return HR_OK;
}

void hr_choice_label(const hr_choice *choice, int stages, char *label, size_t size) {
    size_t used = 0;
    int told = -1;
    snprintf(label, size, "%s", choice->count ? "" : "default");
    for (int i = 0; i < choice->count && used < size; i++) {
        const int stage = choice->settings[i].stage;
        if (stage == told) continue;
        if (stages > 1) snprintf(label + used, size - used, "%sstage %d: ", told < 0 ? "" : "; ", stage + 1);
        used += strlen(label + used);
        const hr_knobs knobs = hr_choice_knobs(choice, stage);
        hr_knobs_label(&knobs, label + used, size - used);
        used += strlen(label + used);
        told = stage;
    }
}
