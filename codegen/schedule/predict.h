/* SPDX-License-Identifier: MIT
 * Predicted times: what a launch moves and computes, by the figures of the target. */
#ifndef TCC_CODEGEN_SCHEDULE_PREDICT_H
#define TCC_CODEGEN_SCHEDULE_PREDICT_H

#include "codegen/schedule/lowering.h"

/* Bytes that a kernel with this body moves: of each buffer the elements that it touches, once. */
double tcc_predict_body_bytes(const tcc_body *b);
/* All that a launch may touch of a buffer. */
double tcc_predict_buffer_bytes(const tcc_lowering *l, const tcc_plan_buffer *buffer);
/* Sets what `out` predicts of `launch`. */
void tcc_predict(const tcc_lowering *l, const tcc_plan_launch *launch, tcc_launch *out);

#endif
