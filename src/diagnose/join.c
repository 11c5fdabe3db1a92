/* Events of one rank -> device work and host calls, joined.
 *
 * In: the trace's events, sorted by start with host slices nested. Out: works and calls in order of start,
 * each work with its call (by correlation), each call with the operators around it and the host time before
 * it.
 */
#include "diagnose/shapes.h"

#include <math.h>
#include <string.h>

#define DEPTH         192    /* of slices inside slices; deeper ones are not looked at */
#define HANDOFF_NS    100000 /* a thread that is silent for longer may wait for another one */
#define FIRST_CALL_NS 50000000

typedef struct slice {
    int64_t end;
    int32_t event;
    uint8_t bits; /* hr_range_class of it and all around it */
    bool operation;
} slice;

typedef struct stack {
    slice slices[DEPTH];
    int depth;
} stack;

/* Classes of names, looked up once a name. */
typedef struct classes {
    hr_kernel_class *kernels;
    uint8_t *calls, *ranges;
    uint8_t *known; /* 1 kernel, 2 call, 4 range */
    int32_t count;
} classes;

typedef struct counts {
    int64_t works, calls, stretches, names, threads;
} counts;

typedef struct joining {
    hr_analysis *analysis;
    classes classes;
    stack *stacks;      /* a thread */
    int32_t *last_call; /* a thread: its last call, -1 */
    /* Calls that share a correlation, a chain each; by the chain's first call: its last one, the one whose
     * turn it is, and how many calls and works there are. */
    int32_t *same, *same_last, *same_turn, *same_calls, *same_works;
} joining;

static bool is_work(const hr_event *event) {
    return event->kind == HR_EVENT_KERNEL || event->kind == HR_EVENT_COPY || event->kind == HR_EVENT_FILL ||
           event->kind == HR_EVENT_GRAPH;
}

static bool is_slice(const hr_event *event) {
    return event->kind == HR_EVENT_RANGE || event->kind == HR_EVENT_OPERATOR;
}

/* A wait of a thread is a call, whether or not the trace lists it as one too. */
static bool is_call(const hr_event *event) {
    return event->kind == HR_EVENT_CALL || event->kind == HR_EVENT_SYNCHRONISE;
}

static const hr_track *track_of(const hr_trace *trace, const hr_event *event) {
    return event->track >= 0 && event->track < trace->tracks.count ? &trace->tracks.items[event->track]
                                                                   : NULL;
}

/* ---- names ---- */

static bool learn(classes *classes, int32_t name, uint8_t what) {
    if (name < 0 || name >= classes->count) return false;
    bool fresh = !(classes->known[name] & what);
    classes->known[name] |= what;
    return fresh;
}

static hr_kernel_class kernel_class(joining *join, int32_t name) {
    classes *classes = &join->classes;
    if (learn(classes, name, 1))
        classes->kernels[name] = hr_classify_kernel(hr_trace_string(join->analysis->trace, name));
    return name >= 0 ? classes->kernels[name] : (hr_kernel_class){HR_TIME_OTHER, 0};
}

static uint8_t call_class(joining *join, int32_t name) {
    classes *classes = &join->classes;
    if (learn(classes, name, 2))
        classes->calls[name] = (uint8_t)hr_classify_call(hr_trace_string(join->analysis->trace, name));
    return name >= 0 ? classes->calls[name] : HR_CALL_OTHER;
}

static uint8_t range_class(joining *join, int32_t name) {
    classes *classes = &join->classes;
    if (learn(classes, name, 4))
        classes->ranges[name] = (uint8_t)hr_classify_range(hr_trace_string(join->analysis->trace, name));
    return name >= 0 ? classes->ranges[name] : 0;
}

/* ---- the correlation of calls ---- */

static uint64_t slot_of(const hr_analysis *analysis, int64_t key) {
    uint64_t slot = ((uint64_t)key * 0x9e3779b97f4a7c15u) >> 20 & analysis->mask;
    while (analysis->keys[slot] && analysis->keys[slot] != key)
        slot = (slot + 1) & analysis->mask;
    return slot;
}

static bool starts_work(uint8_t kind) {
    return kind == HR_CALL_LAUNCH || kind == HR_CALL_GRAPH_LAUNCH || kind == HR_CALL_COPY;
}

static void correlate(joining *join, int64_t key, int32_t call) {
    hr_analysis *analysis = join->analysis;
    if (!key) return;
    uint64_t slot = slot_of(analysis, key);
    int32_t first = analysis->keys[slot] ? analysis->values[slot] : call;
    if (first == call) {
        analysis->keys[slot] = key;
        analysis->values[slot] = call;
        join->same[call] = -1;
        join->same_last[call] = join->same_turn[call] = call;
        join->same_calls[call] = 1;
        return;
    }
    if (join->same_last[first] == call || !starts_work(analysis->calls[call].kind)) return;
    join->same[join->same_last[first]] = call;
    join->same[call] = -1;
    join->same_last[first] = call;
    join->same_calls[first]++;
    analysis->integrity.repeated++;
}

/* Where calls share a correlation: as many works as calls belong to them in their order, else to the last
 * call before the work. */
static int32_t turn_of(joining *join, int32_t first, const hr_work *work) {
    const hr_host_call *calls = join->analysis->calls;
    int32_t *turn = &join->same_turn[first], now = *turn;
    if (join->same_calls[first] == join->same_works[first]) {
        *turn = join->same[now] >= 0 ? join->same[now] : now;
        return now;
    }
    while (join->same[*turn] >= 0 && calls[join->same[*turn]].start <= work->start)
        *turn = join->same[*turn];
    return *turn;
}

int32_t hr_correlated_call(const hr_analysis *analysis, int64_t correlation) {
    if (!correlation) return -1;
    uint64_t slot = slot_of(analysis, correlation);
    return analysis->keys[slot] ? analysis->values[slot] : -1;
}

/* ---- host ---- */

static void open_slice(joining *join, int thread, const hr_event *event, int32_t index) {
    stack *stack = &join->stacks[thread];
    const hr_trace *trace = join->analysis->trace;
    while (stack->depth && stack->slices[stack->depth - 1].end <= event->start)
        stack->depth--;
    if (stack->depth == DEPTH) return;
    uint8_t around = stack->depth ? stack->slices[stack->depth - 1].bits : 0;
    uint8_t own = range_class(join, event->name);
    bool python = event->kind == HR_EVENT_OPERATOR && event->detail >= 0 &&
                  event->detail < trace->operators.count && trace->operators.items[event->detail].is_python;
    bool is_operation =
        event->kind == HR_EVENT_OPERATOR || strstr(hr_trace_string(trace, event->name), HR_FLOOR_WORD);
    stack->slices[stack->depth++] =
        (slice){event->start + event->duration, index, around | own, is_operation && !python};
    hr_thread *owner = &join->analysis->threads[thread];
    hr_stretch stretch = {event->start, event->start + event->duration};
    if ((own & HR_RANGE_LOADER) && !(around & HR_RANGE_LOADER))
        owner->loader[owner->loader_count++] = stretch;
    if ((own & HR_RANGE_COMPILE) && !(around & HR_RANGE_COMPILE))
        owner->first_use[owner->first_use_count++] = stretch;
}

/* Lazy loading and its kin; what the profiler itself cost is no matter of the program's. */
static void note_overhead(joining *join, int thread, const hr_event *event) {
    const char *name = hr_trace_string(join->analysis->trace, event->name);
    hr_thread *owner = &join->analysis->threads[thread];
    if (!strstr(name, "azy") && !strstr(name, "oad") && !strstr(name, "ompil")) return;
    owner->first_use[owner->first_use_count++] = (hr_stretch){event->start, event->start + event->duration};
}

static void add_call(joining *join, int thread, const hr_event *event, int32_t index) {
    hr_analysis *analysis = join->analysis;
    stack *stack = &join->stacks[thread];
    int32_t last = join->last_call[thread];
    int64_t end = event->start + (event->duration > 0 ? event->duration : 1);
    if (last >= 0 && event->start < analysis->calls[last].end) { /* the driver's part of it */
        if (end > analysis->calls[last].end) analysis->calls[last].end = end;
        correlate(join, event->correlation, last);
        if (event->kind == HR_EVENT_SYNCHRONISE) analysis->calls[last].wait = index;
        return;
    }
    while (stack->depth && stack->slices[stack->depth - 1].end <= event->start)
        stack->depth--;
    int32_t number = analysis->call_count++;
    hr_host_call *call = &analysis->calls[number];
    *call = (hr_host_call){.start = event->start,
                           .end = end,
                           .event = index,
                           .track = event->track,
                           .previous = last,
                           .work = -1,
                           .last_work = -1,
                           .operation = -1,
                           .outer = -1,
                           .step = -1,
                           .wait = -1,
                           .kind = call_class(join, event->name)};
    /* Making a context hides in whatever call comes first. */
    bool plain = call->kind == HR_CALL_OTHER || call->kind == HR_CALL_ALLOCATE;
    if (plain && event->duration > FIRST_CALL_NS) call->kind = HR_CALL_FIRST_USE;
    if (event->kind == HR_EVENT_SYNCHRONISE) {
        call->kind = HR_CALL_SYNCHRONISE;
        call->wait = index;
    }
    if (stack->depth) call->within = stack->slices[stack->depth - 1].bits;
    for (int i = 0; i < stack->depth; i++)
        if (stack->slices[i].operation) {
            if (call->outer < 0) call->outer = stack->slices[i].event;
            call->operation = stack->slices[i].event;
        }
    join->last_call[thread] = number;
    correlate(join, event->correlation, number);
}

/* ---- device ---- */

static hr_time_kind copy_kind(const hr_trace *trace, const hr_event *event) {
    const char *name = hr_trace_string(trace, event->name);
    if (event->kind != HR_EVENT_COPY) return HR_TIME_COPY;
    if (event->detail >= 0 && event->detail < trace->copies.count) {
        const hr_copy *copy = &trace->copies.items[event->detail];
        bool host_from = copy->from == HR_MEMORY_PAGEABLE || copy->from == HR_MEMORY_PINNED;
        bool host_to = copy->to == HR_MEMORY_PAGEABLE || copy->to == HR_MEMORY_PINNED;
        /* a reader that knows one end alone was told of the host and the device */
        bool half_known = (copy->from == HR_MEMORY_DEVICE && copy->to == HR_MEMORY_UNKNOWN) ||
                          (copy->to == HR_MEMORY_DEVICE && copy->from == HR_MEMORY_UNKNOWN);
        if (host_from || host_to || half_known) return HR_TIME_HOST_LINK;
        if (copy->from == HR_MEMORY_PEER || copy->to == HR_MEMORY_PEER) return HR_TIME_COMMUNICATION;
    }
    return strstr(name, "HtoD") || strstr(name, "DtoH") || strstr(name, "Host") || strstr(name, "M2D") ||
                   strstr(name, "D2M")
               ? HR_TIME_HOST_LINK
               : HR_TIME_COPY;
}

/* What the name says, corrected by the ranges and operators that launched it. */
/* What was counted knows better than the name which unit a product runs on: busy multiprocessors whose tensor
 * cores rest. Additions of halves use those a little. */
static void flag_by_counters(const hr_trace *trace, const hr_event *event, hr_work *work) {
    int32_t place = trace->kernels.items[event->detail].counters;
    if (work->kind != HR_TIME_MATRIX || place < 0 || place >= trace->counters.count) return;
    const hr_counters *counters = &trace->counters.items[place];
    bool by_time = isfinite(counters->tensor_active);
    bool on = by_time ? counters->tensor_active > 0.02 : counters->tensor_instructions > 0;
    bool off = by_time ? !on : counters->tensor_instructions == 0;
    bool busy = counters->sm_of_peak > 0.2 && !(counters->dram_of_peak > counters->sm_of_peak);
    if (on) work->flags = (uint16_t)((work->flags & ~(unsigned)HR_WORK_FULL) | HR_WORK_TENSOR);
    if (off && busy) work->flags = (uint16_t)((work->flags & ~(unsigned)HR_WORK_TENSOR) | HR_WORK_FULL);
}

/* What the range around its launch says of a kernel whose name says little. */
static uint8_t kind_within(unsigned within, hr_kernel_class class) {
    const bool vague = class.kind == HR_TIME_OTHER || class.kind == HR_TIME_ELEMENTWISE ||
                       class.kind == HR_TIME_REDUCTION || class.kind == HR_TIME_COPY;
    if ((within & HR_RANGE_OPTIMIZER) && class.kind != HR_TIME_MATRIX) return HR_TIME_OPTIMIZER;
    if (vague && (within & HR_RANGE_ATTENTION)) return HR_TIME_ATTENTION;
    if (vague && (within & HR_RANGE_NORMALISATION)) return HR_TIME_NORMALISATION;
    if (class.kind == HR_TIME_OTHER && (within & HR_RANGE_MATRIX)) return HR_TIME_MATRIX;
    return class.kind;
}

static void classify_work(joining *join, hr_work *work) {
    const hr_analysis *analysis = join->analysis;
    const hr_event *event = &analysis->trace->events.items[work->event];
    unsigned within = work->call >= 0 ? analysis->calls[work->call].within : 0;
    if (event->kind != HR_EVENT_KERNEL) {
        work->kind =
            (uint8_t)(event->kind == HR_EVENT_GRAPH ? HR_TIME_OTHER : copy_kind(analysis->trace, event));
        return;
    }
    bool first = event->name >= 0 && !(join->classes.known[event->name] & 1);
    hr_kernel_class class = kernel_class(join, event->name);
    bool has_detail = event->detail >= 0 && event->detail < analysis->trace->kernels.count;
    work->kind = class.kind;
    work->flags = class.flags | (first ? HR_WORK_FIRST : 0);
    if (has_detail && analysis->trace->kernels.items[event->detail].collective >= 0)
        work->kind = HR_TIME_COMMUNICATION;
    else if (class.kind == HR_TIME_COMMUNICATION)
        return;
    else
        work->kind = kind_within(within, class);
    if (has_detail) flag_by_counters(analysis->trace, event, work);
}

static void add_work(joining *join, const hr_event *event, int32_t index, const hr_track *track) {
    hr_analysis *analysis = join->analysis;
    hr_work *work = &analysis->works[analysis->work_count++];
    int64_t duration = event->duration > 0 ? event->duration : 1;
    *work = (hr_work){.start = event->start,
                      .end = event->start + duration,
                      .event = index,
                      .call = -1,
                      .stream = event->track,
                      .next = -1,
                      .step = -1,
                      .device = track->device};
}

/* What a call waited for, where the trace lists that on a stream. */
static void join_waits(joining *join) {
    hr_analysis *analysis = join->analysis;
    const hr_trace *trace = analysis->trace;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        const hr_track *track = track_of(trace, event);
        if (event->kind != HR_EVENT_SYNCHRONISE || !track || track->rank != analysis->rank) continue;
        int32_t call = hr_correlated_call(analysis, event->correlation);
        if (call >= 0 && analysis->calls[call].wait < 0) analysis->calls[call].wait = (int32_t)i;
    }
}

/* Calls stand in front of their works, but clocks differ: joined once all are known. */
static void join_works(joining *join) {
    hr_analysis *analysis = join->analysis;
    for (int32_t i = 0; i < analysis->work_count; i++) {
        hr_work *work = &analysis->works[i];
        work->call = hr_correlated_call(analysis, analysis->trace->events.items[work->event].correlation);
        if (work->call >= 0) join->same_works[work->call]++;
    }
    for (int32_t i = 0; i < analysis->work_count; i++) {
        hr_work *work = &analysis->works[i];
        if (work->call >= 0) work->call = turn_of(join, work->call, work);
        classify_work(join, work);
        if (work->call < 0) continue;
        hr_host_call *call = &analysis->calls[work->call];
        if (call->work < 0)
            call->work = i;
        else
            analysis->works[call->last_work].next = i;
        call->last_work = i;
    }
}

/* ---- the time before a call ---- */

static int64_t overlap_of(const hr_stretch *stretches, int count, int *cursor, int64_t start, int64_t end) {
    int64_t sum = 0;
    while (*cursor < count && stretches[*cursor].end <= start)
        ++*cursor;
    for (int i = *cursor; i < count && stretches[i].start < end; i++) {
        int64_t from = stretches[i].start > start ? stretches[i].start : start;
        int64_t to = stretches[i].end < end ? stretches[i].end : end;
        if (to > from) sum += to - from;
    }
    return sum < end - start ? sum : end - start;
}

/* A thread that was silent for long while another one launched was waiting for it, as a program's main thread
 * waits for the one that runs the backward pass. */
static void find_handoff(joining *join, int thread, int32_t index) {
    hr_analysis *analysis = join->analysis;
    hr_host_call *call = &analysis->calls[index];
    int64_t since = call->previous >= 0 ? analysis->calls[call->previous].end : INT64_MIN;
    if (call->previous >= 0 && call->start - since < HANDOFF_NS) return;
    int32_t best = -1;
    for (int i = 0; i < analysis->thread_count; i++) {
        int32_t other = join->last_call[i];
        if (i == thread || other < 0 || !analysis->threads[i].launches ||
            analysis->calls[other].end > call->start)
            continue;
        if (analysis->calls[other].end > since) {
            since = analysis->calls[other].end;
            best = other;
        }
    }
    if (best < 0) return;
    if (call->previous >= 0 && call->start - since > (call->start - analysis->calls[call->previous].end) / 2)
        return;
    call->previous = best;
}

static void measure_gaps(joining *join) {
    hr_analysis *analysis = join->analysis;
    int threads = analysis->thread_count;
    int *loader = hr_arena_alloc(analysis->arena, (size_t)threads * sizeof *loader);
    int *first_use = hr_arena_alloc(analysis->arena, (size_t)threads * sizeof *first_use);
    for (int i = 0; i < analysis->call_count; i++)
        if (analysis->calls[i].work >= 0)
            analysis->threads[analysis->thread_of[analysis->calls[i].track]].launches = true;
    for (int i = 0; i < threads; i++)
        join->last_call[i] = -1;
    for (int32_t i = 0; i < analysis->call_count; i++) {
        hr_host_call *call = &analysis->calls[i];
        int thread = analysis->thread_of[call->track];
        hr_thread *owner = &analysis->threads[thread];
        if (owner->launches) find_handoff(join, thread, i);
        join->last_call[thread] = i;
        owner->call_count++;
        if (call->previous < 0) continue;
        int64_t from = analysis->calls[call->previous].end;
        call->gap = call->start - from;
        call->gap_loader = overlap_of(owner->loader, owner->loader_count, &loader[thread], from, call->start);
        call->gap_first_use =
            overlap_of(owner->first_use, owner->first_use_count, &first_use[thread], from, call->start);
        if (call->gap_first_use > call->gap - call->gap_loader)
            call->gap_first_use = call->gap - call->gap_loader;
    }
    for (int i = 0; i < threads; i++) {
        hr_thread *owner = &analysis->threads[i];
        owner->calls = hr_arena_alloc(analysis->arena, (size_t)owner->call_count * sizeof *owner->calls);
        owner->call_count = 0;
    }
    for (int32_t i = 0; i < analysis->call_count; i++) {
        hr_thread *owner = &analysis->threads[analysis->thread_of[analysis->calls[i].track]];
        owner->calls[owner->call_count++] = i;
    }
}

void hr_analysis_first_gaps(hr_analysis *analysis) {
    for (int i = 0; i < analysis->call_count; i++) {
        hr_host_call *call = &analysis->calls[i];
        const hr_thread *owner = &analysis->threads[analysis->thread_of[call->track]];
        int loader = 0, first_use = 0;
        if (call->previous >= 0 || call->start <= analysis->origin || !owner->launches) continue;
        call->gap = call->start - analysis->origin;
        call->gap_loader =
            overlap_of(owner->loader, owner->loader_count, &loader, analysis->origin, call->start);
        call->gap_first_use =
            overlap_of(owner->first_use, owner->first_use_count, &first_use, analysis->origin, call->start);
        if (call->gap_first_use > call->gap - call->gap_loader)
            call->gap_first_use = call->gap - call->gap_loader;
    }
}

/* ---- all of it ---- */

/* Threads are numbered by their first event; stretches are counted to give each thread its room. */
static counts count_events(hr_analysis *analysis, int64_t *stretches) {
    const hr_trace *trace = analysis->trace;
    counts sum = {0};
    analysis->start = INT64_MAX;
    analysis->end = INT64_MIN;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        const hr_track *track = track_of(trace, event);
        if (!track || track->rank != analysis->rank) continue;
        if (event->start < analysis->start) analysis->start = event->start;
        if (event->start + event->duration > analysis->end) analysis->end = event->start + event->duration;
        if (event->name >= sum.names) sum.names = event->name + 1;
        sum.works += is_work(event) && track->is_stream;
        sum.calls += is_call(event) && !track->is_stream;
        if (track->is_stream) continue;
        if (is_slice(event) || event->kind == HR_EVENT_OVERHEAD) {
            stretches[event->track]++;
            sum.stretches++;
        }
        if (analysis->thread_of[event->track] < 0) analysis->thread_of[event->track] = (int32_t)sum.threads++;
    }
    return sum;
}

static void join_allocate(joining *join, const counts *sum, const int64_t *stretches) {
    hr_analysis *analysis = join->analysis;
    hr_arena *arena = analysis->arena;
    size_t names = (size_t)sum->names;
    analysis->shapes = hr_arena_alloc(arena, HR_SHAPES_KNOWN * sizeof *analysis->shapes);
    uint64_t slots = 16;
    while (3 * slots < 4 * (uint64_t)sum->calls) /* at most three quarters full */
        slots *= 2;
    analysis->mask = slots - 1;
    analysis->keys = hr_arena_alloc(arena, slots * sizeof *analysis->keys);
    analysis->values = hr_arena_alloc(arena, slots * sizeof *analysis->values);
    join->classes =
        (classes){hr_arena_alloc(arena, names * sizeof(hr_kernel_class)), hr_arena_alloc(arena, names),
                  hr_arena_alloc(arena, names), hr_arena_alloc(arena, names), (int32_t)names};
    analysis->works = hr_arena_alloc(arena, (size_t)sum->works * sizeof *analysis->works);
    analysis->calls = hr_arena_alloc(arena, (size_t)sum->calls * sizeof *analysis->calls);
    analysis->thread_count = (int)sum->threads;
    analysis->threads = hr_arena_alloc(arena, (size_t)sum->threads * sizeof *analysis->threads);
    join->stacks = hr_arena_alloc(arena, (size_t)sum->threads * sizeof *join->stacks);
    join->last_call = hr_arena_alloc(arena, (size_t)sum->threads * sizeof *join->last_call);
    int32_t **chains[] = {&join->same, &join->same_last, &join->same_turn, &join->same_calls,
                          &join->same_works};
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
        *chains[i] = hr_arena_alloc(arena, (size_t)sum->calls * sizeof **chains[i]);
    for (int i = 0; i < analysis->thread_count; i++)
        join->last_call[i] = -1;
    for (int64_t i = 0; i < analysis->trace->tracks.count; i++) {
        if (analysis->thread_of[i] < 0) continue;
        hr_thread *owner = &analysis->threads[analysis->thread_of[i]];
        owner->track = (int32_t)i;
        owner->loader = hr_arena_alloc(arena, (size_t)stretches[i] * sizeof(hr_stretch));
        owner->first_use = hr_arena_alloc(arena, (size_t)stretches[i] * sizeof(hr_stretch));
    }
}

/* Address space, not memory: what all passes may need for a trace of that size. */
static size_t arena_size(const hr_trace *trace) {
    return ((size_t)64 << 20) + (size_t)trace->events.count * 1400 + (size_t)trace->tracks.count * 16384;
}

hr_status hr_analysis_join(hr_analysis *analysis) {
    const hr_trace *trace = analysis->trace;
    HR_TRY(hr_arena_create(arena_size(trace), &analysis->arena));
    size_t tracks = (size_t)trace->tracks.count;
    int64_t *stretches = hr_arena_alloc(analysis->arena, tracks * sizeof *stretches);
    analysis->thread_of = hr_arena_alloc(analysis->arena, tracks * sizeof *analysis->thread_of);
    for (size_t i = 0; i < tracks; i++)
        analysis->thread_of[i] = -1;
    joining join = {.analysis = analysis};
    counts sum = count_events(analysis, stretches);
    if (sum.works + sum.calls > INT32_MAX / 4)
        return hr_fail(HR_BAD_INPUT,
                       "%lld calls and kernels are more than can be diagnosed at once; record fewer steps",
                       (long long)(sum.works + sum.calls));
    join_allocate(&join, &sum, stretches);
    if (analysis->end < analysis->start) analysis->start = analysis->end = 0;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        const hr_track *track = track_of(trace, event);
        if (!track || track->rank != analysis->rank) continue;
        if (track->is_stream) {
            if (is_work(event)) add_work(&join, event, (int32_t)i, track);
            continue;
        }
        int thread = analysis->thread_of[event->track];
        if (is_slice(event)) open_slice(&join, thread, event, (int32_t)i);
        if (event->kind == HR_EVENT_OVERHEAD) note_overhead(&join, thread, event);
        if (is_call(event)) add_call(&join, thread, event, (int32_t)i);
    }
    join_works(&join);
    join_waits(&join);
    measure_gaps(&join);
    hr_analysis_integrity(analysis);
    hr_infer_loader(analysis);
    hr_infer_optimizer(analysis);
    return HR_OK;
}
