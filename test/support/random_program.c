/* In: a seed. Out: a kernel's text and its extents. An expression is printed as it is chosen, from the top
 * down; a tensor is read with the indices in scope, and where one is missing a reduction over it is put
 * around. */
#include "support/random_program.h"
#include "base/dtype.h"

#include <ctype.h>
#include <string.h>

enum { TENSORS_MAX = 24, LETTERS = 3 };

typedef enum kind { KIND_FLOAT, KIND_WHOLE } kind;

/* Axes are letters: "mn" is [M, N]. */
typedef struct tensor {
    char name[8];
    char axes[LETTERS + 1];
    kind kind;
    bool exact; /* a parameter: no rounding error in its elements */
} tensor;

typedef struct generator {
    uint64_t state;
    hr_text *out; /* the body */
    hr_text parameters, results;
    tensor tensors[TENSORS_MAX];
    int tensor_count;
    int parameter_count; /* the first tensors */
    int locals, result_count;
    char pending_inout[8], pending_axes[LETTERS + 1]; /* not assigned yet */
    bool scalar;
} generator;

static uint32_t draw(generator *g, uint32_t below) {
    g->state += 0x9E3779B97F4A7C15ull; /* splitmix64 */
    uint64_t z = g->state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return (uint32_t)((z ^ z >> 31) % below);
}

static bool chance(generator *g, uint32_t percent) {
    return draw(g, 100) < percent;
}

static const char *pick(generator *g, const char *const *words, uint32_t count) {
    return words[draw(g, count)];
}
#define PICK(g, ...)                                                                                         \
    pick(g, (const char *const[]){__VA_ARGS__},                                                              \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void print(generator *g, const char *words) {
    hr_text_append(g->out, words, strlen(words));
}

static char extent_of(char letter) {
    return (char)(letter - 'a' + 'A');
}

/* A scope is a string of the letters that are bound, in any order. */
static bool in_scope(const char *scope, char letter) {
    return strchr(scope, letter) != NULL;
}

static void with_letter(char *wider, const char *scope, char letter) {
    size_t length = strlen(scope);
    memcpy(wider, scope, length);
    wider[length] = letter;
    wider[length + 1] = 0;
}

/* ---- elements ---- */

static void print_element(generator *g, const tensor *t, const char *reversed) {
    print(g, t->name);
    for (const char *axis = t->axes; *axis; ++axis) {
        hr_text_format(g->out, "%s", axis == t->axes ? "[" : ", ");
        if (reversed && *reversed == *axis)
            hr_text_format(g->out, "%c - 1 - %c", extent_of(*axis), *axis);
        else
            hr_text_format(g->out, "%c", *axis);
    }
    if (*t->axes) print(g, "]");
}

/* where(n > 0, x[m, n - 1], other) */
static void print_shifted(generator *g, const tensor *t) {
    char letter = t->axes[draw(g, (uint32_t)strlen(t->axes))];
    bool back = chance(g, 50);
    if (back)
        hr_text_format(g->out, "where(%c > 0, ", letter);
    else
        hr_text_format(g->out, "where(%c + 1 < %c, ", letter, extent_of(letter));
    hr_text_format(g->out, "%s", t->name);
    for (const char *axis = t->axes; *axis; ++axis)
        hr_text_format(g->out, "%s%c%s", axis == t->axes ? "[" : ", ", *axis,
                       *axis != letter ? ""
                       : back          ? " - 1"
                                       : " + 1");
    hr_text_format(g->out, "], %s)", t->kind == KIND_FLOAT ? "0.5" : "1");
}

static const tensor *choose(generator *g, kind kind, bool exact, const char *scope, bool covered) {
    int first = (int)draw(g, (uint32_t)g->tensor_count);
    for (int i = 0; i < g->tensor_count; ++i) {
        const tensor *t = &g->tensors[(first + i) % g->tensor_count];
        bool fits = t->kind == kind && (!exact || t->exact);
        for (const char *axis = t->axes; covered && *axis; ++axis)
            fits &= in_scope(scope, *axis);
        if (fits) return t;
    }
    return NULL;
}

/* ---- expressions ---- */

static void print_float(generator *g, const char *scope, int depth);
static void print_whole(generator *g, const char *scope, int depth);

/* An element whose axes are all in scope, or a number. */
static void print_exact(generator *g, const char *scope) {
    const tensor *t = choose(g, KIND_FLOAT, true, scope, true);
    if (t)
        print_element(g, t, NULL);
    else
        hr_text_format(g->out, "%d.25", (int)draw(g, 3));
}

static void print_condition(generator *g, const char *scope, int depth) {
    if (depth > 0 && chance(g, 20)) {
        print(g, chance(g, 50) ? "(" : "not (");
        print_condition(g, scope, depth - 1);
        print(g, PICK(g, " and ", " or "));
        print_condition(g, scope, depth - 1);
        print(g, ")");
    } else if (chance(g, 50)) {
        print_exact(g, scope);
        hr_text_format(g->out, " %s 0.25", PICK(g, "<", "<=", ">", ">=", "==", "!="));
    } else {
        print_whole(g, scope, 1);
        hr_text_format(g->out, " %s %u", PICK(g, "<", "<=", ">", ">=", "==", "!="), draw(g, 4));
    }
}

static void print_whole_leaf(generator *g, const char *scope) {
    const tensor *t = choose(g, KIND_WHOLE, true, scope, true);
    if (*scope && chance(g, 50))
        hr_text_format(g->out, "%c", scope[draw(g, (uint32_t)strlen(scope))]);
    else if (t && chance(g, 70))
        print_element(g, t, NULL);
    else
        hr_text_format(g->out, "%u", draw(g, 6));
}

static void print_whole(generator *g, const char *scope, int depth) {
    if (depth <= 0) {
        print_whole_leaf(g, scope);
        return;
    }
    switch (draw(g, 6)) {
    case 0:
    case 1:
        print(g, "(");
        print_whole(g, scope, depth - 1);
        print(g, PICK(g, " + ", " - ", " * "));
        print_whole(g, scope, depth - 1);
        print(g, ")");
        break;
    case 2:
        print(g, "(");
        print_whole(g, scope, depth - 1);
        hr_text_format(g->out, " %s %u)", PICK(g, "//", "%"), 2 + draw(g, 3));
        break;
    case 3:
        hr_text_format(g->out, "%s(", PICK(g, "min", "max"));
        print_whole(g, scope, depth - 1);
        print(g, ", ");
        print_whole(g, scope, depth - 1);
        print(g, ")");
        break;
    case 4:
        print(g, "where(");
        print_condition(g, scope, 0);
        print(g, ", ");
        print_whole(g, scope, depth - 1);
        print(g, ", ");
        print_whole(g, scope, depth - 1);
        print(g, ")");
        break;
    default:
        print_whole_leaf(g, scope);
    }
}

/* Puts a reduction over a letter that the scope lacks around an expression. */
static void print_reduction(generator *g, const char *scope, int depth) {
    char missing[LETTERS + 1] = "", wider[2 * LETTERS + 1];
    for (const char *letter = "mnk"; *letter; ++letter)
        if (!in_scope(scope, *letter)) with_letter(missing, missing, *letter);
    if (!*missing) {
        print_float(g, scope, depth - 1);
        return;
    }
    char letter = missing[draw(g, (uint32_t)strlen(missing))];
    with_letter(wider, scope, letter);
    if (chance(g, 15)) { /* of exact values only: near ties would go either way */
        hr_text_format(g->out, "f32(%s[%c < %c](", PICK(g, "argmax", "argmin"), letter, extent_of(letter));
        print_exact(g, wider);
        print(g, "))");
        return;
    }
    if (chance(g, 10)) { /* factors near 1: products of many are in range */
        hr_text_format(g->out, "prod[%c < %c](1 + tanh(", letter, extent_of(letter));
        print_float(g, wider, depth - 1);
        print(g, ") / 64)");
        return;
    }
    const char *reducer = PICK(g, "sum", "sum", "mean", "max", "min", "logsumexp");
    bool two = strlen(missing) > 1 && chance(g, 20);
    char other = missing[0] == letter ? missing[1] : missing[0];
    /* the mean or maximum of nothing would reach everything else: 1 is added where the extent may be 0 */
    bool plain = !strcmp(reducer, "sum");
    if (!plain)
        hr_text_format(g->out, "where(%c > 0%s%c%s, ", extent_of(letter), two ? " and " : " and ",
                       extent_of(two ? other : letter), " > 0");
    if (two) {
        hr_text_format(g->out, "%s[%c < %c, %c < %c](", reducer, letter, extent_of(letter), other,
                       extent_of(other));
        with_letter(wider, wider, other);
    } else {
        hr_text_format(g->out, "%s[%c < %c](", reducer, letter, extent_of(letter));
    }
    print_float(g, wider, depth - 1);
    print(g, plain ? ")" : "), 0.125)");
}

static void print_read(generator *g, const char *scope, int depth) {
    const tensor *t = choose(g, KIND_FLOAT, false, scope, true);
    const tensor *at = choose(g, KIND_WHOLE, true, scope, true);
    if (!t)
        print_reduction(g, scope, depth);
    else if (*t->axes && chance(g, 15))
        print_shifted(g, t);
    else if (*t->axes && chance(g, 10))
        print_element(g, t, t->axes);
    else if (at && at->name[0] == 'a' && chance(g, 25)) {
        print(g, "table[");
        print_element(g, at, NULL);
        print(g, "]");
    } else
        print_element(g, t, NULL);
}

static void print_function(generator *g, const char *scope, int depth) {
    static const char *const forms[][2] = {
        {"tanh(", ")"},
        {"sigmoid(", ")"},
        {"exp(tanh(", "))"},
        {"exp2(tanh(", "))"},
        {"log(1 + abs(", "))"},
        {"log2(2 + abs(", "))"},
        {"sqrt(abs(", ") + 1)"},
        {"rsqrt(1 + (", ")^2)"},
        {"sin(tanh(", "))"},
        {"cos(tanh(", "))"},
        {"erf(", ")"},
        {"relu(", ")"},
        {"gelu(", ")"},
        {"gelu_tanh(", ")"},
        {"silu(", ")"},
        {"abs(", ")"},
        {"clamp(", ", -1.5, 1.5)"},
        {"-(", ")"},
        {"tanh(", ")^3"},
        {"bf16(", ")"},
        {"f16(tanh(", "))"},
        {"f32(", ")"},
    };
    const char *const *form = forms[draw(g, sizeof forms / sizeof *forms)];
    print(g, form[0]);
    print_float(g, scope, depth - 1);
    print(g, form[1]);
}

static void print_binary(generator *g, const char *scope, int depth) {
    switch (draw(g, 6)) {
    case 0:
        print(g, "(");
        print_float(g, scope, depth - 1);
        print(g, " / (1.5 + abs(");
        print_float(g, scope, depth - 1);
        print(g, ")))");
        return;
    case 1:
        hr_text_format(g->out, "%s(", PICK(g, "min", "max"));
        print_float(g, scope, depth - 1);
        print(g, ", ");
        print_float(g, scope, depth - 1);
        print(g, ")");
        return;
    default:
        print(g, "(");
        print_float(g, scope, depth - 1);
        print(g, PICK(g, " + ", " - ", " * "));
        print_float(g, scope, depth - 1);
        print(g, ")");
    }
}

static void print_float(generator *g, const char *scope, int depth) {
    if (depth <= 0) {
        const tensor *t = choose(g, KIND_FLOAT, false, scope, true);
        if (t && chance(g, 85))
            print_element(g, t, NULL);
        else
            print(g, PICK(g, "0.5", "1", "-2", "1e-3", "scale", "scale"));
        return;
    }
    uint32_t way = draw(g, 100);
    if (way < 22)
        print_reduction(g, scope, depth);
    else if (way < 42)
        print_read(g, scope, depth);
    else if (way < 60)
        print_function(g, scope, depth);
    else if (way < 85)
        print_binary(g, scope, depth);
    else if (way < 91) {
        print(g, "where(");
        print_condition(g, scope, 1);
        print(g, ", ");
        print_float(g, scope, depth - 1);
        print(g, ", ");
        print_float(g, scope, depth - 1);
        print(g, ")");
    } else if (way < 94) {
        print(g, PICK(g, "f32(", "floor(0.5 * ", "0.25 * ("));
        print_whole(g, scope, 2);
        print(g, ")");
    } else {
        print(g, "random(3, ");
        print_whole(g, scope, 1);
        print(g, ")");
    }
}

/* ---- declarations ---- */

static tensor *add_tensor(generator *g, const char *prefix, int number, const char *axes, kind kind,
                          bool exact) {
    tensor *t = &g->tensors[g->tensor_count++];
    *t = (tensor){.kind = kind, .exact = exact};
    t->name[0] = prefix[0];
    t->name[1] = prefix[1] ? prefix[1] : (char)('0' + number % 10);
    if (prefix[1]) t->name[2] = (char)('0' + number % 10);
    strcpy(t->axes, axes);
    return t;
}

static void declare(hr_text *list, const char *name, const char *inout, const char *dtype, const char *axes) {
    hr_text_format(list, "%s%s: %s%s", list->length ? ", " : "", name, inout, dtype);
    for (const char *axis = axes; *axis; ++axis)
        hr_text_format(list, "%s%c", axis == axes ? "[" : ", ", extent_of(*axis));
    if (*axes) hr_text_append(list, "]", 1);
}

static const char *float_dtype(generator *g) {
    return PICK(g, "f32", "f32", "bf16", "bf16", "f16", "f8e4m3", "f8e5m2", "f64");
}

static void make_parameters(generator *g) {
    int floats = 2 + (int)draw(g, 3);
    for (int i = 0; i < floats; ++i) {
        const char *axes = PICK(g, "mn", "n", "m", "mk", "kn", "mnk", "k");
        if (i == 0) axes = PICK(g, "mn", "mn", "nm", "mnk"); /* each extent stands in a shape */
        if (i == 1) axes = PICK(g, "mk", "kn", "nk", "k");
        const tensor *t = add_tensor(g, "x", i, axes, KIND_FLOAT, true);
        declare(&g->parameters, t->name, "", float_dtype(g), axes);
    }
    const tensor *q = add_tensor(g, "q", 0, PICK(g, "mn", "n", "m"), KIND_WHOLE, true);
    declare(&g->parameters, q->name, "", PICK(g, "i8", "u8", "i16", "i32", "i64"), q->axes);
    const tensor *at = add_tensor(g, "at", 0, PICK(g, "m", "n", "mn"), KIND_WHOLE, true);
    declare(&g->parameters, at->name, "", "i32", at->axes);
    hr_text_format(&g->parameters, ", table: %s[V], scale: f32 = 0.75", PICK(g, "f32", "bf16"));
    if (chance(g, 40)) {
        const tensor *a = add_tensor(g, "a", 0, PICK(g, "mn", "n"), KIND_FLOAT, true);
        declare(&g->parameters, a->name, "inout ", PICK(g, "f32", "bf16"), a->axes);
        strcpy(g->pending_inout, a->name);
        strcpy(g->pending_axes, a->axes);
    }
    g->parameter_count = g->tensor_count;
}

/* ---- statements ---- */

static void print_left(generator *g, const char *name, const char *axes, bool ranges) {
    hr_text_format(g->out, "    %s", name);
    for (const char *axis = axes; *axis; ++axis) {
        hr_text_format(g->out, "%s%c", axis == axes ? "[" : ", ", *axis);
        if (ranges) hr_text_format(g->out, " < %c", extent_of(*axis));
    }
    hr_text_format(g->out, "%s = ", *axes ? "]" : "");
}

static void print_value(generator *g, const char *axes) {
    if (*axes && chance(g, 20)) {
        hr_text_format(g->out, "%s[%c](", PICK(g, "softmax", "cumsum"),
                       axes[draw(g, (uint32_t)strlen(axes))]);
        print_float(g, axes, 2);
        print(g, ")");
    } else if (strchr(axes, 'm') && strchr(axes, 'n') && !strchr(axes, 'k') && chance(g, 20)) {
        print(g, "sum[k < K](");
        print_float(g, "mk", 0);
        print(g, " * ");
        print_float(g, "nk", 0);
        print(g, ")");
    } else {
        print_float(g, axes, 3);
    }
}

/* t[m, n] = a * t[m, n - 1] + b, or from the end. */
static void print_recurrence(generator *g, const char *name, const char *axes) {
    const char along = axes[draw(g, (uint32_t)strlen(axes))];
    const bool back = chance(g, 50);
    print(g, "tanh(");
    print_float(g, axes, 1);
    hr_text_format(g->out, ") / 2 * %s", name);
    for (const char *axis = axes; *axis; ++axis)
        hr_text_format(g->out, "%s%c%s", axis == axes ? "[" : ", ", *axis,
                       *axis != along ? ""
                       : back         ? " + 1"
                                      : " - 1");
    print(g, "] + ");
    print_float(g, axes, 2);
}

static void make_local(generator *g) {
    const char *axes = PICK(g, "mn", "mn", "m", "n", "mk", "nm", "");
    char name[8] = {'t', (char)('0' + g->locals), 0};
    print_left(g, name, axes, true);
    if (*axes && chance(g, 10))
        print_recurrence(g, name, axes);
    else
        print_value(g, axes);
    print(g, "\n");
    add_tensor(g, "t", g->locals++, axes, KIND_FLOAT, false);
}

static void make_result(generator *g) {
    const char *axes = PICK(g, "mn", "mn", "mn", "m", "n", "nm", "");
    char name[8] = {'r', (char)('0' + g->result_count), 0};
    print_left(g, name, axes, false);
    if (chance(g, 12)) {
        print_whole(g, axes, 3);
        declare(&g->results, name, "", PICK(g, "i64", "i32", "i16", "i8", "u8"), axes);
        ++g->result_count;
    } else if (chance(g, 6)) {
        print_condition(g, axes, 1);
        declare(&g->results, name, "", "bool", axes);
        ++g->result_count;
    } else {
        print_value(g, axes);
        declare(&g->results, name, "", float_dtype(g), axes);
        add_tensor(g, "r", g->result_count++, axes, KIND_FLOAT, false);
    }
    print(g, "\n");
}

/* hits[at0[m]] += ..., or over two indices into one place. */
static void make_scatter(generator *g) {
    const tensor *at = NULL;
    for (int i = 0; i < g->parameter_count; ++i)
        if (!strcmp(g->tensors[i].name, "at0")) at = &g->tensors[i];
    char name[8] = {'r', (char)('0' + g->result_count), 0};
    bool tail = !strchr(at->axes, 'n') && chance(g, 50);
    char scope[LETTERS + 1];
    strcpy(scope, at->axes);
    if (tail) with_letter(scope, scope, 'n');
    hr_text_format(g->out, "    %s[", name);
    print_element(g, at, NULL);
    print(g, tail ? ", n] += " : "] += ");
    print_float(g, scope, 2);
    print(g, "\n");
    hr_text_format(&g->results, "%s%s: f32[V%s]", g->results.length ? ", " : "", name, tail ? ", N" : "");
    ++g->result_count;
}

/* Afterwards the element is read rounded, so it is exact no more. */
static void make_inout(generator *g) {
    tensor *a = NULL;
    for (int i = 0; i < g->parameter_count; ++i)
        if (!strcmp(g->tensors[i].name, g->pending_inout)) a = &g->tensors[i];
    tensor kept = *a;
    hr_text_format(g->out, "    ");
    print_element(g, a, NULL);
    print(g, chance(g, 30) ? " += " : " = ");
    print(g, "0.5 * ");
    print_element(g, a, NULL);
    print(g, " + ");
    a->kind = KIND_WHOLE, a->exact = false; /* not chosen while it is being assigned */
    print_float(g, kept.axes, 2);
    *a = kept;
    a->exact = false;
    print(g, "\n");
    g->pending_inout[0] = 0;
}

static void make_extents(generator *g, hr_random_extent extents[HR_RANDOM_EXTENTS]) {
    static const int64_t sizes[] = {0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31, 33, 40, 63, 65, 70};
    static const char *const names[] = {"M", "N", "K", "V"};
    for (int i = 0; i < HR_RANDOM_EXTENTS; ++i) {
        int64_t size = sizes[draw(g, sizeof sizes / sizeof *sizes)];
        extents[i] = (hr_random_extent){names[i], i == 3 && size == 0 ? 6 : size};
    }
}

hr_status hr_random_program(uint64_t seed, hr_text *text, hr_random_extent extents[HR_RANDOM_EXTENTS]) {
    hr_text body = {0};
    generator g = {.state = seed * 0xD1342543DE82EF95ull + 1, .out = &body};
    make_extents(&g, extents);
    make_parameters(&g);
    int statements = 1 + (int)draw(&g, 5);
    for (int i = 0; i < statements; ++i) {
        if (chance(&g, 45)) make_local(&g);
        if (*g.pending_inout && chance(&g, 40)) make_inout(&g);
        if (chance(&g, 15)) make_scatter(&g);
        if (chance(&g, 50)) make_result(&g);
    }
    if (*g.pending_inout) make_inout(&g);
    make_result(&g);
    hr_text_format(text, "kernel random_%llu(%s)\n    -> (%s)\n{\n%s}\n", (unsigned long long)seed,
                   hr_text_data(&g.parameters), hr_text_data(&g.results), hr_text_data(&body));
    hr_status status = hr_text_status(&body);
    if (status == HR_OK) status = hr_text_status(&g.parameters);
    if (status == HR_OK) status = hr_text_status(&g.results);
    if (status == HR_OK) status = hr_text_status(text);
    hr_text_clear(&body);
    hr_text_clear(&g.parameters);
    hr_text_clear(&g.results);
    return status;
}

/* ---- the same with dtype variables ---- */

/* The variable for a dtype, a new one where a declaration names it first; NULL = there is none. */
static const char *variable_for(hr_random_variables *variables, hr_dtype dtype, bool declares) {
    int i = 0;
    while (i < variables->count && variables->dtypes[i] != dtype)
        i++;
    if (i == variables->count && !declares) return NULL;
    if (i == variables->count) {
        snprintf(variables->names[i], sizeof *variables->names, "T_%s", hr_dtype_name(dtype));
        variables->dtypes[i] = dtype;
        variables->count++;
    }
    return variables->names[i];
}

hr_status hr_random_with_variables(const hr_text *written, hr_text *out, hr_random_variables *variables) {
    const char *body = strchr(written->data, '{');
    *variables = (hr_random_variables){0};
    for (const char *at = written->data; *at;) {
        size_t length = 0;
        hr_dtype dtype;
        while (isalnum((unsigned char)at[length]) || at[length] == '_')
            length++;
        bool declares = at<body, converts = at> body && at[length] == '(';
        const char *variable =
            length && (declares || converts) && hr_dtype_parse(at, length, &dtype) && hr_dtype_is_float(dtype)
                ? variable_for(variables, dtype, declares)
                : NULL;
        if (!length) length = 1;
        if (variable)
            hr_text_format(out, "%s", variable);
        else
            hr_text_append(out, at, length);
        at += length;
    }
    return hr_text_status(out);
}
