/* SPDX-License-Identifier: MIT
 * What the files of the graph's builder share: lookup, interned strings, type inference. Private to
 * ir/. */
#ifndef TCC_IR_BUILDER_H
#define TCC_IR_BUILDER_H

#include "ir/ir.h"

/* -- ir.c -- */

/* What tcc_ir_set_origin and its like have said. */
typedef struct tcc_origin {
    tcc_loc loc;
    bool backward;
    int segment;
} tcc_origin;

/* tcc_ir_build with all of the origin given. */
tcc_node *tcc__ir_build(tcc_graph *g, tcc_op op, tcc_node *const *operands, int n_operands, const tcc_attrs *attrs,
                        const tcc_type *type, const tcc_origin *origin);
/* The node that equals this description, or NULL. */
tcc_node *tcc__ir_find(const tcc_graph *g, tcc_op op, tcc_node *const *operands, int n_operands, const tcc_attrs *attrs,
                       const tcc_type *type, unsigned marks);
/* Whether a state of this type can begin as the copy that it says, of an input above node number `before`. If not,
 * writes why. */
bool tcc__ir_can_copy(const tcc_graph *g, const tcc_attrs_input *copy, const tcc_type *type, int before, char *why,
                      size_t why_bytes);
tcc_loc tcc__ir_get_loc(const tcc_graph *g); /* of the origin */
void tcc__ir_fail(tcc_graph *g);             /* an error was reported: tcc_rewrite_end must not succeed */

/* -- infer.c -- */

typedef struct tcc_infer {
    tcc_diag *diag;
    tcc_loc loc;
    tcc_op op;
    const tcc_attrs *attrs;
    tcc_node *const *operands;
    int n_operands;
    const tcc_type *given; /* of TYPED ops */
} tcc_infer;

/* Checks operands and attributes and says what the result's type is. Errors name the op and the
 * types, at `loc`. */
tcc_status tcc__infer(const tcc_infer *q, tcc_type *out);
/* Extents are at least 1, the rank is in range, and no more than TCC_MAX_NUMEL elements. */
tcc_status tcc__check_type(tcc_diag *diag, tcc_loc loc, const char *what, const tcc_type *t);

#define TCC_MAX_NUMEL (INT64_C(1) << 40)

#endif
