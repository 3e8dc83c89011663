/* SPDX-License-Identifier: MIT
 * Names for steps. */
#ifndef TCC_CODEGEN_REPORT_H
#define TCC_CODEGEN_REPORT_H

#include "codegen/build.h"

/* The ops of a group in order, each once: "dot+add+tanh"; and the user's lines: "gpt.c:41,44". NULL when memory is
 * short. */
char *tcc_report_label(tcc_arena *arena, const tcc_group *group);
char *tcc_report_lines(tcc_arena *arena, const tcc_group *group);

#endif
