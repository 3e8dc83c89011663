/* SPDX-License-Identifier: MIT
 * Context and log. */
#include "context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const topic_text[TCC_TOPIC_COUNT] = {
#define TCC_TOPIC(id, text, help) text,
    TCC_LOG_TOPICS(TCC_TOPIC)
#undef TCC_TOPIC
};

static void log_to_stderr(void *user, const char *topic, const char *message) {
    (void)user;
    fprintf(stderr, "tcc %s: %s\n", topic, message);
}

static int topic_of(const char *name, size_t length) {
    for (int i = 0; i < TCC_TOPIC_COUNT; i++)
        if (strlen(topic_text[i]) == length && !memcmp(topic_text[i], name, length)) return i;
    return -1;
}

tcc_status tcc_context_init(tcc_context *cx) {
    *cx = (tcc_context){.log = log_to_stderr};
    const char *text = getenv("TCC_LOG");
    while (text && *text) {
        size_t length = strcspn(text, ",");
        int topic = topic_of(text, length);
        if (topic >= 0) cx->topics |= 1u << topic;
        else if (length == 3 && !memcmp(text, "all", 3)) cx->topics = ~0u;
        else if (length)
            return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE,
                             "TCC_LOG: unknown topic '%.*s'; topics are all"
#define TCC_TOPIC(id, text, help) ", " text
                             TCC_LOG_TOPICS(TCC_TOPIC)
#undef TCC_TOPIC
                                 ,
                             (int)length, text);
        text += length + (text[length] == ',');
    }
    return TCC_OK;
}

void tcc_context_clear(tcc_context *cx) { tcc_diag_clear(&cx->diag); }

void tcc_logf(tcc_context *cx, tcc_topic topic, const char *format, ...) {
    if (!tcc_log_on(cx, topic)) return;
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    cx->log(cx->log_user, topic_text[topic], message);
}
