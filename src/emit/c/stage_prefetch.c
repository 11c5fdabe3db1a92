/* What a stage prefetches. In: a pass. Out: text, and what its lanes prefetch. See
 * stage_prefetch.h. */
#include "emit/c/stage_prefetch.h"

#include "base/dtype.h"
#include "emit/c/scratch_c.h"
#include "emit/c/stage_columns.h"
#include "schedule/schedule.h"

#include <inttypes.h>

enum { ROWS_AHEAD = 8192, GATHERED_AHEAD = 16384 }; /* bytes */

/* ---- gathered rows ---- */

/* Printed once a task. The place need not be in range: to prefetch never faults. */
const char *hr_stage_next_row(hr_stage_printer *s, int tensor, hr_expr *const *subscripts, int count) {
    hr_printer *p = s->p, after;
    if (hr_printer_begin(&after, p->plan, p->arena, p->out) != HR_OK)
        return NULL; /* only a prefetch is lost */
    hr_printer_stage(&after, s->stage);
    after.indent = p->indent;
    after.number = p->number;
    after.next_task = true;
    after.used = p->used;
    const char *offset = hr_emit_offset(&after, tensor, subscripts, count);
    p->number = after.number + 1;
    const char *name = hr_format(p, "n%d", p->number);
    hr_print(p, "const %s *const %s = %s + %s;", hr_c_storage(s->function->tensors[tensor].dtype), name,
             hr_emit_tensor(p, tensor), offset);
    hr_printer_end(&after);
    return name;
}

/* The task whose rows are prefetched: GATHERED_AHEAD bytes of rows after this one. */
static void print_next_task(hr_stage_printer *s, const hr_expr *node) {
    const hr_tensor *tensor = &s->function->tensors[node->tensor];
    hr_print(s->p, "const int64_t row = %s * %d;", hr_emit_size(s->p, tensor->shape[1]),
             (int)hr_dtype_size(tensor->dtype));
    hr_print(s->p, "const int64_t ahead = row < 1 || row > %d ? 1 : %d / row;", GATHERED_AHEAD,
             GATHERED_AHEAD);
    hr_print(s->p, hr_cpu_walk_of(s->stage)->gathered
                       ? "const int64_t next = order.tasks[n + ahead < order.count ? n + ahead : n];"
                       : "const int64_t next = task + ahead < tasks ? task + ahead : task;");
}

void hr_stage_next_rows(hr_stage_printer *s, int pass, hr_lane_pass *lanes) {
    const hr_prefetch *prefetch = &hr_cpu_walk_of(s->stage)->prefetch[pass];
    bool any = false;
    for (int i = 0; i < lanes->prefetch_count; i++) {
        s->next_row[i] = NULL;
        if (!prefetch->gathered[i]) continue;
        if (!any) print_next_task(s, lanes->prefetched[i]);
        any = true;
        s->next_row[i] = hr_stage_next_row(s, lanes->prefetched[i]->tensor, lanes->prefetched[i]->args, 1);
    }
    if (any) lanes->prefetch_from = s->next_row;
}

/* ---- the places ---- */

/* The next row or, of short ones, that after ROWS_AHEAD bytes: with less on its way a core waits for memory
 * that others use, too. Elements. */
static const char *next_row_place(const hr_stage_printer *s, const hr_prefetch *prefetch, const char *row) {
    if (prefetch->level == HR_CACHE_FIRST) return row;
    int size = (int)hr_dtype_size(s->function->tensors[prefetch->element[0]->tensor].dtype);
    return hr_format(s->p, "rows_ahead(%s, %d) * (%s)", row, ROWS_AHEAD / size, row);
}

/* Printed once a task, or before all short ones: a division takes as long as many vectors. */
static const char *print_ahead(hr_stage_printer *s, int pass, const char *elements) {
    const char *name = hr_format(s->p, "ahead_%d", pass);
    const char *line = hr_format(s->p, "const int64_t %s = %s;", name, elements);
    if (hr_stage_goes_by(s, HR_LOOP_JAM) && s->ahead_count < HR_STEPS_MAX)
        s->ahead[s->ahead_count++] = line;
    else
        hr_print(s->p, "%s", line);
    return name;
}

/* Of the row that begins at `first`: the lane's own place or, in a pass that prefetches a part of it, the
 * part's: of each run of lanes, where a row has several. A division for each vector would take as long as the
 * vector does. Jammed rows are prefetched at once, before their few vectors. */
static void place_ahead(hr_stage_printer *s, int pass, hr_lane_pass *lanes, const char *first) {
    enum { FRACTION_BITS = 16 };
    hr_printer *p = s->p;
    const int part = lanes->prefetch_part, of = lanes->prefetch_of;
    if (of)
        first = hr_format(p, "%s + %d * (%s) / %d", first, lanes->prefetch_before,
                          hr_emit_index_size(p, p->lane), of);
    const char *begin = print_ahead(s, pass, first);
    lanes->prefetch_first = hr_stage_goes_by(s, HR_LOOP_JAM);
    lanes->prefetch_place =
        lanes->prefetch_first ? begin
        : !of                 ? hr_format(p, "%s + i", begin)
              : hr_format(p, "%s + (%d * i >> %d)", begin, (part << FRACTION_BITS) / of, FRACTION_BITS);
}

/* Of the head of the stages that go together. */
static int64_t strip_of(const hr_stage_printer *s) {
    return hr_cpu_walk_of(&s->plan->stages[hr_schedule_run(s->plan, s->number).first])->strip;
}

void hr_stage_prefetch_place(hr_stage_printer *s, int pass, hr_lane_pass *lanes) {
    hr_printer *p = s->p;
    const hr_cpu_walk *walk = hr_cpu_walk_of(s->stage);
    const hr_prefetch *prefetch = &walk->prefetch[pass];
    if (!prefetch->count || prefetch->ahead == HR_AHEAD_BYTES) return;
    const char *row = hr_stage_row_size(p, s->stage);
    switch (prefetch->ahead) {
    case HR_AHEAD_BYTES:
        break;
    case HR_AHEAD_JAM:
        lanes->prefetch_place = hr_format(p, "%d * (%s) + i", walk->jam, row);
        break;
    case HR_AHEAD_GROUP:
        lanes->prefetch_place =
            hr_format(p, "%d * %s + i", HR_COLUMN_GROUP, walk->strip ? hr_emit_index_size(p, p->lane) : row);
        break;
    case HR_AHEAD_STRIP:
        lanes->prefetch_place = hr_format(p, "%" PRId64 " + i", strip_of(s));
        break;
    case HR_AHEAD_NEXT_ROW:
        place_ahead(s, pass, lanes, next_row_place(s, prefetch, row));
        break;
    case HR_AHEAD_NEXT_GROUP:
        place_ahead(s, pass, lanes, hr_format(p, "%d * (%s)", HR_COLUMN_GROUP, row));
        break;
    }
}

static const char *function_of(hr_cache_level level) {
    return level == HR_CACHE_FIRST ? "prefetch_near" : "prefetch_read";
}

void hr_stage_prefetch(hr_stage_printer *s, int pass, hr_lane_pass *lanes) {
    const hr_prefetch *prefetch = &hr_cpu_walk_of(s->stage)->prefetch[pass];
    if (!prefetch->count) return;
    lanes->prefetch_count = prefetch->count;
    lanes->prefetched = prefetch->element;
    lanes->prefetch = function_of(prefetch->level);
    lanes->prefetch_gathered = function_of(prefetch->gathered_level);
    lanes->prefetch_near = prefetch->near_bytes;
    lanes->prefetch_part = prefetch->part;
    lanes->prefetch_of = prefetch->of;
    lanes->prefetch_before = prefetch->before;
    if (prefetch->ahead == HR_AHEAD_BYTES) lanes->prefetch_bytes = prefetch->bytes;
}
