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

/* What a region that is written adds to the mark of what it is a part of. */
static uint64_t share_of(const tcc_region *region, uint64_t writer) {
    return tcc_hash_add(writer, (uint64_t)region->from);
}

static bool set(tcc_marked_memory *m, int64_t base, int value, int64_t from, int64_t to, int part, uint64_t written) {
    return tcc_marked_set(m, (tcc_marked){base + from, base + to, base, value, part, written});
}

/* Whether the mark is of the value that begins at `base`. */
static bool is_of(const tcc_marked *s, int64_t base, int value) { return s->value == value && s->base == base; }

/* Adds a region to a part. Regions of different runs may come in any order. */
static bool fill(tcc_marked_part *part, const tcc_region *region, uint64_t writer) {
    bool apart = true;
    for (int i = 0; i < part->regions.count; i++)
        apart = apart && !tcc_region_overlap(&part->regions.data[i], 0, region, 0);
    if (apart) {
        part->filled += tcc_region_bytes(region);
        part->written += share_of(region, writer);
    } else {
        part->written = tcc_hash_add(part->written, writer);
    }
    return tcc_vec_push(&part->regions, *region);
}

/* Adds to a part what a mark of the same value says. */
static bool take_over(tcc_marked_parts *parts, tcc_marked_part *part, const tcc_marked *s) {
    if (s->part < 0) {
        const tcc_region all = {.from = s->from - s->base, .run = s->to - s->from, .exact = true};
        part->filled += all.run;
        part->written += s->written;
        return tcc_vec_push(&part->regions, all);
    }
    const tcc_marked_part *from = &parts->data[s->part];
    bool ok = true;
    part->filled += from->filled;
    part->written += from->written;
    for (int i = 0; i < from->regions.count && ok; i++) ok = tcc_vec_push(&part->regions, from->regions.data[i]);
    return ok;
}

/* Makes one part of [from, to) and of what of the value has been written there, and around it in one piece. -1: memory
 * is short. Of a part that something else was written into nothing is left. */
static int join_parts(tcc_marked_memory *m, tcc_marked_parts *parts, int64_t base, int value, int64_t from,
                      int64_t to) {
    tcc_marked_part joined = {.from = from, .to = to};
    bool ok = true;
    for (int i = find(m, base + from); i < m->count && m->data[i].from < base + to && ok; i++) {
        const tcc_marked *s = &m->data[i];
        if (!is_of(s, base, value)) continue;
        const tcc_marked_part *p = s->part < 0 ? NULL : &parts->data[s->part];
        if (p && (s->from != base + p->from || s->to != base + p->to)) continue;
        if (s->from < base + joined.from) joined.from = s->from - base;
        if (s->to > base + joined.to) joined.to = s->to - base;
        ok = take_over(parts, &joined, s);
    }
    if (ok && (ok = tcc_vec_push(parts, joined))) {
        const int part = parts->count - 1;
        return set(m, base, value, joined.from, joined.to, part, 0) ? part : -1;
    }
    tcc_vec_free(&joined.regions);
    return -1;
}

/* The part that holds all of [from, to); -1: there is none. */
static int part_over(const tcc_marked_memory *m, const tcc_marked_parts *parts, int64_t base, int value, int64_t from,
                     int64_t to) {
    const int i = find(m, base + from);
    if (i == m->count || m->data[i].from > base + from || m->data[i].to < base + to) return -1;
    const tcc_marked *s = &m->data[i];
    if (!is_of(s, base, value) || s->part < 0) return -1;
    return parts->data[s->part].from <= from && parts->data[s->part].to >= to ? s->part : -1;
}

/* Whether a part of the value has a byte of [from, to). */
static bool any_part(const tcc_marked_memory *m, int64_t base, int value, int64_t from, int64_t to) {
    for (int i = find(m, base + from); i < m->count && m->data[i].from < base + to; i++)
        if (is_of(&m->data[i], base, value) && m->data[i].part >= 0) return true;
    return false;
}

static bool write_exact(tcc_marked_memory *m, tcc_marked_parts *parts, int64_t base, int value, int64_t size_bytes,
                        const tcc_region *region, uint64_t writer) {
    int64_t from = region->from, to = tcc_region_end(region);
    if (region->n_levels) { /* whole rows: others write what it leaves out */
        const tcc_region_level *rows = &region->levels[region->n_levels - 1];
        from -= from % rows->stride;
        to = from + rows->count * rows->stride;
        if (to > size_bytes) to = size_bytes;
    }
    int part = part_over(m, parts, base, value, from, to);
    if (part < 0 && !any_part(m, base, value, from, to)) {
        const tcc_region all = {.from = from, .run = to - from, .exact = true};
        const tcc_marked_read before = tcc_marked_find(m, parts, base, value, &all);
        if (!region->n_levels) return set(m, base, value, from, to, -1, share_of(region, writer));
        if (!before.wrong) return set(m, base, value, from, to, -1, tcc_hash_add(before.written, writer));
    }
    if (part < 0) part = join_parts(m, parts, base, value, from, to);
    return part >= 0 && fill(&parts->data[part], region, writer);
}

bool tcc_marked_write(tcc_marked_memory *m, tcc_marked_parts *parts, int64_t base, int value, int64_t size_bytes,
                      const tcc_region *region, uint64_t writer) {
    if (region->exact) return write_exact(m, parts, base, value, size_bytes, region, writer);
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
