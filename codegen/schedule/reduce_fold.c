/* SPDX-License-Identifier: MIT
 * The lanes of as many rows as a vector has lanes, added up at once. */
#include "codegen/schedule/reduce.h"

tcc_emit_value tcc_reduce_fold_rows(tcc_emitter *e, tcc_op op, tcc_emit_value *sums, int stride, int lanes) {
    for (int width = lanes; width > 1; width /= 2)
        for (int i = 0; i < width / 2; i++) {
            int low[64], high[64];
            for (int l = 0; l < lanes; l++) {
                const int row = l / (width / 2), at = row * width + l % (width / 2);
                low[l] = at;
                high[l] = at + width / 2;
            }
            tcc_emit_value a = sums[2 * i * stride], b = sums[(2 * i + 1) * stride];
            tcc_emit_value sum = tcc_emit_shuffle(e, a, b, low, lanes);
            tcc_fold_step(e, op, &sum, tcc_emit_shuffle(e, a, b, high, lanes), NULL, NULL);
            sums[i * stride] = sum;
        }
    return sums[0];
}
