/* The public hr_device_roof: from the cache folder, else measured.
 *
 * It stands here because the rates of exp, log and their kin must be those of the code that is emitted, and
 * this is where both the printer's texts and the device are known.
 */
#include "device/roof_store.h"
#include "emit/prelude.h"

static hr_status measure_and_keep(hr_device *device, hr_progress_fn progress, void *context, hr_roof *out) {
    hr_text special = {0};
    hr_status status =
        device->limits.compute ? hr_prelude_cuda_rates_source(&special) : hr_prelude_rates_source(&special);
    if (status == HR_OK)
        status = device->ops->measure_roof(device, hr_text_data(&special), progress, context, out);
    hr_text_clear(&special);
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
