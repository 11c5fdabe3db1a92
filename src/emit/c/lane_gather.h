/* Lanes of elements that do not lie side by side: each is read on its own, and what is computed from them is
 * vectors all the same. */
#ifndef HR_EMIT_C_LANE_GATHER_H
#define HR_EMIT_C_LANE_GATHER_H

#include "emit/c/lane_pass.h"

/* Prints the lines that bring an element of lane level; gives the vector's text. */
const char *hr_lane_gather(hr_printer *p, const hr_expr *element);
/* Prints from which lane to which all rows among them are on their axes: `inside_from`, `inside_to`. Whether
 * there are any. There, with `inside` of the printer, they are read as vectors without a question. */
bool hr_lane_gather_bounds(hr_printer *p, const hr_lane_pass *pass);

#endif
