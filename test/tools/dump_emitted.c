/* Everything that is emitted for the library's kernels, one file a case, so that a change of the planner or
 * of an emitter shows as a diff of folders: see tools/compare_emitted.
 *
 * In: dump_emitted FOLDER. Out: in that folder KERNEL_DTYPES.TARGET.EXTENTS.txt, what stands after the
 * prelude for the plan's own choice, its launches and scratch; and hashes.txt, a line for each of the tuner's
 * candidates at the first two sets of extents with the hash of its whole text.
 */
#include "base/dtype.h"
#include "emit/emit.h"
#include "schedule/cuda/launches_cuda.h"
#include "schedule/target.h"
#include "support/cuda_case.h"
#include "support/kernel_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { CANDIDATES_MAX = 64, GRIDS_MAX = 16, SETS = 4 };

typedef struct target {
    const char *name;
    hr_device_limits limits;
} target;

/* The levels of a CPU by the kinds of core that the planner tells apart, and two GPUs. */
static int targets_fill(target *out) {
    int count = 0;
    static const struct {
        const char *isa;
        int bytes, matrix, dots, threads, l1, l2;
    } cores[] = {
        {"avx512", 64, 0, 0, 2, 32, 1},  {"avx512", 64, 0, 1, 2, 48, 1},  {"avx512", 64, 1, 1, 2, 48, 2},
        {"avx512", 64, 0, 1, 32, 48, 2}, {"avx2", 32, 0, 0, 2, 32, 1},    {"avx2", 32, 0, 0, 32, 48, 2},
        {"neon", 16, 0, 0, 2, 64, 1},    {"generic", 16, 0, 0, 2, 32, 1},
    };
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
        static char names[16][32];
        target *t = &out[count++];
        *t = (target){.limits = {.threads = cores[i].threads,
                                 .vector_bytes = cores[i].bytes,
                                 .l1_bytes = cores[i].l1 << 10,
                                 .l2_bytes = cores[i].l2 << 20,
                                 .l3_bytes = 32 << 20,
                                 .matrix_bf16 = cores[i].matrix,
                                 .dots_bf16 = cores[i].dots}};
        snprintf(t->limits.isa, sizeof t->limits.isa, "%s", cores[i].isa);
        snprintf(names[i], sizeof names[i], "%s-%d", cores[i].isa, (int)i);
        t->name = names[i];
    }
    out[count++] = (target){"sm_80", cuda_case_limits(80, 0)};
    out[count++] = (target){"sm_90a", cuda_case_limits(90, 0)};
    return count;
}

/* Extents by number of the set: odd and small, usual, long rows, long columns. */
static void extents_fill(const hr_function *function, int set, int64_t *out) {
    static const int64_t sizes[SETS][4] = {
        {37, 100, 5, 3}, {4096, 4096, 64, 32}, {64, 131072, 64, 16}, {65536, 1023, 128, 4}};
    for (int i = 0; i < function->extent_count; i++)
        out[i] = sizes[set][i % 4];
}

static hr_status emit(const hr_plan *plan, const int64_t *extents, bool entry, hr_emitted *out) {
    if (plan->limits.compute)
        return entry ? hr_emit_cuda_loaded(plan, extents, out) : hr_emit_cuda(plan, extents, NULL, out);
    return entry ? hr_emit_c_loaded(plan, out) : hr_emit_c(plan, NULL, out);
}

static const char *own_part(const char *source) {
    const char *own = strstr(source, "typedef struct fault_record");
    return own ? own : source;
}

static void launches_write(FILE *file, const hr_plan *plan, const int64_t *extents) {
    hr_launch launches[GRIDS_MAX];
    int count = 0;
    int64_t scratch = 0;
    if (!plan->limits.compute) {
        hr_status status = hr_emit_scratch(plan, extents, plan->limits.threads, &scratch);
        fprintf(file, "// scratch %lld (%d)\n", (long long)scratch, status);
        return;
    }
    hr_status status = hr_cuda_scratch(plan, extents, &scratch);
    fprintf(file, "// scratch %lld (%d)\n", (long long)scratch, status);
    if (hr_cuda_launches(plan, extents, launches, GRIDS_MAX, &count) != HR_OK) return;
    for (int g = 0; g < count; g++)
        fprintf(file, "// %s|%s %lld x %d cluster %d shared %lld pieces %lld overlaps %d\n",
                launches[g].entry, launches[g].unaligned, (long long)launches[g].grid[0], launches[g].threads,
                launches[g].cluster, (long long)launches[g].shared, (long long)launches[g].pieces,
                launches[g].overlaps);
}

static void candidates_write(FILE *hashes, const char *name, const hr_function *function,
                             const int64_t *extents, const hr_layout *layouts, const hr_device_limits *limits,
                             const hr_plan *plan) {
    static hr_choice list[CANDIDATES_MAX];
    int count = hr_schedule_candidates(plan, list, CANDIDATES_MAX);
    for (int c = 0; c < count; c++) {
        hr_schedule_options options = {.choice = list[c]};
        hr_plan *other;
        hr_emitted emitted;
        if (hr_schedule_create(function, extents, layouts, limits, &options, &other) != HR_OK) continue;
        if (emit(other, extents, true, &emitted) == HR_OK) {
            const char *text = hr_text_data(&emitted.source);
            fprintf(hashes, "%s %d %016llx\n", name, c, (unsigned long long)XXH3_64bits(text, strlen(text)));
            hr_emitted_clear(&emitted);
        }
        hr_plan_destroy(other);
    }
}

static void case_write(const char *folder, FILE *hashes, const char *name, const hr_function *function,
                       const int64_t *extents, const hr_layout *layouts, const hr_device_limits *limits,
                       bool candidates) {
    char path[512];
    hr_plan *plan;
    hr_emitted emitted;
    if (hr_schedule_create(function, extents, layouts, limits, NULL, &plan) != HR_OK) {
        fprintf(hashes, "%s refused: %s\n", name, hr_last_error());
        return;
    }
    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    FILE *file = fopen(path, "w");
    if (file && emit(plan, extents, false, &emitted) == HR_OK) {
        fputs(own_part(hr_text_data(&emitted.source)), file);
        launches_write(file, plan, extents);
        hr_emitted_clear(&emitted);
    }
    if (file) fclose(file);
    if (candidates) candidates_write(hashes, name, function, extents, layouts, limits, plan);
    hr_plan_destroy(plan);
}

static void function_write(const char *folder, FILE *hashes, const hr_function *function) {
    target targets[16];
    int count = targets_fill(targets);
    for (int set = 0; set < SETS; set++)
        for (int strided = 0; strided < (set == 0 ? 2 : 1); strided++)
            for (int t = 0; t < count; t++) {
                int64_t extents[32];
                hr_layout layouts[HR_LAUNCH_TENSORS_MAX];
                char name[160];
                if (function->extent_count > 32) continue;
                extents_fill(function, set, extents);
                for (int i = 0; i < hr_function_arguments(function); i++)
                    layouts[i] = strided ? HR_LAYOUT_STRIDED : HR_LAYOUT_DENSE;
                snprintf(name, sizeof name, "%s.%s.%d%s", function->symbol + strlen("kernel_"),
                         targets[t].name, set, strided ? "s" : "");
                case_write(folder, hashes, name, function, extents, layouts, &targets[t].limits, set < 2);
            }
}

int main(int count, char **words) {
    char path[512];
    kernel_library library;
    if (count != 2) {
        fprintf(stderr, "usage: dump_emitted FOLDER\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/hashes.txt", words[1]);
    FILE *hashes = fopen(path, "w");
    if (!hashes || kernel_library_open(&library) != HR_OK) {
        fprintf(stderr, "%s\n", hashes ? hr_last_error() : "the folder cannot be written");
        return 1;
    }
    for (int f = 0; f < library.count; f++)
        for (int k = 0; k < library.files[f].program->function_count; k++)
            function_write(words[1], hashes, &library.files[f].program->functions[k]);
    kernel_library_close(&library);
    return fclose(hashes) == 0 ? 0 : 1;
}
