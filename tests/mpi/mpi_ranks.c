/* SPDX-License-Identifier: MIT
 * A program with an MPI of its own, or without one: what the collectives of its ranks give, and what it is told where
 * one of them does something else. mpi_ranks CASE prints a line a rank. */
#include <traincc/comm.h>
#include <traincc/context.h>

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COUNT = 100003, LARGE_COUNT = 1 << 22, MOST_RANKS = 8 };

static tcc_context *cx;
static tcc_comm *comm;
static int rank, size;
static pid_t late_process; /* the first that ends without MPI_Finalize has the others killed: it has to be this one */

static int say(const char *text) {
    printf("rank %d of %d: %s\n", rank, size, text);
    fflush(stdout);
    return 0;
}

static int failed(void) { return say(tcc_context_error(cx)); }

/* Of such sizes that the order of a sum is seen in its bits. */
static float value(int r, int i) {
    static const float wide[] = {1e8F, 1, -1e8F, 3.25F, 1e-3F};
    return wide[(r * 3 + i) % 5] * (float)(1 + i % 7);
}

static float sum(int i) {
    float all = value(0, i);
    for (int r = 1; r < size; r++) all += value(r, i);
    return all;
}

static int sums(void) {
    float *x = malloc(COUNT * sizeof *x), part[3] = {0}, each[3 * MOST_RANKS];
    int64_t request, all[MOST_RANKS], mine = rank * 10, root = rank == size - 1 ? 77 : 0;
    if (!x) return 1;
    for (int i = 0; i < COUNT; i++) x[i] = value(rank, i);
    for (int i = 0; i < 3 * size; i++) each[i] = value(rank, i);
    if (tcc_comm_all_reduce(comm, TCC_COMM_SUM, TCC_F32, x, COUNT) != TCC_OK) return failed();
    for (int i = 0; i < COUNT; i++)
        if (x[i] != sum(i)) return say("another sum");
    if (tcc_comm_reduce_scatter(comm, TCC_COMM_SUM, TCC_F32, each, part, 3) != TCC_OK) return failed();
    for (int i = 0; i < 3; i++)
        if (part[i] != sum(3 * rank + i)) return say("another part");
    for (int i = 0; i < COUNT; i++) x[i] = value(rank, i);
    if (tcc_comm_start_all_reduce(comm, TCC_COMM_SUM, TCC_F32, x, COUNT, &request) != TCC_OK) return failed();
    if (tcc_comm_wait(comm, request) != TCC_OK) return failed();
    for (int i = 0; i < COUNT; i++)
        if (x[i] != sum(i)) return say("another sum, started");
    if (tcc_comm_wait(comm, request + 1) != TCC_EINVAL) return say("nothing was started as this");
    if (tcc_comm_all_gather(comm, &mine, all, sizeof mine) != TCC_OK) return failed();
    for (int r = 0; r < size; r++)
        if (all[r] != r * 10) return say("gathered otherwise");
    if (tcc_comm_broadcast(comm, size - 1, &root, sizeof root) != TCC_OK) return failed();
    if (root != 77) return say("another root");
    if (tcc_comm_barrier(comm) != TCC_OK) return failed();
    free(x);
    return say("right");
}

/* What the last rank does instead of what the others do. */
static int differ(const char *how) {
    float x[4] = {0};
    const int last = rank == size - 1;
    tcc_comm_set_timeout(comm, !strcmp(how, "stalls") ? 0.3 : 60);
    if (tcc_comm_barrier(comm) != TCC_OK) return failed();
    if (last && !strcmp(how, "gives-up")) tcc_comm_abort(comm, "the disk is full");
    if (last && !strcmp(how, "ends")) return say("ends");
    if (last && !strcmp(how, "stalls")) usleep(2000000);
    const int count = last && !strcmp(how, "differs") ? 3 : 4;
    if (tcc_comm_all_reduce(comm, TCC_COMM_SUM, TCC_F32, x, count) != TCC_OK) return failed();
    return say("no error");
}

/* The last rank comes too late to a sum whose values the others have unmapped by then. */
static int unmap(void) {
    const size_t bytes = LARGE_COUNT * sizeof(float);
    float *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (x == MAP_FAILED) return 1;
    memset(x, 0, bytes);
    pid_t last = getpid();
    if (tcc_comm_broadcast(comm, size - 1, &last, sizeof last) != TCC_OK) return failed();
    if (rank == size - 1) usleep(1500000);
    else late_process = last;
    tcc_comm_set_timeout(comm, 1);
    const tcc_status status = tcc_comm_all_reduce(comm, TCC_COMM_SUM, TCC_F32, x, LARGE_COUNT);
    munmap(x, bytes);
    return status != TCC_OK ? failed() : say("no error");
}

/* The ranks in reverse, in a communicator of this program's own. */
static tcc_status open_own(int level, int fortran) {
    MPI_Comm reverse;
    int provided, world_rank;
    MPI_Init_thread(NULL, NULL, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &reverse);
    const tcc_status status = fortran ? tcc_comm_from_mpi_fortran(cx, MPI_Comm_c2f(reverse), &comm)
                                      : tcc_comm_from_mpi(cx, &reverse, &comm);
    MPI_Comm_rank(reverse, &rank);
    MPI_Comm_free(&reverse);
    return status;
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "sums";
    const int single = !strcmp(what, "single"), world = !strcmp(what, "world"), fortran = !strcmp(what, "fortran");
    if (tcc_context_create(&cx) != TCC_OK) return 1;
    const tcc_status status = world ? tcc_comm_create(cx, "mpi", &comm)
                                    : open_own(single ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, fortran);
    if (status != TCC_OK) return failed(), 1;
    if (tcc_comm_rank(comm) != rank && !world) return say("another rank"), 1;
    rank = tcc_comm_rank(comm);
    size = tcc_comm_size(comm);
    const int late = !strcmp(what, "stalls") || !strcmp(what, "unmaps");
    const int failure = single || world || fortran || !strcmp(what, "sums") ? sums()
                        : !strcmp(what, "unmaps")                           ? unmap()
                                                                            : differ(what);
    tcc_comm_destroy(comm);
    tcc_context_destroy(cx);
    if (!world && !late) MPI_Finalize(); /* where a rank is late, messages to it are still there */
    if (!failure) say("ended");
    /* mpirun may end the others once a rank is gone that has not finalized: so the late one leaves them a second */
    if (!strcmp(what, "unmaps") && rank == size - 1) usleep(1000000);
    for (int i = 0; i < 200 && late_process && !kill(late_process, 0); i++) usleep(50000);
    return failure;
}
