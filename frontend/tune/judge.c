/* SPDX-License-Identifier: MIT
 * Which of the choices a step uses. First all of them are tried (step.c). If the step is slower with them, some choice
 * that is good alone is bad in the step, but most of the others may be good. So halves of the choices are tried, and if
 * no half is good enough, quarters. The first part has the kinds of groups with the largest gains, as measured alone.
 * At the first size with a part that is not slower, the fastest part is used, and nothing else. The order depends only
 * on the measurements of the kinds alone. Each trial has to end within the budget; if time runs out, the best result so
 * far is used. */
#include "frontend/tune/tune.h"

#include "ir/support/clock.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_PARTS = 4, PARTS_SET_ASIDE = 3 /* trials, the first of all choices */ };

static const double STEP_BAND = 0.01, MOST_SHARE = 0.2;

static bool is_open(const tcc_tuned *entry) { return entry->groups && tcc__tune_differs(entry); }

bool tcc__tune_step_differs(const tcc_model *m) {
    const struct tcc_tuning *tuning = m->compiler->tuning;
    for (int i = 0; i < tuning->entries.count; i++)
        if (is_open(&tuning->entries.data[i])) return true;
    return false;
}

void tcc__tune_refuse_step(tcc_model *m) {
    struct tcc_tuning *tuning = m->compiler->tuning;
    for (int i = 0; i < tuning->entries.count; i++)
        if (is_open(&tuning->entries.data[i])) tuning->entries.data[i].refused = true;
}

double tcc__tune_judge_seconds(const tcc_step_trial *t, double budget_s) {
    return fmax(t->needs_seconds, fmin(PARTS_SET_ASIDE * t->needs_seconds, MOST_SHARE * budget_s));
}

/* -- Parts of the choices -- */

typedef struct choices {
    tcc_model *m;
    int *entries; /* those that differ from the default, what gains most first */
    int count;
} choices;

static double gain(const tcc_tuned *entry) { return (double)(entry->default_ns - entry->best_ns) * entry->groups; }

static int by_gain(const void *a, const void *b, void *user) {
    const tcc_tuned *entries = user;
    const int x = *(const int *)a, y = *(const int *)b;
    const double p = gain(&entries[x]), q = gain(&entries[y]);
    return p != q ? (p < q) - (p > q) : x - y;
}

static tcc_status list_choices(tcc_model *m, choices *out) {
    const struct tcc_tuning *tuning = m->compiler->tuning;
    *out = (choices){m, tcc__calloc((size_t)tuning->entries.count + 1, sizeof(int)), 0};
    if (!out->entries) return tcc_enomem(&m->cx->diag);
    for (int i = 0; i < tuning->entries.count; i++)
        if (is_open(&tuning->entries.data[i])) out->entries[out->count++] = i;
    if (out->count) qsort_r(out->entries, (size_t)out->count, sizeof(int), by_gain, tuning->entries.data);
    return TCC_OK;
}

/* Those of [begin, end) are used, the others are not. */
static void use(const choices *c, int begin, int end) {
    for (int i = 0; i < c->count; i++)
        c->m->compiler->tuning->entries.data[c->entries[i]].refused = i < begin || i >= end;
}

/* -- Trials -- */

static double ratio_of(const tcc_tuned_step *s) {
    return s->default_ns ? (double)s->tuned_ns / (double)s->default_ns : INFINITY;
}

/* out->default_ns 0: no time was left, or the step does not fit beside the default's, which may be smaller. */
static tcc_status try_choices(tcc_step_trial *t, double until, tcc_tuned_step *out, bool *fits) {
    const tcc_status status = tcc__step_trial_run(t, until);
    if (status != TCC_OK && status != TCC_ENOMEM) return status;
    *fits = status == TCC_OK;
    if (!*fits) tcc_diag_begin(&t->m->cx->diag);
    out->default_ns = *fits ? t->default_ns : 0;
    out->tuned_ns = *fits ? t->tuned_ns : 0;
    return TCC_OK;
}

/* The parts of one size; *out is the best of them if it is not slower, and *found then. */
static tcc_status try_parts(tcc_step_trial *t, double until, const choices *c, int parts, tcc_tuned_step *out,
                            bool *found) {
    int best = -1;
    double least = 1 + STEP_BAND;
    for (int i = 0; i < parts; i++) {
        tcc_tuned_step s = *out;
        bool fits;
        if (tcc_clock_seconds() + t->needs_seconds > until) break;
        use(c, i * c->count / parts, (i + 1) * c->count / parts);
        TCC_TRY(try_choices(t, until, &s, &fits));
        if (ratio_of(&s) > least || (best >= 0 && ratio_of(&s) == least)) continue;
        best = i, least = ratio_of(&s);
        out->default_ns = s.default_ns, out->tuned_ns = s.tuned_ns;
    }
    *found = best >= 0;
    if (*found) use(c, best * c->count / parts, (best + 1) * c->count / parts);
    return TCC_OK;
}

tcc_status tcc__tune_judge(tcc_step_trial *t, double until, bool *open, tcc_tuned_step *out) {
    choices c;
    bool fits, found = false;
    if (!tcc__tune_step_differs(t->m)) return TCC_OK;
    TCC_TRY(try_choices(t, until, out, &fits));
    *open |= fits && !out->default_ns;
    out->refused = ratio_of(out) > 1 + STEP_BAND;
    if (!out->refused) return TCC_OK;
    TCC_TRY(list_choices(t->m, &c));
    tcc_status status = TCC_OK;
    const int most = fits && out->default_ns ? MOST_PARTS : 0;
    for (int parts = 2; parts <= most && parts <= c.count && !found && status == TCC_OK; parts *= 2)
        status = try_parts(t, until, &c, parts, out, &found);
    out->refused = !found;
    if (!found) use(&c, 0, 0);
    tcc__free(c.entries);
    return status;
}
