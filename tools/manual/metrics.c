/* SPDX-License-Identifier: MIT
 * Examples of metrics.h. */
#include "examples.h"

EXAMPLE(tcc_metrics_open) {
    tcc_metrics_options how = {.size = sizeof how, .folder = ".", .no_tensorboard = true};
    tcc_metrics *mine;
    TCC_TRY(tcc_metrics_open(cx, &how, &mine));
    tcc_metrics_close(mine);
}

EXAMPLE(tcc_metrics_write) {
    tcc_metric values[] = {{"loss", 0.25}, {"lr", 1e-3}};
    TCC_TRY(tcc_metrics_write(metrics, 1, values, 2)); /* {"step":1,"loss":0.25,"lr":0.001} */
}

EXAMPLE(tcc_metrics_write_histogram) {
    float weights[] = {-1, 0, 0, 0.5f, 2};
    TCC_TRY(tcc_metrics_write_histogram(metrics, 1, "fc1.weight", weights, 5));
}

EXAMPLE(tcc_metrics_write_text) { TCC_TRY(tcc_metrics_write_text(metrics, 1, "sample", "To be, or not", 13)); }

EXAMPLE(tcc_metrics_write_image) {
    tcc_metrics_image grey = {.size = sizeof grey, .height = 1, .width = 2, .channels = 1};
    grey.pixels = (const uint8_t[]){0, 255};
    TCC_TRY(tcc_metrics_write_image(metrics, 1, "sample", &grey));
}

EXAMPLE(tcc_image_write) {
    tcc_metrics_image grey = {.size = sizeof grey, .height = 1, .width = 2, .channels = 1};
    grey.pixels = (const uint8_t[]){0, 255};
    TCC_TRY(tcc_image_write(cx, "picture.png", &grey));
}

EXAMPLE(tcc_metrics_close) {
    tcc_metrics_options how = {.size = sizeof how, .folder = "."};
    tcc_metrics *mine = NULL;
    if (tcc_metrics_open(cx, &how, &mine)) puts(tcc_context_error(cx));
    tcc_metrics_close(mine);
}
