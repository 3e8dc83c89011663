/* SPDX-License-Identifier: MIT
 * A CUDA device's ways in and out: batches through pinned slots, beside the steps that run; small results through a
 * pinned ring; and copies that are waited for. */
#include "runtime/cuda/staging.h"
#include "runtime/cuda/ranks.h"

#include <string.h>

enum {
    SMALL = 16 << 10 /* bytes: from here on a copy beside the steps is worth a second one on the device */
};

static tcc_cuda_address address_of(const void *memory) { return (tcc_cuda_address)(uintptr_t)memory; }

typedef tcc_status mover(tcc_device_cuda *cuda, tcc_diag *d, void *to, const void *from, int64_t size_bytes);

/* With the device entered. */
static tcc_status move(mover *way, tcc_device *device, tcc_diag *d, void *to, const void *from, int64_t size_bytes) {
    tcc_device_cuda *cuda = (tcc_device_cuda *)device;
    if (size_bytes <= 0) return TCC_OK;
    TCC_TRY(tcc__cuda_enter(cuda, d));
    tcc_status s = way(cuda, d, to, from, size_bytes);
    tcc__cuda_leave(cuda);
    return s;
}

/* --- life --- */

tcc_status tcc__cuda_staging_create(tcc_device_cuda *cuda, tcc_diag *d) {
    for (int i = 0; i < TCC_CUDA_STAGING_SLOTS; i++) {
        TCC_CUDA_TRY(cuda, d, event_create, &cuda->staging[i].copied, TCC_CUDA_EVENT_NO_TIMING);
        TCC_CUDA_TRY(cuda, d, event_create, &cuda->staging[i].done, TCC_CUDA_EVENT_NO_TIMING);
    }
    for (int i = 0; i < TCC_FETCHES; i++)
        TCC_CUDA_TRY(cuda, d, event_create, &cuda->fetch_done[i], TCC_CUDA_EVENT_NO_TIMING);
    return tcc__cuda_host_alloc(cuda, d, TCC_FETCHES * TCC_FETCH_BYTES, (void **)&cuda->fetched);
}

static void free_slot(tcc_device_cuda *cuda, tcc_cuda_staging *s) {
    if (s->host) cuda->cu.host_free(s->host);
    if (s->device) cuda->cu.free(s->device);
    s->host = NULL;
    s->device = 0;
    s->capacity = 0;
}

void tcc__cuda_staging_destroy(tcc_device_cuda *cuda) {
    for (int i = 0; i < TCC_CUDA_STAGING_SLOTS; i++) {
        tcc_cuda_staging *s = &cuda->staging[i];
        free_slot(cuda, s);
        if (s->copied) cuda->cu.event_destroy(s->copied);
        if (s->done) cuda->cu.event_destroy(s->done);
    }
    for (int i = 0; i < TCC_FETCHES; i++)
        if (cuda->fetch_done[i]) cuda->cu.event_destroy(cuda->fetch_done[i]);
    if (cuda->fetched) cuda->cu.host_free(cuda->fetched);
    for (int i = 0; i < cuda->pins.count; i++) cuda->cu.host_unregister(cuda->pins.data[i].memory);
    tcc_vec_free(&cuda->pins);
}

/* The slot's memory is in nobody's use when this is called. */
static tcc_status enlarge(tcc_device_cuda *cuda, tcc_diag *d, tcc_cuda_staging *s, int64_t capacity) {
    free_slot(cuda, s);
    TCC_TRY(tcc__cuda_host_alloc(cuda, d, capacity, (void **)&s->host));
    TCC_TRY(tcc__cuda_alloc(cuda, d, capacity, "batches on their way to the steps", &s->device));
    s->capacity = capacity;
    return TCC_OK;
}

tcc_status tcc__cuda_staging_reserve(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes) {
    bool enough = true;
    for (int i = 0; i < TCC_CUDA_STAGING_SLOTS; i++) enough &= cuda->staging[i].capacity >= size_bytes;
    if (enough) return TCC_OK;
    TCC_TRY(tcc__cuda_wait_stream(cuda, d, cuda->compute));
    for (int i = 0; i < TCC_CUDA_STAGING_SLOTS; i++) TCC_TRY(enlarge(cuda, d, &cuda->staging[i], size_bytes));
    return TCC_OK;
}

/* --- in --- */

/* The next slot, with room for `size_bytes`; waits where the host is a full ring of feeds ahead. */
static tcc_status take_slot(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes, tcc_cuda_staging **out) {
    tcc_cuda_staging *s = *out = &cuda->staging[cuda->slot];
    if (s->pending) TCC_TRY(tcc__cuda_wait_event(cuda, d, s->done));
    s->pending = false;
    return size_bytes <= s->capacity ? TCC_OK : enlarge(cuda, d, s, size_bytes);
}

static bool is_pinned(const tcc_device_cuda *cuda, const tcc_feed *part) {
    for (int i = 0; i < cuda->pins.count; i++) {
        const unsigned char *begin = cuda->pins.data[i].memory, *from = part->from;
        if (from >= begin && from + part->size_bytes <= begin + cuda->pins.data[i].size_bytes) return true;
    }
    return false;
}

/* Whether a part is copied to the device from where it lies. A small feed is one copy, through the slot. */
static bool is_direct(const tcc_device_cuda *cuda, const tcc_feed *part, int64_t all_bytes) {
    return all_bytes > SMALL && part->size_bytes > SMALL && is_pinned(cuda, part);
}

/* Bytes [begin, end) of the slot, to the same place on the device. */
static tcc_status send_slot(tcc_device_cuda *cuda, tcc_diag *d, const tcc_cuda_staging *s, int64_t begin, int64_t end) {
    if (end > begin)
        TCC_CUDA_TRY(cuda, d, copy_to_device, s->device + (tcc_cuda_address)begin, s->host + begin,
                     (size_t)(end - begin), cuda->to_device);
    return TCC_OK;
}

/* All parts to the slot's memory on the device: what lies in the slot in as few copies as there can be. */
static tcc_status send_parts(tcc_device_cuda *cuda, tcc_diag *d, const tcc_cuda_staging *s, const tcc_feed *parts,
                             int n_parts, int64_t size_bytes) {
    int64_t begin = 0, at = 0; /* of what is in the slot and not yet sent */
    for (int i = 0; i < n_parts; i++) {
        const int64_t next = at + tcc_feed_room(parts[i].size_bytes);
        if (is_direct(cuda, &parts[i], size_bytes)) {
            TCC_TRY(send_slot(cuda, d, s, begin, at));
            TCC_CUDA_TRY(cuda, d, copy_to_device, s->device + (tcc_cuda_address)at, parts[i].from,
                         (size_t)parts[i].size_bytes, cuda->to_device);
            begin = next;
        }
        at = next;
    }
    return send_slot(cuda, d, s, begin, size_bytes);
}

/* A small feed goes right to its place, a large one beside the steps that run now. */
static tcc_status send(tcc_device_cuda *cuda, tcc_diag *d, tcc_cuda_staging *s, void *to, const tcc_feed *parts,
                       int n_parts, int64_t size_bytes) {
    const size_t size = (size_t)size_bytes;
    if (size_bytes <= SMALL) {
        if (size) TCC_CUDA_TRY(cuda, d, copy_to_device, address_of(to), s->host, size, cuda->compute);
    } else {
        TCC_TRY(send_parts(cuda, d, s, parts, n_parts, size_bytes));
        TCC_CUDA_TRY(cuda, d, event_record, s->copied, cuda->to_device);
        TCC_CUDA_TRY(cuda, d, stream_wait, cuda->compute, s->copied, 0);
        TCC_CUDA_TRY(cuda, d, copy, address_of(to), s->device, size, cuda->compute);
    }
    TCC_CUDA_TRY(cuda, d, event_record, s->done, cuda->compute);
    s->pending = true;
    cuda->slot = (cuda->slot + 1) % TCC_CUDA_STAGING_SLOTS;
    return TCC_OK;
}

static tcc_status feed(tcc_device_cuda *cuda, tcc_diag *d, void *to, const tcc_feed *parts, int n_parts) {
    tcc_cuda_staging *s;
    int64_t room = 0, size_bytes = 0, at = 0;
    for (int i = 0; i < n_parts; i++) {
        size_bytes = room + parts[i].size_bytes; /* without the room behind the last, which may not be there */
        room += tcc_feed_room(parts[i].size_bytes);
    }
    TCC_TRY(take_slot(cuda, d, room, &s));
    for (int i = 0; i < n_parts; i++) {
        if (!is_direct(cuda, &parts[i], size_bytes)) memcpy(s->host + at, parts[i].from, (size_t)parts[i].size_bytes);
        at += tcc_feed_room(parts[i].size_bytes);
    }
    return send(cuda, d, s, to, parts, n_parts, size_bytes);
}

tcc_status tcc__cuda_feed(tcc_device *device, tcc_diag *d, void *to, const tcc_feed *parts, int n_parts) {
    tcc_device_cuda *cuda = (tcc_device_cuda *)device;
    TCC_TRY(tcc__cuda_enter(cuda, d));
    tcc_status s = feed(cuda, d, to, parts, n_parts);
    tcc__cuda_leave(cuda);
    return s;
}

static tcc_status pin(tcc_device_cuda *cuda, tcc_diag *d, void *memory, int64_t size_bytes) {
    const tcc_cuda_pin entry = {memory, size_bytes};
    TCC_TRY(tcc__cuda_host_register(cuda, d, memory, size_bytes));
    if (tcc_vec_push(&cuda->pins, entry)) return TCC_OK;
    cuda->cu.host_unregister(memory);
    return tcc_enomem(d);
}

tcc_status tcc__cuda_pin(tcc_device *device, tcc_diag *d, void *memory, int64_t size_bytes) {
    tcc_device_cuda *cuda = (tcc_device_cuda *)device;
    TCC_TRY(tcc__cuda_enter(cuda, d));
    const tcc_status s = pin(cuda, d, memory, size_bytes);
    tcc__cuda_leave(cuda);
    return s;
}

static tcc_status upload(tcc_device_cuda *cuda, tcc_diag *d, void *to, const void *from, int64_t size_bytes) {
    if (cuda->ranks) TCC_TRY(tcc__cuda_wait_stream(cuda, d, cuda->compute)); /* the copy itself may wait for it */
    TCC_CUDA_TRY(cuda, d, copy_to_device, address_of(to), from, (size_t)size_bytes, cuda->compute);
    TCC_TRY(tcc__cuda_wait_stream(cuda, d, cuda->compute));
    return TCC_OK;
}

tcc_status tcc__cuda_upload(tcc_device *device, tcc_diag *d, void *to, const void *from, int64_t size_bytes) {
    return move(upload, device, d, to, from, size_bytes);
}

/* --- out --- */

/* Waits for the runs so far, not for those that other threads enqueue meanwhile. */
static tcc_status download(tcc_device_cuda *cuda, tcc_diag *d, void *to, const void *from, int64_t size_bytes) {
    TCC_CUDA_TRY(cuda, d, event_record, cuda->order, cuda->compute);
    if (cuda->ranks) TCC_TRY(tcc__cuda_wait_event(cuda, d, cuda->order)); /* the copy itself may wait for it */
    TCC_CUDA_TRY(cuda, d, stream_wait, cuda->to_host, cuda->order, 0);
    TCC_CUDA_TRY(cuda, d, copy_to_host, to, address_of(from), (size_t)size_bytes, cuda->to_host);
    TCC_TRY(tcc__cuda_wait_stream(cuda, d, cuda->to_host));
    return TCC_OK;
}

tcc_status tcc__cuda_download(tcc_device *device, tcc_diag *d, void *to, const void *from, int64_t size_bytes) {
    return move(download, device, d, to, from, size_bytes);
}

static tcc_status fetch(tcc_device_cuda *cuda, tcc_diag *d, const void *from, int64_t size_bytes, int64_t *ticket) {
    int64_t number = cuda->n_fetched, slot = number % TCC_FETCHES;
    if (size_bytes)
        TCC_CUDA_TRY(cuda, d, copy_to_host, cuda->fetched + slot * TCC_FETCH_BYTES, address_of(from),
                     (size_t)size_bytes, cuda->compute);
    TCC_CUDA_TRY(cuda, d, event_record, cuda->fetch_done[slot], cuda->compute);
    *ticket = number;
    cuda->n_fetched++;
    return TCC_OK;
}

tcc_status tcc__cuda_fetch(tcc_device *device, tcc_diag *d, const void *from, int64_t size_bytes, int64_t *ticket) {
    tcc_device_cuda *cuda = (tcc_device_cuda *)device;
    if (size_bytes < 0 || size_bytes > TCC_FETCH_BYTES)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "a fetch of %lld bytes: at most %d", (long long)size_bytes,
                         TCC_FETCH_BYTES);
    TCC_TRY(tcc__cuda_enter(cuda, d));
    tcc_status s = fetch(cuda, d, from, size_bytes, ticket);
    tcc__cuda_leave(cuda);
    return s;
}

static tcc_status collect(tcc_device_cuda *cuda, tcc_diag *d, int64_t ticket, void *to, int64_t size_bytes) {
    TCC_TRY(tcc_device_check_fetch(d, cuda->n_fetched, ticket, size_bytes));
    int64_t slot = ticket % TCC_FETCHES;
    TCC_TRY(tcc__cuda_wait_event(cuda, d, cuda->fetch_done[slot]));
    memcpy(to, cuda->fetched + slot * TCC_FETCH_BYTES, (size_t)size_bytes);
    return TCC_OK;
}

tcc_status tcc__cuda_collect(tcc_device *device, tcc_diag *d, int64_t ticket, void *to, int64_t size_bytes) {
    tcc_device_cuda *cuda = (tcc_device_cuda *)device;
    TCC_TRY(tcc__cuda_enter(cuda, d));
    tcc_status s = collect(cuda, d, ticket, to, size_bytes);
    tcc__cuda_leave(cuda);
    return s;
}
