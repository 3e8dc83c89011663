/* SPDX-License-Identifier: MIT
 * A model of a training step's memory and time, which computes the effect of recomputing a value in microseconds. It is
 * made from the planned step without recomputation: its stored values, their lifetimes, and the predicted times of its
 * groups.
 *
 * The plan's peak divides the step: groups up to that moment are early (the forward pass, and a little more), the rest
 * is late. A value is `again` if it is released after its last early use and recomputed, once, just before its first
 * late use. Recomputation starts from values that are available then: parameters, the batch, values that are kept for
 * late work anyway, and small ones. The values between these and the result are recomputed too. Work that late groups
 * evaluate inline, from available values, does not change.
 *
 * A value that all late readers can evaluate inline from a few tensors is not stored again at all (passing.h).
 *
 * A value that the plan does not store may be kept instead of others; it is `extra`. Take a product, its activation and
 * the factor of the activation's gradient: the plan may store the last two, but both follow from the product at little
 * cost. */
#ifndef TCC_PASSES_REMAT_MODEL_H
#define TCC_PASSES_REMAT_MODEL_H

#include "passes/memory/plan.h"
#include "passes/select.h"

/* A value of the arena, by index in plan.values; behind those of the plan come the extra ones. */
typedef struct tcc_remat_life {
    int early_end;      /* the last early moment that writes or reads it; -1: none */
    int late_begin;     /* the first late one that does; INT_MAX: none */
    bool stays;         /* it is never computed again by itself */
    bool written_over;  /* another value takes over its memory in its last moment */
    int first_follower; /* of an extra value: place in model.followers of the stored values that follow from it, and */
    int followers;      /* their number; 0: it is none */
    int extra;          /* of a follower: the extra value that it follows from; -1: none */
} tcc_remat_life;

/* A late group that reads a value which may pass. */
typedef struct tcc_remat_reader {
    int group, next; /* of the model's readers, the next one of the same value; -1: none */
    int more;        /* tensors that its kernel reads more if it evaluates the value, by the set at hand */
} tcc_remat_reader;

/* A launch takes the longer of both. */
typedef struct tcc_remat_times {
    double traffic, work;
} tcc_remat_times;

typedef struct tcc_remat_model {
    const tcc_graph *g; /* planned; borrowed */
    tcc_costs costs;    /* of its target */
    tcc_plan plan;
    int moments;
    bool *late;       /* by node: no early group evaluates it */
    int *value_of;    /* by node: index in plan.values; -1: it is not in the arena */
    bool *stored;     /* by node: some group stores it */
    int *made_by;     /* by node: what attention's kernel makes it beside, and makes it again with; -1: none */
    bool *passing;    /* by node: each late group that reads it could evaluate it for itself */
    int *last_reader; /* by node that may pass: the last of its readers; -1: none */
    tcc_vec(tcc_remat_reader) readers;
    tcc_vec(const tcc_node *) inputs; /* of late groups: early work and leaves that they read, once each */
    int *first_input;                 /* by group: where its inputs begin; where they end is the next one's */
    tcc_operand_work *computes;       /* by late contraction that computes an operand which may pass */
    int *room;                        /* by late group: tensors that its kernel may access beside those that it does */
    double *node_ns;                  /* by node: time to evaluate it once more, where it is not loaded */
    tcc_remat_times *times;           /* by late group that may evaluate values for itself */
    bool *beside;                     /* by node: a late dot's group reads it at the index of its result */
    bool *elsewhere;                  /* by node: a late group reads it in another way */
    bool *hidden;          /* by node: computed again beside a late dot, which hides the time that this takes */
    double ns_per_byte;    /* of traffic */
    tcc_remat_life *lives; /* by value */
    tcc_vec(int) followers;
    /* The set at hand, and what follows from it (tcc_remat_evaluate): */
    bool *again;      /* by node: a stored value that is computed again */
    bool *kept;       /* by node: an extra value that is stored */
    bool *stale;      /* by node: late work cannot have it without computing something again */
    bool *passes;     /* by node: it is computed again, and each late group that reads it evaluates it for itself */
    int *left;        /* by late group: of its room, what that leaves */
    int *when;        /* by node: the moment before which it is computed again; INT_MAX: never */
    bool *read_again; /* by node: a contraction, reduction or the like that is computed again reads it */
    int *until;       /* by node: the last moment before which it is */
    bool *worked;     /* by node: it is, or something that needs it, not only where late groups read it */
    int *needed;      /* by value: the first late moment that reads it; INT_MAX: none */
    int *last;        /* by value: the last one */
    int64_t *profile; /* by moment: bytes alive */
    int64_t peak;
    int peak_moment;
    double added_ns;
    void *found; /* the block of all of that but again and kept */
    size_t found_bytes;
    struct tcc_remat_saved { /* it, as of the last tcc_remat_save */
        void *found;
        int64_t peak;
        int peak_moment;
        double added_ns;
    } saved;
    int *mark, stamp; /* by node: scratch, as is */
    const tcc_node **stack;
} tcc_remat_model;

/* `planned` has groups and places, and stays the caller's. `target`: as fuse asks it; NULL: there is none. */
tcc_status tcc_remat_model_create(const tcc_graph *planned, const tcc_pass_target *target, tcc_diag *diag,
                                  tcc_remat_model *out);
void tcc_remat_model_free(tcc_remat_model *m);

/* Brings all that follows from m->again up to date. */
void tcc_remat_evaluate(tcc_remat_model *m);
/* Keeps what follows from the set at hand, and brings it back when that is the set again: much cheaper than to
 * evaluate it once more. */
void tcc_remat_save(tcc_remat_model *m);
void tcc_remat_restore(tcc_remat_model *m);
/* The predicted time that computing the values again, too, would add to the set at hand. `values` are indices. */
double tcc_remat_cost(tcc_remat_model *m, const int *values, int count);

#endif
