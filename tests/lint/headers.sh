#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every public header compiles alone, as C17 and as C++17, without a warning, and languages.c, which uses the macros, in
# each version of both languages by each compiler: headers.sh CC INCLUDE_DIR
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
cp "${0%/*}/languages.c" "$scratch/languages.c"
cp "${0%/*}/languages.c" "$scratch/languages.cc"
try() { # COMPILER STANDARD FILE
    command -v "$1" >/dev/null || { echo "skipped $2 by $1: there is none"; return; }
    "$1" "-std=$2" -Wall -Wextra -Wpedantic -Werror -I"$include" -fsyntax-only "$scratch/$3" ||
        { echo "lint: macros as $2 by $1"; failed=1; }
}
for standard in c11 c17 c2x; do try gcc $standard languages.c; try clang-19 $standard languages.c; done
for standard in c++17 c++20; do try g++ $standard languages.cc; try clang++-19 $standard languages.cc; done
[ $count -gt 0 ] || { echo "lint: no header in $include/traincc"; failed=1; }
[ $failed -eq 0 ] && echo "$count headers"
exit $failed
