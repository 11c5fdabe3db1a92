/* The CUDA driver, opened at run time: the functions that are used, declared here, and its errors as words.
 *
 * In: libcuda.so.1 ($HEADROOM_LIBCUDA names another file). Out: a table of functions. Nothing of CUDA is
 * needed to build.
 */
#ifndef HR_DEVICE_DRIVER_CUDA_H
#define HR_DEVICE_DRIVER_CUDA_H

#include "base/status.h"

#include <stdint.h>

/* CUresult, CUdevice, CUdeviceptr and the handles, as cuda.h has them. */
typedef int hr_cu_result;
typedef int hr_cu_device;
typedef unsigned long long hr_cu_address;
typedef struct hr_cu_context_s *hr_cu_context;
typedef struct hr_cu_module_s *hr_cu_module;
typedef struct hr_cu_function_s *hr_cu_function;
typedef struct hr_cu_stream_s *hr_cu_stream;
typedef struct hr_cu_event_s *hr_cu_event;
typedef struct hr_cu_graph_s *hr_cu_graph;
typedef struct hr_cu_graph_exec_s *hr_cu_graph_exec;
typedef struct hr_cu_graph_node_s *hr_cu_graph_node;

/* Results that mean something to us. */
enum {
    HR_CU_OUT_OF_MEMORY = 2,
    HR_CU_STUB_LIBRARY = 34,
    HR_CU_INSUFFICIENT_DRIVER = 36, /* CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER */
    HR_CU_DEVICE_UNAVAILABLE = 46,
    HR_CU_NO_DEVICE = 100,
    HR_CU_INVALID_DEVICE = 101,
    HR_CU_NO_BINARY_FOR_GPU = 209,
    HR_CU_ECC_UNCORRECTABLE = 214,
    HR_CU_NVLINK_UNCORRECTABLE = 220,
    HR_CU_OPERATING_SYSTEM = 304,
    HR_CU_NOT_FOUND = 500,
    HR_CU_ILLEGAL_ADDRESS = 700,
    HR_CU_LAUNCH_OUT_OF_RESOURCES = 701,
    HR_CU_PEER_ACCESS_ALREADY_ENABLED = 704,
    HR_CU_LAUNCH_FAILED = 719,
    HR_CU_SYSTEM_NOT_READY = 802,
    HR_CU_SYSTEM_DRIVER_MISMATCH = 803,
    HR_CU_UNKNOWN = 999
};

/* CUdevice_attribute */
enum {
    HR_CU_MULTIPROCESSORS = 16,
    HR_CU_L2_BYTES = 38,
    HR_CU_COMPUTE_MAJOR = 75,
    HR_CU_COMPUTE_MINOR = 76,
    HR_CU_SHARED_OF_MULTIPROCESSOR = 81,
    HR_CU_SHARED_OF_BLOCK = 97
};

/* CUfunction_attribute */
enum {
    HR_CU_FUNCTION_SHARED_BYTES = 1,
    HR_CU_FUNCTION_LOCAL_BYTES = 3,
    HR_CU_FUNCTION_REGISTERS = 4,
    HR_CU_FUNCTION_DYNAMIC_SHARED_MOST = 8,
    HR_CU_FUNCTION_CLUSTER_NON_PORTABLE = 14
};

enum { HR_CU_STREAM_NON_BLOCKING = 1, HR_CU_EVENT_DEFAULT = 0, HR_CU_EVENT_NO_TIMING = 2 };
enum { HR_CU_HOST_PORTABLE = 1, HR_CU_HOST_MAPPED = 2 };
enum { HR_CU_CAPTURE_RELAXED = 2, HR_CU_POINTER_MEMORY_TYPE = 2 };
enum { HR_CU_CAPTURE_ACTIVE = 1 }; /* CUstreamCaptureStatus */

/* CUtensorMap: 128 bytes at a multiple of 64. */
typedef struct hr_cu_tensor_map {
    _Alignas(64) unsigned char bytes[128];
} hr_cu_tensor_map;

/* CUlaunchAttribute: 72 bytes, the value in the last 64. */
enum { HR_CU_LAUNCH_CLUSTER = 4, HR_CU_LAUNCH_OVERLAPS = 6 };
typedef struct hr_cu_launch_attribute {
    int id;
    char padding[4];
    union {
        char bytes[64];
        unsigned cluster[3];
        int overlaps;
    } value;
} hr_cu_launch_attribute;

/* CUlaunchConfig */
typedef struct hr_cu_launch_config {
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    hr_cu_stream stream;
    hr_cu_launch_attribute *attributes;
    unsigned attribute_count;
} hr_cu_launch_config;

/* CUDA_KERNEL_NODE_PARAMS_v1 */
typedef struct hr_cu_kernel_node {
    hr_cu_function function;
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    void **parameters;
    void **extra;
} hr_cu_kernel_node;

/* member, symbol, parameters; all are of driver 11.8 or older but those of the second list, which may be
 * NULL. */
#define HR_CUDA_FUNCTIONS(X)                                                                                 \
    X(init, "cuInit", (unsigned flags))                                                                      \
    X(driver_version, "cuDriverGetVersion", (int *version))                                                  \
    X(error_name, "cuGetErrorName", (hr_cu_result result, const char **name))                                \
    X(error_text, "cuGetErrorString", (hr_cu_result result, const char **text))                              \
    X(device_count, "cuDeviceGetCount", (int *count))                                                        \
    X(device_get, "cuDeviceGet", (hr_cu_device * device, int ordinal))                                       \
    X(device_name, "cuDeviceGetName", (char *name, int length, hr_cu_device device))                         \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, hr_cu_device device))            \
    X(context_retain, "cuDevicePrimaryCtxRetain", (hr_cu_context * context, hr_cu_device device))            \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (hr_cu_device device))                                \
    X(context_current, "cuCtxGetCurrent", (hr_cu_context * context))                                         \
    X(context_push, "cuCtxPushCurrent_v2", (hr_cu_context context))                                          \
    X(context_pop, "cuCtxPopCurrent_v2", (hr_cu_context * context))                                          \
    X(memory_info, "cuMemGetInfo_v2", (size_t * free, size_t * total))                                       \
    X(allocate, "cuMemAlloc_v2", (hr_cu_address * address, size_t size))                                     \
    X(release, "cuMemFree_v2", (hr_cu_address address))                                                      \
    X(host_allocate, "cuMemHostAlloc", (void **data, size_t size, unsigned flags))                           \
    X(host_release, "cuMemFreeHost", (void *data))                                                           \
    X(pointer_attributes, "cuPointerGetAttributes",                                                          \
      (unsigned count, int *attributes, void **values, hr_cu_address pointer))                               \
    X(upload, "cuMemcpyHtoDAsync_v2",                                                                        \
      (hr_cu_address to, const void *from, size_t size, hr_cu_stream stream))                                \
    X(download, "cuMemcpyDtoHAsync_v2", (void *to, hr_cu_address from, size_t size, hr_cu_stream stream))    \
    X(copy, "cuMemcpyDtoDAsync_v2",                                                                          \
      (hr_cu_address to, hr_cu_address from, size_t size, hr_cu_stream stream))                              \
    X(copy_any, "cuMemcpyAsync", (hr_cu_address to, hr_cu_address from, size_t size, hr_cu_stream stream))   \
    X(fill_bytes, "cuMemsetD8Async",                                                                         \
      (hr_cu_address to, unsigned char value, size_t size, hr_cu_stream stream))                             \
    X(stream_create, "cuStreamCreate", (hr_cu_stream * stream, unsigned flags))                              \
    X(stream_destroy, "cuStreamDestroy_v2", (hr_cu_stream stream))                                           \
    X(stream_wait, "cuStreamSynchronize", (hr_cu_stream stream))                                             \
    X(stream_follow, "cuStreamWaitEvent", (hr_cu_stream stream, hr_cu_event event, unsigned flags))          \
    X(event_create, "cuEventCreate", (hr_cu_event * event, unsigned flags))                                  \
    X(event_destroy, "cuEventDestroy_v2", (hr_cu_event event))                                               \
    X(event_record, "cuEventRecord", (hr_cu_event event, hr_cu_stream stream))                               \
    X(event_wait, "cuEventSynchronize", (hr_cu_event event))                                                 \
    X(event_elapsed, "cuEventElapsedTime", (float *milliseconds, hr_cu_event from, hr_cu_event to))          \
    X(module_load, "cuModuleLoadData", (hr_cu_module * module, const void *image))                           \
    X(module_unload, "cuModuleUnload", (hr_cu_module module))                                                \
    X(module_function, "cuModuleGetFunction",                                                                \
      (hr_cu_function * function, hr_cu_module module, const char *name))                                    \
    X(function_attribute, "cuFuncGetAttribute", (int *value, int attribute, hr_cu_function function))        \
    X(function_set, "cuFuncSetAttribute", (hr_cu_function function, int attribute, int value))               \
    X(launch, "cuLaunchKernelEx",                                                                            \
      (const hr_cu_launch_config *config, hr_cu_function function, void **parameters, void **extra))         \
    X(capture_begin, "cuStreamBeginCapture_v2", (hr_cu_stream stream, int mode))                             \
    X(capture_end, "cuStreamEndCapture", (hr_cu_stream stream, hr_cu_graph * graph))                         \
    X(capture_info, "cuStreamGetCaptureInfo_v2",                                                             \
      (hr_cu_stream stream, int *state, uint64_t *id, hr_cu_graph *graph, const hr_cu_graph_node **last,     \
       size_t *last_count))                                                                                  \
    X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                                        \
    X(graph_instantiate, "cuGraphInstantiateWithFlags",                                                      \
      (hr_cu_graph_exec * exec, hr_cu_graph graph, unsigned long long flags))                                \
    X(graph_launch, "cuGraphLaunch", (hr_cu_graph_exec exec, hr_cu_stream stream))                           \
    X(graph_set_kernel, "cuGraphExecKernelNodeSetParams",                                                    \
      (hr_cu_graph_exec exec, hr_cu_graph_node node, const hr_cu_kernel_node *kernel))                       \
    X(graph_exec_destroy, "cuGraphExecDestroy", (hr_cu_graph_exec exec))                                     \
    X(graph_destroy, "cuGraphDestroy", (hr_cu_graph graph))                                                  \
    X(peer_possible, "cuDeviceCanAccessPeer", (int *possible, hr_cu_device device, hr_cu_device peer))       \
    X(peer_enable, "cuCtxEnablePeerAccess", (hr_cu_context peer, unsigned flags))                            \
    X(peer_copy, "cuMemcpyPeerAsync",                                                                        \
      (hr_cu_address to, hr_cu_context to_context, hr_cu_address from, hr_cu_context from_context,           \
       size_t size, hr_cu_stream stream))

#define HR_CUDA_NEWER_FUNCTIONS(X)                                                                           \
    X(parameter_info, "cuFuncGetParamInfo",                                                                  \
      (hr_cu_function function, size_t index, size_t * offset, size_t * size))                               \
    X(tensor_map, "cuTensorMapEncodeTiled",                                                                  \
      (hr_cu_tensor_map * map, int type, uint32_t rank, hr_cu_address address, const uint64_t *dims,         \
       const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle,     \
       int promotion, int fill))

typedef struct hr_cuda_driver {
    void *library;
    int version; /* 13000 for CUDA 13.0: the newest toolkit that it serves */
#define HR_CUDA_MEMBER(member, symbol, parameters) hr_cu_result(*member) parameters;
    HR_CUDA_FUNCTIONS(HR_CUDA_MEMBER)
    HR_CUDA_NEWER_FUNCTIONS(HR_CUDA_MEMBER)
#undef HR_CUDA_MEMBER
} hr_cuda_driver;

/* Opens and initialises it. HR_NOT_AVAILABLE with a sentence where there is none, where it is too old, or
 * where it finds no GPU. */
hr_status hr_cuda_driver_open(hr_cuda_driver *out);
/* Loaded libraries stay: the driver has threads of its own that outlive us. */

/* What a result other than 0 means: the driver's name and text for it after `what` was attempted ("copying 4
 * MB to the device", "kernel row_0"). HR_OUT_OF_MEMORY; HR_NOT_AVAILABLE for a device that is missing, lost
 * or unfit; HR_INTERNAL for what only a fault of ours can cause. */
hr_status hr_cuda_fail(const hr_cuda_driver *driver, hr_cu_result result, const char *what, ...)
    __attribute__((format(printf, 3, 4)));

#endif
