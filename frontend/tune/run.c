/* SPDX-License-Identifier: MIT
 * Candidates of one group, run by themselves: compiled in parallel, checked against the first one, and timed in turns.
 *
 * In a step, a group finds the caches as the step has left them. Values and arena memory that the groups just before it
 * used are cached; a weight that was read a step ago is not. So the group gets several sets of buffers, used in turn.
 * Together they are as large as the memory of the step, up to twice the last-level cache. Where the device shares the
 * host's memory, all threads first read the memory that the step touched less than a cache size ago. This also keeps
 * the threads awake, as they are between the kernels of a step. So a small step, whose memory fits the cache, is
 * measured on warm buffers. A large step is measured on cold ones, except for recently touched memory.
 *
 * Contenders run in turns, so that other load on the machine disturbs all of them alike. A contender that is clearly
 * slower than the fastest drops out early. The lower quartile of the times counts: other load only adds to a time, and
 * may disturb half of the runs. */
#include "frontend/tune/tune.h"

#include "codegen/build.h"
#include "frontend/compile/alone.h"
#include "ir/support/clock.h"
#include "ir/support/element.h"
#include "passes/group.h"
#include "runtime/cpu/device.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_SETS = 64, BLOCK = 256 };

static const double SLOWER = 1.25; /* than the fastest, at its best of three turns: it drops out */

/* -- Memory -- */

static int64_t cache_bytes(const tcc_model *m) {
    if (!m->device->ops->shares_host) return m->device->hw.cache_bytes;
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? bytes : INT64_C(32) << 20;
}

static int64_t bytes_of(const tcc_track *t, int binding) { return tcc_type_bytes(t->types[binding]); }

static int64_t set_bytes(const tcc_track *t) {
    int64_t bytes = 0;
    for (int i = 0; i < t->n_bindings; i++) bytes += bytes_of(t, i);
    return bytes > 0 ? bytes : 1;
}

int64_t tcc__tune_indexed(const tcc_node *n) {
    const tcc_fusion_class fusion = tcc_op_get_info(n->op)->fusion;
    return fusion == TCC_FUSION_INDEX || fusion == TCC_FUSION_SCATTER ? n->operands[0]->type.dims[n->attrs->axis.axis]
                                                                      : 0;
}

/* How many integers the group's indices may be, so that all that they mean exists. */
static int64_t index_bound(const tcc_group *group) {
    int64_t bound = 8;
    bool any = false;
    for (int i = 0; i < group->n_nodes; i++) {
        const int64_t extent = tcc__tune_indexed(group->nodes[i]);
        if (!extent) continue;
        bound = any && bound < extent ? bound : extent;
        any = true;
    }
    return bound < 1 ? 1 : bound;
}

/* Ulps of the type, as a share of 1. */
static double ulp_of(tcc_dtype dtype) { return ldexp(1, 1 - tcc_dtype_digits(dtype)); }

/* Values for an input. `positive`: floats are above 0; `disturbed`: each is off by a few ulps. */
typedef struct drawing {
    int input;
    tcc_dtype dtype;
    bool positive;
    double off, bound;
} drawing;

static double value_of(const void *user, int64_t i) {
    const drawing *d = user;
    const double x = tcc__tune_draw(d->input, i);
    if (d->dtype == TCC_BOOL) return x < 0.5;
    if (!tcc_dtype_is_float(d->dtype)) return floor(x * d->bound);
    return (d->positive ? 0.1 + x : 2 * x - 1) * (1 + d->off * (2 * tcc__tune_draw(d->input + 1000, i) - 1));
}

static void fill(const tcc_track *t, int input, bool positive, bool disturbed, void *packed) {
    const tcc_dtype dtype = t->types[input]->dtype;
    const double off = disturbed ? (tcc_dtype_is_narrow(dtype) ? 2 : 16) * ulp_of(dtype) : 0;
    const drawing d = {input, dtype, positive, off, (double)index_bound(t->group)};
    tcc__tune_fill(t->types[input], value_of, &d, packed);
}

/* Fills set 0 and copies it to the others. */
static tcc_status give_values(tcc_track *t, bool positive, bool disturbed) {
    const tcc_device_ops *ops = t->m->device->ops;
    tcc_diag *diag = &t->m->cx->diag;
    const int sets = disturbed ? 1 : t->sets; /* the check's alone */
    for (int i = 0; i < t->n_inputs; i++) {
        void *packed = tcc__malloc((size_t)bytes_of(t, i) + 1);
        if (!packed) return tcc_enomem(diag);
        fill(t, i, positive, disturbed, packed);
        tcc_status status = TCC_OK;
        for (int s = 0; s < sets && status == TCC_OK; s++)
            status = ops->upload(t->m->device, diag, t->memory[s * t->n_bindings + i], packed, bytes_of(t, i));
        tcc__free(packed);
        TCC_TRY(status);
    }
    return TCC_OK;
}

static bool touches(const tcc_group *group, const tcc_node *n) {
    if (tcc_group_stores(group, n)) return true;
    for (int i = 0; i < group->n_nodes; i++)
        for (int k = 0; k < group->nodes[i]->n_operands; k++)
            if (group->nodes[i]->operands[k] == n) return !tcc_group_has(group, n);
    return false;
}

static int64_t group_bytes(const tcc_group *group) {
    int64_t bytes = 0;
    for (int i = 0; group->implementation && i < group->implementation->n_launches; i++)
        bytes += group->implementation->launches[i].bytes;
    return bytes;
}

/* Where the plan has the value in the arena; NULL: it is not there. */
static const tcc_place *place_of(const tcc_graph *g, const tcc_node *n) {
    for (int i = 0; i < g->places.count; i++)
        if (g->places.data[i].node == n) return &g->places.data[i];
    return NULL;
}

/* Whether a group writes to memory where the value's place is. */
static bool writes_there(const tcc_graph *g, const tcc_group *group, const tcc_place *place) {
    for (int k = 0; place && k < group->n_outputs; k++) {
        const tcc_place *other = place_of(g, group->outputs[k]);
        if (other && other->offset_bytes < place->offset_bytes + tcc_type_bytes(&place->node->type) &&
            place->offset_bytes < other->offset_bytes + tcc_type_bytes(&other->node->type))
            return true;
    }
    return false;
}

static bool is_written_in_place(const tcc_graph *g, const tcc_node *n) {
    for (int i = 0; i < g->outputs.count; i++)
        if (g->outputs.data[i].node == n && g->outputs.data[i].in_place) return true;
    return false;
}

/* Whether less than a cache was touched since another group had the value, or, of one that the group makes, its memory:
 * the arena is used again and again, and what is written over an operand was just read. */
static bool is_warm(const tcc_track *t, const tcc_node *n, bool made, int64_t cache) {
    const tcc_place *place = made ? place_of(t->g, n) : NULL;
    int at = (int)(t->group - t->g->groups.data);
    if (made && is_written_in_place(t->g, n)) return true;
    for (int64_t bytes = 0; --at >= 0 && bytes < cache; bytes += group_bytes(&t->g->groups.data[at])) {
        const tcc_group *before = &t->g->groups.data[at];
        if (made ? writes_there(t->g, before, place) : touches(before, n)) return true;
    }
    return false;
}

static tcc_status list_bindings(tcc_track *t) {
    const tcc_group *group = t->group;
    size_t room = 1;
    for (int i = 0; i < group->n_nodes; i++) room += (size_t)group->nodes[i]->n_operands;
    if (!(t->loads = tcc__calloc(room, sizeof *t->loads))) return tcc_enomem(&t->m->cx->diag);
    t->n_inputs = tcc_group_inputs(group, t->loads);
    t->n_bindings = t->n_inputs + group->n_outputs;
    t->types = tcc__calloc((size_t)t->n_bindings + 1, sizeof *t->types);
    t->warm = tcc__calloc((size_t)t->n_bindings + 1, sizeof *t->warm);
    t->expected = tcc__calloc((size_t)group->n_outputs + 1, sizeof *t->expected);
    t->noise = tcc__calloc((size_t)group->n_outputs + 1, sizeof *t->noise);
    if (!t->types || !t->warm || !t->expected || !t->noise) return tcc_enomem(&t->m->cx->diag);
    for (int i = 0; i < t->n_bindings; i++)
        t->types[i] = i < t->n_inputs ? &t->loads[i]->type : &group->outputs[i - t->n_inputs]->type;
    return TCC_OK;
}

tcc_status tcc__track_begin(tcc_model *m, const tcc_codegen_options *codegen, const tcc_graph *g,
                            const tcc_group *group, int64_t step_bytes, tcc_track *t) {
    *t = (tcc_track){.m = m, .codegen = codegen, .g = g, .group = group, .until = INFINITY};
    TCC_TRY(list_bindings(t));
    const int64_t cache = cache_bytes(m), one = set_bytes(t), all = step_bytes < 2 * cache ? step_bytes : 2 * cache;
    t->sets = (int)((all + one - 1) / one);
    t->sets = t->sets < 1 ? 1 : t->sets > MOST_SETS ? MOST_SETS : t->sets;
    for (int i = 0; i < t->n_bindings; i++) {
        const bool made = i >= t->n_inputs;
        t->warm[i] = is_warm(t, made ? group->outputs[i - t->n_inputs] : t->loads[i], made, cache);
    }
    if (!(t->memory = tcc__calloc((size_t)(t->sets * t->n_bindings) + 1, sizeof *t->memory)))
        return tcc_enomem(&m->cx->diag);
    for (int i = 0; i < t->sets * t->n_bindings; i++) {
        const int64_t bytes = bytes_of(t, i % t->n_bindings);
        TCC_TRY(tcc__device_alloc(m, bytes, "a measurement", &t->memory[i]));
        /* The first write to a page of the host's takes long. */
        if (m->device->ops->shares_host) memset(t->memory[i], 0, (size_t)bytes);
    }
    return give_values(t, false, false);
}

void tcc__track_end(tcc_track *t) {
    for (int i = 0; t->memory && i < t->sets * t->n_bindings; i++)
        t->m->device->ops->free(t->m->device, t->memory[i], bytes_of(t, i % t->n_bindings));
    for (int i = 0; t->group && t->expected && t->noise && i < t->group->n_outputs; i++) {
        tcc__free(t->expected[i]);
        tcc__free(t->noise[i]);
    }
    tcc__free(t->memory);
    tcc__free(t->expected);
    tcc__free(t->noise);
    tcc__free(t->warm);
    tcc__free(t->types);
    tcc__free(t->loads);
    *t = (tcc_track){0};
}

/* -- Compiling -- */

/* pass_target.choose that cuts the first group it is asked about. */
static tcc_status cut_first(void *user, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                            tcc_candidate *out) {
    bool *done = user;
    (void)g, (void)arena;
    *out = (tcc_candidate){.name = "cut", .cut = *done ? NULL : group->hero};
    *done = true;
    return TCC_OK;
}

static tcc_status make_graph(tcc_track *t, tcc_contender *c) {
    tcc_model *m = t->m;
    tcc_group group = *t->group;
    group.implementation = (tcc_implementation *)c->given; /* copied */
    tcc_pass_target target = *tcc_selector_target(m->compiler->selector);
    bool done = false;
    if (!c->given) target.choose = cut_first, target.choose_user = &done;
    TCC_TRY(tcc__group_alone(m, t->g, &group, t->loads, t->n_inputs, &c->graph));
    const tcc_pass_options options = {.target = &target};
    tcc_pass_cx cx = {.cx = m->cx, .diag = &m->cx->diag, .options = &options};
    const unsigned topics = m->cx->topics;
    m->cx->topics = 0;
    const tcc_status status = tcc_pipeline_run_named(&cx, &(tcc_manager_options){0}, "select,order,plan-memory",
                                                     &c->graph, NULL);
    m->cx->topics = topics;
    return status;
}

typedef struct compilation {
    tcc_track *track;
    tcc_contender *contenders;
    const tcc_codegen_options *options;
    tcc_status *status;
} compilation;

static void compile_one(void *user, int worker, int64_t begin, int64_t end) {
    const compilation *all = user;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        tcc_contender *c = &all->contenders[i];
        tcc_context cx = {0}; /* of this thread alone; nothing is logged */
        if (c->out || tcc_clock_seconds() > all->track->until) continue;
        c->graph->diag = &cx.diag;
        all->status[i] = tcc_codegen_build(&cx, &cx.diag, c->graph, all->options, &c->program);
        c->graph->diag = &all->track->m->cx->diag;
        tcc_diag_clear(&cx.diag);
    }
}

static void drop(tcc_contender *c, const char *why) {
    c->out = true;
    if (!c->about.dropped) c->about.dropped = why;
}

tcc_status tcc__track_compile(tcc_track *t, tcc_contenders *all, int from) {
    tcc_model *m = t->m;
    tcc_diag *diag = &m->cx->diag;
    tcc_codegen_options options = *t->codegen;
    const int count = all->count - from;
    tcc_pool *pool = NULL;
    options.target = tcc_selector_llvm(m->compiler->selector);
    options.threads = 1;
    for (int i = from; i < all->count; i++) {
        tcc_contender *c = &all->data[i];
        const bool fails = m->compiler->tuning->judge &&
                           m->compiler->tuning->judge(m->compiler->tuning->judge_user, c->about.text, 0) < 0;
        if (make_graph(t, c) == TCC_OK && !fails) continue;
        if (diag->status == TCC_ENOMEM) return TCC_ENOMEM;
        tcc_diag_begin(diag);
        drop(c, "does not compile");
    }
    tcc_status *status = tcc__calloc((size_t)count + 1, sizeof *status);
    if (!status) return tcc_enomem(diag);
    compilation work = {t, all->data + from, &options, status};
    tcc_status created = tcc_pool_create(diag, 0, &pool);
    if (created == TCC_OK) {
        tcc_pool_lock(pool);
        tcc_pool_run(pool, compile_one, &work, count, 1);
        tcc_pool_unlock(pool);
        tcc_pool_destroy(pool); /* its threads would disturb the measurements */
    }
    for (int i = 0; i < count && created == TCC_OK; i++) {
        tcc_contender *c = &all->data[from + i];
        if (status[i] == TCC_ENOMEM) created = tcc_enomem(diag);
        else if (!c->program) drop(c, status[i] == TCC_OK ? "no time was left" : "does not compile");
    }
    tcc__free(status);
    return created;
}

/* -- Running -- */

static tcc_status bind_set(tcc_track *t, tcc_contender *c, int set) {
    for (int i = 0; i < t->n_bindings; i++)
        TCC_TRY(tcc_exec_bind(c->exec, &t->m->cx->diag, i, t->memory[set * t->n_bindings + i], bytes_of(t, i)));
    return TCC_OK;
}

static tcc_status run_once(tcc_track *t, tcc_contender *c) {
    TCC_TRY(tcc_exec_run(c->exec, &t->m->cx->diag));
    return t->m->device->ops->synchronize(t->m->device, &t->m->cx->diag);
}

static tcc_status run_on_first_set(tcc_track *t, tcc_contender *c) {
    TCC_TRY(bind_set(t, c, 0));
    TCC_TRY(tcc_exec_poison(c->exec, &t->m->cx->diag));
    return run_once(t, c);
}

static tcc_status take_output(tcc_track *t, int output, void **out) {
    const int binding = t->n_inputs + output;
    if (!*out && !(*out = tcc__malloc((size_t)bytes_of(t, binding) + 1))) return tcc_enomem(&t->m->cx->diag);
    return t->m->device->ops->download(t->m->device, &t->m->cx->diag, *out, t->memory[binding], bytes_of(t, binding));
}

/* How far apart blocks of an output of n elements begin that are looked at: all of them, or MOST_LOOKED elements evenly
 * over it, some in each tile of a large product. */
static int64_t stride_of_blocks(int64_t n) {
    enum { MOST_LOOKED = 1 << 22 };
    const int64_t apart = (n + MOST_LOOKED - 1) / MOST_LOOKED;
    return BLOCK * (apart > 1 ? apart : 1);
}

/* Whether there is a NaN among the floats of the first contender's outputs. */
static bool has_nan(const tcc_track *t) {
    double row[BLOCK];
    for (int k = 0; k < t->group->n_outputs; k++) {
        const tcc_type *type = t->types[t->n_inputs + k];
        const int64_t n = tcc_dtype_is_float(type->dtype) ? tcc_type_numel(type) : 0;
        for (int64_t at = 0, stride = stride_of_blocks(n); at < n; at += stride) {
            const int64_t count = n - at < BLOCK ? n - at : BLOCK;
            tcc_elements_cast(TCC_F64, row, type->dtype,
                              (const char *)t->expected[k] + at * tcc_dtype_bytes(type->dtype), count);
            for (int64_t i = 0; i < count; i++)
                if (isnan(row[i])) return true;
        }
    }
    return false;
}

static tcc_status take_outputs(tcc_track *t, tcc_contender *c, void **out) {
    TCC_TRY(run_on_first_set(t, c));
    for (int k = 0; k < t->group->n_outputs; k++) TCC_TRY(take_output(t, k, &out[k]));
    return TCC_OK;
}

/* The first contender says what is right, and how much the rounding of its inputs would change that. Where values of
 * both signs make NaNs, all are positive. */
static tcc_status set_standard(tcc_track *t, tcc_contender *c) {
    TCC_TRY(take_outputs(t, c, t->expected));
    const bool positive = has_nan(t);
    if (positive) {
        TCC_TRY(give_values(t, true, false));
        TCC_TRY(take_outputs(t, c, t->expected));
    }
    TCC_TRY(give_values(t, positive, true));
    TCC_TRY(take_outputs(t, c, t->noise));
    return give_values(t, positive, false);
}

/* Compares a block of neighbours: floats by the noise of the block, others by how many differ. */
static bool block_agrees(tcc_dtype dtype, const double *got, const double *expected, const double *noise, int64_t n) {
    double largest = 0, disturbed = 0, worst = 0;
    int differ = 0, moved = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(expected[i]) != isnan(got[i])) differ++;
        if (isnan(expected[i]) || isnan(got[i]) || got[i] == expected[i]) {
            if (fabs(expected[i]) > largest && isfinite(expected[i])) largest = fabs(expected[i]);
            continue;
        }
        differ++;
        largest = fmax(largest, fabs(expected[i]));
        worst = fmax(worst, fabs(got[i] - expected[i]));
    }
    for (int64_t i = 0; i < n; i++) {
        if (noise[i] != expected[i]) moved++;
        disturbed = fmax(disturbed, fabs(noise[i] - expected[i]));
    }
    if (!tcc_dtype_is_float(dtype)) return differ <= 4 * moved;
    for (int64_t i = 0; i < n; i++)
        if (isnan(expected[i]) != isnan(got[i]) && !isnan(noise[i])) return false;
    return worst <= 8 * disturbed + (4 * ulp_of(dtype) + 256 * 0x1p-24) * largest;
}

static bool agrees(const tcc_track *t, int output, const void *packed) {
    const tcc_type *type = t->types[t->n_inputs + output];
    const int64_t n = tcc_type_numel(type);
    double got[BLOCK], expected[BLOCK], noise[BLOCK];
    for (int64_t at = 0, stride = stride_of_blocks(n); at < n; at += stride) {
        const int64_t count = n - at < BLOCK ? n - at : BLOCK, offset = at * tcc_dtype_bytes(type->dtype);
        tcc_elements_cast(TCC_F64, got, type->dtype, (const char *)packed + offset, count);
        tcc_elements_cast(TCC_F64, expected, type->dtype, (const char *)t->expected[output] + offset, count);
        tcc_elements_cast(TCC_F64, noise, type->dtype, (const char *)t->noise[output] + offset, count);
        if (!block_agrees(type->dtype, got, expected, noise, count)) return false;
    }
    return true;
}

static tcc_status check_outputs(tcc_track *t, tcc_contender *c) {
    for (int k = 0; k < t->group->n_outputs && !c->out; k++) {
        void *packed = NULL;
        const tcc_status status = take_output(t, k, &packed);
        if (status == TCC_OK && !agrees(t, k, packed)) drop(c, "computes something else");
        tcc__free(packed);
        TCC_TRY(status);
    }
    return TCC_OK;
}

/* A contender failed. Where the first one runs, it is its own fault; else the device is lost. */
static tcc_status judge_failure(tcc_track *t, tcc_contenders *all, tcc_contender *c) {
    tcc_diag *diag = &t->m->cx->diag;
    if (diag->status == TCC_ENOMEM && c == all->data) return TCC_ENOMEM;
    if (c == all->data) return diag->status;
    drop(c, "fails to run");
    tcc_diag_begin(diag);
    return run_on_first_set(t, all->data);
}

/* The compiler ran out of registers: memory is used that the default does not need. Where a kernel declares some on
 * purpose, the default has it too. */
static bool spills(const tcc_contender *first, const tcc_contender *c) {
    return tcc_exec_local_bytes(c->exec) > tcc_exec_local_bytes(first->exec);
}

tcc_status tcc__track_check(tcc_track *t, tcc_contenders *all, int from) {
    for (int i = from; i < all->count; i++) {
        tcc_contender *c = &all->data[i];
        if (all->data[0].out) drop(c, "there is no default to compare it with");
        if (c->out) continue;
        if (tcc_clock_seconds() > t->until) {
            drop(c, "no time was left");
            continue;
        }
        tcc_status status = tcc_exec_create(t->m->cx, t->m->device, c->program, &c->exec);
        if (status == TCC_OK && spills(&all->data[0], c)) {
            drop(c, "spills registers");
            continue;
        }
        if (status == TCC_OK && all->count > 1) status = i ? run_on_first_set(t, c) : set_standard(t, c);
        if (status == TCC_OK && i) status = check_outputs(t, c);
        if (status != TCC_OK) TCC_TRY(judge_failure(t, all, c));
    }
    return TCC_OK;
}

enum { PAGE = 4096, LINE = 64, WAKE_NS = 100000 };

/* Reads pages [begin, end), so that they are in the cache. */
static void touch(void *memory, int worker, int64_t begin, int64_t end) {
    const volatile char *p = memory;
    (void)worker;
    for (int64_t i = begin * PAGE; i < end * PAGE; i += LINE) (void)p[i];
}

static void wake(void *user, int worker, int64_t begin, int64_t end) {
    (void)user, (void)worker, (void)begin, (void)end;
}

/* As the step before would leave it: what is warm is in the caches of all threads, and they are awake. */
static void make_warm(const tcc_track *t, int set) {
    tcc_pool *pool = ((tcc_device_cpu *)t->m->device)->pool;
    const int64_t start = tcc_clock_ns();
    tcc_pool_lock(pool);
    for (int i = 0; i < t->n_bindings; i++)
        if (t->warm[i]) tcc_pool_run(pool, touch, t->memory[set * t->n_bindings + i], bytes_of(t, i) / PAGE, 1);
    do tcc_pool_run(pool, wake, NULL, tcc_pool_threads(pool), 1);
    while (tcc_clock_ns() - start < WAKE_NS);
    tcc_pool_unlock(pool);
}

static tcc_status time_once(tcc_track *t, tcc_contender *c) {
    const int set = t->turn++ % t->sets;
    TCC_TRY(bind_set(t, c, set));
    if (t->m->device->ops->shares_host) make_warm(t, set);
    const int64_t start = tcc_clock_ns();
    TCC_TRY(run_once(t, c));
    int64_t ns = tcc_clock_ns() - start;
    const struct tcc_tuning *tuning = t->m->compiler->tuning;
    if (tuning->judge) ns = tuning->judge(tuning->judge_user, c->about.text, ns);
    if (!c->least_ns || ns < c->least_ns) c->least_ns = ns;
    return tcc_vec_push(&c->samples, ns) ? TCC_OK : tcc_enomem(&t->m->cx->diag);
}

static int64_t fastest(const tcc_contenders *all) {
    int64_t ns = 0;
    for (int i = 0; i < all->count; i++)
        if (all->data[i].least_ns && (!ns || all->data[i].least_ns < ns)) ns = all->data[i].least_ns;
    return ns;
}

tcc_status tcc__track_race(tcc_track *t, tcc_contenders *all, int samples) {
    for (int turn = 0; turn < samples; turn++)
        for (int i = 0; i < all->count; i++) {
            tcc_contender *c = &all->data[i];
            if (tcc_clock_seconds() > t->until) return TCC_OK;
            if (c->out || c->samples.count >= samples) continue;
            if (c->samples.count >= 3 && (double)c->least_ns > SLOWER * (double)fastest(all)) continue;
            if (!c->samples.count) t->m->measured++;
            if (time_once(t, c) != TCC_OK) TCC_TRY(judge_failure(t, all, c));
        }
    return TCC_OK;
}

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t tcc__contender_ns(const tcc_contender *c) {
    const int n = c->samples.count;
    if (c->out || n < 2) return 0;
    qsort(c->samples.data, (size_t)n, sizeof *c->samples.data, ascending);
    return c->samples.data[(n - 1) / 4];
}

void tcc__contender_clear(tcc_contender *c) {
    tcc_exec_destroy(c->exec);
    tcc_program_destroy(c->program);
    tcc_graph_destroy(c->graph);
    tcc_vec_free(&c->samples);
    *c = (tcc_contender){0};
}
