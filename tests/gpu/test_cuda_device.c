/* SPDX-License-Identifier: MIT
 * The CUDA device: programs of hand-written PTX, batches in and results out while steps run, errors that name things,
 * and nothing left behind however it ends. Faults are injected into the stand-in driver; on a GPU those tests are
 * skipped. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/program.h"
#include "harness/sample_program.h"

#include "ir/support/alloc.h"
#include "runtime/cuda/context.h"
#include "runtime/files/file.h"
#include "runtime/profile.h"
#include "runtime/program_file.h"

#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int64_t x_data[SAMPLE_N], expected[SAMPLE_N], got[SAMPLE_N];

static int set_up(void **state) {
    for (int i = 0; i < SAMPLE_N; i++) x_data[i] = (int64_t)i * 7919 % 1000003;
    sample_expected(x_data, expected);
    return cuda_set_up(state);
}

static tcc_status start(rig *r) { return rig_start(r, sample_program_cuda()); }

static tcc_status upload_x(rig *r) {
    return r->device->ops->upload(r->device, &r->cx.diag, r->memory[SAMPLE_X], x_data, SAMPLE_BYTES);
}
static tcc_status download_y(rig *r) {
    return r->device->ops->download(r->device, &r->cx.diag, got, r->memory[SAMPLE_Y], SAMPLE_BYTES);
}

static tcc_status run_once(rig *r) {
    tcc_status s = upload_x(r);
    if (s == TCC_OK) s = tcc_exec_run(r->exec, &r->cx.diag);
    return s == TCC_OK ? download_y(r) : s;
}

static void test_run(void **state) {
    (void)state;
    rig r;
    assert_ok(start(&r), &r.cx.diag);
    for (int run = 0; run < 3; run++) {
        if (run) assert_ok(tcc_exec_poison(r.exec, &r.cx.diag), &r.cx.diag);
        assert_ok(run_once(&r), &r.cx.diag);
        assert_memory_equal(got, expected, SAMPLE_BYTES);
    }
    /* Other memory from now on: tables and launches follow. */
    void *other;
    assert_ok(r.device->ops->alloc(r.device, &r.cx.diag, SAMPLE_BYTES, &other), &r.cx.diag);
    r.device->ops->free(r.device, r.memory[SAMPLE_X], SAMPLE_BYTES);
    r.memory[SAMPLE_X] = other;
    assert_ok(tcc_exec_bind(r.exec, &r.cx.diag, SAMPLE_X, other, SAMPLE_BYTES), &r.cx.diag);
    memset(got, 0, sizeof got);
    assert_ok(run_once(&r), &r.cx.diag);
    assert_memory_equal(got, expected, SAMPLE_BYTES);
    ptxsim_stats table = {0}, mix = {0};
    if (sim.get_stats) {
        assert_int_equal(sim.get_stats("scale_table", &table) || sim.get_stats("mix", &mix), 0);
        assert_int_equal(table.launches, 4); /* one for all instances */
        assert_int_equal(mix.launches, 4);
    }
    rig_stop(&r);
}

/* The device's own figures, by the driver's attributes. */
static void test_figures(void **state) {
    (void)state;
    rig r;
    assert_ok(start(&r), &r.cx.diag);
    const tcc_hardware *hw = &r.device->hw;
    assert_true(hw->sm >= 70);
    assert_true(hw->processors > 0 && hw->threads_per_block == 1024);
    assert_int_equal(hw->warps_per_processor * 32, hw->threads_per_processor);
    assert_int_equal(hw->shared_bytes, 48 * 1024);
    assert_int_equal(hw->shared_optin_bytes + hw->shared_reserved_bytes, hw->shared_bytes_per_processor);
    assert_int_equal(hw->registers_per_processor, 65536);
    if (sim.get_stats) { /* an H100 */
        assert_int_equal(hw->processors, 132);
        assert_int_equal(hw->shared_optin_bytes, 227 * 1024);
        assert_int_equal(hw->blocks_per_processor, 32);
        assert_int_equal(hw->cache_bytes, 50 << 20);
        assert_true(hw->bytes_per_s > 3.35e12 && hw->bytes_per_s < 3.36e12);
    }
    rig_stop(&r);
}

/* Steps follow each other with batches going in and results coming out, and the host reads them at the end. */
static void test_feed_and_fetch(void **state) {
    (void)state;
    enum { STEPS = 11, KEPT = 8 };
    rig r;
    assert_ok(start(&r), &r.cx.diag);
    int64_t *batch = malloc(SAMPLE_BYTES), *want = malloc(SAMPLE_BYTES), tickets[STEPS], kept[KEPT];
    assert_true(batch && want);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < SAMPLE_N; i++) batch[i] = x_data[i] + step;
        assert_ok(r.device->ops->feed(r.device, &r.cx.diag, r.memory[SAMPLE_X], &(tcc_feed){batch, SAMPLE_BYTES}, 1),
                  &r.cx.diag);
        batch[0] = -1; /* its copy was taken; this small one is for the same run */
        batch[0] = 100 + step;
        assert_ok(r.device->ops->feed(r.device, &r.cx.diag, r.memory[SAMPLE_X], &(tcc_feed){batch, 8}, 1), &r.cx.diag);
        memset(batch, 0xee, SAMPLE_BYTES);
        assert_ok(tcc_exec_run(r.exec, &r.cx.diag), &r.cx.diag);
        assert_ok(r.device->ops->fetch(r.device, &r.cx.diag, (char *)r.memory[SAMPLE_Y] + 32, 8 * KEPT, &tickets[step]),
                  &r.cx.diag);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < SAMPLE_N; i++) batch[i] = x_data[i] + step;
        batch[0] = 100 + step;
        sample_expected(batch, want);
        assert_ok(r.device->ops->collect(r.device, &r.cx.diag, tickets[step], kept, sizeof kept), &r.cx.diag);
        assert_memory_equal(kept, want + 4, sizeof kept);
    }
    int64_t ticket;
    assert_error(r.device->ops->fetch(r.device, &r.cx.diag, r.memory[SAMPLE_Y], TCC_FETCH_BYTES + 1, &ticket),
                 TCC_EINVAL, &r.cx.diag, "at most 64");
    for (int i = 0; i < TCC_FETCHES; i++) {
        tcc_diag_clear(&r.cx.diag);
        assert_ok(r.device->ops->fetch(r.device, &r.cx.diag, r.memory[SAMPLE_Y], 8, &ticket), &r.cx.diag);
    }
    assert_ok(r.device->ops->collect(r.device, &r.cx.diag, ticket - TCC_FETCHES + 1, kept, 8), &r.cx.diag);
    assert_error(r.device->ops->collect(r.device, &r.cx.diag, tickets[0], kept, 8), TCC_ENOTFOUND, &r.cx.diag,
                 "is not among those kept");
    assert_ok(r.device->ops->synchronize(r.device, &r.cx.diag), &r.cx.diag);
    free(batch);
    free(want);
    rig_stop(&r);
}

/* Break one thing, expect one refusal. */
static void refused(rig *r, tcc_program *p, tcc_status status, const char *words) {
    tcc_exec *e;
    assert_error(tcc_exec_create(&r->cx, r->device, p, &e), status, &r->cx.diag, words);
    assert_null(e);
    tcc_program_destroy(p);
}

static void replace_code(tcc_program *p, const char *ptx) {
    p->modules[0] = (tcc_module){ptx, (int64_t)strlen(ptx) + 1};
}

static void remove_saved(void) {
    glob_t files;
    char pattern[512];
    snprintf(pattern, sizeof pattern, "%s/traincc-module*.ptx", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (glob(pattern, 0, NULL, &files)) return;
    for (size_t i = 0; i < files.gl_pathc; i++) unlink(files.gl_pathv[i]);
    globfree(&files);
}

static void test_refused(void **state) {
    (void)state;
    rig r;
    assert_ok(start(&r), &r.cx.diag);
    tcc_program *p = sample_program_cuda();
    p->cpu = "sm_999";
    refused(&r, p, TCC_EUNSUPPORTED, "was made for sm_999, cuda:0 (");
    p = sample_program_cuda();
    p->cpu = "sm_75a";
    refused(&r, p, TCC_EUNSUPPORTED, "was made for sm_75a");
    p = sample_program_cuda();
    p->cpu = "x86-64";
    refused(&r, p, TCC_EUNSUPPORTED, "was made for x86-64");
    refused(&r, sample_program(), TCC_EUNSUPPORTED, "was not made for device 'cuda'");
    p = sample_program_cuda();
    p->kernels[1].symbol = "mixer";
    refused(&r, p, TCC_ENOTFOUND, "module 0 has no kernel 'mixer'");
    p = sample_program_cuda();
    p->kernels[1].table = true;
    refused(&r, p, TCC_ENOTFOUND, "module 0 has no kernel 'mix_table'");
    p = sample_program_cuda();
    p->kernels[1].threads = 1025;
    refused(&r, p, TCC_EFORMAT, "kernel 1 has blocks of 1025 threads");
    p = sample_program_cuda();
    p->kernels[1].n_params = 600;
    refused(&r, p, TCC_EFORMAT, "more than a launch can");
    p = sample_program_cuda();
    p->kernels[1].scratch_bytes = 1 << 20;
    refused(&r, p, TCC_EUNSUPPORTED, "kernel 'mix' needs 1048576 bytes of shared memory a block, cuda:0");
    p = sample_program_cuda();
    p->modules[0].size_bytes--;
    refused(&r, p, TCC_EFORMAT, "module 0 is no text that ends");
    p = sample_program_cuda();
    p->arena_bytes = INT64_C(1) << 50;
    refused(&r, p, TCC_ENOMEM, "out of memory on cuda:0 (");
    tcc_library_call call = {.name = "some.entry"};
    p = sample_program_cuda();
    p->steps[3] = (tcc_step){.kind = TCC_STEP_LIBRARY, .call = &call, .label = "dot"};
    refused(&r, p, TCC_EUNSUPPORTED, "'some.entry': no such library entry on CUDA devices");
    p = sample_program_cuda();
    replace_code(
        p, ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry scale() {\n  frobnicate.u32 %r1;\n}\n");
    tcc_exec *e;
    assert_error(tcc_exec_create(&r.cx, r.device, p, &e), TCC_EDEVICE, &r.cx.diag,
                 "the driver refuses module 0 of program 'test': ");
    if (sim.inject && !strstr(tcc_diag_text(&r.cx.diag), "line 5"))
        fail_msg("%s", tcc_diag_text(&r.cx.diag)); /* the driver's own words */
    assert_non_null(strstr(tcc_diag_text(&r.cx.diag), "CUDA_ERROR_INVALID_PTX"));
    assert_non_null(strstr(tcc_diag_text(&r.cx.diag), "its PTX is in "));
    remove_saved();
    tcc_program_destroy(p);
    /* After all this the device still works. */
    tcc_diag_clear(&r.cx.diag);
    assert_ok(run_once(&r), &r.cx.diag);
    assert_memory_equal(got, expected, SAMPLE_BYTES);
    rig_stop(&r);
}

static void test_large_shared_memory(void **state) {
    (void)state;
    rig r;
    assert_ok(start(&r), &r.cx.diag);
    r.program->kernels[0].scratch_bytes = 60 << 10; /* past what needs no opting in */
    rig_reload(&r);
    assert_ok(run_once(&r), &r.cx.diag);
    assert_memory_equal(got, expected, SAMPLE_BYTES);
    rig_stop(&r);
}

static void test_profile(void **state) {
    (void)state;
    rig r;
    assert_ok(start(&r), &r.cx.diag);
    assert_ok(upload_x(&r), &r.cx.diag);
    assert_ok(tcc_exec_set_profiling(r.exec, &r.cx.diag, true), &r.cx.diag);
    for (int run = 0; run < 2; run++) assert_ok(tcc_exec_run(r.exec, &r.cx.diag), &r.cx.diag);
    assert_ok(tcc_exec_set_profiling(r.exec, &r.cx.diag, false), &r.cx.diag);
    const tcc_step_profile *profile = tcc_exec_get_profile(r.exec);
    int64_t before = 0, sum = 0;
    for (int i = 0; i < r.program->n_steps; i++) {
        assert_int_equal(profile[i].runs, 2);
        assert_true(profile[i].last.begin_ns >= before && profile[i].last.end_ns >= profile[i].last.begin_ns);
        before = profile[i].last.end_ns;
        sum += profile[i].total_ns;
    }
    assert_true(sum > 0);
    tcc_roofline roofline;
    assert_ok(r.device->ops->measure(r.device, &r.cx.diag, &roofline), &r.cx.diag);
    assert_true(roofline.flop_per_s > 1e6 && roofline.bytes_per_s > 1e6);
    tcc_strbuf text = {0};
    r.device->ops->describe(r.device, &text);
    assert_non_null(strstr(text.text, "cuda:0: "));
    assert_non_null(strstr(text.text, "sm_"));
    assert_non_null(strstr(text.text, " SMs, "));
    tcc_strbuf_free(&text);
    rig_stop(&r);
}

/* -- Failing kernels -- */

static const char reads_past[] = "a kernel reads past its buffer, which a device need not notice";

/* mix reads far past its buffer. */
static tcc_status run_broken(rig *r) {
    assert_ok(start(r), &r->cx.diag);
    const tcc_instance *instance = &r->program->steps[2].instances[0];
    *(int64_t *)instance->params = instance->buffers[0].size_bytes; /* no more than a plan may say */
    r->program->steps[2].label = "mix them";
    r->program->steps[2].lines = "net.c:7";
    rig_reload(r);
    return run_once(r);
}

static void expect_all(const char *text, const char *const *parts) {
    for (int i = 0; parts[i]; i++)
        if (!strstr(text, parts[i])) fail_msg("'%s' does not say '%s'", text, parts[i]);
}

static void test_failing_kernel(void **state) {
    (void)state;
    skip_without(sim.inject, reads_past);
    rig r;
    assert_int_equal(run_broken(&r), TCC_EDEVICE);
    expect_all(tcc_diag_text(&r.cx.diag),
               (const char *[]){"CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)",
                                "a kernel on cuda:0", "TCC_LAUNCH_BLOCKING=1 names it", NULL});
    /* Every later call says why, and what was taken is given back. */
    assert_error(tcc_exec_run(r.exec, &r.cx.diag), TCC_EDEVICE, &r.cx.diag,
                 "no more use to this process since an earlier error: ");
    void *memory;
    assert_error(r.device->ops->alloc(r.device, &r.cx.diag, 64, &memory), TCC_EDEVICE, &r.cx.diag,
                 "since an earlier error");
    assert_error(r.device->ops->synchronize(r.device, &r.cx.diag), TCC_EDEVICE, &r.cx.diag, "since an earlier error");
    rig_stop(&r);
}

static void test_blocking(void **state) {
    (void)state;
    skip_without(sim.inject, reads_past);
    rig r;
    setenv("TCC_LAUNCH_BLOCKING", "1", 1);
    assert_int_equal(run_broken(&r), TCC_EDEVICE);
    unsetenv("TCC_LAUNCH_BLOCKING");
    const char *text = tcc_diag_text(&r.cx.diag);
    expect_all(text, (const char *[]){"kernel 'mix': CUDA_ERROR_ILLEGAL_ADDRESS",
                                      "in program 'test', step 2 (mix them; net.c:7)", "its PTX is in ", NULL});
    char path[512];
    assert_int_equal(sscanf(strstr(text, "its PTX is in ") + strlen("its PTX is in "), "%511s", path), 1);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char line[64];
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, ".version 6.3\n");
    fclose(f);
    remove_saved();
    rig_stop(&r);
}

static void test_blocking_runs(void **state) {
    (void)state;
    rig r;
    setenv("TCC_LAUNCH_BLOCKING", "1", 1);
    assert_ok(start(&r), &r.cx.diag);
    unsetenv("TCC_LAUNCH_BLOCKING");
    assert_ok(run_once(&r), &r.cx.diag);
    assert_memory_equal(got, expected, SAMPLE_BYTES);
    rig_stop(&r);
}

/* Every call of a kind fails once; it ends in an error of the right kind with the right words, and nothing stays
 * behind. */
static void inject_all(ptxsim_fault fault, tcc_status status, const char *words, int least) {
    for (int n = 1;; n++) {
        rig r;
        sim.restart();
        tcc_context cx;
        tcc_device *device; /* starts the driver, which then can be told to fail */
        assert_ok(tcc_context_init(&cx), &cx.diag);
        assert_ok(tcc_device_cuda_create(&cx, 0, &device), &cx.diag);
        sim.inject(fault, n);
        tcc_status s = start(&r);
        if (s == TCC_OK) s = run_once(&r);
        if (s == TCC_OK)
            s = r.device->ops->feed(r.device, &r.cx.diag, r.memory[SAMPLE_X], &(tcc_feed){x_data, SAMPLE_BYTES}, 1);
        if (s == TCC_OK) s = run_once(&r);
        sim.inject(fault, 0);
        if (s != TCC_OK && (s != status || !strstr(tcc_diag_text(&r.cx.diag), words)))
            fail_msg("call %d: %s: '%s' does not say '%s'", n, tcc_status_name(s), tcc_diag_text(&r.cx.diag), words);
        rig_stop(&r);
        tcc_device_destroy(device);
        tcc_context_clear(&cx);
        check_nothing_alive();
        if (s != TCC_OK) continue;
        if (n - 1 < least) fail_msg("only %d calls failed", n - 1);
        return;
    }
}

static void test_faults(void **state) {
    (void)state;
    skip_without(sim.inject, STAND_IN_FAILS);
    inject_all(PTXSIM_FAULT_ALLOC, TCC_ENOMEM, " asked for, ", 6);
    inject_all(PTXSIM_FAULT_HOST, TCC_ENOMEM, " of this machine's memory (cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY)",
               1);
    inject_all(PTXSIM_FAULT_MODULE, TCC_ENOMEM,
               "the driver refuses module 0 of program 'test': CUDA_ERROR_OUT_OF_MEMORY (out of memory)\nnote: ", 1);
    inject_all(PTXSIM_FAULT_LAUNCH, TCC_EDEVICE, "cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", 8);
    inject_all(PTXSIM_FAULT_LOST, TCC_EDEVICE, "CUDA_ERROR_DEVICE_UNAVAILABLE", 8);
    inject_all(PTXSIM_FAULT_CALL, TCC_EDEVICE, "CUDA_ERROR_UNKNOWN (unknown error)", 100);
}

/* After some errors no call of the process works any more on the device: each says so with the first error's words. */
static void test_lost_device(void **state) {
    (void)state;
    skip_without(sim.inject, STAND_IN_FAILS);
    static const char lost[] = "is lost: nvidia-smi or the system's log may say why",
                      failed[] = "failed while it ran; TCC_LAUNCH_BLOCKING=1 names it";
    static const struct {
        int result; /* 0: the usual one */
        const char *name, *note;
    } ways[] = {{0, "CUDA_ERROR_DEVICE_UNAVAILABLE", lost},
                {226, "CUDA_ERROR_CONTAINED", lost},
                {721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", failed}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        rig r;
        assert_ok(start(&r), &r.cx.diag);
        sim.lose_by(ways[i].result);
        sim.inject(PTXSIM_FAULT_LOST, 2);
        assert_int_equal(run_once(&r), TCC_EDEVICE);
        expect_all(tcc_diag_text(&r.cx.diag), (const char *[]){ways[i].name, ways[i].note, NULL});
        tcc_diag_clear(&r.cx.diag);
        assert_error(r.device->ops->synchronize(r.device, &r.cx.diag), TCC_EDEVICE, &r.cx.diag,
                     "is of no more use to this process since an earlier error");
        assert_non_null(strstr(tcc_diag_text(&r.cx.diag), ways[i].name));
        rig_stop(&r);
        check_nothing_alive();
        sim.restart();
    }
}

static void test_host_memory_short(void **state) {
    (void)state;
    tcc_program *p = sample_program_cuda();
    for (int64_t n = 0;; n++) {
        tcc_context cx;
        tcc_device *device = NULL;
        tcc_exec *e = NULL;
        assert_ok(tcc_context_init(&cx), &cx.diag);
        tcc__alloc_fail_at(n);
        tcc_status s = tcc_device_cuda_create(&cx, 0, &device);
        if (s == TCC_OK) s = tcc_exec_create(&cx, device, p, &e);
        if (s == TCC_OK) s = tcc_exec_set_profiling(e, &cx.diag, true);
        tcc__alloc_fail_at(-1);
        tcc_exec_destroy(e);
        tcc_device_destroy(device);
        tcc_context_clear(&cx);
        check_nothing_alive();
        if (s == TCC_OK) {
            assert_true(n > 4);
            break;
        }
        assert_int_equal(s, TCC_ENOMEM);
    }
    tcc_program_destroy(p);
}

/* -- Finding a device -- */

static void creation_fails(int ordinal, tcc_status status, const char *words) {
    tcc_context cx;
    tcc_device *device;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    assert_error(tcc_device_cuda_create(&cx, ordinal, &device), status, &cx.diag, words);
    assert_null(device);
    tcc_context_clear(&cx);
}

static void with_setting(const char *name, const char *value, int ordinal, const char *words) {
    setenv(name, value, 1);
    sim.restart();
    creation_fails(ordinal, TCC_EUNSUPPORTED, words);
    unsetenv(name);
    sim.restart();
}

static void test_no_device(void **state) {
    (void)state;
    skip_without(sim.restart, STAND_IN_IS);
    with_setting("PTXSIM_DEVICES", "0", -1, "CUDA_ERROR_NO_DEVICE");
    with_setting("PTXSIM_SM", "70", -1, "is sm_70: sm_75 or newer is needed");
    with_setting("PTXSIM_SM", "70", 0, "is sm_70: sm_75 or newer is needed");
    with_setting("PTXSIM_DRIVER", "10020", -1, "is of version 10.2; 11.0 or newer is needed");
    creation_fails(7, TCC_EUNSUPPORTED, "no device cuda:7: the driver shows 1");
}

static void test_arch(void **state) {
    (void)state;
    tcc_context cx;
    tcc_device *device;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    assert_ok(tcc_device_cuda_create(&cx, 0, &device), &cx.diag);
    const char *arch = ((const tcc_device_cuda *)device)->arch;
    assert_memory_equal(arch, "sm_", 3);
    if (sim.restart) assert_string_equal(arch, "sm_90");
    tcc_device_destroy(device);
    tcc_context_clear(&cx);
}

/* -- Programs from files, users in threads -- */

static void test_stored_program(void **state) {
    (void)state;
    rig r;
    void *bytes;
    int64_t size_bytes;
    assert_ok(start(&r), &r.cx.diag);
    assert_ok(tcc_program_encode(&r.cx.diag, r.program, &bytes, &size_bytes), &r.cx.diag);
    tcc_program *written = r.program;
    assert_ok(tcc_program_decode(&r.cx.diag, "stored", bytes, size_bytes, &r.program), &r.cx.diag);
    tcc__free(bytes);
    rig_reload(&r);
    tcc_program_destroy(written);
    assert_ok(run_once(&r), &r.cx.diag);
    assert_memory_equal(got, expected, SAMPLE_BYTES);
    rig_stop(&r);
}

/* The same in a process of its own, which has no compiler in it. */
static void test_runtime_alone(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_program *p = sample_program_cuda();
    char path[512], line[64];
    snprintf(path, sizeof path, "%s/tcc-stored-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    void *bytes;
    int64_t size_bytes;
    assert_ok(tcc_program_encode(&d, p, &bytes, &size_bytes), &d);
    assert_ok(tcc__file_save(&d, path, bytes, (size_t)size_bytes), &d);
    tcc__free(bytes);
    tcc_program_destroy(p);
    program_result r = program_run(NULL, "../tests/run_stored", (const char *const[]){path, NULL});
    unlink(path);
    int64_t *x = malloc(SAMPLE_BYTES), sum = 0;
    assert_non_null(x);
    for (int i = 0; i < SAMPLE_N; i++) x[i] = i;
    sample_expected(x, got);
    for (int i = 0; i < SAMPLE_N; i++) sum += got[i];
    snprintf(line, sizeof line, "%lld\n", (long long)sum);
    if (r.status || strcmp(r.out, line)) fail_msg("exit status %d, %s instead of %s%s", r.status, r.out, line, r.err);
    program_free(&r);
    free(x);
}

typedef struct user {
    tcc_device *device;
    const tcc_program *program;
    bool good;
} user;

static void *user_thread(void *arg) {
    user *u = arg;
    const tcc_device_ops *ops = u->device->ops;
    tcc_context cx;
    tcc_exec *e = NULL;
    void *memory[SAMPLE_BINDINGS] = {0};
    int64_t *y = malloc(SAMPLE_BYTES);
    tcc_status s = tcc_context_init(&cx);
    if (s == TCC_OK) s = tcc_exec_create(&cx, u->device, u->program, &e);
    for (int i = 0; i < SAMPLE_BINDINGS && s == TCC_OK; i++) {
        s = ops->alloc(u->device, &cx.diag, SAMPLE_BYTES, &memory[i]);
        if (s == TCC_OK) s = tcc_exec_bind(e, &cx.diag, i, memory[i], SAMPLE_BYTES);
    }
    u->good = y != NULL;
    for (int run = 0; run < 3 && s == TCC_OK && u->good; run++) {
        s = ops->feed(u->device, &cx.diag, memory[SAMPLE_X], &(tcc_feed){x_data, SAMPLE_BYTES}, 1);
        if (s == TCC_OK) s = tcc_exec_run(e, &cx.diag);
        if (s == TCC_OK) s = ops->download(u->device, &cx.diag, y, memory[SAMPLE_Y], SAMPLE_BYTES);
        u->good &= s == TCC_OK && !memcmp(y, expected, SAMPLE_BYTES);
    }
    u->good &= s == TCC_OK;
    for (int i = 0; i < SAMPLE_BINDINGS; i++) ops->free(u->device, memory[i], SAMPLE_BYTES);
    tcc_exec_destroy(e);
    tcc_context_clear(&cx);
    free(y);
    return NULL;
}

static void test_users_in_threads(void **state) {
    (void)state;
    enum { USERS = 3 };
    tcc_context cx;
    tcc_device *device;
    tcc_program *p = sample_program_cuda();
    user users[USERS];
    pthread_t threads[USERS];
    assert_ok(tcc_context_init(&cx), &cx.diag);
    assert_ok(tcc_device_cuda_create(&cx, 0, &device), &cx.diag);
    for (int i = 0; i < USERS; i++) {
        users[i] = (user){device, p, false};
        assert_int_equal(pthread_create(&threads[i], NULL, user_thread, &users[i]), 0);
    }
    for (int i = 0; i < USERS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(users[i].good);
    }
    tcc_device_destroy(device);
    tcc_program_destroy(p);
    tcc_context_clear(&cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_run),
        CUDA_TEST(test_figures),
        CUDA_TEST(test_feed_and_fetch),
        CUDA_TEST(test_refused),
        CUDA_TEST(test_large_shared_memory),
        CUDA_TEST(test_profile),
        CUDA_TEST(test_failing_kernel),
        CUDA_TEST(test_blocking),
        CUDA_TEST(test_blocking_runs),
        CUDA_TEST(test_faults),
        CUDA_TEST(test_lost_device),
        CUDA_TEST(test_host_memory_short),
        CUDA_TEST(test_no_device),
        CUDA_TEST(test_arch),
        CUDA_TEST(test_stored_program),
        CUDA_TEST(test_runtime_alone),
        CUDA_TEST(test_users_in_threads),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
