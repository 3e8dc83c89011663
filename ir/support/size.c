/* SPDX-License-Identifier: MIT */
#include "size.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define MOST_BYTES 1152921504606846976.0 /* 2^60 */

static const char *skip_spaces(const char *c) {
    while (*c == ' ') c++;
    return c;
}

const char *tcc_number_parse(const char *text, double *out) {
    const char *c = skip_spaces(text);
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
    return skip_spaces(c);
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

bool tcc_size_parse(const char *text, int64_t *bytes) {
    double value;
    const char *unit = tcc_number_parse(text, &value);
    if (!unit) return false;
    value *= unit_bytes(unit);
    if (!(value >= 1 && value <= MOST_BYTES)) return false;
    *bytes = (int64_t)value;
    return true;
}
