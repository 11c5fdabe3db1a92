/* Prints the loop of products with rows between them. In: the stages that go together. Out: text. See
 * attend_c.h.
 *
 * The loop over blocks is a fixed text, contract/contract_attend.h. What a block goes through is printed
 * here: the first products, the functions of the stages of rows, the products that sum over what these make.
 * What they hand to each other is addressed as if all of it were there; a block's arguments say where it
 * would stand.
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

/* ---- products ---- */

enum { PRODUCTS_MOST = CONTRACT_ATTEND_PRODUCTS };

/* Those of the stages that go together; how many. */
static int products_of(const hr_plan *plan, hr_run run, int out[PRODUCTS_MOST]) {
    int count = 0;
    for (int k = run.first; k <= run.last; k++)
        if (plan->stages[k].contract) out[count++] = k;
    return count;
}

/* It sums over the columns of the first one. */
static bool sums_rows(const hr_plan *plan, hr_run run, int product) {
    return plan->stages[product].contract->k[0] == plan->stages[run.first].contract->n[0];
}

/* ---- sizes ---- */

enum { SIZES_FIELDS = 6, FIELDS_MOST = SIZES_FIELDS + 2 * PRODUCTS_MOST };

/* args: the fields of contract_attend_sizes, the last stage, threads */
static int64_t attend_value(const void *context, const int64_t *args) {
    const hr_plan *plan = context;
    const int64_t count = args[SIZES_FIELDS - 1], *rest = args + SIZES_FIELDS + 2 * count;
    struct contract_attend_sizes sizes = {args[0], args[1], args[2], args[3], args[4], count, {0}};
    hr_contract_choice of[PRODUCTS_MOST];
    const struct contract_choice *choices[PRODUCTS_MOST][2];
    int products[PRODUCTS_MOST];
    products_of(plan, hr_schedule_run(plan, (int)rest[0]), products);
    for (int i = 0; i < count; i++) {
        const hr_stage *stage = &plan->stages[products[i]];
        sizes.shape[2 * i] = args[SIZES_FIELDS + 2 * i];
        sizes.shape[2 * i + 1] = args[SIZES_FIELDS + 2 * i + 1];
        of[i] = hr_contract_choice_of(plan, stage);
        choices[i][0] = &of[i].blocks;
        choices[i][1] = stage->schedule->product.bf16 ? &of[i].packed : &of[i].blocks;
    }
    return contract_attend_bytes(&sizes, (const struct contract_choice *const(*)[2])choices, rest[1]);
}

/* The fields of contract_attend_sizes; how many. */
static int sizes_of(hr_sizes *sizes, const hr_plan *plan, int number, const hr_size *out[FIELDS_MOST]) {
    const hr_run run = hr_schedule_run(plan, number);
    const hr_contract *first = plan->stages[run.first].contract;
    const hr_size *row = hr_size_number(sizes, 0), *area = row;
    int products[PRODUCTS_MOST], fields = SIZES_FIELDS;
    const int count = products_of(plan, run, products);
    for (between b = first_between(plan, number); next_between(&b);)
        row = hr_size_sum(sizes, row, padded_row(sizes, &b));
    for (int k = run.first + 1; k < run.last; k++)
        if (!plan->stages[k].contract)
            area = hr_contract_largest(sizes, area, hr_stage_thread_size(sizes, plan, &plan->stages[k]));
    out[0] = hr_size_points(sizes, plan->normal, first->batch, first->batch_count);
    out[1] = hr_size_points(sizes, plan->normal, first->m, first->m_count);
    out[2] = row;
    out[3] = area;
    out[4] = hr_size_number(sizes, cache_bytes(plan));
    out[5] = hr_size_number(sizes, count);
    for (int i = 0; i < count; i++) {
        const hr_contract *c = plan->stages[products[i]].contract;
        out[fields++] = hr_size_points(sizes, plan->normal, c->n, c->n_count);
        out[fields++] = hr_size_points(sizes, plan->normal, c->k, c->k_count);
    }
    return fields;
}

static void print_sizes(hr_printer *p, int number) {
    hr_sizes sizes = {0};
    const hr_size *fields[FIELDS_MOST];
    const char *text = NULL;
    const int count = sizes_of(&sizes, p->plan, number, fields);
    for (int i = 0; i < count; i++) {
        const char *field = hr_size_text(p, fields[i]);
        text = text ? hr_format(p, "%s, %s%s", text, i == SIZES_FIELDS ? "{" : "", field) : field;
    }
    hr_print(p, "const struct contract_attend_sizes sizes = {%s}};", text);
}

const hr_size *hr_attend_size(hr_sizes *sizes, const hr_plan *plan, int number, int threads) {
    static const hr_size_function bytes[PRODUCTS_MOST + 1] = {
#define BYTES(products)                                                                                      \
    [products] = {.name = "contract_attend_bytes",                                                           \
                  .value = attend_value,                                                                     \
                  .record = "contract_attend_sizes",                                                         \
                  .fields = SIZES_FIELDS + 2 * (products),                                                   \
                  .array = SIZES_FIELDS}
        BYTES(2), BYTES(3), BYTES(4)
#undef BYTES
    };
    const hr_size *args[FIELDS_MOST + 2];
    if (number != hr_schedule_run(plan, number).last) return hr_size_number(sizes, 0);
    const int fields = sizes_of(sizes, plan, number, args);
    args[fields] = hr_size_name(sizes, "stage_", number, "_choices", number);
    args[fields + 1] = hr_size_word(sizes, "threads", threads);
    return hr_size_call(sizes, &bytes[(fields - SIZES_FIELDS) / 2], plan, fields + 2, args);
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
static void print_keys(hr_printer *p, int number) {
    const hr_stage *head = &p->plan->stages[number];
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
    if (c->mask)
        hr_print(p,
                 "keys = contract_attend_seen(&(struct contract_f32_operand){stage_%d_mask, %s}, a, "
                 "attend->batch, m, "
                 "rows, keys);",
                 number, c->mask_lane.along_k ? "true" : "false");
}

/* One of the products: the `team`th. */
static void print_product(hr_printer *p, hr_run run, int stage, int team) {
    const hr_contract *c = p->plan->stages[stage].contract;
    const char *all = hr_format(p, "(struct contract_attend_span){0, %s}",
                                sums_rows(p->plan, run, stage) ? hr_emit_points(p, c->n, c->n_count)
                                                               : hr_emit_points(p, c->k, c->k_count));
    const bool sums = sums_rows(p->plan, run, stage);
    hr_print(p, "contract_attend_product(&attend->team[%d], &block, m, rows, %s, %s);", team,
             sums ? all : "keys", sums ? "keys" : all);
}

static void print_block(hr_printer *p, int number) {
    const hr_run run = hr_schedule_run(p->plan, number);
    const hr_contract *first = p->plan->stages[run.first].contract;
    int team = 0;
    hr_print(p, "const int64_t row = attend->batch * (%s) + m, most = attend->blocks.rows;",
             hr_emit_points(p, first->m, first->m_count));
    hr_print(p, "char *const between = attend->own + attend->blocks.between;");
    hr_print(p, "arguments block = *a;");
    print_places(p, number);
    print_keys(p, run.first);
    for (int k = run.first; k <= run.last; k++)
        if (p->plan->stages[k].contract)
            print_product(p, run, k, team++);
        else
            hr_print(p,
                     "stage_%d_rows(&block, row, row + rows, keys.begin, keys.end, attend->own + "
                     "attend->blocks.area);",
                     k);
}

static bool takes_pairs(const hr_plan *plan, int stage) {
    return plan->stages[stage].schedule->product.bf16;
}

/* Both choices of each product. */
static void print_choices(hr_printer *p, int number) {
    int products[PRODUCTS_MOST];
    const int count = products_of(p->plan, hr_schedule_run(p->plan, number), products);
    hr_print(p, "static const struct contract_choice *const %s[][2] = {",
             hr_define(p, HR_IDENTIFIER, hr_format(p, "stage_%d_choices", number)));
    for (int i = 0; i < count; i++)
        hr_print(p, "    {&stage_%d_choice, &stage_%d_%s},", products[i], products[i],
                 takes_pairs(p->plan, products[i]) ? "packed" : "choice");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

static void print_part(hr_printer *p, int which, int number) {
    if (!takes_pairs(p->plan, number)) return;
    hr_print(p, "if (contract_pairs_serve(&product_%d)) {", which);
    hr_print(p, "    parts[%d].unit = &contract_pairs_unit;", which);
    hr_print(p, "    parts[%d].choice = &stage_%d_packed;", which, number);
    hr_print(p, "    pairs = true;");
    hr_print(p, "}");
}

static bool streams(hr_printer *p, const int *products, int count) {
    for (int i = 0; i < count; i++)
        if (hr_contract_streams(p, &p->plan->stages[products[i]])) return true;
    return false;
}

static void print_run(hr_printer *p, int number) {
    const hr_run run = hr_schedule_run(p->plan, number);
    const hr_stage *head = &p->plan->stages[run.first];
    int products[PRODUCTS_MOST];
    const int count = products_of(p->plan, run, products);
    bool pairs = false;
    for (int i = 0; i < count; i++) {
        hr_contract_print_product(p, products[i], hr_format(p, "product_%d", i));
        pairs = pairs || takes_pairs(p->plan, products[i]);
    }
    print_sizes(p, number);
    hr_print(p, "struct contract_attend_part parts[] = {");
    for (int i = 0; i < count; i++)
        hr_print(p, "    {&product_%d, &contract_f32_vectors, &stage_%d_choice},", i, products[i]);
    hr_print(p, "};");
    if (pairs) {
        hr_print(p, "#ifdef CONTRACT_PAIRS_UNIT");
        hr_print(p, "bool pairs = false;");
        for (int i = 0; i < count; i++)
            print_part(p, i, products[i]);
        hr_print(p, "if (pairs) contract_pairs_begin();");
        hr_print(p, "#endif");
    }
    hr_print(p, "struct contract_attend attend = contract_attend_of(&sizes, parts, thread, threads, work);");
    hr_print(p, "contract_attend_run(&attend, a, %s, stage_%d_block);",
             head->mask_bound || head->mask_begin ? "true" : "false", number);
    if (pairs) {
        hr_print(p, "#ifdef CONTRACT_PAIRS_UNIT");
        hr_print(p, "if (pairs) contract_pairs_end();");
        hr_print(p, "#endif");
    }
    if (streams(p, products, count)) hr_print(p, "stream_end();");
}

hr_status hr_emit_attend(hr_printer *p, int number) {
    hr_printer_stage(p, &p->plan->stages[number]);
    p->lane = -1; /* sizes only */
    print_choices(p, number);
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
