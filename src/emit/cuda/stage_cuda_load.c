/* How the groups that a thread holds get into its registers. In: a stage. Out: text.
 *
 * Loads stand before the first use of any of them. A row that is read several times stays in registers, or
 * waits in shared memory, or is read again; a persistent block may prefetch its next row.
 */
#include "emit/cuda/stage_cuda_elements.h"

#include "base/dtype.h"
#include "emit/cuda/stage_cuda_shared.h"
#include "plan/row_bounds.h"

#include <inttypes.h>
#include <string.h>

/* Whole groups of it may be read though parts of them are of the rows beside: nobody writes to it. */
static bool reads_beyond(const hr_cuda_stage *s, const hr_expr *e) {
    if (s->c->ends != HR_CUDA_ENDS_SHIFTED || !hr_cuda_is_resident(s->c) || hr_cuda_loads_ahead(s->c) ||
        s->c->ends == HR_CUDA_ENDS_STRADDLED)
        return false;
    if (!hr_cuda_whole(s, e->tensor, e->args)) return false;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->stored &&
            s->plan->storage[hr_cuda_statement(s, step)->tensor] == s->plan->storage[e->tensor])
            return false;
    }
    return true;
}

/* One value a column, which groups that begin where the rows of other tensors are aligned meet anywhere. */
static bool reads_across(const hr_cuda_stage *s, const hr_expr *e) {
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    int64_t axis;
    return s->c->ends == HR_CUDA_ENDS_SHIFTED && s->c->position_bits == 32 &&
           s->c->ends != HR_CUDA_ENDS_STRADDLED && tensor->rank == 1 && e->args[0]->op == HR_OP_INDEX &&
           hr_extent_value(s->function, tensor->shape[0], s->extents, &axis) == HR_OK && axis == s->c->row;
}

static void print_staged_load(hr_cuda_stage *s, const hr_expr *e, const char *staged_block) {
    hr_printer *p = s->p;
    const char *place = hr_format(p, "%s + place + pos", staged_block);
    const char *load =
        hr_format(p, "load_staged<%d>(%s, %s)", s->c->vector, place, hr_cuda_block_slot_apart(s));
    if (s->c->ends != HR_CUDA_ENDS_EXACT)
        load = hr_format(p, "inside ? %s : load_part<%d>(%s, 0, %s - pos)", load, s->c->vector, place,
                         hr_cuda_row_end(s));
    hr_print(p, "%s[u] = %s;", s->held[e->id], load);
}

/* Groups that registers hold only while they are used: those that wait in shared memory for a pass that reads
 * them again, and what is the same for every row and comes from the cache. */
static bool is_late(const hr_cuda_stage *s, const hr_expr *e) {
    if (s->c->columns && hr_cuda_is_staged(s->c) && !hr_cuda_is_resident(s->c))
        return hr_cuda_is_staged_element(s, e) || hr_cuda_is_same_shared(s, e);
    return !hr_cuda_is_map(s->c) && hr_cuda_is_resident(s->c) && !hr_cuda_loads_ahead(s->c) &&
           s->c->same != HR_CUDA_SAME_EARLY && s->c->ends != HR_CUDA_ENDS_STRADDLED &&
           !hr_cuda_varies_by_task(s, e);
}

/* How its load treats the caches: cuda_machine.h. Between two uses of a row's weights whole rows pass through
 * the L1 of a multiprocessor. */
static const char *stay_of(const hr_cuda_stage *s, const hr_expr *e) {
    bool input = s->function->tensors[s->plan->storage[e->tensor]].role == HR_ROLE_INPUT;
    if (hr_cuda_leaves_last(s, e->tensor, e->args)) return "stay::in_l2";
    return input && is_late(s, e) ? "stay::in_l1" : "stay::plain";
}

static void print_load(hr_cuda_stage *s, const hr_expr *e, const char *before, const char *index) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    if (hr_cuda_is_staged_element(s, e) || (hr_cuda_is_same_shared(s, e) && !s->loads_ahead)) {
        const char *slot = hr_cuda_slot(s, e, hr_cuda_is_staged_element(s, e) ? "here" : NULL);
        hr_print(p, "%s%s = *(%s);", s->held[e->id], index, slot);
        return;
    }
    const char *staged_block = hr_cuda_block_slot_in(s, e);
    if (staged_block) {
        print_staged_load(s, e, staged_block);
        return;
    }
    const char *held = s->held[e->id];
    const char *type = hr_c_storage(s->function->tensors[e->tensor].dtype);
    const char *aligned = hr_cuda_is_aligned(s, e->tensor, e->args) ? "ALIGNED" : "false";
    const char *place, *valid = NULL;
    if (c->ends == HR_CUDA_ENDS_STRADDLED && !s->one_row) {
        place = hr_format(p, "%s + pos", hr_cuda_whole_base(s, e->tensor));
    } else {
        hr_expr_print_pointer(p, e);
        place = hr_format(p, "%s + %s", hr_expr_pointer(p, e), hr_cuda_group_start(s));
        valid = p->valid[e->id];
    }
    const char *load = hr_format(p, "load_group<%s, %d>(%s, %s)", aligned, c->vector, place, stay_of(s, e));
    if (reads_across(s, e))
        load = hr_format(p, "load_across<ALIGNED, %" PRId64 ", %d>(%s, pos)", c->row, c->vector,
                         hr_emit_tensor(p, e->tensor));
    else if (reads_beyond(s, e))
        load = hr_format(p, "%s ? %s : load_part<%d>(%s, -pos, %s - pos)",
                         hr_cuda_not_after(s, hr_format(p, "pos + %d <= rest", c->vector)), load, c->vector,
                         place, hr_cuda_row_end(s));
    else if (c->ends != HR_CUDA_ENDS_EXACT && !s->one_row)
        load = hr_format(p, "inside ? %s : load_part<%d>(%s, %s, %s - pos)", load, c->vector, place,
                         hr_cuda_is_map(c) ? "0" : "-pos", hr_cuda_row_end(s));
    if (valid) load = hr_format(p, "!%s ? zero_group<%s, %d>() : %s", valid, type, c->vector, load);
    hr_print(p, "%s%s%s = %s;", before, held, index, load);
}

static void name_and_declare(hr_cuda_stage *s, const hr_expr *e, const char *before) {
    hr_printer *p = s->p;
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    if (!s->held[e->id]) s->held[e->id] = hr_format(p, "x%d_%.40s", ++p->number, tensor->name);
    hr_print(p, "group<%s, %d> %s%s[%d]%s;", hr_c_storage(tensor->dtype), s->c->vector, before,
             s->held[e->id], s->c->groups, hr_cuda_block_slot_in(s, e) ? " = {}" : "");
}

static void print_load_loop(hr_cuda_stage *s, const hr_expr *const *elements, int count, const char *before,
                            const char *index) {
    hr_printer *p = s->p;
    for (int i = 0; i < count; i++) {
        if (hr_cuda_block_slot_in(s, elements[i])) continue;
        for (int a = 0; a < elements[i]->arg_count; a++)
            hr_expr_prepare(p, elements[i]->args[a], HR_AT_TASK);
        if (s->c->ends != HR_CUDA_ENDS_STRADDLED) hr_expr_prepare(p, elements[i], HR_AT_TASK);
    }
    hr_cuda_open_groups(s);
    if (s->c->ends != HR_CUDA_ENDS_STRADDLED) hr_cuda_print_group_indices(s);
    for (int i = 0; i < count; i++)
        print_load(s, elements[i], before, index);
    hr_cuda_close(p);
    hr_printer_forget(p, HR_AT_OUTER);
}

void hr_cuda_print_late_loads(hr_cuda_stage *s, int pass) {
    hr_cuda_element_list list = {0};
    hr_printer *p = s->p;
    s->late_count = 0;
    hr_cuda_elements_of_pass(s, pass, &list);
    for (int i = 0; i < list.count && s->late_count < HR_CUDA_STEPS_MAX; i++) {
        const hr_expr *e = list.element[i];
        const hr_tensor *tensor = &s->function->tensors[e->tensor];
        s->held[e->id] = hr_format(p, "x%d_%.40s", ++p->number, tensor->name);
        hr_print(p, "group<%s, %d> %s;", hr_c_storage(tensor->dtype), s->c->vector, s->held[e->id]);
        print_load(s, e, "", "");
        s->late[s->late_count++] = e;
    }
    if (s->late_count && hr_cuda_is_staged(s->c) && !hr_cuda_is_resident(s->c))
        hr_print(p, "keep_order(); /* fewer groups in registers at a time */");
}

void hr_cuda_drop_late_loads(hr_cuda_stage *s) {
    for (int k = 0; k < s->late_count; k++)
        s->held[s->late[k]->id] = NULL;
    s->late_count = 0;
}

/* Brings those that come through shared memory to the front; how many they are. */
static int staged_first(hr_cuda_stage *s, hr_cuda_element_list *list) {
    int count = 0;
    for (int i = 0; i < list->count; i++) {
        const hr_expr *e = list->element[i];
        if (!hr_cuda_block_slot_in(s, e)) continue;
        list->element[i] = list->element[count];
        list->element[count++] = e;
    }
    return count;
}

static void print_staged_loads(hr_cuda_stage *s, const hr_expr *const *elements, int count) {
    hr_printer *p = s->p;
    bool ask = hr_cuda_checks_live(s->c);
    if (ask) hr_print(p, "if (live) {");
    p->indent += ask;
    print_load_loop(s, elements, count, "", "[u]");
    if (ask) hr_cuda_close(p);
}

/* ---- behind the launch before ---- */

typedef struct early_reading {
    hr_cuda_stage *stage;
    bool other; /* something of memory is read that is no group of the row */
} early_reading;

static hr_visit find_other(void *context, const hr_expr *node) {
    early_reading *reading = context;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    const hr_cuda_stage *s = reading->stage;
    bool plain = hr_cuda_is_placeable(s, node) && !hr_element_is_checked(s->function, node);
    for (int a = 0; a < node->arg_count; a++)
        plain = plain && node->args[a]->op == HR_OP_INDEX;
    reading->other |= !plain;
    return HR_VISIT_PAST;
}

/* A block has one row, and the first pass reads nothing before its groups. */
static bool may_wait_late(hr_cuda_stage *s) {
    const hr_cuda_choice *c = s->c;
    hr_row_bounds bounds;
    early_reading reading = {s, false};
    hr_walk walk = {.enter = find_other, .context = &reading};
    if (s->number == 0 || hr_stage_kernels_of(s->plan, s->stage, c).begin || hr_cuda_is_map(c) ||
        c->rows != HR_CUDA_ROWS_HELD || c->ends != HR_CUDA_ENDS_EXACT || c->persistent || c->block_rows > 1 ||
        c->slices > 1 || c->chunks > 1 || hr_cuda_cluster_blocks(c) > 1 || c->totals || c->columns ||
        hr_stage_row_bounds(s->plan, s->stage, &bounds))
        return false;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->pass > 0) continue;
        if (step->kind != HR_STEP_REDUCE_ROW) return false;
        hr_walk_through(&walk, step->value);
    }
    hr_printer_walked(s->p, &walk);
    return !reading.other;
}

/* What of the row no launch of this execution writes, weights say, is asked for in the L2 while the launch
 * before still runs. */
static void print_late_wait(hr_cuda_stage *s, const hr_cuda_element_list *list) {
    hr_printer *p = s->p;
    hr_cuda_element_list early = {0};
    if (!may_wait_late(s)) return;
    for (int i = 0; i < list->count; i++) {
        const hr_expr *e = list->element[i];
        const hr_role role = s->function->tensors[s->plan->storage[e->tensor]].role;
        if (role == HR_ROLE_INPUT && hr_cuda_varies_by_task(s, e)) early.element[early.count++] = e;
    }
    if (!early.count) return;
    for (int i = 0; i < early.count; i++)
        hr_expr_prepare(p, early.element[i], HR_AT_TASK);
    hr_cuda_open_groups(s);
    hr_cuda_print_group_indices(s);
    for (int i = 0; i < early.count; i++) {
        hr_expr_print_pointer(p, early.element[i]);
        hr_print(p, "prefetch_to_l2(%s + %s);", p->pointer[early.element[i]->id], hr_cuda_group_start(s));
    }
    hr_cuda_close(p);
    hr_printer_forget(p, HR_AT_OUTER);
    hr_print(p, "wait_for_launch_before();");
    s->waits_late = true;
}

void hr_cuda_print_loads(hr_cuda_stage *s, int pass) {
    hr_cuda_element_list list = {0};
    hr_cuda_elements_of_pass(s, pass, &list);
    for (int i = 0; i < list.count;)
        if (is_late(s, list.element[i])) {
            for (int a = 0; a < list.element[i]->arg_count; a++)
                hr_expr_prepare(s->p, list.element[i]->args[a], HR_AT_TASK);
            hr_expr_prepare(s->p, list.element[i], HR_AT_TASK);
            list.element[i] = list.element[--list.count];
        } else {
            i++;
        }
    if (!list.count) return;
    for (int i = 0; i < list.count; i++)
        name_and_declare(s, list.element[i], "");
    int staged_block = s->c->rows == HR_CUDA_ROWS_BLOCK ? staged_first(s, &list) : 0;
    if (pass == 0) print_late_wait(s, &list);
    if (staged_block) print_staged_loads(s, list.element, staged_block);
    if (staged_block < list.count)
        print_load_loop(s, list.element + staged_block, list.count - staged_block, "", "[u]");
    if (hr_cuda_is_staged(s->c)) hr_cuda_print_restaging(s, list.element, list.count, pass);
}

void hr_cuda_print_same_loads(hr_cuda_stage *s) {
    hr_cuda_element_list all = {0};
    hr_cuda_all_elements(s, &all);
    int same = 0;
    for (int i = 0; i < all.count; i++)
        if (!hr_cuda_varies_by_task(s, all.element[i]) && hr_cuda_is_placeable(s, all.element[i]))
            all.element[same++] = all.element[i];
    for (int i = 0; i < same; i++)
        name_and_declare(s, all.element[i], "");
    if (same) print_load_loop(s, all.element, same, "", "[u]");
}

/* Elements of the task level that could be loaded a row ahead. */
static hr_visit find_value(void *stage, const hr_expr *node) {
    hr_cuda_stage *s = stage;
    const hr_tensor *tensor = node->op == HR_OP_ELEMENT ? &s->function->tensors[node->tensor] : NULL;
    bool plain = tensor && tensor->rank &&
                 (tensor->role == HR_ROLE_INPUT || s->plan->materialised[node->tensor]) &&
                 !hr_element_is_checked(s->function, node);
    if (!plain || hr_expr_level(s->p, node) != HR_AT_TASK || !hr_cuda_varies_by_task(s, node) ||
        !hr_cuda_is_placeable(s, node) || s->ahead_value_count == HR_CUDA_STEPS_MAX)
        return HR_VISIT_ON;
    s->ahead_value[s->ahead_value_count++] = node;
    return HR_VISIT_PAST;
}

static void print_ahead(hr_cuda_stage *s, void (*print_indices_of_task)(hr_cuda_stage *)) {
    hr_printer *p = s->p;
    s->loads_ahead = true;
    hr_print(p, "if (ahead < tasks) {");
    p->indent++;
    hr_print(p, s->c->columns && hr_cuda_is_staged(s->c) && hr_cuda_is_resident(s->c)
                    ? "const int64_t task = ahead + own_zero();"
                    : "const int64_t task = ahead;");
    print_indices_of_task(s);
    for (int i = 0; i < s->ahead_value_count; i++) {
        const char *text = hr_expr_text(p, s->ahead_value[i]);
        hr_print(p, "ahead_%d = %s;", s->ahead_value[i]->id, text);
    }
    if (s->ahead_count) print_load_loop(s, s->ahead, s->ahead_count, "ahead_", "[u]");
    s->loads_ahead = false;
    hr_cuda_close(p);
    hr_printer_forget(p, HR_AT_TASK);
}

/* The groups that a pass loaded are not in registers any more, only those that were loaded for all rows. */
void hr_cuda_forget_groups(hr_cuda_stage *s) {
    for (int id = 0; id < s->function->expr_count; id++) {
        bool same = false;
        for (int i = 0; i < s->same_count; i++)
            same = same || s->same[i]->id == id;
        if (!same) s->held[id] = NULL;
    }
}

/* What is the same for every row, once: in registers, or in shared memory where they do not suffice. */
static void print_same(hr_cuda_stage *s, const hr_cuda_element_list *same) {
    hr_printer *p = s->p;
    if (!same->count) return;
    s->loads_ahead = true; /* as they do: there is no row in hand yet */
    if (s->c->same == HR_CUDA_SAME_SHARED) {
        for (int i = 0; i < same->count; i++)
            s->held[same->element[i]->id] = hr_format(p, "staged_%d", same->element[i]->id);
        print_load_loop(s, same->element, same->count, "",
                        hr_format(p, "[u * %d + (int)threadIdx.x]", s->c->threads));
        for (int i = 0; i < same->count; i++)
            s->held[same->element[i]->id] = NULL;
    } else {
        for (int i = 0; i < same->count; i++)
            name_and_declare(s, same->element[i], "");
        print_load_loop(s, same->element, same->count, "", "[u]");
        for (int i = 0; i < same->count && s->same_count < HR_CUDA_STEPS_MAX; i++)
            s->same[s->same_count++] = same->element[i];
    }
    s->loads_ahead = false;
}

void hr_cuda_print_first_loads(hr_cuda_stage *s, void (*print_indices_of_task)(hr_cuda_stage *)) {
    hr_printer *p = s->p;
    hr_cuda_element_list list = {0}, same = {0};
    if (hr_cuda_is_staged(s->c))
        hr_cuda_all_elements(s, &list);
    else
        hr_cuda_elements_of_pass(s, 0, &list);
    s->ahead = hr_arena_alloc(p->arena, (size_t)(list.count + 1) * sizeof *s->ahead);
    for (int i = 0; i < list.count; i++) {
        const hr_expr *e = list.element[i];
        if (!hr_cuda_varies_by_task(s, e) && hr_cuda_is_placeable(s, e))
            same.element[same.count++] = e;
        else if (!hr_cuda_is_staged(s->c))
            s->ahead[s->ahead_count++] = e;
    }
    for (int i = 0; i < s->ahead_count; i++)
        name_and_declare(s, s->ahead[i], "ahead_");
    print_same(s, &same);
    hr_walk walk = {.enter = find_value, .context = s};
    for (int i = 0; i < s->stage->step_count; i++)
        hr_walk_through(&walk, s->stage->steps[i].value);
    hr_printer_walked(p, &walk);
    if (!s->ahead_count && !hr_cuda_is_staged(s->c)) s->ahead_value_count = 0;
    if (!s->ahead_count && !s->ahead_value_count) return;
    for (int i = 0; i < s->ahead_value_count; i++)
        hr_print(p, "%s ahead_%d = 0;", hr_c_compute(s->ahead_value[i]->type), s->ahead_value[i]->id);
    print_ahead(s, print_indices_of_task);
}

/* Those of the row in hand. */
static void name_values(hr_cuda_stage *s) {
    for (int i = 0; i < s->ahead_value_count; i++)
        s->p->name[s->ahead_value[i]->id] = hr_format(s->p, "value_%d", s->ahead_value[i]->id);
}

/* Rows that take so long that values loaded after the first exchange are there in time, while those loaded
 * with the row keep the barrier waiting. */
static bool loads_late(const hr_cuda_stage *s) {
    return s->c->same == HR_CUDA_SAME_SHARED && s->ahead_value_count > 0;
}

void hr_cuda_print_next_loads(hr_cuda_stage *s, void (*print_indices_of_task)(hr_cuda_stage *)) {
    hr_printer *p = s->p;
    if (!s->ahead_count && !s->ahead_value_count) return;
    for (int i = 0; i < s->ahead_count; i++) {
        const hr_expr *e = s->ahead[i];
        hr_print(p, "group<%s, %d> %s[%d];", hr_c_storage(s->function->tensors[e->tensor].dtype),
                 s->c->vector, s->held[e->id], s->c->groups);
        hr_print(p, "#pragma unroll");
        hr_print(p, "for (int u = 0; u < %d; u++)", s->c->groups);
        hr_print(p, "    %s[u] = ahead_%s[u];", s->held[e->id], s->held[e->id]);
    }
    for (int i = 0; i < s->ahead_value_count; i++) {
        const hr_expr *e = s->ahead_value[i];
        hr_print(p, "const %s value_%d = ahead_%d;", hr_c_compute(e->type), e->id, e->id);
    }
    if (!loads_late(s)) print_ahead(s, print_indices_of_task);
    name_values(s);
}

void hr_cuda_print_postponed_loads(hr_cuda_stage *s, void (*print_indices_of_task)(hr_cuda_stage *)) {
    if (!loads_late(s)) return;
    hr_printer_forget(s->p, HR_AT_TASK); /* names are of the row in hand */
    print_ahead(s, print_indices_of_task);
    name_values(s);
}

/* ---- elements that stand some places apart from those of the next lane: a channel's taps w[c, k], every
 * other column x[m, 2 * n + 1]; of a stage whose groups lie in one row ----
 *
 * What a group's elements need of them, and of those between, is one run of memory: it is loaded in pieces of
 * 16 bytes, once for all that read it.
 */

enum { APART_MOST = 8, RUN_BYTES_MOST = 128 };

typedef struct apart {
    int64_t by, rest; /* element v of a group is element v * by + rest of the run */
    int axis;         /* the subscript that is the lane's */
} apart;

static bool is_lane(const hr_cuda_stage *s, const hr_expr *e) {
    return e->op == HR_OP_INDEX && e->index == s->p->lane;
}

/* lane * by, lane * by + rest */
static bool is_multiple(const hr_cuda_stage *s, const hr_expr *e, apart *out) {
    if (e->op == HR_OP_ADD && e->args[1]->op == HR_OP_NUMBER) {
        out->rest = e->args[1]->whole;
        e = e->args[0];
    }
    if (e->op != HR_OP_MUL) return false;
    int number = e->args[0]->op == HR_OP_NUMBER ? 0 : 1;
    out->by = e->args[number]->whole;
    return e->args[number]->op == HR_OP_NUMBER && is_lane(s, e->args[1 - number]);
}

/* Nothing stands between it and its memory: no check, no value in hand, no strides. */
static bool is_plain_read(const hr_cuda_stage *s, const hr_expr *e) {
    return e->op == HR_OP_ELEMENT && s->p->lane >= 0 && s->function->tensors[e->tensor].rank > 0 &&
           !hr_element_is_guarded(s->function, e) && !hr_element_is_checked(s->function, e) &&
           !s->p->value[e->tensor] && hr_plan_layout(s->plan, e->tensor) == HR_LAYOUT_DENSE &&
           !hr_stage_makes(s->plan, s->stage, e->tensor);
}

static bool is_apart(const hr_cuda_stage *s, const hr_expr *e, apart *out) {
    if (!is_plain_read(s, e)) return false;
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    int last = tensor->rank - 1;
    *out = (apart){.axis = last};
    if (e->args[last]->op == HR_OP_NUMBER && last > 0 && is_lane(s, e->args[last - 1]) &&
        tensor->shape[last]->op == HR_OP_NUMBER)
        *out = (apart){tensor->shape[last]->whole, e->args[last]->whole, last - 1};
    else if (!is_multiple(s, e->args[last], out))
        return false;
    for (int a = 0; a < tensor->rank; a++)
        if (a != out->axis && hr_expr_level(s->p, e->args[a]) == HR_AT_LANE) return false;
    return out->by > 1 && out->by <= APART_MOST && out->rest >= 0 && out->rest < out->by &&
           out->by * s->c->vector * (int64_t)hr_dtype_size(tensor->dtype) <= RUN_BYTES_MOST;
}

/* The same run: they differ in their place between two lanes alone. */
static bool is_same_run(const hr_expr *e, const apart *a, const hr_expr *other, const apart *b) {
    bool same = e->tensor == other->tensor && a->by == b->by && a->axis == b->axis;
    for (int k = 0; k < e->arg_count && same; k++)
        same = e->args[k] == other->args[k] || k == e->arg_count - 1;
    return same;
}

/* Rows begin at whole pieces of 16 bytes, if the tensor does. */
static bool rows_are_aligned(const hr_cuda_stage *s, const hr_expr *e, const apart *a) {
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    int64_t row = a->axis < tensor->rank - 1 ? a->by : 1, axis, size = (int64_t)hr_dtype_size(tensor->dtype);
    bool known = hr_extent_value(s->function, tensor->shape[a->axis], s->extents, &axis) == HR_OK;
    return known && (a->axis == 0 || axis * row * size % 16 == 0);
}

static const char *print_run(hr_cuda_stage *s, const hr_expr *e, const apart *a) {
    hr_printer *p = s->p;
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    const char *run = hr_format(p, "run%d_%.40s", ++p->number, tensor->name);
    int64_t count = a->by * s->c->vector;
    hr_print(p, "group<%s, %" PRId64 "> %s;", hr_c_storage(tensor->dtype), count, run);
    hr_print(p, "{");
    p->indent++;
    hr_print(p, "const int64_t i = %s;", hr_cuda_group_start(s));
    const char *place = hr_emit_offset(p, e->tensor, e->args, tensor->rank);
    hr_print(p, "%s = load_group<%s, %" PRId64 ">(%s + (%s) - %" PRId64 ", stay::plain);", run,
             rows_are_aligned(s, e, a) ? "ALIGNED" : "false", count, hr_emit_tensor(p, e->tensor), place,
             a->rest);
    hr_cuda_close(p);
    hr_printer_forget(p, HR_AT_LANE);
    return run;
}

static hr_visit find_apart(void *stage, const hr_expr *node) {
    hr_cuda_stage *s = stage;
    apart a, other;
    const char *run = NULL;
    if (s->stash[node->id] || s->held[node->id]) return HR_VISIT_PAST;
    if (!is_apart(s, node, &a)) return HR_VISIT_ON;
    for (int i = 0; i < s->wide_count && !run; i++)
        if (is_apart(s, s->wide[i], &other) && is_same_run(node, &a, s->wide[i], &other))
            run = s->wide_run[i];
    if (s->wide_count == HR_CUDA_STEPS_MAX) return HR_VISIT_PAST;
    s->wide_run[s->wide_count] = run;
    s->wide[s->wide_count++] = node;
    if (!run) s->wide_run[s->wide_count - 1] = print_run(s, node, &a);
    return HR_VISIT_PAST;
}

void hr_cuda_print_wide_loads(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    s->wide_count = 0;
    if (s->c->ends != HR_CUDA_ENDS_EXACT || s->c->vector < 2) return;
    hr_walk walk = {.enter = find_apart, .context = s};
    for (int i = 0; i < s->stage->step_count; i++)
        if (hr_cuda_runs_in(s, &s->stage->steps[i], pass)) hr_walk_through(&walk, s->stage->steps[i].value);
    hr_printer_walked(p, &walk);
    for (int i = 0; i < s->wide_count; i++) {
        const hr_expr *e = s->wide[i];
        apart a = {0};
        is_apart(s, e, &a);
        const char *bits =
            hr_format(p, "element_of(%s, v * %" PRId64 " + %" PRId64 ")", s->wide_run[i], a.by, a.rest);
        p->buffer[e->id] = hr_cuda_value_of(s, e, bits);
    }
}

void hr_cuda_drop_wide_loads(hr_cuda_stage *s) {
    for (int i = 0; i < s->wide_count; i++)
        s->p->buffer[s->wide[i]->id] = NULL;
    s->wide_count = 0;
}
