/* SPDX-License-Identifier: MIT
 * Reading the memory of another process of this machine: one copy, where a socket takes two and wakes both sides for
 * each bufferful. */
#ifndef TCC_RUNTIME_COMM_DIRECT_H
#define TCC_RUNTIME_COMM_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

enum { TCC_DIRECT_TOKEN_BYTES = 16 };

/* Where bytes lie, as their owner tells it. The token is random and lies at token_address: whoever reads another one
 * there looks at another process, on another machine or in another container. */
typedef struct tcc_direct_place {
    int64_t pid;
    uint64_t address, token_address;
    char token[TCC_DIRECT_TOKEN_BYTES];
} tcc_direct_place;

/* False: the environment (TCC_COMM_DIRECT=0) does not want it, or there is no random number. Else `token` becomes one,
 * and stays where it is while places are told. */
bool tcc_direct_begin(char token[TCC_DIRECT_TOKEN_BYTES]);
tcc_direct_place tcc_direct_place_of(const void *data, const char token[TCC_DIRECT_TOKEN_BYTES]);
/* Copies `size_bytes` bytes. False: it is not allowed, or that process is not here; `to` may have changed. */
bool tcc_direct_read(const tcc_direct_place *p, void *to, int64_t size_bytes);

#endif
