/* The text that `headroom roof` measures the special functions with: the emitted code's own, over a buffer in
 * L1.
 *
 * Its entry follows hr_device_ops.measure_roof (device/device.h): function tuning[0] / 8, an hr_special, in
 * way tuning[0] % 8, tuning[3] times over tuning[1] bytes of f32 on each thread. Arguments lie in [0.5, 4),
 * so that no way meets denormals; they are made here, since what the caller's memory holds is arbitrary.
 */
#include "run/roof_functions.h"

#include "emit/c/file_text.h"
#include "emit/prelude.h"

#include <string.h>

static const char loop_text[] = "static void %s_rate(float *to, const float *from, int64_t count) {\n"
                                "    for (int64_t i = 0; i + HR_LANES <= count; i += HR_LANES)\n"
                                "        vf_store_f32(to + i, %s);\n"
                                "}\n\n";

/* As maps do it where a vector is less than a line */
static const char four_text[] = "static void %s_rate(float *to, const float *from, int64_t count) {\n"
                                "    for (int64_t i = 0; i + 4 * HR_LANES <= count; i += 4 * HR_LANES) {\n"
                                "        vf x[4];\n"
                                "#pragma GCC unroll 4\n"
                                "        for (int way = 0; way < 4; way++)\n"
                                "            x[way] = vf_load_f32(from + i + way * HR_LANES);\n"
                                "        vf_%s_ways(x, 4);\n"
                                "#pragma GCC unroll 4\n"
                                "        for (int way = 0; way < 4; way++)\n"
                                "            vf_store_f32(to + i + way * HR_LANES, x[way]);\n"
                                "    }\n"
                                "}\n\n";

static const char random_text[] =
    "static void random_rate(float *to, const float *from, int64_t count) {\n"
    "    random_keys keys = random_keys_of(1);\n"
    "    count = count / HR_RANDOM_GROUP * HR_RANDOM_GROUP; /* no word beyond */\n"
    "    random_fill(&keys, 4 * (uint64_t)from[0], count, (uint32_t *)(void *)to);\n"
    "}\n\n";

static const char entry_head[] =
    "typedef struct launch {\n"
    "    void *const *pointers;\n"
    "    const double *scalars;\n"
    "    const int64_t *extents, *strides;\n"
    "    void *scratch;\n"
    "    int64_t threads;\n"
    "    const int64_t *tuning;\n"
    "} launch;\n\n"
    "static int run(int64_t kernel, float *to, const float *from, int64_t count) {\n"
    "    switch (kernel) {\n";

static const char entry_tail[] =
    "    default: return 1;\n"
    "    }\n"
    "    return 0;\n"
    "}\n\n"
    "typedef struct job {\n"
    "    const launch *l;\n"
    "    int64_t count, done;\n"
    "} job;\n\n"
    "static void run_part(void *context, int64_t part, int64_t parts) {\n"
    "    job *all = context;\n"
    "    const launch *l = all->l;\n"
    "    float from[1920];\n"
    "    float *to = (float *)((char *)l->pointers[0] + part * l->tuning[2]);\n"
    "    int missing = 0;\n"
    "    (void)parts;\n"
    "    for (int i = 0; i < 1920; i++)\n"
    "        from[i] = 0.5f + (float)(i * 37 % 1920) * 0x1.cp-10f;\n"
    "    for (int64_t round = 0; round < l->tuning[3] && !missing; round++)\n"
    "        missing = run(l->tuning[0], to, from, all->count);\n"
    "    if (!missing) __atomic_add_fetch(&all->done, 1, __ATOMIC_RELAXED);\n"
    "}\n\n"
    "int hr_entry(const launch *l, void *fault) {\n"
    "    job all = {l, l->tuning[1] / 4 < 1920 ? l->tuning[1] / 4 : 1920, 0};\n"
    "    (void)fault;\n"
    "    hr_team->run(l->threads, run_part, &all);\n"
    "    *(double *)l->scratch = (double)all.done * (double)l->tuning[3] * (double)(all.count / HR_LANES * "
    "HR_LANES);\n"
    "    return all.done == 0;\n"
    "}\n";

#define WAYS 8

static const struct {
    hr_special special;
    int way;
    const char *name, *value, *four; /* one of both; random has none */
} ways[] = {
    {HR_SPECIAL_EXP, 0, "exp", "vf_exp(vf_load_f32(from + i))", NULL},
    {HR_SPECIAL_EXP, 1, "exp_four", NULL, "exp"},
    {HR_SPECIAL_LOG, 0, "log", "vf_log(vf_load_f32(from + i))", NULL},
    {HR_SPECIAL_TANH, 0, "tanh", "vf_tanh(vf_load_f32(from + i))", NULL},
    {HR_SPECIAL_TANH, 1, "tanh_four", NULL, "tanh"},
    {HR_SPECIAL_ERF, 0, "erf", "vf_erf(vf_load_f32(from + i))", NULL},
    {HR_SPECIAL_ERF, 1, "erf_four", NULL, "erf"},
    {HR_SPECIAL_TRIG, 0, "sin", "vf_sin(vf_load_f32(from + i))", NULL},
    {HR_SPECIAL_ROOT, 0, "div", "vf_div(vf_of(1), vf_load_f32(from + i))", NULL},
    {HR_SPECIAL_ROOT, 1, "sqrt", "vf_sqrt(vf_load_f32(from + i))", NULL},
    {HR_SPECIAL_RANDOM, 0, "random", NULL, NULL},
};

hr_status hr_roof_functions_source(hr_text *out) {
    hr_text body = {0};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (ways[i].value)
            hr_text_format(&body, loop_text, ways[i].name, ways[i].value);
        else if (ways[i].four)
            hr_text_format(&body, four_text, ways[i].name, ways[i].four);
        else
            hr_text_append(&body, random_text, strlen(random_text));
    hr_text_format(&body, "%s\n", (const char *)hr_c_team_text);
    hr_text_append(&body, entry_head, strlen(entry_head));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        hr_text_format(&body, "    case %d: %s_rate(to, from, count); break;\n",
                       ways[i].special * WAYS + ways[i].way, ways[i].name);
    hr_text_append(&body, entry_tail, strlen(entry_tail));
    hr_status status = hr_text_status(&body);
    if (status == HR_OK) status = hr_prelude_append(HR_PRELUDE_C, hr_text_data(&body), NULL, out);
    if (status == HR_OK) hr_text_append(out, body.data, body.length);
    hr_text_clear(&body);
    return status != HR_OK ? status : hr_text_status(out);
}
