/* SPDX-License-Identifier: MIT
 * Lines that a GPU sorts, with work in front of them and behind, and read in their order: against the interpreter. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"

#include <stdio.h>

static void check(const char *text) {
    for (int eager = 0; eager < 2; eager++)
        check_gpu_text(text, &(compiled_options){.seed = 1, .low = -2, .high = 2, .eager = eager});
}

/* Many are equal, -0 and 0 among them; every 7th is NaN. */
static void work_in_front(void **state) {
    (void)state;
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[5,300]\n  %1 = iota {axis=1} : i32[5,300]\n"
          "  %2 = constant {values=[7]} : i32[5,300]\n  %3 = rem(%1, %2) : i32[5,300]\n"
          "  %4 = constant {values=[0]} : i32[5,300]\n  %5 = eq(%3, %4) : bool[5,300]\n  %6 = round(%0) : f32[5,300]\n"
          "  %7 = constant {values=[nan]} : f32[5,300]\n  %8 = select(%5, %7, %6) : f32[5,300]\n"
          "  %9 = argsort(%8) {count=300} : i32[5,300]\n  %10 = argsort(%8) {count=300, descending=true} : i32[5,300]\n"
          "  %11 = sub(%9, %10) : i32[5,300]\n  output \"a\" %9\n  output \"b\" %11\n}\n");
}

static void work_behind(void **state) {
    (void)state;
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[3,4,100]\n  %1 = input {name=\"z\"} : f32[3,4,130]\n"
          "  %2 = argsort(%0) {count=100} : i32[3,4,100]\n  %3 = take_along(%1, %2) {axis=2} : f32[3,4,100]\n"
          "  %4 = mul(%3, %0) : f32[3,4,100]\n  %5 = take_along(%0, %2) {axis=2} : f32[3,4,100]\n"
          "  output \"o\" %2\n  output \"a\" %4\n  output \"b\" %5\n}\n");
}

#define PUT(type, order, dims, base)                                                                           \
    "graph @s {\n  %0 = input {name=\"x\"} : " type dims "\n  %1 = input {name=\"z\"} : " type dims "\n"       \
    "  %2 = argsort(%0) {count=" order "} : i32" dims "\n  %3 = take_along(%0, %2) {axis=1} : " type dims "\n" \
    "  %4 = mul(%1, %3) : " type dims "\n  %5 = constant {values=[" base "]} : " type dims "\n"                \
    "  %6 = scatter_add_along(%5, %2, %4) {axis=1} : " type dims "\n  output \"o\" %3\n  output \"p\" %6\n}\n"

/* The gradient of what is read in order: each element has a place of its own, and one kernel does all. */
static void put_in_order(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int steps;
    } cases[] = {{PUT("f32", "300", "[5,300]", "0"), 1},
                 {PUT("bf16", "64", "[9,64]", "0"), 1},
                 {PUT("i32", "100", "[3,100]", "0"), 1},
                 {PUT("f32", "300", "[5,300]", "-0.0"), 2}}; /* -0 + -0 is no 0 */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(gpu_steps_of_text(cases[i].text, &(compiled_options){0}), cases[i].steps);
        check(cases[i].text);
    }
    /* an order of a part of the line leaves places empty; a sum onto something is one */
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[5,300]\n  %1 = input {name=\"z\"} : f32[5,40]\n"
          "  %2 = argsort(%0) {count=40} : i32[5,40]\n  %3 = constant {values=[0]} : f32[5,300]\n"
          "  %4 = scatter_add_along(%3, %2, %1) {axis=1} : f32[5,300]\n  output \"o\" %4\n}\n");
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[5,30]\n  %1 = input {name=\"z\"} : f32[5,30]\n"
          "  %2 = argsort(%0) {count=30} : i32[5,30]\n"
          "  %3 = scatter_add_along(%0, %2, %1) {axis=1} : f32[5,30]\n  output \"o\" %3\n}\n");
}

/* The first of each line in order, as places and as elements with work on them. */
#define FIRST(type, dims, wanted, first)                                                                  \
    "graph @s {\n  %0 = input {name=\"x\"} : " type dims "\n  %1 = input {name=\"z\"} : " type first "\n" \
    "  %2 = argsort(%0) {count=" wanted ", descending=true} : i32" first                                  \
    "\n  %3 = take_along(%0, %2) {axis=1} : " type first "\n  %4 = mul(%3, %1) : " type first             \
    "\n  output \"o\" %2\n  output \"p\" %4\n}\n"

/* One kernel stores no others: of lines of a warp and of a block. */
static void first_places(void **state) {
    (void)state;
    static const char *const cases[] = {
        FIRST("f32", "[5,300]", "7", "[5,7]"), FIRST("bf16", "[37,65]", "33", "[37,33]"),
        FIRST("i32", "[3,1000]", "999", "[3,999]"), FIRST("f32", "[2,8192]", "50", "[2,50]"),
        FIRST("f32", "[9,100]", "1", "[9,1]")};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gpu_steps_of_text(cases[i], &(compiled_options){0}), 1);
        check(cases[i]);
    }
    /* of one line, and of equal ones, a place that is in no loop */
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[300]\n  %1 = argsort(%0) {count=1} : i32[1]\n"
          "  %2 = take_along(%0, %1) {axis=0} : f32[1]\n  %3 = mul(%2, %2) : f32[1]\n  output \"o\" %3\n}\n");
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[90]\n  %1 = broadcast(%0) {dims=[1]} : f32[7,90]\n"
          "  %2 = argsort(%1) {count=1} : i32[7,1]\n  %3 = mul(%2, %2) : i32[7,1]\n  output \"o\" %3\n}\n");
    /* of lines that are views of several dims */
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[7,3,4,11]\n  %1 = transpose(%0) {perm=[1, 2, 0, 3]} : "
          "f32[3,4,7,11]\n"
          "  %2 = reshape(%1) : f32[3,4,77]\n  %3 = argsort(%2) {count=5} : i32[3,4,5]\n"
          "  %4 = take_along(%2, %3) {axis=2} : f32[3,4,5]\n  output \"o\" %3\n  output \"p\" %4\n}\n");
}

/* Where others are wanted as well, or loops would be more than a value has dims, the order is stored. */
static void first_places_beside_others(void **state) {
    (void)state;
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[5,300]\n  %1 = argsort(%0) {count=300} : i32[5,300]\n"
          "  %2 = argsort(%0) {count=9} : i32[5,9]\n  %3 = argsort(%0) {count=4} : i32[5,4]\n"
          "  %4 = take_along(%0, %1) {axis=1} : f32[5,300]\n  %5 = take_along(%0, %2) {axis=1} : f32[5,9]\n"
          "  %6 = mul(%3, %3) : i32[5,4]\n  output \"a\" %4\n  output \"b\" %5\n  output \"c\" %6\n}\n");
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[2,1,3,1,2,1,2,70]\n"
          "  %1 = argsort(%0) {count=9} : i32[2,1,3,1,2,1,2,9]\n"
          "  %2 = mul(%1, %1) : i32[2,1,3,1,2,1,2,9]\n  output \"o\" %1\n  output \"p\" %2\n}\n");
}

/* The largest of parts of a line, then those of them: what lies between is stored but for what all of a part is. */
static void largest_of_long_lines(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int steps;
    } cases[] = {{FIRST("f32", "[2,9000]", "33", "[2,33]"), 4}, {FIRST("bf16", "[3,20011]", "50", "[3,50]"), 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gpu_steps_of_text(cases[i].text, &(compiled_options){0}), cases[i].steps);
        check(cases[i].text);
    }
    /* the largest stand at the end, in parts and behind them */
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[2,9000]\n  %1 = iota {axis=1} : i32[2,9000]\n"
          "  %2 = cast(%1) : f32[2,9000]\n  %3 = add(%0, %2) : f32[2,9000]\n"
          "  %4 = argsort(%3) {count=33, descending=true} : i32[2,33]\n"
          "  %5 = take_along(%0, %4) {axis=1} : f32[2,33]\n  output \"o\" %4\n  output \"p\" %5\n}\n");
}

/* The line is two dims of what it is read from, and none. */
static void views_in_front(void **state) {
    (void)state;
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[7,9,11]\n  %1 = transpose(%0) {perm=[1, 2, 0]} : f32[9,11,7]\n"
          "  %2 = reshape(%1) : f32[9,77]\n  %3 = argsort(%2) {count=77} : i32[9,77]\n  output \"o\" %3\n}\n");
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[40,50]\n  %1 = transpose(%0) {perm=[1, 0]} : f32[50,40]\n"
          "  %2 = argsort(%1) {count=33, descending=true} : i32[50,33]\n  output \"o\" %2\n}\n");
}

/* More lines than a grid has places for at once, and one alone. */
static void numbers_of_lines(void **state) {
    (void)state;
    check("graph @s {\n  %0 = input {name=\"x\"} : bf16[1003,40]\n  %1 = argsort(%0) {count=40} : i32[1003,40]\n"
          "  output \"o\" %1\n}\n");
    check("graph @s {\n  %0 = input {name=\"x\"} : i32[5000]\n  %1 = argsort(%0) {count=5000} : i32[5000]\n"
          "  output \"o\" %1\n}\n");
    check("graph @s {\n  %0 = input {name=\"x\"} : f32[9,600]\n  %1 = argsort(%0) {count=600} : i32[9,600]\n"
          "  output \"o\" %1\n}\n");
}

/* Lines of each number of threads, where they are in registers. */
static void nothing_spills(void **state) {
    (void)state;
    static const int lines[] = {64, 128, 256, 512, 4096, 8192};
    static const char *const archs[] = {"sm_75", "sm_80", "sm_90"};
    for (int i = 0; i < 12; i++)
        for (int a = 0; a < 3; a++) {
            const int line = lines[i / 2], wanted = i % 2 ? line / 7 : line; /* all, or the first */
            char text[512];
            tcc_diag diag = {0};
            snprintf(text, sizeof text,
                     "graph @s {\n  %%0 = input {name=\"x\"} : f32[9,%d]\n  %%1 = argsort(%%0) {count=%d} : i32[9,%d]\n"
                     "  %%2 = take_along(%%0, %%1) {axis=1} : f32[9,%d]\n  output \"o\" %%2\n}\n",
                     line, wanted, wanted, wanted);
            tcc_graph *g = parse_graph(text, &diag);
            gpu_program *p = gpu_program_create(g, &(compiled_options){0}, archs[a]);
            if (a || line < 8192) assert_int_equal(p->program->n_kernels, 1); /* an sm_75 has too little memory */
            const long spilled = gpu_assemble(p->program, archs[a]);
            if (spilled > 0) fail_msg("lines of %d, %s: %ld bytes of registers are spilled", line, archs[a], spilled);
            gpu_program_destroy(p);
            tcc_graph_destroy(g);
            tcc_diag_clear(&diag);
        }
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(work_in_front),
                                       cmocka_unit_test(work_behind),
                                       cmocka_unit_test(views_in_front),
                                       cmocka_unit_test(numbers_of_lines),
                                       cmocka_unit_test(put_in_order),
                                       cmocka_unit_test(first_places),
                                       cmocka_unit_test(first_places_beside_others),
                                       cmocka_unit_test(largest_of_long_lines),
                                       cmocka_unit_test(nothing_spills)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
