/* SPDX-License-Identifier: MIT
 * Pictures as SVG text. Coordinates are in pixels, from the upper left corner. */
#ifndef TCC_PASSES_SVG_H
#define TCC_PASSES_SVG_H

#include "ir/support/strbuf.h"

#include <stdbool.h>

void tcc_svg_begin(tcc_strbuf *b, int width, int height);
void tcc_svg_end(tcc_strbuf *b);
/* `title` shows under the pointer; NULL: nothing does. */
void tcc_svg_rect(tcc_strbuf *b, double x, double y, double width, double height, const char *color, const char *title);
void tcc_svg_circle(tcc_strbuf *b, double x, double y, double radius, const char *color, const char *title);
void tcc_svg_line(tcc_strbuf *b, double x1, double y1, double x2, double y2, const char *color, bool dashed);
/* `anchor`: "start", "middle" or "end" of the text is at x. */
void tcc_svg_text(tcc_strbuf *b, double x, double y, const char *anchor, const char *text);
/* A square of the color and the text beside it. */
void tcc_svg_legend(tcc_strbuf *b, double x, double y, const char *color, const char *text);

#endif
