/* SPDX-License-Identifier: MIT
 * An estimate of the registers that a GPU thread needs for a reduction. A block of many threads has few registers per
 * thread: values that do not fit are spilled, or the block cannot run at all. */
#include "codegen/schedule/reduce.h"

#include "ir/support/alloc.h"

#include <string.h>

static int words_of(tcc_dtype dtype) { return tcc_dtype_bytes(dtype) > 4 ? 2 : 1; }

/* Whether x follows from the reduced loops alone and reads nothing: the compiler then evaluates it once for all rows,
 * of each step that is written out. `of` says so of all expressions before it. */
static bool is_of_column(const tcc_reduce *p, const tcc_expr *x, uint64_t reduced_bits, const bool *of) {
    bool is = x->kind != TCC_EXPR_LOAD && x->kind != TCC_EXPR_REDUCE && x->loops && !(x->loops & ~reduced_bits);
    for (int i = 0; i < x->affine.n; i++) {
        const tcc_var *v = &p->body->vars.data[x->affine.terms[i].var];
        is = is && (v->kind != TCC_VAR_VALUE || of[v->value->id]);
    }
    for (int i = 0; i < x->n_operands; i++)
        is = is && (of[x->operands[i]->id] || x->operands[i]->kind == TCC_EXPR_CONST);
    return is;
}

typedef struct counting {
    bool *in, *known, *of_column, *shared; /* by expr; known: kept by an earlier sweep */
    int *last;                             /* by expr: the last one that reads it; the number of all: the sweep's end */
    int64_t *change;                       /* by expr: of the words that are alive when it is evaluated */
} counting;

static void find_last(const tcc_reduce *p, const counting *c, int sweep) {
    const tcc_body *b = p->body;
    const int n = b->exprs.count;
    for (int i = 0; i < n; i++) c->last[i] = i;
    for (int i = 0; i < n; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind == TCC_EXPR_REDUCE && p->level[x->operands[0]->id] == sweep) c->last[x->operands[0]->id] = n;
        if (!c->in[i] || x->kind == TCC_EXPR_REDUCE || c->known[i]) continue;
        for (int k = 0; k < x->n_operands; k++) {
            const int id = x->operands[k]->id;
            if (c->last[id] < i) c->last[id] = i;
            c->shared[id] |= c->of_column[id] && !c->of_column[i];
        }
    }
    for (int i = 0; i < b->stores.count && sweep == tcc_reduce_sweep_of_stores(p); i++)
        if (!b->stores.data[i].kept) c->last[b->stores.data[i].value->id] = n;
}

/* The most words alive at once while a step of the sweep is evaluated, in the order of expressions. Values that the
 * step's point does not change are alive all the time; those of columns, and kept ones, are counted elsewhere. */
static int64_t live_of_sweep(const tcc_reduce *p, const counting *c, int sweep) {
    const tcc_body *b = p->body;
    const int n = b->exprs.count, inner = p->reduced[p->n_reduced - 1];
    memset(c->in, 0, (size_t)n * sizeof *c->in);
    memset(c->change, 0, ((size_t)n + 2) * sizeof *c->change);
    tcc_reduce_mark_sweep(p, sweep, c->known, c->in);
    find_last(p, c, sweep);
    for (int i = 0; i < n; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (!c->in[i] || x->kind == TCC_EXPR_CONST || c->of_column[i] || p->slot[i] >= 0) continue;
        const bool moves = x->loops >> inner & 1;
        const int64_t words = words_of(x->dtype) * (moves ? p->lanes : 1);
        c->change[moves ? i : 0] += words;
        c->change[(moves ? c->last[i] : n) + 1] -= words;
    }
    int64_t alive = 0, most = 0;
    for (int i = 0; i <= n; i++) {
        alive += c->change[i];
        if (alive > most) most = alive;
    }
    for (int i = 0; i < n; i++) c->known[i] |= c->in[i] && p->slot[i] >= 0;
    return most;
}

tcc_status tcc_reduce_count_registers(tcc_lowering *l, tcc_reduce *p) {
    const tcc_body *b = p->body;
    const size_t n = (size_t)b->exprs.count;
    p->live = p->of_columns = 0;
    if (p->columns || !p->n_reduced) return TCC_OK;
    bool *flags = tcc__calloc(4 * n + 1, sizeof *flags);
    int *last = tcc__calloc(n + 1, sizeof *last);
    int64_t *change = tcc__calloc(n + 2, sizeof *change);
    if (flags && last && change) {
        const counting c = {flags, flags + n, flags + 2 * n, flags + 3 * n, last, change};
        uint64_t reduced_bits = 0;
        for (int i = 0; i < p->n_reduced; i++) reduced_bits |= UINT64_C(1) << p->reduced[i];
        for (size_t i = 0; i < n; i++) c.of_column[i] = is_of_column(p, b->exprs.data[i], reduced_bits, c.of_column);
        for (int s = 0; s < p->n_sweeps; s++) {
            const int64_t live = live_of_sweep(p, &c, s);
            if (live > p->live) p->live = live;
        }
        for (size_t i = 0; i < n; i++)
            if (c.shared[i]) p->of_columns += words_of(b->exprs.data[i]->dtype) * p->lanes;
    }
    const bool done = flags && last && change;
    tcc__free(flags);
    tcc__free(last);
    tcc__free(change);
    return done ? TCC_OK : tcc_enomem(l->diag);
}

int64_t tcc_reduce_words_of_sums(const tcc_reduce *p) {
    const tcc_body *b = p->body;
    int64_t words = 0;
    for (int i = 0; i < b->stores.count; i++)
        if (b->stores.data[i].sum) words += words_of(b->buffers.data[b->stores.data[i].buffer].dtype);
    return words;
}

int64_t tcc_reduce_registers(const tcc_reduce *p, int64_t steps) {
    enum { ADDRESSES = 16 };
    const int64_t at_once = steps > 1 ? steps : 1; /* a loop has what it kept, and reads again, of one step */
    return p->live + at_once * (p->of_columns + p->lanes * (p->words + tcc_reduce_words_of_sums(p))) + ADDRESSES;
}

bool tcc_reduce_fits_registers(const tcc_lowering *l, const tcc_reduce *p, int64_t threads, int64_t steps) {
    const tcc_hardware *hw = &l->target->hw;
    const int64_t most = hw->registers_per_processor / threads;
    return most >= hw->registers_per_thread || tcc_reduce_registers(p, steps) <= most;
}
