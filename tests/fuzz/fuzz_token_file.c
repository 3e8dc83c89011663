/* SPDX-License-Identifier: MIT
 * Fuzzes the headers of files of tokens. */
#include "runtime/data/token_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size > TCC__TOKEN_HEAD) return 0;
    tcc_diag d = {0};
    tcc__token_form form;
    const tcc_status status = tcc__token_form_of(&d, "tokens", bytes, (int64_t)size, &form);
    if (status != TCC_OK && !*tcc_diag_text(&d)) abort(); /* an error without words */
    if (status == TCC_OK && (form.begins < 0 || form.begins > (int64_t)size || form.tokens < -1)) abort();
    tcc_diag_clear(&d);
    return 0;
}
