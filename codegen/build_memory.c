/* SPDX-License-Identifier: MIT
 * Memory of a program that is being built: the bindings, where each value lives, and constants. */
#include "codegen/builder.h"

#include "ir/support/alloc.h"
#include "ir/support/element.h"
#include "ir/support/hash.h"

#include <string.h>

enum { ALIGNMENT = 64 };

static int64_t aligned(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

tcc_status tcc_builder_add_constant(tcc_builder *b, const void *data, int64_t bytes, tcc_buffer *out) {
    const uint64_t hash = tcc_hash_bytes(0, data, (size_t)bytes);
    size_t next = hash;
    for (const tcc_buffer *known; (known = tcc_table_next(&b->constant_of, hash, &next));)
        if (known->size_bytes == bytes && !memcmp(b->constants.data + known->offset_bytes, data, (size_t)bytes)) {
            *out = *known;
            return TCC_OK;
        }
    *out = (tcc_buffer){TCC_SPACE_CONST, -1, b->constants.count, bytes};
    for (int64_t i = 0; i < aligned(bytes); i++)
        if (!tcc_vec_push(&b->constants, i < bytes ? ((const uint8_t *)data)[i] : 0)) return tcc_enomem(b->diag);
    tcc_buffer *kept = tcc_arena_copy(&b->scratch, out, sizeof *out);
    if (!kept || !tcc_table_reserve(&b->constant_of)) return tcc_enomem(b->diag);
    tcc_table_add(&b->constant_of, hash, kept);
    return TCC_OK;
}

tcc_status tcc_builder_place_constant(tcc_builder *b, const tcc_node *n) {
    int64_t numel = tcc_type_numel(&n->type), bytes = tcc_type_bytes(&n->type);
    const tcc_doubles *values = &n->attrs->constant.values;
    void *data = tcc__malloc((size_t)bytes + 1);
    if (!data) return tcc_enomem(b->diag);
    for (int64_t i = 0; i < numel; i++) tcc_element_set(n->type.dtype, data, i, values->v[values->count == 1 ? 0 : i]);
    tcc_status status = tcc_builder_add_constant(b, data, bytes, &b->home[n->id]);
    tcc__free(data);
    return status;
}

tcc_status tcc_builder_place_values(tcc_builder *b) {
    const tcc_graph *g = b->g;
    tcc_program *p = b->p;
    int most = g->inputs.count + g->outputs.count;
    p->bindings = TCC_ARENA_ARRAY(&p->memory, tcc_binding, most + 1);
    b->output_binding = TCC_ARENA_ARRAY(&b->scratch, int, g->outputs.count + 1);
    b->home = TCC_ARENA_ARRAY(&b->scratch, tcc_buffer, g->nodes.count + 1);
    bool *idle = TCC_ARENA_ARRAY(&b->scratch, bool, g->inputs.count + 1);
    if (!p->bindings || !b->output_binding || !b->home || !idle) return tcc_enomem(b->diag);
    TCC_TRY(tcc_graph_find_idle(g, idle));
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        const char *name = tcc_builder_keep(b, n->attrs->input.name, strlen(n->attrs->input.name) + 1);
        const char *copy_of = n->attrs->input.copy_of;
        if (tcc_input_is_copy(n)) copy_of = tcc_builder_keep(b, copy_of, strlen(copy_of) + 1);
        p->bindings[p->n_bindings++] = (tcc_binding){.name = name,
                                                     .role = n->attrs->input.role,
                                                     .type = n->type,
                                                     .begin = n->attrs->input.begin,
                                                     .copy_of = tcc_input_is_copy(n) ? copy_of : NULL,
                                                     .idle = idle[i]};
        b->home[n->id] = (tcc_buffer){TCC_SPACE_BINDING, i, 0, tcc_type_bytes(&n->type)};
        if (!name || (tcc_input_is_copy(n) && !copy_of)) return tcc_enomem(b->diag);
    }
    for (int i = 0; i < g->places.count; i++) {
        const tcc_place *place = &g->places.data[i];
        b->home[place->node->id] = (tcc_buffer){TCC_SPACE_ARENA, -1, place->offset_bytes,
                                                tcc_type_bytes(&place->node->type)};
    }
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *output = &g->outputs.data[i];
        if (output->in_place && output->node->op != TCC_OP_INPUT)
            b->home[output->node->id] = b->home[g->inputs.data[output->alias]->id];
    }
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *output = &g->outputs.data[i];
        b->output_binding[i] = -1;
        if (output->alias >= 0) {
            p->bindings[output->alias].written = true;
            continue;
        }
        b->output_binding[i] = p->n_bindings;
        const char *name = tcc_builder_keep(b, output->name, strlen(output->name) + 1);
        if (!name) return tcc_enomem(b->diag);
        p->bindings[p->n_bindings] = (tcc_binding){.name = name, .role = TCC_ROLE_OUTPUT, .type = output->node->type};
        tcc_buffer *home = &b->home[output->node->id];
        if (!home->size_bytes && output->node->op != TCC_OP_CONSTANT)
            *home = (tcc_buffer){TCC_SPACE_BINDING, p->n_bindings, 0, tcc_type_bytes(&output->node->type)};
        p->n_bindings++;
    }
    return TCC_OK;
}
