/* SPDX-License-Identifier: MIT
 * Checking picture files by several threads. */
#include "runtime/data/picture_check.h"
#include "ir/support/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST_THREADS = 8, FILES_A_THREAD = 64 };

typedef struct checking {
    const tcc__file_list *files;
    tcc__picture_found *found;
    atomic_int next;
} checking;

static void *work(void *argument) {
    checking *c = argument;
    for (int i; (i = atomic_fetch_add(&c->next, 1)) < c->files->count;) {
        tcc__picture size;
        const bool ok = tcc__picture_check(NULL, c->files->data[i], &size) == TCC_OK;
        c->found[i] = (tcc__picture_found){ok ? size.height : 0, ok ? size.width : 0};
    }
    return NULL;
}

/* Without a thread, where none can be made, the caller does it. */
static void check_all(checking *c) {
    pthread_t threads[MOST_THREADS];
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int count = 0;
    while (count < MOST_THREADS - 1 && count < cpus - 1 && (count + 1) * FILES_A_THREAD < c->files->count &&
           !tcc__thread_create(&threads[count], work, c))
        count++;
    work(c);
    while (count) pthread_join(threads[--count], NULL);
}

tcc_status tcc__picture_check_all(tcc_diag *d, const tcc__file_list *files, bool skips, tcc__picture_found *found) {
    checking c = {.files = files, .found = found};
    check_all(&c);
    for (int i = 0; i < files->count && !skips; i++) {
        tcc__picture size;
        if (!found[i].height) TCC_TRY(tcc__picture_check(d, files->data[i], &size)); /* once more, in words */
    }
    return TCC_OK;
}
