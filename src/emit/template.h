/* Fixed text with named holes: the files of src/emit/templates/, embedded at build time.
 *
 * In: a text and what its holes stand for. Out: the text, filled. A hole is a whole word, in capitals.
 */
#ifndef HR_EMIT_TEMPLATE_H
#define HR_EMIT_TEMPLATE_H

#include "base/text.h"

typedef struct hr_hole {
    const char *name, *value;
} hr_hole;

void hr_template_append(const unsigned char *text, const hr_hole *holes, int count, hr_text *out);

#endif
