/* SPDX-License-Identifier: MIT */
#include "passes/remat_budget.h"

#include <math.h>
#include <string.h>
#include <strings.h>

const char tcc_budget_forms[] =
    "bytes for all memory of a step (\"1.5GiB\", \"800MB\", \"123456789\"), a share of the activation memory that it "
    "takes without a budget (\"50%\"), \"min\", \"auto\" or \"none\"";

#define MOST_BYTES 1152921504606846976.0 /* 2^60 */

static const char *skip_spaces(const char *c) {
    while (*c == ' ') c++;
    return c;
}

/* A decimal number without sign, in any locale: "12", "1.5", ".5", "2e9". Returns what follows it; NULL: none is there.
 */
static const char *parse_number(const char *c, double *out) {
    double value = 0, unit = 1;
    int digits = 0;
    for (; *c >= '0' && *c <= '9'; c++, digits++) value = 10 * value + (*c - '0');
    if (*c == '.')
        for (c++; *c >= '0' && *c <= '9'; c++, digits++, unit *= 10) value = 10 * value + (*c - '0');
    if (!digits) return NULL;
    value /= unit;
    if ((*c == 'e' || *c == 'E') && c[1] >= '0' && c[1] <= '9') {
        int exponent = 0;
        for (c++; *c >= '0' && *c <= '9'; c++) exponent = exponent < 100 ? 10 * exponent + (*c - '0') : exponent;
        value *= pow(10, exponent);
    }
    *out = value;
    return c;
}

/* The bytes of a unit; 0: there is none of that name. */
static double unit_bytes(const char *name) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},      {"B", 1},      {"kB", 1e3},      {"MB", 1e6},         {"GB", 1e9},
                 {"TB", 1e12}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (!strcasecmp(units[i].name, name)) return units[i].bytes;
    return 0;
}

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
    const char *unit = parse_number(skip_spaces(text), &value);
    if (!unit) return false;
    unit = skip_spaces(unit);
    if (!strcmp(unit, "%")) {
        if (!(value > 0 && value <= 100)) return false;
        spec->budget = TCC_BUDGET_SHARE;
        spec->share = value / 100;
    } else {
        value *= unit_bytes(unit);
        if (!(value >= 1 && value <= MOST_BYTES)) return false;
        spec->budget = TCC_BUDGET_BYTES;
        spec->bytes = (int64_t)value;
    }
    *of_device = false;
    return true;
}
