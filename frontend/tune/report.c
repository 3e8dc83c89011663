/* SPDX-License-Identifier: MIT
 * Tuning's report: the candidates of each kind of group, and for each schedule how well its predictions rank them. */
#include "frontend/tune/tune.h"

#include <math.h>

static const char *from_text(tcc_tuned_from from) {
    switch (from) {
    case TCC_TUNED_MEASURED: return "measured";
    case TCC_TUNED_STORED: return "from the cache";
    case TCC_TUNED_LOCKED: return "locked";
    default: return "not measured: as by default";
    }
}

/* How many were not timed, by the reason. */
static void print_dropped(const tcc_tuned *entry, tcc_strbuf *b) {
    static const char no_time[] = "no time was left";
    const char *before = "    not timed: ";
    for (int i = 0; i < entry->candidates.count; i++) {
        const tcc_tuned_candidate *c = &entry->candidates.data[i];
        const char *why = c->dropped ? c->dropped : no_time;
        int same = 0, earlier = 0;
        for (int k = 0; k < entry->candidates.count; k++) {
            const tcc_tuned_candidate *x = &entry->candidates.data[k];
            if (x->measured_ns || strcmp(x->dropped ? x->dropped : no_time, why) != 0) continue;
            same++;
            earlier += k < i;
        }
        if (c->measured_ns || earlier) continue;
        tcc_strbuf_printf(b, "%s%d %s", before, same, why);
        before = ", ";
    }
    if (*before == ',') tcc_strbuf_add(b, "\n");
}

static void print_candidates(const tcc_tuned *entry, tcc_strbuf *b) {
    for (int i = 0; i < entry->candidates.count; i++) {
        const tcc_tuned_candidate *c = &entry->candidates.data[i];
        if (!c->measured_ns) continue;
        tcc_strbuf_printf(b, "  %c %10.1f us, predicted %10.1f us  %s%s\n", i == entry->winner ? '*' : ' ',
                          1e-3 * (double)c->measured_ns, 1e-3 * (double)c->predicted_ns, c->text,
                          i ? "" : "  (default)");
    }
    print_dropped(entry, b);
}

/* -- Predictions against measurements -- */

/* Pairs of one kind's candidates, of one schedule (NULL: of different ones), that are more than a hundredth apart in
 * both: of how many the faster one was predicted. */
static void count_pairs(const tcc_tuned *entry, const char *schedule, int *agree, int *differ) {
    for (int i = 0; i < entry->candidates.count; i++)
        for (int k = 0; k < i; k++) {
            const tcc_tuned_candidate *x = &entry->candidates.data[i], *y = &entry->candidates.data[k];
            const bool same = !strcmp(x->schedule, y->schedule);
            if (!x->measured_ns || !y->measured_ns) continue;
            if (schedule ? !same || strcmp(x->schedule, schedule) != 0 : same) continue;
            const double measured = log((double)x->measured_ns / (double)y->measured_ns),
                         predicted = log((double)x->predicted_ns / (double)y->predicted_ns);
            if (fabs(measured) < 0.01 || fabs(predicted) < 0.01) continue;
            *(measured * predicted > 0 ? agree : differ) += 1;
        }
}

static void print_rank(const tcc_model *m, const char *schedule, tcc_strbuf *b) {
    int agree = 0, differ = 0, kinds = 0;
    double sum = 0, squares = 0;
    for (int i = 0; i < m->compiler->tuning->entries.count; i++) {
        const tcc_tuned *entry = &m->compiler->tuning->entries.data[i];
        count_pairs(entry, schedule, &agree, &differ);
        const tcc_tuned_candidate *c = entry->candidates.count ? &entry->candidates.data[0] : NULL;
        if (!schedule || !c || !c->measured_ns || !c->predicted_ns || strcmp(c->schedule, schedule) != 0) continue;
        const double ratio = log((double)c->measured_ns / (double)c->predicted_ns);
        kinds++, sum += ratio, squares += ratio * ratio;
    }
    const int pairs = agree + differ;
    tcc_strbuf_printf(b, "  %-18s", schedule ? schedule : "one or another");
    if (pairs) tcc_strbuf_printf(b, " rank correlation %+.2f of %d pairs", (double)(agree - differ) / pairs, pairs);
    else tcc_strbuf_add(b, " predictions do not tell candidates apart");
    if (kinds)
        tcc_strbuf_printf(b, "; %d kinds take %.2f times the predicted time, give or take a factor of %.2f", kinds,
                          exp(sum / kinds), exp(sqrt(fmax(0, squares / kinds - sum / kinds * (sum / kinds)))));
    tcc_strbuf_add(b, "\n");
}

static void print_ranks(const tcc_model *m, tcc_strbuf *b) {
    const char *seen[64];
    int count = 0;
    tcc_strbuf_add(b, "predictions against measurements, by schedule:\n");
    for (int i = 0; i < m->compiler->tuning->entries.count; i++)
        for (int k = 0; k < m->compiler->tuning->entries.data[i].candidates.count; k++) {
            const tcc_tuned_candidate *c = &m->compiler->tuning->entries.data[i].candidates.data[k];
            int known = 0;
            while (known < count && strcmp(seen[known], c->schedule) != 0) known++;
            if (known < count || count == 64 || !c->measured_ns) continue;
            seen[count++] = c->schedule;
            print_rank(m, c->schedule, b);
        }
    if (count > 1) print_rank(m, NULL, b);
}

/* Kinds of groups that a step was slower with. */
static int count_refused(const tcc_model *m) {
    int refused = 0;
    for (int i = 0; i < m->compiler->tuning->entries.count; i++)
        refused += m->compiler->tuning->entries.data[i].refused;
    return refused;
}

/* What came of the trials of whole steps. */
static void print_steps(const tcc_model *m, tcc_strbuf *b) {
    for (int i = 0; i < m->compiler->tuning->steps.count; i++) {
        const tcc_tuned_step *s = &m->compiler->tuning->steps.data[i];
        tcc_strbuf_printf(b, "the whole step \"%s\"", s->name);
        if (s->default_ns)
            tcc_strbuf_printf(b, ", %s: %.1f us as by default, %.1f us with the choices: %s\n", from_text(s->from),
                              1e-3 * (double)s->default_ns, 1e-3 * (double)s->tuned_ns,
                              s->refused         ? "they are not used"
                              : count_refused(m) ? "they are used, but for those that are marked"
                                                 : "they are used");
        else tcc_strbuf_printf(b, ": %s\n", s->refused ? "not compared, so as by default" : "as by default");
    }
}

void tcc__tune_print(const tcc_model *m, tcc_strbuf *b) {
    double before = 0, after = 0;
    for (int i = 0; i < m->compiler->tuning->entries.count; i++) {
        const tcc_tuned *entry = &m->compiler->tuning->entries.data[i];
        tcc_strbuf_printf(b, "%s, %d in the step, %s", entry->what, entry->groups, from_text(entry->from));
        before += (double)entry->default_ns * entry->groups, after += (double)entry->best_ns * entry->groups;
        if (entry->refused) tcc_strbuf_add(b, ", not used");
        if (entry->default_ns)
            tcc_strbuf_printf(b, ": %.1f us as by default, %.1f us now", 1e-3 * (double)entry->default_ns,
                              1e-3 * (double)entry->best_ns);
        if (entry->candidates.count) {
            tcc_strbuf_add(b, "\n");
            print_candidates(entry, b);
            continue;
        }
        if (entry->choice) {
            tcc_strbuf_add(b, ": ");
            tcc_implementation_print_name(b, entry->choice);
        } else if (entry->cut) {
            tcc_strbuf_add(b, ": cut");
        }
        tcc_strbuf_add(b, "\n");
    }
    tcc_strbuf_printf(b, "%lld candidates timed in %.1f s; measured groups take %.3f ms as by default, %.3f ms now\n",
                      (long long)m->measured, m->compiler->tuning->spent_s, 1e-6 * before, 1e-6 * after);
    print_steps(m, b);
    if (m->measured) print_ranks(m, b);
}
