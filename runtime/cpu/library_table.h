/* SPDX-License-Identifier: MIT
 * Inside the library table: one struct of functions a library, filled from the opened file, and the entries built on
 * them. */
#ifndef TCC_RUNTIME_CPU_LIBRARY_TABLE_H
#define TCC_RUNTIME_CPU_LIBRARY_TABLE_H

#include "runtime/cpu/library.h"
#include "runtime/cpu/onednn.h"

/* What an opened library is to people. */
typedef struct tcc_library_info {
    void *handle;   /* NULL: not in use, and `text` says why */
    char text[256]; /* "0.3.21 (/usr/lib/.../libopenblas.so.0)" */
} tcc_library_info;

typedef struct tcc_openblas {
    tcc_library_info info;
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
} tcc_openblas;

typedef struct tcc_onednn {
    tcc_library_info info;
    tcc_onednn_functions f;
} tcc_onednn;

struct tcc_libraries {
    tcc_openblas openblas;
    tcc_onednn onednn;
};

/* Look a function up in an opened library: `function` points to the pointer to fill. false if it is missing. */
bool tcc__library_function(const tcc_library_info *info, const char *symbol, void *function);

/* After info.handle was opened: find functions, write the version to `version`. NULL, or why the library cannot be
 * used. */
const char *tcc__openblas_attach(tcc_libraries *libraries, char *version, size_t version_bytes);
extern const tcc_library_entry tcc__openblas_sgemm;
extern const tcc_library_entry tcc__onednn_conv_forward, tcc__onednn_conv_data_gradient,
    tcc__onednn_conv_filter_gradient;

#endif
