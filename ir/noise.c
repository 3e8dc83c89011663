/* SPDX-License-Identifier: MIT
 * The walk of the interpreter with noise: each node's exact value and its draws, side by side. */
#include "ir/noise.h"
#include "ir/eval_rules.h"
#include "ir/noise_rules.h"
#include "ir/support/alloc.h"

#include <math.h>
#include <string.h>

/* A node's values. */
typedef struct cell {
    tcc_drawn v;
    double *noise; /* of an output, once no node uses its draws */
    int uses;      /* by nodes, still to come */
    int outputs;   /* that it is, still to be taken */
    bool borrowed; /* the values are the caller's */
} cell;

typedef struct walk {
    const tcc_graph *g;
    const tcc_noise *noise;
    uint64_t seed;
    tcc_diag *diag;
    cell *cells;   /* by node id */
    bool measures; /* outputs are wanted with their noise, not with their draws */
} walk;

static void free_draws(const tcc_noise *noise, tcc_drawn *v) {
    for (int d = 0; v->draws && d < noise->draws; d++) tcc_value_free(&v->draws[d]);
    tcc__free(v->draws);
    v->draws = NULL;
}

void tcc_drawn_free(const tcc_noise *noise, tcc_drawn *v) {
    tcc_value_free(&v->exact);
    free_draws(noise, v);
}

static size_t bytes_of(const tcc_value *v) { return (size_t)tcc_type_numel(&v->type) * sizeof *v->f; }

static void cell_clear(const tcc_noise *noise, cell *c) {
    tcc_value_pool_give(c->v.exact.pool, c->noise, bytes_of(&c->v.exact));
    if (!c->borrowed) tcc_drawn_free(noise, &c->v);
    c->v = (tcc_drawn){0}, c->noise = NULL;
}

static const tcc_value *draw_of(const tcc_drawn *v, int draw) { return v->draws ? &v->draws[draw] : &v->exact; }

static tcc_status copy_value(const tcc_noise *noise, const tcc_value *from, tcc_value *to, tcc_diag *diag) {
    TCC_TRY(tcc_value_create_in(noise->pool, &from->type, to, diag));
    memcpy(to->f, from->f, bytes_of(from));
    return TCC_OK;
}

/* -- One node: tasks that may run at the same time -- */

typedef struct job {
    const walk *w;
    const tcc_node *n;
    tcc_drawn *out;
    bool inexact_operands, sums;
    tcc_value terms;
    const tcc_value **operands; /* the exact ones, then those of each draw */
    tcc_status *status;         /* by task */
    bool *changed;              /* by draw */
} job;

static const tcc_value *const *operands_of(const job *j, int draw) {
    return j->operands + (size_t)(draw + 1) * (size_t)j->n->n_operands;
}

/* Task 0 is the exact run, the last one the magnitudes of a sum; between them are the draws, where they differ. */
static void evaluate(void *arg, int index) {
    job *j = arg;
    const tcc_noise *noise = j->w->noise;
    const int draws = j->inexact_operands ? noise->draws : 0;
    if (index > draws) {
        j->status[index] = tcc__noise_magnitudes(noise, j->n, operands_of(j, -1), &j->terms, NULL);
        return;
    }
    tcc_value *out = index ? &j->out->draws[index - 1] : &j->out->exact;
    j->status[index] = tcc_node_eval_in(noise->pool, j->n, operands_of(j, index - 1), out, NULL);
}

static void disturb(void *arg, int index) {
    job *j = arg;
    tcc_value *out = &j->out->draws[index];
    const tcc_noise_draw d = {.noise = j->w->noise,
                              .draw = index,
                              .seed = j->w->seed + (uint64_t)(j->n->id + 1) * 0xd1342543de82ef95u,
                              .inexact_operands = j->inexact_operands,
                              .exact = &j->out->exact,
                              .terms = &j->terms,
                              .in = operands_of(j, index),
                              .exact_in = operands_of(j, -1)};
    j->status[index] = TCC_OK;
    if (!j->inexact_operands) {
        j->status[index] = copy_value(d.noise, &j->out->exact, out, NULL);
        if (j->status[index] != TCC_OK) return;
    }
    j->status[index] = tcc__noise_disturb(j->n, &d, out, &j->changed[index], NULL);
}

static tcc_status run(const job *j, tcc_noise_task *task, int count) {
    const tcc_noise *noise = j->w->noise;
    if (noise->run) noise->run(noise->run_user, task, (void *)j, count);
    for (int i = 0; i < count && !noise->run; i++) task((void *)j, i);
    for (int i = 0; i < count; i++)
        if (j->status[i] == TCC_ENOMEM) return tcc_enomem(j->w->diag);
        else if (j->status[i] != TCC_OK)
            return tcc_error(j->w->diag, j->status[i], j->n->loc, "cannot evaluate %s", tcc_node_text(j->n));
    return TCC_OK;
}

/* Gives up draws that are all exact. */
static void drop_equal_draws(const walk *w, tcc_drawn *c) {
    for (int d = 0; d < w->noise->draws; d++)
        if (memcmp(c->draws[d].f, c->exact.f, bytes_of(&c->exact)) != 0) return;
    free_draws(w->noise, c);
}

static tcc_status eval_job(job *j) {
    const tcc_noise_origin origin = tcc__noise_origin(j->w->noise, j->n);
    const int draws = j->w->noise->draws;
    j->sums = origin == TCC_NOISE_SUM;
    const bool noisy = j->inexact_operands || origin != TCC_NOISE_NONE;
    if (noisy && !(j->out->draws = tcc__calloc((size_t)draws + 1, sizeof *j->out->draws)))
        return tcc_enomem(j->w->diag);
    TCC_TRY(run(j, evaluate, 1 + (j->inexact_operands ? draws : 0) + j->sums));
    if (!noisy) return TCC_OK;
    if (origin != TCC_NOISE_NONE) TCC_TRY(run(j, disturb, draws));
    bool changed = false;
    for (int d = 0; d < draws; d++) changed |= j->changed[d];
    if (!changed) drop_equal_draws(j->w, j->out);
    return TCC_OK;
}

static tcc_status eval_node(const walk *w, const tcc_node *n) {
    const int draws = w->noise->draws;
    job j = {.w = w, .n = n, .out = &w->cells[n->id].v};
    j.operands = tcc__calloc((size_t)(draws + 1) * (size_t)n->n_operands + 1, sizeof(tcc_value *));
    j.status = tcc__calloc((size_t)draws + 2, sizeof *j.status);
    j.changed = tcc__calloc((size_t)draws + 1, sizeof *j.changed);
    tcc_status status = j.operands && j.status && j.changed ? TCC_OK : tcc_enomem(w->diag);
    for (int k = 0; k < n->n_operands && status == TCC_OK; k++) {
        const tcc_drawn *operand = &w->cells[n->operands[k]->id].v;
        j.inexact_operands |= operand->draws != NULL;
        j.operands[k] = &operand->exact;
        for (int d = 0; d < draws; d++) j.operands[(d + 1) * n->n_operands + k] = draw_of(operand, d);
    }
    if (status == TCC_OK) status = eval_job(&j);
    tcc_value_free(&j.terms);
    tcc__free(j.operands);
    tcc__free(j.status);
    tcc__free(j.changed);
    return status;
}

/* -- A graph -- */

static tcc_status walk_graph(walk *w, const tcc_drawn *inputs, tcc_drawn *outputs, tcc_noisy *noisy);

/* A composite is its definition, so that what is inside it is disturbed, too. */
static tcc_status eval_composite(const walk *w, const tcc_node *n) {
    tcc_graph *g = tcc__eval_definition(n, w->diag);
    tcc_drawn *inputs = tcc__calloc((size_t)n->n_operands + 1, sizeof *inputs);
    tcc_status status = g && inputs ? TCC_OK : tcc_enomem(w->diag);
    for (int k = 0; k < n->n_operands && status == TCC_OK; k++) inputs[k] = w->cells[n->operands[k]->id].v;
    walk inner = {g, w->noise, w->seed + (uint64_t)(n->id + 1) * 0x9e6c63d0876a9a63u, w->diag, NULL, false};
    if (status == TCC_OK) status = walk_graph(&inner, inputs, &w->cells[n->id].v, NULL);
    tcc__free(inputs);
    tcc_graph_destroy(g);
    return status != TCC_OK && w->diag && w->diag->status != TCC_OK ? w->diag->status : status;
}

static bool is_needed(const cell *c) { return c->uses || c->outputs; }

static void count_uses(const walk *w) {
    const tcc_graph *g = w->g;
    for (int i = 0; i < g->outputs.count; i++) w->cells[g->outputs.data[i].node->id].outputs++;
    for (int i = g->nodes.count - 1; i >= 0; i--)
        for (int k = 0; is_needed(&w->cells[i]) && k < g->nodes.data[i]->n_operands; k++)
            w->cells[g->nodes.data[i]->operands[k]->id].uses++;
}

/* No node needs the value any more. Draws of an output make room for those that are to come. */
static tcc_status retire(const walk *w, cell *c) {
    if (c->borrowed) return TCC_OK;
    if (!c->outputs) cell_clear(w->noise, c);
    if (!c->outputs || !w->measures) return TCC_OK;
    c->noise = tcc_value_pool_take(c->v.exact.pool, bytes_of(&c->v.exact), true);
    if (!c->noise) return tcc_enomem(w->diag);
    tcc_drawn_measure(w->noise, &c->v, c->noise);
    free_draws(w->noise, &c->v);
    return TCC_OK;
}

static tcc_status walk_nodes(const walk *w) {
    for (int i = 0; i < w->g->nodes.count; i++) {
        const tcc_node *n = w->g->nodes.data[i];
        if (!is_needed(&w->cells[i]) || w->cells[i].borrowed) continue;
        const bool composite = tcc_op_get_info(n->op)->fusion == TCC_FUSION_COMPOSITE;
        TCC_TRY(composite ? eval_composite(w, n) : eval_node(w, n));
        if (!w->cells[i].uses) TCC_TRY(retire(w, &w->cells[i]));
        for (int k = 0; k < n->n_operands; k++) {
            cell *operand = &w->cells[n->operands[k]->id];
            if (--operand->uses == 0) TCC_TRY(retire(w, operand));
        }
    }
    return TCC_OK;
}

/* Moves an output out of the walk where that was its last. */
static tcc_status take_output(const walk *w, cell *from, tcc_drawn *to) {
    if (--from->outputs == 0 && !from->borrowed) {
        *to = from->v;
        from->v = (tcc_drawn){0};
        return TCC_OK;
    }
    TCC_TRY(copy_value(w->noise, &from->v.exact, &to->exact, w->diag));
    if (!from->v.draws) return TCC_OK;
    if (!(to->draws = tcc__calloc((size_t)w->noise->draws + 1, sizeof *to->draws))) return tcc_enomem(w->diag);
    for (int d = 0; d < w->noise->draws; d++) TCC_TRY(copy_value(w->noise, &from->v.draws[d], &to->draws[d], w->diag));
    return TCC_OK;
}

static tcc_status take_noisy(const walk *w, cell *from, tcc_noisy *to) {
    if (--from->outputs == 0 && !from->borrowed) {
        *to = (tcc_noisy){from->v.exact, from->noise};
        from->v = (tcc_drawn){0}, from->noise = NULL;
        return TCC_OK;
    }
    TCC_TRY(copy_value(w->noise, &from->v.exact, &to->value, w->diag));
    if (!(to->noise = tcc_value_pool_take(to->value.pool, bytes_of(&to->value), true))) return tcc_enomem(w->diag);
    if (from->noise) memcpy(to->noise, from->noise, bytes_of(&to->value));
    else tcc_drawn_measure(w->noise, &from->v, to->noise);
    return TCC_OK;
}

/* `inputs` stay the caller's; `outputs`, or `noisy`, which are empty, become the caller's, none after an error. */
static tcc_status walk_graph(walk *w, const tcc_drawn *inputs, tcc_drawn *outputs, tcc_noisy *noisy) {
    const tcc_graph *g = w->g;
    if (!(w->cells = tcc__calloc((size_t)g->nodes.count + 1, sizeof *w->cells))) return tcc_enomem(w->diag);
    for (int i = 0; i < g->inputs.count; i++)
        w->cells[g->inputs.data[i]->id] = (cell){.v = inputs[i], .borrowed = true};
    count_uses(w);
    tcc_status status = walk_nodes(w);
    for (int i = 0; i < g->outputs.count && status == TCC_OK; i++) {
        cell *from = &w->cells[g->outputs.data[i].node->id];
        status = outputs ? take_output(w, from, &outputs[i]) : take_noisy(w, from, &noisy[i]);
    }
    for (int i = 0; i < g->outputs.count && status != TCC_OK; i++)
        if (outputs) tcc_drawn_free(w->noise, &outputs[i]);
        else tcc_noisy_free(&noisy[i]);
    for (int i = 0; i < g->nodes.count; i++) cell_clear(w->noise, &w->cells[i]);
    tcc__free(w->cells);
    return status;
}

static tcc_status check_inputs(const tcc_graph *g, const tcc_drawn *inputs, tcc_diag *diag) {
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        if (!tcc_type_equal(&inputs[i].exact.type, &n->type))
            return tcc_error(diag, TCC_EINVAL, n->loc, "input '%s' is %s, but the value given for it is %s",
                             n->attrs->input.name, tcc_type_text(&n->type), tcc_type_text(&inputs[i].exact.type));
    }
    return TCC_OK;
}

tcc_status tcc_graph_eval_draws(const tcc_graph *g, const tcc_drawn *inputs, const tcc_noise *noise, tcc_drawn *outputs,
                                tcc_diag *diag) {
    for (int i = 0; i < g->outputs.count; i++) outputs[i] = (tcc_drawn){0};
    TCC_TRY(check_inputs(g, inputs, diag));
    return walk_graph(&(walk){g, noise, noise->seed, diag, NULL, false}, inputs, outputs, NULL);
}

/* -- What the draws say -- */

void tcc_noisy_free(tcc_noisy *v) {
    tcc_value_pool_give(v->value.pool, v->noise, bytes_of(&v->value));
    v->noise = NULL;
    tcc_value_free(&v->value);
}

static double distance(const tcc_value *exact, const tcc_value *draw, int64_t e) {
    if (!tcc_dtype_is_float(exact->type.dtype)) return exact->i[e] == draw->i[e] ? 0 : INFINITY;
    const double a = exact->f[e], b = draw->f[e];
    if (isfinite(a) && isfinite(b)) return fabs(a - b);
    return a == b || (isnan(a) && isnan(b)) ? 0 : INFINITY;
}

void tcc_drawn_measure(const tcc_noise *noise, const tcc_drawn *v, double *distances) {
    for (int d = 0; v->draws && d < noise->draws; d++)
        for (int64_t e = 0, count = tcc_type_numel(&v->exact.type); e < count; e++)
            distances[e] = fmax(distances[e], distance(&v->exact, &v->draws[d], e));
}

tcc_status tcc_graph_eval_noisy(const tcc_graph *g, const tcc_value *inputs, const tcc_noise *noise, tcc_noisy *outputs,
                                tcc_diag *diag) {
    for (int i = 0; i < g->outputs.count; i++) outputs[i] = (tcc_noisy){0};
    tcc_drawn *in = tcc__calloc((size_t)g->inputs.count + 1, sizeof *in);
    tcc_status status = in ? TCC_OK : tcc_enomem(diag);
    for (int i = 0; i < g->inputs.count && status == TCC_OK; i++) in[i].exact = inputs[i];
    if (status == TCC_OK) status = check_inputs(g, in, diag);
    if (status == TCC_OK) status = walk_graph(&(walk){g, noise, noise->seed, diag, NULL, true}, in, NULL, outputs);
    tcc__free(in);
    return status;
}
