/* SPDX-License-Identifier: MIT
 * tcc-train: trains a model as a recipe says. This file is its command line. */
#include "train.h"

#include <traincc/nearest.h>

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: tcc-train [options] RECIPE.yaml [key.path=value ...]\n"
    "\n"
    "Trains a model as the recipe says. Overrides look like training.max_steps=500.\n"
    "\n"
    "  --run-dir DIR        where checkpoints and metrics go (default: runs/NAME of the recipe)\n"
    "  --resume [CKPT]      go on from the newest checkpoint of the run, or from CKPT (.safetensors)\n"
    "  --device cpu|auto    where to compute\n"
    "  --dry-run            compile, report time and memory, stop\n"
    "  --verify             compare the first step with the reference interpreter before training\n"
    "  --explain            print a table of kernels after the run: source lines, bytes, flops, time\n"
    "  --profile FILE       write a Chrome trace of the steps\n"
    "  --dump-ir DIR        write the graph around every pass, the kernels and the memory plan\n"
    "  --emit tir|llvm|asm  print the compiled graph or its kernels to standard output and stop\n"
    "  --devices            say what hardware and libraries were found\n"
    "  --quiet              print errors only\n"
    "  --version, --help\n";

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
    signal(SIGINT, SIG_DFL); /* a second Ctrl-C ends at once */
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

static int load_recipe(recipe *r, const char *path, char *const *overrides, int count) {
    char error[RECIPE_ERROR_MAX];
    size_t length;
    char *text = read_file(path, &length);
    if (!text) return usage_error("cannot read the recipe %s: %s", path, strerror(errno));
    bool ok = recipe_parse(r, text, length, path, error);
    free(text);
    for (int i = 0; i < count && ok; i++) ok = recipe_override(r, overrides[i], error);
    ok = ok && recipe_check(r, error);
    if (!ok) fprintf(stderr, "tcc-train: %s\n", error);
    return ok ? EXIT_DONE : EXIT_USAGE;
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

/* EXIT_DONE when this program can compute there. */
static int check_device(const char *device, bool quiet) {
    if (!strcmp(device, "cpu")) return EXIT_DONE;
    if (!strcmp(device, "auto")) {
        if (!quiet) printf("device: cpu (this version has no CUDA device)\n");
        return EXIT_DONE;
    }
    if (!strncmp(device, "cuda", 4))
        fprintf(stderr, "tcc-train: --device %s: this version computes on the CPU; use --device cpu\n", device);
    else fprintf(stderr, "tcc-train: --device %s: must be cpu or auto\n", device);
    return EXIT_USAGE;
}

/* -- Options -- */

typedef enum option_id { RUN_DIR, RESUME, DEVICE, DRY_RUN, VERIFY, EXPLAIN, PROFILE, DUMP_IR, EMIT, ARCH, DEVICES, QUIET, VERSION, HELP } option_id;

static const struct {
    const char *text;
    option_id id;
    bool has_value;
} option_table[] = {
    {"--run-dir", RUN_DIR, true},  {"--resume", RESUME, false},   {"--device", DEVICE, true},   {"--dry-run", DRY_RUN, false},
    {"--verify", VERIFY, false},   {"--explain", EXPLAIN, false}, {"--profile", PROFILE, true}, {"--dump-ir", DUMP_IR, true},
    {"--emit", EMIT, true},        {"--arch", ARCH, true},        {"--devices", DEVICES, false}, {"--quiet", QUIET, false},
    {"--version", VERSION, false}, {"--help", HELP, false},       {"-h", HELP, false},
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
        if (strlen(option_table[i].text) == length && !memcmp(option_table[i].text, argument, length)) return i;
    return -1;
}

static int unknown_option(const char *argument) {
    const char *names[OPTION_COUNT];
    for (int i = 0; i < OPTION_COUNT; i++) names[i] = option_table[i].text;
    const char *nearest = tcc_nearest(argument, names, OPTION_COUNT);
    return nearest ? usage_error("unknown option %s; did you mean %s?", argument, nearest) : usage_error("unknown option %s", argument);
}

int main(int argc, char **argv) {
    train_options options = {0};
    const char *device = "auto";
    bool devices = false, device_given = false;
    int positional = 0;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            argv[positional++] = argv[i];
            continue;
        }
        const char *value;
        int found = find_option(argv[i], &value);
        if (found < 0) return unknown_option(argv[i]);
        if (value && !option_table[found].has_value && option_table[found].id != RESUME)
            return usage_error("%s takes no value", option_table[found].text);
        if (option_table[found].has_value && !value) {
            if (i + 1 == argc) return usage_error("%s needs a value", argv[i]);
            value = argv[++i];
        }
        switch (option_table[found].id) {
        case RUN_DIR: options.run_dir = value; break;
        case RESUME:
            options.resume = true;
            if (value) options.resume_from = value;
            else if (i + 1 < argc && ends_with(argv[i + 1], ".safetensors")) options.resume_from = argv[++i];
            break;
        case DEVICE: device = value, device_given = true; break;
        case DRY_RUN: options.dry_run = true; break;
        case VERIFY: options.verify = true; break;
        case EXPLAIN: options.explain = true; break;
        case PROFILE: options.profile = value; break;
        case DUMP_IR: options.dump_dir = value; break;
        case EMIT: options.emit = value; break;
        case ARCH: return usage_error("--arch goes with --emit ptx, which comes with the CUDA device");
        case DEVICES: devices = true; break;
        case QUIET: options.quiet = true; break;
        case VERSION: puts("tcc-train " TCC_VERSION); return EXIT_DONE;
        case HELP: fputs(usage, stdout); return EXIT_DONE;
        }
    }
    if (devices) return print_devices();
    if (positional && !strcmp(argv[0], "cache")) return usage_error("the cache comes in a later version");
    if (!positional) return usage_error("no recipe given");
    if (options.emit && strcmp(options.emit, "tir") && strcmp(options.emit, "llvm") && strcmp(options.emit, "asm"))
        return usage_error("--emit %s: must be tir, llvm or asm%s", options.emit,
                           strcmp(options.emit, "ptx") ? "" : "; ptx comes with the CUDA device");
    int status = check_device(device, options.quiet || options.emit || !device_given);
    if (status != EXIT_DONE) return status;
    options.recipe_path = argv[0];

    recipe r;
    if (!recipe_init(&r)) return usage_error("out of memory");
    status = load_recipe(&r, options.recipe_path, argv + 1, positional - 1);
    if (status == EXIT_DONE) {
        struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        signal(SIGXFSZ, SIG_IGN); /* a file past the limit is an error of write, as a full disk is */
        status = train_run(&options, &r, &interrupted);
    }
    recipe_free(&r);
    return status;
}
