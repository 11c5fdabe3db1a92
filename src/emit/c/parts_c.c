/* C in parts of one file, one of which is chosen as it runs. In: a plan and its extents. Out: source, header.
 *
 * What a plan assumes of extents has a part for those that it holds for, and another for any. A file for
 * every x86-64 processor has the kernel planned and printed for AVX-512, for AVX2 and for what any of them
 * has; on other processors the last of these is the only one.
 *
 * Each part is all of a file: a macro for each name that it defines gives that the part's name at its end,
 * and what a compiler defines for instruction sets is defined for the part alone.
 */

#include "emit/assumptions.h"
#include "emit/c/emit_c_section.h"
#include "emit/c/signature_c.h"
#include "emit/describe.h"
#include "schedule/target.h"

typedef struct part {
    const char *name;
    int vector_bytes;       /* 0 = the plan's */
    const char *target;     /* as both compilers write it; NULL = as the file is compiled */
    const char *const *has; /* what compilers define there, to be defined; ended by NULL */
    const char *supports;   /* asks the processor */
    bool general;           /* for any extents */
} part;

static const char *const avx512_has[] = {"__AVX512F__",  "__AVX512BW__", "__AVX512DQ__",
                                         "__AVX512VL__", "__AVX2__",     "__FMA__",
                                         "__F16C__",     "__SSE2__",     NULL};
static const char *const avx2_has[] = {"__AVX2__", "__FMA__", "__F16C__", "__SSE2__", NULL};

/* The best first. */
static const part levels[] = {
    {.name = "avx512",
     .vector_bytes = 64,
     .target = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
     .has = avx512_has,
     .supports = "__builtin_cpu_supports(\"avx512f\") && __builtin_cpu_supports(\"avx512bw\") && "
                 "__builtin_cpu_supports(\"avx512dq\") && __builtin_cpu_supports(\"avx512vl\")"},
    {.name = "avx2",
     .vector_bytes = 32,
     .target = "avx2,fma,f16c",
     .has = avx2_has,
     .supports = "__builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\")"},
    {.name = "plain", .vector_bytes = 16},
};
enum { LEVELS = sizeof levels / sizeof *levels, PARTS_MOST = LEVELS + 1 };

/* For the processor that the file is compiled for; for any extents, with vectors that any processor has where
 * the file is for all of them. */
static const part planned = {.name = "planned"};
static const part any_extents = {.name = "general", .general = true},
                  any_plain = {.name = "general", .vector_bytes = 16, .general = true};

/* Of instruction sets: a part with a target has those that it says, and no others. */
static const char *const instruction_sets[] = {
    "__AVX512F__", "__AVX512BW__",   "__AVX512DQ__",   "__AVX512VL__",  "__AVX2__",    "__FMA__",
    "__F16C__",    "__SSE2__",       "__AVX512BF16__", "__AMX_BF16__",  "__AMXBF16__", "__AMX_INT8__",
    "__AMXINT8__", "__AVX512FP16__", "__AVX512VBMI__", "__AVX512VNNI__"};
enum { INSTRUCTION_SETS = sizeof instruction_sets / sizeof *instruction_sets };

/* ---- a part ---- */

static void append_instruction_sets(const char *line, hr_text *out) {
    for (int i = 0; i < INSTRUCTION_SETS; i++)
        hr_text_format(out, line, instruction_sets[i]);
}

/* What the compiler defines for instruction sets is put away for the part. */
static void append_opening(const part *of, hr_text *out) {
    hr_text_format(out, "\n/* ==== %s ==== */\n\n", of->name);
    if (!of->target) return;
    hr_text_format(out, "#if defined __x86_64__\n");
    append_instruction_sets("#pragma push_macro(\"%s\")\n", out);
    hr_text_format(out,
                   "#ifdef __clang__\n"
                   "#pragma clang attribute push(__attribute__((target(\"%s\"))), apply_to = function)\n"
                   "#else\n#pragma GCC push_options\n#pragma GCC target(\"%s\")\n#endif\n",
                   of->target, of->target);
    append_instruction_sets("#undef %s\n", out);
    for (int i = 0; of->has[i]; i++)
        hr_text_format(out, "#define %s 1\n", of->has[i]);
    hr_text_append(out, "\n", 1);
}

static void append_closing(const part *of, hr_text *out) {
    if (!of->target) return;
    hr_text_format(out, "#ifdef __clang__\n#pragma clang attribute pop\n#else\n#pragma GCC pop_options\n"
                        "#endif\n");
    append_instruction_sets("#pragma pop_macro(\"%s\")\n", out);
    hr_text_format(out, "#endif\n");
}

/* The kernel as it is planned for the part. */
static hr_status plan_part(const hr_plan *like, const int64_t *extents, const part *of, hr_plan **out) {
    hr_device_limits limits = like->limits;
    const hr_schedule_options options = {.general = of->general};
    if (of->vector_bytes) limits.vector_bytes = of->vector_bytes;
    if (of->vector_bytes && of->vector_bytes < 64)
        limits.matrix_bf16 = limits.matrix_bytes = limits.dots_bf16 = limits.dots_bytes = 0;
    return hr_schedule_create(like->source, extents, like->layouts, &limits, &options, out);
}

static hr_status append_part(const hr_plan *plan, const hr_plan *planned, const hr_emit_options *options,
                             const part *of, hr_text *out) {
    hr_emitted section;
    HR_TRY(hr_emit_c_section(plan, of->name, planned, options, &section));
    append_opening(of, out);
    hr_text_append(out, hr_text_data(&section.source), section.source.length);
    append_closing(of, out);
    hr_emitted_clear(&section);
    return hr_text_status(out);
}

/* ---- the choice ---- */

/* Parts in the order in which they are asked; the last takes what comes to it. */
typedef struct choice {
    int count;
    const part *parts[PARTS_MOST];
    bool by_level;    /* the processor is asked first */
    bool any_extents; /* the last is a part for any */
} choice;

static void print_level(hr_printer *p, const char *name) {
    hr_print(p, "static int %s_level(void) {", name);
    hr_print(p, "#if defined __x86_64__");
    hr_print(p, "    __builtin_cpu_init();");
    for (int i = 0; i < LEVELS - 1; i++)
        hr_print(p, "    if (%s) return %d;", levels[i].supports, i);
    hr_print(p, "#endif");
    hr_print(p, "    return %d;", LEVELS - 1);
    hr_print(p, "}");
    hr_print(p, "%s", "");
}

/* A part's instruction sets are there on x86-64 alone. */
static void print_only_there(hr_printer *p, const part *of, bool begins) {
    if (of->target) hr_text_format(p->out, begins ? "#if defined __x86_64__\n" : "#endif\n");
}

/* "level <= 1 && extents_hold_avx2(n_N)" */
static const char *condition_of(hr_printer *p, const choice *c, int number) {
    const part *of = c->parts[number];
    const char *level = of->target ? hr_format(p, "level <= %d", number) : "";
    if (!c->any_extents) return level;
    return hr_format(p, "%s%s%s", level, *level ? " && " : "",
                     hr_emit_assumptions_call(p, hr_format(p, "_%s", of->name), ""));
}

static void print_chosen(hr_printer *p, const choice *c, const char *name, const char *arguments) {
    for (int i = 0; i < c->count - 1; i++) {
        print_only_there(p, c->parts[i], true);
        hr_print(p, "    if (%s) return %s_%s(%s);", condition_of(p, c, i), name, c->parts[i]->name,
                 arguments);
        print_only_there(p, c->parts[i], false);
    }
    hr_print(p, "    return %s_%s(%s);", name, c->parts[c->count - 1]->name, arguments);
}

/* A team serves whichever part is chosen. */
static void print_largest(hr_printer *p, const choice *c, const char *name, const char *arguments) {
    hr_print(p, "    int64_t most = 0, bytes;");
    for (int i = 0; i < c->count; i++) {
        print_only_there(p, c->parts[i], true);
        hr_print(p, "    bytes = %s_%s(%s);", name, c->parts[i]->name, arguments);
        hr_print(p, "    most = bytes > most ? bytes : most;");
        print_only_there(p, c->parts[i], false);
    }
    hr_print(p, "    return most;");
}

static void print_function(hr_printer *p, const char *kernel, const choice *c, hr_c_function function) {
    hr_text list = {0}, *out = p->out;
    p->out = &list;
    hr_emit_c_arguments(p, function);
    p->out = out;
    const char *arguments = hr_format(p, "%s", hr_text_data(&list));
    const char *name = hr_emit_c_function(p, kernel, function);
    hr_emit_c_signature(p, kernel, function);
    hr_text_format(p->out, " {\n");
    if (c->by_level && function != HR_C_TEAM) {
        print_only_there(p, c->parts[0], true);
        hr_print(p, "    const int level = %s_level();", kernel);
        print_only_there(p, c->parts[0], false);
    }
    if (function == HR_C_TEAM)
        print_largest(p, c, name, arguments);
    else
        print_chosen(p, c, name, arguments);
    hr_print(p, "}");
    hr_print(p, "%s", "");
    hr_text_clear(&list);
}

/* ---- the file ---- */

static hr_status add_part(const hr_plan *like, const int64_t *extents, const hr_emit_options *options,
                          const part *of, choice *c, hr_text *out) {
    hr_plan *plan;
    HR_TRY(plan_part(like, extents, of, &plan));
    hr_status status = append_part(plan, of->general ? like : NULL, options, of, out);
    if (plan->graph->assumptions) c->any_extents = true;
    hr_plan_destroy(plan);
    c->parts[c->count++] = of;
    return status;
}

static hr_status add_parts(const hr_plan *like, const int64_t *extents, const hr_emit_options *options,
                           choice *c, hr_text *out) {
    *c = (choice){.by_level = options->form == HR_SOURCE_EVERY_PROCESSOR};
    for (int i = 0; i < LEVELS && c->by_level; i++)
        HR_TRY(add_part(like, extents, options, &levels[i], c, out));
    if (!c->by_level) HR_TRY(add_part(like, extents, options, &planned, c, out));
    if (!c->any_extents) return HR_OK;
    return add_part(like, extents, options, c->by_level ? &any_plain : &any_extents, c, out);
}

/* The frame's source is a comment, and what comes before the parts. */
static hr_status print_file(hr_printer *p, const hr_plan *plan, const hr_emit_options *options,
                            const choice *c, const hr_text *parts) {
    if (c->by_level) hr_print(p, "/* For every x86-64 processor: -march need not be said. */");
    hr_text_append(p->out, hr_text_data(parts), parts->length);
    hr_text_format(p->out, "\n/* ==== the choice ==== */\n\n");
    if (c->by_level) print_level(p, hr_emit_name(plan, options));
    for (hr_c_function f = 0; f < HR_C_FUNCTIONS; f++)
        print_function(p, hr_emit_name(plan, options), c, f);
    return hr_text_status(p->out);
}

static hr_status emit_parts(const hr_plan *plan, const hr_emit_options *options, const choice *c,
                            const hr_text *parts, hr_emitted *out) {
    hr_printer printer;
    hr_arena *arena;
    HR_TRY(hr_emit_c_frame(plan, options, c->any_extents, out));
    hr_status status = hr_names_create(&arena);
    if (status == HR_OK) {
        status = hr_printer_begin(&printer, plan, arena, &out->source);
        if (status == HR_OK) {
            status = print_file(&printer, plan, options, c, parts);
            hr_printer_end(&printer);
        }
        hr_arena_destroy(arena);
    }
    if (status != HR_OK) hr_emitted_clear(out);
    return status;
}

hr_status hr_emit_c_parts(const hr_plan *plan, const int64_t *extents, const hr_emit_options *options,
                          hr_emitted *out) {
    hr_text parts = {0};
    choice c;
    *out = (hr_emitted){0};
    if (options->form != HR_SOURCE_EVERY_PROCESSOR && !plan->graph->assumptions)
        return hr_emit_c(plan, options, out);
    HR_TRY(hr_emit_refuse_lists(plan));
    hr_status status = add_parts(plan, extents, options, &c, &parts);
    if (status == HR_OK) status = emit_parts(plan, options, &c, &parts, out);
    hr_text_clear(&parts);
    return status;
}
