/* SPDX-License-Identifier: MIT
 * YAML by libyaml's documents, which know what an alias names. */
#include "recipe_yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum {
    DEEPEST = 32,
    MOST_ITEMS = 1 << 17,
    MOST_MERGED = 1 << 12
}; /* an alias may stand in what it names, or in many that name each other */

typedef struct reader {
    yaml_document_t *document;
    yaml_items *items;
    int room, merged;
    size_t line;
    char *problem;
} reader;

__attribute__((format(printf, 3, 4))) static bool fail(reader *in, size_t line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(in->problem, RECIPE_PROBLEM_MAX, format, args);
    va_end(args);
    in->line = line;
    return false;
}

static yaml_node_t *node_at(const reader *in, int index) { return yaml_document_get_node(in->document, index); }
static size_t line_of(const yaml_node_t *n) { return n->start_mark.line + 1; }

static bool add(reader *in, yaml_item_kind kind, const yaml_node_t *n) {
    yaml_items *items = in->items;
    const bool scalar = kind == YAML_ITEM_SCALAR;
    const char *text = scalar ? (const char *)n->data.scalar.value : NULL;
    if (scalar && strlen(text) != n->data.scalar.length)
        return fail(in, line_of(n), "\"%s\" is followed by a NUL character", text);
    if (items->count == MOST_ITEMS) return fail(in, line_of(n), "aliases make more than %d values of it", MOST_ITEMS);
    if (items->count == in->room) {
        yaml_item *more = realloc(items->v, (size_t)(in->room = 2 * in->room + 64) * sizeof *more);
        if (!more) return fail(in, line_of(n), "out of memory");
        items->v = more;
    }
    items->v[items->count++] = (yaml_item){.kind = kind,
                                           .text = text,
                                           .plain = scalar && n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE,
                                           .line = kind == YAML_ITEM_END ? n->end_mark.line + 1 : line_of(n)};
    return true;
}

/* -- Merge keys: https://yaml.org/type/merge.html -- */

static bool is_merge_key(const yaml_node_t *key) {
    return key->type == YAML_SCALAR_NODE && key->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           key->data.scalar.length == 2 && !memcmp(key->data.scalar.value, "<<", 2);
}

static bool same_key(const yaml_node_t *a, const yaml_node_t *b) {
    return a->type == YAML_SCALAR_NODE && b->type == YAML_SCALAR_NODE &&
           a->data.scalar.length == b->data.scalar.length &&
           !memcmp(a->data.scalar.value, b->data.scalar.value, a->data.scalar.length);
}

/* The entries of a mapping, with those that it merges: its own first, and of what it merges the first of a name. */
typedef struct entries {
    yaml_node_pair_t v[512];
    int count;
} entries;

static bool has_key(const reader *in, const entries *e, const yaml_node_t *key) {
    for (int i = 0; i < e->count; i++)
        if (same_key(node_at(in, e->v[i].key), key)) return true;
    return false;
}

static bool collect(reader *in, const yaml_node_t *mapping, bool merged, int depth, entries *e);

static bool merge(reader *in, const yaml_node_t *value, int depth, entries *e) {
    if (depth == DEEPEST || in->merged++ == MOST_MERGED)
        return fail(in, line_of(value), "<<: is merged into itself, or too often");
    if (value->type == YAML_MAPPING_NODE) return collect(in, value, true, depth, e);
    if (value->type != YAML_SEQUENCE_NODE)
        return fail(in, line_of(value), "<<: a mapping, or a list of some, is expected");
    for (const yaml_node_item_t *i = value->data.sequence.items.start; i < value->data.sequence.items.top; i++)
        if (!merge(in, node_at(in, *i), depth + 1, e)) return false;
    return true;
}

static bool collect(reader *in, const yaml_node_t *mapping, bool merged, int depth, entries *e) {
    const yaml_node_pair_t *begin = mapping->data.mapping.pairs.start, *end = mapping->data.mapping.pairs.top;
    for (const yaml_node_pair_t *p = begin; p < end; p++) {
        const yaml_node_t *key = node_at(in, p->key);
        if (is_merge_key(key) || (merged && has_key(in, e, key))) continue;
        if (e->count == sizeof e->v / sizeof e->v[0]) return fail(in, line_of(key), "a mapping has too many keys");
        e->v[e->count++] = *p;
    }
    for (const yaml_node_pair_t *p = begin; p < end; p++)
        if (is_merge_key(node_at(in, p->key)) && !merge(in, node_at(in, p->value), depth + 1, e)) return false;
    return true;
}

/* -- The list -- */

static bool add_node(reader *in, const yaml_node_t *n, int depth);

static bool is_left_out(const yaml_node_t *key, int depth) {
    return !depth && key->type == YAML_SCALAR_NODE && !strncmp((const char *)key->data.scalar.value, "x-", 2);
}

static bool add_mapping(reader *in, const yaml_node_t *n, int depth) {
    entries *e = calloc(1, sizeof *e);
    bool ok = e ? collect(in, n, false, 0, e) : fail(in, line_of(n), "out of memory");
    ok = ok && add(in, YAML_ITEM_MAPPING, n);
    for (int i = 0; ok && i < e->count; i++) {
        const yaml_node_t *key = node_at(in, e->v[i].key);
        if (is_left_out(key, depth)) continue;
        ok = add_node(in, key, depth + 1) && add_node(in, node_at(in, e->v[i].value), depth + 1);
    }
    free(e);
    return ok && add(in, YAML_ITEM_END, n);
}

static bool add_node(reader *in, const yaml_node_t *n, int depth) {
    if (depth == DEEPEST) return fail(in, line_of(n), "an alias stands in what it names, or lists are too deep");
    if (n->type == YAML_SCALAR_NODE) return add(in, YAML_ITEM_SCALAR, n);
    if (n->type == YAML_MAPPING_NODE) return add_mapping(in, n, depth);
    if (!add(in, YAML_ITEM_LIST, n)) return false;
    for (const yaml_node_item_t *i = n->data.sequence.items.start; i < n->data.sequence.items.top; i++)
        if (!add_node(in, node_at(in, *i), depth + 1)) return false;
    return add(in, YAML_ITEM_END, n);
}

static bool malformed(reader *in, const yaml_parser_t *parser, const char *text, size_t length) {
    size_t line = parser->problem_mark.line + 1;
    if (parser->error == YAML_READER_ERROR) { /* which has no mark */
        line = 1;
        for (size_t i = 0; i < parser->problem_offset && i < length; i++) line += text[i] == '\n';
    }
    return fail(in, line, "malformed YAML: %s", parser->problem ? parser->problem : "out of memory");
}

/* Whether nothing but the end follows the document. */
static bool read_end(reader *in, yaml_parser_t *parser, const char *text, size_t length) {
    yaml_document_t more;
    if (!yaml_parser_load(parser, &more)) return malformed(in, parser, text, length);
    const bool ended = !yaml_document_get_root_node(&more);
    const size_t line = more.start_mark.line + 1;
    yaml_document_delete(&more);
    return ended || fail(in, line, "a second document begins; a recipe is one");
}

static bool read_document(reader *in, const char *text, size_t length) {
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return fail(in, 0, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    bool ok = yaml_parser_load(&parser, in->document) || malformed(in, &parser, text, length);
    if (ok) {
        in->items->document = in->document;
        const yaml_node_t *root = yaml_document_get_root_node(in->document);
        ok = root ? add_node(in, root, 0) && read_end(in, &parser, text, length) : fail(in, 1, "the recipe is empty");
    }
    yaml_parser_delete(&parser);
    return ok;
}

bool yaml_items_read(yaml_items *items, const char *text, size_t length, size_t *line,
                     char problem[RECIPE_PROBLEM_MAX]) {
    *items = (yaml_items){0};
    reader in = {.document = malloc(sizeof *in.document), .items = items, .problem = problem};
    const bool ok = in.document ? read_document(&in, text, length) : fail(&in, 0, "out of memory");
    *line = in.line;
    if (!items->document) free(in.document);
    return ok;
}

void yaml_items_free(yaml_items *items) {
    if (items->document) yaml_document_delete(items->document);
    free(items->document);
    free(items->v);
    *items = (yaml_items){0};
}

const yaml_item *yaml_items_next(yaml_items *items) {
    static const yaml_item end = {.kind = YAML_ITEM_END};
    return items->at < items->count ? &items->v[items->at++] : items->count ? &items->v[items->count - 1] : &end;
}

bool yaml_can_hold(const char *text) {
    yaml_event_t event;
    if (!yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text, (int)strlen(text), 1, 1,
                                      YAML_ANY_SCALAR_STYLE))
        return false;
    yaml_event_delete(&event);
    return true;
}
