/* Numbers as locales write them: 41,248.5 or 41.248,5 or 41 248,5 or 41'248.5.
 *
 * In: the bytes of one number. Out: what it tells of its file's separators; its value, once the file's sign
 * of fractions is known. One number alone may not tell: 117.344 is 117 and a fraction, or 117 thousands.
 */
#ifndef HR_TRACE_LOCALE_NUMBER_H
#define HR_TRACE_LOCALE_NUMBER_H

#include <stddef.h>

/* A sign that stands twice parts thousands, as does the first of two different ones; a lone one begins a
 * fraction unless one to three digits stand before it and three behind it. */
typedef enum hr_number_tells {
    HR_NUMBER_TELLS_NOTHING, /* it has no separator, or is no number */
    HR_NUMBER_TELLS_POINT,   /* a point begins its fraction */
    HR_NUMBER_TELLS_COMMA,
    HR_NUMBER_TELLS_EITHER, /* it has one separator that may be of thousands or of a fraction */
    HR_NUMBER_TELLS_COUNT
} hr_number_tells;

hr_number_tells hr_number_tell(const char *text, size_t length);
/* `fraction`: '.' or ','; the other one and blanks part thousands. NAN where it is no number. */
double hr_number_read(const char *text, size_t length, char fraction);

#endif
