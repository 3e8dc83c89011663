/* SPDX-License-Identifier: MIT
 * A device in figures: the one description that plans, limits and predicted times read. The table by architecture is in
 * hardware.c; if a device is present, its driver's figures replace the table's. Plain data: the runtime fills it in
 * without LLVM. */
#ifndef TCC_SUPPORT_HARDWARE_H
#define TCC_SUPPORT_HARDWARE_H

#include <stdint.h>

/* Of a GPU, unless the host is named. A processor is a streaming multiprocessor; on the host it is a core. 0: not
 * known. */
typedef struct tcc_hardware {
    int sm; /* compute capability, 10 * major + minor: 90; 0 on the host */
    int processors;
    /* Limits. */
    int threads_per_block, threads_per_processor, warps_per_processor, blocks_per_processor;
    int registers_per_processor; /* of 32 bits; also the most of a block */
    int registers_per_thread;
    int64_t shared_bytes;               /* shared memory that any block may have */
    int64_t shared_optin_bytes;         /* that a block may have which asks for it */
    int64_t shared_bytes_per_processor; /* for all blocks, with what the driver reserves for each */
    int64_t shared_reserved_bytes;      /* that reserve, a block */
    /* Speed. */
    int64_t cache_bytes; /* second level: of the device; host: of a core */
    double clock_hz, bytes_per_s /* of memory */;
    /* Multiply-adds that a processor does in a cycle; the latter two on tensor cores, by mma.sync of f16 and of tf32
     * with sums of f32. 0: it has no such. */
    double fma_f32, fma_f64, fma_f16, fma_tf32;
    /* Host: of bf16 with sums of f32, by vectors of pairs (AVX512-BF16) and by tiles (AMX). 0: it has no such. */
    double fma_bf16_pairs, fma_bf16_tiles;
} tcc_hardware;

/* The figures of a usual device of that compute capability: of the newest one in the table that is not newer. */
void tcc_hardware_of_sm(int sm, tcc_hardware *out);
/* The same, replaced by the figures of `device` that are known. */
void tcc_hardware_of_device(const tcc_hardware *device, tcc_hardware *out);
/* What a host has beside its vectors. */
enum {
    TCC_HOST_PAIRS = 1,      /* AVX512-BF16, */
    TCC_HOST_FAST_PAIRS = 2, /* which takes as many pairs in a cycle as f32 multiply-adds of f32: AMD's */
    TCC_HOST_TILES = 4,      /* AMX with bf16, which the system lets us use */
};
/* Figures of a host whose vectors have `lanes` of f32. They are the same on each machine with such vectors and units,
 * so that programs are. */
void tcc_hardware_of_host(int lanes, unsigned units, tcc_hardware *out);

/* Threads of a processor that have `registers` each; at most those that it holds. */
int tcc_hardware_threads(const tcc_hardware *h, int registers);

#endif
