/* Scans and topk: values of a row that follow from each other. In: the place in the row that is asked for.
 * Out: its value.
 *
 * What is known of a row is kept in a table: a scan goes on from where it stood, topk sorts a row once. The
 * error of a scan is that of what it reads, and of adding up so many partial results as its schedule makes of
 * it: blocks are joined in f64, so that it does not grow with the row.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "reference/interpreter.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a table; roundings that an element of a scan takes part in, where the schedule is not known. */
enum { TABLE_BYTES = 32 << 20, ROWS_MOST = 1024, ROUNDINGS = 64 };

/* `count` elements are known, in the order in which they are found. */
typedef struct row {
    bool used;
    hr_memo_key key;
    int64_t count, faulty_from;
    int32_t fault;
    bool lost;
    double *value, *bound; /* or whole numbers in the place of values */
    int64_t *whole;
    /* of the last element */
    double error;  /* of what it was made from */
    double size;   /* the same sum of sizes */
    double window; /* the largest product of factors up to it: blocks are joined by such */
} row;

struct hr_scan_rows {
    int64_t row_count, length;
    row *rows;
    double *memory;
};

void hr_scan_rows_destroy(hr_scan_rows *rows) {
    if (!rows) return;
    free(rows->rows);
    free(rows->memory);
    free(rows);
}

static hr_status rows_create(int64_t length, hr_scan_rows **out) {
    const int64_t wide = length > 0 ? length : 1;
    int64_t count = TABLE_BYTES / 16 / wide;
    count = count > ROWS_MOST ? ROWS_MOST : count < 1 ? 1 : count;
    hr_scan_rows *made = hr_memory_zeros(1, sizeof *made);
    if (made) {
        *made = (hr_scan_rows){.row_count = count, .length = wide};
        made->rows = hr_memory_zeros((size_t)count, sizeof *made->rows);
        made->memory = hr_memory_take((size_t)count * 2 * (size_t)wide * sizeof(double));
    }
    if (!made || !made->rows || !made->memory) {
        hr_scan_rows_destroy(made);
        return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    }
    *out = made;
    return HR_OK;
}

/* The row that the indices stand in, but for the one along it. */
static hr_status row_at(hr_reference *reference, hr_fold *fold, int along, row **out) {
    int64_t words[HR_LIVE_MAX];
    int count = 0;
    if (!fold->rows) HR_TRY(rows_create(fold->total, &fold->rows));
    for (int i = 0; i < fold->free_count && count < HR_LIVE_MAX; ++i)
        if (fold->free[i] != along) words[count++] = hr_lanes_whole_at(&reference->indices[fold->free[i]], 0);
    const hr_memo_key key = hr_memo_key_of(HR_MEMO_FOLD, (int)(fold - reference->folds), count, words);
    const int64_t slot = (int64_t)(key.low % (uint64_t)fold->rows->row_count);
    row *r = *out = &fold->rows->rows[slot];
    if (r->used && r->key.low == key.low && r->key.high == key.high) return HR_OK;
    *r = (row){.used = true, .key = key, .faulty_from = INT64_MAX};
    r->value = fold->rows->memory + slot * 2 * fold->rows->length;
    r->bound = r->value + fold->rows->length;
    r->whole = (int64_t *)(void *)r->value;
    return HR_OK;
}

/* ---- scans ---- */

static bool is_whole(const hr_code *code) {
    return code->instructions[code->count - 1].whole;
}

static void note_fault(row *r, const hr_lanes *lanes, int i) {
    const int32_t fault = lanes->faulty ? lanes->fault[lanes->form == HR_FORM_UNIFORM ? 0 : i] : 0;
    if (!fault || r->fault) return;
    r->fault = fault;
    r->faulty_from = r->count;
}

static void follow_whole(row *r, int64_t before, const hr_lanes *a, const hr_lanes *b, int i) {
    const uint64_t product = (uint64_t)hr_lanes_whole_at(a, i) * (uint64_t)before;
    r->lost = r->lost || hr_lanes_doubt_at(a, i) > 0 || hr_lanes_doubt_at(b, i) > 0;
    r->whole[r->count] = (int64_t)(product + (uint64_t)hr_lanes_whole_at(b, i));
    r->bound[r->count] = r->lost;
}

/* In how many roundings an element takes part. What is f64 has no wider type to be joined in. */
static double roundings_of(const hr_fold *fold, const row *r) {
    const int64_t most = fold->order.addends ? fold->order.addends : ROUNDINGS;
    return (double)(fold->expr->type == HR_F64 || r->count + 1 < most ? r->count + 1 : most);
}

static double bound_of(const row *r, double steps, double value, double unit, bool products) {
    if (r->lost) return INFINITY;
    return isfinite(value) ? r->error + unit * (steps + 1) * (products ? 2 : 1) * r->size : 0;
}

static void follow(const hr_fold *fold, row *r, double before, const hr_lanes *a, const hr_lanes *b, int i) {
    const bool wide = fold->expr->type == HR_F64, products = fold->expr->args[0]->op != HR_OP_NUMBER;
    const double unit = hr_dtype_rounding(wide ? HR_F64 : HR_F32), most = wide ? DBL_MAX : (double)FLT_MAX;
    const double factor = a->value[i], rest = b->value[i], value = factor * before + rest;
    if (isinf(a->bound[i]) || isinf(b->bound[i])) r->lost = true;
    r->error = fabs(factor) * r->error + fabs(before) * a->bound[i] + a->bound[i] * r->error + b->bound[i];
    if (isfinite(factor) && isfinite(rest)) {
        r->size = fabs(factor) * r->size + fabs(rest);
        r->window = fabs(factor) * fmax(1, r->window);
        if (r->size > most || r->window > most) r->lost = true;
        if (!wide && products) r->error += 0x1p-126; /* a product below f32's normal numbers */
    }
    if (!isfinite(value) || r->error != r->error) r->error = 0;
    r->value[r->count] = value;
    r->bound[r->count] = bound_of(r, roundings_of(fold, r), value, unit, products);
}

/* The next elements, as many as a strip holds; in `back` from the end. */
static hr_status go_on(hr_reference *reference, hr_fold *fold, row *r, double first, int64_t first_whole) {
    const bool back = fold->expr->op == HR_OP_SCAN_BACK;
    int count = reference->width;
    if (count > fold->total - r->count) count = (int)(fold->total - r->count);
    hr_lanes *index = &reference->indices[fold->expr->bound[0]];
    for (int part = 0; part < 2; ++part) {
        hr_lanes_set_whole(index, back ? fold->total - 1 - r->count : r->count);
        index->whole = fold->walk[0];
        index->form = HR_FORM_AFFINE;
        index->step = back ? -1 : 1;
        HR_TRY(hr_code_run(reference, part ? &fold->body : &fold->factor, count, true));
    }
    hr_lanes *a = hr_code_result(&fold->factor), *b = hr_code_result(&fold->body);
    const bool whole = is_whole(&fold->body);
    if (!whole) {
        hr_lanes_broadcast_value(a, count);
        hr_lanes_broadcast_value(b, count);
    }
    for (int i = 0; i < count; ++i) {
        note_fault(r, a, i);
        note_fault(r, b, i);
        if (whole)
            follow_whole(r, r->count ? r->whole[r->count - 1] : first_whole, a, b, i);
        else
            follow(fold, r, r->count ? r->value[r->count - 1] : first, a, b, i);
        ++r->count;
    }
    return HR_OK;
}

/* What stands before the first element. */
static hr_status begin(hr_reference *reference, hr_fold *fold, row *r, double *first, int64_t *first_whole) {
    HR_TRY(hr_code_run(reference, &fold->start, 1, true));
    hr_lanes *start = hr_code_result(&fold->start);
    note_fault(r, start, 0);
    if (is_whole(&fold->start)) {
        *first_whole = hr_lanes_whole_at(start, 0);
        r->lost = hr_lanes_doubt_at(start, 0) > 0;
        return HR_OK;
    }
    hr_lanes_broadcast_value(start, 1);
    *first = start->value[0];
    r->error = start->bound[0];
    r->lost = isinf(r->error);
    r->size = isfinite(*first) ? fabs(*first) : 0;
    return HR_OK;
}

hr_status hr_scan_known(hr_reference *reference, hr_fold *fold, hr_known *out) {
    const int along = fold->expr->bound[0];
    const int64_t place = hr_lanes_whole_at(&reference->indices[along], 0);
    const int64_t wanted = fold->expr->op == HR_OP_SCAN_BACK ? fold->total - 1 - place : place;
    double first = 0;
    int64_t first_whole = 0;
    row *r;
    HR_TRY(row_at(reference, fold, along, &r));
    if (r->count == 0) {
        const hr_status status = begin(reference, fold, r, &first, &first_whole);
        if (status != HR_OK) r->used = false;
        HR_TRY(status);
    }
    while (r->count <= wanted) {
        const bool none = r->count == 0;
        const hr_status status = go_on(reference, fold, r, first, first_whole);
        if (status != HR_OK && none) r->used = false; /* it begins again */
        HR_TRY(status);
    }
    *out = (hr_known){.bound = r->bound[wanted], .fault = wanted >= r->faulty_from ? r->fault : 0};
    if (is_whole(&fold->body))
        out->whole = r->whole[wanted];
    else
        out->value = r->value[wanted];
    return HR_OK;
}

/* ---- topk ---- */

typedef struct candidate {
    double value, bound;
    int64_t whole, place;
} candidate;

/* NaN before all else, then the largest; of equals the first. */
static int compare(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    const bool a_nan = a->value != a->value, b_nan = b->value != b->value;
    if (a_nan != b_nan) return a_nan ? -1 : 1;
    if (!a_nan && a->value != b->value) return a->value > b->value ? -1 : 1;
    if (a->whole != b->whole) return a->whole > b->whole ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

static hr_status collect(hr_reference *reference, hr_fold *fold, row *r, candidate *all) {
    const bool whole = is_whole(&fold->body);
    for (int64_t start = 0; start < fold->total;) {
        const int count = hr_fold_points(reference, fold, start);
        HR_TRY(hr_code_run(reference, &fold->body, count, start == 0));
        hr_lanes *lanes = hr_code_result(&fold->body);
        if (!whole) hr_lanes_broadcast_value(lanes, count);
        for (int i = 0; i < count; ++i) {
            candidate *c = &all[start + i];
            note_fault(r, lanes, i);
            *c = (candidate){.place = start + i,
                             .bound = whole ? hr_lanes_doubt_at(lanes, i) : lanes->bound[i]};
            if (whole)
                c->whole = hr_lanes_whole_at(lanes, i);
            else
                c->value = lanes->value[i];
        }
        start += count;
    }
    return HR_OK;
}

/* A place is in doubt where a neighbour in order may be as large. */
static void keep(const hr_fold *fold, row *r, const candidate *all) {
    const bool whole = is_whole(&fold->body);
    double worst = 0;
    for (int64_t i = 0; i < fold->total; ++i)
        worst = fmax(worst, all[i].bound);
    for (int64_t i = 0; i < fold->total; ++i) {
        const double error = all[i].bound + worst;
        bool doubt = whole ? worst > 0 : isinf(worst);
        for (int64_t k = i - 1; k <= i + 1 && error > 0; k += 2)
            if (k >= 0 && k < fold->total && fabs(all[i].value - all[k].value) <= error) doubt = true;
        r->whole[i] = all[i].place;
        r->bound[i] = doubt;
    }
    r->count = fold->total;
    r->faulty_from = 0;
}

hr_status hr_topk_known(hr_reference *reference, hr_fold *fold, hr_known *out) {
    const int along = fold->expr->args[1]->index;
    const int64_t rank = hr_lanes_whole_at(&reference->indices[along], 0);
    row *r;
    HR_TRY(row_at(reference, fold, along, &r));
    if (r->count == 0 && fold->total > 0) {
        candidate *all = hr_memory_take((size_t)fold->total * sizeof *all);
        hr_status status = all ? collect(reference, fold, r, all)
                               : hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
        if (status == HR_OK) {
            qsort(all, (size_t)fold->total, sizeof *all, compare);
            keep(fold, r, all);
        } else {
            r->used = false;
        }
        free(all);
        HR_TRY(status);
    }
    if (rank < 0 || rank >= r->count)
        return hr_fail(HR_OUT_OF_RANGE, "topk of %lld elements has none of rank %lld", (long long)fold->total,
                       (long long)rank);
    *out = (hr_known){.whole = r->whole[rank], .bound = r->bound[rank], .fault = r->fault};
    return HR_OK;
}
