#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A source that is planted in any folder of the library is built, once: built.sh CMAKE SOURCE_DIR BUILD_DIR
# The tree is copied and configured again, with what BUILD_DIR has found out of the compiler and of libraries.
set -u
cmake=$1 source=$2 build=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree made=$scratch/made
mkdir -p "$tree" "$made/CMakeFiles"
cp -r "$source"/{CMakeLists.txt,LICENSE,README.md,frontend,ir,passes,codegen,runtime,tools} "$tree"
# runtime/comm_mpi is built once for each MPI library that is here
mapfile -t folders < <(cd "$tree" && find frontend ir passes codegen runtime -name '*.c' -printf '%h\n' |
    grep -vx runtime/comm_mpi | sort -u)
for folder in "${folders[@]}"; do
    echo 'extern int tcc_planted;' >"$tree/$folder/conv.c"
done
sed "s|$build|@made@|g; s|$source|@tree@|g; s|@made@|$made|g; s|@tree@|$tree|g" "$build/CMakeCache.txt" \
    >"$made/CMakeCache.txt"
cp -r "$build"/CMakeFiles/[0-9]* "$made/CMakeFiles"
"$cmake" -S "$tree" -B "$made" -DBUILD_TESTING=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >"$scratch/log" 2>&1 ||
    { cat "$scratch/log"; exit 1; }
failed=0
for folder in "${folders[@]}"; do
    times=$(grep -c "\"file\": \"$tree/$folder/conv.c\"" "$made/compile_commands.json")
    [ "$times" -eq 1 ] || { echo "lint: a new $folder/conv.c is built $times times"; failed=1; }
done
[ $failed -eq 0 ] && echo "a new source in any of ${#folders[@]} folders is built once"
exit $failed
