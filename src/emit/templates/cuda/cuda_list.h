/* Lists of arrays: base/pieces.h of the library. A piece is a run of elements of one member. */
struct piece {
    int64_t start;
    int32_t member, count;
};

struct pieces {
    int64_t count, unused;
    piece run[1]; /* `count` of them */
};
