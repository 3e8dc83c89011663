/* SPDX-License-Identifier: MIT
 * What a collective takes, by a model of the network between ranks (Hockney 1994): each message takes `latency_ns`, and
 * a rank sends and receives `bytes_a_ns` at the same time.
 *
 * A sum over n ranks is reduced part by part, by exchanges of each rank with all others, and the parts are gathered
 * likewise (runtime/comm/comm.c). Gathering and scattering are half of that. */
#ifndef TCC_SUPPORT_NETWORK_H
#define TCC_SUPPORT_NETWORK_H

#include <stdbool.h>

typedef struct tcc_network {
    double latency_ns, bytes_a_ns;
} tcc_network;

/* That between processes of one machine, by sockets. */
extern const tcc_network *const tcc_network_local;

/* Half of an all-reduce of so many bytes: a reduce-scatter of them, or an all-gather to them. */
static inline double tcc_network_half_ns(const tcc_network *n, int ranks, double bytes) {
    return (ranks - 1) * (n->latency_ns + bytes / ranks / n->bytes_a_ns);
}

/* So many bytes from one rank to all others, one after another. */
static inline double tcc_network_broadcast_ns(const tcc_network *n, int ranks, double bytes) {
    return (ranks - 1) * (n->latency_ns + bytes / n->bytes_a_ns);
}

/* Reads a network by its name in network.def, or as "LATENCY,BANDWIDTH" in microseconds and in GB/s, which are above 0
 * and at most a second and a million. False: `text` is neither. */
bool tcc_network_parse(const char *text, tcc_network *out);
/* Their names and figures, a line each, for a person. */
extern const char tcc_network_names[];

/* The bytes from which on latency is at most 1/16 of the time of an all-reduce. */
static inline double tcc_network_bucket_bytes(const tcc_network *n, int ranks) {
    enum { SHARE = 16 };
    return (SHARE - 1) * n->latency_ns * n->bytes_a_ns * ranks;
}

#endif
