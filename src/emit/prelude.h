/* The text that emitted code begins with: lanes, conversions, vector math, random numbers, streaming stores;
 * for CUDA the PTX wrappers, the main loops of products and attention, and the scalar functions.
 *
 * It lives in src/emit/templates/ and is embedded into the library. A paragraph of it (what stands between
 * blank lines) is a section; a section is emitted where a name that it defines is used.
 */
#ifndef HR_EMIT_PRELUDE_H
#define HR_EMIT_PRELUDE_H

#include "emit/printer.h"

typedef enum hr_prelude {
    HR_PRELUDE_C,
    HR_PRELUDE_CUDA,     /* the PTX wrappers that are used stand in front */
    HR_PRELUDE_INTERVAL, /* base/interval.h, of C and CUDA */
    HR_PRELUDE_HELPERS,  /* of C: checks of subscripts, the first position of the largest or smallest lane */
    HR_PRELUDE_CONTRACT_BLOCKS, /* of products in C: how they are cut, for every type */
    HR_PRELUDE_CONTRACT_F32,    /* the main loop and the vector unit, by what the sums are */
    HR_PRELUDE_CONTRACT_F64,
    HR_PRELUDE_CONTRACT_ATTEND, /* two products with rows between them */
    HR_PRELUDE_CONTRACT_TILES,  /* the matrix unit's, for values that are bf16 */
    HR_PRELUDE_CONTRACT_DOTS,   /* instead, where vectors multiply pairs of bf16 */
    HR_PRELUDE_CONTRACT_BYTES,  /* of vectors that multiply bytes in fours, behind f64's */
    HR_PRELUDE_THREADS,         /* of C: OpenMP or none */
} hr_prelude;

/* Appends the sections that `body` uses, directly or through other sections; NULL = all. `printer`: of the
 * file that defines their names then (hr_define); NULL = nobody asks for these. */
hr_status hr_prelude_append(hr_prelude prelude, const char *body, hr_printer *printer, hr_text *out);

#endif
