/* SPDX-License-Identifier: MIT
 * Many random users' programs: campaign FIRST_SEED COUNT [show|c|json]. Prints a line for each that disagrees, and
 * counts in the end. Children run the programs, so that one that crashes or hangs is a line too.
 *
 *     campaign 1 100000            interpreter, eager, default, threads; the GPU stand-in for one in GPU_SHARE
 *     TCC_CHECK_ACCESS=1 campaign 1 100000    the same, and kernels' accesses are checked
 *     campaign 4711 1 c            the program as C
 *     campaign 1 300 json          programs without random numbers, and what the interpreter makes of each, as JSON
 *                                  for another framework (compare_pytorch.py) */
#include "bench/kernel_cache.h"
#include "bench/workers.h"
#include "harness/user_check.h"
#include "harness/user_random.h"
#include "harness/user_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_BYTES ((size_t)4 << 30) /* of kernels; taken as it fills */

enum {
    GPU_SHARE = 8,
    SHRINK_SECONDS = 40,
    SECONDS = 400, /* for one program, shrinking included */
    REPORT_EVERY = 2000,
    JSON_RUNS = 6 /* disturbed ones, for the noise */
};

typedef struct tally {
    long ran, disagreed, by_mode[USER_MODES], checked[USER_MODES];
    double vague, worst;
    long vague_ones, budgets, again; /* programs with a budget, and those of which something is computed again */
} tally;

static bool gpu, verbose;
static double start_seconds;

static user_random_options options_of(uint64_t seed) {
    user_random_options o = {.least = 1, .most = 4};
    if (seed % 10 == 0) o.most = 10;
    if (seed % 100 == 0) o.least = 5, o.most = 30;
    if (seed % 5000 == 77) o.huge = true;
    if (seed % 50000 == 77) o.largest = true;
    return o;
}

static unsigned modes_of(uint64_t seed) {
    unsigned modes = USER_DEFAULT | USER_EAGER | USER_THREADS | USER_BUDGET;
    if (seed % 4 == 1) modes |= USER_EVALUATE;
    if (gpu && seed % GPU_SHARE == 3) modes |= USER_GPU;
    if (gpu && seed % (4 * GPU_SHARE) == 3) modes |= USER_GPU_EAGER;
    return seed % 5000 == 77 ? USER_DEFAULT | USER_EAGER : modes;
}

static void show(const user_program *p) {
    tcc_strbuf text = {0};
    user_program_print_c(&text, p);
    fputs(text.text ? text.text : "", stdout);
    tcc_strbuf_free(&text);
}

static void run_one(tally *t, uint64_t seed) {
    static user_program p;
    user_verdict v;
    const user_random_options o = options_of(seed);
    const unsigned modes = modes_of(seed);
    const char *refused = user_program_random(&o, seed, &p);
    if (refused) {
        printf("%llu refused: %s\n", (unsigned long long)seed, refused);
        t->disagreed++;
        return;
    }
    user_program_check(&p, modes, &v);
    t->ran++;
    t->vague += v.vague;
    t->vague_ones += v.vague > 0.5;
    t->budgets += p.memory_budget || p.segment_steps;
    t->again += v.again > 0;
    for (int i = 0; i < USER_MODES; i++) t->checked[i] += modes >> i & 1;
    if (!v.mode && v.worst > t->worst) t->worst = v.worst;
    if (verbose)
        printf("%llu: %d steps, worst %.3f, vague %.3f\n", (unsigned long long)seed, p.n_steps, v.worst, v.vague);
    if (!v.mode) return;
    t->disagreed++;
    for (int i = 0; i < USER_MODES; i++) t->by_mode[i] += v.mode >> i & 1;
    printf("%llu %s: %s\n", (unsigned long long)seed, user_mode_name(v.mode), v.text);
    if (strstr(v.text, "error: ") && !(v.mode & USER_BUDGET)) return; /* that says enough */
    user_program_shrink(&p, &v, SHRINK_SECONDS);
    user_program_check(&p, v.mode | (v.mode & (USER_THREADS | USER_EVALUATE) ? USER_DEFAULT : 0), &v);
    printf("  shrunk: %s: %s\n", user_mode_name(v.mode), v.text);
    show(&p);
}

static void report(const tally *t, double seconds) {
    printf("ran %ld in %.0f s, %.1f a second; disagreed %ld; mean vagueness %.4f, above half %ld; worst that agrees "
           "%.2f\n",
           t->ran, seconds, (double)t->ran / seconds, t->disagreed, t->ran ? t->vague / (double)t->ran : 0,
           t->vague_ones, t->worst);
    long hits, misses;
    kernel_cache_count(&hits, &misses);
    printf("  with a budget of memory %ld, something computed again in %ld\n", t->budgets, t->again);
    printf("  kernels compiled %ld, found %ld\n", misses, hits);
    for (int i = 0; i < USER_MODES; i++)
        printf("  %s: checked %ld, disagreed %ld\n", user_mode_name(1u << i), t->checked[i], t->by_mode[i]);
}

static void run_and_report(void *user, uint64_t seed) {
    tally *t = user;
    const long before = t->ran;
    run_one(t, seed);
    if (t->ran > before && t->ran % REPORT_EVERY == 0) report(t, workers_now_seconds() - start_seconds);
}

static void add(tally *sum, const tally *t) {
    sum->ran += t->ran;
    sum->disagreed += t->disagreed;
    sum->vague += t->vague;
    sum->vague_ones += t->vague_ones;
    sum->budgets += t->budgets;
    sum->again += t->again;
    if (t->worst > sum->worst) sum->worst = t->worst;
    for (int i = 0; i < USER_MODES; i++) sum->by_mode[i] += t->by_mode[i], sum->checked[i] += t->checked[i];
}

static int print_program(uint64_t seed) {
    static user_program p;
    const user_random_options o = options_of(seed);
    const char *refused = user_program_random(&o, seed, &p);
    show(&p);
    if (refused) printf("refused: %s\n", refused);
    return refused != NULL;
}

/* One object a program, over several lines, the last of which is }. */
static void print_json(uint64_t seed) {
    static user_program p;
    user_random_options o = options_of(seed);
    o.exact = true;
    o.huge = o.largest = false;
    const char *refused = user_program_random(&o, seed, &p);
    user_verdict v = {0};
    tcc_context *cx = NULL;
    if (refused || tcc_context_create(&cx) != TCC_OK) {
        fprintf(stderr, "%llu: %s\n", (unsigned long long)seed, refused ? refused : "no context");
        return;
    }
    user_program_check(&p, USER_DEFAULT, &v);
    tcc_model *m = user_program_model(cx, &p, USER_DEFAULT);
    user_reference *r = m ? user_reference_create(m, &p, false) : NULL;
    if (r && user_reference_disturb(r, JSON_RUNS) == TCC_OK) {
        tcc_strbuf text = {0};
        tcc_strbuf_printf(&text, "{\"agrees\": %s,\n", v.mode ? "false" : "true");
        user_program_print_json(&text, &p);
        tcc_strbuf_add(&text, ",\n");
        user_reference_print_json(&text, r);
        tcc_strbuf_add(&text, "\n}\n");
        fputs(text.text ? text.text : "", stdout);
        tcc_strbuf_free(&text);
    }
    user_reference_destroy(r);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

int main(int argc, char **argv) {
    const char *what;
    workers w = workers_of_command(argc, argv, &what);
    w.seconds = SECONDS, w.one = run_and_report, w.tally_bytes = sizeof(tally);
    if (!strcmp(what, "c")) return print_program(w.first);
    gpu = !getenv("CAMPAIGN_NO_GPU");
    verbose = !strcmp(what, "show");
    for (uint64_t seed = w.first; seed < w.first + w.seeds && !strcmp(what, "json"); seed++) print_json(seed);
    if (!strcmp(what, "json")) return 0;
    start_seconds = workers_now_seconds();
    tally sum = {0};
    const tally *t = workers_run(&w, CACHE_BYTES, &sum.disagreed);
    for (int i = 0; i < w.count; i++) add(&sum, &t[i]);
    report(&sum, workers_now_seconds() - start_seconds);
    return sum.disagreed != 0;
}
