/* SPDX-License-Identifier: MIT
 * Lists of files. */
#include "runtime/files/list.h"
#include "ir/support/alloc.h"
#include "runtime/files/file.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEEPEST = 64 }; /* a link may lead back to its own folder */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool take(tcc__file_list *list, char *name) {
    if (name && tcc_vec_push(list, name)) return true;
    tcc__free(name);
    return false;
}

static tcc_status unreadable(tcc_diag *d, const char *path, int error) {
    return tcc_error(d, error == ENOENT ? TCC_ENOTFOUND : TCC_EIO, (tcc_loc){path, 0}, "cannot be opened: %s",
                     tcc__errno(error).text);
}

/* The names of all entries but hidden ones. */
static tcc_status read_folder(tcc_diag *d, const char *path, tcc__file_list *names) {
    DIR *folder = opendir(path);
    if (!folder) return unreadable(d, path, errno);
    bool ok = true;
    errno = 0;
    for (const struct dirent *e; ok && (e = readdir(folder));)
        if (e->d_name[0] != '.') ok = take(names, tcc__strdup(e->d_name));
    int error = ok ? errno : 0;
    closedir(folder);
    if (!ok) return tcc_enomem(d);
    if (error) return unreadable(d, path, error);
    if (names->count) qsort(names->data, (size_t)names->count, sizeof *names->data, by_name);
    return TCC_OK;
}

static tcc_status add(tcc_diag *d, const char *path, int depth, tcc__file_list *list) {
    struct stat info;
    if (stat(path, &info)) return unreadable(d, path, errno);
    if (!S_ISDIR(info.st_mode)) return take(list, tcc__strdup(path)) ? TCC_OK : tcc_enomem(d);
    if (depth == DEEPEST)
        return tcc_error(d, TCC_EIO, (tcc_loc){path, 0}, "is more than %d folders deep; a link may lead back", DEEPEST);
    tcc__file_list names = {0};
    tcc_status status = read_folder(d, path, &names);
    for (int i = 0; i < names.count && status == TCC_OK; i++) {
        char *below = tcc__path_join(path, names.data[i]);
        status = below ? add(d, below, depth + 1, list) : tcc_enomem(d);
        tcc__free(below);
    }
    tcc__file_list_free(&names);
    return status;
}

tcc_status tcc__file_list_add(tcc_diag *d, const char *path, tcc__file_list *list) { return add(d, path, 0, list); }

tcc_status tcc__file_list_match(tcc_diag *d, const char *path, tcc__file_list *list) {
    glob_t found = {0};
    if (!strpbrk(path, "*?[") || tcc__file_exists(path)) return add(d, path, 0, list);
    const int result = glob(path, 0, NULL, &found);
    tcc_status status = !result                  ? TCC_OK
                        : result == GLOB_NOSPACE ? tcc_enomem(d)
                        : result == GLOB_NOMATCH
                            ? tcc_error(d, TCC_ENOTFOUND, (tcc_loc){path, 0}, "no file has a name like this")
                            : tcc_error(d, TCC_EIO, (tcc_loc){path, 0}, "cannot be read");
    for (size_t i = 0; i < found.gl_pathc && status == TCC_OK; i++) status = add(d, found.gl_pathv[i], 0, list);
    globfree(&found);
    return status;
}

tcc_status tcc__folder_names(tcc_diag *d, const char *path, bool folders, tcc__file_list *list) {
    tcc__file_list names = {0};
    tcc_status status = read_folder(d, path, &names);
    for (int i = 0; i < names.count && status == TCC_OK; i++) {
        char *entry = tcc__path_join(path, names.data[i]);
        struct stat info;
        if (!entry) status = tcc_enomem(d);
        else if (stat(entry, &info)) status = unreadable(d, entry, errno);
        else if (!S_ISDIR(info.st_mode) == !folders) {
            if (!take(list, names.data[i])) status = tcc_enomem(d);
            names.data[i] = NULL;
        }
        tcc__free(entry);
    }
    tcc__file_list_free(&names);
    return status;
}

void tcc__file_list_free(tcc__file_list *list) {
    for (int i = 0; i < list->count; i++) tcc__free(list->data[i]);
    tcc_vec_free(list);
}
