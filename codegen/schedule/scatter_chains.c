/* SPDX-License-Identifier: MIT
 * scatter_add of f16 and bf16 by rows, for a host. One kernel links the index positions that name a row, in ascending
 * order. In the next an item owns some rows and adds up the updates of each in registers, which it rounds once. So the
 * sums have one order, the one of the other schedules, and rows without updates are not touched. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/predict.h"
#include "codegen/schedule/scatter.h"

enum {
    ITEM_POINTS = 16384,
    FEW_ROWS = 64, /* so few have items for their columns, too */
    WIDE = 4,      /* registers of a vector of sums */
};

/* The buffers in front of those of the body: of each row its first position, and how many it has; of each position the
 * one that follows on it. */
enum { FIRST, NUMBER, NEXT, LINKS };
_Static_assert((int)LINKS == (int)TCC_SCATTER_LINKS, "a temporary for each");

static void add_store(tcc_lowering *l, tcc_body *b, int buffer, tcc_affine offset, const tcc_expr *value,
                      const tcc_expr *guard) {
    const tcc_body_write store = {buffer, offset, value, guard, .kept = false};
    if (b->status == TCC_OK && !tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(l->diag);
}

/* No row has a position. */
static tcc_status empty_table(tcc_lowering *l, const tcc_scatter *p) {
    tcc_iteration it;
    tcc_iteration_init(&it, 1, &p->rows);
    tcc_body *b = tcc_lowering_body(l, NULL);
    if (!b) return tcc_enomem(l->diag);
    tcc_affine at[1];
    tcc_iteration_open(b, &it, at);
    for (int i = FIRST; i <= NUMBER; i++)
        add_store(l, b, tcc_body_temporary(b, p->links[i], TCC_I32, true), at[0], tcc_expr_integer(b, TCC_I32, 0),
                  NULL);
    return tcc_schedule_points(l, b);
}

/* What a row has before a position comes. Earlier turns of the loops write it. */
static const tcc_expr *load_before(tcc_body *b, int buffer, tcc_affine row, const tcc_expr *guard, uint64_t loops) {
    const tcc_expr *x = tcc_expr_load(b, buffer, row, guard);
    if (x) ((tcc_expr *)x)->loops |= loops;
    return x;
}

/* Traces the work of one position: it comes in front of those of its row. The loops descend by their coordinates. */
static void trace_link(tcc_lowering *l, tcc_body *b, const tcc_scatter *p, const tcc_affine *loops) {
    const tcc_node *index = l->group->hero->operands[1];
    tcc_affine c[TCC_MAX_RANK];
    uint64_t bits = 0;
    for (int i = 0; i < index->type.rank; i++) {
        c[i] = tcc_affine_add_constant(tcc_affine_scale(b, loops[i], -1), index->type.dims[i] - 1);
        bits |= tcc_affine_loops(b, &loops[i]);
    }
    const tcc_affine position = tcc_affine_expand(b, tcc_affine_linear(b, c, index->type.rank, index->type.dims));
    const tcc_expr *named = tcc_body_trace(b, index, c);
    if (!named) return;
    const tcc_expr *guard = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_WITHIN, .dtype = TCC_BOOL, .integer = p->rows},
                                          &named, 1);
    const tcc_affine row = tcc_affine_var(b, tcc_body_value_var(b, named, 0, p->rows - 1));
    int to[LINKS];
    for (int i = 0; i < LINKS; i++) to[i] = tcc_body_temporary(b, p->links[i], TCC_I32, true);
    const tcc_expr *counted[] = {load_before(b, to[NUMBER], row, guard, bits), tcc_expr_integer(b, TCC_I32, 1)};
    add_store(l, b, to[NEXT], position, load_before(b, to[FIRST], row, guard, bits), NULL);
    add_store(l, b, to[FIRST], row, tcc_expr_index(b, position, TCC_I32), guard);
    add_store(l, b, to[NUMBER], row, tcc_expr_point(b, TCC_OP_ADD, TCC_I32, counted, 2), guard);
}

static tcc_status add_links(tcc_lowering *l, const tcc_scatter *of) {
    const tcc_type *index = &l->group->hero->operands[1]->type;
    tcc_scatter *p = TCC_ARENA_NEW(l->arena, tcc_scatter);
    if (!p) return tcc_enomem(l->diag);
    tcc_iteration it;
    tcc_iteration_init(&it, index->rank, index->dims);
    for (;;) {
        tcc_affine loops[TCC_MAX_RANK];
        p->body = tcc_lowering_body(l, l->group);
        if (!p->body) return tcc_enomem(l->diag);
        tcc_iteration_open(p->body, &it, loops);
        trace_link(l, p->body, of, loops);
        if (!tcc_iteration_refine(&it, p->body)) break;
        tcc_body_free(p->body);
    }
    TCC_TRY(tcc_lowering_keep(l, p->body));
    p->lanes = 1;
    p->n_positions = p->body->n_space;
    for (int i = 0; i < p->n_positions; i++) p->positions[i] = i;
    p->cut = tcc_cut_items(p->body, NULL, 0, 1, 1);
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    TCC_TRY(tcc_lowering_use_body(l, launch, p->body));
    launch->items = 1;
    launch->kernel.schedule = "scatter";
    launch->kernel.emit = tcc_scatter_emit_points;
    launch->kernel.in_step = tcc_body_in_step;
    launch->kernel.data = p;
    return tcc_lowering_key(l, launch, p->body, -1, "links");
}

/* Traces the work of a position that is the value of a loop of its own, behind those of the hero's dims. */
static void trace_row(tcc_lowering *l, tcc_body *b, tcc_scatter *p, const tcc_affine *at) {
    const tcc_node *hero = l->group->hero, *update = hero->operands[2];
    const tcc_type *index = &hero->operands[1]->type;
    const int axis = (int)hero->attrs->axis.axis;
    tcc_affine c[TCC_MAX_RANK];
    p->positions[0] = tcc_body_loop(b, tcc_type_numel(index));
    for (int i = 0; i < hero->type.rank; i++)
        if (i != axis) c[i < axis ? i : i - 1 + index->rank] = at[i];
    tcc_affine_split(b, tcc_affine_var(b, p->positions[0]), index->rank, index->dims, c + axis);
    const tcc_expr *operands[2] = {NULL, tcc_body_trace(b, update, c)};
    if (!operands[1]) return;
    const int buffer = tcc_body_buffer_of(b, hero, 0, true);
    const tcc_affine offset = tcc_affine_expand(b, tcc_affine_linear(b, at, hero->type.rank, hero->type.dims));
    p->old = operands[0] = tcc_expr_load(b, buffer, offset, NULL);
    p->sum = tcc_expr_point(b, TCC_OP_ADD, hero->type.dtype, operands, 2);
    add_store(l, b, buffer, offset, p->sum, NULL);
}

static tcc_status trace_rows(tcc_lowering *l, tcc_scatter *p) {
    const tcc_node *hero = l->group->hero;
    tcc_iteration it;
    tcc_iteration_init(&it, hero->type.rank, hero->type.dims);
    for (;;) {
        tcc_affine at[TCC_MAX_RANK];
        p->body = tcc_lowering_body(l, l->group);
        if (!p->body) return tcc_enomem(l->diag);
        tcc_iteration_open(p->body, &it, at);
        trace_row(l, p->body, p, at);
        const tcc_affine row = at[hero->attrs->axis.axis];
        p->row = row.n ? row.terms[0].var : -1;
        if (!tcc_iteration_refine(&it, p->body)) return tcc_lowering_keep(l, p->body);
        tcc_body_free(p->body);
    }
}

/* Items of some rows, or, where there are few, of some columns of one. */
static tcc_status plan_rows(tcc_lowering *l, tcc_scatter *p) {
    const tcc_body *b = p->body;
    int order[TCC_BODY_MAX_LOOPS], n = b->n_space;
    for (int i = 0; i < n; i++) order[i] = i;
    tcc_body_collapse(p->body, order, &n, p->row < 0 ? 0 : UINT64_C(1) << p->row, NULL);
    int64_t columns = 1;
    for (int i = 0; i < n; i++) {
        if (order[i] == p->row) continue;
        p->kept[p->n_kept++] = order[i];
        columns *= b->vars.data[order[i]].high + 1;
    }
    p->lanes = 1;
    if (p->n_kept) {
        const int var = p->kept[p->n_kept - 1];
        const int64_t extent = b->vars.data[var].high + 1;
        p->lanes = tcc_choose_lanes(l->target, b, var, extent, WIDE);
        TCC_TRY(tcc_settle_lanes(l, b, var, extent, &p->lanes));
    }
    p->cut = tcc_cut_items(b, p->kept, p->n_kept, p->rows < FEW_ROWS ? p->lanes : columns, p->lanes);
    p->row_cut = tcc_cut_items(b, &p->row, p->row >= 0, (ITEM_POINTS + columns - 1) / columns, 1);
    return TCC_OK;
}

/* -- Emission -- */

typedef struct chain {
    const tcc_scatter *p;
    tcc_emit_value first, number; /* the row's first position, and how many it has; i64 */
} chain;

static tcc_emit_value load_link(tcc_emitter *e, int buffer, tcc_emit_value at) {
    return tcc_emit_sext(e, tcc_emit_load(e, e->i32, tcc_emit_at(e, e->i32, tcc_emit_buffer(e, buffer), at), 0),
                         e->i64);
}

/* The sums of one vector of columns: what is there, and the updates of all positions on it. */
static void emit_sums(tcc_body_run *r, const chain *c) {
    tcc_emitter *e = r->e;
    const tcc_scatter *p = c->p;
    r->given[p->old->id] = false;
    tcc_body_need_none(r);
    tcc_body_need(r, p->old);
    tcc_body_emit(r, 0);
    tcc_emit_value carry[2] = {tcc_body_lanes(r, p->old), c->first};
    r->given[p->old->id] = true;
    tcc_body_need_none(r);
    tcc_body_need(r, p->sum);
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), c->number, 1, carry, 2);
    r->values[p->old->id] = loop.carry[0];
    tcc_body_enter(r, p->positions[0], loop.carry[1]);
    tcc_body_emit(r, 0);
    carry[0] = tcc_body_lanes(r, p->sum);
    carry[1] = load_link(e, NEXT, loop.carry[1]);
    tcc_body_leave(r, p->positions[0]);
    tcc_emit_loop_end(e, &loop, carry);
    r->values[p->sum->id] = loop.carry[0];
    tcc_body_emit_store(r, &p->body->stores.data[0]);
    r->values[p->sum->id] = r->values[p->old->id] = NULL;
}

static void emit_row(tcc_body_run *r, const tcc_scatter *p, tcc_emit_value row, tcc_emit_value columns) {
    tcc_emitter *e = r->e;
    const chain c = {p, load_link(e, FIRST, row), load_link(e, NUMBER, row)};
    tcc_emit_if named;
    tcc_emit_cut_loops loops;
    tcc_emit_if_begin(e, &named, tcc_emit_icmp(e, TCC_ICMP_NE, c.number, tcc_emit_i64(e, 0)));
    tcc_emit_cut_begin(r, &p->cut, columns, p->lanes, &loops);
    emit_sums(r, &c);
    tcc_emit_cut_end(r, &p->cut, &loops);
    tcc_emit_if_end(e, &named);
}

static tcc_status emit_chains(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_scatter *p = plan->data;
    tcc_body_run run;
    tcc_emit_kernel_begin(e, symbol);
    TCC_TRY(tcc_body_run_begin(&run, e, p->body, LINKS));
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    tcc_emit_cut_loops rows;
    tcc_emit_value columns = tcc_emit_rem(e, items.index, p->cut.items);
    tcc_emit_cut_begin(&run, &p->row_cut, tcc_emit_div(e, items.index, p->cut.items), 0, &rows);
    emit_row(&run, p, p->row < 0 ? tcc_emit_i64(e, 0) : run.loops[p->row], columns);
    tcc_emit_cut_end(&run, &p->row_cut, &rows);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
    tcc_body_run_end(&run);
    return TCC_OK;
}

tcc_status tcc_scatter_add_chains(tcc_lowering *l) {
    const tcc_node *hero = l->group->hero;
    tcc_scatter *p = TCC_ARENA_NEW(l->arena, tcc_scatter);
    if (!p) return tcc_enomem(l->diag);
    p->rows = hero->type.dims[hero->attrs->axis.axis];
    const int64_t positions = tcc_type_numel(&hero->operands[1]->type);
    tcc_plan_buffer links[LINKS];
    for (int i = 0; i < LINKS; i++) {
        const int64_t numbers = i == NEXT ? positions : p->rows;
        links[i] = (tcc_plan_buffer){.temporary = tcc_lowering_temporary(l, numbers * tcc_dtype_bytes(TCC_I32))};
        p->links[i] = links[i].temporary;
        if (p->links[i] < 0) return TCC_ENOMEM;
    }
    TCC_TRY(empty_table(l, p));
    TCC_TRY(add_links(l, p));
    TCC_TRY(trace_rows(l, p));
    TCC_TRY(plan_rows(l, p));
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    TCC_TRY(tcc_lowering_set_buffers(l, launch, links, LINKS, p->body));
    launch->part = 1.0 / (double)p->rows; /* each position is on the chain of one row */
    launch->flop = tcc_body_flop(p->body) * launch->part;
    launch->bytes = tcc_predict_body_bytes(p->body);
    launch->items = p->cut.items * p->row_cut.items;
    launch->grain = tcc_choose_grain(p->body, (double)tcc_type_numel(&hero->operands[2]->type) / (double)launch->items);
    launch->kernel.schedule = "scatter";
    launch->kernel.emit = emit_chains;
    launch->kernel.in_step = tcc_body_in_step;
    launch->kernel.data = p;
    return tcc_lowering_key(l, launch, p->body, -1, "chains lanes=%d row=%d", p->lanes, p->row);
}
