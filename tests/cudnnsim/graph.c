/* SPDX-License-Identifier: MIT
 * Graphs of operations, the engines for them, and running one. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { MODE_FALLBACK = 2, MODE_A = 3, WORKSPACE_ALIGNMENT = 256 };
enum { NOTE_TENSOR_CORE = 0, NOTE_DOWN_CONVERT = 1, NOTE_REDUCED = 2, NOTE_NONDETERMINISTIC = 4, NOTE_STRICT_NAN = 9 };

static const struct {
    int mode, n_notes, notes[2];
    int64_t workspace;
    int n_knobs;
    struct {
        int type;
        int64_t value;
    } knobs[2];
} engines[CUDNNSIM_ENGINES] = {
    [CUDNNSIM_NONDETERMINISTIC] = {.mode = MODE_A, .n_notes = 1, .notes = {NOTE_NONDETERMINISTIC}},
    [CUDNNSIM_DOWN_CONVERT] = {.mode = MODE_A, .n_notes = 2, .notes = {NOTE_TENSOR_CORE, NOTE_DOWN_CONVERT}},
    [CUDNNSIM_REDUCED_SUMS] = {.mode = MODE_A, .n_notes = 2, .notes = {NOTE_TENSOR_CORE, NOTE_REDUCED}},
    [CUDNNSIM_TENSOR_CORE] =
        {.mode = MODE_A, .n_notes = 1, .notes = {NOTE_TENSOR_CORE}, .n_knobs = 2, .knobs = {{0, 4}, {3, 1}}},
    [CUDNNSIM_WORKSPACE] = {.mode = MODE_A, .workspace = CUDNNSIM_WORKSPACE_BYTES},
    [CUDNNSIM_PLAIN] = {.mode = MODE_FALLBACK, .n_knobs = 1, .knobs = {{3, 1}}},
};

/* Graphs of several operations that there are engines for, in the order in which we say them; any convolution alone is
 * taken. As the library of these versions: max(0, x) right behind a convolution has no engine. */
enum { POINT = 1000, REDUCE = 2000 /* what an operation does is added */ };
#define SEEN POINT + SIM_GEN_INDEX, POINT + SIM_GEN_INDEX, POINT + SIM_CMP_GE, POINT + SIM_SELECT
#define SEEN_LATER                                                                                      \
    POINT + SIM_GEN_INDEX, POINT + SIM_GEN_INDEX, POINT + SIM_ADD, POINT + SIM_SUB, POINT + SIM_CMP_GE, \
        POINT + SIM_SELECT
#define SCORES OPERATION_PRODUCT, POINT + SIM_MUL
#define SOFTMAX                                                                                                 \
    REDUCE + SIM_MAXIMUM, POINT + SIM_SUB, POINT + SIM_EXP, REDUCE + SIM_SUM, POINT + SIM_LOG, POINT + SIM_ADD, \
        POINT + SIM_DIV, OPERATION_PRODUCT
#define SUMS POINT + SIM_MUL, REDUCE + SIM_SUM, POINT + SIM_MUL
#define OF_SCORES OPERATION_PRODUCT, POINT + SIM_SUB, POINT + SIM_MUL, POINT + SIM_MUL
#define BY_KEY OPERATION_RESHAPE, OPERATION_PRODUCT /* and for heads that share keys */, REDUCE + SIM_SUM
#define GRADIENTS                                                                                           \
    POINT + SIM_EXP, OPERATION_RESHAPE, OPERATION_PRODUCT, OF_SCORES, OPERATION_RESHAPE, OPERATION_PRODUCT, \
        OPERATION_RESHAPE, OPERATION_PRODUCT
#define SHARED_GRADIENTS POINT + SIM_EXP, BY_KEY, OF_SCORES, BY_KEY, OPERATION_RESHAPE, OPERATION_PRODUCT
static const int patterns[][MAX_OPERATIONS] = {
    {CONV_FORWARD},
    {CONV_FILTER},
    {CONV_DATA},
    {CONV_FORWARD, POINT + SIM_ADD},
    {CONV_FORWARD, POINT + SIM_ADD, POINT + SIM_RELU},
    {NORM_FORWARD},
    {NORM_BACKWARD},
    {SCORES, SOFTMAX},
    {SCORES, SEEN, SOFTMAX},
    {SCORES, SEEN_LATER, SOFTMAX},
    {SUMS, SCORES, POINT + SIM_SUB, GRADIENTS},
    {SUMS, SCORES, POINT + SIM_SUB, SEEN, GRADIENTS},
    {SUMS, SCORES, POINT + SIM_SUB, SEEN_LATER, GRADIENTS},
    {SUMS, SCORES, POINT + SIM_SUB, SHARED_GRADIENTS},
    {SUMS, SCORES, POINT + SIM_SUB, SEEN, SHARED_GRADIENTS},
    {SUMS, SCORES, POINT + SIM_SUB, SEEN_LATER, SHARED_GRADIENTS},
};

static int step_of(const descriptor *operation) {
    switch (operation->kind->type) {
    case OPERATION_POINTWISE: return POINT + sim_int(sim_reference(operation, 750), 0);
    case OPERATION_REDUCTION: return REDUCE + sim_int(sim_reference(operation, 1612), 1600);
    default: return operation->kind->type;
    }
}

/* --- the graph --- */

static descriptor *const *operations_of(const descriptor *graph, int64_t *n) { return sim_get(graph, 801, n); }

/* The tensors of an operation that `list` names; those not set are NULL. */
static int tensors_of(const descriptor *operation, const int *list, descriptor **out) {
    int n = 0;
    for (; list[n]; n++) out[n] = sim_reference(operation, list[n]);
    return n;
}

typedef struct tensors {
    int n;
    descriptor *all[MAX_TENSORS];
    bool written[MAX_TENSORS], read[MAX_TENSORS];
} tensors;

static int index_of(const tensors *t, const descriptor *tensor) {
    for (int i = 0; i < t->n; i++)
        if (t->all[i] == tensor) return i;
    return -1;
}

static int note_tensor(tensors *t, descriptor *tensor, bool writes) {
    int i = index_of(t, tensor);
    const bool is_virtual = sim_flag(tensor, 907);
    if (i < 0) {
        for (int k = 0; k < t->n; k++)
            if (sim_int64(t->all[k], 906) == sim_int64(tensor, 906))
                return sim_wrong("two tensors with id %lld", (long long)sim_int64(tensor, 906));
        if (t->n == MAX_TENSORS) return sim_wrong("too many tensors");
        t->all[i = t->n++] = tensor;
    }
    if (writes && (t->written[i] || t->read[i]))
        return sim_wrong("tensor %lld is written after it was read or written", (long long)sim_int64(tensor, 906));
    if (writes && sim_flag(tensor, 908)) return sim_wrong("a value is written");
    if (!writes && is_virtual && !t->written[i])
        return sim_wrong("virtual tensor %lld is read before it is written", (long long)sim_int64(tensor, 906));
    *(writes ? &t->written[i] : &t->read[i]) = true;
    return SUCCESS;
}

static int find_tensors(const descriptor *graph, tensors *t) {
    int64_t n;
    descriptor *const *operations = operations_of(graph, &n), *of[MAX_OPERANDS];
    *t = (tensors){0};
    for (int64_t i = 0; i < n; i++)
        for (int writes = 0; writes < 2; writes++) {
            int count = tensors_of(operations[i], writes ? operations[i]->kind->writes : operations[i]->kind->reads,
                                   of);
            for (int k = 0; k < count; k++) {
                int status = of[k] ? note_tensor(t, of[k], writes) : SUCCESS;
                if (status) return status;
            }
        }
    return SUCCESS;
}

static int finalize_graph(descriptor *d) {
    tensors t;
    return find_tensors(d, &t);
}

const kind sim_graph = {.type = OPERATIONGRAPH,
                        .name = "operation graph",
                        .finalize = finalize_graph,
                        .rules = {ONE(800, HANDLE), REFERENCES(801, ANY, MAX_OPERATIONS)}};

static bool is_taken(const descriptor *graph) {
    int64_t n;
    descriptor *const *operations = operations_of(graph, &n);
    const kind *first = operations[0]->kind;
    if ((first == &sim_norm_forward || first == &sim_norm_backward) && !sim_norm_has_engine(operations[0]))
        return false;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        int64_t i = 0;
        while (i < n && patterns[p][i] == step_of(operations[i])) i++;
        if (i == n && (i == MAX_OPERATIONS || !patterns[p][i])) return true;
    }
    return false;
}

/* --- engines --- */

static int finalize_heuristics(descriptor *d) {
    const int mode = sim_int(d, 200);
    return mode == MODE_A || mode == MODE_FALLBACK ? SUCCESS : sim_wrong("heuristics by mode %d", mode);
}
const kind sim_heuristics = {.type = ENGINEHEUR,
                             .name = "engine heuristics",
                             .finalize = finalize_heuristics,
                             .rules = {ONE(200, HEUR_MODE), REFERENCE(201, OPERATIONGRAPH)}};

const kind sim_config = {.type = ENGINECFG, .name = "engine configuration", .rules = {REFERENCE(300, ENGINE)}};
const kind sim_knob = {.type = KNOB_CHOICE, .name = "knob choice", .rules = {ONE(600, KNOB_TYPE), ONE(601, INT64S)}};
const kind sim_engine = {.type = ENGINE, .name = "engine", .rules = {REFERENCE(1300, OPERATIONGRAPH)}};

static int finalize_plan(descriptor *d) {
    const descriptor *config = sim_reference(d, 401);
    return sim_refused >> config->engine & 1 ? NOT_SUPPORTED : SUCCESS;
}
const kind sim_plan = {.type = EXECUTION_PLAN,
                       .name = "execution plan",
                       .finalize = finalize_plan,
                       .rules = {ONE(400, HANDLE), REFERENCE(401, ENGINECFG)}};

static void hold(descriptor *d, int engine, descriptor *graph) {
    d->engine = engine;
    d->graph = graph;
    graph->users++;
}

static int get_results(const descriptor *heuristics, int64_t asked, int64_t *count, void **out) {
    descriptor *graph = sim_reference(heuristics, 201);
    int64_t n = 0;
    for (int i = 0; i < CUDNNSIM_ENGINES; i++) {
        if (engines[i].mode != sim_int(heuristics, 200) || !is_taken(graph)) continue;
        if (asked && n < asked) {
            descriptor *d = sim_descriptor(out[n], ENGINECFG);
            if (!d || d->engine >= 0)
                return sim_wrong("place %lld for a result is no new engine configuration", (long long)n);
            hold(d, i, graph);
        }
        n++;
    }
    *count = asked && n > asked ? asked : n;
    return SUCCESS;
}

static int get_knobs(const descriptor *config, int64_t asked, int64_t *count, void **out) {
    *count = engines[config->engine].n_knobs;
    for (int i = 0; i < *count && i < asked; i++) {
        descriptor *d = sim_descriptor(out[i], KNOB_CHOICE);
        if (!d || d->engine >= 0) return sim_wrong("place %d for a knob is no new knob choice", i);
        hold(d, config->engine, config->graph);
        d->knob = i;
    }
    return SUCCESS;
}

EXPORT int cudnnBackendGetAttribute(void *at, int name, int type, int64_t asked, int64_t *count, void *out);
EXPORT int cudnnBackendGetAttribute(void *at, int name, int type, int64_t asked, int64_t *count, void *out) {
    ENTER();
    descriptor *heuristics = sim_descriptor(at, ENGINEHEUR), *config = sim_descriptor(at, ENGINECFG),
               *engine = sim_descriptor(at, ENGINE), *plan = sim_descriptor(at, EXECUTION_PLAN);
    const descriptor *knob = sim_descriptor(at, KNOB_CHOICE);
    if (!count || (!out && asked)) return sim_wrong("attribute %d has nowhere to go", name);
    if (heuristics && heuristics->final && name == 202 && type == DESCRIPTOR)
        return get_results(heuristics, asked, count, out);
    if (config && config->engine >= 0 && name == 300 && type == DESCRIPTOR && asked == 1) {
        descriptor *d = sim_descriptor(*(void **)out, ENGINE);
        if (!d || d->engine >= 0) return sim_wrong("the place for an engine is no new engine");
        hold(d, config->engine, config->graph);
        *count = 1;
        return SUCCESS;
    }
    if (config && config->engine >= 0 && name == 302 && type == DESCRIPTOR) return get_knobs(config, asked, count, out);
    if (knob && knob->engine >= 0 && asked == 1 &&
        ((name == 600 && type == KNOB_TYPE) || (name == 601 && type == INT64S))) {
        if (name == 600) *(int *)out = engines[knob->engine].knobs[knob->knob].type;
        else *(int64_t *)out = engines[knob->engine].knobs[knob->knob].value;
        *count = 1;
        return SUCCESS;
    }
    if (engine && engine->engine >= 0 && name == 1301 && type == INT64S && asked == 1) {
        *(int64_t *)out = engine->engine;
        *count = 1;
        return SUCCESS;
    }
    if (engine && engine->engine >= 0 && name == 1303 && type == NUMERICAL_NOTE && asked >= 3) {
        *count = engines[engine->engine].n_notes;
        memcpy(out, engines[engine->engine].notes, sizeof(int) * (size_t)*count);
        if (sim_relu_of_nan == CUDNNSIM_PROMISED_NAN) ((int *)out)[(*count)++] = NOTE_STRICT_NAN;
        return SUCCESS;
    }
    if (plan && plan->final && name == 402 && type == INT64S && asked == 1) {
        *(int64_t *)out = engines[sim_reference(plan, 401)->engine].workspace;
        *count = 1;
        return SUCCESS;
    }
    return sim_wrong("reading attribute %d as type %d", name, type);
}

/* --- running --- */

static int finalize_pack(descriptor *d) {
    int64_t uids, pointers;
    const int64_t *list = sim_get(d, 1000, &uids);
    sim_get(d, 1001, &pointers);
    if (uids != pointers) return sim_wrong("%lld ids with %lld pointers", (long long)uids, (long long)pointers);
    for (int64_t i = 0; i < uids; i++)
        for (int64_t k = 0; k < i; k++)
            if (list[i] == list[k]) return sim_wrong("id %lld twice", (long long)list[i]);
    return SUCCESS;
}
const kind sim_pack = {
    .type = VARIANT_PACK,
    .name = "variant pack",
    .finalize = finalize_pack,
    .rules = {SOME(1000, INT64S, 1, MAX_TENSORS), SOME(1001, VOID_PTR, 1, MAX_TENSORS), ONE(1003, VOID_PTR)}};

typedef struct run {
    tensors t;
    value values[MAX_TENSORS];
    address at[MAX_TENSORS];
    void *stream;
} run;

static int64_t span_of(const value *v) {
    int64_t last = 0;
    for (int i = 0; i < v->rank; i++) last += (v->dims[i] - 1) * v->strides[i];
    return last + 1;
}

static int64_t offset_of(const value *v, int64_t i) {
    int64_t at = 0;
    for (int d = v->rank - 1; d >= 0; d--) at += i % v->dims[d] * v->strides[d], i /= v->dims[d];
    return at;
}

static int load(run *r, int i) {
    value *v = &r->values[i];
    void *bytes = NULL;
    int status = sim_fetch(r->at[i], span_of(v) * sim_bytes(v->type), r->stream, "a tensor", &bytes);
    for (int64_t k = 0; k < v->count && !status; k++) v->data[k] = sim_element(bytes, v->type, offset_of(v, k));
    free(bytes);
    return status;
}

/* The elements of the tensor, and not what lies between them. */
static int store(run *r, int i) {
    const value *v = &r->values[i];
    const int64_t span = span_of(v), size = sim_bytes(v->type);
    char *bytes = calloc((size_t)span, (size_t)size), *mine = calloc((size_t)span, 1);
    int status = bytes && mine ? SUCCESS : HOST_ALLOCATION_FAILED;
    for (int64_t k = 0; k < v->count && !status; k++) {
        const int64_t to = offset_of(v, k);
        sim_put(bytes, v->type, to, v->data[k]);
        mine[to] = 1;
    }
    for (int64_t from = 0, to; from < span && !status; from = to) {
        for (to = from; to < span && mine[to] == mine[from]; to++) continue;
        if (mine[from])
            status = sim_store(r->at[i] + (address)(from * size), bytes + from * size, (to - from) * size, r->stream);
    }
    free(bytes);
    free(mine);
    return status;
}

static int place_tensor(run *r, int i, const descriptor *pack) {
    int64_t n;
    const int64_t *uids = sim_get(pack, 1000, &n);
    void *const *pointers = sim_get(pack, 1001, NULL);
    value *v = &r->values[i];
    const int64_t uid = sim_int64(v->tensor, 906), alignment = sim_int64(v->tensor, 900);
    for (int64_t k = 0; k < n; k++)
        if (uids[k] == uid) r->at[i] = (address)(uintptr_t)pointers[k];
    if (!r->at[i]) return sim_wrong("tensor %lld has no pointer", (long long)uid);
    if (r->at[i] % (address)alignment)
        return sim_wrong("tensor %lld lies at %llx, not at a multiple of %lld", (long long)uid, r->at[i],
                         (long long)alignment);
    if (sim_flag(v->tensor, 908)) {
        if (sim_is_memory(r->at[i], 1)) return sim_wrong("the value of tensor %lld is not on the host", (long long)uid);
        v->data[0] = sim_element((const void *)(uintptr_t)r->at[i], v->type, 0);
        return SUCCESS;
    }
    if (!sim_is_memory(r->at[i], span_of(v) * sim_bytes(v->type)))
        return sim_wrong("tensor %lld at %llx is no memory of its size", (long long)uid, r->at[i]);
    return r->t.written[i] ? SUCCESS : load(r, i);
}

static double to_tf32(double x) {
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits = (bits + 0xfff + (bits >> 13 & 1)) & ~UINT32_C(0x1fff);
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static int use_workspace(const descriptor *pack, int64_t bytes, void *stream) {
    const address at = (address)(uintptr_t)*(void *const *)sim_get(pack, 1003, NULL);
    if (!bytes) return SUCCESS;
    if (at % WORKSPACE_ALIGNMENT || !sim_is_memory(at, bytes))
        return sim_wrong("a workspace at %llx that is no memory of %lld bytes", at, (long long)bytes);
    void *garbage = malloc((size_t)bytes);
    if (!garbage) return HOST_ALLOCATION_FAILED;
    memset(garbage, 0xc9, (size_t)bytes);
    int status = sim_store(at, garbage, bytes, stream);
    free(garbage);
    return status;
}

static int evaluate(run *r, const descriptor *graph) {
    int64_t n;
    descriptor *const *operations = operations_of(graph, &n), *of[MAX_OPERANDS];
    int status = SUCCESS;
    for (int64_t i = 0; i < n && !status; i++) {
        value *reads[MAX_OPERANDS] = {0}, *writes[MAX_OPERANDS] = {0};
        int count = tensors_of(operations[i], operations[i]->kind->reads, of);
        for (int k = 0; k < count; k++) reads[k] = of[k] ? &r->values[index_of(&r->t, of[k])] : NULL;
        count = tensors_of(operations[i], operations[i]->kind->writes, of);
        for (int k = 0; k < count; k++) writes[k] = of[k] ? &r->values[index_of(&r->t, of[k])] : NULL;
        status = operations[i]->kind->evaluate(operations[i], reads, writes);
        for (int64_t k = 0; !status && k < writes[0]->count; k++)
            writes[0]->data[k] = sim_round(writes[0]->data[k], writes[0]->type);
    }
    return status;
}

static int run_plan(run *r, const descriptor *plan, const descriptor *pack) {
    const descriptor *config = sim_reference(plan, 401);
    int64_t n_pointers, n_operations, expected = 0;
    const int first = operations_of(config->graph, &n_operations)[0]->kind->type;
    const bool rounds = config->engine == CUDNNSIM_TENSOR_CORE &&
                        (first == CONV_FORWARD || first == CONV_FILTER || first == CONV_DATA);
    sim_running = config->engine;
    int status = find_tensors(config->graph, &r->t);
    if (!status) status = use_workspace(pack, engines[config->engine].workspace, r->stream);
    for (int i = 0; i < r->t.n && !status; i++) {
        value *v = &r->values[i];
        *v = sim_value_of(r->t.all[i]);
        v->data = calloc((size_t)v->count, sizeof *v->data);
        const bool is_virtual = sim_flag(v->tensor, 907);
        expected += !is_virtual;
        status = !v->data ? HOST_ALLOCATION_FAILED : is_virtual ? SUCCESS : place_tensor(r, i, pack);
        for (int64_t k = 0;
             k < v->count && !status && rounds && v->type == FLOAT32 && v->rank > 3 && v->count > v->dims[1]; k++)
            v->data[k] = to_tf32(v->data[k]);
    }
    sim_get(pack, 1000, &n_pointers);
    if (!status && n_pointers != expected)
        status = sim_wrong("%lld pointers for %lld tensors", (long long)n_pointers, (long long)expected);
    if (!status) status = evaluate(r, config->graph);
    for (int i = 0; i < r->t.n && !status; i++)
        if (r->t.written[i] && !sim_flag(r->t.all[i], 907)) status = store(r, i);
    for (int i = 0; i < r->t.n; i++) free(r->values[i].data);
    return status;
}

EXPORT int cudnnBackendExecute(void *handle, void *at_plan, void *at_pack);
EXPORT int cudnnBackendExecute(void *handle, void *at_plan, void *at_pack) {
    ENTER();
    const descriptor *plan = sim_descriptor(at_plan, EXECUTION_PLAN), *pack = sim_descriptor(at_pack, VARIANT_PACK);
    if (!sim_is_handle(handle) || !sim_has_context())
        return sim_wrong("running without a handle, or without a context");
    if (!plan || !pack || !plan->final || !pack->final)
        return sim_wrong("running what is no plan, or no pack, or not final");
    if (*(void *const *)sim_get(plan, 400, NULL) != handle) return sim_wrong("the plan of another handle");
    run *r = calloc(1, sizeof *r);
    if (!r) return HOST_ALLOCATION_FAILED;
    r->stream = sim_stream_of(handle);
    int status = run_plan(r, plan, pack);
    free(r);
    sim_counts.runs[sim_reference(plan, 401)->engine] += !status;
    return status;
}
