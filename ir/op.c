/* SPDX-License-Identifier: MIT
 * The table of operations, made of ir/ops.def. */
#include "ir/ir.h"

#include <string.h>

const tcc_op_info tcc__op_infos[TCC_OP_COUNT] = {
#define COMM TCC_FLAG_COMM
#define TYPED TCC_FLAG_TYPED
#define COMPARE TCC_FLAG_COMPARE
#define EXACT TCC_FLAG_EXACT
#define WIDE(k) TCC_FLAG_WIDE_OPERAND(k)
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) \
    [TCC_OP_##id] = {text, least, most, TCC_ATTR_CLASS_##attrs, TCC_FUSION_##fusion, flags, TCC_AMP_##amp, cost, doc},
#include "ir/ops.def"
#undef TCC_OP
#undef COMM
#undef TYPED
#undef COMPARE
#undef EXACT
#undef WIDE
};

bool tcc_op_parse(const char *text, size_t length, tcc_op *out) {
    for (int op = 0; op < TCC_OP_COUNT; op++) {
        if (strlen(tcc__op_infos[op].text) == length && !memcmp(tcc__op_infos[op].text, text, length)) {
            *out = (tcc_op)op;
            return true;
        }
    }
    return false;
}
