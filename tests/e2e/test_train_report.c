/* SPDX-License-Identifier: MIT
 * The page of a run: it holds what the run has left, and a browser shows it. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RUN(...) program_run(NULL, "tcc-train", (const char *const[]){__VA_ARGS__, NULL})

enum { STEPS = 60 };

static void train(void **state, const char *folder, const char *option) {
    FILE *f = fopen(test_path(state, "data.csv"), "w");
    for (int i = 0; i < 256; i++) fprintf(f, "%d,%d,%d\n", i % 16, i / 16, i % 16 > 7);
    fclose(f);
    f = fopen(test_path(state, "recipe.yaml"), "w");
    fprintf(f,
            "model: {name: mlp, hidden: [16]}\ndata: {kind: csv, path: %s, batch_size: 32}\n"
            "training: {max_steps: %d, log_every: 1, eval_every: 20, metrics: [f1, class_iou]}\n",
            test_path(state, "data.csv"), STEPS);
    fclose(f);
    program_result r = RUN(test_path(state, "recipe.yaml"), "--device", "cpu", "--run-dir", test_path(state, folder),
                           option);
    if (r.status) fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
}

static int count(const char *text, const char *what) {
    int n = 0;
    while ((text = strstr(text, what))) n++, text++;
    return n;
}

static char *report(void **state, const char *a, const char *b, const char *page) {
    const char *out = test_path(state, page);
    program_result r = b ? RUN("report", test_path(state, a), test_path(state, b), "-o", out)
                         : RUN("report", test_path(state, a));
    if (r.status || !strstr(r.out, "the report is in ") || !strstr(r.out, out))
        fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
    return test_read(out, NULL);
}

/* The last loss of the run, as the page has it. */
static void last_loss(void **state, char *out, size_t size) {
    char *text = test_read(test_path(state, "<one>/metrics.jsonl"), NULL), *at = text, *next;
    while ((next = strstr(at + 1, "\"loss\":"))) at = next;
    snprintf(out, size, "<td>%.4f</td>", strtod(at + 7, NULL));
    free(text);
}

static void shows_the_run(void **state) {
    char loss[32];
    train(state, "<one>", "--explain");
    char *page = report(state, "<one>", NULL, "<one>/report.html");
    last_loss(state, loss, sizeof loss);
    assert_non_null(strstr(page, loss));
    assert_non_null(strstr(page, "</i>&lt;one&gt;</td><td>60</td>")); /* a name is no HTML */
    assert_null(strstr(page, "<one>"));
    /* loss with val_loss, lr, step_ms, samples_per_s, val_accuracy, val_f1, and the roofline */
    assert_int_equal(count(page, "<svg class=\"chart\""), 7);
    assert_int_equal(count(page, "<circle class=\"dot c0\"") > 3, 1);
    assert_non_null(strstr(page, "Memory over time: arena of "));
    assert_non_null(strstr(page, "<td class=\"text\">contract</td>"));
    assert_non_null(strstr(page, "name: mlp"));
    assert_null(strstr(page, "http-equiv"));
    assert_int_equal(count(page, "http"), count(page, "xmlns=\"http://www.w3.org/2000/svg\"")); /* nothing is fetched */
    free(page);

    /* Two runs are over each other; what only one has seen is there too. */
    train(state, "two", "--quiet");
    char *both = report(state, "<one>", "two", "both.html");
    assert_int_equal(count(both, "<path class=\"line c0\""), 6); /* val_loss has points */
    assert_int_equal(count(both, "<path class=\"line c1\""), 7); /* a roofline too */
    assert_int_equal(count(both, "<h2>Recipe: "), 2);
    assert_int_equal(count(both, "<h2>Kernels of a training step: "), 1);
    free(both);
}

/* A browser must find no fault with it, and the same charts. */
static void opens_in_a_browser(void **state) {
    if (access("/usr/bin/chromium", X_OK)) {
        print_message("skipped: no /usr/bin/chromium (Debian: chromium)\n");
        skip();
    }
    /* It makes sockets there, whose paths are short. */
    const program_options short_paths = {.environment = "TMPDIR=/tmp"};
    char url[4300], profile[4300];
    train(state, "run", "--explain");
    char *page = report(state, "run", NULL, "run/report.html");
    snprintf(url, sizeof url, "file://%s", test_path(state, "run/report.html"));
    snprintf(profile, sizeof profile, "--user-data-dir=%s", test_path(state, "browser"));
    program_result r = program_run(&short_paths, "/usr/bin/chromium",
                                   (const char *const[]){"--headless", "--no-sandbox", "--disable-gpu",
                                                         "--disable-dev-shm-usage", "--enable-logging=stderr", profile,
                                                         "--window-size=400,800", "--dump-dom", url, NULL});
    if (r.status) fail_msg("%d: %s", r.status, r.err);
    assert_null(strstr(r.err, "CONSOLE"));
    assert_int_equal(count(r.out, "<svg class=\"chart\""), count(page, "<svg class=\"chart\""));
    assert_int_equal(count(r.out, "<tr>"), count(page, "<tr>"));
    assert_int_equal(count(r.out, "<rect"), count(page, "<rect"));
    assert_non_null(strstr(r.out, "</pre>"));
    program_free(&r);
    free(page);
}

static void expect_refused(program_result r, int status, const char *message) {
    if (r.status != status || *r.out || !strstr(r.err, message))
        fail_msg("%d, or this does not say \"%s\": %s%s", r.status, message, r.out, r.err);
    program_free(&r);
}

static void refuses(void **state) {
    const char *run = test_path(state, "run"), *no = "x";
    train(state, "run", "--quiet");
    expect_refused(RUN("report"), 2, "no run's folder given");
    expect_refused(RUN("report", run, "-o"), 2, "-o: needs a file");
    expect_refused(RUN("report", "--what", run), 2, "unknown option: --what");
    expect_refused(RUN("report", no, no, no, no, no, no, no), 2, "at most 6 runs");
    expect_refused(RUN("report", test_path(state, "gone")), 1, "gone/metrics.jsonl: No such file");
    expect_refused(RUN("report", run, "-o", test_path(state, "gone/page.html")), 1,
                   "gone/page.html: error: cannot create the file: No such file");
    expect_refused(RUN("report", run, "-o", "/dev/full"), 1, "/dev/full: error: writing failed: No space left");
    test_write_text(state, "run/profile.json", "{\"traceEvents\":");
    expect_refused(RUN("report", run), 1, "run/profile.json: is no trace that --profile has written");
    unlink(test_path(state, "run/profile.json"));
    test_write_text(state, "run/metrics.jsonl", "{\"step\":0,\"loss\":1}\n{\"loss\":1}\n");
    expect_refused(RUN("report", run), 1, "run/metrics.jsonl: line 2 is no JSON object with a \"step\"");
    test_write_text(state, "run/metrics.jsonl", "{\"step\":0,\"loss\":1}\n{\"step\":1,\"lo\n{\"step\":2,\"loss\":1}\n");
    expect_refused(RUN("report", run), 1, "run/metrics.jsonl: line 2 is");
    test_write_text(state, "run/metrics.jsonl", "");
    expect_refused(RUN("report", run), 1, "run/metrics.jsonl: holds no metrics yet");
    /* A line that was cut when the run was killed, and numbers that are none. */
    test_write_text(state, "run/metrics.jsonl",
                    "{\"step\":0,\"loss\":null}\n{\"step\":1,\"loss\":2}\n{\"step\":2,\"lo");
    char *page = report(state, "run", NULL, "run/report.html");
    assert_non_null(strstr(page, "<td>2</td><td>2.0000</td>"));
    free(page);
    test_write_text(state, "run/metrics.jsonl", "{\"step\":0,\"loss\":null}\n");
    page = report(state, "run", NULL, "run/report.html");
    assert_non_null(strstr(page, "nothing to show"));
    free(page);
}

/* Of a long run a page is as large as of any other, and has its extremes. */
static void a_long_run(void **state) {
    enum { LINES = 50000 };
    size_t size;
    test_write_text(state, "long/metrics.jsonl", "");
    FILE *f = fopen(test_path(state, "long/metrics.jsonl"), "w");
    for (int i = 0; i < LINES; i++)
        fprintf(f, "{\"step\":%d,\"loss\":%g,\"step_ms\":%d}\n{\"step\":%d,\"val_loss\":%g,\"val_accuracy\":0.5}\n", i,
                i == 777 ? 9e6 : 2.0, 3 + i % 3, i, i == 31234 ? 0.125 : 1.0);
    fclose(f);
    program_result r = RUN("report", test_path(state, "long"));
    assert_int_equal(r.status, 0);
    program_free(&r);
    char *page = test_read(test_path(state, "long/report.html"), &size);
    assert_in_range(size, 1000, 1000000);
    assert_non_null(strstr(page, "<td>50000</td><td>2.0000</td><td>0.1250</td><td>0.5000</td><td>4</td>"));
    assert_non_null(strstr(page, "<title>31234, 0.125</title>"));
    assert_non_null(strstr(page, ">8e+06<")); /* the axis of the loss */
    free(page);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(shows_the_run), FOLDER_TEST(a_long_run),
                                       FOLDER_TEST(opens_in_a_browser), FOLDER_TEST(refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
