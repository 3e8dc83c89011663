#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes the Fortran module of the public headers: generate.sh CC INCLUDE_DIR OUTPUT
set -eu
here=$(dirname "$0")
declarations=$(printf '#include <traincc/%s.h>\n' model checkpoint plan run comm schedule data metrics |
    "$1" -E -P -I "$2" - | awk -f "$here/declarations.awk")
{
    sed '/@DECLARATIONS@/,$d' "$here/traincc.f90.in"
    printf '%s\n' "$declarations"
    sed '1,/@DECLARATIONS@/d' "$here/traincc.f90.in"
} >"$3.tmp"
mv "$3.tmp" "$3"
