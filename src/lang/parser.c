/* Tokens -> tree. One function a symbol of the grammar in docs/language.md.
 *
 * In: a text. Out: what could be read of it, and a message for each mistake. After a mistake reading goes on
 * at the next statement, or at the next `kernel` or `def` that begins a line.
 */
#include "base/dtype.h"
#include "lang/syntax.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NESTING_MAX                                                                                          \
    1000 /* levels of brackets and of operators in one expression: the stack's, not the reader's */

typedef struct parser {
    hr_lexer lexer;
    hr_token token; /* the one that is looked at */
    hr_place after; /* where the token before it ended; line 0 = there is none */
    hr_arena *arena;
    hr_messages *messages;
    int nesting;         /* of calls to expression */
    int square_or_round; /* open brackets: inside them a line end means nothing */
    bool full;           /* the arena's end was reported */
} parser;

static hr_syntax *expression(parser *p, int level);

/* ---- help ---- */

static void advance(parser *p) {
    p->after = p->token.place;
    p->after.column += (int)p->token.length;
    p->token = hr_lexer_next(&p->lexer);
}

/* A token of kind BAD has its message already. What a line lacks is shown at its end. */
static void unexpected(parser *p, const char *wanted, const char *mend) {
    if (p->token.kind == HR_TOKEN_BAD) return;
    hr_shown shown = hr_text_shown(p->token.text, p->token.length);
    char found[sizeof shown.text + 32];
    bool line_lacks = p->token.line_start && p->after.line > 0;
    if (p->token.kind == HR_TOKEN_END)
        snprintf(found, sizeof found, "the end of the file");
    else if (line_lacks)
        snprintf(found, sizeof found, "'%s' on line %d", shown.text, p->token.place.line);
    else
        snprintf(found, sizeof found, "'%s'", shown.text);
    hr_messages_add(p->messages, line_lacks ? p->after : p->token.place, "expected %s, found %s%s%s", wanted,
                    found, *mend ? "; " : "", mend);
}

static bool at(const parser *p, hr_token_kind kind) {
    return p->token.kind == kind;
}

static bool accept(parser *p, hr_token_kind kind) {
    if (!at(p, kind)) return false;
    advance(p);
    return true;
}

static bool expect(parser *p, hr_token_kind kind, const char *mend) {
    if (accept(p, kind)) return true;
    unexpected(p, hr_token_kind_text(kind), mend);
    return false;
}

static bool at_word(const parser *p, const char *word) {
    return at(p, HR_TOKEN_NAME) && strcmp(p->token.symbol->name, word) == 0;
}

static void *allocate(parser *p, size_t size) {
    if (hr_arena_room(p->arena) >= size + 64) return hr_arena_alloc(p->arena, size);
    if (!p->full) hr_messages_add(p->messages, p->token.place, "the text is too large to be kernels");
    p->full = true;
    return NULL;
}

static hr_syntax *node(parser *p, hr_syntax_kind kind, hr_place place) {
    hr_syntax *new = allocate(p, sizeof *new);
    if (!new) return NULL;
    new->kind = kind;
    new->place = place;
    new->depth = 1;
    return new;
}

static hr_symbol *name(parser *p, const char *wanted) {
    if (!at(p, HR_TOKEN_NAME)) {
        unexpected(p, wanted, p->token.kind >= HR_TOKEN_AND ? "this word cannot be a name" : "");
        return NULL;
    }
    hr_symbol *symbol = p->token.symbol;
    advance(p);
    return symbol;
}

static bool deepen(parser *p, hr_syntax *parent, const hr_syntax *child) {
    if (child->depth >= parent->depth) parent->depth = child->depth + 1;
    if (parent->depth <= NESTING_MAX) return true;
    hr_messages_add(p->messages, parent->place,
                    "this expression is more than %d levels deep; give a part of it a name of its own",
                    NESTING_MAX);
    return false;
}

/* ---- expressions ---- */

typedef struct operator_row {
    hr_token_kind token;
    hr_op op;
    int level;
} operator_row;

enum { LEVEL_OR = 1, LEVEL_AND, LEVEL_NOT, LEVEL_COMPARE, LEVEL_SUM, LEVEL_PRODUCT };

static const operator_row *binary_operator(hr_token_kind kind) {
    static const operator_row rows[] = {
        {HR_TOKEN_OR, HR_OP_OR, LEVEL_OR},
        {HR_TOKEN_AND, HR_OP_AND, LEVEL_AND},
        {HR_TOKEN_LESS, HR_OP_LT, LEVEL_COMPARE},
        {HR_TOKEN_LESS_EQUAL, HR_OP_LE, LEVEL_COMPARE},
        {HR_TOKEN_GREATER, HR_OP_GT, LEVEL_COMPARE},
        {HR_TOKEN_GREATER_EQUAL, HR_OP_GE, LEVEL_COMPARE},
        {HR_TOKEN_EQUAL, HR_OP_EQ, LEVEL_COMPARE},
        {HR_TOKEN_NOT_EQUAL, HR_OP_NE, LEVEL_COMPARE},
        {HR_TOKEN_PLUS, HR_OP_ADD, LEVEL_SUM},
        {HR_TOKEN_MINUS, HR_OP_SUB, LEVEL_SUM},
        {HR_TOKEN_STAR, HR_OP_MUL, LEVEL_PRODUCT},
        {HR_TOKEN_SLASH, HR_OP_DIV, LEVEL_PRODUCT},
        {HR_TOKEN_SLASH_SLASH, HR_OP_FLOORDIV, LEVEL_PRODUCT},
        {HR_TOKEN_PERCENT, HR_OP_MOD, LEVEL_PRODUCT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].token == kind) return &rows[i];
    return NULL;
}

static hr_syntax *operation(parser *p, hr_op op, hr_place place, hr_syntax *left, hr_syntax *right) {
    hr_syntax *new = node(p, HR_SYNTAX_OPERATION, place);
    if (!new) return NULL;
    new->op = op;
    new->items = left;
    left->next = right;
    new->item_count = right ? 2 : 1;
    return deepen(p, new, left) && (!right || deepen(p, new, right)) ? new : NULL;
}

/* items = expression { "," expression } up to and with `close` */
static bool items(parser *p, hr_syntax *parent, hr_token_kind close) {
    hr_syntax **end = &parent->items;
    p->square_or_round++;
    while (!at(p, close)) {
        if (parent->item_count && !expect(p, HR_TOKEN_COMMA, "")) return false;
        hr_syntax *item = expression(p, LEVEL_OR);
        if (!item || !deepen(p, parent, item)) return false;
        *end = item;
        end = &item->next;
        parent->item_count++;
        if (!at(p, HR_TOKEN_COMMA) && !at(p, close)) {
            unexpected(
                p, close == HR_TOKEN_RIGHT_ROUND ? "an operator, ',' or ')'" : "an operator, ',' or ']'", "");
            return false;
        }
    }
    advance(p);
    p->square_or_round--;
    return true;
}

static bool opens(const parser *p, hr_token_kind kind) {
    return at(p, kind) && (p->square_or_round || !p->token.line_start);
}

/* named = name | element | name "(" items ")" | reduction */
static hr_syntax *named(parser *p) {
    hr_syntax *new = node(p, HR_SYNTAX_NAME, p->token.place);
    if (!new) return NULL;
    new->symbol = p->token.symbol;
    advance(p);
    if (opens(p, HR_TOKEN_LEFT_ROUND)) {
        new->kind = HR_SYNTAX_CALL;
        advance(p);
        return items(p, new, HR_TOKEN_RIGHT_ROUND) ? new : NULL;
    }
    if (!opens(p, HR_TOKEN_LEFT_SQUARE)) return new;
    new->kind = HR_SYNTAX_ELEMENT;
    advance(p);
    if (!items(p, new, HR_TOKEN_RIGHT_SQUARE)) return NULL;
    if (!opens(p, HR_TOKEN_LEFT_ROUND)) return new;
    new->kind = HR_SYNTAX_REDUCTION;
    advance(p);
    p->square_or_round++;
    new->body = expression(p, LEVEL_OR);
    if (!new->body || !deepen(p, new, new->body)) return NULL;
    if (!expect(p, HR_TOKEN_RIGHT_ROUND, at(p, HR_TOKEN_COMMA) ? "a reduction takes one expression" : ""))
        return NULL;
    p->square_or_round--;
    return new;
}

static hr_syntax *literal(parser *p) {
    hr_syntax *new = node(p, HR_SYNTAX_NUMBER, p->token.place);
    if (!new) return NULL;
    hr_token_kind kind = p->token.kind;
    new->is_bool = kind == HR_TOKEN_TRUE || kind == HR_TOKEN_FALSE;
    new->is_whole = p->token.is_whole || new->is_bool;
    new->whole = kind == HR_TOKEN_TRUE ? 1 : p->token.whole;
    new->number = kind == HR_TOKEN_INF   ? INFINITY
                  : kind == HR_TOKEN_NAN ? NAN
                  : new->is_bool         ? (double)new->whole
                                         : p->token.number;
    advance(p);
    return new;
}

/* primary = number | "inf" | "nan" | "true" | "false" | "(" expression ")" | named */
static hr_syntax *primary(parser *p) {
    switch (p->token.kind) {
    case HR_TOKEN_NAME:
        return named(p);
    case HR_TOKEN_NUMBER:
    case HR_TOKEN_INF:
    case HR_TOKEN_NAN:
    case HR_TOKEN_TRUE:
    case HR_TOKEN_FALSE:
        return literal(p);
    case HR_TOKEN_LEFT_ROUND: {
        advance(p);
        p->square_or_round++;
        hr_syntax *inner = expression(p, LEVEL_OR);
        if (!inner || !expect(p, HR_TOKEN_RIGHT_ROUND, "")) return NULL;
        p->square_or_round--;
        inner->in_brackets = true;
        return inner;
    }
    default:
        unexpected(p, "an expression",
                   at(p, HR_TOKEN_STAR)   ? "a power is written x^2"
                   : at(p, HR_TOKEN_PLUS) ? "a sign + is not written"
                                          : "");
        return NULL;
    }
}

/* unary = "-" unary | primary [ "^" unary ] */
static hr_syntax *unary(parser *p) {
    hr_place place = p->token.place;
    if (++p->nesting > NESTING_MAX) {
        hr_messages_add(p->messages, place,
                        "brackets and signs nest deeper than %d levels; give a part of the "
                        "expression a name of its own",
                        NESTING_MAX);
        return NULL;
    }
    hr_syntax *left;
    if (accept(p, HR_TOKEN_MINUS)) {
        hr_syntax *operand = unary(p);
        left = operand ? operation(p, HR_OP_NEG, place, operand, NULL) : NULL;
    } else {
        left = primary(p);
        place = p->token.place;
        if (left && accept(p, HR_TOKEN_CARET)) {
            hr_syntax *power = unary(p);
            left = power ? operation(p, HR_OP_POW, place, left, power) : NULL;
        }
    }
    p->nesting--;
    return left;
}

/* negation = "not" negation | unary */
static hr_syntax *negation(parser *p, int level) {
    hr_place place = p->token.place;
    if (!at(p, HR_TOKEN_NOT)) return unary(p);
    if (level > LEVEL_NOT) {
        hr_messages_add(p->messages, place,
                        "not is looser than what stands before it; put brackets around (not ...)");
        return NULL;
    }
    advance(p);
    if (++p->nesting > NESTING_MAX) {
        hr_messages_add(p->messages, place, "not nests deeper than %d levels", NESTING_MAX);
        return NULL;
    }
    hr_syntax *operand = expression(p, LEVEL_NOT);
    p->nesting--;
    return operand ? operation(p, HR_OP_NOT, place, operand, NULL) : NULL;
}

static bool is_comparison(const hr_syntax *syntax) {
    return syntax->kind == HR_SYNTAX_OPERATION && syntax->op >= HR_OP_LT && syntax->op <= HR_OP_NE &&
           !syntax->in_brackets;
}

/* expression = negation { operator expression }: operators that bind at least as tightly as `level` */
static hr_syntax *expression(parser *p, int level) {
    hr_syntax *left = negation(p, level);
    while (left) {
        const operator_row *row = binary_operator(p->token.kind);
        if (!row || row->level < level) break;
        hr_place place = p->token.place;
        if (row->level == LEVEL_COMPARE && is_comparison(left)) {
            hr_messages_add(p->messages, place, "comparisons do not chain; write a < b and b < c");
            return NULL;
        }
        advance(p);
        hr_syntax *right = expression(p, row->level + 1);
        left = right ? operation(p, row->op, place, left, right) : NULL;
    }
    return left;
}

/* ---- kernels ---- */

/* type = dtype [ "[" extent { "," extent } "]" ] */
static bool type(parser *p, hr_parameter_syntax *parameter) {
    if (!at(p, HR_TOKEN_NAME)) {
        unexpected(p, "a dtype", "");
        return false;
    }
    if (!hr_dtype_parse(p->token.text, p->token.length, &parameter->dtype)) {
        hr_shown shown = hr_text_shown(p->token.text, p->token.length);
        hr_messages_add(p->messages, p->token.place,
                        "'%s' is no dtype; there are f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 bool",
                        shown.text);
        return false;
    }
    advance(p);
    if (!at(p, HR_TOKEN_LEFT_SQUARE)) return true;
    hr_syntax *holder = node(p, HR_SYNTAX_ELEMENT, p->token.place);
    if (!holder) return false;
    advance(p);
    if (at(p, HR_TOKEN_RIGHT_SQUARE)) {
        hr_messages_add(p->messages, p->token.place,
                        "no extent stands between the brackets; a scalar has no brackets");
        return false;
    }
    if (!items(p, holder, HR_TOKEN_RIGHT_SQUARE)) return false;
    parameter->extents = holder->items;
    parameter->rank = holder->item_count;
    return true;
}

/* param = name ":" [ "inout" ] type [ "=" number ]      result = name ":" type */
static hr_parameter_syntax *parameter(parser *p, bool result) {
    hr_parameter_syntax *new = allocate(p, sizeof *new);
    if (!new) return NULL;
    new->place = p->token.place;
    new->result = result;
    new->symbol = name(p, result ? "the name of a result" : "the name of a parameter");
    if (!new->symbol || !expect(p, HR_TOKEN_COLON, "a parameter is written x: f32[M, N]")) return NULL;
    if (at_word(p, "inout")) {
        if (result)
            hr_messages_add(p->messages, p->token.place, "a result cannot be inout; make it a parameter");
        advance(p);
        new->inout = !result;
    }
    if (!type(p, new)) return NULL;
    hr_place place = p->token.place;
    if (!accept(p, HR_TOKEN_ASSIGN)) return new;
    if (result) {
        hr_messages_add(p->messages, place, "a result has no default value");
        return NULL;
    }
    bool minus = accept(p, HR_TOKEN_MINUS);
    if (p->token.kind != HR_TOKEN_NUMBER && p->token.kind < HR_TOKEN_INF) {
        unexpected(p, "a number as default value", "");
        return NULL;
    }
    new->default_value = literal(p);
    if (new->default_value && minus) {
        new->default_value->number = -new->default_value->number;
        new->default_value->whole = -new->default_value->whole;
    }
    return new->default_value ? new : NULL;
}

/* `kernel x` or `def x` at the beginning of a line: where reading can always go on. */
static bool at_definition(const parser *p) {
    if (!p->token.line_start || (!at_word(p, "kernel") && !at_word(p, "def"))) return false;
    hr_lexer ahead = p->lexer;
    hr_messages none = {.kept = HR_MESSAGES_SHOWN};
    ahead.messages = &none;
    return hr_lexer_next(&ahead).kind == HR_TOKEN_NAME;
}

/* After a mistake in a parameter: on to the comma or the bracket that ends it. */
static void skip_parameter(parser *p) {
    int open = 0;
    p->square_or_round = 1;
    p->nesting = 0;
    while (!at(p, HR_TOKEN_END) && !at(p, HR_TOKEN_LEFT_BRACE) && !at_definition(p)) {
        if (open <= 0 && (at(p, HR_TOKEN_COMMA) || at(p, HR_TOKEN_RIGHT_ROUND))) return;
        open += at(p, HR_TOKEN_LEFT_ROUND) || at(p, HR_TOKEN_LEFT_SQUARE);
        open -= at(p, HR_TOKEN_RIGHT_ROUND) || at(p, HR_TOKEN_RIGHT_SQUARE);
        advance(p);
    }
}

/* "(" [ parameter { "," parameter } ] ")"; false where reading cannot go on */
static bool parameters(parser *p, hr_kernel_syntax *kernel, bool result) {
    hr_parameter_syntax **end = &kernel->parameters;
    while (*end)
        end = &(*end)->next;
    if (!expect(p, HR_TOKEN_LEFT_ROUND, result ? "results are written -> (y: f32[M])" : "")) return false;
    p->square_or_round++;
    if (!at(p, HR_TOKEN_RIGHT_ROUND)) {
        do {
            hr_parameter_syntax *new = parameter(p, result);
            if (new) {
                *end = new;
                end = &new->next;
            } else {
                kernel->headless = true;
                skip_parameter(p);
            }
        } while (accept(p, HR_TOKEN_COMMA));
    }
    p->square_or_round = 0;
    return expect(p, HR_TOKEN_RIGHT_ROUND, "");
}

/* element = name [ "[" subscript { "," subscript } "]" ] */
static hr_syntax *element(parser *p) {
    hr_syntax *left = node(p, HR_SYNTAX_NAME, p->token.place);
    if (!left) return NULL;
    left->symbol = name(p, "a statement or '}'");
    if (!left->symbol || !at(p, HR_TOKEN_LEFT_SQUARE)) return left->symbol ? left : NULL;
    left->kind = HR_SYNTAX_ELEMENT;
    advance(p);
    return items(p, left, HR_TOKEN_RIGHT_SQUARE) ? left : NULL;
}

/* statement = element ( "=" | "+=" ) expression */
static bool statement(parser *p, hr_statement_syntax *new) {
    hr_syntax *left = element(p);
    if (!left) return false;
    new->left = left;
    new->accumulate = at(p, HR_TOKEN_ADD_ASSIGN);
    if (!accept(p, HR_TOKEN_ADD_ASSIGN) && !accept(p, HR_TOKEN_ASSIGN)) {
        unexpected(p, "'=' or '+='", "a statement is written y[m, n] = x[m, n] + 1");
        return false;
    }
    new->right = expression(p, LEVEL_OR);
    if (!new->right) return false;
    if (at(p, HR_TOKEN_RIGHT_BRACE) || p->token.line_start) return true;
    unexpected(p, "an operator or the end of the line", "each statement stands on a line of its own");
    return false;
}

/* A line that begins with a name and has an assignment in it. */
static bool at_statement(const parser *p) {
    if (!p->token.line_start || !at(p, HR_TOKEN_NAME)) return false;
    const char *end = memchr(p->token.text, '\n', (size_t)(p->lexer.end - p->token.text));
    if (!end) end = p->lexer.end;
    for (const char *c = p->token.text; c < end && *c != '#'; c++)
        if (*c == '=' && c[1] != '=' && !strchr("=<>!", c[-1])) return true;
    return false;
}

/* After a mistake: on to the next statement, the closing brace or the next definition. */
static void skip_statement(parser *p) {
    p->square_or_round = p->nesting = 0;
    while (!at(p, HR_TOKEN_END) && !at(p, HR_TOKEN_RIGHT_BRACE) && !at_statement(p) && !at_definition(p))
        advance(p);
}

/* "{" { statement } "}" */
static void statements(parser *p, hr_kernel_syntax *kernel) {
    hr_statement_syntax **end = &kernel->statements;
    while (!at(p, HR_TOKEN_RIGHT_BRACE)) {
        if (at(p, HR_TOKEN_END) || at_definition(p)) {
            unexpected(p, "'}'", "the kernel before it is not closed");
            return;
        }
        hr_statement_syntax *new = allocate(p, sizeof *new);
        if (!new) return;
        *end = new;
        end = &new->next;
        if (statement(p, new)) continue;
        new->right = NULL;
        kernel->unreadable = true;
        if (at(p, HR_TOKEN_NAME) && !p->token.line_start) advance(p);
        skip_statement(p);
    }
    advance(p);
}

/* kernel = "kernel" name parameters [ "->" results ] "{" { statement } "}" */
static bool kernel(parser *p, hr_kernel_syntax *new) {
    advance(p);
    new->place = p->token.place;
    new->symbol = name(p, "the name of a kernel");
    if (!new->symbol || !parameters(p, new, false)) return false;
    if (accept(p, HR_TOKEN_ARROW) && !parameters(p, new, true)) return false;
    if (!expect(p, HR_TOKEN_LEFT_BRACE, "")) return false;
    statements(p, new);
    return true;
}

/* def = "def" name "(" [ name { "," name } ] ")" "=" expression */
static bool def(parser *p, hr_def_syntax *new) {
    advance(p);
    new->place = p->token.place;
    new->symbol = name(p, "the name of a function");
    if (!new->symbol || !expect(p, HR_TOKEN_LEFT_ROUND, "")) return false;
    hr_syntax **end = &new->parameters;
    if (!at(p, HR_TOKEN_RIGHT_ROUND)) {
        do {
            hr_syntax *parameter = node(p, HR_SYNTAX_NAME, p->token.place);
            if (!parameter || !(parameter->symbol = name(p, "the name of a parameter"))) return false;
            *end = parameter;
            end = &parameter->next;
            new->parameter_count++;
        } while (accept(p, HR_TOKEN_COMMA));
    }
    if (!expect(p, HR_TOKEN_RIGHT_ROUND, "") || !expect(p, HR_TOKEN_ASSIGN, "")) return false;
    new->body = expression(p, LEVEL_OR);
    if (!new->body) return false;
    if (p->token.line_start) return true;
    unexpected(p, "an operator or the end of the line", "");
    return false;
}

static void skip_definition(parser *p) {
    p->square_or_round = p->nesting = 0;
    while (!at(p, HR_TOKEN_END) && !at_definition(p))
        advance(p);
}

/* file = { def | kernel } */
void hr_syntax_parse(const char *text, size_t length, hr_arena *arena, hr_symbols *symbols,
                     hr_messages *messages, hr_file_syntax *out) {
    parser p = {
        .lexer = hr_lexer_create(text, length, symbols, messages), .arena = arena, .messages = messages};
    hr_def_syntax **defs = &out->defs;
    hr_kernel_syntax **kernels = &out->kernels;
    advance(&p);
    while (!at(&p, HR_TOKEN_END) && !p.full) {
        if (at_word(&p, "kernel")) {
            hr_kernel_syntax *new = allocate(&p, sizeof *new);
            if (!new) return;
            if (!kernel(&p, new)) {
                new->headless = true;
                skip_definition(&p);
            }
            if (!new->symbol) continue;
            *kernels = new;
            kernels = &new->next;
        } else if (at_word(&p, "def")) {
            hr_def_syntax *new = allocate(&p, sizeof *new);
            if (!new) return;
            if (!def(&p, new)) skip_definition(&p);
            if (!new->symbol) continue;
            *defs = new;
            defs = &new->next;
        } else {
            unexpected(&p, "'kernel' or 'def'", "");
            if (!p.token.line_start) advance(&p);
            skip_definition(&p);
        }
    }
}
