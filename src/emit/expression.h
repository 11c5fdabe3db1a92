/* Expressions of a plan as C: the one printer that every shape uses.
 *
 * A node of a stage lives at a level: the task (a scalar, computed once a task), the outer loops of a row, or
 * the lanes. What is needed several times, must be checked or is long gets a line of its own at its level;
 * the rest is printed in place. In vector mode a node at lane level is a vector of HR_LANES 32-bit lanes, all
 * else is scalar.
 */
#ifndef HR_EMIT_EXPRESSION_H
#define HR_EMIT_EXPRESSION_H

#include "base/text.h"
#include "plan/graph.h"
#include "plan/plan.h"

typedef enum hr_emit_level { HR_AT_TASK, HR_AT_OUTER, HR_AT_LANE } hr_emit_level;

enum { HR_TURNED_MAX = 64 };

typedef struct hr_printer {
    const hr_plan *plan;
    const hr_function *function;
    const hr_stage *stage;
    hr_arena *arena; /* of the names below; belongs to the emitter */
    hr_text *out;    /* where lines go now */
    int indent;
    bool vector;      /* lane level is vectors */
    bool whole;       /* all of the row is whole steps, and its streamed results are aligned */
    bool part;        /* lanes of a tail: loads and stores take the count `lanes` */
    int lane;         /* index of the lane, -1 = none */
    const int *outer; /* indices of the row's outer loops */
    int outer_count;
    signed char *level;    /* by expr id, -1 = not known */
    const char **name;     /* by expr id: what a line of its own is called, NULL = printed in place */
    const char **pointer;  /* by expr id of an ELEMENT: the name of its row pointer */
    const char **valid;    /* by expr id of a checked ELEMENT: the flag that says it may be read */
    int *uses;             /* by expr id: in the loop body that is being printed */
    const char **buffer;   /* by expr id: what holds it: a row-long buffer of kept values; outside vector
                              mode and for what is drawn at random, an operand */
    const char **tensor;   /* by tensor id: hr_emit_tensor, once it was asked */
    const char **value;    /* by tensor id: the variable of a value of the task level, set by the stage */
    unsigned *seen, stamp; /* by expr id: walks over a graph visit a node once */
    const char *way;       /* which of several accumulators the body adds into */
    bool pairs;            /* the body is printed for two vectors in turn, by `way` */
    const hr_expr *given;  /* a node that the body finds there already, as `given_text`; NULL = none */
    const char *given_text;
    bool turns;  /* the body's bf16 lanes are, by ways, the even and the odd elements of two vectors */
    bool absent; /* no lane of the body is at the place that a comparison with one looks for */
    int turned[HR_TURNED_MAX]; /* by step of the stage: vectors of a step of a column's sums in the order of
                                  turns; 0 = in order */
    int number;                /* of the last name given */
    bool checks;               /* something was checked: the loop cannot be `omp simd` */
    bool fast;        /* functions of f32 that err by more than 2 units have a name of their own (CUDA) */
    const char *live; /* the flag of a thread that has a row, NULL = all have: the others must not read what
                         somebody overwrites */
    bool next_task;   /* the task's index is printed as `next`, the one of the task after this one */
} hr_printer;

/* An arena for names, and whether it was enough. */
hr_status hr_names_create(hr_arena **out);
hr_status hr_names_status(const hr_plan *plan, const hr_arena *arena);

/* Room for all the tables; the stage's level and names start empty. HR_OUT_OF_MEMORY. */
hr_status hr_printer_begin(hr_printer *printer, const hr_plan *plan, hr_arena *arena, hr_text *out);
void hr_printer_stage(hr_printer *printer, const hr_stage *stage);
void hr_printer_end(hr_printer *printer);
/* Forgets the names given at this level and the deeper ones. */
void hr_printer_forget(hr_printer *printer, hr_emit_level level);

/* One indented line. */
void hr_print(hr_printer *printer, const char *format, ...) __attribute__((format(printf, 2, 3)));

hr_emit_level hr_expr_level(hr_printer *printer, const hr_expr *node);
/* Counts uses in one loop body (uses must be zeroed by hr_printer_forget(HR_AT_LANE)). */
void hr_expr_count_uses(hr_printer *printer, const hr_expr *node);
/* Somewhere in it is an exp, tanh or their kin. */
bool hr_expr_computes_special(hr_printer *printer, const hr_expr *node);
/* Prints the lines that `node` needs at `level`: its parts of that level that stand inside deeper ones. */
void hr_expr_prepare(hr_printer *printer, const hr_expr *node, hr_emit_level level);
/* The text of `node` as an operand, after printing the lines it needs at its own level. Vector-mode nodes of
 * lane level are vf, vi or vm; others are C scalars of their compute type. */
const char *hr_expr_text(hr_printer *printer, const hr_expr *node);
/* As hr_expr_text, made a vector (vf, vi or vm by type) where the printer is in vector mode. */
const char *hr_expr_lanes(hr_printer *printer, const hr_expr *node);

/* The whole number, one for all lanes, that `node` compares the lane's index with, where it does: at most one
 * lane is equal. NULL elsewhere. */
const hr_expr *hr_expr_lane_sought(hr_printer *printer, const hr_expr *node);

/* Consecutive lanes are consecutive elements and nothing else of the address depends on the lane. */
bool hr_expr_is_row_form(hr_printer *printer, const hr_expr *element);
/* Prints the lines of the element's row pointer, without the lane, where they are not there yet:
 * printer->pointer and, where it is checked, printer->valid. */
void hr_expr_print_pointer(hr_printer *printer, const hr_expr *element);

/* ---- names and types ---- */

const char *hr_emit_tensor(hr_printer *printer,
                           int tensor); /* t_x: the pointer or scalar of the tensor's storage */
const char *hr_emit_extent(hr_printer *printer, int extent);          /* n_N */
const char *hr_emit_index(hr_printer *printer, int index);            /* i_n */
const char *hr_emit_size(hr_printer *printer, const hr_expr *extent); /* an extent expression, in C */
const char *hr_emit_index_size(hr_printer *printer, int index);
/* How many points so many indices have together. */
const char *hr_emit_points(hr_printer *printer, const int *indices, int count);
/* The indices of the row's outer loops as one number, row-major; NULL where it has none. */
const char *hr_emit_outer(hr_printer *printer);
const char *hr_c_storage(hr_dtype dtype);  /* uint16_t for bf16 */
const char *hr_c_compute(hr_dtype type);   /* float for f32 */
const char *hr_type_prefix(hr_dtype type); /* f32, f64, i32, i64, b */
const char *hr_lane_prefix(hr_dtype type); /* vf, vi, vm */
/* The element offset of subscripts in a tensor's memory, as an int64_t expression; axes >= `axes` are left
 * out. */
const char *hr_emit_offset(hr_printer *printer, int tensor, hr_expr *const *subscripts, int axes);
/* What a subscript or counter of the form lane + c adds to the lane: c, "0" where it is the lane alone. */
const char *hr_emit_lane_rest(hr_printer *printer, const hr_expr *lane_plus);
/* Text of `value` (already printed, of compute type `type`) converted for a store into `dtype`: storage bits
 * in scalar mode; vf or vi in vector mode. */
const char *hr_emit_stored(hr_printer *printer, const char *value, hr_dtype type, hr_dtype dtype);
/* Prints the value of a step outside the lane loops, `text` of compute type `type`, as a variable that later
 * steps read. */
void hr_emit_step_value(hr_printer *printer, const hr_step *step, const char *text, hr_dtype type);
const char *hr_format(hr_printer *printer, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
