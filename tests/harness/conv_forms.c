/* SPDX-License-Identifier: MIT */
#include "harness/conv_forms.h"

enum { WORKSPACE = 1 << 16 };

static void lay_out(int64_t *strides, int64_t channels, const int64_t *sizes, bool last) {
    int64_t dense = last ? channels : 1;
    for (int i = CONV_SPATIAL; i-- > 0;) strides[2 + i] = dense, dense *= sizes[i];
    strides[1] = last ? 1 : dense;
    strides[0] = last ? dense : dense * channels;
}

void conv_complete(tcc_conv_params *c, bool last) {
    for (int i = 0; i < CONV_SPATIAL; i++)
        c->y_size[i] = (c->x_size[i] + c->pad_low[i] + c->pad_high[i] - (c->kernel[i] - 1) * c->dilation[i] - 1) /
                           c->stride[i] +
                       1;
    lay_out(c->x_stride, c->in, c->x_size, last);
    lay_out(c->w_stride, c->in / c->groups, c->kernel, last);
    lay_out(c->y_stride, c->out, c->y_size, last);
}

tcc_cudnn_conv_params conv_2d(int64_t size, int64_t in, int64_t out, int64_t kernel) {
    tcc_cudnn_conv_params p = {.conv = {.batch = 2,
                                        .groups = 1,
                                        .in = in,
                                        .out = out,
                                        .x_size = {1, size, size + 1},
                                        .kernel = {1, kernel, kernel},
                                        .stride = {1, 1, 1},
                                        .dilation = {1, 1, 1},
                                        .pad_low = {0, kernel / 2, kernel / 2},
                                        .pad_high = {0, kernel / 2, kernel / 2}},
                               .type = TCC_F32,
                               .alignment = 16,
                               .workspace_bytes = WORKSPACE};
    conv_complete(&p.conv, true);
    return p;
}

tcc_cudnn_conv_params conv_form(int i) {
    enum { GRID = 64, LINE = GRID, CUBE };
    tcc_cudnn_conv_params p = conv_2d(i < GRID ? 7 : 6, i < GRID ? 8 : 12, i < GRID ? 16 : 12,
                                      i < GRID && !(i & 1) ? 1 : 3);
    tcc_conv_params *c = &p.conv;
    if (i < GRID) {
        if (i & 2) c->stride[1] = 2, c->stride[2] = 3;
        if (i & 4) c->dilation[1] = 2;
        if (i & 8) c->groups = 4;
        if (i & 16) c->pad_low[1] += 2, c->pad_high[2] += 1;
    } else if (i == LINE) {
        c->x_size[1] = c->kernel[1] = 1, c->pad_low[1] = c->pad_high[1] = 0;
    } else if (i == CUBE) {
        c->x_size[0] = 5, c->kernel[0] = 2, c->stride[0] = 2;
    } else {
        c->groups = c->in;
    }
    conv_complete(c, i >= GRID || !(i & 32));
    return p;
}
