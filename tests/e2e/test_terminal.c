/* SPDX-License-Identifier: MIT
 * Progress on a terminal of any width: a line that is drawn again never reaches past it, and nothing of it is left. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/train_data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1 << 20, ROW = 4096 };

static const int widths[] = {0, 2, 20, 40, 80, 200}; /* 0: it does not say */

/* The program with both outputs on a terminal of that width; what it wrote, to be freed. */
static char *run(int width, const char *const *arguments, int expected) {
    char *text = malloc(MOST), program[512];
    size_t length = 0;
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_non_null(text);
    assert_true(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal));
    const struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)width};
    const int side = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(side >= 0 && !ioctl(side, TIOCSWINSZ, &size));
    snprintf(program, sizeof program, "%s/tcc-train", TCC_BIN_DIR);
    const pid_t pid = fork();
    if (!pid) {
        dup2(side, STDOUT_FILENO);
        dup2(side, STDERR_FILENO);
        execv(program, (char *const *)arguments);
        _exit(127);
    }
    close(side);
    for (ssize_t got; (got = read(terminal, text + length, MOST - 1 - length)) > 0 || (got < 0 && errno == EINTR);)
        if (got > 0) length += (size_t)got;
    text[length] = 0;
    close(terminal);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected) fail_msg("status %d:\n%s", status, text);
    return text;
}

/* One row as a terminal keeps it. */
typedef struct screen {
    int width, column, end, drawn; /* end: of what stands there; drawn: times that it was begun anew */
    char row[ROW];
} screen;

/* A row is complete: it has what was written to it last, from its beginning, and nothing behind. */
static void end_row(screen *s, const char *text) {
    if (s->end != s->column) fail_msg("\"%.*s\" is left of a line in:\n%s", s->end, s->row, text);
    s->end = s->column = 0;
}

/* Shows the text. Returns how many times a row was drawn again. */
static int show(int width, const char *text) {
    screen s = {.width = width ? width : ROW};
    for (const char *at = text; *at; at++) {
        if (at[0] == '\r' && at[1] == '\n') {
            end_row(&s, text);
            at++;
        } else if (*at == '\r') {
            if (s.end >= s.width) fail_msg("%d columns, drawn again after \"%.*s\" in:\n%s", width, s.end, s.row, text);
            s.drawn += s.column > 0;
            s.column = 0;
        } else if (!strncmp(at, "\x1b[K", 3)) {
            s.end = s.column;
            at += 2;
        } else {
            assert_true((unsigned char)*at >= ' ' && s.column < ROW);
            s.row[s.column++] = *at;
            if (s.end < s.column) s.end = s.column;
        }
    }
    assert_int_equal(s.column, 0); /* the shell's prompt begins a line */
    return s.drawn;
}

/* Messages begin a line. */
static void begins_a_line(const char *text, const char *message) {
    const char *at = strstr(text, message);
    if (!at) fail_msg("no \"%s\" in:\n%s", message, text);
    const size_t before = (size_t)(at - text);
    const bool wiped = before >= 4 && !memcmp(text + before - 4, "\r\x1b[K", 4);
    if (before && text[before - 1] != '\n' && !wiped) fail_msg("\"%s\" begins no line in:\n%s", message, text);
}

#define RUN(width, status, ...) run(width, (const char *const[]){"tcc-train", __VA_ARGS__, NULL}, status)

static void training(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *folder = test_path(state, "run");
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        char *text = RUN(widths[i], 0, recipe, "--device", "cpu", "--run-dir", folder, "training.log_every=1",
                         "training.eval_every=3", "training.max_steps=10");
        assert_true(show(widths[i], text) >= (widths[i] == 2 ? 0 : 6));
        begins_a_line(text, "step 10  val_loss");
        begins_a_line(text, "waited for data");
        free(text);
    }
}

/* A run that ends while its progress is drawn says why on a line of its own. */
static void failing(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *folder = test_path(state, "run");
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i += 2) {
        char *text = RUN(widths[i], 1, recipe, "--device", "cpu", "--run-dir", folder, "training.log_every=1",
                         "training.eval_every=0", "optimizer.name=sgd", "optimizer.lr=1e6");
        show(widths[i], text);
        begins_a_line(text, "tcc-train: the loss is infinite or NaN");
        free(text);
    }
}

static void sampling(void **state) {
    const char *recipe = write_recipe(state, "gpt"), *folder = test_path(state, "run");
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i += 2) {
        char *text = RUN(widths[i], 0, recipe, "--device", "cpu", "--run-dir", folder, "training.log_every=1",
                         "training.max_steps=4", "sample.every=2", "sample.length=30");
        show(widths[i], text);
        begins_a_line(text, "--- sample ---");
        free(text);
    }
}

static void tokenizing(void **state) {
    const char *path = test_path(state, "text"), *tokens = test_path(state, "tokens");
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 400000; i++) fprintf(f, "line %d of a text\n", i);
    fclose(f);
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        char *text = RUN(widths[i], 0, "tokenize", "--tokenizer", "bytes", "-o", tokens, path);
        show(widths[i], text);
        begins_a_line(text, tokens);
        free(text);
    }
    char *text = RUN(20, 1, "tokenize", "--tokenizer", "bytes", "-o", tokens, test_path(state, "absent"));
    show(20, text);
    begins_a_line(text, "tcc-train: ");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {FOLDER_TEST(training), FOLDER_TEST(failing), FOLDER_TEST(sampling),
                                       FOLDER_TEST(tokenizing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
