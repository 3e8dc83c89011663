/* SPDX-License-Identifier: MIT
 * Params of library calls, checked and printed by the table of calls.def. The rule of a field by itself is that of its
 * kind; the rules between fields are one function per call. */
#include "codegen/calls.h"

#include "ir/support/reduction.h"

#include <string.h>

/* -- The table -- */

typedef enum param_kind { SIZE, COUNT, FLAG, TYPE, F32, ALIGNMENT, BIAS, ACTIVATION, ELEMENT, REDUCTION } param_kind;

typedef struct param {
    const char *name;
    param_kind kind;
    int n;
} param;

#define FIELD(kind, name) {#name, kind, 1},
#define ARRAY(kind, name, n) {#name, kind, n},
#define STRUCT(params, name) TCC_PARAMS_##params(FIELD, ARRAY, STRUCT)
#define FIELDS(params) static const param params##_fields[] = {TCC_PARAMS_##params(FIELD, ARRAY, STRUCT){0}};
FIELDS(matmul)
FIELDS(cudnn_conv)
FIELDS(sdpa)
FIELDS(norm)
FIELDS(collective)

static const char *const biases[] = {"none", "bias", "sums_of_a", "sums_of_b"};
static const char *const activations[] = {"linear", "relu", "gelu", "gelu_gradient", "relu_gradient"};
_Static_assert(sizeof biases / sizeof *biases == TCC_MATMUL_SUMS_OF_B + 1, "a name for each tcc_matmul_bias");
_Static_assert(sizeof activations / sizeof *activations == TCC_MATMUL_ACTIVATIONS,
               "a name for each tcc_matmul_activation");

static float float_of(int64_t bits) {
    const int32_t word = (int32_t)bits;
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

/* -- Fields by themselves -- */

static bool is_type(int64_t v) { return v >= 0 && v < TCC_DTYPE_COUNT && tcc_dtype_is_float((tcc_dtype)v); }

/* What is wrong with a value of that kind; NULL: nothing. */
static const char *check_value(param_kind kind, int64_t v) {
    switch (kind) {
    case SIZE: return v >= 1 ? NULL : "must be 1 or more";
    case COUNT: return v >= 0 ? NULL : "must be 0 or more";
    case FLAG: return v == 0 || v == 1 ? NULL : "must be 0 or 1";
    case TYPE: return is_type(v) ? NULL : "is no type of floats";
    case F32: return v == (int32_t)v ? NULL : "is not the 32 bits of an f32";
    case ALIGNMENT: return v >= 1 && !(v & (v - 1)) ? NULL : "must be a power of two";
    case BIAS: return v >= 0 && v <= TCC_MATMUL_SUMS_OF_B ? NULL : "is no kind of bias";
    case ACTIVATION: return v >= 0 && v < TCC_MATMUL_ACTIVATIONS ? NULL : "is no activation";
    case ELEMENT: return v >= 0 && v < TCC_DTYPE_COUNT ? NULL : "is no type";
    case REDUCTION: return v >= 0 && v < TCC_REDUCTIONS ? NULL : "is no reduction";
    }
    return "has no kind";
}

static void print_value(tcc_strbuf *out, param_kind kind, int64_t v) {
    if (check_value(kind, v)) kind = COUNT;
    if (kind == TYPE || kind == ELEMENT) tcc_strbuf_add(out, tcc_dtype_text((tcc_dtype)v));
    else if (kind == F32) tcc_strbuf_printf(out, "%.9g", (double)float_of(v));
    else if (kind == BIAS) tcc_strbuf_add(out, biases[v]);
    else if (kind == ACTIVATION) tcc_strbuf_add(out, activations[v]);
    else if (kind == REDUCTION) tcc_strbuf_add(out, tcc_reduction_text((tcc_rank_reduction)v));
    else tcc_strbuf_printf(out, "%lld", (long long)v);
}

/* -- Fields together: what is wrong; NULL: nothing -- */

static bool is_narrow(int64_t type) { return type == TCC_F32 || type == TCC_F16 || type == TCC_BF16; }

static const char *check_aux(const tcc_matmul_params *p) {
    enum { ALIGNED_BYTES = 16, MULTIPLE = 8, MULTIPLE_OF_BITS = 128 };
    const int64_t multiple = p->activation == TCC_MATMUL_RELU_GRADIENT ? MULTIPLE_OF_BITS : MULTIPLE;
    if (!p->aux) return p->activation >= TCC_MATMUL_GELU_GRADIENT ? "the activation's gradient reads aux" : NULL;
    if (p->activation < TCC_MATMUL_GELU) return "aux goes with gelu and with gradients";
    if (p->outer > 1) return "aux goes with a single call";
    if (p->ld_aux < p->n) return "a row of aux overlaps the next one";
    if (p->ld_aux % multiple || p->stride_aux % multiple)
        return multiple == MULTIPLE ? "ld_aux and stride_aux must be multiples of 8"
                                    : "ld_aux and stride_aux must be multiples of 128";
    return p->alignment < ALIGNED_BYTES ? "aux wants an alignment of 16 bytes or more" : NULL;
}

static const char *check_matmul(const void *params) {
    const tcc_matmul_params *p = params;
    const bool adds_up = p->outer > 1 && !p->outer_c, sums = p->bias > TCC_MATMUL_BIAS;
    if (p->batch > INT32_MAX) return "batch is beyond 2^31 - 1";
    if (p->lda < (p->transpose_a ? p->m : p->k)) return "a row of A overlaps the next one";
    if (p->ldb < (p->transpose_b ? p->k : p->n)) return "a row of B overlaps the next one";
    if (p->ldc < p->n) return "a row of C overlaps the next one";
    if ((p->type == TCC_F64) != (p->type_c == TCC_F64)) return "f64 goes with f64 alone";
    if (p->type == TCC_F64 && p->activation > TCC_MATMUL_RELU) return "f64 goes with linear and relu";
    if (adds_up && (p->bias || p->activation || p->addend))
        return "calls that add up have no bias, activation or addend";
    if (p->addend && (sums || p->activation > TCC_MATMUL_RELU))
        return "an addend goes with linear and relu, not with sums";
    if (p->bias == TCC_MATMUL_BIAS && p->activation >= TCC_MATMUL_GELU_GRADIENT)
        return "the activation's gradient has no bias";
    if (sums && (p->outer > 1 || p->batch > 1 || p->activation))
        return "sums go with a single product, and with linear";
    return check_aux(p);
}

/* The output's extent along spatial dim i; 0: there is none. */
static int64_t conv_extent(const tcc_conv_params *c, int i) {
    int64_t extent, reach;
    if (__builtin_mul_overflow(c->kernel[i] - 1, c->dilation[i], &reach) ||
        __builtin_add_overflow(c->x_size[i], c->pad_low[i], &extent) ||
        __builtin_add_overflow(extent, c->pad_high[i], &extent) || reach >= extent)
        return 0;
    return (extent - reach - 1) / c->stride[i] + 1;
}

static const char *check_conv_forward(const void *params) {
    const tcc_cudnn_conv_params *p = params;
    const tcc_conv_params *c = &p->conv;
    if (c->in % c->groups || c->out % c->groups) return "groups must divide the channels";
    for (int i = 0; i < 3; i++)
        if (c->y_size[i] != conv_extent(c, i)) return "y_size is not what x_size, padding, kernel and stride give";
    if (!is_narrow(p->type)) return "type must be f32, f16 or bf16";
    return p->alignment < tcc_dtype_bytes((tcc_dtype)p->type) ? "elements are not aligned" : NULL;
}

static const char *check_conv_gradient(const void *params) {
    const tcc_conv_params *c = &((const tcc_cudnn_conv_params *)params)->conv;
    return c->bias || c->relu ? "a gradient has no bias and no relu" : check_conv_forward(params);
}

static const char *check_sdpa_forward(const void *params) {
    const tcc_sdpa_params *p = params;
    if (p->type != TCC_F16 && p->type != TCC_BF16) return "type must be f16 or bf16";
    if (p->heads % p->kv_heads) return "kv_heads must divide heads";
    if (p->causal && p->keys < p->queries) return "the first queries see no key";
    return p->alignment < tcc_dtype_bytes((tcc_dtype)p->type) ? "elements are not aligned" : NULL;
}

static const char *check_sdpa_backward(const void *params) {
    const tcc_sdpa_params *p = params;
    for (int i = 0; i < 3; i++)
        if (!p->do_stride[i] || !p->dq_stride[i] || !p->dk_stride[i] || !p->dv_stride[i])
            return "do, dq, dk and dv want strides";
    return check_sdpa_forward(params);
}

static const char *check_norm_forward(const void *params) {
    const tcc_norm_params *p = params;
    if (p->rows > INT64_MAX / p->channels) return "rows x channels overflow";
    if (!(float_of(p->eps_bits) >= 0)) return "eps must be 0 or more";
    return is_narrow(p->type) ? NULL : "type must be f32, f16 or bf16";
}

static const char *check_norm_backward(const void *params) {
    return ((const tcc_norm_params *)params)->eps_bits ? "the gradient has no eps" : check_norm_forward(params);
}

static const char *check_all_gather(const void *params) {
    const tcc_collective_params *p = params;
    enum { LARGEST_ELEMENT = 8 };
    if (p->reduction) return "nothing is reduced where values are gathered";
    if (p->ranks > TCC_MOST_RANKS) return "there are too many ranks";
    return p->count > INT64_MAX / LARGEST_ELEMENT / p->ranks ? "count x ranks overflows" : NULL;
}

static const char *check_all_reduce(const void *params) {
    tcc_collective_params p = *(const tcc_collective_params *)params;
    if (p.type == TCC_BOOL && p.reduction != TCC_REDUCTION_FIRST) return "truth values have no sum and no maximum";
    p.reduction = 0;
    return check_all_gather(&p);
}

static const char *check_reduce_scatter(const void *params) {
    return ((const tcc_collective_params *)params)->reduction == TCC_REDUCTION_FIRST ? "there is nothing to scatter"
                                                                                     : check_all_reduce(params);
}

/* -- Calls -- */

static const struct {
    tcc_call_info info;
    const param *fields;
    const char *(*check)(const void *params);
} calls[] = {
#define TCC_CALL(id, text, params, buffers, check, regions) \
    {{text, TCC_##id##_PARAMS, buffers}, params##_fields, check_##check},
    TCC_EACH_CALL(TCC_CALL)
#undef TCC_CALL
};

const tcc_call_info *tcc_call_get_info(tcc_call call) { return &calls[call].info; }

tcc_call tcc_call_find(const char *name) {
    int call = 0;
    while (call < TCC_CALLS && strcmp(calls[call].info.name, name)) call++;
    return (tcc_call)call;
}

tcc_algorithm_params *tcc_call_algorithm(tcc_call call, int64_t *params) {
    switch (call) {
    case TCC_CALL_MATMUL: return &((tcc_matmul_params *)(void *)params)->by;
    case TCC_CALL_CONV_FORWARD:
    case TCC_CALL_CONV_DATA_GRADIENT:
    case TCC_CALL_CONV_FILTER_GRADIENT: return &((tcc_cudnn_conv_params *)(void *)params)->by;
    default: return NULL;
    }
}

void tcc_call_print_params(tcc_strbuf *out, tcc_call call, const int64_t *params) {
    const char *between = "{";
    for (const param *f = calls[call].fields; f->name; params += f->n, f++) {
        bool zero = f->kind != TYPE && f->kind != ELEMENT;
        for (int i = 0; i < f->n; i++) zero = zero && !params[i];
        if (zero) continue;
        tcc_strbuf_printf(out, "%s%s=", between, f->name);
        between = ", ";
        for (int i = 0; i < f->n; i++) {
            if (f->n > 1) tcc_strbuf_add(out, i ? "," : "[");
            print_value(out, f->kind, params[i]);
        }
        if (f->n > 1) tcc_strbuf_add(out, "]");
    }
    tcc_strbuf_add(out, *between == '{' ? "{}" : "}");
}

static tcc_status refuse(tcc_diag *d, tcc_call call, const int64_t *params, const char *what, const char *why) {
    tcc_strbuf all = {0};
    tcc_call_print_params(&all, call, params);
    const tcc_status s = all.failed ? tcc_enomem(d)
                                    : tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "%s: %s%s%s: %s", calls[call].info.name,
                                                what, *what ? " " : "", why, all.text);
    tcc_strbuf_free(&all);
    return s;
}

tcc_status tcc_call_check(tcc_diag *d, tcc_call call, const int64_t *params) {
    const int64_t *at = params;
    for (const param *f = calls[call].fields; f->name; f++)
        for (int i = 0; i < f->n; i++, at++) {
            const char *why = check_value(f->kind, *at);
            if (why) return refuse(d, call, params, f->name, why);
        }
    const char *why = calls[call].check(params);
    return why ? refuse(d, call, params, "", why) : TCC_OK;
}
