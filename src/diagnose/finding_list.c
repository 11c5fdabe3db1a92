/* The list of findings, and what each is worth.
 *
 * In: an analysis with its graph. Out: findings by falling gain. The gain of one is predicted by replaying
 * the graph with its edits; all together are replayed at once, one after the other, so that nothing is
 * counted twice.
 */
#include "base/saturate.h"
#include "diagnose/advice.h"
#include "diagnose/finding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_GAIN   0.005 /* below, a finding is not worth a line */
#define HEALTHY_GAIN 0.05  /* a program without any gain above it is healthy */
#define UNTIMED_PART 0.5   /* of the works: with more of no duration nothing is predicted */
#define HEALTHY_BUSY 0.8   /* where its device computes so much of the time */

static const hr_finding_row rows[] = {
    {"input-pipeline", "The device waits for input data",
     "Prepare batches in worker processes, ahead of the step that needs them.",
     "DataLoader(..., num_workers=8, pin_memory=True, prefetch_factor=4, persistent_workers=True)",
     "one line", 0.85, hr_find_input_pipeline},
    {"pageable-copy", "Copies from pageable memory hold up the host and run below the link's rate",
     "Keep what is copied in pinned memory and copy it without waiting.",
     "DataLoader(..., pin_memory=True); x = x.to(\"cuda\", non_blocking=True)", "one line", 0.8,
     hr_find_pageable_copy},
    {"copy-bound", "The device waits for copies to and from the host",
     "Copy less, or beside the compute: keep on the device what is used again, send smaller types, copy from "
     "pinned "
     "memory ahead of the step on a stream of its own.",
     "x = x.to(\"cuda\", non_blocking=True)  # on torch.cuda.Stream(), one batch ahead", "a few lines", 0.6,
     hr_find_copies},
    {"blocking-sync", "The host waits for the device inside of the step",
     "Take out what makes the host wait, so that it can launch ahead.",
     "total += loss.detach()  # instead of loss.item(); read it every 100 steps", "a few lines", 0.8,
     hr_find_blocking_sync},
    {"launch-bound", "The device waits for launches",
     "Capture the step in a CUDA graph and launch it as one.",
     "step = torch.compile(step, mode=\"reduce-overhead\")  # or torch.cuda.make_graphed_callables, "
     "torch.cuda.graph",
     "hours", 0.75, hr_find_launch_bound},
    {"queued-work", "Work was launched, and the device stands idle before it",
     "Find what it waits for: an event of another stream, a peer's part of a collective, or work that was "
     "not recorded. "
     "Then let it wait for less.",
     "nsys profile --cuda-graph-trace=node --cuda-event-trace=true  # all streams and devices, graphs by "
     "kernel",
     "hours", 0.3, hr_find_queued},
    {"host-bound", "The device waits for other work of the host",
     "Move that work off the path of the step: to another thread, ahead of time, or to the device.", "",
     "hours", 0.5, hr_find_host_bound},
    {"allocation-churn", "Memory is allocated and freed within the steps",
     "Allocate once and use it again, or let a caching allocator keep it.",
     "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # and no torch.cuda.empty_cache() in the loop",
     "one line", 0.7, hr_find_allocation},
    {"unfused-elementwise", "Elementwise kernels that follow each other move the same data again and again",
     "Fuse them into one kernel.",
     "f = torch.compile(f)  # or write them as one kernel text and call it: headroom emit", "a few lines",
     0.7, hr_find_elementwise},
    {"unfused-normalisation", "A normalisation is written out as many kernels",
     "Use the fused one: one read and one write of the data.",
     "torch.nn.functional.layer_norm / rms_norm / softmax  # or headroom run kernels/layernorm.hr",
     "one line", 0.75, hr_find_normalisation},
    {"unfused-attention", "Attention writes its scores to memory",
     "Use fused attention, which keeps the scores on the chip.",
     "torch.nn.functional.scaled_dot_product_attention(q, k, v)  # in bf16 or f16", "a few lines", 0.7,
     hr_find_attention},
    {"unfused-optimizer", "The optimizer runs a kernel a statement and tensor",
     "Use the fused optimizer: one kernel for many tensors.", "torch.optim.AdamW(parameters, lr, fused=True)",
     "one line", 0.75, hr_find_optimizer},
    {"unbatched-products", "Many small products run one after the other",
     "Put them into one batched product.", "torch.bmm(torch.stack(a), torch.stack(b))", "hours", 0.6,
     hr_find_unbatched},
    {"full-precision-matrix", "Products run in f32 without tensor cores",
     "Let products of f32 run on tensor cores, or run them in bf16.",
     "torch.set_float32_matmul_precision(\"high\")  # or torch.autocast(\"cuda\", dtype=torch.bfloat16)",
     "one line", 0.7, hr_find_full_precision},
    {"misaligned-dimensions", "Sizes of products are no multiples of what tensor cores read",
     "Pad sizes to multiples of 8 (16 for 8-bit types), above all vocabulary and hidden sizes.",
     "vocabulary = (vocabulary + 63) // 64 * 64", "a few lines", 0.45, hr_find_misaligned},
    {"small-batch", "The work of a kernel does not fill the device",
     "Give each step more work: a larger batch, or longer sequences.",
     "DataLoader(..., batch_size=2 * batch_size)", "one line", 0.5, hr_find_small_batch},
    {"low-occupancy", "Too few warps are resident to hide latency",
     "Use blocks of 128 to 256 threads, and bound registers and shared memory.",
     "__launch_bounds__(256, 4)  // on the kernel", "hours", 0.4, hr_find_low_occupancy},
    {"low-bandwidth", "Kernels bound by memory use less than half of its bandwidth",
     "Read and write 16 bytes a thread, neighbours by neighbours, each byte once.",
     "headroom run KERNEL.hr --tune full  # the same math, planned and tuned", "hours", 0.5,
     hr_find_low_bandwidth},
    {"uncoalesced-access", "Threads of a warp read addresses that lie far apart",
     "Let neighbouring threads read neighbouring elements: change the layout, or pass tiles through shared "
     "memory.",
     "", "hours", 0.5, hr_find_uncoalesced},
    {"exposed-communication", "Communication runs with no compute beside it",
     "Overlap it: start each bucket's reduction as soon as its gradients are there, and prefetch parameters.",
     "DistributedDataParallel(model, bucket_cap_mb=50, gradient_as_bucket_view=True)", "hours", 0.5,
     hr_find_communication},
    {"first-use", "Code is loaded or compiled within the steps",
     "Warm up all shapes before the loop, and load code eagerly.", "CUDA_MODULE_LOADING=EAGER", "one line",
     0.7, hr_find_first_use},
};

static const hr_finding_row straggler_row = {"straggler",
                                             "One rank makes the others wait",
                                             "Give each rank the same amount of work; look for a slower "
                                             "device, uneven data or host load on that rank.",
                                             "BucketBatchSampler  # batches of equal length on all ranks",
                                             "days",
                                             0.5,
                                             NULL};

static const hr_finding_row healthy_row = {"healthy",
                                           "No remedy known here would gain more than 5 % of a step",
                                           "Nothing stands out. What is left is the kernels themselves.",
                                           "headroom bench  # how far each kernel is from its floor",
                                           "days",
                                           0.6,
                                           NULL};

static const hr_finding_row incomplete_row = {"incomplete-recording",
                                              "What is missing in the file could change the verdict",
                                              NULL,
                                              "",
                                              "one line",
                                              0.9,
                                              NULL};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* ---- replays ---- */

typedef struct stage {
    const hr_analysis *analysis;
    int64_t *latency, *times;
    int64_t base; /* span of the unchanged replay */
} stage;

static void stage_reset(stage *stage) {
    const hr_graph *graph = &stage->analysis->graph;
    memcpy(stage->latency, graph->latency, (size_t)graph->edge_count * sizeof *stage->latency);
}

static void stage_apply(stage *stage, const hr_draft *draft) {
    for (int i = 0; i < draft->edit_count; i++)
        if (draft->latencies[i] < stage->latency[draft->edges[i]])
            stage->latency[draft->edges[i]] = draft->latencies[i];
}

/* ns of the device's own work that the edits leave: no prediction goes below, whatever overlaps on paper. */
static int64_t work_left(const stage *stage) {
    const hr_analysis *analysis = stage->analysis;
    double left = 0;
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_work *work = &analysis->works[i];
        if (!work->alone || hr_work_priority(work) < 2) continue;
        int edge = hr_graph_edge(&analysis->graph, hr_work_vertex(analysis, i) + 1, HR_EDGE_WORK);
        double whole = (double)(work->end - work->start);
        double now = edge >= 0 ? (double)stage->latency[edge] : whole;
        left += (double)work->alone * (now < whole ? now / whole : 1);
    }
    return (int64_t)left;
}

/* Fraction of the steps that is gained. */
static double stage_gain(stage *stage, int64_t least_span) {
    hr_replay(&stage->analysis->graph, stage->latency, stage->times);
    int64_t span = hr_replay_span(stage->analysis, stage->times), left = work_left(stage);
    if (span < least_span) span = least_span;
    if (span < left) span = left;
    double gain = stage->base > 0 ? 1 - (double)span / (double)stage->base : 0;
    return fmin(1, fmax(0, gain));
}

/* ---- findings ---- */

typedef struct made {
    hr_draft draft;
    const hr_finding_row *row;
    double gain, marginal;
} made;

static void draft_begin(hr_draft *draft, const hr_analysis *analysis, const hr_diagnosis *out) {
    memset(draft, 0, sizeof *draft);
    draft->analysis = analysis;
    draft->diagnosis = out;
    draft->keep = out->arena;
    draft->gain = draft->most_seconds = -1;
}

static int compare_gains(const void *left, const void *right) {
    const made *a = left, *b = right;
    return a->gain != b->gain ? (a->gain < b->gain ? 1 : -1) : (a->row > b->row) - (a->row < b->row);
}

/* Each on top of those before it. */
static double replay_together(stage *stage, made *list, int count) {
    double before = 0, sum = 0;
    int64_t least = 0;
    stage_reset(stage);
    for (int i = 0; i < count; i++) {
        if (list[i].draft.is_bound) continue; /* no prediction */
        if (list[i].draft.gain >= 0) {
            list[i].marginal = fmin(list[i].gain, 1 - sum);
            sum += list[i].marginal;
            continue;
        }
        if (list[i].draft.least_span > least) least = list[i].draft.least_span;
        stage_apply(stage, &list[i].draft);
        double now = stage_gain(stage, least);
        list[i].marginal = fmin(list[i].gain, fmax(0, now - before));
        sum += list[i].marginal;
        before = fmax(before, now);
    }
    return fmin(1, sum);
}

static const char *either(const char *first, const char *second) {
    return first ? first : second;
}

static hr_finding finish(const made *made, hr_arena *keep, double step) {
    const hr_draft *draft = &made->draft;
    const hr_finding_row *row = made->row;
    hr_framework framework = hr_framework_of(draft->analysis);
    size_t evidence = (size_t)draft->evidence_count, events = (size_t)draft->event_count;
    hr_evidence *notes = hr_arena_alloc(keep, evidence * sizeof *notes);
    int32_t *places = hr_arena_alloc(keep, events * sizeof *places);
    memcpy(notes, draft->evidence, evidence * sizeof *notes);
    memcpy(places, draft->events, events * sizeof *places);
    const int32_t *whole = draft->analysis->places;
    for (size_t i = 0; whole && i < evidence; i++)
        if (notes[i].event >= 0) notes[i].event = whole[notes[i].event];
    for (size_t i = 0; whole && i < events; i++)
        places[i] = whole[places[i]];
    return (hr_finding){.id = row->id,
                        .title = row->title,
                        .gain = made->gain,
                        .is_bound = draft->is_bound,
                        .marginal = made->marginal,
                        .seconds_saved = made->gain * step,
                        .confidence = draft->confidence > 0 ? draft->confidence : row->confidence,
                        .remedy = either(draft->remedy, row->remedy),
                        .code = either(draft->code, hr_advice_code(framework, row->id, row->code)),
                        .effort = either(draft->effort, row->effort),
                        .caveat = either(draft->caveat, ""),
                        .evidence = notes,
                        .evidence_count = draft->evidence_count,
                        .events = places,
                        .event_count = draft->event_count};
}

static int detect_all(stage *stage, made *list, const hr_diagnosis *out) {
    const hr_analysis *analysis = stage->analysis;
    hr_arena *arena = analysis->arena;
    size_t room = (size_t)analysis->graph.edge_count + 1;
    int32_t *edges = hr_arena_alloc(arena, room * sizeof *edges);
    int64_t *latencies = hr_arena_alloc(arena, room * sizeof *latencies);
    int count = 0;
    for (int i = 0; i < ROWS; i++) {
        hr_draft *draft = &list[count].draft;
        draft_begin(draft, analysis, out);
        draft->edges = edges; /* shared while it is tried */
        draft->latencies = latencies;
        draft->edit_room = hr_saturate_int((int64_t)room);
        size_t mark = hr_arena_mark(arena);
        rows[i].detect(draft);
        hr_arena_release(arena, mark); /* edits, notes and events lie elsewhere */
        if (!draft->found || !draft->evidence_count) continue;
        stage_reset(stage);
        stage_apply(stage, draft);
        list[count].gain = draft->gain >= 0 ? draft->gain : stage_gain(stage, draft->least_span);
        if (list[count].gain < LEAST_GAIN &&
            draft->otherwise > HEALTHY_GAIN) { /* the host's waits are not in the file */
            list[count].gain = draft->otherwise;
            draft->is_bound = true;
        }
        if (draft->most_seconds >= 0)
            list[count].gain = fmin(list[count].gain, draft->most_seconds / analysis->step_seconds);
        list[count].row = &rows[i];
        if (list[count].gain < LEAST_GAIN) continue;
        size_t edits = (size_t)draft->edit_count;
        draft->edges = hr_arena_alloc(arena, edits * sizeof *edges);
        draft->latencies = hr_arena_alloc(arena, edits * sizeof *latencies);
        memcpy(draft->edges, edges, edits * sizeof *edges);
        memcpy(draft->latencies, latencies, edits * sizeof *latencies);
        count++;
    }
    return count;
}

/* A busy device, and no communication that it waits for. */
static bool is_healthy(const hr_analysis *analysis, const hr_diagnosis *out) {
    return analysis->work_count && out->lane->busy >= HEALTHY_BUSY &&
           analysis->accounted[HR_TIME_COMMUNICATION] <= HEALTHY_GAIN * analysis->step_seconds;
}

hr_status hr_find_all(const hr_analysis *analysis, hr_diagnosis *out) {
    const hr_graph *graph = &analysis->graph;
    hr_arena *arena = analysis->arena, *keep = out->arena;
    stage stage = {.analysis = analysis};
    stage.latency = hr_arena_alloc(arena, (size_t)graph->edge_count * sizeof *stage.latency);
    stage.times = hr_arena_alloc(arena, 2 * (size_t)graph->node_count * sizeof *stage.times);
    stage_reset(&stage);
    hr_replay(graph, stage.latency, stage.times);
    stage.base = hr_replay_span(analysis, stage.times);
    double measured = hr_counted_seconds(analysis);
    out->replay_error = measured > 0 ? fabs((double)stage.base * 1e-9 - measured) / measured : 0;

    made *list = hr_arena_alloc(arena, (ROWS + 2) * sizeof *list);
    bool timed = (double)analysis->integrity.timeless <= UNTIMED_PART * analysis->work_count;
    int count = analysis->work_count && timed ? detect_all(&stage, list, out) : 0;
    draft_begin(&list[count].draft, analysis, out);
    hr_find_straggler(analysis, out, &list[count].draft);
    if (list[count].draft.found && list[count].draft.gain >= LEAST_GAIN) {
        list[count].gain = list[count].draft.gain;
        list[count++].row = &straggler_row;
    }
    qsort(list, (size_t)count, sizeof *list, compare_gains);
    out->combined_gain = replay_together(&stage, list, count);

    hr_finding *findings = hr_arena_alloc(keep, (size_t)(count + 1) * sizeof *findings);
    int made_count = 0;
    made before = {.row = NULL};
    draft_begin(&before.draft, analysis, out);
    if (out->caution) {
        before.row = &incomplete_row;
        before.draft.remedy = hr_draft_text(&before.draft, "Record %s.", out->record);
        hr_draft_note(&before.draft, -1, 0, 0, "%s", out->caution);
    } else if (is_healthy(analysis, out) && (count == 0 || list[0].gain <= HEALTHY_GAIN)) {
        before.row = &healthy_row;
        hr_draft_note(&before.draft, -1, 0, 0, "the device computes %.0f %% of the time",
                      100 * out->lane->busy);
    }
    if (before.row) findings[made_count++] = finish(&before, keep, analysis->step_seconds);
    for (int i = 0; i < count; i++)
        findings[made_count++] = finish(&list[i], keep, analysis->step_seconds);
    out->findings = findings;
    out->finding_count = made_count;
    return HR_OK;
}
