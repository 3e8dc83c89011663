/* SPDX-License-Identifier: MIT
 * Steps of one kernel that do not touch each other's memory become one step of several instances. */
#include "codegen/builder.h"

#include <string.h>

enum { WINDOW = 96 }; /* steps that one may move over */

static bool overlap(const tcc_buffer *x, const tcc_buffer *y) {
    return x->space == y->space && x->space != TCC_SPACE_CONST &&
           (x->space != TCC_SPACE_BINDING || x->binding == y->binding) &&
           x->offset_bytes < y->offset_bytes + y->size_bytes && y->offset_bytes < x->offset_bytes + x->size_bytes;
}

/* The k-th buffer a step touches; false past the last. */
static bool touched(const tcc_step_draft *d, int k, tcc_buffer *out, bool *written) {
    switch (d->step.kind) {
    case TCC_STEP_COPY:
        *out = k ? d->step.to : d->step.from;
        *written = k == 1;
        return k < 2;
    case TCC_STEP_LIBRARY:
        if (k >= d->n_buffers) return false;
        *out = d->step.call->buffers[k];
        *written = d->written[k];
        return true;
    default:
        if (d->n_buffers == 0 || k >= d->n_buffers * d->instances.count) return false;
        *out = d->instances.data[k / d->n_buffers].buffers[k % d->n_buffers];
        *written = d->written[k % d->n_buffers];
        return true;
    }
}

static bool conflict(const tcc_step_draft *x, const tcc_step_draft *y) {
    tcc_buffer a, c;
    bool a_written, c_written;
    for (int i = 0; touched(x, i, &a, &a_written); i++)
        for (int k = 0; touched(y, k, &c, &c_written); k++)
            if ((a_written || c_written) && overlap(&a, &c)) return true;
    return false;
}

static tcc_status join_lines(tcc_builder *b, tcc_step *into, const char *lines) {
    enum { LONGEST = 120 };
    static const char more[] = ";...";
    const size_t length = strlen(into->lines), tail = sizeof more - 1;
    if (!length) into->lines = lines;
    else if (strstr(into->lines, lines) || (length > tail && !strcmp(into->lines + length - tail, more))) return TCC_OK;
    else
        into->lines = tcc_arena_printf(&b->p->memory, "%s%s%s", into->lines, length < LONGEST ? ";" : "",
                                       length < LONGEST ? lines : more);
    return into->lines ? TCC_OK : tcc_enomem(b->diag);
}

static tcc_status join(tcc_builder *b, tcc_step_draft *into, tcc_step_draft *from) {
    for (int i = 0; i < from->instances.count; i++)
        if (!tcc_vec_push(&into->instances, from->instances.data[i])) return tcc_enomem(b->diag);
    into->step.flop += from->step.flop;
    into->step.bytes += from->step.bytes;
    into->step.evaluations += from->step.evaluations;
    into->step.elements += from->step.elements;
    into->step.predicted_s += from->step.predicted_s;
    /* Of the instance with the largest items: by that of a bias, one thread would take a whole weight. */
    if (from->step.grain < into->step.grain) into->step.grain = from->step.grain;
    TCC_TRY(join_lines(b, &into->step, from->step.lines));
    tcc_vec_free(&from->instances);
    from->gone = true;
    from->kernel = -1;
    return TCC_OK;
}

tcc_status tcc_builder_join_steps(tcc_builder *b) {
    int n = b->drafts.count;
    tcc_step_draft *d = b->drafts.data;
    for (int i = 0; i < n; i++) {
        if (d[i].kernel < 0) continue;
        for (int k = i - 1; k >= 0 && k >= i - WINDOW; k--) {
            if (d[k].gone) continue;
            if (conflict(&d[i], &d[k])) break;
            if (d[k].kernel != d[i].kernel) continue;
            TCC_TRY(join(b, &d[k], &d[i]));
            break;
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        if (d[i].kernel < 0) continue;
        for (int k = i + 1; k < n && k <= i + WINDOW; k++) {
            if (d[k].gone) continue;
            if (conflict(&d[i], &d[k])) break;
            if (d[k].kernel != d[i].kernel) continue;
            TCC_TRY(join(b, &d[k], &d[i]));
            break;
        }
    }
    return TCC_OK;
}
