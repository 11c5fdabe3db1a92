/* Before and after: which kernels came, went, or changed their time.
 *
 * In: two diagnoses of one program. Out: the first one, with the second one and the list of changes.
 */
#include "diagnose/diagnose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *name;
    const hr_kernel_summary *kernel;
} entry;

static int compare_names(const void *left, const void *right) {
    return strcmp(((const entry *)left)->name, ((const entry *)right)->name);
}

static entry *sorted_names(hr_arena *arena, const hr_diagnosis *diagnosis) {
    size_t count = (size_t)diagnosis->kernel_count;
    entry *entries = hr_arena_alloc(arena, (count + 1) * sizeof *entries);
    for (size_t i = 0; i < count; i++)
        entries[i] =
            (entry){hr_trace_string(diagnosis->trace, diagnosis->kernels[i].name), &diagnosis->kernels[i]};
    qsort(entries, count, sizeof *entries, compare_names);
    return entries;
}

static hr_change change_of(const hr_kernel_summary *before, const hr_kernel_summary *after) {
    const hr_kernel_summary *either = before ? before : after;
    return (hr_change){.before_name = before ? before->name : -1,
                       .after_name = after ? after->name : -1,
                       .name = either->short_name,
                       .kind = either->kind,
                       .before = before ? before->seconds : 0,
                       .after = after ? after->seconds : 0,
                       .before_count = before ? before->per_step : 0,
                       .after_count = after ? after->per_step : 0};
}

static int compare_changes(const void *left, const void *right) {
    const hr_change *a = left, *b = right;
    double first = fabs(a->after - a->before), second = fabs(b->after - b->before);
    return first != second ? (first < second ? 1 : -1) : a->before_name - b->before_name;
}

hr_status hr_diagnosis_join(hr_diagnosis *before, hr_diagnosis *after) {
    hr_arena *arena = before->arena;
    size_t room = (size_t)(before->kernel_count + after->kernel_count) + 1;
    if (hr_arena_room(arena) < room * (sizeof(hr_change) + 2 * sizeof(entry)) + 4096) {
        hr_diagnosis_destroy(before);
        hr_diagnosis_destroy(after);
        return hr_fail(HR_OUT_OF_MEMORY, "the two traces have more kernels than can be compared");
    }
    entry *left = sorted_names(arena, before), *right = sorted_names(arena, after);
    hr_change *changes = hr_arena_alloc(arena, room * sizeof *changes);
    int i = 0, k = 0, count = 0;
    while (i < before->kernel_count || k < after->kernel_count) {
        int order = i == before->kernel_count  ? 1
                    : k == after->kernel_count ? -1
                                               : strcmp(left[i].name, right[k].name);
        changes[count++] = change_of(order <= 0 ? left[i].kernel : NULL, order >= 0 ? right[k].kernel : NULL);
        i += order <= 0;
        k += order >= 0;
    }
    qsort(changes, (size_t)count, sizeof *changes, compare_changes);
    before->changes = changes;
    before->change_count = count;
    before->after = after;
    return HR_OK;
}
