/* A model's tokens by their bytes, and which two of them merge.
 *
 * In: what a file lists. Out: look-ups in constant time. Where tokens spell bytes they are kept as the bytes
 * that they stand for; SentencePiece's as the file writes them, with U+2581 in the place of spaces.
 */
#ifndef HR_MODEL_VOCABULARY_H
#define HR_MODEL_VOCABULARY_H

#include "model/weight_file.h"

#define HR_SPACE_SIGN "\xe2\x96\x81" /* U+2581, SentencePiece's */

typedef enum hr_piece_kind { /* as GGUF numbers them */
                             HR_PIECE_NORMAL = 1,
                             HR_PIECE_UNKNOWN,
                             HR_PIECE_CONTROL,
                             HR_PIECE_USER,
                             HR_PIECE_UNUSED,
                             HR_PIECE_BYTE
} hr_piece_kind;

typedef struct hr_piece {
    hr_bytes bytes; /* what is looked up */
    hr_bytes text;  /* what it means; none for a token that is no text */
    hr_piece_kind kind;
    float score;
} hr_piece;

typedef struct hr_merge {
    int32_t left, right, result; /* left = -1: an empty place */
    int32_t rank;
} hr_merge;

typedef enum hr_spelling {
    HR_SPELLING_BYTES, /* a letter stands for a byte: GPT-2's */
    HR_SPELLING_SPACES /* characters, U+2581 for a space: SentencePiece's */
} hr_spelling;

typedef struct hr_vocabulary {
    hr_spelling spelling;
    hr_arena *arena;
    hr_piece *pieces;
    int32_t count;
    int32_t *slots; /* of pieces, by hash; -1 = empty */
    size_t slot_mask;
    uint64_t seed;    /* of both tables' hashes */
    hr_merge *merges; /* by hash; NULL: by scores */
    size_t merge_mask;
    int32_t bytes[256]; /* the token of a byte, -1 = none */
} hr_vocabulary;

hr_status hr_vocabulary_create(const hr_weight_file *file, hr_vocabulary *out);
void hr_vocabulary_clear(hr_vocabulary *vocabulary);
int32_t hr_vocabulary_find(const hr_vocabulary *vocabulary, const char *at, size_t length);
/* The token that two neighbours become, -1 where they do not; `*order`: the least comes first. `at`: their
 * bytes together. */
int32_t hr_vocabulary_merge(const hr_vocabulary *vocabulary, int32_t left, int32_t right, const char *at,
                            size_t length, float *order);

#endif
