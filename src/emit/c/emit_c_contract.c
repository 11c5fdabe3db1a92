/* Prints the stage of a matrix product: the shared main loop and the three functions that it calls.
 *
 * In: a plan and its HR_SHAPE_CONTRACT stages. Out: C. The main loop is a fixed text; a stage adds how an
 * operand's elements are evaluated while they are packed, and what becomes of the finished sums.
 */
#include "emit/c/emit_c_contract.h"
#include "emit/c/attend_c.h"
#include "emit/c/contract_operand.h"
#include "emit/c/function_c.h"
#include "emit/c/lane_loop.h"
#include "emit/c/stage_c.h"
#include "emit/prelude.h"
#include "schedule/cpu/contract_choice.h"

#include <string.h>

enum {
    RANDOM_TILE = 64, /* random numbers drawn at a time */
    SAME_MAX = 8,     /* values that are the same in every row */
};

/* ---- the main loop ---- */

/* Shared by all stages of a type. */
static hr_status append_type(hr_printer *p, const hr_contract_choice *choice, hr_text *out) {
    static const char *const names[] = {"ROWS", "VECTORS", "STRIP"};
    const char *type = choice->double_precision ? "F64" : "F32";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        hr_define(p, HR_IDENTIFIER, hr_format(p, "CONTRACT_%s_%s", type, names[i]));
    hr_text_format(out,
                   "enum { CONTRACT_%s_ROWS = %d, CONTRACT_%s_VECTORS = %d, CONTRACT_%s_STRIP = %d };\n\n",
                   type, (int)choice->blocks.rows, type, choice->vectors, type, choice->strip);
    return hr_prelude_append(choice->double_precision ? HR_PRELUDE_CONTRACT_F64 : HR_PRELUDE_CONTRACT_F32,
                             NULL, p, out);
}

hr_status hr_contract_mainloop_append(hr_printer *p, hr_text *out) {
    const hr_plan *plan = p->plan;
    bool shared = false, pairs = false, bytes = false, attends = false, done[2] = {false, false};
    for (int i = 0; i < plan->stage_count; i++) {
        if (plan->stages[i].shape != HR_SHAPE_CONTRACT) continue;
        const hr_contract_choice *choice = &plan->stages[i].schedule->product;
        if (!shared) HR_TRY(hr_prelude_append(HR_PRELUDE_CONTRACT_BLOCKS, NULL, p, out));
        shared = true, pairs |= choice->bf16, bytes |= choice->bytes, attends |= hr_schedule_attends(plan, i);
        if (!done[choice->double_precision]) HR_TRY(append_type(p, choice, out));
        done[choice->double_precision] = true;
    }
    if (attends) HR_TRY(hr_prelude_append(HR_PRELUDE_CONTRACT_ATTEND, NULL, p, out));
    if (bytes) HR_TRY(hr_prelude_append(HR_PRELUDE_CONTRACT_BYTES, NULL, p, out));
    if (!pairs) return hr_text_status(out);
    return hr_prelude_append(plan->limits.dots_bf16 ? HR_PRELUDE_CONTRACT_DOTS : HR_PRELUDE_CONTRACT_TILES,
                             NULL, p, out);
}

/* ---- what becomes of the finished sums ---- */

/* The finished sum as an operand: rounded as a store into the product's dtype and a load would. */
static const char *sum_text(hr_printer *p, const hr_contract *c, const char *origin) {
    hr_dtype from = c->left->type, dtype = p->function->tensors[c->product].dtype,
             to = hr_compute_type(dtype);
    const char *at = strcmp(origin, "0") == 0 ? "i" : hr_format(p, "(i - %s)", origin);
    if (p->vector) {
        const char *text = hr_format(p, "vf_load_f32(sums + %s)", at);
        if (to != HR_F32)
            text = to == HR_BOOL ? hr_format(p, "vf_ne(%s, vf_of(0))", text)
                                 : hr_format(p, "vi_from_vf(%s)", text);
        if (dtype == to) return text;
        return hr_format(p, "%s_round_%s(%s)", hr_lane_prefix(to), hr_dtype_name(dtype), text);
    }
    const char *text = hr_format(p, "sums[%s]", at);
    if (dtype == from) return text;
    text = hr_format(p, "%s_from_%s(%s)", hr_dtype_name(dtype), hr_type_prefix(from), text);
    return dtype == to ? text
                       : hr_format(p, "%s_from_%s(%s)", hr_type_prefix(to), hr_dtype_name(dtype), text);
}

/* What the end of the product reads that is the same in every row is evaluated once a tile. Beside the
 * results, where rows are a multiple of 4 KB long, each load would wait for the store just before it to the
 * same place of another page. */
enum same_kind { SAME_UNKNOWN, SAME_NOT, SAME_NUMBER, SAME_READ };

typedef struct same_values {
    const hr_product_printer *printer;
    unsigned char *kind; /* by expr id */
    const hr_expr *node[SAME_MAX];
    int count;
} same_values;

static bool is_row_index(const hr_contract *c, const hr_expr *node) {
    bool found = false;
    for (int i = 0; i < c->m_count && node->op == HR_OP_INDEX; i++)
        found = found || node->index == c->m[i];
    return found;
}

/* SAME_READ: reads memory that every row reads. What must be checked may be read in some rows only. */
static enum same_kind same_kind_of(const hr_product_printer *s, same_values *same, const hr_expr *node) {
    const hr_contract *c = s->contract;
    unsigned char *kind = &same->kind[node->id];
    if (*kind != SAME_UNKNOWN) return *kind;
    bool element = node->op == HR_OP_ELEMENT, row = is_row_index(c, node);
    enum same_kind result = element ? SAME_READ : SAME_NUMBER;
    for (int i = 0; i < node->arg_count; i++) {
        enum same_kind of = same_kind_of(s, same, node->args[i]);
        row = row || of == SAME_NOT;
        if (of == SAME_READ) result = SAME_READ;
    }
    if (row || node->op == HR_OP_RANDOM ||
        (element && (node->tensor == c->product || hr_element_is_checked(s->p->function, node))))
        result = SAME_NOT;
    *kind = (unsigned char)result;
    return result;
}

static hr_visit find_same(void *context, const hr_expr *node) {
    same_values *same = context;
    const hr_product_printer *s = same->printer;
    if (hr_expr_level(s->p, node) != HR_AT_LANE || same->count == SAME_MAX) return HR_VISIT_PAST;
    bool found = node->type == HR_F32 && !hr_expr_is_words(node);
    if (found && same_kind_of(s, same, node) == SAME_READ) {
        same->node[same->count++] = node;
        return HR_VISIT_PAST;
    }
    return node->op == HR_OP_ELEMENT ? HR_VISIT_PAST : HR_VISIT_ON;
}

/* Prints the lines that evaluate them into arrays, which are read in their place from then on. */
static void print_same(hr_product_printer *s) {
    hr_printer *p = s->p;
    const hr_contract *c = s->contract;
    const hr_walked_group columns = {c->n, c->n_count, "n", "columns"};
    const bool one = c->n_count == 1;
    size_t ids = (size_t)p->function->expr_count;
    same_values same = {.printer = s, .kind = hr_arena_alloc(p->arena, ids)};
    hr_walk walk = {.enter = find_same, .context = &same};
    for (int i = 0; i < s->stage->step_count && p->vector && c->left->type == HR_F32; i++)
        if (s->stage->steps[i].stored) hr_walk_through(&walk, s->stage->steps[i].value);
    hr_printer_walked(p, &walk);
    for (int i = 0; i < same.count; i++) {
        const char *name = hr_format(p, "same_%d", same.node[i]->id);
        const hr_walked_operand walked = {same.node[i], -1, true};
        hr_print(p, "_Alignas(64) float %s[CONTRACT_F32_FINISH];", name);
        hr_print_open(p, "{");
        hr_product_runs(p, &columns, &walked, name, NULL);
        hr_print_close(p);
        hr_printer_forget(p, HR_AT_TASK);
    }
    for (int i = 0; i < same.count; i++)
        p->buffer[same.node[i]->id] =
            hr_format(p, "same_%d + %s", same.node[i]->id, one ? "(i - n)" : "done + (i - first)");
}

/* Whether results leave in pairs of vectors. Where the sums are rounded before more is done with them, they
 * do not: elements that are as narrow would be walked as even and odd lanes. */
static bool leaves_in_pairs(const hr_product_printer *s) {
    hr_printer *p = s->p;
    const hr_tensor *tensors = p->function->tensors, *product = &tensors[s->contract->product];
    const hr_expr *sum = NULL;
    bool narrow = false, other = false;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!step->stored) continue;
        bool pairs = tensors[p->function->statements[step->statement].tensor].dtype == HR_BF16;
        bool sums = step->value->op == HR_OP_ELEMENT && step->value->tensor == s->contract->product;
        narrow = narrow || pairs;
        other = other || !pairs || !sums;
        if (sums) sum = step->value;
    }
    if (!narrow || !p->vector || s->contract->n_count > 1) return false;
    if (product->dtype == HR_BF16 && !other) p->buffer[sum->id] = "sums + (i - n)"; /* rounded by the store */
    return product->dtype == HR_F32 || (product->dtype == HR_BF16 && !other);
}

/* The stage's stored steps for a run of columns of one row. */
static void print_steps(hr_product_printer *s, const char *first, const char *last, int ways) {
    hr_printer *p = s->p;
    hr_lane_step *steps = hr_arena_alloc(p->arena, (size_t)s->stage->step_count * sizeof *steps);
    hr_lane_pass pass = {.steps = steps,
                         .first = first,
                         .last = last,
                         .ways = ways,
                         .unit = ways,
                         .block = "rows > 8"}; /* fewer are little of what is read, and stay in the cache */
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        const hr_statement *statement = &p->function->statements[step->statement];
        hr_lane_step lane = {.use = HR_LANE_STORE, .value = step->value, .type = step->value->type, .id = i};
        lane.tensor = statement->tensor;
        lane.subscripts = statement->subscripts;
        lane.stream = hr_cpu_walk_streams(hr_cpu_walk_of(s->stage), &p->function->tensors[statement->tensor]);
        if (step->stored) steps[pass.step_count++] = lane;
    }
    hr_random_list randoms;
    hr_lane_randoms(p, &pass, &randoms);
    if (randoms.count) pass.tile = RANDOM_TILE;
    p->value[s->contract->product] = sum_text(p, s->contract, first);
    hr_lane_loop(p, &pass);
}

static void print_columns(hr_product_printer *s, const char *type) {
    hr_printer *p = s->p;
    const hr_contract *c = s->contract;
    if (c->n_count == 1) {
        hr_print(p, "const %s *const sums = tile + place * stride;", type);
        hr_print(p, "const int64_t last = n + columns;");
        print_steps(s, "n", "last", leaves_in_pairs(s) ? 2 : 1);
        return;
    }
    const char *size = hr_emit_index_size(p, c->n[c->n_count - 1]);
    hr_print_open(p, "for (int64_t done = 0, run; done < columns; done += run) {");
    hr_product_digits(p, c->n, c->n_count, "(n + done)", "first");
    hr_print(p, "run = columns - done < (%s) - first ? columns - done : (%s) - first;", size, size);
    hr_print(p, "const %s *const sums = tile + place * stride + done;", type);
    hr_print(p, "const int64_t last = first + run;");
    print_steps(s, "first", "last", 1);
    hr_print_close(p);
}

static void print_finish(hr_product_printer *s) {
    hr_printer *p = s->p;
    const hr_contract *c = s->contract;
    hr_walked_group none = {&c->m[0], 0, NULL, NULL}, columns = {c->n + c->n_count - 1, 1, NULL, NULL};
    const char *type = hr_c_compute(c->left->type);
    hr_product_begin(p, s->stage, &none, &columns, hr_stage_is_vector(s->stage));
    hr_text body, *out = hr_print_aside(p, &body);
    hr_product_batch(s);
    print_same(s);
    hr_print_open(p, "for (int64_t place = 0; place < rows; place++) {");
    hr_product_digits(p, c->m, c->m_count, "(m + place)", NULL);
    print_columns(s, type);
    hr_print_close(p);
    hr_print_back(p, out);
    const char *parameters =
        hr_format(p,
                  "const arguments *a, int64_t batch, int64_t m, int64_t rows, int64_t n, "
                  "int64_t columns, const %s *tile, int64_t stride",
                  type);
    hr_product_function(s, "_finish", parameters, &body);
}

/* ---- the stage ---- */

/* `columns`: in the text's own words, because a compiler for shorter vectors makes narrower panels. */
static void print_choice(hr_product_printer *s, const struct contract_choice *blocks, const char *name,
                         const char *columns) {
    hr_printer *p = s->p;
    hr_print(p, "static const struct contract_choice %s = {",
             hr_define(p, HR_IDENTIFIER, hr_format(p, "stage_%d_%s", s->number, name)));
    p->indent++;
    hr_print(p, ".element = %d,", (int)blocks->element);
    hr_print(p, ".rows = %d,", (int)blocks->rows);
    hr_print(p, ".columns = %s,", columns);
    hr_print(p, ".depth = %d,", (int)blocks->depth);
    hr_print(p, ".left_bytes = %d,", (int)blocks->left_bytes);
    hr_print(p, ".right_bytes = %d,", (int)blocks->right_bytes);
    hr_print(p, ".flat_bytes = %d,", (int)blocks->flat_bytes);
    hr_print(p, ".task_rows = %d,", (int)blocks->task_rows);
    hr_print(p, ".tile_m = %d,", (int)blocks->tile_m);
    hr_print(p, ".tile_n = %d,", (int)blocks->tile_n);
    hr_print(p, ".together = %d,", (int)blocks->together);
    hr_print(p, ".step = %d,", (int)blocks->step);
    hr_print(p, ".group_rows = %d,", (int)blocks->group_rows);
    hr_print(p, ".beside = %d,", (int)blocks->beside);
    hr_print(p, ".parts = %d,", (int)blocks->parts);
    hr_print(p, ".thin_m = %d,", (int)blocks->thin_m);
    hr_print(p, ".thin_n = %d,", (int)blocks->thin_n);
    p->indent--;
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

static void print_limit(hr_product_printer *s) {
    hr_printer *p = s->p;
    const hr_contract_choice *choice = &s->stage->schedule->product;
    hr_printer_stage(p, s->stage);
    p->lane = -1;
    hr_text body, *out = hr_print_aside(p, &body);
    hr_product_batch(s);
    hr_print(p, "return %s%s;", hr_expr_text(p, choice->limit), choice->limit_more ? " + 1" : "");
    hr_print_back(p, out);
    hr_emit_function(p, "static int64_t", hr_format(p, "stage_%d_limit", s->number),
                     "const arguments *a, int64_t batch", &body);
}

static void print_product(hr_product_printer *s, const char *type, const char *name) {
    hr_printer *p = s->p;
    const hr_contract *c = s->contract;
    hr_print(p, "const struct contract_%s %s = {", type, name);
    p->indent++;
    hr_print(p, ".batch = %s,", hr_emit_points(p, c->batch, c->batch_count));
    hr_print(p, ".m = %s,", hr_emit_points(p, c->m, c->m_count));
    hr_print(p, ".n = %s,", hr_emit_points(p, c->n, c->n_count));
    hr_print(p, ".k = %s,", hr_emit_points(p, c->k, c->k_count));
    hr_print(p, ".left = {stage_%d_left, .along_k = %s},", s->number,
             c->left_lane.along_k ? "true" : "false");
    hr_print(p, ".right = {stage_%d_right, .along_k = %s},", s->number,
             c->right_lane.along_k ? "true" : "false");
    if (c->seen) hr_print(p, ".seen = {stage_%d_seen, .along_k = true},", s->number);
    hr_print(p, ".finish = stage_%d_finish,", s->number);
    hr_print(p, ".arguments = a,");
    if (s->stage->schedule->product.limit && !hr_schedule_attends(p->plan, s->number))
        hr_print(p, ".%s = stage_%d_limit,",
                 s->stage->schedule->product.limited == HR_LIMITED_DEPTH ? "depths" : "columns", s->number);
    p->indent--;
    hr_print(p, "};");
}

bool hr_contract_streams(hr_printer *p, const hr_stage *stage) {
    const hr_function *function = p->function;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        const hr_tensor *target = &function->tensors[function->statements[step->statement].tensor];
        if (step->stored && hr_cpu_walk_streams(hr_cpu_walk_of(stage), target)) return true;
    }
    return false;
}

/* The run by a unit for neighbours along k, where the compiler may use it and it is worth its packing. */
static void print_packed(hr_product_printer *s, const hr_contract_choice *choice) {
    hr_printer *p = s->p;
    const hr_contract *c = s->contract;
    const char *kind = choice->bytes ? "bytes" : "pairs", *type = choice->bytes ? "f64" : "f32";
    const char *unit = "&contract_pairs_unit";
    if (choice->bytes)
        unit = hr_format(p, "contract_bytes_unit(&product, %s, %s)",
                         hr_value_bytes(p->function, c->left) == HR_U8 ? "true" : "false",
                         hr_value_bytes(p->function, c->right) == HR_U8 ? "true" : "false");
    hr_print(p, choice->bytes ? "#ifdef CONTRACT_BYTES_UNIT" : "#ifdef CONTRACT_PAIRS_UNIT");
    hr_print_open(p, hr_format(p, "if (contract_%s_serve(&product)) {", kind));
    if (choice->bf16) hr_print(p, "contract_pairs_begin();");
    hr_print(p, "contract_%s_run(&product, %s, &stage_%d_packed, thread, threads, work);", type, unit,
             s->number);
    if (choice->bf16) hr_print(p, "contract_pairs_end();");
    if (hr_contract_streams(p, s->stage)) hr_print(p, "stream_end();");
    hr_print(p, "return;");
    hr_print_close(p);
    hr_print(p, "#endif");
}

static void print_run(hr_product_printer *s, const hr_contract_choice *choice) {
    hr_printer *p = s->p;
    const char *type = choice->double_precision ? "f64" : "f32";
    hr_printer_stage(p, s->stage);
    p->lane = -1; /* sizes only */
    hr_text body, *out = hr_print_aside(p, &body);
    print_product(s, type, "product");
    if (choice->bf16 || choice->bytes) print_packed(s, choice);
    hr_print(p, "contract_%s_run(&product, &contract_%s_vectors, &stage_%d_choice, thread, threads, work);",
             type, type, s->number);
    if (hr_contract_streams(p, s->stage)) hr_print(p, "stream_end();");
    hr_print_back(p, out);
    hr_product_function(s, "", HR_STAGE_PARAMETERS, &body);
}

static hr_product_printer product_printer_of(hr_printer *p, int number) {
    const hr_stage *stage = &p->plan->stages[number];
    return (hr_product_printer){.p = p, .stage = stage, .contract = stage->contract, .number = number};
}

void hr_contract_print_product(hr_printer *p, int number, const char *name) {
    hr_product_printer s = product_printer_of(p, number);
    print_product(&s, "f32", name);
}

/* args: which choice, batch, m, n, k, threads */
static int64_t contract_value(const void *plan, const int64_t *args) {
    const int64_t which = args[0];
    const hr_contract_choice choice = ((const hr_plan *)plan)->stages[which / 2].schedule->product;
    return contract_bytes(which % 2 ? &choice.packed : &choice.blocks, args[1], args[2], args[3], args[4],
                          args[5]);
}

static int64_t largest_value(const void *nothing, const int64_t *args) {
    (void)nothing;
    return contract_max(args[0], args[1]);
}

const hr_size *hr_contract_largest(hr_sizes *sizes, const hr_size *a, const hr_size *b) {
    static const hr_size_function largest = {.name = "contract_max", .value = largest_value};
    return hr_size_call(sizes, &largest, NULL, 2, (const hr_size *[]){a, b});
}

const hr_size *hr_contract_choice_name(hr_sizes *sizes, int number, bool packed) {
    return hr_size_name(sizes, "&stage_", number, packed ? "_packed" : "_choice", 2 * number + packed);
}

const hr_size *hr_contract_size(hr_sizes *sizes, const hr_plan *plan, int number, int threads) {
    const hr_contract *c = plan->stages[number].contract;
    const hr_contract_choice *choice = &plan->stages[number].schedule->product;
    const bool packed = choice->bf16 || choice->bytes;
    static const hr_size_function bytes = {.name = "contract_bytes", .value = contract_value};
    const hr_size *of[2], *args[] = {NULL,
                                     hr_size_points(sizes, plan->normal, c->batch, c->batch_count),
                                     hr_size_points(sizes, plan->normal, c->m, c->m_count),
                                     hr_size_points(sizes, plan->normal, c->n, c->n_count),
                                     hr_size_points(sizes, plan->normal, c->k, c->k_count),
                                     hr_size_word(sizes, "threads", threads)};
    for (int which = 0; which <= packed; which++) {
        args[0] = hr_contract_choice_name(sizes, number, which);
        of[which] = hr_size_call(sizes, &bytes, plan, 6, args);
    }
    return packed ? hr_contract_largest(sizes, of[0], of[1]) : of[0];
}

hr_status hr_emit_contract_c(hr_printer *p, int number) {
    const hr_stage *stage = &p->plan->stages[number];
    hr_product_printer s = product_printer_of(p, number);
    hr_print(p, "/* %s", stage->name);
    hr_print(p, " * %s */", stage->why);
    hr_contract_choice choice = stage->schedule->product;
    const char *columns = choice.double_precision ? "CONTRACT_F64_COLUMNS" : "CONTRACT_F32_COLUMNS";
    print_choice(&s, &choice.blocks, "choice", columns);
    if (choice.bytes) print_choice(&s, &choice.packed, "packed", columns);
    if (choice.bf16)
        print_choice(&s, &choice.packed, "packed", hr_format(p, "%d", (int)choice.packed.columns));
    hr_product_operand(&s, HR_PRODUCT_LEFT);
    hr_product_operand(&s, HR_PRODUCT_RIGHT);
    if (s.contract->seen) hr_product_operand(&s, HR_PRODUCT_SEEN);
    if (s.contract->mask && hr_schedule_attends(p->plan, number)) hr_product_operand(&s, HR_PRODUCT_MASK);
    print_finish(&s);
    if (!hr_schedule_attends(p->plan, number)) {
        if (choice.limit) print_limit(&s);
        print_run(&s, &choice);
        return hr_text_status(p->out);
    }
    return hr_schedule_run(p->plan, number).last == number ? hr_emit_attend(p, number)
                                                           : hr_text_status(p->out);
}
