/* The text that emitted C begins with: lanes, conversions, vector math, random numbers, streaming stores.
 *
 * It lives in src/emit/templates/cpu/ as C that compiles by itself and is embedded into the library. A
 * paragraph of it (what stands between blank lines) is a section; a section is emitted where a name that it
 * defines is used.
 */
#ifndef HR_EMIT_PRELUDE_H
#define HR_EMIT_PRELUDE_H

#include "base/text.h"

/* Appends the sections that `body` uses, directly or through other sections, in the prelude's order. */
hr_status hr_prelude_append(const char *body, hr_text *out);
/* The same of a text of the caller's. */
hr_status hr_prelude_trim(const char *text, const char *body, hr_text *out);
/* The same of the text for CUDA, the PTX wrappers that either uses in front. */
hr_status hr_prelude_cuda_append(const char *body, hr_text *out);

#endif
