/* SPDX-License-Identifier: MIT
 * The model of both programs here: from a field to the field some time later. */
#include <traincc/traincc.h>

/* x, y: [samples, cells] */
void next_field(tcc_trace *t, void *user) {
    (void)user;
    const tcc_tensor x = tcc_input(t, "x");
    const tcc_tensor h = tcc_gelu(tcc_linear(tcc_gelu(tcc_linear(x, "in", 96)), "hidden", 96));
    const tcc_tensor y = tcc_add(x, tcc_linear(h, "out", tcc_dim(x, 1)));
    tcc_output(t, "y", y);
    if (tcc_has_input(t, "y")) tcc_loss(t, tcc_mse_loss(y, tcc_input(t, "y")));
}
