/* SPDX-License-Identifier: MIT
 * Attention by a library call, which reads and writes its tensors in place. */
#ifndef TCC_CODEGEN_ATTENTION_CALL_H
#define TCC_CODEGEN_ATTENTION_CALL_H

#include "codegen/attention/attention.h"
#include "codegen/schedule/lowering.h"

/* Adds the call; *done false: the library does not take it. For each role that `a` has, its buffer, the element offset
 * in it of index (0, ..., 0), and its type there. */
tcc_status tcc_attention_add_call(tcc_lowering *l, const tcc_attention *a, const tcc_plan_buffer *buffers,
                                  const int64_t *offsets, const tcc_dtype *dtypes, bool *done);

#endif
