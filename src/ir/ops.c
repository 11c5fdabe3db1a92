/* The table of operations. In: an op. Out: its name, arity and cost. */
#include "ir/ops.h"

const hr_op_info *hr_op_info_of(hr_op op) {
    static const hr_op_info infos[] = {
#define OP_ROW(op, name, arity, vector, special) {name, arity, vector, HR_SPECIAL_##special},
        HR_OPS(OP_ROW)
#undef OP_ROW
    };
    return &infos[op];
}
