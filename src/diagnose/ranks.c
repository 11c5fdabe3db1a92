/* Whether files are ranks of one run.
 *
 * In: a trace of several files, each a rank or more. Out: nothing, or the sentence that says why they are
 * not: then nobody waits for anybody, and no rank is late.
 */
#include "diagnose/analysis.h"

#include <stdio.h>
#include <string.h>

#define HOUR_NS INT64_C(3600000000000)

static const char *device_of(const hr_trace *trace, int32_t rank) {
    for (int64_t i = 0; i < trace->devices.count; i++)
        if (trace->devices.items[i].rank == rank && trace->devices.items[i].name[0])
            return trace->devices.items[i].name;
    return "";
}

static bool are_apart(const hr_trace *trace, int32_t left, int32_t right, char *why, size_t size) {
    const hr_rank *a = &trace->ranks.items[left], *b = &trace->ranks.items[right];
    const char *first = device_of(trace, left), *second = device_of(trace, right);
    int64_t between = a->zero > b->zero ? a->zero - b->zero : b->zero - a->zero;
    bool one_file = strcmp(a->path, b->path) == 0; /* which then says itself that they are */
    if (one_file && a->rank < 0) return false;
    if (a->world > 0 && b->world > 0 && a->world != b->world)
        snprintf(why, size, "rank %d is one of %d, rank %d one of %d", a->rank, a->world, b->rank, b->world);
    else if (a->rank >= 0 && a->rank == b->rank)
        snprintf(why, size, "both are rank %d", a->rank);
    else if (first[0] && second[0] && strcmp(first, second) != 0)
        snprintf(why, size, "rank %d ran on %s, rank %d on %s", a->rank, first, b->rank, second);
    else if (a->zero && b->zero && between > HOUR_NS)
        snprintf(why, size, "they were recorded %.1f hours apart", (double)between / (double)HOUR_NS);
    else
        return false;
    return true;
}

bool hr_ranks_apart(const hr_trace *trace, char *why, size_t size) {
    for (int32_t i = 0; i < trace->ranks.count; i++)
        for (int32_t k = 0; k < i; k++)
            if (are_apart(trace, k, i, why, size)) return true;
    return false;
}
