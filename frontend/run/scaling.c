/* SPDX-License-Identifier: MIT
 * What a training step would take on more ranks, from its list of steps. A rank does one thing after the other; its
 * collectives queue for the network, and a step that touches the memory of one waits for it, as when they are run
 * (runtime/cpu/commands.c). Kernels take what was predicted when they were chosen, collectives what
 * ir/support/network.h says. With latency a and bandwidth b of that, n ranks and B bytes:
 *
 *     all-reduce             2 (n - 1) (a + B / (n b))
 *     all-gather, reduce-scatter (n - 1) (a + B / (n b))
 *     broadcast              (n - 1) (a + B / b)
 *
 * Each rank has as many samples for any n, so a step of n ranks has n times as many as that of one. */
#include "frontend/run/model.h"

#include "codegen/calls.h"
#include "ir/support/alloc.h"
#include "ir/support/reduction.h"
#include "runtime/comm/comm.h"
#include "runtime/program.h"

/* A rank's step as far as it was followed. */
typedef struct lane {
    const tcc_network *network;
    int ranks;
    double now_ns, network_ns; /* when it is free, and when the network is */
    double computed_ns, sent_bytes;
} lane;

/* Starts a collective, which ends at l->network_ns. */
static void start(lane *l, double ns, double sent_bytes) {
    l->network_ns = (l->now_ns > l->network_ns ? l->now_ns : l->network_ns) + ns;
    l->sent_bytes += sent_bytes;
}

static void wait_until(lane *l, double ns) {
    if (ns > l->now_ns) l->now_ns = ns;
}

static void start_call(lane *l, const tcc_library_call *call) {
    const tcc_collective_params *p = (const tcc_collective_params *)call->params;
    const tcc_call kind = tcc_call_find(call->name);
    const double part = (double)p->count * tcc_dtype_bytes((tcc_dtype)p->type);
    const double whole = kind == TCC_CALL_ALL_REDUCE ? part : part * (double)p->ranks;
    const double half_ns = tcc_network_half_ns(l->network, l->ranks, whole), half = whole * (l->ranks - 1) / l->ranks;
    if (kind != TCC_CALL_ALL_REDUCE) start(l, half_ns, half);
    else if (p->reduction == TCC_REDUCTION_FIRST)
        start(l, tcc_network_broadcast_ns(l->network, l->ranks, whole), whole * (l->ranks - 1));
    else start(l, 2 * half_ns, 2 * half);
}

/* `done` and `waits_for` are room for a number a step. */
static void follow_program(lane *l, const tcc_program *p, int *waits_for, double *done) {
    tcc_program_find_waits(p, waits_for);
    for (int i = 0; i < p->n_steps; i++) {
        const tcc_step *s = &p->steps[i];
        if (waits_for[i] >= 0) wait_until(l, done[waits_for[i]]);
        if (s->kind == TCC_STEP_LIBRARY && tcc_call_is_collective(tcc_call_find(s->call->name))) {
            start_call(l, s->call);
            done[i] = l->network_ns;
            continue;
        }
        l->now_ns += 1e9 * s->predicted_s;
        l->computed_ns += 1e9 * s->predicted_s;
    }
    wait_until(l, l->network_ns);
}

/* The totals that ranks add up behind a program of totals, which have nothing beside them. */
static void follow_totals(lane *l, const tcc_program *p) {
    double bytes = 0;
    for (int i = 0; i < p->n_bindings; i++)
        if (tcc_begins(p->bindings[i].name, TCC_TOTAL_PREFIX)) bytes += (double)tcc_type_bytes(&p->bindings[i].type);
    start(l, 2 * tcc_network_half_ns(l->network, l->ranks, bytes), 2 * bytes * (l->ranks - 1) / l->ranks);
    wait_until(l, l->network_ns);
}

static void follow_step(lane *l, const tcc_model *m, const tcc_compiled *c, int *waits_for, double *done) {
    const int64_t parts = c->part == TCC_STEP_MICRO ? tcc__micro_parts(m) : 1;
    const int levels = c->totals ? tcc__micro_levels(c->totals->program) : 0;
    for (int level = 0; level < levels; level++) {
        for (int64_t i = 0; i < parts; i++) follow_program(l, c->totals->program, waits_for, done);
        follow_totals(l, c->totals->program);
    }
    for (int64_t i = 0; i < parts; i++) follow_program(l, c->program, waits_for, done);
    if (c->next) follow_program(l, c->next->program, waits_for, done);
}

/* Bytes of the optimizer's states that ranks can share out, as a program has them, and whole. */
static int64_t state_bytes(const tcc_model *m, const tcc_program *update, bool whole) {
    int64_t bytes = 0;
    for (int i = 0; i < update->n_bindings; i++) {
        const tcc_binding *b = &update->bindings[i];
        const tcc_stored *of = b->role == TCC_ROLE_STATE ? tcc__shard_parameter(m, b->name) : NULL;
        if (of) bytes += tcc_type_numel(whole ? &of->type : &b->type) * tcc_dtype_bytes(b->type.dtype);
    }
    return bytes;
}

static void print_row(tcc_strbuf *b, const lane *l, double one_ns, int64_t samples, int64_t peak, int64_t states) {
    tcc_strbuf_printf(b, "%5d  %9.3f  %10.3f  %11.4g  %9.0f%%  %9.3f  %10.1f  %11.1f\n", l->ranks, 1e-6 * l->now_ns,
                      1e-6 * (l->now_ns - l->computed_ns), (double)samples * l->ranks / (1e-9 * l->now_ns),
                      100 * one_ns / l->now_ns, 1e-6 * l->sent_bytes, (double)peak / (1 << 20),
                      (double)(peak - states + states / l->ranks) / (1 << 20));
}

static int steps_of(const tcc_compiled *c) {
    int most = c->program->n_steps;
    if (c->totals && c->totals->program->n_steps > most) most = c->totals->program->n_steps;
    if (c->next && c->next->program->n_steps > most) most = c->next->program->n_steps;
    return most;
}

/* The row behind that of n ranks: of the next power of 2, or of the ranks that were asked for. */
static int next_row(int n, int asked) {
    int power = 1;
    while (power <= n) power *= 2;
    return asked > n && asked < power ? asked : power;
}

tcc_status tcc__report_ranks(tcc_model *m, const tcc_compiled *c, int64_t peak_bytes, tcc_strbuf *b) {
    if (!m->options.comm || !c->train) return TCC_OK;
    const int asked = tcc_comm_size(m->options.comm), steps = steps_of(c);
    const tcc_network *network = tcc_comm_network(m->options.comm);
    const tcc_program *update = c->next ? c->next->program : c->program;
    const int64_t states = state_bytes(m, update, true);
    peak_bytes += states - state_bytes(m, update, false);
    int *waits_for = tcc__malloc(sizeof *waits_for * (size_t)steps);
    double *done = tcc__malloc(sizeof *done * (size_t)steps), one_ns = 0;
    tcc_status status = waits_for && done ? TCC_OK : tcc_enomem(&m->cx->diag);
    if (status == TCC_OK)
        tcc_strbuf_printf(b,
                          "predicted, with %lld samples a rank, %g us a message and %g GB/s; collectives as for %d "
                          "ranks\n"
                          "ranks    step ms  waiting ms    samples/s  efficiency    sent MB  memory MiB  sharded MiB\n",
                          (long long)m->ranks_rows, 1e-3 * network->latency_ns, network->bytes_a_ns, asked);
    for (int n = 1; status == TCC_OK && n <= TCC_COMM_MOST_RANKS; n = next_row(n, asked)) {
        lane l = {.network = network, .ranks = n};
        follow_step(&l, m, c, waits_for, done);
        if (n == 1) one_ns = l.now_ns;
        print_row(b, &l, one_ns, m->ranks_rows, peak_bytes, states);
    }
    tcc__free(waits_for);
    tcc__free(done);
    return status;
}
