/* How a product's operands come to the tensor cores. In: a stage. Out: the operands' part of hr_cuda_gemm.
 *
 * Plain elements of 16 bits come as they lie. Where the copy engine cannot walk them so, or where an operand
 * is of another dtype or computed, a kernel before the product lays it out anew in scratch memory: as one
 * part where its values are all bf16, as two where they are f16 and as three where they are f32. The product
 * is the sum of the products of parts, so that it is as exact as f32.
 */
#include "base/dtype.h"
#include "ir/visit.h"
#include "schedule/cuda/choose_gemm.h"

/* CHUNK, SECTOR: elements of 16 and of 32 bytes. PLAIN_TILE: of the product by threads. ALIGNMENT: of what is
 * laid out. */
enum { CHUNK = 8, SECTOR = 16, PLAIN_TILE = 64, ALIGNMENT = 256 };

/* Multiply-adds of a multiprocessor a clock: by threads about half of 128; out of elements that come one by
 * one, about a fifth of what the tensor cores reach, a twentieth where they are computed. */
static const double plain_rate = 64, element_rate = 320, text_rate = 80, tensor_rate = 1500;
/* Another kernel; and bytes of memory a clock and multiprocessor. */
static const double launch_clocks = 4000, memory_rate = 13;
/* Of scratch memory. */
static const int64_t laid_bytes_most = INT64_C(4) << 30;

/* ---- as they lie ---- */

typedef struct along {
    const hr_function *function;
    int index;
} along;

static hr_visit runs_along(const hr_expr *e, const void *context) {
    const along *a = context;
    const int rank = e->op == HR_OP_ELEMENT ? a->function->tensors[e->tensor].rank : 0;
    return hr_visit_until(rank && e->args[rank - 1]->op == HR_OP_INDEX &&
                          e->args[rank - 1]->index == a->index);
}

bool hr_cuda_runs_along(const hr_function *function, const hr_expr *e, int index) {
    return hr_expr_find(e, runs_along, &(along){function, index}) != NULL;
}

/* An element as it stands in memory, its subscripts plain indices, or `group`. */
static bool is_plain_or(const hr_function *function, const hr_expr *e, const hr_expr *group) {
    if (e->op != HR_OP_ELEMENT || e->arg_count != function->tensors[e->tensor].rank || !e->arg_count)
        return false;
    for (int i = 0; i < e->arg_count; i++)
        if (e->args[i]->op != HR_OP_INDEX && e->args[i] != group) return false;
    return true;
}

static bool is_plain(const hr_function *function, const hr_expr *e) {
    return is_plain_or(function, e, NULL);
}

static bool is_in_chunks(const hr_plan *plan, const int64_t *extents, const hr_expr *extent) {
    int64_t size;
    return hr_extent_value(plan->normal, extent, extents, &size) == HR_OK && size % CHUNK == 0;
}

/* Chunks lie whole in memory and begin at whole 16 bytes: the innermost index and the axis that it runs along
 * are whole chunks. */
static bool has_chunks(const hr_plan *plan, const int64_t *extents, const hr_contract *c,
                       const hr_expr *value, int inner) {
    const hr_function *function = plan->normal;
    if (!is_plain_or(function, value, c->group) || hr_plan_layout(plan, value->tensor) != HR_LAYOUT_DENSE)
        return false;
    const hr_tensor *tensor = &function->tensors[value->tensor];
    const hr_expr *last = value->args[tensor->rank - 1];
    return last->op == HR_OP_INDEX && last->index == inner &&
           is_in_chunks(plan, extents, function->indices[inner].extent) &&
           is_in_chunks(plan, extents, tensor->shape[tensor->rank - 1]);
}

/* The axis whose subscript is no index, but follows from the batch alone, which is nowhere else; -1 = that is
 * not so. `members`: the first one, even where it is an index. */
static int chosen_axis(const hr_function *function, const hr_contract *c, const hr_expr *value,
                       bool members) {
    int axis = -1;
    if (value->op != HR_OP_ELEMENT || value->arg_count != function->tensors[value->tensor].rank ||
        value->arg_count > HR_GEMM_VIEW_AXES || !c->batch_count)
        return -1;
    for (int a = 0; a < value->arg_count; a++) {
        const hr_expr *subscript = value->args[a];
        if (members && a == 0) {
            axis = a;
            continue;
        }
        if (subscript->op == HR_OP_INDEX && hr_indices_have(c->batch, c->batch_count, subscript->index))
            return -1;
        if (subscript->op == HR_OP_INDEX) continue;
        if (axis >= 0) return -1;
        axis = a;
    }
    for (int i = 0; axis >= 0 && i < c->m_count + c->n_count + c->k_count; i++) {
        const int index = i < c->m_count                ? c->m[i]
                          : i < c->m_count + c->n_count ? c->n[i - c->m_count]
                                                        : c->k[i - c->m_count - c->n_count];
        if (hr_expr_has_index(value->args[axis], index)) return -1;
    }
    return axis;
}

/* A matrix of a tensor of them that data choose: the copy engine takes its number as a coordinate. */
static hr_status choice_make(const hr_plan *plan, const int64_t *extents, const hr_contract *c,
                             hr_gemm_indices mn, hr_gemm_side *out) {
    const hr_function *function = plan->normal;
    const hr_expr *value = out->value;
    const bool apart = value->op == HR_OP_ELEMENT && hr_plan_layout(plan, value->tensor) == HR_LAYOUT_MEMBERS;
    const int axis = chosen_axis(function, c, value, apart);
    const hr_gemm_indices k = {c->k_count, c->k}, batch = {1, c->batch};
    if (axis < 0) return HR_OK;
    hr_expr index = {.op = HR_OP_INDEX, .index = c->batch[0]}, *subscripts[HR_GEMM_VIEW_AXES];
    for (int a = 0; a < value->arg_count; a++)
        subscripts[a] = a == axis ? &index : value->args[a];
    const hr_gemm_indices inner = out->k_major ? k : mn, outer = out->k_major ? mn : k;
    HR_TRY((apart ? hr_gemm_members_view_make : hr_gemm_view_make)(plan, extents, value->tensor, subscripts,
                                                                   inner, outer, batch, &out->view));
    if (out->view.rank != (apart ? 4 : 3)) out->view.rank = 0;
    if (!out->view.rank) return HR_OK;
    out->choice = value->args[axis];
    if (apart) out->view.member = out->choice;
    if (apart) return HR_OK;
    return hr_extent_value(function, function->tensors[value->tensor].shape[axis], extents,
                           &out->view.size[2]);
}

hr_status hr_gemm_side_make(const hr_plan *plan, const int64_t *extents, const hr_contract *c,
                            const hr_expr *value, hr_gemm_indices mn, hr_gemm_side *out) {
    hr_gemm_indices k = {c->k_count, c->k}, batch = {c->batch_count, c->batch};
    int k_inner = c->k[c->k_count - 1], mn_inner = mn.index[mn.count - 1];
    *out = (hr_gemm_side){.value = value};
    out->k_major = hr_cuda_runs_along(plan->normal, value, k_inner) ||
                   !hr_cuda_runs_along(plan->normal, value, mn_inner);
    if (has_chunks(plan, extents, c, value, out->k_major ? k_inner : mn_inner)) out->load = HR_GEMM_CHUNKS;
    if (!is_plain(plan->normal, value) || hr_plan_layout(plan, value->tensor) == HR_LAYOUT_MEMBERS)
        return choice_make(plan, extents, c, mn, out);
    return hr_gemm_view_make(plan, extents, value->tensor, value->args, out->k_major ? k : mn,
                             out->k_major ? mn : k, batch, &out->view);
}

/* ---- laid out anew ---- */

/* Numbers of bf16 whose sum any value of the operand is. */
static int parts_of(const hr_function *function, const hr_expr *value) {
    static const hr_dtype one[] = {HR_BF16, HR_F8E4M3, HR_F8E5M2};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        if (hr_value_fits(function, value, one[i])) return 1;
    if (hr_value_fits(function, value, HR_F16)) return 2;
    const bool pair = value->op == HR_OP_MUL && hr_value_fits(function, value->args[0], HR_BF16) &&
                      hr_value_fits(function, value->args[1], HR_BF16);
    return pair ? 2 : HR_GEMM_PARTS_MAX; /* of 8 bits each: their product has 16 */
}

/* Its tiles come as what they are. */
static bool lies(const hr_plan *plan, const hr_cuda_gemm *gemm, const hr_gemm_side *side) {
    return side->view.rank && plan->normal->tensors[side->value->tensor].dtype == gemm->dtype;
}

/* All right operands do, and are walked alike. */
static bool rights_lie(const hr_plan *plan, const hr_cuda_gemm *gemm) {
    const hr_gemm_view *first = &gemm->right.view;
    bool lie = lies(plan, gemm, &gemm->right);
    for (int i = 0; i < gemm->rights - 1; i++) {
        const hr_gemm_view *view = &gemm->stacked[i].view;
        lie = lie && lies(plan, gemm, &gemm->stacked[i]) && view->rank == first->rank;
        for (int a = 0; a < first->rank; a++)
            lie = lie && view->size[a] == first->size[a];
    }
    return lie;
}

/* Rows begin at whole sectors: others are asked for twice. */
static void lay_out(const hr_gemm_sizes *s, int64_t mn, hr_cuda_gemm *gemm, hr_gemm_side *side) {
    int64_t along = side->k_major ? s->k : mn, lines = side->k_major ? mn : s->k,
            pitch = hr_divide_up(along, SECTOR) * SECTOR;
    if (!side->parts) return;
    side->load = HR_GEMM_ELEMENTS;
    side->choice = NULL;
    side->view = (hr_gemm_view){.tensor = HR_GEMM_SCRATCH,
                                .rank = 3,
                                .size = {along, lines, s->batch * side->parts},
                                .stride = {1, pitch, lines * pitch},
                                .offset = gemm->work_bytes};
    gemm->work_bytes += hr_round_up(hr_saturate_product(hr_saturate_product(s->batch * side->parts, lines),
                                                        pitch * (int64_t)sizeof(uint16_t)),
                                    ALIGNMENT);
}

/* Products of parts, the smallest first, so that they are not lost beside the sum of the large ones. */
static void pairs_make(hr_cuda_gemm *gemm) {
    int left = gemm->left.parts ? gemm->left.parts : 1, right = gemm->right.parts ? gemm->right.parts : 1;
    gemm->pair_count = 0;
    for (int order = HR_GEMM_PARTS_MAX - 1; order >= 0; order--)
        for (int i = 0; i <= order; i++)
            if (i < left && order - i < right) gemm->pairs[gemm->pair_count++] = (hr_gemm_pair){i, order - i};
}

/* By threads, `rate` multiply-adds of a multiprocessor a clock. */
static double plain_clocks(const hr_plan *plan, const hr_gemm_sizes *s, double rate) {
    int64_t down = hr_saturate_product(s->batch, hr_divide_up(s->m, PLAIN_TILE)),
            tiles = hr_saturate_product(down, hr_divide_up(s->n, PLAIN_TILE));
    return (double)hr_divide_up(tiles, hr_limits_threads(&plan->limits)) * (double)s->k * PLAIN_TILE *
           PLAIN_TILE / rate;
}

/* Operands read and laid out, then the products of their parts. */
static double laid_clocks(const hr_plan *plan, const hr_gemm_sizes *s, const hr_cuda_gemm *laid) {
    double all = (double)hr_limits_threads(&plan->limits), lines = (double)s->batch * (double)s->k;
    double bytes = lines * ((laid->left.parts ? 4 + 2 * laid->left.parts : 0) * (double)s->m +
                            (laid->right.parts ? 4 + 2 * laid->right.parts : 0) * (double)s->n);
    double products = lines * (double)s->m * (double)s->n * laid->pair_count;
    return launch_clocks + bytes / (memory_rate * all) + products / (tensor_rate * all);
}

/* Lays out those that do not lie as they should, where that is worth it. `fits`: their values are all of the
 * dtype. Returns whether it is. */
static bool lay_sides(const hr_plan *plan, const hr_gemm_sizes *s, bool fits, hr_cuda_gemm *out) {
    hr_cuda_gemm laid = *out;
    if (!lies(plan, out, &out->left)) laid.left.parts = fits ? 1 : parts_of(plan->normal, out->left.value);
    const bool all = !rights_lie(plan, out);
    if (all) laid.right.parts = fits ? 1 : parts_of(plan->normal, out->right.value);
    for (int i = 0; all && i < laid.rights - 1; i++)
        laid.stacked[i].parts = laid.right.parts; /* they are of one dtype */
    pairs_make(&laid);
    laid.lay_blocks = (int64_t)hr_limits_threads(&plan->limits) * HR_GEMM_LAY_WAVES;
    laid.work_bytes =
        hr_gemm_has_flags(&laid) ? hr_round_up(laid.lay_blocks * (int64_t)sizeof(int), ALIGNMENT) : 0;
    lay_out(s, s->m, &laid, &laid.left);
    lay_out(s, s->n, &laid, &laid.right);
    for (int i = 0; i < laid.rights - 1; i++)
        lay_out(s, s->n, &laid, &laid.stacked[i]);
    const bool computed = laid.left.value->op != HR_OP_ELEMENT || laid.right.value->op != HR_OP_ELEMENT;
    const double rate = !fits ? plain_rate : computed ? text_rate : element_rate;
    if (laid.work_bytes > laid_bytes_most || laid_clocks(plan, s, &laid) >= plain_clocks(plan, s, rate))
        return false;
    *out = laid;
    return true;
}

/* ---- of eight bits ---- */

/* The element that an operand of eight bits is, be it converted or not; NULL = it is none. */
static const hr_expr *byte_element(const hr_function *function, const hr_expr *value) {
    if (value->op == HR_OP_CONVERT && value->type == HR_F64) value = value->args[0];
    if (!is_plain(function, value) || hr_dtype_size(function->tensors[value->tensor].dtype) != 1) return NULL;
    return value;
}

static bool is_whole(hr_dtype dtype) {
    return dtype == HR_I8 || dtype == HR_U8;
}

static bool is_f8(hr_dtype dtype) {
    return dtype == HR_F8E4M3 || dtype == HR_F8E5M2;
}

/* Results of more than 16 bits would show what the tensor cores lose of a sum of f8. */
static bool stores_narrow(const hr_plan *plan, const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++) {
        const hr_statement *statement = &plan->normal->statements[stage->steps[i].statement];
        if (stage->steps[i].stored && stage->steps[i].kind != HR_STEP_PARTIAL &&
            hr_dtype_size(plan->normal->tensors[statement->tensor].dtype) > 2)
            return false;
    }
    return true;
}

/* Sums of so many products of bytes are whole numbers of 32 bits. */
static bool sums_fit(hr_dtype left, hr_dtype right, int64_t k) {
    const int64_t most = (left == HR_U8 ? 255 : 128) * (right == HR_U8 ? 255 : 128);
    return k <= INT32_MAX / most;
}

/* Columns that a thread multiplies by one scale. */
enum { SCALE_COLUMNS = 64 };

/* Of an operand of f8: factors that are one for each step of 128 along k, and those of columns for each 64 of
 * them, so that few are read. The element itself, NULL where it is anything else. */
static const hr_expr *scaled_element(const hr_plan *plan, const int64_t *extents, const hr_contract *c,
                                     bool right, hr_gemm_side *side) {
    enum { STEP = 128 };
    const hr_function *function = plan->normal;
    hr_packed factors;
    const hr_expr *number = hr_packed_factors(function, extents, c, right ? c->right : c->left, &factors);
    const hr_expr *element = number ? byte_element(function, number) : NULL;
    int64_t columns = 1, size;
    if (!element || !is_f8(function->tensors[element->tensor].dtype)) return NULL;
    if (factors.scale_count && factors.group % STEP) return NULL;
    for (int i = c->n_count - 1; right && i >= 0; i--) {
        bool uses = false;
        for (int s = 0; s < factors.scale_count; s++) {
            const int64_t run = hr_run_of(function, extents, factors.scale[s], c->n[i]);
            uses = uses || run < INT64_MAX;
            if (run < INT64_MAX && hr_saturate_product(columns, run) % SCALE_COLUMNS) return NULL;
        }
        if (uses) break;
        if (hr_extent_value(function, function->indices[c->n[i]].extent, extents, &size) != HR_OK)
            return NULL;
        columns = hr_saturate_product(columns, size);
    }
    hr_gemm_scales_take(&factors, side);
    return element;
}

/* Right operands that are stacked come as the first one does. `bytes`: that has its own. */
static hr_status stack_bytes(const hr_plan *plan, const int64_t *extents, const hr_contract *c,
                             hr_cuda_gemm *bytes, bool *fit) {
    const hr_gemm_view *first = &bytes->right.view;
    *fit = !c->stacked_count || !hr_gemm_is_scaled(bytes);
    bytes->rights = 1 + c->stacked_count;
    for (int i = 0; i < c->stacked_count && *fit; i++) {
        const hr_expr *right = byte_element(plan->normal, c->stacked[i].right);
        hr_gemm_side *side = &bytes->stacked[i];
        *fit = right && plan->normal->tensors[right->tensor].dtype == bytes->right.dtype;
        if (!*fit) return HR_OK;
        HR_TRY(hr_gemm_side_make(plan, extents, c, right, (hr_gemm_indices){c->n_count, c->n}, side));
        side->dtype = bytes->right.dtype;
        *fit = side->k_major && side->view.rank == first->rank;
        for (int a = 0; a < first->rank && *fit; a++)
            *fit = side->view.size[a] == first->size[a];
    }
    return HR_OK;
}

/* Both are elements of eight bits that the copy engine can walk, along k: tensor cores take them as they lie.
 */
static hr_status take_bytes(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                            const hr_gemm_sizes *s, hr_cuda_gemm *out, bool *taken) {
    const hr_contract *c = stage->contract;
    const hr_expr *left = byte_element(plan->normal, c->left), *right = byte_element(plan->normal, c->right);
    hr_cuda_gemm bytes = *out;
    hr_gemm_side scaled[2] = {0};
    *taken = false;
    if (!left) left = scaled_element(plan, extents, c, false, &scaled[0]);
    if (!right) right = scaled_element(plan, extents, c, true, &scaled[1]);
    if (!left || !right) return HR_OK;
    hr_dtype a = plan->normal->tensors[left->tensor].dtype, b = plan->normal->tensors[right->tensor].dtype;
    bool whole = is_whole(a) && is_whole(b) && sums_fit(a, b, s->k);
    if (!whole && !(is_f8(a) && is_f8(b) && stores_narrow(plan, stage))) return HR_OK;
    HR_TRY(hr_gemm_side_make(plan, extents, c, left, (hr_gemm_indices){c->m_count, c->m}, &bytes.left));
    HR_TRY(hr_gemm_side_make(plan, extents, c, right, (hr_gemm_indices){c->n_count, c->n}, &bytes.right));
    for (int i = 0; i < HR_PACKED_FACTORS_MAX; i++) {
        bytes.left.scale[i] = scaled[0].scale[i];
        bytes.right.scale[i] = scaled[1].scale[i];
    }
    bytes.left.scale_count = scaled[0].scale_count;
    bytes.right.scale_count = scaled[1].scale_count;
    bytes.dtype = bytes.left.dtype = a;
    bytes.right.dtype = b;
    bytes.pair_count = 1;
    bytes.by_threads_unaligned = true;
    if (hr_gemm_is_scaled(&bytes)) {
        bytes.lay_blocks = hr_limits_threads(&plan->limits);
        bytes.work_bytes = hr_round_up(bytes.lay_blocks * (int64_t)sizeof(int), ALIGNMENT);
    }
    bool stacks;
    HR_TRY(stack_bytes(plan, extents, c, &bytes, &stacks));
    *taken =
        stacks && bytes.left.view.rank && bytes.right.view.rank && bytes.left.k_major && bytes.right.k_major;
    if (*taken) *out = bytes;
    return HR_OK;
}

/* All operands as numbers of 16 bits. */
static hr_status take_words(const hr_plan *plan, const int64_t *extents, const hr_contract *c, hr_dtype dtype,
                            hr_cuda_gemm *out) {
    const hr_gemm_indices rows = {c->m_count, c->m}, columns = {c->n_count, c->n};
    HR_TRY(hr_gemm_side_make(plan, extents, c, c->left, rows, &out->left));
    HR_TRY(hr_gemm_side_make(plan, extents, c, c->right, columns, &out->right));
    out->dtype = out->left.dtype = out->right.dtype = dtype;
    out->pair_count = 1;
    out->rights = 1 + c->stacked_count;
    for (int i = 0; i < c->stacked_count; i++) {
        HR_TRY(hr_gemm_side_make(plan, extents, c, c->stacked[i].right, columns, &out->stacked[i]));
        out->stacked[i].dtype = dtype;
    }
    return HR_OK;
}

/* ---- which ---- */

/* In words, what keeps the tensor cores from it; NULL = nothing. */
static const char *refusal(const hr_plan *plan, const hr_contract *contract) {
    if (plan->limits.compute < 80) return "the device has none for these dtypes";
    if (contract->left->type == HR_F64) return "f64 operands";
    return NULL;
}

hr_status hr_gemm_operands(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                           const hr_gemm_sizes *sizes, hr_gemm_mainloop most, hr_cuda_gemm *out,
                           const char **why) {
    const hr_contract *c = stage->contract;
    bool f16 = hr_contract_fits(plan->normal, c, HR_F16),
         fits = f16 || hr_contract_fits(plan->normal, c, HR_BF16);
    bool maps = most == HR_GEMM_HOPPER && hr_gemm_has_maps(plan), laid = false, bytes = false;
    bool some = sizes->batch > 0 && sizes->m > 0 && sizes->n > 0 && sizes->k > 0;
    *why = NULL;
    out->rights = 1 + c->stacked_count;
    if (maps && some) HR_TRY(take_bytes(plan, stage, extents, sizes, out, &bytes));
    if (bytes) return HR_OK;
    *why = refusal(plan, c);
    if (*why) return HR_OK;
    HR_TRY(take_words(plan, extents, c, f16 ? HR_F16 : HR_BF16, out));
    out->by_threads_unaligned = !fits;
    const bool lie = lies(plan, out, &out->left) && rights_lie(plan, out);
    if (!lie && maps && some) laid = lay_sides(plan, sizes, fits, out);
    if (!laid && !rights_lie(plan, out)) out->right.view.rank = 0;
    if (!fits && !laid)
        *why = maps ? "operands other than bf16 or f16 would be laid out as sums of parts of 16 bits, which "
                      "is not worth it at these extents"
                    : "an operand's values are not all bf16, or all f16: they would round it";
    return HR_OK;
}
