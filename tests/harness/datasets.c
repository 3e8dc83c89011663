/* SPDX-License-Identifier: MIT
 * What tests of data sets share. */
#include "datasets.h"
#include "check.h"

#include "ir/support/alloc.h"

void dataset_refused(tcc_context *cx, tcc_data_options options, tcc_status status, const char *part) {
    tcc_dataset *data;
    options.size = sizeof options;
    assert_error(tcc_dataset_open(cx, &options, &data), status, &cx->diag, part);
    assert_null(data);
    tcc_diag_clear(&cx->diag);
}

void dataset_out_of_memory(tcc_context *cx, tcc_data_options options) {
    options.size = sizeof options;
    for (int64_t n = 0;; n++) {
        tcc_dataset *data;
        tcc_diag_clear(&cx->diag);
        tcc__alloc_fail_at(n);
        tcc_status status = tcc_dataset_open(cx, &options, &data);
        tcc__alloc_fail_at(-1);
        tcc_dataset_close(data);
        if (status == TCC_OK) break;
        assert_int_equal(status, TCC_ENOMEM);
        assert_true(n < 100);
    }
}
