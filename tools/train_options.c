/* SPDX-License-Identifier: MIT
 * tcc-train's command line: its options, and which of them go with what. */
#include "train_options.h"

#include <traincc/nearest.h>

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: tcc-train [options] RECIPE.yaml [key.path=value ...]\n"
    "\n"
    "Trains a model as the recipe says. Overrides look like training.max_steps=500.\n"
    "'tcc-train eval CHECKPOINT|RUN_DIR' evaluates a checkpoint, the newest of a run, on its validation\n"
    "data, or on data.val_path=PATH. 'tcc-train predict CHECKPOINT|RUN_DIR [FILE|FOLDER|- ...]' prints the\n"
    "class of each row or text of files, or picture of folders, or of the validation data.\n"
    "'tcc-train export CHECKPOINT|RUN_DIR [DIR]' writes weights, labels, programs and a model card to a\n"
    "folder, RUN_DIR/export by default, from which all of these commands and C programs work.\n"
    "'tcc-train generate CHECKPOINT|RUN_DIR --prompt TEXT' has a language model write on.\n"
    "'tcc-train data RECIPE.yaml [key.path=value ...]' says what is read, and trains nothing.\n"
    "'tcc-train report RUN_DIR [RUN_DIR ...] [-o FILE]' makes one HTML page of runs: curves, kernels, memory.\n"
    "'tcc-train tokenize --help' says how to make files of tokens from text.\n"
    "\n"
    "  --run-dir DIR        where checkpoints and metrics go (default: runs/NAME of the recipe)\n"
    "  --resume [CKPT]      go on from the newest checkpoint of the run, or from CKPT (.safetensors)\n"
    "  --device DEVICE      where to compute: cpu, cuda, cuda:N, or auto (the default): the first CUDA\n"
    "                       device that is usable, else the CPU\n"
    "  --ranks N            train on N processes, each with a part of the CPUs and of every batch: N times\n"
    "                       data.batch_size samples a step, with the bits of training.batch_accumulate N\n"
    "                       (torchrun's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT do it, too)\n"
    "  --comm-timeout S     the longest that a rank waits for the others, in seconds (60)\n"
    "  --dry-run            compile, report time and memory, stop; with --ranks for one of N ranks that need\n"
    "                       not be there, with the predicted step on 1 to 1024 ranks\n"
    "  --network NETWORK    with --dry-run --ranks: what is between them: local (the default), nvlink, ib,\n"
    "                       ethernet, or LATENCY,BANDWIDTH in microseconds and GB/s\n"
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
    "  --format FORMAT      predict: text (the default), csv, or json, an object a line\n"
    "  --top K              predict: the K likeliest classes\n"
    "  --probabilities      predict: those of all classes\n"
    "  --id COLUMN          predict: tell rows of a table by this column of it\n"
    "  --prompt TEXT        generate: the text to go on from; by default sample.prompt of the recipe\n"
    "  --length N           generate: the most tokens to write (default: sample.length)\n"
    "  --temperature X      generate: 0 takes the likeliest token (default: sample.temperature)\n"
    "  --top-k N, --top-p X generate: draw from the N likeliest tokens; from the likeliest that have\n"
    "                       probability X together\n"
    "  --seed N             generate: of the draws (default: training.seed)\n"
    "  --stop TEXT          generate: end before this text\n"
    "  --quiet              print errors only\n"
    "  --version, --help\n";

int usage_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("tcc-train: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\nTry 'tcc-train --help'.\n", stderr);
    va_end(args);
    return EXIT_USAGE;
}

static const struct {
    const char *name;
    train_task task;
} commands[] = {
    {"eval", TASK_EVALUATE}, {"predict", TASK_PREDICT}, {"generate", TASK_GENERATE}, {"export", TASK_EXPORT}};

typedef enum option_id {
    RUN_DIR,
    RESUME,
    DEVICE,
    RANKS,
    COMM_TIMEOUT,
    NETWORK,
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
    FORMAT,
    TOP,
    PROBABILITIES,
    ID,
    PROMPT,
    LENGTH,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    SEED,
    STOP,
    VERSION,
    HELP
} option_id;

/* `tasks`: a bit for each that it goes with; 0: any. */
static const struct {
    complete_option option;
    option_id id;
    unsigned tasks;
} option_table[] = {
    {{"--run-dir", ":folders"}, RUN_DIR, 0},
    {{"--resume", NULL}, RESUME, 0},
    {{"--device", "auto|cpu|cuda|cuda:0"}, DEVICE, 0},
    {{"--ranks", ""}, RANKS, 0},
    {{"--comm-timeout", ""}, COMM_TIMEOUT, 0},
    {{"--network", "local|nvlink|ib|ethernet"}, NETWORK, 0},
    {{"--dry-run", NULL}, DRY_RUN, 0},
    {{"--verify", NULL}, VERIFY, 0},
    {{"--lr-find", NULL}, LR_FIND, 0},
    {{"--explain", NULL}, EXPLAIN, 0},
    {{"--profile", ":files"}, PROFILE, 0},
    {{"--dump-ir", ":folders"}, DUMP_IR, 0},
    {{"--emit", "tir|llvm|asm|ptx"}, EMIT, 0},
    {{"--arch", "sm_75|sm_80|sm_86|sm_89|sm_90|sm_100|sm_120"}, ARCH, 0},
    {{"--devices", NULL}, DEVICES, 0},
    {{"--quiet", NULL}, QUIET, 0},
    {{"--require-graphs", NULL}, REQUIRE_GRAPHS, 0},
    {{"--lock", ":files"}, LOCK, 0},
    {{"--locked", ":files"}, LOCKED, 0},
    {{"--save-plan", ":files"}, SAVE_PLAN, 0},
    {{"--plan", ":files"}, PLAN, 0},
    {{"--format", "text|csv|json"}, FORMAT, 1u << TASK_PREDICT},
    {{"--top", ""}, TOP, 1u << TASK_PREDICT},
    {{"--probabilities", NULL}, PROBABILITIES, 1u << TASK_PREDICT},
    {{"--id", ""}, ID, 1u << TASK_PREDICT},
    {{"--prompt", ""}, PROMPT, 1u << TASK_GENERATE},
    {{"--length", ""}, LENGTH, 1u << TASK_GENERATE},
    {{"--temperature", ""}, TEMPERATURE, 1u << TASK_GENERATE},
    {{"--top-k", ""}, TOP_K, 1u << TASK_GENERATE},
    {{"--top-p", ""}, TOP_P, 1u << TASK_GENERATE},
    {{"--seed", ""}, SEED, 1u << TASK_GENERATE},
    {{"--stop", ""}, STOP, 1u << TASK_GENERATE},
    {{"--version", NULL}, VERSION, 0},
    {{"--help", NULL}, HELP, 0},
    {{"-h", NULL}, HELP, 0},
};
enum { OPTION_COUNT = sizeof option_table / sizeof option_table[0] };

bool ends_with(const char *s, const char *suffix) {
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

/* -1, or the status of a usage error: a number from `least` to `most`, whole where that is asked for. */
static int take_number(const char *name, const char *text, bool whole, double least, double most, double *out) {
    char *end;
    *out = whole ? (double)strtoll(text, &end, 10) : strtod(text, &end);
    if (end == text || *end || !(*out >= least && *out <= most))
        return usage_error("%s %s: must be a %snumber from %.15g to %.15g", name, text, whole ? "whole " : "", least,
                           most);
    return -1;
}

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

static int take_ranks(train_options *o, const char *value) {
    double ranks = 0;
    const int status = take_number("--ranks", value, true, 1, TCC_COMM_MOST_RANKS, &ranks);
    o->ranks = (int)ranks;
    return status;
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
    case RANKS: return take_ranks(o, value);
    case COMM_TIMEOUT: return take_number("--comm-timeout", value, false, 0.001, 1e6, &o->comm_timeout);
    case NETWORK: o->network = value; break;
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
    case FORMAT:
        o->predict.format = value;
        if (!strcmp(value, "text") || !strcmp(value, "csv") || !strcmp(value, "json")) break;
        return usage_error("--format %s: must be text, csv or json", value);
    case TOP: return take_number("--top", value, true, 1, 1 << 20, &o->predict.top);
    case PROBABILITIES: o->predict.probabilities = true; break;
    case ID: o->predict.id = value; break;
    case PROMPT: o->generate.prompt = value; break;
    case LENGTH: return take_number("--length", value, true, 1, 1 << 30, &o->generate.length);
    case TEMPERATURE: return take_number("--temperature", value, false, 0, 100, &o->generate.temperature);
    case TOP_K: return take_number("--top-k", value, true, 1, 1 << 30, &o->generate.top_k);
    case TOP_P: return take_number("--top-p", value, false, 1e-9, 1, &o->generate.top_p);
    case SEED: return take_number("--seed", value, true, 0, 0x1p53, &o->generate.seed);
    case STOP: o->generate.stop = value; break;
    case VERSION: puts("tcc-train " TCC_VERSION); return EXIT_DONE;
    case HELP: fputs(usage, stdout); return EXIT_DONE;
    }
    return -1;
}

train_task task_of(const char *operand) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(commands[i].name, operand)) return commands[i].task;
    return TASK_TRAIN;
}

/* That each option goes with the command. */
static int check_tasks(const arguments *a) {
    const train_task task = a->n_operands ? task_of(a->operands[0]) : TASK_TRAIN;
    for (int i = 0; i < OPTION_COUNT; i++) {
        const unsigned tasks = option_table[i].tasks;
        if (!tasks || !(a->given >> i & 1) || (tasks >> task & 1)) continue;
        for (size_t k = 0; k < sizeof commands / sizeof *commands; k++)
            if (tasks >> commands[k].task & 1)
                return usage_error("%s goes with tcc-train %s", option_table[i].option.name, commands[k].name);
    }
    return -1;
}

int read_arguments(int argc, char **argv, arguments *a) {
    bool all_operands = false; /* what follows "--" */
    *a = (arguments){.device = "auto",
                     .operands = argv,
                     .options.comm_timeout = 60,
                     .options.generate = {.length = NAN, .temperature = NAN, .top_p = 1, .seed = NAN}};
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
        a->given |= 1ull << found;
        const int status = take_option(a, option_table[found].id, value, i + 1 < argc ? argv[i + 1] : NULL, &i);
        if (status >= 0) return status;
    }
    return check_tasks(a);
}

int complete_options(char *const *words, int count) {
    complete_option options[OPTION_COUNT];
    const train_task task = count > 1 ? task_of(words[0]) : TASK_TRAIN;
    int n = 0;
    for (int i = 0; i < OPTION_COUNT; i++)
        if (!option_table[i].tasks || (option_table[i].tasks >> task & 1)) options[n++] = option_table[i].option;
    return train_complete(options, n, task, words, count);
}
