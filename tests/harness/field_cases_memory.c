/* SPDX-License-Identifier: MIT
 * Values that were overwritten before their last reader, or read where they were not yet whole. */
#include "harness/field_cases.h"

#define CASE(function) .name = #function, .model = function

enum { SIDE = 24 };

static void lerp_moments(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_cast(tcc_input(t, "x"), TCC_BF16), shown[2], loss = {0};
    for (int i = 0; i < 2; i++) {
        tcc_tensor p = FIELD_PARAM(t, i ? "p2" : "p1", SIDE, SIDE),
                   m = FIELD_STATE(t, i ? "m2" : "m1", 0.5, SIDE, SIDE);
        tcc_tensor y = tcc_cast(tcc_matmul(x, tcc_cast(p, TCC_BF16)), TCC_F32);
        tcc_tensor g = tcc_cast(tcc_matmul(field_transposed(x), tcc_cast(y, TCC_BF16)), TCC_F32);
        tcc_tensor next = tcc_add(m, tcc_scale(tcc_sub(g, m), 0.05));
        tcc_update(m, next);
        shown[i] = tcc_sub(p, tcc_scale(next, 0.01));
        tcc_output(t, i ? "q2" : "q1", shown[i]);
        tcc_tensor part = tcc_add(field_weighed(t, y), field_weighed(t, shown[i]));
        loss = i ? tcc_add(loss, part) : part;
        x = tcc_cast(tcc_tanh(y), TCC_BF16);
    }
    tcc_loss(t, loss);
}

static void concat_operands_again(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_input(t, "x"), a = tcc_tanh(tcc_matmul(x, FIELD_PARAM(t, "w", SIDE, SIDE)));
    tcc_tensor b = tcc_relu(tcc_sub(a, x)), c = tcc_concat(((tcc_tensor[]){a, b, a}), 3, 0);
    tcc_tensor squares = tcc_mul(c, c), rest = tcc_add(tcc_slice(squares, 0, SIDE / 2, SIDE / 2 + SIDE), b);
    tcc_output(t, "c", c);
    field_finish(t, tcc_matmul(rest, field_transposed(a)));
}

static void readers_in_turn(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor a = tcc_relu(tcc_matmul(tcc_input(t, "x"), FIELD_PARAM(t, "w", SIDE, SIDE)));
    tcc_tensor rows = tcc_reshape(tcc_sum(a, TCC_DIMS(1)), TCC_DIMS(SIDE, 1)), b = tcc_mul(a, tcc_sigmoid(rows));
    tcc_tensor columns = tcc_reshape(tcc_sum(b, TCC_DIMS(0)), TCC_DIMS(1, SIDE));
    tcc_tensor c = tcc_mul(tcc_add(field_transposed(a), b), tcc_tanh(columns));
    tcc_output(t, "b", b);
    field_finish(t, tcc_add(tcc_matmul(c, a), b));
}

static void flip_after_update(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor s = FIELD_STATE(t, "s", 0.5, 12, 40), twice = tcc_add(tcc_scale(s, 2), tcc_input(t, "x"));
    tcc_tensor next = tcc_scale(tcc_add(twice, tcc_flip(twice, 0)), 0.3);
    tcc_update(s, next);
    field_finish(t, tcc_mul(next, FIELD_PARAM(t, "p", 12, 40)));
}

static void flip_in_place(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor s = FIELD_STATE(t, "s", 0.5, 33, 7), added = tcc_add(s, tcc_input(t, "x"));
    tcc_update(s, tcc_flip(tcc_flip(s, 0), 1));
    tcc_tensor r = FIELD_STATE(t, "r", 0.25, 33, 7);
    tcc_update(r, tcc_flip(tcc_add(r, added), 0));
    field_finish(t, tcc_mul(tcc_add(s, r), FIELD_PARAM(t, "p", 33, 7)));
}

static void pieces_in_place(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor s = FIELD_STATE(t, "s", 0.5, 12, 8), x = tcc_input(t, "x");
    tcc_tensor first = tcc_add(tcc_slice(s, 0, 9, 11), x),
               parts[] = {tcc_slice(s, 0, 1, 10), first, tcc_slice(s, 0, 0, 1)};
    tcc_update(s, tcc_concat(parts, 3, 0));
    field_finish(t, tcc_mul(s, FIELD_PARAM(t, "p", 12, 8)));
}

static void gather_add_in_place(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor s = FIELD_STATE(t, "s", 1, 6, 8), i = tcc_input(t, "i");
    tcc_tensor next = tcc_scatter_add(s, i, tcc_scale(tcc_take(s, i, 0), 0.5), 0);
    tcc_update(s, next);
    tcc_tensor p = FIELD_PARAM(t, "p", 6, 8);
    field_finish(t, tcc_mul(next, tcc_scatter_add(p, i, tcc_take(p, i, 0), 0)));
}

static void diagonal_mask(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor diagonal = tcc_scale(tcc_iota(t, 0, TCC_I32, TCC_DIMS(8)), 9);
    tcc_tensor m = tcc_scatter_add(tcc_constant(t, -10000, TCC_F32, TCC_DIMS(64)), diagonal,
                                   tcc_constant(t, 10000, TCC_F32, TCC_DIMS(8)), 0);
    tcc_tensor x = tcc_add(FIELD_PARAM(t, "p", 8, 8), tcc_input(t, "x"));
    field_finish(t, tcc_softmax(tcc_add(x, tcc_reshape(m, TCC_DIMS(8, 8))), 1));
}
static double is_diagonal(int64_t e) { return e % 9 == 0; }

static void softmax_of_softmax(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_mul(tcc_input(t, "x"), FIELD_PARAM(t, "p", SIDE, SIDE)), s = tcc_softmax(x, 1);
    tcc_tensor again = tcc_softmax(tcc_scale(tcc_add(s, x), 2), 1);
    tcc_output(t, "s", s);
    field_finish(t, tcc_add(tcc_mul(again, s), tcc_softmax(again, 0)));
}

static void square_of_concat(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor p = FIELD_PARAM_OF(t, "p", 3, 1, 2), c = tcc_concat(((tcc_tensor[]){p, p}), 2, 0), y = tcc_mul(c, c);
    tcc_output(t, "c", c);
    tcc_output(t, "y", y);
    tcc_loss(t, tcc_sum(y, TCC_ALL));
}
static double nine(int64_t e) { return (void)e, 9; }
static double twelve(int64_t e) { return (void)e, 12; }

static void unrolled_loop(tcc_trace *t, void *user) {
    (void)user;
    enum { STEPS = 7 };
    tcc_tensor x = tcc_input(t, "x"), w = FIELD_PARAM(t, "w", SIDE, SIDE), all[STEPS];
    tcc_tensor h = tcc_constant(t, 0, TCC_F32, TCC_DIMS(SIDE, SIDE));
    for (int i = 0; i < STEPS; i++) {
        tcc_tensor now = tcc_reshape(tcc_slice(x, 0, i, i + 1), TCC_DIMS(SIDE, SIDE));
        h = tcc_add(tcc_tanh(tcc_matmul(tcc_add(h, now), w)), tcc_scale(h, 0.5));
        all[i] = i % 2 ? field_transposed(h) : h;
    }
    field_finish(t, tcc_concat(all, STEPS, 1));
}

static void joint_heads(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor joint = tcc_matmul(tcc_input(t, "x"), FIELD_PARAM(t, "w", 12, 36)), part[3];
    for (int i = 0; i < 3; i++) {
        tcc_tensor heads = tcc_reshape(tcc_slice(joint, 2, 12 * i, 12 * i + 12), TCC_DIMS(2, 6, 3, 4));
        part[i] = tcc_transpose(heads, TCC_DIMS(0, 2, i == 1 ? 3 : 1, i == 1 ? 1 : 3));
    }
    field_finish(t, tcc_matmul(tcc_matmul(part[0], part[1]), part[2]));
}

static void reshape_and_split(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_mul(tcc_input(t, "x"), FIELD_PARAM(t, "p", 4, 30)), y = tcc_reshape(x, TCC_DIMS(6, 20));
    tcc_tensor left = tcc_slice(y, 1, 0, 7), right = tcc_slice(y, 1, 7, 20);
    tcc_output(t, "left", tcc_reshape(left, TCC_DIMS(7, 6)));
    field_finish(t, tcc_concat(((tcc_tensor[]){right, tcc_flip(left, 1)}), 2, 1));
}

static void read_before_set(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor s = FIELD_STATE(t, "s", 1.25, 4, 6), x = tcc_input(t, "x");
    tcc_tensor before = tcc_add_scalar(tcc_scale(tcc_cast(tcc_scale(s, 4), TCC_I32), 2), 4);
    tcc_tensor parts[] = {tcc_slice(s, 1, 0, 2), tcc_add_scalar(x, 2), tcc_slice(s, 1, 5, 6)};
    tcc_update(s, tcc_concat(parts, 3, 1));
    tcc_output(t, "before", before);
    field_finish(t, tcc_mul(tcc_cast(before, TCC_F32), FIELD_PARAM(t, "p", 4, 6)));
}
static double fourteen(int64_t e) { return (void)e, 14; }

const field_case field_cases_memory[] = {
    {CASE(lerp_moments),
     .source = "pytorch 183575: a moment was only read, but marked as written; a later cast got its memory",
     .inputs = {FIELD_FLOATS("x", 2, SIDE, SIDE)}},
    {CASE(concat_operands_again),
     .source = "pytorch 100314: an operand of a concat was read again after its memory was the concat's",
     .inputs = {FIELD_FLOATS("x", 2, SIDE, SIDE)}},
    {CASE(readers_in_turn), .source = "pytorch 122457: memory was given away while a reader was still to come",
     .inputs = {FIELD_FLOATS("x", 2, SIDE, SIDE)}},
    {CASE(flip_after_update), .source = "pytorch 198270: x and its flip were read while x was written in the same loop",
     .inputs = {FIELD_FLOATS("x", 2, 12, 40)}},
    {CASE(flip_in_place), .source = "pytorch 101950: a flip was written over its operand",
     .inputs = {FIELD_FLOATS("x", 2, 33, 7)}},
    {CASE(pieces_in_place),
     .source = "pytorch 94693: an input was overwritten by pieces of itself before all were read",
     .inputs = {FIELD_FLOATS("x", 2, 2, 8)}},
    {CASE(gather_add_in_place), .source = "pytorch 174074: rows read by a repeated index were already updated ones",
     .inputs = {FIELD_INPUT("i", TCC_I32, USER_FILL_FEW, 6, 1, 4)}},
    {CASE(diagonal_mask),
     .source = "pytorch 196639: what a scatter wrote into a mask was lost where its reader kept a copy",
     .inputs = {FIELD_FLOATS("x", 2, 8, 8)}, .facts = {{.output = "y", .value = is_diagonal}}},
    {CASE(softmax_of_softmax),
     .source = "pytorch 132018: a local copy of a value was taken over as if it were the stored one",
     .inputs = {FIELD_FLOATS("x", 2, SIDE, SIDE)}},
    {CASE(square_of_concat), .source = "pytorch 93365: the square of a concat of one value with itself was 0",
     .facts = {{.output = "y", .value = nine}, {.output = "grad.p", .value = twelve}}},
    {CASE(unrolled_loop), .source = "pytorch 96064: an unrolled loop gave other values",
     .inputs = {FIELD_FLOATS("x", 3, 7, SIDE, SIDE)}},
    {CASE(joint_heads), .source = "AMDMIGraphX 1496: slices of a joint projection, reshaped into heads, were mixed up",
     .inputs = {FIELD_FLOATS("x", 3, 2, 6, 12)}},
    {CASE(reshape_and_split), .source = "tvm 1724: a reshape and a split in one group read wrong places",
     .inputs = {FIELD_FLOATS("x", 2, 4, 30)}},
    {CASE(read_before_set), .source = "pytorch 198101: a value was computed after the slice that it reads had been set",
     .inputs = {FIELD_FLOATS("x", 2, 4, 3)}, .facts = {{.output = "before", .value = fourteen}}},
    {0},
};
