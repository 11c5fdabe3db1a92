/* Values, passes, lane mode and words of each stage. In: grouped stages. Out: stages that an emitter can
 * print. */
#include "base/dtype.h"
#include "plan/passes.h"
#include "plan/whole_range.h"

#include <stdlib.h>
#include <string.h>

typedef struct scheduler {
    hr_graph *graph;
    const hr_function *function;
    hr_plan *plan;
    const int64_t *extents;
    int *step_of;        /* tensor -> step of the current stage that defines it, -1 elsewhere */
    hr_expr **replaced;  /* by expr id: copies with elements of the same stage replaced */
    signed char *varies; /* by expr id: 1 depends on the lane, 0 does not, -1 not known */
    signed char *tasks;  /* the same for the stage's task indices */
    int id_capacity;
} scheduler;

/* ---- values: elements of the same stage are replaced by what they are ---- */

static hr_expr *replace(scheduler *s, hr_stage *stage, hr_expr *node) {
    bool known = node->id < s->id_capacity;
    if (known && s->replaced[node->id]) return s->replaced[node->id];
    hr_expr *result = node;
    int step = node->op == HR_OP_ELEMENT ? s->step_of[node->tensor] : -1;
    bool is_product =
        stage->contract && node->op == HR_OP_ELEMENT && node->tensor == stage->contract->product;
    if (step >= 0 && stage->steps[step].kind == HR_STEP_ELEMENT && !is_product) {
        const hr_statement *made = &s->function->statements[stage->steps[step].statement];
        result = hr_graph_round(s->graph, s->function->tensors[node->tensor].dtype,
                                replace(s, stage, made->value));
    } else if (node->arg_count) {
        hr_expr *args[HR_AXES_MAX + 2];
        for (int i = 0; i < node->arg_count; i++)
            args[i] = replace(s, stage, node->args[i]);
        result = hr_graph_with_args(s->graph, node, args);
    }
    if (known) s->replaced[node->id] = result;
    return result;
}

static hr_status set_values(scheduler *s, hr_stage *stage) {
    memset(s->replaced, 0, (size_t)s->id_capacity * sizeof *s->replaced);
    for (int t = 0; t < s->function->tensor_count; t++)
        s->step_of[t] = -1;
    for (int i = 0; i < stage->step_count; i++)
        s->step_of[s->function->statements[stage->steps[i].statement].tensor] = i;
    for (int i = 0; i < stage->step_count; i++) {
        hr_step *step = &stage->steps[i];
        const hr_statement *statement = &s->function->statements[step->statement];
        hr_expr *value = statement->value;
        step->subscripts = statement->subscripts;
        if (stage->contract && i == 0)
            value = hr_graph_element(s->graph, statement->tensor, statement->subscript_count,
                                     statement->subscripts);
        else if (hr_op_is_reduction(value->op))
            value = value->args[0];
        step->value = replace(s, stage, value);
        if (statement->accumulate)
            step->target = hr_graph_element(s->graph, statement->tensor, statement->subscript_count,
                                            statement->subscripts);
    }
    return hr_graph_status(s->graph);
}

/* ---- passes ---- */

static bool reads_tensor(const hr_expr *node, int tensor, bool *visited) {
    if (visited[node->id]) return false;
    visited[node->id] = true;
    if (node->op == HR_OP_ELEMENT && node->tensor == tensor) return true;
    for (int i = 0; i < node->arg_count; i++)
        if (reads_tensor(node->args[i], tensor, visited)) return true;
    return false;
}

/* An inout is overwritten in the last pass that reads what it held. */
static hr_status delay_overwrites(scheduler *s, hr_stage *stage) {
    bool *visited = malloc((size_t)s->function->expr_count + 1);
    if (!visited) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    for (int i = 0; i < stage->step_count; i++) {
        int tensor = s->function->statements[stage->steps[i].statement].tensor;
        int memory = s->graph->storage[tensor];
        for (int j = 0; j < stage->step_count && memory != tensor; j++) {
            memset(visited, 0, (size_t)s->function->expr_count);
            if (stage->steps[j].pass > stage->steps[i].pass &&
                reads_tensor(stage->steps[j].value, memory, visited))
                stage->steps[i].pass = stage->steps[j].pass;
        }
    }
    free(visited);
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].pass + 1 > stage->pass_count) stage->pass_count = stage->steps[i].pass + 1;
    return HR_OK;
}

/* ---- lanes ---- */

static bool depends(const hr_expr *node, const int *indices, int count, signed char *known) {
    if (known[node->id] >= 0) return known[node->id];
    bool result = false;
    for (int i = 0; i < count && node->op == HR_OP_INDEX; i++)
        result = result || node->index == indices[i];
    for (int i = 0; i < node->arg_count; i++)
        if (depends(node->args[i], indices, count, known)) result = true;
    known[node->id] = result;
    return result;
}

static bool varies(scheduler *s, const hr_stage *stage, const hr_expr *node) {
    int lane = hr_stage_lane(stage);
    return depends(node, &lane, 1, s->varies);
}

static bool depends_on_task(scheduler *s, const hr_stage *stage, const hr_expr *node) {
    return depends(node, stage->task, stage->task_count, s->tasks);
}

/* lane, lane + c or c + lane or lane - c, where c does not depend on the lane. */
static bool is_lane_plus(scheduler *s, const hr_stage *stage, const hr_expr *e) {
    if (e->op == HR_OP_INDEX) return e->index == hr_stage_lane(stage);
    if (e->op == HR_OP_ADD)
        return (is_lane_plus(s, stage, e->args[0]) && !varies(s, stage, e->args[1])) ||
               (is_lane_plus(s, stage, e->args[1]) && !varies(s, stage, e->args[0]));
    return e->op == HR_OP_SUB && is_lane_plus(s, stage, e->args[0]) && !varies(s, stage, e->args[1]);
}

static bool is_dense(const scheduler *s, int tensor) {
    return hr_plan_layout(s->plan, tensor) != HR_LAYOUT_STRIDED;
}

static bool element_is_lanes(scheduler *s, const hr_stage *stage, const hr_expr *e) {
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    if (!is_dense(s, e->tensor)) return false;
    if (hr_element_is_guarded(s->function, e) && varies(s, stage, e->args[tensor->rank])) return false;
    for (int a = 0; a < tensor->rank; a++) {
        const hr_expr *subscript = e->args[a];
        if (!varies(s, stage, subscript)) continue;
        if (a != tensor->rank - 1 || !is_lane_plus(s, stage, subscript)) return false;
        if (!hr_expr_is_affine(subscript)) return false; /* each element is checked */
        if (hr_element_is_guarded(s->function, e) &&
            !hr_subscript_is_safe(s->function, subscript, tensor->shape[a]))
            return false;
    }
    return true;
}

/* A CPU reads each lane's element on its own and computes with vectors all the same. */
static bool element_is_brought(const scheduler *s, const hr_stage *stage, const hr_expr *e) {
    for (int i = 0; i < stage->step_count; i++)
        if (s->function->statements[stage->steps[i].statement].tensor == e->tensor) return false;
    return !s->plan->limits.compute && hr_plan_layout(s->plan, e->tensor) == HR_LAYOUT_DENSE;
}

/* Whole-number lanes are 32 bits wide: values must provably stay inside that. */
static bool fits_lanes(const scheduler *s, const hr_expr *e) {
    return hr_whole_fits_lanes(s->function, s->extents, e);
}

static bool node_is_lanes(scheduler *s, const hr_stage *stage, const hr_expr *node, bool *visited) {
    if (visited[node->id] || !varies(s, stage, node)) return true;
    visited[node->id] = true;
    if (node->op == HR_OP_ELEMENT)
        return node->type != HR_F64 && node->type != HR_I64 &&
               (element_is_lanes(s, stage, node) || element_is_brought(s, stage, node));
    if (node->type == HR_F64 || (node->type == HR_I64 && !fits_lanes(s, node))) return false;
    if (node->op == HR_OP_CONVERT && node->dtype == HR_F64) return false;
    if (node->op == HR_OP_RANDOM)
        return !varies(s, stage, node->args[0]) && is_lane_plus(s, stage, node->args[1]);
    for (int i = 0; i < node->arg_count; i++) {
        const hr_expr *arg = node->args[i];
        if (arg->type == HR_I64 && !varies(s, stage, arg) && !fits_lanes(s, arg)) return false;
        if (!node_is_lanes(s, stage, arg, visited)) return false;
    }
    return true;
}

static bool step_is_lanes(scheduler *s, const hr_stage *stage, const hr_step *step, bool *visited) {
    const hr_statement *statement = &s->function->statements[step->statement];
    hr_dtype dtype = s->function->tensors[statement->tensor].dtype;
    bool arg = hr_op_finds_position(step->reduce);
    if (step->kind == HR_STEP_SCATTER) return false;
    if (step->kind == HR_STEP_ROW || hr_step_is_row_total(s->plan, stage, step)) return true;
    if (step->reduce && !(stage->contract) && !arg) {
        if (statement->value->type != HR_F32 && statement->value->type != HR_I32) return false;
        if (step->reduce == HR_OP_REDUCE_SUM && statement->value->type != HR_F32) return false;
    }
    if (step->kind == HR_STEP_ELEMENT && step->stored) {
        int last = statement->subscript_count - 1;
        if (dtype == HR_F64 || dtype == HR_I64 || step->value->type == HR_F64) return false;
        if (last < 0 || statement->domain[last] != hr_stage_lane(stage) || !is_dense(s, statement->tensor))
            return false;
    }
    if (step->kind == HR_STEP_ELEMENT && !step->stored) return true; /* part of other values */
    if (step->value->type == HR_I64 && varies(s, stage, step->value) &&
        (step->kind != HR_STEP_ELEMENT || !fits_lanes(s, step->value)))
        return false;
    return node_is_lanes(s, stage, step->value, visited);
}

static hr_status choose_lanes(scheduler *s, hr_stage *stage) {
    size_t ids = (size_t)s->function->expr_count + 1;
    signed char *known = realloc(s->varies, ids * 2);
    bool *visited = calloc(ids, 1);
    if (known) s->varies = known, s->tasks = known + ids;
    if (!known || !visited) {
        free(visited);
        return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    }
    memset(known, -1, ids * 2);
    bool wide = stage->contract && stage->contract->left->type == HR_F64;
    stage->vector = stage->row_count > 0 && !wide;
    for (int i = 0; i < stage->step_count && stage->vector; i++)
        stage->vector = step_is_lanes(s, stage, &stage->steps[i], visited);
    free(visited);
    return HR_OK;
}

/* ---- values kept for a later pass ---- */

/* bf16 is widened as fast as f32 is loaded from a cache that it fills. */
static bool is_narrow_element(const scheduler *s, const hr_expr *node) {
    return node->op == HR_OP_ELEMENT && hr_dtype_size(s->function->tensors[node->tensor].dtype) <= 2 &&
           s->function->tensors[node->tensor].dtype != HR_BF16;
}

static void count_passes(scheduler *s, const hr_stage *stage, hr_expr *node, int pass, int *last, int *uses) {
    if (last[node->id] == pass + 1 || !varies(s, stage, node)) return;
    if (last[node->id]) uses[node->id]++;
    last[node->id] = pass + 1;
    for (int i = 0; i < node->arg_count; i++)
        count_passes(s, stage, node->args[i], pass, last, uses);
}

static bool is_emitted(const hr_step *step) {
    return step->kind != HR_STEP_ELEMENT || step->stored;
}

typedef struct keeping {
    const int *passes, *repeats; /* by expr id: passes that use it, less one in `repeats` */
    int64_t row, budget;         /* elements of a row; bytes of the first-level cache still to spend */
    bool stays;                  /* a kept row is in a cache, beside what is read, when it is needed again */
} keeping;

static void keep(hr_stage *stage, hr_expr *node, bool once) {
    stage->kept_once[stage->kept_count] = once;
    stage->kept[stage->kept_count++] = node;
}

/* What alone uses the node, if that is one other and no step ends with the node; else NULL. */
static hr_expr *only_user(const scheduler *s, const hr_stage *stage, const keeping *k, const hr_expr *node) {
    hr_expr *user = NULL;
    for (int i = 0; i < stage->step_count; i++)
        if (is_emitted(&stage->steps[i]) && stage->steps[i].value == node) return NULL;
    for (int i = 0; i < s->graph->table_size; i++) {
        hr_expr *other = s->graph->table[i];
        for (int a = 0; other && k->passes[other->id] && a < other->arg_count; a++) {
            if (other->args[a] != node) continue;
            if (user && user != other) return NULL;
            user = other;
        }
    }
    return user;
}

/* On a GPU a register holds any value as well as any other: the one that most follows from the node in all
 * passes that need it. A random number's own place would not even be used where it is drawn to be compared.
 */
static hr_expr *most_of(const scheduler *s, const hr_stage *stage, const keeping *k, hr_expr *node) {
    hr_expr *most = node, *user = node;
    while (s->plan->limits.compute && (user = only_user(s, stage, k, user)) && k->repeats[user->id])
        if (user->type == HR_F32) most = user;
    return most;
}

static bool is_kept(const hr_stage *stage, const hr_expr *node) {
    for (int i = 0; i < stage->kept_count; i++)
        if (stage->kept[i] == node) return true;
    return false;
}

/* kind 0: exp and its kin that two passes need. 1: narrow elements that every task widens anew. 2: narrow
 * elements that two passes widen. The first pays wherever a row stays in a cache, the others only within the
 * first-level one. */
static void keep_kind(scheduler *s, hr_stage *stage, keeping *k, int kind) {
    hr_expr **table = s->graph->table;
    for (int i = 0; i < s->graph->table_size && stage->kept_count < HR_KEPT_MAX; i++) {
        hr_expr *node = table[i];
        if (!node || node->type != HR_F32 || !k->passes[node->id]) continue;
        if (kind == 0 && hr_op_is_dear(node->op) && k->repeats[node->id] && k->stays) {
            hr_expr *most = most_of(s, stage, k, node);
            if (!is_kept(stage, most)) keep(stage, most, false);
        }
        if (kind == 0 || stage->skew || !is_narrow_element(s, node) || k->row * 4 > k->budget) continue;
        bool once = stage->task_count > 0 && !depends_on_task(s, stage, node);
        if ((kind == 1) != once || (kind == 2 && !k->repeats[node->id])) continue;
        keep(stage, node, once);
        k->budget -= k->row * 4;
    }
}

/* What is stored as bf16 and needed again, rounded, by a later pass: rounding costs more than reading. */
static void keep_words(scheduler *s, hr_stage *stage, const keeping *k) {
    for (int i = 0; i < s->graph->table_size && stage->kept_count < HR_KEPT_MAX; i++) {
        hr_expr *node = s->graph->table[i];
        bool stored = false;
        if (!node || !hr_expr_is_words(node) || !k->repeats[node->id] || !k->stays) continue;
        for (int j = 0; j < stage->step_count; j++)
            stored = stored || (stage->steps[j].kind == HR_STEP_ELEMENT && stage->steps[j].stored &&
                                stage->steps[j].value == node->args[0]);
        if (stored) keep(stage, node, false);
    }
}

/* f32 rows that all tasks share stand wherever the caller's arrays do, mostly all at the same place of a
 * page, where the first-level cache mixes them up with the task's own row. Where there are two or more,
 * copies a thread at places of our own choice pay once there are some tens of tasks. */
static hr_status keep_copies(scheduler *s, hr_stage *stage, const keeping *k) {
    enum { TASKS_LEAST = 64, SHARED_MOST = HR_KEPT_MAX };
    hr_expr *shared[SHARED_MOST];
    int64_t count = 0, tasks = 1, size, l1 = hr_limits_l1(&s->plan->limits);
    for (int i = 0; i < stage->task_count; i++) {
        HR_TRY(hr_extent_value(s->function, s->function->indices[stage->task[i]].extent, s->extents, &size));
        if (__builtin_mul_overflow(tasks, size, &tasks)) tasks = INT64_MAX;
    }
    for (int i = 0; i < s->graph->table_size && count < SHARED_MOST; i++) {
        hr_expr *node = s->graph->table[i];
        if (!node || node->op != HR_OP_ELEMENT || !k->passes[node->id]) continue;
        const hr_tensor *tensor = &s->function->tensors[node->tensor];
        if (tensor->dtype == HR_F32 && tensor->role == HR_ROLE_INPUT && varies(s, stage, node) &&
            !depends_on_task(s, stage, node))
            shared[count++] = node;
    }
    bool pays = count > 1 && tasks >= TASKS_LEAST && count * k->row * 4 <= l1;
    for (int i = 0; i < count && pays && stage->kept_count < HR_KEPT_MAX; i++)
        keep(stage, shared[i], true);
    return HR_OK;
}

/* ---- passes side by side ---- */

typedef struct flight {
    int *first, *last; /* by expr id: the passes that use it, from 1; 0 = not seen */
    int64_t row;       /* elements */
    int64_t shared;    /* bytes of rows that all tasks read */
    bool late;         /* a pass other than the first reads what none before it did */
} flight;

/* Bytes of the rows in flight, were the passes of several rows to run side by side: what is read or kept
 * stays from the first pass that uses it to the last. */
static int64_t flight_bytes(scheduler *s, const hr_stage *stage, const hr_expr *node, int pass, flight *f) {
    int64_t bytes = 0, since = f->first[node->id] ? pass + 1 - f->first[node->id] : 0;
    if (f->last[node->id] == pass + 1 || !varies(s, stage, node)) return 0;
    f->last[node->id] = pass + 1;
    if (node->op == HR_OP_ELEMENT) {
        int64_t one = f->row * (int64_t)hr_dtype_size(s->function->tensors[node->tensor].dtype);
        if (!f->first[node->id]) bytes += one;
        if (depends_on_task(s, stage, node))
            bytes += since * one, f->late = f->late || (pass && !since);
        else if (!f->first[node->id])
            f->shared += one;
        f->first[node->id] = pass + 1;
    }
    if (hr_op_is_dear(node->op) &&
        since) { /* kept: the row that is written and those that are read; of two one */
        bytes += (since + (hr_stage_turns(stage) > 2)) * f->row * 4;
        f->first[node->id] = pass + 1;
        return bytes;
    }
    if (!f->first[node->id]) f->first[node->id] = pass + 1;
    for (int i = 0; i < node->arg_count; i++)
        bytes += flight_bytes(s, stage, node->args[i], pass, f);
    return bytes;
}

/* It needs passes that each work through a row's lanes in order, and rows that are there when their turn
 * comes. */
static bool can_skew(const hr_stage *stage) {
    bool ends_spared = stage->spare_pass && stage->spare_pass == stage->pass_count - 1;
    if (ends_spared) return false;
    if (!stage->vector || stage->contract || hr_stage_turns(stage) < 2 || stage->row_count != 1 ||
        !stage->task_count)
        return false;
    if (hr_stage_has(stage, HR_STEP_REDUCE_ALL) || hr_stage_has(stage, HR_STEP_SCATTER)) return false;
    for (int i = 0; i < stage->step_count; i++)
        if (hr_expr_draws(stage->steps[i].value)) return false;
    return true;
}

/* Bytes of the sums over tasks that each row adds to. */
static int64_t sum_bytes(const hr_stage *stage, int64_t row) {
    int64_t sums = 0;
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].kind == HR_STEP_REDUCE_COLUMN) sums += row * 4;
    return sums;
}

/* Where the rows in flight leave the first-level cache, rows that all tasks read would come from the second
 * for each task anew: two tasks take each block of columns together, where such rows are two fifths or more
 * of all that is read. So would sums over tasks: two tasks take each up and put it back once, where lanes are
 * narrowed. Where they are not, reads and stores would come in bursts, and a core that does not see far loses
 * more by a second row in flight than it gains; one whose stores wait gains (docs/facts.md). */
static int choose_group(const scheduler *s, const hr_stage *stage, const flight *f, int64_t bytes) {
    enum { GROUP_ROWS = 2, GROUP_ROWS_MOST = 16 };
    int64_t l1 = hr_limits_l1(&s->plan->limits), l2 = hr_limits_l2(&s->plan->limits);
    bool sums = hr_stage_has(stage, HR_STEP_REDUCE_COLUMN);
    bool far = hr_limits_see_far(&s->plan->limits) && !hr_limits_are_short(&s->plan->limits);
    int choice = s->plan->tunables.group, most = sums ? GROUP_ROWS : GROUP_ROWS_MOST;
    if (!stage->skew) return 1;
    if (choice > 0) return choice < most ? choice : most;
    if (bytes + sum_bytes(stage, f->row) <= l1) return 1;
    if (sums)
        return far && (hr_stage_is_narrow(s->plan, stage) || hr_limits_stores_wait(&s->plan->limits))
                   ? GROUP_ROWS
                   : 1;
    if (f->shared * 5 < bytes * 2) return 1;
    return (bytes - f->shared) * GROUP_ROWS + f->shared <= l2 / 4 * 3 ? GROUP_ROWS : 1;
}

/* A core that sees many steps ahead asks its second-level cache for so much at once that lines from memory
 * come late: sums over tasks are what rows ask it for most, once they and the rows in flight are more than
 * half of the first, and groups of tasks. Steps of shorter vectors are more operations, of which it sees no
 * further; those that narrow are more, too, and do not wait for all that was read, nor at all where
 * the core does not see as far. Where stores wait, waiting for reads, too, costs more than it spares. */
static hr_pace choose_pace(const scheduler *s, const hr_stage *stage, int64_t row, int64_t bytes) {
    int64_t sums = sum_bytes(stage, row);
    bool narrow = hr_stage_is_narrow(s->plan, stage);
    int choice = s->plan->tunables.pace;
    if (choice == HR_PACE_ENDED && narrow) choice = HR_PACE_READ;
    if (choice) return choice;
    if (hr_limits_are_short(&s->plan->limits) || hr_limits_stores_wait(&s->plan->limits)) return HR_PACE_FREE;
    if (!sums) return stage->group > 1 ? HR_PACE_READ : HR_PACE_FREE;
    if (bytes + sums <= hr_limits_l1(&s->plan->limits) / 2) return HR_PACE_FREE;
    if (!hr_limits_see_far(&s->plan->limits)) return narrow ? HR_PACE_FREE : HR_PACE_READ;
    return narrow ? HR_PACE_READ : HR_PACE_ENDED;
}

/* Where the rows in flight hardly fit the first-level cache, the last pass walks its row from the end: what
 * the first read last is still there. Not where it reads what no pass read before, which is asked for ahead,
 * nor where it adds up. */
static bool goes_backward(const scheduler *s, const hr_stage *stage, const flight *f, int64_t bytes) {
    int64_t l1 = hr_limits_l1(&s->plan->limits);
    int last = stage->pass_count - 1;
    if (!stage->skew || stage->group > 1 || hr_stage_turns(stage) != 2 || f->late || bytes <= l1 / 4 * 3)
        return false;
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].kind == HR_STEP_REDUCE_COLUMN ||
            (stage->steps[i].kind == HR_STEP_REDUCE_ROW && stage->steps[i].pass == last))
            return false;
    return true;
}

/* Rows in flight come from the second-level cache at least. Where operations are what takes long, two passes
 * at once need more registers than short vectors have. */
static bool pays_to_skew(const scheduler *s, const hr_stage *stage, int64_t bytes) {
    if (hr_stage_is_bound_by_operations(s->plan, stage)) return false;
    return bytes <= hr_limits_l2(&s->plan->limits) / 4 * 3;
}

static hr_status choose_skew(scheduler *s, hr_stage *stage) {
    flight f = {0};
    int64_t bytes = 0;
    int choice = s->plan->tunables.skew;
    if (choice == 1 || s->plan->limits.compute || !can_skew(stage)) return HR_OK;
    HR_TRY(
        hr_extent_value(s->function, s->function->indices[hr_stage_lane(stage)].extent, s->extents, &f.row));
    size_t ids = (size_t)s->function->expr_count + 1;
    f.first = calloc(ids * 2, sizeof *f.first);
    if (!f.first) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    f.last = f.first + ids;
    for (int turn = 0; turn < hr_stage_turns(stage); turn++)
        for (int i = 0; i < stage->step_count; i++)
            if (stage->steps[i].pass == hr_stage_pass_at(stage, turn) && is_emitted(&stage->steps[i]) &&
                stage->steps[i].kind != HR_STEP_ROW)
                bytes += flight_bytes(s, stage, stage->steps[i].value, turn, &f);
    free(f.first);
    stage->skew = choice >= 2 || pays_to_skew(s, stage, bytes);
    stage->group = choose_group(s, stage, &f, bytes);
    stage->pace = choose_pace(s, stage, f.row, bytes);
    stage->backward = goes_backward(s, stage, &f, bytes);
    return HR_OK;
}

/* A map whose rows are fewer than would keep all threads busy, and long enough to be shared out. */
static hr_status find_few(scheduler *s, hr_stage *stage) {
    enum { TASKS_A_THREAD = 4, SHARE_LEAST = 1024 };
    const int64_t threads = hr_limits_threads(&s->plan->limits);
    int64_t row;
    double tasks;
    if (s->plan->limits.compute || !stage->vector || stage->row_count != 1 || !stage->task_count ||
        !hr_stage_has_only(stage, HR_STEP_ELEMENT))
        return HR_OK;
    HR_TRY(hr_extent_value(s->function, s->function->indices[stage->row[0]].extent, s->extents, &row));
    HR_TRY(hr_function_points(s->function, stage->task, stage->task_count, s->extents, &tasks));
    stage->few = tasks < (double)(TASKS_A_THREAD * threads) && row / threads >= SHARE_LEAST;
    return HR_OK;
}

/* Of an element: the value that is kept and what is read beside it. */
enum { KEPT_BYTES = 8 };

static hr_status choose_kept(scheduler *s, hr_stage *stage) {
    keeping k = {.row = 1, .budget = hr_limits_l1(&s->plan->limits) * 2 / 3};
    bool grid = s->plan->limits.compute >
                0; /* registers hold what the passes share: only functions are worth keeping */
    if ((!stage->vector && !grid) || stage->contract) return HR_OK;
    if (stage->gathered || stage->strip) return HR_OK; /* its scratch memory is the order's, or a strip's */
    for (int i = 0; i < stage->row_count; i++) {
        int64_t size;
        HR_TRY(hr_extent_value(s->function, s->function->indices[stage->row[i]].extent, s->extents, &size));
        k.row *= size;
    }
    k.stays = grid || k.row <= hr_limits_kept(&s->plan->limits) / KEPT_BYTES;
    size_t ids = (size_t)s->function->expr_count + 1;
    int *last = calloc(ids * 2, sizeof *last), *repeats = last + ids;
    if (!last) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    stage->kept = hr_arena_alloc(s->graph->arena, HR_KEPT_MAX * sizeof *stage->kept);
    for (int pass = 0; pass < stage->pass_count; pass++)
        for (int i = 0; i < stage->step_count; i++)
            if (stage->steps[i].pass == pass && is_emitted(&stage->steps[i]) &&
                stage->steps[i].kind != HR_STEP_ROW)
                count_passes(s, stage, stage->steps[i].value, pass, last, repeats);
    k.passes = last;
    k.repeats = repeats;
    for (int kind = 0; kind < (grid ? 1 : 3); kind++)
        keep_kind(s, stage, &k, kind);
    if (!grid) keep_words(s, stage, &k);
    if (stage->kept_count) stage->backward = false; /* a kept row lies where the next one is kept, in order */
    hr_status status = grid || stage->row_count != 1 ? HR_OK : keep_copies(s, stage, &k);
    free(last);
    return status;
}

/* Whether reads and stores stay side by side where a row ends, too: it pays where that is more than a small
 * part of the row. Where lanes are narrowed operations have memory wait at times, and what either does alone
 * there makes up for it. */
static bool carries_lead(const scheduler *s, const hr_stage *stage, int64_t row) {
    enum { LEADS_MOST = 16 };
    return row <= (int64_t)stage->lead * LEADS_MOST && stage->group == 1 && !stage->backward &&
           hr_stage_turns(stage) == 2 && !hr_stage_is_narrow(s->plan, stage);
}

/* What is read of memory stands where results have just been stored, but in another page, wherever rows are a
 * multiple of some power of two long, and a core whose stores wait for memory for long has the load wait,
 * too. The first pass leads by some lines: then such stores are nearly a page ago, and where a row ends there
 * is work that does not wait for what is one a row. Then a row is not kept where the one before it was: two
 * of them want room. */
static hr_status choose_lead(scheduler *s, hr_stage *stage) {
    enum { LEAD_BYTES = 512, LEAD_BYTES_NARROW = 768 };
    bool leads = hr_limits_stores_wait(&s->plan->limits) && !hr_limits_are_short(&s->plan->limits);
    bool narrow = hr_stage_is_narrow(s->plan, stage), keeps = hr_stage_keeps_rows(stage);
    int64_t row;
    if (!stage->skew || leads == (s->plan->tunables.skew == 3)) return HR_OK;
    HR_TRY(hr_extent_value(s->function, s->function->indices[hr_stage_lane(stage)].extent, s->extents, &row));
    if (keeps && 2 * row * 4 > hr_limits_l1(&s->plan->limits) / 2) return HR_OK;
    stage->lead = narrow ? (keeps ? LEAD_BYTES : LEAD_BYTES_NARROW) / 2 : LEAD_BYTES / 4;
    stage->carries = carries_lead(s, stage, row);
    return HR_OK;
}

/* ---- words ---- */

static hr_shape shape_of(scheduler *s, const hr_stage *stage) {
    if (stage->contract) return HR_SHAPE_CONTRACT;
    if (hr_stage_has(stage, HR_STEP_SCATTER)) return HR_SHAPE_SCATTER;
    bool contiguous = stage->row_count > 0;
    for (int i = 0; i < stage->step_count && contiguous; i++) {
        const hr_statement *statement = &s->function->statements[stage->steps[i].statement];
        bool element = stage->steps[i].kind == HR_STEP_ELEMENT && stage->steps[i].stored;
        if (element && statement->domain[statement->domain_count - 1] != hr_stage_lane(stage))
            contiguous = false;
    }
    if (!contiguous) return HR_SHAPE_GENERIC;
    if (hr_stage_has(stage, HR_STEP_REDUCE_ROW)) return HR_SHAPE_ROW;
    if (hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) || hr_stage_has(stage, HR_STEP_REDUCE_ALL))
        return HR_SHAPE_COLUMN;
    return HR_SHAPE_MAP;
}

static char *index_names(scheduler *s, const int *set, int count) {
    char *names = hr_arena_format(s->graph->arena, "%s", "");
    for (int i = 0; i < count; i++)
        names = hr_arena_format(s->graph->arena, "%s%s%.20s", names, i ? ", " : "",
                                s->function->indices[set[i]].name);
    return names;
}

static char *tensor_names(scheduler *s, const hr_stage *stage, hr_step_kind kind, bool stored) {
    char *names = hr_arena_format(s->graph->arena, "%s", "");
    int count = 0;
    for (int i = 0; i < stage->step_count && count < 12; i++) {
        if (stage->steps[i].kind != kind || (stored && !stage->steps[i].stored)) continue;
        const hr_tensor *tensor =
            &s->function->tensors[s->function->statements[stage->steps[i].statement].tensor];
        names = hr_arena_format(s->graph->arena, "%s%s%.40s", names, count++ ? ", " : "", tensor->name);
    }
    return names;
}

static const char *bf16_unit_name(const scheduler *s, const hr_stage *stage) {
    const hr_device_limits *limits = &s->plan->limits;
    if ((!limits->matrix_bf16 && !limits->dots_bf16) ||
        !hr_contract_fits(s->function, stage->contract, HR_BF16))
        return "";
    return limits->matrix_bf16 ? ", all bf16: the matrix unit multiplies them"
                               : ", all bf16: vectors multiply them in pairs";
}

static const char *why_of(scheduler *s, const hr_stage *stage) {
    hr_arena *arena = s->graph->arena;
    const char *rows = tensor_names(s, stage, HR_STEP_REDUCE_ROW, false);
    const char *columns = tensor_names(s, stage, HR_STEP_REDUCE_COLUMN, false);
    const char *totals = tensor_names(s, stage, HR_STEP_REDUCE_ALL, false);
    const char *lanes = index_names(s, stage->row, stage->row_count);
    switch (stage->shape) {
    case HR_SHAPE_MAP:
        return hr_arena_format(arena, "no reduction: one pass over the elements%s%s%s%s",
                               stage->written ? ", all of axis " : "", stage->written ? stage->written : "",
                               stage->written ? " at a time" : "",
                               stage->gathered ? "; each thread goes through its tasks in the order of the "
                                                 "rows that they gather"
                                               : "");
    case HR_SHAPE_CONTRACT:
        return hr_arena_format(arena,
                               "a sum of products of two operands with different free indices%s; what "
                               "follows it element by element is its epilogue",
                               bf16_unit_name(s, stage));
    case HR_SHAPE_SCATTER:
        return stage->ordered
                   ? "several elements may add into one place: each thread owns its share of the places "
                     "and goes through them in order"
                   : "several elements may add into one place: each thread owns its share of the places";
    case HR_SHAPE_GENERIC:
        return "no index runs along memory in all of it: plain loops";
    case HR_SHAPE_COLUMN:
        if (stage->strip)
            return hr_arena_format(arena, "%s add%s up over all tasks, a strip of columns at a time", columns,
                                   strchr(columns, ',') ? "" : "s");
        return hr_arena_format(arena,
                               "%s%s%s add up over all tasks: partial sums a thread, combined at the end",
                               columns, *columns && *totals ? ", " : "", totals);
    case HR_SHAPE_ROW:
        break;
    }
    const char *beside = *columns ? hr_arena_format(arena, "; %s add%s up beside it in the same pass",
                                                    columns, strchr(columns, ',') ? "" : "s")
                                  : "";
    return hr_arena_format(arena,
                           "%s need%s the whole row over %s: %d pass%s, a row stays in cache between them%s",
                           rows, strchr(rows, ',') ? "" : "s", lanes, hr_stage_turns(stage),
                           hr_stage_turns(stage) == 1 ? "" : "es", beside);
}

static void describe(scheduler *s, hr_stage *stage) {
    stage->shape = shape_of(s, stage);
    const char *row = index_names(s, stage->row, stage->row_count),
               *task = index_names(s, stage->task, stage->task_count);
    stage->name = hr_arena_format(s->graph->arena, "%s over %s%s%s%s", hr_shape_name(stage->shape),
                                  *row ? row : "one element", *task ? ", a task for each " : "", task,
                                  stage->vector ? "" : ", scalar lanes");
    stage->why = why_of(s, stage);
}

const char *hr_shape_name(hr_shape shape) {
    static const char *const names[] = {"map", "row", "column", "contract", "scatter", "generic"};
    return names[shape];
}

hr_status hr_pass_schedule(hr_graph *graph, const int64_t *extents, hr_plan *plan) {
    scheduler s = {.graph = graph, .function = graph->function, .plan = plan, .extents = extents};
    s.id_capacity = graph->function->expr_count;
    s.step_of = calloc((size_t)s.function->tensor_count + 1, sizeof *s.step_of);
    s.replaced = calloc((size_t)s.id_capacity + 1, sizeof *s.replaced);
    hr_status status = HR_OK;
    if (!s.step_of || !s.replaced) status = hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    for (int i = 0; i < plan->stage_count && status == HR_OK; i++) {
        hr_stage *stage = &plan->stages[i];
        status = set_values(&s, stage);
        if (status == HR_OK) status = delay_overwrites(&s, stage);
        if (status == HR_OK) status = choose_lanes(&s, stage);
        if (status == HR_OK) status = hr_pass_write_out(graph, extents, plan, stage);
        if (status == HR_OK && stage->written) status = choose_lanes(&s, stage);
        bool estimated = status == HR_OK && hr_estimate_peak(graph, plan, stage);
        bool spared = plan->limits.compute || stage->vector;
        if (status == HR_OK && spared && !stage->contract && !estimated) hr_pass_spread(graph, stage);
        if (status == HR_OK) status = choose_skew(&s, stage);
        if (status == HR_OK) status = hr_pass_task_order(graph, extents, plan, stage);
        if (status == HR_OK) status = find_few(&s, stage);
        if (status == HR_OK) status = hr_pass_columns_alone(extents, plan, stage);
        if (status == HR_OK) status = hr_pass_short_rows(graph, extents, plan, stage);
        if (status == HR_OK) status = choose_kept(&s, stage);
        if (status == HR_OK) status = choose_lead(&s, stage);
        if (status == HR_OK) describe(&s, stage);
    }
    free(s.step_of);
    free(s.replaced);
    free(s.varies);
    return status == HR_OK ? hr_graph_status(graph) : status;
}
