/* Two arrays of the device compared, and a digest of one: what src/run/check_compare.c and check_guard.c do on
 * the host.
 *
 * hr_compare_*: a block takes a run of elements and leaves its worst one. hr_digest: the sum of all 8-byte
 * words, each mixed with its place. */

struct hr_compare_words {
    const unsigned char *got, *expected;
    double error, unused;
    long long count, format; /* of floats below 32 bits: exponent's bits * 16 + mantissa's */
    struct hr_worst {
        double apart, allowed; /* the host divides them */
        long long at;
    } * out; /* one a block */
    void *fault;
};

__device__ inline double hr_infinite() {
    return __longlong_as_double(0x7ff0000000000000ll);
}

/* 2 to the power of n, 0 where that is no normal number. */
__device__ inline double hr_power_of_two(int n) {
    return n < -1022 ? 0 : __longlong_as_double((long long)(n + 1023) << 52);
}

/* x lies below 2 to this, and not below half of that. */
__device__ inline int hr_exponent(double x) {
    union {
        double value;
        unsigned long long bits;
    } taken = {x};
    return (int)(taken.bits >> 52 & 2047) - 1022;
}

/* A float of 8 or 16 bits; the largest exponent is infinity and NaN, but for f8e4m3, whose last value alone is
 * NaN. */
__device__ inline double hr_narrow(unsigned bits, int exponent_bits, int mantissa_bits) {
    const int top = (1 << exponent_bits) - 1, bias = top >> 1;
    const int exponent = (int)(bits >> mantissa_bits) & top, mantissa = (int)bits & ((1 << mantissa_bits) - 1);
    const bool negative = bits >> (exponent_bits + mantissa_bits) & 1, finite_top = exponent_bits == 4;
    double value;
    if (exponent == top && !finite_top)
        value = mantissa ? hr_infinite() - hr_infinite() : hr_infinite();
    else if (exponent == top && mantissa == (1 << mantissa_bits) - 1)
        value = hr_infinite() - hr_infinite();
    else if (exponent == 0)
        value = (double)mantissa * hr_power_of_two(1 - bias - mantissa_bits);
    else
        value = (double)(mantissa + (1 << mantissa_bits)) * hr_power_of_two(exponent - bias - mantissa_bits);
    return negative ? -value : value;
}

/* How far apart two elements are, over what they may be. */
struct hr_ratio {
    double apart, allowed;
    __device__ bool exceeds(const hr_ratio &other) const { return apart * other.allowed > other.apart * allowed; }
};

/* `digits` of the significand: 0 of whole numbers, which have no unit in the last place. */
__device__ inline hr_ratio hr_ratio_of(double got, double expected, double error, int digits) {
    hr_ratio ratio = {0, 1};
    if (got == expected || (got != got && expected != expected)) return ratio;
    ratio.apart = fabs(got - expected);
    if (!(ratio.apart < hr_infinite())) {
        ratio.apart = hr_infinite();
        return ratio;
    }
    const double larger = fmax(fabs(got), fabs(expected));
    const double allowed = (digits ? hr_power_of_two(hr_exponent(larger) - digits) : 0) + error;
    if (allowed > 0) ratio.allowed = allowed;
    return ratio;
}

struct hr_plain {
    template <typename T> __device__ static double value(T x, long long) { return (double)x; }
    __device__ static int digits(long long format) { return (int)format; }
};

struct hr_coded {
    template <typename T> __device__ static double value(T x, long long format) {
        return hr_narrow((unsigned)x, (int)(format >> 4), (int)(format & 15));
    }
    __device__ static int digits(long long format) { return (int)(format & 15) + 1; }
};

template <typename T, typename CODE> __device__ inline void hr_compare(const hr_compare_words &words) {
    __shared__ double aparts[128], alloweds[128];
    __shared__ long long places[128];
    const long long per = (words.count + gridDim.x - 1) / gridDim.x, from = (long long)blockIdx.x * per;
    const long long to = from + per < words.count ? from + per : words.count;
    const T *got = (const T *)words.got, *expected = (const T *)words.expected;
    hr_ratio worst = {0, 1};
    long long at = 0;
    for (long long i = from + threadIdx.x; i < to; i += blockDim.x) {
        const hr_ratio next = hr_ratio_of(CODE::value(got[i], words.format), CODE::value(expected[i], words.format),
                                          words.error, CODE::digits(words.format));
        if (next.exceeds(worst)) worst = next, at = i;
    }
    aparts[threadIdx.x] = worst.apart;
    alloweds[threadIdx.x] = worst.allowed;
    places[threadIdx.x] = at;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < (int)blockDim.x; t++) {
            const hr_ratio next = {aparts[t], alloweds[t]};
            if (next.exceeds(worst)) worst = next, at = places[t];
        }
        words.out[blockIdx.x].apart = worst.apart;
        words.out[blockIdx.x].allowed = worst.allowed;
        words.out[blockIdx.x].at = at;
    }
}

#define HR_COMPARE(name, type, code)                                                                         \
    extern "C" __global__ void __launch_bounds__(128) name(const __grid_constant__ hr_compare_words words) { \
        hr_compare<type, code>(words);                                                                       \
    }
HR_COMPARE(hr_compare_f32, float, hr_plain)
HR_COMPARE(hr_compare_f64, double, hr_plain)
HR_COMPARE(hr_compare_f16, unsigned short, hr_coded)
HR_COMPARE(hr_compare_bf16, unsigned short, hr_coded)
HR_COMPARE(hr_compare_f8e4m3, unsigned char, hr_coded)
HR_COMPARE(hr_compare_f8e5m2, unsigned char, hr_coded)
HR_COMPARE(hr_compare_i64, long long, hr_plain)
HR_COMPARE(hr_compare_i32, int, hr_plain)
HR_COMPARE(hr_compare_i16, short, hr_plain)
HR_COMPARE(hr_compare_i8, signed char, hr_plain)
HR_COMPARE(hr_compare_u8, unsigned char, hr_plain)
HR_COMPARE(hr_compare_bool, unsigned char, hr_plain)

struct hr_digest_words {
    const unsigned char *data;
    double unused;
    long long bytes;
    unsigned long long *out; /* one a block */
    void *fault;
};

extern "C" __global__ void __launch_bounds__(128) hr_digest(const __grid_constant__ hr_digest_words words) {
    __shared__ unsigned long long sums[128];
    const long long count = (words.bytes + 7) / 8, step = (long long)gridDim.x * blockDim.x;
    unsigned long long sum = 0;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        unsigned long long word = 0;
        if ((i + 1) * 8 <= words.bytes && ((unsigned long long)words.data & 7) == 0)
            word = ((const unsigned long long *)words.data)[i];
        else
            for (int b = 0; b < 8 && i * 8 + b < words.bytes; b++)
                word |= (unsigned long long)words.data[i * 8 + b] << (8 * b);
        word = (word + (unsigned long long)i) * 0x9e3779b97f4a7c15ull;
        sum += (word ^ (word >> 32)) * 0x94d049bb133111ebull;
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < (int)blockDim.x; t++)
            sum += sums[t];
        words.out[blockIdx.x] = sum;
    }
}
