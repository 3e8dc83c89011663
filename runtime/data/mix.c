/* SPDX-License-Identifier: MIT
 * A pair shares what is drawn: each has the share s of itself, and 1 - s of the other. */
#include "runtime/data/mix.h"
#include "runtime/data/draw.h"

#include <math.h>
#include <string.h>

/* ---- what is drawn ---- */

typedef struct pair {
    const tcc_loader_options *o;
    int64_t epoch, position;
} pair;

static tcc__draw draw(const pair *p, int number) {
    return tcc__draw_at(p->o->seed, (tcc__purpose)(TCC__DRAW_MIX + number), p->epoch, p->position);
}

/* Above 0, below 1. */
static double unit(uint32_t bits) { return ((double)bits + 0.5) / 4294967296.0; }

/* The logarithm of a gamma variate (Marsaglia and Tsang 2000); tries are numbered from `first` on, by twos. */
static double gamma_logarithm(const pair *p, double shape, int first) {
    enum { TRIES = 32 };
    const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (int i = 0; i < TRIES; i++) {
        const tcc__draw a = draw(p, first + 2 * i);
        const double normal = sqrt(-2 * log(unit(a.bits[0]))) * cos(2 * M_PI * unit(a.bits[1]));
        const double v = pow(1 + c * normal, 3);
        if (!(v > 0) || log(unit(a.bits[2])) > normal * normal / 2 + d - d * v + d * log(v)) continue;
        return log(d * v) + (shape < 1 ? log(unit(a.bits[3])) / shape : 0);
    }
    return log(d); /* not once in 1e40 times */
}

/* Of Beta(shape, shape). */
static double share_of(const pair *p, double shape) {
    return 1 / (1 + exp(gamma_logarithm(p, shape, 2) - gamma_logarithm(p, shape, 1)));
}

/* ---- mixing ---- */

static void blend(float *a, float *b, int64_t count, float share) {
    for (int64_t i = 0; i < count; i++) {
        const float x = a[i], y = b[i];
        a[i] = share * x + (1 - share) * y;
        b[i] = share * y + (1 - share) * x;
    }
}

static int64_t within(int64_t x, int64_t most) { return x < 0 ? 0 : x > most ? most : x; }

/* Where a rectangle of such a size begins and ends that may reach beyond the image. */
static void place(uint32_t bits, int64_t size, double half, int64_t *from, int64_t *to) {
    const int64_t centre = (int64_t)(unit(bits) * (double)size), reach = (int64_t)(half * (double)size);
    *from = within(centre - reach, size);
    *to = within(centre + reach, size);
}

/* Exchanges a rectangle that is 1 - share of the image, but for what of it lies outside. Returns what is left. */
static double exchange(const pair *p, float *a, float *b, const int64_t dims[3], double share) {
    const tcc__draw d = draw(p, 0);
    const double half = sqrt(1 - share) / 2;
    int64_t top, bottom, left, right;
    place(d.bits[1], dims[1], half, &top, &bottom);
    place(d.bits[2], dims[2], half, &left, &right);
    for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
        if (i % dims[1] < top || i % dims[1] >= bottom) continue;
        for (int64_t k = i * dims[2] + left; k < i * dims[2] + right; k++) {
            const float x = a[k];
            a[k] = b[k];
            b[k] = x;
        }
    }
    return 1 - (double)((bottom - top) * (right - left)) / (double)(dims[1] * dims[2]);
}

void tcc__mix_pairs(const tcc_loader_options *o, int64_t epoch, int64_t position, const int32_t *classes, int64_t count,
                    const tcc_array arrays[2]) {
    const int64_t *dims = arrays[0].dims + 1, values = dims[0] * dims[1] * dims[2], n = arrays[1].dims[1];
    float *x = arrays[0].data, *y = arrays[1].data;
    memset(y, 0, (size_t)(count * n) * sizeof *y);
    for (int64_t i = 0; i < count; i += 2) {
        const pair p = {o, epoch, position + i};
        float *a = x + i * values, *b = a + values;
        if (i + 1 == count) { /* it has no partner */
            y[i * n + classes[i]] = 1;
            return;
        }
        const bool cuts = o->cutmix > 0 && (o->mixup <= 0 || draw(&p, 0).bits[0] >> 31);
        double share = share_of(&p, cuts ? o->cutmix : o->mixup);
        if (cuts) share = exchange(&p, a, b, dims, share);
        else blend(a, b, values, (float)share);
        for (int k = 0; k < 2; k++) {
            y[(i + k) * n + classes[i + k]] += (float)share;
            y[(i + k) * n + classes[i + 1 - k]] += (float)(1 - share);
        }
    }
}
