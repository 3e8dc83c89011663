/* SPDX-License-Identifier: MIT
 * State that the executing machine and the driver API share: settings, reports, the order of operations. */
#ifndef PTXSIM_SIM_H
#define PTXSIM_SIM_H

#include "machine.h"

/* CUresult values that kernels can end with. */
enum {
    SIM_OUT_OF_MEMORY = 2,
    SIM_ILLEGAL_ADDRESS = 700,
    SIM_LAUNCH_TIMEOUT = 702,
    SIM_ILLEGAL_INSTRUCTION = 715,
    SIM_MISALIGNED = 716,
    SIM_LAUNCH_FAILED = 719,
    SIM_DEVICE_UNAVAILABLE = 46
};

/* What a device of a compute capability has; profiles.c. */
typedef struct sim_profile {
    int sm, blocks, warps, shared_kib, block_shared_kib; /* of a multiprocessor; the last of a block */
    int sm_count, mhz, memory_mhz, memory_bits, l2_mib;
} sim_profile;
const sim_profile *sim_profile_of(int sm); /* or of the one before it, where there is none */

typedef struct sim_settings {
    const sim_profile *profile;
    int sm, sm_count, shared_kib /* of a block */, devices, threads, driver;
    int graph_us; /* that a launch of a graph takes longer */
    uint64_t memory_bytes, limit;
    int checks;       /* CHECK_ flags */
    bool independent; /* threads of a warp meet only in .sync instructions, and all run in an order drawn from the seed
                       */
    uint64_t seed;
    bool truncates; /* tensor cores' sums */
} sim_settings;
extern sim_settings sim_set;

static inline bool sim_checks(int check) { return sim_set.checks & check; }

/* A report: one or more lines to the log; counted. Safe from any thread. */
void sim_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_read_settings(void);

/* Operations (launches, copies, sets) are numbered as they execute; numbers are kept in the shadow of memory. */
bool sim_op_before(uint32_t earlier, uint32_t current); /* whether something orders the first before the second */
void sim_describe_op(uint32_t op, char *text, size_t size);

ptxsim_stats *sim_stats_of(const char *kernel);
void sim_stats_add(ptxsim_stats *to, const ptxsim_stats *from);

#endif
