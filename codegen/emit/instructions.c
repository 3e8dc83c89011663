/* SPDX-License-Identifier: MIT
 * Single instructions. */
#include "codegen/emit/functions.h"

#define BINARY(name, build)                                                              \
    tcc_emit_value tcc_emit_##name(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) { \
        return LLVMBuild##build(e->builder, a, b, "");                                   \
    }
#define UNARY(name, build) \
    tcc_emit_value tcc_emit_##name(tcc_emitter *e, tcc_emit_value a) { return LLVMBuild##build(e->builder, a, ""); }
#define CONVERSION(name, build)                                                          \
    tcc_emit_value tcc_emit_##name(tcc_emitter *e, tcc_emit_value a, tcc_emit_type to) { \
        return LLVMBuild##build(e->builder, a, to, "");                                  \
    }
#include "codegen/emit/instructions.def"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(TCC_ICMP_EQ, LLVMIntEQ);
SAME(TCC_ICMP_NE, LLVMIntNE);
SAME(TCC_ICMP_UGT, LLVMIntUGT);
SAME(TCC_ICMP_UGE, LLVMIntUGE);
SAME(TCC_ICMP_ULT, LLVMIntULT);
SAME(TCC_ICMP_ULE, LLVMIntULE);
SAME(TCC_ICMP_SGT, LLVMIntSGT);
SAME(TCC_ICMP_SGE, LLVMIntSGE);
SAME(TCC_ICMP_SLT, LLVMIntSLT);
SAME(TCC_ICMP_SLE, LLVMIntSLE);
SAME(TCC_FCMP_OEQ, LLVMRealOEQ);
SAME(TCC_FCMP_OGT, LLVMRealOGT);
SAME(TCC_FCMP_OGE, LLVMRealOGE);
SAME(TCC_FCMP_OLT, LLVMRealOLT);
SAME(TCC_FCMP_OLE, LLVMRealOLE);
SAME(TCC_FCMP_ONE, LLVMRealONE);
SAME(TCC_FCMP_ORD, LLVMRealORD);
SAME(TCC_FCMP_UNO, LLVMRealUNO);
SAME(TCC_FCMP_UEQ, LLVMRealUEQ);
SAME(TCC_FCMP_UGT, LLVMRealUGT);
SAME(TCC_FCMP_UGE, LLVMRealUGE);
SAME(TCC_FCMP_ULT, LLVMRealULT);
SAME(TCC_FCMP_ULE, LLVMRealULE);
SAME(TCC_FCMP_UNE, LLVMRealUNE);

tcc_emit_value tcc_emit_icmp(tcc_emitter *e, tcc_emit_icmp_kind kind, tcc_emit_value a, tcc_emit_value b) {
    return LLVMBuildICmp(e->builder, (LLVMIntPredicate)kind, a, b, "");
}

tcc_emit_value tcc_emit_fcmp(tcc_emitter *e, tcc_emit_fcmp_kind kind, tcc_emit_value a, tcc_emit_value b) {
    return LLVMBuildFCmp(e->builder, (LLVMRealPredicate)kind, a, b, "");
}

tcc_emit_value tcc_emit_select(tcc_emitter *e, tcc_emit_value condition, tcc_emit_value yes, tcc_emit_value no) {
    return LLVMBuildSelect(e->builder, condition, yes, no, "");
}

tcc_emit_value tcc_emit_is_not_null(tcc_emitter *e, tcc_emit_value pointer) {
    return LLVMBuildIsNotNull(e->builder, pointer, "");
}

tcc_emit_value tcc_emit_insert(tcc_emitter *e, tcc_emit_value vector, tcc_emit_value value, tcc_emit_value lane) {
    return LLVMBuildInsertElement(e->builder, vector, value, lane, "");
}

tcc_emit_value tcc_emit_element(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value base, tcc_emit_value offset) {
    return LLVMBuildGEP2(e->builder, scalar, base, &offset, 1, "");
}

tcc_emit_block tcc_emit_current_block(tcc_emitter *e) { return LLVMGetInsertBlock(e->builder); }

tcc_emit_value tcc_emit_phi(tcc_emitter *e, tcc_emit_value *values, tcc_emit_block *from, int n) {
    tcc_emit_value phi = LLVMBuildPhi(e->builder, LLVMTypeOf(values[0]), "");
    LLVMAddIncoming(phi, values, from, (unsigned)n);
    return phi;
}

tcc_emit_value tcc_emit_argument(const tcc_emit_function *f, int index) {
    return LLVMGetParam(f->function, (unsigned)index);
}

bool tcc_emit_function_find(tcc_emitter *e, const char *symbol, tcc_emit_function *f) {
    *f = (tcc_emit_function){.function = LLVMGetNamedFunction(e->module, symbol)};
    if (f->function) f->type = LLVMGlobalGetValueType(f->function);
    return f->function;
}
