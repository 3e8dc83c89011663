#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every public header compiles alone, as C17 and as C++17, without a warning: headers.sh CC INCLUDE_DIR
set -u
cc=$1 include=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0 count=0
cxx=$(command -v c++ g++ clang++ clang++-19 | head -n 1)
[ -n "$cxx" ] || echo "skipped as C++: no C++ compiler"
for header in "$include"/traincc/*.h; do
    name=traincc/$(basename "$header")
    printf '#include <%s>\nint traincc_header_probe;\n' "$name" >"$scratch/probe.c"
    cp "$scratch/probe.c" "$scratch/probe.cc"
    "$cc" -std=c17 -Wall -Wextra -Wpedantic -Werror -I"$include" -fsyntax-only "$scratch/probe.c" ||
        { echo "lint: $name as C"; failed=1; }
    if [ -n "$cxx" ]; then
        "$cxx" -std=c++17 -Wall -Wextra -Werror -I"$include" -fsyntax-only "$scratch/probe.cc" ||
            { echo "lint: $name as C++"; failed=1; }
    fi
    count=$((count + 1))
done
[ $count -gt 0 ] || { echo "lint: no header in $include/traincc"; failed=1; }
[ $failed -eq 0 ] && echo "$count headers"
exit $failed
