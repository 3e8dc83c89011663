/* SPDX-License-Identifier: MIT
 * A language model whose head and loss may run in chunks of rows, trained through the public API on any device. */
#ifndef TCC_TESTS_HARNESS_CHUNKED_HEAD_H
#define TCC_TESTS_HARNESS_CHUNKED_HEAD_H

#include "traincc/traincc.h"

typedef struct head_net {
    int64_t samples, length, width, vocab;
} head_net;
extern const head_net small_head;

/* A model of a net, and a batch for it, in which some targets are ignored. */
typedef struct head_session {
    tcc_context *cx;
    tcc_model *model;
    int32_t *tokens[2];
    tcc_array batch[2];
} head_session;

/* `rows`: of a chunk; 0: by cost. */
tcc_model_options head_options(const char *device, tcc_mixed_precision precision, int64_t rows);
/* The net as it is traced; `user` is its head_net. */
void head_trace(tcc_trace *t, void *user);
void head_open(head_session *s, const head_net *n, const tcc_model_options *options);
void head_close(head_session *s);
tcc_program_info head_info(head_session *s); /* of its last program */

/* A step from equal weights has the same loss and gradients in chunks and whole, in each precision. */
void check_head_gradients(const char *device);
/* Each kernel of a step in chunks computes what the interpreter does, and each pass keeps it. */
void check_head_kernels(const char *device);

#endif
