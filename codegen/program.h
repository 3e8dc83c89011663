/* SPDX-License-Identifier: MIT
 * The program: all that codegen hands to the runtime. Plain data without pointers into the graph: kernels as object
 * code, steps in order, buffers as (space, offset), and for each step the user's lines it came from. A runtime without
 * LLVM can load and run it.
 *
 * Memory. A program addresses three spaces. ARENA is scratch of one run, planned at compile time. BINDING i is memory
 * that the caller provides: parameters, optimizer state, batch inputs, hyper-parameters, outputs. CONST is read-only
 * data in the program.
 *
 * Time. Steps run in order; a step sees everything that earlier steps wrote. Within a step all instances and all their
 * work items are independent and may run in any order on any thread, so a result never depends on the number of
 * threads. */
#ifndef TCC_CODEGEN_PROGRAM_H
#define TCC_CODEGEN_PROGRAM_H

#include "ir/support/arena.h"
#include "ir/support/diag.h"
#include "ir/support/dtype.h"
#include "ir/support/role.h"

#include <stdint.h>

typedef enum tcc_space { TCC_SPACE_ARENA, TCC_SPACE_BINDING, TCC_SPACE_CONST } tcc_space;

/* A place in memory. Values lie at multiples of 64 bytes in ARENA and CONST; a buffer may also begin inside one. */
typedef struct tcc_buffer {
    tcc_space space;
    int binding;          /* index into bindings; BINDING only */
    int64_t offset_bytes; /* from the start of the space or binding */
    int64_t size_bytes;   /* what the step may touch from there */
} tcc_buffer;

typedef struct tcc_binding {
    const char *name;
    tcc_role role;
    tcc_type type;
} tcc_binding;

/* A host kernel runs the work items [begin, end) of one instance.
 *   buffers  one pointer for each buffer of the instance, in the kernel's order
 *   params   the instance's integers (extents, strides, seeds), in the kernel's order
 *   scratch  private to the calling thread, `scratch_bytes` large, 64-byte aligned, contents undefined
 * It must not call out of its module. It touches vector registers freely and obeys the C calling convention. */
typedef void (*tcc_host_kernel)(void *const *buffers, const int64_t *params, int64_t begin, int64_t end, void *scratch);

/* A CUDA kernel is an entry of its module's PTX, for blocks of `threads` threads in x and `scratch_bytes` bytes of
 * dynamic shared memory a block. A block runs `items_a_block` work items side by side: items b * items_a_block and
 * following for block b, then those gridDim.x * items_a_block further on, and so forth, so any grid is right. Its
 * parameters, each 8 bytes: n_buffers addresses, n_params integers, items
 *
 * A step of several instances launches the entry "<symbol>_table", which exists if `table`, with two parameters: the
 * address of a table in device memory, and the number of instances (8 bytes each). A row of the table is 8-byte
 * integers: the first block of the instance, its items, n_buffers addresses, n_params integers. One more row has the
 * number of blocks of all instances in its first place, which is the grid; an instance has (items + items_a_block - 1)
 * / items_a_block of them.
 *
 * The arena, the constants and each binding begin at multiples of 16 bytes at least: accesses are that wide. */

/* Code of one or more kernels: a relocatable ELF object for the host, PTX text for CUDA. */
typedef struct tcc_module {
    const void *code;
    int64_t size_bytes;
} tcc_module;

typedef struct tcc_kernel {
    const char *symbol;
    int module; /* index into modules */
    int n_buffers, n_params;
    int64_t scratch_bytes;      /* host: a thread; CUDA: a block's shared memory */
    const char *schedule;       /* "pointwise", "reduce", "contract", ...: for reports */
    int threads, items_a_block; /* CUDA; 0 on the host */
    bool table;                 /* CUDA */
} tcc_kernel;

/* One use of a kernel. Several instances of one kernel in one step are a multi-tensor launch: the optimizer's update of
 * all parameters is one step. */
typedef struct tcc_instance {
    const tcc_buffer *buffers; /* n_buffers of the kernel */
    const int64_t *params;     /* n_params of the kernel */
    int64_t items;             /* work items; fixed by shape and schedule, never by the number of threads */
} tcc_instance;

/* A call of a library. `name` selects an entry of the runtime's library table. Its params are the fields of the struct
 * named below in order, each an int64_t.
 *
 * cublaslt.matmul              C = activation(op(A) op(B) + addend + bias), for each of `batch` matrices; on CUDA.
 * `outer` such calls follow each other, each further on in a, b, addend and c; where they all have one C, they add to
 * it buffers                    a, b, bias, aux, addend, c, workspace; bias, aux and addend are not touched where the
 * params do not ask for them; addend may be c params                     tcc_matmul_params
 *
 * Convolutions on CUDA. The workspace is not touched where params say 0 bytes.
 * cudnn.conv_forward           y = conv(x, w), plus bias if `bias`, then max(0, y) if `relu`; without bias its buffer
 * is not touched buffers                    x, w, bias, y, workspace cudnn.conv_data_gradient     dx = the gradient of
 * conv with respect to x buffers                    dy, w, dx, workspace cudnn.conv_filter_gradient   dw = the gradient
 * of conv with respect to w buffers                    x, dy, dw, workspace params tcc_cudnn_conv_params, for all three
 *
 * Attention on CUDA: o = softmax(scale q k^T) v for each head, sums in f32
 * cudnn.sdpa_forward           o, and lse, the logarithms of the softmax denominators, if `lse`
 *   buffers                    q, k, v, o, lse, workspace
 * cudnn.sdpa_backward          dq, dk and dv from do, without atomics
 *   buffers                    q, k, v, o, lse, do, dq, dk, dv, workspace
 *   params                     tcc_sdpa_params, for both
 *
 * Batch norm on CUDA, with sums in f32: y = (x - mean) scale weight + bias, by the mean of each channel and scale = 1 /
 * sqrt(variance + eps) cudnn.batch_norm_forward     y, mean, scale buffers                    x, weight, bias, y, mean,
 * scale, workspace cudnn.batch_norm_backward    dx, dweight, dbias from dy buffers                    dy, x, mean,
 * scale, weight, dx, dweight, dbias, workspace params                     tcc_norm_params, for both */
typedef struct tcc_library_call {
    const char *name;
    int n_buffers, n_params;
    const tcc_buffer *buffers;
    const int64_t *params;
} tcc_library_call;

/* Of x = op(A) op(B) + addend + bias, or with GELU_GRADIENT x = op(A) op(B): max(0, x); gelu_tanh(x), which leaves x in
 * aux if `aux`; gelu_tanh_grad(aux, x); with RELU_GRADIENT, which has no bias either, x where its bit in aux is 1, else
 * 0. Bit i of a row is bit i % 8 of byte i / 8. */
typedef enum tcc_matmul_activation {
    TCC_MATMUL_LINEAR,
    TCC_MATMUL_RELU,
    TCC_MATMUL_GELU,
    TCC_MATMUL_GELU_GRADIENT,
    TCC_MATMUL_RELU_GRADIENT,
    TCC_MATMUL_ACTIVATIONS
} tcc_matmul_activation;

/* What the bias buffer is: nothing; added, one element a column of C; the sums over k of A, one a row of C; of B, one a
 * column. */
typedef enum tcc_matmul_bias {
    TCC_MATMUL_NO_BIAS,
    TCC_MATMUL_BIAS,
    TCC_MATMUL_SUMS_OF_A,
    TCC_MATMUL_SUMS_OF_B
} tcc_matmul_bias;

/* C is m x n, row-major, the sum runs over k: in f32, in f64 of f64. Leading dimensions and batch strides count
 * elements; a stride of 0 shares the operand between the matrices. */
typedef struct tcc_matmul_params {
    int64_t batch, m, n, k;
    int64_t transpose_a, transpose_b; /* 1: A is stored k x m, B is stored n x k */
    int64_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c;
    int64_t outer, outer_a, outer_b,
        outer_c;          /* calls, and elements from one's matrices to the next one's; outer_c 0: they add up */
    int64_t type, type_c; /* tcc_dtype of A and B, and of C, addend, bias and aux: F32, F16 or BF16, F64 only both and
                             with LINEAR or RELU */
    int64_t bias;         /* tcc_matmul_bias; the sums only of a single product */
    int64_t activation;   /* tcc_matmul_activation; LINEAR where calls add up */
    int64_t aux;          /* 0 or 1; 1 with the gradients, either with GELU, else 0; only of a single call */
    int64_t ld_aux, stride_aux; /* multiples of 8, of 128 with RELU_GRADIENT, where they count bits; aux is m x n */
    int64_t addend; /* 1: a matrix that lies as C does is added; only with LINEAR or RELU, where calls do not add up,
                       without sums */
    int64_t allow_tf32; /* 1: f32 elements may be rounded to 10 bits of fraction before they are multiplied */
    int64_t alignment; /* bytes, a power of two that the addresses of a, b, bias, aux, addend and c are multiples of; 16
                          or more with aux */
    int64_t workspace_bytes; /* that the call may use */
} tcc_matmul_params;

/* Absent spatial dimensions have size 1, kernel 1, stride 1, dilation 1 and padding 0, and
 * stand first: a 2-D convolution uses [1] and [2]. Strides count elements. */
typedef struct tcc_conv_params {
    int64_t batch, groups, in, out; /* channels, of all groups */
    int64_t x_size[3], y_size[3], kernel[3];
    int64_t stride[3], dilation[3], pad_low[3], pad_high[3];
    int64_t x_stride[5], y_stride[5]; /* batch, channel, spatial */
    int64_t w_stride[5];              /* out (groups follow each other), in, spatial */
    int64_t bias, relu;               /* forward: 0 or 1 */
} tcc_conv_params;

/* Sums are f32. Absent spatial dimensions have the strides that they would have if the present ones were their rows. */
typedef struct tcc_cudnn_conv_params {
    tcc_conv_params conv;
    int64_t type;            /* tcc_dtype of all tensors: F32, F16 or BF16 */
    int64_t allow_tf32;      /* as in tcc_matmul_params */
    int64_t alignment;       /* bytes, a power of two that the addresses of all tensors are multiples of */
    int64_t workspace_bytes; /* that the call may use */
} tcc_cudnn_conv_params;

/* q [batch, heads, queries, width], k [.., keys, width], v [.., keys, value_width], o and do [.., queries,
 * value_width]. Strides count elements, those of the last dim are 1; dq, dk and dv have their own. lse is f32 [batch,
 * heads, queries], dense. */
typedef struct tcc_sdpa_params {
    int64_t batch, heads, queries, keys, width, value_width;
    int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3];     /* batch, head, row */
    int64_t do_stride[3], dq_stride[3], dk_stride[3], dv_stride[3]; /* backward */
    int64_t scale_bits;                                             /* of the scores: the bits of an IEEE f32 */
    int64_t causal;          /* 1: key s is seen by query t if s <= t + keys - queries */
    int64_t lse;             /* forward: 1: lse is written; else its buffer is not touched */
    int64_t type;            /* tcc_dtype of all but lse: F16 or BF16 */
    int64_t alignment;       /* bytes, a power of two that the addresses of all tensors are multiples of */
    int64_t workspace_bytes; /* that the call may use */
} tcc_sdpa_params;

/* x, y, dx and dy are [rows, channels], dense; all else has one f32 a channel. */
typedef struct tcc_norm_params {
    int64_t rows, channels;
    int64_t eps_bits;        /* forward: the bits of an IEEE f32; else 0 */
    int64_t type;            /* tcc_dtype of x, y, dx, dy: F32, F16 or BF16 */
    int64_t workspace_bytes; /* that the call may use */
} tcc_norm_params;

enum {
    TCC_MATMUL_PARAMS = sizeof(tcc_matmul_params) / sizeof(int64_t),
    TCC_CUDNN_CONV_PARAMS = sizeof(tcc_cudnn_conv_params) / sizeof(int64_t),
    TCC_SDPA_PARAMS = sizeof(tcc_sdpa_params) / sizeof(int64_t),
    TCC_NORM_PARAMS = sizeof(tcc_norm_params) / sizeof(int64_t),
};

typedef enum tcc_step_kind { TCC_STEP_KERNEL, TCC_STEP_LIBRARY, TCC_STEP_COPY } tcc_step_kind;

typedef struct tcc_step {
    tcc_step_kind kind;
    int kernel;      /* KERNEL: index into kernels */
    int n_instances; /* KERNEL */
    const tcc_instance *instances;
    int64_t grain;                /* KERNEL: a thread takes at least so many items at once; at least 1 */
    const tcc_library_call *call; /* LIBRARY */
    tcc_buffer from, to;          /* COPY: equal sizes, no overlap */
    double flop, bytes;           /* of all instances: arithmetic, and compulsory memory traffic */
    double predicted_s;           /* of all instances: what the choice of the implementation expected; 0: nothing */
    const char *implementation;   /* that was chosen: "contract.tiles"; "" where there was no choice */
    const char *label;            /* ops it does, "dot+add+gelu" */
    const char
        *lines; /* the user's lines it came from, "gpt.c:41,44", or layers, "gpt.transformer.h.0.mlp.c_fc,c_proj" */
} tcc_step;

typedef enum tcc_target { TCC_TARGET_HOST, TCC_TARGET_CUDA } tcc_target;

/* The struct itself comes from tcc__calloc; what it points to lies in `memory`. */
typedef struct tcc_program {
    tcc_arena memory; /* owns everything below */
    const char *name;
    tcc_target target;
    const char
        *cpu; /* LLVM's name and features, "znver4,+avx512f,-sse4a,...", or "sm_90": code must not run elsewhere */
    int64_t arena_bytes;
    const void *constants;
    int64_t constants_bytes;
    int n_bindings, n_modules, n_kernels, n_steps;
    tcc_binding *bindings;
    tcc_module *modules;
    tcc_kernel *kernels;
    tcc_step *steps;
} tcc_program;

/* Frees the program and all it owns; NULL is allowed. */
void tcc_program_destroy(tcc_program *p);

#endif
