/* SPDX-License-Identifier: MIT
 * A contraction as a lowering describes it: the dimension of operands and result that each of its loops runs over. */
#ifndef TCC_CODEGEN_CONTRACT_LAUNCH_H
#define TCC_CODEGEN_CONTRACT_LAUNCH_H

#include "codegen/contract/contract.h"
#include "codegen/schedule/lowering.h"
#include "codegen/contract/prologue.h"

/* The lists of dimensions of a tcc_contract. */
enum { TCC_CONTRACT_B, TCC_CONTRACT_M, TCC_CONTRACT_N, TCC_CONTRACT_K, TCC_CONTRACT_LISTS };
enum { TCC_CONTRACT_MAX_RESULT_DIMS = 3 * TCC_MAX_RANK };

/* A dimension of the contraction as it lies in the result: index = start + multiplier * loop of result dim `dim`; -1:
 * none. */
typedef struct tcc_contract_result {
    int dim;
    int64_t multiplier;
} tcc_contract_result;

typedef struct tcc_contract_operand {
    tcc_plan_buffer buffer;
    tcc_dtype dtype;        /* in memory */
    int64_t offset;         /* of element (0, ..., 0), in elements */
    tcc_prologue *prologue; /* not NULL: it is computed, as `dtype`, and lies in no buffer; strides of its forms
                               are in the dims */
    int64_t begin[TCC_CONTRACT_MAX_FORMS]; /* of its forms at element (0, ..., 0) */
} tcc_contract_operand;

typedef struct tcc_contract_shape {
    tcc_contract c;
    tcc_contract_result where[TCC_CONTRACT_LISTS][TCC_CONTRACT_MAX_DIMS];
    int n_dims; /* of the result, in the hero's row-major order */
    int64_t dims[TCC_CONTRACT_MAX_RESULT_DIMS], start[TCC_CONTRACT_MAX_RESULT_DIMS];
    tcc_contract_operand a, b;
    bool matrices;         /* a dot, or a convolution that is one */
    bool failed;           /* more dimensions than there is room for */
    tcc_contract_dim none; /* stands for one that there is no room for */
    const tcc_node *sum;   /* of a dot's operand, wanted beside it; NULL: none */
    bool *summed;          /* it is made */
} tcc_contract_shape;

/* Adds a dim of the result; its number. */
int tcc_contract_add_result(tcc_contract_shape *s, int64_t extent);
/* Adds a dimension to a list, with its strides in the operands; strides of forms are the caller's to set. */
tcc_contract_dim *tcc_contract_add_strided(tcc_contract_shape *s, int list, int64_t extent, int64_t a, int64_t b,
                                           tcc_contract_result where);
static inline tcc_contract_dim *tcc_contract_add(tcc_contract_shape *s, int list, int64_t extent, int64_t a, int64_t b,
                                                 int result) {
    return tcc_contract_add_strided(s, list, extent, a, b, (tcc_contract_result){result, 1});
}

/* Adds the launches. None where the schedule cannot express the epilogue: the group falls back to plain loops. */
tcc_status tcc_contract_launch(tcc_lowering *l, tcc_contract_shape *s);

/* What the launch of such a kernel on the host is planned to do. */
const tcc_contract_plan *tcc_contract_plan_of(const tcc_plan_launch *launch);

/* Whether tiles of operands pass through shared memory: then they may be narrow there, computed on the way, or cut to
 * windows. The host's schedule reads f32 where it lies. */
bool tcc_contract_stages_operands(const tcc_lowering *l);
/* The type that an operand is copied as: on a GPU that of sums, on the host its own. */
tcc_dtype tcc_contract_type_of_copy(const tcc_lowering *l, const tcc_node *n);
/* The type that an operand is read as where it lies. */
tcc_dtype tcc_contract_type_in_place(const tcc_lowering *l, const tcc_node *n);

#endif
