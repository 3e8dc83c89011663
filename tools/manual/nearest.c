/* SPDX-License-Identifier: MIT
 * Examples of nearest.h. */
#include "examples.h"

EXAMPLE(tcc_nearest) {
    const char *const words[] = {"linear", "cosine", "constant"};
    printf("did you mean %s?\n", tcc_nearest("consine", words, 3)); /* did you mean cosine? */
}
