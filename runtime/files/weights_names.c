/* SPDX-License-Identifier: MIT
 * Names are equal, or equal but for what wrappers and other versions of a model's code put around them. */
#include "runtime/files/weights_names.h"
#include "ir/support/dtype.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

/* -- Keys -- */

/* Wrappers of PyTorch, and the names under which Hugging Face's models with a head have the one without. */
static const char *const prefixes[] = {"module.",  "_orig_mod.", "model.", "distilbert.", "bert.",
                                       "roberta.", "vit.",       "deit.",  "transformer."};

static const char *const old_ends[][2] = {{".gamma", ".weight"}, {".beta", ".bias"}};

bool tcc__weight_ends_with(const char *name, const char *end) {
    const size_t length = strlen(name), size = strlen(end);
    return length >= size && !strcmp(name + length - size, end);
}

static const char *without_prefixes(const char *name) {
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        const size_t length = strlen(prefixes[i]);
        if (!strncmp(name, prefixes[i], length) && name[length]) return without_prefixes(name + length);
    }
    return name;
}

static tcc__weight_name name_of(tcc_arena *memory, const char *name) {
    tcc__weight_name n = {.name = name, .key = without_prefixes(name)};
    n.prefix = (int)(n.key - name);
    for (int i = 0; i < 2; i++)
        if (tcc__weight_ends_with(n.key, old_ends[i][0])) {
            const int stem = (int)(strlen(n.key) - strlen(old_ends[i][0]));
            n.key = tcc_arena_printf(memory, "%.*s%s", stem, n.key, old_ends[i][1]);
            n.renamed = true;
            break;
        }
    return n;
}

static const struct {
    const char *end, *kind;
} skipped[] = {{".num_batches_tracked", "counters of batches"},
               {".attn.bias", "causal masks"},
               {".attn.masked_bias", "causal masks"},
               {"embeddings.position_ids", "numbers of positions"}};

const char *tcc__weight_skipped_kind(const tcc__weight_name *n) {
    for (size_t i = 0; i < sizeof skipped / sizeof skipped[0]; i++)
        if (tcc__weight_ends_with(n->name, skipped[i].end)) return skipped[i].kind;
    return NULL;
}

bool tcc__weight_is_conv1d(const char *key) {
    static const char *const ends[] = {".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight",
                                       ".mlp.c_proj.weight"};
    for (int i = 0; i < 4; i++)
        if (tcc__weight_ends_with(key, ends[i])) return true;
    return false;
}

/* -- Matching -- */

/* Two keys of one matrix. `head`: where a model has the first alone, it is its head, too. */
static const struct {
    const char *key, *other;
    bool head;
} ties[] = {{"wte.weight", "lm_head.weight", true},
            {"embeddings.word_embeddings.weight", "vocab_projector.weight", false},
            {"embeddings.word_embeddings.weight", "cls.predictions.decoder.weight", false},
            {"embeddings.word_embeddings.weight", "lm_head.decoder.weight", false}};
enum { TIES = sizeof ties / sizeof ties[0] };

typedef struct matcher {
    tcc_diag *diag;
    const char *path;
    const tcc_weights_options *options;
    tcc__weight_match *m;
} matcher;

static bool is_ignored(const matcher *x, const tcc__weight_name *n) {
    const int count = x->options ? x->options->n_ignore : 0;
    for (int i = 0; i < count; i++)
        if (!fnmatch(x->options->ignore[i], n->name, 0) || !fnmatch(x->options->ignore[i], n->key, 0)) return true;
    return false;
}

static void use(tcc__weight_match *m, int wanted, int tensor) {
    m->from[wanted] = tensor;
    m->tensors[tensor].fate = TCC__WEIGHT_USED;
}

/* The tensor of a key, of those that are left over if `free`; -1: none. *others: further ones. */
static int find_key(const tcc__weight_match *m, const char *key, bool free, int *others) {
    int found = TCC__WEIGHT_MISSING;
    *others = 0;
    for (int i = 0; i < m->n_tensors; i++) {
        if ((free && m->tensors[i].fate != TCC__WEIGHT_LEFT_OVER) || strcmp(m->tensors[i].is.key, key)) continue;
        if (found >= 0) *others = i;
        else found = i;
    }
    return found;
}

static void match_exactly(tcc__weight_match *m) {
    for (int w = 0; w < m->n_wanted; w++)
        for (int i = 0; i < m->n_tensors && m->from[w] == TCC__WEIGHT_MISSING; i++)
            if (!strcmp(m->tensors[i].is.name, m->wanted[w].name)) use(m, w, i);
}

static tcc_status match_keys(matcher *x) {
    tcc__weight_match *m = x->m;
    for (int w = 0; w < m->n_wanted; w++) {
        int others;
        if (m->from[w] != TCC__WEIGHT_MISSING) continue;
        const int i = find_key(m, m->wanted[w].key, true, &others);
        if (others)
            return tcc_error(x->diag, TCC_EFORMAT, (tcc_loc){x->path, 0},
                             "'%s' may be '%s' or '%s' of the file: one of them has to go", m->wanted[w].name,
                             m->tensors[i].is.name, m->tensors[others].is.name);
        if (i >= 0) use(m, w, i);
    }
    return TCC_OK;
}

static bool wants(const tcc__weight_match *m, const char *key) {
    for (int w = 0; w < m->n_wanted; w++)
        if (!strcmp(m->wanted[w].key, key)) return true;
    return false;
}

static bool same_data(const tcc__weight_tensor *a, const tcc__weight_tensor *b) {
    const tcc_array x = tcc_safetensors_get(a->file, a->index), y = tcc_safetensors_get(b->file, b->index);
    int64_t bytes = tcc_dtype_bytes(x.dtype);
    if (!x.data || !y.data || x.dtype != y.dtype || x.rank != y.rank) return false;
    for (int d = 0; d < x.rank; d++) {
        if (x.dims[d] != y.dims[d]) return false;
        bytes *= x.dims[d];
    }
    return !memcmp(x.data, y.data, (size_t)bytes);
}

/* One matrix under one of two names, or under both. */
static tcc_status match_ties(matcher *x) {
    tcc__weight_match *m = x->m;
    int others;
    for (int w = 0; w < m->n_wanted; w++)
        for (int t = 0; t < TIES; t++) {
            const bool first = !strcmp(m->wanted[w].key, ties[t].key);
            if (!first && strcmp(m->wanted[w].key, ties[t].other) != 0) continue;
            const int i = find_key(m, first ? ties[t].other : ties[t].key, false, &others);
            if (i < 0 || m->from[w] == TCC__WEIGHT_LEFT_ALONE) continue;
            if (m->from[w] == TCC__WEIGHT_MISSING) {
                use(m, w, i);
            } else if (m->tensors[i].fate == TCC__WEIGHT_LEFT_OVER) {
                if (same_data(&m->tensors[m->from[w]], &m->tensors[i])) m->tensors[i].fate = TCC__WEIGHT_SAME;
                else if (ties[t].head && !wants(m, ties[t].other))
                    return tcc_error(x->diag, TCC_EFORMAT, (tcc_loc){x->path, 0},
                                     "has '%s' and '%s', which differ; the model's head is tied: both are '%s'",
                                     m->tensors[m->from[w]].is.name, m->tensors[i].is.name, m->wanted[w].name);
            }
        }
    return TCC_OK;
}

/* -- What is left over -- */

/* Whether two names differ in their numbers alone. */
static bool same_but_numbers(const char *a, const char *b) {
    while (*a || *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            while (isdigit((unsigned char)*a)) a++;
            while (isdigit((unsigned char)*b)) b++;
        } else if (*a++ != *b++) return false;
    }
    return true;
}

static tcc__weight_fate fate_of(const matcher *x, const tcc__weight_name *n) {
    if (is_ignored(x, n)) return TCC__WEIGHT_IGNORED;
    if (tcc__weight_skipped_kind(n)) return TCC__WEIGHT_SKIPPED;
    for (int w = 0; w < x->m->n_wanted; w++)
        if (same_but_numbers(n->key, x->m->wanted[w].key)) return TCC__WEIGHT_MORE;
    return TCC__WEIGHT_LEFT_OVER;
}

/* -- All of it -- */

static bool list_names(matcher *x, const tcc__weights_files *files, const tcc_array *to) {
    tcc__weight_match *m = x->m;
    for (int f = 0; f < files->count; f++) m->n_tensors += tcc_safetensors_count(files->data[f]);
    m->tensors = TCC_ARENA_ARRAY(&m->memory, tcc__weight_tensor, m->n_tensors + 1);
    m->wanted = TCC_ARENA_ARRAY(&m->memory, tcc__weight_name, m->n_wanted + 1);
    m->from = TCC_ARENA_ARRAY(&m->memory, int, m->n_wanted + 1);
    if (!m->tensors || !m->wanted || !m->from) return false;
    tcc__weight_tensor *t = m->tensors;
    for (int f = 0; f < files->count; f++)
        for (int i = 0; i < tcc_safetensors_count(files->data[f]); i++, t++) {
            *t = (tcc__weight_tensor){.file = files->data[f], .index = i};
            t->is = name_of(&m->memory, tcc_safetensors_get(t->file, i).name);
            if (!t->is.key) return false;
        }
    for (int w = 0; w < m->n_wanted; w++) {
        m->wanted[w] = name_of(&m->memory, to[w].name);
        if (!m->wanted[w].key) return false;
        m->from[w] = is_ignored(x, &m->wanted[w]) ? TCC__WEIGHT_LEFT_ALONE : TCC__WEIGHT_MISSING;
    }
    return true;
}

tcc_status tcc__weights_match(tcc_diag *d, const char *path, const tcc__weights_files *files, const tcc_array *to,
                              int count, const tcc_weights_options *o, tcc__weight_match *out) {
    matcher x = {.diag = d, .path = path, .options = o, .m = out};
    *out = (tcc__weight_match){.n_wanted = count};
    if (!list_names(&x, files, to)) return tcc_enomem(d);
    match_exactly(out);
    TCC_TRY(match_keys(&x));
    TCC_TRY(match_ties(&x));
    for (int i = 0; i < out->n_tensors; i++)
        if (out->tensors[i].fate == TCC__WEIGHT_LEFT_OVER) out->tensors[i].fate = fate_of(&x, &out->tensors[i].is);
    return TCC_OK;
}

void tcc__weights_match_free(tcc__weight_match *m) { tcc_arena_free(&m->memory); }
