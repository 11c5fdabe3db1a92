/* The roof's ways through memory: read, write, copy and triad, each in several ways of asking for the same
 * bytes.
 *
 * A way is how many 16-byte accesses a thread has in flight and whether lines are marked to leave first.
 * `count` is in 16-byte parts, a multiple of what one block takes at a time; the caller chooses grids that go
 * once over it or walk it with as many blocks as the device holds. `rounds` repeats it all over a small
 * buffer (the L2). */

template <int HINT> __device__ inline uint4 hr_load(const uint4 *at) {
    uint4 part;
    if (HINT == 0)
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(part.x), "=r"(part.y), "=r"(part.z), "=r"(part.w)
                     : "l"(at));
    else
        asm volatile("ld.global.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(part.x), "=r"(part.y), "=r"(part.z), "=r"(part.w)
                     : "l"(at));
    return part;
}

template <int HINT> __device__ inline void hr_store(uint4 *at, uint4 part) {
    if (HINT == 0)
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(part.x), "r"(part.y),
                     "r"(part.z), "r"(part.w)
                     : "memory");
    else
        asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(part.x), "r"(part.y),
                     "r"(part.z), "r"(part.w)
                     : "memory");
}

struct hr_stream_words {
    uint4 *to;
    const uint4 *from, *beside;
    unsigned long long count;
    int rounds;
    int threads; /* of a block */
};

enum { HR_READ, HR_WRITE, HR_COPY, HR_TRIAD };

template <int OPERATION, int SIDE, int HINT> __device__ inline void hr_stream(const hr_stream_words &w) {
    uint4 sum = {1, 2, 3, threadIdx.x};
    for (int round = 0; round < w.rounds; round++) /* another block's places each time: none stays in an L1 */
        for (unsigned long long block =
                 (blockIdx.x + round * 61u) % gridDim.x * (unsigned long long)(w.threads * SIDE);
             block < w.count; block += gridDim.x * (unsigned long long)(w.threads * SIDE)) {
            unsigned long long at = block + threadIdx.x;
            uint4 part[SIDE], beside[SIDE];
            if (OPERATION != HR_WRITE) {
#pragma unroll
                for (int i = 0; i < SIDE; i++)
                    part[i] = hr_load<HINT>(w.from + at + i * w.threads);
            }
            if (OPERATION == HR_TRIAD) {
#pragma unroll
                for (int i = 0; i < SIDE; i++)
                    beside[i] = hr_load<HINT>(w.beside + at + i * w.threads);
            }
#pragma unroll
            for (int i = 0; i < SIDE; i++) {
                if (OPERATION == HR_READ) {
                    sum.x ^= part[i].x;
                    sum.y ^= part[i].y;
                    sum.z ^= part[i].z;
                    sum.w ^= part[i].w;
                } else {
                    uint4 out = OPERATION == HR_WRITE ? sum : part[i];
                    if (OPERATION == HR_TRIAD) {
                        out.x += beside[i].x;
                        out.y += beside[i].y;
                        out.z += beside[i].z;
                        out.w += beside[i].w;
                    }
                    hr_store<HINT>(w.to + at + i * w.threads, out);
                }
            }
        }
    if (OPERATION == HR_READ && (sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x5eed5eed) w.to[threadIdx.x] = sum;
}

#define HR_STREAM(name, operation, side, hint)                                                               \
    extern "C" __global__ void __launch_bounds__(1024)                                                       \
        name##_##side##_##hint(const __grid_constant__ hr_stream_words words) {                              \
        hr_stream<operation, side, hint>(words);                                                             \
    }
#define HR_STREAMS(side, hint)                                                                               \
    HR_STREAM(hr_read, HR_READ, side, hint)                                                                  \
    HR_STREAM(hr_write, HR_WRITE, side, hint)                                                                \
    HR_STREAM(hr_copy, HR_COPY, side, hint)                                                                  \
    HR_STREAM(hr_triad, HR_TRIAD, side, hint)
HR_STREAMS(1, 0)
HR_STREAMS(2, 0)
HR_STREAMS(4, 0)
HR_STREAMS(8, 0)
HR_STREAMS(1, 1)
HR_STREAMS(2, 1)
HR_STREAMS(4, 1)
HR_STREAMS(8, 1)

/* ---- the copy engine of sm_90: global memory to shared memory to global memory, in bulk ---- */

#if __CUDA_ARCH__ >= 900
static constexpr int HR_BULK_BYTES = 16384, HR_BULK_STAGES = 6;

__device__ inline void hr_bulk_load(void *to, const void *from, uint64_t *barrier) {
    const uint32_t address = ptx_shared_address(barrier);
    ptx_mbarrier_arrive_expect(address, HR_BULK_BYTES);
    ptx_bulk_load(ptx_shared_address(to), from, HR_BULK_BYTES, address);
}

/* One thread a block; `count` is in 16-byte parts, a multiple of a piece. */
extern "C" __global__ void hr_copy_bulk(const __grid_constant__ hr_stream_words w) {
    extern __shared__ __align__(128) unsigned char pieces[];
    __shared__ uint64_t full[HR_BULK_STAGES];
    long long total = (long long)(w.count * 16 / HR_BULK_BYTES), step = gridDim.x, first = blockIdx.x;
    long long mine = first < total ? (total - first + step - 1) / step : 0;
    const char *from = (const char *)w.from;
    char *to = (char *)w.to;
    for (int i = 0; i < HR_BULK_STAGES; i++)
        ptx_mbarrier_init(ptx_shared_address(&full[i]), 1);
    ptx_fence_mbarrier_init();
    for (long long i = 0; i < HR_BULK_STAGES - 2 && i < mine; i++)
        hr_bulk_load(pieces + i * HR_BULK_BYTES, from + (first + i * step) * HR_BULK_BYTES, &full[i]);
    for (long long i = 0; i < mine; i++) {
        int stage = (int)(i % HR_BULK_STAGES);
        ptx_mbarrier_wait(ptx_shared_address(&full[stage]), (int)(i / HR_BULK_STAGES & 1));
        ptx_bulk_store(to + (first + i * step) * HR_BULK_BYTES,
                       ptx_shared_address(pieces + stage * HR_BULK_BYTES), HR_BULK_BYTES);
        ptx_bulk_commit();
        long long next = i + HR_BULK_STAGES - 2;
        if (next < mine) { /* its stage was stored from two pieces ago */
            int to_stage = (int)(next % HR_BULK_STAGES);
            ptx_bulk_wait_read<2>();
            hr_bulk_load(pieces + to_stage * HR_BULK_BYTES, from + (first + next * step) * HR_BULK_BYTES,
                         &full[to_stage]);
        }
    }
    ptx_bulk_wait<0>();
}
#endif
