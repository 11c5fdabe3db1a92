/* Any text and any file is done or refused: no signal, whatever is in it.
 *
 * in:  fuzz_inputs SOURCE SECONDS [TARGET [SEED]]   each target in turn, SECONDS in all
 *      ("all" is no TARGET: all)
 *      fuzz_inputs SOURCE replay TARGET FILE...     these files as they are
 * out: how many inputs each target took. Each input lies in fuzz_TARGET.* of the current folder before it is
 *      tried, so that it is still there where the program ends by a signal; an input that takes a minute of
 * the processors' time ends it, too.
 *
 * First come the seeds as they are (the committed corpus), then mutants: bytes, and whole tokens, which are
 * changed, doubled, dropped, exchanged with those of another seed, or become a number that 32 or 64 bits
 * cannot hold. Who adds a reader adds a row to `targets`.
 */
#include "headroom.h"

#include "base/clock.h"
#include "tune/tune.h"

#include <ctype.h>
#include <glob.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>

#define INPUT_MOST   ((size_t)64 << 10)
#define TOKENS_MOST  8192
#define SEEDS_MOST   256
#define MUTATIONS    4
#define SLOW_SECONDS 60

typedef struct input {
    char *data;
    size_t length;
} input;

typedef struct target {
    const char *name;
    const char *seeds[3]; /* patterns below SOURCE */
    const char *ending;   /* of the file that the input is tried as */
    void (*try)(const char *path, const input *input, uint64_t choice);
} target;

static const char *source; /* SOURCE */

/* ---- random numbers ---- */

static uint64_t state;

static uint64_t draw(uint64_t below) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t x = state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return below ? (x ^ x >> 31) % below : 0;
}

/* ---- what is done with an input ---- */

static const int64_t extents[] = {1,
                                  2,
                                  3,
                                  7,
                                  64,
                                  129,
                                  4096,
                                  65537,
                                  (int64_t)1 << 31,
                                  (int64_t)1 << 32,
                                  ((int64_t)1 << 32) + 1,
                                  1000000000000,
                                  (int64_t)1 << 62,
                                  INT64_MAX};

static void try_on_device(hr_device *device, const input *input, uint64_t choice) {
    hr_kernel *kernel = NULL;
    hr_run_result *explained = NULL;
    const char *source, *header;
    char *text = NULL;
    if (hr_kernel_load(device, "fuzz.hr", input->data, input->length, NULL, &kernel) != HR_OK) return;
    for (int i = 0; i < hr_kernel_extent_count(kernel); i++, choice /= 3)
        if (choice % 3) {
            const char *name = hr_kernel_extent_name(kernel, i);
            hr_kernel_bind_extent(kernel, name, extents[draw(sizeof extents / sizeof *extents)]);
        }
    if (hr_kernel_explain(kernel, &explained) == HR_OK && hr_report_explain_json(explained, &text) == HR_OK)
        free(text);
    hr_run_result_destroy(explained);
    const hr_emit_options options = {.size = sizeof options, .form = (hr_source_form)(choice % 3)};
    hr_kernel_emit(kernel, &options, &source, &header);
    hr_kernel_destroy(kernel);
}

/* text -> plan -> explain -> source, for a target that `choice` picks */
static void try_kernel(const char *path, const input *input, uint64_t choice) {
    static const char *const names[] = {"cpu", "cuda:sm_90a", "cuda:sm_80"};
    static hr_device *devices[3];
    const int which = (int)(choice % 3);
    (void)path;
    if (!devices[which] && hr_device_open(names[which], &devices[which]) != HR_OK) return;
    try_on_device(devices[which], input, choice / 3);
}

static void try_npy(const char *path, const input *input, uint64_t choice) {
    hr_npy *npy = NULL;
    double scalar = 0;
    (void)input;
    if (hr_npy_open(path, (hr_dtype)(choice % HR_DTYPE_COUNT), &npy) != HR_OK) return;
    const hr_array *array = hr_npy_array(npy);
    if (array->rank == 0) hr_npy_scalar(npy, &scalar);
    hr_npy_reset(npy);
    hr_npy_destroy(npy);
}

static void try_roof(const char *path, const input *input, uint64_t choice) {
    hr_roof roof;
    char device[16];
    (void)input;
    hr_roof_load(path, &roof, device, choice % (sizeof device + 1));
}

static void try_trace(const char *path, const input *input, uint64_t choice) {
    hr_diagnosis *diagnosis = NULL;
    char *text = NULL;
    hr_status (*const reports[])(const hr_diagnosis *, char **) = {
        hr_report_diagnosis_json, hr_report_diagnosis_html, hr_report_diagnosis_perfetto};
    (void)input;
    if (hr_diagnose(&path, 1, NULL, &diagnosis) != HR_OK) return;
    if (hr_report_diagnosis_text(diagnosis, NULL, &text) == HR_OK) free(text);
    if (reports[choice % 3](diagnosis, &text) == HR_OK) free(text);
    hr_diagnosis_destroy(diagnosis);
}

/* A row whose text is the input. */
static void try_tuning(const char *path, const input *input, uint64_t choice) {
    static const char insert[] = "INSERT OR REPLACE INTO tuned VALUES('fuzz', 2, 1.0, 1, ?1)";
    hr_tune_database *database = hr_tune_database_open(".");
    hr_tuned tuned;
    sqlite3 *file = NULL;
    sqlite3_stmt *statement = NULL;
    (void)path, (void)choice;
    hr_tune_database_close(database);
    if (sqlite3_open("tune.sqlite", &file) == SQLITE_OK &&
        sqlite3_prepare_v2(file, insert, -1, &statement, NULL) == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, input->data, (int)input->length, SQLITE_STATIC);
        sqlite3_step(statement);
    }
    sqlite3_finalize(statement);
    sqlite3_close(file);
    database = hr_tune_database_open(".");
    hr_tune_database_find(database, "fuzz", HR_TUNE_QUICK, &tuned);
    hr_tune_database_close(database);
}

static hr_model *model_of(const char *path) {
    static hr_device *device;
    hr_model *model = NULL;
    if (device || hr_device_open("cpu", &device) == HR_OK) hr_model_open(device, path, NULL, &model);
    return model;
}

/* Its words as tokens, and as a turn of a chat; no step is run, which would be compiled. */
static void try_model(const char *path, const input *input) {
    hr_model *model = model_of(path);
    int32_t *tokens = NULL;
    size_t count = 0;
    char words[512], *chat = NULL;
    if (!model) return;
    const size_t length = input->length < sizeof words - 1 ? input->length : sizeof words - 1;
    if (hr_model_encode(model, input->data, length, HR_SPECIAL_AS_TOKENS, &tokens, &count) == HR_OK)
        free(tokens);
    memcpy(words, input->data, length);
    words[length] = 0;
    if (hr_model_chat(model, &(hr_chat_turn){"user", words}, 1, &chat) == HR_OK) free(chat);
    hr_model_destroy(model);
}

static void try_weights(const char *path, const input *input, uint64_t choice) {
    (void)choice;
    try_model(path, input);
}

static void write_file(const char *path, const char *data, size_t length) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, length, file) != length || fclose(file) != 0) {
        perror(path);
        exit(3);
    }
}

/* One of the texts of JSON that a folder of safetensors holds, the others being small. */
static void try_folder(const char *path, const input *input, uint64_t choice) {
    static const struct {
        const char *name, *otherwise;
    } files[] = {
        {"config.json",
         "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 16, \"intermediate_size\": "
         "16, \"num_hidden_layers\": 1, \"num_attention_heads\": 2}"},
        {"tokenizer.json",
         "{\"added_tokens\": [], \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
         "\"add_prefix_space\": false, \"use_regex\": true}, \"model\": {\"type\": \"BPE\", "
         "\"vocab\": {\"a\": 0}, \"merges\": []}}"},
        {"tokenizer_config.json", "{}"},
        {"model.safetensors.index.json", "{\"weight_map\": {\"w\": \"part.safetensors\"}}"},
    };
    static const char weights[] = "\x48\0\0\0\0\0\0\0{\"w\": {\"dtype\": \"BF16\", \"shape\": [2, 3], "
                                  "\"data_offsets\": [0, 12]}}      twelve bytes";
    (void)path;
    mkdir("folder", 0700);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[64];
        const bool its = choice % (sizeof files / sizeof *files) == i;
        snprintf(name, sizeof name, "folder/%s", files[i].name);
        write_file(name, its ? input->data : files[i].otherwise,
                   its ? input->length : strlen(files[i].otherwise));
    }
    write_file("folder/part.safetensors", weights, sizeof weights - 1);
    try_model("folder", input);
}

/* Of the smallest model there is. */
static void try_requests(const char *path, const input *input, uint64_t choice) {
    static hr_model *model;
    const hr_generate_options defaults = {.size = sizeof defaults,
                                          .sampling = {.size = sizeof defaults.sampling}};
    hr_request *requests;
    int count;
    (void)input, (void)choice;
    if (!model) {
        char small[4096];
        snprintf(small, sizeof small, "%s/test/fuzz/corpus_weights/llama.gguf", source);
        model = model_of(small);
    }
    if (!model) {
        printf("%s\n", hr_last_error());
        exit(3);
    }
    if (hr_requests_read(model, path, &defaults, &requests, &count) == HR_OK)
        hr_requests_destroy(requests, count);
}

static const target targets[] = {
    {"kernels", {"kernels/*.hr", "test/fuzz/corpus/*.hr"}, ".hr", try_kernel},
    {"npy", {"test/fuzz/corpus_npy/*"}, ".npy", try_npy},
    {"roof", {"test/fuzz/corpus_roof/*"}, ".json", try_roof},
    {"traces",
     {"test/fuzz/corpus_trace/*", "test/recordings/*.gz", "test/recordings/counters/*.gz"},
     ".trace",
     try_trace},
    {"weights", {"test/fuzz/corpus_weights/*"}, ".gguf", try_weights},
    {"folder", {"test/fuzz/corpus_folder/*", "test/fuzz/corpus_weights/*.json"}, ".json", try_folder},
    {"requests", {"test/fuzz/corpus_requests/*"}, ".jsonl", try_requests},
    {"tuning", {"test/fuzz/corpus_tuning/*"}, ".txt", try_tuning},
};
enum { TARGETS = sizeof targets / sizeof *targets };

/* ---- seeds ---- */

static int read_input(const char *path, input *out) {
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    out->data = malloc(INPUT_MOST);
    out->length = out->data ? fread(out->data, 1, INPUT_MOST, file) : 0;
    fclose(file);
    return out->data != NULL;
}

static int read_seeds(const target *target, input *seeds) {
    int count = 0;
    for (int i = 0; i < 3 && target->seeds[i]; i++) {
        char pattern[4096];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/%s", source, target->seeds[i]);
        if (glob(pattern, 0, NULL, &found) != 0) continue;
        for (size_t f = 0; f < found.gl_pathc && count < SEEDS_MOST; f++)
            count += read_input(found.gl_pathv[f], &seeds[count]);
        globfree(&found);
    }
    return count;
}

/* ---- mutants ---- */

typedef struct token {
    size_t at, length;
} token;

static int is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static int tokens_of(const input *input, token *out) {
    int count = 0;
    for (size_t at = 0; at < input->length && count < TOKENS_MOST;) {
        size_t length = 1;
        if (is_word(input->data[at]))
            while (at + length < input->length && is_word(input->data[at + length]))
                length++;
        if (!isspace((unsigned char)input->data[at])) out[count++] = (token){at, length};
        at += length;
    }
    return count;
}

/* `length` bytes at `at` become `more` others. */
static void replace(input *input, size_t at, size_t length, const char *with, size_t more) {
    if (input->length - length + more > INPUT_MOST) return;
    char *copy = malloc(more + 1); /* it may lie in the input itself */
    if (!copy) return;
    memcpy(copy, with, more);
    memmove(input->data + at + more, input->data + at + length, input->length - at - length);
    memcpy(input->data + at, copy, more);
    input->length += more - length;
    free(copy);
}

static void mutate_token(input *input, const struct input *other) {
    static const char *const numbers[] = {"0",
                                          "1",
                                          "-1",
                                          "2147483647",
                                          "2147483648",
                                          "4294967296",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "1e309",
                                          "1e-320",
                                          "nan",
                                          "65536",
                                          "255",
                                          "0x10"};
    static token own[TOKENS_MOST], theirs[TOKENS_MOST];
    const int count = tokens_of(input, own), others = tokens_of(other, theirs);
    if (!count || !others) return;
    const token a = own[draw((uint64_t)count)], b = own[draw((uint64_t)count)],
                c = theirs[draw((uint64_t)others)];
    const char *number = numbers[draw(sizeof numbers / sizeof *numbers)];
    switch (draw(6)) {
    case 0:
        replace(input, a.at, a.length, input->data + b.at, b.length);
        break;
    case 1:
        replace(input, a.at, a.length, "", 0);
        break;
    case 2:
        replace(input, a.at, 0, input->data + b.at, b.length);
        break;
    case 3:
        replace(input, a.at, a.length, other->data + c.at, c.length);
        break;
    case 4:
        replace(input, a.at, a.length, number, strlen(number));
        break;
    default: { /* a run of tokens of the other */
        const token d = theirs[draw((uint64_t)others)];
        const size_t from = c.at < d.at ? c.at : d.at, to = c.at < d.at ? d.at : c.at;
        replace(input, a.at, a.length, other->data + from, to - from < 512 ? to - from : 512);
    }
    }
}

static void mutate_bytes(input *input) {
    if (!input->length) return;
    const size_t at = draw(input->length);
    const char byte = (char)draw(256);
    switch (draw(4)) {
    case 0:
        input->data[at] ^= (char)(1 << draw(8));
        break;
    case 1:
        replace(input, at, 1, &byte, 1);
        break;
    case 2:
        input->length = at;
        break;
    default: {
        const size_t length = draw(input->length - at < 64 ? input->length - at : 64);
        replace(input, draw(input->length), 0, input->data + at, length);
    }
    }
}

/* ---- runs ---- */

/* SIGPROF ends the program after so many seconds of its own work, whatever else the machine does; 0: never.
 */
static void limit_processor(int seconds) {
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = seconds}, NULL);
}

static void try_input(const target *target, const input *input) {
    char path[64];
    snprintf(path, sizeof path, "fuzz_%s%s", target->name, target->ending);
    write_file(path, input->data, input->length);
    limit_processor(SLOW_SECONDS);
    target->try(path, input, draw(UINT64_MAX));
    limit_processor(0);
}

static void run_target(const target *target, double seconds) {
    static input seeds[SEEDS_MOST];
    const int count = read_seeds(target, seeds);
    long tried = 0;
    if (!count) {
        printf("%s: no seeds\n", target->name);
        exit(2);
    }
    for (int i = 0; i < count; i++)
        try_input(target, &seeds[i]);
    const double begun = hr_clock_seconds();
    input mutant = {.data = malloc(INPUT_MOST)};
    for (; mutant.data && hr_clock_seconds() - begun < seconds; tried++) {
        const input *seed = &seeds[draw((uint64_t)count)], *other = &seeds[draw((uint64_t)count)];
        mutant.length = seed->length;
        memcpy(mutant.data, seed->data, seed->length);
        for (uint64_t i = 1 + draw(MUTATIONS); i--;)
            if (draw(4))
                mutate_token(&mutant, other);
            else
                mutate_bytes(&mutant);
        try_input(target, &mutant);
    }
    free(mutant.data);
    for (int i = 0; i < count; i++)
        free(seeds[i].data);
    printf("%s: %d seeds, %ld mutants\n", target->name, count, tried);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *only = argc > 3 && strcmp(argv[3], "all") != 0 ? argv[3] : NULL;
    const bool replays = argc > 4 && strcmp(argv[2], "replay") == 0;
    if (argc < 3) return 2;
    source = argv[1];
    const double seconds = replays ? 0 : atof(argv[2]);
    state = argc > 4 && !replays ? strtoull(argv[4], NULL, 0) : 1;
    if (!replays) printf("seed %llu\n", (unsigned long long)state);
    for (int i = 0; i < TARGETS; i++) {
        if (only && strcmp(only, targets[i].name) != 0) continue;
        for (int a = 4; replays && a < argc; a++) {
            input given;
            if (!read_input(argv[a], &given)) return 2;
            for (int times = 0; times < 64; times++)
                try_input(&targets[i], &given);
            free(given.data);
        }
        if (!replays) run_target(&targets[i], seconds / (only ? 1 : TARGETS));
    }
    return 0;
}
