/* SPDX-License-Identifier: MIT
 * Communicators over MPI: finds which MPI library this process needs, opens the module for it (mpi_module.h), and makes
 * a transport of it. */
#include "runtime/comm/comm.h"
#include "runtime/comm/mpi_module.h"

#include "ir/support/alloc.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_SECONDS 60 /* that ranks wait for each other, unless TCC_COMM_TIMEOUT says otherwise */

/* An MPI library: a module, and how one tells that a process has that library, or was started by it. */
typedef struct mpi_kind {
    const char *name, *file; /* of the module */
    const char *package;     /* in Debian */
    const char *symbol;      /* which this library alone has */
    const char *libraries[3];
    const char *started[4]; /* variables of the environment; the first that is set decides */
} mpi_kind;
static const mpi_kind kinds[] = {
    {"openmpi",
     "libtraincc_openmpi.so",
     "libopenmpi-dev",
     "ompi_mpi_comm_world",
     {"libmpi.so.40"},
     {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}},
    {"mpich",
     "libtraincc_mpich.so",
     "libmpich-dev",
     "MPI_Init", /* asked for behind the symbol of the other one */
     {"libmpich.so.12", "libmpi.so.12"},
     {"PMI_SIZE", "PMI_RANK", "PMI_FD"}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct mpi_transport {
    tcc_transport base;
    const tcc_mpi_module *module;
    tcc_mpi_end *end;
} mpi_transport;

static mpi_transport *mpi_of(tcc_transport *t) { return (mpi_transport *)t; }

/* -- Which library -- */

/* Opens its library for all to see: a module is linked with none, so that it calls the one that the process has. */
static bool open_library(const mpi_kind *kind, int flags) {
    for (int i = 0; kind->libraries[i]; i++)
        if (dlopen(kind->libraries[i], RTLD_NOW | RTLD_GLOBAL | flags)) return true;
    return false;
}

/* The one that this process has loaded; NULL: none. */
static const mpi_kind *loaded_kind(void) {
    for (int i = 0; i < KINDS; i++)
        if (dlsym(RTLD_DEFAULT, kinds[i].symbol)) return &kinds[i];
    for (int i = 0; i < KINDS; i++) /* opened by somebody for himself, as Python does */
        if (open_library(&kinds[i], RTLD_NOLOAD)) return &kinds[i];
    return NULL;
}

static const mpi_kind *started_kind(void) {
    for (int i = 0; i < KINDS; i++)
        for (int k = 0; kinds[i].started[k]; k++)
            if (getenv(kinds[i].started[k])) return &kinds[i];
    return NULL;
}

static tcc_status choose(tcc_diag *d, bool has_own, const mpi_kind **out) {
    const char *named = getenv("TCC_MPI");
    *out = loaded_kind();
    if (!*out && !has_own && named) {
        for (int i = 0; i < KINDS && !*out; i++)
            if (!strcmp(named, kinds[i].name)) *out = &kinds[i];
        if (!*out)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "TCC_MPI is \"%s\", which is neither openmpi nor mpich",
                             named);
    }
    if (!*out && !has_own) *out = started_kind();
    if (*out) return TCC_OK;
    return tcc_error(d, TCC_ENOTFOUND, TCC_NOWHERE, "%s",
                     has_own ? "this process has loaded no MPI library"
                             : "this process was not started by mpirun, mpiexec or srun, and TCC_MPI names no library");
}

/* -- The module -- */

/* The file that holds this code: a library, or the program. Its folder ends with '/'. */
static void find_folder(char folder[PATH_MAX]) {
    Dl_info here;
    struct link_map *map = NULL;
    ssize_t length = 0;
    if (dladdr1((void *)(intptr_t)find_folder, &here, (void **)&map, RTLD_DL_LINKMAP) && map && *map->l_name)
        length = snprintf(folder, PATH_MAX, "%s", map->l_name);
    else length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    while (length > 0 && folder[length - 1] != '/') length--;
    folder[length > 0 ? length : 0] = '\0';
}

/* In that folder, or, where it is a program's, in the library folder beside it; else where the loader looks. */
static void *open_file(const char *file) {
    static const char *const folders[] = {"", "../", "../" TCC_LIBDIR "/"};
    char folder[PATH_MAX], path[PATH_MAX + 128];
    find_folder(folder);
    for (int i = 0; *folder && i < (int)(sizeof folders / sizeof *folders); i++) {
        snprintf(path, sizeof path, "%s%s%s", folder, folders[i], file);
        if (!access(path, R_OK)) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

static tcc_status open_module(tcc_diag *d, const mpi_kind *kind, const tcc_mpi_module **out) {
    if (!dlsym(RTLD_DEFAULT, kind->symbol) && !open_library(kind, 0))
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "%s: %s", kind->name, dlerror());
    void *module = open_file(kind->file);
    if (!module)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "%s: %s; a build of TrainCC makes it where %s is installed",
                         kind->name, dlerror(), kind->package);
    tcc_mpi_module_fn table = (tcc_mpi_module_fn)(intptr_t)dlsym(module, TCC_MPI_MODULE_SYMBOL);
    if (!table || table()->version != TCC_MPI_MODULE_VERSION)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "%s is of another version of TrainCC", kind->file);
    *out = table(); /* it stays loaded, as MPI cannot be unloaded */
    return TCC_OK;
}

/* -- The transport -- */

static tcc_status exchange(tcc_transport *t, tcc_diag *d, const tcc_comm_part *parts, double timeout_s) {
    char why[TCC_MPI_TEXT_BYTES] = "";
    const tcc_status status = mpi_of(t)->module->exchange(mpi_of(t)->end, parts, timeout_s, why);
    return status == TCC_OK ? TCC_OK : tcc_error(d, status, TCC_NOWHERE, "%s", why);
}

static void abort_all(tcc_transport *t, const char *why) { mpi_of(t)->module->abort(mpi_of(t)->end, why); }

static void destroy(tcc_transport *t, double timeout_s) {
    mpi_of(t)->module->close(mpi_of(t)->end, timeout_s);
    tcc__free(t);
}

static tcc_status open_end(tcc_context *cx, const void *mpi_comm, bool of_fortran, tcc_comm **out) {
    static const tcc_transport_ops ops = {.exchange = exchange, .abort = abort_all, .destroy = destroy};
    static const char *const local_ranks[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", NULL};
    tcc_diag *d = &cx->diag;
    const mpi_kind *kind = NULL;
    const tcc_mpi_module *module = NULL;
    char why[TCC_MPI_TEXT_BYTES] = "";
    double timeout_s;
    TCC_TRY(tcc_comm_timeout_of_environment(d, &timeout_s));
    TCC_TRY(choose(d, mpi_comm, &kind));
    TCC_TRY(open_module(d, kind, &module));
    mpi_transport *t = tcc__calloc(1, sizeof *t);
    if (!t) return tcc_enomem(d);
    tcc_status status = module->open(mpi_comm, of_fortran, timeout_s, &t->end, why);
    if (status != TCC_OK) {
        tcc__free(t);
        return tcc_error(d, status, TCC_NOWHERE, "%s: %s", module->library, why);
    }
    t->module = module;
    t->base = (tcc_transport){.ops = &ops,
                              .rank = t->end->rank,
                              .size = t->end->size,
                              .any_thread = t->end->any_thread,
                              .local_rank = tcc_comm_number_of_environment(local_ranks, t->end->rank),
                              .network = *tcc_network_local};
    if (t->end->size > TCC_COMM_MOST_RANKS)
        status = tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%d ranks: 1 to %d are possible", t->end->size,
                           TCC_COMM_MOST_RANKS);
    if (status == TCC_OK) status = tcc_comm_over(cx, &t->base, out);
    if (status != TCC_OK) destroy(&t->base, 0);
    else tcc_comm_set_timeout(*out, timeout_s);
    return status;
}

tcc_status tcc_comm_open_mpi(tcc_context *cx, tcc_comm **out) { return open_end(cx, NULL, false, out); }

tcc_status tcc_comm_from_mpi(tcc_context *cx, const void *mpi_comm, tcc_comm **out) {
    tcc_diag_begin(&cx->diag);
    *out = NULL;
    if (!mpi_comm) return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE, "no MPI_Comm was given");
    return open_end(cx, mpi_comm, false, out);
}

tcc_status tcc_comm_from_mpi_fortran(tcc_context *cx, int mpi_comm, tcc_comm **out) {
    tcc_diag_begin(&cx->diag);
    *out = NULL;
    return open_end(cx, &mpi_comm, true, out);
}
