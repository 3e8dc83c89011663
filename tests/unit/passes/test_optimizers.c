/* SPDX-License-Identifier: MIT
 * The table of optimizers (ir/support/optimizer.def) against the steps that train-step builds of each: what a step
 * reads of the hyper-parameters, which states it has, and what these are called, as checkpoints have them. */
#include "harness/check.h"
#include "harness/graphs.h"
#include "harness/passes.h"

#include "ir/support/train_step.h"
#include "traincc/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    tcc_optimizer_kind kind;
    unsigned reads;
} optimizers[] = {
#define TCC_OPTIMIZER(id, name, lr, beta1, beta2, eps, reads, first, second, step) {TCC_##id, reads},
#include "ir/support/optimizer.def"
};
enum { COUNT = sizeof optimizers / sizeof optimizers[0] };

static const char text[] = "graph @sum {\n"
                           "  %0 = input {role=param, name=\"w\"} : f32[4,3]\n"
                           "  %1 = input {role=param, name=\"b\"} : f32[3]\n"
                           "  %2 = mul(%0, %0) : f32[4,3]\n"
                           "  %3 = mul(%1, %1) : f32[3]\n"
                           "  %4 = reduce_sum(%2) {axes=[0,1]} : f32[]\n"
                           "  %5 = reduce_sum(%3) {axes=[0]} : f32[]\n"
                           "  %6 = add(%4, %5) : f32[]\n"
                           "  output \"loss\" %6\n}\n";

static tcc_graph *step_of(tcc_optimizer_kind kind, bool momentum) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    const tcc_train_spec spec = {.optimizer = kind, .momentum = momentum, .n_groups = 1};
    tcc_graph *step = run_passes(g, "simplify,autodiff,train-step", &(tcc_pass_options){.train = true, .spec = spec});
    tcc_graph_destroy(g);
    return step;
}

static const tcc_node *input_of(const tcc_graph *g, const char *name, int *index) {
    for (int i = 0; i < g->inputs.count; i++)
        if (!strcmp(g->inputs.data[i]->attrs->input.name, name)) return *index = i, g->inputs.data[i];
    return NULL;
}

static const tcc_node *next_of(const tcc_graph *g, int input) {
    for (int i = 0; i < g->outputs.count; i++)
        if (g->outputs.data[i].alias == input) return g->outputs.data[i].node;
    return NULL;
}

/* Whether n's value follows from that of x; or, where x is the vector of hyper-parameters, of its element `element`. */
static bool reads(const tcc_graph *g, const tcc_node *n, const tcc_node *x, int64_t element) {
    bool *from = calloc((size_t)g->nodes.count, sizeof *from);
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *at = g->nodes.data[i];
        from[i] = at == x && element < 0;
        for (int k = 0; k < at->n_operands; k++)
            from[i] |= element < 0 || at->operands[k] != x
                           ? from[at->operands[k]->id]
                           : at->attrs->slice.start.v[0] <= element && element < at->attrs->slice.limit.v[0];
    }
    const bool result = n && from[n->id];
    free(from);
    return result;
}

static void steps_read_what_the_table_says(void **state) {
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        int at, count_at;
        tcc_graph *g = step_of(optimizers[i].kind, optimizers[i].kind == TCC_SGD);
        const tcc_node *hyper = input_of(g, "hyper", &at), *count = input_of(g, TCC_STEP_STATE, &count_at);
        assert_non_null(hyper);
        bool element[TCC_HYPER_COUNT] = {0};
        for (int k = 0; k < TCC_HYPER_COUNT; k++)
            for (int o = 0; o < g->outputs.count; o++) element[k] |= reads(g, g->outputs.data[o].node, hyper, k);
        input_of(g, "w", &at);
        const struct {
            const char *what;
            unsigned flag;
            bool is_read;
        } all[] = {{"momentum", TCC_READS_MOMENTUM, element[TCC_HYPER_MOMENTUM]},
                   {"dampening", TCC_READS_MOMENTUM, element[TCC_HYPER_DAMPENING_SCALE]},
                   {"beta1", TCC_READS_BETAS, element[TCC_HYPER_BETA1_COMPLEMENT]},
                   {"beta2", TCC_READS_BETAS, element[TCC_HYPER_BETA2_COMPLEMENT]},
                   {"eps", TCC_READS_EPS, element[TCC_HYPER_EPS]},
                   {"the count of updates", TCC_READS_COUNT, count && reads(g, next_of(g, at), count, -1)}};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            if (all[k].is_read != ((optimizers[i].reads & all[k].flag) != 0))
                fail_msg("optimizer %d reads %s%s", i, all[k].what, all[k].is_read ? "" : " not");
        if (count && !(optimizers[i].reads & TCC_READS_COUNT)) fail_msg("optimizer %d counts for nobody", i);
        tcc_graph_destroy(g);
    }
}

/* Names are what model.h promises: checkpoints of earlier versions have them. */
static void states_have_the_names_of_checkpoints(void **state) {
    (void)state;
    static const struct {
        tcc_optimizer_kind kind;
        const char *states[4]; /* all of them but the count of updates, with their shapes */
    } promised[] = {{TCC_SGD, {"w.momentum f32[4,3]", "b.momentum f32[3]"}},
                    {TCC_ADAM, {"w.m f32[4,3]", "w.v f32[4,3]", "b.m f32[3]", "b.v f32[3]"}},
                    {TCC_ADAMW, {"w.m f32[4,3]", "w.v f32[4,3]", "b.m f32[3]", "b.v f32[3]"}},
                    {TCC_LION, {"w.m f32[4,3]", "b.m f32[3]"}},
                    {TCC_ADAFACTOR, {"w.row_var f32[4,1]", "w.col_var f32[1,3]", "b.variance f32[3]"}},
                    {TCC_ADAGRAD, {"w.sum f32[4,3]", "b.sum f32[3]"}}};
    assert_int_equal(COUNT, sizeof promised / sizeof promised[0]);
    for (int i = 0; i < COUNT; i++) {
        tcc_graph *g = step_of(promised[i].kind, promised[i].kind == TCC_SGD);
        int found = 0;
        for (int k = 0; k < g->inputs.count; k++) {
            const tcc_node *n = g->inputs.data[k];
            char has[128];
            int parameter;
            if (n->attrs->input.role != TCC_ROLE_STATE || !strcmp(n->attrs->input.name, TCC_STEP_STATE)) continue;
            snprintf(has, sizeof has, "%s %s", n->attrs->input.name, tcc_type_text(&n->type));
            if (found == 4 || !promised[i].states[found] || strcmp(has, promised[i].states[found]))
                fail_msg("optimizer %d has the state %s", i, has);
            found++;
            /* It is kept from step to step, and decides the update. */
            const char name[] = {has[0], 0};
            input_of(g, name, &parameter);
            if (!reads(g, next_of(g, k), n, -1) || !reads(g, next_of(g, parameter), n, -1))
                fail_msg("optimizer %d does not need %s", i, has);
        }
        if (found < 4 && promised[i].states[found]) fail_msg("optimizer %d lacks %s", i, promised[i].states[found]);
        tcc_graph_destroy(g);
    }
    tcc_graph *g = step_of(TCC_SGD, false);
    for (int k = 0; k < g->inputs.count; k++)
        assert_int_not_equal(g->inputs.data[k]->attrs->input.role, TCC_ROLE_STATE);
    tcc_graph_destroy(g);
}

/* Those of PyTorch, but for SGD's rate, which there is none of in papers; Lion's are of Chen et al. 2023. */
static void defaults_are_those_of_papers(void **state) {
    (void)state;
    static const struct {
        tcc_optimizer_kind kind;
        double lr, beta1, beta2, eps; /* 0: it has none */
    } all[] = {{TCC_SGD, 0.1, 0, 0, 0},        {TCC_ADAM, 1e-3, 0.9, 0.999, 1e-8}, {TCC_ADAMW, 1e-3, 0.9, 0.999, 1e-8},
               {TCC_LION, 1e-4, 0.9, 0.99, 0}, {TCC_ADAFACTOR, 1e-2, 0, 0, 1e-3},  {TCC_ADAGRAD, 1e-2, 0, 0, 1e-10}};
    for (int i = 0; i < COUNT; i++) {
        tcc_optimizer_options o;
        tcc_optimizer_init(&o, all[i].kind);
        assert_true(o.lr == all[i].lr);
        if (all[i].beta1 > 0) assert_true(o.beta1 == all[i].beta1 && o.beta2 == all[i].beta2);
        if (all[i].eps > 0) assert_true(o.eps == all[i].eps);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_read_what_the_table_says),
                                       cmocka_unit_test(states_have_the_names_of_checkpoints),
                                       cmocka_unit_test(defaults_are_those_of_papers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
