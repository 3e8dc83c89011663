/* SPDX-License-Identifier: MIT
 * Loads, stores and atomics with all their checks: bounds, alignment, initialization, races, and traffic counted. */
#include "lanes.h"
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>

typedef struct place {
    uint8_t *data, *init;
    uint64_t *words;         /* of global memory, first word of the access */
    sim_shared_word *shared; /* of shared memory */
    uint32_t within;         /* offset inside the first word */
    sim_space space;
} place;

static const char *space_names[] = {"generic", "global", "shared", "local", "const", "param", "register"};

/* --- races of global memory: between blocks of one launch, and with operations that nothing orders before this one */

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

/* The common case: nobody else has touched the word in this launch, and who did before is known to be done. False: look
 * closer. */
static inline bool track_quick(sim_warp *w, uint64_t *words, bool write, uint32_t *fresh) {
    uint32_t op = w->launch->op, before = w->worker->before;
    uint64_t mine = (uint64_t)op << WORD_OP_SHIFT | (w->block->linear & WORD_BLOCK_MASK) << WORD_BLOCK_SHIFT | 15;
    uint64_t writer = __atomic_load_n(&words[0], __ATOMIC_RELAXED),
             reader = __atomic_load_n(&words[1], __ATOMIC_RELAXED);
    uint32_t wrote = word_op(writer), read = word_op(reader);
    bool writer_done = wrote == 0 || wrote == before, reader_done = read == 0 || read == before;
    uint64_t old = write ? writer : reader;
    if (!(writer_done || (writer == mine)) || !(reader_done || reader == mine)) return false;
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

/* Remembers one operation before this one, so that most words need no search. */
static void learn_before(sim_warp *w, const uint64_t *words) {
    for (int k = 0; k < 2; k++) {
        uint32_t other = word_op(words[k]);
        if (other && other != w->launch->op && sim_op_before(other, w->launch->op)) w->worker->before = other;
    }
}

static uint32_t track(sim_warp *w, const sim_inst *i, int lane, const place *at, uint64_t address, uint32_t bytes,
                      sim_access access) {
    uint32_t fresh = 0;
    uint64_t *words = at->words;
    uint32_t within = at->within;
    while (bytes) {
        uint32_t n = 4 - within < bytes ? 4 - within : bytes;
        if (n == 4 && access <= ACCESS_WRITE && track_quick(w, words, access == ACCESS_WRITE, &fresh)) {
            words += 2, bytes -= 4, address += 4;
            continue;
        }
        learn_before(w, words);
        fresh += track_word(w, i, lane, words, address, ((1u << n) - 1) << within, access);
        words += 2, bytes -= n, address += n, within = 0;
    }
    return fresh;
}

/* --- races of shared memory: accesses of two threads that no barrier orders. A record holds bytes (0-3), many (4),
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

static void track_shared(sim_warp *w, const sim_inst *i, int lane, const place *at, uint64_t address, uint32_t bytes,
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

/* --- where an address lies */

static bool out_of_bounds(sim_warp *w, const sim_inst *i, int lane, sim_space space, uint64_t address, uint32_t bytes,
                          bool write, const char *where) {
    sim_fault(w, i, lane, SIM_ILLEGAL_ADDRESS, "invalid %s of %u bytes at %s 0x%" PRIx64 ": %s",
              write ? "write" : "read", bytes, space_names[space], address, where);
    return false;
}

static bool locate(sim_warp *w, const sim_inst *i, uint32_t slot, int lane, sim_space space, uint64_t address,
                   uint32_t bytes, bool write, place *at) {
    char where[160];
    if (space == SP_GENERIC) {
        if (address - SHARED_WINDOW < WINDOW_BYTES) space = SP_SHARED, address -= SHARED_WINDOW;
        else if (address - LOCAL_WINDOW < WINDOW_BYTES) space = SP_LOCAL, address -= LOCAL_WINDOW;
        else if (address - PARAM_WINDOW < WINDOW_BYTES) space = SP_PARAM, address -= PARAM_WINDOW;
        else space = SP_GLOBAL;
    }
    *at = (place){.space = space};
    switch (space) {
    case SP_SHARED: {
        uint64_t offset = address - SHARED_START;
        uint32_t total = w->block->shared_bytes;
        if (offset >= total || bytes > total - offset) {
            snprintf(where, sizeof where, "the block has %u bytes of shared memory, from 0x%x on", total, SHARED_START);
            return out_of_bounds(w, i, lane, space, address, bytes, write, where);
        }
        at->data = w->block->shared + offset, at->init = w->block->shared_init + offset;
        at->shared = w->block->shared_words + offset / 4, at->within = offset & 3;
        return true;
    }
    case SP_LOCAL: {
        uint64_t stride = w->block->local_stride;
        if (address >= stride || bytes > stride - address) {
            snprintf(where, sizeof where, "the thread has %" PRIu64 " bytes of local memory", stride);
            return out_of_bounds(w, i, lane, space, address, bytes, write, where);
        }
        uint64_t offset = ((uint64_t)w->index * LANES + (uint64_t)lane) * stride + address;
        at->data = w->block->local + offset, at->init = w->block->local_init + offset;
        return true;
    }
    case SP_PARAM: {
        uint64_t total = w->launch->func->param_bytes;
        if (write || address >= total || bytes > total - address) {
            snprintf(where, sizeof where, "the kernel has %" PRIu64 " bytes of parameters, which are read-only", total);
            return out_of_bounds(w, i, lane, space, address, bytes, write, where);
        }
        at->data = (uint8_t *)(uintptr_t)(w->launch->params + address);
        return true;
    }
    default: {
        sim_alloc **cache = &w->worker->cache[slot], *a = *cache;
        if (!a || address - a->base >= a->size || bytes > a->size - (address - a->base)) {
            a = sim_memory_find(address);
            if (!a || bytes > a->size - (address - a->base)) {
                sim_memory_describe(a ? a->base + a->size : address, where, sizeof where);
                return out_of_bounds(w, i, lane, SP_GLOBAL, address, bytes, write, where);
            }
            *cache = a;
        }
        if (write && a->read_only)
            return out_of_bounds(w, i, lane, SP_GLOBAL, address, bytes, write, "constant memory is read-only");
        uint64_t offset = address - a->base;
        at->data = a->data + offset;
        if (!a->host) at->init = a->init + offset, at->words = a->words + offset / 4 * 2, at->within = offset & 3;
        return true;
    }
    }
}

static bool check_init(sim_warp *w, const sim_inst *i, int lane, sim_space space, uint64_t address, const uint8_t *init,
                       uint32_t bytes) {
    if (!init || !sim_checks(CHECK_UNINIT)) return true;
    uint32_t k = 0;
    for (; k + 8 <= bytes; k += 8) {
        uint64_t v;
        memcpy(&v, init + k, 8);
        if (v != UINT64_C(0x0101010101010101)) break;
    }
    while (k < bytes && init[k]) k++;
    if (k == bytes) return true;
    return !sim_soft_fault(w, i, lane, CHECK_UNINIT,
                           "uninitialized read of %u bytes at %s 0x%" PRIx64 ": byte %u was never written", bytes,
                           space_names[space], address, k);
}

static bool check_alignment(sim_warp *w, const sim_inst *i, int lane, sim_space space, uint64_t address,
                            uint32_t bytes) {
    if ((address & (bytes - 1)) == 0 || !sim_checks(CHECK_ALIGN)) return true;
    sim_fault(w, i, lane, SIM_MISALIGNED, "misaligned access of %u bytes at %s 0x%" PRIx64, bytes, space_names[space],
              address);
    return false;
}

static bool check_registers(sim_warp *w, const sim_inst *i, int r, uint32_t mask, const char *what) {
    uint32_t unknown = mask & ~w->init[r];
    if (!unknown || !sim_checks(CHECK_UNINIT)) return true;
    return !sim_soft_fault(w, i, __builtin_ctz(unknown), CHECK_UNINIT,
                           "%s comes from a register that was never written", what);
}

/* --- statistics */

static int width_class(uint32_t bytes) {
    return bytes >= 16 ? 4 : bytes == 8 ? 3 : bytes == 4 ? 2 : bytes == 2 ? 1 : 0;
}

/* Wavefronts of an access of shared memory: the most words that one bank must deliver, by groups of lanes that move 128
 * bytes. */
static void count_banks(sim_worker *k, const uint64_t *address, uint32_t mask, uint32_t bytes) {
    uint32_t lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8, words = bytes <= 4 ? 1 : bytes / 4;
    for (uint32_t first = 0; first < LANES; first += lanes) {
        uint8_t count[32] = {0};
        uint64_t seen[32][32];
        uint32_t most = 0;
        for (uint32_t l = first; l < first + lanes; l++) {
            if (!(mask >> l & 1)) continue;
            for (uint32_t q = 0; q < words; q++) {
                uint64_t word = address[l] / 4 + q;
                uint32_t bank = word % 32, n = 0;
                while (n < count[bank] && seen[bank][n] != word) n++;
                if (n == count[bank]) seen[bank][n] = word, count[bank]++;
                if (count[bank] > most) most = count[bank];
            }
        }
        if (most) k->stats.shared_accesses += most, k->stats.shared_conflicts += most - 1;
    }
}

static uint64_t count_sectors(const uint64_t *address, uint32_t mask, uint32_t bytes) {
    uint64_t seen[LANES * 2], n = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        for (uint64_t s = address[l] / 32; s <= (address[l] + bytes - 1) / 32; s++) {
            uint64_t k = n;
            while (k > 0 && seen[k - 1] != s && n - k < 4) k--; /* neighbours are what repeats */
            if (n == 0 || k == 0 || seen[k - 1] != s) {
                if (n < LANES * 2) seen[n++] = s;
            }
        }
    }
    return n;
}

/* --- loads and stores */

static void count_global(sim_warp *w, const uint64_t *address, uint32_t mask, uint32_t bytes, bool write) {
    ptxsim_stats *s = &w->worker->stats;
    uint64_t lanes = (uint64_t)__builtin_popcount(mask);
    if (write) s->global_write_bytes += lanes * bytes, s->global_stores[width_class(bytes)] += lanes;
    else s->global_read_bytes += lanes * bytes, s->global_loads[width_class(bytes)] += lanes;
    s->global_sectors += count_sectors(address, mask, bytes);
}

static sim_space space_by_address(sim_space space, uint64_t a) {
    if (space != SP_GENERIC) return space == SP_CONST ? SP_GLOBAL : space;
    return a - SHARED_WINDOW < WINDOW_BYTES  ? SP_SHARED
           : a - LOCAL_WINDOW < WINDOW_BYTES ? SP_LOCAL
           : a - PARAM_WINDOW < WINDOW_BYTES ? SP_PARAM
                                             : SP_GLOBAL;
}

static void count_access(sim_warp *w, const sim_inst *i, const uint64_t *address, uint32_t mask, uint32_t bytes,
                         bool write) {
    ptxsim_stats *s = &w->worker->stats;
    uint64_t lanes = (uint64_t)__builtin_popcount(mask), first = address[__builtin_ctz(mask)];
    switch (space_by_address((sim_space)i->space, first)) {
    case SP_SHARED:
        if (write) s->shared_write_bytes += lanes * bytes;
        else s->shared_read_bytes += lanes * bytes;
        count_banks(w->worker, address, mask, bytes);
        break;
    case SP_LOCAL:
        if (write) s->local_write_bytes += lanes * bytes;
        else s->local_read_bytes += lanes * bytes;
        break;
    case SP_GLOBAL: count_global(w, address, mask, bytes, write); break;
    default: break;
    }
}

/* All of one lane's checks; the bytes. */
static uint8_t *touch(sim_warp *w, const sim_inst *i, uint32_t slot, int lane, sim_space space, uint64_t address,
                      uint32_t bytes, sim_access access) {
    place at;
    bool write = access != ACCESS_READ;
    if (!locate(w, i, slot, lane, space, address, bytes, write, &at)) return NULL;
    if ((access == ACCESS_READ || access == ACCESS_ATOMIC) &&
        !check_init(w, i, lane, at.space, address, at.init, bytes))
        return NULL;
    if (at.words) {
        uint32_t fresh = track(w, i, lane, &at, address, bytes, access);
        if (write) w->worker->stats.global_write_unique_bytes += fresh;
        else w->worker->stats.global_read_unique_bytes += fresh;
    } else if (at.shared && sim_checks(CHECK_RACE)) {
        track_shared(w, i, lane, &at, address, bytes, access);
    }
    if (w->launch->status) return NULL;
    if (write && at.init) memset(at.init, 1, bytes);
    return at.data;
}

uint8_t *sim_touch(sim_warp *w, const sim_inst *i, int lane, sim_space space, uint64_t address, uint32_t bytes,
                   sim_access access) {
    return touch(w, i, i->memory, lane, space, address, bytes, access);
}

static bool addresses(sim_warp *w, const sim_inst *i, uint32_t mask, uint32_t bytes, uint64_t *address) {
    const sim_reg *a = row(w, i->in[0]);
    if (!check_registers(w, i, i->in[0], mask, "the address")) return false;
    uint64_t wrong = 0;
    EACH_LANE {
        address[l] = a->u64[l] + (uint64_t)i->imm;
        wrong |= mask >> l & 1 ? address[l] & (bytes - 1) : 0;
    }
    if (wrong)
        for (uint32_t m = mask; m; m &= m - 1) {
            int l = __builtin_ctz(m);
            if (!check_alignment(w, i, l, (sim_space)i->space, address[l], bytes)) return false;
        }
    return true;
}

void sim_exec_load(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint32_t element = (uint32_t)sim_type_size((sim_type)i->type), bytes = element * i->vec;
    uint64_t address[LANES];
    if (!mask || !addresses(w, i, mask, bytes, address)) return;
    bool is_signed = sim_type_signed((sim_type)i->type);
    if (i->space != SP_PARAM) count_access(w, i, address, mask, bytes, false);
    if (i->flags & FLAG_VOLATILE) w->launch->acquired[w->block->linear] = 1;
    uint64_t previous = 0;
    const uint8_t *data = NULL;
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if (!data || address[l] != previous || (i->space != SP_GLOBAL && i->space != SP_PARAM)) {
            data = touch(w, i, i->memory, l, (sim_space)i->space, address[l], bytes, ACCESS_READ);
            if (!data) return;
            previous = address[l];
        }
        for (int e = 0; e < i->vec; e++) {
            uint64_t v = 0;
            memcpy(&v, data + (uint32_t)e * element, element);
            if (is_signed && element < 8) v = (uint64_t)((int64_t)(v << (64 - 8 * element)) >> (64 - 8 * element));
            sim_reg *d = row(w, i->out[e]);
            if (i->sub == 8) d->u64[l] = v;
            else d->u32[l] = i->sub == 2 ? (uint16_t)v : i->sub == 1 ? (uint8_t)v : (uint32_t)v;
        }
    }
    for (int e = 0; e < i->vec; e++) w->init[i->out[e]] |= mask;
}

void sim_exec_store(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint32_t element = (uint32_t)sim_type_size((sim_type)i->type), bytes = element * i->vec;
    uint64_t address[LANES];
    if (!mask || !addresses(w, i, mask, bytes, address)) return;
    for (int e = 0; e < i->vec; e++)
        if (!check_registers(w, i, i->in[1 + e], mask, "the value stored")) return;
    count_access(w, i, address, mask, bytes, true);
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        uint8_t *data = touch(w, i, i->memory, l, (sim_space)i->space, address[l], bytes,
                              i->flags & FLAG_VOLATILE ? ACCESS_STRONG : ACCESS_WRITE);
        if (!data) return;
        for (int e = 0; e < i->vec; e++) {
            const sim_reg *s = row(w, i->in[1 + e]);
            if (element == 8) memcpy(data + (uint32_t)e * 8, &s->u64[l], 8);
            else memcpy(data + (uint32_t)e * element, &s->u32[l], element);
        }
    }
    if (i->flags & FLAG_VOLATILE) w->launch->released[w->block->linear] = 1;
}

/* --- atomics: one at a time over all blocks */

static pthread_mutex_t atomics = PTHREAD_MUTEX_INITIALIZER;

static uint32_t add_halves(uint32_t x, uint32_t y, sim_type t) {
    bool f16 = t == T_F16 || t == T_F16X2;
    uint32_t r = f16 ? sim_f32_to_f16(f16_to_f32(x & 0xffff) + f16_to_f32(y & 0xffff))
                     : (uint32_t)sim_round_double(sim_add_odd(bf16_to_f32(x & 0xffff), bf16_to_f32(y & 0xffff)),
                                                  sim_bf16, RND_RN);
    if (t == T_F16 || t == T_BF16) return r;
    return r | add_halves(x >> 16, y >> 16, t == T_F16X2 ? T_F16 : T_BF16) << 16;
}

static uint64_t combine(const sim_inst *i, uint64_t old, uint64_t a, uint64_t b) {
    sim_type t = (sim_type)i->type;
    bool less;
    switch (i->op) {
    case 0:
        if (t == T_F32)
            return as_u32(canonical_f32(flush_f32(flush_f32(as_f32((uint32_t)old)) + flush_f32(as_f32((uint32_t)a)))));
        if (t == T_F64) return as_u64(as_f64(old) + as_f64(a));
        if (sim_type_float(t)) return add_halves((uint32_t)old, (uint32_t)a, t);
        return old + a;
    case 1:
    case 2:
        if (t == T_S32) less = (int32_t)a < (int32_t)old;
        else if (t == T_S64) less = (int64_t)a < (int64_t)old;
        else less = a < old;
        return less == (i->op == 1) ? a : old;
    case 3: return old & a;
    case 4: return old | a;
    case 5: return old ^ a;
    case 6: return a;
    case 7: return old == a ? b : old;
    case 8: return (uint32_t)old >= (uint32_t)a ? 0 : old + 1;
    default: return old == 0 || (uint32_t)old > (uint32_t)a ? a : old - 1;
    }
}

void sim_exec_atomic(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint32_t bytes = (uint32_t)sim_type_size((sim_type)i->type);
    uint64_t address[LANES];
    if (!mask || !addresses(w, i, mask, bytes, address)) return;
    for (int k = 1; k < i->n_in; k++)
        if (!check_registers(w, i, i->in[k], mask, "the operand of an atomic")) return;
    count_access(w, i, address, mask, bytes, false);
    count_access(w, i, address, mask, bytes, true);
    uint64_t lanes = (uint64_t)__builtin_popcount(mask);
    if (sim_type_float((sim_type)i->type)) w->worker->stats.float_atomics += lanes;
    else w->worker->stats.integer_atomics += lanes;
    if (w->block->fenced) w->launch->released[w->block->linear] = 1;
    pthread_mutex_lock(&atomics);
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        uint8_t *data = touch(w, i, i->memory, l, (sim_space)i->space, address[l], bytes, ACCESS_ATOMIC);
        if (!data) break;
        uint64_t old = 0, a = bytes == 8 ? row(w, i->in[1])->u64[l] : row(w, i->in[1])->u32[l], b = 0;
        if (i->n_in > 2) b = bytes == 8 ? row(w, i->in[2])->u64[l] : row(w, i->in[2])->u32[l];
        memcpy(&old, data, bytes);
        uint64_t next = combine(i, old, a, b);
        memcpy(data, &next, bytes);
        if (i->n_out) {
            if (bytes == 8) row(w, i->out[0])->u64[l] = old;
            else row(w, i->out[0])->u32[l] = (uint32_t)old;
        }
    }
    pthread_mutex_unlock(&atomics);
    if (i->n_out) w->init[i->out[0]] |= mask;
    w->block->acquired_any = true;
    w->launch->acquired[w->block->linear] = 1;
}

void sim_exec_fence(sim_warp *w, const sim_inst *i, uint32_t mask) {
    (void)i, (void)mask;
    w->block->fenced = true;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* --- asynchronous copies: the bytes move when a wait asks for them, as late as the hardware may */

void sim_exec_cp_async(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint32_t bytes = i->vec;
    uint64_t to[LANES], from[LANES];
    if (!mask || !addresses(w, i, mask, bytes, to) || !check_registers(w, i, i->in[1], mask, "the address")) return;
    EACH_LANE from[l] = row(w, i->in[1])->u64[l] + (uint64_t)(int64_t)(int32_t)i->target;
    count_access(w, i, to, mask, bytes, true);
    uint32_t reads = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        uint32_t size = i->n_in > 2 ? row(w, i->in[2])->u32[l] : bytes;
        if (size > bytes) {
            sim_fault(w, i, l, SIM_ILLEGAL_INSTRUCTION, "cp.async of %u bytes from a source of %u", bytes, size);
            return;
        }
        if (size) {
            reads |= 1u << l;
            if (!check_alignment(w, i, l, SP_GLOBAL, from[l], bytes)) return;
            place at;
            if (!locate(w, i, i->memory + 1, l, SP_GLOBAL, from[l], size, false, &at)) return;
        }
        /* From here on until the wait the words are being written: others must not touch them. */
        if (!touch(w, i, i->memory, l, SP_SHARED, to[l], bytes, ACCESS_WRITE)) return;
        place at;
        if (locate(w, i, i->memory, l, SP_SHARED, to[l], bytes, true, &at)) memset(at.init, 0, bytes);
        if (w->n_copies == w->cap_copies) {
            int cap = w->cap_copies ? w->cap_copies * 2 : 256;
            sim_copy *grown = realloc(w->copies, (size_t)cap * sizeof *grown);
            if (!grown) {
                sim_fault(w, i, l, SIM_OUT_OF_MEMORY, "the host has no memory left for asynchronous copies");
                return;
            }
            w->copies = grown, w->cap_copies = cap;
        }
        w->copies[w->n_copies++] = (sim_copy){from[l], to[l], size, bytes - size, (uint32_t)l, w->group[l], i};
    }
    if (reads) count_global(w, from, reads, bytes, false);
}

void sim_complete_copies(sim_warp *w, uint32_t lanes, uint32_t pending) {
    int kept = 0;
    for (int k = 0; k < w->n_copies; k++) {
        sim_copy c = w->copies[k];
        if (!(lanes >> c.lane & 1) || (pending != (uint32_t)ALL_COPIES && c.group + pending >= w->group[c.lane])) {
            w->copies[kept++] = c;
            continue;
        }
        if (w->launch->status) continue;
        place at;
        if (!locate(w, c.inst, c.inst->memory, (int)c.lane, SP_SHARED, c.shared, c.bytes + c.zeros, true, &at))
            continue;
        if (memchr(at.init, 1, c.bytes + c.zeros) &&
            sim_soft_fault(w, c.inst, (int)c.lane, CHECK_RACE,
                           "race: shared 0x%" PRIx64 " was written while this asynchronous copy to it was under way",
                           c.shared))
            continue;
        const uint8_t *from = c.bytes ? touch(w, c.inst, c.inst->memory + 1, (int)c.lane, SP_GLOBAL, c.global, c.bytes,
                                              ACCESS_READ)
                                      : NULL;
        uint8_t *to = touch(w, c.inst, c.inst->memory, (int)c.lane, SP_SHARED, c.shared, c.bytes + c.zeros,
                            ACCESS_WRITE);
        if (!to || (c.bytes && !from)) continue;
        if (c.bytes) memcpy(to, from, c.bytes);
        memset(to + c.bytes, 0, c.zeros);
    }
    w->n_copies = kept;
}

void sim_exec_cp_commit(sim_warp *w, const sim_inst *i, uint32_t mask) {
    (void)i;
    EACH_LANE w->group[l] += mask >> l & 1;
}

void sim_exec_cp_wait(sim_warp *w, const sim_inst *i, uint32_t mask) {
    sim_complete_copies(w, mask, (uint32_t)i->imm); /* wait_all: ALL_COPIES, committed or not */
}

void sim_count_shared(sim_warp *w, const uint64_t *address, uint32_t mask, uint32_t bytes) {
    w->worker->stats.shared_read_bytes += (uint64_t)__builtin_popcount(mask) * bytes;
    count_banks(w->worker, address, mask, bytes);
}
