/* SPDX-License-Identifier: MIT
 * tcc-train --ranks N: a process for each rank, which this one starts and waits for; or one rank of those that another
 * program has started (train_join.c). Rank 0 is the run: it evaluates, saves and reports. The others open the same
 * data, and take their part of each step.
 *
 * Before each step the ranks meet. Rank 0 says whether there is another step, and any rank may say that it was
 * interrupted; then all of them end, and rank 0 saves. Evaluations are shared: ranks take whole batches in turn. What a
 * rank does by itself, as setting up or saving, may take as long as it needs, for it tells that it is at work; that it
 * is gone or was stopped the others see within the time limit. */
#include "recipe_rules.h"
#include "train_ranks.h"
#include "train_run.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NO_LIMIT_SECONDS = 1000000000 };

/* -- Processes -- */

static volatile sig_atomic_t first_rank; /* its process */

/* What is sent to this process is for rank 0. What a terminal sends all processes get by themselves. */
static void pass_on(int signal_number, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_code <= 0) kill(first_rank, signal_number);
}

static void pass_signals_on(void) {
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    for (int i = 0; i < (int)(sizeof signals / sizeof *signals); i++) sigaction(signals[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static struct {
    cpu_set_t given, own; /* to the process, and to its rank; */
    bool shared;          /* else they are not known */
} cpus;

void ranks_take_cpus(int rank, int ranks) {
    cpu_set_t all, own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof all, &all)) return; /* more than such a set holds: all ranks use all */
    cpus.given = all;
    const int count = CPU_COUNT(&all), first = (int)((long)count * rank / ranks);
    int end = (int)((long)count * (rank + 1) / ranks), n = 0;
    if (end == first) end++;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all)) continue;
        if (n >= first && n < end) CPU_SET(cpu, &own);
        n++;
    }
    cpus.own = own;
    cpus.shared = !sched_setaffinity(0, sizeof own, &own);
}

void run_take_all_cpus(const run *s, bool all) {
    if (s->options->comm && run_is_first(s) && cpus.shared)
        sched_setaffinity(0, sizeof cpus.own, all ? &cpus.given : &cpus.own);
}

int ranks_run(const train_options *given, recipe *r, train_signals *signals, tcc_context *cx, tcc_comm *comm) {
    train_options o = *given;
    o.cx = cx;
    o.comm = comm;
    tcc_comm_set_timeout(o.comm, o.comm_timeout);
    if (tcc_comm_rank(comm)) {
        o.quiet = true;
        signals->silent = 1;
        o.explain = false;
        o.dump_dir = o.profile = NULL;
    }
    char *found = NULL, *fault = NULL;
    int status = o.dry_run ? EXIT_DONE : train_find_device(o.device, !o.quiet, &found, &fault);
    if (status != EXIT_DONE) tcc_comm_abort(comm, fault ? fault : "out of memory"); /* rank 0 says so */
    if (status != EXIT_DONE && !tcc_comm_rank(comm)) train_complain(fault);
    else if (found && strncmp(found, "cuda", 4) != 0) o.device = found;
    else if (found && !strcmp(o.device, "auto")) o.device = "cuda"; /* that of the rank, where there are several */
    if (status == EXIT_DONE) status = train_run(&o, r, signals);
    tcc_string_free(found);
    free(fault);
    tcc_comm_destroy(o.comm);
    return status;
}

static volatile sig_atomic_t overdue;

static void on_alarm(int signal_number) {
    (void)signal_number;
    overdue = 1;
}

/* The number of the next rank that ends, whose process is then 0; -1: there is none. Ranks that are overdue, as they
 * were stopped, are ended. */
static int wait_for_one(pid_t *processes, int ranks, int *status) {
    for (;;) {
        const pid_t process = wait(status);
        if (process < 0 && errno != EINTR) return -1;
        for (int r = 0; r < ranks; r++) {
            if (process > 0 && processes[r] == process) {
                processes[r] = 0;
                return r;
            }
            if (overdue && processes[r]) kill(processes[r], SIGKILL);
        }
    }
}

/* The status of the whole run: that of rank 0, unless another one alone has failed. Once rank 0 has ended, or another
 * one has failed, the others have a short time to see it. */
static int wait_for_ranks(const train_options *o, pid_t *processes, int ranks) {
    enum { GRACE_SECONDS = 5 };
    const struct sigaction action = {.sa_handler = on_alarm};
    int result = EXIT_DONE, of_first = EXIT_FAILED, status, rank;
    sigaction(SIGALRM, &action, NULL);
    while ((rank = wait_for_one(processes, ranks, &status)) >= 0) {
        if (WIFSIGNALED(status) && !overdue)
            fprintf(stderr, "tcc-train: rank %d was ended by signal %d, %s\n", rank, WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
        else if (WIFSIGNALED(status))
            fprintf(stderr, "tcc-train: rank %d did not end as the others did, and was ended\n", rank);
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
        const bool failed = code != EXIT_DONE && code != EXIT_INTERRUPTED;
        if (rank == 0) of_first = code;
        else if (failed) result = EXIT_FAILED;
        if (rank == 0) alarm(GRACE_SECONDS);
        else if (failed && processes[0]) alarm(GRACE_SECONDS + (unsigned)o->comm_timeout);
    }
    return of_first == EXIT_DONE ? result : of_first;
}

/* In the process of a rank *is_rank is true, and its status is returned. */
static int start_ranks(const train_options *o, recipe *r, train_signals *signals, tcc_context *cx, tcc_comm **ends) {
    pid_t *processes = calloc((size_t)o->ranks, sizeof *processes);
    int started = 0;
    for (; processes && started < o->ranks; started++) {
        fflush(NULL);
        processes[started] = fork();
        if (processes[started] == 0) {
            free(processes);
            for (int i = 0; i < o->ranks; i++)
                if (i != started) tcc_comm_destroy(ends[i]);
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            ranks_take_cpus(started, o->ranks);
            return ranks_run(o, r, signals, cx, ends[started]);
        }
        if (processes[started] < 0) break;
    }
    const bool all = started == o->ranks;
    if (!all) fprintf(stderr, "tcc-train: cannot start rank %d: %s\n", started, strerror(errno));
    for (int i = 0; i < o->ranks; i++) tcc_comm_destroy(ends[i]);
    if (started) first_rank = processes[0];
    pass_signals_on();
    const int status = wait_for_ranks(o, processes, started);
    free(processes);
    return all ? status : EXIT_FAILED;
}

/* One rank of ranks that are not there. */
static int plan_ranks(const train_options *o, recipe *r, train_signals *signals) {
    tcc_context *cx = NULL;
    tcc_comm *comm = NULL;
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_comm_create_planned(cx, o->ranks, o->network ? o->network : "local", &comm);
    int result = status == TCC_EINVAL ? EXIT_USAGE : EXIT_FAILED;
    if (status == TCC_OK) result = ranks_run(o, r, signals, cx, comm);
    else fprintf(stderr, "tcc-train: --network: %s\n", cx ? tcc_context_error(cx) : "out of memory");
    tcc_context_destroy(cx);
    return result;
}

int train_on_ranks(const train_options *o, recipe *r, train_signals *signals) {
    if (o->dry_run && o->ranks) return plan_ranks(o, r, signals);
    if (o->ranks < 2) return train_run(o, r, signals);
    if (o->launcher) return join_ranks(o, r, signals);
    tcc_context **contexts = calloc((size_t)o->ranks, sizeof *contexts), *cx = NULL;
    tcc_comm **ends = calloc((size_t)o->ranks, sizeof *ends);
    tcc_status status = contexts && ends ? tcc_context_create(&cx) : TCC_ENOMEM;
    for (int i = 0; i < o->ranks && status == TCC_OK; i++) contexts[i] = cx;
    if (status == TCC_OK) status = tcc_comm_create_local(contexts, o->ranks, ends);
    int result = EXIT_FAILED;
    if (status == TCC_OK) result = start_ranks(o, r, signals, cx, ends);
    else fprintf(stderr, "tcc-train: --ranks: %s\n", cx ? tcc_context_error(cx) : "out of memory");
    tcc_context_destroy(cx);
    free(contexts);
    free(ends);
    return result;
}

/* -- A run on ranks -- */

bool run_is_first(const run *s) { return !s->options->comm || tcc_comm_rank(s->options->comm) == 0; }

tcc_status run_begin_work(run *s) {
    tcc_comm *comm = s->options->comm;
    const tcc_status status = comm ? tcc_comm_begin_work(comm) : TCC_OK;
    if (status != TCC_EUNSUPPORTED) return status;
    tcc_context_clear_error(s->cx);
    s->mute = true;
    tcc_comm_set_timeout(comm, NO_LIMIT_SECONDS);
    return TCC_OK;
}

tcc_status run_wait_for_all(run *s) {
    if (!s->options->comm) return TCC_OK;
    const tcc_status status = tcc_comm_barrier(s->options->comm);
    return status == TCC_OK ? run_begin_work(s) : status;
}

/* -- Times -- */

/* Where the time of all ranks went since it was last told. */
typedef struct rank_times {
    double met, waited;  /* this rank's clock, and what it had waited, when ranks met last */
    double *busy, *idle; /* by rank */
} rank_times;

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void run_forget_times(run *s) {
    if (s->times) free(s->times->busy);
    free(s->times);
    s->times = NULL;
}

static bool make_times(run *s) {
    const size_t size = (size_t)tcc_comm_size(s->options->comm);
    if (!s->times) {
        s->times = calloc(1, sizeof *s->times);
        double *all = s->times ? calloc(2 * size, sizeof *all) : NULL;
        if (!all) return false;
        *s->times = (rank_times){now_seconds(), tcc_comm_waited(s->options->comm), all, all + size};
    }
    return true;
}

/* What this rank did since ranks met last: worked, and waited. */
static void take_times(run *s, double *busy, double *idle) {
    rank_times *t = s->times;
    const double now = now_seconds(), waited = tcc_comm_waited(s->options->comm);
    *idle = waited - t->waited;
    *busy = now - t->met - *idle;
    t->met = now;
    t->waited = waited;
}

void run_print_waiting(run *s, char *out, size_t size) {
    rank_times *t = s->times;
    double busy = 0, idle = 0;
    int slowest = 0;
    *out = '\0';
    for (int r = 0; t && r < tcc_comm_size(s->options->comm); r++) {
        busy += t->busy[r];
        idle += t->idle[r];
        if (t->busy[r] > t->busy[slowest]) slowest = r;
    }
    if (busy + idle <= 0) return;
    snprintf(out, size, "  %.0f%% waiting, rank %d slowest", 100 * idle / (busy + idle), slowest);
    memset(t->busy, 0, 2 * (size_t)tcc_comm_size(s->options->comm) * sizeof *t->busy);
}

/* -- Meetings -- */

/* What a rank says where all meet. */
typedef struct word {
    int64_t ends, interrupted, gathers; /* ends, gathers: rank 0's */
    double busy, idle;
} word;

/* A communicator knows no steps. */
static void note_step(run *s, const char *when, int64_t step) {
    snprintf(s->problem, sizeof s->problem, "%s\nnote: %s step %" PRId64, tcc_context_error(s->cx), when, step);
}

/* Each rank says its word, and hears all[r]. */
static tcc_status speak(run *s, word mine, word *all) {
    tcc_comm *comm = s->options->comm;
    mine.interrupted = *s->interrupted != 0;
    take_times(s, &mine.busy, &mine.idle);
    if (s->mute) tcc_comm_set_timeout(comm, NO_LIMIT_SECONDS);
    const tcc_status status = tcc_comm_all_gather(comm, &mine, all, sizeof mine);
    tcc_comm_set_timeout(comm, s->options->comm_timeout);
    for (int r = 0; r < tcc_comm_size(comm) && status == TCC_OK; r++) {
        s->times->busy[r] += all[r].busy;
        s->times->idle[r] += all[r].idle;
    }
    return status;
}

static bool shares_states(const run *s) { return s->options->comm && !strcmp(s->recipe->training.shard, "optimizer"); }

static tcc_status gather(run *s) {
    const tcc_status status = tcc_model_gather_states(s->model);
    if (status == TCC_OK) s->gathered_step = tcc_model_step(s->model);
    return status;
}

static tcc_status meet(run *s, bool ends, word *all, bool *end) {
    tcc_status status = speak(s, (word){.ends = ends}, all);
    while (status == TCC_OK && all[0].gathers && !run_is_first(s)) { /* rank 0 saves, and comes later */
        status = gather(s);
        if (status == TCC_OK) status = speak(s, (word){0}, all);
    }
    *end = all[0].ends; /* by what all ranks have heard: who is interrupted just now says so at the next meeting */
    for (int r = 0; r < tcc_comm_size(s->options->comm) && status == TCC_OK; r++) {
        if (!all[r].interrupted) continue;
        s->signals->interrupted = 1;
        *end = true;
    }
    /* Rank 0 may have to save what the others have, who end. */
    return status == TCC_OK && *end && shares_states(s) ? gather(s) : status;
}

tcc_status run_meet(run *s, int64_t step, bool ends, bool *end) {
    *end = ends;
    if (!s->options->comm) return TCC_OK;
    word *all = calloc((size_t)tcc_comm_size(s->options->comm), sizeof *all);
    const tcc_status status = all && make_times(s) ? meet(s, ends, all, end) : TCC_ENOMEM;
    free(all);
    if (status != TCC_OK) note_step(s, "before training", step);
    return status;
}

tcc_status run_gather_states(run *s) {
    const int64_t step = tcc_model_step(s->model);
    if (!shares_states(s) || step == s->first_step || step == s->gathered_step) return TCC_OK;
    word *all = calloc((size_t)tcc_comm_size(s->options->comm), sizeof *all);
    tcc_status status = all && make_times(s) ? speak(s, (word){.gathers = 1}, all) : TCC_ENOMEM;
    free(all);
    if (status == TCC_OK) status = gather(s);
    if (status != TCC_OK) note_step(s, "when states were gathered at", step);
    return status == TCC_OK ? run_begin_work(s) : status;
}

tcc_status run_gather_parameters(run *s) {
    const bool low = strcmp(s->recipe->training.mixed_precision, "none") != 0;
    const bool averages = s->recipe->training.ema_decay > 0; /* which are in the parameters' place when they are kept */
    return low && !averages ? run_gather_states(s) : TCC_OK;
}

tcc_status run_add_over_ranks(run *s, int64_t step, double *numbers, int64_t count, bool *stopped) {
    tcc_comm *comm = s->options->comm;
    *stopped = *s->interrupted != 0;
    if (!comm) return TCC_OK;
    double stops = *stopped;
    tcc_status status = tcc_comm_all_reduce(comm, TCC_COMM_SUM, TCC_F64, &stops, 1);
    if (status == TCC_OK) status = tcc_comm_all_reduce(comm, TCC_COMM_SUM, TCC_F64, numbers, count);
    if (s->mute) tcc_comm_set_timeout(comm, s->options->comm_timeout);
    if (status != TCC_OK) note_step(s, "in the evaluation after", step);
    *stopped = stops > 0;
    if (*stopped) s->signals->interrupted = 1;
    return status;
}

/* 64-bit FNV-1a. */
static uint64_t hash_text(const char *text) {
    uint64_t h = 14695981039346656037u;
    for (; text && *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

tcc_status run_compare_ranks(run *s) {
    enum { VERSION, RECIPE, DATA, COMPARED };
    static const char *const names[COMPARED] = {"another version of tcc-train", "another recipe",
                                                "other training data"};
    tcc_comm *comm = s->options->comm;
    if (!comm) return TCC_OK;
    const int size = tcc_comm_size(comm), rank = tcc_comm_rank(comm);
    char *recipe = recipe_print_results(s->recipe);
    const uint64_t own[COMPARED] = {hash_text(TCC_VERSION), hash_text(recipe), hash_text(s->learned)};
    uint64_t *all = calloc((size_t)size, sizeof own);
    tcc_status status = recipe && all ? tcc_comm_all_gather(comm, own, all, sizeof own) : TCC_ENOMEM;
    for (int i = 0; i < size * COMPARED && status == TCC_OK; i++) {
        if (all[i] == own[i % COMPARED]) continue;
        snprintf(s->problem, sizeof s->problem, "rank %d has %s than rank %d: all ranks must be given the same",
                 i / COMPARED, names[i % COMPARED], rank);
        status = TCC_EINVAL;
    }
    free(recipe);
    free(all);
    return status == TCC_OK ? run_begin_work(s) : status;
}

tcc_status run_follow(run *s) {
    bool end = false;
    s->signals->saves = 1; /* as rank 0 does */
    tcc_status status = TCC_OK;
    if (s->first_step && run_evaluates(s, s->first_step)) status = run_report_evaluation(s, s->first_step);
    for (int64_t step = s->first_step; status == TCC_OK; step++) {
        status = run_meet(s, step, false, &end);
        if (status != TCC_OK || end) break;
        status = run_step(s, step);
        if (status == TCC_OK && run_evaluates(s, step + 1)) status = run_report_evaluation(s, step + 1);
    }
    return status;
}

void run_tell_ranks(run *s, const char *why) {
    char *path = NULL;
    if (!s->options->comm) return;
    tcc_comm_abort(s->options->comm, why);
    if (tcc_comm_rank(s->options->comm) == 1 && strstr(why, "rank 0 did not answer")) /* nor can it tell */
        fprintf(stderr, "tcc-train: rank 1: %s\n", why);
    if (run_is_first(s) || asprintf(&path, "%s/rank-%d.log", s->folder.path, tcc_comm_rank(s->options->comm)) < 0)
        return;
    FILE *f = fopen(path, "a"); /* where there is no folder yet, rank 0 tells it */
    if (f) fprintf(f, "%s\n", why);
    if (f) fclose(f);
    free(path);
}
