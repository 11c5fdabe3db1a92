/* What kernels of attention read by tiles. In: an element and a view. Out: text, maps. See attention_side.h.
 */
#include "emit/cuda/attention_side.h"

#include "base/dtype.h"
#include "emit/cuda/stage_cuda.h"

#include <inttypes.h>

typedef struct side_printer {
    hr_printer *p;
    const hr_attention_side *side;
} side_printer;

/* The element's offset, and what says that it is there; NULL = it always is. */
static const char *print_offset(const side_printer *t, const char **there) {
    const hr_attention_side *s = t->side;
    hr_printer *p = t->p;
    hr_cuda_print_digits(p, s->batch.index, s->batch.count, "batch");
    hr_cuda_print_digits(p, s->rows.index, s->rows.count, "row");
    hr_cuda_print_digits(p, s->columns.index, s->columns.count, "column");
    *there = hr_element_is_checked(p->function, s->value) ? hr_expr_print_valid(p, s->value) : NULL;
    return hr_emit_offset(p, s->value->tensor, s->value->args, p->function->tensors[s->value->tensor].rank);
}

static hr_dtype stored_dtype(const side_printer *t) {
    return t->p->function->tensors[t->side->value->tensor].dtype;
}

static bool widens(const side_printer *t) {
    return hr_dtype_size(stored_dtype(t)) < 2;
}

static void print_element(void *context) {
    const side_printer *t = context;
    const char *there, *offset = print_offset(t, &there);
    const char *element = hr_format(t->p, "%s[%s]", hr_emit_tensor(t->p, t->side->value->tensor), offset);
    if (widens(t))
        element = hr_format(t->p, "%s_from_f32(f32_from_%s(%s))", hr_dtype_name(t->side->dtype),
                            hr_dtype_name(stored_dtype(t)), element);
    hr_print(t->p, "return %s;", there ? hr_format(t->p, "%s ? %s : 0", there, element) : element);
}

/* Of the first element of a row. */
static void print_place(void *context) {
    const side_printer *t = context;
    hr_print(t->p, "const int64_t column = 0;");
    const char *there, *offset = print_offset(t, &there);
    const char *element = hr_format(t->p, "&%s[%s]", hr_emit_tensor(t->p, t->side->value->tensor), offset);
    hr_print(t->p, "return %s;", there ? hr_format(t->p, "%s ? %s : nullptr", there, element) : element);
}

/* The coordinates of a box behind the first two. */
static const char *batch_coordinates(hr_printer *p, const hr_gemm_view *view, int64_t group) {
    if (view->rank == 2) return "";
    if (view->rank == 3) return hr_format(p, ", batch / %" PRId64, group);
    return hr_format(p, ", batch %% %" PRId64 " / %" PRId64 ", batch / %" PRId64, view->size[2] * group,
                     group, view->size[2] * group);
}

/* Eight elements of a row, from `column` on, as they lie; and as they are multiplied. */
static void print_piece(const side_printer *t) {
    hr_printer *p = t->p;
    const bool wide = widens(t);
    hr_print(p, "    typedef %s piece;", wide ? "uint2" : "uint4");
    hr_print(p, "    static __device__ inline piece bring(const void *row, int column) {");
    hr_print(p, "        return *(const piece *)((const char *)row + column * %d);", wide ? 1 : 2);
    hr_print(p, "    }");
    hr_print(p, "    static __device__ inline uint4 widened(piece x) {");
    if (wide) {
        const char *pair =
            hr_format(p, "%s_pair_from_%s", hr_dtype_name(t->side->dtype), hr_dtype_name(stored_dtype(t)));
        hr_print(p, "        return make_uint4(%s(x.x & 0xffff), %s(x.x >> 16), %s(x.y & 0xffff),", pair,
                 pair, pair);
        hr_print(p, "                          %s(x.y >> 16));", pair);
    } else {
        hr_print(p, "        return x;");
    }
    hr_print(p, "    }");
}

static void print_load(const side_printer *t) {
    hr_printer *p = t->p;
    hr_print(p, "    static __device__ inline void load(uint32_t to, const void *map, int column, int row, "
                "int batch,");
    hr_print(p, "                                       uint32_t barrier) {");
    hr_print(p, "        ptx_tensor_load_%dd(to, map, column, row%s, barrier);", t->side->view->rank,
             batch_coordinates(p, t->side->view, t->side->group));
    hr_print(p, "    }");
}

void hr_cuda_print_attention_side(hr_printer *p, int number, const char *name,
                                  const hr_attention_side *side) {
    side_printer t = {p, side};
    const char *row = "const arguments &a, int64_t batch, int64_t row";
    const char *arguments = hr_format(p, "%s, int64_t column", row);
    if (side->load == HR_GEMM_CHUNKS)
        hr_cuda_print_function(
            p, hr_format(p, "static __device__ inline const void *stage_%d_%s_place(%s)", number, name, row),
            print_place, &t);
    hr_cuda_print_function(
        p, hr_format(p, "static __device__ inline uint16_t stage_%d_%s(%s)", number, name, arguments),
        print_element, &t);
    hr_print(p, "struct stage_%d_%s_side {", number, name);
    hr_print(p, "    static __device__ inline uint16_t element(%s) {", arguments);
    hr_print(p, "        return stage_%d_%s(a, batch, row, column);", number, name);
    hr_print(p, "    }");
    if (side->view) print_load(&t);
    if (side->load == HR_GEMM_CHUNKS) {
        hr_print(p, "    static __device__ inline const void *place(%s) {", row);
        hr_print(p, "        return stage_%d_%s_place(a, batch, row);", number, name);
        hr_print(p, "    }");
        print_piece(&t);
    }
    hr_print(p, "    static constexpr bool boxes = %s, chunks = %s, widens = %s, looks_up = %s;",
             side->view ? "true" : "false", side->load == HR_GEMM_CHUNKS ? "true" : "false",
             widens(&t) ? "true" : "false",
             hr_element_is_checked(p->function, side->value) ? "true" : "false");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

void hr_attention_print_mask(hr_printer *p, const hr_expr *mask) {
    p->forms |= HR_FORM_EAGER; /* a branch for each pair of query and key is slower than what it leaves out */
    hr_print(p, "return %s;", mask ? hr_expr_text(p, mask) : "true");
    p->forms &= ~(unsigned)HR_FORM_EAGER;
}

void hr_attention_products(hr_dtype dtype, int scores, const int *widths, int count, hr_tensor_core *out) {
    const hr_tensor_type type = dtype == HR_BF16 ? HR_TENSOR_BF16 : HR_TENSOR_F16;
    out[0] = (hr_tensor_core){.threads = HR_TENSOR_WARPGROUP,
                              .a = type,
                              .b = type,
                              .sum = HR_TENSOR_SUM_F32,
                              .columns = scores,
                              .a_place = HR_TENSOR_K_MAJOR,
                              .b_place = HR_TENSOR_K_MAJOR};
    for (int i = 0; i < count; i++) {
        out[1 + i] = out[0];
        out[1 + i].columns = widths[i];
        out[1 + i].a_place = HR_TENSOR_REGISTERS;
        out[1 + i].b_place = HR_TENSOR_MN_MAJOR;
    }
}

void hr_attention_print_product(hr_printer *p, const char *name, const char *columns,
                                const hr_tensor_core *product) {
    const char *left = product->a_place == HR_TENSOR_REGISTERS ? "const uint32_t (&a)[4]" : "uint64_t a";
    char function[96];
    hr_tensor_core_name(product, function, sizeof function);
    hr_print(p, "    static __device__ inline void %s(float (&d)[%s / 2], %s, uint64_t b, int accumulate) {",
             name, columns, left);
    hr_print(p, "        %s(d, a, b, accumulate);", function);
    hr_print(p, "    }");
}

hr_tensor_core hr_attention_warp_product(hr_dtype dtype) {
    const hr_tensor_type type = dtype == HR_BF16 ? HR_TENSOR_BF16 : HR_TENSOR_F16;
    return (hr_tensor_core){
        .threads = HR_TENSOR_WARP, .a = type, .b = type, .sum = HR_TENSOR_SUM_F32, .columns = 8};
}

void hr_attention_print_warp_product(hr_printer *p, hr_dtype dtype) {
    const hr_tensor_core product = hr_attention_warp_product(dtype);
    char name[96];
    hr_tensor_core_name(&product, name, sizeof name);
    hr_print(p, "    static __device__ inline void multiply(float (&d)[4], const uint32_t (&a)[4], const "
                "uint32_t (&b)[2]) {");
    hr_print(p, "        %s(d, a, b);", name);
    hr_print(p, "    }");
}
