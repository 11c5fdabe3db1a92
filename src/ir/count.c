/* What a text asks for: bytes and operations. In: a function, extents. Out: hr_work.
 *
 * Bytes: each element of a parameter that is touched, once; each result, once; locals, nothing. Operations: a
 * node of the expression graph counts once for each value of the indices that it depends on. Subscripts count
 * nothing: they are addresses. docs/language.md has the rules in words.
 */
#include "ir/count.h"

#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir/extent.h"
#include "ir/graph.h"
#include "ir/visit.h"

#include <stdlib.h>
#include <string.h>

/* A set of indices in scope: bit s is the index whose slot is s. Slots are counted from the outermost index;
 * reductions side by side use the same ones, which is no harm as neither sees the other's. */
typedef uint64_t index_set;

#define DISTINCT_MAX 256 /* accesses that are compared with each other */

typedef struct counter {
    const hr_function *function;
    const int64_t *extents;
    hr_work *work;
    int *slots;                /* by index */
    double sizes[HR_LIVE_MAX]; /* by slot, of the indices in scope */
    index_set *free_sets;      /* by expr id: the indices that change the node's value */
    bool *placed, *counted;    /* by expr id */
    hr_walk reads;             /* over subscripts */
    hr_status reads_status;
    double *touched; /* by tensor: elements that its reads can touch, at most */
    int access_count;
    const hr_expr *accesses[DISTINCT_MAX];
} counter;

/* ---- sets of indices ---- */

static index_set set_of(const counter *c, const int *indices, int count) {
    index_set set = 0;
    for (int i = 0; i < count; i++)
        set |= (index_set)1 << c->slots[indices[i]];
    return set;
}

static double points(const counter *c, index_set set) {
    double product = 1;
    for (int slot = 0; set; slot++, set >>= 1)
        if (set & 1) product *= c->sizes[slot];
    return product;
}

static void place_indices(counter *c, const int *indices, int count, int depth) {
    for (int i = 0; i < count; i++)
        c->slots[indices[i]] = depth + i;
}

/* Gives every index of the graph below its slot and every node its set. */
static index_set place(counter *c, const hr_expr *expr, int depth) {
    if (c->placed[expr->id]) return c->free_sets[expr->id];
    c->placed[expr->id] = true;
    bool reduction = hr_op_is_reduction(expr->op);
    if (reduction) place_indices(c, expr->bound, expr->bound_count, depth);
    index_set set = expr->op == HR_OP_INDEX ? set_of(c, &expr->index, 1) : 0;
    for (int i = 0; i < expr->arg_count; i++)
        set |= place(c, expr->args[i], depth + (reduction ? expr->bound_count : 0));
    if (reduction) set &= ~set_of(c, expr->bound, expr->bound_count);
    if (hr_op_leaves_free(expr->op)) set |= set_of(c, expr->bound, expr->bound_count);
    return c->free_sets[expr->id] = set;
}

static hr_status enter(counter *c, const int *indices, int count) {
    for (int i = 0; i < count; i++) {
        int64_t size;
        HR_TRY(hr_extent_value(c->function, c->function->indices[indices[i]].extent, c->extents, &size));
        c->sizes[c->slots[indices[i]]] = (double)size;
    }
    return HR_OK;
}

/* ---- reads ---- */

/* Written alike, over indices that run alike: `x[m, n]` in two statements. Subscripts are small trees. */
static bool same(const counter *c, const hr_expr *a, const hr_expr *b, int levels) {
    if (a == b) return true;
    if (!levels || a->op != b->op || a->arg_count != b->arg_count || a->tensor != b->tensor ||
        a->extent != b->extent || a->whole != b->whole || a->bound_count || b->bound_count)
        return false;
    if (a->op == HR_OP_INDEX) return c->slots[a->index] == c->slots[b->index];
    for (int i = 0; i < a->arg_count; i++)
        if (!same(c, a->args[i], b->args[i], levels - 1)) return false;
    return true;
}

static void count_read(counter *c, const hr_expr *element) {
    if (element->tensor >= c->function->parameter_count) return;
    for (int i = 0; i < c->access_count; i++)
        if (same(c, c->accesses[i], element, 4)) return;
    if (c->access_count < DISTINCT_MAX) c->accesses[c->access_count++] = element;
    c->touched[element->tensor] += points(c, c->free_sets[element->id]);
}

static hr_visit count_node(void *context, const hr_expr *node) {
    counter *c = context;
    if (hr_op_is_reduction(node->op)) c->reads_status = enter(c, node->bound, node->bound_count);
    if (node->op == HR_OP_ELEMENT) count_read(c, node);
    return hr_visit_until(c->reads_status != HR_OK);
}

/* The reads on the way to a subscript, which counts no operations. */
static hr_status count_reads(counter *c, const hr_expr *expr) {
    hr_walk_through(&c->reads, expr);
    return c->reads_status;
}

/* ---- operations ---- */

static hr_status count_expr(counter *c, const hr_expr *expr);

static void add(counter *c, double vector, hr_special special, double times) {
    c->work->vector_flops += vector * times;
    if (special != HR_SPECIAL_NONE) c->work->special[special] += times;
}

/* Multiplications that make a whole power by squaring. */
static int power_products(int64_t power) {
    int count = 0;
    for (int64_t p = power < 0 ? -power : power; p > 1; p >>= 1)
        count += 1 + (int)(p & 1);
    return count;
}

static void count_power(counter *c, const hr_expr *power, double times) {
    if (power->op == HR_OP_NUMBER && power->type == HR_I64)
        add(c, power_products(power->whole), power->whole < 0 ? HR_SPECIAL_ROOT : HR_SPECIAL_NONE, times);
    else
        add(c, 1, HR_SPECIAL_EXP, times);
}

/* That of a local is what its statement rounds it to. */
static hr_dtype local_dtype(const hr_function *function, int local) {
    for (int s = 0; s < function->statement_count; s++)
        if (function->statements[s].tensor == local && function->statements[s].value->op == HR_OP_CONVERT)
            return function->statements[s].value->dtype;
    return function->tensors[local].dtype;
}

static hr_dtype operand_dtype(const hr_function *function, const hr_expr *operand) {
    if (operand->op == HR_OP_ELEMENT && operand->arg_count)
        return function->tensors[operand->tensor].role == HR_ROLE_LOCAL
                   ? local_dtype(function, operand->tensor)
                   : function->tensors[operand->tensor].dtype;
    return operand->op == HR_OP_CONVERT ? operand->dtype : operand->type;
}

/* Elements of 8 bits, and what a mask or a shift leaves of them. */
static bool is_byte(const hr_function *function, const hr_expr *operand) {
    switch (operand->op) {
    case HR_OP_ELEMENT:
        return hr_dtype_size(function->tensors[operand->tensor].dtype) == 1 && operand->type == HR_I32;
    case HR_OP_FLOORDIV:
    case HR_OP_MOD:
    case HR_OP_BIT_AND:
    case HR_OP_SHIFT_RIGHT:
        return operand->args[1]->op == HR_OP_NUMBER && is_byte(function, operand->args[0]);
    default:
        return false;
    }
}

hr_dtype hr_product_dtype(const hr_function *function, const hr_expr *a, const hr_expr *b) {
    const hr_dtype dtype = operand_dtype(function, a);
    if (a->type == HR_I32 && is_byte(function, a) && is_byte(function, b)) return HR_I8;
    if (dtype == operand_dtype(function, b)) return dtype;
    return a->type == HR_F64 ? HR_F64 : HR_F32;
}

/* A product under a sum, whose factors both run over the bound indices and each over one that the other
 * lacks; or, of whole numbers, several of these that are added. */
static bool is_contraction(const counter *c, const hr_expr *sum, const hr_expr *product) {
    if (product->op == HR_OP_ADD && product->type == HR_I32)
        return is_contraction(c, sum, product->args[0]) && is_contraction(c, sum, product->args[1]);
    if (sum->op != HR_OP_REDUCE_SUM || product->op != HR_OP_MUL) return false;
    index_set a = c->free_sets[product->args[0]->id], b = c->free_sets[product->args[1]->id];
    index_set bound = set_of(c, sum->bound, sum->bound_count);
    return (a & bound) == bound && (b & bound) == bound && (a & ~b) && (b & ~a);
}

static hr_status count_products(counter *c, const hr_expr *product, double times) {
    if (product->op == HR_OP_MUL) {
        c->work->tensor_flops += 2 * times;
        c->work->products[hr_product_dtype(c->function, product->args[0], product->args[1])] += 2 * times;
        HR_TRY(count_expr(c, product->args[0]));
        return count_expr(c, product->args[1]);
    }
    HR_TRY(count_products(c, product->args[0], times));
    return count_products(c, product->args[1], times);
}

static hr_status count_reduction(counter *c, const hr_expr *expr) {
    const hr_op_info *info = hr_op_info_of(expr->op);
    HR_TRY(enter(c, expr->bound, expr->bound_count));
    index_set within = c->free_sets[expr->id] | set_of(c, expr->bound, expr->bound_count);
    if (expr->op == HR_OP_TOPK) within = c->free_sets[expr->args[0]->id]; /* each is compared once */
    const hr_expr *product = hr_expr_within(expr->args[0]);               /* be it of a part of the range */
    if (is_contraction(c, expr, product)) return count_products(c, product, points(c, within));
    add(c, info->vector, info->special, points(c, within));
    if (expr->op == HR_OP_REDUCE_LOGSUMEXP) add(c, 0, HR_SPECIAL_LOG, points(c, c->free_sets[expr->id]));
    return count_expr(c, expr->args[0]);
}

/* Of a sum so far, no products. */
static hr_status count_scan(counter *c, const hr_expr *expr) {
    add(c, expr->args[0]->op == HR_OP_NUMBER ? 1 : 2, HR_SPECIAL_NONE, points(c, c->free_sets[expr->id]));
    for (int i = 0; i < expr->arg_count; i++)
        HR_TRY(count_expr(c, expr->args[i]));
    return HR_OK;
}

static hr_status count_expr(counter *c, const hr_expr *expr) {
    if (c->counted[expr->id]) return HR_OK;
    c->counted[expr->id] = true;
    if (expr->op == HR_OP_ELEMENT) return count_reads(c, expr);
    if (hr_op_is_reduction(expr->op) || expr->op == HR_OP_SOFTMAX) return count_reduction(c, expr);
    if (hr_op_is_scan(expr->op)) return count_scan(c, expr);
    const hr_op_info *info = hr_op_info_of(expr->op);
    double times = points(c, c->free_sets[expr->id]);
    bool divides = expr->op == HR_OP_DIV || expr->op == HR_OP_FLOORDIV || expr->op == HR_OP_MOD;
    bool by_number = divides && expr->args[1]->op == HR_OP_NUMBER; /* a product or a shift in the end */
    if (expr->op == HR_OP_POW)
        count_power(c, expr->args[1], times);
    else
        add(c, info->vector, by_number ? HR_SPECIAL_NONE : info->special, times);
    for (int i = 0; i < expr->arg_count; i++)
        HR_TRY(count_expr(c, expr->args[i]));
    return HR_OK;
}

/* ---- statements ---- */

static hr_status tensor_elements(const counter *c, int id, double *out) {
    const hr_tensor *tensor = &c->function->tensors[id];
    *out = 1;
    for (int i = 0; i < tensor->rank; i++) {
        int64_t size;
        HR_TRY(hr_extent_value(c->function, tensor->shape[i], c->extents, &size));
        *out *= (double)size;
    }
    return HR_OK;
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

/* What a statement writes to memory: a result whole, of an inout what the left side touches. */
static hr_status count_write(counter *c, const hr_statement *statement) {
    const hr_tensor *tensor = &c->function->tensors[statement->tensor];
    index_set left = 0;
    double elements, width = (double)hr_dtype_size(tensor->dtype);
    HR_TRY(tensor_elements(c, statement->tensor, &elements));
    for (int i = 0; i < statement->subscript_count; i++)
        left |= c->free_sets[statement->subscripts[i]->id];
    double written = smaller(elements, points(c, left));
    if (tensor->role == HR_ROLE_RESULT) c->work->bytes_written += elements * width;
    if (tensor->role == HR_ROLE_INOUT) c->work->bytes_written += written * width;
    if (tensor->role == HR_ROLE_INOUT && statement->store == HR_STORE_ADD)
        c->touched[statement->tensor] += written;
    return HR_OK;
}

/* A planner's statements share nodes, whose indices are other slots in each. */
static hr_status count_statement(counter *c, const hr_statement *statement) {
    memset(c->placed, 0, ((size_t)c->function->expr_count + 1) * sizeof *c->placed);
    place_indices(c, statement->domain, statement->domain_count, 0);
    HR_TRY(enter(c, statement->domain, statement->domain_count));
    index_set domain = set_of(c, statement->domain, statement->domain_count);
    for (int i = 0; i < statement->subscript_count; i++) {
        place(c, statement->subscripts[i], statement->domain_count);
        HR_TRY(count_reads(c, statement->subscripts[i]));
    }
    place(c, statement->value, statement->domain_count);
    HR_TRY(count_expr(c, statement->value));
    if (statement->store == HR_STORE_ADD) add(c, 1, HR_SPECIAL_NONE, points(c, domain));
    return count_write(c, statement);
}

static hr_status count_all(counter *c) {
    const hr_function *function = c->function;
    for (int i = 0; i < function->statement_count; i++)
        HR_TRY(count_statement(c, &function->statements[i]));
    for (int i = 0; i < function->parameter_count; i++) {
        double elements;
        HR_TRY(tensor_elements(c, i, &elements));
        c->work->bytes_read +=
            smaller(elements, c->touched[i]) * (double)hr_dtype_size(function->tensors[i].dtype);
    }
    return HR_OK;
}

hr_status hr_work_count(const hr_function *function, const int64_t *extents, hr_work *out) {
    size_t exprs = (size_t)function->expr_count + 1;
    hr_work work = {0};
    counter *c = hr_memory_zeros(1, sizeof *c);
    if (!c) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while counting the work of %s", function->name);
    *c = (counter){.function = function,
                   .extents = extents,
                   .work = &work,
                   .slots = hr_memory_zeros((size_t)function->index_count + 1, sizeof(int)),
                   .free_sets = hr_memory_zeros(exprs, sizeof(index_set)),
                   .placed = hr_memory_zeros(exprs, sizeof(bool)),
                   .counted = hr_memory_zeros(exprs, sizeof(bool)),
                   .reads = {.enter = count_node, .context = c},
                   .touched = hr_memory_zeros((size_t)function->tensor_count + 1, sizeof(double))};
    bool room = c->slots && c->free_sets && c->placed && c->counted && c->touched;
    hr_status status =
        room ? count_all(c)
             : hr_fail(HR_OUT_OF_MEMORY, "out of memory while counting the work of %s", function->name);
    const hr_status walked = hr_walk_end(&c->reads);
    if (status == HR_OK) status = walked;
    free(c->slots);
    free(c->free_sets);
    free(c->placed);
    free(c->counted);
    free(c->touched);
    free(c);
    if (status == HR_OK) *out = work;
    return status;
}
