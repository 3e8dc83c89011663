/* SPDX-License-Identifier: MIT
 * Verification: one training step on the compiled program against the reference interpreter.
 *
 * The compiled side is a second model with the same function and copies of all parameters; so the first model is
 * untouched. First the twin runs training's program on the whole batch: each kernel is compared with the interpreter on
 * the kernel's real inputs (kernels.c). Then it keeps its gradients, and the step's results are compared with those of
 * the graph right after autodiff (passes.c), on as many samples of the batch as time allows. Both comparisons allow the
 * noise that rounding makes there (ir/noise.h). If a result is wrong, the first pass whose graph is wrong is
 * searched. */
#include "frontend/verify/verify.h"

#include "ir/support/text_file.h"
#include "runtime/memory_limits.h"

#include <math.h>

/* The states of the twin's step that v->m has not got, because it was not compiled for training yet. */
static tcc_status begin_states(tcc_verification *v) {
    const tcc_program *p = v->twin->last->program;
    TCC_TRY(tcc__states_derive(v->m, NULL));
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *b = &p->bindings[i];
        int index;
        if (b->role != TCC_ROLE_STATE || tcc__verify_stored(v, b->name)) continue;
        TCC_TRY(tcc__state_add(&v->states, b, &v->m->cx->diag, &index));
    }
    TCC_TRY(tcc_store_fill(&v->states, &v->m->cx->diag));
    for (int i = 0; i < v->states.entries.count; i++) {
        tcc_stored *s = &v->states.entries.data[i];
        if (s->copy_of) tcc__state_derive(s, tcc__verify_stored(v, s->copy_of));
    }
    return TCC_OK;
}

/* The twin takes the step in one piece. */
static tcc_status run_twin(tcc_verification *v, bool gradients) {
    tcc_model_destroy(v->twin);
    v->twin = NULL;
    TCC_TRY(tcc__verify_make_twin(v, 0, gradients, &v->twin));
    TCC_TRY(begin_states(v));
    double scale, ignored;
    int64_t before, after;
    const bool scaled = tcc_model_loss_scale(v->twin, &scale, &before) == TCC_OK;
    tcc_diag_begin(&v->m->cx->diag);
    TCC_TRY(tcc_model_train(v->twin, v->batch, v->count));
    TCC_TRY(tcc_model_synchronize(v->twin));
    if (!scaled) return TCC_OK;
    TCC_TRY(tcc_model_loss_scale(v->twin, &ignored, &after));
    v->skipped = after != before;
    if (v->skipped) tcc__verify_say(v, "the step is skipped: a gradient overflows with a loss scale of %g", scale);
    return TCC_OK;
}

typedef struct tasks {
    tcc_noise_task *task;
    void *arg;
} tasks;

static void run_tasks(void *user, int worker, int64_t begin, int64_t end) {
    const tasks *t = user;
    (void)worker;
    for (int64_t i = begin; i < end; i++) t->task(t->arg, (int)i);
}

static void run_on_pool(void *user, tcc_noise_task *task, void *arg, int count) {
    tcc_pool_run(user, run_tasks, &(tasks){task, arg}, count, 1);
}

/* Whether there is memory for all values of the twin's program, each by itself. */
static bool has_room(const tcc_verification *v) {
    const tcc_graph *g = v->twin->last->record->graph;
    const int64_t left = tcc_memory_left("/proc", "/sys/fs/cgroup");
    int64_t bytes = 0;
    for (int i = 0; i < g->groups.count; i++)
        for (int k = 0; k < g->groups.data[i].n_outputs; k++)
            bytes += tcc_type_bytes(&g->groups.data[i].outputs[k]->type);
    return !left || bytes < left / 2;
}

static tcc_status run_program(tcc_verification *v, tcc_blame *out) {
    tcc__verify_say(v, "running the step");
    TCC_TRY(run_twin(v, false));
    if (!has_room(v)) return tcc_enomem(&v->m->cx->diag);
    tcc__verify_say(v, "comparing each of %d kernels with the interpreter", v->twin->last->record->graph->groups.count);
    return tcc__verify_kernels(v, out);
}

/* The program that training runs, on the whole batch if there is memory for all of its values. */
static tcc_status verify_program(tcc_verification *v, tcc_blame *out) {
    const tcc_status status = run_program(v, out);
    if (status != TCC_ENOMEM || v->batch == v->slice) return status;
    tcc_diag_begin(&v->m->cx->diag);
    tcc__verify_say(v, "there is no memory for all values of the whole batch at once: it is cut");
    v->whole = v->batch = v->slice;
    return run_program(v, out);
}

/* What the step computes, of the slice. Where it is wrong, a kernel may be the cause. */
static tcc_status verify_results(tcc_verification *v, tcc_blame *out) {
    tcc_blame cause = {{0}, {0}, {0}};
    TCC_TRY(tcc__verify_reference(v));
    TCC_TRY(run_twin(v, true));
    tcc__verify_say(v, "comparing loss and gradients with the interpreter");
    TCC_TRY(tcc__verify_skip(v, out));
    TCC_TRY(tcc__verify_outputs(v, out));
    tcc__verify_say(v, "comparing what the passes have made of the graph");
    TCC_TRY(tcc__verify_graph(v, out));
    if (!out->text.length || out->cause.length) return TCC_OK;
    const tcc_status status = tcc__verify_kernels(v, &cause);
    if (status == TCC_OK && cause.text.length) {
        tcc__blame_clear(out);
        *out = cause;
    } else tcc__blame_clear(&cause);
    return status;
}

static tcc_status find_cause(tcc_verification *v, tcc_blame *out) {
    bool found = false;
    tcc__verify_say(v, "something is wrong: looking for the cause");
    const bool of_code = out->cause.length > 0;
    if (!v->reference) TCC_TRY(tcc__verify_reference(v));
    TCC_TRY(tcc__verify_passes(v, out, &found));
    if (found || !of_code) return TCC_OK;
    tcc_strbuf cause = {0};
    tcc_strbuf_printf(&cause, "every graph is right: %s", out->cause.text ? out->cause.text : "");
    tcc_strbuf_free(&out->cause);
    out->cause = cause;
    return TCC_OK;
}

static tcc_status verify(tcc_verification *v, tcc_blame *out) {
    const bool accumulates = tcc__model_accumulates(v->m);
    TCC_TRY(tcc__verify_check_finite(v));
    v->batch = accumulates ? v->slice : v->whole; /* in one piece it need not fit */
    TCC_TRY(verify_program(v, out));
    v->batch = v->slice;
    if (!out->text.length) TCC_TRY(verify_results(v, out));
    if (out->text.length) return find_cause(v, out);
    if (!accumulates) return TCC_OK;
    TCC_TRY(tcc__verify_micro(v, true, out));
    v->batch = v->whole;
    return v->whole == v->slice || out->text.length ? TCC_OK : tcc__verify_micro(v, false, out);
}

/* What is left of the batch for loss and gradients, and for kernels. */
typedef struct tcc_cuts {
    tcc_cut results, kernels;
} tcc_cuts;

static void write_reproducer(tcc_diag *diag, const char *path, const tcc_strbuf *reproducer) {
    tcc_diag quiet = {0};
    tcc_strbuf name = {0}, text = {0};
    tcc_strbuf_add(&name, path);
    tcc_strbuf_add(&text, reproducer->text);
    const bool ok = tcc_text_file_write(&quiet, &name, &text) == TCC_OK;
    tcc_diag_clear(&quiet);
    tcc_note(diag, TCC_NOWHERE, ok ? "reproducer: %s" : "the reproducer could not be written to %s", path);
}

static tcc_status report(tcc_verification *v, const tcc_blame *b, const char *reproducer) {
    tcc_diag *diag = &v->m->cx->diag;
    if (b->text.failed || b->cause.failed || b->reproducer.failed) return tcc_enomem(diag);
    tcc_status status = tcc_error(diag, TCC_EBUG, TCC_NOWHERE, "%s", b->text.text);
    tcc_note(diag, TCC_NOWHERE, "%s",
             b->cause.length ? b->cause.text
                             : "every graph and every kernel by itself is right: together they err by more than "
                               "rounding explains");
    if (reproducer && b->reproducer.length) write_reproducer(diag, reproducer, &b->reproducer);
    return status;
}

static void print_cut(tcc_strbuf *b, const char *what, const tcc_cut *cut) {
    if (!tcc__verify_is_cut(cut)) return;
    tcc_strbuf_printf(b, "%s are those of ", what);
    tcc__verify_cut_print(b, cut);
    tcc_strbuf_add(b, "\n");
}

/* What the report "verify" says. */
static tcc_status keep_report(tcc_verification *v, const tcc_cuts *cuts) {
    const bool all_cut = v->whole == v->slice;
    tcc_strbuf b = {0};
    if (tcc__model_accumulates(v->m))
        tcc_strbuf_add(
            &b, "in one piece, and in micro-batches: the kernels of the first two, of a rest and of the update\n");
    tcc_strbuf_printf(&b, "%d kernels, each on the values that it gets: at most %.2f of what rounding explains",
                      v->groups, v->worst_kernel);
    tcc_strbuf_printf(&b, v->worst_kernel > 0 ? ", around %s\n" : "\n", v->worst_kernel_name);
    if (v->sampled)
        tcc_strbuf_printf(&b, "a sample of the results of %d of them, drawn from %s batch\n", v->sampled,
                          tcc__verify_is_cut(all_cut ? &cuts->results : &cuts->kernels) ? "the cut" : "the whole");
    tcc_strbuf_printf(&b, "loss, gradients and buffers: at most %.2f of it", v->worst_output);
    tcc_strbuf_printf(&b, v->worst_output > 0 ? ", of \"%s\"\n" : "\n", v->worst_output_name);
    if (!all_cut) print_cut(&b, "kernels", &cuts->kernels);
    print_cut(&b, all_cut ? "kernels, loss, gradients and buffers" : "loss, gradients and buffers", &cuts->results);
    if (v->skipped)
        tcc_strbuf_add(&b,
                       "the step is skipped, as it must be: a gradient is not finite; what is stored keeps its bits\n");
    tcc_strbuf_add(&b, "memory plan: the same bits as with memory of its own for each value\n");
    tcc__free(v->m->compiler->verified);
    return (v->m->compiler->verified = tcc_strbuf_take(&b)) ? TCC_OK : tcc_enomem(&v->m->cx->diag);
}

static tcc_status verify_slices(tcc_verification *v, const char *reproducer) {
    tcc_blame blame = {{0}, {0}, {0}};
    tcc_status status = verify(v, &blame);
    if (status == TCC_OK && blame.text.length) status = report(v, &blame, reproducer);
    tcc__blame_clear(&blame);
    if (v->expected) tcc__noisy_array_free(v->expected, v->reference->outputs.count);
    if (v->meant) tcc__noisy_array_free(v->meant, v->reference->outputs.count);
    tcc_graph_destroy(v->reference);
    tcc_store_free(&v->states);
    tcc_model_destroy(v->twin);
    return status;
}

static void say_cut(const tcc_verification *v, const char *what, const tcc_cut *cut) {
    tcc_strbuf words = {0};
    tcc__verify_cut_print(&words, cut);
    tcc__verify_say(v, "%s of %s", what, words.text ? words.text : "");
    tcc_strbuf_free(&words);
}

static tcc_status cut_batch(tcc_verification *v, tcc_array *results, tcc_array *kernels, tcc_cuts *cuts) {
    v->whole = v->slice = v->batch;
    TCC_TRY(tcc__verify_cut(v, TCC_CUT_FOR_RESULTS, results, &cuts->results));
    if (!tcc__verify_is_cut(&cuts->results)) return TCC_OK;
    v->slice = results;
    say_cut(v, "loss and gradients", &cuts->results);
    if (strcmp(tcc_model_device(v->m), "cpu") != 0) return TCC_OK;
    TCC_TRY(tcc__verify_cut(v, TCC_CUT_FOR_KERNELS, kernels, &cuts->kernels));
    if (!tcc__verify_is_cut(&cuts->kernels)) return TCC_OK;
    v->whole = kernels;
    say_cut(v, "a step on the whole batch would take long: kernels", &cuts->kernels);
    return TCC_OK;
}

static tcc_status verify_batch(tcc_verification *v, tcc_array *results, tcc_array *kernels, const char *reproducer) {
    tcc_cuts cuts = {{0}, {0}};
    TCC_TRY(cut_batch(v, results, kernels, &cuts));
    TCC_TRY(tcc_pool_create(&v->m->cx->diag, 0, &v->pool));
    v->noise.run = run_on_pool, v->noise.run_user = v->pool;
    tcc_pool_lock(v->pool);
    v->noise.pool = tcc_value_pool_create();
    tcc_status status = v->noise.pool ? verify_slices(v, reproducer) : tcc_enomem(&v->m->cx->diag);
    tcc_value_pool_destroy(v->noise.pool);
    tcc_pool_unlock(v->pool);
    tcc_pool_destroy(v->pool);
    return status == TCC_OK ? keep_report(v, &cuts) : status;
}

tcc_status tcc_model_verify(tcc_model *m, const tcc_array *batch, int count, double tolerance, const char *reproducer) {
    tcc_diag *diag = &m->cx->diag;
    tcc_diag_begin(diag);
    TCC_TRY(tcc__model_need_function(m));
    TCC_TRY(tcc__model_can_run(m));
    if (!(tolerance >= 0)) return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "verify: the tolerance must be 0 or more");
    if (m->options.comm)
        return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                         "verify: this model trains on several ranks; verify one without comm, with batch_accumulate "
                         "for the ranks");
    TCC_TRY(tcc__model_check_batch(m, batch, count));
    TCC_TRY(tcc_model_synchronize(m));
    const bool gpu = strcmp(tcc_model_device(m), "cpu") != 0;
    tcc_array *host;
    TCC_TRY(tcc__arrays_to_host(m, batch, count, &host));
    tcc_verification v = {.m = m,
                          .batch = host,
                          .count = count,
                          .tolerance = tolerance,
                          .noise = {.seed = 1, .tf32 = gpu && m->options.allow_tf32, .one_chain = gpu}};
    tcc_array *results = tcc__calloc((size_t)count + 1, sizeof *results),
              *kernels = tcc__calloc((size_t)count + 1, sizeof *kernels);
    tcc_status status = results && kernels ? verify_batch(&v, results, kernels, reproducer) : tcc_enomem(diag);
    tcc__verify_free_slice(&v, results, host);
    tcc__verify_free_slice(&v, kernels, host);
    tcc__arrays_free(host, batch, count);
    return status;
}
