#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What failures.sh says of tests that pass, fail, are skipped, and hold tests of their own: failures_test.sh CMAKE CTEST
set -eu
cmake=$1 ctest=$2
failures=$(dirname "$0")/failures.sh
rm -rf tree && mkdir -p tree
cat >tree/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(failing NONE)
enable_testing()
add_test(NAME passes COMMAND echo unseen)
add_test(NAME skips COMMAND sh -c "echo unseen; exit 77")
set_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME short COMMAND sh -c "echo said; exit 1")
add_test(NAME long COMMAND sh -c "seq 100; printf 'no end of line'; exit 1")
add_test(NAME silent COMMAND false)
add_test(NAME outer COMMAND sh -c "echo unseen; echo '=== the last lines of inner'; seq 200 260; exit 1")
END
"$cmake" -S tree -B tree/build >/dev/null
! "$ctest" --test-dir tree/build >/dev/null 2>&1
"$failures" tree/build >seen
{
    printf '%s\n' '=== the last lines of short' said '=== the last lines of long'
    seq 62 100
    printf '%s\n' 'no end of line' '=== the last lines of silent' '=== the last lines of outer' \
        '=== the last lines of inner'
    seq 200 260
} | diff - seen
echo "the last lines of four failed tests"
