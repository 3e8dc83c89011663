/* SPDX-License-Identifier: MIT
 * What runs a group: copies, equality, hash. */
#include "ir/implementation.h"

#include "ir/support/hash.h"

#include <string.h>

int64_t tcc_implementation_ns(const tcc_implementation *x) {
    int64_t ns = 0;
    for (int i = 0; i < x->n_launches; i++) ns += x->launches[i].ns;
    return ns;
}

/* -- Copies -- */

static tcc_node *mapped(tcc_node *n, tcc_node *const *map) { return n && map ? map[n->id] : n; }

static bool copy_values(tcc_arena *arena, tcc_launch_value **values, int count, tcc_node *const *map) {
    tcc_launch_value *copy = tcc_arena_copy(arena, *values, sizeof *copy * (size_t)count);
    for (int i = 0; copy && i < count; i++) copy[i].node = mapped(copy[i].node, map);
    *values = copy;
    return copy;
}

static bool copy_launch(tcc_arena *arena, tcc_launch *launch, tcc_node *const *map) {
    launch->name = tcc_arena_strdup(arena, launch->name);
    launch->overwrites = tcc_arena_copy(arena, launch->overwrites,
                                        sizeof *launch->overwrites * (size_t)launch->n_overwrites);
    if (!launch->name || !launch->overwrites || !copy_values(arena, &launch->reads, launch->n_reads, map) ||
        !copy_values(arena, &launch->writes, launch->n_writes, map))
        return false;
    for (int i = 0; i < launch->n_overwrites; i++) {
        tcc_overwrite *o = &launch->overwrites[i];
        *o = (tcc_overwrite){mapped(o->old, map), mapped(o->written, map)};
    }
    return true;
}

tcc_implementation *tcc_implementation_copy(tcc_arena *arena, const tcc_implementation *x, tcc_node *const *map) {
    tcc_implementation *copy = tcc_arena_copy(arena, x, sizeof *x);
    if (!copy) return NULL;
    copy->name = tcc_arena_strdup(arena, x->name);
    copy->params = tcc_arena_copy(arena, x->params, sizeof *x->params * (size_t)x->n_params);
    copy->launches = tcc_arena_copy(arena, x->launches, sizeof *x->launches * (size_t)x->n_launches);
    copy->temporaries = tcc_arena_copy(arena, x->temporaries, sizeof *x->temporaries * (size_t)x->n_temporaries);
    if (!copy->name || !copy->params || !copy->launches || !copy->temporaries) return NULL;
    for (int i = 0; i < x->n_params; i++)
        if (!(copy->params[i].name = tcc_arena_strdup(arena, x->params[i].name))) return NULL;
    for (int i = 0; i < x->n_launches; i++)
        if (!copy_launch(arena, &copy->launches[i], map)) return NULL;
    return copy;
}

/* -- Equality -- */

static bool equal_values(const tcc_launch_value *a, const tcc_launch_value *b, int count, tcc_node *const *match) {
    for (int i = 0; i < count; i++)
        if (mapped(a[i].node, match) != b[i].node || (!a[i].node && a[i].temporary != b[i].temporary)) return false;
    return true;
}

static bool equal_launches(const tcc_launch *a, const tcc_launch *b, tcc_node *const *match) {
    if (strcmp(a->name, b->name) || a->beside != b->beside || a->copies != b->copies || a->n_reads != b->n_reads ||
        a->n_writes != b->n_writes || a->n_overwrites != b->n_overwrites || a->bytes != b->bytes ||
        a->flop != b->flop || a->ns != b->ns)
        return false;
    for (int i = 0; i < a->n_overwrites; i++)
        if (mapped(a->overwrites[i].old, match) != b->overwrites[i].old ||
            mapped(a->overwrites[i].written, match) != b->overwrites[i].written)
            return false;
    return equal_values(a->reads, b->reads, a->n_reads, match) &&
           equal_values(a->writes, b->writes, a->n_writes, match);
}

static bool equal_temporaries(const tcc_temporary *a, const tcc_temporary *b) {
    return a->size_bytes == b->size_bytes && a->first == b->first && a->last == b->last && a->placed == b->placed &&
           (!a->placed || a->offset_bytes == b->offset_bytes);
}

bool tcc__implementations_equal(const tcc_implementation *a, const tcc_implementation *b, tcc_node *const *match) {
    if (!a || !b) return a == b;
    if (strcmp(a->name, b->name) || a->n_params != b->n_params || a->n_launches != b->n_launches ||
        a->n_temporaries != b->n_temporaries)
        return false;
    for (int i = 0; i < a->n_params; i++)
        if (strcmp(a->params[i].name, b->params[i].name) || a->params[i].value != b->params[i].value) return false;
    for (int i = 0; i < a->n_temporaries; i++)
        if (!equal_temporaries(&a->temporaries[i], &b->temporaries[i])) return false;
    for (int i = 0; i < a->n_launches; i++)
        if (!equal_launches(&a->launches[i], &b->launches[i], match)) return false;
    return true;
}
