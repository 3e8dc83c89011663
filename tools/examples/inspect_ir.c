/* SPDX-License-Identifier: MIT
 * Looking inside: the graph that a model becomes, the kernels it is compiled to, and the memory they need - before the
 * first step. build/bin/example-inspect_ir */
#include <traincc/traincc.h>

#include <stdio.h>
#include <stdlib.h>

static void block(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_input(t, "x"); /* [4, 8] */
    tcc_tensor h = tcc_layer_norm(x, "norm");
    h = tcc_add(x, tcc_gelu(tcc_linear(h, "fc", 8)));
    tcc_loss(t, tcc_mean(tcc_mul(h, h), TCC_ALL));
}

static tcc_status print_report(tcc_model *m, const char *what) {
    char *text;
    tcc_status status = tcc_model_report(m, what, &text);
    if (status != TCC_OK) return status;
    printf("== %s ==\n%s\n", what, text);
    tcc_string_free(text);
    return TCC_OK;
}

int main(void) {
    float x[4][8] = {{0}};
    const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {4, 8}, .data = x};
    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    tcc_program_info info = {0};
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, block, NULL, NULL, &model);
    if (status == TCC_OK) status = tcc_model_compile(model, true, &batch, 1); /* nothing runs */
    if (status == TCC_OK) status = print_report(model, "tir");
    if (status == TCC_OK) status = print_report(model, "passes");
    if (status == TCC_OK) status = print_report(model, "memory");
    if (status == TCC_OK) status = print_report(model, "kernels");
    if (status == TCC_OK) status = tcc_model_info(model, &info);
    if (status == TCC_OK)
        printf("%d kernels in %d steps, %lld bytes at the peak, %.0f flop\n", info.kernels, info.steps,
               (long long)info.peak_bytes, info.flop);
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));

    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
