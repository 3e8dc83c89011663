/* SPDX-License-Identifier: MIT
 * What was read, in words. */
#ifndef TCC_RUNTIME_DATA_DESCRIBE_H
#define TCC_RUNTIME_DATA_DESCRIBE_H

#include "ir/support/strbuf.h"

/* A line that says what may be a mistake. */
#define tcc__warn(out, format, ...) tcc_strbuf_printf(out, "warning: " format "\n", __VA_ARGS__)

#endif
