/* SPDX-License-Identifier: MIT
 * Running the cases. */
#include "harness/field_cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

tcc_tensor field_weighed(tcc_trace *t, tcc_tensor x) {
    tcc_tensor flat = tcc_reshape(tcc_cast(x, TCC_F32), TCC_DIMS(-1));
    tcc_tensor place = tcc_iota(t, 0, TCC_F32, TCC_DIMS(tcc_dim(flat, 0)));
    return tcc_mean(tcc_mul(flat, tcc_sin(tcc_add_scalar(tcc_scale(place, 0.7), 0.3))), TCC_ALL);
}

void field_finish(tcc_trace *t, tcc_tensor x) {
    tcc_output(t, "y", x);
    tcc_loss(t, field_weighed(t, x));
}

const field_case *field_case_at(int index) {
    const field_case *lists[] = {field_cases_memory, field_cases_gradients, field_cases_values};
    for (int l = 0; l < 3; l++)
        for (const field_case *c = lists[l]; c->name; c++)
            if (!index--) return c;
    return NULL;
}

void field_case_program(const field_case *c, user_program *out) {
    *out = (user_program){.seed = 7, .model = c->model, .keep_gradients = true};
    tcc_optimizer_init(&out->optimizer, TCC_SGD);
    out->optimizer.momentum = 0.9;
    for (; out->n_inputs < 3 && c->inputs[out->n_inputs].name[0]; out->n_inputs++)
        out->inputs[out->n_inputs] = c->inputs[out->n_inputs];
}

/* -- By hand -- */

static double number(const tcc_array *a, int64_t e) {
    switch (a->dtype) {
    case TCC_F32: return (double)((const float *)a->data)[e];
    case TCC_I32: return ((const int32_t *)a->data)[e];
    case TCC_BOOL: return ((const uint8_t *)a->data)[e];
    default: return NAN; /* models show the others as one of these */
    }
}

static const char *differs(const field_fact *f, const tcc_array *a) {
    static char text[200];
    int64_t count = 1;
    for (int d = 0; d < a->rank; d++) count *= a->dims[d];
    for (int64_t e = 0; e < count; e++) {
        const double have = number(a, e), want = f->value(e);
        const double allowed = f->half ? 0x1p-10 * fabs(want) + 0x1p-20 : 1e-5 * fabs(want);
        if (have == want || (isnan(have) && isnan(want)) || fabs(have - want) <= allowed) continue;
        snprintf(text, sizeof text, "%s[%lld]: %.9g, by hand %.9g", f->output, (long long)e, have, want);
        return text;
    }
    return NULL;
}

static const char *check_facts(const field_case *c, tcc_context *cx, tcc_model *m) {
    for (int i = 0; i < 2 && c->facts[i].output; i++) {
        const field_fact *f = &c->facts[i];
        tcc_array a;
        const bool gradient = !strncmp(f->output, "grad.", 5);
        const tcc_status status = gradient ? tcc_model_gradient(m, f->output + 5, &a)
                                           : tcc_model_output(m, f->output, &a);
        const char *wrong = status == TCC_OK ? differs(f, &a) : tcc_context_error(cx);
        if (wrong) return wrong;
    }
    return NULL;
}

const char *field_case_by_hand(const field_case *c, unsigned mode) {
    static user_program p;
    static char text[512];
    tcc_context *cx;
    tcc_array batch[USER_INPUTS];
    field_case_program(c, &p);
    if (tcc_context_create(&cx) != TCC_OK) return "no context";
    user_batch_make(&p, 0, batch);
    tcc_model *m = user_program_model(cx, &p, mode);
    const bool ran = m && tcc_model_train(m, batch, p.n_inputs) == TCC_OK;
    const char *wrong = ran ? check_facts(c, cx, m) : tcc_context_error(cx);
    if (wrong) snprintf(text, sizeof text, "%s", wrong);
    user_batch_free(&p, batch);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return wrong ? text : NULL;
}
