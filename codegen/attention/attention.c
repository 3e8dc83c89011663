/* SPDX-License-Identifier: MIT
 * Attention on the host: the forward kernel or the backward one, on f32 or bf16. */
#include "codegen/attention/bf16.h"

void tcc_attention_emit(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p) {
    const bool f32 = p->multiply == TCC_CONTRACT_FMA;
    if (p->a.backward) (f32 ? tcc_attention_emit_backward : tcc_attention_emit_bf16_backward)(e, symbol, p);
    else (f32 ? tcc_attention_emit_forward : tcc_attention_emit_bf16_forward)(e, symbol, p);
}
