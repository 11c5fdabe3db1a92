/* Choosing a token from logits.
 *
 * In: a row of logits, what is likely enough. Out: a token. The host finds the least logit that is kept; a
 * kernel draws. Its random numbers depend on the seed and the position alone. Where the host has not the
 * logits, kernels do both: choose_tokens.c.
 */
#include "model/choose_tokens.h"

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

/* On a device of its own memory: the row as the last step left it, or brought there. */
static hr_status choose_there(struct hr_model *model, const float *logits, hr_token_choice *choices,
                              int count) {
    void *row = model->drawn.device;
    if (is_answer(model, logits))
        row = hr_model_memory_at(&model->logits, logits);
    else
        HR_TRY(hr_device_upload(model->device, row, logits, (size_t)model->vocabulary * sizeof *logits));
    return hr_tokens_choose_there(model, row, choices, count);
}

static hr_status draw(struct hr_model *model, const float *logits, float least, const hr_sampling *sampling,
                      int64_t position, int32_t *out) {
    int64_t seed = hr_sampling_seed(sampling), token;
    double temperature = sampling->temperature;
    const hr_array arrays[] = {{.size = sizeof(hr_array),
                                .data = (void *)(uintptr_t)logits,
                                .dtype = HR_F32,
                                .rank = 1,
                                .shape = &model->vocabulary},
                               scalar_of(HR_F32, &least),
                               scalar_of(HR_F64, &temperature),
                               scalar_of(HR_I64, &seed),
                               scalar_of(HR_I64, &position),
                               scalar_of(HR_I64, &token)};
    HR_TRY(hr_kernel_execute(model->sampler, arrays, 6, NULL));
    *out = (int32_t)token;
    return HR_OK;
}

static hr_status likely_draw(struct hr_model *model, const float *logits, const hr_sampling *sampling,
                             int64_t position, int32_t *out) {
    const size_t bytes = (size_t)model->vocabulary * sizeof(float);
    float *values = hr_memory_take(bytes);
    if (!values) return hr_fail(HR_OUT_OF_MEMORY, "no memory to sample");
    memcpy(values, logits, bytes);
    for (int64_t v = 0; v < model->vocabulary; v++)
        if (isnan(values[v])) values[v] = -INFINITY;
    const float least = least_kept(values, model->vocabulary, sampling);
    free(values);
    return draw(model, logits, least, sampling, position, out);
}

static double log_probability(const float *logits, int64_t count, int32_t token) {
    double largest = -INFINITY, sum = 0;
    for (int64_t v = 0; v < count; v++)
        largest = fmax(largest, logits[v]);
    for (int64_t v = 0; v < count; v++)
        sum += exp(logits[v] - largest);
    return logits[token] - largest - log(sum);
}

static hr_status choose_here(struct hr_model *model, const float *logits, const hr_sampling *sampling,
                             int64_t position, int32_t *out) {
    if (sampling->temperature > 0) return likely_draw(model, logits, sampling, position, out);
    *out = likeliest(logits, model->vocabulary);
    return HR_OK;
}

static hr_status sampling_check(const hr_sampling *sampling) {
    if (sampling->size < sizeof *sampling)
        return hr_fail(HR_BAD_INPUT, "what says how to sample does not say its size");
    const bool sane = sampling->temperature >= 0 && sampling->top_k >= 0 && sampling->top_p >= 0 &&
                      sampling->top_p <= 1 && sampling->min_p >= 0 && sampling->min_p <= 1;
    if (!sane || !isfinite(sampling->temperature))
        return hr_fail(HR_BAD_INPUT, "temperature and top_k are at least 0, top_p and min_p from 0 to 1");
    return HR_OK;
}

hr_status hr_tokens_choose(struct hr_model *model, const float *logits, hr_token_choice *choices, int count) {
    for (int i = 0; i < count; i++)
        if (choices[i].sampling) HR_TRY(sampling_check(choices[i].sampling));
    if (!hr_device_memory_is_host(model->device)) return choose_there(model, logits, choices, count);
    for (int i = 0; i < count; i++, logits += model->vocabulary) {
        hr_token_choice *choice = &choices[i];
        if (!choice->sampling) continue;
        HR_TRY(choose_here(model, logits, choice->sampling, choice->position, &choice->token));
        choice->log_probability = log_probability(logits, model->vocabulary, choice->token);
    }
    return HR_OK;
}

hr_status hr_model_sample(hr_model *model, const float *logits, const hr_sampling *sampling, int64_t position,
                          int32_t *out) {
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    HR_TRY(hr_pointer_check(logits, "logits", __func__));
    HR_TRY(hr_pointer_check(sampling, "sampling", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    HR_TRY(sampling_check(sampling));
    if (hr_device_memory_is_host(model->device)) return choose_here(model, logits, sampling, position, out);
    hr_token_choice choice = {.sampling = sampling, .position = position};
    HR_TRY(choose_there(model, logits, &choice, 1));
    *out = choice.token;
    return HR_OK;
}
