/* SPDX-License-Identifier: MIT
 * The layer of multi-head attention: projections that are one product where q, k and v allow it, attention of the
 * heads where they lie, and the projection of what they give. */
#include "layers.h"

/* What is built here stands at the line of the layer's caller. */
#undef TCC_HERE
#define TCC_HERE at

typedef struct layer {
    const char *name;
    int64_t heads, kv_heads, head; /* of q; of k and v; the width of each */
    tcc_tensor in[3];              /* q, k, v */
    bool packed;                   /* they are equally wide: one weight */
    bool biased;
    tcc_loc at;
} layer;

/* Rows of each projection's weight. */
static void find_rows(const layer *l, int64_t rows[3]) {
    rows[0] = l->heads * l->head;
    rows[1] = rows[2] = l->kv_heads * l->head;
}

/* Operands `first` to `last` of one tensor, projected by the rows of `w` and `b` that are theirs. */
static tcc_tensor project(const layer *l, int first, int last, tcc_tensor w, tcc_tensor b) {
    const tcc_loc at = l->at;
    int64_t rows[3], begin = 0, end;
    find_rows(l, rows);
    for (int i = 0; i < first; i++) begin += rows[i];
    end = begin;
    for (int i = first; i <= last; i++) end += rows[i];
    const bool all = first == 0 && last == 2;
    if (l->packed && !all) w = tcc_slice(w, 0, begin, end);
    tcc_tensor y = tcc__layer_product(l->in[first], w, at);
    return l->biased ? tcc_add(y, all ? b : tcc_slice(b, 0, begin, end)) : y;
}

/* x [N, T, heads D] as [N, heads, T, D]. */
static tcc_tensor split_heads(const layer *l, tcc_tensor x, int64_t heads) {
    const tcc_loc at = l->at;
    x = tcc_reshape(x, TCC_DIMS(tcc_dim(x, 0), tcc_dim(x, 1), heads, l->head));
    return tcc_transpose(x, TCC_DIMS(0, 2, 1, 3));
}

static tcc_tensor weight(const layer *l, const char *suffix, int64_t rows, int64_t columns) {
    const tcc_init init = {.kind = TCC_INIT_XAVIER_UNIFORM, .a = 1};
    return tcc__layer_param(l->in[0].trace, l->name, suffix, init, 2, (int64_t[]){rows, columns}, l->at);
}

/* The heads of q, k and v. */
static void project_all(const layer *l, tcc_tensor out[3]) {
    static const char *const apart[] = {".q_proj_weight", ".k_proj_weight", ".v_proj_weight"};
    const tcc_loc at = l->at;
    int64_t rows[3];
    find_rows(l, rows);
    const int64_t all = rows[0] + rows[1] + rows[2];
    tcc_tensor w = {0}, b = {0};
    if (l->packed) w = weight(l, ".in_proj_weight", all, rows[0]);
    if (l->biased)
        b = tcc__layer_param(l->in[0].trace, l->name, ".in_proj_bias", (tcc_init){.kind = TCC_INIT_ZEROS}, 1, &all, at);
    for (int first = 0, last; first < 3; first = last + 1) {
        last = first;
        if (!l->packed) w = weight(l, apart[first], rows[first], tcc_dim(l->in[first], -1));
        else
            while (last < 2 && l->in[last + 1].node == l->in[first].node) last++;
        tcc_tensor y = project(l, first, last, w, b);
        int64_t begin = 0;
        for (int i = first; i <= last; i++) {
            out[i] = first == last ? y : tcc_slice(y, 2, begin, begin + rows[i]);
            out[i] = split_heads(l, out[i], i ? l->kv_heads : l->heads);
            begin += rows[i];
        }
    }
}

static bool takes(const layer *l) {
    const tcc_type *q = &l->in[0].node->type, *k = &l->in[1].node->type, *v = &l->in[2].node->type;
    tcc_trace *t = l->in[0].trace;
    const bool fits = q->rank == 3 && k->rank == 3 && v->rank == 3 && k->dims[0] == q->dims[0] &&
                      v->dims[0] == q->dims[0] && k->dims[1] == v->dims[1];
    if (!fits) {
        tcc_trace_error(t, TCC_ESHAPE, l->at,
                        "multi_head_attention \"%s\": q [N, T, C], k [N, S, K] and v [N, S, V] do not agree: %s, %s "
                        "and %s",
                        l->name, tcc_type_text(q), tcc_type_text(k), tcc_type_text(v));
        return false;
    }
    if (l->heads >= 1 && q->dims[2] % l->heads == 0 && l->kv_heads >= 1 && l->heads % l->kv_heads == 0) return true;
    tcc_trace_error(t, TCC_ESHAPE, l->at,
                    "multi_head_attention \"%s\": %lld heads must divide the width of q, %s, and %lld kv_heads the "
                    "heads",
                    l->name, (long long)l->heads, tcc_type_text(q), (long long)l->kv_heads);
    return false;
}

tcc_tensor tcc_multi_head_attention_at(tcc_tensor q, tcc_tensor k, tcc_tensor v, const char *name, int64_t heads,
                                       const tcc_multi_head_attention_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_multi_head_attention_options, options, given);
    layer l = {.name = name, .heads = heads, .in = {q, k, v}, .biased = !options.no_bias};
    l.kv_heads = options.kv_heads ? options.kv_heads : heads;
    l.at = at = tcc__layer_place(name, at);
    if (!tcc_trace_takes("multi_head_attention", at, 3, l.in) ||
        !tcc_trace_takes_name("multi_head_attention", name, at) ||
        (given && !tcc_trace_takes_size("multi_head_attention", given->size, sizeof options, at)) || !takes(&l))
        return tcc_trace_poison();
    const int64_t width = tcc_dim(q, -1);
    l.head = width / heads;
    l.packed = tcc_dim(k, -1) == width && tcc_dim(v, -1) == width;
    tcc_tensor in[3];
    project_all(&l, in);
    tcc_tensor y = tcc_attention(in[0], in[1], in[2], .causal = options.causal, .mask = options.mask,
                                 .dropout = options.dropout);
    y = tcc_reshape(tcc_transpose(y, TCC_DIMS(0, 2, 1, 3)), TCC_DIMS(tcc_dim(q, 0), tcc_dim(q, 1), width));
    const char *out = tcc_arena_printf(&q.trace->graph->arena, "%s.out_proj", name);
    if (!out) {
        tcc_enomem(q.trace->graph->diag);
        return tcc_trace_poison();
    }
    const tcc_init zeros = {.kind = TCC_INIT_ZEROS};
    return tcc_linear(y, out, width, .no_bias = options.no_bias, .bias_init = &zeros);
}
