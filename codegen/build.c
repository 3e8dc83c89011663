/* SPDX-License-Identifier: MIT
 * The program builder: groups become launches, launches become steps over memory, kernels with equal descriptions
 * become one, and steps of one kernel that do not touch each other's memory are joined, so that an optimizer's updates
 * of all parameters run as one step. Compilation itself is in compile.c. */
#include "codegen/build.h"
#include "codegen/choice.h"
#include "codegen/compile.h"
#include "codegen/verify/facts.h"
#include "codegen/schedule/lowering.h"
#include "codegen/report.h"
#include "codegen/verify/verify.h"

#include "ir/support/alloc.h"

#include <string.h>

enum { ALIGNMENT = 64, MERGE_WINDOW = 96 };

/* A step being built. */
typedef struct draft {
    int kernel; /* -1: a library call, a copy, or one that was merged away */
    bool gone;
    tcc_step step;
    tcc_vec(tcc_instance) instances;
    bool *written; /* by buffer of the kernel; equal for all instances */
    int n_buffers;
} draft;

typedef struct builder {
    tcc_context *cx;
    tcc_diag *diag;
    const tcc_graph *g;
    const tcc_codegen_options *options;
    const tcc_llvm_target *target;
    tcc_arena scratch; /* what lowering makes; alive until kernels are emitted */
    tcc_program *p;
    int *output_binding; /* by output: its own binding, or -1 */
    tcc_buffer *home;    /* by node id; size 0: none */
    tcc_vec(tcc_lowering) lowerings;
    tcc_vec(tcc_kernel_plan) kernels;
    tcc_vec(draft) drafts;
    tcc_vec(uint8_t) constants;
    tcc_program_facts *facts; /* what the program is checked against; NULL: it is not */
} builder;

static int64_t aligned(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void *keep(builder *b, const void *data, size_t bytes) {
    return bytes ? tcc_arena_copy(&b->p->memory, data, bytes) : tcc_arena_alloc(&b->p->memory, 1);
}

/* --- Memory */

static tcc_status add_constant(builder *b, const void *data, int64_t bytes, tcc_buffer *out) {
    for (int64_t at = 0; at + bytes <= b->constants.count; at += ALIGNMENT)
        if (!memcmp(b->constants.data + at, data, (size_t)bytes)) {
            *out = (tcc_buffer){TCC_SPACE_CONST, -1, at, bytes};
            return TCC_OK;
        }
    *out = (tcc_buffer){TCC_SPACE_CONST, -1, b->constants.count, bytes};
    for (int64_t i = 0; i < aligned(bytes); i++)
        if (!tcc_vec_push(&b->constants, i < bytes ? ((const uint8_t *)data)[i] : 0)) return tcc_enomem(b->diag);
    return TCC_OK;
}

static void store_element(tcc_dtype dtype, double v, void *to, int64_t at) {
    switch (dtype) {
    case TCC_F64: ((double *)to)[at] = v; break;
    case TCC_F32: ((float *)to)[at] = (float)v; break;
    case TCC_F16: ((uint16_t *)to)[at] = tcc_f32_to_f16((float)v); break;
    case TCC_BF16: ((uint16_t *)to)[at] = tcc_f32_to_bf16((float)v); break;
    case TCC_I64: ((int64_t *)to)[at] = (int64_t)v; break;
    case TCC_I32: ((int32_t *)to)[at] = (int32_t)v; break;
    default: ((uint8_t *)to)[at] = (uint8_t)v; break;
    }
}

static tcc_status place_constant(builder *b, const tcc_node *n) {
    int64_t numel = tcc_type_numel(&n->type), bytes = tcc_type_bytes(&n->type);
    const tcc_doubles *values = &n->attrs->constant.values;
    void *data = tcc__malloc((size_t)bytes + 1);
    if (!data) return tcc_enomem(b->diag);
    for (int64_t i = 0; i < numel; i++) store_element(n->type.dtype, values->v[values->count == 1 ? 0 : i], data, i);
    tcc_status status = add_constant(b, data, bytes, &b->home[n->id]);
    tcc__free(data);
    return status;
}

/* Bindings, and where each value lives: its place in the arena, the input whose state it replaces, or its own binding.
 */
static tcc_status place_values(builder *b) {
    const tcc_graph *g = b->g;
    tcc_program *p = b->p;
    int most = g->inputs.count + g->outputs.count;
    p->bindings = TCC_ARENA_ARRAY(&p->memory, tcc_binding, most + 1);
    b->output_binding = TCC_ARENA_ARRAY(&b->scratch, int, g->outputs.count + 1);
    b->home = TCC_ARENA_ARRAY(&b->scratch, tcc_buffer, g->nodes.count + 1);
    if (!p->bindings || !b->output_binding || !b->home) return tcc_enomem(b->diag);
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        const char *name = keep(b, n->attrs->input.name, strlen(n->attrs->input.name) + 1);
        p->bindings[p->n_bindings++] = (tcc_binding){name, n->attrs->input.role, n->type};
        b->home[n->id] = (tcc_buffer){TCC_SPACE_BINDING, i, 0, tcc_type_bytes(&n->type)};
        if (!name) return tcc_enomem(b->diag);
    }
    for (int i = 0; i < g->places.count; i++) {
        const tcc_place *place = &g->places.data[i];
        b->home[place->node->id] = (tcc_buffer){TCC_SPACE_ARENA, -1, place->offset_bytes,
                                                tcc_type_bytes(&place->node->type)};
    }
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *output = &g->outputs.data[i];
        if (output->in_place && output->node->op != TCC_OP_INPUT)
            b->home[output->node->id] = b->home[g->inputs.data[output->alias]->id];
    }
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *output = &g->outputs.data[i];
        b->output_binding[i] = -1;
        if (output->alias >= 0) continue;
        b->output_binding[i] = p->n_bindings;
        const char *name = keep(b, output->name, strlen(output->name) + 1);
        if (!name) return tcc_enomem(b->diag);
        p->bindings[p->n_bindings] = (tcc_binding){name, TCC_ROLE_OUTPUT, output->node->type};
        tcc_buffer *home = &b->home[output->node->id];
        if (!home->size_bytes && output->node->op != TCC_OP_CONSTANT)
            *home = (tcc_buffer){TCC_SPACE_BINDING, p->n_bindings, 0, tcc_type_bytes(&output->node->type)};
        p->n_bindings++;
    }
    return TCC_OK;
}

/* --- Steps */

static tcc_status resolve(builder *b, const tcc_lowering *l, const tcc_plan_buffer *from, tcc_buffer *out) {
    if (from->node) {
        if (from->node->op == TCC_OP_CONSTANT && !b->home[from->node->id].size_bytes)
            TCC_TRY(place_constant(b, from->node));
        *out = b->home[from->node->id];
        if (!out->size_bytes) return TCC_BUG(b->diag, "no memory was planned for %s", tcc_node_text(from->node));
        out->offset_bytes += from->offset_bytes;
        out->size_bytes -= from->offset_bytes;
        return TCC_OK;
    }
    if (from->literal) return add_constant(b, from->literal, from->literal_bytes, out);
    if (from->temporary < 0) {
        *out = (tcc_buffer){TCC_SPACE_ARENA, -1, 0, 0};
        return TCC_OK;
    }
    const tcc_temporary *t = l->choice ? &l->choice->temporaries[from->temporary] : NULL;
    if (!t || !t->placed) return TCC_BUG(b->diag, "no memory was planned for a temporary");
    *out = (tcc_buffer){TCC_SPACE_ARENA, -1, t->offset_bytes, t->size_bytes};
    return TCC_OK;
}

static tcc_status find_kernel(builder *b, const tcc_kernel_plan *plan, int *out) {
    for (int i = 0; i < b->kernels.count; i++)
        if (!strcmp(b->kernels.data[i].key, plan->key)) {
            *out = i;
            return TCC_OK;
        }
    *out = b->kernels.count;
    return tcc_vec_push(&b->kernels, *plan) ? TCC_OK : tcc_enomem(b->diag);
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

/* Launch number `at` of the lowering. */
static tcc_status add_launch(builder *b, const tcc_lowering *l, int at, const char *label, const char *lines) {
    const tcc_plan_launch *launch = &l->launches.data[at];
    int n = launch->kernel.n_buffers, n_params = launch->kernel.n_params;
    tcc_buffer *buffers = TCC_ARENA_ARRAY(&b->p->memory, tcc_buffer, n + 1);
    int64_t *params = keep(b, launch->params, sizeof *params * (size_t)(n_params ? n_params : 0));
    draft d = {.n_buffers = n, .written = TCC_ARENA_ARRAY(&b->scratch, bool, n + 1)};
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
    d.step.implementation = "";
    if (l->choice) {
        d.step.predicted_s = 1e-9 * (double)l->choice->launches[at].ns;
        d.step.implementation = keep(b, l->choice->name, strlen(l->choice->name) + 1);
        if (!d.step.implementation) return tcc_enomem(b->diag);
    }
    if (launch->library) {
        d.kernel = -1;
        d.step.kind = TCC_STEP_LIBRARY;
        const char *name = keep(b, launch->library, strlen(launch->library) + 1);
        tcc_library_call call = {name, n, n_params, buffers, params};
        d.step.call = keep(b, &call, sizeof call);
        if (!name || !d.step.call) return tcc_enomem(b->diag);
    } else {
        d.step.kind = TCC_STEP_KERNEL;
        if (b->target->lane_groups && launch->items > INT32_MAX)
            return tcc_error(b->diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "%s: %lld work items; a grid has at most %d",
                             label, (long long)launch->items, INT32_MAX);
        TCC_TRY(find_kernel(b, &launch->kernel, &d.kernel));
        draft *last = b->drafts.count ? &b->drafts.data[b->drafts.count - 1] : NULL;
        if (launch->beside && last && last->kernel == d.kernel) {
            last->step.flop += d.step.flop;
            last->step.bytes += d.step.bytes;
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

static tcc_status add_copy(builder *b, tcc_buffer from, tcc_buffer to, const char *label) {
    if (same_memory(&from, &to)) return TCC_OK;
    draft d = {.kernel = -1};
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

static tcc_status add_group(builder *b, const tcc_group *group) {
    tcc_lowering fresh = {.arena = &b->scratch,
                          .diag = b->diag, /* without a log: all was said when it was proposed */
                          .graph = b->g,
                          .group = group,
                          .choice = group->implementation,
                          .target = b->target,
                          .options = b->options};
    if (!tcc_vec_push(&b->lowerings, fresh)) return tcc_enomem(b->diag);
    tcc_lowering *l = &b->lowerings.data[b->lowerings.count - 1];
    TCC_TRY(tcc_select_lower(l));
    char *label = tcc_report_label(&b->p->memory, group), *lines = tcc_report_lines(&b->p->memory, group);
    if (!label || !lines) return tcc_enomem(b->diag);
    for (int i = 0; i < l->launches.count; i++) TCC_TRY(add_launch(b, l, i, label, lines));
    return TCC_OK;
}

/* A constant as a value of its own: written by a kernel into `home`. */
static tcc_status add_fill(builder *b, tcc_node *n, tcc_buffer home) {
    tcc_group *group = TCC_ARENA_NEW(&b->scratch, tcc_group);
    tcc_node **self = tcc_arena_copy(&b->scratch, &n, sizeof n);
    if (!group || !self) return tcc_enomem(b->diag);
    *group = (tcc_group){
        .kind = TCC_GROUP_POINTWISE, .hero = n, .n_nodes = 1, .n_outputs = 1, .nodes = self, .outputs = self};
    tcc_buffer old = b->home[n->id];
    b->home[n->id] = home;
    if (n->attrs->constant.values.count > 1) { /* the table itself is a constant of the program */
        b->home[n->id] = old;
        if (!old.size_bytes) TCC_TRY(place_constant(b, n));
        return add_copy(b, b->home[n->id], home, "constant");
    }
    tcc_status status = add_group(b, group);
    b->home[n->id] = old;
    return status;
}

/* Outputs whose value does not already lie where it belongs. */
static tcc_status add_output_copies(builder *b) {
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

/* --- Joining steps of one kernel */

static bool overlap(const tcc_buffer *x, const tcc_buffer *y) {
    return x->space == y->space && x->space != TCC_SPACE_CONST &&
           (x->space != TCC_SPACE_BINDING || x->binding == y->binding) &&
           x->offset_bytes < y->offset_bytes + y->size_bytes && y->offset_bytes < x->offset_bytes + x->size_bytes;
}

/* The k-th buffer a step touches; false past the last. */
static bool touched(const draft *d, int k, tcc_buffer *out, bool *written) {
    switch (d->step.kind) {
    case TCC_STEP_COPY:
        *out = k ? d->step.to : d->step.from;
        *written = k == 1;
        return k < 2;
    case TCC_STEP_LIBRARY:
        if (k >= d->n_buffers) return false;
        *out = d->step.call->buffers[k];
        *written = d->written[k];
        return true;
    default:
        if (d->n_buffers == 0 || k >= d->n_buffers * d->instances.count) return false;
        *out = d->instances.data[k / d->n_buffers].buffers[k % d->n_buffers];
        *written = d->written[k % d->n_buffers];
        return true;
    }
}

static bool conflict(const draft *x, const draft *y) {
    tcc_buffer a, c;
    bool a_written, c_written;
    for (int i = 0; touched(x, i, &a, &a_written); i++)
        for (int k = 0; touched(y, k, &c, &c_written); k++)
            if ((a_written || c_written) && overlap(&a, &c)) return true;
    return false;
}

static tcc_status join_lines(builder *b, tcc_step *into, const char *lines) {
    enum { LONGEST = 120 };
    static const char more[] = ";...";
    const size_t length = strlen(into->lines), tail = sizeof more - 1;
    if (!length) into->lines = lines;
    else if (strstr(into->lines, lines) || (length > tail && !strcmp(into->lines + length - tail, more))) return TCC_OK;
    else
        into->lines = tcc_arena_printf(&b->p->memory, "%s%s%s", into->lines, length < LONGEST ? ";" : "",
                                       length < LONGEST ? lines : more);
    return into->lines ? TCC_OK : tcc_enomem(b->diag);
}

static tcc_status join(builder *b, draft *into, draft *from) {
    for (int i = 0; i < from->instances.count; i++)
        if (!tcc_vec_push(&into->instances, from->instances.data[i])) return tcc_enomem(b->diag);
    into->step.flop += from->step.flop;
    into->step.bytes += from->step.bytes;
    into->step.predicted_s += from->step.predicted_s;
    TCC_TRY(join_lines(b, &into->step, from->step.lines));
    tcc_vec_free(&from->instances);
    from->gone = true;
    from->kernel = -1;
    return TCC_OK;
}

/* Moves a step over the ones between (they must not touch its memory) to join another of its kernel: first later ones
 * up to earlier ones, then earlier ones down to later ones. */
static tcc_status join_steps(builder *b) {
    int n = b->drafts.count;
    draft *d = b->drafts.data;
    for (int i = 0; i < n; i++) {
        if (d[i].kernel < 0) continue;
        for (int k = i - 1; k >= 0 && k >= i - MERGE_WINDOW; k--) {
            if (d[k].gone) continue;
            if (conflict(&d[i], &d[k])) break;
            if (d[k].kernel != d[i].kernel) continue;
            TCC_TRY(join(b, &d[k], &d[i]));
            break;
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        if (d[i].kernel < 0) continue;
        for (int k = i + 1; k < n && k <= i + MERGE_WINDOW; k++) {
            if (d[k].gone) continue;
            if (conflict(&d[i], &d[k])) break;
            if (d[k].kernel != d[i].kernel) continue;
            TCC_TRY(join(b, &d[k], &d[i]));
            break;
        }
    }
    return TCC_OK;
}

/* --- The program */

static tcc_status finish(builder *b) {
    tcc_program *p = b->p;
    p->arena_bytes = b->g->arena_bytes; /* planned, to the last byte */
    p->constants_bytes = b->constants.count;
    p->constants = keep(b, b->constants.data, (size_t)b->constants.count);
    p->steps = TCC_ARENA_ARRAY(&p->memory, tcc_step, b->drafts.count + 1);
    if (!p->constants || !p->steps) return tcc_enomem(b->diag);
    for (int i = 0; i < b->drafts.count; i++) {
        draft *d = &b->drafts.data[i];
        if (d->gone) continue;
        d->step.kernel = d->kernel;
        d->step.n_instances = d->instances.count;
        d->step.instances = keep(b, d->instances.data, sizeof *d->instances.data * (size_t)d->instances.count);
        if (!d->step.instances) return tcc_enomem(b->diag);
        p->steps[p->n_steps++] = d->step;
    }
    return TCC_OK;
}

static tcc_status build(builder *b) {
    TCC_TRY(place_values(b));
    for (int i = 0; i < b->g->groups.count; i++) {
        const tcc_group *group = &b->g->groups.data[i];
        if (!group->implementation) return TCC_BUG(b->diag, "nothing was chosen for %s", tcc_node_text(group->hero));
        TCC_TRY(add_group(b, group));
    }
    TCC_TRY(add_output_copies(b));
    if (!b->options->separate) TCC_TRY(join_steps(b));
    bool *table = TCC_ARENA_ARRAY(&b->scratch, bool, b->kernels.count + 1);
    if (!table) return tcc_enomem(b->diag);
    for (int i = 0; i < b->drafts.count; i++)
        if (b->drafts.data[i].kernel >= 0 && b->drafts.data[i].instances.count > 1)
            table[b->drafts.data[i].kernel] = true;
    TCC_TRY(tcc_compile_kernels(b->cx, b->diag, b->target, b->kernels.data, table, b->kernels.count, b->options, b->p));
    return finish(b);
}

/* The same, and checked where that is wanted. */
static tcc_status build_and_verify(builder *b) {
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
                              : tcc_llvm_target_host(NULL, diag, &own));
    builder b = {
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
