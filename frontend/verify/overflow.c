/* SPDX-License-Identifier: MIT
 * Where a training step overflows. A compiled step knows that a gradient is not finite, but not why. So the step is
 * interpreted in its compiled types, up to the first op whose result is not finite. */
#include "frontend/verify/verify.h"

#include <math.h>

/* The parameter that an operand is, but for casts and views; NULL: it is none. */
static const tcc_node *parameter_of(const tcc_node *n) {
    while (n->n_operands == 1 && (n->op == TCC_OP_CAST || tcc_op_get_info(n->op)->fusion == TCC_FUSION_VIEW))
        n = n->operands[0];
    return n->op == TCC_OP_INPUT && n->attrs->input.role == TCC_ROLE_PARAM ? n : NULL;
}

static const char *name_of(double value) { return isnan(value) ? "NaN" : value > 0 ? "inf" : "-inf"; }

/* "model.c:41: forward: mul with "scale.weight" gives inf in f16[64,128], element 5, of operands of at most 412". */
static void print_overflow(tcc_strbuf *b, const tcc_overflow *o) {
    const tcc_node *n = o->node;
    if (n->loc.file) {
        tcc_loc_print(b, n->loc);
        tcc_strbuf_add(b, ": ");
    }
    if (n->op == TCC_OP_INPUT) {
        tcc_strbuf_printf(b, "\"%s\" is not finite itself: element %lld of %s is %s", n->attrs->input.name,
                          (long long)o->element, tcc_type_text(&n->type), name_of(o->value));
        return;
    }
    tcc_strbuf_printf(b, "%s: %s", n->backward ? "backward" : "forward", tcc_op_get_info(n->op)->text);
    for (int i = 0, named = 0; i < n->n_operands; i++) {
        const tcc_node *parameter = parameter_of(n->operands[i]);
        if (parameter) tcc_strbuf_printf(b, "%s\"%s\"", named++ ? ", " : " with ", parameter->attrs->input.name);
    }
    tcc_strbuf_printf(b, " gives %s in %s, element %lld, from operands of at most %.4g", name_of(o->value),
                      tcc_type_text(&n->type), (long long)o->element, o->largest);
}

/* States that the model has not got yet, because it was not compiled for training. */
static void begin_states(const tcc_verification *v, tcc_value *values) {
    const tcc_graph *g = v->reference;
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        if (n->attrs->input.role != TCC_ROLE_STATE || tcc__verify_stored(v, n->attrs->input.name)) continue;
        for (int64_t e = 0, count = tcc_type_numel(&n->type); e < count; e++)
            if (tcc_dtype_is_float(n->type.dtype)) values[i].f[e] = n->attrs->input.begin;
            else values[i].i[e] = (int64_t)n->attrs->input.begin;
    }
}

static tcc_status find(tcc_verification *v, tcc_overflow *out) {
    tcc_value *inputs = NULL;
    TCC_TRY(tcc__verify_reference(v));
    TCC_TRY(tcc__verify_inputs(v, v->reference, &inputs));
    begin_states(v, inputs);
    const tcc_status status = tcc_graph_find_overflow(v->reference, inputs, out, &v->m->cx->diag);
    tcc__values_free(inputs, v->reference->inputs.count);
    return status;
}

static tcc_status find_in_slice(tcc_verification *v, tcc_array *slice, char **text) {
    tcc_strbuf b = {0};
    tcc_overflow overflow = {0};
    tcc_cut cut;
    TCC_TRY(tcc__verify_cut(v, TCC_CUT_FOR_RESULTS, slice, &cut));
    v->batch = slice;
    TCC_TRY(find(v, &overflow));
    if (overflow.node) print_overflow(&b, &overflow);
    else tcc_strbuf_add(&b, "no op of the step overflows");
    if (tcc__verify_is_cut(&cut)) {
        tcc_strbuf_add(&b, "; this is of ");
        tcc__verify_cut_print(&b, &cut);
        if (!overflow.node) tcc_strbuf_add(&b, ", the others may overflow");
    }
    return (*text = tcc_strbuf_take(&b)) ? TCC_OK : tcc_enomem(&v->m->cx->diag);
}

tcc_status tcc_model_find_overflow(tcc_model *m, const tcc_array *batch, int count, char **text) {
    tcc_diag *diag = &m->cx->diag;
    tcc_diag_begin(diag);
    *text = NULL;
    TCC_TRY(tcc__model_need_function(m));
    TCC_TRY(tcc__model_check_batch(m, batch, count));
    TCC_TRY(tcc_model_synchronize(m));
    tcc_array *host;
    TCC_TRY(tcc__arrays_to_host(m, batch, count, &host));
    tcc_verification v = {.m = m, .batch = host, .count = count};
    tcc_array *slice = tcc__calloc((size_t)count + 1, sizeof *slice);
    const tcc_status status = slice ? find_in_slice(&v, slice, text) : tcc_enomem(diag);
    tcc_graph_destroy(v.reference);
    if (slice) tcc__verify_free_slice(&v, slice, host);
    tcc__arrays_free(host, batch, count);
    return status;
}
