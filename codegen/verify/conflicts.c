/* SPDX-License-Identifier: MIT
 * Conflicts that no step may have: an access beyond its buffers, a write over memory that its loop reads elsewhere, or
 * an instance that touches memory which another one writes. */
#include "codegen/verify/checker.h"

#include <stdlib.h>

/* --- Bounds */

static int64_t bytes_of_space(const tcc_checker *c, const tcc_buffer *b) {
    if (b->space == TCC_SPACE_ARENA) return c->p->arena_bytes;
    if (b->space == TCC_SPACE_CONST) return c->p->constants_bytes;
    return b->binding >= 0 && b->binding < c->p->n_bindings ? tcc_type_bytes(&c->p->bindings[b->binding].type) : -1;
}

bool tcc_checker_fits(const tcc_checker *c, const tcc_buffer *b) {
    return b->offset_bytes >= 0 && b->size_bytes >= 0 && b->offset_bytes + b->size_bytes <= bytes_of_space(c, b);
}

tcc_status tcc_checker_check_bounds(const tcc_checker *c, const tcc_fact_launch *l, int k) {
    const tcc_buffer *b = &l->buffers[k];
    const tcc_fact_use *use = &l->uses[k];
    if (use->n_reads + use->n_writes && !tcc_checker_fits(c, b))
        return TCC_BUG(c->diag, "%s: buffer %d, %lld bytes at %s, lies outside", tcc_checker_step(c, l), k,
                       (long long)b->size_bytes, tcc_checker_place(c, b, b->offset_bytes));
    for (int i = 0; i < use->n_reads + use->n_writes; i++) {
        const tcc_region *r = i < use->n_reads ? &use->reads[i] : &use->writes[i - use->n_reads];
        if (r->from < 0 || tcc_region_end(r) > b->size_bytes)
            return TCC_BUG(c->diag, "%s %s bytes %lld to %lld of buffer %d, which has %lld: %s", tcc_checker_step(c, l),
                           i < use->n_reads ? "reads" : "writes", (long long)r->from, (long long)tcc_region_end(r), k,
                           (long long)b->size_bytes, tcc_checker_name(c, use->value));
        if (i >= use->n_reads && b->space == TCC_SPACE_CONST)
            return TCC_BUG(c->diag, "%s writes constants through buffer %d", tcc_checker_step(c, l), k);
    }
    return TCC_OK;
}

/* --- Conflicts */

static bool same_space(const tcc_buffer *a, const tcc_buffer *b) {
    return a->space == b->space && (a->space != TCC_SPACE_BINDING || a->binding == b->binding);
}

bool tcc_buffers_overlap(const tcc_buffer *a, const tcc_region *r, const tcc_buffer *b, const tcc_region *s) {
    return same_space(a, b) && tcc_region_overlap(r, a->offset_bytes, s, b->offset_bytes);
}

static bool is_in_step(const tcc_fact_launch *l, int read, int write) {
    if (l->buffers[read].offset_bytes != l->buffers[write].offset_bytes) return false;
    for (int i = 0; i < l->n_in_step; i++)
        if (l->in_step[i].read == read && l->in_step[i].write == write) return true;
    return false;
}

/* The regions of use `k` against the region that buffer `w` writes. */
static tcc_status check_against(const tcc_checker *c, const tcc_fact_launch *l, int w, int written, int k) {
    const tcc_fact_use *use = &l->uses[k];
    const tcc_region *r = &l->uses[w].writes[written];
    for (int i = 0; i < use->n_writes; i++)
        if ((k > w || (k == w && i > written)) &&
            tcc_buffers_overlap(&l->buffers[w], r, &l->buffers[k], &use->writes[i]))
            return TCC_BUG(c->diag, "%s writes %s twice: as %s, and as %s", tcc_checker_step(c, l),
                           tcc_checker_place(c, &l->buffers[w], l->buffers[w].offset_bytes + r->from),
                           tcc_checker_name(c, l->uses[w].value), tcc_checker_name(c, use->value));
    for (int i = 0; i < use->n_reads; i++)
        if (tcc_buffers_overlap(&l->buffers[w], r, &l->buffers[k], &use->reads[i]) && !is_in_step(l, k, w)) {
            tcc_status status = TCC_BUG(
                c->diag, "%s writes over what it reads elsewhere in its loop, at %s: reads %s", tcc_checker_step(c, l),
                tcc_checker_place(c, &l->buffers[w], l->buffers[w].offset_bytes), tcc_checker_name(c, use->value));
            tcc_note(c->diag, TCC_NOWHERE, "writes %s", tcc_checker_name(c, l->uses[w].value));
            return status;
        }
    return TCC_OK;
}

tcc_status tcc_checker_check_within(const tcc_checker *c, const tcc_fact_launch *l) {
    for (int w = 0; w < l->n_uses; w++)
        for (int i = 0; i < l->uses[w].n_writes; i++)
            for (int k = 0; k < l->n_uses; k++) TCC_TRY(check_against(c, l, w, i, k));
    return TCC_OK;
}

static int by_address(const void *a, const void *b) {
    const tcc_touch *x = a, *y = b;
    if (x->space != y->space) return x->space < y->space ? -1 : 1;
    return x->from != y->from ? (x->from < y->from ? -1 : 1) : x->instance - y->instance;
}

bool tcc_touches_add(tcc_touches *to, const tcc_fact_launch *l, int instance, bool writes) {
    for (int k = 0; k < l->n_uses; k++) {
        const tcc_buffer *b = &l->buffers[k];
        const tcc_fact_use *use = &l->uses[k];
        for (int i = 0; i < (writes ? use->n_writes : use->n_reads) && b->space != TCC_SPACE_CONST; i++) {
            const tcc_region *r = writes ? &use->writes[i] : &use->reads[i];
            const tcc_touch t = {.from = b->offset_bytes + r->from,
                                 .to = b->offset_bytes + tcc_region_end(r),
                                 .launch = l,
                                 .region = r,
                                 .instance = instance,
                                 .use = k,
                                 .space = b->space == TCC_SPACE_ARENA ? -1 : b->binding};
            if (!tcc_vec_push(to, t)) return false;
        }
    }
    return true;
}

static tcc_status check_touch(const tcc_checker *c, const tcc_touches *writes, const tcc_touch *t, bool written) {
    int low = 0, high = writes->count;
    while (low < high) { /* the first write of the space that begins behind t */
        const int middle = low + (high - low) / 2;
        const tcc_touch *w = &writes->data[middle];
        if (w->space > t->space || (w->space == t->space && w->from >= t->to)) high = middle;
        else low = middle + 1;
    }
    for (int i = low - 1; i >= 0; i--) {
        const tcc_touch *w = &writes->data[i];
        if (w->space != t->space || w->reach <= t->from) break;
        if (w->instance == t->instance) continue;
        if (!tcc_region_overlap(w->region, w->launch->buffers[w->use].offset_bytes, t->region,
                                t->launch->buffers[t->use].offset_bytes))
            continue;
        tcc_status status = TCC_BUG(c->diag, "%s: instance %d %s what instance %d writes, at %s: %s",
                                    tcc_checker_step(c, w->launch), t->instance, written ? "writes" : "reads",
                                    w->instance, tcc_checker_place(c, &w->launch->buffers[w->use], w->from),
                                    tcc_checker_name(c, t->launch->uses[t->use].value));
        tcc_note(c->diag, TCC_NOWHERE, "instance %d writes %s", w->instance,
                 tcc_checker_name(c, w->launch->uses[w->use].value));
        return status;
    }
    return TCC_OK;
}

tcc_status tcc_checker_check_touches(const tcc_checker *c, tcc_touches *writes, const tcc_touches *reads) {
    if (writes->count > 1) qsort(writes->data, (size_t)writes->count, sizeof *writes->data, by_address);
    for (int i = 0; i < writes->count; i++) {
        tcc_touch *w = &writes->data[i];
        const tcc_touch *before = i > 0 && w[-1].space == w->space ? &w[-1] : NULL;
        w->reach = before && before->reach > w->to ? before->reach : w->to;
    }
    for (int i = 0; i < writes->count; i++) TCC_TRY(check_touch(c, writes, &writes->data[i], true));
    for (int i = 0; i < reads->count; i++) TCC_TRY(check_touch(c, writes, &reads->data[i], false));
    return TCC_OK;
}
