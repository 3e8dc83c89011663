// SPDX-License-Identifier: MIT
#include "runtime/comm/direct.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

bool tcc_direct_begin(char token[TCC_DIRECT_TOKEN_BYTES]) {
    const char *wanted = getenv("TCC_COMM_DIRECT");
    if (wanted && !strcmp(wanted, "0")) return false;
    return getrandom(token, TCC_DIRECT_TOKEN_BYTES, GRND_NONBLOCK) == TCC_DIRECT_TOKEN_BYTES;
}

tcc_direct_place tcc_direct_place_of(const void *data, const char token[TCC_DIRECT_TOKEN_BYTES]) {
    tcc_direct_place p = {getpid(), (uint64_t)(uintptr_t)data, (uint64_t)(uintptr_t)token, {0}};
    memcpy(p.token, token, sizeof p.token);
    return p;
}

/* A call takes at most about 2 GiB, and may end early. */
static bool read_all(pid_t pid, uint64_t address, char *to, int64_t size_bytes) {
    while (size_bytes > 0) {
        const struct iovec local = {to, (size_t)size_bytes}, remote = {(void *)(uintptr_t)address, (size_t)size_bytes};
        const ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (n <= 0) return false;
        to += n;
        address += (uint64_t)n;
        size_bytes -= n;
    }
    return true;
}

bool tcc_direct_read(const tcc_direct_place *p, void *to, int64_t size_bytes) {
    char token[TCC_DIRECT_TOKEN_BYTES];
    const pid_t pid = (pid_t)p->pid;
    return read_all(pid, p->token_address, token, sizeof token) && !memcmp(token, p->token, sizeof token) &&
           read_all(pid, p->address, to, size_bytes);
}
