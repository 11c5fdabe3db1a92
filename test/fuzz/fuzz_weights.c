/* Any bytes as a file of weights: no crash, no leak, no hang; what comes out lies in the file.
 *
 * cmake -B build-fuzz -DHEADROOM_FUZZ=ON -DCMAKE_C_COMPILER=clang
 * build-fuzz/test/fuzz_weights -dict=test/fuzz/weights.dict NEW_FOLDER test/fuzz/corpus_weights
 */
#include "model/tokenizer.h"
#include "model/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

static void demand(bool holds) {
    if (!holds) abort();
}

static void check(const hr_weight_file *file, const uint8_t *data, size_t size) {
    for (int64_t i = 0; i < file->weight_count; i++) {
        const hr_weight *weight = &file->weights[i];
        demand(weight->data >= data && weight->bytes <= size &&
               weight->data - data <= (ptrdiff_t)(size - weight->bytes));
        demand(weight->rank >= 1 && weight->rank <= HR_WEIGHT_RANK_MOST);
        for (int number = 0; number < weight->format->view_count; number++) {
            hr_weight_view view;
            hr_weight_view_make(weight, number, &view);
            demand(view.array.rank >= weight->rank);
        }
    }
    for (int64_t i = 0; i < file->value_count; i++) {
        const hr_bytes *bytes = &file->values[i].bytes;
        demand((const uint8_t *)bytes->at >= data && bytes->length <= size);
    }
}

static void check_tokenizer(const hr_weight_file *file, const uint8_t *data, size_t size) {
    hr_tokenizer *tokenizer;
    hr_tokens tokens = {0};
    if (hr_tokenizer_create(file, &tokenizer) != HR_OK) return;
    demand(hr_tokenizer_encode(tokenizer, (const char *)data, size < 512 ? size : 512, HR_SPECIAL_AS_TOKENS,
                               &tokens) == HR_OK);
    for (size_t i = 0; i < tokens.count; i++)
        demand(tokens.items[i] >= 0 && tokens.items[i] < hr_tokenizer_size(tokenizer));
    hr_tokens_clear(&tokens);
    hr_tokenizer_destroy(tokenizer);
}

/* What lies beside safetensors files: the same object as tokenizer.json and as its settings. */
static void check_described(const uint8_t *data, size_t size) {
    hr_weight_file file = {.path = "fuzz", .kind = HR_WEIGHTS_SAFETENSORS};
    json_t *described = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    if (described && hr_arena_create((size_t)64 << 20, &file.arena) == HR_OK) {
        if (hr_tokenizer_json_read(&file, "fuzz", described, described) == HR_OK)
            check_tokenizer(&file, data, size);
        else
            demand(*hr_last_error());
        hr_arena_destroy(file.arena);
    }
    json_decref(described);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hr_weight_file file = {.path = "fuzz"};
    if (hr_arena_create((size_t)64 << 20, &file.arena) != HR_OK) return 0;
    if (size > 0 && *data == '{') check_described(data, size);
    bool gguf = size >= 4 && memcmp(data, "GGUF", 4) == 0;
    file.kind = gguf ? HR_WEIGHTS_GGUF : HR_WEIGHTS_SAFETENSORS;
    hr_status status =
        gguf ? hr_gguf_read(&file, data, size) : hr_safetensors_read(&file, "fuzz", data, size);
    if (status == HR_OK) {
        check(&file, data, size);
        if (gguf) check_tokenizer(&file, data, size);
    } else
        demand(*hr_last_error());
    hr_arena_destroy(file.arena);
    return 0;
}
