/* SPDX-License-Identifier: MIT
 * Attributes by table, from attrs.def. */
#include "ir/attrs.h"
#include "ir/support/hash.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* One function a class, because a typedef of its own lets F name the struct that the field is in.
 */
#define F(kind, name) {#name, TCC_ATTR_##kind, offsetof(self, name)},
#define C(class)                                                                              \
    static const tcc_attr_field *fields_##class(void) {                                       \
        typedef tcc_attrs_##class self;                                                       \
        static const tcc_attr_field fields[] = {TCC_ATTRS_##class(F){NULL, 0, sizeof(self)}}; \
        return fields;                                                                        \
    }
TCC_ATTR_CLASSES(C)
#undef C
#undef F

const tcc_attr_field *tcc_attr_fields(tcc_attr_class c) {
    static const tcc_attr_field *(*const classes[TCC_ATTR_CLASS_COUNT])(void) = {
#define C(class) [TCC_ATTR_CLASS_##class] = fields_##class,
        TCC_ATTR_CLASSES(C)
#undef C
    };
    return classes[c]();
}

static const char *const role_texts[TCC_ROLE_COUNT] = {
#define TCC_ROLE(id, text) [TCC_ROLE_##id] = text,
    TCC_ROLES(TCC_ROLE)
#undef TCC_ROLE
};

const char *tcc_role_text(tcc_role role) { return role_texts[role]; }

bool tcc_role_parse(const char *text, size_t length, tcc_role *out) {
    for (int r = 0; r < TCC_ROLE_COUNT; r++) {
        if (strlen(role_texts[r]) == length && !memcmp(role_texts[r], text, length)) {
            *out = (tcc_role)r;
            return true;
        }
    }
    return false;
}

static const char *text_of(const void *field) {
    const char *s = *(const char *const *)field;
    return s ? s : "";
}

/* Doubles are compared by their bits: 0 and -0 are different constants, and a NaN is equal to
 * itself. */
static bool equal_doubles(const double *a, const double *b, int64_t count) {
    return !count || !memcmp(a, b, sizeof *a * (size_t)count);
}

bool tcc_attrs_equal(tcc_attr_class c, const tcc_attrs *a, const tcc_attrs *b) {
    for (const tcc_attr_field *f = tcc_attr_fields(c); f->name; f++) {
        const void *x = tcc_attr_get(a, f), *y = tcc_attr_get(b, f);
        bool equal = false;
        switch (f->kind) {
        case TCC_ATTR_I64: equal = *(const int64_t *)x == *(const int64_t *)y; break;
        case TCC_ATTR_F64: equal = equal_doubles(x, y, 1); break;
        case TCC_ATTR_BOOL: equal = *(const bool *)x == *(const bool *)y; break;
        case TCC_ATTR_ROLE: equal = *(const tcc_role *)x == *(const tcc_role *)y; break;
        case TCC_ATTR_STR: equal = !strcmp(text_of(x), text_of(y)); break;
        case TCC_ATTR_DIMS: {
            const tcc_dims *p = x, *q = y;
            equal = p->count == q->count && !memcmp(p->v, q->v, sizeof p->v[0] * (size_t)p->count);
            break;
        }
        case TCC_ATTR_F64S: {
            const tcc_doubles *p = x, *q = y;
            equal = p->count == q->count && equal_doubles(p->v, q->v, p->count);
            break;
        }
        }
        if (!equal) return false;
    }
    return true;
}

uint64_t tcc_attrs_hash(tcc_attr_class c, const tcc_attrs *a) {
    uint64_t h = c;
    for (const tcc_attr_field *f = tcc_attr_fields(c); f->name; f++) {
        const void *x = tcc_attr_get(a, f);
        switch (f->kind) {
        case TCC_ATTR_I64: h = tcc_hash_add(h, (uint64_t)*(const int64_t *)x); break;
        case TCC_ATTR_F64: h = tcc_hash_f64(h, *(const double *)x); break;
        case TCC_ATTR_BOOL: h = tcc_hash_add(h, *(const bool *)x); break;
        case TCC_ATTR_ROLE: h = tcc_hash_add(h, *(const tcc_role *)x); break;
        case TCC_ATTR_STR: h = tcc_hash_string(h, text_of(x)); break;
        case TCC_ATTR_DIMS: {
            const tcc_dims *p = x;
            h = tcc_hash_bytes(h, p->v, sizeof p->v[0] * (size_t)p->count);
            break;
        }
        case TCC_ATTR_F64S: {
            const tcc_doubles *p = x;
            h = tcc_hash_bytes(h, p->v, sizeof p->v[0] * (size_t)p->count);
            break;
        }
        }
    }
    return h;
}

bool tcc_attrs_copy(tcc_arena *arena, tcc_attr_class c, const tcc_attrs *from, tcc_attrs *to) {
    memset(to, 0, sizeof *to);
    for (const tcc_attr_field *f = tcc_attr_fields(c); f->name; f++) {
        const void *x = tcc_attr_get(from, f);
        void *y = tcc_attr_at(to, f);
        switch (f->kind) {
        case TCC_ATTR_I64: *(int64_t *)y = *(const int64_t *)x; break;
        case TCC_ATTR_F64: *(double *)y = *(const double *)x; break;
        case TCC_ATTR_BOOL: *(bool *)y = *(const bool *)x; break;
        case TCC_ATTR_ROLE: *(tcc_role *)y = *(const tcc_role *)x; break;
        case TCC_ATTR_STR:
            if (!(*(const char **)y = tcc_arena_strdup(arena, text_of(x)))) return false;
            break;
        case TCC_ATTR_DIMS: {
            const tcc_dims *p = x;
            tcc_dims *q = y;
            q->count = p->count;
            memcpy(q->v, p->v, sizeof p->v[0] * (size_t)p->count);
            break;
        }
        case TCC_ATTR_F64S: {
            const tcc_doubles *p = x;
            tcc_doubles *q = y;
            q->count = p->count;
            q->v = tcc_arena_copy(arena, p->v, sizeof p->v[0] * (size_t)p->count);
            if (!q->v) return false;
            break;
        }
        }
    }
    return true;
}

/* C's %a, but with a point in every locale. */
static void print_hex(tcc_strbuf *b, double x) {
    enum { FRACTION_BITS = 52, BIAS = 1023 };
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> FRACTION_BITS & 0x7ff);
    char fraction[16];
    snprintf(fraction, sizeof fraction, "%013llx", (unsigned long long)(bits << 12 >> 12));
    for (size_t end = strlen(fraction); end && fraction[end - 1] == '0';) fraction[--end] = '\0';
    tcc_strbuf_printf(b, "%s0x%d%s%sp%+d", signbit(x) ? "-" : "", exponent != 0, *fraction ? "." : "", fraction,
                      (exponent ? exponent : 1) - BIAS);
}

static void print_f64(tcc_strbuf *b, double x) {
    enum { EXACT_BITS = 53 };
    if (isnan(x)) tcc_strbuf_add(b, "nan");
    else if (isinf(x)) tcc_strbuf_add(b, x < 0 ? "-inf" : "inf");
    else if (x == floor(x) && fabs(x) <= (double)(1LL << EXACT_BITS)) tcc_strbuf_printf(b, "%.0f", x);
    else print_hex(b, x);
}

void tcc_print_quoted(tcc_strbuf *b, const char *s) {
    tcc_strbuf_add(b, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') tcc_strbuf_printf(b, "\\%c", c);
        else if (c == '\n') tcc_strbuf_add(b, "\\n");
        else if (c == '\t') tcc_strbuf_add(b, "\\t");
        else if (c < 0x20 || c == 0x7f) tcc_strbuf_printf(b, "\\x%02x", c);
        else tcc_strbuf_addn(b, s, 1);
    }
    tcc_strbuf_add(b, "\"");
}

static bool is_default(const void *x, tcc_attr_kind kind) {
    static const double zero;
    switch (kind) {
    case TCC_ATTR_I64: return !*(const int64_t *)x;
    case TCC_ATTR_F64: return equal_doubles(x, &zero, 1);
    case TCC_ATTR_BOOL: return !*(const bool *)x;
    case TCC_ATTR_ROLE: return !*(const tcc_role *)x;
    case TCC_ATTR_STR: return !*text_of(x);
    case TCC_ATTR_DIMS: return !((const tcc_dims *)x)->count;
    case TCC_ATTR_F64S: return !((const tcc_doubles *)x)->count;
    }
    return false;
}

static void print_value(tcc_strbuf *b, const void *x, tcc_attr_kind kind) {
    switch (kind) {
    case TCC_ATTR_I64: tcc_strbuf_printf(b, "%lld", (long long)*(const int64_t *)x); break;
    case TCC_ATTR_F64: print_f64(b, *(const double *)x); break;
    case TCC_ATTR_BOOL: tcc_strbuf_add(b, *(const bool *)x ? "true" : "false"); break;
    case TCC_ATTR_ROLE: tcc_strbuf_add(b, tcc_role_text(*(const tcc_role *)x)); break;
    case TCC_ATTR_STR: tcc_print_quoted(b, text_of(x)); break;
    case TCC_ATTR_DIMS: {
        const tcc_dims *p = x;
        for (int i = 0; i < p->count; i++) tcc_strbuf_printf(b, i ? ", %lld" : "[%lld", (long long)p->v[i]);
        tcc_strbuf_add(b, "]");
        break;
    }
    case TCC_ATTR_F64S: {
        const tcc_doubles *p = x;
        for (int64_t i = 0; i < p->count; i++) {
            tcc_strbuf_add(b, i ? ", " : "[");
            print_f64(b, p->v[i]);
        }
        tcc_strbuf_add(b, "]");
        break;
    }
    }
}

bool tcc_attrs_print(tcc_strbuf *b, tcc_attr_class c, const tcc_attrs *a) {
    bool any = false;
    for (const tcc_attr_field *f = tcc_attr_fields(c); f->name; f++) {
        const void *x = tcc_attr_get(a, f);
        if (is_default(x, f->kind)) continue;
        tcc_strbuf_printf(b, "%s%s=", any ? ", " : "{", f->name);
        print_value(b, x, f->kind);
        any = true;
    }
    if (any) tcc_strbuf_add(b, "}");
    return any;
}
