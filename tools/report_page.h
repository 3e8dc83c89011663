/* SPDX-License-Identifier: MIT
 * One HTML page of one or more runs, which needs no other file. */
#ifndef TCC_TOOLS_REPORT_PAGE_H
#define TCC_TOOLS_REPORT_PAGE_H

#include "run_record.h"

#include <stdio.h>

/* At most CHART_COLORS runs. Errors stay in the stream; false: memory is short. */
bool report_page(FILE *out, const run_record *runs, int count);

#endif
