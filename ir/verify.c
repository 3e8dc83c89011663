/* SPDX-License-Identifier: MIT
 * What holds for every well-formed graph, checked from scratch: types are inferred again, and the
 * lists around the nodes (inputs, outputs, groups, places) are compared with them. All errors are
 * reported: the first as the error, the others as notes. Whether places overlap in time is checked
 * by passes/memory/plan.c, which knows lifetimes. */
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/collective.h"
#include "ir/support/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REPORTS = 20 };

typedef struct verifier {
    const tcc_graph *g;
    tcc_diag *diag;
    int reports;
    int *stored_by;           /* by node id: the group that stores it, or -1 */
    int *seen;                /* by node id: the last group (or other list) that named it, plus 1 */
    bool *written;            /* of a group: by output and temporary */
    int *next_of;             /* by input: the output that is its next value, or -1 */
    const tcc_output **named; /* all outputs, by name */
    bool given;               /* groups say what belongs together, not yet what they store */
} verifier;

static void report(verifier *v, const tcc_node *n, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void report(verifier *v, const tcc_node *n, const char *format, ...) {
    char message[1024];
    const tcc_loc loc = n ? n->loc : TCC_NOWHERE;
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    v->reports++;
    if (v->reports == 1) tcc_error(v->diag, TCC_EINVAL, loc, "%s", message);
    else if (v->reports <= MOST_REPORTS) tcc_note(v->diag, loc, "%s", message);
    else if (v->reports == MOST_REPORTS + 1) tcc_note(v->diag, TCC_NOWHERE, "and more");
}

static bool belongs(const verifier *v, const tcc_node *n) {
    return n && n->id >= 0 && n->id < v->g->nodes.count && v->g->nodes.data[n->id] == n;
}

/* -- Nodes -- */

static bool check_operands(verifier *v, const tcc_node *n) {
    for (int i = 0; i < n->n_operands; i++) {
        const tcc_node *x = n->operands[i];
        if (!belongs(v, x)) report(v, n, "operand %d of node %d is not in the graph", i, n->id);
        else if (x->id >= n->id) report(v, n, "%s uses %%%d before it is defined", tcc_node_text(n), x->id);
        else continue;
        return false;
    }
    return true;
}

/* False when the node makes no sense at all. */
static bool check_type(verifier *v, const tcc_node *n) {
    tcc_diag why = {0};
    tcc_type inferred;
    tcc_infer q = {&why, TCC_NOWHERE, n->op, n->attrs, n->operands, n->n_operands, &n->type};
    const bool sound = tcc__infer(&q, &inferred) == TCC_OK;
    if (!sound) {
        const char *text = tcc_diag_text(&why), *severity = "error: ";
        if (!strncmp(text, severity, strlen(severity))) text += strlen(severity);
        report(v, n, "%s: %s", tcc_node_text(n), text);
    } else if (!tcc_type_equal(&inferred, &n->type)) {
        report(v, n, "%s: the type should be %s", tcc_node_text(n), tcc_type_text(&inferred));
    }
    tcc_diag_clear(&why);
    return sound;
}

static void check_values(verifier *v, const tcc_node *n) {
    const tcc_doubles *values = &n->attrs->constant.values;
    for (int64_t i = 0; i < values->count; i++) {
        double rounded = tcc_dtype_round(n->type.dtype, values->v[i]);
        if (!memcmp(&rounded, &values->v[i], sizeof rounded)) continue;
        report(v, n, "%s: value %lld is not one of its element type", tcc_node_text(n), (long long)i);
        return;
    }
}

static void check_nodes(verifier *v) {
    for (int id = 0; id < v->g->nodes.count; id++) {
        const tcc_node *n = v->g->nodes.data[id];
        if (!n || n->id != id || n->op < 0 || n->op >= TCC_OP_COUNT || !n->attrs) {
            report(v, NULL, "node %d is damaged", id);
            return; /* nothing can be said about its users */
        }
        if (!check_operands(v, n) || !check_type(v, n)) continue;
        if (n->op == TCC_OP_CONSTANT) check_values(v, n);
        const tcc_node *found = tcc__ir_find(v->g, n->op, n->operands, n->n_operands, n->attrs, &n->type, n->marks);
        if (found != n) report(v, n, "%s is %s", tcc_node_text(n), found ? "there twice" : "not in the table of nodes");
    }
}

/* Collectives wait for each other in one chain. */
static void check_collectives(verifier *v) {
    const tcc_node *last = NULL;
    for (int id = 0; id < v->g->nodes.count; id++) {
        const tcc_node *n = v->g->nodes.data[id];
        if (!tcc_op_is_collective(n->op)) continue;
        const tcc_node *before = n->n_operands > 1 ? n->operands[1] : NULL;
        if (before != last)
            report(v, n, "%s waits for %s, not for the collective before it, %s", tcc_node_text(n),
                   before ? tcc_node_text(before) : "none", last ? tcc_node_text(last) : "of which there is none");
        else if (last && last->attrs->collective.ranks != n->attrs->collective.ranks)
            report(v, n, "%s is one of %lld ranks, those before it of %lld", tcc_node_text(n),
                   (long long)n->attrs->collective.ranks, (long long)last->attrs->collective.ranks);
        if (n->marks & TCC_MARK_REMAT) report(v, n, "%s would be repeated", tcc_node_text(n));
        last = n;
    }
}

/* -- Inputs and outputs -- */

static void check_beginning(verifier *v, const tcc_node *n) {
    const tcc_attrs_input *a = &n->attrs->input;
    const double rounded = tcc_dtype_round(n->type.dtype, a->begin);
    char why[512];
    if (memcmp(&rounded, &a->begin, sizeof rounded))
        report(v, n, "%s: what it begins with is not of its element type", tcc_node_text(n));
    if (tcc_input_is_copy(n) && !tcc__ir_can_copy(v->g, a, &n->type, n->id, why, sizeof why))
        report(v, n, "%s cannot begin as that copy: %s", tcc_node_text(n), why);
}

static void check_inputs(verifier *v) {
    int count = 0;
    for (int id = 0; id < v->g->nodes.count; id++) {
        const tcc_node *n = v->g->nodes.data[id];
        if (n->op != TCC_OP_INPUT) continue;
        if (count >= v->g->inputs.count || v->g->inputs.data[count] != n) {
            report(v, n, "%s is not input %d of the graph", tcc_node_text(n), count);
            return;
        }
        count++;
        check_beginning(v, n);
    }
    if (count != v->g->inputs.count) report(v, NULL, "%d inputs are listed, %d exist", v->g->inputs.count, count);
}

static int by_name(const void *a, const void *b) {
    const tcc_output *x = *(const tcc_output *const *)a, *y = *(const tcc_output *const *)b;
    const int names = strcmp(x->name, y->name);
    return names ? names : x < y ? -1 : x > y;
}

static void check_names(verifier *v) {
    const int count = v->g->outputs.count;
    for (int i = 0; i < count; i++) v->named[i] = &v->g->outputs.data[i];
    if (count) qsort(v->named, (size_t)count, sizeof *v->named, by_name);
    for (int i = 1; i < count; i++)
        if (!strcmp(v->named[i - 1]->name, v->named[i]->name))
            report(v, belongs(v, v->named[i]->node) ? v->named[i]->node : NULL, "two outputs are named '%s'",
                   v->named[i]->name);
}

static void check_outputs(verifier *v) {
    const tcc_graph *g = v->g;
    for (int i = 0; i < g->inputs.count; i++) v->next_of[i] = -1;
    check_names(v);
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *o = &g->outputs.data[i];
        if (!belongs(v, o->node)) {
            report(v, NULL, "output '%s' is not in the graph", o->name);
            continue;
        }
        if (!*o->name) report(v, o->node, "output %d has no name", i);
        if (o->alias < -1 || o->alias >= g->inputs.count)
            report(v, o->node, "output '%s' aliases input %d of %d", o->name, o->alias, g->inputs.count);
        else if (o->alias >= 0 && !tcc_type_equal(&o->node->type, &g->inputs.data[o->alias]->type))
            report(v, o->node, "output '%s' is %s, the input that it aliases %s", o->name,
                   tcc_type_text(&o->node->type), tcc_type_text(&g->inputs.data[o->alias]->type));
        if (o->alias >= 0 && o->alias < g->inputs.count) {
            const int other = v->next_of[o->alias];
            if (other >= 0)
                report(v, o->node, "outputs '%s' and '%s' are both the next value of input %d",
                       g->outputs.data[other].name, o->name, o->alias);
            v->next_of[o->alias] = i;
        }
        if (o->staged && (o->node->op != TCC_OP_INPUT || o->alias < 0 || o->stage_bytes < 0 ||
                          tcc_type_bytes(&o->node->type) > g->arena_bytes - o->stage_bytes))
            report(v, o->node, "output '%s' cannot go by way of the arena at %lld", o->name, (long long)o->stage_bytes);
        if (o->in_place && o->alias < 0) report(v, o->node, "output '%s' is in place of no input", o->name);
    }
}

/* -- Groups -- */

static bool is_leaf(const tcc_node *n) { return n->op == TCC_OP_INPUT || n->op == TCC_OP_CONSTANT; }

/* -- What runs a group -- */

/* A value that a launch may read: from outside the group, or an output that an earlier launch wrote. `written` tells
 * launches by output of the group. */
static bool is_readable(const verifier *v, const tcc_group *group, const bool *written, const tcc_node *n) {
    for (int i = 0; i < group->n_outputs; i++)
        if (group->outputs[i] == n) return written[i];
    return n->op == TCC_OP_INPUT || v->stored_by[n->id] >= 0;
}

static bool lists(const tcc_launch_value *values, int count, const tcc_node *n) {
    for (int i = 0; i < count; i++)
        if (values[i].node == n) return true;
    return false;
}

/* A temporary that a launch uses lives then, and holds something where it is read. `full` by temporary. */
static void check_temporary(verifier *v, const tcc_implementation *x, int group, int launch, int t, bool reads,
                            bool *full) {
    if (t < 0 || t >= x->n_temporaries)
        report(v, NULL, "group %d: launch %d uses t%d, which is not there", group, launch, t);
    else if (launch < x->temporaries[t].first || launch > x->temporaries[t].last)
        report(v, NULL, "group %d: launch %d uses t%d, which lives from launch %d to %d", group, launch, t,
               x->temporaries[t].first, x->temporaries[t].last);
    else if (reads && !full[t]) report(v, NULL, "group %d: launch %d reads t%d before it is written", group, launch, t);
    else if (!reads) full[t] = true;
}

static void check_launch(verifier *v, const tcc_group *group, int index, int at, bool *written, bool *full) {
    const tcc_implementation *x = group->implementation;
    const tcc_launch *launch = &x->launches[at];
    if (launch->bytes < 0 || launch->flop < 0 || launch->ns < 0)
        report(v, NULL, "group %d: launch %d predicts less than nothing", index, at);
    if (launch->beside && !at) report(v, NULL, "group %d: its first launch has none beside it", index);
    for (int i = 0; i < launch->n_writes; i++) {
        const tcc_node *n = launch->writes[i].node;
        int output = 0;
        if (!n) check_temporary(v, x, index, at, launch->writes[i].temporary, false, full);
        if (!n) continue;
        while (output < group->n_outputs && group->outputs[output] != n) output++;
        if (!belongs(v, n) || output == group->n_outputs)
            report(v, NULL, "group %d: launch %d writes a value that the group does not store", index, at);
        else written[output] = true;
    }
    for (int i = 0; i < launch->n_reads; i++) {
        const tcc_node *n = launch->reads[i].node;
        if (!n) check_temporary(v, x, index, at, launch->reads[i].temporary, true, full);
        else if (!belongs(v, n) || !is_readable(v, group, written, n))
            report(v, NULL, "group %d: launch %d reads a value that nothing has stored", index, at);
    }
    for (int i = 0; i < launch->n_overwrites; i++) {
        const tcc_overwrite *o = &launch->overwrites[i];
        if (!lists(launch->reads, launch->n_reads, o->old) || !lists(launch->writes, launch->n_writes, o->written))
            report(v, NULL, "group %d: launch %d writes over what it does not read", index, at);
        else if (tcc_type_bytes(&o->old->type) != tcc_type_bytes(&o->written->type))
            report(v, o->written, "group %d: launch %d writes %%%d over %%%d of another size", index, at,
                   o->written->id, o->old->id);
    }
}

static void check_implementation(verifier *v, int index) {
    const tcc_group *group = &v->g->groups.data[index];
    const tcc_implementation *x = group->implementation;
    bool *written = v->written;
    memset(written, 0, sizeof *written * (size_t)(group->n_outputs + x->n_temporaries));
    if (!*x->name) report(v, NULL, "group %d is run by nothing that has a name", index);
    if (!x->n_launches && !x->n_temporaries) return; /* written by hand: select makes its launches */
    for (int i = 0; i < x->n_temporaries; i++) {
        const tcc_temporary *t = &x->temporaries[i];
        if (t->size_bytes < 1 || t->size_bytes > TCC_MAX_TEMPORARY_BYTES || t->first < 0 || t->first > t->last ||
            t->last >= x->n_launches)
            report(v, NULL, "group %d: t%d has %lld bytes from launch %d to %d of %d", index, i,
                   (long long)t->size_bytes, t->first, t->last, x->n_launches);
        if (t->placed && (t->offset_bytes < 0 || t->size_bytes > v->g->arena_bytes - t->offset_bytes))
            report(v, NULL, "group %d: t%d lies at %lld, outside the arena of %lld bytes", index, i,
                   (long long)t->offset_bytes, (long long)v->g->arena_bytes);
    }
    for (int i = 0; i < x->n_launches; i++) check_launch(v, group, index, i, written, written + group->n_outputs);
    for (int i = 0; i < group->n_outputs; i++)
        if (!written[i]) report(v, group->outputs[i], "group %d: no launch writes %%%d", index, group->outputs[i]->id);
}

/* Every operand is computed in the group itself, comes from an earlier group, or is a leaf. */
static void check_group_node(verifier *v, int index, const tcc_node *n) {
    if (n->op == TCC_OP_INPUT) report(v, n, "group %d evaluates %s", index, tcc_node_text(n));
    for (int i = 0; i < n->n_operands; i++) {
        const tcc_node *x = n->operands[i];
        if (is_leaf(x) || v->seen[x->id] == index + 1 || v->given) continue;
        if (v->stored_by[x->id] < 0)
            report(v, n, "group %d: no earlier group stores %%%d, which %s needs", index, x->id, tcc_node_text(n));
    }
}

static void check_group(verifier *v, int index) {
    const tcc_group *group = &v->g->groups.data[index];
    if (group->kind < 0 || group->kind >= TCC_GROUP_KIND_COUNT) {
        report(v, NULL, "group %d is of no known kind", index);
        return;
    }
    for (int i = 0, last = -1; i < group->n_nodes; i++) {
        const tcc_node *n = group->nodes[i];
        if (!belongs(v, n)) {
            report(v, NULL, "group %d names a node of another graph", index);
            return;
        }
        if (n->id <= last) {
            report(v, n, "group %d: its nodes are not in order at %%%d", index, n->id);
            return;
        }
        last = n->id;
        check_group_node(v, index, n);
        v->seen[n->id] = index + 1;
    }
    if (!belongs(v, group->hero) || v->seen[group->hero->id] != index + 1)
        report(v, NULL, "group %d: its hero is not in it", index);
    if (!group->n_outputs && !v->given) report(v, NULL, "group %d stores nothing", index);
    if (group->n_outputs && v->given) report(v, NULL, "group %d stores something, group 0 nothing", index);
    for (int i = 0; i < group->n_outputs; i++) {
        const tcc_node *n = group->outputs[i];
        if (!belongs(v, n) || v->seen[n->id] != index + 1) {
            report(v, NULL, "group %d stores a node that is not in it", index);
            return;
        }
        if (v->stored_by[n->id] >= 0)
            report(v, n, "groups %d and %d both store %s", v->stored_by[n->id], index, tcc_node_text(n));
        v->stored_by[n->id] = index;
    }
    if (group->implementation) check_implementation(v, index);
}

static void check_groups(verifier *v) {
    const tcc_graph *g = v->g;
    v->given = g->groups.count && !g->groups.data[0].n_outputs;
    for (int i = 0; i < g->groups.count; i++) check_group(v, i);
    for (int i = 0; i < g->outputs.count && g->groups.count && !v->given; i++) {
        const tcc_node *n = g->outputs.data[i].node;
        if (!is_leaf(n) && v->stored_by[n->id] < 0)
            report(v, n, "no group stores output '%s', %s", g->outputs.data[i].name, tcc_node_text(n));
    }
}

/* -- Places -- */

static void check_places(verifier *v) {
    const tcc_graph *g = v->g;
    if (g->arena_bytes < 0) report(v, NULL, "the arena has %lld bytes", (long long)g->arena_bytes);
    for (int i = 0; i < g->places.count; i++) {
        const tcc_place *place = &g->places.data[i];
        if (!belongs(v, place->node)) {
            report(v, NULL, "place %d is of a node that is not in the graph", i);
            continue;
        }
        const tcc_node *n = place->node;
        if (v->seen[n->id] < 0) report(v, n, "%s has two places", tcc_node_text(n));
        else if (v->stored_by[n->id] < 0) report(v, n, "%s has a place, but no group stores it", tcc_node_text(n));
        v->seen[n->id] = -1;
        if (place->offset_bytes % tcc_dtype_bytes(n->type.dtype))
            report(v, n, "%s lies at %lld, which is not aligned", tcc_node_text(n), (long long)place->offset_bytes);
        if (place->offset_bytes < 0 || tcc_type_bytes(&n->type) > g->arena_bytes - place->offset_bytes)
            report(v, n, "%s lies at %lld, outside the arena of %lld bytes", tcc_node_text(n),
                   (long long)place->offset_bytes, (long long)g->arena_bytes);
    }
}

/* The most values that the launches of a group write. */
static size_t most_written(const tcc_graph *g) {
    size_t most = 1;
    for (int i = 0; i < g->groups.count; i++) {
        const tcc_group *group = &g->groups.data[i];
        const size_t own = (size_t)group->n_outputs +
                           (size_t)(group->implementation ? group->implementation->n_temporaries : 0);
        if (own > most) most = own;
    }
    return most;
}

static void verifier_free(verifier *v) {
    tcc__free(v->stored_by);
    tcc__free(v->seen);
    tcc__free(v->written);
    tcc__free(v->next_of);
    tcc__free(v->named);
}

tcc_status tcc_graph_verify(const tcc_graph *g, tcc_diag *diag) {
    verifier v = {.g = g, .diag = diag};
    v.stored_by = tcc__malloc(sizeof *v.stored_by * (size_t)g->nodes.count);
    v.seen = tcc__calloc((size_t)g->nodes.count, sizeof *v.seen);
    v.written = tcc__malloc(sizeof *v.written * most_written(g));
    v.next_of = tcc__malloc(sizeof *v.next_of * ((size_t)g->inputs.count + 1));
    v.named = tcc__malloc(sizeof *v.named * ((size_t)g->outputs.count + 1));
    if (!v.stored_by || !v.seen || !v.written || !v.next_of || !v.named) {
        verifier_free(&v);
        return tcc_enomem(diag);
    }
    for (int i = 0; i < g->nodes.count; i++) v.stored_by[i] = -1;
    check_nodes(&v);
    /* The lists are of nodes: they are worth a look only when those are sound. */
    if (!v.reports) {
        check_collectives(&v);
        check_inputs(&v);
        check_outputs(&v);
    }
    if (!v.reports) {
        check_groups(&v);
        check_places(&v);
    }
    verifier_free(&v);
    return v.reports ? TCC_EINVAL : TCC_OK;
}
