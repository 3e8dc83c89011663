/* SPDX-License-Identifier: MIT
 * The schedule of pointwise groups: a collapsed loop nest, vectors along its innermost loop, work items that are chunks
 * of it. Folds (windows, contractions without a schedule of their own) run inside a point. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/lowering.h"
#include "codegen/schedule/spot.h"
#include "ir/chain.h"

/* 16 KB of f32 results an item: enough to be worth handing out, small enough to balance. */
enum { ITEM_POINTS = 4096, MOST_POINTS = 1 << 24, ANY_EXTENT = 1 << 30 };
/* Vectors of a thread of a GPU: more where what is uniform must pay, as an optimizer's hyper-parameters. */
enum { STEPS = 2, FLAT_STEPS = 4 };
enum { MOST_REGISTERS = 4 /* of a vector */, MOST_WRITTEN = 16 /* of all vectors of a row */ };

typedef struct pointwise {
    tcc_body *body;
    tcc_item_cut cut;
    int lanes;
    tcc_thread_shape shape;
    bool any_extent;  /* one flat loop whose extent is parameter 0 */
    bool whole;       /* the innermost loop is a number of vectors */
    bool peeled;      /* whole vectors of the innermost loop, then what is left of it */
    int phase_var;    /* a short innermost loop, all turns of which make one vector: see choose_phases; -1: none */
    int jam_var;      /* a short loop, in all turns of which a fold is made at once: see find_jam; -1: none */
    bool rest_apart;  /* what is left of a row of whole vectors is written out */
    bool written_out; /* the vectors of the innermost loop, one by one */
    const tcc_expr
        *spot; /* a condition that holds at a few places of a row; NULL: none, or it is not worth asking for */
    bool away; /* of them: it does not hold */
} pointwise;

enum { MOST_JAM = 8 };
enum { MOST_PHASES = 4, MOST_PHASED_STORES = 4, MOST_INTERLEAVED = 64 /* elements */ };

static void emit_point(tcc_body_run *r) {
    const tcc_body *b = r->body;
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->stores.count; i++) tcc_body_emit_store(r, &b->stores.data[i]);
}

/* All turns of the innermost loop, one by one. */
static void emit_turns(tcc_body_run *r, int var) {
    for (int64_t turn = 0; turn <= r->body->vars.data[var].high; turn++) {
        tcc_body_enter(r, var, tcc_emit_i64(r->e, turn));
        emit_point(r);
        tcc_body_leave(r, var);
    }
}

/* The same, each a vector along the loop around it, and what they store together. */
static void emit_phases(tcc_body_run *r, const pointwise *p, tcc_emit_value index, tcc_emit_value to, bool whole) {
    tcc_emitter *e = r->e;
    const tcc_body *b = r->body;
    const int phases = (int)b->vars.data[p->phase_var].high + 1;
    tcc_emit_value values[MOST_PHASED_STORES][MOST_PHASES], mask = NULL;
    for (int phase = 0; phase < phases; phase++) {
        tcc_body_enter(r, p->phase_var, tcc_emit_i64(e, phase));
        tcc_body_emit(r, 0);
        for (int i = 0; i < b->stores.count; i++) values[i][phase] = tcc_body_stored(r, &b->stores.data[i]);
        tcc_body_leave(r, p->phase_var);
    }
    if (!whole)
        mask = tcc_emit_mask(e, r->lanes * phases,
                             tcc_emit_mul(e, tcc_emit_sub(e, to, index), tcc_emit_i64(e, phases)));
    tcc_body_enter(r, p->phase_var, tcc_emit_i64(e, 0));
    for (int i = 0; i < b->stores.count; i++) tcc_body_store_phases(r, &b->stores.data[i], values[i], phases, mask);
    tcc_body_leave(r, p->phase_var);
}

static int64_t turns_of(const tcc_body *b, int var) { return var < 0 ? 1 : b->vars.data[var].high + 1; }

static const tcc_expr *fold_of(const tcc_body *b) {
    const tcc_expr *found = NULL;
    for (int i = 0; i < b->exprs.count; i++)
        if (b->exprs.data[i]->kind == TCC_EXPR_FOLD) {
            if (found) return NULL;
            found = b->exprs.data[i];
        }
    return found;
}

static void emit_jam(tcc_body_run *r, const pointwise *p) {
    tcc_emit_value values[MOST_JAM];
    const tcc_expr *fold = fold_of(p->body);
    const int turns = (int)turns_of(p->body, p->jam_var);
    tcc_body_emit(r, 0);
    tcc_body_emit_turns(r, fold, p->jam_var, turns, values);
    for (int i = 0; i < turns; i++) {
        tcc_body_enter(r, p->jam_var, tcc_emit_i64(r->e, i));
        r->values[fold->id] = values[i];
        emit_point(r);
        tcc_body_leave(r, p->jam_var);
    }
}

/* The vector that begins at `index`; those of its lanes that lie behind `to` do not exist. */
static void emit_vector(tcc_body_run *r, const pointwise *p, int lanes, int var, tcc_emit_value index,
                        tcc_emit_value to, bool whole) {
    if (lanes > 1) {
        r->lane_var = var;
        r->lanes = lanes;
        if (!whole) r->mask = tcc_emit_tail_mask(r->e, lanes, to, index);
    }
    tcc_body_enter(r, var, index);
    if (p->away) tcc_body_set_false(r, p->spot);
    if (p->jam_var >= 0) emit_jam(r, p);
    else if (p->phase_var < 0) emit_point(r);
    else if (lanes == 1 || lanes * MOST_PHASES > MOST_INTERLEAVED) emit_turns(r, p->phase_var);
    else emit_phases(r, p, index, to, whole);
    tcc_body_leave(r, var);
    r->mask = NULL;
    r->lane_var = -1;
    r->lanes = 1;
}

/* The vector loop over [from, to): whole vectors, with a mask or single lanes for the rest where the extent is no
 * multiple. */
static void emit_vectors(tcc_body_run *r, const pointwise *p, int lanes, int var, tcc_emit_value from,
                         tcc_emit_value to, bool whole) {
    tcc_emitter *e = r->e;
    tcc_emit_loop loop;
    tcc_emit_value end = whole ? to : tcc_emit_vectors_end(e, to, lanes);
    tcc_emit_lane_loop_begin(e, &loop, from, end, lanes, NULL, 0);
    emit_vector(r, p, lanes, var, loop.index, to, whole);
    tcc_emit_loop_end(e, &loop, NULL);
    if (end != to) emit_vectors(r, p, 1, var, end, to, true);
}

/* The same of whole vectors, to few of which a condition is put. */
static void emit_around_spot(tcc_body_run *r, const pointwise *p, int var, tcc_emit_value from, tcc_emit_value to) {
    tcc_emit_value first, end;
    pointwise away = *p;
    away.away = true;
    tcc_spot_vectors(r, p->spot, var, p->lanes, from, to, &first, &end);
    emit_vectors(r, &away, p->lanes, var, from, first, true);
    emit_vectors(r, p, p->lanes, var, first, end, true);
    emit_vectors(r, &away, p->lanes, var, end, to, true);
}

/* All vectors of a row from `from` on, one by one: wide ones, and in the end as few registers as hold the rest. */
static void emit_written_out(tcc_body_run *r, const pointwise *p, int var, int64_t from, int64_t extent) {
    tcc_emitter *e = r->e;
    int lanes = p->lanes;
    for (int64_t index = from; index < extent; index += lanes) {
        while (lanes > e->lanes && extent - index <= lanes - e->lanes) lanes /= 2;
        emit_vector(r, p, lanes, var, tcc_emit_i64(e, index), tcc_emit_i64(e, extent), index + lanes <= extent);
    }
}

/* Whole vectors. */
static void emit_whole(tcc_body_run *r, const pointwise *p, int var, tcc_emit_value from, tcc_emit_value to) {
    if (p->spot && r->needed[p->spot->id]) emit_around_spot(r, p, var, from, to);
    else emit_vectors(r, p, p->lanes, var, from, to, true);
}

static void emit_row(tcc_body_run *r, const pointwise *p, int var, tcc_emit_value from, tcc_emit_value to) {
    if (p->whole) {
        emit_whole(r, p, var, from, to);
        return;
    }
    if (p->peeled || p->spot) { /* items begin at whole vectors */
        tcc_emit_value end = tcc_emit_and(r->e, to, tcc_emit_i64(r->e, -p->lanes));
        emit_whole(r, p, var, from, end);
        from = end;
    }
    emit_vectors(r, p, p->lanes, var, from, to, false);
}

/* The loops of an item from the cut on. */
static void emit_nest(tcc_body_run *r, const pointwise *p, tcc_emit_value from, tcc_emit_value to) {
    tcc_emitter *e = r->e;
    const tcc_item_cut *cut = &p->cut;
    int last = cut->n - 1;
    for (int i = cut->cut; i <= last; i++) {
        int var = cut->order[i];
        int64_t extent = r->body->vars.data[var].high + 1;
        if (i > cut->cut) from = tcc_emit_i64(e, 0), to = tcc_emit_i64(e, extent);
        if (i == last && p->written_out && i > cut->cut) {
            emit_written_out(r, p, var, 0, extent);
            break;
        }
        if (i == last && p->rest_apart && i > cut->cut) {
            const int64_t end = extent / p->lanes * p->lanes;
            if (end) emit_whole(r, p, var, from, tcc_emit_i64(e, end));
            emit_written_out(r, p, var, end, extent);
            break;
        }
        if (i == last) {
            emit_row(r, p, var, from, to);
            break;
        }
        tcc_emit_loop_begin(e, &r->nest[var], from, to, 1, NULL, 0);
        tcc_body_enter(r, var, r->nest[var].index);
        tcc_body_emit(r, 0);
    }
    for (int i = last - 1; i >= cut->cut; i--) {
        tcc_body_leave(r, cut->order[i]);
        tcc_emit_loop_end(e, &r->nest[cut->order[i]], NULL);
    }
}

/* Rounding to bf16 by an instruction has a branch, which takes longer to compile: it pays for a few. */
static bool rounds_little(const tcc_body *b) {
    enum { FEW = 3 };
    int count = 0;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        const bool casts = x->kind == TCC_EXPR_POINT && x->op == TCC_OP_CAST;
        count += x->dtype == TCC_BF16 && (casts || tcc_expr_rounds(x));
    }
    return count <= FEW;
}

static tcc_status emit(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const pointwise *p = plan->data;
    const tcc_body *b = p->body;
    const tcc_item_cut *cut = &p->cut;
    tcc_body_run run;
    tcc_emit_kernel_begin(e, symbol);
    e->few_roundings = rounds_little(b);
    TCC_TRY(tcc_body_run_begin(&run, e, b, 0));
    run.any_extent = p->any_extent;
    run.begins_whole = true;
    for (int i = 0; i < b->stores.count; i++) tcc_body_need(&run, b->stores.data[i].value);
    tcc_emit_value extent = p->any_extent ? tcc_emit_param(e, 0) : NULL, from, to;
    tcc_body_emit(&run, 0);
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    if (cut->cut < 0) {
        emit_point(&run);
    } else {
        if (p->any_extent) {
            from = tcc_emit_mul(e, items.index, tcc_emit_i64(e, cut->chunk));
            to = tcc_emit_min(e, tcc_emit_add(e, from, tcc_emit_i64(e, cut->chunk)), extent);
        } else {
            tcc_emit_cut(&run, cut, items.index, &from, &to);
        }
        tcc_body_emit(&run, 0);
        emit_nest(&run, p, from, to);
        for (int i = 0; i < cut->cut; i++) tcc_body_leave(&run, cut->order[i]);
    }
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
    tcc_body_run_end(&run);
    return TCC_OK;
}

/* All accesses are at the point itself or at one place: then any number of points is the same program. */
static bool is_flat(const tcc_body *b, int var) {
    for (int i = 0; i < b->exprs.count + b->stores.count; i++) {
        bool is_expr = i < b->exprs.count;
        const tcc_affine *a = is_expr ? &b->exprs.data[i]->affine : &b->stores.data[i - b->exprs.count].offset;
        if (is_expr && (b->exprs.data[i]->fold || b->exprs.data[i]->kind == TCC_EXPR_WITHIN)) return false;
        if (a->n > 1 || (a->n == 1 && (a->terms[0].var != var || a->terms[0].coefficient != 1 || a->constant)))
            return false;
    }
    return true;
}

/* Whether a mask for each vector of a row takes long beside the little that is done with it, or keeps it from being
 * stored past the caches (`far`), and most vectors of the row need none. */
static bool masks_cost(const tcc_lowering *l, const pointwise *p, int64_t row, bool far) {
    enum { LITTLE = 8, VECTORS = 8 };
    if (l->target->lane_groups || p->whole || p->phase_var >= 0 || p->written_out || p->lanes == 1) return false;
    if (p->any_extent || row < (int64_t)VECTORS * p->lanes) return far && p->any_extent;
    return far || tcc_body_cost(p->body) <= LITTLE;
}

/* A condition that few vectors of a row ask for, beside the little else that is done. */
static const tcc_expr *find_spot(const tcc_lowering *l, const pointwise *p, int var, int64_t row) {
    enum { LITTLE = 8, VECTORS = 4, NARROW = 2 /* bytes: wider ones are stored no faster than they are masked */ };
    for (int i = 0; i < p->body->stores.count; i++)
        if (tcc_dtype_bytes(p->body->buffers.data[p->body->stores.data[i].buffer].dtype) > NARROW) return NULL;
    if (l->target->lane_groups || p->any_extent || p->phase_var >= 0 || p->jam_var >= 0 || p->written_out) return NULL;
    if (p->lanes == 1 || row < (int64_t)VECTORS * p->lanes || tcc_body_cost(p->body) > LITTLE) return NULL;
    return tcc_spot_of(p->body, var, l->target->lanes);
}

static double steps_of(const tcc_body *b, const tcc_expr *fold) {
    double steps = 1;
    for (int v = 0; v < TCC_BODY_MAX_LOOPS; v++)
        if (fold->fold >> v & 1) steps *= (double)(b->vars.data[v].high + 1);
    return steps;
}

enum { LONG = 16 }; /* steps of a fold: fewer are written out */

/* Of several loops that are not written out, or of one that is cut. */
static bool has_nested_sum(const tcc_body *b) {
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        double inside = 1;
        int loops = 0;
        if (x->kind != TCC_EXPR_FOLD || x->op != TCC_OP_REDUCE_SUM) continue;
        for (int v = TCC_BODY_MAX_LOOPS - 1; v >= 0; v--) {
            if (!(x->fold >> v & 1)) continue;
            inside *= (double)(b->vars.data[v].high + 1);
            loops += inside > LONG;
        }
        if (loops > 1 || inside > TCC_CHAIN_TERMS) return true;
    }
    return false;
}

/* Contractions without a schedule of their own, which read elsewhere for each lane: a thread of a GPU has too few
 * registers for several such sums beside each other. */
static bool has_scattered_fold(const tcc_body *b, int lane_var) {
    bool is_long = false, scattered = false;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        is_long = is_long || steps_of(b, x) > LONG;
        scattered = scattered ||
                    (x->kind == TCC_EXPR_LOAD && (uint64_t)tcc_affine_coefficient(&x->affine, lane_var) > 1);
        scattered = scattered || (x->kind == TCC_EXPR_FOLD && x->op != TCC_OP_REDUCE_SUM);
    }
    return is_long && scattered;
}

/* A loop of few turns around the vectors, in all of which a sum is made at once. What does not move with it, as the
 * taps of a filter with the position, is loaded once, and each turn has a chain of additions of its own. -1: there is
 * none. */
static int find_jam(const tcc_lowering *l, const tcc_body *b, const int *order, int n) {
    const tcc_expr *fold = fold_of(b);
    if (l->target->lane_groups || n < 2 || !fold || fold->op != TCC_OP_REDUCE_SUM || !fold->fold) return -1;
    const int var = order[n - 2];
    const int64_t turns = turns_of(b, var);
    if (turns < 2 || turns > MOST_JAM || turns > tcc_most_sums(l->target) || !(fold->loops >> var & 1)) return -1;
    bool again = false;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        again |= x->kind == TCC_EXPR_LOAD && x->loops & fold->fold && !(x->loops >> var & 1);
    }
    return again ? var : -1;
}

/* A fold is a chain of operations each of which waits for the one before: two vectors have a chain each. What is loaded
 * lies side by side, so that this takes no more registers than there are. */
static bool is_chain(const tcc_body *b, int lane_var) {
    bool folds = false;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        folds |= x->kind == TCC_EXPR_FOLD;
        if (x->kind == TCC_EXPR_LOAD && (uint64_t)tcc_affine_coefficient(&x->affine, lane_var) > 1) return false;
    }
    return folds;
}

/* Loads from rows with a border that is not there: masks, which differ from vector to vector. */
static bool has_border(const tcc_body *b, int lane_var) {
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind == TCC_EXPR_WITHIN && x->operands[0]->kind == TCC_EXPR_INDEX &&
            tcc_affine_coefficient(&x->operands[0]->affine, lane_var) && x->loops >> b->n_space)
            return true;
    }
    return false;
}

/* Whether a row is of several parts, as a concatenation is, or has borders of its own: of each vector most are not, and
 * where it begins at a constant, the loads of those fold away. Parts of less than a vector are such borders: two are
 * enough. Guards inside of folds are those of windows. */
static bool has_parts(const tcc_lowering *l, const tcc_body *b, int lane_var) {
    enum { SEVERAL = 4, BORDER = 2 };
    int parts = 0;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind != TCC_EXPR_WITHIN || x->operands[0]->kind != TCC_EXPR_INDEX || x->loops >> b->n_space ||
            !tcc_affine_coefficient(&x->operands[0]->affine, lane_var))
            continue;
        parts += x->integer < l->target->lanes ? BORDER : 1;
    }
    return parts >= SEVERAL;
}

/* Whether vectors of a row without a border of its own are better made two at a time. */
static bool widens(const tcc_lowering *l, const pointwise *p, int64_t row, bool border) {
    const int64_t wide = 2 * p->lanes;
    const int64_t sums = wide / l->target->lanes * turns_of(p->body, p->jam_var);
    if (p->lanes < l->target->lanes || p->lanes >= row || sums > tcc_most_sums(l->target)) return false;
    if (!border) return p->lanes == l->target->lanes && row % wide == 0;
    return wide <= MOST_REGISTERS * l->target->lanes;
}

/* Whether rows have borders whose masks are constants where all vectors are written out, and slow ones otherwise. */
static bool has_slow_masks(const tcc_lowering *l, const tcc_body *b, int lane_var) {
    enum { LITTLE = 16 };
    bool border = false;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        border |= x->kind == TCC_EXPR_WITHIN && !(x->loops >> b->n_space) && x->operands[0]->kind == TCC_EXPR_INDEX &&
                  tcc_affine_coefficient(&x->operands[0]->affine, lane_var);
    }
    return border && tcc_emit_masks_are_slow(l->target) && tcc_body_cost(b) <= LITTLE;
}

/* Registers that a thread of a GPU should have where it has more values at once than those by which the assembler lets
 * more blocks share a processor: it would spill some. In a flat kernel that is so of an update of many parameters, of
 * many functions or of wide vectors of a few, and of two sines, or a sine and a cosine: each reduces the arguments of
 * all lanes side by side, in f64, for which wide vectors need more room still. Elsewhere it is so of two folds at once,
 * as a maximum and its place, and of vectors of a sum in nested loops, each of which has steps of its own for all that
 * is loaded. 0: as the assembler likes. */
static int registers_of(const tcc_body *b, int lanes, bool flat) {
    enum { ADDRESS = 2, NESTED = 64, ROOMY = 128, ROOMIER = 168, NARROW_LANES = 4, TIGHT = 80 };
    enum { FUNCTION = 5, MOST_FUNCTIONS = 24 };
    int registers = b->stores.count * (ADDRESS + lanes), sines = 0, functions = 0, folds = 0;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind == TCC_EXPR_LOAD) registers += x->affine.n ? ADDRESS + lanes : 1;
        folds += x->kind == TCC_EXPR_FOLD;
        if (x->kind != TCC_EXPR_POINT) continue;
        sines += x->op == TCC_OP_SIN || x->op == TCC_OP_COS;
        functions += tcc_op_get_info(x->op)->cost >= FUNCTION;
    }
    if (!flat) return folds > 1 ? ROOMY : lanes > 1 && has_nested_sum(b) ? NESTED : 0;
    if (sines > 1) return lanes > NARROW_LANES ? ROOMIER : ROOMY;
    return registers > TIGHT || functions * lanes > MOST_FUNCTIONS ? ROOMY : 0;
}

/* A short innermost loop, as the positions that a pool's stride steps over, leaves vectors all but empty. So they run
 * along the loop around it, one for each turn of the short loop, if all that is stored lies element after element
 * over both; then the vectors of all turns are interleaved. What is loaded must move by few elements from lane to lane.
 */
static int choose_phases(const tcc_lowering *l, const tcc_body *b, const int *order, int n) {
    if (l->target->lane_groups || n < 2 || b->stores.count > MOST_PHASED_STORES) return -1;
    const int inner = order[n - 1], outer = order[n - 2];
    const int64_t phases = b->vars.data[inner].high + 1;
    if (phases < 2 || phases > MOST_PHASES || b->vars.data[outer].high + 1 <= phases) return -1;
    for (int i = 0; i < b->stores.count; i++) {
        const tcc_body_write *s = &b->stores.data[i];
        if (s->guard || tcc_affine_coefficient(&s->offset, inner) != 1 ||
            tcc_affine_coefficient(&s->offset, outer) != phases)
            return -1;
    }
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind != TCC_EXPR_LOAD || !(x->loops >> outer & 1)) continue;
        const int64_t step = tcc_affine_coefficient(&x->affine, outer);
        if (step < 0 || step > phases || (x->n_operands && step > 1)) return -1;
        for (int k = 0; k < x->affine.n; k++) {
            const tcc_var *v = &b->vars.data[x->affine.terms[k].var];
            if (v->kind == TCC_VAR_VALUE && v->value->loops >> outer & 1) return -1;
        }
    }
    return inner;
}

static int64_t inner_extent(const pointwise *p, const int *order, int n) {
    return n ? p->body->vars.data[order[n - 1]].high + 1 : 1;
}

/* Lanes, threads and points of an item. A single point has nothing to choose. */
static tcc_status plan_items(tcc_lowering *l, pointwise *p, const int *order, int n, int64_t *item_points) {
    const tcc_body *b = p->body;
    const int var = n ? order[n - 1] : -1;
    const int64_t inner = p->any_extent ? ANY_EXTENT : n ? b->vars.data[var].high + 1 : 1;
    p->lanes = tcc_choose_lanes(l->target, b, var, inner, tcc_choose_width_of_points(b, tcc_points_of(b, order, n)));
    if (l->target->lane_groups && n && has_scattered_fold(b, var)) p->lanes = 1;
    const bool chain = !l->target->lane_groups && n && is_chain(b, var), border = chain && has_border(b, var);
    while (chain && widens(l, p, inner, border)) p->lanes *= 2;
    if (p->phase_var >= 0 && p->lanes > l->target->lanes) p->lanes = l->target->lanes;
    if (n) TCC_TRY(tcc_settle_lanes(l, b, var, inner, &p->lanes));
    p->written_out = (border ||
                      (!l->target->lane_groups && n > 1 && (has_parts(l, b, var) || has_slow_masks(l, b, var)))) &&
                     inner <= MOST_WRITTEN * l->target->lanes;
    /* Of any extent there are two kernels: one has masks. A GPU's vectors are whole without. */
    p->whole = inner_extent(p, order, n) % p->lanes == 0 && !(p->any_extent && l->target->lane_groups);
    p->rest_apart = n > 1 && p->lanes > 1 && !p->whole && p->phase_var < 0 && tcc_emit_masks_are_slow(l->target);
    p->shape = tcc_choose_threads(l->target, inner, p->lanes);
    if (n) TCC_TRY(tcc_settle_threads(l, &p->shape));
    const int registers = l->target->lane_groups ? registers_of(b, p->lanes, p->any_extent) : 0;
    if (registers) p->shape.blocks = tcc_hardware_threads(&l->target->hw, registers) / p->shape.threads;
    *item_points = tcc_choose_points(p->shape, p->lanes, ITEM_POINTS, p->any_extent ? FLAT_STEPS : STEPS);
    const int64_t vector = tcc_group_lanes(p->shape, p->lanes);
    const tcc_param_range range = tcc_param_multiples(vector, vector, MOST_POINTS);
    return n ? tcc_params_settle(&l->params, TCC_PARAM_POINTS, range, item_points) : TCC_OK;
}

tcc_status tcc_schedule_points(tcc_lowering *l, tcc_body *b) {
    TCC_TRY(tcc_lowering_keep(l, b));
    tcc_body_rebase(b);
    int order[TCC_BODY_MAX_LOOPS], n = b->n_space;
    for (int i = 0; i < n; i++) order[i] = i;
    const int jam = find_jam(l, b, order, n);
    tcc_body_collapse(b, order, &n, jam < 0 ? 0 : UINT64_C(1) << jam, NULL);
    tcc_status status;
    if (tcc_schedule_tiles(l, b, order, n, &status)) return status;
    pointwise *p = TCC_ARENA_NEW(l->arena, pointwise);
    if (!p) return tcc_enomem(l->diag);
    p->body = b;
    const int64_t inner = n ? b->vars.data[order[n - 1]].high + 1 : 1;
    p->any_extent = n == 1 && is_flat(b, order[0]);
    p->jam_var = jam;
    p->phase_var = jam < 0 ? choose_phases(l, b, order, n) : -1;
    if (jam >= 0) order[n - 2] = order[n - 1];
    if (jam >= 0 || p->phase_var >= 0) n--;
    const int64_t at_once = turns_of(b, jam >= 0 ? jam : p->phase_var);
    int64_t item_points;
    TCC_TRY(plan_items(l, p, order, n, &item_points));
    const bool far = tcc_lowering_mark_far(l, b);
    p->cut = tcc_cut_items(b, order, n, item_points / at_once, tcc_group_lanes(p->shape, p->lanes));
    p->peeled = masks_cost(l, p, inner, far);
    p->spot = n ? find_spot(l, p, order[n - 1], inner) : NULL;
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    TCC_TRY(tcc_lowering_use_body(l, launch, b));
    launch->items = p->cut.items;
    if (p->any_extent) {
        p->cut.chunk = item_points;
        launch->items = (inner + item_points - 1) / item_points;
        launch->params = TCC_ARENA_NEW(l->arena, int64_t);
        if (!launch->params) return tcc_enomem(l->diag);
        launch->params[0] = inner;
    }
    const double points = (double)at_once * tcc_points_of(b, order, n);
    launch->grain = tcc_choose_grain(b, points / (double)launch->items);
    launch->kernel.schedule = "pointwise";
    launch->kernel.n_params = p->any_extent;
    launch->kernel.shape = p->shape;
    launch->kernel.emit = emit;
    launch->kernel.in_step = tcc_body_in_step;
    launch->kernel.data = p;
    return tcc_lowering_key(l, launch, b, p->any_extent ? order[0] : -1, "lanes=%d%s phases=%d jam=%d%s%s%s%s",
                            p->lanes, p->any_extent && p->whole ? " whole" : "", (int)turns_of(b, p->phase_var),
                            (int)turns_of(b, jam), p->written_out ? " written out" : "",
                            p->rest_apart ? " rest apart" : "", p->peeled ? " peeled" : "", p->spot ? " spot" : "");
}
