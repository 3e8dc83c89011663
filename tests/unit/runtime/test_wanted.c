/* SPDX-License-Identifier: MIT
 * TCC_LIBRARIES: which libraries may be opened. */
#include "harness/check.h"

#include "runtime/cpu/device.h"
#include "runtime/wanted.h"

#include <stdlib.h>
#include <string.h>

static void test_names(void **state) {
    (void)state;
    tcc_context cx;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    unsetenv("TCC_LIBRARIES");
    assert_true(tcc_library_wanted("cudnn"));
    setenv("TCC_LIBRARIES", "none", 1);
    assert_ok(tcc_libraries_check_wanted(&cx.diag), &cx.diag);
    assert_false(tcc_library_wanted("cudnn"));
    setenv("TCC_LIBRARIES", "cublaslt", 1);
    assert_ok(tcc_libraries_check_wanted(&cx.diag), &cx.diag);
    assert_true(tcc_library_wanted("cublaslt"));
    assert_false(tcc_library_wanted("cudnn"));

    /* A wrong name is told on every device. */
    tcc_device *device;
    setenv("TCC_LIBRARIES", "cublaslt,mkl", 1);
    assert_int_equal(tcc_device_cpu_create(&cx, 1, &device), TCC_EINVAL);
    assert_null(device);
    assert_string_equal(tcc_diag_text(&cx.diag),
                        "error: TCC_LIBRARIES: unknown library 'mkl'; expected none, or a list "
                        "of: cublaslt, cudnn, cudnn.batch_norm, nccl");
    tcc_context_clear(&cx);
    unsetenv("TCC_LIBRARIES");
}

/* A part of a library stands for the library, and for a preference. */
static void test_parts(void **state) {
    (void)state;
    setenv("TCC_LIBRARIES", "cublaslt,cudnn.batch_norm", 1);
    assert_int_equal(tcc_libraries_check_wanted(NULL), TCC_OK);
    assert_true(tcc_library_wanted("cudnn"));
    assert_true(tcc_libraries_prefer("cudnn.batch_norm"));
    setenv("TCC_LIBRARIES", "cudnn", 1);
    assert_false(tcc_libraries_prefer("cudnn.batch_norm"));
    unsetenv("TCC_LIBRARIES");
    assert_false(tcc_libraries_prefer("cudnn.batch_norm"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
