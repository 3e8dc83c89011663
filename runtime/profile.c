/* SPDX-License-Identifier: MIT
 * Reports on a profiled executable. */
#include "runtime/profile.h"
#include "runtime/files/file.h"

#include "ir/support/alloc.h"

#include <cJSON.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What ran: a kernel's schedule, a library entry, or a copy. */
static const char *how(const tcc_program *p, const tcc_step *s) {
    const char *text = s->kind == TCC_STEP_KERNEL    ? p->kernels[s->kernel].schedule
                       : s->kind == TCC_STEP_LIBRARY ? s->call->name
                                                     : "copy";
    return text ? text : "";
}

/* The implementation that was chosen, and which of its launches this is where they are not called the same:
 * "contract.tiles: combine". */
static void print_choice(const tcc_program *p, const tcc_step *s, char *out, size_t size) {
    const char *ran = how(p, s), *choice = s->implementation ? s->implementation : "";
    if (!*choice || !strcmp(choice, ran)) snprintf(out, size, "%s", ran);
    else snprintf(out, size, "%s: %s", choice, ran);
}

static double step_bytes(const tcc_step *s) {
    return s->kind == TCC_STEP_COPY && !(s->bytes > 0) ? 2.0 * (double)s->to.size_bytes : s->bytes;
}

/* How often an element of a value is evaluated, on average; 1: no operation is evaluated again. */
static double evaluations_an_element(double evaluations, double elements) {
    return elements > 0 ? evaluations / elements : 1;
}

typedef struct row {
    int step;
    int64_t ns;
} row;

static int by_time(const void *a, const void *b) {
    const row *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
    return x->step - y->step;
}

/* The text, cut to `width` bytes with two dots where it is longer. */
static void print_cut(tcc_strbuf *out, const char *text, int width) {
    int length = (int)strlen(text);
    if (length <= width) tcc_strbuf_printf(out, "  %-*s", width, text);
    else tcc_strbuf_printf(out, "  %.*s..", width - 2, text);
}

enum { HOW_WIDTH = 26, LABEL_WIDTH = 40 };

static void print_row(tcc_strbuf *out, const char *step, const char *schedule, const char *label, const char *lines,
                      double seconds, double run_seconds, double predicted, double flop, double again, double bytes,
                      const tcc_roofline *roofline) {
    tcc_strbuf_printf(out, "%5s %10.1f %10.1f %6.1f %10.2f %6.2f %10.2f %8.1f %8.1f", step, seconds * 1e6,
                      predicted * 1e6, run_seconds > 0 ? 100 * seconds / run_seconds : 0, flop * 1e-6, again,
                      bytes * 1e-6, seconds > 0 ? flop / seconds * 1e-9 : 0, seconds > 0 ? bytes / seconds * 1e-9 : 0);
    if (roofline) {
        double at_best = flop / roofline->flop_per_s, traffic = bytes / roofline->bytes_per_s;
        if (traffic > at_best) at_best = traffic;
        const double share = seconds > 0 ? 100 * at_best / seconds : 0;
        if (share > 100)
            tcc_strbuf_add(out, "   >100"); /* its data came from a cache, or the roof was not at its best */
        else tcc_strbuf_printf(out, " %6.1f", share);
    }
    print_cut(out, schedule, HOW_WIDTH);
    print_cut(out, label, LABEL_WIDTH);
    tcc_strbuf_printf(out, "  %s\n", lines);
}

tcc_status tcc_profile_print(const tcc_exec *e, tcc_diag *d, const tcc_roofline *roofline, tcc_strbuf *out) {
    const tcc_program *p = tcc_exec_get_program(e);
    const tcc_step_profile *profile = tcc_exec_get_profile(e);
    bool ran = profile && p->n_steps && profile[0].runs;
    row *rows = tcc__calloc((size_t)p->n_steps, sizeof *rows);
    if (!rows) return tcc_enomem(d);
    double flop = 0, bytes = 0, seconds = 0, predicted = 0, evaluations = 0, elements = 0;
    for (int i = 0; i < p->n_steps; i++) {
        rows[i] = (row){i, ran ? profile[i].min_ns : 0};
        flop += p->steps[i].flop;
        predicted += p->steps[i].predicted_s;
        evaluations += p->steps[i].evaluations;
        elements += p->steps[i].elements;
        bytes += step_bytes(&p->steps[i]);
        seconds += (double)rows[i].ns * 1e-9;
    }
    qsort(rows, (size_t)p->n_steps, sizeof *rows, by_time);
    tcc_strbuf_printf(out, "program '%s': %d steps, arena %.1f MB", p->name, p->n_steps, (double)p->arena_bytes * 1e-6);
    if (ran) tcc_strbuf_printf(out, ", minima of %lld runs", (long long)profile[0].runs);
    else tcc_strbuf_add(out, "; not profiled, so without times");
    if (roofline)
        tcc_strbuf_printf(out, "; the device does %.0f GFLOP/s and %.1f GB/s", roofline->flop_per_s * 1e-9,
                          roofline->bytes_per_s * 1e-9);
    tcc_strbuf_printf(
        out, "\n step       us  predicted      %%     MFLOP  evals         MB  GFLOP/s     GB/s%s  %-*s  %-*s  lines\n",
        roofline ? "  roof%" : "", HOW_WIDTH, "runs by", LABEL_WIDTH, "ops");
    for (int k = 0; k < p->n_steps; k++) {
        int i = rows[k].step;
        const tcc_step *s = &p->steps[i];
        char number[16], choice[64];
        snprintf(number, sizeof number, "%d", i);
        print_choice(p, s, choice, sizeof choice);
        print_row(out, number, choice, s->label ? s->label : "", s->lines ? s->lines : "", (double)rows[k].ns * 1e-9,
                  seconds, s->predicted_s, s->flop, evaluations_an_element(s->evaluations, s->elements), step_bytes(s),
                  roofline);
    }
    print_row(out, "all", "", "", "", seconds, seconds, predicted, flop, evaluations_an_element(evaluations, elements),
              bytes, roofline);
    tcc__free(rows);
    return out->failed ? tcc_enomem(d) : TCC_OK;
}

/* -- The trace -- */

typedef enum lane { LANE_HOST = 1, LANE_COPY, LANE_COMPUTE, LANE_THREAD /* and those behind it */ } lane;

static const char *const lane_names[] = {
    [LANE_HOST] = "host", [LANE_COPY] = "copies to the device", [LANE_COMPUTE] = "compute"};

/* An event without arguments; NULL when memory is short. */
static cJSON *add_event(cJSON *events, const char *name, const char *category, int lane, int64_t begin_ns,
                        int64_t end_ns) {
    cJSON *event = cJSON_CreateObject();
    if (!event || !cJSON_AddItemToArray(events, event)) {
        cJSON_Delete(event);
        return NULL;
    }
    const bool ok = cJSON_AddStringToObject(event, "name", name) && cJSON_AddStringToObject(event, "cat", category) &&
                    cJSON_AddStringToObject(event, "ph", "X") &&
                    cJSON_AddNumberToObject(event, "ts", (double)begin_ns * 1e-3) &&
                    cJSON_AddNumberToObject(event, "dur", (double)(end_ns - begin_ns) * 1e-3) &&
                    cJSON_AddNumberToObject(event, "pid", 1) && cJSON_AddNumberToObject(event, "tid", lane);
    return ok ? event : NULL;
}

static bool add_launch(cJSON *events, const tcc_program *p, int step, int run, int64_t begin_ns,
                       const tcc_step_time *t) {
    const tcc_step *s = &p->steps[step];
    const char *label = s->label && *s->label ? s->label : how(p, s);
    cJSON *event = add_event(events, label, how(p, s), LANE_COMPUTE, begin_ns + t->begin_ns, begin_ns + t->end_ns);
    cJSON *args = event ? cJSON_AddObjectToObject(event, "args") : NULL;
    return args && cJSON_AddNumberToObject(args, "run", run) && cJSON_AddStringToObject(args, "program", p->name) &&
           cJSON_AddNumberToObject(args, "step", step) &&
           cJSON_AddStringToObject(args, "lines", s->lines ? s->lines : "") &&
           cJSON_AddNumberToObject(args, "flop", s->flop) && cJSON_AddNumberToObject(args, "bytes", step_bytes(s));
}

/* What each thread did of the step. */
static bool add_threads(cJSON *events, const tcc_profile_run *r, int step, int64_t begin_ns) {
    const tcc_step *s = &tcc_exec_get_program(r->exec)->steps[step];
    bool ok = true;
    for (int i = 0; i < r->n_threads && r->threads && ok; i++) {
        const tcc_step_time *t = &r->threads[step * r->n_threads + i];
        if (!t->end_ns) continue;
        ok = add_event(events, s->label && *s->label ? s->label : how(tcc_exec_get_program(r->exec), s), "thread",
                       LANE_THREAD + i, begin_ns + t->begin_ns, begin_ns + t->end_ns);
    }
    return ok;
}

static bool add_run(cJSON *events, const tcc_profile_run *r, int run, int64_t start_ns) {
    const tcc_program *p = tcc_exec_get_program(r->exec);
    char name[96];
    snprintf(name, sizeof name, "%s, step %lld", p->name, (long long)r->step);
    bool ok = add_event(events, name, "run", LANE_HOST, r->begin_ns - start_ns, r->end_ns - start_ns) &&
              add_event(events, "batch and rates", "copy", LANE_COPY, r->begin_ns - start_ns, r->fed_ns - start_ns);
    for (int i = 0; i < p->n_steps && ok; i++)
        ok = add_launch(events, p, i, run, r->fed_ns - start_ns, &r->steps[i]) &&
             add_threads(events, r, i, r->fed_ns - start_ns);
    return ok;
}

static bool add_lanes(cJSON *events, int n_threads) {
    for (int lane = LANE_HOST; lane < LANE_THREAD + n_threads; lane++) {
        char name[32];
        cJSON *event = cJSON_CreateObject(), *args;
        if (lane < LANE_THREAD) snprintf(name, sizeof name, "%s", lane_names[lane]);
        else snprintf(name, sizeof name, "thread %d of %d", lane - LANE_THREAD + 1, n_threads);
        if (!event || !cJSON_AddItemToArray(events, event)) {
            cJSON_Delete(event);
            return false;
        }
        if (!cJSON_AddStringToObject(event, "name", "thread_name") || !cJSON_AddStringToObject(event, "ph", "M") ||
            !cJSON_AddNumberToObject(event, "pid", 1) || !cJSON_AddNumberToObject(event, "tid", lane) ||
            !(args = cJSON_AddObjectToObject(event, "args")) || !cJSON_AddStringToObject(args, "name", name))
            return false;
    }
    return true;
}

static bool add_roofline(cJSON *root, const tcc_roofline *roofline) {
    cJSON *about = cJSON_AddObjectToObject(root, "otherData");
    return about && cJSON_AddNumberToObject(about, "flop_per_s", roofline->flop_per_s) &&
           cJSON_AddNumberToObject(about, "bytes_per_s", roofline->bytes_per_s);
}

static char *trace_text(const tcc_profile_run *runs, int count, const tcc_roofline *roofline) {
    cJSON *root = cJSON_CreateObject();
    cJSON *events = root ? cJSON_AddArrayToObject(root, "traceEvents") : NULL;
    bool good = events && add_lanes(events, runs[0].threads ? runs[0].n_threads : 0);
    for (int i = 0; i < count && good; i++) good = add_run(events, &runs[i], i, runs[0].begin_ns);
    if (roofline) good = good && add_roofline(root, roofline);
    char *text = good ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    return text;
}

tcc_status tcc_profile_write_trace(const tcc_profile_run *runs, int count, tcc_diag *d, const tcc_roofline *roofline,
                                   const char *path) {
    if (!count) return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "nothing has been run with profiling on");
    char *text = trace_text(runs, count, roofline);
    if (!text) return tcc_enomem(d);
    const tcc_status s = tcc__file_save(d, path, text, strlen(text));
    cJSON_free(text);
    return s;
}
