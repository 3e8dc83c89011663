/* SPDX-License-Identifier: MIT
 * Emission of a scalar program inside the loops that a schedule opens. An expression is emitted once in the outermost
 * scope that knows all it depends on, so that what a loop does not change is computed before it. What does not depend
 * on the lane variable is a scalar; the rest are vectors. */
#include "codegen/body/body.h"
#include "codegen/emit/math.h"

#include "ir/support/alloc.h"

#define BIT(v) (UINT64_C(1) << (v))

tcc_status tcc_body_run_begin(tcc_body_run *r, tcc_emitter *e, const tcc_body *b, int first_buffer) {
    *r = (tcc_body_run){.e = e, .body = b, .lane_var = -1, .lanes = 1};
    size_t n = (size_t)b->exprs.count + 1;
    r->values = tcc__calloc(n, sizeof *r->values);
    r->needed = tcc__calloc(n, sizeof *r->needed);
    r->given = tcc__calloc(n, sizeof *r->given);
    r->bases = tcc__calloc((size_t)b->buffers.count + 1, sizeof *r->bases);
    if (!r->values || !r->needed || !r->given || !r->bases) {
        tcc_body_run_end(r);
        return tcc_enomem(e->diag);
    }
    for (int i = 0; i < b->exprs.count; i++)
        r->given[i] = b->exprs.data[i]->kind == TCC_EXPR_REDUCE || b->exprs.data[i]->kind == TCC_EXPR_PORT;
    for (int i = 0; i < b->buffers.count; i++) r->bases[i] = tcc_emit_buffer(e, first_buffer + i);
    return TCC_OK;
}

void tcc_body_run_end(tcc_body_run *r) {
    tcc__free(r->values);
    tcc__free(r->needed);
    tcc__free(r->given);
    tcc__free(r->bases);
    r->values = NULL;
    r->needed = NULL;
    r->given = NULL;
    r->bases = NULL;
}

void tcc_body_need_none(tcc_body_run *r) {
    for (int i = 0; i < r->body->exprs.count; i++) r->needed[i] = false;
}

static void need_affine(tcc_body_run *r, const tcc_affine *a) {
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &r->body->vars.data[a->terms[i].var];
        if (v->kind == TCC_VAR_VALUE) tcc_body_need(r, v->value);
    }
}

void tcc_body_need(tcc_body_run *r, const tcc_expr *x) {
    if (r->needed[x->id] || r->values[x->id]) return;
    r->needed[x->id] = true;
    if (r->given[x->id]) return;
    need_affine(r, &x->affine);
    for (int i = 0; i < x->n_operands; i++) tcc_body_need(r, x->operands[i]);
}

void tcc_body_give(tcc_body_run *r, const tcc_expr *x, LLVMValueRef value) {
    r->given[x->id] = true;
    r->values[x->id] = value;
}

void tcc_body_enter(tcc_body_run *r, int var, LLVMValueRef value) {
    r->loops[var] = value;
    r->open |= BIT(var);
}

void tcc_body_leave(tcc_body_run *r, int var) {
    r->open &= ~BIT(var);
    for (int i = 0; i < r->body->exprs.count; i++)
        if (r->body->exprs.data[i]->loops >> var & 1) r->values[i] = NULL;
}

bool tcc_body_varies(const tcc_body_run *r, const tcc_expr *x) {
    if (r->forms) return r->lanes > 1 && x->loops & r->lane_loops;
    return r->lane_var >= 0 && x->loops >> r->lane_var & 1;
}

/* The given form that is the loop part of `a`, or -1. */
static int find_form(const tcc_body_run *r, const tcc_affine *a) {
    for (int f = 0; f < r->n_forms; f++) {
        int k = 0;
        bool equal = true;
        for (int i = 0; equal && i < a->n; i++) {
            if (r->body->vars.data[a->terms[i].var].kind != TCC_VAR_LOOP) continue;
            equal = k < r->forms[f].n && r->forms[f].terms[k].var == a->terms[i].var &&
                    r->forms[f].terms[k].coefficient == a->terms[i].coefficient;
            k++;
        }
        if (equal && k == r->forms[f].n) return f;
    }
    return -1;
}

LLVMTypeRef tcc_body_type(tcc_body_run *r, tcc_dtype dtype, bool lanes) {
    return tcc_emit_vector_type(tcc_scalar_register(r->e, dtype), lanes ? r->lanes : 1);
}

LLVMValueRef tcc_body_value(tcc_body_run *r, const tcc_expr *x) { return r->values[x->id]; }

static LLVMValueRef over_lanes(tcc_body_run *r, LLVMValueRef v) {
    return tcc_emit_lanes_of(LLVMTypeOf(v)) == r->lanes ? v : tcc_emit_splat(r->e, v, r->lanes);
}

LLVMValueRef tcc_body_lanes(tcc_body_run *r, const tcc_expr *x) { return over_lanes(r, r->values[x->id]); }

/* A bound on all partial sums of a form that walks loops of a fold, which are long enough that its products should
 * become steps. */
static int64_t fold_reach(const tcc_body *b, const tcc_affine *a) {
    int64_t reach = a->constant < 0 ? -a->constant : a->constant;
    bool folds = false;
    for (int i = 0; i < a->n; i++) {
        const tcc_affine one = {.n = 1, .terms = &a->terms[i]};
        int64_t low, high;
        tcc_affine_range(b, &one, &low, &high);
        reach += -low > high ? -low : high;
        folds = folds || (b->vars.data[a->terms[i].var].kind == TCC_VAR_LOOP && a->terms[i].var >= b->n_space);
    }
    return folds ? reach : INT64_MAX;
}

/* The uniform part of an affine form: lane 0 of loops, and values that are the same in all lanes. */
LLVMValueRef tcc_body_offset(tcc_body_run *r, const tcc_affine *a) {
    tcc_emitter *e = r->e;
    int form = find_form(r, a);
    LLVMValueRef sum = form >= 0 ? r->form_values[form] : NULL;
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &r->body->vars.data[a->terms[i].var];
        LLVMValueRef term;
        if (v->kind == TCC_VAR_LOOP) {
            if (form >= 0) continue;
            term = r->loops[a->terms[i].var];
        } else {
            if (tcc_body_varies(r, v->value)) continue;
            term = r->values[v->value->id];
            if (LLVMTypeOf(term) != e->i64) term = LLVMBuildSExt(e->builder, term, e->i64, "");
        }
        term = tcc_emit_mul(e, term, tcc_emit_i64(e, a->terms[i].coefficient));
        sum = sum ? tcc_emit_add(e, sum, term) : term;
    }
    LLVMValueRef constant = tcc_emit_i64(e, a->constant);
    if (!sum) return constant;
    sum = tcc_emit_add(e, sum, constant);
    if (form >= 0 || r->any_extent) return sum;
    int64_t low, high;
    tcc_affine_range(r->body, a, &low, &high);
    return tcc_emit_offset(e, sum, low, high, fold_reach(r->body, a));
}

/* The part of an affine form that differs from lane to lane, as integers of type `scalar`; NULL: none. */
static LLVMValueRef lane_part(tcc_body_run *r, const tcc_affine *a, LLVMTypeRef scalar) {
    tcc_emitter *e = r->e;
    LLVMTypeRef type = tcc_emit_vector_type(scalar, r->lanes);
    int form = find_form(r, a);
    LLVMValueRef sum = NULL;
    if (form >= 0 && r->form_steps[form])
        sum = LLVMBuildMul(e->builder, tcc_emit_iota(e, scalar, r->lanes), tcc_emit_int(e, type, r->form_steps[form]),
                           "");
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &r->body->vars.data[a->terms[i].var];
        LLVMValueRef term;
        if (v->kind == TCC_VAR_LOOP) {
            if (form >= 0 || a->terms[i].var != r->lane_var) continue;
            term = tcc_emit_iota(e, scalar, r->lanes);
        } else {
            if (!tcc_body_varies(r, v->value)) continue;
            term = r->values[v->value->id];
            unsigned have = LLVMGetIntTypeWidth(LLVMGetElementType(LLVMTypeOf(term))),
                     want = LLVMGetIntTypeWidth(scalar);
            if (have < want) term = LLVMBuildSExt(e->builder, term, type, "");
            if (have > want) term = LLVMBuildTrunc(e->builder, term, type, "");
        }
        term = LLVMBuildMul(e->builder, term, tcc_emit_int(e, type, a->terms[i].coefficient), "");
        sum = sum ? LLVMBuildAdd(e->builder, sum, term, "") : term;
    }
    return sum;
}

static LLVMValueRef emit_index(tcc_body_run *r, const tcc_expr *x) {
    tcc_emitter *e = r->e;
    LLVMTypeRef scalar = tcc_scalar_register(e, x->dtype);
    LLVMValueRef base = tcc_body_offset(r, &x->affine);
    if (scalar != e->i64) base = LLVMBuildTrunc(e->builder, base, scalar, "");
    if (!tcc_body_varies(r, x)) return base;
    LLVMValueRef part = lane_part(r, &x->affine, scalar);
    return part ? LLVMBuildAdd(e->builder, over_lanes(r, base), part, "") : over_lanes(r, base);
}

static LLVMValueRef emit_quotient(tcc_body_run *r, const tcc_expr *x) {
    tcc_emitter *e = r->e;
    const tcc_expr *of = x->operands[0];
    LLVMValueRef a = r->values[of->id];
    LLVMTypeRef type = LLVMTypeOf(a);
    if (type == e->i64)
        return x->kind == TCC_EXPR_DIV ? tcc_emit_div(e, a, x->integer) : tcc_emit_rem(e, a, x->integer);
    int64_t low = INT64_MIN, high = INT64_MAX;
    if (of->kind == TCC_EXPR_INDEX && of->dtype == TCC_I64 && !r->any_extent)
        tcc_affine_range(r->body, &of->affine, &low, &high);
    return x->kind == TCC_EXPR_DIV ? tcc_emit_div_lanes(e, a, x->integer, low, high)
                                   : tcc_emit_rem_lanes(e, a, x->integer, low, high);
}

/* Lanes where both the loop and the guard let the access through; NULL: all of them. */
static LLVMValueRef access_mask(tcc_body_run *r, const tcc_expr *guard) {
    if (!guard) return r->mask;
    LLVMValueRef g = over_lanes(r, r->values[guard->id]);
    return r->mask ? LLVMBuildAnd(r->e->builder, r->mask, g, "") : g;
}

/* How an affine offset moves from lane to lane. */
typedef enum lane_step { STEP_NONE, STEP_ONE, STEP_MINUS_ONE, STEP_ANY } lane_step;

static lane_step step_of(const tcc_body_run *r, const tcc_affine *a) {
    if (r->lanes <= 1) return STEP_NONE;
    int form = find_form(r, a);
    int64_t c = form >= 0 ? r->form_steps[form] : 0;
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &r->body->vars.data[a->terms[i].var];
        if (v->kind == TCC_VAR_VALUE && tcc_body_varies(r, v->value)) return STEP_ANY;
        if (form < 0 && a->terms[i].var == r->lane_var) c = a->terms[i].coefficient;
    }
    return c == 0 ? STEP_NONE : c == 1 ? STEP_ONE : c == -1 ? STEP_MINUS_ONE : STEP_ANY;
}

/* Offsets fit 32 bits wherever the memory has fewer than 2^31 elements; the lane part alone is what must fit. */
static LLVMTypeRef offset_type(const tcc_body_run *r, const tcc_affine *a) {
    int64_t low = 0, high = 0;
    int form = find_form(r, a);
    for (int i = form >= 0 ? -1 : 0; i < a->n; i++) {
        const tcc_var *v = i < 0 ? NULL : &r->body->vars.data[a->terms[i].var];
        if (form >= 0 && v && v->kind == TCC_VAR_LOOP) continue;
        int64_t end = i < 0 ? r->form_steps[form] * r->lanes
                            : a->terms[i].coefficient * (v->kind == TCC_VAR_LOOP ? r->lanes : v->high);
        if (end < 0) low += end;
        else high += end;
    }
    const int64_t most = r->e->target->most_narrow;
    return low >= -most && high < most ? r->e->i32 : r->e->i64;
}

static LLVMValueRef reverse(tcc_body_run *r, LLVMValueRef v) {
    int order[64];
    for (int i = 0; i < r->lanes; i++) order[i] = r->lanes - 1 - i;
    return tcc_emit_shuffle(r->e, v, NULL, order, r->lanes);
}

static int64_t common_divisor(int64_t a, int64_t b) {
    if (a < 0) a = -a;
    while (b) {
        int64_t rest = a % b;
        a = b < 0 ? -b : b;
        b = rest < 0 ? -rest : rest;
    }
    return a;
}

int tcc_body_alignment(const tcc_body_run *r, int buffer, const tcc_affine *a) {
    if (!r->e->target->aligned_vectors || (r->forms && !r->form_multiples)) return 0;
    const tcc_body_buffer *from = &r->body->buffers.data[buffer];
    int64_t elements = common_divisor(from->offset, a->constant), bytes = tcc_dtype_bytes(from->dtype);
    int form = find_form(r, a);
    if (form >= 0) elements = common_divisor(elements, r->form_multiples[form]);
    for (int i = 0; i < a->n; i++) {
        int64_t factor = a->terms[i].coefficient;
        if (form >= 0 && r->body->vars.data[a->terms[i].var].kind == TCC_VAR_LOOP) continue;
        elements = common_divisor(elements, a->terms[i].var == r->lane_var ? factor * r->lanes : factor);
    }
    enum { WIDEST = 16 };
    return (int)(elements ? common_divisor(elements * bytes, WIDEST) : WIDEST);
}

static LLVMValueRef emit_load(tcc_body_run *r, const tcc_expr *x) {
    tcc_emitter *e = r->e;
    LLVMTypeRef memory = tcc_emit_dtype(e, x->dtype);
    LLVMValueRef base = r->bases[x->buffer], offset = tcc_body_offset(r, &x->affine), value;
    const tcc_expr *guard = x->n_operands ? x->operands[0] : NULL;
    bool guard_varies = guard && tcc_body_varies(r, guard);
    lane_step step = step_of(r, &x->affine);
    LLVMTypeRef type = tcc_emit_vector_type(memory, r->lanes);
    if (step == STEP_NONE && !guard_varies) {
        value = guard ? tcc_emit_load_if(e, memory, base, offset, r->values[guard->id])
                      : tcc_emit_load(e, memory, tcc_emit_at(e, memory, base, offset), 0);
    } else if (step == STEP_NONE) { /* one place, wanted by some lanes */
        LLVMValueRef zero = tcc_emit_splat(e, offset, r->lanes);
        value = tcc_emit_gather_at(e, memory, base, zero, access_mask(r, guard));
    } else if (step == STEP_ONE && guard && !guard_varies && !r->mask) { /* all lanes or none */
        value = tcc_emit_load_lanes_if(e, type, base, offset, tcc_body_alignment(r, x->buffer, &x->affine),
                                       r->values[guard->id]);
    } else if (step == STEP_ONE) {
        LLVMValueRef mask = access_mask(r, guard), at = tcc_emit_at(e, memory, base, offset);
        value = mask ? tcc_emit_load_masked(e, type, at, mask)
                     : tcc_emit_load(e, type, at, tcc_body_alignment(r, x->buffer, &x->affine));
    } else if (step == STEP_MINUS_ONE) {
        LLVMValueRef mask = access_mask(r, guard);
        LLVMValueRef at = tcc_emit_at(e, memory, base, tcc_emit_sub(e, offset, tcc_emit_i64(e, r->lanes - 1)));
        value = reverse(r, mask ? tcc_emit_load_masked(e, type, at, reverse(r, mask)) : tcc_emit_load(e, type, at, 0));
    } else {
        LLVMValueRef start = LLVMBuildGEP2(e->builder, memory, base, &offset, 1, "");
        value = tcc_emit_gather_at(e, memory, start, lane_part(r, &x->affine, offset_type(r, &x->affine)),
                                   access_mask(r, guard));
    }
    return tcc_scalar_from_memory(e, value, x->dtype);
}

/* Are the lanes consecutive integers from a multiple of 4, as they are where vectors are aligned? */
static bool begins_at_fours(const tcc_body_run *r, const tcc_expr *x) {
    if (!r->e->target->aligned_vectors || x->kind != TCC_EXPR_INDEX || r->lanes % 4 ||
        step_of(r, &x->affine) != STEP_ONE)
        return false;
    if (r->forms && !r->form_multiples) return false;
    const int form = find_form(r, &x->affine);
    int64_t common = x->affine.constant;
    if (form >= 0) common = common_divisor(common, r->form_multiples[form]);
    for (int i = 0; i < x->affine.n; i++) {
        if (form >= 0 && r->body->vars.data[x->affine.terms[i].var].kind == TCC_VAR_LOOP) continue;
        common = common_divisor(common,
                                x->affine.terms[i].var == r->lane_var ? r->lanes : x->affine.terms[i].coefficient);
    }
    return common % 4 == 0;
}

/* exp(x - max x) in f32: its operand is at most 0. */
static bool is_softmax_power(const tcc_expr *x) {
    if (x->op != TCC_OP_EXP || x->dtype == TCC_F64 || x->operands[0]->kind != TCC_EXPR_POINT ||
        x->operands[0]->op != TCC_OP_SUB)
        return false;
    const tcc_expr *value = x->operands[0]->operands[0], *most = x->operands[0]->operands[1];
    return most->kind == TCC_EXPR_REDUCE && most->op == TCC_OP_REDUCE_MAX && most->operands[0] == value;
}

static LLVMValueRef emit_point(tcc_body_run *r, const tcc_expr *x) {
    LLVMValueRef v[3];
    bool varies = tcc_body_varies(r, x);
    if (x->op == TCC_OP_RNG_BITS || x->op == TCC_OP_RNG_UNIFORM || x->op == TCC_OP_RNG_NORMAL) {
        for (int i = 0; i < 3; i++) v[i] = r->values[x->operands[i]->id];
        return tcc_scalar_random(r->e, x->op, x->integer, v[0], v[1], v[2], begins_at_fours(r, x->operands[0]));
    }
    for (int i = 0; i < x->n_operands; i++)
        v[i] = varies ? tcc_body_lanes(r, x->operands[i]) : r->values[x->operands[i]->id];
    if (is_softmax_power(x)) return tcc_math_exp_negative(r->e, v[0]);
    return tcc_scalar_emit(r->e, x->op, x->dtype, x->operands[0]->dtype, v);
}

static LLVMValueRef emit_within(tcc_body_run *r, const tcc_expr *x) {
    LLVMValueRef a = r->values[x->operands[0]->id];
    LLVMTypeRef type = LLVMTypeOf(a), scalar = tcc_emit_lanes_of(type) > 1 ? LLVMGetElementType(type) : type;
    if (scalar == r->e->i32 && x->integer > INT32_MAX)
        return LLVMBuildICmp(r->e->builder, LLVMIntSGE, a, LLVMConstNull(type), "");
    return LLVMBuildICmp(r->e->builder, LLVMIntULT, a, tcc_emit_int(r->e, type, x->integer), "");
}

static LLVMValueRef emit_constant(tcc_body_run *r, const tcc_expr *x) {
    LLVMTypeRef type = tcc_scalar_register(r->e, x->dtype);
    return tcc_dtype_is_float(x->dtype) ? tcc_emit_float(r->e, type, x->number) : tcc_emit_int(r->e, type, x->integer);
}

enum { UNROLL = 16 };

static void fold_once(tcc_body_run *r, const tcc_expr *x, LLVMValueRef *carry, LLVMValueRef index) {
    tcc_emitter *e = r->e;
    LLVMValueRef value = r->values[x->operands[0]->id], position = NULL;
    if (tcc_body_varies(r, x)) value = over_lanes(r, value);
    if (x->op == TCC_OP_ARGMAX) /* folds over one axis */
        position = tcc_emit_splat(e, LLVMBuildTrunc(e->builder, index, e->i32, ""),
                                  tcc_emit_lanes_of(LLVMTypeOf(value)));
    tcc_fold_step(e, x->op, carry, value, position, NULL);
}

/* The loops vars[0 ...], outermost first, carrying the result; short ones are written out, so that what is constant in
 * a step folds away. */
static void fold_loops(tcc_body_run *r, const tcc_expr *x, const int *vars, int n, uint64_t opened, int64_t inside,
                       bool unroll, LLVMValueRef *carry, LLVMValueRef index) {
    tcc_emitter *e = r->e;
    int carries = tcc_fold_carries(x->op);
    if (n == 0) {
        fold_once(r, x, carry, index);
        return;
    }
    int64_t extent = r->body->vars.data[vars[0]].high + 1;
    opened |= BIT(vars[0]);
    if (unroll) {
        for (int64_t i = 0; i < extent; i++) {
            tcc_body_enter(r, vars[0], tcc_emit_i64(e, i));
            tcc_body_emit(r, opened);
            fold_loops(r, x, vars + 1, n - 1, opened, inside / extent, true, carry, r->loops[vars[0]]);
            tcc_body_leave(r, vars[0]);
        }
        return;
    }
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, extent), 1, carry, carries);
    for (int k = 0; k < carries; k++) carry[k] = loop.carry[k];
    tcc_body_enter(r, vars[0], loop.index);
    tcc_body_emit(r, opened);
    fold_loops(r, x, vars + 1, n - 1, opened, inside / extent, inside / extent <= UNROLL, carry, loop.index);
    tcc_body_leave(r, vars[0]);
    tcc_emit_loop_end(e, &loop, carry);
    for (int k = 0; k < carries; k++) carry[k] = loop.carry[k];
}

static bool has_fold_below(const tcc_expr *x, uint64_t loops) {
    if (!(x->loops & loops)) return false;
    if (x->fold) return true;
    for (int i = 0; i < x->n_operands; i++)
        if (has_fold_below(x->operands[i], loops)) return true;
    return false;
}

static LLVMValueRef emit_fold(tcc_body_run *r, const tcc_expr *x) {
    tcc_emitter *e = r->e;
    const tcc_expr *operand = x->operands[0];
    int vars[TCC_BODY_MAX_LOOPS], n = 0;
    int64_t steps = 1;
    for (int v = 0; v < TCC_BODY_MAX_LOOPS; v++)
        if (x->fold >> v & 1) {
            vars[n++] = v;
            steps *= r->body->vars.data[v].high + 1;
        }
    if (n == 0) {
        if (x->op == TCC_OP_ARGMAX) return tcc_emit_int(e, tcc_body_type(r, TCC_I32, tcc_body_varies(r, x)), 0);
        return r->values[operand->id];
    }
    int carries = tcc_fold_carries(x->op);
    LLVMTypeRef type = tcc_body_type(r, operand->dtype, tcc_body_varies(r, x));
    LLVMValueRef carry[2];
    tcc_fold_initial(e, x->op, type, tcc_emit_type_like(e, e->i32, type), carry);
    /* written out only where nothing inside is a loop itself; an outer loop stays when its inside is short enough */
    bool plain = !has_fold_below(operand, x->fold);
    fold_loops(r, x, vars, n, 0, plain ? steps : INT64_MAX, plain && steps <= UNROLL, carry, NULL);
    return carry[carries - 1];
}

static bool ready_affine(const tcc_body_run *r, const tcc_affine *a) {
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &r->body->vars.data[a->terms[i].var];
        if (v->kind == TCC_VAR_VALUE && !r->values[v->value->id]) return false;
    }
    return true;
}

/* Whether what a fold reads from outside its loops is there. */
static bool outside_ready(const tcc_body_run *r, const tcc_expr *x, uint64_t inside) {
    if (r->values[x->id]) return true;
    if (r->given[x->id] || !(x->loops & inside)) return false;
    if (x->kind == TCC_EXPR_FOLD) inside |= x->fold;
    for (int i = 0; i < x->affine.n; i++) {
        const tcc_var *v = &r->body->vars.data[x->affine.terms[i].var];
        if (v->kind == TCC_VAR_VALUE && !outside_ready(r, v->value, inside)) return false;
    }
    for (int i = 0; i < x->n_operands; i++)
        if (!outside_ready(r, x->operands[i], inside)) return false;
    return true;
}

static bool ready(const tcc_body_run *r, const tcc_expr *x) {
    if (r->given[x->id]) return false;
    if (x->kind == TCC_EXPR_FOLD && x->fold) return outside_ready(r, x->operands[0], x->fold);
    for (int i = 0; i < x->n_operands; i++)
        if (!r->values[x->operands[i]->id]) return false;
    return ready_affine(r, &x->affine);
}

void tcc_body_emit(tcc_body_run *r, uint64_t loops) {
    for (int i = 0; i < r->body->exprs.count; i++) {
        const tcc_expr *x = r->body->exprs.data[i];
        if (!r->needed[i] || r->values[i] || (x->loops & ~r->open) || (loops && !(x->loops & loops)) || !ready(r, x))
            continue;
        LLVMValueRef v = NULL;
        switch (x->kind) {
        case TCC_EXPR_CONST: v = emit_constant(r, x); break;
        case TCC_EXPR_INDEX: v = emit_index(r, x); break;
        case TCC_EXPR_DIV:
        case TCC_EXPR_MOD: v = emit_quotient(r, x); break;
        case TCC_EXPR_WITHIN: v = emit_within(r, x); break;
        case TCC_EXPR_LOAD: v = emit_load(r, x); break;
        case TCC_EXPR_POINT: v = emit_point(r, x); break;
        case TCC_EXPR_FOLD: v = emit_fold(r, x); break;
        case TCC_EXPR_REDUCE:
        case TCC_EXPR_PORT: break;
        }
        r->values[i] = v;
    }
}

void tcc_body_emit_store(tcc_body_run *r, const tcc_store *s) {
    tcc_emitter *e = r->e;
    if (r->inside) {
        LLVMValueRef inside = r->inside;
        tcc_emit_if branch;
        r->inside = NULL;
        tcc_emit_if_begin(e, &branch, inside);
        tcc_body_emit_store(r, s);
        tcc_emit_if_end(e, &branch);
        r->inside = inside;
        return;
    }
    if (s->guard && step_of(r, &s->offset) == STEP_NONE) {
        tcc_store inside = *s;
        tcc_emit_if branch;
        inside.guard = NULL;
        tcc_emit_if_begin(e, &branch, r->values[s->guard->id]);
        tcc_body_emit_store(r, &inside);
        tcc_emit_if_end(e, &branch);
        return;
    }
    LLVMValueRef mask = access_mask(r, s->guard);
    tcc_dtype dtype = r->body->buffers.data[s->buffer].dtype;
    LLVMTypeRef memory = tcc_emit_dtype(e, dtype);
    LLVMValueRef base = r->bases[s->buffer], offset = tcc_body_offset(r, &s->offset);
    lane_step step = step_of(r, &s->offset);
    if (step == STEP_NONE) {
        LLVMValueRef one = r->values[s->value->id]; /* a vector in a result of one column: lane 0 alone exists */
        if (tcc_emit_lanes_of(LLVMTypeOf(one)) > 1)
            one = LLVMBuildExtractElement(e->builder, one, tcc_emit_i32(e, 0), "");
        tcc_emit_store(e, tcc_scalar_to_memory(e, one, dtype), tcc_emit_at(e, memory, base, offset), 0);
        return;
    }
    LLVMValueRef value = tcc_scalar_to_memory(e, tcc_body_lanes(r, s->value), dtype);
    if (step == STEP_ONE) {
        LLVMValueRef at = tcc_emit_at(e, memory, base, offset);
        if (mask) tcc_emit_store_masked(e, value, at, mask);
        else tcc_emit_store(e, value, at, tcc_body_alignment(r, s->buffer, &s->offset));
        return;
    }
    LLVMValueRef start = LLVMBuildGEP2(e->builder, memory, base, &offset, 1, "");
    /* lanes of one store never meet, so their order is free */
    tcc_emit_scatter_at(e, value, start, lane_part(r, &s->offset, offset_type(r, &s->offset)), mask);
}

/* --- Reductions */

int tcc_fold_carries(tcc_op op) { return tcc_is_moment(op) ? TCC_MOMENT_STATE : op == TCC_OP_ARGMAX ? 2 : 1; }

static bool real(LLVMTypeRef type) {
    LLVMTypeKind kind = LLVMGetTypeKind(tcc_emit_lanes_of(type) > 1 ? LLVMGetElementType(type) : type);
    return kind == LLVMFloatTypeKind || kind == LLVMDoubleTypeKind;
}

static unsigned bits_of(LLVMTypeRef type) {
    return LLVMGetIntTypeWidth(tcc_emit_lanes_of(type) > 1 ? LLVMGetElementType(type) : type);
}

void tcc_fold_initial(tcc_emitter *e, tcc_op op, LLVMTypeRef type, LLVMTypeRef index_type, LLVMValueRef *carry) {
    bool is_real = real(type);
    if (op == TCC_OP_REDUCE_SUM || tcc_is_moment(op)) {
        for (int k = 0; k < tcc_fold_carries(op); k++) carry[k] = LLVMConstNull(type);
    } else if (is_real) {
        carry[0] = tcc_emit_float(e, type, op == TCC_OP_REDUCE_MIN ? __builtin_inf() : -__builtin_inf());
    } else {
        unsigned bits = bits_of(type);
        int64_t least = bits == 1    ? 0
                        : bits == 32 ? INT32_MIN
                                     : INT64_MIN,
                most = bits == 1    ? 1
                       : bits == 32 ? INT32_MAX
                                    : INT64_MAX;
        carry[0] = tcc_emit_int(e, type, op == TCC_OP_REDUCE_MIN ? most : least);
    }
    if (op == TCC_OP_ARGMAX) carry[1] = tcc_emit_int(e, index_type, -1);
}

static LLVMValueRef both(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return a && b ? LLVMBuildAnd(e->builder, a, b, "") : a ? a : b;
}

/* Does `value` come before `best` in value alone: larger (smaller), or the first NaN? */
static LLVMValueRef wins(tcc_emitter *e, tcc_op op, LLVMValueRef value, LLVMValueRef best) {
    LLVMTypeRef type = LLVMTypeOf(value);
    bool min = op == TCC_OP_REDUCE_MIN;
    if (!real(type)) {
        bool is_bool = bits_of(type) == 1;
        LLVMIntPredicate p = min ? (is_bool ? LLVMIntULT : LLVMIntSLT) : (is_bool ? LLVMIntUGT : LLVMIntSGT);
        return LLVMBuildICmp(e->builder, p, value, best, "");
    }
    LLVMValueRef better = LLVMBuildFCmp(e->builder, min ? LLVMRealOLT : LLVMRealOGT, value, best, "");
    return LLVMBuildOr(e->builder, better, LLVMBuildFCmp(e->builder, LLVMRealUNO, value, value, ""), "");
}

void tcc_fold_step(tcc_emitter *e, tcc_op op, LLVMValueRef *carry, LLVMValueRef value, LLVMValueRef index,
                   LLVMValueRef mask) {
    LLVMTypeRef type = LLVMTypeOf(value);
    if (op == TCC_OP_REDUCE_SUM) {
        if (mask) value = tcc_emit_select(e, mask, value, LLVMConstNull(type));
        carry[0] = real(type) ? LLVMBuildFAdd(e->builder, carry[0], value, "")
                              : LLVMBuildAdd(e->builder, carry[0], value, "");
        return;
    }
    LLVMValueRef win = wins(e, op, value, carry[0]);
    if (op == TCC_OP_ARGMAX) {
        /* Positions ascend within a lane. The first element wins whatever it is; a NaN that leads is never overtaken.
         */
        LLVMValueRef first = LLVMBuildICmp(e->builder, LLVMIntSLT, carry[1], LLVMConstNull(LLVMTypeOf(carry[1])), "");
        if (real(type))
            win = LLVMBuildAnd(e->builder, win, LLVMBuildFCmp(e->builder, LLVMRealORD, carry[0], carry[0], ""), "");
        win = both(e, LLVMBuildOr(e->builder, win, first, ""), mask);
        carry[1] = tcc_emit_select(e, win, index, carry[1]);
    } else {
        win = both(e, win, mask);
    }
    carry[0] = tcc_emit_select(e, win, value, carry[0]);
}

/* a from a and b, of which a's elements come first where that matters. */
static void fold_pair(tcc_emitter *e, tcc_op op, LLVMValueRef *a, LLVMValueRef *b) {
    if (tcc_is_moment(op)) {
        tcc_moment_merge(e, a, b);
        return;
    }
    if (op != TCC_OP_ARGMAX) {
        tcc_fold_step(e, op, a, b[0], NULL, NULL);
        return;
    }
    /* b before a: by value, or equal (both NaN count as equal) with a smaller position; a lane without elements loses.
     */
    LLVMValueRef win = wins(e, op, b[0], a[0]), equal;
    LLVMTypeRef index_type = LLVMTypeOf(a[1]);
    if (real(LLVMTypeOf(a[0]))) {
        LLVMValueRef a_nan = LLVMBuildFCmp(e->builder, LLVMRealUNO, a[0], a[0], "");
        LLVMValueRef b_nan = LLVMBuildFCmp(e->builder, LLVMRealUNO, b[0], b[0], "");
        equal = LLVMBuildOr(e->builder, LLVMBuildFCmp(e->builder, LLVMRealOEQ, a[0], b[0], ""),
                            LLVMBuildAnd(e->builder, a_nan, b_nan, ""), "");
        win = LLVMBuildAnd(e->builder, win, LLVMBuildNot(e->builder, a_nan, ""), "");
    } else {
        equal = LLVMBuildICmp(e->builder, LLVMIntEQ, a[0], b[0], "");
    }
    LLVMValueRef earlier = LLVMBuildICmp(e->builder, LLVMIntULT, b[1], a[1], ""); /* -1 is the largest */
    LLVMValueRef a_none = LLVMBuildICmp(e->builder, LLVMIntSLT, a[1], LLVMConstNull(index_type), "");
    LLVMValueRef b_some = LLVMBuildICmp(e->builder, LLVMIntSGE, b[1], LLVMConstNull(index_type), "");
    win = LLVMBuildOr(e->builder, win, LLVMBuildAnd(e->builder, equal, earlier, ""), "");
    win = LLVMBuildAnd(e->builder, LLVMBuildOr(e->builder, win, a_none, ""), b_some, "");
    a[0] = tcc_emit_select(e, win, b[0], a[0]);
    a[1] = tcc_emit_select(e, win, b[1], a[1]);
}

/* The results of `threads` neighbours, a power of two within a warp: each has them all in the end. Sums and positions
 * do not depend on which of two partners is called first; of equal extremes (0 and -0) and of states, which differ in
 * rounding, the first thread's count. */
static void fold_threads(tcc_emitter *e, tcc_op op, LLVMValueRef *carry, int threads) {
    int carries = tcc_fold_carries(op);
    for (int bit = threads / 2; bit; bit /= 2) {
        LLVMValueRef other[TCC_MOMENT_STATE];
        for (int k = 0; k < carries; k++) other[k] = tcc_emit_exchange(e, carry[k], bit);
        fold_pair(e, op, carry, other);
    }
    bool first = tcc_is_moment(op) ||
                 ((op == TCC_OP_REDUCE_MAX || op == TCC_OP_REDUCE_MIN) && real(LLVMTypeOf(carry[0])));
    for (int k = 0; threads > 1 && first && k < carries; k++) carry[k] = tcc_emit_first_thread(e, carry[k]);
}

void tcc_fold_lanes(tcc_emitter *e, const tcc_op *ops, int n_ops, LLVMValueRef *carry) {
    int n_carry = 0, group = tcc_emit_group_lanes(e, 1);
    for (int i = 0; i < n_ops; n_carry += tcc_fold_carries(ops[i++])) {
        LLVMValueRef *own = carry + n_carry;
        for (int n = tcc_emit_lanes_of(LLVMTypeOf(own[0])); n > 1; n /= 2) {
            int low[64], high[64];
            LLVMValueRef a[TCC_MOMENT_STATE], b[TCC_MOMENT_STATE];
            for (int l = 0; l < n / 2; l++) low[l] = l, high[l] = l + n / 2;
            for (int k = 0; k < tcc_fold_carries(ops[i]); k++) {
                if (n == 2) {
                    a[k] = LLVMBuildExtractElement(e->builder, own[k], tcc_emit_i32(e, 0), "");
                    b[k] = LLVMBuildExtractElement(e->builder, own[k], tcc_emit_i32(e, 1), "");
                } else {
                    a[k] = tcc_emit_shuffle(e, own[k], NULL, low, n / 2);
                    b[k] = tcc_emit_shuffle(e, own[k], NULL, high, n / 2);
                }
            }
            fold_pair(e, ops[i], a, b);
            for (int k = 0; k < tcc_fold_carries(ops[i]); k++) own[k] = a[k];
        }
        fold_threads(e, ops[i], own, group < TCC_EMIT_WARP ? group : TCC_EMIT_WARP);
    }
    if (group <= TCC_EMIT_WARP || n_carry == 0) return;
    tcc_emit_gather_warps(e, carry, n_carry);
    for (int i = 0, c = 0; i < n_ops; c += tcc_fold_carries(ops[i++]))
        fold_threads(e, ops[i], carry + c, group / TCC_EMIT_WARP);
}

void tcc_fold_deep(tcc_emitter *e, const tcc_op *ops, int n_ops, LLVMValueRef *carry) {
    enum { MOST_DEEP = 32 };
    int n_carry = 0;
    LLVMValueRef all[MOST_DEEP * TCC_EMIT_MAX_CARRY];
    for (int i = 0; i < n_ops; i++) n_carry += tcc_fold_carries(ops[i]);
    if (!e->deep || n_carry == 0) return;
    tcc_emit_gather_deep(e, carry, n_carry, all);
    for (int i = 0, c = 0; i < n_ops; c += tcc_fold_carries(ops[i++])) {
        for (int k = 0; k < tcc_fold_carries(ops[i]); k++) carry[c + k] = all[c + k];
        for (int d = 1; d < e->shape.shape.deep; d++) fold_pair(e, ops[i], carry + c, all + d * n_carry + c);
    }
}
