/* SPDX-License-Identifier: MIT
 * Programs as text: C for people, JSON for other programs. */
#include "harness/user_program.h"

#include "ir/support/dtype.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
} ops[] = {
#define USER_OP(name, text) {#name, text},
#include "harness/user_program_ops.def"
#undef USER_OP
};

static void print_dims(tcc_strbuf *out, int count, const int64_t *dims) {
    for (int i = 0; i < count; i++) tcc_strbuf_printf(out, "%s%lld", i ? ", " : "", (long long)dims[i]);
}

static void print_type(tcc_strbuf *out, int64_t dtype) {
    const char *name = tcc_dtype_text((tcc_dtype)dtype);
    tcc_strbuf_add(out, "TCC_");
    for (; *name; name++) tcc_strbuf_printf(out, "%c", toupper(*name));
}

/* One % of the op's text; returns what follows it. */
static const char *print_part(tcc_strbuf *out, const user_step *s, const char *at) {
    const int k = at[1] >= '0' && at[1] <= '9' ? at[1] - '0' : at[1] >= 'a' ? at[1] - 'a' + 10 : 0;
    switch (*at) {
    case 'i': tcc_strbuf_printf(out, "%lld", (long long)s->ints[k]); return at + 2;
    case 'b': tcc_strbuf_add(out, s->ints[k] ? "true" : "false"); return at + 2;
    case 'd': print_type(out, s->ints[k]); return at + 2;
    case 'v': print_dims(out, s->n_ints - k, s->ints + k); return at + 2;
    case 't': print_dims(out, 3, s->ints + k); return at + 2;
    case 'a':
        for (int i = 0; i < s->n_args; i++) tcc_strbuf_printf(out, "%sv%d", i ? ", " : "", s->args[i]);
        return at + 1;
    case 'c': tcc_strbuf_printf(out, "%d", s->n_args); return at + 1;
    case 'r': tcc_strbuf_printf(out, "%.17g", s->real); return at + 1;
    case 'n': tcc_strbuf_printf(out, "\"%s\"", s->name); return at + 1;
    case 's':
        if (!s->rank) tcc_strbuf_add(out, "0, NULL");
        else tcc_strbuf_add(out, "TCC_DIMS("), print_dims(out, s->rank, s->dims), tcc_strbuf_add(out, ")");
        return at + 1;
    default: tcc_strbuf_printf(out, "v%d", s->args[*at - '0']); return at + 1;
    }
}

static void print_call(tcc_strbuf *out, const user_step *s) {
    for (const char *at = ops[s->op].text; *at;)
        if (*at == '%') at = print_part(out, s, at + 1);
        else tcc_strbuf_addn(out, at++, 1);
}

static const char *const fills[] = {"uniform",
                                    "1e6 uniform",
                                    "1e-8 uniform",
                                    "constant rows",
                                    "constant channels",
                                    "index",
                                    "one of two",
                                    "sorted",
                                    "index, sometimes out of range",
                                    "mask",
                                    "mask of 0 and -inf"};

void user_program_print_c(tcc_strbuf *out, const user_program *p) {
    static const char *const optimizers[] = {"SGD", "Adam", "AdamW"}, *const precisions[] = {"", ", bf16", ", fp16"};
    tcc_strbuf_printf(
        out,
        "/* seed %llu: %s, lr %g, momentum %g%s, weight decay %g, clip %g%s%s, budget %s, segments of %d steps, "
        "micro-batches %lld, chunks of %lld rows */\n",
        (unsigned long long)p->seed, optimizers[p->optimizer.kind], p->optimizer.lr, p->optimizer.momentum,
        p->optimizer.nesterov ? " (Nesterov)" : "", p->optimizer.weight_decay, p->optimizer.clip_grad_norm,
        p->keep_gradients ? ", gradients kept" : "", precisions[p->precision],
        p->memory_budget ? p->memory_budget : "none", p->segment_steps, (long long)p->batch_accumulate,
        (long long)p->chunk_rows);
    for (int i = 0; i < p->n_inputs; i++) {
        const user_input *in = &p->inputs[i];
        tcc_strbuf_printf(out, "/* %s: %s[", in->name, tcc_dtype_text(in->dtype));
        print_dims(out, in->rank, in->dims);
        tcc_strbuf_printf(out, "], %s, limit %lld */\n", fills[in->fill], (long long)in->limit);
    }
    for (int i = 0; i < p->n_steps; i++) {
        const user_step *s = &p->steps[i];
        if (s->op < USER_update) tcc_strbuf_printf(out, "tcc_tensor v%d = ", i);
        print_call(out, s);
        if (s->op >= USER_update) {
            tcc_strbuf_add(out, ";\n");
            continue;
        }
        tcc_strbuf_printf(out, "; /* %s[", tcc_dtype_text(s->dtype));
        print_dims(out, s->rank, s->dims);
        tcc_strbuf_add(out, "] */\n");
    }
}

static void print_step_json(tcc_strbuf *out, const user_step *s) {
    tcc_strbuf_printf(out, "{\"op\": \"%s\", \"name\": \"%s\", \"real\": %.17g, \"dtype\": \"%s\", \"args\": [",
                      ops[s->op].name, s->name, s->real, tcc_dtype_text(s->dtype));
    for (int i = 0; i < s->n_args; i++) tcc_strbuf_printf(out, "%s%d", i ? ", " : "", s->args[i]);
    tcc_strbuf_add(out, "], \"ints\": [");
    print_dims(out, s->n_ints, s->ints);
    tcc_strbuf_add(out, "], \"dims\": [");
    print_dims(out, s->rank, s->dims);
    tcc_strbuf_add(out, "]");
    if (s->op == USER_literal) {
        int64_t count = 1;
        for (int d = 0; d < s->rank; d++) count *= s->dims[d];
        tcc_strbuf_add(out, ", \"values\": [");
        for (int64_t e = 0; e < count; e++) tcc_strbuf_printf(out, "%s%.17g", e ? ", " : "", user_literal(s, e));
        tcc_strbuf_add(out, "]");
    }
    tcc_strbuf_add(out, "}");
}

void user_program_print_json(tcc_strbuf *out, const user_program *p) {
    const tcc_optimizer_options *o = &p->optimizer;
    tcc_strbuf_printf(out, "\"seed\": %llu, \"optimizer\": {\"kind\": %d, \"lr\": %.17g, \"momentum\": %.17g, ",
                      (unsigned long long)p->seed, (int)o->kind, o->lr, o->momentum);
    tcc_strbuf_printf(out, "\"nesterov\": %s, \"weight_decay\": %.17g, \"decay_all\": %s, \"clip\": %.17g},\n",
                      o->nesterov ? "true" : "false", o->weight_decay, o->decay_all ? "true" : "false",
                      o->clip_grad_norm);
    tcc_strbuf_add(out, "\"steps\": [\n");
    for (int i = 0; i < p->n_steps; i++) {
        print_step_json(out, &p->steps[i]);
        tcc_strbuf_add(out, i + 1 < p->n_steps ? ",\n" : "]");
    }
}
