/* Steps that ranges mark.
 *
 * In: the ranges of one rank's threads, joined works. Out: boundaries of steps as the host saw them.
 *
 * Ranges of one thread whose names differ in their numbers only are a group. A group is a step where it is
 * the profiler's, where its name says so, or where it fills the time in which the device was given work. A
 * range that occurs once is a step where its name is that of a pass (vLLM's `execute_32_context_15`, SGLang's
 * `step[DECODE bs=8]`, TensorRT's `ExecutionContext::enqueueV3`) and it holds the work. Layers are no steps.
 */
#include "diagnose/analysis.h"

#include <ctype.h>
#include <string.h>

/* How surely a group of ranges is a step. */
typedef enum mark {
    MARK_NOT,
    MARK_OPTIMIZER, /* a step ends with it */
    MARK_RANGE,     /* any other range */
    MARK_NAMED,     /* by its name */
    MARK_PROFILER
} mark;

typedef struct group {
    uint64_t key; /* 0 = free */
    int64_t total, first, last_end;
    int32_t name, count, track;
    bool overlaps, is_pass;
    mark mark;
} group;

#define GROUP_SLOTS 4096
#define PASS_HOLDS  0.05 /* of the works, where nothing else is a step */
#define HOLDS       0.8  /* of the works: a range that holds so many is a step though it occurs once */

static bool begins_word(const char *name, const char *at) {
    return at == name || !isalpha((unsigned char)at[-1]) ||
           (islower((unsigned char)at[-1]) && isupper((unsigned char)at[0]));
}

/* Whether a word of the name is that word; `prefix`: or begins with it. "TransformerBlock" has two words. */
static bool has_word(const char *name, const char *word, bool prefix) {
    size_t length = strlen(word);
    for (const char *at = name; *at; at++)
        if (strncasecmp(at, word, length) == 0 && begins_word(name, at) &&
            (prefix || !islower((unsigned char)at[length])))
            return true;
    return false;
}

static bool has_any(const char *name, const char *const *words, bool prefix) {
    for (int i = 0; words[i]; i++)
        if (has_word(name, words[i], prefix)) return true;
    return false;
}

static bool is_pass(const char *name) {
    static const char *const words[] = {"execute", "enqueue",  "step[",   "forward", "infer", "inference",
                                        "predict", "generate", "prefill", "decode",  NULL};
    return has_any(name, words, false) || strncmp(name, "step[", 5) == 0;
}

static mark mark_of(const hr_event *event, const char *name, unsigned bits) {
    static const char *const steps[] = {"step",  "iter",       "batch",   "train",
                                        "frame", "epoch_step", "execute", NULL};
    static const char *const layers[] = {"layer",     "layers", "block", "encoder", "decoder",
                                         "attention", "attn",   "mlp",   NULL};
    if (strncmp(name, "ProfilerStep", 12) == 0) return MARK_PROFILER;
    if (bits & HR_RANGE_OPTIMIZER) return strstr(name, "zero_grad") ? MARK_NOT : MARK_OPTIMIZER;
    if (event->kind != HR_EVENT_RANGE || (bits & HR_RANGE_LOADER) || strncmp(name, "nccl:", 5) == 0)
        return MARK_NOT;
    if (has_any(name, steps, true)) return MARK_NAMED;
    bool is_part =
        has_any(name, layers, false) || strncmp(name, "nn.Module", 9) == 0 || strstr(name, ", op_id");
    return is_part ? MARK_NOT : is_pass(name) ? MARK_NAMED : MARK_RANGE;
}

/* Of the name without its numbers and what stands in brackets. */
static uint64_t group_key(const char *name, int32_t track) {
    uint64_t key = 1469598103934665603u ^ (uint64_t)track;
    int depth = 0;
    for (const char *at = name; *at; at++) {
        depth += *at == '(' || *at == '[';
        bool number =
            isdigit((unsigned char)*at) || (*at == '.' && at > name && isdigit((unsigned char)at[-1]));
        if (depth <= 0 && !number) key = (key ^ (unsigned char)*at) * 1099511628211u;
        depth -= (*at == ')' || *at == ']') && depth > 0;
    }
    return key | 1;
}

static group *group_find(group *groups, uint64_t key) {
    for (uint64_t slot = key % GROUP_SLOTS, tries = 0; tries < 64; slot = (slot + 1) % GROUP_SLOTS, tries++)
        if (!groups[slot].key || groups[slot].key == key) return &groups[slot];
    return NULL;
}

static bool is_candidate(const hr_analysis *analysis, const hr_event *event) {
    const hr_trace *trace = analysis->trace;
    if (event->kind != HR_EVENT_RANGE && event->kind != HR_EVENT_OPERATOR) return false;
    if (event->duration <= 0 || event->track < 0 || event->track >= trace->tracks.count) return false;
    const hr_track *track = &trace->tracks.items[event->track];
    return track->rank == analysis->rank && !track->is_stream;
}

/* Names repeat: the last ones are remembered by their number. */
typedef struct marks {
    int32_t names[1024]; /* 2 * name + operator + 1, 0 = free */
    uint8_t of[1024];
} marks;

static mark marks_find(marks *marks, const hr_trace *trace, const hr_event *event) {
    const char *name = hr_trace_string(trace, event->name);
    bool is_operator = event->kind == HR_EVENT_OPERATOR;
    if (is_operator && name[0] != 'P' && name[0] != 'O') return MARK_NOT;
    int32_t key = 2 * event->name + is_operator + 1, slot = key & 1023;
    if (marks->names[slot] != key) {
        marks->names[slot] = key;
        marks->of[slot] = (uint8_t)mark_of(event, name, hr_classify_range(name));
    }
    mark mark = (enum mark)marks->of[slot];
    return is_operator && mark != MARK_PROFILER && mark != MARK_OPTIMIZER ? MARK_NOT : mark;
}

static void groups_collect(const hr_analysis *analysis, group *groups) {
    const hr_trace *trace = analysis->trace;
    marks marks = {0};
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (!is_candidate(analysis, event)) continue;
        const char *name = hr_trace_string(trace, event->name);
        mark mark = marks_find(&marks, trace, event);
        if (mark == MARK_NOT) continue;
        group *group = group_find(groups, group_key(name, event->track));
        if (!group) continue;
        if (!group->key)
            *group = (struct group){.key = group_key(name, event->track),
                                    .first = event->start,
                                    .last_end = event->start,
                                    .name = event->name,
                                    .track = event->track,
                                    .is_pass = is_pass(name),
                                    .mark = mark};
        if (event->start < group->last_end) group->overlaps = true;
        group->last_end = event->start + event->duration;
        group->total += event->duration;
        group->count++;
    }
}

/* Ranges that are no step by name must cover most of the time in which the device was given work. */
static bool is_step(const hr_analysis *analysis, const group *group) {
    if (group->mark == MARK_PROFILER) return true;
    double inside = hr_launched_part(analysis, group->first, group->last_end);
    if (group->count == 1) return group->is_pass && inside >= 0.5;
    double filled = (double)group->total / (double)(group->last_end - group->first);
    return inside >= 0.5 && (group->mark < MARK_RANGE || filled >= (group->mark == MARK_NAMED ? 0.3 : 0.6));
}

/* The surest group; of equals the one whose ranges are longest. */
static const group *groups_best(const hr_analysis *analysis, const group *groups, mark least, mark most) {
    const group *best = NULL;
    for (int i = 0; i < GROUP_SLOTS; i++) {
        const group *group = &groups[i];
        if (!group->key || group->overlaps) continue;
        if (group->mark < least || group->mark > most || !is_step(analysis, group)) continue;
        double mean = (double)group->total / group->count;
        if (!best || group->mark > best->mark ||
            (group->mark == best->mark && mean > (double)best->total / best->count))
            best = group;
    }
    return best;
}

/* The shortest range that holds the work, else the pass that holds most of it: what a program does before its
 * one execution, it does to be ready for it. */
static const group *groups_once(const hr_analysis *analysis, const group *groups) {
    const group *best = NULL, *pass = NULL;
    double most = PASS_HOLDS;
    for (int i = 0; i < GROUP_SLOTS; i++) {
        const group *group = &groups[i];
        if (!group->key || group->count != 1 || group->mark < MARK_RANGE) continue;
        double inside = hr_launched_part(analysis, group->first, group->last_end);
        if (inside >= HOLDS && (!best || group->total < best->total)) best = group;
        if (!group->is_pass || inside < most) continue;
        most = inside;
        pass = group;
    }
    return best ? best : pass;
}

/* Starts of the ranges and the last one's end, or their ends for the optimizer. */
static void bounds_take(const hr_analysis *analysis, const group *group, hr_bounds *out) {
    const hr_trace *trace = analysis->trace;
    int count = 0;
    bool ends = group->mark == MARK_OPTIMIZER;
    out->times = hr_arena_alloc(analysis->arena, (size_t)(group->count + 2) * sizeof *out->times);
    out->track = group->track;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (event->track != group->track || !is_candidate(analysis, event)) continue;
        if (group_key(hr_trace_string(trace, event->name), event->track) != group->key) continue;
        if (count == group->count) break;
        out->times[count++] = event->start + (ends ? event->duration : 0);
    }
    if (!ends && count) {
        /* What lies between ranges belongs to the step before it; of the last one nobody knows. */
        double outside = 1 - (double)group->total / (double)(group->last_end - group->first);
        if (count < 3 || outside < 0.02) out->times[count++] = group->last_end;
    }
    out->count = count - 1;
}

bool hr_marked_steps(const hr_analysis *analysis, hr_step_marks marks, hr_bounds *out) {
    group *groups = hr_arena_alloc(analysis->arena, GROUP_SLOTS * sizeof *groups);
    groups_collect(analysis, groups);
    const group *best = marks == HR_MARKS_STEPS ? groups_best(analysis, groups, MARK_RANGE, MARK_PROFILER)
                        : marks == HR_MARKS_OPTIMIZER
                            ? groups_best(analysis, groups, MARK_OPTIMIZER, MARK_OPTIMIZER)
                            : groups_once(analysis, groups);
    if (!best) return false;
    bounds_take(analysis, best, out);
    out->found_by = best->mark == MARK_PROFILER    ? "the profiler's steps"
                    : best->mark == MARK_OPTIMIZER ? "the optimizer's ranges"
                    : best->count == 1             ? "the range around the work"
                                                   : "ranges of the program";
    return out->count > 0;
}
