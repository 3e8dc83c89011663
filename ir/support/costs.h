/* SPDX-License-Identifier: MIT
 * What work costs on a target: each price that a planner weighs, with its unit; costs.c has the numbers and where they
 * come from. A target is asked for them in one place (tcc_costs_of_host, tcc_costs_of_gpu), and passes and codegen read
 * the same. They follow from its figures alone (hardware.h), never from the number of threads or from what else runs:
 * choices decide the order of sums. What it takes between ranks is the network's (network.h). */
#ifndef TCC_SUPPORT_COSTS_H
#define TCC_SUPPORT_COSTS_H

#include "ir/support/dtype.h"
#include "ir/support/hardware.h"

/* The part of the multiply-adds that a target's figures promise which kernels reach whose name begins with `kernel`. */
typedef struct tcc_reached {
    const char *kernel;
    double plain, matrices; /* by vectors or threads; by tensor cores or tiles */
} tcc_reached;

/* What a host's product takes beside its multiply-adds, in cycles of a core that begins one of a vector in each. */
typedef struct tcc_product_cycles {
    double b_in_place, b_rows, b_columns; /* an element of B: read where it lies, or packed from rows or columns */
    double a_rows, a_columns;             /* an element of A, packed */
    double kept;                          /* a vector of sums that stays between two blocks of k */
    double parts;                         /* and one that parts of the sum have in the workspace */
} tcc_product_cycles;

typedef struct tcc_costs {
    /* Launches, as they are predicted: the longer of traffic and arithmetic (codegen/schedule/predict.c). */
    double launch_ns;           /* from one launch to the next */
    double bytes_a_ns;          /* of memory */
    const tcc_reached *reached; /* of kernels for products; ends with a row without a name */
    double reached_elsewhere;   /* by other kernels, of what vectors or threads do */

    /* Work on elements, which fuse and remat weigh: a value is stored and loaded, or computed again. */
    double byte_ns;              /* of memory, written or read */
    double cached_byte_ns;       /* that a kernel reads again */
    double instruction_ns;       /* a simple one, for an element; ops are so many of them (cost in ops.def) */
    double repeated_ns;          /* an element whose vector ends where a value that a row repeats does */
    double exposed;              /* the part of instructions that takes time in a kernel which waits for memory */
    double avoided_launch_ns;    /* what a launch less is worth */
    double beside_ns;            /* an instruction for an element of an operand of a product, in the product's kernel */
    double operand_part;         /* of what the work for an operand costs elsewhere, in the product's kernel */
    double operand_part_bf16;    /* the same of an operand of bf16 */
    double operand_instructions; /* that it takes for an element, as the plan of a GPU's product assumes */

    /* Products on a GPU (codegen/contract/gpu_plan.c). */
    double block_cycles;    /* before a turn of blocks multiplies, and behind */
    double combine_cycles;  /* the second launch, which adds up parts of sums; beside its traffic */
    double combine_reached; /* the part of the memory's bandwidth that its long reads reach */
    double idle_rate;       /* of a processor with next to no threads, as part of its full rate */

    /* Products on a host (codegen/contract/plan.c, blocks.c). */
    tcc_product_cycles f32, bf16;
    double packed_element_cycles; /* of a panel of B, a step of k */
    double far_element_cycles;    /* of B, which leaves the cache between two uses */
    double item_cycles;           /* to hand over a work item */
    double item_flop;             /* that one should have at least */
    double missing_item;          /* the part by which a product gets longer, for each time that items are too few */
    double scattered_steps;       /* of k, that storing a vector with distances between its elements is like */
    double gathered;              /* a step of k whose vectors of B are gathered or transposed, in usual ones */

    /* Calls of a GPU's libraries. */
    double least_call_fma;     /* multiply-adds from which on one is asked about a product: with fewer, launches bind */
    double planned_call_bytes; /* of traffic in a step, that a call has to save which is planned for seconds */

    /* Padding a product's rows, so that tensor cores are fed (passes/align.c). */
    double padding_flop;       /* of a product that pay for a byte of an operand which is copied for it */
    double least_aligned_flop; /* of a product for which padding is thought about */
} tcc_costs;

void tcc_costs_of_host(const tcc_hardware *hw, tcc_costs *out);
void tcc_costs_of_gpu(const tcc_hardware *hw, tcc_costs *out);

/* Of a product's operand of that type. */
double tcc_costs_operand_part(const tcc_costs *costs, tcc_dtype type);

/* NULL: of no kernel that is made for products. */
const tcc_reached *tcc_costs_reached(const tcc_costs *costs, const char *kernel);

#endif
