/* Hash tables of tokens and of merges. In: a file. Out: look-ups. See vocabulary.h. */
#define _DEFAULT_SOURCE /* getentropy */
#include "model/vocabulary.h"

#include "base/text.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define ARENA_SIZE ((size_t)1 << 30) /* of address space */
#define BYTE_CODES 512               /* code points that stand for bytes lie below */

/* ---- look-ups ---- */

int32_t hr_vocabulary_find(const hr_vocabulary *vocabulary, const char *at, size_t length) {
    size_t slot = XXH3_64bits_withSeed(at, length, vocabulary->seed) & vocabulary->slot_mask;
    for (; vocabulary->slots[slot] >= 0; slot = (slot + 1) & vocabulary->slot_mask) {
        const hr_bytes *bytes = &vocabulary->pieces[vocabulary->slots[slot]].bytes;
        if (bytes->length == length && memcmp(bytes->at, at, length) == 0) return vocabulary->slots[slot];
    }
    return -1;
}

static size_t merge_slot(const hr_vocabulary *vocabulary, int32_t left, int32_t right) {
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t slot = XXH3_64bits_withSeed(&pair, sizeof pair, vocabulary->seed) & vocabulary->merge_mask;
    while (vocabulary->merges[slot].left >= 0 &&
           (vocabulary->merges[slot].left != left || vocabulary->merges[slot].right != right))
        slot = (slot + 1) & vocabulary->merge_mask;
    return slot;
}

int32_t hr_vocabulary_merge(const hr_vocabulary *vocabulary, int32_t left, int32_t right, const char *at,
                            size_t length, float *order) {
    if (vocabulary->merges) {
        if (left < 0 || right < 0) return -1;
        const hr_merge *merge = &vocabulary->merges[merge_slot(vocabulary, left, right)];
        *order = (float)merge->rank;
        return merge->left < 0 ? -1 : merge->result;
    }
    int32_t found = hr_vocabulary_find(vocabulary, at, length);
    const hr_piece_kind kind = found < 0 ? HR_PIECE_UNKNOWN : vocabulary->pieces[found].kind;
    if (kind == HR_PIECE_UNKNOWN || kind == HR_PIECE_CONTROL || kind == HR_PIECE_BYTE) return -1;
    *order = -vocabulary->pieces[found].score;
    return found;
}

/* ---- tables from a file ---- */

static hr_status room_take(hr_vocabulary *vocabulary, const hr_weight_file *file, size_t size, void **out) {
    if (hr_arena_room(vocabulary->arena) < size + 64)
        return hr_fail(HR_BAD_INPUT, "%s: its vocabulary is larger than that of a model", file->path);
    *out = hr_arena_alloc(vocabulary->arena, size);
    return HR_OK;
}

static hr_status array_find(const hr_weight_file *file, const char *key, hr_file_type element, uint64_t count,
                            const hr_file_value **out) {
    const hr_file_value *value = hr_file_value_find(file, key);
    *out = NULL;
    if (!value) return HR_OK;
    if (value->type != HR_FILE_ARRAY || value->element != element || (count && value->count != count))
        return hr_fail(HR_BAD_INPUT, "%s: %s is no list as long as the vocabulary, or of another type",
                       file->path, key);
    *out = value;
    return HR_OK;
}

/* The power of two that is at least twice `count`. */
static size_t slots_for(uint64_t count) {
    size_t slots = 16;
    while (slots < 2 * count)
        slots *= 2;
    return slots;
}

static hr_status pieces_index(hr_vocabulary *vocabulary, const hr_weight_file *file) {
    size_t slots = slots_for((uint64_t)vocabulary->count);
    void *memory = NULL;
    HR_TRY(room_take(vocabulary, file, slots * sizeof *vocabulary->slots, &memory));
    vocabulary->slots = memory;
    vocabulary->slot_mask = slots - 1;
    memset(vocabulary->slots, 0xff, slots * sizeof *vocabulary->slots);
    for (int32_t i = 0; i < vocabulary->count; i++) {
        const hr_bytes *bytes = &vocabulary->pieces[i].bytes;
        if (hr_vocabulary_find(vocabulary, bytes->at, bytes->length) >= 0) continue; /* the first of equals */
        size_t slot =
            XXH3_64bits_withSeed(bytes->at, bytes->length, vocabulary->seed) & vocabulary->slot_mask;
        while (vocabulary->slots[slot] >= 0)
            slot = (slot + 1) & vocabulary->slot_mask;
        vocabulary->slots[slot] = i;
    }
    return HR_OK;
}

static hr_status pieces_read(hr_vocabulary *vocabulary, const hr_weight_file *file) {
    const hr_file_value *tokens, *kinds, *scores;
    HR_TRY(array_find(file, "tokenizer.ggml.tokens", HR_FILE_STRING, 0, &tokens));
    if (!tokens || tokens->count == 0 || tokens->count > INT32_MAX / 4)
        return hr_fail(HR_BAD_INPUT, "%s: holds no vocabulary (tokenizer.ggml.tokens)", file->path);
    HR_TRY(array_find(file, "tokenizer.ggml.token_type", HR_FILE_I32, tokens->count, &kinds));
    HR_TRY(array_find(file, "tokenizer.ggml.scores", HR_FILE_F32, tokens->count, &scores));
    void *memory = NULL;
    HR_TRY(room_take(vocabulary, file, tokens->count * sizeof *vocabulary->pieces, &memory));
    vocabulary->pieces = memory;
    vocabulary->count = (int32_t)tokens->count;
    const char *at = tokens->bytes.at;
    for (int32_t i = 0; i < vocabulary->count; i++) {
        hr_piece *piece = &vocabulary->pieces[i];
        piece->bytes = hr_file_next_string(&at);
        double kind = kinds ? hr_file_element(kinds, (uint64_t)i) : HR_PIECE_NORMAL;
        bool known = kind >= HR_PIECE_NORMAL && kind <= HR_PIECE_BYTE;
        piece->kind = known ? (hr_piece_kind)kind : HR_PIECE_UNUSED;
        piece->score = scores ? (float)hr_file_element(scores, (uint64_t)i) : 0;
    }
    return HR_OK;
}

/* ---- the family of merges ---- */

/* GPT-2's way to write any byte as a letter: printable ones as they are, the others from 256 on. */
static void byte_codes(short bytes[BYTE_CODES]) {
    int next = 256;
    memset(bytes, 0xff, BYTE_CODES * sizeof *bytes);
    for (int byte = 0; byte < 256; byte++) {
        bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        bytes[printable ? byte : next++] = (short)byte;
    }
}

/* Letters -> bytes; letters that stand for none stay as they are. */
static hr_status bytes_decode(hr_vocabulary *vocabulary, const hr_weight_file *file,
                              const short codes[BYTE_CODES], hr_bytes *bytes) {
    void *memory = NULL;
    HR_TRY(room_take(vocabulary, file, bytes->length, &memory));
    char *out = memory;
    size_t length = 0;
    for (size_t at = 0, taken; at < bytes->length; at += taken) {
        uint32_t code = 0;
        taken = hr_utf8_take(bytes->at + at, bytes->length - at, &code);
        if (taken && code < BYTE_CODES && codes[code] >= 0)
            out[length++] = (char)codes[code];
        else {
            if (!taken) taken = 1;
            memcpy(out + length, bytes->at + at, taken);
            length += taken;
        }
    }
    *bytes = (hr_bytes){out, length};
    return HR_OK;
}

static hr_status merge_add(hr_vocabulary *vocabulary, const hr_weight_file *file,
                           const short codes[BYTE_CODES], hr_bytes text, int32_t rank) {
    const char *space = text.length > 1 ? memchr(text.at + 1, ' ', text.length - 1) : NULL;
    if (!space) return hr_fail(HR_BAD_INPUT, "%s: merge %" PRId32 " names no two tokens", file->path, rank);
    size_t mark = hr_arena_mark(vocabulary->arena), before = (size_t)(space - text.at);
    hr_bytes left = {text.at, before}, right = {space + 1, text.length - before - 1}, both;
    if (vocabulary->spelling == HR_SPELLING_BYTES) {
        HR_TRY(bytes_decode(vocabulary, file, codes, &left));
        HR_TRY(bytes_decode(vocabulary, file, codes, &right));
    }
    void *memory = NULL;
    HR_TRY(room_take(vocabulary, file, left.length + right.length, &memory));
    memcpy(memory, left.at, left.length);
    memcpy((char *)memory + left.length, right.at, right.length);
    both = (hr_bytes){memory, left.length + right.length};
    hr_merge merge = {hr_vocabulary_find(vocabulary, left.at, left.length),
                      hr_vocabulary_find(vocabulary, right.at, right.length),
                      hr_vocabulary_find(vocabulary, both.at, both.length), rank};
    hr_arena_release(vocabulary->arena, mark);
    if (merge.left < 0 || merge.right < 0 || merge.result < 0)
        return HR_OK; /* of tokens that were left out */
    hr_merge *slot = &vocabulary->merges[merge_slot(vocabulary, merge.left, merge.right)];
    if (slot->left < 0) *slot = merge;
    return HR_OK;
}

static hr_status merges_read(hr_vocabulary *vocabulary, const hr_weight_file *file) {
    short codes[BYTE_CODES];
    byte_codes(codes);
    for (int32_t i = 0; i < vocabulary->count; i++)
        if (vocabulary->pieces[i].kind == HR_PIECE_NORMAL && vocabulary->spelling == HR_SPELLING_BYTES)
            HR_TRY(bytes_decode(vocabulary, file, codes, &vocabulary->pieces[i].bytes));
    HR_TRY(pieces_index(vocabulary, file));
    const hr_file_value *list;
    HR_TRY(array_find(file, "tokenizer.ggml.merges", HR_FILE_STRING, 0, &list));
    if (!list || list->count > INT32_MAX / 4)
        return hr_fail(HR_BAD_INPUT, "%s: its tokenizer has no merges (tokenizer.ggml.merges)", file->path);
    size_t slots = slots_for(list->count);
    void *memory = NULL;
    HR_TRY(room_take(vocabulary, file, slots * sizeof *vocabulary->merges, &memory));
    vocabulary->merges = memory;
    vocabulary->merge_mask = slots - 1;
    memset(vocabulary->merges, 0xff, slots * sizeof *vocabulary->merges);
    const char *at = list->bytes.at;
    for (int32_t i = 0; i < (int32_t)list->count; i++)
        HR_TRY(merge_add(vocabulary, file, codes, hr_file_next_string(&at), i));
    return HR_OK;
}

/* ---- texts ---- */

/* SentencePiece's sign for a space becomes one. */
static hr_status spaces_decode(hr_vocabulary *vocabulary, const hr_weight_file *file, hr_bytes bytes,
                               hr_bytes *out) {
    static const char sign[] = HR_SPACE_SIGN;
    void *memory = NULL;
    HR_TRY(room_take(vocabulary, file, bytes.length, &memory));
    char *text = memory;
    size_t length = 0;
    for (size_t at = 0; at < bytes.length;) {
        bool space = bytes.length - at >= strlen(sign) && memcmp(bytes.at + at, sign, strlen(sign)) == 0;
        text[length++] = space ? ' ' : bytes.at[at];
        at += space ? strlen(sign) : 1;
    }
    *out = (hr_bytes){text, length};
    return HR_OK;
}

/* A token for each byte: its own bytes, or <0xXX>. */
static hr_status bytes_find(hr_vocabulary *vocabulary, const hr_weight_file *file) {
    void *memory = NULL;
    HR_TRY(room_take(vocabulary, file, 256, &memory));
    for (int byte = 0; byte < 256; byte++) {
        char name[8], *letter = (char *)memory + byte;
        int length = snprintf(name, sizeof name, "<0x%02X>", byte);
        *letter = (char)byte;
        const bool letters = vocabulary->spelling == HR_SPELLING_BYTES;
        int32_t token = letters ? hr_vocabulary_find(vocabulary, letter, 1)
                                : hr_vocabulary_find(vocabulary, name, (size_t)length);
        vocabulary->bytes[byte] = token;
        if (token >= 0 && !letters) vocabulary->pieces[token].text = (hr_bytes){letter, 1};
    }
    return HR_OK;
}

static hr_status texts_find(hr_vocabulary *vocabulary, const hr_weight_file *file) {
    for (int32_t i = 0; i < vocabulary->count; i++) {
        hr_piece *piece = &vocabulary->pieces[i];
        piece->text = (hr_bytes){"", 0};
        bool text = piece->kind == HR_PIECE_NORMAL || piece->kind == HR_PIECE_USER;
        if (text && vocabulary->spelling == HR_SPELLING_BYTES)
            piece->text = piece->bytes;
        else if (text)
            HR_TRY(spaces_decode(vocabulary, file, piece->bytes, &piece->text));
    }
    return bytes_find(vocabulary, file);
}

/* ---- the whole ---- */

static hr_status vocabulary_read(hr_vocabulary *vocabulary, const hr_weight_file *file) {
    hr_bytes model = {"", 0};
    hr_file_string(file, "tokenizer.ggml.model", &model);
    HR_TRY(pieces_read(vocabulary, file));
    if (model.length == 4 && memcmp(model.at, "gpt2", 4) == 0)
        HR_TRY(merges_read(vocabulary, file));
    else if (model.length == 5 && memcmp(model.at, "llama", 5) == 0) {
        vocabulary->spelling = HR_SPELLING_SPACES;
        HR_TRY(file->kind == HR_WEIGHTS_GGUF ? pieces_index(vocabulary, file)
                                             : merges_read(vocabulary, file));
    } else
        return hr_fail(HR_BAD_INPUT,
                       "%s: its tokenizer is \"%.*s\"; gpt2 (merges) and llama (scores) are known",
                       file->path, (int)model.length, model.at);
    return texts_find(vocabulary, file);
}

hr_status hr_vocabulary_create(const hr_weight_file *file, hr_vocabulary *out) {
    hr_vocabulary vocabulary = {0};
    HR_TRY(hr_arena_create(ARENA_SIZE, &vocabulary.arena));
    /* Whoever wrote the file cannot know which of its words share a slot. */
    if (getentropy(&vocabulary.seed, sizeof vocabulary.seed) != 0)
        vocabulary.seed = (uint64_t)(uintptr_t)vocabulary.arena;
    hr_status status = vocabulary_read(&vocabulary, file);
    if (status == HR_OK)
        *out = vocabulary;
    else
        hr_vocabulary_clear(&vocabulary);
    return status;
}

void hr_vocabulary_clear(hr_vocabulary *vocabulary) {
    hr_arena_destroy(vocabulary->arena);
    *vocabulary = (hr_vocabulary){0};
}
