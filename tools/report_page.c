/* SPDX-License-Identifier: MIT */
#include "report_page.h"
#include "chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char page_style[] =
    "body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:1340px;padding:1rem;color:#111;background:#fff}"
    "h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .6rem}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:1.2rem}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}"
    "th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}"
    "th{font-weight:600}td.text,th.text{text-align:left}td.long{max-width:26rem;overflow:hidden;text-overflow:ellipsis}"
    "i.key{display:inline-block;width:.7em;height:.7em;margin-right:.4em}"
    "i.k0{background:#0072b2}i.k1{background:#d55e00}i.k2{background:#009e73}"
    "i.k3{background:#cc79a7}i.k4{background:#e69f00}i.k5{background:#56b4e9}"
    ".picture{background:#fff;overflow-x:auto}"
    ".picture svg{width:100%;min-width:640px;max-width:1280px;height:auto}"
    "img{display:block;max-width:100%;margin:.6rem "
    "0}pre{font-size:13px;overflow-x:auto}p.note{color:#555;font-size:13px}"
    "@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}th,td{border-color:#333}"
    "i.k0{background:#56a8e0}p.note{color:#aaa}}";

/* The run's folder without what leads to it. */
static const char *name_of(const run_record *r) {
    const char *slash = strrchr(r->folder, '/');
    return slash && slash[1] ? slash + 1 : r->folder;
}

/* -- The runs in numbers -- */

static double last(const run_record *r, const char *name) {
    const record_metric *m = record_find(r, name);
    return m ? m->last : NAN;
}

static double best(const run_record *r, const char *name, bool largest) {
    const record_metric *m = record_find(r, name);
    return !m ? NAN : largest ? m->most : m->least;
}

static void print_cell(FILE *out, const char *format, double value) {
    fputs("<td>", out);
    if (isnan(value)) fputs("&ndash;", out);
    else fprintf(out, format, value);
    fputs("</td>", out);
}

static void print_summary(FILE *out, const run_record *runs, int count) {
    fputs("<div class=\"wide\"><table><tr><th class=\"text\">run</th><th>steps</th><th>last loss</th>"
          "<th>least val_loss</th><th>best val_accuracy</th><th>ms a step</th><th>samples/s</th><th>tokens/s</th>"
          "<th>peak MiB</th></tr>\n",
          out);
    for (int i = 0; i < count; i++) {
        const run_record *r = &runs[i];
        const record_metric *loss = record_find(r, "loss");
        fprintf(out, "<tr><td class=\"text\"><i class=\"key k%d\"></i>", i);
        chart_print_text(out, name_of(r));
        fputs("</td>", out);
        print_cell(out, "%.0f", loss ? loss->last_step + 1 : NAN);
        print_cell(out, "%.4f", last(r, "loss"));
        print_cell(out, "%.4f", best(r, "val_loss", false));
        print_cell(out, "%.4f", best(r, "val_accuracy", true));
        print_cell(out, "%.3g", record_median(r, "step_ms"));
        print_cell(out, "%.0f", record_median(r, "samples_per_s"));
        print_cell(out, "%.0f", record_median(r, "tokens_per_s"));
        print_cell(out, "%.1f", last(r, "peak_bytes") / (1 << 20));
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

/* -- Curves -- */

/* Metrics of their own: those of classes, parameters and modules would be hundreds. */
static bool is_charted(const char *name) {
    return !strpbrk(name, "./") && strcmp(name, "val_loss") && strcmp(name, "peak_bytes");
}

/* A metric of all runs; with `beside`, another of each as points. */
static void print_curve(FILE *out, const run_record *runs, int count, const char *name, const char *beside) {
    chart_series series[2 * CHART_COLORS];
    chart c = {.title = name, .x_label = "step", .y_label = "", .series = series, .mark = NAN};
    for (int k = 0; k < (beside ? 2 : 1); k++)
        for (int i = 0; i < count; i++) {
            const record_metric *m = record_find(&runs[i], k ? beside : name);
            if (!m) continue;
            series[c.n_series++] =
                (chart_series){.x = m->step, .y = m->value, .count = m->count, .points = k || m->count < 3, .color = i};
        }
    if (beside && record_find(&runs[0], beside)) c.y_label = "line: training; points: validation";
    chart_print(out, &c);
}

static bool seen_before(const run_record *runs, int run, const char *name) {
    for (int i = 0; i < run; i++)
        if (record_find(&runs[i], name)) return true;
    return false;
}

static void print_curves(FILE *out, const run_record *runs, int count) {
    fputs("<h2>Curves</h2>\n<div class=\"charts\">\n", out);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < runs[i].n_metrics; k++) {
            const char *name = runs[i].metrics[k].name;
            if (!is_charted(name) || seen_before(runs, i, name)) continue;
            print_curve(out, runs, count, name, strcmp(name, "loss") ? NULL : "val_loss");
        }
    fputs("</div>\n", out);
}

/* -- Kernels -- */

static double at_best_us(const run_record *r, const record_kernel *k) {
    return r->flop_per_s > 0 && r->bytes_per_s > 0 ? 1e6 * fmax(k->flop / r->flop_per_s, k->bytes / r->bytes_per_s)
                                                   : NAN;
}

/* What each kernel reaches under the device's roofline (Williams, Waterman and Patterson, 2009). */
static bool print_roofline(FILE *out, const run_record *r) {
    enum { ROOF = 3 };
    double *numbers = calloc((size_t)r->n_kernels, 2 * sizeof *numbers), least = INFINITY, most = 0;
    double roof_x[ROOF], roof_y[ROOF];
    if (!numbers) return false;
    double *x = numbers, *y = numbers + r->n_kernels;
    for (int i = 0; i < r->n_kernels; i++) {
        const record_kernel *k = &r->kernels[i];
        x[i] = k->bytes > 0 ? k->flop / k->bytes : NAN;
        y[i] = k->us > 0 ? k->flop / k->us * 1e-3 : NAN;
        if (x[i] > 0) least = fmin(least, x[i]);
        if (x[i] > 0) most = fmax(most, x[i]);
    }
    const double ridge = r->bytes_per_s > 0 ? r->flop_per_s / r->bytes_per_s : NAN;
    roof_x[0] = fmin(least, ridge / 4);
    roof_x[1] = ridge;
    roof_x[2] = fmax(most, ridge * 4);
    for (int i = 0; i < ROOF; i++) roof_y[i] = fmin(r->flop_per_s, roof_x[i] * r->bytes_per_s) * 1e-9;
    const chart_series series[] = {
        {.name = "a kind of kernel", .x = x, .y = y, .count = r->n_kernels, .points = true, .color = 0},
        {.name = "roofline", .x = roof_x, .y = roof_y, .count = isnan(ridge) ? 0 : ROOF, .color = 1}};
    chart_print(out, &(chart){.title = "Roofline",
                              .x_label = "flop a byte",
                              .y_label = "GFLOP/s",
                              .log_x = true,
                              .log_y = true,
                              .series = series,
                              .n_series = 2,
                              .mark = NAN});
    free(numbers);
    return true;
}

static void print_kernel(FILE *out, const run_record *r, const record_kernel *k, double all_us) {
    fputs("<tr><td class=\"text long\">", out);
    chart_print_text(out, k->ops);
    fputs("</td><td class=\"text\">", out);
    chart_print_text(out, k->how);
    fprintf(out, "</td><td>%lld</td><td>%.3f</td><td>%.1f</td><td>%.1f</td><td>%.1f</td>", (long long)k->launches,
            k->us * 1e-3, all_us > 0 ? 100 * k->us / all_us : 0, k->us > 0 ? k->flop / k->us * 1e-3 : 0,
            k->us > 0 ? k->bytes / k->us * 1e-3 : 0);
    const double share = 100 * at_best_us(r, k) / k->us;
    if (share > 100) fputs("<td>&gt;100</td>", out); /* its data came from a cache */
    else print_cell(out, "%.0f", share);
    fputs("<td class=\"text long\">", out);
    chart_print_text(out, k->lines);
    fputs("</td></tr>\n", out);
}

static bool print_kernels(FILE *out, const run_record *r) {
    enum { MOST = 25 };
    double all = 0, rest = 0;
    if (!r->n_kernels) return true;
    for (int i = 0; i < r->n_kernels; i++) all += r->kernels[i].us;
    for (int i = MOST; i < r->n_kernels; i++) rest += r->kernels[i].us;
    fputs("<h2>Kernels of a training step: ", out);
    chart_print_text(out, name_of(r));
    fputs("</h2>\n<div class=\"charts\">\n", out);
    const bool ok = print_roofline(out, r);
    fputs("</div>\n<div class=\"wide\"><table><tr><th class=\"text\">ops</th><th class=\"text\">runs "
          "by</th><th>launches</th>"
          "<th>ms</th><th>%</th><th>GFLOP/s</th><th>GB/s</th><th>% of roof</th><th class=\"text\">first lines of the "
          "model</th></tr>\n",
          out);
    for (int i = 0; i < r->n_kernels && i < MOST; i++) print_kernel(out, r, &r->kernels[i], all);
    fputs("</table></div>\n", out);
    if (rest > 0)
        fprintf(out, "<p class=\"note\">%d more kinds of kernels take %.3f of %.3f ms.</p>\n", r->n_kernels - MOST,
                rest * 1e-3, all * 1e-3);
    return ok;
}

/* -- Pictures -- */

static void print_base64(FILE *out, const record_picture *p) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < p->size; i += 3) {
        const size_t left = p->size - i;
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++) bits = bits << 8 | (k < left ? (unsigned char)p->bytes[i + k] : 0);
        for (size_t k = 0; k < 4; k++) fputc(k <= left ? digits[bits >> (18 - 6 * k) & 63] : '=', out);
    }
}

static void print_pictures(FILE *out, const run_record *r) {
    if (!r->n_pictures) return;
    fputs("<h2>Image, label and prediction: ", out);
    chart_print_text(out, name_of(r));
    fputs("</h2>\n", out);
    for (int i = 0; i < r->n_pictures; i++) {
        fprintf(out, "<img alt=\"validation image %d, its label and what is predicted\" src=\"data:image/png;base64,",
                i);
        print_base64(out, &r->pictures[i]);
        fputs("\">\n", out);
    }
}

/* -- The page -- */

static void print_text(FILE *out, const char *title, const run_record *r, const char *text) {
    if (!text) return;
    fprintf(out, "<h2>%s: ", title);
    chart_print_text(out, name_of(r));
    fputs("</h2>\n<pre>", out);
    chart_print_text(out, text);
    fputs("</pre>\n", out);
}

bool report_page(FILE *out, const run_record *runs, int count) {
    bool ok = true, profiled = false;
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
          "<meta name=\"color-scheme\" content=\"light dark\"><title>TrainCC: ",
          out);
    for (int i = 0; i < count; i++) {
        if (i) fputs(", ", out);
        chart_print_text(out, name_of(&runs[i]));
    }
    fprintf(out, "</title><style>%s%s</style></head>\n<body>\n<h1>%s</h1>\n", page_style, chart_style,
            count > 1 ? "Training runs" : "A training run");
    print_summary(out, runs, count);
    print_curves(out, runs, count);
    for (int i = 0; i < count; i++) print_pictures(out, &runs[i]);
    for (int i = 0; i < count && ok; i++) {
        profiled |= runs[i].n_kernels > 0;
        ok = print_kernels(out, &runs[i]);
        if (!runs[i].memory_svg) continue;
        fputs("<h2>Memory of a training step: ", out);
        chart_print_text(out, name_of(&runs[i]));
        fprintf(out, "</h2>\n<div class=\"picture\">%s</div>\n", runs[i].memory_svg);
    }
    if (!profiled)
        fputs("<p class=\"note\">Train with --explain or --profile FILE to see kernels and memory here.</p>\n", out);
    for (int i = 0; i < count; i++) print_text(out, "Data", &runs[i], runs[i].data);
    for (int i = 0; i < count; i++) print_text(out, "Recipe", &runs[i], runs[i].recipe);
    fputs("</body></html>\n", out);
    return ok;
}
