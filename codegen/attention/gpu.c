/* SPDX-License-Identifier: MIT
 * Attention on CUDA: the plan, the walk over items, and what both ways of computing it share. */
#include "codegen/attention/gpu_internal.h"

#include "codegen/emit/warp.h"

#include <math.h>
#include <string.h>

enum { SCRATCH_LIMIT = 64 * 1024 /* so that other blocks find room beside it */, WARP_ROWS = 16 };

static LLVMValueRef i32(tcc_emitter *e, int64_t value) { return tcc_emit_i32(e, (int32_t)value); }
static LLVMValueRef i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }
static LLVMValueRef narrow(tcc_emitter *e, LLVMValueRef x) { return LLVMBuildTrunc(e->builder, x, e->i32, ""); }
static LLVMValueRef wide(tcc_emitter *e, LLVMValueRef x) { return LLVMBuildSExt(e->builder, x, e->i64, ""); }
static LLVMValueRef below(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildICmp(e->builder, LLVMIntSLT, a, b, "");
}
static LLVMValueRef number(tcc_emitter *e, double x) { return tcc_emit_float(e, e->f32, x); }

/* --- The plan */

static bool is_aligned(const tcc_attention *a, tcc_attention_role role, int64_t begin, int64_t width) {
    const tcc_attention_operand *o = &a->operands[role];
    int64_t bits = begin | o->row | width;
    for (int i = 0; i < a->n_batch; i++) bits |= o->batch[i];
    return bits % 4 == 0;
}

tcc_status tcc_attention_gpu_make_plan(const tcc_hardware *hw, const tcc_attention *a, tcc_attention_gpu_kind kind,
                                       const int64_t *begins, const tcc_dtype *dtypes, tcc_diag *diag,
                                       tcc_attention_gpu_plan *p) {
    *p = (tcc_attention_gpu_plan){.a = *a, .kind = kind, .matrix = dtypes[TCC_ATTENTION_Q]};
    if (a->T < 1 || a->S < 1 || a->D < 1 || a->E < 1 || a->D > TCC_ATTENTION_GPU_WIDTH ||
        a->E > TCC_ATTENTION_GPU_WIDTH || a->n_batch > TCC_ATTENTION_MAX_BATCH || a->T > INT32_MAX / 4 ||
        a->S > INT32_MAX / 4)
        return TCC_BUG(diag, "attention over %lld queries and %lld keys of width %lld", (long long)a->T,
                       (long long)a->S, (long long)a->D);
    int64_t heads = 1, extent = kind == TCC_ATTENTION_GPU_KEYS ? a->S : a->T;
    for (int i = 0; i < a->n_batch; i++) heads *= a->batch[i];
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++) {
        bool of_v = r == TCC_ATTENTION_V || r == TCC_ATTENTION_O || r == TCC_ATTENTION_DO || r == TCC_ATTENTION_DV;
        p->buffers[r] = a->has[r] ? p->n_buffers++ : -1;
        p->dtype[r] = dtypes[r];
        p->aligned[r] = a->has[r] && is_aligned(a, (tcc_attention_role)r, begins[r], of_v ? a->E : a->D);
    }
    const int64_t most = hw->shared_optin_bytes < SCRATCH_LIMIT ? hw->shared_optin_bytes : SCRATCH_LIMIT;
    /* As many rows and columns as shared memory holds. */
    static const struct {
        int rows, columns;
    } sizes[] = {{64, 64}, {64, 32}, {32, 32}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        p->rows = sizes[i].rows, p->columns = sizes[i].columns;
        p->scratch_bytes = tcc_attention_fma_scratch(p);
        if (p->scratch_bytes <= most && !(kind == TCC_ATTENTION_GPU_KEYS && p->columns == 64)) break;
    }
    if (p->matrix != TCC_F32) {
        p->rows = 64, p->columns = kind == TCC_ATTENTION_GPU_KEYS ? 32 : 64;
        p->scratch_bytes = tcc_attention_mma_scratch(p);
    }
    p->threads = 32 * p->rows / WARP_ROWS;
    p->blocks = p->threads >= 128 ? 2 : 3;
    p->row_blocks = (extent + p->rows - 1) / p->rows;
    p->items = heads * p->row_blocks;
    double pairs = (double)heads * (double)a->T * (double)a->S * (a->causal ? 0.5 : 1);
    double d = (double)a->D, w = (double)a->E;
    p->flop = 2 * pairs *
              (kind == TCC_ATTENTION_GPU_FORWARD   ? d + w
               : kind == TCC_ATTENTION_GPU_QUERIES ? 2 * d + w
                                                   : 2 * d + 2 * w);
    return TCC_OK;
}

void tcc_attention_gpu_key(const tcc_attention_gpu_plan *p, tcc_strbuf *out) {
    const tcc_attention *a = &p->a;
    tcc_strbuf_printf(out, "attention gpu %d T%lld S%lld D%lld E%lld scale %a%s", (int)p->kind, (long long)a->T,
                      (long long)a->S, (long long)a->D, (long long)a->E, a->scale, a->causal ? " causal" : "");
    if (a->has[TCC_ATTENTION_RNG]) tcc_strbuf_printf(out, " dropout %a", a->p);
    for (int i = 0; i < a->n_batch; i++) tcc_strbuf_printf(out, " %lld", (long long)a->batch[i]);
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++) {
        if (!a->has[r]) continue;
        tcc_strbuf_printf(out, " %d%s%s(%lld", r, tcc_dtype_text(p->dtype[r]), p->aligned[r] ? "v" : "",
                          (long long)a->operands[r].row);
        for (int i = 0; i < a->n_batch; i++) tcc_strbuf_printf(out, ",%lld", (long long)a->operands[r].batch[i]);
        tcc_strbuf_add(out, ")");
    }
}

/* --- What both ways share */

LLVMValueRef tcc_attention_element(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role,
                                   LLVMValueRef row, LLVMValueRef column) {
    LLVMValueRef offset = tcc_emit_mul(e, wide(e, row), i64(e, b->p->a.operands[role].row));
    return tcc_emit_at(e, tcc_emit_dtype(e, b->p->dtype[role]), b->begin[role],
                       tcc_emit_add(e, offset, wide(e, column)));
}

/* Keys that query t sees: s < result. */
static LLVMValueRef seen(tcc_emitter *e, const tcc_attention *a, LLVMValueRef t) {
    if (!a->causal) return i32(e, a->S);
    return tcc_emit_min(e, tcc_emit_add(e, t, i32(e, a->S - a->T + 1)), i32(e, a->S));
}

LLVMValueRef tcc_attention_gpu_score(tcc_emitter *e, const tcc_attention_block *b, LLVMValueRef product,
                                     LLVMValueRef query, LLVMValueRef key) {
    const tcc_attention *a = &b->p->a;
    int block = b->p->kind == TCC_ATTENTION_GPU_KEYS ? b->p->columns : b->p->rows;
    LLVMValueRef x = LLVMBuildFMul(e->builder, product, number(e, a->scale), ""),
                 inside = below(e, key, seen(e, a, query));
    if (a->T % block) inside = LLVMBuildAnd(e->builder, inside, below(e, query, i32(e, a->T)), "");
    if (a->has[TCC_ATTENTION_MASK]) {
        LLVMValueRef at_mask = tcc_attention_element(e, b, TCC_ATTENTION_MASK, query, key);
        tcc_dtype dtype = b->p->dtype[TCC_ATTENTION_MASK];
        x = LLVMBuildFAdd(e->builder, x, tcc_emit_widen(e, dtype, tcc_emit_global_load(e, dtype, at_mask, 1, inside)),
                          "");
    }
    return tcc_emit_select(e, inside, x, number(e, -INFINITY));
}

LLVMValueRef tcc_attention_sum_row(tcc_emitter *e, LLVMValueRef x, int threads) {
    for (int bit = 1; bit < threads; bit *= 2) x = LLVMBuildFAdd(e->builder, x, tcc_emit_exchange(e, x, bit), "");
    return x;
}

LLVMValueRef tcc_attention_max_row(tcc_emitter *e, LLVMValueRef x, int threads) {
    for (int bit = 1; bit < threads; bit *= 2) x = tcc_attention_larger(e, x, tcc_emit_exchange(e, x, bit));
    return x;
}

void tcc_attention_store_value(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role, LLVMValueRef row,
                               LLVMValueRef value, LLVMValueRef place) {
    LLVMValueRef mine = LLVMBuildICmp(e->builder, LLVMIntEQ, place, i32(e, 0), "");
    tcc_emit_if store;
    tcc_emit_if_begin(e, &store, LLVMBuildAnd(e->builder, mine, below(e, row, i32(e, b->p->a.T)), ""));
    tcc_emit_store(e, value, tcc_attention_element(e, b, role, row, i32(e, 0)), 4);
    tcc_emit_if_end(e, &store);
}

LLVMValueRef tcc_attention_load_value(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role,
                                      LLVMValueRef row) {
    return tcc_emit_global_load(e, TCC_F32, tcc_attention_element(e, b, role, row, i32(e, 0)), 1,
                                below(e, row, i32(e, b->p->a.T)));
}

void tcc_attention_columns(tcc_emitter *e, const tcc_attention_block *b, LLVMValueRef *from, LLVMValueRef *to) {
    const tcc_attention_gpu_plan *p = b->p;
    const tcc_attention *a = &p->a;
    bool keys = p->kind == TCC_ATTENTION_GPU_KEYS;
    *from = i32(e, 0);
    *to = i32(e, keys ? a->T : a->S);
    if (!a->causal) return;
    if (keys) { /* the first query that sees key row0 */
        LLVMValueRef first = tcc_emit_sub(e, b->row0, i32(e, a->S - a->T));
        first = tcc_emit_select(e, below(e, first, i32(e, 0)), i32(e, 0), first);
        *from = LLVMBuildAnd(e->builder, first, i32(e, -p->columns), "");
    } else {
        *to = seen(e, a, tcc_emit_min(e, tcc_emit_add(e, b->row0, i32(e, p->rows - 1)), i32(e, a->T - 1)));
    }
}

LLVMValueRef tcc_attention_walk(tcc_emitter *e, const tcc_attention_block *b, LLVMValueRef from, LLVMValueRef to,
                                tcc_emit_loop *blocks, LLVMValueRef *carry, int n) {
    LLVMValueRef first = wide(e, from), end = wide(e, to);
    tcc_emit_loop_begin(e, blocks, first, end, b->p->columns, carry, n);
    memcpy(carry, blocks->carry, sizeof *carry * (size_t)n);
    return narrow(e, blocks->index);
}

/* --- The kernel */

static void enter_item(tcc_emitter *e, tcc_attention_block *b, const LLVMValueRef *base, LLVMValueRef batch) {
    const tcc_attention *a = &b->p->a;
    LLVMValueRef index[TCC_ATTENTION_MAX_BATCH];
    b->batch = batch;
    for (int i = a->n_batch - 1; i >= 0; i--) {
        index[i] = i == 0 ? batch : tcc_emit_rem(e, batch, a->batch[i]);
        if (i > 0) batch = tcc_emit_div(e, batch, a->batch[i]);
    }
    for (int role = 0; role < TCC_ATTENTION_ROLES; role++) {
        if (!a->has[role] || role == TCC_ATTENTION_RNG) continue;
        LLVMValueRef offset = i64(e, 0);
        for (int i = 0; i < a->n_batch; i++)
            if (a->operands[role].batch[i])
                offset = tcc_emit_add(e, offset,
                                      tcc_emit_mul(e, wide(e, index[i]), i64(e, a->operands[role].batch[i])));
        b->begin[role] = tcc_emit_at(e, tcc_emit_dtype(e, b->p->dtype[role]), base[role], offset);
    }
}

void tcc_attention_gpu_emit(tcc_emitter *e, const char *symbol, const tcc_attention_gpu_plan *p) {
    tcc_attention_block b = {.p = p};
    LLVMValueRef base[TCC_ATTENTION_ROLES];
    tcc_emit_kernel_begin(e, symbol);
    for (int i = 0; i < TCC_ATTENTION_ROLES; i++)
        if (p->buffers[i] >= 0)
            base[i] = tcc_emit_at(e, tcc_emit_dtype(e, p->dtype[i]), tcc_emit_buffer(e, p->buffers[i]),
                                  tcc_emit_param(e, p->buffers[i]));
    if (p->a.has[TCC_ATTENTION_RNG]) b.dropout = tcc_attention_draws_begin(e, base[TCC_ATTENTION_RNG], p->n_buffers);
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    LLVMValueRef item = narrow(e, items.index), block = tcc_emit_rem(e, item, p->row_blocks);
    /* Blocks that see most go first. */
    if (p->a.causal && p->kind != TCC_ATTENTION_GPU_KEYS) block = tcc_emit_sub(e, i32(e, p->row_blocks - 1), block);
    enter_item(e, &b, base, tcc_emit_div(e, item, p->row_blocks));
    b.row0 = tcc_emit_mul(e, block, i32(e, p->rows));
    b.thread = tcc_emit_thread(e);
    b.in_warp = tcc_emit_rem(e, b.thread, 32);
    b.warp = tcc_emit_div(e, b.thread, 32);
    if (p->matrix != TCC_F32) tcc_attention_mma(e, &b);
    else tcc_attention_fma(e, &b);
    tcc_emit_barrier(e); /* before the next item writes to shared memory */
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
}
