/* SPDX-License-Identifier: MIT
 * Keys: hashes, and their text. */
#include "ir/support/hash.h"
#include "runtime/cache/internal.h"

#include <ctype.h>
#include <stdio.h>

enum { MOST_TEXT = 200 }; /* of a part's text, for people */

/* Two hashes of 64 bits with other seeds: one of 128, whose chance of being another text's is none in practice. */
static tcc_cache_hash hash_bytes(const void *data, size_t size_bytes) {
    tcc_cache_hash h;
    for (int i = 0; i < 2; i++) {
        const uint64_t half = tcc_hash_bytes(i ? 0x7463635f63616368u : 0x6b65795f68616c66u, data, size_bytes);
        memcpy(h.bytes + 8 * i, &half, 8);
    }
    return h;
}

uint64_t tcc_cache_checksum(int64_t kind, const tcc_cache_hash *hash, const void *value, int64_t size_bytes) {
    uint64_t sum = tcc_hash_bytes((uint64_t)kind, hash->bytes, sizeof hash->bytes);
    return tcc_hash_bytes(sum, value, (size_t)size_bytes) >> 1; /* SQLite's integers have signs */
}

void tcc_cache_print_hash(const tcc_cache_hash *h, tcc_strbuf *out) {
    for (int i = 0; i < TCC_CACHE_HASH_BYTES; i++) tcc_strbuf_printf(out, "%02x", h->bytes[i]);
}

/* Adds a part to the running hash of a key. */
static void add_part(tcc_cache_hash *key, const char *name, size_t name_length, const char *digits) {
    char text[TCC_CACHE_HASH_BYTES + TCC_CACHE_NAME_BYTES + TCC_CACHE_HASH_DIGITS + 8];
    memcpy(text, key->bytes, TCC_CACHE_HASH_BYTES);
    memcpy(text + TCC_CACHE_HASH_BYTES, name, name_length);
    memcpy(text + TCC_CACHE_HASH_BYTES + name_length, digits, TCC_CACHE_HASH_DIGITS);
    *key = hash_bytes(text, TCC_CACHE_HASH_BYTES + name_length + TCC_CACHE_HASH_DIGITS);
}

static void part_digits(const tcc_cache_part *part, char digits[TCC_CACHE_HASH_DIGITS + 1]) {
    const tcc_cache_hash h = hash_bytes(part->text, strlen(part->text));
    for (int i = 0; i < TCC_CACHE_HASH_BYTES; i++) snprintf(digits + 2 * i, 3, "%02x", h.bytes[i]);
}

static size_t name_length(const char *name) {
    const size_t length = strlen(name);
    return length < TCC_CACHE_NAME_BYTES ? length : TCC_CACHE_NAME_BYTES;
}

tcc_cache_hash tcc_cache_hash_key(const tcc_cache_key *key) {
    tcc_cache_hash hash = {0};
    for (int i = 0; i < key->count; i++) {
        char digits[TCC_CACHE_HASH_DIGITS + 1];
        part_digits(&key->parts[i], digits);
        add_part(&hash, key->parts[i].name, name_length(key->parts[i].name), digits);
    }
    return hash;
}

void tcc_cache_print_key(const tcc_cache_key *key, tcc_strbuf *out) {
    for (int i = 0; i < key->count; i++) {
        const tcc_cache_part *part = &key->parts[i];
        char digits[TCC_CACHE_HASH_DIGITS + 1], text[MOST_TEXT + 1];
        part_digits(part, digits);
        snprintf(text, sizeof text, "%s", part->text);
        for (char *c = text; *c; c++)
            if (iscntrl((unsigned char)*c)) *c = ' ';
        tcc_strbuf_printf(out, "%.*s\t%s\t%s%s\n", (int)name_length(part->name), part->name, digits, text,
                          strlen(part->text) > MOST_TEXT ? "..." : "");
    }
}

bool tcc_cache_next_line(const char **at, tcc_cache_line *out) {
    const char *end = strchr(*at, '\n'), *name = *at;
    if (!end) return false;
    const char *digits = memchr(name, '\t', (size_t)(end - name));
    if (!digits || digits == name || digits - name > TCC_CACHE_NAME_BYTES) return false;
    digits++;
    if (end - digits <= TCC_CACHE_HASH_DIGITS || digits[TCC_CACHE_HASH_DIGITS] != '\t') return false;
    *out = (tcc_cache_line){.name = name,
                            .digits = digits,
                            .text = digits + TCC_CACHE_HASH_DIGITS + 1,
                            .name_length = (int)(digits - name) - 1};
    out->text_length = (int)(end - out->text);
    *at = end + 1;
    return true;
}

bool tcc_cache_hash_text(const char *text, tcc_cache_hash *out) {
    tcc_cache_line line;
    *out = (tcc_cache_hash){0};
    while (tcc_cache_next_line(&text, &line)) add_part(out, line.name, (size_t)line.name_length, line.digits);
    return !*text;
}

bool tcc_cache_line_is(const tcc_cache_line *line, const tcc_cache_part *part) {
    char digits[TCC_CACHE_HASH_DIGITS + 1];
    part_digits(part, digits);
    return !memcmp(digits, line->digits, TCC_CACHE_HASH_DIGITS);
}
