/* The matrix unit (AMX) of a CPU, once the process may use it, and its dots of bytes: sixteen rows of signed
 * words beside sixteen lanes of unsigned ones.
 *
 * In: words of four bytes. Out: whole numbers, exact.
 */

/* arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA); 0 = granted to the process. */
static inline long tiles_request(void) {
    long result = 158;
#if defined __x86_64__ && defined __linux__
    __asm__ volatile("syscall" : "+a"(result) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
#endif
    return result;
}

/* The first answer counts, so that all threads of a team act alike. */
static inline bool tiles_granted(void) {
    static int answer; /* 0 = not asked, 1 = yes, 2 = no */
    int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
    if (known == 0) {
        int mine = tiles_request() == 0 ? 1 : 2;
        bool first =
            __atomic_compare_exchange_n(&answer, &known, mine, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        if (first) known = mine;
    }
    return known == 1;
}

/* Whether dots of bytes may go by the unit. Rows of so many words, at most 16, until byte_tiles_end(). */
static inline bool byte_tiles_begin(int words) {
#if (defined __AMX_INT8__ || defined __AMXINT8__) && defined __linux__ && HR_LANES == 16
    const uint8_t lines = (uint8_t)words;
    const struct {
        uint8_t palette, start, reserved[14];
        uint16_t line_bytes[16];
        uint8_t lines[16];
    } shapes = {1, 0, {0}, {64, (uint16_t)(4 * lines), 64}, {16, 16, lines}};
    if (!tiles_granted()) return false;
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
    return true;
#else
    (void)words;
    return false;
#endif
}

static inline void byte_tiles_end(void) {
#if (defined __AMX_INT8__ || defined __AMXINT8__) && defined __linux__ && HR_LANES == 16
    __asm__ volatile("tilerelease");
#endif
}

/* sums[row][lane] of 16 rows that lie `stride` bytes apart, and lines of 64 bytes, a word a lane. */
static inline void byte_tiles_dot(int32_t *sums, const int8_t *rows, int64_t stride, const uint8_t *lines) {
#if (defined __AMX_INT8__ || defined __AMXINT8__) && defined __linux__ && HR_LANES == 16
    __asm__ volatile("tilezero %%tmm0\n\ttileloadd (%0,%1), %%tmm1\n\ttileloadd (%2,%3), %%tmm2\n\t"
                     "tdpbsud %%tmm2, %%tmm1, %%tmm0\n\ttilestored %%tmm0, (%4,%3)"
                     :
                     : "r"(rows), "r"(stride), "r"(lines), "r"((int64_t)64), "r"(sums)
                     : "memory");
#else
    (void)sums, (void)rows, (void)stride, (void)lines;
#endif
}
