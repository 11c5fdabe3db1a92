/* Fixed text with holes: how the files of src/emit/templates/ are filled as the library is built.
 *
 * A hole is a word of the text (letters, digits, underscores), or a part of one between underscores, that the
 * caller names. So VF may stand for a type and begin the names of functions: with {"VF", "float", "f32"}
 * `VF VF_exp(VF x)` is `float f32_exp(float x)`.
 */
#ifndef TOOLS_TEMPLATE_H
#define TOOLS_TEMPLATE_H

#include "base/text.h"

typedef struct hole {
    const char *name;
    const char *word; /* what stands for it where it is a whole word; NULL = it is none there */
    const char *part; /* and where it is a part of one; NULL = it is none there */
} hole;

void template_append(const char *text, const hole *holes, int count, hr_text *out);

#endif
