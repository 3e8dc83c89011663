/* SPDX-License-Identifier: MIT
 * What cells of separated values are. */
#include "runtime/data/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool tcc__csv_number(locale_t locale, const char *text, double *out) {
    char *end;
    *out = strtod_l(text, &end, locale);
    return end != text && !*end && isfinite(*out);
}

/* The end of the digits at `c`; of those that points group by three, as 1.234.567, if there are such. */
static const char *end_of_digits(const char *c, bool *grouped) {
    static const char digits[] = "0123456789";
    const size_t first = strspn(c, digits);
    const bool may_group = first >= 1 && first <= 3 && *c != '0';
    c += first;
    for (*grouped = false; may_group && *c == '.' && strspn(c + 1, digits) == 3; *grouped = true) c += 4;
    return c;
}

bool tcc__csv_comma_number(locale_t locale, const char *text, double *out) {
    char number[64];
    size_t length = 0;
    bool grouped;
    const char *c = text, *end = end_of_digits(text + (*text == '-' || *text == '+'), &grouped);
    if (strlen(text) >= sizeof number || (!grouped && *end != ',')) return tcc__csv_number(locale, text, out);
    if (*end == '.') return false; /* digits that are not grouped all along */
    for (; c < end; c++)
        if (*c != '.') number[length++] = *c;
    if (*c == ',') {
        number[length++] = '.';
        c++;
    }
    strcpy(number + length, c);
    return tcc__csv_number(locale, number, out);
}

bool tcc__csv_is_missing(const char *text) {
    static const char *const words[] = {"",    "?",   "NA",  "N/A",  "n/a",  "#N/A", "<NA>",
                                        "NaN", "nan", "NAN", "-nan", "null", "NULL", "None"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i])) return true;
    return false;
}
