#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what the tests need, builds, and runs everything: tests/run.sh [CTEST_ARGUMENT...]
# It ends with ctest's summary, and then the last lines of each test that failed. The sanitizer builds, the fuzzers,
# valgrind and the install are tests like the others (see `ctest -N`); what cannot run here is counted as skipped and
# says why. For the edit loop: cmake --build build && ctest --test-dir build -L fast
set -eu
cd "$(dirname "$0")/.."
./tools/deps.sh --test
cmake -G Ninja -B build -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON -DTCC_TEST_CONFIGURATIONS=ON
cmake --build build
rm -rf build/tests/kernels/* # each is compiled once more, by the first test that has it
# ctest begins with what failed last time; what wants all cores would wait behind it until the end
rm -f build/Testing/Temporary/LastTestsFailed.log
# one more than cores: some tests sleep, to see what ends processes
ctest --test-dir build --output-on-failure --parallel "$(($(nproc) + 1))" "$@" || {
    status=$?
    tests/configurations/failures.sh build
    exit $status
}
