/* SPDX-License-Identifier: MIT
 * Integers of several words: add, sub and mad that read and write the carry flag of a thread, which is a predicate. */
#include "lanes.h"

/* in: the operands, then the flag if it is read; out: the result, then the flag if it is written. */
void sim_exec_carry(sim_warp *w, const sim_inst *i, uint32_t mask) {
    const int n = i->op == OP_MAD_LO || i->op == OP_MAD_HI ? 3 : 2;
    const int bits = sim_type_size((sim_type)i->type) * 8;
    const uint32_t carry_in = i->n_in > n ? predicate(w, i->in[n]) : 0;
    uint64_t wide[LANES];
    uint32_t out[LANES], carry = 0;
    EACH_LANE {
        unsigned __int128 v[3];
        const unsigned carried = carry_in >> l & 1;
        for (int k = 0; k < n; k++) v[k] = bits == 64 ? row(w, i->in[k])->u64[l] : row(w, i->in[k])->u32[l];
        unsigned __int128 r;
        if (i->op == OP_SUB) {
            r = v[0] - v[1] - carried; /* a borrow is in the bits above */
        } else {
            unsigned __int128 product = v[0] * v[1];
            if (i->op == OP_MAD_HI && i->type == T_S32)
                product = (unsigned __int128)((__int128)(int32_t)v[0] * (int32_t)v[1]);
            if (i->op == OP_MAD_HI && i->type == T_S64)
                product = (unsigned __int128)((__int128)(int64_t)v[0] * (int64_t)v[1]);
            const unsigned __int128 word = bits == 64 ? UINT64_MAX : UINT32_MAX;
            r = i->op == OP_ADD ? v[0] + v[1] + carried
                                : ((i->op == OP_MAD_HI ? product >> bits : product) & word) + v[2] + carried;
        }
        wide[l] = (uint64_t)r, out[l] = (uint32_t)r;
        carry |= (uint32_t)(r >> bits & 1) << l;
    }
    if (bits == 64) commit64(w, i->out[0], wide, mask);
    else commit32(w, i->out[0], out, mask);
    if (i->n_out > 1) commit_predicate(w, i->out[1], carry, mask);
}
