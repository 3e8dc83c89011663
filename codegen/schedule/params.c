/* SPDX-License-Identifier: MIT
 * The table of parameters, and the functions that read, check and write them. */
#include "codegen/schedule/params.h"

#include <stdarg.h>
#include <string.h>

enum { ANY, ORDER };
enum { KEEP, SCALE, NEAR, ENDS, LIST };

static const struct {
    const char *name, *what;
    bool order;
    int tune;
} table[] = {
#define TCC_PARAM(id, name, order, tune, what) {name, what, order, tune},
#include "codegen/schedule/params.def"
#undef TCC_PARAM
};

void tcc_params_clear(tcc_params *p) {
    tcc_vec_free(&p->settled);
    tcc_vec_free(&p->ranges);
}

static bool is_power(int64_t value) { return value > 0 && !(value & (value - 1)); }

static bool is_in(const tcc_param_range *r, int64_t value) {
    if ((r->or_zero && !value) || (r->also && value == r->also)) return true;
    if (value < r->least || value > r->most) return false;
    return r->powers ? is_power(value) : r->multiple < 2 || value % r->multiple == 0;
}

/* What was decided before others were prescribed may not fit these. */
static int64_t nearest(const tcc_param_range *r, int64_t value) {
    if (is_in(r, value)) return value;
    value = value < r->least ? r->least : value > r->most ? r->most : value;
    while (value > r->least && !is_in(r, value)) value--;
    return value;
}

static void print_range(tcc_strbuf *b, const tcc_param_range *r) {
    if (r->or_zero) tcc_strbuf_add(b, "0 or ");
    if (r->also) tcc_strbuf_printf(b, "%lld%s", (long long)r->also, r->least > r->most ? "" : " or ");
    if (r->also && r->least > r->most) return;
    if (r->least >= r->most) {
        tcc_strbuf_printf(b, "%lld", (long long)r->least);
        return;
    }
    if (r->powers) tcc_strbuf_add(b, "a power of two ");
    else if (r->multiple > 1) tcc_strbuf_printf(b, "a multiple of %lld ", (long long)r->multiple);
    tcc_strbuf_printf(b, "from %lld to %lld", (long long)r->least, (long long)r->most);
}

/* -- Names -- */

static const char *name_of(const tcc_params *p, tcc_param which) {
    if (!p->launch) return table[which].name;
    return tcc_arena_printf(p->arena, "%s_%d", table[which].name, p->launch);
}

const char *tcc_param_name(tcc_param which) { return table[which].name; }

size_t tcc_params_name_length(const char *name) {
    const char *end = name + strlen(name), *digits = end;
    while (digits > name && strchr("0123456789", digits[-1])) digits--;
    return (size_t)((digits < end && digits > name && digits[-1] == '_' ? digits - 1 : end) - name);
}

/* By the name in a text; TCC_PARAMS: there is none such. */
static int row_of(const char *name) {
    const size_t length = tcc_params_name_length(name);
    int i = 0;
    while (i < TCC_PARAMS && (strlen(table[i].name) != length || strncmp(table[i].name, name, length) != 0)) i++;
    return i;
}

bool tcc_param_orders(const char *name) {
    const int row = row_of(name);
    return row < TCC_PARAMS && table[row].order;
}

int tcc_param_alternatives(const char *name, const tcc_param_range *range, int64_t value,
                           int64_t out[TCC_PARAM_ALTERNATIVES]) {
    enum { SAME = 20 }; /* what changes by less than one of so many is not worth measuring */
    const int row = row_of(name);
    const int64_t scaled[] = {value / 2, 2 * value, value / 4, 4 * value, range->least, range->most};
    const int64_t step = value > SAME ? (value + SAME - 1) / SAME : 1; /* of tiles' 24 rows, 23 are as good as 24 */
    const int64_t near[] = {value - step, value + step, value - 2 * step, value + 2 * step, value / 2, 2 * value};
    const int64_t ends[] = {range->least, range->most};
    const int64_t *all = scaled;
    int n = TCC_PARAM_ALTERNATIVES, count = 0;
    if (row == TCC_PARAMS || table[row].tune == KEEP || table[row].tune == LIST) return 0;
    if (table[row].tune == NEAR) all = near;
    if (table[row].tune == ENDS) all = ends, n = 2;
    for (int i = 0; i < n; i++) {
        const int64_t x = nearest(range, all[i]);
        bool fresh = x != value && is_in(range, x);
        for (int k = 0; k < count; k++) fresh = fresh && out[k] != x;
        if (fresh) out[count++] = x;
    }
    return count;
}

static const tcc_choice_param *find(const tcc_choice_param *params, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(params[i].name, name)) return &params[i];
    return NULL;
}

static const int64_t *find_chosen(const tcc_params *p, tcc_param which) {
    const char *name = p->choice ? name_of(p, which) : NULL;
    const tcc_choice_param *chosen = name ? find(p->choice->params, p->choice->n_params, name) : NULL;
    return chosen ? &chosen->value : NULL;
}

bool tcc_params_has(const tcc_params *p, tcc_param which) { return find_chosen(p, which); }

const int64_t *tcc_params_chosen(const tcc_params *p, tcc_param which, tcc_param_range range) {
    const int64_t *chosen = find_chosen(p, which);
    return chosen && is_in(&range, *chosen) ? chosen : NULL;
}

/* -- Errors -- */

/* A plan that is made outside a lowering has no node. */
static const char *owner(const tcc_params *p) { return p->node ? tcc_node_text(p->node) : "a plan without a group"; }

static tcc_status report(const tcc_params *p, tcc_param which, const char *name, const int64_t *value,
                         const char *right) {
    if (!p->choice)
        return TCC_BUG(p->diag, "%s=%lld was decided for %s: %s is %s", name, (long long)*value, owner(p),
                       table[which].what, right);
    const tcc_loc at = p->node ? p->node->loc : TCC_NOWHERE;
    if (!value)
        return tcc_error(p->diag, TCC_EINVAL, at, "\"%s\" of %s lacks %s, %s: %s", p->choice->name, owner(p), name,
                         table[which].what, right);
    return tcc_error(p->diag, TCC_EINVAL, at, "\"%s\" of %s cannot have %s=%lld, %s: %s", p->choice->name, owner(p),
                     name, (long long)*value, table[which].what, right);
}

tcc_status tcc_params_refuse(const tcc_params *p, tcc_param which, int64_t value, const char *right, ...) {
    const char *name = name_of(p, which);
    va_list args;
    va_start(args, right);
    char *text = tcc_arena_vprintf(p->arena, right, args);
    va_end(args);
    return name && text ? report(p, which, name, &value, text) : tcc_enomem(p->diag);
}

static tcc_status report_range(const tcc_params *p, tcc_param which, const char *name, const int64_t *value,
                               const tcc_param_range *range) {
    tcc_strbuf right = {0};
    print_range(&right, range);
    tcc_status status = right.failed ? tcc_enomem(p->diag) : report(p, which, name, value, right.text);
    tcc_strbuf_free(&right);
    return status;
}

/* -- Settling -- */

tcc_status tcc_params_settle(tcc_params *p, tcc_param which, tcc_param_range range, int64_t *value) {
    if (!p) return TCC_OK;
    const char *name = name_of(p, which);
    if (!name) return tcc_enomem(p->diag);
    if (find(p->settled.data, p->settled.count, name))
        return TCC_BUG(p->diag, "%s is settled twice for %s", name, owner(p));
    if (p->choice) {
        const tcc_choice_param *chosen = find(p->choice->params, p->choice->n_params, name);
        if (!chosen && !p->completes) return report_range(p, which, name, NULL, &range);
        *value = chosen ? chosen->value : nearest(&range, *value);
    }
    if (!is_in(&range, *value)) return report_range(p, which, name, value, &range);
    if (!tcc_vec_push(&p->ranges, range)) return tcc_enomem(p->diag);
    return tcc_vec_push(&p->settled, (tcc_choice_param){name, *value}) ? TCC_OK : tcc_enomem(p->diag);
}

tcc_status tcc_params_settle_int(tcc_params *p, tcc_param which, tcc_param_range range, int *value) {
    int64_t wide = *value;
    TCC_TRY(tcc_params_settle(p, which, range, &wide));
    *value = (int)wide;
    return TCC_OK;
}
