/* SPDX-License-Identifier: MIT
 * Races: who touched each word of global and of shared memory, and whether anything orders it before this access. */
#include "access.h"
#include "memory.h"
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>

/* --- global memory: between blocks of one launch, and with operations that nothing orders before this one */

static bool ordered(const sim_warp *w, uint64_t record) {
    const sim_launch *l = w->launch;
    return l->acquired[w->block->linear] && (record & WORD_MANY || l->released[word_block(record)]);
}

static void race(sim_warp *w, const sim_inst *i, int lane, uint64_t address, const char *mine, const char *theirs,
                 uint64_t record) {
    char other[32] = "another block";
    if (!(record & WORD_MANY)) snprintf(other, sizeof other, "block %u", word_block(record));
    sim_soft_fault(w, i, lane, CHECK_RACE,
                   "race: %s of global 0x%" PRIx64 ", which %s of the same launch %s without synchronization", mine,
                   address, other, theirs);
}

static void stream_race(sim_warp *w, const sim_inst *i, int lane, uint64_t address, const char *mine,
                        const char *theirs, uint64_t record) {
    char what[128];
    sim_describe_op(word_op(record), what, sizeof what);
    sim_soft_fault(w, i, lane, CHECK_STREAM,
                   "race between streams: %s of global 0x%" PRIx64 ", which %s %s, and nothing orders the two", mine,
                   address, what, theirs);
}

/* Returns the bytes that this launch had not touched before. */
static uint32_t track_word(sim_warp *w, const sim_inst *i, int lane, uint64_t *words, uint64_t address, uint32_t bytes,
                           sim_access access) {
    uint32_t op = w->launch->op, fresh;
    uint64_t block = w->block->linear & WORD_BLOCK_MASK;
    bool write = access != ACCESS_READ, checks = sim_checks(CHECK_RACE), streams = sim_checks(CHECK_STREAM);
    uint64_t writer = __atomic_load_n(&words[0], __ATOMIC_RELAXED),
             reader = __atomic_load_n(&words[1], __ATOMIC_RELAXED);
    uint64_t *slot = &words[write ? 0 : 1];
    for (;;) {
        uint64_t old = write ? writer : reader, next;
        if (word_op(old) == op && old) {
            fresh = bytes & ~(uint32_t)old;
            next = old | bytes;
            if (!(old & WORD_MANY) && word_block(old) != block)
                next = (next & ~(WORD_BLOCK_MASK << WORD_BLOCK_SHIFT)) | (old & bytes & 15) << WORD_BLOCK_SHIFT |
                       WORD_MANY;
            if (write && access < ACCESS_ATOMIC) next &= ~(uint64_t)WORD_ATOMIC;
        } else {
            fresh = bytes;
            next = (uint64_t)op << WORD_OP_SHIFT | block << WORD_BLOCK_SHIFT | bytes |
                   (access >= ACCESS_ATOMIC ? WORD_ATOMIC : 0);
            if (!write && old && streams && !sim_op_before(word_op(old), op)) next |= WORD_UNORDERED;
        }
        if (next == old) break;
        if (!w->launch->parallel) {
            *slot = next;
            break;
        }
        uint64_t expected = old;
        if (__atomic_compare_exchange_n(slot, &expected, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) break;
        if (write) writer = expected;
        else reader = expected;
    }
    if (w->launch->parallel) {
        if (write) reader = __atomic_load_n(&words[1], __ATOMIC_SEQ_CST);
        else writer = __atomic_load_n(&words[0], __ATOMIC_SEQ_CST);
    }
    const char *mine = access == ACCESS_READ ? "read" : access == ACCESS_ATOMIC ? "atomic" : "write";
    if (writer && word_op(writer) == op) {
        if (checks && (word_foreign(writer, block) & bytes) &&
            !(writer & WORD_ATOMIC && (access >= ACCESS_ATOMIC || i->flags & FLAG_VOLATILE)) && !ordered(w, writer))
            race(w, i, lane, address, mine, "wrote", writer);
    } else if (writer && streams && !sim_op_before(word_op(writer), op)) {
        stream_race(w, i, lane, address, mine, "wrote", writer);
    }
    if (write && reader) {
        if (word_op(reader) == op) {
            if (checks && (word_foreign(reader, block) & bytes) && !ordered(w, reader))
                race(w, i, lane, address, mine, "read", reader);
            if (streams && reader & WORD_UNORDERED)
                sim_soft_fault(w, i, lane, CHECK_STREAM,
                               "race between streams: %s of global 0x%" PRIx64
                               ", which another operation read, and nothing orders the two",
                               mine, address);
        } else if (streams && !sim_op_before(word_op(reader), op)) {
            stream_race(w, i, lane, address, mine, "read", reader);
        }
    }
    return (uint32_t)__builtin_popcount(fresh & 15);
}

/* Whether a record is of nobody, or of an operation that is known to be done. */
static inline bool is_done(const sim_worker *k, uint64_t record) {
    const uint32_t op = word_op(record);
    return op == 0 || op == k->before[0] || op == k->before[1];
}

/* The record of a word that this block alone has touched in this launch. */
static inline uint64_t own_record(const sim_warp *w) {
    return (uint64_t)w->launch->op << WORD_OP_SHIFT | (w->block->linear & WORD_BLOCK_MASK) << WORD_BLOCK_SHIFT | 15;
}

/* The common case: nobody else has touched the word in this launch, and who did before is known to be done. False: look
 * closer. */
static inline bool track_quick(sim_warp *w, uint64_t mine, uint64_t *words, bool write, uint32_t *fresh) {
    uint64_t writer = __atomic_load_n(&words[0], __ATOMIC_RELAXED),
             reader = __atomic_load_n(&words[1], __ATOMIC_RELAXED);
    uint64_t old = write ? writer : reader;
    if (!(writer == mine || is_done(w->worker, writer)) || !(reader == mine || is_done(w->worker, reader)))
        return false;
    if (old == mine) return true;
    if (w->launch->parallel) {
        if (!__atomic_compare_exchange_n(&words[write ? 0 : 1], &old, mine, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            return false;
        uint64_t other = __atomic_load_n(&words[write ? 1 : 0], __ATOMIC_SEQ_CST);
        if (other != (write ? reader : writer)) return false;
    } else {
        words[write ? 0 : 1] = mine;
    }
    *fresh += 4;
    return true;
}

/* Remembers a writer and a reader before this operation, so that most words need no search. */
static void learn_before(sim_warp *w, const uint64_t *words) {
    for (int k = 0; k < 2; k++) {
        uint32_t other = word_op(words[k]);
        if (other && other != w->launch->op && sim_op_before(other, w->launch->op)) w->worker->before[k] = other;
    }
}

bool sim_track_run(sim_warp *w, uint64_t *words, uint32_t bytes, bool write, uint32_t *fresh) {
    const uint64_t mine = own_record(w);
    for (; bytes; bytes -= 4, words += 2)
        if (!track_quick(w, mine, words, write, fresh)) return false;
    return true;
}

uint32_t sim_track(sim_warp *w, const sim_inst *i, int lane, const sim_place *at, uint64_t address, uint32_t bytes,
                   sim_access access) {
    uint32_t fresh = 0;
    uint64_t *words = at->words, mine = own_record(w);
    uint32_t within = at->within;
    while (bytes) {
        uint32_t n = 4 - within < bytes ? 4 - within : bytes;
        if (n == 4 && access <= ACCESS_WRITE && track_quick(w, mine, words, access == ACCESS_WRITE, &fresh)) {
            words += 2, bytes -= 4, address += 4;
            continue;
        }
        learn_before(w, words);
        fresh += track_word(w, i, lane, words, address, ((1u << n) - 1) << within, access);
        words += 2, bytes -= n, address += n, within = 0;
    }
    return fresh;
}

/* --- shared memory: accesses of two threads that no barrier orders. A record holds bytes (0-3), many (4),
 * lane (5-9), warp (10-14), atomic (15) and the warp's clock (16-47). */
enum { SHARED_MANY = 1 << 4, SHARED_ATOMIC = 1 << 15 };
static inline uint32_t shared_lane(uint64_t r) { return r >> 5 & 31; }
static inline uint32_t shared_warp(uint64_t r) { return r >> 10 & 31; }
static inline uint32_t shared_clock(uint64_t r) { return (uint32_t)(r >> 16); }

static bool concurrent(const sim_warp *w, int lane, uint64_t record) {
    uint32_t warp = shared_warp(record), clock = shared_clock(record);
    if (warp == w->index) return clock == w->clock[warp] && ((int)shared_lane(record) != lane || record & SHARED_MANY);
    return w->clock[warp] < clock;
}

static void shared_race(sim_warp *w, const sim_inst *i, int lane, uint64_t address, const char *mine,
                        const char *theirs, uint64_t record) {
    uint32_t thread = shared_warp(record) * LANES + shared_lane(record);
    sim_soft_fault(w, i, lane, CHECK_RACE,
                   "race: %s of shared 0x%" PRIx64 ", which thread %u of the block %s with no barrier between", mine,
                   address, thread, theirs);
}

void sim_track_shared(sim_warp *w, const sim_inst *i, int lane, const sim_place *at, uint64_t address, uint32_t bytes,
                      sim_access access) {
    sim_shared_word *word = at->shared;
    uint32_t within = at->within;
    const char *mine = access == ACCESS_READ ? "read" : access == ACCESS_ATOMIC ? "atomic" : "write";
    uint64_t base = (uint64_t)w->clock[w->index] << 16 | (uint64_t)w->index << 10 | (uint64_t)lane << 5 |
                    (access >= ACCESS_ATOMIC ? SHARED_ATOMIC : 0);
    for (; bytes; word++) {
        uint32_t n = 4 - within < bytes ? 4 - within : bytes, mask = ((1u << n) - 1) << within;
        uint64_t writer = word->writer, reader = word->reader;
        if (writer & mask && !(writer & SHARED_ATOMIC && access >= ACCESS_ATOMIC) && concurrent(w, lane, writer)) {
            shared_race(w, i, lane, address, mine, "wrote", writer);
            return;
        }
        if (access == ACCESS_READ) {
            if (reader && concurrent(w, lane, reader)) word->reader = reader | mask | SHARED_MANY;
            else if (reader && shared_warp(reader) == w->index && shared_clock(reader) == w->clock[w->index])
                word->reader = reader | mask;
            else word->reader = base | mask;
        } else {
            if (reader & mask && concurrent(w, lane, reader)) {
                shared_race(w, i, lane, address, mine, "read", reader);
                return;
            }
            bool same = writer && shared_warp(writer) == w->index && shared_clock(writer) == w->clock[w->index] &&
                        (int)shared_lane(writer) == lane;
            word->writer = base | mask | (same ? writer & 15 : 0);
        }
        bytes -= n, address += n, within = 0;
    }
}

/* A whole word that nobody touches at the same time, or that others read as well. `done`: a warp and its clock
 * that are known to come before; writers are the same for many words. False: look closer. */
static inline bool track_shared_quick(const sim_warp *w, uint64_t base, sim_shared_word *word, bool write,
                                      uint64_t *done) {
    const uint64_t writer = word->writer, reader = word->reader;
    const uint32_t clock = w->clock[w->index];
    if (writer && writer >> 10 != *done) {
        const uint32_t by = shared_warp(writer), at = shared_clock(writer);
        if (by == w->index ? at == clock : w->clock[by] < at) return false;
        *done = writer >> 10;
    }
    const bool own = reader && shared_warp(reader) == w->index && shared_clock(reader) == clock;
    if (write) {
        if (own || (reader && shared_warp(reader) != w->index && w->clock[shared_warp(reader)] < shared_clock(reader)))
            return false;
        word->writer = base | 15;
    } else if (own) {
        word->reader = reader | 15 | (shared_lane(reader) == shared_lane(base) ? 0 : SHARED_MANY);
    } else if (reader && shared_warp(reader) != w->index && w->clock[shared_warp(reader)] < shared_clock(reader)) {
        word->reader = reader | 15 | SHARED_MANY;
    } else {
        word->reader = base | 15;
    }
    return true;
}

void sim_track_shared_lanes(sim_warp *w, const sim_inst *i, const uint64_t *address, uint32_t mask, uint32_t bytes,
                            sim_access access) {
    sim_place at = {.space = SP_SHARED};
    uint64_t done = 0;
    uint32_t repeats = 0;
    int before = -1;
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        repeats = before >= 0 && address[l] == address[before] ? repeats + 1 : 0;
        before = l;
        if (access == ACCESS_READ && repeats > 1) continue; /* the second lane has said all that there is to say */
        const uint64_t offset = address[l] - SHARED_START;
        const uint64_t base = (uint64_t)w->clock[w->index] << 16 | (uint64_t)w->index << 10 | (uint64_t)l << 5;
        at.shared = w->block->shared_words + offset / 4, at.within = offset & 3;
        uint32_t known = 0;
        if (access <= ACCESS_WRITE && bytes >= 4)
            while (known < bytes && track_shared_quick(w, base, at.shared, access == ACCESS_WRITE, &done))
                at.shared++, known += 4;
        if (known < bytes) sim_track_shared(w, i, l, &at, address[l] + known, bytes - known, access);
        if (w->launch->status) return;
    }
}
