/* tokenizer.json -> the values by which a GGUF file describes a tokenizer.
 *
 * In: the JSON that lies beside safetensors files, hostile until proven. Out: values of the file with GGUF's
 * names, so that a vocabulary has one reader. What such a file may ask for beyond these is refused.
 */
#ifndef HR_MODEL_TOKENIZER_JSON_H
#define HR_MODEL_TOKENIZER_JSON_H

#include "model/weight_file.h"

/* `settings`: tokenizer_config.json, may be NULL. `path` is for messages. Copies what it keeps. */
hr_status hr_tokenizer_json_read(hr_weight_file *file, const char *path, const json_t *tokenizer,
                                 const json_t *settings);
#endif
