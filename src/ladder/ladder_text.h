/* The steps' files, embedded at build time. All are terminated. */
#ifndef HR_LADDER_LADDER_TEXT_H
#define HR_LADDER_LADDER_TEXT_H

extern const unsigned char hr_gemm_naive_text[], hr_gemm_coalesced_text[], hr_gemm_shared_text[],
    hr_gemm_registers_text[], hr_gemm_vectorised_text[], hr_gemm_asynchronous_text[], hr_gemm_wmma_text[],
    hr_gemm_mma_text[], hr_gemm_swizzled_text[], hr_gemm_ring_text[], hr_gemm_wgmma_text[],
    hr_gemm_specialised_text[], hr_gemm_ping_pong_text[], hr_gemm_planned_text[];
extern const unsigned char hr_softmax_naive_text[], hr_softmax_warp_text[], hr_softmax_vectorised_text[],
    hr_softmax_one_pass_text[], hr_softmax_cluster_text[], hr_softmax_planned_text[];
extern const unsigned char hr_attention_stages_text[], hr_attention_tiled_text[],
    hr_attention_registers_text[], hr_attention_wgmma_text[], hr_attention_specialised_text[],
    hr_attention_out_of_step_text[], hr_attention_planned_text[];
/* What several steps of a ladder share. */
extern const unsigned char hr_gemm_warp_text[], hr_gemm_warpgroup_text[];
extern const unsigned char hr_softmax_row_text[], hr_softmax_kept_text[];
extern const unsigned char hr_attention_warp_text[], hr_attention_online_text[], hr_attention_group_text[],
    hr_attention_roles_text[];

#endif
