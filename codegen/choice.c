/* SPDX-License-Identifier: MIT
 * Records a lowering as the implementation of a group in the graph, and checks that both agree. */
#include "codegen/choice.h"

#include "codegen/build.h"
#include "codegen/schedule/predict.h"
#include "ir/support/alloc.h"
#include "passes/in_step.h"

#include <string.h>

/* -- What a launch touches -- */

static bool is_listed(const tcc_launch_value *values, int count, tcc_launch_value v) {
    for (int i = 0; i < count; i++)
        if (values[i].node == v.node && (v.node || values[i].temporary == v.temporary)) return true;
    return false;
}

/* Fills `out`, with room for all buffers, in the order of their first use. */
static int list_values(const tcc_graph *g, const tcc_plan_launch *launch, bool written, tcc_launch_value *out) {
    int count = 0;
    for (int i = 0; i < launch->kernel.n_buffers; i++) {
        const tcc_plan_buffer *b = &launch->buffers[i];
        const bool constant = b->node && b->node->op == TCC_OP_CONSTANT;
        if (b->written != written || b->literal || constant || (!b->node && b->temporary < 0)) continue;
        const tcc_launch_value v = {b->node ? g->nodes.data[b->node->id] : NULL, b->node ? 0 : b->temporary};
        if (!is_listed(out, count, v)) out[count++] = v;
    }
    return count;
}

/* Whether this launch may write `written` over `old`. Both the graph and the kernel must allow it: the one knows what
 * other threads and launches of the group read, the other where this kernel's loads and stores lie. */
static bool overwrites(const tcc_lowering *l, const tcc_plan_launch *launch, const bool *used, const tcc_node *old,
                       const tcc_node *written) {
    const bool in_group = l->group->kind == TCC_GROUP_SCATTER ? launch->copies
                                                              : tcc_group_same_element(l->group, old, written);
    return in_group && tcc_launch_overwrites(launch, used, old, written);
}

/* Pairs of values of which the launch may write one over the other; counts them where `out` is NULL. */
static int list_overwrites(const tcc_lowering *l, const tcc_plan_launch *from, const bool *used,
                           const tcc_launch *launch, tcc_overwrite *out) {
    int count = 0;
    for (int i = 0; i < launch->n_reads; i++)
        for (int k = 0; k < launch->n_writes; k++) {
            tcc_node *old = launch->reads[i].node, *written = launch->writes[k].node;
            if (!old || !written || tcc_type_bytes(&old->type) != tcc_type_bytes(&written->type)) continue;
            if (!overwrites(l, from, used, old, written)) continue;
            if (out) out[count] = (tcc_overwrite){old, written};
            count++;
        }
    return count;
}

static bool record_launch(const tcc_lowering *l, tcc_arena *arena, const tcc_plan_launch *from, tcc_launch *out) {
    const int most = from->kernel.n_buffers + 1;
    *out = (tcc_launch){
        .name = from->library ? from->library : from->kernel.schedule, .beside = from->beside, .copies = from->copies};
    out->reads = TCC_ARENA_ARRAY(arena, tcc_launch_value, most);
    out->writes = TCC_ARENA_ARRAY(arena, tcc_launch_value, most);
    if (!out->reads || !out->writes) return false;
    out->n_reads = list_values(l->graph, from, false, out->reads);
    out->n_writes = list_values(l->graph, from, true, out->writes);
    bool *used = tcc_launch_used(from);
    if (!used) return false;
    out->n_overwrites = list_overwrites(l, from, used, out, NULL);
    out->overwrites = TCC_ARENA_ARRAY(arena, tcc_overwrite, out->n_overwrites + 1);
    if (out->overwrites) list_overwrites(l, from, used, out, out->overwrites);
    tcc__free(used);
    if (!out->overwrites) return false;
    tcc_predict(l, from, out);
    return true;
}

static bool uses(const tcc_launch *launch, int temporary) {
    const tcc_launch_value v = {.temporary = temporary};
    return is_listed(launch->reads, launch->n_reads, v) || is_listed(launch->writes, launch->n_writes, v);
}

tcc_implementation *tcc_choice_record(const tcc_lowering *l, tcc_arena *arena, const char *name) {
    tcc_implementation *x = TCC_ARENA_NEW(arena, tcc_implementation);
    if (!x) goto out_of_memory;
    *x = (tcc_implementation){.name = name,
                              .n_params = l->params.settled.count,
                              .n_launches = l->launches.count,
                              .n_temporaries = l->temporaries.count};
    x->params = tcc_arena_copy(arena, l->params.settled.data, sizeof *x->params * (size_t)x->n_params);
    x->launches = TCC_ARENA_ARRAY(arena, tcc_launch, x->n_launches);
    x->temporaries = TCC_ARENA_ARRAY(arena, tcc_temporary, x->n_temporaries);
    if (!x->params || !x->launches || !x->temporaries) goto out_of_memory;
    for (int i = 0; i < x->n_params; i++) /* the lowering's own are gone with it */
        if (!(x->params[i].name = tcc_arena_strdup(arena, x->params[i].name))) goto out_of_memory;
    for (int i = 0; i < x->n_launches; i++)
        if (!record_launch(l, arena, &l->launches.data[i], &x->launches[i])) goto out_of_memory;
    for (int t = 0; t < x->n_temporaries; t++) {
        tcc_temporary *out = &x->temporaries[t];
        *out = (tcc_temporary){.size_bytes = l->temporaries.data[t], .first = -1};
        if (out->size_bytes < 1) out->size_bytes = 1;
        for (int i = 0; i < x->n_launches; i++)
            if (uses(&x->launches[i], t)) out->first = out->first < 0 ? i : out->first, out->last = i;
        if (out->first < 0) out->first = 0;
    }
    return x;
out_of_memory:
    tcc_enomem(l->diag);
    return NULL;
}

/* -- Checking -- */

static bool same_values(const tcc_launch_value *a, int n, const tcc_launch_value *b, int m) {
    for (int i = 0; i < n; i++)
        if (!is_listed(b, m, a[i])) return false;
    return n == m;
}

static bool same_launch(const tcc_launch *a, const tcc_launch *b) {
    return !strcmp(a->name, b->name) && a->beside == b->beside && a->copies == b->copies &&
           same_values(a->reads, a->n_reads, b->reads, b->n_reads) &&
           same_values(a->writes, a->n_writes, b->writes, b->n_writes);
}

tcc_status tcc_choice_check_params(const tcc_lowering *l) {
    const tcc_implementation *chosen = l->params.choice;
    for (int i = 0; i < chosen->n_params; i++) {
        /* Ignore an ORDER parameter that this group no longer has. */
        bool known = l->params.completes && tcc_param_orders(chosen->params[i].name);
        for (int k = 0; k < l->params.settled.count; k++)
            known = known || !strcmp(l->params.settled.data[k].name, chosen->params[i].name);
        if (!known)
            return tcc_error(l->diag, TCC_EINVAL, l->group->hero->loc, "\"%s\" of %s has no parameter %s", chosen->name,
                             tcc_node_text(l->group->hero), chosen->params[i].name);
    }
    return TCC_OK;
}

tcc_status tcc_choice_check(const tcc_lowering *l) {
    const tcc_implementation *chosen = l->params.choice, *made = tcc_choice_record(l, l->arena, chosen->name);
    if (!made) return TCC_ENOMEM;
    bool same = made->n_launches == chosen->n_launches && made->n_temporaries == chosen->n_temporaries;
    for (int i = 0; same && i < made->n_launches; i++) same = same_launch(&made->launches[i], &chosen->launches[i]);
    for (int i = 0; same && i < made->n_temporaries; i++) {
        const tcc_temporary *a = &made->temporaries[i], *b = &chosen->temporaries[i];
        same = a->size_bytes == b->size_bytes && a->first == b->first && a->last == b->last;
    }
    if (same) return TCC_OK;
    return tcc_error(l->diag, TCC_EINVAL, l->group->hero->loc,
                     "\"%s\" runs %s otherwise on this target than the graph says: pass select writes down what its "
                     "parameters make",
                     chosen->name, tcc_node_text(l->group->hero));
}
