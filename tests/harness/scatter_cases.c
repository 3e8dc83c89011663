/* SPDX-License-Identifier: MIT
 * See the header. One graph a shape: each form of an index has an output of its own. */
#include "harness/scatter_cases.h"
#include "harness/check.h"
#include "harness/graphs.h"

typedef struct dims {
    int rank;
    int64_t v[4]; /* an update of three dims has two of an index in the place of one */
} dims;

typedef struct scatter {
    bool along;
    int axis;
    dims out, index;
} scatter;

static const scatter cases[] = {
    {false, 0, {2, {5, 4}}, {1, {3}}},
    {false, 0, {2, {5, 2}}, {2, {3, 4}}},
    {false, 1, {2, {4, 5}}, {2, {4, 5}}},
    {false, 0, {1, {5}}, {2, {6, 5}}},
    {false, 1, {3, {3, 5, 20}}, {1, {40}}},
    {false, 0, {2, {1, 8}}, {1, {7}}},
    {false, 0, {2, {6, 33}}, {2, {1, 9}}},
    {false, 0, {2, {6, 33}}, {2, {9, 1}}},
    {false, 0, {2, {4, 4}}, {2, {4, 4}}},
    {false, 1, {3, {3, 70, 13}}, {2, {3, 7}}},
    {true, 1, {2, {4, 5}}, {2, {4, 3}}},
    {true, 0, {2, {5, 4}}, {2, {3, 4}}},
    {true, 1, {2, {1, 5}}, {2, {1, 40}}},
    {true, 1, {2, {4, 1}}, {2, {4, 9}}},
    {true, 1, {3, {2, 3, 40}}, {3, {2, 8, 40}}},
    {true, 2, {3, {3, 20, 20}}, {3, {3, 20, 20}}},
    {true, 0, {1, {7}}, {1, {70}}},
};

static void add_dims(tcc_strbuf *b, const char *type, const dims *d) {
    tcc_strbuf_printf(b, "%s[", type);
    for (int i = 0; i < d->rank; i++) tcc_strbuf_printf(b, "%s%lld", i ? "," : "", (long long)d->v[i]);
    tcc_strbuf_add(b, "]");
}

typedef struct writer {
    tcc_strbuf lines, outputs;
    int next; /* number of the next value */
    const scatter *s;
    const char *type, *op;
    dims update;
} writer;

/* Ends the line of value w->next with its type. */
static int end_line(writer *w, const char *type, const dims *d) {
    tcc_strbuf_add(&w->lines, " : ");
    add_dims(&w->lines, type, d);
    tcc_strbuf_add(&w->lines, "\n");
    return w->next++;
}

static int add_input(writer *w, const char *type, const dims *d) {
    tcc_strbuf_printf(&w->lines, "  %%%d = input {name=\"x%d\"}", w->next, w->next);
    return end_line(w, type, d);
}

static int add_constant(writer *w, const char *type, const dims *d, int value) {
    tcc_strbuf_printf(&w->lines, "  %%%d = constant {values=[%d]}", w->next, value);
    return end_line(w, type, d);
}

static int add_iota(writer *w, int axis) {
    tcc_strbuf_printf(&w->lines, "  %%%d = iota {axis=%d}", w->next, axis);
    return end_line(w, "i32", &w->s->index);
}

static int add_op(writer *w, const char *op, int a, int b, const char *type, const dims *d) {
    tcc_strbuf_printf(&w->lines, "  %%%d = %s(%%%d, %%%d)", w->next, op, a, b);
    return end_line(w, type, d);
}

/* An input that has extent 1 in the axes of `ones`, broadcast to the index's dims. */
static int add_broadcast(writer *w, unsigned ones) {
    dims d = w->s->index;
    for (int i = 0; i < d.rank; i++)
        if (ones >> i & 1) d.v[i] = 1;
    int x = add_input(w, "i32", &d);
    tcc_strbuf_printf(&w->lines, "  %%%d = broadcast(%%%d) {dims=[", w->next, x);
    for (int i = 0; i < d.rank; i++) tcc_strbuf_printf(&w->lines, "%s%d", i ? ", " : "", i);
    tcc_strbuf_add(&w->lines, "]}");
    return end_line(w, "i32", &w->s->index);
}

static void scatter_at(writer *w, int base, int index) {
    int update = add_input(w, w->type, &w->update);
    update = add_op(w, "mul", update, update, w->type, &w->update);
    tcc_strbuf_printf(&w->lines, "  %%%d = %s(%%%d, %%%d, %%%d) {axis=%d}", w->next, w->op, base, index, update,
                      w->s->axis);
    int sum = end_line(w, w->type, &w->s->out);
    tcc_strbuf_printf(&w->outputs, "  output \"o%d\" %%%d\n", sum, sum);
}

static void write_forms(writer *w) {
    const scatter *s = w->s;
    const int last = (int)s->out.v[s->axis] - 1;
    int zero = add_constant(w, w->type, &s->out, 0), base = add_input(w, w->type, &s->out);
    int read = add_input(w, "i32", &s->index), one = add_constant(w, "i32", &s->index, 1);
    scatter_at(w, zero, add_constant(w, "i32", &s->index, last));
    scatter_at(w, base, read);
    scatter_at(w, zero, add_op(w, "min", read, one, "i32", &s->index));
    scatter_at(w, base, add_broadcast(w, ~0u));
    for (int i = 0; i < s->index.rank; i++) {
        int iota = add_iota(w, i);
        scatter_at(w, base, iota);
        scatter_at(w, zero, add_op(w, "add", add_broadcast(w, 1u << i), one, "i32", &s->index));
        scatter_at(w, base, add_op(w, "max", add_broadcast(w, ~(1u << i)), iota, "i32", &s->index));
    }
}

static void check_case(graph_check *check, const char *op, const scatter *s, const char *type, bool eager) {
    writer w = {.s = s, .type = type, .op = op, .update = s->index};
    if (!s->along) { /* the index's dims in the place of the axis */
        w.update = (dims){0};
        for (int i = 0; i < s->out.rank; i++) {
            for (int k = 0; i == s->axis && k < s->index.rank; k++) w.update.v[w.update.rank++] = s->index.v[k];
            if (i != s->axis) w.update.v[w.update.rank++] = s->out.v[i];
        }
    }
    tcc_strbuf_add(&w.lines, "graph @scatter {\n");
    write_forms(&w);
    tcc_strbuf_add(&w.lines, w.outputs.text);
    tcc_strbuf_add(&w.lines, "}\n");
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(w.lines.text, &diag);
    check(g, &(compiled_options){.eager = eager, .simplify = true, .limit = s->out.v[s->axis]});
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
    tcc_strbuf_free(&w.lines);
    tcc_strbuf_free(&w.outputs);
}

void scatter_at_repeated_indices(graph_check *check) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *type = i % 4 == 3 ? "bf16" : "f32";
        const char *op = cases[i].along ? "scatter_add_along" : "scatter_add";
        check_case(check, op, &cases[i], type, false);
        if (i % 3 == 0) check_case(check, op, &cases[i], type, true);
        check_case(check, cases[i].along ? "scatter_along" : "scatter", &cases[i], type, i % 5 == 1);
        if (cases[i].along) continue;
        check_case(check, op, &cases[i], i % 2 ? "f16" : "bf16", i % 3 == 1);
        check_case(check, "scatter_max", &cases[i], i % 4 == 2 ? "f16" : type, i % 2);
    }
}
