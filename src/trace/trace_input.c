/* read(2), and zlib behind it. In: a path. Out: bytes. */
#include "trace/trace_input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef HR_WITH_ZLIB
#include <zlib.h>
#endif

#define PACKED_SIZE ((size_t)256 << 10)

/* A text that unpacks to more than this many times its size is no trace: those of profilers reach 20 to 60.
 * The rest is not read, since a file of a megabyte can hold a gigabyte. */
#define UNPACKED_TIMES 200
#define UNPACKED_LEAST (INT64_C(64) << 20) /* bytes; below nothing is suspected */

struct hr_trace_input {
    const char *path;
    int descriptor;
    int64_t size, done, unpacked;
    bool gzip, damaged, ended;
    char head[2]; /* read to see what it is, given out first where it is not gzip */
    size_t head_length, head_at;
#ifdef HR_WITH_ZLIB
    z_stream stream;
    unsigned char packed[PACKED_SIZE];
#endif
};

static hr_status read_some(hr_trace_input *input, void *to, size_t room, size_t *got) {
    ssize_t count;
    do
        count = read(input->descriptor, to, room < ((size_t)64 << 20) ? room : (size_t)64 << 20);
    while (count < 0 && errno == EINTR);
    if (count < 0) return hr_fail(HR_IO, "%s: cannot read it: %s", input->path, strerror(errno));
    input->done += count;
    *got = (size_t)count;
    return HR_OK;
}

#ifdef HR_WITH_ZLIB
static hr_status gzip_begin(hr_trace_input *input) {
    if (inflateInit2(&input->stream, 15 + 16) != Z_OK)
        return hr_fail(HR_OUT_OF_MEMORY, "%s: no memory to unpack it", input->path);
    input->gzip = true;
    memcpy(input->packed, input->head, input->head_length);
    input->stream.next_in = input->packed;
    input->stream.avail_in = (uInt)input->head_length;
    return HR_OK;
}

/* Several gzip streams, one after the other, are one text. */
static hr_status gzip_read(hr_trace_input *input, char *to, size_t room, size_t *got) {
    z_stream *stream = &input->stream;
    bool at_stream_end = false;
    *got = 0;
    while (*got < room && !input->ended) {
        if (!stream->avail_in) {
            size_t more = 0;
            HR_TRY(read_some(input, input->packed, PACKED_SIZE, &more));
            stream->next_in = input->packed;
            stream->avail_in = (uInt)more;
            if (!more) {
                input->ended = true;
                input->damaged = !at_stream_end;
                break;
            }
        }
        if (at_stream_end && inflateReset(stream) != Z_OK) input->ended = true;
        size_t left = room - *got;
        stream->next_out = (Bytef *)to + *got;
        stream->avail_out = (uInt)(left < ((size_t)1 << 30) ? left : (size_t)1 << 30);
        uInt before = stream->avail_out;
        int code = inflate(stream, Z_NO_FLUSH);
        *got += before - stream->avail_out;
        input->unpacked += before - stream->avail_out;
        if (code == Z_MEM_ERROR) return hr_fail(HR_OUT_OF_MEMORY, "%s: no memory to unpack it", input->path);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
            /* zeros or other bytes after a whole stream are padding, not damage */
            input->damaged = !(at_stream_end && before == stream->avail_out);
            input->ended = true;
        }
        at_stream_end = code == Z_STREAM_END;
    }
    if (at_stream_end && *got == room) inflateReset(stream);
    if (input->unpacked > UNPACKED_LEAST && input->unpacked / UNPACKED_TIMES > input->done)
        return hr_fail(
            HR_BAD_INPUT,
            "%s: unpacks to more than %d times its size, which no trace does; stopped at %lld MB. If it "
            "is one, gunzip it first",
            input->path, UNPACKED_TIMES, (long long)(input->unpacked >> 20));
    return HR_OK;
}
#endif

static hr_status input_begin(hr_trace_input *input) {
    struct stat info;
    if (fstat(input->descriptor, &info) != 0)
        return hr_fail(HR_IO, "%s: cannot read it: %s", input->path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return hr_fail(HR_BAD_INPUT, "%s: is a folder; give the trace files in it", input->path);
    input->size = S_ISREG(info.st_mode) ? (int64_t)info.st_size : 0;
    while (input->head_length < sizeof input->head) {
        size_t more = 0;
        HR_TRY(read_some(input, input->head + input->head_length, sizeof input->head - input->head_length,
                         &more));
        if (!more) break;
        input->head_length += more;
    }
    if (input->head_length < 2 || memcmp(input->head, "\x1f\x8b", 2) != 0) return HR_OK;
#ifdef HR_WITH_ZLIB
    return gzip_begin(input);
#else
    return hr_fail(HR_NOT_AVAILABLE,
                   "%s: is packed with gzip, and this headroom was built without zlib; gunzip it first",
                   input->path);
#endif
}

hr_status hr_trace_input_open(const char *path, hr_trace_input **out) {
    hr_trace_input *input = calloc(1, sizeof *input);
    if (!input) return hr_fail(HR_OUT_OF_MEMORY, "%s: no memory to read it", path);
    input->path = path;
    input->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    hr_status status = input->descriptor < 0 ? hr_fail(HR_IO, "%s: cannot open it: %s", path, strerror(errno))
                                             : input_begin(input);
    if (status == HR_OK)
        *out = input;
    else
        hr_trace_input_close(input);
    return status;
}

void hr_trace_input_close(hr_trace_input *input) {
    if (!input) return;
#ifdef HR_WITH_ZLIB
    if (input->gzip) inflateEnd(&input->stream);
#endif
    if (input->descriptor >= 0) close(input->descriptor);
    free(input);
}

hr_status hr_trace_input_read(hr_trace_input *input, char *to, size_t room, size_t *got) {
    *got = 0;
#ifdef HR_WITH_ZLIB
    if (input->gzip) return gzip_read(input, to, room, got);
#endif
    while (*got < room && input->head_at < input->head_length)
        to[(*got)++] = input->head[input->head_at++];
    while (*got < room && !input->ended) {
        size_t more = 0;
        HR_TRY(read_some(input, to + *got, room - *got, &more));
        input->ended = !more;
        *got += more;
    }
    return HR_OK;
}

int64_t hr_trace_input_done(const hr_trace_input *input) {
    return input->done;
}

int64_t hr_trace_input_size(const hr_trace_input *input) {
    return input->size;
}

int64_t hr_trace_input_packed(const hr_trace_input *input) {
    return input->gzip ? input->size : 0;
}

bool hr_trace_input_damaged(const hr_trace_input *input) {
    return input->damaged;
}
