/* SPDX-License-Identifier: MIT
 * Groups of parameters that are updated otherwise than the rest. */
#include "frontend/run/model.h"
#include "frontend/run/options.h"

#include <fnmatch.h>
#include <math.h>

void tcc_param_group_init_sized(tcc_param_group *g, size_t size, const char *match) {
    const tcc_param_group as_the_rest = {
        .size = size, .match = match, .lr_scale = 1, .weight_decay = NAN, .beta1 = NAN, .beta2 = NAN, .momentum = NAN};
    memcpy(g, &as_the_rest, size < sizeof as_the_rest ? size : sizeof as_the_rest);
}

/* What a caller's struct has at least: that of the first version. */
enum { LEAST_SIZE = offsetof(tcc_param_group, frozen) + sizeof(bool) };

/* Group i of the caller's, whole. */
static tcc_param_group read_group(const tcc_optimizer_options *o, int i) {
    const size_t stride = o->groups->size;
    tcc_param_group g;
    tcc_param_group_init(&g, NULL);
    memcpy(&g, (const char *)o->groups + (size_t)i * stride, stride < sizeof g ? stride : sizeof g);
    g.size = sizeof g;
    return g;
}

static tcc_status check_group(tcc_diag *diag, const tcc_optimizer_options *o, const tcc_param_group *g) {
    char betas_of[TCC_OPTIMIZERS_TEXT], momentum_of[TCC_OPTIMIZERS_TEXT], who[128];
    const bool betas = tcc__optimizer_reads(o->kind, TCC_READS_BETAS),
               momentum = tcc__optimizer_reads(o->kind, TCC_READS_MOMENTUM);
    tcc__optimizers_reading(TCC_READS_BETAS, betas_of);
    tcc__optimizers_reading(TCC_READS_MOMENTUM, momentum_of);
    const struct {
        const char *name;
        double value;
        bool applies;
        const char *goes_with;
    } numbers[] = {
        {"beta1", g->beta1, betas, betas_of},
        {"beta2", g->beta2, betas, betas_of},
        {"momentum", g->momentum, momentum && o->momentum > 0, momentum ? "a momentum of the optimizer" : momentum_of}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!isnan(numbers[i].value) && !numbers[i].applies)
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "optimizer: group \"%s\": %s %g goes with %s", g->match,
                             numbers[i].name, numbers[i].value, numbers[i].goes_with);
    snprintf(who, sizeof who, "optimizer: group \"%s\": ", g->match);
    return tcc__options_check(diag, TCC_OPTION_OF_GROUP, who, g);
}

tcc_status tcc__groups_check(tcc_diag *diag, const tcc_optimizer_options *o) {
    if (o->n_groups < 0 || o->n_groups > TCC_MOST_GROUPS || (o->n_groups && !o->groups))
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "optimizer: n_groups %d must be from 0 to %d, with groups",
                         o->n_groups, TCC_MOST_GROUPS);
    if (o->n_groups && o->groups->size < LEAST_SIZE)
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "optimizer: the size %zu of a group must be at least %d: tcc_param_group_init",
                         o->groups->size, (int)LEAST_SIZE);
    for (int i = 0; i < o->n_groups; i++) {
        const tcc_param_group g = read_group(o, i);
        if (!g.match || !*g.match)
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "optimizer: group %d has no pattern", i);
        if (g.keep_statistics && !g.frozen)
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "optimizer: group \"%s\": keep_statistics goes with frozen",
                             g.match);
        TCC_TRY(check_group(diag, o, &g));
    }
    return TCC_OK;
}

tcc_status tcc__groups_keep(tcc_model *m) {
    tcc_optimizer_options *o = &m->optimizer;
    if (!o->n_groups) {
        o->groups = NULL;
        return TCC_OK;
    }
    tcc_param_group *groups = TCC_ARENA_ARRAY(&m->moments.arena, tcc_param_group, o->n_groups);
    for (int i = 0; i < o->n_groups && groups; i++) {
        groups[i] = read_group(o, i);
        if (!(groups[i].match = tcc_arena_strdup(&m->moments.arena, groups[i].match))) groups = NULL;
    }
    o->groups = groups;
    if (groups) return TCC_OK;
    o->n_groups = 0;
    return tcc_enomem(&m->cx->diag);
}

const tcc_param_group *tcc__group_find(const tcc_model *m, const char *name) {
    for (int i = 0; i < m->optimizer.n_groups; i++)
        if (!fnmatch(m->optimizer.groups[i].match, name, 0)) return &m->optimizer.groups[i];
    return NULL;
}

int tcc__group_in_step(const tcc_model *m, const tcc_param_group *group, int rank) {
    const int number = group ? 1 + (int)(group - m->optimizer.groups) : 0;
    return TCC_DECAY_GROUPS * number + (m->optimizer.decay_all || rank >= 2 ? TCC_DECAYED : TCC_NOT_DECAYED);
}

static bool has_rates(const tcc_param_group *g) {
    return !g->frozen && !(isnan(g->beta1) && isnan(g->beta2) && isnan(g->momentum));
}

int tcc__group_rates(const tcc_model *m, const tcc_param_group *group) {
    int set = 1;
    if (!group || !has_rates(group)) return 0;
    for (const tcc_param_group *g = m->optimizer.groups; g < group; g++) set += has_rates(g);
    return set;
}

/* -- Report -- */

static void print_number(tcc_strbuf *b, const char *name, double value) {
    if (!isnan(value)) tcc_strbuf_printf(b, ", %s %g", name, value);
}

static void print_group(const tcc_model *m, const tcc_param_group *group, tcc_strbuf *b) {
    int64_t tensors = 0, numel = 0;
    for (int i = 0; i < m->shared->store.entries.count; i++) {
        const tcc_stored *p = &m->shared->store.entries.data[i];
        if (p->role != TCC_ROLE_PARAM || !tcc__model_uses(m, i) || tcc__group_find(m, p->name) != group) continue;
        tensors++;
        numel += tcc_type_numel(&p->type);
    }
    tcc_strbuf_printf(b, "group %s: %lld parameters in %lld tensors", group ? group->match : "of the rest",
                      (long long)numel, (long long)tensors);
    if (group && group->frozen) tcc_strbuf_add(b, ", frozen");
    else if (group) {
        if (group->lr_scale != 1) tcc_strbuf_printf(b, ", lr x %g", group->lr_scale);
        print_number(b, "weight decay", group->weight_decay);
        print_number(b, "beta1", group->beta1);
        print_number(b, "beta2", group->beta2);
        print_number(b, "momentum", group->momentum);
    }
    tcc_strbuf_add(b, "\n");
}

void tcc__groups_print(const tcc_model *m, tcc_strbuf *b) {
    for (int i = 0; i < m->optimizer.n_groups; i++) print_group(m, &m->optimizer.groups[i], b);
    print_group(m, NULL, b);
}
