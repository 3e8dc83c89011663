/* SPDX-License-Identifier: MIT
 * The object loader: sections and relocations of real objects, refusals by name, and thousands of damaged objects. */
#include "harness/check.h"
#include "harness/ir_object.h"

#include "ir/support/alloc.h"
#include "runtime/cpu/object.h"

#include <llvm-c/Target.h>

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIGNATURE "(ptr %buffers, ptr %params, i64 %begin, i64 %end, ptr %scratch)"

/* Uses a constant pool, a table of pointers (relocated data), written data, zeroed data, a call, and the offset table.
 */
static const char full_ir[] =
    "@weights = private unnamed_addr constant [4 x i64] [i64 1, i64 10, i64 100, i64 1000]\n"
    "@second = private unnamed_addr constant i64 7\n"
    "@table = internal constant [2 x ptr] [ptr getelementptr (i64, ptr @weights, i64 2), ptr @second]\n"
    "@calls = internal global i64 40\n"
    "@zeroed = internal global [3 x i64] zeroinitializer\n"
    "@shared = global i64 5\n" /* reached through the global offset table */
    "define internal i64 @weight(i64 %i) noinline {\n"
    "  %p = getelementptr [4 x i64], ptr @weights, i64 0, i64 %i\n"
    "  %w = load volatile i64, ptr %p\n"
    "  ret i64 %w\n"
    "}\n"
    "define void @sum" SIGNATURE " {\n"
    "  %out = load ptr, ptr %buffers\n"
    "  %w = call i64 @weight(i64 %begin)\n"
    "  %slot = getelementptr [2 x ptr], ptr @table, i64 0, i64 %end\n"
    "  %q = load ptr, ptr %slot\n"
    "  %t = load i64, ptr %q\n"
    "  %c = load i64, ptr @calls\n"
    "  %c1 = add i64 %c, 1\n"
    "  store i64 %c1, ptr @calls\n"
    "  %z = load i64, ptr getelementptr (i64, ptr @zeroed, i64 1)\n"
    "  %g = load i64, ptr @shared\n"
    "  %p0 = load i64, ptr %params\n"
    "  %s1 = add i64 %w, %t\n"
    "  %s2 = add i64 %s1, %c1\n"
    "  %s3 = add i64 %s2, %z\n"
    "  %s4 = add i64 %s3, %g\n"
    "  %s5 = add i64 %s4, %p0\n"
    "  store i64 %s5, ptr %out\n"
    "  ret void\n"
    "}\n"
    "define void @nothing" SIGNATURE " { ret void }\n";

static tcc_status load_ir(tcc_diag *d, const char *ir, const char *triple, tcc_host_object **o) {
    int64_t size;
    void *code = test_ir_object(ir, triple, &size);
    tcc_status s = tcc_host_object_load(d, "test", code, size, o);
    free(code);
    return s;
}

static int64_t call_sum(const tcc_host_object *o, int64_t begin, int64_t end, int64_t param) {
    int64_t out = -1;
    void *buffers[1] = {&out};
    tcc_host_kernel sum = tcc_host_object_kernel(o, "sum");
    assert_non_null(sum);
    sum(buffers, &param, begin, end, NULL);
    return out;
}

static void test_runs(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_host_object *o, *again;
    assert_ok(load_ir(&d, full_ir, NULL, &o), &d);
    assert_ok(load_ir(&d, full_ir, NULL, &again), &d);
    assert_int_equal(call_sum(o, 1, 0, 10000), 10 + 100 + 41 + 0 + 5 + 10000);
    assert_int_equal(call_sum(o, 3, 1, 20000), 1000 + 7 + 42 + 0 + 5 + 20000);
    assert_int_equal(call_sum(again, 0, 0, 0), 1 + 100 + 41 + 5); /* data of its own */
    tcc_host_object_kernel(o, "nothing")(NULL, NULL, 0, 0, NULL);
    assert_null(tcc_host_object_kernel(o, "weight")); /* local */
    assert_null(tcc_host_object_kernel(o, "shared")); /* data */
    assert_null(tcc_host_object_kernel(o, ""));
    tcc_host_object_destroy(o);
    tcc_host_object_destroy(again);
    tcc_host_object_destroy(NULL);
}

static void refuses(const char *ir, const char *triple, tcc_status status, const char *words) {
    tcc_diag d = {0};
    tcc_host_object *o;
    assert_int_equal(load_ir(&d, ir, triple, &o), status);
    assert_null(o);
    if (!strstr(tcc_diag_text(&d), words)) fail_msg("'%s' lacks '%s'", tcc_diag_text(&d), words);
    tcc_diag_clear(&d);
}

/* LLVM's target of another machine than this one. */
static void initialize_other(void) {
#if ON_X86_64
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
#else
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
#endif
}

static void test_refuses(void **state) {
    (void)state;
    refuses("declare double @sin(double)\ndefine double @f(double %x) { %y = call double @sin(double %x)\n ret double "
            "%y }\n",
            NULL, TCC_ENOTFOUND, "object 'test': undefined symbol 'sin'");
    refuses("@t = thread_local global i32 1\ndefine i32 @f() { %v = load i32, ptr @t\n ret i32 %v }\n", NULL,
            TCC_EUNSUPPORTED, "thread-local");
    initialize_other();
    refuses("define void @f() { ret void }\n", ON_X86_64 ? "aarch64-linux-gnu" : "x86_64-linux-gnu", TCC_EUNSUPPORTED,
            ON_X86_64 ? "made for aarch64 (ELF machine 183), but this process runs on x86-64"
                      : "made for x86-64 (ELF machine 62), but this process runs on ");
    refuses("@big = internal global [2000000000 x i8] zeroinitializer\ndefine ptr @f() { ret ptr @big }\n", NULL,
            TCC_EFORMAT, "too many");
}

static void test_out_of_memory(void **state) {
    (void)state;
    int64_t size;
    void *code = test_ir_object(full_ir, NULL, &size);
    for (int64_t n = 0;; n++) {
        tcc_diag d = {0};
        tcc_host_object *o;
        tcc__alloc_fail_at(n);
        tcc_status s = tcc_host_object_load(&d, "test", code, size, &o);
        tcc__alloc_fail_at(-1);
        tcc_diag_clear(&d);
        if (s == TCC_OK) {
            assert_true(n > 2);
            tcc_host_object_destroy(o);
            break;
        }
        assert_int_equal(s, TCC_ENOMEM);
        assert_null(o);
    }
    free(code);
}

static uint32_t next_random(uint32_t *x) {
    *x ^= *x << 13;
    *x ^= *x >> 17;
    return *x ^= *x << 5;
}

/* Damaged objects load or are refused; they never crash the loader. Bytes are allocated to size, so that the sanitizers
 * see a read past the end. Loaded ones are not called. */
static void test_damaged(void **state) {
    (void)state;
    int64_t size;
    unsigned char *code = test_ir_object(full_ir, NULL, &size);
    uint32_t random = 12345;
    int refused = 0;
    for (int64_t length = 0; length < size; length += 1 + length / 50) {
        unsigned char *cut = malloc((size_t)length + !length);
        memcpy(cut, code, (size_t)length);
        tcc_diag d = {0};
        tcc_host_object *o;
        assert_int_not_equal(tcc_host_object_load(&d, "cut", cut, length, &o), TCC_OK);
        tcc_diag_clear(&d);
        free(cut);
    }
    Elf64_Ehdr header;
    memcpy(&header, code, sizeof header);
    for (int round = 0; round < 6000; round++) {
        unsigned char *bad = malloc((size_t)size);
        memcpy(bad, code, (size_t)size);
        int changes = 1 + (int)(next_random(&random) % 3);
        for (int i = 0; i < changes; i++) {
            /* Mostly headers, symbols and relocations, which lie behind the code. */
            uint64_t at = next_random(&random) % (uint64_t)size;
            if (next_random(&random) % 2) at = header.e_shoff + at % ((uint64_t)size - header.e_shoff);
            static const unsigned char values[] = {0, 1, 2, 4, 8, 0x7f, 0x80, 0xff};
            bad[at] = next_random(&random) % 2 ? values[next_random(&random) % sizeof values]
                                               : (unsigned char)next_random(&random);
        }
        tcc_diag d = {0};
        tcc_host_object *o;
        if (tcc_host_object_load(&d, "bad", bad, size, &o) == TCC_OK) tcc_host_object_destroy(o);
        else {
            assert_true(strlen(tcc_diag_text(&d)) > 10);
            refused++;
        }
        tcc_diag_clear(&d);
        free(bad);
    }
    assert_in_range(refused, 500, 5999);
    free(code);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
