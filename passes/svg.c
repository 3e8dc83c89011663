/* SPDX-License-Identifier: MIT */
#include "passes/svg.h"

static void add_escaped(tcc_strbuf *b, const char *text) {
    for (; *text; text++) {
        if (*text == '<') tcc_strbuf_add(b, "&lt;");
        else if (*text == '>') tcc_strbuf_add(b, "&gt;");
        else if (*text == '&') tcc_strbuf_add(b, "&amp;");
        else tcc_strbuf_addn(b, text, 1);
    }
}

/* Ends an element that may have a title. */
static void close(tcc_strbuf *b, const char *element, const char *title) {
    if (!title) {
        tcc_strbuf_add(b, "/>\n");
        return;
    }
    tcc_strbuf_add(b, "><title>");
    add_escaped(b, title);
    tcc_strbuf_printf(b, "</title></%s>\n", element);
}

void tcc_svg_begin(tcc_strbuf *b, int width, int height) {
    tcc_strbuf_printf(b,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                      "font-family=\"sans-serif\" font-size=\"12\">\n",
                      width, height, width, height);
    tcc_svg_rect(b, 0, 0, width, height, "white", NULL);
}

void tcc_svg_end(tcc_strbuf *b) { tcc_strbuf_add(b, "</svg>\n"); }

void tcc_svg_rect(tcc_strbuf *b, double x, double y, double width, double height, const char *color,
                  const char *title) {
    tcc_strbuf_printf(b,
                      "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"white\" "
                      "stroke-width=\"0.5\"",
                      x, y, width, height, color);
    close(b, "rect", title);
}

void tcc_svg_circle(tcc_strbuf *b, double x, double y, double radius, const char *color, const char *title) {
    tcc_strbuf_printf(b, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%.1f\" fill=\"%s\"", x, y, radius, color);
    close(b, "circle", title);
}

void tcc_svg_line(tcc_strbuf *b, double x1, double y1, double x2, double y2, const char *color, bool dashed) {
    tcc_strbuf_printf(b, "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"%s\"%s", x1, y1, x2, y2, color,
                      dashed ? " stroke-dasharray=\"5,3\"" : "");
    close(b, "line", NULL);
}

void tcc_svg_text(tcc_strbuf *b, double x, double y, const char *anchor, const char *text) {
    tcc_strbuf_printf(b, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\">", x, y, anchor);
    add_escaped(b, text);
    tcc_strbuf_add(b, "</text>\n");
}

void tcc_svg_legend(tcc_strbuf *b, double x, double y, const char *color, const char *text) {
    tcc_svg_rect(b, x, y - 10, 12, 12, color, NULL);
    tcc_svg_text(b, x + 17, y, "start", text);
}
