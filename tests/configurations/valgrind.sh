#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs a program under valgrind's memcheck; any error or definite leak fails: valgrind.sh VALGRIND PROGRAM [ARGUMENT...]
set -eu
valgrind=$1
shift
[ -x "$valgrind" ] || { echo "skipped: no valgrind"; exit 77; }
exec "$valgrind" --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
    --suppressions="$(dirname "$0")/valgrind.supp" "$@"
