/* The kernels that measure the roof, as C for the host's compiler, embedded at build time
 * (src/device/roof/roof.cmake). They are compiled on the machine that they measure, for exactly that machine.
 */
#ifndef HR_DEVICE_ROOF_TEXT_H
#define HR_DEVICE_ROOF_TEXT_H

#include <stddef.h>

extern const unsigned char hr_roof_text[]; /* terminated */
extern const size_t hr_roof_text_length;

#endif
