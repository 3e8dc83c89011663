/* SPDX-License-Identifier: MIT
 * Regions of memory, from strides and from the affine offsets of a body's loads and stores. */
#include "codegen/body/access.h"

#include <string.h>

enum { MOST_DIMS = 80, MOST_CONDITIONS = 16, MOST_RANGES = 32, ROUNDS = 8 };

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* --- Regions */

static void sort(tcc_region_dim *dims, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && dims[k - 1].stride > dims[k].stride; k--) {
            const tcc_region_dim d = dims[k];
            dims[k] = dims[k - 1];
            dims[k - 1] = d;
        }
}

/* Puts a dim outside of what the region has; false: then it would be none. */
static bool add_dim(tcc_region *r, const tcc_region_dim *d) {
    tcc_region_level *top = r->n_levels ? &r->levels[r->n_levels - 1] : NULL;
    const int64_t next = top ? top->stride * top->count : r->run; /* where what is there would go on */
    if (d->stride < next || (d->stride > next && r->n_levels == TCC_REGION_MOST_LEVELS)) return false;
    if (d->stride > next) r->levels[r->n_levels++] = (tcc_region_level){d->stride, d->extent};
    else if (top) top->count *= d->extent;
    else r->run *= d->extent;
    return true;
}

tcc_region tcc_region_of(int64_t from, int64_t element, tcc_region_dim *dims, int n) {
    tcc_region r = {.from = from, .run = element, .exact = true};
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
    for (int i = 0; i < kept && r.exact; i++) r.exact = add_dim(&r, &dims[i]);
    if (!r.exact) r.run = last, r.n_levels = 0;
    return r;
}

/* From the first byte of the lowest `n` levels to behind their last. */
static int64_t reach(const tcc_region *r, int n) {
    int64_t bytes = r->run;
    for (int i = 0; i < n; i++) bytes += (r->levels[i].count - 1) * r->levels[i].stride;
    return bytes;
}

int64_t tcc_region_end(const tcc_region *r) { return r->from + reach(r, r->n_levels); }

int64_t tcc_region_bytes(const tcc_region *r) {
    int64_t bytes = r->run;
    for (int i = 0; i < r->n_levels; i++) bytes *= r->levels[i].count;
    return bytes;
}

static int64_t stride_of(const tcc_region *r, int n) { return n ? r->levels[n - 1].stride : 0; }

/* Takes rows of `stride` bytes off the top of what a region has: how many; 0: there is more than a row without them. */
static int64_t take_rows(tcc_region *r, int64_t stride) {
    tcc_region_level *top = r->n_levels ? &r->levels[r->n_levels - 1] : NULL;
    if (top && top->stride == stride) return r->levels[--r->n_levels].count;
    if (reach(r, r->n_levels) <= stride) return 1;
    int64_t *count = top ? &top->count : &r->run;
    const int64_t in_a_row = top ? stride / top->stride : stride; /* of rows that fill it, as a tensor's do */
    if ((top && stride % top->stride) || *count % in_a_row) return 0;
    const int64_t rows = *count / in_a_row;
    *count = in_a_row;
    return rows;
}

/* Whether two regions meet, of which b begins `distance` bytes behind a. In rows of one length what of b begins in a
 * row of a's may lie in that row and in the next one. */
static bool meet(tcc_region a, tcc_region b, int64_t distance) {
    if (distance >= reach(&a, a.n_levels) || -distance >= reach(&b, b.n_levels)) return false;
    const int64_t of_a = stride_of(&a, a.n_levels), of_b = stride_of(&b, b.n_levels);
    const int64_t stride = of_a > of_b ? of_a : of_b;
    if (!stride) return true;
    const int64_t a_rows = take_rows(&a, stride), b_rows = take_rows(&b, stride);
    if (!a_rows || !b_rows) return true;
    const int64_t row = floor_div(distance, stride), within = distance - row * stride;
    return (row < a_rows && row + b_rows > 0 && meet(a, b, within)) ||
           (row + 1 < a_rows && row + 1 + b_rows > 0 && meet(a, b, within - stride));
}

bool tcc_region_overlap(const tcc_region *a, int64_t a_at, const tcc_region *b, int64_t b_at) {
    return meet(*a, *b, b_at + b->from - a_at - a->from);
}

/* Whether the lowest levels of `whole` surely hold those of `part`, which begins `distance` bytes behind them. */
static bool holds(const tcc_region *whole, int n, const tcc_region *part, int part_n, int64_t distance) {
    if (distance < 0 || distance + reach(part, part_n) > reach(whole, n)) return false;
    if (!n) return true;
    const int64_t stride = stride_of(whole, n);
    for (; stride_of(part, part_n) >= stride; part_n--)
        if (stride_of(part, part_n) % stride) return false;
    return holds(whole, n - 1, part, part_n, distance % stride);
}

bool tcc_region_contains(const tcc_region *whole, const tcc_region *part) {
    return holds(whole, whole->n_levels, part, part->n_levels, part->from - whole->from);
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

/* The range of an offset where a guard holds. The ranges that the conditions leave the variables give one. So does each
 * condition that bounds several variables together: a multiple of what it bounds, and the rest. The offset lies in all
 * of these ranges. What the narrowest leaves is split again, as long as the ranges get narrower. False: conditions that
 * are not on an index may bound it further. */
static bool guarded_range(const tcc_body *b, form rest, const tcc_expr *guard, int64_t *low, int64_t *high) {
    const tcc_expr *conditions[MOST_CONDITIONS];
    bool others = false, narrower = true;
    const int n = conditions_of(guard, conditions, 0, &others);
    int64_t taken_low = 0, taken_high = 0, width;
    ranges r = {0};
    for (int round = 0, news = 1; news && round < ROUNDS; round++)
        for (int i = news = 0; i < n; i++)
            news |= narrow_by(b, &r, &conditions[i]->operands[0]->affine, conditions[i]->integer);
    const tcc_affine all = {rest.constant, rest.n, rest.terms};
    range_of(b, &r, &all, low, high);
    width = *high - *low;
    while (narrower) {
        taken best;
        narrower = false;
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
                if (new_low > *low) *low = new_low;
                if (new_high < *high) *high = new_high;
                if (new_high - new_low >= width) continue;
                width = new_high - new_low;
                best = one;
                narrower = true;
            }
        }
        if (!narrower) break;
        rest = best.rest;
        taken_low += best.low;
        taken_high += best.high;
    }
    return !others;
}

static tcc_region range_region(int64_t low, int64_t high, int64_t bytes) {
    const int64_t all = (high - low + 1) * bytes;
    return (tcc_region){.from = low * bytes, .run = all};
}

static tcc_region region_of(const tcc_body *b, const tcc_affine *a, int64_t buffer_bytes, int64_t bytes,
                            const tcc_expr *guard, bool permuted) {
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
        const bool all = v->kind == TCC_VAR_LOOP || (v->kind == TCC_VAR_VALUE && permuted);
        if (!all && f.terms[i].coefficient) return range_region(low, high, bytes);
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
                     load->n_operands ? load->operands[0] : NULL, false);
}

tcc_region tcc_region_of_store(const tcc_body *b, const tcc_body_write *store) {
    const tcc_body_buffer *to = &b->buffers.data[store->buffer];
    return region_of(b, &store->offset, bytes_of(to), tcc_dtype_bytes(to->dtype), store->guard, store->permuted);
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
