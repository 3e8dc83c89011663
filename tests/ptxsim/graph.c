/* SPDX-License-Identifier: MIT
 * Graphs: capture of streams, instances, updates, launches. Nodes are kept in the order of their capture, which is one
 * that respects all dependencies; an instance remembers the dependencies themselves, to find races between branches. */
#include "api.h"

#include <unistd.h>

void capture_release(capture *c) {
    if (--c->references == 0) free(c);
}

static CUgraph find_graph(CUgraph graph) {
    for (CUgraph g = sim.graphs; g; g = g->next)
        if (g == graph) return g->alive ? g : NULL;
    return NULL;
}

static CUgraphExec find_exec(CUgraphExec exec) {
    for (CUgraphExec e = sim.execs; e; e = e->next)
        if (e == exec) return e->alive ? e : NULL;
    return NULL;
}

static CUgraphNode find_node(CUgraphNode node) {
    for (CUgraph g = sim.graphs; g; g = g->next)
        for (int k = 0; g->alive && k < g->n_nodes; k++)
            if (g->nodes[k] == node) return node;
    return NULL;
}

/* --- capture */

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    ENTER(true);
    CUstream s = stream_find(stream);
    if (!s || mode < 0 || mode > 2) return api_leave(CUDA_ERROR_INVALID_VALUE);
    if (s->null) return api_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (s->capture) return api_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUgraph g = calloc(1, sizeof *g);
    capture *c = calloc(1, sizeof *c);
    if (!g || !c) {
        free(g), free(c);
        return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    g->next = sim.graphs, sim.graphs = g; /* alive once the capture ends */
    *c = (capture){.graph = g, .origin = s, .mode = mode, .thread = pthread_self(), .references = 1};
    s->capture = c, s->n_last = 0;
    sim.captures++;
    return api_leave(CUDA_SUCCESS);
}

CUresult graph_capture(CUstream s, sim_work *work) {
    capture *c = s->capture;
    CUgraph g = c->graph;
    const bool gone = api_fault(PTXSIM_FAULT_GONE);
    c->invalid |= api_fault(PTXSIM_FAULT_SPOIL);
    if (c->invalid || gone) {
        work_clear(work);
        return gone ? stream_lose_device() : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (g->n_nodes == g->cap_nodes) {
        int cap = g->cap_nodes ? g->cap_nodes * 2 : 32;
        CUgraphNode *grown = realloc(g->nodes, (size_t)cap * sizeof *grown);
        if (!grown) {
            work_clear(work);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        g->nodes = grown, g->cap_nodes = cap;
    }
    CUgraphNode n = calloc(1, sizeof *n);
    int *deps = malloc((size_t)(s->n_last + 1) * sizeof *deps),
        *last = realloc(s->last, sizeof *last * 1 > (size_t)s->n_last * sizeof *last
                                     ? sizeof *last
                                     : (size_t)s->n_last * sizeof *last);
    if (last) s->last = last;
    if (!n || !deps || !last) {
        free(n), free(deps);
        work_clear(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(deps, s->last, (size_t)s->n_last * sizeof *deps);
    *n = (struct CUgraphNode_st){.graph = g, .index = g->n_nodes, .work = *work, .deps = deps, .n_deps = s->n_last};
    g->nodes[g->n_nodes++] = n;
    s->last[0] = n->index, s->n_last = 1;
    return CUDA_SUCCESS;
}

void graph_join(CUstream s, const int *nodes, int n, capture *c) {
    if (!s->capture) s->capture = c, c->references++, s->n_last = 0;
    int *grown = realloc(s->last, (size_t)(s->n_last + n + 1) * sizeof *grown);
    if (!grown) {
        c->invalid = true;
        return;
    }
    s->last = grown;
    for (int k = 0; k < n; k++) {
        bool have = false;
        for (int q = 0; q < s->n_last; q++) have |= s->last[q] == nodes[k];
        if (!have) s->last[s->n_last++] = nodes[k];
    }
}

/* For each node the set of those that come before it. */
static uint64_t *ancestors_of(const CUgraph g, size_t *words) {
    size_t w = *words = ((size_t)g->n_nodes + 63) / 64;
    uint64_t *sets = calloc((size_t)g->n_nodes * w + 1, sizeof *sets);
    for (int k = 0; sets && k < g->n_nodes; k++)
        for (int d = 0; d < g->nodes[k]->n_deps; d++) {
            int from = g->nodes[k]->deps[d];
            for (size_t q = 0; q < w; q++) sets[(size_t)k * w + q] |= sets[(size_t)from * w + q];
            sets[(size_t)k * w + (size_t)from / 64] |= UINT64_C(1) << from % 64;
        }
    return sets;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    CUresult entered = api_enter(true);
    if (entered && entered != sim.sticky) return api_leave(entered);
    CUstream s = stream_find(stream);
    if (!s || !s->capture) return api_leave(CUDA_ERROR_INVALID_VALUE);
    capture *c = s->capture;
    if (c->origin != s) return api_leave(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return api_leave(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    CUresult r = sim.sticky ? sim.sticky : c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    if (!r && api_fault(PTXSIM_FAULT_CALL)) r = CUDA_ERROR_UNKNOWN; /* the capture ends all the same */
    size_t words = 0;
    uint64_t *sets = ancestors_of(c->graph, &words);
    if (!sets) r = CUDA_ERROR_OUT_OF_MEMORY;
    for (CUstream o = sim.streams; o; o = o->next) {
        if (o->capture != c) continue;
        for (int k = 0; o != s && !r && k < o->n_last; k++) { /* all branches have to come back to the origin */
            bool joined = false;
            for (int q = 0; q < s->n_last; q++)
                joined |= s->last[q] == o->last[k] ||
                          (sets[(size_t)s->last[q] * words + (size_t)o->last[k] / 64] >> o->last[k] % 64 & 1);
            if (!joined) r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        }
        o->capture = NULL;
        o->n_last = 0;
        if (o != s) c->references--;
    }
    free(sets);
    if (!r) c->graph->alive = true;
    if (graph) *graph = r ? NULL : c->graph;
    sim.captures--;
    c->invalid = true; /* for events that still point here */
    capture_release(c);
    return api_leave(r);
}

CUresult cuStreamIsCapturing(CUstream stream, int *status) {
    ENTER(true);
    CUstream s = stream_find(stream);
    if (!s) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    *status = !s->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return api_leave(CUDA_SUCCESS);
}

/* --- instances */

static CUresult instantiate(CUgraphExec *exec, CUgraph graph) {
    CUgraph g = find_graph(graph);
    if (!g || !exec) return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec e = calloc(1, sizeof *e);
    if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
    e->next = sim.execs, sim.execs = e;
    e->works = calloc((size_t)g->n_nodes + 1, sizeof *e->works),
    e->origins = calloc((size_t)g->n_nodes + 1, sizeof *e->origins);
    if (!e->works || !e->origins) return CUDA_ERROR_OUT_OF_MEMORY;
    bool chain = true;
    for (int k = 0; k < g->n_nodes; k++) {
        if (!work_copy(&e->works[k], &g->nodes[k]->work)) return CUDA_ERROR_OUT_OF_MEMORY;
        e->origins[k] = g->nodes[k], e->n++;
        chain &= k == 0 || (g->nodes[k]->n_deps == 1 && g->nodes[k]->deps[0] == k - 1);
    }
    if (!chain && !(e->ancestors = ancestors_of(g, &e->words))) return CUDA_ERROR_OUT_OF_MEMORY;
    e->alive = true;
    *exec = e;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    ENTER(true);
    (void)flags;
    if (api_fault(PTXSIM_FAULT_GRAPH)) return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
    return api_leave(instantiate(exec, graph));
}

bool graph_execute(sim_work *w, const uint64_t *clock, int slot, uint64_t position) {
    if (sim_set.graph_us && !w->at) usleep((useconds_t)sim_set.graph_us);
    for (; w->at < w->exec->n && !sim.sticky; w->at++)
        if (!work_execute(&w->exec->works[w->at], clock, slot, position, w->exec, w->at)) return false;
    return true;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    ENTER(true);
    CUstream s = stream_find(stream);
    CUgraphExec e = find_exec(exec);
    if (!s || !e) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (s->capture) return api_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (api_fault(PTXSIM_FAULT_LAUNCH)) return api_leave(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    sim_work work = {.kind = WORK_GRAPH, .exec = e};
    return api_leave(stream_enqueue(s, &work, NULL, 0, NULL));
}

/* Pending launches of the instance see the state of their time: they execute before it changes. */
static CUresult update(CUgraphExec exec, CUgraph graph, int *failed) {
    CUgraphExec e = find_exec(exec);
    CUgraph g = find_graph(graph);
    *failed = -1;
    if (!e || !g) return CUDA_ERROR_INVALID_VALUE;
    if (e->n != g->n_nodes) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    for (int k = 0; k < e->n; k++) {
        const sim_work *a = &e->works[k], *b = &g->nodes[k]->work;
        if (a->kind != b->kind || (a->kind == WORK_LAUNCH && a->func != b->func)) {
            *failed = k;
            return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
        }
    }
    stream_complete_all();
    for (int k = 0; k < e->n; k++) {
        work_clear(&e->works[k]);
        if (!work_copy(&e->works[k], &g->nodes[k]->work)) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return sim.sticky;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *result) {
    int failed;
    ENTER(true);
    CUresult r = update(exec, graph, &failed);
    if (result)
        *result = (CUgraphExecUpdateResultInfo){.result = r ? (failed >= 0 ? 4 : 2) : 0,
                                                .errorNode = r && failed >= 0 ? find_graph(graph)->nodes[failed]
                                                                              : NULL};
    return api_leave(r);
}

static CUresult replace(sim_work *w, const CUDA_KERNEL_NODE_PARAMS *p) {
    sim_work fresh;
    CUresult r = launch_work(p->func, (unsigned[]){p->gridDimX, p->gridDimY, p->gridDimZ},
                             (unsigned[]){p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes, p->kernelParams,
                             p->extra, &fresh);
    if (r) {
        work_clear(&fresh);
        return r;
    }
    work_clear(w);
    *w = fresh;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
    ENTER(true);
    CUgraphExec e = find_exec(exec);
    for (int k = 0; e && params && k < e->n; k++)
        if (e->origins[k] == node && e->works[k].kind == WORK_LAUNCH) {
            stream_complete_all();
            return api_leave(replace(&e->works[k], params));
        }
    return api_leave(CUDA_ERROR_INVALID_VALUE);
}

/* The parameters come back as one buffer (`extra` is not used): kernelParams is NULL. */
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params) {
    ENTER(true);
    CUgraphNode n = find_node(node);
    if (!n || n->work.kind != WORK_LAUNCH || !params) return api_leave(CUDA_ERROR_INVALID_VALUE);
    const sim_work *w = &n->work;
    *params = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)w->func,
                                        .gridDimX = w->grid[0],
                                        .gridDimY = w->grid[1],
                                        .gridDimZ = w->grid[2],
                                        .blockDimX = w->block[0],
                                        .blockDimY = w->block[1],
                                        .blockDimZ = w->block[2],
                                        .sharedMemBytes = w->shared,
                                        .ctx = api_context()};
    return api_leave(CUDA_SUCCESS);
}

CUresult cuGraphNodeGetType(CUgraphNode node, int *type) {
    ENTER(true);
    CUgraphNode n = find_node(node);
    if (!n) return api_leave(CUDA_ERROR_INVALID_VALUE);
    switch (n->work.kind) {
    case WORK_LAUNCH: *type = CU_GRAPH_NODE_TYPE_KERNEL; break;
    case WORK_COPY: *type = CU_GRAPH_NODE_TYPE_MEMCPY; break;
    case WORK_SET: *type = CU_GRAPH_NODE_TYPE_MEMSET; break;
    case WORK_HOST: *type = CU_GRAPH_NODE_TYPE_HOST; break;
    default: *type = CU_GRAPH_NODE_TYPE_EMPTY; break;
    }
    return api_leave(CUDA_SUCCESS);
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    ENTER(true);
    CUgraph g = find_graph(graph);
    if (!g || !count) return api_leave(CUDA_ERROR_INVALID_VALUE);
    if (nodes)
        for (size_t k = 0; k < *count; k++) nodes[k] = k < (size_t)g->n_nodes ? g->nodes[k] : NULL;
    if (!nodes || *count > (size_t)g->n_nodes) *count = (size_t)g->n_nodes;
    return api_leave(CUDA_SUCCESS);
}

__attribute__((visibility("default"))) int ptxsim_graphs_with(const ptxsim_work *work) {
    int graphs = 0;
    api_enter(true);
    for (CUgraph g = sim.graphs; g; g = g->next) {
        bool has = false;
        for (int k = 0; k < g->n_nodes && !has; k++) has = g->nodes[k]->work.attempt == work;
        graphs += has && g->alive;
    }
    for (CUgraphExec e = sim.execs; e; e = e->next) {
        bool has = false;
        for (int k = 0; k < e->n && !has; k++) has = e->works[k].attempt == work;
        graphs += has && (e->alive || e->ran_on);
    }
    api_leave(CUDA_SUCCESS);
    return graphs;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    CUresult entered = api_enter(true);
    if (entered && entered != sim.sticky) return api_leave(entered);
    CUgraphExec e = find_exec(exec);
    if (!e) return api_leave(CUDA_ERROR_INVALID_VALUE);
    e->alive = false; /* launches that are under way still have it */
    e->ran_on = stream_pending_graph(e);
    return api_leave(entered);
}

CUresult cuGraphDestroy(CUgraph graph) {
    CUresult entered = api_enter(true);
    if (entered && entered != sim.sticky) return api_leave(entered);
    CUgraph g = find_graph(graph);
    if (!g) return api_leave(CUDA_ERROR_INVALID_VALUE);
    g->alive = false;
    return api_leave(entered);
}
