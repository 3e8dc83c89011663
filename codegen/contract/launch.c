/* SPDX-License-Identifier: MIT
 * Launches of a contraction that a lowering has described: a library call, or our own kernels with an epilogue. */
#include "codegen/contract/computed.h"
#include "codegen/contract/epilogue.h"
#include "codegen/contract/launch.h"

#include "codegen/options.h"
#include "codegen/contract/gpu.h"
#include "codegen/contract/matmul_call.h"
#include "codegen/schedule/operand.h"
#include "codegen/schedule/predict.h"

#include <string.h>

enum { M = TCC_CONTRACT_M, N = TCC_CONTRACT_N, LISTS = TCC_CONTRACT_LISTS };

bool tcc_contract_stages_operands(const tcc_lowering *l) { return l->target->lane_groups; }

static tcc_contract_dims *list_of(tcc_contract_shape *s, int list) {
    tcc_contract_dims *const lists[] = {&s->c.b, &s->c.m, &s->c.n, &s->c.k};
    return lists[list];
}

int tcc_contract_add_result(tcc_contract_shape *s, int64_t extent) {
    if (s->n_dims == TCC_CONTRACT_MAX_RESULT_DIMS) {
        s->failed = true;
        return 0;
    }
    s->dims[s->n_dims] = extent;
    return s->n_dims++;
}

tcc_contract_dim *tcc_contract_add_strided(tcc_contract_shape *s, int list, int64_t extent, int64_t a, int64_t b,
                                           tcc_contract_result where) {
    tcc_contract_dims *l = list_of(s, list);
    s->failed = s->failed || l->n == TCC_CONTRACT_MAX_DIMS;
    if (s->failed) return &s->none;
    s->where[list][l->n] = where;
    l->d[l->n] = (tcc_contract_dim){.extent = extent, .a = a, .b = b};
    return &l->d[l->n++];
}

/* --- Kernels */

typedef struct contraction {
    bool on_gpu;
    tcc_contract_plan plan;    /* else */
    tcc_contract_gpu_plan gpu; /* on a GPU */
    tcc_thread_shape shape, combine_shape;
    int64_t items, scratch_bytes, k_splits, workspace_bytes, combine_items; /* of the plan */
    double flop, combine_flop, multiply_adds;
    bool swapped;
    tcc_epilogue epilogue;
    tcc_dtype dtype;                  /* of the result */
    uint64_t lane_loops;              /* of the epilogue's body: may differ from lane to lane */
    const tcc_prologue *prologues[2]; /* of A and B; NULL: in memory */
    tcc_contract_computed computed[2];
    int64_t multiples[TCC_CONTRACT_MAX_ACCESSES]; /* GPU: of an access's offsets at vectors, in elements; at most 16 */
} contraction;

const tcc_contract_plan *tcc_contract_plan_of(const tcc_plan_launch *launch) {
    return &((const contraction *)launch->kernel.data)->plan;
}

typedef struct hooks {
    const contraction *k;
    tcc_body_run run;
    tcc_status status;
} hooks;

static void begin(void *user, tcc_emitter *e, int first_buffer) {
    hooks *h = user;
    h->status = tcc_body_run_begin(&h->run, e, h->k->epilogue.body, first_buffer);
    if (h->status != TCC_OK) return;
    if (h->k->on_gpu) h->run.form_multiples = h->k->multiples + 1;
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

/* The port has the sums as they are; what reads the result finds it rounded to its type. */
static tcc_emit_value vector(void *user, tcc_emitter *e, tcc_emit_value sums, const tcc_contract_place *place) {
    (void)e;
    hooks *h = user;
    if (h->status == TCC_OK)
        tcc_epilogue_vector(&h->run, &h->k->epilogue, place->offset + 1, place->lane_stride + 1, sums, place->mask);
    return NULL;
}

static void prefetch(void *user, tcc_emitter *e, const tcc_contract_place *place) {
    (void)e;
    hooks *h = user;
    if (h->status == TCC_OK) tcc_epilogue_prefetch(&h->run, &h->k->epilogue, place->offset + 1, place->lane_stride + 1);
}

/* B on the host, where it is computed. */
typedef struct host_work {
    const contraction *k;
    tcc_computed_run run;
} host_work;

static tcc_emit_value work_begin(void *user, tcc_emitter *e, int first_buffer) {
    host_work *w = user;
    return tcc_computed_begin(&w->run, e, w->k->prologues[1], first_buffer);
}

static void work_columns(void *user, tcc_emit_value column, tcc_emit_value mask) {
    host_work *w = user;
    tcc_computed_columns(&w->run, column, w->k->plan.N, mask);
}

static tcc_emit_value work_vector(void *user, tcc_emit_value address, tcc_emit_value mask) {
    return tcc_computed_vector(&((host_work *)user)->run, address, mask);
}

static void work_columns_end(void *user) { tcc_computed_columns_end(&((host_work *)user)->run); }

static void work_end(void *user) { tcc_computed_end(&((host_work *)user)->run); }

static tcc_status emit_on_host(tcc_emitter *e, const char *symbol, hooks *h, const tcc_contract_epilogue *epilogue) {
    const tcc_prologue *b = h->k->prologues[1];
    host_work computed = {.k = h->k};
    const tcc_contract_work work = {.user = &computed,
                                    .n_buffers = b ? tcc_prologue_buffers(b, NULL) : 0,
                                    .begin = work_begin,
                                    .columns = work_columns,
                                    .vector = work_vector,
                                    .columns_end = work_columns_end,
                                    .end = work_end};
    tcc_contract_emit(e, symbol, &h->k->plan, b ? &work : NULL, epilogue);
    return h->status != TCC_OK ? h->status : computed.run.status;
}

static tcc_status emit_contraction(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    hooks h = {.k = plan->data};
    const tcc_contract_epilogue epilogue = {
        &h, h.k->epilogue.plain, h.k->epilogue.wide, begin, end, row, row_end, vector, prefetch};
    if (!h.k->on_gpu) return emit_on_host(e, symbol, &h, &epilogue);
    tcc_prologue_run runs[2] = {0};
    tcc_contract_prologue open[2];
    const tcc_contract_prologue *prologues[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        if (h.k->prologues[i]) tcc_prologue_open(&runs[i], h.k->prologues[i], &open[i]), prologues[i] = &open[i];
    tcc_contract_gpu_emit(e, symbol, &h.k->gpu, prologues, &epilogue);
    return h.status != TCC_OK ? h.status : runs[0].status != TCC_OK ? runs[0].status : runs[1].status;
}

static tcc_status emit_combination(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    hooks h = {.k = plan->data};
    const tcc_contract_epilogue epilogue = {
        &h, h.k->epilogue.plain, h.k->epilogue.wide, begin, end, row, row_end, vector, prefetch};
    if (h.k->on_gpu) tcc_contract_gpu_emit_combine(e, symbol, &h.k->gpu, &epilogue);
    else tcc_contract_emit_combine(e, symbol, &h.k->plan, &epilogue);
    return h.status;
}

/* Items that take about 10 us together. */
static int64_t grain_of(double flop, int64_t items) {
    double each = flop / (double)items;
    return each >= 1e6 ? 1 : (int64_t)(1e6 / (each + 1)) + 1;
}

tcc_status tcc_lowering_set_buffers(tcc_lowering *l, tcc_plan_launch *launch, const tcc_plan_buffer *lead, int n_lead,
                                    const tcc_body *body) {
    tcc_plan_launch of_body = {0};
    if (body) TCC_TRY(tcc_lowering_use_body(l, &of_body, body));
    launch->body = body;
    launch->first_of_body = n_lead;
    launch->kernel.n_buffers = n_lead + of_body.kernel.n_buffers;
    launch->buffers = TCC_ARENA_ARRAY(l->arena, tcc_plan_buffer, launch->kernel.n_buffers);
    if (!launch->buffers) return tcc_enomem(l->diag);
    for (int i = 0; i < launch->kernel.n_buffers; i++)
        launch->buffers[i] = i < n_lead ? lead[i] : of_body.buffers[i - n_lead];
    launch->bytes = of_body.bytes;
    for (int i = 0; i < n_lead; i++) launch->bytes += tcc_predict_buffer_bytes(l, &lead[i]);
    return TCC_OK;
}

static tcc_status set_params(tcc_lowering *l, tcc_plan_launch *launch, const int64_t *params, int n) {
    launch->kernel.n_params = n;
    launch->params = tcc_arena_copy(l->arena, params, sizeof *params * (size_t)n);
    return launch->params ? TCC_OK : tcc_enomem(l->diag);
}

static tcc_status create_epilogue(tcc_lowering *l, const tcc_contract_shape *s, tcc_epilogue *out) {
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
static bool is_aligned(const tcc_contract_operand *o) {
    return (o->offset * tcc_dtype_bytes(o->dtype) + o->buffer.offset_bytes) % 16 == 0;
}

/* The operand's buffers behind the `n` that are there. */
static int add_buffers(const tcc_contract_operand *o, tcc_plan_buffer *out, int n) {
    if (o->prologue) return n + tcc_prologue_buffers(o->prologue, out + n);
    out[n] = o->buffer;
    return n + 1;
}

/* A product of matrices by a library, if one takes it. */
static tcc_status launch_library(tcc_lowering *l, tcc_contract_shape *s, const tcc_epilogue *epilogue, bool *done) {
    tcc_matmul_dot *dot = TCC_ARENA_NEW(l->arena, tcc_matmul_dot);
    if (!dot) return tcc_enomem(l->diag);
    const tcc_contract_operand *operands[] = {&s->a, &s->b};
    dot->c = s->c;
    tcc_contract_dims *const lists[] = {&dot->c.b, &dot->c.m, &dot->c.n, &dot->c.k};
    for (int list = 0; list < LISTS; list++) {
        lists[list]->n = 0;
        for (int i = 0; i < list_of(s, list)->n; i++) {
            if (list_of(s, list)->d[i].extent == 1) continue; /* no loop */
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

/* Strides of the accesses in the contraction's dimensions, and where each begins: in params[2 ...]. */
static void set_accesses(tcc_contract_shape *s, const tcc_epilogue *epilogue, int64_t *params, uint64_t *loops) {
    int64_t strides[TCC_CONTRACT_MAX_ACCESSES][TCC_CONTRACT_MAX_RESULT_DIMS], dense = 1;
    s->c.n_accesses = 1 + epilogue->n_forms;
    for (int i = s->n_dims - 1; i >= 0; i--) strides[0][i] = dense, dense *= s->dims[i];
    for (int x = 0; x < s->c.n_accesses; x++)
        for (int i = 0; i < s->n_dims; i++) {
            if (x > 0) strides[x][i] = tcc_affine_coefficient(&epilogue->forms[x - 1], i);
            params[2 + x] += strides[x][i] * s->start[i];
        }
    for (int list = 0; list < LISTS; list++)
        for (int i = 0; i < list_of(s, list)->n; i++) {
            tcc_contract_result where = s->where[list][i];
            if (where.dim < 0) continue;
            loops[list] |= UINT64_C(1) << where.dim;
            for (int x = 0; x < s->c.n_accesses; x++)
                list_of(s, list)->d[i].c[x] = where.multiplier * strides[x][where.dim];
        }
}

static tcc_status plan_gpu(tcc_lowering *l, const tcc_contract_shape *s, contraction *k, const int64_t *params,
                           tcc_strbuf *key) {
    const tcc_contract_gpu_plan *p = &k->gpu;
    const tcc_contract_operand *const operands_of[] = {&s->a, &s->b};
    tcc_contract_gpu_operands operands = {.dtype = {s->a.dtype, s->b.dtype},
                                          .sum = tcc_operand_sum_type(k->dtype),
                                          .aligned = {is_aligned(&s->a), is_aligned(&s->b)},
                                          .tf32 = l->options->tf32};
    for (int i = 0; i < 2; i++)
        if (k->prologues[i]) {
            k->computed[i] = k->prologues[i]->reads;
            memcpy(k->computed[i].begin, operands_of[i]->begin, sizeof k->computed[i].begin);
            operands.computed[i] = &k->computed[i];
            operands.n_buffers[i] = tcc_prologue_buffers(k->prologues[i], NULL);
        }
    TCC_TRY(tcc_contract_gpu_make_plan(l->target, &s->c, &operands, &l->params, l->diag, &k->gpu));
    tcc_contract_gpu_key(p, key);
    for (int x = 0; x < s->c.n_accesses; x++) {
        k->multiples[x] = tcc_contract_gpu_multiple(p, x, params[2 + x]);
        tcc_strbuf_printf(key, "%s%lld", x ? "," : " multiples ", (long long)k->multiples[x]);
    }
    k->shape = (tcc_thread_shape){.threads = p->threads, .group = p->threads, .blocks = p->blocks};
    k->combine_shape = (tcc_thread_shape){.threads = p->combine_threads, .group = p->combine_threads};
    k->items = p->items;
    k->scratch_bytes = p->scratch_bytes;
    k->k_splits = p->k_splits;
    k->workspace_bytes = p->workspace_bytes;
    k->combine_items = p->combine_items;
    k->flop = p->flop;
    k->combine_flop = (double)p->k_splits * ((double)p->B * (double)p->M * (double)p->N);
    k->swapped = p->swapped;
    return TCC_OK;
}

/* Whether a column of B tells its channel: B's columns lie one after the other, and all else moves by whole pixels. So
 * it does not matter what was merged into the columns. */
static bool columns_tell_channels(const tcc_contract_plan *p, const tcc_contract_operand *b, int lanes) {
    const int64_t channels = b->prologue->n_channels;
    const tcc_contract_dims *const others[] = {&p->c.b, &p->c.k};
    bool pixels = b->offset % channels == 0;
    for (int list = 0; list < 2; list++)
        for (int i = 0; i < others[list]->n; i++) pixels = pixels && others[list]->d[i].b % channels == 0;
    return pixels && p->c.n.d[0].b == 1 && p->N % channels == 0 && channels % lanes == 0;
}

static tcc_status plan_host(tcc_lowering *l, const tcc_contract_shape *s, contraction *k, tcc_strbuf *key) {
    const tcc_contract_plan *p = &k->plan;
    tcc_contract c = s->c;
    c.dtype = s->a.dtype;
    c.computes_b = s->b.prologue != NULL;
    if (s->a.prologue) return TCC_BUG(l->diag, "the first operand cannot be computed");
    if (s->b.dtype != c.dtype) return TCC_BUG(l->diag, "operands of two types");
    TCC_TRY(tcc_contract_make_plan(l->target, &c, &l->params, l->diag, &k->plan));
    if (c.computes_b && !columns_tell_channels(p, &s->b, l->target->lanes))
        return TCC_BUG(l->diag, "columns of a computed operand that are no channels");
    tcc_contract_key(p, key);
    k->items = p->items;
    k->scratch_bytes = p->scratch_bytes;
    k->k_splits = p->k_splits;
    k->workspace_bytes = p->workspace_bytes;
    k->combine_items = p->combine_items;
    k->flop = p->flop;
    k->combine_flop = (double)p->k_splits * ((double)p->B * (double)p->M * (double)p->N);
    k->multiply_adds = p->multiply == TCC_CONTRACT_TILES   ? l->target->hw.fma_bf16_tiles
                       : p->multiply == TCC_CONTRACT_PAIRS ? l->target->hw.fma_bf16_pairs
                                                           : 0;
    k->swapped = p->swapped;
    return TCC_OK;
}

/* The plan, and a key that is equal for equal kernels. */
static tcc_status make_plan(tcc_lowering *l, const tcc_contract_shape *s, contraction *k, const int64_t *params,
                            const uint64_t *loops, char **key) {
    tcc_strbuf text = {0};
    k->on_gpu = tcc_contract_stages_operands(l);
    tcc_status status = k->on_gpu ? plan_gpu(l, s, k, params, &text) : plan_host(l, s, k, &text);
    for (int i = 0; i < 2 && status == TCC_OK; i++)
        if (k->prologues[i]) {
            tcc_strbuf_printf(&text, "\n%s is %d of ", i ? "B" : "A", k->prologues[i]->value->id);
            tcc_body_describe(k->prologues[i]->body, -1, &text);
            tcc_strbuf_add(&text, "\n");
        }
    k->lane_loops = loops[k->swapped ? M : N];
    tcc_strbuf_printf(&text, " lanes %llx", (unsigned long long)k->lane_loops);
    *key = text.failed ? NULL : tcc_arena_strdup(l->arena, text.text);
    tcc_strbuf_free(&text);
    return status != TCC_OK ? status : *key ? TCC_OK : tcc_enomem(l->diag);
}

/* A launch of the contraction's kernel, or (`combine`) of the one that adds the parts of a split k. */
static tcc_plan_launch *add_launch(tcc_lowering *l, const contraction *k, bool combine) {
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return NULL;
    launch->items = combine ? k->combine_items : k->items;
    launch->flop = combine ? k->combine_flop : k->flop;
    launch->multiply_adds = combine ? 0 : k->multiply_adds;
    launch->matrices = !k->on_gpu && k->plan.multiply == TCC_CONTRACT_TILES;
    launch->grain = grain_of(combine ? 10 * launch->flop : launch->flop, launch->items);
    launch->kernel.schedule = combine ? "combine" : "contract";
    launch->kernel.scratch_bytes = combine ? 0 : k->scratch_bytes;
    launch->kernel.shape = combine ? k->combine_shape : k->shape;
    launch->kernel.emit = combine ? emit_combination : emit_contraction;
    if (combine || k->k_splits == 1) launch->kernel.in_step = tcc_body_in_step;
    launch->kernel.data = k;
    launch->kernel.transposes = !combine && !k->on_gpu && tcc_contract_calls_transpose(&k->plan);
    return launch;
}

/* Of the result that the epilogue's body is of, what these loops make. */
static double part_of(const tcc_contract_shape *s) {
    const tcc_contract_dims *const lists[] = {&s->c.b, &s->c.m, &s->c.n};
    double points = 1, all = 1;
    for (int list = 0; list < 3; list++)
        for (int i = 0; i < lists[list]->n; i++) points *= (double)lists[list]->d[i].extent;
    for (int i = 0; i < s->n_dims; i++) all *= (double)s->dims[i];
    return points / all;
}

static tcc_status launch_kernels(tcc_lowering *l, const tcc_contract_shape *s, const contraction *k,
                                 const int64_t *params, char *key) {
    int n_lead = 0;
    for (int i = 0; i < 2; i++) n_lead += k->prologues[i] ? tcc_prologue_buffers(k->prologues[i], NULL) : 1;
    tcc_plan_buffer *lead = TCC_ARENA_ARRAY(l->arena, tcc_plan_buffer, n_lead + 1);
    if (!lead) return tcc_enomem(l->diag);
    add_buffers(&s->b, lead, add_buffers(&s->a, lead, 0));
    lead[n_lead] = (tcc_plan_buffer){.temporary = -1, .written = true};
    const tcc_body *body = k->epilogue.body;
    if (k->k_splits > 1) {
        lead[n_lead].temporary = tcc_lowering_temporary(l, k->workspace_bytes);
        if (lead[n_lead].temporary < 0) return TCC_ENOMEM;
    }
    tcc_plan_launch *launch = add_launch(l, k, false);
    if (!launch) return TCC_ENOMEM;
    if (k->k_splits == 1) {
        TCC_TRY(tcc_lowering_set_buffers(l, launch, lead, n_lead, body));
        launch->part = part_of(s);
        if (!k->on_gpu && k->prologues[1]) tcc_computed_set_bytes(l, k->prologues[1], launch);
        TCC_TRY(set_params(l, launch, params, 2 + s->c.n_accesses));
        return tcc_lowering_key(l, launch, body, -1, "%s", key);
    }
    TCC_TRY(tcc_lowering_set_buffers(l, launch, lead, n_lead + 1, NULL));
    if (!k->on_gpu && k->prologues[1]) tcc_computed_set_bytes(l, k->prologues[1], launch);
    TCC_TRY(set_params(l, launch, params, 2));
    launch->kernel.key = key;

    launch = add_launch(l, k, true);
    if (!launch) return TCC_ENOMEM;
    lead[n_lead].written = false;
    TCC_TRY(tcc_lowering_set_buffers(l, launch, lead + n_lead, 1, body));
    launch->part = part_of(s);
    TCC_TRY(set_params(l, launch, params + 2, s->c.n_accesses));
    return tcc_lowering_key(l, launch, body, -1, "%s", key);
}

tcc_status tcc_contract_launch(tcc_lowering *l, tcc_contract_shape *s) {
    contraction *k = TCC_ARENA_NEW(l->arena, contraction);
    if (!k) return tcc_enomem(l->diag);
    tcc_status status = s->failed ? TCC_EUNSUPPORTED : create_epilogue(l, s, &k->epilogue);
    if (status == TCC_EUNSUPPORTED) return tcc_lowering_give_up(l);
    TCC_TRY(status);
    k->dtype = l->group->hero->type.dtype;
    k->prologues[0] = s->a.prologue;
    k->prologues[1] = s->b.prologue;
    if (l->library) {
        bool done = false;
        if (s->matrices && !s->a.prologue && !s->b.prologue) TCC_TRY(launch_library(l, s, &k->epilogue, &done));
        return done ? TCC_OK : tcc_lowering_give_up(l);
    }
    int64_t params[2 + TCC_CONTRACT_MAX_ACCESSES] = {s->a.offset, s->b.offset};
    uint64_t loops[LISTS] = {0};
    char *key;
    set_accesses(s, &k->epilogue, params, loops);
    TCC_TRY(make_plan(l, s, k, params, loops, &key));
    return launch_kernels(l, s, k, params, key);
}

tcc_dtype tcc_contract_type_of_copy(const tcc_lowering *l, const tcc_node *n) {
    return tcc_contract_stages_operands(l) ? tcc_operand_sum_type(n->type.dtype) : n->type.dtype;
}

tcc_dtype tcc_contract_type_in_place(const tcc_lowering *l, const tcc_node *n) {
    bool narrow = tcc_dtype_is_narrow(n->type.dtype);
    return narrow ? n->type.dtype : tcc_contract_type_of_copy(l, n);
}
