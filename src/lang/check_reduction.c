/* Reductions. In: trees of expressions. Out: typed nodes that bind their indices.
 *
 * Where data say the bounds of a range, the reduction goes over the whole axis, under the condition that the
 * index is within them. Elements that are not count as the reduction's neutral value. So every later pass
 * sees a condition and no bounds.
 */
#include "base/dtype.h"
#include "ir/types.h"
#include "ir/visit.h"
#include "lang/checker.h"

#include <math.h>
#include <string.h>

static hr_shown shown(const hr_symbol *symbol) {
    return hr_text_shown(symbol->name, symbol->length);
}

static void unknown_reducer(hr_checker *checker, const hr_syntax *syntax) {
    const char *name = syntax->symbol->name;
    hr_dtype dtype;
    if (hr_check_function_named(name) != HR_OP_COUNT || syntax->symbol->def ||
        hr_check_bind(checker, syntax->symbol)->variable >= 0 || hr_dtype_parse(name, strlen(name), &dtype)) {
        hr_messages_add(checker->messages, syntax->place, "%s takes no index; write %s(...)",
                        shown(syntax->symbol).text, shown(syntax->symbol).text);
        return;
    }
    hr_nearest nearest = hr_nearest_to(checker->messages, name);
    hr_check_consider_ops(&nearest, HR_OP_REDUCE_SUM, HR_OP_SCAN);
    const char *habit = hr_check_habit(name);
    hr_messages_add(
        checker->messages, syntax->place, "there is no reducer '%s'%s", shown(syntax->symbol).text,
        nearest.best ? hr_nearest_words(&nearest).text
        : habit      ? habit
                : "; there are sum mean max min prod argmax argmin logsumexp softmax cumsum topk any all");
}

/* ---- ranges ---- */

/* Of an index whose range ends, or begins and ends, where data say: the part of its axis that counts. */
typedef struct bounds {
    hr_expr *condition;   /* NULL = all of it */
    hr_expr *begin, *end; /* begin: NULL = 0 */
    hr_place place;
} bounds;

/* An extent by its form: its names begin with capital letters. */
static bool is_extent(const hr_syntax *syntax) {
    if (syntax->kind == HR_SYNTAX_NAME) return hr_symbol_is_capital(syntax->symbol);
    bool extent =
        syntax->kind == HR_SYNTAX_NUMBER || (syntax->kind == HR_SYNTAX_OPERATION && syntax->item_count == 2);
    for (const hr_syntax *item = syntax->items; item; item = item->next)
        extent = extent && is_extent(item);
    return extent;
}

/* What a range in the brackets says: its parts. */
typedef struct range_syntax {
    const hr_syntax *index, *begin, *end; /* NULL = it says none */
} range_syntax;

static range_syntax parts_of(const hr_syntax *syntax) {
    if (syntax->kind == HR_SYNTAX_RANGE)
        return (range_syntax){syntax->items, syntax->items->next, syntax->items->next->next};
    if (syntax->kind == HR_SYNTAX_OPERATION && syntax->op == HR_OP_LT)
        return (range_syntax){syntax->items, NULL, syntax->items->next};
    return (range_syntax){syntax, NULL, NULL};
}

static hr_expr *bound_of(hr_checker *checker, const hr_syntax *syntax) {
    hr_expr *bound = hr_check_expression(checker, syntax);
    if (!bound || bound->type == HR_I32 || bound->type == HR_I64) return bound;
    hr_messages_add(checker->messages, syntax->place,
                    "the bound of a range is a whole number, and this is %s%s",
                    bound->type == HR_BOOL ? "a condition" : "a float", hr_check_assumed(checker).text);
    return NULL;
}

static bool check_bounds(hr_checker *checker, const range_syntax *range, bounds *out) {
    out->place = range->index->place;
    if (range->begin && !(out->begin = bound_of(checker, range->begin))) return false;
    return !range->end || (out->end = bound_of(checker, range->end));
}

static hr_expr *both(hr_checker *checker, hr_op op, hr_place place, hr_expr *a, hr_expr *b) {
    hr_expr *args[] = {a, b};
    return a && b ? hr_check_operation(checker, op, place, 2, args) : NULL;
}

/* begin <= index and index < end */
static bool set_condition(hr_checker *checker, int index, bounds *bounds) {
    hr_expr *value = hr_check_node(checker, HR_OP_INDEX, HR_I64, bounds->place, 0);
    if (!value) return false;
    value->index = index;
    bounds->condition = both(checker, HR_OP_LT, bounds->place, value, bounds->end);
    if (bounds->begin)
        bounds->condition =
            both(checker, HR_OP_AND, bounds->place,
                 both(checker, HR_OP_LE, bounds->place, bounds->begin, value), bounds->condition);
    return bounds->condition != NULL;
}

static bool names_index(hr_checker *checker, const hr_syntax *syntax, const hr_syntax *index, hr_op op) {
    if (index->kind != HR_SYNTAX_NAME) {
        bool mistaken = syntax->kind == HR_SYNTAX_OPERATION && syntax->op == HR_OP_LE;
        hr_messages_add(checker->messages, syntax->place,
                        "a reducer's brackets hold indices, as in sum[k](...), sum[k < K](...) or sum[k from "
                        "a to b](...)%s",
                        mistaken ? "; write k < K + 1 for k <= K" : "");
        return false;
    }
    if (!hr_op_leaves_free(op) || hr_check_bind(checker, index->symbol)->index >= 0) return true;
    hr_messages_add(checker->messages, index->place,
                    "%s leaves %s free, so %s must be an index of the left side or of a reduction around it",
                    hr_op_info_of(op)->name, shown(index->symbol).text, shown(index->symbol).text);
    return false;
}

/* range = index [ "<" extent ] | index "<" expression | index "from" expression "to" expression */
static bool range(hr_checker *checker, const hr_syntax *syntax, hr_op op, int *out, bounds *bounds) {
    const range_syntax parts = parts_of(syntax);
    const hr_syntax *index = parts.index, *limit = parts.begin ? NULL : parts.end;
    const bool data = parts.begin || (limit && !is_extent(limit));
    *bounds = (struct bounds){0};
    if (index->kind != HR_SYNTAX_NAME) return names_index(checker, syntax, index, op);
    hr_expr *extent = limit && !data ? hr_check_extent(checker, limit) : NULL;
    if (limit && !data && !extent) return false;
    if (!names_index(checker, syntax, index, op)) return false;
    if (data && !check_bounds(checker, &parts, bounds)) return false;
    *out = hr_op_leaves_free(op) ? index->symbol->index
                                 : hr_check_open_index(checker, index->symbol, index->place);
    if (*out < 0 || (data && !set_condition(checker, *out, bounds))) return false;
    return !extent || hr_check_range(checker, *out, extent, limit->place, "a range", NULL);
}

/* ---- what is beyond the bounds ---- */

/* What changes nothing in the reduction, of the type of its argument. */
static hr_expr *neutral(hr_checker *checker, hr_op op, const hr_expr *arg) {
    const bool largest = op == HR_OP_REDUCE_MIN || op == HR_OP_REDUCE_ARGMIN;
    const bool whole = !hr_type_is_float(arg->type);
    if (op == HR_OP_REDUCE_SUM || op == HR_OP_REDUCE_MEAN || op == HR_OP_SCAN)
        return hr_check_number(checker, arg->place, HR_I64, 0, 0);
    if (op == HR_OP_REDUCE_PROD) return hr_check_number(checker, arg->place, HR_I64, 1, 1);
    if (!whole || op == HR_OP_REDUCE_LOGSUMEXP || op == HR_OP_SOFTMAX)
        return hr_check_number(checker, arg->place, HR_F32, largest ? INFINITY : -INFINITY, 0);
    const int64_t number = arg->type == HR_I64 ? largest ? INT64_MAX : INT64_MIN
                           : largest           ? INT32_MAX
                                               : INT32_MIN;
    return hr_check_number(checker, arg->place, HR_I64, (double)number, number);
}

/* How many values of an index count. */
static hr_expr *count_of(hr_checker *checker, int index, const bounds *bounds) {
    const hr_place place = bounds->place;
    hr_expr *extent = checker->function->indices[index].extent,
            *zero = hr_check_number(checker, place, HR_I64, 0, 0);
    if (!bounds->condition) return extent;
    hr_expr *end = both(checker, HR_OP_MIN, place, bounds->end, extent);
    if (bounds->begin)
        end = both(checker, HR_OP_SUB, place, end, both(checker, HR_OP_MAX, place, bounds->begin, zero));
    return both(checker, HR_OP_MAX, place, end, zero);
}

/* A mean over a part: the sum over how many there are. */
static hr_expr *mean_of_part(hr_checker *checker, hr_place place, hr_expr *sum, const int *bound,
                             const bounds *bounds, int count) {
    hr_expr *points = NULL;
    for (int i = 0; i < count; i++) {
        hr_expr *one = count_of(checker, bound[i], &bounds[i]);
        points = points ? both(checker, HR_OP_MUL, place, points, one) : one;
    }
    return both(checker, HR_OP_DIV, place, sum, points);
}

static hr_visit is_index(const hr_expr *node, const void *context) {
    return hr_visit_until(node->op == HR_OP_INDEX && node->index == *(const int *)context);
}

/* A position behind the begin of a part: where nothing in it is larger than what is left out, that is the
 * part's first. Over nothing it is 0. */
static hr_expr *position_in_part(hr_checker *checker, hr_place place, hr_expr *position, int index,
                                 const bounds *bounds) {
    hr_expr *zero = hr_check_number(checker, place, HR_I64, 0, 0),
            *begin = both(checker, HR_OP_MAX, place, bounds->begin, zero),
            *some = both(checker, HR_OP_GT, place, count_of(checker, index, bounds), zero);
    hr_expr *args[] = {some, both(checker, HR_OP_MAX, place, position, begin), zero};
    return hr_check_operation(checker, HR_OP_WHERE, place, 3, args);
}

/* A bound that depends on an index of the same brackets leaves the number of values to be counted; and of
 * several indices, where nothing is larger than what is left out, no position is right. */
static bool may_be_bounded(hr_checker *checker, const hr_syntax *syntax, hr_op op, const int *bound,
                           const bounds *bounds, int count) {
    const char *trouble = NULL;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < count && op == HR_OP_REDUCE_MEAN && bounds[i].condition; k++)
            if (hr_expr_find(bounds[i].end, is_index, &bound[k]) ||
                (bounds[i].begin && hr_expr_find(bounds[i].begin, is_index, &bound[k])))
                trouble =
                    "a mean whose bound depends on another of its indices is written as a sum over a sum";
        if (hr_op_finds_position(op) && bounds[i].condition && count > 1)
            trouble = "a position is looked for between bounds of its only index; choose with "
                      "where(condition, a, -inf)";
    }
    if (trouble) hr_messages_add(checker->messages, syntax->place, "%s", trouble);
    return !trouble;
}

/* The argument where all bounds hold. */
static hr_expr *within(hr_checker *checker, hr_op op, const bounds *bounds, int count, hr_expr *arg) {
    hr_expr *condition = NULL;
    for (int i = 0; i < count; i++)
        if (bounds[i].condition)
            condition = condition ? both(checker, HR_OP_AND, arg->place, condition, bounds[i].condition)
                                  : bounds[i].condition;
    if (!condition) return arg;
    hr_expr *args[] = {condition, arg, neutral(checker, op, arg)};
    return args[2] ? hr_check_operation(checker, HR_OP_WHERE, arg->place, 3, args) : NULL;
}

/* any and all are the largest and the smallest of the conditions as numbers. */
static hr_op reducer_of(const char *name, bool *condition) {
    *condition = strcmp(name, "any") == 0 || strcmp(name, "all") == 0;
    if (*condition) return name[1] == 'n' ? HR_OP_REDUCE_MAX : HR_OP_REDUCE_MIN;
    return hr_check_reducer_named(name);
}

static hr_expr *as_number(hr_checker *checker, const hr_syntax *syntax, hr_expr *arg) {
    if (arg->type == HR_BOOL) return hr_check_conversion(checker, HR_I32, arg->place, arg);
    hr_messages_add(checker->messages, syntax->place,
                    "%s is of conditions, and this is a number; write x != 0", syntax->symbol->name);
    return NULL;
}

static hr_expr *reduced(hr_checker *checker, const hr_syntax *syntax, hr_op op, int *bound,
                        const bounds *bounds, int count) {
    const bool free = hr_op_leaves_free(op);
    for (int i = 0; i < count && free; i++)
        checker->indices[bound[i]].normalised++;
    hr_expr *arg = hr_check_expression(checker, syntax->body);
    for (int i = 0; i < count && free; i++)
        checker->indices[bound[i]].normalised--;
    if (!arg || (!free && !hr_check_has_extents(checker, bound, count))) return NULL;
    bool bounded = false;
    for (int i = 0; i < count; i++)
        bounded = bounded || bounds[i].condition;
    if (bounded && !may_be_bounded(checker, syntax, op, bound, bounds, count)) return NULL;
    bool condition;
    reducer_of(syntax->symbol->name, &condition);
    if (condition && !(arg = as_number(checker, syntax, arg))) return NULL;
    arg = within(checker, op, bounds, count, arg);
    if (op == HR_OP_SCAN) return hr_check_cumsum(checker, syntax->place, bound[0], arg);
    const bool mean = bounded && op == HR_OP_REDUCE_MEAN;
    hr_expr *new = hr_check_reduction(checker, mean ? HR_OP_REDUCE_SUM : op, syntax->place, arg);
    if (!new || hr_arena_room(checker->arena) < 4096) return NULL;
    new->bound_count = count;
    new->bound = hr_arena_alloc(checker->arena, (size_t)count * sizeof *bound);
    memcpy(new->bound, bound, (size_t)count * sizeof *bound);
    if (hr_op_finds_position(op) && bounds[0].begin)
        return position_in_part(checker, syntax->place, new, bound[0], &bounds[0]);
    if (mean) return mean_of_part(checker, syntax->place, new, bound, bounds, count);
    if (condition)
        return both(checker, HR_OP_GT, syntax->place, new,
                    hr_check_number(checker, syntax->place, HR_I64, 0, 0));
    return new;
}

hr_expr *hr_check_reduced(hr_checker *checker, const hr_syntax *syntax) {
    if (checker->frame) return NULL;
    bool condition;
    hr_op op = reducer_of(syntax->symbol->name, &condition);
    if (op == HR_OP_COUNT) {
        unknown_reducer(checker, syntax);
        return NULL;
    }
    if (op == HR_OP_TOPK) return hr_check_topk_value(checker, syntax);
    int bound[HR_DOMAIN_MAX], count = 0;
    bounds bounds[HR_DOMAIN_MAX];
    const int most = op == HR_OP_SCAN ? 1 : HR_DOMAIN_MAX;
    bool good = syntax->item_count >= 1 && syntax->item_count <= most;
    if (!good && op == HR_OP_SCAN)
        hr_messages_add(checker->messages, syntax->place, "cumsum goes along one index");
    else if (!good)
        hr_messages_add(checker->messages, syntax->place, "%s takes 1 to %d indices between its brackets",
                        syntax->symbol->name, HR_DOMAIN_MAX);
    int opened = checker->live_count;
    for (const hr_syntax *item = syntax->items; item && good; item = item->next, count++) {
        good = range(checker, item, op, &bound[count], &bounds[count]);
        for (int i = 0; i < count && good; i++)
            if (bound[i] == bound[count]) {
                hr_messages_add(checker->messages, item->place, "an index stands twice in these brackets");
                good = false;
            }
    }
    hr_expr *new = good ? reduced(checker, syntax, op, bound, bounds, count) : NULL;
    hr_check_close_indices(checker, checker->live_count - opened);
    return new;
}
