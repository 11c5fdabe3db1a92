/* The part of NVTX 3's binary interface that a tool sees: tables of function pointers that it fills, and the
 * arguments that these get. src/base/range.c is the other side of it, a program that has ranges. */
#ifndef HR_BASE_NVTX_ABI_H
#define HR_BASE_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { NVTX_TABLE_CALLBACKS = 1 };
enum { NVTX_MODULE_CORE = 1, NVTX_MODULE_CORE2 = 5 };

enum nvtx_core {
    NVTX_MARK_EX = 1,
    NVTX_MARK_A,
    NVTX_MARK_W,
    NVTX_RANGE_START_EX,
    NVTX_RANGE_START_A,
    NVTX_RANGE_START_W,
    NVTX_RANGE_END,
    NVTX_RANGE_PUSH_EX,
    NVTX_RANGE_PUSH_A,
    NVTX_RANGE_PUSH_W,
    NVTX_RANGE_POP,
    NVTX_CORE_SIZE = 16
};

enum nvtx_core2 {
    NVTX_DOMAIN_MARK_EX = 1,
    NVTX_DOMAIN_RANGE_START_EX,
    NVTX_DOMAIN_RANGE_END,
    NVTX_DOMAIN_RANGE_PUSH_EX,
    NVTX_DOMAIN_RANGE_POP,
    NVTX_DOMAIN_REGISTER_STRING_A = 10,
    NVTX_DOMAIN_REGISTER_STRING_W,
    NVTX_DOMAIN_CREATE_A,
    NVTX_DOMAIN_CREATE_W,
    NVTX_CORE2_SIZE = 16
};

enum nvtx_message_kind { NVTX_MESSAGE_ASCII = 1, NVTX_MESSAGE_WIDE = 2, NVTX_MESSAGE_REGISTERED = 3 };

typedef struct nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_kind;
    uint32_t color;
    int32_t payload_kind, reserved;
    uint64_t payload;
    int32_t message_kind;
    const void *message;
} nvtx_attributes;

typedef void (*nvtx_function)(void);

typedef struct nvtx_callbacks {
    size_t size;
    /* `table`: an array of places of function pointers, NULL where the program has none */
    int (*module)(int module, nvtx_function ***table, unsigned *size);
} nvtx_callbacks;

typedef const void *(*nvtx_export_table)(uint32_t id);

#endif
