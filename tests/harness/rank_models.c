/* SPDX-License-Identifier: MIT
 * Whole networks on several ranks, against micro-batches. */
#include "harness/rank_models.h"

#include "harness/rank_threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, ROWS_EACH = 2, CLASSES = 5, TOKENS = 16, VOCAB = 40, IMAGE = 32, MOST_BYTES = 1 << 27 };

/* -- Networks -- */

static void gpt(tcc_trace *t, void *user) {
    const tcc_gpt_options o = {.layers = 2, .heads = 2, .width = 16, .context = TOKENS, .vocab = VOCAB, .bias = true};
    (void)user;
    tcc_loss(t, tcc_cross_entropy(tcc_gpt(t, tcc_input(t, "x"), &o), tcc_input(t, "y"), .has_ignore_index = true,
                                  .ignore_index = 1));
}

static void distilbert(tcc_trace *t, void *user) {
    const tcc_distilbert_options o = {
        .layers = 2, .heads = 2, .width = 16, .context = TOKENS, .vocab = VOCAB, .classes = CLASSES, .dropout = 0.1};
    (void)user;
    tcc_loss(t, tcc_cross_entropy(tcc_distilbert(t, tcc_input(t, "x"), &o), tcc_input(t, "y")));
}

static void cnn(tcc_trace *t, void *user) {
    const tcc_cnn_options o = {.channels1 = 4, .channels2 = 6, .hidden = 10, .classes = CLASSES, .dropout = 0.2};
    (void)user;
    tcc_loss(t, tcc_cross_entropy(tcc_cnn(t, tcc_input(t, "x"), &o), tcc_input(t, "y")));
}

static void resnet(tcc_trace *t, void *user) {
    const tcc_resnet_options o = {.depth = 18, .classes = CLASSES, .width = 8, .cifar_stem = true};
    (void)user;
    tcc_loss(t, tcc_cross_entropy(tcc_resnet(t, tcc_input(t, "x"), &o), tcc_input(t, "y")));
}

static void regseg(tcc_trace *t, void *user) {
    const tcc_regseg_options o = {.classes = CLASSES};
    const tcc_segmentation_loss_options loss = {.size = sizeof loss, .has_ignore_index = true, .ignore_index = 1};
    (void)user;
    const tcc_segmentation heads = tcc_regseg(t, tcc_input(t, "x"), &o);
    tcc_loss(t, tcc_segmentation_loss(t, &heads, tcc_input(t, "y"), &loss));
}

typedef enum kind { TEXTS, CLASSIFIED_TEXTS, IMAGES, PIXELS } kind;
static const struct {
    const char *name;
    tcc_model_fn net;
    kind kind;
} networks[] = {{"gpt", gpt, TEXTS},
                {"distilbert", distilbert, CLASSIFIED_TEXTS},
                {"cnn", cnn, IMAGES},
                {"resnet18", resnet, IMAGES},
                {"regseg", regseg, PIXELS}};
enum { NETWORKS = sizeof networks / sizeof *networks };
const char *const rank_model_names[] = {"gpt", "distilbert", "cnn", "resnet18", "regseg", NULL};
_Static_assert(sizeof rank_model_names / sizeof *rank_model_names == NETWORKS + 1, "a name each");

/* -- Batches -- */

typedef struct data {
    float images[RANK_MODELS_MOST_RANKS * ROWS_EACH * 3 * IMAGE * IMAGE];
    int32_t tokens[RANK_MODELS_MOST_RANKS * ROWS_EACH * TOKENS], labels[RANK_MODELS_MOST_RANKS * ROWS_EACH],
        pixels[RANK_MODELS_MOST_RANKS * ROWS_EACH * IMAGE * IMAGE];
} data;

static uint64_t number(uint64_t i) {
    i = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    i = (i ^ (i >> 29)) * UINT64_C(0xBF58476D1CE4E5B9);
    return i >> 33;
}

#define COUNT(x) (sizeof(x) / sizeof *(x))

static void make_data(data *d, int step) {
    const uint64_t s = (uint64_t)step << 32;
    for (size_t i = 0; i < COUNT(d->images); i++) d->images[i] = (float)(number(s + i) % 2001) / 1000 - 1;
    for (size_t i = 0; i < COUNT(d->tokens); i++) d->tokens[i] = (int32_t)(number(s + i + 7) % VOCAB);
    for (size_t i = 0; i < COUNT(d->labels); i++) d->labels[i] = (int32_t)(number(s + i + 9) % CLASSES);
    for (size_t i = 0; i < COUNT(d->pixels); i++) d->pixels[i] = (int32_t)(number(s + i / 9) % CLASSES);
}

/* Rows of a part of a step's batch, for parts of ROWS_EACH rows; the last step's batch lacks its last row. */
static int64_t rows_of(int step, int parts, int first, int count) {
    const int64_t all = (int64_t)parts * ROWS_EACH - (step == STEPS - 1), left = all - (int64_t)first * ROWS_EACH;
    return left < (int64_t)count * ROWS_EACH ? left : (int64_t)count * ROWS_EACH;
}

static void make_batch(data *d, kind kind, int64_t begin, int64_t rows, tcc_array *batch) {
    batch[0] = (tcc_array){"x", TCC_F32, 4, {rows, 3, IMAGE, IMAGE}, d->images + begin * 3 * IMAGE * IMAGE};
    batch[1] = (tcc_array){"y", TCC_I32, 1, {rows}, d->labels + begin};
    if (kind == TEXTS || kind == CLASSIFIED_TEXTS)
        batch[0] = (tcc_array){"x", TCC_I32, 2, {rows, TOKENS}, d->tokens + begin * TOKENS};
    if (kind == TEXTS) batch[1] = (tcc_array){"y", TCC_I32, 2, {rows, TOKENS}, d->tokens + begin * TOKENS};
    if (kind == PIXELS)
        batch[1] = (tcc_array){"y", TCC_I32, 3, {rows, IMAGE, IMAGE}, d->pixels + begin * IMAGE * IMAGE};
}

/* -- Runs -- */

typedef struct rank {
    const rank_model_case *c;
    int network, first, count, parts; /* of the parts it takes `count` from `first` on */
    tcc_context *cx;
    tcc_comm *comm; /* NULL: it has micro-batches */
    tcc_status status;
    char text[1024];
    double losses[STEPS];
    char *bytes; /* of parameters, then states */
    size_t n_bytes, n_parameters;
    int64_t skipped;
} rank;

static bool keep(rank *r, const tcc_array *a) {
    size_t bytes = a->dtype == TCC_I64 || a->dtype == TCC_F64 ? 8 : 4;
    if (strstr(a->name, "running_") || strstr(a->name, "num_batches")) return true;
    for (int d = 0; d < a->rank; d++) bytes *= (size_t)a->dims[d];
    if (r->n_bytes + bytes > MOST_BYTES) return false;
    memcpy(r->bytes + r->n_bytes, a->data, bytes);
    r->n_bytes += bytes;
    return true;
}

static tcc_status train(rank *r, tcc_model *m, data *d) {
    bool kept = true;
    double scale;
    tcc_array a;
    for (int step = 0; step < STEPS; step++) {
        tcc_array batch[2];
        make_data(d, step);
        make_batch(d, networks[r->network].kind, (int64_t)r->first * ROWS_EACH,
                   rows_of(step, r->parts, r->first, r->count), batch);
        TCC_TRY(tcc_model_train(m, batch, 2));
        TCC_TRY(tcc_model_step_loss(m, step, &r->losses[step]));
    }
    TCC_TRY(tcc_model_synchronize(m));
    TCC_TRY(tcc_model_gather_states(m));
    for (int i = 0; tcc_model_param(m, i, &a); i++) kept &= keep(r, &a);
    r->n_parameters = r->n_bytes;
    for (int i = 0; tcc_model_optimizer_state(m, i, &a); i++) kept &= keep(r, &a);
    if (!kept) return TCC_ENOMEM;
    return r->c->options.mixed_precision == TCC_MIXED_FP16 ? tcc_model_loss_scale(m, &scale, &r->skipped) : TCC_OK;
}

static void run(void *user, int number, tcc_context *cx, tcc_comm *comm) {
    rank *r = (rank *)user + number;
    r->cx = cx;
    r->comm = comm;
    tcc_model_options o = r->c->options;
    data *d = malloc(sizeof *d);
    tcc_model *m = NULL;
    o.size = sizeof o;
    o.seed = 5;
    o.optimizer = &r->c->optimizer;
    o.comm = r->comm;
    o.batch_accumulate = r->comm ? 0 : r->parts;
    r->bytes = malloc(MOST_BYTES);
    r->status = d && r->bytes ? tcc_model_create(r->cx, networks[r->network].net, NULL, &o, &m) : TCC_ENOMEM;
    if (r->status == TCC_OK) r->status = train(r, m, d);
    if (r->status != TCC_OK) snprintf(r->text, sizeof r->text, "%s", tcc_context_error(r->cx));
    tcc_model_destroy(m);
    free(d);
}

static void run_all(const rank_model_case *c, int network, int parts, bool together, rank *out) {
    const int count = together ? parts : 1;
    for (int r = 0; r < count; r++)
        out[r] = (rank){c, network, r, together ? 1 : parts, parts, .status = TCC_EIO, .text = "not made"};
    run_rank_threads(count, run, out);
}

static const char *difference(const rank *r, const rank *one) {
    static char text[1200];
    if (r->status != TCC_OK) return snprintf(text, sizeof text, "rank %d: %s", r->first, r->text), text;
    for (int i = 0; i < STEPS; i++)
        if (memcmp(&r->losses[i], &one->losses[i], sizeof *r->losses) != 0)
            return snprintf(text, sizeof text, "rank %d: the loss of step %d is %.9g, not %.9g", r->first, i,
                            r->losses[i], one->losses[i]),
                   text;
    if (r->skipped != one->skipped) return "other steps are skipped";
    const bool has_states = !r->c->options.shard_optimizer || !r->first; /* else rank 0 alone has them */
    if (r->n_parameters != one->n_parameters || (has_states && r->n_bytes != one->n_bytes))
        return "there are other parameters or states";
    for (size_t i = 0; i < (has_states ? one->n_bytes : one->n_parameters); i += 4)
        if (memcmp(r->bytes + i, one->bytes + i, 4) != 0)
            return snprintf(text, sizeof text, "rank %d: number %zu of %zu is %.9g, not %.9g", r->first, i / 4,
                            one->n_bytes / 4, (double)*(float *)(r->bytes + i), (double)*(float *)(one->bytes + i)),
                   text;
    return NULL;
}

const char *rank_model_differs(const rank_model_case *c, int parts) {
    static rank one, ranks[RANK_MODELS_MOST_RANKS];
    static char text[1200];
    int network = 0;
    while (strcmp(networks[network].name, c->network)) network++;
    run_all(c, network, parts, false, &one);
    run_all(c, network, parts, true, ranks);
    const char *what = NULL;
    if (one.status != TCC_OK) snprintf(text, sizeof text, "in micro-batches: %s", one.text), what = text;
    for (int r = 0; r < parts && !what; r++) what = difference(&ranks[r], &one);
    for (int r = 0; r < parts; r++) free(ranks[r].bytes);
    free(one.bytes);
    return what;
}
