/* SPDX-License-Identifier: MIT
 * Describing a graph to cuDNN, choosing an engine for it, and running that.
 *
 * An engine carries numerical notes. Refused are NONDETERMINISTIC (sums by atomics), DOWN_CONVERT_INPUTS (f32 rounded
 * to f16 or bf16 before it is multiplied), REDUCED_PRECISION_REDUCTION (sums in less than the f32 that the operation
 * asks for), and the transforms whose error grows with the size of a tile or an image, FFT and WINOGRAD_TILE_13x13;
 * small tiles of Winograd's are as good as the sums of our own. TENSOR_CORE is what an engine for f16 and bf16 is
 * expected to say; said of f32 it means that inputs are rounded to tf32. */
#include "runtime/cuda/cudnn_graph.h"

#include "ir/support/alloc.h"
#include "ir/support/hash.h"
#include "ir/support/vec.h"

#include <stdio.h>
#include <string.h>

enum {
    WORKSPACE_ALIGNMENT = 256 /* an arena's buffers have less, so room is asked for to round up */,
    MAX_TENSORS = 32,
    MAX_PACKS = 64,
    MAX_NOTES = 32,
    MAX_KNOBS = 32
};

struct tcc_cudnn_graph {
    const tcc_cudnn *cudnn;
    const tcc_cudnn_functions *f;
    tcc_vec(void *) descriptors, operations;
    int n_tensors; /* that have no other place than a variant pack: with memory, or values */
    int64_t uids[MAX_TENSORS];
    bool by_value[MAX_TENSORS];
    uint64_t values[MAX_TENSORS];
    int64_t plan_workspace_bytes;
    void *config, *plan;
    int n_packs, oldest_pack, next_pack; /* next: that a run probably wants; steps that share the graph run in turn */
    struct pack {
        void *descriptor, *workspace, *pointers[MAX_TENSORS];
    } packs[MAX_PACKS];
};

tcc_status tcc_cudnn_graph_create(const tcc_cudnn *cudnn, tcc_diag *d, tcc_cudnn_graph **out) {
    *out = tcc__calloc(1, sizeof **out);
    if (!*out) return tcc_enomem(d);
    (*out)->cudnn = cudnn;
    (*out)->f = &cudnn->library.f;
    return TCC_OK;
}

/* A descriptor that is not the graph's goes this way. */
static void drop(const tcc_cudnn_graph *g, void *descriptor) {
    if (descriptor) g->f->descriptor_destroy(descriptor);
}

void tcc_cudnn_graph_destroy(tcc_cudnn_graph *g) {
    if (!g) return;
    for (int i = 0; i < g->n_packs; i++) drop(g, g->packs[i].descriptor);
    drop(g, g->plan);
    drop(g, g->config);
    for (int i = g->descriptors.count; i-- > 0;) drop(g, g->descriptors.data[i]);
    tcc_vec_free(&g->descriptors);
    tcc_vec_free(&g->operations);
    tcc__free(g);
}

/* --- describing --- */

/* Made, told its attributes, finalized; the caller's. */
static tcc_status make(const tcc_cudnn_graph *g, tcc_diag *d, int type, const tcc_cudnn_attribute *attributes, int n,
                       void **out) {
    void *made = NULL;
    *out = NULL;
    TCC_CUDNN_TRY(g->f, d, descriptor_create, type, &made);
    tcc_cudnn_status r = 0;
    int i = 0;
    for (; i < n && !r; i++)
        r = g->f->set_attribute(made, attributes[i].name, attributes[i].type, attributes[i].count,
                                attributes[i].values);
    const bool set = !r;
    if (set) r = g->f->finalize(made);
    if (!r) {
        *out = made;
        return TCC_OK;
    }
    tcc_status s = tcc__cudnn_failed(g->f, d, r, set ? tcc__cudnn_symbol_finalize : tcc__cudnn_symbol_set_attribute);
    if (set) tcc_note(d, TCC_NOWHERE, "for a descriptor of type %d", type);
    else tcc_note(d, TCC_NOWHERE, "for attribute %d of a descriptor of type %d", attributes[i - 1].name, type);
    drop(g, made);
    return s;
}

tcc_status tcc_cudnn_graph_descriptor(tcc_cudnn_graph *g, tcc_diag *d, int type, const tcc_cudnn_attribute *attributes,
                                      int n, void **out) {
    TCC_TRY(make(g, d, type, attributes, n, out));
    if (tcc_vec_push(&g->descriptors, *out)) return TCC_OK;
    drop(g, *out);
    *out = NULL;
    return tcc_enomem(d);
}

tcc_status tcc_cudnn_graph_operation(tcc_cudnn_graph *g, tcc_diag *d, int type, const tcc_cudnn_attribute *attributes,
                                     int n) {
    void *made;
    TCC_TRY(tcc_cudnn_graph_descriptor(g, d, type, attributes, n, &made));
    return tcc_vec_push(&g->operations, made) ? TCC_OK : tcc_enomem(d);
}

static int data_type(tcc_dtype dtype) {
    switch (dtype) {
    case TCC_F64: return TCC_CUDNN_DATA_DOUBLE;
    case TCC_F16: return TCC_CUDNN_DATA_HALF;
    case TCC_BF16: return TCC_CUDNN_DATA_BFLOAT16;
    case TCC_I64: return TCC_CUDNN_DATA_INT64;
    case TCC_I32: return TCC_CUDNN_DATA_INT32;
    case TCC_U8: return TCC_CUDNN_DATA_UINT8;
    case TCC_BOOL: return TCC_CUDNN_DATA_BOOLEAN;
    default: return TCC_CUDNN_DATA_FLOAT;
    }
}

tcc_status tcc_cudnn_graph_tensor(tcc_cudnn_graph *g, tcc_diag *d, const tcc_cudnn_tensor *t, void **out) {
    const int type = data_type(t->dtype);
    const bool yes = true;
    tcc_cudnn_attribute attributes[6] = {
        {TCC_CUDNN_TENSOR_DATA_TYPE, TCC_CUDNN_TYPE_DATA_TYPE, 1, &type},
        {TCC_CUDNN_TENSOR_DIMENSIONS, TCC_CUDNN_TYPE_INT64, t->rank, t->dims},
        {TCC_CUDNN_TENSOR_STRIDES, TCC_CUDNN_TYPE_INT64, t->rank, t->strides},
        {TCC_CUDNN_TENSOR_UNIQUE_ID, TCC_CUDNN_TYPE_INT64, 1, &t->uid},
        {TCC_CUDNN_TENSOR_BYTE_ALIGNMENT, TCC_CUDNN_TYPE_INT64, 1, &t->alignment},
    };
    int n = 5;
    if (t->is_virtual)
        attributes[n++] = (tcc_cudnn_attribute){TCC_CUDNN_TENSOR_IS_VIRTUAL, TCC_CUDNN_TYPE_BOOLEAN, 1, &yes};
    else if (t->value)
        attributes[n++] = (tcc_cudnn_attribute){TCC_CUDNN_TENSOR_IS_BY_VALUE, TCC_CUDNN_TYPE_BOOLEAN, 1, &yes};
    TCC_TRY(tcc_cudnn_graph_descriptor(g, d, TCC_CUDNN_TENSOR, attributes, n, out));
    if (t->is_virtual) return TCC_OK;
    if (g->n_tensors == MAX_TENSORS) return TCC_BUG(d, "more than %d tensors of a graph", MAX_TENSORS);
    const int i = g->n_tensors++;
    g->uids[i] = t->uid;
    g->by_value[i] = t->value != NULL;
    if (t->value) memcpy(&g->values[i], t->value, (size_t)tcc_dtype_bytes(t->dtype));
    return TCC_OK;
}

/* --- choosing an engine --- */

/* Why engines were not taken. */
typedef struct search {
    const tcc_cudnn_limits *limits;
    void *graph;
    int asked, others, by_notes, by_workspace, failed, skipped;
    int64_t least_workspace;
    tcc_diag first; /* of the failures */
} search;

/* The next engine may do what this one cannot; but memory that is short stays short, and a device that is lost is lost.
 */
static bool may_go_on(tcc_cudnn_status r) {
    return r / 1000 >= 2 && r / 1000 <= 4 && r != TCC_CUDNN_HOST_ALLOCATION_FAILED &&
           r != TCC_CUDNN_DEVICE_ALLOCATION_FAILED;
}

static bool notes_allow(const tcc_cudnn_limits *limits, const int *notes, int64_t n) {
    for (int64_t i = 0; i < n; i++) switch (notes[i]) {
        case TCC_CUDNN_NOTE_TENSOR_CORE:
            if (!limits->tensor_cores) return false;
            break;
        case TCC_CUDNN_NOTE_DOWN_CONVERT_INPUTS:
        case TCC_CUDNN_NOTE_REDUCED_PRECISION_REDUCTION:
        case TCC_CUDNN_NOTE_FFT:
        case TCC_CUDNN_NOTE_NONDETERMINISTIC:
        case TCC_CUDNN_NOTE_WINOGRAD_TILE_13X13: return false;
        default: break;
        }
    return true;
}

/* `index` NULL: not asked for. */
static tcc_cudnn_status read_engine(const tcc_cudnn_graph *g, void *config, int *notes, int64_t *n, int64_t *index,
                                    const char **call) {
    void *engine = NULL;
    int64_t one = 0;
    *n = 0;
    *call = tcc__cudnn_symbol_descriptor_create;
    tcc_cudnn_status r = g->f->descriptor_create(TCC_CUDNN_ENGINE, &engine);
    if (r) return r;
    *call = tcc__cudnn_symbol_get_attribute;
    r = g->f->get_attribute(config, TCC_CUDNN_ENGINECFG_ENGINE, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one, &engine);
    if (!r)
        r = g->f->get_attribute(engine, TCC_CUDNN_ENGINE_NUMERICAL_NOTE, TCC_CUDNN_TYPE_NUMERICAL_NOTE, MAX_NOTES, n,
                                notes);
    if (!r && index)
        r = g->f->get_attribute(engine, TCC_CUDNN_ENGINE_GLOBAL_INDEX, TCC_CUDNN_TYPE_INT64, 1, &one, index);
    drop(g, engine);
    return r;
}

static tcc_cudnn_status read_knob(const tcc_cudnn_graph *g, void *choice, uint64_t *hash, const char **call) {
    int type = 0;
    int64_t n, value = 0;
    *call = tcc__cudnn_symbol_get_attribute;
    tcc_cudnn_status r = g->f->get_attribute(choice, TCC_CUDNN_KNOB_CHOICE_KNOB_TYPE, TCC_CUDNN_TYPE_KNOB_TYPE, 1, &n,
                                             &type);
    if (!r) r = g->f->get_attribute(choice, TCC_CUDNN_KNOB_CHOICE_KNOB_VALUE, TCC_CUDNN_TYPE_INT64, 1, &n, &value);
    *hash += tcc_hash_add((uint64_t)type + 1, (uint64_t)value);
    return r;
}

static tcc_cudnn_status read_knobs(const tcc_cudnn_graph *g, void *config, int64_t *hash, const char **call) {
    void *choices[MAX_KNOBS] = {0};
    int64_t n = 0;
    uint64_t sum = 0;
    *call = tcc__cudnn_symbol_descriptor_create;
    tcc_cudnn_status r = 0;
    for (int i = 0; i < MAX_KNOBS && !r; i++) r = g->f->descriptor_create(TCC_CUDNN_KNOB_CHOICE, &choices[i]);
    if (!r) {
        *call = tcc__cudnn_symbol_get_attribute;
        r = g->f->get_attribute(config, TCC_CUDNN_ENGINECFG_KNOB_CHOICES, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_KNOBS,
                                &n, choices);
    }
    for (int64_t i = 0; i < n && i < MAX_KNOBS && !r; i++) r = read_knob(g, choices[i], &sum, call);
    for (int i = 0; i < MAX_KNOBS; i++) drop(g, choices[i]);
    *hash = (int64_t)((sum ^ sum >> 32) & 0x7fffffffu);
    return r;
}

/* Whether the config is the one that the limits ask for. */
static tcc_cudnn_status is_wanted(const tcc_cudnn_graph *g, const tcc_cudnn_limits *limits, void *config, int64_t index,
                                  bool *wanted, const char **call) {
    int64_t knobs;
    *wanted = !limits->engine || index == *limits->engine;
    if (!*wanted || !limits->knobs) return 0;
    const tcc_cudnn_status r = read_knobs(g, config, &knobs, call);
    *wanted = knobs == *limits->knobs;
    return r;
}

/* The plan of a config, for the handle's device or the one that the graph's properties tell of. */
static tcc_cudnn_status make_plan(const tcc_cudnn_graph *g, void *config, void **plan, int64_t *workspace_bytes,
                                  const char **call) {
    int64_t n;
    *call = tcc__cudnn_symbol_descriptor_create;
    tcc_cudnn_status r = g->f->descriptor_create(TCC_CUDNN_EXECUTION_PLAN, plan);
    if (r) return r;
    *call = tcc__cudnn_symbol_set_attribute;
    if (g->cudnn->handle)
        r = g->f->set_attribute(*plan, TCC_CUDNN_EXECUTION_PLAN_HANDLE, TCC_CUDNN_TYPE_HANDLE, 1, &g->cudnn->handle);
    if (!r)
        r = g->f->set_attribute(*plan, TCC_CUDNN_EXECUTION_PLAN_ENGINE_CONFIG, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                &config);
    if (r) return r;
    *call = tcc__cudnn_symbol_finalize;
    r = g->f->finalize(*plan);
    if (r) return r;
    *call = tcc__cudnn_symbol_get_attribute;
    return g->f->get_attribute(*plan, TCC_CUDNN_EXECUTION_PLAN_WORKSPACE_SIZE, TCC_CUDNN_TYPE_INT64, 1, &n,
                               workspace_bytes);
}

/* The plan of a config; left NULL where it cannot or may not be. */
static tcc_status try_config(tcc_cudnn_graph *g, tcc_diag *d, search *s, void *config) {
    int notes[MAX_NOTES];
    int64_t n, bytes = 0, index = 0;
    bool wanted = true;
    const char *call;
    void *plan = NULL;
    s->asked++;
    tcc_cudnn_status r = read_engine(g, config, notes, &n, s->limits->engine ? &index : NULL, &call);
    if (!r) r = is_wanted(g, s->limits, config, index, &wanted, &call);
    if (!r && !wanted) {
        s->others++;
        return TCC_OK;
    }
    if (!r && !notes_allow(s->limits, notes, n)) {
        s->by_notes++;
        return TCC_OK;
    }
    if (!r) r = make_plan(g, config, &plan, &bytes, &call);
    tcc_status status = TCC_OK;
    const bool taken = !r && bytes <= s->limits->workspace_bytes;
    if (taken && s->skipped == s->limits->skip) {
        g->plan = plan;
        g->plan_workspace_bytes = bytes;
        return TCC_OK;
    }
    if (taken) {
        s->skipped++;
    } else if (!r) {
        if (!s->by_workspace++ || bytes < s->least_workspace) s->least_workspace = bytes;
    } else if (may_go_on(r)) {
        s->failed++;
        tcc__cudnn_failed(g->f, &s->first, r, call);
    } else {
        status = tcc__cudnn_failed(g->f, d, r, call);
    }
    drop(g, plan);
    return status;
}

/* Room for `count` configs, filled by the heuristics. */
static tcc_status get_configs(const tcc_cudnn_graph *g, tcc_diag *d, void *heuristics, void **configs, int64_t *count) {
    for (int64_t i = 0; i < *count; i++) TCC_CUDNN_TRY(g->f, d, descriptor_create, TCC_CUDNN_ENGINECFG, &configs[i]);
    TCC_CUDNN_TRY(g->f, d, get_attribute, heuristics, TCC_CUDNN_ENGINEHEUR_RESULTS, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  *count, count, configs);
    return TCC_OK;
}

static bool is_over(const search *s) { return s->limits->best_alone && s->by_workspace; }

static tcc_status try_configs(tcc_cudnn_graph *g, tcc_diag *d, search *s, void *heuristics) {
    int64_t count = 0;
    TCC_CUDNN_TRY(g->f, d, get_attribute, heuristics, TCC_CUDNN_ENGINEHEUR_RESULTS, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  0, &count, NULL);
    if (count < 1) return TCC_OK;
    const int64_t room = count;
    void **configs = tcc__calloc((size_t)room, sizeof *configs);
    if (!configs) return tcc_enomem(d);
    tcc_status status = get_configs(g, d, heuristics, configs, &count);
    for (int64_t i = 0; i < count && i < room && status == TCC_OK && !g->plan && !is_over(s); i++) {
        status = try_config(g, d, s, configs[i]);
        if (g->plan) g->config = configs[i], configs[i] = NULL;
    }
    for (int64_t i = 0; i < room; i++) drop(g, configs[i]);
    tcc__free(configs);
    return status;
}

static tcc_status try_mode(tcc_cudnn_graph *g, tcc_diag *d, search *s, int mode) {
    const tcc_cudnn_attribute attributes[] = {
        {TCC_CUDNN_ENGINEHEUR_OPERATION_GRAPH, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &s->graph},
        {TCC_CUDNN_ENGINEHEUR_MODE, TCC_CUDNN_TYPE_HEUR_MODE, 1, &mode},
        {TCC_CUDNN_ENGINEHEUR_DEVICEPROP, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->cudnn->properties},
    };
    void *heuristics;
    tcc_diag why = {0};
    tcc_status status = make(g, &why, TCC_CUDNN_ENGINEHEUR, attributes, g->cudnn->handle ? 2 : 3, &heuristics);
    if (status == TCC_EUNSUPPORTED) { /* the other mode may know something */
        tcc_error(&s->first, status, TCC_NOWHERE, "%s", tcc_diag_text(&why));
        status = TCC_OK;
    } else if (status != TCC_OK) {
        tcc_error(d, status, TCC_NOWHERE, "%s", tcc_diag_text(&why));
    } else {
        status = try_configs(g, d, s, heuristics);
        drop(g, heuristics);
    }
    tcc_diag_clear(&why);
    return status;
}

static tcc_status no_engine(tcc_diag *d, const search *s) {
    char workspace[96] = "";
    if (s->by_workspace)
        snprintf(workspace, sizeof workspace, ", %d take %lld bytes of workspace or more, of %lld", s->by_workspace,
                 (long long)s->least_workspace, (long long)s->limits->workspace_bytes);
    tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE,
              "cudnn has no engine for it: of %d proposed, %d are not exact or not deterministic%s, %d fail%s%s",
              s->asked, s->by_notes, workspace, s->failed, s->first.text.length ? "; first " : "",
              tcc_diag_text(&s->first));
    if (s->skipped) tcc_note(d, TCC_NOWHERE, "%d that it has were passed over", s->skipped);
    if (s->others) tcc_note(d, TCC_NOWHERE, "%d are other engines than the one that is asked for", s->others);
    return TCC_EUNSUPPORTED;
}

tcc_status tcc_cudnn_graph_finish(tcc_cudnn_graph *g, tcc_diag *d, const tcc_cudnn_limits *limits,
                                  int64_t *workspace_bytes) {
    const int64_t slack = WORKSPACE_ALIGNMENT - 1;
    const tcc_cudnn_limits allowed = {
        .workspace_bytes = limits->workspace_bytes > slack ? limits->workspace_bytes - slack : 0,
        .tensor_cores = limits->tensor_cores,
        .engine = limits->engine,
        .knobs = limits->knobs,
        .skip = limits->skip,
        .best_alone = limits->best_alone};
    const tcc_cudnn_attribute attributes[] = {
        {TCC_CUDNN_OPERATIONGRAPH_OPS, TCC_CUDNN_TYPE_BACKEND_DESCRIPTOR, g->operations.count, g->operations.data},
        {TCC_CUDNN_OPERATIONGRAPH_HANDLE, TCC_CUDNN_TYPE_HANDLE, 1, &g->cudnn->handle},
    };
    search s = {.limits = &allowed};
    TCC_TRY(tcc_cudnn_graph_descriptor(g, d, TCC_CUDNN_OPERATIONGRAPH, attributes, g->cudnn->handle ? 2 : 1, &s.graph));
    tcc_status status = try_mode(g, d, &s, TCC_CUDNN_HEUR_MODE_A);
    if (status == TCC_OK && !g->plan && !is_over(&s)) status = try_mode(g, d, &s, TCC_CUDNN_HEUR_MODE_FALLBACK);
    if (status == TCC_OK && !g->plan) status = no_engine(d, &s);
    tcc_diag_clear(&s.first);
    *workspace_bytes = g->plan_workspace_bytes ? g->plan_workspace_bytes + slack : 0;
    return status;
}

tcc_status tcc_cudnn_graph_engine(const tcc_cudnn_graph *g, tcc_diag *d, int64_t *index, bool *keeps_nan) {
    int notes[MAX_NOTES];
    int64_t n;
    const char *call;
    tcc_cudnn_status r = read_engine(g, g->config, notes, &n, index, &call);
    if (r) return tcc__cudnn_failed(g->f, d, r, call);
    *keeps_nan = false;
    for (int64_t i = 0; i < n; i++) *keeps_nan = *keeps_nan || notes[i] == TCC_CUDNN_NOTE_STRICT_NAN_PROP;
    return TCC_OK;
}

tcc_status tcc_cudnn_graph_knobs(const tcc_cudnn_graph *g, tcc_diag *d, int64_t *hash) {
    const char *call;
    const tcc_cudnn_status r = read_knobs(g, g->config, hash, &call);
    return r ? tcc__cudnn_failed(g->f, d, r, call) : TCC_OK;
}

/* --- running --- */

/* A variant pack is closed once it is finalized: other addresses want another one. The oldest makes room. */
static tcc_status make_pack(tcc_cudnn_graph *g, tcc_diag *d, void *const *pointers, void *workspace,
                            const struct pack **out) {
    const tcc_cudnn_attribute attributes[] = {
        {TCC_CUDNN_VARIANT_PACK_UNIQUE_IDS, TCC_CUDNN_TYPE_INT64, g->n_tensors, g->uids},
        {TCC_CUDNN_VARIANT_PACK_DATA_POINTERS, TCC_CUDNN_TYPE_VOID_PTR, g->n_tensors, pointers},
        {TCC_CUDNN_VARIANT_PACK_WORKSPACE, TCC_CUDNN_TYPE_VOID_PTR, 1, &workspace},
    };
    void *made;
    TCC_TRY(make(g, d, TCC_CUDNN_VARIANT_PACK, attributes, 3, &made));
    const int at = g->n_packs < MAX_PACKS ? g->n_packs++ : g->oldest_pack;
    if (g->n_packs == MAX_PACKS) g->oldest_pack = (at + 1) % MAX_PACKS;
    struct pack *pack = &g->packs[at];
    drop(g, pack->descriptor);
    pack->descriptor = made;
    pack->workspace = workspace;
    memcpy(pack->pointers, pointers, sizeof *pointers * (size_t)g->n_tensors);
    g->next_pack = at + 1;
    *out = pack;
    return TCC_OK;
}

static const struct pack *find_pack(tcc_cudnn_graph *g, void *const *pointers, const void *workspace) {
    for (int i = 0; i < g->n_packs; i++) {
        const int at = (g->next_pack + i) % g->n_packs;
        const struct pack *pack = &g->packs[at];
        if (pack->workspace != workspace ||
            memcmp(pack->pointers, pointers, sizeof *pointers * (size_t)g->n_tensors) != 0)
            continue;
        g->next_pack = at + 1;
        return pack;
    }
    return NULL;
}

tcc_status tcc_cudnn_graph_run(tcc_cudnn_graph *g, tcc_diag *d, const tcc_cuda_address *addresses,
                               tcc_cuda_address workspace) {
    const tcc_cuda_address aligned = (workspace + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
    void *const at = g->plan_workspace_bytes ? (void *)(uintptr_t)aligned : NULL;
    void *pointers[MAX_TENSORS];
    for (int i = 0, next = 0; i < g->n_tensors; i++)
        pointers[i] = g->by_value[i] ? (void *)&g->values[i] : (void *)(uintptr_t)addresses[next++];
    const struct pack *pack = find_pack(g, pointers, at);
    if (!pack) TCC_TRY(make_pack(g, d, pointers, at, &pack));
    TCC_CUDNN_TRY(g->f, d, execute, g->cudnn->handle, g->plan, pack->descriptor);
    return TCC_OK;
}
