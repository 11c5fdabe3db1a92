/* Expressions -> code. In: the checked function with numbers for its extents. Out: a rule a statement, a fold
 * a reduction, all lanes allocated.
 *
 * Requires nothing of the order of expression ids; the graph is walked with a stack of our own, so that a
 * long sum or a deeply shared graph takes neither the C stack nor exponential time.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "reference/interpreter.h"

#include <stdlib.h>
#include <string.h>

enum { LANE_BYTES = 8 << 20, WIDTH_MAX = 256, WIDTH_MIN = 4, ARRAY_BYTES = 24 };

typedef enum want { WANT_AS_IS, WANT_FLOAT, WANT_WHOLE, WANT_BOOL } want;

typedef struct visit {
    const hr_expr *expr;
    int next; /* argument */
} visit;

typedef struct builder {
    hr_reference *reference;
    const hr_function *function;
    int statement;
    bool own_all;     /* everything varies: the code of a statement */
    int stamp;        /* of the code being built */
    int *seen;        /* one an expression: the stamp of the code that has it */
    int *instruction; /* one an expression */
    int *floated;     /* one an expression: its TO_FLOAT or TO_BOOL, or -1 */
    int *owner;       /* one an index: the stamp of the code that runs over it */
    int *fold_of;     /* one an expression, or -1 */
    int count, capacity;
    hr_instruction *instructions;
    int visit_count, visit_capacity;
    visit *visits;
    int fold_capacity;
    int *fold_statement;
} builder;

static bool is_whole(const hr_expr *expr) {
    return !hr_dtype_is_float(expr->type);
}

static hr_status grow(void **array, int count, int *capacity, size_t size) {
    if (count < *capacity) return HR_OK;
    int wider = *capacity ? 2 * *capacity : 64;
    void *larger = hr_memory_resize(*array, (size_t)wider * size);
    if (!larger) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    *array = larger;
    *capacity = wider;
    return HR_OK;
}

static hr_status reserve(hr_reference *reference, size_t size, void **out) {
    if (hr_arena_room(reference->arena) < size + 64)
        return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel: it is too large");
    *out = hr_arena_alloc(reference->arena, size ? size : 1);
    return HR_OK;
}

/* The arguments that are computed beside it, and not in its loop. */
static int own_args(const hr_expr *expr) {
    return hr_op_is_reduction(expr->op) || hr_op_is_scan(expr->op) ? 0 : expr->arg_count;
}

/* ---- free indices ---- */

/* The indices on which a reduction's result depends: those that stand in its body and are bound neither by it
 * nor inside it. An index is bound once, so a plain walk finds them. */
static hr_status collect_indices(builder *b, const hr_expr *root, char *marked, char *bound) {
    const hr_function *function = b->function;
    int count = 0, capacity = 0;
    const hr_expr **stack = NULL;
    char *met = hr_memory_zeros((size_t)function->expr_count + 1, 1);
    hr_status status = met ? HR_OK : hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    if (status == HR_OK) status = grow((void **)&stack, count, &capacity, sizeof *stack);
    if (status == HR_OK) stack[count++] = root;
    while (status == HR_OK && count) {
        const hr_expr *expr = stack[--count];
        if (met[expr->id]) continue;
        met[expr->id] = 1;
        if (expr->op == HR_OP_INDEX) marked[expr->index] = 1;
        if (hr_op_is_reduction(expr->op))
            for (int i = 0; i < expr->bound_count; ++i)
                bound[expr->bound[i]] = 1;
        for (int i = 0; i < expr->arg_count && status == HR_OK; ++i) {
            status = grow((void **)&stack, count, &capacity, sizeof *stack);
            if (status == HR_OK) stack[count++] = expr->args[i];
        }
    }
    free(stack);
    free(met);
    return status;
}

static hr_status find_free(builder *b, hr_fold *fold) {
    int index_count = b->function->index_count;
    char *marked = hr_memory_zeros(2 * (size_t)index_count + 2, 1);
    if (!marked) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    char *bound = marked + index_count + 1;
    hr_status status = collect_indices(b, fold->expr, marked, bound);
    for (int i = 0; i < fold->expr->bound_count; ++i) {
        const bool free = hr_op_is_scan(fold->expr->op); /* a scan's element depends on its place */
        bound[fold->expr->bound[i]] = !free;
        if (free) marked[fold->expr->bound[i]] = 1;
    }
    size_t count = 0;
    for (int i = 0; i < index_count; ++i)
        count += marked[i] && !bound[i];
    if (status == HR_OK) status = reserve(b->reference, count * sizeof(int), (void **)&fold->free);
    for (int i = 0; i < index_count && status == HR_OK; ++i)
        if (marked[i] && !bound[i]) fold->free[fold->free_count++] = i;
    free(marked);
    return status;
}

/* ---- folds ---- */

static hr_status fold_for(builder *b, const hr_expr *expr, int *out) {
    hr_reference *reference = b->reference;
    if (b->fold_of[expr->id] >= 0) {
        *out = b->fold_of[expr->id];
        return HR_OK;
    }
    int capacity = b->fold_capacity;
    HR_TRY(
        grow((void **)&reference->folds, reference->fold_count, &b->fold_capacity, sizeof *reference->folds));
    HR_TRY(grow((void **)&b->fold_statement, reference->fold_count, &capacity, sizeof *b->fold_statement));
    int number = reference->fold_count;
    hr_fold *fold = &reference->folds[number];
    memset(fold, 0, sizeof *fold);
    fold->expr = expr;
    HR_TRY(find_free(b, fold));
    size_t bound = (size_t)expr->bound_count;
    HR_TRY(reserve(reference, bound * sizeof *fold->extents, (void **)&fold->extents));
    HR_TRY(reserve(reference, bound * sizeof *fold->walk, (void **)&fold->walk));
    HR_TRY(
        reserve(reference, (bound + (size_t)fold->free_count) * sizeof *fold->saved, (void **)&fold->saved));
    fold->total = 1;
    for (int i = 0; i < expr->bound_count; ++i) {
        fold->extents[i] = reference->index_extents[expr->bound[i]];
        if (__builtin_mul_overflow(fold->total, fold->extents[i], &fold->total))
            return hr_fail(HR_BAD_INPUT, "the reduction at line %d runs over more than 2^63 points",
                           expr->place.line);
    }
    b->fold_statement[number] = b->statement;
    b->fold_of[expr->id] = *out = number;
    ++reference->fold_count;
    return HR_OK;
}

/* ---- instructions ---- */

static hr_status emit(builder *b, int op, const hr_expr *expr, bool whole, int arg_count, int *out) {
    HR_TRY(grow((void **)&b->instructions, b->count, &b->capacity, sizeof *b->instructions));
    hr_instruction *made = &b->instructions[b->count];
    *made = (hr_instruction){.op = op, .expr = expr, .whole = whole, .arg_count = arg_count, .target = -1};
    HR_TRY(reserve(b->reference, (size_t)arg_count * sizeof *made->args, (void **)&made->args));
    *out = b->count++;
    return HR_OK;
}

/* The instruction of an argument, in the class that its user computes in. */
static hr_status argument(builder *b, const hr_expr *expr, want want, int *out) {
    int number = b->instruction[expr->id];
    bool whole = is_whole(expr);
    *out = number;
    if (want == WANT_AS_IS || (want == WANT_FLOAT && !whole) || (want == WANT_WHOLE && whole) ||
        (want == WANT_BOOL && expr->type == HR_BOOL))
        return HR_OK;
    int op = want == WANT_FLOAT ? HR_CODE_TO_FLOAT : want == WANT_WHOLE ? HR_CODE_TO_WHOLE : HR_CODE_TO_BOOL;
    if (b->floated[expr->id] >= 0 && b->instructions[b->floated[expr->id]].op == op) {
        *out = b->floated[expr->id];
        return HR_OK;
    }
    HR_TRY(emit(b, op, expr, want != WANT_FLOAT, 1, out));
    b->instructions[*out].args[0] = number;
    b->floated[expr->id] = *out;
    return HR_OK;
}

static want wanted(const hr_expr *expr, int position) {
    if (hr_op_is_logical(expr->op)) return WANT_BOOL;
    if (hr_op_is_comparison(expr->op))
        return is_whole(expr->args[0]) && is_whole(expr->args[1]) ? WANT_WHOLE : WANT_FLOAT;
    switch (expr->op) {
    case HR_OP_ELEMENT:
    case HR_OP_RANDOM:
        return WANT_WHOLE;
    case HR_OP_CONVERT:
    case HR_OP_REDUCE_ARGMAX:
    case HR_OP_REDUCE_ARGMIN:
    case HR_OP_TOPK:
        return WANT_AS_IS;
    default:
        if (expr->op == HR_OP_WHERE && position == 0) return WANT_BOOL;
        return is_whole(expr) ? WANT_WHOLE : WANT_FLOAT;
    }
}

/* An inout holds its old elements in and before the statement that assigns it. */
static int rule_read(const builder *b, int tensor) {
    int writer = b->reference->writer[tensor];
    if (b->function->tensors[tensor].role == HR_ROLE_INPUT) return -1;
    if (b->function->tensors[tensor].role == HR_ROLE_INOUT && writer >= b->statement) return -1;
    return writer;
}

static hr_status finish(builder *b, const hr_expr *expr) {
    int number, args = own_args(expr);
    int *given = NULL;
    HR_TRY(reserve(b->reference, (size_t)args * sizeof *given, (void **)&given));
    for (int i = 0; i < args; ++i)
        HR_TRY(argument(b, expr->args[i], wanted(expr, i), &given[i]));
    HR_TRY(emit(b, (int)expr->op, expr, is_whole(expr), 0, &number));
    hr_instruction *made = &b->instructions[number];
    made->args = given;
    made->arg_count = args;
    if (expr->op == HR_OP_ELEMENT) {
        made->target = rule_read(b, expr->tensor);
        if (made->target < 0 && expr->tensor >= b->function->parameter_count)
            return hr_fail(HR_INTERNAL, "%s is read before it is assigned",
                           b->function->tensors[expr->tensor].name);
    }
    if (hr_code_is_fold((int)expr->op)) HR_TRY(fold_for(b, expr, &made->target));
    b->instruction[expr->id] = number;
    return HR_OK;
}

static hr_status branch(builder *b, const hr_expr *expr) {
    int condition, number;
    HR_TRY(argument(b, expr->args[0], WANT_BOOL, &condition));
    HR_TRY(emit(b, HR_CODE_BRANCH, expr, true, 1, &number));
    b->instructions[number].args[0] = condition;
    return HR_OK;
}

static hr_status enter(builder *b, const hr_expr *expr) {
    if (b->seen[expr->id] == b->stamp) return HR_OK;
    b->seen[expr->id] = b->stamp;
    b->floated[expr->id] = -1;
    HR_TRY(grow((void **)&b->visits, b->visit_count, &b->visit_capacity, sizeof *b->visits));
    b->visits[b->visit_count++] = (visit){expr, 0};
    return HR_OK;
}

static hr_status walk(builder *b, const hr_expr *root) {
    HR_TRY(enter(b, root));
    while (b->visit_count) {
        visit *top = &b->visits[b->visit_count - 1];
        const hr_expr *expr = top->expr;
        int next = top->next++, args = own_args(expr);
        if (expr->op == HR_OP_WHERE && next == 1) HR_TRY(branch(b, expr));
        if (next < args) {
            HR_TRY(enter(b, expr->args[next]));
        } else {
            HR_TRY(finish(b, expr));
            --b->visit_count;
        }
    }
    return HR_OK;
}

/* ---- regions ---- */

static int common_region(const hr_region *regions, int a, int b) {
    while (a != b)
        if (regions[a].depth >= regions[b].depth)
            a = regions[a].parent;
        else
            b = regions[b].parent;
    return a;
}

/* From the last instruction to the first: users are known before what they use. */
static hr_status find_regions(builder *b, hr_code *code) {
    int regions = 1, *branch_region = NULL;
    for (int i = 0; i < code->count; ++i)
        regions += 2 * (code->instructions[i].op == HR_OP_WHERE);
    HR_TRY(reserve(b->reference, (size_t)regions * sizeof *code->regions, (void **)&code->regions));
    HR_TRY(reserve(b->reference, (size_t)code->count * sizeof *branch_region, (void **)&branch_region));
    for (int i = 0; i < code->count; ++i)
        code->instructions[i].region = -1;
    code->instructions[code->count - 1].region = 0;
    code->region_count = 1;
    for (int i = code->count - 1; i >= 0; --i) {
        hr_instruction *user = &code->instructions[i];
        if (user->op == HR_OP_WHERE) {
            user->target = code->region_count;
            code->region_count += 2;
            for (int side = 0; side < 2; ++side)
                code->regions[user->target + side] =
                    (hr_region){.parent = user->region,
                                .depth = code->regions[user->region].depth + 1,
                                .side = side == 0};
        }
        if (user->op == HR_CODE_BRANCH) {
            const hr_instruction *where = &code->instructions[b->instruction[user->expr->id]];
            user->target = where->target;
            user->region = where->region;
            for (int side = 0; side < 2; ++side)
                code->regions[user->target + side].condition = user->args[0];
        }
        for (int k = 0; k < user->arg_count; ++k) {
            hr_instruction *used = &code->instructions[user->args[k]];
            int region = user->op == HR_OP_WHERE && k > 0 ? user->target + k - 1 : user->region;
            used->region = used->region < 0 ? region : common_region(code->regions, used->region, region);
        }
    }
    return HR_OK;
}

static bool depends_on_own(const builder *b, const hr_instruction *made) {
    if (b->own_all) return true;
    if (made->op == HR_OP_INDEX) return b->owner[made->expr->index] == b->stamp;
    if (hr_code_is_fold(made->op)) {
        const hr_fold *fold = &b->reference->folds[made->target];
        for (int i = 0; i < fold->free_count; ++i)
            if (b->owner[fold->free[i]] == b->stamp) return true;
    }
    return false;
}

static void find_varying(const builder *b, hr_code *code) {
    for (int i = 0; i < code->count; ++i) {
        hr_instruction *made = &code->instructions[i];
        made->varies = depends_on_own(b, made) || code->regions[made->region].varies;
        for (int k = 0; k < made->arg_count; ++k)
            made->varies |= code->instructions[made->args[k]].varies;
        if (made->op == HR_CODE_BRANCH)
            for (int side = 0; side < 2; ++side)
                code->regions[made->target + side].varies = made->varies;
    }
}

/* ---- what points have in common ---- */

/* The indices that a code runs over, by their place among them: a statement's domain or a reduction's bound
 * ones. */
typedef struct own_indices {
    int count;
    const int *index;
} own_indices;

static uint64_t own_bit(own_indices own, int index) {
    for (int i = 0; i < own.count; ++i)
        if (own.index[i] == index) return (uint64_t)1 << i;
    return 0;
}

/* A value that misses one of them is the same for several points. */
static hr_status find_shared(builder *b, hr_code *code, own_indices own) {
    const uint64_t all = ((uint64_t)1 << own.count) - 1;
    uint64_t *met = hr_memory_zeros((size_t)code->count + 1, sizeof *met);
    if (!met) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    for (int i = 0; i < code->count; ++i) {
        hr_instruction *made = &code->instructions[i];
        if (made->op == HR_OP_INDEX) met[i] = own_bit(own, made->expr->index);
        if (hr_code_is_fold(made->op)) {
            const hr_fold *fold = &b->reference->folds[made->target];
            for (int k = 0; k < fold->free_count; ++k)
                met[i] |= own_bit(own, fold->free[k]);
        }
        for (int k = 0; k < made->arg_count; ++k)
            met[i] |= met[made->args[k]];
        made->shared = !made->whole && met[i] != all;
    }
    free(met);
    return HR_OK;
}

/* ---- code ---- */

static hr_status build(builder *b, const hr_expr *root, want want, own_indices own, hr_code *code) {
    int last;
    b->count = 0;
    HR_TRY(walk(b, root));
    HR_TRY(argument(b, root, want, &last));
    code->count = b->count;
    HR_TRY(
        reserve(b->reference, (size_t)b->count * sizeof *code->instructions, (void **)&code->instructions));
    memcpy(code->instructions, b->instructions, (size_t)b->count * sizeof *code->instructions);
    HR_TRY(reserve(b->reference, (size_t)b->count * sizeof *code->lanes, (void **)&code->lanes));
    HR_TRY(find_regions(b, code));
    find_varying(b, code);
    HR_TRY(find_shared(b, code, own));
    for (int i = 0; i < code->count; ++i) {
        int op = code->instructions[i].op;
        code->heavy |= hr_code_is_fold((int)op);
    }
    return HR_OK;
}

static hr_status build_rule(builder *b, int number) {
    hr_rule *rule = &b->reference->rules[number];
    rule->statement = &b->function->statements[number];
    rule->number = number;
    ++b->stamp;
    b->statement = number;
    b->own_all = true;
    const own_indices own = {rule->statement->domain_count, rule->statement->domain};
    HR_TRY(build(b, rule->statement->value, WANT_AS_IS, own, &rule->value));
    if (rule->statement->store == HR_STORE_WHOLE) return HR_OK;
    size_t axes = (size_t)rule->statement->subscript_count;
    HR_TRY(reserve(b->reference, axes * sizeof *rule->subscripts, (void **)&rule->subscripts));
    for (size_t i = 0; i < axes; ++i) {
        ++b->stamp;
        HR_TRY(build(b, rule->statement->subscripts[i], WANT_WHOLE, own, &rule->subscripts[i]));
    }
    return HR_OK;
}

/* The code of one of its arguments, which runs over its bound indices. */
static hr_status build_part(builder *b, int number, int arg, hr_code *out) {
    const hr_expr *expr = b->reference->folds[number].expr;
    ++b->stamp;
    b->statement = b->fold_statement[number];
    b->own_all = false;
    for (int i = 0; i < expr->bound_count; ++i)
        b->owner[expr->bound[i]] = b->stamp;
    return build(b, expr->args[arg], wanted(expr, arg), (own_indices){expr->bound_count, expr->bound}, out);
}

static hr_status build_fold(builder *b, int number) {
    const hr_expr *expr = b->reference->folds[number].expr;
    const bool scan = hr_op_is_scan(expr->op);
    hr_code body = {0}, factor = {0}, start = {0}; /* building may move the folds */
    HR_TRY(build_part(b, number, scan ? 1 : 0, &body));
    if (scan) HR_TRY(build_part(b, number, 0, &factor));
    if (scan) HR_TRY(build_part(b, number, 2, &start));
    b->reference->folds[number].body = body;
    b->reference->folds[number].factor = factor;
    b->reference->folds[number].start = start;
    return HR_OK;
}

/* ---- lanes ---- */

static int subscript_codes(const hr_rule *rule) {
    return rule->statement->store != HR_STORE_WHOLE ? rule->statement->subscript_count : 0;
}

static size_t array_count(const hr_reference *reference) {
    const hr_function *function = reference->function;
    size_t count = (size_t)function->index_count + 1;
    for (int i = 0; i < function->statement_count; ++i) {
        const hr_rule *rule = &reference->rules[i];
        count += (size_t)rule->value.count;
        for (int k = 0; k < subscript_codes(rule); ++k)
            count += (size_t)rule->subscripts[k].count;
    }
    for (int i = 0; i < reference->fold_count; ++i)
        count += (size_t)reference->folds[i].body.count + (size_t)reference->folds[i].factor.count +
                 (size_t)reference->folds[i].start.count + (size_t)reference->folds[i].expr->bound_count;
    return count;
}

static char *take(char **next, size_t size) {
    char *taken = *next;
    *next += size;
    return taken;
}

/* A float's value, or the same room as a whole number, and its error. */
static void place_lanes(hr_lanes *lanes, int count, int width, char **next) {
    for (int i = 0; i < count; ++i) {
        lanes[i].value = (double *)(void *)take(next, (size_t)width * sizeof(double));
        lanes[i].bound = (double *)(void *)take(next, (size_t)width * sizeof(double));
        lanes[i].noise = (double *)(void *)take(next, (size_t)width * sizeof(double));
        lanes[i].whole = (int64_t *)(void *)lanes[i].value;
    }
}

static hr_status allocate_lanes(hr_reference *reference) {
    const hr_function *function = reference->function;
    size_t arrays = array_count(reference);
    size_t width = LANE_BYTES / (ARRAY_BYTES * arrays) & ~(size_t)7;
    reference->width = width > WIDTH_MAX ? WIDTH_MAX : width < WIDTH_MIN ? WIDTH_MIN : (int)width;
    char *next = NULL;
    HR_TRY(reserve(reference, arrays * ARRAY_BYTES * (size_t)reference->width, (void **)&next));
    place_lanes(reference->indices, function->index_count, reference->width, &next);
    reference->offsets = (int64_t *)(void *)take(&next, ARRAY_BYTES * (size_t)reference->width);
    for (int i = 0; i < function->statement_count; ++i) {
        hr_rule *rule = &reference->rules[i];
        place_lanes(rule->value.lanes, rule->value.count, reference->width, &next);
        for (int k = 0; k < subscript_codes(rule); ++k)
            place_lanes(rule->subscripts[k].lanes, rule->subscripts[k].count, reference->width, &next);
    }
    for (int i = 0; i < reference->fold_count; ++i) {
        hr_fold *fold = &reference->folds[i];
        place_lanes(fold->body.lanes, fold->body.count, reference->width, &next);
        place_lanes(fold->factor.lanes, fold->factor.count, reference->width, &next);
        place_lanes(fold->start.lanes, fold->start.count, reference->width, &next);
        for (int k = 0; k < fold->expr->bound_count; ++k)
            fold->walk[k] = (int64_t *)(void *)take(&next, ARRAY_BYTES * (size_t)reference->width);
    }
    return HR_OK;
}

static hr_status compile(builder *b) {
    hr_reference *reference = b->reference;
    int done = 0;
    HR_TRY(reserve(reference, (size_t)b->function->statement_count * sizeof *reference->rules,
                   (void **)&reference->rules));
    for (int i = 0; i < b->function->statement_count; ++i) {
        HR_TRY(build_rule(b, i));
        for (; done < reference->fold_count; ++done)
            HR_TRY(build_fold(b, done));
    }
    return allocate_lanes(reference);
}

hr_status hr_interpreter_compile(hr_reference *reference) {
    const hr_function *function = reference->function;
    size_t exprs = (size_t)function->expr_count + 1, indices = (size_t)function->index_count + 1;
    int *tables = hr_memory_zeros(4 * exprs + indices, sizeof *tables);
    if (!tables) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    builder b = {.reference = reference, .function = function};
    b.seen = tables;
    b.instruction = tables + exprs;
    b.floated = tables + 2 * exprs;
    b.fold_of = tables + 3 * exprs;
    b.owner = tables + 4 * exprs;
    for (size_t i = 0; i < exprs; ++i)
        b.fold_of[i] = -1;
    hr_status status = compile(&b);
    free(tables);
    free(b.instructions);
    free(b.visits);
    free(b.fold_statement);
    return status;
}
