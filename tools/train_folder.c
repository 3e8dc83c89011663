/* SPDX-License-Identifier: MIT
 * A run's folder: its name, its lock, and what becomes of an earlier run's files in it. Nothing whole is ever deleted
 * or mixed: files that do not belong to the run that starts are moved into a subfolder "earlier-N", where neither
 * --resume nor a reader of metrics.jsonl takes them for this run's.
 *
 * Beside a checkpoint "step-N.best.safetensors" is a link to what was the best then, so that a run that goes back to it
 * has its best, too. */
#include "text_file.h"
#include "train.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2))) static char *format_text(const char *format, ...) {
    va_list args;
    char *text = NULL;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    return text;
}

/* "runs/char-gpt" for tools/recipes/char-gpt.yaml */
static char *default_folder(const char *recipe_path) {
    const char *slash = strrchr(recipe_path, '/'), *name = slash ? slash + 1 : recipe_path, *dot = strrchr(name, '.');
    return format_text("runs/%.*s", (int)(dot && dot > name ? dot - name : (ptrdiff_t)strlen(name)), name);
}

static bool make_folders(const char *path) {
    char *copy = strdup(path);
    if (!copy) return false;
    bool ok = true;
    for (char *c = copy + 1; ok; c++) {
        if (*c && *c != '/') continue;
        char kept = *c;
        *c = '\0';
        ok = !mkdir(copy, 0777) || errno == EEXIST;
        *c = kept;
        if (!kept) break;
    }
    free(copy);
    return ok;
}

static int complain(const char *what, const char *path) {
    fprintf(stderr, "tcc-train: %s %s: %s\n", what, path, strerror(errno));
    return EXIT_FAILED;
}

/* -- What is in a folder -- */

/* The step in "step-000100.safetensors", "step-000100.state.safetensors" and "step-000100.best.safetensors"; -1 for
 * other names. */
static int64_t step_of(const char *name) {
    static const char *const endings[] = {".safetensors", ".state.safetensors", ".best.safetensors"};
    char *end;
    if (strncmp(name, "step-", 5)) return -1;
    const int64_t step = strtoll(name + 5, &end, 10);
    for (int i = 0; i < 3; i++)
        if (!strcmp(end, endings[i])) return step;
    return -1;
}

static char *checkpoint_file(const run_folder *f, int64_t step, const char *ending) {
    return format_text("%s/step-%06" PRId64 "%s", f->checkpoints, step, ending);
}

static char *best_file(const run_folder *f) { return format_text("%s/best.safetensors", f->checkpoints); }

static bool is_checkpoint_after(const run_folder *f, const char *name, int64_t step) {
    (void)f;
    return step_of(name) > step;
}

static bool is_record(const run_folder *f, const char *name, int64_t step) {
    (void)f;
    (void)step;
    return !strcmp(name, "metrics.jsonl") || !strcmp(name, "profile.json") || !strcmp(name, "memory.svg") ||
           !strcmp(name, "recipe.yaml") || !strcmp(name, TCC_RUN_PLAN) || !strncmp(name, "events.out.tfevents", 19);
}

typedef bool choose_file(const run_folder *f, const char *name, int64_t step);

static int count_files(const run_folder *f, const char *folder, choose_file *wanted, int64_t step) {
    DIR *entries = opendir(folder);
    int count = 0;
    for (const struct dirent *e; entries && (e = readdir(entries));) count += wanted(f, e->d_name, step);
    if (entries) closedir(entries);
    return count;
}

/* Moves the files that are wanted from one folder to another, or removes them where `to` is NULL. A folder that is not
 * there has none. */
static bool move_files(const run_folder *f, const char *from, const char *to, choose_file *wanted, int64_t step) {
    DIR *entries = opendir(from);
    bool ok = true;
    for (const struct dirent *e; entries && ok && (e = readdir(entries));) {
        if (!wanted(f, e->d_name, step)) continue;
        char *old = format_text("%s/%s", from, e->d_name), *new = to ? format_text("%s/%s", to, e->d_name) : NULL;
        ok = old && (to ? new && !rename(old, new) : !unlink(old));
        free(old);
        free(new);
    }
    if (entries) closedir(entries);
    return ok;
}

/* -- What a run left that was killed -- */

static bool is_there(const run_folder *f, int64_t step, const char *ending) {
    char *path = checkpoint_file(f, step, ending);
    const bool there = path && !access(path, F_OK);
    free(path);
    return there;
}

/* Half a file of ours, under the name that it has while it is written. */
static bool is_half_written(const run_folder *f, const char *name, int64_t step) {
    const size_t length = strlen(name);
    char whole[256];
    if (length <= 4 || length >= sizeof whole || strcmp(name + length - 4, ".tmp") != 0) return false;
    snprintf(whole, sizeof whole, "%.*s", (int)length - 4, name);
    return step_of(whole) >= 0 || !strcmp(whole, "best.safetensors") || is_record(f, whole, step);
}

/* That, or what is nothing without the parameters that should have come after it. */
static bool is_left_over(const run_folder *f, const char *name, int64_t step) {
    if (is_half_written(f, name, step)) return true;
    return step_of(name) >= 0 && !is_there(f, step_of(name), ".safetensors");
}

/* Nobody else writes here while the folder is locked. */
static int remove_left_over(const run_folder *f, bool quiet) {
    const int count = count_files(f, f->checkpoints, is_left_over, 0) + count_files(f, f->path, is_half_written, 0);
    if (!count) return EXIT_DONE;
    if (!move_files(f, f->checkpoints, NULL, is_left_over, 0) || !move_files(f, f->path, NULL, is_half_written, 0))
        return complain("cannot remove what a run has left in", f->path);
    if (!quiet)
        printf("%s: %d half-written file%s of a run that was killed removed\n", f->path, count, count > 1 ? "s" : "");
    return EXIT_DONE;
}

/* -- An earlier run's files -- */

/* A new folder PATH/earlier-N with N the first that is free; NULL with errno set. */
static char *make_earlier(const char *path) {
    for (int n = 1; n < 10000; n++) {
        char *folder = format_text("%s/earlier-%d", path, n);
        if (!folder || !mkdir(folder, 0777)) return folder;
        free(folder);
        if (errno != EEXIST) return NULL;
    }
    return NULL;
}

/* The step that the best so far is of; -1: there is none. */
static int64_t best_step(const run_folder *f, tcc_context *cx) {
    char *path = best_file(f);
    tcc_safetensors *file = NULL;
    int64_t step = -1;
    if (path && !access(path, F_OK)) {
        if (tcc_safetensors_open(cx, path, &file) != TCC_OK) tcc_context_clear_error(cx);
        const char *text = file ? tcc_safetensors_metadata(file, "traincc.step") : NULL;
        step = text ? strtoll(text, NULL, 10) : INT64_MAX; /* what cannot be read is of no use to this run */
    }
    tcc_safetensors_close(file);
    free(path);
    return step;
}

/* The step of the last whole line of the metrics; -1: there is none. */
static int64_t last_logged(const run_folder *f) {
    enum { TAIL = 1 << 16 };
    char *path = format_text("%s/metrics.jsonl", f->path), *tail = calloc(TAIL + 1, 1);
    FILE *in = path ? fopen(path, "r") : NULL;
    long long step = -1;
    if (in && tail) {
        if (fseek(in, -TAIL, SEEK_END)) rewind(in);
        tail[fread(tail, 1, TAIL, in)] = '\0';
        for (const char *line = tail; line && strchr(line, '\n'); line = strchr(line, '\n') + 1)
            if (sscanf(line, "{\"step\":%lld", &step) != 1) continue;
    }
    if (in) fclose(in);
    free(path);
    free(tail);
    return step;
}

/* Moves the best aside where it is of a later step. */
static bool step_back_best(const run_folder *f, tcc_context *cx, int64_t step, const char *to) {
    char *best = best_file(f), *aside = format_text("%s/best.safetensors", to);
    const bool ok = best && aside && (best_step(f, cx) <= step || !rename(best, aside));
    free(best);
    free(aside);
    return ok;
}

/* Without a best of its own the run has what was the best at `step`. */
static int take_best(const run_folder *f, int64_t step) {
    char *best = best_file(f), *then = checkpoint_file(f, step, ".best.safetensors");
    const bool ok = best && then && (!link(then, best) || errno == EEXIST || errno == ENOENT);
    free(best);
    free(then);
    return ok ? EXIT_DONE : complain("cannot take back the best checkpoint in", f->checkpoints);
}

/* Moves what an earlier run has done past `step` into a folder of its own: checkpoints, the best, and lines of metrics,
 * which are taken from their file when that is opened. With `records` all that it wrote. */
static int set_aside(run_folder *f, tcc_context *cx, int64_t step, bool records, bool quiet) {
    const bool past = count_files(f, f->checkpoints, is_checkpoint_after, step) || best_step(f, cx) > step;
    if (!past && !(records ? count_files(f, f->path, is_record, 0) > 0 : last_logged(f) > step)) return EXIT_DONE;
    char *earlier = make_earlier(f->path), *to = earlier ? format_text("%s/checkpoints", earlier) : NULL;
    bool ok = to != NULL;
    if (past)
        ok = ok && !mkdir(to, 0777) && move_files(f, f->checkpoints, to, is_checkpoint_after, step) &&
             step_back_best(f, cx, step, to);
    if (records) ok = ok && move_files(f, f->path, earlier, is_record, 0);
    else ok = ok && (f->abandoned = format_text("%s/metrics.jsonl", earlier));
    if (!ok) complain("cannot move an earlier run's files aside in", f->path);
    else if (!quiet && records) printf("%s held an earlier run; its files are now in %s\n", f->path, earlier);
    else if (!quiet) printf("what was done past step %" PRId64 " is now in %s\n", step, earlier);
    free(earlier);
    free(to);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

void run_folder_keep_best(const run_folder *f, int64_t step) {
    char *best = best_file(f), *then = checkpoint_file(f, step, ".best.safetensors");
    if (best && then) {
        unlink(then);
        (void)!link(best, then); /* where there are no links, a run that goes back has no best until it finds one */
    }
    free(best);
    free(then);
}

/* -- The folder -- */

bool run_folder_name(run_folder *f, const train_options *options) {
    f->lock = -1;
    f->path = options->run_dir ? strdup(options->run_dir) : default_folder(options->recipe_path);
    f->checkpoints = f->path ? format_text("%s/checkpoints", f->path) : NULL;
    return f->checkpoints != NULL;
}

void run_folder_close(run_folder *f) {
    if (f->lock >= 0) close(f->lock);
    free(f->path);
    free(f->checkpoints);
    free(f->abandoned);
}

int run_folder_make(const run_folder *f) {
    return make_folders(f->path) ? EXIT_DONE : complain("cannot make the run's folder", f->path);
}

int run_folder_lock(run_folder *f) {
    if (f->lock >= 0) return EXIT_DONE;
    f->lock = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->lock < 0) return EXIT_DONE;
    if (!flock(f->lock, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
        return EXIT_DONE; /* a file system without locks: go on */
    fprintf(stderr, "tcc-train: another tcc-train is writing to %s; give another --run-dir\n", f->path);
    return EXIT_FAILED;
}

static int write_recipe(const run_folder *f, tcc_context *cx, const recipe *r) {
    char *path = format_text("%s/recipe.yaml", f->path);
    text_file file;
    bool ok = path && text_file_begin(&file);
    if (ok) {
        recipe_print(r, file.out);
        ok = text_file_end(&file, cx, path) == TCC_OK;
    }
    const char *why = tcc_context_error(cx);
    if (!ok) fprintf(stderr, "tcc-train: %s\n", *why ? why : "out of memory");
    free(path);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

/* Whether a checkpoint lies in this folder: then it is this run's. */
static bool is_own(const run_folder *f, const char *checkpoint) {
    const char *slash = strrchr(checkpoint, '/');
    char *folder = slash ? strndup(checkpoint, (size_t)(slash - checkpoint) + 1) : strdup(".");
    struct stat a, b;
    bool own = folder && !stat(folder, &a) && !stat(f->checkpoints, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    free(folder);
    return own;
}

int run_folder_open(run_folder *f, tcc_context *cx, const recipe *r, const char *checkpoint, int64_t step, bool quiet) {
    if (!make_folders(f->path)) return complain("cannot make the run's folder", f->path);
    if (run_folder_lock(f)) return EXIT_FAILED;
    if (f->lock < 0) return complain("cannot open the run's folder", f->path);
    if (!make_folders(f->checkpoints)) return complain("cannot make the run's folder", f->checkpoints);
    const bool own = checkpoint && is_own(f, checkpoint);
    if (remove_left_over(f, quiet) || set_aside(f, cx, own ? step : -1, !own, quiet)) return EXIT_FAILED;
    if (own && take_best(f, step)) return EXIT_FAILED;
    return write_recipe(f, cx, r);
}
