/* SPDX-License-Identifier: MIT
 * The reference run. The launches run in the order in which they were made, with separate memory for each value. The
 * mark that each read finds is recorded. */
#include "codegen/verify/checker.h"

#include "ir/support/hash.h"

#include <string.h>

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
bool tcc_checker_is_constant(const tcc_checker *c, const tcc_fact_value *v, int64_t at) {
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

static bool keep_meant(tcc_checker *c, uint64_t written) { return tcc_vec_push(&c->meant, written); }

tcc_region tcc_fact_whole(const tcc_fact_value *v) { return tcc_region_whole(v->size_bytes); }

tcc_region tcc_fact_in_value(const tcc_fact_use *use, const tcc_region *r) {
    tcc_region moved = *r;
    moved.from += use->offset_bytes;
    return moved;
}

static tcc_status meant_wrong(const tcc_checker *c, const tcc_fact_launch *l, int value, const tcc_marked_read *read) {
    tcc_status status = TCC_BUG(c->diag, "%s (%s) reads byte %lld of %s before it is written", l->label, l->lines,
                                (long long)read->at, tcc_checker_name(c, value));
    return status;
}

/* Who writes a constant does not matter. */
uint64_t tcc_checker_writer(const tcc_checker *c, const tcc_fact_use *use, int launch) {
    const tcc_node *n = c->f->values.data[use->value].node;
    return n && n->op == TCC_OP_CONSTANT ? 0 : (uint64_t)launch + 1;
}

static tcc_status read_meant(tcc_checker *c, const tcc_fact_launch *l, const tcc_fact_use *use) {
    for (int i = 0; i < use->n_reads; i++) {
        const tcc_region r = tcc_fact_in_value(use, &use->reads[i]);
        const tcc_marked_read read = tcc_marked_find(&c->own[use->value], &c->own_parts, 0, use->value, &r);
        if (read.wrong) return meant_wrong(c, l, use->value, &read);
        if (!keep_meant(c, read.written)) return tcc_enomem(c->diag);
    }
    return TCC_OK;
}

static tcc_status write_meant(tcc_checker *c, const tcc_fact_launch *l, const tcc_fact_use *use, int launch) {
    for (int i = 0; i < use->n_writes; i++) {
        const tcc_fact_value *v = &c->f->values.data[use->value];
        const tcc_region r = tcc_fact_in_value(use, &use->writes[i]);
        tcc_marked_memory *own = &c->own[use->value];
        const tcc_marked_read before = tcc_marked_find(own, &c->own_parts, 0, use->value, &r);
        if (!r.exact && before.wrong)
            return TCC_BUG(c->diag, "%s (%s) may leave bytes of %s unwritten", l->label, l->lines,
                           tcc_checker_name(c, use->value));
        if (!tcc_marked_write(own, &c->own_parts, 0, use->value, v->size_bytes, &r, tcc_checker_writer(c, use, launch)))
            return tcc_enomem(c->diag);
    }
    return TCC_OK;
}

tcc_status tcc_checker_run_meant(tcc_checker *c) {
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
