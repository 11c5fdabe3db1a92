/* The types that the PTX wrappers speak of, which NVRTC does not bring. */
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
