/* SPDX-License-Identifier: MIT
 * Loads whose lanes lie near one another at places that are looked up or divided, as those of images that are resized
 * do. A processor gathers lane by lane. Here all elements in between are loaded, and the lanes are picked from them. */
#include "codegen/body/access.h"
#include "codegen/body/run.h"

enum { MOST_VECTORS = 2, FAR = 1 << 20 };

/* Whether a load is one of a table of the program, which is known now. */
static bool is_table(const tcc_body *b, const tcc_expr *x) {
    if (x->kind != TCC_EXPR_LOAD || x->n_operands || x->dtype != TCC_I32) return false;
    const tcc_body_buffer *of = &b->buffers.data[x->buffer];
    return of->literal || (of->node && of->node->op == TCC_OP_CONSTANT && of->node->attrs->constant.values.count > 1);
}

static int64_t entry(const tcc_body_buffer *table, int64_t i) {
    return table->literal ? ((const int32_t *)table->literal)[i]
                          : (int64_t)table->node->attrs->constant.values.v[table->offset + i];
}

/* Elements from the first lane's entry of a table whose rows ascend to the last one's, at most; FAR: one does not. */
static int64_t reach_in_table(const tcc_body_buffer *table, int lanes) {
    const int64_t n = table->literal ? table->literal_bytes / (int64_t)sizeof(int32_t)
                                     : table->node->attrs->constant.values.count - table->offset;
    const int64_t row = table->row ? table->row : n;
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t end = i - i % row + row, last = i + lanes < end ? i + lanes - 1 : end - 1;
        const int64_t reach = entry(table, last) - entry(table, i);
        if (i + 1 < end && entry(table, i + 1) < entry(table, i)) return FAR;
        if (reach > most) most = reach;
    }
    return most < FAR ? most : FAR;
}

/* How far the last lane's value of an expression is from the first one's, at most. The values ascend; FAR: it is not
 * known. */
static int64_t reach_of(const tcc_body_run *r, const tcc_expr *x) {
    const tcc_expr *index = x->kind == TCC_EXPR_DIV ? x->operands[0] : x;
    if ((x->kind != TCC_EXPR_DIV && x->kind != TCC_EXPR_LOAD) || (x->kind == TCC_EXPR_LOAD && x->n_operands))
        return FAR;
    if (x->kind == TCC_EXPR_DIV && index->kind != TCC_EXPR_INDEX) return FAR;
    const int64_t stride = tcc_body_stride(r, &index->affine), reach = stride * (r->lanes - 1);
    if (stride < 1) return FAR;
    if (x->kind == TCC_EXPR_DIV) {
        int64_t low, high;
        tcc_affine_range(r->body, &index->affine, &low, &high);
        return low < 0 ? FAR : reach / x->integer + 1; /* quotients of negative numbers are no numbers in particular */
    }
    if (!is_table(r->body, x) || stride > 1) return FAR;
    return reach_in_table(&r->body->buffers.data[x->buffer], r->lanes);
}

/* The elements that a load's lanes lie within. */
static int64_t span_of(const tcc_body_run *r, const tcc_affine *a) {
    int64_t span = 1;
    for (int i = 0; i < a->n && span < FAR; i++) {
        const tcc_term t = a->terms[i];
        const tcc_var *v = &r->body->vars.data[t.var];
        if (v->kind == TCC_VAR_LOOP ? t.var != r->lane_var : !tcc_body_varies(r, v->value)) continue;
        if (t.coefficient < 0) return FAR;
        span += t.coefficient * (v->kind == TCC_VAR_LOOP ? r->lanes - 1 : reach_of(r, v->value));
    }
    return span;
}

bool tcc_body_lies_there(const tcc_body *b, const tcc_expr *load) {
    const tcc_body_buffer *from = &b->buffers.data[load->buffer];
    int64_t low, high;
    for (int i = 0; i < load->affine.n; i++)
        if (b->vars.data[load->affine.terms[i].var].kind != TCC_VAR_LOOP) return false;
    tcc_affine_range(b, &load->affine, &low, &high);
    return from->node && low + from->offset >= 0 && high + from->offset < tcc_type_numel(&from->node->type);
}

void tcc_body_describe_near(const tcc_body *b, const tcc_expr *x, tcc_strbuf *out) {
    enum { LEAST = 8, MOST = 64 /* lanes */ };
    bool looks_up = false;
    for (int i = 0; i < x->affine.n; i++) {
        const tcc_var *v = &b->vars.data[x->affine.terms[i].var];
        const bool table = v->kind == TCC_VAR_VALUE && is_table(b, v->value);
        looks_up |= table || (v->kind == TCC_VAR_VALUE && v->value->kind == TCC_EXPR_DIV);
        for (int lanes = LEAST; table && lanes <= MOST; lanes *= 2)
            tcc_strbuf_printf(out, " near%lld", (long long)reach_in_table(&b->buffers.data[v->value->buffer], lanes));
    }
    if (!looks_up && !x->n_operands) return;
    const tcc_region region = tcc_region_of_load(b, x); /* what a guard leaves of it may end with the value */
    tcc_strbuf_printf(out, " in%lld+%lld%s", (long long)region.from, (long long)region.run,
                      tcc_body_lies_there(b, x) ? "!" : "");
}

int tcc_body_near(const tcc_body_run *r, const tcc_expr *x) {
    const bool fits = x->dtype == TCC_F32 || x->dtype == TCC_BF16 || x->dtype == TCC_F16 || x->dtype == TCC_I32;
    if (r->forms || r->any_extent || !fits || !tcc_emit_has_permutes(r->e->target, r->lanes)) return 0;
    const int64_t span = span_of(r, &x->affine), bytes = tcc_dtype_bytes(x->dtype);
    const tcc_region region = tcc_region_of_load(r->body, x);
    for (int elements = r->lanes; elements <= MOST_VECTORS * r->lanes; elements *= 2)
        if (span <= elements)
            return region.run >= elements * bytes && tcc_emit_has_permutes(r->e->target, elements) ? elements : 0;
    return 0;
}

/* What is loaded begins at the first lane, which exists whatever the mask says of others; or near it, so that it lies
 * in the region that the load reads: a lane that is wanted does. */
tcc_emit_value tcc_body_emit_near(tcc_body_run *r, const tcc_expr *x, int elements, tcc_emit_value mask) {
    tcc_emitter *e = r->e;
    const tcc_region region = tcc_region_of_load(r->body, x);
    const int64_t bytes = tcc_dtype_bytes(x->dtype), last = tcc_region_end(&region) / bytes - elements;
    const tcc_emit_type memory = tcc_emit_dtype(e, x->dtype), indices = tcc_emit_vector_type(e->i32, r->lanes);
    tcc_emit_value offset = tcc_body_offset(r, &x->affine);
    tcc_emit_value part = tcc_body_lane_part(r, &x->affine, tcc_body_offset_type(r, &x->affine));
    tcc_emit_value first = tcc_emit_extract(e, part, tcc_emit_i32(e, 0));
    if (tcc_emit_type_of(first) != e->i64) first = tcc_emit_sext(e, first, e->i64);
    tcc_emit_value from = tcc_emit_min(e, tcc_emit_add(e, offset, first), tcc_emit_i64(e, last));
    int64_t low, high;
    tcc_affine_range(r->body, &x->affine, &low, &high);
    if (low * bytes < region.from) from = tcc_emit_max(e, from, tcc_emit_i64(e, region.from / bytes));
    tcc_emit_value loaded = tcc_emit_load(e, tcc_emit_vector_type(memory, elements),
                                          tcc_emit_at(e, memory, r->bases[x->buffer], from), 0);
    tcc_emit_value apart = tcc_emit_trunc(e, tcc_emit_sub(e, from, offset), e->i32);
    if (tcc_emit_type_of(part) != indices) part = tcc_emit_trunc(e, part, indices);
    tcc_emit_value picked = tcc_emit_permute(e, tcc_scalar_from_memory(e, loaded, x->dtype),
                                             tcc_emit_isub(e, part, tcc_emit_splat(e, apart, r->lanes)));
    return mask ? tcc_emit_select(e, mask, picked, tcc_emit_null(tcc_emit_type_of(picked))) : picked;
}
