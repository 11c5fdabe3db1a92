/* A plan as one C file. In: a plan. Out: the source and the header of its public function.
 *
 * The file, top to bottom: what it is and how to call it, the prelude's sections in use, the arguments, one
 * static function a stage, the public function, and for the loader hr_entry().
 */
#include "base/dtype.h"
#include "emit/assumptions.h"
#include "emit/c/attend_c.h"
#include "emit/c/emit_c_contract.h"
#include "emit/c/file_text.h"
#include "emit/c/function_c.h"
#include "emit/c/list_c.h"
#include "emit/c/stage_area.h"
#include "emit/c/stage_c.h"
#include "emit/c/stage_order.h"
#include "emit/c/stage_scatter.h"
#include "emit/describe.h"
#include "emit/emit.h"
#include "emit/list_emit.h"
#include "emit/prelude.h"
#include "emit/template.h"
#include "emit/templates/cpu/shares.h"
#include "schedule/cpu/contract_choice.h"

#include <string.h>

typedef struct emitter {
    const hr_plan *plan;
    const hr_function *function;
    hr_printer printer;
    hr_printer *p;
    const char *name;              /* of the public function */
    int declared;                  /* parameters and results */
    hr_stage_functions *functions; /* of each stage */
} emitter;

static bool is_strided(const emitter *e, int tensor) {
    return e->plan->layouts[tensor] == HR_LAYOUT_STRIDED;
}

/* ---- the public function's declaration ---- */

static void print_parameters(emitter *e, const char *before_each) {
    hr_printer *p = e->p;
    hr_text *out = p->out;
    for (int i = 0; i < e->function->extent_count; i++)
        hr_text_format(out, "int64_t %s, ", hr_emit_extent(p, i));
    for (int t = 0; t < e->declared; t++) {
        const hr_tensor *tensor = &e->function->tensors[t];
        hr_text_format(out, "%s", before_each);
        if (hr_tensor_is_scalar(tensor))
            hr_text_format(out, "%s %s, ", hr_c_compute(hr_compute_type(tensor->dtype)),
                           hr_emit_tensor(p, t));
        else
            hr_text_format(out, "%s%s *%s, ", tensor->role == HR_ROLE_INPUT ? "const " : "",
                           hr_c_storage(tensor->dtype), hr_emit_tensor(p, t));
        if (is_strided(e, t)) hr_text_format(out, "const int64_t *%s_strides, ", hr_emit_tensor(p, t));
    }
}

static void print_signature(emitter *e) {
    hr_text_format(e->p->out, "int %s(", e->name);
    print_parameters(e, "");
    hr_text_format(e->p->out, "void *scratch, int threads)");
}

static void print_size_signature(emitter *e) {
    hr_text_format(e->p->out, "int64_t %s_scratch(", e->name);
    for (int i = 0; i < e->function->extent_count; i++)
        hr_text_format(e->p->out, "int64_t %s, ", hr_emit_extent(e->p, i));
    hr_text_format(e->p->out, "int threads)");
}

static void print_part_signature(emitter *e) {
    hr_text_format(e->p->out, "int %s_part(", e->name);
    print_parameters(e, "");
    hr_text_format(e->p->out, "void *scratch, void *team, int part, int parts)");
}

static void print_team_signature(emitter *e) {
    hr_text_format(e->p->out, "int64_t %s_team(int parts)", e->name);
}

static void print_how_to_call(emitter *e) {
    hr_printer *p = e->p;
    hr_emit_describe(p, e->name);
    hr_print(p,
             " * scratch: %s_scratch(...) bytes aligned to 64, or NULL where that is 0. threads: at least 1.",
             e->name);
    hr_print(p, " * Returns 0, or the number of the access (1 and up) whose subscript left its axis; that "
                "element was neither");
    hr_print(p, " * read nor written. Returns %d, and has done nothing, where an extent is negative%s",
             HR_EMITTED_REFUSES, e->plan->graph->assumptions ? ", or unless" : ".");
    hr_emit_assumptions_words(p);
    hr_print(p,
             " * %s_part: on threads of the caller's. As many as `parts`, all at once, call it with the same "
             "arguments and a part of",
             e->name);
    hr_print(p,
             " * their own, from 0. team: %s_team(parts) bytes aligned to 64, zeros before the first call; "
             "scratch: as for so many threads.",
             e->name);
    hr_print(p,
             " * Build: cc -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math "
             "-c %s.c -lm */",
             e->name);
}

/* ---- arguments ---- */

static void print_arguments(emitter *e) {
    hr_printer *p = e->p;
    if (hr_plan_has_lists(e->plan)) hr_text_format(p->out, "%s\n", (const char *)hr_c_list_types_text);
    hr_print(p, "typedef struct fault_record {");
    hr_print(p,
             "    int64_t access, value; /* the first subscript that left its axis; access 0: none did */");
    hr_print(p, "} fault_record;");
    hr_print(p, "%s", "");
    hr_print(p, "typedef struct arguments {");
    for (int i = 0; i < e->function->extent_count; i++)
        hr_print(p, "    int64_t %s;", hr_emit_extent(p, i));
    for (int t = 0; t < e->function->tensor_count; t++) {
        const hr_tensor *tensor = &e->function->tensors[t];
        if (t >= e->declared && !hr_plan_is_scratch(e->plan, t) && !hr_plan_is_in_blocks(e->plan, t))
            continue;
        if (hr_tensor_is_scalar(tensor))
            hr_print(p, "    %s %s;", hr_c_compute(hr_compute_type(tensor->dtype)), hr_emit_tensor(p, t));
        else if (hr_emit_is_list(p, t))
            hr_print(p, "    void *const *%s; /* by member */", hr_emit_tensor(p, t));
        else
            hr_print(p, "    %s%s *%s;", tensor->role == HR_ROLE_INPUT ? "const " : "",
                     hr_c_storage(tensor->dtype), hr_emit_tensor(p, t));
        if (t < e->declared && is_strided(e, t))
            hr_print(p, "    const int64_t *%s_strides;", hr_emit_tensor(p, t));
    }
    if (hr_plan_has_lists(e->plan)) hr_print(p, "    const pieces *pieces;");
    hr_print(p, "    fault_record *fault;");
    hr_print(p, "} arguments;");
    hr_print(p, "%s", "");
}

/* Those of the checks of subscripts and the reductions of lanes that the stages use. */
static hr_status print_helpers(hr_printer *p, const hr_text *stages) {
    hr_text all = {0};
    hr_text_format(&all, "%s", (const char *)hr_c_range_check_text);
    for (int i = 0; i < 4; i++) {
        bool lanes = i / 2, largest = i % 2;
        const hr_hole holes[] = {
            {"NAME", hr_format(p, "%s_arg%s", lanes ? "vi" : "vf", largest ? "max" : "min")},
            {"LANES", lanes ? "vi" : "vf"},
            {"BETTER", largest ? ">" : "<"}};
        hr_text_append(&all, "\n", 1);
        hr_template_append(hr_c_arg_lanes_text, holes, 3, &all);
    }
    hr_status status = hr_text_status(&all);
    if (status == HR_OK) status = hr_prelude_trim(hr_text_data(&all), hr_text_data(stages), p->out);
    hr_text_clear(&all);
    return status;
}

/* `source`: in front of the extents. */
static void print_refusal(emitter *e, const char *source) {
    hr_print(e->p, "if (!%s) return %d;", hr_emit_assumptions_call(e->p, source), HR_EMITTED_REFUSES);
}

/* ---- scratch ---- */

/* A local begins with a line, and ends with room for a vector more than it has. */
enum { LOCAL_MORE = 191, LOCAL_UNIT = 64 };

static const char *scratch_size(emitter *e, int tensor) {
    hr_sizes sizes = {0};
    return hr_size_text(
        e->p, hr_size_brackets(&sizes, hr_plan_local_size(&sizes, e->plan, tensor, LOCAL_MORE, LOCAL_UNIT)));
}

/* The body of what `print` prints, with the extents that it uses declared before it. */
static void print_with_extents(emitter *e, const char *source, void (*print)(emitter *)) {
    hr_printer *p = e->p;
    hr_text body, *out = hr_print_aside(p, &body);
    print(e);
    hr_print_back(p, out);
    p->indent++;
    if (source) hr_emit_extents_used(p, source, hr_text_data(&body));
    p->indent--;
    hr_print_body(p, &body);
}

static int64_t sums_value(const void *nothing, const int64_t *args) {
    (void)nothing;
    return work_sums_of(args[0], args[1], args[2]);
}

static int64_t pieces_value(const void *nothing, const int64_t *args) {
    (void)nothing;
    return work_pieces_of(args[0], args[1]);
}

/* How many pieces the share of a thread has; `sums`: each of them has sums of its own. */
static const hr_size *pieces_of(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, bool sums,
                                int threads) {
    static const hr_size_function pieces = {.name = "work_pieces_of", .value = pieces_value},
                                  own_sums = {.name = "work_sums_of", .value = sums_value};
    const hr_size *tasks = hr_size_points(sizes, plan->normal, stage->task, stage->task_count),
                  *row = hr_size_points(sizes, plan->normal, stage->row, stage->row_count);
    const hr_size *all = hr_size_product(sizes, tasks, row), *word = hr_size_word(sizes, "threads", threads);
    if (!sums) return hr_size_call(sizes, &pieces, NULL, 2, (const hr_size *[]){all, word});
    return hr_size_call(sizes, &own_sums, NULL, 3,
                        (const hr_size *[]){all, hr_stage_thread_size(sizes, plan, stage), word});
}

/* Of what threads or pieces have for themselves. */
static const hr_size *areas_of(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, bool sums,
                               int threads) {
    const hr_size *area = hr_stage_thread_size(sizes, plan, stage), *count;
    if (hr_size_is_zero(area)) return area;
    count = hr_size_word(sizes, "threads", threads);
    if (sums) count = hr_size_product(sizes, count, pieces_of(sizes, plan, stage, sums, threads));
    return hr_size_product(sizes, count, hr_size_brackets(sizes, area));
}

/* What a stage takes of what stages use one after the other; 0 where it takes nothing. `sums`: see
 * pieces_of(). */
static const hr_size *work_of(hr_sizes *sizes, const hr_plan *plan, int number, bool sums, int threads) {
    const hr_stage *stage = &plan->stages[number];
    if (hr_schedule_attends(plan, number)) return hr_attend_size(sizes, plan, number, threads);
    if (stage->shape == HR_SHAPE_CONTRACT) return hr_contract_size(sizes, plan, number, threads);
    if (hr_cpu_walk_of(stage)->order != HR_ORDER_LYING) return hr_order_size(sizes, plan, stage, threads);
    if (hr_scatter_may_be_totalled(plan, stage)) return hr_scatter_size(sizes, plan, stage);
    return areas_of(sizes, plan, stage, sums, threads);
}

static const char *pieces_text(emitter *e, int number) {
    hr_sizes sizes = {0};
    return hr_size_text(e->p,
                        pieces_of(&sizes, e->plan, &e->plan->stages[number], e->functions[number].sums, 0));
}

static void print_scratch_sum(emitter *e) {
    hr_printer *p = e->p;
    const char *sum = "work";
    bool threads = false;
    int before = -1; /* the last stage of the same run that takes some */
    hr_print(p, "int64_t work = 0;");
    for (int i = 0; i < e->plan->stage_count; i++) {
        hr_sizes sizes = {0};
        const hr_size *size = work_of(&sizes, e->plan, i, e->functions[i].sums, 0);
        if (!e->plan->stages[i].schedule->joins) before = -1;
        if (hr_size_is_zero(size)) continue;
        if (before >= 0)
            size = hr_size_sum(&sizes, hr_size_word(&sizes, hr_format(p, "stage_%d", before), 0), size);
        before = i;
        hr_print(p, "const int64_t stage_%d = %s;", i, hr_size_text(p, size));
        hr_print(p, "if (stage_%d > work) work = stage_%d;", i, i);
        threads = true;
    }
    if (!threads) hr_print(p, "(void)threads;");
    for (int t = 0; t < e->function->tensor_count; t++)
        if (hr_plan_is_scratch(e->plan, t)) sum = hr_format(p, "%s + %s", sum, scratch_size(e, t));
    hr_print(p, "return %s;", sum);
}

static void print_scratch_sizes(emitter *e) {
    hr_printer *p = e->p;
    print_size_signature(e);
    hr_text_format(p->out, " {\n");
    for (int i = 0; i < e->function->extent_count; i++)
        hr_print(p, "    (void)%s;", hr_emit_extent(p, i));
    p->indent++;
    print_refusal(e, "");
    p->indent--;
    print_with_extents(e, NULL, print_scratch_sum);
    hr_text_format(p->out, "}\n\n");
}

/* Whether a stage goes in pieces depends on how it is printed, too: what it takes here is no less. */
static hr_status work_bytes(const hr_plan *plan, int number, const int64_t *extents, int threads,
                            int64_t *out) {
    hr_sizes sizes = {0};
    const hr_stage *stage = &plan->stages[number];
    const bool sums = hr_stage_goes_in_pieces(plan, stage) && hr_stage_has_sums(stage);
    return hr_size_add(work_of(&sizes, plan, number, sums, threads), plan->normal, extents, out);
}

hr_status hr_emit_scratch(const hr_plan *plan, const int64_t *extents, int threads, int64_t *out) {
    if (plan->limits.compute) return hr_emit_cuda_scratch(plan, extents, out);
    int64_t work = 0, together = 0; /* of the stages that go together */
    for (int i = 0; i < plan->stage_count; i++) {
        if (!plan->stages[i].schedule->joins) together = 0;
        HR_TRY(work_bytes(plan, i, extents, threads, &together));
        if (together > work) work = together;
    }
    HR_TRY(hr_plan_locals_bytes(plan, plan->normal->tensor_count, extents, LOCAL_MORE, LOCAL_UNIT, out));
    if (__builtin_add_overflow(*out, work, out))
        return hr_fail(HR_BAD_INPUT, "kernel %.60s needs more memory than there are addresses",
                       plan->source->name);
    return HR_OK;
}

/* ---- a run ---- */

static void print_call(emitter *e, int number, const char *suffix) {
    hr_print(e->p, "stage_%d%s(a, thread, count, work);", number, suffix);
    hr_print(e->p, "barrier();");
}

static void print_pieces(emitter *e, int number) {
    hr_printer *p = e->p;
    const bool sums = e->functions[number].sums;
    const char *size = hr_stage_thread_text(p, &e->plan->stages[number]),
               *pieces = hr_format(p, "pieces_%d", number);
    const char *area =
        strcmp(size, "0") == 0 ? "" : hr_format(p, " + %s * (%s)", sums ? "piece" : "thread", size);
    hr_print(
        p, "for (int64_t piece, other = 0; (piece = work_piece(shares_%d, %s, thread, count, &other)) >= 0;)",
        number, pieces);
    if (sums)
        hr_print(p, "    stage_%d(a, work_half(piece, %s), count * work_halving(piece, %s), work%s);", number,
                 pieces, pieces, area);
    else
        hr_print(p, "    stage_%d(a, piece, count * %s, work%s);", number, pieces, area);
    hr_print(p, "barrier();");
}

static void print_end(emitter *e, int number) {
    hr_print(e->p, "stage_%d_end(a, thread, count, work, count%s);", number,
             e->functions[number].sums ? hr_format(e->p, " * pieces_%d", number) : "");
    hr_print(e->p, "barrier();");
}

static void print_places(emitter *e) {
    hr_printer *p = e->p;
    for (int t = e->declared; t < e->function->tensor_count; t++) {
        if (!hr_plan_is_scratch(e->plan, t)) continue;
        hr_print(p, "a->%s = (%s *)work;", hr_emit_tensor(p, t), hr_c_storage(e->function->tensors[t].dtype));
        hr_print(p, "work += %s;", scratch_size(e, t));
    }
    hr_print(p, "(void)a;");
    hr_print(p, "return work;");
}

/* Stages that go in pieces: each has a share for each thread. */
static int shares_of(const emitter *e) {
    int count = 0;
    for (int i = 0; i < e->plan->stage_count; i++)
        count += e->functions[i].pieces;
    return count;
}

static void print_thread(emitter *e) {
    hr_printer *p = e->p;
    for (int i = 0, share = 0; i < e->plan->stage_count; i++) {
        if (!e->functions[i].pieces) continue;
        hr_print(p, "const int64_t pieces_%d = %s;", i, pieces_text(e, i));
        hr_print(p, "work_share *const shares_%d = shares + %d * threads;", i, share++);
    }
    if (!shares_of(e)) hr_print(p, "(void)shares, (void)threads;");
    for (int i = 0; i < e->plan->stage_count; i++) {
        if (e->functions[i].begin) print_call(e, i, "_begin");
        if (e->functions[i].pieces)
            print_pieces(e, i);
        else if (hr_schedule_run(e->plan, i).last == i)
            print_call(e, i, "");
        if (e->functions[i].end) print_end(e, i);
    }
}

static void print_run(emitter *e) {
    hr_printer *p = e->p;
    hr_text_format(p->out, "/* Where locals are; returns what is behind them. */\n"
                           "static char *place_locals(arguments *a, char *work) {\n");
    print_with_extents(e, "a->", print_places);
    hr_text_format(p->out, "}\n\n"
                           "static void run_thread(const arguments *a, char *work, work_share *shares, "
                           "int64_t threads, int64_t thread,\n                       int64_t count) {\n");
    print_with_extents(e, "a->", print_thread);
    hr_text_format(p->out, "}\n\nstatic void run(arguments a, char *scratch, int threads) {\n");
    p->indent++;
    hr_print(p, "char *const work = place_locals(&a, scratch);");
    hr_print(p, "work_share shares[%d * threads + 1];", shares_of(e));
    hr_print(p, "memset(shares, 0, sizeof shares);");
    hr_print(p, "#ifdef _OPENMP");
    hr_print(p, "#pragma omp parallel num_threads(threads)");
    hr_print(p, "#endif");
    hr_print(p, "run_thread(&a, work, shares, threads, thread_number(), thread_count());");
    p->indent--;
    hr_text_format(p->out, "}\n\n");
}

/* ---- the public functions ---- */

static void print_filled(emitter *e) {
    hr_printer *p = e->p;
    hr_print(p, "arguments a = {0};");
    for (int i = 0; i < e->function->extent_count; i++)
        hr_print(p, "a.%s = %s;", hr_emit_extent(p, i), hr_emit_extent(p, i));
    for (int t = 0; t < e->declared; t++) {
        const char *name = hr_emit_tensor(p, t);
        hr_print(p, "a.%s = %s;", name, name);
        if (is_strided(e, t)) hr_print(p, "a.%s_strides = %s_strides;", name, name);
    }
}

static void print_public(emitter *e) {
    hr_printer *p = e->p;
    print_signature(e);
    hr_text_format(p->out, " {\n");
    p->indent++;
    print_refusal(e, "");
    hr_print(p, "if (threads < 1) return %d;", HR_EMITTED_REFUSES);
    hr_print(p, "fault_record fault = {0, 0};");
    print_filled(e);
    hr_print(p, "a.fault = &fault;");
    hr_print(p, "run(a, scratch, threads);");
    hr_print(p, "return (int)fault.access;");
    p->indent--;
    hr_text_format(p->out, "}\n\n");
}

/* Nobody goes on to another call, whose team this may be, before all have read what this one came to. */
static void print_part(emitter *e) {
    hr_printer *p = e->p;
    const int shares = shares_of(e);
    print_team_signature(e);
    hr_text_format(p->out, " {\n");
    hr_print(p, "    return (int64_t)sizeof(thread_team) + %d * (int64_t)sizeof(work_share) * parts;",
             shares);
    hr_text_format(p->out, "}\n\n");
    print_part_signature(e);
    hr_text_format(p->out, " {\n");
    p->indent++;
    print_refusal(e, "");
    hr_print(p, "if (part < 0 || part >= parts) return %d;", HR_EMITTED_REFUSES);
    hr_print(p, "work_share *const shares = (work_share *)(void *)((thread_team *)team + 1);");
    print_filled(e);
    hr_print(p, "a.fault = &((thread_team *)team)->fault;");
    hr_print(p, "team_here = team;");
    hr_print(p, "team_parts = parts;");
    hr_print(p, "if (part == 0) {");
    hr_print(p, "    *a.fault = (fault_record){0, 0};");
    if (shares) hr_print(p, "    memset(shares, 0, %d * sizeof *shares * (size_t)parts);", shares);
    hr_print(p, "}");
    hr_print(p, "barrier();");
    hr_print(p, "char *const work = place_locals(&a, scratch);");
    hr_print(p, "run_thread(&a, work, shares, parts, part, parts);");
    hr_print(p, "const int code = (int)a.fault->access;");
    hr_print(p, "barrier();");
    hr_print(p, "team_here = NULL;");
    hr_print(p, "return code;");
    p->indent--;
    hr_print(p, "}");
}

static void print_entry(emitter *e) {
    hr_printer *p = e->p;
    hr_text_format(p->out, "%s\n", (const char *)hr_c_loaded_launch_text);
    hr_print(p,
             "__attribute__((visibility(\"default\"))) int hr_entry(const launch *l, fault_record *fault) {");
    p->indent++;
    hr_print(p, "arguments a = {0};");
    for (int i = 0; i < e->function->extent_count; i++)
        hr_print(p, "a.%s = l->extents[%d];", hr_emit_extent(p, i), i);
    print_refusal(e, "a.");
    int stride = 0;
    for (int t = 0; t < e->declared; t++) {
        const hr_tensor *tensor = &e->function->tensors[t];
        const char *name = hr_emit_tensor(p, t), *type = hr_c_compute(hr_compute_type(tensor->dtype));
        if (hr_tensor_is_scalar(tensor))
            hr_print(p, "a.%s = (%s)l->scalars[%d];", name, type, t);
        else
            hr_print(p, "a.%s = %sl->pointers[%d];", name, hr_emit_is_list(p, t) ? "(void *const *)" : "", t);
        if (is_strided(e, t)) hr_print(p, "a.%s_strides = l->strides + %d;", name, stride);
        if (hr_emit_is_list(p, t))
            hr_print(p, "a.pieces = (const pieces *)(uintptr_t)l->strides[%d];", stride);
        stride += e->plan->source->tensors[t].rank;
    }
    hr_print(p, "a.fault = fault;");
    hr_print(p, "run(a, l->scratch, (int)l->threads);");
    hr_print(p, "return 0;");
    p->indent--;
    hr_print(p, "}");
}

/* ---- the file ---- */

static hr_status print_stages(emitter *e, hr_text *stages) {
    e->p->out = stages;
    for (int i = 0; i < e->plan->stage_count; i++) {
        if (e->plan->stages[i].shape == HR_SHAPE_CONTRACT)
            HR_TRY(hr_emit_contract_c(e->p, i));
        else
            HR_TRY(hr_emit_stage_c(e->p, i, &e->functions[i]));
    }
    return hr_text_status(stages);
}

/* A user's build may make errors of warnings, and not every piece of the prelude serves every kernel; OpenMP
 * may be off. */
static void print_beginning(emitter *e, const hr_emit_options *options) {
    static const char *const ignored[] = {"unused-function", "unused-variable", "unused-but-set-variable",
                                          "unused-parameter", "unknown-pragmas"};
    hr_print(e->p, "#include \"%s\"", hr_emit_header(e->p, options));
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        hr_print(e->p, "#pragma GCC diagnostic ignored \"-W%s\"", ignored[i]);
}

static hr_status print_file(emitter *e, const hr_emit_options *options, hr_emitted *out, hr_text *stages,
                            hr_text *body) {
    HR_TRY(print_stages(e, stages));
    hr_printer *p = e->p;
    p->out = body;
    p->indent = 0;
    p->lane = -1;
    print_arguments(e);
    HR_TRY(print_helpers(p, stages));
    HR_TRY(hr_emit_assumptions(p));
    hr_text_format(body, "%s\n", (const char *)hr_c_threads_text);
    HR_TRY(hr_contract_mainloop_append(e->plan, body));
    hr_text_append(body, hr_text_data(stages), stages->length);
    print_scratch_sizes(e);
    print_run(e);
    if (options) {
        print_public(e);
        print_part(e);
    } else {
        print_entry(e);
    }
    p->out = &out->source;
    print_how_to_call(e);
    if (options) print_beginning(e, options);
    hr_print(p, "#include <stdbool.h>");
    hr_print(p, "#include <stdint.h>");
    hr_print(p, "#include <math.h>");
    hr_print(p, "#ifdef _OPENMP");
    hr_print(p, "#include <omp.h>");
    hr_print(p, "#endif");
    hr_print(p, "#if defined __unix__ || defined __APPLE__");
    hr_print(p, "#include <sched.h>");
    hr_print(p, "#endif");
    HR_TRY(hr_prelude_append(hr_text_data(body), &out->source));
    hr_text_append(&out->source, hr_text_data(body), body->length);
    p->out = &out->header;
    print_how_to_call(e);
    hr_print(p, "#ifndef HEADROOM_%s_H", e->name);
    hr_print(p, "#define HEADROOM_%s_H", e->name);
    hr_print(p, "#include <stdbool.h>\n#include <stdint.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif");
    print_size_signature(e);
    hr_text_format(&out->header, ";\n");
    print_signature(e);
    hr_text_format(&out->header, ";\n");
    print_team_signature(e);
    hr_text_format(&out->header, ";\n");
    print_part_signature(e);
    hr_text_format(&out->header, ";\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    HR_TRY(hr_text_status(body));
    HR_TRY(hr_text_status(&out->header));
    return hr_text_status(&out->source);
}

/* `options`: NULL = for the loader. */
static hr_status emit(const hr_plan *plan, const hr_emit_options *options, hr_emitted *out) {
    emitter e = {.plan = plan, .function = plan->normal, .p = &e.printer};
    e.declared = hr_function_arguments(plan->source);
    *out = (hr_emitted){0};
    if (options) HR_TRY(hr_emit_refuse_lists(plan));
    hr_arena *arena;
    HR_TRY(hr_names_create(&arena));
    hr_text stages = {0}, body = {0};
    e.functions = hr_arena_alloc(arena, (size_t)(plan->stage_count + 1) * sizeof *e.functions);
    hr_status status = hr_printer_begin(e.p, plan, arena, &stages);
    if (status == HR_OK) {
        e.name = hr_emit_name(plan, options);
        status = print_file(&e, options, out, &stages, &body);
        if (status == HR_OK) status = hr_names_status(plan, arena);
        hr_printer_end(e.p);
    }
    hr_text_clear(&stages);
    hr_text_clear(&body);
    hr_arena_destroy(arena);
    if (status != HR_OK) hr_emitted_clear(out);
    return status;
}

hr_status hr_emit_c(const hr_plan *plan, const hr_emit_options *options, hr_emitted *out) {
    const hr_emit_options none = {.size = sizeof none};
    return emit(plan, options ? options : &none, out);
}

hr_status hr_emit_c_loaded(const hr_plan *plan, hr_emitted *out) {
    return emit(plan, NULL, out);
}

void hr_emitted_clear(hr_emitted *emitted) {
    hr_text_clear(&emitted->source);
    hr_text_clear(&emitted->header);
}
