/* SPDX-License-Identifier: MIT */
#include "harness/seen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void seen_drop(seen_list *r) {
    for (int i = 0; i < r->count; i++) free(r->list[i].data);
    free(r->list);
    *r = (seen_list){0};
}

int64_t seen_elements(const tcc_array *a) {
    int64_t count = 1;
    for (int d = 0; d < a->rank; d++) count *= a->dims[d];
    return count;
}

double seen_norm(const float *x, const float *y, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const double d = y ? (double)x[i] - y[i] : x[i];
        if (!y || (x[i] != y[i] && !(isnan(x[i]) && isnan(y[i])))) sum += d * d;
    }
    return sqrt(sum);
}

static void *checked(void *memory) {
    if (!memory) abort();
    return memory;
}

seen *seen_add(seen_list *r, const char *kind, const tcc_array *a) {
    if (a->dtype != TCC_F32) return NULL;
    if (r->count == r->room) {
        r->room = 2 * r->room + 64;
        r->list = checked(realloc(r->list, (size_t)r->room * sizeof *r->list));
    }
    seen *s = &r->list[r->count++];
    *s = (seen){.count = seen_elements(a)};
    snprintf(s->name, sizeof s->name, "%s %s", kind, a->name);
    s->data = checked(malloc((size_t)s->count * sizeof *s->data));
    memcpy(s->data, a->data, (size_t)s->count * sizeof *s->data);
    return s;
}

void seen_make_change(seen *s, const float *before) {
    s->own = seen_norm(before, NULL, s->count);
    for (int64_t i = 0; i < s->count; i++) s->data[i] = (float)((double)s->data[i] - before[i]);
}

void seen_take_roots(seen *s) {
    const char *end = strrchr(s->name, '.');
    for (int64_t i = 0; i < s->count && end && !strcmp(end, ".v"); i++) s->data[i] = sqrtf(s->data[i]);
}

static bool same_kind(const seen *a, const seen *b) {
    const size_t n = strcspn(a->name, " ");
    return !strncmp(a->name, b->name, n + 1);
}

void seen_find_cancelled(seen_list *r) {
    for (int i = 0; i < r->count; i++) {
        seen *e = &r->list[i];
        for (int k = 0; e->size == 0 && e->noise == 0 && k < r->count; k++)
            if (same_kind(e, &r->list[k]) && r->list[k].size > e->terms) e->terms = r->list[k].size;
    }
}

double seen_allowed(tcc_mixed_precision p, const seen *e) {
    const double unit = p == TCC_MIXED_NONE ? 0x1p-24 : p == TCC_MIXED_BF16 ? 0x1p-9 : 0x1p-12;
    const double noise = (e->noise > e->size / 8 ? 64 : 16) * e->noise;
    return noise + (p == TCC_MIXED_NONE ? 64 : 8) * unit * (e->size + e->terms) + 0x1p-22 * e->own + 1e-30;
}

double seen_disturbance(tcc_mixed_precision p) {
    return p == TCC_MIXED_NONE ? 0x1p-21 : p == TCC_MIXED_BF16 ? 0x1p-10 : 0x1p-13;
}

void seen_disturb(float *x, int64_t count, double most, double at_zero, uint64_t *random) {
    for (int64_t i = 0; i < count; i++) {
        *random = *random * 6364136223846793005U + 1442695040888963407U;
        const double part = (double)(*random >> 11) * 0x1p-52 - 1;
        x[i] = (float)(x[i] * (1 + most * part) + at_zero * part);
    }
}
