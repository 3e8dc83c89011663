/* SPDX-License-Identifier: MIT
 * What tests of the CUDA device share. */
#include "harness/cuda_device.h"
#include "harness/check.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

stand_in sim;

void find_function(void *library, const char *name, void *function) {
    void *address = library ? dlsym(library, name) : NULL;
    memcpy(function, &address, sizeof address);
}

/* Where threads run independently, what a warp accesses together is drawn, and so are counts of it. */
static bool warps_part(void) {
    const char *schedule = getenv("PTXSIM_SCHEDULE");
    return schedule && !strncmp(schedule, "independent", strlen("independent"));
}

void stand_in_find(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    find_function(driver, "ptxsim_inject", &sim.inject);
    find_function(driver, "ptxsim_lose_by", &sim.lose_by);
    find_function(driver, "ptxsim_spill", &sim.spill);
    find_function(driver, "ptxsim_get_live", &sim.get_live);
    find_function(driver, "ptxsim_restart", &sim.restart);
    find_function(driver, "ptxsim_get_stats", &sim.get_stats);
    if (warps_part()) sim.get_stats = NULL;
    find_function(driver, "ptxsim_reset_stats", &sim.reset_stats);
    find_function(driver, "ptxsim_report_count", &sim.report_count);
    find_function(driver, "ptxsim_last_report", &sim.last_report);
}

int cuda_set_up(void **state) {
    (void)state;
    stand_in_find();
    setenv("PTXSIM_LOG", "none", 0);
    return 0;
}

int cuda_fresh(void **state) {
    (void)state;
    if (sim.restart) sim.restart();
    return 0;
}

void check_nothing_alive(void) {
    ptxsim_live l = {0};
    if (sim.get_live) sim.get_live(&l);
    if (l.device_allocations || l.host_allocations || l.modules || l.links || l.streams || l.events || l.graphs ||
        l.graph_execs || l.contexts)
        fail_msg("alive: %d device, %d host allocations, %d modules, %d links, %d streams, %d events, %d graphs, %d of "
                 "them instantiated, %d contexts",
                 l.device_allocations, l.host_allocations, l.modules, l.links, l.streams, l.events, l.graphs,
                 l.graph_execs, l.contexts);
}

int cuda_finish(void **state) {
    (void)state;
    check_nothing_alive();
    return 0;
}

static tcc_status bind_all(rig *r) {
    tcc_status s = TCC_OK;
    for (int i = 0; i < r->program->n_bindings && s == TCC_OK; i++)
        s = tcc_exec_bind(r->exec, &r->cx.diag, i, r->memory[i], tcc_type_bytes(&r->program->bindings[i].type));
    return s;
}

tcc_status rig_start(rig *r, tcc_program *owned) {
    *r = (rig){.program = owned};
    assert_true(owned->n_bindings <= RIG_BINDINGS);
    assert_ok(tcc_context_init(&r->cx), &r->cx.diag);
    tcc_status s = tcc_device_cuda_create(&r->cx, -1, &r->device);
    if (s == TCC_OK) s = tcc_exec_create(&r->cx, r->device, owned, &r->exec);
    for (int i = 0; i < owned->n_bindings && s == TCC_OK; i++)
        s = r->device->ops->alloc(r->device, &r->cx.diag, tcc_type_bytes(&owned->bindings[i].type), &r->memory[i]);
    return s == TCC_OK ? bind_all(r) : s;
}

void rig_reload(rig *r) {
    tcc_exec_destroy(r->exec);
    assert_ok(tcc_exec_create(&r->cx, r->device, r->program, &r->exec), &r->cx.diag);
    assert_ok(bind_all(r), &r->cx.diag);
}

void rig_stop(rig *r) {
    for (int i = 0; i < r->program->n_bindings && r->device; i++)
        r->device->ops->free(r->device, r->memory[i], tcc_type_bytes(&r->program->bindings[i].type));
    tcc_exec_destroy(r->exec);
    tcc_device_destroy(r->device);
    tcc_program_destroy(r->program);
    tcc_context_clear(&r->cx);
}
