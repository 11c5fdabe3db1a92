// A row, or a part of one, in the registers of THREADS threads: CHUNKS times eight elements each, as 16 bits.
// A chunk past the end is -inf, whose exponential adds nothing.
template <int CHUNKS, int THREADS> struct kept_row {
    uint4 word[CHUNKS];
    int64_t first, end; // elements: of this thread's first chunk, of the row

    __device__ inline bool is_there(int i) const {
        return first + (int64_t)i * THREADS * 8 < end;
    }

    // All loads are on their way before the first element is needed.
    __device__ inline void load(const uint16_t *x) {
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
            word[i] = is_there(i) ? *(const uint4 *)(x + first + (int64_t)i * THREADS * 8)
                                  : make_uint4(0xff80ff80u, 0xff80ff80u, 0xff80ff80u, 0xff80ff80u);
    }

    __device__ inline float peak() const {
        float most = -INFINITY, e[8];
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            eight_of(word[i], e);
#pragma unroll
            for (int j = 0; j < 8; j++)
                most = fmaxf(most, e[j]);
        }
        return most;
    }

    __device__ inline float total(float peak) const {
        float sum = 0, e[8];
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            eight_of(word[i], e);
#pragma unroll
            for (int j = 0; j < 8; j++)
                sum += exponential(e[j] - peak);
        }
        return sum;
    }

    __device__ inline void leave(uint16_t *y, float peak, float factor) const {
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
            if (is_there(i)) eight_leave(y + first + (int64_t)i * THREADS * 8, word[i], peak, factor);
    }
};

// Over a block of THREADS threads, whose warps leave their parts in `parts`.
template <int THREADS> static __device__ inline float block_max(float x, float *parts) {
    x = warp_max(x);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_max(parts[threadIdx.x % (THREADS / 32)]);
}

template <int THREADS> static __device__ inline float block_sum(float x, float *parts) {
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_sum(threadIdx.x % 32 < THREADS / 32 ? parts[threadIdx.x % 32] : 0);
}
