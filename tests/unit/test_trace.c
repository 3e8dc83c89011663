/* SPDX-License-Identifier: MIT
 * Tracing: shapes and broadcasting, names, and errors that name the user's line. */
#include "frontend/trace.h"
#include "harness/check.h"
#include "traincc/traincc.h"

#include <stdio.h>

typedef struct fixture {
    tcc_context cx;
    tcc_store store;
    tcc_trace trace;
    float data[64];
    int32_t labels[8];
    tcc_array batch[2];
} fixture;

static int begin(void **state) {
    static fixture f;
    f = (fixture){.store = {.seed = 5}};
    if (tcc_context_init(&f.cx) != TCC_OK) return -1;
    f.batch[0] = (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {4, 16}, .data = f.data};
    f.batch[1] = (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {4}, .data = f.labels};
    *state = &f;
    return tcc_trace_begin(&f.trace, "test", &f.store, true, f.batch, 2, &f.cx.diag);
}

static int end(void **state) {
    fixture *f = *state;
    tcc_graph *g = NULL;
    if (f->trace.graph && tcc_trace_end(&f->trace, &g) == TCC_OK) tcc_graph_destroy(g);
    tcc_store_free(&f->store);
    tcc_context_clear(&f->cx);
    return 0;
}

/* The first error has `status`, this file, that line and the text. */
static void check_error(fixture *f, tcc_status status, int line, const char *text) {
    char place[64];
    snprintf(place, sizeof place, "test_trace.c:%d: error: ", line);
    assert_int_equal(f->cx.diag.status, status);
    const char *message = tcc_diag_text(&f->cx.diag);
    if (!strstr(message, place) || !strstr(message, text))
        fail_msg("\"%s\" does not say \"%s%s\"", message, place, text);
}

static void shapes_broadcast_from_the_right(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_input(&f->trace, "x"), row = tcc_param(&f->trace, "row", (tcc_init){0}, TCC_DIMS(16));
    tcc_tensor column = tcc_param(&f->trace, "column", (tcc_init){0}, TCC_DIMS(4, 1));
    tcc_tensor y = tcc_add(tcc_mul(x, row), column);
    assert_int_equal(tcc_rank(y), 2);
    assert_int_equal(tcc_dim(y, 0), 4);
    assert_int_equal(tcc_dim(y, -1), 16);
    tcc_tensor outer = tcc_sub(tcc_reshape(row, TCC_DIMS(1, -1)), tcc_reshape(row, TCC_DIMS(16, 1)));
    assert_int_equal(tcc_dim(outer, 0), 16);
    assert_int_equal(tcc_dim(outer, 1), 16);
    assert_string_equal(tcc_diag_text(&f->cx.diag), "");
}

static void a_wrong_shape_names_the_line_once(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_input(&f->trace, "x"), w = tcc_param(&f->trace, "w", (tcc_init){0}, TCC_DIMS(8, 3));
    tcc_tensor y = tcc_matmul(x, w);
    int line = __LINE__ - 1;
    assert_null(y.node);
    tcc_tensor z = tcc_relu(tcc_add(y, tcc_reshape(y, TCC_DIMS(7)))); /* poisoned: no second message */
    assert_null(z.node);
    assert_int_equal(tcc_rank(z), 0);
    check_error(f, TCC_ESHAPE, line, "matmul: inner dimensions differ: f32[4,16] x f32[8,3] (16 vs 8)");
    assert_non_null(strstr(tcc_diag_text(&f->cx.diag), "note: second operand made here"));
}

static void shapes_that_do_not_broadcast(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_input(&f->trace, "x"), b = tcc_param(&f->trace, "b", (tcc_init){0}, TCC_DIMS(5));
    tcc_add(x, b);
    int line = __LINE__ - 1;
    check_error(f, TCC_ESHAPE, line, "add: shapes do not broadcast: f32[4,16] and f32[5] (16 against 5)");
}

static void types_must_agree(void **state) {
    fixture *f = *state;
    tcc_add(tcc_reshape(tcc_input(&f->trace, "y"), TCC_DIMS(4, 1)), tcc_input(&f->trace, "x"));
    int line = __LINE__ - 1;
    check_error(f, TCC_EDTYPE, line, "add");
}

static void a_missing_input_lists_what_was_given(void **state) {
    fixture *f = *state;
    tcc_input(&f->trace, "z");
    int line = __LINE__ - 1;
    check_error(f, TCC_ENOTFOUND, line, "no batch array is named \"z\"; given: \"x\", \"y\"");
}

static void the_loss_is_a_scalar(void **state) {
    fixture *f = *state;
    tcc_loss(&f->trace, tcc_input(&f->trace, "x"));
    int line = __LINE__ - 1;
    check_error(f, TCC_ESHAPE, line, "the loss must be a scalar f32[], not f32[4,16]");
}

static void names_follow_scopes_and_tie(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_input(&f->trace, "x");
    tcc_scope(&f->trace, "h.%d", 3);
    tcc_tensor a = tcc_linear(x, "fc", 16), b = tcc_linear(x, "fc", 16);
    tcc_scope_end(&f->trace);
    tcc_linear(x, "fc", 8);
    assert_ptr_equal(a.node, b.node);
    assert_int_equal(f->store.entries.count, 4);
    assert_true(tcc_store_find(&f->store, "h.3.fc.weight") >= 0);
    assert_true(tcc_store_find(&f->store, "fc.bias") >= 0);
}

/* A model without source: its errors and reports say which layer. */
static void places_follow_scopes_and_layers(void **state) {
    fixture *f = *state;
    tcc_trace *t = &f->trace;
    tcc_tensor x = tcc_input_at(t, "x", tcc_scope_place(t, "net"));
    tcc_scope(t, "h.%d", 3);
    tcc_scope(t, "mlp");
    tcc_tensor h = tcc_linear_at(x, "fc", 16, &(tcc_linear_options){.size = sizeof(tcc_linear_options)},
                                 tcc_scope_place(t, "net"));
    assert_string_equal(h.node->loc.file, "net.h.3.mlp.fc");
    assert_int_equal(h.node->loc.line, 0);
    assert_string_equal(tcc_relu_at(h, tcc_scope_place(t, "net")).node->loc.file, "net.h.3.mlp");
    tcc_scope_end(t);
    tcc_scope_end(t);
    assert_string_equal(x.node->loc.file, "net");
    assert_string_equal(tcc_layer_norm_at(h, "norm", NULL, tcc_scope_place(t, "net")).node->loc.file, "net.norm");
    assert_null(tcc_matmul_at(x, x, tcc_scope_place(t, "net")).node);
    assert_non_null(strstr(tcc_diag_text(&f->cx.diag), "net: error: "));
}

static void a_parameter_has_one_shape(void **state) {
    fixture *f = *state;
    tcc_param(&f->trace, "w", (tcc_init){0}, TCC_DIMS(2, 3));
    tcc_param(&f->trace, "w", (tcc_init){0}, TCC_DIMS(3, 2));
    int line = __LINE__ - 1;
    check_error(f, TCC_ESHAPE, line, "\"w\" is asked for as a parameter f32[3,2], but it is a parameter f32[2,3]");
}

static void open_scopes_are_an_error(void **state) {
    fixture *f = *state;
    tcc_graph *g;
    tcc_scope(&f->trace, "block");
    assert_int_equal(tcc_trace_end(&f->trace, &g), TCC_EINVAL);
    assert_non_null(strstr(tcc_diag_text(&f->cx.diag), "1 tcc_scope without tcc_scope_end"));
}

static void draws_depend_on_seed_and_name_alone(void **state) {
    fixture *f = *state;
    const tcc_init normal = {.kind = TCC_INIT_NORMAL, .b = 1};
    tcc_param(&f->trace, "a", normal, TCC_DIMS(1000));
    tcc_param(&f->trace, "b", normal, TCC_DIMS(1000));
    tcc_store other = {.seed = 5};
    tcc_type type = {.dtype = TCC_F32, .rank = 1, .dims = {1000}};
    int index;
    assert_int_equal(tcc_store_add(&other, "b", TCC_ROLE_PARAM, &type, &normal, &f->cx.diag, TCC_HERE, &index), TCC_OK);
    assert_int_equal(tcc_store_fill(&f->store, &f->cx.diag), TCC_OK);
    assert_int_equal(tcc_store_fill(&other, &f->cx.diag), TCC_OK);
    const float *a = f->store.entries.data[0].data, *b = f->store.entries.data[1].data;
    assert_memory_equal(b, other.entries.data[0].data, 4000);
    assert_memory_not_equal(a, b, 4000);
    double mean = 0, square = 0;
    for (int i = 0; i < 1000; i++) mean += a[i] / 1000.0, square += a[i] * a[i] / 1000.0;
    assert_true(mean > -0.1 && mean < 0.1 && square > 0.85 && square < 1.15); /* 3 standard errors */
    tcc_store_free(&other);
}

static void wrong_layers_say_so(void **state) {
    fixture *f = *state;
    tcc_resnet(&f->trace, tcc_input(&f->trace, "x"), &(tcc_resnet_options){.depth = 19});
    assert_non_null(strstr(tcc_diag_text(&f->cx.diag), "resnet: error: depth must be 18, 34 or 50, not 19"));
}

static void axes_out_of_range(void **state) {
    fixture *f = *state;
    tcc_softmax(tcc_input(&f->trace, "x"), 2);
    int line = __LINE__ - 1;
    check_error(f, TCC_EINVAL, line, "softmax: axis 2 is out of range for f32[4,16]");
}

static void attention_with_mask_and_dropout(void **state) {
    fixture *f = *state;
    tcc_trace *t = &f->trace;
    tcc_tensor q = tcc_param(t, "q", (tcc_init){0}, TCC_DIMS(2, 3, 4, 5)),
               k = tcc_param(t, "k", (tcc_init){0}, TCC_DIMS(2, 3, 6, 5));
    tcc_tensor padding = tcc_constant(t, 1, TCC_BOOL, TCC_DIMS(2, 1, 1, 6));
    const tcc_node *plain = tcc_attention(q, k, k).node;
    assert_int_equal(plain->n_operands, 3);
    assert_int_equal(plain->type.dims[2], 4);
    const tcc_node *n = tcc_attention(q, k, k, .mask = padding, .dropout = 0.25).node;
    assert_int_equal(n->n_operands, 5);
    assert_int_equal(n->operands[3]->op, TCC_OP_BROADCAST);
    assert_int_equal(tcc_type_numel(&n->operands[3]->operands[0]->type), 2 * 6);
    assert_ptr_equal(n->operands[4], t->rng_key);
    assert_true(n->attrs->sdpa.p == 0.25);
    const tcc_node *again = tcc_attention(q, k, k, .mask = padding, .dropout = 0.25).node;
    assert_int_equal(again->attrs->sdpa.id, n->attrs->sdpa.id + 1);
    t->training = false;
    assert_ptr_equal(tcc_attention(q, k, k, .dropout = 0.25).node, plain);
    t->training = true;
    tcc_attention(q, k, k, .mask = tcc_constant(t, 0, TCC_F32, TCC_DIMS(3, 6)));
    int line = __LINE__ - 1;
    check_error(f, TCC_ESHAPE, line, "attention: the mask, f32[3,6], does not broadcast to the scores, f32[2,3,4,6]");
}

static void dropout_of_all_is_refused(void **state) {
    fixture *f = *state;
    tcc_tensor q = tcc_param(&f->trace, "q", (tcc_init){0}, TCC_DIMS(4, 5));
    tcc_attention(q, q, q, .dropout = 1);
    int line = __LINE__ - 1;
    check_error(f, TCC_EINVAL, line, "attention: dropout must be in [0, 1), not 1");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(shapes_broadcast_from_the_right),
        CASE(a_wrong_shape_names_the_line_once),
        CASE(shapes_that_do_not_broadcast),
        CASE(types_must_agree),
        CASE(a_missing_input_lists_what_was_given),
        CASE(the_loss_is_a_scalar),
        CASE(names_follow_scopes_and_tie),
        CASE(places_follow_scopes_and_layers),
        CASE(a_parameter_has_one_shape),
        CASE(open_scopes_are_an_error),
        CASE(draws_depend_on_seed_and_name_alone),
        CASE(wrong_layers_say_so),
        CASE(axes_out_of_range),
        CASE(attention_with_mask_and_dropout),
        CASE(dropout_of_all_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
