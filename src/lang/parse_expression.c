/* Tokens -> trees of expressions, and the help that all reading needs. One function a symbol of the grammar
 * in docs/language.md.
 *
 * In: a parser at a token. Out: a tree, the parser behind it; or a message and NULL.
 */
#include "lang/parser.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NESTING_MAX                                                                                          \
    1000 /* levels of brackets and of operators in one expression: the stack's, not the reader's */

/* ---- help ---- */

void hr_parse_advance(hr_parser *p) {
    p->after = p->token.place;
    p->after.column += (int)p->token.length;
    p->token = hr_lexer_next(&p->lexer);
}

/* Whether the line has `text` before the token. */
static bool line_has_before(const hr_parser *p, const char *text) {
    size_t length = strlen(text);
    for (const char *at = p->lexer.line_text; at + length <= p->token.text; at++)
        if (memcmp(at, text, length) == 0) return true;
    return false;
}

/* What other languages would have here, and how it is written in this one; "" where it is none of that. */
static const char *habit_at(const hr_parser *p) {
    const hr_token *token = &p->token;
    bool begins = token->line_start || token->kind == HR_TOKEN_END;
    char before = !begins && token->text > p->lexer.line_text ? token->text[-1] : 0;
    if (token->kind == HR_TOKEN_SLASH_SLASH) return "a comment begins with #";
    if (begins) return "";
    if (p->square_or_round && (hr_parse_at_word(p, "to") || hr_parse_at_word(p, "in")))
        return "a range is written n < N, or n from a to b with a in it and b not";
    if (token->kind == HR_TOKEN_COLON && p->square_or_round)
        return "there are no slices: an index names a whole axis, as in x[m, n], and a range a part of it, "
               "as in "
               "sum[k < 4](x[m, k])";
    if (token->kind == HR_TOKEN_ASSIGN && p->square_or_round)
        return "arguments have no names; a reduction names its index in place of an axis, as in sum[n](x[m, "
               "n])";
    if (token->kind == HR_TOKEN_LEFT_SQUARE && before == ']')
        return "subscripts share one pair of brackets: x[m, n]";
    if (hr_parse_at_word(p, "if") || hr_parse_at_word(p, "else")) return "write where(condition, a, b)";
    if (token->kind == HR_TOKEN_NAME && line_has_before(p, "//"))
        return "// divides; a comment begins with #";
    return "";
}

/* A token of kind BAD has its message already. What a line lacks is shown at its end. */
void hr_parse_unexpected(hr_parser *p, const char *wanted, const char *mend) {
    if (p->token.kind == HR_TOKEN_BAD) return;
    hr_shown shown = hr_text_shown(p->token.text, p->token.length);
    char found[sizeof shown.text + 32];
    const char *habit = habit_at(p);
    if (*habit) mend = habit;
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

bool hr_parse_at(const hr_parser *p, hr_token_kind kind) {
    return p->token.kind == kind;
}

bool hr_parse_accept(hr_parser *p, hr_token_kind kind) {
    if (!hr_parse_at(p, kind)) return false;
    hr_parse_advance(p);
    return true;
}

bool hr_parse_expect(hr_parser *p, hr_token_kind kind, const char *mend) {
    if (hr_parse_accept(p, kind)) return true;
    hr_parse_unexpected(p, hr_token_kind_text(kind), mend);
    return false;
}

bool hr_parse_at_word(const hr_parser *p, const char *word) {
    return hr_parse_at(p, HR_TOKEN_NAME) && strcmp(p->token.symbol->name, word) == 0;
}

void *hr_parse_allocate(hr_parser *p, size_t size) {
    if (hr_arena_room(p->arena) >= size + 64) return hr_arena_alloc(p->arena, size);
    if (!p->full) hr_messages_add(p->messages, p->token.place, "the text is too large to be kernels");
    p->full = true;
    return NULL;
}

hr_syntax *hr_parse_node(hr_parser *p, hr_syntax_kind kind, hr_place place) {
    hr_syntax *new = hr_parse_allocate(p, sizeof *new);
    if (!new) return NULL;
    new->kind = kind;
    new->place = place;
    new->depth = 1;
    return new;
}

hr_symbol *hr_parse_name(hr_parser *p, const char *wanted) {
    if (!hr_parse_at(p, HR_TOKEN_NAME)) {
        hr_parse_unexpected(p, wanted, p->token.kind >= HR_TOKEN_AND ? "this word cannot be a name" : "");
        return NULL;
    }
    hr_symbol *symbol = p->token.symbol;
    hr_parse_advance(p);
    return symbol;
}

static bool deepen(hr_parser *p, hr_syntax *parent, const hr_syntax *child) {
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

static const operator_row *binary_operator(const hr_parser *p) {
    static const operator_row exclusive = {HR_TOKEN_NAME, HR_OP_BIT_XOR, HR_LEVEL_BIT_XOR};
    const hr_token_kind kind = p->token.kind;
    static const operator_row rows[] = {
        {HR_TOKEN_OR, HR_OP_OR, HR_LEVEL_OR},
        {HR_TOKEN_AND, HR_OP_AND, HR_LEVEL_AND},
        {HR_TOKEN_LESS, HR_OP_LT, HR_LEVEL_COMPARE},
        {HR_TOKEN_LESS_EQUAL, HR_OP_LE, HR_LEVEL_COMPARE},
        {HR_TOKEN_GREATER, HR_OP_GT, HR_LEVEL_COMPARE},
        {HR_TOKEN_GREATER_EQUAL, HR_OP_GE, HR_LEVEL_COMPARE},
        {HR_TOKEN_EQUAL, HR_OP_EQ, HR_LEVEL_COMPARE},
        {HR_TOKEN_NOT_EQUAL, HR_OP_NE, HR_LEVEL_COMPARE},
        {HR_TOKEN_BAR, HR_OP_BIT_OR, HR_LEVEL_BIT_OR},
        {HR_TOKEN_AMPERSAND, HR_OP_BIT_AND, HR_LEVEL_BIT_AND},
        {HR_TOKEN_SHIFT_LEFT, HR_OP_SHIFT_LEFT, HR_LEVEL_SHIFT},
        {HR_TOKEN_SHIFT_RIGHT, HR_OP_SHIFT_RIGHT, HR_LEVEL_SHIFT},
        {HR_TOKEN_PLUS, HR_OP_ADD, HR_LEVEL_SUM},
        {HR_TOKEN_MINUS, HR_OP_SUB, HR_LEVEL_SUM},
        {HR_TOKEN_STAR, HR_OP_MUL, HR_LEVEL_PRODUCT},
        {HR_TOKEN_SLASH, HR_OP_DIV, HR_LEVEL_PRODUCT},
        {HR_TOKEN_SLASH_SLASH, HR_OP_FLOORDIV, HR_LEVEL_PRODUCT},
        {HR_TOKEN_PERCENT, HR_OP_MOD, HR_LEVEL_PRODUCT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].token == kind) return &rows[i];
    const bool goes_on = p->square_or_round || !p->token.line_start; /* xor is a name, too */
    return goes_on && hr_parse_at_word(p, "xor") ? &exclusive : NULL;
}

static hr_syntax *operation(hr_parser *p, hr_op op, hr_place place, hr_syntax *left, hr_syntax *right) {
    hr_syntax *new = hr_parse_node(p, HR_SYNTAX_OPERATION, place);
    if (!new) return NULL;
    new->op = op;
    new->items = left;
    left->next = right;
    new->item_count = right ? 2 : 1;
    return deepen(p, new, left) && (!right || deepen(p, new, right)) ? new : NULL;
}

/* item = expression | name "=" expression */
static hr_syntax *item(hr_parser *p) {
    hr_syntax *first = hr_parse_expression(p, HR_LEVEL_OR);
    if (!first || first->kind != HR_SYNTAX_NAME || first->in_brackets || !hr_parse_at(p, HR_TOKEN_ASSIGN))
        return first;
    hr_parse_advance(p);
    hr_syntax *value = hr_parse_expression(p, HR_LEVEL_OR);
    if (!value || !deepen(p, first, value)) return NULL;
    first->kind = HR_SYNTAX_NAMED;
    first->items = value;
    first->item_count = 1;
    return first;
}

/* subscript = expression | name "from" expression "to" expression */
static hr_syntax *subscript(hr_parser *p) {
    hr_syntax *index = hr_parse_expression(p, HR_LEVEL_OR);
    if (!index || index->kind != HR_SYNTAX_NAME || !hr_parse_at_word(p, "from")) return index;
    hr_syntax *range = hr_parse_node(p, HR_SYNTAX_RANGE, index->place);
    hr_parse_advance(p);
    hr_syntax *begin = range ? hr_parse_expression(p, HR_LEVEL_OR) : NULL;
    if (!begin) return NULL;
    if (!hr_parse_at_word(p, "to")) {
        hr_parse_unexpected(p, "'to'", "a range is written j from a to b, with a in it and b not");
        return NULL;
    }
    hr_parse_advance(p);
    hr_syntax *end = hr_parse_expression(p, HR_LEVEL_OR);
    if (!end) return NULL;
    range->items = index;
    index->next = begin;
    begin->next = end;
    range->item_count = 3;
    return deepen(p, range, begin) && deepen(p, range, end) ? range : NULL;
}

/* items = item { "," item } up to and with `close` */
bool hr_parse_items(hr_parser *p, hr_syntax *parent, hr_token_kind close) {
    hr_syntax **end = &parent->items;
    p->square_or_round++;
    while (!hr_parse_at(p, close)) {
        if (parent->item_count && !hr_parse_expect(p, HR_TOKEN_COMMA, "")) return false;
        hr_syntax *next = close == HR_TOKEN_RIGHT_ROUND ? item(p) : subscript(p);
        if (!next || !deepen(p, parent, next)) return false;
        *end = next;
        end = &next->next;
        parent->item_count++;
        if (!hr_parse_at(p, HR_TOKEN_COMMA) && !hr_parse_at(p, close)) {
            hr_parse_unexpected(
                p, close == HR_TOKEN_RIGHT_ROUND ? "an operator, ',' or ')'" : "an operator, ',' or ']'", "");
            return false;
        }
    }
    hr_parse_advance(p);
    p->square_or_round--;
    return true;
}

static bool opens(const hr_parser *p, hr_token_kind kind) {
    return hr_parse_at(p, kind) && (p->square_or_round || !p->token.line_start);
}

/* named = name | element | name "(" items ")" | reduction */
static hr_syntax *named(hr_parser *p) {
    hr_syntax *new = hr_parse_node(p, HR_SYNTAX_NAME, p->token.place);
    if (!new) return NULL;
    new->symbol = p->token.symbol;
    hr_parse_advance(p);
    if (opens(p, HR_TOKEN_LEFT_ROUND)) {
        new->kind = HR_SYNTAX_CALL;
        hr_parse_advance(p);
        return hr_parse_items(p, new, HR_TOKEN_RIGHT_ROUND) ? new : NULL;
    }
    if (!opens(p, HR_TOKEN_LEFT_SQUARE)) return new;
    new->kind = HR_SYNTAX_ELEMENT;
    hr_parse_advance(p);
    if (!hr_parse_items(p, new, HR_TOKEN_RIGHT_SQUARE)) return NULL;
    if (!opens(p, HR_TOKEN_LEFT_ROUND)) return new;
    new->kind = HR_SYNTAX_REDUCTION;
    hr_parse_advance(p);
    p->square_or_round++;
    new->body = hr_parse_expression(p, HR_LEVEL_OR);
    if (!new->body || !deepen(p, new, new->body)) return NULL;
    if (!hr_parse_expect(p, HR_TOKEN_RIGHT_ROUND,
                         hr_parse_at(p, HR_TOKEN_COMMA)
                             ? "a reduction takes one expression, and runs over the "
                               "indices in its square brackets"
                             : ""))
        return NULL;
    p->square_or_round--;
    return new;
}

hr_syntax *hr_parse_literal(hr_parser *p) {
    hr_syntax *new = hr_parse_node(p, HR_SYNTAX_NUMBER, p->token.place);
    if (!new) return NULL;
    hr_token_kind kind = p->token.kind;
    new->is_bool = kind == HR_TOKEN_TRUE || kind == HR_TOKEN_FALSE;
    new->is_whole = p->token.is_whole || new->is_bool;
    new->whole = kind == HR_TOKEN_TRUE ? 1 : p->token.whole;
    new->number = kind == HR_TOKEN_INF   ? INFINITY
                  : kind == HR_TOKEN_NAN ? NAN
                  : new->is_bool         ? (double)new->whole
                                         : p->token.number;
    hr_parse_advance(p);
    return new;
}

/* primary = number | "inf" | "nan" | "true" | "false" | "(" expression ")" | named */
static hr_syntax *primary(hr_parser *p) {
    switch (p->token.kind) {
    case HR_TOKEN_NAME:
        return named(p);
    case HR_TOKEN_NUMBER:
    case HR_TOKEN_INF:
    case HR_TOKEN_NAN:
    case HR_TOKEN_TRUE:
    case HR_TOKEN_FALSE:
        return hr_parse_literal(p);
    case HR_TOKEN_LEFT_ROUND: {
        hr_parse_advance(p);
        p->square_or_round++;
        hr_syntax *inner = hr_parse_expression(p, HR_LEVEL_OR);
        if (!inner || !hr_parse_expect(p, HR_TOKEN_RIGHT_ROUND, "")) return NULL;
        p->square_or_round--;
        inner->in_brackets = true;
        return inner;
    }
    default:
        hr_parse_unexpected(p, "an expression",
                            hr_parse_at(p, HR_TOKEN_STAR)   ? "a power is written x^2"
                            : hr_parse_at(p, HR_TOKEN_PLUS) ? "a sign + is not written"
                                                            : "");
        return NULL;
    }
}

/* unary = "-" unary | primary [ "^" unary ] */
static hr_syntax *unary(hr_parser *p) {
    hr_place place = p->token.place;
    if (++p->nesting > NESTING_MAX) {
        hr_messages_add(p->messages, place,
                        "brackets and signs nest deeper than %d levels; give a part of the "
                        "expression a name of its own",
                        NESTING_MAX);
        return NULL;
    }
    hr_syntax *left;
    if (hr_parse_accept(p, HR_TOKEN_MINUS)) {
        hr_syntax *operand = unary(p);
        left = operand ? operation(p, HR_OP_NEG, place, operand, NULL) : NULL;
    } else {
        left = primary(p);
        place = p->token.place;
        if (left && hr_parse_accept(p, HR_TOKEN_CARET)) {
            hr_syntax *power = unary(p);
            left = power ? operation(p, HR_OP_POW, place, left, power) : NULL;
        }
    }
    p->nesting--;
    return left;
}

/* negation = "not" negation | unary */
static hr_syntax *negation(hr_parser *p, int level) {
    hr_place place = p->token.place;
    if (!hr_parse_at(p, HR_TOKEN_NOT)) return unary(p);
    if (level > HR_LEVEL_NOT) {
        hr_messages_add(p->messages, place,
                        "not is looser than what stands before it; put brackets around (not ...)");
        return NULL;
    }
    hr_parse_advance(p);
    if (++p->nesting > NESTING_MAX) {
        hr_messages_add(p->messages, place, "not nests deeper than %d levels", NESTING_MAX);
        return NULL;
    }
    hr_syntax *operand = hr_parse_expression(p, HR_LEVEL_NOT);
    p->nesting--;
    return operand ? operation(p, HR_OP_NOT, place, operand, NULL) : NULL;
}

static bool is_comparison(const hr_syntax *syntax) {
    return syntax->kind == HR_SYNTAX_OPERATION && syntax->op >= HR_OP_LT && syntax->op <= HR_OP_NE &&
           !syntax->in_brackets;
}

/* expression = negation { operator expression }: operators that bind at least as tightly as `level` */
hr_syntax *hr_parse_expression(hr_parser *p, int level) {
    hr_syntax *left = negation(p, level);
    while (left) {
        const operator_row *row = binary_operator(p);
        if (!row || row->level < level) break;
        hr_place place = p->token.place;
        if (row->level == HR_LEVEL_COMPARE && is_comparison(left)) {
            hr_messages_add(p->messages, place, "comparisons do not chain; write a < b and b < c");
            return NULL;
        }
        hr_parse_advance(p);
        hr_syntax *right = hr_parse_expression(p, row->level + 1);
        left = right ? operation(p, row->op, place, left, right) : NULL;
    }
    return left;
}
