/* SPDX-License-Identifier: MIT
 * tcc-train: trains a model as a recipe says. This file is its command line. */
#include "recipe_rules.h"
#include "streams.h"
#include "train_options.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static train_signals signals;

/* A terminal that is closed and a reader of the output that ends are interrupts, too: nobody can tell the run to go on.
 */
static void on_interrupt(int signal_number) {
    static const char text[] = "tcc-train: interrupted before the first step\n";
    if (signals.saved || (!signals.saves && signal_number == SIGPIPE)) { /* as any program ends whose reader has */
        signal(signal_number, SIG_DFL);
        raise(signal_number);
        return;
    }
    if (!signals.saves) {
        if (!signals.silent) (void)!write(STDERR_FILENO, text, sizeof text - 1);
        _exit(EXIT_INTERRUPTED);
    }
    signals.interrupted = 1;
    signal(SIGINT, SIG_DFL); /* a second Ctrl-C ends at once */
}

static void answer_signals(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART}, before;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGPIPE, &action, NULL);
    if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN) /* nohup wants it ignored */
        sigaction(SIGHUP, &action, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file past the limit is an error of write, as a full disk is */
}

/* -- The recipe's file -- */

static char *read_file(const char *path, size_t *length) {
    enum { LARGEST = 1 << 20 };
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = malloc(LARGEST + 1);
    *length = text ? fread(text, 1, LARGEST + 1, f) : 0;
    if (!text || ferror(f) || *length > LARGEST) {
        if (text && *length > LARGEST) errno = EFBIG;
        free(text);
        text = NULL;
    }
    fclose(f);
    return text;
}

/* The recipe that a plan was made from, to be freed; complains itself. */
static char *read_plan_recipe(const char *path, size_t *length) {
    tcc_context *cx;
    char *text = NULL, *copy = NULL;
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_plan_about(cx, path, &text);
    if (status == TCC_OK) copy = strdup(text);
    else fprintf(stderr, "tcc-train: %s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    *length = copy ? strlen(copy) : 0;
    tcc_string_free(text);
    tcc_context_destroy(cx);
    return copy;
}

static int load_recipe(recipe *r, const char *path, const char *plan, char *const *overrides, int count) {
    char error[RECIPE_ERROR_MAX];
    size_t length;
    char *text = plan ? read_plan_recipe(plan, &length) : read_file(path, &length);
    if (!text) return plan ? EXIT_USAGE : usage_error("cannot read the recipe %s: %s", path, strerror(errno));
    bool ok = recipe_parse(r, text, length, plan ? plan : path, error);
    free(text);
    for (int i = 0; i < count && plan; i++)
        if (!recipe_fits_plan(overrides[i]))
            return usage_error(strchr(overrides[i], '=')
                                   ? "%s: the plan %s was compiled with another value; make a new "
                                     "plan with --save-plan"
                                   : "%s: the plan %s has its recipe; only key.path=value may "
                                     "follow",
                               overrides[i], plan);
    for (int i = 0; i < count && ok; i++) ok = recipe_override(r, overrides[i], error);
    ok = ok && recipe_check(r, error);
    if (!ok) fprintf(stderr, "tcc-train: %s\n", error);
    return ok ? EXIT_DONE : EXIT_USAGE;
}

static void tell_left_out(const recipe *r) {
    char *keys = recipe_left_out(r);
    if (keys) printf("left out, as they do not go with what the command line chooses: %s\n", keys);
    free(keys);
}

/* -- Devices -- */

static int print_devices(void) {
    tcc_context *cx;
    char *text = NULL;
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_describe_devices(cx, &text);
    if (status == TCC_OK) fputs(text, stdout);
    else fprintf(stderr, "tcc-train: %s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    tcc_string_free(text);
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_DONE : EXIT_FAILED;
}

static char *device_fault(const char *name, const char *error) {
    char *text = NULL;
    if (!strncmp(error, "error: ", 7)) error += 7;
    const bool of_variable = !strncmp(error, "TCC_", 4);
    const int length = of_variable ? asprintf(&text, "%s", error) : asprintf(&text, "--device %s: %s", name, error);
    return length < 0 ? NULL : text;
}

int train_find_device(const char *name, bool say, char **device, char **fault) {
    tcc_context *cx;
    char *text = NULL;
    *device = *fault = NULL;
    tcc_status status = tcc_context_create(&cx);
    if (status != TCC_OK) {
        *fault = strdup(cx ? tcc_context_error(cx) : tcc_status_text(status));
    } else {
        status = tcc_find_device(cx, name, device, &text);
        if (status != TCC_OK) *fault = device_fault(name, tcc_context_error(cx));
        else if (say) printf("device: %s\n", text);
        fflush(stdout);
    }
    tcc_string_free(text);
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_DONE : EXIT_USAGE;
}

void train_complain(const char *fault) { fprintf(stderr, "tcc-train: %s\n", fault ? fault : "out of memory"); }

/* What --emit and --arch ask for is possible; `device` is what --device came to. */
static int check_emit(const train_options *o) {
    static const char *const forms[] = {"tir", "llvm", "asm", "ptx"};
    bool known = !o->emit;
    for (int i = 0; i < 4 && !known; i++) known = !strcmp(o->emit, forms[i]);
    if (!known) return usage_error("--emit %s: must be tir, llvm, asm or ptx", o->emit);
    if (o->arch && !o->emit && !o->dry_run)
        return usage_error("--arch goes with --emit or --dry-run: nothing can run on a GPU that is only named");
    if (o->plan && (o->arch || o->dump_dir || o->verify || o->save_plan || (o->emit && strcmp(o->emit, "ptx"))))
        return usage_error(
            "--plan: its programs are made; --arch, --dump-ir, --emit, --verify and --save-plan go with a "
            "recipe");
    return EXIT_DONE;
}

/* That a run on ranks is asked for nothing that is one rank's. */
static int check_ranks(const train_options *o, const recipe *r) {
    const struct {
        bool given;
        const char *name;
    } alone[] = {{o->task != TASK_TRAIN && o->task != TASK_EVALUATE, "another command than training and eval"},
                 {o->verify, "--verify"},
                 {o->emit, "--emit"},
                 {o->arch && !o->dry_run, "--arch"},
                 {o->plan, "--plan"},
                 {o->save_plan, "--save-plan"},
                 {!r->data.batch_size, "data.batch_size=auto"}};
    char who[64] = "--ranks";
    if (o->launcher) snprintf(who, sizeof who, "a rank, as %s says,", o->launcher);
    if (o->network && !(o->dry_run && o->ranks))
        return usage_error("--network goes with --dry-run --ranks: ranks that run have the network that there is");
    if (o->ranks < 2) return EXIT_DONE;
    for (int i = 0; i < (int)(sizeof alone / sizeof *alone); i++)
        if (alone[i].given) return usage_error("%s does not go with %s", who, alone[i].name);
    return EXIT_DONE;
}

static int check_ptx(const train_options *o) {
    if (!o->emit || strcmp(o->emit, "ptx") || o->arch || strncmp(o->device, "cpu", 3)) return EXIT_DONE;
    return usage_error("--emit ptx: there is no GPU here to make it for; name one, as in --arch sm_90");
}

static int train(arguments *a) {
    train_options *o = &a->options;
    int status = check_emit(o);
    if (status != EXIT_DONE) return status;
    const bool shared = o->task == TASK_TRAIN || o->task == TASK_EVALUATE;
    if (shared && !o->dry_run && !o->emit) status = ranks_look(o);
    if (status != EXIT_DONE) return status;
    o->recipe_path = o->plan ? o->plan : a->operands[0];
    const int first = o->plan ? 0 : 1; /* override */
    recipe r;
    if (!recipe_init(&r)) return usage_error("out of memory");
    char *found = NULL, *fault = NULL;
    const bool apart = o->ranks > 1 && !o->dry_run; /* each rank looks for its device, in a process of its own */
    status = load_recipe(&r, o->recipe_path, o->plan, a->operands + first, a->n_operands - first);
    if (status == EXIT_DONE && !o->quiet && !o->emit) tell_left_out(&r);
    if (status == EXIT_DONE && !o->arch && o->task != TASK_DESCRIBE && !apart) {
        status = train_find_device(a->device, !o->quiet && !o->emit, &found, &fault);
        if (status != EXIT_DONE) train_complain(fault);
        free(fault);
    }
    o->device = apart ? a->device : found;
    if (status == EXIT_DONE && o->task != TASK_DESCRIBE) status = check_ptx(o);
    if (status == EXIT_DONE) status = check_ranks(o, &r);
    if (status == EXIT_DONE && o->require_graphs && !recipe_replays(&r))
        status = usage_error("--require-graphs goes with training.compile_mode=reduce-overhead or max-autotune");
    if (status == EXIT_DONE && (o->lock || o->locked) &&
        (!r.training.compile || strcmp(r.training.compile_mode, "max-autotune") != 0))
        status = usage_error("--lock and --locked go with training.compile_mode=max-autotune");
    answer_signals();
    if (status == EXIT_DONE) status = train_on_ranks(o, &r, &signals);
    tcc_string_free(found);
    recipe_free(&r);
    return status;
}

/* Takes at most `most` operands that follow the run out of the list: they are paths, up to the first "key=value". */
static void take_paths(arguments *a, int most) {
    int n = 0;
    while (n < most && n + 2 < a->n_operands && !strchr(a->operands[n + 2], '=')) n++;
    char *const run = a->operands[1];
    a->options.inputs = n ? a->operands + 1 : NULL;
    a->options.n_inputs = n;
    memmove(a->operands + 1, a->operands + 2, (size_t)n * sizeof *a->operands);
    a->operands[n + 1] = run;
    a->operands += n;
    a->n_operands -= n;
}

/* tcc-train eval|predict|generate|export CHECKPOINT|RUN_DIR [PATH ...] [key.path=value ...], paths with predict, and
 * one with export */
static int look_at_run(arguments *a, train_task task) {
    static char folder[4096], recipe_path[4200], weights[4200], export_to[4200];
    if (a->n_operands < 2) return usage_error("%s: no checkpoint or run folder given", a->operands[0]);
    const char *given = a->operands[1];
    a->options.task = task;
    if (task != TASK_EVALUATE) a->options.quiet = true; /* what is printed is for programs */
    if (task == TASK_PREDICT || task == TASK_EXPORT) take_paths(a, task == TASK_PREDICT ? INT_MAX : 1);
    int pipes = 0;
    for (int i = 0; i < a->options.n_inputs; i++) pipes += !strcmp(a->options.inputs[i], "-");
    if (pipes > 1) return usage_error("predict: standard input can be read once");
    if (task == TASK_EXPORT && a->options.n_inputs) {
        a->options.export_to = *a->options.inputs;
        a->options.inputs = NULL;
    }
    snprintf(folder, sizeof folder, "%s", given);
    if (ends_with(given, ".safetensors")) { /* RUN/checkpoints/NAME, or of an export */
        const int up = ends_with(given, TCC_RUN_WEIGHTS) ? 1 : 2;
        a->options.weights = given;
        for (int i = 0; i < up; i++) {
            char *slash = strrchr(folder, '/');
            if (slash) *slash = '\0';
            else snprintf(folder, sizeof folder, "%s", strcmp(folder, ".") ? "." : "..");
        }
    }
    snprintf(recipe_path, sizeof recipe_path, "%s/recipe.yaml", folder);
    snprintf(weights, sizeof weights, "%s/" TCC_RUN_WEIGHTS, folder);
    if (!a->options.weights && !access(weights, F_OK)) a->options.weights = weights; /* it was exported */
    snprintf(export_to, sizeof export_to, "%s/export", folder);
    if (task == TASK_EXPORT && !a->options.export_to) a->options.export_to = export_to;
    a->options.run_dir = folder;
    a->operands[1] = recipe_path;
    a->operands++;
    a->n_operands--;
    return train(a);
}

/* tcc-train data RECIPE.yaml [key.path=value ...] */
static int describe_data(arguments *a) {
    a->options.task = TASK_DESCRIBE;
    a->operands++;
    a->n_operands--;
    return a->n_operands ? train(a) : usage_error("data: no recipe given");
}

static int run(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--complete")) return complete_options(argv + 2, argc - 2);
    if (argc > 1 && !strcmp(argv[1], "tokenize")) {
        signals.saves = true;
        answer_signals();
        return train_tokenize(argv + 2, argc - 2, &signals.interrupted);
    }
    if (argc > 1 && !strcmp(argv[1], "report")) return train_report(argv + 2, argc - 2);
    arguments a;
    const int status = read_arguments(argc, argv, &a);
    if (status >= 0) return status;
    if (a.devices) return print_devices();
    if (streams_no_output() && !a.options.emit) a.options.quiet = true;
    if (a.n_operands && !strcmp(a.operands[0], "cache")) return train_cache(a.operands + 1, a.n_operands - 1);
    const train_task task = a.n_operands ? task_of(a.operands[0]) : TASK_TRAIN;
    if (task != TASK_TRAIN) return look_at_run(&a, task);
    if (a.n_operands && !strcmp(a.operands[0], "data")) return describe_data(&a);
    return a.n_operands || a.options.plan ? train(&a) : usage_error("no recipe given");
}

/* Under a limit of the address space each thread's own part of malloc's heap would take 64 MiB of it. */
static void spare_addresses(void) {
    struct rlimit limit;
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
}

int main(int argc, char **argv) {
    streams_open();
    spare_addresses();
    return streams_close("tcc-train", run(argc, argv));
}
