/* A plan as one CUDA file. In: a plan and numbers for its extents. Out: the source and the header of its
 * launcher.
 *
 * What the driver loads, top to bottom: the arguments, the prelude's sections in use, the kernels of each
 * stage. Extents of inner indices are numbers in it (hr_cuda_is_constant), outer ones arguments.
 *
 * What is to paste has two such parts, each in a namespace of its own and with a launcher: the fast one,
 * which is for these extents, and a general one for any. Two functions of C at its end choose between them.
 */
#include "base/dtype.h"
#include "emit/assumptions.h"
#include "emit/cuda/emit_cuda_parts.h"
#include "emit/cuda/launcher_text.h"
#include "emit/cuda/stage_cuda_attention.h"
#include "emit/cuda/stage_cuda_backward.h"
#include "emit/cuda/stage_cuda_contract.h"
#include "emit/cuda/stage_cuda_general.h"
#include "emit/cuda/stage_cuda_order.h"
#include "emit/describe.h"
#include "emit/prelude.h"
#include "schedule/target.h"

#include <inttypes.h>
#include <string.h>

/* ---- how each stage lies on the device ---- */

static hr_status choose_gemms(hr_cuda_emitter *e, hr_arena *arena) {
    const hr_plan *plan = e->plan;
    size_t size = (size_t)(plan->stage_count + 1) * sizeof *e->gemms;
    e->gemms = hr_arena_alloc(arena, size);
    e->siblings = hr_arena_alloc(arena, size);
    for (int i = 0; i < plan->stage_count; i++) {
        const hr_stage *stage = &plan->stages[i];
        if (!hr_cuda_is_product(stage)) continue;
        HR_TRY(hr_cuda_gemm_choose(plan, stage, e->extents, hr_gemm_mainloop_most(plan), &e->gemms[i]));
        HR_TRY(hr_cuda_gemm_sibling(plan, stage, e->extents, &e->gemms[i], &e->siblings[i]));
    }
    return HR_OK;
}

const char *hr_cuda_local_size(hr_cuda_emitter *e, int tensor) {
    hr_sizes sizes = {0};
    return hr_size_text(e->p,
                        hr_plan_local_size(&sizes, e->plan, tensor, HR_CUDA_LOCAL_MORE, HR_CUDA_LOCAL_UNIT));
}

static void print_places(hr_cuda_emitter *e) {
    hr_printer *p = e->p;
    const char *place = hr_format(p, "%" PRId64, e->work_bytes);
    hr_uses_begin(p);
    for (int t = e->declared; t < e->function->tensor_count; t++) {
        if (!hr_plan_is_scratch(e->plan, t)) continue;
        hr_print(p, "static __device__ inline int64_t %s_place(const arguments &a) {",
                 hr_emit_tensor_name(p, t));
        p->indent++;
        hr_cuda_print_extents_used(p);
        p->indent--;
        hr_print(p, "    (void)a;");
        hr_print(p, "    return %s;", place);
        hr_print(p, "}");
        hr_print(p, "%s", "");
        place = hr_format(p, "%s + %s", place, hr_cuda_local_size(e, t));
    }
}

/* ---- the top of the file ---- */

static void print_constants(hr_cuda_emitter *e) {
    hr_printer *p = e->p;
    for (int i = 0; i < e->function->extent_count; i++)
        if (hr_cuda_is_constant(e->plan, i))
            hr_print(p, "static constexpr int64_t %s = %" PRId64 ";", hr_emit_extent(p, i), e->extents[i]);
    hr_print(p, "%s", "");
}

/* In the order of hr_execution's words: pointers, scalars, extents, strides, scratch, fault. */
static void print_arguments(hr_cuda_emitter *e) {
    hr_printer *p = e->p;
    hr_print(p, "/* The first subscript that left its axis; access 0: none did. */");
    hr_print(p, "struct fault_record {");
    hr_print(p, "    int64_t access, value;");
    hr_print(p, "};");
    hr_print(p, "%s", "");
    hr_print(p, "struct arguments {");
    for (int t = 0; t < e->declared; t++) {
        const hr_tensor *tensor = &e->function->tensors[t];
        hr_print(p, "    %s%s *%s;", tensor->role == HR_ROLE_INPUT ? "const " : "",
                 hr_c_storage(tensor->dtype), hr_emit_tensor(p, t));
    }
    for (int t = 0; t < e->declared; t++)
        hr_print(p, "    double %s_value;", hr_emit_tensor(p, t));
    for (int i = 0; i < e->function->extent_count; i++)
        hr_print(p, "    int64_t %s;", hr_emit_extent(p, i));
    for (int t = 0; t < e->declared; t++)
        if (e->plan->source->tensors[t].rank)
            hr_print(p, "    int64_t %s_strides[%d];", hr_emit_tensor(p, t),
                     e->plan->source->tensors[t].rank);
    hr_print(p, "    char *scratch;");
    hr_print(p, "    fault_record *fault;");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

/* ---- the file ---- */

/* The instructions that multiply, once for all stages. */
static hr_status print_products(hr_cuda_emitter *e, hr_text *stages) {
    int count = 0;
    hr_tensor_core *products = hr_arena_alloc(e->p->arena, (size_t)(e->plan->stage_count + 1) *
                                                               HR_BACKWARD_PRODUCT_KINDS * sizeof *products);
    for (int i = 0; i < e->plan->stage_count; i++) {
        const hr_cuda_attention *attention = hr_cuda_attention_of(&e->plan->stages[i]);
        if (attention && i == attention->first) {
            hr_cuda_attention_products(attention, products + count);
            count += HR_ATTENTION_PRODUCTS;
        }
        const hr_cuda_backward *backward = hr_cuda_backward_of(&e->plan->stages[i]);
        if (backward && i == backward->text.last) {
            hr_cuda_backward_products(backward, products + count);
            count += HR_BACKWARD_PRODUCT_KINDS;
        }
        if (!hr_cuda_is_product(&e->plan->stages[i]) || e->gemms[i].mainloop == HR_GEMM_PLAIN) continue;
        products[count++] = hr_cuda_gemm_product(&e->gemms[i]);
        if (e->siblings[i].mainloop != HR_GEMM_PLAIN)
            products[count++] = hr_cuda_gemm_product(&e->siblings[i]);
    }
    return hr_tensor_core_append(products, count, stages);
}

static hr_status print_stages(hr_cuda_emitter *e, hr_text *stages) {
    e->p->out = stages;
    HR_TRY(print_products(e, stages));
    for (int i = 0; i < e->plan->stage_count; i++) {
        const hr_cuda_attention *attention = hr_cuda_attention_of(&e->plan->stages[i]);
        const hr_cuda_backward *backward = hr_cuda_backward_of(&e->plan->stages[i]);
        if (attention && i == attention->first)
            HR_TRY(hr_emit_attention_cuda(e->p, attention));
        else if (backward && i == backward->text.last)
            HR_TRY(hr_emit_backward_cuda(e->p, backward));
        else if (attention || backward || hr_gemm_walk_joins(e->plan, &e->plan->stages[i]))
            continue;
        else if (e->plan->stages[i].shape == HR_SHAPE_CONTRACT && e->gemms[i].mainloop == HR_GEMM_THIN)
            HR_TRY(hr_emit_thin_cuda(e->p, i, &e->gemms[i]));
        else if (e->plan->stages[i].shape == HR_SHAPE_CONTRACT && e->gemms[i].mainloop != HR_GEMM_PLAIN)
            HR_TRY(hr_emit_gemm_cuda(e->p, i, e->gemms, e->siblings));
        else if (e->plan->stages[i].shape == HR_SHAPE_CONTRACT)
            HR_TRY(hr_emit_contract_cuda(e->p, i));
        else if (hr_stage_is_ordered(&e->plan->stages[i]))
            HR_TRY(hr_emit_ordered_cuda(e->p, i));
        else if (e->plan->general)
            HR_TRY(hr_emit_general_cuda(e->p, i));
        else
            HR_TRY(hr_emit_stage_cuda(e->p, i, e->extents, hr_grid_of(&e->plan->stages[i])));
    }
    return hr_text_status(stages);
}

/* The kernels and what they need; `launcher`: and their launcher. */
static hr_status print_code(hr_cuda_emitter *e, bool launcher, hr_text *out) {
    hr_printer *p = e->p;
    hr_text stages = {0}, body = {0};
    hr_status status = print_stages(e, &stages);
    p->out = &body;
    p->indent = 0;
    p->lane = -1;
    print_places(e);
    hr_text_append(&body, hr_text_data(&stages), stages.length);
    if (status == HR_OK && launcher) status = hr_cuda_print_launcher(e);
    if (status == HR_OK) status = hr_text_status(&body);
    p->out = out;
    print_constants(e);
    print_arguments(e);
    if (status == HR_OK) status = hr_prelude_append(HR_PRELUDE_CUDA, hr_text_data(&body), NULL, out);
    hr_text_append(out, hr_text_data(&body), body.length);
    hr_text_clear(&stages);
    hr_text_clear(&body);
    return status == HR_OK ? hr_text_status(out) : status;
}

/* What is pasted keeps its kernels to itself: several such files go into one program. What the driver loads
 * bears names that it can look up. */
static hr_status emitter_begin(hr_cuda_emitter *e, const hr_plan *plan, const int64_t *extents,
                               const char *kernel, hr_arena *arena, hr_text *out) {
    *e = (hr_cuda_emitter){.plan = plan, .function = plan->normal, .extents = extents};
    e->p = &e->printer;
    e->declared = hr_function_arguments(plan->source);
    HR_TRY(choose_gemms(e, arena));
    HR_TRY(hr_cuda_work_bytes(plan, extents, &e->work_bytes));
    HR_TRY(hr_printer_begin(e->p, plan, arena, out));
    e->p->kernel = kernel;
    return HR_OK;
}

/* Appends the plan's code; `fast`: see hr_cuda_emitter. */
static hr_status print_part(const hr_plan *plan, const int64_t *extents, const hr_plan *fast, bool pasted,
                            hr_text *out) {
    hr_cuda_emitter e;
    hr_arena *arena;
    HR_TRY(hr_names_create(&arena));
    hr_status status = emitter_begin(&e, plan, extents,
                                     pasted ? "static __global__" : "extern \"C\" __global__", arena, out);
    if (status == HR_OK) {
        e.fast = fast;
        status = print_code(&e, pasted, out);
        if (status == HR_OK) status = hr_names_status(plan, arena);
        hr_printer_end(e.p);
    }
    hr_arena_destroy(arena);
    return status;
}

hr_status hr_emit_cuda_loaded(const hr_plan *plan, const int64_t *extents, hr_emitted *out) {
    *out = (hr_emitted){0};
    hr_text_format(&out->source, "%s\n", (const char *)hr_cuda_file_head_text);
    hr_status status = print_part(plan, extents, NULL, false, &out->source);
    if (status != HR_OK) hr_emitted_clear(out);
    return status;
}

/* ---- the file to paste ---- */

typedef struct pasted {
    hr_cuda_emitter *e; /* of the fast part */
    const hr_plan *general;
    const char *name;   /* of the launcher */
    const char *source; /* of the file */
    const char *spaces; /* what the namespaces' names begin with */
} pasted;

static void print_how_to_call(const pasted *f) {
    hr_cuda_emitter *e = f->e;
    hr_printer *p = e->p;
    hr_emit_describe(p, f->name);
    hr_print(p,
             f->general ? " * Any extents are taken. The fast path holds%s"
                        : " * Other extents than these are refused by cudaErrorInvalidValue. It holds%s",
             e->plan->graph->assumptions ? " where" : " for");
    for (int i = 0; i < e->function->extent_count; i++)
        if (hr_cuda_is_constant(e->plan, i) || hr_cuda_is_for_extents(e))
            hr_print(p, " *   %s is %" PRId64, e->function->extents[i], e->extents[i]);
        else
            hr_print(p, " *   %s is any, as far as positions are 32 bits", e->function->extents[i]);
    hr_emit_assumptions_words(p);
    if (f->general)
        hr_print(p,
                 " * Elsewhere each statement is a kernel of its own, which is slower, and products take no "
                 "tensor cores: emit one file for each of a few usual extents.");
    hr_print(p,
             " * All pointers are the device's. scratch: %s_scratch(...) bytes aligned to 256, or NULL where "
             "that is 0.",
             f->name);
    hr_print(p, " * fault: 16 bytes of zeros, aligned to 16; the first 8 are not 0 afterwards where a "
                "subscript left its "
                "axis. Returns a");
    const char *isa = *e->plan->limits.isa ? e->plan->limits.isa : "sm_90a";
    const char *target = hr_cuda_has_maps(e)
                             ? hr_format(p, "-gencode arch=compute_%s,code=%s", isa + strlen("sm_"), isa)
                             : hr_format(p, "-arch=%s", isa);
    hr_print(p, " * cudaError_t. Build: nvcc -O3 %s -c %s */", target, f->source);
}

static void print_signatures(const pasted *f, const char *before, const char *after) {
    hr_cuda_emitter *e = f->e;
    hr_text_format(e->p->out, "%sint64_t %s_scratch(%s)%s", before, f->name,
                   e->function->extent_count ? hr_cuda_extents_declared(e) : "void", after);
}

static void print_launch_signature(const pasted *f, const char *before, const char *after) {
    hr_text_format(f->e->p->out, "%sint %s(", before, f->name);
    hr_cuda_append_parameters(f->e, f->e->p->out);
    hr_text_format(f->e->p->out, ")%s", after);
}

/* Which of the parts takes the extents. */
static void print_choice(const pasted *f) {
    hr_cuda_emitter *e = f->e;
    hr_printer *p = e->p;
    static const char *const parts[] = {"fast", "general"};
    const char *extents = hr_cuda_extents_passed(e);
    const int count = f->general ? 2 : 1;
    print_signatures(f, "extern \"C\" ", " {\n");
    for (int i = 0; i < count; i++)
        hr_print(p, "    if (%s_%s::holds(%s)) return %s_%s::scratch_bytes(%s);", f->spaces, parts[i],
                 extents, f->spaces, parts[i], extents);
    hr_print(p, "    return %d;", HR_EMITTED_REFUSES);
    hr_text_format(p->out, "}\n\n");
    print_launch_signature(f, "extern \"C\" ", " {\n");
    for (int i = 0; i < count; i++) {
        hr_text_format(p->out, "    if (%s_%s::holds(%s)) return %s_%s::launch(", f->spaces, parts[i],
                       extents, f->spaces, parts[i]);
        hr_cuda_append_arguments(e, p->out);
        hr_text_format(p->out, ");\n");
    }
    hr_print(p, "    return (int)cudaErrorInvalidValue; /* none is for these extents */");
    hr_text_format(p->out, "}\n");
}

static void print_header(const pasted *f) {
    hr_printer *p = f->e->p;
    print_how_to_call(f);
    hr_print(p, "#ifndef HEADROOM_%s_H", f->name);
    hr_print(p, "#define HEADROOM_%s_H", f->name);
    hr_print(p, "#include <stdbool.h>\n#include <stdint.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif");
    print_signatures(f, "", ";\n");
    print_launch_signature(f, "", ";\n");
    hr_text_format(p->out, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

static hr_status print_space(const pasted *f, const char *part, const hr_plan *plan, const hr_plan *fast,
                             hr_text *out) {
    hr_text_format(out, "namespace %s_%s {\n\n", f->spaces, part);
    HR_TRY(print_part(plan, f->e->extents, fast, true, out));
    hr_text_format(out, "} // namespace %s_%s\n\n", f->spaces, part);
    return hr_text_status(out);
}

/* The function's name and the extents that are planned for: such files for other extents, under other names,
 * may be parts of one. */
static const char *spaces_of(hr_cuda_emitter *e, const char *name) {
    const char *spaces = name;
    for (int i = 0; i < e->function->extent_count; i++)
        spaces = hr_format(e->p, "%s_%" PRId64, spaces, e->extents[i]);
    return spaces;
}

static hr_status print_file(pasted *f, const hr_emit_options *options, hr_emitted *out) {
    hr_printer *p = f->e->p;
    f->name = hr_emit_name(f->e->plan, options);
    f->source = hr_emit_source_file(p, options, "cu");
    f->spaces = spaces_of(f->e, f->name);
    p->indent = 0;
    p->out = &out->source;
    print_how_to_call(f);
    hr_print(p, "#include \"%s\"", hr_emit_header(p, options));
    hr_text_format(p->out, "%s\n", (const char *)hr_cuda_file_head_text);
    HR_TRY(print_space(f, "fast", f->e->plan, NULL, &out->source));
    if (f->general) HR_TRY(print_space(f, "general", f->general, f->e->plan, &out->source));
    print_choice(f);
    p->out = &out->header;
    print_header(f);
    HR_TRY(hr_text_status(&out->source));
    return hr_text_status(&out->header);
}

static hr_status paste(const hr_plan *plan, const hr_plan *general, const int64_t *extents,
                       const hr_emit_options *options, hr_emitted *out) {
    hr_cuda_emitter e;
    hr_arena *arena;
    HR_TRY(hr_names_create(&arena));
    hr_status status = emitter_begin(&e, plan, extents, "", arena, &out->source);
    if (status == HR_OK) {
        pasted file = {.e = &e, .general = general};
        status = print_file(&file, options, out);
        if (status == HR_OK) status = hr_names_status(plan, arena);
        hr_printer_end(e.p);
    }
    hr_arena_destroy(arena);
    return status;
}

hr_status hr_emit_cuda(const hr_plan *plan, const int64_t *extents, const hr_emit_options *options,
                       hr_emitted *out) {
    const hr_emit_options none = {.size = sizeof none};
    const hr_schedule_options any = {.general = true};
    hr_plan *general = NULL;
    if (!options) options = &none;
    *out = (hr_emitted){0};
    HR_TRY(hr_emit_refuse_lists(plan));
    if (options->form != HR_SOURCE_THESE_EXTENTS)
        HR_TRY(hr_schedule_create(plan->source, extents, plan->layouts, &plan->limits, &any, &general));
    hr_status status = paste(plan, general, extents, options, out);
    hr_plan_destroy(general);
    if (status != HR_OK) hr_emitted_clear(out);
    return status;
}
