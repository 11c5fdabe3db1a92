/* What is known already: single values under a hash of what was asked, and strips of them.
 *
 * Single values stand in an open-addressed table that forgets everything when it is full. Strips are kept up
 * to a total size, the oldest go first. Keys are hashes and are trusted.
 */
#include "base/memory.h"
#include "reference/interpreter.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MEMO_START = 1 << 10, MEMO_MAX = 1 << 18, KEY_WORDS = HR_LIVE_MAX };
enum { STRIP_BUCKETS = 1 << 14, STRIP_BYTES = 12 << 20 };

/* ---- single values ---- */

typedef struct memo_entry {
    hr_memo_key key; /* both zero: free */
    hr_known known;
} memo_entry;

struct hr_memo {
    size_t capacity, count;
    memo_entry *entries;
};

static hr_memo_key key_from(XXH128_hash_t hash) {
    return (hr_memo_key){hash.low64 ? hash.low64 : 1, hash.high64};
}

/* The number goes in beside the words: as a seed it would cancel against them. */
hr_memo_key hr_memo_key_of(hr_memo_kind kind, int number, int count, const int64_t *words) {
    int64_t whole[KEY_WORDS + 1] = {(int64_t)kind << 32 | number};
    memcpy(whole + 1, words, (size_t)count * sizeof *words);
    return key_from(XXH3_128bits(whole, (size_t)(count + 1) * sizeof *whole));
}

hr_memo_key hr_memo_key_at(const hr_reference *reference, hr_memo_kind kind, int number, int index_count,
                           const int *indices) {
    int64_t words[KEY_WORDS];
    for (int i = 0; i < index_count; ++i)
        words[i] = reference->indices[indices[i]].base;
    return hr_memo_key_of(kind, number, index_count, words);
}

hr_status hr_memo_create(hr_memo **out) {
    hr_memo *memo = hr_memory_zeros(1, sizeof *memo);
    memo_entry *entries = hr_memory_zeros(MEMO_START, sizeof *entries);
    if (!memo || !entries) {
        free(memo);
        free(entries);
        return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    }
    *memo = (hr_memo){.capacity = MEMO_START, .entries = entries};
    *out = memo;
    return HR_OK;
}

void hr_memo_destroy(hr_memo *memo) {
    if (!memo) return;
    free(memo->entries);
    free(memo);
}

static memo_entry *memo_place(memo_entry *entries, size_t capacity, hr_memo_key key) {
    size_t at = key.low & (capacity - 1);
    while (entries[at].key.low && (entries[at].key.low != key.low || entries[at].key.high != key.high))
        at = (at + 1) & (capacity - 1);
    return &entries[at];
}

const hr_known *hr_memo_find(const hr_memo *memo, hr_memo_key key) {
    const memo_entry *entry = memo_place(memo->entries, memo->capacity, key);
    return entry->key.low ? &entry->known : NULL;
}

static hr_status memo_grow(hr_memo *memo) {
    if (memo->capacity >= MEMO_MAX) {
        memset(memo->entries, 0, memo->capacity * sizeof *memo->entries);
        memo->count = 0;
        return HR_OK;
    }
    size_t capacity = 4 * memo->capacity;
    memo_entry *entries = hr_memory_zeros(capacity, sizeof *entries);
    if (!entries) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    for (size_t i = 0; i < memo->capacity; ++i)
        if (memo->entries[i].key.low) *memo_place(entries, capacity, memo->entries[i].key) = memo->entries[i];
    free(memo->entries);
    memo->entries = entries;
    memo->capacity = capacity;
    return HR_OK;
}

hr_status hr_memo_insert(hr_memo *memo, hr_memo_key key, const hr_known *known) {
    if (4 * memo->count >= 3 * memo->capacity) HR_TRY(memo_grow(memo));
    memo_entry *entry = memo_place(memo->entries, memo->capacity, key);
    memo->count += !entry->key.low;
    entry->key = key;
    entry->known = *known;
    return HR_OK;
}

/* ---- strips ---- */

typedef struct strip strip;
struct strip {
    hr_memo_key key;
    strip *next;  /* of its bucket */
    strip *later; /* of all, in the order of their making */
    size_t bytes;
    hr_form form;
    int64_t base, step;
    bool whole, doubtful, faulty;
    double lanes[]; /* values or whole numbers, bounds, noise, faults */
};

struct hr_strips {
    strip *buckets[STRIP_BUCKETS];
    strip *oldest, *newest;
    size_t bytes;
};

hr_status hr_strips_create(hr_strips **out) {
    *out = hr_memory_zeros(1, sizeof **out);
    return *out ? HR_OK : hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
}

static strip **bucket_of(hr_strips *strips, hr_memo_key key) {
    return &strips->buckets[key.low & (STRIP_BUCKETS - 1)];
}

static void drop_oldest(hr_strips *strips) {
    strip *gone = strips->oldest, **link = bucket_of(strips, gone->key);
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    strips->oldest = gone->later;
    if (!strips->oldest) strips->newest = NULL;
    strips->bytes -= gone->bytes;
    free(gone);
}

void hr_strips_destroy(hr_strips *strips) {
    while (strips && strips->oldest)
        drop_oldest(strips);
    free(strips);
}

hr_memo_key hr_strips_key_of(const hr_reference *reference, const hr_rule *rule, int count) {
    const hr_statement *statement = rule->statement;
    XXH128_hash_t hash = {0, 0};
    for (int i = 0; i < statement->domain_count; ++i) {
        const hr_lanes *index = &reference->indices[statement->domain[i]];
        uint64_t words[6] = {(uint64_t)rule->number << 32 | (uint32_t)count,
                             (uint64_t)index->form,
                             (uint64_t)index->base,
                             (uint64_t)index->step,
                             hash.low64,
                             hash.high64};
        if (index->form == HR_FORM_VARYING) {
            XXH128_hash_t lanes = XXH3_128bits(index->whole, (size_t)count * sizeof *index->whole);
            words[2] = lanes.low64;
            words[3] = lanes.high64;
        }
        hash = XXH3_128bits(words, sizeof words);
    }
    return key_from(hash);
}

hr_status hr_strips_find(hr_reference *reference, hr_memo_key key, int count, hr_lanes *out, bool *found) {
    strip *at = *bucket_of(reference->strips, key);
    while (at && (at->key.low != key.low || at->key.high != key.high))
        at = at->next;
    *found = at != NULL;
    if (!at) return HR_OK;
    size_t lanes = at->form == HR_FORM_VARYING ? (size_t)count : 1;
    out->form = at->form;
    out->spread = at->form == HR_FORM_AFFINE || at->whole ? 0 : 1;
    out->base = at->base;
    out->step = at->step;
    out->faulty = false;
    memcpy(out->value, at->lanes, lanes * sizeof *at->lanes);
    out->doubtful = at->doubtful;
    memcpy(out->bound, at->lanes + lanes, lanes * sizeof *at->lanes);
    memcpy(out->noise, at->lanes + 2 * lanes, lanes * sizeof *at->lanes);
    const int32_t *faults = (const int32_t *)(const void *)(at->lanes + 3 * lanes);
    for (size_t i = 0; at->faulty && i < lanes; ++i)
        if (faults[i]) HR_TRY(hr_fault_carry(reference, out, (int)i, faults[i]));
    return HR_OK;
}

hr_status hr_strips_insert(hr_reference *reference, hr_memo_key key, int count, const hr_lanes *lanes,
                           bool whole) {
    hr_strips *strips = reference->strips;
    size_t kept = lanes->form == HR_FORM_VARYING ? (size_t)count : 1;
    size_t bytes = sizeof(strip) + kept * (3 * sizeof(double) + (lanes->faulty ? sizeof(int32_t) : 0));
    strip *made = hr_memory_take(bytes);
    if (!made) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    strip **bucket = bucket_of(strips, key);
    *made = (strip){.key = key,
                    .next = *bucket,
                    .bytes = bytes,
                    .form = lanes->form,
                    .base = lanes->base,
                    .step = lanes->step,
                    .whole = whole,
                    .doubtful = lanes->doubtful,
                    .faulty = lanes->faulty};
    memcpy(made->lanes, lanes->value, kept * sizeof(double));
    memcpy(made->lanes + kept, lanes->bound, kept * sizeof(double));
    memcpy(made->lanes + 2 * kept, lanes->noise, kept * sizeof(double));
    if (lanes->faulty) memcpy(made->lanes + 3 * kept, lanes->fault, kept * sizeof(int32_t));
    *bucket = made;
    if (strips->newest)
        strips->newest->later = made;
    else
        strips->oldest = made;
    strips->newest = made;
    strips->bytes += bytes;
    while (strips->bytes > STRIP_BYTES)
        drop_oldest(strips);
    return HR_OK;
}
