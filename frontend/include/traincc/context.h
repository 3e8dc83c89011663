/* SPDX-License-Identifier: MIT
 * The context keeps the error text and the log of everything that is made with it. There is no global state: two
 * contexts work in two threads. One context is used by one thread at a time. */
#ifndef TRAINCC_CONTEXT_H
#define TRAINCC_CONTEXT_H

#include "traincc/api.h"
#include "traincc/status.h"

TCC_API_BEGIN

typedef struct tcc_context tcc_context;

/* Makes a context, which the caller destroys. Reads the environment's TCC_LOG: topics whose lines are logged,
 * comma-separated. Errors: TCC_EINVAL (an unknown topic), TCC_ENOMEM. After TCC_EINVAL *out is a context all the same,
 * so that its error text can be read; it is NULL only after TCC_ENOMEM. */
TCC_API tcc_status tcc_context_create(tcc_context **out);
/* NULL is allowed. What was made with the context must be destroyed before it. */
TCC_API void tcc_context_destroy(tcc_context *cx);

/* The text of the last call with this context that failed: "file:line: error: ..." and notes, without a final newline.
 * It is "" if none failed since tcc_context_clear_error. Borrowed until the next call with this context. */
TCC_API const char *tcc_context_error(const tcc_context *cx);
/* Forgets it, so that the next text tells of a later call. */
TCC_API void tcc_context_clear_error(tcc_context *cx);

/* Calls `log` with each log line of the topics that TCC_LOG switched on, instead of writing it to standard error. The
 * texts are borrowed for that call. */
TCC_API void tcc_context_set_log(tcc_context *cx, void (*log)(void *user, const char *topic, const char *message),
                                 void *user);

TCC_API_END
#endif
