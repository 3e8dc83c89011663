/* SPDX-License-Identifier: MIT
 * A reference as JSON, for another framework that repeats the program. */
#include "harness/user_reference.h"

#include "frontend/compile/compile.h"

#include <math.h>

static void print_number(tcc_strbuf *out, double x) {
    if (isnan(x)) tcc_strbuf_add(out, "NaN");
    else if (isinf(x)) tcc_strbuf_add(out, x < 0 ? "-Infinity" : "Infinity");
    else tcc_strbuf_printf(out, "%.17g", x);
}

static void print_numbers(tcc_strbuf *out, const char *name, int64_t count, const double *numbers) {
    tcc_strbuf_printf(out, "\"%s\": [", name);
    for (int64_t e = 0; e < count; e++) {
        if (e) tcc_strbuf_add(out, ",");
        print_number(out, numbers[e]);
    }
    tcc_strbuf_add(out, "]");
}

static void print_value(tcc_strbuf *out, const tcc_value *v) {
    const tcc_type *type = &v->type;
    tcc_strbuf_printf(out, "\"dtype\": \"%s\", \"dims\": [", tcc_dtype_text(type->dtype));
    for (int d = 0; d < type->rank; d++) tcc_strbuf_printf(out, "%s%lld", d ? "," : "", (long long)type->dims[d]);
    tcc_strbuf_add(out, "], ");
    const int64_t count = tcc_type_numel(type);
    if (tcc_dtype_is_float(type->dtype)) {
        print_numbers(out, "values", count, v->f);
        return;
    }
    tcc_strbuf_add(out, "\"values\": [");
    for (int64_t e = 0; e < count; e++) tcc_strbuf_printf(out, "%s%lld", e ? "," : "", (long long)v->i[e]);
    tcc_strbuf_add(out, "]");
}

static void print_batches(tcc_strbuf *out, const user_program *p) {
    tcc_strbuf_add(out, "\"batches\": [");
    for (int step = 0; step < USER_TRAIN_STEPS; step++) {
        tcc_array batch[USER_INPUTS];
        user_batch_make(p, step, batch);
        tcc_strbuf_add(out, step ? ",\n{" : "{");
        for (int i = 0; i < p->n_inputs; i++) {
            tcc_type type = {.dtype = batch[i].dtype, .rank = batch[i].rank};
            tcc_value v;
            for (int d = 0; d < type.rank; d++) type.dims[d] = batch[i].dims[d];
            if (tcc_value_create(&type, &v, NULL) != TCC_OK) continue;
            tcc_value_load(&v, batch[i].data);
            tcc_strbuf_printf(out, "%s\"%s\": {", i ? ",\n" : "", batch[i].name);
            print_value(out, &v);
            tcc_strbuf_add(out, "}");
            tcc_value_free(&v);
        }
        tcc_strbuf_add(out, "}");
        user_batch_free(p, batch);
    }
    tcc_strbuf_add(out, "]");
}

static void print_initial(tcc_strbuf *out, const user_reference *r) {
    const char *before = "";
    tcc_strbuf_add(out, "\"initial\": {");
    for (int i = 0; i < r->train->inputs.count; i++) {
        const tcc_node *n = r->train->inputs.data[i];
        if (!r->initial[i].f || tcc_store_find(&r->model->shared->store, n->attrs->input.name) < 0)
            continue; /* a pass's */
        tcc_strbuf_printf(out, "%s\"%s\": {\"trained\": %s, ", before, n->attrs->input.name,
                          n->attrs->input.role == TCC_ROLE_PARAM ? "true" : "false");
        print_value(out, &r->initial[i]);
        tcc_strbuf_add(out, "}");
        before = ",\n";
    }
    tcc_strbuf_add(out, "}");
}

void user_reference_print_json(tcc_strbuf *out, const user_reference *r) {
    print_batches(out, r->p);
    tcc_strbuf_add(out, ",\n");
    print_initial(out, r);
    tcc_strbuf_add(out, ",\n\"expected\": [");
    for (int i = 0; i < r->count; i++) {
        const user_expected *e = &r->list[i];
        const int64_t count = tcc_type_numel(&e->v.value.type);
        tcc_strbuf_printf(out, "%s{\"name\": \"%s\", \"when\": %d, ", i ? ",\n" : "", e->name, e->when);
        print_value(out, &e->v.value);
        tcc_strbuf_add(out, ", ");
        print_numbers(out, "noise", count, e->v.noise);
        tcc_strbuf_add(out, ", \"open\": [");
        for (int64_t k = 0; k < count; k++) tcc_strbuf_printf(out, "%s%d", k ? "," : "", isinf(e->v.noise[k]) != 0);
        tcc_strbuf_add(out, "]}");
    }
    tcc_strbuf_add(out, "]");
}
