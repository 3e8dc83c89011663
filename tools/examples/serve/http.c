/* SPDX-License-Identifier: MIT
 * A request over HTTP: its body comes in parts, its reply is JSON. */
#include "serve.h"

#include <stdlib.h>
#include <string.h>

enum {
    LARGEST_BODY = 1 << 20,    /* bytes of a request; more is 413 */
    LARGEST_PICTURE = 16 << 20 /* likewise */
};

typedef struct body {
    char *data;
    size_t size, room;
    unsigned problem; /* a status of HTTP; 0: none */
} body;

static enum MHD_Result reply(struct MHD_Connection *c, unsigned status, cJSON *json) {
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    if (!text) return MHD_NO;
    struct MHD_Response *r = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, "Content-Type", "application/json");
    const enum MHD_Result result = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result reply_problem(struct MHD_Connection *c, unsigned status, const char *problem) {
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "error", problem);
    return reply(c, status, json);
}

static enum MHD_Result respond(struct MHD_Connection *c, const body *b) {
    job j = {0};
    if (b->problem == MHD_HTTP_CONTENT_TOO_LARGE)
        return reply_problem(c, b->problem,
                             s.takes == PICTURES ? "the picture has more than 16 MiB" : "the body has more than 1 MiB");
    if (b->problem) return reply_problem(c, b->problem, "there is no memory for the body now");
    if (s.takes == PICTURES) {
        j = (job){.picture = b->data, .picture_bytes = b->size, .rows = 1};
        if (b->size) queue_answer(&j);
        else strcpy(j.problem, "the body is empty; it is to be a picture");
    } else if (rows_read(&j, b->data ? b->data : "", b->size)) {
        queue_answer(&j);
    }
    free(j.lines);
    if (!j.answers) return reply_problem(c, MHD_HTTP_BAD_REQUEST, j.problem);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddItemToObject(json, "predictions", j.answers);
    return reply(c, MHD_HTTP_OK, json);
}

/* Room for `size` more bytes of at most `most`. It doubles: a body comes in hundreds of parts. */
static bool make_room(body *b, size_t size, size_t most) {
    if (b->size + size <= b->room) return true;
    size_t room = b->room > most / 2 ? most : 2 * b->room;
    if (room < b->size + size) room = b->size + size;
    if (!clients_take_room(room - b->room)) return false;
    char *larger = realloc(b->data, room);
    if (!larger) {
        clients_give_room(room - b->room);
        return false;
    }
    b->data = larger;
    b->room = room;
    return true;
}

static void take_part(body *b, const char *data, size_t size) {
    const size_t most = s.takes == PICTURES ? LARGEST_PICTURE : LARGEST_BODY;
    if (b->problem) return; /* the rest is read and dropped, so that the client gets its answer */
    if (b->size + size > most) b->problem = MHD_HTTP_CONTENT_TOO_LARGE;
    else if (!make_room(b, size, most)) b->problem = MHD_HTTP_SERVICE_UNAVAILABLE;
    if (b->problem) return;
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static enum MHD_Result answer_request(struct MHD_Connection *c, const char *url, const char *method, const body *b) {
    if (strcmp(url, "/predict") != 0) return reply_problem(c, MHD_HTTP_NOT_FOUND, "there is /predict alone");
    if (strcmp(method, "POST") != 0)
        return reply_problem(c, MHD_HTTP_METHOD_NOT_ALLOWED,
                             s.takes == PICTURES ? "POST a picture" : "POST a JSON object");
    return respond(c, b);
}

enum MHD_Result http_handle(void *unused, struct MHD_Connection *c, const char *url, const char *method,
                            const char *version, const char *data, size_t *size, void **request) {
    (void)unused, (void)version;
    body *b = *request;
    if (!b) { /* the head has come */
        *request = calloc(1, sizeof *b);
        if (!*request) return MHD_NO;
        clients_count(1);
        return MHD_YES;
    }
    if (*size) {
        take_part(b, data, *size);
        *size = 0;
        return MHD_YES;
    }
    clients_owe(c, false);
    const enum MHD_Result result = answer_request(c, url, method, b);
    clients_owe(c, true);
    return result;
}

void http_forget(void *unused, struct MHD_Connection *c, void **request, enum MHD_RequestTerminationCode why) {
    (void)unused, (void)why;
    body *b = *request;
    if (!b) return;
    clients_owe(c, true);
    clients_give_room(b->room);
    free(b->data);
    free(b);
    *request = NULL;
    clients_count(-1);
}
