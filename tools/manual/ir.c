/* SPDX-License-Identifier: MIT
 * Examples of ir.h. */
#include "examples.h"

static const char graph[] =
    "graph @f {\n  %0 = input {name=\"x\"} : f32[4]\n  %1 = neg(%0) : f32[4]\n  output \"y\" %1\n}\n";

EXAMPLE(tcc_ir_parse) {
    tcc_ir *parsed;
    TCC_TRY(tcc_ir_parse(cx, graph, sizeof graph - 1, "graph.tir", &parsed));
    tcc_ir_destroy(parsed);
}

EXAMPLE(tcc_ir_destroy) {
    tcc_ir *parsed = NULL;
    if (tcc_ir_parse(cx, graph, sizeof graph - 1, "graph.tir", &parsed)) puts(tcc_context_error(cx));
    tcc_ir_destroy(parsed);
}

EXAMPLE(tcc_ir_text) {
    char *text;
    TCC_TRY(tcc_ir_text(cx, ir, TCC_IR_TIR, &text));
    printf("%s", text); /* graph @f... */
    tcc_ir_free_text(text);
}

EXAMPLE(tcc_ir_free_text) {
    char *dot = NULL;
    if (!tcc_ir_text(cx, ir, TCC_IR_DOT, &dot)) printf("%s", dot); /* digraph... */
    tcc_ir_free_text(dot);
}

EXAMPLE(tcc_ir_run) {
    tcc_ir *parsed;
    TCC_TRY(tcc_ir_parse(cx, graph, sizeof graph - 1, "graph.tir", &parsed));
    if (tcc_ir_run(cx, &parsed, "simplify,fuse", NULL)) puts(tcc_context_error(cx));
    tcc_ir_destroy(parsed);
}

EXAMPLE(tcc_ir_pass_info) {
    const char *name, *meaning;
    for (int i = 0; tcc_ir_pass_info(i, &name, &meaning); i++) printf("%-16s %s\n", name, meaning);
}

EXAMPLE(tcc_ir_op_info) {
    const char *name, *meaning;
    for (int i = 0; tcc_ir_op_info(i, &name, &meaning); i++) printf("%-16s %s\n", name, meaning);
}
