/* SPDX-License-Identifier: MIT
 * Shared by the files of the verifier: its state, and the functions that the files call of each other. verify.h says
 * what it proves. */
#ifndef TCC_CODEGEN_VERIFY_CHECKER_H
#define TCC_CODEGEN_VERIFY_CHECKER_H

#include "codegen/verify/facts.h"
#include "codegen/verify/memory.h"

enum { TCC_MARK_CONSTANTS = -2 }; /* a mark: bytes of the program's constants; base: where these begin */

typedef struct tcc_checker_entry {
    const tcc_buffer *buffers;
    int launch;
} tcc_checker_entry;

typedef struct tcc_checker {
    const tcc_program *p;
    const tcc_program_facts *f;
    tcc_diag *diag;
    tcc_marked_memory *own;    /* by value */
    tcc_marked_memory *spaces; /* the arena, then the bindings */
    tcc_marked_parts own_parts, parts;
    tcc_checker_entry *entries; /* ascending by buffers */
    int *first_read;            /* by launch: the number of its first read */
    int *runs;                  /* by launch: how often it ran */
    tcc_vec(uint64_t) meant;    /* by read */
    int step;
} tcc_checker;

/* --- words.c. A text lasts until the next one of its function; a name, until the fourth next. */
const char *tcc_checker_name(const tcc_checker *c, int value);
const char *tcc_checker_place(const tcc_checker *c, const tcc_buffer *b, int64_t at);
const char *tcc_checker_step(const tcc_checker *c, const tcc_fact_launch *l);

/* --- meaning.c */
/* The constant lies at that offset of the program's constants. */
bool tcc_checker_is_constant(const tcc_checker *c, const tcc_fact_value *v, int64_t at);
tcc_region tcc_fact_whole(const tcc_fact_value *v);
/* A region of what the use covers, from the value's start. */
tcc_region tcc_fact_in_value(const tcc_fact_use *use, const tcc_region *r);
/* The mark of what this launch writes. Who writes a constant does not matter. */
uint64_t tcc_checker_writer(const tcc_checker *c, const tcc_fact_use *use, int launch);
/* Runs the launches; fills `own`, `first_read` and `meant`. */
tcc_status tcc_checker_run_meant(tcc_checker *c);

/* --- evaluations.c */
tcc_status tcc_checker_check_evaluations(const tcc_checker *c);

/* --- conflicts.c */
bool tcc_checker_fits(const tcc_checker *c, const tcc_buffer *b);
tcc_status tcc_checker_check_bounds(const tcc_checker *c, const tcc_fact_launch *l, int k);
bool tcc_buffers_overlap(const tcc_buffer *a, const tcc_region *r, const tcc_buffer *b, const tcc_region *s);
/* A launch by itself. */
tcc_status tcc_checker_check_within(const tcc_checker *c, const tcc_fact_launch *l);

/* An access of one instance of a step. */
typedef struct tcc_touch {
    int64_t from, to, reach; /* addresses; reach: the largest `to` of the writes up to here */
    const tcc_fact_launch *launch;
    const tcc_region *region;
    int instance, use, space; /* -1: the arena, else a binding */
} tcc_touch;

typedef tcc_vec(tcc_touch) tcc_touches;

bool tcc_touches_add(tcc_touches *to, const tcc_fact_launch *l, int instance, bool writes);
/* No instance touches what another one writes. Sorts the writes. */
tcc_status tcc_checker_check_touches(const tcc_checker *c, tcc_touches *writes, const tcc_touches *reads);

#endif
