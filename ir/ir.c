/* SPDX-License-Identifier: MIT
 * The graph and its builder: nodes found by content, sticky errors, rewriting. */
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/support/alloc.h"
#include "ir/support/hash.h"
#include "ir/support/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct tcc_node_table {
    tcc_table nodes, strings;
    tcc_table outputs; /* numbers + 1 of outputs, by name and by the input whose next value it is; a pass may have
                          dropped some of them since */
    tcc_origin origin;
    unsigned marks;
    bool failed; /* an error was reported while building this graph */
};

/* -- Graphs -- */

tcc_graph *tcc_graph_create(const char *name, tcc_diag *diag) {
    tcc_graph *g = tcc__calloc(1, sizeof *g);
    if (!g) {
        tcc_enomem(diag);
        return NULL;
    }
    g->diag = diag;
    g->table = tcc__calloc(1, sizeof *g->table);
    g->name = tcc_arena_strdup(&g->arena, name);
    if (!g->table || !g->name) {
        tcc_enomem(diag);
        tcc_graph_destroy(g);
        return NULL;
    }
    return g;
}

void tcc_graph_destroy(tcc_graph *g) {
    if (!g) return;
    if (g->table) {
        tcc_table_free(&g->table->nodes);
        tcc_table_free(&g->table->strings);
        tcc_table_free(&g->table->outputs);
        tcc__free(g->table);
    }
    tcc_vec_free(&g->nodes);
    tcc_vec_free(&g->inputs);
    tcc_vec_free(&g->outputs);
    tcc_vec_free(&g->groups);
    tcc_vec_free(&g->places);
    tcc_arena_free(&g->arena);
    tcc__free(g);
}

void tcc__ir_fail(tcc_graph *g) { g->table->failed = true; }

static void *out_of_memory(tcc_graph *g) {
    tcc_enomem(g->diag);
    tcc__ir_fail(g);
    return NULL;
}

static const char *intern(tcc_graph *g, const char *s) {
    tcc_table *t = &g->table->strings;
    uint64_t hash = tcc_hash_string(0, s);
    size_t at = hash;
    for (char *known; (known = tcc_table_next(t, hash, &at));)
        if (!strcmp(known, s)) return known;
    char *copy = tcc_table_reserve(t) ? tcc_arena_strdup(&g->arena, s) : NULL;
    if (!copy) return out_of_memory(g);
    tcc_table_add(t, hash, copy);
    return copy;
}

static void set_origin(tcc_graph *g, tcc_loc loc, bool backward, int segment) {
    /* A location whose file cannot be copied is forgotten; the failure to allocate was reported. */
    if (!loc.file || !(loc.file = intern(g, loc.file))) loc = TCC_NOWHERE;
    g->table->origin = (tcc_origin){loc, backward, segment};
}

void tcc_ir_set_origin(tcc_graph *g, const tcc_node *n) { set_origin(g, n->loc, n->backward, n->segment); }
void tcc_ir_set_backward(tcc_graph *g, tcc_loc loc) { set_origin(g, loc, true, 0); }
void tcc_ir_set_loc(tcc_graph *g, tcc_loc loc) { set_origin(g, loc, false, g->table->origin.segment); }
void tcc_ir_set_segment(tcc_graph *g, int segment) { g->table->origin.segment = segment; }

void tcc_ir_set_marks(tcc_graph *g, unsigned marks) { g->table->marks = marks; }

tcc_loc tcc__ir_get_loc(const tcc_graph *g) { return g->table->origin.loc; }

/* -- Building -- */

static const tcc_attrs no_attrs;

static uint64_t hash_node(tcc_op op, tcc_node *const *operands, int n_operands, const tcc_attrs *attrs,
                          const tcc_type *type, unsigned marks) {
    const tcc_op_info *info = tcc_op_get_info(op);
    if (op == TCC_OP_INPUT)
        return tcc_hash_string(op, attrs->input.name ? attrs->input.name : ""); /* the name alone is identity */
    uint64_t h = tcc_hash_add((uint64_t)op << 2 | marks, tcc_attrs_hash(info->attrs, attrs));
    h = tcc_hash_add(h, (uint64_t)type->dtype);
    h = tcc_hash_bytes(h, type->dims, sizeof type->dims[0] * (size_t)type->rank);
    if (info->flags & TCC_FLAG_COMM)
        return tcc_hash_add(h, tcc_hash_mix((uint64_t)operands[0]->id) + tcc_hash_mix((uint64_t)operands[1]->id));
    for (int i = 0; i < n_operands; i++) h = tcc_hash_add(h, (uint64_t)operands[i]->id);
    return h;
}

static bool same_operands(const tcc_node *n, tcc_node *const *operands, int n_operands) {
    if (n->n_operands != n_operands) return false;
    bool same = true;
    for (int i = 0; i < n_operands; i++) same &= n->operands[i] == operands[i];
    if (same || !(tcc_op_get_info(n->op)->flags & TCC_FLAG_COMM)) return same;
    return n->operands[0] == operands[1] && n->operands[1] == operands[0];
}

static tcc_node *find(const tcc_graph *g, uint64_t hash, tcc_op op, tcc_node *const *operands, int n_operands,
                      const tcc_attrs *attrs, const tcc_type *type, unsigned marks) {
    size_t at = hash;
    for (tcc_node *n; (n = tcc_table_next(&g->table->nodes, hash, &at));) {
        if (n->op == op && n->marks == marks && same_operands(n, operands, n_operands) &&
            tcc_type_equal(&n->type, type) && tcc_attrs_equal(tcc_op_get_info(op)->attrs, n->attrs, attrs))
            return n;
    }
    return NULL;
}

tcc_node *tcc__ir_find(const tcc_graph *g, tcc_op op, tcc_node *const *operands, int n_operands, const tcc_attrs *attrs,
                       const tcc_type *type, unsigned marks) {
    const uint64_t hash = hash_node(op, operands, n_operands, attrs, type, marks);
    return find(g, hash, op, operands, n_operands, attrs, type, marks);
}

static tcc_node *find_input(const tcc_graph *g, uint64_t hash, const char *name) {
    size_t at = hash;
    for (tcc_node *n; (n = tcc_table_next(&g->table->nodes, hash, &at));)
        if (n->op == TCC_OP_INPUT && !strcmp(n->attrs->input.name, name)) return n;
    return NULL;
}

bool tcc__ir_can_copy(const tcc_graph *g, const tcc_attrs_input *copy, const tcc_type *type, int before, char *why,
                      size_t why_bytes) {
    const tcc_attrs source = {.input.name = copy->copy_of};
    const tcc_node *of = find_input(g, hash_node(TCC_OP_INPUT, NULL, 0, &source, NULL, 0), copy->copy_of);
    tcc_type same = *type;
    if (of) same.dtype = of->type.dtype;
    if (!of || of->id >= before) {
        snprintf(why, why_bytes, "there is no input of that name above");
    } else if (of->attrs->input.role != TCC_ROLE_PARAM && of->attrs->input.role != TCC_ROLE_STATE) {
        snprintf(why, why_bytes, "that is a %s, and only a parameter or a state is there between runs",
                 tcc_role_text(of->attrs->input.role));
    } else if (tcc_input_is_copy(of)) {
        snprintf(why, why_bytes, "that is a copy itself, of '%s'", of->attrs->input.copy_of);
    } else if (!tcc_type_equal(&of->type, &same)) {
        snprintf(why, why_bytes, "the shapes differ: %s and %s", tcc_type_text(type), tcc_type_text(&of->type));
    } else {
        return true;
    }
    return false;
}

/* A new node at the end of the graph. */
static tcc_node *add_node(tcc_graph *g, uint64_t hash, const tcc_node *like) {
    const tcc_attr_class attr_class = tcc_op_get_info(like->op)->attrs;
    tcc_node *n = tcc_arena_copy(&g->arena, like, sizeof *like);
    if (!n || !tcc_table_reserve(&g->table->nodes)) return out_of_memory(g);
    n->operands = tcc_arena_copy(&g->arena, like->operands, sizeof n->operands[0] * (size_t)n->n_operands);
    if (!n->operands) return out_of_memory(g);
    if (attr_class == TCC_ATTR_CLASS_none) n->attrs = &no_attrs;
    else {
        /* The whole union, so that a rule may copy *n->attrs. */
        tcc_attrs *attrs = TCC_ARENA_NEW(&g->arena, tcc_attrs);
        if (!attrs || !tcc_attrs_copy(&g->arena, attr_class, like->attrs, attrs)) return out_of_memory(g);
        n->attrs = attrs;
    }
    n->id = g->nodes.count;
    if (n->op == TCC_OP_INPUT && !tcc_vec_push(&g->inputs, n)) return out_of_memory(g);
    if (!tcc_vec_push(&g->nodes, n)) {
        if (n->op == TCC_OP_INPUT) g->inputs.count--;
        return out_of_memory(g);
    }
    tcc_table_add(&g->table->nodes, hash, n);
    return n;
}

/* The values of a constant as its element type holds them, one value where all are equal: so that
 * equal constants are one node. */
static bool round_constant(const tcc_type *type, const tcc_doubles *from, double *to, int64_t *count) {
    bool splat = true;
    for (int64_t i = 0; i < from->count; i++) {
        to[i] = tcc_dtype_round(type->dtype, from->v[i]);
        splat &= !memcmp(&to[i], &to[0], sizeof to[0]);
    }
    *count = splat ? 1 : from->count;
    return splat;
}

static tcc_node *build(tcc_graph *g, const tcc_node *like) {
    uint64_t hash = hash_node(like->op, like->operands, like->n_operands, like->attrs, &like->type, like->marks);
    if (like->op == TCC_OP_INPUT) {
        const tcc_node *other = find_input(g, hash, like->attrs->input.name);
        if (other) {
            tcc_error(g->diag, TCC_EINVAL, like->loc, "two inputs are named '%s'", other->attrs->input.name);
            tcc_note(g->diag, other->loc, "the first one: %s", tcc_type_text(&other->type));
            tcc__ir_fail(g);
            return NULL;
        }
        char why[512];
        const tcc_attrs_input *a = &like->attrs->input;
        if (a->copy_of && *a->copy_of && !tcc__ir_can_copy(g, a, &like->type, g->nodes.count, why, sizeof why)) {
            tcc_error(g->diag, TCC_EINVAL, like->loc, "state '%s' cannot begin as a copy of '%s': %s", a->name,
                      a->copy_of, why);
            tcc__ir_fail(g);
            return NULL;
        }
        return add_node(g, hash, like);
    }
    tcc_node *n = find(g, hash, like->op, like->operands, like->n_operands, like->attrs, &like->type, like->marks);
    if (!n) return add_node(g, hash, like);
    if (!n->loc.file) n->loc = like->loc; /* of two places, the one that is known */
    return n;
}

tcc_node *tcc__ir_build(tcc_graph *g, tcc_op op, tcc_node *const *operands, int n_operands, const tcc_attrs *attrs,
                        const tcc_type *type, const tcc_origin *origin) {
    tcc_loc loc = origin->loc;
    for (int i = 0; i < n_operands; i++) {
        if (!operands[i]) {
            tcc__ir_fail(g);
            return NULL;
        }
        int id = operands[i]->id;
        if (id >= g->nodes.count || g->nodes.data[id] != operands[i]) {
            TCC_BUG(g->diag, "%s: operand %d belongs to another graph: %s", tcc_op_get_info(op)->text, i,
                    tcc_node_text(operands[i]));
            tcc__ir_fail(g);
            return NULL;
        }
    }
    if (!attrs) attrs = &no_attrs;
    if (loc.file && !(loc.file = intern(g, loc.file))) return NULL;
    tcc_node like = {.op = op,
                     .operands = operands,
                     .n_operands = n_operands,
                     .attrs = attrs,
                     .loc = loc,
                     .backward = origin->backward,
                     .segment = op == TCC_OP_INPUT ? 0 : origin->segment,
                     .marks = op == TCC_OP_INPUT ? 0 : g->table->marks};
    tcc_infer q = {.diag = g->diag,
                   .loc = loc,
                   .op = op,
                   .attrs = attrs,
                   .operands = operands,
                   .n_operands = n_operands,
                   .given = type};
    if (tcc__infer(&q, &like.type) != TCC_OK) {
        tcc__ir_fail(g);
        return NULL;
    }
    if (op == TCC_OP_PAD) {
        tcc_attrs pad = *attrs;
        pad.pad.value = tcc_dtype_round(like.type.dtype, pad.pad.value);
        like.attrs = &pad;
        return build(g, &like);
    }
    if (op == TCC_OP_INPUT && attrs->input.begin != 0) {
        tcc_attrs input = *attrs;
        input.input.begin = tcc_dtype_round(like.type.dtype, input.input.begin);
        like.attrs = &input;
        return build(g, &like);
    }
    if (op != TCC_OP_CONSTANT) return build(g, &like);

    double single, *rounded = &single;
    const tcc_doubles *values = &attrs->constant.values;
    if (values->count > 1 && !(rounded = tcc__malloc(sizeof *rounded * (size_t)values->count))) return out_of_memory(g);
    tcc_attrs constant = {.constant.values.v = rounded};
    round_constant(&like.type, values, rounded, &constant.constant.values.count);
    like.attrs = &constant;
    tcc_node *n = build(g, &like);
    if (rounded != &single) tcc__free(rounded);
    return n;
}

tcc_node *tcc_ir_build(tcc_graph *g, tcc_op op, tcc_node *const *operands, int n_operands, const tcc_attrs *attrs,
                       const tcc_type *type, tcc_loc loc) {
    const tcc_origin origin = {loc, g->table->origin.backward, g->table->origin.segment};
    return tcc__ir_build(g, op, operands, n_operands, attrs, type, &origin);
}

tcc_node *tcc_ir_input(tcc_graph *g, const char *name, tcc_role role, const tcc_type *type, tcc_loc loc) {
    tcc_attrs attrs = {.input = {.role = role, .name = name}};
    return tcc_ir_build(g, TCC_OP_INPUT, NULL, 0, &attrs, type, loc);
}

tcc_node *tcc_ir_state(tcc_graph *g, const char *name, const tcc_type *type, double begin, tcc_loc loc) {
    tcc_attrs attrs = {.input = {.role = TCC_ROLE_STATE, .name = name, .begin = begin}};
    return tcc_ir_build(g, TCC_OP_INPUT, NULL, 0, &attrs, type, loc);
}

tcc_node *tcc_ir_state_copy(tcc_graph *g, const char *name, tcc_dtype dtype, const tcc_node *of, tcc_loc loc) {
    if (!of) {
        tcc__ir_fail(g);
        return NULL;
    }
    tcc_attrs attrs = {.input = {.role = TCC_ROLE_STATE, .name = name, .copy_of = of->attrs->input.name}};
    tcc_type type = of->type;
    type.dtype = dtype;
    return tcc_ir_build(g, TCC_OP_INPUT, NULL, 0, &attrs, &type, loc);
}

static uint64_t hash_alias(int alias) { return tcc_hash_add(1, (uint64_t)alias); }

/* The output of that name, or, where that is NULL, the next value of input `alias`; NULL: there is none. */
static const tcc_output *find_output(const tcc_graph *g, const char *name, int alias) {
    const uint64_t hash = name ? tcc_hash_string(0, name) : hash_alias(alias);
    size_t at = hash;
    for (void *number; (number = tcc_table_next(&g->table->outputs, hash, &at));) {
        const int i = (int)(intptr_t)number - 1;
        const tcc_output *o = &g->outputs.data[i];
        if (i < g->outputs.count && (name ? !strcmp(o->name, name) : o->alias == alias)) return o;
    }
    return NULL;
}

static bool add_output(tcc_graph *g, const tcc_output *output) {
    tcc_table *t = &g->table->outputs;
    if (!output->name || !tcc_vec_push(&g->outputs, *output)) return false;
    void *number = (void *)(intptr_t)g->outputs.count;
    if (!tcc_table_reserve(t)) return false;
    tcc_table_add(t, tcc_hash_string(0, output->name), number);
    if (output->alias < 0) return true;
    if (!tcc_table_reserve(t)) return false;
    tcc_table_add(t, hash_alias(output->alias), number);
    return true;
}

tcc_status tcc_ir_output(tcc_graph *g, const char *name, tcc_node *node, int alias) {
    tcc_status status = TCC_OK;
    if (!node) {
        tcc__ir_fail(g);
        return g->diag && g->diag->status != TCC_OK ? g->diag->status : TCC_EINVAL;
    }
    const tcc_loc loc = node->loc;
    const tcc_output *other = alias >= 0 ? find_output(g, NULL, alias) : NULL;
    if (find_output(g, name, -1)) status = tcc_error(g->diag, TCC_EINVAL, loc, "two outputs are named '%s'", name);
    else if (other)
        status = tcc_error(g->diag, TCC_EINVAL, loc, "outputs '%s' and '%s' are both the next value of input %d",
                           other->name, name, alias);
    if (status == TCC_OK && (alias < -1 || alias >= g->inputs.count))
        status = tcc_error(g->diag, TCC_EINVAL, loc, "output '%s' aliases input %d of %d", name, alias,
                           g->inputs.count);
    if (status == TCC_OK && alias >= 0 && !tcc_type_equal(&node->type, &g->inputs.data[alias]->type))
        status = tcc_error(g->diag, TCC_ESHAPE, loc,
                           "output '%s' is %s but the input '%s' whose next value it is, is %s", name,
                           tcc_type_text(&node->type), g->inputs.data[alias]->attrs->input.name,
                           tcc_type_text(&g->inputs.data[alias]->type));
    if (status == TCC_OK) {
        const tcc_output output = {.name = tcc_arena_strdup(&g->arena, name), .node = node, .alias = alias};
        if (!add_output(g, &output)) status = tcc_enomem(g->diag);
    }
    if (status != TCC_OK) tcc__ir_fail(g);
    return status;
}

static tcc_node **copy_nodes(tcc_graph *g, tcc_node *const *nodes, int count) {
    return tcc_arena_copy(&g->arena, nodes, sizeof *nodes * (size_t)count);
}

tcc_status tcc_ir_group(tcc_graph *g, const tcc_group *group) {
    tcc_group copy = *group;
    copy.nodes = copy_nodes(g, group->nodes, group->n_nodes);
    copy.outputs = copy_nodes(g, group->outputs, group->n_outputs);
    if (group->implementation) copy.implementation = tcc_implementation_copy(&g->arena, group->implementation, NULL);
    if (!copy.nodes || !copy.outputs || !copy.implementation != !group->implementation ||
        !tcc_vec_push(&g->groups, copy)) {
        out_of_memory(g);
        return TCC_ENOMEM;
    }
    return TCC_OK;
}

/* -- Rewriting -- */

static void mark_live(const tcc_graph *g, bool *live) {
    for (int i = 0; i < g->outputs.count; i++) live[g->outputs.data[i].node->id] = true;
    for (int id = g->nodes.count - 1; id >= 0; id--) {
        const tcc_node *n = g->nodes.data[id];
        for (int i = 0; i < n->n_operands && live[id]; i++) live[n->operands[i]->id] = true;
    }
}

tcc_status tcc_rewrite_begin(tcc_rewrite *rw, const tcc_graph *from) {
    *rw = (tcc_rewrite){.from = from};
    rw->to = tcc_graph_create(from->name, from->diag);
    rw->map = tcc__calloc((size_t)from->nodes.count, sizeof *rw->map);
    rw->live = tcc__calloc((size_t)from->nodes.count, sizeof *rw->live);
    if (!rw->to || !rw->map || !rw->live) {
        tcc_rewrite_abort(rw);
        return tcc_enomem(from->diag);
    }
    mark_live(from, rw->live);
    for (int i = 0; i < from->inputs.count; i++) {
        if (!tcc_rewrite_copy(rw, from->inputs.data[i])) {
            tcc_rewrite_abort(rw);
            return from->diag ? from->diag->status : TCC_ENOMEM;
        }
    }
    return TCC_OK;
}

tcc_node *tcc_rewrite_copy(tcc_rewrite *rw, const tcc_node *old) {
    if (rw->map[old->id]) return rw->map[old->id];
    enum { ON_STACK = 8 };
    tcc_node *few[ON_STACK], **operands = few;
    if (old->n_operands > ON_STACK && !(operands = tcc__malloc(sizeof *operands * (size_t)old->n_operands)))
        return out_of_memory(rw->to);
    bool whole = true;
    for (int i = 0; i < old->n_operands; i++) whole &= (operands[i] = rw->map[old->operands[i]->id]) != NULL;
    if (!whole && !rw->to->table->failed)
        TCC_BUG(rw->to->diag, "an operand was not copied before its user: %s", tcc_node_text(old));
    bool typed = tcc_op_get_info(old->op)->flags & TCC_FLAG_TYPED;
    tcc_ir_set_marks(rw->to, old->marks);
    const tcc_origin origin = {old->loc, old->backward, old->segment};
    tcc_node *n = tcc__ir_build(rw->to, old->op, operands, old->n_operands, old->attrs, typed ? &old->type : NULL,
                                &origin);
    tcc_ir_set_marks(rw->to, 0);
    if (operands != few) tcc__free(operands);
    return rw->map[old->id] = n;
}

void tcc_rewrite_copy_live(tcc_rewrite *rw) {
    for (int id = 0; id < rw->from->nodes.count; id++)
        if (rw->live[id]) tcc_rewrite_copy(rw, rw->from->nodes.data[id]);
}

tcc_status tcc_rewrite_take(tcc_rewrite *rw, tcc_graph **out) {
    tcc_graph *to = rw->to;
    tcc_status status = TCC_OK;
    if (to->table->failed) status = to->diag && to->diag->status != TCC_OK ? to->diag->status : TCC_EBUG;
    else *out = to, rw->to = NULL;
    tcc_rewrite_abort(rw);
    return status;
}

tcc_status tcc_rewrite_end(tcc_rewrite *rw, tcc_graph **out) {
    tcc_graph *to = rw->to;
    for (int i = 0; i < rw->from->outputs.count && !to->table->failed; i++) {
        const tcc_output *o = &rw->from->outputs.data[i];
        tcc_node *n = rw->map[o->node->id];
        if (!n) TCC_BUG(to->diag, "output '%s' was not copied: %s", o->name, tcc_node_text(o->node));
        if (tcc_ir_output(to, o->name, n, o->alias) != TCC_OK) break;
        to->outputs.data[i].in_place = o->in_place;
        to->outputs.data[i].staged = o->staged;
        to->outputs.data[i].stage_bytes = o->stage_bytes;
    }
    return tcc_rewrite_take(rw, out);
}

void tcc_rewrite_abort(tcc_rewrite *rw) {
    tcc_graph_destroy(rw->to);
    tcc__free(rw->map);
    tcc__free(rw->live);
    *rw = (tcc_rewrite){0};
}

tcc_status tcc_graph_copy_live(const tcc_graph *g, tcc_graph **out) {
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, g));
    tcc_rewrite_copy_live(&rw);
    return tcc_rewrite_end(&rw, out);
}

tcc_status tcc_graph_find_idle(const tcc_graph *g, bool *idle) {
    bool *live = tcc__calloc((size_t)g->nodes.count + 1, sizeof *live);
    if (!live) return tcc_enomem(g->diag);
    mark_live(g, live);
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        idle[i] = n->attrs->input.role == TCC_ROLE_PARAM && !live[n->id];
    }
    for (int i = 0; i < g->outputs.count; i++)
        if (g->outputs.data[i].alias >= 0) idle[g->outputs.data[i].alias] = false;
    tcc__free(live);
    return TCC_OK;
}
