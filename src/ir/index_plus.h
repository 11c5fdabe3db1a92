/* Subscripts along which an index runs: the index plus something that does not vary with it. */
#ifndef HR_IR_INDEX_PLUS_H
#define HR_IR_INDEX_PLUS_H

#include "ir/function.h"

/* index, index + c, c + index or index - c, where `varies` says of c that it does not vary with the index. */
bool hr_is_index_plus(const hr_expr *subscript, int index,
                      bool (*varies)(const void *context, const hr_expr *node), const void *context);

#endif
