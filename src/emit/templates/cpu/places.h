/* Totals of f64 for the places, or rows of places, that most is added to, where there is no room for one a
 * place. Four slots are a set, and a place belongs to one set: a slot keeps the total of one of its places,
 * and votes. Each addition to that place is a vote for it; one to a place without a slot takes over a slot
 * without votes, else it takes a vote from each of the four and goes into the table itself. That happens to
 * no more than a fifth of what a set meets (Misra and Gries), and sets meet a few hundred additions beside
 * those of their places with most: no place has more additions of f32. */
enum { PLACE_WAYS = 4, PLACE_MEETS = 256 /* additions a set, over all places */ };
typedef struct place_slots {
    int64_t sets, length; /* elements of a row */
    int64_t *place;       /* of each slot; -1 = none */
    int64_t *votes;
    double *totals; /* rows of them */
} place_slots;

static inline place_slots place_slots_of(char *work, int64_t additions, int64_t length, int64_t thread,
                                         int64_t threads) {
    const int64_t sets = additions / PLACE_MEETS / threads + 1, slots = sets * PLACE_WAYS;
    int64_t *const own = (int64_t *)(void *)work + thread * slots * (2 + length);
    place_slots s = {sets, length, own, own + slots, (double *)(void *)(own + 2 * slots)};
    for (int64_t k = 0; k < slots; k++)
        s.place[k] = -1, s.votes[k] = 0;
    return s;
}

/* What a slot has goes into the table. */
static inline void place_slot_end(const place_slots *s, int64_t slot, float *table) {
    double *const total = s->totals + slot * s->length;
    for (int64_t i = 0; i < s->length && s->place[slot] >= 0; i++)
        table[s->place[slot] + i] = (float)((double)table[s->place[slot] + i] + total[i]);
    for (int64_t i = 0; i < s->length; i++)
        total[i] = 0;
}

/* Where to add to the totals of the row that begins at `place`; NULL = into the table. */
static inline double *place_total(const place_slots *s, float *table, int64_t place) {
    const uint64_t mixed = ((uint64_t)place + 1) * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    const int64_t set = (int64_t)(mixed % (uint64_t)s->sets) * PLACE_WAYS;
    int64_t slot = -1;
    for (int64_t k = set; k < set + PLACE_WAYS; k++) {
        if (s->place[k] == place) {
            s->votes[k]++;
            return s->totals + k * s->length;
        }
        if (s->votes[k] == 0) slot = k;
    }
    if (slot < 0) {
        for (int64_t k = set; k < set + PLACE_WAYS; k++)
            s->votes[k]--;
        return NULL;
    }
    place_slot_end(s, slot, table);
    s->place[slot] = place;
    s->votes[slot] = 1;
    return s->totals + slot * s->length;
}

static inline void place_slots_end(const place_slots *s, float *table) {
    for (int64_t k = 0; k < s->sets * PLACE_WAYS; k++)
        place_slot_end(s, k, table);
}
