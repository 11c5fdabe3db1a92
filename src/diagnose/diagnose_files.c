/* The public entrance: files -> a diagnosis.
 *
 * In: paths. Out: a diagnosis that owns its trace. Two files are ranks of one run where they say so, else
 * before and after.
 */
#include "base/handle.h"
#include "diagnose/analysis.h"

#include <string.h>

static hr_status diagnose_paths(const char *const *paths, int count, const hr_diagnose_options *options,
                                hr_diagnosis **out) {
    hr_trace_options reading = {.progress = options->progress, .progress_context = options->progress_context};
    hr_ceiling ceiling;
    hr_trace *trace;
    hr_diagnosis *diagnosis;
    if (options->roof)
        hr_ceiling_of_roof(options->roof, options->roof_device ? options->roof_device : "this device",
                           &ceiling);
    HR_TRY(hr_trace_read(paths, count, &reading, &trace));
    hr_status status = hr_diagnose_trace(trace, options->roof ? &ceiling : NULL, &diagnosis);
    if (status != HR_OK) {
        hr_trace_destroy(trace);
        return hr_fail_context(status, "%s: ", paths[0]);
    }
    diagnosis->owned = trace;
    *out = diagnosis;
    return HR_OK;
}

/* Whether the ranks of a trace name themselves, each differently. */
static bool ranks_differ(const hr_trace *trace) {
    for (int64_t i = 0; i < trace->ranks.count; i++) {
        if (trace->ranks.items[i].rank < 0) return false;
        for (int64_t k = 0; k < i; k++)
            if (trace->ranks.items[k].rank == trace->ranks.items[i].rank) return false;
    }
    return true;
}

/* `apart`: why they are not taken for ranks of one run, "" = nobody asked. */
static hr_status diagnose_both(const char *const *paths, const hr_diagnose_options *options,
                               const char *apart, hr_diagnosis **out) {
    hr_diagnosis *before, *after;
    HR_TRY(diagnose_paths(paths, 1, options, &before));
    hr_status status = diagnose_paths(paths + 1, 1, options, &after);
    if (status != HR_OK) {
        hr_diagnosis_destroy(before);
        return status;
    }
    HR_TRY(hr_diagnosis_join(before, after));
    if (apart[0]) before->apart = hr_arena_copy(before->arena, apart, strlen(apart));
    *out = before;
    return HR_OK;
}

hr_status hr_diagnose(const char *const *paths, int count, const hr_diagnose_options *given,
                      hr_diagnosis **out) {
    HR_TRY(hr_pointer_check(paths, "paths", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_diagnose_options options = {.size = sizeof options};
    if (given) memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    if (count < 1) return hr_fail(HR_BAD_INPUT, "no trace is given; name at least one file");
    if (options.mode == HR_DIAGNOSE_COMPARE && count != 2)
        return hr_fail(HR_BAD_INPUT, "a comparison takes two files, before and after, not %d", count);
    if (options.mode == HR_DIAGNOSE_COMPARE) return diagnose_both(paths, &options, "", out);
    if (options.mode == HR_DIAGNOSE_RANKS || count != 2) return diagnose_paths(paths, count, &options, out);
    hr_diagnosis *together;
    hr_status status = diagnose_paths(paths, count, &options, &together);
    char apart[256] = "";
    if (status == HR_OK) {
        bool of_one_run = !hr_ranks_apart(together->trace, apart, sizeof apart);
        if (of_one_run && ranks_differ(together->trace)) {
            *out = together;
            return HR_OK;
        }
        hr_diagnosis_destroy(together);
    }
    return status == HR_OK || status == HR_BAD_INPUT ? diagnose_both(paths, &options, apart, out) : status;
}

int hr_diagnosis_finding_count(const hr_diagnosis *diagnosis) {
    if (hr_handle_check(diagnosis, HR_HANDLE_DIAGNOSIS, __func__) != HR_OK) return 0;
    return diagnosis->finding_count;
}

hr_status hr_diagnosis_finding(const hr_diagnosis *diagnosis, int i, hr_finding_info *out) {
    HR_TRY(hr_handle_check(diagnosis, HR_HANDLE_DIAGNOSIS, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (i < 0 || i >= diagnosis->finding_count)
        return hr_fail(HR_BAD_INPUT, "there is no finding %d; this diagnosis has %d", i,
                       diagnosis->finding_count);
    const hr_finding *finding = &diagnosis->findings[i];
    *out = (hr_finding_info){.id = finding->id,
                             .title = finding->title,
                             .remedy = finding->remedy,
                             .code = finding->code,
                             .effort = finding->effort,
                             .gain = finding->gain,
                             .seconds_saved = finding->seconds_saved,
                             .confidence = finding->confidence};
    return HR_OK;
}

double hr_diagnosis_step(const hr_diagnosis *diagnosis) {
    if (hr_handle_check(diagnosis, HR_HANDLE_DIAGNOSIS, __func__) != HR_OK) return 0;
    return diagnosis->lane->steps.mean;
}
