/* Recognises sums over groups of whole-number dots:
 *
 *     y[t, n, r] = sum[g](... sum[c, i](bytes[n, g, c, r, i] * x[t, g, c, i]) ...)
 *
 * In: the stages of inner and outer sums. Out: one stage, where they are as such a machine wants them: four
 * bytes side by side are a word, neighbouring words are of neighbouring lanes, and the other factor is one
 * word for all lanes. Inner sums, of which there may be several, are exact in 32 bits and never exist in
 * memory.
 */
#include "ir/visit.h"
#include "plan/passes.h"

#include <string.h>

enum {
    WORD = 4,           /* bytes */
    BITS = 8,           /* of a byte */
    LANES = 16,         /* a multiple of these runs along memory */
    SUMS_MOST = 4,      /* of one stage */
    CHAIN = 128,        /* groups that the outer sum's inner indices come to, at most */
    TERM_MOST = 1 << 20 /* of one lane's sum, in products: those of two bytes then fit 32 bits */
};

typedef struct finder {
    hr_plan *plan;
    hr_graph *graph;
    const hr_function *function;
    const hr_statement *inner, *outer;
    int lane;
    hr_dots *out;
} finder;

static bool is_index(const hr_expr *subscript, int index) {
    return subscript->op == HR_OP_INDEX && subscript->index == index;
}

static bool has_number(const hr_function *function, int index, int64_t *out) {
    const hr_expr *extent = function->indices[index].extent;
    *out = extent->op == HR_OP_NUMBER ? extent->whole : 0;
    return *out > 0;
}

/* ---- operands ---- */

static hr_visit has_index(const hr_expr *node, const void *index) {
    return hr_visit_until(is_index(node, *(const int *)index));
}

/* [..., word] or [..., lane, word], whole words of memory. */
static bool lies_in_words(const finder *f, const hr_expr *element, hr_dtype dtype, bool by_lane) {
    const hr_tensor *tensor = &f->function->tensors[element->tensor];
    const int last = tensor->rank - 1, free = by_lane ? last - 1 : last;
    if (tensor->dtype != dtype || free < 0 || hr_plan_layout(f->plan, element->tensor) != HR_LAYOUT_DENSE ||
        hr_element_is_guarded(f->function, element) || hr_element_is_checked(f->function, element))
        return false;
    const hr_expr *axis = tensor->shape[last];
    if (!is_index(element->args[last], f->out->byte) || axis->op != HR_OP_NUMBER || axis->whole != WORD)
        return false;
    if (by_lane && !is_index(element->args[free], f->lane)) return false;
    for (int a = 0; a < free; a++) {
        const hr_expr *subscript = element->args[a];
        if (subscript->op != HR_OP_INDEX && subscript->op != HR_OP_NUMBER) return false;
        if (is_index(subscript, f->lane) || is_index(subscript, f->out->byte)) return false;
    }
    return true;
}

/* One that shifts a byte. */
static bool is_power_of_two(const hr_expr *number) {
    return number->op == HR_OP_NUMBER && number->whole > 0 && number->whole < 1 << BITS &&
           !(number->whole & (number->whole - 1));
}

static int64_t within_byte(int64_t most) {
    return most <= UINT8_MAX ? most : -1;
}

/* Of an operation, from the most of its operands. */
static int64_t most_of(int64_t left, const hr_expr *node, int64_t right) {
    const hr_expr *by = node->args[1];
    switch (node->op) {
    case HR_OP_FLOORDIV:
        return is_power_of_two(by) ? left / by->whole : -1;
    case HR_OP_MOD:
        return is_power_of_two(by) ? by->whole - 1 : -1;
    case HR_OP_SHIFT_RIGHT:
        return by->op == HR_OP_NUMBER && by->whole < BITS ? left >> by->whole : -1;
    case HR_OP_ADD:
        return within_byte(left + right);
    case HR_OP_MUL:
        return within_byte(left * right);
    case HR_OP_BIT_AND:
        return left < right ? left : right;
    case HR_OP_BIT_OR:
        return within_byte(left + right); /* no more than their sum */
    default:
        return -1;
    }
}

/* Arithmetic of bytes that stays in bytes: the most that it comes to; -1 = it is none. */
static int64_t bytes_most(const finder *f, const hr_expr *node) {
    if (node->type != HR_I32) return -1;
    if (node->op == HR_OP_ELEMENT) return lies_in_words(f, node, HR_U8, true) ? UINT8_MAX : -1;
    if (node->op == HR_OP_NUMBER) return node->whole >= 0 ? within_byte(node->whole) : -1;
    if (node->arg_count != 2) return -1;
    const int64_t left = bytes_most(f, node->args[0]), right = bytes_most(f, node->args[1]);
    return left < 0 || right < 0 ? -1 : most_of(left, node, right);
}

static bool is_word(const finder *f, const hr_expr *node) {
    return node->op == HR_OP_ELEMENT && lies_in_words(f, node, HR_I8, false);
}

static bool take_product(finder *f, const hr_expr *product) {
    hr_dots *out = f->out;
    for (int side = 0; side < 2 && out->count < HR_DOTS_MOST; side++) {
        const hr_expr *bytes = product->args[side], *word = product->args[1 - side];
        if (!is_word(f, word) || bytes_most(f, bytes) < 0 || !hr_expr_find(bytes, has_index, &f->lane))
            continue;
        out->dot[out->count++] = (hr_dot){bytes, word};
        return true;
    }
    return false;
}

static bool take_products(finder *f, const hr_expr *sum) {
    if (sum->op == HR_OP_ADD) return take_products(f, sum->args[0]) && take_products(f, sum->args[1]);
    return sum->op == HR_OP_MUL && take_product(f, sum);
}

/* ---- both sums ---- */

/* sum[c, i](...): i is the byte of a word, whatever place it has among the indices. */
static bool take_inner(finder *f) {
    const hr_expr *value = f->inner->value;
    int64_t size, terms = WORD;
    if (value->op != HR_OP_REDUCE_SUM || value->args[0]->type != HR_I32 || value->bound_count > HR_AXES_MAX)
        return false;
    for (int b = 0; b < value->bound_count; b++) {
        hr_dots *out = f->out;
        *out = (hr_dots){.sum = f->inner->tensor, .byte = value->bound[b]};
        terms = WORD;
        for (int i = 0; i < value->bound_count; i++) {
            if (!has_number(f->function, value->bound[i], &size)) return false;
            if (i == b) continue;
            out->words[out->word_count++] = value->bound[i];
            terms = size < TERM_MOST ? terms * size : TERM_MOST;
        }
        if (!take_products(f, value->args[0])) continue;
        return terms * out->count * UINT8_MAX * -(int64_t)INT8_MIN <= INT32_MAX;
    }
    return false;
}

/* Another element of the inner sum than the one at hand, or of anything that this stage makes. */
static hr_visit is_elsewhere(const hr_expr *node, const void *finder_) {
    const finder *f = finder_;
    if (node->op != HR_OP_ELEMENT || node->tensor != f->inner->tensor) return HR_VISIT_ON;
    for (int a = 0; a < f->inner->domain_count; a++)
        if (!is_index(node->args[a], f->inner->domain[a])) return HR_VISIT_STOP;
    return HR_VISIT_PAST;
}

static bool take_outer(finder *f) {
    const hr_statement *outer = f->outer;
    const hr_expr *value = outer->value;
    int64_t size, inside = 1;
    if (value->op != HR_OP_REDUCE_SUM || value->type != HR_F32 || outer->store != HR_STORE_WHOLE ||
        outer->domain_count < 1)
        return false;
    f->lane = outer->domain[outer->domain_count - 1];
    if (!has_number(f->function, f->lane, &size) || size % LANES) return false;
    for (int i = 1; i < value->bound_count; i++) {
        if (!has_number(f->function, value->bound[i], &size) || size > CHAIN) return false;
        inside *= size;
        if (inside > CHAIN) return false;
    }
    for (int i = 0; i < f->inner->domain_count; i++)
        if (!hr_indices_have(outer->domain, outer->domain_count, f->inner->domain[i]) &&
            !hr_indices_have(value->bound, value->bound_count, f->inner->domain[i]))
            return false;
    return !hr_expr_find(value->args[0], is_elsewhere, f);
}

/* Nobody else needs the inner sum. */
static bool is_read_elsewhere(const finder *f) {
    for (int s = 0; s < f->function->statement_count; s++) {
        const hr_statement *other = &f->function->statements[s];
        if (other != f->outer && hr_expr_reads(other->value, f->inner->tensor)) return true;
        for (int a = 0; a < other->subscript_count; a++)
            if (hr_expr_reads(other->subscripts[a], f->inner->tensor)) return true;
    }
    return f->function->tensors[f->inner->tensor].role != HR_ROLE_LOCAL;
}

/* ---- the stage ---- */

/* Tasks that read the same bytes come one after the other. */
static void place_tasks(const hr_statement *outer, hr_stage *stage) {
    stage->task_count = 0;
    for (int of_bytes = 1; of_bytes >= 0; of_bytes--)
        for (int i = 0; i < outer->domain_count - 1; i++)
            if ((hr_expr_find(stage->dots->dot[0].bytes, has_index, &outer->domain[i]) != NULL) == of_bytes)
                stage->task[stage->task_count++] = outer->domain[i];
}

static void make_stage(hr_graph *graph, const hr_statement *outer, const hr_dots *dots, int count,
                       hr_stage *stage) {
    const hr_expr *sum = outer->value;
    stage->dots = hr_arena_alloc(graph->arena, (size_t)count * sizeof *dots);
    stage->dots_count = count;
    memcpy(stage->dots, dots, (size_t)count * sizeof *dots);
    stage->task = hr_arena_alloc(graph->arena, HR_AXES_MAX * sizeof *stage->task);
    stage->row = hr_arena_alloc(graph->arena, HR_AXES_MAX * sizeof *stage->row);
    place_tasks(outer, stage);
    stage->row_count = sum->bound_count + 1;
    memcpy(stage->row, sum->bound, (size_t)sum->bound_count * sizeof *stage->row);
    stage->row[sum->bound_count] = outer->domain[outer->domain_count - 1];
    stage->pass_count = 1;
    stage->steps[0].kind = HR_STEP_ELEMENT;
    stage->steps[0].pass = 0;
    stage->shape = HR_SHAPE_DOTS;
}

bool hr_dots_have(hr_graph *graph, hr_plan *plan, const hr_statement *statement) {
    hr_dots dots;
    finder f = {.plan = plan, .graph = graph, .function = graph->function, .inner = statement, .out = &dots};
    for (int s = 0; s < f.function->statement_count && hr_plan_knows(plan, HR_FACT_BYTE_DOTS); s++) {
        f.outer = &f.function->statements[s];
        if (f.outer != statement && hr_expr_reads(f.outer->value, statement->tensor) && take_outer(&f) &&
            take_inner(&f) && !is_read_elsewhere(&f))
            return true;
    }
    return false;
}

/* All that the stage makes are inner sums of the outer one; how many they are, 0 = it is not so. */
static int take_inners(finder *f, const hr_stage *stage, hr_dots *out, int room) {
    if (stage->contract || stage->step_count > room) return 0;
    for (int i = 0; i < stage->step_count; i++) {
        f->inner = &f->function->statements[stage->steps[i].statement];
        f->out = &out[i];
        if (!take_outer(f) || !take_inner(f) || is_read_elsewhere(f)) return 0;
    }
    return stage->step_count;
}

/* How many of the `before` stages in front of it are a part of the stage now. */
static int take_stage(hr_plan *plan, hr_graph *graph, const hr_stage *stages, int before, hr_stage *stage) {
    hr_dots dots[SUMS_MOST];
    int count = 0, taken = 0;
    finder f = {.plan = plan, .graph = graph, .function = graph->function};
    if (stage->step_count != 1 || stage->contract) return 0;
    f.outer = &graph->function->statements[stage->steps[0].statement];
    for (int more; taken < before; taken++, count += more) {
        more = take_inners(&f, &stages[before - 1 - taken], dots + count, SUMS_MOST - count);
        if (!more) break;
    }
    if (!count) return 0;
    make_stage(graph, f.outer, dots, count, stage);
    for (int i = 0; i < count; i++)
        plan->materialised[dots[i].sum] = false;
    return taken;
}

hr_status hr_pass_dots(hr_graph *graph, hr_plan *plan) {
    int kept = 0;
    for (int i = 0; i < plan->stage_count; i++) {
        kept -= take_stage(plan, graph, plan->stages, kept, &plan->stages[i]);
        plan->stages[kept++] = plan->stages[i];
    }
    plan->stage_count = kept;
    return hr_graph_status(graph);
}
