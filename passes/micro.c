/* SPDX-License-Identifier: MIT
 * Makes two graphs: a micro-batch, with its part of the loss and all other results, and the totals that the loss
 * needs. */
#include "passes/micro.h"

#include "ir/build.h"
#include "ir/collective.h"
#include "ir/support/alloc.h"
#include "ir/support/train_step.h"
#include "passes/micro_loss.h"

#include <string.h>

static const tcc_output *find_output(const tcc_graph *g, const char *name) {
    for (int i = 0; i < g->outputs.count; i++)
        if (!strcmp(g->outputs.data[i].name, name)) return &g->outputs.data[i];
    return NULL;
}

static int input_number(const tcc_graph *g, const tcc_node *input) {
    int i = 0;
    while (g->inputs.data[i] != input) i++;
    return i;
}

static tcc_status status_of(const tcc_graph *g) { return g->diag->status ? g->diag->status : TCC_ENOMEM; }

/* -- Totals -- */

/* The total grows by the micro-batch's part; while those of another level do, it stays as it is. */
static tcc_status add_total(tcc_graph *g, const tcc_micro_total *t, tcc_node *part, int levels) {
    const char *name = t->all->attrs->input.name;
    tcc_node *state = tcc_micro_input(g, name); /* another total may need it */
    if (!state) state = tcc_ir_state(g, name, &t->all->type, 0, t->all->loc);
    if (!state || !part) return status_of(g);
    tcc_ir_set_origin(g, t->part);
    tcc_node *next = tcc_ir_binary(g, t->op, state, part);
    next = tcc_ir_select(g, tcc_ir_broadcast_like(g, tcc_micro_first(g), state), part, next);
    if (levels > 1) {
        tcc_node *due = tcc_ir_binary_c(g, TCC_OP_EQ, tcc_micro_hyper(g, TCC_MICRO_LEVEL), t->level);
        next = tcc_ir_select(g, tcc_ir_broadcast_like(g, due, state), next, state);
    }
    return tcc_ir_output(g, name, next, input_number(g, state));
}

/* Copies what nodes of `from` with live[id] need, inputs that are not needed left out. */
static tcc_status copy_needed(const tcc_graph *from, bool *live, tcc_graph *to, tcc_node **map) {
    for (int i = from->nodes.count - 1; i >= 0; i--)
        for (int k = 0; live[i] && k < tcc_ir_read_operands(from->nodes.data[i]); k++)
            live[from->nodes.data[i]->operands[k]->id] = true;
    tcc_rewrite rw = {.from = from, .to = to, .map = map, .live = live};
    for (int i = 0; i < from->nodes.count; i++) {
        const tcc_node *n = from->nodes.data[i];
        if (!live[i] || map[i]) continue;
        if (!(tcc_op_is_collective(n->op) ? tcc_rewrite_collective(&rw, n) : tcc_rewrite_copy(&rw, n)))
            return status_of(to);
    }
    return TCC_OK;
}

static tcc_status build_totals(const tcc_micro_cut *c, bool *live, tcc_node **map, tcc_graph *g) {
    int levels = 0;
    for (int i = 0; i < c->totals.count; i++) {
        live[c->totals.data[i].part->id] = true;
        if (c->totals.data[i].level > levels) levels = c->totals.data[i].level;
    }
    TCC_TRY(copy_needed(c->g, live, g, map));
    for (int i = 0; i < c->totals.count; i++)
        TCC_TRY(add_total(g, &c->totals.data[i], map[c->totals.data[i].part->id], levels));
    return TCC_OK;
}

static tcc_status make_totals(const tcc_micro_cut *c, tcc_graph **out) {
    const size_t count = (size_t)c->g->nodes.count + 1;
    bool *live = tcc__calloc(count, sizeof *live);
    tcc_node **map = tcc__calloc(count, sizeof *map);
    tcc_graph *g = tcc_graph_create("totals", c->g->diag);
    tcc_status status = live && map && g ? build_totals(c, live, map, g) : tcc_enomem(c->g->diag);
    tcc__free(live);
    tcc__free(map);
    if (status == TCC_OK) *out = g;
    else tcc_graph_destroy(g);
    return status;
}

/* TCC_COUNTS_STATE: whether no divisor is 0. */
static tcc_status add_counts(const tcc_micro_cut *c) {
    const tcc_type scalar = {.dtype = TCC_F32};
    tcc_node *all = NULL;
    if (!c->divisors.count) return TCC_OK;
    tcc_ir_set_loc(c->g, TCC_NOWHERE);
    for (int i = 0; i < c->divisors.count; i++) {
        tcc_node *x = tcc_ir_reshape(c->g, c->divisors.data[i], 0, NULL);
        tcc_node *counts = tcc_ir_binary_c(c->g, TCC_OP_NE, x, 0);
        all = all ? tcc_ir_binary(c->g, TCC_OP_AND, all, counts) : counts;
    }
    tcc_node *counts = tcc_ir_cast(c->g, all, TCC_F32);
    if (c->ranks > 1) return tcc_ir_output(c->g, TCC_COUNTS_STATE, counts, -1);
    tcc_node *state = tcc_ir_state(c->g, TCC_COUNTS_STATE, &scalar, 0, TCC_NOWHERE);
    if (!state) return status_of(c->g);
    return tcc_ir_output(c->g, TCC_COUNTS_STATE, counts, input_number(c->g, state));
}

/* -- What is of the micro-batch -- */

/* A buffer's next value waits for the update; what reads the buffer here reads what the last micro-batch gave. */
static tcc_status wait_for_update(tcc_graph *g, tcc_rewrite *rw, const tcc_output *o) {
    const tcc_node *old = rw->from->inputs.data[o->alias];
    tcc_node *buffer = rw->map[old->id];
    const char *name = tcc_arena_printf(&g->arena, TCC_NEXT_PREFIX "%s", old->attrs->input.name);
    if (!name) return tcc_enomem(g->diag);
    tcc_ir_set_origin(g, old);
    tcc_node *next = tcc_ir_state(g, name, &old->type, 0, old->loc);
    if (!next) return status_of(g);
    rw->map[old->id] = tcc_ir_select(g, tcc_ir_broadcast_like(g, tcc_micro_first(g), next), buffer, next);
    return rw->map[old->id] ? TCC_OK : status_of(g);
}

static tcc_status add_micro_output(tcc_graph *g, const tcc_rewrite *rw, const tcc_output *o, bool waits) {
    if (o->alias < 0 || !waits) return tcc_ir_output(g, o->name, rw->map[o->node->id], o->alias);
    const char *name = tcc_arena_printf(&g->arena, TCC_NEXT_PREFIX "%s",
                                        rw->from->inputs.data[o->alias]->attrs->input.name);
    int i = 0;
    if (!name) return tcc_enomem(g->diag);
    while (strcmp(g->inputs.data[i]->attrs->input.name, name)) i++;
    return tcc_ir_output(g, name, rw->map[o->node->id], i);
}

/* Outputs of `rw->from` but its loss, which is `loss` where that is not NULL. */
static tcc_status add_outputs(const tcc_micro_cut *c, tcc_rewrite *rw, tcc_node *loss) {
    tcc_graph *g = c->g;
    const tcc_graph *micro = rw->from;
    const bool waits = c->ranks <= 1;
    const tcc_output *own = find_output(micro, "loss");
    for (int i = 0; i < micro->outputs.count; i++)
        if (micro->outputs.data[i].alias >= 0 && waits) TCC_TRY(wait_for_update(g, rw, &micro->outputs.data[i]));
    for (int i = 0; i < micro->outputs.count; i++)
        rw->live[micro->outputs.data[i].node->id] |= !loss || &micro->outputs.data[i] != own;
    TCC_TRY(copy_needed(micro, rw->live, g, rw->map));
    TCC_TRY(tcc_ir_output(g, "loss", loss ? loss : rw->map[own->node->id], -1));
    for (int i = 0; i < micro->outputs.count; i++)
        if (&micro->outputs.data[i] != own) TCC_TRY(add_micro_output(g, rw, &micro->outputs.data[i], waits));
    return TCC_OK;
}

/* -- Refusals -- */

static tcc_status refuse(tcc_diag *diag, const tcc_micro_refusal *r, const tcc_node *loss) {
    const char *op = tcc_op_get_info(r->node->op)->text;
    tcc_error(diag, TCC_EINVAL, r->node->loc.file ? r->node->loc : loss->loc,
              "batch_accumulate: this %s, %s, %s, so the loss is no sum over micro-batches", op,
              tcc_type_text(&r->node->type), r->why);
    if (r->of) tcc_note(diag, r->of->loc, "this %s, %s", tcc_op_get_info(r->of->op)->text, tcc_type_text(&r->of->type));
    tcc_note(diag, loss->loc,
             "where you know better, say what the loss of a micro-batch weighs, tcc_loss_weight(t, ...), or set "
             "loss_is_sum");
    return TCC_EINVAL;
}

/* Where the loss was refused, it is NULL, and the user's word counts. */
static tcc_status settle_loss(const tcc_micro_cut *c, const tcc_graph *micro, const tcc_micro_spec *spec,
                              const tcc_node *loss) {
    const tcc_output *weight = find_output(micro, TCC_LOSS_WEIGHT_OUTPUT);
    if (weight && spec->loss_is_sum)
        return tcc_error(c->g->diag, TCC_EINVAL, weight->node->loc,
                         "tcc_loss_weight weighs a mean, but loss_is_sum says that the loss is a sum");
    if (loss) return TCC_OK;
    if (!c->refusal.node) return status_of(c->g);
    return weight || spec->loss_is_sum ? TCC_OK : refuse(c->g->diag, &c->refusal, find_output(c->from, "loss")->node);
}

static tcc_status add_weight(tcc_graph *g) {
    const tcc_output *weight = find_output(g, TCC_LOSS_WEIGHT_OUTPUT);
    return weight ? tcc_ir_output(g, TCC_MEAN_WEIGHT_OUTPUT, weight->node, -1) : TCC_OK;
}

/* -- Both graphs -- */

static tcc_status begin(tcc_micro_cut *c, tcc_rewrite *rw) {
    const tcc_graph *micro = rw->from;
    tcc_graph_destroy(c->g);
    if (!(c->g = rw->to = tcc_graph_create(micro->name, micro->diag))) return tcc_enomem(micro->diag);
    memset(rw->map, 0, (size_t)micro->nodes.count * sizeof *rw->map);
    for (int i = 0; i < micro->inputs.count; i++)
        if (!tcc_rewrite_copy(rw, micro->inputs.data[i])) return status_of(c->g);
    return TCC_OK;
}

static tcc_status split(tcc_micro_cut *c, tcc_rewrite *rw, const tcc_micro_spec *spec, tcc_micro_graphs *out) {
    TCC_TRY(begin(c, rw));
    if (c->samples == c->whole) return add_outputs(c, rw, NULL); /* there is one micro-batch */
    tcc_node *loss = tcc_micro_cut_loss(c, find_output(c->from, "loss")->node);
    if (c->g->diag->status) return c->g->diag->status;
    TCC_TRY(settle_loss(c, rw->from, spec, loss));
    if (!loss) {
        TCC_TRY(begin(c, rw));
        TCC_TRY(add_outputs(c, rw, NULL));
        return add_weight(c->g);
    }
    TCC_TRY(add_outputs(c, rw, loss));
    TCC_TRY(add_counts(c));
    return c->totals.count && c->ranks <= 1 ? make_totals(c, &out->totals) : TCC_OK;
}

tcc_status tcc_micro_split(const tcc_graph *whole, const tcc_graph *micro, const tcc_micro_spec *spec,
                           tcc_micro_graphs *out) {
    tcc_micro_cut c = {.from = whole, .whole = spec->whole, .samples = spec->samples, .ranks = spec->ranks};
    tcc_rewrite rw = {.from = micro,
                      .map = tcc__calloc((size_t)micro->nodes.count + 1, sizeof *rw.map),
                      .live = tcc__calloc((size_t)micro->nodes.count + 1, sizeof *rw.live)};
    *out = (tcc_micro_graphs){0};
    tcc_status status = rw.map && rw.live ? split(&c, &rw, spec, out) : tcc_enomem(micro->diag);
    tcc__free(rw.map);
    tcc__free(rw.live);
    tcc_micro_cut_clear(&c);
    if (status == TCC_OK) status = tcc_graph_copy_live(c.g, &out->step);
    tcc_graph_destroy(c.g);
    if (status == TCC_OK) return TCC_OK;
    tcc_graph_destroy(out->totals);
    *out = (tcc_micro_graphs){0};
    return status;
}
