/* SPDX-License-Identifier: MIT
 * Parameters and buffers: named host memory and its initial values. Draws (draws.h) depend on the seed and the name, on
 * neither the order of the model's code nor other parameters. */
#include "frontend/run/store.h"
#include "frontend/run/draws.h"

#include "ir/support/element.h"
#include "ir/support/hash.h"

#include <math.h>

tcc_type tcc__array_type(const tcc_array *a) {
    tcc_type type = {.dtype = a->dtype, .rank = a->rank};
    for (int d = 0; d < a->rank; d++) type.dims[d] = a->dims[d];
    return type;
}

enum { PART = 1 << 14 }; /* values that are drawn by one thread; a multiple of TCC_DRAWS */

/* -- Names -- */

/* The slot of that name, or the free one where it belongs. */
static int *slot_of(const tcc_store *s, const char *name, uint64_t hash) {
    int at = (int)(hash & (uint64_t)(s->slots - 1));
    for (; s->table[at] >= 0; at = (at + 1) & (s->slots - 1)) {
        const tcc_stored *p = &s->entries.data[s->table[at]];
        if (p->name_hash == hash && !strcmp(p->name, name)) break;
    }
    return &s->table[at];
}

int tcc_store_find(const tcc_store *s, const char *name) {
    return s->slots ? *slot_of(s, name, tcc_hash_string(0, name)) : -1;
}

/* Makes room for one entry more. */
static bool grow_table(tcc_store *s) {
    enum { FIRST_SLOTS = 64 };
    if (2 * (s->entries.count + 1) < s->slots) return true;
    const int slots = s->slots ? 2 * s->slots : FIRST_SLOTS;
    int *table = tcc__malloc(sizeof *table * (size_t)slots);
    if (!table) return false;
    for (int i = 0; i < slots; i++) table[i] = -1;
    tcc__free(s->table);
    s->table = table;
    s->slots = slots;
    for (int i = 0; i < s->entries.count; i++) *slot_of(s, s->entries.data[i].name, s->entries.data[i].name_hash) = i;
    return true;
}

/* -- Initial values -- */

/* What a value is computed from. */
typedef enum draw { DRAW_NOTHING, DRAW_UNIFORM, DRAW_NORMAL, DRAW_TRUNCATED } draw;

/* A value is base + scale * z; z is 1 (nothing drawn), uniform in (0, 1), in (-1, 1) where `centred`, or normal. */
typedef struct recipe {
    draw draw;
    bool centred;
    double base, scale;
} recipe;

static recipe recipe_of(const tcc_stored *p) {
    const tcc_init *init = &p->init;
    double first = p->type.rank ? (double)p->type.dims[0] : 1, fan_in = (double)init->fan_in, receptive = 1;
    if (!init->fan_in) fan_in = (double)tcc_type_numel(&p->type) / first;
    for (int d = 2; d < p->type.rank; d++) receptive *= (double)p->type.dims[d];
    const double fan_out = first * receptive;
    const double kaiming = init->a / sqrt(fan_in), xavier = init->a * sqrt(6 / (fan_in + fan_out)),
                 xavier_normal = init->a * sqrt(2 / (fan_in + fan_out));
    switch (init->kind) {
    case TCC_INIT_ZEROS: break;
    case TCC_INIT_CONSTANT: return (recipe){DRAW_NOTHING, false, 0, init->a};
    case TCC_INIT_UNIFORM: return (recipe){DRAW_UNIFORM, false, init->a, init->b - init->a};
    case TCC_INIT_NORMAL: return (recipe){DRAW_NORMAL, false, init->a, init->b};
    case TCC_INIT_TRUNC_NORMAL: return (recipe){DRAW_TRUNCATED, false, init->a, init->b};
    case TCC_INIT_KAIMING_UNIFORM: return (recipe){DRAW_UNIFORM, true, 0, kaiming};
    case TCC_INIT_KAIMING_NORMAL: return (recipe){DRAW_NORMAL, false, 0, kaiming};
    case TCC_INIT_XAVIER_UNIFORM: return (recipe){DRAW_UNIFORM, true, 0, xavier};
    case TCC_INIT_XAVIER_NORMAL: return (recipe){DRAW_NORMAL, false, 0, xavier_normal};
    }
    return (recipe){DRAW_NOTHING, false, 0, 0};
}

/* Draws from place *at of the stream on, into `z`; returns how many. */
static int draw_some(const recipe *r, const tcc_draws *d, uint64_t *at, double *z) {
    int count = 0;
    switch (r->draw) {
    case DRAW_NOTHING:
        for (int i = 0; i < TCC_DRAWS; i++) z[i] = 1;
        return TCC_DRAWS;
    case DRAW_UNIFORM: tcc_draws_uniform(d, *at, z); break;
    case DRAW_NORMAL:
    case DRAW_TRUNCATED: tcc_draws_normal(d, *at, z); break;
    }
    *at += TCC_DRAWS;
    if (r->centred)
        for (int i = 0; i < TCC_DRAWS; i++) z[i] = 2 * z[i] - 1;
    if (r->draw != DRAW_TRUNCATED) return TCC_DRAWS;
    for (int i = 0; i < TCC_DRAWS; i++)
        if (fabs(z[i]) <= 2) z[count++] = z[i];
    return count;
}

/* Values [begin, end), each computed in double and rounded once; begin is a multiple of PART, which begins at a place
 * of its own in the stream. Of the truncated kind 95 % of what is drawn is used, so a part has room for twice its
 * values. */
static void initialize(const tcc_stored *p, uint64_t seed, int64_t begin, int64_t end) {
    const recipe r = recipe_of(p);
    const tcc_draws d = tcc_draws_of(seed, p->name);
    uint64_t at = (uint64_t)begin * (r.draw == DRAW_TRUNCATED ? 2 : 1);
    while (begin < end) {
        double z[TCC_DRAWS];
        int64_t count = draw_some(&r, &d, &at, z);
        if (count > end - begin) count = end - begin;
        for (int64_t i = 0; i < count; i++) z[i] = r.base + r.scale * z[i];
        tcc_elements_cast(p->type.dtype, (char *)p->data + begin * tcc_dtype_bytes(p->type.dtype), TCC_F64, z, count);
        begin += count;
    }
}

tcc_status tcc_store_add(tcc_store *s, const char *name, tcc_role role, const tcc_type *type, const tcc_init *init,
                         tcc_diag *diag, tcc_loc at, int *index) {
    for (int d = 0; d < type->rank; d++)
        if (type->dims[d] < 1)
            return tcc_error(diag, TCC_ESHAPE, at, "parameter \"%s\": extents must be at least 1, not %s", name,
                             tcc_type_text(type));
    tcc_stored p = {.name = tcc_arena_strdup(&s->arena, name), .type = *type, .role = role, .init = *init};
    p.name_hash = tcc_hash_string(0, name);
    if (!p.name || !grow_table(s) || !tcc_vec_push(&s->entries, p)) return tcc_enomem(diag);
    *index = s->entries.count - 1;
    *slot_of(s, p.name, p.name_hash) = *index;
    return TCC_OK;
}

void tcc_store_truncate(tcc_store *s, int count) {
    if (count < s->filled) count = s->filled;
    s->entries.count = count;
    for (int i = 0; i < s->slots; i++) s->table[i] = -1;
    for (int i = 0; i < count; i++) *slot_of(s, s->entries.data[i].name, s->entries.data[i].name_hash) = i;
}

/* Parts that an entry is initialized in, of PART values. Its memory begins as zeros. */
static int64_t parts_of(const tcc_stored *p) {
    return p->init.kind == TCC_INIT_ZEROS ? 0 : (tcc_type_numel(&p->type) + PART - 1) / PART;
}

static int64_t place_bytes(const tcc_stored *p) { return (tcc_type_bytes(&p->type) + 63) / 64 * 64; }

/* All in one block, so that small entries lie on huge pages, too. */
tcc_status tcc_store_reserve(tcc_store *s, tcc_diag *diag, int64_t *parts) {
    tcc_stored_block block = {0};
    *parts = 0;
    for (int i = s->filled; i < s->entries.count; i++) {
        const tcc_stored *p = &s->entries.data[i];
        *parts += parts_of(p);
        if (!p->data) block.bytes += place_bytes(p);
    }
    if (!block.bytes) return TCC_OK;
    block.data = tcc__zeroed((size_t)block.bytes);
    if (!block.data || !tcc_vec_push(&s->blocks, block)) {
        tcc__zeroed_free(block.data, (size_t)block.bytes);
        return tcc_error(diag, TCC_ENOMEM, TCC_NOWHERE, "out of memory: %lld bytes for \"%s\" and %d more",
                         (long long)block.bytes, s->entries.data[s->filled].name, s->entries.count - s->filled - 1);
    }
    char *at = block.data;
    for (int i = s->filled; i < s->entries.count; i++) {
        tcc_stored *p = &s->entries.data[i];
        if (p->data) continue;
        p->data = at;
        at += place_bytes(p);
    }
    return TCC_OK;
}

/* What lies in a row that begins as zeros, of values [begin, end). */
static void clear_row(const tcc_stored *p, int64_t begin, int64_t end) {
    if (!p->zero_row) return;
    const int64_t width = tcc_type_numel(&p->type) / p->type.dims[0], row = (p->zero_row - 1) * width;
    if (begin < row) begin = row;
    if (end > row + width) end = row + width;
    for (int64_t i = begin; i < end; i++) tcc_element_set(p->type.dtype, p->data, i, 0);
}

void tcc_store_initialize(const tcc_store *s, int64_t begin, int64_t end) {
    int64_t first = 0;
    for (int i = s->filled; i < s->entries.count && first < end; i++) {
        const tcc_stored *p = &s->entries.data[i];
        const int64_t count = parts_of(p), numel = tcc_type_numel(&p->type);
        for (int64_t k = begin > first ? begin - first : 0; k < count && first + k < end; k++) {
            const int64_t to = (k + 1) * PART < numel ? (k + 1) * PART : numel;
            initialize(p, s->seed, k * PART, to);
            clear_row(p, k * PART, to);
        }
        first += count;
    }
}

void tcc_store_filled(tcc_store *s) { s->filled = s->entries.count; }

tcc_status tcc_store_fill(tcc_store *s, tcc_diag *diag) {
    int64_t parts;
    TCC_TRY(tcc_store_reserve(s, diag, &parts));
    tcc_store_initialize(s, 0, parts);
    tcc_store_filled(s);
    return TCC_OK;
}

void tcc_store_free(tcc_store *s) {
    for (int i = 0; i < s->blocks.count; i++) tcc__zeroed_free(s->blocks.data[i].data, (size_t)s->blocks.data[i].bytes);
    tcc_vec_free(&s->blocks);
    tcc_vec_free(&s->entries);
    tcc__free(s->table);
    tcc_arena_free(&s->arena);
}
