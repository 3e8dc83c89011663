/* SPDX-License-Identifier: MIT
 * The rows of ops.def as models. */
#include "op_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WANTED = 8, MOST_DIGITS = 24 };

#define BENCH(name, operands, in_c, in_pytorch) LAYER(name, operands, "", in_c, "", in_pytorch)
#define CHAIN BENCH
#define KIND(name, why)
#define BOUND(name, why)
#define GPU_BOUND(name, why)
#define LAYER(name, operands, parameters, in_c, module, in_pytorch) \
    static tcc_tensor make_##name(const tcc_tensor *x) { return in_c; }

/* -- What is more than one call -- */

static tcc_tensor counts(tcc_tensor of, int n, double value) {
    return tcc_constant(of.trace, value, TCC_I32, TCC_DIMS(n));
}

static tcc_tensor ctc(tcc_tensor x, tcc_tensor labels) {
    const int times = (int)tcc_dim(x, 0);
    return tcc_ctc_loss(tcc_log_softmax(x, 2), tcc_add_scalar(labels, 1), counts(x, 16, times), counts(x, 16, 20));
}

static tcc_tensor product_and_sum(const tcc_tensor *x) { return tcc_add(tcc_mul(x[0], x[1]), x[2]); }

static tcc_tensor split_thirds(tcc_tensor x) {
    tcc_tensor parts[3];
    tcc_split(x, 1, parts, TCC_DIMS(512, 512, 512));
    return product_and_sum(parts);
}

static tcc_tensor chunk_thirds(tcc_tensor x) {
    tcc_tensor parts[3];
    tcc_chunk(x, 1, 3, parts);
    return product_and_sum(parts);
}

static tcc_tensor mesh(const tcc_tensor *x) {
    tcc_tensor grid[2];
    tcc_meshgrid(x, 2, grid);
    return tcc_sub(tcc_mul(grid[0], grid[0]), grid[1]);
}

#include "ops.def"
#undef LAYER
#undef CHAIN

const op_row op_rows[] = {
#define CHAIN(name, operands, in_c, in_pytorch) {#name, operands, "", "", in_pytorch, true, __LINE__, make_##name},
#define LAYER(name, operands, parameters, in_c, module, in_pytorch) \
    {#name, operands, parameters, module, in_pytorch, false, __LINE__, make_##name},
#include "ops.def"
#undef LAYER
#undef CHAIN
#undef BENCH
#undef BOUND
};
const int op_rows_count = sizeof op_rows / sizeof op_rows[0];

typedef struct reason {
    const char *name, *why;
    int line; /* of ops.def */
} reason;

#define BENCH(name, operands, in_c, in_pytorch)
#define CHAIN(name, operands, in_c, in_pytorch)
#define LAYER(name, operands, parameters, in_c, module, in_pytorch)
static const reason bounds[] = {
#define BOUND(name, why) {#name, why, __LINE__},
#include "ops.def"
#undef BOUND
};
#undef KIND
static const reason kinds[] = {
#define KIND(name, why) {#name, why, __LINE__},
#define BOUND(name, why)
#include "ops.def"
};
enum { BOUNDS = sizeof bounds / sizeof bounds[0], KINDS = sizeof kinds / sizeof kinds[0] };

/* The last one in front of the row. */
static const reason *kind_of(const op_row *row) {
    int i = KINDS - 1;
    while (kinds[i].line > row->line) i--;
    return &kinds[i];
}

const op_row *op_row_find(const char *name) {
    for (int i = 0; i < op_rows_count; i++)
        if (!strcmp(op_rows[i].name, name)) return &op_rows[i];
    return NULL;
}

const char *op_row_bound(const op_row *row) {
    for (int i = 0; i < BOUNDS; i++)
        if (!strcmp(bounds[i].name, row->name)) return bounds[i].why;
    return "";
}

const char *op_row_kind(const op_row *row) { return kind_of(row)->name; }
const char *op_row_limit(const op_row *row) { return kind_of(row)->why; }

static bool is_wanted(char kind) { return kind == 'p' || kind == 'u'; }

/* The layer's parameters, of names and shapes as operands have them, behind the n that are there; their number. */
static int add_parameters(tcc_trace *t, const char *p, tcc_tensor *wanted, int n) {
    while (*p && n < MOST_WANTED) {
        char name[32];
        int64_t dims[TCC_MAX_RANK];
        int rank = 0;
        const int length = (int)strcspn(p, "[");
        snprintf(name, sizeof name, "%.*s", length, p);
        for (p += length; *p && *p != ']';) dims[rank++] = strtoll(p + 1, (char **)&p, 10);
        wanted[n++] = tcc_param(t, name, (tcc_init){0}, rank, dims);
        p += strspn(p, "] ");
    }
    return n;
}

void op_bench_build(tcc_trace *t, void *bench) {
    op_bench *b = bench;
    tcc_tensor x[OP_MOST_OPERANDS] = {{0}}, wanted[MOST_WANTED], gradients[MOST_WANTED];
    int n = 0;
    tcc_param_type(t, b->dtype);
    for (int i = 0; i < b->n; i++) {
        x[i] = tcc_input(t, b->names[i]);
        if (is_wanted(b->kinds[i])) wanted[n++] = x[i];
    }
    tcc_tensor y = b->row->make(x);
    tcc_output(t, "y", y);
    n = add_parameters(t, b->row->parameters, wanted, n);
    tcc_param_type_end(t);
    const tcc_dtype dtype = tcc_get_dtype(y);
    b->has_gradient = n > 0 && (dtype == TCC_F32 || dtype == TCC_BF16);
    if (!b->gradients || !b->has_gradient) return;
    tcc_gradients(tcc_sum(tcc_mul(y, tcc_input(t, "dy")), TCC_ALL), wanted, n, gradients);
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        tcc_output(t, name, gradients[i]);
    }
}

/* -- Operands -- */

int64_t op_array_numel(const tcc_array *a) {
    int64_t n = 1;
    for (int i = 0; i < a->rank; i++) n *= a->dims[i];
    return n;
}

static double draw(void) {
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(state >> 40) * 0x1p-24;
}

static void fill(tcc_array *a, char kind, int modulus) {
    const int64_t n = op_array_numel(a);
    a->data = calloc((size_t)n, 4);
    for (int64_t i = 0; a->data && i < n; i++) {
        const double u = draw();
        const float x = (float)(kind == 'u' || kind == 'w' ? 0.999 * u + 0.0005 : 2 * u - 1);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (kind == 'i') ((int32_t *)a->data)[i] = (int32_t)(u * modulus);
        else if (a->dtype == TCC_BF16) ((uint16_t *)a->data)[i] = (uint16_t)(bits >> 16);
        else ((float *)a->data)[i] = x;
    }
}

/* The first dimension's extent of x[0]. */
static int64_t divided_extent(const op_row *row) {
    const char *first = strchr(row->operands, '[');
    return first ? strtoll(first + 1, NULL, 10) : 0;
}

void op_row_operands(const op_row *row, int divisor, char text[OP_OPERANDS_SIZE]) {
    const int64_t divided = divided_extent(row);
    size_t n = 0;
    for (const char *p = row->operands; *p && n + MOST_DIGITS < OP_OPERANDS_SIZE;) {
        char *end;
        const int64_t number = strtoll(p, &end, 10);
        if (*p < '0' || *p > '9') {
            text[n++] = *p++;
            continue;
        }
        n += (size_t)sprintf(text + n, "%lld", (long long)(number == divided ? number / divisor : number));
        p = end;
    }
    text[n] = 0;
}

/* Reads a kind and a shape of `text`, and the modulus of indices, and says where the next begins. */
static const char *read_operand(const char *text, char *kind, int *modulus, tcc_array *a) {
    char *end;
    *kind = *text;
    *modulus = (int)strtol(text + 1, &end, 10);
    while (*end && *end != ']') a->dims[a->rank++] = strtoll(end + 1, &end, 10);
    return end + strspn(end, "] ");
}

/* Elements of the largest operand. */
static int64_t largest(const op_row *row, int divisor) {
    char text[OP_OPERANDS_SIZE], kind;
    int64_t most = 0;
    int modulus;
    op_row_operands(row, divisor, text);
    for (const char *p = text; *p;) {
        tcc_array a = {0};
        p = read_operand(p, &kind, &modulus, &a);
        if (op_array_numel(&a) > most) most = op_array_numel(&a);
    }
    return most;
}

int op_row_divisor(const op_row *row, int64_t most) {
    int divisor = 1;
    while (largest(row, divisor) > most && divided_extent(row) % (2 * divisor) == 0) divisor *= 2;
    return divisor;
}

void op_bench_operands(op_bench *b, int divisor) {
    char text[OP_OPERANDS_SIZE];
    op_row_operands(b->row, divisor, text);
    for (const char *p = text; *p && b->n < OP_MOST_OPERANDS; b->n++) {
        tcc_array *a = &b->x[b->n];
        int modulus;
        snprintf(b->names[b->n], sizeof b->names[b->n], "x%d", b->n);
        *a = (tcc_array){.name = b->names[b->n]};
        p = read_operand(p, &b->kinds[b->n], &modulus, a);
        a->dtype = b->kinds[b->n] == 'i' ? TCC_I32 : b->dtype;
        fill(a, b->kinds[b->n], modulus);
    }
}

void op_bench_result_gradient(op_bench *b, const tcc_array *y) {
    b->x[b->n] = *y;
    b->x[b->n].name = "dy";
    fill(&b->x[b->n], 'p', 0);
}

void op_bench_clear(op_bench *b) {
    for (int i = 0; i <= b->n; i++) free(b->x[i].data);
    *b = (op_bench){0};
}
