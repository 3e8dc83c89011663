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
#include "serve.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    LARGEST_HEAD = 32 << 10, /* bytes of a request's lines before its body, at most */
    MOST_CONNECTIONS = 1024  /* more wait to be accepted */
};

served s;

static bool look_at_run(void) {
    tcc_dataset_info info;
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
    return s.takes != TABLE || rows_make_header();
}

/* Until it is told to end. */
static void watch(const sigset_t *ends) {
    const struct timespec second = {.tv_sec = 1};
    while (sigtimedwait(ends, NULL, &second) < 0) clients_cut_slow();
}

static int serve(unsigned short port) {
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* threads inherit it: this one alone waits for them */
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC, port, NULL, NULL,
        http_handle, NULL, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_NOTIFY_COMPLETED, http_forget, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, clients_meet, NULL, MHD_OPTION_CONNECTION_LIMIT, MOST_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, SECONDS_OF_SILENCE, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)LARGEST_HEAD,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)1 << 18, MHD_OPTION_END);
    if (!daemon || !queue_start()) {
        perror("cannot serve");
        return 1;
    }
    printf("http://127.0.0.1:%u/predict\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    watch(&ends);
    close(MHD_quiesce_daemon(daemon)); /* nothing new is accepted */
    clients_wait();
    MHD_stop_daemon(daemon);
    queue_stop();
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
