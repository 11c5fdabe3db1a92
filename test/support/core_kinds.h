/* The kinds of core that the planner tells apart by the sizes of their caches, whatever the host's is. For
 * tests only.
 *
 * In: limits. Out: those of a core that sees less far, of one that sees far, or of one whose stores wait,
 * too.
 */
#ifndef HR_TEST_SUPPORT_CORE_KINDS_H
#define HR_TEST_SUPPORT_CORE_KINDS_H

#include "base/limits.h"

enum { CORE_KINDS = 3, CORE_STORES_WAIT = 2 };

static inline void core_kind(hr_device_limits *limits, int kind) {
    limits->core = 0; /* not the one at hand: its caches say what it is */
    limits->l1_bytes = (kind == 0 ? 32 : 48) << 10;
    limits->l2_bytes = (kind == CORE_STORES_WAIT ? 2 : 1) << 20;
}

/* One kind after the other, then the limits as they were:
 *     for (core_kinds each = core_kinds_of(&device->limits); core_kinds_next(&each);) ... */
typedef struct core_kinds {
    hr_device_limits *limits, own;
    int kind;
} core_kinds;

static inline core_kinds core_kinds_of(hr_device_limits *limits) {
    return (core_kinds){limits, *limits, -1};
}

static inline bool core_kinds_next(core_kinds *each) {
    *each->limits = each->own;
    if (++each->kind == CORE_KINDS) return false;
    core_kind(each->limits, each->kind);
    return true;
}

#endif
