/* SPDX-License-Identifier: MIT
 * Tracing: shapes and broadcasting, names, and errors that name the user's line. */
#include "harness/check.h"
#include "harness/tracing.h"
#include "ir/support/element.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>

typedef struct fixture {
    tracing of;
    float data[64];
    int32_t labels[8];
    tcc_array batch[2];
} fixture;

static int begin(void **state) {
    static fixture f;
    f = (fixture){0};
    f.batch[0] = (tcc_array){.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {4, 16}, .data = f.data};
    f.batch[1] = (tcc_array){.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {4}, .data = f.labels};
    *state = &f;
    return tracing_begin(&f.of, f.batch, 2);
}

static int end(void **state) { return tracing_end(&((fixture *)*state)->of); }

/* The first error has `status`, this file, that line and the text. */
static void check_error(fixture *f, tcc_status status, int line, const char *text) {
    char place[64];
    snprintf(place, sizeof place, "test_trace.c:%d: error: ", line);
    assert_int_equal(f->of.cx.diag.status, status);
    const char *message = tcc_diag_text(&f->of.cx.diag);
    if (!strstr(message, place) || !strstr(message, text))
        fail_msg("\"%s\" does not say \"%s%s\"", message, place, text);
}

static void shapes_broadcast_from_the_right(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_input(&f->of.trace, "x"), row = tcc_param(&f->of.trace, "row", (tcc_init){0}, TCC_DIMS(16));
    tcc_tensor column = tcc_param(&f->of.trace, "column", (tcc_init){0}, TCC_DIMS(4, 1));
    tcc_tensor y = tcc_add(tcc_mul(x, row), column);
    assert_int_equal(tcc_rank(y), 2);
    assert_int_equal(tcc_dim(y, 0), 4);
    assert_int_equal(tcc_dim(y, -1), 16);
    tcc_tensor outer = tcc_sub(tcc_reshape(row, TCC_DIMS(1, -1)), tcc_reshape(row, TCC_DIMS(16, 1)));
    assert_int_equal(tcc_dim(outer, 0), 16);
    assert_int_equal(tcc_dim(outer, 1), 16);
    assert_string_equal(tcc_diag_text(&f->of.cx.diag), "");
}

static void a_wrong_shape_names_the_line_once(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_input(&f->of.trace, "x"), w = tcc_param(&f->of.trace, "w", (tcc_init){0}, TCC_DIMS(8, 3));
    tcc_tensor y = tcc_matmul(x, w);
    int line = __LINE__ - 1;
    assert_null(y.node);
    tcc_tensor z = tcc_relu(tcc_add(y, tcc_reshape(y, TCC_DIMS(7)))); /* poisoned: no second message */
    assert_null(z.node);
    assert_int_equal(tcc_rank(z), 0);
    check_error(f, TCC_ESHAPE, line, "matmul: inner dimensions differ: f32[4,16] x f32[8,3] (16 vs 8)");
    assert_non_null(strstr(tcc_diag_text(&f->of.cx.diag), "note: second operand made here"));
}

static void shapes_that_do_not_broadcast(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_input(&f->of.trace, "x"), b = tcc_param(&f->of.trace, "b", (tcc_init){0}, TCC_DIMS(5));
    tcc_add(x, b);
    int line = __LINE__ - 1;
    check_error(f, TCC_ESHAPE, line, "add: shapes do not broadcast: f32[4,16] and f32[5] (16 against 5)");
}

static void types_must_agree(void **state) {
    fixture *f = *state;
    tcc_add(tcc_reshape(tcc_input(&f->of.trace, "y"), TCC_DIMS(4, 1)), tcc_input(&f->of.trace, "x"));
    int line = __LINE__ - 1;
    check_error(f, TCC_EDTYPE, line, "add");
}

static void a_missing_input_lists_what_was_given(void **state) {
    fixture *f = *state;
    tcc_input(&f->of.trace, "z");
    int line = __LINE__ - 1;
    check_error(f, TCC_ENOTFOUND, line, "no batch array is named \"z\"; given: \"x\", \"y\"");
}

static void the_loss_is_a_scalar(void **state) {
    fixture *f = *state;
    tcc_loss(&f->of.trace, tcc_input(&f->of.trace, "x"));
    int line = __LINE__ - 1;
    check_error(f, TCC_ESHAPE, line, "the loss must be a scalar f32[], not f32[4,16]");
}

static void names_follow_scopes_and_tie(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_input(&f->of.trace, "x");
    tcc_scope(&f->of.trace, "h.%d", 3);
    tcc_tensor a = tcc_linear(x, "fc", 16), b = tcc_linear(x, "fc", 16);
    tcc_scope_end(&f->of.trace);
    tcc_linear(x, "fc", 8);
    assert_ptr_equal(a.node, b.node);
    assert_int_equal(f->of.store.entries.count, 4);
    assert_true(tcc_store_find(&f->of.store, "h.3.fc.weight") >= 0);
    assert_true(tcc_store_find(&f->of.store, "fc.bias") >= 0);
}

/* A model without source: its errors and reports say which layer. */
static void places_follow_scopes_and_layers(void **state) {
    fixture *f = *state;
    tcc_trace *t = &f->of.trace;
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
    assert_non_null(strstr(tcc_diag_text(&f->of.cx.diag), "net: error: "));
}

static void a_parameter_has_one_shape(void **state) {
    fixture *f = *state;
    tcc_param(&f->of.trace, "w", (tcc_init){0}, TCC_DIMS(2, 3));
    tcc_param(&f->of.trace, "w", (tcc_init){0}, TCC_DIMS(3, 2));
    int line = __LINE__ - 1;
    check_error(f, TCC_ESHAPE, line, "\"w\" is asked for as a parameter f32[3,2], but it is a parameter f32[2,3]");
}

static void open_scopes_are_an_error(void **state) {
    fixture *f = *state;
    tcc_graph *g;
    tcc_scope(&f->of.trace, "block");
    assert_int_equal(tcc_trace_end(&f->of.trace, &g), TCC_EINVAL);
    assert_non_null(strstr(tcc_diag_text(&f->of.cx.diag), "1 tcc_scope without tcc_scope_end"));
}

static void draws_depend_on_seed_and_name_alone(void **state) {
    fixture *f = *state;
    const tcc_init normal = {.kind = TCC_INIT_NORMAL, .b = 1};
    tcc_param(&f->of.trace, "a", normal, TCC_DIMS(1000));
    tcc_param(&f->of.trace, "b", normal, TCC_DIMS(1000));
    tcc_store other = {.seed = 5};
    tcc_type type = {.dtype = TCC_F32, .rank = 1, .dims = {1000}};
    int index;
    assert_int_equal(tcc_store_add(&other, "b", TCC_ROLE_PARAM, &type, &normal, &f->of.cx.diag, TCC_HERE, &index),
                     TCC_OK);
    assert_int_equal(tcc_store_fill(&f->of.store, &f->of.cx.diag), TCC_OK);
    assert_int_equal(tcc_store_fill(&other, &f->of.cx.diag), TCC_OK);
    const float *a = f->of.store.entries.data[0].data, *b = f->of.store.entries.data[1].data;
    assert_memory_equal(b, other.entries.data[0].data, 4000);
    assert_memory_not_equal(a, b, 4000);
    double mean = 0, square = 0;
    for (int i = 0; i < 1000; i++) mean += a[i] / 1000.0, square += a[i] * a[i] / 1000.0;
    assert_true(mean > -0.1 && mean < 0.1 && square > 0.85 && square < 1.15); /* 3 standard errors */
    tcc_store_free(&other);
}

/* What an f64 entry holds, rounded once. */
static void initial_values_have_the_type_of_their_entry(void **state) {
    fixture *f = *state;
    static const tcc_init inits[] = {{0},
                                     {.kind = TCC_INIT_CONSTANT, .a = 1 + 0x1p-8 + 0x1p-40},
                                     {.kind = TCC_INIT_NORMAL, .b = 3},
                                     {.kind = TCC_INIT_TRUNC_NORMAL, .b = 300},
                                     {.kind = TCC_INIT_UNIFORM, .a = -2, .b = 90}};
    for (size_t k = 0; k < sizeof inits / sizeof inits[0]; k++) {
        tcc_store stores[TCC_DTYPE_COUNT] = {{.seed = 5}};
        for (tcc_dtype t = 0; t < TCC_DTYPE_COUNT; t++) {
            const tcc_type type = {t, 2, {40, 50}};
            int index;
            stores[t].seed = 5;
            assert_ok(
                tcc_store_add(&stores[t], "p", TCC_ROLE_STATE, &type, &inits[k], &f->of.cx.diag, TCC_HERE, &index),
                &f->of.cx.diag);
            assert_ok(tcc_store_fill(&stores[t], &f->of.cx.diag), &f->of.cx.diag);
            const double *exact = stores[TCC_F64].entries.data[0].data;
            for (int i = 0; i < 2000; i++)
                assert_true(tcc_element_get(t, stores[t].entries.data[0].data, i) == tcc_dtype_round(t, exact[i]));
        }
        for (tcc_dtype t = 0; t < TCC_DTYPE_COUNT; t++) tcc_store_free(&stores[t]);
    }
}

/* Whatever thread draws which part, and when. Of the truncated kind each part begins anew, too. */
static void parts_are_drawn_in_any_order(void **state) {
    fixture *f = *state;
    static const tcc_init_kind kinds[] = {TCC_INIT_NORMAL, TCC_INIT_TRUNC_NORMAL, TCC_INIT_UNIFORM, TCC_INIT_CONSTANT,
                                          TCC_INIT_ZEROS};
    static const int64_t extents[] = {1, 16384, 33410, 50000, 7};
    tcc_store whole = {.seed = 9}, parted = {.seed = 9};
    tcc_store *const stores[] = {&whole, &parted};
    int64_t parts;
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < 25; k++) {
            const tcc_type type = {k % 2 ? TCC_F32 : TCC_BF16, 1, {extents[k / 5]}};
            const tcc_init init = {.kind = kinds[k % 5], .a = 0.5, .b = 2};
            char name[16];
            int index;
            snprintf(name, sizeof name, "p%d", k);
            assert_ok(tcc_store_add(stores[s], name, TCC_ROLE_PARAM, &type, &init, &f->of.cx.diag, TCC_HERE, &index),
                      &f->of.cx.diag);
        }
    assert_ok(tcc_store_fill(&whole, &f->of.cx.diag), &f->of.cx.diag);
    assert_ok(tcc_store_reserve(&parted, &f->of.cx.diag, &parts), &f->of.cx.diag);
    assert_int_equal(parts, 4 * (1 + 1 + 3 + 4 + 1));
    for (int64_t end = parts; end > 0; end -= 3) tcc_store_initialize(&parted, end > 3 ? end - 3 : 0, end);
    tcc_store_filled(&parted);
    for (int k = 0; k < 25; k++) {
        const tcc_stored *p = &whole.entries.data[k];
        assert_memory_equal(p->data, parted.entries.data[k].data, tcc_type_bytes(&p->type));
        for (int i = 0; kinds[k % 5] == TCC_INIT_TRUNC_NORMAL && i < p->type.dims[0]; i++)
            assert_true(fabs(tcc_element_get(p->type.dtype, p->data, i) - 0.5) <= 4);
    }
    const float *truncated = whole.entries.data[11].data; /* 33,410 of them */
    assert_int_equal(whole.entries.data[11].type.dtype, TCC_F32);
    assert_memory_not_equal(truncated, truncated + 16384, 16384 * sizeof *truncated);
    tcc_store_free(&whole);
    tcc_store_free(&parted);
}

static void wrong_layers_say_so(void **state) {
    fixture *f = *state;
    tcc_resnet(&f->of.trace, tcc_input(&f->of.trace, "x"), &(tcc_resnet_options){.depth = 19});
    assert_non_null(strstr(tcc_diag_text(&f->of.cx.diag), "resnet: error: depth must be 18, 34 or 50, not 19"));
}

static void axes_out_of_range(void **state) {
    fixture *f = *state;
    tcc_softmax(tcc_input(&f->of.trace, "x"), 2);
    int line = __LINE__ - 1;
    check_error(f, TCC_EINVAL, line, "softmax: axis 2 is out of range for f32[4,16]");
}

static void attention_with_mask_and_dropout(void **state) {
    fixture *f = *state;
    tcc_trace *t = &f->of.trace;
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
    tcc_tensor q = tcc_param(&f->of.trace, "q", (tcc_init){0}, TCC_DIMS(4, 5));
    tcc_attention(q, q, q, .dropout = 1);
    int line = __LINE__ - 1;
    check_error(f, TCC_EINVAL, line, "attention: dropout must be in [0, 1), not 1");
}

/* -- Values that a type cannot hold -- */

/* The last statement of the line before recorded an error with this text; the next one may record another. */
static void check_and_forget(fixture *f, tcc_status status, int line, const char *text) {
    check_error(f, status, line, text);
    tcc_diag_clear(&f->of.cx.diag);
}

static void integers_have_no_fractions(void **state) {
    fixture *f = *state;
    tcc_trace *t = &f->of.trace;
    tcc_tensor y = tcc_input(t, "y");
    tcc_mean(y, TCC_ALL);
    check_and_forget(f, TCC_EDTYPE, __LINE__ - 1, "mean: the mean of i32[4] is no integer; convert first");
    tcc_mean(tcc_eq(y, y), TCC_ALL);
    check_and_forget(f, TCC_EDTYPE, __LINE__ - 1, "mean: the mean of bool[4] is no integer");
    tcc_scale(y, 2.6);
    check_and_forget(f, TCC_EDTYPE, __LINE__ - 1, "scale: 2.6 is no value of i32");
    tcc_add_scalar(y, 3e9);
    check_and_forget(f, TCC_EDTYPE, __LINE__ - 1, "add_scalar: 3000000000 is no value of i32");
    tcc_pad(y, 0, 1, 1, NAN);
    check_and_forget(f, TCC_EDTYPE, __LINE__ - 1, "pad: nan is no value of i32");
    tcc_constant(t, 2, TCC_BOOL, TCC_DIMS(3));
    check_and_forget(f, TCC_EDTYPE, __LINE__ - 1, "constant: 2 is no value of bool");
    tcc_literal(t, ((double[]){255, 256}), TCC_U8, TCC_DIMS(2));
    check_and_forget(f, TCC_EDTYPE, __LINE__ - 1, "literal: 256 is no value of u8");
    tcc_dropout(y, 0.5);
    check_and_forget(f, TCC_EDTYPE, __LINE__ - 1, "dropout: x is i32[4]");
    tcc_mse_loss(y, y);
    check_and_forget(f, TCC_EDTYPE, __LINE__ - 1, "mse_loss: x is i32[4]; convert it first");
    assert_non_null(tcc_add_scalar(tcc_scale(y, -2), 3).node);
    assert_non_null(tcc_constant(t, -9223372036854775808.0, TCC_I64, TCC_DIMS(2)).node);
    assert_int_equal(f->of.cx.diag.status, TCC_OK);
}

static void names_of_passes_are_reserved(void **state) {
    fixture *f = *state;
    tcc_trace *t = &f->of.trace;
    tcc_tensor x = tcc_input(t, "x");
    tcc_param(t, "@step", (tcc_init){0}, TCC_DIMS(2));
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1,
                     "parameter \"@step\": names that begin with '@' are the library's own");
    tcc_scope(t, "@%d", 3);
    tcc_linear(x, "a", 2);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "parameter \"@3.a.weight\": names that begin with '@'");
    tcc_scope_end(t);
    tcc_output(t, "@step", x);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "output \"@step\": names that begin with '@' are the library's own");
}

static void losses_do_not_broadcast(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_reshape(tcc_input(&f->of.trace, "x"), TCC_DIMS(64, 1)), y = tcc_reshape(x, TCC_DIMS(64));
    tcc_mse_loss(x, y);
    check_and_forget(f, TCC_ESHAPE, __LINE__ - 1, "mse_loss: x is f32[64,1], the target f32[64]; they must have one");
    tcc_l1_loss(y, x);
    check_and_forget(f, TCC_ESHAPE, __LINE__ - 1, "l1_loss: x is f32[64], the target f32[64,1]");
    tcc_bce_with_logits(x, y);
    check_and_forget(f, TCC_ESHAPE, __LINE__ - 1, "bce_with_logits: x is f32[64,1], the target f32[64]");
    tcc_mse_loss(x, tcc_cast(x, TCC_F64));
    check_and_forget(f, TCC_EDTYPE, __LINE__ - 1,
                     "mse_loss: element types differ: x is f32[64,1], the target f64[64,1]");
    assert_int_equal(tcc_rank(tcc_mse_loss(x, tcc_reshape(y, TCC_DIMS(64, 1)))), 0);
    assert_int_equal(f->of.cx.diag.status, TCC_OK);
}

static void constant_targets_are_classes(void **state) {
    fixture *f = *state;
    tcc_trace *t = &f->of.trace;
    tcc_tensor x = tcc_input(t, "x"); /* 16 classes */
    tcc_cross_entropy(x, tcc_literal(t, ((double[]){0, 15, 16, 3}), TCC_I32, TCC_DIMS(4)));
    int line = __LINE__ - 1;
    check_and_forget(
        f, TCC_EINVAL, line,
        "cross_entropy: target 16 is no class of the logits, f32[4,16]: neither in 0 .. 15 nor ignore_index, "
        "-100");
    tcc_cross_entropy(x, tcc_literal(t, ((double[]){0, -1, 5, 3}), TCC_I32, TCC_DIMS(4)));
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "target -1 is no class");
    tcc_cross_entropy(tcc_reshape(x, TCC_DIMS(32, 2)), tcc_iota(t, 0, TCC_I32, TCC_DIMS(32)));
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "target 31 is no class");
    tcc_tensor y = tcc_literal(t, ((double[]){-1, -100, 5, 3}), TCC_I32, TCC_DIMS(4));
    tcc_cross_entropy(x, y, .ignore_index = -1);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "target -100 is no class");
    const tcc_tensor plain = tcc_input(t, "y");
    assert_int_equal(tcc_cross_entropy(x, plain).node->attrs->cross_entropy.ignore_index, -100);
    assert_int_equal(tcc_cross_entropy(x, plain, .ignore_index = 7).node->attrs->cross_entropy.ignore_index, 7);
    assert_int_equal(tcc_cross_entropy(x, plain, .has_ignore_index = true).node->attrs->cross_entropy.ignore_index, 0);
    assert_int_equal(f->of.cx.diag.status, TCC_OK);
}

/* -- Handles that are no values of this trace -- */

static void concat_of_nothing(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_input(&f->of.trace, "x");
    assert_null(tcc_concat(NULL, 0, 0).node);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1,
                     "concat: the list of operands is NULL; it takes one operand at least");
    assert_null(tcc_concat(&x, 0, 0).node);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "concat: no operands; it takes one operand at least");
    assert_int_equal(tcc_dim(tcc_concat(&x, 1, 0), 0), 4);
}

static void a_tensor_that_was_never_assigned(void **state) {
    fixture *f = *state;
    tcc_tensor x = tcc_input(&f->of.trace, "x"), none = {0};
    assert_int_equal(tcc_rank(none), 0);
    tcc_tensor y = tcc_add(x, none);
    int line = __LINE__ - 1;
    assert_null(tcc_relu(y).node);
    check_and_forget(f, TCC_EINVAL, line, "add: operand 2 is no tensor: all zero");
    tcc_relu(none);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "relu: operand 1 is no tensor");
    tcc_linear(none, "fc", 3);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "linear: operand 1 is no tensor");
    tcc_concat(((tcc_tensor[]){x, none}), 2, 0);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "concat: operand 2 is no tensor");
    tcc_take(x, none, 0);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "take: operand 2 is no tensor");
    tcc_loss(&f->of.trace, none);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "loss: operand 1 is no tensor");
    tcc_update(none, x);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "update: operand 1 is no tensor");
}

/* What the earlier trace made is freed: nothing of it may be looked at. */
static void a_tensor_of_an_earlier_trace(void **state) {
    fixture *f = *state;
    tcc_tensor old = tcc_relu(tcc_input(&f->of.trace, "x"));
    tcc_graph *g;
    tcc_trace *t = &f->of.trace;
    assert_int_equal(tcc_trace_end(t, &g), TCC_OK);
    tcc_graph_destroy(g);
    assert_int_equal(tcc_rank(old), 0); /* there is no trace at all */
    assert_null(tcc_relu(old).node);
    assert_null(tcc_concat(&old, 1, 0).node);
    assert_null(tcc_constant(t, 1, TCC_F32, TCC_DIMS(1)).node);
    assert_false(tcc_is_training(t));
    assert_int_equal(tcc_trace_begin(t, "again", &f->of.store, true, f->batch, 2, &f->of.cx.diag), TCC_OK);
    tcc_tensor x = tcc_input(t, "x");
    assert_int_equal(tcc_rank(old), 0);
    assert_int_equal(tcc_dim(old, 0), 1);
    tcc_relu(old);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "relu: operand 1 belongs to another trace; a tensor is valid within");
    tcc_matmul(x, old);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "matmul: operand 2 belongs to another trace");
    tcc_layer_norm(old, "norm");
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "layer_norm: operand 1 belongs to another trace");
    tcc_attention(x, x, x, .mask = old);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "attention: operand 4 belongs to another trace");
    tcc_output(t, "y", old);
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "output: operand 1 belongs to another trace");
    tcc_trace other = *t;
    tcc_param(&other, "w", (tcc_init){0}, TCC_DIMS(2));
    check_and_forget(f, TCC_EINVAL, __LINE__ - 1, "param: the trace is not the one that runs");
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
        CASE(initial_values_have_the_type_of_their_entry),
        CASE(parts_are_drawn_in_any_order),
        CASE(wrong_layers_say_so),
        CASE(axes_out_of_range),
        CASE(attention_with_mask_and_dropout),
        CASE(dropout_of_all_is_refused),
        CASE(integers_have_no_fractions),
        CASE(names_of_passes_are_reserved),
        CASE(losses_do_not_broadcast),
        CASE(constant_targets_are_classes),
        CASE(concat_of_nothing),
        CASE(a_tensor_that_was_never_assigned),
        CASE(a_tensor_of_an_earlier_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
