/* SPDX-License-Identifier: MIT
 * The reference of a verification: which graph the interpreter runs, and on how much of the batch. */
#include "frontend/verify/verify.h"

#include "ir/support/alloc.h"

/* What the interpreter gets through in about half a minute on two cores: operations on elements. For loss and gradients
 * a batch with more is cut to a slice. */
static const double most_work = 5e9;

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
static double work_of(const tcc_graph *g) {
    double work = 0;
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        work += is_contraction(n) ? 3 * products(n) : 12 * (double)tcc_type_numel(&n->type);
    }
    return work;
}

/* Samples of a batch: the first extent, where all arrays have the same; 0: it cannot be cut. */
static int64_t samples_of(const tcc_array *batch, int count) {
    for (int i = 0; i < count; i++)
        if (!batch[i].rank || batch[i].dims[0] != batch[0].dims[0]) return 0;
    return count ? batch[0].dims[0] : 0;
}

static tcc_status work_of_slice(tcc_verification *v, tcc_array *slice, int64_t samples, double *work) {
    tcc_graph *g;
    for (int i = 0; i < v->count; i++) slice[i].dims[0] = samples;
    TCC_TRY(tcc__model_trace(v->m, true, slice, v->count, &g));
    *work = work_of(g);
    tcc_graph_destroy(g);
    return TCC_OK;
}

/* Half of the samples, until the interpreter gets through. */
static tcc_status cut_samples(tcc_verification *v, tcc_array *slice, tcc_cut *cut, double *work) {
    const int64_t asked = v->m->options.verify_samples;
    int64_t next = asked > 0 && asked < cut->all ? asked : cut->all;
    do {
        const tcc_status status = work_of_slice(v, slice, next, work);
        if (status != TCC_OK && next == cut->all) return status;
        if (status != TCC_OK) { /* what it says of the slice is not what is wrong */
            tcc_diag_begin(&v->m->cx->diag);
            for (int i = 0; i < v->count; i++) slice[i].dims[0] = cut->all;
            cut->samples = cut->all;
            return TCC_OK;
        }
        if (cut->work == 0) cut->work = *work / (double)next * (double)cut->all;
        cut->samples = next;
        next /= 2;
    } while (asked <= 0 && *work > most_work && next >= 2);
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

/* Half of the longer extent of images, until the interpreter gets through, or the model takes no smaller ones. */
static tcc_status cut_images(tcc_verification *v, tcc_array *slice, tcc_cut *cut, double work) {
    int64_t taken[2];
    if (!find_extents(v->batch, v->count, taken)) return TCC_OK;
    while (work > most_work) {
        int64_t next[2] = {taken[0], taken[1]};
        next[taken[1] > taken[0]] /= 2;
        if (next[0] < 1 || next[1] < 1) break;
        set_extents(slice, v->count, next);
        if (work_of_slice(v, slice, cut->samples, &work) != TCC_OK) break;
        memcpy(taken, next, sizeof taken);
        memcpy(cut->extents, next, sizeof next);
    }
    tcc_diag_begin(&v->m->cx->diag);
    set_extents(slice, v->count, taken);
    for (int i = 0; i < v->count && cut->extents[0]; i++)
        if (slice[i].rank >= 3) TCC_TRY(copy_middle(&v->m->cx->diag, &v->batch[i], &slice[i]));
    return TCC_OK;
}

tcc_status tcc__verify_cut(tcc_verification *v, tcc_array *slice, tcc_cut *cut) {
    double work = 0;
    if (v->count) memcpy(slice, v->batch, sizeof *slice * (size_t)v->count);
    *cut = (tcc_cut){.all = samples_of(v->batch, v->count)};
    cut->samples = cut->all;
    if (!cut->all) return TCC_OK;
    TCC_TRY(cut_samples(v, slice, cut, &work));
    return v->m->options.verify_samples > 0 ? TCC_OK : cut_images(v, slice, cut, work);
}

void tcc__verify_cut_print(tcc_strbuf *b, const tcc_cut *cut) {
    tcc_strbuf_printf(b, "the first %lld of %lld samples of the batch", (long long)cut->samples, (long long)cut->all);
    if (cut->extents[0])
        tcc_strbuf_printf(b, ", of the middle %lld x %lld of their images", (long long)cut->extents[0],
                          (long long)cut->extents[1]);
}

void tcc__verify_free_slice(const tcc_verification *v, tcc_array *slice, const tcc_array *batch) {
    for (int i = 0; i < v->count; i++)
        if (slice[i].data != batch[i].data) tcc__free(slice[i].data);
    tcc__free(slice);
}

/* -- The graph -- */

tcc_status tcc__verify_reference(tcc_verification *v) {
    TCC_TRY(v->micro ? tcc__traced_graph(v->m, v->part, v->batch, &v->reference)
                     : tcc__model_trace(v->m, true, v->batch, v->count, &v->reference));
    TCC_TRY(tcc_store_fill(&v->m->shared->store, &v->m->cx->diag));
    const bool totals = v->micro && v->part->part == TCC_STEP_TOTALS; /* of which nobody takes gradients */
    tcc_pass_options options = {.train = true, .amp = v->m->options.mixed_precision ? &v->m->compiler->amp : NULL};
    tcc_arena memory = {0};
    tcc_grouping grouping;
    tcc_status status = tcc__model_group(v->m, v->reference, &memory, &grouping);
    options.spec.loss_scale = v->m->options.loss_scale;
    options.spec.part = v->micro ? TCC_STEP_MICRO : TCC_STEP_WHOLE; /* whose gradients keep the loss's scale */
    options.spec.frozen = grouping.frozen;
    options.spec.input_gradients = v->m->options.keep_input_gradients;
    tcc_pass_cx cx = {.cx = v->m->cx, .diag = &v->m->cx->diag, .options = &options};
    const char *passes = totals ? "amp" : options.amp ? "amp,autodiff" : "autodiff";
    if (status == TCC_OK && (options.amp || !totals))
        status = tcc_pipeline_run_named(&cx, &(tcc_manager_options){0}, passes, &v->reference, NULL);
    tcc_arena_free(&memory);
    return status;
}
