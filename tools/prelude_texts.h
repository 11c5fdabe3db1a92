/* What the preludes of emitted text consist of: templates of src/emit/templates/, what each is filled with,
 * what stands between them. For make_prelude.c alone.
 */
#ifndef TOOLS_PRELUDE_TEXTS_H
#define TOOLS_PRELUDE_TEXTS_H

#include "template.h"

/* ---- what a template is filled with ---- */

typedef struct filling {
    const hole *holes;
    int count;
} filling;

#define FILLING(holes)                                                                                       \
    { holes, (int)(sizeof(holes) / sizeof *(holes)) }

/* Lanes, and scalars in their place. */
static const hole lane_holes[] = {{"VF", "vf", "vf"},
                                  {"VI", "vi", "vi"},
                                  {"VU", "vu", "vu"},
                                  {"VM", "vm", "vm"},
                                  {"STATIC_INLINE", "static inline", NULL}};
static const hole scalar_holes[] = {{"VF", "float", "f32"},
                                    {"VI", "int32_t", "i32"},
                                    {"VU", "uint32_t", "u32"},
                                    {"VM", "bool", "b"},
                                    {"STATIC_INLINE", "static inline", NULL}};
static const hole i32_holes[] = {{"ixx", "i32", "i32"},
                                 {"intxx_t", "int32_t", NULL},
                                 {"uintxx_t", "uint32_t", NULL},
                                 {"SIGN_BIT", "31", NULL},
                                 {"STATIC_INLINE", "static inline", NULL},
                                 {"STATIC_INLINE_SIZES", "static inline", NULL}};
static const hole i64_holes[] = {{"ixx", "i64", "i64"},
                                 {"intxx_t", "int64_t", NULL},
                                 {"uintxx_t", "uint64_t", NULL},
                                 {"SIGN_BIT", "63", NULL},
                                 {"STATIC_INLINE", "static inline", NULL},
                                 {"STATIC_INLINE_SIZES", "static inline", NULL}};
static const filling no_holes = {NULL, 0}, lanes = FILLING(lane_holes), scalars = FILLING(scalar_holes),
                     i32 = FILLING(i32_holes), i64 = FILLING(i64_holes);

/* Of CUDA. Sizes divide on the host, too. */
#define DEVICE_INLINE "static __device__ inline"
static const hole device_scalar_holes[] = {{"VF", "float", "f32"},
                                           {"VI", "int32_t", "i32"},
                                           {"VU", "uint32_t", "u32"},
                                           {"VM", "bool", "b"},
                                           {"STATIC_INLINE", DEVICE_INLINE, NULL}};
static const hole device_i32_holes[] = {{"ixx", "i32", "i32"},
                                        {"intxx_t", "int32_t", NULL},
                                        {"uintxx_t", "uint32_t", NULL},
                                        {"SIGN_BIT", "31", NULL},
                                        {"STATIC_INLINE", DEVICE_INLINE, NULL},
                                        {"STATIC_INLINE_SIZES", DEVICE_INLINE, NULL}};
static const hole device_i64_holes[] = {{"ixx", "i64", "i64"},
                                        {"intxx_t", "int64_t", NULL},
                                        {"uintxx_t", "uint64_t", NULL},
                                        {"SIGN_BIT", "63", NULL},
                                        {"STATIC_INLINE", DEVICE_INLINE, NULL},
                                        {"STATIC_INLINE_SIZES", "static __host__ __device__ inline", NULL}};
static const filling device_scalars = FILLING(device_scalar_holes), device_i32 = FILLING(device_i32_holes),
                     device_i64 = FILLING(device_i64_holes);

static const hole vf_argmin_holes[] = {
    {"NAME", "vf_argmin", NULL}, {"LANES", "vf", NULL}, {"BETTER", "<", NULL}};
static const hole vf_argmax_holes[] = {
    {"NAME", "vf_argmax", NULL}, {"LANES", "vf", NULL}, {"BETTER", ">", NULL}};
static const hole vi_argmin_holes[] = {
    {"NAME", "vi_argmin", NULL}, {"LANES", "vi", NULL}, {"BETTER", "<", NULL}};
static const hole vi_argmax_holes[] = {
    {"NAME", "vi_argmax", NULL}, {"LANES", "vi", NULL}, {"BETTER", ">", NULL}};
static const filling vf_argmin = FILLING(vf_argmin_holes), vf_argmax = FILLING(vf_argmax_holes),
                     vi_argmin = FILLING(vi_argmin_holes), vi_argmax = FILLING(vi_argmax_holes);

/* Of products: the numbers of the sums, whole numbers as wide, the lanes of a vector. */
static const hole f32_sum_holes[] = {{"fxx", "f32", "f32"},
                                     {"FXX", "F32", "F32"},
                                     {"FLOAT", "float", NULL},
                                     {"intxx_t", "int32_t", NULL},
                                     {"LANES", "HR_LANES", NULL}};
static const hole f64_sum_holes[] = {{"fxx", "f64", "f64"},
                                     {"FXX", "F64", "F64"},
                                     {"FLOAT", "double", NULL},
                                     {"intxx_t", "int64_t", NULL},
                                     {"LANES", "HR_LANES / 2", NULL}};
static const filling f32_sums = FILLING(f32_sum_holes), f64_sums = FILLING(f64_sum_holes);

/* The copies by tensor maps: the rank, the coordinates' parameters, and the operands in the assembly, which
 * begin at a number that the hole names. */
#define RANK_HOLES(rank, parameters, coordinates, from_2, from_3, from_4, from_5)                            \
    {                                                                                                        \
        {"RANKd", rank "d", rank "d"}, {"PARAMETERS", parameters, NULL}, {"COORDINATES", coordinates, NULL}, \
            {"COORDINATES_FROM_2", from_2, NULL}, {"COORDINATES_FROM_3", from_3, NULL},                      \
            {"COORDINATES_FROM_4", from_4, NULL}, {"COORDINATES_FROM_5", from_5, NULL},                      \
    }
static const hole rank_holes[5][7] = {
    RANK_HOLES("1", "int c1", "\"r\"(c1)", "%2", "%3", "%4", "%5"),
    RANK_HOLES("2", "int c1, int c2", "\"r\"(c1), \"r\"(c2)", "%2, %3", "%3, %4", "%4, %5", "%5, %6"),
    RANK_HOLES("3", "int c1, int c2, int c3", "\"r\"(c1), \"r\"(c2), \"r\"(c3)", "%2, %3, %4", "%3, %4, %5",
               "%4, %5, %6", "%5, %6, %7"),
    RANK_HOLES("4", "int c1, int c2, int c3, int c4", "\"r\"(c1), \"r\"(c2), \"r\"(c3), \"r\"(c4)",
               "%2, %3, %4, %5", "%3, %4, %5, %6", "%4, %5, %6, %7", "%5, %6, %7, %8"),
    RANK_HOLES("5", "int c1, int c2, int c3, int c4, int c5",
               "\"r\"(c1), \"r\"(c2), \"r\"(c3), \"r\"(c4), \"r\"(c5)", "%2, %3, %4, %5, %6",
               "%3, %4, %5, %6, %7", "%4, %5, %6, %7, %8", "%5, %6, %7, %8, %9"),
};
static const filling ranks[5] = {
    FILLING(rank_holes[0]), FILLING(rank_holes[1]), FILLING(rank_holes[2]),
    FILLING(rank_holes[3]), FILLING(rank_holes[4]),
};

/* ---- the texts ---- */

/* A template as a part of a text. */
typedef struct part {
    const char *file; /* below src/; NULL = none: the text's end */
    const filling *filling;
    const char *before; /* NULL = nothing */
} part;

#define C_PART(name, filling, before)                                                                        \
    { "emit/templates/cpu/" name ".h", filling, before }
#define CUDA_PART(name, filling, before)                                                                     \
    { "emit/templates/cuda/" name ".h", filling, before }
#define PTX_PART(name, filling)                                                                              \
    { "emit/templates/ptx/" name ".h", filling, NULL }

#define IF_AVX512                                                                                            \
    "\n#if defined __AVX512F__ && defined __AVX512BW__ && defined __AVX512DQ__ && defined __AVX512VL__\n"
#define ELSE  "\n#else\n"
#define ENDIF "\n#endif\n"

static const part c_parts[] = {
    C_PART("lanes_avx512", &no_holes,
           "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n" IF_AVX512),
    C_PART("lanes_gnu", &no_holes, ELSE),
    C_PART("lanes", &no_holes, ENDIF),
    C_PART("scalars", &scalars, NULL),
    C_PART("convert_bits", &lanes, NULL),
    C_PART("convert_bits", &scalars, NULL),
    C_PART("convert_lanes", &no_holes, NULL),
    C_PART("convert_scalars", &scalars, NULL),
    C_PART("math_avx512", &no_holes, IF_AVX512),
    C_PART("math_limits", &lanes, ELSE),
    C_PART("math_avx2", &no_holes, "\n#if HR_LANES == 8\n"),
    C_PART("math_plain", &lanes, ELSE),
    C_PART("math_narrow", &no_holes, "\n#endif\n\n#endif\n\n#if HR_LANES > 4\n"),
    C_PART("math_ways", &no_holes, "\n#endif\n\n#if HR_LANES != 8\n"),
    C_PART("math_limits", &scalars, ENDIF),
    C_PART("math_plain", &scalars, NULL),
    C_PART("math_trig", &no_holes, NULL),
    C_PART("math_f32", &lanes, NULL),
    C_PART("math_f32", &scalars, NULL),
    C_PART("math_pairs", &no_holes, NULL),
    C_PART("math_f64", &scalars, NULL),
    C_PART("whole_powers", &i32, NULL),
    C_PART("whole", &i32, NULL),
    C_PART("whole_compare", &i32, NULL),
    C_PART("whole", &i64, NULL),
    C_PART("whole_bits", &i32, NULL),
    C_PART("whole_bits", &i64, NULL),
    C_PART("whole_lanes", &i32, NULL),
    C_PART("philox_keys", &no_holes, NULL),
    C_PART("philox_words", &no_holes, "\n#if HR_LANES >= 8\n"),
    C_PART("philox_blocks", &no_holes, ELSE),
    C_PART("random", &no_holes, ENDIF),
    C_PART("stream", &no_holes, NULL),
    C_PART("order", &no_holes, NULL),
    C_PART("places", &no_holes, NULL),
    C_PART("shares", &no_holes, NULL),
    C_PART("byte_tiles", &no_holes, NULL),
    C_PART("scans", &no_holes, NULL),
    {0},
};

static const part ptx_parts[] = {
    PTX_PART("ptx_address", &no_holes),
    PTX_PART("ptx_mbarrier", &no_holes),
    PTX_PART("ptx_threads", &no_holes),
    PTX_PART("ptx_copy", &no_holes),
    PTX_PART("ptx_tensor_map", &no_holes),
    PTX_PART("ptx_matrix", &no_holes),
    PTX_PART("ptx_product", &no_holes),
    PTX_PART("ptx_tensor_copy", &ranks[0]),
    PTX_PART("ptx_tensor_copy", &ranks[1]),
    PTX_PART("ptx_tensor_copy", &ranks[2]),
    PTX_PART("ptx_tensor_copy", &ranks[3]),
    PTX_PART("ptx_tensor_copy", &ranks[4]),
    {0},
};

/* What the machine does by instructions of its own, then the scalar functions of the CPU that it lacks. */
static const part cuda_parts[] = {
    CUDA_PART("cuda_machine", &no_holes, NULL),
    CUDA_PART("gemm_partials", &no_holes, NULL),
    CUDA_PART("gemm_ampere", &no_holes, NULL),
    CUDA_PART("gemm_operands", &no_holes, NULL),
    CUDA_PART("gemm_stream", &no_holes, NULL),
    CUDA_PART("gemm_hopper_block", &no_holes, NULL),
    CUDA_PART("gemm_hopper", &no_holes, NULL),
    CUDA_PART("attention_classes", &no_holes, NULL),
    CUDA_PART("attention_items", &no_holes, NULL),
    CUDA_PART("attention_softmax", &no_holes, NULL),
    CUDA_PART("attention_hopper", &no_holes, NULL),
    CUDA_PART("attention_split", &no_holes, NULL),
    CUDA_PART("attention_backward_items", &no_holes, NULL),
    CUDA_PART("attention_backward", &no_holes, NULL),
    CUDA_PART("attention_backward_fused", &no_holes, NULL),
    CUDA_PART("attention_backward_ampere", &no_holes, NULL),
    CUDA_PART("cuda_convert", &no_holes, NULL),
    CUDA_PART("gemm_unpack", &no_holes, NULL),
    CUDA_PART("gemm_thin", &no_holes, NULL),
    CUDA_PART("gemm_direct", &no_holes, NULL),
    CUDA_PART("cuda_math", &no_holes, NULL),
    CUDA_PART("cuda_memory", &no_holes, NULL),
    CUDA_PART("cuda_reduce", &no_holes, NULL),
    CUDA_PART("cuda_ring", &no_holes, NULL),
    CUDA_PART("cuda_merge", &no_holes, NULL),
    CUDA_PART("cuda_staged", &no_holes, NULL),
    CUDA_PART("cuda_order", &no_holes, NULL),
    CUDA_PART("cuda_random", &no_holes, NULL),
    CUDA_PART("cuda_list", &no_holes, NULL),
    C_PART("scalars", &device_scalars, NULL),
    C_PART("convert_bits", &device_scalars, NULL),
    C_PART("convert_scalars", &device_scalars, NULL),
    C_PART("math_f32", &device_scalars, NULL),
    C_PART("math_f64", &device_scalars, NULL),
    C_PART("whole_powers", &device_i32, NULL),
    C_PART("whole", &device_i32, NULL),
    C_PART("whole_compare", &device_i32, NULL),
    C_PART("whole", &device_i64, NULL),
    C_PART("whole_bits", &device_i32, NULL),
    C_PART("whole_bits", &device_i64, NULL),
    C_PART("whole_lanes", &device_i32, NULL),
    {0},
};

static const part interval_parts[] = {{"base/interval.h", &no_holes, NULL}, {0}};

/* Checks of subscripts, and reductions of lanes. */
static const part helper_parts[] = {
    C_PART("range_check", &no_holes, NULL), C_PART("arg_lanes", &vf_argmin, NULL),
    C_PART("arg_lanes", &vf_argmax, NULL),  C_PART("arg_lanes", &vi_argmin, NULL),
    C_PART("arg_lanes", &vi_argmax, NULL),  {0},
};

/* Of matrix products: how they are cut; the main loop, by what the sums are; two products with rows between
 * them; the matrix unit's, and those of vectors which multiply pairs of bf16 or bytes in fours. */
static const part blocks_parts[] = {{"schedule/cpu/contract_blocks.h", &no_holes, NULL}, {0}};
#define MAINLOOP(filling)                                                                                    \
    {                                                                                                        \
        C_PART("contract_mainloop", filling, NULL), C_PART("contract_vectors", filling, NULL),               \
            C_PART("contract_thin", filling, NULL), {                                                        \
            0                                                                                                \
        }                                                                                                    \
    }
static const part f32_parts[] = MAINLOOP(&f32_sums), f64_parts[] = MAINLOOP(&f64_sums);
static const part attend_parts[] = {
    C_PART("contract_attend_blocks", &no_holes, NULL), C_PART("contract_attend", &no_holes, NULL), {0}};
static const part tiles_parts[] = {
    C_PART("contract_pairs", &no_holes, NULL), C_PART("contract_tiles", &no_holes, NULL), {0}};
static const part dots_parts[] = {
    C_PART("contract_pairs", &no_holes, NULL), C_PART("contract_dots", &no_holes, NULL), {0}};
static const part bytes_parts[] = {C_PART("contract_bytes", &no_holes, NULL), {0}};
static const part threads_parts[] = {C_PART("threads", &no_holes, NULL), {0}};

static const struct text {
    const char *id;
    const part *wrappers, *parts;
    const char *between; /* the parts */
    bool sorted;         /* what is used stands first */
} texts[] = {
    {"c", NULL, c_parts, "\n", true},
    {"cuda", ptx_parts, cuda_parts, "\n", false},
    {"interval", NULL, interval_parts, "\n", true},
    {"helpers", NULL, helper_parts, "\n", true},
    {"contract_blocks", NULL, blocks_parts, "", true},
    {"contract_f32", NULL, f32_parts, "", true},
    {"contract_f64", NULL, f64_parts, "", true},
    {"contract_attend", NULL, attend_parts, "", true},
    {"contract_tiles", NULL, tiles_parts, "", true},
    {"contract_dots", NULL, dots_parts, "", true},
    {"contract_bytes", NULL, bytes_parts, "", true},
    {"threads", NULL, threads_parts, "", true},
};

#endif
