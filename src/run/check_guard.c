/* Poison and digests. In and out: see check_guard.h. */
#include "run/check_guard.h"
#include "device/team.h"

#include "base/dtype.h"

#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)1 << 20) /* bytes that go to a device at a time */
#define BLOCK ((int64_t)1 << 16)

/* NaN of every float dtype, and no whole number that a kernel would leave everywhere. */
enum { POISON = 0xff };

bool hr_binding_is_dense(const hr_tensor *tensor, const hr_binding *binding) {
    int64_t stride = 1;
    if (binding->members) return false;
    for (int axis = tensor->rank; axis-- > 0;) {
        if (binding->shape[axis] != 1 && binding->strides[axis] != stride) return false;
        stride *= binding->shape[axis];
    }
    return true;
}

/* ---- poison ---- */

static hr_status bytes_poison(hr_kernel *kernel, char *data, size_t bytes) {
    if (hr_device_memory_is_host(kernel->device)) {
        memset(data, POISON, bytes);
        return HR_OK;
    }
    char *piece = malloc(PIECE);
    hr_status status = piece ? HR_OK : hr_fail(HR_OUT_OF_MEMORY, "no memory to check a kernel");
    if (piece) memset(piece, POISON, PIECE);
    for (size_t at = 0; at < bytes && status == HR_OK; at += PIECE)
        status = hr_device_upload(kernel->device, data + at, piece, bytes - at < PIECE ? bytes - at : PIECE);
    free(piece);
    return status;
}

/* Elements alone: what lies between them may belong to other arrays. */
static hr_status elements_poison(hr_kernel *kernel, int i, int axis, char *data) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    const hr_binding *binding = &kernel->bindings[i];
    const int64_t size = (int64_t)hr_dtype_size(tensor->dtype);
    if (axis == tensor->rank) {
        memset(data, POISON, (size_t)size);
        return HR_OK;
    }
    for (int64_t x = 0; x < binding->shape[axis]; x++)
        HR_TRY(elements_poison(kernel, i, axis + 1, data + x * binding->strides[axis] * size));
    return HR_OK;
}

static hr_status members_poison(hr_kernel *kernel, int i) {
    const hr_members *members = kernel->bindings[i].members;
    const size_t bytes = (size_t)members->elements * hr_dtype_size(hr_kernel_tensor(kernel, i)->dtype);
    for (int64_t k = 0; k < members->count; k++)
        HR_TRY(bytes_poison(kernel, members->data[k], bytes));
    return HR_OK;
}

hr_status hr_guard_poison(hr_kernel *kernel) {
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
        const hr_binding *binding = &kernel->bindings[i];
        const int64_t elements =
            tensor->role == HR_ROLE_RESULT ? hr_shape_elements(tensor->rank, binding->shape) : 0;
        if (!elements) continue;
        if (binding->members)
            HR_TRY(members_poison(kernel, i));
        else if (hr_binding_is_dense(tensor, binding))
            HR_TRY(bytes_poison(kernel, binding->data, (size_t)elements * hr_dtype_size(tensor->dtype)));
        else if (hr_device_memory_is_host(kernel->device))
            HR_TRY(elements_poison(kernel, i, 0, binding->data));
    }
    return kernel->scratch ? bytes_poison(kernel, kernel->scratch, kernel->scratch_size) : HR_OK;
}

/* ---- digests ---- */

static uint64_t block_digest(const char *data, int64_t from, int64_t to, int64_t bytes) {
    uint64_t sum = 0;
    for (int64_t i = from; i < to; i++) {
        uint64_t word = 0;
        memcpy(&word, data + i * 8, (size_t)(bytes - i * 8 < 8 ? bytes - i * 8 : 8));
        word = (word + (uint64_t)i) * 0x9e3779b97f4a7c15u;
        sum += (word ^ (word >> 32)) * 0x94d049bb133111ebu;
    }
    return sum;
}

typedef struct digest_job {
    const void *data;
    int64_t bytes;
    _Atomic uint64_t sum;
} digest_job;

static void digest_part(void *context, int64_t part, int64_t parts) {
    digest_job *job = context;
    const int64_t words = (job->bytes + 7) / 8, blocks = (words + BLOCK - 1) / BLOCK;
    const int64_t end = blocks * (part + 1) / parts * BLOCK;
    job->sum += block_digest(job->data, blocks * part / parts * BLOCK, end < words ? end : words, job->bytes);
}

uint64_t hr_digest_host(const void *data, int64_t bytes) {
    digest_job job = {.data = data, .bytes = bytes};
    hr_team_run(bytes > BLOCK * 8 ? 0 : 1, digest_part, &job);
    return job.sum;
}

hr_status hr_guard_digest(hr_kernel *kernel, uint64_t *digests) {
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
        const hr_binding *binding = &kernel->bindings[i];
        digests[i] = 0;
        if (tensor->role != HR_ROLE_INPUT || hr_tensor_is_scalar(tensor) ||
            !hr_binding_is_dense(tensor, binding))
            continue;
        const int64_t bytes =
            hr_shape_elements(tensor->rank, binding->shape) * (int64_t)hr_dtype_size(tensor->dtype);
        if (hr_device_memory_is_host(kernel->device))
            digests[i] = hr_digest_host(binding->data, bytes);
        else if (bytes)
            HR_TRY(hr_digest_cuda(kernel, binding->data, bytes, &digests[i]));
    }
    return HR_OK;
}
