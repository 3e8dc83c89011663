/* SPDX-License-Identifier: MIT */
#include "passes/remat/print.h"

#include "passes/svg.h"

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
    case TCC_BUDGET_NONE:
        tcc_strbuf_printf(b, "none; %s computed again\n",
                          spec->segments ? "the model's segments are" : "what costs next to no time is");
        return;
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

/* What the user marked and is kept, for the sake of bits. */
static void print_refused(tcc_strbuf *b, const tcc_remat_report *r) {
    enum { LINES = 6 };
    int64_t bytes = 0;
    int count = 0, lines = 0;
    for (int i = 0; i < r->values.count; i++)
        if (r->values.data[i].refused && !r->values.data[i].again) bytes += r->values.data[i].bytes, count++;
    if (!count) return;
    tcc_strbuf_printf(b, "kept although marked: %d values, ", count);
    add_bytes(b, 0, bytes);
    tcc_strbuf_add(b, "; computed again, they would change the order of a sum, and so its bits\n");
    for (int i = 0; i < r->values.count && lines < LINES; i++) {
        const tcc_remat_value *v = &r->values.data[i];
        if (!v->refused || v->again) continue;
        add_bytes(b, 10, v->bytes);
        tcc_strbuf_printf(b, "  %-30s %s\n", v->what, v->where);
        lines++;
    }
    if (count > lines) tcc_strbuf_printf(b, "%12s%d more\n", "", count - lines);
}

void tcc_remat_print(tcc_strbuf *b, const tcc_remat_spec *spec, const tcc_remat_report *r) {
    int planned = 0;
    for (int i = 1; i < r->frontier.count; i++) planned += r->frontier.data[i].peak >= 0;
    print_budget(b, spec, r);
    print_amounts(b, r);
    print_values(b, r, true);
    print_values(b, r, false);
    print_refused(b, r);
    tcc_strbuf_printf(b, "search: %.2f s, %d of %d sets planned\n", 1e-3 * r->milliseconds, planned,
                      r->frontier.count - 1);
}

/* -- The frontier -- */

void tcc_remat_print_frontier(tcc_strbuf *b, const tcc_remat_report *r) {
    tcc_strbuf_printf(b, "frontier of %d points, largest peak first", r->frontier.count);
    if (r->budget_bytes) {
        tcc_strbuf_add(b, "; budget ");
        add_bytes(b, 0, r->budget_bytes);
    }
    tcc_strbuf_printf(b, "\n\n%8s  %21s  %21s\n%8s  %10s %10s  %10s %10s\n", "computed", "by the model", "planned",
                      "again", "peak", "added", "peak", "added");
    for (int i = 0; i < r->frontier.count; i++) {
        const tcc_remat_point *p = &r->frontier.data[i];
        tcc_strbuf_printf(b, "%8d  ", p->values);
        add_bytes(b, 10, p->estimated_peak);
        add_ms(b, 11, p->estimated_ns);
        if (p->peak >= 0) {
            add_bytes(b, 12, p->peak);
            add_ms(b, 11, p->added_ns);
        }
        tcc_strbuf_add(b, i == r->taken ? "  taken\n" : "\n");
    }
}

enum { WIDTH = 800, HEIGHT = 420, LEFT = 90, TOP = 70, BOTTOM = TOP + HEIGHT };

typedef struct chart {
    double most_ns, most_bytes;
} chart;

static double x_of(const chart *c, int64_t ns) { return LEFT + WIDTH * (double)(ns > 0 ? ns : 0) / c->most_ns; }
static double y_of(const chart *c, int64_t bytes) { return BOTTOM - HEIGHT * (double)bytes / c->most_bytes; }

static chart chart_of(const tcc_remat_report *r) {
    chart c = {1, 1};
    for (int i = 0; i < r->frontier.count; i++) {
        const tcc_remat_point *p = &r->frontier.data[i];
        const int64_t ns = p->estimated_ns > p->added_ns ? p->estimated_ns : p->added_ns;
        const int64_t bytes = p->estimated_peak > p->peak ? p->estimated_peak : p->peak;
        if ((double)ns > c.most_ns) c.most_ns = (double)ns;
        if ((double)bytes > c.most_bytes) c.most_bytes = (double)bytes;
    }
    return (chart){1.05 * c.most_ns, 1.05 * c.most_bytes};
}

static void draw_axes(tcc_strbuf *b, const chart *c) {
    enum { TICKS = 5 };
    tcc_svg_line(b, LEFT, TOP, LEFT, BOTTOM, "black", false);
    tcc_svg_line(b, LEFT, BOTTOM, LEFT + WIDTH, BOTTOM, "black", false);
    for (int i = 0; i <= TICKS; i++) {
        const int64_t ns = (int64_t)(c->most_ns * i / TICKS), bytes = (int64_t)(c->most_bytes * i / TICKS);
        tcc_strbuf text = {0};
        add_bytes(&text, 0, bytes);
        tcc_svg_text(b, LEFT - 6, y_of(c, bytes) + 4, "end", text.text ? text.text : "");
        if (i) tcc_svg_line(b, LEFT, y_of(c, bytes), LEFT + WIDTH, y_of(c, bytes), "#e0e0e0", false);
        text.length = 0;
        add_ms(&text, 0, ns);
        tcc_svg_text(b, x_of(c, ns), BOTTOM + 16, "middle", text.text ? text.text : "");
        b->failed |= text.failed;
        tcc_strbuf_free(&text);
    }
    tcc_svg_text(b, LEFT + WIDTH / 2.0, BOTTOM + 36, "middle", "predicted time that is added to a step");
}

static void draw_point(tcc_strbuf *b, const chart *c, const tcc_remat_report *r, int i) {
    const tcc_remat_point *p = &r->frontier.data[i];
    tcc_strbuf title = {0};
    tcc_strbuf_printf(&title, "%d values computed again: ", p->values);
    add_bytes(&title, 0, p->peak >= 0 ? p->peak : p->estimated_peak);
    add_ms(&title, 12, p->peak >= 0 ? p->added_ns : p->estimated_ns);
    if (p->peak < 0)
        tcc_svg_circle(b, x_of(c, p->estimated_ns), y_of(c, p->estimated_peak), 2.5, "#9c9c9c", title.text);
    else
        tcc_svg_circle(b, x_of(c, p->added_ns), y_of(c, p->peak), i == r->taken ? 7 : 5,
                       i == r->taken ? "#e15759" : "#4e79a7", title.text);
    b->failed |= title.failed;
    tcc_strbuf_free(&title);
}

void tcc_remat_frontier_svg(tcc_strbuf *b, const tcc_remat_report *r) {
    const chart c = chart_of(r);
    tcc_svg_begin(b, LEFT + WIDTH + 50, BOTTOM + 50);
    tcc_svg_text(b, LEFT, 20, "start", "Peak of the arena over added time: sets of values that are computed again");
    tcc_svg_legend(b, LEFT, 44, "#9c9c9c", "by the model");
    tcc_svg_legend(b, LEFT + 130, 44, "#4e79a7", "planned");
    tcc_svg_legend(b, LEFT + 230, 44, "#e15759", "taken");
    draw_axes(b, &c);
    for (int i = 1; i < r->frontier.count; i++) {
        const tcc_remat_point *p = &r->frontier.data[i - 1], *q = &r->frontier.data[i];
        tcc_svg_line(b, x_of(&c, p->estimated_ns), y_of(&c, p->estimated_peak), x_of(&c, q->estimated_ns),
                     y_of(&c, q->estimated_peak), "#c0c0c0", false);
    }
    if (r->budget_bytes && (double)r->budget_bytes < c.most_bytes) {
        tcc_svg_line(b, LEFT, y_of(&c, r->budget_bytes), LEFT + WIDTH, y_of(&c, r->budget_bytes), "#e15759", true);
        tcc_svg_text(b, LEFT + WIDTH, y_of(&c, r->budget_bytes) - 5, "end", "budget");
    }
    for (int i = 0; i < r->frontier.count; i++) draw_point(b, &c, r, i);
    tcc_svg_end(b);
}
