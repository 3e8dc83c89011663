/* SPDX-License-Identifier: MIT */
#include "harness/apart.h"

#include "harness/check.h"
#include "harness/files.h"
#include "harness/port.h"

#include <stdio.h>
#include <stdlib.h>

void start_apart(void **state, const char *recipe, const char *run, const apart *second, program_process ranks[2]) {
    char port[16];
    snprintf(port, sizeof port, "%d", test_free_port());
    setenv("WORLD_SIZE", "2", 1);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    setenv("MASTER_PORT", port, 1);
    for (int r = 1; r >= 0; r--) {
        const apart how = r && second ? *second : (apart){0};
        const program_options options = {.folder = how.folder, .environment = how.environment};
        const char *const arguments[] = {"--device", "cpu", recipe, "--run-dir", test_path(state, run),
                                         how.given,  NULL};
        setenv("RANK", r ? "1" : "0", 1);
        setenv("LOCAL_RANK", r ? "1" : "0", 1);
        ranks[r] = program_start(&options, how.program ? how.program : "tcc-train", arguments);
    }
    unsetenv("WORLD_SIZE");
}
