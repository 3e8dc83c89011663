/* SPDX-License-Identifier: MIT
 * The example that serves a run over HTTP: many clients get the answers of tcc_run_predict while hostile ones are
 * refused, and it ends when it is told to. TCC_SERVE_CLIENTS and TCC_SERVE_SECONDS make it a longer trial. */
#include "harness/check.h"
#include "harness/exported.h"
#include "harness/files.h"
#include "harness/patience.h"
#include "harness/program.h"
#include "harness/sanitizer.h"
#include "harness/train_data.h"
#include "ir/support/context.h"
#include "traincc/traincc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int port;

/* ---- a client ---- */

static int connect_to_server(void) {
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval patience = {.tv_sec = (time_t)test_seconds(20)};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (!connect(fd, (const struct sockaddr *)&to, sizeof to)) return fd;
    close(fd);
    return -1;
}

static bool send_all(int fd, const char *text, size_t size) {
    for (ssize_t n; size; text += n, size -= (size_t)n)
        if ((n = send(fd, text, size, MSG_NOSIGNAL)) <= 0) return false;
    return true;
}

/* The status of the next reply and its body; 0: there is none. */
static int receive(int fd, char *out, size_t room) {
    size_t got = 0;
    int status = 0;
    for (;;) {
        out[got] = '\0';
        const char *end = strstr(out, "\r\n\r\n"), *length = end ? strcasestr(out, "content-length:") : NULL;
        if (length && got >= (size_t)(end + 4 - out) + strtoul(length + 15, NULL, 10)) {
            sscanf(out, "HTTP/1.%*d %d", &status);
            memmove(out, end + 4, strlen(end + 4) + 1);
            return status;
        }
        const ssize_t n = got + 1 < room ? recv(fd, out + got, room - 1 - got, 0) : 0;
        if (n <= 0) return 0;
        got += (size_t)n;
    }
}

static int post_bytes(int fd, const char *body, size_t size, char *out, size_t room) {
    char head[128];
    snprintf(head, sizeof head, "POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", size);
    return send_all(fd, head, strlen(head)) && send_all(fd, body, size) ? receive(fd, out, room) : 0;
}

static int post(int fd, const char *body, char *out, size_t room) {
    return post_bytes(fd, body, strlen(body), out, room);
}

/* ---- what is right ---- */

enum { CASES = 16 };
static char bodies[CASES][256], replies[CASES][512];

static bool take(void *user, const tcc_answer *a) {
    char *reply = user;
    char number[64];
    snprintf(number, sizeof number, "%s{\"label\":\"%s\",", *reply ? "," : "", a->label ? "y" : "x");
    strcat(reply, number);
    return true;
}

/* One to three rows each, whose labels tcc_run_predict tells. */
static void make_cases(void **state) {
    tcc_context *cx;
    tcc_run *run;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_ok(
        exported_make(cx,
                      test_write_text(state, "table.csv",
                                      "height,width,kind\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n9,9,x\n2,3,y\n1,1,x\n8,6,y\n"
                                      "3,3,x\n5,5,y\n"),
                      test_path(state, "exported")),
        &cx->diag);
    assert_ok(tcc_run_open(cx, test_path(state, "exported"), &run), &cx->diag);
    for (int i = 0; i < CASES; i++) {
        char table[256] = "height,width\n";
        strcpy(bodies[i], "{\"rows\":[");
        for (int k = 0; k <= i % 3; k++) {
            sprintf(table + strlen(table), "%d,%d.5\n", i * 5 % 11, (i + 3 * k) * 7 % 13);
            sprintf(bodies[i] + strlen(bodies[i]), "%s{\"width\":%d.5,\"height\":%d}", k ? "," : "",
                    (i + 3 * k) * 7 % 13, i * 5 % 11);
        }
        strcat(bodies[i], "]}");
        assert_ok(tcc_run_predict_bytes(run, table, strlen(table), take, replies[i]), &cx->diag);
    }
    tcc_run_close(run);
    tcc_context_destroy(cx);
}

static bool is_right(int i, const char *reply) {
    char labels[512] = "";
    for (const char *at = reply; (at = strstr(at, "{\"label\"")); at++)
        sprintf(labels + strlen(labels), "%s%.13s", *labels ? "," : "", at);
    return !strcmp(labels, replies[i]) && strstr(reply, "\"probability\":0.");
}

/* ---- many of them ---- */

static atomic_int wrong, lost, right;
static time_t ends;

static void *be_client(void *which) {
    char reply[4096];
    int fd = -1;
    for (int i = (int)(intptr_t)which; time(NULL) < ends; i++) {
        if (fd < 0) fd = connect_to_server();
        const int status = fd < 0 ? 0 : post(fd, bodies[i % CASES], reply, sizeof reply);
        if (!status) lost++;
        else if (status == 200 && is_right(i % CASES, reply)) right++;
        else wrong++;
        if (i % 50 == 49 || !status) close(fd), fd = -1; /* now and then a new connection */
    }
    if (fd >= 0) close(fd);
    return NULL;
}

/* ---- hostile ones ---- */

/* It is refused: an error's status, or the connection is closed. */
static void expect_refused(const char *request, size_t size) {
    char reply[8192];
    const int fd = connect_to_server();
    assert_true(fd >= 0);
    send_all(fd, request, size);
    shutdown(fd, SHUT_WR);
    const int got = receive(fd, reply, sizeof reply);
    if (got && got < 400) fail_msg("%.80s: %d: %s", request, got, reply);
    close(fd);
}

static void expect_status(const char *request, int status, const char *says) {
    char reply[8192];
    const int fd = connect_to_server();
    assert_true(fd >= 0);
    send_all(fd, request, strlen(request));
    const int got = receive(fd, reply, sizeof reply);
    if (got != status || (says && !strstr(reply, says))) fail_msg("%d, not %d: %s", got, status, reply);
    close(fd);
}

static void expect_post(const char *body, int status, const char *says) {
    char reply[8192];
    const int fd = connect_to_server();
    const int got = post(fd, body, reply, sizeof reply);
    if (got != status || !strstr(reply, says))
        fail_msg("%s: %d, not %d, or this does not say '%s': %s", body, got, status, says, reply);
    close(fd);
}

static void malformed(void) {
    static char huge[3 << 20];
    expect_post("", 400, "no JSON object");
    expect_post("{\"rows\":", 400, "no JSON object");
    expect_post("[1,2]", 400, "no JSON object");
    expect_post("{\"rows\":[]}", 400, "is empty");
    expect_post("{\"rows\":[3]}", 400, "a row is no object");
    expect_post("{\"rows\":[{\"height\":1,\"width\":[2]}]}", 400, "neither a number nor a text");
    expect_post("{\"rows\":[{\"height\":1,\"widht\":2}]}", 400, "a name that is no column");
    expect_post("{\"rows\":[{\"height\":\"tall\",\"width\":2}]}", 400, "tall");
    expect_post("{\"rows\":[{\"height\":\"1\\n2,3\",\"width\":2}]}", 400, "height");
    memset(huge, '[', sizeof huge - 1);
    expect_post(huge, 413, "more than 1 MiB");
    expect_post(huge + sizeof huge - 500000, 400, "no JSON object"); /* a deep one */
    expect_status("GET /predict HTTP/1.1\r\nHost: a\r\n\r\n", 405, "POST");
    expect_status("POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 404, "/predict");

    static const char *const no_http[] = {
        "\r\n\r\n", "nonsense\r\n\r\n", "POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n{}",
        "POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
        "POST /predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"};
    for (size_t i = 0; i < sizeof no_http / sizeof *no_http; i++) expect_refused(no_http[i], strlen(no_http[i]));
    expect_refused("\0\1\2\0POST", 8);
    memcpy(huge, "GET /", 5); /* a request's line without an end */
    expect_refused(huge, sizeof huge - 1);
}

/* Clients that begin a request and do not go on, or go away. They disturb nobody. */
static void slow(void) {
    enum { MANY = 40 };
    static const char begun[] = "POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: 90\r\n\r\n{\"rows";
    int silent[MANY];
    for (int i = 0; i < MANY; i++) {
        silent[i] = connect_to_server();
        send_all(silent[i], begun, i % 2 ? 33 : sizeof begun - 1);
    }
    for (int i = 0; i < MANY; i += 4) close(silent[i]);
    for (int i = 1; i < MANY; i += 4) send_all(silent[i], begun + 33, 1);
    expect_post(bodies[0], 200, "predictions");
    for (int i = 0; i < MANY; i++)
        if (i % 4) close(silent[i]);
}

/* ---- all of them together ---- */

static long resident_kib(pid_t pid) {
    char path[64], line[256];
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "VmRSS: %ld", &kib);
    if (f) fclose(f);
    return kib;
}

/* The most memory that the server had, in KiB. */
static long crowd(int clients, int seconds, pid_t server) {
    pthread_t threads[512];
    long most = 0;
    const time_t begun = time(NULL);
    ends = begun + seconds;
    for (int i = 0; i < clients; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, be_client, (void *)(intptr_t)i), 0);
    do {
        malformed();
        slow();
        const long kib = resident_kib(server);
        if (kib > most) most = kib;
        if (seconds > 1) printf("%3ld s: %ld KiB, %d right\n", (long)(time(NULL) - begun), kib, right);
    } while (time(NULL) < ends);
    for (int i = 0; i < clients; i++) pthread_join(threads[i], NULL);
    if (wrong || lost || !right) fail_msg("%d right, %d wrong, %d lost", right, wrong, lost);
    return most;
}

static program_process server; /* of the open test; pid 0: none */

static bool says_where(void *unused) {
    char line[128];
    (void)unused;
    const ssize_t n = pread(server.out, line, sizeof line - 1, 0);
    line[n > 0 ? n : 0] = '\0';
    return strchr(line, '\n') && sscanf(line, "http://127.0.0.1:%d/predict", &port) == 1;
}

static void start_server(const char *folder) {
    server = program_start(NULL, "example-serve", (const char *const[]){folder, "0", NULL});
    if (!test_wait(says_where, NULL, 10)) fail_msg("the server does not say where it listens");
}

static void end_server(void) {
    program_process p = server;
    server.pid = 0;
    kill(p.pid, SIGTERM);
    program_result r = program_wait(&p);
    if (r.status || *r.err) fail_msg("%d: %s", r.status, r.err);
    program_free(&r);
}

/* A test that fails leaves its server. */
static int clean_up(void **state) {
    if (server.pid > 0) kill(server.pid, SIGKILL), waitpid(server.pid, NULL, 0);
    server.pid = 0;
    return test_folder_remove(state);
}

static void serves(void **state) {
    const char *clients = getenv("TCC_SERVE_CLIENTS"), *seconds = getenv("TCC_SERVE_SECONDS");
    if (access(TCC_BIN_DIR "/example-serve", X_OK)) skip(); /* libmicrohttpd was not there */
    make_cases(state);
    start_server(test_path(state, "exported"));
    const int crowds = clients ? atoi(clients) : 16, half = seconds ? (atoi(seconds) + 1) / 2 : 1;
    const long before = crowd(crowds, half, server.pid), after = crowd(crowds, half, server.pid);
    printf("%d answers right, none wrong or lost; resident at most %ld KiB, then %ld KiB\n", right, before, after);
    /* AddressSanitizer keeps what was freed; its leak check looks at the server's end instead. */
    if (after > before + 8192 && !address_sanitizer)
        fail_msg("resident memory grew from %ld to %ld KiB", before, after);
    const int open = connect_to_server(); /* an idle connection does not keep it */
    end_server();
    close(open);
    program_result r = program_run(NULL, "example-serve", (const char *const[]){test_path(state, "none"), NULL});
    if (r.status != 1 || !strstr(r.err, "tcc-train export writes it")) fail_msg("%d: %s", r.status, r.err);
    program_free(&r);
}

/* ---- pictures ---- */

enum { PICTURE_COUNT = 24 };
static struct picture {
    char *bytes, label[64];
    size_t size;
} shown[PICTURE_COUNT];

static bool take_picture(void *run, const tcc_answer *a) {
    struct picture *to = &shown[a->index];
    size_t length;
    const char *name = tcc_dataset_label(tcc_run_data(run), a->label, &length);
    snprintf(to->label, sizeof to->label, "{\"label\":\"%.*s\"", (int)length, name);
    to->bytes = test_read(a->id, &to->size);
    return true;
}

static void *show_pictures(void *which) {
    char reply[1024];
    const int fd = connect_to_server();
    for (int i = 0; i < PICTURE_COUNT; i++) {
        const struct picture *p = &shown[(i + (int)(intptr_t)which) % PICTURE_COUNT];
        const int status = fd < 0 ? 0 : post_bytes(fd, p->bytes, p->size, reply, sizeof reply);
        if (!status) lost++;
        else if (status == 200 && strstr(reply, p->label)) right++;
        else wrong++;
    }
    close(fd);
    return NULL;
}

/* What is no picture is refused among those that are. */
static void refuse_others(void) {
    static char huge[17 << 20];
    const struct {
        const char *bytes;
        size_t size;
        int status;
        const char *says;
    } cases[] = {{"GIF89a", 6, 400, ""},
                 {"", 0, 400, "is to be a picture"},
                 {shown[0].bytes, 40, 400, ""},
                 {huge, sizeof huge, 413, "more than 16 MiB"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char reply[1024];
        const int fd = connect_to_server();
        const int got = post_bytes(fd, cases[i].bytes, cases[i].size, reply, sizeof reply);
        if (got != cases[i].status || !strstr(reply, cases[i].says)) fail_msg("case %zu: %d: %s", i, got, reply);
        close(fd);
    }
}

static void serves_pictures(void **state) {
    enum { CLIENTS = 8 };
    if (access(TCC_BIN_DIR "/example-serve", X_OK)) skip();
    const char *data, *folder = test_path(state, "run"), *recipe = write_kind_recipe(state, &train_kinds[6], &data);
    pthread_t threads[CLIENTS];
    tcc_context *cx;
    tcc_run *run;
    program_result r = program_run(
        NULL, "tcc-train", (const char *const[]){"--quiet", "--device", "cpu", recipe, "--run-dir", folder, NULL});
    if (r.status) fail_msg("%s", r.err);
    program_free(&r);
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_ok(tcc_run_open(cx, folder, &run), &cx->diag);
    assert_ok(tcc_run_predict(run, data, take_picture, run), &cx->diag);
    tcc_run_close(run);
    tcc_context_destroy(cx);
    start_server(folder);
    right = wrong = lost = 0;
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, show_pictures, (void *)(intptr_t)i), 0);
    refuse_others();
    for (int i = 0; i < CLIENTS; i++) pthread_join(threads[i], NULL);
    if (right != CLIENTS * PICTURE_COUNT) fail_msg("%d right, %d wrong, %d lost", right, wrong, lost);
    end_server();
    for (int i = 0; i < PICTURE_COUNT; i++) free(shown[i].bytes);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(serves, test_folder_create, clean_up),
                                       cmocka_unit_test_setup_teardown(serves_pictures, test_folder_create, clean_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
