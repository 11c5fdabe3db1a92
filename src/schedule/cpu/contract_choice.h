/* What a plan chooses for its matrix products: the register tile and the sizes of blocks. */
#ifndef HR_SCHEDULE_CPU_CONTRACT_CHOICE_H
#define HR_SCHEDULE_CPU_CONTRACT_CHOICE_H

#include "plan/plan.h"
#include "schedule/cpu/contract_blocks.h"

typedef struct hr_contract_choice {
    struct contract_choice blocks; /* of the vector unit */
    struct contract_choice pairs;  /* of the unit that multiplies pairs, where `bf16` */
    int vectors;                   /* of a row of the register tile */
    int strip;                     /* its steps along k without a branch between them */
    bool double_precision;
    const hr_expr *limit; /* of a batch, where data say it: no more of the right operand's rows count, + 1
                             with `limit_more`; NULL = all do */
    bool limit_more;
    bool limits_depth; /* no more of k */
    bool bf16;         /* all values of both operands are bf16: such a unit may multiply them */
} hr_contract_choice;

hr_contract_choice hr_contract_choice_of(const hr_plan *plan, const hr_stage *stage);

#endif
