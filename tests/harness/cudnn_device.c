/* SPDX-License-Identifier: MIT */
#include "harness/cudnn_device.h"
#include "harness/check.h"

#include <dlfcn.h>

cudnn_stand_in dnn;

int cudnn_set_up(void **state) {
    void *library = dlopen("libcudnn.so.9", RTLD_NOW);
    dnn.found = library != NULL;
    find_function(library, "cudnnsim_get_counts", &dnn.get_counts);
    find_function(library, "cudnnsim_last_error", &dnn.last_error);
    find_function(library, "cudnnsim_inject", &dnn.inject);
    find_function(library, "cudnnsim_refuse", &dnn.refuse);
    find_function(library, "cudnnsim_restart", &dnn.restart);
    return cuda_set_up(state);
}

int cudnn_fresh(void **state) {
    if (dnn.restart) dnn.restart();
    return cuda_fresh(state);
}

void check_no_cudnn_alive(void) {
    cudnnsim_counts counts = {0};
    if (dnn.get_counts) dnn.get_counts(&counts);
    if (counts.errors) fail_msg("the library was called wrongly: %s", dnn.last_error());
    if (counts.handles || counts.descriptors) fail_msg("alive: %d handles, %d descriptors of the library", counts.handles, counts.descriptors);
}

int cudnn_finish(void **state) {
    check_no_cudnn_alive();
    return cuda_finish(state);
}
