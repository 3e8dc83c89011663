/* SPDX-License-Identifier: MIT
 * Type inference, rule by rule: what is accepted with which result, what is refused in which words.
 */
#include "harness/check.h"

#include "ir/ir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char inputs[] = "graph @g {\n"
                             "%0 = input {name=\"a\"} : f32[2,3]\n"
                             "%1 = input {name=\"b\"} : f32[3,4]\n"
                             "%2 = input {name=\"i\"} : i32[2]\n"
                             "%3 = input {name=\"x\"} : f32[2,4,6,5]\n"
                             "%4 = input {name=\"w\"} : f32[8,2,3,2]\n"
                             "%5 = input {name=\"c\"} : bool[2,3]\n"
                             "%6 = input {name=\"k\", role=rng} : i64[2]\n"
                             "%7 = input {name=\"s\"} : f32[3]\n"
                             "%8 = input {name=\"h\"} : f16[2,3]\n"
                             "%9 = input {name=\"j\"} : i32[2,5]\n"
                             "%10 = input {name=\"q\"} : f32[2,4,3]\n"
                             "%11 = input {name=\"kk\"} : f32[2,5,3]\n"
                             "%12 = input {name=\"v\"} : f32[2,5,7]\n"
                             "%13 = input {name=\"z\"} : f32[]\n"
                             "%14 = input {name=\"u\"} : u8[2,3]\n"
                             "%15 = input {name=\"m\"} : f32[2,4,5]\n"
                             "%16 = input {name=\"c4\"} : f32[4]\n"
                             "%17 = input {name=\"big\"} : f32[1048576,1048576]\n"
                             "%18 = input {name=\"u24\"} : f32[2,4]\n"
                             "%19 = input {name=\"u25\"} : f32[2,5]\n"
                             "%21 = input {name=\"dy\"} : f32[2,8,4,4]\n"
                             "%30 = ";

static void check(const char *line, const char *message) {
    char text[4096];
    tcc_diag diag = {0};
    tcc_graph *g = NULL;
    snprintf(text, sizeof text, "%s%s }", inputs, line);
    tcc_status status = tcc_graph_parse(text, strlen(text), "t", &diag, &g);
    const char *said = tcc_diag_text(&diag), *place = "t:23: error: ";
    if (status != TCC_OK && !strncmp(said, place, strlen(place))) said += strlen(place);
    if (strcmp(said, message)) fail_msg("%s\n  gives     %s\n  expected  %s", line, said, message);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static void test_accepted(void **state) {
    (void)state;
    static const char *const lines[] = {
        "constant {values=[1]} : f32[4,4]",
        "constant {values=[1, 2]} : bf16[2]",
        "iota {axis=1} : i32[2,3]",
        "rng_bits(%6) : i32[7]",
        "rng_uniform(%6) {id=3} : f32[]",
        "rng_normal(%6) : f32[2,2]",
        "neg(%2) : i32[2]",
        "isfinite(%0) : bool[2,3]",
        "not(%5) : bool[2,3]",
        "cast(%0) : u8[2,3]",
        "add(%0, %0) : f32[2,3]",
        "lt(%2, %2) : bool[2]",
        "select(%5, %8, %8) : f16[2,3]",
        "reshape(%0) : f32[3,1,2]",
        "reshape(%13) : f32[1,1]",
        "transpose(%3) {perm=[0, 2, 3, 1]} : f32[2,6,5,4]",
        "broadcast(%7) {dims=[1]} : f32[5,3]",
        "broadcast(%13) : f32[5,3]",
        "slice(%0) {start=[0, 1], limit=[2, 3], stride=[2, 1]} : f32[1,2]",
        "pad(%7) {lo=[1], hi=[2], interior=[1]} : f32[8]",
        "concat(%0, %0, %0) {axis=1} : f32[2,9]",
        "flip(%0) {axes=[0, 1]} : f32[2,3]",
        "take(%0, %9) {axis=1} : f32[2,2,5]",
        "take(%1, %2) : f32[2,4]",
        "take_along(%0, %9) {axis=1} : f32[2,5]",
        "scatter_add(%1, %2, %18) : f32[3,4]",
        "scatter_max(%1, %2, %18) : f32[3,4]",
        "scatter(%1, %2, %18) : f32[3,4]",
        "scatter_along(%0, %9, %19) {axis=1} : f32[2,3]",
        "scatter_add_along(%0, %9, %19) {axis=1} : f32[2,3]",
        "reduce_sum(%3) {axes=[0, 2, 3]} : f32[4]",
        "reduce_max(%7) {axes=[0]} : f32[]",
        "prod(%14) {axes=[0, 1]} : u8[]",
        "prod_grad(%10, %18) {axes=[2]} : f32[2,4,3]",
        "argmax(%0) {axis=1} : i32[2]",
        "argsort(%0) {count=2} : i32[2,2]",
        "cumsum(%0) {axis=1} : f32[2,3]",
        "cumsum(%14, %5) : u8[2,3]",
        "cummax(%8) {axis=1, reverse=true} : f16[2,3]",
        "linear_scan(%0) {axis=1} : f32[2,3]",
        "linear_scan(%0, %0) : f32[2,3]",
        "dot(%0, %1) {contract_a=[1], contract_b=[0]} : f32[2,4]",
        "dot(%10, %11) {batch_a=[0], batch_b=[0], contract_a=[2], contract_b=[2]} : f32[2,4,5]",
        "dot(%7, %7) : f32[3,3]",
        "conv(%3, %4) {stride=[1, 2], pad_lo=[1, 0], pad_hi=[1, 1], dilation=[1, 1], groups=2} : "
        "f32[2,8,6,3]",
        "conv_grad_input(%21, %4) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], "
        "groups=2} : f32[2,4,6,5]",
        "conv_grad_weight(%3, %21) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], "
        "groups=2} : f32[8,2,3,2]",
        "max_pool(%3) {window=[2, 2], stride=[2, 2], pad_lo=[0, 1], pad_hi=[0, 1]} : f32[2,4,3,3]",
        "avg_pool(%3) {window=[2, 2], stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 0], "
        "channels_last=true} : f32[2,2,3,5]",
        "adaptive_avg_pool(%3) : f32[2,4,1,1]",
        "resize_nearest(%3) : f32[2,4,12,10]",
        "resize_bilinear(%3) {align_corners=true, channels_last=true} : f32[2,3,7,5]",
        "resize_bicubic(%3) {align_corners=true, channels_last=true} : f32[2,3,7,5]",
        "sdpa(%10, %11, %12) {scale=1} : f32[2,4,7]",
        "sdpa(%10, %11, %12, %15) {scale=1, causal=true} : f32[2,4,7]",
        "sdpa(%10, %11, %12, %6) {scale=1, p=0.5, id=4} : f32[2,4,7]",
        "sdpa(%10, %11, %12, %15, %6) {scale=1, p=0.5} : f32[2,4,7]",
        "sdpa_lse(%10, %11) {scale=1} : f32[2,4]",
        "sdpa_lse(%11, %10) {scale=1, causal=true} : f32[2,5]",
        "softmax(%0) {axis=1} : f32[2,3]",
        "layer_norm(%0, %7, %7) {eps=0.1, axis=1} : f32[2,3]",
        "rms_norm(%0, %0) {eps=0.1} : f32[2,3]",
        "group_norm(%3, %16) {eps=0.1, axis=1, groups=2} : f32[2,4,6,5]",
        "batch_norm_inference(%3, %16, %16, %16, %16) {eps=0.1, axis=1} : f32[2,4,6,5]",
        "batch_norm_scale(%3) {eps=0.1, axis=1} : f32[4]",
        "batch_norm_grad_x(%3, %3, %16, %16) {eps=0.1, axis=1} : f32[2,4,6,5]",
        "batch_norm_grad_weight(%3, %3, %16, %16, %16) {eps=0.1, axis=1} : f32[4]",
        "dropout(%0, %6) {p=0.5} : f32[2,3]",
        "cross_entropy(%0, %2, %7) {ignore_index=-100} : f32[]",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) check(lines[i], "");
}

/* A line, and what is wrong with it. */
static const char *const refused[][2] = {
    {"iota {axis=2} : i32[2,3]", "iota: axis 2 is not in 0 .. 1 of i32[2,3]"},
    {"iota : i32[]", "iota: axis 0 of a scalar"},
    {"rng_bits(%6) : f32[7]", "rng_bits: the result is i32, not f32[7]"},
    {"rng_bits(%2) : i32[7]", "rng_bits: the key must be i64[2], got i32[2]"},
    {"exp(%2) : i32[2]", "exp: expected floats, got i32[2]"},
    {"neg(%5) : bool[2,3]", "neg: expected numbers, got bool[2,3]"},
    {"not(%0) : f32[2,3]", "not: expected integers or bool, got f32[2,3]"},
    {"cast(%0) : f16[3,2]", "cast: the result must be f16[2,3], not f16[3,2]"},
    {"add(%0, %1) : f32[2,3]", "add: shapes differ: f32[2,3] and f32[3,4]"},
    {"add(%0, %8) : f32[2,3]", "add: element types differ: f32[2,3] and f16[2,3]"},
    {"select(%0, %0, %0) : f32[2,3]", "select: the condition must be bool, got f32[2,3]"},
    {"select(%5, %1, %1) : f32[3,4]", "select: shapes differ: bool[2,3] ? f32[3,4] : f32[3,4]"},
    {"reshape(%0) : f32[5]", "reshape: numbers of elements differ: f32[2,3] has 6, f32[5] has 5"},
    {"transpose(%0) {perm=[0]} : f32[2]", "transpose: perm [0] does not fit f32[2,3]"},
    {"transpose(%0) {perm=[1, 1]} : f32[3,3]", "transpose: perm [1, 1]: 1 is there twice"},
    {"broadcast(%7) {dims=[0]} : f32[5,3]",
     "broadcast: f32[3] does not stretch to f32[5,3]: dim 0 (3) against dim 0 (5)"},
    {"broadcast(%0) {dims=[1, 0]} : f32[3,2]", "broadcast: dims [1, 0] are not in ascending order"},
    {"slice(%7) {start=[1], limit=[4], stride=[1]} : f32[3]", "slice: dim 0: 1 .. 4 is not a range within f32[3]"},
    {"slice(%7) {start=[2], limit=[2], stride=[1]} : f32[1]", "slice: dim 0: 2 .. 2 is not a range within f32[3]"},
    {"slice(%7) {start=[0], limit=[2], stride=[0]} : f32[1]",
     "slice: stride [0]: 0 is out of range, at least 1 is expected"},
    {"slice(%7) {start=[0], limit=[2]} : f32[2]", "slice: stride [] must have 1 entry"},
    {"pad(%7) {lo=[-1], hi=[0], interior=[0]} : f32[2]", "pad: lo [-1]: -1 is out of range, at least 0 is expected"},
    {"pad(%17) {lo=[0, 0], hi=[0, 1], interior=[0, 0]} : f32[1,1]",
     "pad: f32[1048576,1048577] has more than 2^40 elements"},
    {"concat(%0, %1) {axis=0} : f32[5,3]", "concat: operands differ in another dim than axis 0: f32[2,3] and f32[3,4]"},
    {"concat(%13) {axis=0} : f32[]", "concat: axis 0 of a scalar"},
    {"flip(%0) {axes=[2]} : f32[2,3]", "flip: axes [2]: 2 is not a dim of a tensor of rank 2"},
    {"take(%0, %7) {axis=1} : f32[2,3]", "take: indices must be i32 or i64, got f32[3]"},
    {"take_along(%1, %9) {axis=1} : f32[2,5]",
     "take_along: the indices differ in another dim than axis 1: f32[3,4] at i32[2,5]"},
    {"scatter_add(%1, %2, %0) : f32[3,4]", "scatter_add: the updates must be f32[2,4], got f32[2,3]"},
    {"argsort(%0) {count=4} : i32[2,4]", "argsort: count 4 is not in 1 .. 3"},
    {"argsort(%0) : i32[2,1]", "argsort: count 0 is not in 1 .. 3"},
    {"argsort(%5) {count=1} : i32[2,1]", "argsort: expected numbers, got bool[2,3]"},
    {"reduce_sum(%0) : f32[2,3]", "reduce_sum: no axes to reduce f32[2,3] over"},
    {"reduce_sum(%5) {axes=[0]} : bool[3]", "reduce_sum: expected numbers, got bool[2,3]"},
    {"prod(%5) {axes=[0]} : bool[3]", "prod: expected numbers, got bool[2,3]"},
    {"prod_grad(%0, %7) {axes=[1]} : f32[2,3]", "prod_grad: dy must be f32[2], got f32[3]"},
    {"prod_grad(%14, %14) {axes=[1]} : u8[2,3]", "prod_grad: expected floats, got u8[2,3]"},
    {"cumsum(%0, %0) : f32[2,3]", "cumsum: where it goes on must be bool[2,3], got f32[2,3]"},
    {"cumsum(%1, %5) : f32[3,4]", "cumsum: where it goes on must be bool[3,4], got bool[2,3]"},
    {"cumsum(%5) : bool[2,3]", "cumsum: expected numbers, got bool[2,3]"},
    {"cumsum(%0, %5) {axis=2} : f32[2,3]", "cumsum: axis 2 is not in 0 .. 1 of f32[2,3]"},
    {"cummax(%5) : bool[2,3]", "cummax: expected numbers, got bool[2,3]"},
    {"linear_scan(%0, %1) : f32[2,3]", "linear_scan: types differ: f32[2,3] and f32[3,4]"},
    {"linear_scan(%0) {axis=2} : f32[2,3]", "linear_scan: axis 2 is not in 0 .. 1 of f32[2,3]"},
    {"linear_scan(%5) : bool[2,3]", "linear_scan: expected numbers, got bool[2,3]"},
    {"dot(%0, %1) {contract_a=[0], contract_b=[0]} : f32[3,4]",
     "dot: contracted dims differ: f32[2,3] x f32[3,4], dim 0 (2) against dim 0 (3)"},
    {"dot(%10, %0) {batch_a=[2], batch_b=[0], contract_a=[0], contract_b=[1]} : f32[3,4]",
     "dot: batch dims differ: f32[2,4,3] x f32[2,3], dim 2 (3) against dim 0 (2)"},
    {"dot(%0, %1) {contract_a=[1]} : f32[2,4]", "dot: 1 contracted dims of a, 0 of b"},
    {"dot(%0, %0) {batch_a=[0], batch_b=[0], contract_a=[0], contract_b=[1]} : f32[2]",
     "dot: dim 0 of f32[2,3] is both a batch and a contracted dim"},
    {"dot(%3, %17) : f32[1]", "dot: f32[2,4,6,5,1048576,1048576] has more than 2^40 elements"},
    {"conv(%0, %4) : f32[1]", "conv: x must have a batch, a channel and 1 to 3 spatial dims, got f32[2,3]"},
    {"conv(%3, %4) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=3} : "
     "f32[1]",
     "conv: 3 groups do not divide the channels: x f32[2,4,6,5] has 4, w f32[8,2,3,2] makes 8"},
    {"conv(%3, %4) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], groups=1} : "
     "f32[1]",
     "conv: channels differ: x f32[2,4,6,5] has 4 in 1 group, w f32[8,2,3,2] takes 2"},
    {"conv(%3, %4) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[3, 1], groups=2} : "
     "f32[1]",
     "conv: the kernel does not fit: it spans 7 in spatial dim 0 of x f32[2,4,6,5] with "
     "padding 0 + 0"},
    {"conv_grad_weight(%3, %3) {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], dilation=[1, 1], "
     "groups=2} : f32[8,2,3,2]",
     "conv_grad_weight: dy must be f32[2,8,4,4], got f32[2,4,6,5]"},
    {"max_pool(%3) {window=[2, 2], stride=[2, 2], pad_lo=[2, 0], pad_hi=[0, 0]} : f32[1]",
     "max_pool: padding must be smaller than the window: 2 and 0 against 2 in spatial dim 0"},
    {"avg_pool(%3) {window=[7, 2], stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 0]} : f32[1]",
     "avg_pool: the window does not fit: [7, 2] in x f32[2,4,6,5] with padding 0 + 0 in "
     "spatial dim 0"},
    {"resize_nearest(%3) : f32[2,5,6,5]", "resize_nearest: only spatial dims can change: f32[2,4,6,5] to f32[2,5,6,5]"},
    {"adaptive_avg_pool(%3) {align_corners=true} : f32[2,4,1,1]",
     "adaptive_avg_pool: align_corners has no meaning here"},
    {"sdpa(%10, %12, %12) {scale=1} : f32[1]",
     "sdpa: q [..,T,D] and k [..,S,D] do not agree: f32[2,4,3] and f32[2,5,7]"},
    {"sdpa(%10, %11, %10) {scale=1} : f32[1]",
     "sdpa: k [..,S,D] and v [..,S,E] do not agree: f32[2,5,3] and f32[2,4,3]"},
    {"sdpa(%10, %11, %12, %10) {scale=1} : f32[1]", "sdpa: the mask [..,T,S] must be f32[2,4,5], got f32[2,4,3]"},
    {"sdpa(%10, %11, %12, %6) {scale=1} : f32[1]", "sdpa: the mask [..,T,S] must be f32[2,4,5], got i64[2]"},
    {"sdpa(%10, %11, %12, %15) {scale=1, p=0.5} : f32[1]", "sdpa: the key must be i64[2], got f32[2,4,5]"},
    {"sdpa(%10, %11, %12, %15, %6) {scale=1} : f32[1]", "sdpa: 5 operands with p 0: expected 3, and a mask or none"},
    {"sdpa(%10, %11, %12) {scale=1, p=0.5} : f32[1]",
     "sdpa: 3 operands with p 0.5: expected 3, and a mask or none, and the key"},
    {"sdpa(%10, %11, %12, %6) {scale=1, p=1} : f32[1]", "sdpa: p 1 is not in 0 <= p < 1"},
    {"sdpa(%10, %11, %12, %6) {scale=1, p=0.5, id=-1} : f32[1]", "sdpa: id -1 is not in 0 .. 2^32 - 1"},
    {"sdpa_lse(%10, %11, %6) {scale=1, p=0.5} : f32[2,4]", "sdpa_lse: p 0.5, but dropout follows the softmax"},
    {"softmax(%0) {axis=2} : f32[2,3]", "softmax: axis 2 is not in 0 .. 1 of f32[2,3]"},
    {"layer_norm(%0, %16) {axis=1} : f32[2,3]", "layer_norm: the weight must be f32[3], got f32[4]"},
    {"layer_norm(%0) {axis=1, eps=-1} : f32[2,3]", "layer_norm: eps -1 is not a number >= 0"},
    {"batch_norm_mean(%3) {axis=1} : f16[4]", "batch_norm_mean: the result must be f32[4], not f16[4]"},
    {"batch_norm_grad_bias(%3, %3, %16, %7) {axis=1} : f32[4]",
     "batch_norm_grad_bias: the scale must be f32[4], got f32[3]"},
    {"batch_norm_grad_x(%0, %3, %16, %16) {axis=1} : f32[2,3]",
     "batch_norm_grad_x: x must be f32[2,3], got f32[2,4,6,5]"},
    {"group_norm(%3) {axis=1, groups=3} : f32[2,4,6,5]",
     "group_norm: 3 groups do not divide the 4 channels of f32[2,4,6,5]"},
    {"dropout(%0, %6) {p=1} : f32[2,3]", "dropout: p 1 is not in 0 <= p < 1"},
    {"cross_entropy(%0, %6) : f32[]", "cross_entropy: targets must be i32[2], got i64[2]"},
    {"cross_entropy(%0, %2, %16) : f32[]", "cross_entropy: class weights must be f32[3], got f32[4]"},
    {"cross_entropy(%0, %2) {label_smoothing=2} : f32[]", "cross_entropy: label_smoothing 2 is not in 0 .. 1"},
};

static void test_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) check(refused[i][0], refused[i][1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_accepted), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
