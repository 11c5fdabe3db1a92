/* Instructions of the tensor cores up to sm_80, and how tiles of 16-bit operands lie in shared memory.
 *
 * A tile is a run of rows of 128 bytes, eight chunks of 16 bytes each. Chunk c of row r stands in the place
 * of chunk c ^ r % 8: then the eight rows that an instruction reads at once lie in different banks. It is the
 * swizzle that the copy engine makes, too.
 */
#ifdef HR_EMULATED
typedef char *shared_address;
#else
typedef uint32_t shared_address;
#endif

static __device__ inline shared_address shared_address_of(void *place) {
#ifdef HR_EMULATED
    return (char *)place;
#else
    return (uint32_t)__cvta_generic_to_shared(place);
#endif
}

/* Where chunk `chunk` of 8 elements along k of row `row` stands, in bytes. */
static __device__ inline int k_major_place(int row, int chunk) {
    return row * 128 + ((chunk ^ (row & 7)) << 4);
}

/* The same where 64 elements along the rows' axis are neighbours, one k after the other, 64 of those. */
static __device__ inline int mn_major_place(int k, int chunk) {
    return (chunk >> 3) * 8192 + k * 128 + (((chunk & 7) ^ (k & 7)) << 4);
}

/* Begins a copy of 16 aligned bytes; `bytes`: 16, or 0 for zeros. Past the first-level cache: a tile is read
 * by one block once. */
static __device__ inline void copy_chunk(shared_address to, const void *from, int bytes) {
#ifdef HR_EMULATED
    hr_emulated_copy_async(to, from, bytes, 16);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
#endif
}

static __device__ inline void end_chunks() {
#ifdef HR_EMULATED
    hr_emulated_copy_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* All runs of chunks that this thread ended have arrived, but the last LEFT. */
template <int LEFT> static __device__ inline void wait_for_chunks() {
#ifdef HR_EMULATED
    hr_emulated_copy_wait(LEFT);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

static __device__ inline void store_chunk(shared_address to, const uint32_t (&word)[4]) {
#ifdef HR_EMULATED
    *(uint4 *)to = make_uint4(word[0], word[1], word[2], word[3]);
#else
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(word[0]), "r"(word[1]),
                 "r"(word[2]), "r"(word[3])
                 : "memory");
#endif
}

/* Four matrices of 8 rows of 16 bytes; lane l gives the place of row l % 8 of matrix l / 8 and gets the word
 * of row l / 4 at l % 4 of each. TRANSPOSED: of the transpose of each, as 16-bit elements. */
template <bool TRANSPOSED>
static __device__ inline void load_matrices(shared_address from, uint32_t (&r)[4]) {
#ifdef HR_EMULATED
    const int lane = (int)threadIdx.x % 32;
    for (int i = 0; i < 4; i++) {
        char *row[2];
        for (int h = 0; h < 2; h++)
            row[h] = (char *)__shfl_sync(0xffffffffu, (uint64_t)from,
                                         i * 8 + (TRANSPOSED ? lane % 4 * 2 + h : lane / 4));
        const uint16_t low = ((const uint16_t *)row[0])[TRANSPOSED ? lane / 4 : lane % 4 * 2];
        const uint16_t high = ((const uint16_t *)row[1])[TRANSPOSED ? lane / 4 : lane % 4 * 2 + 1];
        r[i] = low | (uint32_t)high << 16;
    }
    __syncwarp();
#else
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(from)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(from)
                     : "memory");
#endif
}

/* How 16 bits are a number. */
struct half_kind {
    enum kind { bf16, f16 };
};

#ifdef HR_EMULATED
/* Element i of the 16 along k that a row's four lanes hold, two words each. */
template <half_kind::kind KIND>
static __device__ inline float emulated_operand(uint32_t near, uint32_t far, int from, int i) {
    const uint32_t low = __shfl_sync(0xffffffffu, near, from + i % 8 / 2);
    const uint32_t high = __shfl_sync(0xffffffffu, far, from + i % 8 / 2);
    const uint16_t bits = (uint16_t)((i < 8 ? low : high) >> i % 2 * 16);
    return KIND == half_kind::bf16 ? f32_of_bits((int32_t)((uint32_t)bits << 16))
                                   : hr_emulated_f32_from_f16(bits);
}
#endif

/* d += a * b of 16 x 16 by 16 x 8 in f32, operands and sums spread over the warp as the tensor cores want
 * them: lane l has rows l / 4 and l / 4 + 8, columns l % 4 * 2 and the next of d. */
template <half_kind::kind KIND>
static __device__ inline void multiply_fragments(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                 uint32_t b1) {
#ifdef HR_EMULATED
    const int lane = (int)threadIdx.x % 32, row = lane / 4 * 4;
    double sum[4] = {d[0], d[1], d[2], d[3]};
    for (int i = 0; i < 16; i++) {
        const double x[2] = {emulated_operand<KIND>(a[0], a[2], row, i),
                             emulated_operand<KIND>(a[1], a[3], row, i)};
        for (int c = 0; c < 2; c++) {
            const double y = emulated_operand<KIND>(b0, b1, (lane % 4 * 2 + c) * 4, i);
            sum[c] += x[0] * y;
            sum[2 + c] += x[1] * y;
        }
    }
    for (int i = 0; i < 4; i++)
        d[i] = (float)sum[i];
#else
    if (KIND == half_kind::bf16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
                     "%7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
