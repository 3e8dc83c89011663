/* SPDX-License-Identifier: MIT
 * A program's PTX on a CUDA device. */
#include "runtime/cuda/module.h"
#include "runtime/cpus.h"

#include "ir/support/alloc.h"
#include "ir/support/clock.h"
#include "ir/support/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LOG_BYTES = 1024, /* of what the driver says: the first errors tell most */
    MOST_THREADS = 64
};

/* One module: what came of it. */
typedef struct job {
    tcc_cuda_result result;
    tcc_cuda_link link; /* has the machine code, where it was compiled to be kept; else NULL */
    void *machine;
    size_t machine_bytes;
    int64_t made_ns;
    void *values[2]; /* of the options below; the link refers to them as long as it lives */
    char log[LOG_BYTES];
} job;

typedef struct loading {
    tcc_device_cuda *cuda;
    const tcc_program *program;
    const tcc_code_store *store;
    char maker[64]; /* for the store */
    tcc_cuda_module *modules;
    job *jobs;
    atomic_int next;
    atomic_bool failed;
} loading;

static int log_options[] = {TCC_CUDA_JIT_ERROR_LOG, TCC_CUDA_JIT_ERROR_LOG_BYTES};

/* False: the store has nothing for it, or what the driver does not take. */
static bool load_found(loading *l, int module) {
    void *machine;
    int64_t bytes;
    if (!l->store || !l->store->find(l->store->user, l->maker, l->program->modules[module].code, &machine, &bytes))
        return false;
    const tcc_cuda_result r = l->cuda->cu.module_load(&l->modules[module], machine, 0, NULL, NULL);
    tcc__free(machine);
    return !r;
}

/* The driver hands machine code out only by way of its linker. */
static tcc_cuda_result compile_to_keep(loading *l, int module) {
    const tcc_cuda_driver *cu = &l->cuda->cu;
    const char *code = l->program->modules[module].code;
    job *j = &l->jobs[module];
    const int64_t start = tcc_clock_ns();
    tcc_cuda_result r = cu->link_create(2, log_options, j->values, &j->link);
    if (r) {
        j->link = NULL;
        return r;
    }
    r = cu->link_add(j->link, TCC_CUDA_INPUT_PTX, (void *)code, strlen(code) + 1, "traincc", 0, NULL, NULL);
    if (!r) r = cu->link_complete(j->link, &j->machine, &j->machine_bytes);
    j->made_ns = tcc_clock_ns() - start;
    return r ? r : cu->module_load(&l->modules[module], j->machine, 0, NULL, NULL);
}

/* Takes modules until none is left or one has failed. The context is the thread's. */
static void load_some(loading *l) {
    const tcc_program *p = l->program;
    for (int i; !l->failed && (i = l->next++) < p->n_modules;) {
        job *j = &l->jobs[i];
        j->values[0] = j->log;
        j->values[1] = (void *)(uintptr_t)(sizeof j->log - 1);
        if (load_found(l, i)) continue;
        j->result = l->store ? compile_to_keep(l, i)
                             : l->cuda->cu.module_load(&l->modules[i], p->modules[i].code, 2, log_options, j->values);
        if (!j->result) continue;
        l->modules[i] = NULL;
        l->failed = true;
    }
}

static void *load_thread(void *user) {
    loading *l = user;
    tcc_cuda_context own;
    if (l->cuda->cu.context_push(l->cuda->context)) return NULL; /* the others do the work */
    load_some(l);
    l->cuda->cu.context_pop(&own);
    return NULL;
}

/* The driver compiles PTX on one thread a module: so on as many as there are CPUs. */
static void load_all(loading *l) {
    pthread_t threads[MOST_THREADS];
    tcc_cpus cpus;
    int n = 0, wanted;
    tcc_cpus_get(&cpus);
    if (tcc_cpus_threads(NULL, &cpus, &wanted) != TCC_OK) wanted = 1;
    if (wanted > l->program->n_modules) wanted = l->program->n_modules;
    while (n < wanted - 1 && n < MOST_THREADS && !tcc__thread_create(&threads[n], load_thread, l)) n++;
    load_some(l);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static tcc_status refused(const loading *l, tcc_diag *d, int module) {
    tcc_device_cuda *cuda = l->cuda;
    const tcc_program *p = l->program;
    char *log = l->jobs[module].log, call[LOG_BYTES + 128];
    tcc_cuda_result r = l->jobs[module].result;
    for (size_t end = strlen(log); end && strchr("\n ", log[end - 1]); end--) log[end - 1] = 0;
    snprintf(call, sizeof call, "the driver refuses module %d of program '%s'%s%s", module, p->name ? p->name : "",
             *log ? ": " : "", log);
    tcc_status s = tcc__cuda_failed(cuda, d, r, call);
    if (r == TCC_CUDA_UNSUPPORTED_PTX_VERSION)
        tcc_note(d, TCC_NOWHERE, "this driver speaks CUDA %d.%d: a newer one takes the PTX", cuda->cu.version / 1000,
                 cuda->cu.version % 1000 / 10);
    if (*log) tcc__cuda_module_save(d, p, module);
    return s;
}

/* Machine code that was made and loaded is kept; the driver's memory for it is given back. */
static void keep_made(loading *l) {
    bool any = false;
    for (int i = 0; i < l->program->n_modules; i++) {
        job *j = &l->jobs[i];
        if (!j->link) continue;
        if (!j->result)
            l->store->keep(l->store->user, l->maker, l->program->modules[i].code, j->machine, (int64_t)j->machine_bytes,
                           j->made_ns);
        any |= !j->result;
        l->cuda->cu.link_destroy(j->link);
    }
    if (any) l->store->flush(l->store->user);
}

tcc_status tcc__cuda_modules_load(tcc_device_cuda *cuda, tcc_diag *d, const tcc_program *p, const tcc_code_store *store,
                                  tcc_cuda_module *modules) {
    loading l = {.cuda = cuda,
                 .program = p,
                 .store = store,
                 .modules = modules,
                 .jobs = tcc__calloc((size_t)p->n_modules + 1, sizeof *l.jobs)};
    if (!l.jobs) return tcc_enomem(d);
    /* Machine code is for one kind of processor; which driver made it decides how good it is. */
    snprintf(l.maker, sizeof l.maker, "sm_%d, driver for CUDA %d", cuda->base.hw.sm, cuda->cu.version);
    load_all(&l);
    keep_made(&l);
    tcc_status s = TCC_OK;
    for (int i = 0; i < p->n_modules && s == TCC_OK; i++)
        if (l.jobs[i].result) s = refused(&l, d, i);
    tcc__free(l.jobs);
    return s;
}

void tcc__cuda_module_save(tcc_diag *d, const tcc_program *p, int module) {
    const char *folder = getenv("TMPDIR");
    tcc_strbuf path = {0};
    tcc_strbuf_printf(&path, "%s/traincc-module%d-XXXXXX.ptx", folder && *folder ? folder : "/tmp", module);
    int file = path.text ? mkstemps(path.text, 4) : -1;
    const char *code = p->modules[module].code;
    size_t length = strlen(code);
    bool written = file >= 0 && write(file, code, length) == (ssize_t)length;
    if (file >= 0 && close(file)) written = false;
    if (written) tcc_note(d, TCC_NOWHERE, "its PTX is in %s", path.text);
    tcc_strbuf_free(&path);
}
