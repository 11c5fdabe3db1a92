/* A diagnosis for programs: one JSON object; its keys are a contract (docs/man/headroom-diagnose.1). */
#include "base/handle.h"
#include "base/memory.h"
#include "diagnose/diagnose.h"
#include "report/json_value.h"
#include "report/report_memory.h"

#define LAUNCHES_SHOWN 400  /* kernels */
#define PIECES_SHOWN   2000 /* of the critical path */

static double seconds_of(int64_t nanoseconds) {
    return (double)nanoseconds * 1e-9;
}

/* From the beginning of the chosen step. */
static double place_of(const hr_diagnosis *diagnosis, int64_t time) {
    const hr_steps *steps = &diagnosis->lane->steps;
    return seconds_of(time - steps->items[steps->chosen].start);
}

static void set_known(json_t *object, const char *key, double value, bool known) {
    hr_value_set(object, key, known ? hr_value_real(value) : json_null());
}

/* Of steps of two lengths; null for others. */
static json_t *modes_value(const hr_steps *steps) {
    if (!steps->slow_count) return json_null();
    json_t *object = json_object();
    hr_value_set_whole(object, "slow_count", steps->slow_count);
    hr_value_set_real(object, "slow", steps->slow);
    hr_value_set_real(object, "usual", steps->usual);
    return object;
}

static json_t *step_value(const hr_steps *steps) {
    json_t *step = json_object(), *seconds = json_object();
    hr_value_set_whole(step, "count", steps->count);
    hr_value_set_whole(step, "warm_up", steps->first);
    hr_value_set_whole(step, "halted_by_counters", steps->halted);
    hr_value_set_whole(step, "chosen", steps->chosen);
    hr_value_set_text(step, "found_by", steps->found_by);
    hr_value_set_real(seconds, "mean", steps->mean);
    hr_value_set_real(seconds, "median", steps->median);
    hr_value_set_real(seconds, "min", steps->min);
    hr_value_set_real(seconds, "max", steps->max);
    hr_value_set(step, "seconds", seconds);
    hr_value_set(step, "modes", modes_value(steps));
    return step;
}

static json_t *kinds_value(const double parts[HR_TIME_KIND_COUNT]) {
    json_t *object = json_object();
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++)
        if (parts[i] > 0) hr_value_set_real(object, hr_time_kind_name(i), parts[i]);
    return object;
}

static json_t *sampled_value(const hr_sampled *sampled) {
    if (!sampled->samples) return json_null();
    json_t *object = json_object();
    hr_value_set_whole(object, "samples", sampled->samples);
    set_known(object, "sm_active", sampled->sm_active, sampled->sm_active >= 0);
    set_known(object, "tensor_active", sampled->tensor_active, sampled->tensor_active >= 0);
    set_known(object, "warps_active", sampled->warps_active, sampled->warps_active >= 0);
    set_known(object, "dram_of_peak", sampled->dram, sampled->dram >= 0);
    return object;
}

static json_t *coverage_value(const hr_lane *lane) {
    json_t *object = json_object();
    hr_value_set_real(object, "trace", lane->trace_seconds);
    hr_value_set_real(object, "in_steps", lane->in_steps);
    hr_value_set_real(object, "before", lane->before_steps);
    hr_value_set_real(object, "after", lane->after_steps);
    hr_value_set_real(object, "busy_outside", lane->busy_outside);
    return object;
}

static json_t *integrity_value(const hr_integrity *sums) {
    json_t *object = json_object();
    hr_value_set_whole(object, "launches", sums->launches);
    hr_value_set_whole(object, "launches_without_work", sums->lost);
    hr_value_set_whole(object, "copies_without_work", sums->copies_lost);
    hr_value_set_whole(object, "graph_launches", sums->graphs);
    hr_value_set_whole(object, "graph_launches_with_one_kernel", sums->graphs_as_one);
    hr_value_set_whole(object, "works", sums->works);
    hr_value_set_whole(object, "works_without_launch", sums->orphans);
    hr_value_set_whole(object, "works_from_before", sums->before);
    hr_value_set_whole(object, "repeated_correlations", sums->repeated);
    hr_value_set_whole(object, "works_before_their_launch", sums->early);
    hr_value_set_whole(object, "works_without_duration", sums->timeless);
    return object;
}

static json_t *lane_value(const hr_diagnosis *diagnosis, const hr_lane *lane) {
    const hr_trace *trace = diagnosis->trace;
    bool known = lane->rank >= 0 && lane->rank < trace->ranks.count;
    json_t *object = json_object();
    hr_value_set_whole(object, "rank", known ? trace->ranks.items[lane->rank].rank : -1);
    hr_value_set_whole(object, "world", known ? trace->ranks.items[lane->rank].world : 0);
    hr_value_set_text(object, "path", known ? trace->ranks.items[lane->rank].path : "");
    hr_value_set_whole(object, "device", lane->device);
    hr_value_set(object, "step", step_value(&lane->steps));
    hr_value_set_real(object, "busy", lane->busy);
    hr_value_set_real(object, "communication", lane->communication);
    hr_value_set_real(object, "hidden_communication", lane->hidden_communication);
    hr_value_set(object, "accounted", kinds_value(lane->accounted));
    hr_value_set(object, "coverage", coverage_value(lane));
    hr_value_set(object, "integrity", integrity_value(&lane->integrity));
    hr_value_set(object, "sampled", sampled_value(&lane->sampled));
    return object;
}

/* Of a launch; null where none was counted. */
static json_t *counters_value(const hr_kernel_summary *kernel) {
    const struct {
        const char *key;
        double value;
    } values[] = {{"dram_bytes", kernel->dram_bytes},
                  {"dram_of_peak", kernel->dram_of_peak},
                  {"sm_of_peak", kernel->sm_of_peak},
                  {"tensor_active", kernel->tensor_active},
                  {"l1_hit", kernel->l1_hit},
                  {"l2_hit", kernel->l2_hit},
                  {"tensor_instructions", kernel->tensor_instructions},
                  {"vector_instructions", kernel->vector_instructions},
                  {"sectors_per_load", kernel->sectors_per_load},
                  {"sectors_per_store", kernel->sectors_per_store}};
    json_t *object = json_object();
    bool any = false;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        set_known(object, values[i].key, values[i].value, values[i].value >= 0);
        any |= values[i].value >= 0;
    }
    if (any) return object;
    json_decref(object);
    return json_null();
}

static json_t *kernel_value(const hr_diagnosis *diagnosis, const hr_kernel_summary *kernel) {
    json_t *object = json_object(), *duration = json_object();
    hr_value_set_text(object, "name", hr_trace_string(diagnosis->trace, kernel->name));
    hr_value_set_text(object, "short_name", kernel->short_name);
    hr_value_set_text(object, "operator", hr_trace_string(diagnosis->trace, kernel->operator_name));
    hr_value_set_text(object, "kind", hr_time_kind_name(kernel->kind));
    hr_value_set_real(object, "per_step", kernel->per_step);
    hr_value_set_real(object, "seconds", kernel->seconds);
    hr_value_set_real(object, "share", kernel->share);
    hr_value_set_real(duration, "min", kernel->shortest);
    hr_value_set_real(duration, "median", kernel->median);
    hr_value_set_real(duration, "max", kernel->longest);
    hr_value_set(object, "duration", duration);
    set_known(object, "occupancy", kernel->occupancy, kernel->occupancy >= 0);
    set_known(object, "achieved_occupancy", kernel->achieved, kernel->achieved >= 0);
    hr_value_set_text(object, "limited_by", hr_limiter_name(kernel->limiter));
    set_known(object, "waves", kernel->waves, kernel->waves > 0);
    hr_value_set_whole(object, "registers", kernel->registers);
    hr_value_set_whole(object, "shared", kernel->shared);
    hr_value_set_whole(object, "block", kernel->block);
    hr_value_set_whole(object, "grid", kernel->grid);
    hr_value_set(object, "tensor_cores",
                 kernel->unit == HR_UNIT_UNKNOWN ? json_null()
                                                 : json_boolean(kernel->unit == HR_UNIT_TENSOR));
    hr_value_set_text(object, "bound", hr_bound_name(kernel->bound));
    set_known(object, "roof_fraction", kernel->roof_fraction, kernel->roof_fraction > 0);
    set_known(object, "bytes", kernel->bytes, kernel->bytes > 0);
    set_known(object, "flops", kernel->flops, kernel->flops > 0);
    hr_value_set(object, "counters", counters_value(kernel));
    return object;
}

static json_t *path_value(const hr_diagnosis *diagnosis) {
    const hr_trace *trace = diagnosis->trace;
    json_t *list = json_array();
    for (int i = 0; i < diagnosis->path_count && i < PIECES_SHOWN; i++) {
        const hr_path_piece *piece = &diagnosis->path[i];
        json_t *object = json_object();
        hr_value_set_real(object, "start", place_of(diagnosis, piece->start));
        hr_value_set_real(object, "seconds", seconds_of(piece->end - piece->start));
        hr_value_set_text(object, "kind", hr_time_kind_name(piece->kind));
        hr_value_set_text(object, "name",
                          piece->event < 0 ? ""
                                           : hr_trace_string(trace, trace->events.items[piece->event].name));
        hr_value_append(list, object);
    }
    return list;
}

static json_t *evidence_value(const hr_diagnosis *diagnosis, const hr_evidence *evidence) {
    const hr_trace *trace = diagnosis->trace;
    json_t *object = json_object();
    hr_value_set_text(object, "text", evidence->text);
    if (evidence->count > 0) hr_value_set_whole(object, "count", evidence->count);
    if (evidence->seconds > 0) hr_value_set_real(object, "seconds", evidence->seconds);
    if (evidence->event >= 0) {
        const hr_event *event = &trace->events.items[evidence->event];
        hr_value_set_text(object, "event", hr_trace_string(trace, event->name));
        hr_value_set_real(object, "at", seconds_of(event->start));
    }
    return object;
}

static json_t *finding_value(const hr_diagnosis *diagnosis, const hr_finding *finding) {
    json_t *object = json_object(), *evidence = json_array(), *remedy = json_object();
    hr_value_set_text(object, "id", finding->id);
    hr_value_set_text(object, "title", finding->title);
    hr_value_set_real(object, "gain", finding->gain);
    hr_value_set(object, "gain_is_bound", json_boolean(finding->is_bound));
    hr_value_set_real(object, "marginal_gain", finding->marginal);
    hr_value_set_real(object, "seconds_saved", finding->seconds_saved);
    hr_value_set_real(object, "confidence", finding->confidence);
    for (int i = 0; i < finding->evidence_count; i++)
        hr_value_append(evidence, evidence_value(diagnosis, &finding->evidence[i]));
    hr_value_set(object, "evidence", evidence);
    hr_value_set_text(remedy, "text", finding->remedy);
    hr_value_set_text(remedy, "code", finding->code);
    hr_value_set(object, "remedy", remedy);
    hr_value_set_text(object, "effort", finding->effort);
    hr_value_set_text(object, "assumes", finding->caveat);
    return object;
}

static json_t *skipped_value(const hr_trace *trace) {
    json_t *object = json_object();
    for (int64_t i = 0; i < trace->skipped.count; i++)
        hr_value_set_whole(object, trace->skipped.items[i].reason, trace->skipped.items[i].count);
    return object;
}

static json_t *change_value(const hr_change *change) {
    json_t *object = json_object();
    hr_value_set_text(object, "name", change->name);
    hr_value_set_text(object, "kind", hr_time_kind_name(change->kind));
    hr_value_set_real(object, "before", change->before);
    hr_value_set_real(object, "after", change->after);
    hr_value_set_real(object, "before_per_step", change->before_count);
    hr_value_set_real(object, "after_per_step", change->after_count);
    return object;
}

static json_t *diagnosis_value(const hr_diagnosis *diagnosis);

static void set_comparison(json_t *object, const hr_diagnosis *diagnosis) {
    json_t *changes = json_array();
    for (int i = 0; i < diagnosis->change_count && i < LAUNCHES_SHOWN; i++)
        hr_value_append(changes, change_value(&diagnosis->changes[i]));
    hr_value_set(object, "changes", changes);
    hr_value_set(object, "after", diagnosis_value(diagnosis->after));
}

static json_t *diagnosis_value(const hr_diagnosis *diagnosis) {
    const hr_lane *lane = diagnosis->lane;
    const hr_trace *trace = diagnosis->trace;
    json_t *object = json_object(), *ranks = json_array(), *kernels = json_array(), *findings = json_array();
    json_t *missing = json_array(), *notes = json_array(), *roof = json_object();
    hr_value_set_text(object, "source", trace->ranks.items[lane->rank].source);
    hr_value_set_text(object, "device", lane->name);
    hr_value_set_text(object, "verdict", diagnosis->verdict);
    hr_value_set(object, "caution", diagnosis->caution ? hr_value_text(diagnosis->caution) : json_null());
    hr_value_set(object, "apart", diagnosis->apart ? hr_value_text(diagnosis->apart) : json_null());
    for (int i = 0; i < diagnosis->lane_count; i++)
        hr_value_append(ranks, lane_value(diagnosis, &diagnosis->lanes[i]));
    hr_value_set(object, "ranks", ranks);
    hr_value_set(object, "step", step_value(&lane->steps));
    hr_value_set(object, "replayed_steps",
                 diagnosis->replayed_steps ? json_integer(diagnosis->replayed_steps) : json_null());
    hr_value_set(object, "accounted", kinds_value(lane->accounted));
    hr_value_set(object, "coverage", coverage_value(lane));
    hr_value_set(object, "integrity", integrity_value(&lane->integrity));
    hr_value_set_real(object, "busy", lane->busy);
    hr_value_set(object, "sampled", sampled_value(&lane->sampled));
    for (int i = 0; i < diagnosis->finding_count; i++)
        hr_value_append(findings, finding_value(diagnosis, &diagnosis->findings[i]));
    hr_value_set(object, "findings", findings);
    hr_value_set(object, "memory", hr_memory_value(diagnosis));
    hr_value_set_real(object, "combined_gain", diagnosis->combined_gain);
    hr_value_set_real(object, "replay_error", diagnosis->replay_error);
    for (int i = 0; i < diagnosis->kernel_count && i < LAUNCHES_SHOWN; i++)
        hr_value_append(kernels, kernel_value(diagnosis, &diagnosis->kernels[i]));
    hr_value_set(object, "kernels", kernels);
    hr_value_set(object, "critical_path", path_value(diagnosis));
    hr_value_set(object, "critical_path_seconds", kinds_value(diagnosis->path_seconds));
    hr_value_set(object, "critical_path_idle", kinds_value(diagnosis->path_idle));
    hr_value_set_text(roof, "source", diagnosis->ceiling.source);
    hr_value_set_real(roof, "memory", diagnosis->ceiling.memory);
    hr_value_set_real(roof, "vector_f32", diagnosis->ceiling.vector_f32);
    hr_value_set_real(roof, "tensor_tf32", diagnosis->ceiling.tensor_tf32);
    hr_value_set_real(roof, "tensor_half", diagnosis->ceiling.tensor_half);
    hr_value_set_real(roof, "link", diagnosis->ceiling.link);
    hr_value_set(object, "roof", roof);
    for (int i = 0; i < diagnosis->missing_count; i++)
        hr_value_append(missing, hr_value_text(diagnosis->missing[i]));
    hr_value_set(object, "missing", missing);
    for (int i = 0; i < diagnosis->note_count; i++)
        hr_value_append(notes, hr_value_text(diagnosis->notes[i]));
    hr_value_set(object, "notes", notes);
    hr_value_set(object, "skipped", skipped_value(trace));
    if (diagnosis->after) set_comparison(object, diagnosis);
    return object;
}

hr_status hr_report_diagnosis_json(const hr_diagnosis *diagnosis, char **out) {
    HR_TRY(hr_handle_check(diagnosis, HR_HANDLE_DIAGNOSIS, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    const long before = hr_memory_wants();
    return hr_value_give(diagnosis_value(diagnosis), before, out);
}
