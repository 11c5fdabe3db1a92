/* A power of two that the text names: `k // 32` stands where groups share a scale, in the innermost loop. */
#ifdef __CUDACC__
#define HR_IS_POWER(b) false
#define HR_EXPONENT(b) 0
#else
#define HR_IS_POWER(b) (__builtin_constant_p(b) && (b) > 0 && ((b) & ((b)-1)) == 0)
#define HR_EXPONENT(b) __builtin_ctzll((uint64_t)(b))
#endif
