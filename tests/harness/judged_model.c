/* SPDX-License-Identifier: MIT
 * See the header. */
#include "harness/judged_model.h"
#include "harness/patience.h"

#include "frontend/tune/tune.h"

static int64_t count(const tcc_array *a) {
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) n *= a->dims[d];
    return n;
}

tcc_status judged_model_create(tcc_context *cx, tcc_model_fn net, tune_judge *judge, tcc_mode mode, const char *written,
                               const char *held, const tcc_array batch[2], int classes, tcc_model **out) {
    const tcc_model_options options = {.size = sizeof options,
                                       .device = "cuda",
                                       .mode = mode,
                                       .seed = 1,
                                       .autotune_budget_s = test_seconds(60),
                                       .lock = written,
                                       .locked = held};
    float *x = batch[0].data;
    int32_t *y = batch[1].data;
    for (int64_t i = 0; i < count(&batch[0]); i++) x[i] = (float)(i % 41 - 20) / 16;
    for (int64_t i = 0; i < count(&batch[1]); i++) y[i] = (int32_t)(i % classes);
    const tcc_status status = tcc_model_create(cx, net, NULL, &options, out);
    if (status == TCC_OK && (*out)->compiler->tuning) (*out)->compiler->tuning->judge = judge;
    return status;
}
