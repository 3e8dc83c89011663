/* SPDX-License-Identifier: MIT
 * Examples of comm.h. Most have one rank; that of tcc_comm_create_local has two. */
#include "examples.h"

#include <unistd.h>

EXAMPLE(tcc_comm_create_local) {
    tcc_context *contexts[2] = {cx, cx};
    tcc_comm *ends[2];
    TCC_TRY(tcc_comm_create_local(contexts, 2, ends));
    const int rank = fork() == 0; /* the child is rank 1 */
    tcc_comm_destroy(ends[!rank]);
    float x = rank ? 20 : 1;
    const tcc_status status = tcc_comm_all_reduce(ends[rank], TCC_COMM_SUM, TCC_F32, &x, 1);
    tcc_comm_destroy(ends[rank]);
    if (rank) _exit(status != TCC_OK);
    TCC_TRY(status);
    printf("%g\n", x); /* 21 */
}

EXAMPLE(tcc_comm_create) {
    tcc_comm *comm;                                                                /* of RANK in WORLD_SIZE */
    if (tcc_comm_create(cx, "env", &comm) == TCC_ENOTFOUND) puts("started alone"); /* started alone */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_from_mpi) {
    tcc_comm *comm; /* MPI_Comm ocean: tcc_comm_from_mpi(cx, &ocean, &comm) */
    if (tcc_comm_from_mpi(cx, NULL, &comm) == TCC_EINVAL) puts("no communicator"); /* no communicator */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_from_mpi_fortran) {
    tcc_comm *comm; /* in Fortran: status = tcc_comm_from_mpi_fortran(context, MPI_COMM_WORLD, comm) */
    if (tcc_comm_from_mpi_fortran(cx, 0, &comm) != TCC_OK) puts("no MPI"); /* no MPI */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_destroy) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    tcc_comm_destroy(comm); /* after the models that use it */
}

EXAMPLE(tcc_comm_rank) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    printf("rank %d of %d\n", tcc_comm_rank(comm), tcc_comm_size(comm)); /* rank 0 of 1 */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_size) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    if (tcc_comm_size(comm) == 1) puts("alone"); /* alone */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_set_timeout) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    tcc_comm_set_timeout(comm, 300); /* rank 0 does something long between two collectives */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_all_reduce) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    double hits_and_samples[2] = {17, 20};
    TCC_TRY(tcc_comm_all_reduce(comm, TCC_COMM_SUM, TCC_F64, hits_and_samples, 2));
    printf("accuracy %g\n", hits_and_samples[0] / hits_and_samples[1]); /* accuracy 0.85 */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_reduce_scatter) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    const float mine[3] = {1, 2, 3}; /* three elements for each rank */
    float sum[3];
    TCC_TRY(tcc_comm_reduce_scatter(comm, TCC_COMM_SUM, TCC_F32, mine, sum, 3));
    printf("%g %g %g\n", sum[0], sum[1], sum[2]); /* 1 2 3 */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_all_gather) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    const int64_t samples = 32;
    int64_t of_each[1]; /* tcc_comm_size(comm) of them */
    TCC_TRY(tcc_comm_all_gather(comm, &samples, of_each, sizeof samples));
    printf("%lld\n", (long long)of_each[0]); /* 32 */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_broadcast) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    int64_t seed = tcc_comm_rank(comm) == 0 ? 42 : 0;
    TCC_TRY(tcc_comm_broadcast(comm, 0, &seed, sizeof seed));
    printf("%lld\n", (long long)seed); /* 42 */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_start_all_reduce) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    double samples = 20;
    int64_t request;
    TCC_TRY(tcc_comm_start_all_reduce(comm, TCC_COMM_SUM, TCC_F64, &samples, 1, &request));
    /* compute something else */
    TCC_TRY(tcc_comm_wait(comm, request));
    printf("%g\n", samples); /* 20 */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_start_reduce_scatter) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    const float mine[3] = {1, 2, 3}; /* three elements for each rank */
    float sum[3];
    int64_t request;
    TCC_TRY(tcc_comm_start_reduce_scatter(comm, TCC_COMM_SUM, TCC_F32, mine, sum, 3, &request));
    TCC_TRY(tcc_comm_wait(comm, request));
    printf("%g %g %g\n", sum[0], sum[1], sum[2]); /* 1 2 3 */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_start_all_gather) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    const int64_t samples = 32;
    int64_t of_each[1], request; /* tcc_comm_size(comm) of them */
    TCC_TRY(tcc_comm_start_all_gather(comm, &samples, of_each, sizeof samples, &request));
    TCC_TRY(tcc_comm_wait(comm, request));
    printf("%lld\n", (long long)of_each[0]); /* 32 */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_wait) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    if (tcc_comm_wait(comm, 7) == TCC_EINVAL) puts("nothing was started"); /* nothing was started */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_create_planned) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_planned(cx, 64, "ib", &comm));
    /* with .comm = comm, .compile_only = true: tcc_model_compile, then tcc_model_report(model, "ranks", &text) */
    printf("%d\n", tcc_comm_size(comm)); /* 64 */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_waited) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    TCC_TRY(tcc_comm_barrier(comm));
    if (tcc_comm_waited(comm) < 1) puts("nobody is late"); /* nobody is late */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_begin_work) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    tcc_comm_set_timeout(comm, 5);
    TCC_TRY(tcc_comm_begin_work(comm)); /* evaluates for a minute: the others wait in the barrier */
    TCC_TRY(tcc_comm_barrier(comm));
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_barrier) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    TCC_TRY(tcc_comm_barrier(comm)); /* all ranks have written their files */
    tcc_comm_destroy(comm);
}

EXAMPLE(tcc_comm_abort) {
    tcc_comm *comm;
    TCC_TRY(tcc_comm_create_local(&cx, 1, &comm));
    tcc_comm_abort(comm, "the disk is full"); /* others: "... rank 0 gave up: the disk is full" */
    tcc_comm_destroy(comm);
}
