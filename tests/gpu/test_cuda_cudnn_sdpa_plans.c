/* SPDX-License-Identifier: MIT
 * Attention as the real cuDNN takes it, without a device. Its kernels are compiled for the plan, where tests/nodevice
 * is the driver. With the stand-in, or no library, nothing is tested. */
#include "harness/check.h"
#include "harness/cudnn_planner.h"

#include "codegen/calls.h"
#include "runtime/cuda/cudnn_sdpa.h"

#include <dlfcn.h>
#include <stdio.h>

/* Heads of a packed [batch, rows, 3, heads, width] with o and do of [batch, rows, heads, width], or all as [batch,
 * heads, rows, width]. */
static tcc_sdpa_params attention(tcc_dtype type, int64_t queries, int64_t keys, int64_t width, bool packed) {
    enum { BATCH = 2, HEADS = 4, WORKSPACE = 64 << 20, AN_EIGHTH = 0x3e000000, O = 3, DO = 4 };
    tcc_sdpa_params p = {.batch = BATCH,
                         .heads = HEADS,
                         .kv_heads = HEADS,
                         .queries = queries,
                         .keys = keys,
                         .width = width,
                         .value_width = width,
                         .type = type,
                         .scale_bits = AN_EIGHTH,
                         .alignment = 16,
                         .workspace_bytes = WORKSPACE};
    int64_t *const strides[] = {p.q_stride,  p.k_stride,  p.v_stride,  p.o_stride,
                                p.do_stride, p.dq_stride, p.dk_stride, p.dv_stride};
    static const bool by_key[] = {false, true, true, false, false, false, true, true};
    for (int i = 0; i < 8; i++) {
        const int64_t rows = by_key[i] ? keys : queries, parts = packed && i != O && i != DO ? 3 : 1;
        strides[i][2] = packed ? parts * HEADS * width : width;
        strides[i][1] = packed ? width : rows * width;
        strides[i][0] = rows * parts * HEADS * width;
    }
    return p;
}

static tcc_status plan_attention(int device, tcc_diag *d, bool backward, tcc_sdpa_params *p) {
    tcc_cudnn_graph *g = NULL;
    const tcc_cudnn_limits limits = {.workspace_bytes = p->workspace_bytes, .tensor_cores = true};
    tcc_status s = tcc_cudnn_graph_create(&cudnn_planners[device].cudnn, d, &g);
    if (s == TCC_OK) s = tcc_cudnn_sdpa_describe(&cudnn_planners[device].cudnn, g, d, backward, p);
    if (s == TCC_OK) s = tcc_cudnn_graph_finish(g, d, &limits, &p->workspace_bytes);
    tcc_cudnn_graph_destroy(g);
    return s;
}

static void test_attention(void **state) {
    (void)state;
    static const struct {
        tcc_dtype type;
        bool backward, packed, causal, lse;
        int64_t queries, keys, width, kv_heads;
    } forms[] = {
        {TCC_F16, false, true, true, true, 200, 256, 64, 4},
        {TCC_BF16, false, false, false, false, 200, 72, 128, 4},
        {TCC_F16, true, true, true, false, 256, 256, 64, 4},
        {TCC_BF16, true, false, true, false, 128, 384, 40, 4},
        {TCC_BF16, false, false, true, true, 200, 256, 64, 2},
        {TCC_F16, true, true, true, false, 256, 256, 64, 2},
        {TCC_BF16, true, false, false, false, 128, 384, 128, 1},
    };
    if (!cudnn_planners_available()) skip();
    skip_without(dlopen("libcuda.so.1", RTLD_NOW),
                 "there is no libcuda.so.1, without which the library compiles nothing");
    for (size_t i = 0; i < 2 * sizeof forms / sizeof *forms; i++) {
        const int device = (int)i % n_cudnn_planners;
        tcc_diag d = {0};
        tcc_sdpa_params p = attention(forms[i / 2].type, forms[i / 2].queries, forms[i / 2].keys, forms[i / 2].width,
                                      forms[i / 2].packed);
        p.kv_heads = forms[i / 2].kv_heads;
        const bool shared = p.kv_heads < p.heads; /* then dk and dv of each head are in the workspace, too */
        const int64_t matrix = p.batch * p.heads * p.keys * 2 * (p.queries + (shared ? 2 * p.width : 0)),
                      most = forms[i / 2].backward ? matrix + 4096 : 4096;
        p.causal = forms[i / 2].causal;
        p.lse = forms[i / 2].lse;
        if (plan_attention(device, &d, forms[i / 2].backward, &p) != TCC_OK)
            fail_msg("%s, form %zu: %s", cudnn_planners[device].name, i / 2, tcc_diag_text(&d));
        assert_in_range(p.workspace_bytes, forms[i / 2].backward ? matrix : 0,
                        most); /* of gradients, that of sums without atomics */
        tcc_diag_clear(&d);
    }
}

static void check_attention_refused(bool backward, tcc_sdpa_params p, const char *words) {
    tcc_diag d = {0};
    assert_error(plan_attention(n_cudnn_planners - 1, &d, backward, &p), TCC_EUNSUPPORTED, &d, words);
    tcc_diag_clear(&d);
}

static void test_attention_refusals(void **state) {
    (void)state;
    if (!cudnn_planners_available()) skip();
    check_attention_refused(false, attention(TCC_F16, 128, 128, 12, false), "cudnn has no engine for it");
    check_attention_refused(true, attention(TCC_F16, 128, 192, 64, false), "can be NaN unless 128 divides");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention), cmocka_unit_test(test_attention_refusals)};
    return cmocka_run_group_tests(tests, cudnn_planners_open, cudnn_planners_close);
}
