/* SPDX-License-Identifier: MIT
 * Matrices that the lanes of a warp hold together: ldmatrix and mma.sync, with the places of elements that the PTX ISA
 * gives, and the sums of products, exact or as tensor cores truncate them. */
#include "lanes.h"
#include "sim.h"

static bool whole_warp(sim_warp *w, const sim_inst *i, uint32_t mask) {
    if (mask == FULL) return true;
    sim_fault(w, i, -1, SIM_ILLEGAL_INSTRUCTION, "an instruction of the whole warp was reached by lanes 0x%08x only",
              mask);
    return false;
}

/* Lane 8m+r holds the address of row r (16 bytes) of matrix m; lane l gets elements 2(l%4), +1 of row l/4 (or of the
 * column). */
void sim_exec_ldmatrix(sim_warp *w, const sim_inst *i, uint32_t mask) {
    if (!whole_warp(w, i, mask)) return;
    const sim_reg *a = row(w, i->in[0]);
    uint32_t used = i->vec == 4 ? FULL : i->vec == 2 ? 0xffff : 0xff;
    uint16_t m[4][8][8];
    uint64_t address[LANES];
    if (sim_checks(CHECK_UNINIT) && used & ~w->init[i->in[0]] &&
        sim_soft_fault(w, i, 0, CHECK_UNINIT, "the address comes from a register that was never written"))
        return;
    for (int l = 0; l < 8 * i->vec; l++) {
        address[l] = a->u64[l] + (uint64_t)i->imm;
        if (address[l] & 15) {
            sim_fault(w, i, l, SIM_MISALIGNED, "ldmatrix of a row at 0x%llx, which is not aligned to 16 bytes",
                      (unsigned long long)address[l]);
            return;
        }
        const uint8_t *data = sim_touch(w, i, l, (sim_space)i->space, address[l], 16, ACCESS_READ);
        if (!data) return;
        memcpy(m[l / 8][l % 8], data, 16);
    }
    sim_count_shared(w, address, used, 16);
    for (int k = 0; k < i->vec; k++) {
        uint32_t out[LANES];
        EACH_LANE {
            int r = l / 4, c = l % 4 * 2;
            out[l] = i->flags & FLAG_TRANS ? m[k][c][r] | (uint32_t)m[k][c + 1][r] << 16
                                           : m[k][r][c] | (uint32_t)m[k][r][c + 1] << 16;
        }
        commit32(w, i->out[k], out, FULL);
        w->init[i->out[k]] = FULL;
    }
}

/* --- mma.sync and wmma.mma: D = A B + C */

enum { MOST_M = 32, MOST_K = 32, MOST_N = 32 };
typedef struct matrices {
    int m, n, k;
    double a[MOST_M][MOST_K], b[MOST_K][MOST_N], d[MOST_M][MOST_N];
} matrices;

/* How many values a register of this type has; more than one: the first is in the low bits. */
static int per_register(sim_type t) { return sim_type_size(t) >= 4 ? 1 : 4 / sim_type_size(t); }

static double element(const sim_reg *r, sim_type t, int l, int h) {
    switch (t) {
    case T_F16: return f16_to_f32(r->u32[l] >> 16 * h & 0xffff);
    case T_BF16: return bf16_to_f32(r->u32[l] >> 16 * h & 0xffff);
    case T_TF32: return as_f32(r->u32[l] & 0xffffe000); /* the low 13 bits are ignored */
    case T_F64: return r->f64[l];
    case T_S8: return (int8_t)(r->u32[l] >> 8 * h);
    case T_U8: return (uint8_t)(r->u32[l] >> 8 * h);
    case T_S32: return r->s32[l];
    default: return r->f32[l];
    }
}

/* Rows go over groups of four lanes, and those from 8 on are other registers; along k a lane has neighbours in a
 * register, and other registers are further on. */
static void read_operands(const sim_warp *w, const sim_inst *i, matrices *m) {
    const sim_type ta = (sim_type)i->type, tb = (sim_type)i->sub, tc = (sim_type)i->type2;
    const int per = per_register(ta), halves = m->m / 8, n_a = halves * m->k / (4 * per), n_b = m->k / (4 * per);
    const int32_t *in = sim_inputs(w->frame->func, i);
    for (int q = 0; q < n_a; q++, in++)
        EACH_LANE for (int h = 0; h < per; h++)
            m->a[l / 4 + q % halves * 8][l % 4 * per + h + q / halves * 4 * per] = element(row(w, *in), ta, l, h);
    for (int q = 0; q < n_b; q++, in++)
        EACH_LANE for (int h = 0; h < per; h++)
            m->b[l % 4 * per + h + q * 4 * per][l / 4] = element(row(w, *in), tb, l, h);
    const int each = per_register(tc);
    for (int q = 0; q < 2 * halves / each; q++, in++) EACH_LANE for (int h = 0; h < each; h++) {
            const int e = q * each + h;
            m->d[l / 4 + e / 2 * 8][l % 4 * 2 + e % 2] = element(row(w, *in), tc, l, h);
        }
}

static uint64_t result_bits(double v, const sim_inst *i) {
    switch (i->type2) {
    case T_F16: return sim_round_double(v, sim_f16, RND_RN);
    case T_F64: return v != v ? F64_NAN : as_u64(v);
    case T_S32:
        if (i->flags & FLAG_SAT) return (uint32_t)(int32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
        return (uint32_t)(int64_t)v;
    default: return as_u32(canonical_f32((float)v));
    }
}

static void write_result(sim_warp *w, const sim_inst *i, const matrices *m) {
    const int each = per_register((sim_type)i->type2);
    for (int q = 0; q < i->n_out; q++) {
        uint64_t wide[LANES];
        uint32_t out[LANES];
        EACH_LANE {
            wide[l] = 0;
            for (int h = 0; h < each; h++) {
                const int e = q * each + h;
                wide[l] |= result_bits(m->d[l / 4 + e / 2 * 8][l % 4 * 2 + e % 2], i) << 16 * h;
            }
            out[l] = (uint32_t)wide[l];
        }
        if (i->type2 == T_F64) commit64(w, i->out[q], wide, FULL);
        else commit32(w, i->out[q], out, FULL);
    }
}

static void sum_exactly(const sim_inst *i, matrices *m) {
    if (i->type == T_F64) { /* each product and sum rounded once, in the order of k */
        for (int r = 0; r < m->m; r++)
            for (int c = 0; c < m->n; c++)
                for (int k = 0; k < m->k; k++) m->d[r][c] = fma(m->a[r][k], m->b[k][c], m->d[r][c]);
        return;
    }
    for (int r = 0; r < m->m; r++)
        for (int k = 0; k < m->k; k++)
            for (int c = 0; c < m->n; c++) m->d[r][c] += m->a[r][k] * m->b[k][c];
}

/* --- sums as tensor cores truncate them
 *
 * Fasi, Higham, Mikaitis, Pranesh 2021, "Numerical behavior of NVIDIA tensor cores", and for Hopper Khattak, Mikaitis
 * 2025, "Accurate Models of NVIDIA Tensor Cores": the exact products of a block along k, and the sum so far, are
 * aligned to the largest exponent among them - a product's is the sum of its factors' - and cut off below `extra` bits
 * more than float32 has. Their sum is exact and cut off to float32, or rounded to float16; then comes the next block.
 */
static int exponent_of(double v, int least) {
    int e;
    if (v == 0) return INT32_MIN / 4;
    frexp(v, &e);
    return e - 1 > least ? e - 1 : least;
}

/* The bits of a float32 that has nothing below it; beyond the largest it is infinite. */
static double cut_to_f32(double v) {
    if (fabs(v) >= 0x1p128) return copysign(INFINITY, v);
    return as_f32((uint32_t)sim_round_double(v, sim_f32, RND_RZ));
}

typedef struct tensor_core {
    int block, extra;
} tensor_core;

static tensor_core tensor_core_of(int sm, sim_type t) {
    const int half = t == T_TF32 ? 2 : 1;
    if (sm < 80) return (tensor_core){4 / half, 0};
    if (sm < 90) return (tensor_core){8 / half, 1};
    return (tensor_core){16 / half, 2};
}

static void sum_truncated(const sim_inst *i, matrices *m) {
    enum { FRACTION = 23, LEAST = -126 };
    const sim_type t = (sim_type)i->type;
    const tensor_core core = tensor_core_of(sim_set.sm, t);
    const int least = t == T_F16 ? -14 : LEAST;
    int ea[MOST_M][MOST_K], eb[MOST_K][MOST_N];
    for (int k = 0; k < m->k; k++) {
        for (int r = 0; r < m->m; r++) ea[r][k] = exponent_of(m->a[r][k], least);
        for (int c = 0; c < m->n; c++) eb[k][c] = exponent_of(m->b[k][c], least);
    }
    for (int from = 0; from < m->k; from += core.block)
        for (int r = 0; r < m->m; r++)
            for (int c = 0; c < m->n; c++) {
                const int to = from + core.block < m->k ? from + core.block : m->k;
                double *d = &m->d[r][c], special = *d;
                int most = exponent_of(*d, LEAST);
                for (int k = from; k < to; k++) {
                    const int e = ea[r][k] + eb[k][c];
                    special += m->a[r][k] * m->b[k][c];
                    most = e > most ? e : most;
                }
                if (!isfinite(special)) {
                    *d = special;
                    continue;
                }
                if (most < 2 * LEAST) continue; /* all are zero */
                const int unit = most - FRACTION - core.extra;
                int64_t sum = (int64_t)ldexp(*d, -unit);
                for (int k = from; k < to; k++) sum += (int64_t)ldexp(m->a[r][k] * m->b[k][c], -unit);
                const double v = ldexp((double)sum, unit);
                *d = i->type2 == T_F16 ? f16_to_f32((uint32_t)sim_round_double(v, sim_f16, RND_RN)) : cut_to_f32(v);
            }
}

static void multiply(const sim_inst *i, matrices *m) {
    if (sim_set.truncates && (i->type == T_F16 || i->type == T_BF16 || i->type == T_TF32)) sum_truncated(i, m);
    else sum_exactly(i, m);
}

/* Every result depends on registers of several lanes. */
static void all_or_none_known(sim_warp *w, const sim_inst *i) {
    const int32_t *in = sim_inputs(w->frame->func, i);
    uint32_t known = FULL;
    for (int k = 0; k < i->n_in; k++) known &= w->init[in[k]];
    for (int k = 0; k < i->n_out; k++) w->init[i->out[k]] = known == FULL ? FULL : 0;
}

void sim_exec_mma(sim_warp *w, const sim_inst *i, uint32_t mask) {
    if (!whole_warp(w, i, mask)) return;
    matrices m = {.m = i->vec, .n = 8, .k = i->op};
    w->worker->stats.matrix_instructions++;
    read_operands(w, i, &m);
    multiply(i, &m);
    all_or_none_known(w, i);
    write_result(w, i, &m);
}

/* --- wmma: element e of a fragment is value e % values of lane e / values; A and B of f16 have all elements twice */

static int values_of(int registers, sim_type t) { return registers * per_register(t); }

static void read_fragment(const sim_warp *w, const int32_t *in, int n, sim_type t, int rows, int columns, double *to,
                          int width) {
    const int values = values_of(n, t), per = per_register(t);
    EACH_LANE for (int v = 0; v < values; v++) {
        const int e = (l * values + v) % (rows * columns);
        to[e / columns * width + e % columns] = element(row(w, in[v / per]), t, l, v % per);
    }
}

void sim_exec_wmma(sim_warp *w, const sim_inst *i, uint32_t mask) {
    if (!whole_warp(w, i, mask)) return;
    matrices m = {.m = i->op, .n = i->vec, .k = (int)i->imm};
    const sim_type a = (sim_type)i->type, c = (sim_type)i->sub;
    const int twice = a == T_F16 ? 2 : 1, per = per_register(a), n_a = m.m * m.k / LANES * twice / per,
              n_b = m.k * m.n / LANES * twice / per, n_c = m.m * m.n / LANES / per_register(c);
    const int32_t *in = sim_inputs(w->frame->func, i);
    w->worker->stats.matrix_instructions++;
    read_fragment(w, in, n_a, a, m.m, m.k, m.a[0], MOST_K);
    read_fragment(w, in + n_a, n_b, a, m.k, m.n, m.b[0], MOST_N);
    read_fragment(w, in + n_a + n_b, n_c, c, m.m, m.n, m.d[0], MOST_N);
    multiply(i, &m);
    all_or_none_known(w, i);
    const int each = per_register((sim_type)i->type2), values = i->n_out * each;
    for (int q = 0; q < i->n_out; q++) {
        uint64_t wide[LANES] = {0};
        uint32_t out[LANES];
        EACH_LANE {
            for (int h = 0; h < each; h++) {
                const int e = l * values + q * each + h;
                wide[l] |= result_bits(m.d[e / m.n][e % m.n], i) << 16 * h;
            }
            out[l] = (uint32_t)wide[l];
        }
        if (i->type2 == T_F64) commit64(w, i->out[q], wide, FULL);
        else commit32(w, i->out[q], out, FULL);
    }
}

/* Element e of the matrix in memory, after all checks of the lane that has it; NULL after a fault. */
static uint8_t *wmma_element(sim_warp *w, const sim_inst *i, const int32_t *in, int lane, int e, sim_access access) {
    const uint64_t columns = i->sub, r = (uint64_t)e / columns, c = (uint64_t)e % columns;
    const uint64_t stride = row(w, in[1])->u32[lane], size = (uint64_t)sim_type_size((sim_type)i->type);
    const uint64_t at = (i->flags & FLAG_TRANS ? c * stride + r : r * stride + c) * size;
    return sim_touch(w, i, lane, (sim_space)i->space, row(w, in[0])->u64[lane] + (uint64_t)i->imm + at, (uint32_t)size,
                     access);
}

/* All lanes give one address and one stride; rows begin at multiples of 16 bytes, as the ISA asks. */
static bool wmma_address(sim_warp *w, const sim_inst *i, const int32_t *in) {
    const uint64_t bytes = row(w, in[1])->u32[0] * (uint64_t)sim_type_size((sim_type)i->type);
    EACH_LANE if (row(w, in[0])->u64[l] != row(w, in[0])->u64[0] || row(w, in[1])->u32[l] != row(w, in[1])->u32[0]) {
        sim_fault(w, i, l, SIM_ILLEGAL_INSTRUCTION, "lanes of a wmma instruction have different addresses or strides");
        return false;
    }
    if ((row(w, in[0])->u64[0] + (uint64_t)i->imm) % 16 || bytes % 16) {
        sim_fault(w, i, 0, SIM_MISALIGNED,
                  "wmma of rows that do not begin at multiples of 16 bytes: 0x%llx, %llu apart",
                  (unsigned long long)row(w, in[0])->u64[0], (unsigned long long)bytes);
        return false;
    }
    if ((w->init[in[0]] & w->init[in[1]]) == FULL || !sim_checks(CHECK_UNINIT)) return true;
    return !sim_soft_fault(w, i, 0, CHECK_UNINIT, "the address comes from a register that was never written");
}

void sim_exec_wmma_load(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_type t = (sim_type)i->type;
    const int32_t *in = sim_inputs(w->frame->func, i);
    const int per = per_register(t), values = values_of(i->n_out, t), size = sim_type_size(t);
    if (!whole_warp(w, i, mask) || !wmma_address(w, i, in)) return;
    EACH_LANE for (int q = 0; q < i->n_out; q++) {
        uint64_t bits = 0;
        for (int h = 0; h < per; h++) {
            const int e = (l * values + q * per + h) % (i->op * i->sub);
            const uint8_t *from = wmma_element(w, i, in, l, e, ACCESS_READ);
            if (!from) return;
            uint64_t part = 0;
            memcpy(&part, from, (size_t)size);
            bits |= part << 16 * h;
        }
        if (size == 8) row(w, i->out[q])->u64[l] = bits;
        else row(w, i->out[q])->u32[l] = (uint32_t)bits;
    }
    for (int q = 0; q < i->n_out; q++) w->init[i->out[q]] = FULL;
}

void sim_exec_wmma_store(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const sim_type t = (sim_type)i->type;
    const int32_t *in = sim_inputs(w->frame->func, i);
    const int per = per_register(t), values = values_of(i->vec, t), size = sim_type_size(t);
    if (!whole_warp(w, i, mask) || !wmma_address(w, i, in)) return;
    for (int q = 0; q < i->vec; q++)
        if (w->init[in[2 + q]] != FULL && sim_checks(CHECK_UNINIT) &&
            sim_soft_fault(w, i, __builtin_ctz(~w->init[in[2 + q]]), CHECK_UNINIT,
                           "the value stored comes from a register that was never written"))
            return;
    EACH_LANE for (int v = 0; v < values; v++) {
        const sim_reg *from = row(w, in[2 + v / per]);
        const uint64_t bits = size == 8 ? from->u64[l] : from->u32[l] >> 16 * (v % per);
        uint8_t *to = wmma_element(w, i, in, l, l * values + v, ACCESS_WRITE);
        if (!to) return;
        memcpy(to, &bits, (size_t)size);
    }
}
