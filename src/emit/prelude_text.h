/* The preludes' whole texts, embedded at build time (src/emit/templates/prelude.cmake). */
#ifndef HR_EMIT_PRELUDE_TEXT_H
#define HR_EMIT_PRELUDE_TEXT_H

#include <stddef.h>

extern const unsigned char hr_prelude_text[]; /* terminated */
extern const size_t hr_prelude_length;
extern const unsigned char hr_prelude_cuda_text[]; /* terminated */
extern const size_t hr_prelude_cuda_length;
extern const unsigned char hr_prelude_ptx_text[]; /* terminated */
extern const size_t hr_prelude_ptx_length;

#endif
