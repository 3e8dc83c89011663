/* SPDX-License-Identifier: MIT
 * BERT, RoBERTa and DistilBERT: one encoder under three sets of names, those of Hugging Face's code. */
#include "frontend/models/extents.h"
#include "traincc/functions.h"
#include "traincc/models.h"
#include "traincc/nn.h"

/* What a family calls its parts, and what it has. */
typedef struct family {
    const char *model, *layer; /* scopes */
    const char *q, *k, *v, *out, *attention_norm, *widen, *narrow, *norm;
    bool drops_attention; /* what attention adds is dropped as what feed-forward adds is */
    int64_t first_position;
} family;

static const family bert = {.model = "bert",
                            .layer = "encoder.layer",
                            .q = "attention.self.query",
                            .k = "attention.self.key",
                            .v = "attention.self.value",
                            .out = "attention.output.dense",
                            .attention_norm = "attention.output.LayerNorm",
                            .widen = "intermediate.dense",
                            .narrow = "output.dense",
                            .norm = "output.LayerNorm",
                            .drops_attention = true},
                    distilbert = {.model = "distilbert",
                                  .layer = "transformer.layer",
                                  .q = "attention.q_lin",
                                  .k = "attention.k_lin",
                                  .v = "attention.v_lin",
                                  .out = "attention.out_lin",
                                  .attention_norm = "sa_layer_norm",
                                  .widen = "ffn.lin1",
                                  .narrow = "ffn.lin2",
                                  .norm = "output_layer_norm"};

typedef struct encoder {
    tcc_trace *t;
    const family *f;
    tcc_bert_options o; /* with all defaults in it */
} encoder;

#undef TCC_HERE
#define TCC_HERE tcc_scope_place(e->t, e->f->model)

static const tcc_init normal = {.kind = TCC_INIT_NORMAL, .b = 0.02}, zero = {.kind = TCC_INIT_ZEROS};

static tcc_tensor dense(const encoder *e, tcc_tensor x, const char *name, int64_t features) {
    return tcc_linear(x, name, features, .weight_init = &normal, .bias_init = &zero);
}

static tcc_tensor layer_norm(const encoder *e, tcc_tensor x, const char *name) {
    return tcc_layer_norm(x, name, .eps = e->o.eps);
}

/* x [B, T, C]; mask [B, 1, 1, T], true where there is a token. */
static tcc_tensor attention(const encoder *e, tcc_tensor x, tcc_tensor mask) {
    const char *const names[] = {e->f->q, e->f->k, e->f->v};
    const int64_t batch = tcc_dim(x, 0), length = tcc_dim(x, 1), head = e->o.width / e->o.heads;
    tcc_tensor parts[3]; /* [B, heads, T, head] */
    for (int i = 0; i < 3; i++) {
        parts[i] = tcc_reshape(dense(e, x, names[i], e->o.width), TCC_DIMS(batch, length, e->o.heads, head));
        parts[i] = tcc_transpose(parts[i], TCC_DIMS(0, 2, 1, 3));
    }
    tcc_tensor y = tcc_attention(parts[0], parts[1], parts[2], .mask = mask, .dropout = e->o.dropout);
    y = tcc_reshape(tcc_transpose(y, TCC_DIMS(0, 2, 1, 3)), TCC_DIMS(batch, length, e->o.width));
    y = dense(e, y, e->f->out, e->o.width);
    return e->f->drops_attention ? tcc_dropout(y, e->o.dropout) : y;
}

static tcc_tensor feed_forward(const encoder *e, tcc_tensor x) {
    tcc_tensor h = dense(e, x, e->f->widen, e->o.hidden);
    h = e->o.gelu_tanh ? tcc_gelu_tanh(h) : tcc_gelu(h);
    return tcc_dropout(dense(e, h, e->f->narrow, e->o.width), e->o.dropout);
}

/* tokens [B, T] -> [B, T, C] */
static tcc_tensor embeddings(const encoder *e, tcc_tensor tokens) {
    const int64_t first = e->f->first_position, length = tcc_dim(tokens, 1), width = e->o.width;
    tcc_scope(e->t, "embeddings");
    tcc_tensor x = tcc_embedding(tokens, "word_embeddings", e->o.vocab, width, .weight_init = &normal);
    tcc_tensor positions = tcc_param(e->t, "position_embeddings.weight", normal, TCC_DIMS(first + e->o.context, width));
    x = tcc_add(x, tcc_slice(positions, 0, first, first + length));
    if (e->o.types) {
        tcc_tensor types = tcc_param(e->t, "token_type_embeddings.weight", normal, TCC_DIMS(e->o.types, width));
        x = tcc_add(x, tcc_slice(types, 0, 0, 1));
    }
    x = layer_norm(e, x, "LayerNorm");
    tcc_scope_end(e->t);
    return tcc_dropout(x, e->o.dropout);
}

/* The state of the first token [B, C], within the family's scope; tokens below 0 are none. */
static tcc_tensor encode(const encoder *e, tcc_tensor tokens) {
    const int64_t batch = tcc_dim(tokens, 0), length = tcc_dim(tokens, 1);
    tcc_tensor none = tcc_constant(e->t, 0, tcc_get_dtype(tokens), 0, NULL);
    tcc_tensor mask = tcc_reshape(tcc_ge(tokens, none), TCC_DIMS(batch, 1, 1, length));
    tcc_tensor x = embeddings(e, tokens);
    for (int64_t i = 0; i < e->o.layers; i++) {
        tcc_scope(e->t, "%s.%lld", e->f->layer, (long long)i);
        tcc_checkpoint_segment(e->t);
        x = layer_norm(e, tcc_add(x, attention(e, x, mask)), e->f->attention_norm);
        x = layer_norm(e, tcc_add(x, feed_forward(e, x)), e->f->norm);
        tcc_checkpoint_segment_end(e->t);
        tcc_scope_end(e->t);
    }
    return tcc_reshape(tcc_slice(x, 1, 0, 1), TCC_DIMS(batch, e->o.width));
}

static bool takes(const encoder *e, tcc_tensor tokens) {
    const tcc_bert_options *o = &e->o;
    const int64_t length = tcc_dim(tokens, 1);
    const extent *bad = first_below_1(EXTENTS({"layers", o->layers}, {"heads", o->heads}, {"width", o->width},
                                              {"context", o->context}, {"vocab", o->vocab}, {"classes", o->classes},
                                              {"hidden", o->hidden}));
    if (bad) tcc_fail(e->t, "%s must be 1 or more, not %lld", bad->name, (long long)bad->value);
    else if (o->types < 0) tcc_fail(e->t, "types must be 0 or more, not %lld", (long long)o->types);
    else if (o->width % o->heads)
        tcc_fail(e->t, "width %lld is not a multiple of %lld heads", (long long)o->width, (long long)o->heads);
    else if (length > o->context)
        tcc_fail(e->t, "%lld tokens do not fit the context of %lld", (long long)length, (long long)o->context);
    else return true;
    return false;
}

tcc_tensor tcc_distilbert(tcc_trace *t, tcc_tensor tokens, const tcc_distilbert_options *o) {
    encoder made = {.t = t, .f = &distilbert};
    const encoder *const e = &made;
    if (!o) return tcc_fail(t, "the options are NULL");
    made.o = (tcc_bert_options){.layers = o->layers,
                                .heads = o->heads,
                                .width = o->width,
                                .context = o->context,
                                .vocab = o->vocab,
                                .classes = o->classes,
                                .hidden = o->width < 1 ? 1 : 4 * o->width,
                                .eps = 1e-12,
                                .dropout = o->dropout,
                                .gelu_tanh = o->gelu_tanh};
    if (!takes(e, tokens)) return (tcc_tensor){0};
    tcc_scope(t, "distilbert");
    tcc_tensor x = encode(e, tokens);
    tcc_scope_end(t);
    x = tcc_dropout(tcc_relu(dense(e, x, "pre_classifier", o->width)), o->dropout);
    return dense(e, x, "classifier", o->classes);
}

/* BERT's pooler and classifier are RoBERTa's classifier of two layers, but for names and a dropout more. */
tcc_tensor tcc_bert(tcc_trace *t, tcc_tensor tokens, const tcc_bert_options *o) {
    family named = bert;
    encoder made = {.t = t, .f = &named};
    const encoder *const e = &made;
    if (!o) return tcc_fail(t, "the options are NULL");
    if (o->size != sizeof *o)
        return tcc_fail(t, "size %zu of the options; it must be sizeof(tcc_bert_options)", o->size);
    made.o = *o;
    if (o->roberta) named.model = "roberta", named.first_position = 2;
    if (!o->hidden) made.o.hidden = o->width < 1 ? 1 : 4 * o->width;
    if (!o->types) made.o.types = o->roberta ? 1 : 2;
    if (o->eps == 0) made.o.eps = o->roberta ? 1e-5 : 1e-12;
    const double drop = o->classifier_dropout == 0 ? o->dropout : o->classifier_dropout;
    if (!takes(e, tokens)) return (tcc_tensor){0};
    tcc_scope(t, "%s", named.model);
    tcc_tensor x = encode(e, tokens);
    if (!o->roberta) x = tcc_tanh(dense(e, x, "pooler.dense", o->width));
    tcc_scope_end(t);
    if (o->roberta) x = tcc_tanh(dense(e, tcc_dropout(x, drop), "classifier.dense", o->width));
    return dense(e, tcc_dropout(x, drop), o->roberta ? "classifier.out_proj" : "classifier", o->classes);
}
