/* Made-up inputs on the device: the same elements as src/run/fill.c makes on the host, bit by bit.
 *
 * Sixteen bytes a thread and turn. Element i comes from one 64-bit mix of seed and i; product and sum round
 * each, as there. */

struct hr_fill_words {
    unsigned char *data;
    double mean;
    long long count, seed, low, high;
    long long way;               /* an hr_fill_way, and 16 for magnitudes, 32 for whole numbers that are distinct */
    const unsigned short *table; /* the bits of each level, for dtypes of one or two bytes */
    void *fault;
};

enum hr_fill_way { HR_FILL_F32, HR_FILL_F64, HR_FILL_TABLE, HR_FILL_WHOLE };

__device__ inline unsigned long long hr_mix(unsigned long long seed, long long i) { /* splitmix64 */
    unsigned long long x = seed + (unsigned long long)i * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

__device__ inline int hr_bell(unsigned long long x) { /* 0 .. 262140, mean 131070 */
    return (int)((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48));
}

__device__ inline long long hr_whole(unsigned long long x, unsigned long long range, long long low) {
    unsigned long long offset =
        range && range <= 0xffffffffull ? ((x >> 32) * range) >> 32 : range ? x % range : x;
    return low + (long long)offset;
}

template <typename T, int WAY> __device__ inline T hr_element(const hr_fill_words &words, long long i) {
    unsigned long long x = hr_mix((unsigned long long)words.seed, i);
    if (WAY == HR_FILL_WHOLE && (words.way & 32)) {
        unsigned long long range = (unsigned long long)words.high - (unsigned long long)words.low + 1;
        unsigned long long at = (range ? (unsigned long long)words.seed % range : 0) + (unsigned long long)i;
        return (T)(words.low + (long long)(range ? at % range : at));
    }
    if (WAY == HR_FILL_WHOLE)
        return (T)hr_whole(x, (unsigned long long)words.high - (unsigned long long)words.low + 1, words.low);
    if (WAY == HR_FILL_TABLE) return (T)words.table[hr_bell(x) >> 2];
    bool magnitude = words.way & 16;
    if (WAY == HR_FILL_F64) {
        double value = __dadd_rn(__dmul_rn((double)hr_bell(x) - 131070, 1.7320508075688772 / 65536), words.mean);
        return (T)(magnitude ? fabs(value) : value);
    }
    float value = __fadd_rn(__fmul_rn((float)(hr_bell(x) - 131070), 0x1.bb67aep-16f), (float)words.mean);
    return (T)(magnitude ? fabsf(value) : value);
}

template <typename T, int WAY> __device__ inline void hr_fill_elements(const hr_fill_words &words) {
    constexpr int SIDE = 16 / sizeof(T);
    union {
        T elements[SIDE];
        uint4 whole;
    } part;
    for (long long at = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * SIDE; at < words.count;
         at += (long long)gridDim.x * blockDim.x * SIDE) {
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            part.elements[i] = hr_element<T, WAY>(words, at + i);
        T *out = (T *)words.data + at;
        if (at + SIDE <= words.count)
            *(uint4 *)out = part.whole;
        else
#pragma unroll
            for (int i = 0; i < SIDE; i++)
                if (at + i < words.count) out[i] = part.elements[i];
    }
}

#define HR_FILL(name, type, way)                                                                             \
    extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ hr_fill_words words) {    \
        hr_fill_elements<type, way>(words);                                                                  \
    }
HR_FILL(hr_fill_f32, float, HR_FILL_F32)
HR_FILL(hr_fill_f64, double, HR_FILL_F64)
HR_FILL(hr_fill_table1, unsigned char, HR_FILL_TABLE)
HR_FILL(hr_fill_table2, unsigned short, HR_FILL_TABLE)
HR_FILL(hr_fill_whole1, signed char, HR_FILL_WHOLE)
HR_FILL(hr_fill_whole2, short, HR_FILL_WHOLE)
HR_FILL(hr_fill_whole4, int, HR_FILL_WHOLE)
HR_FILL(hr_fill_whole8, long long, HR_FILL_WHOLE)
