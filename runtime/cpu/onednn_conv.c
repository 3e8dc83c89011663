/* SPDX-License-Identifier: MIT
 * Convolutions by oneDNN: one primitive for a slice of the batch, run once for each slice with one library thread in
 * ours.
 *
 * The number of slices follows from the shape alone, so that a result does not depend on the number of threads. The
 * weights' layout is oneDNN's choice; where it is not the program's, they are converted in each run (they change in
 * each step anyway). The filter gradient sums over the batch: slices write partial sums, which are then added in order.
 */
#include "runtime/cpu/library_table.h"

#include "ir/support/alloc.h"

#include <stdatomic.h>
#include <string.h>

enum {
    SLICES = 16,              /* at most */
    GRAIN_FLOP = 400000,      /* less is not worth a thread */
    SUM_ITEM = 1024,          /* floats of the filter gradient's final sum in one item */
    SUM_GRAIN = 16,           /* items */
    REORDER_CHANNELS = 64,    /* the weights' conversion is cut between multiples of these; a multiple of any block */
    REORDER_FLOATS = 1 << 16, /* and not below this size */
    ALIGNMENT = 64,
    MAX_ARGS = 5,
};

typedef enum tensor { X, W, BIAS, Y, SCRATCHPAD, TENSORS } tensor;

typedef struct conv_worker {
    void *stream;
    void *memory[TENSORS];
    const void *at[TENSORS]; /* what the memory objects point to */
} conv_worker;

/* The conversion of a range of output channels. */
typedef struct reorder {
    void *primitive, *memory[2]; /* from, to */
} reorder;

typedef struct conv_call {
    const tcc_onednn_functions *f;
    dnn_conv_kind kind;
    tcc_conv_params p;
    dnn_conv conv; /* of one slice */
    dnn_md w_given;
    dnn_dims w; /* dimensions of the weights, groups first if there are several */
    void *pd, *primitive;
    int reorders; /* parts in which the weights are converted; 0: the program's layout is oneDNN's */
    reorder *reorder;
    int64_t slices, grain;
    int64_t x_step, y_step; /* floats between slices */
    int64_t w_floats;       /* in oneDNN's layout */
    int64_t partial_floats; /* w_floats rounded up: between partial sums */
    int threads;
    conv_worker *workers;
} conv_call;

/* --- making --- */

static tcc_status dnn_error(tcc_diag *d, const conv_call *c, int status, const char *what) {
    static const char *const names[] = {"conv_forward", "conv_data_gradient", "conv_filter_gradient"};
    const tcc_conv_params *p = &c->p;
    return tcc_error(
        d,
        status == 1   ? TCC_ENOMEM
        : status == 3 ? TCC_EUNSUPPORTED
                      : TCC_EDEVICE,
        TCC_NOWHERE,
        "onednn.%s: %s: %s; batch %lld, channels %lld to %lld in %lld groups, %lldx%lldx%lld to %lldx%lldx%lld",
        names[c->kind], what, tcc__dnn_status_text(status), (long long)p->batch, (long long)p->in, (long long)p->out,
        (long long)p->groups, (long long)p->x_size[0], (long long)p->x_size[1], (long long)p->x_size[2],
        (long long)p->y_size[0], (long long)p->y_size[1], (long long)p->y_size[2]);
}

static bool well_formed(const tcc_conv_params *p) {
    if (p->batch < 1 || p->groups < 1 || p->in < 1 || p->out < 1 || p->in % p->groups || p->out % p->groups)
        return false;
    for (int i = 0; i < 3; i++) {
        if (p->x_size[i] < 1 || p->y_size[i] < 1 || p->kernel[i] < 1 || p->stride[i] < 1 || p->dilation[i] < 1)
            return false;
        int64_t span = (p->kernel[i] - 1) * p->dilation[i] + 1;
        if ((p->x_size[i] + p->pad_low[i] + p->pad_high[i] - span) / p->stride[i] + 1 != p->y_size[i]) return false;
    }
    for (int i = 0; i < 5; i++)
        if (p->x_stride[i] < 0 || p->y_stride[i] < 0 || p->w_stride[i] < 0) return false;
    return true;
}

static double slice_flop(const conv_call *c) {
    const tcc_conv_params *p = &c->p;
    double positions = (double)(p->batch / c->slices) * (double)p->y_size[0] * (double)p->y_size[1] *
                       (double)p->y_size[2];
    return 2 * positions * (double)p->out * (double)(p->in / p->groups) *
           (double)(p->kernel[0] * p->kernel[1] * p->kernel[2]);
}

/* The largest number of equal slices of the batch, up to `most`. */
static int64_t slice_count(int64_t batch, int64_t most) {
    int64_t n = most < batch ? most : batch;
    while (n > 1 && batch % n) n--;
    return n < 1 ? 1 : n;
}

static void choose_slices(conv_call *c) {
    const tcc_conv_params *p = &c->p;
    c->slices = slice_count(p->batch, SLICES);
    if (c->kind == DNN_CONV_FILTER_GRADIENT) {
        /* A partial sum costs memory and its traffic; as many as keep that near 5 % of the arithmetic (at a rough 20
         * flop a byte), but two where the batch has them. */
        double flop = slice_flop(c) * (double)c->slices;
        double bytes = 4.0 * (double)p->out * (double)(p->in / p->groups) *
                       (double)(p->kernel[0] * p->kernel[1] * p->kernel[2]);
        double most = flop / bytes * 0.05 / 20;
        c->slices = slice_count(p->batch, most >= SLICES ? SLICES : most <= 2 ? 2 : (int64_t)most);
    }
    double flop = slice_flop(c);
    c->grain = flop < GRAIN_FLOP ? (int64_t)(GRAIN_FLOP / flop) + 1 : 1;
}

/* oneDNN's view of the params: spatial dimensions without the absent leading ones, but two at least. */
static int make_descriptors(conv_call *c) {
    const tcc_conv_params *p = &c->p;
    bool flat = p->x_size[0] == 1 && p->y_size[0] == 1 && p->kernel[0] == 1 && p->stride[0] == 1 && !p->pad_low[0] &&
                !p->pad_high[0];
    int first = flat ? 1 : 0, spatial = 3 - first, ndims = 2 + spatial, grouped = p->groups > 1;
    dnn_dims x = {p->batch / c->slices, p->in}, y = {x[0], p->out}, x_strides = {p->x_stride[0], p->x_stride[1]};
    dnn_dims y_strides = {p->y_stride[0], p->y_stride[1]}, w_strides = {0};
    int64_t *w = c->w;
    int g = 0;
    if (grouped) {
        w[g] = p->groups;
        w_strides[g++] = p->w_stride[0] * (p->out / p->groups);
    }
    w[g] = p->out / p->groups;
    w_strides[g++] = p->w_stride[0];
    w[g] = p->in / p->groups;
    w_strides[g++] = p->w_stride[1];
    for (int i = 0; i < spatial; i++) {
        x[2 + i] = p->x_size[first + i];
        y[2 + i] = p->y_size[first + i];
        x_strides[2 + i] = p->x_stride[2 + first + i];
        y_strides[2 + i] = p->y_stride[2 + first + i];
        w[g + i] = p->kernel[first + i];
        w_strides[g + i] = p->w_stride[2 + first + i];
        c->conv.stride[i] = p->stride[first + i];
        c->conv.dilation[i] = p->dilation[first + i] - 1;
        c->conv.pad_low[i] = p->pad_low[first + i];
        c->conv.pad_high[i] = p->pad_high[first + i];
    }
    c->conv.relu = p->relu;
    c->x_step = x[0] * p->x_stride[0];
    c->y_step = x[0] * p->y_stride[0];
    int status = tcc__dnn_md_create(c->f, &c->conv.x, ndims, x, x_strides);
    if (!status) status = tcc__dnn_md_create(c->f, &c->conv.y, ndims, y, y_strides);
    if (!status) status = tcc__dnn_md_create(c->f, &c->conv.w, ndims + grouped, w, NULL);
    if (!status) status = tcc__dnn_md_create(c->f, &c->w_given, ndims + grouped, w, w_strides);
    if (!status && p->bias && c->kind == DNN_CONV_FORWARD)
        status = tcc__dnn_md_create(c->f, &c->conv.bias, 1, &p->out, &(int64_t){1});
    return status;
}

/* The conversion of output channels [first, first + count) of each group; `w` are all dimensions. */
static int make_reorder(conv_call *c, reorder *r, const void *w_inner, const dnn_dims w, int64_t first, int64_t count) {
    const tcc_onednn_functions *f = c->f;
    int channel = c->p.groups > 1;
    dnn_dims dims, offsets = {0};
    memcpy(dims, w, sizeof dims);
    dims[channel] = count;
    offsets[channel] = first;
    dnn_md inner = {0}, given = {0};
    int status = tcc__dnn_md_create_part(f, &inner, w_inner, dims, offsets);
    if (!status) status = tcc__dnn_md_create_part(f, &given, c->w_given.handle, dims, offsets);
    bool back = c->kind == DNN_CONV_FILTER_GRADIENT;
    const void *from = back ? inner.handle : given.handle, *to = back ? given.handle : inner.handle;
    void *pd = NULL;
    if (!status) status = f->reorder_pd_create(&pd, from, f->engine, to, f->engine, NULL);
    if (!status) status = f->primitive_create(&r->primitive, pd);
    if (!status) status = f->memory_create(&r->memory[0], from, f->engine, NULL);
    if (!status) status = f->memory_create(&r->memory[1], to, f->engine, NULL);
    if (pd) f->pd_destroy(pd);
    tcc__dnn_md_destroy(f, &inner);
    tcc__dnn_md_destroy(f, &given);
    return status;
}

static void destroy_reorders(conv_call *c) {
    for (int i = 0; i < c->reorders; i++) {
        reorder *r = &c->reorder[i];
        for (int m = 0; m < 2; m++)
            if (r->memory[m]) c->f->memory_destroy(r->memory[m]);
        if (r->primitive) c->f->primitive_destroy(r->primitive);
        *r = (reorder){0};
    }
}

/* Large weights are converted in parts of whole blocks of channels, whatever the blocks may be; if oneDNN refuses, in
 * one. */
static int make_reorders(conv_call *c, const void *w_inner) {
    if (c->f->md_equal(w_inner, c->w_given.handle)) return 0;
    int64_t channels = c->w[c->p.groups > 1], parts = c->w_floats / REORDER_FLOATS;
    if (parts > SLICES) parts = SLICES;
    if (parts < 1 || c->p.groups > 1 || channels % REORDER_CHANNELS) parts = 1;
    while (channels / REORDER_CHANNELS % parts) parts--;
    c->reorder = tcc__calloc((size_t)parts, sizeof *c->reorder);
    if (!c->reorder) return 1;
    int status;
    for (;; parts = 1) {
        c->reorders = (int)parts;
        status = 0;
        for (int i = 0; i < parts && !status; i++)
            status = make_reorder(c, &c->reorder[i], w_inner, c->w, i * (channels / parts), channels / parts);
        if (!status || parts == 1) return status;
        destroy_reorders(c);
    }
}

static int make_workers(conv_call *c, const void *w_inner, const void *scratchpad) {
    const tcc_onednn_functions *f = c->f;
    const void *mds[TENSORS] = {c->conv.x.handle, w_inner, c->conv.bias.handle, c->conv.y.handle, scratchpad};
    int status = 0;
    for (int w = 0; w < c->threads && !status; w++) {
        status = f->stream_create(&c->workers[w].stream, f->engine, 1);
        for (int t = 0; t < TENSORS && !status; t++)
            if (mds[t]) status = f->memory_create(&c->workers[w].memory[t], mds[t], f->engine, NULL);
    }
    return status;
}

static tcc_status make(conv_call *c, tcc_diag *d, tcc_pool *pool) {
    const tcc_onednn_functions *f = c->f;
    choose_slices(c);
    int status = make_descriptors(c);
    if (status) return dnn_error(d, c, status, "describing the tensors");
    if ((status = tcc__dnn_conv_pd_create(f, c->kind, &c->conv, &c->pd)) ||
        (status = f->primitive_create(&c->primitive, c->pd)))
        return dnn_error(d, c, status, "making the primitive");
    const void *w_inner =
        f->pd_query_md(c->pd, c->kind == DNN_CONV_FILTER_GRADIENT ? DNN_QUERY_DIFF_WEIGHTS : DNN_QUERY_WEIGHTS, 0);
    const void *scratchpad = f->pd_query_md(c->pd, DNN_QUERY_SCRATCHPAD, 0);
    int64_t scratch_bytes = scratchpad ? (int64_t)f->md_get_size(scratchpad) : 0;
    if (!scratch_bytes) scratchpad = NULL;
    c->w_floats = (int64_t)(f->md_get_size(w_inner) / sizeof(float));
    c->partial_floats = (c->w_floats + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if ((status = make_reorders(c, w_inner))) return dnn_error(d, c, status, "converting the weights");
    if ((status = make_workers(c, w_inner, scratchpad))) return dnn_error(d, c, status, "making memory objects");
    bool direct = !c->reorders && (c->kind != DNN_CONV_FILTER_GRADIENT || c->slices == 1);
    int64_t shared = c->kind == DNN_CONV_FILTER_GRADIENT ? c->slices * c->partial_floats : c->w_floats;
    return tcc_pool_reserve(pool, d, scratch_bytes, direct ? 0 : shared * (int64_t)sizeof(float));
}

static void conv_destroy(void *state) {
    conv_call *c = state;
    if (!c) return;
    const tcc_onednn_functions *f = c->f;
    for (int w = 0; c->workers && w < c->threads; w++) {
        for (int t = 0; t < TENSORS; t++)
            if (c->workers[w].memory[t]) f->memory_destroy(c->workers[w].memory[t]);
        if (c->workers[w].stream) f->stream_destroy(c->workers[w].stream);
    }
    destroy_reorders(c);
    tcc__free(c->reorder);
    if (c->primitive) f->primitive_destroy(c->primitive);
    if (c->pd) f->pd_destroy(c->pd);
    dnn_md *mds[] = {&c->conv.x, &c->conv.w, &c->conv.bias, &c->conv.y, &c->w_given};
    for (int i = 0; i < (int)(sizeof mds / sizeof *mds); i++) tcc__dnn_md_destroy(f, mds[i]);
    tcc__free(c->workers);
    tcc__free(c);
}

static tcc_status create(dnn_conv_kind kind, const tcc_libraries *l, tcc_diag *d, tcc_pool *pool, const int64_t *params,
                         void **out) {
    *out = NULL;
    tcc_conv_params p;
    memcpy(&p, params, sizeof p);
    if (!well_formed(&p)) return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "onednn convolution: malformed params");
    conv_call *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(d);
    c->f = &l->onednn.f;
    c->kind = kind;
    c->p = p;
    c->threads = tcc_pool_threads(pool);
    c->workers = tcc__calloc((size_t)c->threads, sizeof *c->workers);
    int before = tcc__dnn_enter(c->f);
    tcc_status s = c->workers ? make(c, d, pool) : tcc_enomem(d);
    tcc__dnn_leave(c->f, before);
    if (s == TCC_OK) *out = c;
    else conv_destroy(c);
    return s;
}

static tcc_status create_forward(const tcc_libraries *l, tcc_diag *d, tcc_pool *pool, const int64_t *params,
                                 void **out) {
    return create(DNN_CONV_FORWARD, l, d, pool, params, out);
}
static tcc_status create_data_gradient(const tcc_libraries *l, tcc_diag *d, tcc_pool *pool, const int64_t *params,
                                       void **out) {
    return create(DNN_CONV_DATA_GRADIENT, l, d, pool, params, out);
}
static tcc_status create_filter_gradient(const tcc_libraries *l, tcc_diag *d, tcc_pool *pool, const int64_t *params,
                                         void **out) {
    return create(DNN_CONV_FILTER_GRADIENT, l, d, pool, params, out);
}

/* --- running --- */

/* One run: where the tensors are. `w`: weights in oneDNN's layout, or the partial sums. */
typedef struct conv_run {
    const conv_call *c;
    tcc_pool *pool;
    const float *x, *y;
    const float *bias;
    float *w, *dw;
    const float *from; /* of the conversion */
    float *to;
    atomic_int failed; /* oneDNN's status, the first one other than 0 */
} conv_run;

static void note_failure(conv_run *r, int status) {
    int none = 0;
    if (status) atomic_compare_exchange_strong(&r->failed, &none, status);
}

static void run_slices(void *user, int worker, int64_t begin, int64_t end) {
    conv_run *r = user;
    const conv_call *c = r->c;
    const tcc_onednn_functions *f = c->f;
    conv_worker *me = &c->workers[worker];
    static const int args[3][TENSORS] = {
        [DNN_CONV_FORWARD] = {DNN_ARG_SRC, DNN_ARG_WEIGHTS, DNN_ARG_BIAS, DNN_ARG_DST, DNN_ARG_SCRATCHPAD},
        [DNN_CONV_DATA_GRADIENT] = {DNN_ARG_DIFF_SRC, DNN_ARG_WEIGHTS, 0, DNN_ARG_DIFF_DST, DNN_ARG_SCRATCHPAD},
        [DNN_CONV_FILTER_GRADIENT] = {DNN_ARG_SRC, DNN_ARG_DIFF_WEIGHTS, 0, DNN_ARG_DIFF_DST, DNN_ARG_SCRATCHPAD},
    };
    if (worker) tcc__dnn_enter(f); /* our own thread may stay so; the caller's is put back by run */
    for (int64_t slice = begin; slice < end; slice++) {
        const void *at[TENSORS] = {r->x + slice * c->x_step, r->w, r->bias, r->y + slice * c->y_step,
                                   tcc_pool_scratch(r->pool, worker)};
        if (c->kind == DNN_CONV_FILTER_GRADIENT) at[W] = r->w + slice * c->partial_floats;
        dnn_exec_arg list[MAX_ARGS];
        int n = 0, status = 0;
        for (int t = 0; t < TENSORS && !status; t++) {
            if (!me->memory[t]) continue;
            if (me->at[t] != at[t]) status = f->memory_set_data_handle(me->memory[t], (void *)at[t]);
            me->at[t] = at[t];
            list[n++] = (dnn_exec_arg){args[c->kind][t], me->memory[t]};
        }
        if (!status) status = f->primitive_execute(c->primitive, me->stream, n, list);
        note_failure(r, status);
    }
}

static void add_partial_sums(void *user, int worker, int64_t begin, int64_t end) {
    (void)worker;
    const conv_run *r = user;
    const conv_call *c = r->c;
    for (int64_t item = begin; item < end; item++) {
        int64_t from = item * SUM_ITEM, count = c->w_floats - from < SUM_ITEM ? c->w_floats - from : SUM_ITEM;
        float sum[SUM_ITEM];
        memcpy(sum, r->w + from, (size_t)count * sizeof *sum);
        for (int64_t s = 1; s < c->slices; s++) {
            const float *partial = r->w + s * c->partial_floats + from;
            for (int64_t i = 0; i < count; i++) sum[i] += partial[i];
        }
        memcpy((c->reorders ? r->w : r->dw) + from, sum, (size_t)count * sizeof *sum);
    }
}

static void run_reorders(void *user, int worker, int64_t begin, int64_t end) {
    conv_run *r = user;
    const conv_call *c = r->c;
    const tcc_onednn_functions *f = c->f;
    if (worker) tcc__dnn_enter(f);
    for (int64_t i = begin; i < end; i++) {
        reorder *part = &c->reorder[i];
        int status = f->memory_set_data_handle(part->memory[0], (void *)r->from);
        if (!status) status = f->memory_set_data_handle(part->memory[1], r->to);
        dnn_exec_arg list[2] = {{DNN_ARG_SRC, part->memory[0]}, {DNN_ARG_DST, part->memory[1]}};
        if (!status) status = f->primitive_execute(part->primitive, c->workers[worker].stream, 2, list);
        note_failure(r, status);
    }
}

static void convert_weights(conv_run *r, const float *from, float *to) {
    r->from = from;
    r->to = to;
    tcc_pool_run(r->pool, run_reorders, r, r->c->reorders, 1);
}

static tcc_status conv_execute(void *state, tcc_diag *d, tcc_pool *pool, void *const *buffers) {
    const conv_call *c = state;
    conv_run r = {.c = c, .pool = pool};
    float *shared = tcc_pool_shared_scratch(pool);
    int before = tcc__dnn_enter(c->f);
    if (c->kind == DNN_CONV_FILTER_GRADIENT) {
        r.x = buffers[0];
        r.y = buffers[1];
        r.dw = buffers[2];
        bool direct = !c->reorders && c->slices == 1;
        r.w = direct ? r.dw : shared;
        tcc_pool_run(pool, run_slices, &r, c->slices, c->grain);
        if (!direct && c->slices > 1)
            tcc_pool_run(pool, add_partial_sums, &r, (c->w_floats + SUM_ITEM - 1) / SUM_ITEM, SUM_GRAIN);
        if (c->reorders) convert_weights(&r, r.w, r.dw);
    } else {
        bool forward = c->kind == DNN_CONV_FORWARD;
        r.x = buffers[forward ? 0 : 2];
        r.bias = forward ? buffers[2] : NULL;
        r.y = buffers[forward ? 3 : 0];
        r.w = c->reorders ? shared : buffers[1];
        if (c->reorders) convert_weights(&r, buffers[1], r.w);
        tcc_pool_run(pool, run_slices, &r, c->slices, c->grain);
    }
    tcc__dnn_leave(c->f, before);
    return r.failed ? dnn_error(d, c, r.failed, "running it") : TCC_OK;
}

const tcc_library_entry tcc__onednn_conv_forward = {"onednn.conv_forward", TCC_CONV_PARAMS, 4,
                                                    create_forward,        conv_destroy,    conv_execute};
const tcc_library_entry tcc__onednn_conv_data_gradient = {"onednn.conv_data_gradient", TCC_CONV_PARAMS, 3,
                                                          create_data_gradient,        conv_destroy,    conv_execute};
const tcc_library_entry tcc__onednn_conv_filter_gradient = {
    "onednn.conv_filter_gradient", TCC_CONV_PARAMS, 3, create_filter_gradient, conv_destroy, conv_execute};
