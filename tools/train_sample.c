/* SPDX-License-Identifier: MIT
 * Text that a language model writes: samples during training, and tcc-train generate. */
#include "train_run.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct output {
    FILE *out, *copy;
    const char *prompt; /* to be written in front of the first piece; NULL: it was */
    const volatile sig_atomic_t *interrupted;
} output;

static bool put(void *user, const char *text, size_t length) {
    output *o = user;
    const char *prompt = o->prompt;
    o->prompt = NULL;
    if (prompt) put(user, prompt, strlen(prompt));
    fwrite(text, 1, length, o->out);
    if (o->copy) fwrite(text, 1, length, o->copy);
    fflush(o->out);
    return !*o->interrupted && !ferror(o->out);
}

tcc_generate_options train_sample_options(const recipe *r) {
    return (tcc_generate_options){.size = sizeof(tcc_generate_options),
                                  .prompt = r->sample.prompt,
                                  .length = r->sample.length,
                                  .temperature = r->sample.temperature,
                                  .seed = (uint64_t)r->training.seed};
}

/* What a text without a prompt begins behind: a line break if the vocabulary has it, else its first token. */
static tcc_status find_start(tcc_context *cx, const tcc_dataset *data, const char **text, size_t *length) {
    int32_t token;
    int64_t count;
    *text = "\n";
    *length = 1;
    const tcc_status status = tcc_dataset_encode(cx, data, *text, 1, &token, 1, &count);
    if (status == TCC_OK && count == 1) return TCC_OK;
    *text = tcc_dataset_label(data, 0, length);
    if (*text) tcc_context_clear_error(cx);
    return *text ? TCC_OK : status;
}

tcc_status train_sample(tcc_context *cx, tcc_model *model, const tcc_dataset *data, const tcc_generate_options *how,
                        const volatile sig_atomic_t *interrupted, FILE *out, FILE *copy, int64_t *count) {
    output o = {.out = out, .copy = copy, .prompt = how->prompt, .interrupted = interrupted};
    tcc_generate_options options = *how;
    tcc_status status = TCC_OK;
    if (!options.prompt) status = find_start(cx, data, &options.prompt, &options.prompt_length);
    if (status == TCC_OK) status = tcc_generate(cx, model, data, &options, put, &o, count);
    if (status == TCC_OK) put(&o, "", 0); /* the prompt, where nothing follows it */
    if (!o.prompt) fputc('\n', out);
    return status;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

tcc_status run_check_writer(run *s) {
    if (s->language) return TCC_OK;
    snprintf(s->problem, sizeof s->problem,
             "generate: %s is no language model and writes no text; tcc-train predict gives its answers",
             s->recipe->model.name);
    return TCC_EINVAL;
}

tcc_status run_generate(run *s) {
    const train_options *o = s->options;
    tcc_generate_options how = train_sample_options(s->recipe);
    int64_t count;
    if (o->generate.prompt) how.prompt = o->generate.prompt;
    if (!isnan(o->generate.length)) how.length = (int64_t)o->generate.length;
    if (!isnan(o->generate.temperature)) how.temperature = o->generate.temperature;
    if (!isnan(o->generate.seed)) how.seed = (uint64_t)o->generate.seed;
    how.top_k = (int64_t)o->generate.top_k;
    how.top_p = o->generate.top_p;
    how.stop = o->generate.stop;
    s->signals->saves = 1; /* an interrupt ends the text, not the program */
    const double began = seconds();
    const tcc_status status = train_sample(s->cx, s->model, s->data, &how, s->interrupted, stdout, NULL, &count);
    const double took = seconds() - began;
    if (status == TCC_OK && isatty(STDERR_FILENO))
        fprintf(stderr, "%lld tokens in %.2f s, %.1f a second\n", (long long)count, took, (double)count / took);
    return status;
}
