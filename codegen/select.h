/* SPDX-License-Identifier: MIT
 * The table of implementations: codegen's answers to the questions of the passes (passes/select.h), and the lowering of
 * their choices. */
#ifndef TCC_CODEGEN_SELECT_H
#define TCC_CODEGEN_SELECT_H

#include "codegen/build.h"
#include "passes/select.h"

/* Answers for one target, and remembers them: of groups that are equal but for their place in the graph, the layers of
 * a network, one is lowered, and a library is asked about a call once. */
typedef struct tcc_selector tcc_selector;

/* `options` as for tcc_codegen_build, whose results these will be; what it points to must outlive the selector, as must
 * `cx`. `all_norms`: batch norms are a library's wherever it takes them, not only where that is worth it. */
tcc_status tcc_selector_create(tcc_context *cx, const tcc_codegen_options *options, bool all_norms, tcc_selector **out);
void tcc_selector_destroy(tcc_selector *s); /* NULL is allowed */
/* What the passes ask; lives as long as the selector. */
tcc_pass_target *tcc_selector_target(tcc_selector *s);
/* A choice that differs from another one. */
typedef struct tcc_variation {
    const tcc_implementation *given; /* its name and the parameters that are prescribed; the rest follows from them */
    const tcc_implementation *whole; /* what that makes */
} tcc_variation;

typedef tcc_vec(tcc_variation) tcc_variations;

/* Appends the ways to run `group` of g that differ from its choice, which prescribes some parameters, in one parameter
 * more, or in the value of one of those: what tcc_param_alternatives says of each parameter in turn, as far as it is
 * possible and not in `out` yet. `orders`: parameters from which the order of a sum follows may change too. In `arena`.
 * Errors: those of pass_target.follow. */
tcc_status tcc_selector_vary(tcc_selector *s, const tcc_graph *g, const tcc_group *group, bool orders, tcc_arena *arena,
                             tcc_variations *out);
/* The target, for tcc_codegen_options. */
const struct tcc_llvm_target *tcc_selector_llvm(const tcc_selector *s);

/* Its name, for people and files: "sm_90 132 processors", "cpu znver4". */
void tcc_selector_print_target(const tcc_selector *s, tcc_strbuf *out);

#endif
