/* What a plan chooses for its matrix products: the register tile and the sizes of blocks. */
#ifndef HR_SCHEDULE_CPU_CONTRACT_CHOICE_H
#define HR_SCHEDULE_CPU_CONTRACT_CHOICE_H

#include "plan/plan.h"
#include "schedule/cpu/contract_blocks.h"

/* The right operand's rows, or how many numbers a sum has. */
typedef enum hr_contract_limited { HR_LIMITED_COLUMNS, HR_LIMITED_DEPTH } hr_contract_limited;

typedef struct hr_contract_choice {
    struct contract_choice blocks; /* of the vector unit */
    struct contract_choice packed; /* of the unit for neighbours along k, where `bf16` or `bytes` */
    int vectors;                   /* of a row of the register tile */
    int strip;                     /* its steps along k without a branch between them */
    bool double_precision;
    hr_contract_limited limited; /* what data limit, a batch at a time: no more than */
    const hr_expr *limit;        /* this, + 1 with `limit_more`; NULL = all count */
    bool limit_more;
    bool bf16;  /* all values of both operands are bf16: a unit for pairs may multiply them */
    bool bytes; /* all are bytes, and vectors multiply these in fours */
} hr_contract_choice;

hr_contract_choice hr_contract_choice_of(const hr_plan *plan, const hr_stage *stage);

#endif
