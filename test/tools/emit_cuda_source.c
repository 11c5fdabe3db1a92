/* The CUDA that is emitted for a kernel at given extents, and its launches, to read or to debug:
 * emit_cuda_source FILE.hr KERNEL COMPUTE PROCESSORS EXTENT...
 * HR_CHOICE=N takes the N-th of the tuner's choices. */
#include "emit/emit.h"
#include "lang/program.h"
#include "schedule/cuda/launches_cuda.h"
#include "schedule/target.h"
#include "support/cuda_case.h"

#include <stdio.h>
#include <stdlib.h>

static int fail(void) {
    fprintf(stderr, "%s\n", hr_last_error());
    return 1;
}

int main(int count, char **words) {
    static char text[1 << 16];
    int64_t extents[16] = {0};
    hr_program *program;
    const hr_function *function;
    hr_plan *plan;
    hr_emitted emitted;
    hr_launch launches[16];
    int launch_count;
    FILE *file = count > 4 ? fopen(words[1], "rb") : NULL;
    if (!file) return 2;
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    for (int e = 5; e < count && e < 16; e++)
        extents[e - 5] = atoll(words[e]);
    hr_device_limits limits = cuda_case_limits(atoi(words[3]), atoi(words[4]));
    hr_parse_options options = {.dtype_default = HR_BF16};
    if (hr_program_parse_for(words[1], text, length, &options, &program) != HR_OK) return fail();
    if (hr_program_find(program, words[2], &function) != HR_OK) return fail();
    if (hr_schedule_create(function, extents, NULL, &limits, NULL, &plan) != HR_OK) return fail();
    const char *choice = getenv("HR_CHOICE");
    if (choice) {
        hr_choice list[64];
        int total = hr_schedule_candidates(plan, list, 64), wanted = atoi(choice);
        hr_schedule_options chosen = {.choice = list[wanted < total ? wanted : 0]};
        hr_plan_destroy(plan);
        if (hr_schedule_create(function, extents, NULL, &limits, &chosen, &plan) != HR_OK) return fail();
    }
    if (hr_emit_cuda_loaded(plan, extents, &emitted) != HR_OK) return fail();
    if (hr_cuda_launches(plan, extents, launches, 16, &launch_count) != HR_OK) return fail();
    printf("%s", hr_text_data(&emitted.source));
    for (int g = 0; g < launch_count; g++)
        printf("// %s: %lld blocks of %d threads, clusters of %d, %lld bytes shared%s\n", launches[g].entry,
               (long long)launches[g].grid[0], launches[g].threads, launches[g].cluster,
               (long long)launches[g].shared, launches[g].overlaps ? ", overlaps" : "");
    hr_emitted_clear(&emitted);
    hr_plan_destroy(plan);
    hr_program_destroy(program);
    return 0;
}
