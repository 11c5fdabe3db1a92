/* What src/record/inject/cupti_abi.h and src/base/nvtx_abi.h declare, against NVIDIA's headers, where these
 * are installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#ifdef HR_WITH_CUPTI_HEADERS

#include "base/nvtx_abi.h"
#include "record/inject/cupti_abi.h"

#include <cupti.h>
#include <nvtx3/nvToolsExt.h>

/* Ours may end early, but each member lies where theirs does and is as large. */
#define SAME(ours, member, theirs, name)                                                                     \
    do {                                                                                                     \
        assert_int_equal(offsetof(ours, member), offsetof(theirs, name));                                    \
        assert_int_equal(sizeof(((ours *)0)->member), sizeof(((theirs *)0)->name));                          \
    } while (0)

static void test_kernels(void **unused) {
    (void)unused;
#define KERNEL(member, name) SAME(cupti_kernel, member, CUpti_ActivityKernel10, name)
    KERNEL(kind, kind);
    KERNEL(registers, registersPerThread);
    KERNEL(start, start);
    KERNEL(end, end);
    KERNEL(device, deviceId);
    KERNEL(context, contextId);
    KERNEL(stream, streamId);
    assert_int_equal(offsetof(cupti_kernel, grid), offsetof(CUpti_ActivityKernel10, gridX));
    assert_int_equal(offsetof(cupti_kernel, block), offsetof(CUpti_ActivityKernel10, blockX));
    KERNEL(shared_static, staticSharedMemory);
    KERNEL(shared_dynamic, dynamicSharedMemory);
    KERNEL(correlation, correlationId);
    KERNEL(name, name);
    KERNEL(graph_node, graphNodeId);
    KERNEL(graph, graphId);
    assert_int_equal(offsetof(cupti_kernel, cluster), offsetof(CUpti_ActivityKernel10, clusterX));
    assert_true(sizeof(cupti_kernel) <= sizeof(CUpti_ActivityKernel10));
}

static void test_copies(void **unused) {
    (void)unused;
#define COPY(member, name) SAME(cupti_copy, member, CUpti_ActivityMemcpy6, name)
    COPY(direction, copyKind);
    COPY(from, srcKind);
    COPY(to, dstKind);
    COPY(flags, flags);
    COPY(bytes, bytes);
    COPY(start, start);
    COPY(end, end);
    COPY(stream, streamId);
    COPY(correlation, correlationId);
    COPY(graph, graphId);
#define PEER(member, name) SAME(cupti_copy_peer, member, CUpti_ActivityMemcpyPtoP4, name)
    PEER(direction, copyKind);
    PEER(stream, streamId);
    PEER(from_device, srcDeviceId);
    PEER(correlation, correlationId);
    PEER(graph, graphId);
#define FILL(member, name) SAME(cupti_fill, member, CUpti_ActivityMemset4, name)
    FILL(bytes, bytes);
    FILL(start, start);
    FILL(stream, streamId);
    FILL(correlation, correlationId);
    FILL(flags, flags);
    FILL(memory, memoryKind);
    FILL(graph, graphId);
}

static void test_host(void **unused) {
    (void)unused;
#define CALL(member, name) SAME(cupti_call, member, CUpti_ActivityAPI, name)
    CALL(callback, cbid);
    CALL(start, start);
    CALL(end, end);
    CALL(thread, threadId);
    CALL(correlation, correlationId);
    CALL(result, returnValue);
#define OVERHEAD(member, name) SAME(cupti_overhead, member, CUpti_ActivityOverhead3, name)
    OVERHEAD(overhead, overheadKind);
    OVERHEAD(object_kind, objectKind);
    OVERHEAD(object, objectId);
    OVERHEAD(start, start);
    OVERHEAD(end, end);
#define EXTERNAL(member, name) SAME(cupti_external, member, CUpti_ActivityExternalCorrelation, name)
    EXTERNAL(source, externalKind);
    EXTERNAL(id, externalId);
    EXTERNAL(correlation, correlationId);
}

static void test_callbacks(void **unused) {
    (void)unused;
    SAME(cupti_context, id, CUpti_ActivityContext3, contextId);
    SAME(cupti_context, device, CUpti_ActivityContext3, deviceId);
#define DATA(member, name) SAME(cupti_callback_data, member, CUpti_CallbackData, name)
    DATA(site, callbackSite);
    DATA(arguments, functionParams);
    DATA(context, context);
    DATA(context_id, contextUid);
    DATA(correlation, correlationId);
    DATA(symbol, symbolName);
    SAME(cupti_resource_data, context, CUpti_ResourceData, context);
    SAME(cupti_subscriber_params, name, CUpti_SubscriberParams, subscriberName);
    SAME(cupti_subscriber_params, old_name, CUpti_SubscriberParams, oldSubscriberName);
    SAME(cupti_subscriber_params, old_size, CUpti_SubscriberParams, oldSubscriberSize);
}

static void test_numbers(void **unused) {
    (void)unused;
    assert_int_equal(CUPTI_KIND_COPY, CUPTI_ACTIVITY_KIND_MEMCPY);
    assert_int_equal(CUPTI_KIND_FILL, CUPTI_ACTIVITY_KIND_MEMSET);
    assert_int_equal(CUPTI_KIND_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER);
    assert_int_equal(CUPTI_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME);
    assert_int_equal(CUPTI_KIND_CONTEXT, CUPTI_ACTIVITY_KIND_CONTEXT);
    assert_int_equal(CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    assert_int_equal(CUPTI_KIND_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD);
    assert_int_equal(CUPTI_KIND_COPY_PEER, CUPTI_ACTIVITY_KIND_MEMCPY2);
    assert_int_equal(CUPTI_KIND_EXTERNAL, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
    assert_int_equal(CUPTI_END_OF_BUFFER, CUPTI_ERROR_MAX_LIMIT_REACHED);
    assert_int_equal(CUPTI_NOT_COMPATIBLE, CUPTI_ERROR_NOT_COMPATIBLE);
    assert_int_equal(CUPTI_VIRTUAL_DEVICE, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED);
    assert_int_equal(CUPTI_NO_PRIVILEGE, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
    assert_int_equal(CUPTI_RIVAL, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    assert_int_equal(CUPTI_VIRTUAL_NO_PRIVILEGE, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
    assert_int_equal(CUPTI_CONFIDENTIAL, CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED);
    assert_int_equal(CUPTI_MIG_DEVICE, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED);
    assert_int_equal(CUPTI_NO_MEMORY, CUPTI_ERROR_OUT_OF_MEMORY);
    assert_int_equal(CUPTI_METRIC_UNKNOWN, CUPTI_ERROR_INVALID_METRIC_NAME);
    assert_int_equal(CUPTI_HARDWARE_BUSY, CUPTI_ERROR_HARDWARE_BUSY);
    assert_int_equal(CUPTI_NOT_SUPPORTED, CUPTI_ERROR_NOT_SUPPORTED);
    assert_int_equal(CUPTI_MINING_DEVICE, CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED);
    assert_int_equal(CUPTI_SLI_DEVICE, CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED);
    assert_int_equal(CUPTI_WSL_DEVICE, CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED);
    assert_int_equal(CUPTI_CHIP_UNKNOWN, CUPTI_ERROR_INVALID_CHIP_NAME);
    assert_int_equal(CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
    assert_int_equal(CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
    assert_int_equal(CUPTI_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
    assert_int_equal(CUPTI_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
    assert_int_equal(CUPTI_STREAM_CREATED, CUPTI_CBID_RESOURCE_STREAM_CREATED);
    assert_int_equal(CUPTI_SITE_ENTER, CUPTI_API_ENTER);
    assert_int_equal(CUPTI_SITE_EXIT, CUPTI_API_EXIT);
    assert_int_equal(CUPTI_WAIT_EVENT, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE);
    assert_int_equal(CUPTI_WAIT_STREAM_EVENT, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT);
    assert_int_equal(CUPTI_WAIT_STREAM, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE);
    assert_int_equal(CUPTI_WAIT_DEVICE, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE);
    assert_int_equal(CUPTI_THREAD_IDS_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    assert_int_equal(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    assert_true(CUPTI_OLD_NAME >= CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN);
}

static void test_nvtx(void **unused) {
    (void)unused;
#define ATTRIBUTE(member, name) SAME(nvtx_attributes, member, nvtxEventAttributes_t, name)
    ATTRIBUTE(version, version);
    ATTRIBUTE(size, size);
    ATTRIBUTE(message_kind, messageType);
    ATTRIBUTE(message, message);
    assert_int_equal(sizeof(nvtx_attributes), sizeof(nvtxEventAttributes_t));
    SAME(nvtx_callbacks, module, NvtxExportTableCallbacks, GetModuleFunctionTable);
    assert_int_equal(NVTX_TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
    assert_int_equal(NVTX_MODULE_CORE, NVTX_CB_MODULE_CORE);
    assert_int_equal(NVTX_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
    assert_int_equal(NVTX_MARK_EX, NVTX_CBID_CORE_MarkEx);
    assert_int_equal(NVTX_RANGE_START_W, NVTX_CBID_CORE_RangeStartW);
    assert_int_equal(NVTX_RANGE_PUSH_A, NVTX_CBID_CORE_RangePushA);
    assert_int_equal(NVTX_RANGE_POP, NVTX_CBID_CORE_RangePop);
    assert_int_equal(NVTX_CORE_SIZE, NVTX_CBID_CORE_SIZE);
    assert_int_equal(NVTX_DOMAIN_RANGE_PUSH_EX, NVTX_CBID_CORE2_DomainRangePushEx);
    assert_int_equal(NVTX_DOMAIN_RANGE_POP, NVTX_CBID_CORE2_DomainRangePop);
    assert_int_equal(NVTX_DOMAIN_REGISTER_STRING_W, NVTX_CBID_CORE2_DomainRegisterStringW);
    assert_int_equal(NVTX_DOMAIN_CREATE_W, NVTX_CBID_CORE2_DomainCreateW);
    assert_int_equal(NVTX_CORE2_SIZE, NVTX_CBID_CORE2_SIZE);
    assert_int_equal(NVTX_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);
    assert_int_equal(NVTX_MESSAGE_WIDE, NVTX_MESSAGE_TYPE_UNICODE);
    assert_int_equal(NVTX_MESSAGE_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels), cmocka_unit_test(test_copies), cmocka_unit_test(test_host),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_nvtx),   cmocka_unit_test(test_callbacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    printf("skipped: NVIDIA's headers (cupti.h) are not installed\n");
    return 77;
}

#endif
