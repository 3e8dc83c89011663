/* SPDX-License-Identifier: MIT
 * Compiles the kernels that no store has (compile_store.c). Each module has an LLVM context, a diagnostic and an arena
 * of its own, so threads share only the list of remaining modules. Kernels are distributed to modules by estimated
 * size, largest first. Modules and symbols do not depend on the number of threads. */
#include "codegen/compile.h"
#include "codegen/compile_store.h"

#include "ir/support/alloc.h"
#include "ir/support/clock.h"
#include "ir/support/text_file.h"
#include "ir/support/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KERNELS_A_MODULE = 6, MOST_THREADS = 64 };

typedef struct unit {
    tcc_arena arena;
    tcc_diag diag;
    tcc_status status;
    tcc_module module;
    int64_t weight;
} unit;

typedef struct job {
    const tcc_llvm_target *target;
    const tcc_kernel_plan *kernels;
    const tcc_codegen_options *options;
    const char *program;
    tcc_kernel *out;
    const bool *found;             /* kernels that are there already */
    int n_kernels, n_units, first; /* first: the module that unit 0 becomes */
    unit *units;
    int64_t *made_ns; /* by unit */
    atomic_int next;
} job;

static tcc_status dump(job *j, tcc_emitter *e, int index, bool assembly) {
    tcc_strbuf path = {0}, text = {0};
    const tcc_status status = assembly ? tcc_emitter_print_assembly(e, &text) : tcc_emitter_print_ir(e, &text);
    tcc_strbuf_printf(&path, "%s/%s.module%02d.%s", j->options->dump_dir, j->program, index,
                      assembly ? tcc_llvm_assembly_suffix(j->target) : "ll");
    if (status == TCC_OK) return tcc_text_file_write(e->diag, &path, &text);
    tcc_strbuf_free(&path);
    tcc_strbuf_free(&text);
    return status;
}

static tcc_status emit_kernel(job *j, tcc_emitter *e, int index) {
    const tcc_kernel_plan *plan = &j->kernels[index];
    tcc_kernel *out = &j->out[index];
    e->shape = (tcc_emit_entry){plan->shape, plan->n_buffers, plan->n_params, plan->scratch_bytes, false};
    TCC_TRY(plan->emit(e, plan, out->symbol));
    if (!out->table) return TCC_OK;
    char symbol[64];
    snprintf(symbol, sizeof symbol, "%s_table", out->symbol);
    e->shape.table = true;
    return plan->emit(e, plan, symbol);
}

static tcc_status compile_unit(job *j, int index) {
    unit *u = &j->units[index];
    tcc_emitter e;
    char name[32];
    snprintf(name, sizeof name, "module%02d", index);
    const int64_t start = tcc_clock_ns();
    TCC_TRY(tcc_emitter_init(&e, j->target, name, &u->diag));
    tcc_status status = TCC_OK;
    for (int i = 0; status == TCC_OK && i < j->n_kernels; i++)
        if (j->out[i].module == j->first + index) status = emit_kernel(j, &e, i);
    if (status == TCC_OK && j->options->dump_dir) status = dump(j, &e, index, false);
    if (status == TCC_OK) status = tcc_emitter_finish(&e, NULL);
    if (status == TCC_OK && j->options->dump_dir) status = dump(j, &e, index, true);
    if (status == TCC_OK) status = tcc_emitter_object(&e, &u->arena, &u->module);
    tcc_emitter_clear(&e);
    j->made_ns[index] = tcc_clock_ns() - start;
    return status;
}

static void *work(void *argument) {
    job *j = argument;
    for (int i; (i = atomic_fetch_add(&j->next, 1)) < j->n_units;) j->units[i].status = compile_unit(j, i);
    return NULL;
}

static void run(job *j, int threads) {
    pthread_t others[MOST_THREADS];
    int started = 0;
    if (threads > j->n_units) threads = j->n_units;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    while (started < threads - 1 && !tcc__thread_create(&others[started], work, j)) started++;
    work(j);
    for (int i = 0; i < started; i++) pthread_join(others[i], NULL);
}

/* A kernel by what it takes to compile it: about the length of its key. */
typedef struct share {
    size_t size;
    int kernel;
    bool transposes;
} share;

/* Those that transpose first, then by size, the largest first. */
static int larger_first(const void *a, const void *b) {
    const share *x = a, *y = b;
    if (x->transposes != y->transposes) return x->transposes ? -1 : 1;
    return x->size != y->size ? (x->size > y->size ? -1 : 1) : x->kernel - y->kernel;
}

/* Deals kernels to modules: the next largest to the lightest so far. Those that transpose fill a few modules alone,
 * because each module has a function for it, which takes as long to compile as a whole kernel. */
static tcc_status deal(job *j, tcc_diag *diag) {
    share *shares = tcc__malloc(sizeof *shares * ((size_t)j->n_kernels + 1));
    int n = 0, n_transposing = 0;
    if (!shares) return tcc_enomem(diag);
    for (int i = 0; i < j->n_kernels; i++) {
        if (j->found[i]) continue;
        shares[n++] = (share){strlen(j->kernels[i].key), i, j->kernels[i].transposes};
        n_transposing += j->kernels[i].transposes;
    }
    if (n) qsort(shares, (size_t)n, sizeof *shares, larger_first);
    for (int i = 0; i < n; i++) {
        const int units = shares[i].transposes ? (n_transposing + KERNELS_A_MODULE - 1) / KERNELS_A_MODULE : j->n_units;
        int lightest = 0;
        for (int u = 1; u < units; u++)
            if (j->units[u].weight < j->units[lightest].weight) lightest = u;
        j->out[shares[i].kernel].module = j->first + lightest;
        j->units[lightest].weight += (int64_t)shares[i].size + 200;
    }
    tcc__free(shares);
    return TCC_OK;
}

static tcc_status collect(job *j, tcc_diag *diag, tcc_program *p) {
    for (int i = 0; i < j->n_units; i++) {
        unit *u = &j->units[i];
        if (u->status != TCC_OK) {
            if (u->diag.status == TCC_OK) return tcc_enomem(diag);
            return tcc_error(diag, u->status, TCC_NOWHERE, "%s", tcc_diag_text(&u->diag));
        }
        p->modules[p->n_modules++] = (tcc_module){
            tcc_arena_copy(&p->memory, u->module.code, (size_t)u->module.size_bytes), u->module.size_bytes};
        if (!p->modules[j->first + i].code) return tcc_enomem(diag);
    }
    return TCC_OK;
}

/* All of a kernel but its module. */
static tcc_status describe(tcc_diag *diag, const tcc_llvm_target *target, const tcc_kernel_plan *k, bool table,
                           int index, tcc_program *p) {
    tcc_kernel *out = &p->kernels[index];
    *out = (tcc_kernel){.module = -1,
                        .n_buffers = k->n_buffers,
                        .n_params = k->n_params,
                        .scratch_bytes = k->scratch_bytes,
                        .schedule = k->schedule,
                        .symbol = tcc_arena_printf(&p->memory, "%s_%d", k->schedule, index)};
    if (!out->symbol) return tcc_enomem(diag);
    if (!target->lane_groups) return TCC_OK;
    out->threads = k->shape.threads;
    out->items_a_block = tcc_shape_items(k->shape);
    out->scratch_bytes *= out->items_a_block;
    out->table = table;
    if (out->scratch_bytes <= target->hw.shared_optin_bytes) return TCC_OK;
    return TCC_BUG(diag, "kernel %s_%d has %lld bytes of shared memory, %s has %lld", k->schedule, index,
                   (long long)out->scratch_bytes, target->arch, (long long)target->hw.shared_optin_bytes);
}

static tcc_status compile_units(job *j, tcc_diag *diag, const bool *table, tcc_program *p) {
    TCC_TRY(deal(j, diag));
    if (j->options->dump_dir) mkdir(j->options->dump_dir, 0777); /* a failure shows when a file is written */
    run(j, j->options->threads ? j->options->threads : 1);
    TCC_TRY(collect(j, diag, p));
    if (j->options->store) tcc_kernels_keep(j->options->store, j->kernels, table, j->found, j->made_ns, j->first, p);
    return TCC_OK;
}

tcc_status tcc_compile_kernels(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target,
                               const tcc_kernel_plan *kernels, const bool *table, int n,
                               const tcc_codegen_options *options, tcc_program *p) {
    p->n_kernels = n;
    p->kernels = TCC_ARENA_ARRAY(&p->memory, tcc_kernel, n + 1);
    p->modules = TCC_ARENA_ARRAY(&p->memory, tcc_module, n + 1);
    const int most = (n + KERNELS_A_MODULE - 1) / KERNELS_A_MODULE;
    bool *found = tcc__calloc((size_t)n + 1, sizeof *found);
    unit *units = tcc__calloc((size_t)most + 1, sizeof *units);
    int64_t *made_ns = tcc__calloc((size_t)most + 1, sizeof *made_ns);
    tcc_status status = p->kernels && p->modules && found && units && made_ns ? TCC_OK : tcc_enomem(diag);
    int left = n;
    for (int i = 0; status == TCC_OK && i < n; i++) status = describe(diag, target, &kernels[i], table[i], i, p);
    if (status == TCC_OK && options->store)
        status = tcc_kernels_find(options->store, diag, kernels, table, n, p, found);
    for (int i = 0; status == TCC_OK && i < n; i++) left -= found[i];
    if (options->store) options->store->count(options->store->user, n - left);
    job j = {.target = target,
             .kernels = kernels,
             .options = options,
             .program = p->name,
             .out = p->kernels,
             .found = found,
             .n_kernels = n,
             .n_units = (left + KERNELS_A_MODULE - 1) / KERNELS_A_MODULE,
             .first = p->n_modules,
             .units = units,
             .made_ns = made_ns};
    if (status == TCC_OK) status = compile_units(&j, diag, table, p);
    for (int i = 0; units && i < most; i++) {
        tcc_arena_free(&units[i].arena);
        tcc_diag_clear(&units[i].diag);
    }
    tcc__free(units);
    tcc__free(found);
    tcc__free(made_ns);
    tcc_logf(cx, TCC_LOG_CODEGEN, "program %s: %d kernels in %d modules", p->name, n, p->n_modules);
    return status;
}
