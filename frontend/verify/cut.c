/* SPDX-License-Identifier: MIT
 * How much of a batch is verified: samples, and parts of sequences and images. */
#include "frontend/verify/verify.h"

#include "ir/support/alloc.h"

/* What the interpreter gets through in about half a minute on two cores, and what a core of a CPU computes in about
 * three seconds: operations on elements. Of more the values would not fit either, at 8 bytes an element. */
static const double most_work[] = {[TCC_CUT_FOR_RESULTS] = 5e9, [TCC_CUT_FOR_KERNELS] = 6e10};
/* Fewer say too little of attention. */
enum { LEAST_POSITIONS = 16 };

/* -- How much of the batch -- */

static bool is_contraction(const tcc_node *n) {
    const tcc_fusion_class fusion = tcc_op_get_info(n->op)->fusion;
    return fusion == TCC_FUSION_CONTRACT || fusion == TCC_FUSION_ATTENTION;
}

/* Products of a contraction: of dot, of convolutions forward, and of attention, which are all that a traced graph has.
 */
static double products(const tcc_node *n) {
    const tcc_type *w = &n->operands[1]->type;
    double each = 1;
    if (n->op == TCC_OP_SDPA) each = 2 * (double)w->dims[w->rank - 2]; /* keys, for scores and for sums */
    else if (n->op == TCC_OP_DOT)
        for (int i = 0; i < n->attrs->dot.contract_b.count; i++) each *= (double)w->dims[n->attrs->dot.contract_b.v[i]];
    else each = (double)tcc_type_numel(w) / (double)w->dims[0];
    return each * (double)tcc_type_numel(&n->type);
}

/* Of the traced graph: a training step does three times its products, and some dozen operations an element. */
static double work_of(const tcc_graph *g, tcc_cut_for what) {
    const double dots = what == TCC_CUT_FOR_RESULTS ? 0.25 : 1; /* the interpreter is better at these */
    double work = 0;
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        if (n->op == TCC_OP_DOT) work += 3 * dots * products(n);
        else work += is_contraction(n) ? 3 * products(n) : 12 * (double)tcc_type_numel(&n->type);
    }
    return work;
}

/* Samples of a batch: the first extent, where all arrays have the same; 0: it cannot be cut. */
static int64_t samples_of(const tcc_array *batch, int count) {
    for (int i = 0; i < count; i++)
        if (!batch[i].rank || batch[i].dims[0] != batch[0].dims[0]) return 0;
    return count ? batch[0].dims[0] : 0;
}

/* A batch that is being cut. */
typedef struct cutting {
    tcc_verification *v;
    tcc_cut_for what;
    tcc_array *slice;
    tcc_cut *cut;
    double work, most; /* of the slice, and of one that is small enough */
} cutting;

static tcc_status find_work(cutting *c, int64_t samples) {
    tcc_graph *g;
    for (int i = 0; i < c->v->count; i++) c->slice[i].dims[0] = samples;
    TCC_TRY(tcc__model_trace(c->v->m, true, c->slice, c->v->count, &g));
    c->work = work_of(g, c->what);
    tcc_graph_destroy(g);
    return TCC_OK;
}

/* Half of the samples, until that is little enough. */
static tcc_status cut_samples(cutting *c, int64_t asked) {
    tcc_cut *cut = c->cut;
    int64_t next = asked > 0 && asked < cut->all ? asked : cut->all;
    do {
        const tcc_status status = find_work(c, next);
        if (status != TCC_OK && next == cut->all) return status;
        if (status != TCC_OK) { /* what it says of the slice is not what is wrong */
            tcc_diag_begin(&c->v->m->cx->diag);
            for (int i = 0; i < c->v->count; i++) c->slice[i].dims[0] = cut->all;
            cut->samples = cut->all;
            return TCC_OK;
        }
        cut->samples = next;
        next /= 2;
    } while (asked <= 0 && c->work > c->most && next >= 2);
    return TCC_OK;
}

/* Arrays [N, C, H, W] and [N, H, W] are of images, if all of these have the same H and W, which are set. */
static bool find_extents(const tcc_array *batch, int count, int64_t extents[2]) {
    int first = 0;
    while (first < count && batch[first].rank != 4) first++;
    if (first == count) return false;
    memcpy(extents, batch[first].dims + 2, 2 * sizeof *extents);
    for (int i = 0; i < count; i++)
        if (batch[i].rank >= 3 && memcmp(batch[i].dims + batch[i].rank - 2, extents, 2 * sizeof *extents)) return false;
    return true;
}

static void set_extents(tcc_array *slice, int count, const int64_t extents[2]) {
    for (int i = 0; i < count; i++)
        if (slice[i].rank >= 3) memcpy(slice[i].dims + slice[i].rank - 2, extents, 2 * sizeof *extents);
}

/* What lies in the middle of array `from`, into memory of its own. */
static tcc_status copy_middle(tcc_diag *d, const tcc_array *from, tcc_array *to) {
    const int64_t *whole = from->dims + from->rank - 2, *part = to->dims + to->rank - 2;
    const size_t bytes = (size_t)tcc_dtype_bytes(from->dtype);
    int64_t images = 1;
    for (int i = 0; i < to->rank - 2; i++) images *= to->dims[i];
    char *out = to->data = tcc__malloc((size_t)(images * part[0] * part[1]) * bytes);
    if (!out) return tcc_enomem(d);
    for (int64_t i = 0; i < images * part[0]; i++, out += (size_t)part[1] * bytes) {
        const int64_t row = i / part[0] * whole[0] + (whole[0] - part[0]) / 2 + i % part[0];
        memcpy(out, (const char *)from->data + (size_t)(row * whole[1] + (whole[1] - part[1]) / 2) * bytes,
               (size_t)part[1] * bytes);
    }
    return TCC_OK;
}

/* Half of the longer extent of images, until that is little enough, or the model takes no smaller ones. */
static tcc_status cut_images(cutting *c, int64_t taken[2]) {
    const int count = c->v->count;
    tcc_array *slice = c->slice;
    while (c->work > c->most) {
        int64_t next[2] = {taken[0], taken[1]};
        next[taken[1] > taken[0]] /= 2;
        if (next[0] < 1 || next[1] < 1) break;
        set_extents(slice, count, next);
        if (find_work(c, c->cut->samples) != TCC_OK) break;
        memcpy(taken, next, sizeof next);
        memcpy(c->cut->extents, next, sizeof next);
    }
    tcc_diag_begin(&c->v->m->cx->diag);
    set_extents(slice, count, taken);
    for (int i = 0; i < count && c->cut->extents[0]; i++)
        if (slice[i].rank >= 3) TCC_TRY(copy_middle(&c->v->m->cx->diag, &c->v->batch[i], &slice[i]));
    return TCC_OK;
}

/* The length of sequences [N, T, ...], if all arrays but those [N] have it; else 0. */
static int64_t positions_of(const tcc_array *batch, int count) {
    int64_t positions = 0;
    for (int i = 0; i < count; i++) {
        if (batch[i].rank < 2) continue;
        if (positions && batch[i].dims[1] != positions) return 0;
        positions = batch[i].dims[1];
    }
    return positions;
}

static void set_positions(tcc_array *slice, int count, int64_t positions) {
    for (int i = 0; i < count; i++)
        if (slice[i].rank >= 2) slice[i].dims[1] = positions;
}

static tcc_status copy_beginning(tcc_diag *d, const tcc_array *from, tcc_array *to) {
    size_t bytes = (size_t)tcc_dtype_bytes(from->dtype);
    for (int i = 2; i < to->rank; i++) bytes *= (size_t)to->dims[i];
    const size_t step = bytes * (size_t)from->dims[1];
    bytes *= (size_t)to->dims[1];
    char *out = to->data = tcc__malloc((size_t)to->dims[0] * bytes);
    if (!out) return tcc_enomem(d);
    for (int64_t i = 0; i < to->dims[0]; i++)
        memcpy(out + (size_t)i * bytes, (const char *)from->data + (size_t)i * step, bytes);
    return TCC_OK;
}

/* Half of the positions of sequences, until that is little enough, or the model takes no shorter ones. */
static tcc_status cut_sequences(cutting *c, int64_t all) {
    const int count = c->v->count;
    int64_t taken = all;
    while (c->work > c->most && taken / 2 >= LEAST_POSITIONS) {
        set_positions(c->slice, count, taken / 2);
        if (find_work(c, c->cut->samples) != TCC_OK) break;
        taken /= 2;
    }
    tcc_diag_begin(&c->v->m->cx->diag);
    set_positions(c->slice, count, taken);
    if (taken == all) return TCC_OK;
    c->cut->positions = taken, c->cut->all_positions = all;
    for (int i = 0; i < count; i++)
        if (c->slice[i].rank >= 2) TCC_TRY(copy_beginning(&c->v->m->cx->diag, &c->v->batch[i], &c->slice[i]));
    return TCC_OK;
}

tcc_status tcc__verify_cut(tcc_verification *v, tcc_cut_for what, tcc_array *slice, tcc_cut *cut) {
    const int64_t asked = what == TCC_CUT_FOR_RESULTS ? v->m->options.verify_samples : 0;
    cutting c = {.v = v, .what = what, .slice = slice, .cut = cut, .most = most_work[what]};
    int64_t extents[2], positions;
    if (v->count) memcpy(slice, v->batch, sizeof *slice * (size_t)v->count);
    *cut = (tcc_cut){.all = samples_of(v->batch, v->count)};
    cut->samples = cut->all;
    if (!cut->all) return TCC_OK;
    TCC_TRY(cut_samples(&c, asked));
    if (asked > 0) return TCC_OK;
    if (find_extents(v->batch, v->count, extents)) return cut_images(&c, extents);
    return (positions = positions_of(v->batch, v->count)) ? cut_sequences(&c, positions) : TCC_OK;
}

void tcc__verify_cut_print(tcc_strbuf *b, const tcc_cut *cut) {
    tcc_strbuf_printf(b, "the first %lld of %lld samples of the batch", (long long)cut->samples, (long long)cut->all);
    if (cut->extents[0])
        tcc_strbuf_printf(b, ", of the middle %lld x %lld of their images", (long long)cut->extents[0],
                          (long long)cut->extents[1]);
    if (cut->positions)
        tcc_strbuf_printf(b, ", of the first %lld of %lld positions", (long long)cut->positions,
                          (long long)cut->all_positions);
}

void tcc__verify_free_slice(const tcc_verification *v, tcc_array *slice, const tcc_array *batch) {
    for (int i = 0; slice && i < v->count; i++)
        if (slice[i].data != batch[i].data) tcc__free(slice[i].data);
    tcc__free(slice);
}
