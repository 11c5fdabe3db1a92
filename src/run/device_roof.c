/* The public hr_device_roof: from the cache folder, else measured.
 *
 * The rates of exp, log and their kin must be those of the code that is emitted, so their source is printed
 * here, from the prelude, where both the printer's texts and the device are known.
 */
#include "device/device.h"
#include "device/roof_store.h"
#include "emit/prelude.h"

#define WAYS 8 /* of device.h's contract */

/* Ways to do one kind of function; the best counts, since a floor is the least time. */
static const struct {
    hr_special special;
    const char *expression; /* of x */
} functions[] = {
    {HR_SPECIAL_EXP, "vf_exp(x)"},
    {HR_SPECIAL_LOG, "vf_log(x)"},
    {HR_SPECIAL_TANH, "vf_tanh(x)"},
    {HR_SPECIAL_ERF, "vf_erf(x)"},
    {HR_SPECIAL_TRIG, "vf_sin(x)"},
    {HR_SPECIAL_TRIG, "vf_cos(x)"},
    {HR_SPECIAL_ROOT, "vf_div(vf_of(1), x)"},
    {HR_SPECIAL_ROOT, "vf_sqrt(x)"},
    {HR_SPECIAL_ROOT, "vf_rsqrt(x)"},
};

static const int unrolls[] = {1, 2, 4};

static const char entry_text[] =
    "int hr_entry(const launch *l, void *fault) {\n"
    "    int64_t count = l->tuning[1] / 4, rounds = l->tuning[3];\n"
    "    int missing = 0;\n"
    "    (void)fault;\n"
    "#pragma omp parallel num_threads((int)l->threads) reduction(+ : missing)\n"
    "    {\n"
    "        int64_t at = omp_get_thread_num() * l->tuning[2];\n"
    "        float *y = (float *)((char *)l->pointers[0] + at);\n"
    "        const float *x = (const float *)((const char *)l->pointers[1] + at);\n"
    "        for (int64_t round = 0; round < rounds && !missing; round++)\n"
    "            missing += !run(l->tuning[0], y, x, count);\n"
    "    }\n"
    "    *(double *)l->scratch = (double)count * (double)rounds * (double)l->threads;\n"
    "    return missing != 0;\n"
    "}\n";

static const char launch_text[] = "typedef struct launch {\n"
                                  "    void *const *pointers;\n"
                                  "    const double *scalars;\n"
                                  "    const int64_t *extents, *strides;\n"
                                  "    void *scratch;\n"
                                  "    int64_t threads;\n"
                                  "    const int64_t *tuning;\n"
                                  "} launch;\n\n";

static void loop_print(hr_text *body, int function, int unroll) {
    hr_text_format(body,
                   "static void f%d_%d(float *restrict to, const float *restrict from, int64_t count) {\n"
                   "    for (int64_t i = 0; i < count; i += %d * HR_LANES) {\n",
                   function, unroll, unroll);
    for (int i = 0; i < unroll; i++)
        hr_text_format(
            body, "        vf y%d;\n        { vf x = vf_load_f32(from + i + %d * HR_LANES); y%d = %s; }\n", i,
            i, i, functions[function].expression);
    for (int i = 0; i < unroll; i++)
        hr_text_format(body, "        vf_store_f32(to + i + %d * HR_LANES, y%d);\n", i, i);
    hr_text_format(body, "    }\n}\n\n");
}

/* Every function in every unrolling, and the switch that chooses by number. */
static void body_print(hr_text *body) {
    int ways[HR_SPECIAL_COUNT] = {0};
    int count = sizeof functions / sizeof *functions, unroll_count = sizeof unrolls / sizeof *unrolls;
    hr_text_append(body, launch_text, sizeof launch_text - 1);
    for (int f = 0; f < count; f++)
        for (int u = 0; u < unroll_count; u++)
            loop_print(body, f, unrolls[u]);
    hr_text_format(body, "static int run(int64_t way, float *y, const float *x, int64_t count) {\n"
                         "    switch (way) {\n");
    for (int u = 0; u < unroll_count; u++) /* unrollings first: there may be more ways than numbers */
        for (int f = 0; f < count; f++)
            if (ways[functions[f].special] < WAYS)
                hr_text_format(body, "    case %d: f%d_%d(y, x, count); return 1;\n",
                               functions[f].special * WAYS + ways[functions[f].special]++, f, unrolls[u]);
    hr_text_format(body, "    case %d: random_fill(1, 0, count, y); return 1;\n", HR_SPECIAL_RANDOM * WAYS);
    hr_text_format(body, "    default: return 0;\n    }\n}\n\n");
    hr_text_append(body, entry_text, sizeof entry_text - 1);
}

static hr_status special_print(hr_text *out) {
    hr_text body = {0};
    body_print(&body);
    hr_status status = hr_text_status(&body);
    hr_text_format(out, "#include <omp.h>\n");
    if (status == HR_OK) status = hr_prelude_append(hr_text_data(&body), out);
    hr_text_append(out, hr_text_data(&body), body.length);
    hr_text_clear(&body);
    return status == HR_OK ? hr_text_status(out) : status;
}

static hr_status measure_and_keep(hr_device *device, hr_progress_fn progress, void *context, hr_roof *out) {
    hr_text special = {0};
    hr_status status = special_print(&special);
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
