/* SPDX-License-Identifier: MIT
 * The trial of the whole step. The best choice for each kind of group alone need not be best for the step, whose
 * kernels share the caches. So the default step and the step with all choices run in turns, on the same memory. The
 * choices are kept only if the step is not slower by more than the band.
 *
 * The default step is compiled before anything is tuned. So the time of the trial is known, and that part of the budget
 * is set aside. */
#include "frontend/tune/tune.h"

#include "codegen/build.h"
#include "ir/support/clock.h"
#include "runtime/cpus.h"

#include <stdlib.h>

enum { LEAST_TURNS = 3, MOST_TURNS = 25 };

static const double TURNS_SHARE = 0.1, COMPILE_SLACK = 1.25;

/* -- Its programs -- */

tcc_status tcc__tune_plan(tcc_model *m, const tcc_pass_options *passes, const tcc_graph *traced, bool tuned,
                          tcc_graph **out) {
    TCC_TRY(tcc_graph_copy_live(traced, out));
    tcc_pass_options options = *passes;
    tcc_pass_target target = *options.target;
    if (!tuned) target.choose = NULL;
    options.target = &target;
    tcc_pass_cx cx = {.cx = m->cx, .diag = &m->cx->diag, .options = &options};
    const unsigned topics = m->cx->topics;
    m->cx->topics = 0; /* all of this is said when the step itself is planned */
    const tcc_status status = tcc_pipeline_run(&cx, &(tcc_manager_options){0}, out, NULL);
    m->cx->topics = topics;
    return status;
}

static int64_t bytes_of(const tcc_program *p, int binding) { return tcc_type_bytes(&p->bindings[binding].type); }

typedef struct drawing {
    const tcc_binding *binding;
    int number;
    double indices;
} drawing;

/* Parameters are small, states begin as they would, integers are indices that exist. */
static double value_of(const void *user, int64_t i) {
    const drawing *d = user;
    const tcc_binding *b = d->binding;
    const double x = tcc__tune_draw(d->number, i);
    if (b->role == TCC_ROLE_RNG) return 0;
    if (b->role == TCC_ROLE_STATE && !b->copy_of) return b->begin;
    if (b->type.dtype == TCC_BOOL) return x < 0.5;
    if (!tcc_dtype_is_float(b->type.dtype)) return (double)(int64_t)(x * d->indices);
    return (b->role == TCC_ROLE_BATCH ? 1 : 0.1) * (2 * x - 1);
}

static tcc_status fill(tcc_step_trial *t, const tcc_binding *b, int binding, void *memory) {
    const tcc_device_ops *ops = t->m->device->ops;
    const int64_t bytes = tcc_type_bytes(&b->type);
    float hyper[TCC_HYPER_MOST];
    if (b->role == TCC_ROLE_HYPER) {
        tcc__model_hyper(t->m, hyper);
        return ops->upload(t->m->device, &t->m->cx->diag, memory, hyper, bytes);
    }
    char *packed = tcc__malloc((size_t)bytes + 1);
    if (!packed) return tcc_enomem(&t->m->cx->diag);
    tcc__tune_fill(&b->type, value_of, &(drawing){b, binding, (double)t->indices}, packed);
    const tcc_status status = ops->upload(t->m->device, &t->m->cx->diag, memory, packed, bytes);
    tcc__free(packed);
    return status;
}

/* Memory of the first side's binding that is the same value; NULL: it has none such. */
static void *memory_of_first(const tcc_step_trial *t, const tcc_binding *b) {
    const tcc_program *p = t->sides[0].program;
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *x = &p->bindings[i];
        if (!strcmp(x->name, b->name) && x->role == b->role && tcc_type_equal(&x->type, &b->type))
            return t->sides[0].memory[i];
    }
    return NULL;
}

static tcc_status bind_all(tcc_step_trial *t, tcc_trial_side *s) {
    const tcc_program *p = s->program;
    s->memory = tcc__calloc((size_t)p->n_bindings + 1, sizeof *s->memory);
    s->owns = tcc__calloc((size_t)p->n_bindings + 1, sizeof *s->owns);
    if (!s->memory || !s->owns) return tcc_enomem(&t->m->cx->diag);
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *b = &p->bindings[i];
        if (s != t->sides) s->memory[i] = memory_of_first(t, b);
        if (!s->memory[i]) {
            TCC_TRY(tcc__device_alloc(t->m, bytes_of(p, i), b->name, &s->memory[i]));
            s->owns[i] = true;
            if (b->role != TCC_ROLE_OUTPUT) TCC_TRY(fill(t, b, i, s->memory[i]));
        }
        TCC_TRY(tcc_exec_bind(s->exec, &t->m->cx->diag, i, s->memory[i], bytes_of(p, i)));
    }
    return TCC_OK;
}

/* Both run in one arena, of the size of the larger. */
static tcc_status give_arena(tcc_step_trial *t, tcc_trial_side *s) {
    tcc_model *m = t->m;
    if (s->program->arena_bytes > t->arena_bytes) {
        void *arena = NULL;
        TCC_TRY(tcc__device_alloc(m, s->program->arena_bytes, "the step on trial", &arena));
        for (int i = 0; i < 2; i++)
            if (t->sides[i].exec)
                TCC_TRY(tcc_exec_set_arena(t->sides[i].exec, &m->cx->diag, arena, s->program->arena_bytes));
        if (t->arena) m->device->ops->free(m->device, t->arena, t->arena_bytes);
        t->arena = arena, t->arena_bytes = s->program->arena_bytes;
    } else if (t->arena) {
        TCC_TRY(tcc_exec_set_arena(s->exec, &m->cx->diag, t->arena, t->arena_bytes));
    }
    return TCC_OK;
}

static tcc_status run_once(tcc_step_trial *t, tcc_trial_side *s, int64_t *ns) {
    const int64_t start = tcc_clock_ns();
    TCC_TRY(tcc_exec_run(s->exec, &t->m->cx->diag));
    TCC_TRY(t->m->device->ops->synchronize(t->m->device, &t->m->cx->diag));
    *ns = tcc_clock_ns() - start;
    const struct tcc_tuning *tuning = t->m->compiler->tuning;
    if (tuning->judge)
        *ns = tuning->judge(tuning->judge_user, s == t->sides ? "the step as by default" : "the step as tuned", *ns);
    return TCC_OK;
}

/* How many integers the step's indices may be, so that all that they mean exists. */
static int64_t count_indices(const tcc_graph *g) {
    int64_t least = 8;
    bool any = false;
    for (int i = 0; i < g->nodes.count; i++) {
        const int64_t extent = tcc__tune_indexed(g->nodes.data[i]);
        if (extent && (!any || extent < least)) least = extent, any = true;
    }
    return least < 1 ? 1 : least;
}

static tcc_status generate(tcc_step_trial *t, const tcc_graph *g, tcc_program **out) {
    tcc_codegen_options options = *t->codegen;
    tcc_diag *diag = &t->m->cx->diag;
    tcc_cpus cpus;
    options.target = tcc_selector_llvm(t->m->compiler->selector);
    tcc_cpus_get(&cpus);
    TCC_TRY(tcc_cpus_threads(diag, &cpus, &options.threads));
    return tcc_codegen_build(t->m->cx, diag, g, &options, out);
}

static void clear_side(tcc_model *m, tcc_trial_side *s) {
    tcc_exec_destroy(s->exec);
    for (int i = 0; s->memory && s->owns && i < s->program->n_bindings; i++)
        if (s->owns[i]) m->device->ops->free(m->device, s->memory[i], bytes_of(s->program, i));
    tcc__free(s->memory);
    tcc__free(s->owns);
    tcc_program_destroy(s->program);
    *s = (tcc_trial_side){0};
}

static tcc_status make_side(tcc_step_trial *t, bool tuned) {
    tcc_trial_side *s = &t->sides[tuned];
    tcc_graph *g = NULL;
    int64_t ns;
    tcc_status status = tcc__tune_plan(t->m, t->passes, t->traced, tuned, &g);
    if (status == TCC_OK) status = generate(t, g, &s->program);
    if (status == TCC_OK && !tuned) t->indices = count_indices(g);
    tcc_graph_destroy(g);
    TCC_TRY(status);
    TCC_TRY(tcc_exec_create_without_arena(t->m->cx, t->m->device, s->program, NULL, &s->exec));
    if (t->m->options.comm) tcc__ranks_connect_alone(s->exec);
    TCC_TRY(give_arena(t, s));
    TCC_TRY(bind_all(t, s));
    return run_once(t, s, &ns); /* a first run is slow */
}

/* -- Times -- */

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The lower quartile: what else a machine does only adds to a time. */
static int64_t quartile(int64_t *ns, int n) {
    qsort(ns, (size_t)n, sizeof *ns, ascending);
    return ns[(n - 1) / 4];
}

/* In turns, so that whatever else the machine does disturbs both, and each is the first of a turn half of the time. */
static tcc_status time_both(tcc_step_trial *t, double until) {
    int64_t ns[2][MOST_TURNS];
    int turns = 0;
    for (; turns < t->turns && tcc_clock_seconds() + 2 * t->run_seconds < until; turns++)
        for (int k = 0; k < 2; k++) {
            const int side = (turns + k) % 2;
            TCC_TRY(run_once(t, &t->sides[side], &ns[side][turns]));
        }
    if (turns < LEAST_TURNS) return TCC_OK;
    t->default_ns = quartile(ns[0], turns);
    t->tuned_ns = quartile(ns[1], turns);
    return TCC_OK;
}

/* -- The trial -- */

tcc_status tcc__step_trial_begin(tcc_step_trial *t, double budget_s) {
    const double start = tcc_clock_seconds();
    int64_t ns;
    TCC_TRY(make_side(t, false));
    const double made = tcc_clock_seconds();
    TCC_TRY(run_once(t, &t->sides[0], &ns));
    t->run_seconds = tcc_clock_seconds() - made;
    const double turns = TURNS_SHARE * budget_s / (2 * t->run_seconds + 1e-9);
    t->turns = turns < LEAST_TURNS ? LEAST_TURNS : turns > MOST_TURNS ? MOST_TURNS : (int)turns;
    t->needs_seconds = COMPILE_SLACK * (made - start) + 2 * (t->turns + 1) * t->run_seconds;
    return TCC_OK;
}

tcc_status tcc__step_trial_run(tcc_step_trial *t, double until) {
    t->default_ns = t->tuned_ns = 0;
    if (tcc_clock_seconds() > until) return TCC_OK;
    clear_side(t->m, &t->sides[1]); /* of other choices */
    TCC_TRY(make_side(t, true));
    return time_both(t, until);
}

void tcc__step_trial_end(tcc_step_trial *t) {
    for (int i = 1; i >= 0; i--) clear_side(t->m, &t->sides[i]);
    if (t->arena) t->m->device->ops->free(t->m->device, t->arena, t->arena_bytes);
    *t = (tcc_step_trial){0};
}
