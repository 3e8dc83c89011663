/* SPDX-License-Identifier: MIT
 * Random graphs with collectives, compiled and run on 2 and 3 ranks, each on inputs of its own, against the interpreter
 * that runs the ranks side by side. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/evaluate.h"
#include "harness/generator.h"
#include "harness/graphs.h"
#include "harness/patience.h"
#include "ir/collective.h"
#include "runtime/comm/comm.h"
#include "runtime/cpu/device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_RANKS = 3 };

typedef struct rank {
    tcc_context *cx;
    tcc_comm *comm;
    tcc_device *device;
    tcc_exec *exec;
    void **memory; /* by binding */
    tcc_collectives collectives;
    pthread_t thread;
    tcc_status status;
} rank;

static int started; /* collectives that went on while their rank computed, of rank 0 */

/* The reductions of programs and those of communicators have the same numbers. */
static tcc_status start_collective(void *user, tcc_diag *d, tcc_call call, const tcc_collective_params *p,
                                   const void *from, void *to, int64_t *request) {
    tcc_comm *comm = user;
    const tcc_dtype type = (tcc_dtype)p->type;
    const int64_t bytes = p->count * tcc_dtype_bytes(type);
    const tcc_comm_op how = (tcc_comm_op)p->reduction;
    int64_t none;
    (void)d;
    started += request && tcc_comm_rank(comm) == 0;
    if (request) *request = -1;
    else request = &none;
    tcc_status status = TCC_OK;
    if (call == TCC_CALL_ALL_REDUCE) memmove(to, from, (size_t)bytes);
    if (call == TCC_CALL_ALL_GATHER) status = tcc_comm_start_all_gather(comm, from, to, bytes, request);
    else if (call == TCC_CALL_REDUCE_SCATTER)
        status = tcc_comm_start_reduce_scatter(comm, how, type, from, to, p->count, request);
    else if (p->reduction == TCC_REDUCTION_FIRST) return tcc_comm_broadcast(comm, 0, to, bytes);
    else status = tcc_comm_start_all_reduce(comm, how, type, to, p->count, request);
    return status == TCC_OK && request == &none ? tcc_comm_wait(comm, none) : status;
}

static tcc_status wait_for_collective(void *user, tcc_diag *d, int64_t request) {
    (void)d;
    return request < 0 ? TCC_OK : tcc_comm_wait(user, request);
}

static void *run(void *user) {
    rank *r = user;
    r->status = tcc_exec_run(r->exec, &r->cx->diag);
    return NULL;
}

static void open_rank(rank *r, const compiled *c, const tcc_value *inputs) {
    const tcc_program *p = c->program;
    tcc_diag *d = &r->cx->diag;
    tcc_comm_set_timeout(r->comm, test_seconds(60));
    r->collectives = (tcc_collectives){.user = r->comm, .start = start_collective, .wait = wait_for_collective};
    assert_ok(tcc_device_cpu_create(r->cx, 1, &r->device), d);
    assert_ok(tcc_exec_create(r->cx, r->device, p, &r->exec), d);
    tcc_exec_set_collectives(r->exec, &r->collectives);
    r->memory = calloc((size_t)p->n_bindings + 1, sizeof *r->memory);
    for (int i = 0; i < p->n_bindings; i++) {
        const int64_t bytes = tcc_type_bytes(&p->bindings[i].type);
        r->memory[i] = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
        if (i < c->graph->inputs.count) value_store(&inputs[i], r->memory[i]);
        assert_ok(tcc_exec_bind(r->exec, d, i, r->memory[i], bytes), d);
    }
}

static void close_rank(rank *r, const tcc_program *p) {
    for (int i = 0; i < p->n_bindings; i++) free(r->memory[i]);
    free(r->memory);
    tcc_exec_destroy(r->exec);
    tcc_device_destroy(r->device);
    tcc_comm_destroy(r->comm);
    tcc_context_destroy(r->cx);
}

static void check(const tcc_graph *g, int ranks, compiled_options *options) {
    const int n_inputs = g->inputs.count, n_outputs = g->outputs.count;
    const uint64_t seed = options->seed;
    compiled *c = compiled_create(g, options);
    tcc_diag d = {0};
    rank all[MOST_RANKS] = {{0}};
    tcc_context *contexts[MOST_RANKS];
    tcc_comm *comms[MOST_RANKS];
    tcc_value *inputs = calloc((size_t)(ranks * n_inputs) + 1, sizeof *inputs),
              *expected = calloc((size_t)(ranks * n_outputs) + 1, sizeof *expected);
    for (int r = 0; r < ranks; r++) {
        options->seed = seed + 1000000 * (uint64_t)r;
        tcc_value *own = random_inputs(g, options);
        memcpy(inputs + r * n_inputs, own, sizeof *own * (size_t)n_inputs);
        free(own);
        assert_int_equal(tcc_context_create(&contexts[r]), TCC_OK);
    }
    assert_ok(tcc_graph_eval_ranks(g, ranks, inputs, expected, &d), &d);
    assert_int_equal(tcc_comm_create_local(contexts, ranks, comms), TCC_OK);
    for (int r = 0; r < ranks; r++) {
        all[r] = (rank){.cx = contexts[r], .comm = comms[r]};
        open_rank(&all[r], c, inputs + r * n_inputs);
    }
    for (int r = 0; r < ranks; r++) assert_int_equal(pthread_create(&all[r].thread, NULL, run, &all[r]), 0);
    for (int r = 0; r < ranks; r++) pthread_join(all[r].thread, NULL);
    for (int r = 0; r < ranks; r++) {
        assert_ok(all[r].status, &all[r].cx->diag);
        for (int i = 0; i < n_outputs; i++)
            compiled_compare(&c->graph->outputs.data[i], all[r].memory[compiled_output_binding(c->graph, i)],
                             &expected[r * n_outputs + i], options);
    }
    for (int r = 0; r < ranks; r++) close_rank(&all[r], c->program);
    compiled_destroy(c);
    free_values(inputs, ranks * n_inputs);
    free_values(expected, ranks * n_outputs);
}

static void run_seeds(bool mixed, uint64_t otherwise) {
    const char *first = getenv("TCC_TEST_SEED"), *many = getenv("TCC_TEST_COUNT");
    const uint64_t begin = first ? strtoull(first, NULL, 10) : 1, count = many ? strtoull(many, NULL, 10) : otherwise;
    int collectives = 0;
    for (uint64_t seed = begin; seed < begin + count; seed++) {
        const int ranks = 2 + (int)(seed % 2);
        tcc_diag d = {0};
        tcc_graph *g = tcc_graph_random(
            &(tcc_random_options){.nodes = 24, .max_elements = 1024, .mixed = mixed, .ranks = ranks}, seed, &d);
        if (!g) fail_msg("seed %d: %s", (int)seed, tcc_diag_text(&d));
        for (int i = 0; i < g->nodes.count; i++) collectives += tcc_op_is_collective(g->nodes.data[i]->op);
        printf("seed %d\n", (int)seed); /* of the failing graph, if one fails */
        check(g, ranks,
              &(compiled_options){.eager = seed % 3 == 0,
                                  .simplify = seed % 3 != 0,
                                  .seed = seed,
                                  .generated = true,
                                  .tolerance = mixed ? TCC_RANDOM_TOLERANCE_MIXED : TCC_RANDOM_TOLERANCE});
        tcc_graph_destroy(g);
        tcc_diag_clear(&d);
    }
    assert_true(collectives > (int)count / 2);
    assert_true(started > 0 || getenv("TCC_CHECK_ACCESS")); /* whose runs make one step after the other */
}

static void graphs(void **state) {
    (void)state;
    run_seeds(false, 16);
}

static void graphs_of_mixed_element_types(void **state) {
    (void)state;
    run_seeds(true, 8);
}

static void no_communicator(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_graph *g =
        parse_graph("graph @g {\n  %0 = input {name=\"x\"} : f32[4]\n  %1 = all_reduce(%0) {reduction=\"sum\", "
                    "ranks=2} : f32[4]\n  output \"o\" %1\n}\n",
                    &d);
    compiled *c = compiled_create(g, &(compiled_options){0});
    tcc_exec_set_collectives(c->exec, NULL);
    assert_int_equal(tcc_exec_run(c->exec, &c->cx.diag), TCC_EINVAL);
    assert_non_null(strstr(tcc_diag_text(&c->cx.diag), "'comm.all_reduce': the program was made for several ranks, and "
                                                       "here is no communicator"));
    compiled_destroy(c);
    tcc_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(graphs), cmocka_unit_test(graphs_of_mixed_element_types),
                                       cmocka_unit_test(no_communicator)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
