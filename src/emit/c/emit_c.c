/* A plan as one C file. In: a plan. Out: the source and the header of its public function.
 *
 * The file, top to bottom: what it is and how to call it, the prelude's sections in use, the arguments, one
 * static function a stage, the public function, or for the loader hr_part().
 */
#include "base/dtype.h"
#include "emit/assumptions.h"
#include "emit/c/emit_c_contract.h"
#include "emit/c/emit_c_section.h"
#include "emit/c/file_text.h"
#include "emit/c/function_c.h"
#include "emit/c/scratch_c.h"
#include "emit/c/signature_c.h"
#include "emit/c/stage_c.h"
#include "emit/describe.h"
#include "emit/emit.h"
#include "emit/prelude.h"
#include "emit/printer.h"

#include <string.h>

/* What the code is for: the loader, a file of its own, or a part of one, whose functions are static. Or there
 * is none, but for what surrounds such parts; with ANY_EXTENTS some of them takes what the plan refuses. */
typedef enum form { FORM_LOADED, FORM_PASTED, FORM_SECTION, FORM_FRAME, FORM_FRAME_ANY_EXTENTS } form;

typedef struct emitter {
    const hr_plan *plan;
    const hr_plan *planned; /* of a section, as `suffix`: see emit_c_section.h */
    const char *suffix;
    const hr_function *function;
    hr_printer printer;
    hr_printer *p;
    form form;
    const char *name;              /* of the public function */
    const char *file;              /* of the source */
    int declared;                  /* parameters and results */
    hr_stage_functions *functions; /* of each stage */
} emitter;

static bool is_strided(const emitter *e, int tensor) {
    return hr_layout_has_strides(e->plan->layouts[tensor]);
}

static void print_signature(emitter *e, hr_c_function function) {
    if (e->form == FORM_SECTION) {
        hr_text_format(e->p->out, "static ");
        hr_define(e->p, HR_IDENTIFIER, hr_emit_c_function(e->p, e->name, function));
    }
    hr_emit_c_signature(e->p, e->name, function);
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
             HR_EMITTED_REFUSES,
             e->plan->graph->assumptions && e->form != FORM_FRAME_ANY_EXTENTS ? ", or unless" : ".");
    if (e->form == FORM_FRAME_ANY_EXTENTS)
        hr_print(p, " * All others are taken. It is as fast as planned%s",
                 e->plan->graph->assumptions ? " where" : ".");
    hr_emit_assumptions_words(p);
    if (e->form == FORM_FRAME_ANY_EXTENTS)
        hr_print(
            p, " * Elsewhere each statement is a stage of its own, which is slower and takes more scratch.");
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
             "-c %s -lm */",
             e->file);
}

/* ---- arguments ---- */

static void print_arguments(emitter *e) {
    hr_printer *p = e->p;
    if (hr_plan_has_lists(e->plan)) hr_text_format(p->out, "%s\n", (const char *)hr_c_list_types_text);
    hr_print(p, "typedef struct %s {", hr_define(p, HR_IDENTIFIER, "fault_record"));
    hr_print(p,
             "    int64_t access, value; /* the first subscript that left its axis; access 0: none did */");
    hr_print(p, "} fault_record;");
    hr_print(p, "%s", "");
    hr_print(p, "typedef struct %s {", hr_define(p, HR_IDENTIFIER, "arguments"));
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

/* `source`: in front of the extents. */
static void print_refusal(emitter *e, const char *source) {
    hr_print(e->p, "if (!%s) return %d;", hr_emit_assumptions_call(e->p, "", source), HR_EMITTED_REFUSES);
}

/* ---- scratch ---- */

/* A result that may be NULL for another part, and that this one reads: it has a place among the locals. */
static bool has_own_place(const emitter *e, int tensor) {
    return e->planned && tensor < e->declared && hr_plan_result_is_optional(e->planned, tensor) &&
           !hr_plan_result_is_optional(e->plan, tensor);
}

static bool has_place(const emitter *e, int tensor) {
    return hr_plan_is_scratch(e->plan, tensor) || has_own_place(e, tensor);
}

static const char *scratch_size(emitter *e, int tensor) {
    hr_sizes sizes = {0};
    return hr_size_text(e->p, hr_size_brackets(&sizes, hr_plan_local_size(&sizes, e->plan, tensor,
                                                                          HR_C_LOCAL_MORE, HR_C_LOCAL_UNIT)));
}

/* The body of what `print` prints, with the extents that it uses declared before it. */
static void print_with_extents(emitter *e, const char *source, void (*print)(emitter *)) {
    hr_printer *p = e->p;
    hr_uses_begin(p);
    hr_text body, *out = hr_print_aside(p, &body);
    print(e);
    hr_print_back(p, out);
    p->indent++;
    if (source) hr_emit_extents_used(p, source);
    p->indent--;
    hr_print_body(p, &body);
}

static const char *pieces_text(emitter *e, int number) {
    hr_sizes sizes = {0};
    return hr_size_text(
        e->p, hr_c_pieces_size(&sizes, e->plan, &e->plan->stages[number], e->functions[number].sums, 0));
}

static void print_scratch_sum(emitter *e) {
    hr_printer *p = e->p;
    const char *sum = "work";
    bool threads = false;
    int before = -1; /* the last stage of the same run that takes some */
    hr_print(p, "int64_t work = 0;");
    for (int i = 0; i < e->plan->stage_count; i++) {
        hr_sizes sizes = {0};
        const hr_size *size = hr_c_work_size(&sizes, e->plan, i, e->functions[i].sums, 0);
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
        if (has_place(e, t)) sum = hr_format(p, "%s + %s", sum, scratch_size(e, t));
    hr_print(p, "return %s;", sum);
}

static void print_scratch_sizes(emitter *e) {
    hr_printer *p = e->p;
    print_signature(e, HR_C_SCRATCH);
    hr_text_format(p->out, " {\n");
    for (int i = 0; i < e->function->extent_count; i++)
        hr_print(p, "    (void)%s;", hr_emit_extent(p, i));
    p->indent++;
    print_refusal(e, "");
    p->indent--;
    print_with_extents(e, NULL, print_scratch_sum);
    hr_text_format(p->out, "}\n\n");
}

/* ---- a run ---- */

/* Threads wait for each other between the functions of a run. Behind the last one its caller sees to it. */
static void print_call(emitter *e, int number, const char *suffix) {
    hr_print(e->p, "stage_%d%s(a, thread, count, work);", number, suffix);
}

static void print_pieces(emitter *e, int number) {
    hr_printer *p = e->p;
    const bool sums = e->functions[number].sums;
    hr_sizes sizes = {0};
    const hr_size *size = hr_stage_thread_size(&sizes, e->plan, &e->plan->stages[number]);
    const char *pieces = hr_format(p, "pieces_%d", number);
    const char *area = hr_size_is_zero(size)
                           ? ""
                           : hr_format(p, " + %s * (%s)", sums ? "piece" : "thread", hr_size_text(p, size));
    hr_print(
        p, "for (int64_t piece, other = 0; (piece = work_piece(shares_%d, %s, thread, count, &other)) >= 0;)",
        number, pieces);
    if (sums)
        hr_print(p, "    stage_%d(a, work_half(piece, %s), count * work_halving(piece, %s), work%s);", number,
                 pieces, pieces, area);
    else
        hr_print(p, "    stage_%d(a, piece, count * %s, work%s);", number, pieces, area);
}

static void print_end(emitter *e, int number) {
    hr_print(e->p, "stage_%d_end(a, thread, count, work, count%s);", number,
             e->functions[number].sums ? hr_format(e->p, " * pieces_%d", number) : "");
}

static void print_places(emitter *e) {
    hr_printer *p = e->p;
    for (int t = 0; t < e->function->tensor_count; t++) {
        const char *name = hr_emit_tensor(p, t);
        if (!has_place(e, t)) continue;
        hr_print(p, "%sa->%s = (%s *)(void *)work;",
                 has_own_place(e, t) ? hr_format(p, "if (!a->%s) ", name) : "", name,
                 hr_c_storage(e->function->tensors[t].dtype));
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
    bool behind = false; /* another function */
    for (int i = 0; i < e->plan->stage_count; i++) {
        const bool pieces = e->functions[i].pieces, whole = !pieces && hr_schedule_run(e->plan, i).last == i;
        const bool parts[] = {e->functions[i].begin, pieces || whole, e->functions[i].end};
        for (int part = 0; part < 3; part++) {
            if (!parts[part]) continue;
            if (behind) hr_print(p, "thread_barrier();");
            behind = true;
            if (part == 2)
                print_end(e, i);
            else if (part == 1 && pieces)
                print_pieces(e, i);
            else
                print_call(e, i, part ? "" : "_begin");
        }
    }
}

static void print_run(emitter *e) {
    hr_printer *p = e->p;
    hr_text_format(p->out,
                   "/* Where locals are; returns what is behind them. */\n"
                   "static char *%s(arguments *a, char *work) {\n",
                   hr_define(p, HR_IDENTIFIER, "place_locals"));
    print_with_extents(e, "a->", print_places);
    hr_text_format(p->out,
                   "}\n\n"
                   "static void %s(const arguments *a, char *work, work_share *shares, "
                   "int64_t threads, int64_t thread,\n                       int64_t count) {\n",
                   hr_define(p, HR_IDENTIFIER, "run_thread"));
    print_with_extents(e, "a->", print_thread);
    hr_text_format(p->out, "}\n\n");
    if (e->form == FORM_LOADED) return;
    hr_text_format(p->out, "static void %s(arguments a, char *scratch, int threads) {\n",
                   hr_define(p, HR_IDENTIFIER, "run"));
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
    print_signature(e, HR_C_RUN);
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
    print_signature(e, HR_C_TEAM);
    hr_text_format(p->out, " {\n");
    hr_print(p, "    return (int64_t)sizeof(thread_team) + %d * (int64_t)sizeof(work_share) * parts;",
             shares);
    hr_text_format(p->out, "}\n\n");
    print_signature(e, HR_C_PART);
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
    hr_print(p, "thread_barrier();");
    hr_print(p, "char *const work = place_locals(&a, scratch);");
    hr_print(p, "run_thread(&a, work, shares, parts, part, parts);");
    hr_print(p, "thread_barrier();");
    hr_print(p, "const int code = (int)a.fault->access;");
    hr_print(p, "thread_barrier();");
    hr_print(p, "team_here = NULL;");
    hr_print(p, "return code;");
    p->indent--;
    hr_print(p, "}");
}

/* What device.h says of hr_part and hr_shares. */
static void print_entry(emitter *e) {
    hr_printer *p = e->p;
    hr_text_format(p->out, "%s\n", (const char *)hr_c_loaded_launch_text);
    hr_print(p, "__attribute__((visibility(\"default\"))) const int64_t hr_shares = %d;", shares_of(e));
    hr_print(p, "__attribute__((visibility(\"default\"))) int hr_part(const launch *l, fault_record *fault,");
    hr_print(p, "    work_share *shares, int64_t part, int64_t parts) {");
    p->indent++;
    hr_print(p, "arguments a = {0};");
    for (int i = 0; i < e->function->extent_count; i++)
        hr_print(p, "a.%s = l->extents[%d];", hr_emit_extent(p, i), i);
    print_refusal(e, "a.");
    hr_print(p, "if (parts == 0) return 0;");
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
    hr_print(p, "char *const work = place_locals(&a, l->scratch);");
    hr_print(p, "run_thread(&a, work, shares, l->threads, part, parts);");
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

/* Before a section asks for an instruction set, which inline functions of a header would else have, too. */
static const char includes_text[] = "#include <stdbool.h>\n#include <stdint.h>\n#include <math.h>\n"
                                    "#include <string.h>\n#ifdef _OPENMP\n#include <omp.h>\n#endif\n"
                                    "#if defined __unix__ || defined __APPLE__\n#include <sched.h>\n#endif\n";

/* The prelude's sections in use, the stages, and the functions that run them. */
static hr_status print_code(emitter *e, hr_text *source) {
    hr_printer *p = e->p;
    hr_text stages = {0}, body = {0};
    hr_status status = print_stages(e, &stages);
    p->out = &body;
    p->indent = 0;
    p->lane = -1;
    print_arguments(e);
    if (status == HR_OK) status = hr_prelude_append(HR_PRELUDE_HELPERS, hr_text_data(&stages), p, p->out);
    if (status == HR_OK) status = hr_emit_assumptions(p);
    if (e->form == FORM_LOADED)
        hr_text_format(&body, "%s\n", (const char *)hr_c_team_text);
    else if (status == HR_OK)
        status = hr_prelude_append(HR_PRELUDE_THREADS, NULL, p, &body);
    if (status == HR_OK) status = hr_contract_mainloop_append(p, &body);
    hr_text_append(&body, hr_text_data(&stages), stages.length);
    print_scratch_sizes(e);
    print_run(e);
    if (e->form == FORM_LOADED) {
        print_entry(e);
    } else {
        print_public(e);
        print_part(e);
    }
    if (status == HR_OK) status = hr_text_status(&body);
    p->out = source;
    if (status == HR_OK) status = hr_prelude_append(HR_PRELUDE_C, hr_text_data(&body), p, source);
    hr_text_append(source, hr_text_data(&body), body.length);
    hr_text_clear(&stages);
    hr_text_clear(&body);
    return status == HR_OK ? hr_text_status(source) : status;
}

static hr_status print_header(emitter *e, hr_text *header) {
    hr_printer *p = e->p;
    p->out = header;
    print_how_to_call(e);
    hr_print(p, "#ifndef HEADROOM_%s_H", e->name);
    hr_print(p, "#define HEADROOM_%s_H", e->name);
    hr_print(p, "#include <stdbool.h>\n#include <stdint.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif");
    for (hr_c_function f = 0; f < HR_C_FUNCTIONS; f++) {
        print_signature(e, f);
        hr_text_format(header, ";\n");
    }
    hr_text_format(header, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
    return hr_text_status(header);
}

/* The section's code, its names with the suffix for the compiler. */
static hr_status print_section(emitter *e, hr_text *out) {
    hr_text code = {0};
    hr_status status = print_code(e, &code);
    for (const hr_defined *d = hr_last_defined(e->p); d; d = d->before)
        if (d->kind == HR_IDENTIFIER) hr_text_format(out, "#define %s %s_%s\n", d->name, d->name, e->suffix);
    hr_text_append(out, "\n", 1);
    hr_text_append(out, hr_text_data(&code), code.length);
    hr_text_append(out, "\n", 1);
    for (const hr_defined *d = hr_last_defined(e->p); d; d = d->before)
        hr_text_format(out, "#undef %s\n", d->name);
    hr_text_clear(&code);
    return status != HR_OK ? status : hr_text_status(out);
}

static hr_status print_file(emitter *e, const hr_emit_options *options, hr_emitted *out) {
    e->p->out = &out->source;
    if (e->form == FORM_SECTION) return print_section(e, &out->source);
    print_how_to_call(e);
    if (e->form != FORM_LOADED) print_beginning(e, options);
    hr_text_append(e->p->out, includes_text, sizeof includes_text - 1);
    if (e->form < FORM_FRAME) HR_TRY(print_code(e, &out->source));
    return print_header(e, &out->header);
}

/* What `e` does not say yet follows from the plan. */
static hr_status emit(emitter e, const hr_emit_options *options, hr_emitted *out) {
    const hr_plan *plan = e.plan;
    hr_arena *arena;
    e.p = &e.printer;
    e.function = plan->normal;
    e.declared = hr_function_arguments(plan->source);
    *out = (hr_emitted){0};
    if (e.form != FORM_LOADED) HR_TRY(hr_emit_refuse_lists(plan));
    HR_TRY(hr_names_create(&arena));
    e.functions = hr_arena_alloc(arena, (size_t)(plan->stage_count + 1) * sizeof *e.functions);
    hr_status status = hr_printer_begin(e.p, plan, arena, &out->source);
    if (status == HR_OK) {
        e.name = hr_emit_name(plan, options);
        e.file = hr_emit_source_file(e.p, options, "c");
        status = print_file(&e, options, out);
        if (status == HR_OK) status = hr_names_status(plan, arena);
        hr_printer_end(e.p);
    }
    hr_arena_destroy(arena);
    if (status != HR_OK) hr_emitted_clear(out);
    return status;
}

hr_status hr_emit_c(const hr_plan *plan, const hr_emit_options *options, hr_emitted *out) {
    const hr_emit_options none = {.size = sizeof none};
    return emit((emitter){.plan = plan, .form = FORM_PASTED}, options ? options : &none, out);
}

hr_status hr_emit_c_loaded(const hr_plan *plan, hr_emitted *out) {
    return emit((emitter){.plan = plan, .form = FORM_LOADED}, NULL, out);
}

hr_status hr_emit_c_section(const hr_plan *plan, const char *suffix, const hr_plan *planned,
                            const hr_emit_options *options, hr_emitted *out) {
    return emit((emitter){.plan = plan, .planned = planned, .suffix = suffix, .form = FORM_SECTION}, options,
                out);
}

hr_status hr_emit_c_frame(const hr_plan *plan, const hr_emit_options *options, bool any_extents,
                          hr_emitted *out) {
    const form form = any_extents ? FORM_FRAME_ANY_EXTENTS : FORM_FRAME;
    return emit((emitter){.plan = plan, .form = form}, options, out);
}

void hr_emitted_clear(hr_emitted *emitted) {
    hr_text_clear(&emitted->source);
    hr_text_clear(&emitted->header);
}
