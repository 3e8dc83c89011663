/* SPDX-License-Identifier: MIT */
#include "harness/budget.h"

#include "frontend/compile/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One array as it was seen. */
typedef struct seen {
    int when; /* training step; USER_TRAIN_STEPS: in the end */
    tcc_array array;
} seen;

typedef struct seen_list {
    int count, room;
    seen *data;
} seen_list;

struct budget_base {
    const user_program *p;
    unsigned mode;
    int64_t arena_bytes;
    seen_list list;
};

static size_t bytes_of(const tcc_array *a) {
    int64_t count = 1;
    for (int d = 0; d < a->rank; d++) count *= a->dims[d];
    return (size_t)(count * tcc_dtype_bytes(a->dtype));
}

static void drop(seen_list *list) {
    for (int i = 0; i < list->count; i++) {
        free((char *)(uintptr_t)list->data[i].array.name);
        free(list->data[i].array.data);
    }
    free(list->data);
    *list = (seen_list){0};
}

static void see(seen_list *list, int when, const char *name, const tcc_array *a) {
    if (list->count == list->room) {
        list->room = 2 * list->room + 16;
        list->data = realloc(list->data, sizeof *list->data * (size_t)list->room);
    }
    seen *s = &list->data[list->count++];
    *s = (seen){when, *a};
    s->array.name = strdup(name);
    s->array.data = malloc(bytes_of(a) + 1);
    memcpy(s->array.data, a->data, bytes_of(a));
}

static void see_all(tcc_model *m, int when, seen_list *list) {
    const tcc_graph *g = m->programs.data[0]->record->graph;
    tcc_array a;
    for (int i = 0; i < g->outputs.count && when < USER_TRAIN_STEPS; i++) {
        if (g->outputs.data[i].alias >= 0) continue;
        if (tcc_model_output(m, g->outputs.data[i].name, &a) == TCC_OK) see(list, when, g->outputs.data[i].name, &a);
        else tcc_context_clear_error(m->cx);
    }
    for (int i = 0; when == USER_TRAIN_STEPS && tcc_model_param(m, i, &a); i++) see(list, when, a.name, &a);
    for (int i = 0; when == USER_TRAIN_STEPS && tcc_model_optimizer_state(m, i, &a); i++) see(list, when, a.name, &a);
}

/* Trains, and lists what is seen. Returns what is wrong, or NULL. */
static const char *train(tcc_model *m, const user_program *p, seen_list *list) {
    tcc_status status = TCC_OK;
    for (int when = 0; when < USER_TRAIN_STEPS && status == TCC_OK; when++) {
        tcc_array batch[USER_INPUTS];
        user_batch_make(p, when, batch);
        status = tcc_model_train(m, batch, p->n_inputs);
        if (status == TCC_OK) status = tcc_model_synchronize(m);
        user_batch_free(p, batch);
        if (status == TCC_OK) see_all(m, when, list);
    }
    if (status == TCC_OK) see_all(m, USER_TRAIN_STEPS, list);
    return status == TCC_OK ? NULL : tcc_context_error(m->cx);
}

budget_base *budget_base_create(const user_program *p, unsigned mode, char *wrong) {
    tcc_context *cx;
    budget_base *b = calloc(1, sizeof *b);
    *b = (budget_base){.p = p, .mode = mode};
    wrong[0] = 0;
    if (tcc_context_create(&cx) != TCC_OK) return budget_base_destroy(b), NULL;
    tcc_model *m = user_program_model(cx, p, mode);
    const char *text = m ? train(m, p, &b->list) : tcc_context_error(cx);
    if (text) snprintf(wrong, 512, "without a budget: %s", text);
    else b->arena_bytes = m->programs.data[0]->record->graph->arena_bytes;
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    if (!text) return b;
    budget_base_destroy(b);
    return NULL;
}

void budget_base_destroy(budget_base *b) {
    if (b) drop(&b->list);
    free(b);
}

int64_t budget_base_arena_bytes(const budget_base *b) { return b->arena_bytes; }

/* -- Comparison -- */

static double element(const tcc_array *a, int64_t e) {
    switch (a->dtype) {
    case TCC_F32: return ((const float *)a->data)[e];
    case TCC_I32: return ((const int32_t *)a->data)[e];
    case TCC_BOOL: return ((const uint8_t *)a->data)[e];
    default: return 0;
    }
}

/* The first element that differs, and how many do. */
static void describe(const seen *x, const seen *y, char *out, size_t size) {
    const int64_t width = (int64_t)tcc_dtype_bytes(x->array.dtype), count = (int64_t)bytes_of(&x->array) / width;
    int64_t first = -1, differ = 0;
    for (int64_t e = 0; e < count; e++) {
        if (!memcmp((const char *)x->array.data + e * width, (const char *)y->array.data + e * width, (size_t)width))
            continue;
        if (first < 0) first = e;
        differ++;
    }
    snprintf(out, size, "step %d: %s has other bits in %lld of %lld elements; %lld: %.9g became %.9g", x->when,
             x->array.name, (long long)differ, (long long)count, (long long)first, element(&x->array, first),
             element(&y->array, first));
}

static void compare(const seen_list *a, const seen_list *b, budget_result *out) {
    if (a->count != b->count) snprintf(out->wrong, sizeof out->wrong, "%d values became %d", a->count, b->count);
    for (int i = 0; i < a->count && !out->wrong[0]; i++) {
        const seen *x = &a->data[i], *y = &b->data[i];
        if (strcmp(x->array.name, y->array.name) || bytes_of(&x->array) != bytes_of(&y->array))
            snprintf(out->wrong, sizeof out->wrong, "%s became %s", x->array.name, y->array.name);
        else if (memcmp(x->array.data, y->array.data, bytes_of(&x->array)))
            describe(x, y, out->wrong, sizeof out->wrong);
    }
}

static void run(const budget_base *b, tcc_context *cx, tcc_checkpointing checkpointing, const char *budget,
                budget_result *out) {
    seen_list list = {0};
    tcc_model_options o = user_program_options(b->p, b->mode);
    o.checkpointing = checkpointing;
    o.memory_budget = budget;
    tcc_model *m = user_program_model_with(cx, b->p, &o);
    const char *text = m ? train(m, b->p, &list) : tcc_context_error(cx);
    out->unmet = text && strstr(text, "cannot be met");
    if (text && !out->unmet) snprintf(out->wrong, sizeof out->wrong, "%s", text);
    if (!text) {
        const tcc_graph *g = m->programs.data[0]->record->graph;
        for (int i = 0; i < g->nodes.count; i++) out->again += (g->nodes.data[i]->marks & TCC_MARK_REMAT) != 0;
        out->arena_bytes = g->arena_bytes;
        compare(&b->list, &list, out);
    }
    tcc_model_destroy(m);
    drop(&list);
}

void budget_compare(const budget_base *b, tcc_checkpointing checkpointing, const char *budget, budget_result *out) {
    tcc_context *cx;
    *out = (budget_result){0};
    if (tcc_context_create(&cx) == TCC_OK) run(b, cx, checkpointing, budget, out);
    else snprintf(out->wrong, sizeof out->wrong, "no context");
    tcc_context_destroy(cx);
}

void budget_check_own(const user_program *p, unsigned mode, budget_result *out) {
    *out = (budget_result){0};
    budget_base *b = budget_base_create(p, mode, out->wrong);
    if (!b) return;
    budget_compare(b, p->segment_steps ? TCC_CHECKPOINTING_SEGMENTS : TCC_CHECKPOINTING_AUTO, p->memory_budget, out);
    if (out->unmet) budget_compare(b, TCC_CHECKPOINTING_AUTO, "min", out);
    if (out->unmet) snprintf(out->wrong, sizeof out->wrong, "the smallest peak cannot be met");
    budget_base_destroy(b);
}
