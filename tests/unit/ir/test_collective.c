/* SPDX-License-Identifier: MIT
 * Collectives in a graph: what each gives on several ranks, and on one alone; and that they stay one chain. */
#include "harness/check.h"
#include "harness/graphs.h"
#include "harness/passes.h"
#include "ir/build.h"
#include "ir/collective.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 3, MOST = 8 };

/* `op` of x : f32[count] or i32[count], on all ranks or on the first alone. */
static void expect(const char *op, const char *type, int in, int out, const double *x, int ranks, const double *want) {
    char text[512];
    const bool gathers = !strcmp(op, "all_gather");
    snprintf(text, sizeof text,
             "graph @g {\n  %%0 = input {name=\"x\"} : %s[%d]\n  %%1 = %.*s(%%0) {%s%s%sranks=%d} : %s[%d]\n"
             "  output \"o\" %%1\n}\n",
             type, in, (int)strcspn(op, " "), op, gathers ? "" : "reduction=\"", gathers ? "" : strchr(op, ' ') + 1,
             gathers ? "" : "\", ", RANKS, type, out);
    tcc_diag d = {0};
    tcc_graph *g = parse_graph(text, &d);
    tcc_value inputs[RANKS], outputs[RANKS];
    for (int r = 0; r < ranks; r++) {
        assert_ok(tcc_value_create(&g->inputs.data[0]->type, &inputs[r], &d), &d);
        for (int i = 0; i < in; i++)
            if (*type == 'f') inputs[r].f[i] = x[r * in + i];
            else inputs[r].i[i] = (int64_t)x[r * in + i];
    }
    assert_ok(ranks == 1 ? tcc_graph_eval(g, inputs, outputs, &d) : tcc_graph_eval_ranks(g, ranks, inputs, outputs, &d),
              &d);
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < out; i++) {
            const double got = *type == 'f' ? outputs[r].f[i] : (double)outputs[r].i[i], w = want[r * out + i];
            if (isnan(w) ? !isnan(got) : got != w) fail_msg("%s: %g instead of %g on rank %d", op, got, w, r);
        }
    for (int r = 0; r < ranks; r++) tcc_value_free(&inputs[r]), tcc_value_free(&outputs[r]);
    tcc_graph_destroy(g);
}

#define VALUES(...) \
    (const double[]) { __VA_ARGS__ }

static void values(void **state) {
    (void)state;
    const double *x = VALUES(1, 2, 3, -4, 5, 6, 7, 8, -9);
    expect("all_reduce sum", "f32", 3, 3, x, RANKS, VALUES(4, 15, 0, 4, 15, 0, 4, 15, 0));
    expect("all_reduce max", "f32", 3, 3, x, RANKS, VALUES(7, 8, 6, 7, 8, 6, 7, 8, 6));
    expect("all_reduce min", "i32", 3, 3, x, RANKS, VALUES(-4, 2, -9, -4, 2, -9, -4, 2, -9));
    expect("all_reduce first", "f32", 3, 3, x, RANKS, VALUES(1, 2, 3, 1, 2, 3, 1, 2, 3));
    expect("reduce_scatter sum", "f32", 3, 1, x, RANKS, VALUES(4, 15, 0));
    expect("reduce_scatter min", "f32", 3, 1, x, RANKS, VALUES(-4, 2, -9));
    expect("all_gather", "i32", 1, 3, x, RANKS, VALUES(1, 2, 3, 1, 2, 3, 1, 2, 3));
    expect("all_reduce max", "f32", 1, 1, VALUES(1, NAN, 2), RANKS, VALUES(NAN, NAN, NAN));
    expect("all_reduce sum", "i32", 1, 1, VALUES(2147483647, 1, 1), RANKS,
           VALUES(-2147483647, -2147483647, -2147483647));
    expect("all_reduce sum", "f32", 3, 3, x, 1, VALUES(1, 2, 3));
    expect("all_reduce min", "f32", 3, 3, x, 1, VALUES(1, 2, 3));
    expect("reduce_scatter sum", "f32", 3, 1, x, 1, VALUES(1));
    expect("all_gather", "f32", 1, 3, x, 1, VALUES(1, 0, 0));
}

/* Sums are taken in the order of ranks, one after another. */
static void order_of_sums(void **state) {
    (void)state;
    expect("all_reduce sum", "f64", 1, 1, VALUES(1e30, -1e30, 1), RANKS, VALUES(1, 1, 1));
    expect("all_reduce sum", "f64", 1, 1, VALUES(1, 1e30, -1e30), RANKS, VALUES(0, 0, 0));
}

static void wrong_ones_are_refused(void **state) {
    (void)state;
    static const char *const refused[][2] = {
        {"all_reduce(%0) {reduction=\"mean\", ranks=2} : f32[4]", "\"mean\" is no reduction: sum, max, min, first"},
        {"reduce_scatter(%0) {reduction=\"first\", ranks=2} : f32[2]", "\"first\" is no reduction: sum, max, min"},
        {"all_gather(%0) {reduction=\"sum\", ranks=2} : f32[8]", "has no reduction, got \"sum\""},
        {"reduce_scatter(%0) {reduction=\"sum\", ranks=3} : f32[2]", "dim 0 of f32[4] is no multiple of 3 ranks"},
        {"layer_norm(%0) {eps=1, ranks=2} : f32[4]", "2 ranks have no meaning here"},
        {"all_reduce(%0) {reduction=\"sum\"} : f32[4]", "0 ranks: 1 to 1024 are possible"},
        {"all_reduce(%0, %0) {reduction=\"sum\", ranks=2} : f32[4]", "is no collective that it could wait for"},
        {"all_reduce(%0) {reduction=\"sum\", ranks=2} : f32[4]\n"
         "  %2 = all_reduce(%1, %1) {reduction=\"sum\", ranks=3} : f32[4]",
         "is one of 3 ranks, those before it of 2"},
        {"all_reduce(%0) {reduction=\"sum\", ranks=2} : f32[4]\n"
         "  %2 = all_reduce(%0) {reduction=\"max\", ranks=2} : f32[4]",
         "waits for none, not for the collective before it"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char text[512];
        tcc_diag d = {0};
        tcc_graph *g = NULL;
        snprintf(text, sizeof text,
                 "graph @g {\n  %%0 = input {name=\"x\"} : f32[4]\n  %%1 = %s\n  output \"o\" %%1\n}\n", refused[i][0]);
        if (tcc_graph_parse(text, strlen(text), "text", &d, &g) == TCC_OK) tcc_graph_verify(g, &d);
        if (d.status == TCC_OK || !strstr(tcc_diag_text(&d), refused[i][1]))
            fail_msg("%s: %s", refused[i][0], d.status == TCC_OK ? "taken" : tcc_diag_text(&d));
        tcc_graph_destroy(g);
        tcc_diag_clear(&d);
    }
}

static int count(const tcc_graph *g) {
    int n = 0;
    for (int i = 0; i < g->nodes.count; i++) n += tcc_op_is_collective(g->nodes.data[i]->op);
    return n;
}

/* Equal ones stay two, a constant is reduced all the same, and those behind the last one that is used are dropped. */
static void passes_keep_them(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_graph *g = tcc_graph_create("g", &d);
    const tcc_type type = {TCC_F32, 1, {4}};
    tcc_node *x = tcc_ir_input(g, "x", TCC_ROLE_BATCH, &type, TCC_NOWHERE);
    tcc_node *a = tcc_ir_collective(g, TCC_OP_ALL_REDUCE, x, TCC_REDUCTION_SUM, 2);
    tcc_ir_collective(g, TCC_OP_ALL_REDUCE, tcc_ir_splat(g, &type, 1), TCC_REDUCTION_MAX, 2); /* nobody reads it */
    tcc_node *b = tcc_ir_collective(g, TCC_OP_ALL_REDUCE, x, TCC_REDUCTION_SUM, 2);
    tcc_ir_collective(g, TCC_OP_ALL_REDUCE, b, TCC_REDUCTION_SUM, 2);
    assert_ok(tcc_ir_output(g, "o", tcc_ir_binary(g, TCC_OP_ADD, a, b), -1), &d);
    assert_ok(tcc_graph_verify(g, &d), &d);
    assert_int_equal(count(g), 4);
    tcc_graph *after = run_passes(g, "simplify,fuse,order,plan-memory", NULL);
    assert_int_equal(count(after), 3);
    int groups = 0;
    for (int i = 0; i < after->groups.count; i++) {
        const tcc_group *group = &after->groups.data[i];
        if (group->kind != TCC_GROUP_COLLECTIVE) continue;
        assert_int_equal(group->n_nodes, 1);
        groups++;
    }
    assert_int_equal(groups, 3);
    tcc_graph_destroy(after);
    tcc_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(order_of_sums),
                                       cmocka_unit_test(wrong_ones_are_refused), cmocka_unit_test(passes_keep_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
