/* headroom bench: every kernel of the library on large tensors, as a table. */
#include "bench_cases.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PASSES_MOST     1000
#define BENCH_MEGABYTES 256 /* what the table's extents give the largest tensor */

/* A bench while it runs. */
typedef struct run_state {
    const arguments *arguments;
    terminal *terminal;
    hr_device *device;
    hr_bench bench;
    hr_bench_row *rows;
    hr_run_result **runs; /* a row's, one a pass; NULL where it failed */
    hr_tune tune;
    int64_t megabytes, passes, pass;
    int code; /* of the worst row so far */
    int stop; /* the exit code of what ended it before its last row; 0 = nothing */
    int position, count;
    char what[64];
} run_state;

/* "softmax" selects the kernel for all its dtypes, "softmax_f32" it for this one. */
static bool selected(const char *only, const bench_case *of) {
    if (!only) return true;
    for (const char *at = only; *at; at += *at == ',') {
        size_t length = strcspn(at, ","), name = strlen(of->kernel);
        const char *rest = at + name, *end = at + length;
        at = end;
        if (length < name || strncmp(rest - name, of->kernel, name) != 0) continue;
        if (rest == end) return true;
        for (int i = 0; i < of->dtype_count && rest < end; i++) {
            const char *dtype = hr_dtype_name(of->dtypes[i]);
            if (*rest != '_' || strncmp(rest + 1, dtype, strlen(dtype)) != 0) break;
            rest += 1 + strlen(dtype);
        }
        if (rest == end) return true;
    }
    return false;
}

/* None of the table's kernels has the name, or one of the names. */
static int only_unknown(const arguments *arguments, const char *only, const bench_cases *cases) {
    const char **names = calloc((size_t)cases->count + 1, sizeof *names);
    if (!names) return complain_memory(arguments);
    for (int i = 0; i < cases->count; i++)
        names[i] = cases->list[i].kernel;
    complain_begin(arguments, "--only %s: no kernel of that name is in the table", only);
    complain_closest("", closest_name(only, names, cases->count));
    fprintf(stderr, "\n");
    free(names);
    return EXIT_USAGE;
}

static bool row_progress(void *context, const char *what, double done, double total) {
    run_state *state = context;
    char words[64];
    snprintf(words, sizeof words, "%.28s, %.28s", state->what, what);
    return terminal_progress(state->terminal, words, done, total);
}

static hr_status bind_names(hr_kernel *kernel, const bench_case *of, int64_t megabytes) {
    for (int i = 0; i < of->dtype_count; i++) {
        hr_status status = hr_kernel_bind_dtype(kernel, of->dtype_names[i], of->dtypes[i]);
        if (status != HR_OK) return status;
    }
    for (int i = 0; i < of->extent_count; i++) {
        int64_t value = of->extents[i];
        if (i == 0) value = value * megabytes / BENCH_MEGABYTES; /* the outermost one scales the tensors */
        if (i == 0 && value < 1 && of->extents[0] > 0) value = 1;
        hr_status status = hr_kernel_bind_extent(kernel, of->extent_names[i], value);
        if (status != HR_OK) return status;
    }
    return HR_OK;
}

/* The dtype of the arrays that carry most bytes. */
static const char *main_dtype(const hr_kernel *kernel) {
    static const int sizes[] = {
#define SIZE(name, text, size) size,
        HR_DTYPES(SIZE)
#undef SIZE
    };
    double bytes[HR_DTYPE_COUNT] = {0};
    int most = 0;
    for (int i = 0; i < hr_kernel_argument_count(kernel); i++) {
        hr_argument argument;
        hr_array array = {.size = sizeof array};
        if (hr_kernel_argument(kernel, i, &argument) != HR_OK || argument.rank == 0) continue;
        if (hr_kernel_array(kernel, argument.name, &array) != HR_OK) continue;
        double size = sizes[array.dtype];
        for (int axis = 0; axis < array.rank; axis++)
            size *= (double)array.shape[axis];
        bytes[array.dtype] += size;
    }
    for (int dtype = 1; dtype < HR_DTYPE_COUNT; dtype++)
        if (bytes[dtype] > bytes[most]) most = dtype;
    return hr_dtype_name((hr_dtype)most);
}

static hr_status run_case(run_state *state, const bench_case *of, hr_kernel **kernel,
                          hr_run_result **result) {
    hr_run_options options = {.size = sizeof options,
                              .tune = state->tune,
                              .no_verify = arguments_has(state->arguments, "no-verify"),
                              .progress = row_progress,
                              .progress_context = state};
    hr_status status = hr_kernel_load_file(state->device, of->path, of->kernel, kernel);
    if (status == HR_OK) status = bind_names(*kernel, of, state->megabytes);
    if (status == HR_OK) status = hr_kernel_fill(*kernel, 0);
    if (status == HR_OK) status = hr_kernel_run(*kernel, &options, result);
    return status;
}

static int print_row(const run_state *state, const hr_bench_row *row) {
    char *text;
    hr_status status = hr_report_bench_line(row, &state->bench.roof, &state->terminal->style, &text);
    return status == HR_OK ? terminal_print(state->arguments, text)
                           : complain_status(state->arguments, status);
}

/* What the passes of a row are ordered by: the part of the roof; where it is not known, first, the time. */
static double merit(const hr_run_result *run) {
    return run->baseline.roof_fraction > 0 ? run->baseline.roof_fraction : -run->seconds.median;
}

static int compare_runs(const void *a, const void *b) {
    double x = merit(*(hr_run_result *const *)a), y = merit(*(hr_run_result *const *)b);
    return (x > y) - (x < y);
}

/* Of all passes the one in the middle; a wrong result goes before all. */
static void row_settle(const run_state *state, hr_bench_row *row, hr_run_result **runs) {
    qsort(runs, (size_t)state->passes, sizeof *runs, compare_runs);
    row->result = runs[(state->passes - 1) / 2];
    row->passes = (int)state->passes;
    row->now_most = runs[state->passes - 1]->baseline.roof_fraction;
    for (int64_t i = state->passes - 1; i >= 0 && runs[i]->baseline.roof_fraction > 0; i--)
        row->now_least = runs[i]->baseline.roof_fraction;
    for (int64_t i = 0; i < state->passes; i++)
        if (runs[i]->verify_done && !runs[i]->verified.ok) row->result = runs[i];
}

/* In place of a sentence that there is no memory for. */
static const char no_memory[] = "out of memory";

static int row_fill(run_state *state, const bench_case *of, hr_status status, const hr_kernel *kernel,
                    hr_run_result *result) {
    hr_bench_row *row = &state->rows[state->position - 1];
    if (state->pass == 0) *row = (hr_bench_row){.dtype = "", .kernel = of->kernel};
    if (status != HR_OK) {
        const char *said = hr_last_error();
        char *error = strndup(said, strcspn(said, "\n"));
        row->error = error ? error : no_memory;
        return hr_status_exit_code(error ? status : HR_OUT_OF_MEMORY);
    }
    row->dtype = main_dtype(kernel);
    state->runs[(state->position - 1) * state->passes + state->pass] = result;
    if (result->roof_was > 0 || result->special_was > 0) state->bench.roof = result->roof;
    return hr_status_exit_code(result->verify_done && !result->verified.ok ? HR_WRONG_RESULT : HR_OK);
}

/* `stop` is set where the user asked to stop or the output is gone. */
static void bench_case_run(run_state *state, const bench_case *of) {
    hr_kernel *kernel = NULL;
    hr_run_result *result = NULL;
    hr_bench_row *row = &state->rows[state->position++];
    bool last = state->pass + 1 == state->passes;
    char pass[24] = "";
    if (state->passes > 1) snprintf(pass, sizeof pass, "pass %d, ", (int)state->pass + 1);
    snprintf(state->what, sizeof state->what, "%s%d/%d %.18s", pass, state->position, state->count,
             of->kernel);
    if (!row->error) {
        hr_status status = run_case(state, of, &kernel, &result);
        terminal_progress_end(state->terminal);
        if (terminal_interrupted()) state->stop = EXIT_USAGE;
        int code = state->stop ? 0 : row_fill(state, of, status, kernel, result);
        if (code == 1 || state->code == 0) state->code = code;
        if (state->stop) hr_run_result_destroy(result);
    }
    if (!state->stop && last) {
        if (!row->error) row_settle(state, row, &state->runs[(state->position - 1) * state->passes]);
        state->bench.row_count++;
        if (!arguments_has(state->arguments, "json")) state->stop = print_row(state, row);
    }
    hr_kernel_destroy(kernel);
}

static int save_table(const run_state *state) {
    const char *path = arguments_value(state->arguments, "csv", NULL);
    char *text;
    hr_status status = HR_OK;
    if (path) {
        status = hr_report_bench_csv(&state->bench, &text);
        if (status == HR_OK) {
            status = hr_file_save(path, text, strlen(text));
            free(text);
        }
    }
    if (status == HR_OK && arguments_has(state->arguments, "json")) {
        status = hr_report_bench_json(&state->bench, &text);
        if (status == HR_OK) return terminal_print(state->arguments, text);
    }
    return status == HR_OK ? 0 : complain_status(state->arguments, status);
}

static void rows_free(run_state *state) {
    for (int64_t i = 0; i < state->count * state->passes; i++)
        hr_run_result_destroy(state->runs[i]);
    for (int i = 0; i < state->count; i++)
        if (state->rows[i].error != no_memory) free((char *)state->rows[i].error);
    free(state->runs);
    free(state->rows);
}

static int bench_cases_run(run_state *state, const bench_cases *cases) {
    const char *only = arguments_value(state->arguments, "only", NULL);
    state->rows = calloc((size_t)state->count, sizeof *state->rows);
    state->runs = calloc((size_t)(state->count * state->passes), sizeof *state->runs);
    if (!state->rows || !state->runs) {
        free(state->rows);
        free(state->runs);
        return complain_memory(state->arguments);
    }
    state->bench.rows = state->rows;
    if (!arguments_has(state->arguments, "json")) state->stop = print_row(state, NULL);
    for (; state->pass < state->passes && !state->stop; state->pass++) {
        state->position = 0;
        for (int i = 0; i < cases->count && !state->stop; i++)
            if (selected(only, &cases->list[i])) bench_case_run(state, &cases->list[i]);
    }
    int code = state->stop ? state->stop : save_table(state);
    rows_free(state);
    return code ? code : state->code;
}

static int run_bench(const arguments *arguments, terminal *terminal) {
    run_state state = {.arguments = arguments, .terminal = terminal};
    bench_cases cases = {0};
    int code = arguments_tune(arguments, &state.tune);
    if (code == 0) code = arguments_whole(arguments, "size", 1, BENCH_MEGABYTES, &state.megabytes);
    if (code == 0) code = arguments_whole(arguments, "repeat", 1, 1, &state.passes);
    if (code == 0 && state.passes > PASSES_MOST)
        code = complain(arguments, "--repeat is at most %d", PASSES_MOST);
    const char *table = arguments_value(arguments, "csv", NULL);
    if (code == 0 && table) code = output_check(arguments, table);
    if (code == 0 && arguments->word_count > 1) code = complain(arguments, "one folder of kernels at a time");
    if (code == 0)
        code = bench_cases_read(arguments, arguments->word_count ? arguments->words[0] : NULL, &cases);
    const char *only = arguments_value(arguments, "only", NULL);
    for (int i = 0; i < cases.count; i++)
        state.count += selected(only, &cases.list[i]);
    if (code == 0 && state.count == 0)
        code = only ? only_unknown(arguments, only, &cases) : complain(arguments, "the table has no kernel");
    if (code == 0) {
        hr_status status = hr_device_open(arguments_value(arguments, "device", NULL), &state.device);
        if (status == HR_OK)
            status = hr_device_roof(state.device, false, terminal_progress, terminal, &state.bench.roof);
        terminal_progress_end(terminal);
        if (status != HR_OK) code = complain_status(arguments, status);
    }
    if (code == 0) {
        state.bench.size = sizeof state.bench;
        state.bench.command = arguments->line;
        state.bench.device_kind = hr_device_kind(state.device);
        state.bench.device_name = hr_device_name(state.device);
        state.bench.started_at = (double)time(NULL);
        code = bench_cases_run(&state, &cases);
    }
    hr_device_destroy(state.device);
    bench_cases_free(&cases);
    return code;
}

static const flag flags[] = {
    {0, "only", "NAME[,NAME]", "these kernels alone: softmax for all its dtypes, softmax_f32 for one"},
    {0, "size", "MB", "of the largest tensor; 256 otherwise"},
    {0, "tune", "MODE", "none (the cost model, or what was found before), quick, full"},
    {0, "repeat", "N", "go through the table N times; print each kernel's run in the middle"},
    {0, "device", "NAME", "cpu, cuda or cuda:I; the best there is otherwise"},
    {0, "no-verify", NULL, "do not check results against the texts' meaning"},
    {0, "json", NULL, "print one JSON object"},
    {0, "csv", "FILE", "write the table as comma-separated values"},
    {0, NULL, NULL, NULL},
};

const command command_bench = {
    "bench",
    "bench [FLAG]... [FOLDER]",
    "run every kernel of the library on large tensors; print the table",
    "Runs every kernel of FOLDER, else of the library, with the extents of its table\n"
    "bench/cases.txt, and prints a line for each: time, rate, the part of the copy\n"
    "roof, what bounds it, headroom, the part of the roof now (by a copy and special\n"
    "functions, measured alternately with it), the gain over one pass per statement,\n"
    "and the check. A folder without a table gives its kernels with default extents.\n\n"
    "  headroom bench --tune quick --csv table.csv\n"
    "  headroom bench --only softmax,layernorm --size 64",
    flags,
    run_bench};
