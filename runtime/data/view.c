/* SPDX-License-Identifier: MIT
 * Views of pictures. A scaled picture is never made: each pixel of the window is a weighted sum of the pixels around it
 * in the picture, first along rows, then along columns. Weights fall off linearly over one pixel of the smaller of both
 * pictures, so that a smaller one has no jagged edges. */
#include "runtime/data/view.h"
#include "ir/support/alloc.h"
#include "runtime/data/draw.h"

#include <math.h>
#include <string.h>

/* ---- what is drawn ---- */

static tcc_status check_size(tcc_diag *d, const char *prefix, int64_t height, int64_t width, tcc__view_options *out) {
    if (height < 0 || width < 0 || height > TCC__PICTURE_SIDE_MAX || width > TCC__PICTURE_SIDE_MAX || !height != !width)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%sheight is %lld and %swidth %lld; both from 1 to %d, or neither",
                         prefix, (long long)height, prefix, (long long)width, TCC__PICTURE_SIDE_MAX);
    out->height = height;
    out->width = width;
    return TCC_OK;
}

static tcc_status check_part(tcc_diag *d, const tcc_data_options *o, tcc__view_options *out) {
    const double *area = o->crop_area, *ratio = o->crop_ratio;
    const bool given = area[0] != 0 || area[1] != 0, shaped = ratio[0] != 0 || ratio[1] != 0;
    if (!given && shaped)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "crop_ratio goes with crop_area, which is not given");
    if (!given) return TCC_OK;
    if (!(area[0] > 0 && area[1] >= area[0] && area[1] <= 1))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "crop_area is from %g to %g; it lies within 0 and 1", area[0],
                         area[1]);
    if (o->scale[0] != 0 || o->scale[1] != 0)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "crop_area and scale exclude each other");
    for (int i = 0; i < 2; i++) {
        out->area[i] = area[i];
        out->ratio[i] = shaped ? ratio[i] : i ? 4.0 / 3 : 3.0 / 4;
    }
    if (!(out->ratio[0] >= 0.01 && out->ratio[1] >= out->ratio[0] && out->ratio[1] <= 100))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "crop_ratio is from %g to %g; it lies within 0.01 and 100",
                         out->ratio[0], out->ratio[1]);
    return TCC_OK;
}

static tcc_status check_training(tcc_diag *d, const tcc_data_options *options, tcc__view_options *out) {
    bool scaled = options->scale[0] != 0 || options->scale[1] != 0;
    for (int i = 0; i < 2; i++) out->scale[i] = scaled ? options->scale[i] : 1;
    if (!(out->scale[0] >= 0.01 && out->scale[1] >= out->scale[0] && out->scale[1] <= 100))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "scale is from %g to %g; it lies within 0.01 and 100",
                         out->scale[0], out->scale[1]);
    for (int i = 0; i < 3; i++) {
        out->jitter[i] = options->jitter[i];
        if (!(out->jitter[i] >= 0 && out->jitter[i] <= 1))
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "jitter is %g; it lies within 0 and 1", out->jitter[i]);
    }
    out->augment = options->augment;
    out->uniform = options->uniform_scale;
    return check_part(d, options, out);
}

static tcc_status check_validation(tcc_diag *d, const tcc_data_options *options, tcc__view_options *out) {
    const double scale = options->val_scale == 0 ? 1 : options->val_scale;
    if (!(scale >= 0.01 && scale <= 100) || (options->val_fit && options->val_scale != 0))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "val_scale is %g%s; it lies within 0.01 and 100", scale,
                         options->val_fit ? ", and val_fit is given, too" : "");
    out->scale[0] = out->scale[1] = scale;
    out->fit = options->val_fit;
    if (options->val_height || options->val_width)
        return check_size(d, "val_", options->val_height, options->val_width, out);
    return check_size(d, "", options->height, options->width, out);
}

tcc_status tcc__view_check(tcc_diag *d, const tcc_data_options *options, bool cover,
                           tcc__view_options out[TCC_SPLIT_COUNT]) {
    for (int i = 0; i < TCC_SPLIT_COUNT; i++) out[i] = (tcc__view_options){.cover = cover};
    if (options->n_fill != 0 && options->n_fill != 1 && options->n_fill != 3)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "fill is given for %d channels, but images have 3",
                         options->n_fill);
    for (int c = 0; c < options->n_fill; c++)
        if (!(options->fill[c] >= 0 && options->fill[c] <= 255))
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "fill is %g; it lies within 0 and 255", options->fill[c]);
    TCC_TRY(check_training(d, options, &out[TCC_SPLIT_TRAIN]));
    TCC_TRY(check_size(d, "", options->height, options->width, &out[TCC_SPLIT_TRAIN]));
    return check_validation(d, options, &out[TCC_SPLIT_VALIDATION]);
}

static double unit(uint32_t bits) { return (double)bits / 4294967296.0; }

/* Where the window begins in what is larger by `slack`. What is smaller lies in its middle, with the odd pixel above or
 * to the left. */
static int64_t place(int64_t slack, bool anywhere, uint32_t bits) {
    if (slack < 0) return -((1 - slack) / 2);
    return anywhere ? (int64_t)(unit(bits) * (double)(slack + 1)) : slack / 2;
}

static int64_t scaled(int64_t size, double factor) {
    int64_t result = llround((double)size * factor);
    return result > 1 ? result : 1;
}

/* As torchvision's RandomResizedCrop: of ten tries the first that fits, else the largest part in the middle whose shape
 * is allowed. */
static void draw_part(const tcc__view_options *o, const tcc__sample *sample, int64_t height, int64_t width,
                      tcc__view *v) {
    enum { TRIES = 10 };
    const double pixels = (double)height * (double)width, least = log(o->ratio[0]), most = log(o->ratio[1]);
    for (int i = 0; i < TRIES; i++) {
        const tcc__draw a = tcc__draw_at(sample->seed, (tcc__purpose)(TCC__DRAW_PART + i), sample->epoch,
                                         sample->position);
        const double area = pixels * (o->area[0] + (o->area[1] - o->area[0]) * unit(a.bits[0]));
        const double ratio = exp(least + (most - least) * unit(a.bits[1]));
        const int64_t w = llround(sqrt(area * ratio)), h = llround(sqrt(area / ratio));
        if (w < 1 || h < 1 || w > width || h > height) continue;
        v->first[0] = place(height - h, true, a.bits[2]), v->extent[0] = h;
        v->first[1] = place(width - w, true, a.bits[3]), v->extent[1] = w;
        return;
    }
    const double shape = (double)width / (double)height;
    if (shape < o->ratio[0]) v->extent[0] = scaled(width, 1 / o->ratio[0]);
    if (shape > o->ratio[1]) v->extent[1] = scaled(height, o->ratio[1]);
    v->first[0] = (height - v->extent[0]) / 2;
    v->first[1] = (width - v->extent[1]) / 2;
}

tcc__view tcc__view_of(const tcc__view_options *o, const tcc__sample *sample, int64_t height, int64_t width) {
    tcc__view v = {.extent = {height, width}, .colour = {1, 1, 1}};
    tcc__draw a = tcc__draw_at(sample->seed, TCC__DRAW_AUGMENT, sample->epoch, sample->position);
    tcc__draw b = tcc__draw_at(sample->seed, TCC__DRAW_COLOUR, sample->epoch, sample->position);
    double rows = (double)o->height / (double)height, columns = (double)o->width / (double)width;
    const bool anywhere = o->augment;
    double factor = !o->cover ? 1 : rows > columns ? rows : columns;
    if (o->fit) factor = rows < columns ? rows : columns;
    const double drawn = unit(a.bits[3]), least = o->scale[0], most = o->scale[1];
    factor *= o->uniform ? least + (most - least) * drawn : least * pow(most / least, drawn);
    v.factor[0] = v.factor[1] = factor;
    if (o->area[1] > 0) {
        draw_part(o, sample, height, width, &v);
        v.factor[0] = (double)o->height / (double)v.extent[0];
        v.factor[1] = (double)o->width / (double)v.extent[1];
    }
    for (int i = 0; i < 3; i++) v.colour[i] = (float)(1 + o->jitter[i] * (2 * unit(b.bits[i]) - 1));
    v.top = place(scaled(v.extent[0], v.factor[0]) - o->height, anywhere, a.bits[0]);
    v.left = place(scaled(v.extent[1], v.factor[1]) - o->width, anywhere, a.bits[1]);
    v.mirrored = anywhere && a.bits[2] >> 31;
    return v;
}

/* ---- scaling ---- */

/* Along one direction: which source pixels a pixel of the window is made of; all of them are in the part that is looked
 * at. */
typedef struct taps {
    int64_t *first; /* a window's pixel each; `count` of them; -1: outside */
    float *weights; /* `most` each, from `first` on */
    int64_t most;
    int64_t low, high; /* source pixels that are needed: [low, high) */
    int64_t end;       /* of the part */
} taps;

/* `direction`: 0 for rows, 1 for columns. */
static bool make_taps(const tcc__view *v, int direction, int64_t window, int64_t start, bool mirrored, taps *out) {
    const int64_t source = v->extent[direction], begin = v->first[direction];
    const double factor = v->factor[direction], reach = factor < 1 ? 1 / factor : 1;
    *out = (taps){.most = 2 * (int64_t)ceil(reach) + 1, .low = begin + source, .end = begin + source};
    out->first = tcc__malloc((size_t)window * sizeof *out->first);
    out->weights = tcc__calloc((size_t)(window * out->most), sizeof *out->weights);
    if (!out->first || !out->weights) return false;
    int64_t size = scaled(source, factor);
    for (int64_t i = 0; i < window; i++) {
        int64_t at = start + (mirrored ? window - 1 - i : i);
        out->first[i] = -1;
        if (at < 0 || at >= size) continue;
        double centre = ((double)at + 0.5) * (double)source / (double)size, sum = 0;
        int64_t first = (int64_t)floor(centre - reach - 0.5) + 1, last = (int64_t)ceil(centre + reach - 0.5) - 1;
        if (first < 0) first = 0;
        if (last >= source) last = source - 1;
        float *weights = out->weights + i * out->most;
        for (int64_t j = first; j <= last; j++) {
            double weight = 1 - fabs((double)j + 0.5 - centre) / reach;
            weights[j - first] = weight > 0 ? (float)weight : 0;
            sum += weights[j - first];
        }
        for (int64_t j = first; j <= last; j++) weights[j - first] = (float)(weights[j - first] / sum);
        out->first[i] = begin + first;
        if (begin + first < out->low) out->low = begin + first;
        if (begin + last >= out->high) out->high = begin + last + 1;
    }
    return true;
}

static void free_taps(taps *t) {
    tcc__free(t->first);
    tcc__free(t->weights);
}

/* One source row along the window's columns, three channels. */
static void scale_row(const taps *t, int64_t window, const uint8_t *row, float *out) {
    for (int64_t i = 0; i < window; i++, out += 3) {
        float sum[3] = {0};
        const float *weights = t->weights + i * t->most;
        int64_t first = t->first[i], count = first < 0 ? 0 : t->end - first < t->most ? t->end - first : t->most;
        for (int64_t j = 0; j < count; j++)
            for (int c = 0; c < 3; c++) sum[c] += weights[j] * row[3 * (first + j) + c];
        memcpy(out, sum, sizeof sum);
    }
}

/* The window's rows from the scaled source rows, which begin at down->low. */
static void scale_columns(const taps *down, const tcc__view_options *o, const float *rows, float *out) {
    int64_t width = 3 * o->width;
    for (int64_t i = 0; i < o->height; i++, out += width) {
        memset(out, 0, (size_t)width * sizeof *out);
        const float *weights = down->weights + i * down->most;
        int64_t first = down->first[i];
        int64_t count = first < 0 ? 0 : down->end - first < down->most ? down->end - first : down->most;
        for (int64_t j = 0; j < count; j++) {
            if (weights[j] == 0) continue;
            const float *row = rows + (first + j - down->low) * width;
            for (int64_t k = 0; k < width; k++) out[k] += weights[j] * row[k];
        }
    }
}

/* ---- colours ---- */

static float within(float v) { return v < 0 ? 0 : v > 255 ? 255 : v; }
static float grey_of(const float *p) { return 0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2]; }

/* In this order; what is outside of the picture is not looked at. */
static void change_colours(const tcc__view *v, const bool *inside, int64_t pixels, float *window) {
    if (v->colour[0] == 1 && v->colour[1] == 1 && v->colour[2] == 1) return;
    double sum = 0, count = 0;
    for (int64_t i = 0; i < pixels; i++) {
        float *p = window + 3 * i;
        if (!inside[i]) continue;
        for (int c = 0; c < 3; c++) p[c] = within(p[c] * v->colour[0]);
        sum += (double)grey_of(p);
        count++;
    }
    float average = count > 0 ? (float)(sum / count) : 0;
    for (int64_t i = 0; i < pixels; i++) {
        float *p = window + 3 * i;
        for (int c = 0; c < 3; c++) p[c] = within(average + (p[c] - average) * v->colour[1]);
        float grey = grey_of(p);
        for (int c = 0; c < 3; c++) p[c] = within(grey + (p[c] - grey) * v->colour[2]);
    }
}

/* ---- views ---- */

static void store(const tcc__view_options *o, const bool *inside, const float *window, float *out) {
    int64_t pixels = o->height * o->width;
    for (int c = 0; c < 3; c++) {
        float scale = 1 / (255 * o->std[c]), shift = o->mean[c] / o->std[c];
        for (int64_t i = 0; i < pixels; i++) *out++ = inside[i] ? window[3 * i + c] * scale - shift : o->outside[c];
    }
}

static bool render(const tcc__view_options *o, const tcc__view *v, const tcc__picture *p, const taps *down,
                   const taps *along, float *out) {
    int64_t rows = down->high > down->low ? down->high - down->low : 0, pixels = o->height * o->width;
    float *scaled_rows = tcc__malloc((size_t)(rows * 3 * o->width) * sizeof *scaled_rows);
    float *window = tcc__malloc((size_t)(pixels * 3) * sizeof *window);
    bool *inside = tcc__malloc((size_t)pixels * sizeof *inside);
    bool ok = scaled_rows && window && inside;
    for (int64_t i = 0; i < rows && ok; i++)
        scale_row(along, o->width, p->pixels + (down->low + i) * p->width * 3, scaled_rows + i * 3 * o->width);
    if (ok) {
        scale_columns(down, o, scaled_rows, window);
        for (int64_t i = 0; i < pixels; i++)
            inside[i] = down->first[i / o->width] >= 0 && along->first[i % o->width] >= 0;
        change_colours(v, inside, pixels, window);
        store(o, inside, window, out);
    }
    tcc__free(scaled_rows);
    tcc__free(window);
    tcc__free(inside);
    return ok;
}

tcc_status tcc__view_picture(tcc_diag *d, const tcc__view_options *o, const tcc__view *v, const tcc__picture *picture,
                             float *out) {
    taps down = {0}, along = {0};
    bool ok = make_taps(v, 0, o->height, v->top, false, &down) &&
              make_taps(v, 1, o->width, v->left, v->mirrored, &along) && render(o, v, picture, &down, &along, out);
    free_taps(&down);
    free_taps(&along);
    return ok ? TCC_OK : tcc_enomem(d);
}

void tcc__view_labels(const tcc__view_options *o, const tcc__view *v, const tcc__picture *labels, int32_t outside,
                      int32_t *out) {
    int64_t height = scaled(v->extent[0], v->factor[0]), width = scaled(v->extent[1], v->factor[1]);
    for (int64_t i = 0; i < o->height; i++) {
        int64_t row = v->top + i, from_row = v->first[0] + (2 * row + 1) * v->extent[0] / (2 * height);
        for (int64_t j = 0; j < o->width; j++) {
            int64_t column = v->left + (v->mirrored ? o->width - 1 - j : j);
            bool inside = row >= 0 && row < height && column >= 0 && column < width;
            int64_t from = v->first[1] + (2 * column + 1) * v->extent[1] / (2 * width);
            *out++ = inside ? labels->pixels[from_row * labels->width + from] : outside;
        }
    }
}
