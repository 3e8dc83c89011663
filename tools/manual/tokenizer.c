/* SPDX-License-Identifier: MIT
 * Examples of tokenizer.h. */
#include "examples.h"

EXAMPLE(tcc_tokenizer_open) {
    tcc_tokenizer_options from = {.size = sizeof from, .kind = "characters", .vocab = "input.txt"};
    tcc_tokenizer *characters;
    TCC_TRY(tcc_tokenizer_open(cx, &from, &characters));
    tcc_tokenizer_close(characters);
}

EXAMPLE(tcc_tokenizer_close) {
    tcc_tokenizer_options from = {.size = sizeof from, .kind = "bytes"};
    tcc_tokenizer *bytes = NULL;
    if (tcc_tokenizer_open(cx, &from, &bytes)) puts(tcc_context_error(cx));
    tcc_tokenizer_close(bytes);
}

EXAMPLE(tcc_tokenizer_kinds) { printf("%s\n", tcc_tokenizer_kinds()); /* characters, bytes, gpt2, wordpiece */ }

EXAMPLE(tcc_tokenizer_vocab_size) { printf("%d tokens\n", (int)tcc_tokenizer_vocab_size(tokenizer)); /* 19 tokens */ }

EXAMPLE(tcc_tokenizer_token) {
    size_t length;
    const char *token = tcc_tokenizer_token(tokenizer, 2, &length);
    printf("%.*s\n", (int)length, token); /* a */
}

EXAMPLE(tcc_tokenizer_describe) {
    char *text;
    TCC_TRY(tcc_tokenizer_describe(cx, tokenizer, &text));
    tcc_tokenizer_options from = {.size = sizeof from, .described = text};
    tcc_tokenizer *same;
    TCC_TRY(tcc_tokenizer_open(cx, &from, &same));
    tcc_string_free(text);
    tcc_tokenizer_close(same);
}

EXAMPLE(tcc_tokenizer_find) { printf("%d\n", (int)tcc_tokenizer_find(tokenizer, "[CLS]")); /* -1 */ }

EXAMPLE(tcc_tokenizer_encode) {
    int32_t tokens[8];
    int64_t count;
    TCC_TRY(tcc_tokenizer_encode(cx, tokenizer, "to be", 5, tokens, 8, &count));
    printf("%d tokens, the first is %d\n", (int)count, (int)tokens[0]); /* 5 tokens, the first is 16 */
}

EXAMPLE(tcc_tokenizer_decode) {
    char *text;
    size_t length;
    TCC_TRY(tcc_tokenizer_decode(cx, tokenizer, ((int32_t[]){1, 2, 2}), 3, &text, &length));
    printf("%s\n", text); /*  aa */
    tcc_string_free(text);
}

EXAMPLE(tcc_tokenize_files) {
    tcc_tokenize_options how = {.size = sizeof how, .inputs = (const char *[]){"input.txt"}, .n_inputs = 1};
    tcc_tokenize_result result;
    how.output = "tokens.bin";
    TCC_TRY(tcc_tokenize_files(cx, tokenizer, &how, &result));
    printf("%d tokens of %d bytes\n", (int)result.tokens, result.token_bytes); /* 81 tokens of 2 bytes */
}
