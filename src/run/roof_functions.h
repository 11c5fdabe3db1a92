/* What the roof measures special functions and products with: the code that is emitted for them. It stands
 * here because the printers' texts and the device are both known here. Out: source. */
#ifndef HR_RUN_ROOF_FUNCTIONS_H
#define HR_RUN_ROOF_FUNCTIONS_H

#include "base/text.h"

/* Appends the source of functions that hr_device_ops.measure_roof takes. */
hr_status hr_roof_functions_source(hr_text *out);
/* The same for a CUDA device, and that of products. */
hr_status hr_roof_functions_cuda_source(hr_text *out);
hr_status hr_roof_products_cuda_source(hr_text *out);

#endif
