/* SPDX-License-Identifier: MIT
 * The textual IR: canonical text prints back byte for byte, loose text parses, malformed text is refused in good words.
 */
#include "harness/check.h"
#include "harness/graphs.h"

#include "ir/ir.h"
#include "ir/support/alloc.h"
#include "passes/pipeline/dump.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

static const char step[] = "graph @mlp {\n"
                           "  %0 = input {role=param, name=\"fc1.weight\"} : f32[128,784]\n"
                           "  %1 = input {name=\"x\"} : f32[32,784] loc(\"mlp.c\":7)\n"
                           "  %2 = dot(%1, %0) {contract_a=[1], contract_b=[1]} : f32[32,128] loc(\"mlp.c\":12)\n"
                           "  %3 = constant {values=[0x1.99999ap-4]} : f32[32,128] loc(bw)\n"
                           "  %4 = mul(%2, %3) : f32[32,128] loc(\"a \\\"b\\\"\\\\\\n\\x01.c\":3, bw)\n"
                           "  %5 = constant {values=[-0, 3, -inf, nan]} : f32[4]\n"
                           "  %6 = reduce_sum(%4) {axes=[0, 1]} : f32[] loc(\"mlp.c\":13)\n"
                           "  %7 = pad(%5) {value=-1, lo=[0], hi=[2], interior=[1]} : f32[9]\n"
                           "  %8 = cumsum(%7) {reverse=true} : f32[9]\n"
                           "  output \"loss\" %6\n"
                           "  output \"fc1.weight\" %0 alias %0\n"
                           "  output \"c\" %8\n"
                           "  group contract %2 nodes(%2, %3, %4) outputs(%4)\n"
                           "  group reduce %6 nodes(%6) outputs(%6)\n"
                           "  group scan %8 nodes(%7, %8) outputs(%8)\n"
                           "  place %4 @64\n"
                           "  arena 81920\n"
                           "}\n";

static void test_round_trip(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(step, &diag);
    char *text = print_graph(g, true), *bare = print_graph(g, false);
    assert_string_equal(text, step);
    assert_null(strstr(bare, "loc("));
    tcc_graph *again = parse_graph(bare, &diag);
    char *bare_again = print_graph(again, true);
    assert_string_equal(bare, bare_again);
    assert_true(tcc_graph_equal(g, again));
    free(text);
    free(bare);
    free(bare_again);
    tcc_graph_destroy(again);
    tcc_graph_destroy(g);
}

/* Other numbers, decimal fractions, comments, defaults written out, duplicates: the canonical form comes back. */
static void test_loose_text(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g =
        parse_graph("// RUN: nothing\n graph @\"two words\"{ %12=input{name=\"x\",role=batch}:f32[2] // here\n"
                    "%3 = constant {values=[0.5, 5e-1]} : f32[2] %4 = constant {values=[0.5]} : f32[2]\n"
                    "%7 = add(%12,%3) : f32[2]\n%8 = add(%4, %12) : f32[2]\r\n\toutput \"o\" %8 }",
                    &diag);
    char *text = print_graph(g, true);
    assert_string_equal(text, "graph @\"two words\" {\n"
                              "  %0 = input {name=\"x\"} : f32[2]\n"
                              "  %1 = constant {values=[0x1p-1]} : f32[2]\n"
                              "  %2 = add(%0, %1) : f32[2]\n"
                              "  output \"o\" %2\n"
                              "}\n");
    free(text);
    tcc_graph_destroy(g);
}

/* Numbers are not read or written with the user's decimal point. */
static void test_locale(void **state) {
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) skip();
    test_loose_text(NULL);
    test_round_trip(NULL);
    setlocale(LC_NUMERIC, "C");
}

static void expect_error(const char *text, const char *message) {
    tcc_diag diag = {0};
    tcc_graph *g = NULL;
    tcc_status status = tcc_graph_parse(text, strlen(text), "t.tir", &diag, &g);
    if (status == TCC_OK) fail_msg("parsed: %s", text);
    assert_null(g);
    if (strcmp(tcc_diag_text(&diag), message))
        fail_msg("%s\n  gives     %s\n  expected  %s", text, tcc_diag_text(&diag), message);
    tcc_diag_clear(&diag);
}

#define IN "graph @g {\n%0 = input {name=\"x\"} : f32[2,3]\n"

static void test_errors(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "t.tir:1: error: expected 'graph', got the end of the text"},
        {"graph", "t.tir:1: error: expected '@' and the graph's name, got the end of the text"},
        {"graph @g {\n\n", "t.tir:3: error: expected a node, an output or '}', got the end of the text"},
        {"graph @g {}\n}", "t.tir:2: error: expected nothing after the graph, got }"},
        {"graph @g { # }", "t.tir:1: error: unexpected character '#'"},
        {"graph @g { \x01 }", "t.tir:1: error: unexpected byte 0x01"},
        {"graph @\"g { }", "t.tir:1: error: a string does not end in its line"},
        {"graph @\"\\q\" { }", "t.tir:1: error: unknown escape in a string; known are \\\" \\\\ \\n \\t \\xHH"},
        {"graph @\"\\x00\" { }", "t.tir:1: error: unknown escape in a string; known are \\\" \\\\ \\n \\t \\xHH"},
        {IN "%1 = expp(%0) : f32[2,3] }", "t.tir:3: error: unknown operation 'expp', did you mean 'exp'?"},
        {IN "%1 = quux(%0) : f32[2,3] }", "t.tir:3: error: unknown operation 'quux'"},
        {IN "outptu \"x\" %0 }", "t.tir:3: error: unknown statement 'outptu', did you mean 'output'?"},
        {IN "%1 = exp(%4) : f32[2,3] }", "t.tir:3: error: %4 is not defined above"},
        {IN "%0 = exp(%0) : f32[2,3] }", "t.tir:3: error: %0 is defined twice"},
        {IN "%9999999 = exp(%0) : f32[2,3] }", "t.tir:3: error: node numbers end at 1048575"},
        {IN "%x = exp(%0) : f32[2,3] }", "t.tir:3: error: expected a node like %0, got %x"},
        {IN "%1 = exp(%0) : f32[2,4] }", "t.tir:3: error: exp gives f32[2,3], but %1 says f32[2,4]"},
        {IN "%1 = exp(%0) : float[2,3] }", "t.tir:3: error: expected an element type like f32, got float"},
        {IN "%1 = exp(%0) : f32[2,0] }", "t.tir:3: error: type: dim 1 of f32[2,0] is not positive"},
        {IN "%1 = exp(%0) : f32[2,-3] }", "t.tir:3: error: type: dim 1 of f32[2,-3] is not positive"},
        {IN "%1 = exp(%0) : f32[1099511627776,2] }",
         "t.tir:3: error: type: f32[1099511627776,2] has more than 2^40 elements"},
        {IN "%1 = exp(%0) : f32[99999999999999999999] }",
         "t.tir:3: error: expected an integer that fits 64 bits, got 99999999999999999999"},
        {IN "%1 = exp(%0) : f32[1,1,1,1,1,1,1,1,1] }", "t.tir:3: error: more than 8 entries"},
        {IN "%1 = exp(%0, %0) : f32[2,3] }", "t.tir:3: error: exp: takes 1 operand, got 2"},
        {IN "%1 = reduce_sum(%0) {axis=[0]} : f32[3] }",
         "t.tir:3: error: unknown attribute 'axis', did you mean 'axes'?"},
        {IN "%1 = reduce_sum(%0) {axes=[0], axes=[1]} : f32[3] }", "t.tir:3: error: attribute 'axes' is given twice"},
        {IN "%1 = reduce_sum(%0) {axes=0} : f32[3] }", "t.tir:3: error: expected '[', got 0"},
        {IN "%1 = reduce_sum(%0) {axes=[0.5]} : f32[3] }", "t.tir:3: error: expected an integer, got 0.5"},
        {IN "%1 = reduce_sum(%0) {axes=[1, 0]} : f32[] }",
         "t.tir:3: error: reduce_sum: axes [1, 0] are not in ascending order"},
        {IN "%1 = cumsum(%0) {reverse=yes} : f32[2,3] }", "t.tir:3: error: expected true or false, got yes"},
        {IN "%1 = input {role=parm, name=\"w\"} : f32[] }", "t.tir:3: error: expected a role like param, got parm"},
        {IN "%1 = input {role=output, name=\"w\"} : f32[] }",
         "t.tir:3: error: input: 'w' has a role that no input can have"},
        {IN "%1 = input {name=\"x\"} : f32[] }",
         "error: two inputs are named 'x'\nnote: the first one: f32[2,3]\nt.tir:3: note: in this node"},
        {IN "%1 = constant {values=[1, x]} : f32[2] }", "t.tir:3: error: expected a number, got x"},
        {IN "%1 = constant {values=[1, 2]} : f32[3] }", "t.tir:3: error: constant: f32[3] needs 1 value or 3, got 2"},
        {IN "%1 = exp(%0) : f32[2,3] loc(\"f.c\" 1) }", "t.tir:3: error: expected ')', got 1"},
        {IN "%1 = exp(%0) : f32[2,3] loc(\"f.c\":1, fw) }", "t.tir:3: error: expected 'bw', got fw"},
        {IN "%1 = exp(%0) : f32[2,3] loc(\"f.c\":1, segment) }", "t.tir:3: error: expected an integer, got )"},
        {IN "%1 = exp(%0) : f32[2,3] loc(segment 0) }", "t.tir:3: error: segments are numbered from 1"},
        {IN "%1 = exp(%0) : f32[2,3] loc(segment 2147483648) }", "t.tir:3: error: segments are numbered from 1"},
        {IN "%1 = exp(%0) : f32[2,3] loc(bw, segment 1) }", "t.tir:3: error: expected ')', got ,"},
        {IN "%1 = exp(%0) : f32[2,3] loc(\"f.c\":-1) }", "t.tir:3: error: -1 is no line number"},
        {IN "output x %0 }", "t.tir:3: error: expected a string in quotes, got x"},
        {IN "output \"o\" %0\noutput \"o\" %0 }", "error: two outputs are named 'o'\nt.tir:4: note: in this output"},
        {IN "%1 = exp(%0) : f32[2,3] output \"o\" %0 alias %1 }", "t.tir:3: error: only an input can be aliased"},
        {IN "group pointwis %0 nodes() outputs() }",
         "t.tir:3: error: unknown kind of group 'pointwis', did you mean 'pointwise'?"},
        {IN "group pointwise %0 nodes(%0 %0) outputs() }", "t.tir:3: error: expected ',', got %0"},
        {IN "place %0 @ }", "t.tir:3: error: expected an offset in bytes, got @"},
        {IN "place %0 @12x }", "t.tir:3: error: expected an offset in bytes, got @12x"},
        {IN "place %0 @99999999999999999999 }",
         "t.tir:3: error: expected an offset in bytes, got @99999999999999999999"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect_error(cases[i][0], cases[i][1]);
}

static void test_errors_of_states(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {IN "%1 = input {name=\"y\", begin=1} : f32[] }",
         "t.tir:3: error: input: 'y' is no state: only a state says how it begins"},
        {IN "%1 = input {role=param, name=\"w\", copy_of=\"x\"} : f32[2,3] }",
         "t.tir:3: error: input: 'w' is no state: only a state says how it begins"},
        {IN "%1 = input {role=state, name=\"s\", begin=1, copy_of=\"x\"} : f32[2,3] }",
         "t.tir:3: error: input: 's' begins either as a constant or as a copy, not as both"},
        {IN "%1 = input {role=state, name=\"s\", begin=0x1p-1} : i64[] }",
         "t.tir:3: error: input: 's' cannot begin with 0.5: that is no i64"},
        {IN "%1 = input {role=state, name=\"s\", copy_of=\"s\"} : bf16[2,3] }",
         "error: state 's' cannot begin as a copy of 's': there is no input of that name above\n"
         "t.tir:3: note: in this node"},
        {IN "%1 = input {role=state, name=\"s\", copy_of=\"x\"} : bf16[2,3] }",
         "error: state 's' cannot begin as a copy of 'x': that is a batch, and only a parameter or a state is there "
         "between runs\nt.tir:3: note: in this node"},
        {IN "%1 = input {role=param, name=\"w\"} : f32[4]\n  %2 = input {role=state, name=\"s\", copy_of=\"w\"} : "
            "bf16[4]\n  %3 = input {role=state, name=\"t\", copy_of=\"s\"} : f16[4] }",
         "error: state 't' cannot begin as a copy of 's': that is a copy itself, of 'w'\nt.tir:5: note: in this node"},
        {IN "%1 = input {role=param, name=\"w\"} : f32[4]\n  %2 = input {role=state, name=\"s\", copy_of=\"w\"} : "
            "bf16[2,2] }",
         "error: state 's' cannot begin as a copy of 'w': the shapes differ: bf16[2,2] and f32[4]\n"
         "t.tir:4: note: in this node"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect_error(cases[i][0], cases[i][1]);
}

/* Any prefix of a text is refused, and reads no byte past its end (checked by the sanitizers: each is a block of its
 * own). */
static void test_cut_off(void **state) {
    (void)state;
    for (size_t length = 0; length < strlen(step) - 2; length++) {
        tcc_diag diag = {0};
        tcc_graph *g = NULL;
        char *copy = malloc(length ? length : 1);
        memcpy(copy, step, length);
        assert_int_not_equal(tcc_graph_parse(copy, length, "t.tir", &diag, &g), TCC_OK);
        tcc_diag_clear(&diag);
        free(copy);
    }
}

static tcc_status parse_and_print(tcc_diag *diag) {
    tcc_graph *g = NULL, *copy = NULL;
    tcc_strbuf b = {0};
    TCC_TRY(tcc_graph_parse(step, strlen(step), "t.tir", diag, &g));
    tcc_status status = tcc_graph_verify(g, diag);
    if (status == TCC_OK) {
        tcc_graph_print(&b, g, (tcc_print_options){.locs = true});
        tcc_dump_dot(&b, g);
        if (b.failed) status = tcc_enomem(diag);
        tcc_strbuf_free(&b);
    }
    if (status == TCC_OK) {
        tcc_rewrite rw;
        status = tcc_rewrite_begin(&rw, g);
        if (status == TCC_OK) {
            for (int i = 0; i < g->nodes.count; i++) tcc_rewrite_copy(&rw, g->nodes.data[i]);
            status = tcc_rewrite_end(&rw, &copy);
        }
    }
    tcc_graph_destroy(copy);
    tcc_graph_destroy(g);
    return status;
}

/* Every allocation in turn fails: an error each time, no leak (checked by the sanitizers), and in the end success. */
static void test_out_of_memory(void **state) {
    (void)state;
    tcc_status status;
    int64_t n = 0;
    do {
        tcc_diag diag = {0};
        tcc__alloc_fail_at(n++);
        status = parse_and_print(&diag);
        tcc__alloc_fail_at(-1);
        assert_true(status == TCC_OK || status == TCC_ENOMEM);
        tcc_diag_clear(&diag);
        assert_true(n < 1000);
    } while (status != TCC_OK);
    assert_true(n > 20);
}

static void test_equality(void **state) {
    (void)state;
    static const char *const same[] = {
        "graph @a { %0 = input {name=\"x\"} : f32[2] %1 = exp(%0) : f32[2] %2 = neg(%0) : f32[2] %3 = add(%1, %2) : "
        "f32[2] output \"o\" %3 }",
        "graph @b { %0 = input {name=\"x\"} : f32[2] %1 = neg(%0) : f32[2] %2 = exp(%0) : f32[2] %3 = add(%1, %2) : "
        "f32[2] output \"o\" %3 }",
    };
    static const char *const others[] = {
        "graph @a { %0 = input {name=\"y\"} : f32[2] %1 = exp(%0) : f32[2] %2 = neg(%0) : f32[2] %3 = add(%1, %2) : "
        "f32[2] output \"o\" %3 }",
        "graph @a { %0 = input {name=\"x\"} : f32[2] %1 = exp(%0) : f32[2] %2 = neg(%0) : f32[2] %3 = sub(%1, %2) : "
        "f32[2] output \"o\" %3 }",
        "graph @a { %0 = input {name=\"x\"} : f32[2] %1 = exp(%0) : f32[2] %2 = neg(%0) : f32[2] %3 = add(%1, %2) : "
        "f32[2] output \"o\" %1 }",
        "graph @a { %0 = input {name=\"x\"} : f64[2] %1 = exp(%0) : f64[2] %2 = neg(%0) : f64[2] %3 = add(%1, %2) : "
        "f64[2] output \"o\" %3 }",
        "graph @a { %0 = input {name=\"x\"} : f32[2] %1 = exp(%0) : f32[2] %2 = neg(%0) : f32[2] %3 = add(%1, %2) : "
        "f32[2] output \"o\" %3 alias %0 }",
    };
    tcc_diag diag = {0};
    tcc_graph *a = parse_graph(same[0], &diag), *b = parse_graph(same[1], &diag);
    assert_true(tcc_graph_equal(a, b));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        tcc_graph *c = parse_graph(others[i], &diag);
        assert_false(tcc_graph_equal(a, c));
        tcc_graph_destroy(c);
    }
    tcc_graph_destroy(a);
    tcc_graph_destroy(b);
}

static void test_node_text(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(step, &diag);
    assert_string_equal(tcc_node_text(g->nodes.data[4]), "%4 = mul(%2, %3) : f32[32,128]");
    assert_string_equal(tcc_node_text(g->nodes.data[6]), "%6 = reduce_sum(%4) {axes=[0, 1]} : f32[]");
    tcc_strbuf b = {0};
    tcc_dump_dot(&b, g);
    assert_non_null(strstr(b.text, "  n4 [label=\"mul\\nf32[32,128]\"];\n  n2 -> n4;\n"));
    tcc_strbuf_free(&b);
    tcc_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_loose_text),       cmocka_unit_test(test_locale),
        cmocka_unit_test(test_errors),        cmocka_unit_test(test_errors_of_states), cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_equality),         cmocka_unit_test(test_node_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
