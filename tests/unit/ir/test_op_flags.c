/* SPDX-License-Identifier: MIT
 * The flags COMM and EXACT of ir/ops.def say what the interpreter does, of all ops element by element without
 * attributes: one that is missing fails as one that is wrong does. */
#include "harness/check.h"
#include "harness/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 8 };
/* Of bf16, with all of its digits and of several magnitudes, so that hardly any result has as few. */
#define A "1.9921875, 0.1962890625, -692, 1.203125, 3, -0.5, 4.09375, 0.625"
#define B "0.375, 255, 13.1875, -0.07373046875, 2.015625, 7, -0.75, 1"
#define INTEGERS_A "5, -3, 12, 7, 1, 0, 2, 9"
#define INTEGERS_B "2, 4, -1, 7, 3, 6, 1, 0"

static const char *const infer_rules[] = {
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) #infer,
#include "ir/ops.def"
#undef TCC_OP
};

static bool takes_integers(tcc_op op) { return strstr(infer_rules[op], "_bits") || strstr(infer_rules[op], "_ints"); }

static bool is_plain(const tcc_op_info *info) {
    return info->fusion == TCC_FUSION_POINT && info->attrs == TCC_ATTR_CLASS_none && !(info->flags & TCC_FLAG_TYPED) &&
           info->most <= 2;
}

/* op(a, b), or op(b, a), or op(a). */
static tcc_value result_of(tcc_op op, bool swapped) {
    const tcc_op_info *info = tcc_op_get_info(op);
    const bool integers = takes_integers(op);
    const char *type = integers ? "i32" : "bf16", *result = info->flags & TCC_FLAG_COMPARE ? "bool" : type;
    char text[512];
    snprintf(text, sizeof text,
             "%%0 = constant {values=[%s]} : %s[8]\n%%1 = constant {values=[%s]} : %s[8]\n%%2 = %s(%%%d%s) : %s[8]",
             integers ? INTEGERS_A : A, type, integers ? INTEGERS_B : B, type, info->text, swapped,
             info->most == 1 ? ""
             : swapped       ? ", %0"
                             : ", %1",
             result);
    return evaluate_lines(text);
}

static double element(const tcc_value *v, int i) {
    return tcc_dtype_is_float(v->type.dtype) ? v->f[i] : (double)v->i[i];
}

static void commutative_ops_have_the_flag(void **state) {
    (void)state;
    int seen = 0;
    for (int op = 0; op < TCC_OP_COUNT; op++) {
        const tcc_op_info *info = tcc_op_get_info((tcc_op)op);
        if (!is_plain(info) || info->most != 2) continue;
        tcc_value x = result_of((tcc_op)op, false), y = result_of((tcc_op)op, true);
        bool same = true;
        for (int i = 0; i < COUNT; i++) {
            const double a = element(&x, i), b = element(&y, i);
            same = same && (a == b || (isnan(a) && isnan(b)));
        }
        if (same != ((info->flags & TCC_FLAG_COMM) != 0)) fail_msg("%s: the flag COMM is wrong", info->text);
        tcc_value_free(&x);
        tcc_value_free(&y);
        seen++;
    }
    assert_true(seen > 15);
}

static void exact_ops_have_the_flag(void **state) {
    (void)state;
    int seen = 0;
    for (int op = 0; op < TCC_OP_COUNT; op++) {
        const tcc_op_info *info = tcc_op_get_info((tcc_op)op);
        if (!is_plain(info) || takes_integers((tcc_op)op) || info->flags & TCC_FLAG_COMPARE) continue;
        tcc_value x = result_of((tcc_op)op, false);
        bool exact = true;
        for (int i = 0; i < COUNT; i++) exact = exact && (isnan(x.f[i]) || tcc_dtype_round(TCC_BF16, x.f[i]) == x.f[i]);
        if (exact != ((info->flags & TCC_FLAG_EXACT) != 0)) fail_msg("%s: the flag EXACT is wrong", info->text);
        tcc_value_free(&x);
        seen++;
    }
    assert_true(seen > 25);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(commutative_ops_have_the_flag),
                                       cmocka_unit_test(exact_ops_have_the_flag)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
