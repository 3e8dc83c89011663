/* SPDX-License-Identifier: MIT
 * When the last runs of a profiled model's programs fed the device and ran there: what its trace shows. */
#ifndef TCC_FRONTEND_RUN_TIMELINE_H
#define TCC_FRONTEND_RUN_TIMELINE_H

#include "runtime/profile.h"

enum { TCC_TIMELINE_RUNS = 8 };

typedef struct tcc_timeline {
    tcc_profile_run runs[TCC_TIMELINE_RUNS]; /* run i of all in place i % TCC_TIMELINE_RUNS */
    int64_t count;                           /* of all */
    bool trains;                             /* they are of training */
} tcc_timeline;

/* Adds *run, whose `exec` is profiled and has run; its `steps` are taken from there. Once there are runs of training,
 * others do not count: a run of many evaluations behind the last step would leave nothing else. Errors: TCC_ENOMEM. */
tcc_status tcc__timeline_add(tcc_timeline *t, tcc_diag *d, const tcc_profile_run *run, bool trains);
/* Forgets the runs of `exec`, which is about to go. */
void tcc__timeline_forget(tcc_timeline *t, const tcc_exec *exec);
/* Writes the runs that are there, the oldest first, as tcc_profile_write_trace does. */
tcc_status tcc__timeline_write(const tcc_timeline *t, tcc_diag *d, const tcc_roofline *roofline, const char *path);
void tcc__timeline_free(tcc_timeline *t);

#endif
