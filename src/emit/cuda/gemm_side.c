/* The operands of a product on the tensor cores as functions of a kernel. In: a stage and how its operands
 * come. Out: text. See gemm_side.h. */
#include "emit/cuda/gemm_side.h"

#include "base/dtype.h"
#include "emit/cuda/stage_cuda.h"

#include <inttypes.h>

static bool is_left(const gemm_printer *g) {
    return g->side == &g->gemm->left;
}

const char *hr_gemm_side_name(gemm_printer *g, const hr_gemm_side *side) {
    if (side == &g->gemm->left) return "left";
    return side == &g->gemm->right ? "right"
                                   : hr_format(g->p, "right_%d", (int)(side - g->gemm->stacked) + 1);
}

/* ---- operands ---- */

static void print_side_indices(gemm_printer *g) {
    const hr_contract *c = g->contract;
    const bool sorted = g->gemm->groups && is_left(g);
    if (sorted) hr_print(g->p, "const int64_t row = ((const int *)a.scratch)[mn];");
    if (c->group && !is_left(g)) g->p->name[c->group->id] = "batch";
    hr_cuda_print_digits(g->p, c->batch, c->batch_count, "batch");
    hr_cuda_print_digits(g->p, is_left(g) ? c->m : c->n, is_left(g) ? c->m_count : c->n_count,
                         sorted ? "row" : "mn");
    hr_cuda_print_digits(g->p, c->k, c->k_count, "k");
}

/* The bits of one value. An element of the operands' dtype is not taken out of them and put back. */
static void print_element(void *context) {
    gemm_printer *g = context;
    hr_printer *p = g->p;
    const hr_expr *value = g->side->value;
    print_side_indices(g);
    if (g->side->load != HR_GEMM_ELEMENTS ||
        (g->side->view.rank && !g->side->parts && !g->side->raw && !g->side->choice))
        hr_print(p, "return %s[%s];", hr_emit_tensor(p, value->tensor),
                 hr_emit_offset(p, value->tensor, value->args, value->arg_count));
    else
        hr_print(p, "return %s;", hr_emit_stored(p, hr_expr_text(p, value), value->type, g->gemm->dtype));
    if (g->contract->group) p->name[g->contract->group->id] = NULL;
}

static void print_place(void *context) {
    gemm_printer *g = context;
    hr_printer *p = g->p;
    const hr_expr *value = g->side->value;
    print_side_indices(g);
    hr_print(p, "return &%s[%s];", hr_emit_tensor(p, value->tensor),
             hr_emit_offset(p, value->tensor, value->args, value->arg_count));
    if (g->contract->group) p->name[g->contract->group->id] = NULL;
}

/* The product of a side's factors. */
static void print_scale(void *context) {
    gemm_printer *g = context;
    hr_printer *p = g->p;
    const hr_gemm_side *side = g->side;
    print_side_indices(g);
    const char *text = hr_expr_text(p, side->scale[0]);
    for (int i = 1; i < side->scale_count; i++)
        text = hr_format(p, "(%s) * (%s)", text, hr_expr_text(p, side->scale[i]));
    hr_print(p, "return %s;", text);
}

static void print_scale_function(gemm_printer *g, const hr_gemm_side *side) {
    g->side = side;
    if (side->scale_count)
        hr_cuda_print_function(
            g->p,
            hr_format(g->p,
                      "static __device__ inline float stage_%d_%s_scale(const arguments &a, "
                      "int64_t batch, int64_t mn, int64_t k)",
                      g->number, is_left(g) ? "left" : "right"),
            print_scale, g);
}

void hr_gemm_print_scale_member(gemm_printer *g, const hr_gemm_side *side, const char *name) {
    hr_print(
        g->p,
        "    static __device__ inline float %s_scale(const arguments &a, int64_t batch, int64_t mn, int64_t "
        "k) {",
        name);
    if (side->scale_count)
        hr_print(g->p, "        return stage_%d_%s_scale(a, batch, mn, k);", g->number, name);
    else
        hr_print(g->p, "        return 1;");
    hr_print(g->p, "    }");
}

/* ---- a left operand that is computed in registers ---- */

/* Where the element of `k` stands along its row. */
static void print_at(void *context) {
    gemm_printer *g = context;
    hr_printer *p = g->p;
    const hr_expr *raw = g->side->raw;
    hr_print(p, "const int64_t batch = 0, mn = 0;");
    print_side_indices(g);
    hr_print(p, "return %s;", hr_emit_offset(p, raw->tensor, raw->args, raw->arg_count));
}

static void print_number(void *context) {
    gemm_printer *g = context;
    hr_printer *p = g->p;
    const hr_expr *raw = g->side->raw;
    const hr_dtype dtype = p->function->tensors[raw->tensor].dtype, type = hr_compute_type(dtype);
    print_side_indices(g);
    p->name[raw->id] =
        dtype == type ? "raw" : hr_format(p, "%s_from_%s(raw)", hr_type_prefix(type), hr_dtype_name(dtype));
    hr_print(p, "return %s;", hr_expr_text(p, g->side->number));
    p->name[raw->id] = NULL;
}

static const char *raw_storage(const gemm_printer *g, const hr_gemm_side *side) {
    return hr_c_storage(g->p->function->tensors[side->raw->tensor].dtype);
}

static void print_raw_functions(gemm_printer *g) {
    hr_cuda_print_function(
        g->p,
        hr_format(g->p, "static __device__ inline int64_t stage_%d_left_at(const arguments &a, int64_t k)",
                  g->number),
        print_at, g);
    hr_cuda_print_function(
        g->p,
        hr_format(g->p,
                  "static __device__ inline float stage_%d_left_number(const arguments &a, "
                  "int64_t batch, int64_t mn, int64_t k, %s raw)",
                  g->number, raw_storage(g, g->side)),
        print_number, g);
}

void hr_gemm_print_raw_members(gemm_printer *g) {
    hr_printer *p = g->p;
    const char *raw = raw_storage(g, &g->gemm->left);
    hr_print(p, "    static constexpr bool k_whole = %s;", g->gemm->k_whole ? "true" : "false");
    hr_print(p, "    typedef %s raw_type;", raw);
    hr_print(p, "    static __device__ inline int64_t left_at(const arguments &a, int64_t k) {");
    hr_print(p, "        return stage_%d_left_at(a, k);", g->number);
    hr_print(p, "    }");
    hr_print(p,
             "    static __device__ inline float left_number(const arguments &a, int64_t batch, int64_t mn, "
             "int64_t k, %s raw) {",
             raw);
    hr_print(p, "        return stage_%d_left_number(a, batch, mn, k, raw);", g->number);
    hr_print(p, "    }");
    hr_print(p, "    static __device__ inline uint32_t left_pair(float low, float high) {");
    hr_print(p, "        return %s_pair(low, high);", g->gemm->dtype == HR_BF16 ? "bf16" : "f16");
    hr_print(p, "    }");
}

/* Where the member of a view begins, in steps of 16 bytes from the array's address; the batch's indices are
 * there. */
static const char *member_place(hr_printer *p, const hr_gemm_view *view) {
    const int size = (int)hr_dtype_size(p->function->tensors[view->tensor].dtype);
    const char *offset = hr_emit_axis_offset(p, view->tensor, 0, hr_expr_text(p, view->member));
    return hr_format(p, "%s / %d", offset, 16 / size);
}

/* The number of a matrix that `element` stands in, `text`; -1 where there is none such. */
static void print_chosen(gemm_printer *g, const hr_expr *element, const char *text, const char *type) {
    hr_printer *p = g->p;
    if (hr_element_is_checked(p->function, element))
        text = hr_format(p, "%s ? %s : -1", hr_expr_print_valid(p, element), text);
    hr_print(p, "return (%s)(%s);", type, text);
}

/* Of a batch's coordinate: a number of a matrix is an int, a place in memory is not. */
static const char *batch_type(const hr_gemm_side *side) {
    return side->view.member ? "int64_t" : "int";
}

/* Which right operand a row chose; -1 = none that there is, which is reported. */
static void print_choice(void *context) {
    gemm_printer *g = context;
    hr_printer *p = g->p;
    const hr_contract *c = g->contract;
    hr_cuda_print_digits(p, c->m, c->m_count, "m");
    hr_print(p, "const int64_t n = 0, k = 0;");
    hr_cuda_print_digits(p, c->n, c->n_count, "n");
    hr_cuda_print_digits(p, c->k, c->k_count, "k");
    print_chosen(g, c->grouped, hr_expr_text(p, c->group), "int");
}

/* Which matrix of its tensor an operand is, or where it lies; -1 = none that there is, which is reported. */
static void print_matrix(void *context) {
    gemm_printer *g = context;
    const hr_gemm_side *side = g->side;
    hr_print(g->p, "const int64_t mn = 0, k = 0;");
    print_side_indices(g);
    print_chosen(g, side->value,
                 side->view.member ? member_place(g->p, &side->view) : hr_expr_text(g->p, side->choice),
                 batch_type(side));
}

/* What a side's batch_of() gives: which matrix it is, or where that lies. */
static void print_batch_member(gemm_printer *g, const hr_gemm_side *side, const char *name) {
    hr_print(g->p, "    static __device__ inline batch_type batch_of(const arguments &a, int batch) {");
    if (side->choice)
        hr_print(g->p, "        return stage_%d_%s_matrix(a, batch);", g->number, name);
    else
        hr_print(g->p, "        return batch;");
    hr_print(g->p, "    }");
}

/* ---- boxes: what the copy engine brings and takes ---- */

/* The coordinates of a box behind the first two. */
const char *hr_gemm_batch_coordinates(hr_printer *p, const hr_gemm_view *view, const char *batch) {
    if (view->rank == 2) return "";
    if (view->rank == 3) return hr_format(p, ", %s", batch);
    const char *low = hr_format(p, "%s %% %" PRId64, batch, view->size[2]),
               *high = hr_format(p, "%s / %" PRId64, batch, view->size[2]);
    if (view->member) return hr_format(p, ", (int)(%s), (int)(%s)", low, high);
    return hr_format(p, ", %s, %s", low, high);
}

static void print_box_load(gemm_printer *g, const hr_gemm_side *side, const char *name) {
    hr_printer *p = g->p;
    const char *batch = hr_gemm_batch_coordinates(p, &side->view, "batch");
    int rank = side->view.rank, cluster = g->gemm->tile.cluster;
    hr_print(p, "    typedef %s batch_type;", batch_type(side));
    print_batch_member(g, side, name);
    hr_print(p, "    template <int SHARERS>");
    hr_print(p,
             "    static __device__ inline void load(uint32_t to, const void *map, int inner, int outer, "
             "%s batch,",
             batch_type(side));
    hr_print(p, "                                       uint32_t barrier) {");
    if (cluster > 1) {
        hr_print(p, "        if constexpr (SHARERS > 1)");
        hr_print(p, "            ptx_tensor_load_%dd_multicast(to, map, inner, outer%s, barrier, %d);", rank,
                 batch, (1 << cluster) - 1);
        hr_print(p, "        else");
    }
    hr_print(p, "        %sptx_tensor_load_%dd(to, map, inner, outer%s, barrier);", cluster > 1 ? "    " : "",
             rank, batch);
    hr_print(p, "    }");
}

/* Where the member of a result begins. */
static void print_result_place(void *context) {
    gemm_printer *g = context;
    hr_cuda_print_digits(g->p, g->contract->batch, g->contract->batch_count, "batch");
    hr_print(g->p, "return %s;", member_place(g->p, &g->gemm->results[g->result]));
}

void hr_gemm_print_result_places(gemm_printer *g) {
    for (g->result = 0; g->result < g->gemm->result_count; g->result++)
        if (g->gemm->results[g->result].member)
            hr_cuda_print_function(
                g->p,
                hr_format(g->p,
                          "static __device__ inline int64_t stage_%d_result_%d_place(const arguments &a, "
                          "int64_t batch)",
                          g->number, g->result),
                print_result_place, g);
}

static void print_box_store(gemm_printer *g, int r) {
    hr_printer *p = g->p;
    const hr_gemm_view *view = &g->gemm->results[r];
    hr_print(p, "        if (result == %d) {", r);
    if (view->member)
        hr_print(p, "            const int64_t place = stage_%d_result_%d_place(a, batch);", g->number, r);
    hr_print(p, "            ptx_tensor_store_%dd(maps.result[%d], n, m%s, from);", view->rank, r,
             hr_gemm_batch_coordinates(p, view, view->member ? "place" : "batch"));
    hr_print(p, "        }");
}

void hr_gemm_print_box_stores(gemm_printer *g) {
    hr_printer *p = g->p;
    hr_print(p,
             "    static __device__ inline void store_box(const arguments &a, const stage_%d_maps &maps, int "
             "result,",
             g->number);
    hr_print(p, "                                            int n, int m, int batch, uint32_t from) {");
    for (int r = 0; r < g->gemm->result_count; r++)
        print_box_store(g, r);
    hr_print(p, "    }");
}

static const char *const operand_arguments = "const arguments &a, int64_t batch, int64_t mn, int64_t k";

/* What gemm_lay() asks for. */
static void print_laid(gemm_printer *g, const char *name) {
    hr_printer *p = g->p;
    hr_print(p, "struct stage_%d_%s_laid {", g->number, name);
    hr_print(p, "    static constexpr int parts = %d;", g->side->parts);
    hr_print(p, "    static constexpr bool k_major = %s;", g->side->k_major ? "true" : "false");
    hr_print(p, "    static __device__ inline float value(%s) {", operand_arguments);
    hr_print(p, "        return stage_%d_%s_value(a, batch, mn, k);", g->number, name);
    hr_print(p, "    }");
    hr_print(p, "    static __device__ inline uint32_t pair(float low, float high) {");
    hr_print(p, "        return %s_pair(low, high);", g->gemm->dtype == HR_BF16 ? "bf16" : "f16");
    hr_print(p, "    }");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

void hr_gemm_print_side(gemm_printer *g, const hr_gemm_side *side) {
    hr_printer *p = g->p;
    g->side = side;
    const char *name = hr_gemm_side_name(g, side), *arguments = operand_arguments;
    bool chunks = side->load == HR_GEMM_CHUNKS, elements = !g->gemm->by_threads_unaligned;
    if (elements)
        hr_cuda_print_function(
            g->p,
            hr_format(p, "static __device__ inline uint16_t stage_%d_%s(%s)", g->number, name, arguments),
            print_element, g);
    if (side->parts) print_laid(g, name);
    if (chunks)
        hr_cuda_print_function(g->p,
                               hr_format(p, "static __device__ inline const void *stage_%d_%s_place(%s)",
                                         g->number, name, arguments),
                               print_place, g);
    if (side->choice)
        hr_cuda_print_function(
            p,
            hr_format(p, "static __device__ inline %s stage_%d_%s_matrix(const arguments &a, int64_t batch)",
                      batch_type(side), g->number, name),
            print_matrix, g);
    hr_print(p, "struct stage_%d_%s_side {", g->number, name);
    hr_print(p, "    static constexpr bool k_major = %s, chunks = %s;", side->k_major ? "true" : "false",
             chunks ? "true" : "false");
    if (elements) {
        hr_print(p, "    static __device__ inline uint16_t element(%s) {", arguments);
        hr_print(p, "        return stage_%d_%s(a, batch, mn, k);", g->number, name);
        hr_print(p, "    }");
    }
    if (chunks) {
        hr_print(p, "    static __device__ inline const void *place(%s) {", arguments);
        hr_print(p, "        return stage_%d_%s_place(a, batch, mn, k);", g->number, name);
        hr_print(p, "    }");
    }
    if (g->gemm->mainloop == HR_GEMM_HOPPER) print_box_load(g, side, name);
    hr_print(p, "};");
    hr_print(p, "%s", "");
    print_scale_function(g, side);
    if (side->raw) print_raw_functions(g);
}

void hr_gemm_print_group(gemm_printer *g) {
    hr_cuda_print_function(
        g->p,
        hr_format(g->p, "static __device__ inline int stage_%d_group(const arguments &a, int64_t m)",
                  g->number),
        print_choice, g);
}
