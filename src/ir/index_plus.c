/* An index plus something that does not vary with it. In: a subscript. Out: whether it is one. */
#include "ir/index_plus.h"

bool hr_is_index_plus(const hr_expr *subscript, int index,
                      bool (*varies)(const void *context, const hr_expr *node), const void *context) {
    while (subscript->op == HR_OP_ADD || subscript->op == HR_OP_SUB) {
        const bool right = varies(context, subscript->args[1]);
        if (right && (subscript->op == HR_OP_SUB || varies(context, subscript->args[0]))) return false;
        subscript = subscript->args[right];
    }
    return subscript->op == HR_OP_INDEX && subscript->index == index;
}
