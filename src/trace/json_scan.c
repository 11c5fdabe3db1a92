/* One pass over the bytes, 16 at a time inside of strings. In: a padded buffer. Out: slices. */
#include "trace/json_scan.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---- bytes ---- */

enum { BLANK = 1, STOP = 2, OPEN = 4, CLOSE = 8, DIGIT = 16, AFTER = 32 };

static const uint8_t classes[256] = {
    [' '] = BLANK | STOP,
    ['\t'] = BLANK | STOP,
    ['\n'] = BLANK | STOP,
    ['\r'] = BLANK | STOP,
    [','] = STOP | AFTER,
    [':'] = STOP | AFTER,
    ['}'] = STOP | CLOSE | AFTER,
    [']'] = STOP | CLOSE | AFTER,
    ['{'] = STOP | OPEN,
    ['['] = STOP | OPEN,
    ['"'] = STOP,
    [0] = STOP,
    ['0'] = DIGIT,
    ['1'] = DIGIT,
    ['2'] = DIGIT,
    ['3'] = DIGIT,
    ['4'] = DIGIT,
    ['5'] = DIGIT,
    ['6'] = DIGIT,
    ['7'] = DIGIT,
    ['8'] = DIGIT,
    ['9'] = DIGIT,
};

static bool is(char byte, int class) {
    return classes[(unsigned char)byte] & class;
}

/* The next quote or backslash at or behind `at`; `end` or behind it where there is none. */
static const char *quote_or_backslash(const char *at, const char *end) {
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
    for (; at < end; at += 16) { /* the padding may be read */
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        int found =
            _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)));
        if (found) return at + __builtin_ctz((unsigned)found);
    }
    return end;
#else
    while (at < end && *at != '"' && *at != '\\')
        at++;
    return at;
#endif
}

char hr_json_peek(hr_json *json) {
    const char *at = json->at;
    while (is(*at, BLANK)) /* the padding is no blank */
        at++;
    json->at = at;
    if (at < json->end) return *at;
    json->more = true;
    return 0;
}

static bool fail(hr_json *json) {
    json->bad = !json->more;
    return false;
}

/* ---- values ---- */

/* From behind the opening quote to behind the closing one. */
static bool string_take(hr_json *json, hr_json_slice *out) {
    const char *begin = json->at, *at = begin;
    *out = (hr_json_slice){.text = begin, .kind = HR_JSON_STRING};
    for (;; at++) {
        at = quote_or_backslash(at, json->end);
        if (at >= json->end) break;
        if (*at == '\\') {
            out->escaped = true;
            at++;
            continue;
        }
        if (is(at[1], AFTER)) {
            out->length = (size_t)(at - begin);
            json->at = at + 1;
            return true;
        }
        const char *next = at + 1;
        while (is(*next, BLANK))
            next++;
        if (next >= json->end) break;
        if (is(*next, AFTER)) {
            out->length = (size_t)(at - begin);
            json->at = next;
            return true;
        }
    }
    json->more = true;
    return false;
}

/* To behind the bracket that closes what is open `depth` deep; 0: what opens at the cursor. */
static bool nested_take(hr_json *json, int64_t depth) {
    hr_json_slice string;
    const char *at = json->at;
    while (at < json->end) {
        while (!is(*at, OPEN | CLOSE) && *at != '"' && at < json->end)
            at++;
        if (at >= json->end) break;
        if (*at == '"') {
            json->at = at + 1;
            if (!string_take(json, &string)) return false;
            at = json->at;
            continue;
        }
        depth += is(*at, OPEN) ? 1 : -1;
        at++;
        if (depth == 0) {
            json->at = at;
            return true;
        }
    }
    json->more = true;
    return false;
}

bool hr_json_take(hr_json *json, hr_json_slice *out) {
    char first = hr_json_peek(json);
    if (json->more) return false;
    if (first == '"') {
        json->at++;
        return string_take(json, out);
    }
    const char *begin = json->at;
    if (is(first, OPEN)) {
        if (!nested_take(json, 0)) return false;
        *out = (hr_json_slice){.text = begin,
                               .length = (size_t)(json->at - begin),
                               .kind = first == '{' ? HR_JSON_OBJECT : HR_JSON_ARRAY};
        return true;
    }
    const char *at = begin;
    while (!is(*at, STOP))
        at++;
    if (at >= json->end) {
        json->more = true;
        return false;
    }
    if (at == begin) return fail(json);
    json->at = at;
    *out = (hr_json_slice){.text = begin, .length = (size_t)(at - begin), .kind = HR_JSON_NUMBER};
    return true;
}

bool hr_json_member(hr_json *json, hr_json_slice *key) {
    char next = hr_json_peek(json);
    while (next == ',') {
        json->at++;
        next = hr_json_peek(json);
    }
    if (next == '}') {
        json->at++;
        return false;
    }
    if (next != '"') return fail(json);
    json->at++;
    if (!string_take(json, key)) return false;
    if (hr_json_peek(json) != ':') return fail(json);
    json->at++;
    return true;
}

bool hr_json_leave(hr_json *json) {
    return nested_take(json, 1);
}

bool hr_json_element(hr_json *json) {
    char next = hr_json_peek(json);
    while (next == ',') {
        json->at++;
        next = hr_json_peek(json);
    }
    if (next == ']') json->at++;
    return next != ']' && !json->more;
}

/* ---- what slices mean ---- */

bool hr_json_is(const hr_json_slice *slice, const char *text) {
    size_t length = strlen(text);
    return slice->length == length && memcmp(slice->text, text, length) == 0;
}

bool hr_json_real(const hr_json_slice *slice, double *out) {
    char copy[64], *end;
    if (slice->kind != HR_JSON_NUMBER && slice->kind != HR_JSON_STRING) return false;
    if (!slice->length || slice->length >= sizeof copy) return false;
    memcpy(copy, slice->text, slice->length);
    copy[slice->length] = 0;
    double value = strtod(copy, &end);
    if (end == copy || *end || value != value) return false;
    *out = value;
    return true;
}

/* Digits from `at` on, added to *value; their end. */
static const char *digits_take(const char *at, const char *end, int64_t *value, bool *beyond) {
    if (end - at <= 18) { /* whatever they are, they fit */
        int64_t sum = *value;
        for (; at < end && is(*at, DIGIT); at++)
            sum = sum * 10 + (*at - '0');
        *value = sum;
        return at;
    }
    for (; at < end && is(*at, DIGIT); at++)
        *beyond |=
            __builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *at - '0', value);
    return at;
}

/* The value times `scale`, a power of ten, towards zero; digits only as far as they count. */
static bool decimal(const hr_json_slice *slice, int64_t scale, int64_t *out) {
    const char *at = slice->text, *end = at + slice->length;
    bool negative = at < end && *at == '-', beyond = false;
    if (slice->kind != HR_JSON_NUMBER && slice->kind != HR_JSON_STRING) return false;
    at += negative;
    if (at >= end || !is(*at, DIGIT)) return false;
    int64_t value = 0;
    at = digits_take(at, end, &value, &beyond);
    beyond |= __builtin_mul_overflow(value, scale, &value);
    if (at < end && *at == '.')
        for (at++; at < end && is(*at, DIGIT); at++) {
            scale /= 10;
            beyond |= __builtin_add_overflow(value, (*at - '0') * scale, &value);
        }
    if (at != end) return false;
    *out = beyond ? (negative ? INT64_MIN : INT64_MAX) : negative ? -value : value;
    return true;
}

/* With an exponent: through a double. */
static bool scaled(const hr_json_slice *slice, int64_t scale, int64_t *out) {
    double real;
    if (decimal(slice, scale, out)) return true;
    if (!hr_json_real(slice, &real)) return false;
    real *= (double)scale;
    *out = real >= 0x1p63 ? INT64_MAX : real < -0x1p63 ? INT64_MIN : (int64_t)real;
    return true;
}

bool hr_json_whole(const hr_json_slice *slice, int64_t *out) {
    return scaled(slice, 1, out);
}

bool hr_json_thousandths(const hr_json_slice *slice, int64_t *out) {
    return scaled(slice, 1000, out);
}

/* ---- escapes ---- */

static bool hex(const char *at, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++) {
        char digit = at[i];
        int value = is(digit, DIGIT)               ? digit - '0'
                    : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                    : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                   : -1;
        if (value < 0) return false;
        *out = *out << 4 | (uint32_t)value;
    }
    return true;
}

static char *utf8_put(char *to, uint32_t code) {
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char leads[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(leads[more] | code >> (6 * more));
    while (more--)
        *to++ = (char)(0x80 | (code >> (6 * more) & 0x3f));
    return to;
}

/* Behind \u: four digits, or two times four for a pair. Gives the bytes consumed. */
static size_t unicode_take(const char *at, size_t left, uint32_t *code) {
    uint32_t low;
    if (left < 4 || !hex(at, code)) {
        *code = '?';
        return 0;
    }
    bool pair = *code >= 0xd800 && *code < 0xdc00 && left >= 10 && at[4] == '\\' && at[5] == 'u';
    if (pair && hex(at + 6, &low) && low >= 0xdc00 && low < 0xe000) {
        *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
        return 10;
    }
    if (*code >= 0xd800 && *code < 0xe000) *code = '?';
    return 4;
}

size_t hr_json_unescape(const hr_json_slice *slice, char *out) {
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    const char *at = slice->text, *end = at + slice->length;
    char *put = out;
    while (at < end) {
        if (*at != '\\' || at + 1 == end) {
            *put++ = *at++;
            continue;
        }
        char letter = at[1];
        at += 2;
        if (letter == 'u') {
            uint32_t code;
            at += unicode_take(at, (size_t)(end - at), &code);
            put = utf8_put(put, code);
        } else {
            const char *known = letter ? strchr(from, letter) : NULL;
            *put++ = known ? to[known - from] : letter;
        }
    }
    return (size_t)(put - out);
}
