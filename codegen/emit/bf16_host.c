/* SPDX-License-Identifier: MIT
 * Products of bf16 on the host: AVX512-BF16 and AMX. Both round each sum to f32, to nearest even, take denormals as 0
 * and give 0 for them; so does the instruction that rounds to bf16. */
#include "codegen/emit/functions.h"

#include "ir/support/cpu.h"

enum { CONFIGURATION_BYTES = 64, TILES = TCC_EMIT_TILES, ROW_BYTES = 64 };

tcc_emit_value tcc_host_multiply_pairs(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, tcc_emit_value sums) {
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(sums));
    tcc_emit_type type = tcc_emit_vector_type(LLVMBFloatTypeInContext(e->context), 2 * lanes);
    tcc_emit_value arguments[] = {sums, tcc_emit_bitcast(e, a, type), tcc_emit_bitcast(e, b, type)};
    const char *name = lanes == 16  ? "llvm.x86.avx512bf16.dpbf16ps.512"
                       : lanes == 8 ? "llvm.x86.avx512bf16.dpbf16ps.256"
                                    : "llvm.x86.avx512bf16.dpbf16ps.128";
    return tcc_emit_intrinsic(e, name, NULL, arguments, 3);
}

tcc_emit_value tcc_host_round_pairs(tcc_emitter *e, tcc_emit_value low, tcc_emit_value high) {
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(low));
    tcc_emit_value arguments[] = {high, low};
    const char *name = lanes == 16  ? "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
                       : lanes == 8 ? "llvm.x86.avx512bf16.cvtne2ps2bf16.256"
                                    : "llvm.x86.avx512bf16.cvtne2ps2bf16.128";
    tcc_emit_value rounded = tcc_emit_intrinsic(e, name, NULL, arguments, 2);
    return tcc_emit_bitcast(e, rounded, tcc_emit_vector_type(e->i16, 2 * lanes));
}

/* -- Rounding, of denormals too -- */

enum { LANES = 16, MOST_LANES = 4 * LANES };

/* The bits of lanes first, first + 1, ... of x by the instruction; in *denormal, those for which that is wrong. */
static tcc_emit_value round_part(tcc_emitter *e, tcc_emit_value x, int first, tcc_emit_value *denormal) {
    enum { DENORMAL = 0x20 };
    int indices[LANES];
    for (int i = 0; i < LANES; i++) indices[i] = first + i;
    tcc_emit_value part = tcc_emit_lanes_of(tcc_emit_type_of(x)) > LANES ? tcc_emit_shuffle(e, x, NULL, indices, LANES)
                                                                         : x;
    tcc_emit_value classes[] = {part, tcc_emit_i32(e, DENORMAL)};
    *denormal = tcc_emit_intrinsic(e, "llvm.x86.avx512.fpclass.ps.512", NULL, classes, 2);
    tcc_emit_value rounded = tcc_emit_intrinsic(e, "llvm.x86.avx512bf16.cvtneps2bf16.512", NULL, &part, 1);
    return tcc_emit_bitcast(e, rounded, tcc_emit_vector_type(e->i16, LANES));
}

/* Vectors of equal width behind each other. */
static tcc_emit_value joined(tcc_emitter *e, const tcc_emit_value *parts, int n) {
    if (n == 1) return parts[0];
    int indices[MOST_LANES];
    for (int i = 0; i < MOST_LANES; i++) indices[i] = i;
    return tcc_emit_shuffle(e, joined(e, parts, n / 2), joined(e, parts + n / 2, n / 2), indices, n * LANES);
}

tcc_emit_value tcc_host_round_bf16(tcc_emitter *e, tcc_emit_value x) {
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(x)), n = lanes / LANES;
    if (!e->few_roundings || lanes % LANES || lanes > MOST_LANES || !tcc_cpu_lists(e->target->features, "avx512bf16"))
        return NULL;
    tcc_emit_value parts[MOST_LANES / LANES], any = NULL;
    for (int i = 0; i < n; i++) {
        tcc_emit_value denormal;
        parts[i] = round_part(e, x, i * LANES, &denormal);
        denormal = tcc_emit_bitcast(e, denormal, e->i16);
        any = any ? tcc_emit_or(e, any, denormal) : denormal;
    }
    tcc_emit_type type = tcc_emit_type_like(e, e->i32, tcc_emit_type_of(x));
    tcc_emit_value by_instruction = joined(e, parts, n), places = tcc_emit_int(e, type, 16);
    tcc_emit_if branch;
    tcc_emit_if_begin(e, &branch, tcc_emit_icmp(e, TCC_ICMP_NE, any, tcc_emit_null(e->i16)));
    tcc_emit_value by_integers = tcc_emit_bitcast(e, tcc_emit_round_by_integers(e, x), type);
    by_integers = tcc_emit_trunc(e, tcc_emit_lshr(e, by_integers, places), tcc_emit_type_of(by_instruction));
    tcc_emit_if_end(e, &branch);
    tcc_emit_value bits = tcc_emit_zext(e, tcc_emit_if_value(e, &branch, by_integers, by_instruction), type);
    return tcc_emit_bitcast(e, tcc_emit_shl(e, bits, places), tcc_emit_type_of(x));
}

static tcc_emit_value i8(tcc_emitter *e, int value) { return LLVMConstInt(e->i8, (unsigned long long)value, false); }

/* -- To f32 -- */

enum { HALVES = 8 /* in 16 bytes */ };

/* AVX2 widens 16 bits and shifts them by two instructions. One shuffles all bytes of each half of a register to where
 * they belong, if both halves have all 16 bytes, as the instruction has it that loads them. */
static tcc_emit_value widened(tcc_emitter *e, tcc_emit_value part) {
    enum { REGISTER = 4 * HALVES, ZERO = 0x80, LOWER = 2 };
    int both[2 * HALVES];
    tcc_emit_value bytes[REGISTER];
    for (int i = 0; i < 2 * HALVES; i++) both[i] = i % HALVES;
    for (int i = 0; i < REGISTER; i++) bytes[i] = i8(e, i % 4 < LOWER ? ZERO : 2 * (i / 4) + i % 4 - LOWER);
    tcc_emit_value twice = tcc_emit_shuffle(e, part, NULL, both, 2 * HALVES);
    tcc_emit_value arguments[] = {tcc_emit_bitcast(e, twice, tcc_emit_vector_type(e->i8, REGISTER)),
                                  tcc_emit_constants(bytes, REGISTER)};
    tcc_emit_value shuffled = tcc_emit_intrinsic(e, "llvm.x86.avx2.pshuf.b", NULL, arguments, 2);
    return tcc_emit_bitcast(e, shuffled, e->vf32);
}

/* Of what has just been loaded: LLVM makes a load of each 16 bytes of some vectors only, so that is done here. */
tcc_emit_value tcc_host_from_bf16(tcc_emitter *e, tcc_emit_value half) {
    enum { MOST_PARTS = 8 };
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(half)), n = lanes / HALVES;
    if (e->target->lanes != HALVES || lanes % HALVES || n > MOST_PARTS) return NULL;
    if (!LLVMIsALoadInst(half) || half != LLVMGetLastInstruction(LLVMGetInsertBlock(e->builder))) return NULL;
    const tcc_emit_value from = LLVMGetOperand(half, 0);
    const tcc_emit_type type = tcc_emit_vector_type(e->i16, HALVES);
    tcc_emit_value parts[MOST_PARTS];
    for (int i = 0; i < n; i++)
        parts[i] = widened(e, tcc_emit_load(e, type, tcc_emit_at(e, e->i16, from, tcc_emit_i64(e, i * HALVES)), 0));
    for (int width = 1; width < n; width *= 2)
        for (int i = 0; i + width < n; i += 2 * width) parts[i] = tcc_emit_append(e, parts[i], parts[i + width]);
    return parts[0];
}

/* The configuration's layout: byte 0 the palette, from byte 16 on the bytes of a row (16 bits each), from byte 48 on
 * the rows. */
static void configure(tcc_emitter *e, const int *rows) {
    tcc_emit_value place = tcc_emit_local(e, e->i8, CONFIGURATION_BYTES);
    tcc_emit_store(e, tcc_emit_null(tcc_emit_vector_type(e->i8, CONFIGURATION_BYTES)), place, 0);
    tcc_emit_store(e, i8(e, 1), place, 0);
    for (int i = 0; i < TILES; i++) {
        e->tile_rows[i] = rows[i];
        if (!rows[i]) continue;
        tcc_emit_store(e, i8(e, ROW_BYTES), tcc_emit_at_bytes(e, place, 16 + 2 * i), 0);
        tcc_emit_store(e, i8(e, rows[i]), tcc_emit_at_bytes(e, place, 48 + i), 0);
    }
    tcc_emit_intrinsic(e, "llvm.x86.ldtilecfg", NULL, &place, 1);
}

static void release(tcc_emitter *e) { tcc_emit_intrinsic(e, "llvm.x86.tilerelease", NULL, NULL, 0); }

static void zero(tcc_emitter *e, int tile) {
    tcc_emit_value number = i8(e, tile);
    tcc_emit_intrinsic(e, "llvm.x86.tilezero", NULL, &number, 1);
}

/* Of rows that lie `row_bytes` apart. */
static void access_rows(tcc_emitter *e, const char *name, int tile, tcc_emit_value address, int64_t row_bytes) {
    tcc_emit_value arguments[] = {i8(e, tile), address, tcc_emit_i64(e, row_bytes)};
    tcc_emit_value call = tcc_emit_intrinsic(e, name, NULL, arguments, 3);
    if (!e->target->checks) return;
    LLVMMetadataRef rows = LLVMValueAsMetadata(tcc_emit_i32(e, e->tile_rows[tile]));
    LLVMSetMetadata(call, tcc_host_tile_rows(e),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, &rows, 1)));
}

static void load(tcc_emitter *e, int tile, tcc_emit_value address, int64_t row_bytes) {
    access_rows(e, "llvm.x86.tileloadd64", tile, address, row_bytes);
}

static void store(tcc_emitter *e, int tile, tcc_emit_value address, int64_t row_bytes) {
    access_rows(e, "llvm.x86.tilestored64", tile, address, row_bytes);
}

static void multiply(tcc_emitter *e, int sums, int a, int b) {
    tcc_emit_value arguments[] = {i8(e, sums), i8(e, a), i8(e, b)};
    tcc_emit_intrinsic(e, "llvm.x86.tdpbf16ps", NULL, arguments, 3);
}

const tcc_emit_tiles tcc_host_tiles = {configure, release, zero, load, store, multiply};
