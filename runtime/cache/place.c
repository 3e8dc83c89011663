/* SPDX-License-Identifier: MIT
 * Where the cache is, and whether it may be trusted: it holds code that will be executed. */
#include "ir/support/alloc.h"
#include "runtime/cache/internal.h"
#include "runtime/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char file_name[] = "cache.sqlite";

static const char *set(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

tcc_status tcc_cache_find(tcc_diag *d, const tcc_cache_options *options, char **path) {
    const char *folder = options->folder ? options->folder : set("TCC_CACHE_DIR");
    const char *base = set("XDG_CACHE_HOME"), *home = set("HOME");
    tcc_strbuf text = {0};
    if (folder) tcc_strbuf_printf(&text, "%s/%s", folder, file_name);
    else if (base) tcc_strbuf_printf(&text, "%s/traincc/%s", base, file_name);
    else if (home) tcc_strbuf_printf(&text, "%s/.cache/traincc/%s", home, file_name);
    else
        return tcc_error(d, TCC_EIO, TCC_NOWHERE,
                         "there is no folder for it: none of TCC_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
    *path = tcc_strbuf_take(&text);
    return *path ? TCC_OK : tcc_enomem(d);
}

/* All folders on the way to `path`, for us alone. */
static tcc_status make_folders(tcc_diag *d, char *path) {
    for (char *c = path + 1; *c; c++) {
        if (*c != '/') continue;
        *c = 0;
        const int error = mkdir(path, 0700) ? errno : 0;
        struct stat info;
        if (error && (stat(path, &info) || !S_ISDIR(info.st_mode))) {
            const tcc_status status = tcc_error(d, TCC_EIO, (tcc_loc){path, 0}, "cannot create the folder: %s",
                                                tcc__errno(error).text);
            *c = '/';
            return status;
        }
        *c = '/';
    }
    return TCC_OK;
}

static tcc_status check_owner(tcc_diag *d, const char *path, const struct stat *info) {
    if (info->st_uid != geteuid())
        return tcc_error(d, TCC_EUNSUPPORTED, (tcc_loc){path, 0},
                         "it belongs to user %lu, and what is in it would be executed as user %lu",
                         (unsigned long)info->st_uid, (unsigned long)geteuid());
    if (info->st_mode & 022)
        return tcc_error(d, TCC_EUNSUPPORTED, (tcc_loc){path, 0},
                         "other users may write to it (mode %03o), and what is in it would be executed: chmod go-w",
                         (unsigned)info->st_mode & 0777);
    return TCC_OK;
}

static tcc_status check_folder(tcc_diag *d, const char *path) {
    struct stat info;
    char *folder = tcc__path_folder(path);
    if (!folder) return tcc_enomem(d);
    const tcc_status status = stat(folder, &info)
                                  ? tcc_error(d, TCC_EIO, (tcc_loc){folder, 0}, "%s", tcc__errno(errno).text)
                                  : check_owner(d, folder, &info);
    tcc__free(folder);
    return status;
}

tcc_status tcc_cache_prepare(tcc_diag *d, const char *path, bool *read_only) {
    char *copy = tcc__strdup(path);
    if (!copy) return tcc_enomem(d);
    const tcc_status made = make_folders(d, copy);
    tcc__free(copy);
    TCC_TRY(made);
    TCC_TRY(check_folder(d, path));
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    *read_only = fd < 0 && (errno == EACCES || errno == EROFS);
    if (*read_only) fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return tcc_error(d, TCC_EIO, (tcc_loc){path, 0}, "cannot open the file: %s",
                         errno == ELOOP ? "it is a symbolic link" : tcc__errno(errno).text);
    struct stat info;
    const tcc_status status = fstat(fd, &info) ? tcc_error(d, TCC_EIO, (tcc_loc){path, 0}, "%s", tcc__errno(errno).text)
                                               : check_owner(d, path, &info);
    close(fd);
    return status;
}
