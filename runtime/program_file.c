/* SPDX-License-Identifier: MIT
 * Programs as bytes. One function walks the program in both directions, so that what is written is what is read. */
#include "runtime/program_file.h"
#include "runtime/files/file.h"
#include "runtime/program.h"

#include "ir/support/alloc.h"

#include <string.h>
#include <zlib.h>

enum { HEADER_BYTES = 32, MAX_TEXT = 1 << 20 };
static const unsigned char magic[8] = {'T', 'C', 'C', 'P', 'R', 'O', 'G', 0};

/* Either writes into `out` or reads from `in`; the first failure sticks. */
typedef struct stream {
    bool writing;
    tcc_status status;
    unsigned char *out;
    size_t length, capacity;
    const unsigned char *in;
    size_t in_bytes, at;
    tcc_arena *memory; /* of what is read */
} stream;

static void fail(stream *s, tcc_status status) {
    if (s->status == TCC_OK) s->status = status;
}

static void write_bytes(stream *s, const void *data, size_t size_bytes) {
    if (s->status != TCC_OK || !size_bytes) return;
    if (size_bytes > s->capacity - s->length) {
        size_t capacity = 2 * s->capacity + size_bytes + 4096;
        unsigned char *larger = tcc__realloc(s->out, capacity);
        if (!larger) {
            fail(s, TCC_ENOMEM);
            return;
        }
        s->out = larger;
        s->capacity = capacity;
    }
    memcpy(s->out + s->length, data, size_bytes);
    s->length += size_bytes;
}

/* The next bytes of the input; NULL after its end. */
static const unsigned char *take(stream *s, size_t size_bytes) {
    if (s->status != TCC_OK || size_bytes > s->in_bytes - s->at) {
        fail(s, TCC_EFORMAT);
        return NULL;
    }
    const unsigned char *p = s->in + s->at;
    s->at += size_bytes;
    return p;
}

static void put_u64(unsigned char bytes[8], uint64_t v) {
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(v >> 8 * i);
}
static uint64_t get_u64(const unsigned char bytes[8]) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v |= (uint64_t)bytes[i] << 8 * i;
    return v;
}

static void io_i64(stream *s, int64_t *v) {
    unsigned char bytes[8];
    if (s->writing) {
        put_u64(bytes, (uint64_t)*v);
        write_bytes(s, bytes, 8);
    } else {
        const unsigned char *p = take(s, 8);
        *v = p ? (int64_t)get_u64(p) : 0;
    }
}

static void io_int(stream *s, int *v) {
    int64_t wide = *v;
    io_i64(s, &wide);
    if (wide < INT32_MIN || wide > INT32_MAX) fail(s, TCC_EFORMAT);
    *v = s->status == TCC_OK ? (int)wide : 0;
}

static void io_double(stream *s, double *v) {
    int64_t bits;
    memcpy(&bits, v, 8);
    io_i64(s, &bits);
    memcpy(v, &bits, 8);
}

/* A count of things of which each takes at least `least_bytes` of the input: refused before anything is allocated for
 * them. */
static void io_count(stream *s, int64_t *count, size_t least_bytes) {
    io_i64(s, count);
    if (*count < 0 || (!s->writing && (uint64_t)*count > (s->in_bytes - s->at) / least_bytes)) fail(s, TCC_EFORMAT);
    if (s->status != TCC_OK) *count = 0;
}

static void io_data(stream *s, const void **data, int64_t *size_bytes) {
    io_count(s, size_bytes, 1);
    if (s->writing) {
        write_bytes(s, *data, (size_t)*size_bytes);
        return;
    }
    const unsigned char *p = take(s, (size_t)*size_bytes);
    *data = p ? tcc_arena_copy(s->memory, p, (size_t)*size_bytes) : NULL;
    if (p && !*data) fail(s, TCC_ENOMEM);
}

/* NULL is kept apart from "". */
static void io_text(stream *s, const char **text) {
    int64_t length = s->writing && *text ? (int64_t)strlen(*text) + 1 : 0; /* with its NUL */
    const void *data = *text;
    io_data(s, &data, &length);
    *text = data;
    if (s->writing || s->status != TCC_OK) return;
    if (!length) *text = NULL;
    else if (length > MAX_TEXT || memchr(*text, 0, (size_t)length) != *text + length - 1) fail(s, TCC_EFORMAT);
}

/* Room for `count` elements when reading; what is there when writing. */
static void *io_room(stream *s, const void *array, int64_t count, size_t element_bytes) {
    if (s->writing) return (void *)array;
    void *room = s->status == TCC_OK ? tcc_arena_alloc(s->memory, (size_t)count * element_bytes) : NULL;
    if (!room) fail(s, TCC_ENOMEM);
    return room;
}

/* An array whose count is an int: `each` walks one element. */
#define IO_ARRAY(s, field, count, least_bytes, each)                                                  \
    do {                                                                                              \
        int64_t count_ = (count);                                                                     \
        io_count((s), &count_, (least_bytes));                                                        \
        if (count_ > INT32_MAX) fail((s), TCC_EFORMAT);                                               \
        (count) = (s)->status == TCC_OK ? (int)count_ : 0;                                            \
        __typeof__(*(field)) *array_ = io_room((s), (field), (count), sizeof *(field));               \
        for (int i_ = 0; (s)->status == TCC_OK && i_ < (count); i_++) each((s), (void *)&array_[i_]); \
        (field) = array_;                                                                             \
    } while (0)

static void io_params(stream *s, int64_t *param) { io_i64(s, param); }

static void io_buffer(stream *s, tcc_buffer *b) {
    int space = (int)b->space;
    io_int(s, &space);
    b->space = (tcc_space)space;
    io_int(s, &b->binding);
    io_i64(s, &b->offset_bytes);
    io_i64(s, &b->size_bytes);
}

static void io_type(stream *s, tcc_type *t) {
    int dtype = (int)t->dtype;
    io_int(s, &dtype);
    t->dtype = (tcc_dtype)dtype;
    io_int(s, &t->rank);
    if (t->rank < 0 || t->rank > TCC_MAX_RANK) fail(s, TCC_EFORMAT);
    for (int i = 0; s->status == TCC_OK && i < t->rank; i++) io_i64(s, &t->dims[i]);
}

static void io_binding(stream *s, tcc_binding *b) {
    int role = (int)b->role;
    io_text(s, &b->name);
    io_int(s, &role);
    b->role = (tcc_role)role;
    io_type(s, &b->type);
    io_double(s, &b->begin);
    io_text(s, &b->copy_of);
}

static void io_module(stream *s, tcc_module *m) { io_data(s, &m->code, &m->size_bytes); }

static void io_kernel(stream *s, tcc_kernel *k) {
    io_text(s, &k->symbol);
    io_int(s, &k->module);
    io_int(s, &k->n_buffers);
    io_int(s, &k->n_params);
    io_i64(s, &k->scratch_bytes);
    io_text(s, &k->schedule);
    io_int(s, &k->threads);
    io_int(s, &k->items_a_block);
    int table = k->table;
    io_int(s, &table);
    if (table != 0 && table != 1) fail(s, TCC_EFORMAT);
    k->table = table == 1;
}

static void io_call(stream *s, tcc_library_call *c) {
    io_text(s, &c->name);
    IO_ARRAY(s, c->buffers, c->n_buffers, 32, io_buffer);
    IO_ARRAY(s, c->params, c->n_params, 8, io_params);
}

/* The counts are the kernel's; they are stored again so that reading needs no trust in it. */
static void io_instance(stream *s, tcc_instance *n, const tcc_kernel *k) {
    int buffers = k->n_buffers, params = k->n_params;
    IO_ARRAY(s, n->buffers, buffers, 32, io_buffer);
    IO_ARRAY(s, n->params, params, 8, io_params);
    if (buffers != k->n_buffers || params != k->n_params) fail(s, TCC_EFORMAT);
    io_i64(s, &n->items);
}

static void io_step(stream *s, tcc_step *step, const tcc_program *p) {
    int kind = (int)step->kind;
    io_int(s, &kind);
    step->kind = (tcc_step_kind)kind;
    io_text(s, &step->label);
    io_text(s, &step->implementation);
    io_double(s, &step->predicted_s);
    io_text(s, &step->lines);
    io_double(s, &step->flop);
    io_double(s, &step->bytes);
    if (step->kind == TCC_STEP_KERNEL) {
        io_int(s, &step->kernel);
        io_i64(s, &step->grain);
        int64_t n = step->n_instances;
        io_count(s, &n, 24);
        if (n > INT32_MAX || step->kernel < 0 || step->kernel >= p->n_kernels) fail(s, TCC_EFORMAT);
        step->n_instances = s->status == TCC_OK ? (int)n : 0;
        tcc_instance *instances = io_room(s, step->instances, step->n_instances, sizeof *instances);
        for (int i = 0; s->status == TCC_OK && i < step->n_instances; i++)
            io_instance(s, &instances[i], &p->kernels[step->kernel]);
        step->instances = instances;
    } else if (step->kind == TCC_STEP_LIBRARY) {
        tcc_library_call *call = io_room(s, step->call, 1, sizeof *call);
        if (call) io_call(s, call);
        step->call = call;
    } else {
        io_buffer(s, &step->from);
        io_buffer(s, &step->to);
    }
}

static void io_program(stream *s, tcc_program *p) {
    int target = (int)p->target;
    io_text(s, &p->name);
    io_int(s, &target);
    p->target = (tcc_target)target;
    io_text(s, &p->cpu);
    io_i64(s, &p->arena_bytes);
    io_data(s, &p->constants, &p->constants_bytes);
    IO_ARRAY(s, p->bindings, p->n_bindings, 48, io_binding);
    IO_ARRAY(s, p->modules, p->n_modules, 8, io_module);
    IO_ARRAY(s, p->kernels, p->n_kernels, 48, io_kernel);
    int64_t n = p->n_steps;
    io_count(s, &n, 40);
    if (n > INT32_MAX) fail(s, TCC_EFORMAT);
    p->n_steps = s->status == TCC_OK ? (int)n : 0;
    p->steps = io_room(s, p->steps, p->n_steps, sizeof *p->steps);
    for (int i = 0; s->status == TCC_OK && i < p->n_steps; i++) io_step(s, &p->steps[i], p);
}

tcc_status tcc_program_encode(tcc_diag *d, const tcc_program *p, void **bytes, int64_t *size_bytes) {
    *bytes = NULL;
    TCC_TRY(tcc_program_check(d, p));
    stream s = {.writing = true};
    unsigned char header[HEADER_BYTES] = {0};
    write_bytes(&s, header, sizeof header);
    tcc_program copy = *p; /* writing changes nothing but takes what reading takes */
    io_program(&s, &copy);
    if (s.status != TCC_OK) {
        tcc__free(s.out);
        return s.status == TCC_ENOMEM
                   ? tcc_enomem(d)
                   : tcc_error(d, s.status, TCC_NOWHERE, "program '%s' is too large to be stored", p->name);
    }
    memcpy(header, magic, sizeof magic);
    put_u64(header + 8, TCC_PROGRAM_FILE_VERSION);
    put_u64(header + 16, s.length);
    put_u64(header + 24, crc32_z(0, s.out + HEADER_BYTES, s.length - HEADER_BYTES));
    memcpy(s.out, header, sizeof header);
    *bytes = s.out;
    *size_bytes = (int64_t)s.length;
    return TCC_OK;
}

tcc_status tcc_program_decode(tcc_diag *d, const char *name, const void *bytes, int64_t size_bytes, tcc_program **out) {
    *out = NULL;
    tcc_loc loc = {name, 0};
    const unsigned char *header = bytes;
    if (size_bytes < HEADER_BYTES || memcmp(header, magic, sizeof magic))
        return tcc_error(d, TCC_EFORMAT, loc, "not a stored program");
    if (get_u64(header + 8) != TCC_PROGRAM_FILE_VERSION)
        return tcc_error(d, TCC_EFORMAT, loc, "a stored program of version %llu; this runtime reads version %d",
                         (unsigned long long)get_u64(header + 8), TCC_PROGRAM_FILE_VERSION);
    if (get_u64(header + 16) != (uint64_t)size_bytes)
        return tcc_error(d, TCC_EFORMAT, loc, "a stored program of %llu bytes, but there are %lld",
                         (unsigned long long)get_u64(header + 16), (long long)size_bytes);
    if (get_u64(header + 24) != crc32_z(0, header + HEADER_BYTES, (size_t)size_bytes - HEADER_BYTES))
        return tcc_error(d, TCC_EFORMAT, loc, "the stored program is damaged (its checksum differs)");

    tcc_program *p = tcc__calloc(1, sizeof *p);
    if (!p) return tcc_enomem(d);
    stream s = {.in = bytes, .in_bytes = (size_t)size_bytes, .at = HEADER_BYTES, .memory = &p->memory};
    io_program(&s, p);
    if (s.status == TCC_OK && s.at != s.in_bytes) s.status = TCC_EFORMAT;
    if (s.status == TCC_EFORMAT) tcc_error(d, TCC_EFORMAT, loc, "the stored program is malformed near byte %zu", s.at);
    else if (s.status != TCC_OK) tcc_enomem(d);
    else s.status = tcc_program_check(d, p);
    if (s.status == TCC_OK) *out = p;
    else tcc_program_destroy(p);
    return s.status;
}

tcc_status tcc_program_save(tcc_diag *d, const tcc_program *p, const char *path) {
    void *bytes;
    int64_t size_bytes;
    TCC_TRY(tcc_program_encode(d, p, &bytes, &size_bytes));
    tcc__out file;
    tcc_status s = tcc__out_open(d, &file, path);
    if (s == TCC_OK) {
        s = tcc__out_write(d, &file, bytes, (size_t)size_bytes);
        if (s == TCC_OK) s = tcc__out_sync(d, &file);
        if (s == TCC_OK) s = tcc__out_rename(d, &file);
    }
    tcc__free(bytes);
    return s;
}

tcc_status tcc_program_load(tcc_diag *d, const char *path, tcc_program **out) {
    *out = NULL;
    tcc__bytes bytes;
    TCC_TRY(tcc__file_load(d, path, &bytes));
    tcc_status s = tcc_program_decode(d, path, bytes.data, (int64_t)bytes.size, out);
    tcc__free(bytes.data);
    return s;
}
