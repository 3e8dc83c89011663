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

char tcc__csv_separator(const tcc__bytes *file) {
    static const char candidates[] = ",;\t|";
    enum { LINES = 20 };
    for (const char *c = candidates; *c; c++) {
        const char *at = (const char *)file->data, *end = at + file->size;
        const int first = count_in_line(at, end, *c, &at);
        bool agrees = first > 0;
        for (int line = 1; line < LINES && at < end && agrees; line++)
            agrees = count_in_line(at, end, *c, &at) == first;
        if (agrees) return *c;
    }
    return ',';
}
