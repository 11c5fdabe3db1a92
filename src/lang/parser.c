/* Tokens -> the tree of a file. One function a symbol of the grammar in docs/language.md.
 *
 * In: a text. Out: what could be read of it, and a message for each mistake. After a mistake reading goes on
 * at the next statement, or at the next `kernel` or `def` that begins a line.
 */
#include "lang/parser.h"
#include "base/dtype.h"
#include "lang/checker.h"
#include "lang/model_section.h"

#include <string.h>

/* ---- kernels ---- */

static void no_dtype(hr_parser *p) {
    hr_shown shown = hr_text_shown(p->token.text, p->token.length);
    hr_nearest nearest = hr_nearest_to(p->messages, p->token.symbol->name);
    const char *habit = hr_dtype_habit(nearest.name);
    for (int i = 0; i < HR_DTYPE_COUNT; i++)
        hr_nearest_consider(&nearest, hr_dtype_name((hr_dtype)i));
    if (habit) nearest.best = habit;
    hr_messages_add(p->messages, p->token.place, "'%s' is no dtype%s", shown.text,
                    nearest.best ? hr_nearest_words(&nearest).text
                                 : "; there are f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 bool");
}

/* BF16: by its capital letter a variable, by its other letters a slip. */
static bool is_dtype_in_capitals(const hr_token *token, hr_dtype *out) {
    char small[16];
    if (token->length >= sizeof small) return false;
    for (size_t i = 0; i < token->length; i++) {
        char c = token->text[i];
        small[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return hr_dtype_parse(small, token->length, out);
}

/* dtype = "f64" | "f32" | ... | variable */
static bool dtype(hr_parser *p, hr_parameter_syntax *parameter) {
    hr_dtype meant;
    if (!hr_parse_at(p, HR_TOKEN_NAME)) {
        hr_parse_unexpected(p, "a dtype", "");
        return false;
    }
    parameter->dtype_place = p->token.place;
    if (hr_dtype_parse(p->token.text, p->token.length, &parameter->dtype)) {
        hr_parse_advance(p);
        return true;
    }
    if (*p->token.text < 'A' || *p->token.text > 'Z') {
        no_dtype(p);
        return false;
    }
    if (is_dtype_in_capitals(&p->token, &meant)) {
        hr_messages_add(p->messages, p->token.place,
                        "'%.*s' would be a dtype variable by its capital letter; write %s",
                        (int)p->token.length, p->token.text, hr_dtype_name(meant));
        return false;
    }
    parameter->variable = p->token.symbol;
    hr_parse_advance(p);
    return true;
}

/* type = dtype [ "[" extent { "," extent } "]" ] */
static bool type(hr_parser *p, hr_parameter_syntax *parameter) {
    if (!dtype(p, parameter)) return false;
    if (!hr_parse_at(p, HR_TOKEN_LEFT_SQUARE)) return true;
    hr_syntax *holder = hr_parse_node(p, HR_SYNTAX_ELEMENT, p->token.place);
    if (!holder) return false;
    hr_parse_advance(p);
    if (hr_parse_at(p, HR_TOKEN_RIGHT_SQUARE)) {
        hr_messages_add(p->messages, p->token.place,
                        "no extent stands between the brackets; a scalar has no brackets");
        return false;
    }
    if (!hr_parse_items(p, holder, HR_TOKEN_RIGHT_SQUARE)) return false;
    parameter->extents = holder->items;
    parameter->rank = holder->item_count;
    return true;
}

/* param = name ":" [ "inout" | "const" ] type [ "=" number ]      result = name ":" type */
static hr_parameter_syntax *parameter(hr_parser *p, bool result) {
    hr_parameter_syntax *new = hr_parse_allocate(p, sizeof *new);
    if (!new) return NULL;
    new->place = p->token.place;
    new->result = result;
    new->symbol = hr_parse_name(p, result ? "the name of a result" : "the name of a parameter");
    if (!new->symbol || !hr_parse_expect(p, HR_TOKEN_COLON, "a parameter is written x: f32[M, N]"))
        return NULL;
    if (hr_parse_at_word(p, "inout")) {
        if (result)
            hr_messages_add(p->messages, p->token.place, "a result cannot be inout; make it a parameter");
        hr_parse_advance(p);
        new->inout = !result;
    }
    if (hr_parse_at_word(p, "const")) {
        if (result)
            hr_messages_add(p->messages, p->token.place,
                            "a result cannot be const; name it in stop(...) where it is read");
        if (new->inout)
            hr_messages_add(p->messages, p->token.place,
                            "an inout is changed and cannot be const; take one of the two words");
        hr_parse_advance(p);
        new->constant = !result && !new->inout;
    }
    if (!type(p, new)) return NULL;
    hr_place place = p->token.place;
    if (!hr_parse_accept(p, HR_TOKEN_ASSIGN)) return new;
    if (result) {
        hr_messages_add(p->messages, place, "a result has no default value");
        return NULL;
    }
    bool minus = hr_parse_accept(p, HR_TOKEN_MINUS);
    if (p->token.kind != HR_TOKEN_NUMBER && p->token.kind < HR_TOKEN_INF) {
        hr_parse_unexpected(p, "a number as default value", "");
        return NULL;
    }
    new->default_value = hr_parse_literal(p);
    if (new->default_value && minus) {
        new->default_value->number = -new->default_value->number;
        new->default_value->whole = -new->default_value->whole;
    }
    return new->default_value ? new : NULL;
}

/* `kernel x` or `def x` at the beginning of a line: where reading can always go on. */
static bool at_definition(const hr_parser *p) {
    if (!p->token.line_start || (!hr_parse_at_word(p, "kernel") && !hr_parse_at_word(p, "def"))) return false;
    hr_lexer ahead = p->lexer;
    hr_messages none = {.kept = HR_MESSAGES_SHOWN};
    ahead.messages = &none;
    return hr_lexer_next(&ahead).kind == HR_TOKEN_NAME;
}

/* After a mistake in a parameter: on to the comma or the bracket that ends it. */
static void skip_parameter(hr_parser *p) {
    int open = 0;
    p->square_or_round = 1;
    p->nesting = 0;
    while (!hr_parse_at(p, HR_TOKEN_END) && !hr_parse_at(p, HR_TOKEN_LEFT_BRACE) && !at_definition(p)) {
        if (open <= 0 && (hr_parse_at(p, HR_TOKEN_COMMA) || hr_parse_at(p, HR_TOKEN_RIGHT_ROUND))) return;
        open += hr_parse_at(p, HR_TOKEN_LEFT_ROUND) || hr_parse_at(p, HR_TOKEN_LEFT_SQUARE);
        open -= hr_parse_at(p, HR_TOKEN_RIGHT_ROUND) || hr_parse_at(p, HR_TOKEN_RIGHT_SQUARE);
        hr_parse_advance(p);
    }
}

/* "(" [ parameter { "," parameter } ] ")"; false where reading cannot go on */
static bool parameters(hr_parser *p, hr_kernel_syntax *kernel, bool result) {
    hr_parameter_syntax **end = &kernel->parameters;
    while (*end)
        end = &(*end)->next;
    if (!hr_parse_expect(p, HR_TOKEN_LEFT_ROUND, result ? "results are written -> (y: f32[M])" : ""))
        return false;
    p->square_or_round++;
    if (!hr_parse_at(p, HR_TOKEN_RIGHT_ROUND)) {
        do {
            hr_parameter_syntax *new = parameter(p, result);
            if (new) {
                *end = new;
                end = &new->next;
            } else {
                kernel->headless = true;
                skip_parameter(p);
            }
        } while (hr_parse_accept(p, HR_TOKEN_COMMA));
    }
    p->square_or_round = 0;
    return hr_parse_expect(p, HR_TOKEN_RIGHT_ROUND, "");
}

/* constraint = variable ":" dtype { "|" dtype } */
static bool constraint(hr_parser *p, hr_constraint_syntax *new) {
    new->place = p->token.place;
    new->symbol = hr_parse_name(p, "a dtype variable");
    if (!new->symbol || !hr_parse_expect(p, HR_TOKEN_COLON, "a constraint is written where T: f32 | bf16"))
        return false;
    do {
        hr_dtype dtype;
        if (!hr_parse_at(p, HR_TOKEN_NAME)) {
            hr_parse_unexpected(p, "a dtype", "");
            return false;
        }
        if (!hr_dtype_parse(p->token.text, p->token.length, &dtype)) {
            no_dtype(p);
            return false;
        }
        if (!new->allowed) new->first = dtype;
        new->allowed |= UINT32_C(1) << dtype;
        hr_parse_advance(p);
    } while (hr_parse_accept(p, HR_TOKEN_BAR));
    return true;
}

/* [ "where" constraint { "," constraint } ]; false where reading cannot go on */
static bool constraints(hr_parser *p, hr_kernel_syntax *kernel) {
    hr_constraint_syntax **end = &kernel->constraints;
    if (!hr_parse_at_word(p, "where")) return true;
    p->square_or_round++; /* the constraints may stand on several lines */
    hr_parse_advance(p);
    do {
        hr_constraint_syntax *new = hr_parse_allocate(p, sizeof *new);
        if (!new) return false;
        if (constraint(p, new)) {
            *end = new;
            end = &new->next;
        } else {
            kernel->headless = true;
            skip_parameter(p);
        }
    } while (hr_parse_accept(p, HR_TOKEN_COMMA));
    p->square_or_round = 0;
    return true;
}

/* element = name [ "[" subscript { "," subscript } "]" ] */
static hr_syntax *element(hr_parser *p) {
    hr_syntax *left = hr_parse_node(p, HR_SYNTAX_NAME, p->token.place);
    if (!left) return NULL;
    left->symbol = hr_parse_name(p, "a statement or '}'");
    if (!left->symbol || !hr_parse_at(p, HR_TOKEN_LEFT_SQUARE)) return left->symbol ? left : NULL;
    left->kind = HR_SYNTAX_ELEMENT;
    hr_parse_advance(p);
    return hr_parse_items(p, left, HR_TOKEN_RIGHT_SQUARE) ? left : NULL;
}

/* What a statement begins with in other languages. */
static const char *statement_mend(const char *word) {
    static const char *const habits[][2] = {
        {"for", "there are no loops: y[m] = x[m] + 1 is for every m, and sum[k](...) runs over k"},
        {"while", "there are no loops: y[m] = x[m] + 1 is for every m, and sum[k](...) runs over k"},
        {"if", "write y[m] = where(condition, a, b)"},
        {"return", "results are named behind ->, and each is assigned: y[m] = ..."},
        {"let", "a local is only assigned: z[m] = ..."},
        {"const", "a local is only assigned: z[m] = ..."},
        {"var", "a local is only assigned: z[m] = ..."},
        {"auto", "a local is only assigned: z[m] = ..."},
        {"float", "a local is only assigned: z[m] = ..."},
        {"import", "a text is complete by itself; functions are built in, or def of its own"},
    };
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (strcmp(habits[i][0], word) == 0) return habits[i][1];
    return "a statement is written y[m, n] = x[m, n] + 1";
}

/* call = name "(" items ")" of a kernel without results, whose name was read */
static bool bare_call(hr_parser *p, hr_statement_syntax *new, hr_syntax *call) {
    call->kind = HR_SYNTAX_CALL;
    hr_parse_advance(p);
    if (!hr_parse_items(p, call, HR_TOKEN_RIGHT_ROUND)) return false;
    new->right = call;
    if (hr_parse_at(p, HR_TOKEN_RIGHT_BRACE) || p->token.line_start) return true;
    hr_parse_unexpected(p, "the end of the line", "each statement stands on a line of its own");
    return false;
}

/* statement = element ( "=" | "+=" ) expression [ "if" expression ] | { element "," } element "=" call | call
 */
static bool statement(hr_parser *p, hr_statement_syntax *new) {
    hr_syntax *left = element(p);
    if (!left) return false;
    if (left->kind == HR_SYNTAX_NAME && hr_parse_at(p, HR_TOKEN_LEFT_ROUND) && !p->token.line_start)
        return bare_call(p, new, left);
    new->left = left;
    for (hr_syntax *last = left; hr_parse_accept(p, HR_TOKEN_COMMA); last = last->next) {
        last->next = element(p);
        if (!last->next) return false;
    }
    new->accumulate = hr_parse_at(p, HR_TOKEN_ADD_ASSIGN);
    if (!hr_parse_accept(p, HR_TOKEN_ADD_ASSIGN) && !hr_parse_accept(p, HR_TOKEN_ASSIGN)) {
        hr_parse_unexpected(p, "'=' or '+='", statement_mend(left->symbol->name));
        return false;
    }
    new->right = hr_parse_expression(p, HR_LEVEL_OR);
    if (!new->right) return false;
    if (!p->token.line_start && hr_parse_at_word(p, "if")) {
        hr_parse_advance(p);
        new->condition = hr_parse_expression(p, HR_LEVEL_OR);
        if (!new->condition) return false;
    }
    if (hr_parse_at(p, HR_TOKEN_RIGHT_BRACE) || p->token.line_start) return true;
    hr_parse_unexpected(p, "an operator or the end of the line",
                        "each statement stands on a line of its own");
    return false;
}

/* A line that begins with a name and has an assignment in it. */
static bool at_statement(const hr_parser *p) {
    if (!p->token.line_start || !hr_parse_at(p, HR_TOKEN_NAME)) return false;
    const char *end = memchr(p->token.text, '\n', (size_t)(p->lexer.end - p->token.text));
    if (!end) end = p->lexer.end;
    for (const char *c = p->token.text; c < end && *c != '#'; c++)
        if (*c == '=' && c[1] != '=' && !strchr("=<>!", c[-1])) return true;
    return false;
}

/* After a mistake: on to the next statement, the closing brace or the next definition. */
static void skip_statement(hr_parser *p) {
    p->square_or_round = p->nesting = 0;
    while (!hr_parse_at(p, HR_TOKEN_END) && !hr_parse_at(p, HR_TOKEN_RIGHT_BRACE) && !at_statement(p) &&
           !at_definition(p))
        hr_parse_advance(p);
}

/* "{" { statement } "}" */
static void statements(hr_parser *p, hr_kernel_syntax *kernel) {
    hr_statement_syntax **end = &kernel->statements;
    while (!hr_parse_at(p, HR_TOKEN_RIGHT_BRACE)) {
        if (hr_parse_at(p, HR_TOKEN_END) || at_definition(p)) {
            hr_parse_unexpected(p, "'}'", "the kernel before it is not closed");
            return;
        }
        hr_statement_syntax *new = hr_parse_allocate(p, sizeof *new);
        if (!new) return;
        *end = new;
        end = &new->next;
        if (statement(p, new)) continue;
        new->right = NULL;
        kernel->unreadable = true;
        if (hr_parse_at(p, HR_TOKEN_NAME) && !p->token.line_start) hr_parse_advance(p);
        skip_statement(p);
    }
    hr_parse_advance(p);
}

/* kernel = "kernel" name parameters [ "->" results ] [ "where" constraints ] "{" { statement } "}" */
static bool kernel(hr_parser *p, hr_kernel_syntax *new) {
    hr_parse_advance(p);
    new->place = p->token.place;
    new->symbol = hr_parse_name(p, "the name of a kernel");
    if (!new->symbol || !parameters(p, new, false)) return false;
    if (hr_parse_accept(p, HR_TOKEN_ARROW) && !parameters(p, new, true)) return false;
    if (!constraints(p, new) || !hr_parse_expect(p, HR_TOKEN_LEFT_BRACE, "")) return false;
    statements(p, new);
    return true;
}

/* def = "def" name "(" [ name { "," name } ] ")" "=" expression */
static bool def(hr_parser *p, hr_def_syntax *new) {
    hr_parse_advance(p);
    new->place = p->token.place;
    new->symbol = hr_parse_name(p, "the name of a function");
    if (!new->symbol || !hr_parse_expect(p, HR_TOKEN_LEFT_ROUND, "")) return false;
    hr_syntax **end = &new->parameters;
    if (!hr_parse_at(p, HR_TOKEN_RIGHT_ROUND)) {
        do {
            hr_syntax *parameter = hr_parse_node(p, HR_SYNTAX_NAME, p->token.place);
            if (!parameter || !(parameter->symbol = hr_parse_name(p, "the name of a parameter")))
                return false;
            *end = parameter;
            end = &parameter->next;
            new->parameter_count++;
        } while (hr_parse_accept(p, HR_TOKEN_COMMA));
    }
    if (!hr_parse_expect(p, HR_TOKEN_RIGHT_ROUND,
                         hr_parse_at(p, HR_TOKEN_COLON)
                             ? "what a def takes has no types; what has them is a kernel: kernel k(x: f32[N])"
                             : "") ||
        !hr_parse_expect(p, HR_TOKEN_ASSIGN,
                         hr_parse_at(p, HR_TOKEN_COLON) ? "a def is one expression: def f(x) = x + 1" : ""))
        return false;
    new->body = hr_parse_expression(p, HR_LEVEL_OR);
    if (!new->body) return false;
    if (p->token.line_start) return true;
    hr_parse_unexpected(p, "an operator or the end of the line", "");
    return false;
}

static void skip_definition(hr_parser *p) {
    p->square_or_round = p->nesting = 0;
    while (!hr_parse_at(p, HR_TOKEN_END) && !at_definition(p))
        hr_parse_advance(p);
}

/* use = "use" string */
static bool use(hr_parser *p, hr_use_syntax *new) {
    hr_parse_advance(p);
    if (!hr_parse_at(p, HR_TOKEN_STRING)) {
        hr_parse_unexpected(p, "the name of a file between quotes", "");
        return false;
    }
    new->place = p->token.place;
    new->name = p->token.text + 1;
    new->length = p->token.length - 2;
    hr_parse_advance(p);
    return true;
}

/* model = "model" name "{" ... "}": calls of kernels, which src/model reads. False where it does not end. */
static bool model_skip(hr_parser *p) {
    hr_model_section section;
    if (!hr_model_section_find(p->token.text, (size_t)(p->lexer.end - p->token.text), &section)) return false;
    hr_lexer_skip(&p->lexer, section.behind + 1);
    return true;
}

/* ---- the file: each adds to the end of its list; false without memory ---- */

static bool kernel_add(hr_parser *p, const hr_file_syntax *file, hr_kernel_syntax ***end) {
    hr_kernel_syntax *new = hr_parse_allocate(p, sizeof *new);
    if (!new) return false;
    if (!kernel(p, new)) {
        new->headless = true;
        skip_definition(p);
    }
    if (!new->symbol) return true;
    new->used = file->used;
    **end = new;
    *end = &new->next;
    return true;
}

static bool def_add(hr_parser *p, const hr_file_syntax *file, hr_def_syntax ***end) {
    hr_def_syntax *new = hr_parse_allocate(p, sizeof *new);
    if (!new) return false;
    if (!def(p, new)) skip_definition(p);
    if (!new->symbol) return true;
    new->standard = file->standard;
    **end = new;
    *end = &new->next;
    return true;
}

static bool use_add(hr_parser *p, hr_use_syntax ***end) {
    hr_use_syntax *new = hr_parse_allocate(p, sizeof *new);
    if (!new) return false;
    if (!use(p, new)) {
        skip_definition(p);
        return true;
    }
    **end = new;
    *end = &new->next;
    return true;
}

/* file = { use | def | kernel | model } */
void hr_syntax_parse(const char *text, size_t length, hr_arena *arena, hr_symbols *symbols,
                     hr_messages *messages, hr_file_syntax *out) {
    hr_parser p = {
        .lexer = hr_lexer_create(text, length, symbols, messages), .arena = arena, .messages = messages};
    hr_use_syntax **uses = &out->uses;
    hr_def_syntax **defs = &out->defs;
    hr_kernel_syntax **kernels = &out->kernels;
    bool memory = true;
    while (*uses)
        uses = &(*uses)->next;
    while (*defs)
        defs = &(*defs)->next;
    while (*kernels)
        kernels = &(*kernels)->next;
    if (out->first_line) p.lexer.line = out->first_line;
    hr_parse_advance(&p);
    while (memory && !hr_parse_at(&p, HR_TOKEN_END) && !p.full) {
        if (hr_parse_at_word(&p, "kernel")) {
            memory = kernel_add(&p, out, &kernels);
        } else if (hr_parse_at_word(&p, "def")) {
            memory = def_add(&p, out, &defs);
        } else if (hr_parse_at_word(&p, "use")) {
            memory = use_add(&p, &uses);
        } else if (hr_parse_at_word(&p, "model") && model_skip(&p)) {
            hr_parse_advance(&p);
        } else {
            hr_parse_unexpected(&p, "'kernel' or 'def'", "");
            if (!p.token.line_start) hr_parse_advance(&p);
            skip_definition(&p);
        }
    }
}
