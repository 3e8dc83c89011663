/* SPDX-License-Identifier: MIT
 * A matrix product by cuBLASLt. It counts matrices by columns: a row-major m x n matrix is an n x m one to it, and C =
 * A B is C' = B' A', so its first operand is our B, its second our A, and the bias of our columns is one of its rows.
 */
#include "runtime/cuda/cublaslt_product.h"

#include "ir/support/alloc.h"

#include <stddef.h>

/* That the library wants; a buffer of a program has less, so room is asked for to round up. */
enum { WORKSPACE_ALIGNMENT = 256 };

enum { FIRST, SECOND, RESULT, LAYOUTS }; /* as the library sees them: our B, our A, our C */

struct tcc_cublaslt_product {
    const tcc_cublaslt *lt;
    const tcc_cublaslt_functions *f;
    tcc_cuda_stream stream;
    tcc_matmul_params p;
    void *desc, *preference, *layouts[LAYOUTS];
    tcc_cublaslt_algorithm algorithm;
    size_t workspace_bytes;     /* that it takes */
    tcc_cuda_address bias, aux; /* that `desc` names */
};

static int data_type(int64_t dtype) {
    switch (dtype) {
    case TCC_F64: return TCC_CUDA_R_64F;
    case TCC_F32: return TCC_CUDA_R_32F;
    case TCC_F16: return TCC_CUDA_R_16F;
    default: return TCC_CUDA_R_16BF;
    }
}

#define LT_TRY(call, field, ...) TCC_CUBLASLT_TRY((call)->f, d, field, __VA_ARGS__)

/* A matrix that lies by columns; `across`: elements from column to column. */
static tcc_status make_layout(tcc_cublaslt_product *c, tcc_diag *d, int which, int64_t dtype, int64_t rows,
                              int64_t columns, int64_t across, int64_t stride) {
    const int32_t batch = (int32_t)c->p.batch;
    LT_TRY(c, layout_create, &c->layouts[which], data_type(dtype), (uint64_t)rows, (uint64_t)columns, across);
    if (batch == 1) return TCC_OK;
    LT_TRY(c, layout_set, c->layouts[which], TCC_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    LT_TRY(c, layout_set, c->layouts[which], TCC_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
    return TCC_OK;
}

/* The choice of an algorithm asks how the pointers are aligned; runs set them to where their buffers are. */
static tcc_status set_pointers(tcc_cublaslt_product *c, tcc_diag *d, tcc_cuda_address bias, tcc_cuda_address aux) {
    const void *pointer = (const void *)(uintptr_t)bias;
    if (c->p.bias && c->bias != bias)
        LT_TRY(c, matmul_set, c->desc, TCC_CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer, sizeof pointer);
    c->bias = bias;
    pointer = (const void *)(uintptr_t)aux;
    if (c->p.aux && c->aux != aux)
        LT_TRY(c, matmul_set, c->desc, TCC_CUBLASLT_MATMUL_DESC_AUX_POINTER, &pointer, sizeof pointer);
    c->aux = aux;
    return TCC_OK;
}

/* The library's first operand is our B. */
static uint32_t epilogue_of(const tcc_matmul_params *p) {
    static const uint32_t activations[] = {[TCC_MATMUL_RELU] = TCC_CUBLASLT_EPILOGUE_RELU,
                                           [TCC_MATMUL_GELU] = TCC_CUBLASLT_EPILOGUE_GELU,
                                           [TCC_MATMUL_GELU_GRADIENT] = TCC_CUBLASLT_EPILOGUE_DGELU,
                                           [TCC_MATMUL_RELU_GRADIENT] = TCC_CUBLASLT_EPILOGUE_DRELU};
    static const uint32_t biases[] = {[TCC_MATMUL_BIAS] = TCC_CUBLASLT_EPILOGUE_BIAS,
                                      [TCC_MATMUL_SUMS_OF_A] = TCC_CUBLASLT_EPILOGUE_BGRADB,
                                      [TCC_MATMUL_SUMS_OF_B] = TCC_CUBLASLT_EPILOGUE_BGRADA};
    const uint32_t epilogue = activations[p->activation] | biases[p->bias] | (p->aux ? TCC_CUBLASLT_EPILOGUE_AUX : 0u);
    return epilogue ? epilogue : TCC_CUBLASLT_EPILOGUE_DEFAULT;
}

static int compute_type(const tcc_matmul_params *p) {
    if (p->type == TCC_F64) return TCC_CUBLAS_COMPUTE_64F;
    return p->allow_tf32 && p->type == TCC_F32 ? TCC_CUBLAS_COMPUTE_32F_FAST_TF32 : TCC_CUBLAS_COMPUTE_32F;
}

static tcc_status describe_product(tcc_cublaslt_product *c, tcc_diag *d) {
    const tcc_matmul_params *p = &c->p;
    const int32_t first = p->transpose_b ? TCC_CUBLAS_OP_T : TCC_CUBLAS_OP_N,
                  second = p->transpose_a ? TCC_CUBLAS_OP_T : TCC_CUBLAS_OP_N;
    const int32_t bias_type = data_type(p->type_c);
    const uint32_t epilogue = epilogue_of(p);
    const bool wide = p->type == TCC_F64;
    LT_TRY(c, matmul_create, &c->desc, compute_type(p), wide ? TCC_CUDA_R_64F : TCC_CUDA_R_32F);
    LT_TRY(c, matmul_set, c->desc, TCC_CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    LT_TRY(c, matmul_set, c->desc, TCC_CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    LT_TRY(c, matmul_set, c->desc, TCC_CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (p->bias) LT_TRY(c, matmul_set, c->desc, TCC_CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type);
    if (p->aux) LT_TRY(c, matmul_set, c->desc, TCC_CUBLASLT_MATMUL_DESC_AUX_LD, &p->ld_aux, sizeof p->ld_aux);
    if (p->aux && p->batch > 1)
        LT_TRY(c, matmul_set, c->desc, TCC_CUBLASLT_MATMUL_DESC_AUX_BATCH_STRIDE, &p->stride_aux, sizeof p->stride_aux);
    return set_pointers(c, d, (tcc_cuda_address)p->alignment, (tcc_cuda_address)p->alignment);
}

/* -- Its algorithm -- */

/* The attributes of an algorithm's configuration, and the fields of tcc_algorithm_params that have them; but for its
 * id, what is 0 there is the library's default. */
static const struct {
    int attribute, bytes;
    size_t field;
} attributes[] = {
#define AT(name) offsetof(tcc_algorithm_params, name)
    {TCC_CUBLASLT_ALGO_CONFIG_TILE_ID, 4, AT(tile)},
    {TCC_CUBLASLT_ALGO_CONFIG_STAGES_ID, 4, AT(stages)},
    {TCC_CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4, AT(parts)},
    {TCC_CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4, AT(reduction)},
    {TCC_CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4, AT(swizzle)},
    {TCC_CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4, AT(option)},
    {TCC_CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2, AT(inner)},
    {TCC_CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2, AT(cluster)},
#undef AT
};
enum { ATTRIBUTES = sizeof attributes / sizeof *attributes, MOST_ANSWERS = 16 };

static int64_t *field_of(tcc_algorithm_params *by, int i) {
    return (int64_t *)(void *)((char *)by + attributes[i].field);
}

static bool get_attribute(tcc_cublaslt_product *c, int attribute, int bytes, int64_t *value) {
    uint32_t wide = 0;
    uint16_t narrow = 0;
    size_t written = 0;
    void *to = bytes == 2 ? (void *)&narrow : (void *)&wide;
    if (c->f->algorithm_get(&c->algorithm, attribute, to, (size_t)bytes, &written)) return false;
    *value = bytes == 2 ? narrow : wide;
    return true;
}

/* Writes down what the algorithm is. One that lacks an attribute has 0 there. */
static tcc_status name_algorithm(tcc_cublaslt_product *c, tcc_diag *d) {
    tcc_algorithm_params by = {0};
    int64_t id = 0;
    if (!get_attribute(c, TCC_CUBLASLT_ALGO_CONFIG_ID, 4, &id))
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "%s: the algorithm has no id",
                         tcc__cublaslt_symbol_algorithm_get);
    by.algorithm = id + 1;
    for (int i = 0; i < ATTRIBUTES; i++)
        get_attribute(c, attributes[i].attribute, attributes[i].bytes, field_of(&by, i));
    c->p.by = by;
    return TCC_OK;
}

/* The schemes by which parts of a sum may be added: never in 16 bits. Where C is wider, each adds in C's type. */
static uint32_t reductions_of(const tcc_matmul_params *p) {
    return p->type_c == TCC_F16 || p->type_c == TCC_BF16 ? TCC_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                         : TCC_CUBLASLT_REDUCTION_SCHEME_MASK;
}

/* The algorithm that p.by prescribes, if the library has it for this product. */
static tcc_status prescribe(tcc_cublaslt_product *c, tcc_diag *d, tcc_cublaslt_result *result) {
    tcc_matmul_params *p = &c->p;
    const bool wide = p->type == TCC_F64;
    const int type = data_type(p->type), type_c = data_type(p->type_c);
    if (p->by.reduction & ~(int64_t)reductions_of(p))
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "reduction %lld may add parts of a sum in 16 bits",
                         (long long)p->by.reduction);
    LT_TRY(c, algorithm_init, c->lt->handle, compute_type(p), wide ? TCC_CUDA_R_64F : TCC_CUDA_R_32F, type, type,
           type_c, type_c, (int)(p->by.algorithm - 1), &result->algorithm);
    for (int i = 0; i < ATTRIBUTES; i++) {
        const uint32_t value = (uint32_t)*field_of(&p->by, i);
        const uint16_t narrow = (uint16_t)value;
        const void *from = attributes[i].bytes == 2 ? (const void *)&narrow : (const void *)&value;
        if (value)
            LT_TRY(c, algorithm_set, &result->algorithm, attributes[i].attribute, from, (size_t)attributes[i].bytes);
    }
    const tcc_cublaslt_algorithm algorithm = result->algorithm;
    LT_TRY(c, algorithm_check, c->lt->handle, c->desc, c->layouts[FIRST], c->layouts[SECOND], c->layouts[RESULT],
           c->layouts[RESULT], &algorithm, result);
    if (result->state) return tcc__cublaslt_failed(c->f, d, result->state, tcc__cublaslt_symbol_algorithm_check);
    result->algorithm = algorithm;
    return TCC_OK;
}

/* The library's answer of that rank, the first of which is 0. */
static tcc_status ask_heuristic(tcc_cublaslt_product *c, tcc_diag *d, uint64_t workspace, int rank,
                                tcc_cublaslt_result *result) {
    const uint32_t alignment = (uint32_t)(c->p.alignment < 256 ? c->p.alignment : 256);
    const uint32_t reductions = reductions_of(&c->p);
    tcc_cublaslt_result results[MOST_ANSWERS] = {0};
    int found = 0;
    LT_TRY(c, preference_create, &c->preference);
    LT_TRY(c, preference_set, c->preference, TCC_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
           sizeof workspace);
    LT_TRY(c, preference_set, c->preference, TCC_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
           sizeof reductions);
    for (int i = 0; i < 4; i++) /* A, B, C, D */
        LT_TRY(c, preference_set, c->preference, TCC_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, &alignment,
               sizeof alignment);
    if (rank >= MOST_ANSWERS)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "no more than %d answers are asked for", MOST_ANSWERS);
    LT_TRY(c, heuristic, c->lt->handle, c->desc, c->layouts[FIRST], c->layouts[SECOND], c->layouts[RESULT],
           c->layouts[RESULT], c->preference, rank + 1, results, &found);
    if (found <= rank)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "cublasLtMatmulAlgoGetHeuristic: it knows no %sway",
                         rank ? "further " : "");
    *result = results[rank];
    return result->state ? tcc__cublaslt_failed(c->f, d, result->state, tcc__cublaslt_symbol_heuristic) : TCC_OK;
}

/* Its tiles fill less than an eighth of the GPU, and its sums are long and not cut: each tile goes along k alone,
 * however few of its rows and columns are there. Weights of 19 classes took 47 ms so on an H100. */
static bool leaves_idle(const tcc_matmul_params *p, const tcc_cublaslt_result *result) {
    enum { LONG = 4096 };
    return result->waves > 0 && result->waves < 0.125F && p->k >= LONG;
}

static tcc_status choose(tcc_cublaslt_product *c, tcc_diag *d) {
    const int64_t slack = WORKSPACE_ALIGNMENT - 1, room = c->p.workspace_bytes;
    const uint64_t workspace = room > slack ? (uint64_t)(room - slack) : 0;
    const bool prescribed = c->p.by.algorithm, named = c->p.by.rank;
    tcc_cublaslt_result result = {0};
    if (prescribed) TCC_TRY(prescribe(c, d, &result));
    else TCC_TRY(ask_heuristic(c, d, workspace, named ? (int)c->p.by.rank - 1 : 0, &result));
    if (result.workspace_bytes > workspace)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "%s: its way takes %zu bytes of workspace, %llu are there",
                         prescribed ? tcc__cublaslt_symbol_algorithm_check : tcc__cublaslt_symbol_heuristic,
                         result.workspace_bytes, (unsigned long long)workspace);
    if (!prescribed && !named && leaves_idle(&c->p, &result))
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "its way fills %.3g of the GPU", (double)result.waves);
    c->algorithm = result.algorithm;
    c->workspace_bytes = result.workspace_bytes;
    c->p.workspace_bytes = result.workspace_bytes ? (int64_t)result.workspace_bytes + slack : 0;
    return named && !prescribed ? name_algorithm(c, d) : TCC_OK;
}

static tcc_status make(tcc_cublaslt_product *c, tcc_diag *d) {
    const tcc_matmul_params *p = &c->p;
    TCC_TRY(describe_product(c, d));
    TCC_TRY(make_layout(c, d, FIRST, p->type, p->transpose_b ? p->k : p->n, p->transpose_b ? p->n : p->k, p->ldb,
                        p->stride_b));
    TCC_TRY(make_layout(c, d, SECOND, p->type, p->transpose_a ? p->m : p->k, p->transpose_a ? p->k : p->m, p->lda,
                        p->stride_a));
    TCC_TRY(make_layout(c, d, RESULT, p->type_c, p->n, p->m, p->ldc, p->stride_c));
    return choose(c, d);
}

void tcc__cublaslt_product_destroy(tcc_cublaslt_product *c) {
    if (!c) return;
    if (c->preference) c->f->preference_destroy(c->preference);
    for (int i = 0; i < LAYOUTS; i++)
        if (c->layouts[i]) c->f->layout_destroy(c->layouts[i]);
    if (c->desc) c->f->matmul_destroy(c->desc);
    tcc__free(c);
}

tcc_status tcc__cublaslt_product_create(tcc_device_cuda *cuda, tcc_diag *d, tcc_matmul_params *p,
                                        tcc_cublaslt_product **out) {
    *out = NULL;
    tcc_cublaslt_product *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(d);
    c->lt = cuda->cublaslt;
    c->f = &c->lt->library.f;
    c->stream = cuda->compute;
    c->p = *p;
    tcc_status s = make(c, d);
    if (s != TCC_OK) {
        tcc_note(d, TCC_NOWHERE, "for cublaslt.matmul of %lld x %lld x %lld x %lld (batch, m, n, k)",
                 (long long)p->batch, (long long)p->m, (long long)p->n, (long long)p->k);
        tcc__cublaslt_product_destroy(c);
        return s;
    }
    *p = c->p;
    *out = c;
    return TCC_OK;
}

tcc_status tcc__cublaslt_product_run(tcc_cublaslt_product *c, tcc_diag *d, const tcc_cuda_address *buffers) {
    enum { A, B, BIAS, AUX, ADDEND, C, WORKSPACE };
    static const float narrow[] = {0, 1};
    static const double wide[] = {0, 1};
    const tcc_matmul_params *p = &c->p;
    const int64_t bytes = tcc_dtype_bytes((tcc_dtype)p->type), bytes_c = tcc_dtype_bytes((tcc_dtype)p->type_c);
    const tcc_cuda_address workspace = (buffers[WORKSPACE] + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT *
                                       WORKSPACE_ALIGNMENT;
    const void *zero = p->type == TCC_F64 ? (const void *)&wide[0] : &narrow[0],
               *one = p->type == TCC_F64 ? (const void *)&wide[1] : &narrow[1];
    TCC_TRY(set_pointers(c, d, buffers[BIAS], buffers[AUX]));
    for (int64_t i = 0; i < p->outer; i++) {
        const void *a = (const void *)(uintptr_t)(buffers[A] + (tcc_cuda_address)(i * p->outer_a * bytes));
        const void *b = (const void *)(uintptr_t)(buffers[B] + (tcc_cuda_address)(i * p->outer_b * bytes));
        void *to = (void *)(uintptr_t)(buffers[C] + (tcc_cuda_address)(i * p->outer_c * bytes_c));
        const void *from =
            p->addend ? (const void *)(uintptr_t)(buffers[ADDEND] + (tcc_cuda_address)(i * p->outer_c * bytes_c)) : to;
        const bool adds = p->addend || (i && !p->outer_c);
        LT_TRY(c, matmul, c->lt->handle, c->desc, one, b, c->layouts[FIRST], a, c->layouts[SECOND], adds ? one : zero,
               from, c->layouts[RESULT], to, c->layouts[RESULT], &c->algorithm,
               c->workspace_bytes ? (void *)(uintptr_t)workspace : NULL, c->workspace_bytes, c->stream);
    }
    return TCC_OK;
}
