/* SPDX-License-Identifier: MIT
 * Where paths that a branch has split join again: immediate post-dominators of the flow graph, and from its liveness an
 * estimate of the registers a thread needs.
 *
 * Post-dominators after Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", on the reversed graph with
 * one virtual exit. A block that no path leads from to the exit (an endless loop) joins only there. */
#include "ptx.h"

#include <stdlib.h>
#include <string.h>

typedef struct flow {
    const sim_func *f;
    int n;           /* blocks; index n is the virtual exit */
    uint32_t *first; /* n + 1 first instructions */
    int *block_of;   /* instruction -> block */
    int **pred, *n_pred;
    int *order, *number, *idom; /* reverse postorder of the reversed graph */
} flow;

static bool ends_block(const sim_inst *i) {
    return i->kind == K_BRANCH || i->kind == K_BRANCH_INDEX || i->kind == K_EXIT || i->kind == K_RET ||
           i->kind == K_TRAP;
}

static int successors(const flow *g, int b, int *out) {
    const sim_func *f = g->f;
    uint32_t last = g->first[b + 1] - 1;
    const sim_inst *i = &f->code[last];
    int n = 0;
    bool falls = true;
    if (i->kind == K_BRANCH) {
        out[n++] = g->block_of[i->target];
        falls = i->guard >= 0;
    } else if (i->kind == K_BRANCH_INDEX) {
        for (int k = 0; k < f->n_targets[i->target]; k++) out[n++] = g->block_of[f->targets[i->target][k]];
        falls = i->guard >= 0;
    } else if (i->kind == K_EXIT || i->kind == K_RET || i->kind == K_TRAP) {
        out[n++] = g->n;
        falls = i->guard >= 0;
    }
    if (falls) out[n++] = b + 1 < g->n ? b + 1 : g->n;
    return n;
}

static int meet(const flow *g, int a, int b) {
    while (a != b) {
        while (g->number[a] > g->number[b]) a = g->idom[a];
        while (g->number[b] > g->number[a]) b = g->idom[b];
    }
    return a;
}

/* Most 32-bit registers alive at once, counting rows; the usual fixed ones on top. */
static int count_registers(const flow *g) {
    const sim_func *f = g->f;
    size_t words = ((size_t)f->n_rows + 63) / 64;
    uint64_t *live = calloc((size_t)(g->n + 1) * words, sizeof *live), *now = malloc(words * sizeof *now);
    uint8_t *fixed = calloc((size_t)f->n_rows + 1, 1);
    int most = -1;
    if (live && now && fixed) {
        for (int k = 0; k < f->n_constants; k++) fixed[f->constants[k].row] = 1;
        for (int k = 0; k < SR_COUNT; k++)
            if (f->special[k] >= 0) fixed[f->special[k]] = 1;
        most = 0;
        bool changed = true;
        for (int round = 0; changed && round < 64; round++) {
            changed = false;
            for (int b = g->n - 1; b >= 0; b--) {
                int succ[4096];
                int n = successors(g, b, succ);
                memset(now, 0, words * sizeof *now);
                for (int k = 0; k < n; k++)
                    if (succ[k] < g->n)
                        for (size_t q = 0; q < words; q++) now[q] |= live[(size_t)succ[k] * words + q];
                for (uint32_t at = g->first[b + 1]; at-- > g->first[b];) {
                    const sim_inst *i = &f->code[at];
                    if (i->guard < 0)
                        for (int k = 0; k < i->n_out; k++) now[i->out[k] / 64] &= ~(UINT64_C(1) << i->out[k] % 64);
                    const int32_t *in = sim_inputs(f, i);
                    for (int k = 0; k < i->n_in; k++)
                        if (!fixed[in[k]]) now[in[k] / 64] |= UINT64_C(1) << in[k] % 64;
                    if (i->guard >= 0) now[i->guard / 64] |= UINT64_C(1) << i->guard % 64;
                    int count = 0;
                    for (size_t q = 0; q < words; q++) count += __builtin_popcountll(now[q]);
                    if (count > most) most = count;
                }
                uint64_t *mine = live + (size_t)b * words;
                if (memcmp(mine, now, words * sizeof *now) != 0) changed = true, memcpy(mine, now, words * sizeof *now);
            }
        }
    }
    free(live), free(now), free(fixed);
    return most;
}

/* Marks the first instruction of each block; how many blocks there are. */
static int find_leaders(const sim_func *f, uint8_t *leader) {
    int n = 0;
    leader[0] = 1;
    for (uint32_t at = 0; at < f->n_code; at++) {
        const sim_inst *i = &f->code[at];
        if (i->kind == K_BRANCH) leader[i->target] = 1;
        if (i->kind == K_BRANCH_INDEX)
            for (int k = 0; k < f->n_targets[i->target]; k++) leader[f->targets[i->target][k]] = 1;
        if (ends_block(i)) leader[at + 1] = 1;
    }
    for (uint32_t at = 0; at < f->n_code; at++) n += leader[at];
    return n;
}

static bool make_blocks(flow *g) {
    const uint32_t count = g->f->n_code;
    uint8_t *leader = calloc(count + 2, 1);
    g->block_of = calloc(count + 1, sizeof(int));
    if (leader && g->block_of) {
        g->n = find_leaders(g->f, leader);
        g->first = calloc((size_t)g->n + 2, sizeof *g->first);
    }
    if (g->first) {
        int b = -1;
        for (uint32_t at = 0; at < count; at++) {
            if (leader[at]) g->first[++b] = at;
            g->block_of[at] = b;
        }
        g->block_of[count] = g->n;
        g->first[g->n] = count;
    }
    free(leader);
    return g->first != NULL;
}

/* First counts them, then has room for them. */
static bool find_predecessors(flow *g) {
    g->pred = calloc((size_t)g->n + 2, sizeof *g->pred);
    g->n_pred = calloc((size_t)g->n + 2, sizeof *g->n_pred);
    if (!g->pred || !g->n_pred) return false;
    for (int pass = 0; pass < 2; pass++) {
        for (int from = 0; from < g->n; from++) {
            int succ[4096];
            int n = successors(g, from, succ);
            for (int k = 0; k < n; k++) {
                if (pass == 1) g->pred[succ[k]][g->n_pred[succ[k]]] = from;
                g->n_pred[succ[k]]++;
            }
        }
        for (int to = 0; pass == 0 && to <= g->n; to++) {
            if (!(g->pred[to] = calloc((size_t)g->n_pred[to] + 1, sizeof(int)))) return false;
            g->n_pred[to] = 0;
        }
    }
    return true;
}

/* Postorder from the exit along predecessors, into g->order; how many blocks it reaches, or -1. */
static int find_order(flow *g) {
    const size_t n = (size_t)g->n;
    int *stack = calloc(2 * n + 4, sizeof(int)), depth = 0, n_order = 0;
    uint8_t *seen = calloc(n + 2, 1);
    g->order = calloc(n + 2, sizeof(int));
    if (stack && seen && g->order) {
        int *next = stack + g->n + 2;
        stack[depth] = g->n, next[depth++] = 0, seen[g->n] = 1;
        while (depth) {
            int b = stack[depth - 1];
            if (next[depth - 1] < g->n_pred[b]) {
                int p = g->pred[b][next[depth - 1]++];
                if (!seen[p]) seen[p] = 1, stack[depth] = p, next[depth++] = 0;
            } else {
                g->order[n_order++] = b, depth--;
            }
        }
    }
    free(stack), free(seen);
    return n_order ? n_order : -1;
}

static bool find_post_dominators(flow *g) {
    const int n_order = find_order(g);
    g->number = calloc((size_t)g->n + 2, sizeof(int));
    g->idom = calloc((size_t)g->n + 2, sizeof(int));
    if (n_order < 0 || !g->number || !g->idom) return false;
    for (int b = 0; b <= g->n; b++) g->idom[b] = -1, g->number[b] = g->n + 1;
    for (int k = 0; k < n_order; k++) g->number[g->order[n_order - 1 - k]] = k;
    g->idom[g->n] = g->n;
    for (bool changed = true; changed;) {
        changed = false;
        for (int k = n_order - 2; k >= 0; k--) {
            int b = g->order[k], succ[4096], join = -1;
            int n = successors(g, b, succ);
            for (int s = 0; s < n; s++)
                if (g->idom[succ[s]] >= 0) join = join < 0 ? succ[s] : meet(g, join, succ[s]);
            if (join >= 0 && join != g->idom[b]) g->idom[b] = join, changed = true;
        }
    }
    return true;
}

/* What an assembler gives a thread at most, and spills the rest, so that as many blocks as were asked for are on a
 * processor at once, of as many threads (CUDA C++ Programming Guide, launch bounds). */
static int most_registers(const sim_func *f) {
    const uint32_t *r = f->required, threads = r[0] ? r[0] * r[1] * r[2] : f->max_threads;
    const uint32_t blocks = f->min_blocks ? f->min_blocks : 1;
    int most = f->max_registers && f->max_registers < 255 ? (int)f->max_registers : 255;
    const int each = threads ? (int)(65536 / ((threads + 31) / 32 * 32 * blocks)) / 8 * 8 : most;
    return each < 16 ? 16 : each < most ? each : most;
}

bool sim_cfg_analyze(sim_func *f) {
    flow g = {.f = f};
    bool ok = make_blocks(&g) && find_predecessors(&g) && find_post_dominators(&g);
    if (ok) {
        for (uint32_t at = 0; at < f->n_code; at++) {
            int join = g.idom[g.block_of[at]];
            f->code[at].reconverge = join < 0 || join >= g.n ? f->n_code : g.first[join];
        }
        int registers = count_registers(&g);
        ok = registers >= 0;
        const int most = most_registers(f);
        f->registers = registers + 8 > most ? most : registers + 8 < 16 ? 16 : registers + 8;
    }
    for (int b = 0; g.pred && b <= g.n; b++) free(g.pred[b]);
    free(g.block_of), free(g.first), free(g.order), free(g.number), free(g.idom), free(g.pred), free(g.n_pred);
    return ok;
}
