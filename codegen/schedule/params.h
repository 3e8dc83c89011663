/* SPDX-License-Identifier: MIT
 * Decisions of schedules, by name (params.def). A schedule sets each of its parameters once. In a proposal the value is
 * the schedule's own. When it lowers by the graph's choice, the value is that of the text, which must be valid. So the
 * text alone decides how a group runs. */
#ifndef TCC_CODEGEN_SCHEDULE_PARAMS_H
#define TCC_CODEGEN_SCHEDULE_PARAMS_H

#include "ir/ir.h"

typedef enum tcc_param {
#define TCC_PARAM(id, name, order, tune, what) TCC_PARAM_##id,
#include "codegen/schedule/params.def"
#undef TCC_PARAM
    TCC_PARAMS
} tcc_param;

/* The values that a parameter may have: from `least` to `most`, of these the multiples of `multiple` (0: all) or the
 * powers of two; and perhaps 0 or `also` (0: no such) as well. */
typedef struct tcc_param_range {
    int64_t least, most, multiple, also;
    bool powers, or_zero;
} tcc_param_range;

static inline tcc_param_range tcc_param_between(int64_t least, int64_t most) {
    return (tcc_param_range){.least = least, .most = most};
}
static inline tcc_param_range tcc_param_powers(int64_t least, int64_t most) {
    return (tcc_param_range){.least = least, .most = most, .powers = true};
}
static inline tcc_param_range tcc_param_multiples(int64_t of, int64_t least, int64_t most) {
    return (tcc_param_range){.least = least, .most = most, .multiple = of};
}

/* Of one lowering. */
typedef struct tcc_params {
    tcc_arena *arena;
    tcc_diag *diag;
    const tcc_node *node;             /* that errors name; NULL: a plan of no graph's */
    const tcc_implementation *choice; /* NULL: a proposal */
    bool completes;                   /* the choice may lack parameters, which are then decided: select's */
    int launch;                       /* the one whose parameters are settled */
    tcc_vec(tcc_choice_param) settled;
    tcc_vec(tcc_param_range) ranges; /* by settled parameter: what it could have been */
} tcc_params;

void tcc_params_clear(tcc_params *p);

/* Whether the schedule decides. NULL is a plan that no program's text has. */
static inline bool tcc_params_decides(const tcc_params *p) { return !p || !p->choice || p->completes; }

/* As texts have it, of the group's first launch. */
const char *tcc_param_name(tcc_param which);
/* Whether the order of a sum follows from the parameter of that name. */
bool tcc_param_orders(const char *name);
/* Values of the parameter of that name that are worth measuring beside `value`, all in `range`, in a fixed order: the
 * likeliest first. How many. */
enum { TCC_PARAM_ALTERNATIVES = 6 };
int tcc_param_alternatives(const char *name, const tcc_param_range *range, int64_t value,
                           int64_t out[TCC_PARAM_ALTERNATIVES]);
/* Of a parameter's name, the length without its launch's number. */
size_t tcc_params_name_length(const char *name);
/* Whether the text has it, be it possible or not. */
bool tcc_params_has(const tcc_params *p, tcc_param which);
/* What the text has, for a decision that is made before the parameter is settled. NULL: nothing, or nothing in `range`;
 * settling refuses that. */
const int64_t *tcc_params_chosen(const tcc_params *p, tcc_param which, tcc_param_range range);
/* *value is what the schedule decided; what it is then is followed. Errors: TCC_EINVAL with the node's line where the
 * text lacks the parameter, or has an impossible value; TCC_BUG where the schedule's own is impossible. */
tcc_status tcc_params_settle(tcc_params *p, tcc_param which, tcc_param_range range, int64_t *value);
/* The same for values that are ints. */
tcc_status tcc_params_settle_int(tcc_params *p, tcc_param which, tcc_param_range range, int *value);
/* The error for a value that is in its range and yet impossible, with what would be right. */
tcc_status tcc_params_refuse(const tcc_params *p, tcc_param which, int64_t value, const char *right, ...)
    __attribute__((format(printf, 4, 5)));

#endif
