/* SPDX-License-Identifier: MIT
 * Devices that the stand-in can be, one for each compute capability. Limits as in the CUDA Programming Guide, "Compute
 * Capabilities", table "Technical Specifications per Compute Capability"; the rest is of the device that is named. */
#include "sim.h"

/* clang-format off */
static const sim_profile profiles[] = {
    /* capability, and of a multiprocessor: blocks, warps, KiB of shared memory; KiB that a block may have of it;
     * multiprocessors, MHz, MHz and bits of memory, MiB of L2 */
    { 75, 16, 32,  64,  64,  40, 1590,  5001,  256,   4}, /* T4 */
    { 80, 32, 64, 164, 163, 108, 1410,  1215, 5120,  40}, /* A100 */
    { 86, 16, 48, 100,  99,  82, 1695,  9751,  384,   6}, /* GeForce RTX 3090 */
    { 87, 16, 48, 164, 163,  16, 1300,  3199,  256,   4}, /* Jetson AGX Orin */
    { 89, 24, 48, 100,  99,  58, 2040,  6251,  192,  48}, /* L4 */
    { 90, 32, 64, 228, 227, 132, 1980,  2619, 5120,  50}, /* H100 */
    {100, 32, 64, 228, 227, 148, 1965,  3906, 8192, 126}, /* B200 */
    {103, 32, 64, 228, 227, 148, 1920,  3906, 8192, 126}, /* B300 */
    {120, 24, 48, 100,  99, 170, 2407, 14001,  512,  96}, /* GeForce RTX 5090 */
    {121, 24, 48, 100,  99,  48, 2418,  4266,  256,  24}, /* GB10 */
};
/* clang-format on */

const sim_profile *sim_profile_of(int sm) {
    const sim_profile *found = &profiles[0];
    for (size_t k = 0; k < sizeof profiles / sizeof *profiles; k++)
        if (profiles[k].sm <= sm) found = &profiles[k];
    return found;
}
