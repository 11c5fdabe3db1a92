/* Sizes: arithmetic over extents, written once. A planner asks for the number, an emitter for the text: the
 * same tree answers both, so that the library never lays out memory otherwise than the code does.
 *
 * A hr_sizes holds the nodes of the sizes that are made in it; it lives on the stack or in an arena.
 */
#ifndef HR_IR_SIZE_H
#define HR_IR_SIZE_H

#include "base/text.h"
#include "ir/function.h"

enum { HR_SIZES_MOST = 192, HR_SIZE_ARGS_MOST = 18 };

typedef struct hr_size hr_size;

/* What emitted code calls by `name`, and the library as it is. */
typedef struct hr_size_function {
    const char *name;
    int64_t (*value)(const void *context, const int64_t *args);
    const char *record; /* the first `fields` arguments are a record of this type, handed on by address; NULL
                           = none is */
    int fields;
    int array; /* of these the ones from here on are an array in it; 0 = none is */
} hr_size_function;

typedef enum hr_size_kind {
    HR_SIZE_NUMBER,
    HR_SIZE_WORD,   /* a name of the emitted code, whose number is known here */
    HR_SIZE_NAME,   /* the same, where the name has a number in it */
    HR_SIZE_EXTENT, /* an expression of a shape */
    HR_SIZE_SUM,
    HR_SIZE_PRODUCT,
    HR_SIZE_QUOTIENT, /* rounded down; neither side is negative */
    HR_SIZE_LEAST,
    HR_SIZE_BRACKETS, /* as it is, in brackets: where a macro of text puts it */
    HR_SIZE_CALL,
    HR_SIZE_ARGUMENT /* of a call, and the next one */
} hr_size_kind;

struct hr_size {
    hr_size_kind kind;
    int id; /* the number in a name */
    int64_t number;
    const char *word, *after; /* a name before and after its number */
    const hr_expr *extent;
    const hr_size_function *function;
    const void *context;  /* of the function */
    const hr_size *a, *b; /* the sides; a call's arguments; an argument and the next one */
};

typedef struct hr_sizes {
    int count;
    hr_size nodes[HR_SIZES_MOST + 1]; /* the last: of sizes that found no room, whose value is an error */
} hr_sizes;

/* ---- making them ---- */

const hr_size *hr_size_number(hr_sizes *sizes, int64_t number);
/* `word` is kept as it is given. */
const hr_size *hr_size_word(hr_sizes *sizes, const char *word, int64_t number);
/* `word`, `id`, `after` in one: "&stage_", 3, "_choice". */
const hr_size *hr_size_name(hr_sizes *sizes, const char *word, int id, const char *after, int64_t number);
const hr_size *hr_size_extent(hr_sizes *sizes, const hr_expr *extent);
const hr_size *hr_size_sum(hr_sizes *sizes, const hr_size *a, const hr_size *b);
const hr_size *hr_size_product(hr_sizes *sizes, const hr_size *a, const hr_size *b);
const hr_size *hr_size_least(hr_sizes *sizes, const hr_size *a, const hr_size *b);
const hr_size *hr_size_brackets(hr_sizes *sizes, const hr_size *a);
/* (a + more) / unit * unit */
const hr_size *hr_size_rounded(hr_sizes *sizes, const hr_size *a, int64_t more, int64_t unit);
/* At most HR_SIZE_ARGS_MOST of `args`; `function` and `context` outlive the size. */
const hr_size *hr_size_call(hr_sizes *sizes, const hr_size_function *function, const void *context, int count,
                            const hr_size *const *args);
/* The product of the indices' extents; 1 where there is none. */
const hr_size *hr_size_points(hr_sizes *sizes, const hr_function *function, const int *indices, int count);
/* (a + unit - 1) / unit */
const hr_size *hr_size_parts(hr_sizes *sizes, const hr_size *a, int64_t unit);
/* The tensor's elements, `each` times; bytes of its elements along the axes from `axis` on. */
const hr_size *hr_size_elements(hr_sizes *sizes, const hr_tensor *tensor, int axis, int64_t each);
const hr_size *hr_size_bytes(hr_sizes *sizes, const hr_tensor *tensor, int axis);

/* ---- reading them ---- */

/* HR_BAD_INPUT where an extent is unknown or a size is beyond i64. */
hr_status hr_size_value(const hr_size *size, const hr_function *function, const int64_t *extents,
                        int64_t *out);
/* Adds it to `total`. */
hr_status hr_size_add(const hr_size *size, const hr_function *function, const int64_t *extents,
                      int64_t *total);
/* Whatever the extents are. */
bool hr_size_is_zero(const hr_size *size);

/* How extents are called. */
typedef struct hr_size_names {
    const char *(*extent)(void *context, const hr_expr *extent);
    void *context;
} hr_size_names;

/* As an expression of C: `extent` is printed as an operand. */
void hr_size_append(const hr_size *size, const hr_size_names *names, hr_text *out);

#endif
