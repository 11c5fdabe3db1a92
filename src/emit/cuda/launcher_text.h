/* Host code of source to paste, as text, embedded at build time. */
#ifndef HR_EMIT_CUDA_LAUNCHER_TEXT_H
#define HR_EMIT_CUDA_LAUNCHER_TEXT_H

extern const unsigned char hr_cuda_launcher_maps_text[]; /* terminated */

#endif
