/* Kernels that the roof of a GPU measures products with, as text, embedded at build time. */
#ifndef HR_EMIT_CUDA_RATES_TEXT_H
#define HR_EMIT_CUDA_RATES_TEXT_H

extern const unsigned char hr_cuda_roof_products_text[]; /* terminated */

#endif
