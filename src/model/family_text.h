/* The texts of the families and what they share, as embed_texts() of CMakeLists.txt holds them:
 * models/NAME.hr. */
#ifndef HR_MODEL_FAMILY_TEXT_H
#define HR_MODEL_FAMILY_TEXT_H

extern const unsigned char hr_layers_text[], hr_weights_text[], hr_packed_text[], hr_paged_text[],
    hr_blocks_text[], hr_cached_text[], hr_alone_text[], hr_together_text[], hr_sampling_text[],
    hr_llama_text[], hr_qwen2_text[], hr_qwen3_text[], hr_gemma3_text[], hr_gpt2_text[]; /* terminated */

#endif
