/* SPDX-License-Identifier: MIT
 * The cost of a computed operand of a contraction: how often each of its elements is computed. */
#include "codegen/contract/conv.h"
#include "codegen/contract/launch.h"
#include "codegen/contract/winograd.h"

/* -- On a GPU: each tile of the operand is computed again for each tile of the other one -- */

static int64_t tiles(int64_t rows) {
    enum { TILE = 128 }; /* rows or columns of the result that a block of threads makes */
    return rows <= TILE ? 1 : (rows + TILE - 1) / TILE;
}

/* A tile of an image is read once for each element of the kernel. */
static int64_t repeats_of_conv(const tcc_node *hero, int k) {
    const bool last = hero->attrs->conv.channels_last;
    const tcc_node *w = hero->op == TCC_OP_CONV_GRAD_WEIGHT ? hero : hero->operands[1];
    const int spatial = w->type.rank - 2, first = last ? 1 : 2;
    int64_t taps = 1, pixels = hero->type.dims[0];
    for (int i = first; i < first + spatial; i++) taps *= w->type.dims[i], pixels *= hero->type.dims[i];
    const int64_t out = w->type.dims[0], in = w->type.dims[last ? spatial + 1 : 1];
    switch (hero->op) {
    case TCC_OP_CONV: return k ? tiles(pixels) : taps * tiles(out);
    case TCC_OP_CONV_GRAD_INPUT: return k ? tiles(pixels) : taps * tiles(in);
    default: return k ? tiles(in * taps) : taps * tiles(out);
    }
}

static int64_t repeats_on_gpu(const tcc_node *hero, int k) {
    if (hero->op != TCC_OP_DOT) return repeats_of_conv(hero, k);
    const tcc_type *own = &hero->operands[k]->type;
    const tcc_dims *summed = k ? &hero->attrs->dot.contract_b : &hero->attrs->dot.contract_a;
    int64_t free = 1, others = tcc_type_numel(&hero->type);
    for (int i = 0; i < own->rank; i++)
        if (!tcc_dims_has(summed, i)) free *= own->dims[i];
    others = free ? others / free : 1; /* of the result's dims, those that the operand has not */
    return tiles(others);
}

/* -- On the host: once for each block of rows, and tiles of Winograd's algorithm overlap -- */

static tcc_status repeats_on_host(tcc_lowering *l, int k, int64_t *out) {
    const tcc_node *hero = l->group->hero;
    if (hero->op != TCC_OP_CONV_GRAD_WEIGHT || k) return TCC_OK;
    const tcc_conv c = tcc_conv_read(hero);
    if (!tcc_conv_computes_image(l, &c, c.x)) return TCC_OK;
    TCC_TRY(tcc_lower_winograd(l));
    if (l->launches.count) {
        const tcc_winograd *w = l->launches.data[0].kernel.data;
        *out = 4 * w->row_blocks;
        return TCC_OK;
    }
    TCC_TRY(tcc_lower_contract(l));
    const tcc_contract_plan *p = l->launches.count ? tcc_contract_plan_of(&l->launches.data[0]) : NULL;
    if (!p || p->swapped) return TCC_OK;
    const double times = (double)(p->B * p->row_blocks) * (double)p->K * (double)p->N;
    *out = (int64_t)(times / (double)tcc_type_numel(&c.x->type) + 0.5);
    if (*out < 1) *out = 1;
    return TCC_OK;
}

tcc_status tcc_contract_computes(tcc_lowering *l, int k, tcc_operand_work *out) {
    *out = (tcc_operand_work){.reads = TCC_GROUP_MAX_READS};
    if (tcc_contract_stages_operands(l)) {
        out->repeats = repeats_on_gpu(l->group->hero, k);
        return TCC_OK;
    }
    *out = (tcc_operand_work){.reads = TCC_GROUP_MAX_ACCESSES - 2, .by_channels = true};
    return repeats_on_host(l, k, &out->repeats);
}
