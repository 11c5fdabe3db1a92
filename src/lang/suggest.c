/* "Did you mean": the known name nearest to an unknown one. In: names. Out: words for the end of a sentence.
 */
#include "lang/checker.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_COMPARED 32

hr_nearest hr_nearest_to(const hr_messages *messages, const char *name) {
    if (messages && messages->kept == HR_MESSAGES_SHOWN) return (hr_nearest){.name = name};
    size_t length = strlen(name);
    int limit = length < 3 ? 1 : length < 6 ? 2 : 3;
    return (hr_nearest){.name = name, .distance = limit + 1};
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours between the two. */
static int edit_distance(const char *a, int m, const char *b, int n) {
    int rows[3][NAME_MAX_COMPARED + 1];
    for (int j = 0; j <= n; j++)
        rows[0][j] = j;
    for (int i = 1; i <= m; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            row[j] = smaller(above[j - 1] + (a[i - 1] != b[j - 1]), smaller(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller(row[j], before[j - 2] + 1);
        }
    }
    return rows[m % 3][n];
}

void hr_nearest_consider(hr_nearest *nearest, const char *candidate) {
    if (!nearest->distance) return;
    size_t m = strlen(nearest->name), n = strlen(candidate);
    if (!n || m > NAME_MAX_COMPARED || n > NAME_MAX_COMPARED) return;
    int distance = edit_distance(nearest->name, (int)m, candidate, (int)n);
    /* two one-letter names are always one edit apart: that is no likeness */
    if (distance >= nearest->distance || distance >= (int)(m > n ? m : n)) return;
    nearest->distance = distance;
    nearest->best = candidate;
}

hr_shown hr_nearest_words(const hr_nearest *nearest) {
    hr_shown words = {{0}};
    if (nearest->best) snprintf(words.text, sizeof words.text, "; did you mean %s?", nearest->best);
    return words;
}

const char *hr_dtype_habit(const char *name) {
    static const char *const habits[][2] = {
        {"float64", "f64"},
        {"double", "f64"},
        {"float32", "f32"},
        {"float", "f32"},
        {"float16", "f16"},
        {"half", "f16"},
        {"fp16", "f16"},
        {"fp32", "f32"},
        {"bfloat16", "bf16"},
        {"float8_e4m3fn", "f8e4m3"},
        {"float8_e5m2", "f8e5m2"},
        {"int64", "i64"},
        {"long", "i64"},
        {"int32", "i32"},
        {"int", "i32"},
        {"int16", "i16"},
        {"short", "i16"},
        {"int8", "i8"},
        {"char", "i8"},
        {"uint8", "u8"},
        {"byte", "u8"},
        {"boolean", "bool"},
    };
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (strcmp(habits[i][0], name) == 0) return habits[i][1];
    return NULL;
}
