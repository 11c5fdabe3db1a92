/* The gradient of a function: its steps in order. In: a function and what is wanted. Out: a kernel as text.
 */
#include "grad/gradient.h"
#include "base/memory.h"
#include "grad/derivation.h"
#include "ir/extent_form.h"
#include "ir/function_text.h"
#include "ir/types.h"

#include <stdlib.h>
#include <string.h>

static hr_status derivation_status(const hr_derivation *derivation) {
    return derivation->graph->full
               ? hr_fail(HR_BAD_INPUT, "kernel %.60s is too large to derive: split it into several",
                         derivation->source->name)
               : HR_OK;
}

/* ---- what is asked for ---- */

static bool list_has(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = list; *at;) {
        const size_t piece = strcspn(at, ",");
        if (piece == length && memcmp(at, name, length) == 0) return true;
        at += piece + (at[piece] == ',');
    }
    return false;
}

static bool is_wanted(const hr_gradient_options *options, const hr_tensor *tensor) {
    if (tensor->role != HR_ROLE_INPUT) return false;
    if (options->wrt) return list_has(options->wrt, tensor->name);
    return tensor->rank && !tensor->constant && hr_type_is_float(hr_compute_type(tensor->dtype));
}

static bool is_float_result(const hr_tensor *tensor) {
    return (tensor->role == HR_ROLE_RESULT || tensor->role == HR_ROLE_INOUT) &&
           hr_type_is_float(hr_compute_type(tensor->dtype));
}

static hr_visit is_reduction(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(hr_op_is_reduction(node->op));
}

/* A result that is there for the backward pass, as rstd or lse: a reduction that another statement reads. */
static bool is_kept(const hr_derivation *derivation, int tensor) {
    const hr_function *source = derivation->source;
    const int own = derivation->statement_of[tensor];
    if (own < 0 || !hr_expr_find(source->statements[own].value, is_reduction, NULL)) return false;
    for (int s = 0; s < source->statement_count; s++)
        if (s != own && hr_expr_reads(source->statements[s].value, tensor)) return true;
    return false;
}

bool hr_is_derived(const hr_derivation *derivation, int t) {
    const hr_tensor *tensor = &derivation->source->tensors[t];
    const int s = derivation->statement_of[t];
    if (!is_float_result(tensor)) return false;
    if (tensor->role == HR_ROLE_INOUT && (s < 0 || derivation->source->statements[s].store != HR_STORE_ADD))
        return false;
    return derivation->options->of ? list_has(derivation->options->of, tensor->name)
                                   : !is_kept(derivation, t);
}

/* Each name of `list` is a tensor of the function for which `fits` holds. */
static hr_status check_list(const hr_function *function, const char *list, const char *what,
                            bool (*fits)(const hr_tensor *tensor)) {
    for (const char *at = list; at && *at;) {
        const size_t piece = strcspn(at, ",");
        int t = 0;
        while (t < function->tensor_count && !(strlen(function->tensors[t].name) == piece &&
                                               memcmp(function->tensors[t].name, at, piece) == 0))
            t++;
        if (t == function->tensor_count || !fits(&function->tensors[t]))
            return hr_fail(HR_BAD_INPUT, "%.*s is no %s of kernel %.60s", (int)(piece < 60 ? piece : 60), at,
                           what, function->name);
        at += piece + (at[piece] == ',');
    }
    return HR_OK;
}

static bool is_float_parameter(const hr_tensor *tensor) {
    return (tensor->role == HR_ROLE_INPUT || tensor->role == HR_ROLE_INOUT) &&
           hr_type_is_float(hr_compute_type(tensor->dtype));
}

static bool is_local(const hr_tensor *tensor) {
    return tensor->role == HR_ROLE_LOCAL;
}

static bool is_result(const hr_tensor *tensor) {
    return tensor->role == HR_ROLE_RESULT;
}

static hr_status check_options(const hr_function *function, const hr_gradient_options *options) {
    for (int s = 0; s < function->statement_count; s++)
        if (function->statements[s].store == HR_STORE_PLACE)
            return hr_fail(HR_BAD_INPUT,
                           "line %d of kernel %.60s gives single places of %.60s their values, and such a "
                           "statement has no gradient; write the values into a result of their own",
                           function->statements[s].place.line, function->name,
                           function->tensors[function->statements[s].tensor].name);
    HR_TRY(check_list(function, options->of, "float result", is_float_result));
    HR_TRY(check_list(function, options->wrt, "float parameter", is_float_parameter));
    HR_TRY(check_list(function, options->save, "local", is_local));
    HR_TRY(check_list(function, options->recompute, "result", is_result));
    for (int t = 0; t < function->parameter_count; t++) {
        const hr_tensor *tensor = &function->tensors[t];
        if (tensor->constant && options->wrt && list_has(options->wrt, tensor->name))
            return hr_fail(HR_BAD_INPUT,
                           "%.60s of kernel %.60s is const: take the word away to derive for it",
                           tensor->name, function->name);
        if (tensor->role == HR_ROLE_INOUT && options->wrt && list_has(options->wrt, tensor->name))
            return hr_fail(
                HR_BAD_INPUT,
                "%.60s of kernel %.60s is inout: after the kernel its old values are gone. Make it a "
                "parameter and give the new values as a result",
                tensor->name, function->name);
    }
    return HR_OK;
}

/* ---- the tensors of the derivation ---- */

int hr_like_tensor(hr_derivation *derivation, const hr_tensor *like, const char *name, hr_dtype dtype,
                   const hr_dtype_variable *variable) {
    hr_graph *graph = derivation->graph;
    hr_expr *shape[HR_RANK_MAX];
    for (int a = 0; a < like->rank; a++)
        shape[a] = hr_graph_substitute(graph, like->shape[a], 0, NULL, NULL);
    const int tensor = hr_graph_add_local(graph, name, dtype, like->rank, shape, -1);
    if (!graph->full) graph->function->tensors[tensor].variable = variable;
    return tensor;
}

static const char *gradient_name(hr_derivation *derivation, const char *name) {
    return hr_name_free(derivation, hr_arena_format(derivation->graph->arena, "d%s", name));
}

static void tensors_prepare(hr_derivation *derivation) {
    const hr_function *source = derivation->source;
    hr_arena *arena = derivation->graph->arena;
    const size_t tensors = (size_t)source->tensor_count + 1;
    derivation->adjoints = hr_arena_alloc(arena, tensors * sizeof *derivation->adjoints);
    derivation->cotangents = hr_arena_alloc(arena, tensors * sizeof *derivation->cotangents);
    derivation->statement_of = hr_arena_alloc(arena, tensors * sizeof *derivation->statement_of);
    derivation->saved = hr_arena_alloc(arena, tensors * sizeof *derivation->saved);
    for (int t = hr_function_arguments(source); t < source->tensor_count; t++) /* the same numbers */
        hr_like_tensor(derivation, &source->tensors[t], source->tensors[t].name, source->tensors[t].dtype,
                       NULL);
    for (int t = 0; t < source->tensor_count; t++)
        derivation->cotangents[t] = derivation->statement_of[t] = derivation->adjoints[t].gradient = -1;
    for (int s = 0; s < source->statement_count; s++)
        derivation->statement_of[source->statements[s].tensor] = s;
    const hr_gradient_options *options = derivation->options;
    for (int t = 0; t < source->tensor_count; t++) {
        const hr_tensor *tensor = &source->tensors[t];
        derivation->adjoints[t].active = is_wanted(options, tensor);
        derivation->saved[t] = tensor->role == HR_ROLE_RESULT
                                   ? !options->recompute || !list_has(options->recompute, tensor->name)
                                   : options->save && list_has(options->save, tensor->name);
        if (derivation->saved[t] && tensor->role == HR_ROLE_LOCAL) {
            hr_tensor kept;
            hr_saved_as(source, t, &kept);
            derivation->graph->function->tensors[t].dtype = kept.dtype;
            derivation->graph->function->tensors[t].variable = kept.variable;
        }
        const bool given =
            derivation->mode == HR_MODE_FORWARD ? is_wanted(options, tensor) : hr_is_derived(derivation, t);
        if (!given) continue;
        derivation->cotangents[t] = hr_like_tensor(
            derivation, tensor, gradient_name(derivation, tensor->name), tensor->dtype, tensor->variable);
        hr_carry_cotangent(derivation, derivation->cotangents[t]);
    }
}

/* ---- gradients ---- */

/* What every row of the results shares: weights, whose gradients are sums. */
static bool is_shared_by_rows(hr_derivation *derivation, int parameter) {
    const hr_adjoint *adjoint = &derivation->adjoints[parameter];
    const hr_function *source = derivation->source;
    hr_index_set axes = 0;
    bool rows = false;
    for (int a = 0; a < source->tensors[parameter].rank; a++)
        axes |= hr_index_bit(derivation->algebra, adjoint->axes[a]);
    for (int t = 0; t < hr_function_arguments(source); t++) {
        const int s = derivation->statement_of[t];
        if (derivation->cotangents[t] < 0 || s < 0 || !source->statements[s].domain_count) continue;
        rows = true;
        const int first = derivation->index_of[source->statements[s].domain[0]];
        if (axes & hr_index_bit(derivation->algebra, first)) return false;
    }
    return rows;
}

static void note_zero(hr_derivation *derivation, const hr_tensor *parameter) {
    hr_text_format(
        derivation->notes,
        "%s has no way to a result but through whole numbers, comparisons or roundings: its gradient is 0\n",
        parameter->name);
}

/* The subscripts of a scatter, in words. */
static void note_scatter(hr_derivation *derivation, const hr_tensor *parameter) {
    hr_text_format(
        derivation->notes,
        "%s is read at places that data decides, and elsewhere: each of its elements asks each place\n",
        parameter->name);
}

static void gradient_of(hr_derivation *derivation, int parameter, hr_gradient_statement *out) {
    hr_algebra *algebra = derivation->algebra;
    const hr_tensor *tensor = &derivation->source->tensors[parameter];
    hr_adjoint *adjoint = &derivation->adjoints[parameter];
    if (!adjoint->sum.count && !adjoint->scatters) note_zero(derivation, tensor);
    if (adjoint->contributions > 1 && adjoint->asked) note_scatter(derivation, tensor);
    const bool weight = adjoint->scatters || is_shared_by_rows(derivation, parameter);
    const hr_dtype wide = hr_compute_type(tensor->dtype);
    out->tensor = hr_like_tensor(derivation, tensor, gradient_name(derivation, tensor->name),
                                 weight ? wide : tensor->dtype, weight ? NULL : tensor->variable);
    adjoint->gradient = out->tensor;
    out->accumulate = adjoint->scatters || (weight && derivation->options->accumulate);
    if (derivation->graph->full) return;
    derivation->graph->function->tensors[out->tensor].role =
        weight && derivation->options->accumulate ? HR_ROLE_INOUT : HR_ROLE_RESULT;
    out->domain_count = 0;
    out->condition = adjoint->scatters ? adjoint->condition : NULL;
    if (adjoint->scatters)
        out->domain_count = hr_index_list(algebra, adjoint->domain, out->domain);
    else
        for (int a = 0; a < tensor->rank; a++)
            out->domain[out->domain_count++] = adjoint->axes[a];
    for (int a = 0; a < tensor->rank; a++)
        out->subscripts[a] = adjoint->scatters ? adjoint->subscripts[a]
                                               : hr_graph_index_value(derivation->graph, adjoint->axes[a]);
    out->value = hr_terms_compose(algebra, adjoint->scatters ? adjoint->scattered : adjoint->sum);
}

/* ---- the kernel ---- */

typedef struct renumbering {
    hr_graph *graph;
    const hr_function *kernel;
    const hr_tensor *tensors; /* of the graph, or the source */
    int *to;                  /* a tensor of these -> its number in the kernel */
} renumbering;

/* A part of an axis is read by i + 0: an index alone would have to range over all of it. */
static hr_expr *subscript_written(hr_graph *graph, hr_expr *subscript, const hr_expr *axis) {
    if (subscript->op != HR_OP_INDEX) return subscript;
    const hr_expr *extent = graph->function->indices[subscript->index].extent;
    if (hr_extent_compare(extent, axis) == HR_SAME) return subscript;
    return hr_graph_binary(graph, HR_OP_ADD, HR_I64, subscript, hr_graph_whole(graph, 0));
}

static bool declares(const hr_function *kernel, const hr_dtype_variable *variable) {
    for (int t = 0; t < hr_function_arguments(kernel); t++)
        if (kernel->tensors[t].variable == variable) return true;
    return false;
}

static hr_expr *renumbered(void *context, const hr_expr *node, hr_expr *const *args) {
    const renumbering *numbers = context;
    hr_expr *subscripts[HR_RANK_MAX];
    if (node->op != HR_OP_ELEMENT) {
        hr_expr other = *node;
        if (node->variable && !declares(numbers->kernel, node->variable)) other.variable = NULL;
        return hr_graph_with_args(numbers->graph, &other, args);
    }
    for (int a = 0; a < node->arg_count; a++)
        subscripts[a] = subscript_written(numbers->graph, args[a], numbers->tensors[node->tensor].shape[a]);
    hr_expr model = *node;
    model.args = subscripts;
    model.tensor = numbers->to[node->tensor];
    return hr_graph_intern(numbers->graph, &model);
}

static bool *tensors_read(const hr_derivation *derivation) {
    const hr_function *function = derivation->graph->function;
    bool *read = hr_algebra_take(derivation->algebra, (size_t)function->tensor_count + 1);
    for (int s = 0; s < function->statement_count; s++) {
        hr_expr_mark_read(function->statements[s].value, read);
        for (int a = 0; a < function->statements[s].subscript_count; a++)
            hr_expr_mark_read(function->statements[s].subscripts[a], read);
    }
    return read;
}

/* In order: cotangents, parameters of the source, results and locals that it gives, what is added into;
 * gradients; locals. Which of these a tensor is, -1: none. */
static int kind_of(const hr_derivation *derivation, int tensor, const bool *read) {
    const hr_function *source = derivation->source;
    if (tensor < source->tensor_count) {
        if (!read[tensor]) return -1;
        return tensor < source->parameter_count ? 1 : 2;
    }
    const hr_role role = derivation->graph->function->tensors[tensor].role;
    if (role == HR_ROLE_INOUT) return 3;
    if (role == HR_ROLE_RESULT) return 4;
    for (int t = 0; t < source->tensor_count; t++)
        if (derivation->cotangents[t] == tensor) return read[tensor] ? 0 : -1;
    return 5;
}

static void variables_of(const hr_derivation *derivation, hr_function *kernel) {
    const hr_function *source = derivation->source;
    kernel->variables =
        hr_algebra_take(derivation->algebra, sizeof *kernel->variables * HR_DTYPE_VARIABLE_MAX);
    kernel->variable_count = 0;
    for (int v = 0; v < source->variable_count; v++)
        if (declares(kernel, &source->variables[v]))
            kernel->variables[kernel->variable_count++] = source->variables[v];
}

/* What the argument is to the source. */
static hr_gradient_argument argument_of(const hr_derivation *derivation, int tensor, int kind) {
    if (kind == 1 || kind == 2) return (hr_gradient_argument){HR_FORWARD_VALUE, tensor};
    const hr_function *source = derivation->source;
    for (int t = 0; t < source->tensor_count; t++) {
        if (kind == 0 && derivation->cotangents[t] == tensor) return (hr_gradient_argument){HR_COTANGENT, t};
        if (kind != 0 && derivation->adjoints[t].gradient == tensor)
            return (hr_gradient_argument){HR_GRADIENT, t};
    }
    return (hr_gradient_argument){HR_GRADIENT, -1};
}

static void kernel_tensors(const hr_derivation *derivation, hr_function *kernel, int *to) {
    const hr_function *function = derivation->graph->function;
    const bool *read = tensors_read(derivation);
    kernel->tensors =
        hr_algebra_take(derivation->algebra, (size_t)(function->tensor_count + 1) * sizeof *kernel->tensors);
    kernel->tensor_count = kernel->parameter_count = kernel->result_count = 0;
    for (int kind = 0; kind <= 5; kind++)
        for (int t = 0; t < function->tensor_count; t++) {
            if (kind_of(derivation, t, read) != kind) continue;
            hr_tensor *tensor = &kernel->tensors[kernel->tensor_count];
            *tensor = function->tensors[t];
            if (kind < 3) tensor->role = HR_ROLE_INPUT;
            kernel->parameter_count += kind <= 3;
            kernel->result_count += kind == 4;
            if (kind < 5 && derivation->arguments)
                derivation->arguments[kernel->tensor_count] = argument_of(derivation, t, kind);
            to[t] = kernel->tensor_count++;
        }
}

static void kernel_assemble(const hr_derivation *derivation, hr_function *kernel) {
    hr_graph *graph = derivation->graph;
    const hr_function *function = graph->function;
    *kernel = *function;
    int *to = hr_algebra_take(derivation->algebra, (size_t)(function->tensor_count + 1) * sizeof *to);
    kernel_tensors(derivation, kernel, to);
    variables_of(derivation, kernel);
    renumbering numbers = {graph, kernel, function->tensors, to};
    hr_rewriting rewriting = {.graph = graph, .after = renumbered, .context = &numbers};
    kernel->statements = hr_algebra_take(derivation->algebra, (size_t)(function->statement_count + 1) *
                                                                  sizeof *kernel->statements);
    for (int s = 0; s < function->statement_count && !graph->full; s++) {
        hr_statement *statement = &kernel->statements[s];
        *statement = function->statements[s];
        statement->tensor = to[statement->tensor];
        statement->value = hr_rewriting_of(&rewriting, statement->value);
        statement->subscripts = hr_algebra_take(
            derivation->algebra, (size_t)(statement->subscript_count + 1) * sizeof *statement->subscripts);
        for (int a = 0; a < statement->subscript_count; a++)
            statement->subscripts[a] = hr_rewriting_of(&rewriting, function->statements[s].subscripts[a]);
    }
    hr_rewriting_end(&rewriting);
    kernel->expr_count = function->expr_count;
    kernel->name = derivation->options->name
                       ? derivation->options->name
                       : hr_arena_format(graph->arena, "%s_backward", derivation->source->name);
}

/* "x, weight and bias" */
static void append_names(hr_text *out, const hr_function *function,
                         bool (*has)(const hr_gradient_options *, const hr_tensor *),
                         const hr_gradient_options *options) {
    int count = 0, at = 0;
    for (int t = 0; t < function->tensor_count; t++)
        count += has(options, &function->tensors[t]);
    for (int t = 0; t < function->tensor_count; t++) {
        if (!has(options, &function->tensors[t])) continue;
        at++;
        hr_text_format(out, "%s%s", at == 1 ? "" : at == count ? " and " : ", ", function->tensors[t].name);
    }
}

static bool is_saved(const hr_gradient_options *options, const hr_tensor *tensor) {
    return tensor->role == HR_ROLE_LOCAL && options->save && list_has(options->save, tensor->name);
}

/* What it takes of the forward kernel beside results. */
static void append_saved(const hr_derivation *derivation, const hr_function *kernel, hr_text *out) {
    bool any = false;
    for (int t = 0; t < kernel->parameter_count; t++)
        for (int l = hr_function_arguments(derivation->source); l < derivation->source->tensor_count; l++)
            any = any || (is_saved(derivation->options, &derivation->source->tensors[l]) &&
                          strcmp(kernel->tensors[t].name, derivation->source->tensors[l].name) == 0);
    if (!any) return;
    hr_text_format(out, ". It takes ");
    append_names(out, derivation->source, is_saved, derivation->options);
    hr_text_format(out, " from the forward kernel that --forward prints%s",
                   derivation->chosen ? ": cheaper to read than to compute again" : "");
}

/* The kernel as text, or what it asks for. */
static hr_status write_kernel(const hr_derivation *derivation, hr_text *out) {
    hr_function kernel;
    kernel_assemble(derivation, &kernel);
    HR_TRY(derivation_status(derivation));
    if (derivation->work) return hr_work_count(&kernel, derivation->extents, derivation->work);
    hr_text_format(out, "# %s: the gradient of %s for ", kernel.name, derivation->source->name);
    append_names(out, derivation->source, is_wanted, derivation->options);
    hr_text_format(out, ", " HR_DERIVED_BY);
    append_saved(derivation, &kernel, out);
    hr_text_format(out, "\n");
    return hr_function_text(&kernel, out);
}

static hr_status gradients_of(hr_derivation *derivation, int *count, hr_gradient_statement **out) {
    const hr_function *source = derivation->source;
    HR_TRY(hr_backward(derivation));
    *out = hr_algebra_take(derivation->algebra, (size_t)(source->parameter_count + 1) * sizeof **out);
    for (int t = 0; t < source->parameter_count; t++)
        if (is_wanted(derivation->options, &source->tensors[t]))
            gradient_of(derivation, t, &(*out)[(*count)++]);
    return HR_OK;
}

static hr_status derive(hr_derivation *derivation, hr_text *out) {
    const hr_function *source = derivation->source;
    hr_gradient_statement *statements;
    int count = 0;
    tensors_prepare(derivation);
    HR_TRY(derivation_status(derivation));
    HR_TRY(hr_primal_prepare(derivation));
    HR_TRY(derivation->mode == HR_MODE_FORWARD ? hr_tangents(derivation, &count, &statements)
                                               : gradients_of(derivation, &count, &statements));
    if (!count)
        return hr_fail(
            HR_BAD_INPUT,
            "kernel %.60s has no float tensor to derive for, but const or inout ones; a scalar is named with "
            "--wrt",
            source->name);
    HR_TRY(derivation_status(derivation));
    hr_share(derivation, count, statements);
    HR_TRY(derivation_status(derivation));
    hr_round_once(derivation);
    HR_TRY(derivation_status(derivation));
    if (derivation->refusal)
        return hr_fail(HR_BAD_INPUT,
                       "%.60s of kernel %.60s is inout and on the way of the gradient: after the kernel its "
                       "old values are "
                       "gone. Make it a parameter and give the new values as a result",
                       derivation->refusal, source->name);
    return write_kernel(derivation, out);
}

static hr_status derive_in(const hr_derivation *wanted, hr_text *out) {
    const hr_function *function = wanted->source;
    const long before = hr_memory_wants();
    hr_arena *arena;
    HR_TRY(check_options(function, wanted->options));
    HR_TRY(hr_arena_create(HR_GRADIENT_ARENA, &arena));
    hr_derivation *derivation = hr_arena_alloc(arena, sizeof *derivation);
    *derivation = *wanted;
    derivation->graph = hr_graph_create(function, arena);
    derivation->graph->keeps_variables = true;
    derivation->algebra = hr_algebra_create(derivation->graph);
    const hr_status status = derive(derivation, out);
    hr_rewriting_end(&derivation->primal);
    hr_arena_destroy(arena);
    HR_TRY(hr_memory_status(before, "deriving a kernel")); /* a graph without memory counts as full */
    return status == HR_OK ? hr_text_status(out) : status;
}

hr_status hr_function_gradient(const hr_gradient_choice *choice, hr_gradient_argument *arguments,
                               hr_text *out, hr_text *notes) {
    return derive_in(&(hr_derivation){.source = choice->function,
                                      .options = &choice->options,
                                      .chosen = choice->chosen,
                                      .arguments = arguments,
                                      .notes = notes},
                     out);
}

hr_status hr_gradient_work(const hr_function *function, const hr_gradient_options *options,
                           const int64_t *extents, hr_work *out) {
    hr_text none = {0}, notes = {0};
    const hr_status status = derive_in(
        &(hr_derivation){
            .source = function, .options = options, .extents = extents, .work = out, .notes = &notes},
        &none);
    hr_text_clear(&none);
    hr_text_clear(&notes);
    return status;
}

hr_status hr_function_tangent(const hr_function *function, const hr_gradient_options *options,
                              hr_gradient_argument *arguments, hr_text *out) {
    return derive_in(
        &(hr_derivation){
            .source = function, .options = options, .mode = HR_MODE_FORWARD, .arguments = arguments},
        out);
}

/* Locals that a statement reads. */
static bool *locals_read(const hr_function *function, hr_arena *arena) {
    bool *read = hr_arena_alloc(arena, (size_t)function->tensor_count + 1);
    for (int s = 0; s < function->statement_count; s++) {
        hr_expr_mark_read(function->statements[s].value, read);
        for (int a = 0; a < function->statements[s].subscript_count; a++)
            hr_expr_mark_read(function->statements[s].subscripts[a], read);
    }
    return read;
}

/* The tensors of the forward kernel that saves: arguments, saved locals, other locals that are read. `to`: -1
 * = it has none. */
static void saving_tensors(const hr_function *function, const hr_gradient_options *options, const bool *read,
                           hr_function *saving, int *to) {
    int count = 0;
    for (int kind = 0; kind < 3; kind++)
        for (int t = 0; t < function->tensor_count; t++) {
            const bool declared = t < hr_function_arguments(function);
            const bool saved =
                !declared && options->save && list_has(options->save, function->tensors[t].name);
            if ((declared ? 0 : saved ? 1 : 2) != kind) continue;
            to[t] = -1;
            if (kind == 2 && !read[t]) continue;
            saving->tensors[count] = function->tensors[t];
            if (saved) hr_saved_as(function, t, &saving->tensors[count]);
            saving->result_count += saved;
            to[t] = count++;
        }
}

hr_status hr_function_saving(const hr_function *function, const hr_gradient_options *options, hr_text *out) {
    const long before = hr_memory_wants();
    hr_arena *arena;
    HR_TRY(check_options(function, options));
    HR_TRY(hr_arena_create(HR_GRADIENT_ARENA, &arena));
    hr_graph *graph = hr_graph_create(function, arena);
    graph->keeps_variables = true;
    hr_function saving = *function;
    if (options->name) saving.name = options->name;
    const size_t tensors = (size_t)function->tensor_count + 1;
    renumbering numbers = {graph, function, function->tensors,
                           hr_arena_alloc(arena, tensors * sizeof *numbers.to)};
    saving.tensors = hr_arena_alloc(arena, tensors * sizeof *saving.tensors);
    saving.statements =
        hr_arena_alloc(arena, ((size_t)function->statement_count + 1) * sizeof *saving.statements);
    saving_tensors(function, options, locals_read(function, arena), &saving, numbers.to);
    saving.statement_count = 0;
    hr_rewriting rewriting = {.graph = graph, .after = renumbered, .context = &numbers};
    for (int s = 0; s < function->statement_count && !graph->full; s++) {
        if (numbers.to[function->statements[s].tensor] < 0) continue;
        hr_statement *statement = &saving.statements[saving.statement_count++];
        *statement = function->statements[s];
        statement->tensor = numbers.to[statement->tensor];
        statement->value = hr_rewriting_of(&rewriting, statement->value);
        statement->subscripts =
            hr_arena_alloc(arena, ((size_t)statement->subscript_count + 1) * sizeof(hr_expr *));
        for (int a = 0; a < statement->subscript_count; a++)
            statement->subscripts[a] = hr_rewriting_of(&rewriting, function->statements[s].subscripts[a]);
    }
    hr_rewriting_end(&rewriting);
    hr_status status = hr_graph_status(graph);
    if (saving.result_count > function->result_count)
        hr_text_format(out,
                       "# %s: %s with what its backward pass takes, written by `headroom grad --forward`\n",
                       saving.name, function->name);
    if (status == HR_OK) status = hr_function_text(&saving, out);
    hr_arena_destroy(arena);
    HR_TRY(hr_memory_status(before, "deriving a kernel"));
    return status;
}
