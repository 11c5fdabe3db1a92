/* Calls of kernels. In: a statement such as `h, rstd = rmsnorm(x, w[l], eps=1e-6)`. Out: the statements of
 * that kernel, checked as if they stood in its place.
 *
 * The call is written out as trees: arrays of the caller stand for the parameters and results, an expression
 * stands for a scalar, what the shapes say for the extents and dtype variables; locals get names of their
 * own. So types, ranges and every later pass see one kernel, and plans fuse across the call.
 */
#include "lang/check_call.h"
#include "base/dtype.h"
#include "ir/extent_form.h"

#include <string.h>

enum { CALLS_DEEP = 64, STATEMENTS_MOST = 4096 };

static hr_shown shown(const hr_symbol *symbol) {
    return hr_text_shown(symbol->name, symbol->length);
}

const hr_syntax *hr_statement_call(const hr_statement_syntax *statement) {
    const hr_syntax *right = statement->right, *left = statement->left;
    if (!right || right->kind != HR_SYNTAX_CALL || right->in_brackets || !right->symbol->kernel) return NULL;
    const bool whole = !left || left->kind == HR_SYNTAX_NAME;
    const bool function = right->symbol->def || hr_check_function_named(right->symbol->name) != HR_OP_COUNT;
    return whole && !function ? right : NULL;
}

/* ---- arguments ---- */

static bool argument_mistake(const hr_expansion *e, hr_place place, const hr_symbol *parameter,
                             const char *wanted) {
    hr_messages_add(e->checker->messages, place, "%s of kernel %s is %s", shown(parameter).text,
                    shown(e->callee->symbol).text, wanted);
    return false;
}

static bool is_unassigned(const hr_checker *checker, int tensor) {
    const hr_role role = checker->function->tensors[tensor].role;
    return (role == HR_ROLE_LOCAL || role == HR_ROLE_RESULT) && !checker->tensors[tensor].assigned;
}

/* A whole array, or one whose leading axes are fixed. */
static bool bind_array(hr_expansion *e, const hr_parameter_syntax *parameter, const hr_syntax *argument) {
    hr_checker *checker = e->checker;
    if (argument->kind != HR_SYNTAX_NAME && argument->kind != HR_SYNTAX_ELEMENT)
        return argument_mistake(
            e, argument->place, parameter->symbol,
            "an array, and this is an expression; give it a name in a statement of its own");
    const int id = hr_check_bind(checker, argument->symbol)->tensor;
    if (id < 0) {
        hr_messages_add(checker->messages, argument->place, "there is no tensor '%s' here to hand to %s",
                        shown(argument->symbol).text, shown(e->callee->symbol).text);
        return false;
    }
    const hr_tensor *tensor = &checker->function->tensors[id];
    if (checker->tensors[id].failed) return false;
    if (is_unassigned(checker, id)) {
        hr_messages_add(checker->messages, argument->place,
                        "%s is read before it is assigned; move its statement up",
                        shown(argument->symbol).text);
        return false;
    }
    if (tensor->rank - argument->item_count != parameter->rank) {
        hr_messages_add(checker->messages, argument->place,
                        "%s of kernel %s has %d ax%s, and what is given has %d",
                        shown(parameter->symbol).text, shown(e->callee->symbol).text, parameter->rank,
                        parameter->rank == 1 ? "is" : "es", tensor->rank - argument->item_count);
        return false;
    }
    if (parameter->inout && tensor->role != HR_ROLE_INOUT)
        return argument_mistake(e, argument->place, parameter->symbol,
                                "an inout, and takes an inout of this kernel only");
    hr_call_binding *new = hr_call_bind(e, parameter->symbol);
    if (!new) return false;
    new->symbol = argument->symbol;
    new->fixed = argument->items;
    new->fixed_count = argument->item_count;
    new->parameter = parameter;
    return true;
}

/* A number stands as it is; anything else is brought to the scalar's dtype. */
static const hr_syntax *scalar_value(hr_expansion *e, const hr_parameter_syntax *parameter,
                                     const hr_syntax *argument) {
    if (argument->kind == HR_SYNTAX_NUMBER) return argument;
    if (argument->kind == HR_SYNTAX_NAME) {
        const int id = hr_check_bind(e->checker, argument->symbol)->tensor;
        const bool same =
            id >= 0 && !parameter->variable && e->checker->function->tensors[id].dtype == parameter->dtype;
        if (same) return argument;
    }
    if (parameter->variable) return argument;
    hr_syntax *new = hr_call_room(e, sizeof *new), *inner = hr_call_copy_node(e, argument);
    const char *dtype = hr_dtype_name(parameter->dtype);
    if (!new || !inner) return NULL;
    *new = (hr_syntax){.kind = HR_SYNTAX_CALL,
                       .place = argument->place,
                       .depth = argument->depth + 1,
                       .items = inner,
                       .item_count = 1,
                       .symbol = hr_symbol_intern(e->checker->symbols, dtype, strlen(dtype))};
    return new->symbol ? new : NULL;
}

static bool bind_argument(hr_expansion *e, const hr_parameter_syntax *parameter, const hr_syntax *argument) {
    if (parameter->rank || parameter->inout) return bind_array(e, parameter, argument);
    hr_call_binding *new = hr_call_bind(e, parameter->symbol);
    if (!new) return false;
    new->parameter = parameter;
    new->value = scalar_value(e, parameter, argument);
    return new->value != NULL;
}

static const hr_parameter_syntax *parameter_named(const hr_kernel_syntax *kernel, const hr_symbol *name) {
    for (const hr_parameter_syntax *p = kernel->parameters; p; p = p->next)
        if (!p->result && p->symbol == name) return p;
    return NULL;
}

/* N=...: an extent that no argument says. */
static bool bind_extent_argument(hr_expansion *e, const hr_syntax *argument) {
    hr_call_binding *new = hr_call_bind(e, argument->symbol);
    if (!new) return false;
    new->value = argument->items;
    return hr_check_extent(e->checker, argument->items) != NULL;
}

static bool bind_named(hr_expansion *e, const hr_syntax *argument) {
    const hr_parameter_syntax *parameter = parameter_named(e->callee, argument->symbol);
    if (hr_call_binding_of(e, argument->symbol)) {
        hr_messages_add(e->checker->messages, argument->place, "%s is given twice",
                        shown(argument->symbol).text);
        return false;
    }
    if (!parameter && hr_symbol_is_capital(argument->symbol)) return bind_extent_argument(e, argument);
    if (parameter) return bind_argument(e, parameter, argument->items);
    hr_nearest nearest = hr_nearest_to(e->checker->messages, argument->symbol->name);
    for (const hr_parameter_syntax *p = e->callee->parameters; p; p = p->next)
        if (!p->result) hr_nearest_consider(&nearest, p->symbol->name);
    hr_messages_add(e->checker->messages, argument->place, "kernel %s has no parameter '%s'%s",
                    shown(e->callee->symbol).text, shown(argument->symbol).text,
                    hr_nearest_words(&nearest).text);
    return false;
}

static bool bind_arguments(hr_expansion *e) {
    const hr_parameter_syntax *p = e->callee->parameters;
    bool good = true, named = false;
    for (const hr_syntax *argument = e->call->items; argument; argument = argument->next) {
        if (argument->kind == HR_SYNTAX_NAMED) {
            named = true;
            good &= bind_named(e, argument);
            continue;
        }
        if (named || !p || p->result) {
            hr_messages_add(e->checker->messages, argument->place,
                            named ? "an argument without a name stands before those that have one"
                                  : "kernel %s takes no more arguments",
                            shown(e->callee->symbol).text);
            return false;
        }
        good &= bind_argument(e, p, argument);
        p = p->next;
    }
    for (p = e->callee->parameters; p && good; p = p->next) {
        if (p->result || hr_call_binding_of(e, p->symbol)) continue;
        if (p->default_value) {
            good = bind_argument(e, p, p->default_value);
        } else {
            hr_messages_add(e->checker->messages, e->call->place,
                            "kernel %s takes %s, and nothing is given for it", shown(e->callee->symbol).text,
                            shown(p->symbol).text);
            good = false;
        }
    }
    return good;
}

/* ---- results ---- */

/* As many names as the kernel gives results. */
static bool count_results(const hr_expansion *e, const hr_syntax *left) {
    int given = 0, wanted = 0;
    for (const hr_syntax *name = left; name; name = name->next)
        wanted++;
    for (const hr_parameter_syntax *p = e->callee->parameters; p; p = p->next)
        given += p->result;
    if (given == wanted) return true;
    hr_messages_add(e->checker->messages, e->call->place,
                    "kernel %s gives %d result%s, and here %s %d name%s%s", shown(e->callee->symbol).text,
                    given, given == 1 ? "" : "s", wanted == 1 ? "stands" : "stand", wanted,
                    wanted == 1 ? "" : "s", given > wanted ? "; write _ for one that is not needed" : "");
    return false;
}

static bool result_fits(hr_expansion *e, const hr_parameter_syntax *p, const hr_syntax *left,
                        const hr_tensor *tensor) {
    if (tensor->role == HR_ROLE_INOUT) {
        hr_messages_add(
            e->checker->messages, left->place,
            "%s is an inout, and a call gives results; name the result and assign the inout from it",
            shown(left->symbol).text);
        return false;
    }
    if (tensor->role == HR_ROLE_LOCAL || tensor->rank == p->rank) return true;
    hr_messages_add(e->checker->messages, left->place,
                    "%s has %d ax%s, and the result %s of kernel %s has %d", shown(left->symbol).text,
                    tensor->rank, tensor->rank == 1 ? "is" : "es", shown(p->symbol).text,
                    shown(e->callee->symbol).text, p->rank);
    return false;
}

static bool bind_result(hr_expansion *e, const hr_parameter_syntax *p, const hr_syntax *left) {
    hr_call_binding *new = hr_call_bind(e, p->symbol);
    if (!new) return false;
    if (left->kind != HR_SYNTAX_NAME) {
        hr_messages_add(e->checker->messages, left->place,
                        "a call of a kernel gives whole arrays, which are named without brackets");
        return false;
    }
    const bool dropped = strcmp(left->symbol->name, "_") == 0;
    new->symbol = dropped ? hr_call_fresh_name(e, p->symbol) : left->symbol;
    new->parameter = p;
    if (!new->symbol || (dropped && !hr_check_add_local(e->checker, new->symbol, left->place))) return false;
    const int id = hr_check_bind(e->checker, new->symbol)->tensor;
    if (id < 0) return false;
    const hr_tensor *tensor = &e->checker->function->tensors[id];
    new->ranged = tensor->role == HR_ROLE_LOCAL;
    return result_fits(e, p, left, tensor);
}

/* The caller's names become what the kernel calls its results; `_` is a local that nothing reads. */
static bool bind_results(hr_expansion *e, const hr_statement_syntax *statement) {
    const hr_syntax *left = statement->left;
    if (!count_results(e, left)) return false;
    for (const hr_parameter_syntax *p = e->callee->parameters; p; p = p->next) {
        if (!p->result) continue;
        if (!bind_result(e, p, left)) return false;
        left = left->next;
    }
    return true;
}

/* ---- extents ---- */

static const hr_tensor *tensor_of(const hr_expansion *e, const hr_call_binding *b) {
    const int id = b->symbol ? hr_check_bind(e->checker, b->symbol)->tensor : -1;
    return id >= 0 ? &e->checker->function->tensors[id] : NULL;
}

static bool has_shape(const hr_call_binding *b) {
    return b->parameter && b->parameter->rank && b->symbol && !b->ranged;
}

/* N, or N beside numbers: what it is where `pattern` is `extent`. */
static bool solve(hr_expansion *e, const hr_syntax *pattern, const hr_expr *extent) {
    if (pattern->kind == HR_SYNTAX_NAME && hr_symbol_is_capital(pattern->symbol)) {
        if (hr_call_binding_of(e, pattern->symbol)) return true;
        hr_syntax *tree = hr_call_extent_tree(e, extent);
        hr_call_binding *new = tree ? hr_call_bind(e, pattern->symbol) : NULL;
        if (new) new->value = tree;
        return new != NULL;
    }
    if (pattern->kind != HR_SYNTAX_OPERATION || pattern->op != HR_OP_MUL) return true;
    const hr_syntax *left = pattern->items, *right = left->next;
    if (left->kind != HR_SYNTAX_NUMBER) {
        const hr_syntax *other = left;
        left = right;
        right = other;
    }
    if (left->kind != HR_SYNTAX_NUMBER || right->kind != HR_SYNTAX_NAME ||
        hr_call_binding_of(e, right->symbol))
        return true;
    if (extent->op == HR_OP_MUL)
        for (int i = 0; i < 2; i++)
            if (extent->args[i]->op == HR_OP_NUMBER && extent->args[i]->whole == left->whole)
                return solve(e, right, extent->args[1 - i]);
    hr_expr quotient = {.op = HR_OP_FLOORDIV, .type = HR_I64}, number = {.op = HR_OP_NUMBER, .type = HR_I64};
    hr_expr *args[] = {(hr_expr *)extent, &number};
    number.whole = left->whole;
    quotient.args = args;
    quotient.arg_count = 2;
    if (extent->op == HR_OP_NUMBER && left->whole > 0 && extent->whole % left->whole == 0) {
        number.whole = extent->whole / left->whole;
        return solve(e, right, &number);
    }
    return left->whole < 1 || solve(e, right, &quotient);
}

/* The extents that the arrays say: those that stand alone first. */
static bool solve_extents(hr_expansion *e) {
    for (int alone = 1; alone >= 0; alone--)
        for (const hr_call_binding *b = e->bindings; b; b = b->next) {
            const hr_tensor *tensor = has_shape(b) ? tensor_of(e, b) : NULL;
            int axis = b->fixed_count;
            for (const hr_syntax *p = tensor ? b->parameter->extents : NULL; p; p = p->next, axis++)
                if ((p->kind == HR_SYNTAX_NAME) == alone && !solve(e, p, tensor->shape[axis])) return false;
        }
    return true;
}

static const hr_syntax *unbound_extent(const hr_expansion *e, const hr_syntax *syntax) {
    if (syntax->kind == HR_SYNTAX_NAME && hr_symbol_is_capital(syntax->symbol) &&
        !hr_call_binding_of(e, syntax->symbol))
        return syntax;
    for (const hr_syntax *item = syntax->items; item; item = item->next) {
        const hr_syntax *found = unbound_extent(e, item);
        if (found) return found;
    }
    return syntax->body ? unbound_extent(e, syntax->body) : NULL;
}

static bool no_extent(const hr_expansion *e, const hr_symbol *name) {
    hr_messages_add(e->checker->messages, e->call->place,
                    "the extent %s of kernel %s follows from no argument; give it by its name, as in %s=8",
                    shown(name).text, shown(e->callee->symbol).text, shown(name).text);
    return false;
}

/* Each axis of an argument is what the kernel's declaration says with the extents that were found. */
static bool axis_agrees(hr_expansion *e, const hr_call_binding *b, const hr_syntax *declared, int axis) {
    const hr_syntax *unbound = unbound_extent(e, declared);
    if (unbound) return no_extent(e, unbound->symbol);
    hr_syntax *tree = hr_call_copy_tree(e, declared);
    const hr_expr *wanted = tree ? hr_check_extent(e->checker, tree) : NULL;
    if (!wanted) return false;
    if (b->ranged || !b->parameter->rank || b->value) return true;
    const hr_tensor *tensor = tensor_of(e, b);
    const hr_expr *got = tensor->shape[axis + b->fixed_count];
    if (hr_extent_compare(wanted, got) != HR_DIFFERENT) return true;
    hr_messages_add(e->checker->messages, e->call->place,
                    "axis %d of %s is %s, and the call of %s takes %s there (%s of its %s)",
                    axis + b->fixed_count, shown(b->symbol).text,
                    hr_extent_text(e->checker->function, got).text, shown(e->callee->symbol).text,
                    hr_extent_text(e->checker->function, wanted).text,
                    shown(declared->symbol ? declared->symbol : b->name).text, shown(b->name).text);
    return false;
}

static bool check_shapes(hr_expansion *e) {
    bool good = true;
    for (const hr_parameter_syntax *p = e->callee->parameters; p; p = p->next) {
        int axis = 0;
        for (const hr_syntax *extent = p->extents; extent; extent = extent->next, axis++)
            good = good && axis_agrees(e, hr_call_binding_of(e, p->symbol), extent, axis);
    }
    return good;
}

/* ---- dtypes ---- */

static const hr_constraint_syntax *constraint_of(const hr_expansion *e, const hr_symbol *variable) {
    const hr_constraint_syntax *constraint = e->callee->constraints;
    while (constraint && constraint->symbol != variable)
        constraint = constraint->next;
    return constraint;
}

static hr_dtype bound_dtype(const hr_expansion *e, const hr_symbol *variable) {
    const hr_call_binding *b = hr_call_binding_of(e, variable);
    const int of_caller = hr_check_bind(e->checker, b->symbol)->variable;
    hr_dtype dtype = HR_F32;
    if (of_caller >= 0) return e->checker->function->variables[of_caller].dtype;
    hr_dtype_parse(b->symbol->name, b->symbol->length, &dtype);
    return dtype;
}

/* The dtype variable stands for what the first argument of it is declared as, or computes as. */
static bool bind_dtype(hr_expansion *e, const hr_parameter_syntax *p) {
    const hr_call_binding *b = hr_call_binding_of(e, p->symbol);
    const hr_tensor *tensor = b ? tensor_of(e, b) : NULL;
    if (!tensor || (tensor->role == HR_ROLE_LOCAL && p->result)) return true;
    const char *name = tensor->variable ? tensor->variable->name : hr_dtype_name(tensor->dtype);
    const hr_constraint_syntax *constraint = constraint_of(e, p->variable);
    if (constraint && !(constraint->allowed >> tensor->dtype & 1)) {
        hr_messages_add(e->checker->messages, e->call->place, "%s is %s, which %s of kernel %s cannot be",
                        shown(b->symbol).text, hr_dtype_name(tensor->dtype), shown(p->variable).text,
                        shown(e->callee->symbol).text);
        return false;
    }
    hr_call_binding *new = hr_call_bind(e, p->variable);
    if (new) new->symbol = hr_symbol_intern(e->checker->symbols, name, strlen(name));
    return new &&new->symbol;
}

static bool declares(const hr_tensor *tensor) {
    return tensor && tensor->role != HR_ROLE_LOCAL;
}

/* Declared arrays say it before locals do, which have no dtype of their own. */
static bool bind_dtypes(hr_expansion *e) {
    for (int declared = 1; declared >= 0; declared--)
        for (const hr_parameter_syntax *p = e->callee->parameters; p; p = p->next) {
            if (!p->variable || hr_call_binding_of(e, p->variable)) continue;
            const hr_call_binding *b = hr_call_binding_of(e, p->symbol);
            if (declares(b ? tensor_of(e, b) : NULL) == declared && !bind_dtype(e, p)) return false;
        }
    for (const hr_parameter_syntax *p = e->callee->parameters; p; p = p->next) {
        if (!p->variable || hr_call_binding_of(e, p->variable)) continue;
        hr_call_binding *new = hr_call_bind(e, p->variable);
        if (new) new->symbol = hr_symbol_intern(e->checker->symbols, "f32", 3);
        if (!new || !new->symbol) return false;
    }
    return true;
}

/* The statements read an argument as what it computes as: as the kernel declares it. */
static bool types_agree(const hr_expansion *e) {
    bool good = true;
    for (const hr_parameter_syntax *p = e->callee->parameters; p; p = p->next) {
        const hr_call_binding *b = hr_call_binding_of(e, p->symbol);
        const hr_tensor *tensor = b ? tensor_of(e, b) : NULL;
        if (!tensor || (tensor->role == HR_ROLE_LOCAL && p->result)) continue;
        const hr_dtype wanted = p->variable ? bound_dtype(e, p->variable) : p->dtype;
        if (hr_compute_type(tensor->dtype) == hr_compute_type(wanted)) continue;
        hr_messages_add(e->checker->messages, e->call->place,
                        "%s of kernel %s is %s, and %s is %s; convert it in a statement of its own",
                        shown(p->symbol).text, shown(e->callee->symbol).text, hr_dtype_name(wanted),
                        shown(b->symbol).text, hr_dtype_name(tensor->dtype));
        good = false;
    }
    return good;
}

/* ---- statements ---- */

static bool bind_locals(hr_expansion *e) {
    for (const hr_statement_syntax *s = e->callee->statements; s; s = s->next)
        for (const hr_syntax *left = s->left; left; left = left->next) {
            if (hr_call_binding_of(e, left->symbol) || strcmp(left->symbol->name, "_") == 0) continue;
            hr_call_binding *new = hr_call_bind(e, left->symbol);
            if (!new || !(new->symbol = hr_call_fresh_name(e, left->symbol))) return false;
            if (!hr_check_add_local(e->checker, new->symbol, left->place)) return false;
        }
    return true;
}

static bool find_free_extents(hr_expansion *e, const hr_statement_syntax *statement) {
    const hr_syntax *parts[] = {statement->left, statement->right, statement->condition};
    for (int i = 0; i < 3; i++)
        for (const hr_syntax *part = parts[i]; part; part = i ? NULL : part->next) {
            const hr_syntax *unbound = unbound_extent(e, part);
            if (unbound) return no_extent(e, unbound->symbol);
        }
    return true;
}

static void write_out(hr_expansion *e) {
    hr_checker *checker = e->checker;
    const long mistakes = checker->messages->total;
    for (const hr_statement_syntax *s = e->callee->statements; s; s = s->next) {
        if (!s->left && !s->right) return;
        if (!find_free_extents(e, s)) return;
        if (++checker->written_out > STATEMENTS_MOST) {
            if (checker->written_out == STATEMENTS_MOST + 1)
                hr_messages_add(checker->messages, e->call->place,
                                "kernel %s with its calls written out has more than %d statements",
                                shown(checker->kernel->symbol).text, STATEMENTS_MOST);
            return;
        }
        hr_statement_syntax *copy = hr_call_copy_statement(e, s);
        if (!copy) return;
        hr_check_statement(checker, copy);
    }
    const hr_messages *messages = checker->messages;
    const hr_message *last = messages->kept ? &messages->kept_messages[messages->kept - 1] : NULL;
    if (!last || messages->total == mistakes || last->place.line == e->call->place.line) return;
    int line = last->place.line;
    const char *path = hr_origin_path(&messages->origin, &line);
    hr_messages_add(checker->messages, e->call->place,
                    "this call of %s leads to the mistake on line %d of %.200s",
                    shown(e->callee->symbol).text, line, path);
}

/* ---- the call ---- */

static bool may_be_called(const hr_expansion *e) {
    bool recurs = e->callee == e->checker->kernel;
    int deep = 0;
    for (const hr_expansion *outer = e->outer; outer; outer = outer->outer, deep++)
        recurs = recurs || outer->callee == e->callee;
    if (recurs)
        hr_messages_add(e->checker->messages, e->call->place,
                        "%s calls itself, perhaps through another; a call is written out, so it cannot recur",
                        shown(e->callee->symbol).text);
    else if (deep >= CALLS_DEEP)
        hr_messages_add(e->checker->messages, e->call->place,
                        "kernels call each other more than %d levels deep", CALLS_DEEP);
    else
        return !e->callee->headless && !e->callee->unreadable; /* which was said */
    return false;
}

void hr_check_fail_results(hr_checker *checker, const hr_statement_syntax *statement) {
    for (const hr_syntax *left = statement->left; left; left = left->next) {
        const int id = hr_check_bind(checker, left->symbol)->tensor;
        if (id < 0 || checker->tensors[id].assigned) continue;
        checker->tensors[id].assigned = true;
        checker->tensors[id].failed = checker->function->tensors[id].role == HR_ROLE_LOCAL;
        checker->tensors[id].line = left->place.line;
    }
}

void hr_check_call(hr_checker *checker, const hr_statement_syntax *statement, const hr_syntax *call) {
    hr_expansion e = {
        .checker = checker, .callee = call->symbol->kernel, .call = call, .outer = checker->expansion};
    if (statement->accumulate || statement->condition)
        hr_messages_add(checker->messages, call->place,
                        "a call of a kernel stands alone behind =; add its result in a statement of its own");
    else if (may_be_called(&e) && bind_arguments(&e) && bind_results(&e, statement) && solve_extents(&e) &&
             check_shapes(&e) && bind_dtypes(&e) && types_agree(&e) && bind_locals(&e)) {
        checker->expansion = &e;
        write_out(&e);
        checker->expansion = e.outer;
    }
    hr_check_fail_results(checker, statement);
}
