/* headroom record: runs a program and records what it does on the GPU. */
#include "command.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A number in groups: 1,234,567. */
static const char *grouped(int64_t value, char *out, size_t size) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)value), at = 0;
    for (int i = 0; i < length && at + 2 < (int)size; i++) {
        if (i && (length - i) % 3 == 0) out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

static void print_notes(const arguments *arguments, const hr_recorded_file *file) {
    for (const char *at = file->notes; at && *at;) {
        size_t length = strcspn(at, "\n");
        complain(arguments, "%.*s", (int)length, at);
        at += length + (at[length] == '\n');
    }
    if (!file->complete)
        complain(
            arguments,
            "process %lld ended without leaving time to finish its file; at most its last second is missing",
            (long long)file->process);
    if (file->dropped)
        complain(arguments, "%lld records of process %lld were dropped: the program was faster than the disk",
                 (long long)file->dropped, (long long)file->process);
}

static void print_summary(const arguments *arguments, const hr_recording *recording) {
    int count = hr_recording_file_count(recording);
    char kernels[32], calls[32], ranges[32];
    for (int i = 0; i < count; i++) {
        const hr_recorded_file *file = hr_recording_file(recording, i);
        print_notes(arguments, file);
        fprintf(stderr, "%s: %s kernels", file->path, grouped(file->kernels, kernels, sizeof kernels));
        if (file->counted) fprintf(stderr, " (%lld with counters)", (long long)file->counted);
        fprintf(stderr, ", %s calls, %s ranges", grouped(file->calls, calls, sizeof calls),
                grouped(file->ranges, ranges, sizeof ranges));
        if (file->samples) fprintf(stderr, ", %lld samples of the GPU", (long long)file->samples);
        fprintf(stderr, ", %.1f MB\n", (double)file->bytes / 1e6);
    }
    if (count == 0)
        complain(arguments,
                 "nothing was recorded: the program started neither CUDA nor NVTX, or had no memory "
                 "to load the recorder");
    else
        fprintf(stderr, "what limits it: headroom diagnose");
    for (int i = 0; i < count; i++)
        fprintf(stderr, " %s", hr_recording_file(recording, i)->path);
    if (count) fprintf(stderr, "\n");
}

/* A recording that lacks a part for that reason is not what was asked for, however the program ended. */
static bool is_short_of_memory(const hr_recording *recording) {
    for (int i = 0; i < hr_recording_file_count(recording); i++)
        if (hr_recording_file(recording, i)->out_of_memory) return true;
    return false;
}

static int read_seconds(const arguments *arguments, double *out) {
    const char *text = arguments_value(arguments, "for", NULL);
    *out = 0;
    if (!text) return 0;
    char *end;
    *out = strtod(text, &end);
    if (end == text || *end || !(*out > 0) || !isfinite(*out))
        return complain(arguments, "--for is a number of seconds above 0, not \"%s\"", text);
    return 0;
}

static int read_counters(const arguments *arguments, hr_counters_mode *out) {
    static const char *const words[] = {[HR_COUNTERS_NONE] = NULL,
                                        [HR_COUNTERS_KERNELS] = "",
                                        [HR_COUNTERS_REPLAYED] = "replayed",
                                        [HR_COUNTERS_SAMPLED] = "sampled"};
    const char *text = arguments_value(arguments, "counters", NULL);
    *out = HR_COUNTERS_NONE;
    if (!text) return 0;
    for (int i = HR_COUNTERS_KERNELS; i <= HR_COUNTERS_SAMPLED; i++)
        if (strcmp(text, words[i]) == 0) *out = (hr_counters_mode)i;
    if (*out) return 0;
    return complain(arguments,
                    "--counters reads those of each kernel, --counters=replayed more of them, "
                    "--counters=sampled those of the GPU over time; \"%s\" is none of these",
                    text);
}

static int run_record(const arguments *arguments, terminal *terminal) {
    (void)terminal;
    hr_record_options options = {.size = sizeof options,
                                 .output = arguments_value(arguments, "output", NULL),
                                 .from_range = arguments_value(arguments, "from-range", NULL)};
    int code = read_seconds(arguments, &options.seconds);
    if (code == 0) code = arguments_whole(arguments, "steps", 1, 0, &options.steps);
    if (code == 0) code = read_counters(arguments, &options.counters);
    if (code) return code;
    if (arguments->word_count == 0)
        return complain(arguments, "which program? headroom record python train.py");
    const char **program = calloc((size_t)arguments->word_count + 1, sizeof *program);
    if (!program) return complain_memory(arguments);
    memcpy(program, arguments->words, (size_t)arguments->word_count * sizeof *program);
    hr_recording *recording;
    hr_status status = hr_program_record(&options, program, &recording);
    free(program);
    if (status != HR_OK) return complain_status(arguments, status);
    print_summary(arguments, recording);
    code = hr_recording_exit_code(recording);
    if (is_short_of_memory(recording)) code = hr_status_exit_code(HR_OUT_OF_MEMORY);
    if (code == 0 && hr_recording_file_count(recording) == 0) code = hr_status_exit_code(HR_NOT_AVAILABLE);
    hr_recording_destroy(recording);
    return code;
}

static const flag flags[] = {
    {'o', "output", "FILE", "headroom.hrt otherwise; several processes: FILE.rank0.hrt, ..."},
    {0, "for", "SECONDS", "record this long only; the program runs on"},
    {0, "from-range", "NAME", "begin at the first NVTX range NAME"},
    {0, "steps", "N", "stop after N ranges of that name, or of one called step"},
    {0, "counters", "[=WHICH]", "add hardware counters: of kernels, replayed, or sampled over time"},
    {0, NULL, NULL, NULL},
};

const command command_record = {
    "record",
    "record [FLAG]... [--] PROGRAM [ARGUMENT]...",
    "record what a program does on the GPU",
    "Runs PROGRAM unchanged and records its kernels, copies, waits, allocations,\n"
    "CUDA calls and NVTX ranges, in every process that it starts. The exit code is\n"
    "the program's; 3 where it ended well and nothing was recorded, and where memory\n"
    "was short and records are missing. A program that crashes or is killed leaves a\n"
    "file that can be read. `headroom diagnose` says what limits it.\n\n"
    "  headroom record python train.py\n"
    "  headroom record --from-range step --steps 20 -o run.hrt torchrun train.py\n\n"
    "NAME stands for ranges called that, or that and something that is no letter:\n"
    "`step` also stands for `step 12`.\n\n"
    "--counters reads DRAM bytes, cache hits, use of tensor cores, vector\n"
    "instructions and occupancy of the first two launches of each kernel, 15 ms each;\n"
    "all others run free. --counters=replayed runs those launches three times, with\n"
    "the program's memory saved, for tensor instructions and sectors a request too.\n"
    "--counters=sampled reads SM and tensor activity and DRAM bandwidth of the whole\n"
    "GPU 5000 times a second and leaves the program's times as they are. All need the\n"
    "right to profile and CUPTI of CUDA 12.6 or later; where one is missing, the rest\n"
    "is recorded and a sentence says so.",
    flags,
    run_record};
