/* SPDX-License-Identifier: MIT
 * Draws of tokens: temperature, then the likeliest k, then the nucleus of these (Holtzman et al. 2020, "The curious
 * case of neural text degeneration"). */
#include "frontend/run/sampler.h"

#include <math.h>
#include <stdlib.h>

/* xorshift64*: a draw only has to be repeatable. */
static double draw(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)((*state * 0x2545F4914F6CDD1DULL) >> 11) * 0x1p-53;
}

static bool likelier(const tcc__candidate *a, const tcc__candidate *b) {
    return a->logit != b->logit ? a->logit > b->logit : a->id < b->id;
}

static int compare(const void *a, const void *b) { return likelier(a, b) ? -1 : 1; }

/* Of a heap of `count` whose root is its least likely one. */
static void sift(tcc__candidate *heap, int64_t count, int64_t at) {
    const tcc__candidate moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && likelier(&heap[child], &heap[child + 1])) child++;
        if (!likelier(&moved, &heap[child])) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Moves the likeliest k to the front. */
static int64_t keep_top_k(tcc__candidate *c, int64_t count, int64_t k) {
    if (k >= count) return count;
    for (int64_t i = k / 2; i-- > 0;) sift(c, k, i);
    for (int64_t i = k; i < count; i++) {
        if (!likelier(&c[i], &c[0])) continue;
        c[0] = c[i];
        sift(c, k, 0);
    }
    return k;
}

static double weigh(tcc__candidate *c, int64_t count, float best, double temperature) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += c[i].weight = exp(((double)c[i].logit - best) / temperature);
    return sum;
}

/* Moves the nucleus to the front, and gives the sum of its weights. What has less than its equal share of 1 - p cannot
 * be in it, so few are sorted. */
static int64_t keep_top_p(tcc__candidate *c, int64_t count, double p, double *sum) {
    const double least = *sum * (1 - p) / (double)count, enough = *sum * p;
    int64_t kept = 0, used = 0;
    for (int64_t i = 0; i < count; i++)
        if (c[i].weight >= least) c[kept++] = c[i];
    qsort(c, (size_t)kept, sizeof *c, compare);
    for (*sum = 0; used < kept && (!used || *sum < enough); used++) *sum += c[used].weight;
    return used;
}

int32_t tcc__sampler_draw(tcc__sampler *s, const float *logits, int64_t count) {
    tcc__candidate *c = s->candidates;
    int64_t best = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(logits[i])) return -1;
        if (logits[i] > logits[best]) best = i;
        c[i] = (tcc__candidate){.logit = logits[i], .id = (int32_t)i};
    }
    if (!isfinite(logits[best])) return -1;
    if (s->temperature == 0) return (int32_t)best;
    if (s->top_k) count = keep_top_k(c, count, s->top_k);
    double sum = weigh(c, count, logits[best], s->temperature);
    if (s->top_p < 1) count = keep_top_p(c, count, s->top_p, &sum);
    double left = draw(&s->state) * sum;
    for (int64_t i = 0; i < count; i++) {
        left -= c[i].weight;
        if (left <= 0) return c[i].id;
    }
    return (int32_t)best;
}
