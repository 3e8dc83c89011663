/* SPDX-License-Identifier: MIT
 * What cells of separated values are, and what separates them. */
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

/* ---- the separator ---- */

/* How often `c` separates cells of the line that begins at `from`; *next: the next line. */
static int count_in_line(const char *from, const char *end, char c, const char **next) {
    int count = 0;
    bool quoted = false;
    for (; from < end && (quoted || (*from != '\n' && *from != '\r')); from++) {
        quoted ^= *from == '"';
        count += !quoted && *from == c;
    }
    while (from < end && (*from == '\n' || *from == '\r')) from++;
    *next = from;
    return count;
}

enum { LINES = 20 }; /* that are looked at */

/* Whether each of the first lines has as many of `c`, and at least one. */
static bool agree_on(const tcc__bytes *file, char c) {
    const char *at = (const char *)file->data, *end = at + file->size;
    const int first = count_in_line(at, end, c, &at);
    bool agrees = first > 0;
    for (int line = 1; line < LINES && at < end && agrees; line++) agrees = count_in_line(at, end, c, &at) == first;
    return agrees;
}

/* Whether all commas of the first lines are within numbers. */
static bool are_decimal(const tcc__bytes *file) {
    const char *from = (const char *)file->data, *end = from + file->size;
    int lines = 0;
    for (const char *c = from; c < end && lines < LINES; c++) {
        lines += *c == '\n';
        if (*c == ',' && (c == from || c + 1 == end || c[-1] < '0' || c[-1] > '9' || c[1] < '0' || c[1] > '9'))
            return false;
    }
    return true;
}

/* A comma, but where all lines agree on another one, too, and the commas are decimal. */
char tcc__csv_separator(const tcc__bytes *file) {
    char found = 0;
    for (const char *c = ";\t|"; *c && !found; c++)
        if (agree_on(file, *c)) found = *c;
    const bool commas = agree_on(file, ',');
    return commas && found && are_decimal(file) ? found : commas || !found ? ',' : found;
}
