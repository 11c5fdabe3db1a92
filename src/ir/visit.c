/* Walks over expressions, and what an expression becomes. In: roots and what is done for a node. */
#include "ir/visit.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- a value for each of some nodes ---- */

typedef struct hr_node_entry {
    const hr_expr *node; /* NULL = free */
    hr_expr *value;
} hr_node_entry;

enum { MAP_START = 32, FRAMES_HERE = 32 };

static hr_node_entry *slot_of(const hr_node_map *map, const hr_expr *node) {
    const uint64_t mask = (uint64_t)map->capacity - 1;
    uint64_t at = ((uint64_t)(uintptr_t)node >> 4) * 0x9E3779B97F4A7C15u >> 20 & mask;
    while (map->entries[at].node && map->entries[at].node != node)
        at = (at + 1) & mask;
    return &map->entries[at];
}

static bool map_grow(hr_node_map *map) {
    hr_node_map larger = {.count = map->count, .capacity = map->capacity ? 2 * map->capacity : MAP_START};
    larger.entries = hr_memory_zeros((size_t)larger.capacity, sizeof *larger.entries);
    if (!larger.entries) return false;
    for (int i = 0; i < map->capacity; i++)
        if (map->entries[i].node) *slot_of(&larger, map->entries[i].node) = map->entries[i];
    free(map->entries);
    *map = larger;
    return true;
}

/* The entry of `node`, a new one where there was none; NULL without memory. */
static hr_node_entry *map_entry(hr_node_map *map, const hr_expr *node) {
    if (4 * map->count >= 3 * map->capacity && !map_grow(map)) return NULL;
    return slot_of(map, node);
}

static hr_expr *map_value(const hr_node_map *map, const hr_expr *node) {
    return map->capacity ? slot_of(map, node)->value : NULL;
}

static bool map_set(hr_node_map *map, const hr_expr *node, hr_expr *value) {
    hr_node_entry *entry = map_entry(map, node);
    if (!entry) return false;
    map->count += !entry->node;
    *entry = (hr_node_entry){node, value};
    return true;
}

static void map_clear(hr_node_map *map) {
    free(map->entries);
    *map = (hr_node_map){0};
}

/* ---- something for each node ---- */

typedef struct frame {
    const hr_expr *node;
    int next; /* argument */
} frame;

typedef struct frames {
    int count, capacity;
    frame *data, *allocated, here[FRAMES_HERE];
} frames;

static bool frames_push(frames *stack, const hr_expr *node) {
    if (stack->count == stack->capacity) {
        frame *larger = hr_memory_resize(stack->allocated, 2 * (size_t)stack->capacity * sizeof *larger);
        if (!larger) return false;
        if (!stack->allocated) memcpy(larger, stack->here, sizeof stack->here);
        stack->data = stack->allocated = larger;
        stack->capacity *= 2;
    }
    stack->data[stack->count++] = (frame){.node = node};
    return true;
}

/* Whether the walk meets `node` for the first time, as far as it can know. */
static bool is_new(hr_walk *walk, const hr_expr *node) {
    hr_node_entry *entry = map_entry(&walk->entered, node);
    if (!entry) {
        walk->repeats = true;
        return true;
    }
    if (entry->node) return false;
    entry->node = node;
    walk->entered.count++;
    return true;
}

static const hr_expr *enter(hr_walk *walk, frames *stack, const hr_expr *node) {
    if (!is_new(walk, node)) return NULL;
    hr_visit verdict = walk->enter ? walk->enter(walk->context, node) : HR_VISIT_ON;
    if (verdict == HR_VISIT_STOP) return node;
    if (verdict == HR_VISIT_PAST) return NULL;
    if (!node->arg_count) {
        if (walk->leave) walk->leave(walk->context, node);
    } else if (!frames_push(stack, node)) { /* on the thread's stack, then */
        for (int i = 0; i < node->arg_count; i++) {
            const hr_expr *found = hr_walk_through(walk, node->args[i]);
            if (found) return found;
        }
        if (walk->leave) walk->leave(walk->context, node);
    }
    return NULL;
}

const hr_expr *hr_walk_through(hr_walk *walk, const hr_expr *root) {
    frames stack = {.capacity = FRAMES_HERE};
    stack.data = stack.here;
    const hr_expr *found = enter(walk, &stack, root);
    while (!found && stack.count) {
        frame *top = &stack.data[stack.count - 1];
        if (top->next < top->node->arg_count) {
            found = enter(walk, &stack, top->node->args[top->next++]);
            continue;
        }
        const hr_expr *done = top->node;
        stack.count--;
        if (walk->leave) walk->leave(walk->context, done);
    }
    free(stack.allocated);
    return found;
}

hr_status hr_walk_end(hr_walk *walk) {
    map_clear(&walk->entered);
    return walk->repeats ? hr_fail(HR_OUT_OF_MEMORY, "out of memory while going through an expression")
                         : HR_OK;
}

/* ---- questions ---- */

typedef struct question {
    hr_visit (*test)(const hr_expr *node, const void *context);
    const void *context;
} question;

static hr_visit ask(void *context, const hr_expr *node) {
    const question *asked = context;
    return asked->test(node, asked->context);
}

const hr_expr *hr_expr_find(const hr_expr *root, hr_visit (*test)(const hr_expr *node, const void *context),
                            const void *context) {
    if (!root->arg_count) return test(root, context) == HR_VISIT_STOP ? root : NULL;
    question asked = {test, context};
    hr_walk walk = {.enter = ask, .context = &asked};
    const hr_expr *found = hr_walk_through(&walk, root);
    map_clear(&walk.entered);
    return found;
}

void hr_expr_visit(const hr_expr *root, hr_visit (*enter)(void *context, const hr_expr *node),
                   void *context) {
    hr_walk walk = {.enter = enter, .context = context};
    hr_walk_through(&walk, root);
    map_clear(&walk.entered);
}

static hr_visit is_element(const hr_expr *node, const void *tensor) {
    return hr_visit_until(node->op == HR_OP_ELEMENT && node->tensor == *(const int *)tensor);
}

bool hr_expr_reads(const hr_expr *root, int tensor) {
    return hr_expr_find(root, is_element, &tensor);
}

static hr_visit is_index(const hr_expr *node, const void *index) {
    return hr_visit_until((node->op == HR_OP_INDEX && node->index == *(const int *)index) ||
                          hr_indices_have(node->bound, node->bound_count, *(const int *)index));
}

bool hr_expr_has_index(const hr_expr *root, int index) {
    return hr_expr_find(root, is_index, &index);
}

static hr_visit is_extent(const hr_expr *node, const void *extent) {
    return hr_visit_until(node->op == HR_OP_EXTENT && node->extent == *(const int *)extent);
}

bool hr_expr_has_extent(const hr_expr *root, int extent) {
    return hr_expr_find(root, is_extent, &extent);
}

static hr_visit is_part(const hr_expr *node, const void *part) {
    return hr_visit_until(node == part);
}

bool hr_expr_contains(const hr_expr *root, const hr_expr *part) {
    return hr_expr_find(root, is_part, part);
}

/* ---- what an expression becomes ---- */

static void keep(hr_rewriting *rewriting, const hr_expr *node, hr_expr *value) {
    if (!map_set(&rewriting->made, node, value)) rewriting->graph->full = true;
}

static hr_visit before(void *context, const hr_expr *node) {
    hr_rewriting *rewriting = context;
    if (map_value(&rewriting->made, node)) return HR_VISIT_PAST;
    hr_expr *value = rewriting->before ? rewriting->before(rewriting->context, (hr_expr *)node) : NULL;
    if (value) keep(rewriting, node, value);
    return value ? HR_VISIT_PAST : HR_VISIT_ON;
}

static void after(void *context, const hr_expr *node) {
    hr_rewriting *rewriting = context;
    hr_graph *graph = rewriting->graph;
    hr_expr *args[HR_AXES_MAX + 1] = {0};
    if (node->arg_count > HR_AXES_MAX + 1) graph->full = true;
    for (int i = 0; i < node->arg_count && !graph->full; i++) {
        args[i] = map_value(&rewriting->made, node->args[i]);
        if (!args[i]) graph->full = true;
    }
    if (graph->full) return;
    keep(rewriting, node,
         rewriting->after ? rewriting->after(rewriting->context, node, args)
                          : hr_graph_with_args(graph, node, args));
}

hr_expr *hr_rewriting_of(hr_rewriting *rewriting, hr_expr *root) {
    hr_walk walk = {.enter = before, .leave = after, .context = rewriting};
    hr_walk_through(&walk, root);
    map_clear(&walk.entered);
    hr_expr *value = rewriting->graph->full ? NULL : map_value(&rewriting->made, root);
    return value ? value : rewriting->graph->placeholder;
}

void hr_rewriting_end(hr_rewriting *rewriting) {
    map_clear(&rewriting->made);
}
