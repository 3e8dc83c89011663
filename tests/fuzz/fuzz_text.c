/* SPDX-License-Identifier: MIT
 * Fuzzes the making of tokens from text. The first byte chooses between UTF-8 and bytes, and where
 * the rest is cut in two. What is accepted must come back from its tokens. */
#include "runtime/data/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The tokens' labels, one after the other, are the text; a byte order mark is not part of it. */
static void check_text(const tcc__text *t, const tcc__bytes *text, int64_t first, int64_t count) {
    const uint8_t *at = text->data, *end = at + text->size;
    if (!t->bytes && text->size >= 3 && !memcmp(at, "\xEF\xBB\xBF", 3)) at += 3;
    for (int64_t i = 0; i < count; i++) {
        int32_t token = tcc__text_token(t, first + i);
        if (token < 0 || token >= t->vocab_size) abort();
        size_t length = t->bytes || !t->labels[token][0] ? 1 : strlen(t->labels[token]);
        if ((size_t)(end - at) < length || memcmp(at, t->labels[token], length)) abort();
        at += length;
    }
    if (at != end) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size < 1) return 0;
    static const char *const paths[2] = {"train", "val"};
    size_t first = (size - 1) * (bytes[0] >> 1) / 127;
    tcc__bytes texts[2] = {{(uint8_t *)(uintptr_t)bytes + 1, first},
                           {(uint8_t *)(uintptr_t)bytes + 1 + first, size - 1 - first}};
    tcc_diag d = {0};
    tcc__text text;
    if (tcc__text_parse(&d, paths, texts, bytes[0] & 1, &text) == TCC_OK) {
        check_text(&text, &texts[0], 0, text.length[0]);
        check_text(&text, &texts[1], text.length[0], text.length[1]);
        tcc__text_free(&text);
    } else if (!*tcc_diag_text(&d)) {
        abort(); /* an error without words */
    }
    tcc_diag_clear(&d);
    return 0;
}
