/* SPDX-License-Identifier: MIT
 * Tables of as many f32 as a vector has lanes, which one instruction looks up for every lane: sixteen with AVX-512,
 * eight with AVX2. */
#ifndef TCC_CODEGEN_EMIT_MATH_TABLES_H
#define TCC_CODEGEN_EMIT_MATH_TABLES_H

#include "codegen/emit/math_ops.h"

bool tcc_math_has_tables(const tcc_emitter *e);
/* The lane of a full vector of f32 that the low bits of each lane's index name. */
tcc_emit_value tcc_math_permute(tcc_emitter *e, tcc_emit_value x, tcc_emit_value index);
/* The entry that the low bits of each lane's index name, of a full vector. */
tcc_emit_value tcc_math_look_up(tcc_emitter *e, const float *table, tcc_emit_value index);

/* f of all lanes of x, and of those of y unless that is NULL. Vectors of other widths are computed as full ones, so
 * that all widths give the same bits. */
typedef tcc_emit_value (*tcc_math_of_full)(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y);
tcc_emit_value tcc_math_by_parts(tcc_emitter *e, tcc_math_of_full f, tcc_emit_value x, tcc_emit_value y);

#endif
