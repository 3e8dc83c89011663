/* SPDX-License-Identifier: MIT
 * Random graphs with their data. */
#include "harness/random.h"
#include "harness/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void load_inputs(random_case *c, uint64_t seed) {
    const tcc_graph *g = c->graph;
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_type *type = &g->inputs.data[i]->type;
        void *packed = malloc((size_t)tcc_type_bytes(type));
        tcc_random_input(g, i, seed, packed);
        assert_ok(tcc_value_create(type, &c->inputs[i], &c->diag), &c->diag);
        tcc_value_load(&c->inputs[i], packed);
        free(packed);
    }
}

random_case *random_case_create(const tcc_random_options *options, uint64_t seed) {
    random_case *c = calloc(1, sizeof *c);
    c->graph = tcc_graph_random(options, seed, &c->diag);
    if (!c->graph) fail_msg("seed %d: %s", (int)seed, tcc_diag_text(&c->diag));
    c->inputs = calloc((size_t)c->graph->inputs.count, sizeof *c->inputs);
    c->outputs = calloc((size_t)c->graph->outputs.count, sizeof *c->outputs);
    load_inputs(c, seed);
    assert_ok(tcc_graph_eval(c->graph, c->inputs, c->outputs, &c->diag), &c->diag);
    return c;
}

void random_case_free(tcc_value *values, int count) {
    for (int i = 0; i < count; i++) tcc_value_free(&values[i]);
    free(values);
}

void random_case_destroy(random_case *c) {
    random_case_free(c->inputs, c->graph->inputs.count);
    random_case_free(c->outputs, c->graph->outputs.count);
    tcc_graph_destroy(c->graph);
    tcc_diag_clear(&c->diag);
    free(c);
}

static const char *compare(const char *name, const tcc_value *a, const tcc_value *b, double tolerance) {
    static char text[256];
    for (int64_t k = 0; k < tcc_type_numel(&a->type); k++) {
        bool is_float = tcc_dtype_is_float(a->type.dtype);
        if (is_float ? fabs(a->f[k] - b->f[k]) <= tolerance : a->i[k] == b->i[k]) continue;
        if (is_float)
            snprintf(text, sizeof text, "output %s, element %lld: %.9g became %.9g", name, (long long)k, a->f[k],
                     b->f[k]);
        else
            snprintf(text, sizeof text, "output %s, element %lld: %lld became %lld", name, (long long)k,
                     (long long)a->i[k], (long long)b->i[k]);
        return text;
    }
    return NULL;
}

tcc_value *random_case_inputs(const random_case *c, const tcc_graph *g) {
    tcc_diag diag = {0};
    tcc_value *inputs = calloc((size_t)g->inputs.count, sizeof *inputs);
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        const int64_t numel = tcc_type_numel(&n->type);
        assert_ok(tcc_value_create(&n->type, &inputs[i], &diag), &diag);
        for (int64_t k = 0; k < numel && n->attrs->input.role == TCC_ROLE_HYPER; k++) inputs[i].f[k] = 0.125;
        for (int k = 0; k < c->graph->inputs.count; k++)
            if (!strcmp(c->graph->inputs.data[k]->attrs->input.name, n->attrs->input.name))
                memcpy(inputs[i].f, c->inputs[k].f, sizeof *inputs[i].f * (size_t)numel);
    }
    return inputs;
}

const char *random_case_compare(const random_case *c, const tcc_graph *g, double tolerance) {
    tcc_diag diag = {0};
    tcc_value *inputs = random_case_inputs(c, g);
    tcc_value *outputs = calloc((size_t)g->outputs.count, sizeof *outputs);
    assert_ok(tcc_graph_eval(g, inputs, outputs, &diag), &diag);
    const char *wrong = NULL;
    for (int k = 0; k < c->graph->outputs.count && !wrong; k++) {
        const char *name = c->graph->outputs.data[k].name;
        wrong = "an output is missing";
        for (int i = 0; i < g->outputs.count; i++)
            if (!strcmp(g->outputs.data[i].name, name)) wrong = compare(name, &c->outputs[k], &outputs[i], tolerance);
    }
    random_case_free(inputs, g->inputs.count);
    random_case_free(outputs, g->outputs.count);
    return wrong;
}

const char *random_case_write(const random_case *c, uint64_t seed) {
    static char name[512];
    const char *folder = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/random-%d.tir", folder ? folder : "/tmp", (int)seed);
    tcc_strbuf b = {0};
    tcc_graph_print(&b, c->graph, (tcc_print_options){0});
    FILE *file = fopen(name, "w");
    if (file) {
        fwrite(b.text, 1, b.length, file);
        fclose(file);
    }
    tcc_strbuf_free(&b);
    return name;
}
