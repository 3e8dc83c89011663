/* SPDX-License-Identifier: MIT
 * Inside the interpreter: the signature of an evaluation rule, one declaration a name in the eval
 * column of ops.def, and the strided copies that the rules share. */
#ifndef TCC_IR_EVAL_RULES_H
#define TCC_IR_EVAL_RULES_H

#include "ir/eval.h"

/* Computes *out, which is created with the node's type and zeroed. Types were checked when the node
 * was built. */
typedef tcc_status tcc_eval_rule(const tcc_node *n, const tcc_value *const *in, tcc_value *out, tcc_diag *diag);

#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) \
    tcc_eval_rule tcc__eval_##eval;
#include "ir/ops.def"
#undef TCC_OP

#define TCC_UNUSED __attribute__((unused))
/* Opens the definition of a rule. */
#define TCC_EVAL_RULE(name)                                                                          \
    tcc_status tcc__eval_##name(const tcc_node *n TCC_UNUSED, const tcc_value *const *in TCC_UNUSED, \
                                tcc_value *out TCC_UNUSED, tcc_diag *diag TCC_UNUSED)

static inline bool tcc__value_is_float(const tcc_value *v) { return tcc_dtype_is_float(v->type.dtype); }

/* The integer that the element type keeps of `v`: two's complement wraparound, bool is v != 0. */
int64_t tcc__wrap(tcc_dtype dtype, int64_t v);

/* The definition of a composite as a graph of its own: inputs for the operands of `n`, one output. NULL after an error,
 * which `diag` keeps if there is one. */
tcc_graph *tcc__eval_definition(const tcc_node *n, tcc_diag *diag);

/* Words 4 block ... 4 block + 3 of the draws `id` under a key value, as attrs.def describes them. */
void tcc__eval_draw(const tcc_value *key, int64_t id, int64_t block, uint32_t words[4]);

/* Element e of a literal with a value for each element, of iota, or of a draw, by the key: what follows from its
 * position alone. It goes to element `to` of `out`. */
void tcc__eval_placed(const tcc_node *n, const int64_t *key, int64_t e, tcc_value *out, int64_t to);

/* Where rows of an attention lie in the whole graph, of which n is in a sample: what a query sees goes by that, and so
 * do the draws of dropout. */
typedef struct tcc_positions {
    int64_t all_queries, all_keys;
    const int64_t *batches, *queries, *keys; /* by index here, ascending; of all leading dims one */
} tcc_positions;

/* Attention, or one of its gradients but sdpa_lse, as if each factor that its scores make had been rounded: p z, by
 * which v or do is multiplied, or ds; and each batch's part of a gradient by keys that batches share. `error(user,
 * factor, element)` is relative. */
typedef struct tcc_attention_error {
    double (*of)(const void *user, double factor, int64_t element);
    const void *user;
} tcc_attention_error;
tcc_status tcc__eval_attention(const tcc_node *n, const tcc_value *const *in, const tcc_attention_error *error,
                               tcc_value *out, tcc_diag *diag);
/* Of resize_bicubic or its gradient: the sum with weights without their signs. */
tcc_status tcc__eval_cubic_magnitudes(const tcc_node *n, const tcc_value *in, tcc_value *out, tcc_diag *diag);

/* conv or conv_grad_weight as the field computes it: padding is zeros, which are multiplied. So where they meet what is
 * not finite, NaN comes out; the ops' own rules leave these products out. */
tcc_status tcc__eval_padded(const tcc_node *n, const tcc_value *const *in, tcc_value *out, tcc_diag *diag);
/* The same of causal attention, or one of its gradients but sdpa_lse: keys that a query does not see have the factor 0.
 */
tcc_status tcc__eval_unseen(const tcc_node *n, const tcc_value *const *in, tcc_value *out, tcc_diag *diag);

/* Elements [to, to + count) become those of packed memory that begin at element `from`. */
void tcc__value_load_at(tcc_value *v, int64_t to, const void *packed, int64_t from, int64_t count);

/* Row-major strides in elements. */
void tcc__strides(const tcc_type *type, int64_t *strides);
/* dst[i . dst_strides] = src[i . src_strides] for all i in dims. Elements are 8 bytes of either
 * kind; strides count elements. */
void tcc__copy_strided(int rank, const int64_t *dims, void *dst, const int64_t *dst_strides, const void *src,
                       const int64_t *src_strides);

#endif
