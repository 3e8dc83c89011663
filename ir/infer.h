/* SPDX-License-Identifier: MIT
 * What the rules of type inference share. Private to ir/infer*.c.
 *
 * A rule sees checked operand counts, non-NULL operands, an attribute union of the op's class with
 * list counts in range, and, for TYPED ops, a well-formed given type. It fills *out or reports why
 * not; that the result's extents are sane is checked after it. */
#ifndef TCC_IR_INFER_H
#define TCC_IR_INFER_H

#include "ir/builder.h"

/* Every rule that ops.def names. */
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) \
    tcc_status tcc__infer_##infer(const tcc_infer *q, tcc_type *out);
#include "ir/ops.def"
#undef TCC_OP

static inline const tcc_type *operand(const tcc_infer *q, int i) { return &q->operands[i]->type; }

/* Reports "dot: <message>" at the user's line. */
tcc_status tcc__refuse(const tcc_infer *q, tcc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum {
    KIND_FLOAT = 1 << TCC_KIND_FLOAT,
    KIND_INT = 1 << TCC_KIND_INT,
    KIND_BOOL = 1 << TCC_KIND_BOOL,
    KIND_NUMBER = KIND_FLOAT | KIND_INT
};

/* Operand i has an element type of one of the kinds. */
tcc_status tcc__need_kind(const tcc_infer *q, int i, unsigned kinds);
/* Operands i and j have the same element type. */
tcc_status tcc__need_same_dtype(const tcc_infer *q, int i, int j);
/* Operand i, called `role`, has exactly this type. */
tcc_status tcc__need_is(const tcc_infer *q, int i, const char *role, const tcc_type *expected);
/* The given result type is what `expected` says. */
tcc_status tcc__need_given(const tcc_infer *q, const tcc_type *expected);
/* 0 <= axis < rank. */
tcc_status tcc__need_axis(const tcc_infer *q, int64_t axis, int rank);
/* Axes are in range and distinct; `ascending`: also in order. */
tcc_status tcc__need_axes(const tcc_infer *q, const char *name, const tcc_dims *axes, int rank, bool ascending);
/* A list has `count` entries, each from `least` to TCC_MAX_NUMEL. */
tcc_status tcc__need_list(const tcc_infer *q, const char *name, const tcc_dims *list, int count, int64_t least);

/* "[1, 2]" in one of a few rotating thread-local buffers. */
const char *tcc__dims_text(const tcc_dims *list);

static inline void push_dim(tcc_type *t, int64_t extent) { t->dims[t->rank++] = extent; }

#endif
