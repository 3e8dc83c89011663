/* SPDX-License-Identifier: MIT
 * What a sample shows of a picture: scaled, a window of it, mirrored, in changed colours. The same view is taken of a
 * picture and of its labels. */
#ifndef TCC_RUNTIME_DATA_VIEW_H
#define TCC_RUNTIME_DATA_VIEW_H

#include "runtime/data/data.h"
#include "runtime/data/pictures/picture.h"

/* What the user asks for. */
typedef struct tcc__view_options {
    int64_t height, width; /* of the window */
    bool cover;       /* before a random scale a picture is scaled to just cover the window; else it keeps its size */
    bool augment;     /* the window lies anywhere, and half are mirrored; else it is in the middle */
    bool fit;         /* before it a picture is scaled to just fit into the window */
    double scale[2];  /* drawn from this range, its logarithm uniformly */
    bool uniform;     /* the factor itself */
    double area[2];   /* a part is drawn that has so much of the area, and is scaled to be the window; 0, 0: none */
    double ratio[2];  /* width over height of it */
    double jitter[3]; /* brightness, contrast and saturation change by up to this share */
    float mean[3], std[3]; /* of pixels as 0 to 1 */
    float outside[3];      /* what is outside of the picture, normalized */
} tcc__view_options;

/* Checks the options of pictures; out[split] may have no size yet. */
tcc_status tcc__view_check(tcc_diag *d, const tcc_data_options *options, bool cover,
                           tcc__view_options out[TCC_SPLIT_COUNT]);

/* One sample's. */
typedef struct tcc__view {
    int64_t first[2], extent[2]; /* the part of the picture that is looked at: rows, columns */
    double factor[2];            /* of their number */
    int64_t top, left;           /* of the window in that part, scaled; below 0 where that is smaller */
    bool mirrored;
    float colour[3]; /* brightness, contrast, saturation: 1 leaves them */
} tcc__view;

tcc__view tcc__view_of(const tcc__view_options *o, const tcc__sample *sample, int64_t height, int64_t width);

/* f32 [3,H,W], normalized. */
tcc_status tcc__view_picture(tcc_diag *d, const tcc__view_options *o, const tcc__view *v, const tcc__picture *picture,
                             float *out);
/* i32 [H,W]; `outside` outside of the picture. Scaled by taking the nearest. */
void tcc__view_labels(const tcc__view_options *o, const tcc__view *v, const tcc__picture *labels, int32_t outside,
                      int32_t *out);

#endif
