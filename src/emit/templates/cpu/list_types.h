typedef struct piece {
    int64_t start;
    int32_t member, count;
} piece;

typedef struct pieces {
    int64_t count, unused;
    piece piece[];
} pieces;
