/* How many words around those that are asked for may be written: blocks are whole, and so are parts. */
#define HR_RANDOM_BEFORE HR_LANES
#define HR_RANDOM_AFTER  (HR_RANDOM_FEW * HR_RANDOM_PART)

/* Whether the numbers of a group's blocks share their upper word, `block` being the first. */
static inline bool random_shares_word(uint64_t block) {
    return (uint32_t)block <= UINT32_MAX - HR_RANDOM_GROUP / 4;
}

/* Whether these are the words of a group, no more and no less. */
static inline bool random_is_group(uint64_t counter, int64_t count) {
    return count == HR_RANDOM_GROUP && counter % 4 == 0 && random_shares_word(counter >> 2);
}

/* out[i] = the word of counter + i, for i from 0 to count - 1. The words of a block stay together: what is
 * around them is written, too. */
static inline void random_fill_all(const random_keys *keys, uint64_t counter, int64_t count, uint32_t *out,
                                   bool even_odd) {
    uint64_t block = (uint64_t)((int64_t)counter >> 2);
    for (int64_t i = -(int64_t)(counter % 4); i < count;) {
        const bool group = random_shares_word(block) && i + HR_RANDOM_GROUP <= count + HR_RANDOM_AFTER;
        if (group && even_odd)
            random_group_even_odd(keys, block, out + i);
        else if (group)
            random_group(keys, block, out + i);
        else
            random_few(keys, block, out + i, even_odd);
        i += group ? HR_RANDOM_GROUP : HR_RANDOM_FEW * HR_RANDOM_PART;
        block += (uint64_t)(group ? HR_RANDOM_GROUP : HR_RANDOM_FEW * HR_RANDOM_PART) / 4;
    }
}

static inline void random_fill(const random_keys *keys, uint64_t counter, int64_t count, uint32_t *out) {
    random_fill_all(keys, counter, count, out, false);
}

/* As random_fill, but of each two vectors of words first the even ones, then the odd ones. `counter` is a
 * multiple of 4, `count` of two vectors. */
static inline void random_fill_even_odd(const random_keys *keys, uint64_t counter, int64_t count,
                                        uint32_t *out) {
    random_fill_all(keys, counter, count, out, true);
#if HR_LANES != 16
    for (int64_t pair = 0; pair < count; pair += 2 * HR_LANES) {
        uint32_t words[2 * HR_LANES];
        memcpy(words, out + pair, sizeof words);
        for (int64_t i = 0; i < 2 * HR_LANES; i++)
            out[pair + even_odd_place(i, 2 * HR_LANES)] = words[i];
    }
#endif
}

/* The numbers of HR_LANES words */
static inline vf vf_random(const uint32_t *words) {
    return vf_from_vi((vi)(*(const vu_loose *)words >> 8)) * 0x1p-24f;
}

/* The words whose numbers are at least some bound: those from `least` on, if there are any. Where comparisons
 * have signs: those that exceed `below` once they are shifted, which is none where it is INT32_MAX. */
typedef struct random_bound {
#if HR_LANES == 16
    vu least;
    vm any;
#else
    vi below;
#endif
} random_bound;

static inline random_bound random_bound_of(float bound) {
    const float number = ceilf(bound * 0x1p24f);
#if HR_LANES == 16
    const uint32_t least = number > 0 && number < 0x1p24f ? (uint32_t)number << 8 : 0;
    return (random_bound){(vu)vi_of((int32_t)least), vm_of(number < 0x1p24f)};
#else
    return (random_bound){vi_of(!(number < 0x1p24f) ? INT32_MAX : number > 0 ? (int32_t)number - 1 : -1)};
#endif
}

static inline vm vm_random_ge(const uint32_t *words, random_bound bound) {
    const vu word = *(const vu_loose *)words;
#if HR_LANES == 16
    vm m;
    __asm__("vpcmpnltud %2, %1, %0%{%3%}" : "=k"(m) : "v"(word), "v"(bound.least), "Yk"(bound.any));
    return m;
#else
    return vi_lt(bound.below, (vi)(word >> 8));
#endif
}
