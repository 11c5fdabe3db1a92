/* Kernels and statements. In: the tree of a file. Out: checked functions in the program, or messages.
 *
 * Steps for each kernel: parameters and results become tensors; every name on a left side that is neither
 * becomes a local; statements are checked in order; what is never assigned is reported.
 */
#include "lang/checker.h"
#include "base/dtype.h"
#include "ir/extent_form.h"
#include "ir/visit.h"

#include <math.h>
#include <string.h>

static hr_shown shown(const hr_symbol *symbol) {
    return hr_text_shown(symbol->name, symbol->length);
}

/* ---- tensors ---- */

static bool grow_tensors(hr_checker *checker, hr_place place) {
    hr_function *function = checker->function;
    if (function->tensor_count < checker->tensor_capacity) return true;
    const int capacity = 2 * checker->tensor_capacity + 8;
    const size_t each = sizeof(hr_tensor) + sizeof(hr_tensor_state);
    if (hr_arena_room(checker->arena) < (size_t)capacity * each + 65536) {
        hr_messages_add(checker->messages, place, "the text with its calls written out is too large");
        return false;
    }
    hr_tensor *tensors = hr_arena_alloc(checker->arena, (size_t)capacity * sizeof *tensors);
    hr_tensor_state *states = hr_arena_alloc(checker->arena, (size_t)capacity * sizeof *states);
    memset(states, 0, (size_t)capacity * sizeof *states);
    if (function->tensor_count) {
        memcpy(tensors, function->tensors, (size_t)function->tensor_count * sizeof *tensors);
        memcpy(states, checker->tensors, (size_t)function->tensor_count * sizeof *states);
    }
    function->tensors = tensors;
    checker->tensors = states;
    checker->tensor_capacity = capacity;
    return true;
}

/* -1 after a message */
static int add_tensor(hr_checker *checker, hr_symbol *symbol, hr_place place, hr_role role) {
    hr_function *function = checker->function;
    hr_check_bind(checker, symbol);
    if (symbol->tensor >= 0) {
        hr_messages_add(checker->messages, place,
                        "%s is declared twice; every parameter and result needs a name of its own",
                        shown(symbol).text);
        return -1;
    }
    if (!hr_check_small(checker, symbol, place, role == HR_ROLE_LOCAL ? "local" : "tensor")) return -1;
    if (!grow_tensors(checker, place)) return -1;
    int id = function->tensor_count++;
    function->tensors[id] = (hr_tensor){.name = symbol->name, .role = role, .place = place};
    return symbol->tensor = id;
}

bool hr_check_add_local(hr_checker *checker, hr_symbol *symbol, hr_place place) {
    return add_tensor(checker, symbol, place, HR_ROLE_LOCAL) >= 0;
}

static void set_default(hr_checker *checker, hr_tensor *tensor, const hr_parameter_syntax *syntax) {
    const hr_syntax *number = syntax->default_value;
    const char *trouble = NULL;
    if (!number) return;
    bool whole = hr_compute_type(tensor->dtype) != HR_F32 && hr_compute_type(tensor->dtype) != HR_F64;
    if (tensor->rank)
        trouble = "only a scalar has a default value";
    else if (tensor->role == HR_ROLE_INOUT)
        trouble = "an inout is memory of the caller and has no default value";
    else if (whole && !number->is_whole)
        trouble = "the default of a whole-number scalar is a whole number";
    else if (whole && hr_dtype_round(tensor->dtype, number->number) != number->number)
        trouble = "this default does not fit the scalar's dtype";
    else if (whole && number->number < 0x1p63 && (int64_t)number->number != number->whole)
        trouble = "a scalar is given as an f64, which does not hold this whole number";
    if (trouble) hr_messages_add(checker->messages, number->place, "%s", trouble);
    tensor->has_default = !trouble;
    tensor->default_value = number->number;
}

static bool add_parameter(hr_checker *checker, const hr_parameter_syntax *syntax) {
    hr_role role = syntax->result ? HR_ROLE_RESULT : syntax->inout ? HR_ROLE_INOUT : HR_ROLE_INPUT;
    int id = add_tensor(checker, syntax->symbol, syntax->place, role);
    if (id < 0) return false;
    hr_tensor *tensor = &checker->function->tensors[id];
    hr_tensor_state *state = &checker->tensors[id];
    tensor->rank = syntax->rank;
    tensor->constant = syntax->constant;
    tensor->dtype = syntax->dtype;
    if (syntax->variable) {
        tensor->variable = hr_check_variable(checker, syntax);
        if (!tensor->variable) return false;
        tensor->dtype = tensor->variable->dtype;
    }
    *(syntax->result ? &checker->function->result_count : &checker->function->parameter_count) += 1;
    set_default(checker, tensor, syntax);
    if (syntax->rank > HR_RANK_MAX) {
        hr_messages_add(checker->messages, syntax->place, "%s has %d axes; a tensor has at most %d",
                        shown(syntax->symbol).text, syntax->rank, HR_RANK_MAX);
        state->failed = true;
        return false;
    }
    tensor->shape = hr_arena_alloc(checker->arena, HR_RANK_MAX * sizeof *tensor->shape);
    int axis = 0;
    for (const hr_syntax *extent = syntax->extents; extent; extent = extent->next, axis++) {
        tensor->shape[axis] = hr_check_extent(checker, extent);
        if (!tensor->shape[axis]) state->failed = true;
    }
    return !state->failed;
}

/* ---- the left side ---- */

typedef struct left_side {
    hr_statement *statement;
    int opened; /* indices in scope before it */
    bool good;
} left_side;

static bool open_domain_index(hr_checker *checker, left_side *left, const hr_syntax *name) {
    hr_statement *statement = left->statement;
    if (statement->domain_count == HR_DOMAIN_MAX) {
        hr_messages_add(checker->messages, name->place, "the left side has more than %d indices",
                        HR_DOMAIN_MAX);
        return left->good = false;
    }
    int index = hr_check_open_index(checker, name->symbol, name->place);
    if (index < 0) return left->good = false;
    statement->domain[statement->domain_count++] = index;
    return true;
}

static bool is_range(const hr_syntax *syntax) {
    return syntax->kind == HR_SYNTAX_OPERATION && syntax->op == HR_OP_LT &&
           syntax->items->kind == HR_SYNTAX_NAME;
}

/* The reductions around a place in a subscript, innermost first. */
typedef struct around {
    const hr_syntax *reduction;
    const struct around *outer;
} around;

static bool is_bound(const around *around, const hr_symbol *symbol) {
    for (; around; around = around->outer)
        for (const hr_syntax *item = around->reduction->items; item; item = item->next)
            if ((item->kind == HR_SYNTAX_RANGE || is_range(item) ? item->items : item)->symbol == symbol)
                return true;
    return false;
}

/* Names in a subscript of += that mean nothing yet are indices. */
static void open_indices_within(hr_checker *checker, left_side *left, const hr_syntax *syntax,
                                const around *outer) {
    if (syntax->kind == HR_SYNTAX_NAME) {
        const hr_symbol *symbol = hr_check_bind(checker, syntax->symbol);
        if (symbol->index < 0 && symbol->tensor < 0 && !hr_symbol_is_capital(symbol) &&
            !is_bound(outer, symbol))
            open_domain_index(checker, left, syntax);
        return;
    }
    bool reduction = syntax->kind == HR_SYNTAX_REDUCTION;
    around here = {syntax, outer};
    const hr_op op = reduction ? hr_check_reducer_named(syntax->symbol->name) : HR_OP_COUNT;
    if (reduction && !hr_op_leaves_free(op))
        outer = &here; /* softmax and cumsum leave their indices free */
    else
        for (const hr_syntax *item = syntax->items; item; item = item->next)
            open_indices_within(checker, left, item, outer);
    if (reduction) open_indices_within(checker, left, syntax->body, outer);
}

static void open_subscript(hr_checker *checker, left_side *left, const hr_syntax *syntax) {
    const hr_syntax *name = is_range(syntax) ? syntax->items : syntax;
    if (left->statement->store != HR_STORE_WHOLE) {
        open_indices_within(checker, left, name, NULL);
        return;
    }
    if (name->kind != HR_SYNTAX_NAME || hr_symbol_is_capital(name->symbol)) {
        hr_messages_add(checker->messages, syntax->place,
                        "the left side of = takes one plain index an axis, as in y[m, n]; to write single "
                        "places make it an inout, use += or choose the value with where%s",
                        syntax->kind == HR_SYNTAX_NUMBER
                            ? "; what stands before the first element of a recurrence is given as h[-1]"
                            : "");
        left->good = false;
        return;
    }
    for (int i = 0; i < left->statement->domain_count; i++)
        if (checker->indices[left->statement->domain[i]].symbol == name->symbol) {
            hr_messages_add(checker->messages, name->place,
                            "index %s stands twice on the left side of =; each must be distinct",
                            shown(name->symbol).text);
            left->good = false;
            return;
        }
    open_domain_index(checker, left, name);
}

/* The subscript itself, once all indices are open; a range gives its index an extent. */
static hr_expr *left_subscript(hr_checker *checker, const hr_syntax *syntax) {
    const hr_syntax *limit = is_range(syntax) ? syntax->items->next : NULL;
    hr_expr *subscript = hr_check_subscript(checker, limit ? syntax->items : syntax);
    if (!subscript || !limit) return subscript;
    hr_expr *extent = hr_check_extent(checker, limit);
    if (!extent) return NULL;
    if (subscript->op != HR_OP_INDEX) {
        hr_messages_add(checker->messages, syntax->place, "a range is that of an index, as in y[i < N]");
        return NULL;
    }
    return hr_check_range(checker, subscript->index, extent, limit->place, "a range", NULL) ? subscript
                                                                                            : NULL;
}

/* A subscript of = that names a place: no index that runs along the axis. */
static bool names_place(hr_checker *checker, const hr_syntax *first, const hr_syntax *syntax) {
    const hr_syntax *name = is_range(syntax) ? syntax->items : syntax;
    if (name->kind != HR_SYNTAX_NAME || hr_symbol_is_capital(name->symbol)) return true;
    for (const hr_syntax *other = first; other != syntax; other = other->next)
        if ((is_range(other) ? other->items : other)->symbol == name->symbol) return true;
    return hr_check_bind(checker, name->symbol)->tensor >= 0;
}

/* What the statement does to its tensor: of an inout = may give single places their values. */
static hr_statement_store store_of(hr_checker *checker, const hr_statement_syntax *syntax,
                                   const hr_tensor *tensor) {
    if (syntax->accumulate) return HR_STORE_ADD;
    if (tensor->role != HR_ROLE_INOUT) return HR_STORE_WHOLE;
    for (const hr_syntax *item = syntax->left->items; item; item = item->next)
        if (names_place(checker, syntax->left->items, item)) return HR_STORE_PLACE;
    return HR_STORE_WHOLE;
}

static void check_left(hr_checker *checker, const hr_statement_syntax *syntax, left_side *left) {
    const hr_syntax *element = syntax->left;
    hr_statement *statement = left->statement;
    int count = element->item_count;
    statement->domain = hr_arena_alloc(checker->arena, HR_DOMAIN_MAX * sizeof(int));
    for (const hr_syntax *item = element->items; item && left->good; item = item->next)
        open_subscript(checker, left, item);
    if (!left->good) return;
    statement->subscript_count = count;
    statement->subscripts = hr_arena_alloc(checker->arena, (size_t)count * sizeof(hr_expr *) + 1);
    int axis = 0;
    const hr_tensor *tensor = &checker->function->tensors[statement->tensor];
    for (const hr_syntax *item = element->items; item; item = item->next, axis++) {
        hr_expr *subscript = left_subscript(checker, item);
        statement->subscripts[axis] = subscript;
        if (!subscript) left->good = false;
        if (subscript && subscript->op == HR_OP_INDEX && tensor->role != HR_ROLE_LOCAL)
            left->good &= hr_check_range(checker, subscript->index, tensor->shape[axis], item->place,
                                         hr_check_axis_words(checker, statement->tensor, axis), NULL);
    }
}

/* ---- statements ---- */

static bool may_be_assigned(hr_checker *checker, const hr_statement_syntax *syntax, int id) {
    const hr_tensor *tensor = &checker->function->tensors[id];
    const hr_tensor_state *state = &checker->tensors[id];
    const hr_syntax *left = syntax->left;
    hr_shown name = shown(left->symbol);
    if (tensor->role == HR_ROLE_INPUT) {
        hr_messages_add(
            checker->messages, left->place,
            "%s is an input and cannot be assigned; declare it %s: inout %s, or choose another name",
            name.text, name.text, tensor->variable ? tensor->variable->name : hr_dtype_name(tensor->dtype));
        return false;
    }
    if (state->assigned) {
        hr_messages_add(checker->messages, left->place,
                        "%s is assigned a second time (first on line %d); a name is assigned once, "
                        "so give this value another name",
                        name.text, state->line);
        return false;
    }
    if (tensor->role == HR_ROLE_LOCAL && syntax->accumulate) {
        hr_messages_add(
            checker->messages, left->place,
            "+= adds into an inout or a result, and %s is neither; declare it, or write =", name.text);
        return false;
    }
    if (tensor->role == HR_ROLE_LOCAL && left->item_count > HR_RANK_MAX) {
        hr_messages_add(checker->messages, left->place, "%s has %d axes; a tensor has at most %d", name.text,
                        left->item_count, HR_RANK_MAX);
        return false;
    }
    if (tensor->role != HR_ROLE_LOCAL && !state->failed && tensor->rank != left->item_count) {
        hr_messages_add(checker->messages, left->place, "%s has %d ax%s, and here stand%s %d subscript%s%s",
                        name.text, tensor->rank, tensor->rank == 1 ? "is" : "es",
                        left->item_count == 1 ? "s" : "", left->item_count, left->item_count == 1 ? "" : "s",
                        left->item_count ? "" : "; write an element of it, as in y[m, n] = x[m, n] + 1");
        return false;
    }
    if (left->kind == HR_SYNTAX_ELEMENT && !left->item_count) {
        hr_messages_add(checker->messages, left->place, "no subscript stands between the brackets of %s",
                        name.text);
        return false;
    }
    return !state->failed;
}

static void shape_local(hr_checker *checker, const hr_statement *statement, hr_tensor *tensor) {
    tensor->rank = statement->subscript_count;
    tensor->dtype = statement->value->type;
    tensor->shape = hr_arena_alloc(checker->arena, HR_RANK_MAX * sizeof *tensor->shape);
    for (int i = 0; i < tensor->rank; i++)
        tensor->shape[i] = checker->function->indices[statement->subscripts[i]->index].extent;
}

/* The subscripts of an inout's element, where each place is written once: what the statement may read. */
static bool may_read_own(const hr_statement *statement, const hr_tensor *tensor) {
    if (tensor->role != HR_ROLE_INOUT) return false;
    for (int i = 0; i < statement->subscript_count; i++)
        if (statement->subscripts[i]->op != HR_OP_INDEX) return false;
    return true;
}

/* i8(x) stored as i8 is x stored as i8: what rounding does to x is then known to be no error of a whole
 * number.
 */
static hr_expr *without_own_rounding(const hr_statement *statement, const hr_tensor *tensor) {
    hr_expr *value = statement->value;
    bool own = value->op == HR_OP_CONVERT && value->dtype == tensor->dtype && value->dtype != HR_BOOL &&
               !hr_dtype_is_float(value->dtype) && hr_dtype_is_float(value->args[0]->type);
    return own && tensor->role != HR_ROLE_LOCAL && statement->store != HR_STORE_ADD ? value->args[0] : value;
}

static bool reads_itself(hr_checker *checker, const hr_statement *statement) {
    const hr_tensor *tensor = &checker->function->tensors[statement->tensor];
    for (int a = 0; a < statement->subscript_count; a++) {
        if (!hr_expr_reads(statement->subscripts[a], statement->tensor)) continue;
        hr_messages_add(checker->messages, statement->subscripts[a]->place,
                        "the statement that assigns the inout %s may read only the element that it assigns; "
                        "read the others into a local before it",
                        hr_text_shown(tensor->name, strlen(tensor->name)).text);
        return true;
    }
    return false;
}

static bool check_sides(hr_checker *checker, const hr_statement_syntax *syntax, hr_statement *statement) {
    left_side left = {.statement = statement, .opened = checker->live_count, .good = true};
    hr_tensor *tensor = &checker->function->tensors[statement->tensor];
    statement->store = store_of(checker, syntax, tensor);
    check_left(checker, syntax, &left);
    if (left.good && statement->store == HR_STORE_PLACE) left.good = !reads_itself(checker, statement);
    if (left.good) {
        hr_recurrence recurrence = {statement, -1, false};
        checker->target = statement->tensor;
        checker->own = may_read_own(statement, tensor) ? statement : NULL;
        checker->recurrence = statement->store == HR_STORE_WHOLE ? &recurrence : NULL;
        statement->value = hr_check_expression(checker, syntax->right);
        checker->recurrence = NULL;
        if (statement->value) statement->value = hr_check_recurrence(checker, &recurrence, statement->value);
        if (statement->value) statement->value = without_own_rounding(statement, tensor);
        left.good = statement->value != NULL;
        if (left.good && syntax->condition)
            left.good = hr_check_condition(checker, syntax->condition, statement);
        checker->target = -1;
        checker->own = NULL;
        left.good = left.good && hr_check_has_extents(checker, statement->domain, statement->domain_count);
    }
    hr_check_close_indices(checker, checker->live_count - left.opened);
    if (left.good && tensor->role == HR_ROLE_LOCAL) shape_local(checker, statement, tensor);
    return left.good;
}

/* A list of names, or a name with arguments, that is no call of a kernel. */
static void no_call(hr_checker *checker, const hr_statement_syntax *syntax) {
    const hr_syntax *right = syntax->right;
    if (!right) return; /* unreadable, which was said */
    const bool call = right->kind == HR_SYNTAX_CALL;
    hr_nearest nearest = hr_nearest_to(checker->messages, call ? right->symbol->name : "");
    for (const hr_kernel_syntax *k = call ? checker->file->kernels : NULL; k; k = k->next)
        hr_nearest_consider(&nearest, k->symbol->name);
    if (call)
        hr_messages_add(checker->messages, right->place, "there is no kernel '%s' here to call%s",
                        shown(right->symbol).text,
                        nearest.best ? hr_nearest_words(&nearest).text
                                     : "; those of another file come with use \"FILE.hr\" at the top");
    else
        hr_messages_add(checker->messages, syntax->left->place,
                        "several names stand before the = of the call of a kernel, or of topk alone, only");
    hr_check_fail_results(checker, syntax);
}

/* y = nrm(x) for a whole array y: a kernel is meant that is not there. */
static bool misses_kernel(const hr_checker *checker, const hr_statement_syntax *syntax, int id) {
    const hr_syntax *right = syntax->right;
    hr_dtype dtype;
    if (!right || right->kind != HR_SYNTAX_CALL || right->in_brackets) return false;
    const hr_symbol *name = right->symbol;
    return syntax->left->kind == HR_SYNTAX_NAME && checker->function->tensors[id].rank > 0 && !name->def &&
           !hr_check_habit(name->name) && hr_check_function_named(name->name) == HR_OP_COUNT &&
           !hr_dtype_parse(name->name, name->length, &dtype);
}

/* Pointers to statements do not outlive their check. */
static bool grow_statements(hr_checker *checker, hr_place place) {
    hr_function *function = checker->function;
    if (function->statement_count < checker->statement_capacity) return true;
    const int capacity = 2 * checker->statement_capacity + 8;
    if (hr_arena_room(checker->arena) < (size_t)capacity * sizeof(hr_statement) + 65536) {
        hr_messages_add(checker->messages, place, "the text with its calls written out is too large");
        return false;
    }
    hr_statement *grown = hr_arena_alloc(checker->arena, (size_t)capacity * sizeof *grown);
    if (function->statement_count)
        memcpy(grown, function->statements, (size_t)function->statement_count * sizeof *grown);
    function->statements = grown;
    checker->statement_capacity = capacity;
    return true;
}

void hr_check_statement(hr_checker *checker, const hr_statement_syntax *syntax) {
    const hr_syntax *call = hr_statement_call(syntax);
    if (call) {
        hr_check_call(checker, syntax, call);
        return;
    }
    if (hr_check_topk(checker, syntax) || hr_check_start(checker, syntax)) return;
    if (!syntax->left || syntax->left->next) {
        no_call(checker, syntax);
        return;
    }
    if (!grow_statements(checker, syntax->left->place)) return;
    hr_symbol *symbol = hr_check_bind(checker, syntax->left->symbol);
    int id = symbol->tensor;
    if (id < 0) return; /* its name was no good */
    if (misses_kernel(checker, syntax, id)) {
        no_call(checker, syntax);
        return;
    }
    hr_statement *statement = &checker->function->statements[checker->function->statement_count];
    *statement = (hr_statement){.tensor = id, .place = syntax->left->place};
    bool good =
        may_be_assigned(checker, syntax, id) && syntax->right && check_sides(checker, syntax, statement);
    hr_tensor_state *state = &checker->tensors[id];
    if (!state->assigned) state->line = syntax->left->place.line;
    if (checker->function->tensors[id].role != HR_ROLE_INPUT) {
        state->assigned = true;
        if (!good && checker->function->tensors[id].role == HR_ROLE_LOCAL) state->failed = true;
    }
    checker->function->statement_count += good;
}

/* ---- kernels ---- */

static void report_unassigned(hr_checker *checker) {
    const hr_function *function = checker->function;
    for (int i = 0; i < function->tensor_count; i++) {
        const hr_tensor *tensor = &function->tensors[i];
        if (tensor->role != HR_ROLE_RESULT || checker->tensors[i].assigned) continue;
        hr_nearest nearest = hr_nearest_to(checker->messages, tensor->name);
        for (int j = 0; j < function->tensor_count && j < 1000; j++)
            if (function->tensors[j].role == HR_ROLE_LOCAL)
                hr_nearest_consider(&nearest, function->tensors[j].name);
        hr_messages_add(checker->messages, tensor->place, "the result %s is never assigned%s",
                        hr_text_shown(tensor->name, strlen(tensor->name)).text,
                        hr_nearest_words(&nearest).text);
    }
}

static bool changes_memory(const hr_checker *checker) {
    for (int i = 0; i < checker->function->tensor_count; i++)
        if (checker->function->tensors[i].role == HR_ROLE_INOUT && checker->tensors[i].assigned) return true;
    return false;
}

/* Room for every tensor and statement that the kernel can have. */
static bool make_room(hr_checker *checker, const hr_kernel_syntax *kernel) {
    size_t tensors = 0, statements = 0;
    for (const hr_parameter_syntax *p = kernel->parameters; p; p = p->next)
        tensors++;
    for (const hr_statement_syntax *s = kernel->statements; s; s = s->next)
        statements++;
    tensors += statements;
    size_t size = tensors * (sizeof(hr_tensor) + sizeof(hr_tensor_state) + HR_RANK_MAX * sizeof(void *)) +
                  statements * (sizeof(hr_statement) + 2 * HR_DOMAIN_MAX * sizeof(void *));
    if (hr_arena_room(checker->arena) < size + 65536) {
        hr_messages_add(checker->messages, kernel->place, "kernel %s is too large",
                        shown(kernel->symbol).text);
        return false;
    }
    checker->tensor_capacity = (int)tensors;
    checker->statement_capacity = (int)statements;
    checker->function->tensors = hr_arena_alloc(checker->arena, tensors * sizeof(hr_tensor) + 1);
    checker->tensors = hr_arena_alloc(checker->arena, tensors * sizeof(hr_tensor_state) + 1);
    checker->function->statements = hr_arena_alloc(checker->arena, statements * sizeof(hr_statement) + 1);
    return true;
}

static void check_kernel(hr_checker *checker, const hr_kernel_syntax *kernel) {
    hr_function *function = checker->function;
    bool incomplete = kernel->headless;
    checker->kernel = kernel;
    function->name = kernel->symbol->name;
    function->place = kernel->place;
    hr_check_small(checker, kernel->symbol, kernel->place, "kernel");
    if (!make_room(checker, kernel)) return;
    for (const hr_parameter_syntax *p = kernel->parameters; p; p = p->next)
        if (!add_parameter(checker, p)) incomplete = true;
    if (incomplete) return;
    hr_check_constraints(checker);
    hr_check_titles(checker);
    for (const hr_statement_syntax *s = kernel->statements; s; s = s->next)
        for (const hr_syntax *left = s->left; left; left = left->next)
            if (hr_check_bind(checker, left->symbol)->tensor < 0 && strcmp(left->symbol->name, "_") != 0)
                hr_check_add_local(checker, left->symbol, left->place);
    for (const hr_statement_syntax *s = kernel->statements; s; s = s->next)
        hr_check_statement(checker, s);
    if (!kernel->unreadable) report_unassigned(checker);
    if (!kernel->unreadable && !function->result_count && !changes_memory(checker))
        hr_messages_add(
            checker->messages, kernel->place,
            "kernel %s gives nothing: it has no result and assigns no inout; name its results, as "
            "in -> (y: f32[N])",
            shown(kernel->symbol).text);
}

void hr_check_file(const hr_file_syntax *file, const hr_parse_options *options, hr_symbols *symbols,
                   hr_messages *messages, hr_program *program) {
    hr_checker checker = {.arena = program->arena,
                          .messages = messages,
                          .file = file,
                          .symbols = symbols,
                          .options = options,
                          .target = -1};
    size_t count = 0;
    for (const hr_kernel_syntax *kernel = file->kernels; kernel; kernel = kernel->next)
        count++;
    if (hr_arena_room(program->arena) < count * sizeof(hr_function) + 65536) {
        hr_messages_add(messages, (hr_place){1, 1}, "the text holds too many kernels");
        return;
    }
    program->functions = hr_arena_alloc(program->arena, count * sizeof(hr_function) + 1);
    hr_check_defs(&checker);
    for (hr_kernel_syntax *kernel = file->kernels; kernel; kernel = kernel->next)
        if (!kernel->symbol->kernel) kernel->symbol->kernel = kernel;
    for (const hr_kernel_syntax *kernel = file->kernels; kernel; kernel = kernel->next) {
        if (kernel->symbol->kernel != kernel)
            hr_messages_add(messages, kernel->place,
                            "a second kernel is called %s; give it a name of its own",
                            shown(kernel->symbol).text);
        if (kernel->used) continue;
        checker.function = &program->functions[program->function_count++];
        checker.function->origin = &program->origin;
        checker.index_capacity = checker.extent_capacity = checker.written_out = 0;
        checker.scope++;
        check_kernel(&checker, kernel);
    }
    hr_check_symbols(&checker, program);
    if (!program->function_count && !messages->total)
        hr_messages_add(messages, (hr_place){1, 1},
                        "the text holds no kernel; one begins with: kernel name(x: f32[N]) -> (y: f32[N])");
}
