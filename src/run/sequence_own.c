/* What each thread of a run does for itself: little work that all of them need before the next they share.
 *
 * A norm of one token, say, whose result every thread multiplies with its rows of a weight. One thread would
 * make it and the others wait; each makes it sooner. Such calls write only buffers that nothing else writes,
 * and each thread has these in an arena of its own.
 *
 * In: items and what serves them. Out: marks on items and buffers, and places for those.
 */
#include "run/sequence_parts.h"

#include <string.h>

#define LITTLE_TIMES                                                                                         \
    4 /* the work that one thread does before others start: so much each does sooner than it                 \
       * waits for the others, twice */
#define OWN_ALIGNMENT 4096 /* threads share no line, nor a page that moves to another memory */

bool hr_sequence_is_own(const hr_sequence *sequence, int array) {
    const int buffer = sequence->arrays[array].buffer;
    return buffer >= 0 && sequence->buffers[buffer].own;
}

static bool is_little(const hr_sequence *sequence, const hr_sequence_item *item) {
    return item->shapes && item->shapes->scratch_size == 0 &&
           item->shapes->operations < LITTLE_TIMES * sequence->device->limits.little_work;
}

static bool writes_own(const hr_sequence *sequence, const hr_sequence_item *item) {
    bool own = true;
    for (int i = 0; i < item->count; i++)
        own &= !hr_sequence_item_writes(item, i) || hr_sequence_is_own(sequence, item->first + i);
    return own;
}

/* All threads have what it writes in common; true where they had not. */
static bool results_share(hr_sequence *sequence, const hr_sequence_item *item) {
    bool changed = false;
    for (int i = 0; i < item->count; i++) {
        if (!hr_sequence_item_writes(item, i) || !hr_sequence_is_own(sequence, item->first + i)) continue;
        sequence->buffers[sequence->arrays[item->first + i].buffer].own = false;
        changed = true;
    }
    return changed;
}

static int threads_most(const hr_sequence *sequence) {
    int most = 1;
    for (int i = 0; i < sequence->item_count; i++) {
        const hr_shapes *shapes = sequence->items[i].shapes;
        if (shapes && shapes->threads > most) most = shapes->threads;
    }
    return most;
}

/* From all buffers to those that hold: what a call that is not for each thread writes is everybody's, and so
 * is with it what else writes there. True where another set of calls is for each thread than was. */
static bool own_mark(hr_sequence *sequence) {
    const bool several = threads_most(sequence) > 1;
    bool other = false;
    for (int i = 0; i < sequence->buffer_count; i++)
        sequence->buffers[i].own = several;
    for (bool changed = several; changed;) {
        changed = false;
        for (int i = 0; i < sequence->item_count; i++) {
            const hr_sequence_item *item = &sequence->items[i];
            if (!is_little(sequence, item) || !writes_own(sequence, item))
                changed |= results_share(sequence, item);
        }
    }
    for (int i = 0; i < sequence->item_count; i++) {
        hr_sequence_item *item = &sequence->items[i];
        const bool each = several && is_little(sequence, item) && writes_own(sequence, item);
        other |= each != item->each;
        item->each = each;
    }
    return other;
}

/* *other: arenas or places are not what they were. */
static hr_status buffers_place(hr_sequence *sequence, bool *other) {
    const int threads = threads_most(sequence);
    bool moved, own_moved;
    size_t size, own_size;
    *other = sequence->meets != (threads > 1);
    sequence->meets = threads > 1;
    HR_TRY(hr_sequence_places_find(sequence, false, &size));
    HR_TRY(hr_sequence_places_find(sequence, true, &own_size));
    own_size = (own_size + OWN_ALIGNMENT - 1) / OWN_ALIGNMENT * OWN_ALIGNMENT;
    HR_TRY(hr_sequence_room(sequence, size, &sequence->arena, &sequence->arena_size, &moved));
    HR_TRY(hr_sequence_room(sequence, own_size * (size_t)threads, &sequence->own, &sequence->own_room,
                            &own_moved));
    *other |= moved || own_moved || own_size != sequence->own_size;
    sequence->own_size = own_size;
    return HR_OK;
}

hr_status hr_sequence_own_find(hr_sequence *sequence, bool *changed) {
    const hr_replay_ops *ops = sequence->device->ops->replay;
    bool moved;
    *changed = own_mark(sequence);
    HR_TRY(buffers_place(sequence, &moved));
    *changed |= moved;
    if (!*changed) return HR_OK;
    ops->set_own(sequence->replay, sequence->own, sequence->own_size);
    for (int i = 0; i < sequence->item_count; i++) {
        ops->set_each(sequence->replay, i, sequence->items[i].each);
        sequence->items[i].set = false;
    }
    memset(sequence->ranges, 0, (size_t)sequence->array_count * sizeof *sequence->ranges);
    return HR_OK;
}
