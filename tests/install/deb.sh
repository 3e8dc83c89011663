#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes the Debian package of a build and uses what is in it: deb.sh CPACK CC BUILD_DIR
set -eu
cpack=$1 cc=$2 build=$3
here=$(cd "$(dirname "$0")" && pwd)
for tool in dpkg-deb dpkg-shlibdeps; do
    command -v $tool >/dev/null || { echo "skipped: no $tool here"; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$cpack" --config "$build/CPackConfig.cmake" -B "$scratch" -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip >"$scratch/log" 2>&1 ||
    { cat "$scratch/log"; exit 1; }
package=$(echo "$scratch"/*.deb)
dpkg-deb -I "$package"
fail() { echo "$1"; exit 1; }

# What it says of itself.
field() { dpkg-deb -f "$package" "$1"; }
version=$(sed -n 's/^project(traincc VERSION \([0-9.]*\).*/\1/p' "$here/../../CMakeLists.txt")
[ "$(field Package) $(field Version)" = "traincc $version-1" ] || fail "wrong name or version"
for library in libc6 libllvm libyaml libcjson libutf8proc libpng libjpeg libwebp libzstd libsqlite3 zlib1g; do
    field Depends | grep -q "$library" || fail "it does not depend on $library: $(field Depends)"
done
if field Depends | grep -E 'mpi(ch)?[0-9]'; then fail "it needs an MPI library"; fi
dpkg-deb --ctrl-tarfile "$package" | tar -xO ./shlibs | grep "^libtraincc ${version%.*} traincc" ||
    fail "no shlibs for the soname"
dpkg-deb --ctrl-tarfile "$package" | tar -xO ./triggers | grep ldconfig || fail "ldconfig is not called"

# Where files lie. All are below /usr, for root, with the usual rights.
dpkg-deb -x "$package" "$scratch/root"
(cd "$scratch/root" && find . ! -type d | sort) >"$scratch/files"
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || "$cc" -print-multiarch)
for file in bin/tcc-train bin/tcc-opt include/traincc/traincc.h "lib/$multiarch/libtraincc.so.${version%.*}" \
    "lib/$multiarch/libtraincc.a" "lib/$multiarch/pkgconfig/traincc.pc" \
    "lib/$multiarch/cmake/traincc/traincc-config.cmake" share/man/man1/tcc-train.1.gz share/man/man1/tcc-opt.1.gz \
    share/bash-completion/completions/tcc-train share/bash-completion/completions/tcc-opt \
    share/traincc/recipes/char-gpt.yaml share/doc/traincc/copyright share/doc/traincc/changelog.Debian.gz; do
    grep -qx "./usr/$file" "$scratch/files" ||
        fail "it has no /usr/$file (a build folder with an old path: cmake -U CMAKE_INSTALL_LIBDIR $build)"
done
[ ! -d "$build/manual/man" ] || grep -qx ./usr/share/man/man3/tcc_relu.3.gz "$scratch/files" || fail "it has no man3"
if grep -v '^\./usr/' "$scratch/files"; then fail "these are not below /usr"; fi
if dpkg-deb -c "$package" | grep -vE '^(-rw-r--r--|-rwxr-xr-x|drwxr-xr-x|lrwxrwxrwx) root/root '; then fail "rights"; fi

# It runs, and programs are built with it.
usr=$scratch/root/usr
export LD_LIBRARY_PATH=$usr/lib/$multiarch
if readelf -d "$usr/bin/tcc-train" | grep -E 'RPATH|RUNPATH'; then fail "a path to libraries is built in"; fi
printf 'a,b,kind\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n' >"$scratch/table.csv"
"$usr/bin/tcc-train" "$usr/share/traincc/recipes/csv-mlp.yaml" "data.path=$scratch/table.csv" data.batch_size=2 \
    data.val_split=0 training.max_steps=3 --run-dir "$scratch/run" --device cpu
export PKG_CONFIG_PATH=$LD_LIBRARY_PATH/pkgconfig
# shellcheck disable=SC2046
"$cc" "$here/project/main.c" -o "$scratch/main" $(pkg-config --cflags --libs traincc)
"$scratch/main"
