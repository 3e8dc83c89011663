/* SPDX-License-Identifier: MIT
 * Faults that programs really had, each planted again at a seam of the linker, and found by tcc_model_verify: updates
 * of a scatter that are lost, column sums that are read after something was written over them, running sums in float32,
 * norms without their eps, sums that lost a factor, parts of a concat and slices at the wrong place, steps that fp16
 * skips by halves or for nothing, sums over micro-batches. One table; without its fault each model is accepted. */
#include "harness/check.h"
#include "harness/optimizer.h"
#include "codegen/build.h"
#include "codegen/schedule/lowering.h"
#include "codegen/schedule/scan.h"
#include "passes/pass.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* -- Faults. Each says how often it was planted, so that none is tested in vain. -- */

static enum fault {
    NONE,
    LAST_UPDATE,   /* of a scatter, alone counts: what was there is read before the loop */
    OVERWRITTEN,   /* row sums lie over what the column sums' second launch still reads */
    NARROW_SUM,    /* a running result is held in float32 */
    NO_EPS,        /* of a norm */
    LOST_FACTOR,   /* of a sum over what was broadcast: a mean instead, as a pass might write */
    PARTS_SWAPPED, /* of a concat, by a pass */
    SLICE_SHIFTED,
    NOT_HELD,    /* a norm's running statistics, in a step that is skipped */
    ALWAYS_GOOD, /* no gradient is looked at */
    NEVER_GOOD,
    SUM_SUBTRACTED,   /* of micro-batches, what comes */
    DECAY_SUBTRACTED, /* is not divided */
    SUM_BEGUN_ANEW,   /* by each of them, in the graph */
} fault;
static int planted;

static bool adds_to_what_it_loads(const tcc_expr *x) {
    return x && x->kind == TCC_EXPR_POINT && x->op == TCC_OP_ADD && x->operands[0]->kind == TCC_EXPR_LOAD;
}

/* A load of what earlier turns of the loops wrote that no longer says so. */
static void lose_updates(const tcc_lowering *l, tcc_body *b) {
    const tcc_op op = l->group->hero->op;
    if ((op != TCC_OP_SCATTER_ADD && op != TCC_OP_SCATTER_ADD_ALONG) || !b->stores.count ||
        !adds_to_what_it_loads(b->stores.data[0].value))
        return;
    tcc_expr *sum = (tcc_expr *)b->stores.data[0].value, *old = (tcc_expr *)sum->operands[0];
    const uint64_t before = old->loops;
    old->loops &= tcc_affine_loops(b, &old->affine);
    sum->loops = old->loops | sum->operands[1]->loops;
    planted += old->loops != before;
}

tcc_status __real_tcc_lowering_keep(tcc_lowering *l, tcc_body *b);
tcc_status __wrap_tcc_lowering_keep(tcc_lowering *l, tcc_body *b);
tcc_status __wrap_tcc_lowering_keep(tcc_lowering *l, tcc_body *b) {
    if (fault == LAST_UPDATE && b->status == TCC_OK) lose_updates(l, b);
    return __real_tcc_lowering_keep(l, b);
}

/* Running results of float32, which are in double precision, are rounded after each step. */
tcc_emit_value __real_tcc_scan_apply(tcc_emitter *e, tcc_scan_map map, tcc_emit_value y);
tcc_emit_value __wrap_tcc_scan_apply(tcc_emitter *e, tcc_scan_map map, tcc_emit_value y);
tcc_emit_value __wrap_tcc_scan_apply(tcc_emitter *e, tcc_scan_map map, tcc_emit_value y) {
    y = __real_tcc_scan_apply(e, map, y);
    tcc_emit_type type = tcc_emit_type_of(y);
    if (fault != NARROW_SUM || type != tcc_emit_type_like(e, e->f64, type)) return y;
    planted++;
    return tcc_emit_fpext(e, tcc_emit_fptrunc(e, y, tcc_emit_type_like(e, e->f32, type)), type);
}

static tcc_place *place_of(tcc_graph *g, const tcc_node *n) {
    for (int i = 0; n && i < g->places.count; i++)
        if (g->places.data[i].node == n) return &g->places.data[i];
    return NULL;
}

/* What the first launch of a reduction writes gets the place of what its last launch reads, of equal size. */
static void overlap(tcc_graph *g, const tcc_group *group) {
    const tcc_implementation *x = group->implementation;
    if (group->kind != TCC_GROUP_REDUCE || x->n_launches < 2) return;
    const tcc_launch *first = &x->launches[0], *last = &x->launches[x->n_launches - 1];
    for (int i = 0; i < first->n_writes; i++)
        for (int k = 0; k < last->n_reads; k++) {
            tcc_place *written = place_of(g, first->writes[i].node);
            const tcc_place *read = place_of(g, last->reads[k].node);
            if (!written || !read || tcc_type_bytes(&written->node->type) != tcc_type_bytes(&read->node->type))
                continue;
            written->offset_bytes = read->offset_bytes;
            planted++;
        }
}

tcc_status __real_tcc_pass_plan_memory(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
tcc_status __wrap_tcc_pass_plan_memory(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
tcc_status __wrap_tcc_pass_plan_memory(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_status status = __real_tcc_pass_plan_memory(cx, in, out);
    if (status != TCC_OK || fault != OVERWRITTEN || cx->options->apart) return status;
    for (int i = 0; i < (*out)->groups.count; i++) overlap(*out, &(*out)->groups.data[i]);
    return status;
}

tcc_status __real_tcc_pass_decompose(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
tcc_status __wrap_tcc_pass_decompose(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
tcc_status __wrap_tcc_pass_decompose(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_status status = __real_tcc_pass_decompose(cx, in, out);
    for (int i = 0; status == TCC_OK && i < (*out)->nodes.count; i++) {
        tcc_node *n = (*out)->nodes.data[i];
        if (fault == LOST_FACTOR && n->op == TCC_OP_REDUCE_SUM && n->type.rank) {
            n->op = TCC_OP_REDUCE_MEAN;
            planted++;
        } else if (fault == PARTS_SWAPPED && n->op == TCC_OP_CONCAT && n->n_operands > 1) {
            tcc_node **operands = (tcc_node **)n->operands, *part = operands[0];
            operands[0] = operands[1], operands[1] = part;
            planted++;
        }
    }
    return status;
}

/* What a step that is skipped keeps is the last operand of a select. */
static bool is_of_buffer(const tcc_graph *g, const tcc_output *o) {
    return o->alias >= 0 && o->node->op == TCC_OP_SELECT && strstr(g->inputs.data[o->alias]->attrs->input.name, "run");
}

tcc_status __real_tcc_pass_train_step(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
tcc_status __wrap_tcc_pass_train_step(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
tcc_status __wrap_tcc_pass_train_step(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_status status = __real_tcc_pass_train_step(cx, in, out);
    for (int i = 0; status == TCC_OK && fault == NOT_HELD && i < (*out)->outputs.count; i++) {
        tcc_output *o = &(*out)->outputs.data[i];
        if (!is_of_buffer(*out, o)) continue;
        o->node = o->node->operands[1];
        planted++;
    }
    for (int i = 0; status == TCC_OK && fault == SUM_BEGUN_ANEW && i < (*out)->outputs.count; i++) {
        tcc_output *o = &(*out)->outputs.data[i];
        if (strncmp(o->name, TCC_SUM_PREFIX, sizeof TCC_SUM_PREFIX - 1) != 0) continue;
        o->node = o->node->operands[1];
        planted++;
    }
    for (int i = 0; status == TCC_OK && (fault == ALWAYS_GOOD || fault == NEVER_GOOD) && i < (*out)->nodes.count; i++) {
        tcc_node *n = (*out)->nodes.data[i], **operands = (tcc_node **)n->operands;
        if (n->op != TCC_OP_SELECT || n->operands[0]->op != TCC_OP_ISFINITE) continue;
        operands[1] = operands[2] = operands[fault == ALWAYS_GOOD ? 1 : 2];
        planted++;
    }
    return status;
}

static bool reads_sum(const tcc_node *n) {
    for (int i = 0; i < n->n_operands; i++) {
        const tcc_node *x = n->operands[i];
        if (x->op == TCC_OP_INPUT && !strncmp(x->attrs->input.name, TCC_SUM_PREFIX, sizeof TCC_SUM_PREFIX - 1))
            return true;
    }
    return false;
}

static bool is_parameter(const tcc_node *n) { return n->op == TCC_OP_INPUT && n->attrs->input.role == TCC_ROLE_PARAM; }

/* A sum and a part of the parameter, as the update adds up. */
static bool adds_decay(const tcc_node *n) {
    bool decays = false;
    for (int i = 0; i < n->n_operands; i++)
        for (int k = 0; k < n->operands[i]->n_operands; k++) decays |= is_parameter(n->operands[i]->operands[k]);
    return decays && reads_sum(n);
}

/* Breaks the node in what codegen sees. Returns whether it did. */
static bool break_node(tcc_node *n) {
    if ((fault == SUM_SUBTRACTED && n->op == TCC_OP_ADD && reads_sum(n)) ||
        (fault == DECAY_SUBTRACTED && n->op == TCC_OP_ADD && adds_decay(n))) {
        n->op = TCC_OP_SUB;
        return true;
    }
    if (fault == NO_EPS && n->op == TCC_OP_CONSTANT && n->attrs->constant.values.count == 1 &&
        n->attrs->constant.values.v[0] == (double)1e-5f) {
        *(double *)n->attrs->constant.values.v = 0;
        return true;
    }
    if (fault == SLICE_SHIFTED && n->op == TCC_OP_SLICE && n->attrs->slice.start.v[0] > 0) {
        tcc_attrs *attrs = (tcc_attrs *)n->attrs;
        attrs->slice.start.v[0]--, attrs->slice.limit.v[0]--;
        return true;
    }
    return false;
}

/* The graph itself is right. */
static void mend_node(tcc_node *n) {
    tcc_attrs *attrs = (tcc_attrs *)n->attrs;
    if (n->op == TCC_OP_SUB) n->op = TCC_OP_ADD;
    else if (n->op == TCC_OP_CONSTANT) *(double *)attrs->constant.values.v = (double)1e-5f;
    else attrs->slice.start.v[0]++, attrs->slice.limit.v[0]++;
}

tcc_status __real_tcc_codegen_build(tcc_context *cx, tcc_diag *diag, const tcc_graph *g,
                                    const tcc_codegen_options *options, tcc_program **out);
tcc_status __wrap_tcc_codegen_build(tcc_context *cx, tcc_diag *diag, const tcc_graph *g,
                                    const tcc_codegen_options *options, tcc_program **out);
tcc_status __wrap_tcc_codegen_build(tcc_context *cx, tcc_diag *diag, const tcc_graph *g,
                                    const tcc_codegen_options *options, tcc_program **out) {
    bool *broken = calloc((size_t)g->nodes.count + 1, sizeof *broken);
    for (int i = 0; i < g->nodes.count; i++) planted += broken[i] = break_node(g->nodes.data[i]);
    tcc_status status = __real_tcc_codegen_build(cx, diag, g, options, out);
    for (int i = 0; i < g->nodes.count; i++)
        if (broken[i]) mend_node(g->nodes.data[i]);
    free(broken);
    return status;
}

/* -- Models -- */

#define UNIFORM ((tcc_init){.kind = TCC_INIT_UNIFORM, .a = -1, .b = 1})

/* A sum in which no two elements count the same. */
static tcc_tensor weighed(tcc_trace *t, tcc_tensor x) {
    x = tcc_flatten(x, 0);
    tcc_tensor number = tcc_iota(t, 0, TCC_F32, TCC_DIMS(tcc_dim(x, 0)));
    return tcc_sum(tcc_mul(x, tcc_sin(tcc_add_scalar(number, 1))), TCC_ALL);
}

static void constant_index(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor table = tcc_param(t, "table", UNIFORM, TCC_DIMS(5, 24));
    tcc_loss(t, weighed(t, tcc_take(table, tcc_constant(t, 3, TCC_I32, TCC_DIMS(7)), 0)));
}

/* One type a sequence, as BERT's tokens have. */
static void embedding_by_sequence(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor types = tcc_iota(t, 0, TCC_I32, TCC_DIMS(3, 11));
    tcc_loss(t, weighed(t, tcc_embedding(types, "types", 4, 16)));
}

static void constant_index_along(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_param(t, "x", UNIFORM, TCC_DIMS(9, 6));
    tcc_loss(t, weighed(t, tcc_take_along(x, tcc_constant(t, 2, TCC_I32, TCC_DIMS(9, 6)), 1)));
}

/* Rows and columns of equal extents: the gradient of q is a column sum and what another group has made. */
static void outer_product(tcc_trace *t, void *user) {
    enum { SIZE = 32, TERMS = 8 };
    (void)user;
    tcc_tensor p = tcc_matmul(tcc_param(t, "p", UNIFORM, TCC_DIMS(SIZE, 5)),
                              tcc_param(t, "w", UNIFORM, TCC_DIMS(5, 1)));
    tcc_tensor q = tcc_param(t, "q", UNIFORM, TCC_DIMS(1, SIZE)), d = tcc_param(t, "d", UNIFORM, TCC_DIMS(TERMS, SIZE));
    tcc_tensor a = tcc_sum(tcc_mul(tcc_sin(q), d), TCC_ALL);
    tcc_loss(t, tcc_add(a, weighed(t, tcc_sin(tcc_mul(q, p)))));
}

static void long_running_sum(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_broadcast(tcc_param(t, "x", UNIFORM, TCC_DIMS(4)), TCC_DIMS(30000, 4));
    tcc_loss(t, tcc_mean(tcc_cumsum(tcc_exp(x), 0), TCC_ALL));
}

static void long_recurrence(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_broadcast(tcc_param(t, "x", UNIFORM, TCC_DIMS(4)), TCC_DIMS(30000, 4));
    tcc_loss(t, tcc_mean(tcc_linear_scan(tcc_full_like(x, 1), tcc_exp(x), 0), TCC_ALL));
}

static void norm_of_constant_rows(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_broadcast(tcc_param(t, "x", UNIFORM, TCC_DIMS(6, 1)), TCC_DIMS(6, 48));
    tcc_loss(t, weighed(t, tcc_linear(tcc_layer_norm(x, "norm"), "out", 3)));
}

static void bias_of_rows(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_param(t, "x", UNIFORM, TCC_DIMS(13, 5)), b = tcc_param(t, "b", UNIFORM, TCC_DIMS(5));
    tcc_loss(t, weighed(t, tcc_tanh(tcc_add(x, b))));
}

static void many_parts(tcc_trace *t, void *user) {
    enum { PARTS = 40 };
    tcc_tensor x = tcc_param(t, "x", UNIFORM, TCC_DIMS(2, 3)), parts[PARTS];
    (void)user;
    for (int i = 0; i < PARTS; i++) x = parts[i] = tcc_sin(tcc_add_scalar(x, 0.3));
    tcc_loss(t, weighed(t, tcc_concat(parts, PARTS, 0)));
}

static void many_slices(tcc_trace *t, void *user) {
    enum { PARTS = 30 };
    tcc_tensor x = tcc_param(t, "x", UNIFORM, TCC_DIMS(PARTS, 4)), h = tcc_param(t, "h", UNIFORM, TCC_DIMS(1, 4));
    (void)user;
    for (int i = 0; i < PARTS; i++) h = tcc_tanh(tcc_add(tcc_scale(h, 0.5), tcc_slice(x, 0, i, i + 1)));
    tcc_loss(t, weighed(t, h));
}

/* In fp16 the gradient of a sum is the loss's scale, which f16 does not hold. */
static void overflowing(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_param(t, "x", UNIFORM, TCC_DIMS(6, 5));
    tcc_tensor h = tcc_batch_norm(tcc_linear(x, "in", 4, .no_bias = true), "norm");
    tcc_loss(t, weighed(t, tcc_linear(h, "out", 3)));
}

static void of_small_gradients(tcc_trace *t, void *user) {
    (void)user;
    tcc_loss(t, tcc_scale(weighed(t, tcc_linear(tcc_param(t, "x", UNIFORM, TCC_DIMS(6, 5)), "out", 3)), 1e-4));
}

enum { SAMPLES = 5, FEATURES = 3 };

static void of_samples(tcc_trace *t, void *user) {
    (void)user;
    tcc_loss(t, tcc_mean(tcc_square(tcc_linear(tcc_input(t, "x"), "out", 2)), TCC_ALL));
}

/* -- The table -- */

#define A_KERNEL "every graph is right: the code generated for group "
#define THE_PLAN "every kernel by itself is right: the steps or the memory plan are wrong"
#define ITS_KERNEL "the code generated for group "
#define A_PASS "the first wrong graph comes out of pass decompose"

static const struct {
    enum fault fault;
    const char *name;
    tcc_model_fn model;
    const char *found; /* what is said of the cause */
    bool fused;        /* the fault needs a fused program */
    bool fp16;
    int micro_batches; /* 0: there is no batch */
} faults[] = {
    {LAST_UPDATE, "a constant index", constant_index, A_KERNEL, false, false, 0},
    {LAST_UPDATE, "an index a sequence", embedding_by_sequence, A_KERNEL, true, false, 0},
    {LAST_UPDATE, "a constant index along an axis", constant_index_along, A_KERNEL, false, false, 0},
    {OVERWRITTEN, "rows' sums over an operand of columns' sums", outer_product, THE_PLAN, true, false, 0},
    {NARROW_SUM, "a running sum of 30,000 terms", long_running_sum, A_KERNEL, false, false, 0},
    {NARROW_SUM, "a recurrence of 30,000 terms", long_recurrence, A_KERNEL, false, false, 0},
    {NO_EPS, "a norm of constant rows", norm_of_constant_rows, A_KERNEL, false, false, 0},
    {LOST_FACTOR, "the gradient of a bias", bias_of_rows, A_PASS, false, false, 0},
    {PARTS_SWAPPED, "a concat of 40 parts", many_parts, A_PASS, false, false, 0},
    {SLICE_SHIFTED, "30 slices", many_slices, A_KERNEL, false, false, 0},
    {NOT_HELD, "statistics of a skipped step", overflowing, "is changed by a step that is skipped", false, true, 0},
    {ALWAYS_GOOD, "a step that must be skipped", overflowing, "but the step is not skipped", false, true, 0},
    {NEVER_GOOD, "a step that must not", of_small_gradients, "but all gradients are finite", false, true, 0},
    {SUM_SUBTRACTED, "the second micro-batch", of_samples, ITS_KERNEL, false, false, 2},
    {DECAY_SUBTRACTED, "the update of three", of_samples, "differs from the interpreter", false, false, 3},
    {SUM_BEGUN_ANEW, "the sum of three", of_samples, "what adds to the sums of micro-batches", false, false, 3},
};

static bool is_as_expected(int row, enum fault what, tcc_mode mode) {
    const tcc_optimizer_options decaying = OPTIMIZER(TCC_SGD, 0.1, .weight_decay = 0.5);
    const tcc_model_options options = {.size = sizeof options,
                                       .optimizer = faults[row].fault == DECAY_SUBTRACTED ? &decaying : NULL,
                                       .mode = mode,
                                       .mixed_precision = faults[row].fp16 ? TCC_MIXED_FP16 : TCC_MIXED_NONE,
                                       .batch_accumulate = faults[row].micro_batches};
    float x[SAMPLES * FEATURES];
    for (int i = 0; i < SAMPLES * FEATURES; i++) x[i] = (float)(i % 7 - 3) / 4;
    const tcc_array batch = {"x", TCC_F32, 2, {SAMPLES, FEATURES}, x};
    tcc_context *cx;
    tcc_model *m;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_int_equal(tcc_model_create(cx, faults[row].model, NULL, &options, &m), TCC_OK);
    planted = 0;
    fault = what;
    const tcc_status status = tcc_model_verify(m, &batch, faults[row].micro_batches ? 1 : 0, 0, NULL);
    fault = NONE;
    const char *text = tcc_context_error(cx), *expected = what ? faults[row].found : "";
    const bool ok = status == (what ? TCC_EBUG : TCC_OK) && strstr(text, expected) && (planted > 0) == (what != NONE);
    if (!ok)
        print_error("%s, %s, %s, planted %d times: %s: %s\n", faults[row].name, mode ? "eager" : "default",
                    what ? "wrong" : "right", planted, tcc_status_name(status), text);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return ok;
}

static void each_is_found(void **state) {
    (void)state;
    int failed = 0;
    for (int i = 0; i < (int)(sizeof faults / sizeof *faults); i++)
        for (int eager = 0; eager < (faults[i].fused ? 1 : 2); eager++) {
            const tcc_mode mode = eager ? TCC_MODE_EAGER : TCC_MODE_DEFAULT;
            failed += !is_as_expected(i, NONE, mode);
            failed += !is_as_expected(i, faults[i].fault, mode);
        }
    assert_int_equal(failed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
