/* SPDX-License-Identifier: MIT
 * tcc-train tokenize: files of text to one file of tokens. */
#include "streams.h"
#include "text_file.h"
#include "train.h"

#include <traincc/nearest.h>
#include <traincc/tokenizer.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: tcc-train tokenize [options] -o OUTPUT INPUT...\n"
    "\n"
    "Writes the tokens of text files to one file, which data.kind tokens reads. Of a folder all files\n"
    "count, in the order of their names. Files may be gzipped; - is standard input.\n"
    "\n"
    "  -o, --output FILE    the file to write\n"
    "  --tokenizer KIND     characters (the default), bytes, gpt2 or wordpiece (BERT, uncased)\n"
    "  --vocab FILE         gpt2: vocab.json; wordpiece: vocab.txt; characters: a text that has them all\n"
    "                       (default: the inputs)\n"
    "  --merges FILE        gpt2: merges.txt\n"
    "  --end TOKEN          write this token after each file, as in --end '<|endoftext|>'\n"
    "  --token-bytes 2|4    bytes of a token (default: 2 if the vocabulary fits)\n"
    "  --quiet              print errors only\n"
    "  --help\n";

/* In the order of what they set. */
static const complete_option options[] = {{"--output", ":files"},
                                          {"-o", ":files"},
                                          {"--tokenizer", "characters|bytes|gpt2|wordpiece"},
                                          {"--vocab", ":files"},
                                          {"--merges", ":files"},
                                          {"--end", ""},
                                          {"--quiet", NULL},
                                          {"--token-bytes", "2|4"},
                                          {"--help", NULL},
                                          {"-h", NULL}};
enum { OPTION_COUNT = sizeof options / sizeof *options };

void train_tokenize_complete(const char *before, const char *current) {
    if (!complete_option_word(options, OPTION_COUNT, before, current)) complete_choices("", ":files", current);
}

typedef struct tokenize_arguments {
    const char *output, *kind, *vocab, *merges, *end, *token_bytes;
    bool quiet, help;
} tokenize_arguments;

static int usage_error(const char *what, const char *which) {
    fprintf(stderr, "tcc-train tokenize: %s%s\nTry 'tcc-train tokenize --help'.\n", what, which);
    return EXIT_USAGE;
}

/* Takes the options out of argv; the inputs stay, *count of them. Complains itself. */
static int parse(char **argv, int argc, tokenize_arguments *a, int *count) {
    const char **const values[OPTION_COUNT] = {&a->output, &a->output, &a->kind,        &a->vocab, &a->merges,
                                               &a->end,    NULL,       &a->token_bytes, NULL,      NULL};
    bool *const flags[OPTION_COUNT] = {[6] = &a->quiet, [8] = &a->help, [9] = &a->help};
    const char *names[OPTION_COUNT];
    for (int i = 0; i < OPTION_COUNT; i++) names[i] = options[i].name;
    *count = 0;
    for (int i = 0; i < argc; i++) {
        size_t length = strcspn(argv[i], "=");
        int found = 0;
        if (argv[i][0] != '-' || !argv[i][1]) {
            argv[(*count)++] = argv[i][0] == '-' ? "/dev/stdin" : argv[i];
            continue;
        }
        while (found < OPTION_COUNT && (strlen(names[found]) != length || memcmp(names[found], argv[i], length) != 0))
            found++;
        if (found == OPTION_COUNT) {
            const char *nearest = tcc_nearest(argv[i], names, OPTION_COUNT);
            fprintf(stderr, "tcc-train tokenize: unknown option %s%s%s\n", argv[i], nearest ? "; did you mean " : "",
                    nearest ? nearest : "");
            return EXIT_USAGE;
        }
        const char *value = argv[i][length] ? argv[i] + length + 1 : NULL;
        if (flags[found] && value) return usage_error(names[found], " takes no value");
        if (!flags[found] && !value && i + 1 == argc) return usage_error(names[found], " needs a value");
        if (flags[found]) *flags[found] = true;
        else *values[found] = value ? value : argv[++i];
    }
    return EXIT_DONE;
}

/* -- Progress -- */

enum { SECONDS_BETWEEN_LINES = 10 };

typedef struct progress {
    const volatile sig_atomic_t *interrupted;
    bool terminal;
    double next; /* seconds: when to tell again */
    double start;
} progress;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool tell(void *user, int64_t bytes, int64_t of_bytes, int64_t tokens) {
    progress *p = user;
    double now = seconds();
    if (now >= p->next && bytes < of_bytes) {
        char line[160];
        snprintf(line, sizeof line, "%.0f%%  %.1f MB of %.1f MB  %" PRId64 " tokens",
                 100.0 * (double)bytes / (double)of_bytes, (double)bytes / 1e6, (double)of_bytes / 1e6, tokens);
        if (p->terminal) streams_draw(line);
        else puts(line);
        fflush(stdout);
        p->next = now + (p->terminal ? 0.2 : SECONDS_BETWEEN_LINES);
    }
    return !*p->interrupted;
}

/* -- The work -- */

/* A vocabulary of characters that came from the inputs themselves: a text that --vocab reads. */
static tcc_status write_characters(tcc_context *cx, const tcc_tokenizer *t, const char *output) {
    char *path = NULL;
    text_file f;
    if (asprintf(&path, "%s.vocab", output) < 0 || !text_file_begin(&f)) return TCC_ENOMEM;
    for (int64_t id = 0; id < tcc_tokenizer_vocab_size(t); id++) {
        size_t length;
        const char *token = tcc_tokenizer_token(t, id, &length);
        fwrite(token, 1, length, f.out);
    }
    const tcc_status status = text_file_end(&f, cx, path);
    free(path);
    return status;
}

/* The tokenizer itself, beside the tokens, where data of kind tokens finds it. */
static tcc_status write_tokenizer(tcc_context *cx, const tcc_tokenizer *t, const char *output) {
    char *path = NULL, *text = NULL;
    tcc_status status = tcc_tokenizer_describe(cx, t, &text);
    if (status == TCC_OK && asprintf(&path, "%s" TCC_TOKENIZER_SUFFIX, output) < 0) status = TCC_ENOMEM;
    if (status == TCC_OK) status = tcc_file_write(cx, path, text, strlen(text));
    free(path);
    tcc_string_free(text);
    return status;
}

static tcc_status work(tcc_context *cx, const tokenize_arguments *a, char **inputs, int count, progress *p) {
    const char *const *texts = (const char *const *)inputs;
    bool own_characters = !strcmp(a->kind, "characters") && !a->vocab;
    tcc_tokenizer_options from = {.size = sizeof from, .kind = a->kind, .vocab = a->vocab, .merges = a->merges};
    for (int i = 0; i < count && own_characters; i++)
        if (!streams_keep_pipe(&inputs[i])) return TCC_EIO;
    if (own_characters) {
        from.texts = texts;
        from.n_texts = count;
    }
    tcc_tokenizer *t;
    tcc_status status = tcc_tokenizer_open(cx, &from, &t);
    if (status != TCC_OK) return status;
    tcc_tokenize_options o = {.size = sizeof o,
                              .inputs = texts,
                              .n_inputs = count,
                              .output = a->output,
                              .token_bytes = a->token_bytes ? atoi(a->token_bytes) : 0,
                              .end = a->end,
                              .progress = a->quiet ? NULL : tell,
                              .user = p};
    tcc_tokenize_result r;
    status = tcc_tokenize_files(cx, t, &o, &r);
    double took = seconds() - p->start;
    if (p->terminal && !a->quiet) streams_draw("");
    if (status == TCC_OK && !a->quiet)
        printf("%s: %" PRId64 " tokens of %d bytes from %" PRId64 " bytes in %" PRId64 " file%s, vocabulary %" PRId64
               ", %.1f s, %.1f MB/s\n",
               a->output, r.tokens, r.token_bytes, r.text_bytes, r.files, r.files == 1 ? "" : "s",
               tcc_tokenizer_vocab_size(t), took, (double)r.text_bytes / 1e6 / took);
    if (status == TCC_OK && own_characters) status = write_characters(cx, t, a->output);
    if (status == TCC_OK) status = write_tokenizer(cx, t, a->output);
    tcc_tokenizer_close(t);
    return status;
}

int train_tokenize(char **arguments, int count, const volatile sig_atomic_t *interrupted) {
    tokenize_arguments a = {.kind = "characters"};
    int status = parse(arguments, count, &a, &count);
    if (status != EXIT_DONE) return status;
    if (a.help) return fputs(usage, stdout) < 0 || fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
    if (!a.output) return usage_error("--output is missing", "");
    if (!count) return usage_error("no text file given", "");
    if (a.token_bytes && strcmp(a.token_bytes, "2") && strcmp(a.token_bytes, "4"))
        return usage_error("--token-bytes must be 2 or 4, not ", a.token_bytes);
    progress p = {.interrupted = interrupted, .terminal = isatty(STDOUT_FILENO), .start = seconds()};
    p.next = p.start + (p.terminal ? 0 : SECONDS_BETWEEN_LINES);
    tcc_context *cx;
    tcc_status result = tcc_context_create(&cx);
    if (result == TCC_OK) result = work(cx, &a, arguments, count, &p);
    const char *why = cx ? tcc_context_error(cx) : tcc_status_text(result);
    if (result != TCC_OK && *why) fprintf(stderr, "tcc-train: %s\n", why);
    tcc_context_destroy(cx);
    if (result == TCC_EINTERRUPTED) return EXIT_INTERRUPTED;
    return result == TCC_OK ? EXIT_DONE : result == TCC_EINVAL ? EXIT_USAGE : EXIT_FAILED;
}
