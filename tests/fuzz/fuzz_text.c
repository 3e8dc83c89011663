/* SPDX-License-Identifier: MIT
 * Fuzzes the making of tokens from text. The first byte chooses between UTF-8 and bytes, and where
 * the rest is cut in two. What is accepted must come back from its tokens. */
#include "runtime/data/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The tokens' labels, one after the other, are the text; a byte order mark is not part of it. */
static void check_text(tcc_diag *d, const tcc__text *t, int which) {
    const tcc__text_source *s = &t->sources[which];
    const uint8_t *at = s->memory, *end = at + s->size_bytes;
    if (!t->characters.bytes && s->size_bytes >= 3 && !memcmp(at, "\xEF\xBB\xBF", 3)) at += 3;
    for (int64_t i = 0; i < s->characters; i++) {
        int32_t token;
        if (tcc__text_read(d, t, which, i, 1, &token) != TCC_OK || token < 0 || token >= t->vocab.count) abort();
        size_t length;
        const char *label = tcc__vocab_text(&t->vocab, token, &length);
        if ((size_t)(end - at) < length || memcmp(at, label, length)) abort();
        at += length;
    }
    if (at != end) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size < 1) return 0;
    size_t first = (size - 1) * (bytes[0] >> 1) / 127;
    tcc_diag d = {0};
    tcc__text text = {
        .characters.bytes = bytes[0] & 1,
        .sources = {{.path = "train", .fd = -1, .memory = bytes + 1, .size_bytes = (int64_t)first},
                    {.path = "val", .fd = -1, .memory = bytes + 1 + first, .size_bytes = (int64_t)(size - 1 - first)}}};
    if (tcc__text_survey(&d, &text) == TCC_OK) {
        for (int i = 0; i < 2; i++) check_text(&d, &text, i);
    } else if (!*tcc_diag_text(&d)) {
        abort(); /* an error without words */
    }
    tcc__text_free(&text);
    tcc_diag_clear(&d);
    return 0;
}
