/* SPDX-License-Identifier: MIT
 * What the stand-in libnccl.so.2 exports beside the library's own names. Its ranks are threads or processes of one
 * machine, whose devices are those of the stand-in driver: messages are files of a folder, which the communicator's id
 * names. It checks what it is given, and that all ranks make the same calls in one order, captured or not alike. Where
 * they do not, the communicator has an asynchronous error, and what was started waits for ever, as on devices. Look the
 * functions up with dlsym().
 *
 * Environment, read by each call: NCCLSIM_VERSION, the version it says it is (22809 by default). */
#ifndef NCCLSIM_H
#define NCCLSIM_H

typedef struct ncclsim_counts {
    int comms;    /* alive in this process */
    int launches; /* groups and collectives that were put on a stream, so far */
    int captured; /* of these */
    int runs;     /* that were done on a device; a graph's count each time */
    int fast;     /* of these, sums that NCCL took itself */
    int aborted;  /* communicators, so far */
    int errors;   /* arguments that the real library would not take, and ranks that differ, so far */
} ncclsim_counts;
void ncclsim_get_counts(ncclsim_counts *counts);
/* What was wrong the last time; "" when nothing was. */
const char *ncclsim_last_error(void);

/* What the nth run on that rank, 0 being the next, does wrong; rank -1: nothing. */
typedef enum ncclsim_fault {
    NCCLSIM_STALLS, /* it never sends */
    NCCLSIM_COUNTS, /* it says another count */
} ncclsim_fault;
void ncclsim_inject(ncclsim_fault fault, int rank, int nth);
/* Forget everything that was said above and counted. */
void ncclsim_restart(void);

#endif
