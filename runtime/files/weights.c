/* SPDX-License-Identifier: MIT
 * Weights that other code wrote, loaded into a model's parameters: all of them or nothing, and what became of each. */
#include "runtime/files/weights_names.h"
#include "runtime/files/safetensors.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "ir/support/dtype.h"
#include "ir/support/element.h"

#include <string.h>

typedef struct loading {
    tcc_diag *diag;
    const char *path;
    const tcc_array *to;
    int count;
    tcc__weights_files files;
    tcc__weight_match match;
    bool conv1d; /* GPT-2's code: linear weights are [in, out] */
} loading;

static tcc_type type_of(const tcc_array *a) {
    tcc_type t = {.dtype = a->dtype, .rank = a->rank};
    memcpy(t.dims, a->dims, sizeof t.dims[0] * (size_t)a->rank);
    return t;
}

static tcc_array tensor(const loading *l, int i) {
    return tcc_safetensors_get(l->match.tensors[i].file, l->match.tensors[i].index);
}

/* -- Whether all fits -- */

/* The projection to q, k and v tells, as it is not square. */
static bool has_conv1d(const loading *l) {
    for (int i = 0; i < l->match.n_tensors; i++) {
        const tcc_array a = tensor(l, i);
        if (tcc__weight_ends_with(l->match.tensors[i].is.key, ".attn.c_attn.weight") && a.rank == 2 &&
            a.dims[1] == 3 * a.dims[0])
            return true;
    }
    return false;
}

static bool is_transposed(const loading *l, int wanted) {
    return l->conv1d && tcc__weight_is_conv1d(l->match.wanted[wanted].key);
}

typedef enum verdict { FITS, MISSING, WRONG_SHAPE, WRONG_TYPE, VERDICTS } verdict;

static verdict judge(const loading *l, int w) {
    const int from = l->match.from[w];
    if (from == TCC__WEIGHT_LEFT_ALONE) return FITS;
    if (from == TCC__WEIGHT_MISSING) return MISSING;
    const tcc_array a = tensor(l, from), *to = &l->to[w];
    if (!a.data) return WRONG_TYPE;
    const bool turned = is_transposed(l, w) && a.rank == 2;
    if (a.rank != to->rank) return WRONG_SHAPE;
    for (int d = 0; d < a.rank; d++)
        if (a.dims[turned ? 1 - d : d] != to->dims[d]) return WRONG_SHAPE;
    const bool convertible = a.dtype == to->dtype || (tcc_dtype_is_float(a.dtype) && tcc_dtype_is_float(to->dtype));
    return convertible ? FITS : WRONG_TYPE;
}

enum { MOST_LISTED = 20 };

static void list_one(const loading *l, int w, verdict v) {
    const tcc_type wanted = type_of(&l->to[w]);
    const tcc__weight_tensor *t = v == MISSING ? NULL : &l->match.tensors[l->match.from[w]];
    if (!t) tcc_note(l->diag, TCC_NOWHERE, "missing: '%s' %s", l->to[w].name, tcc_type_text(&wanted));
    else
        tcc_note(l->diag, TCC_NOWHERE, "%s: '%s' is %s in the file, but %s is wanted",
                 v == WRONG_SHAPE ? "shape" : "type", t->is.name, tcc__safetensors_type(t->file, t->index),
                 tcc_type_text(&wanted));
}

/* What a caller who means it would say. */
static void hint(const loading *l, int bad, int loaded) {
    if (!loaded) {
        tcc_note(l->diag, TCC_NOWHERE,
                 "no tensor has the name of a parameter: the first of the file is '%s', of the model '%s'",
                 l->match.n_tensors ? l->match.tensors[0].is.name : "", l->to[0].name);
    } else if (bad >= 0) {
        const char *key = l->match.wanted[bad].key;
        tcc_note(l->diag, TCC_NOWHERE,
                 "to leave parameters as they begin, say so by patterns, as init_ignore: \"%.*s.*\" in a recipe",
                 (int)strcspn(key, "."), key);
    }
}

static tcc_status check(const loading *l) {
    int tally[VERDICTS] = {0}, more = 0, loaded = 0, bad = -1;
    for (int w = 0; w < l->count; w++) {
        const verdict v = judge(l, w);
        tally[v]++;
        loaded += v == FITS && l->match.from[w] >= 0;
        if (v != FITS) bad = w;
    }
    for (int i = 0; i < l->match.n_tensors; i++) more += l->match.tensors[i].fate == TCC__WEIGHT_MORE;
    if (tally[FITS] == l->count && !more && loaded) return TCC_OK;
    const tcc_status code = tally[WRONG_SHAPE] ? TCC_ESHAPE : tally[WRONG_TYPE] ? TCC_EDTYPE : TCC_ENOTFOUND;
    tcc_error(
        l->diag, code, (tcc_loc){l->path, 0},
        "these are not the model's weights: %d missing, %d wrongly shaped, %d wrongly typed, %d of further layers",
        tally[MISSING], tally[WRONG_SHAPE], tally[WRONG_TYPE], more);
    for (int v = MISSING; v < VERDICTS; v++)
        for (int w = 0, listed = 0; w < l->count && listed < MOST_LISTED; w++)
            if ((int)judge(l, w) == v) list_one(l, w, (verdict)v), listed++;
    for (int i = 0, listed = 0; i < l->match.n_tensors && listed < MOST_LISTED; i++) {
        const tcc__weight_tensor *t = &l->match.tensors[i];
        if (t->fate != TCC__WEIGHT_MORE) continue;
        tcc_note(l->diag, TCC_NOWHERE, "further: '%s' %s is of a kind that the model has fewer of", t->is.name,
                 tcc__safetensors_type(t->file, t->index));
        listed++;
    }
    hint(l, bad, loaded);
    return code;
}

/* -- Copying -- */

static tcc_status copy_transposed(const loading *l, const tcc_array *from, const tcc_array *to) {
    const int64_t rows = to->dims[0], columns = to->dims[1];
    const size_t bytes = (size_t)tcc_dtype_bytes(to->dtype);
    char *turned = tcc__malloc((size_t)(rows * columns) * bytes + 1), *out = to->data;
    if (!turned) return tcc_enomem(l->diag);
    tcc_elements_cast(to->dtype, turned, from->dtype, from->data, rows * columns);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            memcpy(out + (size_t)(r * columns + c) * bytes, turned + (size_t)(c * rows + r) * bytes, bytes);
    tcc__free(turned);
    return TCC_OK;
}

static tcc_status copy_all(const loading *l) {
    for (int w = 0; w < l->count; w++) {
        if (l->match.from[w] < 0) continue;
        const tcc_array from = tensor(l, l->match.from[w]);
        const tcc_type type = type_of(&from);
        if (is_transposed(l, w)) TCC_TRY(copy_transposed(l, &from, &l->to[w]));
        else tcc_elements_cast(l->to[w].dtype, l->to[w].data, from.dtype, from.data, tcc_type_numel(&type));
    }
    return TCC_OK;
}

/* -- What became of each -- */

/* "a, b, c and 4 more". */
typedef struct list {
    tcc_strbuf *out;
    const char *what;
    int count;
} list;

static void list_name(list *of, const char *name) {
    if (of->count < MOST_LISTED)
        tcc_strbuf_printf(of->out, of->count ? ", %s" : "%s: %s", of->count ? name : of->what, name);
    of->count++;
}

static void list_end(const list *of) {
    if (of->count > MOST_LISTED) tcc_strbuf_printf(of->out, " and %d more", of->count - MOST_LISTED);
    if (of->count) tcc_strbuf_add(of->out, "\n");
}

/* Whether wanted a and b were found by the same change of what stands in front. */
static bool same_rule(const tcc__weight_match *m, int a, int b) {
    const tcc__weight_name *from[2] = {&m->tensors[m->from[a]].is, &m->tensors[m->from[b]].is},
                           *to[2] = {&m->wanted[a], &m->wanted[b]};
    return from[0]->prefix == from[1]->prefix && to[0]->prefix == to[1]->prefix &&
           !memcmp(from[0]->name, from[1]->name, (size_t)from[0]->prefix) &&
           !memcmp(to[0]->name, to[1]->name, (size_t)to[0]->prefix);
}

/* Each change of names once, with the number of tensors that it found. */
static void print_rules(const loading *l, tcc_strbuf *out) {
    const tcc__weight_match *m = &l->match;
    int renamed = 0;
    for (int w = 0; w < l->count; w++) {
        if (m->from[w] < 0) continue;
        const tcc__weight_name *from = &m->tensors[m->from[w]].is, *to = &m->wanted[w];
        if (strcmp(from->key, to->key) != 0) {
            tcc_strbuf_printf(out, "names: \"%s\" of the file is \"%s\" here: a tied head\n", from->name, to->name);
            continue;
        }
        renamed += from->renamed != to->renamed;
        int count = 0, before = 0;
        for (int i = 0; i < l->count; i++) {
            if (m->from[i] < 0 || strcmp(m->tensors[m->from[i]].is.key, m->wanted[i].key) || !same_rule(m, i, w))
                continue;
            count++;
            before += i < w;
        }
        if (before || (from->prefix == to->prefix && !memcmp(from->name, to->name, (size_t)to->prefix))) continue;
        tcc_strbuf_printf(out, "names: \"%.*s*\" of the file is \"%.*s*\" here: %d tensors\n", from->prefix, from->name,
                          to->prefix, to->name, count);
    }
    if (renamed)
        tcc_strbuf_printf(out,
                          "names: \"*.gamma\" and \"*.beta\" of the file are \"*.weight\" and \"*.bias\" here: %d "
                          "tensors\n",
                          renamed);
}

static void print_fates(const loading *l, tcc_strbuf *out) {
    static const struct {
        tcc__weight_fate fate;
        const char *what;
    } fates[] = {{TCC__WEIGHT_IGNORED, "of the file, but ignored"},
                 {TCC__WEIGHT_SAME, "of the file, the same once more"},
                 {TCC__WEIGHT_LEFT_OVER, "left over in the file"}};
    list alone = {out, "not loaded, as asked for", 0};
    for (int w = 0; w < l->count; w++)
        if (l->match.from[w] == TCC__WEIGHT_LEFT_ALONE) list_name(&alone, l->to[w].name);
    list_end(&alone);
    for (int k = 0; k < 3; k++) {
        list names = {out, fates[k].what, 0};
        for (int i = 0; i < l->match.n_tensors; i++)
            if (l->match.tensors[i].fate == fates[k].fate) list_name(&names, l->match.tensors[i].is.name);
        list_end(&names);
    }
}

/* "skipped: 20 counters of batches". */
static void print_skipped(const loading *l, tcc_strbuf *out) {
    const tcc__weight_match *m = &l->match;
    for (int i = 0; i < m->n_tensors; i++) {
        const char *kind = m->tensors[i].fate == TCC__WEIGHT_SKIPPED ? tcc__weight_skipped_kind(&m->tensors[i].is)
                                                                     : NULL;
        int count = 0, before = 0;
        for (int k = 0; kind && k < m->n_tensors; k++) {
            if (m->tensors[k].fate != TCC__WEIGHT_SKIPPED || tcc__weight_skipped_kind(&m->tensors[k].is) != kind)
                continue;
            count++;
            before += k < i;
        }
        if (kind && !before) tcc_strbuf_printf(out, "skipped: %d %s, as %s\n", count, kind, m->tensors[i].is.name);
    }
}

static tcc_status report_on(const loading *l, char **report) {
    tcc_strbuf out = {0};
    int loaded = 0, turned = 0;
    for (int w = 0; w < l->count; w++) {
        loaded += l->match.from[w] >= 0;
        turned += l->match.from[w] >= 0 && is_transposed(l, w);
    }
    tcc_strbuf_printf(&out, "%d of %d tensors are from %s", loaded, l->count, l->path);
    if (l->files.count > 1) tcc_strbuf_printf(&out, ", %d files", l->files.count);
    tcc_strbuf_add(&out, "\n");
    print_rules(l, &out);
    if (turned) tcc_strbuf_printf(&out, "transposed: %d weights, which the file has as [in, out]\n", turned);
    print_fates(l, &out);
    print_skipped(l, &out);
    *report = tcc_strbuf_take(&out);
    return *report ? TCC_OK : tcc_enomem(l->diag);
}

/* -- All of it -- */

static tcc_status check_call(tcc_diag *d, const char *path, const tcc_array *to, int count,
                             const tcc_weights_options *o) {
    if (!path || count < 1 || !to)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tcc_weights_load: %s", !path ? "the path is NULL" : "no arrays");
    if (o && (o->size < sizeof *o || o->n_ignore < 0 || (o->n_ignore && !o->ignore)))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tcc_weights_load: options of size %zu, ignore[%d]%s", o->size,
                         o->n_ignore, o->ignore ? "" : " that is NULL");
    for (int i = 0; i < count; i++) {
        if (!to[i].name || !to[i].data)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tcc_weights_load: array %d has no %s", i,
                             to[i].name ? "data" : "name");
        TCC_TRY(tcc__array_on_host(d, TCC_NOWHERE, "tcc_weights_load: array", &to[i]));
    }
    return TCC_OK;
}

tcc_status tcc_weights_load(tcc_context *cx, const char *path, const tcc_array *to, int count,
                            const tcc_weights_options *options, char **report) {
    loading l = {.diag = &cx->diag, .path = path, .to = to, .count = count};
    tcc_diag_begin(l.diag);
    if (report) *report = NULL;
    TCC_TRY(check_call(l.diag, path, to, count, options));
    tcc_status status = tcc__weights_files_open(l.diag, path, &l.files);
    if (status == TCC_OK) status = tcc__weights_match(l.diag, path, &l.files, to, count, options, &l.match);
    if (status == TCC_OK) {
        l.conv1d = has_conv1d(&l);
        status = check(&l);
    }
    if (status == TCC_OK) status = copy_all(&l);
    if (status == TCC_OK && report) status = report_on(&l, report);
    tcc__weights_match_free(&l.match);
    tcc__weights_files_close(&l.files);
    return status;
}
