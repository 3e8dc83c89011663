/* SPDX-License-Identifier: MIT
 * The LLVM base: targets, kernels, loops, masked tails, objects without calls, errors as diagnostics. */
#include "codegen/emit/emitter.h"
#include "codegen/options.h"
#include "harness/check.h"
#include "harness/environment.h"
#include "harness/object.h"
#include "ir/support/alloc.h"

#include <string.h>

/* y[i] += x[i] * params[1] over params[0] elements, vectors with a masked tail; items are rows. */
static void emit_axpy(tcc_emitter *e) {
    tcc_emit_kernel_begin(e, "axpy");
    tcc_emit_value x = tcc_emit_buffer(e, 0), y = tcc_emit_buffer(e, 1), n = tcc_emit_param(e, 0);
    tcc_emit_value scale = tcc_emit_splat(e, tcc_emit_sitofp(e, tcc_emit_param(e, 1), e->f32), e->lanes);
    tcc_emit_loop items, i;
    tcc_emit_items_begin(e, &items);
    tcc_emit_value row = tcc_emit_mul(e, items.index, n);
    tcc_emit_loop_begin(e, &i, tcc_emit_i64(e, 0), n, e->lanes, NULL, 0);
    tcc_emit_value at = tcc_emit_add(e, row, i.index), mask = tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, n, i.index));
    tcc_emit_value px = tcc_emit_at(e, e->f32, x, at), py = tcc_emit_at(e, e->f32, y, at);
    tcc_emit_value sum = tcc_emit_fma(e, tcc_emit_load_masked(e, e->vf32, px, mask), scale,
                                      tcc_emit_load_masked(e, e->vf32, py, mask));
    tcc_emit_store_masked(e, sum, py, mask);
    tcc_emit_loop_end(e, &i, NULL);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
}

/* buffers[1][item] = sum and [item + items] = maximum of the lanes of buffers[0][item * lanes ...]; a carried loop. */
static void emit_lanes(tcc_emitter *e) {
    tcc_emit_kernel_begin(e, "lanes");
    tcc_emit_value x = tcc_emit_buffer(e, 0), y = tcc_emit_buffer(e, 1);
    tcc_emit_loop items, twice;
    tcc_emit_items_begin(e, &items);
    tcc_emit_value v = tcc_emit_load(
        e, e->vf32, tcc_emit_at(e, e->f32, x, tcc_emit_mul(e, items.index, tcc_emit_i64(e, e->lanes))), 0);
    tcc_emit_value zero = tcc_emit_float(e, e->vf32, 0);
    tcc_emit_loop_begin(e, &twice, tcc_emit_i64(e, 0), tcc_emit_param(e, 0), 1, &zero, 1);
    tcc_emit_value next = tcc_emit_fadd(e, twice.carry[0], v);
    tcc_emit_loop_end(e, &twice, &next);
    tcc_emit_store(e, tcc_emit_sum_lanes(e, twice.carry[0]), tcc_emit_at(e, e->f32, y, items.index), 0);
    tcc_emit_store(e, tcc_emit_max_lanes(e, v), tcc_emit_at(e, e->f32, y, tcc_emit_add(e, items.index, e->end)), 0);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
}

static void run_on(const char *cpu) {
    tcc_llvm_target target;
    tcc_diag diag = {0};
    assert_int_equal(tcc_llvm_target_host(cpu, &diag, &target), TCC_OK);
    tcc_emitter e;
    assert_int_equal(tcc_emitter_init(&e, &target, "test", &diag), TCC_OK);
    emit_axpy(&e);
    emit_lanes(&e);
    test_object *o = test_object_load(&e);

    enum { ROWS = 3, MOST = 37 };
    tcc_host_kernel axpy = test_object_kernel(o, "axpy");
    for (int n = 0; n <= MOST; n++) {
        float x[ROWS * MOST], y[ROWS * MOST + 1];
        for (int i = 0; i < ROWS * n; i++) x[i] = (float)i, y[i] = 1;
        y[ROWS * n] = 7;
        void *buffers[] = {x, y};
        int64_t params[] = {n, 3};
        axpy(buffers, params, 0, ROWS, NULL);
        for (int i = 0; i < ROWS * n; i++) assert_float_equal(y[i], 1 + 3 * i, 0);
        assert_float_equal(y[ROWS * n], 7, 0); /* the tail touches nothing */
    }
    float x[2 * 16], y[4];
    for (int i = 0; i < 2 * e.lanes; i++) x[i] = (float)(i % 5);
    void *buffers[] = {x, y};
    for (int64_t times = 0; times <= 3; times++) {
        test_object_kernel(o, "lanes")(buffers, &times, 0, 2, NULL);
        for (int r = 0; r < 2; r++) {
            float sum = 0, most = 0;
            for (int i = 0; i < e.lanes; i++) {
                sum += x[r * e.lanes + i];
                if (x[r * e.lanes + i] > most) most = x[r * e.lanes + i];
            }
            assert_float_equal(y[r], (float)times * sum, 0);
            assert_float_equal(y[r + 2], most, 0);
        }
    }
    test_object_free(o);
    tcc_emitter_clear(&e);
    tcc_llvm_target_clear(&target);
    tcc_diag_clear(&diag);
}

static void kernels_run_on_the_host(void **state) {
    (void)state;
    run_on(NULL);
}

static void kernels_run_with_narrower_vectors(void **state) {
    (void)state;
    tcc_llvm_target host;
    assert_int_equal(tcc_llvm_target_host(NULL, NULL, &host), TCC_OK);
    if (strncmp(host.triple, "x86_64", 6) == 0) {
        run_on("x86-64-v2");
        if (host.lanes >= 8) run_on("x86-64-v3");
    }
    tcc_llvm_target_clear(&host);
}

/* All that differs is in what keys have of a target. */
static void the_environment_caps_the_host(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_llvm_target target;
    tcc_strbuf named = {0}, capped = {0};
    test_environment_set("TCC_CPU", "x86-64-v9");
    assert_int_equal(tcc_llvm_target_host(NULL, &diag, &target), TCC_EINVAL);
    tcc_diag_clear(&diag);
#if defined __x86_64__
    test_environment_set("TCC_CPU", "x86-64-v2");
    assert_ok(tcc_llvm_target_host(NULL, &diag, &target), &diag);
    assert_int_equal(target.lanes, 4);
    assert_false(target.fma);
    tcc_codegen_describe_target(&target, &capped);
    tcc_llvm_target_clear(&target);
    assert_ok(tcc_llvm_target_host("x86-64-v2", &diag, &target), &diag);
    tcc_codegen_describe_target(&target, &named);
    tcc_llvm_target_clear(&target);
    assert_string_equal(capped.text, named.text);
    assert_non_null(strstr(capped.text, " x86-64-v2 "));
    run_on(NULL);
#endif
    test_environment_restore();
    tcc_strbuf_free(&named);
    tcc_strbuf_free(&capped);
}

static void text_forms_show_the_kernel(void **state) {
    (void)state;
    tcc_llvm_target target;
    tcc_emitter e;
    tcc_diag diag = {0};
    assert_int_equal(tcc_llvm_target_host(NULL, &diag, &target), TCC_OK);
    assert_int_equal(tcc_emitter_init(&e, &target, "test", &diag), TCC_OK);
    emit_axpy(&e);
    assert_int_equal(tcc_emitter_finish(&e, NULL), TCC_OK);
    tcc_strbuf ir = {0}, assembly = {0};
    assert_int_equal(tcc_emitter_print_ir(&e, &ir), TCC_OK);
    assert_int_equal(tcc_emitter_print_assembly(&e, &assembly), TCC_OK);
    assert_non_null(strstr(ir.text, "define void @axpy("));
    assert_non_null(strstr(assembly.text, "axpy:"));
    assert_null(strstr(assembly.text, "call"));
    tcc_strbuf_free(&ir);
    tcc_strbuf_free(&assembly);
    tcc_emitter_clear(&e);
    tcc_llvm_target_clear(&target);
}

static void a_malformed_kernel_is_an_error(void **state) {
    (void)state;
    tcc_llvm_target target;
    tcc_emitter e;
    tcc_diag diag = {0};
    assert_int_equal(tcc_llvm_target_host(NULL, &diag, &target), TCC_OK);
    assert_int_equal(tcc_emitter_init(&e, &target, "test", &diag), TCC_OK);
    tcc_emit_kernel_begin(&e, "broken"); /* no terminator */
    assert_int_equal(tcc_emitter_finish(&e, NULL), TCC_EBUG);
    assert_non_null(strstr(tcc_diag_text(&diag), "malformed kernel"));
    tcc_diag_clear(&diag);
    tcc_emitter_clear(&e);
    tcc_llvm_target_clear(&target);
    assert_int_equal(tcc_llvm_target_host("z80", &diag, &target), TCC_EUNSUPPORTED);
    assert_non_null(strstr(tcc_diag_text(&diag), "'z80'"));
    tcc_diag_clear(&diag);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_run_on_the_host),        cmocka_unit_test(kernels_run_with_narrower_vectors),
        cmocka_unit_test(the_environment_caps_the_host),  cmocka_unit_test(text_forms_show_the_kernel),
        cmocka_unit_test(a_malformed_kernel_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
