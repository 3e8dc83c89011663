/* SPDX-License-Identifier: MIT
 * What a module for an MPI library offers: libtraincc_openmpi.so, libtraincc_mpich.so. Their types differ (an MPI_Comm
 * is a pointer in one, a number in the other), so there is a module for each, built of the same sources with its mpi.h.
 * libtraincc opens the one that the process needs. A module calls nothing of libtraincc, as a program may hold that
 * statically; so errors come back as text. */
#ifndef TCC_RUNTIME_COMM_MPI_MODULE_H
#define TCC_RUNTIME_COMM_MPI_MODULE_H

#include "runtime/comm/transport.h"

#include <stdbool.h>

enum { TCC_MPI_MODULE_VERSION = 2, TCC_MPI_TEXT_BYTES = 1024 };

/* A rank's end of a communicator. */
typedef struct tcc_mpi_end {
    int rank, size;
    bool any_thread; /* a thread of ours may call MPI, one at a time */
} tcc_mpi_end;

/* Functions return TCC_OK, or an error with its text in `why`, which holds TCC_MPI_TEXT_BYTES. */
typedef struct tcc_mpi_module {
    int version;         /* TCC_MPI_MODULE_VERSION */
    const char *library; /* "Open MPI" */
    /* The end of a duplicate of *mpi_comm, an MPI_Comm, or, of Fortran, an int; NULL: of MPI_COMM_WORLD, and MPI is
     * initialized if it is not yet, and finalized with the end. */
    tcc_status (*open)(const void *mpi_comm, bool of_fortran, double timeout_s, tcc_mpi_end **out, char *why);
    /* As those of a transport. */
    tcc_status (*exchange)(tcc_mpi_end *end, const tcc_comm_part *parts, double timeout_s, char *why);
    void (*abort)(tcc_mpi_end *end, const char *why);
    /* Waits until all others close their ends, too, but not longer than timeout_s. */
    void (*close)(tcc_mpi_end *end, double timeout_s);
} tcc_mpi_module;

/* The one symbol that a module exports. */
#define TCC_MPI_MODULE_SYMBOL "tcc_mpi_module_table"
typedef const tcc_mpi_module *(*tcc_mpi_module_fn)(void);

#endif
