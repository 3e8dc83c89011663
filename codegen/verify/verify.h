/* SPDX-License-Identifier: MIT
 * A verifier of finished programs. It runs a program without values: memory holds, instead of numbers, which value each
 * byte is part of and who wrote it. So it proves that each launch reads what it would read if every value had memory of
 * its own; that no byte is read which nobody wrote; that the instances of a step do not touch what another one writes;
 * that a launch writes over what it reads only in step with its loop; that every access stays within its buffer and
 * every buffer within its space; and that in the end each output and each state is in its binding.
 *
 * Guards. A store under a guard is never counted as a write of what it covers: those bytes must have been written
 * before, so a mask cannot hide that some of them never are. Nor does a guard excuse a load: all that it may reach must
 * be there. The one thing that is taken on trust is that a guard which is read from memory keeps its access within the
 * value; its contents are not known here. Running the program with poisoned memory (tcc_model_verify) covers that.
 *
 * And it proves that no kernel evaluates a value more often than fuse has charged its group for.
 *
 * It goes by what the loads and stores of the kernels' bodies say (facts.h), not by what passes believe. What a kernel
 * computes of its values is not its question. */
#ifndef TCC_CODEGEN_VERIFY_VERIFY_H
#define TCC_CODEGEN_VERIFY_VERIFY_H

#include "codegen/verify/facts.h"

/* `facts` are those that were written down while `p` was built. Errors: TCC_EBUG with the step, its label and lines,
 * the buffer, the value that was meant and the one that lies there; TCC_ENOMEM. */
tcc_status tcc_program_verify(const tcc_program *p, const tcc_program_facts *facts, tcc_diag *diag);

#endif
