/* SPDX-License-Identifier: MIT
 * Many random users' programs on 2 and 3 ranks: user_rank_campaign FIRST_SEED COUNT [c]. Prints a line for each whose
 * bits are not those of micro-batches, and counts in the end. With "c" it prints those programs as C. The test
 * e2e.test_rank_models runs a few of them. CAMPAIGN_WORKERS=2: two processes. */
#include "bench/workers.h"
#include "harness/user_random.h"
#include "harness/user_ranks.h"

#include <stdio.h>
#include <string.h>

#define CACHE_BYTES ((size_t)2 << 30) /* of kernels; taken as it fills */

enum { SECONDS = 200 };

typedef struct tally {
    long ran, disagreed;
} tally;

static bool prints;

static void run_one(void *user, uint64_t seed) {
    static const user_random_options usual = {0};
    static user_program p;
    tally *t = user;
    const char *what = user_program_random(&usual, seed, &p);
    if (!what) what = user_ranks_differ(&p, 2 + (int)(seed / 2 % 2));
    t->ran++;
    if (!what) return;
    t->disagreed++;
    printf("%llu: %s\n", (unsigned long long)seed, what);
    if (!prints) return;
    tcc_strbuf text = {0};
    user_program_print_c(&text, &p);
    fputs(text.text ? text.text : "", stdout);
    tcc_strbuf_free(&text);
}

int main(int argc, char **argv) {
    const char *what;
    workers w = workers_of_command(argc, argv, &what);
    w.seconds = SECONDS, w.one = run_one, w.tally_bytes = sizeof(tally);
    prints = !strcmp(what, "c");
    const double start = workers_now_seconds();
    tally sum = {0};
    const tally *t = workers_run(&w, CACHE_BYTES, &sum.disagreed);
    for (int i = 0; i < w.count; i++) sum.ran += t[i].ran, sum.disagreed += t[i].disagreed;
    printf("seeds %llu to %llu: ran %ld in %.0f s, disagreed %ld\n", (unsigned long long)w.first,
           (unsigned long long)(w.first + w.seeds - 1), sum.ran, workers_now_seconds() - start, sum.disagreed);
    return sum.disagreed != 0;
}
