/* SPDX-License-Identifier: MIT
 * How many reductions of a group depend on each other is said twice: fuse counts nodes to bound a kernel's sweeps, and
 * the reduce schedule counts expressions to make them. Both agree on every group of models and of random graphs, but
 * that M2 may be a sum behind the mean's, a level that fuse does not count since it need not be there. */
#include "codegen/emit/emitter.h"
#include "codegen/schedule/reduce.h"
#include "codegen/select.h"
#include "harness/check.h"
#include "harness/passes.h"
#include "harness/generator.h"
#include "passes/fuse/fuse.h"
#include "passes/select.h"

#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 250 };

static int planned_levels; /* the most of a plan since it was cleared */

tcc_status __real_tcc_reduce_plan(tcc_lowering *l, tcc_body *b, uint64_t reduced_bits, tcc_reduce **out);
tcc_status __wrap_tcc_reduce_plan(tcc_lowering *l, tcc_body *b, uint64_t reduced_bits, tcc_reduce **out);

tcc_status __wrap_tcc_reduce_plan(tcc_lowering *l, tcc_body *b, uint64_t reduced_bits, tcc_reduce **out) {
    const tcc_status status = __real_tcc_reduce_plan(l, b, reduced_bits, out);
    for (int i = 0; i < b->exprs.count && status == TCC_OK; i++)
        if (b->exprs.data[i]->kind == TCC_EXPR_REDUCE && (*out)->level[i] > planned_levels)
            planned_levels = (*out)->level[i];
    return status;
}

static int fused_levels(const tcc_group *group, tcc_draft_scratch *scratch) {
    const char *reason;
    bool *stored = calloc((size_t)group->n_nodes, sizeof *stored);
    for (int i = 0; i < group->n_nodes; i++) stored[i] = tcc_group_stores(group, group->nodes[i]);
    tcc_draft d = {.nodes = group->nodes, .stored = stored, .n_nodes = group->n_nodes};
    assert_true(tcc_draft_check(&d, scratch, &reason));
    free(stored);
    return scratch->levels;
}

static int count_m2(const tcc_group *group) {
    int count = 0;
    for (int i = 0; i < group->n_nodes; i++) count += group->nodes[i]->op == TCC_OP_REDUCE_M2;
    return count;
}

typedef struct tally {
    int groups[TCC_FUSE_MAX_LEVELS + 1]; /* by levels */
} tally;

/* `g` is fused. A group equal to an earlier one is not planned again. */
static void check_groups(const char *name, const tcc_graph *g, const tcc_llvm_target *target, tally *t) {
    tcc_context cx = {0};
    tcc_selector *selector;
    tcc_draft_scratch scratch;
    assert_int_equal(tcc_context_init(&cx), TCC_OK);
    assert_ok(tcc_selector_create(&cx, &(tcc_codegen_options){.target = target}, false, &selector), &cx.diag);
    const tcc_pass_target *asked = tcc_selector_target(selector);
    assert_true(tcc_draft_scratch_create(g, &(tcc_pass_options){.target = asked}, &scratch));
    for (int i = 0; i < g->groups.count; i++) {
        const tcc_group *group = &g->groups.data[i];
        tcc_arena arena = {0};
        tcc_candidates candidates = {0};
        if (group->kind != TCC_GROUP_REDUCE) continue;
        planned_levels = 0;
        assert_ok(asked->candidates(asked->user, g, group, &arena, &candidates), &cx.diag);
        const int fused = planned_levels ? fused_levels(group, &scratch) : 0;
        const int more = planned_levels ? count_m2(group) : 0;
        if (planned_levels < fused || planned_levels > fused + more)
            fail_msg("%s: %d sweeps are planned where fuse counted %d: %s", name, planned_levels, fused,
                     tcc_node_text(group->hero));
        t->groups[fused]++;
        tcc_vec_free(&candidates);
        tcc_arena_free(&arena);
    }
    tcc_draft_scratch_free(&scratch);
    tcc_selector_destroy(selector);
    tcc_context_clear(&cx);
}

static void check_on_targets(const char *name, const tcc_graph *g, const char *passes, tally *t) {
    for (int gpu = 0; gpu < 2; gpu++) {
        tcc_llvm_target target;
        assert_ok(gpu ? tcc_llvm_target_cuda("sm_90", NULL, g->diag, &target)
                      : tcc_llvm_target_host("x86-64-v3", g->diag, &target),
                  g->diag);
        tcc_graph *fused = run_passes(
            g, passes, &(tcc_pass_options){.spec = {.optimizer = TCC_ADAMW, .clip_norm = true, .n_groups = 1}});
        check_groups(name, fused, &target, t);
        tcc_graph_destroy(fused);
        tcc_llvm_target_clear(&target);
    }
}

static void print_tally(const tally *t) {
    for (int i = 1; i <= TCC_FUSE_MAX_LEVELS; i++) print_message("%d groups of %d levels\n", t->groups[i], i);
}

static void models(void **state) {
    (void)state;
    static const char *const names[] = {"mlp", "cnn", "gpt", "gpt-dropout", "resnet"};
    tally t = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tcc_diag diag = {0};
        tcc_graph *g = model_graph(names[i], 4, &diag);
        check_on_targets(names[i], g, "simplify,autodiff,train-step,decompose,simplify,fuse", &t);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
    print_tally(&t);
    assert_true(t.groups[1] > 20 && t.groups[2] > 5);
}

static void random_graphs(void **state) {
    (void)state;
    tally t = {0};
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        char name[32];
        tcc_diag diag = {0};
        snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
        tcc_graph *g = tcc_graph_random(&(tcc_random_options){.differentiable = seed % 2,
                                                              .mixed = seed % 3 == 2,
                                                              .max_elements = 2000,
                                                              .nodes = 15 + (int)(seed % 40)},
                                        seed, &diag);
        check_on_targets(name, g, seed % 2 ? "autodiff,decompose,simplify,fuse" : "decompose,simplify,fuse", &t);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
    print_tally(&t);
    assert_true(t.groups[1] > 100 && t.groups[2] > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models), cmocka_unit_test(random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
