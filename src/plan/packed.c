/* How the numbers of a matrix lie in memory. In: an operand. Out: where they stand. See packed.h. */
#include "plan/packed.h"

#include "base/dtype.h"
#include "base/memory.h"
#include "base/saturate.h"
#include "ir/visit.h"

#include <math.h>
#include <stdlib.h>

/* DEPTH, STEPS: of an expression that is evaluated. CHUNK: bytes that are copied at once. */
enum { DEPTH_MOST = 32, CHUNK = 16, WORD = 4, UNITS = 4, BYTES = 256, ROW_NUMBERS_MOST = 1 << 16 };
/* What bf16 holds of whole numbers. */
static const double number_most = 256;

typedef struct reader {
    const hr_function *function;
    const int64_t *extents;
    const hr_contract *contract;
    const hr_expr *element;
    int64_t *index; /* the value of each */
    bool *is_k;     /* by index */
    int64_t k;      /* numbers of a row */
    int unit_most;  /* bytes of a unit */
    double byte;    /* the element's value */
    bool known;
} reader;

/* ---- evaluated ---- */

static double value_of(reader *r, const hr_expr *e, int depth);

static double unknown(reader *r) {
    r->known = false;
    return 0;
}

static double of_bits(reader *r, hr_op op, double x, double y) {
    const int64_t a = (int64_t)x, b = (int64_t)y;
    const bool shifts = op == HR_OP_SHIFT_LEFT || op == HR_OP_SHIFT_RIGHT;
    if (fabs(x) > INT32_MAX || fabs(y) > INT32_MAX || (shifts && (b < 0 || b > 31))) return unknown(r);
    switch (op) {
    case HR_OP_BIT_AND:
        return (double)(a & b);
    case HR_OP_BIT_OR:
        return (double)(a | b);
    case HR_OP_BIT_XOR:
        return (double)(a ^ b);
    case HR_OP_SHIFT_LEFT:
        return (double)a * (double)(INT64_C(1) << b);
    default:
        return floor((double)a / (double)(INT64_C(1) << b));
    }
}

static double of_two(reader *r, const hr_expr *e, int depth) {
    const double a = value_of(r, e->args[0], depth), b = value_of(r, e->args[1], depth);
    switch (e->op) {
    case HR_OP_ADD:
        return a + b;
    case HR_OP_SUB:
        return a - b;
    case HR_OP_MUL:
        return a * b;
    case HR_OP_FLOORDIV:
        return b != 0 ? floor(a / b) : unknown(r);
    case HR_OP_MOD:
        return b != 0 ? a - b * floor(a / b) : unknown(r);
    default:
        if (hr_op_is_comparison(e->op)) return hr_op_holds(e->op, a<b, a == b, a> b);
        return hr_op_is_bitwise(e->op) ? of_bits(r, e->op, a, b) : unknown(r);
    }
}

/* A whole number of 32 bits becomes itself; what would be cut, saturated or rounded is not known. */
static double converted(reader *r, hr_dtype dtype, double value) {
    const bool real = dtype == HR_F64 || dtype == HR_F32, whole = dtype == HR_I64 || dtype == HR_I32;
    const bool stays = value == floor(value) && fabs(value) <= INT32_MAX;
    return real || (whole && stays) ? value : unknown(r);
}

/* Of small whole numbers, indices and the element. */
static double value_of(reader *r, const hr_expr *e, int depth) {
    int64_t size;
    if (depth == DEPTH_MOST || !r->known) return unknown(r);
    switch (e->op) {
    case HR_OP_NUMBER:
        return e->type == HR_F32 || e->type == HR_F64 ? e->number : (double)e->whole;
    case HR_OP_EXTENT:
        return hr_extent_value(r->function, e, r->extents, &size) == HR_OK ? (double)size : unknown(r);
    case HR_OP_INDEX:
        return r->is_k[e->index] ? (double)r->index[e->index] : unknown(r);
    case HR_OP_ELEMENT:
        return e == r->element ? r->byte : unknown(r);
    case HR_OP_CONVERT:
        return converted(r, e->dtype, value_of(r, e->args[0], depth + 1));
    case HR_OP_NEG:
        return -value_of(r, e->args[0], depth + 1);
    case HR_OP_WHERE:
        return value_of(r, value_of(r, e->args[0], depth + 1) != 0 ? e->args[1] : e->args[2], depth + 1);
    default:
        return e->arg_count == 2 ? of_two(r, e, depth + 1) : unknown(r);
    }
}

/* ---- factors ---- */

typedef struct factors {
    int count;
    const hr_expr *factor[HR_PACKED_FACTORS_MAX + 1];
} factors;

static bool collect(factors *list, const hr_expr *e) {
    if (e->op == HR_OP_MUL && e->type == HR_F32)
        return collect(list, e->args[0]) && collect(list, e->args[1]);
    if (list->count == HR_PACKED_FACTORS_MAX + 1) return false;
    list->factor[list->count++] = e;
    return true;
}

typedef struct runs {
    const hr_function *function;
    const int64_t *extents;
    int index;
    int64_t run;
} runs;

static int64_t common(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

static hr_visit find_runs(void *context, const hr_expr *e) {
    runs *r = context;
    int64_t by;
    const bool counts =
        e->op == HR_OP_FLOORDIV && e->args[0]->op == HR_OP_INDEX && e->args[0]->index == r->index;
    const bool fixed = counts && (e->args[1]->op == HR_OP_NUMBER || e->args[1]->op == HR_OP_EXTENT);
    if (fixed && hr_extent_value(r->function, e->args[1], r->extents, &by) == HR_OK && by > 0) {
        r->run = r->run == INT64_MAX ? by : common(r->run, by);
        return HR_VISIT_PAST;
    }
    if (e->op == HR_OP_INDEX && e->index == r->index) r->run = 1;
    return HR_VISIT_ON;
}

int64_t hr_run_of(const hr_function *function, const int64_t *extents, const hr_expr *expr, int index) {
    runs r = {function, extents, index, INT64_MAX};
    hr_expr_visit(expr, find_runs, &r);
    return r.run;
}

/* The factor in which neighbours along k differ is the number, the others are scales. */
static const hr_expr *part_factors(const hr_function *function, const int64_t *extents, const hr_contract *c,
                                   const hr_expr *value, hr_packed *out) {
    factors list = {0};
    const hr_expr *number = NULL;
    if (!collect(&list, value)) return NULL;
    for (int i = 0; i < list.count; i++) {
        if (hr_run_of(function, extents, list.factor[i], c->k[c->k_count - 1]) > 1) {
            if (out->scale_count == HR_PACKED_FACTORS_MAX) return NULL;
            out->scale[out->scale_count++] = list.factor[i];
        } else if (number) {
            return NULL;
        } else {
            number = list.factor[i];
        }
    }
    return number;
}

static hr_visit is_element(const hr_expr *e, const void *context) {
    (void)context;
    return hr_visit_until(e->op == HR_OP_ELEMENT);
}

static hr_visit is_other_element(const hr_expr *e, const void *context) {
    return e == context ? HR_VISIT_PAST : hr_visit_until(e->op == HR_OP_ELEMENT);
}

/* Neighbours along k for which all scales are one. */
static bool group_of(const hr_function *function, const int64_t *extents, const hr_contract *c,
                     hr_packed *out) {
    out->group = 1;
    for (int i = c->k_count - 1; i >= 0; i--) {
        int64_t size, run = 0; /* of scales that have the index */
        if (hr_extent_value(function, function->indices[c->k[i]].extent, extents, &size) != HR_OK)
            return false;
        for (int s = 0; s < out->scale_count; s++) {
            const int64_t mine = hr_run_of(function, extents, out->scale[s], c->k[i]);
            if (mine < INT64_MAX) run = common(mine, run);
        }
        out->group = hr_saturate_product(out->group, run ? run : size);
        if (run) return i == 0 || size % run == 0;
    }
    return true;
}

const hr_expr *hr_packed_factors(const hr_function *function, const int64_t *extents,
                                 const hr_contract *contract, const hr_expr *value, hr_packed *out) {
    *out = (hr_packed){0};
    const hr_expr *number =
        value->type == HR_F32 ? part_factors(function, extents, contract, value, out) : NULL;
    return number && group_of(function, extents, contract, out) ? number : NULL;
}

/* ---- where a row's numbers stand ---- */

static void set_k(reader *r, int64_t k) {
    const hr_contract *c = r->contract;
    for (int i = c->k_count - 1; i >= 0; i--) {
        int64_t size = 1;
        if (hr_extent_value(r->function, r->function->indices[c->k[i]].extent, r->extents, &size) != HR_OK ||
            size < 1)
            r->known = false;
        r->index[c->k[i]] = r->known ? k % size : 0;
        k = r->known ? k / size : 0;
    }
}

static hr_visit is_no_k(const hr_expr *e, const void *context) {
    const reader *r = context;
    return hr_visit_until(e->op == HR_OP_ELEMENT || (e->op == HR_OP_INDEX && !r->is_k[e->index]));
}

/* Elements from the first of its row, in memory. Subscripts are plain indices of the row, or follow from k
 * alone. */
static int64_t offset_of(reader *r) {
    const hr_tensor *tensor = &r->function->tensors[r->element->tensor];
    int64_t offset = 0, stride = 1;
    for (int a = tensor->rank - 1; a >= 0; a--) {
        const hr_expr *subscript = r->element->args[a];
        int64_t size;
        if (hr_extent_value(r->function, tensor->shape[a], r->extents, &size) != HR_OK) r->known = false;
        if (!(subscript->op == HR_OP_INDEX && !r->is_k[subscript->index])) {
            const double at = value_of(r, subscript, 0);
            if (!(at >= 0 && at < (double)size)) r->known = false;
            offset += r->known ? (int64_t)at * stride : 0;
        }
        if (!r->known || __builtin_mul_overflow(stride, size, &stride)) return 0;
    }
    return offset;
}

static bool subscripts_part(reader *r) {
    const hr_tensor *tensor = &r->function->tensors[r->element->tensor];
    if (r->element->arg_count != tensor->rank) return false;
    for (int a = 0; a < tensor->rank; a++) {
        const hr_expr *subscript = r->element->args[a];
        if (subscript->op != HR_OP_INDEX && hr_expr_find(subscript, is_no_k, r)) return false;
    }
    return true;
}

/* Of all k, and how many numbers an element has. */
static bool offsets_find(reader *r, int64_t *offsets, hr_packed *out) {
    int64_t last = 0;
    for (int64_t k = 0; k < r->k && r->known; k++) {
        set_k(r, k);
        offsets[k] = offset_of(r);
        if (offsets[k] > last) last = offsets[k];
    }
    const int64_t size = (int64_t)hr_dtype_size(r->function->tensors[r->element->tensor].dtype);
    const int64_t each = r->known ? r->k / (last + 1) : 0;
    if (each * (last + 1) != r->k || each > (size == 1 ? 2 : 1)) return false;
    out->row_bytes = (last + 1) * size;
    out->word_numbers = (int)(4 / size * each);
    return each > 0 && out->row_bytes % CHUNK == 0;
}

/* Four units hold neighbours along k, and so does each following run of four. */
static bool repeats(const int64_t *offsets, int64_t k, int64_t run, int64_t run_elements) {
    for (int64_t i = 0; i < k; i++)
        if (offsets[i] != i / run * run_elements + offsets[i % run] || offsets[i % run] >= run_elements)
            return false;
    return true;
}

/* Of what the numbers are, nothing changes from one run of `run` along k to the next. */
static hr_visit is_uneven(const hr_expr *e, const void *context) {
    const int64_t *run = context;
    if (e->op == HR_OP_ELEMENT) return HR_VISIT_PAST;
    if (e->op == HR_OP_MOD && e->args[0]->op == HR_OP_INDEX && e->args[1]->op == HR_OP_NUMBER &&
        e->args[1]->whole > 0 && run[0] % e->args[1]->whole == 0 && e->args[0]->index == (int)run[1])
        return HR_VISIT_PAST;
    if (e->op != HR_OP_INDEX) return HR_VISIT_ON;
    return hr_visit_until(e->index != (int)run[1] || run[0] % run[2] != 0);
}

static bool is_even(const reader *r, const hr_expr *number, int64_t run) {
    const int inner = r->contract->k[r->contract->k_count - 1];
    int64_t facts[3] = {run, inner, 0};
    if (hr_extent_value(r->function, r->function->indices[inner].extent, r->extents, &facts[2]) != HR_OK ||
        facts[2] < 1)
        return false;
    return !hr_expr_find(number, is_uneven, facts);
}

/* ---- what a number is ---- */

/* Which bits of the byte, and what is done to them; false where it is anything else. */
static bool field_of(reader *r, const hr_expr *number, bool half, int *shift, int *flip, int *bias) {
    static const int flips[] = {0, 0x80, 0x08, 0x88};
    const bool is_signed = r->function->tensors[r->element->tensor].dtype == HR_I8;
    double values[BYTES];
    for (int v = 0; v < BYTES && r->known; v++) {
        r->byte = is_signed ? (int8_t)v : v;
        values[v] = value_of(r, number, 0);
        if (!(fabs(values[v]) <= number_most)) r->known = false;
    }
    for (int i = 0; r->known && i < (half ? 8 : 2); i++) {
        const int move = half ? i / 4 * 4 : 0, turned = flips[i % 4], mask = half ? 0xf : 0xff;
        const double more = values[0] - (turned >> move & mask);
        bool same = more == floor(more);
        for (int v = 0; v < BYTES && same; v++)
            same = values[v] == ((v ^ turned) >> move & mask) + more;
        if (!same) continue;
        *shift = move, *flip = turned >> move & mask, *bias = (int)more;
        return true;
    }
    return false;
}

/* Where numbers of the unit stand along k, and what they are. */
static bool unit_take(reader *r, const hr_expr *number, const int64_t *offsets, hr_packed *out) {
    const int unit = hr_packed_numbers(out), run = UNITS * unit, each = out->word_numbers / 4;
    const int size = each ? 1 : 2, elements = out->unit_bytes / size;
    int where[UNITS * HR_PACKED_UNIT_MAX], flip[2] = {0}, bias[2] = {0};
    for (int i = 0; i < UNITS * HR_PACKED_UNIT_MAX; i++)
        where[i] = -1;
    for (int k = 0; k < run; k++) {
        int shift = 0, flipped = 0, more = 0;
        set_k(r, k);
        if (each && !field_of(r, number, each == 2, &shift, &flipped, &more)) return false;
        const int high = shift > 0, at = (int)offsets[k] * (each ? each : 1) + high;
        if (where[at] >= 0) return false;
        where[at] = k;
        if (k > 0 && (flip[0] != flipped || bias[0] != more)) return false;
        flip[0] = flipped, bias[0] = more;
    }
    const int count = elements * (each ? each : 1);
    out->apart = where[count] - where[0];
    for (int i = 0; i < run; i++)
        if (where[i] < 0 || where[i] != where[i % count] + i / count * out->apart) return false;
    for (int i = 0; i < count; i++)
        out->place[i] = where[i];
    out->flip = flip[0], out->bias = bias[0];
    return true;
}

/* The widest unit whose four lie in one group of each scale. */
static bool units_find(reader *r, const hr_expr *number, const int64_t *offsets, hr_packed *out) {
    const int64_t size = (int64_t)hr_dtype_size(r->function->tensors[r->element->tensor].dtype);
    for (int bytes = r->unit_most; bytes >= WORD; bytes /= 2) {
        out->unit_bytes = bytes;
        const int64_t run = (int64_t)UNITS * hr_packed_numbers(out);
        if (hr_packed_numbers(out) < 8 && r->unit_most > WORD) break; /* two products at a time */
        if (r->k % run || (out->scale_count && out->group % run)) continue;
        if (!repeats(offsets, r->k, run, UNITS * bytes / size) || !is_even(r, number, run)) continue;
        if (unit_take(r, number, offsets, out)) return true;
    }
    return false;
}

/* Groups are whole lines, or lines whole groups. What is one for all of k is so for what is left of a line.
 */
static bool groups_fit(const reader *r, hr_packed *packed) {
    const int line = hr_packed_line(packed);
    if (packed->group == r->k) packed->group = hr_divide_up(r->k, line) * line;
    return !packed->scale_count || packed->group % line == 0 || line % packed->group == 0;
}

static bool find(reader *r, const hr_expr *number, hr_dtype dtype, hr_packed *out) {
    const hr_dtype stored = r->function->tensors[r->element->tensor].dtype;
    const bool whole = stored == HR_I8 || stored == HR_U8;
    out->element = r->element;
    if (!whole && !(stored == dtype && number == r->element)) return false;
    if (!subscripts_part(r)) return false;
    int64_t *offsets = malloc((size_t)r->k * sizeof *offsets);
    const bool good = offsets && offsets_find(r, offsets, out) && units_find(r, number, offsets, out) &&
                      r->known && groups_fit(r, out);
    free(offsets);
    return good;
}

static bool find_units(const hr_function *function, const int64_t *extents, const hr_contract *contract,
                       const hr_expr *value, hr_dtype dtype, int unit_most, hr_packed *out) {
    reader r = {.function = function,
                .extents = extents,
                .contract = contract,
                .k = 1,
                .unit_most = unit_most,
                .known = true};
    const hr_expr *number = hr_packed_factors(function, extents, contract, value, out);
    r.element = number ? hr_expr_find(number, is_element, NULL) : NULL;
    if (!r.element || hr_expr_find(number, is_other_element, r.element)) return false;
    for (int i = 0; i < contract->k_count; i++) {
        int64_t size;
        if (hr_extent_value(function, function->indices[contract->k[i]].extent, extents, &size) != HR_OK)
            return false;
        r.k = size > 0 && size <= ROW_NUMBERS_MOST ? r.k * size : 0;
        if (r.k < 1 || r.k > ROW_NUMBERS_MOST) return false;
    }
    const size_t count = (size_t)function->index_count + 1;
    r.index = hr_memory_zeros(count, sizeof *r.index);
    r.is_k = hr_memory_zeros(count, 1);
    bool good = r.index && r.is_k;
    for (int i = 0; good && i < contract->k_count; i++)
        r.is_k[contract->k[i]] = true;
    good = good && find(&r, number, dtype, out);
    free(r.index);
    free(r.is_k);
    return good;
}

bool hr_packed_find(const hr_function *function, const int64_t *extents, const hr_contract *contract,
                    const hr_expr *value, hr_dtype dtype, hr_packed *out) {
    return find_units(function, extents, contract, value, dtype, CHUNK, out);
}

bool hr_packed_words_find(const hr_function *function, const int64_t *extents, const hr_contract *contract,
                          const hr_expr *value, hr_dtype dtype, hr_packed *out) {
    return find_units(function, extents, contract, value, dtype, WORD, out) && out->word_numbers == WORD &&
           out->row_bytes % (UNITS * 8) == 0; /* eight numbers of each lane */
}

/* ---- with few vectors ---- */

static int64_t size_of(const hr_function *function, const int64_t *extents, const int *index, int count) {
    int64_t all = 1;
    for (int i = 0; i < count; i++) {
        int64_t size;
        if (hr_extent_value(function, function->indices[index[i]].extent, extents, &size) != HR_OK ||
            __builtin_mul_overflow(all, size, &all))
            return 0;
    }
    return all;
}

static hr_visit is_byte(const hr_expr *e, const void *context) {
    const hr_function *function = context;
    return hr_visit_until(e->op == HR_OP_ELEMENT && hr_dtype_size(function->tensors[e->tensor].dtype) == 1);
}

/* With the left operand as the matrix, or the right one. */
static bool product_is(const hr_function *function, const int64_t *extents, const hr_contract *contract,
                       bool left, hr_packed_product *out) {
    static const hr_dtype dtypes[] = {HR_BF16, HR_F16};
    const int64_t m = size_of(function, extents, contract->m, contract->m_count),
                  n = size_of(function, extents, contract->n, contract->n_count);
    const int64_t rows = left ? m : n, vectors = left ? n : m;
    const hr_expr *matrix = left ? contract->left : contract->right;
    *out = (hr_packed_product){.side = left ? HR_OPERAND_LEFT : HR_OPERAND_RIGHT};
    if (vectors < 1 || rows < HR_PACKED_ROWS_LEAST) return false;
    if (vectors > HR_PACKED_VECTORS_FEW && !hr_expr_find(matrix, is_byte, function)) return false;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        out->dtype = dtypes[i];
        if (!hr_value_fits(function, left ? contract->right : contract->left, dtypes[i])) continue;
        if (hr_packed_find(function, extents, contract, matrix, dtypes[i], &out->matrix) ||
            (vectors <= HR_PACKED_VECTORS_FEW &&
             hr_packed_words_find(function, extents, contract, matrix, dtypes[i], &out->matrix)))
            return vectors <= HR_PACKED_VECTORS_FEW || out->matrix.word_numbers > 2;
    }
    return false;
}

bool hr_packed_product_find(const hr_function *function, const int64_t *extents, const hr_contract *contract,
                            hr_packed_product *out) {
    return product_is(function, extents, contract, false, out) ||
           product_is(function, extents, contract, true, out);
}
