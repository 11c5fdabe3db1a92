/* Separators of thousands and fractions. In: bytes. Out: what they tell, and values. */
#include "trace/locale_number.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_MAX 64

/* Without what parts thousands in any locale: blanks, apostrophes, blanks of several bytes. False where
 * something else than digits and separators is there. */
static bool number_strip(const char *text, size_t length, char out[LENGTH_MAX]) {
    size_t put = 0, digits = 0;
    if (!length || length >= LENGTH_MAX) return false;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte == ' ' || byte == '\'' || byte >= 0x80) continue;
        bool digit = byte >= '0' && byte <= '9';
        if (!digit && !strchr(",.-+eE", byte)) return false;
        digits += digit;
        out[put++] = text[i];
    }
    out[put] = 0;
    return digits > 0;
}

static size_t digits_from(const char *at) {
    return strspn(at, "0123456789");
}

hr_number_tells hr_number_tell(const char *text, size_t length) {
    char bare[LENGTH_MAX];
    if (!number_strip(text, length, bare)) return HR_NUMBER_TELLS_NOTHING;
    const char *comma = strchr(bare, ','), *point = strchr(bare, '.');
    if (comma && point) return comma < point ? HR_NUMBER_TELLS_POINT : HR_NUMBER_TELLS_COMMA;
    const char *sign = comma ? comma : point;
    if (!sign) return HR_NUMBER_TELLS_NOTHING;
    if (strchr(sign + 1, *sign)) return comma ? HR_NUMBER_TELLS_POINT : HR_NUMBER_TELLS_COMMA;
    const char *first = bare + strspn(bare, "-+");
    size_t before = digits_from(first), behind = digits_from(sign + 1);
    bool groups = first + before == sign && before >= 1 && before <= 3 && *first != '0' && behind == 3 &&
                  !sign[1 + behind];
    if (groups) return HR_NUMBER_TELLS_EITHER;
    return comma ? HR_NUMBER_TELLS_COMMA : HR_NUMBER_TELLS_POINT;
}

double hr_number_read(const char *text, size_t length, char fraction) {
    char bare[LENGTH_MAX], clean[LENGTH_MAX], *end;
    size_t put = 0;
    if (!number_strip(text, length, bare)) return NAN;
    for (const char *at = bare; *at; at++) {
        if (*at == fraction)
            clean[put++] = '.';
        else if (*at != ',' && *at != '.')
            clean[put++] = *at;
    }
    clean[put] = 0;
    double value = strtod(clean, &end);
    return end == clean || *end || isinf(value) ? NAN : value;
}
