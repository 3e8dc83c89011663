/* SPDX-License-Identifier: MIT
 * Params of library calls: each field and each rule refused with its words, params printed, and a program that holds
 * such a call refused when it is read. */
#include "harness/check.h"
#include "harness/sample_program.h"

#include "codegen/calls.h"
#include "ir/support/alloc.h"
#include "runtime/program_file.h"

#include <string.h>
#include <zlib.h>

static tcc_matmul_params product(void) {
    return (tcc_matmul_params){.batch = 1,
                               .m = 16,
                               .n = 24,
                               .k = 8,
                               .transpose_b = 1,
                               .lda = 8,
                               .ldb = 8,
                               .ldc = 24,
                               .outer = 1,
                               .type = TCC_BF16,
                               .type_c = TCC_F32,
                               .bias = TCC_MATMUL_BIAS,
                               .activation = TCC_MATMUL_RELU,
                               .alignment = 64,
                               .workspace_bytes = 4096};
}

/* 3 x 3 over 6 x 7, padded by 1, stride 2 along the last dim. */
static tcc_cudnn_conv_params convolution(void) {
    return (tcc_cudnn_conv_params){.conv = {.batch = 2,
                                            .groups = 1,
                                            .in = 4,
                                            .out = 8,
                                            .x_size = {1, 6, 7},
                                            .y_size = {1, 6, 4},
                                            .kernel = {1, 3, 3},
                                            .stride = {1, 1, 2},
                                            .dilation = {1, 1, 1},
                                            .pad_low = {0, 1, 1},
                                            .pad_high = {0, 1, 1},
                                            .x_stride = {168, 1, 168, 28, 4},
                                            .y_stride = {192, 1, 192, 32, 8},
                                            .w_stride = {36, 1, 36, 12, 4}},
                                   .type = TCC_F16,
                                   .alignment = 16};
}

static tcc_sdpa_params attention(void) {
    return (tcc_sdpa_params){.batch = 2,
                             .heads = 4,
                             .kv_heads = 4,
                             .queries = 128,
                             .keys = 128,
                             .width = 64,
                             .value_width = 64,
                             .q_stride = {32768, 8192, 64},
                             .k_stride = {32768, 8192, 64},
                             .v_stride = {32768, 8192, 64},
                             .o_stride = {32768, 8192, 64},
                             .scale_bits = 0x3e000000, /* 0.125 */
                             .causal = 1,
                             .type = TCC_BF16,
                             .alignment = 16};
}

static tcc_norm_params norm(void) {
    return (tcc_norm_params){.rows = 64, .channels = 16, .eps_bits = 0x3f000000, .type = TCC_F32};
}

static void passes(tcc_call call, const void *params) {
    tcc_diag d = {0};
    assert_ok(tcc_call_check(&d, call, params), &d);
}

static void refused(tcc_call call, const void *params, const char *words) {
    tcc_diag d = {0};
    assert_int_equal(tcc_call_check(&d, call, params), TCC_EFORMAT);
    const char *name = tcc_call_get_info(call)->name, *text = tcc_diag_text(&d);
    if (!strstr(text, name) || !strstr(text, words)) fail_msg("'%s' lacks '%s' or '%s'", text, name, words);
    tcc_diag_clear(&d);
}

static void printed(tcc_call call, const void *params, const char *expected) {
    tcc_strbuf text = {0};
    tcc_call_print_params(&text, call, params);
    assert_string_equal(text.text, expected);
    tcc_strbuf_free(&text);
}

static void test_names(void **state) {
    (void)state;
    for (int i = 0; i < TCC_CALLS; i++) assert_int_equal(tcc_call_find(tcc_call_get_info((tcc_call)i)->name), i);
    assert_int_equal(tcc_call_find("cublaslt.mat"), TCC_CALLS);
    assert_int_equal(tcc_call_get_info(TCC_CALL_CONV_FORWARD)->n_params, sizeof(tcc_cudnn_conv_params) / 8);
}

static void test_printed(void **state) {
    (void)state;
    const tcc_matmul_params p = product();
    const tcc_cudnn_conv_params c = convolution();
    const tcc_sdpa_params a = attention();
    tcc_norm_params n = norm();
    printed(
        TCC_CALL_MATMUL, &p,
        "{batch=1, m=16, n=24, k=8, transpose_b=1, lda=8, ldb=8, ldc=24, outer=1, type=bf16, type_c=f32, bias=bias, "
        "activation=relu, alignment=64, workspace_bytes=4096}");
    tcc_matmul_params by = p;
    by.by = (tcc_algorithm_params){.algorithm = 22, .tile = 20, .parts = 4};
    printed(
        TCC_CALL_MATMUL, &by,
        "{batch=1, m=16, n=24, k=8, transpose_b=1, lda=8, ldb=8, ldc=24, outer=1, type=bf16, type_c=f32, bias=bias, "
        "activation=relu, algorithm=22, tile=20, parts=4, alignment=64, workspace_bytes=4096}");
    printed(TCC_CALL_CONV_FORWARD, &c,
            "{batch=2, groups=1, in=4, out=8, x_size=[1,6,7], y_size=[1,6,4], kernel=[1,3,3], stride=[1,1,2], "
            "dilation=[1,1,1], pad_low=[0,1,1], pad_high=[0,1,1], x_stride=[168,1,168,28,4], "
            "y_stride=[192,1,192,32,8], w_stride=[36,1,36,12,4], type=f16, alignment=16}");
    printed(TCC_CALL_SDPA_FORWARD, &a,
            "{batch=2, heads=4, kv_heads=4, queries=128, keys=128, width=64, value_width=64, q_stride=[32768,8192,64], "
            "k_stride=[32768,8192,64], v_stride=[32768,8192,64], o_stride=[32768,8192,64], scale_bits=0.125, "
            "causal=1, type=bf16, alignment=16}");
    n.type = 77; /* no type: as it is */
    printed(TCC_CALL_NORM_FORWARD, &n, "{rows=64, channels=16, eps_bits=0.5, type=77}");
}

/* Each kind of field. */
static void test_fields(void **state) {
    (void)state;
    tcc_matmul_params good = product(), p = good;
    passes(TCC_CALL_MATMUL, &p);
#define REFUSED(name, value, words) p = good, p.name = (value), refused(TCC_CALL_MATMUL, &p, #name " " words ": {")
    REFUSED(k, 0, "must be 1 or more");
    REFUSED(stride_a, -1, "must be 0 or more");
    REFUSED(transpose_a, 2, "must be 0 or 1");
    REFUSED(type, TCC_I32, "is no type of floats");
    REFUSED(type_c, INT64_MAX, "is no type of floats");
    REFUSED(bias, TCC_MATMUL_SUMS_OF_B + 1, "is no kind of bias");
    REFUSED(activation, TCC_MATMUL_ACTIVATIONS, "is no activation");
    REFUSED(alignment, 24, "must be a power of two");
    REFUSED(workspace_bytes, INT64_MIN, "must be 0 or more");
#undef REFUSED
    tcc_norm_params n = norm();
    n.eps_bits = INT64_C(1) << 32;
    refused(TCC_CALL_NORM_FORWARD, &n, "eps_bits is not the 32 bits of an f32");
}

static void test_rules_of_products(void **state) {
    (void)state;
    tcc_matmul_params good = product(), p = good;
#define REFUSED(words, ...) p = good, __VA_ARGS__, refused(TCC_CALL_MATMUL, &p, words)
    REFUSED("batch is beyond 2^31 - 1", p.batch = INT64_C(1) << 31);
    REFUSED("a row of A overlaps the next one", p.lda = 7);
    REFUSED("a row of B overlaps the next one", p.transpose_b = 0);
    REFUSED("a row of C overlaps the next one", p.ldc = 23);
    REFUSED("f64 goes with f64 alone", p.type = TCC_F64);
    REFUSED("f64 goes with linear and relu", p.type = p.type_c = TCC_F64, p.activation = TCC_MATMUL_GELU);
    REFUSED("calls that add up have no bias, activation or addend", p.outer = 2);
    REFUSED("an addend goes with linear and relu", p.addend = 1, p.activation = TCC_MATMUL_GELU);
    REFUSED("the activation's gradient has no bias", p.activation = TCC_MATMUL_GELU_GRADIENT);
    REFUSED("sums go with a single product", p.bias = TCC_MATMUL_SUMS_OF_A);
    REFUSED("aux goes with gelu and with gradients", p.aux = 1);
    good.bias = TCC_MATMUL_NO_BIAS, good.activation = TCC_MATMUL_GELU_GRADIENT, good.aux = 1, good.ld_aux = 24;
    p = good;
    passes(TCC_CALL_MATMUL, &p);
    REFUSED("the activation's gradient reads aux", p.aux = 0);
    REFUSED("aux goes with a single call", p.outer = 2, p.outer_c = 384);
    REFUSED("a row of aux overlaps the next one", p.ld_aux = 16);
    REFUSED("must be multiples of 8", p.ld_aux = 28);
    REFUSED("must be multiples of 128", p.activation = TCC_MATMUL_RELU_GRADIENT);
    REFUSED("aux wants an alignment of 16 bytes or more", p.alignment = 8);
#undef REFUSED
}

static void test_rules_of_convolutions(void **state) {
    (void)state;
    tcc_cudnn_conv_params good = convolution(), p = good;
    passes(TCC_CALL_CONV_FORWARD, &p);
    passes(TCC_CALL_CONV_DATA_GRADIENT, &p);
#define REFUSED(call, words, ...) p = good, __VA_ARGS__, refused(TCC_CALL_##call, &p, words)
    REFUSED(CONV_FORWARD, "groups must divide the channels", p.conv.groups = 3);
    REFUSED(CONV_FORWARD, "y_size is not what", p.conv.y_size[2] = 3);
    REFUSED(CONV_FORWARD, "y_size is not what", p.conv.kernel[1] = p.conv.dilation[1] = INT64_MAX);
    REFUSED(CONV_FORWARD, "y_size is not what", p.conv.pad_low[1] = INT64_MAX);
    REFUSED(CONV_FORWARD, "type must be f32, f16 or bf16", p.type = TCC_F64);
    REFUSED(CONV_FORWARD, "elements are not aligned", p.alignment = 1);
    REFUSED(CONV_FILTER_GRADIENT, "a gradient has no bias and no relu", p.conv.bias = 1);
#undef REFUSED
}

static void test_rules_of_attention_and_norms(void **state) {
    (void)state;
    tcc_sdpa_params a = attention();
    passes(TCC_CALL_SDPA_FORWARD, &a);
    refused(TCC_CALL_SDPA_BACKWARD, &a, "do, dq, dk and dv want strides");
    a.keys = 127;
    refused(TCC_CALL_SDPA_FORWARD, &a, "the first queries see no key");
    a = attention(), a.kv_heads = 3;
    refused(TCC_CALL_SDPA_FORWARD, &a, "kv_heads must divide heads");
    a = attention(), a.type = TCC_F32;
    refused(TCC_CALL_SDPA_FORWARD, &a, "type must be f16 or bf16");
    tcc_norm_params n = norm();
    passes(TCC_CALL_NORM_FORWARD, &n);
    refused(TCC_CALL_NORM_BACKWARD, &n, "the gradient has no eps");
    n.eps_bits = (int32_t)0xbf000000;
    refused(TCC_CALL_NORM_FORWARD, &n, "eps must be 0 or more");
    n.eps_bits = 0x7fc00000;
    refused(TCC_CALL_NORM_FORWARD, &n, "eps must be 0 or more");
    n = norm(), n.rows = INT64_MAX / 8;
    refused(TCC_CALL_NORM_FORWARD, &n, "rows x channels overflow");
}

/* The sample with a product in it. It is written, and its bytes are read; then again with one of them changed. */
static void test_stored(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_program *p = sample_program(), *back;
    tcc_library_call *call = TCC_ARENA_NEW(&p->memory, tcc_library_call);
    tcc_matmul_params params = product();
    tcc_buffer buffers[7] = {0};
    *call = (tcc_library_call){"cublaslt.matmul", 7, TCC_MATMUL_PARAMS, buffers, (const int64_t *)&params};
    p->steps[3] = (tcc_step){.kind = TCC_STEP_LIBRARY, .call = call, .label = "dot"};
    params.workspace_bytes = 0x123456789ab; /* found again in the bytes */
    void *bytes;
    int64_t size;
    assert_ok(tcc_program_encode(&d, p, &bytes, &size), &d);
    assert_ok(tcc_program_decode(&d, "memory", bytes, size, &back), &d);
    tcc_program_destroy(back);

    unsigned char *in = bytes, *last = memmem(bytes, (size_t)size, &params.workspace_bytes, 8);
    assert_non_null(last);
    unsigned char *ldc = last - 8 * (TCC_MATMUL_PARAMS - 1) + offsetof(tcc_matmul_params, ldc);
    assert_int_equal(*ldc, params.ldc);
    *ldc = 8;
    const uint64_t checksum = crc32_z(0, in + 32, (size_t)size - 32);
    memcpy(in + 24, &checksum, sizeof checksum);
    assert_int_equal(tcc_program_decode(&d, "memory", bytes, size, &back), TCC_EFORMAT);
    assert_non_null(strstr(tcc_diag_text(&d), "cublaslt.matmul: a row of C overlaps the next one: {batch=1, m=16"));
    assert_non_null(strstr(tcc_diag_text(&d), "in program 'test', step 3 (dot)"));
    tcc_diag_clear(&d);
    tcc__free(bytes);

    call->n_params--;
    assert_int_equal(tcc_program_encode(&d, p, &bytes, &size), TCC_EFORMAT);
    assert_non_null(strstr(tcc_diag_text(&d), "'cublaslt.matmul' takes 37 params and 7 buffers, not 36 and 7"));
    tcc_diag_clear(&d);
    tcc_program_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_printed),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_rules_of_products),
        cmocka_unit_test(test_rules_of_convolutions),
        cmocka_unit_test(test_rules_of_attention_and_norms),
        cmocka_unit_test(test_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
