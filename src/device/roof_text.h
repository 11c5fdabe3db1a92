/* The kernels that measure the roof, as C for the host's compiler, embedded at build time
 *. They are compiled on the machine that they measure, for exactly that machine.
 */
#ifndef HR_DEVICE_ROOF_TEXT_H
#define HR_DEVICE_ROOF_TEXT_H

extern const unsigned char hr_roof_text[]; /* terminated */

#endif
