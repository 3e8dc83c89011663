/* SPDX-License-Identifier: MIT
 * Lowering dots and convolutions to the contraction schedule: which dimension of the operands and of the result each loop is.
 *
 * An operand is read in place where its elements are an affine walk over memory (through transposes and reshapes of the group);
 * else it is copied into a temporary first, channels last. The border of a convolution is left out by windows where images are
 * many and channels wide; few or narrow ones are copied with zeros around. The gradient of
 * a strided convolution by its input is one contraction for each class of positions modulo the stride, so that no product with
 * an inserted zero is ever made. */
#include "codegen/build.h"
#include "codegen/contract_gpu.h"
#include "codegen/lower_conv.h"
#include "codegen/lower_matmul.h"
#include "codegen/operand.h"

#include <string.h>

enum { B, M, N, K, LISTS, MAX_RESULT_DIMS = 3 * TCC_MAX_RANK };

/* A dimension of the contraction as it lies in the result: index = start + multiplier * loop of result dim `dim`; -1: none. */
typedef struct in_result {
    int dim;
    int64_t multiplier;
} in_result;

typedef struct operand {
    tcc_plan_buffer buffer;
    tcc_dtype dtype; /* in memory */
    int64_t offset;  /* of element (0, ..., 0), in elements */
} operand;

typedef struct shape {
    tcc_contract c;
    in_result where[LISTS][TCC_CONTRACT_MAX_DIMS];
    int n_dims; /* of the result, in the hero's row-major order */
    int64_t dims[MAX_RESULT_DIMS], start[MAX_RESULT_DIMS];
    operand a, b;
    bool matrices; /* a dot, or a convolution that is one */
    bool failed;   /* more dimensions than there is room for */
    const tcc_node *sum; /* of a dot's operand, wanted beside it; NULL: none */
    bool *summed;        /* it is made */
} shape;

static tcc_contract_dims *list_of(shape *s, int list) {
    tcc_contract_dims *const lists[] = {&s->c.b, &s->c.m, &s->c.n, &s->c.k};
    return lists[list];
}

static int add_result(shape *s, int64_t extent) {
    if (s->n_dims == MAX_RESULT_DIMS) {
        s->failed = true;
        return 0;
    }
    s->dims[s->n_dims] = extent;
    return s->n_dims++;
}

static void add_strided(shape *s, int list, int64_t extent, int64_t a, int64_t b, in_result where) {
    tcc_contract_dims *l = list_of(s, list);
    if (l->n == TCC_CONTRACT_MAX_DIMS) {
        s->failed = true;
        return;
    }
    s->where[list][l->n] = where;
    l->d[l->n++] = (tcc_contract_dim){.extent = extent, .a = a, .b = b};
}

static void add(shape *s, int list, int64_t extent, int64_t a, int64_t b, int result) {
    add_strided(s, list, extent, a, b, (in_result){result, 1});
}

/* --- Kernels */

typedef struct contraction {
    tcc_contract_plan plan;    /* on the host */
    tcc_contract_gpu_plan gpu; /* on CUDA */
    tcc_epilogue epilogue;
    tcc_dtype dtype;     /* of the result */
    uint64_t lane_loops; /* of the epilogue's body: may differ from lane to lane */
    int64_t multiples[TCC_CONTRACT_MAX_ACCESSES]; /* CUDA: of an access's offsets at vectors, in elements; at most 16 */
} contraction;

typedef struct hooks {
    const contraction *k;
    tcc_body_run run;
    tcc_status status;
} hooks;

static void begin(void *user, tcc_emitter *e, int first_buffer) {
    hooks *h = user;
    h->status = tcc_body_run_begin(&h->run, e, h->k->epilogue.body, first_buffer);
    if (h->status != TCC_OK) return;
    if (e->target->kind == TCC_TARGET_CUDA) h->run.form_multiples = h->k->multiples + 1;
    tcc_epilogue_begin(&h->run, &h->k->epilogue, h->k->lane_loops);
}

static void end(void *user, tcc_emitter *e) {
    (void)e;
    hooks *h = user;
    if (h->status == TCC_OK) tcc_body_run_end(&h->run);
}

/* Access 0 is the result itself, for planning; the epilogue's forms follow. */
static void row(void *user, tcc_emitter *e, const tcc_contract_place *place) {
    (void)e;
    hooks *h = user;
    if (h->status == TCC_OK) tcc_epilogue_row(&h->run, &h->k->epilogue, place->offset + 1, place->lane_stride + 1);
}

static void row_end(void *user, tcc_emitter *e) {
    (void)e;
    hooks *h = user;
    if (h->status == TCC_OK) tcc_epilogue_row_end(&h->run, &h->k->epilogue);
}

static LLVMValueRef vector(void *user, tcc_emitter *e, LLVMValueRef sums, const tcc_contract_place *place) {
    hooks *h = user;
    /* The result itself is rounded to its type before anything is done with it. */
    sums = tcc_scalar_convert(e, sums, tcc_operand_sum_type(h->k->dtype), h->k->dtype);
    if (h->status == TCC_OK)
        tcc_epilogue_vector(&h->run, &h->k->epilogue, place->offset + 1, place->lane_stride + 1, sums, place->mask);
    return NULL;
}

static tcc_status emit_contraction(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    hooks h = {.k = plan->data};
    const tcc_contract_epilogue epilogue = {&h, h.k->epilogue.plain, begin, end, row, row_end, vector};
    if (e->target->kind == TCC_TARGET_CUDA) tcc_contract_gpu_emit(e, symbol, &h.k->gpu, &epilogue);
    else tcc_contract_emit(e, symbol, &h.k->plan, &epilogue);
    return h.status;
}

static tcc_status emit_combination(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    hooks h = {.k = plan->data};
    const tcc_contract_epilogue epilogue = {&h, h.k->epilogue.plain, begin, end, row, row_end, vector};
    if (e->target->kind == TCC_TARGET_CUDA) tcc_contract_gpu_emit_combine(e, symbol, &h.k->gpu, &epilogue);
    else tcc_contract_emit_combine(e, symbol, &h.k->plan, &epilogue);
    return h.status;
}

/* Items that take about 10 us together. */
static int64_t grain_of(double flop, int64_t items) {
    double each = flop / (double)items;
    return each >= 1e6 ? 1 : (int64_t)(1e6 / (each + 1)) + 1;
}

tcc_status tcc_lowering_set_buffers(tcc_lowering *l, tcc_plan_launch *launch, const tcc_plan_buffer *lead, int n_lead, const tcc_body *body) {
    tcc_plan_launch of_body = {0};
    if (body) TCC_TRY(tcc_lowering_use_body(l, &of_body, body));
    launch->kernel.n_buffers = n_lead + of_body.kernel.n_buffers;
    launch->buffers = TCC_ARENA_ARRAY(l->arena, tcc_plan_buffer, launch->kernel.n_buffers);
    if (!launch->buffers) return tcc_enomem(l->diag);
    for (int i = 0; i < launch->kernel.n_buffers; i++) launch->buffers[i] = i < n_lead ? lead[i] : of_body.buffers[i - n_lead];
    return TCC_OK;
}

static tcc_status set_params(tcc_lowering *l, tcc_plan_launch *launch, const int64_t *params, int n) {
    launch->kernel.n_params = n;
    launch->params = tcc_arena_copy(l->arena, params, sizeof *params * (size_t)n);
    return launch->params ? TCC_OK : tcc_enomem(l->diag);
}

/* What the schedule cannot express is left to plain loops. */
static tcc_status give_up(tcc_lowering *l) {
    l->launches.count = 0;
    return TCC_OK;
}

static tcc_status create_epilogue(tcc_lowering *l, const shape *s, tcc_epilogue *out) {
    tcc_diag quiet = {0}, *loud = l->diag;
    l->diag = &quiet;
    tcc_status status = tcc_epilogue_create(l, l->group->hero, s->n_dims, s->dims, out);
    l->diag = loud;
    if (status == TCC_OK) out->body->diag = loud;
    else if (status != TCC_EUNSUPPORTED) tcc_error(loud, status, TCC_NOWHERE, "%s", tcc_diag_text(&quiet));
    tcc_diag_clear(&quiet);
    return status;
}

/* Element (0, ..., 0) lies at a multiple of 16 bytes. */
static bool is_aligned(const operand *o) { return (o->offset * tcc_dtype_bytes(o->dtype) + o->buffer.offset_bytes) % 16 == 0; }

/* A product of matrices by a library, if one takes it. */
static tcc_status launch_library(tcc_lowering *l, shape *s, const tcc_epilogue *epilogue, bool *done) {
    tcc_matmul_dot *dot = TCC_ARENA_NEW(l->arena, tcc_matmul_dot);
    if (!dot) return tcc_enomem(l->diag);
    const operand *operands[] = {&s->a, &s->b};
    dot->c = s->c;
    tcc_contract_dims *const lists[] = {&dot->c.b, &dot->c.m, &dot->c.n, &dot->c.k};
    for (int list = 0; list < LISTS; list++) {
        lists[list]->n = 0;
        for (int i = 0; i < list_of(s, list)->n; i++) {
            if (list_of(s, list)->d[i].extent == 1) continue; /* nothing to walk */
            dot->loops[list][lists[list]->n] = s->where[list][i].dim;
            lists[list]->d[lists[list]->n++] = list_of(s, list)->d[i];
        }
    }
    for (int i = 0; i < 2; i++) {
        dot->operands[i].buffer = operands[i]->buffer;
        dot->operands[i].dtype = operands[i]->dtype;
        dot->operands[i].offset = operands[i]->offset;
    }
    dot->sum = s->sum;
    dot->summed = s->sum ? tcc_group_summed_operand(l->group->hero, s->sum) : 0;
    bool summed;
    TCC_TRY(tcc_lower_matmul(l, dot, epilogue, done, &summed));
    if (s->sum) *s->summed = summed;
    return TCC_OK;
}

static tcc_status launch_contraction(tcc_lowering *l, shape *s) {
    contraction *k = TCC_ARENA_NEW(l->arena, contraction);
    if (!k) return tcc_enomem(l->diag);
    tcc_status status = s->failed ? TCC_EUNSUPPORTED : create_epilogue(l, s, &k->epilogue);
    if (status == TCC_EUNSUPPORTED) return give_up(l);
    TCC_TRY(status);

    k->dtype = l->group->hero->type.dtype;
    if (s->matrices) {
        bool done;
        TCC_TRY(launch_library(l, s, &k->epilogue, &done));
        if (done) return TCC_OK;
    }

    /* Strides of the accesses, and where they begin. */
    int64_t strides[TCC_CONTRACT_MAX_ACCESSES][MAX_RESULT_DIMS], params[2 + TCC_CONTRACT_MAX_ACCESSES] = {s->a.offset, s->b.offset};
    s->c.n_accesses = 1 + k->epilogue.n_forms;
    int64_t dense = 1;
    for (int i = s->n_dims - 1; i >= 0; i--) strides[0][i] = dense, dense *= s->dims[i];
    for (int x = 0; x < s->c.n_accesses; x++)
        for (int i = 0; i < s->n_dims; i++) {
            if (x > 0) strides[x][i] = tcc_affine_coefficient(&k->epilogue.forms[x - 1], i);
            params[2 + x] += strides[x][i] * s->start[i];
        }
    uint64_t loops[LISTS] = {0};
    for (int list = 0; list < LISTS; list++)
        for (int i = 0; i < list_of(s, list)->n; i++) {
            in_result where = s->where[list][i];
            if (where.dim < 0) continue;
            loops[list] |= UINT64_C(1) << where.dim;
            for (int x = 0; x < s->c.n_accesses; x++) list_of(s, list)->d[i].c[x] = where.multiplier * strides[x][where.dim];
        }
    const bool cuda = l->target->kind == TCC_TARGET_CUDA;
    const tcc_contract_plan *p = &k->plan;
    const tcc_contract_gpu_plan *gpu = &k->gpu;
    tcc_strbuf text = {0};
    if (cuda) {
        const tcc_contract_gpu_operands operands = {.dtype = {s->a.dtype, s->b.dtype}, .sum = tcc_operand_sum_type(k->dtype),
                                                    .aligned = {is_aligned(&s->a), is_aligned(&s->b)}, .tf32 = l->options->tf32};
        TCC_TRY(tcc_contract_gpu_make_plan(l->target, &s->c, &operands, l->diag, &k->gpu));
        tcc_contract_gpu_key(&k->gpu, &text);
        for (int x = 0; x < s->c.n_accesses; x++) {
            k->multiples[x] = tcc_contract_gpu_multiple(gpu, x, params[2 + x]);
            tcc_strbuf_printf(&text, "%s%lld", x ? "," : " multiples ", (long long)k->multiples[x]);
        }
    } else {
        TCC_TRY(tcc_contract_make_plan(l->target, &s->c, l->diag, &k->plan));
        tcc_contract_key(&k->plan, &text);
    }
    k->lane_loops = loops[(cuda ? gpu->swapped : p->swapped) ? M : N];
    tcc_strbuf_printf(&text, " lanes %llx", (unsigned long long)k->lane_loops);
    char *key = text.failed ? NULL : tcc_arena_strdup(l->arena, text.text);
    tcc_strbuf_free(&text);
    if (!key) return tcc_enomem(l->diag);

    const int64_t k_splits = cuda ? gpu->k_splits : p->k_splits;
    tcc_plan_buffer lead[] = {s->a.buffer, s->b.buffer, {.temporary = -1, .written = true}};
    const tcc_body *body = k->epilogue.body;
    if (k_splits > 1) {
        lead[2].temporary = tcc_lowering_temporary(l, cuda ? gpu->workspace_bytes : p->workspace_bytes);
        if (lead[2].temporary < 0) return TCC_ENOMEM;
    }
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    launch->items = cuda ? gpu->items : p->items;
    launch->flop = cuda ? gpu->flop : p->flop;
    launch->grain = grain_of(launch->flop, launch->items);
    launch->kernel.schedule = "contract";
    launch->kernel.scratch_bytes = cuda ? gpu->scratch_bytes : p->scratch_bytes;
    if (cuda) launch->kernel.shape = (tcc_thread_shape){.threads = gpu->threads, .group = gpu->threads, .blocks = gpu->blocks};
    launch->kernel.emit = emit_contraction;
    launch->kernel.data = k;
    if (k_splits == 1) {
        TCC_TRY(tcc_lowering_set_buffers(l, launch, lead, 2, body));
        TCC_TRY(set_params(l, launch, params, 2 + s->c.n_accesses));
        return tcc_lowering_key(l, launch, body, -1, "%s", key);
    }
    TCC_TRY(tcc_lowering_set_buffers(l, launch, lead, 3, NULL));
    TCC_TRY(set_params(l, launch, params, 2));
    launch->kernel.key = key;

    launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    lead[2].written = false;
    launch->items = cuda ? gpu->combine_items : p->combine_items;
    launch->flop = (double)k_splits * (cuda ? (double)gpu->B * (double)gpu->M * (double)gpu->N : (double)p->B * (double)p->M * (double)p->N);
    launch->grain = grain_of(10 * launch->flop, launch->items);
    launch->kernel.schedule = "combine";
    if (cuda) launch->kernel.shape = (tcc_thread_shape){.threads = gpu->combine_threads, .group = gpu->combine_threads};
    launch->kernel.emit = emit_combination;
    launch->kernel.data = k;
    TCC_TRY(tcc_lowering_set_buffers(l, launch, lead + 2, 1, body));
    TCC_TRY(set_params(l, launch, params + 2, s->c.n_accesses));
    return tcc_lowering_key(l, launch, body, -1, "%s", key);
}

/* --- Operands */

/* The type that an operand is copied as: that of sums. */
static tcc_dtype type_of_copy(const tcc_lowering *l) { return tcc_operand_sum_type(l->group->hero->type.dtype); }

/* The type that an operand is read as where it lies: the host's schedule knows f32 alone. */
static tcc_dtype type_in_place(const tcc_lowering *l, const tcc_node *n) {
    bool narrow = n->type.dtype == TCC_F16 || n->type.dtype == TCC_BF16;
    return narrow && l->target->kind == TCC_TARGET_CUDA ? n->type.dtype : type_of_copy(l);
}

/* An operand's memory as it is: not evaluated inside the group. */
static bool in_memory(const tcc_lowering *l, const tcc_node *n) {
    return n->type.dtype == type_in_place(l, n) && !tcc_group_has(l->group, n) && n->op != TCC_OP_CONSTANT;
}

/* --- Dot */

static bool listed(const tcc_dims *d, int dim) {
    for (int i = 0; i < d->count; i++)
        if (d->v[i] == dim) return true;
    return false;
}

/* The walk over one operand of a dot in the joint space, in place or over a copy. */
static tcc_status dot_operand(tcc_lowering *l, tcc_body *b, const tcc_node *n, const tcc_affine *at, operand *out, tcc_affine *walk) {
    const tcc_expr *x = tcc_body_trace(b, n, at);
    TCC_TRY(b->status);
    out->dtype = type_in_place(l, n);
    if (tcc_operand_in_place(b, x, out->dtype, &out->buffer)) {
        *walk = x->affine;
    } else {
        out->buffer = (tcc_plan_buffer){0};
        out->dtype = type_of_copy(l);
        TCC_TRY(tcc_operand_copy(l, n, out->dtype, NULL, NULL, NULL, &out->buffer.temporary));
        *walk = tcc_affine_linear(b, at, n->type.rank, n->type.dims);
    }
    out->offset = walk->constant;
    return TCC_OK;
}

/* One dimension of the contraction for each loop of the joint space. */
static void add_loops(shape *s, const tcc_iteration *it, const int *lists, const tcc_affine *walk_a, const tcc_affine *walk_b) {
    int var = 0;
    for (int i = 0; i < it->rank; i++)
        for (int f = 0; f < it->axes[i].n; f++) {
            int64_t extent = it->axes[i].factors[f];
            if (extent == 1) continue; /* no loop either */
            int result = lists[i] == K ? -1 : add_result(s, extent);
            add(s, lists[i], extent, tcc_affine_coefficient(walk_a, var), tcc_affine_coefficient(walk_b, var), result);
            var++;
        }
}

/* With a sum of an operand wanted or NULL; *summed: it is made. */
static tcc_status lower_dot(tcc_lowering *l, const tcc_node *sum, bool *summed) {
    const tcc_node *hero = l->group->hero, *x = hero->operands[0], *w = hero->operands[1];
    const tcc_attrs_dot *dot = &hero->attrs->dot;
    int64_t dims[4 * TCC_MAX_RANK];
    int lists[4 * TCC_MAX_RANK], axis_a[TCC_MAX_RANK], axis_b[TCC_MAX_RANK], rank = 0;
    for (int i = 0; i < dot->batch_a.count; i++, rank++) {
        axis_a[dot->batch_a.v[i]] = axis_b[dot->batch_b.v[i]] = rank;
        dims[rank] = x->type.dims[dot->batch_a.v[i]], lists[rank] = B;
    }
    for (int i = 0; i < x->type.rank; i++)
        if (!listed(&dot->batch_a, i) && !listed(&dot->contract_a, i))
            axis_a[i] = rank, dims[rank] = x->type.dims[i], lists[rank++] = M;
    for (int i = 0; i < w->type.rank; i++)
        if (!listed(&dot->batch_b, i) && !listed(&dot->contract_b, i))
            axis_b[i] = rank, dims[rank] = w->type.dims[i], lists[rank++] = N;
    for (int i = 0; i < dot->contract_a.count; i++, rank++) {
        axis_a[dot->contract_a.v[i]] = axis_b[dot->contract_b.v[i]] = rank;
        dims[rank] = x->type.dims[dot->contract_a.v[i]], lists[rank] = K;
    }
    if (rank > TCC_MAX_RANK) return TCC_OK; /* rare enough for plain loops */
    tcc_iteration it;
    tcc_iteration_init(&it, rank, dims);
    for (;;) { /* refined until reshapes resolve */
        shape s = {.matrices = true, .sum = sum, .summed = summed};
        tcc_body *b = tcc_body_create(l->arena, l->diag, l->graph, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_affine coordinates[TCC_MAX_RANK], at_a[TCC_MAX_RANK], at_b[TCC_MAX_RANK], walk_a = {0}, walk_b = {0};
        tcc_iteration_open(b, &it, coordinates);
        for (int i = 0; i < x->type.rank; i++) at_a[i] = coordinates[axis_a[i]];
        for (int i = 0; i < w->type.rank; i++) at_b[i] = coordinates[axis_b[i]];
        tcc_body_trace(b, x, at_a);
        tcc_body_trace(b, w, at_b);
        bool again = tcc_iteration_refine(&it, b);
        b->split_var = -1;
        tcc_status status = b->status;
        if (status == TCC_OK && !again) status = dot_operand(l, b, x, at_a, &s.a, &walk_a);
        if (status == TCC_OK && !again) status = dot_operand(l, b, w, at_b, &s.b, &walk_b);
        tcc_body_free(b);
        TCC_TRY(status);
        if (again) continue;
        add_loops(&s, &it, lists, &walk_a, &walk_b);
        return launch_contraction(l, &s);
    }
}

/* --- Convolutions */

/* An image [N, spatial, C] or a kernel [O, spatial, C] in memory, by either layout. */
typedef struct image {
    operand at;
    int64_t outer, channel, spatial[3]; /* strides */
} image;

/* The operand in place or, padded or not in memory as it is, as a copy with channels last. */
static tcc_status image_operand(tcc_lowering *l, const tcc_conv *c, const tcc_node *n, const int64_t *lo, const int64_t *hi, image *out) {
    int64_t strides[TCC_MAX_RANK], padding_lo[TCC_MAX_RANK] = {0}, padding_hi[TCC_MAX_RANK] = {0};
    bool padded = false;
    *out = (image){.at.dtype = type_of_copy(l)};
    for (int i = 0; lo && i < c->n_spatial; i++) {
        padding_lo[c->first + i] = lo[i];
        padding_hi[c->first + i] = hi[i];
        padded = padded || lo[i] || hi[i];
    }
    if (!padded && in_memory(l, n)) {
        tcc_operand_dense(&n->type, strides);
        out->at.buffer = (tcc_plan_buffer){.node = n, .temporary = -1};
        out->at.dtype = n->type.dtype;
    } else {
        int perm[TCC_MAX_RANK] = {0};
        tcc_type type = {.rank = n->type.rank};
        for (int i = 0; i < c->n_spatial; i++) perm[1 + i] = c->first + i;
        perm[n->type.rank - 1] = c->channel;
        for (int i = 0; i < type.rank; i++) type.dims[i] = n->type.dims[perm[i]] + padding_lo[perm[i]] + padding_hi[perm[i]];
        TCC_TRY(tcc_operand_copy(l, n, out->at.dtype, perm, padding_lo, padding_hi, &out->at.buffer.temporary));
        int64_t copied[TCC_MAX_RANK];
        tcc_operand_dense(&type, copied);
        for (int i = 0; i < type.rank; i++) strides[perm[i]] = copied[i];
    }
    out->outer = strides[0];
    out->channel = strides[c->channel];
    for (int i = 0; i < c->n_spatial; i++) out->spatial[i] = strides[c->first + i];
    return TCC_OK;
}

/* The result's dims in row-major order: [N or O, spatial, channels] by the layout; the first or the channels as (group, within). */
typedef struct result_dims {
    int outer, group, channel, spatial[3];
} result_dims;

static result_dims add_result_dims(shape *s, const tcc_conv *c, const tcc_type *type, bool groups_outside, int64_t in_group) {
    result_dims r = {0};
    if (groups_outside) r.group = add_result(s, c->groups);
    r.outer = add_result(s, groups_outside ? in_group : type->dims[0]);
    for (int i = 1; i < type->rank; i++) {
        if (i >= c->first && i < c->first + c->n_spatial) {
            r.spatial[i - c->first] = add_result(s, type->dims[i]);
        } else {
            if (!groups_outside) r.group = add_result(s, c->groups);
            r.channel = add_result(s, groups_outside ? type->dims[i] : in_group);
        }
    }
    return r;
}

/* Whether the border of `n`, of which `channels` are read at a place, is better left out than padded. */
static bool by_windows(const tcc_lowering *l, const tcc_conv *c, const tcc_node *n, int64_t channels) {
    enum { LEAST_IMAGES = 4, LEAST_CHANNELS = 16 };
    if (l->target->kind == TCC_TARGET_CUDA) return in_memory(l, n); /* zeros cost nothing on the way to shared memory */
    return c->attrs->channels_last && in_memory(l, n) && n->type.dims[0] >= LEAST_IMAGES && channels >= LEAST_CHANNELS;
}

static bool any(const int64_t *a, int n) {
    for (int i = 0; i < n; i++)
        if (a[i]) return true;
    return false;
}

/* Positions along spatial dim `dim` of an operand: start + ..., with the coefficients set by the caller. */
static void add_window(shape *s, const tcc_conv *c, int dim, int64_t start, const tcc_node *n) {
    s->c.windows[dim] = (tcc_contract_window){start, n->type.dims[c->first + dim]};
    s->c.n_windows = c->n_spatial;
}

/* Kernels of one element on dense pixels: rows of channels times a matrix. */
static bool is_matrices(const tcc_conv *c) {
    bool single = c->groups == 1 && c->attrs->channels_last;
    for (int i = 0; i < c->n_spatial; i++)
        single = single && c->w->type.dims[c->first + i] == 1 && c->attrs->stride.v[i] == 1 && !c->attrs->pad_lo.v[i] && !c->attrs->pad_hi.v[i];
    return single;
}

static bool is_padded(const tcc_conv *c) { return any(c->attrs->pad_lo.v, c->n_spatial) || any(c->attrs->pad_hi.v, c->n_spatial); }

static tcc_status lower_conv_forward(tcc_lowering *l, const tcc_conv *c) {
    shape s = {.matrices = is_matrices(c)};
    image x, w;
    bool windows = is_padded(c) && by_windows(l, c, c->x, c->ci);
    if (windows) TCC_TRY(image_operand(l, c, c->x, NULL, NULL, &x));
    else TCC_TRY(image_operand(l, c, c->x, c->attrs->pad_lo.v, c->attrs->pad_hi.v, &x));
    TCC_TRY(image_operand(l, c, c->w, NULL, NULL, &w));
    result_dims r = add_result_dims(&s, c, &c->y->type, false, c->co);
    add(&s, B, c->groups, c->ci * x.channel, c->co * w.outer, r.group);
    add(&s, M, c->y->type.dims[0], x.outer, 0, r.outer);
    for (int i = 0; i < c->n_spatial; i++) {
        add(&s, M, c->y->type.dims[c->first + i], c->attrs->stride.v[i] * x.spatial[i], 0, r.spatial[i]);
        add(&s, K, c->w->type.dims[c->first + i], c->attrs->dilation.v[i] * x.spatial[i], w.spatial[i], -1);
        if (!windows) continue;
        add_window(&s, c, i, -c->attrs->pad_lo.v[i], c->x);
        s.c.m.d[s.c.m.n - 1].w[i] = c->attrs->stride.v[i];
        s.c.k.d[s.c.k.n - 1].w[i] = c->attrs->dilation.v[i];
        x.at.offset -= c->attrs->pad_lo.v[i] * x.spatial[i];
    }
    add(&s, N, c->co, 0, w.outer, r.channel);
    add(&s, K, c->ci, x.channel, w.channel, -1);
    s.a = x.at, s.b = w.at;
    return launch_contraction(l, &s);
}

static tcc_status lower_conv_grad_weight(tcc_lowering *l, const tcc_conv *c) {
    shape s = {.matrices = is_matrices(c)};
    image x, dy;
    bool windows = is_padded(c) && by_windows(l, c, c->x, c->ci) &&
                   (l->target->kind == TCC_TARGET_CUDA || c->ci % l->target->lanes == 0);
    s.c.window_b = windows;
    if (windows) TCC_TRY(image_operand(l, c, c->x, NULL, NULL, &x));
    else TCC_TRY(image_operand(l, c, c->x, c->attrs->pad_lo.v, c->attrs->pad_hi.v, &x));
    TCC_TRY(image_operand(l, c, c->y, NULL, NULL, &dy));
    result_dims r = add_result_dims(&s, c, &c->w->type, true, c->co);
    add(&s, B, c->groups, c->co * dy.channel, c->ci * x.channel, r.group);
    add(&s, M, c->co, dy.channel, 0, r.outer);
    add(&s, K, c->y->type.dims[0], dy.outer, x.outer, -1);
    for (int i = 0; i < c->n_spatial; i++) {
        add(&s, N, c->w->type.dims[c->first + i], 0, c->attrs->dilation.v[i] * x.spatial[i], r.spatial[i]);
        add(&s, K, c->y->type.dims[c->first + i], dy.spatial[i], c->attrs->stride.v[i] * x.spatial[i], -1);
        if (!windows) continue;
        add_window(&s, c, i, -c->attrs->pad_lo.v[i], c->x);
        s.c.n.d[s.c.n.n - 1].w[i] = c->attrs->dilation.v[i];
        s.c.k.d[s.c.k.n - 1].w[i] = c->attrs->stride.v[i];
        x.at.offset -= c->attrs->pad_lo.v[i] * x.spatial[i];
    }
    add(&s, N, c->ci, 0, x.channel, r.channel);
    s.a = dy.at, s.b = x.at;
    return launch_contraction(l, &s);
}

/* Along one spatial dim, positions y = stride * i + class of dx. They meet kernel elements k = stride * j + first_tap, at
 * dy position i + origin - j (with stride 1: i + origin - dilation * j). */
typedef struct residue {
    int64_t count, first_tap, taps, origin;
} residue;

static residue residue_of(const tcc_conv *c, int dim, int64_t class) {
    int64_t stride = c->attrs->stride.v[dim], extent = c->x->type.dims[c->first + dim], kernel = c->w->type.dims[c->first + dim];
    int64_t shifted = class + c->attrs->pad_lo.v[dim];
    residue r = {.count = extent > class ? (extent - class + stride - 1) / stride : 0, .first_tap = shifted % stride};
    r.taps = kernel > r.first_tap ? (kernel - r.first_tap + stride - 1) / stride : 0;
    r.origin = (shifted - r.first_tap) / stride;
    return r;
}

static int64_t tap_step(const tcc_conv *c, int dim) { return c->attrs->stride.v[dim] == 1 ? c->attrs->dilation.v[dim] : 1; }

static tcc_status lower_conv_grad_input(tcc_lowering *l, const tcc_conv *c) {
    int64_t lo[3] = {0}, hi[3] = {0}, classes = 1;
    for (int i = 0; i < c->n_spatial; i++) {
        if (c->attrs->stride.v[i] > 1 && c->attrs->dilation.v[i] > 1) return TCC_OK;
        classes *= c->attrs->stride.v[i];
        for (int64_t class = 0; class < c->attrs->stride.v[i]; class++) {
            residue r = residue_of(c, i, class);
            if (!r.taps || !r.count) continue;
            int64_t least = r.origin - (r.taps - 1) * tap_step(c, i), most = r.count - 1 + r.origin;
            int64_t beyond = most - (c->y->type.dims[c->first + i] - 1);
            if (-least > lo[i]) lo[i] = -least;
            if (beyond > hi[i]) hi[i] = beyond;
        }
    }
    image dy, w;
    bool windows = (any(lo, c->n_spatial) || any(hi, c->n_spatial)) && by_windows(l, c, c->y, c->co);
    for (int i = 0; i < c->n_spatial && windows; i++) lo[i] = hi[i] = 0;
    TCC_TRY(image_operand(l, c, c->y, lo, hi, &dy));
    TCC_TRY(image_operand(l, c, c->w, NULL, NULL, &w));
    for (int64_t class = 0; class < classes; class++) {
        shape s = {.a = dy.at, .b = w.at, .matrices = is_matrices(c)};
        result_dims r = add_result_dims(&s, c, &c->x->type, false, c->ci);
        add(&s, B, c->groups, c->co * dy.channel, c->co * w.outer, r.group);
        add(&s, M, c->x->type.dims[0], dy.outer, 0, r.outer);
        bool empty = false;
        int64_t rest = class;
        for (int i = c->n_spatial - 1; i >= 0; i--) {
            int64_t stride = c->attrs->stride.v[i];
            residue of = residue_of(c, i, rest % stride);
            s.start[r.spatial[i]] = rest % stride;
            rest /= stride;
            empty = empty || !of.count;
            add_strided(&s, M, of.count, dy.spatial[i], 0, (in_result){r.spatial[i], stride});
            add(&s, K, of.taps, -tap_step(c, i) * dy.spatial[i], stride * w.spatial[i], -1);
            if (windows) {
                add_window(&s, c, i, of.origin, c->y);
                s.c.m.d[s.c.m.n - 1].w[i] = 1;
                s.c.k.d[s.c.k.n - 1].w[i] = -tap_step(c, i);
            }
            s.a.offset += (of.origin + lo[i]) * dy.spatial[i];
            s.b.offset += of.first_tap * w.spatial[i];
        }
        add(&s, N, c->ci, 0, w.channel, r.channel);
        add(&s, K, c->co, dy.channel, w.outer, -1);
        if (!empty) TCC_TRY(launch_contraction(l, &s));
        if (!l->launches.count) return TCC_OK;
    }
    return TCC_OK;
}

static tcc_status lower_conv(tcc_lowering *l) {
    const tcc_node *hero = l->group->hero, *one = hero->operands[0], *two = hero->operands[1];
    tcc_conv c = {.attrs = &hero->attrs->conv, .n_spatial = hero->type.rank - 2};
    switch (hero->op) {
    case TCC_OP_CONV: c.x = one, c.w = two, c.y = hero; break;
    case TCC_OP_CONV_GRAD_INPUT: c.x = hero, c.w = two, c.y = one; break;
    default: c.x = one, c.w = hero, c.y = two; break;
    }
    c.first = c.attrs->channels_last ? 1 : 2;
    c.channel = c.attrs->channels_last ? hero->type.rank - 1 : 1;
    c.groups = c.attrs->groups;
    c.ci = c.x->type.dims[c.channel] / c.groups;
    c.co = c.y->type.dims[c.channel] / c.groups;
    bool done = false;
    if (l->target->kind == TCC_TARGET_HOST) TCC_TRY(tcc_lower_winograd(l, c.x, c.w, c.y, &done));
    if (!done && !is_matrices(&c)) TCC_TRY(tcc_lower_conv_library(l, &c, &done));
    if (done) return TCC_OK;
    if (c.groups > 1 && c.ci == 1 && c.co == 1) /* plain loops run vectors along the channels */
        return l->target->kind == TCC_TARGET_CUDA ? tcc_lower_depthwise(l, &c) : TCC_OK;
    if (hero->op == TCC_OP_CONV) return lower_conv_forward(l, &c);
    return hero->op == TCC_OP_CONV_GRAD_INPUT ? lower_conv_grad_input(l, &c) : lower_conv_grad_weight(l, &c);
}

/* The group without `sum`, which is stored, and a group of that alone. */
static tcc_status split_off(tcc_lowering *l, tcc_node *sum, tcc_group **rest, tcc_group **alone) {
    const tcc_group *from = l->group;
    tcc_node **nodes = TCC_ARENA_ARRAY(l->arena, tcc_node *, from->n_nodes + from->n_outputs + 1);
    *rest = TCC_ARENA_NEW(l->arena, tcc_group);
    *alone = TCC_ARENA_NEW(l->arena, tcc_group);
    if (!nodes || !*rest || !*alone) return tcc_enomem(l->diag);
    **rest = (tcc_group){.kind = from->kind, .hero = from->hero, .nodes = nodes, .outputs = nodes + from->n_nodes};
    for (int i = 0; i < from->n_nodes; i++)
        if (from->nodes[i] != sum) (*rest)->nodes[(*rest)->n_nodes++] = from->nodes[i];
    for (int i = 0; i < from->n_outputs; i++)
        if (from->outputs[i] != sum) (*rest)->outputs[(*rest)->n_outputs++] = from->outputs[i];
    tcc_node **self = nodes + from->n_nodes + from->n_outputs;
    *self = sum;
    **alone = (tcc_group){.kind = TCC_GROUP_REDUCE, .hero = sum, .n_nodes = 1, .n_outputs = 1, .nodes = self, .outputs = self};
    return TCC_OK;
}

/* A dot and the sum of an operand: by one library call, or each by kernels of its own. */
static tcc_status lower_dot_and_sum(tcc_lowering *l, tcc_node *sum) {
    const tcc_group *both = l->group;
    tcc_group *dot, *alone;
    bool summed = false;
    TCC_TRY(split_off(l, sum, &dot, &alone));
    l->group = dot;
    tcc_status status = lower_dot(l, sum, &summed);
    if (status == TCC_OK && !l->launches.count) status = tcc_lower_pointwise(l);
    l->group = alone;
    if (status == TCC_OK && !summed) status = tcc_lower_reduce(l);
    l->group = both;
    return status;
}

tcc_status tcc_lower_contract(tcc_lowering *l) {
    const tcc_node *hero = l->group->hero;
    tcc_dtype dtype = hero->type.dtype;
    if (dtype != TCC_F32 && dtype != TCC_F16 && dtype != TCC_BF16 && !(dtype == TCC_F64 && l->target->kind == TCC_TARGET_CUDA)) return TCC_OK;
    if (hero->op != TCC_OP_DOT) return lower_conv(l);
    for (int i = 0; i < l->group->n_nodes; i++)
        if (tcc_group_summed_operand(hero, l->group->nodes[i]) >= 0) return lower_dot_and_sum(l, l->group->nodes[i]);
    return lower_dot(l, NULL, NULL);
}
