/* Remedies in the words of the framework at hand: code for JAX, CuPy or CUDA C++ where a finding's own is
 * PyTorch's.
 *
 * In: who recorded a trace, and the names of its kernels. Out: the framework; lines of code and of what to
 * record.
 */
#include "diagnose/advice.h"

#include <string.h>

/* ---- which framework ---- */

/* What only one framework puts into names of kernels or ranges. */
static const struct {
    const char *word;
    hr_framework framework;
} marks[] = {{"at::native", HR_FRAMEWORK_TORCH},  {"c10::", HR_FRAMEWORK_TORCH},
             {"aten::", HR_FRAMEWORK_TORCH},      {"triton_poi_", HR_FRAMEWORK_TORCH},
             {"triton_red_", HR_FRAMEWORK_TORCH}, {"cupy_", HR_FRAMEWORK_CUPY},
             {"_fusion", HR_FRAMEWORK_JAX},       {"wrapped_", HR_FRAMEWORK_JAX}};

static hr_framework framework_marked(const char *name) {
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(name, marks[i].word)) return marks[i].framework;
    return HR_FRAMEWORK_UNKNOWN;
}

hr_framework hr_framework_of(const hr_analysis *analysis) {
    const hr_trace *trace = analysis->trace;
    const hr_rank *rank = &trace->ranks.items[analysis->rank];
    if (strcmp(rank->source, "jax") == 0) return HR_FRAMEWORK_JAX;
    if (strcmp(rank->source, "kineto") == 0)
        return strcmp(rank->runtime, "xpu") == 0 ? HR_FRAMEWORK_TORCH_XPU : HR_FRAMEWORK_TORCH;
    bool own = false; /* kernels that no library is known for */
    for (int i = 0; i < analysis->kernel_count; i++) {
        const hr_kernel_summary *kernel = &analysis->kernels[i];
        hr_framework marked = framework_marked(hr_trace_string(trace, kernel->name));
        if (marked == HR_FRAMEWORK_UNKNOWN && kernel->operator_name >= 0)
            marked = framework_marked(hr_trace_string(trace, kernel->operator_name));
        if (marked != HR_FRAMEWORK_UNKNOWN) return marked;
        own |= kernel->kind == HR_TIME_OTHER;
    }
    return own ? HR_FRAMEWORK_CUDA : HR_FRAMEWORK_UNKNOWN;
}

/* ---- remedies ---- */

static const struct {
    hr_framework framework;
    const char *id, *code;
} rows[] = {
#define ADVICE(framework, id, code) {HR_FRAMEWORK_##framework, id, code},
#include "diagnose/advice.def"
#undef ADVICE
};

const char *hr_advice_code(hr_framework framework, const char *id, const char *otherwise) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].framework == framework && strcmp(rows[i].id, id) == 0) return rows[i].code;
    bool torch = framework == HR_FRAMEWORK_TORCH || framework == HR_FRAMEWORK_TORCH_XPU ||
                 framework == HR_FRAMEWORK_UNKNOWN;
    return torch ? otherwise : "";
}

/* ---- what to record ---- */

const char *hr_advice_device_work(const hr_analysis *analysis) {
    static const struct {
        const char *source, *runtime, *words;
    } of[] = {
        {"jax", "",
         "device work: jax.profiler.trace() around steps that run on a GPU or TPU (jax.devices() names "
         "them)"},
        {"nsys", "", "device work: nsys profile --trace=cuda,nvtx, or use `headroom record -- PROGRAM`"},
        {"headroom", "",
         "device work: nothing ran on a GPU while it was recorded; look at --from-range and --steps"},
        {"kineto", "xpu", "device work: profile with ProfilerActivity.XPU"},
        {"kineto", "mtia", "device work: profile with ProfilerActivity.MTIA"},
        {"kineto", "hpu", "device work: profile with ProfilerActivity.HPU"},
        {"kineto", "privateuse1", "device work: profile with ProfilerActivity.PrivateUse1"},
    };
    const hr_rank *rank = &analysis->trace->ranks.items[analysis->rank];
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (strcmp(rank->source, of[i].source) == 0 && strcmp(rank->runtime, of[i].runtime) == 0)
            return of[i].words;
    return "device work: profile with ProfilerActivity.CUDA, or use `headroom record -- PROGRAM`";
}

const char *hr_advice_bytes(const hr_analysis *analysis) {
    hr_framework framework = hr_framework_of(analysis);
    if (framework == HR_FRAMEWORK_TORCH_XPU)
        return "shapes (torch.profiler: record_shapes=True): without them nothing is said of bandwidth";
    if (framework == HR_FRAMEWORK_TORCH || framework == HR_FRAMEWORK_UNKNOWN)
        return "counters (`headroom record --counters`) or shapes (torch.profiler: record_shapes=True): "
               "without "
               "them nothing is said of bandwidth";
    return "counters (`headroom record --counters`, or ncu): without them nothing is said of bandwidth";
}
