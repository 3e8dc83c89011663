/* SPDX-License-Identifier: MIT
 * A memory plan as a table and as a picture. */
#include "passes/memory/plan.h"

#include "ir/support/alloc.h"
#include "passes/backward.h"
#include "passes/group.h"
#include "passes/svg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tcc_plan_value_text(const tcc_graph *g, const tcc_plan_value *v) {
    static _Thread_local char buffers[2][160];
    static _Thread_local unsigned next;
    char *text = buffers[next++ % 2];
    if (v->node) return tcc_node_text(v->node);
    if (v->group < 0) snprintf(text, sizeof buffers[0], "output '%s' on its way", g->outputs.data[v->temporary].name);
    else {
        const tcc_group *group = &g->groups.data[v->group];
        snprintf(text, sizeof buffers[0], "t%d of group %d, %s by %s", v->temporary, v->group,
                 tcc_group_kind_text(group->kind), group->implementation ? group->implementation->name : "nothing");
    }
    return text;
}

static tcc_loc value_loc(const tcc_graph *g, const tcc_plan_value *v) {
    if (v->node) return v->node->loc;
    return v->group < 0 ? g->outputs.data[v->temporary].node->loc : g->groups.data[v->group].hero->loc;
}

static int larger_first(const void *a, const void *b) {
    const tcc_plan_value *x = a, *y = b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? 1 : -1;
    return x->first != y->first ? x->first - y->first : (x > y) - (x < y);
}

void tcc_plan_print(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan) {
    tcc_strbuf_printf(b, "arena %lld bytes, %d values in %d launches of %d groups\n", (long long)g->arena_bytes,
                      plan->values.count, plan->start[g->groups.count], g->groups.count);
    tcc_strbuf_printf(b, "most alive at once: %lld bytes, in launch %d\n\n", (long long)plan->peak_bytes,
                      plan->peak_moment);
    tcc_strbuf_add(b, "      bytes       offset  launches       at peak  value\n");
    size_t size_bytes = sizeof *plan->values.data * (size_t)plan->values.count;
    tcc_plan_value *sorted = tcc__malloc(size_bytes + 1);
    if (!sorted) {
        b->failed = true;
        return;
    }
    if (size_bytes) memcpy(sorted, plan->values.data, size_bytes);
    qsort(sorted, (size_t)plan->values.count, sizeof *sorted, larger_first);
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *v = &sorted[i];
        bool at_peak = v->first <= plan->peak_moment && plan->peak_moment <= v->last;
        tcc_strbuf_printf(b, "%11lld %12lld  %5d..%-5d  %-7s  %s", (long long)v->size_bytes, (long long)v->offset_bytes,
                          v->first, v->last, at_peak ? "yes" : "", tcc_plan_value_text(g, v));
        if (value_loc(g, v).file) tcc_strbuf_add(b, "  "), tcc_loc_print(b, value_loc(g, v));
        tcc_strbuf_add(b, "\n");
    }
    tcc__free(sorted);
}

/* -- The picture -- */

typedef enum part { RELEASED, KEPT, AGAIN, BACKWARD, TEMPORARY, STAGED, PARTS } part;

static const struct {
    const char *color, *text;
} parts[] = {{"#a0cbe8", "of the forward pass alone"},
             {"#6b9bd1", "kept for the backward pass"},
             {"#e15759", "computed again"},
             {"#8cd17d", "of the backward pass"},
             {"#bab0ac", "temporaries and workspaces"},
             {"#b07aa1", "states on their way"}};

/* The moment in which the backward pass begins: most bytes that are computed before are of the forward pass, and most
 * of the rest are not. Small work of the forward pass, as running statistics, may wait. */
static int backward_begin(const tcc_graph *g, const tcc_plan *plan) {
    int64_t sum = 0, best = 0;
    int begin = 0;
    bool *backward = tcc_backward_nodes(g);
    for (int t = 0; t < g->groups.count; t++) {
        const tcc_group *group = &g->groups.data[t];
        int64_t bytes = 0;
        bool forward = !backward;
        for (int i = 0; i < group->n_outputs; i++) {
            bytes += tcc_type_bytes(&group->outputs[i]->type);
            forward = forward || !backward[group->outputs[i]->id]; /* beside it there may be factors of gradients */
        }
        sum += forward ? bytes : -bytes;
        if (sum <= best) continue;
        best = sum;
        begin = t + 1;
    }
    tcc__free(backward);
    return plan->start[begin];
}

static part part_of(const tcc_plan_value *v, int begin) {
    if (!v->node) return v->group < 0 ? STAGED : TEMPORARY;
    if (v->node->marks & TCC_MARK_REMAT) return AGAIN;
    return v->first >= begin ? BACKWARD : v->last >= begin ? KEPT : RELEASED;
}

enum { WIDTH = 1200, HEIGHT = 640, LEFT = 84, RIGHT = 30, TOP = 78, BOTTOM = TOP + HEIGHT };
enum { LARGEST = 8, TICKS = 8, ROW = 16 };

static void draw_value(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan, const tcc_plan_value *v, part part) {
    const double per_launch = (double)WIDTH / (plan->start[g->groups.count] + 1);
    const double per_byte = (double)HEIGHT / (double)(g->arena_bytes ? g->arena_bytes : 1);
    const double height = (double)v->size_bytes * per_byte, width = (v->last - v->first + 1) * per_launch;
    const double x = LEFT + v->first * per_launch, y = BOTTOM - (double)v->offset_bytes * per_byte - height;
    tcc_strbuf title = {0};
    tcc_strbuf_bytes(&title, (double)v->size_bytes);
    tcc_strbuf_printf(&title, " at %lld, launches %d to %d: %s", (long long)v->offset_bytes, v->first, v->last,
                      tcc_plan_value_text(g, v));
    if (value_loc(g, v).file) tcc_strbuf_add(&title, "  "), tcc_loc_print(&title, value_loc(g, v));
    tcc_svg_rect(b, x, y, width, height, parts[part].color, title.text);
    b->failed |= title.failed;
    tcc_strbuf_free(&title);
    const char *op = v->node ? tcc_op_get_info(v->node->op)->text : "";
    if (*op && width > 8 * (double)strlen(op) && height > 13)
        tcc_svg_text(b, x + width / 2, y + height / 2 + 4, "middle", op);
}

static void draw_heading(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan, const int64_t *at_peak) {
    tcc_strbuf text = {0};
    tcc_strbuf_add(&text, "Memory over time: arena of ");
    tcc_strbuf_bytes(&text, (double)g->arena_bytes);
    tcc_strbuf_printf(&text, " in %d launches; most alive at once ", plan->start[g->groups.count]);
    tcc_strbuf_bytes(&text, (double)plan->peak_bytes);
    tcc_strbuf_printf(&text, ", in launch %d (dashed)", plan->peak_moment);
    tcc_svg_text(b, 10, 18, "start", text.text ? text.text : "");
    for (int i = 0, shown = 0; i < PARTS; i++) {
        if (at_peak[i] < 0) continue;
        text.length = 0;
        tcc_strbuf_printf(&text, "%s: ", parts[i].text);
        tcc_strbuf_bytes(&text, (double)at_peak[i]);
        tcc_strbuf_add(&text, " at the peak");
        tcc_svg_legend(b, 10 + shown % 3 * 390, 38 + shown / 3 * 18, parts[i].color, text.text ? text.text : "");
        shown++;
    }
    b->failed |= text.failed;
    tcc_strbuf_free(&text);
}

/* Where a group's work comes from: its hero's line of the model. */
static void print_group_line(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan, int launch) {
    int t = 0;
    while (t + 1 < g->groups.count && plan->start[t + 1] <= launch) t++;
    if (t >= g->groups.count) return;
    const tcc_loc loc = g->groups.data[t].hero->loc;
    tcc_strbuf_printf(b, "group %d", t);
    if (loc.file) tcc_strbuf_add(b, ", "), tcc_loc_print(b, loc);
}

/* Bytes upwards, launches to the right; below, the groups that the ticks stand for, with their lines of the model. */
static void draw_axes(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan) {
    const int launches = plan->start[g->groups.count];
    const double per_launch = (double)WIDTH / (launches + 1);
    tcc_strbuf text = {0};
    for (int i = 0; i <= 4; i++) {
        const double y = BOTTOM - HEIGHT * i / 4.0;
        text.length = 0;
        tcc_strbuf_bytes(&text, (double)g->arena_bytes * i / 4);
        tcc_svg_line(b, LEFT - 5, y, LEFT, y, "black", false);
        tcc_svg_text(b, LEFT - 8, y + 4, "end", text.text ? text.text : "");
    }
    tcc_svg_line(b, LEFT, TOP, LEFT, BOTTOM, "black", false);
    tcc_svg_line(b, LEFT, BOTTOM, LEFT + WIDTH, BOTTOM, "black", false);
    for (int i = 0, last = -1; i < TICKS; i++) {
        const int launch = (int)((int64_t)launches * i / TICKS);
        const double x = LEFT + (launch + 0.5) * per_launch;
        if (launch == last) continue;
        last = launch;
        text.length = 0;
        tcc_strbuf_printf(&text, "launch %d", launch);
        tcc_svg_line(b, x, BOTTOM, x, BOTTOM + 5, "black", false);
        tcc_svg_text(b, x, BOTTOM + ROW + 2, "middle", text.text ? text.text : "");
        text.length = 0;
        tcc_strbuf_printf(&text, "launch %d: ", launch);
        print_group_line(&text, g, plan, launch);
        tcc_svg_text(b, LEFT + (i % 2) * (WIDTH / 2), BOTTOM + (4 + i / 2) * ROW, "start", text.text ? text.text : "");
    }
    b->failed |= text.failed;
    tcc_strbuf_free(&text);
}

/* Numbers on the largest values, and a list of them below. */
static void draw_largest(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan) {
    const double per_launch = (double)WIDTH / (plan->start[g->groups.count] + 1);
    const double per_byte = (double)HEIGHT / (double)(g->arena_bytes ? g->arena_bytes : 1);
    int chosen[LARGEST], count = 0;
    tcc_strbuf text = {0};
    for (int i = 0; i < plan->values.count; i++) {
        int at = count < LARGEST ? count++ : LARGEST;
        for (; at > 0 && larger_first(&plan->values.data[i], &plan->values.data[chosen[at - 1]]) < 0; at--)
            if (at < LARGEST) chosen[at] = chosen[at - 1];
        if (at < LARGEST) chosen[at] = i;
    }
    for (int k = 0; k < count; k++) {
        const tcc_plan_value *v = &plan->values.data[chosen[k]];
        const double height = (double)v->size_bytes * per_byte;
        text.length = 0;
        tcc_strbuf_printf(&text, "%d", k + 1);
        tcc_svg_text(b, LEFT + v->first * per_launch + 3, BOTTOM - (double)v->offset_bytes * per_byte - height + 12,
                     "start", text.text ? text.text : "");
        tcc_strbuf_add(&text, ": ");
        tcc_strbuf_bytes(&text, (double)v->size_bytes);
        tcc_strbuf_printf(&text, ", launches %d to %d, %s", v->first, v->last, tcc_plan_value_text(g, v));
        if (value_loc(g, v).file) tcc_strbuf_add(&text, "  "), tcc_loc_print(&text, value_loc(g, v));
        tcc_svg_text(b, LEFT, BOTTOM + (5 + TICKS / 2 + k) * ROW, "start", text.text ? text.text : "");
    }
    b->failed |= text.failed;
    tcc_strbuf_free(&text);
}

void tcc_plan_svg(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan) {
    const int begin = backward_begin(g, plan), launches = plan->start[g->groups.count];
    const double per_launch = (double)WIDTH / (launches + 1), peak = LEFT + (plan->peak_moment + 0.5) * per_launch;
    int64_t at_peak[PARTS] = {-1, -1, -1, -1, -1, -1}; /* -1: there are none */
    tcc_svg_begin(b, LEFT + WIDTH + RIGHT, BOTTOM + (6 + TICKS / 2 + LARGEST) * ROW);
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *v = &plan->values.data[i];
        const part part = part_of(v, begin);
        draw_value(b, g, plan, v, part);
        if (at_peak[part] < 0) at_peak[part] = 0;
        if (v->first <= plan->peak_moment && plan->peak_moment <= v->last) at_peak[part] += v->size_bytes;
    }
    draw_heading(b, g, plan, at_peak);
    draw_axes(b, g, plan);
    draw_largest(b, g, plan);
    tcc_svg_line(b, peak, TOP, peak, BOTTOM, "black", true);
    tcc_svg_text(b, peak, TOP - 4, "middle", "peak");
    if (begin < launches) {
        tcc_svg_line(b, LEFT + begin * per_launch, TOP, LEFT + begin * per_launch, BOTTOM + 2.4 * ROW, "gray", false);
        tcc_svg_text(b, LEFT + begin * per_launch - 5, BOTTOM + 2.3 * ROW, "end", "forward");
        tcc_svg_text(b, LEFT + begin * per_launch + 5, BOTTOM + 2.3 * ROW, "start", "backward and update");
    }
    tcc_svg_end(b);
}
