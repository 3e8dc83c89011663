/* SPDX-License-Identifier: MIT
 * Sums of channels beside rows that are groups of channels, as gradients of a group norm's weights: the rows' kernel
 * makes them as sums of parts of its rows. Against the interpreter, and how often memory is read. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"
#include "harness/passes.h"

#include "ir/support/strbuf.h"
#include "passes/group.h"

#include <string.h>

typedef struct shape {
    int n, c, groups, h, w;
    const char *type;
    bool staged; /* parts are long enough */
    bool parts;  /* and rows are short enough and many */
} shape;

static const shape shapes[] = {{16, 6, 2, 5, 7, "f32", true, true},    {17, 10, 2, 8, 8, "f32", true, true},
                               {16, 14, 2, 9, 11, "f32", true, true},  {33, 12, 1, 7, 7, "f32", true, true},
                               {3, 6, 6, 5, 7, "f32", true, false},    {4, 6, 2, 1, 1, "f32", false, false},
                               {4, 6, 2, 1, 31, "f32", false, false},  {16, 6, 2, 3, 11, "f32", true, true},
                               {16, 8, 2, 16, 16, "bf16", true, true}, {17, 6, 2, 7, 9, "f16", true, true},
                               {31, 4, 1, 9, 9, "f32", true, false},   {32, 2, 1, 120, 120, "f32", true, false},
                               {8, 8, 4, 56, 56, "f32", true, true},   {11, 30, 3, 13, 13, "f32", true, true},
                               {130, 4, 2, 4, 8, "f32", true, true},   {16, 4, 2, 32, 64, "f32", true, true},
                               {8, 12, 4, 41, 20, "f32", true, true},  {16, 8, 2, 6, 6, "f64", true, true},
                               {32, 2, 1, 50, 139, "f32", true, true}, {700, 2, 1, 2, 16, "f32", true, true},
                               {8, 20, 4, 3, 97, "bf16", true, true}};

/* What is made of `text`, in which T, C and S stand for the types of images, channels and a sum. */
static tcc_graph *graph_of(const shape *s, const char *text, tcc_diag *diag) {
    tcc_strbuf all = {0};
    for (const char *p = text; *p; p++)
        if (*p == 'T') tcc_strbuf_printf(&all, "%s[%d,%d,%d,%d]", s->type, s->n, s->c, s->h, s->w);
        else if (*p == 'C') tcc_strbuf_printf(&all, "%s[%d]", s->type, s->c);
        else if (*p == 'S') tcc_strbuf_printf(&all, "%s[]", s->type);
        else if (*p == 'G') tcc_strbuf_printf(&all, "%d", s->groups);
        else tcc_strbuf_printf(&all, "%c", *p);
    tcc_graph *g = parse_graph(all.text, diag);
    tcc_strbuf_free(&all);
    return g;
}

/* A group norm and the gradients of its input, weight and bias. */
static const char text_of_norm[] =
    "graph @norm {\n  %0 = input {name=\"x\", role=param} : T\n"
    "  %1 = input {name=\"w\", role=param} : C\n  %2 = input {name=\"b\", role=param} : C\n"
    "  %3 = input {name=\"dy\"} : T\n"
    "  %4 = group_norm(%0, %1, %2) {axis=1, groups=G, eps=0x1p-10} : T\n"
    "  %5 = mul(%4, %3) : T\n  %6 = reduce_sum(%5) {axes=[0, 1, 2, 3]} : S\n"
    "  output \"loss\" %6\n}\n";

static tcc_graph *gradients_of(const shape *s, tcc_diag *diag) {
    tcc_graph *g = graph_of(s, text_of_norm, diag);
    tcc_graph *both = run_passes(g, "simplify,autodiff,simplify,decompose,simplify", &(tcc_pass_options){0});
    tcc_graph_destroy(g);
    return both;
}

/* How many sums of parts are in groups with the rows. */
static int parts_of(const tcc_graph *g) {
    int parts = 0;
    for (int k = 0; k < g->groups.count; k++) {
        const tcc_group *group = &g->groups.data[k];
        for (int i = 0; group->kind == TCC_GROUP_REDUCE && i < group->n_nodes; i++)
            parts += tcc_sums_parts(group->hero, group->nodes[i]);
    }
    return parts;
}

static void check_parts(const tcc_graph *g, int parts, const compiled_options *options) {
    tcc_graph *staged = run_passes(g, "stages", &(tcc_pass_options){0});
    assert_same_meaning(g, staged, options->tolerance);
    gpu_program *p = gpu_program_create(staged, options, "sm_90");
    if (parts_of(p->graph) != parts) fail_msg("%d sums of parts in groups, not %d", parts_of(p->graph), parts);
    gpu_program_destroy(p);
    check_gpu(staged, options);
    tcc_graph_destroy(staged);
}

static void weights_of_group_norms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tcc_diag diag = {0};
        tcc_graph *g = gradients_of(&shapes[i], &diag), *staged = run_passes(g, "stages", &(tcc_pass_options){0});
        const bool narrow = strchr(shapes[i].type, '1') != NULL;
        const compiled_options options = {.seed = i, .tolerance = narrow ? 2e-2 : 2e-4};
        if (tcc_graph_equal(g, staged) == shapes[i].staged) fail_msg("shape %zu: staged or not", i);
        tcc_graph_destroy(staged);
        check_parts(g, shapes[i].parts ? 2 : 0, &options);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

/* Sums of channels beside those of groups of them, by hand: in one sweep; beside a mean and a variance, which a GPU may
 * make in one sweep of segments, and which nothing else follows. */
static const char *const texts[] = {
    "graph @sums {\n  %0 = input {name=\"x\"} : f32[8,4,3,11,13]\n"
    "  %1 = reduce_max(%0) {axes=[2, 3, 4]} : f32[8,4]\n  %2 = reduce_sum(%0) {axes=[3, 4]} : f32[8,4,3]\n"
    "  output \"rows\" %1\n  output \"parts\" %2\n}\n",
    "graph @moments {\n  %0 = input {name=\"x\"} : f32[8,4,5,40]\n"
    "  %1 = reduce_mean(%0) {axes=[2, 3]} : f32[8,4]\n  %2 = reduce_m2(%0) {axes=[2, 3]} : f32[8,4]\n"
    "  %3 = reduce_sum(%0) {axes=[3]} : f32[8,4,5]\n"
    "  output \"mean\" %1\n  output \"m2\" %2\n  output \"parts\" %3\n}\n",
    "graph @segments {\n  %0 = input {name=\"x\"} : f64[8,4,5,40]\n"
    "  %1 = reduce_mean(%0) {axes=[2, 3]} : f64[8,4]\n  %2 = reduce_m2(%0) {axes=[2, 3]} : f64[8,4]\n"
    "  %3 = reduce_sum(%0) {axes=[3]} : f64[8,4,5]\n"
    "  output \"mean\" %1\n  output \"m2\" %2\n  output \"parts\" %3\n}\n",
    "graph @first {\n  %0 = input {name=\"x\"} : f32[64,3,7,50]\n  %1 = exp(%0) : f32[64,3,7,50]\n"
    "  %2 = reduce_sum(%1) {axes=[3]} : f32[64,3,7]\n  %3 = reduce_max(%1) {axes=[1, 2, 3]} : f32[64]\n"
    "  %4 = broadcast(%3) {dims=[0]} : f32[64,3,7,50]\n  %5 = sub(%1, %4) : f32[64,3,7,50]\n"
    "  output \"parts\" %2\n  output \"y\" %5\n}\n",
    "graph @places {\n  %0 = input {name=\"x\"} : f32[8,12,6,8]\n"
    "  %1 = reshape(%0) : f32[8,4,3,6,8]\n  %2 = reduce_max(%1) {axes=[2, 3, 4]} : f32[8,4]\n"
    "  %3 = iota {axis=3} : f32[8,12,6,8]\n  %4 = mul(%0, %3) : f32[8,12,6,8]\n"
    "  %5 = reduce_sum(%4) {axes=[0, 2, 3]} : f32[12]\n"
    "  output \"rows\" %2\n  output \"channels\" %5\n}\n"};

static void sums_by_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tcc_diag diag = {0};
        const compiled_options options = {.seed = i, .tolerance = 2e-4};
        tcc_graph *g = parse_graph(texts[i], &diag);
        check_parts(g, 1, &options);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_of_group_norms), cmocka_unit_test(sums_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
