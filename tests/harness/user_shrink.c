/* SPDX-License-Identifier: MIT
 * A disagreeing program made small: steps are replaced by leaves or by what they were made of, as long as the same mode
 * still disagrees. */
#include "harness/user_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The same mode disagrees in the same way: by a value, or by an error of the same words. */
static bool still_wrong(const user_program *p, const void *was_wrong) {
    const user_verdict *verdict = was_wrong;
    user_verdict v;
    const unsigned mode = verdict->mode;
    user_program_check(p, mode & (USER_THREADS | USER_EVALUATE) ? mode | USER_DEFAULT : mode, &v);
    const char *was = strstr(verdict->text, "error: "), *is = strstr(v.text, "error: ");
    return v.mode == mode && !was == !is && (!was || !strncmp(was, is, 24));
}

static bool same_type(const user_step *a, const user_step *b) {
    return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->rank);
}

/* Every use of step `from` is one of `to`, an earlier step. */
static void replace(user_program *p, int from, int to) {
    for (int i = from + 1; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_args; k++)
            if (p->steps[i].args[k] == from) p->steps[i].args[k] = to;
}

/* Step i becomes a leaf of its type. */
static bool to_leaf(user_program *p, int i) {
    user_step *s = &p->steps[i], old = *s;
    if (s->op <= USER_iota || s->op >= USER_update) return false;
    *s = (user_step){.dtype = old.dtype, .rank = old.rank, .n_ints = 3, .ints = {old.dtype, 0, 3}, .real = 1};
    memcpy(s->dims, old.dims, sizeof s->dims);
    s->op = old.dtype == TCC_F32 ? USER_param : USER_literal;
    snprintf(s->name, sizeof s->name, "r%d", i);
    return true;
}

/* Attempt number `kind` on step i of a copy; false: there is no such attempt. */
static bool attempt(user_program *p, int i, int kind) {
    const user_step *s = &p->steps[i];
    if (s->op == USER_loss) return false;
    if (s->op >= USER_update) { /* it is left out */
        if (kind) return false;
        p->steps[i] = (user_step){.op = USER_constant, .n_ints = 1}; /* f32[], which nothing reads */
        return true;
    }
    if (kind == 0) return to_leaf(p, i);
    if (s->op == USER_concat && kind == 1 && s->n_args > 1 && s->dims[s->ints[0]] > 1) return false;
    for (int k = 0; k < s->n_args; k++)
        if (same_type(s, &p->steps[s->args[k]]) && --kind == 0) {
            replace(p, i, s->args[k]);
            return true;
        }
    return false;
}

void user_program_shrink(user_program *p, const user_verdict *verdict, double seconds) {
    user_program_shrink_while(p, still_wrong, verdict, seconds);
}

void user_program_shrink_while(user_program *p, user_wrong *wrong, const void *verdict, double seconds) {
    const double end = now_seconds() + seconds;
    user_program *copy = malloc(sizeof *copy);
    for (bool smaller = true; smaller;) {
        smaller = false;
        for (int i = p->n_steps - 1; i >= 0; i--)
            for (int kind = 0; kind < 4; kind++) {
                if (i >= p->n_steps || now_seconds() > end) break;
                *copy = *p;
                if (!attempt(copy, i, kind)) continue;
                user_program_drop_dead(copy);
                if (copy->n_steps >= p->n_steps && kind) continue;
                if (copy->n_steps > p->n_steps || !wrong(copy, verdict)) continue;
                *p = *copy;
                smaller = true;
            }
        if (now_seconds() > end) break;
    }
    free(copy);
}
