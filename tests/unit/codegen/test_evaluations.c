/* SPDX-License-Identifier: MIT
 * How often a program evaluates the values of a group is counted as it is, so that the verifier finds what fuse has not
 * charged for, and nothing else. */
#include "codegen/build.h"
#include "codegen/emit/emitter.h"
#include "codegen/select.h"
#include "codegen/verify/verify.h"
#include "harness/check.h"
#include "harness/graphs.h"
#include "harness/passes.h"

#include <stdlib.h>

/* A gradient of a strided convolution has a launch for each class of its points, and each makes a part of what is fused
 * behind it. Of the exponential that reads %2, less is wanted than it has elements. */
static const char parts[] =
    "graph @parts {\n"
    "  %0 = input {name=\"dy\"} : f32[1,32,23]\n"
    "  %1 = input {name=\"w\"} : f32[23,1,4]\n"
    "  %2 = input {name=\"t\"} : f32[1,7,91]\n"
    "  %3 = conv_grad_input(%0, %1) {stride=[3], pad_lo=[1], pad_hi=[2], dilation=[1], groups=1, "
    "channels_last=true} : f32[1,91,4]\n"
    "  %4 = exp(%2) : f32[1,7,91]\n"
    "  %5 = slice(%4) {start=[0, 3, 0], limit=[1, 7, 91], stride=[1, 1, 1]} : f32[1,4,91]\n"
    "  %6 = transpose(%5) {perm=[0, 2, 1]} : f32[1,91,4]\n"
    "  %7 = mul(%3, %6) : f32[1,91,4]\n"
    "  output \"o\" %7\n"
    "  group contract %3 nodes(%3, %4, %5, %6, %7) outputs(%7)\n"
    "}\n";
enum { EXP = 1, POINTS = 91 * 4 };

static void parts_of_a_result(void **state) {
    (void)state;
    tcc_context cx;
    tcc_llvm_target target;
    tcc_selector *selector;
    tcc_program *program;
    tcc_program_facts facts = {0};
    assert_ok(tcc_context_init(&cx), &cx.diag);
    assert_ok(tcc_llvm_target_host(NULL, &cx.diag, &target), &cx.diag);
    const tcc_codegen_options options = {.target = &target, .threads = 1, .verify = true, .facts = &facts};
    assert_ok(tcc_selector_create(&cx, &options, false, &selector), &cx.diag);
    tcc_graph *g = parse_graph(parts, &cx.diag);
    tcc_graph *planned = run_passes(g, "select,order,plan-memory",
                                    &(tcc_pass_options){.target = tcc_selector_target(selector)});
    assert_ok(tcc_codegen_build(&cx, &cx.diag, planned, &options, &program), &cx.diag);
    int launches = 0;
    for (int i = 0; i < program->n_steps; i++) launches += program->steps[i].n_instances;
    assert_true(launches >= 3);
    double *evaluations = (double *)facts.groups.data[0].evaluations;
    assert_true(evaluations[EXP] > POINTS - 1e-6 && evaluations[EXP] < POINTS + 1e-6);
    evaluations[EXP]++;
    assert_error(tcc_program_verify(program, &facts, &cx.diag), TCC_EBUG, &cx.diag,
                 "evaluates 365 times, instead of 364");
    tcc_program_facts_clear(&facts);
    tcc_program_destroy(program);
    tcc_graph_destroy(planned);
    tcc_graph_destroy(g);
    tcc_selector_destroy(selector);
    tcc_llvm_target_clear(&target);
    tcc_context_clear(&cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_of_a_result)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
