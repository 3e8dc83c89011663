/* SPDX-License-Identifier: MIT
 * Gradients of random graphs against finite differences: what rules do together, with shared
 * values, broadcasts and views between. */
#include "harness/check.h"
#include "harness/gradcheck.h"
#include "ir/build.h"
#include "harness/generator.h"

#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 300, ELEMENTS_A_PARAMETER = 4 };

static tcc_type widened(tcc_type type) {
    if (tcc_dtype_is_float(type.dtype)) type.dtype = TCC_F64;
    return type;
}

/* The same graph with float64 for all floats; random draws, which are float32 by definition, are
 * cast. */
static tcc_graph *widen(const tcc_graph *g, tcc_diag *diag) {
    tcc_graph *wide = tcc_graph_create(g->name, diag);
    tcc_node **map = calloc((size_t)g->nodes.count, sizeof(tcc_node *));
    for (int id = 0; id < g->nodes.count; id++) {
        const tcc_node *n = g->nodes.data[id];
        const bool draw = n->op == TCC_OP_RNG_UNIFORM || n->op == TCC_OP_RNG_NORMAL;
        tcc_type type = draw ? n->type : widened(n->type);
        tcc_node **operands = calloc((size_t)n->n_operands + 1, sizeof(tcc_node *));
        for (int i = 0; i < n->n_operands; i++) operands[i] = map[n->operands[i]->id];
        const bool typed = tcc_op_get_info(n->op)->flags & TCC_FLAG_TYPED;
        map[id] = tcc_ir_build(wide, n->op, operands, n->n_operands, n->attrs, typed ? &type : NULL, n->loc);
        if (draw) map[id] = tcc_ir_cast(wide, map[id], TCC_F64);
        free(operands);
    }
    for (int i = 0; i < g->outputs.count; i++)
        assert_ok(tcc_ir_output(wide, g->outputs.data[i].name, map[g->outputs.data[i].node->id], -1), diag);
    free(map);
    return wide;
}

static tcc_value *random_inputs(const tcc_graph *g, uint64_t seed) {
    tcc_value *inputs = calloc((size_t)g->inputs.count, sizeof *inputs);
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_type *type = &g->inputs.data[i]->type;
        tcc_diag diag = {0};
        assert_ok(tcc_value_create(type, &inputs[i], &diag), &diag);
        void *packed = malloc((size_t)tcc_type_bytes(type));
        tcc_random_input(g, i, seed, packed);
        tcc_value_load(&inputs[i], packed);
        inputs[i].type = widened(*type);
        free(packed);
    }
    return inputs;
}

static void test_random_graphs(void **state) {
    (void)state;
    gradcheck_counts sum = {0};
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        tcc_diag diag = {0};
        tcc_random_options options = {
            .nodes = 20 + (int)(seed % 20), .differentiable = true, .max_elements = 200, .ranks = seed % 4 ? 0 : 2};
        tcc_graph *g = tcc_graph_random(&options, seed, &diag);
        if (!g) fail_msg("seed %d: %s", (int)seed, tcc_diag_text(&diag));
        tcc_value *inputs = random_inputs(g, seed);
        tcc_graph *wide = widen(g, &diag);
        printf("seed %d\n", (int)seed); /* of the failing graph, if one fails */
        gradcheck_counts counts = gradcheck(wide, inputs, 1e-7, ELEMENTS_A_PARAMETER);
        sum.checked += counts.checked, sum.skipped += counts.skipped;
        for (int i = 0; i < g->inputs.count; i++) tcc_value_free(&inputs[i]);
        free(inputs);
        tcc_graph_destroy(wide);
        tcc_graph_destroy(g);
    }
    printf("%d elements checked, %d skipped at kinks\n", sum.checked, sum.skipped);
    assert_true(sum.checked > 3 * GRAPHS);
    assert_true(sum.skipped < sum.checked / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
