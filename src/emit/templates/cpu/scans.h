/* Scans over a block of a row: the lanes of a vector join in steps of 1, 2, 4 and so on, and what a block
 * came to is carried in f64. So an error does not grow with the row.
 */
/* Lane i gets lane i - n, the first n lanes keep theirs; n is 8, 4, 2 or 1. */
static inline vf vf_up(vf x, int n) {
#if HR_LANES == 16
    return n == 8   ? HR_SHUFFLE(x, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7)
           : n == 4 ? HR_SHUFFLE(x, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
           : n == 2 ? HR_SHUFFLE(x, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)
                    : HR_SHUFFLE(x, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14);
#elif HR_LANES == 8
    return n == 4   ? HR_SHUFFLE(x, 0, 1, 2, 3, 0, 1, 2, 3)
           : n == 2 ? HR_SHUFFLE(x, 0, 1, 0, 1, 2, 3, 4, 5)
                    : HR_SHUFFLE(x, 0, 0, 1, 2, 3, 4, 5, 6);
#else
    return n == 2 ? HR_SHUFFLE(x, 0, 1, 0, 1) : HR_SHUFFLE(x, 0, 0, 1, 2);
#endif
}

/* x becomes its sums so far, behind `carry`; returns the last. */
static inline double scan_sums_f32(float *x, int64_t count, double carry) {
    int64_t i = 0;
    for (; i + HR_LANES <= count; i += HR_LANES) {
        vf v;
        memcpy(&v, x + i, sizeof v);
        for (int n = 1; n < HR_LANES; n *= 2)
            v += vf_select(vm_first(n), vf_of(0), vf_up(v, n));
        const double last = carry + v[HR_LANES - 1];
        v += vf_of((float)carry);
        memcpy(x + i, &v, sizeof v);
        carry = last;
    }
    for (; i < count; i++) {
        carry += x[i];
        x[i] = (float)carry;
    }
    return carry;
}

/* b becomes h[i] = a[i] * h[i - 1] + b[i], behind `carry`; returns the last. */
static inline double scan_affine_f32(const float *a, float *b, int64_t count, double carry) {
    int64_t i = 0;
    for (; i + HR_LANES <= count; i += HR_LANES) {
        vf factor, rest;
        memcpy(&factor, a + i, sizeof factor);
        memcpy(&rest, b + i, sizeof rest);
        for (int n = 1; n < HR_LANES; n *= 2) {
            const vf joined = factor * vf_up(rest, n) + rest, product = factor * vf_up(factor, n);
            rest = vf_select(vm_first(n), rest, joined);
            factor = vf_select(vm_first(n), factor, product);
        }
        const double last = (double)factor[HR_LANES - 1] * carry + rest[HR_LANES - 1];
        rest = factor * vf_of((float)carry) + rest;
        memcpy(b + i, &rest, sizeof rest);
        carry = last;
    }
    for (; i < count; i++) {
        carry = a[i] * carry + b[i];
        b[i] = (float)carry;
    }
    return carry;
}

/* What a block makes of what is carried to it: factor * carry + rest. */
typedef struct scan_part {
    double factor, rest;
} scan_part;

/* Their order, as whole numbers: NaN is the largest, and 0 and -0 are one. */
static inline int64_t order_f64(double x) {
    int64_t bits;
    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? INT64_MAX : bits ^ ((bits >> 63) & INT64_MAX);
}

static inline double order_value_f64(int64_t order) {
    double x;
    order ^= (order >> 63) & INT64_MAX;
    memcpy(&x, &order, sizeof x);
    return x;
}

/* An element that is among the largest so far. */
typedef struct ordered {
    int64_t order, place;
} ordered;

static inline bool ordered_before(ordered a, ordered b) {
    return a.order > b.order || (a.order == b.order && a.place < b.place);
}

/* Down from `at` in a heap whose root is the last in order. */
static inline void ordered_sink(ordered *heap, int64_t at, int64_t count, ordered one) {
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && ordered_before(heap[child], heap[child + 1])) child++;
        if (!ordered_before(one, heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = one;
}

/* One more element; the heap holds at most `most`, of which the last in order leaves. */
static inline int64_t ordered_take(ordered *heap, int64_t count, int64_t most, ordered one) {
    if (count == most) {
        if (ordered_before(one, heap[0])) ordered_sink(heap, 0, count, one);
        return count;
    }
    int64_t at = count;
    for (; at > 0 && ordered_before(heap[(at - 1) / 2], one); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = one;
    return count + 1;
}

/* The heap becomes a list in order. */
static inline void ordered_sort(ordered *heap, int64_t count) {
    for (int64_t rest = count - 1; rest > 0; rest--) {
        const ordered last = heap[rest];
        heap[rest] = heap[0];
        ordered_sink(heap, 0, rest, last);
    }
}
