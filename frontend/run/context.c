/* SPDX-License-Identifier: MIT
 * The public face of the context. */
#include "traincc/context.h"

#include "ir/support/alloc.h"
#include "ir/support/context.h"

tcc_status tcc_context_create(tcc_context **out) {
    *out = tcc__calloc(1, sizeof **out);
    if (!*out) return TCC_ENOMEM;
    return tcc_context_init(*out);
}

void tcc_context_destroy(tcc_context *cx) {
    if (!cx) return;
    tcc_context_clear(cx);
    tcc__free(cx);
}

const char *tcc_context_error(const tcc_context *cx) { return tcc_diag_last(&cx->diag); }

void tcc_context_clear_error(tcc_context *cx) { tcc_diag_clear(&cx->diag); }

void tcc_context_set_log(tcc_context *cx, void (*log)(void *user, const char *topic, const char *message), void *user) {
    cx->log = log;
    cx->log_user = user;
}
