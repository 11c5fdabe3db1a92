/* The public hr_device_roof: from the cache folder, else measured.
 *
 * It stands here because the rates of exp, log and their kin must be those of the code that is emitted, and
 * this is where both the printer's texts and the device are known.
 */
#include "device/roof_store.h"
#include "emit/prelude.h"

static hr_status measure_and_keep(hr_device *device, hr_progress_fn progress, void *context, hr_roof *out) {
    hr_text functions = {0}, products = {0};
    bool cuda = device->limits.compute != 0;
    hr_status status = cuda ? hr_prelude_cuda_rates_source(&functions) : hr_prelude_rates_source(&functions);
    if (status == HR_OK && cuda) status = hr_prelude_cuda_products_source(&products);
    hr_roof_sources sources = {.functions = hr_text_data(&functions),
                               .products = cuda ? hr_text_data(&products) : NULL};
    if (status == HR_OK) status = device->ops->measure_roof(device, &sources, progress, context, out);
    hr_text_clear(&functions);
    hr_text_clear(&products);
    if (status == HR_OK) hr_roof_store_write(device, out); /* a roof that cannot be kept is as true */
    return status;
}

hr_status hr_device_roof(hr_device *device, bool again, hr_progress_fn progress, void *context,
                         hr_roof *out) {
    int lock;
    if (!again && hr_roof_store_read(device, out) == HR_OK) return HR_OK;
    HR_TRY(hr_roof_store_lock(progress, context, &lock));
    hr_status status = HR_OK;
    if (again ||
        hr_roof_store_read(device, out) != HR_OK) /* another may have measured while this one waited */
        status = measure_and_keep(device, progress, context, out);
    hr_roof_store_unlock(lock);
    return status;
}
