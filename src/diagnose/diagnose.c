/* The diagnosis: its passes in order.
 *
 * In: a trace, what the device can do. Out: an hr_diagnosis. Every rank is joined and accounted for; the one
 * that is slowest by itself is diagnosed.
 */
#include "diagnose/advice.h"
#include "diagnose/excerpt.h"
#include "diagnose/finding.h"

#include <stdlib.h>
#include <string.h>

/* ---- lanes ---- */

static const hr_trace_device *find_device(const hr_trace *trace, int32_t rank, int32_t id) {
    for (int64_t i = 0; i < trace->devices.count; i++)
        if (trace->devices.items[i].rank == rank && trace->devices.items[i].id == id)
            return &trace->devices.items[i];
    return NULL;
}

/* What was sampled of the device while the steps that count ran. */
static hr_sampled mean_samples(const hr_analysis *analysis) {
    const hr_trace *trace = analysis->trace;
    const hr_steps *steps = &analysis->steps;
    double sum[HR_SAMPLE_KIND_COUNT] = {0}, mean[HR_SAMPLE_KIND_COUNT];
    int64_t count[HR_SAMPLE_KIND_COUNT] = {0}, from = steps->items[steps->first].start,
            to = steps->items[steps->count - 1].end;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (event->kind != HR_EVENT_COUNTER || event->detail < 0 || event->track < 0) continue;
        const hr_track *track = &trace->tracks.items[event->track];
        bool ours = track->is_stream && track->rank == analysis->rank && track->device == analysis->device;
        if (!ours || event->start < from || event->start >= to) continue;
        const hr_sample *sample = &trace->samples.items[event->detail];
        sum[sample->kind] += sample->value;
        count[sample->kind]++;
    }
    for (int i = 0; i < HR_SAMPLE_KIND_COUNT; i++)
        mean[i] = count[i] ? sum[i] / (double)count[i] : -1;
    bool both = count[HR_SAMPLE_DRAM_READ] && count[HR_SAMPLE_DRAM_WRITTEN];
    if (!count[HR_SAMPLE_DRAM] && both)
        mean[HR_SAMPLE_DRAM] = mean[HR_SAMPLE_DRAM_READ] + mean[HR_SAMPLE_DRAM_WRITTEN];
    return (hr_sampled){.samples = count[HR_SAMPLE_SM_ACTIVE],
                        .sm_active = mean[HR_SAMPLE_SM_ACTIVE],
                        .tensor_active = mean[HR_SAMPLE_TENSOR_ACTIVE],
                        .warps_active = mean[HR_SAMPLE_WARPS_ACTIVE],
                        .dram = mean[HR_SAMPLE_DRAM]};
}

static void fill_account(hr_analysis *analysis, hr_lane *lane) {
    const hr_steps *steps = &analysis->steps;
    int counted = steps->count - steps->first, usual = counted - steps->slow_count;
    hr_account account;
    hr_analysis_idle(analysis);
    hr_analysis_account(analysis, &account);
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++) {
        lane->accounted_ns[i] = account.all[i];
        lane->accounted[i] = (double)account.all[i] * 1e-9 / counted;
        if (!steps->slow_count || !usual) continue;
        double more = (double)account.slow[i] * 1e-9 / steps->slow_count -
                      (double)(account.all[i] - account.slow[i]) * 1e-9 / usual;
        if (more <= lane->slow_seconds) continue;
        lane->slow_seconds = more;
        lane->slow_kind = (hr_time_kind)i;
    }
}

static void fill_lane(hr_analysis *analysis, hr_arena *keep, hr_lane *lane) {
    const hr_trace_device *device = find_device(analysis->trace, analysis->rank, analysis->device);
    const hr_steps *steps = &analysis->steps;
    hr_step *items = hr_arena_alloc(keep, (size_t)steps->count * sizeof *items);
    memcpy(items, steps->items, (size_t)steps->count * sizeof *items);
    *lane = (hr_lane){.rank = analysis->rank, .device = analysis->device, .name = device ? device->name : ""};
    lane->steps = *steps;
    lane->steps.items = items;
    lane->integrity = analysis->integrity;
    fill_account(analysis, lane);
    hr_analysis_overlap(analysis, lane);
    lane->sampled = mean_samples(analysis);
}

/* Joins a rank and finds its steps; `device` -1: its busiest one. */
static hr_status analyse(const hr_trace *trace, int32_t rank, int32_t device, hr_analysis *out) {
    *out = (hr_analysis){.trace = trace, .rank = rank, .device = device};
    hr_status status = hr_analysis_join(out);
    if (status == HR_OK) hr_analysis_steps(out);
    return status;
}

static double own_time(const hr_lane *lane) {
    return lane->steps.mean - (lane->communication - lane->hidden_communication);
}

/* A lane a device with work; the slowest one by its own work comes first. */
static hr_status make_lanes(const hr_trace *trace, hr_diagnosis *out) {
    enum { DEVICES = 16 }; /* of a rank; the room of the result counts on it */
    hr_lane *lanes = hr_arena_alloc(out->arena, (size_t)(trace->ranks.count * DEVICES + 1) * sizeof *lanes);
    int count = 0;
    for (int32_t rank = 0; rank < trace->ranks.count; rank++) {
        int32_t devices[DEVICES];
        int device_count = 0;
        for (int64_t i = 0; i < trace->tracks.count; i++) {
            const hr_track *track = &trace->tracks.items[i];
            int known = 0;
            if (track->rank != rank || !track->is_stream || track->id == HR_STREAM_OF_SAMPLES) continue;
            while (known < device_count && devices[known] != track->device)
                known++;
            if (known == device_count && device_count < DEVICES) devices[device_count++] = track->device;
        }
        for (int i = 0; i < device_count || i == 0; i++) {
            hr_analysis analysis;
            hr_status status = analyse(trace, rank, device_count ? devices[i] : -1, &analysis);
            if (status == HR_OK && (analysis.work_count || trace->ranks.count == 1))
                fill_lane(&analysis, out->arena, &lanes[count++]);
            hr_arena_destroy(analysis.arena);
            HR_TRY(status);
        }
    }
    int first = 0;
    for (int i = 1; i < count; i++)
        if (own_time(&lanes[i]) > own_time(&lanes[first])) first = i;
    hr_lane swap = lanes[0];
    lanes[0] = lanes[first];
    lanes[first] = swap;
    out->lanes = out->lane = lanes;
    out->lane_count = count;
    return HR_OK;
}

/* ---- words ---- */

/* What costs most of a step: groups of kinds that have one cure. */
static void write_verdict(const hr_analysis *analysis, hr_diagnosis *out) {
    hr_draft draft = {.analysis = analysis, .keep = out->arena};
    const double *parts = out->lane->accounted;
    double step = analysis->step_seconds, compute = 0, waits = 0;
    int worst = -1, largest = 0;
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++) {
        if (hr_time_kind_group(i) == HR_GROUP_COMPUTE) {
            compute += parts[i];
            if (parts[i] > parts[largest]) largest = i;
        } else {
            waits += parts[i];
            if (worst < 0 || parts[i] > parts[worst]) worst = i;
        }
    }
    const char *first = out->caution ? hr_draft_text(&draft, "%s. As recorded: ", out->caution) : "";
    if (!analysis->work_count) {
        const char *own = hr_own_launches_text(&draft);
        out->verdict = own ? hr_draft_text(&draft, "headroom's own kernels ran on the host: %s", own)
                       : out->caution
                           ? hr_draft_text(&draft, "%s: what is left shows the host alone.", out->caution)
                           : "No work of a device was recorded: this trace shows the host alone.";
        return;
    }
    static const char *const words[HR_TIME_KIND_COUNT] = {
        [HR_TIME_COMMUNICATION] = "communication that no compute hides",
        [HR_TIME_HOST_LINK] = "copies to and from the host",
        [HR_TIME_GAP] = "gaps between kernels that were launched ahead",
        [HR_TIME_QUEUED] = "launched work that waits behind something else",
        [HR_TIME_LAUNCH] = "launches that come too slowly",
        [HR_TIME_SYNCHRONISATION] = "waits of the host for the device",
        [HR_TIME_LOADER] = "input data that comes too late",
        [HR_TIME_HOST] = "other work of the host",
        [HR_TIME_ALLOCATION] = "allocating and freeing of memory",
        [HR_TIME_FIRST_USE] = "loading and compiling of code",
        [HR_TIME_UNRECORDED] = "what was not recorded"};
    if (waits > 0.15 * step)
        out->verdict = hr_draft_text(
            &draft, "%s%s: it computes %.0f %% of a step of %s; %.0f %% goes to %s", first,
            parts[worst] > 0.5 * step ? "The device mostly waits" : "The device waits", 100 * compute / step,
            hr_time_text(step).text, 100 * parts[worst] / step, words[worst]);
    else
        out->verdict =
            hr_draft_text(&draft, "%sThe device computes %.0f %% of a step of %s; most of it, %.0f %%, in %s",
                          first, 100 * compute / step, hr_time_text(step).text, 100 * parts[largest] / step,
                          hr_time_kind_words(largest));
}

/* Whether the recorder stopped the program to read counters while the steps ran that count. */
static bool is_halted(const hr_analysis *analysis) {
    const hr_trace *trace = analysis->trace;
    const hr_steps *steps = &analysis->steps;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (event->kind == HR_EVENT_OVERHEAD && event->track >= 0 &&
            trace->tracks.items[event->track].rank == analysis->rank &&
            event->start >= steps->items[steps->first].host_start &&
            event->start < steps->items[steps->count - 1].host_end &&
            strcmp(hr_trace_string(trace, event->name), HR_OVERHEAD_COUNTERS) == 0)
            return true;
    }
    return false;
}

static bool knows_shapes(const hr_trace *trace) {
    for (int64_t i = 0; i < trace->operators.count; i++)
        if (trace->operators.items[i].shapes >= 0) return true;
    return false;
}

static bool has_collectives(const hr_analysis *analysis) {
    for (int i = 0; i < analysis->work_count; i++)
        if (analysis->works[i].kind == HR_TIME_COMMUNICATION) return true;
    return false;
}

/* A slow kernel whose reads of memory may be scattered: nobody counted them. */
static bool asks_for_sectors(const hr_analysis *analysis) {
    for (int i = 0; i < analysis->kernel_count; i++) {
        const hr_kernel_summary *kernel = &analysis->kernels[i];
        if (kernel->dram_of_peak >= 0 && kernel->sectors_per_load < 0 && kernel->share > 0.1 &&
            kernel->roof_fraction < 0.5)
            return true;
    }
    return false;
}

/* What would have to be recorded to say more. */
static void list_missing(const hr_analysis *analysis, hr_diagnosis *out) {
    const hr_trace *trace = analysis->trace;
    const char **missing = hr_arena_alloc(out->arena, 10 * sizeof *missing);
    const bool works = analysis->work_count > 0;
    int count = 0;
    if (out->record)
        missing[count++] = out->record;
    else if (!works)
        missing[count++] = hr_advice_device_work(analysis);
    if (works && !analysis->call_count)
        missing[count++] =
            "calls of the host: without them nothing can be said of launches, waits and input data";
    if (works && !trace->counters.count && !knows_shapes(trace)) missing[count++] = hr_advice_bytes(analysis);
    if (asks_for_sectors(analysis))
        missing[count++] =
            "sectors a request (`headroom record --counters=replayed`): without them nothing is "
            "said of uncoalesced access";
    if (is_halted(analysis))
        missing[count++] =
            "more steps: the recorder read counters in some of these, and the program stood still "
            "meanwhile, so the times of steps are not its own";
    if (analysis->steps.count == 1 && works)
        missing[count++] = "several steps: of one step nobody knows whether it is usual";
    if ((trace->ranks.count == 1 || out->apart) && has_collectives(analysis))
        missing[count++] =
            "the traces of all ranks: a rank that waits in a collective does not show who is late";
    out->missing = missing;
    out->missing_count = count;
}

/* ---- the whole ---- */

static void keep_kinds(const hr_analysis *analysis, hr_diagnosis *out) {
    size_t count = (size_t)analysis->trace->events.count;
    uint8_t *kinds = hr_arena_alloc(out->arena, count);
    memset(kinds, 255, count);
    for (int i = 0; i < analysis->work_count; i++)
        kinds[analysis->works[i].event] = analysis->works[i].kind;
    out->event_kinds = kinds;
}

static hr_status diagnose_lane(hr_analysis *analysis, const hr_ceiling *ceiling, hr_diagnosis *out) {
    const hr_trace_device *device = find_device(analysis->trace, analysis->rank, analysis->device);
    const hr_trace_device unknown = {.id = -1};
    hr_ceiling_of_product(device ? device : &unknown, &analysis->ceiling);
    if (ceiling) {
        hr_ceiling known = analysis->ceiling;
        analysis->ceiling = *ceiling;
        if (!ceiling->multiprocessors) analysis->ceiling.multiprocessors = known.multiprocessors;
        if (!ceiling->warps) {
            analysis->ceiling.compute = known.compute;
            analysis->ceiling.warps = known.warps;
            analysis->ceiling.threads = known.threads;
            analysis->ceiling.blocks = known.blocks;
            analysis->ceiling.registers = known.registers;
            analysis->ceiling.shared = known.shared;
        }
    }
    out->ceiling = analysis->ceiling;
    memcpy(analysis->accounted, out->lane->accounted, sizeof analysis->accounted);
    analysis->step_seconds = out->lane->steps.mean;
    hr_account account;
    hr_analysis_idle(analysis);
    hr_analysis_account(analysis, &account); /* how much of the steps is each work's alone */
    hr_integrity_judge(analysis, out);
    hr_analysis_kernels(analysis, out->arena);
    out->kernels = analysis->kernels;
    out->kernel_count = analysis->kernel_count;
    hr_analysis_graph(analysis);
    hr_path_piece *path;
    out->path_count = hr_critical_path(analysis, out->arena, &path, out->path_seconds, out->path_idle);
    for (int i = 0; analysis->places && i < out->path_count; i++)
        if (path[i].event >= 0) path[i].event = analysis->places[path[i].event];
    out->path = path;
    HR_TRY(hr_find_all(analysis, out));
    write_verdict(analysis, out);
    list_missing(analysis, out);
    return HR_OK;
}

/* Of a long trace some steps around the chosen one take the whole's place: what follows needs several times
 * its memory. */
static hr_status excerpt_take(hr_analysis *analysis, hr_excerpt *excerpt, hr_diagnosis *out) {
    HR_TRY(hr_excerpt_make(analysis, HR_EXCERPT_EVENTS, excerpt));
    if (!excerpt->places) return HR_OK;
    const hr_trace *whole = analysis->trace;
    int32_t rank = analysis->rank, device = analysis->device;
    int64_t drawn = out->lane->steps.items[out->lane->steps.chosen].host_start;
    hr_arena_destroy(analysis->arena);
    HR_TRY(analyse(&excerpt->trace, rank, device, analysis));
    if (analysis->steps.count - analysis->steps.first < HR_EXCERPT_STEPS / 2) { /* its steps are not those */
        hr_arena_destroy(analysis->arena);
        hr_excerpt_clear(excerpt);
        return analyse(whole, rank, device, analysis);
    }
    analysis->places = excerpt->places;
    for (int i = analysis->steps.first; i < analysis->steps.count; i++)
        if (analysis->steps.items[i].host_start == drawn) analysis->steps.chosen = i;
    out->replayed_steps = analysis->steps.count - analysis->steps.first;
    return HR_OK;
}

static hr_status diagnose_whole(const hr_ceiling *ceiling, hr_diagnosis *out) {
    hr_analysis analysis = {0};
    hr_excerpt excerpt = {.places = NULL};
    hr_status status = analyse(out->trace, out->lane->rank, out->lane->device, &analysis);
    if (status == HR_OK) {
        keep_kinds(&analysis, out);
        hr_analysis_memory(&analysis, out->arena, &out->memory);
        status = excerpt_take(&analysis, &excerpt, out);
    }
    if (status == HR_OK) status = diagnose_lane(&analysis, ceiling, out);
    hr_arena_destroy(analysis.arena);
    hr_excerpt_clear(&excerpt);
    return status;
}

hr_status hr_diagnose_trace(const hr_trace *trace, const hr_ceiling *ceiling, hr_diagnosis **out) {
    if (trace->ranks.count == 0 || trace->events.count == 0)
        return hr_fail(HR_BAD_INPUT, "the trace holds no events; was anything recorded?");
    hr_diagnosis *diagnosis = calloc(1, sizeof *diagnosis);
    if (!diagnosis) return hr_fail(HR_OUT_OF_MEMORY, "out of memory for a diagnosis");
    diagnosis->handle.kind = HR_HANDLE_DIAGNOSIS;
    size_t room =
        ((size_t)64 << 20) + (size_t)trace->events.count * 1400 + (size_t)trace->ranks.count * 65536;
    hr_status status = hr_arena_create(room, &diagnosis->arena);
    diagnosis->trace = trace;
    char apart[256];
    if (status == HR_OK && hr_ranks_apart(trace, apart, sizeof apart))
        diagnosis->apart = hr_arena_copy(diagnosis->arena, apart, strlen(apart));
    if (status == HR_OK) status = make_lanes(trace, diagnosis);
    if (status == HR_OK && diagnosis->lane_count == 0)
        status = hr_fail(HR_BAD_INPUT, "no rank of the trace holds any work of a device");
    if (status == HR_OK) status = diagnose_whole(ceiling, diagnosis);
    if (status != HR_OK) {
        hr_diagnosis_destroy(diagnosis);
        return status;
    }
    *out = diagnosis;
    return HR_OK;
}

void hr_diagnosis_destroy(hr_diagnosis *diagnosis) {
    if (!diagnosis || hr_handle_check(diagnosis, HR_HANDLE_DIAGNOSIS, __func__) != HR_OK) return;
    hr_diagnosis_destroy(diagnosis->after);
    hr_arena_destroy(diagnosis->arena);
    hr_trace_destroy(diagnosis->owned);
    hr_handle_free(diagnosis);
}
