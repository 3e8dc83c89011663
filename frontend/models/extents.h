/* SPDX-License-Identifier: MIT
 * Options of models that must be 1 or more. */
#ifndef TCC_FRONTEND_MODELS_EXTENTS_H
#define TCC_FRONTEND_MODELS_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct extent {
    const char *name;
    int64_t value;
} extent;

/* The first that is less; NULL: none. */
static inline const extent *first_below_1(int count, const extent *extents) {
    for (int i = 0; i < count; i++)
        if (extents[i].value < 1) return &extents[i];
    return NULL;
}
#define EXTENTS(...) \
    (int)(sizeof((extent[]){__VA_ARGS__}) / sizeof(extent)), (const extent[]) { __VA_ARGS__ }

#endif
