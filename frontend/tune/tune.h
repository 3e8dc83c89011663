/* SPDX-License-Identifier: MIT
 * Shared by the parts of tuning: groups, their candidates, and the choices. Private to this room. */
#ifndef TCC_FRONTEND_TUNE_TUNE_H
#define TCC_FRONTEND_TUNE_TUNE_H

#include "frontend/compile/compile.h"
#include "runtime/cache/cache.h"

/* Where a choice is from. */
typedef enum tcc_tuned_from {
    TCC_TUNED_NOT,      /* nobody has asked yet, or the budget was spent */
    TCC_TUNED_MEASURED, /* now */
    TCC_TUNED_STORED,   /* before: it was in the cache */
    TCC_TUNED_LOCKED,   /* in the file that is held */
} tcc_tuned_from;

/* A way to run a kind of group, and what came of it. */
typedef struct tcc_tuned_candidate {
    const char *text;                  /* "\"reduce\" {lanes=16, parts=4}" */
    const char *schedule;              /* "reduce" */
    int64_t predicted_ns, measured_ns; /* measured: 0: it was not timed */
    const char *dropped;               /* why it cannot win; NULL: it could */
} tcc_tuned_candidate;

/* A kind of group: all groups with one signature are tuned once. */
typedef struct tcc_tuned {
    const char *signature; /* NULL: it was read from a lock file */
    uint64_t key;          /* of the signature */
    const char *what;
    int groups;      /* of that kind in the step that was tuned last */
    double share_ns; /* of that step, by the first measurements */
    tcc_tuned_from from;
    bool refused;                            /* a step was slower with it: it runs as by default */
    const tcc_implementation *plain;         /* what the default takes: the lock file has it where nothing was found */
    bool cut;                                /* at its hero */
    const tcc_implementation *choice;        /* name and parameters; NULL: it is cut, or nothing was found */
    tcc_vec(tcc_tuned_candidate) candidates; /* the default first */
    int winner;
    int64_t default_ns, best_ns; /* of the default and the winner; 0: not known */
} tcc_tuned;

/* What came of the trial of a whole step. */
typedef struct tcc_tuned_step {
    const char *name;             /* "train" */
    int64_t default_ns, tuned_ns; /* 0: there was no trial: nothing differs, or no time was left */
    bool refused;
    tcc_tuned_from from;
} tcc_tuned_step;

struct tcc_tuning {
    tcc_arena arena;
    tcc_vec(tcc_tuned) entries; /* sorted by nothing: in the order of the steps */
    tcc_vec(tcc_tuned_step) steps;
    double spent_s;          /* of the budget, by all programs */
    struct tcc_cache *cache; /* NULL: there is none, or it was not asked for yet */
    bool cache_asked;
    char *lock, *locked; /* copies of the options; NULL: none */
    /* For tests; NULL: the device's own time. Gives what a run of that candidate, or of "the step as by default" or
     * "the step as tuned", took, measured in `ns`; below 0: it does not compile. */
    int64_t (*judge)(void *user, const char *candidate, int64_t ns);
    void *judge_user;
};

/* -- In table.c -- */

/* *signature (NULL: nobody asks) is the caller's to free. */
tcc_status tcc__tune_key(const tcc_graph *g, const tcc_group *group, uint64_t *key, char **signature);
/* NULL: there is no such entry. */
tcc_tuned *tcc__tune_find(const tcc_model *m, uint64_t key);
/* The name and parameters of x, for an entry; NULL when memory is short (reported). */
const tcc_implementation *tcc__tune_keep(tcc_model *m, const tcc_implementation *x);
/* Whether the entry has a choice that is used, and that is not what the default takes. */
bool tcc__tune_differs(const tcc_tuned *entry);
/* The answer to pass_target.choose. */
tcc_status tcc__tune_choose(void *model, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                            tcc_candidate *out);
/* What was found for the entry's kind, as a line of the file has it, and what runs it; and back. False: it is none. */
void tcc__tune_print_choice(const tcc_tuned *entry, tcc_strbuf *b);
void tcc__tune_print_used(const tcc_tuned *entry, tcc_strbuf *b);
bool tcc__tune_parse(tcc_model *m, const char *line, tcc_tuned *entry);
/* Reads the file that is held, into entries. */
tcc_status tcc__tune_read_lock(tcc_model *m);
/* Writes all choices. */
tcc_status tcc__tune_write_lock(tcc_model *m);

/* -- In store.c -- */

/* Whether the cache has a choice for the entry, which it then has. */
bool tcc__tune_find_stored(tcc_model *m, tcc_tuned *entry);
/* Keeps what was found in `seconds`. */
void tcc__tune_store(tcc_model *m, const tcc_tuned *entry, double seconds);
/* Whether the cache has all that was found for a step, whose key is `step`: then it is in entries and steps. */
bool tcc__tune_find_step(tcc_model *m, const tcc_cache_key *step);
/* Keeps the entries that have groups now, and the last of the steps. */
void tcc__tune_store_step(tcc_model *m, const tcc_cache_key *step, double seconds);
void tcc__tune_close(tcc_model *m);

/* -- In step.c: the step as by default and as tuned, in turns -- */

/* The passes on a copy of the traced graph, silently; `tuned`: with what was found. */
tcc_status tcc__tune_plan(tcc_model *m, const tcc_pass_options *passes, const tcc_graph *traced, bool tuned,
                          tcc_graph **out);

typedef struct tcc_trial_side {
    tcc_program *program;
    tcc_exec *exec;
    void **memory; /* by binding */
    bool *owns;    /* by binding; else it is the other side's */
} tcc_trial_side;

typedef struct tcc_step_trial {
    tcc_model *m;
    const tcc_pass_options *passes;
    const tcc_codegen_options *codegen;
    const tcc_graph *traced;
    tcc_trial_side sides[2]; /* as by default, as tuned */
    void *arena;
    int64_t arena_bytes, indices;
    int turns;
    double run_seconds, needs_seconds; /* what tcc__step_trial_run is expected to take */
    int64_t default_ns, tuned_ns;      /* 0: no time was left */
} tcc_step_trial;

/* Makes the step as by default ready, of a trial whose first four fields are given; it may take a part of `budget_s`.
 * *t is to be ended after an error, too. */
tcc_status tcc__step_trial_begin(tcc_step_trial *t, double budget_s);
/* Times both until `until`, tcc_clock_seconds, at the latest: what is tuned, with the choices that are used now. */
tcc_status tcc__step_trial_run(tcc_step_trial *t, double until);
void tcc__step_trial_end(tcc_step_trial *t);

/* -- In judge.c: what of the choices a step uses -- */

/* Whether a choice of the step that is tuned differs from what the default takes; and that none is used. */
bool tcc__tune_step_differs(const tcc_model *m);
void tcc__tune_refuse_step(tcc_model *m);
/* Of a budget, what to set aside for tcc__tune_judge. */
double tcc__tune_judge_seconds(const tcc_step_trial *t, double budget_s);
/* Has the step of a trial that was begun run with all choices, then with parts of them, and marks those that are not
 * used; *out has what came of it. Sets *open where no time was left: a choice that was not on trial is not used, though
 * no step was slower with it. */
tcc_status tcc__tune_judge(tcc_step_trial *t, double until, bool *open, tcc_tuned_step *out);

/* -- In run.c: candidates of one group, run by themselves -- */

typedef struct tcc_contender {
    const tcc_implementation *given; /* what the choice prescribes; NULL: the group is cut at its hero */
    tcc_tuned_candidate about;
    const tcc_implementation *whole; /* what runs it; NULL: it is cut */
    tcc_graph *graph;                /* planned */
    tcc_program *program;
    tcc_exec *exec;
    tcc_vec(int64_t) samples; /* ns */
    int64_t least_ns;
    bool out; /* not in the race any more */
} tcc_contender;

typedef tcc_vec(tcc_contender) tcc_contenders;

/* One kind of group on trial: its memory, and what its default computes. */
typedef struct tcc_track {
    tcc_model *m;
    const tcc_codegen_options *codegen;
    const tcc_graph *g; /* the step, planned */
    const tcc_group *group;
    double until; /* tcc_clock_seconds: no run begins later */
    int n_inputs, n_bindings, sets, turn;
    tcc_node **loads;
    const tcc_type **types;   /* by binding */
    bool *warm;               /* by binding: its memory is in the cache when the step comes to the group */
    void **memory;            /* [set][binding] */
    void **expected, **noise; /* by output: what the default computes, and from inputs that are slightly disturbed */
} tcc_track;

/* --- Values that trials run on (values.c) */

/* Element i of a value. */
typedef double (*tcc_tune_value)(const void *user, int64_t i);
/* A number in [0, 1) for element i of a stream. */
double tcc__tune_draw(int stream, int64_t i);
/* Fills memory for a value of the type. After a prime number of elements, about a million, they come again: to draw and
 * to convert each of a hundred million takes longer than all measurements of a kernel. */
void tcc__tune_fill(const tcc_type *type, tcc_tune_value value, const void *user, void *packed);

/* How far the indices go that node n reads; 0: it reads none. */
int64_t tcc__tune_indexed(const tcc_node *n);
/* Memory for the group and values for what it reads. `step_bytes` is what the step touches. */
tcc_status tcc__track_begin(tcc_model *m, const tcc_codegen_options *codegen, const tcc_graph *g,
                            const tcc_group *group, int64_t step_bytes, tcc_track *out);
void tcc__track_end(tcc_track *t);
/* Makes the programs of contenders [from, count), in parallel. One that cannot be made is out. */
tcc_status tcc__track_compile(tcc_track *t, tcc_contenders *all, int from);
/* Loads contenders [from, count) and runs each once, to see that it computes what the first one computes. One that
 * does not, or fails, is out, and so is one that spills registers more than the first one does. Errors: those of the
 * first one, and of a device that is lost. */
tcc_status tcc__track_check(tcc_track *t, tcc_contenders *all, int from);
/* Times those that are in, in turns: until each has `samples`, or is clearly slower than the fastest. */
tcc_status tcc__track_race(tcc_track *t, tcc_contenders *all, int samples);
/* The lower quartile of what was measured; 0: too little was. */
int64_t tcc__contender_ns(const tcc_contender *c);
void tcc__contender_clear(tcc_contender *c);

#endif
