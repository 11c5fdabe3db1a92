/* A product of a warpgroup with operands that lie in shared memory in any of the ways that the tensor cores
 * read. For tests, on a GPU and on the emulated one.
 *
 * 128 rows of A and N of B, 256 bytes of K of each: 8 products of 32 bytes, for each 64 rows. The operands
 * come by their tensor maps or by ordinary stores that swizzle by themselves; A may come in registers,
 * straight from memory. PRODUCT::make is the instruction's wrapper. */

/* How an operand lies: boxes of rows x width bytes, one after another, and what its descriptor says. */
struct operand {
    int64_t boxes, rows, width, elements,
        pitch;                        /* elements: that a box is wide; pitch: bytes of a row in memory */
    int64_t leading, stride, swizzle; /* of the descriptor */
    int64_t steps_per_part, step, part,
        rows_64; /* bytes to the next 32 of K, inside a part; to the next; 64 rows on */
};

struct arguments {
    const char *a, *b, *a_rows; /* as the maps read them; A with K contiguous, for registers */
    uint32_t *out;
    double scalars[4];
    operand of_a, of_b;
    int64_t by_maps, begin_b;
    char *scratch;
    fault_record *fault;
};

static __device__ inline uint32_t swizzled(uint32_t address, int64_t width) {
    const uint32_t mask = width == 128 ? 7 : width == 64 ? 3 : width == 32 ? 1 : 0;
    return address ^ (address >> 7 & mask) << 4;
}

static __device__ inline void bring(char *memory, uint32_t place, const operand &o, const tensor_map *map,
                                    const char *from, bool by_map, uint32_t barrier) {
    const int bytes = (int)(o.rows * o.width);
    if (by_map) {
        if (threadIdx.x == 0)
            for (int p = 0; p < o.boxes; p++)
                ptx_tensor_load_2d(place + p * bytes, map, (int)(p * o.elements), 0, barrier);
        return;
    }
    const int chunks = (int)o.width / 16;
    for (int i = threadIdx.x; i < o.boxes * o.rows * chunks; i += 128) {
        const int p = i / ((int)o.rows * chunks), r = i / chunks % (int)o.rows, c = i % chunks;
        const uint32_t offset = swizzled(place + p * bytes + r * (int)o.width + c * 16, o.width) - place;
        *(uint4 *)(memory + offset) = *(const uint4 *)(from + r * o.pitch + p * o.width + c * 16);
    }
}

static __device__ inline uint64_t moved(uint64_t descriptor, const operand &o, int step, int half) {
    const int64_t bytes =
        step / o.steps_per_part * o.part + step % o.steps_per_part * o.step + half * o.rows_64;
    return descriptor + (uint64_t)(bytes >> 4);
}

template <class PRODUCT>
static __device__ inline void multiply(const tensor_map &map_a, const tensor_map &map_b, const arguments &w) {
    typedef typename PRODUCT::sum sum;
    __shared__ uint64_t barrier_word;
    const uint32_t barrier = ptx_shared_address(&barrier_word), start = ptx_shared_address(staged_memory());
    const uint32_t place_a = (start + 1023) & ~1023u, place_b = place_a + (uint32_t)w.begin_b;
    char *const memory_a = staged_memory() + (place_a - start), *const memory_b = memory_a + w.begin_b;
    const bool by_maps = w.by_maps != 0;
    if (threadIdx.x == 0) {
        ptx_mbarrier_init(barrier, 1);
        ptx_fence_mbarrier_init();
    }
    __syncthreads();
    if (by_maps && threadIdx.x == 0)
        ptx_mbarrier_arrive_expect(
            barrier, (int)((PRODUCT::registers ? 0 : w.of_a.boxes * w.of_a.rows * w.of_a.width) +
                           w.of_b.boxes * w.of_b.rows * w.of_b.width));
    if (!PRODUCT::registers) bring(memory_a, place_a, w.of_a, &map_a, w.a, by_maps, barrier);
    bring(memory_b, place_b, w.of_b, &map_b, w.b, by_maps, barrier);
    if (by_maps) {
        ptx_mbarrier_wait(barrier, 0);
    } else {
        ptx_fence_proxy_async();
        __syncthreads();
    }
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const uint64_t a0 =
        ptx_wgmma_descriptor(place_a, (int)w.of_a.leading, (int)w.of_a.stride, (int)w.of_a.swizzle);
    const uint64_t b0 =
        ptx_wgmma_descriptor(place_b, (int)w.of_b.leading, (int)w.of_b.stride, (int)w.of_b.swizzle);
    for (int half = 0; half < 2; half++) {
        sum d[PRODUCT::columns / 2];
#pragma unroll
        for (int i = 0; i < PRODUCT::columns / 2; i++)
            d[i] = 0;
#pragma unroll 1
        for (int step = 0; step < 8; step++) {
            uint32_t a[4] = {0, 0, 0, 0};
            if (PRODUCT::registers)
                for (int i = 0; i < 4; i++)
                    a[i] = *(const uint32_t *)(w.a_rows + (half * 64 + 16 * warp + g + 8 * (i & 1)) * 256 +
                                               step * 32 + 4 * t + 16 * (i >> 1));
            ptx_wgmma_fence();
            PRODUCT::make(d, a, moved(a0, w.of_a, step, half), moved(b0, w.of_b, step, 0), step > 0);
            ptx_wgmma_commit();
            ptx_wgmma_wait<0>();
        }
        sum *const out = (sum *)w.out + half * 64 * PRODUCT::columns;
#pragma unroll
        for (int i = 0; i < PRODUCT::columns / 2; i++)
            out[(16 * warp + g + i % 4 / 2 * 8) * PRODUCT::columns + i / 4 * 8 + 2 * t + i % 2] = d[i];
    }
}
