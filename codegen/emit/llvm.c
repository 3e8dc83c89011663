/* SPDX-License-Identifier: MIT
 * The LLVM-C base: modules, passes and object code.
 *
 * LLVM keeps one process-wide table of back ends; it is filled once under pthread_once and only read after that.
 * Everything else belongs to an emitter. */
#include "codegen/emit/functions.h"

#include "ir/support/alloc.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <pthread.h>
#include <string.h>

/* Emission already produces rotated loops in SSA form, so little is left to do; what costs more in compile time than it
 * gives in speed is left out. */
static const char *const usual_passes = "function(sroa,early-cse,instsimplify,loop-mssa(licm),simplifycfg,adce)";

static pthread_once_t targets_once = PTHREAD_ONCE_INIT;
static bool targets_failed;

static void initialize_targets(void) {
    targets_failed = LLVMInitializeNativeTarget() || LLVMInitializeNativeAsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
}

tcc_status tcc_llvm_initialize_host(tcc_diag *diag) {
    pthread_once(&targets_once, initialize_targets);
    if (!targets_failed) return TCC_OK;
    return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "LLVM has no back end for this machine");
}

tcc_status tcc_llvm_initialize_cuda(tcc_diag *diag) {
    pthread_once(&targets_once, initialize_targets);
    LLVMTargetRef target;
    char *message = NULL;
    if (!LLVMGetTargetFromTriple("nvptx64-nvidia-cuda", &target, &message)) return TCC_OK;
    LLVMDisposeMessage(message);
    return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "LLVM was built without its NVPTX back end");
}

void tcc_llvm_target_clear(tcc_llvm_target *t) {
    tcc__free(t->triple);
    tcc__free(t->arch);
    tcc__free(t->cpu);
    tcc__free(t->features);
    *t = (tcc_llvm_target){0};
}

const char *tcc_llvm_assembly_suffix(const tcc_llvm_target *target) { return target->functions->text ? "ptx" : "s"; }

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
    tcc_emitter *e = user;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || e->status != TCC_OK) return;
    char *text = LLVMGetDiagInfoDescription(info);
    e->status = TCC_BUG(e->diag, "LLVM: %s", text);
    LLVMDisposeMessage(text);
}

tcc_status tcc_emitter_init(tcc_emitter *e, const tcc_llvm_target *target, const char *name, tcc_diag *diag) {
    *e = (tcc_emitter){.target = target, .diag = diag, .lanes = target->lanes};
    LLVMTargetRef back_end;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(target->triple, &back_end, &message)) {
        tcc_status status = tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "no back end for %s: %s", target->triple,
                                      message);
        LLVMDisposeMessage(message);
        return status;
    }
    e->machine = LLVMCreateTargetMachine(back_end, target->triple, target->cpu, target->features,
                                         target->quick ? LLVMCodeGenLevelNone : LLVMCodeGenLevelAggressive,
                                         LLVMRelocPIC, LLVMCodeModelSmall);
    if (!e->machine) return TCC_BUG(diag, "LLVM has no target machine for %s", target->cpu);
    e->context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(e->context, on_diagnostic, e);
    LLVMContextSetDiscardValueNames(e->context, true);
    e->module = LLVMModuleCreateWithNameInContext(name, e->context);
    e->builder = LLVMCreateBuilderInContext(e->context);
    LLVMSetTarget(e->module, target->triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(e->machine);
    LLVMSetModuleDataLayout(e->module, layout);
    LLVMDisposeTargetData(layout);

    e->void_ = LLVMVoidTypeInContext(e->context);
    e->i1 = LLVMInt1TypeInContext(e->context);
    e->i8 = LLVMInt8TypeInContext(e->context);
    e->i16 = LLVMInt16TypeInContext(e->context);
    e->i32 = LLVMInt32TypeInContext(e->context);
    e->i64 = LLVMInt64TypeInContext(e->context);
    e->f16 = LLVMHalfTypeInContext(e->context);
    e->f32 = LLVMFloatTypeInContext(e->context);
    e->f64 = LLVMDoubleTypeInContext(e->context);
    e->ptr = LLVMPointerTypeInContext(e->context, 0);
    e->vf32 = LLVMVectorType(e->f32, (unsigned)e->lanes);
    e->vi32 = LLVMVectorType(e->i32, (unsigned)e->lanes);
    e->vi1 = LLVMVectorType(e->i1, (unsigned)e->lanes);
    return TCC_OK;
}

void tcc_emitter_clear(tcc_emitter *e) {
    if (e->builder) LLVMDisposeBuilder(e->builder);
    if (e->module) LLVMDisposeModule(e->module);
    if (e->context) LLVMContextDispose(e->context);
    if (e->machine) LLVMDisposeTargetMachine(e->machine);
    *e = (tcc_emitter){0};
}

tcc_status tcc_emitter_finish(tcc_emitter *e, const char *passes) {
    TCC_TRY(e->status);
    if (e->target->checks) TCC_TRY(e->status = tcc_host_check_accesses(e));
    char *message = NULL;
    if (LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message)) {
        e->status = TCC_BUG(e->diag, "malformed kernel: %s", message);
        LLVMDisposeMessage(message);
        return e->status;
    }
    LLVMDisposeMessage(message);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(e->module, passes ? passes : usual_passes, e->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error) {
        char *text = LLVMGetErrorMessage(error);
        e->status = TCC_BUG(e->diag, "LLVM passes: %s", text);
        LLVMDisposeErrorMessage(text);
    }
    return e->status;
}

tcc_status tcc_emitter_object(tcc_emitter *e, tcc_arena *arena, tcc_module *out) {
    TCC_TRY(e->status);
    char *message = NULL;
    LLVMMemoryBufferRef buffer = NULL;
    bool text = e->target->functions->text;
    if (LLVMTargetMachineEmitToMemoryBuffer(e->machine, e->module, text ? LLVMAssemblyFile : LLVMObjectFile, &message,
                                            &buffer)) {
        e->status = TCC_BUG(e->diag, "LLVM code generation: %s", message);
        LLVMDisposeMessage(message);
        return e->status;
    }
    size_t size = LLVMGetBufferSize(buffer) + text; /* a NUL follows every buffer of LLVM's */
    out->code = tcc_arena_copy(arena, LLVMGetBufferStart(buffer), size);
    out->size_bytes = (int64_t)size;
    LLVMDisposeMemoryBuffer(buffer);
    if (!out->code) return tcc_enomem(e->diag);
    return e->status; /* a diagnostic may have come in meanwhile */
}

tcc_status tcc_emitter_print_ir(tcc_emitter *e, tcc_strbuf *out) {
    char *text = LLVMPrintModuleToString(e->module);
    tcc_strbuf_add(out, text);
    LLVMDisposeMessage(text);
    return out->failed ? tcc_enomem(e->diag) : TCC_OK;
}

tcc_status tcc_emitter_print_assembly(tcc_emitter *e, tcc_strbuf *out) {
    TCC_TRY(e->status);
    LLVMModuleRef copy = LLVMCloneModule(e->module); /* code generation rewrites the module it is given */
    char *message = NULL;
    LLVMMemoryBufferRef buffer = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(e->machine, copy, LLVMAssemblyFile, &message, &buffer)) {
        e->status = TCC_BUG(e->diag, "LLVM code generation: %s", message);
        LLVMDisposeMessage(message);
    } else {
        tcc_strbuf_addn(out, LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
        LLVMDisposeMemoryBuffer(buffer);
    }
    LLVMDisposeModule(copy);
    if (e->status == TCC_OK && out->failed) return tcc_enomem(e->diag);
    return e->status;
}
