#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The last lines of each failed test, from the log of ctest's last run: failures.sh BUILD_DIR
# Whoever reads a long log sees its end, and ctest's summary says just who failed. Where a test ran a ctest of its own
# and ended with this, its lines begin where that began.
set -eu
awk -v most=40 '
    !inside && $2 == "Testing:" { name = $3 }
    !inside && $0 == "Output:" { getline; inside = 1; count = begins = 0; next }
    inside && /<end of output>$/ { sub(/<end of output>$/, ""); inside = 0; ended = 1 }
    inside || ended {
        if (!ended || $0 != "")
            line[++count] = $0
        if (!begins && /^=== the last lines of /)
            begins = count
        ended = 0
    }
    $0 == "Test Failed." && !inside {
        print "=== the last lines of " name
        first = begins ? begins : count > most ? count - most + 1 : 1
        for (i = first; i <= count; i++)
            print line[i]
    }' "$1/Testing/Temporary/LastTest.log"
