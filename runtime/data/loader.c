/* SPDX-License-Identifier: MIT
 * Loaders. Batches are numbered through all epochs. Those that are not left out (options.stride) go to one slot after
 * the other, in a ring.
 * A worker claims the next number that no one has claimed as soon as its slot is free, fills the
 * slot without the lock, and marks it ready; the consumer takes the numbers in order. What a batch
 * holds is a function of its number, so that neither the number of workers nor their timing shows.
 *
 * The consumer's slot is handed back when the next batch is asked for. */
#include "ir/support/alloc.h"
#include "ir/support/clock.h"
#include "ir/support/fp_mode.h"
#include "ir/support/thread.h"
#include "runtime/data/data.h"
#include "runtime/data/mix.h"
#include "runtime/data/order.h"

#include <pthread.h>
#include <string.h>

enum { ALIGNMENT = 64, PAGE = 4096 };

typedef struct slot {
    tcc_batch batch;
    void *memory; /* of its arrays: whole pages, which may be pinned */
    size_t bytes;
    int64_t number;    /* the batch in it, once ready; -1: none */
    tcc__drawn *space; /* to draw its samples in */
    int32_t *classes;  /* of samples that are mixed; else NULL */
    tcc_status status;
    tcc_diag diag;
} slot;

struct tcc_loader {
    tcc_context *cx;
    const tcc_dataset *data;
    tcc__order order;
    tcc_array sample[2];      /* x and y as batches have them */
    int64_t x_bytes, y_bytes; /* a sample's, at most */

    slot *slots;
    int n_slots;
    pthread_t *threads;
    int n_threads;
    pthread_mutex_t mutex;
    pthread_cond_t slot_ready, slot_free;
    /* Guarded by the mutex: */
    int64_t next_claim, next_give; /* batch numbers */
    int n_filling;
    bool paused, stopping;
    double waited; /* seconds; the consumer's */
};

/* ---- one batch ---- */

static int64_t array_bytes(const tcc_array *a) {
    int64_t bytes = tcc_dtype_bytes(a->dtype);
    for (int i = 0; i < a->rank; i++) bytes *= a->dims[i];
    return bytes;
}

/* The loader's part of a batch of `samples`: where it begins, and how many it has. */
static int64_t part_of(const tcc_loader_options *how, int64_t samples, int64_t *begin) {
    const int64_t parts = how->parts > 1 ? how->parts : 1, each = (samples + parts - 1) / parts;
    *begin = how->part * each;
    const int64_t left = samples - *begin;
    return left < each ? left : each;
}

static tcc_status fill(tcc_diag *d, const tcc_loader *l, int64_t number, slot *s) {
    tcc_batch *batch = &s->batch;
    const tcc_loader_options *how = &l->order.how;
    int64_t epoch = number / l->order.batches, index = number % l->order.batches, size = how->batch_size, length, begin;
    const int64_t count = part_of(how, tcc__order_count(&l->order, index), &begin);
    const int64_t rows = how->last_batch == TCC_LAST_PAD ? size : count;
    const tcc__drawn *drawn = tcc__order_batch(&l->order, number, s->space, &length) + begin;
    batch->count = count;
    batch->epoch = epoch;
    batch->index = index;
    batch->ends_epoch = index == l->order.batches - 1;
    for (int i = 0; i < batch->n_arrays; i++) batch->arrays[i].dims[0] = rows;
    if (length) batch->arrays[0].dims[1] = length;
    char *x = batch->arrays[0].data, *y = batch->arrays[1].data;
    const int64_t x_bytes = length ? l->x_bytes / l->sample[0].dims[0] * length : l->x_bytes;
    for (int64_t i = 0; i < count; i++) {
        tcc__sample sample = {
            .split = how->split,
            .number = drawn[i].number,
            .position = index * size + begin + i,
            .epoch = epoch,
            .seed = how->seed,
            .shuffle = how->shuffle,
            .length = length,
        };
        void *to = s->classes ? (void *)&s->classes[i] : y + i * l->y_bytes;
        TCC_TRY(l->data->reader->read(d, l->data, &sample, x + i * x_bytes, to));
    }
    if (s->classes) tcc__mix_pairs(how, epoch, index * size + begin, s->classes, count, batch->arrays);
    for (int64_t i = count; i < rows; i++) {
        memcpy(x + i * x_bytes, x + i % count * x_bytes, (size_t)x_bytes);
        memcpy(y + i * l->y_bytes, y + i % count * l->y_bytes, (size_t)l->y_bytes);
    }
    return TCC_OK;
}

static int64_t stride_of(const tcc_loader *l) { return l->order.how.stride > 1 ? l->order.how.stride : 1; }

static slot *slot_of(tcc_loader *l, int64_t number) { return &l->slots[number / stride_of(l) % l->n_slots]; }

static void fill_slot(const tcc_loader *l, slot *s, int64_t number) {
    tcc_diag_clear(&s->diag);
    const tcc_fp_mode mode = tcc_fp_begin(); /* numbers are read and scaled as by default */
    s->status = fill(&s->diag, l, number, s);
    tcc_fp_end(mode);
}

/* ---- workers ---- */

/* The consumer holds batch next_give - 1 and those before it, so the slots of the batches from there on are taken. */
static bool may_claim(const tcc_loader *l) {
    return !l->paused && (l->next_claim - l->next_give) / stride_of(l) + 1 + l->order.how.held < l->n_slots;
}

static void *work(void *argument) {
    tcc_loader *l = argument;
    pthread_mutex_lock(&l->mutex);
    for (;;) {
        while (!l->stopping && !may_claim(l)) pthread_cond_wait(&l->slot_free, &l->mutex);
        if (l->stopping) break;
        int64_t number = l->next_claim;
        slot *s = slot_of(l, number);
        l->next_claim += stride_of(l);
        l->n_filling++;
        pthread_mutex_unlock(&l->mutex);
        fill_slot(l, s, number);
        pthread_mutex_lock(&l->mutex);
        l->n_filling--;
        s->number = number;
        pthread_cond_signal(&l->slot_ready);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

static tcc_status start_workers(tcc_diag *d, tcc_loader *l) {
    if (!l->order.how.num_workers) return TCC_OK;
    l->threads = tcc__calloc((size_t)l->order.how.num_workers, sizeof *l->threads);
    if (!l->threads) return tcc_enomem(d);
    int error = 0;
    while (l->n_threads < l->order.how.num_workers && !error) {
        error = tcc__thread_create(&l->threads[l->n_threads], work, l);
        if (!error) l->n_threads++;
    }
    if (error)
        return tcc_error(d, TCC_ENOMEM, TCC_NOWHERE, "cannot start worker %d of %d: %s", l->n_threads + 1,
                         l->order.how.num_workers, tcc__errno(error).text);
    return TCC_OK;
}

/* ---- creation ---- */

/* No batch leaves a part without samples. */
static tcc_status check_parts(tcc_diag *d, const tcc_loader_options *o, int64_t samples) {
    const int64_t whole = samples < o->batch_size ? 0 : o->batch_size, rest = samples % o->batch_size;
    const int64_t sizes[] = {whole, o->last_batch == TCC_LAST_KEEP ? rest : 0};
    if (o->last_batch == TCC_LAST_PAD)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "a batch of %lld parts cannot be filled up with its own samples",
                         (long long)o->parts);
    for (int i = 0; i < 2; i++) {
        const int64_t each = (sizes[i] + o->parts - 1) / o->parts;
        if (sizes[i] && each * (o->parts - 1) >= sizes[i])
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                             "%s of %lld samples in %lld parts leaves one without samples; %s",
                             i ? "the last batch of an epoch," : "a batch", (long long)sizes[i], (long long)o->parts,
                             i ? "drop it, or take batches of another size" : "take larger batches");
        if (tcc__mixes(o) && each % 2) /* both of a pair are in one part, as in the whole */
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                             "%s of %lld samples in %lld parts has %lld in each; to be mixed they must be even",
                             i ? "the last batch of an epoch," : "a batch", (long long)sizes[i], (long long)o->parts,
                             (long long)each);
    }
    return TCC_OK;
}

/* The caller's options, whose struct may be of an earlier version. */
static tcc_status read_options(tcc_diag *d, const tcc_loader_options *given, tcc_loader_options *out) {
    *out = (tcc_loader_options){0};
    if (given->size < offsetof(tcc_loader_options, parts) || given->size > sizeof *out)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tcc_loader_options.size is %zu, should be %zu", given->size,
                         sizeof *out);
    memcpy(out, given, given->size);
    return TCC_OK;
}

static tcc_status check_options(tcc_diag *d, const tcc_dataset *data, const tcc_loader_options *o) {
    static const char *const part[TCC_SPLIT_COUNT] = {"training", "validation"};
    const struct {
        const char *name;
        int64_t value, least, most;
    } numbers[] = {{"split", (int)o->split, 0, TCC_SPLIT_COUNT - 1},
                   {"batch_size", o->batch_size, 1, INT32_MAX},
                   {"num_workers", o->num_workers, 0, 1024},
                   {"prefetch", o->prefetch, 0, 65536},
                   {"last_batch", (int)o->last_batch, 0, TCC_LAST_KEEP},
                   {"padding", (int)o->padding, 0, TCC_PADDING_UNIFORM},
                   {"lengths", o->lengths, 0, TCC__LENGTHS_MAX},
                   {"held", o->held, 0, 1024},
                   {"parts", o->parts, 0, INT32_MAX},
                   {"stride", o->stride, 0, INT32_MAX},
                   {"part", o->part, 0, o->parts > 1 ? o->parts - 1 : 0}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value < numbers[i].least || numbers[i].value > numbers[i].most)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%s is %lld; it must be from %lld to %lld", numbers[i].name,
                             (long long)numbers[i].value, (long long)numbers[i].least, (long long)numbers[i].most);
    if (o->padding != TCC_PADDING_FIXED && !data->reader->length)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "samples of kind %s are all of one length: there is no padding",
                         data->info.kind);
    if (!(o->mixup >= 0 && o->mixup <= 1000 && o->cutmix >= 0 && o->cutmix <= 1000))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "mixup is %g and cutmix %g; they must be from 0 to 1000", o->mixup,
                         o->cutmix);
    if (tcc__mixes(o) && !data->reader->mixes)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "samples of kind %s cannot be mixed: they are no images of a class", data->info.kind);
    int64_t samples = data->info.samples[o->split];
    if (!samples) return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "the data has no %s part", part[o->split]);
    if (samples < o->batch_size && o->last_batch == TCC_LAST_DROP)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "the %s part has %lld samples, too few for one batch of %lld",
                         part[o->split], (long long)samples, (long long)o->batch_size);
    return o->parts > 1 ? check_parts(d, o, samples) : TCC_OK;
}

/* An array of so many samples, without data. */
static tcc_array array_of(const tcc_array *sample, int64_t samples) {
    tcc_array a = *sample;
    a.rank++;
    memmove(a.dims + 1, sample->dims, sizeof a.dims - sizeof a.dims[0]);
    a.dims[0] = samples;
    return a;
}

/* Shares of classes rather than a class, where samples are mixed. */
static void set_samples(tcc_loader *l) {
    for (int j = 0; j < 2; j++) l->sample[j] = *tcc__sample_array(l->data, l->order.how.split, j);
    if (tcc__mixes(&l->order.how))
        l->sample[1] =
            (tcc_array){.name = l->sample[1].name, .dtype = TCC_F32, .rank = 1, .dims = {l->data->info.classes}};
    l->x_bytes = array_bytes(&l->sample[0]);
    l->y_bytes = array_bytes(&l->sample[1]);
}

static tcc_status make_slots(tcc_diag *d, tcc_loader *l) {
    int ahead = l->order.how.prefetch ? l->order.how.prefetch : 2 * l->order.how.num_workers;
    l->n_slots = (l->order.how.num_workers ? ahead : 0) + 1 + l->order.how.held; /* the consumer's */
    l->slots = tcc__calloc((size_t)l->n_slots, sizeof *l->slots);
    if (!l->slots || l->x_bytes > INT64_MAX / l->order.how.batch_size) return tcc_enomem(d);
    for (int i = 0; i < l->n_slots; i++) {
        slot *s = &l->slots[i];
        s->number = -1;
        s->batch.n_arrays = 2;
        s->space = tcc__malloc((size_t)tcc__order_space(&l->order) * sizeof *s->space);
        if (!s->space) return tcc_enomem(d);
        if (tcc__mixes(&l->order.how)) {
            s->classes = tcc__malloc((size_t)l->order.how.batch_size * sizeof *s->classes);
            if (!s->classes) return tcc_enomem(d);
        }
        size_t at[2];
        for (int j = 0; j < 2; j++) {
            tcc_array *a = &s->batch.arrays[j];
            *a = array_of(&l->sample[j], l->order.how.batch_size);
            at[j] = s->bytes;
            s->bytes += ((size_t)array_bytes(a) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        }
        s->bytes = (s->bytes + PAGE - 1) / PAGE * PAGE;
        if (!(s->memory = tcc__aligned(PAGE, s->bytes))) return tcc_enomem(d);
        for (int j = 0; j < 2; j++) s->batch.arrays[j].data = (char *)s->memory + at[j];
    }
    return TCC_OK;
}

tcc_status tcc_loader_create(tcc_context *cx, const tcc_dataset *data, const tcc_loader_options *options,
                             tcc_loader **out) {
    tcc_diag_begin(&cx->diag);
    tcc_diag *d = &cx->diag;
    tcc_loader_options how;
    *out = NULL;
    TCC_TRY(read_options(d, options, &how));
    TCC_TRY(check_options(d, data, &how));
    tcc_loader *l = tcc__calloc(1, sizeof *l);
    if (!l) return tcc_enomem(d);
    l->cx = cx;
    l->data = data;
    l->order.how = how;
    set_samples(l);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->slot_ready, NULL);
    pthread_cond_init(&l->slot_free, NULL);
    tcc_status status = tcc__order_init(d, data, &how, &l->order);
    if (status == TCC_OK) status = make_slots(d, l);
    if (status == TCC_OK) status = start_workers(d, l);
    if (status == TCC_OK) *out = l;
    else tcc_loader_destroy(l);
    return status;
}

void tcc_loader_destroy(tcc_loader *l) {
    if (!l) return;
    pthread_mutex_lock(&l->mutex);
    l->stopping = true;
    pthread_cond_broadcast(&l->slot_free);
    pthread_mutex_unlock(&l->mutex);
    for (int i = 0; i < l->n_threads; i++) pthread_join(l->threads[i], NULL);
    pthread_cond_destroy(&l->slot_free);
    pthread_cond_destroy(&l->slot_ready);
    pthread_mutex_destroy(&l->mutex);
    for (int i = 0; i < l->n_slots && l->slots; i++) {
        tcc__free(l->slots[i].memory);
        tcc__free(l->slots[i].space);
        tcc__free(l->slots[i].classes);
        tcc_diag_clear(&l->slots[i].diag);
    }
    tcc__free(l->slots);
    tcc__free(l->threads);
    tcc__free(l);
}

/* ---- use ---- */

/* The error is kept in the slot, and given again at every call: there is no way past a batch that
 * cannot be read. */
static tcc_status report(tcc_loader *l, const slot *s) {
    if (l->cx->diag.status == TCC_OK) {
        tcc_diag_clear(&l->cx->diag);
        l->cx->diag.status = s->status;
        tcc_strbuf_add(&l->cx->diag.text, tcc_diag_text(&s->diag));
    }
    return s->status;
}

/* The slot of the next batch, ready. The mutex is held. */
static void wait_for(tcc_loader *l, slot *s, int64_t number) {
    if (s->number == number) return;
    double start = tcc_clock_seconds();
    if (l->n_threads) {
        while (s->number != number) pthread_cond_wait(&l->slot_ready, &l->mutex);
    } else {
        fill_slot(l, s, number);
        s->number = number;
    }
    l->waited += tcc_clock_seconds() - start;
}

tcc_status tcc_loader_next(tcc_loader *l, const tcc_batch **out) {
    tcc_diag_begin(&l->cx->diag);
    *out = NULL;
    pthread_mutex_lock(&l->mutex);
    int64_t number = l->next_give;
    slot *s = slot_of(l, number);
    wait_for(l, s, number);
    if (s->status == TCC_OK) {
        l->next_give += stride_of(l);
        pthread_cond_signal(&l->slot_free);
        *out = &s->batch;
    }
    pthread_mutex_unlock(&l->mutex);
    return s->status == TCC_OK ? TCC_OK : report(l, s);
}

bool tcc_loader_memory(const tcc_loader *l, int index, void **memory, size_t *size_bytes) {
    if (index < 0 || index >= l->n_slots) return false;
    *memory = l->slots[index].memory;
    *size_bytes = l->slots[index].bytes;
    return true;
}

int64_t tcc_loader_batches(const tcc_loader *l) { return l->order.batches; }

bool tcc_loader_shape(const tcc_loader *l, int index, tcc_array shape[2]) {
    const tcc__order *o = &l->order;
    const int n = o->n_lengths ? o->n_lengths : 1;
    for (int i = 0; i < 2 * n; i++) {
        const bool whole = i >= n;
        int64_t begin;
        if (!(whole ? o->whole[i - n] : o->left[i]) || index--) continue;
        const int64_t rows = part_of(&o->how, whole ? o->how.batch_size : o->samples % o->how.batch_size, &begin);
        for (int j = 0; j < 2; j++) shape[j] = array_of(&l->sample[j], rows);
        if (o->n_lengths) shape[0].dims[1] = o->lengths[i % n];
        return true;
    }
    return false;
}

bool tcc_loader_padding(const tcc_loader *l, tcc_padding_info *out) {
    *out = l->order.padding;
    return l->order.n_lengths > 0;
}

double tcc_loader_waited(const tcc_loader *l) { return l->waited; }

tcc_loader_state tcc_loader_get_state(const tcc_loader *l) {
    return (tcc_loader_state){l->order.how.seed, l->next_give / l->order.batches,
                              l->next_give % l->order.batches}; /* written by this thread alone */
}

tcc_status tcc_loader_set_state(tcc_loader *l, tcc_loader_state state) {
    tcc_diag_begin(&l->cx->diag);
    if (state.epoch < 0 || state.index < 0 || state.index >= l->order.batches ||
        state.epoch > INT64_MAX / 2 / l->order.batches)
        return tcc_error(&l->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "there is no batch %lld in epoch %lld; an epoch has %lld", (long long)state.index,
                         (long long)state.epoch, (long long)l->order.batches);
    pthread_mutex_lock(&l->mutex);
    l->paused = true;
    while (l->n_filling) pthread_cond_wait(&l->slot_ready, &l->mutex);
    l->paused = false;
    for (int i = 0; i < l->n_slots; i++) l->slots[i].number = -1;
    l->order.how.seed = state.seed;
    l->next_claim = l->next_give = state.epoch * l->order.batches + state.index;
    pthread_cond_broadcast(&l->slot_free);
    pthread_mutex_unlock(&l->mutex);
    return TCC_OK;
}
