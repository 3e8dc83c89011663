/* SPDX-License-Identifier: MIT */
#include "passes/remat_print.h"

#include <string.h>

/* -- Amounts, right-aligned in columns -- */

static void pad(tcc_strbuf *b, int width, const char *text) { tcc_strbuf_printf(b, "%*s", width, text); }

static void add_bytes(tcc_strbuf *b, int width, int64_t bytes) {
    tcc_strbuf text = {0};
    tcc_strbuf_bytes(&text, (double)bytes);
    pad(b, width, text.text ? text.text : "");
    b->failed |= text.failed;
    tcc_strbuf_free(&text);
}

static void add_ms(tcc_strbuf *b, int width, int64_t ns) {
    tcc_strbuf text = {0};
    tcc_strbuf_printf(&text, "%.3g ms", 1e-6 * (double)ns);
    pad(b, width, text.text ? text.text : "");
    b->failed |= text.failed;
    tcc_strbuf_free(&text);
}

/* -- The plan -- */

static void print_budget(tcc_strbuf *b, const tcc_remat_spec *spec, const tcc_remat_report *r) {
    tcc_strbuf_add(b, "memory budget: ");
    switch (spec->budget) {
    case TCC_BUDGET_NONE: tcc_strbuf_add(b, "none; the model's segments are computed again\n"); return;
    case TCC_BUDGET_LEAST: tcc_strbuf_add(b, "as little as possible"); break;
    case TCC_BUDGET_BYTES:
        add_bytes(b, 0, spec->bytes);
        tcc_strbuf_add(b, " in total, of which ");
        add_bytes(b, 0, r->budget_bytes);
        tcc_strbuf_add(b, " are left for activations");
        break;
    case TCC_BUDGET_SHARE:
        tcc_strbuf_printf(b, "%g%% of the activations' memory, ", 100 * spec->share);
        add_bytes(b, 0, r->budget_bytes);
        break;
    }
    tcc_strbuf_add(b, spec->segments ? "; the model's segments are computed again\n" : "\n");
}

static void print_amounts(tcc_strbuf *b, const tcc_remat_report *r) {
    const tcc_remat_point *none = &r->frontier.data[0], *taken = &r->frontier.data[r->taken];
    tcc_strbuf_printf(b, "%30s %19s\n", "this plan", "all kept");
    tcc_strbuf_printf(b, "  %-16s", "activations");
    add_bytes(b, 12, taken->peak);
    add_bytes(b, 20, none->peak);
    tcc_strbuf_printf(b, "   at the peak\n  %-16s", "total");
    add_bytes(b, 12, taken->peak + r->fixed_bytes);
    add_bytes(b, 20, none->peak + r->fixed_bytes);
    tcc_strbuf_add(b, "   with parameters and states\n");
    if (r->step_ns) {
        tcc_strbuf_printf(b, "  %-16s", "predicted time");
        add_ms(b, 12, r->step_ns + taken->added_ns);
        add_ms(b, 20, r->step_ns);
        tcc_strbuf_printf(b, "   %+.1f%%\n", 100 * (double)taken->added_ns / (double)r->step_ns);
    }
}

/* Values of one op, type and fate: computed again, or kept. */
typedef struct kin {
    int first, count;
    int64_t bytes;
    bool elsewhere; /* not all have the place of the first */
} kin;

/* Those that are like value `first` and stand behind it; count 0: an earlier one is like it, or has another fate. */
static kin find_kin(const tcc_remat_report *r, int first, bool again) {
    const tcc_remat_value *v = r->values.data, *one = &v[first];
    kin k = {.first = first};
    if (one->again != again) return k;
    for (int i = first - 1; i >= 0 && v[i].bytes == one->bytes && !strcmp(v[i].what, one->what); i--)
        if (v[i].again == again) return k;
    for (int i = first; i < r->values.count && v[i].bytes == one->bytes && !strcmp(v[i].what, one->what); i++) {
        if (v[i].again != again) continue;
        k.count++;
        k.bytes += v[i].bytes;
        k.elsewhere |= strcmp(v[i].where, one->where) != 0;
    }
    return k;
}

/* The kin with most bytes of those that come behind `last` in that order. */
static kin next_kin(const tcc_remat_report *r, kin last, bool again) {
    kin best = {0};
    for (int i = 0; i < r->values.count; i++) {
        const kin k = find_kin(r, i, again);
        const bool behind = !last.count || k.bytes < last.bytes || (k.bytes == last.bytes && k.first > last.first);
        if (k.count && behind && k.bytes > best.bytes) best = k;
    }
    return best;
}

static void print_values(tcc_strbuf *b, const tcc_remat_report *r, bool again) {
    enum { LINES = 6 };
    int64_t bytes = 0;
    int left = 0, lines = 0;
    for (int i = 0; i < r->values.count; i++)
        if (r->values.data[i].again == again) bytes += r->values.data[i].bytes, left++;
    tcc_strbuf_printf(b, "%s: %d of %d values that backward needs, ", again ? "computed again" : "kept", left,
                      r->values.count);
    add_bytes(b, 0, bytes);
    if (again && r->added_flop) tcc_strbuf_printf(b, ", %.1f MFLOP", 1e-6 * (double)r->added_flop);
    tcc_strbuf_add(b, "\n");
    for (kin k = {0}; lines < LINES && (k = next_kin(r, k, again)).count; lines++, left -= k.count) {
        const tcc_remat_value *v = &r->values.data[k.first];
        add_bytes(b, 10, k.bytes);
        tcc_strbuf_printf(b, "  %3d x %-24s %s%s\n", k.count, v->what, v->where, k.elsewhere ? ", ..." : "");
    }
    if (left) tcc_strbuf_printf(b, "%12s%3d more\n", "", left);
}

void tcc_remat_print(tcc_strbuf *b, const tcc_remat_spec *spec, const tcc_remat_report *r) {
    int planned = 0;
    for (int i = 1; i < r->frontier.count; i++) planned += r->frontier.data[i].peak >= 0;
    print_budget(b, spec, r);
    print_amounts(b, r);
    print_values(b, r, true);
    print_values(b, r, false);
    tcc_strbuf_printf(b, "search: %.2f s, %d of %d sets planned\n", 1e-3 * r->milliseconds, planned,
                      r->frontier.count - 1);
}
