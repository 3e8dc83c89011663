/* SPDX-License-Identifier: MIT
 * subpixel: narrow images of strided convolutions' gradients, by all classes at once, are the same; others stay. */
#include "harness/check.h"
#include "harness/passes.h"
#include "passes/select.h"

#include <stdio.h>
#include <string.h>

enum { LANES = 16 };

typedef struct form {
    const char *dy, *w, *dx, *stride, *lo, *hi, *dilation;
    int groups;
    bool changes;
} form;

static const form forms[] = {
    /* Images of a strided convolution: even and odd padding, a rest of the image, zeros on one side. */
    {"2,5,4,3", "5,3,7,7", "2,3,8,6", "2, 2", "3, 3", "3, 3", "1, 1", 1, true},
    {"1,4,5,4", "4,3,7,7", "1,3,9,8", "2, 2", "3, 3", "3, 3", "1, 1", 1, true},
    {"2,4,4,4", "4,3,3,3", "2,3,8,8", "2, 2", "0, 1", "1, 0", "1, 1", 1, true},
    {"1,6,3,2", "6,3,4,4", "1,3,12,8", "4, 4", "0, 0", "0, 0", "1, 1", 1, true},
    {"1,3,4,9", "3,2,5,3", "1,2,11,9", "3, 1", "2, 1", "1, 1", "1, 1", 1, true},
    {"2,4,7", "4,3,6", "2,3,17", "3", "2", "5", "1", 1, true},
    {"1,3,2,3,2", "3,2,3,3,3", "1,2,4,6,4", "2, 2, 2", "1, 1, 1", "1, 1, 1", "1, 1, 1", 1, true},
    /* No positions are to be joined, or their channels fill vectors. */
    {"2,4,6,6", "4,3,3,3", "2,3,6,6", "1, 1", "1, 1", "1, 1", "1, 1", 1, false},
    {"1,4,3,3", "4,16,3,3", "1,16,6,6", "2, 2", "1, 1", "1, 1", "1, 1", 1, false},
    /* Groups, dilation, and more padding than the kernel is wide. */
    {"1,4,3,3", "4,1,3,3", "1,2,6,6", "2, 2", "1, 1", "1, 1", "1, 1", 2, false},
    {"1,4,2,2", "4,2,3,3", "1,2,6,6", "2, 2", "1, 1", "1, 1", "2, 2", 1, false},
    {"1,2,6,6", "2,1,2,2", "1,1,5,5", "2, 2", "4, 4", "4, 4", "1, 1", 1, false},
};

static int count(const tcc_graph *g, tcc_op op) {
    int n = 0;
    for (int i = 0; i < g->nodes.count; i++) n += g->nodes.data[i]->op == op;
    return n;
}

static void check_form(const form *f, int lanes) {
    const tcc_pass_options options = {.target = &(tcc_pass_target){.lanes = lanes}};
    char text[1024];
    tcc_diag diag = {0};
    tcc_graph *g;
    snprintf(text, sizeof text,
             "graph @image {\n%%0 = input {name=\"dy\"} : f64[%s]\n%%1 = input {name=\"w\"} : f64[%s]\n"
             "%%2 = conv_grad_input(%%0, %%1) {stride=[%s], pad_lo=[%s], pad_hi=[%s], dilation=[%s], groups=%d} : "
             "f64[%s]\noutput \"dx\" %%2\n}\n",
             f->dy, f->w, f->stride, f->lo, f->hi, f->dilation, f->groups, f->dx);
    assert_ok(tcc_graph_parse(text, strlen(text), "text", &diag, &g), &diag);
    tcc_graph *after = run_passes(g, "subpixel", &options);
    const bool changed = lanes && f->changes;
    if (count(after, TCC_OP_CONV_GRAD_INPUT) != !changed || count(after, TCC_OP_CONV) != changed)
        fail_msg("%s %s", changed ? "unchanged:" : "changed:", text);
    assert_same_meaning(g, after, 1e-12);
    tcc_graph_destroy(after);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static void test_each_form(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check_form(&forms[i], LANES);
}

/* Where channels are no vectors, nothing is gained. */
static void test_without_vectors(void **state) {
    (void)state;
    check_form(&forms[0], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_form), cmocka_unit_test(test_without_vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
