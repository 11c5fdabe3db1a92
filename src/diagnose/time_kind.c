/* The kinds of time by name. In: a kind. Out: its name, words and group. */
#include "diagnose/diagnose.h"

static const struct {
    const char *name, *words;
    hr_time_group group;
} kinds[] = {
#define KIND_ROW(id, name, words, group) {name, words, HR_GROUP_##group},
    HR_TIME_KINDS(KIND_ROW)
#undef KIND_ROW
};

const char *hr_time_kind_name(hr_time_kind kind) {
    return kind < HR_TIME_KIND_COUNT ? kinds[kind].name : "";
}

const char *hr_time_kind_words(hr_time_kind kind) {
    return kind < HR_TIME_KIND_COUNT ? kinds[kind].words : "";
}

hr_time_group hr_time_kind_group(hr_time_kind kind) {
    return kind < HR_TIME_KIND_COUNT ? kinds[kind].group : HR_GROUP_COMPUTE;
}

const char *hr_limiter_name(hr_limiter limiter) {
    static const char *const names[] = {"", "nothing", "registers", "shared memory", "block size", "grid"};
    return names[limiter];
}

const char *hr_bound_name(hr_bound bound) {
    static const char *const names[] = {"", "memory", "compute", "latency"};
    return names[bound];
}
