/* SPDX-License-Identifier: MIT
 * Files. */
#include "runtime/files/file.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "traincc/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int_fast64_t writable_bytes = -1;

void tcc__io_fail_after(int64_t bytes) { atomic_store(&writable_bytes, bytes); }

tcc__errno_text tcc__errno(int error) {
    tcc__errno_text t;
    const char *text = strerror_r(error, t.text, sizeof t.text);
    if (text != t.text) snprintf(t.text, sizeof t.text, "%s", text);
    return t;
}

/* ---- paths ---- */

char *tcc__path_join(const char *folder, const char *name) {
    tcc_strbuf b = {0};
    size_t length = strlen(folder);
    tcc_strbuf_printf(&b, length && folder[length - 1] == '/' ? "%s%s" : "%s/%s", folder, name);
    return tcc_strbuf_take(&b);
}

const char *tcc__path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *tcc__path_folder(const char *path) {
    const char *name = tcc__path_name(path);
    tcc_strbuf b = {0};
    if (name == path) tcc_strbuf_add(&b, ".");
    else tcc_strbuf_addn(&b, path, name - path > 1 ? (size_t)(name - path) - 1 : 1);
    return tcc_strbuf_take(&b);
}

bool tcc__file_exists(const char *path) { return access(path, F_OK) == 0; }

tcc_status tcc__file_read_at(tcc_diag *d, const char *path, int fd, int64_t at, void *to, int64_t count) {
    const tcc_loc place = {path, 0};
    for (int64_t got = 0; got < count;) {
        struct stat info = {0};
        ssize_t r = pread(fd, (char *)to + got, (size_t)(count - got), at + got);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0)
            return tcc_error(d, TCC_EIO, place, "reading failed at byte %lld: %s", (long long)(at + got),
                             tcc__errno(errno).text);
        if (r == 0) {
            fstat(fd, &info);
            return tcc_error(d, TCC_EIO, place,
                             "the file ends at byte %lld, in front of byte %lld; it has become shorter while it was in "
                             "use",
                             (long long)info.st_size, (long long)(at + got));
        }
        got += r;
    }
    return TCC_OK;
}

tcc_status tcc__folder_create(tcc_diag *d, const char *path) {
    if (mkdir(path, 0777) == 0) return TCC_OK;
    int error = errno;
    struct stat info;
    if (error == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return TCC_OK;
    return tcc_error(d, TCC_EIO, (tcc_loc){path, 0}, "cannot create the folder: %s", tcc__errno(error).text);
}

/* ---- writing ---- */

int tcc__write_all(int fd, const void *data, size_t size_bytes) {
    const char *from = data;
    while (size_bytes) {
        size_t piece = size_bytes < ((size_t)1 << 30) ? size_bytes : (size_t)1 << 30;
        int64_t left = atomic_load_explicit(&writable_bytes, memory_order_relaxed);
        if (left >= 0) {
            if (left == 0) return ENOSPC;
            if ((uint64_t)left < piece) piece = (size_t)left;
        }
        ssize_t wrote = write(fd, from, piece);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return errno;
        if (left >= 0) atomic_fetch_sub(&writable_bytes, wrote);
        from += wrote;
        size_bytes -= (size_t)wrote;
    }
    return 0;
}

static void release(tcc__out *o) {
    tcc__free(o->path);
    tcc__free(o->temporary);
    *o = (tcc__out){.fd = -1};
}

void tcc__out_abandon(tcc__out *o) {
    if (!o->path) return;
    if (o->fd >= 0) close(o->fd);
    if (o->temporary) unlink(o->temporary);
    release(o);
}

static tcc_status write_failed(tcc_diag *d, tcc__out *o, const char *what, int error) {
    tcc_status status = tcc_error(d, TCC_EIO, (tcc_loc){o->path, 0}, "%s: %s%s", what, tcc__errno(error).text,
                                  o->temporary ? "; the file was left as it was" : "");
    tcc__out_abandon(o);
    return status;
}

/* The names of streams that are open, whatever these lead to: a file that the shell has opened, too. */
static bool is_stream(const char *path) {
    static const char *const begins[] = {"/dev/fd/", "/dev/stdout", "/dev/stderr", "/proc/"};
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        if (!strncmp(path, begins[i], strlen(begins[i]))) return true;
    return false;
}

/* Whether `path` is there and is no file: a pipe, a terminal, /dev/full. Such a thing is written to, never replaced. */
static bool is_device(const char *path) {
    struct stat info;
    return !stat(path, &info) && !S_ISDIR(info.st_mode) && (!S_ISREG(info.st_mode) || is_stream(path));
}

/* Whether `name` still names the open file. */
static bool is_named(int fd, const char *name) {
    struct stat open_file, named;
    return !fstat(fd, &open_file) && !lstat(name, &named) && open_file.st_dev == named.st_dev &&
           open_file.st_ino == named.st_ino;
}

/* A file system without locks holds for nobody. */
static bool is_locked_by_another(int fd) { return flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; }

/* Removes what stands in the way of a temporary file: one that nobody holds was left by a process that was killed. A
 * link is removed, not followed. */
static bool remove_leftover(const char *name) {
    const int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool busy = fd >= 0 && is_locked_by_another(fd);
    bool ok = !busy;
    if (ok && (fd < 0 || is_named(fd, name))) ok = !unlink(name) || errno == ENOENT;
    const int error = busy ? EBUSY : errno;
    if (fd >= 0) close(fd);
    errno = error;
    return ok;
}

/* A new file, which its writer holds by a lock until it is closed; -1 with errno: EBUSY where another one is writing
 * it. */
static int create_temporary(const char *name) {
    enum { ATTEMPTS = 100 };
    for (int i = 0; i < ATTEMPTS; i++) {
        const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 && !is_locked_by_another(fd) && is_named(fd, name)) return fd;
        if (fd >= 0) close(fd); /* another process took it for a leftover before it was locked */
        else if (errno != EEXIST || !remove_leftover(name)) return -1;
    }
    errno = EBUSY;
    return -1;
}

tcc_status tcc__out_open(tcc_diag *d, tcc__out *o, const char *path) {
    *o = (tcc__out){.fd = -1};
    const bool device = is_device(path);
    tcc_strbuf temporary = {0};
    if (!device) {
        tcc_strbuf_printf(&temporary, "%s.tmp", path);
        o->temporary = tcc_strbuf_take(&temporary);
    }
    o->path = tcc__strdup(path);
    if ((!device && !o->temporary) || !o->path) {
        release(o);
        return tcc_enomem(d);
    }
    o->fd = device ? open(path, O_WRONLY | O_CLOEXEC) : create_temporary(o->temporary);
    if (o->fd >= 0) return TCC_OK;
    tcc_status status = tcc_error(d, TCC_EIO, (tcc_loc){path, 0}, "cannot create the file: %s",
                                  errno == EBUSY ? "another process is writing it" : tcc__errno(errno).text);
    release(o);
    return status;
}

tcc_status tcc__out_write(tcc_diag *d, tcc__out *o, const void *data, size_t size_bytes) {
    int error = tcc__write_all(o->fd, data, size_bytes);
    return error ? write_failed(d, o, "writing failed", error) : TCC_OK;
}

tcc_status tcc__out_sync(tcc_diag *d, tcc__out *o) {
    if (o->temporary && fsync(o->fd)) return write_failed(d, o, "writing to the disk failed", errno);
    int fd = o->fd;
    o->fd = -1;
    if (close(fd)) return write_failed(d, o, "closing failed", errno);
    return TCC_OK;
}

/* The rename is on the disk only after its folder is. Some file systems cannot sync a folder, and
 * say EINVAL. */
static int sync_folder(const char *path) {
    char *folder = tcc__path_folder(path);
    if (!folder) return ENOMEM;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = 0;
    tcc__free(folder);
    if (fd < 0) return errno;
    if (fsync(fd) && errno != EINVAL) error = errno;
    close(fd);
    return error;
}

tcc_status tcc__out_rename(tcc_diag *d, tcc__out *o) {
    if (!o->temporary) {
        release(o);
        return TCC_OK;
    }
    if (rename(o->temporary, o->path)) return write_failed(d, o, "renaming failed", errno);
    int error = sync_folder(o->path);
    tcc_status status = TCC_OK;
    if (error)
        status = tcc_error(d, TCC_EIO, (tcc_loc){o->path, 0}, "the file is written, but syncing its folder failed: %s",
                           tcc__errno(error).text);
    release(o);
    return status;
}

tcc_status tcc__file_save(tcc_diag *d, const char *path, const void *bytes, size_t size_bytes) {
    tcc__out file;
    TCC_TRY(tcc__out_open(d, &file, path));
    TCC_TRY(tcc__out_write(d, &file, bytes, size_bytes));
    TCC_TRY(tcc__out_sync(d, &file));
    return tcc__out_rename(d, &file);
}

tcc_status tcc_file_write(tcc_context *cx, const char *path, const void *bytes, size_t size_bytes) {
    tcc_diag_begin(&cx->diag);
    if (!path || (size_bytes && !bytes))
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE, "tcc_file_write: the %s NULL",
                         path ? "bytes are" : "path is");
    return tcc__file_save(&cx->diag, path, bytes, size_bytes);
}
