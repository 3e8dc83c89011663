/* SPDX-License-Identifier: MIT
 * Line charts as SVG, which take the colours of a light or a dark page. */
#ifndef TCC_TOOLS_CHART_H
#define TCC_TOOLS_CHART_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Points in the order in which they are joined. What is infinite or NaN breaks the line. */
typedef struct chart_series {
    const char *name; /* for the legend; NULL: none */
    const double *x, *y;
    int64_t count;
    bool points; /* marked one by one, not joined */
    int color;   /* from 0; of CHART_COLORS that differ */
} chart_series;

enum { CHART_COLORS = 6 };

typedef struct chart {
    const char *title, *x_label, *y_label;
    bool log_x, log_y; /* what is not above 0 is left out there */
    const chart_series *series;
    int n_series;
    double mark; /* a vertical line at this x, with its label; NaN: none */
    const char *mark_label;
} chart;

/* The rules of colour that charts rely on: once in a page's style. */
extern const char chart_style[];

/* Writes the <svg> element, 640 units wide and as wide as the page lets it be. Without a finite point it says so.
 * Errors stay in the stream. */
void chart_print(FILE *out, const chart *c);
/* A whole file of it. */
void chart_print_file(FILE *out, const chart *c);

/* Text with what HTML and XML give a meaning to escaped. */
void chart_print_text(FILE *out, const char *text);

#endif
