/* SPDX-License-Identifier: MIT
 * tcc-train: trains a model as a recipe says. This file is its command line. */
#include "recipe_rules.h"
#include "streams.h"
#include "train.h"

#include <traincc/nearest.h>

#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char usage[] =
    "usage: tcc-train [options] RECIPE.yaml [key.path=value ...]\n"
    "\n"
    "Trains a model as the recipe says. Overrides look like training.max_steps=500.\n"
    "'tcc-train eval CHECKPOINT|RUN_DIR' evaluates a checkpoint, the newest of a run, on its validation\n"
    "data, or on data.val_path=PATH. 'tcc-train predict CHECKPOINT|RUN_DIR [FILE|-]' prints the class of\n"
    "each line of a file, or of the validation data.\n"
    "'tcc-train report RUN_DIR [RUN_DIR ...] [-o FILE]' makes one HTML page of runs: curves, kernels, memory.\n"
    "'tcc-train tokenize --help' says how to make files of tokens from text.\n"
    "\n"
    "  --run-dir DIR        where checkpoints and metrics go (default: runs/NAME of the recipe)\n"
    "  --resume [CKPT]      go on from the newest checkpoint of the run, or from CKPT (.safetensors)\n"
    "  --device DEVICE      where to compute: cpu, cuda, cuda:N, or auto (the default): the first CUDA\n"
    "                       device that is usable, else the CPU\n"
    "  --dry-run            compile, report time and memory, stop\n"
    "  --verify             compare the first step with the reference interpreter before training\n"
    "  --lr-find[=STEPS]    try learning rates from 1e-7 to 10, in 100 steps unless STEPS says otherwise:\n"
    "                       print the one to begin with, and plot the losses into the run's folder\n"
    "  --explain            print a table of kernels after the run: layers, bytes, flops, time\n"
    "  --profile FILE       write a Chrome trace of the steps\n"
    "  --dump-ir DIR        write the graph around every pass, the kernels and the memory plan\n"
    "  --lock FILE          with training.compile_mode max-autotune: write every choice to FILE, as text\n"
    "  --locked FILE        the same: hold to such a file, and measure nothing\n"
    "  --emit tir|llvm|asm|ptx  print the compiled graph or its kernels to standard output and stop\n"
    "  --arch sm_NN         with --emit or --dry-run: compile for such a GPU, which need not be there\n"
    "  --save-plan FILE     write all compiled programs, from which --plan trains without compiling\n"
    "  --plan FILE          train from a plan; it has its recipe, of which data, steps and the learning\n"
    "                       rate may be overridden\n"
    "  --devices            say what hardware and libraries were found\n"
    "  --require-graphs     with training.compile_mode=reduce-overhead: fail where a launch of a step\n"
    "                       cannot be captured in a CUDA graph\n"
    "  --quiet              print errors only\n"
    "  --version, --help\n";

static train_signals signals;

/* A terminal that is closed and a reader of the output that ends are interrupts, too: nobody can tell the run to go on.
 */
static void on_interrupt(int signal_number) {
    static const char text[] = "tcc-train: interrupted before the first step\n";
    if (!signals.saves && signal_number == SIGPIPE) { /* as any program ends whose reader has */
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
        return;
    }
    if (!signals.saves) {
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
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

__attribute__((format(printf, 1, 2))) static int usage_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("tcc-train: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\nTry 'tcc-train --help'.\n", stderr);
    va_end(args);
    return EXIT_USAGE;
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

/* Where to compute: *device is freed with tcc_string_free. Says so if `say`. */
static int find_device(const char *name, bool say, char **device) {
    tcc_context *cx;
    char *text = NULL;
    *device = NULL;
    tcc_status status = tcc_context_create(&cx);
    if (status != TCC_OK) {
        fprintf(stderr, "tcc-train: %s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
        tcc_context_destroy(cx);
        return EXIT_USAGE;
    }
    status = tcc_find_device(cx, name, device, &text);
    if (status == TCC_OK && say) printf("device: %s\n", text);
    fflush(stdout);
    if (status != TCC_OK) {
        const char *why = tcc_context_error(cx);
        if (!strncmp(why, "error: ", 7)) why += 7;
        if (!strncmp(why, "TCC_", 4)) fprintf(stderr, "tcc-train: %s\n", why); /* a variable is to blame */
        else fprintf(stderr, "tcc-train: --device %s: %s\n", name, why);
    }
    tcc_string_free(text);
    tcc_context_destroy(cx);
    return status == TCC_OK ? EXIT_DONE : EXIT_USAGE;
}

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

static int check_ptx(const train_options *o) {
    if (!o->emit || strcmp(o->emit, "ptx") || o->arch || strncmp(o->device, "cpu", 3)) return EXIT_DONE;
    return usage_error("--emit ptx: there is no GPU here to make it for; name one, as in --arch sm_90");
}

/* -- Options -- */

typedef enum option_id {
    RUN_DIR,
    RESUME,
    DEVICE,
    DRY_RUN,
    VERIFY,
    LR_FIND,
    EXPLAIN,
    PROFILE,
    DUMP_IR,
    EMIT,
    LOCK,
    LOCKED,
    ARCH,
    SAVE_PLAN,
    PLAN,
    DEVICES,
    REQUIRE_GRAPHS,
    QUIET,
    VERSION,
    HELP
} option_id;

static const struct {
    complete_option option;
    option_id id;
} option_table[] = {
    {{"--run-dir", ":folders"}, RUN_DIR},
    {{"--resume", NULL}, RESUME},
    {{"--device", "auto|cpu|cuda|cuda:0"}, DEVICE},
    {{"--dry-run", NULL}, DRY_RUN},
    {{"--verify", NULL}, VERIFY},
    {{"--lr-find", NULL}, LR_FIND},
    {{"--explain", NULL}, EXPLAIN},
    {{"--profile", ":files"}, PROFILE},
    {{"--dump-ir", ":folders"}, DUMP_IR},
    {{"--emit", "tir|llvm|asm|ptx"}, EMIT},
    {{"--arch", "sm_75|sm_80|sm_86|sm_89|sm_90|sm_100|sm_120"}, ARCH},
    {{"--devices", NULL}, DEVICES},
    {{"--quiet", NULL}, QUIET},
    {{"--require-graphs", NULL}, REQUIRE_GRAPHS},
    {{"--lock", ":files"}, LOCK},
    {{"--locked", ":files"}, LOCKED},
    {{"--save-plan", ":files"}, SAVE_PLAN},
    {{"--plan", ":files"}, PLAN},
    {{"--version", NULL}, VERSION},
    {{"--help", NULL}, HELP},
    {{"-h", NULL}, HELP},
};
enum { OPTION_COUNT = sizeof option_table / sizeof option_table[0] };

static bool ends_with(const char *s, const char *suffix) {
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && !strcmp(s + n - m, suffix);
}

/* Index in the table of the option that `argument` spells, with its value after '=' if any; -1: none. */
static int find_option(const char *argument, const char **value) {
    size_t length = strcspn(argument, "=");
    *value = argument[length] ? argument + length + 1 : NULL;
    for (int i = 0; i < OPTION_COUNT; i++)
        if (strlen(option_table[i].option.name) == length && !memcmp(option_table[i].option.name, argument, length))
            return i;
    return -1;
}

static int unknown_option(const char *argument) {
    const char *names[OPTION_COUNT];
    for (int i = 0; i < OPTION_COUNT; i++) names[i] = option_table[i].option.name;
    const char *nearest = tcc_nearest(argument, names, OPTION_COUNT);
    return nearest ? usage_error("unknown option %s; did you mean %s?", argument, nearest)
                   : usage_error("unknown option %s", argument);
}

typedef struct arguments {
    train_options options;
    const char *device;
    bool devices;
    char **operands;
    int n_operands;
} arguments;

static int take_lr_steps(train_options *o, const char *value) {
    enum { LEAST = 10, MOST = 1000000 };
    char *end = NULL;
    o->task = TASK_FIND_LR;
    if (!value) return -1;
    o->lr_steps = strtoll(value, &end, 10);
    if (end == value || *end || o->lr_steps < LEAST || o->lr_steps > MOST)
        return usage_error("--lr-find=%s: must be a number of steps from %d to %d", value, LEAST, MOST);
    return -1;
}

/* `value` may be the next argument: *used is then one more. A status to end with; -1: none. */
static int take_option(arguments *a, option_id id, const char *value, const char *next, int *used) {
    train_options *o = &a->options;
    switch (id) {
    case RUN_DIR: o->run_dir = value; break;
    case RESUME:
        o->resume = true;
        if (!value && next && ends_with(next, ".safetensors")) {
            value = next;
            ++*used;
        }
        if (value) o->resume_from = value;
        break;
    case DEVICE: a->device = value; break;
    case DRY_RUN: o->dry_run = true; break;
    case VERIFY: o->verify = true; break;
    case LR_FIND: return take_lr_steps(o, value);
    case EXPLAIN: o->explain = true; break;
    case PROFILE: o->profile = value; break;
    case DUMP_IR: o->dump_dir = value; break;
    case EMIT: o->emit = value; break;
    case LOCK: o->lock = value; break;
    case LOCKED: o->locked = value; break;
    case ARCH: o->arch = value; break;
    case SAVE_PLAN: o->save_plan = value; break;
    case PLAN: o->plan = value; break;
    case DEVICES: a->devices = true; break;
    case REQUIRE_GRAPHS: o->require_graphs = true; break;
    case QUIET: o->quiet = true; break;
    case VERSION: puts("tcc-train " TCC_VERSION); return EXIT_DONE;
    case HELP: fputs(usage, stdout); return EXIT_DONE;
    }
    return -1;
}

/* Operands are moved to the front of argv. A status to end with; -1: none. */
static int read_arguments(int argc, char **argv, arguments *a) {
    bool all_operands = false; /* what follows "--" */
    *a = (arguments){.device = "auto", .operands = argv};
    for (int i = 1; i < argc; i++) {
        if (!all_operands && !strcmp(argv[i], "--")) {
            all_operands = true;
            continue;
        }
        if (all_operands || argv[i][0] != '-' || !argv[i][1]) {
            argv[a->n_operands++] = argv[i];
            continue;
        }
        const char *value;
        const int found = find_option(argv[i], &value);
        if (found < 0) return unknown_option(argv[i]);
        if (value && !option_table[found].option.value && option_table[found].id != RESUME &&
            option_table[found].id != LR_FIND)
            return usage_error("%s takes no value", option_table[found].option.name);
        if (option_table[found].option.value && !value) {
            if (i + 1 == argc) return usage_error("%s needs a value", argv[i]);
            value = argv[++i];
        }
        const int status = take_option(a, option_table[found].id, value, i + 1 < argc ? argv[i + 1] : NULL, &i);
        if (status >= 0) return status;
    }
    return -1;
}

static int train(arguments *a) {
    train_options *o = &a->options;
    int status = check_emit(o);
    if (status != EXIT_DONE) return status;
    o->recipe_path = o->plan ? o->plan : a->operands[0];
    const int first = o->plan ? 0 : 1; /* override */
    recipe r;
    if (!recipe_init(&r)) return usage_error("out of memory");
    char *found = NULL;
    status = load_recipe(&r, o->recipe_path, o->plan, a->operands + first, a->n_operands - first);
    if (status == EXIT_DONE && !o->quiet && !o->emit) tell_left_out(&r);
    if (status == EXIT_DONE && !o->arch) status = find_device(a->device, !o->quiet && !o->emit, &found);
    o->device = found;
    if (status == EXIT_DONE) status = check_ptx(o);
    if (status == EXIT_DONE && o->require_graphs && !recipe_replays(&r))
        status = usage_error("--require-graphs goes with training.compile_mode=reduce-overhead or max-autotune");
    if (status == EXIT_DONE && (o->lock || o->locked) &&
        (!r.training.compile || strcmp(r.training.compile_mode, "max-autotune") != 0))
        status = usage_error("--lock and --locked go with training.compile_mode=max-autotune");
    answer_signals();
    if (status == EXIT_DONE) status = train_run(o, &r, &signals);
    tcc_string_free(found);
    recipe_free(&r);
    return status;
}

/* tcc-train eval|predict CHECKPOINT|RUN_DIR [FILE|-] [key.path=value ...], FILE with predict */
static int look_at_run(arguments *a, train_task task) {
    static char folder[4096], recipe_path[4200];
    if (a->n_operands < 2) return usage_error("%s: no checkpoint or run folder given", a->operands[0]);
    const char *given = a->operands[1];
    a->options.task = task;
    if (task == TASK_PREDICT) a->options.quiet = true; /* what is printed is for programs */
    if (task == TASK_PREDICT && a->n_operands > 2 && !strchr(a->operands[2], '=')) {
        a->options.inputs = a->operands[2];
        a->operands[2] = a->operands[1];
        a->operands++;
        a->n_operands--;
    }
    snprintf(folder, sizeof folder, "%s", given);
    if (ends_with(given, ".safetensors")) { /* RUN/checkpoints/NAME */
        a->options.weights = given;
        for (int i = 0; i < 2; i++) {
            char *slash = strrchr(folder, '/');
            if (slash) *slash = '\0';
            else snprintf(folder, sizeof folder, "%s", strcmp(folder, ".") ? "." : "..");
        }
    }
    snprintf(recipe_path, sizeof recipe_path, "%s/recipe.yaml", folder);
    a->options.run_dir = folder;
    a->operands[1] = recipe_path;
    a->operands++;
    a->n_operands--;
    return train(a);
}

static int complete(char *const *words, int count) {
    complete_option options[OPTION_COUNT];
    for (int i = 0; i < OPTION_COUNT; i++) options[i] = option_table[i].option;
    return train_complete(options, OPTION_COUNT, words, count);
}

static int run(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--complete")) return complete(argv + 2, argc - 2);
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
    if (a.n_operands && !strcmp(a.operands[0], "eval")) return look_at_run(&a, TASK_EVALUATE);
    if (a.n_operands && !strcmp(a.operands[0], "predict")) return look_at_run(&a, TASK_PREDICT);
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
