/* The sizes of a matrix product's blocks: defaults by instruction set and caches, candidates for the tuner.
 *
 * In: a stage and its knobs. Out: the contract_choice that the emitted code gets as constants, and the
 * scratch memory that follows from it.
 */
#include "schedule/cpu/contract_choice.h"

#include "ir/visit.h"
#include "schedule/cpu/candidates_cpu.h"
#include "schedule/schedule.h"

#include <string.h>

/* Register tiles that leave no value without a register: rows x vectors sums, a row of vectors and a
 * broadcast. */
typedef struct register_tile {
    const char *isa;
    int rows[4], vectors[4]; /* the default first; 0 ends */
    int strip;               /* steps along k without a branch; 1: its loop costs little beside a step */
    int task_panels;         /* of the left operand: with more, the product was no faster */
    int left_share;          /* of the L2 cache, one in so many bytes, for the left operand's block */
    int group_rows;          /* of the left operand, up to which panels of the right one go side by side */
    int beside;              /* panels of the right operand that are packed side by side */
    int parts;               /* of a thread's last task */
} register_tile;

static const register_tile register_tiles[] = {
    {"avx512", {14, 12, 8, 6}, {2, 2, 3, 4}, 1, 3, 4, 32, 1, 1}, /* 32 registers */
    {"neon", {8, 6, 12, 0}, {3, 4, 2, 0}, 1, 3, 4, 32, 1, 1},    /* 32 registers */
    {"avx2", {6, 4, 0, 0}, {2, 3, 0, 0}, 32, 8, 2, 96, 16, 8},   /* 16 registers */
    {"", {4, 3, 0, 0}, {2, 3, 0, 0}, 32, 8, 2, 96, 16, 8},       /* at least 16 somewhere */
};

/* Rows (columns) up to which products of pairs leave the other operand in its place, too: with more, the unit
 * for pairs makes up for what packing takes. */
enum { THIN_PAIRS = 8 };

static const register_tile *register_tile_of(const hr_plan *plan) {
    const register_tile *tile = register_tiles;
    while (*tile->isa && strcmp(tile->isa, plan->limits.isa) != 0)
        tile++;
    return tile;
}

static int64_t cache_or(int64_t bytes, int64_t fallback) {
    return bytes > 0 ? bytes : fallback;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* Dots read a chunk of the right operand again for each 8 rows of the left: both fit L1, and the sums are
 * seldom read and written. */
static int64_t dots_depth(const hr_plan *plan) {
    int64_t pairs = cache_or(plan->limits.l1_bytes, 32 << 10) * 5 / 6 / ((32 + 8) * 4);
    return clamp(pairs / 16 * 16, 64, 256);
}

/* The matrix unit's register tile is 2 x 2 of its tiles. A chunk of the right operand and a panel of the left
 * fit L1 together. Rows of a task: the right operand passes by from L3 once for each task, but what many rows
 * store lies in too many pages and sets of a cache at a time. */
static struct contract_choice pairs_choice(const hr_plan *plan, const hr_stage *stage,
                                           struct contract_choice choice) {
    choice.rows = choice.columns = 32;
    choice.together = 2;
    choice.step = 16;
    choice.task_rows = 96;
    choice.beside = choice.parts = 1;
    choice.thin_m = choice.thin_m ? THIN_PAIRS : 0;
    choice.thin_n = choice.thin_n ? THIN_PAIRS : 0;
    choice.left_bytes = clamp(cache_or(plan->limits.l2_bytes, 1 << 20) / 2, 128 << 10, 1 << 20);
    choice.depth = plan->limits.dots_bf16 ? dots_depth(plan) : 128;
    if (hr_stage_knobs(stage)->block_k > 0) choice.depth = hr_stage_knobs(stage)->block_k;
    return choice;
}

/* The vector unit's register tile, of elements that are eight bytes each. */
static struct contract_choice bytes_choice(struct contract_choice choice) {
    choice.together = 8;
    choice.thin_m = choice.thin_n = 0;
    return choice;
}

/* ---- where data say how far a product goes ---- */

/* Of attention's two products whose second sums over a range: the keys up to which it goes, where that is one
 * number a batch. What lies beyond has no weight, and its scores are read by nobody. */
static void limit_take(const hr_plan *plan, const hr_stage *stage, hr_contract_choice *out) {
    const int number = (int)(stage - plan->stages);
    for (int k = 0; k <= number; k++) {
        const hr_stage *head = &plan->stages[k];
        if (!head->mask_bound || (number != k && number != head->mask_bound_last)) continue;
        const hr_contract *scores = head->contract, *values = plan->stages[head->mask_bound_last].contract;
        const bool ranges = hr_expr_within(values->right) != values->right;
        if (!ranges || hr_expr_has_index(head->mask_bound, scores->m[scores->m_count - 1])) return;
        for (int i = 0; i < head->step_count; i++)
            if (hr_expr_contains(head->steps[i].value, values->right->args[0])) return;
        out->limit = head->mask_bound;
        out->limit_more = head->mask_bound_more;
        out->limited = number == k ? HR_LIMITED_COLUMNS : HR_LIMITED_DEPTH;
    }
}

hr_contract_choice hr_contract_choice_of(const hr_plan *plan, const hr_stage *stage) {
    const hr_knobs *knobs = hr_stage_knobs(stage);
    const register_tile *tile = register_tile_of(plan);
    hr_contract_choice choice = {.double_precision = stage->contract->left->type == HR_F64};
    int64_t element = choice.double_precision ? 8 : 4;
    int64_t vector_bytes = plan->limits.vector_bytes > 16 ? plan->limits.vector_bytes : 16;
    choice.vectors = (int)clamp(knobs->register_n ? knobs->register_n : tile->vectors[0], 1, 8);
    choice.strip = tile->strip;
    choice.blocks.element = element;
    choice.blocks.rows = clamp(knobs->register_m ? knobs->register_m : tile->rows[0], 1, 32);
    choice.blocks.columns = choice.vectors * vector_bytes / element;
    int64_t chunk = cache_or(plan->limits.l1_bytes, 32 << 10) / 2 / (choice.blocks.columns * element);
    choice.blocks.depth = knobs->block_k > 0 ? knobs->block_k : clamp(chunk, 64, 384);
    int64_t second = cache_or(plan->limits.l2_bytes, 256 << 10);
    choice.blocks.left_bytes = clamp(second / tile->left_share, 64 << 10, 1 << 20);
    choice.blocks.right_bytes = 16 << 20;
    choice.blocks.flat_bytes = clamp(cache_or(plan->limits.l3_bytes, 8 << 20) / 2, 4 << 20, 40 << 20);
    choice.blocks.tile_m = knobs->block_m > 0 ? knobs->block_m : 0;
    choice.blocks.tile_n = knobs->block_n > 0 ? knobs->block_n : 0;
    choice.blocks.together = choice.blocks.step = 1;
    choice.blocks.task_rows = tile->task_panels * choice.blocks.rows;
    choice.blocks.group_rows = tile->group_rows;
    choice.blocks.beside = tile->beside;
    choice.blocks.parts = tile->parts;
    choice.blocks.thin_m = stage->contract->right_lane.along_k ? CONTRACT_SWAPPED_MAX : 0;
    choice.blocks.thin_n = stage->contract->left_lane.along_k ? CONTRACT_SWAPPED_MAX : 0;
    choice.bf16 = hr_contract_fits(plan->normal, stage->contract, HR_BF16);
    choice.bytes = plan->limits.dots_bytes && hr_contract_of_bytes(plan->normal, stage->contract);
    choice.packed = choice.bytes ? bytes_choice(choice.blocks) : pairs_choice(plan, stage, choice.blocks);
    limit_take(plan, stage, &choice);
    return choice;
}

/* ---- candidates ---- */

typedef struct candidate_list {
    hr_knobs *out;
    int count, max;
} candidate_list;

static void add(candidate_list *list, hr_knobs knobs) {
    for (int i = 0; i < list->count; i++)
        if (memcmp(&list->out[i], &knobs, sizeof knobs) == 0) return;
    if (list->count < list->max) list->out[list->count++] = knobs;
}

/* Of the matrix unit: its register tile is what it is. */
static void add_tiles(candidate_list *list, hr_knobs knobs) {
    static const int depths[] = {128, 192, 256, 512}, rows[] = {96, 64, 128};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++) {
            knobs.block_k = depths[i];
            knobs.block_m = rows[j];
            add(list, knobs);
        }
}

int hr_contract_candidates(const hr_plan *plan, const hr_stage *stage, hr_knobs *out, int max) {
    static const int depths[] = {128, 192, 256, 384};
    static const int rows[] = {56, 112, 224};
    const register_tile *tile = register_tile_of(plan);
    candidate_list list = {out, 0, max};
    add(&list, (hr_knobs){0});
    if ((plan->limits.matrix_bf16 || plan->limits.dots_bf16) &&
        hr_contract_fits(plan->normal, stage->contract, HR_BF16)) {
        add_tiles(&list, (hr_knobs){0});
        return list.count;
    }
    for (int i = 0; i < 4 && tile->rows[i]; i++) {
        hr_knobs knobs = {.register_m = tile->rows[i], .register_n = tile->vectors[i]};
        for (int j = 0; j < 4; j++) {
            knobs.block_k = depths[j];
            add(&list, knobs);
        }
        for (int j = 0; j < 3; j++) {
            knobs.block_k = 0;
            knobs.block_m = rows[j];
            add(&list, knobs);
        }
    }
    return list.count;
}
