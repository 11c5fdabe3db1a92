/* Text -> tokens. In: any bytes. Out: tokens; messages for what is none. */
#define _GNU_SOURCE /* strtod_l: a host program may have set a locale with a decimal comma */
#include "lang/lexer.h"
#include "base/memory.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_LENGTH_MAX 1000

/* ---- names ---- */

hr_status hr_symbols_create(hr_arena *names, hr_symbols *out) {
    size_t capacity = 256;
    hr_symbol **slots = hr_memory_zeros(capacity, sizeof *slots);
    if (!slots) return hr_fail(HR_OUT_OF_MEMORY, "out of memory for the table of names");
    *out = (hr_symbols){.arena = names, .slots = slots, .capacity = capacity};
    return HR_OK;
}

void hr_symbols_clear(hr_symbols *symbols) {
    free(symbols->slots);
    *symbols = (hr_symbols){0};
}

static uint64_t hash_of(const char *text, size_t length) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

static hr_symbol **find_slot(hr_symbol **slots, size_t capacity, uint64_t hash, const char *text,
                             size_t length) {
    size_t at = hash & (capacity - 1);
    while (slots[at] && (slots[at]->hash != hash || slots[at]->length != length ||
                         memcmp(slots[at]->name, text, length) != 0))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static bool grow_symbols(hr_symbols *symbols) {
    size_t capacity = symbols->capacity * 2;
    hr_symbol **slots = hr_memory_zeros(capacity, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < symbols->capacity; i++) {
        hr_symbol *symbol = symbols->slots[i];
        if (symbol) *find_slot(slots, capacity, symbol->hash, symbol->name, symbol->length) = symbol;
    }
    free(symbols->slots);
    symbols->slots = slots;
    symbols->capacity = capacity;
    return true;
}

hr_symbol *hr_symbol_intern(hr_symbols *symbols, const char *text, size_t length) {
    uint64_t hash = hash_of(text, length);
    hr_symbol **slot = find_slot(symbols->slots, symbols->capacity, hash, text, length);
    if (*slot) return *slot;
    if (hr_arena_room(symbols->arena) < sizeof(hr_symbol) + length + 64) return NULL;
    if (symbols->count * 2 >= symbols->capacity) {
        if (!grow_symbols(symbols)) return NULL;
        slot = find_slot(symbols->slots, symbols->capacity, hash, text, length);
    }
    hr_symbol *symbol = hr_arena_alloc(symbols->arena, sizeof *symbol);
    symbol->name = hr_arena_copy(symbols->arena, text, length);
    symbol->length = length;
    symbol->hash = hash;
    symbol->scope = symbol->tensor = symbol->extent = symbol->index = symbol->variable = -1;
    symbols->count++;
    return *slot = symbol;
}

/* ---- tokens ---- */

const char *hr_token_kind_text(hr_token_kind kind) {
    static const char *const texts[] = {
#define TOKEN_TEXT(kind, text) text,
        HR_TOKENS(TOKEN_TEXT)
#undef TOKEN_TEXT
    };
    return texts[kind];
}

/* Not <ctype.h>: what is a letter does not depend on the host program's locale. */
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

hr_lexer hr_lexer_create(const char *text, size_t length, hr_symbols *symbols, hr_messages *messages) {
    bool mark = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0; /* some editors begin files with it */
    return (hr_lexer){.at = text + (mark ? 3 : 0),
                      .end = text + length,
                      .line_text = text,
                      .line = 1,
                      .line_start = true,
                      .symbols = symbols,
                      .messages = messages};
}

static hr_place place_of(const hr_lexer *lexer, const char *at) {
    return (hr_place){.line = lexer->line, .column = (int)(at - lexer->line_text) + 1};
}

static void skip_blanks(hr_lexer *lexer) {
    while (lexer->at < lexer->end) {
        char c = *lexer->at;
        if (c == '#') {
            const char *stop = memchr(lexer->at, '\n', (size_t)(lexer->end - lexer->at));
            lexer->at = stop ? stop : lexer->end;
        } else if (c == '\n') {
            lexer->at++;
            lexer->line++;
            lexer->line_text = lexer->at;
            lexer->line_start = true;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            lexer->at++;
        } else {
            return;
        }
    }
}

static hr_token bad(hr_lexer *lexer, hr_token token, const char *stop) {
    token.kind = HR_TOKEN_BAD;
    token.length = (size_t)(stop - token.text);
    lexer->at = stop;
    return token;
}

static hr_token name_token(hr_lexer *lexer, hr_token token) {
    static const struct {
        const char *text;
        hr_token_kind kind;
    } words[] = {{"and", HR_TOKEN_AND},    {"or", HR_TOKEN_OR},   {"not", HR_TOKEN_NOT},
                 {"inf", HR_TOKEN_INF},    {"nan", HR_TOKEN_NAN}, {"true", HR_TOKEN_TRUE},
                 {"false", HR_TOKEN_FALSE}};
    const char *stop = token.text;
    while (is_name(*stop))
        stop++;
    token.length = (size_t)(stop - token.text);
    token.kind = HR_TOKEN_NAME;
    lexer->at = stop;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].text) == token.length && memcmp(words[i].text, token.text, token.length) == 0)
            token.kind = words[i].kind;
    if (token.kind != HR_TOKEN_NAME) return token;
    token.symbol = hr_symbol_intern(lexer->symbols, token.text, token.length);
    if (token.symbol) return token;
    hr_messages_add(lexer->messages, token.place, "no memory is left for this name; the text is too large");
    return bad(lexer, token, stop);
}

static const char *digits(const char *at) {
    while (is_digit(*at))
        at++;
    return at;
}

static double number_of(const char *text) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double number = plain ? strtod_l(text, NULL, plain) : strtod(text, NULL);
    if (plain) freelocale(plain);
    return number;
}

/* The number that the token's text says; what is wrong with it, NULL = nothing. */
static const char *take_value(hr_token *token) {
    if (token->length > NUMBER_LENGTH_MAX) return "a number has at most 1000 digits";
    token->number = number_of(token->text);
    if (isinf(token->number)) return "this number is beyond f64; write inf for infinity";
    if (!token->is_whole) return NULL;
    const uint64_t whole = token->number < 0x1p64 ? strtoull(token->text, NULL, 10) : UINT64_MAX;
    if (whole > INT64_MAX) return "this whole number is beyond i64; write it with a point or an exponent";
    token->whole = (int64_t)whole;
    return NULL;
}

/* number = digits [ "." digits ] [ "e" [ "+" | "-" ] digits ] */
static hr_token number_token(hr_lexer *lexer, hr_token token) {
    const char *stop = digits(token.text), *trouble = NULL;
    token.kind = HR_TOKEN_NUMBER;
    token.is_whole = true;
    if (*stop == '.' && stop[1] != '.') { /* 0..5 is a mistake of its own */
        const char *fraction = stop + 1;
        stop = digits(fraction);
        token.is_whole = false;
        if (stop == fraction) trouble = "digits must follow the point; write 1.0 for 1.";
        if (stop > fraction && fraction == token.text + 1)
            trouble = "a digit must stand before the point; write 0.5 for .5";
    }
    if (*stop == 'e' || *stop == 'E') {
        const char *exponent = stop + 1 + (stop[1] == '+' || stop[1] == '-');
        stop = digits(exponent);
        token.is_whole = false;
        if (stop == exponent) trouble = "digits must follow the e of a number; write 1e-5";
    }
    if (!trouble && *token.text == '0' && stop == token.text + 1 && *stop && strchr("xXbB", *stop))
        trouble = "numbers are decimal; write 255 for 0xff";
    if (!trouble && is_name(*stop))
        trouble = "a number runs into a name; put an operator between them, as in 2 * x";
    while (is_name(*stop))
        stop++;
    token.length = (size_t)(stop - token.text);
    lexer->at = stop;
    if (!trouble) trouble = take_value(&token);
    if (!trouble) return token;
    hr_messages_add(lexer->messages, token.place, "%s", trouble);
    return bad(lexer, token, stop);
}

/* Whatever begins no token: one message for a run of such bytes. */
static hr_token unknown_token(hr_lexer *lexer, hr_token token) {
    static const struct {
        const char *text, *mend;
    } habits[] = {{"&&", "; write and"},
                  {"~", "; write x xor -1, or not of a condition"},
                  {"@", "; write sum[k](a[m, k] * b[k, n])"},
                  {"|", "; write or"},
                  {"!", "; write not"},
                  {";", "; a statement ends at the end of its line"},
                  {".", "; functions and reductions stand alone, as in exp(x[m]) and sum[n](x[m, n])"},
                  {".shape", "; an extent has a name, as N of x: f32[N]"},
                  {".T", "; write x[n, m] where x[m, n] would stand"},
                  {"..", "; a range is written j from a to b, with a in it and b not"},
                  {"...", "; an index names a whole axis, as in x[m, n]"},
                  {"?", "; write where(condition, a, b)"},
                  {"\"", ""},
                  {"\xc3\x97", "; write *"},
                  {"\xe2\x88\x92", "; write -"},
                  {"\xe2\x89\xa4", "; write <="},
                  {"\xe2\x89\xa5", "; write >="},
                  {"\xe2\x89\xa0", "; write !="}};
    const char *stop = token.text + 1, *mend = "; names are made of letters A-Z and a-z, digits and _";
    bool high = (unsigned char)*token.text >= 0x80 || (unsigned char)*token.text < ' ';
    while (high && stop < lexer->end && *stop != '\n' &&
           ((unsigned char)*stop >= 0x80 || (unsigned char)*stop < ' '))
        stop++;
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (strncmp(token.text, habits[i].text, strlen(habits[i].text)) == 0) mend = habits[i].mend;
    while (!high && stop < lexer->end && *stop == *token.text)
        stop++;
    hr_shown shown = hr_text_shown(token.text, (size_t)(stop - token.text));
    hr_messages_add(lexer->messages, token.place, "'%s' is no part of the language%s", shown.text, mend);
    return bad(lexer, token, stop);
}

/* string = '"' characters '"' on one line */
static hr_token string_token(hr_lexer *lexer, hr_token token) {
    const char *stop = token.text + 1;
    while (stop < lexer->end && *stop != '"' && *stop != '\n')
        stop++;
    if (stop == lexer->end || *stop != '"') return unknown_token(lexer, token);
    token.kind = HR_TOKEN_STRING;
    token.length = (size_t)(stop + 1 - token.text);
    lexer->at = stop + 1;
    return token;
}

static hr_token sign_token(hr_lexer *lexer, hr_token token) {
    static const struct {
        char text[3];
        hr_token_kind kind;
    } signs[] = {{"->", HR_TOKEN_ARROW},       {"+=", HR_TOKEN_ADD_ASSIGN},    {"//", HR_TOKEN_SLASH_SLASH},
                 {"<=", HR_TOKEN_LESS_EQUAL},  {">=", HR_TOKEN_GREATER_EQUAL}, {"==", HR_TOKEN_EQUAL},
                 {"<<", HR_TOKEN_SHIFT_LEFT},  {">>", HR_TOKEN_SHIFT_RIGHT},   {"!=", HR_TOKEN_NOT_EQUAL},
                 {"(", HR_TOKEN_LEFT_ROUND},   {")", HR_TOKEN_RIGHT_ROUND},    {"[", HR_TOKEN_LEFT_SQUARE},
                 {"]", HR_TOKEN_RIGHT_SQUARE}, {"{", HR_TOKEN_LEFT_BRACE},     {"}", HR_TOKEN_RIGHT_BRACE},
                 {",", HR_TOKEN_COMMA},        {":", HR_TOKEN_COLON},          {"=", HR_TOKEN_ASSIGN},
                 {"+", HR_TOKEN_PLUS},         {"-", HR_TOKEN_MINUS},          {"*", HR_TOKEN_STAR},
                 {"/", HR_TOKEN_SLASH},        {"%", HR_TOKEN_PERCENT},        {"^", HR_TOKEN_CARET},
                 {"<", HR_TOKEN_LESS},         {">", HR_TOKEN_GREATER},        {"|", HR_TOKEN_BAR},
                 {"&", HR_TOKEN_AMPERSAND}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        size_t length = strlen(signs[i].text);
        if (strncmp(token.text, signs[i].text, length) != 0) continue;
        const bool bits = signs[i].kind == HR_TOKEN_BAR || signs[i].kind == HR_TOKEN_AMPERSAND;
        if (bits && token.text[1] == *signs[i].text) continue; /* habits: || and && */
        token.kind = signs[i].kind;
        token.length = length;
        lexer->at = token.text + length;
        return token;
    }
    return unknown_token(lexer, token);
}

void hr_lexer_skip(hr_lexer *lexer, const char *to) {
    for (; lexer->at < to; lexer->at++)
        if (*lexer->at == '\n') {
            lexer->line++;
            lexer->line_text = lexer->at + 1;
            lexer->line_start = true;
        }
}

hr_token hr_lexer_next(hr_lexer *lexer) {
    skip_blanks(lexer);
    const char *at = lexer->at;
    hr_token token = {.text = at, .length = 1, .place = place_of(lexer, at), .line_start = lexer->line_start};
    lexer->line_start = false;
    if (at == lexer->end) {
        token.kind = HR_TOKEN_END;
        token.length = 0;
        token.line_start = true;
        return token;
    }
    if (is_digit(*at) || (*at == '.' && is_digit(at[1]))) return number_token(lexer, token);
    if (is_name(*at)) return name_token(lexer, token);
    if (*at == '"') return string_token(lexer, token);
    return sign_token(lexer, token);
}
