/* SPDX-License-Identifier: MIT
 * The target and the options of codegen. */
#ifndef TCC_CODEGEN_OPTIONS_H
#define TCC_CODEGEN_OPTIONS_H

#include "ir/support/diag.h"

#include <stdbool.h>
#include <stdint.h>

struct tcc_llvm_target; /* codegen/emit/emitter.h */
struct tcc_hardware;    /* ir/support/hardware.h */
struct tcc_strbuf;      /* ir/support/strbuf.h */

/* Where the code of kernels is kept, and found by a later program for the same target. What is found was kept by that
 * kind and key. Called by one thread. */
typedef enum tcc_kept { TCC_KEPT_KERNEL, TCC_KEPT_MODULE } tcc_kept;
typedef struct tcc_kernel_store {
    void *user;
    bool (*find)(void *user, tcc_kept kind, const char *key, void **value, int64_t *size_bytes); /* *value: tcc__free */
    void (*keep)(void *user, tcc_kept kind, const char *key, const void *value, int64_t size_bytes, int64_t made_ns);
    void (*count)(void *user, int found); /* so many of a program's kernels were found with their modules */
} tcc_kernel_store;

typedef struct tcc_codegen_options {
    const struct tcc_llvm_target *target; /* NULL: `arch`, or the machine we run on */
    const char *arch;                     /* a GPU's architecture, "sm_90"; NULL: no GPU */
    const char *cpu;                      /* a host's CPU, "x86-64-v3"; NULL: as TCC_CPU says */
    const struct tcc_hardware *hardware;  /* of the device that will run it, as its driver says; NULL: as usual for
                                             `arch` */
    int threads;                          /* that compile; 0: 1 */
    const char *dump_dir;          /* write LLVM IR and assembly of each module, and the list of steps; NULL: no dump */
    const tcc_kernel_store *store; /* NULL: everything is compiled */
    bool separate;                 /* eager: a step a group, nothing merged */
    bool tf32;      /* CUDA: products of f32 may round their operands to tf32 (10 bits of mantissa), which tensor cores
                  multiply */
    bool fast_sums; /* CUDA: sums over ranks may be taken in any order */
    /* Whether the machine that the program is for takes a call of that library entry with these params, of which it may
     * lower the workspace; NULL: it takes none. */
    bool (*takes_call)(void *user, const char *name, int64_t *params);
    void *takes_call_user;
    bool verify;                     /* check the finished program (verify/verify.h) */
    struct tcc_program_facts *facts; /* not NULL: {0}, gets what that check goes by; the caller clears it */
} tcc_codegen_options;

/* Whether this is a CPU by whose name code can be made for the host: "x86-64-v3", "znver4". */
bool tcc_codegen_names_host(const char *name);
/* TCC_EUNSUPPORTED, with the names that are known, unless code can be made for a GPU of this architecture. */
tcc_status tcc_codegen_check_arch(tcc_diag *diag, const char *arch);
/* The newest architecture that we make code for and that a GPU of sm_`sm` runs; NULL: none. */
const char *tcc_codegen_cuda_arch(int sm);

/* All of the target that code depends on, as text: what instructions there are; figures of the hardware; and the
 * version of LLVM. */
void tcc_codegen_describe_target(const struct tcc_llvm_target *target, struct tcc_strbuf *out);
void tcc_codegen_describe_hardware(const struct tcc_llvm_target *target, struct tcc_strbuf *out);
void tcc_codegen_describe_llvm(struct tcc_strbuf *out);

#endif
