/* Lanes written out, comparisons, whole numbers. In: lanes. Out: lanes. Arithmetic on floats, with what it
 * may be off, is interpreter_errors.c.
 */
#include "reference/interpreter_lanes.h"

#include "base/dtype.h"

const int64_t *hr_lanes_broadcast_whole(hr_lanes *lanes, int n) {
    if (lanes->form != HR_FORM_VARYING && lanes->spread < n) {
        for (int i = 0; i < n; ++i)
            lanes->whole[i] = lanes->base + lanes->step * i;
        lanes->spread = n;
    }
    return lanes->whole;
}

const double *hr_lanes_broadcast_value(hr_lanes *lanes, int n) {
    if (lanes->form == HR_FORM_UNIFORM && lanes->spread < n) {
        for (int i = 1; i < n; ++i) {
            lanes->value[i] = lanes->value[0];
            lanes->bound[i] = lanes->bound[0];
            lanes->noise[i] = lanes->noise[0];
        }
        lanes->spread = n;
    }
    return lanes->value;
}

/* ---- whole numbers: exact, wrapping at 64 bits; x // 0 and x % 0 are 0 ---- */

int64_t hr_lanes_truncate(double value) {
    int64_t whole;
    hr_dtype_store(HR_I64, &whole, 0, value);
    return whole;
}

static int64_t floor_quotient(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t whole_power(int64_t base, int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    uint64_t product = 1, square = (uint64_t)base;
    for (; exponent; exponent >>= 1, square *= square)
        if (exponent & 1) product *= square;
    return (int64_t)product;
}

/* By less than 0 and by 64 or more nothing is left but the sign. */
static int64_t shifted(int64_t a, int64_t by, bool left) {
    if (by < 0 || by > 63) return left ? 0 : a >> 63;
    return left ? (int64_t)((uint64_t)a << by) : a >> by;
}

static int64_t whole_of(hr_op op, int64_t a, int64_t b, int64_t c) {
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (op) {
    case HR_OP_ADD:
        return (int64_t)(x + y);
    case HR_OP_SUB:
        return (int64_t)(x - y);
    case HR_OP_MUL:
        return (int64_t)(x * y);
    case HR_OP_FLOORDIV:
        return floor_quotient(a, b);
    case HR_OP_MOD:
        return (int64_t)(x - (uint64_t)floor_quotient(a, b) * y) * (b != 0);
    case HR_OP_POW:
        return whole_power(a, b);
    case HR_OP_NEG:
        return (int64_t)(0 - x);
    case HR_OP_ABS:
        return a < 0 ? (int64_t)(0 - x) : a;
    case HR_OP_RELU:
        return a < 0 ? 0 : a;
    case HR_OP_MIN:
        return a < b ? a : b;
    case HR_OP_MAX:
        return a > b ? a : b;
    case HR_OP_CLAMP:
        a = a > b ? a : b;
        return a < c ? a : c;
    default:
        return a; /* FLOOR, CEIL, ROUND */
    }
}

static int64_t bits_of(hr_op op, int64_t a, int64_t b) {
    switch (op) {
    case HR_OP_BIT_AND:
        return a & b;
    case HR_OP_BIT_XOR:
        return a ^ b;
    case HR_OP_BIT_OR:
        return a | b;
    default: /* SHIFT_LEFT, SHIFT_RIGHT */
        return shifted(a, b, op == HR_OP_SHIFT_LEFT);
    }
}

/* Of and, or, not. */
static bool joined(hr_op op, int64_t a, int64_t b) {
    return op == HR_OP_AND ? a && b : op == HR_OP_OR ? a || b : !a;
}

void hr_lanes_whole(hr_op op, int n, int64_t *out, const int64_t *a, const int64_t *b, const int64_t *c) {
    if (hr_op_is_comparison(op)) {
        for (int i = 0; i < n; ++i)
            out[i] = hr_op_holds(op, a[i]<b[i], a[i] == b[i], a[i]> b[i]);
        return;
    }
    if (hr_op_is_logical(op)) {
        for (int i = 0; i < n; ++i)
            out[i] = joined(op, a[i], b ? b[i] : 0);
        return;
    }
    if (hr_op_is_bitwise(op)) {
        for (int i = 0; i < n; ++i)
            out[i] = bits_of(op, a[i], b[i]);
        return;
    }
    for (int i = 0; i < n; ++i)
        out[i] = whole_of(op, a[i], b ? b[i] : 0, c ? c[i] : 0);
}
