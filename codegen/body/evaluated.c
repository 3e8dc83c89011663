/* SPDX-License-Identifier: MIT
 * Which nodes a body evaluates. */
#include "codegen/body/body.h"

int tcc_body_position(const tcc_body *b, const tcc_node *n) {
    int low = 0, high = b->n_nodes;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (b->nodes[middle]->id < n->id) low = middle + 1;
        else high = middle;
    }
    if (low < b->n_nodes && b->nodes[low] == n) return low;
    return n == b->also ? b->n_nodes : -1;
}
