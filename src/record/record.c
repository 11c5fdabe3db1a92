/* Runs a program with the recorder inside. In: the program and what to record. Out: its exit code and a file
 * a process, under the names the user asked for.
 *
 * The CUDA driver loads the library named in CUDA_INJECTION64_PATH, and NVTX the one in
 * NVTX_INJECTION64_PATH, into every process that starts them; so nothing of the program changes. While it
 * runs, its files have the process in their names; afterwards they get their own. */
#define _GNU_SOURCE /* dladdr, execvpe, environ */
#include "base/handle.h"
#include "base/trace_file.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBRARY_NAME "libheadroom_record.so"
#define FILE_MOST    4096
#define VARIABLES    7

/* Where the output is to stand: "/home/me/headroom.hrt" without its suffix, in two parts. */
typedef struct output_place {
    char folder[PATH_MAX];
    char base[NAME_MAX];
    char prefix[PATH_MAX + NAME_MAX + 32]; /* of the files while the program runs */
} output_place;

struct hr_recording {
    hr_handle handle;
    int exit_code, count;
    hr_recorded_file *files;
    char output[PATH_MAX]; /* as the user gave it */
    output_place place;
    void (*end)(void);       /* the recorder's, while it records this process; else NULL */
    char *before[VARIABLES]; /* what the environment had then */
};

/* ---- before ---- */

static bool library_in(const char *folder, size_t length, const char *more, char *out) {
    int size = snprintf(out, PATH_MAX, "%.*s/%s%s", (int)length, folder, more, LIBRARY_NAME);
    return size < PATH_MAX && access(out, R_OK) == 0;
}

static hr_status find_library(char *out) {
    static const char *const places[] = {"", "../" HR_INSTALL_LIBDIR "/", "../lib/", "../lib64/"};
    const char *given = getenv("HEADROOM_RECORD_LIBRARY");
    if (given && *given) {
        if (realpath(given, out)) return HR_OK;
        return hr_fail(HR_NOT_AVAILABLE, "HEADROOM_RECORD_LIBRARY names %s, which cannot be read", given);
    }
    char executable[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
    executable[length < 0 ? 0 : length] = 0;
    Dl_info here;
    static const char anchor = 0; /* lies in this library, or in the command */
    const char *library = dladdr(&anchor, &here) ? here.dli_fname : "";
    const char *const files[] = {executable, library};
    for (int f = 0; f < 2; f++) {
        const char *slash = strrchr(files[f], '/');
        for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++)
            if (library_in(files[f], (size_t)(slash - files[f]), places[i], out)) return HR_OK;
    }
    return hr_fail(HR_NOT_AVAILABLE,
                   "the recorder %s is neither beside %s nor in ../%s of it: install headroom whole, or name "
                   "it in HEADROOM_RECORD_LIBRARY",
                   LIBRARY_NAME, executable, HR_INSTALL_LIBDIR);
}

static hr_status find_place(const char *output, output_place *out) {
    const char *slash = strrchr(output, '/');
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - output + 1) : 1, slash ? output : ".");
    if (!realpath(folder, out->folder))
        return hr_fail(HR_IO, "%s: there is no folder %s to write it to", output, folder);
    if (access(out->folder, W_OK) != 0)
        return hr_fail(HR_IO, "%s: the folder %s cannot be written to", output, out->folder);
    const char *name = slash ? slash + 1 : output;
    size_t length = strlen(name), suffix = strlen(HR_TRACE_FILE_SUFFIX);
    if (length > suffix && strcmp(name + length - suffix, HR_TRACE_FILE_SUFFIX) == 0) length -= suffix;
    if (length == 0 || length + 64 > sizeof out->base)
        return hr_fail(HR_BAD_INPUT, "\"%s\" is no name for a file of records", output);
    snprintf(out->base, sizeof out->base, "%.*s", (int)length, name);
    snprintf(out->prefix, sizeof out->prefix, "%s/%s.run%d", out->folder, out->base, (int)getpid());
    return HR_OK;
}

/* ---- while the program runs ---- */

/* What tells the recorder what to do. */
static const char *const variables[VARIABLES] = {
    "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "HEADROOM_RECORD_FILE",    "HEADROOM_RECORD_FOR",
    "HEADROOM_RECORD_STEPS", "HEADROOM_RECORD_FROM",  "HEADROOM_RECORD_COUNTERS"};

/* Their values, NULL = not set. They point into what they were made from. */
typedef struct settings {
    const char *value[VARIABLES];
    char seconds[64], steps[64];
} settings;

static void make_settings(const hr_record_options *options, const char *library, const output_place *place,
                          settings *out) {
    static const char *const counters[] = {[HR_COUNTERS_NONE] = NULL,
                                           [HR_COUNTERS_KERNELS] = "kernels",
                                           [HR_COUNTERS_REPLAYED] = "replayed",
                                           [HR_COUNTERS_SAMPLED] = "sampled"};
    snprintf(out->seconds, sizeof out->seconds, "%.9g", options->seconds);
    snprintf(out->steps, sizeof out->steps, "%lld", (long long)options->steps);
    const char *const values[VARIABLES] = {library,
                                           library,
                                           place->prefix,
                                           options->seconds > 0 ? out->seconds : NULL,
                                           options->steps > 0 ? out->steps : NULL,
                                           options->from_range,
                                           counters[options->counters]};
    memcpy(out->value, values, sizeof values);
}

static hr_status set_word(const char *name, const char *word) {
    if ((word ? setenv(name, word, 1) : unsetenv(name)) == 0) return HR_OK;
    return hr_fail(HR_OUT_OF_MEMORY, "no memory for %s in the environment", name);
}

/* The program's environment, made before fork(): a child of threads may not allocate. */
typedef struct program_environment {
    char **values; /* NULL ends them; all but the last few are this process' own */
    char *own[VARIABLES];
} program_environment;

static bool is_ours(const char *value) {
    for (int i = 0; i < VARIABLES; i++) {
        size_t length = strlen(variables[i]);
        if (strncmp(value, variables[i], length) == 0 && value[length] == '=') return true;
    }
    return false;
}

static void environment_clear(program_environment *environment) {
    for (int i = 0; i < VARIABLES; i++)
        free(environment->own[i]);
    free(environment->values);
}

static hr_status environment_make(const settings *settings, program_environment *out) {
    size_t count = 0, kept = 0;
    while (environ && environ[count])
        count++;
    *out = (program_environment){.values = calloc(count + VARIABLES + 1, sizeof *out->values)};
    bool made = out->values != NULL;
    for (size_t i = 0; made && i < count; i++)
        if (!is_ours(environ[i])) out->values[kept++] = environ[i];
    for (int i = 0; made && i < VARIABLES; i++) {
        if (!settings->value[i]) continue;
        size_t size = strlen(variables[i]) + strlen(settings->value[i]) + 2;
        made = (out->own[i] = malloc(size)) != NULL;
        if (!made) break;
        snprintf(out->own[i], size, "%s=%s", variables[i], settings->value[i]);
        out->values[kept++] = out->own[i];
    }
    if (made) return HR_OK;
    environment_clear(out);
    return hr_fail(HR_OUT_OF_MEMORY, "no memory for the program's environment");
}

/* In the child: never returns. What exec says goes through the pipe. */
static void become_program(const char *const *program, char **environment, int failed) {
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    execvpe(program[0], (char *const *)program, environment);
    int reason = errno;
    ssize_t said = write(failed, &reason, sizeof reason);
    _exit(said == sizeof reason ? 127 : 126);
}

static int exit_code_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static hr_status run_in(char **environment, const char *const *program, int *exit_code) {
    int pipes[2], reason = 0, status = 0;
    if (pipe2(pipes, O_CLOEXEC) != 0) return hr_fail(HR_INTERNAL, "no pipe: %s", strerror(errno));
    fflush(NULL);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit; /* they are for the program */
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
    pid_t child = fork();
    if (child == 0) become_program(program, environment, pipes[1]);
    close(pipes[1]);
    ssize_t length = child > 0 ? read(pipes[0], &reason, sizeof reason) : 0;
    close(pipes[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    if (child < 0) return hr_fail(HR_INTERNAL, "%s could not be started: no process", program[0]);
    if (length == sizeof reason)
        return hr_fail(reason == ENOMEM ? HR_OUT_OF_MEMORY : HR_BAD_INPUT, "%s could not be started: %s",
                       program[0], strerror(reason));
    *exit_code = exit_code_of(status);
    return HR_OK;
}

static hr_status run_program(const hr_record_options *options, const char *library, const output_place *place,
                             const char *const *program, int *exit_code) {
    settings settings;
    program_environment environment;
    make_settings(options, library, place, &settings);
    HR_TRY(environment_make(&settings, &environment));
    hr_status status = run_in(environment.values, program, exit_code);
    environment_clear(&environment);
    return status;
}

/* ---- afterwards ---- */

static hr_status no_memory_to_read(const hr_recorded_file *file) {
    return hr_fail(HR_OUT_OF_MEMORY, "no memory to read what was recorded; it stands in %s", file->path);
}

static hr_status add_note(hr_recorded_file *file, const char *text, size_t length) {
    size_t before = file->notes ? strlen(file->notes) : 0;
    char *notes = realloc(file->notes, before + length + 2);
    if (!notes) return no_memory_to_read(file);
    file->notes = notes;
    snprintf(notes + before, length + 2, "%s%.*s", before ? "\n" : "", (int)length, text);
    return HR_OK;
}

/* A note's text is new when it is written, and so stands in its chunk, though other threads' strings may
 * stand between the two; one that was written before has been told. */
static hr_trace_record find_text(const hr_trace_decoder *note, int64_t id) {
    hr_trace_decoder decoder = {.data = note->data, .length = note->at};
    hr_trace_record record, found = {0};
    while (hr_trace_decode(&decoder, &record))
        if (record.kind == HR_RECORD_string && record.string.id == id) found = record;
    return found;
}

static hr_status scan_chunk(hr_recorded_file *file, const uint8_t *payload, size_t length) {
    hr_trace_decoder decoder = {.data = payload, .length = length};
    hr_trace_record record, text;
    while (hr_trace_decode(&decoder, &record)) {
        file->records++;
        switch (record.kind) {
        case HR_RECORD_kernel:
            file->kernels++;
            break;
        case HR_RECORD_call:
            file->calls++;
            break;
        case HR_RECORD_range_begin:
            file->ranges++;
            break;
        case HR_RECORD_counters:
            file->counted++;
            break;
        case HR_RECORD_sample:
            file->samples++;
            break;
        case HR_RECORD_dropped:
            file->dropped += record.dropped.count;
            break;
        case HR_RECORD_end:
            file->complete = true;
            break;
        case HR_RECORD_note:
            if (record.note.memory) file->out_of_memory = true;
            text = find_text(&decoder, record.note.text);
            if (text.text) HR_TRY(add_note(file, text.text, (size_t)text.string.length));
        }
    }
    return HR_OK;
}

/* Up to where the file breaks off. */
static hr_status scan_chunks(hr_recorded_file *file, FILE *stream) {
    hr_trace_chunk_header header;
    while (fread(&header, sizeof header, 1, stream) == 1 && header.mark == HR_TRACE_CHUNK_MARK &&
           header.length <= HR_TRACE_CHUNK_MAX) {
        uint8_t *payload = malloc(header.length + 1u);
        if (!payload) return no_memory_to_read(file);
        bool whole = fread(payload, 1, header.length, stream) == header.length &&
                     hr_trace_chunk_check(&header, payload);
        hr_status status = whole ? scan_chunk(file, payload, header.length) : HR_OK;
        free(payload);
        if (!whole || status != HR_OK) return status;
        file->bytes = ftell(stream);
    }
    return HR_OK;
}

/* *ours: false where it is none of ours. */
static hr_status scan_file(hr_recorded_file *file, bool *ours) {
    hr_trace_file_header header;
    *ours = false;
    errno = 0;
    FILE *stream = fopen(file->path, "rb");
    if (!stream) return errno == ENOMEM ? no_memory_to_read(file) : HR_OK;
    setvbuf(stream, NULL, _IONBF, 0); /* no memory for a buffer would read as an early end */
    *ours = fread(&header, 1, sizeof header, stream) == sizeof header &&
            hr_trace_header_check(&header, sizeof header, &header);
    hr_status status = HR_OK;
    if (*ours) {
        file->process = header.process;
        file->rank = header.rank;
        status = scan_chunks(file, stream);
    }
    fclose(stream);
    return status;
}

#define LOADER_GAVE_UP 127 /* the exit code of a process whose loader cannot go on */

/* Says where the process ended while the recorder loaded libraries into it. */
static hr_status check_loading(hr_recorded_file *file, int exit_code) {
    char mark[sizeof file->path + sizeof HR_TRACE_LOADING_SUFFIX];
    size_t length = strlen(file->path) - strlen(HR_TRACE_FILE_SUFFIX);
    snprintf(mark, sizeof mark, "%.*s%s", (int)length, file->path, HR_TRACE_LOADING_SUFFIX);
    if (unlink(mark) != 0) return HR_OK;
    file->out_of_memory = exit_code == LOADER_GAVE_UP;
    const char *text = file->out_of_memory ? "the loader ended the process: no memory to load CUPTI into it"
                                           : "the process ended while CUPTI was loaded into it";
    return add_note(file, text, strlen(text));
}

static hr_status add_file(hr_recording *recording, hr_recorded_file *file) {
    bool ours;
    hr_status status = scan_file(file, &ours);
    if (status == HR_OK && ours) status = check_loading(file, recording->exit_code);
    hr_recorded_file *files = NULL;
    if (status == HR_OK && ours) {
        files = realloc(recording->files, (size_t)(recording->count + 1) * sizeof *files);
        if (!files) status = no_memory_to_read(file);
    }
    if (!files) {
        free(file->notes);
        return status;
    }
    recording->files = files;
    files[recording->count++] = *file;
    return HR_OK;
}

static hr_status gather(const output_place *place, hr_recording *recording) {
    const char *start = strrchr(place->prefix, '/') + 1;
    size_t length = strlen(start);
    DIR *folder = opendir(place->folder);
    if (!folder)
        return hr_fail(errno == ENOMEM ? HR_OUT_OF_MEMORY : HR_IO, "%s cannot be read: %s", place->folder,
                       strerror(errno));
    hr_status status = HR_OK;
    struct dirent *entry;
    while (status == HR_OK && recording->count < FILE_MOST && (entry = readdir(folder))) {
        if (strncmp(entry->d_name, start, length) != 0 || entry->d_name[length] != '.') continue;
        hr_recorded_file file = {.size = sizeof file, .rank = -1};
        int size = snprintf(file.path, sizeof file.path, "%s/%s", place->folder, entry->d_name);
        if (size < (int)sizeof file.path) status = add_file(recording, &file);
    }
    closedir(folder);
    return status;
}

static int by_rank(const void *a, const void *b) {
    const hr_recorded_file *left = a, *right = b;
    if (left->rank != right->rank) return left->rank < right->rank ? -1 : 1;
    return left->process < right->process ? -1 : left->process > right->process;
}

static bool is_empty(const hr_recorded_file *file) {
    return file->kernels + file->calls + file->ranges == 0 && !file->notes;
}

/* A launcher that only asked for the number of GPUs leaves no file. */
static void drop_empty(hr_recording *recording) {
    int kept = 0;
    for (int i = 0; i < recording->count; i++) {
        if (is_empty(&recording->files[i]))
            unlink(recording->files[i].path);
        else
            recording->files[kept++] = recording->files[i];
    }
    recording->count = kept;
}

/* FILE.hrt alone; FILE.rank0.hrt, FILE.rank1.hrt, ... where the ranks are known, else by process. */
static void give_names(const output_place *place, const char *output, hr_recording *recording) {
    bool ranks = recording->count > 0 && recording->files[0].rank >= 0;
    for (int i = 1; i < recording->count; i++)
        if (recording->files[i].rank == recording->files[i - 1].rank) ranks = false;
    int folder = (int)(strrchr(output, '/') ? strrchr(output, '/') - output + 1 : 0);
    for (int i = 0; i < recording->count; i++) {
        hr_recorded_file *file = &recording->files[i];
        char name[PATH_MAX];
        if (recording->count == 1)
            snprintf(name, sizeof name, "%.*s%s%s", folder, output, place->base, HR_TRACE_FILE_SUFFIX);
        else
            snprintf(name, sizeof name, "%.*s%s.%s%lld%s", folder, output, place->base, ranks ? "rank" : "",
                     ranks ? (long long)file->rank : (long long)file->process, HR_TRACE_FILE_SUFFIX);
        if (rename(file->path, name) == 0) snprintf(file->path, sizeof file->path, "%s", name);
    }
}

/* What was asked for, where it is to stand, and a recording without files. */
static hr_status make_recording(const hr_record_options *options, hr_record_options *asked, char *library,
                                hr_recording **out) {
    *asked = (hr_record_options){.size = sizeof *asked};
    if (options) memcpy(asked, options, options->size < sizeof *asked ? options->size : sizeof *asked);
    if (asked->counters < HR_COUNTERS_NONE || asked->counters > HR_COUNTERS_SAMPLED)
        return hr_fail(HR_BAD_INPUT, "counters: %d is no hr_counters_mode", (int)asked->counters);
    HR_TRY(find_library(library));
    const char *output = asked->output ? asked->output : "headroom" HR_TRACE_FILE_SUFFIX;
    output_place place;
    HR_TRY(find_place(output, &place));
    hr_recording *recording = calloc(1, sizeof *recording);
    if (!recording) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a recording");
    recording->handle.kind = HR_HANDLE_RECORDING;
    recording->place = place;
    snprintf(recording->output, sizeof recording->output, "%s", output);
    *out = recording;
    return HR_OK;
}

/* The files that came to be get their names. */
static hr_status collect(hr_recording *recording) {
    HR_TRY(gather(&recording->place, recording));
    drop_empty(recording);
    qsort(recording->files, (size_t)recording->count, sizeof *recording->files, by_rank);
    give_names(&recording->place, recording->output, recording);
    return HR_OK;
}

hr_status hr_program_record(const hr_record_options *options, const char *const *program,
                            hr_recording **out) {
    HR_TRY(hr_pointer_check(program, "program", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (!program[0]) return hr_fail(HR_BAD_INPUT, "there is no program to record");
    hr_record_options asked;
    char library[PATH_MAX];
    hr_recording *recording;
    HR_TRY(make_recording(options, &asked, library, &recording));
    hr_status status = run_program(&asked, library, &recording->place, program, &recording->exit_code);
    if (status == HR_OK) status = collect(recording);
    if (status != HR_OK) {
        hr_recording_destroy(recording);
        return status;
    }
    *out = recording;
    return HR_OK;
}

/* ---- this process ---- */

/* What stood in the environment before. */
static hr_status keep_environment(hr_recording *recording) {
    for (int i = 0; i < VARIABLES; i++) {
        const char *value = getenv(variables[i]);
        recording->before[i] = value ? strdup(value) : NULL;
        if (!value || recording->before[i]) continue;
        while (i-- > 0) {
            free(recording->before[i]);
            recording->before[i] = NULL;
        }
        return hr_fail(HR_OUT_OF_MEMORY, "no memory to keep the environment");
    }
    return HR_OK;
}

/* What starts from now on is not recorded. */
static void restore_environment(hr_recording *recording) {
    for (int i = 0; i < VARIABLES; i++) {
        (void)set_word(variables[i], recording->before[i]);
        free(recording->before[i]);
        recording->before[i] = NULL;
    }
}

static hr_status set_environment(const settings *settings) {
    for (int i = 0; i < VARIABLES; i++)
        HR_TRY(set_word(variables[i], settings->value[i]));
    return HR_OK;
}

static hr_status begin(const hr_record_options *asked, const char *library, hr_recording *recording) {
    void *recorder =
        dlopen(library, RTLD_NOW | RTLD_LOCAL); /* stays: CUPTI calls it until the process ends */
    bool (*start)(void) = NULL;
    void (*end)(void) = NULL;
    if (recorder) *(void **)&start = dlsym(recorder, "headroom_record_begin");
    if (recorder) *(void **)&end = dlsym(recorder, "headroom_record_end");
    if (!start || !end) {
        const char *why = dlerror();
        return hr_fail(HR_NOT_AVAILABLE, "the recorder %s cannot be loaded: %s", library,
                       why ? why : "it is of another version");
    }
    if (getenv("HEADROOM_RECORD_FILE"))
        return hr_fail(HR_BAD_INPUT, "this process is being recorded already");
    settings settings;
    make_settings(asked, library, &recording->place, &settings);
    HR_TRY(keep_environment(recording));
    hr_status status = set_environment(&settings);
    if (status == HR_OK && !start()) status = hr_fail(HR_IO, "%s cannot be written", recording->place.prefix);
    if (status == HR_OK)
        recording->end = end;
    else
        restore_environment(recording);
    return status;
}

hr_status hr_recording_begin(const hr_record_options *options, hr_recording **out) {
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_record_options asked;
    char library[PATH_MAX];
    hr_recording *recording;
    HR_TRY(make_recording(options, &asked, library, &recording));
    hr_status status =
        asked.counters == HR_COUNTERS_NONE
            ? begin(&asked, library, recording)
            : hr_fail(HR_NOT_AVAILABLE, "counters are read from a program's start on: use headroom "
                                        "record, or hr_program_record()");
    if (status != HR_OK) {
        hr_recording_destroy(recording);
        return status;
    }
    *out = recording;
    return HR_OK;
}

hr_status hr_recording_end(hr_recording *recording) {
    HR_TRY(hr_handle_check(recording, HR_HANDLE_RECORDING, __func__));
    if (!recording->end) return HR_OK;
    recording->end();
    recording->end = NULL;
    restore_environment(recording);
    return collect(recording);
}

/* ---- what there is ---- */

int hr_recording_exit_code(const hr_recording *recording) {
    if (hr_handle_check(recording, HR_HANDLE_RECORDING, __func__) != HR_OK) return 0;
    return recording->exit_code;
}

int hr_recording_file_count(const hr_recording *recording) {
    if (hr_handle_check(recording, HR_HANDLE_RECORDING, __func__) != HR_OK) return 0;
    return recording->count;
}

const hr_recorded_file *hr_recording_file(const hr_recording *recording, int place) {
    if (hr_handle_check(recording, HR_HANDLE_RECORDING, __func__) != HR_OK) return NULL;
    return place >= 0 && place < recording->count ? &recording->files[place] : NULL;
}

void hr_recording_destroy(hr_recording *recording) {
    if (!recording || hr_handle_check(recording, HR_HANDLE_RECORDING, __func__) != HR_OK) return;
    (void)hr_recording_end(recording);
    for (int i = 0; i < recording->count; i++)
        free(recording->files[i].notes);
    free(recording->files);
    hr_handle_free(recording);
}
