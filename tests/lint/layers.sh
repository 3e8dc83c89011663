#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compiles one include a folder and layer with that folder's own include path: layers.sh CC SOURCE_DIR DIR_OF_INCLUDE_PATHS
# What may be included compiles, what may not be is a file that does not exist.
set -u
cc=$1 source=$2 paths=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# check FOLDER may|may_not HEADER...
check() {
    local folder=$1 expected=$2 header found
    shift 2
    for header in "$@"; do
        if [ ! -e "$source/$header" ] && [ ! -e "$source/frontend/include/$header" ]; then
            echo "lint: $header does not exist, so nothing is shown by it"
            failed=1
        fi
        printf '#include "%s"\n' "$header" >"$scratch/probe.c"
        # shellcheck disable=SC2046
        if "$cc" -std=gnu17 -D_GNU_SOURCE $(cat "$paths/$folder.includes") -fsyntax-only "$scratch/probe.c" 2>"$scratch/log"; then
            found=may
        elif grep -q "fatal error: '\?$header'\?:\? \(No such file\|file not found\)" "$scratch/log"; then
            found=may_not
        else
            found="fails to compile: $(head -n 3 "$scratch/log")"
        fi
        if [ "$found" != "$expected" ]; then
            echo "lint: $folder $expected include $header, but: $found"
            failed=1
        fi
    done
}

support=ir/support/diag.h ir=ir/ir.h passes=passes/pass.h program=codegen/program.h codegen=codegen/llvm.h runtime=runtime/pool.h
public=traincc/array.h
check support may "$support"
check support may_not $ir $passes $program $codegen $runtime $public
check ir may $support $ir
check ir may_not $passes $program $codegen $runtime $public
check passes may $support $ir $passes
check passes may_not $program $codegen $runtime $public
check codegen may $support $ir $passes $program $codegen
check codegen may_not $runtime $public
check runtime may $support $program $runtime $public
check runtime may_not $ir $passes $codegen
check frontend may $support $ir $public
check frontend may_not $passes $program $codegen $runtime
check compile may $support $ir $passes $program $runtime $public
[ $failed -eq 0 ] && echo "every folder sees its layers and no other"
exit $failed
