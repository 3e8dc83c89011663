/* SPDX-License-Identifier: MIT
 * JSON to rows, as the run's data has them. */
#include "serve.h"

#include <stdlib.h>
#include <string.h>

static void put_cell(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static bool put_value(FILE *out, const cJSON *value) {
    if (cJSON_IsString(value)) put_cell(out, value->valuestring);
    else if (cJSON_IsNumber(value)) fprintf(out, "%.17g", value->valuedouble);
    else return !value || cJSON_IsNull(value); /* missing */
    return true;
}

static bool is_input(const tcc_column *c) { return c->features > 0; }

/* A row by the names of the columns; what is no column is an error. */
static bool put_row(job *j, FILE *out, const cJSON *row) {
    tcc_column c;
    int taken = 0;
    bool first = true;
    if (!cJSON_IsObject(row)) return !snprintf(j->problem, sizeof j->problem, "a row is no object");
    for (int64_t i = 0; tcc_dataset_column(tcc_run_data(s.run), i, &c); i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(row, c.name);
        taken += value != NULL;
        if (!is_input(&c)) continue;
        if (!first) fputc(',', out);
        first = false;
        if (put_value(out, value)) continue;
        snprintf(j->problem, sizeof j->problem, "\"%.100s\" is neither a number nor a text", c.name);
        return false;
    }
    fputc('\n', out);
    if (taken == cJSON_GetArraySize(row)) return true;
    snprintf(j->problem, sizeof j->problem, "a row has a name that is no column; columns are %.400s", s.header);
    return false;
}

static bool put_text(job *j, FILE *out, const cJSON *text) {
    if (!cJSON_IsString(text)) return !snprintf(j->problem, sizeof j->problem, "a text is no string");
    for (const char *at = text->valuestring; *at; at++) fputc(*at == '\n' || *at == '\r' ? ' ' : *at, out);
    fputc('\n', out);
    return true;
}

bool rows_read(job *j, const char *body, size_t size) {
    size_t length;
    cJSON *all = cJSON_ParseWithLength(body, size);
    const char *key = s.takes == TEXTS ? "texts" : "rows";
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(all, key), *item;
    FILE *out = open_memstream(&j->lines, &length);
    bool ok = cJSON_IsArray(list) && out;
    if (!ok) snprintf(j->problem, sizeof j->problem, "the body is no JSON object with a list \"%s\"", key);
    cJSON_ArrayForEach(item, list) {
        if (!ok) break;
        ok = s.takes == TEXTS ? put_text(j, out, item) : put_row(j, out, item);
        if (++j->rows > MOST_ROWS) ok = !snprintf(j->problem, sizeof j->problem, "more than %d rows", MOST_ROWS);
    }
    if (ok && !j->rows) ok = !snprintf(j->problem, sizeof j->problem, "\"%s\" is empty", key);
    if (out) fclose(out);
    cJSON_Delete(all);
    return ok;
}

bool rows_make_header(void) {
    tcc_column c;
    size_t size;
    FILE *out = open_memstream(&s.header, &size);
    for (int64_t i = 0, n = 0; out && tcc_dataset_column(tcc_run_data(s.run), i, &c); i++) {
        if (!is_input(&c)) continue;
        if (n++) fputc(',', out);
        put_cell(out, c.name);
    }
    return out && !fclose(out);
}
