/* Fixed text of CUDA files, embedded at build time. All are terminated. */
#ifndef HR_EMIT_CUDA_LAUNCHER_TEXT_H
#define HR_EMIT_CUDA_LAUNCHER_TEXT_H

extern const unsigned char hr_cuda_file_head_text[];     /* types and includes */
extern const unsigned char hr_cuda_launcher_maps_text[]; /* host code of source to paste */

#endif
