/* SPDX-License-Identifier: MIT */
#include "harness/function_cases.h"

#include "frontend/trace.h"
#include "harness/check.h"
#include "harness/layer_cases.h"
#include "harness/second_order.h"
#include "passes/pass.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_OPERANDS = 4 };
#define LAYER "m." /* where names of layers' parameters begin */

static tcc_tensor split_and_join(tcc_tensor x) {
    tcc_tensor out[3];
    tcc_split(x, 1, out, TCC_DIMS(1, 3, 2));
    return tcc_concat(((tcc_tensor[]){out[2], out[0], tcc_mul(out[1], out[1])}), 3, 1);
}

static tcc_tensor chunk_and_multiply(tcc_tensor x) {
    tcc_tensor out[3];
    tcc_chunk(x, 0, 3, out);
    return tcc_add(tcc_mul(out[0], out[1]), out[2]);
}

/* Numbers that a data set would give. */
static tcc_tensor counts(tcc_tensor x, int64_t n, const int *numbers) {
    double values[8];
    for (int64_t i = 0; i < n; i++) values[i] = numbers[i];
    return tcc_literal(x.trace, values, TCC_I32, 1, &n);
}

/* Of logits, with labels moved on by `first`; numbers: the texts' frames, then their labels. */
static tcc_tensor ctc(tcc_tensor x, tcc_tensor labels, int first, const int *numbers) {
    const int n = (int)tcc_dim(x, 1);
    return tcc_ctc_loss(tcc_log_softmax(x, -1), tcc_add_scalar(labels, first), counts(x, n, numbers),
                        counts(x, n, numbers + n));
}

static tcc_tensor cummax_indices(tcc_tensor x) {
    tcc_tensor where;
    tcc_cummax(x, 0, &where);
    return where;
}

static tcc_tensor cummin_indices(tcc_tensor x) {
    tcc_tensor where;
    tcc_cummin(x, 0, &where);
    return tcc_cast(where, tcc_get_dtype(x));
}

static tcc_tensor meshgrid_difference(const tcc_tensor *x) {
    tcc_tensor out[2];
    tcc_meshgrid(x, 2, out);
    return tcc_sub(tcc_mul(out[0], out[0]), out[1]);
}

/* Labels [N, a, b], each for h x w pixels: [N, a h, b w]. */
static tcc_tensor blocks(tcc_tensor labels, int64_t h, int64_t w) {
    const int64_t n = tcc_dim(labels, 0), a = tcc_dim(labels, 1), b = tcc_dim(labels, 2);
    labels = tcc_broadcast(tcc_reshape(labels, TCC_DIMS(n, a, 1, b, 1)), TCC_DIMS(n, a, h, b, w));
    return tcc_reshape(labels, TCC_DIMS(n, a * h, b * w));
}

/* Logits of which most are for the pixel's label; squares tell pixels apart whose logits differ by a constant. */
static tcc_tensor sure(const tcc_tensor *x) {
    tcc_tensor own = tcc_one_hot(x[1], tcc_dim(x[0], 1), tcc_get_dtype(x[0]));
    for (int d = tcc_rank(own) - 1; d > 1; d--) own = tcc_swap_axes(own, d, d - 1);
    return tcc_add(tcc_add(x[0], tcc_mul(x[0], x[0])), tcc_scale(own, 6));
}

/* The gradient of y's squares: its own gradients are of second order. */
static tcc_tensor slope(tcc_tensor y, tcc_tensor x) { return tcc_gradient(tcc_sum(tcc_mul(y, y), TCC_ALL), x); }

#define FUNCTION(name, operands, in_c, in_pytorch) \
    static tcc_tensor make_##name(const tcc_tensor *x) { return in_c; }
#include "harness/function_cases.def"
#undef FUNCTION

static const struct {
    const char *name, *operands, *in_c, *in_pytorch;
    tcc_tensor (*make)(const tcc_tensor *x);
} cases[] = {
#define FUNCTION(name, operands, in_c, in_pytorch) {#name, operands, #in_c, in_pytorch, make_##name},
#include "harness/function_cases.def"
#undef FUNCTION
};

int function_case_count(void) { return (int)(sizeof cases / sizeof *cases); }
const char *function_case_name(int i) { return cases[i].name; }
bool function_case_is_layer(int i) { return strstr(cases[i].in_pytorch, "layer(") != NULL; }
bool function_case_is_slope(int i) {
    return strstr(cases[i].in_pytorch, "second_order.") || strstr(cases[i].in_pytorch, "slope(");
}
bool function_case_is_one_call(int i) {
    const char *first = strstr(cases[i].in_c, "tcc_");
    return first == cases[i].in_c && !strstr(first + 1, "tcc_");
}
bool function_case_is_smooth(int i) { return !strpbrk(cases[i].operands, "bhvdk"); }

/* -- Operands -- */

typedef struct operand {
    char kind;
    int modulus;
    tcc_type type;
} operand;

/* The operands of a case; their number. */
static int parse(int i, tcc_dtype dtype, operand *out) {
    int n = 0;
    for (const char *p = cases[i].operands; *p; p++) {
        assert_true(n < MOST_OPERANDS);
        operand *o = &out[n++];
        *o = (operand){.kind = *p++, .type = {.dtype = dtype}};
        if (o->kind == 'i' || o->kind == 'k') o->type.dtype = TCC_I32;
        if (o->kind == 'l') o->type.dtype = TCC_I64;
        o->modulus = (int)strtol(p, (char **)&p, 10);
        assert_int_equal(*p, '[');
        while (*p++ != ']')
            if (*p != ']') o->type.dims[o->type.rank++] = strtol(p, (char **)&p, 10);
        if (!*p) break;
    }
    return n;
}

bool function_case_takes_any(int i, const tcc_node *input) {
    operand operands[MOST_OPERANDS];
    const int n = parse(i, input->type.dtype, operands), which = atoi(input->attrs->input.name + 1);
    return *input->attrs->input.name == 'x' && which < n && strchr("pg", operands[which].kind);
}

static double element(const operand *o, int i, int64_t e) {
    static const double saturated[] = {0, 1, 0, 0.5}, large[] = {0, 90, -90, 1e4, -1e4, 1};
    if (o->kind == 'v') e /= 2;
    const double f = fmod((double)(e + 1) * 0.6180339887498949 + 0.37 * i, 1);
    switch (o->kind) {
    case 'u':
    case 'w': return f;
    case 'b': return saturated[e % 4];
    case 'h': return large[e % 6];
    case 'q': return (double)((7 * e + 3) % 5 % 2);
    case 's': return (7 * e + 3) % 5 % 2 ? 1 : -1;
    case 'i':
    case 'k':
    case 'l': return (double)((7 * e + 3) % o->modulus);
    default: return 4 * f - 2;
    }
}

tcc_value *function_case_inputs(int i, const tcc_graph *g) {
    operand operands[MOST_OPERANDS];
    const int n = parse(i, TCC_F64, operands);
    tcc_diag diag = {0};
    tcc_value *values = calloc((size_t)g->inputs.count + 1, sizeof *values);
    for (int k = 0; k < g->inputs.count; k++) {
        const tcc_node *input = g->inputs.data[k];
        const char *name = input->attrs->input.name;
        const int which = *name == 'x' ? atoi(name + 1) : n;
        const operand r = {.kind = 'g'}, *o = which < n ? &operands[which] : &r;
        assert_ok(tcc_value_create(&input->type, &values[k], &diag), &diag);
        int letters = 0; /* of a layer's parameter, which lies in -1/2 .. 1/2 */
        for (const char *c = name; !strncmp(name, LAYER, sizeof LAYER - 1) && *c; c++) letters += *c;
        for (int64_t e = 0; e < tcc_type_numel(&input->type); e++) {
            if (letters) values[k].f[e] = element(&r, letters, e) / 4;
            else if (tcc_dtype_is_float(input->type.dtype)) values[k].f[e] = element(o, which, e);
            else values[k].i[e] = (int64_t)element(o, which, e);
        }
        tcc_value_round(&values[k]);
    }
    return values;
}

/* -- Graphs -- */

static tcc_tensor input(tcc_trace *t, const char *name, tcc_role role, const tcc_type *type) {
    const tcc_attrs attrs = {.input = {.name = name, .role = role}};
    return tcc_trace_wrap(t, tcc_ir_build(t->graph, TCC_OP_INPUT, NULL, 0, &attrs, type, TCC_HERE));
}

tcc_graph *function_case_graph(int i, tcc_dtype dtype) {
    static const char *const names[MOST_OPERANDS] = {"x0", "x1", "x2", "x3"};
    static tcc_diag diag; /* the graph's */
    tcc_store store = {.seed = 1};
    tcc_trace t;
    assert_ok(tcc_trace_begin(&t, cases[i].name, &store, true, NULL, 0, &diag), &diag);
    operand operands[MOST_OPERANDS];
    tcc_tensor x[MOST_OPERANDS];
    const int n = parse(i, dtype, operands);
    for (int k = 0; k < n; k++)
        x[k] = input(&t, names[k], strchr("pubhvd", operands[k].kind) ? TCC_ROLE_PARAM : TCC_ROLE_BATCH,
                     &operands[k].type);
    tcc_param_type(&t, dtype);
    tcc_tensor y = cases[i].make(x);
    tcc_param_type_end(&t);
    tcc_output(&t, "y", y);
    if (y.node && tcc_dtype_is_float(y.node->type.dtype)) {
        tcc_tensor r = input(&t, "r", TCC_ROLE_BATCH, &y.node->type);
        tcc_tensor loss = tcc_sum(tcc_mul(y, r), TCC_ALL);
        if (loss.node) tcc_ir_output(t.graph, "loss", loss.node, -1);
    }
    tcc_graph *g = NULL;
    if (tcc_trace_end(&t, &g) != TCC_OK) fail_msg("%s: %s", cases[i].name, tcc_diag_text(&diag));
    tcc_store_free(&store);
    return g;
}

tcc_graph *function_case_gradients(const tcc_graph *g) {
    tcc_context context = {0};
    tcc_pass_options options = {.train = true};
    tcc_pass_cx cx = {.cx = &context, .diag = g->diag, .options = &options};
    tcc_graph *joint = NULL;
    assert_ok(tcc_pass_autodiff(&cx, g, &joint), g->diag);
    return joint;
}
