/* SPDX-License-Identifier: MIT
 * The order of samples, and lengths of batches. */
#include "runtime/data/order.h"
#include "ir/support/alloc.h"
#include "runtime/data/draw.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 50, DEFAULT_LENGTHS = 6 };

/* Lengths of rows are multiples of a unit, which is larger where there would be more candidates than this. */
enum { LENGTH_UNIT = 8, CANDIDATES = 64 };

int64_t tcc__order_count(const tcc__order *o, int64_t index) {
    int64_t left = o->samples - index * o->how.batch_size;
    return left < o->how.batch_size ? left : o->how.batch_size;
}

int64_t tcc__order_space(const tcc__order *o) { return o->window * o->how.batch_size; }

/* ---- windows ---- */

static int by_length(const void *a, const void *b) {
    const tcc__drawn *x = a, *y = b;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* The samples of `count` batches from batch `first` of an epoch on. */
static int64_t draw_window(const tcc__order *o, int64_t epoch, int64_t first, int64_t count, tcc__drawn *space) {
    const tcc__reader *reader = o->data->reader;
    const bool permuted = o->how.shuffle && !reader->windows;
    const tcc__permutation order = tcc__permutation_of(o->samples, o->how.seed, TCC__DRAW_ORDER, epoch);
    int64_t start = first * o->how.batch_size, end = (first + count) * o->how.batch_size;
    if (end > o->samples) end = o->samples;
    for (int64_t at = start; at < end; at++) {
        const int64_t number = tcc__source_of(o->data, o->how.split, permuted ? tcc__permute(&order, at) : at);
        space[at - start] = (tcc__drawn){number, reader->length ? reader->length(o->data, o->how.split, number) : 0};
    }
    if (o->how.padding == TCC_PADDING_UNIFORM) qsort(space, (size_t)(end - start), sizeof *space, by_length);
    return end - start;
}

/* How many batches the window of batch `first` has. */
static int64_t window_of(const tcc__order *o, int64_t first) {
    return first + o->window > o->batches ? o->batches - first : o->window;
}

static int64_t longest(const tcc__drawn *samples, int64_t count) {
    int64_t length = 0;
    for (int64_t i = 0; i < count; i++) length = samples[i].length > length ? samples[i].length : length;
    return length;
}

static int place_of(const tcc__order *o, int64_t length) {
    int i = 0;
    while (i < o->n_lengths - 1 && o->lengths[i] < length) i++;
    return i;
}

const tcc__drawn *tcc__order_batch(const tcc__order *o, int64_t number, tcc__drawn *space, int64_t *length) {
    const int64_t epoch = number / o->batches, index = number % o->batches, size = o->how.batch_size,
                  window = index / o->window, first = window * o->window, count = window_of(o, first);
    const int64_t own = tcc__order_count(o, index), whole = draw_window(o, epoch, first, count, space) / size;
    int64_t which = index - first;
    if (own == size && whole > 1) { /* a last batch that is smaller stays the last, with the longest samples */
        const int64_t windows = (o->batches + o->window - 1) / o->window;
        const tcc__permutation order = tcc__permutation_of(whole, o->how.seed, TCC__DRAW_BATCHES,
                                                           epoch * windows + window);
        which = tcc__permute(&order, which);
    }
    const tcc__drawn *samples = space + which * size;
    *length = o->n_lengths ? o->lengths[place_of(o, longest(samples, own))] : 0;
    return samples;
}

/* ---- lengths ---- */

/* What the batches of the first epoch need: how many are whole and how many are not, by the candidate that is long
 * enough; and how many tokens there are. */
typedef struct survey {
    int64_t unit, limit; /* of candidates, which are its multiples up to the limit */
    int64_t whole[CANDIDATES + 1], left[CANDIDATES + 1];
    int64_t rows[CANDIDATES + 1]; /* in batches of either kind */
    int longest;                  /* candidate: no sample is longer */
} survey;

static int candidate_of(const survey *s, int64_t length) { return (int)((length + s->unit - 1) / s->unit); }

static int64_t candidate_length(const survey *s, int candidate) {
    const int64_t length = candidate * s->unit;
    return length < s->limit ? length : s->limit;
}

static void survey_epoch(tcc__order *o, tcc__drawn *space, survey *s) {
    const int64_t size = o->how.batch_size;
    for (int64_t first = 0; first < o->batches; first += o->window) {
        const int64_t count = draw_window(o, 0, first, window_of(o, first), space);
        for (int64_t at = 0; at < count; at += size) {
            const int64_t own = count - at < size ? count - at : size;
            const int candidate = candidate_of(s, longest(space + at, own));
            ++*(own == size ? &s->whole[candidate] : &s->left[candidate]);
            s->rows[candidate] += own;
            for (int64_t i = at; i < at + own; i++) o->padding.tokens += space[i].length;
        }
    }
    o->padding.fixed = s->limit * (o->samples < o->batches * size ? o->samples : o->batches * size);
    for (int64_t i = 0; i < o->samples; i++) {
        const int candidate =
            candidate_of(s, o->data->reader->length(o->data, o->how.split, tcc__source_of(o->data, o->how.split, i)));
        if (candidate > s->longest) s->longest = candidate;
    }
}

/* The lengths with which the first epoch has the least padding: the longest that there is, and those below it that
 * dynamic programming finds. cost[k][c]: of all rows up to candidate c, in k lengths of which c is the longest. */
static void choose_lengths(tcc__order *o, const survey *s, int most) {
    static const int64_t none = INT64_MAX;
    int64_t cost[2][CANDIDATES + 1] = {{0}} /* of k and of k - 1 */, rows[CANDIDATES + 1] = {0}, least = 0;
    short before[TCC__LENGTHS_MAX + 1][CANDIDATES + 1];
    int best = 1;
    for (int c = 1; c <= s->longest; c++) rows[c] = rows[c - 1] + s->rows[c];
    for (int k = 1; k <= most; k++) {
        int64_t *own = cost[k % 2];
        const int64_t *fewer = cost[(k - 1) % 2];
        for (int c = 1; c <= s->longest; c++) {
            own[c] = k == 1 ? rows[c] * candidate_length(s, c) : none;
            before[k][c] = 0;
            for (int b = 1; b < c && k > 1; b++) {
                if (fewer[b] == none) continue;
                const int64_t with = fewer[b] + (rows[c] - rows[b]) * candidate_length(s, c);
                if (with >= own[c]) continue;
                own[c] = with;
                before[k][c] = (short)b;
            }
        }
        if (k == 1 || own[s->longest] < least) best = k, least = own[s->longest];
    }
    o->n_lengths = best;
    o->padding.padded = least;
    for (int k = best, c = s->longest; k > 0; c = before[k--][c]) o->lengths[k - 1] = candidate_length(s, c);
}

/* Which shapes occur. In an epoch that is shuffled any length may; the others are all alike. */
static void note_shapes(tcc__order *o, const survey *s) {
    const bool drops = o->how.last_batch == TCC_LAST_DROP, pads = o->how.last_batch == TCC_LAST_PAD;
    const bool has_left = !drops && o->samples % o->how.batch_size;
    const bool has_whole = o->samples >= o->how.batch_size || (pads && has_left);
    for (int c = 1; s && c <= s->longest; c++) {
        const int i = place_of(o, candidate_length(s, c));
        o->whole[i] |= o->how.shuffle ? has_whole : s->whole[c] || (pads && s->left[c]);
        o->left[i] |= o->how.shuffle ? has_left && !pads : s->left[c] && !pads;
    }
    if (s) return;
    o->whole[0] = has_whole;
    o->left[0] = has_left && !pads;
}

static tcc_status find_lengths(tcc_diag *d, tcc__order *o) {
    survey s = {.limit = o->data->info.x.dims[0], .unit = LENGTH_UNIT};
    while ((s.limit + s.unit - 1) / s.unit > CANDIDATES) s.unit *= 2;
    tcc__drawn *space = tcc__malloc((size_t)tcc__order_space(o) * sizeof *space);
    if (!space) return tcc_enomem(d);
    survey_epoch(o, space, &s);
    tcc__free(space);
    if (o->how.padding == TCC_PADDING_FIXED) {
        o->n_lengths = 1;
        o->lengths[0] = s.limit;
        o->padding.padded = o->padding.fixed;
    } else {
        choose_lengths(o, &s, o->how.lengths ? o->how.lengths : DEFAULT_LENGTHS);
    }
    note_shapes(o, &s);
    return TCC_OK;
}

tcc_status tcc__order_init(tcc_diag *d, const tcc_dataset *data, const tcc_loader_options *how, tcc__order *out) {
    *out = (tcc__order){.data = data, .how = *how, .samples = data->info.samples[how->split], .window = 1};
    out->batches = out->samples / how->batch_size +
                   (how->last_batch != TCC_LAST_DROP && out->samples % how->batch_size);
    if (how->padding == TCC_PADDING_UNIFORM) out->window = out->batches < WINDOW ? out->batches : WINDOW;
    if (data->reader->length) return find_lengths(d, out);
    note_shapes(out, NULL);
    return TCC_OK;
}
