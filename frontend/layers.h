/* SPDX-License-Identifier: MIT
 * What layers are made of. Private to the files that implement them. */
#ifndef TCC_FRONTEND_LAYERS_H
#define TCC_FRONTEND_LAYERS_H

#include "trace.h"

/* Where a layer is: a line of C as it is, a place of tcc_scope_place's with the layer's name. */
tcc_loc tcc__layer_place(const char *name, tcc_loc at);
/* The parameter NAME SUFFIX within the open scopes, of the type that they give parameters. */
tcc_tensor tcc__layer_param(tcc_trace *t, const char *name, const char *suffix, tcc_init init, int rank,
                            const int64_t *dims, tcc_loc at);
/* x [.., in] times the transpose of w [out, in]: [.., out]. */
tcc_tensor tcc__layer_product(tcc_tensor x, tcc_tensor w, tcc_loc at);

#endif
