/* SPDX-License-Identifier: MIT
 * Contractions and attention: which groups take a schedule of their own. */
#include "codegen/plan.h"

tcc_status tcc_lower_contract(tcc_lowering *l) {
    (void)l;
    return TCC_OK;
}

tcc_status tcc_lower_attention(tcc_lowering *l) {
    (void)l;
    return TCC_OK;
}
