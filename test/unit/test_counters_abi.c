/* What src/record/inject/cupti_counters_abi.h declares, against NVIDIA's headers, where these are installed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#ifdef HR_WITH_CUPTI_HEADERS

#include "record/inject/cupti_counters_abi.h"

#include <cupti.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h> /* includes <string>: fake/cxx stands in for that */
#include <cupti_range_profiler.h>
#include <cupti_target.h>

/* Each member lies where theirs does and is as large; the struct ends where theirs does. */
#define SAME(ours, member, theirs, name)                                                                     \
    do {                                                                                                     \
        assert_int_equal(offsetof(ours, member), offsetof(theirs, name));                                    \
        assert_int_equal(sizeof(((ours *)0)->member), sizeof(((theirs *)0)->name));                          \
    } while (0)

static void test_device(void **unused) {
    (void)unused;
    assert_int_equal(CUPTI_SIZE(cupti_initialize, reserved), CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
    assert_int_equal(CUPTI_SIZE(cupti_device_supported, api),
                     CUpti_Profiler_DeviceSupported_Params_STRUCT_SIZE);
    SAME(cupti_device_supported, device, CUpti_Profiler_DeviceSupported_Params, cuDevice);
    SAME(cupti_device_supported, supported, CUpti_Profiler_DeviceSupported_Params, isSupported);
    SAME(cupti_device_supported, architecture, CUpti_Profiler_DeviceSupported_Params, architecture);
    SAME(cupti_device_supported, sli, CUpti_Profiler_DeviceSupported_Params, sli);
    SAME(cupti_device_supported, virtual_gpu, CUpti_Profiler_DeviceSupported_Params, vGpu);
    SAME(cupti_device_supported, confidential, CUpti_Profiler_DeviceSupported_Params, confidentialCompute);
    SAME(cupti_device_supported, mining, CUpti_Profiler_DeviceSupported_Params, cmp);
    SAME(cupti_device_supported, wsl, CUpti_Profiler_DeviceSupported_Params, wsl);
    SAME(cupti_device_supported, api, CUpti_Profiler_DeviceSupported_Params, api);
    assert_int_equal(CUPTI_SIZE(cupti_chip_name, name), CUpti_Device_GetChipName_Params_STRUCT_SIZE);
    SAME(cupti_chip_name, device, CUpti_Device_GetChipName_Params, deviceIndex);
    SAME(cupti_chip_name, name, CUpti_Device_GetChipName_Params, pChipName);
}

static void test_host(void **unused) {
    (void)unused;
    assert_int_equal(CUPTI_SIZE(cupti_host_initialize, host),
                     CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
    SAME(cupti_host_initialize, kind, CUpti_Profiler_Host_Initialize_Params, profilerType);
    SAME(cupti_host_initialize, chip, CUpti_Profiler_Host_Initialize_Params, pChipName);
    SAME(cupti_host_initialize, availability, CUpti_Profiler_Host_Initialize_Params,
         pCounterAvailabilityImage);
    SAME(cupti_host_initialize, host, CUpti_Profiler_Host_Initialize_Params, pHostObject);
    assert_int_equal(CUPTI_SIZE(cupti_host_end, host), CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE);
    SAME(cupti_host_end, host, CUpti_Profiler_Host_Deinitialize_Params, pHostObject);
    assert_int_equal(CUPTI_SIZE(cupti_host_metrics, count),
                     CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE);
    SAME(cupti_host_metrics, host, CUpti_Profiler_Host_ConfigAddMetrics_Params, pHostObject);
    SAME(cupti_host_metrics, names, CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames);
    SAME(cupti_host_metrics, count, CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics);
    assert_int_equal(CUPTI_SIZE(cupti_host_config_size, bytes),
                     CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE);
    SAME(cupti_host_config_size, host, CUpti_Profiler_Host_GetConfigImageSize_Params, pHostObject);
    SAME(cupti_host_config_size, bytes, CUpti_Profiler_Host_GetConfigImageSize_Params, configImageSize);
    assert_int_equal(CUPTI_SIZE(cupti_host_config, config),
                     CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE);
    SAME(cupti_host_config, host, CUpti_Profiler_Host_GetConfigImage_Params, pHostObject);
    SAME(cupti_host_config, bytes, CUpti_Profiler_Host_GetConfigImage_Params, configImageSize);
    SAME(cupti_host_config, config, CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage);
    assert_int_equal(CUPTI_SIZE(cupti_host_passes, passes),
                     CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE);
    SAME(cupti_host_passes, bytes, CUpti_Profiler_Host_GetNumOfPasses_Params, configImageSize);
    SAME(cupti_host_passes, config, CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage);
    SAME(cupti_host_passes, passes, CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses);
    assert_int_equal(CUPTI_SIZE(cupti_host_evaluate, values),
                     CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE);
    SAME(cupti_host_evaluate, host, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pHostObject);
    SAME(cupti_host_evaluate, image, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage);
    SAME(cupti_host_evaluate, image_bytes, CUpti_Profiler_Host_EvaluateToGpuValues_Params,
         counterDataImageSize);
    SAME(cupti_host_evaluate, range, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex);
    SAME(cupti_host_evaluate, names, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames);
    SAME(cupti_host_evaluate, count, CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics);
    SAME(cupti_host_evaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues);
}

static void test_ranges(void **unused) {
    (void)unused;
    assert_int_equal(CUPTI_SIZE(cupti_range_enable, profiler), CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
    SAME(cupti_range_enable, context, CUpti_RangeProfiler_Enable_Params, ctx);
    SAME(cupti_range_enable, profiler, CUpti_RangeProfiler_Enable_Params, pRangeProfilerObject);
    assert_int_equal(CUPTI_SIZE(cupti_range_object, profiler),
                     CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE);
    SAME(cupti_range_object, profiler, CUpti_RangeProfiler_Disable_Params, pRangeProfilerObject);
    assert_int_equal(CUPTI_SIZE(cupti_range_object, profiler), CUpti_RangeProfiler_Start_Params_STRUCT_SIZE);
    SAME(cupti_range_object, profiler, CUpti_RangeProfiler_Start_Params, pRangeProfilerObject);
    assert_int_equal(CUPTI_SIZE(cupti_range_config, level), CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE);
    SAME(cupti_range_config, profiler, CUpti_RangeProfiler_SetConfig_Params, pRangeProfilerObject);
    SAME(cupti_range_config, config_bytes, CUpti_RangeProfiler_SetConfig_Params, configSize);
    SAME(cupti_range_config, config, CUpti_RangeProfiler_SetConfig_Params, pConfig);
    SAME(cupti_range_config, image_bytes, CUpti_RangeProfiler_SetConfig_Params, counterDataImageSize);
    SAME(cupti_range_config, image, CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage);
    SAME(cupti_range_config, range_mode, CUpti_RangeProfiler_SetConfig_Params, range);
    SAME(cupti_range_config, replay_mode, CUpti_RangeProfiler_SetConfig_Params, replayMode);
    SAME(cupti_range_config, ranges_most, CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass);
    SAME(cupti_range_config, levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels);
    SAME(cupti_range_config, level_least, CUpti_RangeProfiler_SetConfig_Params, minNestingLevel);
    SAME(cupti_range_config, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex);
    SAME(cupti_range_config, level, CUpti_RangeProfiler_SetConfig_Params, targetNestingLevel);
    assert_int_equal(CUPTI_SIZE(cupti_range_stop, all_passes), CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE);
    SAME(cupti_range_stop, profiler, CUpti_RangeProfiler_Stop_Params, pRangeProfilerObject);
    SAME(cupti_range_stop, pass, CUpti_RangeProfiler_Stop_Params, passIndex);
    SAME(cupti_range_stop, level, CUpti_RangeProfiler_Stop_Params, targetNestingLevel);
    SAME(cupti_range_stop, all_passes, CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted);
    assert_int_equal(CUPTI_SIZE(cupti_range_decode, dropped),
                     CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE);
    SAME(cupti_range_decode, profiler, CUpti_RangeProfiler_DecodeData_Params, pRangeProfilerObject);
    SAME(cupti_range_decode, dropped, CUpti_RangeProfiler_DecodeData_Params, numOfRangeDropped);
    assert_int_equal(CUPTI_SIZE(cupti_range_image_size, bytes),
                     CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE);
    SAME(cupti_range_image_size, profiler, CUpti_RangeProfiler_GetCounterDataSize_Params,
         pRangeProfilerObject);
    SAME(cupti_range_image_size, names, CUpti_RangeProfiler_GetCounterDataSize_Params, pMetricNames);
    SAME(cupti_range_image_size, count, CUpti_RangeProfiler_GetCounterDataSize_Params, numMetrics);
    SAME(cupti_range_image_size, ranges_most, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumOfRanges);
    SAME(cupti_range_image_size, nodes_most, CUpti_RangeProfiler_GetCounterDataSize_Params,
         maxNumRangeTreeNodes);
    SAME(cupti_range_image_size, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params, counterDataSize);
    assert_int_equal(CUPTI_SIZE(cupti_range_image, image),
                     CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE);
    SAME(cupti_range_image, profiler, CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
         pRangeProfilerObject);
    SAME(cupti_range_image, bytes, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, counterDataSize);
    SAME(cupti_range_image, image, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, pCounterData);
    assert_int_equal(CUPTI_SIZE(cupti_range_image_info, ranges),
                     CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE);
    SAME(cupti_range_image_info, image, CUpti_RangeProfiler_GetCounterDataInfo_Params, pCounterDataImage);
    SAME(cupti_range_image_info, bytes, CUpti_RangeProfiler_GetCounterDataInfo_Params, counterDataImageSize);
    SAME(cupti_range_image_info, ranges, CUpti_RangeProfiler_GetCounterDataInfo_Params, numTotalRanges);
}

static void test_samples(void **unused) {
    (void)unused;
    assert_int_equal(CUPTI_SIZE(cupti_sampling_enable, sampling), CUpti_PmSampling_Enable_Params_STRUCT_SIZE);
    SAME(cupti_sampling_enable, device, CUpti_PmSampling_Enable_Params, deviceIndex);
    SAME(cupti_sampling_enable, sampling, CUpti_PmSampling_Enable_Params, pPmSamplingObject);
    assert_int_equal(CUPTI_SIZE(cupti_sampling_object, sampling), CUpti_PmSampling_Start_Params_STRUCT_SIZE);
    SAME(cupti_sampling_object, sampling, CUpti_PmSampling_Start_Params, pPmSamplingObject);
    assert_int_equal(CUPTI_SIZE(cupti_sampling_object, sampling), CUpti_PmSampling_Stop_Params_STRUCT_SIZE);
    SAME(cupti_sampling_object, sampling, CUpti_PmSampling_Stop_Params, pPmSamplingObject);
    assert_int_equal(CUPTI_SIZE(cupti_sampling_object, sampling),
                     CUpti_PmSampling_Disable_Params_STRUCT_SIZE);
    SAME(cupti_sampling_object, sampling, CUpti_PmSampling_Disable_Params, pPmSamplingObject);
    assert_int_equal(CUPTI_SIZE(cupti_sampling_config, keeps_latest),
                     CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE);
    SAME(cupti_sampling_config, sampling, CUpti_PmSampling_SetConfig_Params, pPmSamplingObject);
    SAME(cupti_sampling_config, config_bytes, CUpti_PmSampling_SetConfig_Params, configSize);
    SAME(cupti_sampling_config, config, CUpti_PmSampling_SetConfig_Params, pConfig);
    SAME(cupti_sampling_config, buffer_bytes, CUpti_PmSampling_SetConfig_Params, hardwareBufferSize);
    SAME(cupti_sampling_config, interval, CUpti_PmSampling_SetConfig_Params, samplingInterval);
    SAME(cupti_sampling_config, trigger, CUpti_PmSampling_SetConfig_Params, triggerMode);
    SAME(cupti_sampling_config, keeps_latest, CUpti_PmSampling_SetConfig_Params, hwBufferAppendMode);
    assert_int_equal(CUPTI_SIZE(cupti_sampling_decode, overflow),
                     CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE);
    SAME(cupti_sampling_decode, sampling, CUpti_PmSampling_DecodeData_Params, pPmSamplingObject);
    SAME(cupti_sampling_decode, image, CUpti_PmSampling_DecodeData_Params, pCounterDataImage);
    SAME(cupti_sampling_decode, image_bytes, CUpti_PmSampling_DecodeData_Params, counterDataImageSize);
    SAME(cupti_sampling_decode, stopped, CUpti_PmSampling_DecodeData_Params, decodeStopReason);
    SAME(cupti_sampling_decode, overflow, CUpti_PmSampling_DecodeData_Params, overflow);
    assert_int_equal(CUPTI_SIZE(cupti_sampling_image_size, bytes),
                     CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE);
    SAME(cupti_sampling_image_size, sampling, CUpti_PmSampling_GetCounterDataSize_Params, pPmSamplingObject);
    SAME(cupti_sampling_image_size, names, CUpti_PmSampling_GetCounterDataSize_Params, pMetricNames);
    SAME(cupti_sampling_image_size, count, CUpti_PmSampling_GetCounterDataSize_Params, numMetrics);
    SAME(cupti_sampling_image_size, samples_most, CUpti_PmSampling_GetCounterDataSize_Params, maxSamples);
    SAME(cupti_sampling_image_size, bytes, CUpti_PmSampling_GetCounterDataSize_Params, counterDataSize);
    assert_int_equal(CUPTI_SIZE(cupti_sampling_image, image),
                     CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE);
    SAME(cupti_sampling_image, sampling, CUpti_PmSampling_CounterDataImage_Initialize_Params,
         pPmSamplingObject);
    SAME(cupti_sampling_image, bytes, CUpti_PmSampling_CounterDataImage_Initialize_Params, counterDataSize);
    SAME(cupti_sampling_image, image, CUpti_PmSampling_CounterDataImage_Initialize_Params, pCounterData);
    assert_int_equal(CUPTI_SIZE(cupti_sampling_image_info, complete),
                     CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE);
    SAME(cupti_sampling_image_info, image, CUpti_PmSampling_GetCounterDataInfo_Params, pCounterDataImage);
    SAME(cupti_sampling_image_info, bytes, CUpti_PmSampling_GetCounterDataInfo_Params, counterDataImageSize);
    SAME(cupti_sampling_image_info, samples, CUpti_PmSampling_GetCounterDataInfo_Params, numTotalSamples);
    SAME(cupti_sampling_image_info, begun, CUpti_PmSampling_GetCounterDataInfo_Params, numPopulatedSamples);
    SAME(cupti_sampling_image_info, complete, CUpti_PmSampling_GetCounterDataInfo_Params,
         numCompletedSamples);
    assert_int_equal(CUPTI_SIZE(cupti_sampling_sample, end),
                     CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE);
    SAME(cupti_sampling_sample, sampling, CUpti_PmSampling_CounterData_GetSampleInfo_Params,
         pPmSamplingObject);
    SAME(cupti_sampling_sample, image, CUpti_PmSampling_CounterData_GetSampleInfo_Params, pCounterDataImage);
    SAME(cupti_sampling_sample, image_bytes, CUpti_PmSampling_CounterData_GetSampleInfo_Params,
         counterDataImageSize);
    SAME(cupti_sampling_sample, place, CUpti_PmSampling_CounterData_GetSampleInfo_Params, sampleIndex);
    SAME(cupti_sampling_sample, start, CUpti_PmSampling_CounterData_GetSampleInfo_Params, startTimestamp);
    SAME(cupti_sampling_sample, end, CUpti_PmSampling_CounterData_GetSampleInfo_Params, endTimestamp);
}

static void test_launches(void **unused) {
    (void)unused;
    SAME(cuda_launch, function, cuLaunchKernel_params, f);
    assert_int_equal(offsetof(cuda_launch, shape.grid), offsetof(cuLaunchKernel_params, gridDimX));
    assert_int_equal(offsetof(cuda_launch, shape.block), offsetof(cuLaunchKernel_params, blockDimX));
    assert_int_equal(offsetof(cuda_launch, shape.stream), offsetof(cuLaunchKernel_params, hStream));
    assert_int_equal(offsetof(cuda_launch, shape.stream),
                     offsetof(cuLaunchCooperativeKernel_params, hStream));
    SAME(cuda_launch_extended, shape, cuLaunchKernelEx_params, config);
    SAME(cuda_launch_extended, function, cuLaunchKernelEx_params, f);
    assert_int_equal(offsetof(cuda_launch_shape, grid), offsetof(CUlaunchConfig, gridDimX));
    assert_int_equal(offsetof(cuda_launch_shape, block), offsetof(CUlaunchConfig, blockDimX));
    SAME(cuda_launch_shape, stream, CUlaunchConfig, hStream);
}

static void test_numbers(void **unused) {
    (void)unused;
    assert_int_equal(CUPTI_RANGE_PROFILER, CUPTI_PROFILER_TYPE_RANGE_PROFILER);
    assert_int_equal(CUPTI_PM_SAMPLING, CUPTI_PROFILER_TYPE_PM_SAMPLING);
    assert_int_equal(CUPTI_API_RANGES, CUPTI_PROFILER_RANGE_PROFILING);
    assert_int_equal(CUPTI_API_PM_SAMPLING, CUPTI_PROFILER_PM_SAMPLING);
    assert_int_equal(CUPTI_UNSUPPORTED, CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED);
    assert_int_equal(CUPTI_DISABLED, CUPTI_PROFILER_CONFIGURATION_DISABLED);
    assert_int_equal(CUPTI_SUPPORTED, CUPTI_PROFILER_CONFIGURATION_SUPPORTED);
    assert_int_equal(CUPTI_AUTO_RANGES, CUPTI_AutoRange);
    assert_int_equal(CUPTI_KERNEL_REPLAY, CUPTI_KernelReplay);
    assert_int_equal(CUPTI_TRIGGER_CLOCK, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL);
    assert_int_equal(CUPTI_TRIGGER_TIME, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL);
    assert_int_equal(CUPTI_DECODE_IMAGE_FULL, CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device),  cmocka_unit_test(test_host),     cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_samples), cmocka_unit_test(test_launches), cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    printf("skipped: NVIDIA's headers (cupti_profiler_host.h of CUDA 12.6 or later) are not installed\n");
    return 77;
}

#endif
