/* Strings, chunks and the file. In: records, in the order in which they are to stand. Out: whole chunks on
 * disk. */
#define XXH_INLINE_ALL
#include "record/inject/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define CHUNK_BYTES (512 << 10)
#define STRING_MAX  4096 /* bytes that are kept of one */
#define THREAD_MOST 1024 /* that get a name */

typedef struct kept_string {
    uint64_t hash;
    uint32_t length;
    char *bytes;
} kept_string;

/* Ids are places in `items`; `slots` finds them by hash. */
typedef struct string_table {
    pthread_mutex_t lock;
    kept_string *items;
    int64_t count, capacity, written;
    int64_t *slots; /* id + 1; 0 = free */
    int64_t slot_count;
} string_table;

static string_table strings = {.lock = PTHREAD_MUTEX_INITIALIZER};
static hr_trace_encoder encoder;
static int descriptor = -1;
static off_t good_length; /* of the file up to its last whole chunk */
static int failure;       /* errno of the write that failed */
static int64_t known_threads[THREAD_MOST], last_thread = -1;
static int known_count;
static atomic_bool lacks_memory; /* something that was to be recorded is missing for that reason */
static bool told_memory;

/* ---- strings ---- */

static bool strings_grow(void) {
    if (strings.count < strings.capacity) return true;
    int64_t capacity = strings.capacity ? 2 * strings.capacity : 1024;
    kept_string *items = realloc(strings.items, (size_t)capacity * sizeof *items);
    if (items) strings.items = items;
    int64_t *slots = calloc((size_t)capacity * 2, sizeof *slots);
    if (!items || !slots) {
        free(slots);
        record_lacks_memory();
        return false;
    }
    for (int64_t i = 0; i < strings.count; i++) {
        int64_t slot = (int64_t)(items[i].hash & (uint64_t)(capacity * 2 - 1));
        while (slots[slot])
            slot = (slot + 1) & (capacity * 2 - 1);
        slots[slot] = i + 1;
    }
    free(strings.slots);
    strings.slots = slots;
    strings.slot_count = capacity * 2;
    strings.capacity = capacity;
    return true;
}

static int64_t find_or_add(const char *bytes, size_t length) {
    if (!strings_grow()) return -1;
    uint64_t hash = XXH3_64bits(bytes, length);
    int64_t slot = (int64_t)(hash & (uint64_t)(strings.slot_count - 1));
    for (; strings.slots[slot]; slot = (slot + 1) & (strings.slot_count - 1)) {
        const kept_string *at = &strings.items[strings.slots[slot] - 1];
        if (at->hash == hash && at->length == length && memcmp(at->bytes, bytes, length) == 0)
            return strings.slots[slot] - 1;
    }
    char *copy = malloc(length + 1);
    if (!copy) {
        record_lacks_memory();
        return -1;
    }
    memcpy(copy, bytes, length);
    copy[length] = 0;
    strings.items[strings.count] = (kept_string){hash, (uint32_t)length, copy};
    strings.slots[slot] = ++strings.count;
    return strings.count - 1;
}

int64_t record_string(const char *bytes, size_t length) {
    if (length > STRING_MAX) length = STRING_MAX;
    pthread_mutex_lock(&strings.lock);
    int64_t id = find_or_add(bytes, length);
    pthread_mutex_unlock(&strings.lock);
    return id;
}

const char *record_string_text(int64_t id, size_t *length) {
    const char *text = "";
    *length = 0;
    pthread_mutex_lock(&strings.lock);
    if (id >= 0 && id < strings.count) {
        text = strings.items[id].bytes; /* stays where it is */
        *length = strings.items[id].length;
    }
    pthread_mutex_unlock(&strings.lock);
    return text;
}

/* A record's strings stand before it: they were all made before the record was. */
static void put_new_strings(void) {
    pthread_mutex_lock(&strings.lock);
    for (; strings.written < strings.count; strings.written++) {
        const kept_string *at = &strings.items[strings.written];
        hr_trace_encode_string(&encoder, strings.written, at->bytes, at->length);
    }
    pthread_mutex_unlock(&strings.lock);
}

/* ---- the file ---- */

static bool write_all(const void *data, size_t length) {
    const char *at = data;
    while (length) {
        ssize_t wrote = write(descriptor, at, length);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            failure = wrote < 0 ? errno : ENOSPC;
            return false;
        }
        at += wrote;
        length -= (size_t)wrote;
    }
    return true;
}

static int64_t variable_number(const char *const *names, int64_t otherwise) {
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (text && *text) return atoll(text);
    }
    return otherwise;
}

static hr_trace_file_header make_header(void) {
    static const char *const ranks[] = {"RANK",         "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID", "LOCAL_RANK",           NULL};
    static const char *const worlds[] = {"WORLD_SIZE",   "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                         "SLURM_NTASKS", "LOCAL_WORLD_SIZE",     NULL};
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t now = (int64_t)recorder_clock();
    hr_trace_file_header header = {
        .version = HR_TRACE_FILE_VERSION,
        .bytes = sizeof header,
        .epoch = (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec - now,
        .process = getpid(),
        .rank = (int32_t)variable_number(ranks, -1),
        .world = (int32_t)variable_number(worlds, 0),
    };
    memcpy(header.magic, HR_TRACE_FILE_MAGIC, sizeof header.magic);
    return header;
}

bool record_file_open(const char *path) {
    descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor < 0) return false;
    hr_trace_file_header header = make_header();
    failure = 0;
    good_length = sizeof header;
    strings.written = 0; /* those of an earlier recording are this one's, too */
    known_count = 0;
    last_thread = -1;
    encoder.records = 0;
    told_memory = false;
    atomic_store(&lacks_memory, false);
    hr_trace_encode_next(&encoder);
    return write_all(&header, sizeof header);
}

/* A chunk that is one sentence, of memory that is always there. */
static bool write_sentence(const char *sentence, bool of_memory) {
    static uint8_t room[512];
    hr_trace_encoder chunk = {.data = room, .capacity = sizeof room};
    hr_trace_encode_string(&chunk, INT32_MAX, sentence, strlen(sentence));
    hr_trace_encode(&chunk, HR_RECORD_note,
                    &(hr_record_note){(int64_t)recorder_clock(), INT32_MAX, of_memory});
    if (!hr_trace_encode_chunk(&chunk) || !write_all(chunk.data, chunk.length)) return false;
    good_length += (off_t)chunk.length;
    return true;
}

void record_lacks_memory(void) {
    atomic_store(&lacks_memory, true);
}

static void tell_memory(void) {
    if (told_memory || !atomic_load(&lacks_memory)) return;
    told_memory = write_sentence("the process was out of memory: some of its records are missing", true);
}

/* Takes back the chunk that broke off and tries to say why in the room that this leaves. */
static void give_up(void) {
    int reason = failure;
    if (ftruncate(descriptor, good_length) != 0) return;
    if (lseek(descriptor, good_length, SEEK_SET) < 0) return;
    char sentence[160];
    snprintf(sentence, sizeof sentence, "recording stopped: the file could not be written (%s)",
             strerror(reason));
    const bool of_memory = reason == ENOMEM;
    bool said =
        write_sentence(of_memory ? "recording stopped: the process is out of memory" : sentence, of_memory);
    if (!said) {
        said = ftruncate(descriptor, good_length) == 0;
        fprintf(stderr, "headroom record: %s\n", sentence);
    }
    failure = reason;
}

void record_file_flush(void) {
    if (descriptor < 0 || failure) return;
    if (encoder.failed) failure = ENOMEM;
    if (!failure && hr_trace_encode_chunk(&encoder) && write_all(encoder.data, encoder.length))
        good_length += (off_t)encoder.length;
    if (failure) {
        encoder.failed = false;
        give_up();
    } else
        tell_memory();
    hr_trace_encode_next(&encoder);
}

void record_put(hr_trace_record_kind kind, const void *record) {
    if (descriptor < 0 || failure) return;
    put_new_strings();
    hr_trace_encode(&encoder, kind, record);
    if (encoder.length > CHUNK_BYTES || encoder.failed) record_file_flush();
}

size_t read_start(const char *path, char *out, size_t size) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, out, size - 1);
    if (file >= 0) close(file);
    out[length < 0 ? 0 : length] = 0;
    return length < 0 ? 0 : (size_t)length;
}

void record_thread(int64_t thread) {
    if (thread == last_thread) return;
    last_thread = thread;
    for (int i = 0; i < known_count; i++)
        if (known_threads[i] == thread) return;
    if (known_count == THREAD_MOST) return;
    known_threads[known_count++] = thread;
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/self/task/%lld/comm", (long long)thread);
    size_t length = read_start(path, name, sizeof name);
    if (length && name[length - 1] == '\n') length--;
    if (length) record_put(HR_RECORD_thread, &(hr_record_thread){thread, record_string(name, length)});
}

bool record_file_failed(void) {
    return descriptor < 0 || failure != 0;
}

void record_file_close(void) {
    if (descriptor < 0) return;
    record_put(HR_RECORD_end, &(hr_record_end){(int64_t)recorder_clock(), encoder.records});
    record_file_flush();
    close(descriptor);
    descriptor = -1;
}

void record_file_forget(void) {
    if (descriptor >= 0) close(descriptor);
    descriptor = -1;
    pthread_mutex_init(&strings.lock, NULL); /* another thread of the parent may have held it */
    hr_trace_encode_next(&encoder);
    encoder.records = 0;
    known_count = 0;
}
