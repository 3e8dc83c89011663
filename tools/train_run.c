/* SPDX-License-Identifier: MIT
 * A training run: opens the data, builds the model, trains, evaluates, saves, and reports. */
#include "train_run.h"

#include <traincc/ir.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(run *s) {
    const char *text = *s->problem ? s->problem : s->cx ? tcc_context_error(s->cx) : "";
    if (!*text) text = "out of memory";
    run_tell_ranks(s, text);
    if (!run_is_first(s)) return EXIT_FAILED;
    run_end_line(s);
    fprintf(stderr, "tcc-train: %s\n", text);
    if (strstr(text, "tcc_loss_weight")) /* what a recipe says instead */
        fprintf(stderr, "training.loss_of=parts takes the mean of the parts' own losses instead\n");
    if (s->saver && saver_wait(s->saver) != TCC_OK && !*s->problem)
        fprintf(stderr, "tcc-train: %s\n", saver_error(s->saver));
    if (s->saver && saver_saved(s->saver) >= 0)
        fprintf(stderr, "the last checkpoint is of step %" PRId64 " in %s\n", saver_saved(s->saver),
                s->folder.checkpoints);
    return EXIT_FAILED;
}

/* -- Reports -- */

static int print_report(run *s, const char *what, FILE *out) {
    char *text;
    if (tcc_model_report(s->model, what, &text) != TCC_OK) return failed(s);
    fputs(text, out);
    tcc_string_free(text);
    return EXIT_DONE;
}

bool run_only_looks(const run *s) {
    const train_task task = s->options->task;
    return task == TASK_EVALUATE || task == TASK_PREDICT || task == TASK_GENERATE || task == TASK_EXPORT;
}

/* Where the samples are from that the run works on. */
static const char *data_path(const run *s) {
    return run_only_looks(s) && s->recipe->data.val_path ? s->recipe->data.val_path : s->recipe->data.path;
}

/* A schedule that comes to an end with the training falls to its least rate, unless it rises until then. */
static void warn_of_warmup(const run *s) {
    if (run_only_looks(s) || s->total_steps < 2 || s->schedule.warmup_steps < s->total_steps) return;
    printf("warning: the learning rate rises through all %" PRId64 " steps, for the schedule warms up in %" PRId64
           ": train for longer, or warm up in fewer steps\n",
           s->total_steps, s->schedule.warmup_steps);
}

static int print_compiled(run *s) {
    tcc_program_info info;
    if (tcc_model_info(s->model, &info) != TCC_OK) return failed(s);
    int64_t parameters = 0;
    tcc_array a;
    for (int i = 0; tcc_model_param(s->model, i, &a); i++) {
        int64_t numel = 1;
        for (int d = 0; d < a.rank; d++) numel *= a.dims[d];
        if (tcc_model_param_is_trained(s->model, i)) parameters += numel;
    }
    printf("%s on %s: %" PRId64 " parameters, ", s->recipe->model.name, data_path(s), parameters);
    if (run_only_looks(s)) printf("%" PRId64 " validation samples\n", s->info.samples[TCC_SPLIT_VALIDATION]);
    else printf("%" PRId64 " training samples, %" PRId64 " steps\n", s->info.samples[TCC_SPLIT_TRAIN], s->total_steps);
    warn_of_warmup(s);
    if (s->loader) run_print_padding(s);
    printf("compiled in %.2f s: %d steps of %d kernels, %.1f MFLOP a step, peak memory %.1f MiB\n",
           info.compile_seconds, info.steps, info.kernels, info.flop * 1e-6, (double)info.peak_bytes / (1 << 20));
    if (info.cache_trouble) printf("no cache: %s\n", info.cache_trouble);
    if (info.cached_programs)
        printf("%d of %d programs came from the cache: %.2f s saved\n", info.cached_programs, info.programs,
               info.saved_seconds);
    if (info.cached_kernels) printf("%d kernels of new programs came from the cache\n", info.cached_kernels);
    int status = s->options->dry_run || s->options->explain ? print_report(s, "remat", stdout) : EXIT_DONE;
    if (status == EXIT_DONE && (s->options->dry_run || s->options->explain) &&
        (s->recipe->optimizer.groups.count || s->recipe->freeze.count))
        status = print_report(s, "groups", stdout);
    if (status == EXIT_DONE && s->options->explain) status = print_report(s, "tune", stdout);
    if (status == EXIT_DONE && (s->options->dry_run || s->options->explain) && s->options->comm)
        status = print_report(s, "ranks", stdout);
    fflush(stdout);
    return status;
}

/* The memory plan of the training step as a picture, beside the run's other files; a plan's programs have none. */
static tcc_status write_memory_picture(run *s) {
    char *text = NULL, *picture = NULL, *path = NULL;
    tcc_ir *ir = NULL;
    if (s->options->plan) return TCC_OK;
    tcc_status status = tcc_model_report(s->model, "tir", &text);
    if (status == TCC_OK) status = tcc_ir_parse(s->cx, text, strlen(text), "step.tir", &ir);
    if (status == TCC_OK) status = tcc_ir_text(s->cx, ir, TCC_IR_MEMORY_SVG, &picture);
    if (status == TCC_OK && asprintf(&path, "%s/memory.svg", s->folder.path) < 0) status = TCC_ENOMEM;
    if (status == TCC_OK) status = tcc_file_write(s->cx, path, picture, strlen(picture));
    tcc_ir_free_text(picture);
    tcc_ir_destroy(ir);
    tcc_string_free(text);
    free(path);
    return status;
}

/* What tcc-train report shows of the training step. */
static tcc_status write_profile_files(run *s) {
    char *path = NULL;
    if (asprintf(&path, "%s/profile.json", s->folder.path) < 0) return TCC_ENOMEM;
    tcc_status status = tcc_model_write_profile(s->model, path);
    free(path);
    return status == TCC_OK ? write_memory_picture(s) : status;
}

/* What profiling saw of the training step. Reports are of the program that was compiled or ran last: so it is made the
 * last. */
static tcc_status print_profile(run *s) {
    const train_options *o = s->options;
    if (!o->explain && !o->profile) return TCC_OK;
    const tcc_batch *batch;
    char *text = NULL;
    tcc_status status = run_first_batch(s, &batch);
    if (status == TCC_OK) status = tcc_model_compile(s->model, true, batch->arrays, batch->n_arrays);
    if (status == TCC_OK && o->profile) status = tcc_model_write_profile(s->model, o->profile);
    if (status == TCC_OK) status = write_profile_files(s);
    if (status == TCC_OK && o->explain) status = tcc_model_report(s->model, "kernels", &text);
    if (text) fputs(text, stdout);
    tcc_string_free(text);
    return status;
}

static int finish(run *s) {
    const train_options *o = s->options;
    run_end_line(s);
    if (s->first_step == s->total_steps && !o->quiet)
        printf("nothing to do: all %" PRId64 " steps are done\n", s->total_steps);
    const bool sampled = s->sampled_step && s->sampled_step == tcc_model_step(s->model);
    if (!*s->interrupted && !o->quiet && !sampled && run_print_sample(s) != TCC_OK) return failed(s);
    if (tcc_model_step(s->model) > s->first_step && print_profile(s) != TCC_OK) return failed(s);
    if (*s->interrupted) {
        const int64_t step = tcc_model_step(s->model);
        const bool saved = saver_saved(s->saver) == step;
        fprintf(stderr, "tcc-train: interrupted at step %" PRId64 "; %s; go on with --resume\n", step,
                saved ? "saved" : "what is not finite is not saved");
        return EXIT_INTERRUPTED;
    }
    return EXIT_DONE;
}

/* A profile that cannot be written is refused before the training, not after it. */
static bool check_profile(const char *path) {
    struct stat info;
    if (!path || (!stat(path, &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)))
        return true; /* what is no file, as a pipe, is opened once */
    FILE *f = fopen(path, "ab");
    if (!f) fprintf(stderr, "tcc-train: --profile %s: cannot be written: %s\n", path, strerror(errno));
    if (f) fclose(f);
    return f != NULL;
}

static void settle_steps(run *s) {
    const recipe *r = s->recipe;
    const int64_t epoch = s->loader ? tcc_loader_batches(s->loader) : 1; /* it does not matter to what only looks */
    s->total_steps = r->training.max_steps ? r->training.max_steps : s->loader ? r->training.max_epochs * epoch : 1;
    s->schedule = train_schedule(r, s->total_steps, epoch, s->milestones);
}

/* What compiling takes is in no plan, so a batch that was chosen from plans may have to be smaller. */
static tcc_status create_model(run *s) {
    tcc_status status = run_create_model(s);
    while (status == TCC_ENOMEM && s->batch_limit && s->recipe->data.batch_size > 1) {
        status = run_shrink_batch(s);
        if (status == TCC_OK) status = run_open_loaders(s);
        if (status != TCC_OK) break;
        settle_steps(s);
        status = run_create_model(s);
    }
    return status;
}

/* Programs of a plan are all that there are, and of pixels there are no answers. */
static bool keeps_predictor(const run *s) {
    const train_options *o = s->options;
    return run_is_first(s) && o->task == TASK_TRAIN && !o->plan && !o->dry_run && !o->emit && !s->pixels;
}

/* All that needs no run folder: with --emit and --dry-run the rest does not happen. `c` is what to resume from, or
 * NULL. */
static int set_up(run *s, const tcc_checkpoint *c) {
    const recipe *r = s->recipe;
    if (!check_profile(s->options->profile)) return EXIT_FAILED;
    if (s->options->task == TASK_PREDICT && run_check_predictor(s) != TCC_OK) return failed(s);
    if (s->options->task == TASK_GENERATE && run_check_writer(s) != TCC_OK) return failed(s);
    if (run_only_looks(s) && run_open_weights(s) != TCC_OK) return failed(s);
    if (run_open_data(s) != TCC_OK || run_check_prompt(s) != TCC_OK) return failed(s);
    const bool says = s->options->task == TASK_TRAIN && !s->options->quiet && !s->options->emit;
    if ((says || s->options->task == TASK_DESCRIBE) && run_describe_data(s) != TCC_OK) return failed(s);
    if (s->options->task == TASK_DESCRIBE) return EXIT_DONE;
    if (c && run_check_data(s, c) != TCC_OK) return failed(s);
    if (run_compare_ranks(s) != TCC_OK) return failed(s);
    settle_steps(s);
    if (c && tcc_checkpoint_step(c) > s->total_steps) {
        fprintf(stderr, "tcc-train: %s: is past the end of this run of %" PRId64 " steps\n", tcc_checkpoint_path(c),
                s->total_steps);
        return EXIT_FAILED;
    }
    if (tcc_schedule_check(s->cx, &s->schedule) != TCC_OK) return failed(s);
    run_take_all_cpus(s, true);
    const tcc_status predicts = keeps_predictor(s) ? run_make_predictor(s) : TCC_OK;
    run_take_all_cpus(s, false);
    if (predicts != TCC_OK) return failed(s);
    if (create_model(s) != TCC_OK) {
        int status = failed(s);
        return s->model || !s->options->arch ? status : EXIT_USAGE; /* no such architecture */
    }
    if (run_begin_work(s) != TCC_OK) return failed(s);
    if (s->options->emit) return print_report(s, s->options->emit, stdout);
    if (!s->options->quiet && print_compiled(s)) return EXIT_FAILED;
    if (run_only_looks(s)) return run_load_weights(s) == TCC_OK ? EXIT_DONE : failed(s);
    if (r->init_from && !c && run_init_from(s, r->init_from) != TCC_OK) return failed(s);
    if (s->options->dry_run) return s->options->explain ? print_report(s, "kernels", stdout) : EXIT_DONE;
    return c && run_resume(s, c) != TCC_OK ? failed(s) : EXIT_DONE;
}

static int train(run *s, const tcc_checkpoint *c) {
    s->signals->saves = 1;
    if (run_folder_open(&s->folder, s->cx, s->recipe, c ? tcc_checkpoint_path(c) : NULL, s->first_step,
                        s->options->quiet))
        return EXIT_FAILED;
    const tcc_metrics_options metrics = {.size = sizeof metrics,
                                         .folder = s->folder.path,
                                         .first_step = s->first_step,
                                         .abandoned = s->folder.abandoned};
    if (tcc_metrics_open(s->cx, &metrics, &s->metrics) != TCC_OK || run_find_best(s) != TCC_OK) return failed(s);
    if (run_keep_description(s) != TCC_OK || run_keep_predictor(s) != TCC_OK) return failed(s);
    if (run_train(s) != TCC_OK || run_average_best(s) != TCC_OK) return failed(s);
    return finish(s);
}

static int follow(run *s) {
    if (run_follow(s) != TCC_OK) return failed(s);
    return *s->interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
}

static int run_all(run *s) {
    const train_options *o = s->options;
    const bool only_looks = o->emit || o->dry_run || o->task != TASK_TRAIN;
    tcc_checkpoint *c = NULL;
    const bool first = run_is_first(s);
    s->cx = o->cx;
    if ((!s->cx && tcc_context_create(&s->cx) != TCC_OK) || !run_folder_name(&s->folder, o)) return failed(s);
    if (run_begin_work(s) != TCC_OK) return failed(s);
    if (!first && run_wait_for_all(s) != TCC_OK) return failed(s); /* the first looks whether the run can be */
    s->saver = saver_create(s->folder.checkpoints, s->recipe->training.keep_last);
    if (!s->saver) return failed(s);
    if (!only_looks && first && run_folder_lock(&s->folder)) return EXIT_FAILED;
    if (o->resume && tcc_checkpoint_open(s->cx, o->resume_from ? o->resume_from : s->folder.checkpoints, &c) != TCC_OK)
        return failed(s);
    int status = c && !run_check_resume(s, c) ? EXIT_USAGE : EXIT_DONE;
    if (status == EXIT_DONE && first && run_wait_for_all(s) != TCC_OK) status = failed(s);
    if (status == EXIT_DONE) status = set_up(s, c);
    if (status == EXIT_DONE && run_wait_for_all(s) != TCC_OK) status = failed(s); /* all have read the checkpoint */
    if (status == EXIT_DONE && !only_looks) status = first ? train(s, c) : follow(s);
    if (status == EXIT_DONE && o->task == TASK_EVALUATE && run_evaluate_alone(s) != TCC_OK) status = failed(s);
    if (status == EXIT_DONE && o->task == TASK_FIND_LR && run_find_lr(s) != TCC_OK) status = failed(s);
    if (status == EXIT_DONE && o->task == TASK_PREDICT && run_predict(s) != TCC_OK) status = failed(s);
    if (status == EXIT_DONE && o->task == TASK_EXPORT && run_export(s) != TCC_OK) status = failed(s);
    if (status == EXIT_DONE && o->task == TASK_GENERATE && run_generate(s) != TCC_OK) status = failed(s);
    if (status == EXIT_DONE && o->task == TASK_GENERATE && *s->interrupted) status = EXIT_INTERRUPTED;
    tcc_checkpoint_close(c);
    return status;
}

int train_run(const train_options *options, recipe *recipe, train_signals *signals) {
    run s = {.options = options,
             .recipe = recipe,
             .signals = signals,
             .interrupted = &signals->interrupted,
             .saved_step = -1,
             .gathered_step = -1,
             .stopping = {.best = NAN, .step = -1},
             .folder = {.lock = -1},
             .terminal = isatty(STDOUT_FILENO)};
    s.language = run_is_language(recipe);
    s.pixels = run_is_pixels(recipe);
    s.regression = recipe->data.regression;
    int status = run_all(&s);
    if (!options->quiet && !options->emit) run_tell_skipped(&s);
    saver_destroy(s.saver);
    tcc_metrics_close(s.metrics);
    signals->saved = 1;
    tcc_model_destroy(s.model);
    tcc_model_destroy(s.predictor);
    run_forget_times(&s);
    tcc_loader_destroy(s.loader);
    tcc_loader_destroy(s.val_loader);
    tcc_dataset_close(s.data);
    tcc_checkpoint_close(s.checkpoint);
    tcc_safetensors_close(s.parameters);
    tcc_string_free(s.learned);
    if (!options->cx) tcc_context_destroy(s.cx);
    run_folder_close(&s.folder);
    return status;
}
