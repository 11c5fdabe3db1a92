/* The random numbers of a loop body. In: values. Out: a list, texts. See random_list.h. */
#include "emit/c/random_list.h"

typedef struct drawing {
    hr_printer *p;
    hr_random_test drawn;
    hr_random_list *out;
} drawing;

static hr_visit find_drawn(void *context, const hr_expr *node) {
    const drawing *d = context;
    if (hr_expr_level(d->p, node) != HR_AT_LANE) return HR_VISIT_PAST;
    if (node->op == HR_OP_RANDOM && d->out->count < HR_RANDOMS_MAX && (!d->drawn || d->drawn(d->p, node)))
        d->out->node[d->out->count++] = node;
    return HR_VISIT_ON;
}

/* What uses a number: how often, and the comparison with a bound that is the same along the lane. */
typedef struct number_uses {
    hr_printer *p;
    const hr_expr *random, *comparison;
    int count;
} number_uses;

static void count_uses(void *context, const hr_expr *node) {
    number_uses *uses = context;
    for (int i = 0; i < node->arg_count; i++)
        uses->count += node->args[i] == uses->random;
    if (node->arg_count == 2 && node->args[0] == uses->random &&
        (node->op == HR_OP_GE || node->op == HR_OP_LT) && node->args[1]->type == HR_F32 &&
        hr_expr_level(uses->p, node->args[1]) < HR_AT_LANE)
        uses->comparison = node;
}

static const hr_expr *only_comparison(hr_printer *p, const hr_expr *const *values, int count,
                                      const hr_expr *random) {
    number_uses uses = {.p = p, .random = random};
    hr_walk walk = {.leave = count_uses, .context = &uses};
    for (int i = 0; i < count; i++) {
        uses.count += values[i] == random;
        hr_walk_through(&walk, values[i]);
    }
    hr_printer_walked(p, &walk);
    return uses.count == 1 ? uses.comparison : NULL;
}

void hr_random_find(hr_printer *p, const hr_expr *const *values, int count, hr_random_test drawn,
                    hr_random_list *out) {
    drawing d = {p, drawn, out};
    hr_walk walk = {.enter = find_drawn, .context = &d};
    out->count = 0;
    for (int i = 0; i < count; i++)
        hr_walk_through(&walk, values[i]);
    hr_printer_walked(p, &walk);
    for (int i = 0; i < out->count; i++)
        out->compared[i] = only_comparison(p, values, count, out->node[i]);
}

/* No number is below 0, and none below what is no number. */
void hr_random_print_bound(hr_printer *p, const hr_expr *random, const hr_expr *compared) {
    const char *bound = hr_expr_text(p, compared->args[1]);
    if (compared->op == HR_OP_LT) bound = hr_format(p, "fmaxf(%s, 0.0f)", bound);
    hr_print(p, "const random_bound bound_%d = random_bound_of(%s);", random->id, bound);
}

void hr_random_print_keys(hr_printer *p, const hr_random_list *list, int64_t tile) {
    for (int i = 0; i < list->count; i++) {
        const hr_expr *random = list->node[i];
        hr_print(p, "const random_keys keys_%d = random_keys_of((uint64_t)%s);", random->id,
                 hr_expr_text(p, random->args[0]));
        if (list->compared[i]) hr_random_print_bound(p, random, list->compared[i]);
        hr_print(p, "_Alignas(64) uint32_t random_%d[2][HR_RANDOM_BEFORE + %lld + HR_RANDOM_AFTER];",
                 random->id, (long long)tile);
    }
}

static void print_fill(hr_printer *p, const hr_random_list *list, const char *fill, const char *at,
                       const char *to, const char *place) {
    for (int i = 0; i < list->count; i++) {
        const hr_expr *random = list->node[i];
        hr_print(p, "%s(&keys_%d, (uint64_t)(%s + %s), %s - %s, random_%d[%s] + HR_RANDOM_BEFORE);", fill,
                 random->id, hr_emit_lane_rest(p, random->args[1]), at, to, at, random->id, place);
    }
}

void hr_random_print_draws(hr_printer *p, const hr_random_list *list, const char *at, const char *to,
                           const char *place) {
    if (p->drawn != HR_ORDER_EVEN_ODD) {
        print_fill(p, list, "random_fill", at, to, place);
        return;
    }
    hr_print(p, "if (even_odd) {");
    p->indent++;
    print_fill(p, list, "random_fill_even_odd", at, to, place);
    p->indent--;
    hr_print(p, "} else {");
    p->indent++;
    print_fill(p, list, "random_fill", at, to, place);
    p->indent--;
    hr_print(p, "}");
}

void hr_random_print_drawn(hr_printer *p, const hr_random_list *list) {
    for (int i = 0; i < list->count; i++) {
        const hr_expr *random = list->node[i];
        const char *words = hr_format(p, "words_%d + (i - tile)", random->id);
        hr_print(p, "const uint32_t *const words_%d = random_%d[half] + HR_RANDOM_BEFORE;", random->id,
                 random->id);
        hr_random_give(p, random, list->compared[i], hr_format(p, "vf_random(%s)", words),
                       hr_format(p, "vm_random_ge(%s, bound_%d)", words, random->id));
    }
}

void hr_random_give(hr_printer *p, const hr_expr *random, const hr_expr *compared, const char *number,
                    const char *at_least) {
    const char *not = p->vector ? "vm_not" : "!";
    if (!compared)
        p->buffer[random->id] = number;
    else
        p->buffer[compared->id] = compared->op == HR_OP_LT ? hr_format(p, "%s(%s)", not, at_least) : at_least;
}

void hr_random_forget(hr_printer *p, const hr_random_list *list) {
    for (int i = 0; i < list->count; i++) {
        p->buffer[list->node[i]->id] = NULL;
        if (list->compared[i]) p->buffer[list->compared[i]->id] = NULL;
    }
}
