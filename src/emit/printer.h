/* Prints the code of a plan: where lines go, how far they are indented, what the lines in hand know.
 *
 * In: text. Out: lines, into a text that may be put into another one later.
 */
#ifndef HR_EMIT_PRINTER_H
#define HR_EMIT_PRINTER_H

#include "base/text.h"
#include "ir/visit.h"
#include "schedule/schedule.h"

enum { HR_EVEN_ODD_MAX = 64 };

/* How the stage's expressions are printed. */
typedef enum hr_form {
    HR_FORM_NARROW = 1, /* what elements are stored of the stage's values is rounded to 16 bits or less:
                           exponentials need not be right beyond a rounding of what they are taken of */
    HR_FORM_CLEAN = 2,  /* f32 scalars are loaded without the bits of NaN that bf16 cuts off */
    HR_FORM_EAGER = 4,  /* both sides of `and` and `or` are evaluated: no branch between them (CUDA) */
    HR_FORM_FAST = 8,   /* functions of f32 that err by more than 2 units have a name of their own (CUDA) */
} hr_form;

/* What lanes the body in hand is for. */
typedef enum hr_body {
    HR_BODY_VECTOR,
    HR_BODY_WHOLE,    /* all of the row is whole steps, and its streamed results are aligned */
    HR_BODY_LEFTOVER, /* a vector after the last whole step: beside it in its line ordinary stores follow */
    HR_BODY_PART,     /* a tail: loads and stores take the count `lanes` */
} hr_body;

/* What is known of them. */
typedef enum hr_known {
    HR_KNOWN_BOUNDS = 1,   /* `inside_from` and `inside_to`: see lane_gather.h */
    HR_KNOWN_INSIDE = 2,   /* they are between them */
    HR_KNOWN_NO_MATCH = 4, /* none is at the place that a comparison with one looks for */
} hr_known;

typedef enum hr_lane_order {
    HR_ORDER_PLAIN,
    HR_ORDER_PAIRS,    /* two vectors one after the other, by `way` */
    HR_ORDER_EVEN_ODD, /* the even and the odd elements of two vectors */
} hr_lane_order;

typedef struct hr_printer {
    const hr_plan *plan;
    const hr_function *function;
    const hr_stage *stage;
    hr_arena *arena; /* of the names below; belongs to the emitter */
    hr_text *out;    /* where lines go now */
    int indent;
    bool vector;    /* lane level is vectors */
    unsigned forms; /* of hr_form */
    hr_body body;
    int joined; /* the step whose lanes at the ends of rows are put together with those of the row beside it;
                    -1 = none */
    int lane;   /* index of the lane, -1 = none */
    const char *flat; /* the number of all elements, where lanes go through all of them: HR_LOOP_FLAT */
    const int *outer; /* indices of the row's outer loops */
    int outer_count;
    signed char *level;   /* by expr id, -1 = not known */
    const char **name;    /* by expr id: what a line of its own is called, NULL = printed in place */
    const char **pointer; /* by expr id of an ELEMENT: the name of its row pointer */
    const char **valid;   /* by expr id of a checked ELEMENT: the flag that says it may be read */
    int *uses;            /* by expr id: in the loop body that is being printed */
    const char **buffer;  /* by expr id: what holds it: a row-long buffer of stashed values; outside vector
                             mode and for what is drawn at random, an operand */
    struct hr_lane_table **table; /* by expr id: the values that there are of it, NULL = no table */
    const char **tensor;          /* by tensor id: hr_emit_tensor, once it was asked */
    const char **value; /* by tensor id: the variable of a value of the task level, set by the stage */
    bool *value_read;   /* by tensor id: that value was asked for as an operand; of the arena, NULL before the
                           first stage */
    int begun; /* the step whose streamed results the loop in hand begins with, so that they are aligned; -1 =
                  none */
    const char *way;      /* which of several accumulators the body adds into */
    hr_lane_order order;  /* of the body's bf16 lanes, by ways */
    hr_lane_order drawn;  /* of the random numbers of its tile */
    const hr_expr *given; /* a node that the body finds there already, as `given_text`; NULL = none */
    const char *given_text;
    bool given_stashed;            /* and what later passes need of it is stashed */
    unsigned known;                /* of hr_known */
    const hr_expr *stash_even_odd; /* the stashed value whose row stands as even and odd lanes; NULL = none */
    int stash_even_odd_ways;       /* the vectors of a step of the pass that stashed it */
    int even_odd_ways[HR_EVEN_ODD_MAX]; /* by step of the stage: vectors of a step of a column's sums in the
                                  order of even and odd lanes; 0 = in order */
    struct hr_segmented *segmented; /* whole runs of lanes come before the others; NULL = there are none */
    int number;                     /* of the last name given */
    const char *kernel;             /* what a kernel's declaration begins with (CUDA) */
    bool checks;                    /* something was checked: the loop cannot be `omp simd` */
    const char *live; /* the flag of a thread that has a row, NULL = all have: the others must not read what
                         somebody overwrites */
    bool next_task;   /* the task's index is printed as `next`, the one of the task after this one */
    struct hr_used_names *used; /* shared with printers beside this one: see hr_use */
} hr_printer;

/* An arena for names, and whether it was enough. */
hr_status hr_names_create(hr_arena **out);
hr_status hr_names_status(const hr_plan *plan, const hr_arena *arena);

/* Room for all the tables; the stage's level and names start empty. HR_OUT_OF_MEMORY. */
hr_status hr_printer_begin(hr_printer *printer, const hr_plan *plan, hr_arena *arena, hr_text *out);
void hr_printer_stage(hr_printer *printer, const hr_stage *stage);
void hr_printer_end(hr_printer *printer);
void hr_printer_form(hr_printer *printer, hr_form form, bool taken);

/* Ends a walk over what is printed: the printer's text fails with it. */
void hr_printer_walked(hr_printer *printer, hr_walk *walk);

/* One indented line. */
void hr_print(hr_printer *printer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line that opens a block, and the brace that closes it. */
void hr_print_open(hr_printer *printer, const char *line);
void hr_print_close(hr_printer *printer);
/* A text that lives as long as the printer's arena. */
const char *hr_format(hr_printer *printer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What a body needs before it is known once it is printed: lines go into `body`, one level deeper, up to
 * hr_print_back() with what this returns. */
hr_text *hr_print_aside(hr_printer *printer, hr_text *body);
void hr_print_back(hr_printer *printer, hr_text *out);
/* Its lines as they are; frees them. */
void hr_print_body(hr_printer *printer, hr_text *body);

/* ---- names that are declared before the body that uses them ---- */

/* Notes that the body in hand uses the name, which it returns. */
const char *hr_use(hr_printer *printer, const char *name);
/* Whether the body in hand, from the last hr_uses_begin on, does. */
bool hr_is_used(const hr_printer *printer, const char *name);
/* A new body: it uses nothing yet. */
void hr_uses_begin(hr_printer *printer);

/* ---- names that a file defines, outside of all functions ---- */

typedef enum hr_defined_kind { HR_IDENTIFIER, HR_MACRO } hr_defined_kind;

typedef struct hr_defined {
    const char *name;
    hr_defined_kind kind;
    struct hr_defined *before;
} hr_defined;

/* Notes that the file in hand does; returns the name, which lives as long as the printer's arena. */
const char *hr_define(hr_printer *printer, hr_defined_kind kind, const char *name);
/* The last of them; NULL = none. */
const hr_defined *hr_last_defined(const hr_printer *printer);

#endif
