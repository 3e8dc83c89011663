/* SPDX-License-Identifier: MIT
 * An image that a host kernel computes while it packs or transforms it. It is channels last, computed from tensors of
 * the image's shape and from vectors of channels. An element is identified by its offset in the dense image and by its
 * channel. Kernels address the image as if it lay at the first of those tensors.
 *
 *     tcc_computed_begin(&run, e, p, first_buffer);           the address of the image's first element
 *     for some channels:  tcc_computed_columns(&run, column, n_columns, mask);
 *         for each pixel:  tcc_computed_vector(&run, address, mask);
 *         tcc_computed_columns_end(&run);
 *     tcc_computed_end(&run); */
#ifndef TCC_CODEGEN_CONTRACT_COMPUTED_H
#define TCC_CODEGEN_CONTRACT_COMPUTED_H

#include "codegen/contract/prologue.h"

/* Whether images of a type may be computed. */
bool tcc_computed_type(tcc_dtype type);
/* The work in front of `n`, an image with channels last. *out: NULL where it is not of this kind. */
tcc_status tcc_computed_create(tcc_lowering *l, const tcc_node *n, tcc_prologue **out);
/* Counts the image, not what it is computed from, in the traffic of a launch that has the buffers of both operands. So
 * what a choice weighs, and with it the order of sums, is as of an image in memory. */
void tcc_computed_set_bytes(const tcc_lowering *l, const tcc_prologue *p, tcc_plan_launch *launch);
/* Text that is equal for equal work. */
void tcc_computed_key(const tcc_prologue *p, tcc_strbuf *out);

typedef struct tcc_computed_run {
    const tcc_prologue *prologue;
    tcc_body_run run;
    uint64_t all, channels; /* loops of the body */
    tcc_emit_value first, channel;
    int64_t steps[TCC_CONTRACT_MAX_FORMS];
    tcc_status status;
} tcc_computed_run;

tcc_emit_value tcc_computed_begin(tcc_computed_run *r, tcc_emitter *e, const tcc_prologue *p, int first_buffer);
/* Vectors at `column` of so many that lie one after the other in the dense image: the channels, or those of
 * neighbouring pixels, which a kernel may take as one dim. */
void tcc_computed_columns(tcc_computed_run *r, tcc_emit_value column, int64_t n_columns, tcc_emit_value mask);
/* The vector that would lie at `address`, widened to f32; NULL mask: all lanes. */
tcc_emit_value tcc_computed_vector(tcc_computed_run *r, tcc_emit_value address, tcc_emit_value mask);
void tcc_computed_columns_end(tcc_computed_run *r);
void tcc_computed_end(tcc_computed_run *r);

#endif
