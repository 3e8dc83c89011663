/* SPDX-License-Identifier: MIT
 * The rows of ops.def, each as a model of its operands, for the programs that measure them. */
#ifndef TCC_BENCH_OP_ROWS_H
#define TCC_BENCH_OP_ROWS_H

#include "traincc/traincc.h"

enum { OP_MOST_OPERANDS = 4, OP_OPERANDS_SIZE = 256 };

typedef struct op_row {
    const char *name, *operands, *parameters, *module, *in_pytorch;
    bool is_chain;
    int line; /* of ops.def */
    tcc_tensor (*make)(const tcc_tensor *x);
} op_row;
extern const op_row op_rows[];
extern const int op_rows_count;

int64_t op_array_numel(const tcc_array *a);

const op_row *op_row_find(const char *name); /* NULL: there is none */
const char *op_row_bound(const op_row *row); /* "": none is known */
const char *op_row_kind(const op_row *row);
const char *op_row_limit(const op_row *row); /* what keeps rows of its kind from the roofline; "": nothing */

/* What the model's function gets, and what it tells of the result. */
typedef struct op_bench {
    const op_row *row;
    tcc_dtype dtype;
    bool gradients;
    int n;
    char kinds[OP_MOST_OPERANDS], names[OP_MOST_OPERANDS][16];
    tcc_array x[OP_MOST_OPERANDS + 1]; /* with the gradient of the result */
    bool has_gradient;
} op_bench;

/* The row's operands where the extent of x[0]'s first dimension, and each number of operands that is the same, is
 * divided by `divisor`. */
void op_row_operands(const op_row *row, int divisor, char text[OP_OPERANDS_SIZE]);
/* The least power of two which leaves no operand more than `most` elements, or else the greatest that divides. */
int op_row_divisor(const op_row *row, int64_t most);
void op_bench_operands(op_bench *b, int divisor); /* these operands with their values */
/* The result, which the model has computed, is followed by its gradient, "dy", among the operands. */
void op_bench_result_gradient(op_bench *b, const tcc_array *y);
void op_bench_build(tcc_trace *t, void *bench); /* the model's function */
void op_bench_clear(op_bench *b);

#endif
