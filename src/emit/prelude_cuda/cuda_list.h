/* Lists of arrays: base/pieces.h of the library. A piece is a run of elements of one member. */
struct piece {
    int64_t start;
    int32_t member, count;
};

struct pieces {
    int64_t count, unused;
    piece run[1]; /* `count` of them */
};

/* A truth that is known when the code is compiled. */
template <bool VALUE> struct known { static constexpr bool value = VALUE; };
