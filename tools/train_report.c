/* SPDX-License-Identifier: MIT
 * tcc-train report: a page of what runs have left in their folders. */
#include "chart.h"
#include "report_page.h"
#include "text_file.h"
#include "train.h"

#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: tcc-train report RUN_DIR [RUN_DIR ...] [-o FILE]\n"
    "\n"
    "Makes one HTML page of the runs: curves, time of kernels, memory. It needs no other file.\n"
    "\n"
    "  -o, --output FILE    default: report.html in the first run's folder\n";

static int complain(const char *what, const char *why) {
    fprintf(stderr, "tcc-train: report: %s%s%s\n", what, *why ? ": " : "", why);
    return EXIT_FAILED;
}

static int usage_error(const char *what, const char *why) {
    complain(what, why);
    fputs("Try 'tcc-train report --help'.\n", stderr);
    return EXIT_USAGE;
}

static int write_page(const char *path, const run_record *runs, int count) {
    tcc_context *cx;
    text_file page;
    if (tcc_context_create(&cx) != TCC_OK || !text_file_begin(&page)) {
        tcc_context_destroy(cx);
        return complain(path, "out of memory");
    }
    bool ok = report_page(page.out, runs, count);
    ok = text_file_end(&page, cx, path) == TCC_OK && ok;
    const char *why = tcc_context_error(cx);
    const int status = ok ? EXIT_DONE : *why ? complain(why, "") : complain(path, "out of memory");
    tcc_context_destroy(cx);
    if (ok) printf("the report is in %s\n", path);
    return status;
}

static int make_page(const char *path, const char *const *folders, int count) {
    run_record runs[CHART_COLORS];
    char error[512], *own = NULL;
    int status = EXIT_DONE, read = 0;
    if (!path && asprintf(&own, "%s/report.html", folders[0]) < 0) return complain("out of memory", "");
    while (read < count && status == EXIT_DONE) {
        if (!record_read(&runs[read], folders[read], error, sizeof error)) status = complain(error, "");
        read++;
    }
    if (status == EXIT_DONE) status = write_page(path ? path : own, runs, count);
    for (int i = 0; i < read; i++) record_free(&runs[i]);
    free(own);
    return status;
}

void train_report_complete(const char *before, const char *current) {
    static const complete_option options[] = {{"-o", ":files"}, {"--output", ":files"}, {"--help", NULL}};
    if (!complete_option_word(options, 3, before, current)) complete_choices("", ":folders", current);
}

int train_report(char *const *arguments, int count) {
    const char *folders[CHART_COLORS], *path = NULL;
    int n = 0;
    for (int i = 0; i < count; i++) {
        const char *a = arguments[i];
        if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
            fputs(usage, stdout);
            return EXIT_DONE;
        }
        if (!strcmp(a, "-o") || !strcmp(a, "--output")) {
            if (++i == count) return usage_error(a, "needs a file");
            path = arguments[i];
        } else if (!strncmp(a, "--output=", 9)) path = a + 9;
        else if (*a == '-' && a[1]) return usage_error("unknown option", a);
        else if (n == CHART_COLORS) return usage_error("at most 6 runs fit on a page", "");
        else folders[n++] = a;
    }
    return n ? make_page(path, folders, n) : usage_error("no run's folder given", "");
}
