#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What lint.circles, lint.unused, lint.benchmarks, lint.tags and lint.layers look for is planted, and they must find it:
# planted.sh CC SOURCE_DIR DIR_OF_INCLUDE_PATHS_AND_OBJECTS
set -u
cc=$1 source=$2 made=$3
lint=$source/tests/lint
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# expect STATUS WORDS COMMAND...: the command ends with that status and says the words
expect() {
    local status=$1 words=$2
    shift 2
    "$@" >"$scratch/said" 2>&1
    local got=$?
    if [ $got -ne "$status" ] || ! grep -qF -- "$words" "$scratch/said"; then
        echo "lint: $(basename "$1") ended with $got, not $status, or does not say '$words':"
        cat "$scratch/said"
        failed=1
    fi
}

# Two files beside the library's own that call each other, then one that calls the other.
objects=$scratch/CMakeFiles/planted.dir/planted
mkdir -p "$objects"
echo 'int planted_b(int); int planted_a(int x) { return planted_b(x); }' >"$scratch/a.c"
echo 'int planted_a(int); int planted_b(int x) { return x ? planted_a(x - 1) : 0; }' >"$scratch/circle.c"
echo 'int planted_b(int x) { return x; }' >"$scratch/line.c"
"$cc" -c "$scratch/a.c" -o "$objects/a.c.o" || exit 1
{ cat "$made/objects"; printf '%s\n' "$objects/a.c.o" "$objects/b.c.o"; } >"$scratch/objects"
"$cc" -c "$scratch/circle.c" -o "$objects/b.c.o" || exit 1
expect 1 'planted/a.c -> planted/b.c: planted_b' "$lint/circles.sh" "$scratch/objects"
expect 1 'planted/b.c -> planted/a.c: planted_a' "$lint/circles.sh" "$scratch/objects"
"$cc" -c "$scratch/line.c" -o "$objects/b.c.o" || exit 1
expect 0 'no circle' "$lint/circles.sh" "$scratch/objects"
expect 1 'nothing is shown' "$lint/circles.sh" <(printf '%s\n' "$objects/a.c.o" "$objects/b.c.o")

# A function that nobody calls, and one that only its own file calls.
mkdir -p "$scratch/source/tools"
for folder in frontend ir passes codegen runtime tests; do ln -s "$source/$folder" "$scratch/source/$folder"; done
planted=$scratch/source/tools/planted.c
unused=("$lint/unused.sh" "$scratch/source" "$source/frontend/include" "$scratch/objects")
echo 'int tcc_planted(int x) { return x; }' >"$planted"
"$cc" -c "$planted" -o "$objects/b.c.o" || exit 1
expect 1 'nobody in the product calls tcc_planted' "${unused[@]}"
echo 'int other(void) { return tcc_planted(0); }' >>"$planted"
expect 1 'only its own file calls tcc_planted' "${unused[@]}"

# A figure that the page of benchmarks has not got.
cp -r "$source/tests/bench/results" "$scratch/results"
sed -i 's/"mlp", "traincc", "[0-9.]*"/"mlp", "traincc", "0.01"/' "$scratch/results/peers_zen5.json"
expect 1 'is not what its results make' python3 "$source/tests/bench/page.py" --check "$scratch/results" \
    "$source/BENCHMARKS.md"

# A tag that two headers define.
mkdir -p "$scratch/tags/"{frontend,ir,passes,codegen,runtime}
echo 'typedef struct tcc_planted {' | tee "$scratch/tags/ir/one.h" >"$scratch/tags/runtime/other.h"
expect 1 'tcc_planted is defined in more than one header' "$lint/tags.sh" "$scratch/tags"

# A room that sees another one above it, and one that does not see what it may.
cp "$made"/*.includes "$scratch"
expect 0 'sees what it may include and nothing else' "$lint/layers.sh" "$cc" "$source" "$scratch"
cat "$made/passes.includes" >>"$scratch/ir.includes"
expect 1 'lint: ir may not include passes/pass.h' "$lint/layers.sh" "$cc" "$source" "$scratch"
cp "$made/ir.includes" "$scratch/passes.includes"
cp "$made/ir.includes" "$scratch"
expect 1 'lint: passes may include passes/pass.h' "$lint/layers.sh" "$cc" "$source" "$scratch"

[ $failed -eq 0 ] && echo "planted circles and includes are found"
exit $failed
