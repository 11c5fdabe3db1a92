// One batch and head of causal attention: 128 elements a query, a key and a value. blockIdx.y counts the heads.
static const int width = 128;
static constexpr float factor = 1.44269504f * 0.0883883476f; // of scores: 1 / sqrt(width), and 2^x in place of e^x

struct head {
    const uint16_t *q, *k, *v;
    uint16_t *o;
};

static __device__ inline head head_of(const arguments &args) {
    const int64_t queries = blockIdx.y * args.I * width, keys = blockIdx.y * args.J * width;
    return {args.q + queries, args.k + keys, args.v + keys, args.o + queries};
}

// The first key that no query before `end` sees.
static __device__ inline int keys_before(const arguments &args, int end) {
    return end < args.J ? end : (int)args.J;
}
