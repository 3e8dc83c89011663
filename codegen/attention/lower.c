/* SPDX-License-Identifier: MIT
 * Lowering attention groups to the attention kernels: heads are read and written in place, through the group's slices,
 * reshapes and transposes. */
#include "codegen/attention/call.h"
#include "codegen/attention/gpu.h"
#include "codegen/emit/warp.h"
#include "codegen/schedule/operand.h"
#include "ir/sdpa.h"

typedef struct lowered {
    tcc_attention a;
    tcc_plan_buffer buffers[TCC_ATTENTION_ROLES];
    int64_t offsets[TCC_ATTENTION_ROLES];
    tcc_dtype dtypes[TCC_ATTENTION_ROLES]; /* in memory */
    int64_t id;                            /* of dropout's draws */
    tcc_dtype narrow;                      /* f16 or bf16 where q, k, v, o and do are read as such; else f32 */
    bool adds_up; /* gradients by keys that queries share; else each query's batch has its own */
    tcc_attention_plan plan;
} lowered;

/* Strides of an index map whose loops are the dims of a node in order (dims of 1 have none), as an operand of `n_batch`
 * batch dims. False: its elements do not lie side by side. */
static bool set_operand(lowered *out, tcc_attention_role role, const tcc_type *type, const int64_t *strides,
                        int64_t offset) {
    int last = type->rank - 1;
    tcc_attention_operand *o = &out->a.operands[role];
    bool rows_only = role == TCC_ATTENTION_LSE || role == TCC_ATTENTION_RNG; /* no last dim */
    int row = rows_only ? last : last - 1;
    for (int i = 0; i < row; i++) o->batch[i] = type->dims[i] == 1 ? 0 : strides[i]; /* it may be shared */
    o->row = strides[row];
    out->offsets[role] = offset;
    out->a.has[role] = true;
    if (role == TCC_ATTENTION_RNG) return o->row == 1;
    return rows_only || type->dims[last] == 1 || strides[last] == 1;
}

/* Whether rows of the operand are whole chunks of 16 bytes, as tensor cores want narrow ones. */
static bool in_chunks(const lowered *out, tcc_attention_role role) {
    const tcc_attention_operand *o = &out->a.operands[role];
    int64_t bytes = tcc_dtype_bytes(out->dtypes[role]),
            bits = out->offsets[role] * bytes | out->buffers[role].offset_bytes | o->row * bytes;
    for (int i = 0; i < out->a.n_batch; i++) bits |= o->batch[i] * bytes;
    return bits % 16 == 0;
}

/* What an operand is read as. */
static tcc_dtype dtype_of(const lowered *out, tcc_attention_role role, tcc_dtype is) {
    switch (role) {
    case TCC_ATTENTION_RNG: return TCC_I64;
    case TCC_ATTENTION_LSE: return TCC_F32;
    case TCC_ATTENTION_MASK: return is;
    default: return out->narrow;
    }
}

/* An operand in place if its elements are contiguous there, else as a copy. */
static tcc_status input(tcc_lowering *l, lowered *out, tcc_attention_role role, const tcc_node *n) {
    int64_t strides[TCC_MAX_RANK] = {0};
    tcc_dtype dtype = out->dtypes[role] = dtype_of(out, role, n->type.dtype);
    const bool whole = l->target->lane_groups && dtype == out->narrow && dtype != TCC_F32 &&
                       role != TCC_ATTENTION_MASK; /* chunks are wanted */
    tcc_iteration it;
    tcc_iteration_init(&it, n->type.rank, n->type.dims);
    tcc_body *b = tcc_lowering_body(l, l->group);
    if (!b) return tcc_enomem(l->diag);
    tcc_affine at[TCC_MAX_RANK];
    tcc_iteration_open(b, &it, at);
    const tcc_expr *x = tcc_body_trace(b, n, at);
    tcc_status status = b->status;
    bool in_place = status == TCC_OK && tcc_operand_in_place(b, x, dtype, &out->buffers[role]);
    if (in_place) {
        int var = 0;
        for (int i = 0; i < n->type.rank; i++)
            strides[i] = n->type.dims[i] == 1 ? 0 : tcc_affine_coefficient(&x->affine, var++);
        in_place = set_operand(out, role, &n->type, strides, x->affine.constant) && (!whole || in_chunks(out, role));
    }
    tcc_body_free(b);
    if (status != TCC_OK || in_place) return status;
    out->buffers[role] = (tcc_plan_buffer){0};
    TCC_TRY(tcc_operand_copy(l, n, dtype, NULL, NULL, NULL, &out->buffers[role].temporary));
    tcc_operand_dense(&n->type, strides);
    set_operand(out, role, &n->type, strides, 0);
    return TCC_OK;
}

static tcc_attention_role role_of(const tcc_node *hero) {
    switch (hero->op) {
    case TCC_OP_SDPA: return TCC_ATTENTION_O;
    case TCC_OP_SDPA_LSE: return TCC_ATTENTION_LSE;
    case TCC_OP_SDPA_GRAD_Q: return TCC_ATTENTION_DQ;
    case TCC_OP_SDPA_GRAD_K: return TCC_ATTENTION_DK;
    case TCC_OP_SDPA_GRAD_V: return TCC_ATTENTION_DV;
    default: return TCC_ATTENTION_ROLES;
    }
}

/* --- Outputs: a hero, or views of it */

/* What the kernel writes of a hero. */
static tcc_type written_type(const lowered *out, const tcc_node *hero) {
    tcc_type type = hero->type;
    for (int d = 0; tcc_sdpa_is_by_key(hero) && !out->adds_up && d < out->a.n_batch; d++)
        type.dims[d] = out->a.batch[d];
    return type;
}

/* Whether it writes all of the hero, but no sums of it. */
static bool writes_parts(const lowered *out, const tcc_node *hero) {
    const tcc_type type = written_type(out, hero);
    return !tcc_type_equal(&type, &hero->type);
}

typedef struct capture {
    const tcc_node *hero;
    tcc_affine at[TCC_MAX_RANK];
    bool stored;        /* give the value from memory, instead of a port: */
    int temporary;      /* there, as the kernel wrote it, or -1: the hero's own place */
    const lowered *all; /* stored: other heroes lie in temporaries of theirs */
} capture;

/* The hero's element, from what the kernel wrote into memory: its own place, or a temporary. */
static const tcc_expr *stored_at(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates, const lowered *all,
                                 int temporary) {
    const tcc_type type = written_type(all, n);
    tcc_affine at[TCC_MAX_RANK];
    uint64_t loops = 0;
    for (int d = 0; d < type.rank; d++) {
        at[d] = coordinates[d];
        if (type.dims[d] == n->type.dims[d]) continue;
        const int var = tcc_body_loop(b, type.dims[d]);
        loops |= UINT64_C(1) << var;
        at[d] = tcc_affine_var(b, var);
    }
    const tcc_affine position = tcc_affine_expand(b, tcc_affine_linear(b, at, type.rank, type.dims));
    const tcc_dtype dtype = temporary < 0 ? n->type.dtype : all->dtypes[role_of(n)];
    const int buffer = temporary < 0 ? tcc_body_buffer_of(b, n, 0, false)
                                     : tcc_body_temporary(b, temporary, dtype, false);
    const tcc_expr *x = tcc_expr_load(b, buffer, position, b->guard);
    if (x && loops) x = tcc_expr_fold(b, TCC_OP_REDUCE_SUM, dtype, x, loops);
    return x && n->type.dtype != dtype ? tcc_expr_point(b, TCC_OP_CAST, n->type.dtype, &x, 1) : x;
}

static const tcc_expr *hero_at(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates, void *user) {
    capture *c = user;
    int temporary = c->temporary;
    if (n != c->hero) {
        const tcc_attention_role role = c->stored ? role_of(n) : TCC_ATTENTION_ROLES;
        if (role == TCC_ATTENTION_ROLES || !c->all->a.has[role] || c->all->buffers[role].node) return NULL;
        temporary = c->all->buffers[role].temporary;
    }
    if (c->stored) return stored_at(b, n, coordinates, c->all, temporary);
    for (int i = 0; i < n->type.rank; i++) c->at[i] = coordinates[i];
    return tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_PORT, .dtype = n->type.dtype}, NULL, 0);
}

/* The attention op that an output of the group is or shows. */
static const tcc_node *hero_of(const tcc_node *n) {
    while (tcc_op_get_info(n->op)->fusion == TCC_FUSION_VIEW) n = n->operands[0];
    return n;
}

/* Whether the elements along a dim of `extent` lie `*stride` apart: its coordinate is `at`, of loops at whose points
 * the output is at `position`. A reshape of the output may have split the dim into several loops. */
static bool has_stride(const tcc_body *b, const tcc_affine *at, const tcc_affine *position, int64_t extent,
                       int64_t *stride) {
    int64_t last = at->constant;
    for (int i = 0; i < at->n; i++) {
        const tcc_term t = at->terms[i];
        const int64_t step = tcc_affine_coefficient(position, t.var);
        if (b->vars.data[t.var].kind != TCC_VAR_LOOP || step % t.coefficient) return false;
        if (i && step / t.coefficient != *stride) return false;
        *stride = step / t.coefficient;
        last += t.coefficient * b->vars.data[t.var].high;
    }
    return at->n && !at->constant && last + 1 == extent;
}

/* Where `output`, a view of `hero`, keeps the elements of hero: each dim of hero must have a stride there. The output
 * is part of a tensor with dims `whole`, or all of it. */
static tcc_status output_strides(tcc_lowering *l, const tcc_node *output, const int64_t *whole, const tcc_node *hero,
                                 int64_t *strides, bool *possible) {
    tcc_iteration it;
    tcc_iteration_init(&it, output->type.rank, output->type.dims);
    for (;;) { /* refined until reshapes resolve */
        tcc_body *b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        capture c = {.hero = hero};
        tcc_affine at[TCC_MAX_RANK];
        tcc_iteration_open(b, &it, at);
        tcc_affine position = tcc_affine_linear(b, at, output->type.rank, whole);
        b->special = hero_at;
        b->special_user = &c;
        tcc_body_trace(b, output, at);
        bool again = tcc_iteration_refine(&it, b);
        tcc_status status = b->status;
        *possible = true;
        for (int i = 0; status == TCC_OK && !again && i < hero->type.rank; i++) {
            strides[i] = 0;
            if (hero->type.dims[i] != 1 && !has_stride(b, &c.at[i], &position, hero->type.dims[i], &strides[i]))
                *possible = false;
        }
        tcc_body_free(b);
        if (status != TCC_OK || !again) return status;
    }
}

/* An output that the kernel did not write itself: copied from the hero's own place, or from a temporary, and then it
 * may be rounded. */
static tcc_status copy_output(tcc_lowering *l, const lowered *all, const tcc_node *output, const tcc_node *hero,
                              int temporary) {
    tcc_iteration it;
    tcc_iteration_init(&it, output->type.rank, output->type.dims);
    for (;;) {
        tcc_body *b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        capture c = {.hero = hero, .stored = true, .temporary = temporary, .all = all};
        tcc_affine at[TCC_MAX_RANK];
        tcc_iteration_open(b, &it, at);
        b->special = hero_at;
        b->special_user = &c;
        tcc_body_store(b, output, tcc_affine_linear(b, at, output->type.rank, output->type.dims), false);
        b->special_user = NULL;
        b->special = NULL;
        if (!tcc_iteration_refine(&it, b)) return tcc_schedule_points(l, b);
        tcc_body_free(b);
    }
}

/* The kernel writes into a temporary, of which the outputs are copied afterwards. */
static tcc_status copied_output(tcc_lowering *l, lowered *out, tcc_attention_role role, const tcc_node *hero,
                                tcc_dtype dtype) {
    int64_t strides[TCC_MAX_RANK];
    const tcc_type type = written_type(out, hero);
    const int temporary = tcc_lowering_temporary(l, tcc_type_numel(&type) * tcc_dtype_bytes(dtype));
    if (temporary < 0) return TCC_ENOMEM;
    out->dtypes[role] = dtype;
    out->buffers[role] = (tcc_plan_buffer){.temporary = temporary, .written = true};
    tcc_operand_dense(&type, strides);
    set_operand(out, role, &type, strides, 0);
    return TCC_OK;
}

/* Gradients that are written side by side into one tensor. Where the kernel does not write its type, or parts of a sum,
 * all are copied afterwards. */
static tcc_status packed_output(tcc_lowering *l, lowered *out, const tcc_node *concat, bool *possible) {
    int64_t axis = concat->attrs->axis.axis, offset = 0, dense[TCC_MAX_RANK];
    tcc_operand_dense(&concat->type, dense);
    const bool takes = concat->type.dtype == TCC_F32 || concat->type.dtype == out->narrow;
    bool copied = !takes;
    for (int i = 0; i < concat->n_operands; i++) copied = copied || writes_parts(out, hero_of(concat->operands[i]));
    for (int i = 0; i < concat->n_operands && *possible; i++) {
        const tcc_node *part = concat->operands[i], *hero = hero_of(part);
        tcc_attention_role role = role_of(hero);
        int64_t strides[TCC_MAX_RANK];
        *possible = role != TCC_ATTENTION_ROLES && !out->a.has[role];
        if (*possible && copied) {
            TCC_TRY(copied_output(l, out, role, hero, takes ? concat->type.dtype : TCC_F32));
            continue;
        }
        if (*possible) out->dtypes[role] = concat->type.dtype;
        if (*possible) TCC_TRY(output_strides(l, part, concat->type.dims, hero, strides, possible));
        if (!*possible) break;
        out->buffers[role] = (tcc_plan_buffer){.node = concat, .temporary = -1, .written = true};
        *possible = set_operand(out, role, &hero->type, strides, offset);
        offset += part->type.dims[axis] * dense[axis];
    }
    return TCC_OK;
}

/* Sets the output of each role, and those that are copied from there afterwards. */
static tcc_status outputs(tcc_lowering *l, lowered *out, bool *possible) {
    const tcc_group *group = l->group;
    *possible = true;
    for (int pass = 0; pass < 2; pass++) /* heroes themselves first */
        for (int i = 0; i < group->n_outputs; i++) {
            const tcc_node *n = group->outputs[i], *hero = hero_of(n);
            tcc_attention_role role = role_of(hero);
            if ((n == hero) != (pass == 0)) continue;
            if (n->op == TCC_OP_CONCAT) {
                TCC_TRY(packed_output(l, out, n, possible));
                if (!*possible) return TCC_OK;
                continue;
            }
            if (role == TCC_ATTENTION_ROLES) *possible = false;
            if (!*possible) return TCC_OK;
            if (out->a.has[role]) { /* a second view is copied, from the hero if that is stored */
                const tcc_node *stored = out->buffers[role].node;
                if (stored && stored != hero) TCC_TRY(copied_output(l, out, role, hero, n->type.dtype));
                continue;
            }
            int64_t strides[TCC_MAX_RANK];
            bool direct = n->type.dtype == TCC_F32 || (n->type.dtype == out->narrow && role != TCC_ATTENTION_LSE);
            if (writes_parts(out, hero)) { /* every output is added up afterwards */
                TCC_TRY(copied_output(l, out, role, hero, out->narrow));
                continue;
            }
            out->dtypes[role] = direct ? n->type.dtype : TCC_F32;
            if (!direct) { /* every output of it is rounded afterwards */
                TCC_TRY(copied_output(l, out, role, hero, TCC_F32));
                continue;
            }
            bool in_place = true;
            if (n == hero) tcc_operand_dense(&n->type, strides);
            else TCC_TRY(output_strides(l, n, n->type.dims, hero, strides, &in_place));
            out->buffers[role] = (tcc_plan_buffer){.node = n, .temporary = -1, .written = true};
            if (!in_place || !set_operand(out, role, &hero->type, strides, 0))
                TCC_TRY(copied_output(l, out, role, hero, n->type.dtype));
        }
    return TCC_OK;
}

static tcc_status copy_further_outputs(tcc_lowering *l, const lowered *k) {
    for (int i = 0; i < l->group->n_outputs; i++) {
        const tcc_node *n = l->group->outputs[i], *hero = hero_of(n);
        const tcc_plan_buffer *from = &k->buffers[role_of(hero)];
        if (from->node != n) TCC_TRY(copy_output(l, k, n, hero, from->node ? -1 : from->temporary));
    }
    return TCC_OK;
}

static tcc_status emit(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const lowered *k = plan->data;
    tcc_attention_emit(e, symbol, &k->plan);
    return TCC_OK;
}

/* A launch of a kernel whose buffers lie at these places; the caller sets the kernel's own members. */
static tcc_status add_launch(tcc_lowering *l, const lowered *k, const int *places, int n_buffers, tcc_strbuf *key,
                             tcc_plan_launch **out) {
    tcc_plan_launch *launch = tcc_lowering_add(l);
    tcc_strbuf_add(key, " ");
    if (launch) tcc_lowering_describe_settled(l, launch, key);
    char *text = key->failed ? NULL : tcc_arena_strdup(l->arena, key->text);
    tcc_strbuf_free(key);
    if (!launch) return TCC_ENOMEM;
    launch->kernel.key = text;
    launch->kernel.schedule = "attention";
    launch->kernel.n_buffers = n_buffers;
    launch->kernel.n_params = n_buffers + (places[TCC_ATTENTION_RNG] >= 0);
    launch->buffers = TCC_ARENA_ARRAY(l->arena, tcc_plan_buffer, n_buffers);
    launch->params = TCC_ARENA_ARRAY(l->arena, int64_t, n_buffers + 1);
    tcc_region *regions = TCC_ARENA_ARRAY(l->arena, tcc_region, n_buffers);
    if (!launch->buffers || !launch->params || !text || !regions) return tcc_enomem(l->diag);
    launch->regions = regions;
    for (int i = 0; i < TCC_ATTENTION_ROLES; i++) {
        if (places[i] < 0) continue;
        regions[places[i]] = tcc_attention_region(&k->a, i, k->offsets[i], tcc_dtype_bytes(k->dtypes[i]));
        launch->buffers[places[i]] = k->buffers[i];
        launch->params[places[i]] = k->offsets[i];
    }
    launch->params[n_buffers] = k->id;
    *out = launch;
    return TCC_OK;
}

static tcc_status launch(tcc_lowering *l, lowered *k) {
    tcc_strbuf text = {0};
    tcc_plan_launch *launch;
    TCC_TRY(tcc_attention_make_plan(l->target, &k->a, &l->params, l->diag, &k->plan));
    const tcc_attention_plan *p = &k->plan;
    tcc_attention_key(p, &text);
    TCC_TRY(add_launch(l, k, p->buffers, p->n_buffers, &text, &launch));
    launch->kernel.scratch_bytes = p->scratch_bytes;
    launch->kernel.emit = emit;
    launch->kernel.data = k;
    launch->items = p->items;
    launch->flop = p->flop;
    launch->multiply_adds = p->multiply == TCC_CONTRACT_TILES   ? l->target->hw.fma_bf16_tiles
                            : p->multiply == TCC_CONTRACT_PAIRS ? l->target->hw.fma_bf16_pairs
                                                                : 0;
    double each = p->flop / (double)p->items;
    launch->grain = each >= 5e5 ? 1 : (int64_t)(5e5 / (each + 1)) + 1;
    return TCC_OK;
}

/* --- CUDA */

static tcc_status emit_gpu(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    tcc_attention_gpu_emit(e, symbol, plan->data);
    return TCC_OK;
}

/* A kernel that touches those of the operands that are listed. */
static tcc_status launch_kind(tcc_lowering *l, const lowered *k, tcc_attention_gpu_kind kind,
                              const tcc_attention_role *roles, int n) {
    tcc_attention_gpu_plan *p = TCC_ARENA_NEW(l->arena, tcc_attention_gpu_plan);
    if (!p) return tcc_enomem(l->diag);
    tcc_attention a = k->a;
    int64_t begins[TCC_ATTENTION_ROLES];
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++) {
        a.has[r] = false;
        begins[r] = k->offsets[r] + k->buffers[r].offset_bytes / tcc_dtype_bytes(k->dtypes[r]);
    }
    for (int i = 0; i < n; i++) a.has[roles[i]] = k->a.has[roles[i]];
    TCC_TRY(tcc_attention_gpu_make_plan(&l->target->hw, &a, kind, begins, k->dtypes, &l->params, l->diag, p));
    tcc_strbuf text = {0};
    tcc_plan_launch *launch;
    tcc_attention_gpu_key(p, &text);
    TCC_TRY(add_launch(l, k, p->buffers, p->n_buffers, &text, &launch));
    if (p->buffers[TCC_ATTENTION_DELTA] >= 0)
        launch->buffers[p->buffers[TCC_ATTENTION_DELTA]].written = kind == TCC_ATTENTION_GPU_QUERIES;
    launch->kernel.scratch_bytes = p->scratch_bytes;
    launch->kernel.shape = (tcc_thread_shape){.threads = p->threads, .group = p->threads, .blocks = p->blocks};
    launch->kernel.emit = emit_gpu;
    launch->kernel.data = p;
    launch->items = p->items;
    launch->grain = 1;
    launch->flop = p->flop;
    return TCC_OK;
}

static tcc_status launch_gpu(tcc_lowering *l, lowered *k) {
    static const tcc_attention_role forward[] = {TCC_ATTENTION_Q,    TCC_ATTENTION_K, TCC_ATTENTION_V,
                                                 TCC_ATTENTION_MASK, TCC_ATTENTION_O, TCC_ATTENTION_LSE,
                                                 TCC_ATTENTION_RNG};
    static const tcc_attention_role queries[] = {
        TCC_ATTENTION_Q,   TCC_ATTENTION_K,  TCC_ATTENTION_V,  TCC_ATTENTION_MASK,  TCC_ATTENTION_O,
        TCC_ATTENTION_LSE, TCC_ATTENTION_DO, TCC_ATTENTION_DQ, TCC_ATTENTION_DELTA, TCC_ATTENTION_RNG};
    static const tcc_attention_role keys[] = {
        TCC_ATTENTION_Q,  TCC_ATTENTION_K,   TCC_ATTENTION_MASK, TCC_ATTENTION_LSE, TCC_ATTENTION_DO,
        TCC_ATTENTION_DV, TCC_ATTENTION_RNG, TCC_ATTENTION_V,    TCC_ATTENTION_DK,  TCC_ATTENTION_DELTA};
    enum { FORWARD = 7, QUERIES = 10, VALUES_ALONE = 7, KEYS = 10 }; /* dv needs the first of `keys` alone */
    tcc_attention *a = &k->a;
    if (!a->backward) return launch_kind(l, k, TCC_ATTENTION_GPU_FORWARD, forward, FORWARD);
    bool want_k = a->has[TCC_ATTENTION_DK];
    if (want_k || a->has[TCC_ATTENTION_DQ]) {
        int64_t heads = 1, dense = a->T;
        for (int i = a->n_batch - 1; i >= 0; i--) {
            a->operands[TCC_ATTENTION_DELTA].batch[i] = dense;
            dense *= a->batch[i];
            heads *= a->batch[i];
        }
        a->operands[TCC_ATTENTION_DELTA].row = 1;
        a->has[TCC_ATTENTION_DELTA] = true;
        k->buffers[TCC_ATTENTION_DELTA] = (tcc_plan_buffer){.temporary = tcc_lowering_temporary(l, 4 * heads * a->T)};
        if (k->buffers[TCC_ATTENTION_DELTA].temporary < 0) return TCC_ENOMEM;
        TCC_TRY(launch_kind(l, k, TCC_ATTENTION_GPU_QUERIES, queries, QUERIES));
    }
    if (want_k) return launch_kind(l, k, TCC_ATTENTION_GPU_KEYS, keys, KEYS);
    return a->has[TCC_ATTENTION_DV] ? launch_kind(l, k, TCC_ATTENTION_GPU_KEYS, keys, VALUES_ALONE) : TCC_OK;
}

/* f16 or bf16 where operands are read as such, else f32. The host does; tensor cores multiply q, k, v (and do) of one
 * such type, in widths of whole chunks of 16 bytes. */
static tcc_dtype narrow_type(const tcc_llvm_target *target, const tcc_node *main) {
    tcc_dtype dtype = main->operands[0]->type.dtype;
    bool backward = main->op != TCC_OP_SDPA;
    if (!tcc_dtype_is_narrow(dtype)) return TCC_F32;
    if (!target->lane_groups) return dtype;
    for (int i = 0; i < (backward ? 6 : 3); i++) {
        const tcc_type *t = &main->operands[i]->type;
        if (i < 3 || i == 5)
            if (t->dtype != dtype || t->dims[t->rank - 1] % 8) return TCC_F32;
    }
    return tcc_llvm_has_matrix(target) ? dtype : TCC_F32;
}

tcc_status tcc_lower_attention(tcc_lowering *l) {
    /* Any of the group's ops knows the operands; v is missing from sdpa_lse. */
    const tcc_node *main = NULL;
    for (int i = 0; i < l->group->n_nodes; i++) {
        const tcc_node *n = l->group->nodes[i];
        tcc_attention_role role = role_of(n);
        if (role == TCC_ATTENTION_ROLES) continue;
        if (n->type.dtype == TCC_F64) return TCC_OK;
        if (role != TCC_ATTENTION_LSE) main = n;
    }
    if (!main) return TCC_OK;
    const tcc_type *q = &main->operands[0]->type, *k = &main->operands[1]->type, *v = &main->operands[2]->type;
    int n_batch = q->rank - 2;
    if (n_batch > TCC_ATTENTION_MAX_BATCH) return TCC_OK;
    const bool gpu = l->target->lane_groups;
    if (gpu && (q->dims[n_batch + 1] > TCC_ATTENTION_GPU_WIDTH || v->dims[n_batch + 1] > TCC_ATTENTION_GPU_WIDTH))
        return TCC_OK;
    lowered *out = TCC_ARENA_NEW(l->arena, lowered);
    if (!out) return tcc_enomem(l->diag);
    tcc_attention *a = &out->a;
    *a = (tcc_attention){.backward = main->op != TCC_OP_SDPA,
                         .n_batch = n_batch,
                         .T = q->dims[n_batch],
                         .S = k->dims[n_batch],
                         .D = q->dims[n_batch + 1],
                         .E = v->dims[n_batch + 1],
                         .scale = main->attrs->sdpa.scale,
                         .causal = main->attrs->sdpa.causal,
                         .p = main->attrs->sdpa.p};
    out->id = main->attrs->sdpa.id;
    for (int i = 0; i < n_batch; i++) a->batch[i] = q->dims[i];
    out->adds_up = l->library;
    out->narrow = a->dtype = narrow_type(l->target, main);
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++) out->dtypes[r] = TCC_F32;
    bool possible;
    TCC_TRY(outputs(l, out, &possible));
    if (!possible) return TCC_OK;
    if (!a->backward && !a->has[TCC_ATTENTION_O]) return TCC_OK;
    static const tcc_attention_role roles[2][6] = {
        {TCC_ATTENTION_Q, TCC_ATTENTION_K, TCC_ATTENTION_V},
        {TCC_ATTENTION_Q, TCC_ATTENTION_K, TCC_ATTENTION_V, TCC_ATTENTION_O, TCC_ATTENTION_LSE, TCC_ATTENTION_DO}};
    for (int i = 0; i < (a->backward ? 6 : 3); i++) TCC_TRY(input(l, out, roles[a->backward][i], main->operands[i]));
    const tcc_node *mask = tcc_sdpa_mask(main), *key = tcc_sdpa_key(main);
    if (mask) TCC_TRY(input(l, out, TCC_ATTENTION_MASK, mask));
    if (key) TCC_TRY(input(l, out, TCC_ATTENTION_RNG, key));
    if (l->library) {
        bool called;
        TCC_TRY(tcc_attention_add_call(l, a, out->buffers, out->offsets, out->dtypes, &called));
        if (!called) return tcc_lowering_give_up(l);
    } else {
        TCC_TRY(gpu ? launch_gpu(l, out) : launch(l, out));
    }
    return copy_further_outputs(l, out);
}

tcc_status tcc_lower_attention_call(tcc_lowering *l) {
    l->library = true;
    return tcc_lower_attention(l);
}
