/* SPDX-License-Identifier: MIT
 * Examples of status.h. */
#include "examples.h"

EXAMPLE(tcc_status_name) { printf("%s\n", tcc_status_name(TCC_ESHAPE)); /* ESHAPE */ }

EXAMPLE(tcc_status_text) { printf("%s\n", tcc_status_text(TCC_ESHAPE)); /* shapes do not agree */ }

EXAMPLE(TCC_TRY) {
    TCC_TRY(tcc_model_train(model, batch, batch_count)); /* if it fails, this function returns its error */
    TCC_TRY(tcc_model_synchronize(model));
}
