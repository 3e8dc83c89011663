/* SPDX-License-Identifier: MIT
 * Groups as launches. */
#include "passes/memory/launches.h"

#include "passes/group.h"

static int count_operands(const tcc_group *group) {
    int count = 0;
    for (int i = 0; i < group->n_nodes; i++) count += group->nodes[i]->n_operands;
    return count;
}

const tcc_implementation *tcc_group_launches(tcc_arena *arena, const tcc_group *group) {
    if (group->implementation && group->implementation->n_launches) return group->implementation;
    const int most = count_operands(group) + 1;
    tcc_implementation *x = TCC_ARENA_NEW(arena, tcc_implementation);
    tcc_launch *launch = TCC_ARENA_NEW(arena, tcc_launch);
    tcc_node **inputs = TCC_ARENA_ARRAY(arena, tcc_node *, most);
    tcc_launch_value *values = TCC_ARENA_ARRAY(arena, tcc_launch_value, most + group->n_outputs);
    if (!x || !launch || !inputs || !values) return NULL;
    *launch = (tcc_launch){.name = tcc_group_kind_text(group->kind), .reads = values, .writes = values + most};
    launch->n_reads = tcc_group_inputs(group, inputs);
    launch->n_writes = group->n_outputs;
    for (int i = 0; i < launch->n_reads; i++) launch->reads[i] = (tcc_launch_value){.node = inputs[i]};
    for (int i = 0; i < group->n_outputs; i++) launch->writes[i] = (tcc_launch_value){.node = group->outputs[i]};
    *x = (tcc_implementation){.name = launch->name, .n_launches = 1, .launches = launch};
    return x;
}

int tcc_launch_moment(const tcc_implementation *x, int launch) {
    int moment = 0;
    for (int i = 1; i <= launch; i++) moment += !x->launches[i].beside;
    return moment;
}

int tcc_launch_moments(const tcc_implementation *x) {
    return x->n_launches ? tcc_launch_moment(x, x->n_launches - 1) + 1 : 0;
}

static bool lists(const tcc_launch_value *values, int count, const tcc_node *n) {
    for (int i = 0; i < count; i++)
        if (values[i].node == n) return true;
    return false;
}

bool tcc_launch_reads(const tcc_launch *launch, const tcc_node *n) { return lists(launch->reads, launch->n_reads, n); }

bool tcc_launch_writes(const tcc_launch *launch, const tcc_node *n) {
    return lists(launch->writes, launch->n_writes, n);
}

static bool has_pair(const tcc_launch *launch, const tcc_node *old, const tcc_node *written) {
    for (int i = 0; i < launch->n_overwrites; i++)
        if (launch->overwrites[i].old == old && launch->overwrites[i].written == written) return true;
    return false;
}

bool tcc_moment_overwrites(const tcc_implementation *x, int moment, const tcc_node *old, const tcc_node *written) {
    bool any = false;
    for (int i = 0; i < x->n_launches; i++) {
        if (tcc_launch_moment(x, i) != moment) continue;
        const bool pair = has_pair(&x->launches[i], old, written);
        if (!pair && tcc_launch_reads(&x->launches[i], old)) return false;
        any |= pair;
    }
    return any;
}
