/* SPDX-License-Identifier: MIT
 * The built programs, run as a user runs them: in a process of their own, with what they print kept. */
#ifndef TCC_TESTS_HARNESS_PROGRAM_H
#define TCC_TESTS_HARNESS_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct program_result {
    int status;      /* exit status; 128 + the number of a signal that ended it */
    char *out, *err; /* standard output and error, NUL-terminated */
} program_result;

typedef struct program_options {
    const char *folder;      /* to run in; NULL: here */
    const char *environment; /* "NAME=value", one; NULL: none */
    const char *input;       /* file that standard input comes from; NULL: nothing */
    long file_limit_bytes;   /* a larger file cannot be written; 0: no limit */
    long memory_limit_bytes; /* of address space; 0: no limit */
} program_options;

/* Whether memory_limit_bytes says anything: AddressSanitizer reserves terabytes of address space. */
bool program_takes_memory_limit(void);

/* Runs TCC_BIN_DIR/name, or a name that begins with '/', with arguments, a NULL-terminated list without the name, to
 * its end. The caller frees the result. */
program_result program_run(const program_options *options, const char *name, const char *const *arguments);
void program_free(program_result *r);
/* What was printed, from malloc, of a program that must have ended well; frees the result. */
char *program_output(program_result r);

/* Starts it and returns at once; program_wait gives the result. */
typedef struct program_process {
    pid_t pid;
    int out, err; /* unlinked files that take the output */
} program_process;
program_process program_start(const program_options *options, const char *name, const char *const *arguments);
program_result program_wait(program_process *p);

/* From now on programs find in the cache what earlier ones of this test have compiled and verified: most of their time
 * would be LLVM's. It is empty at first. Without a folder for the cache (TCC_CACHE_DIR) nothing changes. */
void program_own_cache(void);
/* The same, and what those of other tests have, too (TCC_TEST_KERNELS: a folder for all of them). For tests that do
 * not see whether something was found. */
void program_share_cache(void);

#endif
