/* SPDX-License-Identifier: MIT
 * Being one of the ranks that another program has started: torchrun, mpirun or mpiexec of an MPI library, or srun. Each
 * says so by variables of the environment. */
#include "train_ranks.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Variables that tell the number of ranks and which one this is, and the communicator that ranks have then. */
typedef struct launcher {
    const char *size, *rank, *kind;
    bool finds; /* rank 0's place is that of srun's first node */
} launcher;
static const launcher launchers[] = {
    {"WORLD_SIZE", "RANK", "env", false},                           /* torchrun */
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpi", false}, /* Open MPI's mpirun */
    {"PMI_SIZE", "PMI_RANK", "mpi", false},                         /* MPICH's, and srun --mpi=pmi2 */
    {"SLURM_STEP_NUM_TASKS", "PMIX_RANK", "mpi", false},            /* srun --mpi=pmix */
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "env", true},          /* srun */
};

static long number_of(const char *name) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

static const launcher *find_launcher(void) {
    for (int i = 0; i < (int)(sizeof launchers / sizeof *launchers); i++) {
        const long size = number_of(launchers[i].size);
        if (getenv(launchers[i].rank) && size > 1 && size <= TCC_COMM_MOST_RANKS) return &launchers[i];
    }
    return NULL;
}

int ranks_look(train_options *o) {
    const launcher *l = find_launcher();
    if (!l) return EXIT_DONE;
    if (o->ranks) {
        fprintf(stderr, "tcc-train: --ranks %d: this process is already one of %ld ranks, as %s says\n", o->ranks,
                number_of(l->size), l->size);
        return EXIT_USAGE;
    }
    o->ranks = (int)number_of(l->size);
    o->launcher = l->size;
    if (number_of(l->rank)) o->quiet = true;
    return EXIT_DONE;
}

/* -- srun's nodes -- */

/* The first of a list as "node[003-010,12],other": "node003". */
static void first_node(const char *list, char *to, size_t size) {
    size_t n = 0;
    for (const char *p = list; *p && *p != ',' && n + 1 < size; p++) {
        if (*p != '[') {
            to[n++] = *p;
            continue;
        }
        for (p++; *p && !strchr("-,]", *p) && n + 1 < size; p++) to[n++] = *p;
        while (*p && *p != ']') p++;
        if (!*p) break;
    }
    to[n] = '\0';
}

/* Ranks started by srun without an MPI meet as torchrun's do, on the first node, at a port that is the step's own. */
static void meet_on_first_node(const launcher *l) {
    enum { FIRST_PORT = 20000, PORTS = 12000 }; /* Linux gives out 32768 and more */
    const char *nodes = getenv("SLURM_STEP_NODELIST");
    char node[256] = "127.0.0.1", port[16];
    if (nodes) first_node(nodes, node, sizeof node);
    snprintf(port, sizeof port, "%ld",
             FIRST_PORT + (number_of("SLURM_JOB_ID") * 31 + number_of("SLURM_STEP_ID")) % PORTS);
    setenv("WORLD_SIZE", getenv(l->size), 1);
    setenv("RANK", getenv(l->rank), 1);
    setenv("MASTER_ADDR", node, 0);
    setenv("MASTER_PORT", port, 0);
}

/* -- CPUs -- */

/* Where a rank may run. */
typedef struct place {
    char machine[128];
    cpu_set_t cpus;
} place;

static void find_place(place *p) {
    memset(p, 0, sizeof *p);
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r"); /* names of machines may be the same */
    if (!f || !fgets(p->machine, sizeof p->machine, f)) gethostname(p->machine, sizeof p->machine - 1);
    if (f) fclose(f);
    sched_getaffinity(0, sizeof p->cpus, &p->cpus);
}

/* Ranks that were given the same CPUs of one machine share them. Launchers that bind ranks have given each its own. */
static tcc_status share_cpus(tcc_comm *comm) {
    const int size = tcc_comm_size(comm), rank = tcc_comm_rank(comm);
    place mine, *all = calloc((size_t)size, sizeof *all);
    if (!all) return TCC_ENOMEM;
    find_place(&mine);
    const tcc_status status = tcc_comm_all_gather(comm, &mine, all, sizeof mine);
    int before = 0, sharing = 0;
    for (int r = 0; r < size && status == TCC_OK; r++) {
        const bool shares = !memcmp(&all[r], &mine, sizeof mine);
        sharing += shares;
        before += shares && r < rank;
    }
    if (sharing > 1) ranks_take_cpus(before, sharing);
    free(all);
    return status;
}

/* -- The rank -- */

/* MPI_Init has no limit of its own: where one rank never comes, the others would wait for ever. */
static void on_alarm(int signal_number) {
    static const char text[] = "tcc-train: MPI: not all ranks came within the time of --comm-timeout\n";
    (void)signal_number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(EXIT_FAILED);
}

static tcc_status open_comm(const train_options *o, const launcher *l, tcc_context *cx, tcc_comm **comm) {
    const struct sigaction action = {.sa_handler = on_alarm};
    struct sigaction before;
    if (strcmp(l->kind, "mpi") != 0) return tcc_comm_create(cx, l->kind, comm);
    sigaction(SIGALRM, &action, &before);
    alarm((unsigned)o->comm_timeout + 1);
    const tcc_status status = tcc_comm_create(cx, l->kind, comm);
    alarm(0);
    sigaction(SIGALRM, &before, NULL);
    return status;
}

int join_ranks(const train_options *o, recipe *r, train_signals *signals) {
    const launcher *l = find_launcher();
    char seconds[32];
    tcc_context *cx;
    tcc_comm *comm = NULL;
    tcc_status status = tcc_context_create(&cx);
    if (l->finds) meet_on_first_node(l);
    snprintf(seconds, sizeof seconds, "%.0f", o->comm_timeout < 1 ? 1 : o->comm_timeout);
    setenv("TCC_COMM_TIMEOUT", seconds, 0);
    if (status == TCC_OK) status = open_comm(o, l, cx, &comm);
    if (status == TCC_OK) status = share_cpus(comm);
    int result = EXIT_FAILED;
    if (status == TCC_OK) result = ranks_run(o, r, signals, cx, comm);
    else {
        fprintf(stderr, "tcc-train: %s\n", cx ? tcc_context_error(cx) : "out of memory");
        tcc_comm_destroy(comm);
    }
    tcc_context_destroy(cx);
    return result;
}
