/* The text that emitted code begins with: lanes, conversions, vector math, random numbers, streaming stores;
 * for CUDA the PTX wrappers, the main loops of products and attention, and the scalar functions.
 *
 * It lives in src/emit/templates/ and is embedded into the library. A paragraph of it (what stands between
 * blank lines) is a section; a section is emitted where a name that it defines is used.
 */
#ifndef HR_EMIT_PRELUDE_H
#define HR_EMIT_PRELUDE_H

#include "base/text.h"

typedef enum hr_prelude {
    HR_PRELUDE_C,
    HR_PRELUDE_CUDA,     /* the PTX wrappers that are used stand in front */
    HR_PRELUDE_INTERVAL, /* base/interval.h, of C and CUDA */
    HR_PRELUDE_HELPERS,  /* of C: checks of subscripts, the first position of the largest or smallest lane */
} hr_prelude;

/* Appends the sections that `body` uses, directly or through other sections. */
hr_status hr_prelude_append(hr_prelude prelude, const char *body, hr_text *out);

#endif
