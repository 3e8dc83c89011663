/* SPDX-License-Identifier: MIT
 * Accesses of the host under a mask. Where the machine has no instruction for one, or a slow one, LLVM would branch for
 * each lane, at every vector. Nearly all masks that come at run time are of whole vectors, so those are looked for
 * first, and the others go lane by lane in a loop. */
#include "codegen/emit/functions.h"

#include <string.h>

/* A masked access: `pointer` is the index of what is addressed among three arguments. Its alignment, that of an
 * element, is one more operand behind it, or since LLVM 22 an attribute. */
static tcc_emit_value call_masked(tcc_emitter *e, const char *name, tcc_emit_type type, tcc_emit_value *arguments,
                                  int pointer) {
    enum { N = 3 };
    tcc_emit_type overloads[] = {type, tcc_emit_type_of(arguments[pointer])};
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    tcc_emit_type function = LLVMIntrinsicGetType(e->context, id, overloads, 2);
    if (LLVMCountParamTypes(function) == N) {
        tcc_emit_value call = tcc_emit_overloaded(e, name, overloads, 2, arguments, N);
        unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
        LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)pointer + 1,
                                 LLVMCreateEnumAttribute(e->context, align, (uint64_t)tcc_emit_scalar_bytes(type)));
        return call;
    }
    tcc_emit_value all[N + 1];
    for (int i = 0, n = 0; i < N; i++) {
        all[n++] = arguments[i];
        if (i == pointer) all[n++] = tcc_emit_i32(e, tcc_emit_scalar_bytes(type));
    }
    return tcc_emit_overloaded(e, name, overloads, 2, all, N + 1);
}

tcc_emit_value tcc_emit_gather(tcc_emitter *e, tcc_emit_type type, tcc_emit_value addresses, tcc_emit_value mask) {
    tcc_emit_value arguments[] = {addresses, mask, tcc_emit_null(type)};
    return call_masked(e, "llvm.masked.gather", type, arguments, 0);
}

void tcc_emit_scatter(tcc_emitter *e, tcc_emit_value value, tcc_emit_value addresses, tcc_emit_value mask) {
    tcc_emit_value arguments[] = {value, addresses, mask};
    call_masked(e, "llvm.masked.scatter", tcc_emit_type_of(value), arguments, 1);
}

/* --- Where the machine has no such instruction */

/* AVX-512 has one for elements of every size. AVX has those of 32 bits, but many CPUs that have no more than it store
 * by a mask at a twentieth of the usual rate. */
static bool has_loads(const tcc_emitter *e, tcc_emit_type type) {
    return e->target->lanes == 16 || (e->target->lanes == 8 && tcc_emit_scalar_bytes(type) == 4);
}
static bool has_stores(const tcc_emitter *e) { return e->target->lanes == 16; }

static tcc_emit_value is_whole(tcc_emitter *e, tcc_emit_value mask) {
    tcc_emit_type bits = LLVMIntTypeInContext(e->context, (unsigned)tcc_emit_lanes_of(tcc_emit_type_of(mask)));
    return tcc_emit_icmp(e, TCC_ICMP_EQ, tcc_emit_bitcast(e, mask, bits), LLVMConstAllOnes(bits));
}

/* Room on the stack for the largest vector; one for the function, so that many accesses make no large frame. */
static tcc_emit_value vector_on_stack(tcc_emitter *e) {
    enum { MOST_BYTES = 64 * 8 };
    if (e->vector_function != e->function) {
        e->vector_function = e->function;
        e->vector_on_stack = tcc_emit_local(e, e->i8, MOST_BYTES);
    }
    return e->vector_on_stack;
}

/* The lanes that a constant mask wants, where these are neighbours: [*from, *to). */
static bool is_range(tcc_emit_value mask, int lanes, int *from, int *to) {
    *from = lanes, *to = 0;
    if (!LLVMIsConstant(mask)) return false;
    for (int i = 0; i < lanes; i++) {
        tcc_emit_value bit = LLVMGetAggregateElement(mask, (unsigned)i);
        if (!bit || !LLVMIsAConstantInt(bit)) return false;
        if (!LLVMConstIntGetZExtValue(bit)) continue;
        if (*to && *to != i) return false;
        if (!*to) *from = i;
        *to = i + 1;
    }
    return *to > *from;
}

/* The largest power of two of lanes from `at` on which ends by `to` and begins at a multiple of itself. */
static int part_of_range(int at, int to) {
    int part = 1;
    while (at % (2 * part) == 0 && at + 2 * part <= to) part *= 2;
    return part;
}

/* Such lanes by powers of two, each a part of a register. */
static void store_range(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address, int from, int to) {
    tcc_emit_type scalar = tcc_emit_scalar_of(tcc_emit_type_of(value));
    for (int at = from, part; at < to; at += part) {
        int pick[64];
        part = part_of_range(at, to);
        for (int i = 0; i < part; i++) pick[i] = at + i;
        tcc_emit_store(e, tcc_emit_shuffle(e, value, NULL, pick, part),
                       tcc_emit_at(e, scalar, address, tcc_emit_i64(e, at)), 0);
    }
}

static tcc_emit_value load_range(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, int from, int to) {
    tcc_emit_type scalar = tcc_emit_scalar_of(type);
    const int lanes = tcc_emit_lanes_of(type);
    tcc_emit_value all = tcc_emit_null(type);
    for (int at = from, part; at < to; at += part) {
        int widen[64], blend[64];
        part = part_of_range(at, to);
        tcc_emit_type narrow = tcc_emit_vector_type(scalar, part);
        tcc_emit_value loaded = tcc_emit_load(e, narrow, tcc_emit_at(e, scalar, address, tcc_emit_i64(e, at)), 0);
        if (part == 1) {
            all = tcc_emit_insert(e, all, loaded, tcc_emit_i32(e, at));
            continue;
        }
        for (int i = 0; i < lanes; i++) widen[i] = i < part ? i : 0;
        for (int i = 0; i < lanes; i++) blend[i] = i >= at && i < at + part ? lanes + i - at : i;
        all = tcc_emit_shuffle(e, all, tcc_emit_shuffle(e, loaded, NULL, widen, lanes), blend, lanes);
    }
    return all;
}

/* Copies the lanes that are wanted, one by one; those of `from` are `stride` elements apart. */
static void copy_lanes(tcc_emitter *e, tcc_emit_type type, tcc_emit_value to, tcc_emit_value from, int stride,
                       tcc_emit_value mask) {
    tcc_emit_type scalar = tcc_emit_scalar_of(type);
    tcc_emit_type bits = LLVMIntTypeInContext(e->context, (unsigned)tcc_emit_lanes_of(type));
    tcc_emit_value wanted = LLVMBuildZExtOrBitCast(e->builder, tcc_emit_bitcast(e, mask, bits), e->i64, "");
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_intrinsic(e, "llvm.ctpop", e->i64, &wanted, 1), 1,
                        &wanted, 1);
    tcc_emit_value arguments[] = {loop.carry[0], tcc_emit_int(e, e->i1, 1)};
    tcc_emit_value lane = tcc_emit_intrinsic(e, "llvm.cttz", e->i64, arguments, 2);
    tcc_emit_value source = tcc_emit_at(e, scalar, from, tcc_emit_mul(e, lane, tcc_emit_i64(e, stride)));
    tcc_emit_store(e, tcc_emit_load(e, scalar, source, 0), tcc_emit_at(e, scalar, to, lane), 0);
    tcc_emit_value rest = tcc_emit_and(e, loop.carry[0], tcc_emit_isub(e, loop.carry[0], tcc_emit_i64(e, 1)));
    tcc_emit_loop_end(e, &loop, &rest);
}

static tcc_emit_value load_lanes(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, int stride,
                                 tcc_emit_value mask) {
    tcc_emit_value room = vector_on_stack(e);
    tcc_emit_store(e, tcc_emit_null(type), room, 0);
    copy_lanes(e, type, room, address, stride, mask);
    return tcc_emit_load(e, type, room, 0);
}

/* Lanes that are `stride` apart lie in so many vectors of the elements between them, the last of which ends with the
 * last lane: where vector `index` begins. */
static int64_t part_of_run(int index, int stride, int lanes) {
    return index < stride - 1 ? (int64_t)index * lanes : (int64_t)stride * (lanes - 1) + 1 - lanes;
}

/* All elements between lanes that are `stride` apart, and those picked out of them. */
static tcc_emit_value load_and_pick(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, int stride,
                                    tcc_emit_value mask) {
    const int lanes = tcc_emit_lanes_of(type);
    tcc_emit_value value = NULL, nothing = mask ? tcc_emit_null(tcc_emit_type_of(mask)) : NULL;
    int picked[64] = {0}, pick[64];
    for (int part = 0; part < stride; part++) {
        const int64_t first = part_of_run(part, stride, lanes);
        tcc_emit_value at = tcc_emit_at(e, tcc_emit_scalar_of(type), address, tcc_emit_i64(e, first)), loaded;
        for (int t = 0; t < lanes && mask; t++) pick[t] = (first + t) % stride ? lanes : (int)((first + t) / stride);
        loaded = mask ? tcc_emit_load_masked(e, type, at, tcc_emit_shuffle(e, mask, nothing, pick, lanes))
                      : tcc_emit_load(e, type, at, 0);
        for (int i = 0; i < lanes; i++) {
            const int64_t place = (int64_t)i * stride - first;
            const bool here = place >= 0 && place < lanes && !picked[i];
            pick[i] = here ? (value ? lanes : 0) + (int)place : i;
            picked[i] |= here;
        }
        value = tcc_emit_shuffle(e, value ? value : loaded, value ? loaded : NULL, pick, lanes);
    }
    return value;
}

/* --- Of the host's table */

static tcc_emit_value load_whole_or_lanes(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, int stride,
                                          tcc_emit_value mask) {
    tcc_emit_if whole;
    tcc_emit_value values[2];
    tcc_emit_block from[2];
    tcc_emit_if_begin(e, &whole, is_whole(e, mask));
    values[0] = stride == 1 ? tcc_emit_load(e, type, address, 0) : load_and_pick(e, type, address, stride, NULL);
    from[0] = tcc_emit_current_block(e);
    tcc_emit_if_else(e, &whole);
    values[1] = load_lanes(e, type, address, stride, mask);
    from[1] = tcc_emit_current_block(e);
    tcc_emit_if_end(e, &whole);
    return tcc_emit_phi(e, values, from, 2);
}

tcc_emit_value tcc_host_load_masked(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, tcc_emit_value mask) {
    int from, to;
    if (!has_loads(e, type) && is_range(mask, tcc_emit_lanes_of(type), &from, &to))
        return load_range(e, type, address, from, to);
    if (!has_loads(e, type) && !LLVMIsConstant(mask)) return load_whole_or_lanes(e, type, address, 1, mask);
    tcc_emit_value arguments[] = {address, mask, tcc_emit_null(type)};
    return call_masked(e, "llvm.masked.load", type, arguments, 0);
}

/* A processor gathers lanes one by one; it is faster to load all elements between and to pick. The lanes in between are
 * never wanted, so no mask of such a load is one of a whole vector: that question is of the lanes themselves. */
tcc_emit_value tcc_emit_load_strided(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, int stride,
                                     tcc_emit_value mask) {
    if (!mask || has_loads(e, type) || LLVMIsConstant(mask)) return load_and_pick(e, type, address, stride, mask);
    return load_whole_or_lanes(e, type, address, stride, mask);
}

/* Nothing is gathered, since that goes lane by lane. */
tcc_emit_value tcc_emit_load_one(tcc_emitter *e, tcc_emit_type type, tcc_emit_value base, tcc_emit_value offset,
                                 bool there, tcc_emit_value mask) {
    const int lanes = tcc_emit_lanes_of(type);
    tcc_emit_type scalar = tcc_emit_scalar_of(type), bits = LLVMIntTypeInContext(e->context, (unsigned)lanes);
    if (e->target->lane_groups) return tcc_emit_gather_at(e, scalar, base, tcc_emit_splat(e, offset, lanes), mask);
    tcc_emit_value one = there ? tcc_emit_load(e, scalar, tcc_emit_at(e, scalar, base, offset), 0) : NULL;
    if (!there) {
        tcc_emit_value any = tcc_emit_icmp(e, TCC_ICMP_NE, tcc_emit_bitcast(e, mask, bits), LLVMConstNull(bits));
        one = tcc_emit_load_if(e, scalar, base, offset, any);
    }
    return tcc_emit_select(e, mask, tcc_emit_splat(e, one, lanes), tcc_emit_null(type));
}

void tcc_host_store_masked(tcc_emitter *e, tcc_emit_value value, tcc_emit_value address, tcc_emit_value mask) {
    tcc_emit_type type = tcc_emit_type_of(value);
    int from, to;
    if (!has_stores(e) && is_range(mask, tcc_emit_lanes_of(type), &from, &to)) {
        store_range(e, value, address, from, to);
        return;
    }
    if (has_stores(e) || LLVMIsConstant(mask)) {
        tcc_emit_value arguments[] = {value, address, mask};
        call_masked(e, "llvm.masked.store", type, arguments, 1);
        return;
    }
    tcc_emit_if whole;
    tcc_emit_if_begin(e, &whole, is_whole(e, mask));
    tcc_emit_store(e, value, address, 0);
    tcc_emit_if_else(e, &whole);
    tcc_emit_value room = vector_on_stack(e);
    tcc_emit_store(e, value, room, 0);
    copy_lanes(e, type, address, room, 1, mask);
    tcc_emit_if_end(e, &whole);
}

bool tcc_emit_is_fixed(tcc_emit_value value) { return LLVMIsConstant(value); }

bool tcc_emit_masks_are_slow(const tcc_llvm_target *t) { return !t->lane_groups && t->lanes < 16; }

tcc_emit_value tcc_emit_load_masked_if(tcc_emitter *e, tcc_emit_type type, tcc_emit_value address, tcc_emit_value mask,
                                       tcc_emit_value condition) {
    tcc_emit_if wanted;
    tcc_emit_if_begin(e, &wanted, condition);
    tcc_emit_value value = mask ? tcc_host_load_masked(e, type, address, mask) : tcc_emit_load(e, type, address, 0);
    tcc_emit_if_end(e, &wanted);
    return tcc_emit_if_value(e, &wanted, value, tcc_emit_null(type));
}

/* Elements of less than 32 bits, which no instruction gathers: the aligned words that they lie in. A word lies in one
 * page, so what it has beside the element may be read, whosever it is. */
static tcc_emit_value gather_words(tcc_emitter *e, tcc_emit_type type, tcc_emit_value base, tcc_emit_value offsets,
                                   tcc_emit_value mask) {
    enum { WORD = 4 };
    const int bytes = tcc_emit_scalar_bytes(type), each = WORD / bytes, bits = 8 * bytes;
    tcc_emit_type index = tcc_emit_type_of(offsets), words = tcc_emit_type_like(e, e->i32, type);
    tcc_emit_value address = LLVMBuildPtrToInt(e->builder, base, e->i64, "");
    tcc_emit_value first = tcc_emit_lshr(e, tcc_emit_and(e, address, tcc_emit_i64(e, WORD - 1)),
                                         tcc_emit_i64(e, bytes / 2));
    tcc_emit_value aligned = LLVMBuildIntToPtr(e->builder, tcc_emit_and(e, address, tcc_emit_i64(e, -WORD)), e->ptr,
                                               "");
    if (tcc_emit_scalar_of(index) != e->i64) first = tcc_emit_trunc(e, first, tcc_emit_scalar_of(index));
    offsets = tcc_emit_iadd(e, offsets, tcc_emit_splat(e, first, tcc_emit_lanes_of(type)));
    tcc_emit_value at = tcc_emit_ashr(e, offsets, tcc_emit_int(e, index, each / 2));
    tcc_emit_value within = tcc_emit_and(e, offsets, tcc_emit_int(e, index, each - 1));
    if (tcc_emit_scalar_of(index) != e->i32) within = tcc_emit_trunc(e, within, words);
    tcc_emit_value addresses = LLVMBuildGEP2(e->builder, e->i32, aligned, &at, 1, "");
    tcc_emit_value loaded = tcc_emit_gather(e, words, addresses, mask);
    loaded = tcc_emit_lshr(e, loaded, tcc_emit_imul(e, within, tcc_emit_int(e, words, bits)));
    tcc_emit_type narrow = tcc_emit_type_like(e, LLVMIntTypeInContext(e->context, (unsigned)bits), type);
    return tcc_emit_bitcast(e, tcc_emit_trunc(e, loaded, narrow), type);
}

tcc_emit_value tcc_host_gather_at(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offsets,
                                  tcc_emit_value mask) {
    tcc_emit_type type = tcc_emit_type_like(e, scalar, tcc_emit_type_of(offsets));
    if (!mask) mask = tcc_emit_int(e, tcc_emit_type_like(e, e->i1, type), 1);
    if (e->target->lanes == 16 && tcc_emit_scalar_bytes(type) < 4 && !e->target->checks)
        return gather_words(e, type, base, offsets, mask);
    tcc_emit_value addresses = LLVMBuildGEP2(e->builder, scalar, base, &offsets, 1, "");
    return tcc_emit_gather(e, type, addresses, mask);
}

void tcc_host_scatter_at(tcc_emitter *e, tcc_emit_value value, tcc_emit_value base, tcc_emit_value offsets,
                         tcc_emit_value mask) {
    tcc_emit_type scalar = tcc_emit_scalar_of(tcc_emit_type_of(value));
    tcc_emit_value addresses = LLVMBuildGEP2(e->builder, scalar, base, &offsets, 1, "");
    tcc_emit_scatter(e, value, addresses,
                     mask ? mask : tcc_emit_int(e, tcc_emit_type_like(e, e->i1, tcc_emit_type_of(value)), 1));
}

tcc_emit_value tcc_host_load_if(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offset,
                                tcc_emit_value condition) {
    offset = tcc_emit_select(e, condition, offset, tcc_emit_i64(e, 0));
    tcc_emit_value value = tcc_emit_load(e, scalar, tcc_emit_at(e, scalar, base, offset), 0);
    return tcc_emit_select(e, condition, value, tcc_emit_null(scalar));
}

tcc_emit_value tcc_host_load_lanes_if(tcc_emitter *e, tcc_emit_type type, tcc_emit_value base, tcc_emit_value offset,
                                      int alignment, tcc_emit_value condition) {
    (void)alignment;
    /* Where nothing is wanted, the address may lie in no page, and a processor takes hundreds of cycles to find that it
     * need not fault. So it is the buffer's own then. */
    offset = tcc_emit_select(e, condition, offset, tcc_emit_i64(e, 0));
    tcc_emit_value at = tcc_emit_at(e, tcc_emit_scalar_of(type), base, offset);
    if (!has_loads(e, type)) return tcc_emit_load_masked_if(e, type, at, NULL, condition);
    return tcc_host_load_masked(e, type, at, tcc_emit_splat(e, condition, tcc_emit_lanes_of(type)));
}
