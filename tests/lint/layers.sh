#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Asks the compiler for a header of each other room, with each room's own include path: layers.sh CC SOURCE_DIR DIR_OF_INCLUDE_PATHS
# What may be included is there, what may not be is a file that does not exist.
set -u
cc=$1 source=$2 paths=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

<<<<<<< HEAD
# A header of each room, and what each room may include beside its own: the arrows of ARCHITECTURE.md.
declare -A header=(
    [support]=ir/support/diag.h [ir]=ir/ir.h [passes]=passes/pass.h [program]=codegen/program.h [codegen]=codegen/llvm.h
    [files]=runtime/files/file.h [data]=runtime/data/data.h [runtime]=runtime/exec.h [cpu]=runtime/cpu/pool.h
    [cuda]=runtime/cuda/driver.h [public]=traincc/array.h [frontend]=frontend/trace.h
)
declare -A arrows=(
    [support]='' [ir]='support' [passes]='support ir' [codegen]='support ir passes program'
    [files]='support public' [data]='support public files' [runtime]='support program public files'
    [cpu]='support program public runtime' [cuda]='support program public runtime'
    [frontend]='support ir public'
    [compile]='support ir passes program codegen files data runtime cpu cuda public frontend'
)
for name in "${header[@]}"; do
    [ -e "$source/$name" ] || [ -e "$source/frontend/include/$name" ] || { echo "lint: $name does not exist, so nothing is shown by it"; failed=1; }
done
for room in "${!arrows[@]}"; do
    for other in "${!header[@]}"; do
        name=${header[$other]} not='!' expected=may
        [ "$room" = "$other" ] || [[ " ${arrows[$room]} " = *" $other "* ]] || not='' expected='may not'
        printf '#if %s__has_include("%s")\n#error lint: %s %s include %s\n#endif\n' "$not" "$name" "$room" "$expected" "$name"
    done >"$scratch/probe.c"
    # shellcheck disable=SC2046
    "$cc" $(cat "$paths/$room.includes") -fsyntax-only "$scratch/probe.c" 2>"$scratch/log" && continue
    grep -o 'lint: .*' "$scratch/log" || cat "$scratch/log"
    failed=1
done
[ $failed -eq 0 ] && echo "each of ${#arrows[@]} rooms sees what it may include and nothing else"
=======
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

support=ir/support/diag.h ir=ir/ir.h passes=passes/pass.h program="codegen/program.h codegen/target.h" codegen=codegen/llvm.h runtime=runtime/pool.h
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
>>>>>>> da46141 (codegen: one description of the target by architecture, asked of the device)
exit $failed
