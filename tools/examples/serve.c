/* SPDX-License-Identifier: MIT
 * A run as a service over HTTP: JSON in, JSON out. It needs libmicrohttpd, and libtraincc_rt alone, no compiler.
 *
 *   example-serve runs/NAME 8080          answers on 127.0.0.1:8080; port 0: any, which it prints
 *   curl -d '{"rows": [{"height": 1.5, "width": 2}]}' http://127.0.0.1:8080/predict      of a table
 *   curl -d '{"texts": ["a fine film"]}' http://127.0.0.1:8080/predict                  of texts
 *   curl --data-binary @photo.jpg http://127.0.0.1:8080/predict                         of pictures
 *
 * Rows of all requests that wait are answered together. SIGTERM and SIGINT end it when all that it has taken is
 * answered. */
#include <traincc/run.h>

#include <cjson/cJSON.h>
#include <malloc.h>
#include <microhttpd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    LARGEST_BODY = 1 << 20,     /* bytes of a request; more is 413 */
    LARGEST_PICTURE = 16 << 20, /* likewise */
    MOST_BYTES = 256 << 20,     /* of all requests together; more is 503 */
    LARGEST_HEAD = 32 << 10,    /* bytes of a request's lines before its body, at most */
    MOST_ROWS = 4096,           /* of a request, and of what is answered together */
    MOST_CONNECTIONS = 1024,    /* more wait to be accepted */
    SECONDS_OF_SILENCE = 10,    /* after which a connection is closed */
    SECONDS_OF_A_REQUEST = 30   /* from a connection or the last reply to the end of a request */
};

/* ---- requests that wait ---- */

/* One request: its rows as text, a line each, or its picture, and at last its reply. */
typedef struct job {
    char *lines;
    const char *picture; /* borrowed */
    size_t picture_bytes;
    int rows;
    cJSON *answers; /* one for each row */
    char problem[512];
    bool done;
    struct job *next;
} job;

/* Who is connected. */
typedef struct client {
    int fd;
    int64_t since; /* it owes us a request, or its taking of a reply, in seconds; 0: we owe it a reply */
    struct client *next;
} client;

typedef struct server {
    tcc_context *cx;
    tcc_run *run;
    enum { TABLE, TEXTS, PICTURES } takes;
    char *header;     /* the table's columns */
    char folder[32];  /* for pictures while they are answered */
    client *clients;  /* all of them */
    size_t all_bytes; /* of the bodies that are here */
    pthread_mutex_t mutex;
    pthread_cond_t waiting, answered, idle;
    job *first, **last;
    int requests; /* whose replies are not yet sent */
    bool stopping;
} server;

static server s = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                   .waiting = PTHREAD_COND_INITIALIZER,
                   .answered = PTHREAD_COND_INITIALIZER,
                   .idle = PTHREAD_COND_INITIALIZER,
                   .last = &s.first};

/* ---- JSON to rows ---- */

static void put_cell(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static bool put_value(FILE *out, const cJSON *value) {
    if (cJSON_IsString(value)) put_cell(out, value->valuestring);
    else if (cJSON_IsNumber(value)) fprintf(out, "%.17g", value->valuedouble);
    else return !value || cJSON_IsNull(value); /* missing */
    return true;
}

static bool is_input(const tcc_column *c) { return c->features > 0; }

/* A row by the names of the columns; what is no column is an error. */
static bool put_row(job *j, FILE *out, const cJSON *row) {
    tcc_column c;
    int taken = 0;
    bool first = true;
    if (!cJSON_IsObject(row)) return !snprintf(j->problem, sizeof j->problem, "a row is no object");
    for (int64_t i = 0; tcc_dataset_column(tcc_run_data(s.run), i, &c); i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(row, c.name);
        taken += value != NULL;
        if (!is_input(&c)) continue;
        if (!first) fputc(',', out);
        first = false;
        if (put_value(out, value)) continue;
        snprintf(j->problem, sizeof j->problem, "\"%.100s\" is neither a number nor a text", c.name);
        return false;
    }
    fputc('\n', out);
    if (taken == cJSON_GetArraySize(row)) return true;
    snprintf(j->problem, sizeof j->problem, "a row has a name that is no column; columns are %.400s", s.header);
    return false;
}

static bool put_text(job *j, FILE *out, const cJSON *text) {
    if (!cJSON_IsString(text)) return !snprintf(j->problem, sizeof j->problem, "a text is no string");
    for (const char *at = text->valuestring; *at; at++) fputc(*at == '\n' || *at == '\r' ? ' ' : *at, out);
    fputc('\n', out);
    return true;
}

/* j->lines and j->rows; false with j->problem. */
static bool read_request(job *j, const char *body, size_t size) {
    size_t length;
    cJSON *all = cJSON_ParseWithLength(body, size);
    const char *key = s.takes == TEXTS ? "texts" : "rows";
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(all, key), *item;
    FILE *out = open_memstream(&j->lines, &length);
    bool ok = cJSON_IsArray(list) && out;
    if (!ok) snprintf(j->problem, sizeof j->problem, "the body is no JSON object with a list \"%s\"", key);
    cJSON_ArrayForEach(item, list) {
        if (!ok) break;
        ok = s.takes == TEXTS ? put_text(j, out, item) : put_row(j, out, item);
        if (++j->rows > MOST_ROWS) ok = !snprintf(j->problem, sizeof j->problem, "more than %d rows", MOST_ROWS);
    }
    if (ok && !j->rows) ok = !snprintf(j->problem, sizeof j->problem, "\"%s\" is empty", key);
    if (out) fclose(out);
    cJSON_Delete(all);
    return ok;
}

/* ---- answering ---- */

/* The jobs whose rows are being answered, and the one whose turn it is. */
typedef struct turn {
    job *at;
    int row;
} turn;

static bool take_answer(void *user, const tcc_answer *a) {
    turn *t = user;
    size_t length;
    cJSON *row = cJSON_CreateObject();
    const char *name = a->label < 0 ? NULL : tcc_dataset_label(tcc_run_data(s.run), a->label, &length);
    if (name) {
        cJSON_AddStringToObject(row, "label", name);
        cJSON_AddNumberToObject(row, "probability", a->values[a->label]);
    } else {
        cJSON *values = cJSON_AddArrayToObject(row, "values");
        for (int64_t i = 0; i < a->n_values; i++) cJSON_AddItemToArray(values, cJSON_CreateNumber(a->values[i]));
    }
    cJSON_AddItemToArray(t->at->answers, row);
    if (++t->row == t->at->rows) *t = (turn){t->at->next, 0};
    return true;
}

static bool answer_rows(job *list, turn *t) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return false;
    if (s.takes == TABLE) fprintf(out, "%s\n", s.header);
    for (const job *j = list; j; j = j->next) fputs(j->lines, out);
    const bool ok = !fclose(out) && tcc_run_predict_bytes(s.run, text, size, take_answer, t) == TCC_OK;
    free(text);
    return ok;
}

/* Pictures are files of a folder, in the order of their names. What they are is seen by their bytes. */
static void picture_path(int i, char path[64]) { snprintf(path, 64, "%s/%06d.png", s.folder, i); }

static bool answer_pictures(job *list, turn *t) {
    char path[64];
    int count = 0;
    bool ok = true;
    for (const job *j = list; j && ok; j = j->next) {
        picture_path(count++, path);
        FILE *out = fopen(path, "wbx");
        ok = out && fwrite(j->picture, 1, j->picture_bytes, out) == j->picture_bytes;
        if (out) ok = !fclose(out) && ok;
    }
    ok = ok && tcc_run_predict(s.run, s.folder, take_answer, t) == TCC_OK;
    for (int i = 0; i < count; i++) {
        picture_path(i, path);
        unlink(path);
    }
    return ok;
}

/* Answers all jobs of a list as one; false: some of them cannot be. */
static bool answer(job *list) {
    turn t = {list, 0};
    for (job *j = list; j; j = j->next) j->answers = cJSON_CreateArray();
    const bool ok = (s.takes == PICTURES ? answer_pictures(list, &t) : answer_rows(list, &t)) && !t.at;
    for (job *j = list; j && !ok; j = j->next) {
        cJSON_Delete(j->answers);
        j->answers = NULL;
    }
    return ok;
}

/* One at a time where they cannot be answered together, to find out which is to blame. */
static void answer_each(job *list) {
    for (job *next; list; list = next) {
        next = list->next;
        list->next = NULL;
        if (answer(list)) continue;
        const char *why = tcc_context_error(s.cx), *colon = strstr(why, "error: "); /* without our file's name */
        snprintf(list->problem, sizeof list->problem, "%s", colon ? colon + 7 : why);
    }
}

/* Takes from the queue what is answered together. The mutex is held. */
static job *take_jobs(job *all[MOST_ROWS], int *count) {
    job *list = s.first, **end = &s.first;
    int rows = 0;
    for (*count = 0; *end && *count < MOST_ROWS && (!rows || rows + (*end)->rows <= MOST_ROWS); end = &(*end)->next) {
        rows += (*end)->rows;
        all[(*count)++] = *end;
    }
    s.first = *end;
    *end = NULL;
    if (!s.first) s.last = &s.first;
    return list;
}

static void *work(void *unused) {
    static job *jobs[MOST_ROWS];
    int count;
    pthread_mutex_lock(&s.mutex);
    for (;;) {
        while (!s.first && !s.stopping) pthread_cond_wait(&s.waiting, &s.mutex);
        if (!s.first) break;
        job *list = take_jobs(jobs, &count);
        pthread_mutex_unlock(&s.mutex);
        if (!answer(list)) answer_each(list);
        pthread_mutex_lock(&s.mutex);
        for (int i = 0; i < count; i++) jobs[i]->done = true;
        pthread_cond_broadcast(&s.answered);
    }
    pthread_mutex_unlock(&s.mutex);
    return unused;
}

/* Waits until it is answered. */
static void queue(job *j) {
    pthread_mutex_lock(&s.mutex);
    *s.last = j;
    s.last = &j->next;
    pthread_cond_signal(&s.waiting);
    while (!j->done) pthread_cond_wait(&s.answered, &s.mutex);
    pthread_mutex_unlock(&s.mutex);
}

static void count_request(int more) {
    pthread_mutex_lock(&s.mutex);
    s.requests += more;
    if (!s.requests) pthread_cond_signal(&s.idle);
    pthread_mutex_unlock(&s.mutex);
}

/* Until all that was begun is answered, or a client has been silent for too long. */
static void wait_for_replies(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += SECONDS_OF_SILENCE;
    pthread_mutex_lock(&s.mutex);
    for (int late = 0; s.requests && !late;) late = pthread_cond_timedwait(&s.idle, &s.mutex, &end);
    pthread_mutex_unlock(&s.mutex);
}

/* ---- clients ---- */

static int64_t now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1;
}

static void meet(void *unused, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode what) {
    (void)unused;
    pthread_mutex_lock(&s.mutex);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        client *new = malloc(sizeof *new);
        if (new) {
            *new = (client){MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd, now_seconds(),
                            s.clients};
            s.clients = new;
        }
        *context = new;
    } else {
        client **at = &s.clients;
        while (*at && *at != *context) at = &(*at)->next;
        client *gone = *at;
        if (gone) *at = gone->next;
        free(gone);
    }
    pthread_mutex_unlock(&s.mutex);
}

static void client_owes(struct MHD_Connection *c, bool owes) {
    client *of = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    pthread_mutex_lock(&s.mutex);
    if (of) of->since = owes ? now_seconds() : 0;
    pthread_mutex_unlock(&s.mutex);
}

/* Of those that send a byte now and then. */
static void cut_slow_clients(void) {
    const int64_t now = now_seconds();
    pthread_mutex_lock(&s.mutex);
    for (const client *c = s.clients; c; c = c->next)
        if (c->since && now - c->since > SECONDS_OF_A_REQUEST) shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_unlock(&s.mutex);
}

/* Takes room for a part of a body, or gives it back. */
static bool count_bytes(size_t more, size_t less) {
    pthread_mutex_lock(&s.mutex);
    const bool fits = s.all_bytes + more <= MOST_BYTES;
    if (fits) s.all_bytes += more - less;
    pthread_mutex_unlock(&s.mutex);
    return fits;
}

/* ---- HTTP ---- */

typedef struct body {
    char *data;
    size_t size;
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
        if (b->size) queue(&j);
        else strcpy(j.problem, "the body is empty; it is to be a picture");
    } else if (read_request(&j, b->data ? b->data : "", b->size)) {
        queue(&j);
    }
    free(j.lines);
    if (!j.answers) return reply_problem(c, MHD_HTTP_BAD_REQUEST, j.problem);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddItemToObject(json, "predictions", j.answers);
    return reply(c, MHD_HTTP_OK, json);
}

static void take_part(body *b, const char *data, size_t size) {
    const size_t most = s.takes == PICTURES ? LARGEST_PICTURE : LARGEST_BODY;
    if (b->problem) return; /* the rest is read and dropped, so that the client gets its answer */
    if (b->size + size > most) b->problem = MHD_HTTP_CONTENT_TOO_LARGE;
    else if (!count_bytes(size, 0)) b->problem = MHD_HTTP_SERVICE_UNAVAILABLE;
    if (b->problem) return;
    char *larger = realloc(b->data, b->size + size);
    if (larger) {
        memcpy(larger + b->size, data, size);
        b->data = larger;
        b->size += size;
    } else {
        b->problem = MHD_HTTP_SERVICE_UNAVAILABLE;
        count_bytes(0, size);
    }
}

static enum MHD_Result answer_request(struct MHD_Connection *c, const char *url, const char *method, const body *b) {
    if (strcmp(url, "/predict") != 0) return reply_problem(c, MHD_HTTP_NOT_FOUND, "there is /predict alone");
    if (strcmp(method, "POST") != 0)
        return reply_problem(c, MHD_HTTP_METHOD_NOT_ALLOWED,
                             s.takes == PICTURES ? "POST a picture" : "POST a JSON object");
    return respond(c, b);
}

static enum MHD_Result handle(void *unused, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **request) {
    (void)unused, (void)version;
    body *b = *request;
    if (!b) { /* the head has come */
        *request = calloc(1, sizeof *b);
        if (!*request) return MHD_NO;
        count_request(1);
        return MHD_YES;
    }
    if (*size) {
        take_part(b, data, *size);
        *size = 0;
        return MHD_YES;
    }
    client_owes(c, false);
    const enum MHD_Result result = answer_request(c, url, method, b);
    client_owes(c, true);
    return result;
}

static void forget(void *unused, struct MHD_Connection *c, void **request, enum MHD_RequestTerminationCode why) {
    (void)unused, (void)why;
    body *b = *request;
    if (!b) return;
    client_owes(c, true);
    count_bytes(0, b->size);
    free(b->data);
    free(b);
    *request = NULL;
    count_request(-1);
}

/* ---- the program ---- */

static bool look_at_run(void) {
    tcc_dataset_info info;
    tcc_column c;
    size_t size;
    tcc_dataset_get_info(tcc_run_data(s.run), &info);
    s.takes = !strcmp(info.kind, "text_classes") ? TEXTS : !strcmp(info.kind, "images") ? PICTURES : TABLE;
    if (s.takes == TABLE && strcmp(info.kind, "csv") != 0) {
        fprintf(stderr, "a run on data of kind %s is not served: it is one of tables, texts or pictures\n", info.kind);
        return false;
    }
    strcpy(s.folder, "/tmp/serve.XXXXXX");
    if (s.takes == PICTURES && !mkdtemp(s.folder)) {
        perror("cannot make a folder in /tmp");
        return false;
    }
    FILE *out = open_memstream(&s.header, &size);
    for (int64_t i = 0, n = 0; s.takes == TABLE && tcc_dataset_column(tcc_run_data(s.run), i, &c); i++) {
        if (!is_input(&c)) continue;
        if (n++) fputc(',', out);
        put_cell(out, c.name);
    }
    return out && !fclose(out);
}

/* Until it is told to end. */
static void watch(const sigset_t *ends) {
    const struct timespec second = {.tv_sec = 1};
    while (sigtimedwait(ends, NULL, &second) < 0) cut_slow_clients();
}

static int serve(unsigned short port) {
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sigset_t ends;
    pthread_t worker;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* threads inherit it: this one alone waits for them */
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC, port, NULL, NULL,
        handle, NULL, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_NOTIFY_COMPLETED, forget, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, meet, NULL, MHD_OPTION_CONNECTION_LIMIT, MOST_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, SECONDS_OF_SILENCE, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)LARGEST_HEAD,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)1 << 18, MHD_OPTION_END);
    if (!daemon || pthread_create(&worker, NULL, work, NULL)) {
        perror("cannot serve");
        return 1;
    }
    printf("http://127.0.0.1:%u/predict\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    watch(&ends);
    close(MHD_quiesce_daemon(daemon)); /* nothing new is accepted */
    wait_for_replies();
    MHD_stop_daemon(daemon);
    pthread_mutex_lock(&s.mutex);
    s.stopping = true;
    pthread_cond_signal(&s.waiting);
    pthread_mutex_unlock(&s.mutex);
    pthread_join(worker, NULL);
    return 0;
}

int main(int argc, char **argv) {
    const long port = argc > 2 ? strtol(argv[2], NULL, 10) : 8080;
    if (argc < 2 || port < 0 || port > 65535) {
        fputs("usage: example-serve FOLDER [PORT]\n", stderr);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    mallopt(M_ARENA_MAX, 1); /* a heap for each of many threads would keep what each once needed */
    int status = 1;
    if (tcc_context_create(&s.cx) == TCC_OK && tcc_run_open(s.cx, argv[1], &s.run) == TCC_OK)
        status = look_at_run() ? serve((unsigned short)port) : 1;
    else fprintf(stderr, "%s\n", tcc_context_error(s.cx));
    if (s.takes == PICTURES) rmdir(s.folder);
    free(s.header);
    tcc_run_close(s.run);
    tcc_context_destroy(s.cx);
    return status;
}
