/* The main loop of matrix products as text, embedded at build time. */
#ifndef HR_EMIT_C_CONTRACT_TEXT_H
#define HR_EMIT_C_CONTRACT_TEXT_H

extern const unsigned char hr_contract_blocks_text[];   /* terminated; for every compute type */
extern const unsigned char hr_contract_mainloop_text[]; /* and the vector unit's; has holes */
extern const unsigned char hr_contract_attend_text[];   /* two products with rows between them */
extern const unsigned char hr_contract_tiles_text[];    /* the matrix unit's, for values that are bf16 */
extern const unsigned char hr_contract_dots_text[];     /* instead, where vectors multiply pairs of bf16 */

#endif
