// SPDX-License-Identifier: MIT
// Stands in for libFuzzer where the compiler has none: gives each file named, or each file of a folder named, to the
// target once.
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path, long size) {
    FILE *file = fopen(path, "rb");
    // Exactly `size` bytes on the heap, so that a tool sees a read past the end.
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    if (file == NULL || data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        free(data);
        if (file != NULL) {
            fclose(file);
        }
        return -1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 1;
}

// The number of files replayed, or -1 after a message.
static int replay(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    if (!S_ISDIR(info.st_mode)) {
        return replay_file(path, (long)info.st_size);
    }
    DIR *folder = opendir(path);
    if (folder == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    int count = 0;
    const struct dirent *entry;
    while (count >= 0 && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        char name[4096];
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        int more = replay(name);
        count = more < 0 ? -1 : count + more;
    }
    closedir(folder);
    return count;
}

int main(int argc, char **argv) {
    int count = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        int more = replay(argv[i]);
        if (more < 0) {
            return 1;
        }
        count += more;
    }
    printf("%d inputs\n", count);
    return 0;
}
