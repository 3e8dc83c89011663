/* SPDX-License-Identifier: MIT
 * The graph builder: nodes found by content, sticky errors, inputs and outputs, rewriting, copies.
 */
#include "harness/check.h"

#include "ir/support/element.h"
#include "ir/attrs.h"
#include "ir/build.h"

#include <math.h>
#include <string.h>

static const tcc_type f32_2x3 = {TCC_F32, 2, {2, 3}};
static const tcc_type f32_3 = {TCC_F32, 1, {3}};

typedef struct fixture {
    tcc_diag diag;
    tcc_graph *g;
    tcc_node *x, *y;
} fixture;

static fixture start(void) {
    static tcc_diag diag;
    fixture f = {0};
    tcc_diag_clear(&diag);
    f.g = tcc_graph_create("g", &diag);
    assert_non_null(f.g);
    f.x = tcc_ir_input(f.g, "x", TCC_ROLE_BATCH, &f32_2x3, (tcc_loc){"m.c", 1});
    f.y = tcc_ir_input(f.g, "y", TCC_ROLE_BATCH, &f32_2x3, (tcc_loc){"m.c", 2});
    assert_non_null(f.x);
    assert_non_null(f.y);
    return f;
}

static void finish(fixture *f) {
    tcc_diag_clear(f->g->diag);
    tcc_graph_destroy(f->g);
}

static void assert_reported(fixture *f, tcc_status status, const char *text) {
    assert_int_equal(f->g->diag->status, status);
    assert_string_equal(tcc_diag_text(f->g->diag), text);
    tcc_diag_clear(f->g->diag);
}

static void test_equal_nodes_are_one(void **state) {
    (void)state;
    fixture f = start();
    tcc_node *sum = tcc_ir_binary(f.g, TCC_OP_ADD, f.x, f.y);
    assert_ptr_equal(sum, tcc_ir_binary(f.g, TCC_OP_ADD, f.x, f.y));
    assert_ptr_equal(sum, tcc_ir_binary(f.g, TCC_OP_ADD, f.y, f.x));
    assert_ptr_equal(sum->operands[0], f.x); /* the order of the first use stays */
    assert_ptr_not_equal(tcc_ir_binary(f.g, TCC_OP_SUB, f.x, f.y), tcc_ir_binary(f.g, TCC_OP_SUB, f.y, f.x));
    assert_ptr_not_equal(tcc_ir_binary(f.g, TCC_OP_ADD, f.x, f.x), sum);
    tcc_dims axis0 = {1, {0}}, axis1 = {1, {1, 7}}, again = {1, {1}};
    tcc_node *rows = tcc_ir_reduce(f.g, TCC_OP_REDUCE_SUM, f.x, &axis1);
    assert_ptr_not_equal(rows, tcc_ir_reduce(f.g, TCC_OP_REDUCE_SUM, f.x, &axis0));
    assert_ptr_equal(rows,
                     tcc_ir_reduce(f.g, TCC_OP_REDUCE_SUM, f.x, &again)); /* entries past the count do not matter */
    for (int i = 0; i < f.g->nodes.count; i++) assert_int_equal(f.g->nodes.data[i]->id, i);
    finish(&f);
}

static void test_constants_are_rounded(void **state) {
    (void)state;
    fixture f = start();
    tcc_node *tenth = tcc_ir_splat(f.g, &f32_3, 0.1);
    assert_ptr_equal(tenth, tcc_ir_splat(f.g, &f32_3, (double)0.1f));
    assert_true(tenth->attrs->constant.values.v[0] == (double)0.1f);
    assert_ptr_not_equal(tcc_ir_splat(f.g, &f32_3, 0.0), tcc_ir_splat(f.g, &f32_3, -0.0));
    assert_ptr_equal(tcc_ir_splat(f.g, &f32_3, (double)NAN), tcc_ir_splat(f.g, &f32_3, -(double)NAN));
    double values[3] = {0.1, 0.1, 0.1};
    tcc_attrs attrs = {.constant.values = {3, values}};
    assert_ptr_equal(tenth, tcc_ir_build(f.g, TCC_OP_CONSTANT, NULL, 0, &attrs, &f32_3, TCC_NOWHERE));
    values[1] = 2;
    tcc_node *literal = tcc_ir_build(f.g, TCC_OP_CONSTANT, NULL, 0, &attrs, &f32_3, TCC_NOWHERE);
    values[1] = 3; /* was copied */
    assert_int_equal(literal->attrs->constant.values.count, 3);
    assert_true(literal->attrs->constant.values.v[1] == 2);
    finish(&f);
}

static void test_rounding(void **state) {
    (void)state;
    static const struct {
        tcc_dtype t;
        double x, rounded;
    } cases[] = {
        {TCC_F64, 0.1, 0.1},
        {TCC_F32, 1 + 0x1p-24, 1},
        {TCC_F16, 1 + 0x1p-11, 1},
        {TCC_F16, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-10}, /* would be 1 by way of a rounded f32 */
        {TCC_F16, -1 - 0x1p-11 - 0x1p-40, -1 - 0x1p-10},
        {TCC_F16, 70000, (double)INFINITY},
        {TCC_F16, 0x1p-25 + 0x1p-60, 0x1p-24},
        {TCC_BF16, 1 + 0x1p-8, 1},
        {TCC_BF16, 1 + 0x1p-8 + 0x1p-50, 1 + 0x1p-7},
        {TCC_I32, -2.7, -2},
        {TCC_I32, 1e20, INT32_MAX},
        {TCC_I32, (double)NAN, 0},
        {TCC_U8, -3, 0},
        {TCC_U8, 300, 255},
        {TCC_I64, -1e30, (double)INT64_MIN},
        {TCC_BOOL, 0.5, 1},
        {TCC_BOOL, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(tcc_dtype_round(cases[i].t, cases[i].x) == cases[i].rounded);
    assert_false(signbit(tcc_dtype_round(TCC_I32, -0.5)));
}

/* Elements in packed memory are what tcc_dtype_round says, and a cast is what the interpreter makes of it. */
static void test_elements(void **state) {
    (void)state;
    static const double values[] = {0, -0.0, 1 + 0x1p-11 + 0x1p-40, -2.7, 70000, 300, -3, 0x1p-25 + 0x1p-60, 1e20};
    enum { COUNT = sizeof values / sizeof *values };
    char unaligned[8 * COUNT + 1];
    double from[COUNT], to[COUNT];
    for (tcc_dtype a = 0; a < TCC_DTYPE_COUNT; a++) {
        const bool is_float = tcc_dtype_is_float(a);
        for (int i = 0; i < COUNT; i++) {
            tcc_element_set(a, from, i, values[i]);
            assert_true(tcc_element_get(a, from, i) == tcc_dtype_round(a, values[i]));
            if (!is_float) assert_true((double)tcc_element_get_int(a, from, i) == tcc_element_get(a, from, i));
        }
        memcpy(unaligned + 1, from, sizeof from);
        for (tcc_dtype b = 0; b < TCC_DTYPE_COUNT; b++) {
            tcc_elements_cast(b, to, a, unaligned + 1, COUNT);
            for (int i = 0; i < COUNT; i++) {
                const int64_t whole = is_float ? 0 : tcc_element_get_int(a, from, i);
                const double x = is_float || tcc_dtype_is_float(b) ? tcc_dtype_round(b, tcc_element_get(a, from, i))
                                 : b == TCC_I32                    ? (double)(int32_t)whole
                                 : b == TCC_U8                     ? (double)(uint8_t)whole
                                 : b == TCC_BOOL                   ? (double)(whole != 0)
                                                                   : (double)whole;
                assert_true(tcc_element_get(b, to, i) == x);
            }
        }
    }
    int64_t large = INT64_MAX - 1, same;
    tcc_elements_cast(TCC_I64, &same, TCC_I64, &large, 1);
    assert_true(same == large && tcc_element_get_int(TCC_I64, &same, 0) == large);
}

static void test_errors_stick(void **state) {
    (void)state;
    fixture f = start();
    tcc_ir_set_loc(f.g, (tcc_loc){"m.c", 7});
    tcc_node *w = tcc_ir_splat(f.g, &f32_3, 1);
    tcc_node *bad = tcc_ir_binary(f.g, TCC_OP_ADD, f.x, w);
    assert_null(bad);
    assert_null(tcc_ir_unary(f.g, TCC_OP_EXP, bad));
    assert_null(tcc_ir_mean(f.g, tcc_ir_binary_c(f.g, TCC_OP_MUL, bad, 2), &(tcc_dims){1, {0}}));
    assert_null(tcc_ir_cast(f.g, bad, TCC_F16));
    assert_int_equal(tcc_ir_output(f.g, "o", bad, -1), TCC_ESHAPE);
    assert_reported(&f, TCC_ESHAPE, "m.c:7: error: add: shapes differ: f32[2,3] and f32[3]");
    finish(&f);
}

static void test_inputs_and_outputs(void **state) {
    (void)state;
    fixture f = start();
    assert_null(tcc_ir_input(f.g, "x", TCC_ROLE_PARAM, &f32_3, (tcc_loc){"m.c", 9}));
    assert_reported(&f, TCC_EINVAL, "m.c:9: error: two inputs are named 'x'\nm.c:1: note: the first one: f32[2,3]");
    assert_null(tcc_ir_input(f.g, "", TCC_ROLE_BATCH, &f32_3, TCC_NOWHERE));
    assert_reported(&f, TCC_EINVAL, "error: input: an input needs a name");
    assert_int_equal(f.g->inputs.count, 2);
    assert_null(tcc_ir_state_copy(f.g, "low", TCC_BF16, f.x, (tcc_loc){"m.c", 5}));
    assert_reported(&f, TCC_EINVAL,
                    "m.c:5: error: state 'low' cannot begin as a copy of 'x': that is a batch, and only "
                    "a parameter or a state is there between runs");
    assert_null(tcc_ir_state_copy(f.g, "low", TCC_BF16, NULL, TCC_NOWHERE));
    assert_int_equal(tcc_ir_output(f.g, "x", f.y, 0), TCC_OK);
    assert_int_equal(tcc_ir_output(f.g, "x", f.x, -1), TCC_EINVAL);
    assert_reported(&f, TCC_EINVAL, "m.c:1: error: two outputs are named 'x'");
    assert_int_equal(tcc_ir_output(f.g, "z", f.x, 0), TCC_EINVAL);
    assert_reported(&f, TCC_EINVAL, "m.c:1: error: outputs 'x' and 'z' are both the next value of input 0");
    assert_int_equal(tcc_ir_output(f.g, "z", f.x, 2), TCC_EINVAL);
    tcc_diag_clear(f.g->diag);
    tcc_node *small = tcc_ir_splat(f.g, &f32_3, 0);
    assert_int_equal(tcc_ir_output(f.g, "z", small, 1), TCC_ESHAPE);
    assert_reported(&f, TCC_ESHAPE,
                    "error: output 'z' is f32[3] but the input 'y' whose next value it is, is f32[2,3]");
    finish(&f);
}

static void test_locations(void **state) {
    (void)state;
    fixture f = start();
    char file[] = "model.c";
    tcc_ir_set_backward(f.g, (tcc_loc){file, 3});
    tcc_node *a = tcc_ir_unary(f.g, TCC_OP_EXP, f.x);
    tcc_ir_set_loc(f.g, TCC_NOWHERE);
    tcc_node *b = tcc_ir_unary(f.g, TCC_OP_NEG, f.x);
    file[0] = 'M'; /* names were copied */
    assert_string_equal(a->loc.file, "model.c");
    assert_true(a->backward);
    assert_false(b->backward);
    assert_null(b->loc.file);
    tcc_ir_set_loc(f.g, (tcc_loc){"m.c", 9});
    assert_ptr_equal(b, tcc_ir_unary(f.g, TCC_OP_NEG, f.x));
    assert_int_equal(b->loc.line, 9); /* the known place wins */
    tcc_ir_set_loc(f.g, (tcc_loc){"m.c", 10});
    tcc_ir_unary(f.g, TCC_OP_NEG, f.x);
    assert_int_equal(b->loc.line, 9);
    finish(&f);
}

/* The segment stays while lines change, and goes with the rest of the origin; an input is in none. */
static void test_segments(void **state) {
    (void)state;
    fixture f = start();
    tcc_ir_set_loc(f.g, (tcc_loc){"m.c", 1});
    tcc_ir_set_segment(f.g, 3);
    tcc_ir_set_loc(f.g, (tcc_loc){"m.c", 2});
    const tcc_node *inside = tcc_ir_unary(f.g, TCC_OP_EXP, f.x);
    const tcc_node *input = tcc_ir_input(f.g, "w", TCC_ROLE_PARAM, &f32_3, (tcc_loc){"m.c", 2});
    assert_int_equal(inside->segment, 3);
    assert_int_equal(input->segment, 0);
    tcc_ir_set_segment(f.g, 0);
    assert_ptr_equal(tcc_ir_unary(f.g, TCC_OP_EXP, f.x), inside); /* no identity: the first stays */
    const tcc_node *outside = tcc_ir_unary(f.g, TCC_OP_ABS, f.x);
    assert_int_equal(outside->segment, 0);
    tcc_ir_set_origin(f.g, inside);
    const tcc_node *another = tcc_ir_unary(f.g, TCC_OP_NEG, f.x);
    assert_int_equal(another->segment, 3);
    assert_int_equal(another->loc.line, 2);
    tcc_ir_set_backward(f.g, inside->loc);
    const tcc_node *gradient = tcc_ir_unary(f.g, TCC_OP_SIN, f.x);
    assert_true(gradient->backward && gradient->loc.line == 2 && !gradient->segment);
    finish(&f);
}

static void test_foreign_operand(void **state) {
    (void)state;
    fixture f = start();
    tcc_graph *other = tcc_graph_create("other", f.g->diag);
    assert_null(tcc_ir_unary(other, TCC_OP_NEG, f.x));
    assert_int_equal(f.g->diag->status, TCC_EBUG);
    tcc_graph_destroy(other);
    finish(&f);
}

/* x + 0 -> x, and everything that nothing needs is gone. */
static void test_rewrite(void **state) {
    (void)state;
    fixture f = start();
    tcc_node *zero = tcc_ir_splat_like(f.g, f.x, 0);
    tcc_node *same = tcc_ir_binary(f.g, TCC_OP_ADD, f.x, zero);
    tcc_ir_unary(f.g, TCC_OP_EXP, f.y); /* dead */
    tcc_ir_set_backward(f.g, (tcc_loc){"m.c", 30});
    tcc_node *result = tcc_ir_unary(f.g, TCC_OP_NEG, same);
    assert_int_equal(tcc_ir_output(f.g, "o", result, -1), TCC_OK);
    assert_int_equal(tcc_ir_output(f.g, "x", same, 0), TCC_OK);
    f.g->outputs.data[1].in_place = true;

    tcc_rewrite rw;
    tcc_graph *to;
    assert_ok(tcc_rewrite_begin(&rw, f.g), f.g->diag);
    for (int i = 0; i < f.g->nodes.count; i++) {
        const tcc_node *n = f.g->nodes.data[i];
        if (!rw.live[i]) continue;
        if (n->op == TCC_OP_ADD) rw.map[i] = rw.map[n->operands[0]->id];
        else if (n != zero) tcc_rewrite_copy(&rw, n);
    }
    assert_ok(tcc_rewrite_end(&rw, &to), f.g->diag);
    assert_int_equal(to->nodes.count, 3);
    assert_int_equal(to->inputs.count, 2);
    assert_ptr_equal(to->outputs.data[1].node, to->inputs.data[0]);
    assert_true(to->outputs.data[1].in_place);
    assert_int_equal(to->outputs.data[0].node->loc.line, 30);
    assert_true(to->outputs.data[0].node->backward);
    tcc_graph_destroy(to);
    finish(&f);
}

static void test_rewrite_fails_as_a_whole(void **state) {
    (void)state;
    fixture f = start();
    tcc_node *e = tcc_ir_unary(f.g, TCC_OP_EXP, f.x);
    assert_int_equal(tcc_ir_output(f.g, "o", tcc_ir_unary(f.g, TCC_OP_NEG, e), -1), TCC_OK);
    tcc_rewrite rw;
    tcc_graph *to = NULL;
    assert_ok(tcc_rewrite_begin(&rw, f.g), f.g->diag);
    assert_null(tcc_rewrite_copy(&rw, f.g->outputs.data[0].node)); /* its operand was not copied */
    assert_int_equal(tcc_rewrite_end(&rw, &to), TCC_EBUG);
    assert_null(to);
    tcc_diag_clear(f.g->diag);
    assert_ok(tcc_rewrite_begin(&rw, f.g), f.g->diag);
    assert_int_equal(tcc_rewrite_end(&rw, &to), TCC_EBUG); /* an output is missing */
    assert_null(to);
    finish(&f);
}

static void test_builders(void **state) {
    (void)state;
    fixture f = start();
    const int64_t six[] = {6}, big[] = {4, 2, 3};
    const int swap[] = {1, 0}, stay[] = {0, 1};
    assert_ptr_equal(tcc_ir_reshape(f.g, tcc_ir_reshape(f.g, f.x, 1, six), 1, six), tcc_ir_reshape(f.g, f.x, 1, six));
    assert_ptr_equal(tcc_ir_transpose(f.g, f.x, stay), f.x);
    assert_int_equal(tcc_ir_transpose(f.g, f.x, swap)->type.dims[0], 3);
    assert_ptr_equal(tcc_ir_cast(f.g, f.x, TCC_F32), f.x);
    tcc_dims rows = tcc_ir_axes_from(1, 2);
    tcc_node *mean = tcc_ir_mean(f.g, f.x, &rows);
    assert_string_equal(tcc_type_text(&mean->type), "f32[2]");
    assert_string_equal(tcc_type_text(&tcc_ir_unreduce(f.g, mean, 2, f.x->type.dims, &rows)->type), "f32[2,3]");
    tcc_node *like = tcc_ir_splat(f.g, &(tcc_type){TCC_F32, 3, {4, 2, 3}}, 0);
    assert_memory_equal(tcc_ir_broadcast_like(f.g, f.x, like)->type.dims, big, sizeof big);
    assert_null(tcc_ir_broadcast_like(f.g, like, f.x));
    assert_int_equal(f.g->diag->status, TCC_ESHAPE);
    finish(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_nodes_are_one),
        cmocka_unit_test(test_constants_are_rounded),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_errors_stick),
        cmocka_unit_test(test_inputs_and_outputs),
        cmocka_unit_test(test_locations),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_foreign_operand),
        cmocka_unit_test(test_rewrite),
        cmocka_unit_test(test_rewrite_fails_as_a_whole),
        cmocka_unit_test(test_builders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
