/* SPDX-License-Identifier: MIT */
#include "harness/cudnn_device.h"
#include "harness/check.h"

#include <dlfcn.h>
#include <stdlib.h>

cudnn_stand_in dnn;

int cudnn_set_up(void **state) {
    void *library = dlopen("libcudnn.so.9", RTLD_NOW);
    dnn.found = library != NULL;
    find_function(library, "cudnnsim_get_counts", &dnn.get_counts);
    find_function(library, "cudnnsim_last_error", &dnn.last_error);
    find_function(library, "cudnnsim_inject", &dnn.inject);
    find_function(library, "cudnnsim_refuse", &dnn.refuse);
    find_function(library, "cudnnsim_relu", &dnn.relu);
    find_function(library, "cudnnsim_relu_of", &dnn.relu_of);
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
    if (counts.handles || counts.descriptors)
        fail_msg("alive: %d handles, %d descriptors of the library", counts.handles, counts.descriptors);
}

int cudnn_finish(void **state) {
    check_no_cudnn_alive();
    return cuda_finish(state);
}

static tcc_status run_on_zeros(rig *r, const call_shape *shape) {
    tcc_status s = TCC_OK;
    for (int i = 0; i < shape->n_buffers && s == TCC_OK; i++) {
        void *zeros = calloc(1, (size_t)rig_bytes(r, i));
        s = r->device->ops->upload(r->device, &r->cx.diag, r->memory[i], zeros, rig_bytes(r, i));
        free(zeros);
    }
    if (s == TCC_OK) s = tcc_exec_run(r->exec, &r->cx.diag);
    return s == TCC_OK ? r->device->ops->synchronize(r->device, &r->cx.diag) : s;
}

cudnn_failures cudnn_fail_each_call(const call_shape *shape, const int64_t *params, int status, const char *name,
                                    tcc_status expected) {
    cudnn_failures all = {0};
    for (int n = 1;; n++) {
        rig r;
        cudnnsim_counts counts;
        sim.restart();
        dnn.restart();
        dnn.inject(n, status);
        tcc_status s = rig_start(&r, call_program(shape, params));
        if (s == TCC_OK) s = run_on_zeros(&r, shape);
        const char *text = tcc_diag_text(&r.cx.diag);
        if (s != TCC_OK &&
            (s != expected || !strstr(text, name) || !strstr(text, "in program 'call', step 0 (op; net.c:7)")))
            fail_msg("call %d: %s: %s", n, tcc_status_name(s), text);
        dnn.get_counts(&counts);
        rig_stop(&r);
        check_nothing_alive();
        check_no_cudnn_alive();
        if (counts.calls < n) return all;
        *(s == TCC_OK ? &all.done : &all.failed) += 1;
    }
}
