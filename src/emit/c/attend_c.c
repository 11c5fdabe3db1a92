/* Prints the loop of two products with rows between them. In: the stages that go together. Out: text. See
 * attend_c.h.
 *
 * The loop over blocks is a fixed text, contract/contract_attend.h. What a block goes through is printed
 * here: the first product, the functions of the stages of rows, the second product. What they hand to each
 * other is addressed as if all of it were there; a block's arguments say where it would stand.
 */
#include "emit/c/attend_c.h"

#include "base/dtype.h"
#include "emit/c/emit_c_contract.h"
#include "emit/c/function_c.h"
#include "emit/c/stage_area.h"
#include "emit/c/stage_c.h"
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
    return (between){plan, -1, hr_plan_run(plan, number)};
}

static int row_axes(const hr_plan *plan, int number) {
    const hr_contract *c = plan->stages[number].contract;
    return c->batch_count + c->m_count;
}

/* Elements of a row of the tensor, and its bytes. */
static const char *row_size(hr_printer *p, const between *b) {
    const hr_tensor *tensor = &p->function->tensors[b->tensor];
    const char *size = hr_format(p, "%d", (int)hr_dtype_size(tensor->dtype));
    for (int a = row_axes(p->plan, b->run.last); a < tensor->rank; a++)
        size = hr_format(p, "%s * %s", size, hr_emit_size(p, tensor->shape[a]));
    return size;
}

static const char *padded_size(hr_printer *p, const between *b) {
    return hr_format(p, "(%s + %d) / %d * %d", row_size(p, b), LINE - 1, LINE, LINE);
}

/* ---- sizes ---- */

static const char *choice_name(hr_printer *p, int number, bool pairs) {
    return hr_format(p, "&stage_%d_%s", number, pairs ? "pairs" : "choice");
}

static const char *sizes_text(hr_printer *p, int number) {
    const hr_run run = hr_plan_run(p->plan, number);
    const hr_contract *first = p->plan->stages[run.first].contract,
                      *second = p->plan->stages[run.last].contract;
    const char *row = "0", *area = "0";
    for (between b = first_between(p->plan, number); next_between(&b);)
        row = hr_format(p, "%s + %s", row, padded_size(p, &b));
    for (int k = run.first + 1; k < run.last; k++)
        area = hr_format(p, "contract_max(%s, %s)", area, hr_stage_thread_size(p, &p->plan->stages[k]));
    return hr_format(p, "{%s, %s, %s, %s, %s, %s, %s, %" PRId64 "}",
                     hr_emit_points(p, first->batch, first->batch_count),
                     hr_emit_points(p, first->m, first->m_count), hr_emit_points(p, first->n, first->n_count),
                     hr_emit_points(p, first->k, first->k_count),
                     hr_emit_points(p, second->n, second->n_count), row, area, cache_bytes(p->plan));
}

const char *hr_attend_size(hr_printer *p, int number) {
    const hr_run run = hr_plan_run(p->plan, number);
    if (number != run.last) return NULL;
    const bool first = hr_contract_choice_of(p->plan, &p->plan->stages[run.first]).bf16,
               second = hr_contract_choice_of(p->plan, &p->plan->stages[run.last]).bf16;
    const char *size = "0";
    for (int i = 0; i <= first; i++)
        for (int j = 0; j <= second; j++)
            size = hr_format(p,
                             "contract_max(%s, contract_attend_bytes(&(struct contract_attend_sizes)%s, %s, "
                             "%s, threads))",
                             size, sizes_text(p, number), choice_name(p, run.first, i),
                             choice_name(p, run.last, j));
    return size;
}

static hr_status row_bytes(const between *b, const int64_t *extents, int64_t *out) {
    const hr_tensor *tensor = &b->plan->normal->tensors[b->tensor];
    int64_t bytes = (int64_t)hr_dtype_size(tensor->dtype);
    for (int a = row_axes(b->plan, b->run.last); a < tensor->rank; a++) {
        int64_t axis;
        HR_TRY(hr_extent_value(b->plan->normal, tensor->shape[a], extents, &axis));
        if (__builtin_mul_overflow(bytes, axis, &bytes) || bytes > INT64_MAX / 4)
            return hr_fail(HR_BAD_INPUT, "local %.60s is too large for memory at these extents",
                           tensor->name);
    }
    *out = (bytes + LINE - 1) / LINE * LINE;
    return HR_OK;
}

static hr_status sizes_of(const hr_plan *plan, int number, const int64_t *extents,
                          struct contract_attend_sizes *out) {
    const hr_run run = hr_plan_run(plan, number);
    const hr_contract *first = plan->stages[run.first].contract, *second = plan->stages[run.last].contract;
    *out = (struct contract_attend_sizes){.cache = cache_bytes(plan)};
    HR_TRY(hr_plan_points(plan, first->batch, first->batch_count, extents, &out->batch));
    HR_TRY(hr_plan_points(plan, first->m, first->m_count, extents, &out->m));
    HR_TRY(hr_plan_points(plan, first->n, first->n_count, extents, &out->n));
    HR_TRY(hr_plan_points(plan, first->k, first->k_count, extents, &out->k));
    HR_TRY(hr_plan_points(plan, second->n, second->n_count, extents, &out->columns));
    for (between b = first_between(plan, number); next_between(&b);) {
        int64_t bytes = 0;
        HR_TRY(row_bytes(&b, extents, &bytes));
        out->row += bytes;
    }
    for (int k = run.first + 1; k < run.last; k++) {
        int64_t area;
        HR_TRY(hr_stage_thread_bytes(plan, &plan->stages[k], extents, &area));
        if (area > out->area) out->area = area;
    }
    return HR_OK;
}

hr_status hr_attend_bytes(const hr_plan *plan, int number, const int64_t *extents, int threads,
                          int64_t *out) {
    const hr_run run = hr_plan_run(plan, number);
    struct contract_attend_sizes sizes;
    *out = 0;
    if (number != run.last) return HR_OK;
    HR_TRY(sizes_of(plan, number, extents, &sizes));
    const hr_contract_choice first = hr_contract_choice_of(plan, &plan->stages[run.first]),
                             second = hr_contract_choice_of(plan, &plan->stages[run.last]);
    for (int i = 0; i <= first.bf16; i++)
        for (int j = 0; j <= second.bf16; j++)
            *out = contract_max(*out, contract_attend_bytes(&sizes, i ? &first.pairs : &first.blocks,
                                                            j ? &second.pairs : &second.blocks, threads));
    return HR_OK;
}

/* ---- a block ---- */

/* Where what stands between the products would begin. */
static void print_places(hr_printer *p, int number) {
    const char *place = "0";
    for (between b = first_between(p->plan, number); next_between(&b);) {
        const char *type = hr_c_storage(p->function->tensors[b.tensor].dtype);
        hr_print(p, "block.%s = (%s *)strip_origin(between + most * (%s), row * (%s));",
                 hr_emit_tensor(p, b.tensor), type, place, row_size(p, &b));
        place = hr_format(p, "%s + %s", place, padded_size(p, &b));
    }
}

/* Keys that the block's last row reaches. */
static void print_limit(hr_printer *p, const hr_stage *head) {
    const hr_contract *c = head->contract;
    const char *size = hr_emit_index_size(p, c->m[c->m_count - 1]);
    const char *index = hr_emit_index(p, c->m[c->m_count - 1]);
    if (!head->reach) {
        hr_print(p, "const int64_t limit = %s;", hr_emit_points(p, c->n, c->n_count));
        return;
    }
    if (c->m_count == 1)
        hr_print(p, "const int64_t %s = m + rows - 1;", index);
    else
        hr_print(p, "const int64_t %s = m / (%s) == (m + rows - 1) / (%s) ? (m + rows - 1) %% (%s) : %s - 1;",
                 index, size, size, size, size);
    hr_print(p, "const int64_t limit = contract_attend_limit(attend, %s + %d);", hr_expr_text(p, head->reach),
             head->reach_more);
}

static void print_block(hr_printer *p, int number) {
    const hr_run run = hr_plan_run(p->plan, number);
    const hr_contract *first = p->plan->stages[run.first].contract,
                      *second = p->plan->stages[run.last].contract;
    hr_print(p, "const int64_t row = attend->batch * (%s) + m, most = attend->blocks.rows;",
             hr_emit_points(p, first->m, first->m_count));
    hr_print(p, "char *const between = attend->own + attend->blocks.between;");
    hr_print(p, "arguments block = *a;");
    print_places(p, number);
    print_limit(p, &p->plan->stages[run.first]);
    hr_print(p, "contract_attend_product(&attend->first, &block, m, rows, limit, %s);",
             hr_emit_points(p, first->k, first->k_count));
    for (int k = run.first + 1; k < run.last; k++)
        hr_print(p, "stage_%d_rows(&block, row, row + rows, limit, attend->own + attend->blocks.area);", k);
    hr_print(p, "contract_attend_product(&attend->second, &block, m, rows, %s, limit);",
             hr_emit_points(p, second->n, second->n_count));
}

static void print_part(hr_printer *p, int which, int number) {
    static const char *const names[] = {"first", "second"};
    if (!hr_contract_choice_of(p->plan, &p->plan->stages[number]).bf16) return;
    hr_print(p, "if (contract_pairs_serve(&%s)) {", names[which]);
    hr_print(p, "    parts[%d].unit = &contract_pairs_unit;", which);
    hr_print(p, "    parts[%d].choice = &stage_%d_pairs;", which, number);
    hr_print(p, "    pairs = true;");
    hr_print(p, "}");
}

static void print_run(hr_printer *p, int number) {
    const hr_run run = hr_plan_run(p->plan, number);
    const bool pairs = hr_contract_choice_of(p->plan, &p->plan->stages[run.first]).bf16 ||
                       hr_contract_choice_of(p->plan, &p->plan->stages[run.last]).bf16;
    hr_contract_print_product(p, run.first, "first");
    hr_contract_print_product(p, run.last, "second");
    hr_print(p, "const struct contract_attend_sizes sizes = %s;", sizes_text(p, number));
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
             p->plan->stages[run.first].reach ? "true" : "false", number);
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
