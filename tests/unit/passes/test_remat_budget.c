/* SPDX-License-Identifier: MIT
 * Budgets of memory as text. */
#include "harness/check.h"

#include "passes/remat/budget.h"

#include <locale.h>

static void accepted(void **state) {
    (void)state;
    static const struct {
        const char *text;
        tcc_budget_kind kind;
        int64_t bytes;
        double share;
    } cases[] = {
        {"none", TCC_BUDGET_NONE, 0, 0},
        {"min", TCC_BUDGET_LEAST, 0, 0},
        {"123456789", TCC_BUDGET_BYTES, 123456789, 0},
        {"1", TCC_BUDGET_BYTES, 1, 0},
        {"17 B", TCC_BUDGET_BYTES, 17, 0},
        {"800MB", TCC_BUDGET_BYTES, 800000000, 0},
        {"800 mb", TCC_BUDGET_BYTES, 800000000, 0},
        {"1.5GiB", TCC_BUDGET_BYTES, 1610612736, 0},
        {"0.5kB", TCC_BUDGET_BYTES, 500, 0},
        {".25KiB", TCC_BUDGET_BYTES, 256, 0},
        {"2e9", TCC_BUDGET_BYTES, 2000000000, 0},
        {"2.5e3 KB", TCC_BUDGET_BYTES, 2500000, 0},
        {"2TB", TCC_BUDGET_BYTES, 2000000000000, 0},
        {"1TiB", TCC_BUDGET_BYTES, 1099511627776, 0},
        {"50%", TCC_BUDGET_SHARE, 0, 0.5},
        {"12.5 %", TCC_BUDGET_SHARE, 0, 0.125},
        {"100%", TCC_BUDGET_SHARE, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tcc_remat_spec spec = {.segments = true};
        bool of_device = true;
        if (!tcc_budget_parse(cases[i].text, &spec, &of_device)) fail_msg("refused: %s", cases[i].text);
        if (spec.budget != cases[i].kind || spec.bytes != cases[i].bytes || spec.share != cases[i].share || of_device)
            fail_msg("%s gives kind %d, %lld bytes, share %g", cases[i].text, spec.budget, (long long)spec.bytes,
                     spec.share);
        assert_true(spec.segments);
    }
}

static void of_the_device(void **state) {
    (void)state;
    tcc_remat_spec spec = {0};
    bool of_device = false;
    assert_true(tcc_budget_parse("auto", &spec, &of_device));
    assert_true(of_device && spec.budget == TCC_BUDGET_BYTES && spec.bytes == 0);
}

static void refused(void **state) {
    (void)state;
    static const char *const cases[] = {
        "",    " ",  "0",    "0.4", "-1",  "+1",    "0%",      "101%", "-5%",  "1e",   "1.5.2",      "GiB",    "1GiBs",
        "1 G", "1G", "50%%", "nan", "inf", "none ", "minimum", "Auto", "0x10", "1e30", "2000000TiB", "1,5GiB", "5e999"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tcc_remat_spec spec = {.budget = TCC_BUDGET_SHARE, .share = 0.25};
        bool of_device = true;
        if (tcc_budget_parse(cases[i], &spec, &of_device)) fail_msg("accepted: \"%s\"", cases[i]);
        assert_true(of_device && spec.budget == TCC_BUDGET_SHARE && spec.share == 0.25 && !spec.bytes);
    }
}

static void in_any_locale(void **state) {
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) skip();
    accepted(NULL);
    refused(NULL);
    setlocale(LC_NUMERIC, "C");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted),
        cmocka_unit_test(of_the_device),
        cmocka_unit_test(refused),
        cmocka_unit_test(in_any_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
