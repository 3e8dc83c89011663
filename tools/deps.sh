#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs the Debian or Ubuntu packages that building TrainCC needs: tools/deps.sh [--test] [PACKAGE...]
#   --test    also what the tests need: cmocka, FileCheck, clang with sanitizers and libFuzzer, clang-format,
#             LLVM's linker, valgrind, Python, Doxygen, libmicrohttpd, dpkg-dev, file, Open MPI, MPICH,
#             gfortran
#   PACKAGE   also these
# Says what it installs; does nothing and needs no network when all is there. As root directly, with sudo otherwise.
set -euf

# V is LLVM's version: 19 or newer, the same for all its packages.
build='gcc libc6-dev cmake ninja-build pkg-config zlib1g-dev libyaml-dev libcjson-dev libutf8proc-dev libsqlite3-dev'
build+=' libpng-dev libjpeg-dev libwebp-dev libzstd-dev llvm-V-dev'
test='g++ libcmocka-dev llvm-V-tools lld-V clang-V clang-format-V libclang-rt-V-dev valgrind libc6-dbg python3'
test+=' libmicrohttpd-dev' # an example serves a run with it
test+=' chromium' # opens the page that tcc-train report makes
test+=' doxygen dpkg-dev file' # the manual; the Debian package
test+=' libopenmpi-dev openmpi-bin libmpich-dev mpich' # 31 MB; each makes a module, and starts ranks
test+=' gfortran' # the Fortran module
llvm_versions='19 20 21 22'

needed=$build
while [ $# -gt 0 ]; do
    case $1 in
    --test) needed="$needed $test" ;;
    -*) sed -n '3,8p' "$0" >&2; exit 2 ;;
    *) needed="$needed $1" ;;
    esac
    shift
done

command -v apt-get >/dev/null || { echo "deps: this is no Debian or Ubuntu; install by hand: $needed" >&2; exit 1; }
as_root() {
    if [ "$(id -u)" = 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        command -v sudo >/dev/null || { echo "deps: run this as root, or install sudo" >&2; exit 1; }
        sudo env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
available() { apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'; }

# The version that is installed, else the one that the package sources have.
llvm_version() {
    local v
    for v in $llvm_versions; do ! installed "llvm-$v-dev" || { echo "$v"; return; }; done
    for v in $llvm_versions; do ! available "llvm-$v-dev" || { echo "$v"; return; }; done
}

# Sets `missing` to what is to be installed, `unknown` to what is needed and not in the package lists.
look() {
    local version name
    missing='' unknown='' version=$(llvm_version)
    for name in $needed; do
        name=${name//-V/-${version:-19}}
        if installed "$name"; then continue; fi
        if available "$name"; then missing="$missing $name"; else unknown="$unknown $name"; fi
    done
}

look
if [ -n "$unknown" ]; then
    echo "deps: the package lists do not know$unknown; updating them"
    as_root apt-get update -qq
    look
fi
if [ -n "$unknown" ]; then
    echo "deps: no package$unknown in this system's package sources; Debian 12 and Ubuntu 24.04 have it" >&2
    exit 1
fi
if [ -z "$missing" ]; then
    echo "deps: everything is installed"
    exit 0
fi
echo "deps: installing$missing"
read -ra packages <<<"$missing"
install() { as_root apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null; }
if ! install; then
    echo "deps: trying again with fresh package lists"
    as_root apt-get update -qq
    install
fi
echo "deps: done"
