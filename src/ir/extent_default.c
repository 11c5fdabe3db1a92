/* Extents for a run that names none. In: extents, some known. Out: all known; docs/language.md has the rules.
 *
 * Inner axes get the sizes that networks have; then the outer extents are doubled together until the tensors
 * hold BYTES_WANTED, which leaves every cache. Kernels with matrix products stay small enough to take
 * well under a second.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir/count.h"
#include "ir/extent.h"
#include "ir/visit.h"

#include <stdlib.h>

#define BYTES_WANTED   (96.0 * (1 << 20))
#define OUTER_MAX      ((int64_t)1 << 26)
#define PRODUCT_EXTENT 1024
#define RANKS          8 /* of a topk, where its row has as many elements */

typedef enum standing { FREE, OUTER, INNER } standing;

typedef struct defaults {
    const hr_function *function;
    int64_t *extents;
    standing *standings; /* INNER wins over OUTER, and OUTER over FREE */
    int64_t *inner;      /* the smallest wish of the inner axes that an extent stands on */
    bool products;
} defaults;

/* What an axis counted from the last wants: features, then heads or groups, then anything. */
static int64_t inner_wish(const defaults *d, int rank, int from_last) {
    if (d->products) return rank <= 2 ? PRODUCT_EXTENT : from_last == 0 ? 64 : from_last == 1 ? 256 : 4;
    if (rank <= 2) return 4096;
    return from_last == 0 ? 128 : 16;
}

typedef struct wishing {
    defaults *defaults;
    standing stand;
    int64_t value;
} wishing;

static hr_visit wish(void *context, const hr_expr *node) {
    const wishing *w = context;
    defaults *d = w->defaults;
    if (node->op != HR_OP_EXTENT || d->extents[node->extent] != HR_EXTENT_UNKNOWN) return HR_VISIT_ON;
    int e = node->extent;
    if (w->stand > d->standings[e]) d->standings[e] = w->stand;
    if (w->stand == INNER && (!d->inner[e] || w->value < d->inner[e])) d->inner[e] = w->value;
    return HR_VISIT_ON;
}

static void wish_all(defaults *d) {
    const hr_function *function = d->function;
    for (int i = 0; i < function->parameter_count + function->result_count; i++) {
        const hr_tensor *tensor = &function->tensors[i];
        for (int axis = 0; axis < tensor->rank; axis++) {
            bool outer = axis == 0 && (!d->products || tensor->rank == 1);
            wishing w = {d, outer ? OUTER : INNER, inner_wish(d, tensor->rank, tensor->rank - 1 - axis)};
            hr_expr_visit(tensor->shape[axis], wish, &w);
        }
    }
}

/* The extent that says how many of the largest are wanted, where the run must choose it; -1 = there is none.
 */
static int ranks_of(const defaults *d, const hr_statement *statement) {
    if (!statement->value || statement->value->op != HR_OP_TOPK) return -1;
    const hr_expr *size = d->function->indices[statement->value->args[1]->index].extent;
    return size->op == HR_OP_EXTENT && d->extents[size->extent] == HR_EXTENT_UNKNOWN ? size->extent : -1;
}

/* All of a row whose size is known, else as many as are usual. */
static int64_t rank_wish(const defaults *d, const hr_statement *statement) {
    const hr_expr *row = d->function->indices[statement->value->bound[0]].extent;
    bool unknown = row->op == HR_OP_EXTENT && d->extents[row->extent] == HR_EXTENT_UNKNOWN;
    int64_t size;
    if (unknown || hr_extent_value(d->function, row, d->extents, &size) != HR_OK) return RANKS;
    return size < RANKS ? size : RANKS;
}

static void give_ranks(defaults *d) {
    for (int i = 0; i < d->function->statement_count; i++) {
        const int e = ranks_of(d, &d->function->statements[i]);
        if (e >= 0) d->extents[e] = rank_wish(d, &d->function->statements[i]);
    }
}

/* A sum of a product over an index that neither factor lacks: see ir/count.c for the exact rule. */
static hr_status find_product(const hr_function *function, bool *found) {
    hr_work work = {0};
    int64_t *ones = hr_memory_take(((size_t)function->extent_count + 1) * sizeof *ones);
    if (!ones) return hr_fail(HR_OUT_OF_MEMORY, "out of memory for extents");
    for (int i = 0; i < function->extent_count; i++)
        ones[i] = 4;
    hr_status status = hr_work_count(function, ones, &work);
    *found = status == HR_OK && work.tensor_flops > 0;
    free(ones);
    return status == HR_OUT_OF_MEMORY ? status : HR_OK; /* what has no count, has no product */
}

static double bytes_of(const defaults *d) {
    double bytes = 0;
    for (int i = 0; i < d->function->parameter_count + d->function->result_count; i++) {
        const hr_tensor *tensor = &d->function->tensors[i];
        double size = (double)hr_dtype_size(tensor->dtype);
        for (int axis = 0; axis < tensor->rank; axis++) {
            int64_t extent = 0;
            if (hr_extent_value(d->function, tensor->shape[axis], d->extents, &extent) != HR_OK)
                return 0; /* `M - 3` while M is small */
            size *= (double)extent;
        }
        bytes += size;
    }
    return bytes;
}

static hr_status choose(defaults *d) {
    int count = d->function->extent_count, outer = 0;
    give_ranks(d);
    wish_all(d);
    for (int i = 0; i < count; i++) {
        if (d->extents[i] != HR_EXTENT_UNKNOWN) {
            d->standings[i] = FREE;
            continue;
        }
        d->extents[i] = d->standings[i] == INNER ? d->inner[i] : d->standings[i] == OUTER ? 1 : 16;
        outer += d->standings[i] == OUTER;
    }
    if (d->products) {
        for (int i = 0; i < count; i++)
            if (d->standings[i] == OUTER) d->extents[i] = PRODUCT_EXTENT;
        return HR_OK;
    }
    for (int64_t size = 1; outer && size < OUTER_MAX && bytes_of(d) < BYTES_WANTED;) {
        size *= 2;
        for (int i = 0; i < count; i++)
            if (d->standings[i] == OUTER) d->extents[i] = size;
    }
    return HR_OK;
}

hr_status hr_extent_default(const hr_function *function, int64_t *extents) {
    size_t count = (size_t)function->extent_count + 1;
    defaults d = {.function = function,
                  .extents = extents,
                  .standings = hr_memory_zeros(count, sizeof(standing)),
                  .inner = hr_memory_zeros(count, sizeof(int64_t))};
    hr_status status = find_product(function, &d.products);
    if (status == HR_OK)
        status = d.standings && d.inner ? choose(&d) : hr_fail(HR_OUT_OF_MEMORY, "out of memory for extents");
    free(d.standings);
    free(d.inner);
    return status;
}
