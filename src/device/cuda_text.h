/* The CUDA device's own kernels as CUDA C, embedded at build time and compiled
 * by NVRTC on the machine where they run. */
#ifndef HR_DEVICE_CUDA_TEXT_H
#define HR_DEVICE_CUDA_TEXT_H

/* All are terminated. */
extern const unsigned char hr_cuda_timing_kernels_text[];
extern const unsigned char hr_cuda_fill_kernels_text[];
extern const unsigned char hr_cuda_check_kernels_text[];
extern const unsigned char hr_cuda_roof_memory_text[];
extern const unsigned char hr_cuda_roof_units_text[];

#endif
