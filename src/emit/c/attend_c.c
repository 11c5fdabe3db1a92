/* Prints the loop of two products with rows between them. In: the stages that go together. Out: text. See
 * attend_c.h.
 *
 * The loop over blocks is a fixed text, contract/contract_attend.h. What a block goes through is printed
 * here: the first product, the functions of the stages of rows, the second product. What they hand to each
 * other is addressed as if all of it were there; a block's arguments say where it would stand.
 */
#include "emit/c/attend_c.h"

#include "base/dtype.h"
#include "emit/c/contract_operand.h"
#include "emit/c/emit_c_contract.h"
#include "emit/c/function_c.h"
#include "emit/c/scratch_c.h"
#include "emit/c/stage_c.h"
#include "ir/visit.h"
#include "schedule/cpu/contract_choice.h"

#include "emit/templates/cpu/contract_attend_blocks.h"

#include <inttypes.h>

enum { LINE = 64 }; /* bytes: what stands beside each other in a block is in whole cache lines a row */

/* Of a core's second-level cache, one in so many bytes for what stands between the products. */
enum { CACHE_SHARE = 2 };

static int64_t cache_bytes(const hr_plan *plan) {
    return hr_limits_l2(&plan->limits) / CACHE_SHARE;
}

/* ---- what stands in a block ---- */

typedef struct between {
    const hr_plan *plan;
    int tensor; /* of the normal function, in_blocks and made by the stages that go together */
    hr_run run;
} between;

/* Whether there is another one. */
static bool next_between(between *b) {
    while (++b->tensor < b->plan->normal->tensor_count) {
        if (!hr_plan_is_in_blocks(b->plan, b->tensor)) continue;
        for (int k = b->run.first; k < b->run.last; k++)
            if (hr_stage_makes(b->plan, &b->plan->stages[k], b->tensor)) return true;
    }
    return false;
}

static between first_between(const hr_plan *plan, int number) {
    return (between){plan, -1, hr_schedule_run(plan, number)};
}

static int row_axes(const hr_plan *plan, int number) {
    const hr_contract *c = plan->stages[number].contract;
    return c->batch_count + c->m_count;
}

/* Bytes of a row of the tensor, and what they take as whole lines. */
static const hr_size *row_bytes(hr_sizes *sizes, const between *b) {
    const hr_tensor *tensor = &b->plan->normal->tensors[b->tensor];
    return hr_size_bytes(sizes, tensor, row_axes(b->plan, b->run.last));
}

static const hr_size *padded_row(hr_sizes *sizes, const between *b) {
    return hr_size_rounded(sizes, row_bytes(sizes, b), LINE - 1, LINE);
}

/* ---- sizes ---- */

/* args: the fields of contract_attend_sizes, the two choices, threads */
static int64_t attend_value(const void *plan, const int64_t *args) {
    const struct contract_attend_sizes sizes = {args[0], args[1], args[2], args[3],
                                                args[4], args[5], args[6], args[7]};
    const hr_stage *stages = ((const hr_plan *)plan)->stages;
    const hr_contract_choice first = hr_contract_choice_of(plan, &stages[args[8] / 2]),
                             second = hr_contract_choice_of(plan, &stages[args[9] / 2]);
    return contract_attend_bytes(&sizes, args[8] % 2 ? &first.pairs : &first.blocks,
                                 args[9] % 2 ? &second.pairs : &second.blocks, args[10]);
}

enum { SIZES_FIELDS = 8 };

/* The fields of contract_attend_sizes. */
static void sizes_of(hr_sizes *sizes, const hr_plan *plan, int number, const hr_size *out[SIZES_FIELDS]) {
    const hr_run run = hr_schedule_run(plan, number);
    const hr_contract *first = plan->stages[run.first].contract, *second = plan->stages[run.last].contract;
    const hr_size *row = hr_size_number(sizes, 0), *area = row;
    for (between b = first_between(plan, number); next_between(&b);)
        row = hr_size_sum(sizes, row, padded_row(sizes, &b));
    for (int k = run.first + 1; k < run.last; k++)
        area = hr_contract_largest(sizes, area, hr_stage_thread_size(sizes, plan, &plan->stages[k]));
    out[0] = hr_size_points(sizes, plan->normal, first->batch, first->batch_count);
    out[1] = hr_size_points(sizes, plan->normal, first->m, first->m_count);
    out[2] = hr_size_points(sizes, plan->normal, first->n, first->n_count);
    out[3] = hr_size_points(sizes, plan->normal, first->k, first->k_count);
    out[4] = hr_size_points(sizes, plan->normal, second->n, second->n_count);
    out[5] = row;
    out[6] = area;
    out[7] = hr_size_number(sizes, cache_bytes(plan));
}

static void print_sizes(hr_printer *p, int number) {
    hr_sizes sizes = {0};
    const hr_size *fields[SIZES_FIELDS];
    const char *text = NULL;
    sizes_of(&sizes, p->plan, number, fields);
    for (int i = 0; i < SIZES_FIELDS; i++) {
        const char *field = hr_size_text(p, fields[i]);
        text = text ? hr_format(p, "%s, %s", text, field) : field;
    }
    hr_print(p, "const struct contract_attend_sizes sizes = {%s};", text);
}

const hr_size *hr_attend_size(hr_sizes *sizes, const hr_plan *plan, int number, int threads) {
    const hr_run run = hr_schedule_run(plan, number);
    const hr_size *size = hr_size_number(sizes, 0), *args[SIZES_FIELDS + 3];
    if (number != run.last) return size;
    static const hr_size_function bytes = {.name = "contract_attend_bytes",
                                           .value = attend_value,
                                           .record = "contract_attend_sizes",
                                           .fields = SIZES_FIELDS};
    const bool first = plan->stages[run.first].schedule->product.bf16,
               second = plan->stages[run.last].schedule->product.bf16;
    sizes_of(sizes, plan, number, args);
    args[SIZES_FIELDS + 2] = hr_size_word(sizes, "threads", threads);
    for (int i = 0; i <= first; i++)
        for (int j = 0; j <= second; j++) {
            args[SIZES_FIELDS] = hr_contract_choice_name(sizes, run.first, i);
            args[SIZES_FIELDS + 1] = hr_contract_choice_name(sizes, run.last, j);
            size =
                hr_contract_largest(sizes, size, hr_size_call(sizes, &bytes, plan, SIZES_FIELDS + 3, args));
        }
    return size;
}

/* ---- a block ---- */

/* Where what stands between the products would begin. */
static void print_places(hr_printer *p, int number) {
    const char *place = "0";
    for (between b = first_between(p->plan, number); next_between(&b);) {
        const char *type = hr_c_storage(p->function->tensors[b.tensor].dtype);
        hr_sizes sizes = {0};
        hr_print(p, "block.%s = (%s *)strip_origin(between + most * (%s), row * (%s));",
                 hr_emit_tensor(p, b.tensor), type, place, hr_size_text(p, row_bytes(&sizes, &b)));
        place = hr_format(p, "%s + %s", place, hr_size_text(p, padded_row(&sizes, &b)));
    }
}

/* The last index of queries at one of the block's rows, where all of them are of one run of it; else `other`.
 */
static void print_query(hr_printer *p, const hr_contract *c, const char *row, const char *other) {
    const char *size = hr_emit_index_size(p, c->m[c->m_count - 1]);
    const char *index = hr_emit_index(p, c->m[c->m_count - 1]);
    if (c->m_count == 1)
        hr_print(p, "const int64_t %s = %s;", index, row);
    else
        hr_print(p, "const int64_t %s = m / (%s) == (m + rows - 1) / (%s) ? (%s) %% (%s) : %s;", index, size,
                 size, row, size, other);
}

static hr_visit is_batch_index(const hr_expr *node, const void *context) {
    const hr_contract *c = context;
    return hr_visit_until(node->op == HR_OP_INDEX && hr_indices_have(c->batch, c->batch_count, node->index));
}

/* Keys that the block's last row reaches, and those that its first row still does. */
static void print_keys(hr_printer *p, const hr_stage *head) {
    const hr_contract *c = head->contract;
    const bool of_batch = (head->mask_bound && hr_expr_find(head->mask_bound, is_batch_index, c)) ||
                          (head->mask_begin && hr_expr_find(head->mask_begin, is_batch_index, c));
    if (of_batch) hr_product_digits(p, c->batch, c->batch_count, "attend->batch", NULL);
    const char *size = hr_emit_index_size(p, c->m[c->m_count - 1]);
    hr_print(p, "struct contract_attend_span keys = {0, %s};", hr_emit_points(p, c->n, c->n_count));
    if (head->mask_bound) {
        hr_print(p, "{");
        p->indent++;
        print_query(p, c, "m + rows - 1", hr_format(p, "%s - 1", size));
        hr_print(p, "keys.end = contract_attend_limit(attend, %s + %d);", hr_expr_text(p, head->mask_bound),
                 head->mask_bound_more);
        hr_print_close(p);
    }
    hr_printer_forget(p, HR_AT_TASK);
    if (head->mask_begin) {
        hr_print(p, "{");
        p->indent++;
        print_query(p, c, "m", "0");
        hr_print(p, "keys.begin = contract_attend_begin(attend, %s + %d, keys.end);",
                 hr_expr_text(p, head->mask_begin), head->mask_begin_more);
        hr_print_close(p);
    }
}

static void print_block(hr_printer *p, int number) {
    const hr_run run = hr_schedule_run(p->plan, number);
    const hr_contract *first = p->plan->stages[run.first].contract,
                      *second = p->plan->stages[run.last].contract;
    hr_print(p, "const int64_t row = attend->batch * (%s) + m, most = attend->blocks.rows;",
             hr_emit_points(p, first->m, first->m_count));
    hr_print(p, "char *const between = attend->own + attend->blocks.between;");
    hr_print(p, "arguments block = *a;");
    print_places(p, number);
    print_keys(p, &p->plan->stages[run.first]);
    hr_print(p, "const struct contract_attend_span depths = {0, %s}, columns = {0, %s};",
             hr_emit_points(p, first->k, first->k_count), hr_emit_points(p, second->n, second->n_count));
    hr_print(p, "contract_attend_product(&attend->first, &block, m, rows, keys, depths);");
    for (int k = run.first + 1; k < run.last; k++)
        hr_print(p,
                 "stage_%d_rows(&block, row, row + rows, keys.begin, keys.end, attend->own + "
                 "attend->blocks.area);",
                 k);
    hr_print(p, "contract_attend_product(&attend->second, &block, m, rows, columns, keys);");
}

static void print_part(hr_printer *p, int which, int number) {
    static const char *const names[] = {"first", "second"};
    if (!p->plan->stages[number].schedule->product.bf16) return;
    hr_print(p, "if (contract_pairs_serve(&%s)) {", names[which]);
    hr_print(p, "    parts[%d].unit = &contract_pairs_unit;", which);
    hr_print(p, "    parts[%d].choice = &stage_%d_pairs;", which, number);
    hr_print(p, "    pairs = true;");
    hr_print(p, "}");
}

static void print_run(hr_printer *p, int number) {
    const hr_run run = hr_schedule_run(p->plan, number);
    const bool pairs =
        p->plan->stages[run.first].schedule->product.bf16 || p->plan->stages[run.last].schedule->product.bf16;
    hr_contract_print_product(p, run.first, "first");
    hr_contract_print_product(p, run.last, "second");
    print_sizes(p, number);
    hr_print(p, "struct contract_attend_part parts[] = {{&first, &contract_f32_vectors, &stage_%d_choice},",
             run.first);
    hr_print(p, "                                       {&second, &contract_f32_vectors, &stage_%d_choice}};",
             run.last);
    if (pairs) {
        hr_print(p, "#ifdef CONTRACT_PAIRS_UNIT");
        hr_print(p, "bool pairs = false;");
        print_part(p, 0, run.first);
        print_part(p, 1, run.last);
        hr_print(p, "if (pairs) contract_pairs_begin();");
        hr_print(p, "#endif");
    }
    hr_print(p, "struct contract_attend attend = contract_attend_of(&sizes, parts, thread, threads, work);");
    hr_print(p, "contract_attend_run(&attend, a, %s, stage_%d_block);",
             p->plan->stages[run.first].mask_bound || p->plan->stages[run.first].mask_begin ? "true"
                                                                                            : "false",
             number);
    if (pairs) {
        hr_print(p, "#ifdef CONTRACT_PAIRS_UNIT");
        hr_print(p, "if (pairs) contract_pairs_end();");
        hr_print(p, "#endif");
    }
    if (hr_contract_streams(p, &p->plan->stages[run.last])) hr_print(p, "stream_end();");
}

hr_status hr_emit_attend(hr_printer *p, int number) {
    hr_printer_stage(p, &p->plan->stages[number]);
    p->lane = -1; /* sizes only */
    hr_text body, *out = hr_print_aside(p, &body);
    print_block(p, number);
    hr_print_back(p, out);
    hr_emit_function(p, "static void", hr_format(p, "stage_%d_block", number),
                     "const arguments *a, const struct contract_attend *attend, int64_t m, int64_t rows",
                     &body);
    out = hr_print_aside(p, &body);
    print_run(p, number);
    hr_print_back(p, out);
    hr_emit_function(p, "static void", hr_format(p, "stage_%d", number), HR_STAGE_PARAMETERS, &body);
    return hr_text_status(p->out);
}
