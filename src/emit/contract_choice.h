/* What a plan chooses for its matrix products: the register tile and the sizes of blocks. */
#ifndef HR_EMIT_CONTRACT_CHOICE_H
#define HR_EMIT_CONTRACT_CHOICE_H

#include "plan/plan.h"

#include "emit/contract/contract_blocks.h"

typedef struct hr_contract_choice {
    struct contract_choice blocks;
    int vectors; /* of a row of the register tile */
    bool double_precision;
} hr_contract_choice;

hr_contract_choice hr_contract_choice_of(const hr_plan *plan, const hr_stage *stage);

#endif
