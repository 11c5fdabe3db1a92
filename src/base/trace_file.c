/* Records to bytes and back: zigzag varints, chunk headers, hashes. In and out as trace_file.h says. */
#define XXH_INLINE_ALL /* the recorder goes into other programs: it brings no library along */
#include "base/trace_file.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is little-endian");

static const uint8_t field_counts[HR_RECORD_KIND_COUNT] = {
#define HR_TRACE_RECORD_COUNT(kind, ...) [HR_RECORD_##kind] = sizeof(hr_record_##kind) / sizeof(int64_t),
    HR_TRACE_RECORDS(HR_TRACE_RECORD_COUNT)
#undef HR_TRACE_RECORD_COUNT
};

#define VARINT_MAX 10 /* bytes of 64 bits */

/* ---- writing ---- */

static bool make_room(hr_trace_encoder *encoder, size_t more) {
    if (encoder->failed) return false;
    if (encoder->length == 0) encoder->length = sizeof(hr_trace_chunk_header);
    if (encoder->length + more <= encoder->capacity) return true;
    size_t capacity = 2 * (encoder->length + more) + 4096;
    uint8_t *data = realloc(encoder->data, capacity);
    if (!data) {
        encoder->failed = true;
        return false;
    }
    encoder->data = data;
    encoder->capacity = capacity;
    return true;
}

static uint8_t *put_varint(uint8_t *at, int64_t value) {
    uint64_t bits = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    for (; bits >= 0x80; bits >>= 7)
        *at++ = (uint8_t)(bits | 0x80);
    *at++ = (uint8_t)bits;
    return at;
}

void hr_trace_encode(hr_trace_encoder *encoder, hr_trace_record_kind kind, const void *record) {
    int count = field_counts[kind];
    if (!make_room(encoder, 2 + (size_t)count * VARINT_MAX)) return;
    int64_t field[HR_RECORD_FIELDS];
    memcpy(field, record, (size_t)count * sizeof *field);
    if (kind < HR_RECORD_string) {
        int64_t time = field[0];
        field[0] = (int64_t)((uint64_t)time - (uint64_t)encoder->time);
        encoder->time = time;
    }
    while (count > 1 && field[count - 1] == 0) /* absent fields are 0 */
        count--;
    uint8_t *at = encoder->data + encoder->length;
    *at++ = (uint8_t)kind;
    *at++ = (uint8_t)count;
    for (int i = 0; i < count; i++)
        at = put_varint(at, field[i]);
    encoder->length = (size_t)(at - encoder->data);
    encoder->records++;
}

void hr_trace_encode_string(hr_trace_encoder *encoder, int64_t id, const char *bytes, size_t length) {
    hr_trace_encode(encoder, HR_RECORD_string, &(hr_record_string){id, (int64_t)length});
    if (!make_room(encoder, length)) return;
    memcpy(encoder->data + encoder->length, bytes, length);
    encoder->length += length;
}

bool hr_trace_encode_chunk(hr_trace_encoder *encoder) {
    hr_trace_chunk_header header = {.mark = HR_TRACE_CHUNK_MARK};
    if (encoder->failed || encoder->length <= sizeof header) return false;
    header.length = (uint32_t)(encoder->length - sizeof header);
    header.hash = XXH3_64bits(encoder->data + sizeof header, header.length);
    memcpy(encoder->data, &header, sizeof header);
    return true;
}

void hr_trace_encode_next(hr_trace_encoder *encoder) {
    encoder->length = 0;
    encoder->time = 0;
}

void hr_trace_encoder_clear(hr_trace_encoder *encoder) {
    free(encoder->data);
    *encoder = (hr_trace_encoder){0};
}

/* ---- reading ---- */

bool hr_trace_header_check(const void *data, size_t length, hr_trace_file_header *out) {
    hr_trace_file_header header;
    if (length < sizeof header) return false;
    memcpy(&header, data, sizeof header);
    if (memcmp(header.magic, HR_TRACE_FILE_MAGIC, sizeof header.magic) != 0) return false;
    if (header.version != HR_TRACE_FILE_VERSION || header.bytes < sizeof header) return false;
    *out = header;
    return true;
}

bool hr_trace_chunk_check(const hr_trace_chunk_header *header, const void *payload) {
    return XXH3_64bits(payload, header->length) == header->hash;
}

static bool take_varint(hr_trace_decoder *decoder, size_t *at, int64_t *out) {
    uint64_t bits = 0;
    for (int shift = 0; shift < 64 && *at < decoder->length; shift += 7) {
        uint8_t byte = decoder->data[(*at)++];
        bits |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = (int64_t)(bits >> 1 ^ (0 - (bits & 1)));
            return true;
        }
    }
    return false;
}

bool hr_trace_decode(hr_trace_decoder *decoder, hr_trace_record *out) {
    size_t at = decoder->at;
    if (decoder->length - at < 2) return false;
    out->kind = decoder->data[at++];
    int count = decoder->data[at++];
    memset(out->field, 0, sizeof out->field);
    for (int i = 0; i < count; i++) {
        int64_t value;
        if (!take_varint(decoder, &at, &value)) return false;
        if (i < HR_RECORD_FIELDS) out->field[i] = value;
    }
    out->text = NULL;
    if (out->kind > HR_RECORD_none && out->kind < HR_RECORD_string) {
        decoder->time = (int64_t)((uint64_t)decoder->time + (uint64_t)out->field[0]);
        out->field[0] = decoder->time;
    }
    if (out->kind == HR_RECORD_string) {
        if (out->string.length < 0 || (uint64_t)out->string.length > decoder->length - at) return false;
        out->text = (const char *)decoder->data + at;
        at += (size_t)out->string.length;
    }
    decoder->at = at;
    return true;
}
