/* SPDX-License-Identifier: MIT
 * The table of devices by architecture. Limits: CUDA C++ Programming Guide, "Compute Capabilities", table "Technical
 * Specifications per Compute Capability". Rates of f32 and f64: the same guide, "Throughput of Native Arithmetic
 * Instructions". Those of tensor cores, processors, clocks and bandwidth: NVIDIA's data sheets of the device that is
 * named. */
#include "ir/support/hardware.h"

#include <math.h>

enum { KIB = 1024, MIB = 1024 * 1024, WARP = 32, THREADS = 1024, REGISTERS = 64 * 1024, REGISTERS_OF_THREAD = 255 };
enum { SHARED_KIB = 48 }; /* that a block has without asking */

typedef struct row {
    int sm;
    int threads, blocks;          /* of a processor */
    int shared_kib, reserved_kib; /* of a processor; of it, for each block */
    int processors, clock_mhz, gb_per_s, l2_mib;
    int f32, f64, f16, tf32;
} row;

/* clang-format off */
static const row rows[] = {
    /*    threads blocks shared reserved   SMs   MHz  GB/s  MiB  f32 f64   f16 tf32 */
    { 75,    1024,    16,    64,       0,   40, 1590,  320,   4,   64,  2,  512,   0}, /* T4 */
    { 80,    2048,    32,   164,       1,  108, 1410, 1555,  40,   64, 32, 1024, 512}, /* A100 */
    { 86,    1536,    16,   100,       1,   72, 1695,  600,   6,  128,  2,  512, 256}, /* A10 */
    { 87,    1536,    16,   164,       1,   16, 1300,  204,   4,  128,  2, 1024, 512}, /* Jetson AGX Orin */
    { 89,    1536,    24,   100,       1,  142, 2520,  864,  96,  128,  2,  512, 256}, /* L40S */
    { 90,    2048,    32,   228,       1,  132, 1980, 3350,  50,  128, 64, 1024, 512}, /* H100 SXM */
    {100,    2048,    32,   228,       1,  148, 1965, 8000, 126,  128, 64, 1024, 512}, /* B200 */
    {103,    2048,    32,   228,       1,  148, 1920, 8000, 126,  128,  2, 1024, 512}, /* B300 */
    {120,    1536,    24,   100,       1,  170, 2407, 1792,  96,  128,  2,  512, 256}, /* RTX 5090 */
    {121,    1536,    24,   100,       1,   48, 2418,  273,  24,  128,  2,  512, 256}, /* GB10 */
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof *rows };

void tcc_hardware_of_sm(int sm, tcc_hardware *out) {
    const row *r = &rows[0];
    for (int i = 0; i < ROWS; i++)
        if (rows[i].sm <= sm) r = &rows[i];
    *out = (tcc_hardware){
        .sm = sm,
        .processors = r->processors,
        .threads_per_block = THREADS,
        .threads_per_processor = r->threads,
        .warps_per_processor = r->threads / WARP,
        .blocks_per_processor = r->blocks,
        .registers_per_processor = REGISTERS,
        .registers_per_thread = REGISTERS_OF_THREAD,
        .shared_bytes = SHARED_KIB * KIB,
        .shared_optin_bytes = (int64_t)(r->shared_kib - r->reserved_kib) * KIB,
        .shared_bytes_per_processor = (int64_t)r->shared_kib * KIB,
        .shared_reserved_bytes = (int64_t)r->reserved_kib * KIB,
        .cache_bytes = (int64_t)r->l2_mib * MIB,
        .clock_hz = r->clock_mhz * 1e6,
        .bytes_per_s = r->gb_per_s * 1e9,
        .fma_f32 = r->f32,
        .fma_f64 = r->f64,
        .fma_f16 = r->f16,
        .fma_tf32 = r->tf32,
    };
}

/* Data sheets round: what is nearly the table's is the table's, so that code made ahead for an architecture is the code
 * for its usual device. */
static double settled(double device, double table) {
    const double near = 0.01;
    return device <= 0 || fabs(device - table) < near * table ? table : device;
}

void tcc_hardware_of_device(const tcc_hardware *device, tcc_hardware *out) {
    tcc_hardware_of_sm(device->sm, out);
#define KNOWN(field) \
    if (device->field > 0) out->field = device->field
    KNOWN(processors);
    KNOWN(threads_per_block);
    KNOWN(threads_per_processor);
    KNOWN(warps_per_processor);
    KNOWN(blocks_per_processor);
    KNOWN(registers_per_processor);
    KNOWN(registers_per_thread);
    KNOWN(shared_bytes);
    KNOWN(shared_optin_bytes);
    KNOWN(shared_bytes_per_processor);
    KNOWN(shared_reserved_bytes);
    KNOWN(cache_bytes);
    out->clock_hz = settled(device->clock_hz, out->clock_hz);
    out->bytes_per_s = settled(device->bytes_per_s, out->bytes_per_s);
    KNOWN(fma_f32);
    KNOWN(fma_f64);
    KNOWN(fma_f16);
    KNOWN(fma_tf32);
#undef KNOWN
}

void tcc_hardware_of_host(int lanes, unsigned units, tcc_hardware *out) {
    enum {
        CORES = 8,
        UNITS = 2,      /* that multiply and add vectors */
        TILE_FMA = 512, /* 16 x 16 x 32 in 16 cycles */
    };
    /* Intel's vdpbf16ps begins every second cycle (measured on Sapphire Rapids: half of f32's rate); Zen 4 and 5 begin
     * it as often as an f32 multiply-add (AMD, "Software Optimization Guide" of both). */
    const double pairs = units & TCC_HOST_FAST_PAIRS ? 2 * UNITS * lanes : units & TCC_HOST_PAIRS ? lanes : 0;
    *out = (tcc_hardware){.processors = CORES,
                          .cache_bytes = MIB,
                          .clock_hz = 3e9,
                          .bytes_per_s = 40e9,
                          .fma_f32 = UNITS * lanes,
                          .fma_f64 = UNITS * lanes / 2.0,
                          .fma_bf16_pairs = pairs,
                          .fma_bf16_tiles = units & TCC_HOST_TILES ? TILE_FMA : 0};
}

int tcc_hardware_threads(const tcc_hardware *h, int registers) {
    int threads = h->registers_per_processor / registers;
    return threads < h->threads_per_processor ? threads : h->threads_per_processor;
}
