/* SPDX-License-Identifier: MIT
 * Tuning: the mode max-autotune measures kernels where the default predicts times.
 *
 * The step is first planned as the default would run it, without recomputation. Its groups are tuned, each kind once:
 * the layers of a network have equal groups (codegen/signature.h). For a kind:
 *
 * 1. Its candidates are what select compares (other implementations), the group cut at its hero, and variations of the
 *    best so far, one parameter at a time (tcc_selector_vary, the column `tune` of params.def). A candidate that is
 *    predicted to be PRUNE times slower than the best prediction is not measured. At most MOST are measured at once.
 * 2. They are compiled in parallel, checked against the default, and raced (run.c).
 * 3. While one candidate wins by more than the band, its variations race against it, at most ROUNDS times.
 * 4. At the end, the candidates within the band of the fastest are timed again. The first of them in the list wins; the
 *    default comes first in the list. So chance does not decide between candidates whose times differ by less than the
 *    band.
 *
 * Then the whole step runs with the default and with all choices, in turns (step.c). If it is slower, parts of the
 * choices are tried (judge.c). Choices that lose there stay unused whenever the step is compiled again.
 *
 * The budget is a hard limit for all programs of a model. The time of that trial is set aside. Every kind gets a part
 * of the rest in proportion to its share of the step, as a first measurement of the default shows; the largest comes
 * first. That look takes a quarter of the budget at most. A kind whose turn never comes keeps the default, and nothing
 * is stored for it: the next run continues there.
 *
 * Select asks for the choices (pass_target.choose). As in every mode, a plan with recomputation gets this step's
 * groups, with the parameters that fix the order of a sum (remat.h). So with one set of choices, training gives the
 * same bits with any budget of memory. Two tunings may differ where two candidates are equally fast; the cache and a
 * lock file keep one result. */
#include "frontend/cache/cache.h"
#include "frontend/tune/tune.h"

#include "ir/collective.h"
#include "ir/support/clock.h"
#include "passes/group.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

enum { MOST = 32, ROUNDS = 3, SAMPLES = 5, FINAL_SAMPLES = 15, SAY_SECONDS = 2 };

static const double PRUNE = 3, BAND = 0.03, LEAST_SHARE = 0.002, DEFAULT_BUDGET_S = 60, COMPILE_SHARE = 0.7,
                    LOOK_SHARE = 0.25;

/* A kind of group of the step at hand. */
typedef struct kind {
    int entry; /* in the table */
    const tcc_group *group;
    double default_ns;   /* of one group */
    double predicted_ns; /* of all groups of the kind */
} kind;

typedef struct tuner {
    tcc_model *m;
    const tcc_codegen_options *codegen;
    tcc_graph *g; /* the step as the default would run it, planned */
    int64_t step_bytes;
    double start, until, said;
    bool open; /* something is left to tune */
    tcc_vec(kind) kinds;
    tcc_arena scratch; /* of one kind */
} tuner;

static void say(tuner *u, bool now, const char *format, ...) {
    const tcc_model_options *o = &u->m->options;
    va_list args;
    char line[256];
    if (!now && tcc_clock_seconds() - u->said < SAY_SECONDS) return;
    u->said = tcc_clock_seconds();
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (o->progress) o->progress(o->progress_user, line);
    tcc_logf(u->m->cx, TCC_LOG_TUNE, "%s", line);
}

/* -- The step -- */

/* As the default would run it, without computing anything again. */
static tcc_status plan_step(tuner *u, const tcc_pass_options *passes, const tcc_graph *traced) {
    tcc_pass_options options = *passes;
    options.remat = NULL;
    return tcc__tune_plan(u->m, &options, traced, false, &u->g);
}

static void count_bytes(tuner *u) {
    u->step_bytes = u->g->arena_bytes;
    for (int i = 0; i < u->g->inputs.count; i++) u->step_bytes += tcc_type_bytes(&u->g->inputs.data[i]->type);
}

static const char *words_for(tuner *u, const tcc_group *group) {
    return tcc_arena_printf(&u->m->compiler->tuning->arena, "%s %s %s", tcc_group_kind_text(group->kind),
                            tcc_op_get_info(group->hero->op)->text, tcc_type_text(&group->hero->type));
}

/* The entry of a group's kind, made where there is none. */
static tcc_status find_entry(tuner *u, const tcc_group *group, int *out) {
    struct tcc_tuning *tuning = u->m->compiler->tuning;
    uint64_t key;
    char *signature;
    TCC_TRY(tcc__tune_key(u->g, group, &key, &signature));
    const char *kept = tcc_arena_strdup(&tuning->arena, signature);
    tcc__free(signature);
    if (!kept) return tcc_enomem(&u->m->cx->diag);
    tcc_tuned *known = tcc__tune_find(u->m, key);
    if (known) {
        known->signature = kept;
        *out = (int)(known - tuning->entries.data);
        return TCC_OK;
    }
    if (tuning->locked)
        return tcc_error(&u->m->cx->diag, TCC_EINVAL, group->hero->loc,
                         "%s has no choice for group %016llx, %s: it was written for another model or by another "
                         "version; leave it out, or write it again",
                         tuning->locked, (unsigned long long)key, tcc_node_text(group->hero));
    tcc_tuned entry = {.signature = kept,
                       .key = key,
                       .what = words_for(u, group),
                       .plain = tcc__tune_keep(u->m, group->implementation)};
    if (u->m->device) tcc__tune_find_stored(u->m, &entry);
    *out = tuning->entries.count;
    return entry.what && entry.plain && tcc_vec_push(&tuning->entries, entry) ? TCC_OK : tcc_enomem(&u->m->cx->diag);
}

static tcc_status list_kinds(tuner *u) {
    struct tcc_tuning *tuning = u->m->compiler->tuning;
    for (int i = 0; i < tuning->entries.count; i++) tuning->entries.data[i].groups = 0;
    for (int i = 0; i < u->g->groups.count; i++) {
        const tcc_group *group = &u->g->groups.data[i];
        int entry = 0;
        if (group->kind == TCC_GROUP_NORM || tcc_op_is_collective(group->hero->op)) continue;
        TCC_TRY(find_entry(u, group, &entry));
        if (tuning->entries.data[entry].groups++) continue;
        if (!tcc_vec_push(&u->kinds, (kind){.entry = entry, .group = group})) return tcc_enomem(&u->m->cx->diag);
    }
    return TCC_OK;
}

/* -- The race of one kind -- */

static const char *text_of(tuner *u, const tcc_implementation *x) {
    tcc_strbuf b = {0};
    tcc_implementation_print_name(&b, x);
    const char *text = b.failed ? NULL : tcc_arena_strdup(&u->m->compiler->tuning->arena, b.text);
    tcc_strbuf_free(&b);
    return text;
}

static tcc_status add_contender(tuner *u, tcc_contenders *all, const tcc_implementation *given,
                                const tcc_implementation *whole, int64_t predicted_ns) {
    tcc_contender c = {.given = given, .whole = whole};
    c.about.text = whole ? text_of(u, whole) : "cut";
    c.about.schedule = whole ? tcc_arena_strdup(&u->m->compiler->tuning->arena, whole->name) : "cut";
    c.about.predicted_ns = predicted_ns;
    if (!c.about.text || !c.about.schedule) return tcc_enomem(&u->m->cx->diag);
    for (int i = 0; i < all->count; i++)
        if (!strcmp(all->data[i].about.text, c.about.text)) return TCC_OK;
    return tcc_vec_push(all, c) ? TCC_OK : tcc_enomem(&u->m->cx->diag);
}

/* A name alone: the schedule decides all parameters. */
static const tcc_implementation *name_of(tuner *u, const tcc_implementation *x) {
    tcc_implementation *name = TCC_ARENA_NEW(&u->scratch, tcc_implementation);
    if (name) *name = (tcc_implementation){.name = x->name};
    return name;
}

static tcc_status add_default(tuner *u, const tcc_group *group, tcc_contenders *all) {
    const tcc_implementation *name = name_of(u, group->implementation);
    if (!name) return tcc_enomem(&u->m->cx->diag);
    return add_contender(u, all, name, group->implementation, tcc_implementation_ns(group->implementation));
}

static tcc_status add_others(tuner *u, const tcc_group *group, tcc_contenders *all) {
    const tcc_pass_target *target = tcc_selector_target(u->m->compiler->selector);
    tcc_group open = *group;
    tcc_candidates candidates = {0};
    open.implementation = NULL;
    tcc_status status = target->candidates(target->user, u->g, &open, &u->scratch, &candidates);
    for (int i = 0; i < candidates.count && status == TCC_OK; i++) {
        const tcc_implementation *x = candidates.data[i].implementation;
        const tcc_implementation *name = x ? name_of(u, x) : NULL;
        if (x && !name) status = tcc_enomem(&u->m->cx->diag);
        else if (x) status = add_contender(u, all, name, x, candidates.data[i].ns);
    }
    tcc_vec_free(&candidates);
    return status;
}

/* The group as two kernels: the hero with what leads to it, and the rest. */
static tcc_status add_cut(tuner *u, const tcc_group *group, tcc_contenders *all) {
    tcc_group first, rest;
    bool possible = false;
    if (group->kind != TCC_GROUP_CONTRACT && group->kind != TCC_GROUP_ATTENTION) return TCC_OK;
    if (group->n_nodes < 2) return TCC_OK;
    TCC_TRY(tcc_group_cut(&u->scratch, &u->m->cx->diag, group, group->hero, &first, &rest, &possible));
    return possible ? add_contender(u, all, NULL, NULL, all->data[0].about.predicted_ns) : TCC_OK;
}

static tcc_status add_variations(tuner *u, const tcc_group *group, const tcc_contender *best, tcc_contenders *all) {
    tcc_variations found = {0};
    tcc_group varied = *group;
    varied.implementation = (tcc_implementation *)best->given;
    tcc_status status = tcc_selector_vary(u->m->compiler->selector, u->g, &varied, true, &u->scratch, &found);
    for (int i = 0; i < found.count && status == TCC_OK; i++)
        status = add_contender(u, all, found.data[i].given, found.data[i].whole,
                               tcc_implementation_ns(found.data[i].whole));
    tcc_vec_free(&found);
    return status;
}

/* By the predictions, before anything is compiled. */
static void prune(tcc_contenders *all, int from) {
    int64_t least = all->data[0].about.predicted_ns;
    int kept = 0;
    for (int i = 0; i < all->count; i++)
        if (all->data[i].about.predicted_ns < least) least = all->data[i].about.predicted_ns;
    for (int i = from; i < all->count; i++) {
        tcc_contender *c = &all->data[i];
        c->out = i > 0 && (kept >= MOST || (double)c->about.predicted_ns > PRUNE * (double)least);
        if (c->out) c->about.dropped = kept >= MOST ? "one too many" : "predicted to be slow";
        else kept++;
    }
}

/* Some of the time is left for the race itself, however long compiling takes. */
static tcc_status race(tcc_track *t, tcc_contenders *all, int from) {
    const double end = t->until, now = tcc_clock_seconds();
    prune(all, from);
    t->until = now + COMPILE_SHARE * (end - now);
    tcc_status status = tcc__track_compile(t, all, from);
    if (status == TCC_OK) status = tcc__track_check(t, all, from);
    t->until = end;
    return status == TCC_OK ? tcc__track_race(t, all, SAMPLES) : status;
}

/* The fastest; 0, the default, where nothing was timed. */
static int fastest_of(tcc_contenders *all) {
    int best = 0;
    for (int i = 1; i < all->count; i++) {
        const int64_t ns = tcc__contender_ns(&all->data[i]), least = tcc__contender_ns(&all->data[best]);
        if (ns && (!least || ns < least)) best = i;
    }
    return best;
}

static bool is_within(int64_t ns, int64_t of) { return ns && (double)ns <= (1 + BAND) * (double)of; }

/* Times those near the fastest, and the default, once more, and takes the first in the list that is as fast. */
static tcc_status decide(tcc_track *t, tcc_contenders *all, int *winner) {
    const int64_t least = tcc__contender_ns(&all->data[fastest_of(all)]);
    for (int i = 0; i < all->count; i++) {
        tcc_contender *c = &all->data[i];
        c->about.measured_ns = tcc__contender_ns(c);
        c->out = c->out || (i && !is_within(c->about.measured_ns, least));
    }
    TCC_TRY(tcc__track_race(t, all, FINAL_SAMPLES));
    const int64_t best = tcc__contender_ns(&all->data[fastest_of(all)]);
    *winner = 0;
    while (*winner < all->count && !is_within(tcc__contender_ns(&all->data[*winner]), best)) ++*winner;
    if (*winner == all->count) *winner = 0;
    return TCC_OK;
}

/* Variations of the winner race against it as long as it gets faster. Its own variations come first. */
static tcc_status race_rounds(tuner *u, tcc_track *t, const tcc_group *group, tcc_contenders *all) {
    TCC_TRY(add_default(u, group, all));
    TCC_TRY(add_others(u, group, all));
    TCC_TRY(add_cut(u, group, all));
    TCC_TRY(add_variations(u, group, &all->data[0], all));
    TCC_TRY(race(t, all, 0));
    for (int round = 1, best = 0; round < ROUNDS && tcc_clock_seconds() < t->until; round++) {
        const int now = fastest_of(all), from = all->count;
        if (now == best || !all->data[now].given) break;
        if (is_within(tcc__contender_ns(&all->data[best]), tcc__contender_ns(&all->data[now]))) break;
        best = now;
        const tcc_contender winner = all->data[best]; /* the list grows */
        TCC_TRY(add_variations(u, group, &winner, all));
        if (all->count > from) TCC_TRY(race(t, all, from));
    }
    return TCC_OK;
}

static tcc_status keep_results(tuner *u, const tcc_contenders *all, int winner, tcc_tuned *entry) {
    for (int i = 0; i < all->count; i++) {
        const tcc_contender *c = &all->data[i];
        tcc_tuned_candidate about = c->about;
        if (!c->out) about.measured_ns = tcc__contender_ns(c);
        if (!tcc_vec_push(&entry->candidates, about)) return tcc_enomem(&u->m->cx->diag);
    }
    entry->winner = winner;
    entry->default_ns = entry->candidates.data[0].measured_ns;
    entry->best_ns = entry->candidates.data[winner].measured_ns;
    entry->from = TCC_TUNED_MEASURED;
    entry->cut = !all->data[winner].whole;
    if (!entry->cut) entry->choice = tcc__tune_keep(u->m, all->data[winner].whole);
    return entry->cut || entry->choice ? TCC_OK : TCC_ENOMEM;
}

static void end_trial(tuner *u, tcc_track *t, tcc_contenders *all) {
    for (int i = 0; i < all->count; i++) tcc__contender_clear(&all->data[i]);
    tcc_vec_free(all);
    tcc__track_end(t);
    tcc_arena_free(&u->scratch);
    u->scratch = (tcc_arena){0};
}

static tcc_status tune_kind(tuner *u, const kind *k, double until) {
    tcc_track t;
    tcc_contenders all = {0};
    int winner = 0;
    const double start = tcc_clock_seconds();
    tcc_tuned *entry = &u->m->compiler->tuning->entries.data[k->entry];
    tcc_status status = tcc__track_begin(u->m, u->codegen, u->g, k->group, u->step_bytes, &t);
    t.until = until;
    if (status == TCC_OK) status = race_rounds(u, &t, k->group, &all);
    t.until = u->until;
    if (status == TCC_OK) status = decide(&t, &all, &winner);
    /* Without a time for the default nothing was found. */
    if (status == TCC_OK && tcc__contender_ns(&all.data[0])) status = keep_results(u, &all, winner, entry);
    if (status == TCC_OK && entry->from == TCC_TUNED_MEASURED)
        tcc__tune_store(u->m, entry, tcc_clock_seconds() - start);
    end_trial(u, &t, &all);
    return status;
}

/* -- All kinds -- */

/* The default's time, for the order and the budget of the kinds. */
static tcc_status time_default(tuner *u, kind *k) {
    tcc_track t;
    tcc_contenders all = {0};
    tcc_status status = tcc__track_begin(u->m, u->codegen, u->g, k->group, u->step_bytes, &t);
    t.until = u->until;
    if (status == TCC_OK) status = add_default(u, k->group, &all);
    if (status == TCC_OK) status = tcc__track_compile(&t, &all, 0);
    if (status == TCC_OK) status = tcc__track_check(&t, &all, 0);
    if (status == TCC_OK) status = tcc__track_race(&t, &all, 2);
    if (status == TCC_OK && all.count) k->default_ns = (double)tcc__contender_ns(&all.data[0]);
    end_trial(u, &t, &all);
    return status;
}

static int by_share(const void *a, const void *b, void *user) {
    const kind *x = a, *y = b;
    const tcc_tuned *entries = ((tuner *)user)->m->compiler->tuning->entries.data;
    const double p = entries[x->entry].share_ns, q = entries[y->entry].share_ns;
    return p != q ? (p < q) - (p > q) : x->entry - y->entry;
}

/* Leaves out kinds that are small by the predictions already: of a deep network that is most of them, and each would be
 * compiled to be timed. */
static void leave_out_small(tuner *u) {
    const tcc_tuned *entries = u->m->compiler->tuning->entries.data;
    double all = 0;
    int kept = 0;
    for (int i = 0; i < u->kinds.count; i++) {
        kind *k = &u->kinds.data[i];
        k->predicted_ns = (double)tcc_implementation_ns(k->group->implementation) * entries[k->entry].groups;
        all += k->predicted_ns;
    }
    for (int i = 0; i < u->kinds.count; i++)
        if (u->kinds.data[i].predicted_ns > 0.5 * LEAST_SHARE * all) u->kinds.data[kept++] = u->kinds.data[i];
    u->kinds.count = kept;
}

static int by_prediction(const void *a, const void *b) {
    const kind *x = a, *y = b;
    return x->predicted_ns != y->predicted_ns
               ? (x->predicted_ns < y->predicted_ns) - (x->predicted_ns > y->predicted_ns)
               : x->entry - y->entry;
}

/* The largest by the predictions first. To look at all of them takes no more than a part of the budget: the others take
 * what is predicted, as far as predictions were right. */
static tcc_status time_defaults(tuner *u) {
    const double end = tcc_clock_seconds() + LOOK_SHARE * (u->until - tcc_clock_seconds());
    double all = 0, measured = 0, predicted = 0;
    leave_out_small(u);
    if (u->kinds.count) qsort(u->kinds.data, (size_t)u->kinds.count, sizeof *u->kinds.data, by_prediction);
    for (int i = 0; i < u->kinds.count; i++) {
        kind *k = &u->kinds.data[i];
        tcc_tuned *entry = &u->m->compiler->tuning->entries.data[k->entry];
        const bool looks = tcc_clock_seconds() < end;
        if (looks) TCC_TRY(time_default(u, k));
        entry->share_ns = looks ? k->default_ns * entry->groups
                                : k->predicted_ns * (predicted > 0 ? measured / predicted : 1);
        if (looks && k->default_ns > 0) measured += entry->share_ns, predicted += k->predicted_ns;
        all += entry->share_ns;
        say(u, false, "tuning: looking at %d kinds of groups", u->kinds.count);
    }
    int kept = 0;
    for (int i = 0; i < u->kinds.count; i++)
        if (u->m->compiler->tuning->entries.data[u->kinds.data[i].entry].share_ns > LEAST_SHARE * all)
            u->kinds.data[kept++] = u->kinds.data[i];
    u->kinds.count = kept;
    if (kept) qsort_r(u->kinds.data, (size_t)kept, sizeof *u->kinds.data, by_share, u);
    return TCC_OK;
}

/* Leaves the kinds of which nothing is known yet. */
static void keep_open(tuner *u) {
    int open = 0;
    for (int i = 0; i < u->kinds.count; i++)
        if (u->m->compiler->tuning->entries.data[u->kinds.data[i].entry].from == TCC_TUNED_NOT)
            u->kinds.data[open++] = u->kinds.data[i];
    u->kinds.count = open;
}

static tcc_status tune_all(tuner *u) {
    double left = 0;
    TCC_TRY(time_defaults(u));
    u->open = tcc_clock_seconds() > u->until;
    for (int i = 0; i < u->kinds.count; i++)
        left += u->m->compiler->tuning->entries.data[u->kinds.data[i].entry].share_ns;
    for (int i = 0; i < u->kinds.count && tcc_clock_seconds() < u->until; i++) {
        const kind *k = &u->kinds.data[i];
        const double share = u->m->compiler->tuning->entries.data[k->entry].share_ns, now = tcc_clock_seconds();
        /* Half of what is left goes by shares, half evenly: a small kind takes as long to compile as a large one. */
        const double part = 0.5 * share / left + 0.5 / (u->kinds.count - i);
        TCC_TRY(tune_kind(u, k, now + part * (u->until - now)));
        left -= share;
        u->open |= u->m->compiler->tuning->entries.data[k->entry].from == TCC_TUNED_NOT;
        say(u, false, "tuning: %d of %d kinds of groups, %.0f of %.0f s", i + 1, u->kinds.count,
            tcc_clock_seconds() - u->start, u->until - u->start);
    }
    return TCC_OK;
}

/* -- The step as a whole -- */

static tcc_status tune_with(tuner *u, tcc_step_trial *t, tcc_tuned_step *out) {
    const double end = u->until;
    u->until -= tcc__tune_judge_seconds(t, u->until - u->start);
    if (u->kinds.count && tcc_clock_seconds() < u->until) TCC_TRY(tune_all(u));
    u->until = end;
    return tcc__tune_judge(t, u->until, &u->open, out);
}

static tcc_status tune_step(tuner *u, const tcc_pass_options *passes, const tcc_graph *traced, tcc_tuned_step *out) {
    tcc_step_trial t = {.m = u->m, .passes = passes, .codegen = u->codegen, .traced = traced};
    tcc_status status = TCC_OK;
    keep_open(u);
    u->open = u->kinds.count > 0;
    *out = (tcc_tuned_step){.name = traced->name, .from = TCC_TUNED_MEASURED};
    if (!u->open && !tcc__tune_step_differs(u->m)) return TCC_OK;
    if (tcc_clock_seconds() < u->until) {
        status = tcc__step_trial_begin(&t, u->until - u->start);
        if (status == TCC_OK) status = tune_with(u, &t, out);
    } else {
        u->open = true;
        out->refused = tcc__tune_step_differs(u->m);
        tcc__tune_refuse_step(u->m);
    }
    tcc__step_trial_end(&t);
    return status;
}

static double budget_of(const tcc_model *m) {
    return m->options.autotune_budget_s > 0 ? m->options.autotune_budget_s : DEFAULT_BUDGET_S;
}

/* -- Life -- */

tcc_status tcc__model_tune_begin(tcc_model *m) {
    if (m->options.mode != TCC_MODE_MAX_AUTOTUNE) return TCC_OK;
    struct tcc_tuning *tuning = tcc__calloc(1, sizeof *tuning);
    if (!(m->compiler->tuning = tuning)) return tcc_enomem(&m->cx->diag);
    if (m->options.lock && !(tuning->lock = tcc__strdup(m->options.lock))) return tcc_enomem(&m->cx->diag);
    if (m->options.locked && !(tuning->locked = tcc__strdup(m->options.locked))) return tcc_enomem(&m->cx->diag);
    return TCC_OK;
}

void tcc__model_tune_end(tcc_model *m) {
    if (!m->compiler->tuning) return;
    for (int i = 0; i < m->compiler->tuning->entries.count; i++)
        tcc_vec_free(&m->compiler->tuning->entries.data[i].candidates);
    tcc_vec_free(&m->compiler->tuning->entries);
    tcc_vec_free(&m->compiler->tuning->steps);
    tcc__tune_close(m);
    tcc_arena_free(&m->compiler->tuning->arena);
    tcc__free(m->compiler->tuning->lock);
    tcc__free(m->compiler->tuning->locked);
    tcc__free(m->compiler->tuning);
    m->compiler->tuning = NULL;
}

/* What the step's key is made of lies in `memory`. */
static tcc_status tune(tuner *u, const tcc_pass_options *passes, const tcc_graph *traced, tcc_arena *memory) {
    struct tcc_tuning *tuning = u->m->compiler->tuning;
    const bool held = tuning->locked, measures = u->m->device && !held;
    tcc_cache_key key;
    tcc_tuned_step step;
    if (held && !tuning->entries.count) TCC_TRY(tcc__tune_read_lock(u->m));
    if (measures) TCC_TRY(tcc__cache_key(u->m, passes->train, passes->spec.part, traced, memory, &key));
    if (!measures || !tcc__tune_find_step(u->m, &key)) {
        TCC_TRY(plan_step(u, passes, traced));
        count_bytes(u);
        TCC_TRY(list_kinds(u));
        if (measures) TCC_TRY(tune_step(u, passes, traced, &step));
        if (measures && !(step.name = tcc_arena_strdup(&tuning->arena, step.name))) return tcc_enomem(&u->m->cx->diag);
        if (measures && !tcc_vec_push(&tuning->steps, step)) return tcc_enomem(&u->m->cx->diag);
        if (measures && !u->open) tcc__tune_store_step(u->m, &key, tcc_clock_seconds() - u->start);
    }
    return tuning->lock ? tcc__tune_write_lock(u->m) : TCC_OK;
}

tcc_status tcc__model_tune(tcc_model *m, const tcc_pass_options *passes, const tcc_codegen_options *codegen,
                           const tcc_graph *traced) {
    if (!m->compiler->tuning) return TCC_OK;
    const int64_t before = m->measured;
    tcc_arena memory = {0};
    tuner u = {.m = m, .codegen = codegen, .start = tcc_clock_seconds()};
    u.said = u.start;
    u.until = u.start + budget_of(m) - m->compiler->tuning->spent_s;
    const tcc_status status = tune(&u, passes, traced, &memory);
    const double seconds = tcc_clock_seconds() - u.start;
    m->compiler->tuning->spent_s += seconds;
    if (status == TCC_OK && m->measured > before)
        say(&u, true, "tuning: %lld candidates of %d kinds of groups in %.1f s", (long long)(m->measured - before),
            u.kinds.count, seconds);
    tcc_vec_free(&u.kinds);
    tcc_arena_free(&u.scratch);
    tcc_arena_free(&memory);
    tcc_graph_destroy(u.g);
    return status;
}

tcc_status tcc__model_tune_recall(tcc_model *m, const tcc_cache_key *step, tcc_strbuf *used, bool *found) {
    struct tcc_tuning *tuning = m->compiler->tuning;
    if (tuning->locked && !tuning->entries.count) TCC_TRY(tcc__tune_read_lock(m));
    *found = tuning->locked || !m->device || tcc__tune_find_step(m, step);
    for (int i = 0; *found && i < tuning->entries.count; i++) {
        const tcc_tuned *entry = &tuning->entries.data[i];
        if (!entry->groups && !tuning->locked) continue;
        tcc_strbuf_printf(used, "%016llx", (unsigned long long)entry->key);
        tcc__tune_print_used(entry, used);
        tcc_strbuf_add(used, "\n");
    }
    return *found && tuning->lock ? tcc__tune_write_lock(m) : TCC_OK;
}
