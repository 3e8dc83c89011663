/* SPDX-License-Identifier: MIT
 * A verifier of finished programs. It runs a program without values: instead of numbers, memory holds the value that
 * each byte is part of, and its writer. So it proves these properties. Each launch reads what it would read if every
 * value had memory of its own. No byte is read before it is written. The instances of a step do not touch what another
 * one writes. A launch overwrites its operands only in step with its loop. Every access stays within its buffer, and
 * every buffer within its space. At the end each output and each state is in its binding.
 *
 * Guards. A guarded store never counts as a write of its bytes: they must have been written before, so a mask cannot
 * hide bytes that are never written. A guard does not excuse a load either: all bytes that it may reach must be
 * written. The verifier trusts one thing: a guard that is read from memory keeps its access within the value. Its
 * contents are not known here. Running the program with poisoned memory (tcc_model_verify) covers that.
 *
 * And it proves that no kernel evaluates a value more often than fuse has charged its group for.
 *
 * It uses the loads and stores of the kernels' bodies (facts.h), not the assumptions of passes. It does not check what
 * a kernel computes from its values. */
#ifndef TCC_CODEGEN_VERIFY_VERIFY_H
#define TCC_CODEGEN_VERIFY_VERIFY_H

#include "codegen/verify/facts.h"

/* `facts` are those that were written down while `p` was built. Errors: TCC_EBUG with the step, its label and lines,
 * the buffer, the value that was meant and the one that lies there; TCC_ENOMEM. */
tcc_status tcc_program_verify(const tcc_program *p, const tcc_program_facts *facts, tcc_diag *diag);

#endif
