/* SPDX-License-Identifier: MIT
 * The context: the root that every public call takes. It keeps the last error's text and the log topics; there is no
 * global state, so two contexts work in two threads. */
#ifndef TCC_SUPPORT_CONTEXT_H
#define TCC_SUPPORT_CONTEXT_H

#include "diag.h"

#include <stdbool.h>

/* Log topics, switched on by TCC_LOG=topic,... (or TCC_LOG=all): TCC_TOPIC(identifier, "text", "what it tells"). */
#define TCC_LOG_TOPICS(TCC_TOPIC)                                                                \
    TCC_TOPIC(COMPILE, "compile", "signatures that missed and why; a line per compiled program") \
    TCC_TOPIC(PASSES, "passes", "passes as they run, with times and node counts")                \
    TCC_TOPIC(FUSION, "fusion", "each fusion decision with its reason")                          \
    TCC_TOPIC(TUNE, "tune", "measurements: how far they are")                                    \
    TCC_TOPIC(CODEGEN, "codegen", "kernels: schedule, shape, size of code")                      \
    TCC_TOPIC(MEMORY, "memory", "the memory plan")                                               \
    TCC_TOPIC(DEVICE, "device", "which device was taken, and why")                               \
    TCC_TOPIC(LIBRARY, "library", "libraries found, missing or refused")                         \
    TCC_TOPIC(DATA, "data", "data files opened, rows read")

typedef enum tcc_topic {
#define TCC_TOPIC(id, text, help) TCC_LOG_##id,
    TCC_LOG_TOPICS(TCC_TOPIC)
#undef TCC_TOPIC
        TCC_TOPIC_COUNT
} tcc_topic;

typedef void (*tcc_log_fn)(void *user, const char *topic, const char *message);

typedef struct tcc_context {
    tcc_diag diag;   /* of the last failed public call */
    unsigned topics; /* bit i: topic i is on */
    tcc_log_fn log;  /* default: a line on standard error, only for topics that TCC_LOG switched on */
    void *log_user;
} tcc_context;

/* Read TCC_LOG; an unknown topic is an error that lists the known ones. */
tcc_status tcc_context_init(tcc_context *cx);
void tcc_context_clear(tcc_context *cx);

/* False too where there is no context: nobody listens. */
static inline bool tcc_log_on(const tcc_context *cx, tcc_topic topic) { return cx && cx->topics >> topic & 1; }
/* A line to the log if the topic is on. */
void tcc_logf(tcc_context *cx, tcc_topic topic, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
