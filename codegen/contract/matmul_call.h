/* SPDX-License-Identifier: MIT
 * Dots that a library multiplies. */
#ifndef TCC_CODEGEN_CONTRACT_MATMUL_CALL_H
#define TCC_CODEGEN_CONTRACT_MATMUL_CALL_H

#include "codegen/contract/epilogue.h"
#include "codegen/contract/contract.h"
#include "codegen/schedule/lowering.h"

/* A dot as contract.h describes it. */
typedef struct tcc_matmul_dot {
    tcc_contract c;                      /* access 0: the result, dense */
    int loops[4][TCC_CONTRACT_MAX_DIMS]; /* of the epilogue's body, by list (b, m, n, k) and dimension; -1 in k */
    struct {
        tcc_plan_buffer buffer;
        tcc_dtype dtype;
        int64_t offset; /* of element (0, ..., 0), in elements */
    } operands[2];
    const tcc_node *sum; /* of operand `summed` over k, wanted beside the dot; NULL: none */
    int summed;
} tcc_matmul_dot;

/* Adds a library call for the group's hero, and what it leaves of the epilogue, if a library supports such a dot and
 * that is worth it; *done false: nothing was added. *summed: the call makes dot->sum, too. */
tcc_status tcc_lower_matmul(tcc_lowering *l, const tcc_matmul_dot *dot, const tcc_epilogue *epilogue, bool *done,
                            bool *summed);

#endif
