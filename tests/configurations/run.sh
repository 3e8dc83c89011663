#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Another build of this tree and its tests:
#   run.sh build CLANG SOURCE_DIR BUILD_DIR SANITIZERS FUZZ_SECONDS TARGET
#   run.sh test BUILD_DIR JOBS CTEST_ARGUMENT...
set -eu
action=$1
shift
case $action in
build)
    clang=$1 source=$2 folder=$3 sanitizers=$4 seconds=$5 target=$6
    [ -x "$clang" ] || { echo "skipped: no clang (Debian: clang-19, libclang-rt-19-dev)"; exit 77; }
    mkdir -p "$folder"
    name=${clang##*/}
    linker=-fuse-ld=lld # it takes a fifth of the time
    "$clang" $linker -x c -o "$folder/linked" - <<<'int main(void) { return 0; }' 2>/dev/null || linker=
    # Debug: assertions, and the verifier after every pass; optimized a little, because the tests are to end. Fuzzers do
    # without traced comparisons, which take a third of the time: they have corpora and dictionaries.
    cmake -G Ninja -S "$source" -B "$folder" -DCMAKE_C_COMPILER="$clang" \
        -DCMAKE_CXX_COMPILER="${clang%/*}/${name/clang/clang++}" -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_EXE_LINKER_FLAGS="$linker" -DCMAKE_C_FLAGS_DEBUG="-O1 -g1 -fno-sanitize-coverage=trace-cmp" \
        -DTCC_SANITIZE="$sanitizers" -DTCC_FUZZ_SECONDS="$seconds" -DTCC_TEST_PATIENCE="$TCC_TEST_PATIENCE" \
        -DTCC_TEST_CONFIGURATIONS=OFF \
        >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; exit 1; }
    ninja -C "$folder" --quiet "$target"
    rm -rf "$folder"/tests/kernels/*
    ;;
test)
    folder=$1 jobs=$2
    shift 2
    [ -e "$folder/CTestTestfile.cmake" ] || { echo "skipped: not built (no clang)"; exit 77; }
    unset TMPDIR TCC_CACHE_DIR ASAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS # the inner tests set their own
    ctest --test-dir "$folder" --output-on-failure --no-tests=error --parallel "$jobs" "$@" || {
        status=$?
        # fuzzers, which are run alone, share the folder's log; their lines are the last ones anyway
        [ "$1" = -R ] || "$(dirname "$0")/failures.sh" "$folder"
        exit $status
    }
    ;;
*)
    sed -n '3,5p' "$0"
    exit 2
    ;;
esac
