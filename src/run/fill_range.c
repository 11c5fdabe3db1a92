/* Reads from the text what made-up inputs must be: subscripts within their axes, arguments of roots not
 * negative.
 *
 * In: a function and its extents. Out: a range an argument.
 */
#include "run/fill.h"

#include "ir/visit.h"

#include <stdlib.h>

typedef struct finding {
    const hr_function *function;
    const int64_t *extents;
    int argument_count;
    hr_filling *fillings;
    bool *seen_positive; /* by expr id */
} finding;

static bool is_argument(const finding *finding, int tensor) {
    return tensor < finding->argument_count;
}

/* What a local is made from; NULL for an argument. */
static hr_expr *local_value(const finding *finding, int tensor) {
    for (int s = 0; s < finding->function->statement_count && !is_argument(finding, tensor); s++)
        if (finding->function->statements[s].tensor == tensor) return finding->function->statements[s].value;
    return NULL;
}

static int64_t axis_extent(const finding *finding, const hr_expr *shape) {
    int64_t extent = 0;
    return hr_extent_value(finding->function, shape, finding->extents, &extent) == HR_OK ? extent : 0;
}

/* ---- whole numbers ---- */

typedef struct interval {
    int64_t low, high;
} interval;

static int64_t limited(double value) {
    return value < -9e18 ? INT64_MIN / 2 : value > 9e18 ? INT64_MAX / 2 : (int64_t)value;
}

/* The values of an expression without data in it; false where there is data or the form is not known. */
static bool interval_of(const finding *finding, const hr_expr *expr, interval *out) {
    interval left, right;
    switch (expr->op) {
    case HR_OP_NUMBER:
        out->low = out->high = expr->whole;
        return true;
    case HR_OP_EXTENT:
        out->low = out->high = finding->extents[expr->extent];
        return true;
    case HR_OP_INDEX:
        *out = (interval){0, axis_extent(finding, finding->function->indices[expr->index].extent) - 1};
        return true;
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_MUL:
        if (!interval_of(finding, expr->args[0], &left) || !interval_of(finding, expr->args[1], &right))
            return false;
        if (expr->op == HR_OP_ADD)
            *out = (interval){limited((double)left.low + (double)right.low),
                              limited((double)left.high + (double)right.high)};
        else if (expr->op == HR_OP_SUB)
            *out = (interval){limited((double)left.low - (double)right.high),
                              limited((double)left.high - (double)right.low)};
        else if (left.low >= 0 && right.low >= 0)
            *out = (interval){limited((double)left.low * (double)right.low),
                              limited((double)left.high * (double)right.high)};
        else
            return false;
        return true;
    default:
        return false;
    }
}

static int64_t divide_down(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && a < 0);
}

/* Narrows the arguments in `expr` so that its value stays in [low, high]. */
static void constrain(finding *finding, const hr_expr *expr, int64_t low, int64_t high, int depth);

static void constrain_sides(finding *finding, const hr_expr *expr, int64_t low, int64_t high, int depth) {
    const hr_expr *left = expr->args[0], *right = expr->args[1];
    interval known;
    if (expr->op == HR_OP_ADD && interval_of(finding, right, &known))
        constrain(finding, left, low - known.low, high - known.high, depth);
    else if (expr->op == HR_OP_ADD && interval_of(finding, left, &known))
        constrain(finding, right, low - known.low, high - known.high, depth);
    else if (expr->op == HR_OP_SUB && interval_of(finding, right, &known))
        constrain(finding, left, low + known.high, high + known.low, depth);
    else if (expr->op == HR_OP_MUL && interval_of(finding, right, &known) && known.low == known.high &&
             known.low > 0)
        constrain(finding, left, -divide_down(-low, known.low), divide_down(high, known.low), depth);
    else if (expr->op == HR_OP_MUL && interval_of(finding, left, &known) && known.low == known.high &&
             known.low > 0)
        constrain(finding, right, -divide_down(-low, known.low), divide_down(high, known.low), depth);
    else if (expr->op == HR_OP_FLOORDIV && interval_of(finding, right, &known) && known.low == known.high &&
             known.low > 0)
        constrain(finding, left, limited((double)low * (double)known.low),
                  limited(((double)high + 1) * (double)known.low - 1), depth);
}

static void constrain(finding *finding, const hr_expr *expr, int64_t low, int64_t high, int depth) {
    if (depth > 64 || low < INT64_MIN / 2 || high > INT64_MAX / 2) return;
    hr_expr *value;
    switch (expr->op) {
    case HR_OP_ELEMENT:
        if ((value = local_value(finding, expr->tensor))) constrain(finding, value, low, high, depth + 1);
        if (!is_argument(finding, expr->tensor)) break;
        hr_filling *filling = &finding->fillings[expr->tensor];
        if (filling->low < low) filling->low = low;
        if (filling->high > high) filling->high = high;
        break;
    case HR_OP_CONVERT:
        constrain(finding, expr->args[0], low, high, depth + 1);
        break;
    case HR_OP_WHERE:
        constrain(finding, expr->args[1], low, high, depth + 1);
        constrain(finding, expr->args[2], low, high, depth + 1);
        break;
    case HR_OP_MIN:
    case HR_OP_MAX:
        constrain(finding, expr->args[0], low, high, depth + 1);
        constrain(finding, expr->args[1], low, high, depth + 1);
        break;
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_MUL:
    case HR_OP_FLOORDIV:
        constrain_sides(finding, expr, low, high, depth + 1);
        break;
    default:
        break;
    }
}

/* A class number is compared with the index of the classes: values out of its range would never be met. */
static void constrain_comparison(finding *finding, const hr_expr *expr) {
    for (int side = 0; side < 2; side++) {
        interval range;
        if (expr->args[side]->op == HR_OP_INDEX && interval_of(finding, expr->args[side], &range))
            constrain(finding, expr->args[1 - side], range.low,
                      range.high + (expr->op != HR_OP_EQ && expr->op != HR_OP_NE),
                      0); /* a bound: all of it */
    }
}

/* ---- floats ---- */

/* Marks what must not be negative so that `expr` is not: sums, products, quotients of such. */
static void positive(finding *finding, const hr_expr *expr) {
    if (finding->seen_positive[expr->id]) return;
    finding->seen_positive[expr->id] = true;
    hr_expr *value;
    switch (expr->op) {
    case HR_OP_ELEMENT:
        if (is_argument(finding, expr->tensor)) finding->fillings[expr->tensor].magnitude = true;
        if ((value = local_value(finding, expr->tensor))) positive(finding, value);
        break;
    case HR_OP_WHERE:
        positive(finding, expr->args[1]);
        positive(finding, expr->args[2]);
        break;
    case HR_OP_ADD:
    case HR_OP_MUL:
    case HR_OP_DIV:
    case HR_OP_MIN:
    case HR_OP_CONVERT:
    case HR_OP_REDUCE_SUM:
    case HR_OP_REDUCE_MEAN:
    case HR_OP_REDUCE_PROD:
        if (expr->op == HR_OP_MUL && expr->args[0] == expr->args[1]) break; /* a square */
        for (int a = 0; a < expr->arg_count; a++)
            positive(finding, expr->args[a]);
        break;
    default:
        break;
    }
}

/* ---- all statements ---- */

static void subscripts_find(finding *finding, const hr_tensor *tensor, hr_expr *const *subscripts) {
    for (int axis = 0; axis < tensor->rank; axis++)
        constrain(finding, subscripts[axis], 0, axis_extent(finding, tensor->shape[axis]) - 1, 0);
}

static hr_visit expr_find(void *context, const hr_expr *expr) {
    finding *finding = context;
    if (expr->op == HR_OP_ELEMENT)
        subscripts_find(finding, &finding->function->tensors[expr->tensor], expr->args);
    else if (hr_op_is_comparison(expr->op))
        constrain_comparison(finding, expr);
    else if (expr->op == HR_OP_SQRT || expr->op == HR_OP_RSQRT || expr->op == HR_OP_LOG ||
             expr->op == HR_OP_LOG2)
        positive(finding, expr->args[0]);
    return HR_VISIT_ON;
}

/* The arguments that say which place is written: each is to be named once. */
static void places_find(finding *finding, const hr_expr *subscript) {
    if (subscript->op == HR_OP_ELEMENT) {
        if (is_argument(finding, subscript->tensor)) finding->fillings[subscript->tensor].distinct = true;
        return;
    }
    for (int a = subscript->op == HR_OP_WHERE; a < subscript->arg_count; a++)
        places_find(finding, subscript->args[a]);
}

static void ranges_begin(finding *finding) {
    for (int i = 0; i < finding->argument_count; i++) {
        hr_dtype dtype = finding->function->tensors[i].dtype;
        interval range = dtype == HR_U8     ? (interval){0, 255}
                         : dtype == HR_BOOL ? (interval){0, 1}
                         : dtype == HR_I8   ? (interval){-128, 127}
                                            : (interval){INT64_MIN, INT64_MAX};
        finding->fillings[i].low = range.low;
        finding->fillings[i].high = range.high;
        finding->fillings[i].magnitude = finding->fillings[i].distinct = false;
    }
}

/* Wide dtypes: what nothing constrains is small; what is constrained fits the dtype. */
static void ranges_end(finding *finding) {
    for (int i = 0; i < finding->argument_count; i++) {
        hr_filling *filling = &finding->fillings[i];
        hr_dtype dtype = finding->function->tensors[i].dtype;
        int64_t most = dtype == HR_I16 ? INT16_MAX : dtype == HR_I32 ? INT32_MAX : INT64_MAX / 2;
        if (filling->low == INT64_MIN) filling->low = -128;
        if (filling->high == INT64_MAX) filling->high = 127;
        if (filling->high > most) filling->high = most;
        if (filling->low > filling->high) filling->low = filling->high = 0; /* an empty axis: nothing fits */
    }
}

hr_status hr_fill_ranges(const hr_function *function, const int64_t *extents, int argument_count,
                         hr_filling *out) {
    size_t count = (size_t)function->expr_count + 1;
    finding finding = {.function = function,
                       .extents = extents,
                       .argument_count = argument_count,
                       .fillings = out,
                       .seen_positive = calloc(count, sizeof(bool))};
    hr_walk walk = {.enter = expr_find, .context = &finding};
    if (!finding.seen_positive)
        return hr_fail(HR_OUT_OF_MEMORY, "no memory to fill kernel %s", function->name);
    ranges_begin(&finding);
    for (int s = 0; s < function->statement_count; s++) {
        const hr_statement *statement = &function->statements[s];
        hr_walk_through(&walk, statement->value);
        for (int k = 0; k < statement->subscript_count; k++)
            hr_walk_through(&walk, statement->subscripts[k]);
        subscripts_find(&finding, &function->tensors[statement->tensor], statement->subscripts);
        for (int k = 0; k < statement->subscript_count && statement->store == HR_STORE_PLACE; k++)
            places_find(&finding, statement->subscripts[k]);
    }
    ranges_end(&finding);
    free(finding.seen_positive);
    return hr_walk_end(&walk);
}
