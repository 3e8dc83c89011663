/* SPDX-License-Identifier: MIT
 * Intervals of bytes, each with its mark. */
#include "codegen/verify/memory.h"

#include "ir/support/alloc.h"
#include "ir/support/hash.h"

#include <string.h>

void tcc_marked_parts_free(tcc_marked_parts *parts) {
    for (int i = 0; i < parts->count; i++) tcc_vec_free(&parts->data[i].regions);
    tcc_vec_free(parts);
}

/* The first mark that ends behind `at`. */
static int find(const tcc_marked_memory *m, int64_t at) {
    int low = 0, high = m->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (m->data[middle].to > at) high = middle;
        else low = middle + 1;
    }
    return low;
}

static uint64_t written_of(const tcc_marked *s, const tcc_marked_parts *parts) {
    return s->part < 0 ? s->written : parts->data[s->part].written;
}

/* --- Reading */

/* Whether the bytes of a region (offsets in the value) have been written. */
static bool is_there(const tcc_marked_part *part, const tcc_region *region) {
    if (part->filled == part->to - part->from) return true;
    for (int i = 0; i < part->regions.count; i++)
        if (tcc_region_contains(&part->regions.data[i], region)) return true;
    return false;
}

tcc_marked_read tcc_marked_find(const tcc_marked_memory *m, const tcc_marked_parts *parts, int64_t base, int value,
                                const tcc_region *region) {
    tcc_marked_read r = {.written = tcc_hash_add(0, (uint64_t)value), .at = region->from, .value = -1};
    const int64_t end = tcc_region_end(region);
    uint64_t last = 0;
    for (int i = find(m, base + region->from); r.at < end; i++) {
        const tcc_marked *s = i < m->count ? &m->data[i] : NULL;
        if (s && s->from > base + r.at) s = NULL;
        if (s) r.value = s->value, r.value_at = base + r.at - s->base;
        r.partial = s && s->value == value && s->base == base && s->part >= 0 &&
                    !is_there(&parts->data[s->part], region);
        r.wrong = !s || s->value != value || s->base != base || r.partial;
        if (r.wrong) return r;
        const uint64_t written = written_of(s, parts);
        if (written != last || r.at == region->from)
            r.written = tcc_hash_add(tcc_hash_add(r.written, (uint64_t)r.at), last = written);
        r.at = s->to - base;
        r.value = -1;
    }
    return r;
}

/* --- Writing */

bool tcc_marked_set(tcc_marked_memory *m, tcc_marked mark) {
    if (mark.from >= mark.to) return true;
    const int first = find(m, mark.from);
    tcc_marked keep[3];
    int n = 0, end = first;
    if (first < m->count && m->data[first].from < mark.from) {
        keep[n] = m->data[first];
        keep[n++].to = mark.from;
    }
    keep[n++] = mark;
    while (end < m->count && m->data[end].to <= mark.to) end++;
    if (end < m->count && m->data[end].from < mark.to) {
        keep[n] = m->data[end++];
        keep[n++].from = mark.to;
    }
    const int left = m->count - end;
    while (m->capacity < first + n + left)
        if (!tcc__vec_grow((void **)&m->data, &m->capacity, m->capacity, sizeof *m->data)) return false;
    memmove(m->data + first + n, m->data + end, sizeof *m->data * (size_t)left);
    memcpy(m->data + first, keep, sizeof *keep * (size_t)n);
    m->count = first + n + left;
    return true;
}

static bool set(tcc_marked_memory *m, int64_t base, int value, int64_t from, int64_t to, int part, uint64_t written) {
    return tcc_marked_set(m, (tcc_marked){base + from, base + to, base, value, part, written});
}

/* The part of the value over [from, to) that is being written; -1: it is not. */
static int open_part(const tcc_marked_memory *m, int64_t base, int value, int64_t from, int64_t to,
                     const tcc_marked_parts *parts) {
    const int i = find(m, base + from);
    if (i == m->count || m->data[i].from > base + from || m->data[i].to < base + to) return -1;
    const tcc_marked *s = &m->data[i];
    if (s->value != value || s->base != base || s->part < 0) return -1;
    return parts->data[s->part].from <= from && parts->data[s->part].to >= to ? s->part : -1;
}

/* Adds a region to a part. Regions of different runs may come in any order. */
static bool fill(tcc_marked_part *part, const tcc_region *region, uint64_t writer) {
    bool apart = true;
    for (int i = 0; i < part->regions.count; i++)
        apart = apart && !tcc_region_overlap(&part->regions.data[i], 0, region, 0);
    if (apart) {
        part->filled += region->count * region->run;
        part->written += tcc_hash_add(writer, (uint64_t)region->from);
    } else {
        part->written = tcc_hash_add(part->written, writer);
    }
    return tcc_vec_push(&part->regions, *region);
}

static bool write_runs(tcc_marked_memory *m, tcc_marked_parts *parts, int64_t base, int value, int64_t size_bytes,
                       const tcc_region *region, uint64_t writer) {
    const int64_t from = region->from - region->from % region->stride, whole = from + region->count * region->stride;
    const int64_t to = whole < size_bytes ? whole : size_bytes;
    int part = open_part(m, base, value, from, to, parts);
    if (part < 0) {
        const tcc_marked_read before = tcc_marked_find(m, parts, base, value,
                                                       &(tcc_region){from, to - from, to - from, 1, true});
        if (!before.wrong) return set(m, base, value, from, to, -1, tcc_hash_add(before.written, writer));
        part = parts->count;
        if (!tcc_vec_push(parts, (tcc_marked_part){.from = from, .to = to}) || !set(m, base, value, from, to, part, 0))
            return false;
    }
    return fill(&parts->data[part], region, writer);
}

bool tcc_marked_write(tcc_marked_memory *m, tcc_marked_parts *parts, int64_t base, int value, int64_t size_bytes,
                      const tcc_region *region, uint64_t writer) {
    if (region->exact && region->count > 1) return write_runs(m, parts, base, value, size_bytes, region, writer);
    const uint64_t written = tcc_hash_add(tcc_hash_add(1, (uint64_t)value), writer);
    return set(m, base, value, region->from, tcc_region_end(region), -1, written);
}

bool tcc_marked_copy(const tcc_marked_memory *source, int64_t from, tcc_marked_memory *target, int64_t to,
                     int64_t bytes) {
    tcc_marked_memory marks = {0};
    bool ok = tcc_marked_set(target,
                             (tcc_marked){to, to + bytes, to, -1, -1, 0}); /* what is not written is not there */
    for (int i = find(source, from); i < source->count && source->data[i].from < from + bytes && ok; i++)
        ok = tcc_vec_push(&marks, source->data[i]);
    for (int i = 0; i < marks.count && ok; i++) {
        tcc_marked s = marks.data[i];
        if (s.from < from) s.from = from;
        if (s.to > from + bytes) s.to = from + bytes;
        s.from += to - from, s.to += to - from, s.base += to - from;
        ok = tcc_marked_set(target, s);
    }
    tcc_vec_free(&marks);
    return ok;
}
