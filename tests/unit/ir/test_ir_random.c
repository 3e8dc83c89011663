/* SPDX-License-Identifier: MIT
 * The random-graph generator: what it makes is valid, the same for the same seed, covers every op,
 * and is tame. */
#include "harness/check.h"
#include "harness/graphs.h"

#include "ir/eval.h"
#include "harness/generator.h"
#include "ir/support/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 200 };

static tcc_graph *make(const tcc_random_options *options, uint64_t seed) {
    tcc_diag diag = {0};
    tcc_graph *g = tcc_graph_random(options, seed, &diag);
    if (!g) fail_msg("seed %d: %s", (int)seed, tcc_diag_text(&diag));
    if (tcc_graph_verify(g, &diag) != TCC_OK) fail_msg("seed %d: %s", (int)seed, tcc_diag_text(&diag));
    g->diag = NULL;
    return g;
}

static void test_valid_and_repeatable(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        const tcc_random_options options = {
            .mixed = seed % 2, .differentiable = seed % 3 == 0, .nodes = 10 + seed % 50, .ranks = seed % 5 ? 0 : 3};
        tcc_diag diag = {0};
        tcc_graph *g = make(&options, (uint64_t)seed), *again = make(&options, (uint64_t)seed);
        char *text = print_graph(g, true), *text_again = print_graph(again, true);
        assert_string_equal(text, text_again);
        tcc_graph *parsed = parse_graph(text, &diag);
        char *text_parsed = print_graph(parsed, true);
        assert_string_equal(text, text_parsed);
        assert_true(tcc_graph_equal(g, parsed));
        free(text);
        free(text_again);
        free(text_parsed);
        tcc_graph_destroy(g);
        tcc_graph_destroy(again);
        tcc_graph_destroy(parsed);
    }
}

static void test_every_op_occurs(void **state) {
    (void)state;
    int count[TCC_OP_COUNT] = {0};
    for (int seed = 0; seed < 4 * SEEDS; seed++) {
        tcc_graph *g = make(&(tcc_random_options){.mixed = seed % 2, .ranks = seed % 4 ? 0 : 2}, (uint64_t)seed);
        for (int i = 0; i < g->nodes.count; i++) count[g->nodes.data[i]->op]++;
        tcc_graph_destroy(g);
    }
    for (int op = 0; op < TCC_OP_COUNT; op++)
        if (!count[op] && op != TCC_OP_STOP_GRADIENT) /* differences cannot tell its gradient */
            fail_msg("no graph has %s", tcc_op_get_info((tcc_op)op)->text);
}

static void test_classes_are_kept(void **state) {
    (void)state;
    const unsigned classes = 1u << TCC_FUSION_VIEW | 1u << TCC_FUSION_REDUCE;
    for (int seed = 0; seed < SEEDS; seed++) {
        tcc_graph *g = make(&(tcc_random_options){.classes = classes}, (uint64_t)seed);
        for (int i = 0; i < g->nodes.count; i++) {
            const tcc_fusion_class c = tcc_op_get_info(g->nodes.data[i]->op)->fusion;
            assert_true(c == TCC_FUSION_LEAF || c == TCC_FUSION_POINT || classes >> c & 1);
        }
        tcc_graph_destroy(g);
    }
}

static void test_differentiable(void **state) {
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        tcc_graph *g = make(&(tcc_random_options){.differentiable = true}, (uint64_t)seed);
        assert_int_equal(g->outputs.count, 1);
        assert_string_equal(g->outputs.data[0].name, "loss");
        assert_string_equal(tcc_type_text(&g->outputs.data[0].node->type), "f32[]");
        tcc_graph_destroy(g);
    }
}

/* -- Tameness: rounding every value to its element type moves no output by more than the stated
 * tolerance -- */

static tcc_value load_input(const tcc_graph *g, int index, uint64_t seed) {
    tcc_diag diag = {0};
    tcc_value v;
    const tcc_type *type = &g->inputs.data[index]->type;
    void *packed = malloc((size_t)tcc_type_bytes(type));
    tcc_random_input(g, index, seed, packed);
    assert_ok(tcc_value_create(type, &v, &diag), &diag);
    tcc_value_load(&v, packed);
    free(packed);
    return v;
}

/* Node by node; `rounding`: each result as its element type holds it. */
static tcc_value *evaluate(const tcc_graph *g, uint64_t seed, bool rounding) {
    tcc_diag diag = {0};
    tcc_value *values = calloc((size_t)g->nodes.count, sizeof *values);
    for (int id = 0, inputs = 0; id < g->nodes.count; id++) {
        const tcc_node *n = g->nodes.data[id];
        const tcc_value *operands[16];
        if (n->op == TCC_OP_INPUT) {
            values[id] = load_input(g, inputs++, seed);
            continue;
        }
        assert_in_range(n->n_operands, 0, 16);
        for (int i = 0; i < n->n_operands; i++) operands[i] = &values[n->operands[i]->id];
        assert_ok(tcc_node_eval(n, operands, &values[id], &diag), &diag);
        for (int64_t k = 0; k < tcc_type_numel(&n->type) && rounding && tcc_dtype_is_float(n->type.dtype); k++)
            values[id].f[k] = tcc_dtype_round(n->type.dtype, values[id].f[k]);
    }
    return values;
}

static void compare(const tcc_node *n, const tcc_value *a, const tcc_value *b, int seed, double tolerance) {
    for (int64_t k = 0; k < tcc_type_numel(&n->type); k++) {
        if (!tcc_dtype_is_float(n->type.dtype)) {
            if (a->i[k] != b->i[k])
                fail_msg("seed %d: element %d of %s is %lld, rounded %lld", seed, (int)k, tcc_node_text(n),
                         (long long)a->i[k], (long long)b->i[k]);
        } else if (!(fabs(a->f[k]) <= 256 && fabs(a->f[k] - b->f[k]) <= tolerance)) {
            fail_msg("seed %d: element %d of %s is %g, rounded %g", seed, (int)k, tcc_node_text(n), a->f[k], b->f[k]);
        }
    }
}

static void test_outputs_are_tame(void **state) {
    (void)state;
    for (int seed = 0; seed < 2 * SEEDS; seed++) {
        const tcc_random_options options = {
            .differentiable = seed % 4 == 0, .mixed = seed % 3 == 0, .max_elements = 600, .nodes = 30};
        tcc_graph *g = make(&options, (uint64_t)seed);
        tcc_value *a = evaluate(g, (uint64_t)seed, false), *b = evaluate(g, (uint64_t)seed, true);
        for (int i = 0; i < g->outputs.count; i++) {
            const tcc_node *n = g->outputs.data[i].node;
            compare(n, &a[n->id], &b[n->id], seed, options.mixed ? TCC_RANDOM_TOLERANCE_MIXED : TCC_RANDOM_TOLERANCE);
        }
        for (int i = 0; i < g->nodes.count; i++) {
            tcc_value_free(&a[i]);
            tcc_value_free(&b[i]);
        }
        free(a);
        free(b);
        tcc_graph_destroy(g);
    }
}

static void test_out_of_memory(void **state) {
    (void)state;
    tcc_graph *g = NULL;
    for (int64_t n = 0; !g; n++) {
        tcc_diag diag = {0};
        tcc__alloc_fail_at(n);
        g = tcc_graph_random(&(tcc_random_options){.nodes = 20}, 1, &diag);
        tcc__alloc_fail_at(-1);
        assert_int_equal(diag.status, g ? TCC_OK : TCC_ENOMEM);
        tcc_diag_clear(&diag);
    }
    tcc_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid_and_repeatable), cmocka_unit_test(test_every_op_occurs),
        cmocka_unit_test(test_classes_are_kept),     cmocka_unit_test(test_differentiable),
        cmocka_unit_test(test_outputs_are_tame),     cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
