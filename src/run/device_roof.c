/* The public hr_device_roof: from the cache folder, else measured.
 *
 * It stands here because the rates of exp, log and their kin must be those of the code that is emitted, and
 * this is where both the printer's texts and the device are known.
 */
#include "run/roof_functions.h"

#include "base/handle.h"
#include "device/roof_store.h"

#include <math.h>

static hr_status measure(hr_device *device, hr_progress_fn progress, void *context, hr_roof *out) {
    hr_text functions = {0}, products = {0};
    hr_load_reading begun, ended;
    bool cuda = device->limits.compute != 0;
    hr_status status =
        cuda ? hr_roof_functions_cuda_source(&functions) : hr_roof_functions_source(&functions);
    if (status == HR_OK && cuda) status = hr_roof_products_cuda_source(&products);
    hr_roof_sources sources = {.functions = hr_text_data(&functions),
                               .products = cuda ? hr_text_data(&products) : NULL};
    hr_load_read(device, &begun);
    if (status == HR_OK) status = device->ops->measure_roof(device, &sources, progress, context, out);
    hr_load_read(device, &ended);
    hr_text_clear(&functions);
    hr_text_clear(&products);
    HR_TRY(status);
    double busy = hr_load_between(&begun, &ended, out->threads);
    out->busy = hr_load_is_given(device) ? busy : fmax(out->busy, busy);
    return HR_OK;
}

/* What others hindered stays with this device alone: a process that comes later measures anew. */
static hr_status measure_and_keep(hr_device *device, hr_progress_fn progress, void *context, hr_roof *out) {
    hr_roof roof;
    HR_TRY(measure(device, progress, context, &roof));
    bool busy = roof.busy > HR_LOAD_BUSY;
    device->roof = busy ? roof : (hr_roof){0};
    if (!busy) hr_roof_store_write(device, &roof); /* a roof that cannot be kept is as true */
    *out = roof;
    return HR_OK;
}

/* One that was measured before. */
static bool is_known(const hr_device *device, hr_roof *out) {
    if (hr_roof_store_read(device, out) == HR_OK) return true;
    if (device->roof.threads > 0) *out = device->roof;
    return device->roof.threads > 0;
}

hr_status hr_device_roof(hr_device *device, bool again, hr_progress_fn progress, void *context,
                         hr_roof *out) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    int lock;
    if (!again && is_known(device, out)) return HR_OK;
    HR_TRY(hr_roof_store_lock(progress, context, &lock));
    hr_status status = HR_OK;
    if (again || !is_known(device, out)) /* another may have measured while this one waited */
        status = measure_and_keep(device, progress, context, out);
    hr_roof_store_unlock(lock);
    return status;
}

hr_status hr_device_roof_kept(hr_device *device, hr_roof *out) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (!device->ops->launch) /* a target, which refuses */
        return device->ops->measure_roof(device, NULL, NULL, NULL, out);
    return hr_roof_store_read(device, out);
}
