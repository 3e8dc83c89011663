#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Which lines of codegen, passes and runtime are reached by programs whose numbers another judge checks: the interpreter
# (numerics tests, random users' programs), eager (random networks), or both on the stand-in for a GPU.
#
#     coverage.sh FOLDER                     builds with clang in FOLDER, runs all of them, prints the report
#     coverage.sh FOLDER build|run|report    one part of it; the profiles of several runs add up
#
# The report is coverage.py's. FOLDER/uncovered.txt has each line that none of them has reached, with its reason.
# What to do with a line that has none: find a program of a user's kind that comes to it, and make that a case of the
# test whose numbers it is about (a value of a parameter: harness/choice_cases.c; an op: harness/op_cases.c). Break the
# line to see the case fail. Where no program can come to it, delete it; where this machine cannot, give it a row of
# REASONS in coverage.py.
# COVERAGE_PROGRAMS and COVERAGE_NETS say how many random ones are run (200 and 60).
set -eu
folder=${1:?a folder to build in} part=${2:-all}
source=$(cd "$(dirname "$0")/../.." && pwd)
programs=${COVERAGE_PROGRAMS:-200} nets=${COVERAGE_NETS:-60}
tools=
for version in 19 20 21; do
    if [ -z "$tools" ] && command -v clang-$version llvm-cov-$version llvm-profdata-$version >/dev/null; then
        tools=-$version
    fi
done
[ -n "$tools" ] || { echo "coverage.sh: clang, llvm-cov and llvm-profdata of LLVM 19 or newer are needed"; exit 2; }

# with those of units and of whole models that have another judge
host="$(basename -s .c "$source"/tests/numerics/test_*.c | tr '\n' ' ') test_codegen_attention test_codegen_contract
    test_contract test_attention test_math test_math_far test_reduce_levels test_choice test_chunk test_layout
    test_simplify test_autodiff test_accumulate test_statistics test_mixed_precision test_groups test_segments
    test_loop_programs test_regions test_chunked_head test_many_operands test_input_gradients test_checkpointing
    test_codegen_basic test_align test_distribute test_rank_models test_rank_parts"
gpu="test_gpu_ops test_gpu_random test_gpu_contract test_gpu_attention test_gpu_reduce test_gpu_scan test_gpu_scatter
    test_gpu_modes test_gpu_depthwise test_gpu_tile test_gpu_math test_gpu_prologue test_gpu_pointwise
    test_gpu_rounding test_gpu_choice test_gpu_wide test_gpu_functions test_gpu_field_cases test_gpu_user_programs
    test_cuda_libraries test_cuda_cudnn_norm test_cuda_chunked_head test_cuda_tune_library"
folder=$(mkdir -p "$folder" && cd "$folder" && pwd)

build() {
    local flags="-O1 -fprofile-instr-generate -fcoverage-mapping"
    cmake -G Ninja -S "$source" -B "$folder" -DCMAKE_C_COMPILER=clang$tools -DCMAKE_CXX_COMPILER=clang++$tools \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="$flags" -DTCC_TEST_CONFIGURATIONS=OFF \
        >"$folder/configure.log"
    # shellcheck disable=SC2086
    ninja -C "$folder" --quiet campaign net_campaign ptxsim cublasltsim cudnnsim $host $gpu
}

# A program, in a scratch folder; it need not succeed here, its own test says whether it does. The processes of one
# program add up in one file (%m).
run_one() {
    local name=$1
    shift
    (cd "$folder/scratch" && LLVM_PROFILE_FILE="$folder/profiles/$name-%m.profraw" "$@" >"$folder/$name.log" 2>&1) ||
        echo "$name failed: $folder/$name.log"
}

run() {
    export TCC_CACHE_DISABLE=1 TCC_POISON=1 TCC_VERIFY_PASSES=1 PTXSIM_LOG=none
    mkdir -p "$folder/profiles" "$folder/scratch"
    for test in $host; do run_one "$test" "$folder/tests/$test"; done
    export LD_LIBRARY_PATH=$folder/ptxsim
    for test in test_codegen_ops test_codegen_contract; do
        TCC_CHECK_ACCESS=1 run_one "checked-$test" "$folder/tests/$test"
    done
    for level in v2 v3 v4; do
        for test in test_codegen_contract test_codegen_ops test_field_cases test_math; do
            TCC_CPU=x86-64-$level run_one "$test-$level" "$folder/tests/$test"
        done
    done
    run_one campaign "$folder/bin/campaign" 1 "$programs"
    run_one net_campaign "$folder/bin/net_campaign" 1 "$nets"
    for test in $gpu; do run_one "$test" "$folder/tests/$test"; done
}

report() {
    llvm-profdata$tools merge -sparse -o "$folder/all.profdata" "$folder"/profiles/*.profraw
    local objects=()
    for name in $host $gpu; do objects+=(-object "$folder/tests/$name"); done
    llvm-cov$tools export -format=lcov -instr-profile "$folder/all.profdata" "$folder/bin/net_campaign" \
        -object "$folder/bin/campaign" "${objects[@]}" "$source"/{codegen,passes,runtime} 2>"$folder/cov.log" |
        "$source/tests/bench/coverage.py" "$source" "$folder/uncovered.txt"
    echo "lines that nothing has reached: $folder/uncovered.txt; what to do with them: head of $0"
}

case $part in
all) build; run; report ;;
build | run | report) "$part" ;;
*) sed -n '3,14p' "$0"; exit 2 ;;
esac
