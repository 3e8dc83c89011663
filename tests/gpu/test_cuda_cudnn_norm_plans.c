/* SPDX-License-Identifier: MIT
 * Batch norm as the real cuDNN takes it, without a device. Its kernels are compiled for the plan, where tests/nodevice
 * is the driver. With the stand-in, or no library, nothing is tested. */
#include "harness/check.h"
#include "harness/cudnn_planner.h"

#include "codegen/calls.h"
#include "runtime/cuda/cudnn_norm.h"

#include <dlfcn.h>

static tcc_norm_params norm_of(tcc_dtype type, int64_t rows, int64_t channels, bool backward) {
    enum { A_THOUSANDTH = 0x3a83126f, WORKSPACE = 32 << 20 };
    return (tcc_norm_params){.rows = rows,
                             .channels = channels,
                             .eps_bits = backward ? 0 : A_THOUSANDTH,
                             .type = type,
                             .workspace_bytes = WORKSPACE};
}

static tcc_status plan(int device, tcc_diag *d, bool backward, tcc_norm_params *p, tcc_cudnn_graph **g) {
    const tcc_cudnn_limits limits = {.workspace_bytes = p->workspace_bytes};
    tcc_status s = tcc_cudnn_graph_create(&cudnn_planners[device].cudnn, d, g);
    if (s == TCC_OK) s = tcc_cudnn_norm_describe(*g, d, backward, p);
    if (s == TCC_OK) s = tcc_cudnn_graph_finish(*g, d, &limits, &p->workspace_bytes);
    return s;
}

/* Layers of a ResNet-18 among them. Each plan takes the library a second or two. */
static void test_norms(void **state) {
    (void)state;
    static const struct {
        int device;
        tcc_dtype type;
        bool backward;
        int64_t rows, channels;
    } forms[] = {
        {0, TCC_F32, false, 32 * 112 * 112, 64},
        {1, TCC_F32, true, 32 * 28 * 28, 128},
        {1, TCC_F16, false, 32 * 7 * 7, 512},
        {0, TCC_BF16, true, 32 * 14 * 14, 256},
        {1, TCC_F32, false, 33, 12},
    };
    static const tcc_cuda_address addresses[] = {0x10000, 0x20000, 0x30000, 0x40000,
                                                 0x50000, 0x60000, 0x70000, 0x80000};
    if (!cudnn_planners_available()) skip();
    skip_without(dlopen("libcuda.so.1", RTLD_NOW),
                 "there is no libcuda.so.1, without which the library compiles nothing");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        tcc_diag d = {0};
        tcc_cudnn_graph *g = NULL;
        tcc_norm_params p = norm_of(forms[i].type, forms[i].rows, forms[i].channels, forms[i].backward);
        const int device = forms[i].device % n_cudnn_planners;
        if (plan(device, &d, forms[i].backward, &p, &g) != TCC_OK)
            fail_msg("%s, form %zu: %s", cudnn_planners[device].name, i, tcc_diag_text(&d));
        assert_in_range(p.workspace_bytes, 0, 1 << 20); /* images are not copied */
        /* a variant pack is taken; the run itself wants a device */
        assert_error(tcc_cudnn_graph_run(g, &d, addresses, 0x90040), TCC_EUNSUPPORTED, &d,
                     "cudnnBackendExecute: CUDNN_STATUS_BAD_PARAM");
        tcc_cudnn_graph_destroy(g);
        tcc_diag_clear(&d);
    }
}

/* What codegen does not ask for, because of this. */
static void test_refusals(void **state) {
    (void)state;
    if (!cudnn_planners_available()) skip();
    for (int backward = 0; backward < 2; backward++) {
        tcc_diag d = {0};
        tcc_cudnn_graph *g = NULL;
        tcc_norm_params p = norm_of(TCC_F32, 25088, 30, backward);
        assert_error(plan(n_cudnn_planners - 1, &d, backward, &p, &g), TCC_EUNSUPPORTED, &d,
                     "cudnn has no engine for it");
        tcc_cudnn_graph_destroy(g);
        tcc_diag_clear(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norms), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, cudnn_planners_open, cudnn_planners_close);
}
