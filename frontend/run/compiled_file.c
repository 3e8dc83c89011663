/* SPDX-License-Identifier: MIT
 * The fields of compiled programs and of plans, in order. */
#include "frontend/run/compiled_file.h"

#include "frontend/run/options.h"
#include "runtime/program_file.h"

static const tcc_stream_kind kind = {"TCCPLAN", TCC_PLAN_VERSION, "training plan"};

static void io_program(tcc_stream *s, tcc_program **p, tcc_diag *diag) {
    void *bytes = NULL;
    const void *data = NULL;
    int64_t size_bytes = 0;
    if (s->writing && s->status == TCC_OK) tcc_stream_fail(s, tcc_program_encode(diag, *p, &bytes, &size_bytes));
    data = bytes;
    tcc_io_data(s, &data, &size_bytes);
    if (!s->writing && s->status == TCC_OK)
        tcc_stream_fail(s, tcc_program_decode(diag, "its program", data, size_bytes, p));
    tcc__free(bytes);
}

void tcc__io_compiled(tcc_stream *s, tcc_compiled *c, tcc_diag *diag) {
    for (int i = 0; i < TCC_TEXTS; i++) tcc_io_text(s, &c->text[i]);
    tcc_io_double(s, &c->trace_seconds);
    tcc_io_double(s, &c->passes_seconds);
    tcc_io_double(s, &c->codegen_seconds);
    io_program(s, &c->program, diag);
}

/* -- Plans -- */

static void io_enum(tcc_stream *s, int *value, int count) {
    tcc_io_int(s, value);
    if (*value < 0 || *value >= count) tcc_stream_fail(s, TCC_EFORMAT);
}
#define IO_ENUM(s, field, count)             \
    do {                                     \
        int value_ = (int)(field);           \
        io_enum((s), &value_, (count));      \
        (field) = (__typeof__(field))value_; \
    } while (0)

/* An array's type; what has no bytes or more than can be is refused. */
static void io_checked_type(tcc_stream *s, tcc_type *t) {
    int64_t bytes = 8; /* of the largest element */
    tcc_io_type(s, t);
    if ((unsigned)t->dtype >= TCC_DTYPE_COUNT) tcc_stream_fail(s, TCC_EFORMAT);
    for (int d = 0; s->status == TCC_OK && d < t->rank; d++)
        if (t->dims[d] < 1 || __builtin_mul_overflow(bytes, t->dims[d], &bytes)) tcc_stream_fail(s, TCC_EFORMAT);
}

static void io_option(tcc_stream *s, const tcc_option *o, void *options) {
    void *at = (char *)options + o->offset;
    switch (o->type) {
    case TCC_OPTION_BOOL: tcc_io_bool(s, at); break;
    case TCC_OPTION_ENUM:
    case TCC_OPTION_INT: tcc_io_int(s, at); break;
    case TCC_OPTION_I64:
    case TCC_OPTION_U64: tcc_io_i64(s, at); break; /* the same bits */
    case TCC_OPTION_REAL: tcc_io_double(s, at); break;
    case TCC_OPTION_TEXT: tcc_io_text(s, at); break;
    case TCC_OPTION_POINTER: tcc_stream_fail(s, TCC_EBUG); break; /* none is in a plan */
    }
    if (!tcc__option_fits(o, options)) tcc_stream_fail(s, TCC_EFORMAT);
}

/* The options of one struct that a plan has. */
static void io_options(tcc_stream *s, tcc_option_of of, void *options) {
    const tcc_option *o;
    for (int i = 0; (o = tcc__option(i)); i++)
        if (o->in_plan && o->of == of) io_option(s, o, options);
}

static void io_group(tcc_stream *s, tcc_param_group *g) {
    io_options(s, TCC_OPTION_OF_GROUP, g);
    g->size = sizeof *g;
    if (!g->match) tcc_stream_fail(s, TCC_EFORMAT);
}

static void io_groups(tcc_stream *s, tcc_model *m) {
    tcc_optimizer_options *p = &m->optimizer;
    tcc_param_group *groups = (tcc_param_group *)p->groups; /* the model's own */
    TCC_IO_ARRAY(s, groups, p->n_groups, 49, io_group);
    p->groups = groups;
    if (p->n_groups > TCC_MOST_GROUPS) tcc_stream_fail(s, TCC_EFORMAT);
    if (!s->writing && s->status == TCC_OK) tcc_stream_fail(s, tcc__groups_keep(m));
}

static void io_name(tcc_stream *s, tcc_model *m) {
    const char *name = m->name;
    tcc_io_text(s, &name);
    if (!s->writing && s->status == TCC_OK) tcc_stream_fail(s, tcc__model_name(m, name));
}

static void io_stored(tcc_stream *s, tcc_stored *p) {
    tcc_io_text(s, &p->name);
    IO_ENUM(s, p->role, TCC_ROLE_COUNT);
    io_checked_type(s, &p->type);
    IO_ENUM(s, p->init.kind, TCC_INIT_XAVIER_NORMAL + 1);
    tcc_io_double(s, &p->init.a);
    tcc_io_double(s, &p->init.b);
    tcc_io_i64(s, &p->init.fan_in);
    tcc_io_i64(s, &p->zero_row);
    if (p->zero_row < 0 || p->zero_row > (p->type.rank ? p->type.dims[0] : 0)) tcc_stream_fail(s, TCC_EFORMAT);
    if (!p->name || (p->role != TCC_ROLE_PARAM && p->role != TCC_ROLE_STATE)) tcc_stream_fail(s, TCC_EFORMAT);
}

/* Those that the model's own programs know; a plan shares with no other. */
static void io_store(tcc_stream *s, tcc_model *m) {
    tcc_store *store = &m->shared->store;
    int64_t count = 0;
    for (int i = 0; i < store->entries.count; i++) count += tcc__model_uses(m, i);
    tcc_io_count(s, &count, 64);
    for (int i = 0; s->writing && i < store->entries.count; i++) {
        tcc_stored p = store->entries.data[i];
        if (tcc__model_uses(m, i)) io_stored(s, &p);
    }
    for (int64_t i = 0; !s->writing && i < count && s->status == TCC_OK; i++) {
        tcc_stored p = {0};
        int index;
        io_stored(s, &p);
        if (s->status != TCC_OK) return;
        if ((index = tcc_store_find(store, p.name)) < 0) {
            tcc_stream_fail(s,
                            tcc_store_add(store, p.name, p.role, &p.type, &p.init, &m->cx->diag, TCC_NOWHERE, &index));
            if (s->status != TCC_OK) return;
            store->entries.data[index].zero_row = p.zero_row;
        }
        if (!tcc_type_equal(&store->entries.data[index].type, &p.type)) tcc_stream_fail(s, TCC_EFORMAT);
        tcc_stream_fail(s, tcc__model_use(m, index));
    }
}

static void io_input(tcc_stream *s, tcc_array *a) {
    tcc_type type = {.dtype = a->dtype, .rank = a->rank};
    memcpy(type.dims, a->dims, sizeof type.dims);
    tcc_io_text(s, &a->name);
    io_checked_type(s, &type);
    if (!a->name) tcc_stream_fail(s, TCC_EFORMAT);
    *a = (tcc_array){.name = a->name, .dtype = type.dtype, .rank = type.rank};
    memcpy(a->dims, type.dims, sizeof type.dims);
}

static void io_compiled(tcc_stream *s, tcc_compiled *c, tcc_diag *diag) {
    tcc_io_bool(s, &c->train);
    IO_ENUM(s, c->part, TCC_STEP_PARTS);
    tcc_io_i64(s, &c->whole);
    TCC_IO_ARRAY(s, c->inputs, c->n_inputs, 32, io_input);
    tcc__io_compiled(s, c, diag);
}

static void io_programs(tcc_stream *s, tcc_model *m) {
    tcc_diag *diag = &m->cx->diag;
    int64_t count = m->programs.count;
    tcc_io_count(s, &count, 64);
    for (int64_t i = 0; i < count && s->status == TCC_OK; i++) {
        tcc_compiled *c = s->writing ? m->programs.data[i] : NULL;
        if (s->writing) {
            io_compiled(s, c, diag);
            continue;
        }
        tcc_stream_fail(s, tcc__compiled_create(m, false, NULL, 0, &c));
        if (c && !tcc_vec_push(&m->programs, c)) {
            tcc__compiled_destroy(m, c);
            tcc_stream_fail(s, TCC_ENOMEM);
        }
        if (s->status != TCC_OK) return;
        tcc_arena *memory = s->memory;
        s->memory = &c->arena;
        io_compiled(s, c, diag);
        s->memory = memory;
    }
}

static void io_plan(tcc_stream *s, tcc_model *m, const char **about) {
    const char *arch = m->arch;
    tcc_io_text(s, about);
    tcc_io_text(s, &arch);
    if (!arch || strlen(arch) >= sizeof m->arch) tcc_stream_fail(s, TCC_EFORMAT);
    else if (!s->writing) snprintf(m->arch, sizeof m->arch, "%s", arch);
    io_options(s, TCC_OPTION_OF_MODEL, &m->options);
    io_options(s, TCC_OPTION_OF_OPTIMIZER, &m->optimizer);
    io_name(s, m);
    io_groups(s, m);
    io_store(s, m);
    io_programs(s, m);
}

static tcc_status write_texts(tcc_model *m, tcc_compiled *c) {
    for (int which = 0; which < TCC_TEXTS; which++)
        if (!c->text[which]) TCC_TRY(m->ops->write(m, c, (tcc_text)which));
    return TCC_OK;
}

tcc_status tcc__plan_encode(tcc_model *m, const char *about, void **bytes, int64_t *size_bytes) {
    for (int i = 0; i < m->programs.count; i++) TCC_TRY(write_texts(m, m->programs.data[i]));
    tcc_stream s = tcc_stream_write();
    io_plan(&s, m, &about);
    return tcc_stream_seal(&s, &m->cx->diag, &kind, "", bytes, size_bytes);
}

tcc_status tcc__plan_load(tcc_diag *d, const char *path, tcc__bytes *out) {
    return tcc_stream_load(d, &kind, path, out);
}

tcc_status tcc__plan_decode(tcc_model *m, const char *name, const void *bytes, int64_t size_bytes, tcc_arena *memory,
                            const char **about) {
    tcc_stream s;
    tcc_diag *diag = &m->cx->diag;
    TCC_TRY(tcc__model_share(m, NULL));
    TCC_TRY(tcc_stream_read(&s, diag, &kind, name, bytes, size_bytes, memory));
    io_plan(&s, m, about);
    if (diag->status != TCC_OK) return diag->status; /* of a program in it */
    TCC_TRY(tcc_stream_end(&s, diag, &kind, name));
    for (int i = 0; i < m->programs.count; i++)
        for (int which = 0; which < TCC_TEXTS; which++)
            if (!m->programs.data[i]->text[which])
                return tcc_error(diag, TCC_EFORMAT, (tcc_loc){name, 0}, "program %d of the plan lacks a text", i);
    return TCC_OK;
}

/* -- Programs for other ranks -- */

static const tcc_stream_kind lent_kind = {"TCCRANK", TCC_PLAN_VERSION, "program for a rank"};

tcc_status tcc__lent_encode(tcc_model *m, tcc_compiled *c, void **bytes, int64_t *size_bytes) {
    tcc_stream s = tcc_stream_write();
    TCC_TRY(write_texts(m, c));
    io_store(&s, m);
    tcc__io_compiled(&s, c, &m->cx->diag);
    return tcc_stream_seal(&s, &m->cx->diag, &lent_kind, c->program->name, bytes, size_bytes);
}

tcc_status tcc__lent_decode(tcc_model *m, tcc_compiled *c, const void *bytes, int64_t size_bytes) {
    static const char name[] = "rank 0's program";
    tcc_stream s;
    tcc_diag *diag = &m->cx->diag;
    TCC_TRY(tcc_stream_read(&s, diag, &lent_kind, name, bytes, size_bytes, &c->arena));
    io_store(&s, m);
    if (s.status == TCC_OK) tcc__io_compiled(&s, c, diag);
    if (diag->status != TCC_OK) return diag->status;
    return tcc_stream_end(&s, diag, &lent_kind, name);
}
