/* Merges neighbours, the best first, by a heap of candidates. In: a text. Out: tokens. See tokenizer.h. */
#define _GNU_SOURCE /* qsort_r */
#include "model/tokenizer.h"

#include "base/memory.h"
#include "model/split.h"
#include "model/vocabulary.h"

#include <stdlib.h>
#include <string.h>

/* Where a text of pieces has one more space in front. */
typedef enum space_first { SPACE_NOWHERE, SPACE_BEFORE_TEXT, SPACE_BEHIND_SPECIALS } space_first;

struct hr_tokenizer {
    hr_vocabulary vocabulary;
    hr_split_style style;
    bool whole_words; /* a word that is a token is that token, whatever the merges make of it */
    bool begins;
    space_first space_first;
    int32_t begin, ends[HR_END_KEYS];
    int32_t *specials; /* longest first, those of a length by their bytes */
    int special_count;
    bool special_bytes[256]; /* what a special token begins with */
};

void hr_tokens_clear(hr_tokens *tokens) {
    free(tokens->items);
    *tokens = (hr_tokens){0};
}

hr_status hr_tokens_add(hr_tokens *tokens, int32_t token) {
    if (tokens->count == tokens->capacity) {
        size_t capacity = tokens->capacity ? 2 * tokens->capacity : 256;
        int32_t *grown = hr_memory_resize(tokens->items, capacity * sizeof *grown);
        if (!grown) return hr_fail(HR_OUT_OF_MEMORY, "no memory for %zu tokens", capacity);
        tokens->items = grown;
        tokens->capacity = capacity;
    }
    tokens->items[tokens->count++] = token;
    return HR_OK;
}

/* ---- merging ---- */

/* A symbol of the text: neighbours by number, -1 = none. */
typedef struct symbol {
    int32_t token, previous, next;
    uint32_t start, length; /* length 0: it went into the one before */
} symbol;

/* A merge that could be done: stale where its symbols have changed since. */
typedef struct candidate {
    float order;
    int32_t left, right, result;
    uint32_t length;
} candidate;

typedef struct merging {
    const hr_vocabulary *vocabulary;
    const char *text;
    symbol *symbols;
    candidate *heap;
    size_t heap_count;
} merging;

static bool comes_before(const candidate *a, const candidate *b) {
    return a->order < b->order || (a->order == b->order && a->left < b->left);
}

static void heap_push(merging *merging, candidate added) {
    size_t at = merging->heap_count++;
    for (; at > 0 && comes_before(&added, &merging->heap[(at - 1) / 2]); at = (at - 1) / 2)
        merging->heap[at] = merging->heap[(at - 1) / 2];
    merging->heap[at] = added;
}

static candidate heap_pop(merging *merging) {
    candidate first = merging->heap[0], last = merging->heap[--merging->heap_count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < merging->heap_count) {
        if (child + 1 < merging->heap_count && comes_before(&merging->heap[child + 1], &merging->heap[child]))
            child++;
        if (!comes_before(&merging->heap[child], &last)) break;
        merging->heap[at] = merging->heap[child];
        at = child;
    }
    merging->heap[at] = last;
    return first;
}

/* Whether symbol `left` and the next one could merge. */
static void propose(merging *merging, int32_t left) {
    if (left < 0 || merging->symbols[left].next < 0) return;
    const symbol *a = &merging->symbols[left], *b = &merging->symbols[a->next];
    candidate found = {.left = left, .right = a->next, .length = a->length + b->length};
    found.result = hr_vocabulary_merge(merging->vocabulary, a->token, b->token, merging->text + a->start,
                                       found.length, &found.order);
    if (found.result >= 0) heap_push(merging, found);
}

static void merge_all(merging *merging, int32_t count) {
    for (int32_t i = 0; i + 1 < count; i++)
        propose(merging, i);
    while (merging->heap_count > 0) {
        candidate next = heap_pop(merging);
        symbol *a = &merging->symbols[next.left], *b = &merging->symbols[next.right];
        if (a->length == 0 || b->length == 0 || a->next != next.right || a->length + b->length != next.length)
            continue;
        a->token = next.result;
        a->length = next.length;
        a->next = b->next;
        b->length = 0;
        if (a->next >= 0) merging->symbols[a->next].previous = next.left;
        propose(merging, a->previous);
        propose(merging, next.left);
    }
}

/* A symbol without a token is its bytes. */
static hr_status symbols_give(const merging *merging, hr_tokens *out) {
    for (int32_t i = 0; i >= 0; i = merging->symbols[i].next) {
        const symbol *symbol = &merging->symbols[i];
        if (symbol->token >= 0) {
            HR_TRY(hr_tokens_add(out, symbol->token));
            continue;
        }
        for (uint32_t at = symbol->start; at < symbol->start + symbol->length; at++) {
            int32_t token = merging->vocabulary->bytes[(unsigned char)merging->text[at]];
            if (token >= 0) HR_TRY(hr_tokens_add(out, token));
        }
    }
    return HR_OK;
}

/* Bytes of the first symbol of a text: a byte, or a character. */
static size_t symbol_length(const hr_vocabulary *vocabulary, const char *at, size_t left) {
    if (vocabulary->spelling == HR_SPELLING_BYTES) return 1;
    unsigned char first = (unsigned char)*at;
    size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    return length < left ? length : left;
}

static hr_status word_encode(const hr_vocabulary *vocabulary, const char *at, size_t length, hr_tokens *out) {
    if (length == 0) return HR_OK;
    if (length > INT32_MAX / 4)
        return hr_fail(HR_BAD_INPUT, "a text of %zu bytes is too long to be one word", length);
    merging merging = {.vocabulary = vocabulary, .text = at};
    merging.symbols = hr_memory_take(length * sizeof *merging.symbols);
    merging.heap = hr_memory_take(3 * length * sizeof *merging.heap); /* each merge proposes two more */
    hr_status status = HR_OK;
    if (!merging.symbols || !merging.heap)
        status = hr_fail(HR_OUT_OF_MEMORY, "no memory to take a text of %zu bytes apart", length);
    else {
        int32_t count = 0;
        for (size_t start = 0, taken; start < length; start += taken) {
            taken = symbol_length(vocabulary, at + start, length - start);
            merging.symbols[count] = (symbol){hr_vocabulary_find(vocabulary, at + start, taken), count - 1,
                                              count + 1, (uint32_t)start, (uint32_t)taken};
            count++;
        }
        merging.symbols[count - 1].next = -1;
        merge_all(&merging, count);
        status = symbols_give(&merging, out);
    }
    free(merging.symbols);
    free(merging.heap);
    return status;
}

/* ---- texts ---- */

static hr_status words_encode(const hr_tokenizer *tokenizer, const char *at, size_t left, hr_tokens *out) {
    for (size_t length; (length = hr_split_next(tokenizer->style, at, left)) > 0;
         at += length, left -= length) {
        int32_t whole = tokenizer->whole_words ? hr_vocabulary_find(&tokenizer->vocabulary, at, length) : -1;
        if (whole >= 0)
            HR_TRY(hr_tokens_add(out, whole));
        else
            HR_TRY(word_encode(&tokenizer->vocabulary, at, length, out));
    }
    return HR_OK;
}

/* Spaces become U+2581 first, with one more in front where the model was taught so. */
static hr_status pieces_encode(const hr_tokenizer *tokenizer, const char *at, size_t length, bool first,
                               hr_tokens *out) {
    if (length == 0) return HR_OK;
    size_t sign = strlen(HR_SPACE_SIGN), end = 0;
    char *text = hr_memory_take((length + 1) * sign);
    if (!text) return hr_fail(HR_OUT_OF_MEMORY, "no memory to take a text of %zu bytes apart", length);
    if (tokenizer->space_first == SPACE_BEHIND_SPECIALS || (first && tokenizer->space_first)) {
        memcpy(text, HR_SPACE_SIGN, sign);
        end = sign;
    }
    for (size_t i = 0; i < length; i++)
        if (at[i] == ' ') {
            memcpy(text + end, HR_SPACE_SIGN, sign);
            end += sign;
        } else
            text[end++] = at[i];
    hr_status status = word_encode(&tokenizer->vocabulary, text, end, out);
    free(text);
    return status;
}

static hr_status part_encode(const hr_tokenizer *tokenizer, const char *at, size_t length, bool first,
                             hr_tokens *out) {
    return tokenizer->vocabulary.spelling == HR_SPELLING_BYTES
               ? words_encode(tokenizer, at, length, out)
               : pieces_encode(tokenizer, at, length, first, out);
}

/* Where in the list of specials a text stands, or would: longest first, then by their bytes. */
static int special_place(const hr_tokenizer *tokenizer, const char *at, size_t length) {
    int low = 0, high = tokenizer->special_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const hr_bytes bytes = tokenizer->vocabulary.pieces[tokenizer->specials[middle]].bytes;
        const bool before =
            bytes.length > length || (bytes.length == length && memcmp(bytes.at, at, length) < 0);
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that stands whole at `at`, -1 = none: one that a model's makers added, or a control token
 * where names of these are taken for them. */
static int32_t special_at(const hr_tokenizer *tokenizer, const char *at, size_t left,
                          hr_special_names names) {
    if (!tokenizer->special_bytes[(unsigned char)*at]) return -1;
    for (int i = special_place(tokenizer, "", left); i < tokenizer->special_count;) {
        const size_t length = tokenizer->vocabulary.pieces[tokenizer->specials[i]].bytes.length;
        const int found = special_place(tokenizer, at, length);
        if (found < tokenizer->special_count) {
            const hr_piece *piece = &tokenizer->vocabulary.pieces[tokenizer->specials[found]];
            if (piece->bytes.length == length && memcmp(piece->bytes.at, at, length) == 0 &&
                (piece->kind == HR_PIECE_USER || names == HR_SPECIAL_AS_TOKENS))
                return tokenizer->specials[found];
        }
        i = special_place(tokenizer, "", length - 1);
    }
    return -1;
}

hr_status hr_tokenizer_encode(const hr_tokenizer *tokenizer, const char *text, size_t length,
                              hr_special_names names, hr_tokens *out) {
    size_t begin = 0, at = 0;
    bool first = true;
    while (at < length) {
        int32_t special = special_at(tokenizer, text + at, length - at, names);
        if (special < 0) {
            at++;
            continue;
        }
        HR_TRY(part_encode(tokenizer, text + begin, at - begin, first, out));
        HR_TRY(hr_tokens_add(out, special));
        at += tokenizer->vocabulary.pieces[special].bytes.length;
        begin = at;
        first = false;
    }
    return part_encode(tokenizer, text + begin, length - begin, first, out);
}

hr_bytes hr_tokenizer_bytes(const hr_tokenizer *tokenizer, int32_t token) {
    bool there = token >= 0 && token < tokenizer->vocabulary.count;
    return there ? tokenizer->vocabulary.pieces[token].text : (hr_bytes){"", 0};
}

/* ---- the whole ---- */

static bool is_word(hr_bytes bytes, const char *word) {
    return bytes.length == strlen(word) && memcmp(bytes.at, word, bytes.length) == 0;
}

static hr_status style_find(hr_tokenizer *tokenizer, const hr_weight_file *file) {
    static const struct {
        const char *name;
        hr_split_style style;
    } styles[] = {
        {"gpt-2", HR_SPLIT_GPT2},       {"gpt2", HR_SPLIT_GPT2},     {"default", HR_SPLIT_GPT2},
        {"llama-bpe", HR_SPLIT_LLAMA3}, {"llama3", HR_SPLIT_LLAMA3}, {"llama-v3", HR_SPLIT_LLAMA3},
        {"qwen2", HR_SPLIT_QWEN2},      {"smollm", HR_SPLIT_SMOLLM},
    };
    hr_bytes name;
    if (tokenizer->vocabulary.spelling != HR_SPELLING_BYTES) return HR_OK;
    if (!hr_file_string(file, "tokenizer.ggml.pre", &name)) name = (hr_bytes){"default", 7};
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (is_word(name, styles[i].name)) {
            tokenizer->style = styles[i].style;
            tokenizer->whole_words = styles[i].style == HR_SPLIT_LLAMA3;
            return HR_OK;
        }
    return hr_fail(HR_BAD_INPUT,
                   "%s: splits its texts by the rules \"%.*s\"; known are gpt-2, llama-bpe, qwen2 and smollm",
                   file->path, (int)name.length, name.at);
}

static int by_falling_length(const void *a, const void *b, void *pieces) {
    const int32_t first = *(const int32_t *)a, second = *(const int32_t *)b;
    const hr_bytes one = ((const hr_piece *)pieces)[first].bytes,
                   other = ((const hr_piece *)pieces)[second].bytes;
    if (one.length != other.length) return one.length < other.length ? 1 : -1;
    const int order = memcmp(one.at, other.at, one.length);
    return order ? order : (first > second) - (first < second);
}

static hr_status specials_find(hr_tokenizer *tokenizer) {
    const hr_vocabulary *vocabulary = &tokenizer->vocabulary;
    tokenizer->specials = hr_memory_take((size_t)vocabulary->count * sizeof *tokenizer->specials);
    if (!tokenizer->specials) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a tokenizer");
    for (int32_t i = 0; i < vocabulary->count; i++) {
        const hr_piece *piece = &vocabulary->pieces[i];
        if ((piece->kind != HR_PIECE_CONTROL && piece->kind != HR_PIECE_USER) || piece->bytes.length == 0)
            continue;
        tokenizer->specials[tokenizer->special_count++] = i;
        tokenizer->special_bytes[(unsigned char)piece->bytes.at[0]] = true;
    }
    qsort_r(tokenizer->specials, (size_t)tokenizer->special_count, sizeof *tokenizer->specials,
            by_falling_length, vocabulary->pieces);
    return HR_OK;
}

const char *const hr_end_keys[HR_END_KEYS] = {"tokenizer.ggml.eos_token_id",
                                              "tokenizer.ggml.eot_token_id",
                                              "tokenizer.ggml.eom_token_id",
                                              "tokenizer.end.3",
                                              "tokenizer.end.4",
                                              "tokenizer.end.5",
                                              "tokenizer.end.6",
                                              "tokenizer.end.7"};

static int32_t token_of(const hr_tokenizer *tokenizer, const hr_weight_file *file, const char *key) {
    double number;
    if (!hr_file_number(file, key, &number) || number < 0 || number >= tokenizer->vocabulary.count) return -1;
    return (int32_t)number;
}

static hr_status tokenizer_read(hr_tokenizer *tokenizer, const hr_weight_file *file) {
    double given;
    HR_TRY(hr_vocabulary_create(file, &tokenizer->vocabulary));
    HR_TRY(style_find(tokenizer, file));
    bool pieces = tokenizer->vocabulary.spelling == HR_SPELLING_SPACES;
    tokenizer->begin = token_of(tokenizer, file, "tokenizer.ggml.bos_token_id");
    for (int i = 0; i < HR_END_KEYS; i++)
        tokenizer->ends[i] = token_of(tokenizer, file, hr_end_keys[i]);
    tokenizer->begins = hr_file_number(file, "tokenizer.ggml.add_bos_token", &given)
                            ? given != 0
                            : pieces || tokenizer->style == HR_SPLIT_LLAMA3;
    if (!hr_file_number(file, "tokenizer.ggml.add_space_prefix", &given)) given = pieces;
    tokenizer->space_first = given == 2   ? SPACE_BEHIND_SPECIALS
                             : given != 0 ? SPACE_BEFORE_TEXT
                                          : SPACE_NOWHERE;
    if (hr_file_number(file, "tokenizer.ggml.ignore_merges", &given)) tokenizer->whole_words = given != 0;
    return specials_find(tokenizer);
}

hr_status hr_tokenizer_create(const hr_weight_file *file, hr_tokenizer **out) {
    hr_tokenizer *tokenizer = hr_memory_zeros(1, sizeof *tokenizer);
    if (!tokenizer) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a tokenizer");
    hr_status status = tokenizer_read(tokenizer, file);
    if (status == HR_OK)
        *out = tokenizer;
    else
        hr_tokenizer_destroy(tokenizer);
    return status;
}

void hr_tokenizer_destroy(hr_tokenizer *tokenizer) {
    if (!tokenizer) return;
    hr_vocabulary_clear(&tokenizer->vocabulary);
    free(tokenizer->specials);
    free(tokenizer);
}

int32_t hr_tokenizer_size(const hr_tokenizer *tokenizer) {
    return tokenizer->vocabulary.count;
}

int32_t hr_tokenizer_begin(const hr_tokenizer *tokenizer) {
    return tokenizer->begins ? tokenizer->begin : -1;
}

/* Besides what the file names, the ends of a turn in the chat templates that are known. */
bool hr_tokenizer_ends(const hr_tokenizer *tokenizer, int32_t token) {
    static const char *const ends[] = {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|endoftext|>"};
    if (token < 0 || token >= tokenizer->vocabulary.count) return false;
    for (int i = 0; i < HR_END_KEYS; i++)
        if (token == tokenizer->ends[i]) return true;
    const hr_piece *piece = &tokenizer->vocabulary.pieces[token];
    for (size_t i = 0; i < sizeof ends / sizeof *ends && piece->kind == HR_PIECE_CONTROL; i++)
        if (is_word(piece->bytes, ends[i])) return true;
    return false;
}
