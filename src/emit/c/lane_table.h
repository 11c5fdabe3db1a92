/* Values of lanes that follow from a number from 0 to 15 alone, `code[w % 16]` or (w % 16 - 8) * scale: the
 * sixteen that there are stand in a table, which registers hold, and each lane picks its own.
 */
#ifndef HR_EMIT_C_LANE_TABLE_H
#define HR_EMIT_C_LANE_TABLE_H

#include "emit/expression.h"

typedef struct hr_lane_table {
    const char *name;
    const hr_expr *seed; /* the number */
    hr_emit_level level; /* the deepest of what else the values depend on: where the table is made */
} hr_lane_table;

/* Whether `node` of lane level is such a value and a table pays; where there is none yet, its lines are
 * printed if this is its level. Its seed is what lanes still need. */
bool hr_lane_table_prepare(hr_printer *printer, const hr_expr *node, hr_emit_level level,
                           const hr_expr **seed);
/* The lanes' values, once it was printed. */
const char *hr_lane_table_text(hr_printer *printer, const hr_expr *node);

#endif
