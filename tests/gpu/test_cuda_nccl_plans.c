/* SPDX-License-Identifier: MIT
 * The machine's own NCCL: that it is found, with all that we call, and says a version that we know. */
#include "harness/check.h"

#include "runtime/cuda/nccl.h"

#include <stdio.h>
#include <stdlib.h>

static void library(void **state) {
    (void)state;
    static tcc_nccl nccl;
    tcc_nccl_find(&nccl);
    printf("nccl: %s\n", nccl.text);
    if (strstr(nccl.text, "not found")) skip();
    assert_true(nccl.usable);
    assert_true(nccl.version >= TCC_NCCL_OLDEST);
    assert_string_equal(nccl.error_string(TCC_NCCL_REMOTE_ERROR), "remote process exited or there was a network error");
    tcc_diag d = {0};
    assert_int_equal(tcc__nccl_failed(&nccl, &d, TCC_NCCL_REMOTE_ERROR, NULL, "ncclAllGather"), TCC_EIO);
    assert_non_null(strstr(tcc_diag_text(&d), "ncclAllGather: remote process exited or there was a network error"));
    tcc_diag_clear(&d);
}

static void switched_off(void **state) {
    (void)state;
    static tcc_nccl nccl;
    setenv("TCC_LIBRARIES", "cudnn", 1);
    tcc_nccl_find(&nccl);
    unsetenv("TCC_LIBRARIES");
    assert_false(nccl.usable);
    assert_non_null(strstr(nccl.text, "switched off by TCC_LIBRARIES: several CUDA devices cannot train together"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(library), cmocka_unit_test(switched_off)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
