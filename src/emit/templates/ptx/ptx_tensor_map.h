/* Copies by a tensor map (a CUtensorMap, 64-byte aligned: a __grid_constant__ parameter, constant or memory).
 * Coordinates are elements, the innermost axis first, and may lie outside: reads there give the map's fill,
 * writes are left out. A barrier counts the bytes of whole boxes. */

struct alignas(64) tensor_map {
    uint64_t words[16];
};

static __device__ inline void ptx_tensor_prefetch(const void *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
