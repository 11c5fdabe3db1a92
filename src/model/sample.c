/* Choosing a token from logits.
 *
 * In: a row of logits, what is likely enough. Out: a token. The host finds the least logit that is kept; a
 * kernel draws. Its random numbers depend on the seed and the position alone.
 */
#include "model/model.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_falling(const void *a, const void *b) {
    float first = *(const float *)a, second = *(const float *)b;
    return (first < second) - (first > second);
}

/* Puts the k largest in front, in any order. */
static void largest_first(float *values, int64_t count, int64_t k) {
    int64_t low = 0, high = count - 1;
    while (low < high) {
        float pivot = values[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (values[i] > pivot)
                i++;
            while (values[j] < pivot)
                j--;
            if (i > j) break;
            float swapped = values[i];
            values[i++] = values[j];
            values[j--] = swapped;
        }
        if (k - 1 <= j)
            high = j;
        else if (k - 1 >= i)
            low = i;
        else
            return;
    }
}

/* The least of `count` logits that is kept: the k largest, of these as many as have `top_p` together, of
 * these what is at least `min_p` of the largest. Sorts what it looks at. */
static float least_kept(float *values, int64_t count, const hr_sampling *sampling) {
    int64_t kept = sampling->top_k > 0 && sampling->top_k < count ? sampling->top_k : count;
    bool by_share = sampling->top_p > 0 && sampling->top_p < 1;
    if (kept < count) largest_first(values, count, kept);
    float largest = values[0], least = values[0];
    double sum = 0, part = 0;
    for (int64_t i = 0; i < kept; i++) {
        largest = fmaxf(largest, values[i]);
        least = fminf(least, values[i]);
    }
    if (by_share) {
        qsort(values, (size_t)kept, sizeof *values, by_falling);
        for (int64_t i = 0; i < kept; i++)
            sum += exp((double)values[i] - largest);
        for (int64_t i = 0; i < kept && part < sampling->top_p * sum; i++) {
            part += exp((double)values[i] - largest);
            least = values[i];
        }
    }
    if (sampling->min_p > 0) least = fmaxf(least, (float)(largest + log(sampling->min_p)));
    return fminf(least, largest);
}

static int32_t likeliest(const float *logits, int64_t count) {
    int64_t best = 0;
    for (int64_t v = 1; v < count; v++)
        if (logits[v] > logits[best] || isnan(logits[best])) best = v;
    return (int32_t)best;
}

static hr_array scalar_of(hr_dtype dtype, void *data) {
    return (hr_array){.size = sizeof(hr_array), .data = data, .dtype = dtype};
}

static bool is_answer(const struct hr_model *model, const float *logits) {
    const char *at = (const char *)logits;
    const hr_model_memory *answers = &model->logits;
    return at >= answers->host && at < answers->host + answers->bytes;
}

/* The row where kernels find it: as the last step left it, or brought there. */
static hr_status row_send(struct hr_model *model, const float *logits, hr_array *out) {
    const size_t bytes = (size_t)model->vocabulary * sizeof *logits;
    *out = (hr_array){.size = sizeof *out,
                      .data = (void *)(uintptr_t)logits,
                      .dtype = HR_F32,
                      .rank = 1,
                      .shape = &model->vocabulary};
    if (hr_device_memory_is_host(model->device)) return HR_OK;
    if (is_answer(model, logits)) {
        out->data = hr_model_memory_at(&model->logits, logits);
        return HR_OK;
    }
    out->data = model->drawn.device;
    return hr_device_upload(model->device, model->drawn.device, logits, bytes);
}

/* The token that a kernel chooses, the last of its arrays. */
static hr_status choose(struct hr_model *model, hr_kernel *kernel, hr_array *arrays, int count,
                        int32_t *out) {
    int64_t *token = (int64_t *)(void *)(model->drawn.host + (size_t)model->vocabulary * sizeof(float));
    arrays[count - 1] = scalar_of(HR_I64, hr_model_memory_at(&model->drawn, token));
    HR_TRY(hr_kernel_execute(kernel, arrays, count, NULL));
    HR_TRY(hr_model_memory_fetch(model->device, &model->drawn, token, sizeof *token));
    *out = (int32_t)*token;
    return HR_OK;
}

static hr_status likeliest_choose(struct hr_model *model, const float *logits, int32_t *out) {
    hr_array arrays[2];
    if (hr_device_memory_is_host(model->device)) {
        *out = likeliest(logits, model->vocabulary);
        return HR_OK;
    }
    HR_TRY(row_send(model, logits, arrays));
    return choose(model, model->likeliest, arrays, 2, out);
}

static hr_status draw(struct hr_model *model, const float *logits, float least, const hr_sampling *sampling,
                      int64_t position, int32_t *out) {
    int64_t seed = (int64_t)(sampling->seed & INT64_MAX >> 10); /* a scalar is handed over as an f64 */
    double temperature = sampling->temperature;
    hr_array arrays[6];
    HR_TRY(row_send(model, logits, arrays));
    arrays[1] = scalar_of(HR_F32, &least);
    arrays[2] = scalar_of(HR_F64, &temperature);
    arrays[3] = scalar_of(HR_I64, &seed);
    arrays[4] = scalar_of(HR_I64, &position);
    return choose(model, model->sampler, arrays, 6, out);
}

static hr_status likely_draw(struct hr_model *model, const float *logits, const hr_sampling *sampling,
                             int64_t position, int32_t *out) {
    const size_t bytes = (size_t)model->vocabulary * sizeof(float);
    float *values = hr_memory_take(bytes);
    hr_status status = HR_OK;
    if (!values) return hr_fail(HR_OUT_OF_MEMORY, "no memory to sample");
    if (is_answer(model, logits) && !hr_device_memory_is_host(model->device))
        status = hr_device_download(model->device, values, hr_model_memory_at(&model->logits, logits), bytes);
    else
        memcpy(values, logits, bytes);
    for (int64_t v = 0; v < model->vocabulary; v++)
        if (isnan(values[v])) values[v] = -INFINITY;
    const float least = least_kept(values, model->vocabulary, sampling);
    free(values);
    return status == HR_OK ? draw(model, logits, least, sampling, position, out) : status;
}

hr_status hr_model_sample(hr_model *model, const float *logits, const hr_sampling *sampling, int64_t position,
                          int32_t *out) {
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    HR_TRY(hr_pointer_check(logits, "logits", __func__));
    HR_TRY(hr_pointer_check(sampling, "sampling", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (sampling->size < sizeof *sampling)
        return hr_fail(HR_BAD_INPUT, "what says how to sample does not say its size");
    bool sane = sampling->temperature >= 0 && sampling->top_k >= 0 && sampling->top_p >= 0 &&
                sampling->top_p <= 1 && sampling->min_p >= 0 && sampling->min_p <= 1;
    if (!sane || !isfinite(sampling->temperature))
        return hr_fail(HR_BAD_INPUT, "temperature and top_k are at least 0, top_p and min_p from 0 to 1");
    return sampling->temperature == 0 ? likeliest_choose(model, logits, out)
                                      : likely_draw(model, logits, sampling, position, out);
}
