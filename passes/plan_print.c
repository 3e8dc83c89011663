/* SPDX-License-Identifier: MIT
 * A memory plan as a table and as a picture. */
#include "passes/plan.h"

#include "ir/support/alloc.h"
#include "passes/group.h"

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

void tcc_plan_svg(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan) {
    enum { WIDTH = 1200, HEIGHT = 700, LEFT = 10, BOTTOM = 710 };
    static const char *const colors[] = {"#4e79a7", "#f28e2b", "#e15759", "#76b7b2",
                                         "#59a14f", "#edc948", "#b07aa1", "#9c755f"};
    const int launches = plan->start[g->groups.count];
    double per_launch = (double)WIDTH / (launches + 1);
    double per_byte = (double)HEIGHT / (double)(g->arena_bytes ? g->arena_bytes : 1);
    tcc_strbuf_printf(
        b,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"11\">\n<text x=\"%d\" y=\"%d\">%d launches, arena %lld bytes, most alive at once %lld "
        "bytes</text>\n",
        WIDTH + 2 * LEFT, BOTTOM + 20, LEFT, BOTTOM + 14, launches, (long long)g->arena_bytes,
        (long long)plan->peak_bytes);
    for (int i = 0; i < plan->values.count; i++) {
        const tcc_plan_value *v = &plan->values.data[i];
        double height = (double)v->size_bytes * per_byte, top = BOTTOM - (double)v->offset_bytes * per_byte - height;
        tcc_strbuf_printf(b,
                          "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"white\" "
                          "stroke-width=\"0.3\"><title>%s: %lld bytes at %lld, launches %d to %d</title></rect>\n",
                          LEFT + v->first * per_launch, top, (v->last - v->first + 1) * per_launch, height,
                          colors[(v->node ? v->node->id : i) % (int)(sizeof colors / sizeof colors[0])],
                          v->node        ? tcc_op_get_info(v->node->op)->text
                          : v->group < 0 ? "state"
                                         : "temporary",
                          (long long)v->size_bytes, (long long)v->offset_bytes, v->first, v->last);
    }
    tcc_strbuf_add(b, "</svg>\n");
}
