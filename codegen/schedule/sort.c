/* SPDX-License-Identifier: MIT
 * The schedule of argsort, on a GPU: a lane group sorts a line in shared memory, as a bitonic network (Batcher 1968).
 *
 * An element is a word of 64 bits: a key whose order as a number is that of the elements, and below it the element's
 * index. So no two words are equal, and equal elements stay in turn. What the line has less than a power of two is
 * words behind all others.
 *
 * The network has phases: phase p makes sorted blocks of 2^p words, every other one descending, of two blocks of half
 * as many. It compares words whose indices differ in one bit, for bits p - 1 down to 0. A thread has the words in
 * registers whose indices differ in up to three bits, and so does three of these steps between two barriers. What the
 * first phases do in registers needs no order of the elements before, so a thread loads those that lie in memory beside
 * those of other threads. Phases and steps are loops: written out, they take twice the registers.
 *
 * The work in front of the hero is evaluated as its elements are loaded, the work behind it for each place of the
 * result: so elements in order are read where their index says, and others are stored there. Where the first places are
 * all that is wanted, these have a loop of their own. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/sort.h"
#include "passes/group.h"

enum {
    WORD = 8,      /* bytes */
    MOST_BITS = 3, /* of indices of the words that a thread compares among themselves */
    AT_ONCE = 1 << MOST_BITS,
    WARP_WORDS = 256,   /* lines up to these are a warp's */
    BLOCK_WARPS = 4,    /* several of which are a block then */
    MOST_THREADS = 512, /* of a block: of more, each has too few registers */
    LONGEST = 1 << 13,
    REGISTERS = 64, /* of a thread, so that a processor holds several blocks */
    COMPARISON = 6, /* simple instructions */
};

typedef struct sort {
    tcc_body *body; /* the hero is a REDUCE expression */
    int n_kept, n_axis, n_places;
    int kept[TCC_BODY_MAX_LOOPS], axis[TCC_BODY_MAX_LOOPS], places[TCC_BODY_MAX_LOOPS];
    int64_t line;
    int64_t wanted; /* places of the result, of which all are the line's */
    int bits;       /* of the index of a word, in the power of two that the line is filled up to */
    int own;        /* words of a thread */
    int at_once;    /* bits whose steps it does at once */
    bool descending;
    tcc_item_cut cut;
} sort;

/* Behind 2^bits words one is left out, so that words at a distance of as many lie in different banks. */
static int64_t padded(int64_t words, int bits) { return words + (words >> bits); }

/* -- Keys -- */

/* i32, in the order of the elements as a number without a sign. */
static tcc_emit_value key_of(tcc_emitter *e, tcc_emit_value x, bool descending) {
    tcc_emit_value sign = tcc_emit_i32(e, INT32_MIN), key;
    tcc_emit_type type = tcc_emit_type_of(x);
    if (tcc_emit_is_float(type)) {
        tcc_emit_value zero = tcc_emit_null(type), is_zero = tcc_emit_fcmp(e, TCC_FCMP_OEQ, x, zero);
        tcc_emit_value bits = tcc_emit_bitcast(e, tcc_emit_select(e, is_zero, zero, x), e->i32);
        tcc_emit_value negative = tcc_emit_icmp(e, TCC_ICMP_SLT, bits, tcc_emit_i32(e, 0));
        key = tcc_emit_xor(e, bits, tcc_emit_select(e, negative, tcc_emit_i32(e, -1), sign));
        key = tcc_emit_select(e, tcc_emit_fcmp(e, TCC_FCMP_UNO, x, x), tcc_emit_i32(e, -1), key);
    } else {
        key = tcc_emit_xor(e, x, sign);
    }
    return descending ? tcc_emit_not(e, key) : key;
}

/* -- The network -- */

/* Words a and b: the smaller in a, or, where `turned` is true, the larger. */
static void compare(tcc_emitter *e, tcc_emit_value *a, tcc_emit_value *b, tcc_emit_value turned) {
    tcc_emit_value first = tcc_emit_xor(e, tcc_emit_icmp(e, TCC_ICMP_ULT, *a, *b), turned);
    tcc_emit_value low = tcc_emit_select(e, first, *a, *b);
    *b = tcc_emit_select(e, first, *b, *a);
    *a = low;
}

/* Steps for bits high - 1 down to 0 of n words; blocks of 2^phase words ascend and descend in turn. */
static void compare_bits(tcc_emitter *e, tcc_emit_value *words, int n, int high, int phase, tcc_emit_value turned) {
    for (int bit = high - 1; bit >= 0; bit--)
        for (int i = 0; i < n; i++) {
            const int other = i | 1 << bit;
            if (other == i) continue;
            if (i >> phase & 1) compare(e, &words[other], &words[i], turned);
            else compare(e, &words[i], &words[other], turned);
        }
}

/* Indices of words are i32. */
static tcc_emit_value i32(tcc_emitter *e, int64_t value) { return tcc_emit_i32(e, (int32_t)value); }
static tcc_emit_value number(tcc_emitter *e, int64_t part) {
    return tcc_emit_add(e, tcc_emit_trunc(e, e->thread, e->i32), i32(e, part * e->shape.shape.group));
}
static tcc_emit_value power(tcc_emitter *e, tcc_emit_value bit) { return tcc_emit_shl(e, i32(e, 1), bit); }

/* Whether the block of 2^phase words that word `index` is in descends. */
static tcc_emit_value is_turned(tcc_emitter *e, tcc_emit_value index, tcc_emit_value phase) {
    return tcc_emit_icmp(e, TCC_ICMP_NE, tcc_emit_and(e, index, power(e, phase)), i32(e, 0));
}

/* Where word `index` lies. That of a sum of indices which have no bit in common is the sum of theirs, where at most one
 * of them is no multiple of the words that are looked at together. */
static tcc_emit_value place_of(tcc_emitter *e, const sort *p, tcc_emit_value index) {
    return tcc_emit_add(e, index, tcc_emit_lshr(e, index, i32(e, p->at_once)));
}

static tcc_emit_value word_at(tcc_emitter *e, tcc_emit_value place) {
    return tcc_emit_at(e, e->i64, e->scratch, tcc_emit_zext(e, place, e->i64));
}

/* All threads of the lane group have done what stands before. */
static void wait_for_all(tcc_emitter *e) {
    if (e->shape.shape.group > TCC_EMIT_WARP) tcc_emit_barrier(e);
    else tcc_emit_warp_barrier(e);
}

/* The steps of `phase` for `n` bits from `low` on, a multiple of those that are compared at once. */
static void emit_steps(tcc_emitter *e, const sort *p, tcc_emit_value phase, tcc_emit_value low, int n) {
    tcc_emit_value distance = power(e, low), step = tcc_emit_zext(e, place_of(e, p, distance), e->i64);
    for (int part = 0; part < p->own >> n; part++) {
        tcc_emit_value all = number(e, part), inner = tcc_emit_and(e, all, tcc_emit_sub(e, distance, i32(e, 1)));
        tcc_emit_value first = tcc_emit_add(e, tcc_emit_shl(e, tcc_emit_sub(e, all, inner), i32(e, n)), inner);
        tcc_emit_value at[AT_ONCE], words[AT_ONCE];
        for (int i = 0; i < 1 << n; i++) {
            at[i] = i ? tcc_emit_at(e, e->i64, at[i - 1], step) : word_at(e, place_of(e, p, first));
            words[i] = tcc_emit_load(e, e->i64, at[i], WORD);
        }
        compare_bits(e, words, 1 << n, n, n, is_turned(e, first, phase));
        for (int i = 0; i < 1 << n; i++) tcc_emit_store(e, words[i], at[i], WORD);
    }
    wait_for_all(e);
}

/* First those bits of a phase that are no whole number of steps at once. */
static void emit_phase(tcc_emitter *e, const sort *p, tcc_emit_value phase) {
    tcc_emit_value whole = tcc_emit_udiv(e, phase, i32(e, p->at_once)), times = i32(e, p->at_once);
    tcc_emit_value low = tcc_emit_mul(e, whole, times), rest = tcc_emit_sub(e, phase, low);
    for (int n = 1; n < p->at_once; n++) {
        tcc_emit_if branch;
        tcc_emit_if_begin(e, &branch, tcc_emit_icmp(e, TCC_ICMP_EQ, rest, i32(e, n)));
        emit_steps(e, p, phase, low, n);
        tcc_emit_if_end(e, &branch);
    }
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_zext(e, whole, e->i64), 1, NULL, 0);
    tcc_emit_value done = tcc_emit_add(e, tcc_emit_trunc(e, loop.index, e->i32), i32(e, 1));
    emit_steps(e, p, phase, tcc_emit_sub(e, low, tcc_emit_mul(e, done, times)), p->at_once);
    tcc_emit_loop_end(e, &loop, NULL);
}

/* -- The line -- */

/* The n loops of the line, or of the places of the result, at element `at`. */
static void enter(tcc_body_run *r, const int *loops, int n, tcc_emit_value at) {
    for (int i = n - 1; i >= 0; i--) {
        const int64_t extent = r->body->vars.data[loops[i]].high + 1;
        tcc_body_enter(r, loops[i], i ? tcc_emit_rem(r->e, at, extent) : at);
        if (i) at = tcc_emit_div(r->e, at, extent);
    }
}

static void leave(tcc_body_run *r, const int *loops, int n) {
    for (int i = 0; i < n; i++) tcc_body_leave(r, loops[i]);
}

static const tcc_expr *hero_of(const tcc_body *b) {
    int i = 0;
    while (b->exprs.data[i]->kind != TCC_EXPR_REDUCE) i++;
    return b->exprs.data[i];
}

static tcc_emit_value load_word(tcc_body_run *r, const sort *p, const tcc_expr *hero, tcc_emit_value index) {
    tcc_emitter *e = r->e;
    const bool whole = p->line == INT64_C(1) << p->bits;
    enter(r, p->axis, p->n_axis, whole ? index : tcc_emit_min(e, index, tcc_emit_i64(e, p->line - 1)));
    tcc_body_emit(r, 0);
    tcc_emit_value key = key_of(e, r->values[hero->operands[0]->id], p->descending);
    leave(r, p->axis, p->n_axis);
    tcc_emit_value word = tcc_emit_shl(e, tcc_emit_zext(e, key, e->i64), tcc_emit_i64(e, 32));
    word = tcc_emit_or(e, word, index);
    tcc_emit_value exists = tcc_emit_icmp(e, TCC_ICMP_SLT, index, tcc_emit_i64(e, p->line));
    return whole ? word : tcc_emit_select(e, exists, word, tcc_emit_i64(e, -1));
}

/* Loads the line, in blocks that are sorted. */
static void emit_loads(tcc_body_run *r, const sort *p, const tcc_expr *hero) {
    tcc_emitter *e = r->e;
    const int n = 1 << p->at_once;
    tcc_body_need(r, hero->operands[0]);
    tcc_body_emit(r, 0);
    for (int part = 0; part < p->own / n; part++) {
        tcc_emit_value words[AT_ONCE];
        for (int i = 0; i < n; i++) {
            tcc_emit_value index = tcc_emit_i64(e, (int64_t)(part * n + i) * e->shape.shape.group);
            index = tcc_emit_within(e, tcc_emit_add(e, e->thread, index), (INT64_C(1) << p->bits) - 1);
            words[i] = load_word(r, p, hero, index);
        }
        tcc_emit_value first = tcc_emit_shl(e, number(e, part), i32(e, p->at_once)), place = place_of(e, p, first);
        tcc_emit_value turned = is_turned(e, first, i32(e, p->at_once));
        for (int phase = 1; phase <= p->at_once; phase++)
            compare_bits(e, words, n, phase, phase, phase < p->at_once ? tcc_emit_int(e, e->i1, 0) : turned);
        for (int i = 0; i < n; i++) tcc_emit_store(e, words[i], word_at(e, tcc_emit_add(e, place, i32(e, i))), WORD);
    }
    tcc_body_need_none(r);
    wait_for_all(e);
}

static void emit_line(tcc_body_run *r, const void *data) {
    const sort *p = data;
    tcc_emitter *e = r->e;
    const tcc_expr *hero = hero_of(p->body);
    emit_loads(r, p, hero);
    tcc_emit_loop phases;
    tcc_emit_loop_begin(e, &phases, tcc_emit_i64(e, p->at_once + 1), tcc_emit_i64(e, p->bits + 1), 1, NULL, 0);
    emit_phase(e, p, tcc_emit_trunc(e, phases.index, e->i32));
    tcc_emit_loop_end(e, &phases, NULL);
    for (int i = 0; i < p->body->stores.count; i++) tcc_body_need(r, p->body->stores.data[i].value);
    tcc_body_emit(r, 0);
    tcc_emit_loop loop;
    tcc_emit_lane_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, p->wanted), 1, NULL, 0);
    enter(r, p->places, p->n_places, loop.index);
    tcc_emit_value word = tcc_emit_load(e, e->i64, word_at(e, place_of(e, p, tcc_emit_trunc(e, loop.index, e->i32))),
                                        WORD);
    tcc_body_give(r, hero, tcc_emit_trunc(e, word, e->i32));
    tcc_body_emit(r, 0);
    for (int i = 0; i < p->body->stores.count; i++) tcc_body_emit_store(r, &p->body->stores.data[i]);
    leave(r, p->places, p->n_places);
    tcc_emit_loop_end(e, &loop, NULL);
    if (e->shape.shape.group > TCC_EMIT_WARP) e->shared_reused = true;
    else wait_for_all(e); /* the group's next line comes to the same place */
}

static tcc_status emit_kernel(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const sort *p = plan->data;
    return tcc_emit_cut_kernel(e, symbol, p->body, &p->cut, 0, emit_line, p);
}

/* -- The plan -- */

int64_t tcc_sort_longest(const tcc_llvm_target *t) {
    int64_t longest = LONGEST;
    while (longest > WARP_WORDS && padded(longest, MOST_BITS) * WORD > t->hw.shared_optin_bytes) longest /= 2;
    return t->lane_groups ? longest : 0;
}

typedef struct trace_cx {
    const tcc_node *hero, *first; /* the slice that is wanted of it; NULL: all */
    /* of a place of the result, and behind those perhaps the element; the element of the line */
    tcc_affine coordinates[TCC_MAX_RANK], element;
} trace_cx;

/* The index of an element that belongs at the point itself. */
static const tcc_expr *special(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates, void *user) {
    const trace_cx *cx = user;
    bool same = true;
    if (n != cx->hero) return NULL;
    for (int i = 0; i < n->type.rank; i++) same = same && tcc_affine_equal(&coordinates[i], &cx->coordinates[i]);
    if (!same) {
        b->status = TCC_BUG(b->diag, "an order is read elsewhere than where it is made: %s", tcc_node_text(n));
        return NULL;
    }
    const int last = n->type.rank - 1;
    tcc_affine at[TCC_MAX_RANK];
    for (int i = 0; i < last; i++) at[i] = coordinates[i];
    at[last] = cx->element;
    const tcc_expr *key = tcc_body_trace(b, n->operands[0], at);
    const tcc_expr *y = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_REDUCE, .dtype = TCC_I32, .op = n->op}, &key, 1);
    if (y)
        ((tcc_expr *)y)->loops = (y->loops & ~tcc_affine_loops(b, &cx->element)) |
                                 tcc_affine_loops(b, &cx->coordinates[last]);
    return y;
}

/* Stores elements where the order says: the sum of one and 0, so of -0 it is 0. */
static void store_in_order(tcc_body *b, const tcc_node *n, const trace_cx *cx) {
    const tcc_node *put = n->operands[2];
    const int last = n->type.rank - 1;
    const tcc_expr *order = tcc_body_trace(b, n->operands[1], cx->coordinates);
    const tcc_expr *terms[] = {tcc_body_trace(b, put, cx->coordinates), tcc_expr_number(b, n->type.dtype, 0)};
    if (!order || !terms[0] || !terms[1]) return;
    tcc_affine mapped[TCC_MAX_RANK];
    for (int i = 0; i < last; i++) mapped[i] = cx->coordinates[i];
    mapped[last] = tcc_affine_var(b, tcc_body_value_var(b, order, 0, n->type.dims[last] - 1));
    const tcc_expr *value = tcc_expr_round(b, tcc_expr_point(b, TCC_OP_ADD, n->type.dtype, terms, 2));
    const tcc_affine position = tcc_affine_linear(b, mapped, n->type.rank, n->type.dims);
    const tcc_body_write store = {.buffer = tcc_body_buffer_of(b, n, 0, true),
                                  .offset = tcc_affine_whole(b, position),
                                  .value = value,
                                  .permuted = true};
    if (value && !tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(b->diag);
}

/* The space has the dims of the result, and behind them, if that is not all of the line, the line's elements. */
static tcc_status trace_all(tcc_lowering *l, trace_cx *cx, tcc_body **out) {
    const tcc_type *space = cx->first ? &cx->first->type : &cx->hero->type;
    const int rank = space->rank;
    int64_t dims[TCC_MAX_RANK];
    tcc_iteration it;
    for (int i = 0; i < rank; i++) dims[i] = space->dims[i];
    if (cx->first) dims[rank] = cx->hero->type.dims[rank - 1];
    tcc_iteration_init(&it, cx->first ? rank + 1 : rank, dims);
    for (;;) {
        tcc_body *b = *out = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_iteration_open(b, &it, cx->coordinates);
        cx->element = cx->coordinates[cx->first ? rank : rank - 1];
        b->special = special;
        b->special_user = cx;
        tcc_affine position = tcc_affine_linear(b, cx->coordinates, rank, space->dims);
        for (int i = 0; i < l->group->n_outputs; i++) {
            const tcc_node *n = l->group->outputs[i];
            if (tcc_op_get_info(n->op)->fusion == TCC_FUSION_SCATTER) store_in_order(b, n, cx);
            else tcc_body_store(b, n, position, false);
        }
        if (!tcc_iteration_refine(&it, b)) return tcc_lowering_keep(l, b);
        tcc_body_free(b);
    }
}

/* A warp for each of several short lines, or a block for one. */
static tcc_thread_shape plan_threads(const tcc_lowering *l, sort *p) {
    const int64_t words = INT64_C(1) << p->bits;
    tcc_thread_shape shape = {.group = TCC_EMIT_WARP};
    while (words > WARP_WORDS && shape.group < MOST_THREADS && shape.group * AT_ONCE < words) shape.group *= 2;
    shape.threads = words > WARP_WORDS ? shape.group : BLOCK_WARPS * TCC_EMIT_WARP;
    shape.blocks = tcc_hardware_threads(&l->target->hw, REGISTERS) / shape.threads;
    p->own = (int)(words / shape.group);
    for (p->at_once = 0; p->at_once < MOST_BITS && 2 << p->at_once <= p->own;) p->at_once++;
    return shape;
}

tcc_status tcc_lower_sort(tcc_lowering *l) {
    const tcc_node *hero = l->group->hero;
    trace_cx cx = {.hero = hero, .first = tcc_group_first_in_order(l->group)};
    const int last = hero->type.rank - 1;
    sort *p = TCC_ARENA_NEW(l->arena, sort);
    if (!p) return tcc_enomem(l->diag);
    TCC_TRY(trace_all(l, &cx, &p->body));
    const tcc_body *b = p->body;
    const uint64_t axis_bits = tcc_affine_loops(b, &cx.element),
                   place_bits = tcc_affine_loops(b, &cx.coordinates[last]);
    int order[TCC_BODY_MAX_LOOPS], others[TCC_BODY_MAX_LOOPS], n = b->n_space, n_others = 0;
    for (int i = 0; i < n; i++) order[i] = i;
    tcc_body_collapse(p->body, order, &n, axis_bits | place_bits, NULL);
    tcc_part_loops(b, order, n, axis_bits, p->axis, &p->n_axis, others, &n_others);
    tcc_part_loops(b, others, n_others, cx.first ? place_bits : 0, p->places, &p->n_places, p->kept, &p->n_kept);
    const double lines = (double)(tcc_type_numel(&hero->type) / hero->type.dims[last]);
    if (!cx.first)
        for (p->n_places = 0; p->n_places < p->n_axis; p->n_places++) p->places[p->n_places] = p->axis[p->n_places];
    p->line = hero->type.dims[last];
    p->wanted = cx.first ? cx.first->type.dims[last] : p->line;
    p->descending = hero->attrs->order.descending;
    for (p->bits = 6; INT64_C(1) << p->bits < p->line;) p->bits++;
    if (INT64_C(1) << p->bits > tcc_sort_longest(l->target))
        return tcc_error(l->diag, TCC_EUNSUPPORTED, hero->loc, "a line of %lld is too long for shared memory",
                         (long long)p->line);
    p->cut = tcc_cut_items(b, p->kept, p->n_kept, 1, 1);
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    TCC_TRY(tcc_lowering_use_body(l, launch, b));
    launch->items = p->cut.items;
    launch->grain = 1;
    launch->flop += lines * (double)(INT64_C(1) << p->bits) / 2 * COMPARISON * p->bits * (p->bits + 1) / 2;
    launch->kernel.schedule = "sort";
    launch->kernel.shape = plan_threads(l, p);
    launch->kernel.scratch_bytes = padded(INT64_C(1) << p->bits, p->at_once) * WORD;
    launch->kernel.emit = emit_kernel;
    launch->kernel.data = p;
    return tcc_lowering_key(l, launch, b, -1, "line=%lld wanted=%lld descending=%d axis=%llx", (long long)p->line,
                            (long long)p->wanted, p->descending, (unsigned long long)axis_bits);
}
