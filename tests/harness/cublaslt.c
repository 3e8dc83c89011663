/* SPDX-License-Identifier: MIT
 * What tests of cuBLASLt share. */
#include "harness/cublaslt.h"
#include "harness/check.h"

#include <dlfcn.h>

cublaslt_stand_in lt;

int cublaslt_set_up(void **state) {
    void *library = dlopen("libcublasLt.so.12", RTLD_NOW);
    find_function(library, "cublasltsim_get_counts", &lt.get_counts);
    find_function(library, "cublasltsim_last_error", &lt.last_error);
    find_function(library, "cublasltsim_inject", &lt.inject);
    find_function(library, "cublasltsim_refuse", &lt.refuse);
    find_function(library, "cublasltsim_refuse_epilogues", &lt.refuse_epilogues);
    find_function(library, "cublasltsim_differ", &lt.differ);
    find_function(library, "cublasltsim_differ_where", &lt.differ_where);
    find_function(library, "cublasltsim_offer", &lt.offer);
    find_function(library, "cublasltsim_spoil", &lt.spoil);
    find_function(library, "cublasltsim_restart", &lt.restart);
    return cuda_set_up(state);
}

int cublaslt_fresh(void **state) {
    if (lt.restart) lt.restart();
    return cuda_fresh(state);
}

int cublaslt_finish(void **state) {
    cublasltsim_counts counts = {0};
    if (lt.get_counts) lt.get_counts(&counts);
    if (counts.errors) fail_msg("the library was called wrongly: %s", lt.last_error());
    if (counts.handles || counts.descriptors)
        fail_msg("alive: %d handles, %d descriptors of the library", counts.handles, counts.descriptors);
    return cuda_finish(state);
}
