/* SPDX-License-Identifier: MIT
 * Kernels to code. Each module has an LLVM context, a diagnostic and an arena of its own, so that threads share nothing
 * but the list of modules still to do. Kernels are dealt to modules by estimated size, largest first; modules and
 * symbols do not depend on the number of threads. */
#include "codegen/compile.h"

#include "ir/support/alloc.h"

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
    int n_kernels, n_units;
    unit *units;
    atomic_int next;
} job;

static tcc_status write_file(tcc_diag *d, const char *path, const tcc_strbuf *text) {
    FILE *f = fopen(path, "w");
    if (!f) return tcc_error(d, TCC_EIO, TCC_NOWHERE, "cannot write %s", path);
    size_t written = fwrite(text->text ? text->text : "", 1, text->length, f);
    if (fclose(f) || written != text->length) return tcc_error(d, TCC_EIO, TCC_NOWHERE, "cannot write all of %s", path);
    return TCC_OK;
}

static tcc_status dump(job *j, tcc_emitter *e, int index, bool assembly) {
    tcc_strbuf text = {0};
    tcc_status status = assembly ? tcc_emitter_print_assembly(e, &text) : tcc_emitter_print_ir(e, &text);
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.module%02d.%s", j->options->dump_dir, j->program, index,
             assembly ? tcc_llvm_assembly_suffix(j->target) : "ll");
    if (status == TCC_OK) status = write_file(e->diag, path, &text);
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
    TCC_TRY(tcc_emitter_init(&e, j->target, name, &u->diag));
    tcc_status status = TCC_OK;
    for (int i = 0; status == TCC_OK && i < j->n_kernels; i++)
        if (j->out[i].module == index) status = emit_kernel(j, &e, i);
    if (status == TCC_OK && j->options->dump_dir) status = dump(j, &e, index, false);
    if (status == TCC_OK) status = tcc_emitter_finish(&e, NULL);
    if (status == TCC_OK && j->options->dump_dir) status = dump(j, &e, index, true);
    if (status == TCC_OK) status = tcc_emitter_object(&e, &u->arena, &u->module);
    tcc_emitter_clear(&e);
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
    while (started < threads - 1 && !pthread_create(&others[started], NULL, work, j)) started++;
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
    int n_transposing = 0;
    if (!shares) return tcc_enomem(diag);
    for (int i = 0; i < j->n_kernels; i++) {
        shares[i] = (share){strlen(j->kernels[i].key), i, j->kernels[i].transposes};
        n_transposing += shares[i].transposes;
    }
    if (j->n_kernels) qsort(shares, (size_t)j->n_kernels, sizeof *shares, larger_first);
    for (int i = 0; i < j->n_kernels; i++) {
        const int units = shares[i].transposes ? (n_transposing + KERNELS_A_MODULE - 1) / KERNELS_A_MODULE : j->n_units;
        int lightest = 0;
        for (int u = 1; u < units; u++)
            if (j->units[u].weight < j->units[lightest].weight) lightest = u;
        j->out[shares[i].kernel].module = lightest;
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
        p->modules[i] = (tcc_module){tcc_arena_copy(&p->memory, u->module.code, (size_t)u->module.size_bytes),
                                     u->module.size_bytes};
        if (!p->modules[i].code) return tcc_enomem(diag);
    }
    return TCC_OK;
}

tcc_status tcc_compile_kernels(tcc_context *cx, tcc_diag *diag, const tcc_llvm_target *target,
                               const tcc_kernel_plan *kernels, const bool *table, int n,
                               const tcc_codegen_options *options, tcc_program *p) {
    p->n_kernels = n;
    p->n_modules = (n + KERNELS_A_MODULE - 1) / KERNELS_A_MODULE;
    p->kernels = TCC_ARENA_ARRAY(&p->memory, tcc_kernel, n + 1);
    p->modules = TCC_ARENA_ARRAY(&p->memory, tcc_module, p->n_modules + 1);
    unit *units = tcc__calloc((size_t)p->n_modules + 1, sizeof *units);
    job j = {.target = target,
             .kernels = kernels,
             .options = options,
             .program = p->name,
             .out = p->kernels,
             .n_kernels = n,
             .n_units = p->n_modules,
             .units = units};
    tcc_status status = p->kernels && p->modules && units ? TCC_OK : tcc_enomem(diag);
    for (int i = 0; status == TCC_OK && i < n; i++) {
        const tcc_kernel_plan *k = &kernels[i];
        p->kernels[i] = (tcc_kernel){.n_buffers = k->n_buffers,
                                     .n_params = k->n_params,
                                     .scratch_bytes = k->scratch_bytes,
                                     .schedule = k->schedule,
                                     .symbol = tcc_arena_printf(&p->memory, "%s_%d", k->schedule, i)};
        if (target->lane_groups) {
            p->kernels[i].threads = k->shape.threads;
            p->kernels[i].items_a_block = tcc_shape_items(k->shape);
            p->kernels[i].scratch_bytes *= p->kernels[i].items_a_block;
            p->kernels[i].table = table[i];
            if (status == TCC_OK && p->kernels[i].scratch_bytes > target->hw.shared_optin_bytes)
                status = TCC_BUG(diag, "kernel %s_%d has %lld bytes of shared memory, %s has %lld", k->schedule, i,
                                 (long long)p->kernels[i].scratch_bytes, target->arch,
                                 (long long)target->hw.shared_optin_bytes);
        }
        if (!p->kernels[i].symbol) status = tcc_enomem(diag);
    }
    if (status == TCC_OK) status = deal(&j, diag);
    if (status == TCC_OK && options->dump_dir)
        mkdir(options->dump_dir, 0777); /* a failure shows when a file is written */
    if (status == TCC_OK) {
        run(&j, options->threads ? options->threads : 1);
        status = collect(&j, diag, p);
    }
    for (int i = 0; units && i < p->n_modules; i++) {
        tcc_arena_free(&units[i].arena);
        tcc_diag_clear(&units[i].diag);
    }
    tcc__free(units);
    tcc_logf(cx, TCC_LOG_CODEGEN, "program %s: %d kernels in %d modules", p->name, n, p->n_modules);
    return status;
}
