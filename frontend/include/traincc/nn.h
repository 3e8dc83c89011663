/* SPDX-License-Identifier: MIT
 * Parameters and layers. A layer is a function that gets or makes its parameters by name and returns its result. Those
 * names are all of its state, so a model is plain C. Names are PyTorch's: layer "fc1" has "fc1.weight" and "fc1.bias",
 * under the scopes that are open ("h.0.attn.c_attn.weight"). Asking for a name again gives the same parameter: tied
 * weights. The model owns the values; tcc_model_param (model.h) reaches them.
 *
 * Errors are those of tensor.h: kept in the trace, and returned by the call that traces. The macros fill in option
 * structs; fields that are left out are 0 and take the defaults given here. */
#ifndef TRAINCC_NN_H
#define TRAINCC_NN_H

#include "traincc/tensor.h"

TCC_API_BEGIN

/* -- Scopes: prefixes of names -- */
/* Opens a scope whose name is a format and values as printf takes them: tcc_scope(t, "h.%d", i). Scopes nest. */
TCC_API void tcc_scope(tcc_trace *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
TCC_API void tcc_scope_end(tcc_trace *t); /* closes the last one opened */
/* What is computed between the two stays in float32, whatever the model's mixed precision. They may nest. */
TCC_API void tcc_full_precision(tcc_trace *t);
TCC_API void tcc_full_precision_end(tcc_trace *t);
/* Parameters and buffers that are asked for between the two are of `dtype`, f16, bf16, f32 or f64, instead of f32, as
 * by PyTorch's dtype=. They may nest; the innermost counts. A layer computes in the type of its parameters, which its
 * operands must have (tcc_cast). What the optimizer keeps and computes is f32 at least. */
TCC_API void tcc_param_type(tcc_trace *t, tcc_dtype dtype);
TCC_API void tcc_param_type_end(tcc_trace *t);
/* Activation checkpointing, as torch.utils.checkpoint and jax.checkpoint do it: with TCC_CHECKPOINTING_SEGMENTS
 * (model.h) nothing that is computed between the two is kept for the backward pass, which computes it again from what
 * the segment reads. The results have the same bits. Mark what repeats and ends small: a block of a transformer, a
 * residual block. A segment within another is part of the outer one. */
TCC_API void tcc_checkpoint_segment(tcc_trace *t);
TCC_API void tcc_checkpoint_segment_end(tcc_trace *t);
/* A place for errors and reports that names a part of the model instead of a line of source: `model` and the open
 * scopes, "gpt.transformer.h.0.attn". Layers add their names to it. It is for models whose users do not have the
 * source:
 *
 *     #undef TCC_HERE
 *     #define TCC_HERE tcc_scope_place(t, "model")
 *
 * `model` is a constant. The place lives as long as the trace. */
TCC_API tcc_loc tcc_scope_place(tcc_trace *t, const char *model);

/* Whether the trace is for training: dropout drops, batch norm uses the batch. */
TCC_API bool tcc_is_training(const tcc_trace *t);

/* -- Initial values -- */
typedef enum tcc_init_kind {
    TCC_INIT_ZEROS,
    TCC_INIT_CONSTANT,        /* a */
    TCC_INIT_UNIFORM,         /* in [a, b) */
    TCC_INIT_NORMAL,          /* mean a, standard deviation b */
    TCC_INIT_TRUNC_NORMAL,    /* the same, redrawn beyond 2 standard deviations */
    TCC_INIT_KAIMING_UNIFORM, /* bound a / sqrt(fan_in); a = sqrt(6) for relu (He et al. 2015), 1 in PyTorch's layers */
    TCC_INIT_KAIMING_NORMAL,  /* std a / sqrt(fan_in); a = sqrt(2) for relu */
    TCC_INIT_XAVIER_UNIFORM,  /* bound a sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010) */
    TCC_INIT_XAVIER_NORMAL,   /* std a sqrt(2 / (fan_in + fan_out)) */
} tcc_init_kind;
typedef struct tcc_init {
    tcc_init_kind kind;
    double a, b;
    int64_t fan_in; /* 0: the product of all extents but the first */
} tcc_init;

/* The trainable parameter `name` (within the open scopes), of shape `dims` and f32, or what tcc_param_type says. It is
 * made with its initial value when it is first asked for. A later request with another shape or type is an error. Its
 * draws depend on the model's seed and the name alone. */
TCC_API tcc_tensor tcc_param_at(tcc_trace *t, const char *name, tcc_init init, int rank, const int64_t *dims,
                                tcc_loc at);
#define tcc_param(t, name, init, ...) tcc_param_at(t, name, init, __VA_ARGS__, TCC_HERE)
/* A buffer: kept from step to step and saved, but not trained. Running statistics are such. Of shape `dims` and f32,
 * or what tcc_param_type says. */
TCC_API tcc_tensor tcc_state_at(tcc_trace *t, const char *name, tcc_init init, int rank, const int64_t *dims,
                                tcc_loc at);
#define tcc_state(t, name, init, ...) tcc_state_at(t, name, init, __VA_ARGS__, TCC_HERE)
/* The value that `state`, a buffer, has after this step; of its shape and type. Once for each buffer. */
TCC_API void tcc_update_at(tcc_tensor state, tcc_tensor next, tcc_loc at);
#define tcc_update(state, next) tcc_update_at(state, next, TCC_HERE)

/* -- Layers -- */

/* x [.., in] -> [.., features]: x W^T + b with NAME.weight [features, in] and NAME.bias [features]. Init: both
 * U(+-1/sqrt(in)) as in PyTorch, or as given. */
typedef struct tcc_linear_options {
    size_t size;
    bool no_bias TCC_OR_ZERO;
    const tcc_init *weight_init TCC_OR_ZERO, *bias_init TCC_OR_ZERO;
} tcc_linear_options;
TCC_API tcc_tensor tcc_linear_at(tcc_tensor x, const char *name, int64_t features, const tcc_linear_options *options,
                                 tcc_loc at);
#define tcc_linear(x, name, ...) tcc_linear_at(x, name, TCC_WITH_OPTIONS(tcc_linear_options, __VA_ARGS__), TCC_HERE)

/* x [N, C, spatial] -> [N, channels, spatial'], 1 to 3 spatial dims, as tcc_conv, with NAME.weight [channels,
 * C / groups, kernel..] and NAME.bias [channels]. The kernel's extents are `kernel`, or .kernel_of. Init: both
 * U(+-1/sqrt(fan_in)) as in PyTorch, fan_in = C / groups times the kernel's elements; or as given. */
TCC_API tcc_tensor tcc_conv_layer_at(tcc_tensor x, const char *name, int64_t channels, int64_t kernel,
                                     const tcc_conv_options *options, tcc_loc at);
#define tcc_conv_layer(x, name, channels, ...) \
    tcc_conv_layer_at(x, name, channels, TCC_WITH_OPTIONS(tcc_conv_options, __VA_ARGS__), TCC_HERE)
/* The same as tcc_conv_transpose, with NAME.weight [C, channels / groups, kernel..]. fan_in, as in PyTorch, is
 * channels / groups times the kernel's elements. */
TCC_API tcc_tensor tcc_conv_transpose_layer_at(tcc_tensor x, const char *name, int64_t channels, int64_t kernel,
                                               const tcc_conv_options *options, tcc_loc at);
#define tcc_conv_transpose_layer(x, name, channels, ...) \
    tcc_conv_transpose_layer_at(x, name, channels, TCC_WITH_OPTIONS(tcc_conv_options, __VA_ARGS__), TCC_HERE)

/* indices i32 or i64 [..] -> [.., width]: rows of the parameter NAME.weight [rows, width]. An index out of range gives
 * a row of 0. Init: N(0, 1), or as given. */
typedef struct tcc_embedding_options {
    size_t size;
    const tcc_init *weight_init TCC_OR_ZERO;
    bool has_padding_index TCC_OR_ZERO; /* padding_index counts as given even if it is 0 */
    /* This row begins as zeros and gets no gradient through this layer; -1 is the last. 0 without has_padding_index:
     * none. */
    int64_t padding_index TCC_OR_ZERO;
} tcc_embedding_options;
TCC_API tcc_tensor tcc_embedding_at(tcc_tensor indices, const char *name, int64_t rows, int64_t width,
                                    const tcc_embedding_options *options, tcc_loc at);
#define tcc_embedding(indices, name, rows, ...) \
    tcc_embedding_at(indices, name, rows, TCC_WITH_OPTIONS(tcc_embedding_options, __VA_ARGS__), TCC_HERE)

typedef struct tcc_norm_options {
    size_t size;
    double eps TCC_OR_ZERO; /* 0: 1e-5 */
    bool no_bias TCC_OR_ZERO;
    bool no_affine TCC_OR_ZERO;   /* neither weight nor bias */
    double momentum TCC_OR_ZERO;  /* batch norm's running statistics; 0: 0.1 */
    bool zero_weight TCC_OR_ZERO; /* start the weight at 0 instead of 1 */
    bool sync TCC_OR_ZERO;        /* batch norm: over the batches of all ranks (tcc_model_options.comm) */
} tcc_norm_options;
/* Norms: the result has the shape of x. NAME.weight starts at 1, NAME.bias at 0; rms_norm has no bias. */
/* Over the last dim, whose extent weight and bias have. */
TCC_API tcc_tensor tcc_layer_norm_at(tcc_tensor x, const char *name, const tcc_norm_options *options, tcc_loc at);
TCC_API tcc_tensor tcc_rms_norm_at(tcc_tensor x, const char *name, const tcc_norm_options *options, tcc_loc at);
/* x [N, C, ..]; `groups` divides C. Weight and bias are [C]. */
TCC_API tcc_tensor tcc_group_norm_at(tcc_tensor x, const char *name, int64_t groups, const tcc_norm_options *options,
                                     tcc_loc at);
/* x [N, C, ..] with two values or more a channel: over those of each channel of each n. Weight and bias are [C]; unlike
 * in PyTorch they are there unless no_affine says otherwise. */
TCC_API tcc_tensor tcc_instance_norm_at(tcc_tensor x, const char *name, const tcc_norm_options *options, tcc_loc at);
/* x [N, C, ..]. Weight and bias are [C], and so are the buffers NAME.running_mean and NAME.running_var. Training:
 * normalizes by the mean and the biased variance of the batch, and moves the buffers towards its mean and its unbiased
 * variance. Evaluation: normalizes by the buffers. With `sync`, or tcc_model_options.sync_batch_norm, the batch is that
 * of all ranks, whose means and variances are merged: all of them must then take as many micro-batches. */
TCC_API tcc_tensor tcc_batch_norm_at(tcc_tensor x, const char *name, const tcc_norm_options *options, tcc_loc at);
#define tcc_layer_norm(x, ...) tcc_layer_norm_at(x, TCC_WITH_OPTIONS(tcc_norm_options, __VA_ARGS__), TCC_HERE)
#define tcc_rms_norm(x, ...) tcc_rms_norm_at(x, TCC_WITH_OPTIONS(tcc_norm_options, __VA_ARGS__), TCC_HERE)
#define tcc_instance_norm(x, ...) tcc_instance_norm_at(x, TCC_WITH_OPTIONS(tcc_norm_options, __VA_ARGS__), TCC_HERE)
#define tcc_group_norm(x, name, ...) \
    tcc_group_norm_at(x, name, TCC_WITH_OPTIONS(tcc_norm_options, __VA_ARGS__), TCC_HERE)
#define tcc_batch_norm(x, ...) tcc_batch_norm_at(x, TCC_WITH_OPTIONS(tcc_norm_options, __VA_ARGS__), TCC_HERE)

/* In training: each element of x, of floats, becomes 0 with probability p in [0, 1), else x / (1 - p). Each call draws
 * other numbers, and so does each step. In evaluation: x. */
TCC_API tcc_tensor tcc_dropout_at(tcc_tensor x, double p, tcc_loc at);
#define tcc_dropout(x, p) tcc_dropout_at(x, p, TCC_HERE)

/* Attention of `heads` heads: q [N, T, C], k [N, S, K] and v [N, S, V] -> [N, T, C]. One tensor for all three is
 * self-attention; q of one sequence and k and v of another are cross-attention. Parameters are those of
 * nn.MultiheadAttention (batch_first), C = heads D: NAME.in_proj_weight [3 C, C], the rows of q, k and v; where K or V
 * is not C, NAME.q_proj_weight [C, C], NAME.k_proj_weight [C, K] and NAME.v_proj_weight [C, V] instead;
 * NAME.in_proj_bias [3 C]; NAME.out_proj.weight [C, C] and NAME.out_proj.bias [C]. Init as there. With kv_heads = G, k
 * and v have G D rows instead of C. */
typedef struct tcc_multi_head_attention_options {
    size_t size;
    int64_t kv_heads TCC_OR_ZERO; /* of k and v, a divisor of `heads` (tcc_attention); 0: heads */
    bool causal TCC_OR_ZERO;      /* as in tcc_attention, and so are mask and dropout */
    tcc_tensor mask TCC_OR_ZERO;  /* broadcasts to [N, heads, T, S]; a bool is true where the query sees the key */
    double dropout TCC_OR_ZERO;
    bool no_bias TCC_OR_ZERO;
} tcc_multi_head_attention_options;
TCC_API tcc_tensor tcc_multi_head_attention_at(tcc_tensor q, tcc_tensor k, tcc_tensor v, const char *name,
                                               int64_t heads, const tcc_multi_head_attention_options *options,
                                               tcc_loc at);
#define tcc_multi_head_attention(q, k, v, name, ...)                                                            \
    tcc_multi_head_attention_at(q, k, v, name, TCC_WITH_OPTIONS(tcc_multi_head_attention_options, __VA_ARGS__), \
                                TCC_HERE)

/* Recurrent layers: x [T, N, in], steps first as in PyTorch. `all` [T, N, hidden] has the states of the last layer at
 * each step; h and, of an LSTM, c [layers, N, hidden] have those of each layer after the last step. Definitions,
 * parameters and their init are those of nn.LSTM (Hochreiter and Schmidhuber 1997) and nn.GRU (Cho et al. 2014):
 * NAME.weight_ih_l0 [4 hidden, in] in the order i, f, g, o (GRU: [3 hidden, in], r, z, n), NAME.weight_hh_l0 [4 hidden,
 * hidden], NAME.bias_ih_l0 and NAME.bias_hh_l0 [4 hidden], and so on for l1, ...; of the reverse direction
 * NAME.weight_ih_l0_reverse, .... The steps are traced one by one. */
typedef struct tcc_recurrent_options {
    size_t size;
    int64_t layers TCC_OR_ZERO;     /* 0: 1 */
    bool bidirectional TCC_OR_ZERO; /* a second layer goes from the last step to the first: all has [.., 2 hidden] with
                                       its states last, h and c two rows a layer */
    bool batch_first TCC_OR_ZERO;   /* x and all are [N, T, ..] */
    bool no_bias TCC_OR_ZERO;
    double dropout TCC_OR_ZERO; /* between layers, as tcc_dropout */
    tcc_tensor h0 TCC_OR_ZERO;  /* the states before the first step, of the shape of h; left out: zeros */
    tcc_tensor c0 TCC_OR_ZERO;  /* LSTM: likewise */
} tcc_recurrent_options;
typedef struct tcc_recurrent_states {
    tcc_tensor all, h, c; /* c: of an LSTM alone */
} tcc_recurrent_states;
TCC_API tcc_recurrent_states tcc_lstm_at(tcc_tensor x, const char *name, int64_t hidden,
                                         const tcc_recurrent_options *options, tcc_loc at);
TCC_API tcc_recurrent_states tcc_gru_at(tcc_tensor x, const char *name, int64_t hidden,
                                        const tcc_recurrent_options *options, tcc_loc at);
#define tcc_lstm(x, name, ...) tcc_lstm_at(x, name, TCC_WITH_OPTIONS(tcc_recurrent_options, __VA_ARGS__), TCC_HERE)
#define tcc_gru(x, name, ...) tcc_gru_at(x, name, TCC_WITH_OPTIONS(tcc_recurrent_options, __VA_ARGS__), TCC_HERE)

TCC_API_END
#endif
