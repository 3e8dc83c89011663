/* SPDX-License-Identifier: MIT
 * Lowering attention groups to the attention kernels. */
#include "codegen/plan.h"

tcc_status tcc_lower_attention(tcc_lowering *l) {
    (void)l;
    return TCC_OK;
}
