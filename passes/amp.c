/* SPDX-License-Identifier: MIT
 * amp: mixed precision. Part of the float32 work of a forward graph is done in f16 or bf16. It runs before autodiff, so
 * the gradient of an op has the op's type, and so have the values that are kept for backward.
 *
 * Which op runs in which type is the AMP column of ops.def (Micikevicius et al. 2018; the lists of torch.autocast):
 *   LOW      its f32 operands are cast to the low type
 *   FP32     its operands are cast to f32, and so is its result
 *   OPMATH   it computes in f32; the result has the type of its first operand: norms, softmax, GELU, so that what they
 *            store is low where they read low values
 *   PROMOTE  f32 if one of its operands is, else low
 * The user can give an op another class (tcc_amp_spec), and nodes that are `full` are FP32.
 *
 * Parameters, constants of one value, and views of them take the type of the other operands. So a bias is added in the
 * type of the product. An embedding reads the low copy of its table, so a transformer's residual stream is low (class
 * fp32 for `take` makes it f32, as in torch.autocast).
 *
 * A constant that would become infinite or subnormal in the low type stays f32, and so does the op that reads it. In
 * f16 such constants are -1e9, which masks scores, or an eps of 1e-8. A mask of attention is bounded by the largest
 * number of the low type instead, so that the products stay low.
 *
 * Sums that the op table calls wide stay f32 beside operands of the low type: the log-sum-exp of attention, the
 * statistics of a batch norm. They do not affect the type in which the op runs.
 *
 * A value is cast once to each type (equal nodes are one node), directly where it is made, before any views of it.
 * Integers, f64, and what the user has cast to f16 or bf16 are left alone. Outputs keep their types. */
#include "ir/build.h"
#include "ir/sdpa.h"
#include "ir/support/alloc.h"
#include "passes/pass.h"

#include <math.h>
#include <string.h>

static const char *const class_names[] = {
    [TCC_AMP_LOW] = "low", [TCC_AMP_FP32] = "fp32", [TCC_AMP_OPMATH] = "opmath", [TCC_AMP_PROMOTE] = "promote"};
enum { CLASS_COUNT = sizeof class_names / sizeof class_names[0] };

/* What became of a node that was f32. */
typedef struct form {
    tcc_node *full, *low; /* the value in f32 and in the low type; NULL: not made. One is there from the start */
    bool is_low;          /* it was computed in the low type */
    bool weak;            /* it takes the type of what it meets */
} form;

typedef struct caster {
    tcc_rewrite rw;
    const tcc_amp_spec *spec;
    form *forms; /* by old id; of those that were f32 */
} caster;

static bool is_managed(const tcc_node *n) { return n->type.dtype == TCC_F32; }

/* -- Constants -- */

/* Whether the low type has v within the rounding of a normal number. */
static bool low_holds(const caster *c, double v) {
    return !isfinite(v) || fabs(tcc_dtype_round(c->spec->low, v) - v) <= fabs(v) * 0x1p-8;
}

/* Whether all that constant n is made of is held. */
static bool holds_constant(const caster *c, const tcc_node *n) {
    const tcc_doubles values = n->attrs->constant.values;
    for (int64_t i = 0; i < values.count; i++)
        if (!low_holds(c, values.v[i])) return false;
    return true;
}

static const tcc_node *behind_views(const tcc_node *n) {
    while (tcc_op_get_info(n->op)->fusion == TCC_FUSION_VIEW && n->n_operands == 1) n = n->operands[0];
    return n;
}

/* Whether the low type does not hold what n reads as a constant or an attribute, but for a mask. */
static bool reads_wide(const caster *c, const tcc_node *n) {
    const tcc_node *mask = tcc_op_get_info(n->op)->fusion == TCC_FUSION_ATTENTION ? tcc_sdpa_mask(n) : NULL;
    if (n->op == TCC_OP_PAD && !low_holds(c, n->attrs->pad.value)) return true;
    for (int i = 0; i < n->n_operands; i++) {
        const tcc_node *x = behind_views(n->operands[i]);
        if (n->operands[i] != mask && is_managed(x) && x->op == TCC_OP_CONSTANT && !holds_constant(c, x)) return true;
    }
    return false;
}

/* Whether n may have finite values that would be infinite in the low type. */
static bool may_overflow(const caster *c, const tcc_node *n) {
    n = behind_views(n);
    if (n->op == TCC_OP_CONSTANT) return !holds_constant(c, n);
    return n->op != TCC_OP_SELECT || may_overflow(c, n->operands[1]) || may_overflow(c, n->operands[2]);
}

/* x, of f32, in the low type: what is finite stays so. */
static tcc_node *saturated(const caster *c, tcc_node *x) {
    const double most = c->spec->low == TCC_F16 ? 65504 : 0x1.fep127;
    tcc_graph *g = c->rw.to;
    tcc_node *bounded = tcc_ir_binary_c(g, TCC_OP_MAX, tcc_ir_binary_c(g, TCC_OP_MIN, x, most), -most);
    return tcc_ir_cast(g, tcc_ir_select(g, tcc_ir_unary(g, TCC_OP_ISFINITE, x), bounded, x), c->spec->low);
}

/* -- Forms of a value -- */

static bool is_weak_view(const caster *c, const tcc_node *n) {
    return c->forms[n->id].weak && tcc_op_get_info(n->op)->fusion == TCC_FUSION_VIEW;
}

/* The op of `old` in the type `dtype`, on the operands given. */
static tcc_node *build(caster *c, const tcc_node *old, tcc_node *const *operands, tcc_dtype dtype) {
    tcc_type type = old->type;
    if (is_managed(old)) type.dtype = dtype;
    const bool typed = tcc_op_get_info(old->op)->flags & TCC_FLAG_TYPED;
    return tcc_ir_build(c->rw.to, old->op, operands, old->n_operands, old->attrs, typed ? &type : NULL, old->loc);
}

/* A view of a parameter is a view of its low copy, whatever the number of views; so the first of the chain that has
 * none is made first. */
static tcc_node *make_low(caster *c, const tcc_node *old) {
    for (;;) {
        const tcc_node *n = old;
        while (is_weak_view(c, n) && !c->forms[n->operands[0]->id].low) n = n->operands[0];
        form *f = &c->forms[n->id];
        tcc_ir_set_origin(c->rw.to, n);
        if (n->op == TCC_OP_CONSTANT || is_weak_view(c, n)) {
            tcc_node *operand = n->n_operands ? c->forms[n->operands[0]->id].low : NULL;
            f->low = build(c, n, &operand, c->spec->low);
        } else f->low = tcc_ir_cast(c->rw.to, f->full, c->spec->low);
        if (n == old || !f->low) return f->low;
    }
}

static tcc_node *get(caster *c, const tcc_node *old, bool low) {
    if (!is_managed(old)) return c->rw.map[old->id];
    form *f = &c->forms[old->id];
    if (low) return f->low ? f->low : make_low(c, old);
    tcc_ir_set_origin(c->rw.to, old);
    if (!f->full) f->full = tcc_ir_cast(c->rw.to, f->low, TCC_F32);
    return f->full;
}

/* -- One op -- */

static tcc_amp_class class_of(const caster *c, const tcc_node *n) {
    if (n->marks & TCC_MARK_FULL) return TCC_AMP_FP32;
    const tcc_amp_class *classes = c->spec->classes;
    return classes ? classes[n->op] : tcc_op_get_info(n->op)->amp;
}

/* What the operands are, of those that were f32. */
typedef struct census {
    bool any, low, full; /* one of them; one that was computed low; one that was in f32 */
} census;

static census look(const caster *c, const tcc_node *n) {
    census s = {0};
    for (int i = 0; i < n->n_operands; i++) {
        const tcc_node *x = n->operands[i];
        if (!is_managed(x) || tcc_op_is_wide(n->op, i)) continue;
        s.any = true;
        if (!c->forms[x->id].weak) *(c->forms[x->id].is_low ? &s.low : &s.full) = true;
    }
    return s;
}

static bool runs_low(const caster *c, const tcc_node *n, tcc_amp_class class, census s) {
    if (s.any && reads_wide(c, n)) return false;
    switch (class) {
    case TCC_AMP_LOW: return s.any;
    case TCC_AMP_FP32:
    case TCC_AMP_OPMATH: return false;
    case TCC_AMP_PROMOTE:
    case TCC_AMP_NONE: break;
    }
    return s.any && !s.full && (s.low || tcc_op_get_info(n->op)->fusion == TCC_FUSION_INDEX);
}

/* The mask of attention, where it was f32, is cast so that no finite score becomes infinite. */
static void bound_mask(caster *c, const tcc_node *old, tcc_node **operands) {
    const tcc_node *mask = tcc_sdpa_mask(old);
    if (!mask || !is_managed(mask) || c->forms[mask->id].is_low || !may_overflow(c, mask)) return;
    operands[tcc_op_get_info(old->op)->least] = saturated(c, get(c, mask, false));
}

static tcc_node *run(caster *c, const tcc_node *old, bool low) {
    enum { ON_STACK = 8 };
    tcc_node *few[ON_STACK], **operands = few;
    if (old->n_operands > ON_STACK && !(operands = tcc__malloc(sizeof *operands * (size_t)old->n_operands))) {
        tcc_enomem(c->rw.to->diag);
        return NULL;
    }
    for (int i = 0; i < old->n_operands; i++)
        operands[i] = get(c, old->operands[i], low && !tcc_op_is_wide(old->op, i));
    tcc_ir_set_origin(c->rw.to, old);
    if (low && tcc_op_get_info(old->op)->fusion == TCC_FUSION_ATTENTION) bound_mask(c, old, operands);
    tcc_node *n = build(c, old, operands, low ? c->spec->low : TCC_F32);
    if (operands != few) tcc__free(operands);
    return n;
}

static bool is_weak(const caster *c, const tcc_node *n) {
    if (n->op == TCC_OP_INPUT) return n->attrs->input.role == TCC_ROLE_PARAM;
    if (n->op == TCC_OP_CONSTANT) return n->attrs->constant.values.count == 1 && holds_constant(c, n);
    return tcc_op_get_info(n->op)->fusion == TCC_FUSION_VIEW && n->n_operands == 1 &&
           c->forms[n->operands[0]->id].weak && !(n->marks & TCC_MARK_FULL);
}

/* A cast that the user wrote takes the value as it was computed. */
static tcc_node *run_cast(caster *c, const tcc_node *old) {
    const tcc_node *x = old->operands[0];
    tcc_node *value = get(c, x, is_managed(x) && c->forms[x->id].is_low);
    tcc_ir_set_origin(c->rw.to, old);
    return tcc_ir_cast(c->rw.to, value, old->type.dtype);
}

static void visit(caster *c, const tcc_node *old) {
    const tcc_amp_class class = class_of(c, old);
    const census s = look(c, old);
    bool low = false;
    tcc_node *n;
    if (old->op == TCC_OP_INPUT) n = c->rw.map[old->id];
    else if (old->op == TCC_OP_CAST) n = run_cast(c, old);
    else n = run(c, old, low = runs_low(c, old, class, s));
    c->rw.map[old->id] = n;
    if (!is_managed(old) || !n) return;
    low = low && n->type.dtype == c->spec->low; /* a sum is f32 whatever it is of */
    form *f = &c->forms[old->id];
    const tcc_node *first = old->n_operands ? old->operands[0] : NULL;
    if (class == TCC_AMP_OPMATH && is_managed(first) && c->forms[first->id].is_low) {
        n = tcc_ir_cast(c->rw.to, n, c->spec->low);
        low = true;
    }
    *f = (form){.full = low ? NULL : n, .low = low ? n : NULL, .is_low = low, .weak = is_weak(c, old)};
}

tcc_status tcc_pass_amp(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    const tcc_amp_spec *spec = cx->options ? cx->options->amp : NULL;
    if (!spec) return tcc_error(cx->diag, TCC_EINVAL, TCC_NOWHERE, "amp: no low precision is chosen");
    caster c = {.spec = spec};
    TCC_TRY(tcc_rewrite_begin(&c.rw, in));
    c.forms = tcc__calloc((size_t)in->nodes.count + 1, sizeof *c.forms);
    if (!c.forms) {
        tcc_rewrite_abort(&c.rw);
        return tcc_enomem(cx->diag);
    }
    for (int i = 0; i < in->inputs.count; i++) visit(&c, in->inputs.data[i]);
    for (int id = 0; id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        if (c.rw.live[id] && n->op != TCC_OP_INPUT) visit(&c, n);
    }
    for (int i = 0; i < in->outputs.count; i++) {
        const tcc_node *n = in->outputs.data[i].node;
        c.rw.map[n->id] = get(&c, n, false);
    }
    tcc__free(c.forms);
    return tcc_rewrite_end(&c.rw, out);
}

/* -- Classes that the user gives -- */

void tcc_amp_table(tcc_amp_class *classes) {
    for (int op = 0; op < TCC_OP_COUNT; op++) classes[op] = tcc_op_get_info((tcc_op)op)->amp;
}

static tcc_status bad_class(tcc_diag *diag, const char *text, size_t length) {
    return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                     "'%.*s' is no precision of an op: it is written op=class, with class low, fp32, opmath or "
                     "promote, as in gelu=fp32",
                     (int)length, text);
}

tcc_status tcc_amp_parse(tcc_diag *diag, const char *text, tcc_amp_class *classes) {
    while (*text) {
        const size_t length = strcspn(text, ","), name = strcspn(text, "=");
        tcc_op op;
        int class = 0;
        if (name >= length) return bad_class(diag, text, length);
        while (class < CLASS_COUNT && (strlen(class_names[class]) != length - name - 1 ||
                                       memcmp(class_names[class], text + name + 1, length - name - 1) != 0))
            class ++;
        if (class == CLASS_COUNT) return bad_class(diag, text, length);
        if (!tcc_op_parse(text, name, &op))
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                             "there is no op '%.*s' to give a precision to; tcc-opt --list-ops has them", (int)name,
                             text);
        if (tcc_op_get_info(op)->amp == TCC_AMP_NONE)
            return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "the op '%.*s' has no precision to choose", (int)name,
                             text);
        classes[op] = (tcc_amp_class) class;
        text += length + (text[length] == ',');
    }
    return TCC_OK;
}
