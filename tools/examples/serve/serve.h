/* SPDX-License-Identifier: MIT
 * The parts of example-serve. */
#ifndef EXAMPLE_SERVE_H
#define EXAMPLE_SERVE_H

#include <traincc/run.h>

#include <cjson/cJSON.h>
#include <microhttpd.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    MOST_ROWS = 4096,        /* of a request, and of what is answered together */
    SECONDS_OF_SILENCE = 10, /* after which a connection is closed */
};

/* What is served; it stays as it is from the first request on. */
typedef struct served {
    tcc_context *cx;
    tcc_run *run;
    enum { TABLE, TEXTS, PICTURES } takes;
    char *header;    /* the table's columns */
    char folder[32]; /* for pictures while they are answered */
} served;
extern served s;

/* One request: its rows as text, a line each, or its picture, and at last its reply. */
typedef struct job {
    char *lines;
    const char *picture; /* borrowed */
    size_t picture_bytes;
    int rows;
    cJSON *answers; /* one for each row; NULL: it has a problem */
    char problem[512];
    bool done;
    struct job *next;
} job;

/* ---- rows.c: JSON to rows ---- */

/* j->lines and j->rows; false with j->problem. */
bool rows_read(job *j, const char *body, size_t size);
/* The names of the columns that a row has, as s.header; false when memory is short. */
bool rows_make_header(void);

/* ---- queue.c: requests that wait are answered together ---- */

bool queue_start(void);
/* Waits until the job is answered. */
void queue_answer(job *j);
/* All jobs are answered, and no other comes. */
void queue_stop(void);

/* ---- clients.c: who is connected, and what they take ---- */

void clients_meet(void *unused, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode what);
/* Whether the client has to do something next, to send a request or to take a reply, or we have to answer. */
void clients_owe(struct MHD_Connection *c, bool owes);
/* Ends those that send a byte now and then. */
void clients_cut_slow(void);
/* Room for a part of a body; false: there is none. */
bool clients_take_room(size_t bytes);
void clients_give_room(size_t bytes);
/* A request begins, or its reply is sent. */
void clients_count(int more);
/* Until all that was begun is answered, or a client has been silent for too long. */
void clients_wait(void);

/* ---- http.c: a request, from its head to its reply; as libmicrohttpd calls them ---- */

enum MHD_Result http_handle(void *unused, struct MHD_Connection *c, const char *url, const char *method,
                            const char *version, const char *data, size_t *size, void **request);
void http_forget(void *unused, struct MHD_Connection *c, void **request, enum MHD_RequestTerminationCode why);

#endif
