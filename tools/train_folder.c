/* SPDX-License-Identifier: MIT
 * A run's folder: its name, its lock, and what becomes of an earlier run's files in it. Nothing is ever deleted or
 * mixed: files that do not belong to the run that starts are moved into a subfolder "earlier-N", where neither --resume
 * nor a reader of metrics.jsonl takes them for this run's. */
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

/* -- An earlier run's files -- */

/* The step in "step-000100.safetensors" and "step-000100.state.safetensors"; -1 for other names. */
static int64_t step_of(const char *name) {
    char *end;
    if (strncmp(name, "step-", 5)) return -1;
    int64_t step = strtoll(name + 5, &end, 10);
    return !strcmp(end, ".safetensors") || !strcmp(end, ".state.safetensors") ? step : -1;
}

/* The best of a run goes with its other checkpoints when another run begins. */
static bool is_checkpoint_after(const char *name, int64_t step) {
    return step_of(name) > step || (step < 0 && !strcmp(name, "best.safetensors"));
}

static bool is_record(const char *name, int64_t step) {
    (void)step;
    return !strcmp(name, "metrics.jsonl") || !strcmp(name, "profile.json") || !strcmp(name, "memory.svg") ||
           !strcmp(name, "recipe.yaml") || !strncmp(name, "events.out.tfevents", 19);
}

static int count_files(const char *folder, bool (*wanted)(const char *, int64_t), int64_t step) {
    DIR *entries = opendir(folder);
    int count = 0;
    for (const struct dirent *e; entries && (e = readdir(entries));) count += wanted(e->d_name, step);
    if (entries) closedir(entries);
    return count;
}

/* Moves the files that are wanted from one folder to the other. A folder that is not there has none. */
static bool move_files(const char *from, const char *to, bool (*wanted)(const char *, int64_t), int64_t step) {
    DIR *entries = opendir(from);
    bool ok = true;
    for (const struct dirent *e; entries && ok && (e = readdir(entries));) {
        if (!wanted(e->d_name, step)) continue;
        char *old = format_text("%s/%s", from, e->d_name), *new = format_text("%s/%s", to, e->d_name);
        ok = old && new && !rename(old, new);
        free(old);
        free(new);
    }
    if (entries) closedir(entries);
    return ok;
}

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

/* Moves checkpoints past `step` aside, and, with `records`, what else an earlier run wrote. */
static int set_aside(const run_folder *f, int64_t step, bool records, bool quiet) {
    int checkpoints = count_files(f->checkpoints, is_checkpoint_after, step);
    if (!checkpoints && !(records && count_files(f->path, is_record, 0))) return EXIT_DONE;
    char *earlier = make_earlier(f->path), *to = earlier ? format_text("%s/checkpoints", earlier) : NULL;
    bool ok = to != NULL;
    if (checkpoints) ok = ok && !mkdir(to, 0777) && move_files(f->checkpoints, to, is_checkpoint_after, step);
    if (records) ok = ok && move_files(f->path, earlier, is_record, 0);
    if (!ok) complain("cannot move an earlier run's files aside in", f->path);
    else if (!quiet && records) printf("%s held an earlier run; its files are now in %s\n", f->path, earlier);
    else if (!quiet) printf("checkpoints past step %" PRId64 " are now in %s\n", step, to);
    free(earlier);
    free(to);
    return ok ? EXIT_DONE : EXIT_FAILED;
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

static int write_recipe(const run_folder *f, const recipe *r) {
    char *path = format_text("%s/recipe.yaml", f->path);
    FILE *file = path ? fopen(path, "w") : NULL;
    bool ok = file && recipe_print(r, file);
    if (file && fclose(file)) ok = false;
    if (!ok) complain("cannot write", path ? path : f->path);
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

int run_folder_open(run_folder *f, const recipe *r, const char *checkpoint, int64_t step, bool quiet) {
    if (!make_folders(f->path)) return complain("cannot make the run's folder", f->path);
    if (run_folder_lock(f)) return EXIT_FAILED;
    if (f->lock < 0) return complain("cannot open the run's folder", f->path);
    if (!make_folders(f->checkpoints)) return complain("cannot make the run's folder", f->checkpoints);
    bool own = checkpoint && is_own(f, checkpoint);
    if (set_aside(f, own ? step : -1, !own, quiet)) return EXIT_FAILED;
    return write_recipe(f, r);
}
