/* The machine: all instructions that have no name in plain CUDA C stand here.
 *
 * An emulator that compiles the emitted text for a host defines HR_EMULATED, the CUDA keywords, threadIdx and
 * its kin, __syncthreads(), __shfl_xor_sync() and the atomics; it replaces what stands under HR_EMULATED here
 * by defining the names hr_emulated_*.
 */
static __device__ inline int32_t f32_bits(float x) {
    return __float_as_int(x);
}

static __device__ inline float f32_of_bits(int32_t x) {
    return __int_as_float(x);
}

/* 2^x; at most 2 units in the last place off, denormal results are 0. */
static __device__ inline float machine_exp2(float x) {
#ifdef HR_EMULATED
    return exp2f(x);
#else
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#endif
}

/* log2(x), at most 2^-22 off near 1 and 2 units elsewhere. */
static __device__ inline float machine_log2(float x) {
#ifdef HR_EMULATED
    return log2f(x);
#else
    float r;
    asm("lg2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#endif
}

/* 1 / x, 1 unit off; denormals count as 0. */
static __device__ inline float machine_reciprocal(float x) {
#ifdef HR_EMULATED
    return 1 / x;
#else
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#endif
}

/* a * b, rounded before anything is added to it. */
static __device__ inline float machine_product(float a, float b) {
#ifdef HR_EMULATED
    return a * b;
#else
    return __fmul_rn(a, b);
#endif
}

/* a / b, 2 units off, over the whole range. */
static __device__ inline float machine_divide(float a, float b) {
#ifdef HR_EMULATED
    return a / b;
#else
    float r;
    asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#endif
}

/* The larger (smaller); NaN where either is. */
static __device__ inline float f32_max(float a, float b) {
#ifdef HR_EMULATED
    return a > b || a != a ? a : b;
#else
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#endif
}

static __device__ inline float f32_min(float a, float b) {
#ifdef HR_EMULATED
    return a < b || a != a ? a : b;
#else
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#endif
}

/* Two values rounded to nearest even, the first in the lower half. */
static __device__ inline uint32_t bf16_pair(float low, float high) {
#ifdef HR_EMULATED
    return hr_emulated_bf16(low) | (uint32_t)hr_emulated_bf16(high) << 16;
#else
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
#endif
}

static __device__ inline uint32_t f16_pair(float low, float high) {
#ifdef HR_EMULATED
    return hr_emulated_f16(low) | (uint32_t)hr_emulated_f16(high) << 16;
#else
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
#endif
}

/* How a load treats the caches: what comes once leaves the L2 last, and what every row reads again stays
 * in the L1, which the rows themselves pass through. Where much is read and much is written, memory is 2 to
 * 4 % faster when what is written leaves the L2 first. */
struct stay {
    enum how { plain, in_l2, in_l1 };
};

/* Sixteen aligned bytes. */
#ifndef HR_EMULATED
extern "C" __device__ void *__nv_associate_access_property(const void *place, unsigned long long property);
#endif
static __device__ inline uint4 load_16(const void *place, stay::how how) {
#ifndef HR_EMULATED
    if (how == stay::in_l1) {
        uint4 r;
        asm volatile("ld.global.L1::evict_last.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                     : "l"(place));
        return r;
    }
    if (how == stay::in_l2) place = __nv_associate_access_property(place, ptx_evict_last());
#endif
    return *(const uint4 *)place;
}

/* Sixteen bytes as one number: of a uint4 the compiler now and then makes four stores. */
static __device__ inline void store_16(void *place, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    const uint64_t low = (uint64_t)b << 32 | a, high = (uint64_t)d << 32 | c;
    *(unsigned __int128 *)place = (unsigned __int128)high << 64 | low;
}

/* Starts of a launch may overlap the end of the one before: nothing of memory may be touched before this. */
static __device__ inline void wait_for_launch_before() {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    ptx_launch_wait();
#endif
}

/* Asks for the line in the L2, where whoever writes it later finds it: may stand before that. */
static __device__ inline void prefetch_to_l2(const void *place) {
    ptx_prefetch_l2(place);
}

static __device__ inline void let_next_launch_start() {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    ptx_launch_dependents();
#endif
}

/* All blocks of the cluster have come here, and what they wrote into each other's shared memory has arrived.
 */
static __device__ inline void cluster_barrier() {
    ptx_cluster_arrive();
    ptx_cluster_wait();
}

/* Writes `value` to where `place`, in shared memory of this block, stands in the block of that rank. */
static __device__ inline void cluster_store_4(void *place, int rank, uint32_t value) {
    ptx_cluster_store_4(ptx_cluster_address(ptx_shared_address(place), rank), value);
}

/* Sixteen bytes from where `place`, in shared memory of this block, stands in the block of that rank. */
static __device__ inline uint4 cluster_load_16(const void *place, int rank) {
    return ptx_cluster_load_16(ptx_cluster_address(ptx_shared_address(place), rank));
}

/* The block's dynamic shared memory. It begins at a whole line: of one that begins 16 bytes into a piece of
 * 32 the copy engine is 5 to 9 % slower. */
static __device__ inline char *staged_memory() {
#ifdef HR_EMULATED
    return (char *)emulated_shared();
#else
    extern __shared__ __align__(128) uint4 staged_words[];
    return (char *)staged_words;
#endif
}

/* What depends on x is computed after this, not before a loop that it stands in. */
static __device__ inline void stay_inside(uint32_t &x) {
#ifndef HR_EMULATED
    asm volatile("" : "+r"(x));
#endif
}

/* What the values were nobody asks any more: their registers are free until here, where zeros are written.
 * Sums of a product that begins at 0 count as read by it. */
template <int COUNT> static __device__ inline void forget(float (&x)[COUNT]) {
#ifndef HR_EMULATED
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("mov.f32 %0, 0f00000000;" : "=f"(x[i]));
#endif
}

/* 0, of which the compiler does not know that it is the same in all threads. What is loaded from a place that
 * is the same for a warp it moves to a register of the warp, and waits for it there, long before it is used.
 */
static __device__ inline int own_zero() {
    uint32_t thread = threadIdx.x;
    stay_inside(thread);
    return (int)(thread / 1024);
}

/* Accesses to memory are not moved across this. */
static __device__ inline void keep_order() {
#ifndef HR_EMULATED
    asm volatile("" ::: "memory");
#endif
}

/* Begins a copy of BYTES (4, 8 or 16) aligned bytes from memory to shared memory; what else the thread does
 * goes on. By way of the first-level cache: past it (.cg), norms' backward ran 12 % slower on an H200.
 * Without a hint for the L2: with that of ptx_evict_last() an H200 reports an illegal instruction. */
template <int BYTES> static __device__ inline void begin_copy(void *to, const void *from) {
    ptx_copy<BYTES>(ptx_shared_address(to), from);
}

/* Adds into four aligned neighbours. */
static __device__ inline void add_4(float *place, float a, float b, float c, float d) {
#if !defined HR_EMULATED && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(place), "f"(a), "f"(b),
                 "f"(c), "f"(d)
                 : "memory");
#else
    atomicAdd(place, a);
    atomicAdd(place + 1, b);
    atomicAdd(place + 2, c);
    atomicAdd(place + 3, d);
#endif
}
