/* SPDX-License-Identifier: MIT
 * The program builder. Groups become launches, and launches become steps over memory (build_memory.c). Kernels with
 * equal descriptions become one. Steps of one kernel are joined where possible (build_join.c), so an optimizer's
 * updates of all parameters run as one step. Compilation itself is in compile.c. */
#include "codegen/build.h"
#include "codegen/builder.h"
#include "codegen/choice.h"
#include "codegen/compile.h"
#include "codegen/report.h"
#include "codegen/verify/verify.h"

#include "ir/support/alloc.h"
#include "ir/support/hash.h"

#include <string.h>

/* --- Steps */

static tcc_status resolve(tcc_builder *b, const tcc_lowering *l, const tcc_plan_buffer *from, tcc_buffer *out) {
    if (from->node) {
        if (from->node->op == TCC_OP_CONSTANT && !b->home[from->node->id].size_bytes)
            TCC_TRY(tcc_builder_place_constant(b, from->node));
        *out = b->home[from->node->id];
        if (!out->size_bytes) return TCC_BUG(b->diag, "no memory was planned for %s", tcc_node_text(from->node));
        out->offset_bytes += from->offset_bytes;
        out->size_bytes -= from->offset_bytes;
        return TCC_OK;
    }
    if (from->literal) return tcc_builder_add_constant(b, from->literal, from->literal_bytes, out);
    if (from->temporary < 0) {
        *out = (tcc_buffer){TCC_SPACE_ARENA, -1, 0, 0};
        return TCC_OK;
    }
    const tcc_implementation *choice = l->params.choice;
    const tcc_temporary *t = choice ? &choice->temporaries[from->temporary] : NULL;
    if (!t || !t->placed) return TCC_BUG(b->diag, "no memory was planned for a temporary");
    *out = (tcc_buffer){TCC_SPACE_ARENA, -1, t->offset_bytes, t->size_bytes};
    return TCC_OK;
}

static tcc_status find_kernel(tcc_builder *b, const tcc_kernel_plan *plan, int *out) {
    const uint64_t hash = tcc_hash_string(0, plan->key);
    size_t at = hash;
    for (void *number; (number = tcc_table_next(&b->kernel_of, hash, &at));) {
        *out = (int)(intptr_t)number - 1;
        if (!strcmp(b->kernels.data[*out].key, plan->key)) return TCC_OK;
    }
    *out = b->kernels.count;
    if (!tcc_vec_push(&b->kernels, *plan) || !tcc_table_reserve(&b->kernel_of)) return tcc_enomem(b->diag);
    tcc_table_add(&b->kernel_of, hash, (void *)(intptr_t)b->kernels.count);
    return TCC_OK;
}

static double bytes_of(const tcc_buffer *buffers, int n) {
    double bytes = 0;
    for (int i = 0; i < n; i++) bytes += (double)buffers[i].size_bytes;
    return bytes;
}

static bool same_memory(const tcc_buffer *x, const tcc_buffer *y) {
    return x->space == y->space && x->binding == y->binding && x->offset_bytes == y->offset_bytes;
}

/* A copy that lies where it is copied from. */
static bool is_in_place(const tcc_buffer *buffers, int n) {
    for (int i = 1; i < n; i++)
        if (!same_memory(&buffers[i], &buffers[0])) return false;
    return true;
}

/* Counts what the launch evaluates: in `step`, and in `all`, by position in the group. */
static tcc_status count_evaluations(tcc_builder *b, const tcc_group *group, const tcc_plan_launch *launch, double *all,
                                    tcc_step *step) {
    double *own = TCC_ARENA_ARRAY(&b->scratch, double, group->n_nodes + 1);
    if (!own || (launch->body && !tcc_body_count_evaluations(launch->body, own))) return tcc_enomem(b->diag);
    for (int i = 0; i < group->n_nodes; i++) {
        const double elements = (double)tcc_type_numel(&group->nodes[i]->type);
        if (launch->part > 0) own[i] *= launch->part;
        step->evaluations += own[i];
        if (own[i] > 0 && !(all[i] > 0)) step->elements += elements;
        all[i] += own[i];
    }
    return TCC_OK;
}

/* Launch number `at` of the lowering; adds to `evaluations`, by position in the group. */
static tcc_status add_launch(tcc_builder *b, const tcc_lowering *l, int at, const char *label, const char *lines,
                             double *evaluations) {
    const tcc_plan_launch *launch = &l->launches.data[at];
    int n = launch->kernel.n_buffers, n_params = launch->kernel.n_params;
    tcc_buffer *buffers = TCC_ARENA_ARRAY(&b->p->memory, tcc_buffer, n + 1);
    int64_t *params = tcc_builder_keep(b, launch->params, sizeof *params * (size_t)(n_params ? n_params : 0));
    tcc_step_draft d = {.n_buffers = n, .written = TCC_ARENA_ARRAY(&b->scratch, bool, n + 1)};
    if (!buffers || !params || !d.written) return tcc_enomem(b->diag);
    for (int i = 0; i < n; i++) {
        TCC_TRY(resolve(b, l, &launch->buffers[i], &buffers[i]));
        d.written[i] = launch->buffers[i].written;
    }
    const bool nothing = launch->copies && is_in_place(buffers, n);
    if (b->facts) TCC_TRY(tcc_program_facts_add(b->facts, l, launch, buffers, nothing, label, lines));
    if (nothing) return TCC_OK;
    d.step = (tcc_step){
        .label = label, .lines = lines, .flop = launch->flop, .bytes = bytes_of(buffers, n), .grain = launch->grain};
    TCC_TRY(count_evaluations(b, l->group, launch, evaluations, &d.step));
    d.step.implementation = "";
    const tcc_implementation *choice = l->params.choice;
    if (choice) {
        d.step.predicted_s = 1e-9 * (double)choice->launches[at].ns;
        d.step.implementation = tcc_builder_keep(b, choice->name, strlen(choice->name) + 1);
        if (!d.step.implementation) return tcc_enomem(b->diag);
    }
    if (launch->library) {
        d.kernel = -1;
        d.step.kind = TCC_STEP_LIBRARY;
        const char *name = tcc_builder_keep(b, launch->library, strlen(launch->library) + 1);
        tcc_library_call call = {name, n, n_params, buffers, params};
        d.step.call = tcc_builder_keep(b, &call, sizeof call);
        if (!name || !d.step.call) return tcc_enomem(b->diag);
    } else {
        d.step.kind = TCC_STEP_KERNEL;
        if (b->target->lane_groups && launch->items > INT32_MAX)
            return tcc_error(b->diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "%s: %lld work items; a grid has at most %d",
                             label, (long long)launch->items, INT32_MAX);
        TCC_TRY(find_kernel(b, &launch->kernel, &d.kernel));
        tcc_step_draft *last = b->drafts.count ? &b->drafts.data[b->drafts.count - 1] : NULL;
        if (launch->beside && last && last->kernel == d.kernel) {
            last->step.flop += d.step.flop;
            last->step.bytes += d.step.bytes;
            last->step.evaluations += d.step.evaluations;
            last->step.elements += d.step.elements;
            last->step.predicted_s += d.step.predicted_s;
            return tcc_vec_push(&last->instances, (tcc_instance){buffers, params, launch->items}) ? TCC_OK
                                                                                                  : tcc_enomem(b->diag);
        }
        if (!tcc_vec_push(&d.instances, (tcc_instance){buffers, params, launch->items})) return tcc_enomem(b->diag);
    }
    if (!tcc_vec_push(&b->drafts, d)) {
        tcc_vec_free(&d.instances);
        return tcc_enomem(b->diag);
    }
    return TCC_OK;
}

static tcc_status add_copy(tcc_builder *b, tcc_buffer from, tcc_buffer to, const char *label) {
    if (same_memory(&from, &to)) return TCC_OK;
    tcc_step_draft d = {.kernel = -1};
    d.step = (tcc_step){.kind = TCC_STEP_COPY,
                        .from = from,
                        .to = to,
                        .grain = 1,
                        .label = label,
                        .implementation = "",
                        .lines = "",
                        .bytes = 2 * (double)to.size_bytes};
    return tcc_vec_push(&b->drafts, d) ? TCC_OK : tcc_enomem(b->diag);
}

static tcc_status add_group(tcc_builder *b, const tcc_group *group) {
    /* Without a log: all was said when it was proposed. */
    tcc_lowering fresh = tcc_lowering_of(&b->scratch, b->diag, b->g, group, group->implementation, b->options);
    fresh.target = b->target;
    fresh.far = b->far;
    if (!tcc_vec_push(&b->lowerings, fresh)) return tcc_enomem(b->diag);
    tcc_lowering *l = &b->lowerings.data[b->lowerings.count - 1];
    TCC_TRY(tcc_select_lower(l));
    char *label = tcc_report_label(&b->p->memory, group), *lines = tcc_report_lines(&b->p->memory, group);
    double *evaluations = TCC_ARENA_ARRAY(&b->scratch, double, group->n_nodes + 1);
    if (!label || !lines || !evaluations) return tcc_enomem(b->diag);
    for (int i = 0; i < l->launches.count; i++) TCC_TRY(add_launch(b, l, i, label, lines, evaluations));
    return b->facts ? tcc_program_facts_add_group(b->facts, group, evaluations, label, lines, b->diag) : TCC_OK;
}

/* A constant as a value of its own: written by a kernel into `home`. */
static tcc_status add_fill(tcc_builder *b, tcc_node *n, tcc_buffer home) {
    tcc_group *group = TCC_ARENA_NEW(&b->scratch, tcc_group);
    tcc_node **self = tcc_arena_copy(&b->scratch, &n, sizeof n);
    if (!group || !self) return tcc_enomem(b->diag);
    *group = (tcc_group){
        .kind = TCC_GROUP_POINTWISE, .hero = n, .n_nodes = 1, .n_outputs = 1, .nodes = self, .outputs = self};
    tcc_buffer old = b->home[n->id];
    b->home[n->id] = home;
    if (n->attrs->constant.values.count > 1) { /* the table itself is a constant of the program */
        b->home[n->id] = old;
        if (!old.size_bytes) TCC_TRY(tcc_builder_place_constant(b, n));
        return add_copy(b, b->home[n->id], home, "constant");
    }
    tcc_status status = add_group(b, group);
    b->home[n->id] = old;
    return status;
}

/* Outputs whose value does not already lie where it belongs. */
static tcc_status add_output_copies(tcc_builder *b) {
    const tcc_graph *g = b->g;
    for (int pass = 0; pass < 2; pass++) { /* first those that may read inputs that the second ones overwrite */
        for (int i = 0; i < g->outputs.count; i++) {
            const tcc_output *output = &g->outputs.data[i];
            if ((output->alias >= 0) != (pass == 1) || (output->in_place && output->node->op != TCC_OP_INPUT)) continue;
            int64_t bytes = tcc_type_bytes(&output->node->type);
            tcc_buffer to = {TCC_SPACE_BINDING, output->alias >= 0 ? output->alias : b->output_binding[i], 0, bytes};
            if (output->node->op == TCC_OP_CONSTANT) {
                TCC_TRY(add_fill(b, output->node, to));
                continue;
            }
            tcc_buffer from = b->home[output->node->id];
            if (!from.size_bytes) return TCC_BUG(b->diag, "no memory was planned for %s", tcc_node_text(output->node));
            if (pass == 1 && output->node->op == TCC_OP_INPUT && g->inputs.data[output->alias] != output->node) {
                /* one state becomes another: by way of the arena, in case they trade places */
                if (!output->staged) return TCC_BUG(b->diag, "no memory was planned for state '%s'", output->name);
                tcc_buffer stage = {TCC_SPACE_ARENA, -1, output->stage_bytes, bytes};
                TCC_TRY(add_copy(b, from, stage, "state"));
                b->home[output->node->id] = stage;
            }
        }
    }
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < g->outputs.count; i++) {
            const tcc_output *output = &g->outputs.data[i];
            if ((output->alias >= 0) != (pass == 1) || output->node->op == TCC_OP_CONSTANT) continue;
            if (output->in_place && output->node->op != TCC_OP_INPUT) continue;
            tcc_buffer to = {TCC_SPACE_BINDING, output->alias >= 0 ? output->alias : b->output_binding[i], 0,
                             tcc_type_bytes(&output->node->type)};
            TCC_TRY(add_copy(b, b->home[output->node->id], to, "output"));
        }
    return TCC_OK;
}

/* --- The program */

static tcc_status finish(tcc_builder *b) {
    tcc_program *p = b->p;
    p->arena_bytes = b->g->arena_bytes; /* planned, to the last byte */
    p->constants_bytes = b->constants.count;
    p->constants = tcc_builder_keep(b, b->constants.data, (size_t)b->constants.count);
    p->steps = TCC_ARENA_ARRAY(&p->memory, tcc_step, b->drafts.count + 1);
    if (!p->constants || !p->steps) return tcc_enomem(b->diag);
    for (int i = 0; i < b->drafts.count; i++) {
        tcc_step_draft *d = &b->drafts.data[i];
        if (d->gone) continue;
        d->step.kernel = d->kernel;
        d->step.n_instances = d->instances.count;
        d->step.instances = tcc_builder_keep(b, d->instances.data,
                                             sizeof *d->instances.data * (size_t)d->instances.count);
        if (!d->step.instances) return tcc_enomem(b->diag);
        p->steps[p->n_steps++] = d->step;
    }
    return TCC_OK;
}

static tcc_status build(tcc_builder *b) {
    TCC_TRY(tcc_builder_place_values(b));
    TCC_TRY(tcc_builder_find_far(b));
    for (int i = 0; i < b->g->groups.count; i++) {
        const tcc_group *group = &b->g->groups.data[i];
        if (!group->implementation) return TCC_BUG(b->diag, "nothing was chosen for %s", tcc_node_text(group->hero));
        TCC_TRY(add_group(b, group));
    }
    TCC_TRY(add_output_copies(b));
    if (!b->options->separate) TCC_TRY(tcc_builder_join_steps(b));
    bool *table = TCC_ARENA_ARRAY(&b->scratch, bool, b->kernels.count + 1);
    if (!table) return tcc_enomem(b->diag);
    for (int i = 0; i < b->drafts.count; i++)
        if (b->drafts.data[i].kernel >= 0 && b->drafts.data[i].instances.count > 1)
            table[b->drafts.data[i].kernel] = true;
    TCC_TRY(tcc_compile_kernels(b->cx, b->diag, b->target, b->kernels.data, table, b->kernels.count, b->options, b->p));
    return finish(b);
}

/* The same, and checked where that is wanted. */
static tcc_status build_and_verify(tcc_builder *b) {
    tcc_program_facts own = {0};
    b->facts = b->options->facts ? b->options->facts : b->options->verify ? &own : NULL;
    tcc_status status = b->facts ? tcc_program_facts_begin(b->facts, b->g, b->diag) : TCC_OK;
    if (status == TCC_OK) status = build(b);
    if (status == TCC_OK && b->options->verify) status = tcc_program_verify(b->p, b->facts, b->diag);
    tcc_program_facts_clear(&own);
    return status;
}

tcc_status tcc_codegen_build(tcc_context *cx, tcc_diag *diag, const tcc_graph *g, const tcc_codegen_options *options,
                             tcc_program **out) {
    tcc_llvm_target own = {0};
    if (!options->target)
        TCC_TRY(options->arch ? tcc_llvm_target_cuda(options->arch, options->hardware, diag, &own)
                              : tcc_llvm_target_host(options->cpu, diag, &own));
    tcc_builder b = {
        .cx = cx, .diag = diag, .g = g, .options = options, .target = options->target ? options->target : &own};
    b.p = tcc__calloc(1, sizeof *b.p);
    tcc_status status = b.p ? TCC_OK : tcc_enomem(diag);
    if (status == TCC_OK) {
        b.p->target = b.target->kind;
        b.p->name = tcc_arena_strdup(&b.p->memory, g->name ? g->name : "");
        b.p->cpu = b.target->arch ? tcc_arena_strdup(&b.p->memory, b.target->arch)
                                  : tcc_arena_printf(&b.p->memory, "%s,%s", b.target->cpu, b.target->features);
        status = b.p->name && b.p->cpu ? build_and_verify(&b) : tcc_enomem(diag);
    }
    for (int i = 0; i < b.lowerings.count; i++) tcc_lowering_clear(&b.lowerings.data[i]);
    for (int i = 0; i < b.drafts.count; i++) tcc_vec_free(&b.drafts.data[i].instances);
    tcc_vec_free(&b.lowerings);
    tcc_vec_free(&b.drafts);
    tcc_vec_free(&b.kernels);
    tcc_vec_free(&b.constants);
    tcc_table_free(&b.kernel_of);
    tcc_table_free(&b.constant_of);
    tcc_arena_free(&b.scratch);
    tcc_llvm_target_clear(&own);
    if (status != TCC_OK) {
        if (b.p) tcc_arena_free(&b.p->memory);
        tcc__free(b.p);
        return status;
    }
    *out = b.p;
    return TCC_OK;
}
