/* Fields of a message. In: bytes. Out: numbers and slices. */
#include "trace/protobuf.h"

static bool whole_take(hr_proto *message, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64 && message->at < message->end; shift += 7) {
        uint8_t byte = *message->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool fixed_take(hr_proto *message, int bytes, uint64_t *out) {
    *out = 0;
    if (message->end - message->at < bytes) return false;
    for (int i = 0; i < bytes; i++)
        *out |= (uint64_t)*message->at++ << (8 * i);
    return true;
}

static bool bytes_take(hr_proto *message, hr_proto *out) {
    uint64_t length;
    if (!whole_take(message, &length) || length > (uint64_t)(message->end - message->at)) return false;
    *out = (hr_proto){.at = message->at, .end = message->at + length};
    message->at += length;
    return true;
}

bool hr_proto_next(hr_proto *message, hr_proto_field *out) {
    enum { WHOLE = 0, EIGHT = 1, BYTES = 2, FOUR = 5 }; /* as the format numbers them */
    uint64_t tag;
    if (message->bad || message->at >= message->end) return false;
    bool sound = whole_take(message, &tag) && tag >> 3 > 0 && tag >> 3 <= UINT32_MAX;
    *out = (hr_proto_field){.number = sound ? (uint32_t)(tag >> 3) : 0};
    switch (sound ? (int)(tag & 7) : -1) {
    case WHOLE:
        sound = whole_take(message, &out->whole);
        break;
    case EIGHT:
    case FOUR:
        out->kind = HR_PROTO_FIXED;
        sound = fixed_take(message, (tag & 7) == EIGHT ? 8 : 4, &out->whole);
        break;
    case BYTES:
        out->kind = HR_PROTO_BYTES;
        sound = bytes_take(message, &out->bytes);
        break;
    default: /* groups, which nobody writes any more */
        sound = false;
    }
    message->bad = !sound;
    return sound;
}
