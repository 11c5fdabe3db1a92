/* Text <-> tokens, by the vocabulary that a model's file holds.
 *
 * In: a GGUF file's tokens, merges or scores. Out: tokens of a text, bytes of a token. Two families: merges
 * within words of bytes (GPT-2, Llama-3, Qwen, SmolLM), and pieces with scores over the whole text
 * (SentencePiece: Llama-2, Gemma). Both take n log n steps for n bytes.
 */
#ifndef HR_MODEL_TOKENIZER_H
#define HR_MODEL_TOKENIZER_H

#include "model/weight_file.h"

typedef struct hr_tokenizer hr_tokenizer;

/* The strings stay in `file`, which must live as long. */
hr_status hr_tokenizer_create(const hr_weight_file *file, hr_tokenizer **out);
void hr_tokenizer_destroy(hr_tokenizer *tokenizer);
int32_t hr_tokenizer_size(const hr_tokenizer *tokenizer);

typedef struct hr_tokens {
    int32_t *items;
    size_t count, capacity;
} hr_tokens;

void hr_tokens_clear(hr_tokens *tokens); /* frees */
hr_status hr_tokens_add(hr_tokens *tokens, int32_t token);
/* Appends the text's tokens. */
hr_status hr_tokenizer_encode(const hr_tokenizer *tokenizer, const char *text, size_t length,
                              hr_special_names names, hr_tokens *out);
/* The bytes of a token; none for one that is not text, or not there. A character's bytes may be spread over
 * tokens. */
hr_bytes hr_tokenizer_bytes(const hr_tokenizer *tokenizer, int32_t token);
/* What a text begins with, -1 = nothing. */
int32_t hr_tokenizer_begin(const hr_tokenizer *tokenizer);
/* Whether a text ends here. */
bool hr_tokenizer_ends(const hr_tokenizer *tokenizer, int32_t token);

/* Where a file says so: GGUF's keys, then those of what else a configuration lists. */
enum { HR_END_KEYS = 8 };
extern const char *const hr_end_keys[HR_END_KEYS];

#endif
