/* SPDX-License-Identifier: MIT
 * A target as text, for the keys of its compiled code. */
#include "codegen/emit/functions.h"
#include "codegen/options.h"

void tcc_codegen_describe_target(const tcc_llvm_target *t, tcc_strbuf *out) {
    tcc_strbuf_printf(out, "%s %s %s %s lanes=%d registers=%d fma=%d f16=%d narrow=%lld%s%s", t->triple,
                      t->arch ? t->arch : "-", t->cpu, t->features, t->lanes, t->registers, t->fma, t->f16,
                      (long long)t->most_narrow, t->checks ? " checks" : "", t->quick ? " quick" : "");
}

void tcc_codegen_describe_hardware(const tcc_llvm_target *t, tcc_strbuf *out) {
    const tcc_hardware *h = &t->hw;
    tcc_strbuf_printf(out, "sm=%d processors=%d threads=%d/%d warps=%d blocks=%d registers=%d/%d", h->sm, h->processors,
                      h->threads_per_block, h->threads_per_processor, h->warps_per_processor, h->blocks_per_processor,
                      h->registers_per_processor, h->registers_per_thread);
    tcc_strbuf_printf(out, " shared=%lld/%lld/%lld/%lld cache=%lld clock=%a bytes=%a", (long long)h->shared_bytes,
                      (long long)h->shared_optin_bytes, (long long)h->shared_bytes_per_processor,
                      (long long)h->shared_reserved_bytes, (long long)h->cache_bytes, h->clock_hz, h->bytes_per_s);
    tcc_strbuf_printf(out, " fma=%a/%a/%a/%a/%a/%a", h->fma_f32, h->fma_f64, h->fma_f16, h->fma_tf32, h->fma_bf16_pairs,
                      h->fma_bf16_tiles);
}

void tcc_codegen_describe_llvm(tcc_strbuf *out) {
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    tcc_strbuf_printf(out, "LLVM %u.%u.%u", major, minor, patch);
}
