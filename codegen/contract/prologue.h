/* SPDX-License-Identifier: MIT
 * The prologue of a contraction: POINT work on an operand, evaluated while a tile of the operand is on its way into
 * shared memory. Its inputs are affine loads. */
#ifndef TCC_CODEGEN_CONTRACT_PROLOGUE_H
#define TCC_CODEGEN_CONTRACT_PROLOGUE_H

#include "codegen/contract/gpu.h"
#include "codegen/schedule/lowering.h"

/* The schedule reads the operand by index maps of its own and gives the values of `forms`: every offset that the body
 * loads from or counts with is one of them plus a constant. The first is that of a load with the most loops, if there
 * is a load. */
typedef struct tcc_prologue {
    tcc_body *body;
    const tcc_expr *value, *unrounded; /* the latter for who rounds it */
    const tcc_expr *loads[TCC_CONTRACT_MAX_LOADS];
    tcc_affine forms[TCC_CONTRACT_MAX_FORMS]; /* tcc_affine_coefficient(&forms[i], loop) is its stride */
    tcc_contract_computed reads;              /* of these; forms begin at 0 */
    /* On the host (computed.h): */
    uint64_t channels;   /* the loop of the operand's last dim */
    int64_t n_channels;  /* its extent */
    int64_t image_bytes; /* of the operand, if it were in memory */
} tcc_prologue;

/* From a fresh body whose one traced value is the operand's. Takes the body over. *out: NULL where work is not of this
 * kind, such as a load at an index from memory. */
tcc_status tcc_prologue_create(tcc_lowering *l, tcc_body *b, const tcc_expr *value, tcc_prologue **out);
/* The launch's buffers for its loads are those of the body in order. */
int tcc_prologue_buffers(const tcc_prologue *p, tcc_plan_buffer *out);

/* While a kernel is emitted. */
typedef struct tcc_prologue_run {
    const tcc_prologue *prologue;
    const tcc_contract_side *side;
    tcc_body_run run;
    uint64_t loops; /* of the body */
    tcc_status status;
} tcc_prologue_run;

/* Fills `out` with functions for the schedule, on `r`. */
void tcc_prologue_open(tcc_prologue_run *r, const tcc_prologue *p, tcc_contract_prologue *out);

#endif
