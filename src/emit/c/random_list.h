/* The random numbers of a loop body that are drawn many at a time. */
#ifndef HR_EMIT_C_RANDOM_LIST_H
#define HR_EMIT_C_RANDOM_LIST_H

#include "emit/expression.h"

#define HR_RANDOMS_MAX 8

typedef struct hr_random_list {
    int count;
    const hr_expr *node[HR_RANDOMS_MAX];
    /* "node >= bound" or "node < bound", one bound for all lanes, where the number is used for that alone:
     * its word is compared as it is. Else NULL. */
    const hr_expr *compared[HR_RANDOMS_MAX];
} hr_random_list;

/* Which numbers the `count` values take, of those for which `drawn` is true; NULL = all of the lane. */
typedef bool (*hr_random_test)(hr_printer *printer, const hr_expr *random);
void hr_random_find(hr_printer *printer, const hr_expr *const *values, int count, hr_random_test drawn,
                    hr_random_list *out);

/* Prints "bound_N", of all that follows from the bound of `compared`, made once. */
void hr_random_print_bound(hr_printer *printer, const hr_expr *random, const hr_expr *compared);
/* Prints for each number "keys_N", its bound, and "random_N", room for the words of two tiles. */
void hr_random_print_keys(hr_printer *printer, const hr_random_list *list, int64_t tile);
/* Prints how the words of the lanes `at` to `to` get to random_N[place]; where printer->drawn says so in the
 * order of even and odd lanes if "even_odd". */
void hr_random_print_draws(hr_printer *printer, const hr_random_list *list, const char *at, const char *to,
                           const char *place);
/* Gives the numbers of the tile whose words are at random_N[half], one of two buffers. */
void hr_random_print_drawn(hr_printer *printer, const hr_random_list *list);
/* From here on the values are printed as these texts. `at_least` says that a number is at least its bound. */
void hr_random_give(hr_printer *printer, const hr_expr *random, const hr_expr *compared, const char *number,
                    const char *at_least);
void hr_random_forget(hr_printer *printer, const hr_random_list *list);

#endif
