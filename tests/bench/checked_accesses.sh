#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# All tests of numerics and random programs, with each access of a host kernel checked against its buffer's bounds and
# what has been written (TCC_CHECK_ACCESS, codegen/program.h). The suite does that for some of them.
#     checked_accesses.sh BUILD [TEST...]
# CHECKED_PROGRAMS and CHECKED_NETS say how many random ones are run (200 and 60). A line for each: seconds of processor
# time, and whether it passed. Exit status 1 where one did not.
set -u
build=$(cd "${1:?a build folder}" && pwd)
shift
source=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TCC_CHECK_ACCESS=1 TCC_CACHE_DISABLE=1 TCC_POISON=1
TIMEFORMAT='%U'
failed=0

run() {
    local name=$1 seconds verdict=passed
    shift
    seconds=$({ time (cd "$scratch" && "$@" >"$scratch/$name.log" 2>&1; echo $? >"$scratch/status"); } 2>&1)
    [ "$(cat "$scratch/status")" = 0 ] || { verdict=FAILED; failed=1; }
    printf '%-24s %8s %s\n' "$name" "$seconds" "$verdict"
    [ $verdict = passed ] || tail -20 "$scratch/$name.log"
}

tests=("$@")
[ $# -gt 0 ] || mapfile -t tests < <(basename -s .c "$source"/tests/numerics/test_*.c; echo campaign; echo net_campaign)
for name in "${tests[@]}"; do
    case $name in
    campaign) LD_LIBRARY_PATH=$build/ptxsim run campaign "$build/bin/campaign" 1 "${CHECKED_PROGRAMS:-200}" ;;
    net_campaign) run net_campaign "$build/bin/net_campaign" 1 "${CHECKED_NETS:-60}" ;;
    *) run "$name" "$build/tests/$name" ;;
    esac
done
exit $failed
