/* SPDX-License-Identifier: MIT
 * The context: error text and log of everything made with it. No global state: two contexts work in two threads, and
 * one context is used by one thread at a time. */
#ifndef TRAINCC_CONTEXT_H
#define TRAINCC_CONTEXT_H

#include "traincc/api.h"
#include "traincc/status.h"

TCC_API_BEGIN

typedef struct tcc_context tcc_context;

/* Makes a context; reads TCC_LOG (topics, comma-separated; see tcc_context_set_log). On TCC_EINVAL (unknown topic) *out
 * is a context all the same, so that its error text can be read; NULL only after TCC_ENOMEM. */
TCC_API tcc_status tcc_context_create(tcc_context **out);
/* NULL is allowed. Models made with the context must be destroyed before it. */
TCC_API void tcc_context_destroy(tcc_context *cx);

/* Text of the last call with this context that failed: "file:line: error: ..." and notes, without a final newline; ""
 * if none did since tcc_context_clear_error. Borrowed until the next call with this context. */
TCC_API const char *tcc_context_error(const tcc_context *cx);
TCC_API void tcc_context_clear_error(tcc_context *cx);

/* Sends log lines of the topics that TCC_LOG switched on to `log` instead of standard error. */
TCC_API void tcc_context_set_log(tcc_context *cx, void (*log)(void *user, const char *topic, const char *message),
                                 void *user);

TCC_API_END
#endif
