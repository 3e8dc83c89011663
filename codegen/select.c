/* SPDX-License-Identifier: MIT
 * The table of implementations, and the candidates that it gives for a group. A row lowers a group. A proposal is such
 * a lowering whose launches are recorded (choice.c) and then dropped. So the proposal is exactly what the builder will
 * make. */
#include "codegen/select.h"

#include "codegen/choice.h"
#include "codegen/library/call.h"
#include "codegen/library/collective.h"
#include "codegen/library/norm.h"
#include "codegen/schedule/lowering.h"
#include "codegen/schedule/scan.h"
#include "codegen/schedule/sort.h"
#include "codegen/signature.h"
#include "ir/support/alloc.h"
#include "ir/support/hash.h"
#include "ir/support/table.h"

#include <string.h>

/* -- The table -- */

#define OF(kind) (1u << TCC_GROUP_##kind)
#define ON(target) (1u << TCC_TARGET_##target)
enum { ANY = ON(HOST) | ON(CUDA) };

typedef struct implementation {
    const char *name;
    unsigned kinds, targets;
    /* Plain loops over all products are far behind any schedule: they are proposed where there is none, and so is that
     * what is behind the products is left to a group of its own. */
    bool last_resort;
    tcc_status (*lower)(tcc_lowering *l); /* adds no launch and no cut: it does not run this group */
} implementation;

/* The contraction, and another group of what is behind it, which no schedule takes with it. */
static tcc_status lower_alone(tcc_lowering *l) {
    const tcc_group *group = l->group;
    if (group->n_outputs > 1 || group->outputs[0] != group->hero) l->cut = group->hero;
    return TCC_OK;
}

/* Among candidates of equal time the first is taken. */
static const implementation implementations[] = {
    {"cublaslt.matmul", OF(CONTRACT), ON(CUDA), false, tcc_lower_matmul_call},
    {"cudnn.conv", OF(CONTRACT), ON(CUDA), false, tcc_lower_conv_call},
    {"winograd", OF(CONTRACT), ON(HOST), false, tcc_lower_winograd},
    {"contract.tiles", OF(CONTRACT), ANY, false, tcc_lower_contract},
    {"contract.channels", OF(CONTRACT), ANY, false, tcc_lower_depthwise},
    {"contract.apart", OF(CONTRACT), ANY, false, tcc_lower_apart},
    {"cudnn.sdpa", OF(ATTENTION), ON(CUDA), false, tcc_lower_attention_call},
    {"attention", OF(ATTENTION), ANY, false, tcc_lower_attention},
    {"collective", OF(COLLECTIVE), ANY, false, tcc_lower_collective},
    {"cudnn.batch_norm", OF(NORM), ON(CUDA), false, tcc_lower_norm_call},
    {"reduce", OF(REDUCE), ANY, false, tcc_lower_reduce},
    {"scan", OF(SCAN), ANY, false, tcc_lower_scan},
    {"scatter", OF(SCATTER), ANY, false, tcc_lower_scatter},
    {"sort", OF(SORT), ON(CUDA), false, tcc_lower_sort},
    {"pointwise", OF(POINTWISE) | OF(WINDOW), ANY, false, tcc_lower_pointwise},
    {"contract.alone", OF(CONTRACT), ANY, true, lower_alone},
    {"loops", OF(CONTRACT) | OF(ATTENTION), ANY, true, tcc_lower_pointwise},
};
enum { IMPLEMENTATIONS = sizeof implementations / sizeof implementations[0] };

/* Lowers by the row of the choice, whose parameters are all asked for. */
static tcc_status lower_by_choice(tcc_lowering *l) {
    const tcc_implementation *choice = l->params.choice;
    const char *name = choice ? choice->name : "pointwise";
    const implementation *row = NULL;
    for (int i = 0; i < IMPLEMENTATIONS; i++)
        if (!strcmp(implementations[i].name, name)) row = &implementations[i];
    if (!row || !(row->kinds >> l->group->kind & 1) || !(row->targets >> l->target->kind & 1))
        return tcc_error(l->diag, TCC_EINVAL, l->group->hero->loc,
                         "\"%s\" runs no group of this kind on this target: %s", name, tcc_node_text(l->group->hero));
    TCC_TRY(row->lower(l));
    return choice ? tcc_choice_check_params(l) : TCC_OK;
}

tcc_status tcc_select_lower(tcc_lowering *l) {
    TCC_TRY(lower_by_choice(l));
    return l->params.choice ? tcc_choice_check(l) : TCC_OK;
}

/* -- What is remembered -- */

/* A candidate of a group whose nodes are numbers: those of the group by position, then its inputs. */
typedef struct known_group {
    const char *signature;
    int count;
    tcc_candidate *candidates;
} known_group;

typedef struct known_call {
    const char *entry;
    int64_t *asked, *answer; /* params */
    int n_params;
    bool taken;
} known_call;

struct tcc_selector {
    tcc_context *cx;
    tcc_codegen_options options;
    tcc_llvm_target own;
    tcc_pass_target target;
    tcc_norm_asker asker;
    bool (*takes_call)(void *user, const char *name, int64_t *params); /* the library itself */
    void *takes_call_user;
    tcc_arena memory;
    tcc_table groups;   /* known_group, by signature */
    tcc_node **slot_of; /* by node: of the group at hand; others are as they were left */
    int slots;
    tcc_vec(known_call) calls;
};

/* takes_call of tcc_codegen_options: the library, or what it said before. */
static bool ask(void *user, const char *entry, int64_t *params) {
    tcc_selector *s = user;
    const tcc_call known = tcc_call_find(entry);
    const int n = known < TCC_CALLS ? tcc_call_get_info(known)->n_params : 0;
    const size_t bytes = sizeof *params * (size_t)n;
    for (int i = 0; i < s->calls.count && n; i++) {
        const known_call *call = &s->calls.data[i];
        if (strcmp(call->entry, entry) || memcmp(call->asked, params, bytes)) continue;
        memcpy(params, call->answer, bytes);
        return call->taken;
    }
    known_call call = {.entry = entry, .n_params = n, .asked = tcc_arena_copy(&s->memory, params, bytes)};
    call.taken = s->takes_call(s->takes_call_user, entry, params);
    call.answer = tcc_arena_copy(&s->memory, params, bytes);
    if (n && call.asked && call.answer) tcc_vec_push(&s->calls, call); /* else it is asked again */
    return call.taken;
}

/* -- Candidates -- */

static tcc_lowering lowering_of(tcc_selector *s, const tcc_graph *g, const tcc_group *group, tcc_arena *scratch) {
    tcc_lowering l = tcc_lowering_of(scratch, g->diag, g, group, NULL, &s->options);
    l.cx = s->cx;
    return l;
}

static tcc_status candidates_of(tcc_selector *s, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                                tcc_candidates *out);

/* The predicted time of the best way to run a group. */
static tcc_status best_time(tcc_selector *s, const tcc_graph *g, const tcc_group *group, int64_t *ns) {
    tcc_arena scratch = {0};
    tcc_candidates all = {0};
    tcc_status status = candidates_of(s, g, group, &scratch, &all);
    if (status == TCC_OK && !all.count) status = TCC_BUG(g->diag, "nothing runs %s", tcc_node_text(group->hero));
    if (status == TCC_OK) *ns += all.data[tcc_select_best(all.data, all.count)].ns;
    tcc_vec_free(&all);
    tcc_arena_free(&scratch);
    return status;
}

static tcc_status time_of_parts(tcc_selector *s, const tcc_graph *g, const tcc_group *group, tcc_node *cut,
                                int64_t *ns) {
    tcc_arena scratch = {0};
    tcc_group first, rest;
    bool possible;
    *ns = 0;
    tcc_status status = tcc_group_cut(&scratch, g->diag, group, cut, &first, &rest, &possible);
    if (status == TCC_OK && !possible) status = TCC_BUG(g->diag, "%s cannot be cut off", tcc_node_text(cut));
    if (status == TCC_OK) status = best_time(s, g, &first, ns);
    if (status == TCC_OK) status = best_time(s, g, &rest, ns);
    tcc_arena_free(&scratch);
    return status;
}

static tcc_status propose(tcc_selector *s, const tcc_graph *g, const tcc_group *group, const implementation *row,
                          tcc_arena *arena, tcc_candidates *out) {
    tcc_arena scratch = {0};
    tcc_lowering l = lowering_of(s, g, group, &scratch);
    tcc_candidate c = {.name = row->name};
    tcc_status status = row->lower(&l);
    bool proposed = false;
    if (status == TCC_OK && l.cut) {
        c.cut = l.cut;
        status = time_of_parts(s, g, group, l.cut, &c.ns);
        proposed = true;
    } else if (status == TCC_OK && l.launches.count) {
        c.implementation = tcc_choice_record(&l, arena, row->name);
        if (!c.implementation) status = TCC_ENOMEM;
        else c.ns = tcc_implementation_ns(c.implementation);
        proposed = true;
    }
    if (status == TCC_OK && proposed && !tcc_vec_push(out, c)) status = tcc_enomem(g->diag);
    tcc_lowering_clear(&l);
    tcc_arena_free(&scratch);
    return status;
}

static tcc_status propose_all(tcc_selector *s, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                              tcc_candidates *out) {
    for (int last = 0; last < 2 && !(last && out->count); last++)
        for (int i = 0; i < IMPLEMENTATIONS; i++) {
            const implementation *row = &implementations[i];
            if (!(row->kinds >> group->kind & 1) || !(row->targets >> s->options.target->kind & 1)) continue;
            if (row->last_resort == last) TCC_TRY(propose(s, g, group, row, arena, out));
        }
    return TCC_OK;
}

/* -- Remembering -- */

/* Copies candidates between the nodes of a graph and slots; `map` by id. */
static tcc_status copy_candidates(tcc_arena *arena, const tcc_candidate *from, int count, tcc_node *const *map,
                                  tcc_candidates *out) {
    for (int i = 0; i < count; i++) {
        tcc_candidate c = from[i];
        if (c.implementation) {
            c.implementation = tcc_implementation_copy(arena, c.implementation, map);
            if (!c.implementation) return TCC_ENOMEM;
        } else {
            c.cut = map[c.cut->id];
        }
        if (!tcc_vec_push(out, c)) return TCC_ENOMEM;
    }
    return TCC_OK;
}

/* The group's nodes and inputs, in the order of their slots. */
static int list_nodes(const tcc_group *group, tcc_node *const *inputs, int n_inputs, tcc_node **out) {
    int n = 0;
    for (int i = 0; i < group->n_nodes; i++) out[n++] = group->nodes[i];
    for (int i = 0; i < n_inputs; i++) out[n++] = inputs[i];
    return n;
}

static const known_group *find_known(const tcc_selector *s, const char *signature) {
    const uint64_t hash = tcc_hash_string(0, signature);
    size_t at = hash;
    for (const known_group *known; (known = tcc_table_next(&s->groups, hash, &at));)
        if (!strcmp(known->signature, signature)) return known;
    return NULL;
}

static bool make_slots(tcc_selector *s, int nodes) {
    if (nodes <= s->slots) return true;
    tcc_node **slot_of = tcc__realloc(s->slot_of, sizeof(tcc_node *) * (size_t)nodes);
    if (!slot_of) return false;
    s->slot_of = slot_of;
    s->slots = nodes;
    return true;
}

static tcc_status remember(tcc_selector *s, const tcc_graph *g, const char *signature, tcc_node *const *nodes, int n,
                           const tcc_candidates *all) {
    tcc_node *slots = TCC_ARENA_ARRAY(&s->memory, tcc_node, n + 1);
    known_group *known = TCC_ARENA_NEW(&s->memory, known_group);
    const char *name = tcc_arena_strdup(&s->memory, signature);
    tcc_candidates copied = {0};
    tcc_status status = slots && known && name && make_slots(s, g->nodes.count) ? TCC_OK : TCC_ENOMEM;
    for (int i = 0; i < n && status == TCC_OK; i++)
        slots[i] = (tcc_node){.id = i}, s->slot_of[nodes[i]->id] = &slots[i];
    if (status == TCC_OK) status = copy_candidates(&s->memory, all->data, all->count, s->slot_of, &copied);
    if (status == TCC_OK) {
        *known = (known_group){name, copied.count, NULL};
        known->candidates = tcc_arena_copy(&s->memory, copied.data, sizeof *copied.data * (size_t)copied.count);
        if (known->candidates && tcc_table_reserve(&s->groups))
            tcc_table_add(&s->groups, tcc_hash_string(0, name), known);
        else status = TCC_ENOMEM;
    }
    tcc_vec_free(&copied);
    return status;
}

static tcc_status candidates_of(tcc_selector *s, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                                tcc_candidates *out) {
    if (group->kind == TCC_GROUP_NORM) return propose_all(s, g, group, arena, out); /* looks around in the graph */
    int room = group->n_nodes + 1;
    for (int i = 0; i < group->n_nodes; i++) room += group->nodes[i]->n_operands;
    tcc_node **inputs = tcc__calloc(2 * (size_t)room, sizeof *inputs);
    if (!inputs) return tcc_enomem(g->diag);
    tcc_node **nodes = inputs + room;
    const int n_inputs = tcc_group_inputs(group, inputs), n = list_nodes(group, inputs, n_inputs, nodes);
    char *signature = tcc_group_signature(group, inputs, n_inputs);
    tcc_status status = signature ? TCC_OK : TCC_ENOMEM;
    const known_group *known = signature ? find_known(s, signature) : NULL;
    if (known) {
        status = copy_candidates(arena, known->candidates, known->count, nodes, out);
    } else if (status == TCC_OK) {
        status = propose_all(s, g, group, arena, out);
        if (status == TCC_OK) status = remember(s, g, signature, nodes, n, out);
    }
    tcc__free(signature);
    tcc__free(inputs);
    return status == TCC_ENOMEM && g->diag->status == TCC_OK ? tcc_enomem(g->diag) : status;
}

static tcc_status candidates(void *user, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                             tcc_candidates *out) {
    return candidates_of(user, g, group, arena, out);
}

/* Lowers the group by its choice, which may lack parameters; *out: what was made, NULL: nobody asks. */
static tcc_status follow_choice(tcc_selector *s, const tcc_graph *g, const tcc_group *group, tcc_diag *diag,
                                tcc_arena *arena, const tcc_implementation **out) {
    tcc_arena scratch = {0};
    tcc_lowering l = lowering_of(s, g, group, &scratch);
    const tcc_implementation *choice = l.params.choice = group->implementation;
    l.params.completes = true;
    l.diag = l.params.diag = diag;
    tcc_status status = lower_by_choice(&l);
    if (status == TCC_OK && !l.launches.count)
        status = tcc_error(diag, TCC_EINVAL, group->hero->loc, "\"%s\" cannot run %s", choice->name,
                           tcc_node_text(group->hero));
    if (status == TCC_OK && out) {
        const char *name = tcc_arena_strdup(arena, choice->name);
        *out = name ? tcc_choice_record(&l, arena, name) : NULL;
        if (!*out) status = name ? TCC_ENOMEM : tcc_enomem(diag);
    }
    tcc_lowering_clear(&l);
    tcc_arena_free(&scratch);
    return status;
}

static tcc_status follow(void *user, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                         const tcc_implementation **out) {
    return follow_choice(user, g, group, g->diag, arena, out);
}

/* The same where nobody is told why it cannot be: *out is NULL then. Errors: TCC_ENOMEM. */
static tcc_status follow_quietly(tcc_selector *s, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                                 const tcc_implementation **out) {
    const unsigned topics = s->cx->topics;
    tcc_diag quiet = {0};
    *out = NULL;
    s->cx->topics = 0;
    const tcc_status status = follow_choice(s, g, group, &quiet, arena, out);
    s->cx->topics = topics;
    tcc_diag_clear(&quiet);
    if (status != TCC_OK) *out = NULL;
    return status == TCC_ENOMEM ? tcc_enomem(g->diag) : TCC_OK;
}

static int ordering_params(const tcc_implementation *x) {
    int count = 0;
    for (int i = 0; i < x->n_params; i++) count += tcc_param_orders(x->params[i].name);
    return count;
}

static bool can_follow(void *user, const tcc_graph *g, const tcc_group *group, bool exactly) {
    tcc_arena scratch = {0};
    const tcc_implementation *x; /* select says what becomes of it */
    follow_quietly(user, g, group, &scratch, &x);
    const bool follows = x && (!exactly || ordering_params(x) == ordering_params(group->implementation));
    tcc_arena_free(&scratch);
    return follows;
}

static tcc_implementation *order_of(void *user, const tcc_implementation *x, tcc_arena *arena) {
    (void)user;
    tcc_implementation order = {.name = x->name};
    order.params = TCC_ARENA_ARRAY(arena, tcc_choice_param, x->n_params + 1);
    for (int i = 0; order.params && i < x->n_params; i++)
        if (tcc_param_orders(x->params[i].name)) order.params[order.n_params++] = x->params[i];
    return order.params ? tcc_implementation_copy(arena, &order, NULL) : NULL;
}

/* -- Variations -- */

static bool same_params(const tcc_implementation *a, const tcc_implementation *b) {
    if (strcmp(a->name, b->name) || a->n_params != b->n_params) return false;
    for (int i = 0; i < a->n_params; i++)
        if (strcmp(a->params[i].name, b->params[i].name) || a->params[i].value != b->params[i].value) return false;
    return true;
}

/* `given` with parameter `name` set. */
static tcc_implementation *with_param(tcc_arena *arena, const tcc_implementation *given, const char *name,
                                      int64_t value) {
    tcc_implementation *x = TCC_ARENA_NEW(arena, tcc_implementation);
    tcc_choice_param *params = TCC_ARENA_ARRAY(arena, tcc_choice_param, given->n_params + 1);
    const char *copy = tcc_arena_strdup(arena, name);
    if (!x || !params || !copy) return NULL;
    int n = 0;
    for (int i = 0; i < given->n_params; i++)
        if (strcmp(given->params[i].name, name) != 0) params[n++] = given->params[i];
    params[n++] = (tcc_choice_param){copy, value};
    *x = (tcc_implementation){.name = given->name, .params = params, .n_params = n};
    return x;
}

static tcc_status add_variation(tcc_selector *s, const tcc_graph *g, const tcc_group *group,
                                const tcc_implementation *from, tcc_implementation *given, tcc_arena *arena,
                                tcc_variations *out) {
    tcc_group varied = *group;
    tcc_variation v = {.given = given};
    if (!given) return tcc_enomem(g->diag);
    varied.implementation = given;
    TCC_TRY(follow_quietly(s, g, &varied, arena, &v.whole));
    bool known = !v.whole || same_params(v.whole, from);
    for (int i = 0; i < out->count && !known; i++) known = same_params(v.whole, out->data[i].whole);
    return known || tcc_vec_push(out, v) ? TCC_OK : tcc_enomem(g->diag);
}

static tcc_status vary_params(tcc_selector *s, const tcc_graph *g, const tcc_group *group, bool orders,
                              const tcc_params *params, tcc_arena *arena, tcc_variations *out) {
    const tcc_implementation from = {
        .name = group->implementation->name, .params = params->settled.data, .n_params = params->settled.count};
    for (int i = 0; i < params->settled.count; i++) {
        const tcc_choice_param *p = &params->settled.data[i];
        int64_t values[TCC_PARAM_ALTERNATIVES];
        if (!orders && tcc_param_orders(p->name)) continue;
        const int n = tcc_param_alternatives(p->name, &params->ranges.data[i], p->value, values);
        for (int k = 0; k < n; k++)
            TCC_TRY(add_variation(s, g, group, &from, with_param(arena, group->implementation, p->name, values[k]),
                                  arena, out));
    }
    return TCC_OK;
}

/* The algorithms that a library named for the call. */
static tcc_status vary_algorithms(tcc_selector *s, const tcc_graph *g, const tcc_group *group, const tcc_lowering *l,
                                  tcc_arena *arena, tcc_variations *out) {
    const tcc_implementation from = {
        .name = group->implementation->name, .params = l->params.settled.data, .n_params = l->params.settled.count};
    for (int i = 0; i < l->algorithms.count; i++) {
        tcc_choice_param params[TCC_LISTED_PARAMS];
        tcc_implementation *x = group->implementation;
        const int64_t *form = NULL;
        for (int k = 0; k < from.n_params; k++)
            if (!strcmp(from.params[k].name, tcc_param_name(TCC_PARAM_FORM))) form = &from.params[k].value;
        tcc_lowering_listed_params(&l->algorithms.data[i], params);
        if (form) x = with_param(arena, x, tcc_param_name(TCC_PARAM_FORM), *form);
        for (int k = 0; k < TCC_LISTED_PARAMS && x; k++) x = with_param(arena, x, params[k].name, params[k].value);
        TCC_TRY(add_variation(s, g, group, &from, x, arena, out));
    }
    return TCC_OK;
}

tcc_status tcc_selector_vary(tcc_selector *s, const tcc_graph *g, const tcc_group *group, bool orders, tcc_arena *arena,
                             tcc_variations *out) {
    tcc_arena scratch = {0};
    tcc_lowering l = lowering_of(s, g, group, &scratch);
    l.params.choice = group->implementation;
    l.params.completes = true;
    l.lists = orders;
    tcc_status status = lower_by_choice(&l);
    if (status == TCC_OK && orders) status = vary_algorithms(s, g, group, &l, arena, out);
    if (status == TCC_OK) status = vary_params(s, g, group, orders, &l.params, arena, out);
    tcc_lowering_clear(&l);
    tcc_arena_free(&scratch);
    return status;
}

/* -- Questions about libraries -- */

static bool takes_norm(void *user, const tcc_graph *g, const tcc_node *n) {
    return tcc_norm_takes(&((tcc_selector *)user)->asker, g, n);
}

static bool is_call(const implementation *row) {
    return row->lower == tcc_lower_matmul_call || row->lower == tcc_lower_conv_call;
}

/* Whether a library computes the contraction `hero`, with `sum` (NULL: none) in the same call; where that leaves
 * nothing else to do, or, without `sum`, something. */
static bool takes_contraction(tcc_selector *s, const tcc_graph *g, tcc_node *hero, tcc_node *sum) {
    tcc_node *nodes[] = {hero, sum};
    if (sum && sum->id < hero->id) nodes[0] = sum, nodes[1] = hero;
    const int n = sum ? 2 : 1;
    const tcc_group group = {
        .kind = TCC_GROUP_CONTRACT, .hero = hero, .n_nodes = n, .n_outputs = n, .nodes = nodes, .outputs = nodes};
    const unsigned topics = s->cx->topics;
    tcc_diag quiet = {0};
    bool takes = false;
    s->cx->topics = 0; /* select says what becomes of it */
    for (int i = 0; i < IMPLEMENTATIONS && !takes; i++) {
        if (!is_call(&implementations[i])) continue;
        tcc_arena scratch = {0};
        tcc_lowering l = lowering_of(s, g, &group, &scratch);
        l.diag = l.params.diag = &quiet;
        takes = implementations[i].lower(&l) == TCC_OK && (l.launches.count || (l.cut && !sum));
        tcc_lowering_clear(&l);
        tcc_arena_free(&scratch);
    }
    s->cx->topics = topics;
    tcc_diag_clear(&quiet);
    return takes;
}

static bool computes_operand(void *user, const tcc_graph *g, tcc_node *hero, int k, tcc_operand_work *out) {
    tcc_selector *s = user;
    if (s->takes_call && takes_contraction(s, g, hero, NULL)) return false;
    const tcc_group group = {
        .kind = TCC_GROUP_CONTRACT, .hero = hero, .n_nodes = 1, .n_outputs = 1, .nodes = &hero, .outputs = &hero};
    tcc_arena scratch = {0};
    tcc_diag quiet = {0};
    tcc_lowering l = lowering_of(s, g, &group, &scratch);
    l.diag = l.params.diag = &quiet;
    const bool computes = tcc_contract_computes(&l, k, out) == TCC_OK && out->repeats;
    tcc_lowering_clear(&l);
    tcc_arena_free(&scratch);
    tcc_diag_clear(&quiet);
    return computes;
}

static bool sums_operands(void *user, const tcc_graph *g, tcc_node *hero, tcc_node *sum) {
    return takes_contraction(user, g, hero, sum);
}

/* -- Tensor cores -- */

static int64_t row_elements(void *user, tcc_dtype dtype) {
    enum { BYTES = 16 }; /* that they are fed at a time */
    const tcc_selector *s = user;
    const tcc_hardware *hw = &s->options.target->hw;
    const bool fed = tcc_dtype_is_narrow(dtype) ? hw->fma_f16 > 0
                                                : dtype == TCC_F32 && s->options.tf32 && hw->fma_tf32 > 0;
    return fed ? BYTES / tcc_dtype_bytes(dtype) : 1;
}

/* -- Life -- */

tcc_status tcc_selector_create(tcc_context *cx, const tcc_codegen_options *options, bool all_norms,
                               tcc_selector **out) {
    tcc_selector *s = tcc__calloc(1, sizeof *s);
    if (!s) return tcc_enomem(&cx->diag);
    s->cx = cx;
    s->options = *options;
    s->options.dump_dir = NULL;
    tcc_status status = TCC_OK;
    if (!options->target) {
        status = options->arch ? tcc_llvm_target_cuda(options->arch, options->hardware, &cx->diag, &s->own)
                               : tcc_llvm_target_host(options->cpu, &cx->diag, &s->own);
        s->options.target = &s->own;
    }
    if (status != TCC_OK) {
        tcc__free(s);
        return status;
    }
    const bool gpu = s->options.target->lane_groups;
    s->takes_call = gpu ? options->takes_call : NULL;
    s->takes_call_user = options->takes_call_user;
    s->options.takes_call = s->takes_call ? ask : NULL;
    s->options.takes_call_user = s;
    s->asker = (tcc_norm_asker){cx, s->options.takes_call, s, s->options.target->costs.planned_call_bytes, all_norms};
    s->target = (tcc_pass_target){.user = s,
                                  .costs = s->options.target->costs,
                                  .candidates = candidates,
                                  .follow = follow,
                                  .can_follow = can_follow,
                                  .order_of = order_of,
                                  .narrow_places = gpu,
                                  .lanes = gpu ? 0 : s->options.target->lanes,
                                  .row_elements = gpu ? row_elements : NULL,
                                  .longest_sorted = tcc_sort_longest(s->options.target),
                                  .stores_across = gpu,
                                  .longest_column = gpu ? TCC_REDUCE_LONGEST_COLUMN : 0,
                                  .longest_parts = gpu ? TCC_REDUCE_LONGEST_PARTS : 0,
                                  .sums_in_stages = gpu,
                                  .scan_threads = tcc_scan_threads(s->options.target),
                                  .takes_norm = s->takes_call ? takes_norm : NULL,
                                  .computes_operand = computes_operand,
                                  .sums_operands = s->takes_call ? sums_operands : NULL};
    *out = s;
    return TCC_OK;
}

void tcc_selector_destroy(tcc_selector *s) {
    if (!s) return;
    tcc_table_free(&s->groups);
    tcc__free(s->slot_of);
    tcc_vec_free(&s->calls);
    tcc_arena_free(&s->memory);
    tcc_llvm_target_clear(&s->own);
    tcc__free(s);
}

tcc_pass_target *tcc_selector_target(tcc_selector *s) { return &s->target; }

const tcc_llvm_target *tcc_selector_llvm(const tcc_selector *s) { return s->options.target; }

void tcc_selector_print_target(const tcc_selector *s, tcc_strbuf *out) {
    const tcc_llvm_target *t = s->options.target;
    if (t->arch) tcc_strbuf_printf(out, "%s %d processors", t->arch, t->hw.processors);
    else tcc_strbuf_printf(out, "cpu %s", t->cpu);
}
