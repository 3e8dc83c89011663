/* SPDX-License-Identifier: MIT */
#include "bench/workers.h"

#include "bench/kernel_cache.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 20000 }; /* seeds of a child */

/* Shared with the child. */
typedef struct state {
    uint64_t seed; /* at work */
    long crashed;
} state;

double workers_now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

workers workers_of_command(int argc, char **argv, const char **what) {
    const char *asked = getenv("CAMPAIGN_WORKERS");
    *what = argc > 3 ? argv[3] : "";
    setenv("TCC_CACHE_DISABLE", "1", 1);
    setenv("TCC_NUM_THREADS", "1", 0);
    setenv("TCC_POISON", "1", 0);
    setenv("PTXSIM_LOG", "none", 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    return (workers){.count = asked && atoi(asked) > 1 ? atoi(asked) : 1,
                     .first = argc > 1 ? strtoull(argv[1], NULL, 0) : 0,
                     .seeds = argc > 2 ? strtoull(argv[2], NULL, 0) : 100};
}

static void end_without_memory(void) {
    fputs("no memory\n", stderr);
    exit(1);
}

static void *shared_memory(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) end_without_memory();
    return p;
}

static void run_chunk(const workers *w, state *s, void *tally, uint64_t first, uint64_t end) {
    for (uint64_t seed = first; seed < end; seed++) {
        s->seed = seed;
        alarm(10 * (unsigned)w->seconds); /* other work may have the machine */
        setitimer(ITIMER_VIRTUAL, &(struct itimerval){.it_value = {.tv_sec = w->seconds}}, NULL);
        w->one(tally, seed);
    }
}

/* All seeds of one worker, by children that may die. */
static void run_range(const workers *w, state *s, void *tally, uint64_t first, uint64_t end) {
    for (uint64_t seed = first; seed < end;) {
        const uint64_t stop = seed + CHUNK < end ? seed + CHUNK : end;
        const pid_t child = fork();
        if (!child) {
            run_chunk(w, s, tally, seed, stop);
            exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        seed = stop;
        if (!WIFSIGNALED(status)) continue;
        printf("%llu %s (signal %d)\n", (unsigned long long)s->seed,
               WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGVTALRM ? "hangs" : "crashes", WTERMSIG(status));
        s->crashed++;
        seed = s->seed + 1;
    }
}

void *workers_run(const workers *w, size_t cache_bytes, long *crashed) {
    const uint64_t n = (uint64_t)w->count;
    if (!kernel_cache_create(cache_bytes)) end_without_memory();
    state *states = shared_memory(n * sizeof *states);
    char *tallies = shared_memory(n * w->tally_bytes);
    *crashed = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (fork()) continue;
        run_range(w, &states[i], tallies + i * w->tally_bytes, w->first + w->seeds * i / n,
                  w->first + w->seeds * (i + 1) / n);
        exit(0);
    }
    while (wait(NULL) > 0) {}
    for (uint64_t i = 0; i < n; i++) *crashed += states[i].crashed;
    return tallies;
}
