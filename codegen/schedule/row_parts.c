/* SPDX-License-Identifier: MIT
 * Rows of several parts, as a concatenation along the last dim has, some of which are less than a line of memory: the
 * border of an image that is padded with what it has. An item goes through all parts of a row before the next row. By
 * loops of its own, each part would meet the same lines of memory again. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/row_parts.h"

enum { MOST_VECTORS = 16 /* of a part, written out */, FEW = 2 /* elements that are none */ };

typedef struct row_parts {
    tcc_body *body; /* a store for each part */
    tcc_item_cut cut;
    int n, var[TCC_MAX_ROW_PARTS]; /* of each part; -1: it is one element */
} row_parts;

static int64_t extent_of(const tcc_body *b, int var) { return var < 0 ? 1 : b->vars.data[var].high + 1; }

bool tcc_row_parts_fit(const tcc_lowering *l, const tcc_node *concat, tcc_node *const *parts, int n) {
    enum { LINE = 64, ROW_BYTES = 4096, LEAST_ROWS = 16 };
    const int last = concat->type.rank - 1, bytes = tcc_dtype_bytes(concat->type.dtype);
    bool border = false;
    int64_t rows = 1;
    if (l->target->lane_groups || concat->attrs->axis.axis != last || n > TCC_MAX_ROW_PARTS || last + n > TCC_MAX_RANK)
        return false;
    for (int i = 0; i < last; i++) rows *= parts[0]->type.dims[i];
    for (int k = 0; k < n; k++) {
        border |= parts[k]->type.dims[last] * bytes < LINE;
        if (parts[k]->type.dims[last] > (int64_t)MOST_VECTORS * l->target->lanes) return false;
    }
    return border && rows >= LEAST_ROWS && concat->type.dims[last] * bytes <= ROW_BYTES;
}

/* -- Emission -- */

static void emit_store(tcc_body_run *r, const tcc_body_write *s) {
    tcc_body_emit(r, 0);
    tcc_body_emit_store(r, s);
}

static void emit_part(tcc_body_run *r, const row_parts *p, int k) {
    tcc_emitter *e = r->e;
    const tcc_body_write *s = &p->body->stores.data[k];
    const int var = p->var[k], lanes = extent_of(p->body, var) > FEW ? e->lanes : 1;
    const int64_t extent = extent_of(p->body, var);
    tcc_body_need_none(r);
    tcc_body_need(r, s->value);
    tcc_body_emit(r, 0);
    if (var < 0) tcc_body_emit_store(r, s);
    for (int64_t at = 0; var >= 0 && at < extent; at += lanes) {
        r->lane_var = lanes > 1 ? var : -1;
        r->lanes = lanes;
        if (at + lanes > extent) r->mask = tcc_emit_mask(e, lanes, tcc_emit_i64(e, extent - at));
        tcc_body_enter(r, var, tcc_emit_i64(e, at));
        emit_store(r, s);
        tcc_body_leave(r, var);
        r->mask = NULL;
        r->lane_var = -1;
        r->lanes = 1;
    }
}

static void emit_row(tcc_body_run *r, const void *data) {
    const row_parts *p = data;
    for (int k = 0; k < p->n; k++) emit_part(r, p, k);
}

static tcc_status emit(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const row_parts *p = plan->data;
    return tcc_emit_cut_kernel(e, symbol, p->body, &p->cut, 0, emit_row, p);
}

/* -- The plan -- */

static tcc_status add_launch(tcc_lowering *l, row_parts *p) {
    enum { ITEM_POINTS = 4096 };
    tcc_body *b = p->body;
    int order[TCC_BODY_MAX_LOOPS], outer[TCC_BODY_MAX_LOOPS], n = b->n_space, n_outer = 0;
    uint64_t of_parts = 0;
    int64_t row = 0;
    tcc_body_rebase(b);
    for (int i = 0; i < n; i++) order[i] = i;
    for (int k = 0; k < p->n; k++) {
        of_parts |= p->var[k] < 0 ? 0 : UINT64_C(1) << p->var[k];
        row += extent_of(b, p->var[k]);
    }
    tcc_body_collapse(b, order, &n, of_parts, NULL);
    for (int i = 0; i < n; i++)
        if (!(of_parts >> order[i] & 1)) outer[n_outer++] = order[i];
    const double points = tcc_points_of(b, outer, n_outer) * (double)row;
    p->cut = tcc_cut_items(b, outer, n_outer, ITEM_POINTS / row + 1, 1);
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    TCC_TRY(tcc_lowering_use_body(l, launch, b));
    launch->items = p->cut.items;
    launch->grain = tcc_choose_grain(b, points / (double)launch->items);
    launch->kernel.schedule = "pointwise";
    launch->kernel.emit = emit;
    launch->kernel.data = p;
    return tcc_lowering_key(l, launch, b, -1, "parts of rows");
}

/* The stores of all parts. The loops are those of the rows, then one of each part. *whole: none of these had to be
 * cut. */
static tcc_status trace_parts(tcc_lowering *l, row_parts *p, const tcc_node *output, const tcc_node *concat,
                              tcc_node *const *parts, int64_t start, bool *whole) {
    const int last = concat->type.rank - 1;
    int64_t dims[TCC_MAX_RANK];
    tcc_iteration it;
    for (int i = 0; i < last; i++) dims[i] = parts[0]->type.dims[i];
    for (int k = 0; k < p->n; k++) dims[last + k] = parts[k]->type.dims[last];
    tcc_iteration_init(&it, last + p->n, dims);
    for (;;) {
        tcc_affine at[TCC_MAX_RANK], coordinates[TCC_MAX_RANK];
        tcc_body *b = p->body = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_iteration_open(b, &it, at);
        int64_t from = start;
        *whole = true;
        for (int i = 0; i < last; i++) coordinates[i] = at[i];
        for (int k = 0; k < p->n; from += dims[last + k++]) {
            coordinates[last] = at[last + k];
            const tcc_affine position = tcc_affine_linear(b, coordinates, last + 1, concat->type.dims);
            const tcc_expr *value = tcc_body_trace(b, parts[k], coordinates);
            const tcc_body_write store = {tcc_body_buffer_of(b, output, from, true), position, value, NULL,
                                          .kept = false};
            *whole = *whole && at[last + k].n <= 1;
            p->var[k] = at[last + k].n ? at[last + k].terms[0].var : -1;
            if (value && !tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(l->diag);
        }
        if (!tcc_iteration_refine(&it, b)) return tcc_lowering_keep(l, b);
        tcc_body_free(b);
    }
}

tcc_status tcc_lower_row_parts(tcc_lowering *l, const tcc_node *output, const tcc_node *concat, tcc_node *const *parts,
                               int n, int64_t start, bool *done) {
    row_parts *p = TCC_ARENA_NEW(l->arena, row_parts);
    if (!p) return tcc_enomem(l->diag);
    p->n = n;
    TCC_TRY(trace_parts(l, p, output, concat, parts, start, done));
    return *done ? add_launch(l, p) : TCC_OK;
}
