#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs a build into a scratch prefix and uses it as an outside project does: run.sh CMAKE CC BUILD_DIR
set -eu
cmake=$1 cc=$2 build=$3
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

"$cmake" --install "$build" --prefix "$prefix" >/dev/null
echo "== find_package"
"$cmake" -S "$here/project" -B "$scratch/outside" -G Ninja -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$cmake" --build "$scratch/outside"
"$scratch/outside/outside"
"$scratch/outside/outside-static"

echo "== pkg-config"
libraries=$(dirname "$(find "$prefix" -name traincc.pc)")/..
export PKG_CONFIG_PATH=$libraries/pkgconfig
# shellcheck disable=SC2046
"$cc" "$here/project/main.c" -o "$scratch/by-pkg-config" $(pkg-config --cflags --libs traincc) -Wl,-rpath,"$libraries"
"$scratch/by-pkg-config"
# shellcheck disable=SC2046
"$cc" "$here/project/main.c" -o "$scratch/by-pkg-config-static" \
    $(pkg-config --static --cflags --libs traincc | sed 's/-ltraincc\b/-l:libtraincc.a/')
"$scratch/by-pkg-config-static"

echo "== Fortran"
if command -v gfortran >/dev/null; then
    # shellcheck disable=SC2046
    "$cc" -c "$here/project/layout.c" -o "$scratch/layout.o" $(pkg-config --cflags traincc)
    # shellcheck disable=SC2046
    (cd "$scratch" && gfortran -std=f2018 -Wall -Wno-c-binding-type "$prefix/include/traincc.f90" \
        "$here/project/module.f90" layout.o $(pkg-config --libs traincc) -Wl,-rpath,"$libraries" -o module && ./module)
else echo "no gfortran (Debian: gfortran): the module is not tried"; fi

echo "== programs and manual"
for program in tcc-train tcc-opt; do
    "$prefix/bin/$program" --version
    page=$prefix/share/man/man1/$program.1
    [ -s "$page" ] || { echo "$page is missing"; exit 1; }
done
for file in "$here"/../../tools/recipes/*; do # and what they read
    [ -s "$prefix/share/traincc/recipes/${file##*/}" ] || { echo "the recipe ${file##*/} is missing"; exit 1; }
done
printf 'a,b,kind\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n' >"$scratch/table.csv"
"$prefix/bin/tcc-train" "$prefix/share/traincc/recipes/csv-mlp.yaml" "data.path=$scratch/table.csv" data.batch_size=2 \
    --dry-run
if [ -d "$build/manual/man" ]; then
    for page in tcc_relu tcc_run_open tcc_mse; do
        [ -s "$prefix/share/man/man3/$page.3" ] || { echo "the page $page is missing"; exit 1; }
    done
fi

echo "== a run without a compiler"
"$prefix/bin/tcc-train" "$prefix/share/traincc/recipes/csv-mlp.yaml" "data.path=$scratch/table.csv" data.batch_size=2 \
    data.val_split=0 training.max_steps=3 --device cpu --quiet --run-dir "$scratch/run"
# shellcheck disable=SC2046
"$cc" "$here/project/predict.c" -o "$scratch/predict" $(pkg-config --cflags --libs traincc_rt) -Wl,-rpath,"$libraries"
[ -z "$(ldd "$scratch/predict" | grep -i llvm)" ] || { echo "libtraincc_rt has LLVM"; exit 1; }
"$scratch/predict" "$scratch/run" "$scratch/table.csv" >"$scratch/answers"
"$prefix/bin/tcc-train" predict --device cpu "$scratch/run" "$scratch/table.csv" | diff - "$scratch/answers"
"$prefix/bin/tcc-train" export --device cpu "$scratch/run"
"$scratch/predict" "$scratch/run/export" "$scratch/table.csv" | diff - "$scratch/answers"
echo "installed files:"
(cd "$prefix" && find . -type f -o -type l | sort)
