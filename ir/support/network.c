/* SPDX-License-Identifier: MIT
 * The networks of network.def, and those that a user gives in figures. */
#include "ir/support/network.h"

#include "ir/support/network.def"

#include <stdlib.h>
#include <string.h>

#define NETWORK(name, latency, bandwidth, what) {#name, {1e3 * (latency), (bandwidth)}},
static const struct {
    const char *name;
    tcc_network network;
} networks[] = {TCC_NETWORKS(NETWORK)};
enum { NETWORKS = sizeof networks / sizeof networks[0] };

#define ID(name, latency, bandwidth, what) NETWORK_##name,
enum { TCC_NETWORKS(ID) };
const tcc_network *const tcc_network_local = &networks[NETWORK_local].network;

#define LINE(name, latency, bandwidth, what) "  " #name " (" #latency "," #bandwidth "): " what "\n"
const char tcc_network_names[] = TCC_NETWORKS(LINE);

/* Behind a number from above 0 to a million, and the character `end`; NULL: there is none. */
static const char *read_number(const char *text, char end, double *out) {
    char *behind;
    *out = strtod(text, &behind);
    return behind != text && *behind == end && *out > 0 && *out <= 1e6 ? behind + 1 : NULL;
}

bool tcc_network_parse(const char *text, tcc_network *out) {
    for (int i = 0; i < NETWORKS; i++)
        if (!strcmp(text, networks[i].name)) {
            *out = networks[i].network;
            return true;
        }
    double latency_us, bytes_a_ns;
    const char *second = read_number(text, ',', &latency_us);
    if (!second || !read_number(second, '\0', &bytes_a_ns)) return false;
    *out = (tcc_network){1e3 * latency_us, bytes_a_ns};
    return true;
}
