/* SPDX-License-Identifier: MIT
 * Messages as files. */
#include "mail.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 512 };

static void path_of(char path[PATH], const char *folder, const char *name, const char *suffix) {
    snprintf(path, PATH, "%s/%s%s", folder, name, suffix);
}

/* Folders whose process has ended and left them: it was killed. */
static void remove_left(const char *in) {
    DIR *d = opendir(in);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH / 4];
        int process;
        if (sscanf(e->d_name, "ncclsim-%d-", &process) != 1 || !kill(process, 0) || errno != ESRCH) continue;
        snprintf(path, sizeof path, "%s/%.64s", in, e->d_name);
        mail_close(path);
    }
    if (d) closedir(d);
}

bool mail_open(char *folder, size_t size) {
    const char *in = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
    remove_left(in);
    snprintf(folder, size, "%s/ncclsim-%d-XXXXXX", in, (int)getpid());
    return mkdtemp(folder) != NULL;
}

bool mail_send(const char *folder, const char *name, const void *head, size_t head_bytes, const void *data,
               size_t bytes) {
    char made[PATH], path[PATH];
    path_of(made, folder, name, ".part");
    path_of(path, folder, name, "");
    FILE *f = fopen(made, "wb");
    if (!f) return false;
    bool ok = fwrite(head, 1, head_bytes, f) == head_bytes && (!bytes || fwrite(data, 1, bytes, f) == bytes);
    ok &= fclose(f) == 0;
    return ok && rename(made, path) == 0;
}

void *mail_receive(const char *folder, const char *name, size_t *bytes) {
    char path[PATH];
    path_of(path, folder, name, "");
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f);
    rewind(f);
    void *data = malloc(*bytes + 1);
    if (data && fread(data, 1, *bytes, f) != *bytes) free(data), data = NULL;
    fclose(f);
    return data;
}

bool mail_is_there(const char *folder, const char *name) {
    char path[PATH];
    path_of(path, folder, name, "");
    return access(path, F_OK) == 0;
}

void mail_remove(const char *folder, const char *name) {
    char path[PATH];
    path_of(path, folder, name, "");
    unlink(path);
}

void mail_close(const char *folder) {
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') mail_remove(folder, e->d_name);
    if (d) closedir(d);
    rmdir(folder);
}
