/* Walks over expressions, and what an expression becomes.
 *
 * Expressions share nodes. A walk enters each node once, so that it takes time in proportion to the nodes
 * there are. It keeps a stack of its own: a deep expression takes memory, not the stack of the thread.
 * Arguments are entered in order, a node before its arguments. What makes a value of a node out of those of
 * its arguments, or goes into some of them only, is a function that calls itself instead.
 */
#ifndef HR_IR_VISIT_H
#define HR_IR_VISIT_H

#include "ir/graph.h"

/* ---- something for each node ---- */

typedef enum hr_visit {
    HR_VISIT_ON,   /* go on, with the node's arguments */
    HR_VISIT_PAST, /* go on, but not with them */
    HR_VISIT_STOP  /* this is the node that was looked for */
} hr_visit;

/* STOP where `found`, else ON. */
static inline hr_visit hr_visit_until(bool found) {
    return found ? HR_VISIT_STOP : HR_VISIT_ON;
}

/* A value for each of some nodes. */
typedef struct hr_node_map {
    int count, capacity;
    struct hr_node_entry *entries; /* open addressing, a power of two */
} hr_node_map;

/* All zero but for `enter`, `leave` and `context`, it has entered nothing. */
typedef struct hr_walk {
    hr_visit (*enter)(void *context, const hr_expr *node);
    void (*leave)(void *context, const hr_expr *node); /* after its arguments; NULL = nothing is done then */
    void *context;
    hr_node_map entered;
    bool repeats; /* memory ran out: some node may have been entered twice */
} hr_walk;

/* Goes through `root`, past nodes that the walk entered before. The node at which it stopped, or NULL. */
const hr_expr *hr_walk_through(hr_walk *walk, const hr_expr *root);
/* HR_OUT_OF_MEMORY where nodes may have been entered twice. Frees the walk's memory. */
hr_status hr_walk_end(hr_walk *walk);

/* All of it at once, for questions: the first node at which `test` says STOP, or NULL. Needs no memory to be
 * right, only to be quick. */
const hr_expr *hr_expr_find(const hr_expr *root, hr_visit (*test)(const hr_expr *node, const void *context),
                            const void *context);
/* The same for what may be done twice without harm. */
void hr_expr_visit(const hr_expr *root, hr_visit (*enter)(void *context, const hr_expr *node), void *context);
/* Whether a node of `root` is an element of `tensor`; or the value of `index`, or binds it; or the value
 * of `extent`. */
bool hr_expr_reads(const hr_expr *root, int tensor);
bool hr_expr_has_index(const hr_expr *root, int index);
bool hr_expr_has_extent(const hr_expr *root, int extent);
/* `part` is one of them. */
bool hr_expr_contains(const hr_expr *root, const hr_expr *part);

/* ---- what an expression becomes ---- */

/* From the arguments up: a node whose arguments changed is the same node with the new ones. All zero but for
 * the first fields, it has seen nothing. */
typedef struct hr_rewriting {
    hr_graph *graph;
    /* What `node` becomes whatever its arguments do, which are not looked at then; NULL = look at them. */
    hr_expr *(*before)(void *context, hr_expr *node);
    /* What `node` becomes with its new arguments. NULL = hr_graph_with_args. */
    hr_expr *(*after)(void *context, const hr_expr *node, hr_expr *const *args);
    void *context;
    hr_node_map made;
} hr_rewriting;

/* What `root` becomes; nodes that were seen before become what they did then. Where memory runs out the graph
 * is full, and it is any expression. */
hr_expr *hr_rewriting_of(hr_rewriting *rewriting, hr_expr *root);
void hr_rewriting_end(hr_rewriting *rewriting);

#endif
