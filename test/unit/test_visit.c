/* Walks and rewritings: the order, that shared nodes are entered once, depth, and what becomes of a node. */
#include "ir/visit.h"
#include "lang/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DEPTH = 50000 };

typedef struct visited {
    int count;
    const hr_expr *nodes[64];
    hr_op past, stop;
} visited;

typedef struct fixture_graph {
    hr_program *program;
    hr_graph *graph;
    hr_arena *arena;
} fixture_graph;

static int setup(void **state) {
    fixture_graph *f = calloc(1, sizeof *f);
    assert_non_null(f);
    const char *text = "kernel k(x: f32[N, M]) -> (y: f32[N, M]) { y[n, m] = x[n, m] }";
    assert_int_equal(hr_program_parse("k.hr", text, strlen(text), &f->program), HR_OK);
    assert_int_equal(hr_arena_create((size_t)512 << 20, &f->arena), HR_OK);
    f->graph = hr_graph_create(&f->program->functions[0], f->arena);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture_graph *f = *state;
    hr_arena_destroy(f->arena);
    hr_program_destroy(f->program);
    free(f);
    return 0;
}

static hr_expr *sum_of(hr_graph *graph, hr_expr *a, hr_expr *b) {
    return hr_graph_binary(graph, HR_OP_ADD, HR_I64, a, b);
}

static hr_visit note(void *context, const hr_expr *node) {
    visited *v = context;
    v->nodes[v->count++] = node;
    return node->op == v->stop ? HR_VISIT_STOP : node->op == v->past ? HR_VISIT_PAST : HR_VISIT_ON;
}

static void note_left(void *context, const hr_expr *node) {
    visited *v = context;
    v->nodes[v->count++] = node;
}

static void count_left(void *context, const hr_expr *node) {
    (void)node;
    ++*(int *)context;
}

static void test_order(void **state) {
    hr_graph *graph = ((fixture_graph *)*state)->graph;
    hr_expr *n = hr_graph_index_value(graph, 0), *two = hr_graph_whole(graph, 2);
    hr_expr *inner = sum_of(graph, n, two), *outer = sum_of(graph, inner, inner);
    hr_expr *all = hr_graph_binary(graph, HR_OP_MUL, HR_I64, outer, n);
    visited v = {.past = HR_OP_COUNT, .stop = HR_OP_COUNT};
    hr_walk walk = {.enter = note, .context = &v};
    assert_null(hr_walk_through(&walk, all));
    const hr_expr *before[] = {all, outer, inner, n, two};
    assert_int_equal(v.count, 5);
    assert_memory_equal(v.nodes, before, sizeof before);
    assert_null(hr_walk_through(&walk, outer)); /* entered before */
    assert_int_equal(v.count, 5);
    assert_int_equal(hr_walk_end(&walk), HR_OK);

    v.count = 0;
    walk = (hr_walk){.leave = note_left, .context = &v};
    assert_null(hr_walk_through(&walk, all));
    const hr_expr *after[] = {n, two, inner, outer, all};
    assert_int_equal(v.count, 5);
    assert_memory_equal(v.nodes, after, sizeof after);
    assert_int_equal(hr_walk_end(&walk), HR_OK);
}

static void test_past_and_stop(void **state) {
    hr_graph *graph = ((fixture_graph *)*state)->graph;
    hr_expr *n = hr_graph_index_value(graph, 0), *two = hr_graph_whole(graph, 2);
    hr_expr *inner = sum_of(graph, n, two);
    hr_expr *all = hr_graph_binary(graph, HR_OP_MUL, HR_I64, inner, two);
    visited v = {.past = HR_OP_ADD, .stop = HR_OP_COUNT};
    hr_expr_visit(all, note, &v);
    const hr_expr *past[] = {all, inner, two};
    assert_int_equal(v.count, 3);
    assert_memory_equal(v.nodes, past, sizeof past);
    v = (visited){.past = HR_OP_COUNT, .stop = HR_OP_INDEX};
    hr_walk walk = {.enter = note, .context = &v};
    assert_ptr_equal(hr_walk_through(&walk, all), n);
    assert_int_equal(v.count, 3);
    assert_int_equal(hr_walk_end(&walk), HR_OK);
    assert_true(hr_expr_has_index(all, 0));
    assert_false(hr_expr_has_index(all, 1));
    assert_true(hr_expr_contains(all, inner));
    assert_true(hr_expr_contains(all, all));
    assert_false(hr_expr_contains(inner, all));
}

static void test_what_is_read(void **state) {
    hr_graph *graph = ((fixture_graph *)*state)->graph;
    hr_expr *at[] = {hr_graph_index_value(graph, 0), hr_graph_index_value(graph, 1)};
    hr_expr *x = hr_graph_element(graph, 0, 2, at);
    hr_expr *sum = hr_graph_reduce(graph, HR_OP_REDUCE_SUM, HR_F32, 1, (int[]){1}, x);
    assert_true(hr_expr_reads(sum, 0));
    assert_false(hr_expr_reads(sum, 1));
    hr_expr *rest = hr_graph_reduce(graph, HR_OP_REDUCE_SUM, HR_F32, 1, (int[]){1}, at[0]);
    assert_true(hr_expr_has_index(rest, 1)); /* bound */
    assert_true(hr_expr_is_affine(sum_of(graph, at[0], hr_graph_whole(graph, 3))));
    assert_true(hr_expr_is_affine(
        hr_graph_binary(graph, HR_OP_MUL, HR_I64, hr_graph_whole(graph, 3), sum_of(graph, at[0], at[1]))));
    assert_false(hr_expr_is_affine(hr_graph_binary(graph, HR_OP_MUL, HR_I64, at[0], at[1])));
    assert_false(
        hr_expr_is_affine(hr_graph_binary(graph, HR_OP_FLOORDIV, HR_I64, at[0], hr_graph_whole(graph, 2))));
    assert_false(hr_expr_draws(sum));
}

/* Each level uses the one below twice: 2^DEPTH paths. */
static hr_expr *deep(hr_graph *graph) {
    hr_expr *node = hr_graph_index_value(graph, 0);
    for (int i = 0; i < DEPTH; i++)
        node = sum_of(graph, node, node);
    return node;
}

static void test_deep_and_shared(void **state) {
    hr_graph *graph = ((fixture_graph *)*state)->graph;
    hr_expr *node = deep(graph);
    int count = 0;
    hr_walk walk = {.leave = count_left, .context = &count};
    assert_null(hr_walk_through(&walk, node));
    assert_int_equal(count, DEPTH + 1);
    assert_int_equal(hr_walk_end(&walk), HR_OK);
    assert_true(hr_expr_is_affine(node));
    assert_false(hr_expr_has_index(node, 1));
    hr_expr *to[] = {hr_graph_index_value(graph, 1)};
    hr_expr *other = hr_graph_substitute(graph, node, 1, (int[]){0}, to);
    assert_int_equal(hr_graph_status(graph), HR_OK);
    assert_true(hr_expr_has_index(other, 1));
    assert_false(hr_expr_has_index(other, 0));
    hr_expr *back[] = {hr_graph_index_value(graph, 0)};
    assert_ptr_equal(hr_graph_substitute(graph, other, 1, (int[]){1}, back), node);
}

/* ---- rewriting ---- */

static hr_expr *numbers_doubled(void *context, hr_expr *node) {
    hr_graph *graph = context;
    return node->op == HR_OP_NUMBER ? hr_graph_whole(graph, 2 * node->whole) : NULL;
}

static hr_expr *sums_as_products(void *context, const hr_expr *node, hr_expr *const *args) {
    hr_graph *graph = context;
    if (node->op != HR_OP_ADD) return hr_graph_with_args(graph, node, args);
    return hr_graph_binary(graph, HR_OP_MUL, node->type, args[0], args[1]);
}

static void test_rewriting(void **state) {
    hr_graph *graph = ((fixture_graph *)*state)->graph;
    hr_expr *n = hr_graph_index_value(graph, 0), *three = hr_graph_whole(graph, 3);
    hr_expr *sum = sum_of(graph, n, three), *twice = sum_of(graph, sum, sum);
    hr_rewriting rewriting = {
        .graph = graph, .before = numbers_doubled, .after = sums_as_products, .context = graph};
    hr_expr *product = hr_graph_binary(graph, HR_OP_MUL, HR_I64, n, hr_graph_whole(graph, 6));
    assert_ptr_equal(hr_rewriting_of(&rewriting, twice),
                     hr_graph_binary(graph, HR_OP_MUL, HR_I64, product, product));
    assert_ptr_equal(hr_rewriting_of(&rewriting, sum), product); /* remembered */
    hr_rewriting_end(&rewriting);
    hr_rewriting plain = {.graph = graph};
    assert_ptr_equal(hr_rewriting_of(&plain, twice), twice);
    hr_rewriting_end(&plain);
}

static void test_substitution_of_bound_indices(void **state) {
    hr_graph *graph = ((fixture_graph *)*state)->graph;
    hr_expr *at[] = {hr_graph_index_value(graph, 0), hr_graph_index_value(graph, 1)};
    hr_expr *sum =
        hr_graph_reduce(graph, HR_OP_REDUCE_SUM, HR_F32, 1, (int[]){1}, hr_graph_element(graph, 0, 2, at));
    int fresh = hr_graph_add_index(graph, "p", graph->function->indices[1].extent);
    hr_expr *to[] = {hr_graph_index_value(graph, fresh)};
    hr_expr *other = hr_graph_substitute(graph, sum, 1, (int[]){1}, to);
    assert_int_equal(other->bound[0], fresh);
    assert_int_equal(other->args[0]->args[1]->index, fresh);
    assert_int_equal(other->args[0]->args[0]->index, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_past_and_stop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deep_and_shared, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rewriting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_substitution_of_bound_indices, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
