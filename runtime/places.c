/* SPDX-License-Identifier: MIT
 * Where a program's buffers are. */
#include "runtime/places.h"
#include "runtime/program.h"

#include <string.h>

/* An address that follows a place. */
typedef struct slot {
    void *address; /* where it is kept */
    int64_t offset_bytes;
} slot;

/* The slots of one place: a range of `slots`. */
typedef struct range {
    int first, count;
} range;

enum { PLACE_ARENA, PLACE_CONST, PLACE_BINDINGS /* binding i is PLACE_BINDINGS + i */ };

struct tcc_places {
    range *ranges;
    slot *slots; /* NULL while they are counted */
};

typedef struct maker {
    tcc_place_of *place_of;
    void *user;
    tcc_places *places;
} maker;

static int place_index(tcc_space space, int binding) {
    return space == TCC_SPACE_ARENA ? PLACE_ARENA : space == TCC_SPACE_CONST ? PLACE_CONST : PLACE_BINDINGS + binding;
}

/* Counts the buffer, or, once there is room, keeps it. */
static void add(void *user, int step, int instance, int buffer, const tcc_buffer *b) {
    const maker *m = user;
    void *address = m->place_of(m->user, step, instance, buffer);
    if (!address) return;
    range *r = &m->places->ranges[place_index(b->space, b->binding)];
    if (m->places->slots) m->places->slots[r->first + r->count] = (slot){address, b->offset_bytes};
    r->count++;
}

tcc_status tcc_places_make(tcc_arena *memory, tcc_diag *d, const tcc_program *program, tcc_place_of *place_of,
                           void *user, tcc_places **out) {
    int n_ranges = PLACE_BINDINGS + program->n_bindings, total = 0;
    tcc_places *places = *out = TCC_ARENA_NEW(memory, tcc_places);
    if (!places || !(places->ranges = TCC_ARENA_ARRAY(memory, range, n_ranges))) return tcc_enomem(d);
    maker m = {place_of, user, places};
    tcc_program_for_buffers(program, add, &m);
    for (int i = 0; i < n_ranges; i++) {
        places->ranges[i].first = total;
        total += places->ranges[i].count;
        places->ranges[i].count = 0;
    }
    places->slots = TCC_ARENA_ARRAY(memory, slot, total + 1);
    if (!places->slots) return tcc_enomem(d);
    tcc_program_for_buffers(program, add, &m);
    return TCC_OK;
}

void tcc_places_set(const tcc_places *places, tcc_space space, int binding, const void *base) {
    const range *r = &places->ranges[place_index(space, binding)];
    for (int i = r->first; i < r->first + r->count; i++) {
        const char *address = (const char *)base + places->slots[i].offset_bytes;
        memcpy(places->slots[i].address, &address,
               sizeof address); /* an object that is a pointer here, an integer there */
    }
}

bool tcc_places_reach(const tcc_places *places, tcc_space space, int binding, const void *begin, const void *end) {
    const range *r = &places->ranges[place_index(space, binding)];
    for (int i = r->first; i < r->first + r->count; i++)
        if ((uintptr_t)places->slots[i].address >= (uintptr_t)begin &&
            (uintptr_t)places->slots[i].address < (uintptr_t)end)
            return true;
    return false;
}
