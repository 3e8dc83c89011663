/* SPDX-License-Identifier: MIT
 * Attention on a GPU: the plan, and the kernel's loop over its items. */
#include "codegen/attention/gpu_internal.h"

#include "codegen/emit/warp.h"

enum { SCRATCH_LIMIT = 64 * 1024 /* so that other blocks find room beside it */, WARP_ROWS = 16 };

static tcc_emit_value i32(tcc_emitter *e, int64_t value) { return tcc_emit_i32(e, (int32_t)value); }
static tcc_emit_value i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }
static tcc_emit_value narrow(tcc_emitter *e, tcc_emit_value x) { return tcc_emit_trunc(e, x, e->i32); }
static tcc_emit_value wide(tcc_emitter *e, tcc_emit_value x) { return tcc_emit_sext(e, x, e->i64); }
static bool is_aligned(const tcc_attention *a, tcc_attention_role role, int64_t begin, int64_t width) {
    const tcc_attention_operand *o = &a->operands[role];
    int64_t bits = begin | o->row | width;
    for (int i = 0; i < a->n_batch; i++) bits |= o->batch[i];
    return bits % 4 == 0;
}

enum { LEAST_SIDE = 32, MOST_SIDE = 64 }; /* of a block: rows, columns */

static int64_t scratch_of(const tcc_attention_gpu_plan *p) {
    return p->matrix == TCC_F32 ? tcc_attention_fma_scratch(p) : tcc_attention_mma_scratch(p);
}

/* Gradients by keys take two products more: with more columns they would not have registers for their sums. */
static int most_columns(const tcc_attention_gpu_plan *p) {
    return p->kind == TCC_ATTENTION_GPU_KEYS ? LEAST_SIDE : MOST_SIDE;
}

/* As many rows and columns as shared memory holds. */
static void choose_block(const tcc_hardware *hw, tcc_attention_gpu_plan *p) {
    const int64_t most = hw->shared_optin_bytes < SCRATCH_LIMIT ? hw->shared_optin_bytes : SCRATCH_LIMIT;
    static const struct {
        int rows, columns;
    } sizes[] = {{64, 64}, {64, 32}, {32, 32}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        p->rows = sizes[i].rows, p->columns = sizes[i].columns;
        if (p->columns > most_columns(p)) continue;
        if (p->matrix != TCC_F32 || scratch_of(p) <= most) break;
    }
}

static tcc_status settle_block(const tcc_hardware *hw, tcc_attention_gpu_plan *p, tcc_params *params) {
    const tcc_param_range rows = tcc_param_powers(LEAST_SIDE, MOST_SIDE);
    const tcc_param_range columns = tcc_param_powers(LEAST_SIDE, most_columns(p));
    TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_ROWS, rows, &p->rows));
    TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_COLUMNS, columns, &p->columns));
    p->scratch_bytes = scratch_of(p);
    if (p->scratch_bytes <= hw->shared_optin_bytes) return TCC_OK;
    return tcc_params_refuse(params, TCC_PARAM_ROWS, p->rows,
                             "fewer, for a block of %d x %d takes %lld bytes of shared memory, and has %lld", p->rows,
                             p->columns, (long long)p->scratch_bytes, (long long)hw->shared_optin_bytes);
}

tcc_status tcc_attention_gpu_make_plan(const tcc_hardware *hw, const tcc_attention *a, tcc_attention_gpu_kind kind,
                                       const int64_t *begins, const tcc_dtype *dtypes, tcc_params *params,
                                       tcc_diag *diag, tcc_attention_gpu_plan *p) {
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
        const bool stored = r == TCC_ATTENTION_O || r == TCC_ATTENTION_DQ || r == TCC_ATTENTION_DK ||
                            r == TCC_ATTENTION_DV;
        if (stored && a->has[r] && p->matrix != TCC_F32 && (dtypes[r] != p->matrix || !p->aligned[r]))
            return TCC_BUG(diag, "tensor cores store a result that is no pairs of %s", tcc_dtype_text(p->matrix));
    }
    choose_block(hw, p);
    TCC_TRY(settle_block(hw, p, params));
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

static void enter_item(tcc_emitter *e, tcc_attention_block *b, const tcc_emit_value *base, tcc_emit_value batch) {
    const tcc_attention *a = &b->p->a;
    tcc_emit_value index[TCC_ATTENTION_MAX_BATCH];
    b->batch = batch;
    for (int i = a->n_batch - 1; i >= 0; i--) {
        index[i] = i == 0 ? batch : tcc_emit_rem(e, batch, a->batch[i]);
        if (i > 0) batch = tcc_emit_div(e, batch, a->batch[i]);
    }
    for (int role = 0; role < TCC_ATTENTION_ROLES; role++) {
        if (!a->has[role] || role == TCC_ATTENTION_RNG) continue;
        tcc_emit_value offset = i64(e, 0);
        for (int i = 0; i < a->n_batch; i++)
            if (a->operands[role].batch[i])
                offset = tcc_emit_add(e, offset,
                                      tcc_emit_mul(e, wide(e, index[i]), i64(e, a->operands[role].batch[i])));
        b->begin[role] = tcc_emit_at(e, tcc_emit_dtype(e, b->p->dtype[role]), base[role], offset);
    }
}

void tcc_attention_gpu_emit(tcc_emitter *e, const char *symbol, const tcc_attention_gpu_plan *p) {
    tcc_attention_block b = {.p = p};
    tcc_emit_value base[TCC_ATTENTION_ROLES];
    tcc_emit_kernel_begin(e, symbol);
    for (int i = 0; i < TCC_ATTENTION_ROLES; i++)
        if (p->buffers[i] >= 0)
            base[i] = tcc_emit_at(e, tcc_emit_dtype(e, p->dtype[i]), tcc_emit_buffer(e, p->buffers[i]),
                                  tcc_emit_param(e, p->buffers[i]));
    if (p->a.has[TCC_ATTENTION_RNG]) b.dropout = tcc_attention_draws_begin(e, base[TCC_ATTENTION_RNG], p->n_buffers);
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    tcc_emit_value item = narrow(e, items.index), block = tcc_emit_rem(e, item, p->row_blocks);
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
