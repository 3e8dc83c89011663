/* SPDX-License-Identifier: MIT
 * Verifies the kernels of a training step, one by one. The twin's groups run once more in a program whose plan gives
 * every value memory of its own, so that all values can be read. Three checks follow. First, the step itself must give
 * the same bits. A difference is a fault of the memory plan or of the steps, found without any tolerance. Second, each
 * group's outputs must agree with the interpreter's on the group's real inputs. So an error is blamed on the kernel
 * that made it, and the tolerance does not have to cover how the network amplifies rounding. Where the interpreter
 * would take too long, a sample of the results is compared (ir/sample.h); the kernel is still that of the whole batch.
 * Third, a group that is wrong there runs as a program by itself. If that is right, the kernel is right and the steps
 * are wrong. */
#include "frontend/compile/alone.h"
#include "frontend/compile/trial.h"
#include "frontend/verify/verify.h"

#include "ir/support/clock.h"
#include "passes/group.h"

#include <math.h>

enum {
    DRAWS = 4,
    FACTOR = 16,      /* of the disturbances */
    MULTIPLE = 2,     /* of the noise that is allowed */
    NEIGHBOURS = 128, /* over which noise is evened out */
    PROGRESS_SECONDS = 5
};
/* What is spent on the kernels of a program, and on one of them at least, in operations: each is done by so many draws
 * and some more. */
static const double most_work = 1e9, least_work = 2e6;

/* The graph with a plan that keeps all values, or, for a lone group, just a plan. */
static tcc_status plan(tcc_verification *v, const tcc_graph *g, bool apart, tcc_graph **out) {
    const tcc_pass_options options = {.apart = apart};
    tcc_pass_cx cx = {.cx = v->m->cx, .diag = &v->m->cx->diag, .options = &options};
    return tcc_pass_plan_memory(&cx, g, out);
}

/* -- The same bits -- */

/* What the twin's program has left in the memory of output `i`. */
static tcc_status twin_output(tcc_verification *v, const tcc_verified *p, int i, const void **out) {
    const tcc_graph *g = p->t.g;
    const tcc_output *output = &g->outputs.data[i];
    *out = NULL;
    if (output->alias < 0) {
        const tcc_program *program = p->c->program;
        for (int k = 0; k < program->n_bindings; k++) {
            const tcc_binding *b = &program->bindings[k];
            if (b->role != TCC_ROLE_OUTPUT || strcmp(b->name, output->name) != 0) continue;
            void *host;
            TCC_TRY(tcc__bound_host(v->twin, &p->c->bound[k], &host));
            *out = host;
        }
        return *out ? TCC_OK : TCC_BUG(&v->m->cx->diag, "there is no output '%s'", output->name);
    }
    const char *name = g->inputs.data[output->alias]->attrs->input.name;
    const tcc_stored *stored = tcc__model_stored(v->twin, name);
    if (stored) *out = stored->data;
    return *out ? TCC_OK : TCC_BUG(&v->m->cx->diag, "there is no state '%s'", name);
}

static tcc_status compare_bits(tcc_verification *v, const tcc_verified *p, int i, int binding, tcc_blame *out) {
    const tcc_output *output = &p->t.g->outputs.data[i];
    const size_t bytes = (size_t)tcc_type_bytes(&output->node->type);
    const void *expected, *got;
    void *copy;
    TCC_TRY(twin_output(v, p, i, &expected));
    tcc_status status = tcc__trial_binding(&p->t, binding, &copy, &got);
    if (status == TCC_OK && memcmp(got, expected, bytes) != 0) {
        size_t at = 0;
        while (((const unsigned char *)got)[at] == ((const unsigned char *)expected)[at]) at++;
        tcc_strbuf_printf(
            &out->text, "verify: \"%s\" has other bits when each value has memory of its own, from byte %zu of %zu on",
            output->name, at, bytes);
        tcc_strbuf_add(&out->cause, "every kernel by itself is right: the steps or the memory plan are wrong");
        tcc__blame_graph(out, p->c->record->graph, NULL);
    }
    tcc__free(copy);
    return status;
}

tcc_status tcc__verify_bits(tcc_verification *v, const tcc_verified *p, tcc_blame *out) {
    const tcc_graph *g = p->t.g;
    TCC_TRY(tcc_model_synchronize(v->twin));
    for (int i = 0, own = g->inputs.count; i < g->outputs.count && !out->text.length; i++) {
        const int alias = g->outputs.data[i].alias;
        TCC_TRY(compare_bits(v, p, i, alias >= 0 ? alias : own++, out));
    }
    return TCC_OK;
}

/* -- One group -- */

/* What is compared of a group: a sample that all outputs have in common, or one of an output alone. */
typedef struct group_part {
    tcc_sample sample; /* of group_check.alone */
    int first, count;  /* of the group's outputs */
    tcc_noisy *expected;
} group_part;

typedef struct group_check {
    tcc_verification *v;
    const tcc_verified *p;
    const tcc_group *group;
    int n_loads, n_parts;
    tcc_node **loads;
    const void **packed; /* what it loads; borrowed where copied[i] is NULL */
    void **copied;
    tcc_graph *alone;
    group_part *parts;
} group_check;

static void group_check_clear(group_check *c) {
    for (int i = 0; c->copied && i < c->n_loads; i++) tcc__free(c->copied[i]);
    for (int i = 0; i < c->n_parts; i++) {
        tcc__noisy_array_free(c->parts[i].expected, c->parts[i].count);
        tcc_sample_free(&c->parts[i].sample);
    }
    tcc__free(c->parts);
    tcc__free(c->packed);
    tcc__free(c->copied);
    tcc__free(c->loads);
    tcc_graph_destroy(c->alone);
}

static tcc_status group_check_begin(group_check *c) {
    tcc_diag *diag = &c->v->m->cx->diag;
    size_t room = 1;
    for (int i = 0; i < c->group->n_nodes; i++) room += (size_t)c->group->nodes[i]->n_operands;
    if (!(c->loads = tcc__calloc(room, sizeof(tcc_node *)))) return tcc_enomem(diag);
    c->n_loads = tcc_group_inputs(c->group, c->loads);
    c->packed = tcc__calloc((size_t)c->n_loads + 1, sizeof(void *));
    c->copied = tcc__calloc((size_t)c->n_loads + 1, sizeof(void *));
    c->parts = tcc__calloc((size_t)c->group->n_outputs + 1, sizeof *c->parts);
    if (!c->packed || !c->copied || !c->parts) return tcc_enomem(diag);
    for (int i = 0; i < c->n_loads; i++) TCC_TRY(tcc__trial_view(&c->p->t, c->loads[i], &c->copied[i], &c->packed[i]));
    return tcc__group_alone(c->v->m, c->p->t.g, c->group, c->loads, c->n_loads, &c->alone);
}

/* A part for output `output`, -1: for all. */
static tcc_status add_part(group_check *c, int output, double most, uint64_t seed) {
    group_part *part = &c->parts[c->n_parts++];
    part->first = output < 0 ? 0 : output, part->count = output < 0 ? c->group->n_outputs : 1;
    TCC_TRY(tcc_sample_create(c->alone, output, most, seed, &part->sample, &c->v->m->cx->diag));
    part->sample.pool = c->v->noise.pool;
    return TCC_OK;
}

static double work_of(const group_check *c) {
    double work = 0;
    for (int i = 0; i < c->n_parts; i++) work += tcc_graph_work(c->parts[i].sample.graph);
    return work;
}

static void drop_parts(group_check *c) {
    while (c->n_parts) tcc_sample_free(&c->parts[--c->n_parts].sample);
}

/* A fair share of what is left; what a group does not need is for the others. Where the least that all outputs have in
 * common is more, each has a sample of its own, if that is less. */
static tcc_status take_samples(group_check *c, tcc_verified *p, int number) {
    const double fair = p->work_left / (p->t.g->groups.count - number), most = fair > least_work ? fair : least_work;
    const uint64_t seed = (uint64_t)number + 1;
    bool all = true;
    TCC_TRY(add_part(c, -1, most, seed));
    const double together = work_of(c);
    if (c->group->n_outputs > 1 && together > most) {
        drop_parts(c);
        for (int i = 0; i < c->group->n_outputs; i++) TCC_TRY(add_part(c, i, most / c->group->n_outputs, seed));
        if (work_of(c) >= together) {
            drop_parts(c);
            TCC_TRY(add_part(c, -1, most, seed));
        }
    }
    p->work_left -= work_of(c);
    for (int i = 0; i < c->n_parts; i++) all &= c->parts[i].sample.all;
    c->v->sampled += !all;
    return TCC_OK;
}

static tcc_status interpret(const group_check *c, group_part *part) {
    tcc_diag *diag = &c->v->m->cx->diag;
    tcc_noise noise = c->v->noise;
    noise.draws = DRAWS, noise.factor = FACTOR;
    const int n_inputs = part->sample.graph->inputs.count;
    tcc_value *inputs = tcc__calloc((size_t)n_inputs + 1, sizeof *inputs);
    tcc_noisy *outputs = tcc__calloc((size_t)part->count + 1, sizeof *outputs);
    tcc_status status = inputs && outputs ? TCC_OK : tcc_enomem(diag);
    if (status == TCC_OK) status = tcc_sample_inputs(&part->sample, c->packed, inputs, diag);
    if (status == TCC_OK) status = tcc_graph_eval_noisy(part->sample.graph, inputs, &noise, outputs, diag);
    tcc__values_free(inputs, n_inputs);
    if (status == TCC_OK) part->expected = outputs;
    else tcc__free(outputs);
    return status;
}

/* Compares output i of the part, which `node` is in the trial; *worst is raised. */
static tcc_status compare_output(const group_check *c, const group_part *part, const tcc_trial *t, const tcc_node *node,
                                 int i, tcc_difference *worst, int *worst_output) {
    tcc_diag *diag = &c->v->m->cx->diag;
    const tcc_node *own = c->alone->outputs.data[part->first + i].node;
    void *copy;
    const void *packed;
    tcc_value got = {.type = node->type};
    tcc_status status = tcc__trial_view(t, node, &copy, &packed);
    if (status == TCC_OK) status = tcc_sample_value(&part->sample, own, packed, &got, diag);
    if (status == TCC_OK) {
        tcc_difference d = tcc__noisy_difference(&part->expected[i], &got, MULTIPLE, NEIGHBOURS, c->v->tolerance);
        d.element = tcc_sample_element(&part->sample, own, d.element);
        if (d.ratio > worst->ratio) *worst = d, *worst_output = part->first + i;
    }
    tcc_value_free(&got);
    tcc__free(copy);
    return status;
}

static tcc_status compare(const group_check *c, const tcc_trial *t, tcc_difference *worst, int *worst_output) {
    const bool whole = t == &c->p->t;
    *worst = (tcc_difference){0};
    for (int k = 0; k < c->n_parts; k++)
        for (int i = 0; i < c->parts[k].count; i++) {
            const int output = c->parts[k].first + i;
            const tcc_node *node = whole ? c->group->outputs[output] : t->g->outputs.data[output].node;
            TCC_TRY(compare_output(c, &c->parts[k], t, node, i, worst, worst_output));
        }
    return TCC_OK;
}

/* The group is wrong in the program: is it so by itself? */
static tcc_status blame(group_check *c, int number, const tcc_difference *d, int wrong, tcc_blame *out) {
    tcc_trial t = {0};
    tcc_graph *planned = NULL;
    tcc_difference alone;
    int output;
    tcc_status status = plan(c->v, c->alone, false, &planned);
    if (status == TCC_OK) status = tcc__trial_run(c->v->m, planned, c->packed, &t);
    if (status == TCC_OK) status = compare(c, &t, &alone, &output);
    if (t.m) tcc__trial_clear(&t);
    tcc_graph_destroy(planned);
    if (status != TCC_OK) return status;
    const tcc_node *n = c->group->outputs[wrong];
    tcc_strbuf_printf(&out->text,
                      "verify: %s differs from the interpreter on the values that its kernel gets: ", tcc_node_text(n));
    tcc__difference_print(&out->text, d, &n->type);
    if (alone.ratio > 1) {
        tcc_strbuf_printf(&out->cause, "the code generated for group %d, around %s, is wrong", number,
                          tcc_node_text(c->group->hero));
        tcc__blame_graph(out, c->alone, NULL);
    } else {
        tcc_strbuf_add(&out->cause, "every kernel by itself is right: the steps or the memory plan are wrong");
        tcc__blame_graph(out, c->p->c->record->graph, NULL);
    }
    return TCC_OK;
}

static tcc_status check_group(tcc_verification *v, tcc_verified *p, int number, tcc_blame *out) {
    group_check c = {.v = v, .p = p, .group = &p->t.g->groups.data[number]};
    tcc_difference worst = {0};
    int output = 0;
    tcc_status status = group_check_begin(&c);
    if (status == TCC_OK) status = take_samples(&c, p, number);
    for (int i = 0; i < c.n_parts && status == TCC_OK; i++) status = interpret(&c, &c.parts[i]);
    if (status == TCC_OK) status = compare(&c, &p->t, &worst, &output);
    if (status == TCC_OK && worst.ratio > v->worst_kernel) {
        v->worst_kernel = worst.ratio;
        snprintf(v->worst_kernel_name, sizeof v->worst_kernel_name, "%s", tcc_node_text(c.group->hero));
    }
    if (status == TCC_OK && worst.ratio > 1) status = blame(&c, number, &worst, output, out);
    group_check_clear(&c);
    return status;
}

/* -- All -- */

static tcc_status check_groups(tcc_verification *v, tcc_verified *p, tcc_blame *out) {
    double said = tcc_clock_seconds();
    p->work_left = most_work;
    const int count = p->t.g->groups.count;
    v->groups += count;
    for (int i = 0; i < count && !out->text.length; i++) {
        TCC_TRY(check_group(v, p, i, out));
        if (tcc_clock_seconds() - said < PROGRESS_SECONDS) continue;
        said = tcc_clock_seconds();
        tcc__verify_say(v, "%d of %d kernels compared", i + 1, count);
    }
    return TCC_OK;
}

/* Packed values of all inputs, borrowed but for zeros, which `zeros` owns. */
static tcc_status given_values(const tcc_verification *v, const tcc_graph *g, const float *hyper, const int64_t *rng,
                               const void **given, void **zeros) {
    size_t most = 1;
    for (int i = 0; i < g->inputs.count; i++) {
        const size_t bytes = (size_t)tcc_type_bytes(&g->inputs.data[i]->type);
        if (bytes > most) most = bytes;
    }
    if (!(*zeros = tcc__calloc(most, 1))) return tcc_enomem(&v->m->cx->diag);
    for (int i = 0; i < g->inputs.count; i++) {
        given[i] = tcc__verify_input(v, g->inputs.data[i], hyper, rng);
        if (!given[i]) given[i] = *zeros;
    }
    return TCC_OK;
}

tcc_status tcc__verify_program(tcc_verification *v, tcc_compiled *c, tcc_verified *p, tcc_blame *out) {
    float hyper[TCC_HYPER_MOST];
    int64_t rng[2];
    tcc__verify_feed(v, hyper, rng);
    p->c = c;
    TCC_TRY(plan(v, c->record->graph, true, &p->g));
    if (!(p->given = tcc__calloc((size_t)p->g->inputs.count + 1, sizeof(void *)))) return tcc_enomem(&v->m->cx->diag);
    TCC_TRY(given_values(v, p->g, hyper, rng, p->given, &p->zeros));
    TCC_TRY(tcc__trial_run(v->m, p->g, p->given, &p->t));
    return check_groups(v, p, out);
}

void tcc__verified_clear(tcc_verified *p) {
    if (p->t.m) tcc__trial_clear(&p->t);
    tcc__free(p->given);
    tcc__free(p->zeros);
    tcc_graph_destroy(p->g);
    *p = (tcc_verified){0};
}

tcc_status tcc__verify_kernels(tcc_verification *v, tcc_blame *out) {
    tcc_verified p = {0};
    tcc_status status = tcc__verify_program(v, v->twin->last, &p, out);
    if (status == TCC_OK && !out->text.length) status = tcc__verify_bits(v, &p, out);
    tcc__verified_clear(&p);
    return status;
}
