/* Protocol buffers' wire format, as much of it as a reader of a few fields needs: a message is a list of
 * numbered fields, each a whole number, eight or four bytes, or a slice of bytes (a text or another message).
 *
 * In: bytes that nobody vouches for. Out: fields one by one; never a byte behind the message's end.
 */
#ifndef HR_TRACE_PROTOBUF_H
#define HR_TRACE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hr_proto {
    const uint8_t *at, *end;
    bool bad; /* what follows cannot be a message */
} hr_proto;

typedef enum hr_proto_kind { HR_PROTO_WHOLE, HR_PROTO_BYTES, HR_PROTO_FIXED } hr_proto_kind;

typedef struct hr_proto_field {
    uint32_t number;
    hr_proto_kind kind;
    uint64_t whole; /* of HR_PROTO_WHOLE and HR_PROTO_FIXED */
    hr_proto bytes; /* of HR_PROTO_BYTES */
} hr_proto_field;

/* The next field; false at the end of the message, or where it is bad. */
bool hr_proto_next(hr_proto *message, hr_proto_field *out);

static inline size_t hr_proto_length(const hr_proto *bytes) {
    return (size_t)(bytes->end - bytes->at);
}

#endif
