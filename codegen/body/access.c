/* SPDX-License-Identifier: MIT
 * Regions of memory, from strides and from the affine offsets of a body's loads and stores. */
#include "codegen/body/access.h"

#include <string.h>

enum { MOST_DIMS = 80, MOST_CONDITIONS = 16, MOST_RANGES = 32, ROUNDS = 8 };

/* --- Regions */

static void sort(tcc_region_dim *dims, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && dims[k - 1].stride > dims[k].stride; k--) {
            const tcc_region_dim d = dims[k];
            dims[k] = dims[k - 1];
            dims[k - 1] = d;
        }
}

tcc_region tcc_region_of(int64_t from, int64_t element, tcc_region_dim *dims, int n) {
    tcc_region r = {from, element, element, 1, true};
    int kept = 0;
    int64_t last = element;
    for (int i = 0; i < n; i++) {
        tcc_region_dim d = dims[i];
        if (d.extent <= 1) continue;
        if (d.stride < 0) r.from += d.stride * (d.extent - 1), d.stride = -d.stride;
        last += d.stride * (d.extent - 1);
        dims[kept++] = d;
    }
    sort(dims, kept);
    for (int i = 0; i < kept && r.exact; i++) {
        const tcc_region_dim *d = &dims[i];
        if (r.count == 1 && d->stride == r.run) r.run = r.stride = r.run * d->extent;
        else if (r.count == 1 && d->stride > r.run) r.stride = d->stride, r.count = d->extent;
        else if (r.count > 1 && d->stride == r.stride * r.count) r.count *= d->extent;
        else r.exact = false;
    }
    if (!r.exact) r.run = r.stride = last, r.count = 1;
    return r;
}

bool tcc_region_overlap(const tcc_region *a, int64_t a_at, const tcc_region *b, int64_t b_at) {
    if (a_at + a->from >= b_at + tcc_region_end(b) || b_at + b->from >= a_at + tcc_region_end(a)) return false;
    if (a->stride != b->stride || a->run > a->stride || b->run > b->stride || (a->count == 1 && b->count == 1))
        return true;
    /* In rows of one length the runs of each always take the same columns. */
    int64_t distance = (b_at + b->from - a_at - a->from) % a->stride;
    if (distance < 0) distance += a->stride;
    return distance < a->run || distance + b->run > a->stride;
}

bool tcc_region_contains(const tcc_region *whole, const tcc_region *part) {
    if (part->from < whole->from || tcc_region_end(part) > tcc_region_end(whole)) return false;
    if (whole->count == 1) return true;
    if (part->count > 1 && part->stride % whole->stride) return false;
    return (part->from - whole->from) % whole->stride + part->run <= whole->run;
}

/* --- Accesses of a body */

/* Terms by variable; those that are 0 are left in. */
typedef struct form {
    int64_t constant;
    int n;
    tcc_term terms[MOST_DIMS];
} form;

static bool form_of(const tcc_affine *a, form *out) {
    if (a->n > MOST_DIMS / 2) return false;
    out->constant = a->constant;
    out->n = a->n;
    if (a->n) memcpy(out->terms, a->terms, sizeof *a->terms * (size_t)a->n);
    return true;
}

/* a - times * b; false: too many terms. */
static bool subtract(form *a, const tcc_affine *b, int64_t times) {
    a->constant -= times * b->constant;
    for (int i = 0; i < b->n; i++) {
        int k = 0;
        while (k < a->n && a->terms[k].var != b->terms[i].var) k++;
        if (k == MOST_DIMS) return false;
        if (k == a->n) a->terms[a->n++] = (tcc_term){b->terms[i].var, 0};
        a->terms[k].coefficient -= times * b->terms[i].coefficient;
    }
    return true;
}

/* What an expression is as an index; false: it is none. */
static bool index_of(const tcc_body *b, const tcc_expr *x, tcc_affine *out, tcc_term *term) {
    *out = x->affine;
    if (x->kind == TCC_EXPR_INDEX) return true;
    for (int i = 0; i < b->vars.count; i++)
        if (b->vars.data[i].kind == TCC_VAR_VALUE && b->vars.data[i].value == x) {
            *term = (tcc_term){i, 1};
            *out = (tcc_affine){.n = 1, .terms = term};
            return true;
        }
    return false;
}

static const tcc_expr *value_of(const tcc_body *b, const tcc_term *t, tcc_expr_kind kind) {
    const tcc_var *v = &b->vars.data[t->var];
    return t->coefficient && v->kind == TCC_VAR_VALUE && v->value->kind == kind ? v->value : NULL;
}

/* size * (x / size) + x % size is x: what reshapes leave that no loop resolves. */
static void join_quotients(const tcc_body *b, form *f) {
    for (int i = 0; i < f->n; i++) {
        const tcc_expr *quotient = value_of(b, &f->terms[i], TCC_EXPR_DIV);
        if (!quotient || f->terms[i].coefficient % quotient->integer) continue;
        const int64_t times = f->terms[i].coefficient / quotient->integer;
        for (int k = 0; k < f->n; k++) {
            const tcc_expr *rest = value_of(b, &f->terms[k], TCC_EXPR_MOD);
            tcc_affine x;
            tcc_term term;
            if (!rest || rest->integer != quotient->integer || rest->operands[0] != quotient->operands[0] ||
                f->terms[k].coefficient != times || !index_of(b, rest->operands[0], &x, &term))
                continue;
            form joined = *f;
            joined.terms[i].coefficient = joined.terms[k].coefficient = 0;
            if (!subtract(&joined, &x, -times)) continue;
            *f = joined;
            i = -1; /* what came in may be one of a pair */
            break;
        }
    }
}

/* Where a guard holds: variables whose range is narrower there than their own. */
typedef struct ranges {
    int n;
    struct {
        int var;
        int64_t low, high;
    } of[MOST_RANGES];
} ranges;

static void range_of_var(const tcc_body *b, const ranges *r, int var, int64_t *low, int64_t *high) {
    *low = b->vars.data[var].low;
    *high = b->vars.data[var].high;
    for (int i = 0; i < r->n; i++)
        if (r->of[i].var == var) *low = r->of[i].low, *high = r->of[i].high;
}

/* Returns whether that is news. */
static bool narrow(const tcc_body *b, ranges *r, int var, int64_t low, int64_t high) {
    int64_t was_low, was_high;
    range_of_var(b, r, var, &was_low, &was_high);
    if (low < was_low) low = was_low;
    if (high > was_high) high = was_high;
    if (low == was_low && high == was_high) return false;
    int i = 0;
    while (i < r->n && r->of[i].var != var) i++;
    if (i == MOST_RANGES) return false;
    if (i == r->n) r->n++;
    r->of[i].var = var;
    r->of[i].low = low;
    r->of[i].high = high;
    return true;
}

static void range_of(const tcc_body *b, const ranges *r, const tcc_affine *a, int64_t *low, int64_t *high) {
    *low = *high = a->constant;
    for (int i = 0; i < a->n; i++) {
        const int64_t c = a->terms[i].coefficient;
        int64_t least, most;
        range_of_var(b, r, a->terms[i].var, &least, &most);
        *low += c * (c < 0 ? most : least);
        *high += c * (c < 0 ? least : most);
    }
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* 0 <= a < limit leaves each variable what the others' ranges allow it. Returns whether that is news. */
static bool narrow_by(const tcc_body *b, ranges *r, const tcc_affine *a, int64_t limit) {
    bool news = false;
    for (int i = 0; i < a->n; i++) {
        const int64_t c = a->terms[i].coefficient;
        int64_t low, high, own_low, own_high;
        if (!c) continue;
        range_of(b, r, a, &low, &high);
        range_of_var(b, r, a->terms[i].var, &own_low, &own_high);
        low -= c * (c < 0 ? own_high : own_low); /* of the others */
        high -= c * (c < 0 ? own_low : own_high);
        const int64_t least = -high, most = limit - 1 - low; /* of c times the variable */
        news |= c > 0 ? narrow(b, r, a->terms[i].var, -floor_div(-least, c), floor_div(most, c))
                      : narrow(b, r, a->terms[i].var, -floor_div(most, -c), floor_div(-least, -c));
    }
    return news;
}

/* The conditions 0 <= affine < limit that a guard consists of; *others: there are such of other kinds. */
static int conditions_of(const tcc_expr *guard, const tcc_expr **out, int n, bool *others) {
    if (guard->kind == TCC_EXPR_POINT && guard->op == TCC_OP_AND)
        return conditions_of(guard->operands[1], out, conditions_of(guard->operands[0], out, n, others), others);
    if (guard->kind == TCC_EXPR_WITHIN && guard->operands[0]->kind == TCC_EXPR_INDEX && n < MOST_CONDITIONS)
        out[n++] = guard;
    else *others = true;
    return n;
}

/* A part of an offset that a condition bounds, taken out of it. */
typedef struct taken {
    form rest;
    int64_t low, high; /* of the part */
} taken;

/* What remains of an offset when the multiple of `bound` that holds its term k is taken out. */
static bool take(const form *from, const tcc_affine *bound, int k, int64_t least, int64_t most, taken *out) {
    const tcc_affine now = {from->constant, from->n, (tcc_term *)from->terms};
    const int64_t has = tcc_affine_coefficient(&now, bound->terms[k].var), unit = bound->terms[k].coefficient;
    if (!has || has % unit) return false;
    const int64_t times = has / unit, one = times * least, other = times * most;
    *out = (taken){*from, one < other ? one : other, one < other ? other : one};
    return subtract(&out->rest, bound, times);
}

/* The range of an offset where a guard holds: of the ranges that the conditions leave the variables, and, where a
 * condition bounds several together, of a multiple of what it bounds and the rest, again and again, as long as the
 * range gets smaller; each time the condition that makes it smallest. False: conditions that are not on an index may
 * bound it further. */
static bool guarded_range(const tcc_body *b, form rest, const tcc_expr *guard, int64_t *low, int64_t *high) {
    const tcc_expr *conditions[MOST_CONDITIONS];
    bool others = false, smaller = true;
    const int n = conditions_of(guard, conditions, 0, &others);
    int64_t taken_low = 0, taken_high = 0;
    ranges r = {0};
    for (int round = 0, news = 1; news && round < ROUNDS; round++)
        for (int i = news = 0; i < n; i++)
            news |= narrow_by(b, &r, &conditions[i]->operands[0]->affine, conditions[i]->integer);
    const tcc_affine all = {rest.constant, rest.n, rest.terms};
    range_of(b, &r, &all, low, high);
    while (smaller) {
        taken best;
        smaller = false;
        for (int i = 0; i < n; i++) {
            const tcc_affine *bound = &conditions[i]->operands[0]->affine;
            int64_t least, most;
            range_of(b, &r, bound, &least, &most);
            if (least < 0) least = 0;
            if (most > conditions[i]->integer - 1) most = conditions[i]->integer - 1;
            if (least > most) { /* never */
                *low = 0;
                *high = -1;
                return true;
            }
            for (int k = 0; k < bound->n; k++) {
                taken one;
                int64_t new_low, new_high;
                if (!take(&rest, bound, k, least, most, &one)) continue;
                const tcc_affine left = {one.rest.constant, one.rest.n, one.rest.terms};
                range_of(b, &r, &left, &new_low, &new_high);
                new_low += taken_low + one.low;
                new_high += taken_high + one.high;
                if (new_high - new_low >= *high - *low) continue;
                *low = new_low;
                *high = new_high;
                best = one;
                smaller = true;
            }
        }
        if (!smaller) break;
        rest = best.rest;
        taken_low += best.low;
        taken_high += best.high;
    }
    return !others;
}

static tcc_region range_region(int64_t low, int64_t high, int64_t bytes) {
    const int64_t all = (high - low + 1) * bytes;
    return (tcc_region){low * bytes, all, all, 1, false};
}

static tcc_region region_of(const tcc_body *b, const tcc_affine *a, int64_t buffer_bytes, int64_t bytes,
                            const tcc_expr *guard) {
    tcc_region_dim dims[MOST_DIMS];
    int64_t from, low, high;
    form f;
    tcc_affine_range(b, a, &low, &high);
    if (!form_of(a, &f)) return range_region(low, high, bytes);
    form apart = f; /* a guard may be on a quotient */
    join_quotients(b, &f);
    if (guard) {
        /* A guard that is read from memory is not followed: it is taken to keep the access within the value. */
        int64_t other_low, other_high;
        const bool bounded = guarded_range(b, f, guard, &low, &high);
        guarded_range(b, apart, guard, &other_low, &other_high);
        if (low < other_low) low = other_low;
        if (high > other_high) high = other_high;
        if (!bounded && low < 0) low = 0;
        if (!bounded && buffer_bytes > 0 && high >= buffer_bytes / bytes) high = buffer_bytes / bytes - 1;
        return low <= high ? range_region(low, high, bytes) : range_region(0, -1, bytes); /* wholly outside: never */
    }
    const tcc_affine joined = {f.constant, f.n, f.terms};
    tcc_affine_range(b, &joined, &low, &high);
    from = f.constant;
    for (int i = 0; i < f.n; i++) {
        const tcc_var *v = &b->vars.data[f.terms[i].var];
        if (v->kind != TCC_VAR_LOOP && f.terms[i].coefficient) return range_region(low, high, bytes);
        from += v->low * f.terms[i].coefficient;
        dims[i] = (tcc_region_dim){f.terms[i].coefficient ? v->high - v->low + 1 : 1, f.terms[i].coefficient * bytes};
    }
    return tcc_region_of(from * bytes, bytes, dims, f.n);
}

/* What a buffer of the body has; 0: a temporary, it does not know. */
static int64_t bytes_of(const tcc_body_buffer *buffer) {
    if (!buffer->node) return buffer->literal_bytes;
    return tcc_type_bytes(&buffer->node->type) - buffer->offset * tcc_dtype_bytes(buffer->dtype);
}

tcc_region tcc_region_of_load(const tcc_body *b, const tcc_expr *load) {
    const tcc_body_buffer *from = &b->buffers.data[load->buffer];
    return region_of(b, &load->affine, bytes_of(from), tcc_dtype_bytes(from->dtype),
                     load->n_operands ? load->operands[0] : NULL);
}

tcc_region tcc_region_of_store(const tcc_body *b, const tcc_body_write *store) {
    const tcc_body_buffer *to = &b->buffers.data[store->buffer];
    return region_of(b, &store->offset, bytes_of(to), tcc_dtype_bytes(to->dtype), store->guard);
}

static void mark(const tcc_body *b, const tcc_expr *x, bool *used);

static void mark_affine(const tcc_body *b, const tcc_affine *a, bool *used) {
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &b->vars.data[a->terms[i].var];
        if (v->kind == TCC_VAR_VALUE) mark(b, v->value, used);
    }
}

static void mark(const tcc_body *b, const tcc_expr *x, bool *used) {
    if (used[x->id]) return;
    used[x->id] = true;
    mark_affine(b, &x->affine, used);
    for (int i = 0; i < x->n_operands; i++) mark(b, x->operands[i], used);
}

void tcc_body_mark_used(const tcc_body *b, bool *used) {
    for (int i = 0; i < b->stores.count; i++) {
        const tcc_body_write *s = &b->stores.data[i];
        mark(b, s->value, used);
        mark_affine(b, &s->offset, used);
        if (s->guard) mark(b, s->guard, used);
    }
}

bool tcc_body_same_element(const tcc_body *b, const tcc_expr *load, const tcc_body_write *store) {
    const tcc_body_buffer *from = &b->buffers.data[load->buffer], *to = &b->buffers.data[store->buffer];
    if (tcc_dtype_bytes(from->dtype) != tcc_dtype_bytes(to->dtype)) return false;
    if (tcc_affine_equal(&load->affine, &store->offset)) return true;
    form difference;
    if (!form_of(&load->affine, &difference)) return false;
    join_quotients(b, &difference);
    if (!subtract(&difference, &store->offset, 1) || difference.constant) return false;
    for (int i = 0; i < difference.n; i++)
        if (difference.terms[i].coefficient) return false;
    return true;
}
