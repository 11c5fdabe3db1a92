/* What a remedy looks like in the framework that a program is written in.
 *
 * In: an analysis with its kernels. Out: a framework, lines of code, sentences on what to record.
 */
#ifndef HR_DIAGNOSE_ADVICE_H
#define HR_DIAGNOSE_ADVICE_H

#include "diagnose/analysis.h"

typedef enum hr_framework {
    HR_FRAMEWORK_UNKNOWN,
    HR_FRAMEWORK_TORCH,
    HR_FRAMEWORK_TORCH_XPU,
    HR_FRAMEWORK_JAX,
    HR_FRAMEWORK_CUPY,
    HR_FRAMEWORK_CUDA /* kernels of its own, in C++ or another language */
} hr_framework;

/* Needs kernels. By who recorded the trace, else by the names of its kernels. */
hr_framework hr_framework_of(const hr_analysis *analysis);
/* The code of a finding's remedy: advice.def's, else `otherwise` where that is written for the framework,
 * else "". */
const char *hr_advice_code(hr_framework framework, const char *id, const char *otherwise);
/* What to record where a trace has no device work; where bytes are not known. */
const char *hr_advice_device_work(const hr_analysis *analysis);
const char *hr_advice_bytes(const hr_analysis *analysis);

#endif
