/* Tensor maps of the launcher: the driver makes them, and the CUDA runtime says where that function is. */
struct tensor_boxes {
    int type, rank;
    uint64_t dims[5], strides[5]; /* bytes, of the first axis unused */
    uint32_t box[5];
    int swizzle, promotion, fill;
};

static int make_map(tensor_map *map, const tensor_boxes &of, const void *base) {
    typedef int (*encoder)(void *map, int type, uint32_t rank, void *base, const uint64_t *dims,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int promotion, int fill);
    static encoder encode;
    if (!encode) {
        void *symbol = nullptr;
        cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
        const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &symbol, 12000,
                                                                   cudaEnableDefault, &found);
#else
        const cudaError_t error =
            cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &symbol, cudaEnableDefault, &found);
#endif
        if (error != cudaSuccess) return (int)error;
        if (found != cudaDriverEntryPointSuccess || !symbol) return (int)cudaErrorNotSupported;
        encode = (encoder)symbol;
    }
    const uint32_t steps[5] = {1, 1, 1, 1, 1};
    return encode(map, of.type, (uint32_t)of.rank, (void *)base, of.dims, of.strides + 1, of.box, steps, 0,
                  of.swizzle, of.promotion, of.fill)
               ? (int)cudaErrorInvalidValue
               : 0;
}
