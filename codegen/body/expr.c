/* SPDX-License-Identifier: MIT
 * Scalar expressions: making them, each distinct one once, and describing a program canonically. */
#include "codegen/body/body.h"

#include "ir/support/alloc.h"
#include "ir/support/integers.h"

#include <math.h>
#include <string.h>

void tcc_body_seal(tcc_body *b) {
    tcc_table_free(&b->memo);
    tcc__free(b->table);
    b->table = NULL;
}

void tcc_body_free(tcc_body *b) {
    if (!b) return;
    tcc_body_seal(b);
    tcc_vec_free(&b->vars);
    tcc_vec_free(&b->exprs);
    tcc_vec_free(&b->buffers);
    tcc_vec_free(&b->stores);
    tcc_vec_free(&b->reductions);
    tcc_vec_free(&b->traced);
}

static const tcc_expr *failed(tcc_body *b) {
    if (b->status == TCC_OK) b->status = tcc_enomem(b->diag);
    return NULL;
}

static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

static uint64_t hash(const tcc_expr *x) {
    uint64_t bits, h = mix((uint64_t)x->kind, (uint64_t)x->dtype << 32 | (uint64_t)x->op);
    memcpy(&bits, &x->number, sizeof bits);
    h = mix(mix(mix(h, bits), (uint64_t)x->integer), (uint64_t)x->buffer ^ x->fold);
    for (int i = 0; i < x->n_operands; i++) h = mix(h, (uint64_t)x->operands[i]->id);
    h = mix(h, (uint64_t)x->affine.constant);
    for (int i = 0; i < x->affine.n; i++)
        h = mix(h, (uint64_t)x->affine.terms[i].var << 48 ^ (uint64_t)x->affine.terms[i].coefficient);
    return h;
}

static bool same(const tcc_expr *a, const tcc_expr *c) {
    if (a->kind != c->kind || a->dtype != c->dtype || a->op != c->op || a->n_operands != c->n_operands ||
        memcmp(&a->number, &c->number, sizeof a->number) || a->integer != c->integer || a->buffer != c->buffer ||
        a->fold != c->fold || a->products != c->products)
        return false;
    for (int i = 0; i < a->n_operands; i++)
        if (a->operands[i] != c->operands[i]) return false;
    return tcc_affine_equal(&a->affine, &c->affine);
}

static bool grow_table(tcc_body *b) {
    int capacity = b->table_capacity ? b->table_capacity * 2 : 256;
    int *table = tcc__calloc((size_t)capacity, sizeof *table);
    if (!table) return false;
    for (int i = 0; i < b->exprs.count; i++) {
        uint64_t at = hash(b->exprs.data[i]);
        while (table[at & (uint64_t)(capacity - 1)]) at++;
        table[at & (uint64_t)(capacity - 1)] = i + 1;
    }
    tcc__free(b->table);
    b->table = table;
    b->table_capacity = capacity;
    return true;
}

/* Whether the register holds a value of f16 or bf16 without more digits. */
static bool is_rounded(const tcc_expr *x) {
    if (!tcc_dtype_is_narrow(x->dtype)) return false;
    if (x->kind == TCC_EXPR_LOAD || (x->kind == TCC_EXPR_POINT && x->op == TCC_OP_CAST)) return true;
    if (x->kind == TCC_EXPR_CONST) return isnan(x->number) || tcc_dtype_round(x->dtype, x->number) == x->number;
    if (x->kind != TCC_EXPR_POINT && x->kind != TCC_EXPR_FOLD && x->kind != TCC_EXPR_REDUCE) return false;
    if (!(tcc_op_get_info(x->op)->flags & TCC_FLAG_EXACT)) return false;
    for (int i = 0; i < x->n_operands; i++)
        if (x->operands[i]->dtype != TCC_BOOL && !(x->operands[i]->dtype == x->dtype && x->operands[i]->rounded))
            return false;
    return true;
}

const tcc_expr *tcc_expr_make(tcc_body *b, tcc_expr like, const tcc_expr *const *operands, int n) {
    if (b->status != TCC_OK) return NULL;
    for (int i = 0; i < n; i++)
        if (!operands[i]) return NULL;
    if (b->exprs.count * 2 >= b->table_capacity && !grow_table(b)) return failed(b);
    like.operands = (const tcc_expr **)operands;
    like.n_operands = n;
    like.loops = tcc_affine_loops(b, &like.affine);
    for (int i = 0; i < n; i++) like.loops |= operands[i]->loops;
    like.loops &= ~like.fold;
    uint64_t at = hash(&like), mask = (uint64_t)b->table_capacity - 1;
    for (; b->table[at & mask]; at++) {
        const tcc_expr *old = b->exprs.data[b->table[at & mask] - 1];
        if (same(old, &like)) return old;
    }
    tcc_expr *x = TCC_ARENA_NEW(b->arena, tcc_expr);
    if (!x) return failed(b);
    *x = like;
    x->id = b->exprs.count;
    x->rounded = is_rounded(&like);
    x->operands = n ? tcc_arena_copy(b->arena, operands, sizeof *operands * (size_t)n) : NULL;
    if ((n && !x->operands) || !tcc_vec_push(&b->exprs, x)) return failed(b);
    b->table[at & mask] = x->id + 1;
    return x;
}

const tcc_expr *tcc_expr_integer(tcc_body *b, tcc_dtype dtype, int64_t value) {
    return tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_CONST, .dtype = dtype, .integer = value}, NULL, 0);
}

const tcc_expr *tcc_expr_number(tcc_body *b, tcc_dtype dtype, double value) {
    if (!tcc_dtype_is_float(dtype)) return tcc_expr_integer(b, dtype, (int64_t)value);
    return tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_CONST, .dtype = dtype, .number = value}, NULL, 0);
}

const tcc_expr *tcc_expr_index(tcc_body *b, tcc_affine a, tcc_dtype dtype) {
    a = tcc_affine_expand(b, a);
    if (!a.n) return tcc_expr_integer(b, dtype, a.constant);
    if (a.n == 1 && a.terms[0].coefficient == 1 && !a.constant) { /* a value as it is */
        const tcc_var *v = &b->vars.data[a.terms[0].var];
        if (v->kind == TCC_VAR_VALUE && v->value->dtype == dtype) return v->value;
    }
    return tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_INDEX, .dtype = dtype, .affine = a}, NULL, 0);
}

const tcc_expr *tcc_expr_point(tcc_body *b, tcc_op op, tcc_dtype dtype, const tcc_expr *const *operands, int n) {
    return tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_POINT, .dtype = dtype, .op = op}, operands, n);
}

const tcc_expr *tcc_expr_round(tcc_body *b, const tcc_expr *x) {
    if (!x || !tcc_dtype_is_narrow(x->dtype) || x->rounded) return x;
    return tcc_expr_point(b, TCC_OP_CAST, x->dtype, &x, 1);
}

/* Rounding keeps order and sign. */
static bool waits_behind(tcc_op op) {
    return op == TCC_OP_SELECT || op == TCC_OP_MAX || op == TCC_OP_MIN || op == TCC_OP_NEG || op == TCC_OP_ABS;
}

static const tcc_expr *before_rounding(tcc_body *b, const tcc_expr *x, int depth) {
    const tcc_expr *operands[3];
    if (!x || !tcc_dtype_is_narrow(x->dtype) || x->kind != TCC_EXPR_POINT) return x;
    if (tcc_expr_rounds(x)) return x->operands[0];
    if (!waits_behind(x->op) || depth == 0) return x;
    for (int i = 0; i < x->n_operands; i++) operands[i] = before_rounding(b, x->operands[i], depth - 1);
    return tcc_expr_point(b, x->op, x->dtype, operands, x->n_operands);
}

const tcc_expr *tcc_expr_before_rounding(tcc_body *b, const tcc_expr *x) {
    enum { DEPTH = 4 }; /* of choices; operands that several share are visited for each */
    return before_rounding(b, x, DEPTH);
}

const tcc_expr *tcc_expr_load(tcc_body *b, int buffer, tcc_affine offset, const tcc_expr *guard) {
    if (buffer >= b->buffers.count) return failed(b); /* there was no memory for it */
    tcc_expr like = {.kind = TCC_EXPR_LOAD, .dtype = b->buffers.data[buffer].dtype, .buffer = buffer};
    /* A guard tells of the coordinates, and so of quotients. */
    like.affine = guard ? tcc_affine_expand(b, offset) : tcc_affine_whole(b, offset);
    return tcc_expr_make(b, like, &guard, guard ? 1 : 0);
}

const tcc_expr *tcc_expr_and(tcc_body *b, const tcc_expr *a, const tcc_expr *c) {
    if (!a || a == c) return c;
    if (!c) return a;
    const tcc_expr *operands[] = {a, c};
    return tcc_expr_point(b, TCC_OP_AND, TCC_BOOL, operands, 2);
}

const tcc_expr *tcc_expr_within(tcc_body *b, tcc_affine a, int64_t limit) {
    int64_t low, high;
    tcc_affine whole = tcc_affine_expand(b, a);
    tcc_affine_range(b, &whole, &low, &high);
    if (low >= 0 && high < limit) return NULL;
    const tcc_expr *index = tcc_expr_index(b, whole, low > INT32_MIN && high < INT32_MAX ? TCC_I32 : TCC_I64);
    return tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_WITHIN, .dtype = TCC_BOOL, .integer = limit}, &index, 1);
}

const tcc_expr *tcc_expr_mean(tcc_body *b, const tcc_expr *sum, int64_t count) {
    if (!sum || count == 1) return sum;
    const tcc_expr *operands[] = {sum, tcc_expr_number(b, sum->dtype, 1.0 / (double)count)};
    return tcc_expr_point(b, TCC_OP_MUL, sum->dtype, operands, 2);
}

const tcc_expr *tcc_expr_deviation(tcc_body *b, const tcc_expr *x, const tcc_expr *mean) {
    if (!x || !mean) return NULL;
    const tcc_expr *difference = tcc_expr_point(b, TCC_OP_SUB, x->dtype, (const tcc_expr *[]){x, mean}, 2);
    return tcc_expr_point(b, TCC_OP_MUL, x->dtype, (const tcc_expr *[]){difference, difference}, 2);
}

const tcc_expr *tcc_expr_fold(tcc_body *b, tcc_op op, tcc_dtype dtype, const tcc_expr *value, uint64_t loops) {
    return tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_FOLD, .dtype = dtype, .op = op, .fold = loops}, &value, 1);
}

const tcc_expr *tcc_expr_fold_products(tcc_body *b, tcc_dtype dtype, const tcc_expr *x, const tcc_expr *y,
                                       uint64_t loops) {
    const tcc_expr *product = tcc_expr_point(b, TCC_OP_MUL, dtype, (const tcc_expr *[]){x, y}, 2);
    const tcc_expr like = {.kind = TCC_EXPR_FOLD,
                           .dtype = dtype,
                           .op = TCC_OP_REDUCE_SUM,
                           .fold = loops,
                           .products = tcc_dtype_is_float(dtype)};
    return tcc_expr_make(b, like, &product, 1);
}

static int new_buffer(tcc_body *b, tcc_body_buffer buffer) {
    for (int i = 0; i < b->buffers.count; i++) {
        const tcc_body_buffer *old = &b->buffers.data[i];
        if (old->node == buffer.node && old->temporary == buffer.temporary && old->offset == buffer.offset &&
            old->written == buffer.written && old->literal_bytes == buffer.literal_bytes && old->row == buffer.row &&
            (!buffer.literal || !memcmp(old->literal, buffer.literal, (size_t)buffer.literal_bytes)))
            return i;
    }
    if (!tcc_vec_push(&b->buffers, buffer)) {
        failed(b);
        return 0;
    }
    return b->buffers.count - 1;
}

int tcc_body_buffer_of(tcc_body *b, const tcc_node *n, int64_t offset, bool written) {
    return new_buffer(
        b, (tcc_body_buffer){.node = n, .temporary = -1, .offset = offset, .dtype = n->type.dtype, .written = written});
}

void tcc_body_rebase(tcc_body *b) {
    for (int i = 0; i < b->buffers.count; i++) {
        tcc_body_buffer *buffer = &b->buffers.data[i];
        int64_t least = INT64_MAX;
        if (!buffer->node || buffer->written) continue;
        for (int k = 0; k < b->exprs.count; k++) {
            const tcc_expr *x = b->exprs.data[k];
            if (x->kind != TCC_EXPR_LOAD || x->buffer != i) continue;
            int64_t first, last;
            tcc_affine_range(b, &x->affine, &first, &last);
            if (first < least) least = first;
        }
        if (least == INT64_MAX) continue;
        /* What no guard lets in may lie behind the value. */
        least = tcc_min_i64(least, tcc_type_numel(&buffer->node->type) - 1 - buffer->offset);
        if (least <= 0) continue;
        buffer->offset += least;
        for (int k = 0; k < b->exprs.count; k++) {
            tcc_expr *x = b->exprs.data[k];
            if (x->kind == TCC_EXPR_LOAD && x->buffer == i) x->affine.constant -= least;
        }
    }
}

int tcc_body_temporary(tcc_body *b, int temporary, tcc_dtype dtype, bool written) {
    return new_buffer(b, (tcc_body_buffer){.temporary = temporary, .dtype = dtype, .written = written});
}

int tcc_body_literal(tcc_body *b, tcc_dtype dtype, const void *table, int64_t count) {
    int64_t bytes = count * tcc_dtype_bytes(dtype);
    return new_buffer(b, (tcc_body_buffer){.temporary = -1, .literal = table, .literal_bytes = bytes, .dtype = dtype});
}

int tcc_body_places(tcc_body *b, const int32_t *table, int64_t rows, int64_t row) {
    return new_buffer(b, (tcc_body_buffer){.temporary = -1,
                                           .literal = table,
                                           .literal_bytes = rows * row * tcc_dtype_bytes(TCC_I32),
                                           .row = row,
                                           .dtype = TCC_I32});
}

/* Names of variables in the text: v<n> a loop, counted among those that are left after merging; x<n> a value. */
static void describe_affine(const tcc_body *b, const tcc_affine *a, const int *loop_names, tcc_strbuf *out) {
    tcc_strbuf_printf(out, "%lld", (long long)a->constant);
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &b->vars.data[a->terms[i].var];
        bool value = v->kind == TCC_VAR_VALUE;
        tcc_strbuf_printf(out, "%+lld%c%d", (long long)a->terms[i].coefficient, value ? 'x' : 'v',
                          value ? v->value->id : loop_names[a->terms[i].var]);
    }
}

static unsigned long long describe_loops(uint64_t loops, const int *loop_names) {
    unsigned long long bits = 0;
    for (int v = 0; v < TCC_BODY_MAX_LOOPS; v++)
        if (loops >> v & 1) bits |= 1ull << loop_names[v];
    return bits;
}

void tcc_body_describe(const tcc_body *b, int any_extent, tcc_strbuf *out) {
    int loop_names[TCC_BODY_MAX_LOOPS] = {0}, names = 0;
    for (int i = 0; i < b->n_loops; i++) {
        const tcc_var *v = &b->vars.data[i];
        if (v->high == 0 && i != any_extent) continue;
        loop_names[i] = names++;
        if (i != any_extent) tcc_strbuf_printf(out, "v%d<%lld ", loop_names[i], (long long)v->high + 1);
    }
    for (int i = 0; i < b->buffers.count; i++)
        tcc_strbuf_printf(out, "b%d:%s%s ", i, tcc_dtype_text(b->buffers.data[i].dtype),
                          b->buffers.data[i].written ? "!" : "");
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        tcc_strbuf_printf(out, "\n%d=%d.%d.%d(", i, (int)x->kind, (int)x->op, (int)x->dtype);
        for (int k = 0; k < x->n_operands; k++) tcc_strbuf_printf(out, "%d,", x->operands[k]->id);
        tcc_strbuf_printf(out, ")b%d i%lld n%a f%llx%s ", x->buffer, (long long)x->integer, x->number,
                          describe_loops(x->fold, loop_names), x->products ? "p" : "");
        describe_affine(b, &x->affine, loop_names, out);
        if (x->kind == TCC_EXPR_LOAD) tcc_body_describe_near(b, x, out);
    }
    for (int i = 0; i < b->stores.count; i++) {
        const tcc_body_write *s = &b->stores.data[i];
        tcc_strbuf_printf(out, "\nstore b%d x%d?%d%s%s ", s->buffer, s->value->id, s->guard ? s->guard->id : -1,
                          s->kept   ? "k"
                          : s->sum  ? "+"
                          : s->part ? "/"
                                    : "",
                          s->past_caches ? "p" : "");
        describe_affine(b, &s->offset, loop_names, out);
    }
}
