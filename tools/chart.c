/* SPDX-License-Identifier: MIT */
#include "chart.h"

#include <math.h>

enum { WIDTH = 640, HEIGHT = 320, LEFT = 64, RIGHT = 16, TOP = 44, BOTTOM = 46, MOST_POINTS = 1500 };

/* Six hues that people with any colour vision can tell apart, by Okabe and Ito (2008); yellow is left out. */
const char chart_style[] =
    ".chart{width:100%;max-width:640px;height:auto;font:12px system-ui,sans-serif}"
    ".chart text{fill:#444}.chart .title{font-weight:600;fill:#111}"
    ".chart .grid{stroke:#ddd}.chart .axis{stroke:#888}.chart .mark{stroke:#888;stroke-dasharray:5 3}"
    ".chart .line{fill:none;stroke-width:1.6;stroke-linejoin:round}"
    ".c0.line{stroke:#0072b2}.c1.line{stroke:#d55e00}.c2.line{stroke:#009e73}"
    ".c3.line{stroke:#cc79a7}.c4.line{stroke:#e69f00}.c5.line{stroke:#56b4e9}"
    ".c0.dot{fill:#0072b2}.c1.dot{fill:#d55e00}.c2.dot{fill:#009e73}"
    ".c3.dot{fill:#cc79a7}.c4.dot{fill:#e69f00}.c5.dot{fill:#56b4e9}"
    "@media(prefers-color-scheme:dark){.chart text{fill:#bbb}.chart .title{fill:#eee}.chart .grid{stroke:#333}"
    ".chart .axis,.chart .mark{stroke:#777}.c0.line{stroke:#56a8e0}.c0.dot{fill:#56a8e0}}";

void chart_print_text(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '<') fputs("&lt;", out);
        else if (*text == '>') fputs("&gt;", out);
        else if (*text == '&') fputs("&amp;", out);
        else if (*text == '"') fputs("&quot;", out);
        else if ((unsigned char)*text < ' ' && *text != '\n' && *text != '\t') putc('?', out);
        else putc(*text, out);
    }
}

/* -- Axes -- */

typedef struct axis {
    double low, high; /* in the axis' own measure: of a logarithmic one the decimal logarithm */
    double from, to;  /* where they lie in the picture */
    bool log;
} axis;

static double measure(const axis *a, double value) { return a->log ? log10(value) : value; }

static bool shows(const axis *a, double value) { return isfinite(value) && (!a->log || value > 0); }

static double place(const axis *a, double value) {
    return a->from + (measure(a, value) - a->low) / (a->high - a->low) * (a->to - a->from);
}

static void take_in(axis *a, double value) {
    const double at = measure(a, value);
    if (isnan(a->low) || at < a->low) a->low = at;
    if (isnan(a->high) || at > a->high) a->high = at;
}

/* The round step, 1, 2 or 5 times a power of ten, that cuts the axis in about `wanted` parts. */
static double step_of(const axis *a, int wanted) {
    const double rough = (a->high - a->low) / wanted, power = pow(10, floor(log10(rough))), part = rough / power;
    const double step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
    return a->log && step < 1 ? 1 : step;
}

/* An axis that is a point gets a length. */
static void widen(axis *a) {
    if (a->high > a->low) return;
    const double by = a->log ? 0.5 : a->low ? fabs(a->low) * 0.05 : 1;
    a->low -= by;
    a->high += by;
}

static void print_number(FILE *out, const axis *a, double at, double step) {
    if (a->log) fprintf(out, "%g", pow(10, at));
    else if (fabs(at) >= 1e6 || (fabs(at) < 1e-3 && at != 0)) fprintf(out, "%.3g", at);
    else fprintf(out, "%.*f", step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9), at);
}

static void print_axes(FILE *out, const chart *c, const axis *x, const axis *y) {
    for (int vertical = 0; vertical < 2; vertical++) {
        const axis *a = vertical ? y : x;
        const double step = step_of(a, vertical ? 5 : 7);
        for (double at = ceil(a->low / step - 1e-9) * step; at <= a->high + step * 1e-9; at += step) {
            const double p = a->from + (at - a->low) / (a->high - a->low) * (a->to - a->from);
            const double value = fabs(at) < step * 1e-9 ? 0 : at;
            if (vertical)
                fprintf(out,
                        "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                        LEFT, WIDTH - RIGHT, p, p, LEFT - 6, p + 4);
            else
                fprintf(out,
                        "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                        p, p, HEIGHT - BOTTOM, HEIGHT - BOTTOM + 4, p, HEIGHT - BOTTOM + 17);
            print_number(out, a, value, step);
            fputs("</text>\n", out);
        }
    }
    fprintf(out,
            "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/><text x=\"%d\" y=\"%d\" "
            "text-anchor=\"end\">",
            LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - 10);
    chart_print_text(out, c->x_label);
    fprintf(out, "</text>\n<text x=\"8\" y=\"%d\">", TOP - 12);
    chart_print_text(out, c->y_label);
    fputs("</text>\n", out);
}

/* -- Lines -- */

static bool is_shown(const chart_series *s, int64_t i, const axis *x, const axis *y) {
    return shows(x, s->x[i]) && shows(y, s->y[i]);
}

/* More points than a screen has columns are thinned out: they are taken in groups of so many, */
static int64_t group_of(const chart_series *s) {
    return s->count > MOST_POINTS ? 2 * (s->count + MOST_POINTS - 1) / MOST_POINTS : 1;
}

/* of which the least and the largest stay, in their order. Returns how many. */
static int choose(const chart_series *s, int64_t from, const axis *x, const axis *y, int64_t out[2]) {
    int64_t least = -1, most = -1;
    for (int64_t i = from; i < from + group_of(s) && i < s->count; i++) {
        if (!is_shown(s, i, x, y)) continue;
        if (least < 0 || s->y[i] < s->y[least]) least = i;
        if (most < 0 || s->y[i] > s->y[most]) most = i;
    }
    out[0] = least < most ? least : most;
    out[1] = least < most ? most : least;
    return least < 0 ? 0 : least == most ? 1 : 2;
}

static void print_line(FILE *out, const chart_series *s, const axis *x, const axis *y) {
    bool joined = false;
    fprintf(out, "<path class=\"line c%d\" d=\"", s->color % CHART_COLORS);
    for (int64_t from = 0; from < s->count; from += group_of(s)) {
        int64_t chosen[2];
        const int count = choose(s, from, x, y, chosen);
        if (!count) joined = false;
        for (int k = 0; k < count; k++, joined = true)
            fprintf(out, "%c%.1f %.1f", joined ? 'L' : 'M', place(x, s->x[chosen[k]]), place(y, s->y[chosen[k]]));
    }
    fputs("\"/>\n", out);
}

static void print_points(FILE *out, const chart_series *s, const axis *x, const axis *y) {
    for (int64_t from = 0; from < s->count; from += group_of(s)) {
        int64_t chosen[2];
        const int count = choose(s, from, x, y, chosen);
        for (int k = 0; k < count; k++) {
            const double at = s->x[chosen[k]], value = s->y[chosen[k]];
            fprintf(out, "<circle class=\"dot c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>%g, %g</title></circle>\n",
                    s->color % CHART_COLORS, place(x, at), place(y, value), at, value);
        }
    }
}

/* Names in a row above the picture, from the right. */
static void print_legend(FILE *out, const chart *c) {
    double right = WIDTH - RIGHT;
    for (int i = c->n_series - 1; i >= 0; i--) {
        const char *name = c->series[i].name;
        if (!name) continue;
        double width = 0;
        for (const char *at = name; *at; at++) width += ((unsigned char)*at & 0xc0) != 0x80 ? 6.4 : 0;
        right -= width;
        fprintf(out, "<text x=\"%.1f\" y=\"16\">", right);
        chart_print_text(out, name);
        fprintf(out, "</text><rect class=\"dot c%d\" x=\"%.1f\" y=\"7\" width=\"10\" height=\"10\"/>\n",
                c->series[i].color % CHART_COLORS, right - 14);
        right -= 28;
    }
}

static void print_mark(FILE *out, const chart *c, const axis *x) {
    if (isnan(c->mark) || !shows(x, c->mark)) return;
    const double p = place(x, c->mark);
    const bool left = p > (LEFT + WIDTH - RIGHT) / 2.0;
    if (p < LEFT || p > WIDTH - RIGHT) return;
    fprintf(out,
            "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text x=\"%.1f\" y=\"%d\" "
            "text-anchor=\"%s\">",
            p, p, TOP, HEIGHT - BOTTOM, p + (left ? -5 : 5), TOP + 12, left ? "end" : "start");
    chart_print_text(out, c->mark_label);
    fputs("</text>\n", out);
}

void chart_print(FILE *out, const chart *c) {
    axis x = {NAN, NAN, LEFT, WIDTH - RIGHT, c->log_x}, y = {NAN, NAN, HEIGHT - BOTTOM, TOP, c->log_y};
    for (int k = 0; k < c->n_series; k++)
        for (int64_t i = 0; i < c->series[k].count; i++) {
            if (!is_shown(&c->series[k], i, &x, &y)) continue;
            take_in(&x, c->series[k].x[i]);
            take_in(&y, c->series[k].y[i]);
        }
    fprintf(out, "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n",
            WIDTH, HEIGHT);
    fputs("<text class=\"title\" x=\"8\" y=\"16\">", out);
    chart_print_text(out, c->title);
    fputs("</text>\n", out);
    if (isnan(x.low)) {
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">nothing to show</text>\n</svg>\n", WIDTH / 2,
                HEIGHT / 2);
        return;
    }
    widen(&x);
    widen(&y);
    print_axes(out, c, &x, &y);
    for (int k = 0; k < c->n_series; k++) {
        if (c->series[k].points) print_points(out, &c->series[k], &x, &y);
        else print_line(out, &c->series[k], &x, &y);
    }
    print_mark(out, c, &x);
    print_legend(out, c);
    fputs("</svg>\n", out);
}

void chart_print_file(FILE *out, const chart *c) {
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\"><style>"
            "svg{background:#fff}@media(prefers-color-scheme:dark){svg{background:#161616}}%s</style>\n",
            WIDTH, HEIGHT, chart_style);
    chart_print(out, c);
    fputs("</svg>\n", out);
}
