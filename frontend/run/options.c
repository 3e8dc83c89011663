/* SPDX-License-Identifier: MIT
 * What options.def says of the options. */
#include "frontend/run/options.h"

#include "frontend/run/model.h"

#include <math.h>

#define MODEL tcc_model_options
#define OPTIMIZER tcc_optimizer_options
#define GROUP tcc_param_group
#define ANY -INFINITY, INFINITY, false, false
#define FROM(least, most) least, most, false, false
#define BELOW(least, most) least, most, true, false
#define FROM_OR_REST(least, most) least, most, false, true
#define BELOW_OR_REST(least, most) least, most, true, true
#define IN_PLAN_KEPT true
#define IN_PLAN_NOT false

enum {
    OPTIMIZERS =
#define TCC_OPTIMIZER(...) 1 +
#include "ir/support/optimizer.def"
        0,
    TCC_MOST_OPTIMIZER = OPTIMIZERS - 1
};

static const tcc_option rows[] = {
#define TCC_OPTION(of, field, type, range, key, plan, pass) \
    {#field, TCC_OPTION_OF_##of, TCC_OPTION_KEY_##key, IN_PLAN_##plan, TCC_OPTION_##type, offsetof(of, field), range},
#include "frontend/run/options.def"
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

/* As many rows as fields: with one too few, or one too many, these initializers don't compile. `size` is none. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wmissing-field-initializers"
#define OF_MODEL(value) value,
#define OF_OPTIMIZER(value)
#define OF_GROUP(value)
#define TCC_OPTION(of, ...) OF_##of(0)
static const tcc_model_options every_model_option = {
    1,
#include "frontend/run/options.def"
};
#undef OF_MODEL
#undef OF_OPTIMIZER
#define OF_MODEL(value)
#define OF_OPTIMIZER(value) value,
#define TCC_OPTION(of, ...) OF_##of(0)
static const tcc_optimizer_options every_optimizer_option = {
    1,
#include "frontend/run/options.def"
};
#undef OF_OPTIMIZER
#undef OF_GROUP
#define OF_OPTIMIZER(value)
#define OF_GROUP(value) value,
#define TCC_OPTION(of, ...) OF_##of(0)
static const tcc_param_group every_group_option = {
    1,
#include "frontend/run/options.def"
};
#pragma GCC diagnostic pop

const tcc_option *tcc__option(int index) {
    (void)every_model_option;
    (void)every_optimizer_option;
    (void)every_group_option;
    return index >= 0 && index < ROW_COUNT ? &rows[index] : NULL;
}

static double value_of(const tcc_option *o, const void *options) {
    const void *at = (const char *)options + o->offset;
    switch (o->type) {
    case TCC_OPTION_BOOL: return *(const bool *)at;
    case TCC_OPTION_ENUM:
    case TCC_OPTION_INT: return *(const int *)at;
    case TCC_OPTION_I64: return (double)*(const int64_t *)at;
    case TCC_OPTION_U64: return (double)*(const uint64_t *)at;
    case TCC_OPTION_REAL: return *(const double *)at;
    case TCC_OPTION_TEXT:
    case TCC_OPTION_POINTER: return *(void *const *)at != NULL;
    }
    return NAN;
}

bool tcc__option_fits(const tcc_option *o, const void *options) {
    const double value = value_of(o, options);
    if ((o->least == -INFINITY && o->most == INFINITY) || (o->or_rest && isnan(value))) return true;
    return value >= o->least && (o->below ? value < o->most : value <= o->most);
}

tcc_status tcc__options_check(tcc_diag *diag, tcc_option_of of, const char *who, const void *options) {
    for (int i = 0; i < ROW_COUNT; i++) {
        const tcc_option *o = &rows[i];
        if (o->of != of || tcc__option_fits(o, options)) continue;
        const double value = value_of(o, options);
        char most[64] = "";
        if (o->type != TCC_OPTION_REAL && o->most < INFINITY)
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "%s%s %.0f must be from %.0f to %.0f", who, o->name, value,
                             o->least, o->most);
        if (o->most < INFINITY) snprintf(most, sizeof most, " and %s %g", o->below ? "less than" : "at most", o->most);
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "%s%s %g must be at least %g%s", who, o->name, value, o->least,
                         most);
    }
    return TCC_OK;
}

void tcc__options_print_key(tcc_strbuf *b, tcc_option_of of, const void *options, bool train) {
    for (int i = 0; i < ROW_COUNT; i++) {
        const tcc_option *o = &rows[i];
        const bool step = o->key == TCC_OPTION_KEY_STEP || o->key == TCC_OPTION_KEY_STEP_IF;
        if (o->of != of || !(o->key == TCC_OPTION_KEY_CODE || (train && step))) continue;
        const double value = value_of(o, options);
        if (o->key == TCC_OPTION_KEY_STEP_IF) tcc_strbuf_printf(b, " %s=%d", o->name, value > 0);
        else tcc_strbuf_printf(b, " %s=%.17g", o->name, value);
    }
}

void tcc__options_print_training(tcc_strbuf *b, tcc_option_of of, const void *options) {
    for (int i = 0; i < ROW_COUNT; i++) {
        const tcc_option *o = &rows[i];
        const bool of_program = o->key == TCC_OPTION_KEY_CODE || o->key == TCC_OPTION_KEY_STEP ||
                                o->key == TCC_OPTION_KEY_STEP_IF;
        if (o->of != of || !(of_program || o->in_plan)) continue;
        tcc_strbuf_printf(b, " %s=", o->name);
        if (o->type == TCC_OPTION_TEXT) {
            const char *text = *(const char *const *)((const char *)options + o->offset);
            tcc_strbuf_printf(b, "%zu:%s", text ? strlen(text) : 0, text ? text : "");
        } else tcc_strbuf_printf(b, "%.17g", value_of(o, options));
    }
}

/* -- What optimizers read -- */

static const struct {
    const char *name;
    unsigned reads;
} optimizers[] = {
#define TCC_OPTIMIZER(id, name, lr, beta1, beta2, eps, reads, ...) [TCC_##id] = {"TCC_" #id, reads},
#include "ir/support/optimizer.def"
};

bool tcc__optimizer_reads(tcc_optimizer_kind kind, tcc_optimizer_reads what) { return optimizers[kind].reads & what; }

void tcc__optimizers_reading(tcc_optimizer_reads what, char names[TCC_OPTIMIZERS_TEXT]) {
    int left = 0;
    size_t used = 0;
    for (int i = 0; i < OPTIMIZERS; i++) left += tcc__optimizer_reads((tcc_optimizer_kind)i, what);
    for (int i = 0; i < OPTIMIZERS && used < TCC_OPTIMIZERS_TEXT; i++) {
        if (!tcc__optimizer_reads((tcc_optimizer_kind)i, what)) continue;
        const char *before = !used ? "" : left == 1 ? " or " : ", ";
        used += (size_t)snprintf(names + used, TCC_OPTIMIZERS_TEXT - used, "%s%s", before, optimizers[i].name);
        left--;
    }
}
