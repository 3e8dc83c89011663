/* SPDX-License-Identifier: MIT
 * A network in the making. Private to net_*.c. Blocks take the value that the network has come to and return the next
 * one, of the same form. No block may depend on the extent of the batch: micro-batches have another. */
#ifndef TCC_TESTS_HARNESS_NET_MAKER_H
#define TCC_TESTS_HARNESS_NET_MAKER_H

#include "harness/user_maker.h"

typedef enum net_form {
    NET_IMAGE,    /* [N, C, spatial], 1 to 3 spatial dims */
    NET_SEQUENCE, /* [N, T, C] */
    NET_VECTOR,   /* [N, C] */
} net_form;

/* -- Steps -- */

/* A step with a name of its own. */
int net_step(user_maker *m, user_step s);
int net_activation(user_maker *m, int x);
int net_norm(user_maker *m, int x, net_form form);
int net_row_norm(user_maker *m, int x); /* over the last dim */
int net_dropout(user_maker *m, int x);
/* A norm, an activation, both or neither; `percent`: how likely each of them is. */
int net_dressing(user_maker *m, int x, net_form form, int percent);
int net_linear(user_maker *m, int x, int64_t features);
int net_mean(user_maker *m, int x); /* over all elements */
/* Image [N, C, spatial] with the channels last, and back. */
int net_channels_last(user_maker *m, int x);
int net_channels_first(user_maker *m, int x);
int64_t net_channels(user_maker *m);
int64_t net_width(user_maker *m, double rows); /* of so many rows */
/* Whether so many products and elements may still be added; takes the products. */
bool net_afford(user_maker *m, double products, double elements);
/* The elements of v for each sample of the batch. */
static inline int64_t net_each(const user_maker *m, int v) { return user_count(m, v) / user_dim(m, v, 0); }
static inline double net_rows(const user_maker *m, int v) { /* of its last dim */
    return (double)user_count(m, v) / (double)user_dim(m, v, -1);
}
static inline bool net_accumulates(const user_maker *m) { return m->p->batch_accumulate > 1; }

/* -- Blocks -- */

int net_conv(user_maker *m, int x, int64_t channels); /* of any options; x where it cannot be afforded */
int net_conv_plain(user_maker *m, int x, int64_t channels, int64_t kernel, int64_t groups); /* keeps the extents */
int net_image_block(user_maker *m, int x);
int net_sequence_block(user_maker *m, int x);
int net_vector_block(user_maker *m, int x);

/* -- Ends -- */

int net_loss(user_maker *m, int x, net_form form); /* a scalar */

#endif
