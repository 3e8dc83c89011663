/* SPDX-License-Identifier: MIT
 * Connectionist temporal classification (Graves et al. 2006): the probability that frames read as a text of labels, in
 * any of the ways that repeat labels and put blanks between them.
 *
 * The states of a text of S labels are 2 S + 1: a blank, the first label, a blank, .. A state's log-probability after a
 * frame is that of the ways to it: to stay, to come from the state before, or from the one before that where both are
 * labels and differ. It is `nowhere` where there is no way; that is finite, so that nothing overflows or cancels. */
#include "tensor_ops.h"

#include "traincc/functions.h"
#include "traincc/losses.h"

#include <math.h>

/* What is built here stands at the line of the loss's caller. */
#undef TCC_HERE
#define TCC_HERE at

static const char name[] = "ctc_loss";
static const double nowhere = -1e30;

typedef struct ctc {
    tcc_ctc_options options;
    int64_t frames, batch, classes, labels, states;
    tcc_tensor x, targets, frame_counts, label_counts; /* [T, N, C], [N, S], [N], [N]; the last three are i32 */
} ctc;

/* -- Arguments -- */

static bool check_shapes(const ctc *c, tcc_loc at) {
    const tcc_type *x = &c->x.node->type;
    const struct {
        const char *what;
        const tcc_type *type;
        int rank;
    } others[] = {{"targets", &c->targets.node->type, 2},
                  {"input_lengths", &c->frame_counts.node->type, 1},
                  {"target_lengths", &c->label_counts.node->type, 1}};
    if (x->rank != 3) {
        tcc_trace_error(c->x.trace, TCC_ESHAPE, at, "%s: log_probs are %s; they must be [T, N, C]", name,
                        tcc_type_text(x));
        return false;
    }
    for (int i = 0; i < 3; i++) {
        const tcc_type *is = others[i].type;
        const bool integer = is->dtype == TCC_I32 || is->dtype == TCC_I64;
        if (integer && is->rank == others[i].rank && is->dims[0] == x->dims[1]) continue;
        tcc_trace_error(c->x.trace, integer ? TCC_ESHAPE : TCC_EDTYPE, at,
                        "%s: %s are %s; with log_probs %s they must be [%lld%s] of i32 or i64", name, others[i].what,
                        tcc_type_text(is), tcc_type_text(x), (long long)x->dims[1], i ? "" : ", S");
        return false;
    }
    return true;
}

static bool begin(ctc *c, tcc_tensor x, tcc_tensor targets, tcc_tensor frame_counts, tcc_tensor label_counts,
                  const tcc_ctc_options *given, tcc_loc at) {
    TCC_OPTIONS(tcc_ctc_options, options, given);
    if (given && !tcc_trace_takes_size(name, given->size, sizeof options, at)) return false;
    *c = (ctc){
        .options = options, .x = x, .targets = targets, .frame_counts = frame_counts, .label_counts = label_counts};
    if (!tcc_trace_takes(name, at, 4, (tcc_tensor[]){x, targets, frame_counts, label_counts}) ||
        !tcc__tensor_takes_floats(name, x, at) || !check_shapes(c, at))
        return false;
    c->frames = tcc_dim(x, 0), c->batch = tcc_dim(x, 1), c->classes = tcc_dim(x, 2);
    c->labels = tcc_dim(targets, 1), c->states = 2 * c->labels + 1;
    if (options.blank < 0 || options.blank >= c->classes)
        tcc_trace_error(x.trace, TCC_EINVAL, at, "%s: blank %lld is no class of %s: 0 to %lld", name,
                        (long long)options.blank, tcc_type_text(&x.node->type), (long long)c->classes - 1);
    else if (options.reduction < TCC_REDUCE_MEAN || options.reduction > TCC_REDUCE_NONE)
        tcc_trace_error(x.trace, TCC_EINVAL, at, "%s: reduction %d is none of TCC_REDUCE_MEAN, _SUM and _NONE", name,
                        (int)options.reduction);
    else return true;
    return false;
}

/* As i32; an i64 that is none becomes an i32 that is out of range, too. */
static tcc_tensor narrowed(tcc_tensor x, tcc_loc at) {
    return tcc_get_dtype(x) == TCC_I64 ? tcc_cast(tcc_clamp(x, INT32_MIN, INT32_MAX), TCC_I32) : x;
}

/* bool [N]: lengths are in range, and labels are classes but the blank. */
static tcc_tensor is_valid(const ctc *c, tcc_loc at) {
    tcc_tensor t = c->targets, n = tcc_expand_dims(c->label_counts, TCC_DIMS(1)),
               turn = tcc_iota(t.trace, 1, TCC_I32, TCC_DIMS(c->batch, c->labels));
    tcc_tensor good = tcc_and(tcc_ge(t, tcc__tensor_like(t, 0, at)),
                              tcc_lt(t, tcc__tensor_like(t, (double)c->classes, at)));
    good = tcc_and(good, tcc_ne(t, tcc__tensor_like(t, (double)c->options.blank, at)));
    good = tcc_all(tcc_or(good, tcc_ge(turn, n)), TCC_DIMS(1));
    good = tcc_and(good, tcc_eq(c->frame_counts, tcc_clamp(c->frame_counts, 1, (double)c->frames)));
    return tcc_and(good, tcc_eq(c->label_counts, tcc_clamp(c->label_counts, 0, (double)c->labels)));
}

/* -- States -- */

/* log(e^a + e^b (+ e^c)); what is subtracted before cancels in the gradient. */
static tcc_tensor log_sum(const tcc_tensor *xs, int count, tcc_loc at) {
    tcc_tensor most = xs[0], sum = {0};
    for (int i = 1; i < count; i++) most = tcc_max(most, xs[i]);
    most = tcc_stop_gradient(most);
    for (int i = 0; i < count; i++) {
        tcc_tensor part = tcc_exp(tcc_sub(xs[i], most));
        sum = i ? tcc_add(sum, part) : part;
    }
    return tcc_add(tcc_log(sum), most);
}

/* i32 [N, L]: each state's class. */
static tcc_tensor classes_of_states(const ctc *c, tcc_loc at) {
    const double blank = (double)c->options.blank;
    tcc_tensor blanks = tcc_full_like(c->targets, blank);
    tcc_tensor pairs = tcc_stack(((tcc_tensor[]){blanks, c->targets}), 2, 2);
    return tcc_pad(tcc_reshape(pairs, TCC_DIMS(c->batch, 2 * c->labels)), 1, 0, 1, blank);
}

/* [N, L]: 0 where a state can be reached from the one before its neighbor, else `nowhere`. */
static tcc_tensor skips(const ctc *c, tcc_tensor classes, tcc_dtype dtype, tcc_loc at) {
    const double blank = (double)c->options.blank;
    tcc_tensor other = tcc_pad(tcc_slice(classes, 1, 0, c->states - 2), 1, 2, 0, blank);
    tcc_tensor may = tcc_and(tcc_ne(classes, tcc__tensor_like(classes, blank, at)), tcc_ne(classes, other));
    tcc_tensor none = tcc_constant(c->x.trace, nowhere, dtype, 0, NULL);
    return tcc_select(may, tcc__tensor_like(none, 0, at), none);
}

/* Log-probabilities [N, L] of the states after a text's last frame. */
static tcc_tensor last_states(const ctc *c, tcc_loc at) {
    const int64_t n = c->batch, states = c->states;
    tcc_tensor classes = classes_of_states(c, at), skip = skips(c, classes, tcc_get_dtype(c->x), at);
    tcc_tensor reads = tcc_take_along(c->x, tcc_broadcast(classes, TCC_DIMS(c->frames, n, states)), 2);
    tcc_tensor none = tcc__tensor_like(reads, nowhere, at);
    reads = tcc_select(tcc_lt(reads, none), none, reads); /* -INFINITY; NaN stays */
    tcc_tensor first = tcc_reshape(tcc_slice(reads, 0, 0, 1), TCC_DIMS(n, states)),
               turn = tcc_iota(c->x.trace, 0, TCC_I32, TCC_DIMS(states));
    tcc_tensor y = tcc_select(tcc_lt(turn, tcc__tensor_like(turn, 2, at)), first, none);
    /* bool [T, N, 1]: which frames are a text's. Of one value for all frames, so that their kernels are one. */
    tcc_tensor frame = tcc_iota(c->x.trace, 0, TCC_I32, TCC_DIMS(c->frames, n, 1));
    tcc_tensor present = tcc_lt(frame, tcc_reshape(c->frame_counts, TCC_DIMS(1, n, 1)));
    for (int64_t t = 1; t < c->frames; t++) {
        tcc_tensor more = tcc_pad(y, 1, 2, 0, nowhere);
        tcc_tensor from[] = {y, tcc_slice(more, 1, 1, states + 1), tcc_add(tcc_slice(more, 1, 0, states), skip)};
        tcc_tensor read = tcc_reshape(tcc_slice(reads, 0, t, t + 1), TCC_DIMS(n, states));
        tcc_tensor next = tcc_add(log_sum(from, 3, at), read);
        y = tcc_select(tcc_reshape(tcc_slice(present, 0, t, t + 1), TCC_DIMS(n, 1)), next, y);
    }
    return y;
}

/* Log-probabilities [N] of the texts: of their last label and of the blank behind it. */
static tcc_tensor texts(const ctc *c, tcc_loc at) {
    tcc_tensor y = last_states(c, at), end = tcc_expand_dims(tcc_scale(c->label_counts, 2), TCC_DIMS(1));
    tcc_tensor some = tcc_gt(c->label_counts, tcc__tensor_like(c->label_counts, 0, at));
    tcc_tensor label = tcc_squeeze(tcc_take_along(y, tcc_add_scalar(end, -1), 1), TCC_DIMS(1));
    tcc_tensor ends[] = {tcc_squeeze(tcc_take_along(y, end, 1), TCC_DIMS(1)),
                         tcc_select(some, label, tcc__tensor_like(label, nowhere, at))};
    return log_sum(ends, 2, at);
}

tcc_tensor tcc_ctc_loss_at(tcc_tensor log_probs, tcc_tensor targets, tcc_tensor input_lengths,
                           tcc_tensor target_lengths, const tcc_ctc_options *given, tcc_loc at) {
    ctc c;
    if (!begin(&c, log_probs, targets, input_lengths, target_lengths, given, at)) return tcc_trace_poison();
    tcc_full_precision(log_probs.trace);
    c.x = tcc__tensor_widened(log_probs, at);
    c.targets = narrowed(targets, at);
    c.frame_counts = narrowed(input_lengths, at), c.label_counts = narrowed(target_lengths, at);
    tcc_tensor y = texts(&c, at), far = tcc__tensor_like(y, nowhere / 2, at);
    y = tcc_select(tcc_lt(y, far), tcc__tensor_like(y, c.options.zero_infinity ? 0 : INFINITY, at), tcc_neg(y));
    y = tcc_mul(y, tcc_select(is_valid(&c, at), tcc__tensor_like(y, 1, at), tcc__tensor_like(y, NAN, at)));
    if (c.options.reduction == TCC_REDUCE_SUM) y = tcc_sum(y, TCC_ALL);
    if (c.options.reduction == TCC_REDUCE_MEAN)
        y = tcc_mean(tcc_div(y, tcc_cast(tcc_clamp(c.label_counts, 1, INFINITY), tcc_get_dtype(y))), TCC_ALL);
    y = tcc_cast(y, tcc_get_dtype(log_probs));
    tcc_full_precision_end(log_probs.trace);
    return y;
}
