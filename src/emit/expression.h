/* Expressions of a plan as C: the one printer that every shape uses.
 *
 * A node of a stage lives at a level: the task (a scalar, computed once a task), the outer loops of a row, or
 * the lanes. What is needed several times, must be checked or is long gets a line of its own at its level;
 * the rest is printed in place. In vector mode a node at lane level is a vector of HR_LANES 32-bit lanes, all
 * else is scalar.
 */
#ifndef HR_EMIT_EXPRESSION_H
#define HR_EMIT_EXPRESSION_H

#include "emit/printer.h"
#include "ir/graph.h"

typedef enum hr_emit_level { HR_AT_TASK, HR_AT_OUTER, HR_AT_LANE } hr_emit_level;

/* Forgets the names given at this level and the deeper ones. */
void hr_printer_forget(hr_printer *printer, hr_emit_level level);

/* A printer beside this one, of the same lines, that knows what is known outside of the lanes and sees these
 * as those of `stage`; to be ended. Whether there was memory. */
bool hr_printer_beside(hr_printer *printer, const hr_stage *stage, hr_printer *out);
/* Goes on where `from` stands. */
hr_printer *hr_printer_switch_to(hr_printer *to, const hr_printer *from);

hr_emit_level hr_expr_level(hr_printer *printer, const hr_expr *node);
static inline bool hr_expr_at_lane(hr_printer *printer, const hr_expr *node) {
    return hr_expr_level(printer, node) == HR_AT_LANE;
}

static inline bool hr_expr_is_vector(hr_printer *printer, const hr_expr *node) {
    return printer->vector && hr_expr_at_lane(printer, node);
}

/* Counts uses in one loop body (uses must be zeroed by hr_printer_forget(HR_AT_LANE)). */
void hr_expr_count_uses(hr_printer *printer, const hr_expr *node);
/* Prints the lines that `node` needs at `level`: its parts of that level that stand inside deeper ones. */
void hr_expr_prepare(hr_printer *printer, const hr_expr *node, hr_emit_level level);
/* The text of `node` as an operand, after printing the lines it needs at its own level. Vector-mode nodes of
 * lane level are vf, vi or vm; others are C scalars of their compute type. */
const char *hr_expr_text(hr_printer *printer, const hr_expr *node);
/* As hr_expr_text, made a vector (vf, vi or vm by type) where the printer is in vector mode. */
const char *hr_expr_lanes(hr_printer *printer, const hr_expr *node);

/* A function of lanes of which there is one for several vectors side by side, vf_NAME_ways(), beside
 * vf_NAME(argument), or with the peak, one for all lanes, beside it: where results are rounded to 16 bits,
 * and where a vector is less than a line. */
typedef struct hr_ways_call {
    const char *name;
    const hr_expr *argument, *peak; /* peak: NULL = none */
} hr_ways_call;
bool hr_expr_in_ways(hr_printer *printer, const hr_expr *node, hr_ways_call *out);

/* The whole number, one for all lanes, that `node` compares the lane's index with, where it does: at most one
 * lane is equal. NULL elsewhere. */
const hr_expr *hr_expr_lane_match(hr_printer *printer, const hr_expr *node);

/* An element of f32 that is one for all lanes, whose NaN lose what bf16 cuts off as it is loaded. */
bool hr_expr_is_cleaned(hr_printer *printer, const hr_expr *element);

/* The subscript is the lane plus something that does not depend on it. */
bool hr_expr_is_lane_plus(hr_printer *printer, const hr_expr *subscript);
/* Consecutive lanes are consecutive elements and nothing else of the address depends on the lane. */
bool hr_expr_is_row_form(hr_printer *printer, const hr_expr *element);
/* Prints the lines of the element's row pointer, without the lane, where they are not there yet:
 * printer->pointer and, where it is checked, printer->valid. */
void hr_expr_print_pointer(hr_printer *printer, const hr_expr *element);
/* That pointer, as an operand. */
const char *hr_expr_pointer(hr_printer *printer, const hr_expr *element);
/* Prints the line that finds out whether a checked element is there; gives the flag's name. */
const char *hr_expr_print_valid(hr_printer *printer, const hr_expr *element);

/* ---- names and types ---- */

/* Whether an argument is bound as a list of arrays. */
bool hr_emit_is_list(const hr_printer *printer, int tensor);
/* "if (t_x) " before a store into a result that may be NULL, else "". */
const char *hr_emit_if_wanted(hr_printer *printer, int tensor);
/* t_x, the pointer or scalar of the tensor's storage; n_N, an extent. As operands, which the body in hand
 * then uses (hr_use), and as names alone. */
const char *hr_emit_tensor(hr_printer *printer, int tensor);
const char *hr_emit_tensor_name(hr_printer *printer, int tensor);
const char *hr_emit_extent(hr_printer *printer, int extent);
const char *hr_emit_extent_name(hr_printer *printer, int extent);
const char *hr_emit_strides(hr_printer *printer, int tensor); /* t_x_strides, of an argument; used */
const char *hr_emit_fault(hr_printer *printer); /* where the first subscript off its axis is noted; used */
const char *hr_emit_index(hr_printer *printer, int index);            /* i_n */
const char *hr_emit_size(hr_printer *printer, const hr_expr *extent); /* an extent expression, in C */
/* A size over extents, as an expression. */
const char *hr_size_text(hr_printer *printer, const hr_size *size);
const char *hr_emit_index_size(hr_printer *printer, int index);
/* How many lanes there are: of the lane's index, or of all elements where they are one axis. */
const char *hr_emit_lane_count(hr_printer *printer);
/* How many points so many indices have together. */
const char *hr_emit_points(hr_printer *printer, const int *indices, int count);
/* Prints the values of the indices at point `rest` of those, the last index running fastest; uses `rest` up.
 * `declared`: their declaration, "const int64_t ", or "" where they are there. */
void hr_emit_indices(hr_printer *printer, const char *declared, const int *indices, int count);
/* The indices of the row's outer loops as one number, row-major; NULL where it has none. */
const char *hr_emit_outer(hr_printer *printer);
const char *hr_c_storage(hr_dtype dtype);  /* uint16_t for bf16 */
const char *hr_c_compute(hr_dtype type);   /* float for f32 */
const char *hr_type_prefix(hr_dtype type); /* f32, f64, i32, i64, b */
const char *hr_lane_prefix(hr_dtype type); /* vf, vi, vm */
/* How far `at` steps along an axis of an argument with strides reach, in elements. */
const char *hr_emit_axis_offset(hr_printer *printer, int tensor, int axis, const char *at);
/* The element offset of subscripts in a tensor's memory, as an int64_t expression; axes >= `axes` are left
 * out. */
const char *hr_emit_offset(hr_printer *printer, int tensor, hr_expr *const *subscripts, int axes);
/* What a subscript or counter of the form lane + c adds to the lane: c, "0" where it is the lane alone. */
const char *hr_emit_lane_rest(hr_printer *printer, const hr_expr *lane_plus);
/* Text of `value` (already printed, of compute type `type`) converted for a store into `dtype`: storage bits
 * in scalar mode; vf or vi in vector mode. */
const char *hr_emit_stored(hr_printer *printer, const char *value, hr_dtype type, hr_dtype dtype);
/* The variable of a value of the task level, which is noted as read; NULL where there is none. */
const char *hr_emit_value(hr_printer *printer, int tensor);
/* Prints the value of a step outside the lane loops, `text` of compute type `type`, as a variable that later
 * steps read. */
void hr_emit_step_value(hr_printer *printer, const hr_step *step, const char *text, hr_dtype type);

#endif
