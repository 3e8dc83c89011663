/* SPDX-License-Identifier: MIT
 * The columns `order` and `tune` of codegen/schedule/params.def, of the host's parameters: one that fixes no order of a
 * sum never changes a bit of a result, one that does changes some; and the values that tuning tries are worth it. */
#include "harness/check.h"
#include "harness/choice_cases.h"
#include "harness/evaluate.h"

#include "codegen/schedule/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What was seen of a parameter. */
static struct {
    bool varied, alone, changes_bits; /* the latter two: alone among those that order */
    int tried;                        /* variations of tuning that change it */
    bool by_one, by_two;              /* among them by 1, by a factor of at most 2 */
} seen[TCC_PARAMS];

static int row_of(const char *name) {
    const size_t length = tcc_params_name_length(name);
    for (int i = 0; i < TCC_PARAMS; i++)
        if (strlen(tcc_param_name((tcc_param)i)) == length && !strncmp(tcc_param_name((tcc_param)i), name, length))
            return i;
    fail_msg("there is no parameter %s", name);
    return -1;
}

static const tcc_choice_param *param_of(const tcc_implementation *x, const char *name) {
    for (int i = 0; i < x->n_params; i++)
        if (!strcmp(x->params[i].name, name)) return &x->params[i];
    return NULL;
}

/* The rows whose parameters differ, those of a that b lacks among them. */
static void compare_params(const tcc_implementation *a, const tcc_implementation *b, bool *differs) {
    for (int i = 0; i < a->n_params; i++) {
        const tcc_choice_param *other = param_of(b, a->params[i].name);
        if (!other || other->value != a->params[i].value) differs[row_of(a->params[i].name)] = true;
    }
}

static bool same_bits(const compiled *a, const compiled *b) {
    for (int i = 0; i < a->graph->outputs.count; i++) {
        const size_t bytes = (size_t)tcc_type_bytes(&a->graph->outputs.data[i].node->type);
        if (memcmp(compiled_output(a, i), compiled_output(b, i), bytes) != 0) return false;
    }
    return true;
}

/* What tuning tries instead of a value. */
static void look_at_trial(const char *name, const tcc_implementation *from, const tcc_implementation *to) {
    bool worth = false;
    for (int i = 0; i < to->n_params; i++) {
        const tcc_choice_param *p = &to->params[i], *old = param_of(from, p->name);
        const int row = row_of(p->name);
        if (!old || old->value == p->value) continue;
        const int64_t change = llabs(p->value - old->value);
        worth = worth || 20 * change >= old->value;
        seen[row].tried++;
        seen[row].by_one |= change == 1;
        seen[row].by_two |= p->value <= 2 * old->value && 2 * p->value >= old->value;
    }
    if (!worth) fail_msg("%s: a variation is not worth measuring", name);
}

static void look(const char *name, const compiled *base, const compiled *other, bool trial) {
    bool differs[TCC_PARAMS] = {0}, same = same_bits(base, other);
    int ordering = -1, count = 0;
    if (base->graph->groups.count != other->graph->groups.count) return; /* it cuts the graph otherwise */
    for (int i = 0; i < base->graph->groups.count; i++) {
        const tcc_implementation *a = base->graph->groups.data[i].implementation,
                                 *b = other->graph->groups.data[i].implementation;
        compare_params(a, b, differs);
        compare_params(b, a, differs);
        bool any[TCC_PARAMS] = {0};
        compare_params(a, b, any);
        for (int k = 0; trial && k < TCC_PARAMS; k++)
            if (any[k]) {
                look_at_trial(name, a, b);
                break;
            }
    }
    for (int i = 0; i < TCC_PARAMS; i++) {
        seen[i].varied |= differs[i];
        if (differs[i] && tcc_param_orders(tcc_param_name((tcc_param)i))) ordering = i, count++;
    }
    for (int i = 0; i < TCC_PARAMS && !same && !count; i++)
        if (differs[i]) fail_msg("%s: %s changes bits", name, tcc_param_name((tcc_param)i));
    if (count == 1) seen[ordering].alone = true;
    if (!same && count == 1) seen[ordering].changes_bits = true;
}

static void fill(tcc_value *v, uint64_t seed) {
    const bool is_float = tcc_dtype_is_float(v->type.dtype);
    tcc_value random = random_value(&v->type, seed, is_float ? -1 : 0, is_float ? 1 : 29);
    for (int64_t e = 0; e < tcc_type_numel(&v->type); e++)
        if (is_float) v->f[e] = random.f[e];
        else v->i[e] = random.i[e];
    tcc_value_free(&random);
}

static void look_at_case(const choice_case *c) {
    tcc_diag diag = {0};
    tcc_graph *g;
    assert_ok(tcc_graph_parse(c->text, strlen(c->text), c->name, &diag, &g), &diag);
    compiled *base = compiled_run_filled(g, &(compiled_options){.simplify = true}, fill);
    for (int k = 0; k < MOST_CHOICE_EDITS && c->host[k]; k++) {
        compiled *other = compiled_run_filled(g, &(compiled_options){.simplify = true, .edits = c->host[k]}, fill);
        look(c->name, base, other, false);
        compiled_destroy(other);
    }
    for (int k = 1, all = 1; k <= all; k++) {
        const compiled_options options = {.simplify = true, .variation = k, .variations = &all};
        compiled *other = compiled_run_filled(g, &options, fill);
        look(c->name, base, other, true);
        compiled_destroy(other);
    }
    compiled_destroy(base);
    tcc_graph_destroy(g);
}

static int look_at_cases(void **state) {
    (void)state;
    for (int i = 0; i < n_choice_cases; i++) look_at_case(&choice_cases[i]);
    return 0;
}

static bool has_word(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; (at = strchr(at, ' ')); at++)
        if (!strncmp(at + 1, word, length) && at[1 + length] == ' ') return true;
    return false;
}

/* Of GPUs and of libraries alone; and what a graph's form decides. */
static const char not_varied[] =
    " group threads steps side merged along split run loops_of_k tile_m tile_n split_k columns"
    " form workspace algorithm by_tile by_stages by_parts by_reduction by_swizzle by_option"
    " by_inner by_cluster ";
/* What is seen only with others: sums of parts have lanes of their own. Rows order a GPU's sums. Those of a tile of
 * Winograd's have changed no bit yet. */
static const char not_alone[] = " parts blocks_of_k parts_at_once rows width height ";

/* Where AMX multiplies 32 of k at once, no other instruction comes near, and each has register tiles of its own. */
static bool can_differ_alone(int row) { return row != TCC_PARAM_K_AT_ONCE || seen[row].alone; }

static void order_is_what_bits_say(void **state) {
    (void)state;
    for (int i = 0; i < TCC_PARAMS; i++) {
        const char *name = tcc_param_name((tcc_param)i);
        const bool may_be = i != TCC_PARAM_K_AT_ONCE; /* by the machine's instructions */
        if (may_be && seen[i].varied == has_word(not_varied, name))
            fail_msg("%s is%s varied", name, seen[i].varied ? "" : " not");
        if (!seen[i].varied || has_word(not_alone, name) || !can_differ_alone(i)) continue;
        if (seen[i].changes_bits != tcc_param_orders(name))
            fail_msg("%s changes %s, but its order is %d", name, seen[i].changes_bits ? "bits" : "no bit",
                     tcc_param_orders(name));
    }
}

static void tuning_tries_what_is_worth_it(void **state) {
    (void)state;
    for (int i = 0; i < TCC_PARAMS; i++) {
        const char *name = tcc_param_name((tcc_param)i);
        if (!seen[i].varied) continue;
        if (!seen[i].tried) fail_msg("tuning tries no other %s", name);
        const bool has_near = strcmp(name, "kept") && can_differ_alone(i); /* the former is bits */
        if (!seen[i].by_two && has_near) fail_msg("tuning tries nothing near of %s", name);
        /* Few registers: each one counts. */
        if (!seen[i].by_one && has_word(" rows vectors sweeps ", name)) fail_msg("tuning leaves out the next %s", name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(order_is_what_bits_say),
                                       cmocka_unit_test(tuning_tries_what_is_worth_it)};
    return cmocka_run_group_tests(tests, look_at_cases, NULL);
}
