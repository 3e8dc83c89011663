/* SPDX-License-Identifier: MIT
 * The reference interpreter: the meaning of the IR. Naive, in double precision; integers are exact in int64. */
#ifndef TCC_IR_EVAL_H
#define TCC_IR_EVAL_H

#include "ir/ir.h"
#include "ir/value_pool.h"

/* A tensor value: floats as double, integers and bools as int64. Evaluation rounds floats to the element type in casts
 * and constants alone, but for tcc_graph_eval_rounded. */
typedef struct tcc_value {
    tcc_type type;
    union {
        double *f;
        int64_t *i;
    };
    tcc_value_pool *pool; /* whose memory that is; NULL: its own */
} tcc_value;

tcc_status tcc_value_create(const tcc_type *type, tcc_value *out, tcc_diag *diag); /* zeroed */
void tcc_value_free(tcc_value *v);
tcc_status tcc_value_create_in(tcc_value_pool *pool, const tcc_type *type, tcc_value *out, tcc_diag *diag);
/* From packed memory of the element type. */
void tcc_value_load(tcc_value *v, const void *packed);

/* Evaluates the graph: `inputs` in the order of g->inputs, `outputs` (g->outputs.count of them) are created and the
 * caller frees each. All memory is the pool's. */
tcc_status tcc_graph_eval_in(tcc_value_pool *pool, const tcc_graph *g, const tcc_value *inputs, tcc_value *outputs,
                             tcc_diag *diag);
/* Test hook: the same without a pool. */
tcc_status tcc_graph_eval(const tcc_graph *g, const tcc_value *inputs, tcc_value *outputs, tcc_diag *diag);
/* Test hook: the same on a machine that rounds each float result to its type, once, as compiled programs round f16 and
 * bf16: these have the same bits wherever rounding alone decides, as in element-wise arithmetic. Composites are
 * computed by their definitions. */
tcc_status tcc_graph_eval_rounded(const tcc_graph *g, const tcc_value *inputs, tcc_value *outputs, tcc_diag *diag);
/* Where such an evaluation leaves the finite numbers. */
typedef struct tcc_overflow {
    const tcc_node *node; /* the first whose result is not finite though its operands are, or an input that is not
                             finite itself; NULL: there is none */
    int64_t element;      /* of the result, */
    double value;         /* which is infinite or NaN */
    double largest;       /* size of an element of the operands */
} tcc_overflow;
/* Evaluates as tcc_graph_eval_rounded does, as far as there. Constants may be infinite. */
tcc_status tcc_graph_find_overflow(const tcc_graph *g, const tcc_value *inputs, tcc_overflow *out, tcc_diag *diag);
/* Rounds floats to the element type; whether that changed any. */
bool tcc_value_round(tcc_value *v);
/* One node on given operand values; for constant folding. `out` is created. */
tcc_status tcc_node_eval(const tcc_node *n, const tcc_value *const *operands, tcc_value *out, tcc_diag *diag);
tcc_status tcc_node_eval_in(tcc_value_pool *pool, const tcc_node *n, const tcc_value *const *operands, tcc_value *out,
                            tcc_diag *diag);

#endif
