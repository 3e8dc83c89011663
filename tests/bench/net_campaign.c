/* SPDX-License-Identifier: MIT
 * Many random networks of real sizes: net_campaign FIRST_SEED COUNT [show|c|shrink]. Prints each that disagrees with
 * eager, as its seed, what disagrees and the network as C, and counts in the end.
 *
 *     net_campaign 1 20000         CAMPAIGN_WORKERS=2: two processes. Without the next: no shrinking
 *     net_campaign 4711 1 shrink   makes those that disagree smaller
 *     net_campaign 4711 1 c        the network as C
 *     NET_GPU=1 net_campaign 1 20  small ones, on a CUDA device too, as the stand-in
 *     NET_BUDGET=50% net_campaign 1 500    all of them once more within that budget: "min", a share or bytes */
#include "bench/kernel_cache.h"
#include "bench/workers.h"
#include "harness/net_check.h"
#include "harness/net_random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_BYTES ((size_t)4 << 30) /* of kernels; taken as it fills */

enum { SECONDS = 200, SHRINK_SECONDS = 60 };

typedef struct tally {
    long ran, refused, disagreed, compared, vague, checked[NET_MODES], by_mode[NET_MODES];
    double worst;
} tally;

static bool gpu, verbose, shrink;

static const char *make(uint64_t seed, user_program *out) {
    static const net_options real = {0}, small = {.small = true};
    const char *refused = net_random(gpu ? &small : &real, seed, out);
    if (getenv("NET_BUDGET")) out->memory_budget = getenv("NET_BUDGET"), out->segment_steps = 0;
    return refused;
}

static unsigned modes_of(uint64_t seed) {
    unsigned modes = NET_DEFAULT | NET_BUDGET;
    if (seed % 8 == 1) modes |= NET_THREADS;
    if (seed % 8 == 5) modes |= NET_REPLAY;
    return gpu ? modes | NET_GPU : modes;
}

static void show(const user_program *p) {
    tcc_strbuf text = {0};
    user_program_print_c(&text, p);
    fputs(text.text ? text.text : "", stdout);
    tcc_strbuf_free(&text);
}

static void run_one(void *user, uint64_t seed) {
    static user_program p;
    tally *t = user;
    net_verdict v;
    const unsigned modes = modes_of(seed);
    const char *refused = make(seed, &p);
    if (refused) {
        printf("%llu refused: %s\n", (unsigned long long)seed, refused);
        t->disagreed++;
        return;
    }
    const double start = workers_now_seconds();
    net_check(&p, modes, &v);
    t->ran++;
    t->refused += v.refused;
    t->compared += v.compared;
    t->vague += v.vague;
    for (int i = 0; i < NET_MODES; i++) t->checked[i] += modes >> i & 1, t->by_mode[i] += v.mode >> i & 1;
    if (!v.mode && v.worst > t->worst) t->worst = v.worst;
    if (verbose)
        printf("%llu: %d steps, %.2f s, worst %.3f of what is allowed: %s\n", (unsigned long long)seed, p.n_steps,
               workers_now_seconds() - start, v.worst, v.worst_name);
    if (!v.mode) return;
    t->disagreed++;
    printf("%llu %s: %s\n", (unsigned long long)seed, net_mode_name(v.mode), v.text);
    if (shrink) {
        net_shrink(&p, &v, SHRINK_SECONDS);
        net_check(&p, v.mode | NET_DEFAULT, &v);
        printf("  shrunk: %s: %s\n", net_mode_name(v.mode), v.text);
    }
    show(&p);
}

int main(int argc, char **argv) {
    const char *what;
    static user_program p;
    workers w = workers_of_command(argc, argv, &what);
    w.seconds = SECONDS, w.one = run_one, w.tally_bytes = sizeof(tally);
    gpu = getenv("NET_GPU");
    verbose = !strcmp(what, "show");
    shrink = !strcmp(what, "shrink");
    if (!strcmp(what, "c")) {
        const char *refused = make(w.first, &p);
        show(&p);
        return refused ? puts(refused), 1 : 0;
    }
    const double start = workers_now_seconds();
    tally sum = {0};
    const tally *t = workers_run(&w, CACHE_BYTES, &sum.disagreed);
    for (int i = 0; i < w.count; i++) {
        sum.ran += t[i].ran, sum.refused += t[i].refused, sum.disagreed += t[i].disagreed;
        sum.compared += t[i].compared, sum.vague += t[i].vague;
        if (t[i].worst > sum.worst) sum.worst = t[i].worst;
        for (int k = 0; k < NET_MODES; k++) sum.checked[k] += t[i].checked[k], sum.by_mode[k] += t[i].by_mode[k];
    }
    const double seconds = workers_now_seconds() - start;
    printf("ran %ld in %.0f s, %.2f a second; refused in micro-batches %ld; disagreed %ld; worst that agrees %.2f of "
           "what is allowed\n",
           sum.ran, seconds, (double)sum.ran / seconds, sum.refused, sum.disagreed, sum.worst);
    long hits, misses;
    kernel_cache_count(&hits, &misses);
    printf("  arrays compared %ld, not finite %ld\n", sum.compared, sum.vague);
    printf("  kernels compiled %ld, found %ld\n", misses, hits);
    for (int k = 0; k < NET_MODES; k++)
        printf("  %s: checked %ld, disagreed %ld\n", net_mode_name(1u << k), sum.checked[k], sum.by_mode[k]);
    return sum.disagreed != 0;
}
