/* SPDX-License-Identifier: MIT
 * Attention on the host: the forward kernel or the backward one. */
#include "codegen/attention/internal.h"

void tcc_attention_emit(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p) {
    if (p->a.backward) tcc_attention_emit_backward(e, symbol, p);
    else tcc_attention_emit_forward(e, symbol, p);
}
