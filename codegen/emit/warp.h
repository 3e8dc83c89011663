/* SPDX-License-Identifier: MIT
 * Instructions of NVIDIA GPUs that contractions and attention are made from: guarded global reads, asynchronous copies
 * into shared memory, matrix fragments and products of a warp. Sources: PTX ISA 8.5, 9.7.9 (data movement) and 9.7.14
 * (matrix). CUDA targets only; what needs sm_80 says so.
 *
 * Fragments of mma.sync, for lane l with r = l / 4 and c = l % 4, are 32-bit registers (i32):
 *   f16, bf16 (k = 16)  A 16 x 16: (r, 2c..), (r + 8, 2c..), (r, 2c + 8..), (r + 8, 2c + 8..), two neighbours in k each
 *                       B 16 x 8:  (2c.., r), (2c + 8.., r)
 *   tf32 (k = 8)        A 16 x 8:  (r, c), (r + 8, c), (r, c + 4), (r + 8, c + 4);   B 8 x 8: (c, r), (c + 4, r)
 *   sums, f32           C 16 x 8:  (r, 2c), (r, 2c + 1), (r + 8, 2c), (r + 8, 2c + 1) */
#ifndef TCC_CODEGEN_EMIT_WARP_H
#define TCC_CODEGEN_EMIT_WARP_H

#include "codegen/emit/emitter.h"

/* The thread's index in the block, as i32, read at the builder's position: what is derived from it is not moved out of
 * loops, and so occupies no register before. */
tcc_emit_value tcc_emit_thread(tcc_emitter *e);

/* Whether the target has what needs sm_80. */
bool tcc_llvm_has_matrix(const tcc_llvm_target *target);

/* One element, or n = 2, 4 or 8 of them as a vector, aligned as accesses of up to 16 bytes need; 0 where `inside` (i1;
 * NULL: everywhere) is false, and nothing is touched there. Read at the builder's position, not at the first use:
 * what lies between hides the latency. Elements come as in memory (f16 and bf16 as bits in i16), so that nothing waits
 * for them yet; tcc_emit_widen makes f32 of them, and leaves others. */
tcc_emit_value tcc_emit_global_load(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value address, int n,
                                    tcc_emit_value inside);
tcc_emit_value tcc_emit_widen(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value bits);

/* Eight rows of 16 bytes make a matrix of 8 x 8 16-bit elements. `n` of 1, 2 or 4 matrices; lane 8 i + r gives the
 * address of row r of matrix i, in shared memory. out[i]: elements (l / 4, 2 (l % 4)) and the next of matrix i, of its
 * transpose if `transposed`. sm_75. */
void tcc_emit_load_matrix(tcc_emitter *e, int n, bool transposed, tcc_emit_value address, tcc_emit_value *out);
/* sums += A B. `type`: TCC_F16 or TCC_BF16 (a: 4 registers, b: 2, k = 16), TCC_F32 for tf32 (a: 4, b: 2, k = 8), whose
 * low 13 bits are ignored: round first. sm_80. */
void tcc_emit_matrix_product(tcc_emitter *e, tcc_dtype type, const tcc_emit_value *a, const tcc_emit_value *b,
                             tcc_emit_value *sums);
/* Two f32 rounded to f16 or bf16, `low` in the low half of an i32. sm_80. */
tcc_emit_value tcc_emit_pack(tcc_emitter *e, tcc_dtype type, tcc_emit_value low, tcc_emit_value high);
/* f32 to the nearest tf32, ties away from zero, as f32 bits in i32. sm_80. */
tcc_emit_value tcc_emit_round_tf32(tcc_emitter *e, tcc_emit_value value);

/* Copies 16 bytes (4, 8 or 16; 16 passes by the first-level cache) from global to shared memory without a register
 * between; zeros where `inside` (NULL: everywhere) is false. Copies between two commits are a group; wait until at most
 * `pending` groups of the thread are on their way, then a barrier. sm_80. */
void tcc_emit_copy_async(tcc_emitter *e, tcc_emit_value shared, tcc_emit_value global, int bytes,
                         tcc_emit_value inside);
void tcc_emit_copy_commit(tcc_emitter *e);
void tcc_emit_copy_wait(tcc_emitter *e, int pending);

#endif
