/* SPDX-License-Identifier: MIT
 * The columns of ir/ops.def that say in which element types an op computes: WIDE by the types that operands have, the
 * AMP class by PyTorch's lists. Each row is judged. */
#include "harness/check.h"
#include "harness/generator.h"
#include "harness/passes.h"

#include <stdio.h>
#include <string.h>

enum { MOST_SEEDS = 2000, MOST_OPERANDS = 8 };

/* What random graphs have of an op. */
typedef struct seen {
    bool any, has_float_result;
} seen;

static seen all_seen[TCC_OP_COUNT];

static int look_at_random_graphs(void **state) {
    (void)state;
    int left = TCC_OP_COUNT - 1; /* no graph has a stop_gradient */
    for (uint64_t seed = 0; seed < MOST_SEEDS && left; seed++) {
        tcc_diag diag = {0};
        tcc_graph *g = tcc_graph_random(&(tcc_random_options){.ranks = seed % 4 ? 0 : 2}, seed, &diag);
        assert_non_null(g);
        for (int i = 0; i < g->nodes.count; i++) {
            const tcc_node *n = g->nodes.data[i];
            seen *s = &all_seen[n->op];
            if (!s->any) left--;
            s->any = true;
            s->has_float_result |= tcc_dtype_is_float(n->type.dtype);
        }
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
    assert_int_equal(left, 0);
    return 0;
}

/* What is f32 beside a narrow operand, in graphs as the generator makes them and in the gradients of such. */
static void wide_operands_have_the_flag(void **state) {
    (void)state;
    unsigned wide[TCC_OP_COUNT] = {0};
    bool narrow[TCC_OP_COUNT] = {0};
    for (uint64_t seed = 0; seed < 3000; seed++) {
        tcc_diag diag = {0};
        const tcc_random_options options = {.mixed = true, .differentiable = seed % 8 == 0};
        tcc_graph *made = tcc_graph_random(&options, seed, &diag);
        assert_non_null(made);
        tcc_graph *g = run_passes(made, options.differentiable ? "autodiff" : "", NULL);
        for (int i = 0; i < g->nodes.count; i++) {
            const tcc_node *n = g->nodes.data[i];
            if (!n->n_operands || !tcc_dtype_is_narrow(n->operands[0]->type.dtype)) continue;
            narrow[n->op] = true;
            for (int k = 1; k < n->n_operands; k++)
                wide[n->op] |= (unsigned)(n->operands[k]->type.dtype == TCC_F32) << k;
        }
        tcc_graph_destroy(g);
        tcc_graph_destroy(made);
        tcc_diag_clear(&diag);
    }
    for (int op = 0; op < TCC_OP_COUNT; op++) {
        const tcc_op_info *info = tcc_op_get_info((tcc_op)op);
        for (int k = 0; k < MOST_OPERANDS; k++)
            if (tcc_op_is_wide((tcc_op)op, k) != (wide[op] >> k & 1)) fail_msg("%s: WIDE(%d) is wrong", info->text, k);
        if (strstr(info->text, "sdpa_grad") || strstr(info->text, "batch_norm_grad")) assert_true(narrow[op]);
    }
}

/* -- AMP classes -- */

/* The lists of torch.autocast (its documentation, "Op-Specific Behavior", of CUDA and of CPU), as far as we have the
 * ops; PyTorch's names are behind ours where they differ. Gradients run as what they are of. */
static const char *const lists[] = {
    [TCC_AMP_LOW] = " conv dot(matmul,mm,bmm,linear) sdpa(scaled_dot_product_attention) ",
    [TCC_AMP_FP32] = " exp expm1 log log1p pow rsqrt erfinv sinh cosh softplus cumsum prod reduce_sum(sum)"
                     " log_softmax cross_entropy softmax layer_norm group_norm ",
    [TCC_AMP_PROMOTE] = " concat(cat,stack) ",
};
/* "If an op is unlisted", it runs in the type of its operands. Ours run in f32, which is never less exact: sums, means
 * and moments, of which PyTorch rounds the result; and functions whose slope of 1 or more at large x, or at 0, makes
 * the rounding of their operand the error of their result. */
static const char ours_f32[] = " scatter_add scatter_add_along linear_scan reduce_mean reduce_m2 batch_norm_mean"
                               " batch_norm_variance batch_norm_scale batch_norm_grad_x batch_norm_grad_weight"
                               " batch_norm_grad_bias sqrt sin cos atan erf normal_density rng_uniform rng_normal ";
/* Computed in f32, as PyTorch's kernels do, since they round in between; what they store is of their operand's type. */
static const char stored_low[] = " gelu silu softmax layer_norm rms_norm group_norm batch_norm batch_norm_inference ";
/* Made, moved between ranks, or cast as they are. */
static const char as_they_are[] = " input constant iota cast all_reduce reduce_scatter all_gather ";

static bool has_word(const char *list, const char *word, size_t length) {
    for (const char *at = list; (at = strchr(at, ' ')) && at[1]; at++)
        if (!strncmp(at + 1, word, length) && strchr(" (", at[1 + length])) return true;
    return false;
}

/* Whether the list has the op, or what it is a gradient of. */
static bool has_op(const char *list, const char *text) {
    const char *gradient = strstr(text, "_grad");
    if (has_word(list, text, strlen(text)) || (!strcmp(text, "sdpa_lse") && has_word(list, "sdpa", 4))) return true;
    return gradient && has_word(list, text, (size_t)(gradient - text));
}

static tcc_amp_class class_of(tcc_op op) {
    const char *text = tcc_op_get_info(op)->text;
    const bool computes_floats = op == TCC_OP_STOP_GRADIENT || all_seen[op].has_float_result;
    if (has_op(as_they_are, text) || !computes_floats) return TCC_AMP_NONE;
    if (has_op(lists[TCC_AMP_LOW], text)) return TCC_AMP_LOW;
    if (has_op(ours_f32, text)) return TCC_AMP_FP32;
    if (has_op(stored_low, text)) return TCC_AMP_OPMATH;
    return has_op(lists[TCC_AMP_FP32], text) ? TCC_AMP_FP32 : TCC_AMP_PROMOTE;
}

static void amp_classes_are_those_of_autocast(void **state) {
    (void)state;
    int count[TCC_AMP_NONE + 1] = {0};
    for (int op = 0; op < TCC_OP_COUNT; op++) {
        const tcc_amp_class class = class_of((tcc_op)op);
        count[class]++;
        if (tcc_op_get_info((tcc_op)op)->amp != class)
            fail_msg("%s: its AMP class is %d, by PyTorch's lists %d", tcc_op_get_info((tcc_op)op)->text,
                     tcc_op_get_info((tcc_op)op)->amp, class);
    }
    for (int class = 0; class <= TCC_AMP_NONE; class ++) assert_true(count[class] > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wide_operands_have_the_flag),
                                       cmocka_unit_test(amp_classes_are_those_of_autocast)};
    return cmocka_run_group_tests(tests, look_at_random_graphs, NULL);
}
