/* SPDX-License-Identifier: MIT
 * One start: startup MODEL [ARCH] makes a model of the benchmarks and trains one step, or, for a GPU of ARCH, compiles
 * the training step alone. startup.py measures it from outside, with and without a cache. */
#include "bench/models.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    const bench_model *c = argc > 1 ? bench_model_find(argv[1]) : NULL;
    if (!c) {
        fputs("usage: startup MODEL [ARCH]\n", stderr);
        return 2;
    }
    const tcc_model_options options = {
        .size = sizeof options, .seed = 1, .optimizer = &c->optimizer, .arch = argc > 2 ? argv[2] : NULL};
    tcc_context *cx;
    tcc_model *m = NULL;
    tcc_array batch[2];
    bench_model_batch(c, batch);
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, bench_model_build, (void *)c, &options, &m);
    if (status == TCC_OK) status = tcc_model_compile(m, true, batch, 2);
    if (status == TCC_OK && !options.arch) status = tcc_model_train(m, batch, 2);
    if (status == TCC_OK && !options.arch) printf("loss %.5f\n", tcc_model_loss(m));
    if (status != TCC_OK) fprintf(stderr, "startup: %s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    free(batch[0].data);
    free(batch[1].data);
    return status == TCC_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
