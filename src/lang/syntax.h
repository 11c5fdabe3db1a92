/* The tree of a text as it was written, before names mean anything.
 *
 * In: tokens. Out: defs and kernels as linked lists in the order of the text. Lists are linked because their
 * lengths are unknown while they are read.
 */
#ifndef HR_LANG_SYNTAX_H
#define HR_LANG_SYNTAX_H

#include "lang/lexer.h"

typedef enum hr_syntax_kind {
    HR_SYNTAX_NUMBER,
    HR_SYNTAX_NAME,      /* x */
    HR_SYNTAX_ELEMENT,   /* x[items] */
    HR_SYNTAX_CALL,      /* f(items) */
    HR_SYNTAX_REDUCTION, /* sum[items](body) */
    HR_SYNTAX_RANGE,     /* j from a to b: items j, a, b */
    HR_SYNTAX_NAMED,     /* x=items: an argument of a call of a kernel */
    HR_SYNTAX_OPERATION  /* an operator: op over items */
} hr_syntax_kind;

typedef struct hr_syntax hr_syntax;
struct hr_syntax {
    hr_syntax_kind kind;
    hr_op op; /* OPERATION */
    bool in_brackets;
    bool is_whole, is_bool; /* NUMBER: without point and exponent; true or false */
    int depth;              /* levels below, itself included */
    int item_count;
    hr_place place;
    hr_symbol *symbol;       /* NAME, ELEMENT, CALL, REDUCTION, NAMED */
    hr_syntax *items, *body; /* items linked by next */
    hr_syntax *next;
    double number; /* NUMBER */
    int64_t whole;
};

typedef struct hr_parameter_syntax {
    hr_symbol *symbol;
    hr_place place;
    bool inout, constant, result;
    hr_dtype dtype;
    hr_symbol *variable; /* stands in the place of the dtype; NULL = there is `dtype` */
    hr_place dtype_place;
    int rank;
    hr_syntax *extents;
    hr_syntax *default_value; /* NUMBER or NULL */
    struct hr_parameter_syntax *next;
} hr_parameter_syntax;

/* T: f32 | bf16 */
typedef struct hr_constraint_syntax {
    hr_symbol *symbol;
    hr_place place;
    uint32_t allowed; /* bit d: hr_dtype d */
    hr_dtype first;
    struct hr_constraint_syntax *next;
} hr_constraint_syntax;

typedef struct hr_statement_syntax {
    hr_syntax *left; /* NAME or ELEMENT, of a call of a kernel as many as it gives results; NULL = unreadable,
                        or with a `right` the call of a kernel without results */
    bool accumulate;
    hr_syntax *right;     /* NULL = unreadable */
    hr_syntax *condition; /* behind `if`; NULL = there is none */
    struct hr_statement_syntax *next;
} hr_statement_syntax;

/* `caller` has a call of the def in whose list this stands. */
typedef struct hr_def_call {
    struct hr_def_syntax *caller;
    struct hr_def_call *next;
} hr_def_call;

typedef struct hr_def_syntax {
    hr_symbol *symbol;
    hr_place place;
    bool standard; /* of the language: a text's own of the same name goes first */
    int parameter_count;
    hr_syntax *parameters; /* NAMEs */
    hr_syntax *body;
    bool failed; /* its mistakes were told */
    /* of the search for recursion */
    int calls; /* in its body, of defs that are not known to end */
    int walk;
    bool endless;
    struct hr_def_call *callers;
    struct hr_def_syntax *ready;
    struct hr_def_syntax *next;
} hr_def_syntax;

typedef struct hr_kernel_syntax {
    hr_symbol *symbol;
    hr_place place;
    bool used;     /* of a file that the text uses: only to be called */
    bool headless; /* a parameter could not be read: the statements cannot be checked */
    bool
        unreadable; /* statements are missing after a mistake, so what they assign is no mistake of its own */
    hr_parameter_syntax *parameters; /* then results */
    hr_constraint_syntax *constraints;
    hr_statement_syntax *statements;
    struct hr_kernel_syntax *next;
} hr_kernel_syntax;

/* The call of a kernel that the statement is, or NULL. */
const hr_syntax *hr_statement_call(const hr_statement_syntax *statement);

/* use "name" */
typedef struct hr_use_syntax {
    const char *name; /* into the text */
    size_t length;
    hr_place place;
    struct hr_use_syntax *next;
} hr_use_syntax;

typedef struct hr_file_syntax {
    hr_use_syntax *uses;
    hr_def_syntax *defs;
    hr_kernel_syntax *kernels;
    int first_line; /* of the text that is read next; 0 = 1 */
    bool used;      /* that text is one that another uses */
    bool standard;  /* that text is the language's own */
} hr_file_syntax;

/* Trees go into `arena`. Mistakes are messages; what could be read stands in the file, behind what is there.
 */
void hr_syntax_parse(const char *text, size_t length, hr_arena *arena, hr_symbols *symbols,
                     hr_messages *messages, hr_file_syntax *out);

#endif
