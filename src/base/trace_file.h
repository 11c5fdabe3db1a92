/* The recorder's file: what src/record writes and src/trace reads.
 *
 * A header, then chunks. A chunk is a header with its length and hash, then records; it is whole or it does
 * not count, so a file that was cut anywhere keeps all chunks before the cut. A record is a byte of its kind,
 * a byte with the number of its fields, and the fields as zigzag varints; a reader takes missing fields as 0
 * and skips the ones it does not know. Times are ns of the recorder's clock; the first field of a timed
 * record is its distance from the timed record before it in the same chunk. Numbers are little-endian.
 */
#ifndef HR_BASE_TRACE_FILE_H
#define HR_BASE_TRACE_FILE_H

#include "base/status.h"
#include <stddef.h>

#define HR_TRACE_FILE_MAGIC   "hrtrace\n"
#define HR_TRACE_FILE_VERSION 1
#define HR_TRACE_FILE_SUFFIX  ".hrt"
/* In the suffix's place: a file that is there while the recorder loads libraries. Without memory the loader
 * may end the process. */
#define HR_TRACE_LOADING_SUFFIX ".loading"

typedef struct hr_trace_file_header {
    char magic[8];
    uint32_t version, bytes; /* of this header: later versions may append */
    int64_t epoch;           /* ns since the epoch at time 0 of the recorder's clock */
    int64_t process;
    int32_t rank, world; /* -1, 0 = not known */
} hr_trace_file_header;

#define HR_TRACE_CHUNK_MARK 0x6b636872u /* "hrck" */
#define HR_TRACE_CHUNK_MAX  (16u << 20)

typedef struct hr_trace_chunk_header {
    uint32_t mark, length; /* of what follows */
    uint64_t hash;         /* XXH3_64bits of it */
} hr_trace_chunk_header;

/* Kinds with their fields, each of 64 bits, in the order in which they stand. Strings are ids; -1 = none. New
 * fields are appended, new kinds get new numbers. Those before `string` begin with their time. */
#define HR_TRACE_RECORDS(X)                                                                                  \
    X(kernel, start, duration, device, context, stream, correlation, name, grid_x, grid_y, grid_z, block_x,  \
      block_y, block_z, registers, shared_static, shared_dynamic, cluster, graph, graph_node)                \
    X(copy, start, duration, device, context, stream, correlation, bytes, direction, from, to, asynchronous, \
      graph, peer)                                                                                           \
    X(fill, start, duration, device, context, stream, correlation, bytes, to, asynchronous, graph)           \
    X(call, start, duration, thread, correlation, name, result)                                              \
    X(wait, start, duration, wait_kind, correlation, context, stream, event)                                 \
    X(range_begin, time, thread, name, domain, id) /* id 0: pushed, ends by nesting */                       \
    X(range_end, time, thread, domain, id)                                                                   \
    X(mark, time, thread, name, domain)                                                                      \
    X(overhead, start, duration, thread, name)                                                               \
    X(allocation, time, bytes, address, memory, device) /* bytes negative: freed */                          \
    X(window, time, open)                                                                                    \
    X(note, time, text, memory) /* a sentence for the user; memory 1: records lack, for want of memory */    \
    X(end, time, records)       /* the program ended and all was written */                                  \
    X(string, id, length)       /* the bytes follow */                                                       \
    X(event_record, correlation, context, stream, event)                                                     \
    X(external, correlation, external_id, source)                                                            \
    X(context, id, device)                                                                                   \
    X(thread, id, name)                                                                                      \
    X(program, name, recorder)                                                                               \
    X(dropped, count) /* records that CUPTI had no room for */                                               \
    X(device, id, name, multiprocessors, compute, warps, registers, shared, shared_block, threads, memory,   \
      bandwidth)                                                                                             \
    /* hardware counters of a launch; `time`, `duration`: of the host, which waited for them; bit i of       \
       `known`: the i-th field behind it was read. Parts are millionths */                                   \
    X(counters, time, duration, correlation, known, nanoseconds, dram_read, dram_written, dram_of_peak,      \
      tensor, vector, warps_active, l1_hit, l2_hits, l2_misses, load_sectors, load_requests, store_sectors,  \
      store_requests, sm_of_peak, thread, tensor_active)                                                     \
    /* of a device over an interval; parts are millionths, -1 = not known */                                 \
    X(sample, time, duration, device, sm_active, tensor_active, warps_active, dram_of_peak, dram_read,       \
      dram_written)

/* hr_record_kernel, hr_record_copy, ...: the fields; HR_RECORD_kernel, ...: the numbers. */
#define HR_TRACE_RECORD_STRUCT(kind, ...)                                                                    \
    typedef struct hr_record_##kind {                                                                        \
        int64_t __VA_ARGS__;                                                                                 \
    } hr_record_##kind;
HR_TRACE_RECORDS(HR_TRACE_RECORD_STRUCT)
#undef HR_TRACE_RECORD_STRUCT

typedef enum hr_trace_record_kind {
    HR_RECORD_none,
#define HR_TRACE_RECORD_KIND(kind, ...) HR_RECORD_##kind,
    HR_TRACE_RECORDS(HR_TRACE_RECORD_KIND)
#undef HR_TRACE_RECORD_KIND
        HR_RECORD_KIND_COUNT
} hr_trace_record_kind;

#define HR_RECORD_FIELDS 24

typedef struct hr_trace_record {
    int kind;
    const char *text; /* of a string record: `string.length` bytes, not terminated */
    union {
        int64_t field[HR_RECORD_FIELDS];
#define HR_TRACE_RECORD_MEMBER(kind, ...) hr_record_##kind kind;
        HR_TRACE_RECORDS(HR_TRACE_RECORD_MEMBER)
#undef HR_TRACE_RECORD_MEMBER
    };
} hr_trace_record;

/* ---- writing ---- */

/* Grows a chunk's records. A failed allocation is remembered in `failed` and drops what follows. */
typedef struct hr_trace_encoder {
    uint8_t *data; /* begins with room for the chunk's header */
    size_t length, capacity;
    int64_t time, records;
    bool failed;
} hr_trace_encoder;

/* `record` is the struct of its kind. */
void hr_trace_encode(hr_trace_encoder *encoder, hr_trace_record_kind kind, const void *record);
void hr_trace_encode_string(hr_trace_encoder *encoder, int64_t id, const char *bytes, size_t length);
/* Fills in the chunk's header; data[0..length) is then the chunk. False where there is no record in it. */
bool hr_trace_encode_chunk(hr_trace_encoder *encoder);
/* Begins the next chunk in the same memory. */
void hr_trace_encode_next(hr_trace_encoder *encoder);
void hr_trace_encoder_clear(hr_trace_encoder *encoder); /* frees */

/* ---- reading ---- */

typedef struct hr_trace_decoder {
    const uint8_t *data;
    size_t length, at;
    int64_t time;
} hr_trace_decoder;

/* True where `length` bytes begin with a header that this version reads. */
bool hr_trace_header_check(const void *data, size_t length, hr_trace_file_header *out);
/* True where the bytes behind the header have its hash. */
bool hr_trace_chunk_check(const hr_trace_chunk_header *header, const void *payload);
/* The next record of a chunk's payload; false at its end, and with at < length where it is malformed. */
bool hr_trace_decode(hr_trace_decoder *decoder, hr_trace_record *out);

#endif
