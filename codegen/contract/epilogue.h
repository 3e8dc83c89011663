/* SPDX-License-Identifier: MIT
 * The epilogue of a contraction: the POINT work of the group on the hero's result, evaluated where the schedule has
 * that result in registers. The body's loops are the schedule's dims of the result, in the hero's row-major order
 * (their extents multiply to its size). The body's stores are all outputs of the group; the hero's value is `port`. The
 * schedule visits the result by its own index maps and gives the values of `forms`. Every offset of the body's loads,
 * stores and counters is one of these forms, plus a constant and values read from memory.
 *
 *     tcc_body_run_begin(&run, e, body, first_buffer);
 *     tcc_epilogue_begin(&run, epilogue, lane_loops);               emits what depends on no loop
 *     for each row:  tcc_epilogue_row(&run, epilogue, values, steps);   what is the same in all lanes
 *         for each vector of it:  tcc_epilogue_vector(&run, epilogue, values, steps, sums, mask);
 *         tcc_epilogue_row_end(&run, epilogue);
 *     tcc_body_run_end(&run); */
#ifndef TCC_CODEGEN_CONTRACT_EPILOGUE_H
#define TCC_CODEGEN_CONTRACT_EPILOGUE_H

#include "codegen/schedule/lowering.h"

enum { TCC_EPILOGUE_MAX_FORMS = 16 };
typedef struct tcc_epilogue {
    tcc_body *body;
    const tcc_expr *port;
    uint64_t lanes; /* the bit of a loop that no offset contains: what depends on the port's lanes */
    int n_forms;
    tcc_affine forms[TCC_EPILOGUE_MAX_FORMS]; /* tcc_affine_coefficient(&forms[i], loop) is its stride in dim `loop` */
    bool plain;                               /* the hero itself is the one output: nothing is computed on it */
    bool wide; /* vectors may be several times as long as the target's: nothing is drawn, which takes all registers */
} tcc_epilogue;
/* Errors: TCC_EUNSUPPORTED where there are too many forms. */
tcc_status tcc_epilogue_create(tcc_lowering *l, const tcc_node *hero, int n_dims, const int64_t *dims,
                               tcc_epilogue *out);
/* `lane_loops`: bit i if dim i may differ from lane to lane. */
void tcc_epilogue_begin(tcc_body_run *r, const tcc_epilogue *epilogue, uint64_t lane_loops);
void tcc_epilogue_row(tcc_body_run *r, const tcc_epilogue *epilogue, const tcc_emit_value *values,
                      const int64_t *steps);
/* `sums`: a vector or a scalar of the hero's register type; values are lane 0's. */
void tcc_epilogue_vector(tcc_body_run *r, const tcc_epilogue *epilogue, const tcc_emit_value *values,
                         const int64_t *steps, tcc_emit_value sums, tcc_emit_value mask);
/* Fetches what such a vector will load and store: before its sums are made. */
void tcc_epilogue_prefetch(tcc_body_run *r, const tcc_epilogue *epilogue, const tcc_emit_value *values,
                           const int64_t *steps);
void tcc_epilogue_row_end(tcc_body_run *r, const tcc_epilogue *epilogue);

#endif
