/* SPDX-License-Identifier: MIT
 * Posts: up to 64 nodes of the graph's longest path, evenly spaced, of which every node knows whether it waits for them
 * and whether they wait for it. Where a unit waits for another one through thousands of units, as a gradient does for
 * the beginning of the forward pass, a post on the way says so at once, and no search has to walk there. */
#include "ir/support/alloc.h"
#include "passes/fuse/units.h"

/* Fills `path` with the graph's longest path, from its end; its length. `level` by node. */
static int longest_path(const tcc_graph *g, int *level, int *path) {
    int last = -1, length = 0;
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        level[i] = 0;
        for (int k = 0; k < n->n_operands; k++) {
            const int below = level[n->operands[k]->id];
            if (below >= level[i]) level[i] = below + 1;
        }
        if (last < 0 || level[i] > level[last]) last = i;
    }
    while (last >= 0) {
        const tcc_node *n = g->nodes.data[last];
        int next = -1;
        path[length++] = last;
        for (int k = 0; k < n->n_operands && next < 0; k++)
            if (level[n->operands[k]->id] == level[last] - 1) next = n->operands[k]->id;
        last = next;
    }
    return length;
}

/* Each node waits for what its operands wait for, and for those of them that are posts; and the other way round. */
static void spread(tcc_fuser *f) {
    const tcc_graph *g = f->g;
    for (int p = 0; p < f->n_posts; p++) f->behind[f->posts[p]] = f->ahead[f->posts[p]] = (uint64_t)1 << p;
    for (int i = 0; i < g->nodes.count; i++)
        for (int k = 0; k < g->nodes.data[i]->n_operands; k++)
            f->behind[i] |= f->behind[g->nodes.data[i]->operands[k]->id];
    for (int i = g->nodes.count - 1; i >= 0; i--)
        for (int k = 0; k < g->nodes.data[i]->n_operands; k++)
            f->ahead[g->nodes.data[i]->operands[k]->id] |= f->ahead[i];
}

bool tcc_fuser_set_posts(tcc_fuser *f) {
    const size_t count = (size_t)f->g->nodes.count + 1;
    int *level = tcc__malloc(2 * count * sizeof *level);
    f->behind = tcc__calloc(count, sizeof *f->behind);
    f->ahead = tcc__calloc(count, sizeof *f->ahead);
    if (level && f->behind && f->ahead) {
        int *path = level + count;
        const int length = longest_path(f->g, level, path);
        f->n_posts = length < TCC_FUSE_MOST_POSTS ? length : TCC_FUSE_MOST_POSTS;
        for (int p = 0; p < f->n_posts; p++) f->posts[p] = path[(int64_t)p * length / f->n_posts];
        spread(f);
    }
    tcc__free(level);
    return level && f->behind && f->ahead;
}

bool tcc_fuser_post_between(const tcc_fuser *f, int to, int from) {
    const uint64_t between = f->units.data[to].behind & f->units.data[from].ahead;
    for (int p = 0; p < f->n_posts; p++) {
        const int home = f->home[f->posts[p]]; /* an inlined post is in each unit that reads it */
        if ((between >> p & 1) && home != TCC_FUSE_NO_UNIT && home != to && home != from) return true;
    }
    return false;
}
