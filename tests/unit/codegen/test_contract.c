/* SPDX-License-Identifier: MIT
 * Contractions against a naive loop in double precision: matrix products in every orientation, batches, convolutions
 * and their gradients, random extents and strides, tails, split sums, epilogues; results that do not depend on how
 * items are divided among threads. */
#include "codegen/contract/contract.h"
#include "codegen/contract/winograd.h"
#include "harness/check.h"
#include "harness/object.h"
#include "ir/chain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static uint32_t random_state;

static uint32_t random_bits(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static int random_below(int n) { return (int)(random_bits() % (uint32_t)n); }
static float random_float(void) { return (float)random_bits() / 8388608.0f - 1; }

/* The type of operands in memory. */
static tcc_dtype stored = TCC_F32;

/* How products of bf16 are made, and how many plans made them so. */
static tcc_contract_multiply by = TCC_CONTRACT_FMA;
static int n_made;

/* Of rows, in a block; 0: as the plan has it. */
static int64_t tiles_in_block;

/* A small number, exact in each of the types: products of f16 and bf16 are then as exact as those of f32. */
static float random_element(void) {
    return stored == TCC_F32 ? random_float() : (float)(random_below(255) - 127) / 128;
}

static uint16_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (stored == TCC_BF16) return (uint16_t)(bits >> 16);
    if (x == 0) return 0;
    return (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - (112 << 10)));
}

static tcc_contract_dim dim(int64_t extent, int64_t a, int64_t b, int64_t c) {
    return (tcc_contract_dim){.extent = extent, .a = a, .b = b, .c = {c}};
}

/* The extent of memory that strides reach: lowest and highest element offset of operand -2: A, -1: B, x: access. */
static void reach(const tcc_contract *c, int operand, int64_t *low, int64_t *high) {
    const tcc_contract_dims *lists[] = {&c->b, &c->m, &c->n, &c->k};
    *low = *high = 0;
    for (int l = 0; l < 4; l++)
        for (int i = 0; i < lists[l]->n; i++) {
            const tcc_contract_dim *d = &lists[l]->d[i];
            int64_t stride = operand == -2 ? d->a : operand == -1 ? d->b : d->c[operand];
            int64_t last = stride * (d->extent - 1);
            if (last < 0) *low += last;
            else *high += last;
        }
}

typedef struct array {
    float *data;      /* exactly what is reached, after a guard */
    uint16_t *narrow; /* the same as the operands' type, not f32, between NaNs; NULL: none is wanted */
    int64_t offset, count;
} array;

enum { GUARD = 64 };

/* `count`, if positive, is the extent of an array that begins at offset 0, whatever strides would reach without
 * windows. */
static array make_array_of(const tcc_contract *c, int operand, int64_t count) {
    int64_t low, high;
    reach(c, operand, &low, &high);
    if (count > 0) low = 0, high = count - 1;
    array a = {.offset = -low, .count = high - low + 1};
    a.data = malloc(sizeof(float) * (size_t)(a.count + 2 * GUARD));
    for (int64_t i = 0; i < a.count + 2 * GUARD; i++)
        a.data[i] = i < GUARD || i >= a.count + GUARD ? 12345 : operand < 0 ? random_element() : random_float();
    if (operand >= 0 || stored == TCC_F32) return a;
    a.narrow = malloc(sizeof(uint16_t) * (size_t)(a.count + 2 * GUARD));
    for (int64_t i = 0; i < a.count + 2 * GUARD; i++)
        a.narrow[i] = i < GUARD || i >= a.count + GUARD ? 0x7fff : bits_of(a.data[i]);
    return a;
}

static array make_array(const tcc_contract *c, int operand) { return make_array_of(c, operand, 0); }

static float *start(const array *a) { return a->data + GUARD; }
static void *memory(const array *a) { return a->narrow ? (void *)(a->narrow + GUARD) : (void *)start(a); }

static void free_array(array *a) { free(a->data), free(a->narrow); }

static void check_guards(const array *a) {
    for (int i = 0; i < GUARD; i++) {
        assert_true(a->data[i] == 12345);
        assert_true(a->data[GUARD + a->count + i] == 12345);
    }
}

/* Naive evaluation: calls visit at each output element. */
typedef struct naive {
    const tcc_contract *c;
    const float *a, *b;
    double *sums;     /* indexed by C's offset - low */
    double *absolute; /* sum of absolute products, for the tolerance */
    unsigned char *written;
    int64_t low;
} naive;

static void naive_k(const naive *v, int level, int64_t a, int64_t b, const int64_t *windows, double *sum,
                    double *absolute) {
    if (level == v->c->k.n) {
        for (int w = 0; w < v->c->n_windows; w++)
            if (windows[w] < 0 || windows[w] >= v->c->windows[w].extent) return;
        double product = (double)v->a[a] * (double)v->b[b];
        *sum += product;
        *absolute += fabs(product);
        return;
    }
    const tcc_contract_dim *d = &v->c->k.d[level];
    for (int64_t i = 0; i < d->extent; i++) {
        int64_t at[TCC_CONTRACT_MAX_WINDOWS];
        for (int w = 0; w < TCC_CONTRACT_MAX_WINDOWS; w++) at[w] = windows[w] + i * d->w[w];
        naive_k(v, level + 1, a + i * d->a, b + i * d->b, at, sum, absolute);
    }
}

static void naive_out(const naive *v, int level, int64_t a, int64_t b, int64_t c, const int64_t *windows) {
    const tcc_contract_dims *lists[] = {&v->c->b, &v->c->m, &v->c->n};
    int l = 0, i = level;
    while (l < 3 && i >= lists[l]->n) i -= lists[l++]->n;
    if (l == 3) {
        naive_k(v, 0, a, b, windows, &v->sums[c - v->low], &v->absolute[c - v->low]);
        v->written[c - v->low] = 1;
        return;
    }
    const tcc_contract_dim *d = &lists[l]->d[i];
    for (int64_t x = 0; x < d->extent; x++) {
        int64_t at[TCC_CONTRACT_MAX_WINDOWS];
        for (int w = 0; w < TCC_CONTRACT_MAX_WINDOWS; w++) at[w] = windows[w] + x * d->w[w];
        naive_out(v, level + 1, a + x * d->a, b + x * d->b, c + x * d->c[0], at);
    }
}

static const char *cpu;

typedef struct code {
    tcc_llvm_target target;
    tcc_emitter e;
    tcc_contract_plan plan;
    test_object *object;
} code;

static void compile(code *k, const tcc_contract *c, const tcc_contract_epilogue *epilogue) {
    tcc_diag diag = {0};
    assert_int_equal(tcc_llvm_target_host(cpu, &diag, &k->target), TCC_OK);
    if (by != TCC_CONTRACT_TILES) k->target.hw.fma_bf16_tiles = 0;
    k->target.hw.fma_bf16_pairs = by == TCC_CONTRACT_PAIRS ? 2 * k->target.hw.fma_f32 : 0;
    assert_int_equal(tcc_contract_make_plan(&k->target, c, NULL, &diag, &k->plan), TCC_OK);
    n_made += k->plan.multiply == by;
    if (tiles_in_block && tiles_in_block < k->plan.tiles_per_block) {
        tcc_contract_plan *p = &k->plan;
        p->items /= p->row_blocks;
        p->tiles_per_block = tiles_in_block;
        p->row_blocks = (p->tiles + tiles_in_block - 1) / tiles_in_block;
        p->items *= p->row_blocks;
    }
    assert_int_equal(tcc_emitter_init(&k->e, &k->target, "contract", &diag), TCC_OK);
    tcc_contract_emit(&k->e, "contract", &k->plan, NULL, epilogue);
    if (k->plan.k_splits > 1) tcc_contract_emit_combine(&k->e, "combine", &k->plan, epilogue);
    k->object = test_object_load(&k->e);
}

static void release(code *k) {
    test_object_free(k->object);
    tcc_emitter_clear(&k->e);
    tcc_llvm_target_clear(&k->target);
}

/* Of whole pages, with one in front that nobody may touch. */
static size_t guarded_bytes(int64_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return ((size_t)bytes + 2 * page - 1) / page * page;
}

static char *make_guarded(int64_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *all = mmap(NULL, guarded_bytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    assert_int_equal(mprotect(all, page, PROT_NONE), 0);
    return all + page;
}

static void free_guarded(char *memory, int64_t bytes) { munmap(memory - sysconf(_SC_PAGESIZE), guarded_bytes(bytes)); }

/* Run all items, `piece` at a time, in order or backwards. */
static void run_items(tcc_host_kernel kernel, void *const *buffers, const int64_t *params, int64_t items, int64_t piece,
                      bool backwards, void *scratch) {
    int64_t pieces = (items + piece - 1) / piece;
    for (int64_t i = 0; i < pieces; i++) {
        int64_t at = (backwards ? pieces - 1 - i : i) * piece;
        kernel(buffers, params, at, at + piece < items ? at + piece : items, scratch);
    }
}

static void run(const code *k, void *a, int64_t a_offset, void *b, int64_t b_offset, void *const *accesses,
                const int64_t *offsets, int64_t piece, bool backwards) {
    const tcc_contract_plan *p = &k->plan;
    char *scratch = make_guarded(p->scratch_bytes);
    memset(scratch, 0xff, (size_t)p->scratch_bytes); /* NaN */
    void *buffers[2 + TCC_CONTRACT_MAX_ACCESSES] = {a, b};
    int64_t params[2 + TCC_CONTRACT_MAX_ACCESSES] = {a_offset, b_offset};
    for (int x = 0; x < p->c.n_accesses; x++) buffers[2 + x] = accesses[x], params[2 + x] = offsets[x];
    if (p->k_splits == 1) {
        run_items(test_object_kernel(k->object, "contract"), buffers, params, p->items, piece, backwards, scratch);
    } else {
        float *workspace = aligned_alloc(64, (size_t)p->workspace_bytes);
        buffers[2] = workspace;
        run_items(test_object_kernel(k->object, "contract"), buffers, params, p->items, piece, backwards, scratch);
        buffers[1] = workspace;
        for (int x = 0; x < p->c.n_accesses; x++) buffers[2 + x] = accesses[x];
        run_items(test_object_kernel(k->object, "combine"), buffers + 1, params + 2, p->combine_items, piece, backwards,
                  scratch);
        free(workspace);
    }
    free_guarded(scratch, p->scratch_bytes);
}

/* Operand -2 or -1 is an array of `count` elements that is read at `offset` and on, inside the windows; 0: none is. */
static void check_in(const tcc_contract *c, int operand, int64_t count, int64_t offset) {
    code k;
    compile(&k, c, NULL);
    array a = make_array_of(c, -2, operand == -2 ? count : 0), b = make_array_of(c, -1, operand == -1 ? count : 0),
          out = make_array(c, 0);
    if (operand == -2) a.offset = offset;
    if (operand == -1) b.offset = offset;
    float *before = malloc(sizeof(float) * (size_t)out.count), *again = malloc(sizeof(float) * (size_t)out.count);
    memcpy(before, start(&out), sizeof(float) * (size_t)out.count);
    naive v = {.c = c, .a = start(&a) + a.offset, .b = start(&b) + b.offset, .low = -out.offset};
    v.sums = calloc((size_t)out.count, sizeof(double));
    v.absolute = calloc((size_t)out.count, sizeof(double));
    v.written = calloc((size_t)out.count, 1);
    int64_t windows[TCC_CONTRACT_MAX_WINDOWS] = {0};
    for (int w = 0; w < c->n_windows; w++) windows[w] = c->windows[w].start;
    naive_out(&v, 0, 0, 0, 0, windows);

    void *outputs[] = {start(&out)};
    run(&k, memory(&a), a.offset, memory(&b), b.offset, outputs, &out.offset, k.plan.items, false);
    for (int64_t i = 0; i < out.count; i++) {
        double expected = v.written[i] ? v.sums[i] + (c->accumulate ? (double)before[i] : 0) : (double)before[i];
        double bound = v.written[i] ? 1e-6 * (v.absolute[i] + 1) : 0;
        if (!(fabs((double)start(&out)[i] - expected) <= bound)) {
            tcc_strbuf key = {0};
            tcc_contract_key(&k.plan, &key);
            fail_msg("element %lld: %g, expected %g +- %g: %s", (long long)i, (double)start(&out)[i], expected, bound,
                     key.text);
        }
    }
    check_guards(&out);
    /* One item at a time, backwards: the same bits. */
    memcpy(again, start(&out), sizeof(float) * (size_t)out.count);
    memcpy(start(&out), before, sizeof(float) * (size_t)out.count);
    run(&k, memory(&a), a.offset, memory(&b), b.offset, outputs, &out.offset, 1, true);
    assert_memory_equal(again, start(&out), sizeof(float) * (size_t)out.count);
    free(before), free(again), free(v.sums), free(v.absolute), free(v.written);
    free_array(&a), free_array(&b), free_array(&out);
    release(&k);
}

static void check(const tcc_contract *c) { check_in(c, 0, 0, 0); }

/* C[m,n] = op(A) op(B), with row-major operands transposed or not and C transposed or not. */
static tcc_contract matmul(int64_t m, int64_t n, int64_t k, bool a_t, bool b_t, bool c_t) {
    tcc_contract c = {.dtype = stored, .n_accesses = 1};
    c.m.d[c.m.n++] = dim(m, a_t ? 1 : k, 0, c_t ? 1 : n);
    c.n.d[c.n.n++] = dim(n, 0, b_t ? k : 1, c_t ? m : 1);
    c.k.d[c.k.n++] = dim(k, a_t ? m : 1, b_t ? 1 : n, 0);
    return c;
}

static void products_of_all_orientations(void **state) {
    (void)state;
    static const int sizes[][3] = {{1, 1, 1}, {13, 33, 17}, {65, 31, 40}, {100, 10, 64}, {5, 1, 50}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int t = 0; t < 8; t++) {
            if ((t % 2 && i > 1) || (t && i == 0)) continue;
            tcc_contract c = matmul(sizes[i][0], sizes[i][1], sizes[i][2], t & 1, t & 2, t & 4);
            c.accumulate = i % 2;
            check(&c);
        }
}

static void long_sums_go_in_blocks_and_parts(void **state) {
    (void)state;
    tcc_contract c = matmul(30, 40, 2500, false, true, false);
    check(&c);
    c = matmul(9, 32, 6000, true, false, false);
    c.accumulate = true;
    check(&c);
    c = matmul(26, 40, 1500, false, false, false);
    check(&c);
    c = matmul(40, 70, 2050, true, false, false);
    check(&c);
}

/* Tiles of rows that do not come out even: the last is moved back, to rows in front of its block where it is alone
 * there. */
static void the_last_tile_is_alone_in_its_block(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        tiles_in_block = 1 + i / 2;
        tcc_contract c = matmul(67, 136, i % 2 ? 600 : 70, true, false, false);
        check(&c);
    }
    tiles_in_block = 0;
}

static void batches_and_random_strides(void **state) {
    (void)state;
    random_state = 7;
    for (int round = 0; round < 10; round++) {
        tcc_contract c = {.dtype = stored, .n_accesses = 1};
        tcc_contract_dims *lists[] = {&c.b, &c.m, &c.n, &c.k};
        for (int l = 0; l < 4; l++)
            for (int n = random_below(l == 0 ? 3 : 4); n > 0; n--)
                lists[l]->d[lists[l]->n++].extent = 1 + random_below(l == 3 ? 12 : 9);
        /* Each operand is a dense tensor of its dims in a random order, some with gaps, some walked backwards. */
        for (int operand = -2; operand <= 0; operand++) {
            tcc_contract_dim *used[32];
            int n = 0;
            for (int l = 0; l < 4; l++) {
                if ((operand == -2 && l == 2) || (operand == -1 && l == 1) || (operand == 0 && l == 3)) continue;
                for (int i = 0; i < lists[l]->n; i++) used[n++] = &lists[l]->d[i];
            }
            int64_t stride = random_below(5) == 0 ? 2 : 1;
            for (; n > 0; n--) {
                int pick = random_below(n);
                tcc_contract_dim *d = used[pick];
                used[pick] = used[n - 1];
                int64_t signed_stride = random_below(6) == 0 ? -stride : stride;
                if (operand == -2) d->a = signed_stride;
                else if (operand == -1) d->b = signed_stride;
                else d->c[0] = signed_stride;
                stride *= d->extent;
                if (random_below(4) == 0) stride += random_below(3);
            }
        }
        c.accumulate = random_below(2);
        check(&c);
    }
}

/* Convolution, channels last, on padded input. */
typedef struct conv {
    int64_t n, h, w, ci, co, kernel, stride; /* h, w: of the output */
} conv;

static tcc_contract conv_forward(conv s) {
    int64_t wide = (s.w - 1) * s.stride + s.kernel, high = (s.h - 1) * s.stride + s.kernel;
    tcc_contract c = {.dtype = stored, .n_accesses = 1};
    c.m.d[c.m.n++] = dim(s.n, high * wide * s.ci, 0, s.h * s.w * s.co);
    c.m.d[c.m.n++] = dim(s.h, s.stride * wide * s.ci, 0, s.w * s.co);
    c.m.d[c.m.n++] = dim(s.w, s.stride * s.ci, 0, s.co);
    c.n.d[c.n.n++] = dim(s.co, 0, s.kernel * s.kernel * s.ci, 1);
    c.k.d[c.k.n++] = dim(s.kernel, wide * s.ci, s.kernel * s.ci, 0);
    c.k.d[c.k.n++] = dim(s.kernel, s.ci, s.ci, 0);
    c.k.d[c.k.n++] = dim(s.ci, 1, 1, 0);
    return c;
}

/* dw[co,kh,kw,ci] = sum of dy[n,h,w,co] x[n,h+kh,w+kw,ci] */
static tcc_contract conv_filter_gradient(conv s) {
    int64_t wide = (s.w - 1) * s.stride + s.kernel, high = (s.h - 1) * s.stride + s.kernel;
    tcc_contract c = {.dtype = stored, .n_accesses = 1};
    c.m.d[c.m.n++] = dim(s.co, 1, 0, s.kernel * s.kernel * s.ci);
    c.n.d[c.n.n++] = dim(s.kernel, 0, wide * s.ci, s.kernel * s.ci);
    c.n.d[c.n.n++] = dim(s.kernel, 0, s.ci, s.ci);
    c.n.d[c.n.n++] = dim(s.ci, 0, 1, 1);
    c.k.d[c.k.n++] = dim(s.n, s.h * s.w * s.co, high * wide * s.ci, 0);
    c.k.d[c.k.n++] = dim(s.h, s.w * s.co, s.stride * wide * s.ci, 0);
    c.k.d[c.k.n++] = dim(s.w, s.co, s.stride * s.ci, 0);
    return c;
}

/* dx[n,h,w,ci] = sum of dy[n,h+kh,w+kw,co] w[co,-kh,-kw,ci] on padded dy: the kernel walked backwards. */
static tcc_contract conv_data_gradient(conv s) {
    int64_t wide = s.w + s.kernel - 1, high = s.h + s.kernel - 1;
    tcc_contract c = {.dtype = stored, .n_accesses = 1};
    c.m.d[c.m.n++] = dim(s.n, high * wide * s.co, 0, s.h * s.w * s.ci);
    c.m.d[c.m.n++] = dim(s.h, wide * s.co, 0, s.w * s.ci);
    c.m.d[c.m.n++] = dim(s.w, s.co, 0, s.ci);
    c.n.d[c.n.n++] = dim(s.ci, 0, 1, 1);
    c.k.d[c.k.n++] = dim(s.kernel, wide * s.co, -s.kernel * s.ci, 0);
    c.k.d[c.k.n++] = dim(s.kernel, s.co, -s.ci, 0);
    c.k.d[c.k.n++] = dim(s.co, 1, s.kernel * s.kernel * s.ci, 0);
    return c;
}

static void convolutions_and_their_gradients(void **state) {
    (void)state;
    static const conv shapes[] = {
        {2, 7, 7, 5, 20, 3, 1}, {2, 4, 4, 16, 40, 3, 2}, {3, 6, 6, 1, 8, 3, 1}, {1, 9, 9, 4, 6, 5, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tcc_contract c = conv_forward(shapes[i]);
        check(&c);
        c = conv_filter_gradient(shapes[i]);
        check(&c);
        if (shapes[i].stride == 1) c = conv_data_gradient(shapes[i]), check(&c);
    }
}

/* The same three on unpadded arrays of h x w, "same" padding, with the border left out by windows. */
static tcc_contract windowed(conv s, int kind) {
    int64_t in = kind == 1 ? s.co : s.ci, out = kind == 1 ? s.ci : s.co, pad = s.kernel / 2;
    int64_t h = s.h * s.stride, w = s.w * s.stride; /* of the input */
    tcc_contract c = {.dtype = stored,
                      .n_accesses = 1,
                      .n_windows = 2,
                      .windows = {{kind == 1 ? pad : -pad, h}, {kind == 1 ? pad : -pad, w}}};
    if (kind < 2) {
        int64_t sign = kind == 1 ? -1 : 1;
        c.m.d[c.m.n++] = dim(s.n, h * w * in, 0, s.h * s.w * out);
        c.m.d[c.m.n++] = dim(s.h, s.stride * w * in, 0, s.w * out);
        c.m.d[c.m.n++] = dim(s.w, s.stride * in, 0, out);
        c.m.d[1].w[0] = c.m.d[2].w[1] = s.stride;
        c.n.d[c.n.n++] = dim(out, 0, s.kernel * s.kernel * in, 1);
        c.k.d[c.k.n++] = dim(s.kernel, sign * w * in, s.kernel * in, 0);
        c.k.d[c.k.n++] = dim(s.kernel, sign * in, in, 0);
        c.k.d[c.k.n++] = dim(in, 1, 1, 0);
        c.k.d[0].w[0] = c.k.d[1].w[1] = sign;
    } else {
        c.window_b = true;
        c.m.d[c.m.n++] = dim(s.co, 1, 0, s.kernel * s.kernel * s.ci);
        c.n.d[c.n.n++] = dim(s.kernel, 0, w * s.ci, s.kernel * s.ci);
        c.n.d[c.n.n++] = dim(s.kernel, 0, s.ci, s.ci);
        c.n.d[c.n.n++] = dim(s.ci, 0, 1, 1);
        c.n.d[0].w[0] = c.n.d[1].w[1] = 1;
        c.k.d[c.k.n++] = dim(s.n, s.h * s.w * s.co, h * w * s.ci, 0);
        c.k.d[c.k.n++] = dim(s.h, s.w * s.co, s.stride * w * s.ci, 0);
        c.k.d[c.k.n++] = dim(s.w, s.co, s.stride * s.ci, 0);
        c.k.d[1].w[0] = c.k.d[2].w[1] = s.stride;
    }
    return c;
}

static void windows_leave_out_the_border(void **state) {
    (void)state;
    static const conv shapes[] = {
        {5, 4, 4, 16, 32, 3, 1}, {7, 5, 3, 16, 20, 5, 1}, {4, 3, 3, 32, 16, 3, 2}, {8, 1, 2, 272, 16, 3, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = 0; kind < 3; kind++) {
            if (kind == 1 && shapes[i].stride > 1) continue;
            tcc_contract c = windowed(shapes[i], kind);
            conv s = shapes[i];
            int64_t in = kind == 1 ? s.co : s.ci, wide = s.w * s.stride, count = s.n * s.h * s.stride * wide * in,
                    pad = s.kernel / 2;
            int64_t border = pad * wide * in + pad * in; /* element (-pad, -pad), or (pad, pad) walking backwards */
            check_in(&c, kind == 2 ? -1 : -2, count, kind == 1 ? border : -border);
        }
}

static void an_empty_sum_is_zero(void **state) {
    (void)state;
    tcc_contract c = matmul(20, 30, 1, false, false, false);
    c.k.d[0].extent = 0;
    check(&c);
}

/* C = max(sums + bias[n], 0) + residual[m,n]; second output: sums * scale[m], with its columns apart. */
static tcc_emit_value bias_relu_residual(void *user, tcc_emitter *e, tcc_emit_value sums,
                                         const tcc_contract_place *place) {
    (void)user;
    tcc_contract_store(e, place, 4, tcc_emit_fmul(e, sums, tcc_contract_load(e, place, 3)));
    tcc_emit_value y = tcc_emit_fadd(e, sums, tcc_contract_load(e, place, 1)), zero = tcc_emit_float(e, e->vf32, 0);
    y = tcc_emit_select(e, tcc_emit_fcmp(e, TCC_FCMP_OGT, y, zero), y, zero);
    return tcc_emit_fadd(e, y, tcc_contract_load(e, place, 2));
}

static void epilogues_see_every_element_once(void **state) {
    (void)state;
    static const int sizes[][3] = {{20, 48, 30}, {31, 45, 7}, {9, 21, 5000}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
        tcc_contract c = matmul(m, n, k, false, true, false);
        c.n_accesses = 5;
        tcc_contract_dim *dm = &c.m.d[0], *dn = &c.n.d[0];
        dn->c[1] = 1;
        dm->c[2] = n, dn->c[2] = 1;
        dm->c[3] = 1;
        dm->c[4] = 3 * n, dn->c[4] = 3;
        code code;
        compile(&code, &c, &(tcc_contract_epilogue){.vector = bias_relu_residual});
        array a = make_array(&c, -2), b = make_array(&c, -1), x[5];
        void *accesses[5];
        int64_t offsets[5] = {0};
        for (int j = 0; j < 5; j++) x[j] = make_array(&c, j), accesses[j] = start(&x[j]);
        accesses[0] = accesses[2]; /* in place: C over the residual */
        float *residual = malloc(sizeof(float) * (size_t)(m * n));
        memcpy(residual, accesses[2], sizeof(float) * (size_t)(m * n));
        run(&code, memory(&a), 0, memory(&b), 0, accesses, offsets, 1, true);
        for (int r = 0; r < m; r++)
            for (int j = 0; j < n; j++) {
                double sum = 0;
                for (int q = 0; q < k; q++) sum += (double)start(&a)[r * k + q] * (double)start(&b)[j * k + q];
                double y = sum + (double)start(&x[1])[j];
                y = (y > 0 ? y : 0) + (double)residual[r * n + j];
                assert_true(fabs(y - (double)start(&x[2])[r * n + j]) < 1e-6 * (k + 10));
                assert_true(fabs(sum * (double)start(&x[3])[r] - (double)start(&x[4])[(r * n + j) * 3]) <
                            1e-6 * (k + 10));
            }
        for (int j = 0; j < 5; j++) check_guards(&x[j]), free(x[j].data);
        free_array(&a), free_array(&b), free(residual);
        release(&code);
    }
}

static void narrower_vectors_work_too(void **state) {
    (void)state;
    static const char *const cpus[] = {"x86-64-v2", "x86-64-v3"};
    tcc_llvm_target host;
    assert_int_equal(tcc_llvm_target_host(NULL, NULL, &host), TCC_OK);
    for (int i = 0; i < 2; i++) {
        if (strncmp(host.triple, "x86_64", 6) || host.lanes < (i ? 8 : 4)) continue;
        cpu = cpus[i];
        tcc_contract c = matmul(31, 45, 37, false, true, false);
        check(&c);
        c = matmul(31, 45, 37, true, false, true);
        check(&c);
        conv s = {4, 4, 4, 16, 12, 3, 1};
        c = windowed(s, 0);
        check_in(&c, -2, s.n * s.h * s.w * s.ci, -(s.w * s.ci + s.ci));
    }
    cpu = NULL;
    tcc_llvm_target_clear(&host);
}

/* Each of the above with operands that are stored in 16 bits, multiplied so. */
static void all_of_type(void **state, tcc_dtype type, tcc_contract_multiply multiply) {
    stored = type;
    by = multiply;
    n_made = 0;
    products_of_all_orientations(state);
    long_sums_go_in_blocks_and_parts(state);
    the_last_tile_is_alone_in_its_block(state);
    batches_and_random_strides(state);
    convolutions_and_their_gradients(state);
    windows_leave_out_the_border(state);
    an_empty_sum_is_zero(state);
    epilogues_see_every_element_once(state);
    if (multiply == TCC_CONTRACT_FMA) narrower_vectors_work_too(state);
    stored = TCC_F32;
    by = TCC_CONTRACT_FMA;
    assert_in_range(n_made, 30, 1000);
}

static void narrow_operands_are_widened(void **state) {
    all_of_type(state, TCC_F16, TCC_CONTRACT_FMA);
    all_of_type(state, TCC_BF16, TCC_CONTRACT_FMA);
}

static void bf16_by_its_own_instructions(void **state) {
    tcc_llvm_target host;
    assert_int_equal(tcc_llvm_target_host(NULL, NULL, &host), TCC_OK);
    if (host.hw.fma_bf16_pairs > 0) all_of_type(state, TCC_BF16, TCC_CONTRACT_PAIRS);
    else print_message("pairs of bf16: not run, this CPU has no AVX512-BF16\n");
    if (host.hw.fma_bf16_tiles > 0) all_of_type(state, TCC_BF16, TCC_CONTRACT_TILES);
    else print_message("tiles of bf16: not run, this CPU has no AMX, or its kernel does not let us use it\n");
    tcc_llvm_target_clear(&host);
}

/* The instructions that the CPU has, by name: in the plan, and in the code. */
static void the_cpu_decides_how_bf16_is_multiplied(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for CPUs of x86-64");
    static const struct {
        const char *cpu;
        tcc_contract_multiply multiply;
        const char *has, *lacks[2];
    } cpus[] = {
        {"x86-64-v3", TCC_CONTRACT_FMA, "vfmadd", {"dpbf16ps", "tile"}},
        {"x86-64-v4", TCC_CONTRACT_FMA, "vfmadd", {"dpbf16ps", "tile"}},
        {"cooperlake", TCC_CONTRACT_FMA, "vfmadd", {"dpbf16ps", "tile"}}, /* its pairs are slower */
        {"znver4", TCC_CONTRACT_PAIRS, "vdpbf16ps", {"vfmadd", "tile"}},
        {"sapphirerapids", TCC_CONTRACT_TILES, "tdpbf16ps", {"vfmadd", "vdpbf16ps"}},
    };
    stored = TCC_BF16;
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
        tcc_llvm_target target;
        tcc_contract_plan p;
        tcc_emitter e;
        tcc_strbuf assembly = {0};
        assert_int_equal(tcc_llvm_target_host(cpus[i].cpu, NULL, &target), TCC_OK);
        tcc_contract c = matmul(64, 96, 70, false, true, false);
        assert_int_equal(tcc_contract_make_plan(&target, &c, NULL, NULL, &p), TCC_OK);
        assert_int_equal(p.multiply, cpus[i].multiply);
        assert_int_equal(tcc_emitter_init(&e, &target, "contract", NULL), TCC_OK);
        tcc_contract_emit(&e, "contract", &p, NULL, NULL);
        assert_int_equal(tcc_emitter_finish(&e, NULL), TCC_OK);
        assert_int_equal(tcc_emitter_print_assembly(&e, &assembly), TCC_OK);
        assert_non_null(strstr(assembly.text, cpus[i].has));
        for (int k = 0; k < 2; k++) assert_null(strstr(assembly.text, cpus[i].lacks[k]));
        tcc_strbuf_free(&assembly);
        tcc_emitter_clear(&e);
        tcc_llvm_target_clear(&target);
    }
    stored = TCC_F32;
}

/* With 16 registers a tile's operands are loaded in the time of its products: none is one vector wide. */
static void narrow_tiles_are_bound_by_products(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for CPUs of x86-64");
    static const int columns[] = {65, 72, 128, 384, 1000};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
            tcc_llvm_target target;
            tcc_contract_plan p;
            assert_int_equal(tcc_llvm_target_host(k ? "x86-64-v3" : "x86-64-v2", NULL, &target), TCC_OK);
            tcc_contract c = matmul(768, columns[i], 128, false, true, false);
            assert_int_equal(tcc_contract_make_plan(&target, &c, NULL, NULL, &p), TCC_OK);
            assert_in_range(p.rows * p.vectors, p.rows + p.vectors, target.registers - p.vectors - 2);
            tcc_llvm_target_clear(&target);
        }
}

/* Tiles add up their products in short chains: the sums of 512 of k stay in registers. Of f32 they do not. */
static void tiles_keep_a_long_k(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at plans for a CPU of x86-64");
    tcc_llvm_target target;
    tcc_contract_plan p;
    assert_int_equal(tcc_llvm_target_host("x86-64-v4", NULL, &target), TCC_OK);
    target.hw.fma_bf16_tiles = 16 * target.hw.fma_f32;
    tcc_contract c = matmul(512, 3072, 512, false, true, false);
    assert_int_equal(tcc_contract_make_plan(&target, &c, NULL, NULL, &p), TCC_OK);
    assert_in_range(p.block_k, 256, TCC_CHAIN_PRODUCTS);
    c.dtype = TCC_BF16;
    assert_int_equal(tcc_contract_make_plan(&target, &c, NULL, NULL, &p), TCC_OK);
    assert_int_equal(p.multiply, TCC_CONTRACT_TILES);
    assert_int_equal(p.k_blocks, 1);
    tcc_llvm_target_clear(&target);
}

/* A matrix that few rows are multiplied with is read in place, where its columns fill panels of some width. */
static void a_matrix_that_is_read_once_is_not_packed(void **state) {
    (void)state;
    static const char *const cpus[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
    static const int columns[] = {64, 768, 1024, 2048, 4096};
    for (size_t k = 0; k < sizeof cpus / sizeof *cpus; k++)
        for (size_t i = 0; i < 2 * (sizeof columns / sizeof *columns); i++) {
            tcc_llvm_target target;
            tcc_contract_plan p;
            assert_int_equal(tcc_llvm_target_host(cpus[k], NULL, &target), TCC_OK);
            tcc_contract c = matmul(1 + (int)i % 2, columns[i / 2], 2048, false, false, false);
            assert_int_equal(tcc_contract_make_plan(&target, &c, NULL, NULL, &p), TCC_OK);
            assert_false(p.pack_b);
            tcc_llvm_target_clear(&target);
        }
}

/* Where such rows lie pages apart, a block of k is as many as a core reads at once; and sums are whole however they are
 * cut. */
static void a_matrix_that_is_read_once_is_read_row_by_row(void **state) {
    (void)state;
    static const char *const cpus[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
    static const struct {
        int rows, columns;
        bool streams;
    } cases[] = {{1, 2048, true}, {4, 1536, true}, {2, 768, false}, {64, 2048, false}};
    for (size_t k = 0; k < sizeof cpus / sizeof *cpus; k++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            tcc_llvm_target target;
            tcc_contract_plan p;
            assert_int_equal(tcc_llvm_target_host(cpus[k], NULL, &target), TCC_OK);
            tcc_contract c = matmul(cases[i].rows, cases[i].columns, 2048, false, false, false);
            assert_int_equal(tcc_contract_make_plan(&target, &c, NULL, NULL, &p), TCC_OK);
            if (cases[i].streams) assert_in_range(p.block_k, target.lanes, 16);
            else assert_in_range(p.block_k, 128, 2048);
            tcc_llvm_target_clear(&target);
        }
    for (int few = 1; few <= 4; few++) { /* and a product of few columns and rows is written so */
        tcc_llvm_target target;
        tcc_contract_plan p;
        assert_int_equal(tcc_llvm_target_host("x86-64-v3", NULL, &target), TCC_OK);
        tcc_contract c = matmul(512, 2048, few, true, false, false);
        assert_int_equal(tcc_contract_make_plan(&target, &c, NULL, NULL, &p), TCC_OK);
        assert_int_equal(p.rows, 1);
        assert_true(p.vectors > 4);
        tcc_llvm_target_clear(&target);
        c = matmul(5, 1100, few, true, false, false);
        check(&c);
    }
    for (int rows = 1; rows <= 4; rows++) {
        tcc_contract c = matmul(rows, 1152, 77, false, false, false);
        c.accumulate = rows % 2;
        check(&c);
    }
}

/* Whether vectors run along k follows from the operands, and so do the sums: columns of B that are not one loop for
 * what follows the sums have the same bits. */
static void sums_along_k_are_the_same_for_all_columns(int rows) {
    enum { OUTER = 12, INNER = 8, K = 1000, GAP = 2 };
    tcc_contract one = matmul(rows, OUTER * INNER, K, false, true, false), two = one;
    two.n.n = 2;
    two.n.d[0] = dim(OUTER, 0, (int64_t)INNER * K, INNER + GAP);
    two.n.d[1] = dim(INNER, 0, K, 1);
    two.m.d[0].c[0] = (int64_t)OUTER * (INNER + GAP);
    array a = make_array(&one, -2), b = make_array(&one, -1), out[2] = {make_array(&one, 0), make_array(&two, 0)};
    for (int i = 0; i < 2; i++) {
        code k;
        void *outputs[] = {start(&out[i])};
        compile(&k, i ? &two : &one, NULL);
        assert_true(k.plan.along_k);
        run(&k, memory(&a), 0, memory(&b), 0, outputs, &out[i].offset, k.plan.items, false);
        release(&k);
    }
    for (int m = 0; m < rows; m++)
        for (int n = 0; n < OUTER; n++)
            assert_memory_equal(start(&out[0]) + (ptrdiff_t)(m * OUTER + n) * INNER,
                                start(&out[1]) + (ptrdiff_t)(m * OUTER + n) * (INNER + GAP), INNER * sizeof(float));
    free_array(&a), free_array(&b), free_array(&out[0]), free_array(&out[1]);
}

/* No column is read that there is not: B ends where memory does. */
static void no_column_past_the_last_is_read(void) {
    enum { COLUMNS = 17, K = 1024 };
    const size_t bytes = COLUMNS * K * sizeof(float), page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t pages = (bytes + page - 1) / page * page;
    tcc_contract c = matmul(1, COLUMNS, K, false, true, false);
    char *memory_of_b = mmap(NULL, pages + (1 << 20), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory_of_b != MAP_FAILED);
    assert_int_equal(mprotect(memory_of_b, pages, PROT_READ | PROT_WRITE), 0);
    array a = make_array(&c, -2), out = make_array(&c, 0);
    void *outputs[] = {start(&out)};
    code k;
    compile(&k, &c, NULL);
    assert_true(k.plan.along_k);
    run(&k, memory(&a), 0, memory_of_b + pages - bytes, 0, outputs, &out.offset, k.plan.items, false);
    for (int i = 0; i < COLUMNS; i++) assert_true(start(&out)[i] == 0);
    release(&k);
    free_array(&a), free_array(&out);
    munmap(memory_of_b, pages + (1 << 20));
}

/* Vectors run along k, where a panel of B would be packed for few rows: in any type, with any rest of columns and k, in
 * blocks and in parts, and whichever operand is the matrix. */
static void few_rows_times_rows_run_along_k(void **state) {
    (void)state;
    static const char *const cpus[] = {NULL, "x86-64-v3"};
    static const tcc_dtype types[] = {TCC_F32, TCC_F16, TCC_BF16};
    static const int columns[] = {1, 2, 16, 77}, lengths[] = {64, 200, 1152, 13001};
    for (int i = 0; i < (ON_X86_64 ? 2 : 1); i++) {
        cpu = cpus[i];
        for (int t = 0; t < 3; t++)
            for (int rows = 1; rows <= 4; rows++)
                for (int k = 0; k < 4; k++) {
                    stored = types[t];
                    const int n = columns[(k + rows + t) % 4];
                    tcc_contract c = matmul(rows, n, lengths[k], false, true, false);
                    c.accumulate = rows % 2;
                    check(&c);
                    c = matmul(n, rows, lengths[k], false, true, false);
                    if (!t) check(&c);
                }
        stored = TCC_F32;
        for (int rows = 1; rows <= 4; rows++) sums_along_k_are_the_same_for_all_columns(rows);
        no_column_past_the_last_is_read();
        tcc_contract c = matmul(4, 40, 300, false, true, false); /* rows of two loops are packed */
        c.m.n = 2;
        c.m.d[0] = dim(2, 1000, 0, 80), c.m.d[1] = dim(2, 310, 0, 40);
        check(&c);
        c.b.d[c.b.n++] = dim(3, 2000, 7, 160);
        check(&c);
        tcc_contract_plan p;
        tcc_llvm_target target;
        assert_int_equal(tcc_llvm_target_host(cpu, NULL, &target), TCC_OK);
        for (int rows = 1; rows <= 5; rows++)
            for (int b_t = 0; b_t < 2; b_t++) {
                c = matmul(rows, 2048, 2048, false, b_t, false);
                assert_int_equal(tcc_contract_make_plan(&target, &c, NULL, NULL, &p), TCC_OK);
                assert_int_equal(p.along_k, b_t && rows < 5);
            }
        tcc_llvm_target_clear(&target);
    }
    cpu = NULL;
}

/* The same of Winograd's products; those by tiles are none of its own. */
static void the_cpu_decides_how_winograd_multiplies(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for CPUs of x86-64");
    static const struct {
        const char *cpu;
        tcc_dtype type;
        int64_t channels;
        tcc_contract_multiply forward, filter;
    } cases[] = {
        {"x86-64-v4", TCC_BF16, 64, TCC_CONTRACT_FMA, TCC_CONTRACT_FMA},
        {"znver4", TCC_BF16, 64, TCC_CONTRACT_PAIRS, TCC_CONTRACT_PAIRS},
        {"znver4", TCC_BF16, 48, TCC_CONTRACT_FMA, TCC_CONTRACT_PAIRS}, /* no whole vectors of pairs of channels */
        {"znver4", TCC_F16, 64, TCC_CONTRACT_FMA, TCC_CONTRACT_FMA},
        {"sapphirerapids", TCC_BF16, 64, TCC_CONTRACT_FMA, TCC_CONTRACT_FMA}, /* its pairs are slower */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcc_llvm_target target;
        tcc_emitter e;
        tcc_strbuf assembly = {0};
        tcc_winograd w = {.type = cases[i].type,
                          .images = 8,
                          .rows = 8,
                          .columns = 8,
                          .channels = cases[i].channels,
                          .pad = {1, 1},
                          .out_channels = 64,
                          .tile_rows = 4,
                          .tile_columns = 4,
                          .filter_in = 1,
                          .filter_out = 9 * cases[i].channels,
                          .filter_tap = {3 * cases[i].channels, cases[i].channels}};
        assert_int_equal(tcc_llvm_target_host(cases[i].cpu, NULL, &target), TCC_OK);
        assert_int_equal(tcc_winograd_plan_forward(&target, NULL, &w), TCC_OK);
        assert_int_equal(w.multiply, cases[i].forward);
        assert_int_equal(tcc_winograd_plan_filter(&target, NULL, &w), TCC_OK);
        assert_int_equal(w.multiply, cases[i].filter);
        assert_int_equal(tcc_emitter_init(&e, &target, "winograd", NULL), TCC_OK);
        assert_int_equal(tcc_winograd_emit_gradient(&e, &(tcc_kernel_plan){.data = &w}, "winograd"), TCC_OK);
        assert_int_equal(tcc_emitter_finish(&e, NULL), TCC_OK);
        assert_int_equal(tcc_emitter_print_assembly(&e, &assembly), TCC_OK);
        const bool pairs = cases[i].filter == TCC_CONTRACT_PAIRS;
        assert_true(strstr(assembly.text, "vdpbf16ps") ? pairs : !pairs);
        assert_true(strstr(assembly.text, "vfmadd") ? !pairs : pairs);
        tcc_strbuf_free(&assembly);
        tcc_emitter_clear(&e);
        tcc_llvm_target_clear(&target);
    }
}

/* Both types are widened by instructions of their own, a vector at a time. */
static void narrow_types_are_widened_in_vectors(void **state) {
    (void)state;
    static const struct {
        tcc_dtype type;
        const char *widens;
    } types[] = {{TCC_F16, "vcvtph2ps"}, {TCC_BF16, "vpslld"}};
    for (int i = 0; i < 2; i++) {
        tcc_llvm_target target;
        tcc_contract_plan p;
        tcc_emitter e;
        tcc_strbuf assembly = {0};
        stored = types[i].type;
        assert_int_equal(tcc_llvm_target_host("x86-64-v4", NULL, &target), TCC_OK);
        tcc_contract c = matmul(64, 96, 70, false, false, false);
        assert_int_equal(tcc_contract_make_plan(&target, &c, NULL, NULL, &p), TCC_OK);
        assert_int_equal(tcc_emitter_init(&e, &target, "contract", NULL), TCC_OK);
        tcc_contract_emit(&e, "contract", &p, NULL, NULL);
        assert_int_equal(tcc_emitter_finish(&e, NULL), TCC_OK);
        assert_int_equal(tcc_emitter_print_assembly(&e, &assembly), TCC_OK);
        const char *widens = strstr(assembly.text, types[i].widens);
        assert_non_null(widens);
        assert_non_null(memmem(widens, strcspn(widens, "\n"), "%zmm", 4));
        tcc_strbuf_free(&assembly);
        tcc_emitter_clear(&e);
        tcc_llvm_target_clear(&target);
    }
    stored = TCC_F32;
}

static void equal_descriptions_have_equal_keys(void **state) {
    (void)state;
    tcc_llvm_target target;
    tcc_contract_plan p, q;
    tcc_strbuf key = {0}, same = {0}, other = {0};
    assert_int_equal(tcc_llvm_target_host(NULL, NULL, &target), TCC_OK);
    tcc_contract c = matmul(64, 32, 16, false, true, false);
    assert_int_equal(tcc_contract_make_plan(&target, &c, NULL, NULL, &p), TCC_OK);
    tcc_contract_key(&p, &key);
    tcc_contract split = c; /* the same rows as two dimensions */
    split.m.n = 2;
    split.m.d[0] = dim(8, 8 * 16, 0, 8 * 32);
    split.m.d[1] = dim(8, 16, 0, 32);
    assert_int_equal(tcc_contract_make_plan(&target, &split, NULL, NULL, &q), TCC_OK);
    tcc_contract_key(&q, &same);
    assert_string_equal(key.text, same.text);
    c.accumulate = true;
    assert_int_equal(tcc_contract_make_plan(&target, &c, NULL, NULL, &q), TCC_OK);
    tcc_contract_key(&q, &other);
    assert_string_not_equal(key.text, other.text);
    tcc_strbuf_free(&key), tcc_strbuf_free(&same), tcc_strbuf_free(&other);
    tcc_llvm_target_clear(&target);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_all_orientations),
        cmocka_unit_test(long_sums_go_in_blocks_and_parts),
        cmocka_unit_test(the_last_tile_is_alone_in_its_block),
        cmocka_unit_test(batches_and_random_strides),
        cmocka_unit_test(convolutions_and_their_gradients),
        cmocka_unit_test(windows_leave_out_the_border),
        cmocka_unit_test(an_empty_sum_is_zero),
        cmocka_unit_test(epilogues_see_every_element_once),
        cmocka_unit_test(narrower_vectors_work_too),
        cmocka_unit_test(narrow_operands_are_widened),
        cmocka_unit_test(bf16_by_its_own_instructions),
        cmocka_unit_test(the_cpu_decides_how_bf16_is_multiplied),
        cmocka_unit_test(narrow_tiles_are_bound_by_products),
        cmocka_unit_test(tiles_keep_a_long_k),
        cmocka_unit_test(a_matrix_that_is_read_once_is_not_packed),
        cmocka_unit_test(a_matrix_that_is_read_once_is_read_row_by_row),
        cmocka_unit_test(few_rows_times_rows_run_along_k),
        cmocka_unit_test(the_cpu_decides_how_winograd_multiplies),
        cmocka_unit_test(narrow_types_are_widened_in_vectors),
        cmocka_unit_test(equal_descriptions_have_equal_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
