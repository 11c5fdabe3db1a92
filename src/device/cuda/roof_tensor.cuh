/* The roof's products: the tensor cores with operands in shared memory (wgmma, sm_90a) or registers (mma, any).
 *
 * Operands are random bits of ordinary numbers: zeros would run faster than data does. Each kernel repeats the
 * same tiles; the host counts the multiply-adds. */

struct hr_tensor_words {
    unsigned *never;
    const unsigned *random; /* 64 KB of operand bits, made on the host for this dtype */
    int rounds;
};

#if __CUDA_ARCH_FEAT_SM90_ALL
/* ---- wgmma: tiles of 64 x 256, 128 bytes of k a stage, two warpgroups a block ---- */

static constexpr int HR_TILE_A = 64 * 128, HR_TILE_B = 256 * 128, HR_TENSOR_STAGES = 2;

/* K-major, 128-byte swizzle. */
__device__ inline unsigned long long hr_descriptor(const void *tile) {
    unsigned long long address = (unsigned)__cvta_generic_to_shared(tile);
    return ((address & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define HR_8(x, i)                                                                                           \
    x(acc[i]), x(acc[i + 1]), x(acc[i + 2]), x(acc[i + 3]), x(acc[i + 4]), x(acc[i + 5]), x(acc[i + 6]),     \
        x(acc[i + 7])
#define HR_32(x, i)  HR_8(x, i), HR_8(x, i + 8), HR_8(x, i + 16), HR_8(x, i + 24)
#define HR_128(x)    HR_32(x, 0), HR_32(x, 32), HR_32(x, 64), HR_32(x, 96)
#define HR_ACC_F32(v) "+f"(v)
#define HR_ACC_S32(v) "+r"(v)
#define HR_ACC_TEXT                                                                                          \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"    \
    "%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,"   \
    "%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,"   \
    "%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,"      \
    "%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,"   \
    "%121,%122,%123,%124,%125,%126,%127}"

#define HR_WGMMA(name, accumulator, constraint, instruction, tail)                                           \
    extern "C" __global__ void __launch_bounds__(256, 1) name(const __grid_constant__ hr_tensor_words w) {   \
        extern __shared__ __align__(1024) unsigned char tiles[];                                             \
        int bytes = HR_TENSOR_STAGES * (2 * HR_TILE_A + HR_TILE_B);                                          \
        for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x)                                            \
            ((unsigned *)tiles)[i] = w.random[(i + blockIdx.x * 64) & 16383];                                \
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                                         \
        __syncthreads();                                                                                     \
        accumulator acc[128];                                                                                \
        _Pragma("unroll") for (int i = 0; i < 128; i++) acc[i] = 0;                                          \
        for (int round = 0; round < w.rounds; round++) {                                                     \
            _Pragma("unroll 1") for (int stage = 0; stage < HR_TENSOR_STAGES; stage++) {                       \
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");                                      \
                const unsigned char *at = tiles + stage * (2 * HR_TILE_A + HR_TILE_B);                       \
                unsigned long long a = hr_descriptor(at + (threadIdx.x / 128) * HR_TILE_A);                  \
                unsigned long long b = hr_descriptor(at + 2 * HR_TILE_A);                                    \
                _Pragma("unroll") for (int k = 0; k < 4; k++) {                                              \
                    asm volatile(instruction " " HR_ACC_TEXT ", %128, %129, " tail ";"                       \
                                 : HR_128(constraint)                                                        \
                                 : "l"(a + 2 * k), "l"(b + 2 * k));                                          \
                }                                                                                            \
            }                                                                                                \
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");                                   \
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");                                   \
        }                                                                                                    \
        unsigned bits = 0;                                                                                   \
        _Pragma("unroll") for (int i = 0; i < 128; i++) bits ^= (unsigned)acc[i];                            \
        if (bits == 0x5eed5eed) *w.never = bits;                                                             \
    }

HR_WGMMA(hr_tensor_bf16, float, HR_ACC_F32, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
         "1, 1, 1, 0, 0")
HR_WGMMA(hr_tensor_f16, float, HR_ACC_F32, "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16",
         "1, 1, 1, 0, 0")
HR_WGMMA(hr_tensor_tf32, float, HR_ACC_F32, "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32", "1, 1, 1")
HR_WGMMA(hr_tensor_f8, float, HR_ACC_F32, "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3", "1, 1, 1")
HR_WGMMA(hr_tensor_i8, int, HR_ACC_S32, "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8", "1")
#else
/* ---- mma: 16 x 8 tiles from registers, four accumulators a warp ---- */

#define HR_MMA(name, accumulator, constraint, instruction)                                                   \
    extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ hr_tensor_words w) {      \
        accumulator acc[8][4];                                                                               \
        unsigned a[4], b[2];                                                                                 \
        _Pragma("unroll") for (int i = 0; i < 4; i++) a[i] = w.random[(threadIdx.x * 4 + i) & 16383];        \
        _Pragma("unroll") for (int i = 0; i < 2; i++) b[i] = w.random[(threadIdx.x * 2 + i + 4096) & 16383]; \
        _Pragma("unroll") for (int i = 0; i < 32; i++) acc[i / 4][i % 4] = 0;                                \
        for (int round = 0; round < w.rounds; round++) {                                                     \
            _Pragma("unroll") for (int i = 0; i < 8; i++) {                                                  \
                asm volatile(instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"  \
                             : constraint(acc[i][0]), constraint(acc[i][1]), constraint(acc[i][2]),          \
                               constraint(acc[i][3])                                                         \
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));            \
            }                                                                                                \
        }                                                                                                    \
        unsigned bits = 0;                                                                                   \
        _Pragma("unroll") for (int i = 0; i < 32; i++) bits ^= (unsigned)acc[i / 4][i % 4];                  \
        if (bits == 0x5eed5eed) *w.never = bits;                                                             \
    }

HR_MMA(hr_tensor_bf16, float, "+f", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
HR_MMA(hr_tensor_f16, float, "+f", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
HR_MMA(hr_tensor_tf32, float, "+f", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
HR_MMA(hr_tensor_i8, int, "+r", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
#if __CUDA_ARCH__ >= 890
HR_MMA(hr_tensor_f8, float, "+f", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")
#endif
#endif
