/* SPDX-License-Identifier: MIT
 * The verifier of finished programs. First the launches run in the order in which they were made, each value in memory
 * of its own: that is what the graph means, and every read is remembered by the mark of what it found. Then the
 * program's steps run, in their order and on their addresses: every read must find the same. */
#include "codegen/verify/verify.h"
#include "codegen/verify/memory.h"

#include "ir/support/alloc.h"
#include "ir/support/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OF_CONSTANTS = -2 }; /* a mark: bytes of the program's constants; base: where these begin */

typedef struct entry {
    const tcc_buffer *buffers;
    int launch;
} entry;

typedef struct checker {
    const tcc_program *p;
    const tcc_program_facts *f;
    tcc_diag *diag;
    tcc_marked_memory *own;    /* by value */
    tcc_marked_memory *spaces; /* the arena, then the bindings */
    tcc_marked_parts own_parts, parts;
    entry *entries;          /* ascending by buffers */
    int *first_read;         /* by launch: the number of its first read */
    int *runs;               /* by launch: how often it ran */
    tcc_vec(uint64_t) meant; /* by read */
    int step;
} checker;

/* --- Words */

static const char *name_of(const checker *c, int value) {
    enum { NAMES = 4, BYTES = 440 };
    static _Thread_local char names[NAMES][BYTES];
    static _Thread_local unsigned next;
    char *name = names[next++ % NAMES];
    const tcc_fact_value *v = value >= 0 ? &c->f->values.data[value] : NULL;
    if (!v) snprintf(name, BYTES, "%s", value == OF_CONSTANTS ? "constants" : "nothing");
    else if (v->node) snprintf(name, BYTES, "%s", tcc_node_text(v->node));
    else if (v->temporary >= 0) snprintf(name, BYTES, "temporary %d of %s", v->temporary, v->label);
    else snprintf(name, BYTES, "a table");
    return name;
}

static const char *place_of(const checker *c, const tcc_buffer *b, int64_t at) {
    static _Thread_local char text[200];
    if (b->space == TCC_SPACE_BINDING && b->binding >= 0 && b->binding < c->p->n_bindings)
        snprintf(text, sizeof text, "%s + %lld", c->p->bindings[b->binding].name, (long long)at);
    else snprintf(text, sizeof text, "%s + %lld", b->space == TCC_SPACE_CONST ? "constants" : "arena", (long long)at);
    return text;
}

static const char *step_of(const checker *c, const tcc_fact_launch *l) {
    static _Thread_local char text[300];
    snprintf(text, sizeof text, "step %d (%s, %s)", c->step, l->label, l->lines);
    return text;
}

/* --- Constants */

static bool is_element(tcc_dtype dtype, const uint8_t *at, double v) {
    const float f32 = (float)v;
    switch (dtype) {
    case TCC_F64: return !memcmp(at, &v, sizeof v);
    case TCC_F32: return !memcmp(at, &f32, sizeof f32);
    case TCC_F16: return !memcmp(at, &(uint16_t){tcc_f32_to_f16(f32)}, sizeof(uint16_t));
    case TCC_BF16: return !memcmp(at, &(uint16_t){tcc_f32_to_bf16(f32)}, sizeof(uint16_t));
    case TCC_I64: return !memcmp(at, &(int64_t){(int64_t)v}, sizeof(int64_t));
    case TCC_I32: return !memcmp(at, &(int32_t){(int32_t)v}, sizeof(int32_t));
    default: return *at == (uint8_t)v;
    }
}

/* The constant lies at that offset of the program's constants. */
static bool is_constant(const checker *c, const tcc_fact_value *v, int64_t at) {
    if (at < 0 || at + v->size_bytes > c->p->constants_bytes) return false;
    const uint8_t *data = (const uint8_t *)c->p->constants + at;
    if (!v->node) return v->temporary < 0 && tcc_hash_bytes(0, data, (size_t)v->size_bytes) == v->hash;
    if (v->node->op != TCC_OP_CONSTANT) return false;
    const tcc_doubles *values = &v->node->attrs->constant.values;
    const tcc_dtype dtype = v->node->type.dtype;
    const int64_t count = tcc_type_numel(&v->node->type);
    for (int64_t i = 0; i < count; i++)
        if (!is_element(dtype, data + i * tcc_dtype_bytes(dtype), values->v[values->count == 1 ? 0 : i])) return false;
    return true;
}

/* --- What is meant */

static bool keep_meant(checker *c, uint64_t written) { return tcc_vec_push(&c->meant, written); }

static tcc_region whole_of(const tcc_fact_value *v) { return tcc_region_whole(v->size_bytes); }

static tcc_region in_value(const tcc_fact_use *use, const tcc_region *r) {
    tcc_region moved = *r;
    moved.from += use->offset_bytes;
    return moved;
}

static tcc_status meant_wrong(const checker *c, const tcc_fact_launch *l, int value, const tcc_marked_read *read) {
    tcc_status status = TCC_BUG(c->diag, "%s (%s) reads byte %lld of %s before it is written", l->label, l->lines,
                                (long long)read->at, name_of(c, value));
    return status;
}

/* Who writes a constant does not matter. */
static uint64_t writer_of(const checker *c, const tcc_fact_use *use, int launch) {
    const tcc_node *n = c->f->values.data[use->value].node;
    return n && n->op == TCC_OP_CONSTANT ? 0 : (uint64_t)launch + 1;
}

static tcc_status read_meant(checker *c, const tcc_fact_launch *l, const tcc_fact_use *use) {
    for (int i = 0; i < use->n_reads; i++) {
        const tcc_region r = in_value(use, &use->reads[i]);
        const tcc_marked_read read = tcc_marked_find(&c->own[use->value], &c->own_parts, 0, use->value, &r);
        if (read.wrong) return meant_wrong(c, l, use->value, &read);
        if (!keep_meant(c, read.written)) return tcc_enomem(c->diag);
    }
    return TCC_OK;
}

static tcc_status write_meant(checker *c, const tcc_fact_launch *l, const tcc_fact_use *use, int launch) {
    for (int i = 0; i < use->n_writes; i++) {
        const tcc_fact_value *v = &c->f->values.data[use->value];
        const tcc_region r = in_value(use, &use->writes[i]);
        tcc_marked_memory *own = &c->own[use->value];
        const tcc_marked_read before = tcc_marked_find(own, &c->own_parts, 0, use->value, &r);
        if (!r.exact && before.wrong)
            return TCC_BUG(c->diag, "%s (%s) may leave bytes of %s unwritten", l->label, l->lines,
                           name_of(c, use->value));
        if (!tcc_marked_write(own, &c->own_parts, 0, use->value, v->size_bytes, &r, writer_of(c, use, launch)))
            return tcc_enomem(c->diag);
    }
    return TCC_OK;
}

static tcc_status run_meant(checker *c) {
    for (int i = 0; i < c->f->graph->inputs.count; i++) {
        const int value = c->f->of_node[c->f->graph->inputs.data[i]->id];
        const tcc_marked mark = {0, c->f->values.data[value].size_bytes, 0, value, -1, 0};
        if (!tcc_marked_set(&c->own[value], mark)) return tcc_enomem(c->diag);
    }
    for (int i = 0; i < c->f->launches.count; i++) {
        const tcc_fact_launch *l = &c->f->launches.data[i];
        c->first_read[i] = c->meant.count;
        for (int k = 0; k < l->n_uses; k++)
            if (l->buffers[k].space != TCC_SPACE_CONST) TCC_TRY(read_meant(c, l, &l->uses[k]));
        for (int k = 0; k < l->n_uses; k++) TCC_TRY(write_meant(c, l, &l->uses[k], i));
    }
    return TCC_OK;
}

/* --- Bounds */

static int64_t bytes_of_space(const checker *c, const tcc_buffer *b) {
    if (b->space == TCC_SPACE_ARENA) return c->p->arena_bytes;
    if (b->space == TCC_SPACE_CONST) return c->p->constants_bytes;
    return b->binding >= 0 && b->binding < c->p->n_bindings ? tcc_type_bytes(&c->p->bindings[b->binding].type) : -1;
}

static bool fits(const checker *c, const tcc_buffer *b) {
    return b->offset_bytes >= 0 && b->size_bytes >= 0 && b->offset_bytes + b->size_bytes <= bytes_of_space(c, b);
}

static tcc_status check_bounds(const checker *c, const tcc_fact_launch *l, int k) {
    const tcc_buffer *b = &l->buffers[k];
    const tcc_fact_use *use = &l->uses[k];
    if (use->n_reads + use->n_writes && !fits(c, b))
        return TCC_BUG(c->diag, "%s: buffer %d, %lld bytes at %s, lies outside", step_of(c, l), k,
                       (long long)b->size_bytes, place_of(c, b, b->offset_bytes));
    for (int i = 0; i < use->n_reads + use->n_writes; i++) {
        const tcc_region *r = i < use->n_reads ? &use->reads[i] : &use->writes[i - use->n_reads];
        if (r->from < 0 || tcc_region_end(r) > b->size_bytes)
            return TCC_BUG(c->diag, "%s %s bytes %lld to %lld of buffer %d, which has %lld: %s", step_of(c, l),
                           i < use->n_reads ? "reads" : "writes", (long long)r->from, (long long)tcc_region_end(r), k,
                           (long long)b->size_bytes, name_of(c, use->value));
        if (i >= use->n_reads && b->space == TCC_SPACE_CONST)
            return TCC_BUG(c->diag, "%s writes constants through buffer %d", step_of(c, l), k);
    }
    return TCC_OK;
}

/* --- Conflicts */

static bool same_space(const tcc_buffer *a, const tcc_buffer *b) {
    return a->space == b->space && (a->space != TCC_SPACE_BINDING || a->binding == b->binding);
}

static bool overlap(const tcc_buffer *a, const tcc_region *r, const tcc_buffer *b, const tcc_region *s) {
    return same_space(a, b) && tcc_region_overlap(r, a->offset_bytes, s, b->offset_bytes);
}

static bool is_in_step(const tcc_fact_launch *l, int read, int write) {
    if (l->buffers[read].offset_bytes != l->buffers[write].offset_bytes) return false;
    for (int i = 0; i < l->n_in_step; i++)
        if (l->in_step[i].read == read && l->in_step[i].write == write) return true;
    return false;
}

/* The regions of use `k` against the region that buffer `w` writes. */
static tcc_status check_against(const checker *c, const tcc_fact_launch *l, int w, int written, int k) {
    const tcc_fact_use *use = &l->uses[k];
    const tcc_region *r = &l->uses[w].writes[written];
    for (int i = 0; i < use->n_writes; i++)
        if ((k > w || (k == w && i > written)) && overlap(&l->buffers[w], r, &l->buffers[k], &use->writes[i]))
            return TCC_BUG(c->diag, "%s writes %s twice: as %s, and as %s", step_of(c, l),
                           place_of(c, &l->buffers[w], l->buffers[w].offset_bytes + r->from),
                           name_of(c, l->uses[w].value), name_of(c, use->value));
    for (int i = 0; i < use->n_reads; i++)
        if (overlap(&l->buffers[w], r, &l->buffers[k], &use->reads[i]) && !is_in_step(l, k, w)) {
            tcc_status status = TCC_BUG(c->diag, "%s writes over what it reads elsewhere in its loop, at %s: reads %s",
                                        step_of(c, l), place_of(c, &l->buffers[w], l->buffers[w].offset_bytes),
                                        name_of(c, use->value));
            tcc_note(c->diag, TCC_NOWHERE, "writes %s", name_of(c, l->uses[w].value));
            return status;
        }
    return TCC_OK;
}

static tcc_status check_within(const checker *c, const tcc_fact_launch *l) {
    for (int w = 0; w < l->n_uses; w++)
        for (int i = 0; i < l->uses[w].n_writes; i++)
            for (int k = 0; k < l->n_uses; k++) TCC_TRY(check_against(c, l, w, i, k));
    return TCC_OK;
}

/* An access of one instance of a step. */
typedef struct touch {
    int64_t from, to, reach; /* addresses; reach: the largest `to` of the writes up to here */
    const tcc_fact_launch *launch;
    const tcc_region *region;
    int instance, use, space; /* -1: the arena, else a binding */
} touch;

static int by_address(const void *a, const void *b) {
    const touch *x = a, *y = b;
    if (x->space != y->space) return x->space < y->space ? -1 : 1;
    return x->from != y->from ? (x->from < y->from ? -1 : 1) : x->instance - y->instance;
}

typedef tcc_vec(touch) touches;

static bool add_touches(touches *to, const tcc_fact_launch *l, int instance, bool writes) {
    for (int k = 0; k < l->n_uses; k++) {
        const tcc_buffer *b = &l->buffers[k];
        const tcc_fact_use *use = &l->uses[k];
        for (int i = 0; i < (writes ? use->n_writes : use->n_reads) && b->space != TCC_SPACE_CONST; i++) {
            const tcc_region *r = writes ? &use->writes[i] : &use->reads[i];
            const touch t = {.from = b->offset_bytes + r->from,
                             .to = b->offset_bytes + tcc_region_end(r),
                             .launch = l,
                             .region = r,
                             .instance = instance,
                             .use = k,
                             .space = b->space == TCC_SPACE_ARENA ? -1 : b->binding};
            if (!tcc_vec_push(to, t)) return false;
        }
    }
    return true;
}

static tcc_status check_touch(const checker *c, const touches *writes, const touch *t, bool written) {
    int low = 0, high = writes->count;
    while (low < high) { /* the first write of the space that begins behind t */
        const int middle = low + (high - low) / 2;
        const touch *w = &writes->data[middle];
        if (w->space > t->space || (w->space == t->space && w->from >= t->to)) high = middle;
        else low = middle + 1;
    }
    for (int i = low - 1; i >= 0; i--) {
        const touch *w = &writes->data[i];
        if (w->space != t->space || w->reach <= t->from) break;
        if (w->instance == t->instance) continue;
        if (!tcc_region_overlap(w->region, w->launch->buffers[w->use].offset_bytes, t->region,
                                t->launch->buffers[t->use].offset_bytes))
            continue;
        tcc_status status = TCC_BUG(c->diag, "%s: instance %d %s what instance %d writes, at %s: %s",
                                    step_of(c, w->launch), t->instance, written ? "writes" : "reads", w->instance,
                                    place_of(c, &w->launch->buffers[w->use], w->from),
                                    name_of(c, t->launch->uses[t->use].value));
        tcc_note(c->diag, TCC_NOWHERE, "instance %d writes %s", w->instance, name_of(c, w->launch->uses[w->use].value));
        return status;
    }
    return TCC_OK;
}

static tcc_status check_touches(const checker *c, touches *writes, const touches *reads) {
    if (writes->count > 1) qsort(writes->data, (size_t)writes->count, sizeof *writes->data, by_address);
    for (int i = 0; i < writes->count; i++) {
        touch *w = &writes->data[i];
        const touch *before = i > 0 && w[-1].space == w->space ? &w[-1] : NULL;
        w->reach = before && before->reach > w->to ? before->reach : w->to;
    }
    for (int i = 0; i < writes->count; i++) TCC_TRY(check_touch(c, writes, &writes->data[i], true));
    for (int i = 0; i < reads->count; i++) TCC_TRY(check_touch(c, writes, &reads->data[i], false));
    return TCC_OK;
}

/* --- The program's steps */

static tcc_marked_memory *memory_of(const checker *c, const tcc_buffer *b) {
    return &c->spaces[b->space == TCC_SPACE_ARENA ? 0 : 1 + b->binding];
}

static tcc_status read_wrong(const checker *c, const tcc_fact_launch *l, int k, int value, int64_t base,
                             const tcc_marked_read *read) {
    tcc_status status = TCC_BUG(c->diag, "%s reads %s through buffer %d: %s is meant", step_of(c, l),
                                place_of(c, &l->buffers[k], base + read->at), k, name_of(c, value));
    if (!read->wrong)
        tcc_note(c->diag, TCC_NOWHERE,
                 "it is not as it was meant: a step that writes it is missing, or comes too "
                 "late or too early");
    else if (read->partial) tcc_note(c->diag, TCC_NOWHERE, "that byte of it has not been written");
    else if (read->value == -1) tcc_note(c->diag, TCC_NOWHERE, "nothing was written there");
    else
        tcc_note(c->diag, TCC_NOWHERE, "byte %lld of %s lies there", (long long)read->value_at,
                 name_of(c, read->value));
    return status;
}

static tcc_status read_use(checker *c, const tcc_fact_launch *l, int k, int *read_number) {
    const tcc_fact_use *use = &l->uses[k];
    const tcc_buffer *b = &l->buffers[k];
    if (use->value < 0) return TCC_OK;
    const tcc_fact_value *v = &c->f->values.data[use->value];
    const int64_t base = b->offset_bytes - use->offset_bytes;
    if (b->space == TCC_SPACE_CONST) {
        if (is_constant(c, v, base)) return TCC_OK;
        return TCC_BUG(c->diag, "%s reads %s through buffer %d: %s does not lie there", step_of(c, l),
                       place_of(c, b, b->offset_bytes), k, name_of(c, use->value));
    }
    for (int i = 0; i < use->n_reads; i++) {
        const tcc_region r = in_value(use, &use->reads[i]);
        const tcc_marked_read read = tcc_marked_find(memory_of(c, b), &c->parts, base, use->value, &r);
        if (read.wrong || read.written != c->meant.data[(*read_number)++])
            return read_wrong(c, l, k, use->value, base, &read);
    }
    return TCC_OK;
}

static tcc_status write_uses(checker *c, const tcc_fact_launch *l) {
    for (int k = 0; k < l->n_uses; k++) {
        const tcc_fact_use *use = &l->uses[k];
        const tcc_buffer *b = &l->buffers[k];
        for (int i = 0; i < use->n_writes; i++) {
            const tcc_region r = in_value(use, &use->writes[i]);
            if (!tcc_marked_write(memory_of(c, b), &c->parts, b->offset_bytes - use->offset_bytes, use->value,
                                  c->f->values.data[use->value].size_bytes, &r,
                                  writer_of(c, use, (int)(l - c->f->launches.data))))
                return tcc_enomem(c->diag);
        }
    }
    return TCC_OK;
}

static int by_buffers(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return x->buffers < y->buffers ? -1 : x->buffers > y->buffers;
}

/* The launch with these buffers; -1: there is none. */
static int launch_of(const checker *c, const tcc_buffer *buffers) {
    const entry key = {.buffers = buffers}, *found = NULL;
    if (c->f->launches.count) found = bsearch(&key, c->entries, (size_t)c->f->launches.count, sizeof key, by_buffers);
    return found ? found->launch : -1;
}

static tcc_status run_copy(checker *c, const tcc_step *s) {
    const tcc_buffer *from = &s->from, *to = &s->to;
    const tcc_region whole = tcc_region_whole(to->size_bytes);
    if (from->size_bytes != to->size_bytes || !fits(c, from) || !fits(c, to) || to->space == TCC_SPACE_CONST)
        return TCC_BUG(c->diag, "step %d (%s) copies out of bounds", c->step, s->label);
    if (overlap(from, &whole, to, &whole))
        return TCC_BUG(c->diag, "step %d (%s) copies %s onto itself", c->step, s->label,
                       place_of(c, from, from->offset_bytes));
    bool ok;
    if (from->space == TCC_SPACE_CONST) {
        const tcc_marked mark = {to->offset_bytes,
                                 to->offset_bytes + to->size_bytes,
                                 to->offset_bytes - from->offset_bytes,
                                 OF_CONSTANTS,
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
static tcc_status read_launch(checker *c, int at) {
    const tcc_fact_launch *l = &c->f->launches.data[at];
    if (at > 0 && l[-1].nothing && !c->runs[at - 1]++) {
        TCC_TRY(read_launch(c, at - 1));
        TCC_TRY(write_uses(c, l - 1));
    }
    for (int k = 0; k < l->n_uses; k++) TCC_TRY(check_bounds(c, l, k));
    TCC_TRY(check_within(c, l));
    int read_number = c->first_read[at];
    for (int k = 0; k < l->n_uses; k++) TCC_TRY(read_use(c, l, k, &read_number));
    return TCC_OK;
}

static const tcc_buffer *buffers_of(const tcc_step *s, int instance) {
    return s->kind == TCC_STEP_KERNEL ? s->instances[instance].buffers : s->call->buffers;
}

/* All instances read, then all write: none may see what another one writes. */
static tcc_status run_instances(checker *c, const tcc_step *s, touches *reads, touches *writes) {
    const int n = s->kind == TCC_STEP_KERNEL ? s->n_instances : 1;
    for (int i = 0; i < n; i++) {
        const int at = launch_of(c, buffers_of(s, i));
        const tcc_fact_launch *l = &c->f->launches.data[at];
        if (at < 0) return TCC_BUG(c->diag, "step %d (%s, %s) is no launch of a group", c->step, s->label, s->lines);
        if (c->runs[at]++) return TCC_BUG(c->diag, "%s runs for the second time", step_of(c, l));
        TCC_TRY(read_launch(c, at));
        if (n > 1 && (!add_touches(reads, l, i, false) || !add_touches(writes, l, i, true))) return tcc_enomem(c->diag);
    }
    TCC_TRY(check_touches(c, writes, reads));
    for (int i = 0; i < n; i++) TCC_TRY(write_uses(c, &c->f->launches.data[launch_of(c, buffers_of(s, i))]));
    return TCC_OK;
}

static tcc_status run_step(checker *c, const tcc_step *s) {
    if (s->kind == TCC_STEP_COPY) return run_copy(c, s);
    touches reads = {0}, writes = {0};
    tcc_status status = run_instances(c, s, &reads, &writes);
    tcc_vec_free(&reads);
    tcc_vec_free(&writes);
    return status;
}

/* --- The end */

static tcc_status check_output(const checker *c, const tcc_output *output, int binding) {
    const int value = c->f->of_node[output->node->id];
    const tcc_fact_value *v = &c->f->values.data[value];
    const tcc_region whole = whole_of(v);
    const tcc_marked_memory *m = &c->spaces[1 + binding];
    if (v->node->op == TCC_OP_CONSTANT && m->count && m->data[0].value == OF_CONSTANTS) {
        const tcc_marked_read read =
            tcc_marked_find(m, &c->parts, m->data[0].base, OF_CONSTANTS,
                            &(tcc_region){-m->data[0].base, v->size_bytes, v->size_bytes, 1, true});
        if (!read.wrong && is_constant(c, v, -m->data[0].base)) return TCC_OK;
    }
    const tcc_marked_read read = tcc_marked_find(m, &c->parts, 0, value, &whole);
    if (!read.wrong) {
        const tcc_marked_read meant = tcc_marked_find(&c->own[value], &c->own_parts, 0, value, &whole);
        if (!meant.wrong && meant.written == read.written) return TCC_OK;
    }
    tcc_status status = TCC_BUG(c->diag, "in the end output %s is not %s, from byte %lld on", output->name,
                                name_of(c, value), (long long)(read.wrong ? read.at : 0));
    tcc_note(c->diag, TCC_NOWHERE, "%s lies there", name_of(c, read.wrong ? read.value : value));
    return status;
}

static tcc_status check_end(const checker *c) {
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
        const tcc_region whole = whole_of(&c->f->values.data[value]);
        const tcc_marked_read read = tcc_marked_find(&c->spaces[1 + i], &c->parts, 0, value, &whole);
        if (read.wrong)
            return TCC_BUG(c->diag, "%s is written over input %s, which nothing replaces", name_of(c, read.value),
                           c->p->bindings[i].name);
    }
    return TCC_OK;
}

/* --- The whole */

static tcc_status begin(checker *c) {
    const size_t values = (size_t)c->f->values.count + 1, launches = (size_t)c->f->launches.count + 1;
    c->own = tcc__calloc(values, sizeof *c->own);
    c->spaces = tcc__calloc((size_t)c->p->n_bindings + 2, sizeof *c->spaces);
    c->entries = tcc__calloc(launches, sizeof *c->entries);
    c->first_read = tcc__calloc(launches, sizeof *c->first_read);
    c->runs = tcc__calloc(launches, sizeof *c->runs);
    if (!c->own || !c->spaces || !c->entries || !c->first_read || !c->runs) return tcc_enomem(c->diag);
    for (int i = 0; i < c->f->launches.count; i++) c->entries[i] = (entry){c->f->launches.data[i].buffers, i};
    if (c->f->launches.count) qsort(c->entries, (size_t)c->f->launches.count, sizeof *c->entries, by_buffers);
    for (int i = 0; i < c->f->graph->inputs.count; i++) {
        const int value = c->f->of_node[c->f->graph->inputs.data[i]->id];
        const tcc_marked mark = {0, c->f->values.data[value].size_bytes, 0, value, -1, 0};
        if (!tcc_marked_set(&c->spaces[1 + i], mark)) return tcc_enomem(c->diag);
    }
    return TCC_OK;
}

static void end(checker *c) {
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
    checker c = {.p = p, .f = facts, .diag = diag};
    tcc_status status = begin(&c);
    if (status == TCC_OK) status = run_meant(&c);
    for (c.step = 0; c.step < p->n_steps && status == TCC_OK; c.step++) status = run_step(&c, &p->steps[c.step]);
    if (status == TCC_OK) status = check_end(&c);
    end(&c);
    return status;
}
