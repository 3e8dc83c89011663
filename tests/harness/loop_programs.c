/* SPDX-License-Identifier: MIT */
#include "harness/loop_programs.h"
#include "harness/loop_kinds.h"

#include "frontend/compile/compile.h"
#include "ir/support/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static loop_program make(uint64_t seed, int most_turns) {
    const uint64_t n = (uint64_t)(n_loop_kinds + n_loop_kinds_states), kind = seed % n;
    loop_program p = {.turns = 1, .random = seed * 0x9E3779B97F4A7C15u + 1};
    p.kind = kind < (uint64_t)n_loop_kinds ? &loop_kinds[kind] : &loop_kinds_states[kind - (uint64_t)n_loop_kinds];
    for (int i = 0; i < 5; i++) loop_below(&p, 2);
    for (int i = 0, digits = 1 + (int)loop_below(&p, 3); i < digits; i++)
        p.turns = 10 * p.turns + (int)loop_below(&p, 10);
    if (p.turns > most_turns) p.turns = 10 + (int)loop_below(&p, most_turns - 9);
    if (p.kind->rank == 3) {
        p.dims[0] = p.turns, p.dims[1] = 1 + loop_below(&p, 8), p.dims[2] = (int64_t)4 << loop_below(&p, 4);
        return p;
    }
    p.dims[0] = (int64_t)1 << loop_below(&p, 7);
    p.dims[1] = ((int64_t)32 << loop_below(&p, 8)) + loop_below(&p, 2);
    return p;
}

static void build(tcc_trace *t, void *user) {
    loop_program p = *(const loop_program *)user;
    tcc_tensor y = p.kind->build(&p, tcc_input(t, "x"));
    tcc_loss(t, tcc_mean(tcc_square(y), TCC_ALL));
}

static void sum_up(const tcc_graph *g, loop_work *out) {
    out->nodes = g->nodes.count;
    for (int i = 0; i < g->groups.count; i++) {
        const tcc_implementation *how = g->groups.data[i].implementation;
        for (int k = 0; k < how->n_launches; k++) {
            out->flop += (double)how->launches[k].flop;
            out->bytes += (double)how->launches[k].bytes;
            out->ns += (double)how->launches[k].ns;
        }
    }
}

/* The passes over the model's step, and its kernels, if wanted. */
static tcc_status make_step(tcc_model *m, const tcc_array *x, bool kernels, loop_work *out) {
    tcc_compiled *c = NULL;
    const tcc_graph *g;
    const clock_t begin = clock();
    tcc_status status = tcc__compiled_create(m, true, x, 1, &c);
    if (status == TCC_OK && !(c->record = tcc__calloc(1, sizeof *c->record))) status = TCC_ENOMEM;
    if (status == TCC_OK) status = tcc__traced_graph(m, c, x, &c->record->graph);
    if (status == TCC_OK) status = tcc__model_selector(m);
    if (status == TCC_OK) status = kernels ? tcc__model_build(m, c) : TCC_OK;
    if (status == TCC_OK) status = tcc__record_graph(m, c, &g);
    if (status == TCC_OK) sum_up(g, out);
    tcc__compiled_destroy(m, c);
    out->cpu_seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    return status;
}

tcc_status loop_program_make(tcc_context *cx, uint64_t seed, int most_turns, tcc_mode mode, bool kernels,
                             const char **name, loop_work *out) {
    loop_program p = make(seed, most_turns);
    tcc_array x = {.name = "x", .dtype = TCC_F32, .rank = p.kind->rank};
    const tcc_model_options options = {
        .size = sizeof options, .compile_only = true, .keep_input_gradients = true, .mode = mode};
    tcc_model *m = NULL;
    int64_t numel = 1;
    *name = p.kind->name;
    *out = (loop_work){0};
    for (int i = 0; i < p.kind->rank; i++) x.dims[i] = p.dims[i], numel *= p.dims[i];
    float *zeros = calloc((size_t)numel, sizeof *zeros);
    x.data = zeros;
    tcc_status status = zeros ? tcc_model_create(cx, build, &p, &options, &m) : TCC_ENOMEM;
    if (status == TCC_OK) status = make_step(m, &x, kernels, out);
    tcc_model_destroy(m);
    free(zeros);
    return status;
}

const char *loop_work_judge(const loop_work *eager, const loop_work *fused) {
    static const double bytes_a_flop = 0.4; /* traffic that takes as long: passes/fuse/cost.c */
    static char text[160];
    const double more = fused->flop - 1.5 * eager->flop, saved = eager->bytes - fused->bytes;
    if (more > 0 && bytes_a_flop * more > saved)
        snprintf(text, sizeof text, "%.3g operations instead of %.3g, to save %.3g bytes", fused->flop, eager->flop,
                 saved);
    else if (fused->ns > eager->ns)
        snprintf(text, sizeof text, "predicted %.0f us, eager's %.0f", fused->ns / 1e3, eager->ns / 1e3);
    else return NULL;
    return text;
}
