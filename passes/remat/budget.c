/* SPDX-License-Identifier: MIT */
#include "passes/remat/budget.h"
#include "ir/support/size.h"

#include <string.h>

const char tcc_budget_forms[] =
    "bytes for all memory of a step (\"1.5GiB\", \"800MB\", \"123456789\"), a share of the activation memory that it "
    "takes without a budget (\"50%\"), \"min\", \"auto\" or \"none\"";

static bool parse_word(const char *text, tcc_remat_spec *spec, bool *of_device) {
    static const struct {
        const char *word;
        tcc_budget_kind kind;
        bool of_device;
    } words[] = {{"none", TCC_BUDGET_NONE, false}, {"min", TCC_BUDGET_LEAST, false}, {"auto", TCC_BUDGET_BYTES, true}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].word, text)) continue;
        spec->budget = words[i].kind;
        *of_device = words[i].of_device;
        return true;
    }
    return false;
}

bool tcc_budget_parse(const char *text, tcc_remat_spec *spec, bool *of_device) {
    double value;
    if (parse_word(text, spec, of_device)) return true;
    const char *unit = tcc_number_parse(text, &value);
    if (unit && !strcmp(unit, "%")) {
        if (!(value > 0 && value <= 100)) return false;
        spec->budget = TCC_BUDGET_SHARE;
        spec->share = value / 100;
    } else {
        if (!tcc_size_parse(text, &spec->bytes)) return false;
        spec->budget = TCC_BUDGET_BYTES;
    }
    *of_device = false;
    return true;
}
