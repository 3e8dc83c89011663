/* SPDX-License-Identifier: MIT
 * Random users' programs: the frame, from the first input to the loss. */
#include "harness/user_maker.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* -- Shapes -- */

int64_t user_extent(user_maker *m) { return user_chance(m, 6) ? 1 : m->extents[user_below(m, m->n_extents)]; }

void user_extents(user_maker *m, int count, int64_t *out) {
    for (int i = 0; i < count; i++) out[i] = user_extent(m);
}

bool user_fits(const user_maker *m, int rank, const int64_t *dims) {
    int64_t count = 1;
    if (rank > 6) return false;
    for (int d = 0; d < rank; d++) count *= dims[d];
    return count <= m->most;
}

int64_t user_count(const user_maker *m, int v) {
    int64_t count = 1;
    for (int d = 0; d < user_rank(m, v); d++) count *= user_dim(m, v, d);
    return count;
}

bool user_same(const user_maker *m, int a, int b) {
    const user_step *x = &m->p->steps[a], *y = &m->p->steps[b];
    return x->dtype == y->dtype && x->rank == y->rank && !memcmp(x->dims, y->dims, sizeof x->dims[0] * (size_t)x->rank);
}

/* Mostly one extent for everything, so that a value of another meaning has the same size. */
static void choose_extents(user_maker *m) {
    static const int8_t plain[] = {2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 23, 32, 33};
    m->n_extents = user_chance(m, 50) ? 1 : user_chance(m, 50) ? 2 : 4;
    for (int i = 0; i < m->n_extents; i++) m->extents[i] = plain[user_below(m, sizeof plain)];
    if (m->n_extents == 1 && user_chance(m, 10)) m->extents[0] = USER_ONE_OF(m, 24, 40, 48, 64);
    m->most = user_chance(m, 80) ? 1200 : 5000;
}

/* -- Steps -- */

int user_emit(user_maker *m, const user_step *s) {
    user_program *p = m->p;
    if (p->n_steps == USER_STEPS) { /* the caller's list is full: nothing more is added, and the program is refused */
        tcc_trace_error(&m->trace, TCC_ENOMEM, TCC_NOWHERE, "more than %d steps", USER_STEPS);
        return p->n_steps - 1;
    }
    user_step *to = &p->steps[p->n_steps];
    *to = *s;
    for (int i = 0; i < s->n_args; i++) m->used[s->args[i]] = true;
    tcc_tensor y = m->values[p->n_steps] = user_step_apply(&m->trace, to, m->values);
    to->dtype = tcc_get_dtype(y);
    to->rank = tcc_rank(y);
    memset(to->dims, 0, sizeof to->dims);
    for (int d = 0; d < to->rank; d++) to->dims[d] = tcc_dim(y, d);
    if (!y.node && s->n_args) { /* refused: what follows wants some shape */
        to->rank = p->steps[s->args[0]].rank;
        memcpy(to->dims, p->steps[s->args[0]].dims, sizeof to->dims);
    }
    return p->n_steps++;
}

static int emit(user_maker *m, user_op op, int n_args, const int *args, int n_ints, const int64_t *ints, double real,
                const char *name) {
    user_step s = {.op = op, .n_args = n_args, .n_ints = n_ints, .real = real};
    memcpy(s.args, args, sizeof *args * (size_t)n_args);
    if (n_ints) memcpy(s.ints, ints, sizeof *ints * (size_t)n_ints);
    if (name) snprintf(s.name, sizeof s.name, "%s", name);
    return user_emit(m, &s);
}

int user_op1(user_maker *m, user_op op, int a) { return emit(m, op, 1, &a, 0, NULL, 0, NULL); }
int user_op2(user_maker *m, user_op op, int a, int b) { return emit(m, op, 2, (int[]){a, b}, 0, NULL, 0, NULL); }
int user_op3(user_maker *m, user_op op, int a, int b, int c) {
    return emit(m, op, 3, (int[]){a, b, c}, 0, NULL, 0, NULL);
}
int user_op_real(user_maker *m, user_op op, int a, double real) { return emit(m, op, 1, &a, 0, NULL, real, NULL); }
int user_op_ints(user_maker *m, user_op op, int a, int n, const int64_t *ints) {
    return emit(m, op, 1, &a, n, ints, 0, NULL);
}

void user_name(user_maker *m, char *out, const char *kind) { snprintf(out, USER_NAME, "%s%d", kind, m->n_names++); }

int user_layer(user_maker *m, user_op op, int a, const char *name, int n, const int64_t *ints) {
    char own[USER_NAME];
    user_name(m, own, "l");
    return emit(m, op, 1, &a, n, ints, 0, name ? name : own);
}

static int leaf(user_maker *m, user_step s, tcc_dtype dtype, int rank, const int64_t *dims) {
    s.dtype = dtype;
    s.rank = rank;
    s.n_ints = 3;
    s.ints[0] = dtype;
    if (rank) memcpy(s.dims, dims, sizeof *dims * (size_t)rank);
    return user_emit(m, &s);
}

int user_param(user_maker *m, double bound, int rank, const int64_t *dims) {
    user_step s = {.op = USER_param, .real = bound};
    user_name(m, s.name, "p");
    return leaf(m, s, TCC_F32, rank, dims);
}

int user_constant(user_maker *m, double value, tcc_dtype dtype, int rank, const int64_t *dims) {
    return leaf(m, (user_step){.op = USER_constant, .real = value}, dtype, rank, dims);
}

int user_literal_of(user_maker *m, tcc_dtype dtype, int pattern, int64_t modulus, double real, int rank,
                    const int64_t *dims) {
    user_step s = {.op = USER_literal, .real = real, .ints = {0, pattern, modulus < 1 ? 1 : modulus}};
    return leaf(m, s, dtype, rank, dims);
}

int user_random_leaf(user_maker *m, user_op op, tcc_dtype dtype, int64_t limit, double real, int rank,
                     const int64_t *dims) {
    user_step s = {.op = op, .real = real, .ints = {0, limit}};
    user_name(m, s.name, "d");
    return leaf(m, s, dtype, rank, dims);
}

int user_iota(user_maker *m, tcc_dtype dtype, int axis, int rank, const int64_t *dims) {
    return leaf(m, (user_step){.op = USER_iota, .ints = {0, axis}}, dtype, rank, dims);
}

int user_new_input(user_maker *m, tcc_dtype dtype, user_fill fill, int64_t limit, int rank, const int64_t *dims) {
    user_program *p = m->p;
    if (p->n_inputs == USER_INPUTS) {
        if (dtype == TCC_F32) return user_param(m, 1, rank, dims);
        return user_literal_of(m, dtype, 1, dtype == TCC_BOOL ? 2 : limit, 1, rank, dims);
    }
    user_input *in = &p->inputs[p->n_inputs];
    *in = (user_input){.dtype = dtype, .rank = rank, .fill = fill, .limit = limit};
    memcpy(in->dims, dims, sizeof *dims * (size_t)rank);
    user_name(m, in->name, "x");
    tcc_array *a = &m->batch[p->n_inputs++];
    *a = (tcc_array){.name = in->name, .dtype = dtype, .rank = rank};
    memcpy(a->dims, in->dims, sizeof in->dims);
    m->trace.n_batch = p->n_inputs;
    user_step s = {.op = USER_input};
    memcpy(s.name, in->name, sizeof s.name);
    return user_emit(m, &s);
}

/* -- The loss -- */

/* A scalar that depends on every element of v in its own way. */
static int weighed(user_maker *m, int v) {
    const user_step *s = &m->p->steps[v];
    int y = v;
    if (s->dtype != TCC_F32) return -1;
    if (user_chance(m, 50))
        y = user_op2(m, USER_mul, y,
                     user_literal_of(m, TCC_F32, 4, user_below(m, 99), 1, s->rank, m->p->steps[v].dims));
    else if (user_chance(m, 50)) y = user_op1(m, USER_tanh, y);
    if (!user_rank(m, y)) return y;
    return user_chance(m, 70) ? user_op_ints(m, USER_mean, y, 0, NULL)
                              : user_op_real(m, USER_scale, user_op_ints(m, USER_sum, y, 0, NULL), 0.01);
}

static int cross_entropy(user_maker *m, int v) {
    const int rank = user_rank(m, v);
    const int64_t classes = user_dim(m, v, -1);
    int64_t dims[TCC_MAX_RANK];
    memcpy(dims, m->p->steps[v].dims, sizeof dims);
    int targets = user_indices(m, classes, rank - 1, dims);
    user_step s = {.op = USER_cross_entropy, .n_args = 2, .args = {v, targets}, .n_ints = 2, .ints = {0, -100}};
    s.real = user_chance(m, 30) ? 0.1 : 0;
    if (user_chance(m, 20)) {
        s.op = USER_cross_entropy_weighted;
        s.args[s.n_args++] = user_literal_of(m, TCC_F32, 0, 3, 0.5, 1, &classes);
        s.args[2] = user_op_real(m, USER_add_scalar, s.args[2], 0.5);
    }
    return user_emit(m, &s);
}

static int main_loss(user_maker *m, int v) {
    const int kind = (int)user_below(m, 10), rank = user_rank(m, v);
    const int64_t *dims = m->p->steps[v].dims;
    if (rank >= 2 && rank <= 4 && kind < 5 && user_dim(m, v, -1) > 1) return cross_entropy(m, v);
    if (kind < 9 && rank > 0) {
        int64_t copy[TCC_MAX_RANK];
        memcpy(copy, dims, sizeof copy);
        int target = user_new_input(m, TCC_F32, USER_FILL_UNIFORM, 0, rank, copy);
        return user_op2(m,
                        USER_ONE_OF(m, USER_mse_loss, USER_mse_loss, USER_l1_loss, USER_bce_with_logits,
                                    USER_smooth_l1_loss, USER_huber_loss),
                        v, target);
    }
    return weighed(m, v);
}

static void finish(user_maker *m) {
    const int last = m->pool[m->n_pool - 1], made = m->p->n_steps;
    int loss = main_loss(m, last);
    for (int i = 0; i < m->n_pool && m->p->n_steps < USER_STEPS - 40; i++) {
        const int v = m->pool[i];
        if (v >= made || (m->used[v] && !user_chance(m, 5))) continue;
        int part = weighed(m, v);
        if (part >= 0) loss = user_op2(m, USER_add, loss, user_op_real(m, USER_scale, part, 0.25));
    }
    emit(m, USER_loss, 1, &loss, 0, NULL, 0, NULL);
    for (int i = 0; i < 2; i++) {
        char name[USER_NAME];
        int v = (int)user_below(m, made);
        user_name(m, name, "o");
        if (user_chance(m, 40)) emit(m, USER_output, 1, &v, 0, NULL, 0, name);
    }
}

static void choose_optimizer(user_maker *m) {
    tcc_optimizer_options *o = &m->p->optimizer;
    tcc_optimizer_init(o, (tcc_optimizer_kind)USER_ONE_OF(m, TCC_SGD, TCC_ADAM, TCC_ADAMW));
    o->lr = o->kind == TCC_SGD ? 0.03 : 0.003;
    if (o->kind == TCC_SGD && user_chance(m, 50)) o->momentum = 0.9, o->nesterov = user_chance(m, 50);
    if (user_chance(m, 40)) o->weight_decay = 0.1, o->decay_all = user_chance(m, 30);
    if (user_chance(m, 25)) o->clip_grad_norm = 0.5;
    m->p->keep_gradients = user_chance(m, 70);
    if (!m->options->exact)
        m->p->precision = m->p->seed % 6 == 4 ? TCC_MIXED_BF16 : m->p->seed % 6 == 5 ? TCC_MIXED_FP16 : TCC_MIXED_NONE;
}

/* One program in four is trained within a budget, too, or computes what its segments have again. */
static void choose_budget(user_program *p) {
    static const char *const budgets[] = {"min", "50%", "70%"};
    const uint64_t chance = p->seed * 0x9e3779b97f4a7c15u >> 40;
    if (chance % 4) return;
    const int kind = (int)(chance / 4 % 4);
    if (kind < 3) p->memory_budget = budgets[kind];
    else p->segment_steps = 2 + (int)(chance / 16 % 8);
}

/* -- The frame -- */

static int total(const user_layer_kind *kinds) {
    int sum = 0;
    for (; kinds->make; kinds++) sum += kinds->weight;
    return sum;
}

static void add_layer(user_maker *m) {
    const user_layer_kind *const all[] = {user_layers_net, user_layers_tensor, user_layers_more}, *kinds = all[0];
    int64_t at = user_below(m, total(all[0]) + total(all[1]) + total(all[2]));
    for (int i = 0; i < 2 && kinds == all[i] && at >= total(kinds); i++) at -= total(kinds), kinds = all[i + 1];
    for (; at >= kinds->weight; kinds++) at -= kinds->weight;
    kinds->make(m);
}

/* Some way from a parameter to the loss through a value of every kind. */
static void begin(user_maker *m) {
    int64_t dims[3];
    user_extents(m, 3, dims);
    int rank = USER_ONE_OF(m, 2, 2, 2, 3, 3);
    while (!user_fits(m, rank, dims)) dims[user_below(m, rank)] = 2;
    const user_fill fill = (user_fill)USER_ONE_OF(m, USER_FILL_UNIFORM, USER_FILL_UNIFORM, USER_FILL_UNIFORM,
                                                  USER_FILL_CONSTANT_ROWS, USER_FILL_CONSTANT_CHANNELS);
    user_push(m, user_new_input(m, TCC_F32, fill, 0, rank, dims));
    if (user_chance(m, 60)) user_push(m, user_param(m, 1, rank, dims));
}

/* A sum over millions of elements; nothing else of that size. */
static void begin_huge(user_maker *m) {
    const int64_t rows = USER_ONE_OF(m, 1, 3, 2048, 4096), drawn = USER_ONE_OF(m, 1000, 1024, 2500),
                  columns = (m->options->largest ? 5000 : drawn) * 2048 / rows;
    int x = user_op2(m, USER_add, user_param(m, 1, 2, (int64_t[]){rows, 1}), user_param(m, 1, 1, &columns));
    x = user_op1(m, (user_op)USER_ONE_OF(m, USER_relu, USER_tanh, USER_abs), x);
    user_push(m, user_op_ints(m, USER_mean, x, USER_INT_LIST(user_below(m, 2))));
    user_push(m, user_op_real(m, USER_scale, user_op_ints(m, USER_sum, x, 0, NULL), 1e-6));
}

bool user_maker_begin(user_maker *m, const user_random_options *options, uint64_t seed, user_program *out) {
    *m = (user_maker){.p = out, .options = options, .random = seed * 0xd1342543de82ef95u + 77};
    *out = (user_program){.seed = seed};
    m->store.seed = seed;
    return tcc_trace_begin(&m->trace, "random", &m->store, true, m->batch, 0, &m->diag) == TCC_OK;
}

const char *user_maker_end(user_maker *m) {
    static char text[1024];
    tcc_graph *g = NULL;
    const bool ok = tcc_trace_end(&m->trace, &g) == TCC_OK;
    snprintf(text, sizeof text, "%s", tcc_diag_text(&m->diag));
    tcc_graph_destroy(g);
    tcc_store_free(&m->store);
    tcc_diag_clear(&m->diag);
    user_program_drop_dead(m->p);
    return ok ? NULL : text;
}

const char *user_program_random(const user_random_options *options, uint64_t seed, user_program *out) {
    static user_maker maker; /* large */
    user_maker *m = &maker;
    if (!user_maker_begin(m, options, seed, out)) return "out of memory";
    choose_extents(m);
    choose_optimizer(m);
    begin(m);
    if (options->huge) begin_huge(m);
    const int least = options->least ? options->least : 2, most = options->most ? options->most : 8;
    const double share = (double)user_below(m, 1000) / 1000;
    const int layers = least + (int)((most - least + 1) * share * share); /* few more often than many */
    for (int i = 0; i < layers && out->n_steps < USER_STEPS - 150; i++) add_layer(m);
    finish(m);
    const char *refused = user_maker_end(m);
    choose_budget(out);
    return refused;
}
