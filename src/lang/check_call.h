/* A call of a kernel as it is written out, and copies of the kernel's trees in which the caller's names
 * stand.
 *
 * In: what each name of the called kernel stands for. Out: trees in the arena of the program. A step that
 * fails has added its message.
 */
#ifndef HR_LANG_CHECK_CALL_H
#define HR_LANG_CHECK_CALL_H

#include "lang/checker.h"

enum { HR_CALL_NAMES_MOST = 4096 }; /* that are tried for one name */

/* What a name of the called kernel stands for in the caller. */
typedef struct hr_call_binding {
    const hr_symbol *name;
    hr_symbol *symbol;      /* of the caller; NULL = `value` stands for it */
    const hr_syntax *fixed; /* subscripts of the leading axes, or NULL */
    int fixed_count;
    const hr_syntax *value; /* of a scalar or an extent */
    bool ranged;            /* a result that becomes a local: its axes say over what its indices run */
    const hr_parameter_syntax *parameter; /* NULL = a local, an index, an extent */
    struct hr_call_binding *next;
} hr_call_binding;

typedef struct hr_expansion {
    hr_checker *checker;
    const hr_kernel_syntax *callee;
    const hr_syntax *call;
    hr_call_binding *bindings;
    int count;
    const struct hr_expansion *outer;
    bool full;
} hr_expansion;

/* NULL after a message. */
void *hr_call_room(hr_expansion *e, size_t size);
hr_call_binding *hr_call_binding_of(const hr_expansion *e, const hr_symbol *name);
hr_call_binding *hr_call_bind(hr_expansion *e, const hr_symbol *name);
/* "rmsnorm_rstd": a name that stands nowhere in the text. */
hr_symbol *hr_call_fresh_name(hr_expansion *e, const hr_symbol *of);
hr_syntax *hr_call_copy_node(hr_expansion *e, const hr_syntax *from);
hr_syntax *hr_call_copy_tree(hr_expansion *e, const hr_syntax *from);
hr_statement_syntax *hr_call_copy_statement(hr_expansion *e, const hr_statement_syntax *from);
hr_syntax *hr_call_extent_tree(hr_expansion *e, const hr_expr *extent);

#endif
