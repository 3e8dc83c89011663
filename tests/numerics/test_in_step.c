/* SPDX-License-Identifier: MIT
 * Results that are written over what a kernel reads, through reshapes of all kinds: the memory plan, the verifier of
 * finished programs and the interpreter agree on what is in step. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/gradcheck.h"
#include "harness/graphs.h"
#include "ir/build.h"
#include "passes/in_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPHS = 60, MOST_DIMS = 4 };

static int draw(uint64_t *random, int count) { return (int)test_random(random, 0, count) % count; }

/* `total` cut into as many extents as it comes to. */
static tcc_type draw_shape(uint64_t *random, int64_t total) {
    static const int64_t factors[] = {2, 3, 4, 5, 7, 8, 16};
    tcc_type type = {.dtype = TCC_F32};
    while (type.rank < MOST_DIMS - 1 && draw(random, 4)) {
        const int64_t factor = factors[draw(random, sizeof factors / sizeof *factors)];
        if (total % factor) continue;
        type.dims[type.rank++] = factor;
        total /= factor;
    }
    const int at = draw(random, type.rank + 1);
    memmove(&type.dims[at + 1], &type.dims[at], sizeof *type.dims * (size_t)(type.rank - at));
    type.dims[at] = total;
    type.rank++;
    return type;
}

static tcc_node *put_back(tcc_graph *g, tcc_node *sum, const tcc_node *like, const tcc_dims *axes) {
    return tcc_ir_unreduce(g, sum, like->type.rank, like->type.dims, axes);
}

/* What reads x somewhere: at its own element, in its row, its column, the other way round, or in another order. */
static tcc_node *work(tcc_graph *g, uint64_t *random, tcc_node *x, int kind) {
    const int rank = x->type.rank;
    const tcc_dims last = {1, {rank - 1}}, first = {1, {0}}, all = tcc_ir_axes_from(0, rank);
    tcc_attrs attrs = {{0}};
    tcc_node *y;
    switch (kind) {
    case 0: return tcc_ir_unary(g, TCC_OP_TANH, x);
    case 1:
        attrs.norm = (tcc_attrs_norm){.axis = rank - 1, .eps = 1e-3};
        return tcc_ir_build(g, TCC_OP_LAYER_NORM, &x, 1, &attrs, NULL, TCC_NOWHERE);
    case 2:
        return tcc_ir_binary(g, TCC_OP_ADD, x, put_back(g, tcc_ir_reduce(g, TCC_OP_REDUCE_MAX, x, &first), x, &first));
    case 3: return tcc_ir_binary(g, TCC_OP_ADD, x, put_back(g, tcc_ir_mean(g, x, &all), x, &all));
    case 4:
        attrs.axes.axes = draw(random, 2) ? last : first;
        y = tcc_ir_build(g, TCC_OP_FLIP, &x, 1, &attrs, NULL, TCC_NOWHERE);
        return tcc_ir_binary(g, TCC_OP_MUL, x, y);
    case 5: { /* as the epilogue of a product */
        const int64_t rows = x->type.rank > 1 ? x->type.dims[0] : 1, columns = tcc_type_numel(&x->type) / rows;
        const tcc_type a_type = {TCC_F32, 2, {rows, 3}}, b_type = {TCC_F32, 2, {3, columns}};
        tcc_node *a = tcc_ir_input(g, "a", TCC_ROLE_BATCH, &a_type, TCC_NOWHERE),
                 *b = tcc_ir_input(g, "b", TCC_ROLE_BATCH, &b_type, TCC_NOWHERE);
        attrs.dot = (tcc_attrs_dot){.contract_a = {1, {1}}, .contract_b = {1, {0}}};
        y = tcc_ir_dot(g, a, b, &attrs.dot);
        return tcc_ir_binary(g, TCC_OP_ADD, tcc_ir_reshape(g, y, x->type.rank, x->type.dims), x);
    }
    default:
        attrs.scan.axis = draw(random, rank);
        return tcc_ir_build(g, TCC_OP_CUMSUM, &x, 1, &attrs, NULL, TCC_NOWHERE);
    }
}

/* A state that is overwritten, and a value that dies where another one of its size is made. */
static tcc_graph *make_graph(uint64_t seed, tcc_diag *diag) {
    enum { KINDS = 7 };
    static const int64_t totals[] = {56, 120, 240, 720, 1680};
    uint64_t random = seed * 7919;
    const int64_t total = totals[draw(&random, sizeof totals / sizeof *totals)];
    tcc_type type = draw_shape(&random, total);
    tcc_graph *g = tcc_graph_create("in_step", diag);
    tcc_node *x = tcc_ir_input(g, "s", TCC_ROLE_STATE, &type, TCC_NOWHERE);
    for (int i = 0, count = 1 + draw(&random, 3); i < count; i++) {
        const tcc_type next = draw_shape(&random, total);
        int kind = draw(&random, KINDS);
        if (kind == 5 && i > 0) kind = 1; /* its operands have names */
        x = work(g, &random, tcc_ir_reshape(g, x, next.rank, next.dims), kind);
    }
    x = tcc_ir_reshape(g, x, type.rank, type.dims);
    assert_non_null(x);
    assert_ok(tcc_ir_output(g, "s", x, 0), diag);
    return g;
}

/* Pairs of which one may be written over the other, and states that are. */
static int count_pairs(const tcc_graph *g, const compiled_options *options) {
    int count = 0;
    compiled *c = compiled_create(g, options);
    for (int i = 0; i < c->graph->groups.count; i++)
        for (int k = 0; k < c->graph->groups.data[i].implementation->n_launches; k++)
            count += c->graph->groups.data[i].implementation->launches[k].n_overwrites;
    for (int i = 0; i < c->graph->outputs.count; i++) count += c->graph->outputs.data[i].in_place;
    compiled_destroy(c);
    return count;
}

static void random_pairs(void **state) {
    (void)state;
    int pairs = 0, with_pairs = 0;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        tcc_diag diag = {0};
        const compiled_options options = {.eager = seed % 4 == 0, .simplify = seed % 4 != 0, .seed = seed};
        tcc_graph *g = make_graph(seed, &diag);
        const int own = count_pairs(g, &options);
        check_compiled(g, &options);
        pairs += own, with_pairs += own > 0;
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
    if (with_pairs < GRAPHS / 2) fail_msg("%d pairs in %d of %d graphs: too few", pairs, with_pairs, GRAPHS);
}

/* Rows of an image that a reshape has cut otherwise. */
static void a_norm_over_a_reshaped_image(void **state) {
    (void)state;
    check_text("graph @norm {\n"
               "  %0 = input {name=\"x\"} : f32[1,1,4,3]\n"
               "  %1 = resize_bilinear(%0) : f32[1,1,8,7]\n"
               "  %2 = tanh(%1) : f32[1,1,8,7]\n"
               "  %3 = reshape(%2) : f32[28,2]\n"
               "  %4 = layer_norm(%3) {axis=1, eps=0x1p-10} : f32[28,2]\n"
               "  output \"y\" %4\n"
               "}\n",
               &(compiled_options){0});
}

/* A group of a state that is added to windows over `of`; whether the sum may be written over the state. */
static bool windows_overwrite(const char *of) {
    char text[1024];
    tcc_diag diag = {0};
    snprintf(text, sizeof text,
             "graph @windows {\n"
             "  %%0 = input {name=\"s\", role=state} : f32[2,6,5,3]\n"
             "  %%1 = input {name=\"x\"} : f32[2,6,5,3]\n"
             "  %%2 = max_pool(%s) {window=[3, 3], stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], channels_last=true} : "
             "f32[2,6,5,3]\n"
             "  %%3 = tanh(%%2) : f32[2,6,5,3]\n"
             "  %%4 = add(%%3, %%0) : f32[2,6,5,3]\n"
             "  output \"s\" %%4 alias %%0\n"
             "  group window %%2 nodes(%%2, %%3, %%4) outputs(%%4)\n"
             "}\n",
             of);
    tcc_graph *g = parse_graph(text, &diag);
    const bool overwrites = tcc_group_same_element(&g->groups.data[0], g->inputs.data[0], g->outputs.data[0].node);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
    check_text(text, &(compiled_options){0});
    return overwrites;
}

/* What is added to windows is read in step; what they are of is not. */
static void what_stands_behind_windows(void **state) {
    (void)state;
    assert_true(windows_overwrite("%1"));
    assert_false(windows_overwrite("%0"));
}

/* Rows store their results over what the rows' sum reads, each value at its own place or at that of a transpose. */
static bool rows_overwrite(const char *output) {
    char text[1024];
    tcc_diag diag = {0};
    snprintf(text, sizeof text,
             "graph @rows {\n"
             "  %%0 = input {name=\"s\", role=state} : f32[7,7,7]\n"
             "  %%1 = input {name=\"x\"} : f32[7,7,7]\n"
             "  %%2 = transpose(%%1) {perm=[0, 2, 1]} : f32[7,7,7]\n"
             "  %%3 = mul(%%0, %%2) : f32[7,7,7]\n"
             "  %%4 = reduce_sum(%%3) {axes=[2]} : f32[7,7]\n"
             "  %%5 = broadcast(%%4) {dims=[0, 1]} : f32[7,7,7]\n"
             "  %%6 = mul(%%5, %%2) : f32[7,7,7]\n"
             "  %%7 = transpose(%%6) {perm=[0, 2, 1]} : f32[7,7,7]\n"
             "  output \"s\" %s alias %%0\n"
             "  group reduce %%4 nodes(%%2, %%3, %%4, %%5, %%6%s) outputs(%s)\n"
             "}\n",
             output, strcmp(output, "%7") ? "" : ", %7", output);
    tcc_graph *g = parse_graph(text, &diag);
    const bool overwrites = tcc_group_same_element(&g->groups.data[0], g->inputs.data[0], g->outputs.data[0].node);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
    return overwrites;
}

/* What is stored at another row's place may not be over what that row still reads. */
static void what_rows_store_elsewhere(void **state) {
    (void)state;
    assert_true(rows_overwrite("%6"));
    assert_false(rows_overwrite("%7"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_pairs), cmocka_unit_test(a_norm_over_a_reshaped_image),
                                       cmocka_unit_test(what_stands_behind_windows),
                                       cmocka_unit_test(what_rows_store_elsewhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
