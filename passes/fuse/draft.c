/* SPDX-License-Identifier: MIT
 * A draft's scratch, and questions about its nodes. */
#include "passes/fuse/draft.h"

#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/select.h"

#include <string.h>

bool tcc_draft_scratch_create(const tcc_graph *g, const tcc_pass_options *options, tcc_draft_scratch *out) {
    size_t count = (size_t)g->nodes.count + 1;
    const tcc_pass_target *target = options ? options->target : NULL;
    int operands = 0; /* most of a concat */
    for (int i = 0; i < g->nodes.count; i++)
        if (g->nodes.data[i]->n_operands > operands) operands = g->nodes.data[i]->n_operands;
    *out = (tcc_draft_scratch){.position = tcc__malloc(sizeof *out->position * count),
                               .level = tcc__malloc(sizeof *out->level * count),
                               .contexts = tcc__malloc(sizeof *out->contexts * count),
                               .identity = tcc__malloc(sizeof *out->identity * count),
                               .times = tcc__malloc(sizeof *out->times * count),
                               .mark = tcc__malloc(sizeof *out->mark * count),
                               .stored = tcc__malloc(sizeof *out->stored * count),
                               .loaded = tcc__calloc(count, sizeof *out->loaded),
                               .graph = g,
                               .target = target,
                               .costs = tcc_costs_of(target),
                               .stores_across = target && target->stores_across,
                               .longest_column = target ? target->longest_column : 0,
                               .longest_parts = target ? target->longest_parts : 0,
                               .work = tcc__calloc(2 * count, sizeof *out->work),
                               .summed = tcc__calloc(count, sizeof *out->summed)};
    const bool places = tcc_draft_places_create(&out->places, g->nodes.count, 8 * (TCC_FUSE_MAX_NODES + 4 * operands));
    if (!places || !out->position || !out->level || !out->contexts || !out->identity || !out->times || !out->mark ||
        !out->stored || !out->loaded || !out->work || !out->summed) {
        tcc_draft_scratch_free(out);
        return false;
    }
    for (size_t i = 0; i < count; i++) out->position[i] = -1;
    return true;
}

void tcc_draft_scratch_free(tcc_draft_scratch *s) {
    tcc__free(s->position);
    tcc__free(s->level);
    tcc__free(s->contexts);
    tcc__free(s->identity);
    tcc__free(s->times);
    tcc__free(s->mark);
    tcc__free(s->stored);
    tcc_draft_places_free(&s->places);
    tcc__free(s->loaded);
    tcc__free(s->work);
    tcc__free(s->summed);
    *s = (tcc_draft_scratch){0};
}

/* -- Questions to the target -- */

const tcc_operand_work *tcc_draft_operand_work(const tcc_draft_scratch *s, tcc_node *hero, int k) {
    tcc_operand_work *answer = &s->work[2 * hero->id + k];
    const tcc_pass_target *target = s->target;
    if (answer->repeats) return answer;
    if (!target || !target->computes_operand || !target->computes_operand(target->user, s->graph, hero, k, answer))
        answer->repeats = -1;
    return answer;
}

bool tcc_draft_sums_operand(const tcc_draft_scratch *s, tcc_node *dot, tcc_node *sum) {
    if (!s->target || !s->target->sums_operands || tcc_group_summed_operand(dot, sum) < 0) return false;
    int *answer = &s->summed[sum->id];
    if (*answer != dot->id + 1 && *answer != -dot->id - 1)
        *answer = s->target->sums_operands(s->target->user, s->graph, dot, sum) ? dot->id + 1 : -dot->id - 1;
    return *answer > 0;
}

/* -- Shapes -- */

bool tcc_dims_alike(const tcc_type *a, const tcc_type *b) {
    int i = 0, k = 0;
    for (;;) {
        while (i < a->rank && a->dims[i] == 1) i++;
        while (k < b->rank && b->dims[k] == 1) k++;
        if (i == a->rank || k == b->rank) return i == a->rank && k == b->rank;
        if (a->dims[i++] != b->dims[k++]) return false;
    }
}

/* -- Levels -- */

unsigned tcc_draft_operand_levels(const tcc_node *n, const tcc_draft_scratch *s) {
    unsigned levels = 0;
    for (int i = 0; i < n->n_operands; i++) {
        int p = position_of(s, n->operands[i]);
        if (p >= 0) levels |= 1U << s->level[p];
    }
    return levels;
}

bool tcc_draft_reads_full(const tcc_node *n, const tcc_draft_scratch *s) {
    return tcc_draft_operand_levels(n, s) >> TCC_LEVEL_FULL & 1;
}

bool tcc_draft_loads_table(const tcc_node *n, const tcc_draft_scratch *s) {
    return tcc_fusion_of(n) != TCC_FUSION_INDEX || position_of(s, n->operands[0]) < 0;
}

bool tcc_draft_reads(const tcc_draft *d, const tcc_node *x) {
    for (int i = 0; i < d->n_nodes; i++)
        for (int k = 0; k < d->nodes[i]->n_operands; k++)
            if (d->nodes[i]->operands[k] == x) return true;
    return false;
}

bool tcc_draft_is_last_reshape(const tcc_draft *d, int at) {
    return d->nodes[at]->op == TCC_OP_RESHAPE && d->stored[at] && !tcc_draft_reads(d, d->nodes[at]);
}
