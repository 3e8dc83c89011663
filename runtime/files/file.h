/* SPDX-License-Identifier: MIT
 * Files: whole-file reading (gzip is inflated on the way) and writing that either replaces a file
 * completely or leaves the old one as it was. */
#ifndef TCC_RUNTIME_FILES_FILE_H
#define TCC_RUNTIME_FILES_FILE_H

#include "ir/support/diag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a file holds, inflated; `data` is freed with tcc__free. */
typedef struct tcc__bytes {
    uint8_t *data;
    size_t size;
} tcc__bytes;

/* Read all of `path`. A gzip file, recognized by its magic and not by its name, is inflated.
 * Errors: ENOTFOUND, EIO (with the system's reason), EFORMAT (a truncated or damaged gzip stream, a
 * file that is too large for memory). */
tcc_status tcc__file_load(tcc_diag *d, const char *path, tcc__bytes *out);
bool tcc__file_exists(const char *path);
/* Read bytes [at, at + count) of an open file; `path` is for messages. Errors: EIO, also where a file that had them has
 * become shorter. */
tcc_status tcc__file_read_at(tcc_diag *d, const char *path, int fd, int64_t at, void *to, int64_t count);

/* `folder`/`name` on the heap (tcc__free), NULL when memory is short. */
char *tcc__path_join(const char *folder, const char *name);
/* The last component, borrowed from `path`. */
const char *tcc__path_name(const char *path);
/* The folder of `path` on the heap: "." if it names none. NULL when memory is short. */
char *tcc__path_folder(const char *path);
/* Create one folder; one that exists already is fine. */
tcc_status tcc__folder_create(tcc_diag *d, const char *path);

/* The system's words for an errno value; thread-safe, in the caller's buffer. */
typedef struct tcc__errno_text {
    char text[96];
} tcc__errno_text;
tcc__errno_text tcc__errno(int error);

/* A file being written beside its final place: open, write ..., sync, rename. Every failing call
 * abandons the file itself (the temporary is removed, the previous file under the final name
 * survives), so that callers just return; tcc__out_abandon after success or failure does nothing
 * more. What is no file, as a pipe, is written to as it is.
 *
 * The temporary is PATH.tmp, made anew and held by a lock. So one that nobody holds is what a killed process left: it
 * is replaced. A link of that name is not followed. Where another process writes to the same path, opening fails. */
typedef struct tcc__out {
    char *path, *temporary; /* temporary: NULL for what is no file */
    int fd;                 /* -1 once closed */
} tcc__out;

tcc_status tcc__out_open(tcc_diag *d, tcc__out *o, const char *path);
tcc_status tcc__out_write(tcc_diag *d, tcc__out *o, const void *data, size_t size_bytes);
tcc_status tcc__out_sync(tcc_diag *d, tcc__out *o);   /* everything is on the disk, under the temporary name */
tcc_status tcc__out_rename(tcc_diag *d, tcc__out *o); /* the commit: final name, folder synced; releases `o` */
void tcc__out_abandon(tcc__out *o);

/* All of a file, so. */
tcc_status tcc__file_save(tcc_diag *d, const char *path, const void *bytes, size_t size_bytes);

/* write(2) of all bytes, through the failure injection below; 0 or an errno value. */
int tcc__write_all(int fd, const void *data, size_t size_bytes);

/* Test hook: after `bytes` more bytes every write fails with ENOSPC; negative: none fails.
 * Process-wide; for tests alone. */
void tcc__io_fail_after(int64_t bytes);

#endif
