/* What the reading files share: the state of a parser, and the steps that they take for each other.
 *
 * In: tokens. Out: trees. parser.c reads files, kernels and statements, parse_expression.c expressions. A
 * step that fails has added its message.
 */
#ifndef HR_LANG_PARSER_H
#define HR_LANG_PARSER_H

#include "lang/syntax.h"

typedef struct hr_parser {
    hr_lexer lexer;
    hr_token token; /* the one that is looked at */
    hr_place after; /* where the token before it ended; line 0 = there is none */
    hr_arena *arena;
    hr_messages *messages;
    int nesting;         /* of calls to expression */
    int square_or_round; /* open brackets: inside them a line end means nothing */
    bool full;           /* the arena's end was reported */
} hr_parser;

enum {
    HR_LEVEL_OR = 1,
    HR_LEVEL_AND,
    HR_LEVEL_NOT,
    HR_LEVEL_COMPARE,
    HR_LEVEL_BIT_OR,
    HR_LEVEL_BIT_XOR,
    HR_LEVEL_BIT_AND,
    HR_LEVEL_SHIFT,
    HR_LEVEL_SUM,
    HR_LEVEL_PRODUCT
};

/* ---- tokens ---- */

void hr_parse_advance(hr_parser *p);
bool hr_parse_at(const hr_parser *p, hr_token_kind kind);
bool hr_parse_at_word(const hr_parser *p, const char *word);
bool hr_parse_accept(hr_parser *p, hr_token_kind kind);
bool hr_parse_expect(hr_parser *p, hr_token_kind kind, const char *mend);
/* "expected `wanted`, found ...; `mend`" */
void hr_parse_unexpected(hr_parser *p, const char *wanted, const char *mend);
/* NULL after a message. */
hr_symbol *hr_parse_name(hr_parser *p, const char *wanted);

/* ---- trees: NULL or false after a message ---- */

void *hr_parse_allocate(hr_parser *p, size_t size);
hr_syntax *hr_parse_node(hr_parser *p, hr_syntax_kind kind, hr_place place);
hr_syntax *hr_parse_literal(hr_parser *p);
/* expression = negation { operator expression }: operators that bind at least as tightly as `level` */
hr_syntax *hr_parse_expression(hr_parser *p, int level);
/* items = expression { "," expression } up to and with `close` */
bool hr_parse_items(hr_parser *p, hr_syntax *parent, hr_token_kind close);

#endif
