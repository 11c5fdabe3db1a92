/* Text -> tokens, one at a time, and the table of names.
 *
 * In: any bytes. Out: tokens that know their place and whether they begin a line; a token of kind BAD where
 * the text is none, after its message was added. Names are interned: one hr_symbol a spelling, so later
 * stages compare pointers and keep what a name means in the symbol itself.
 */
#ifndef HR_LANG_LEXER_H
#define HR_LANG_LEXER_H

#include "base/arena.h"
#include "lang/messages.h"

struct hr_def_syntax;
struct hr_kernel_syntax;

typedef struct hr_symbol {
    const char *name;
    size_t length;
    uint64_t hash;
    struct hr_def_syntax *def;       /* of this name, in this file */
    struct hr_kernel_syntax *kernel; /* of this name, in this file */
    /* what it means in the kernel whose number is `scope`; -1 = nothing */
    int scope, tensor, extent, index, variable;
    /* the argument it stands for while the body of a def is expanded */
    const void *frame;
    hr_expr *argument;
} hr_symbol;

typedef struct hr_symbols {
    hr_arena *arena; /* of the names */
    hr_symbol **slots;
    size_t capacity, count;
} hr_symbols;

/* kind, how a message names it */
#define HR_TOKENS(X)                                                                                         \
    X(END, "the end of the file")                                                                            \
    X(BAD, "an unknown character")                                                                           \
    X(NAME, "a name")                                                                                        \
    X(NUMBER, "a number")                                                                                    \
    X(STRING, "the name of a file")                                                                          \
    X(LEFT_ROUND, "'('")                                                                                     \
    X(RIGHT_ROUND, "')'")                                                                                    \
    X(LEFT_SQUARE, "'['")                                                                                    \
    X(RIGHT_SQUARE, "']'")                                                                                   \
    X(LEFT_BRACE, "'{'")                                                                                     \
    X(RIGHT_BRACE, "'}'")                                                                                    \
    X(COMMA, "','")                                                                                          \
    X(COLON, "':'")                                                                                          \
    X(ARROW, "'->'")                                                                                         \
    X(ASSIGN, "'='")                                                                                         \
    X(ADD_ASSIGN, "'+='")                                                                                    \
    X(PLUS, "'+'")                                                                                           \
    X(MINUS, "'-'")                                                                                          \
    X(STAR, "'*'")                                                                                           \
    X(SLASH, "'/'")                                                                                          \
    X(SLASH_SLASH, "'//'")                                                                                   \
    X(PERCENT, "'%'")                                                                                        \
    X(CARET, "'^'")                                                                                          \
    X(LESS, "'<'")                                                                                           \
    X(LESS_EQUAL, "'<='")                                                                                    \
    X(GREATER, "'>'")                                                                                        \
    X(GREATER_EQUAL, "'>='")                                                                                 \
    X(EQUAL, "'=='")                                                                                         \
    X(NOT_EQUAL, "'!='")                                                                                     \
    X(SHIFT_LEFT, "'<<'")                                                                                    \
    X(SHIFT_RIGHT, "'>>'")                                                                                   \
    X(AMPERSAND, "'&'")                                                                                      \
    X(BAR, "'|'")                                                                                            \
    X(AND, "'and'")                                                                                          \
    X(OR, "'or'")                                                                                            \
    X(NOT, "'not'")                                                                                          \
    X(INF, "'inf'")                                                                                          \
    X(NAN, "'nan'")                                                                                          \
    X(TRUE, "'true'")                                                                                        \
    X(FALSE, "'false'")

typedef enum hr_token_kind {
#define HR_TOKEN_ENUM(kind, text) HR_TOKEN_##kind,
    HR_TOKENS(HR_TOKEN_ENUM)
#undef HR_TOKEN_ENUM
} hr_token_kind;

typedef struct hr_token {
    hr_token_kind kind;
    bool line_start; /* the first token of its line */
    hr_place place;
    const char *text; /* into the text */
    size_t length;
    hr_symbol *symbol; /* NAME */
    bool is_whole;     /* NUMBER: written without point and exponent */
    int64_t whole;     /* NUMBER that is whole */
    double number;     /* NUMBER */
} hr_token;

typedef struct hr_lexer {
    const char *at, *end, *line_text; /* line_text: where the current line begins */
    int line;
    bool line_start;
    hr_symbols *symbols;
    hr_messages *messages;
} hr_lexer;

/* `text[length]` must be 0. */
hr_lexer hr_lexer_create(const char *text, size_t length, hr_symbols *symbols, hr_messages *messages);
hr_token hr_lexer_next(hr_lexer *lexer);
/* On to a later place of the text, whatever stands between. */
void hr_lexer_skip(hr_lexer *lexer, const char *to);
const char *hr_token_kind_text(hr_token_kind kind);

hr_status hr_symbols_create(hr_arena *names, hr_symbols *out);
void hr_symbols_clear(hr_symbols *symbols);
/* NULL when memory ran out. */
hr_symbol *hr_symbol_intern(hr_symbols *symbols, const char *text, size_t length);

#endif
