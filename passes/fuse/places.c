/* SPDX-License-Identifier: MIT
 * fuse: where a kernel evaluates each node of a draft, and so how often. A place is an index map. Arithmetic and
 * reshapes evaluate their operands at their own place; any other view evaluates its operand at a new place. Codegen
 * makes a value once per place (trace.c). In a chain of views and sums, such as y = a y + b shift(y) in a loop, each
 * path with a different total shift is another place of a value. So the number of places multiplies from level to
 * level.
 *
 * Slices, transposes, flips and broadcasts in a row are one map: two shifts by one and one shift by two are the same
 * place. Pads, concats and indexed reads guard the elements that they do not read; the guard is part of the place. */
#include "passes/fuse/draft.h"
#include "passes/select.h"

#include "ir/support/alloc.h"
#include "ir/support/integers.h"

enum { NONE = -1 };

/* Where dim i of the value lies: at offset + coefficient * (dim `source` of the reader's result); source NONE: at
 * offset. */
typedef struct map {
    int8_t source[TCC_MAX_RANK];
    int64_t coefficient[TCC_MAX_RANK], offset[TCC_MAX_RANK];
} map;

struct tcc_draft_place {
    int from;             /* the place of the view that asks here; NONE: none, a root */
    int first, next;      /* a list of the places that views here ask at */
    int64_t points;       /* at which a value is evaluated here */
    const tcc_node *asks; /* that view; of several in a row the first one; of a root what it is of */
    int operand;          /* of which operand it asks */
    bool moves;           /* the view is `map`, to `end` */
    map map;
    const tcc_type *end; /* the type of the value that a view asks for */
};

/* A node that is evaluated at a place. */
struct tcc_draft_visit {
    int place, next; /* of the same node */
};

bool tcc_draft_places_create(tcc_draft_places *p, int n_nodes, int most) {
    *p = (tcc_draft_places){.most = most};
    p->first = tcc__malloc(sizeof *p->first * ((size_t)n_nodes + 1));
    p->places = tcc__malloc(sizeof *p->places * ((size_t)most + 1));
    p->visits = tcc__malloc(sizeof *p->visits * ((size_t)most + 1));
    for (int i = 0; p->first && i < n_nodes; i++) p->first[i] = NONE;
    return p->first && p->places && p->visits;
}

void tcc_draft_places_free(tcc_draft_places *p) {
    tcc__free(p->first);
    tcc__free(p->places);
    tcc__free(p->visits);
    *p = (tcc_draft_places){0};
}

/* -- Places -- */

/* A new place; NONE: too many. */
static int add_place(tcc_draft_places *p, struct tcc_draft_place place) {
    if (p->n_places == p->most) return NONE;
    place.first = NONE;
    place.next = NONE;
    if (place.from != NONE) {
        place.next = p->places[place.from].first;
        p->places[place.from].first = p->n_places;
    }
    p->places[p->n_places] = place;
    return p->n_places++;
}

static int add_root(tcc_draft_places *p, const tcc_node *of, int operand, int64_t points) {
    return add_place(p, (struct tcc_draft_place){.from = NONE, .points = points, .asks = of, .operand = operand});
}

/* Where the loops of `of` begin. */
static int root(tcc_draft_places *p, const tcc_node *of, int operand, int64_t points) {
    for (int i = 0; i < p->n_places; i++)
        if (p->places[i].from == NONE && p->places[i].asks == of && p->places[i].operand == operand) return i;
    return add_root(p, of, operand, points);
}

/* Whether n moves elements, all of which are in its operand, by an affine map: *out. */
static bool map_of(const tcc_node *n, map *out) {
    const tcc_attrs *a = n->attrs;
    const tcc_type *x = &n->operands[0]->type;
    for (int i = 0; i < x->rank; i++) out->source[i] = (int8_t)i, out->coefficient[i] = 1, out->offset[i] = 0;
    switch (n->op) {
    case TCC_OP_SLICE:
        for (int i = 0; i < x->rank; i++)
            out->coefficient[i] = a->slice.stride.v[i], out->offset[i] = a->slice.start.v[i];
        return true;
    case TCC_OP_TRANSPOSE:
        for (int i = 0; i < x->rank; i++) out->source[a->perm.perm.v[i]] = (int8_t)i;
        return true;
    case TCC_OP_FLIP:
        for (int i = 0; i < a->axes.axes.count; i++) {
            const int64_t axis = a->axes.axes.v[i];
            out->coefficient[axis] = -1, out->offset[axis] = x->dims[axis] - 1;
        }
        return true;
    case TCC_OP_BROADCAST:
        for (int i = 0; i < x->rank; i++) out->source[i] = x->dims[i] == 1 ? NONE : (int8_t)a->broadcast.dims.v[i];
        return true;
    default: return false;
    }
}

/* A dim of one element lies at a fixed place. */
static void fix_ones(const tcc_node *n, map *m) {
    const tcc_type *x = &n->operands[0]->type;
    for (int i = 0; i < x->rank; i++) {
        if (x->dims[i] == 1) m->offset[i] = 0;
        if (x->dims[i] == 1 || (m->source[i] != NONE && n->type.dims[m->source[i]] == 1)) m->source[i] = NONE;
    }
}

/* `inner` behind `outer`. */
static map map_behind(const map *outer, const map *inner, int rank) {
    map all = *inner;
    for (int i = 0; i < rank; i++) {
        const int at = inner->source[i];
        if (at == NONE) continue;
        all.source[i] = outer->source[at];
        all.offset[i] += inner->coefficient[i] * outer->offset[at];
        all.coefficient[i] *= outer->coefficient[at];
    }
    return all;
}

static bool same_map(const map *a, const map *b, int rank) {
    for (int i = 0; i < rank; i++)
        if (a->source[i] != b->source[i] || a->offset[i] != b->offset[i] ||
            (a->source[i] != NONE && a->coefficient[i] != b->coefficient[i]))
            return false;
    return true;
}

static bool is_identity(const map *m, const tcc_type *from, const tcc_type *to) {
    for (int i = 0; i < to->rank; i++)
        if (to->dims[i] > 1 && (m->source[i] != i || m->coefficient[i] != 1 || m->offset[i])) return false;
    return tcc_type_same_dims(from, to);
}

/* Views that hide or choose ask the same of their operand. */
static bool asks_alike(const tcc_node *a, const tcc_node *b) {
    if (a == b) return true;
    return a->op == b->op && tcc_fusion_of(a) == TCC_FUSION_VIEW && a->op != TCC_OP_CONCAT &&
           tcc_attrs_equal(tcc_op_get_info(a->op)->attrs, a->attrs, b->attrs);
}

static int find_place(tcc_draft_places *p, const struct tcc_draft_place *like) {
    for (int at = p->places[like->from].first; at != NONE; at = p->places[at].next) {
        struct tcc_draft_place *x = &p->places[at];
        if (x->moves != like->moves || x->operand != like->operand || !tcc_type_same_dims(x->end, like->end) ||
            !tcc_type_same_dims(&x->asks->type, &like->asks->type))
            continue;
        if (like->moves ? !same_map(&x->map, &like->map, x->end->rank) : !asks_alike(x->asks, like->asks)) continue;
        x->points = tcc_max_i64(x->points, like->points);
        return at;
    }
    return add_place(p, *like);
}

/* The place at which view n, evaluated at `at`, asks for operand k. */
static int place_behind(tcc_draft_places *p, const tcc_node *n, int k, int at) {
    const struct tcc_draft_place *outer = &p->places[at];
    struct tcc_draft_place place = {.from = at, .points = outer->points, .asks = n, .operand = k};
    place.end = &n->operands[k]->type;
    place.moves = k == 0 && map_of(n, &place.map);
    if (place.moves) fix_ones(n, &place.map);
    if (place.moves && outer->moves && tcc_type_same_dims(outer->end, &n->type)) {
        place.map = map_behind(&outer->map, &place.map, place.end->rank);
        place.asks = outer->asks;
        place.from = outer->from;
    }
    if (place.moves && is_identity(&place.map, &place.asks->type, place.end)) return place.from;
    return find_place(p, &place);
}

/* -- Visits -- */

/* Node n is evaluated there. False: too many places. */
static bool visit(tcc_draft_places *p, const tcc_node *n, int place) {
    if (place == NONE) return false;
    for (int v = p->first[n->id]; v != NONE; v = p->visits[v].next)
        if (p->visits[v].place == place) return true;
    if (p->n_visits == p->most_visits) return false;
    p->visits[p->n_visits] = (struct tcc_draft_visit){place, p->first[n->id]};
    p->first[n->id] = p->n_visits++;
    return true;
}

/* The place of a root that is not of one operand: of the draft's results, or of the values that its sums reduce to. */
enum { RESULTS = -1, KEPT = -2, ACROSS = -3, PARTS = -4 };

/* The outputs of a pointwise group have loops by their number of elements; n is one of those that have so many. */
static int place_of_results(tcc_draft_places *p, const tcc_node *n, int64_t numel) {
    for (int at = 0; at < p->n_places; at++)
        if (p->places[at].from == NONE && p->places[at].operand == RESULTS && p->places[at].points == numel) return at;
    return add_root(p, n, RESULTS, numel);
}

static int own_place(const tcc_draft *d, tcc_draft_scratch *s, int i) {
    const int64_t numel = tcc_type_numel(&d->nodes[i]->type);
    tcc_draft_places *p = &s->places;
    if (d->kind == TCC_GROUP_POINTWISE) return place_of_results(p, d->nodes[i], numel);
    if (d->kind == TCC_GROUP_SCAN) /* all that is stored is at hand at each point, also the end of a line */
        return root(p, d->hero, RESULTS, tcc_type_numel(&d->hero->type));
    const bool reduces = d->kind == TCC_GROUP_REDUCE;
    const int side = reduces && s->level[i] == TCC_LEVEL_KEPT     ? KEPT
                     : reduces && s->level[i] == TCC_LEVEL_ACROSS ? ACROSS
                     : reduces && s->level[i] == TCC_LEVEL_PARTS  ? PARTS
                                                                  : RESULTS;
    return root(p, d->hero, side, numel);
}

/* What a part of concat n is charged for. One that is a concat itself has no loop, but its operands have launches. */
static int64_t points_of_part(const tcc_draft_scratch *s, const tcc_node *n, const tcc_node *x) {
    const int64_t all = tcc_type_numel(&n->type);
    const double step = s->costs.instruction_ns * tcc_op_get_info(x->op)->cost;
    if (x->op != TCC_OP_CONCAT || step <= 0) return all;
    const double points = (double)tcc_type_numel(&x->type) + s->costs.avoided_launch_ns * (x->n_operands - 1) / step;
    return points < (double)all ? (int64_t)points : all;
}

/* Visits operand k of node i, which is evaluated at `place`. A hero and the sums of a group have loops of their own. So
 * has each operand of a concat that is stored in parts; it is charged for as many points as all of them have, which
 * makes up for launches: a part that is copied shares that of others, one that is computed has its own. Woven parts
 * have the loops of the other outputs. */
static bool visit_operand(const tcc_draft *d, tcc_draft_scratch *s, const tcc_node *parts, int i, int k, int place) {
    const tcc_node *n = d->nodes[i], *x = n->operands[k];
    const int p = s->position[x->id];
    const int64_t numel = tcc_type_numel(&x->type);
    const bool sums = d->kind == TCC_GROUP_REDUCE && tcc_is_reduction(n);
    /* The index of an element; also where the table has no other dims, but for the choices of a host: its kernel of a
     * long search is slower than several of its parts, which have more vectors at once. */
    const bool host = s->target && s->target->lanes;
    const bool indexes = k == 1 && (n->op == TCC_OP_TAKE_ALONG ||
                                    (!host && n->op == TCC_OP_TAKE && tcc_type_same_dims(&n->type, &x->type)));
    const bool same = tcc_fusion_of(n) == TCC_FUSION_POINT || n->op == TCC_OP_RESHAPE || indexes;
    int at = place;
    if (p < 0) return true;
    const bool puts = d->kind == TCC_GROUP_SORT && n != d->hero && tcc_fusion_of(n) == TCC_FUSION_SCATTER;
    if (puts) return visit(&s->places, x, place);
    if (sums) at = root(&s->places, d->hero, RESULTS, numel);
    else if (tcc_draft_weaves(d, s, i)) at = place_of_results(&s->places, n, numel);
    else if (n == parts) at = add_root(&s->places, n, k, points_of_part(s, n, x));
    else if (!tcc_is_elementwise(n)) at = root(&s->places, n, k, numel);
    else if (s->level[p] == TCC_LEVEL_KEPT && s->level[i] == TCC_LEVEL_FULL) at = own_place(d, s, p);
    else if (!same) at = place_behind(&s->places, n, k, place);
    return visit(&s->places, x, at);
}

/* How often n is evaluated; and at how many places. */
static int64_t count(const tcc_draft_places *p, const tcc_node *n, int *places) {
    int64_t points = 0;
    *places = 0;
    for (int v = p->first[n->id]; v != NONE; v = p->visits[v].next, ++*places)
        if (__builtin_add_overflow(points, p->places[p->visits[v].place].points, &points)) points = INT64_MAX;
    return points;
}

static bool visit_all(const tcc_draft *d, tcc_draft_scratch *s, const tcc_node *parts, int most_places) {
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        const tcc_node *n = d->nodes[i];
        const int *first = &s->places.first[n->id];
        if ((d->stored[i] || *first == NONE) && !visit(&s->places, n, own_place(d, s, i))) return false;
        s->times[i] = count(&s->places, n, &s->contexts[i]);
        if (tcc_fusion_of(n) != TCC_FUSION_VIEW && s->contexts[i] > most_places) return false;
        for (int k = 0; k < n->n_operands; k++)
            for (int v = *first; v != NONE; v = s->places.visits[v].next)
                if (!visit_operand(d, s, parts, i, k, s->places.visits[v].place)) return false;
    }
    return true;
}

bool tcc_draft_count_places(const tcc_draft *d, tcc_draft_scratch *s, const tcc_node *parts, int most_places,
                            int most_visits) {
    s->places.most_visits = most_visits < s->places.most ? most_visits : s->places.most;
    const bool fits = visit_all(d, s, parts, most_places);
    for (int i = 0; i < d->n_nodes; i++) s->places.first[d->nodes[i]->id] = NONE;
    s->places.n_places = s->places.n_visits = 0;
    return fits;
}
