/* SPDX-License-Identifier: MIT
 * The built programs, run as a user runs them. */
#include "program.h"
#include "check.h"
#include "sanitizer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 32 };

/* In the child, between fork and exec. */
static void become(const program_options *o, int out, int err, char **argv) {
    signal(SIGHUP, SIG_DFL); /* ignored where nohup started the tests */
    int in = open(o->input ? o->input : "/dev/null", O_RDONLY);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    if (o->folder && chdir(o->folder)) _exit(126);
    if (o->environment && putenv((char *)o->environment)) _exit(126);
    const struct rlimit limit = {(rlim_t)o->file_limit_bytes, (rlim_t)o->file_limit_bytes};
    if (o->file_limit_bytes && setrlimit(RLIMIT_FSIZE, &limit)) _exit(126);
    const struct rlimit memory = {(rlim_t)o->memory_limit_bytes, (rlim_t)o->memory_limit_bytes};
    if (o->memory_limit_bytes && setrlimit(RLIMIT_AS, &memory)) _exit(126);
    execv(argv[0], argv);
    _exit(127);
}

static int scratch_file(void) {
    FILE *f = tmpfile();
    if (!f) fail_msg("no temporary file");
    int fd = fcntl(fileno(f), F_DUPFD_CLOEXEC, 0);
    fclose(f);
    return fd;
}

program_process program_start(const program_options *options, const char *name, const char *const *arguments) {
    static const program_options none = {0};
    char path[4096], *argv[MOST_ARGUMENTS + 2] = {path};
    snprintf(path, sizeof path, "%s%s%s", *name == '/' ? "" : TCC_BIN_DIR, *name == '/' ? "" : "/", name);
    for (int i = 0; arguments[i]; i++) {
        if (i == MOST_ARGUMENTS) fail_msg("too many arguments");
        argv[i + 1] = (char *)arguments[i];
    }
    program_process p = {.out = scratch_file(), .err = scratch_file()};
    p.pid = fork();
    if (p.pid < 0) fail_msg("fork failed");
    if (p.pid == 0) become(options ? options : &none, p.out, p.err, argv);
    return p;
}

static char *take_output(int fd) {
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    if (!text || pread(fd, text, (size_t)size, 0) != size) fail_msg("cannot read a program's output");
    close(fd);
    return text;
}

program_result program_wait(program_process *p) {
    int status;
    if (waitpid(p->pid, &status, 0) != p->pid) fail_msg("waitpid failed");
    program_result r = {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
    r.out = take_output(p->out);
    r.err = take_output(p->err);
    return r;
}

program_result program_run(const program_options *options, const char *name, const char *const *arguments) {
    program_process p = program_start(options, name, arguments);
    return program_wait(&p);
}

void program_free(program_result *r) {
    free(r->out);
    free(r->err);
}

char *program_output(program_result r) {
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    char *text = strdup(r.out);
    program_free(&r);
    return text;
}

bool program_takes_memory_limit(void) {
    if (address_sanitizer) puts("skipped: AddressSanitizer reserves terabytes of address space");
    return !address_sanitizer;
}

void program_own_cache(void) {
    static const char *const files[] = {"cache.sqlite", "cache.sqlite-wal", "cache.sqlite-shm"};
    const char *folder = getenv("TCC_CACHE_DIR");
    if (!folder) return;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        remove(path);
    }
    setenv("TCC_CACHE_DISABLE", "0", 1);
}

void program_share_cache(void) {
    const char *folder = getenv("TCC_TEST_KERNELS");
    char path[4096];
    if (!folder) {
        program_own_cache();
        return;
    }
    snprintf(path, sizeof path, "%s/programs", folder);
    setenv("TCC_CACHE_DIR", path, 1);
    setenv("TCC_CACHE_DISABLE", "0", 1);
}
