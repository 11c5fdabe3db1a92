/* Expressions and names. In: trees of expressions. Out: typed nodes over tensors, extents and indices.
 *
 * A call of a def is its body with the parameters standing for the argument nodes, which are shared, so that
 * nested calls stay as small as they are written.
 */
#include "base/dtype.h"
#include "ir/extent_form.h"
#include "lang/checker.h"

#include <string.h>

/* Of trees within trees only what the way down needs stays on the stack: each kind has a frame of its own,
 * which is gone when it is not on that way. So the deepest legal text fits 512 KB. */
#define APART             __attribute__((noinline))
#define CALLS_NESTING_MAX 1000 /* of trees within defs within defs */

hr_symbol *hr_check_bind(hr_checker *checker, hr_symbol *symbol) {
    if (symbol->scope != checker->scope) {
        symbol->scope = checker->scope;
        symbol->tensor = symbol->extent = symbol->index = symbol->variable = -1;
    }
    return symbol;
}

static hr_shown shown(const hr_symbol *symbol) {
    return hr_text_shown(symbol->name, symbol->length);
}

/* ---- functions of the language ---- */

static hr_op op_named(const char *name, hr_op first, hr_op last) {
    for (hr_op op = first; op <= last; op++)
        if (strcmp(hr_op_info_of(op)->name, name) == 0) return op;
    return HR_OP_COUNT;
}

hr_op hr_check_function_named(const char *name) {
    return op_named(name, HR_OP_EXP, HR_OP_RANDOM);
}

hr_op hr_check_reducer_named(const char *name) {
    return op_named(name, HR_OP_REDUCE_SUM, HR_OP_SCAN);
}

void hr_check_consider_ops(hr_nearest *nearest, hr_op first, hr_op last) {
    for (hr_op op = first; op <= last; op++)
        hr_nearest_consider(nearest, hr_op_info_of(op)->name);
}

/* What other languages call it. */
const char *hr_check_habit(const char *name) {
    static const char *const habits[][2] = {{"pow", "; write x^y"},
                                            {"ln", "; write log(x)"},
                                            {"fabs", "; write abs(x)"},
                                            {"square", "; write x^2"},
                                            {"exp10", "; write 10^x"},
                                            {"reciprocal", "; write 1 / x"},
                                            {"len", "; an extent has a name, as N of x: f32[N]"},
                                            {"range", "; an index runs over its axis by itself"},
                                            {"dot", "; write sum[k](a[k] * b[k])"},
                                            {"matmul", "; write sum[k](a[m, k] * b[k, n])"},
                                            {"maximum", "; write max(a, b)"},
                                            {"minimum", "; write min(a, b)"},
                                            {"if", "; write where(condition, a, b)"},
                                            {"select", "; write where(condition, a, b)"},
                                            {"product", "; write prod[k](x[k])"},
                                            {"mod", "; write a % b"},
                                            {"fma", "; write a * b + c"},
                                            {"swish", "; write silu(x)"},
                                            {"logistic", "; write sigmoid(x)"},
                                            {"trunc", "; write i64(x)"}};
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (strcmp(habits[i][0], name) == 0) return habits[i][1];
    return NULL;
}

void hr_check_unknown_function(hr_checker *checker, const hr_syntax *syntax) {
    const char *name = syntax->symbol->name;
    if (hr_check_reducer_named(name) != HR_OP_COUNT || strcmp(name, "any") == 0 || strcmp(name, "all") == 0) {
        hr_messages_add(checker->messages, syntax->place,
                        "%s needs the index that it runs over; write %s[k](...)", name, name);
        return;
    }
    if (syntax->symbol->kernel) {
        hr_messages_add(
            checker->messages, syntax->place,
            "%s is a kernel; call it in a statement of its own, whole arrays on both sides: a = %s(x)",
            shown(syntax->symbol).text, shown(syntax->symbol).text);
        return;
    }
    const char *habit = hr_check_habit(name), *dtype = hr_dtype_habit(name);
    if (dtype) {
        hr_messages_add(checker->messages, syntax->place, "there is no function '%s'; write %s(x)", name,
                        dtype);
        return;
    }
    bool capital = name[0] >= 'A' && name[0] <= 'Z';
    hr_nearest nearest = hr_nearest_to(checker->messages, name);
    hr_check_consider_ops(&nearest, HR_OP_EXP, HR_OP_RANDOM);
    for (int i = 0; checker->function && i < checker->function->variable_count; i++)
        hr_nearest_consider(&nearest, checker->function->variables[i].name);
    if (capital && !nearest.best)
        habit = checker->function ? "; a dtype variable stands in the place of a dtype, as in x: T[M, N]"
                                  : "; a def knows no dtype variable, so convert where it is called";
    int considered = 0;
    for (const hr_def_syntax *def = checker->file->defs; def && nearest.distance && considered < 1000;
         def = def->next, considered++)
        hr_nearest_consider(&nearest, def->symbol->name);
    for (const hr_kernel_syntax *kernel = checker->file->kernels;
         kernel && nearest.distance && considered < 1000; kernel = kernel->next, considered++)
        hr_nearest_consider(&nearest, kernel->symbol->name);
    for (int i = 0; i < HR_DTYPE_COUNT; i++)
        hr_nearest_consider(&nearest, hr_dtype_name((hr_dtype)i));
    hr_messages_add(checker->messages, syntax->place, "there is no function '%s'%s",
                    shown(syntax->symbol).text, habit ? habit : hr_nearest_words(&nearest).text);
}

bool hr_check_arity(hr_checker *checker, const hr_syntax *syntax, int arity) {
    if (syntax->item_count == arity) return true;
    hr_messages_add(checker->messages, syntax->place, "%s takes %d argument%s, and here %s %d%s",
                    shown(syntax->symbol).text, arity, arity == 1 ? "" : "s",
                    syntax->item_count == 1 ? "stands" : "stand", syntax->item_count,
                    hr_check_reducer_named(syntax->symbol->name) != HR_OP_COUNT && syntax->item_count == 1
                        ? "; over an index it is written with brackets, as in max[k](...)"
                        : "");
    return false;
}

/* ---- indices ---- */

static bool grow_indices(hr_checker *checker) {
    hr_function *function = checker->function;
    int capacity = checker->index_capacity ? 2 * checker->index_capacity : 16;
    size_t size = (size_t)capacity * (sizeof(hr_index) + sizeof(hr_index_state));
    if (hr_arena_room(checker->arena) < size + 4096) return false;
    hr_index *indices = hr_arena_alloc(checker->arena, (size_t)capacity * sizeof *indices);
    hr_index_state *states = hr_arena_alloc(checker->arena, (size_t)capacity * sizeof *states);
    if (function->index_count) {
        memcpy(indices, function->indices, (size_t)function->index_count * sizeof *indices);
        memcpy(states, checker->indices, (size_t)function->index_count * sizeof *states);
    }
    function->indices = indices;
    checker->indices = states;
    checker->index_capacity = capacity;
    return true;
}

static bool may_be_index(hr_checker *checker, hr_symbol *symbol, hr_place place) {
    const char *trouble = NULL;
    hr_check_bind(checker, symbol);
    if (hr_symbol_is_capital(symbol))
        trouble = "names an extent or a dtype by its capital letter; an index begins with a small one";
    else if (symbol->tensor >= 0)
        trouble = "is a tensor of this kernel, and an index may not bear its name; choose another";
    else if (symbol->index >= 0)
        trouble = "is already an index here; choose another name for the inner one";
    else if (checker->live_count == HR_LIVE_MAX)
        trouble = "is one index too many: at most 64 can be in use at one place";
    if (trouble) hr_messages_add(checker->messages, place, "'%s' %s", shown(symbol).text, trouble);
    return !trouble;
}

int hr_check_open_index(hr_checker *checker, hr_symbol *symbol, hr_place place) {
    hr_function *function = checker->function;
    if (!may_be_index(checker, symbol, place)) return -1;
    if (function->index_count == checker->index_capacity && !grow_indices(checker)) return -1;
    int index = function->index_count++;
    function->indices[index] = (hr_index){.name = symbol->name, .place = place};
    checker->indices[index] = (hr_index_state){.symbol = symbol, .live = true};
    checker->live[checker->live_count++] = symbol;
    return symbol->index = index;
}

void hr_check_close_indices(hr_checker *checker, int count) {
    while (count-- > 0)
        checker->live[--checker->live_count]->index = -1;
}

/* ---- names ---- */

/* A value that other languages have under that name; NULL = none. */
static const char *value_habit_of(const char *name) {
    static const char *const habits[][2] = {
        {"True", "; write true"}, {"False", "; write false"}, {"None", "; an index names a whole axis"}};
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (strcmp(habits[i][0], name) == 0) return habits[i][1];
    return NULL;
}

/* The nearest of the names that may stand there. */
static hr_nearest nearest_name(const hr_checker *checker, const char *name, bool element) {
    const hr_function *function = checker->function;
    hr_nearest nearest = hr_nearest_to(checker->messages, name);
    for (int i = 0; i < function->tensor_count && i < 1000 && nearest.distance; i++)
        hr_nearest_consider(&nearest, function->tensors[i].name);
    for (int i = 0; i < function->extent_count && i < 1000 && !element; i++)
        hr_nearest_consider(&nearest, function->extents[i]);
    for (int i = 0; i < checker->live_count && !element; i++)
        hr_nearest_consider(&nearest, checker->live[i]->name);
    return nearest;
}

static void unknown_name(hr_checker *checker, const hr_syntax *syntax, bool element) {
    hr_nearest nearest = nearest_name(checker, syntax->symbol->name, element);
    const char *plural = element ? "tensor" : "name";
    if (syntax->symbol->variable >= 0) {
        hr_shown shown_name = shown(syntax->symbol);
        hr_messages_add(
            checker->messages, syntax->place,
            "%s is a dtype and has no value; it stands in the place of a dtype and converts, as in %s(x)",
            shown_name.text, shown_name.text);
        return;
    }
    bool capital = hr_symbol_is_capital(syntax->symbol);
    const char *habit = element ? NULL : value_habit_of(syntax->symbol->name);
    if (habit) {
        hr_messages_add(checker->messages, syntax->place, "there is no '%s' here%s", syntax->symbol->name,
                        habit);
        return;
    }
    const char *mend =
        element   ? ""
        : capital ? "; an extent must stand in a shape or a range"
                  : "; an index stands on the left side or in a reducer's brackets, as in sum[k](...)";
    const bool comment = !element && hr_place_follows(checker->messages, syntax->place, "//");
    hr_messages_add(checker->messages, syntax->place, "there is no %s '%s' here%s%s",
                    capital && !element ? "extent" : plural, shown(syntax->symbol).text,
                    nearest.best ? hr_nearest_words(&nearest).text
                    : comment    ? ""
                                 : mend,
                    !comment       ? ""
                    : nearest.best ? " // divides; a comment begins with #"
                                   : "; // divides; a comment begins with #");
}

static bool may_be_read(hr_checker *checker, int id, hr_place place) {
    const hr_tensor *tensor = &checker->function->tensors[id];
    const hr_tensor_state *state = &checker->tensors[id];
    if (state->failed) return false;
    if (state->assigned || tensor->role == HR_ROLE_INPUT || tensor->role == HR_ROLE_INOUT) return true;
    hr_shown name = hr_text_shown(tensor->name, strlen(tensor->name));
    hr_messages_add(checker->messages, place,
                    id == checker->target
                        ? "%s is read in the statement that assigns it; only an inout has an old value"
                        : "%s is read before it is assigned; move its statement up",
                    name.text);
    return false;
}

/* The statement that assigns an inout may read only the element that it assigns. */
static bool is_own_element(hr_checker *checker, const hr_expr *expr) {
    if (expr->tensor != checker->target) return true;
    const hr_statement *own = checker->own;
    bool same = own != NULL;
    for (int i = 0; same && i < expr->arg_count; i++) {
        const hr_expr *a = expr->args[i], *b = own->subscripts[i];
        same = a->op == HR_OP_INDEX && b->op == HR_OP_INDEX && a->index == b->index &&
               !checker->indices[a->index].normalised;
        for (int j = 0; same && j < i; j++)
            same = own->subscripts[j]->index != b->index;
    }
    if (same) return true;
    const char *name = checker->function->tensors[expr->tensor].name;
    hr_messages_add(checker->messages, expr->place,
                    "the statement that assigns the inout %s may read only the element that it assigns; "
                    "read the others into a local before it",
                    hr_text_shown(name, strlen(name)).text);
    return false;
}

static bool fits(const hr_checker *checker, const hr_expr *subscript, const hr_expr *extent) {
    if (subscript->op != HR_OP_INDEX) return false;
    const hr_expr *range = checker->function->indices[subscript->index].extent;
    return !range || (extent && hr_extent_compare(range, extent) != HR_DIFFERENT);
}

/* x[n, m] where x[m, n] would fit: the words that say so, or NULL. */
static const char *swapped_axes(hr_checker *checker, const hr_expr *expr) {
    const hr_tensor *tensor = &checker->function->tensors[expr->tensor];
    const hr_index *indices = checker->function->indices;
    if (expr->arg_count != 2 || !tensor->shape || hr_arena_room(checker->arena) < 4096) return NULL;
    const hr_expr *first = expr->args[0], *second = expr->args[1];
    bool wrong = !fits(checker, first, tensor->shape[0]) || !fits(checker, second, tensor->shape[1]);
    if (!wrong || !fits(checker, first, tensor->shape[1]) || !fits(checker, second, tensor->shape[0]))
        return NULL;
    const char *names[] = {tensor->name, indices[second->index].name, indices[first->index].name};
    hr_shown shown[3];
    for (int i = 0; i < 3; i++)
        shown[i] = hr_text_shown(names[i], strlen(names[i]));
    return hr_arena_format(checker->arena, "did you mean %s[%s, %s]?", shown[0].text, shown[1].text,
                           shown[2].text);
}

static bool note_axes(hr_checker *checker, const hr_expr *expr) {
    const hr_tensor *tensor = &checker->function->tensors[expr->tensor];
    const char *mend = swapped_axes(checker, expr);
    bool good = true;
    for (int i = 0; i < expr->arg_count; i++)
        if (expr->args[i]->op == HR_OP_INDEX && tensor->shape && tensor->shape[i])
            good &= hr_check_range(checker, expr->args[i]->index, tensor->shape[i], expr->args[i]->place,
                                   hr_check_axis_words(checker, expr->tensor, i), mend);
    return good;
}

static bool rank_is(hr_checker *checker, const hr_syntax *syntax, int id) {
    const hr_tensor *tensor = &checker->function->tensors[id];
    if (tensor->rank == syntax->item_count) return true;
    if (tensor->rank == 0)
        hr_messages_add(checker->messages, syntax->place, "%s is a scalar; write it without brackets",
                        shown(syntax->symbol).text);
    else
        hr_messages_add(checker->messages, syntax->place, "%s has %d ax%s, and here stand%s %d subscript%s",
                        shown(syntax->symbol).text, tensor->rank, tensor->rank == 1 ? "is" : "es",
                        syntax->item_count == 1 ? "s" : "", syntax->item_count,
                        syntax->item_count == 1 ? "" : "s");
    return false;
}

/* x or x[subscripts] of tensor `id` */
static hr_expr *element(hr_checker *checker, const hr_syntax *syntax, int id) {
    const bool before = hr_check_may_be_before(checker, id, syntax);
    bool good = before || (may_be_read(checker, id, syntax->place) && rank_is(checker, syntax, id));
    int rank = syntax->item_count;
    hr_expr *subscripts[HR_RANK_MAX] = {0};
    int i = 0;
    for (const hr_syntax *item = syntax->items; item; item = item->next, i++) {
        hr_expr *subscript = hr_check_subscript(checker, item);
        if (!subscript) good = false;
        if (i < HR_RANK_MAX) subscripts[i] = subscript;
    }
    if (!good) return NULL;
    const hr_dtype type =
        before ? hr_check_before_type(checker, id) : hr_compute_type(checker->function->tensors[id].dtype);
    hr_expr *new = hr_check_node(checker, HR_OP_ELEMENT, type, syntax->place, rank);
    if (!new) return NULL;
    new->tensor = id;
    for (i = 0; i < rank; i++) {
        new->args[i] = subscripts[i];
        int depth = ((hr_checked_expr *)subscripts[i])->depth;
        hr_checked_expr *checked = (hr_checked_expr *)new;
        if (depth >= checked->depth) checked->depth = depth + 1;
    }
    if (before) return hr_check_before(checker, new) ? new : NULL;
    return note_axes(checker, new) && is_own_element(checker, new) ? new : NULL;
}

hr_expr *hr_check_subscript(hr_checker *checker, const hr_syntax *syntax) {
    hr_expr *subscript = hr_check_expression(checker, syntax);
    if (!subscript || subscript->type == HR_I32 || subscript->type == HR_I64) return subscript;
    hr_messages_add(checker->messages, syntax->place, "a subscript is a whole number, and this is %s%s; %s",
                    subscript->type == HR_BOOL ? "a condition" : "a float", hr_check_assumed(checker).text,
                    subscript->type == HR_BOOL ? "write where(condition, 1, 0)"
                                               : "divide with //, or convert with i32(...)");
    return NULL;
}

static hr_expr *name(hr_checker *checker, const hr_syntax *syntax) {
    hr_symbol *symbol = syntax->symbol;
    if (checker->frame) /* hr_check_def has seen that a def uses nothing but its parameters */
        return symbol->frame == checker->frame ? symbol->argument : NULL;
    hr_check_bind(checker, symbol);
    if (symbol->index >= 0) {
        if (checker->indices[symbol->index].stands_for) return checker->indices[symbol->index].stands_for;
        hr_expr *new = hr_check_node(checker, HR_OP_INDEX, HR_I64, syntax->place, 0);
        if (new) new->index = symbol->index;
        return new;
    }
    if (symbol->extent >= 0) {
        hr_expr *new = hr_check_node(checker, HR_OP_EXTENT, HR_I64, syntax->place, 0);
        if (new) new->extent = symbol->extent;
        return new;
    }
    if (symbol->tensor >= 0) return element(checker, syntax, symbol->tensor);
    unknown_name(checker, syntax, false);
    return NULL;
}

static APART hr_expr *subscripted(hr_checker *checker, const hr_syntax *syntax) {
    hr_symbol *symbol = hr_check_bind(checker, syntax->symbol);
    if (checker->frame) return NULL; /* hr_check_def has said so */
    if (symbol->tensor >= 0 && syntax->item_count) return element(checker, syntax, symbol->tensor);
    if (!syntax->item_count)
        hr_messages_add(checker->messages, syntax->place, "no subscript stands between the brackets of %s",
                        shown(symbol).text);
    else if (hr_check_reducer_named(symbol->name) != HR_OP_COUNT)
        hr_messages_add(checker->messages, syntax->place,
                        "%s is no tensor here; the reduction is written %s[k](...)", symbol->name,
                        symbol->name);
    else if (symbol->index >= 0 || symbol->extent >= 0)
        hr_messages_add(checker->messages, syntax->place, "%s is %s and has no subscripts",
                        shown(symbol).text, symbol->index >= 0 ? "an index" : "an extent");
    else
        unknown_name(checker, syntax, true);
    return NULL;
}

/* ---- calls ---- */

static APART hr_expr *expanded(hr_checker *checker, const hr_syntax *syntax, hr_def_syntax *def) {
    if (def->failed) return NULL;
    if (!hr_check_arity(checker, syntax, def->parameter_count)) return NULL;
    size_t count = (size_t)def->parameter_count;
    if (hr_arena_room(checker->arena) < count * 64 + 4096) return NULL;
    struct saved {
        const void *frame;
        hr_expr *argument, *old;
    } *saved = hr_arena_alloc(checker->arena, count * sizeof *saved + 1);
    bool good = true;
    size_t i = 0;
    for (const hr_syntax *item = syntax->items; item; item = item->next, i++) {
        saved[i].argument = hr_check_expression(checker, item);
        good &= saved[i].argument != NULL;
    }
    if (!good) return NULL;
    hr_frame frame = {.outer = checker->frame, .def = def};
    i = 0;
    for (const hr_syntax *p = def->parameters; p; p = p->next, i++) {
        saved[i].frame = p->symbol->frame;
        saved[i].old = p->symbol->argument;
        p->symbol->frame = &frame;
        p->symbol->argument = saved[i].argument;
    }
    checker->frame = &frame;
    hr_expr *value = hr_check_expression(checker, def->body);
    checker->frame = frame.outer;
    i = 0;
    for (const hr_syntax *p = def->parameters; p; p = p->next, i++) {
        p->symbol->frame = saved[i].frame;
        p->symbol->argument = saved[i].old;
    }
    return value;
}

static APART hr_expr *call(hr_checker *checker, const hr_syntax *syntax) {
    const char *function = syntax->symbol->name;
    if (syntax->symbol->def) return expanded(checker, syntax, syntax->symbol->def);
    hr_op op = hr_check_function_named(function);
    hr_dtype dtype;
    int variable = hr_check_bind(checker, syntax->symbol)->variable;
    bool conversion =
        op == HR_OP_COUNT && (variable >= 0 || hr_dtype_parse(function, syntax->symbol->length, &dtype));
    if (variable >= 0) dtype = checker->function->variables[variable].dtype;
    if (op == HR_OP_COUNT && !conversion) {
        hr_check_unknown_function(checker, syntax);
        return NULL;
    }
    if (!hr_check_arity(checker, syntax, conversion ? 1 : hr_op_info_of(op)->arity)) return NULL;
    hr_expr *args[3] = {0};
    int i = 0;
    for (const hr_syntax *item = syntax->items; item; item = item->next)
        args[i++] = hr_check_expression(checker, item);
    if (!conversion) return hr_check_operation(checker, op, syntax->place, i, args);
    hr_expr *converted = hr_check_conversion(checker, dtype, syntax->place, args[0]);
    if (converted && variable >= 0) converted->variable = &checker->function->variables[variable];
    return converted;
}

static APART hr_expr *operation(hr_checker *checker, const hr_syntax *syntax) {
    hr_expr *args[2] = {hr_check_expression(checker, syntax->items), NULL};
    if (syntax->item_count == 2) args[1] = hr_check_expression(checker, syntax->items->next);
    return hr_check_operation(checker, syntax->op, syntax->place, syntax->item_count, args);
}

hr_expr *hr_check_expression(hr_checker *checker, const hr_syntax *syntax) {
    if (checker->full) return NULL;
    if (++checker->nesting > CALLS_NESTING_MAX) {
        hr_messages_add(checker->messages, syntax->place, "defs call each other more than %d levels deep",
                        CALLS_NESTING_MAX);
        checker->nesting--;
        return NULL;
    }
    hr_expr *value = NULL;
    switch (syntax->kind) {
    case HR_SYNTAX_NUMBER:
        value = hr_check_number(checker, syntax->place,
                                syntax->is_bool    ? HR_BOOL
                                : syntax->is_whole ? HR_I64
                                                   : HR_F32,
                                syntax->number, syntax->whole);
        break;
    case HR_SYNTAX_NAME:
        value = name(checker, syntax);
        break;
    case HR_SYNTAX_ELEMENT:
        value = subscripted(checker, syntax);
        break;
    case HR_SYNTAX_CALL:
        value = call(checker, syntax);
        break;
    case HR_SYNTAX_REDUCTION:
        value = hr_check_reduced(checker, syntax);
        break;
    case HR_SYNTAX_RANGE:
        hr_messages_add(checker->messages, syntax->place, "a range stands in a reducer's brackets only");
        break;
    case HR_SYNTAX_NAMED:
        hr_messages_add(checker->messages, syntax->place,
                        "'%s=' names an argument of a kernel; the arguments of a function have no names",
                        shown(syntax->symbol).text);
        break;
    case HR_SYNTAX_OPERATION:
        value = operation(checker, syntax);
        break;
    }
    checker->nesting--;
    return value;
}
