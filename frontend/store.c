/* SPDX-License-Identifier: MIT
 * Parameters and buffers: named host memory and its initial values. Draws come from Philox keyed by the seed, with a
 * hash of the name in the counter, so that a value depends on neither the order of the model's code nor on other
 * parameters. */
#include "trace.h"

#include "ir/support/element.h"
#include "ir/support/philox.h"

#include <math.h>

enum { PART = 1 << 14 }; /* values that are drawn by one thread; a multiple of 4 */

int tcc_store_find(const tcc_store *s, const char *name) {
    for (int i = 0; i < s->entries.count; i++)
        if (!strcmp(s->entries.data[i].name, name)) return i;
    return -1;
}

/* -- Random numbers -- */

typedef struct stream {
    uint32_t key[2], name_hash;
    uint64_t position;
    uint32_t words[4];
} stream;

static uint32_t hash_name(const char *name) { /* FNV-1a */
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

static stream stream_start(uint64_t seed, const char *name) {
    return (stream){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}, .name_hash = hash_name(name)};
}

/* Uniform in (0, 1), 32 bits. */
static double draw(stream *s) {
    if (s->position % 4 == 0) {
        uint64_t block = s->position / 4;
        const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), s->name_hash, 0x696e6974u}; /* "init" */
        tcc_philox4x32(s->key, counter, s->words);
    }
    return (s->words[s->position++ % 4] + 0.5) * 0x1p-32;
}

static double draw_normal(stream *s) {
    double radius = sqrt(-2 * log(draw(s)));
    return radius * cos(2 * 3.14159265358979323846 * draw(s));
}

static double draw_truncated(stream *s) {
    for (;;) {
        double x = draw_normal(s);
        if (fabs(x) <= 2) return x;
    }
}

/* -- Initial values -- */

/* Values [begin, end), each computed in double and rounded once; begin is a multiple of PART, where every kind but the
 * truncated one knows its place in the stream. */
static void initialize(const tcc_stored *p, uint64_t seed, int64_t begin, int64_t end) {
    const tcc_init *init = &p->init;
    const int64_t bytes = tcc_dtype_bytes(p->type.dtype);
    if (init->kind == TCC_INIT_ZEROS) {
        memset((char *)p->data + begin * bytes, 0, (size_t)((end - begin) * bytes));
        return;
    }
    int64_t numel = tcc_type_numel(&p->type);
    double first = p->type.rank ? (double)p->type.dims[0] : 1, fan_in = (double)init->fan_in, receptive = 1;
    if (!init->fan_in) fan_in = (double)numel / first;
    for (int d = 2; d < p->type.rank; d++) receptive *= (double)p->type.dims[d];
    double fan_out = first * receptive;
    double kaiming = init->a / sqrt(fan_in), xavier = sqrt(6 / (fan_in + fan_out)),
           xavier_normal = sqrt(2 / (fan_in + fan_out));
    bool uniform = init->kind == TCC_INIT_UNIFORM || init->kind == TCC_INIT_KAIMING_UNIFORM ||
                   init->kind == TCC_INIT_XAVIER_UNIFORM;
    stream s = stream_start(seed, p->name);
    s.position = (uint64_t)begin * (uniform ? 1 : 2);
    for (int64_t i = begin; i < end; i++) {
        double x = 0;
        switch (init->kind) {
        case TCC_INIT_ZEROS: break;
        case TCC_INIT_CONSTANT: x = init->a; break;
        case TCC_INIT_UNIFORM: x = init->a + (init->b - init->a) * draw(&s); break;
        case TCC_INIT_NORMAL: x = init->a + init->b * draw_normal(&s); break;
        case TCC_INIT_TRUNC_NORMAL: x = init->a + init->b * draw_truncated(&s); break;
        case TCC_INIT_KAIMING_UNIFORM: x = kaiming * (2 * draw(&s) - 1); break;
        case TCC_INIT_KAIMING_NORMAL: x = kaiming * draw_normal(&s); break;
        case TCC_INIT_XAVIER_UNIFORM: x = init->a * xavier * (2 * draw(&s) - 1); break;
        case TCC_INIT_XAVIER_NORMAL: x = init->a * xavier_normal * draw_normal(&s); break;
        }
        tcc_element_set(p->type.dtype, p->data, i, x);
    }
}

tcc_status tcc_store_add(tcc_store *s, const char *name, tcc_role role, const tcc_type *type, const tcc_init *init,
                         tcc_diag *diag, tcc_loc at, int *index) {
    for (int d = 0; d < type->rank; d++)
        if (type->dims[d] < 1)
            return tcc_error(diag, TCC_ESHAPE, at, "parameter \"%s\": extents must be at least 1, not %s", name,
                             tcc_type_text(type));
    tcc_stored p = {.name = tcc_arena_strdup(&s->arena, name), .type = *type, .role = role, .init = *init};
    if (!p.name || !tcc_vec_push(&s->entries, p)) return tcc_enomem(diag);
    *index = s->entries.count - 1;
    return TCC_OK;
}

/* Parts that an entry is initialized in: of PART values, or one where a value depends on those before it. */
static int64_t parts_of(const tcc_stored *p) {
    return p->init.kind == TCC_INIT_TRUNC_NORMAL ? 1 : (tcc_type_numel(&p->type) + PART - 1) / PART;
}

tcc_status tcc_store_reserve(tcc_store *s, tcc_diag *diag, int64_t *parts) {
    *parts = 0;
    for (int i = s->filled; i < s->entries.count; i++) {
        tcc_stored *p = &s->entries.data[i];
        if (!p->data) p->data = tcc__aligned(64, (size_t)tcc_type_bytes(&p->type));
        if (!p->data)
            return tcc_error(diag, TCC_ENOMEM, TCC_NOWHERE, "out of memory for \"%s\", %s", p->name,
                             tcc_type_text(&p->type));
        *parts += parts_of(p);
    }
    return TCC_OK;
}

void tcc_store_initialize(const tcc_store *s, int64_t begin, int64_t end) {
    int64_t first = 0;
    for (int i = s->filled; i < s->entries.count && first < end; i++) {
        const tcc_stored *p = &s->entries.data[i];
        int64_t count = parts_of(p), numel = tcc_type_numel(&p->type), each = count > 1 ? PART : numel;
        for (int64_t k = begin > first ? begin - first : 0; k < count && first + k < end; k++)
            initialize(p, s->seed, k * each, (k + 1) * each < numel ? (k + 1) * each : numel);
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
    for (int i = 0; i < s->entries.count; i++) tcc__free(s->entries.data[i].data);
    tcc_vec_free(&s->entries);
    tcc_arena_free(&s->arena);
}
