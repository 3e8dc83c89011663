/* SPDX-License-Identifier: MIT
 * For tests of passes: run some by name, compare what two graphs mean, and graphs of whole models. */
#include "harness/passes.h"
#include "harness/check.h"
#include "harness/gradcheck.h"
#include "harness/graphs.h"

#include "frontend/trace.h"
#include "passes/group.h"
#include "traincc/losses.h"
#include "traincc/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

tcc_graph *run_passes(const tcc_graph *g, const char *passes, const tcc_pass_options *options) {
    static const tcc_train_spec spec = {.n_groups = 1};
    const tcc_pass_options usual = {.spec = spec};
    tcc_context context = {0};
    assert_int_equal(tcc_context_init(&context), TCC_OK);
    tcc_pass_cx cx = {.cx = &context, .diag = g->diag, .options = options ? options : &usual};
    tcc_graph *copy = NULL;
    assert_ok(tcc_group_copy_graph(g, NULL, &copy), g->diag);
    assert_ok(tcc_pipeline_run_named(&cx, &(tcc_manager_options){.verify = true, .dump_dir = getenv("TCC_TEST_DUMP")},
                                     passes, &copy, NULL),
              g->diag);
    tcc_context_clear(&context);
    return copy;
}

static int input_of(const tcc_graph *g, const char *name) {
    for (int i = 0; i < g->inputs.count; i++)
        if (!strcmp(g->inputs.data[i]->attrs->input.name, name)) return i;
    return -1;
}

static void assert_same_value(const char *name, const tcc_value *a, const tcc_value *b, double tolerance) {
    assert_true(tcc_type_equal(&a->type, &b->type));
    bool is_float = tcc_dtype_is_float(a->type.dtype);
    for (int64_t i = 0; i < tcc_type_numel(&a->type); i++) {
        double x = is_float ? a->f[i] : (double)a->i[i], y = is_float ? b->f[i] : (double)b->i[i];
        if (x == y || (isnan(x) && isnan(y))) continue;
        if (!(fabs(x - y) <= tolerance * (1 + fabs(x))))
            fail_msg("output %s, element %lld: %.17g became %.17g", name, (long long)i, x, y);
    }
}

void assert_same_meaning(const tcc_graph *a, const tcc_graph *b, double tolerance) {
    uint64_t state = 20240607;
    tcc_value *in_a = calloc((size_t)a->inputs.count + 1, sizeof *in_a),
              *in_b = calloc((size_t)b->inputs.count + 1, sizeof *in_b);
    tcc_value *out_a = calloc((size_t)a->outputs.count + 1, sizeof *out_a),
              *out_b = calloc((size_t)b->outputs.count + 1, sizeof *out_b);
    assert_true(in_a && in_b && out_a && out_b);
    assert_int_equal(a->outputs.count, b->outputs.count);
    assert_int_equal(a->inputs.count, b->inputs.count);
    for (int i = 0; i < a->inputs.count; i++) {
        const tcc_node *n = a->inputs.data[i];
        assert_ok(tcc_value_create(&n->type, &in_a[i], a->diag), a->diag);
        bool is_float = tcc_dtype_is_float(n->type.dtype);
        test_fill(&in_a[i], &state, is_float ? -2 : 0, is_float ? 2 : 10);
        int at = input_of(b, n->attrs->input.name);
        assert_true(at >= 0);
        in_b[at] = in_a[i];
    }
    assert_ok(tcc_graph_eval(a, in_a, out_a, a->diag), a->diag);
    assert_ok(tcc_graph_eval(b, in_b, out_b, b->diag), b->diag);
    for (int i = 0; i < a->outputs.count; i++) {
        assert_string_equal(a->outputs.data[i].name, b->outputs.data[i].name);
        assert_same_value(a->outputs.data[i].name, &out_a[i], &out_b[i], tolerance);
        tcc_value_free(&out_a[i]);
        tcc_value_free(&out_b[i]);
    }
    for (int i = 0; i < a->inputs.count; i++) tcc_value_free(&in_a[i]);
    free(in_a);
    free(in_b);
    free(out_a);
    free(out_b);
}

char *text_after(const char *text, const char *passes) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag), *after = run_passes(g, passes, NULL);
    assert_same_meaning(g, after, 1e-9);
    char *result = print_graph(after, false);
    tcc_graph_destroy(g);
    tcc_graph_destroy(after);
    tcc_diag_clear(&diag);
    return result;
}

tcc_graph *model_graph(const char *model, int scale, tcc_diag *diag) {
    tcc_store store = {0};
    tcc_trace t = {0};
    int64_t s = scale;
    bool is_gpt = !strncmp(model, "gpt", 3), is_mlp = !strncmp(model, "mlp", 3), is_cnn = !strncmp(model, "cnn", 3);
    double dropout = strstr(model, "-dropout") ? 0.25 : 0;
    tcc_array gpt_batch[] = {{.name = "tokens", .dtype = TCC_I32, .rank = 2, .dims = {3, 8 * s}},
                             {.name = "targets", .dtype = TCC_I32, .rank = 2, .dims = {3, 8 * s}}};
    tcc_array flat[] = {{.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {4 * s, 12 * s}},
                        {.name = "targets", .dtype = TCC_I32, .rank = 1, .dims = {4 * s}}};
    tcc_array images[] = {{.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {2 * s, 3, 8 * s, 8 * s}},
                          {.name = "targets", .dtype = TCC_I32, .rank = 1, .dims = {2 * s}}};
    tcc_array *batch = is_gpt ? gpt_batch : is_mlp ? flat : images;
    assert_ok(tcc_trace_begin(&t, model, &store, true, batch, 2, diag), diag);
    tcc_tensor x = tcc_input(&t, batch[0].name), targets = tcc_input(&t, "targets"), y;
    if (is_gpt) {
        tcc_gpt_options o = {.layers = 2,
                             .heads = 2,
                             .width = 16 * s,
                             .context = 16 * s,
                             .vocab = 10 + 55 * (s > 1),
                             .bias = true,
                             .dropout = dropout};
        y = tcc_gpt(&t, x, &o);
    } else if (is_mlp) {
        int64_t hidden[] = {16 * s, 16 * s};
        y = tcc_mlp(&t, x, &(tcc_mlp_options){.n_hidden = 2, .hidden = hidden, .outputs = 10, .dropout = dropout});
    } else if (is_cnn) {
        y = tcc_cnn(&t, x,
                    &(tcc_cnn_options){
                        .channels1 = 4 * s, .channels2 = 6 * s, .hidden = 10, .classes = 10, .dropout = dropout});
    } else {
        y = tcc_resnet(&t, x, &(tcc_resnet_options){.depth = 18, .classes = 10, .width = 4 * s, .cifar_stem = true});
    }
    tcc_node *loss = tcc_cross_entropy(y, targets).node;
    if (loss) tcc_ir_output(t.graph, "loss", loss, -1);
    tcc_graph *g = NULL;
    assert_ok(tcc_trace_end(&t, &g), diag);
    tcc_store_free(&store);
    return g;
}
