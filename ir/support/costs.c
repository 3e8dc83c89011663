/* SPDX-License-Identifier: MIT
 * The prices of targets. */
#include "ir/support/costs.h"

#include <string.h>

/* The part of the described peak that kernels reach decides whether a library's call is worth that its result is
 * written and read once more, which our kernel spares. On a GPU it is derived from data sheets and a few measured
 * shapes.
 *
 * On a host it is measured: all contractions of GPT, ResNet-18 and ResNet-50 on two cores of Zen 4, in f32 and bf16.
 * There kernels reach nine tenths of what the cores can do. But a host is described with eight cores, of which each
 * begins two multiply-adds of whole vectors in a cycle, beside the bandwidth of two, which begin one. So the part says
 * how much is computed while a byte is moved. Tiles were not measured there: their part is smaller by as much. */
/* clang-format off */
static const tcc_reached of_gpu[] = {
    {"cublaslt.matmul", 0.9,  0.8  },
    {"cudnn.",          0.9,  0.7  },
    {"contract",        0.6,  0.27 },
    {"attention",       0.4,  0.2  },
    {0},
}, of_host[] = {
    {"contract",        0.14, 0.063},
    {"winograd",        0.12, 0.12 },
    {"attention",       0.12, 0.06 },
    {0},
};
/* clang-format on */

const tcc_reached *tcc_costs_reached(const tcc_costs *costs, const char *kernel) {
    for (const tcc_reached *r = costs->reached; r->kernel; r++)
        if (!strncmp(kernel, r->kernel, strlen(r->kernel))) return r;
    return NULL;
}

double tcc_costs_operand_part(const tcc_costs *costs, tcc_dtype type) {
    return type == TCC_BF16 ? costs->operand_part_bf16 : costs->operand_part;
}

void tcc_costs_of_host(const tcc_hardware *hw, tcc_costs *out) {
    /* GB/s that cores share which work on elements, with vectors of 16 f32. */
    static const double shared = 16.384;
    *out = (tcc_costs){
        .launch_ns = 2000,
        .bytes_a_ns = 1e-9 * hw->bytes_per_s,
        .reached = of_host,
        .reached_elsewhere = 0.2,

        .byte_ns = 1 / shared,
        .cached_byte_ns = 0.5 / shared,
        .instruction_ns = 0.4 / shared,
        .repeated_ns = 4 / shared, /* ten instructions more: of 16 lanes, four or eight are used */
        .exposed = 1.0 / 4,        /* kernels wait for memory most of the time, and compute meanwhile */
        .avoided_launch_ns = 2000,
        .beside_ns = 0.4 / shared,
        /* Measured: beside the products, which take most of the time. Those of bf16 take half of it, and their operands
         * are rounded: at 0.1, a step of ResNet-18 took a tenth longer than with all images in memory. */
        .operand_part = 0.1,
        .operand_part_bf16 = 0.4,

        /* bf16's are measured (bench_contract on Sapphire Rapids, large products): they seem higher because a cycle
         * multiplies 16 times as much, and the workspace is written to memory and read from there. */
        .f32 = {.b_in_place = 0.06, .b_rows = 0.15, .b_columns = 0.4, 0.2, 0.2, .kept = 3, .parts = 8},
        .bf16 = {.b_in_place = 0.06, .b_rows = 0.6, .b_columns = 0.8, 0.4, 1, .kept = 20, .parts = 60},
        .packed_element_cycles = 0.3, /* measured, 2048 x 2048 */
        .far_element_cycles = 0.5,
        .item_cycles = 500,
        .item_flop = 2e6, /* some 10 us on one core, against a microsecond to hand it over */
        .missing_item = 0.02,
        .scattered_steps = 40,
        .gathered = 1.03, /* 8 steps of k, at every step of packing */

        /* Hosts have no tensor cores that want rows of a length. */
    };
}

void tcc_costs_of_gpu(const tcc_hardware *hw, tcc_costs *out) {
    const double byte_ns = 1e9 / hw->bytes_per_s;
    *out = (tcc_costs){
        .launch_ns = 2000,
        .bytes_a_ns = 1e-9 * hw->bytes_per_s,
        .reached = of_gpu,
        .reached_elsewhere = 0.2,

        .byte_ns = byte_ns,
        .cached_byte_ns = 0.5 * byte_ns,
        /* A GPU computes for other warps while some wait for memory, so instructions begin at the full rate. */
        .instruction_ns = 1e9 / (hw->fma_f32 * hw->processors * hw->clock_hz),
        .exposed = 1,
        /* Launches follow each other closely and are replayed by graphs: a launch is worth the traffic that it is on a
         * host, and work beside products the instructions. */
        .avoided_launch_ns = 32768 * byte_ns,
        .beside_ns = 0.4 * byte_ns,
        .operand_part = 1,
        .operand_part_bf16 = 1,
        .operand_instructions = 10,

        .block_cycles = 1500,
        .combine_cycles = 4000,
        .combine_reached = 0.9,
        .idle_rate = 0.3,

        .least_call_fma = 1 << 24, /* derived from data sheets, not measured */
        /* A plan takes the library some 2 s, once a shape: at 2e12 bytes/s and over 1e5 steps. */
        .planned_call_bytes = 4e7,

        /* Without alignment a product runs at 50 to 100 of the 700 Tflop/s that it runs at with it, and memory at
         * 3 TB/s. A small one takes a few microseconds either way. */
        .padding_flop = 64,
        .least_aligned_flop = 1e9,
    };
}
