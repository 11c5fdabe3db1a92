/* Source to paste launches a kernel with tensor maps: the text that makes them, and the launch.
 *
 * In: a launch as the device would get it. Out: host code. Its numbers are those of the extents that it was
 * emitted for.
 */
#ifndef HR_EMIT_LAUNCHER_MAPS_H
#define HR_EMIT_LAUNCHER_MAPS_H

#include "base/launch.h"
#include "emit/printer.h"

/* make_map(), once in front of the launcher. */
void hr_cuda_print_map_maker(hr_printer *p);
/* Makes the maps of the launch and launches `launch->entry`; returns from the launcher where that fails. */
void hr_cuda_print_mapped_launch(hr_printer *p, const hr_launch *launch);

#endif
