/* Counts of shared processors. In and out: see team_places.h. */
#define _GNU_SOURCE
#include "device/team_places.h"

#include <string.h>

#define WINDOW    64 /* jobs */
#define REST_MOST 1024

static bool is_known(int processor) {
    return processor >= 0 && processor < HR_PLACES_MOST;
}

int hr_place_enter(hr_places *places, hr_place *place, int part, int processor) {
    atomic_store_explicit(&place->processor, processor, memory_order_relaxed);
    if (!is_known(processor)) return -1;
    atomic_short *last = &places->last[processor].part;
    const int other = atomic_load_explicit(last, memory_order_relaxed) - 1;
    if (other == part) return -1;
    atomic_store_explicit(last, (short)(part + 1), memory_order_relaxed);
    return other > part ? other : other < 0 ? -1 : part;
}

bool hr_place_is_due(hr_place *place) {
    if (++place->jobs < WINDOW) return false;
    const int shared = atomic_exchange_explicit(&place->shared, 0, memory_order_relaxed);
    place->jobs = 0;
    if (place->rest > 0) {
        place->rest--;
        return false;
    }
    if (shared <= WINDOW / 2) {
        place->moves = 0;
        return false;
    }
    place->rest = 1 << place->moves;
    if (place->rest < REST_MOST) place->moves++;
    return true;
}

bool hr_places_free(const cpu_set_t *allowed, size_t bytes, hr_place *const *others, int count,
                    cpu_set_t *out) {
    memcpy(out, allowed, bytes);
    for (int i = 0; i < count; i++) {
        const int processor = atomic_load_explicit(&others[i]->processor, memory_order_relaxed);
        if (is_known(processor)) CPU_CLR_S((size_t)processor, bytes, out);
    }
    return CPU_COUNT_S(bytes, out) > 0;
}
