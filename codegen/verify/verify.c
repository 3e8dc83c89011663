/* SPDX-License-Identifier: MIT
 * The verifier of finished programs. First the launches run in the order in which they were made, with separate memory
 * for each value. This run defines the meaning of the graph; the mark that each read finds is recorded. Then the
 * program's steps run, in their order and on their addresses. Every read must find the same mark. */
#include "codegen/verify/verify.h"
#include "codegen/verify/checker.h"

#include "ir/support/alloc.h"

#include <stdlib.h>

/* --- The program's steps */

static tcc_marked_memory *memory_of(const tcc_checker *c, const tcc_buffer *b) {
    return &c->spaces[b->space == TCC_SPACE_ARENA ? 0 : 1 + b->binding];
}

static tcc_status read_wrong(const tcc_checker *c, const tcc_fact_launch *l, int k, int value, int64_t base,
                             const tcc_marked_read *read) {
    tcc_status status = TCC_BUG(c->diag, "%s reads %s through buffer %d: %s is meant", tcc_checker_step(c, l),
                                tcc_checker_place(c, &l->buffers[k], base + read->at), k, tcc_checker_name(c, value));
    if (!read->wrong)
        tcc_note(c->diag, TCC_NOWHERE,
                 "it is not as it was meant: a step that writes it is missing, or comes too "
                 "late or too early");
    else if (read->partial) tcc_note(c->diag, TCC_NOWHERE, "that byte of it has not been written");
    else if (read->value == -1) tcc_note(c->diag, TCC_NOWHERE, "nothing was written there");
    else
        tcc_note(c->diag, TCC_NOWHERE, "byte %lld of %s lies there", (long long)read->value_at,
                 tcc_checker_name(c, read->value));
    return status;
}

static tcc_status read_use(tcc_checker *c, const tcc_fact_launch *l, int k, int *read_number) {
    const tcc_fact_use *use = &l->uses[k];
    const tcc_buffer *b = &l->buffers[k];
    if (use->value < 0) return TCC_OK;
    const tcc_fact_value *v = &c->f->values.data[use->value];
    const int64_t base = b->offset_bytes - use->offset_bytes;
    if (b->space == TCC_SPACE_CONST) {
        if (tcc_checker_is_constant(c, v, base)) return TCC_OK;
        return TCC_BUG(c->diag, "%s reads %s through buffer %d: %s does not lie there", tcc_checker_step(c, l),
                       tcc_checker_place(c, b, b->offset_bytes), k, tcc_checker_name(c, use->value));
    }
    for (int i = 0; i < use->n_reads; i++) {
        const tcc_region r = tcc_fact_in_value(use, &use->reads[i]);
        const tcc_marked_read read = tcc_marked_find(memory_of(c, b), &c->parts, base, use->value, &r);
        if (read.wrong || read.written != c->meant.data[(*read_number)++])
            return read_wrong(c, l, k, use->value, base, &read);
    }
    return TCC_OK;
}

static tcc_status write_uses(tcc_checker *c, const tcc_fact_launch *l) {
    for (int k = 0; k < l->n_uses; k++) {
        const tcc_fact_use *use = &l->uses[k];
        const tcc_buffer *b = &l->buffers[k];
        for (int i = 0; i < use->n_writes; i++) {
            const tcc_region r = tcc_fact_in_value(use, &use->writes[i]);
            if (!tcc_marked_write(memory_of(c, b), &c->parts, b->offset_bytes - use->offset_bytes, use->value,
                                  c->f->values.data[use->value].size_bytes, &r,
                                  tcc_checker_writer(c, use, (int)(l - c->f->launches.data))))
                return tcc_enomem(c->diag);
        }
    }
    return TCC_OK;
}

static int by_buffers(const void *a, const void *b) {
    const tcc_checker_entry *x = a, *y = b;
    return x->buffers < y->buffers ? -1 : x->buffers > y->buffers;
}

/* The launch with these buffers; -1: there is none. */
static int launch_of(const tcc_checker *c, const tcc_buffer *buffers) {
    const tcc_checker_entry key = {.buffers = buffers}, *found = NULL;
    if (c->f->launches.count) found = bsearch(&key, c->entries, (size_t)c->f->launches.count, sizeof key, by_buffers);
    return found ? found->launch : -1;
}

static tcc_status run_copy(tcc_checker *c, const tcc_step *s) {
    const tcc_buffer *from = &s->from, *to = &s->to;
    const tcc_region whole = tcc_region_whole(to->size_bytes);
    if (from->size_bytes != to->size_bytes || !tcc_checker_fits(c, from) || !tcc_checker_fits(c, to) ||
        to->space == TCC_SPACE_CONST)
        return TCC_BUG(c->diag, "step %d (%s) copies out of bounds", c->step, s->label);
    if (tcc_buffers_overlap(from, &whole, to, &whole))
        return TCC_BUG(c->diag, "step %d (%s) copies %s onto itself", c->step, s->label,
                       tcc_checker_place(c, from, from->offset_bytes));
    bool ok;
    if (from->space == TCC_SPACE_CONST) {
        const tcc_marked mark = {to->offset_bytes,
                                 to->offset_bytes + to->size_bytes,
                                 to->offset_bytes - from->offset_bytes,
                                 TCC_MARK_CONSTANTS,
                                 -1,
                                 0};
        ok = tcc_marked_set(memory_of(c, to), mark);
    } else {
        ok = tcc_marked_copy(memory_of(c, from), from->offset_bytes, memory_of(c, to), to->offset_bytes,
                             to->size_bytes);
    }
    return ok ? TCC_OK : tcc_enomem(c->diag);
}

/* Reads what the launch reads, after what is nothing to do before it. */
static tcc_status read_launch(tcc_checker *c, int at) {
    const tcc_fact_launch *l = &c->f->launches.data[at];
    if (at > 0 && l[-1].nothing && !c->runs[at - 1]++) {
        TCC_TRY(read_launch(c, at - 1));
        TCC_TRY(write_uses(c, l - 1));
    }
    for (int k = 0; k < l->n_uses; k++) TCC_TRY(tcc_checker_check_bounds(c, l, k));
    TCC_TRY(tcc_checker_check_within(c, l));
    int read_number = c->first_read[at];
    for (int k = 0; k < l->n_uses; k++) TCC_TRY(read_use(c, l, k, &read_number));
    return TCC_OK;
}

static const tcc_buffer *buffers_of(const tcc_step *s, int instance) {
    return s->kind == TCC_STEP_KERNEL ? s->instances[instance].buffers : s->call->buffers;
}

/* All instances read, then all write: none may see what another one writes. */
static tcc_status run_instances(tcc_checker *c, const tcc_step *s, tcc_touches *reads, tcc_touches *writes) {
    const int n = s->kind == TCC_STEP_KERNEL ? s->n_instances : 1;
    for (int i = 0; i < n; i++) {
        const int at = launch_of(c, buffers_of(s, i));
        const tcc_fact_launch *l = &c->f->launches.data[at];
        if (at < 0) return TCC_BUG(c->diag, "step %d (%s, %s) is no launch of a group", c->step, s->label, s->lines);
        if (c->runs[at]++) return TCC_BUG(c->diag, "%s runs for the second time", tcc_checker_step(c, l));
        TCC_TRY(read_launch(c, at));
        if (n > 1 && (!tcc_touches_add(reads, l, i, false) || !tcc_touches_add(writes, l, i, true)))
            return tcc_enomem(c->diag);
    }
    TCC_TRY(tcc_checker_check_touches(c, writes, reads));
    for (int i = 0; i < n; i++) TCC_TRY(write_uses(c, &c->f->launches.data[launch_of(c, buffers_of(s, i))]));
    return TCC_OK;
}

static tcc_status run_step(tcc_checker *c, const tcc_step *s) {
    if (s->kind == TCC_STEP_COPY) return run_copy(c, s);
    tcc_touches reads = {0}, writes = {0};
    tcc_status status = run_instances(c, s, &reads, &writes);
    tcc_vec_free(&reads);
    tcc_vec_free(&writes);
    return status;
}

/* --- The end */

static tcc_status check_output(const tcc_checker *c, const tcc_output *output, int binding) {
    const int value = c->f->of_node[output->node->id];
    const tcc_fact_value *v = &c->f->values.data[value];
    const tcc_region whole = tcc_fact_whole(v);
    const tcc_marked_memory *m = &c->spaces[1 + binding];
    if (v->node->op == TCC_OP_CONSTANT && m->count && m->data[0].value == TCC_MARK_CONSTANTS) {
        const tcc_marked_read read =
            tcc_marked_find(m, &c->parts, m->data[0].base, TCC_MARK_CONSTANTS,
                            &(tcc_region){.from = -m->data[0].base, .run = v->size_bytes, .exact = true});
        if (!read.wrong && tcc_checker_is_constant(c, v, -m->data[0].base)) return TCC_OK;
    }
    const tcc_marked_read read = tcc_marked_find(m, &c->parts, 0, value, &whole);
    if (!read.wrong) {
        const tcc_marked_read meant = tcc_marked_find(&c->own[value], &c->own_parts, 0, value, &whole);
        if (!meant.wrong && meant.written == read.written) return TCC_OK;
    }
    tcc_status status = TCC_BUG(c->diag, "in the end output %s is not %s, from byte %lld on", output->name,
                                tcc_checker_name(c, value), (long long)(read.wrong ? read.at : 0));
    tcc_note(c->diag, TCC_NOWHERE, "%s lies there", tcc_checker_name(c, read.wrong ? read.value : value));
    return status;
}

static tcc_status check_end(const tcc_checker *c) {
    const tcc_graph *g = c->f->graph;
    for (int i = 0; i < c->f->launches.count; i++)
        if (!c->runs[i]) {
            const tcc_fact_launch *l = &c->f->launches.data[i];
            return TCC_BUG(c->diag, "a launch of %s (%s) is in no step", l->label, l->lines);
        }
    int binding = g->inputs.count;
    for (int i = 0; i < g->outputs.count; i++) {
        const tcc_output *output = &g->outputs.data[i];
        TCC_TRY(check_output(c, output, output->alias >= 0 ? output->alias : binding++));
    }
    for (int i = 0; i < g->inputs.count; i++) {
        bool replaced = false;
        for (int k = 0; k < g->outputs.count; k++) replaced = replaced || g->outputs.data[k].alias == i;
        if (replaced) continue;
        const int value = c->f->of_node[g->inputs.data[i]->id];
        const tcc_region whole = tcc_fact_whole(&c->f->values.data[value]);
        const tcc_marked_read read = tcc_marked_find(&c->spaces[1 + i], &c->parts, 0, value, &whole);
        if (read.wrong)
            return TCC_BUG(c->diag, "%s is written over input %s, which nothing replaces",
                           tcc_checker_name(c, read.value), c->p->bindings[i].name);
    }
    return TCC_OK;
}

/* --- The whole */

static tcc_status begin(tcc_checker *c) {
    const size_t values = (size_t)c->f->values.count + 1, launches = (size_t)c->f->launches.count + 1;
    c->own = tcc__calloc(values, sizeof *c->own);
    c->spaces = tcc__calloc((size_t)c->p->n_bindings + 2, sizeof *c->spaces);
    c->entries = tcc__calloc(launches, sizeof *c->entries);
    c->first_read = tcc__calloc(launches, sizeof *c->first_read);
    c->runs = tcc__calloc(launches, sizeof *c->runs);
    if (!c->own || !c->spaces || !c->entries || !c->first_read || !c->runs) return tcc_enomem(c->diag);
    for (int i = 0; i < c->f->launches.count; i++)
        c->entries[i] = (tcc_checker_entry){c->f->launches.data[i].buffers, i};
    if (c->f->launches.count) qsort(c->entries, (size_t)c->f->launches.count, sizeof *c->entries, by_buffers);
    for (int i = 0; i < c->f->graph->inputs.count; i++) {
        const int value = c->f->of_node[c->f->graph->inputs.data[i]->id];
        const tcc_marked mark = {0, c->f->values.data[value].size_bytes, 0, value, -1, 0};
        if (!tcc_marked_set(&c->spaces[1 + i], mark)) return tcc_enomem(c->diag);
    }
    return TCC_OK;
}

static void end(tcc_checker *c) {
    for (int i = 0; i < c->f->values.count && c->own; i++) tcc_vec_free(&c->own[i]);
    for (int i = 0; i < c->p->n_bindings + 1 && c->spaces; i++) tcc_vec_free(&c->spaces[i]);
    tcc__free(c->own);
    tcc__free(c->spaces);
    tcc__free(c->entries);
    tcc__free(c->first_read);
    tcc__free(c->runs);
    tcc_vec_free(&c->meant);
    tcc_marked_parts_free(&c->own_parts);
    tcc_marked_parts_free(&c->parts);
}

tcc_status tcc_program_verify(const tcc_program *p, const tcc_program_facts *facts, tcc_diag *diag) {
    tcc_checker c = {.p = p, .f = facts, .diag = diag};
    tcc_status status = begin(&c);
    if (status == TCC_OK) status = tcc_checker_run_meant(&c);
    for (c.step = 0; c.step < p->n_steps && status == TCC_OK; c.step++) status = run_step(&c, &p->steps[c.step]);
    if (status == TCC_OK) status = check_end(&c);
    if (status == TCC_OK) status = tcc_checker_check_evaluations(&c);
    end(&c);
    return status;
}
