/* SPDX-License-Identifier: MIT
 * Records a launch's accesses to its buffers. They come from the loads and stores of its body, and for buffers that
 * only the kernel touches, from the launch's description. */
#include "codegen/verify/facts.h"
#include "codegen/schedule/lowering.h"

#include "ir/support/alloc.h"
#include "ir/support/hash.h"

#include <string.h>

void tcc_program_facts_clear(tcc_program_facts *f) {
    tcc_vec_free(&f->values);
    tcc_vec_free(&f->launches);
    tcc_vec_free(&f->groups);
    tcc_arena_free(&f->memory);
    *f = (tcc_program_facts){0};
}

/* --- Values */

static int add_value(tcc_program_facts *f, tcc_fact_value v) {
    return tcc_vec_push(&f->values, v) ? f->values.count - 1 : -1;
}

static int value_of_node(tcc_program_facts *f, const tcc_node *n) {
    int *of = &f->of_node[n->id];
    if (*of < 0) *of = add_value(f, (tcc_fact_value){.node = n, .size_bytes = tcc_type_bytes(&n->type)});
    return *of;
}

tcc_status tcc_program_facts_begin(tcc_program_facts *f, const tcc_graph *g, tcc_diag *diag) {
    *f = (tcc_program_facts){.graph = g};
    f->of_node = TCC_ARENA_ARRAY(&f->memory, int, g->nodes.count + 1);
    if (!f->of_node) return tcc_enomem(diag);
    for (int i = 0; i < g->nodes.count; i++) f->of_node[i] = -1;
    bool ok = true;
    for (int i = 0; i < g->inputs.count && ok; i++) ok = value_of_node(f, g->inputs.data[i]) >= 0;
    for (int i = 0; i < g->outputs.count && ok; i++) ok = value_of_node(f, g->outputs.data[i].node) >= 0;
    return ok ? TCC_OK : tcc_enomem(diag);
}

/* The temporaries of a group are new values. Their sizes are known when the group is lowered. */
static bool open_group(tcc_program_facts *f, const tcc_lowering *l, const char *label) {
    if (f->open == l->group) return true;
    f->open = l->group;
    f->first_temporary = f->values.count;
    for (int i = 0; i < l->temporaries.count; i++)
        if (add_value(f, (tcc_fact_value){.label = label, .temporary = i, .size_bytes = l->temporaries.data[i]}) < 0)
            return false;
    return true;
}

/* The value of a buffer; *none: there is none. -1: memory is short. */
static int value_of(tcc_program_facts *f, const tcc_plan_buffer *buffer, bool *none) {
    *none = !buffer->node && !buffer->literal && buffer->temporary < 0;
    if (*none) return -1;
    if (buffer->node) return value_of_node(f, buffer->node);
    if (!buffer->literal) return f->first_temporary + buffer->temporary;
    return add_value(f, (tcc_fact_value){.temporary = -1,
                                         .hash = tcc_hash_bytes(0, buffer->literal, (size_t)buffer->literal_bytes),
                                         .size_bytes = buffer->literal_bytes});
}

/* --- Uses */

static bool equal(const tcc_region *a, const tcc_region *b) {
    bool same = a->from == b->from && a->run == b->run && a->n_levels == b->n_levels && a->exact == b->exact;
    for (int i = 0; i < a->n_levels && same; i++)
        same = a->levels[i].stride == b->levels[i].stride && a->levels[i].count == b->levels[i].count;
    return same;
}

/* Room for a region of each access of the body. */
typedef struct accesses {
    tcc_region *regions;
    int n;
} accesses;

static void add_region(accesses *to, tcc_region r) {
    if (r.run <= 0) return; /* a guard that never holds */
    for (int i = 0; i < to->n; i++)
        if (equal(&to->regions[i], &r)) return;
    to->regions[to->n++] = r;
}

static const tcc_region *keep(tcc_program_facts *f, const accesses *from) {
    return tcc_arena_copy(&f->memory, from->regions, sizeof *from->regions * (size_t)from->n);
}

static bool keep_reads(tcc_program_facts *f, const tcc_body *b, const bool *used, int buffer, accesses *room,
                       tcc_fact_use *use) {
    room->n = 0;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind == TCC_EXPR_LOAD && x->buffer == buffer && used[i]) add_region(room, tcc_region_of_load(b, x));
    }
    use->n_reads = room->n;
    return room->n == 0 || (use->reads = keep(f, room));
}

static bool keep_writes(tcc_program_facts *f, const tcc_body *b, int buffer, accesses *room, tcc_fact_use *use) {
    room->n = 0;
    for (int i = 0; i < b->stores.count; i++)
        if (b->stores.data[i].buffer == buffer) room->regions[room->n++] = tcc_region_of_store(b, &b->stores.data[i]);
    use->n_writes = room->n;
    return room->n == 0 || (use->writes = keep(f, room));
}

/* What the kernel touches by itself: the region that its description names, or all that is left of the value. */
static bool keep_own(tcc_program_facts *f, const tcc_plan_launch *launch, int at, tcc_fact_use *use) {
    const tcc_fact_value *v = &f->values.data[use->value];
    const tcc_region whole = launch->regions && launch->regions[at].run
                                 ? launch->regions[at]
                                 : tcc_region_whole(v->size_bytes - use->offset_bytes);
    if (whole.run <= 0) return true;
    const tcc_region *kept = tcc_arena_copy(&f->memory, &whole, sizeof whole);
    if (launch->buffers[at].written) use->n_writes = 1, use->writes = kept;
    else use->n_reads = 1, use->reads = kept;
    return kept;
}

static bool same_start(const tcc_buffer *a, const tcc_buffer *b) {
    return a->space == b->space && a->binding == b->binding && a->offset_bytes == b->offset_bytes;
}

/* Pairs of buffers that begin at one address and of which one is written: all that may be in step. */
static bool keep_pairs(tcc_program_facts *f, const tcc_plan_launch *launch, const tcc_buffer *buffers, const bool *used,
                       tcc_fact_launch *out) {
    static const tcc_fact_pair call = {0, 1};
    if (launch->in_place) out->n_in_step = 1, out->in_step = &call;
    if (!launch->kernel.in_step) return true;
    tcc_vec(tcc_fact_pair) pairs = {0};
    bool ok = true;
    for (int w = 0; w < launch->body->buffers.count && ok; w++) {
        const int write = launch->first_of_body + w;
        for (int r = 0; r < launch->body->buffers.count && ok && out->uses[write].n_writes; r++) {
            const int read = launch->first_of_body + r;
            if (!out->uses[read].n_reads || !same_start(&buffers[read], &buffers[write])) continue;
            if (tcc_launch_in_step(launch, used, read, write)) ok = tcc_vec_push(&pairs, (tcc_fact_pair){read, write});
        }
    }
    out->n_in_step = pairs.count;
    if (ok && pairs.count)
        ok = (out->in_step = tcc_arena_copy(&f->memory, pairs.data, sizeof *pairs.data * (size_t)pairs.count));
    tcc_vec_free(&pairs);
    return ok;
}

static bool keep_uses(tcc_program_facts *f, const tcc_plan_launch *launch, const bool *used, accesses *room,
                      tcc_fact_use *uses) {
    const tcc_body *b = launch->body;
    for (int i = 0; i < launch->kernel.n_buffers; i++) {
        const tcc_plan_buffer *buffer = &launch->buffers[i];
        tcc_fact_use *use = &uses[i];
        bool none;
        *use = (tcc_fact_use){.value = value_of(f, buffer, &none), .offset_bytes = buffer->offset_bytes};
        if (none) continue;
        if (use->value < 0) return false;
        const int of_body = b ? i - launch->first_of_body : -1;
        if (of_body >= 0 ? !keep_reads(f, b, used, of_body, room, use) || !keep_writes(f, b, of_body, room, use)
                         : !keep_own(f, launch, i, use))
            return false;
    }
    return true;
}

tcc_status tcc_program_facts_add(tcc_program_facts *f, const tcc_lowering *l, const tcc_plan_launch *launch,
                                 const tcc_buffer *buffers, bool nothing, const char *label, const char *lines) {
    const tcc_body *b = launch->body;
    const int n = launch->kernel.n_buffers;
    tcc_fact_use *uses = TCC_ARENA_ARRAY(&f->memory, tcc_fact_use, n + 1);
    tcc_fact_launch out = {
        .buffers = buffers, .nothing = nothing, .n_uses = n, .uses = uses, .label = label, .lines = lines};
    bool *used = tcc_launch_used(launch);
    accesses room = {tcc__malloc(sizeof *room.regions * (b ? (size_t)(b->exprs.count + b->stores.count) + 1 : 1)), 0};
    bool ok = uses && used && room.regions && open_group(f, l, label);
    ok = ok && keep_uses(f, launch, used, &room, uses) && keep_pairs(f, launch, buffers, used, &out) &&
         tcc_vec_push(&f->launches, out);
    tcc__free(used);
    tcc__free(room.regions);
    return ok ? TCC_OK : tcc_enomem(l->diag);
}

tcc_status tcc_program_facts_add_group(tcc_program_facts *f, const tcc_group *group, const double *evaluations,
                                       const char *label, const char *lines, tcc_diag *diag) {
    tcc_fact_group fact = {group, NULL, label, lines};
    fact.evaluations = tcc_arena_copy(&f->memory, evaluations, sizeof *evaluations * (size_t)(group->n_nodes + 1));
    return fact.evaluations && tcc_vec_push(&f->groups, fact) ? TCC_OK : tcc_enomem(diag);
}
