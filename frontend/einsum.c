/* SPDX-License-Identifier: MIT
 * Sums of products that are written with letters, as dots and products element by element. */
#include "tensor_ops.h"

#include "traincc/functions.h"

#include <string.h>

/* What is built here stands at the line of the function's caller. */
#undef TCC_HERE
#define TCC_HERE at

enum { LETTERS = 128 }; /* ASCII */

/* A tensor whose dims have letters. */
typedef struct term {
    tcc_tensor x;
    int rank;
    char letters[TCC_MAX_RANK];
} term;

/* -- The text -- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Letters up to `stop`, or the end; blanks do not count. NULL after an error. */
static const char *read_letters(tcc_trace *t, const char *p, char stop, term *out, tcc_loc at) {
    out->rank = 0;
    for (; *p && *p != stop; p++) {
        if (*p == ' ') continue;
        if (!is_letter(*p)) {
            tcc_trace_error(t, TCC_EINVAL, at, "einsum: '%c' is no letter", *p);
            return NULL;
        }
        if (out->rank == TCC_MAX_RANK) {
            tcc_trace_error(t, TCC_EINVAL, at, "einsum: more than %d letters at \"%s\"", TCC_MAX_RANK, p);
            return NULL;
        }
        out->letters[out->rank++] = *p;
    }
    return p;
}

/* Letters that occur once, in the order of the alphabet as ASCII has it. */
static bool implied_result(tcc_trace *t, const int *uses, term *out, tcc_loc at) {
    out->rank = 0;
    for (int c = 0; c < LETTERS; c++) {
        if (uses[c] != 1) continue;
        if (out->rank == TCC_MAX_RANK) {
            tcc_trace_error(t, TCC_EINVAL, at, "einsum: the result has more than %d dims", TCC_MAX_RANK);
            return false;
        }
        out->letters[out->rank++] = (char)c;
    }
    return true;
}

/* The letters of operand i fit its dims, and those of operands before. */
static bool check_extents(const term *o, int i, int64_t *extents, tcc_loc at) {
    const tcc_type *type = &o->x.node->type;
    if (type->rank != o->rank) {
        tcc_trace_error(o->x.trace, TCC_ESHAPE, at, "einsum: operand %d, %s, has %d dims and %d letters, \"%.*s\"", i,
                        tcc_type_text(type), type->rank, o->rank, o->rank, o->letters);
        return false;
    }
    for (int d = 0; d < o->rank; d++) {
        int64_t *extent = &extents[(int)o->letters[d]];
        if (*extent && *extent != type->dims[d]) {
            tcc_trace_error(o->x.trace, TCC_ESHAPE, at, "einsum: letter %c is %lld in operand %d, %s, but %lld before",
                            o->letters[d], (long long)type->dims[d], i, tcc_type_text(type), (long long)*extent);
            return false;
        }
        *extent = type->dims[d];
    }
    return true;
}

static bool check_result(tcc_trace *t, const term *result, const int *uses, tcc_loc at) {
    for (int d = 0; d < result->rank; d++) {
        const char c = result->letters[d];
        if (uses[(int)c] && !memchr(result->letters, c, (size_t)d)) continue;
        tcc_trace_error(t, TCC_EINVAL, at, "einsum: letter %c of the result is %s", c,
                        uses[(int)c] ? "there twice" : "in no operand");
        return false;
    }
    return true;
}

/* Reads operands and result; uses[c] is in how many dims letter c is. */
static bool parse(tcc_trace *t, const char *text, term *terms, int count, term *result, int *uses, tcc_loc at) {
    const char *arrow = strstr(text, "->"), *p = text;
    int64_t extents[LETTERS] = {0};
    int n = 1;
    for (const char *c = text; *c && c != arrow; c++) n += *c == ',';
    if (n != count) {
        tcc_trace_error(t, TCC_EINVAL, at, "einsum: \"%s\" is for %d operands; %d are given", text, n, count);
        return false;
    }
    for (int i = 0; i < count; i++, p++) {
        const char stop = i + 1 < count ? ',' : arrow ? '-' : 0;
        if (!(p = read_letters(t, p, stop, &terms[i], at)) || !check_extents(&terms[i], i, extents, at)) return false;
        for (int d = 0; d < terms[i].rank; d++) uses[(int)terms[i].letters[d]]++;
    }
    if (arrow && p != arrow + 1) {
        tcc_trace_error(t, TCC_EINVAL, at, "einsum: '-' is no letter");
        return false;
    }
    if (!arrow) return implied_result(t, uses, result, at);
    return read_letters(t, arrow + 2, 0, result, at) && check_result(t, result, uses, at);
}

/* -- Terms -- */

static int dim_of(const term *o, char letter) {
    for (int d = 0; d < o->rank; d++)
        if (o->letters[d] == letter) return d;
    return -1;
}

static void drop(term *o, int d) { memmove(&o->letters[d], &o->letters[d + 1], (size_t)(--o->rank - d)); }

/* Dims a < b of one letter become one, dim a: the diagonal, every n + 1st of the n x n elements. */
static void take_diagonal(term *o, int a, int b, tcc_loc at) {
    int64_t perm[TCC_MAX_RANK], dims[TCC_MAX_RANK];
    const int rank = o->rank;
    int n = 0;
    for (int d = 0; d < rank; d++)
        if (d != a && d != b) perm[n] = d, dims[n] = tcc_dim(o->x, d), n++;
    const int64_t extent = tcc_dim(o->x, a);
    perm[n] = a, perm[n + 1] = b, dims[n] = extent * extent;
    tcc_tensor pairs = tcc_reshape(tcc_transpose(o->x, rank, perm), n + 1, dims);
    o->x = tcc_slice_strided(pairs, n, 0, extent * extent, extent + 1);
    const char letter = o->letters[a];
    drop(o, b), drop(o, a);
    o->letters[o->rank++] = letter;
}

/* A letter stands once in each term, and letters that nothing else needs are summed over. */
static void settle(term *o, const bool *needed, tcc_loc at) {
    for (int d = 0; d < o->rank; d++)
        for (int e = d + 1; e < o->rank; e++)
            if (o->letters[d] == o->letters[e]) take_diagonal(o, d, e, at), d = -1, e = o->rank;
    int64_t axes[TCC_MAX_RANK];
    int n = 0, left = 0;
    for (int d = 0; d < o->rank; d++) {
        if (needed[(int)o->letters[d]]) o->letters[left++] = o->letters[d];
        else axes[n++] = d;
    }
    o->rank = left;
    if (n) o->x = tcc_sum(o->x, n, axes);
}

/* Operands with no letter to sum over: b's dims in the order of a's, then its own; a with extents of 1 for these. */
static void multiply(term *a, const term *b, tcc_loc at) {
    int64_t perm[TCC_MAX_RANK], a_dims[TCC_MAX_RANK], b_dims[TCC_MAX_RANK];
    int n = 0, rank = a->rank;
    for (int d = 0; d < a->rank; d++) {
        const int other = dim_of(b, a->letters[d]);
        a_dims[d] = tcc_dim(a->x, d), b_dims[d] = other < 0 ? 1 : tcc_dim(b->x, other);
        if (other >= 0) perm[n++] = other;
    }
    for (int d = 0; d < b->rank; d++) {
        if (dim_of(a, b->letters[d]) >= 0) continue;
        a_dims[rank] = 1, b_dims[rank] = tcc_dim(b->x, d);
        a->letters[rank++] = b->letters[d], perm[n++] = d;
    }
    tcc_tensor other = tcc_reshape(tcc_transpose(b->x, n, perm), rank, b_dims);
    a->x = tcc_mul(tcc_reshape(a->x, rank, a_dims), other);
    a->rank = rank;
}

static void push(tcc_dims *list, int d) { list->v[list->count++] = d; }

/* a becomes a b, summed over letters that nothing else needs. */
static bool contract(term *a, const term *b, const bool *needed, tcc_loc at) {
    tcc_attrs_dot attrs = {0};
    term y = {.rank = 0};
    int rank = a->rank;
    for (int d = 0; d < b->rank; d++) rank += dim_of(a, b->letters[d]) < 0;
    for (int d = 0; d < a->rank; d++) rank -= dim_of(b, a->letters[d]) >= 0 && !needed[(int)a->letters[d]];
    if (rank > TCC_MAX_RANK) {
        tcc_trace_error(a->x.trace, TCC_ESHAPE, at, "einsum: a product of \"%.*s\" and \"%.*s\" has %d dims", a->rank,
                        a->letters, b->rank, b->letters, rank);
        return false;
    }
    for (int d = 0; d < a->rank; d++) {
        const int other = dim_of(b, a->letters[d]);
        if (other < 0) continue;
        const bool stays = needed[(int)a->letters[d]];
        push(stays ? &attrs.batch_a : &attrs.contract_a, d);
        push(stays ? &attrs.batch_b : &attrs.contract_b, other);
        if (stays) y.letters[y.rank++] = a->letters[d];
    }
    if (!attrs.contract_a.count) {
        multiply(a, b, at);
        return true;
    }
    for (int d = 0; d < a->rank; d++)
        if (dim_of(b, a->letters[d]) < 0) y.letters[y.rank++] = a->letters[d];
    for (int d = 0; d < b->rank; d++)
        if (dim_of(a, b->letters[d]) < 0) y.letters[y.rank++] = b->letters[d];
    tcc_graph *g = tcc__tensor_begin(a->x.trace, at);
    y.x = tcc_trace_wrap(a->x.trace, tcc_ir_dot(g, a->x.node, b->x.node, &attrs));
    *a = y;
    return true;
}

/* -- The function -- */

/* Which letters are in the result or in operands from `first` on. */
static void find_needed(const term *terms, int first, int count, const term *result, bool *needed) {
    memset(needed, 0, LETTERS * sizeof *needed);
    for (int d = 0; d < result->rank; d++) needed[(int)result->letters[d]] = true;
    for (int i = first; i < count; i++)
        for (int d = 0; d < terms[i].rank; d++) needed[(int)terms[i].letters[d]] = true;
}

static tcc_tensor evaluate(term *terms, int count, const term *result, tcc_loc at) {
    bool needed[LETTERS];
    find_needed(terms, 1, count, result, needed);
    settle(&terms[0], needed, at);
    for (int i = 1; i < count; i++) {
        find_needed(terms, i + 1, count, result, needed);
        bool kept[LETTERS];
        memcpy(kept, needed, sizeof kept);
        for (int d = 0; d < terms[0].rank; d++) kept[(int)terms[0].letters[d]] = true;
        settle(&terms[i], kept, at);
        if (!terms[0].x.node || !terms[i].x.node || !contract(&terms[0], &terms[i], needed, at))
            return tcc_trace_poison();
    }
    int64_t perm[TCC_MAX_RANK];
    for (int d = 0; d < result->rank; d++) perm[d] = dim_of(&terms[0], result->letters[d]);
    return tcc_transpose(terms[0].x, result->rank, perm);
}

tcc_tensor tcc_einsum_at(const char *letters, const tcc_tensor *xs, int count, tcc_loc at) {
    tcc_trace *t = tcc_trace_poison().trace;
    if (!t) return tcc_trace_poison();
    if (!letters || !xs || count < 1)
        return tcc_trace_error(t, TCC_EINVAL, at, "einsum: %s",
                               !letters ? "the letters are NULL"
                               : !xs    ? "the list of operands is NULL"
                                        : "it takes one operand at least");
    if (!tcc_trace_takes("einsum", at, count, xs)) return tcc_trace_poison();
    term result, *terms = TCC_ARENA_ARRAY(&t->graph->arena, term, count);
    if (!terms) {
        tcc_enomem(t->graph->diag);
        return tcc_trace_poison();
    }
    int uses[LETTERS] = {0};
    for (int i = 0; i < count; i++) {
        const tcc_type *type = &xs[i].node->type;
        terms[i] = (term){.x = xs[i]};
        if (!tcc_dtype_is_float(type->dtype) || type->dtype != xs[0].node->type.dtype)
            return tcc_trace_error(t, TCC_EDTYPE, at,
                                   "einsum: operand %d is %s, operand 0 %s; it takes floats of one "
                                   "type",
                                   i, tcc_type_text(type), tcc_type_text(&xs[0].node->type));
    }
    if (!parse(t, letters, terms, count, &result, uses, at)) return tcc_trace_poison();
    return evaluate(terms, count, &result, at);
}
