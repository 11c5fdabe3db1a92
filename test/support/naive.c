/* In: a fixture and an element. Out: its value, straight from the definitions of the language. */
#include "support/naive.h"
#include "base/dtype.h"
#include "ir/extent.h"
#include "reference/philox.h"

#include <math.h>

typedef struct naive {
    const hr_fixture *fixture;
    int statement;
    int64_t steps, hits; /* hits: points of the statement at hand that write the element at hand */
    bool failed;
    int64_t *indices; /* one an index: its value now */
} naive;

static double eval(naive *n, const hr_expr *e);

static bool is_float(const hr_expr *e) {
    return hr_dtype_is_float(e->type);
}

static int64_t index_extent(const naive *n, int index) {
    int64_t extent = 0;
    hr_extent_value(n->fixture->function, n->fixture->function->indices[index].extent, n->fixture->extents,
                    &extent);
    return extent;
}

static double operand(const naive *n, int tensor, const int64_t *subscripts) {
    const hr_tensor *t = &n->fixture->function->tensors[tensor];
    const hr_operand *o = &n->fixture->operands[tensor];
    int64_t offset = 0;
    if (!t->rank) return hr_dtype_round(t->dtype, o->scalar);
    for (int k = 0; k < t->rank; ++k)
        offset += subscripts[k] * o->strides[k];
    return hr_dtype_load(t->dtype, o->data, (size_t)offset);
}

/* Every point of a statement that writes places is visited: the first index of the domain turns slowest. */
static double scattered(naive *n, const hr_statement *s, const int64_t *subscripts, int depth) {
    if (depth == s->domain_count) {
        for (int k = 0; k < s->subscript_count; ++k)
            if (eval(n, s->subscripts[k]) != (double)subscripts[k]) return 0;
        n->hits++;
        return eval(n, s->value);
    }
    double sum = 0;
    int64_t extent = index_extent(n, s->domain[depth]);
    for (int64_t i = 0; i < extent && !n->failed; ++i) {
        n->indices[s->domain[depth]] = i;
        sum += scattered(n, s, subscripts, depth + 1);
    }
    return sum;
}

static double assigned(naive *n, int number, const int64_t *subscripts) {
    const hr_statement *s = &n->fixture->function->statements[number];
    bool inout = n->fixture->function->tensors[s->tensor].role == HR_ROLE_INOUT;
    int reader = n->statement;
    double value;
    n->statement = number;
    if (s->store != HR_STORE_WHOLE) {
        const int64_t outer = n->hits;
        n->hits = 0;
        double given = scattered(n, s, subscripts, 0), old = inout ? operand(n, s->tensor, subscripts) : 0;
        value = s->store == HR_STORE_ADD ? old + given : n->hits ? given : old;
        n->hits = outer;
    } else {
        for (int k = 0; k < s->subscript_count; ++k)
            n->indices[s->subscripts[k]->index] = subscripts[k];
        value = eval(n, s->value);
    }
    n->statement = reader;
    return value;
}

static int writer_of(const naive *n, int tensor) {
    for (int i = 0; i < n->fixture->function->statement_count; ++i)
        if (n->fixture->function->statements[i].tensor == tensor) return i;
    return -1;
}

static double element(naive *n, const hr_expr *e) {
    const hr_tensor *t = &n->fixture->function->tensors[e->tensor];
    int64_t subscripts[HR_RANK_MAX], extent = 0;
    for (int k = 0; k < t->rank; ++k) {
        subscripts[k] = (int64_t)eval(n, e->args[k]);
        hr_extent_value(n->fixture->function, t->shape[k], n->fixture->extents, &extent);
        if (subscripts[k] < 0 || subscripts[k] >= extent) n->failed = true;
    }
    if (n->failed) return 0;
    int writer = writer_of(n, e->tensor);
    if (t->role == HR_ROLE_INPUT || (t->role == HR_ROLE_INOUT && writer >= n->statement))
        return operand(n, e->tensor, subscripts);
    double value = assigned(n, writer, subscripts);
    return t->role == HR_ROLE_LOCAL ? value : hr_dtype_round(t->dtype, value);
}

/* ---- reductions: the values one after another ---- */

typedef struct gathered {
    double sum, product, peak, exponentials;
    double best;
    int64_t count, position;
} gathered;

static void visit(naive *n, const hr_expr *e, int depth, double peak, gathered *g) {
    if (depth < e->bound_count) {
        int64_t extent = index_extent(n, e->bound[depth]), outer = n->indices[e->bound[depth]];
        for (int64_t i = 0; i < extent && !n->failed; ++i) {
            n->indices[e->bound[depth]] = i;
            visit(n, e, depth + 1, peak, g);
        }
        n->indices[e->bound[depth]] = outer;
        return;
    }
    double v = eval(n, e->args[0]);
    bool least = e->op == HR_OP_REDUCE_MIN || e->op == HR_OP_REDUCE_ARGMIN;
    if (!g->count || (g->best == g->best && (v != v || (least ? v < g->best : v > g->best)))) {
        g->best = v;
        g->position = g->count;
    }
    g->sum += v;
    g->product *= v;
    g->exponentials += exp(v - peak);
    ++g->count;
}

static double reduce(naive *n, const hr_expr *e) {
    gathered g = {.best = e->op == HR_OP_REDUCE_MIN ? INFINITY : -INFINITY, .product = 1};
    visit(n, e, 0, 0, &g);
    double peak = g.best;
    switch (e->op) {
    case HR_OP_REDUCE_SUM:
        return g.sum;
    case HR_OP_REDUCE_PROD:
        return g.product;
    case HR_OP_REDUCE_MEAN:
        return g.sum / (double)g.count;
    case HR_OP_REDUCE_ARGMAX:
    case HR_OP_REDUCE_ARGMIN:
        return (double)g.position;
    case HR_OP_REDUCE_LOGSUMEXP:
    case HR_OP_SOFTMAX: {
        gathered shifted = {0};
        double here = e->op == HR_OP_SOFTMAX ? eval(n, e->args[0]) : 0;
        visit(n, e, 0, peak, &shifted);
        if (e->op == HR_OP_SOFTMAX) return exp(here - peak) / shifted.exponentials;
        return isfinite(peak) ? peak + log(shifted.exponentials) : peak;
    }
    default:
        return g.best;
    }
}

/* A scan: all elements up to the one in hand, from its first on. */
static double scanned(naive *n, const hr_expr *e) {
    const int along = e->bound[0];
    const int64_t place = n->indices[along], extent = index_extent(n, along);
    const bool back = e->op == HR_OP_SCAN_BACK;
    double value = eval(n, e->args[2]);
    for (int64_t at = back ? extent - 1 : 0; back ? at >= place : at <= place; at += back ? -1 : 1) {
        n->indices[along] = at;
        const double factor = eval(n, e->args[0]);
        value = factor * value + eval(n, e->args[1]);
    }
    n->indices[along] = place;
    return value;
}

/* ---- operations ---- */

static double floor_rest(double a, double b) {
    return b == 0 ? 0 : a - b * floor(a / b);
}

static double nan_or(double a, double b, bool first) {
    return a != a ? a : b != b ? b : first ? a : b;
}

static double apply(const hr_expr *e, double a, double b, double c) {
    switch (e->op) {
    case HR_OP_CONVERT:
        return hr_dtype_round(e->dtype, a);
    case HR_OP_ADD:
        return a + b;
    case HR_OP_SUB:
        return a - b;
    case HR_OP_MUL:
        return a * b;
    case HR_OP_DIV:
        return a / b;
    case HR_OP_FLOORDIV:
        return b == 0 && !is_float(e) ? 0 : floor(a / b);
    case HR_OP_MOD:
        return floor_rest(a, b);
    case HR_OP_BIT_AND:
        return (double)((int64_t)a & (int64_t)b);
    case HR_OP_BIT_XOR:
        return (double)((int64_t)a ^ (int64_t)b);
    case HR_OP_BIT_OR:
        return (double)((int64_t)a | (int64_t)b);
    case HR_OP_SHIFT_LEFT:
        return b < 0 || b > 31 ? 0 : a * exp2(b);
    case HR_OP_SHIFT_RIGHT:
        return floor(a / exp2(b < 0 || b > 31 ? 31 : b));
    case HR_OP_NEG:
        return -a;
    case HR_OP_POW:
        return pow(a, b);
    case HR_OP_LT:
        return a < b;
    case HR_OP_LE:
        return a <= b;
    case HR_OP_GT:
        return a > b;
    case HR_OP_GE:
        return a >= b;
    case HR_OP_EQ:
        return a == b;
    case HR_OP_NE:
        return a != b;
    case HR_OP_AND:
        return a != 0 && b != 0;
    case HR_OP_OR:
        return a != 0 || b != 0;
    case HR_OP_NOT:
        return a == 0;
    case HR_OP_EXP:
        return exp(a);
    case HR_OP_EXP2:
        return exp2(a);
    case HR_OP_LOG:
        return log(a);
    case HR_OP_LOG2:
        return log2(a);
    case HR_OP_SQRT:
        return sqrt(a);
    case HR_OP_RSQRT:
        return 1 / sqrt(a);
    case HR_OP_SIN:
        return sin(a);
    case HR_OP_COS:
        return cos(a);
    case HR_OP_TANH:
        return tanh(a);
    case HR_OP_ERF:
        return erf(a);
    case HR_OP_SIGMOID:
        return 1 / (1 + exp(-a));
    case HR_OP_RELU:
        return a != a || a > 0 ? a : 0;
    case HR_OP_GELU:
        return 0.5 * a * (1 + erf(a / sqrt(2)));
    case HR_OP_GELU_TANH:
        return 0.5 * a * (1 + tanh(sqrt(2 / M_PI) * (a + 0.044715 * a * a * a)));
    case HR_OP_SILU:
        return a / (1 + exp(-a));
    case HR_OP_ABS:
        return fabs(a);
    case HR_OP_FLOOR:
        return floor(a);
    case HR_OP_CEIL:
        return ceil(a);
    case HR_OP_ROUND:
        return nearbyint(a);
    case HR_OP_MIN:
        return nan_or(a, b, a < b);
    case HR_OP_MAX:
        return nan_or(a, b, a > b);
    case HR_OP_CLAMP:
        a = nan_or(a, b, a > b);
        return nan_or(a, c, a < c);
    case HR_OP_RANDOM:
        return hr_philox_uniform((int64_t)a, (int64_t)b);
    default:
        return NAN;
    }
}

static double eval(naive *n, const hr_expr *e) {
    if (n->failed || --n->steps < 0) {
        n->failed = true;
        return 0;
    }
    switch (e->op) {
    case HR_OP_NUMBER:
        return is_float(e) ? e->number : (double)e->whole;
    case HR_OP_EXTENT:
        return (double)n->fixture->extents[e->extent];
    case HR_OP_INDEX:
        return (double)n->indices[e->index];
    case HR_OP_ELEMENT:
        return element(n, e);
    case HR_OP_WHERE:
        return eval(n, e->args[eval(n, e->args[0]) != 0 ? 1 : 2]);
    default:
        break;
    }
    if (hr_op_is_reduction(e->op) || e->op == HR_OP_SOFTMAX) return reduce(n, e);
    if (hr_op_is_scan(e->op)) return scanned(n, e);
    double a[3] = {0};
    for (int i = 0; i < e->arg_count; ++i)
        a[i] = eval(n, e->args[i]);
    return apply(e, a[0], a[1], a[2]);
}

bool hr_naive_value(const hr_fixture *fixture, int tensor, const int64_t *subscripts, int64_t steps,
                    double *out) {
    int64_t indices[1024];
    naive n = {.fixture = fixture, .steps = steps, .indices = indices};
    if (fixture->function->index_count > 1024) return false;
    *out = assigned(&n, writer_of(&n, tensor), subscripts);
    return !n.failed;
}
